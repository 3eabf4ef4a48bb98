package paymentsvc_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
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

// newClient makes a client for the service at base, changed by options, whose connections end with the test.
func newClient(t testing.TB, base string, options ...func(*paymentsvc.Config)) *paymentsvc.Client {
	t.Helper()
	cfg := paymentsvc.Config{
		BaseURL:   base,
		PartnerID: testPartner,
		ProjectID: testProject,
		Signer:    testSigner(t),
		Retry:     quick(),
	}
	for _, option := range options {
		option(&cfg)
	}
	client, err := paymentsvc.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// request is what a service received.
type request struct {
	Path   string
	Header http.Header
	Body   string
}

// service is a server that refuses what the document forbids, records what it gets, and answers what it is told.
type service struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
}

// newService answers every request with answer.
func newService(t testing.TB, answer http.HandlerFunc) *service {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewServer(s.checked(t, answer))
	t.Cleanup(s.Close)
	return s
}

// newServer serves h and gives its address.
func newServer(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
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

// received gives the requests so far.
func (s *service) received() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.requests...)
}

// answering answers every request with one status and body.
func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const (
	paymentAnswer = `{"order_id":"6f1c2f2e-4f0b-4a53-9d43-1f0a6a2f8b11","status":1,"status_code":2,"redirect_url":"https://pay.example/3ds"}`
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
func operations() []operation {
	return []operation{
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
			call: func(t testing.TB, c *paymentsvc.Client) (any, error) {
				return nilOr(c.GetBalance(t.Context()))
			},
			sent:   `{"partner_id":11,"project_id":22}`,
			answer: balanceAnswer,
		},
	}
}

// nilOr makes a nil *T a nil any, so that a test sees whether a failed call gave a response.
func nilOr[T any](v *T, err error) (any, error) {
	if v == nil {
		return nil, err
	}
	return v, err
}

// failed asserts that a call failed with an *Error of this outcome and gave no response.
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
