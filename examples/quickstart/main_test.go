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

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
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
	require.NotContains(t, out.String(), fakeSecret)
	require.NotContains(t, out.String(), "4111111111111111")
	goleak.VerifyNone(t, before)
	return out.String(), err
}

const (
	first      = "00000000-0000-4000-8000-000000000001"
	moneyMoved = `payment        order ` + first + `; send the payer to https://pay.example/payment/` + first + `
lost response  paymentsvc: init_payment/card: outcome unknown, the request may have been carried out: unexpected EOF
               money may have moved: query the status, and do not start it again
reconciled     the service started it as order 00000000-0000-4000-8000-000000000002; do not start it again
payout         order 00000000-0000-4000-8000-000000000003
balance        -10.50 XTS for payouts
rejection      an unknown project has the code "ids"
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

// remote returns the settings for a server with the ids, the secret and the scheme of the fake.
func remote(t *testing.T, address string) settings {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(fakeSecret+"\r\n"), 0o600))
	return settings{
		client:      paymentsvc.Config{BaseURL: address, PartnerID: 1001, ProjectID: 2002},
		secretFile:  file,
		scheme:      `hex(timestamp "." body)`,
		errorFields: "error_code,error_message",
	}
}

func TestRunComparesARejectionOfAnotherServerWithTheErrorFields(t *testing.T) {
	const reports, misses = `an unknown project has the code "ids"`, "-error-fields: the rejection of an unknown project"
	for _, test := range []struct{ service, fields, want string }{
		{"error_code,error_message", "error_code,error_message", moneyMoved},
		{"error_code,error_message", "code,message", misses},
		{"error_code,error_message", "", "money may have moved: query the status"},
		{"errors.0.code,errors.0.text", "errors.0.code,errors.0.text", reports},
		{"errors.0.code,errors.0.text", "errors.code,errors.text", misses},
	} {
		code, message, _ := strings.Cut(test.service, ",")
		fake := paymentsvctest.Start(t, paymentsvctest.Config{
			PartnerID: 1001, Projects: []paymentsvctest.Project{{ID: 2002, Secret: fakeSecret}}, Scheme: fakeScheme,
			ErrorCode: code, ErrorMessage: message,
		})
		set := remote(t, fake.URL)
		set.errorFields = test.fields
		text, err := output(t, set)
		require.Equal(t, test.want == misses, err != nil, text)
		require.Contains(t, text, test.want)
		require.Len(t, fake.Orders(), 3, "the third start of a payment has no effect")
	}
}

func TestRunReportsTheResponsesOfAnotherServer(t *testing.T) {
	const success = `{"order_id":"1","status":0,"status_code":0,"redirect_url":"u",
		"payout_balance":0,"expected_balance":0,"currency":"c","user_data":"other"}`
	for _, test := range []struct {
		name, body, want string
		status           int
	}{
		{"the status of another payment does not reconcile", success, `the status has user_data "other"`, 200},
		{"a wrong key is retried after a correction", `{"error_code":"7"}`, "for 401 and 403 correct the key", 401},
		{"a rejection is final", `{"error_code":"7","error_message":"m"}`, "a retry would not help", 400},
		{"a failure of the server is unknown", "{}", "money may have moved", 500},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			text, err := output(t, remote(t, server.URL))
			require.Error(t, err)
			require.Contains(t, text, test.want)
		})
	}
}

func TestRunRejectsSettings(t *testing.T) {
	for _, test := range []struct {
		name, want string
		change     func(*settings)
	}{
		{"without a partner", "PartnerID", func(s *settings) { s.client.PartnerID = 0 }},
		{"without a project", "ProjectID", func(s *settings) { s.client.ProjectID = 0 }},
		{"without a secret", "needs -partner", func(s *settings) { s.secretFile = "" }},
		{"without a scheme", "needs -partner", func(s *settings) { s.scheme = "" }},
		{"a missing file", "no-such-file", func(s *settings) { s.secretFile = "no-such-file" }},
		{"an empty file", "empty", func(s *settings) { s.secretFile = os.DevNull }},
		{"an unknown part of the scheme", "did you mean body?", func(s *settings) { s.scheme = "hex(bdy)" }},
		{"an address without TLS", "https", func(s *settings) { s.client.BaseURL = "http://pay.example" }},
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
