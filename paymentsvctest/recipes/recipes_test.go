// Package recipes_test has tests for your code, with a small shop and its payouts in your code's place. Copy this file,
// and replace the part between the two lines of dashes, but keep its names. docs/testing.md describes the tests.
package recipes_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// Your code ----------------------------------------------------------------------------------------------------------

// scheme and secret are examples. The interface document does not specify how the service signs.
var scheme = paymentsvc.Scheme{
	Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
	Encoding:  paymentsvc.Hex,
}

const secret paymentsvc.Secret = "project-secret-key-of-these-pages"

// price becomes 300000.09 as a float32, and as a float64 times 100, truncated to whole cents.
var price = paymentsvc.MustParseAmount("300000.10")

// errUnresolved means that a payment may exist. The payer must not pay again.
var errUnresolved = errors.New("the outcome of the payment is unknown")

// store keeps the orders and payouts of a program that restarts. Its maps stand for tables, and mu for transactions.
type store struct {
	mu      sync.Mutex
	orders  map[string]*order // by user_data
	seen    map[string]bool   // the keys of notifications
	payouts map[string]string // the state of each payout by user_data
	failing atomic.Bool       // the store returns errors
}

type order struct {
	final            paymentsvc.StatusName // "" until SUCCESS or FAILURE
	refunds, shipped int
}

func newStore() *store {
	return &store{orders: map[string]*order{}, seen: map[string]bool{}, payouts: map[string]string{}}
}

var errStore = errors.New("the store failed")

// shop starts each payment at most once, and ships each paid order once, except refunded orders.
type shop struct {
	client *paymentsvc.Client
	*store
}

// newShop returns a shop for the payments and notifications of srv.
func newShop(t *testing.T, srv *paymentsvctest.Server, client *paymentsvc.Client, db *store) *shop {
	t.Helper()
	s := &shop{client, db}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.SetReceiver(paymentsvctest.ToHandler(webhook.Handler(s.Notified), "/notifications"))
	return s
}

// checkout starts a payment, unless an earlier checkout may have started it. It reconciles an unknown outcome.
func (s *shop) checkout(userData string) error {
	if s.insert(userData) { // committed before the call
		_, err := s.client.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
			Amount: price, UserData: userData,
		})
		switch {
		case err == nil:
			return nil
		case paymentsvc.OutcomeOf(err) != paymentsvc.OutcomeUnknown:
			s.remove(userData)
			return err
		}
	}
	status, err := s.client.StatusPayment(context.Background(), paymentsvc.StatusPaymentRequest{UserData: userData})
	if err != nil || status.UserData != userData { // any JSON object is a success, {} too
		return errUnresolved // also after "not found", because the start may still arrive
	}
	return nil
}

// insert returns false if the order exists, or if the store fails.
func (s *shop) insert(userData string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing.Load() || s.orders[userData] != nil {
		return false
	}
	s.orders[userData] = &order{}
	return true
}

func (s *shop) remove(userData string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.orders, userData)
}

func (s *shop) Notified(_ context.Context, n *paymentsvc.Notification) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.orders[n.UserData]
	switch {
	case s.failing.Load():
		return errStore
	case s.seen[n.Key()] || o == nil:
	case n.Event == paymentsvc.EventRefundStatusChanged && n.StatusDescription == paymentsvc.StatusSuccess:
		o.refunds++
	case n.Final() && o.final == "": // never overwrite a final state
		o.final = n.StatusDescription
		if o.final == paymentsvc.StatusSuccess && n.Amount.Equal(price) && o.refunds == 0 {
			o.shipped++
		}
	}
	s.seen[n.Key()] = true
	return nil
}

// order returns a copy of a stored order, or the zero order.
func (s *store) order(userData string) order {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.orders[userData]; o != nil {
		return *o
	}
	return order{}
}

// payouts starts each payout at most once.
type payouts struct {
	client *paymentsvc.Client
	*store
}

// The states of a payout. A call is in flight for a claimed payout, or its outcome is unknown.
const claimed, started, rejected = "claimed", "started", "rejected"

func newPayouts(client *paymentsvc.Client, db *store) *payouts { return &payouts{client, db} }

// pay starts the new payouts of a list. Only a notification or an operator resolves a claimed payout.
func (p *payouts) pay(list []paymentsvc.PayoutRequest) error {
	for _, r := range list {
		if !p.claim(r.UserData) { // committed before the call
			continue
		}
		state := started
		_, err := p.client.InitPayout(context.Background(), r)
		switch {
		case err == nil:
		case paymentsvc.SafeToRetry(err):
			state = ""
		case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
			state = claimed
		default:
			state = rejected
		}
		if err := p.record(r.UserData, state); err != nil {
			return err
		}
	}
	return nil
}

// claim returns false if the payout has a state.
func (p *payouts) claim(userData string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.payouts[userData] != "" {
		return false
	}
	p.payouts[userData] = claimed
	return true
}

func (p *payouts) record(userData, state string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failing.Load() {
		return errStore
	}
	p.payouts[userData] = state
	return nil
}

// payout returns the state of a stored payout.
func (s *store) payout(userData string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.payouts[userData]
}

// End of your code ---------------------------------------------------------------------------------------------------

// service returns a fake service in memory and a client for it.
func service(t *testing.T, onStart func(paymentsvctest.Order)) (*paymentsvctest.Server, *paymentsvc.Client) {
	t.Helper()
	cfg := paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: 42, Secret: secret}},
		Scheme:    scheme,
		Tolerance: time.Minute,
		OnStart:   onStart,
		Repeated:  paymentsvctest.NewOrder, // a second start adds an order; the default rejects it
	}
	srv := paymentsvctest.StartInMemory(t, cfg)
	client, err := paymentsvc.NewClient(srv.ClientConfig(42))
	if err != nil {
		t.Fatal(err)
	}
	return srv, client
}

func TestLostResponseIsNotPaidTwice(t *testing.T) {
	for when, orders := range map[paymentsvctest.When]int{paymentsvctest.BeforeCommit: 0, paymentsvctest.AfterCommit: 1} {
		t.Run(when.String(), func(t *testing.T) {
			srv, client := service(t, nil)
			lost := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(when))

			s := newShop(t, srv, client, newStore())
			err := s.checkout("order-1")
			if (err == nil) != (orders == 1) { // an unknown outcome is not a success
				t.Errorf("%d payments were started, the error is %v", orders, err)
			}
			if orders == 1 && s.order("order-1").shipped != 0 {
				t.Error("shipped without a SUCCESS")
			}
			srv.AssertStarted(t, "order-1", orders)
			srv.AssertOrders(t, orders) // includes starts with a new user_data
			srv.AssertNoneRejected(t)
			for _, o := range srv.Orders() {
				if !o.Amount.Equal(price) { // for example, an amount in cents
					t.Errorf("the amount is %s", o.Amount)
				}
			}
			if lost.Hits() == 0 {
				t.Error("no response was lost")
			}
		})
	}
}

// during returns a hook for OnStart. During the first start, before its response, the hook calls f once. The hook waits
// at most 100 ms for f, because f may need the start's response if your code has locks. wait waits until f ends.
func during(f func()) (onStart func(paymentsvctest.Order), wait func()) {
	var begun atomic.Bool
	done := make(chan struct{})
	onStart = func(paymentsvctest.Order) {
		if !begun.CompareAndSwap(false, true) {
			return
		}
		go func() {
			defer close(done)
			f()
		}()
		select {
		case <-done:
		case <-time.After(100 * time.Millisecond):
		}
	}
	return onStart, func() {
		if begun.Load() {
			<-done
		}
	}
}

func TestSecondClickStartsNoSecondPayment(t *testing.T) {
	for _, fault := range []paymentsvctest.Fault{
		{}, paymentsvctest.Drop(paymentsvctest.AfterCommit), paymentsvctest.LateCommit(9), // {} has no effect
	} {
		t.Run(cmp.Or(fault.String(), "no fault"), func(t *testing.T) {
			var s *shop
			click := func() {
				if err := s.checkout("order-1"); err != nil && !errors.Is(err, errUnresolved) {
					t.Errorf("a payment exists, but the error is %v", err)
				}
			}
			onStart, wait := during(click)
			srv, client := service(t, onStart)
			s = newShop(t, srv, client, newStore())
			rule := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), fault)

			click() // the first click; during its call the hook clicks again
			wait()
			click() // later

			srv.AssertStarted(t, "order-1", 1)
			srv.AssertOrders(t, 1)
			if rule.Hits() == 0 && fault.String() != "" {
				t.Error("the fault had no effect")
			}
		})
	}
}

func TestRestartStartsNoSecondPayment(t *testing.T) {
	db := newStore()
	srv, client := service(t, func(paymentsvctest.Order) { db.failing.Store(true) }) // like a crash in the call
	for range 2 {
		db.failing.Store(false)
		_ = newShop(t, srv, client, db).checkout("order-1") // the restarted program
	}
	srv.AssertStarted(t, "order-1", 1)
	srv.AssertOrders(t, 1)
}

func TestUnavailableServiceIsPaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in fake time
		srv, client := service(t, nil)
		outage := srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(), paymentsvctest.Refuse())
		time.AfterFunc(30*time.Second, outage.Remove)

		s := newShop(t, srv, client, newStore())
		err := s.checkout("order-1")
		for err != nil && paymentsvc.SafeToRetry(err) { // your queue's back-off
			time.Sleep(time.Second)
			err = s.checkout("order-1")
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

					err := newShop(t, srv, client, newStore()).checkout("order-1")
					client.CloseIdleConnections()
					if err := srv.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
					known := !errors.Is(err, errUnresolved)
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
		event                     paymentsvc.EventType             // of the first notification, as the next 3
		orderID, userData, amount string
		shipped                   int
	}{
		"a forged SUCCESS":       {arriving: statuses{pending}, fault: paymentsvctest.Forged()},
		"no signature":           {arriving: paid, fault: paymentsvctest.Unsigned(), rejected: true},
		"an altered SUCCESS":     {arriving: paid, fault: paymentsvctest.Altered(), rejected: true},
		"a failed payment":       {arriving: statuses{pending, failure}},
		"a failure, then paid":   {arriving: statuses{failure, success}},
		"an old timestamp":       {arriving: paid, fault: paymentsvctest.Late(time.Hour), rejected: true},
		"a future timestamp":     {arriving: paid, fault: paymentsvctest.Early(time.Hour), rejected: true},
		"duplicates":             {arriving: paid, fault: paymentsvctest.RepeatedBy(2), shipped: 1},
		"late, then a duplicate": {arriving: late, fault: paymentsvctest.Forged(), shipped: 1},
		"a failing store":        {arriving: twice, failing: true, shipped: 1},
		"a smaller amount":       {arriving: paid, amount: "300000.09"},
		"a larger amount":        {arriving: paid, amount: "300000.11"},
		"the same amount":        {arriving: paid, amount: "300000.1", shipped: 1},
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
				s := newShop(t, srv, client, newStore())
				if err := s.checkout("order-1"); err != nil {
					t.Fatal(err)
				}
				for i, status := range test.arriving {
					n, err := srv.Compose(srv.Orders()[0].OrderID, status)
					if err != nil {
						t.Fatal(err)
					}
					s.failing.Store(test.failing && i == 0)
					if i == 0 {
						n.Event, n.OrderID = cmp.Or(test.event, n.Event), cmp.Or(test.orderID, n.OrderID)
						n.UserData = cmp.Or(test.userData, n.UserData)
						n.Amount = paymentsvc.MustParseAmount(cmp.Or(test.amount, price.String()))
					}
					for _, d := range srv.Send(t.Context(), n, test.fault) {
						if want := !test.rejected && !s.failing.Load() && !d.Forged; d.Accepted() != want {
							t.Errorf("accepted: %t, want %t: %s", d.Accepted(), want, d)
						}
					}
					time.Sleep(time.Second) // a new timestamp
				}
				if got := s.order("order-1").shipped; got != test.shipped {
					t.Errorf("shipped %d times, want %d", got, test.shipped)
				}
			})
		})
	}
}

func TestRefundBeforePaymentPreventsShipping(t *testing.T) {
	for status, shipped := range map[paymentsvc.StatusName]int{paymentsvc.StatusSuccess: 0, paymentsvc.StatusFailure: 1} {
		t.Run(string(status), func(t *testing.T) {
			srv, client := service(t, nil)
			s := newShop(t, srv, client, newStore())
			if err := s.checkout("order-1"); err != nil {
				t.Fatal(err)
			}
			paid := srv.Orders()[0]
			reordered := srv.FaultNotifications(
				paymentsvc.EventPaymentStatusChanged, paymentsvctest.Nth(1), paymentsvctest.Reordered())

			if _, err := srv.Settle(paid.OrderID, paymentsvc.StatusSuccess); err != nil {
				t.Fatal(err)
			}
			if _, err := srv.Refund(paid.OrderID, paid.Amount, status); err != nil {
				t.Fatal(err)
			}
			srv.Deliver(t.Context()) // the refund first

			srv.AssertDelivered(t)
			if got := s.order("order-1").shipped; got != shipped { // a failed refund leaves the order as it was
				t.Errorf("shipped %d times, want %d", got, shipped)
			}
			if reordered.Hits() == 0 {
				t.Error("no notification was reordered")
			}
		})
	}
}

func TestRepeatedRefundCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, client := service(t, nil)
		db := newStore()
		s := newShop(t, srv, client, db)
		if err := s.checkout("order-1"); err != nil {
			t.Fatal(err)
		}
		n, err := srv.Compose(srv.Orders()[0].OrderID, paymentsvc.StatusSuccess)
		if err != nil {
			t.Fatal(err)
		}
		n.Event = paymentsvc.EventRefundStatusChanged
		for i, amount := range []string{"1.00", "2.00", "1.00"} { // two refunds of parts
			s = newShop(t, srv, client, db) // the restarted program
			n.Amount = paymentsvc.MustParseAmount(amount)
			for _, d := range srv.Send(t.Context(), n, paymentsvctest.RepeatedBy(1)) {
				if !d.Accepted() {
					t.Errorf("not accepted: %s", d)
				}
			}
			if got, want := s.order("order-1").refunds, min(i+1, 2); got != want {
				t.Errorf("counted %d refunds, want %d", got, want)
			}
			time.Sleep(time.Second) // a new timestamp
		}
	})
}

func TestNotificationBeforeTheResponse(t *testing.T) {
	var srv *paymentsvctest.Server
	srv, client := service(t, func(o paymentsvctest.Order) {
		if _, err := srv.Settle(o.OrderID, paymentsvc.StatusSuccess); err != nil {
			t.Error(err)
		}
		srv.Deliver(t.Context())
	})
	s := newShop(t, srv, client, newStore())
	if err := s.checkout("order-1"); err != nil {
		t.Fatal(err)
	}
	srv.AssertDelivered(t)
	if got := s.order("order-1").shipped; got != 1 {
		t.Errorf("shipped %d times, want once", got)
	}
	if _, err := srv.Refund(srv.Orders()[0].OrderID, price, paymentsvc.StatusSuccess); err != nil {
		t.Fatal(err)
	}
	srv.Deliver(t.Context())
	if s.order("order-1").refunds != 1 { // its order_id and its status are those of the payment's notification
		t.Error("the refund was ignored")
	}
}

// salaries returns payouts that differ only in their user_data.
func salaries() []paymentsvc.PayoutRequest {
	return []paymentsvc.PayoutRequest{
		{Amount: price, Destination: "an account", UserData: "salary-1"},
		{Amount: price, Destination: "an account", UserData: "salary-2"},
	}
}

func TestLostPayoutResponseIsNotPaidTwice(t *testing.T) {
	const before, after = paymentsvctest.BeforeCommit, paymentsvctest.AfterCommit
	for _, test := range []struct {
		fault  paymentsvctest.Fault
		orders int
	}{
		{paymentsvctest.Drop(before), 0},
		{paymentsvctest.Drop(after), 1},
		{paymentsvctest.LateCommit(9), 1},
		{paymentsvctest.BadGateway(after), 1},
		{paymentsvctest.TooManyRequests(after, time.Second), 1},
		{paymentsvctest.Answer(after, http.StatusForbidden, "text/html", "<h1>denied</h1>"), 1},
	} {
		t.Run(test.fault.String(), func(t *testing.T) {
			srv, client := service(t, nil)
			p := newPayouts(client, newStore())
			rule := srv.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(1), test.fault)
			for range 2 { // your job's runs
				if err := p.pay(salaries()[:1]); err != nil {
					t.Error(err)
				}
			}
			srv.AssertStarted(t, "salary-1", test.orders)
			srv.AssertOrders(t, test.orders)
			if state := p.payout("salary-1"); state != claimed {
				t.Errorf("the state is %q, but the outcome is unknown", state)
			}
			if rule.Hits() == 0 {
				t.Error("the fault had no effect")
			}
		})
	}
}

func TestSameListTwicePaysOnce(t *testing.T) {
	var p *payouts
	run := func() {
		if err := p.pay(salaries()); err != nil {
			t.Error(err)
		}
	}
	onStart, wait := during(run)
	srv, client := service(t, onStart)
	p = newPayouts(client, newStore())

	run() // and the second run during its first call
	wait()
	run() // later

	srv.AssertStarted(t, "salary-1", 1)
	srv.AssertStarted(t, "salary-2", 1)
	srv.AssertOrders(t, 2)
	for _, o := range srv.Orders() {
		if want := salaries()[0]; !o.Amount.Equal(want.Amount) || o.Destination != want.Destination {
			t.Errorf("%s is paid to %q", o.Amount, o.Destination)
		}
	}
}

func TestRestartPaysNoPayoutTwice(t *testing.T) {
	db := newStore()
	srv, client := service(t, func(paymentsvctest.Order) { db.failing.Store(true) }) // like a crash in the call
	for i, crashes := range []bool{true, true, false} {
		db.failing.Store(false)
		if err := newPayouts(client, db).pay(salaries()); (err != nil) != crashes { // the restarted program
			t.Errorf("run %d: the error is %v", i+1, err)
		}
	}
	srv.AssertStarted(t, "salary-1", 1)
	srv.AssertStarted(t, "salary-2", 1)
	srv.AssertOrders(t, 2)
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
	if err := newShop(t, srv, client, newStore()).checkout("order-1"); err != nil {
		t.Error(err)
	}
	srv.AssertAllSigned(t)
}

func TestWrongClockIsRejected(t *testing.T) {
	srv, _ := service(t, nil)
	client := signing(t, srv, paymentsvc.HMACConfig{
		Scheme: scheme, Secret: secret, Now: func() time.Time { return time.Now().Add(10 * time.Minute) },
	})
	if err := newShop(t, srv, client, newStore()).checkout("order-1"); !errors.Is(err, paymentsvc.ErrUnauthorized) {
		t.Errorf("the error is %v", err)
	}
	srv.AssertOrders(t, 0)
}

func TestUnderChaos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, client := service(t, nil)
		seed := srv.Chaos(paymentsvctest.Chaos{OneIn: 3}) // one request in three, and one notification
		s := newShop(t, srv, client, newStore())
		for i := range 200 {
			_ = s.checkout(fmt.Sprintf("order-%d", i))
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
