package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/paymentsvc/paymentsvc/canonical"
)

// output runs the program, and checks that it prints no secret, prints no card number, and leaves no goroutine.
func output(t *testing.T, set settings) (string, error) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	var out bytes.Buffer
	err := run(t.Context(), set, &out)
	if err != nil {
		printFailure(&out, "error", err)
	}
	require.NotContains(t, out.String(), demoSecret)
	require.NotContains(t, out.String(), "4111111111111111")
	goleak.VerifyNone(t, before)
	return out.String(), err
}

const (
	first      = "00000000-0000-4000-8000-000000000001"
	moneyMoved = `payment        order ` + first + `; send the payer to https://pay.example/payment/` + first + `
lost response  paymentsvc: init_payment/card: outcome unknown, the request may have been carried out: unexpected EOF
               money may have moved: do not start it again, but query its status
reconciled     the service started it as order 00000000-0000-4000-8000-000000000002; a second start would charge twice
payout         order 00000000-0000-4000-8000-000000000003
balance        989.50 XTS for payouts
`
)

func TestRunShowsEachStep(t *testing.T) {
	text, err := output(t, settings{})
	require.NoError(t, err)
	require.Equal(t, moneyMoved+`forgery        paymentsvc: notification: signature mismatch
notification   payment.status_changed SUCCESS 10.50, order `+first+`
duplicate      already applied
`, text)
}

// remote returns the settings for another server with the values of the demo.
func remote(t *testing.T, address string) settings {
	t.Helper()
	set := demo
	set.baseURL = address
	set.secretFile = filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(set.secretFile, []byte(demoSecret+"\r\n"), 0o600))
	return set
}

func TestRunCallsAnotherServer(t *testing.T) {
	scheme, err := canonical.ParseScheme(demo.scheme)
	require.NoError(t, err)
	fake, err := startFake(scheme)
	require.NoError(t, err)
	defer fake.Close()
	text, err := output(t, remote(t, fake.URL))
	require.NoError(t, err)
	require.Equal(t, moneyMoved, text)
}

func TestRunReportsTheResponsesOfAnotherServer(t *testing.T) {
	const success = `{"order_id":"1","status":0,"status_code":0,"redirect_url":"u",
		"payout_balance":0,"expected_balance":0,"currency":"c","user_data":"other"}`
	for _, test := range []struct {
		name, body, want string
		status           int
	}{
		{
			"the status of another payment does not reconcile", success, `unresolved     the response has user_data "other"`,
			200,
		},
		{"a wrong key is retried after a correction", `{"error_code":"7"}`, "for 401 and 403 correct the key", 401},
		{
			"a rejection is final", `{"error_code":"7","error_message":"m"}`, "service: \"7\", \"m\"\n               rejected",
			400,
		},
		{"a failure of the server is unknown", "{}", "money may have moved", 500},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			text, err := output(t, remote(t, server.URL))
			require.Equal(t, test.status == 200, err == nil, err)
			require.Contains(t, text, test.want)
		})
	}
}

func TestRunRejectsSettings(t *testing.T) {
	for _, test := range []struct {
		name, want string
		change     func(*settings)
	}{
		{"without an address", "belong together", func(s *settings) { s.baseURL = "" }},
		{"without a partner", "belong together", func(s *settings) { s.partner = 0 }},
		{"without a project", "belong together", func(s *settings) { s.project = 0 }},
		{"without a secret", "belong together", func(s *settings) { s.secretFile = "" }},
		{"without a scheme", "belong together", func(s *settings) { s.scheme = "" }},
		{"a missing file", "no-such-file", func(s *settings) { s.secretFile = "no-such-file" }},
		{"an empty file", "empty", func(s *settings) { s.secretFile = os.DevNull }},
		{"an unknown part of the scheme", "did you mean body?", func(s *settings) { s.scheme = "hex(bdy)" }},
		{"one error field", "wants two names", func(s *settings) { s.errorFields = "code" }},
		{"an address without TLS", "https", func(s *settings) { s.baseURL = "http://pay.example" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := remote(t, "https://127.0.0.1:1")
			test.change(&set)
			text, err := output(t, set)
			require.ErrorContains(t, err, test.want)
			require.Equal(t, 1, strings.Count(text, "\n"), "an attempt without a call is one line: %s", text)
		})
	}
}
