package paymentsvctest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// shop is the tested code of a partner. Its maps replace tables.
type shop struct {
	client *paymentsvc.Client

	mu       sync.Mutex
	seen     map[string]bool // Notification.Key, a unique index
	refunded map[string]bool // order_id
	shipped  map[string]int  // user_data
}

var errAgain = errors.New("the payment was not started, try again")

// Checkout starts a payment, and reconciles an unknown outcome.
func (s *shop) Checkout(ctx context.Context, userData string, amount paymentsvc.Amount) (orderID string, err error) {
	p, err := s.client.InitPayment(ctx, paymentsvc.PaymentTypeCard,
		paymentsvc.PaymentRequest{Amount: amount, UserData: userData})
	switch {
	case err == nil:
		return p.OrderID, nil
	case paymentsvc.SafeToRetry(err):
		return "", errAgain
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
		// It may have been started, so it is reconciled and never started again.
		status, failed := s.client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: userData})
		if failed != nil || status.UserData != userData {
			return "", err // still unknown, because the error of a status call is not that of the start
		}
		return status.OrderID, nil
	default:
		return "", err // rejected for good, or never valid
	}
}

// Notified ships each paid order once. It records a refund, which may arrive before the SUCCESS of its payment.
func (s *shop) Notified(_ context.Context, n *paymentsvc.Notification) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[n.Key()] {
		return nil
	}
	s.seen[n.Key()] = true
	switch {
	case n.StatusDescription != paymentsvc.StatusSuccess:
	case n.Event == paymentsvc.EventRefundStatusChanged:
		s.refunded[n.OrderID] = true
	case n.Event == paymentsvc.EventPaymentStatusChanged && !s.refunded[n.OrderID]:
		s.shipped[n.UserData]++
	}
	return nil
}

// This test of a shop has a lost response, a forged notification, and a notification with two duplicates. In your own
// test, Start replaces New, Listen and Close.
func Example() {
	secret := paymentsvc.Secret("secret-of-this-example")
	scheme := paymentsvc.Scheme{ // the document specifies no scheme
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
	srv, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: 42, Secret: secret}},
		Scheme:    scheme,
		Repeated:  paymentsvctest.NewOrder, // a second start counts; the default rejects it
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	if err := srv.Listen("127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	client, err := paymentsvc.NewClient(srv.ClientConfig(42))
	if err != nil {
		fmt.Println(err)
		return
	}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: time.Minute,
		OnError: func(_ *http.Request, err error) { fmt.Println(err) }, // else rejected notifications are silent
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := &shop{client: client, seen: map[string]bool{}, refunded: map[string]bool{}, shipped: map[string]int{}}
	srv.SetReceiver(paymentsvctest.ToHandler(webhook.Handler(s.Notified), "/notifications"))
	ctx := context.Background()

	lost := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	orderID, err := s.Checkout(ctx, "order-1", paymentsvc.MustParseAmount("10.50"))
	fmt.Println("answers lost:", lost.Hits())
	fmt.Println("checkout:", orderID, err)
	fmt.Println("payments started for order-1:", srv.Started("order-1"))

	srv.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.Forged(), paymentsvctest.RepeatedBy(2))
	if _, err := srv.Settle(orderID, paymentsvc.StatusSuccess); err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range srv.Deliver(ctx) {
		fmt.Printf("notification, forged %t: %d %s\n", d.Forged, d.HTTPStatus, http.StatusText(d.HTTPStatus))
	}
	fmt.Println("shipped for order-1:", s.shipped["order-1"])

	// Output:
	// answers lost: 1
	// checkout: 00000000-0000-4000-8000-000000000001 <nil>
	// payments started for order-1: 1
	// paymentsvc: notification: signature mismatch
	// notification, forged true: 401 Unauthorized
	// notification, forged false: 200 OK
	// notification, forged false: 200 OK
	// notification, forged false: 200 OK
	// shipped for order-1: 1
}

// Without a socket, the SDK's own transport still proves that a refused request was not sent. In a test, StartInMemory
// replaces New, ListenInMemory and Close.
func ExampleServer_ListenInMemory() {
	srv := exampleServer((*paymentsvctest.Server).ListenInMemory)
	defer srv.Close()
	cfg := srv.ClientConfig(42)
	cfg.Retry.BaseDelay = time.Millisecond
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	srv.Fault(paymentsvctest.InitPayout, paymentsvctest.First(3), paymentsvctest.Refuse())
	request := paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("99.90"), Destination: "4111111111111111", UserData: "payout-1",
	}
	_, err = client.InitPayout(context.Background(), request)
	fmt.Println(paymentsvc.OutcomeOf(err), srv.Started("payout-1"))
	_, err = client.InitPayout(context.Background(), request)
	fmt.Println(err, srv.Started("payout-1"))
	// Output:
	// not sent 0
	// <nil> 1
}

// The fake explains a wrong signature. The key of this program has the line break of its file.
func ExampleServer_SignatureFaults() {
	srv := exampleServer(func(s *paymentsvctest.Server) error { return s.Listen("127.0.0.1:0") })
	defer srv.Close()
	cfg := srv.ClientConfig(42)
	var err error
	cfg.Signer, err = paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: exampleScheme(), Secret: "secret-of-this-example\n", SecretEndsInLineBreak: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.GetBalance(context.Background())
	fmt.Println(paymentsvc.OutcomeOf(err))
	for _, fault := range srv.SignatureFaults() {
		fmt.Println(fault)
	}
	// Output:
	// rejected
	// get_balance, request 1: signed with the secret and a line break
}

// exampleServer returns a fake with one project.
func exampleServer(listen func(*paymentsvctest.Server) error) *paymentsvctest.Server {
	srv, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: 42, Secret: "secret-of-this-example"}},
		Scheme:    exampleScheme(),
	})
	if err == nil {
		err = listen(srv)
	}
	if err != nil {
		panic(err)
	}
	return srv
}

// exampleScheme returns an arbitrary scheme, because the document specifies no scheme.
func exampleScheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
}
