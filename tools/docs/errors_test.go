package docs_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// TestPagesQuoteTheErrorsOfTheSDK compares the error texts of the pages with errors of the SDK, in both directions. The
// pages have each text on one line, so that a search finds it.
func TestPagesQuoteTheErrorsOfTheSDK(t *testing.T) {
	texts := failedAssertions(t)
	_, comma := paymentsvc.ParseAmount("10,50")
	_, inexact := paymentsvc.MustParseAmount("10.505").Minor(2)
	for _, list := range [][]error{
		rejectedConfigurations(t), invalidRequests(t), failedConnections(t), oddTransports(t), oddResponses(t),
		notificationErrors(t), {new(paymentsvc.Amount).Scan(10.5), comma, inexact},
	} {
		for _, err := range list {
			if assert.Error(t, err) {
				texts = append(texts, err.Error())
			}
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	require.NoError(t, err)
	ofSDK, ofDurable, _ := strings.Cut(string(page), "\n## Package durable\n")
	for _, text := range textsOfTables(ofDurable) {
		assert.Contains(t, durableSource(t), text, "no text of durable")
	}
	quoted := textsOfTables(ofSDK)
	require.Greater(t, len(quoted), 40)
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang == "text" {
				quoted = append(quoted, strings.Split(strings.TrimSpace(b.text), "\n\n")...)
			}
		}
	}
	for _, text := range quoted {
		assert.Contains(t, texts, text, "no error of the SDK")
	}
	for _, text := range texts {
		assert.Contains(t, quoted, text, "on no page")
	}
}

// durableSource returns the code and the page of package durable, because this module does not import it.
func durableSource(t *testing.T) string {
	t.Helper()
	var source strings.Builder
	files := os.DirFS(filepath.Join(root, "durable"))
	require.NoError(t, fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") ||
			!strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".html") {
			return err
		}
		content, err := fs.ReadFile(files, path)
		source.Write(content)
		return err
	}))
	return source.String()
}

// textsOfTables returns the error texts in the tables of docs/troubleshooting.md. Each code span in the first column is
// a text, or the rest of a text that begins in the table's head. A whole text begins with the name of a package.
func textsOfTables(page string) (texts []string) {
	span, whole := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile("^(paymentsvc|json): ")
	inTable, beginning := false, ""
	for line := range strings.Lines(page) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		switch {
		case !strings.HasPrefix(line, "| "):
			inTable = false
		case !inTable:
			inTable, beginning = true, ""
			if head := span.FindStringSubmatch(cell); head != nil {
				beginning = head[1] + " "
			}
		default:
			for _, text := range span.FindAllStringSubmatch(cell, -1) {
				if whole.MatchString(text[1]) {
					texts = append(texts, text[1])
				} else {
					texts = append(texts, beginning+text[1])
				}
			}
		}
	}
	return texts
}

// rejected returns the error that Handler reports for a request with a wrong signature.
func rejected(t *testing.T, part paymentsvc.CanonicalFunc, body io.Reader) (reported error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/notifications", body)
	r.Header = http.Header{"Timestamp": {"1700000000"}, "Signature": {"00"}}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme:  paymentsvc.Scheme{Canonical: part, Encoding: paymentsvc.Hex},
		Secrets: []paymentsvc.Secret{secret}, Tolerance: time.Minute,
		OnError: func(_ *http.Request, err error) { reported = err },
	})
	require.NoError(t, err)
	handler := webhook.Handler(func(context.Context, *paymentsvc.Notification) error { return nil })
	handler.ServeHTTP(httptest.NewRecorder(), r)
	return reported
}

var (
	payment = paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1"}
	payout  = paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), Destination: "4111111111111111", UserData: "payout-1",
	}
)

type call func(*paymentsvc.Client) error

// pay returns a call that starts a payment.
func pay(ctx context.Context, request paymentsvc.PaymentRequest) call {
	return func(c *paymentsvc.Client) error {
		_, err := c.InitPayment(ctx, paymentsvc.PaymentTypeCard, request)
		return err
	}
}

func startPayment(c *paymentsvc.Client) error { return pay(context.Background(), payment)(c) }

func startPayout(c *paymentsvc.Client) error {
	_, err := c.InitPayout(context.Background(), payout)
	return err
}

func readStatus(c *paymentsvc.Client) error {
	_, err := c.StatusPayment(context.Background(), paymentsvc.StatusPaymentRequest{UserData: payment.UserData})
	return err
}

func readBalance(c *paymentsvc.Client) error {
	_, err := c.GetBalance(context.Background())
	return err
}

func signer(part paymentsvc.CanonicalFunc, key paymentsvc.Secret) paymentsvc.Signer {
	return signerAt(func() time.Time { return time.Unix(1_700_000_000, 0) }, part, key)
}

func signerAt(now func() time.Time, part paymentsvc.CanonicalFunc, key paymentsvc.Secret) paymentsvc.Signer {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: paymentsvc.Scheme{Canonical: part, Encoding: paymentsvc.Hex},
		Secret: key, SecretEndsInLineBreak: true, // for a key in failedAssertions
		Now: now,
	})
	if err != nil {
		panic(err)
	}
	return signer
}

// failure returns the error of a call, or of its configuration.
func failure(t *testing.T, call call, changes ...func(*paymentsvc.Config)) error {
	t.Helper()
	cfg := paymentsvc.Config{
		BaseURL: "https://pay.example.com", PartnerID: 7, ProjectID: 42,
		Signer: signerAt(time.Now, scheme.Canonical, secret),
		Retry:  paymentsvc.Retry{BaseDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond},
	}
	for _, change := range changes {
		change(&cfg)
	}
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return call(client)
}

// at sends a call to another address.
func at(address string) func(*paymentsvc.Config) {
	return func(c *paymentsvc.Config) { c.BaseURL = address }
}

// over sends a call over another transport.
func over(transport http.RoundTripper) func(*paymentsvc.Config) {
	return func(c *paymentsvc.Config) { c.HTTPClient = &http.Client{Transport: transport} }
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// failing sends a call over a foreign transport that returns err.
func failing(err error) func(*paymentsvc.Config) {
	return over(roundTrip(func(*http.Request) (*http.Response, error) { return nil, err }))
}

// dialing returns a transport of net/http that cannot connect because of err.
func dialing(err error) *http.Transport {
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, err }
	return &http.Transport{DialContext: dial, DialTLSContext: dial}
}

func rejectedConfigurations(t *testing.T) []error {
	written, err := secret.MarshalText()
	require.NoError(t, err)
	list := []error{failure(t, startPayment, at("http://pay.example.com"))}
	for _, c := range []paymentsvc.HMACConfig{
		{Scheme: paymentsvc.Scheme{Encoding: paymentsvc.Hex}, Secret: secret},
		{Scheme: scheme},
		{Scheme: scheme, Secret: " \n"},
		{Scheme: scheme, Secret: secret + "\n"},
		{Scheme: scheme, Secret: "\ufeff" + secret},
		{Scheme: scheme, Secret: paymentsvc.Secret(written)},
	} {
		_, err := paymentsvc.NewHMACSigner(c)
		list = append(list, err)
	}
	_, err = canonical.ParseScheme(`hex(timestamp "." bdy)`)
	return append(list, err)
}

func invalidRequests(t *testing.T) []error {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	noAmount, card := payment, payment
	noAmount.Amount, card.CardData = paymentsvc.Amount{}, `{"number":"4111111111111111"}`
	_, logged := json.Marshal(payment)
	return []error{
		logged,
		failure(t, pay(canceled, payment)),
		failure(t, pay(t.Context(), noAmount)),
		failure(t, pay(t.Context(), card)),
		failure(t, startPayment, func(c *paymentsvc.Config) { c.Signer = signer(canonical.Field("merchant"), secret) }),
	}
}

// failedConnections returns errors of calls without a response.
func failedConnections(t *testing.T) []error {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	defer server.Close()
	proxy, err := url.Parse(server.URL)
	require.NoError(t, err)
	proxied := paymentsvc.NewTransport()
	proxied.Proxy = http.ProxyURL(proxy)
	silent := roundTrip(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	var late error
	synctest.Test(t, func(t *testing.T) { late = failure(t, startPayment, over(silent)) })
	refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
	remote := &net.TCPAddr{IP: net.IPv4(203, 0, 113, 10), Port: 443}
	unreachable := dialing(&net.OpError{Op: "dial", Net: "tcp", Addr: remote, Err: refused})
	list := []error{
		late,
		failure(t, startPayment, failing(io.EOF)),
		failure(t, startPayment, failing(io.ErrUnexpectedEOF)),
		failure(t, startPayment, failing(syscall.ECONNRESET)),
		failure(t, startPayment, at(strings.Replace(server.URL, "http:", "https:", 1))),
		failure(t, startPayment, over(proxied)),
		failure(t, startPayment, over(unreachable)),
		failure(t, startPayout, over(roundTrip(unreachable.RoundTrip))),
	}
	for _, err := range []error{
		&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv6loopback, Port: 8080}, Err: refused},
		&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
			Err: "no such host", Name: "pay.example.com", IsNotFound: true,
		}},
		&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		&tls.CertificateVerificationError{Err: x509.HostnameError{
			Certificate: &x509.Certificate{DNSNames: []string{"www.example.net"}}, Host: "pay.example.com",
		}},
	} {
		list = append(list, failure(t, startPayment, over(dialing(err))))
	}
	return list
}

// oddTransports returns errors of calls over foreign transports.
func oddTransports(t *testing.T) []error {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	again := roundTrip(func(r *http.Request) (resp *http.Response, err error) {
		body, err := io.ReadAll(r.Body)
		for range 2 {
			r.Body = io.NopCloser(bytes.NewReader(body))
			resp, err = http.DefaultTransport.RoundTrip(r)
			if err == nil {
				_ = resp.Body.Close()
			}
		}
		return nil, err
	})
	return []error{
		failure(t, startPayout, over(again), at(server.URL)),
		failure(t, startPayout, failing(errors.New(`malformed HTTP response "\x00\x00\x04"`))), // SETTINGS of HTTP/2
		failure(t, startPayout, failing(errors.New("no token for 4111111111111111"))),
		failure(t, startPayout, failing(errors.New("http2: Transport: cannot retry err "+
			"[http2: Transport received Server's graceful shutdown GOAWAY] "+
			"after Request.Body was written; define Request.GetBody to avoid this error"))),
	}
}

// oddResponses returns errors of calls with a response of the service, or of a proxy.
func oddResponses(t *testing.T) (list []error) {
	const reported, page = `{"error_code":"E17","error_message":"limit"}`, "<h1>denied</h1>"
	const late = 20 * time.Second
	var date []string
	respond := func(call call, status int, after time.Duration, body io.Reader, changes ...func(*paymentsvc.Config)) {
		transport := over(roundTrip(func(*http.Request) (*http.Response, error) {
			time.Sleep(after)
			return &http.Response{StatusCode: status, Header: http.Header{"Date": date}, Body: io.NopCloser(body)}, nil
		}))
		list = append(list, failure(t, call, append(changes, transport)...))
	}
	decoder := func(c *paymentsvc.Config) { c.DecodeError = paymentsvc.ErrorFields("error_code", "error_message") }
	text := func(text string) io.Reader { return strings.NewReader(text) }
	synctest.Test(t, func(*testing.T) {
		respond(startPayment, 401, 0, text(""))
		respond(startPayment, 401, late, text(reported), decoder)
		respond(startPayment, 401, 0, text(reported), decoder)
		respond(startPayment, 400, 0, text(""))
		respond(startPayment, 403, 0, text(page))
		respond(startPayment, 403, 0, text(page), decoder)
		respond(startPayment, 409, 0, text(""))
		respond(startPayment, 429, 0, text(""))
		respond(startPayment, 429, 0, text(reported), decoder)
		respond(readBalance, 502, 0, text(page))
		respond(readStatus, 404, 0, text(reported), decoder)
		respond(startPayment, 200, 0, text(reported), decoder)
		respond(startPayment, 200, 0, text(`{"order_id":"o-1","status":1,"status_code":10,"error_code":"00"}`), decoder)
		respond(startPayment, 200, 0, text("<p>please log in</p>"))
		respond(startPayment, 200, 0, text(""))
		respond(startPayment, 200, 0, text(`{"order_id":"o-1","order_id":"o-2","status":1,"status_code":10}`))
		respond(startPayment, 200, 0, text(`{"status":1,"status_code":10}`))
		respond(startPayment, 200, 0, text(`{"order_id":"o-1","status":"OK","status_code":10}`))
		respond(startPayment, 200, 0, iotest.ErrReader(io.ErrUnexpectedEOF))
		respond(startPayment, 200, 0, text(strings.Repeat(" ", 2<<20)))
		respond(startPayment, 307, 0, text(""))
		date = []string{time.Now().Add(7 * time.Minute).UTC().Format(http.TimeFormat)}
		respond(startPayment, 401, 0, text(reported), decoder)
		date = nil
		ahead := func() time.Time { return time.Now().Add(10 * time.Minute) }
		respond(startPayment, 401, 0, text(reported), decoder, func(c *paymentsvc.Config) {
			c.Signer = signerAt(ahead, scheme.Canonical, secret)
		})
	})
	return list
}

// notificationErrors returns errors of webhooks.
func notificationErrors(t *testing.T) (list []error) {
	const body = `{"event":"payment.status_changed","order_id":"o-1","status":2,"status_description":"SUCCESS",` +
		`"status_code":20,"amount":10.50}`
	// parse parses a notification with the signature of signed, at the given time after its timestamp.
	parse := func(after time.Duration, part paymentsvc.CanonicalFunc, signed, body string, change http.Header) {
		signature, err := scheme.Signature(secret, &paymentsvc.Message{Timestamp: "1700000000", Body: []byte(signed)})
		require.NoError(t, err)
		webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
			Scheme:  paymentsvc.Scheme{Canonical: part, Encoding: paymentsvc.Hex},
			Secrets: []paymentsvc.Secret{secret}, Tolerance: 5 * time.Minute,
			Now: func() time.Time { return time.Unix(1_700_000_000, 0).Add(after) },
		})
		require.NoError(t, err)
		header := http.Header{"Timestamp": {"1700000000"}, "Signature": {signature}}
		maps.Copy(header, change)
		_, err = webhook.Parse(header, []byte(body))
		list = append(list, err)
	}
	compressed := http.Header{"Content-Encoding": {"gzip"}}
	noAmount := strings.Replace(body, "amount", "sum", 1)
	parse(0, scheme.Canonical, body, body, http.Header{"Signature": nil})
	parse(0, scheme.Canonical, body, body, http.Header{"signature": {"x"}})
	parse(0, scheme.Canonical, body, body, http.Header{"Timestamp": {"2023-11-14T22:13:20Z"}})
	parse(0, scheme.Canonical, body, body, http.Header{"Timestamp": {"1700000000000"}})
	parse(0, scheme.Canonical, "compressed", body, compressed)
	parse(0, scheme.Canonical, "\x1f\x8b", "\x1f\x8b", compressed)
	parse(0, scheme.Canonical, body, noAmount, nil)
	parse(10*time.Minute, scheme.Canonical, body, body, nil)
	parse(-10*time.Minute, scheme.Canonical, body, body, nil)
	parse(0, canonical.Path, body, body, nil)
	parse(0, canonical.Header("X-Request-Id"), body, body, nil)
	parse(0, scheme.Canonical, noAmount, noAmount, nil)

	return append(list,
		rejected(t, scheme.Canonical, http.NoBody),
		rejected(t, canonical.PathBelow("/shop"), strings.NewReader(body)),
	)
}

// recorder is a testing.TB that keeps the messages of its failures.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.text += fmt.Sprintf(format, args...) }

// service returns a fake service in memory and a client for it.
func service(t *testing.T) (*paymentsvctest.Server, *paymentsvc.Client) {
	srv := paymentsvctest.StartInMemory(t, paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: 42, Secret: secret}},
		Scheme:    scheme,
		Repeated:  paymentsvctest.NewOrder,
	})
	client, err := paymentsvc.NewClient(srv.ClientConfig(42))
	require.NoError(t, err)
	return srv, client
}

// failedAssertions returns the messages of failed assertions.
func failedAssertions(t *testing.T) (list []string) {
	for _, wrong := range []paymentsvc.Signer{
		signer(scheme.Canonical, secret+"\n"),
		signer(canonical.Join("\n", canonical.Timestamp, canonical.BodySorted), secret),
	} {
		srv, client := service(t)
		client, err := client.ForProject(42, wrong)
		require.NoError(t, err)
		require.Error(t, startPayment(client))
		r := &recorder{TB: t}
		srv.AssertAllSigned(r)
		list = append(list, r.text)
	}
	srv, client := service(t)
	require.NoError(t, startPayment(client))
	require.NoError(t, startPayment(client))
	r := &recorder{TB: t}
	srv.AssertStarted(r, "order-1", 1)
	return append(list, r.text)
}
