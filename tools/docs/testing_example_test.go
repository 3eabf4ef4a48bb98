package docs_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jarcoal/httpmock"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// scheme and secret are examples. The interface document does not specify how the service signs.
var scheme = paymentsvc.Scheme{
	Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
	Encoding:  paymentsvc.Hex,
}

const secret paymentsvc.Secret = "project-secret-key-of-these-pages"

// price is 19.89 after a conversion to float64 and to whole cents.
var price = paymentsvc.MustParseAmount("19.90")

// service returns a fake service in memory and a client for it.
func service(t *testing.T, onStart func(paymentsvctest.Order)) (*paymentsvctest.Server, *paymentsvc.Client) {
	cfg := paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: 42, Secret: secret}},
		Scheme:    scheme,
		Tolerance: time.Minute,
		OnStart:   onStart,
		Repeated:  paymentsvctest.NewOrder, // a second start then counts; the default rejects it, and hides the mistake
	}
	srv := paymentsvctest.StartInMemory(t, cfg)
	client, err := paymentsvc.NewClient(srv.ClientConfig(42))
	if err != nil {
		t.Fatal(err)
	}
	return srv, client
}

// checkout and shop stand for your code. This checkout reconciles an unknown outcome and never repeats a start.
func checkout(client *paymentsvc.Client, userData string) error {
	_, err := client.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: price, UserData: userData,
	})
	if err == nil || paymentsvc.OutcomeOf(err) != paymentsvc.OutcomeUnknown {
		return err
	}
	status, failed := client.StatusPayment(context.Background(), paymentsvc.StatusPaymentRequest{UserData: userData})
	if failed != nil || status.UserData != userData { // any JSON object is a success, {} too
		return err // still unknown, because the error of a status call is not that of the start
	}
	return nil
}

// shop ships each paid order once, and no refunded order. Its fields stand for tables.
type shop struct {
	seen     map[string]bool
	failing  bool
	refunded bool
	shipped  int
}

func (s *shop) Notified(_ context.Context, n *paymentsvc.Notification) error {
	switch {
	case s.failing:
		return errors.New("the store failed")
	case s.seen[n.Key()] || n.UserData != "order-1" || n.StatusDescription != paymentsvc.StatusSuccess:
	case n.Event == paymentsvc.EventRefundStatusChanged:
		s.refunded = true
	case n.Event == paymentsvc.EventPaymentStatusChanged && n.Amount.Equal(price) && !s.refunded:
		s.shipped++
	}
	s.seen[n.Key()] = true
	return nil
}

// newShop returns a shop for the notifications of srv.
func newShop(t *testing.T, srv *paymentsvctest.Server) *shop {
	s := &shop{seen: map[string]bool{}}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.SetReceiver(paymentsvctest.ToHandler(webhook.Handler(s.Notified), "/notifications"))
	return s
}

func TestLostResponseIsNotPaidTwice(t *testing.T) {
	for when, orders := range map[paymentsvctest.When]int{paymentsvctest.BeforeCommit: 0, paymentsvctest.AfterCommit: 1} {
		t.Run(when.String(), func(t *testing.T) {
			srv, client := service(t, nil)
			lost := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(when))

			err := checkout(client, "order-1") // your code
			if (err == nil) != (orders == 1) { // an unknown outcome is not a success
				t.Errorf("%d payments were started, the error is %v", orders, err)
			}
			srv.AssertStarted(t, "order-1", orders)
			srv.AssertOrders(t, orders) // includes starts with a new user_data
			srv.AssertNoneRejected(t)
			for _, o := range srv.Orders() {
				if !o.Amount.Equal(price) { // not 1990
					t.Errorf("the amount is %s", o.Amount)
				}
			}
			if lost.Hits() == 0 {
				t.Error("no response was lost")
			}
		})
	}
}

func TestUnavailableServiceIsPaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in fake time
		srv, client := service(t, nil)
		outage := srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(), paymentsvctest.Refuse())
		time.AfterFunc(30*time.Second, outage.Remove)

		err := checkout(client, "order-1")
		for err != nil && paymentsvc.SafeToRetry(err) { // your queue's back-off
			time.Sleep(time.Second)
			err = checkout(client, "order-1")
		}
		if err != nil {
			t.Error(err)
		}
		srv.AssertStarted(t, "order-1", 1)
		if outage.Hits() < 30 {
			t.Errorf("%d connections were refused, want 30 or more", outage.Hits())
		}
	})
}

func TestEachFaultStartsAtMostOnePayment(t *testing.T) {
	const before, after = paymentsvctest.BeforeCommit, paymentsvctest.AfterCommit
	another := paymentsvctest.Answer(before, http.StatusOK, "application/json", `{"order_id":"of another payment"}`)

	for _, fault := range append(paymentsvctest.AllFaults(), // and responses of gateways
		paymentsvctest.TooManyRequests(after, time.Second),
		paymentsvctest.Answer(after, http.StatusForbidden, "text/html", "<h1>denied</h1>"),
		paymentsvctest.Answer(before, http.StatusOK, "text/html", "<h1>log in</h1>"),
	) {
		for _, status := range []paymentsvctest.Fault{{}, another, paymentsvctest.Refuse()} { // {} has no effect
			t.Run(fault.String()+", status "+status.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { // so a hanging request takes no time
					srv, client := service(t, nil)
					rule := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), fault)
					srv.Fault(paymentsvctest.StatusPayment, paymentsvctest.Every(), status)

					err := checkout(client, "order-1")
					client.CloseIdleConnections()
					if err := srv.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
					e, isOutcome := errors.AsType[*paymentsvc.Error](err)
					known := !isOutcome || e.Outcome != paymentsvc.OutcomeUnknown
					if n := len(srv.Orders()); n > 1 || known && (n == 1) != (err == nil) {
						t.Errorf("%d payments were started, the error is %v", n, err)
					}
					if rule.Hits() == 0 {
						t.Error("the fault had no effect")
					}
				})
			})
		}
	}
}

func TestPaidOrderShipsOnce(t *testing.T) {
	type statuses = []paymentsvc.StatusName
	const pending, success, failure = paymentsvc.StatusPending, paymentsvc.StatusSuccess, paymentsvc.StatusFailure
	const refund = paymentsvc.EventRefundStatusChanged
	paid, twice, late := statuses{success}, statuses{success, success}, statuses{pending, success, pending, success}
	for name, test := range map[string]struct {
		arriving                  statuses
		fault                     paymentsvctest.NotificationFault // of each notification
		rejected, failing         bool                             // failing: the store fails at the first notification
		event                     paymentsvc.EventType             // of the first notification, like the next three
		orderID, userData, amount string
		shipped                   int
	}{
		"a forged SUCCESS":       {arriving: statuses{pending}, fault: paymentsvctest.Forged()},
		"no signature":           {arriving: paid, fault: paymentsvctest.Unsigned(), rejected: true},
		"an altered SUCCESS":     {arriving: paid, fault: paymentsvctest.Altered(), rejected: true},
		"a failed payment":       {arriving: statuses{pending, failure}},
		"an old timestamp":       {arriving: paid, fault: paymentsvctest.Late(time.Hour), rejected: true},
		"a future timestamp":     {arriving: paid, fault: paymentsvctest.Early(time.Hour), rejected: true},
		"duplicates":             {arriving: paid, fault: paymentsvctest.RepeatedBy(2), shipped: 1},
		"late, then a duplicate": {arriving: late, fault: paymentsvctest.Forged(), shipped: 1},
		"a failing store":        {arriving: twice, failing: true, shipped: 1},
		"a smaller amount":       {arriving: paid, amount: "19.89"},
		"a larger amount":        {arriving: paid, amount: "19.91"},
		"the same amount":        {arriving: paid, amount: "19.9", shipped: 1},
		"another order":          {arriving: paid, orderID: "another", userData: "order-10"},
		"another case":           {arriving: paid, orderID: "another", userData: "Order-1"},
		"another's refund":       {arriving: twice, event: refund, orderID: "another", userData: "order-10", shipped: 1},
		"an unknown status":      {arriving: statuses{"HELD"}},
		"an unknown event":       {arriving: paid, event: "payment.updated"},
		"a payout":               {arriving: paid, event: paymentsvc.EventPayoutStatusChanged},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, client := service(t, nil)
				s := newShop(t, srv)
				if err := checkout(client, "order-1"); err != nil {
					t.Fatal(err)
				}
				for i, status := range test.arriving {
					n, err := srv.Compose(srv.Orders()[0].OrderID, status)
					if err != nil {
						t.Fatal(err)
					}
					s.failing = test.failing && i == 0
					if i == 0 {
						n.Event, n.OrderID = cmp.Or(test.event, n.Event), cmp.Or(test.orderID, n.OrderID)
						n.UserData = cmp.Or(test.userData, n.UserData)
						n.Amount = paymentsvc.MustParseAmount(cmp.Or(test.amount, price.String()))
					}
					for _, d := range srv.Send(t.Context(), n, test.fault) {
						if want := !test.rejected && !s.failing && !d.Forged; d.Accepted() != want {
							t.Errorf("accepted: %t, want %t: %s", d.Accepted(), want, d)
						}
					}
					time.Sleep(time.Second) // a new timestamp
				}
				if s.shipped != test.shipped {
					t.Errorf("shipped %d times, want %d", s.shipped, test.shipped)
				}
			})
		})
	}
}

func TestRefundBeforePaymentPreventsShipping(t *testing.T) {
	for status, shipped := range map[paymentsvc.StatusName]int{paymentsvc.StatusSuccess: 0, paymentsvc.StatusFailure: 1} {
		t.Run(string(status), func(t *testing.T) {
			srv, client := service(t, nil)
			s := newShop(t, srv)
			if err := checkout(client, "order-1"); err != nil {
				t.Fatal(err)
			}
			order := srv.Orders()[0]
			reordered := srv.FaultNotifications(
				paymentsvc.EventPaymentStatusChanged, paymentsvctest.Nth(1), paymentsvctest.Reordered())

			if _, err := srv.Settle(order.OrderID, paymentsvc.StatusSuccess); err != nil {
				t.Fatal(err)
			}
			if _, err := srv.Refund(order.OrderID, order.Amount, status); err != nil {
				t.Fatal(err)
			}
			srv.Deliver(t.Context()) // the refund first

			srv.AssertDelivered(t)
			if s.shipped != shipped { // a failed refund leaves the order as it was
				t.Errorf("shipped %d times, want %d", s.shipped, shipped)
			}
			if reordered.Hits() == 0 {
				t.Error("no notification was reordered")
			}
		})
	}
}

func TestNotificationBeforeTheResponse(t *testing.T) {
	var srv *paymentsvctest.Server
	srv, client := service(t, func(o paymentsvctest.Order) {
		if _, err := srv.Settle(o.OrderID, paymentsvc.StatusSuccess); err != nil {
			t.Error(err)
		}
		srv.Deliver(t.Context())
	})
	s := newShop(t, srv)
	if err := checkout(client, "order-1"); err != nil {
		t.Fatal(err)
	}
	srv.AssertDelivered(t)
	if s.shipped != 1 {
		t.Errorf("shipped %d times, want once", s.shipped)
	}
	if _, err := srv.Refund(srv.Orders()[0].OrderID, price, paymentsvc.StatusSuccess); err != nil {
		t.Fatal(err)
	}
	srv.Deliver(t.Context())
	if !s.refunded { // its order_id and its status are those of the payment's notification
		t.Error("the refund was ignored")
	}
}

// signing returns a client of srv with your own signer.
func signing(t *testing.T, srv *paymentsvctest.Server, c paymentsvc.HMACConfig) *paymentsvc.Client {
	t.Helper()
	signer, err := paymentsvc.NewHMACSigner(c)
	if err != nil {
		t.Fatal(err)
	}
	cfg := srv.ClientConfig(42)
	cfg.Signer = signer
	client, err := paymentsvc.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestMySigner(t *testing.T) {
	srv, _ := service(t, nil)
	client := signing(t, srv, paymentsvc.HMACConfig{Scheme: scheme, Secret: secret})
	if err := checkout(client, "order-1"); err != nil {
		t.Error(err)
	}
	srv.AssertAllSigned(t)
}

func TestWrongClockIsRejected(t *testing.T) {
	srv, _ := service(t, nil)
	client := signing(t, srv, paymentsvc.HMACConfig{
		Scheme: scheme, Secret: secret, Now: func() time.Time { return time.Now().Add(10 * time.Minute) },
	})
	if err := checkout(client, "order-1"); !errors.Is(err, paymentsvc.ErrUnauthorized) {
		t.Errorf("the error is %v", err)
	}
	srv.AssertOrders(t, 0)
}

func TestUnderChaos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, client := service(t, nil)
		seed := srv.Chaos(paymentsvctest.Chaos{OneIn: 3}) // one request in three, and one notification
		for i := range 200 {
			_ = checkout(client, fmt.Sprintf("order-%d", i))
		}
		srv.ClearFaults()
		client.CloseIdleConnections()
		if err := srv.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := 0
		for i := range 200 {
			n := srv.Started(fmt.Sprintf("order-%d", i))
			all += n
			if n > 1 {
				t.Errorf("order-%d was started %d times, seed %d", i, n, seed)
			}
		}
		if n := len(srv.Orders()); n == 0 || n > all {
			t.Errorf("%d orders were started, %d of them by another user_data, seed %d", n, n-all, seed)
		}
	})
}

func TestWithHTTPMock(t *testing.T) {
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder(http.MethodPost, "https://pay.example/init_payment/card",
		httpmock.NewErrorResponder(io.ErrUnexpectedEOF))
	mock.RegisterResponder(http.MethodPost, "https://pay.example/status_payment",
		httpmock.NewStringResponder(http.StatusOK, `{"order_id":"o-1","user_data":"order-1","amount":19.90}`))
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	client, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: "https://pay.example", PartnerID: 7, ProjectID: 42, Signer: signer,
		HTTPClient: &http.Client{Transport: mock}, // without it, the requests go to the network
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := checkout(client, "order-1"); err != nil {
		t.Error(err)
	}
	if n := mock.GetCallCountInfo()["POST https://pay.example/init_payment/card"]; n != 1 {
		t.Errorf("%d starts were sent", n)
	}
}
