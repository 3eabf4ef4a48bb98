package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestSettingsRejectInvalidValues(t *testing.T) {
	service := []string{
		"-service", "https://pay.example", "-service-name", "pay", "-partner", "1", "-project", "2",
		"-scheme", demoScheme, "-secret-file", fileWith(t, key), "-error-fields", "code,message",
		"-database", "never-opened.db",
	}
	with := func(args ...string) []string { return append(append([]string{}, service...), args...) }
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"pay"}, "the commands are"},
		{[]string{"payouts"}, "wrong number of arguments"},
		{[]string{"results", "a", "b"}, "wrong number of arguments"},
		{[]string{"make-payouts", "none"}, "a number of rows"},
		{[]string{"-nonsense"}, "flag provided but not defined"},
		{[]string{"-slots", "0"}, "want -slots of 1 or more"},
		{[]string{"-expect-total", "a lot", "check", "x"}, "invalid value"},
		{[]string{"-service", "https://pay.example", "-database", "x"}, "-service needs"},
		{[]string{"-service", "https://pay.example"}, "need -database"},
		{[]string{"-service", "https://pay.example", "payouts", "x"}, "need -database"},
		{[]string{"hold", "a restore"}, "need -database"},
		{[]string{"-database", "x.db", "hold", "a restore"}, "needs -service"},
		{[]string{"-database", "x.db", "payouts", "x"}, "needs -service"},
		{[]string{"-database", "x.db", "check", "x"}, "needs -service"},
		{[]string{"-database", "x.db"}, "needs -service"},
		{[]string{"-admin-user", "ada", "-admin-user-header", "X-User"}, "not both"},
		{[]string{"-pending-review", "-1h"}, "negative"},
		{[]string{"-expect-rows", "0", "check", "x"}, "want a number above 0"},
		{with("-secret-file", fileWith(t, "\n")), "the file is empty"},
		{with("-secret-file", "/nowhere"), "-secret-file: open /nowhere"},
		{with("-service-name", ""), "-service needs -service-name"},
		{with("-scheme", "hex(timestamp"), "-scheme: "},
		{with("-error-fields", "code"), "names of two fields"},
		{with("-error-fields", "", "-not-found-codes", "none"), "-scheme and -error-fields"},
	} {
		assert.Contains(t, command(t, exitUsage, c.args...), c.text)
	}
	assert.Contains(t, command(t, exitDone, "-help"), "Exit status")
}

func TestSettingsComeFromFlagsAndTheEnvironment(t *testing.T) {
	var out output
	environment := from(
		"DATABASE_URL=postgres://me:hunter2@db", "PAYMENTSVC_URL=https://pay.example/",
		"PAYMENTSVC_SECRET_FILE="+fileWith(t, key+"\n"),
	)
	set, code := readSettings([]string{
		"-service-name", "pay", "-partner", "1", "payouts", "-project", "2", "march.csv",
		"-scheme", "hex(body), key text", "-old-secret-file", fileWith(t, oldKey),
		"-account-codes", "dry, empty", "-database", "file.db", "-error-fields", "code,message",
	}, environment, &out)
	require.NotNil(t, set, out.String())
	assert.Zero(t, code)
	assert.Equal(
		t, "file.db https://pay.example/ payouts march.csv", set.Database+" "+set.Service+" "+set.Command+" "+set.Args[0],
	)
	assert.Equal(t, []paymentsvc.Secret{key, oldKey}, set.Keys)
	assert.Equal(t, []string{"dry", "empty"}, set.AccountCodes)
	assert.NotNil(t, set.DecodeError)
	_, code = readSettings([]string{"-help"}, environment, &out)
	assert.Zero(t, code)
	assert.NotContains(t, out.String(), "hunter2")
}

func TestDecodersKnowOnlyTheGivenCodes(t *testing.T) {
	decode, notFound, err := decoders("error.code,error.message", "none", "twice")
	require.NoError(t, err)
	for code, want := range map[string]struct {
		notFound bool
		effect   paymentsvc.Effect
	}{
		"none":  {true, paymentsvc.EffectByStatus},
		"twice": {false, paymentsvc.EffectPossible},
		"other": {false, paymentsvc.EffectByStatus},
	} {
		body, err := json.Marshal(map[string]any{"error": map[string]string{"code": code}})
		require.NoError(t, err)
		reported := decode(404, body)
		require.NotNil(t, reported)
		assert.Equal(t, want.effect, reported.Effect)
		assert.Equal(t, want.notFound, notFound(&paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, Err: reported}), code)
		assert.False(
			t, notFound(&paymentsvc.Error{Outcome: paymentsvc.OutcomeUnknown, Err: reported}), "the service has not said so",
		)
	}
}
