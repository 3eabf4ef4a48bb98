package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/internal/schemeflag"
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
		{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "UUID"},
		{`http://127\.0\.0\.1:\d{2,}`, "URL"},
		{`1h0m\ds`, "AGE"},
		{`dial tcp .* \(after`, "DIAL ERROR (after"},
	} {
		output = regexp.MustCompile(r.pattern).ReplaceAllString(output, r.with)
	}
	return output
}

func TestWithoutFlagsEverythingIsShown(t *testing.T) {
	code, stdout, stderr := runHere(t, demoSecret)
	require.Empty(t, stderr)
	require.Zero(t, code)
	require.Equal(t, `Payment Service Partner Interface 1.0.0

Service
  address                      URL
  caller                       partner 1001, project 2002
  canonical string             "{timestamp}.{body}", its HMAC-SHA256 as hex
  chosen by                    this example, like the status numbers, HTTP statuses and error fields of its
                               in-process server: the interface document shows none of them, so ask the service

Calls
  InitPayment card 10.50       order UUID, status 1, status_code 0
                               send the payer to URL/pay/UUID
  StatusPayment by order_id    amount 10.50, user_data UUID
  StatusPayment by user_data   amount 10.50, order UUID
  InitForm 10.50               send the payer to URL/form/UUID
  InitInvoice 10.50            order UUID
                               send the payer to URL/invoice/UUID
  InitPayout 10.50             order UUID, status 1, status_code 0
  StatusPayout by order_id     amount 10.50, user_data UUID
  GetBalance                   1000.00 for payouts, 1200.00 expected, in EUR

Calls made to fail, one for each outcome
  InitPayment, server down     paymentsvc: init_payment/card: not sent: DIAL ERROR (after 3 attempts)
                               outcome: not sent; nothing left this process
                               to do:   start it again, with the same user_data
  InitPayment, not signed      paymentsvc: init_payment/card: rejected: HTTP 401: the service reported an error, see ServiceError.Code and
                               Message; if it is about the signature, look at Scheme.Canonical and Scheme.Encoding (to find them: go run
                               github.com/paymentsvc/paymentsvc/examples/discover@latest), then at the secret key
                               service: "headers", "timestamp and signature must each be there once"
                               outcome: rejected; the service refused it
                               to do:   correct what is wrong with it; calling again as it is would not help
  InitPayment, answer lost     paymentsvc: init_payment/card: outcome unknown, the request may have been carried out: connection lost before
                               the answer (by this example, on purpose)
                               outcome: unknown; it may have been carried out
                               to do:   do not start it again; ask StatusPayment by user_data
  StatusPayment by user_data   settled: it was started, as order UUID;
                               starting it again would have charged the payer twice

Notifications
  payment SUCCESS              200  taken: 10.50, order UUID
  payment SUCCESS, repeated    200  nothing to do: its Key has been seen
  payment PENDING, late        200  nothing to do: it is SUCCESS already, which is final
  payment FAILURE, forged      401  refused: paymentsvc: notification: signature mismatch
  payout PENDING, an hour old  401  refused: paymentsvc: notification: timestamp too old: AGE, where 5m0s is tolerated
  payout SUCCESS               200  taken: 10.50, order UUID
  refund SUCCESS               200  taken: 10.50, order UUID
  the answers                  200 and 401 are this example's choice, the document shows none
`, steady(stdout))
}

func TestEveryCanonicalStringAndEncodingWorksOnBothSides(t *testing.T) {
	for _, template := range []string{
		"{body}",
		`{timestamp}\n{body}`,
		`{method}\n{path}\n{timestamp}\n{body-sha256}`,
		"prefix {timestamp}{body} suffix }",
	} {
		for _, encoding := range []string{"hex", "hex-upper", "base64"} {
			t.Run(template+" "+encoding, func(t *testing.T) {
				code, stdout, stderr := runHere(t, demoSecret, "-canonical", template, "-encoding", encoding)
				require.Empty(t, stderr)
				require.Zero(t, code)
				require.Contains(t, stdout, strconv.Quote(template)+", its HMAC-SHA256 as "+encoding)
			})
		}
	}
}

const otherSecret = "the-secret-of-another-server"

// secretFile holds otherSecret with a line end, as editors leave one.
func secretFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(otherSecret+"\r\n"), 0o600))
	return path
}

// otherService is one that the program has not started itself.
func otherService(t *testing.T) *service {
	t.Helper()
	s, err := startService(t.Context(), otherSettings(t))
	require.NoError(t, err)
	t.Cleanup(s.stop)
	return s
}

func otherSettings(t *testing.T) *settings {
	t.Helper()
	scheme, err := schemeflag.Scheme("{timestamp}|{body}", "hex-upper")
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
		"-canonical", "{timestamp}|{body}", "-encoding", "hex-upper",
	}, more...)
}

func TestAnotherServerIsCalledTheSame(t *testing.T) {
	code, stdout, stderr := runHere(t, otherSecret, flagsFor(t, otherService(t).url, "-error-fields", demoErrorFields)...)
	require.Empty(t, stderr)
	require.Zero(t, code)
	_, own, _ := runHere(t, demoSecret)
	require.Equal(t, between(own, "\nCalls", "\nNotifications"), between(stdout, "\nCalls", "\nNotifications"))
	require.Contains(t, stdout, "chosen by                    you, with -canonical and -encoding")
	require.Contains(t, stdout, "none                         the interface document does not show where")
}

func between(text, from, to string) string {
	_, text, _ = strings.Cut(steady(text), from)
	text, _, _ = strings.Cut(text, to)
	return text
}

func TestAnUnexpectedFailureEndsTheProgram(t *testing.T) {
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
			server: unlessSigned(answer(422, "{}")),
			stdout: `settles nothing: the answer is for user_data "string"`,
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
			name:   "an error in fields that are named",
			server: unlessSigned(answer(200, `{"fault":{"id":"7"}}`)),
			more:   []string{"-error-fields", "fault.id,fault.text"},
			stdout: `service: "7", ""`,
		},
		{
			name:   "a call that is refused",
			server: answer(403, "{}"),
			code:   1,
			stderr: "outcome: rejected; the service refused it",
		},
		{
			name: "a clock that is off",
			server: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
				answer(401, "{}")(w, r)
			},
			code:   1,
			stderr: "to do:   set the clock: it is ",
		},
		{
			name:   "a call whose outcome is not known",
			server: answer(500, "{}"),
			code:   1,
			stderr: "to do:   do not start it again; ask StatusPayment by user_data",
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

func TestAForgedNotificationThatPassesEndsTheProgram(t *testing.T) {
	s := otherService(t)
	s.forge = s.sign
	for _, kind := range []string{"payment", "payout"} {
		_, refused := s.start(kind, kind, json.RawMessage("1"))
		require.Nil(t, refused)
	}
	err := notifications(t.Context(), otherSettings(t), s, report{io.Discard})
	require.ErrorContains(t, err, "should have been answered with 401")
}

func TestAnOutcomeIsExplainedForItsEndpoint(t *testing.T) {
	for _, test := range []struct {
		name string
		err  paymentsvc.Error
		todo string
	}{
		{"a payment is asked for", paymentsvc.Error{Endpoint: "init_payment/sbp"}, "StatusPayment by user_data"},
		{"a payout has no look-up", paymentsvc.Error{Endpoint: "init_payout"}, "wait for its notification"},
		{"a form has no look-up", paymentsvc.Error{Endpoint: "init_form"}, "wait for its notification"},
		{"a read is repeated", paymentsvc.Error{Endpoint: "get_balance"}, "ask again"},
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

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
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
		{"another server without a canonical string", without("-canonical"), "-canonical is required"},
		{"another server without an encoding", without("-encoding"), "-encoding is required"},
		{"a secret file that is not there", []string{"-secret-file", "no-such-file"}, "-secret-file: open no-such-file"},
		{"an unknown part of the canonical string", []string{"-canonical", "{body}{nonce}"}, "{nonce is no part"},
		{"a part that does not end", []string{"-canonical", "{body"}, "{body is no part"},
		{"an unknown encoding", []string{"-encoding", "hexx"}, "-encoding is none of"},
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

func TestAnUnusableSecretOrAddressIsRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	code, _, stderr := runHere(t, demoSecret, "-secret-file", empty)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "Secret: empty")

	code, _, stderr = runHere(t, otherSecret, flagsFor(t, "http://pay.example.com")...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "BaseURL")
}

func TestHelpSaysWhatWillHappen(t *testing.T) {
	code, stdout, stderr := runHere(t, demoSecret, "-help")
	require.Zero(t, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "STARTS TWO PAYMENTS")
}

func TestTheInProcessServerIsStrict(t *testing.T) {
	const payment = `{"partner_id":7,"project_id":8,"amount":10.50,"user_data":"u-1"}`
	const payout = `{"partner_id":7,"project_id":8,"amount":1,"destination":"d","user_data":"u-2"}`
	type request struct {
		method, path, contentType, body string
		timestamps, signatures          []string // nil: right ones
		age                             time.Duration
	}
	for _, test := range []struct {
		name   string
		change func(*request)
		status int
		code   string
	}{
		{"a right request is answered", func(*request) {}, 200, ""},
		{"a charset is allowed", func(r *request) { r.contentType = "application/json; charset=utf-8" }, 200, ""},
		{"a method other than POST", func(r *request) { r.method = http.MethodPut }, 405, ""},
		{"an unknown path", func(r *request) { r.path = "/init_refund" }, 404, ""},
		{"an unknown payment type", func(r *request) { r.path = "/init_payment/cash" }, 404, "type"},
		{"no content type", func(r *request) { r.contentType = "" }, 415, "content_type"},
		{"another content type", func(r *request) { r.contentType = "text/json" }, 415, "content_type"},
		{"no timestamp", func(r *request) { r.timestamps = []string{} }, 401, "headers"},
		{"two timestamps", func(r *request) { r.timestamps = []string{"1", "1"} }, 401, "headers"},
		{"a timestamp that is no number", func(r *request) { r.timestamps = []string{"now"} }, 401, "timestamp"},
		{"a timestamp of the past", func(r *request) { r.age = time.Hour }, 401, "timestamp"},
		{"a timestamp of the future", func(r *request) { r.age = -time.Hour }, 401, "timestamp"},
		{"no signature", func(r *request) { r.signatures = []string{} }, 401, "headers"},
		{"two signatures", func(r *request) { r.signatures = []string{"a", "b"} }, 401, "headers"},
		{"a wrong signature", func(r *request) { r.signatures = []string{"a"} }, 401, "signature"},
		{"a body that is too large", func(r *request) { r.body = strings.Repeat(" ", maxBody) + r.body }, 413, "body"},
		{"a body that is not JSON", func(r *request) { r.body = "partner_id=7" }, 400, "body"},
		{"a second object", func(r *request) { r.body += "{}" }, 400, "body"},
		{"an unknown field", func(r *request) { r.body = strings.Replace(r.body, "{", `{"currency":"EUR",`, 1) }, 400, "body"},
		{"an object that is text", func(r *request) { r.body = strings.Replace(r.body, "{", `{"payer":"me",`, 1) }, 400, "body"},
		{"an amount in quotes", func(r *request) { r.body = strings.Replace(r.body, "10.50", `"10.50"`, 1) }, 422, "field"},
		{"another partner", func(r *request) { r.body = strings.Replace(r.body, "7", "9", 1) }, 403, "caller"},
		{"another project", func(r *request) { r.body = strings.Replace(r.body, "8", "9", 1) }, 403, "caller"},
		{"no partner", func(r *request) { r.body = strings.Replace(r.body, `"partner_id":7,`, "", 1) }, 422, "field"},
		{"no project", func(r *request) { r.body = strings.Replace(r.body, `"project_id":8,`, "", 1) }, 422, "field"},
		{"no amount", func(r *request) { r.body = strings.Replace(r.body, `"amount":10.50,`, "", 1) }, 422, "field"},
		{"no user_data", func(r *request) { r.body = strings.Replace(r.body, `"u-1"`, `""`, 1) }, 422, "field"},
		{"a user_data that is taken", func(r *request) { r.body = strings.Replace(r.body, "u-1", "taken", 1) }, 422, "user_data"},
		{"a payout", func(r *request) { r.path, r.body = "/init_payout", payout }, 200, ""},
		{"a payout without a destination", func(r *request) {
			r.path, r.body = "/init_payout", strings.Replace(payout, `"d"`, `""`, 1)
		}, 422, "field"},
		{"a payment as a payout", func(r *request) { r.path = "/init_payout" }, 422, "field"},
		{"a payout as a payment", func(r *request) { r.body = payout }, 400, "body"},
		{"the status of a payment by user_data", func(r *request) {
			r.path, r.body = "/status_payment", `{"user_data":"taken","partner_id":7,"project_id":8}`
		}, 200, ""},
		{"the status of an unknown payment", func(r *request) {
			r.path, r.body = "/status_payment", `{"order_id":"x","partner_id":7,"project_id":8}`
		}, 404, "order"},
		{"the status of a payment by both identifiers", func(r *request) {
			r.path, r.body = "/status_payment", `{"order_id":"x","user_data":"taken","partner_id":7,"project_id":8}`
		}, 422, "field"},
		{"the status of a payment by neither identifier", func(r *request) {
			r.path, r.body = "/status_payment", `{"partner_id":7,"project_id":8}`
		}, 422, "field"},
		{"the status of a payout by user_data", func(r *request) {
			r.path, r.body = "/status_payout", `{"user_data":"taken","partner_id":7,"project_id":8}`
		}, 400, "body"},
		{"the status of a payout without an identifier", func(r *request) {
			r.path, r.body = "/status_payout", `{"partner_id":7,"project_id":8}`
		}, 422, "field"},
		{"a balance of nobody", func(r *request) { r.path, r.body = "/get_balance", "null" }, 422, "field"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := otherService(t)
			_, refused := s.start("payment", "taken", json.RawMessage("1"))
			require.Nil(t, refused)

			in := request{method: http.MethodPost, path: "/init_payment/card", contentType: "application/json", body: payment}
			test.change(&in)
			r := httptest.NewRequest(in.method, in.path, strings.NewReader(in.body))
			timestamp := strconv.FormatInt(time.Now().Add(-in.age).Unix(), 10)
			if in.timestamps == nil {
				in.timestamps = []string{timestamp}
			}
			if in.signatures == nil {
				signature, err := s.sign(&paymentsvc.Message{Timestamp: timestamp, Body: []byte(in.body)})
				require.NoError(t, err)
				in.signatures = []string{signature}
			}
			r.Header["Timestamp"], r.Header["Signature"] = in.timestamps, in.signatures
			if in.contentType != "" {
				r.Header.Set("Content-Type", in.contentType)
			}

			answer := httptest.NewRecorder()
			s.routes().ServeHTTP(answer, r)
			require.Equal(t, test.status, answer.Code, answer.Body)
			var got struct {
				Code string `json:"error_code"`
			}
			_ = json.Unmarshal(answer.Body.Bytes(), &got) // http.ServeMux answers some in plain text
			require.Equal(t, test.code, got.Code)
		})
	}
}
