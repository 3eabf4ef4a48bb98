package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

// careful returns the address of a receiver with the SDK's handler, which appends the accepted bodies to got.
func careful(t *testing.T, got *[]string, secrets ...paymentsvc.Secret) string {
	t.Helper()
	scheme, err := canonical.ParseScheme(testScheme)
	require.NoError(t, err)
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: append(secrets, testKey), Tolerance: time.Minute,
		Now: func() time.Time { return time.Unix(testNow, 0) },
	})
	require.NoError(t, err)
	server := httptest.NewServer(webhook.Handler(func(_ context.Context, n *paymentsvc.Notification) error {
		*got = append(*got, string(n.Raw))
		return nil
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestTriggerSendsWhatTheFlagsSay(t *testing.T) {
	for args, want := range map[string]string{
		"payment.status_changed -order-id o-1 -amount 10.50": testBody,
		"refund.status_changed -order-id o -status FAILURE -user-data <a> -set status=7": `{"event":"refund.status_changed` +
			`","order_id":"o","status":7,"status_description":"FAILURE","status_code":30,"amount":10.00,"user_data":"<a>"}`,
		"payout.status_changed -set order_id=o -status NEW -set status=0 -set status_code=9 -set amount=1.0": `{"event":"p` +
			`ayout.status_changed","order_id":"o","status":0,"status_description":"NEW","status_code":9,"amount":1.0}`,
		"-body raw.json":   testBody + " \n",
		"-replay old.http": testBody,
		"-body - -q -v":    testBody + "  ",
		"payment.status_changed -order-id o-1 -amount 10.50 -fault repeated":   testBody + "|" + testBody,
		"payment.status_changed -order-id o-1 -amount 10.50 -fault=repeated+2": strings.Repeat(testBody+"|", 2) + testBody,
	} {
		var got []string
		d := newDesk(t)
		d.write("raw.json", testBody+" \n")
		d.write("old.http", signed(t, testBody, "5"))
		d.stdin = testBody + "  "
		all := append([]string{"trigger", "-to", careful(t, &got)}, strings.Fields(args)...)
		for i := range all {
			all[i] = strings.ReplaceAll(all[i], "+", " ")
		}
		assert.Zero(t, d.run(all...), "%s: %s", args, &d.stderr)
		assert.Equal(t, want, strings.Join(got, "|"), args)
		assert.Regexp(t, `^(sent   .*, HTTP 200 in \d+ms\n)+$`, d.stdout.String(), args)
	}
}

func TestTriggerFaults(t *testing.T) {
	careless := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer careless.Close()
	for _, f := range faults {
		var got []string
		d := newDesk(t)
		d.write("old.txt", "the old key")
		args := []string{"trigger", "payment.status_changed", "-old-secret-file", "old.txt", "-fault", f.name, "-json", "-to"}
		assert.Zero(t, d.run(append(args, careful(t, &got, "the old key"))...), "%s: %s", f.name, &d.stdout)
		assert.Equal(t, f.bad == "", len(got) > 0, f.name)
		if f.name != "cut" { // the response to a cut body may be lost
			assert.Equal(t, f.bad == "", d.run(append(args, careless.URL)...) == 0, f.name)
			assert.Equal(t, f.bad == "", d.object("sent")["ok"], f.name)
		}
		for status, rejected := range map[int]bool{200: false, 302: false, 404: false, 429: false, 500: false, 400: true,
			401: true} {
			result := sent{Status: status}
			(&delivery{fault: f}).judge(&result)
			want := rejected
			if f.bad == "" {
				want = status == 200
			}
			assert.Equal(t, want, result.OK, "%s: %d", f.name, status)
		}
	}
}

// echo repeats a request in an invalid header of its response, and in an invalid status for the path /status.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	start := "HTTP/1.1 200 OK\r\n"
	if strings.HasPrefix(r.URL.Path, "/status") {
		start = "HTTP/1.1 "
	}
	_, _ = io.WriteString(conn, start+r.Header.Get("Signature")+" 4111111111111111 "+string(body)+"\r\n\r\n")
	_ = conn.Close()
}

func TestErrorsQuoteNoResponse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echo))
	defer server.Close()
	signature := signatureOf(t, testScheme, testKey, testBody, strconv.Itoa(testNow))
	balance := signatureOf(t, testScheme, testKey, `{"partner_id":1,"project_id":2}`, strconv.Itoa(testNow))
	d := newDesk(t)
	d.write("body.json", testBody)
	for _, path := range []string{"/header", "/status"} {
		for args, code := range map[string]int{
			"trigger -body body.json -to " + server.URL + path:                             cli.ExitMachine,
			"check -json -partner 1 -project 2 -base-url " + server.URL + path:             cli.ExitMachine,
			"check -probe -json -partner 1 -project 2 -base-url " + server.URL + path:      cli.ExitMachine,
			"mock -timeout 300ms -wait " + server.URL + path:                               cli.ExitTimeout,
			"trigger -body body.json -fault repeated -json -to " + server.URL + "/" + path: cli.ExitMachine,
		} {
			assert.Equal(t, code, d.run(strings.Fields(args)...), args)
			for _, quoted := range []string{signature, balance, "4111", "partner_id", "order_id"} {
				assert.NotContains(t, d.stdout.String()+d.stderr.String(), quoted, args)
			}
		}
		address, wait := d.serve(t.Context(), "listen", "-addr", "127.0.0.1:0", "-count", "1", "-forward", server.URL+path)
		assert.Equal(t, http.StatusBadGateway, deliver(t, address, testBody, testKey).StatusCode)
		assert.Equal(t, cli.ExitNo, wait())
		assert.NotContains(t, d.stdout.String(), "4111")
		assert.NotContains(t, d.stdout.String(), signature)
	}
}

func TestShownResponseHidesTheSignature(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signature := r.Header.Get("Signature")
		page := fmt.Sprintf("&#%d;%s the old key, a test&#32;key, destination=79990000000 ", signature[0], signature[1:])
		_, _ = fmt.Fprintf(w, "%s%*s4111111111111111", page, maxShown-len(page)-6, "") //nolint:gosec // not for a browser
	}))
	defer server.Close()
	d := newDesk(t)
	d.write("old.txt", "the old key")
	d.write("old.http", signed(t, testBody, "5"))
	keys := []string{"-v", "-old-secret-file", "old.txt"}
	const page = "<signature> <secret>, <secret>, destination=<destination> "
	for _, args := range []string{"-replay old.http", "-replay old.http -as-sent",
		"payment.status_changed -fault old-secret"} {
		all := append([]string{"trigger", "-to", server.URL}, append(keys, strings.Fields(args)...)...)
		assert.Zero(t, d.run(all...), d.stderr.String())
		assert.Contains(t, d.stdout.String(), page, args)
		assert.NotContains(t, d.stdout.String(), "4111", "a number at the cut")
	}
	args := append([]string{"listen", "-addr", "127.0.0.1:0", "-count", "1", "-forward", server.URL}, keys...)
	address, wait := d.serve(t.Context(), args...)
	deliver(t, address, testBody, testKey)
	assert.Zero(t, wait())
	assert.Contains(t, d.stdout.String(), page)
	assert.NotContains(t, d.stdout.String(), "4111", "a number at the cut")
}

func TestTriggerAndListenSendNoStart(t *testing.T) {
	d := newDesk(t)
	d.write("start.http", strings.Replace(signed(t, `{"user_data":"o-1"}`, "5"), "/hook", "/init_payout", 1))
	for path, started := range map[string]bool{
		"/init_payout": true, "/v1/init_payment/card": true, "/Init_Form/": true, "/init_invoice?a=1": true,
		"/hook": false, "/init_payout/hook": false,
	} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests++ }))
		code := d.run("trigger", "-replay", "start.http", "-to", server.URL+path)
		server.Close()
		if !started {
			assert.Zero(t, code, "%s: %s", path, &d.stderr)
			continue
		}
		assert.Equal(t, cli.ExitUsage, code, path)
		assert.Zero(t, requests, path)
		assert.Contains(t, d.stderr.String(), "-to: starts an operation of the service")
		assert.Equal(t, cli.ExitUsage, d.run("listen", "-timeout", "1s", "-forward", server.URL+path), path)
	}
}

func TestTriggerAsSentKeepsTimestampAndSignature(t *testing.T) {
	d := newDesk(t)
	text := signed(t, testBody, "5")
	d.write("old.http", strings.Replace(text, "\r\n\r\n",
		"\r\nX-Id: 7\r\nConnection: close\r\nContent-Length: 125\r\n\r\n", 1))
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		assert.Equal(t, testBody, string(body))
		assert.Equal(t, "5 7 "+signatureOf(t, testScheme, testKey, testBody, "5"),
			fmt.Sprint(r.Header.Get("Timestamp"), " ", r.Header.Get("X-Id"), " ", r.Header.Get("Signature")))
	}))
	defer server.Close()
	assert.Zero(t, d.run("trigger", "-replay", "old.http", "-as-sent", "-to", server.URL), d.stderr.String())
	assert.Contains(t, d.stdout.String(), "sent   old.http unchanged, HTTP 200 in ")
}

func TestTriggerShiftsTimestampsByAnyTime(t *testing.T) {
	for text, code := range map[string]int{"late 61s": 0, "late 60s": 1, "early 61s": 0, "early 60s": 1} {
		var got []string
		d := newDesk(t)
		assert.Equal(t, code, d.run("trigger", "payment.status_changed", "-to", careful(t, &got), "-fault", text), text)
		assert.Len(t, got, code, text)
	}
}

// silent returns receivers without a response: gone refuses the connection, and hangs accepts the request.
func silent(t *testing.T) (gone, hangs *httptest.Server) {
	t.Helper()
	gone = httptest.NewServer(nil)
	gone.Close()
	hangs = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not detect that the client disconnected
		<-r.Context().Done()
	}))
	t.Cleanup(hangs.Close)
	return gone, hangs
}

func TestTriggerErrorNamesTheReason(t *testing.T) {
	gone, hangs := silent(t)
	for args, want := range map[string]struct {
		code int
		said string
	}{
		"trigger -to http://a":           {2, "want one of EVENT, -body and -replay"},
		"trigger payment.status_changed": {2, "-to: not set"},
		"trigger payments.status_changed -to http://a": {2,
			`no event "payments.status_changed"; did you mean "payment.status_changed"?; want one of payment.status_changed, `},
		"trigger payment.status_changed -to http://a -set amuont=1": {2,
			`-set: payment.status_changed has no field "amuont"; did you mean "amount"?`},
		"trigger payment.status_changed -to http://a -set amount":     {2, "-set: want NAME=VALUE"},
		"trigger payment.status_changed -to http://a -set status=x":   {2, "status: not a whole number"},
		"trigger payment.status_changed -to http://a -set amount=1,5": {2, "amount: not a decimal number"},
		"trigger payment.status_changed -to http://a -set event=x":    {2, `has no field "event"`},
		"trigger payment.status_changed -to http://a -status SUCCES5": {2,
			`-status: "SUCCES5" needs -set status=N and -set status_code=N; did you mean "SUCCESS"?`},
		"trigger payment.status_changed -to http://a -fault old-secret": {2, "-fault old-secret: needs -old-secret-file"},
		"trigger payment.status_changed -to http://a -body x":           {2, "want one of EVENT, -body and -replay"},
		"trigger -to http://a -body x -amount 1":                        {2, "-amount: allowed only with an EVENT"},
		"trigger -to http://a -body key.txt -as-sent":                   {2, "-as-sent: allowed only with -replay"},
		"trigger -to http://a -replay key.txt -as-sent -fault late": {2,
			"-fault: late needs a new signature, but -as-sent keeps the old signature"},
		"trigger -to http://a -replay key.txt": {2, "key.txt:1:"},
		"trigger payment.status_changed -to " + gone.URL: {3, "-to: " +
			strings.TrimPrefix(gone.URL, "http://") + " refused the connection"},
		"trigger payment.status_changed -fault cut -to " + gone.URL:     {3, "refused the connection"},
		"trigger payment.status_changed -timeout 50ms -to " + hangs.URL: {cli.ExitTimeout, "-timeout: 50ms passed"},
		"trigger payment.status_changed -to http://a -scheme hex(field('order_id')) -fault altered": {2,
			"the scheme does not sign the last digit"},
		"trigger payment.status_changed -to http://a -fault late+500ms": {2,
			`-fault: not a fault: "late 500ms": want a duration of whole seconds, such as 2s`},
	} {
		d := newDesk(t)
		all := strings.Fields(args)
		all[len(all)-1] = strings.Replace(all[len(all)-1], "+", " ", 1)
		assert.Equal(t, want.code, d.run(all...), "%s: %s", args, &d.stdout)
		assert.Contains(t, d.stderr.String(), want.said, args)
		assert.Empty(t, d.stdout.String(), args)
		note := "note   in a container, localhost is the container itself\n"
		assert.Equal(t, want.code == 3, strings.Contains(d.stderr.String(), note), args)
	}
}

func TestTriggerReachesReceiversWithHTTP2Only(t *testing.T) {
	protocols := make(chan string, 1)
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { protocols <- r.Proto })
	plain, secure := httptest.NewUnstartedServer(handler), httptest.NewUnstartedServer(handler)
	plain.Config.Protocols = new(http.Protocols)
	plain.Config.Protocols.SetUnencryptedHTTP2(true)
	plain.Start()
	secure.EnableHTTP2 = true // the client then uses HTTP/2 over TLS
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	d := newDesk(t)
	d.write("shop.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	for _, args := range [][]string{
		{"-to", plain.URL, "-http2"},
		{"-to", secure.URL, "-cacert", "shop.pem", "-http2"},
		{"-to", secure.URL, "-cacert", "shop.pem"},
	} {
		assert.Zero(t, d.run(append([]string{"trigger", "payment.status_changed"}, args...)...), "%s: %s", args, &d.stderr)
		assert.Equal(t, "HTTP/2.0", <-protocols, args)
	}
	assert.NotZero(t, d.run("trigger", "payment.status_changed", "-to", plain.URL))
}
