package docs_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// checkout is the code under test: it reconciles an unknown outcome and starts nothing again.
func checkout(client *paymentsvc.Client, userData string) {
	_, err := client.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
	})
	switch {
	case err == nil, paymentsvc.SafeToRetry(err):
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
		_, _ = client.StatusPayment(context.Background(), paymentsvc.StatusPaymentRequest{UserData: userData})
	}
}

// shop receives the notifications of a test.
func shop(t *testing.T) http.Handler {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return webhook.Handler(func(context.Context, *paymentsvc.Notification) error { return nil })
}

// service returns a fake that accepts a second start, and a client of it that waits timeout for an answer.
func service(t *testing.T, timeout time.Duration) (*paymentsvctest.Server, *paymentsvc.Client) {
	srv := paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: 7, Projects: []paymentsvctest.Project{{ID: 42, Secret: secret}}, Scheme: scheme,
		Repeated: paymentsvctest.NewOrder,
	})
	cfg := srv.ClientConfig(42)
	cfg.Timeout = timeout
	cfg.Retry.BaseDelay = time.Millisecond
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return srv, client
}

func TestALostAnswerIsNotPaidTwice(t *testing.T) {
	srv := paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: 42, Secret: secret}},
		Scheme:    scheme,                  // yours: there is no default
		Repeated:  paymentsvctest.NewOrder, // or a second start is rejected, and stays unseen
	})
	cfg := srv.ClientConfig(42)
	cfg.Retry.BaseDelay = time.Millisecond
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rule := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(paymentsvctest.AfterCommit))

	checkout(client, "order-1") // your code

	srv.AssertStarted(t, "order-1", 1)
	srv.AssertOrders(t, 1) // nor again under a new user_data
	srv.AssertNoneRejected(t)
	if rule.Hits() == 0 {
		t.Error("the answer was never lost, so nothing was tested")
	}
}

func TestEachFaultStartsOnePaymentAtMost(t *testing.T) {
	srv, client := service(t, 2*time.Second)
	for _, fault := range paymentsvctest.AllFaults() {
		t.Run(fault.String(), func(t *testing.T) {
			rule := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), fault)
			defer rule.Remove()
			userData := "order for " + fault.String()
			checkout(client, userData)
			if n := srv.Started(userData); n > 1 {
				t.Errorf("%d payments were started", n)
			}
			if rule.Hits() == 0 {
				t.Error("the fault never happened")
			}
		})
	}
}

func TestNotificationsThatAreForgedAndRepeated(t *testing.T) {
	srv, client := service(t, time.Minute)
	handler := shop(t)
	checkout(client, "order-1")
	srv.SetReceiver(paymentsvctest.ToHandler(handler, "/notifications"))
	order := srv.Orders()[0]
	rule := srv.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.Forged(), paymentsvctest.RepeatedBy(2))
	if _, err := srv.Settle(order.OrderID, paymentsvc.StatusSuccess); err != nil {
		t.Fatal(err)
	}
	srv.Deliver(t.Context())

	late, err := srv.Compose(order.OrderID, paymentsvc.StatusPending) // an old state, after the new one
	if err != nil {
		t.Fatal(err)
	}
	srv.Send(t.Context(), late)
	srv.AssertForgeriesRefused(t)
	if rule.Hits() == 0 {
		t.Error("nothing was forged, so nothing was tested")
	}
}

func TestARefundArrivesBeforeItsPaymentsSuccess(t *testing.T) {
	srv, client := service(t, time.Minute)
	table, db := database(t)
	table.starts["order-1"] = startRow{state: "open"}
	if err := start(t.Context(), client, "order-1"); err != nil {
		t.Fatal(err)
	}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := webhook.Handler(orders.Apply)
	order := srv.Orders()[0]

	srv.SetReceiver(paymentsvctest.ToHandler(handler, "/notifications"))
	reordered := srv.FaultNotifications(
		paymentsvc.EventPaymentStatusChanged, paymentsvctest.Nth(1), paymentsvctest.Reordered())
	if _, err := srv.Settle(order.OrderID, paymentsvc.StatusSuccess); err != nil {
		t.Fatal(err)
	}
	if _, err := srv.Refund(order.OrderID, order.Amount, paymentsvc.StatusSuccess); err != nil {
		t.Fatal(err)
	}
	srv.Deliver(t.Context()) // the refund first
	if reordered.Hits() == 0 {
		t.Error("nothing was reordered, so nothing was tested")
	}

	deliveries := srv.Deliveries()
	require.Len(t, deliveries, 2)
	assert.Equal(t, paymentsvc.EventRefundStatusChanged, deliveries[0].Notification.Event)
	assert.True(t, deliveries[0].Accepted() && deliveries[1].Accepted())
	if ship, err := mayShip(t.Context(), db, order.OrderID, order.Amount); err != nil || ship {
		t.Errorf("a refunded order may be shipped: %t, %v", ship, err)
	}
}

func TestMySigner(t *testing.T) {
	srv, _ := service(t, time.Minute)
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	decodeError := paymentsvc.ErrorFields("error_code", "error_message")

	client, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: srv.URL, HTTPClient: srv.HTTPClient(), PartnerID: 7, ProjectID: 42,
		Signer: signer, DecodeError: decodeError, // your own, which go live
	})
	if err != nil {
		t.Fatal(err)
	}
	checkout(client, "order-1")
	srv.AssertAllSigned(t)
	srv.AssertStarted(t, "order-1", 1)
}

func TestUnderChaos(t *testing.T) {
	srv, client := service(t, 100*time.Millisecond)
	seed := srv.Chaos(paymentsvctest.Chaos{OneIn: 3}) // one request in three, and one notification
	for i := range 200 {
		checkout(client, fmt.Sprintf("order-%d", i))
	}
	srv.ClearFaults()
	if err := srv.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if n := srv.Started(fmt.Sprintf("order-%d", i)); n > 1 {
			t.Errorf("order-%d was started %d times, seed %d", i, n, seed)
		}
	}
	if len(srv.Orders()) == 0 {
		t.Error("no order was started, so nothing was tested")
	}
}
