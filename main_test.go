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

// testScheme is these tests' choice; the document shows none.
func testScheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Method, canonical.Path, canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
}

func testSigner(t testing.TB) *paymentsvc.HMACSigner {
	t.Helper()
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: testScheme(), Secret: testSecret})
	require.NoError(t, err)
	return signer
}

// quick is a retry policy that waits next to nothing.
func quick() paymentsvc.Retry {
	return paymentsvc.Retry{BaseDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond}
}

// testConfig is a valid Config. Its Timeout is far longer than a slow machine needs.
func testConfig(t testing.TB, base string) paymentsvc.Config {
	t.Helper()
	return paymentsvc.Config{
		BaseURL: base, PartnerID: testPartner, ProjectID: testProject, Signer: testSigner(t), Retry: quick(),
		Timeout: time.Hour,
	}
}

// newClient returns a client for the service at base, changed by options, whose connections end with the test.
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

// over makes the client send through rt.
func over(rt http.RoundTripper) func(*paymentsvc.Config) {
	return func(cfg *paymentsvc.Config) { cfg.HTTPClient = &http.Client{Transport: rt} }
}

func signedBy(signer paymentsvc.Signer) func(*paymentsvc.Config) {
	return func(cfg *paymentsvc.Config) { cfg.Signer = signer }
}

// meddling signs after change has changed the request.
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

// attempts sets how often a call is tried.
func attempts(n int) func(*paymentsvc.Config) {
	return func(cfg *paymentsvc.Config) { cfg.Retry.MaxAttempts = n }
}

func trusted(cfg *paymentsvc.Config) { cfg.TrustTransport = true }

// onEach returns a Config.OnAttempt from a function of the attempt alone.
func onEach(f func(paymentsvc.Attempt)) func(context.Context, paymentsvc.Attempt) {
	return func(_ context.Context, a paymentsvc.Attempt) { f(a) }
}

// roundTripFunc is a foreign http.RoundTripper.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// canned is an answer for a roundTripFunc to return.
func canned(status int, header http.Header, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1,
	}
}

// answers makes every request get one canned answer.
func answers(status int, header http.Header, body string) func(*paymentsvc.Config) {
	return over(roundTripFunc(func(*http.Request) (*http.Response, error) { return canned(status, header, body), nil }))
}

func pay(ctx context.Context, c *paymentsvc.Client) (any, error) {
	return nilOr(c.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentRequest()))
}

// nilOr makes a nil *T a nil any, so that a test sees whether a failed call returned a response.
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
	assert.Equal(t, e.Outcome, paymentsvc.OutcomeOf(err))
	require.Error(t, e.Err, "the reason is never nil")
	return e
}

// pan is what may be given in place of an amount by mistake, and must not be in an error.
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

// operation is one of the seven endpoints with a request that is valid and an answer that is whole.
type operation struct {
	name   string // in the document
	path   string
	starts bool
	call   func(t testing.TB, c *paymentsvc.Client) (any, error)
	sent   string
	answer string
}

// operations are all seven, in the document's order.
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

// request is what a service received.
type request struct {
	Path   string
	Header http.Header
	Body   string
}

// service is a server that rejects what the document forbids, records its requests, and replies as it is told.
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

// newService answers every request with answer.
func newService(t testing.TB, answer http.HandlerFunc) *service {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewServer(s.checked(t, answer))
	t.Cleanup(s.Close)
	return s
}

// newServer serves h and returns its address.
func newServer(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// answering answers every request with one status and body.
func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// refusingPort is an address of this machine at which nothing listens.
func refusingPort(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.URL
}

// rawServer takes whole HTTP/1.1 requests off TCP connections, counts them, and leaves the rest to behave.
type rawServer struct {
	net.Listener
	taken atomic.Int32
	conns sync.WaitGroup
	over  context.Context // with the test
}

func (s *rawServer) base() string { return "http://" + s.Addr().String() + testBase }

// serve runs handle for every connection and closes it afterwards.
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

// newRawServer calls behave after each request of a connection; the connection is closed once it returns false.
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

// tap is a server that keeps every byte which reaches it, as it came, and answers a payment.
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

// received returns all bytes so far.
func (w *tap) received() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes.String()
}

// head splits the one request that came into its first line and the names of its headers.
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
	assert.Equal(t, strings.Count(head, "\r"), strings.Count(head, "\n"), "no line ends but those between headers")
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
			write(conn, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(paymentAnswer), paymentAnswer))
		}
	})
	return w
}

// piped is a transport whose connections are pipes to serve, so that a bubble of testing/synctest knows when nothing
// but time can go on: no test waits, and none is short of patience on a busy machine.
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

// stalling is a transport to a service that takes whole requests, answers with text and then says nothing more.
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
		_, _ = io.Copy(io.Discard, conn) // until the client leaves
	}), taken
}

type encodingFunc func(dst, src []byte) []byte

func (f encodingFunc) AppendEncode(dst, src []byte) []byte { return f(dst, src) }

const (
	hookNow                          = 1_700_000_000 // what these tests' clock shows
	hookTolerance                    = 5 * time.Minute
	hookOther      paymentsvc.Secret = "another-project-secret-key"
	hookBodyLimit                    = 64 << 10
	hookClockShown                   = "1700000000"

	hookBody = `{"event":"payment.status_changed","order_id":"o-1","status":2,"status_description":"SUCCESS",` +
		`"status_code":20,"amount":10.50,"user_data":"order-1"}`
)

// hookScheme is these tests' choice; the document shows none. It is what plainSignature makes.
func hookScheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
}

// plainSignature is hookScheme's signature, made without this module.
func plainSignature(secret paymentsvc.Secret, timestamp, body string) string {
	mac := hmac.New(sha256.New, []byte(string(secret)))
	_, _ = io.WriteString(mac, timestamp+"\n"+body)
	return hex.EncodeToString(mac.Sum(nil))
}

// hookHeader signs a body with testSecret under hookScheme.
func hookHeader(timestamp, body string) http.Header {
	return http.Header{
		"Timestamp": {timestamp},
		"Signature": {plainSignature(testSecret, timestamp, body)},
	}
}

// newHook returns a Webhook of hookScheme and testSecret whose clock shows hookNow, changed by options.
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

// hookRequest is a request as a server has read it, with the header for the body that hookHeader makes.
func hookRequest(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/notifications", strings.NewReader(body))
	r.Header = hookHeader(hookClockShown, body)
	return r
}

// answerOf is what h answers to r.
func answerOf(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// neverCalled is a function for a Handler that must reject.
func neverCalled(t testing.TB) func(context.Context, *paymentsvc.Notification) error {
	return func(context.Context, *paymentsvc.Notification) error {
		assert.Fail(t, "the function was called")
		return nil
	}
}

func accept(context.Context, *paymentsvc.Notification) error { return nil }

// isOnly asserts that of all the sentinels err is want and nothing else, so that no fault is taken for another.
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
