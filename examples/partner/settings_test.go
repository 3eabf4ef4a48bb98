package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// from makes an environment of name=value.
func from(variables ...string) func(string) string {
	return func(name string) string {
		for _, v := range variables {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func TestSettingsComeFromFlagsAndTheEnvironment(t *testing.T) {
	secret, old := fileWith(t, "a new key\n"), fileWith(t, "an old key")
	service := []string{"-service", "https://pay.example", "-partner", "1", "-project", "2", "-secret-file", secret}
	for _, test := range []struct {
		name        string
		args        []string
		environment []string
		check       func(t *testing.T, set *settings)
	}{
		{"nothing is the demo, serving", nil, nil, func(t *testing.T, set *settings) {
			assert.Equal(t, "serve", set.Command)
			assert.Empty(t, set.Service+set.Database)
			assert.NotEmpty(t, string(set.Secret))
			assert.NotNil(t, set.NotFound)
			assert.Equal(t, 2*time.Minute, set.Lease)
			assert.Equal(t, 15*time.Minute, set.GiveUp)
			assert.Equal(t, paymentsvc.AnyAge, set.Tolerance)
		}},
		{"a service", append(service, "-old-secret-file", old), nil, func(t *testing.T, set *settings) {
			assert.Equal(t, "https://pay.example", set.Service)
			assert.Equal(t, []string{"a new key", "an old key"}, []string{string(set.Secret), string(set.OldSecret)})
			assert.Equal(t, []int64{1, 2}, []int64{set.Partner, set.Project})
			assert.Nil(t, set.NotFound, "no code is known, so no error says that there is no such payment")
			assert.Nil(t, set.DecodeError)
		}},
		{"the environment", []string{"-partner", "1", "-project", "2"},
			[]string{"DATABASE_URL=postgres://db", "PAYMENTSVC_URL=https://pay.example", "PAYMENTSVC_SECRET_FILE=" + secret},
			func(t *testing.T, set *settings) {
				assert.Equal(t, "postgres://db https://pay.example a new key", set.Database+" "+set.Service+" "+string(set.Secret))
			}},
		{"a flag comes before the environment", []string{"-database", "file.db"}, []string{"DATABASE_URL=postgres://db"},
			func(t *testing.T, set *settings) { assert.Equal(t, "file.db", set.Database) }},
		{"a flag that is empty does too", []string{"-service", ""}, []string{"PAYMENTSVC_URL=https://pay.example"},
			func(t *testing.T, set *settings) { assert.Empty(t, set.Service) }},
		{"flags on both sides of the words", []string{"-log", "json", "payouts", "-payout-workers", "3", "march.csv", "-payouts-per-second", "2.5"}, nil,
			func(t *testing.T, set *settings) {
				assert.Equal(t, []string{"payouts", "march.csv"}, append([]string{set.Command}, set.Args...))
				assert.True(t, set.LogJSON)
				assert.Equal(t, 3, set.PayoutWorkers)
				assert.InDelta(t, 2.5, set.PayoutsPerSecond, 0)
			}},
		{"make-payouts needs no service", []string{"make-payouts", "10"}, []string{"PAYMENTSVC_URL=https://pay.example"},
			func(t *testing.T, set *settings) { assert.Equal(t, []string{"10"}, set.Args) }},
		{"limits", []string{"-tolerance", "1m", "-give-up", "1h", "-call-timeout", "10s", "-grace", "10s"}, nil,
			func(t *testing.T, set *settings) {
				assert.Equal(t, []time.Duration{time.Minute, time.Hour, 10 * time.Second, 10 * time.Second},
					[]time.Duration{set.Tolerance, set.GiveUp, set.CallTimeout, set.Grace})
			}},
		{"a collector of traces", nil, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"},
			func(t *testing.T, set *settings) { assert.True(t, set.Traces) }},
		{"names of the operators' page", []string{"-admin-hosts", "a.example, b.example,"}, nil,
			func(t *testing.T, set *settings) { assert.Equal(t, []string{"a.example", "b.example"}, set.AdminHosts) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			var said strings.Builder
			set, code := readSettings(test.args, from(test.environment...), &said)
			require.NotNil(t, set, said.String())
			require.Zero(t, code)
			test.check(t, set)
		})
	}
}

func TestSettingsThatMakeNoSenseAreRefused(t *testing.T) {
	secret := fileWith(t, "a key")
	service := func(more ...string) []string {
		return append([]string{"-service", "https://pay.example", "-partner", "1", "-project", "2", "-secret-file", secret}, more...)
	}
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"a service without a secret", []string{"-service", "https://pay.example", "-partner", "1", "-project", "2"}, "-service needs"},
		{"a service without ids", []string{"-service", "https://pay.example", "-secret-file", secret}, "-service needs"},
		{"a service that is no address", []string{"-service", "pay.example"}, "-service is not an address"},
		{"no such file", service("-secret-file", "no-such-file"), "-secret-file: open no-such-file"},
		{"an empty secret", service("-secret-file", fileWith(t, "\n")), "-secret-file: the file is empty"},
		{"an empty old secret", service("-old-secret-file", fileWith(t, "")), "-old-secret-file: the file is empty"},
		{"one error field", service("-error-fields", "code"), "-error-fields wants two names"},
		{"codes without fields", service("-not-found-codes", "E1"), "-not-found-codes and -duplicate-codes need -error-fields"},
		{"duplicates without fields", service("-duplicate-codes", "E2"), "-not-found-codes and -duplicate-codes need -error-fields"},
		{"a lease that a call outlives", []string{"-call-timeout", "1m", "-lease", "2m"}, "-lease must be more than twice"},
		{"no time for a call", []string{"-call-timeout", "0"}, "-lease must be more than twice"},
		{"a grace that a call outlives", []string{"-call-timeout", "10s", "-grace", "9s"}, "-grace must be at least -call-timeout"},
		{"nothing is given up", []string{"-give-up", "0"}, "-give-up must be positive"},
		{"a tolerance below nothing", []string{"-tolerance", "-1ns"}, "-tolerance is negative"},
		{"no workers", []string{"-payout-workers", "0"}, "-payout-workers must be at least 1"},
		{"a rate that is none", []string{"-payouts-per-second", "NaN"}, "-payouts-per-second is no rate"},
		{"a form of the log", []string{"-log", "xml"}, "-log is neither"},
		{"a level of the log", []string{"-log-level", "loud"}, "-log-level"},
		{"a command", []string{"melt"}, "the commands are serve"},
		{"payouts of nothing", []string{"payouts"}, "payouts takes 1 argument"},
		{"payouts of two files", []string{"payouts", "a", "b"}, "payouts takes 1 argument"},
		{"a number that is none", []string{"make-payouts", "many"}, "make-payouts takes the number"},
		{"an unknown flag", []string{"-melt"}, "flag provided but not defined"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var said strings.Builder
			set, code := readSettings(test.args, from(), &said)
			require.Nil(t, set)
			require.Equal(t, exitUsage, code)
			require.Contains(t, said.String(), test.want)
		})
	}
}

func TestHelpTellsNothingOfTheEnvironment(t *testing.T) {
	var said strings.Builder
	set, code := readSettings([]string{"-help"}, from("DATABASE_URL=postgres://me:a-password@db", "PAYMENTSVC_URL=https://pay.example"), &said)
	require.Nil(t, set)
	require.Zero(t, code)
	for _, flag := range []string{"-database", "-service", "-secret-file", "-not-found-codes", "-demo-faults"} {
		assert.Contains(t, said.String(), flag)
	}
	assert.NotContains(t, said.String(), "a-password")
}

func TestOnlyTheCodesThatWereGivenMeanNotFound(t *testing.T) {
	failure := func(outcome paymentsvc.Outcome, err error) *paymentsvc.Error {
		return &paymentsvc.Error{Outcome: outcome, HTTPStatus: http.StatusNotFound, Err: err}
	}
	is := notFound("E404, gone")
	for _, test := range []struct {
		name string
		err  *paymentsvc.Error
		want bool
	}{
		{"the code", failure(paymentsvc.OutcomeRejected, &paymentsvc.ServiceError{Code: "E404"}), true},
		{"the other code", failure(paymentsvc.OutcomeRejected, &paymentsvc.ServiceError{Code: "gone"}), true},
		{"another code", failure(paymentsvc.OutcomeRejected, &paymentsvc.ServiceError{Code: "E40"}), false},
		{"HTTP 404 without a code, from a proxy for instance", failure(paymentsvc.OutcomeRejected, assert.AnError), false},
		{"the code, but nobody knows", failure(paymentsvc.OutcomeUnknown, &paymentsvc.ServiceError{Code: "E404"}), false},
	} {
		assert.Equal(t, test.want, is(test.err), test.name)
	}
	assert.Nil(t, notFound(" ,"))
}

func TestAnErrorThatUserDataWasUsedBeforeProvesNothing(t *testing.T) {
	decode, err := errorFields("code,message", "E9, repeated")
	require.NoError(t, err)
	for body, want := range map[string]paymentsvc.Effect{
		`{"code":"E9"}`: paymentsvc.EffectPossible, `{"code":"repeated"}`: paymentsvc.EffectPossible,
		`{"code":"E17"}`: paymentsvc.EffectByStatus,
	} {
		reported := decode(http.StatusUnprocessableEntity, []byte(body))
		require.NotNil(t, reported, body)
		assert.Equal(t, want, reported.Effect, body)
	}
	assert.Nil(t, decode(http.StatusOK, []byte(`{"order_id":"1"}`)))
}

// fileWith gives the path of a file that holds text.
func fileWith(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
