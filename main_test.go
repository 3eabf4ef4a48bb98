package paymentsvc_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testSecret  paymentsvc.Secret = "project-secret-key-of-these-tests"
	testPartner int64             = 11
	testProject int64             = 22
	testBase                      = "/base/v1" // an address with a path, so that no test passes by accident
)

// testScheme is the choice of these tests. The document does not specify a scheme.
func testScheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Method, canonical.Path, canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
}

func testSigner(t testing.TB) *paymentsvc.HMACSigner { return newSigner(t, testScheme(), testSecret) }

func newSigner(t testing.TB, scheme paymentsvc.Scheme, secret paymentsvc.Secret) *paymentsvc.HMACSigner {
	t.Helper()
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: secret})
	require.NoError(t, err)
	return signer
}

// testConfig is a valid Config with short waits between attempts. Its Timeout is far longer than a slow machine needs.
func testConfig(t testing.TB, base string) paymentsvc.Config {
	t.Helper()
	return paymentsvc.Config{
		BaseURL: base, PartnerID: testPartner, ProjectID: testProject, Signer: testSigner(t), Timeout: time.Hour,
		Retry: paymentsvc.Retry{BaseDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond},
	}
}

// newClient returns a client for the service at base, with options applied. Its connections close after the test.
func newClient(t testing.TB, base string, options ...func(*paymentsvc.Config)) *paymentsvc.Client {
	t.Helper()
	cfg := testConfig(t, base)
	for _, option := range options {
		option(&cfg)
	}
	client, err := paymentsvc.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// over sets the transport.
func over(rt http.RoundTripper) func(*paymentsvc.Config) {
	return func(cfg *paymentsvc.Config) { cfg.HTTPClient = &http.Client{Transport: rt} }
}

func signedBy(signer paymentsvc.Signer) func(*paymentsvc.Config) {
	return func(cfg *paymentsvc.Config) { cfg.Signer = signer }
}

// meddling wraps the signer and changes the request before it signs.
func meddling(change func(*http.Request)) func(*paymentsvc.Config) {
	return func(cfg *paymentsvc.Config) {
		signer := cfg.Signer
		cfg.Signer = paymentsvc.SignerFunc(func(r *http.Request, body []byte) error {
			change(r)
			return signer.Sign(r, body)
		})
	}
}

func decoding(decode paymentsvc.ErrorDecoder) func(*paymentsvc.Config) {
	return func(cfg *paymentsvc.Config) { cfg.DecodeError = decode }
}

// attempts limits the attempts of a call.
func attempts(n int) func(*paymentsvc.Config) {
	return func(cfg *paymentsvc.Config) { cfg.Retry.MaxAttempts = n }
}

func trusted(cfg *paymentsvc.Config) { cfg.TrustTransport = true }

// onEach adapts a function to Config.OnAttempt.
func onEach(f func(paymentsvc.Attempt)) func(context.Context, paymentsvc.Attempt) {
	return func(_ context.Context, a paymentsvc.Attempt) { f(a) }
}

// roundTripFunc is a foreign http.RoundTripper.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// canned returns a response.
func canned(status int, header http.Header, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1,
	}
}

// answers makes the transport return the same response to every request.
func answers(status int, header http.Header, body string) func(*paymentsvc.Config) {
	return over(roundTripFunc(func(*http.Request) (*http.Response, error) {
		return canned(status, header, body), nil
	}))
}

func pay(ctx context.Context, c *paymentsvc.Client) (any, error) {
	return nilOr(c.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentRequest()))
}

// nilOr converts a nil *T to a nil any, so assert.Nil detects a response.
func nilOr[T any](v *T, err error) (any, error) {
	if v == nil {
		return nil, err
	}
	return v, err
}

// failed asserts that a call failed with an *Error of this outcome and returned no response.
func failed(t testing.TB, response any, err error, outcome paymentsvc.Outcome) *paymentsvc.Error {
	t.Helper()
	assert.Nil(t, response)
	var e *paymentsvc.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, outcome.String(), e.Outcome.String(), "outcome of: %v", err)
	if strings.HasPrefix(e.Endpoint, "init_") {
		assert.Equal(t, e.Outcome, paymentsvc.OutcomeOf(err))
	} else {
		assert.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err), "it may follow an unknown start")
		assert.False(t, paymentsvc.SafeToRetry(err))
	}
	require.Error(t, e.Err, "the reason is never nil")
	return e
}

// pan is a card number in place of an amount. Errors must not contain it.
const pan = "4111111111111111"

const canary = "CANARY-4000056655665556"

func canaryPayment() paymentsvc.PaymentRequest {
	return paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("1"), UserData: "u",
		CardData: map[string]any{"number": canary}, Browser: json.RawMessage(`{"agent":"` + canary + `"}`),
		Payer: struct{ Name string }{canary}, Payee: &struct{ Name string }{canary},
	}
}

func canaryPayout() paymentsvc.PayoutRequest {
	return paymentsvc.PayoutRequest{Amount: paymentsvc.MustParseAmount("1"), UserData: "u", Destination: canary}
}

// operation describes an endpoint with a valid request and a complete response.
type operation struct {
	name   string // in the document
	path   string
	starts bool
	call   func(t testing.TB, c *paymentsvc.Client) (any, error)
	sent   string
	answer string
}

// operations has the seven endpoints in the document's order.
var operations = []operation{
	{
		name: "init_payment", path: "init_payment/card", starts: true,
		call: func(t testing.TB, c *paymentsvc.Client) (any, error) {
			return nilOr(c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, paymentRequest()))
		},
		sent:   `{"partner_id":11,"project_id":22,"amount":10.50,"user_data":"order-1"}`,
		answer: paymentAnswer,
	},
	{
		name: "status_payment", path: "status_payment",
		call: func(t testing.TB, c *paymentsvc.Client) (any, error) {
			return nilOr(c.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{OrderID: "o-1"}))
		},
		sent:   `{"order_id":"o-1","partner_id":11,"project_id":22}`,
		answer: `{"partner_id":11,"project_id":22,"amount":10.50,"description":"d","user_data":"order-1","order_id":"o-1"}`,
	},
	{
		name: "init_payout", path: "init_payout", starts: true,
		call: func(t testing.TB, c *paymentsvc.Client) (any, error) {
			return nilOr(c.InitPayout(t.Context(), payoutRequest()))
		},
		sent:   `{"partner_id":11,"project_id":22,"amount":10.50,"destination":"4111111111111111","user_data":"payout-1"}`,
		answer: payoutAnswer,
	},
	{
		name: "status_payout", path: "status_payout",
		call: func(t testing.TB, c *paymentsvc.Client) (any, error) {
			return nilOr(c.StatusPayout(t.Context(), paymentsvc.StatusPayoutRequest{OrderID: "po-1"}))
		},
		sent:   `{"order_id":"po-1","partner_id":11,"project_id":22}`,
		answer: `{}`,
	},
	{
		name: "init_form", path: "init_form", starts: true,
		call: func(t testing.TB, c *paymentsvc.Client) (any, error) {
			return nilOr(c.InitForm(t.Context(), paymentRequest()))
		},
		sent:   `{"partner_id":11,"project_id":22,"amount":10.50,"user_data":"order-1"}`,
		answer: `{"redirect_url":"https://pay.example/form"}`,
	},
	{
		name: "init_invoice", path: "init_invoice", starts: true,
		call: func(t testing.TB, c *paymentsvc.Client) (any, error) {
			return nilOr(c.InitInvoice(t.Context(), paymentRequest()))
		},
		sent:   `{"partner_id":11,"project_id":22,"amount":10.50,"user_data":"order-1"}`,
		answer: `{"invoice_url":"https://pay.example/invoice","order_id":"in-1"}`,
	},
	{
		name: "get_balance", path: "get_balance",
		call:   func(t testing.TB, c *paymentsvc.Client) (any, error) { return nilOr(c.GetBalance(t.Context())) },
		sent:   `{"partner_id":11,"project_id":22}`,
		answer: balanceAnswer,
	},
}

const (
	paymentAnswer = `{"order_id":"6f1c2f2e-4f0b-4a53-9d43-1f0a6a2f8b11","status":1,"status_code":2,` +
		`"redirect_url":"https://pay.example/3ds"}`
	payoutAnswer  = `{"order_id":"po-1","status":1,"status_code":2}`
	balanceAnswer = `{"payout_balance":100.10,"expected_balance":1e2,"currency":"EUR"}`
)

func paymentRequest() paymentsvc.PaymentRequest {
	return paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1"}
}

func payoutRequest() paymentsvc.PayoutRequest {
	return paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), Destination: "4111111111111111", UserData: "payout-1",
	}
}

// request is a request received by a service.
type request struct {
	Path   string
	Header http.Header
	Body   string
}

// service is a server that validates and records its requests.
type service struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
}

func (s *service) base() string { return s.URL + testBase }

func (s *service) checked(t testing.TB, answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		s.mu.Lock()
		s.requests = append(s.requests, request{r.URL.Path, r.Header.Clone(), string(body)})
		s.mu.Unlock()

		assert.Equal(t, http.MethodPost, r.Method)
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
		assert.Equal(t, int64(len(body)), r.ContentLength)
		assert.Len(t, r.Header.Values("Timestamp"), 1)
		_, err = strconv.ParseInt(r.Header.Get("Timestamp"), 10, 64)
		assert.NoError(t, err)
		want, err := testScheme().Signature(testSecret, &paymentsvc.Message{
			Method: r.Method, URL: r.URL, Header: r.Header, Timestamp: r.Header.Get("Timestamp"), Body: body,
		})
		assert.NoError(t, err)
		assert.Equal(t, []string{want}, r.Header.Values("Signature"), "signature")
		answer(w, r)
	})
}

// received returns the requests so far.
func (s *service) received() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.requests...)
}

// newService starts a service with the given handler.
func newService(t testing.TB, answer http.HandlerFunc) *service {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewServer(s.checked(t, answer))
	t.Cleanup(s.Close)
	return s
}

// newServer starts a server for h and returns its address.
func newServer(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// answering returns a handler with a fixed status and body.
func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// refusingPort returns the address of a closed port.
func refusingPort(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.URL
}

// rawServer is a TCP server that counts complete HTTP/1.1 requests.
type rawServer struct {
	net.Listener
	taken atomic.Int32
	conns sync.WaitGroup
	over  context.Context // ends with the test
}

func (s *rawServer) base() string { return "http://" + s.Addr().String() + testBase }

// serve calls handle for every connection and then closes the connection.
func (s *rawServer) serve(handle func(*net.TCPConn)) {
	s.conns.Go(func() {
		for {
			conn, err := s.Accept()
			if err != nil {
				return
			}
			s.conns.Go(func() {
				defer func() { _ = conn.Close() }()
				defer context.AfterFunc(s.over, func() { _ = conn.Close() })()
				handle(conn.(*net.TCPConn))
			})
		}
	})
}

// newRawServer calls behave after each request, and closes the connection after behave returns false.
func newRawServer(t testing.TB, behave func(conn *net.TCPConn, nth int) (goOn bool)) *rawServer {
	t.Helper()
	s := newListener(t)
	s.serve(func(conn *net.TCPConn) {
		in := bufio.NewReader(conn)
		for goOn := true; goOn; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			goOn = behave(conn, int(s.taken.Add(1)))
		}
	})
	return s
}

func newListener(t testing.TB) *rawServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	over, end := context.WithCancel(context.Background())
	s := &rawServer{Listener: listener, over: over}
	t.Cleanup(func() {
		end()
		_ = listener.Close()
		s.conns.Wait()
	})
	return s
}

func write(conn net.Conn, text string) { _, _ = io.WriteString(conn, text) }

// okResponse returns a response with status 200 as text.
func okResponse(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// tap is a server that records the bytes received and responds with a payment.
type tap struct {
	*rawServer
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (w *tap) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes.Write(p)
}

// received returns the bytes so far.
func (w *tap) received() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes.String()
}

// head returns the request line and the sorted header names of the only request.
func (w *tap) head(t testing.TB) (requestLine string, names []string) {
	t.Helper()
	head, _, found := strings.Cut(w.received(), "\r\n\r\n")
	require.True(t, found, "a whole head came")
	lines := strings.Split(head, "\r\n")
	for _, line := range lines[1:] {
		name, _, found := strings.Cut(line, ": ")
		require.True(t, found, "%q is a header", line)
		names = append(names, name)
	}
	assert.NotContains(t, head, "\n\n")
	assert.Equal(t, strings.Count(head, "\r"), strings.Count(head, "\n"), "the only line breaks are those between headers")
	slices.Sort(names)
	return lines[0], names
}

func newTap(t testing.TB) *tap {
	t.Helper()
	w := &tap{rawServer: newListener(t)}
	w.serve(func(conn *net.TCPConn) {
		in := bufio.NewReader(io.TeeReader(conn, w))
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			write(conn, okResponse(paymentAnswer))
		}
	})
	return w
}

// piped returns a transport with in-memory connections to serve, so tests can use the fake clock of testing/synctest.
func piped(t testing.TB, serve func(conn net.Conn)) *http.Transport {
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			serve(far)
		}()
		return near, nil
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// stalling returns a transport to a service that receives a complete request, sends text and then stalls.
func stalling(t testing.TB, text string) (transport *http.Transport, taken *atomic.Int32) {
	taken = new(atomic.Int32)
	return piped(t, func(conn net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			taken.Add(1)
		}
		write(conn, text)
		_, _ = io.Copy(io.Discard, conn) // until the client disconnects
	}), taken
}

type encodingFunc func(dst, src []byte) []byte

func (f encodingFunc) AppendEncode(dst, src []byte) []byte { return f(dst, src) }

const (
	hookNow                          = 1_700_000_000 // the clock of these tests
	hookTolerance                    = 5 * time.Minute
	hookOther      paymentsvc.Secret = "another-project-secret-key"
	hookBodyLimit                    = 64 << 10
	hookClockShown                   = "1700000000"

	hookBody = `{"event":"payment.status_changed","order_id":"o-1","status":2,"status_description":"SUCCESS",` +
		`"status_code":20,"amount":10.50,"user_data":"order-1"}`
)

// hookScheme is the scheme of plainSignature. The document does not specify a scheme.
func hookScheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
}

// plainSignature computes a signature of hookScheme with the standard library.
func plainSignature(secret paymentsvc.Secret, timestamp, body string) string {
	mac := hmac.New(sha256.New, []byte(string(secret)))
	_, _ = io.WriteString(mac, timestamp+"\n"+body)
	return hex.EncodeToString(mac.Sum(nil))
}

// hookHeader returns the headers of a body signed with testSecret.
func hookHeader(timestamp, body string) http.Header {
	return http.Header{
		"Timestamp": {timestamp},
		"Signature": {plainSignature(testSecret, timestamp, body)},
	}
}

// newHook returns a Webhook for hookScheme and testSecret at the time hookNow, with options applied.
func newHook(t testing.TB, options ...func(*paymentsvc.WebhookConfig)) *paymentsvc.Webhook {
	t.Helper()
	c := paymentsvc.WebhookConfig{
		Scheme:    hookScheme(),
		Secrets:   []paymentsvc.Secret{testSecret},
		Tolerance: hookTolerance,
		Now:       func() time.Time { return time.Unix(hookNow, 0) },
	}
	for _, option := range options {
		option(&c)
	}
	webhook, err := paymentsvc.NewWebhook(c)
	require.NoError(t, err)
	return webhook
}

func anyAge(c *paymentsvc.WebhookConfig) { c.Tolerance = paymentsvc.AnyAge }

func withSecrets(secrets ...paymentsvc.Secret) func(*paymentsvc.WebhookConfig) {
	return func(c *paymentsvc.WebhookConfig) { c.Secrets = secrets }
}

func withScheme(s paymentsvc.Scheme) func(*paymentsvc.WebhookConfig) {
	return func(c *paymentsvc.WebhookConfig) { c.Scheme = s }
}

// hookRequest returns a signed server request.
func hookRequest(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/notifications", strings.NewReader(body))
	r.Header = hookHeader(hookClockShown, body)
	return r
}

// answerOf returns the response of h to r.
func answerOf(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// neverCalled returns a function for a Handler. The function fails the test.
func neverCalled(t testing.TB) func(context.Context, *paymentsvc.Notification) error {
	return func(context.Context, *paymentsvc.Notification) error {
		assert.Fail(t, "the function was called")
		return nil
	}
}

func accept(context.Context, *paymentsvc.Notification) error { return nil }

// respondingInto keeps the error that Respond gets.
func respondingInto(reason *error) func(*paymentsvc.WebhookConfig) {
	return func(c *paymentsvc.WebhookConfig) {
		c.Respond = func(_ http.ResponseWriter, _ *http.Request, err error) { *reason = err }
	}
}

// isOnly asserts that err matches want and no other sentinel.
func isOnly(t testing.TB, err, want error) {
	t.Helper()
	for _, sentinel := range []error{
		paymentsvc.ErrInvalidRequest, paymentsvc.ErrUnexpectedResponse, paymentsvc.ErrResponseTooLarge,
		paymentsvc.ErrMissingHeader, paymentsvc.ErrMalformedHeader, paymentsvc.ErrSignatureMismatch,
		paymentsvc.ErrTimestampTooOld, paymentsvc.ErrTimestampTooNew, paymentsvc.ErrBodyTooLarge,
		paymentsvc.ErrEmptyBody, paymentsvc.ErrMethodNotAllowed, paymentsvc.ErrMalformedNotification,
	} {
		//nolint:errorlint // the sentinels themselves are compared
		assert.Equal(t, sentinel == want, errors.Is(err, sentinel), "is %q %q?", err, sentinel)
	}
	var malformed *paymentsvc.NotificationError
	isMalformed := errors.As(err, &malformed)
	assert.Equal(t, want == paymentsvc.ErrMalformedNotification, isMalformed, "%v", err) //nolint:errorlint // as above
}
