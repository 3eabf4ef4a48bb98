package paymentsvctest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	partner   int64             = 7
	project   int64             = 42
	secret    paymentsvc.Secret = "project-secret-key-of-these-tests"
	oldSecret paymentsvc.Secret = "the-key-before-the-rotation"
	card                        = "4111111111111111" // a public test number
)

// scheme is the choice of these tests. The document specifies no scheme.
func scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Method, canonical.Path, canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
}

func config(options ...func(*paymentsvctest.Config)) paymentsvctest.Config {
	cfg := paymentsvctest.Config{
		PartnerID: partner,
		Projects: []paymentsvctest.Project{{
			ID: project, Secret: secret, OldSecret: oldSecret, Balance: paymentsvc.MustParseAmount("1000.00"), Currency: "EUR",
		}},
		Scheme:   scheme(),
		BasePath: "/base/v1", // a path detects code that drops it
	}
	for _, option := range options {
		option(&cfg)
	}
	return cfg
}

// everyStartCounts starts an order for each duplicate, so a repeated start fails the test.
func everyStartCounts(c *paymentsvctest.Config) { c.Repeated = paymentsvctest.NewOrder }

// newClient returns a client of srv with short waits between attempts.
func newClient(t testing.TB, srv *paymentsvctest.Server, options ...func(*paymentsvc.Config)) *paymentsvc.Client {
	t.Helper()
	cfg := srv.ClientConfig(project)
	cfg.Retry = paymentsvc.Retry{BaseDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond}
	for _, option := range options {
		option(&cfg)
	}
	client, err := paymentsvc.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// startFake starts a fake until the test ends, and returns it with a client.
func startFake(
	t testing.TB, options ...func(*paymentsvctest.Config),
) (*paymentsvctest.Server, *paymentsvc.Client) {
	t.Helper()
	srv := paymentsvctest.Start(t, config(options...))
	return srv, newClient(t, srv)
}

// waitFor polls a condition. It has no time limit, because go test ends a test that hangs.
func waitFor(condition func() bool) {
	for !condition() {
		time.Sleep(time.Millisecond)
	}
}

func amount(text string) paymentsvc.Amount { return paymentsvc.MustParseAmount(text) }

func payment(userData string) paymentsvc.PaymentRequest {
	return paymentsvc.PaymentRequest{Amount: amount("10.50"), UserData: userData}
}

func payout(userData string) paymentsvc.PayoutRequest {
	return paymentsvc.PayoutRequest{Amount: amount("10.50"), Destination: card, UserData: userData}
}

// pay starts a payment and returns its order_id.
func pay(t testing.TB, c *paymentsvc.Client, userData string) string {
	t.Helper()
	p, err := c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, payment(userData))
	require.NoError(t, err)
	return p.OrderID
}

// payOut starts a payout and returns its order_id.
func payOut(t testing.TB, c *paymentsvc.Client, userData string) string {
	t.Helper()
	p, err := c.InitPayout(t.Context(), payout(userData))
	require.NoError(t, err)
	return p.OrderID
}

// settled moves an order to a status and returns the notification.
func settled(
	t testing.TB, srv *paymentsvctest.Server, orderID string, status paymentsvc.StatusName,
) paymentsvctest.Notification {
	t.Helper()
	n, err := srv.Settle(orderID, status)
	require.NoError(t, err)
	return n
}

// operation is a call of one of the seven endpoints, with a new userData or with the ids of earlier orders.
type operation struct {
	endpoint string
	kind     paymentsvctest.Kind // "" for status calls and get_balance
	call     func(ctx context.Context, c *paymentsvc.Client, userData, paymentID, payoutID string) error
}

// operations returns all seven, in the document's order.
func operations() []operation {
	return []operation{
		{paymentsvctest.InitPayment, paymentsvctest.KindPayment,
			func(ctx context.Context, c *paymentsvc.Client, userData, _, _ string) error {
				r, err := c.InitPayment(ctx, paymentsvc.PaymentTypeCard, payment(userData))
				return checked(err,
					func() bool { return r.OrderID != "" && r.Status == 1 && r.StatusCode == 10 && r.RedirectURL != "" })
			}},
		{paymentsvctest.StatusPayment, "", func(ctx context.Context, c *paymentsvc.Client, _, id, _ string) error {
			_, err := c.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{OrderID: id})
			return err
		}},
		{paymentsvctest.InitPayout, paymentsvctest.KindPayout,
			func(ctx context.Context, c *paymentsvc.Client, userData, _, _ string) error {
				r, err := c.InitPayout(ctx, payout(userData))
				return checked(err, func() bool { return r.OrderID != "" && r.Status == 1 && r.StatusCode == 10 })
			}},
		{paymentsvctest.StatusPayout, "", func(ctx context.Context, c *paymentsvc.Client, _, _, id string) error {
			_, err := c.StatusPayout(ctx, paymentsvc.StatusPayoutRequest{OrderID: id})
			return err
		}},
		{paymentsvctest.InitForm, paymentsvctest.KindForm,
			func(ctx context.Context, c *paymentsvc.Client, userData, _, _ string) error {
				r, err := c.InitForm(ctx, payment(userData))
				return checked(err, func() bool { return r.RedirectURL != "" })
			}},
		{paymentsvctest.InitInvoice, paymentsvctest.KindInvoice,
			func(ctx context.Context, c *paymentsvc.Client, userData, _, _ string) error {
				r, err := c.InitInvoice(ctx, payment(userData))
				return checked(err, func() bool { return r.OrderID != "" && r.InvoiceURL != "" })
			}},
		{paymentsvctest.GetBalance, "", func(ctx context.Context, c *paymentsvc.Client, _, _, _ string) error {
			r, err := c.GetBalance(ctx)
			return checked(err,
				func() bool { return r.PayoutBalance.IsSet() && r.ExpectedBalance.IsSet() && r.Currency == "EUR" })
		}},
	}
}

var errWrongAnswer = errors.New("a response without a required field counted as a success")

func checked(err error, right func() bool) error {
	if err == nil && !right() {
		return errWrongAnswer
	}
	return err
}

// outcomeOf returns the outcome of a failed call, also of a status call.
func outcomeOf(t testing.TB, err error) paymentsvc.Outcome {
	t.Helper()
	var e *paymentsvc.Error
	require.ErrorAs(t, err, &e)
	return e.Outcome
}
