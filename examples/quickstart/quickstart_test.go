package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

const cardNumber = "4111111111111111"

// runHere runs the whole program and checks what holds for every run of it.
func runHere(t *testing.T, secret string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	for _, text := range []string{out.String(), errs.String()} {
		require.NotContains(t, text, secret, "the secret was printed")
		require.NotContains(t, text, cardNumber, "a card number was printed")
	}
	goleak.VerifyNone(t, before)
	return code, out.String(), errs.String()
}

// steady replaces what differs from run to run.
func steady(output string) string {
	for _, r := range []struct{ pattern, with string }{
		{`user_data [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "user_data UUID"},
		{`http://127\.0\.0\.1:\d{2,}`, "URL"},
		{`1h0m\ds`, "AGE"},
		{`timestamp was \d+s old`, "timestamp was AGE old"},
		{`dial tcp .* \(after`, "DIAL ERROR (after"},
	} {
		output = regexp.MustCompile(r.pattern).ReplaceAllString(output, r.with)
	}
	return output
}

func TestRunWithoutFlagsShowsEverything(t *testing.T) {
	code, stdout, stderr := runHere(t, demoSecret)
	require.Empty(t, stderr)
	require.Zero(t, code)
	require.Equal(t, `Payment Service Partner Interface 1.0.0

Service
  address                      URL
  caller                       partner 1001, project 2002
  scheme                       hex(timestamp "." body)
  chosen by                    this example, for the in-process server (package paymentsvctest), whose status numbers, HTTP statuses and
                               error fields are made up too: the interface document shows none of these, so ask the service

Calls
  InitPayment card 10.50       order 00000000-0000-4000-8000-000000000001, status 1, status_code 10
                               send the payer to https://pay.example/payment/00000000-0000-4000-8000-000000000001
  StatusPayment by order_id    amount 10.50, user_data UUID
  StatusPayment by user_data   amount 10.50, order 00000000-0000-4000-8000-000000000001
  InitForm 10.50               send the payer to https://pay.example/form/00000000-0000-4000-8000-000000000002
  InitInvoice 10.50            order 00000000-0000-4000-8000-000000000003
                               send the payer to https://pay.example/invoice/00000000-0000-4000-8000-000000000003
  InitPayout 10.50             order 00000000-0000-4000-8000-000000000004, status 1, status_code 10
  StatusPayout by order_id     amount 10.50, user_data UUID
  GetBalance                   989.50 for payouts, 1021.00 expected, in XTS

Calls made to fail, one for each outcome
  InitPayment, server down     paymentsvc: init_payment/card: not sent: DIAL ERROR (after 3 attempts)
                               outcome: not sent; nothing left this process
                               to do:   retry with the same user_data, after a back-off
  InitPayment, not signed      paymentsvc: init_payment/card: rejected: HTTP 401: the service reported an error, see ServiceError.Code and
                               Message; the timestamp was AGE old when the answer came
                               service: "header", "the signature header is missing"
                               outcome: rejected; the service rejected the caller
                               to do:   correct the key, the scheme or the rate, then retry with the same user_data
  InitPayment, answer lost     paymentsvc: init_payment/card: outcome unknown, the request may have been carried out: unexpected EOF
                               outcome: unknown; it may have been carried out
                               to do:   do not start it again; query StatusPayment by user_data
  StatusPayment by user_data   resolved: it was started, as order 00000000-0000-4000-8000-000000000005;
                               starting it again would have charged the payer twice

Notifications
  payment FAILURE, forged      401  rejected: paymentsvc: notification: signature mismatch
  payment SUCCESS              200  taken: 10.50, order 00000000-0000-4000-8000-000000000001
  payment SUCCESS, repeated    200  nothing to do: its Key has been seen
  payment PENDING, late        200  nothing to do: it is SUCCESS already, which is final
  payout PENDING, an hour old  401  rejected: paymentsvc: notification: timestamp too old: AGE, tolerance 5m0s
  payout SUCCESS               200  taken: 10.50, order 00000000-0000-4000-8000-000000000004
  refund SUCCESS               200  taken: 10.50, order 00000000-0000-4000-8000-000000000001
  the answers                  200 and 401 are the choice of Webhook.Handler, the document shows none
`, steady(stdout))
}

func TestRunWithSchemes(t *testing.T) {
	for _, scheme := range []string{
		"hex(body)",
		`HEX("prefix " timestamp body " suffix")`,
		`base64(method '\n' path '\n' timestamp '\n' hex(sha256(body)))`,
		`prefixed("sha256=", hex)(body '&key=' secret), key sha256`,
		"request hex(timestamp body), notification hex(body)",
	} {
		t.Run(scheme, func(t *testing.T) {
			code, stdout, stderr := runHere(t, demoSecret, "-scheme", scheme)
			require.Empty(t, stderr)
			require.Zero(t, code)
			require.Contains(t, stdout, "scheme                       "+scheme)
		})
	}
}

const (
	otherSecret = "the-secret-of-another-server"
	otherScheme = "HEX(timestamp '|' body)"
)

// secretFile holds otherSecret with a line end, as editors leave one.
func secretFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(otherSecret+"\r\n"), 0o600))
	return path
}

// otherServer is one that the program has not started itself.
func otherServer(t *testing.T, set *settings) *paymentsvctest.Server {
	t.Helper()
	server, err := start(set)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return server
}

func otherSettings(t *testing.T) *settings {
	t.Helper()
	scheme, err := canonical.ParseScheme(otherScheme)
	require.NoError(t, err)
	return &settings{
		PartnerID: 7,
		ProjectID: 8,
		Secret:    otherSecret,
		Scheme:    scheme,
	}
}

func flagsFor(t *testing.T, baseURL string, more ...string) []string {
	t.Helper()
	return append([]string{
		"-base-url", baseURL, "-partner", "7", "-project", "8", "-secret-file", secretFile(t),
		"-scheme", otherScheme,
	}, more...)
}

func TestRunCallsAnotherServerTheSame(t *testing.T) {
	server := otherServer(t, otherSettings(t))
	code, stdout, stderr := runHere(t, otherSecret, flagsFor(t, server.URL, "-error-fields", demoErrorFields)...)
	require.Empty(t, stderr)
	require.Zero(t, code)
	_, own, _ := runHere(t, demoSecret)
	require.Equal(t, between(own, "\nCalls", "\nNotifications"), between(stdout, "\nCalls", "\nNotifications"))
	require.Contains(t, stdout, "chosen by                    you, with -scheme")
	require.Contains(t, stdout, "none                         the interface document does not show where")
}

func between(text, from, to string) string {
	_, text, _ = strings.Cut(steady(text), from)
	text, _, _ = strings.Cut(text, to)
	return text
}

func TestRunEndsOnAnUnexpectedFailure(t *testing.T) {
	const anyAnswer = `{"order_id":"1","status":0,"status_code":0,"redirect_url":"u","invoice_url":"u",
		"payout_balance":0,"expected_balance":0,"currency":"c","user_data":"string"}`
	answer := func(httpStatus int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(httpStatus)
			_, _ = io.WriteString(w, body)
		}
	}
	unlessSigned := func(unsigned http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Signature") == "" {
				unsigned(w, r)
				return
			}
			answer(200, anyAnswer)(w, r)
		}
	}
	for _, test := range []struct {
		name   string
		server http.HandlerFunc
		more   []string
		code   int
		stdout string
		stderr string
	}{
		{
			name:   "a mock that keeps nothing settles nothing, which is no failure",
			server: unlessSigned(answer(422, `{"error_code":"7"}`)),
			more:   []string{"-error-fields", demoErrorFields},
			stdout: `resolves nothing: the answer is for user_data "string"`,
		},
		{
			name:   "a server that lets a call without a signature pass",
			server: answer(200, anyAnswer),
			code:   1,
			stderr: `made to fail as "rejected" and succeeded`,
		},
		{
			name:   "a server that breaks over a call without a signature",
			server: unlessSigned(answer(500, "{}")),
			code:   1,
			stderr: `made to fail as "rejected" and did not`,
		},
		{
			name:   "an error in fields that are not named",
			server: unlessSigned(answer(200, `{"fault":{"id":"7"}}`)),
			code:   1,
			stderr: "name the fields of the server's errors with -error-fields",
		},
		{
			name:   "a status of an error in fields that are not named",
			server: unlessSigned(answer(401, `{"fault":{"id":"7"}}`)),
			code:   1,
			stderr: "name the fields of the server's errors with -error-fields",
		},
		{
			name:   "an error in fields that are named",
			server: unlessSigned(answer(200, `{"fault":{"id":"7"}}`)),
			more:   []string{"-error-fields", "fault.id,fault.text"},
			stdout: `service: "7", ""`,
		},
		{
			name:   "a call that is rejected",
			server: answer(400, `{"error_code":"7"}`),
			more:   []string{"-error-fields", demoErrorFields},
			code:   1,
			stderr: "outcome: rejected; the service rejected it",
		},
		{
			name: "a clock that is off",
			server: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
				answer(401, `{"error_code":"7"}`)(w, r)
			},
			more:   []string{"-error-fields", demoErrorFields},
			code:   1,
			stderr: "to do:   set the clock: it is ",
		},
		{
			name:   "a call whose outcome is not known",
			server: answer(500, "{}"),
			code:   1,
			stderr: "to do:   do not start it again; query StatusPayment by user_data",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.server)
			defer server.Close()
			code, stdout, stderr := runHere(t, otherSecret, flagsFor(t, server.URL, test.more...)...)
			require.Equal(t, test.code, code, stderr)
			require.Contains(t, stdout, test.stdout)
			require.Contains(t, stderr, test.stderr)
			require.Equal(t, code == 0, stderr == "")
		})
	}
}

// oneForAll makes the same text of every signature, so that a forger needs no secret.
type oneForAll struct{}

func (oneForAll) AppendEncode(dst, _ []byte) []byte { return append(dst, '1') }

func TestNotificationsEndOnAnUnexpectedResult(t *testing.T) {
	set := otherSettings(t)
	forgeable := set.Scheme
	forgeable.Encoding = oneForAll{}
	unsignable := set.Scheme
	unsignable.Canonical = func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		if m.Kind == paymentsvc.KindNotification {
			return nil, errors.New("no canonical string")
		}
		return set.Scheme.Canonical(dst, m)
	}
	for _, test := range []struct {
		name   string
		scheme paymentsvc.Scheme
		do     func(context.Context, *paymentsvc.Client, report) error
		want   string
	}{
		{"a forged one passes", forgeable, calls, "should have been answered with 401"},
		{"one cannot be signed", unsignable, calls, "no canonical string"},
		{
			"there is nothing to tell of", set.Scheme,
			func(context.Context, *paymentsvc.Client, report) error { return nil },
			"no such order",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := otherSettings(t)
			set.Scheme = test.scheme
			server := otherServer(t, set)
			client, err := paymentsvc.NewClient(server.ClientConfig(set.ProjectID))
			require.NoError(t, err)
			require.NoError(t, test.do(t.Context(), client, report{io.Discard}))
			err = notifications(t.Context(), set, server, report{io.Discard})
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestServerRejectsAnOldTimestamp(t *testing.T) {
	set := otherSettings(t)
	server := otherServer(t, set)
	cfg := server.ClientConfig(set.ProjectID)
	var err error
	cfg.Signer, err = paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: set.Scheme, Secret: set.Secret, Now: func() time.Time { return time.Now().Add(-time.Hour) },
	})
	require.NoError(t, err)
	client, err := paymentsvc.NewClient(cfg)
	require.NoError(t, err)
	_, err = client.GetBalance(t.Context())
	require.Equal(t, paymentsvc.OutcomeRejected, paymentsvc.OutcomeOf(err), err)
	require.Len(t, server.Rejected(), 1)
	require.Equal(t, paymentsvctest.ProblemTimestamp, server.Rejected()[0].Problem)
}

func TestExplainEveryOutcome(t *testing.T) {
	for _, test := range []struct {
		name string
		err  paymentsvc.Error
		todo string
	}{
		{"a payment is asked for", paymentsvc.Error{Endpoint: "init_payment/sbp"}, "StatusPayment by user_data"},
		{"a payout has no look-up", paymentsvc.Error{Endpoint: "init_payout"}, "wait for its notification"},
		{"a form has no look-up", paymentsvc.Error{Endpoint: "init_form"}, "wait for its notification"},
		{"a read is repeated", paymentsvc.Error{Endpoint: "get_balance"}, "retry: the call is idempotent"},
		{
			"an invalid request is corrected",
			paymentsvc.Error{Endpoint: "init_form", Outcome: paymentsvc.OutcomeNotSent, Err: paymentsvc.ErrInvalidRequest},
			"correct the field",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, todo := explain(&test.err)
			require.Contains(t, todo, test.todo)
		})
	}
}

func TestFlagErrors(t *testing.T) {
	without := func(name string) []string {
		flags := flagsFor(t, "https://pay.example.com")
		for i, flag := range flags {
			if flag == name {
				return append(flags[:i:i], flags[i+2:]...)
			}
		}
		t.Fatalf("no flag %s", name)
		return nil
	}
	for _, test := range []struct {
		name   string
		args   []string
		stderr string
	}{
		{"another server without a partner", without("-partner"), "-partner is required"},
		{"another server without a project", without("-project"), "-project is required"},
		{"another server without a secret", without("-secret-file"), "-secret-file is required"},
		{"another server without a scheme", without("-scheme"), "-scheme is required"},
		{"a secret file that is not there", []string{"-secret-file", "no-such-file"}, "-secret-file: open no-such-file"},
		{"an unknown part of the scheme", []string{"-scheme", "hex(bdy)"}, `-scheme: column 5: unknown part "bdy", did you mean body?`},
		{"a scheme that signs nothing", []string{"-scheme", "hex('text')"}, "-scheme: column 5: signs neither body nor fields"},
		{"one error field", flagsFor(t, "https://pay.example.com", "-error-fields", "code"), "-error-fields wants two names"},
		{"error fields for the in-process server", []string{"-error-fields", "a,b"}, "-error-fields is for -base-url"},
		{"an unknown flag", []string{"-secret", "x"}, "flag provided but not defined"},
		{"a word that is no flag", []string{"run"}, "only flags are understood"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := runHere(t, otherSecret, test.args...)
			require.Equal(t, 2, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, test.stderr)
		})
	}
}

func TestRunRejectsAnUnusableSecretOrAddress(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	code, _, stderr := runHere(t, demoSecret, "-secret-file", empty)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "-secret-file: the file is empty")

	code, _, stderr = runHere(t, otherSecret, flagsFor(t, "http://pay.example.com")...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "BaseURL")
}

func TestHelp(t *testing.T) {
	code, stdout, stderr := runHere(t, demoSecret, "-help")
	require.Zero(t, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "STARTS TWO PAYMENTS")
}
