package paymentsvctest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// A long run is go test ./paymentsvctest -run Soak -soak.ops 100000 -v
var (
	soakOps  = flag.Int("soak.ops", 2500, "operations of the soak")
	soakSeed = flag.Uint64("soak.seed", 0, "seed of the soak; 0 chooses and prints a random seed")
)

// entry is an order in the books of the partner.
type entry struct {
	kind     paymentsvctest.Kind
	minor    int64
	known    bool // the outcome is known
	started  bool
	orderID  string // "" before the partner receives it
	status   paymentsvc.StatusName
	refunded int64
}

// ledger contains the books of the partner. It uses outcomes, status calls and notifications, and never the fake.
type ledger struct {
	mu      sync.Mutex
	entries map[string]*entry // by user_data
	seen    map[string]bool   // Notification.Key
	faults  []string          // violations
}

func (l *ledger) open(userData string, kind paymentsvctest.Kind, minor int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[userData] = &entry{kind: kind, minor: minor}
}

func (l *ledger) settle(userData string, started bool, orderID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[userData]
	if e.known && e.started != started {
		l.faults = append(l.faults, fmt.Sprintf("%s: started is %t and then %t", userData, e.started, started))
	}
	if e.orderID != "" && orderID != "" && e.orderID != orderID {
		l.faults = append(l.faults, userData+": two orders")
	}
	e.known, e.started = true, started
	if orderID != "" {
		e.orderID = orderID
	}
}

var errBusy = errors.New("the partner's database is busy")

// take applies a notification as a partner does. It ignores duplicates, and never leaves a final status.
func (l *ledger) take(n *paymentsvc.Notification) error {
	minor, err := n.Amount.Minor(2)
	if err != nil {
		return err
	}
	l.mu.Lock()
	repeated := l.seen[n.Key()]
	l.seen[n.Key()] = true
	l.mu.Unlock()
	if repeated {
		return nil
	}
	l.settle(n.UserData, true, n.OrderID)
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[n.UserData]
	switch {
	case n.Event == paymentsvc.EventRefundStatusChanged:
		if n.StatusDescription == paymentsvc.StatusSuccess {
			e.refunded += minor
		}
	case minor != e.minor:
		l.faults = append(l.faults, n.UserData+": another amount in the notification")
	case !e.status.Final():
		e.status = n.StatusDescription
	}
	return nil
}

// soak is one run.
type soak struct {
	seed    uint64
	srv     *paymentsvctest.Server
	client  *paymentsvc.Client
	ledger  *ledger
	settled sync.Map // order ids settled during the run
	counts  struct {
		started, unknown, notSent, rejected, reads, readsFailed atomic.Int64
	}
}

// TestSoak runs over TCP with all faults except hanging requests and slow responses, which a timeout must end.
// TestMatrixOfFaultsAndEndpoints has these.
func TestSoak(t *testing.T) {
	srv := paymentsvctest.Start(t, config(everyStartCounts, func(c *paymentsvctest.Config) {
		c.Projects[0].Balance = amount(opening)
		c.NotifyAttempts = 1000 // enough for each notification
	}))
	faults := append(paymentsvctest.AllFaults(), paymentsvctest.Reject(402, "E17", "no money"),
		paymentsvctest.Slow(100*time.Microsecond), paymentsvctest.Answer(paymentsvctest.AfterCommit, 409, "text/plain",
			"busy"))
	s := newSoak(srv, slices.DeleteFunc(faults, func(f paymentsvctest.Fault) bool {
		return strings.HasPrefix(f.String(), "hang") || strings.HasPrefix(f.String(), "slow")
	}))
	s.client = newClient(t, srv, s.observe, func(c *paymentsvc.Config) { c.Timeout = 30 * time.Minute })
	handler := s.handler(t)
	if s.seed%2 == 0 {
		srv.SetReceiver(paymentsvctest.ToHandler(handler, "/notifications"))
	} else {
		partner := httptest.NewServer(handler)
		t.Cleanup(partner.Close)
		srv.SetReceiver(paymentsvctest.ToURL(partner.URL + "/notifications"))
	}
	s.all(t)
}

const opening = "1000000.00"

func newSoak(srv *paymentsvctest.Server, faults []paymentsvctest.Fault) *soak {
	seed := srv.Chaos(paymentsvctest.Chaos{
		Seed:               *soakSeed,
		Faults:             faults,
		NotificationFaults: append(paymentsvctest.AllNotificationFaults(), paymentsvctest.SignedWithOldSecret()),
	})
	return &soak{seed: seed, srv: srv, ledger: &ledger{entries: map[string]*entry{}, seen: map[string]bool{}}}
}

func (s *soak) observe(c *paymentsvc.Config) {
	c.OnAttempt = func(_ context.Context, a paymentsvc.Attempt) {
		if a.Err != nil && a.Outcome == paymentsvc.OutcomeNotSent {
			s.counts.notSent.Add(1)
		}
	}
}

func (s *soak) all(t *testing.T) {
	s.run(t, *soakOps)
	s.client.CloseIdleConnections()
	require.NoError(t, s.srv.Drain(t.Context()))
	s.settleAll(t)
	s.reconcile(t)
	s.compare(t)
}

// handler accepts notifications with both secrets, as during a rotation. Its database is sometimes busy.
func (s *soak) handler(t *testing.T) http.Handler {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme(), Secrets: []paymentsvc.Secret{secret, oldSecret}, Tolerance: 10 * time.Minute,
	})
	require.NoError(t, err)
	var calls atomic.Uint64
	return webhook.Handler(func(_ context.Context, n *paymentsvc.Notification) error {
		if calls.Add(1)%10 == 0 {
			return errBusy
		}
		return s.ledger.take(n)
	})
}

// run makes n operations, 64 at a time.
func (s *soak) run(t *testing.T, n int) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			var mine []string // user_data of this worker's payments
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				random := rand.New(rand.NewPCG(s.seed, uint64(i)))
				if random.IntN(4) == 0 && len(mine) > 0 {
					s.read(t, random, mine[random.IntN(len(mine))])
					continue
				}
				userData := fmt.Sprintf("op-%d", i)
				if kind := s.start(t, random, userData); kind != paymentsvctest.KindPayout {
					mine = append(mine, userData)
				}
				if random.IntN(50) == 0 {
					s.srv.Deliver(t.Context())
				}
			}
		})
	}
	workers.Wait()
}

// start starts an order, retries while the request is not sent, and records the outcome.
func (s *soak) start(t *testing.T, random *rand.Rand, userData string) paymentsvctest.Kind {
	kinds := []paymentsvctest.Kind{
		paymentsvctest.KindPayment, paymentsvctest.KindPayout, paymentsvctest.KindForm, paymentsvctest.KindInvoice,
	}
	kind, minor := kinds[random.IntN(len(kinds))], random.Int64N(100_000)+1
	s.ledger.open(userData, kind, minor) // every partner must do it before the call
	orderID, err := s.call(t.Context(), random, kind, userData, minor)
	for err != nil && paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeNotSent {
		orderID, err = s.call(t.Context(), random, kind, userData, minor)
	}
	switch {
	case err == nil:
		s.counts.started.Add(1)
		s.ledger.settle(userData, true, orderID)
		if orderID != "" && random.IntN(3) == 0 { // before the response arrives
			s.settled.Store(orderID, true)
			s.conclude(t, random, orderID, amountOf(minor))
		}
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeRejected:
		s.counts.rejected.Add(1)
		s.ledger.settle(userData, false, "")
	default:
		s.counts.unknown.Add(1)
	}
	return kind
}

func amountOf(minor int64) paymentsvc.Amount { return paymentsvc.AmountFromMinor(minor, 2) }

// call makes one start and returns the order_id, or "" for a form.
func (s *soak) call(
	ctx context.Context, random *rand.Rand, kind paymentsvctest.Kind, userData string, minor int64,
) (orderID string, err error) {
	request := paymentsvc.PaymentRequest{Amount: amountOf(minor), UserData: userData}
	switch kind {
	case paymentsvctest.KindPayout:
		r, err := s.client.InitPayout(ctx,
			paymentsvc.PayoutRequest{Amount: amountOf(minor), Destination: card, UserData: userData})
		return orZero(r).OrderID, err
	case paymentsvctest.KindForm:
		_, err := s.client.InitForm(ctx, request)
		return "", err
	case paymentsvctest.KindInvoice:
		r, err := s.client.InitInvoice(ctx, request)
		return orZero(r).OrderID, err
	default:
		types := []paymentsvc.PaymentType{
			paymentsvc.PaymentTypeCard, paymentsvc.PaymentTypeSBP, paymentsvc.PaymentTypeCrypto, paymentsvc.PaymentTypeMC,
		}
		r, err := s.client.InitPayment(ctx, types[random.IntN(len(types))], request)
		return orZero(r).OrderID, err
	}
}

func orZero[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

// read makes a status call or get_balance.
func (s *soak) read(t *testing.T, random *rand.Rand, userData string) {
	s.counts.reads.Add(1)
	var err error
	if random.IntN(2) == 0 {
		_, err = s.client.GetBalance(t.Context())
	} else {
		_, err = s.ask(t, userData)
	}
	if err != nil {
		s.counts.readsFailed.Add(1)
	}
}

// ask makes a status call by user_data and compares the response with the entry.
func (s *soak) ask(t *testing.T, userData string) (string, error) {
	status, err := s.client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{UserData: userData})
	if err != nil {
		return "", err
	}
	if len(status.Malformed) > 0 { // a response without usable fields
		return "", fmt.Errorf("malformed: %s", status.Malformed)
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	assert.Equal(t, userData, status.UserData)
	assert.True(t, status.Amount.Equal(amountOf(s.ledger.entries[userData].minor)), "amount of %s", userData)
	return status.OrderID, nil
}

// conclude settles an order, sometimes twice, and sometimes refunds it.
func (s *soak) conclude(t *testing.T, random *rand.Rand, orderID string, amount paymentsvc.Amount) {
	statuses := []paymentsvc.StatusName{paymentsvc.StatusPending, paymentsvc.StatusSuccess, paymentsvc.StatusSuccess,
		paymentsvc.StatusFailure}
	status := statuses[random.IntN(len(statuses))]
	if status != paymentsvc.StatusPending && random.IntN(4) == 0 {
		_, err := s.srv.Settle(orderID, paymentsvc.StatusPending) // may arrive after the final status
		assert.NoError(t, err)
	}
	n, err := s.srv.Settle(orderID, status)
	assert.NoError(t, err)
	if n.Event != paymentsvc.EventPaymentStatusChanged || status != paymentsvc.StatusSuccess || random.IntN(4) != 0 {
		return
	}
	minor, err := amount.Minor(2)
	assert.NoError(t, err)
	// An order has at most one refund, because two equal refunds look like a duplicate.
	_, err = s.srv.Refund(orderID, amountOf(random.Int64N(minor)+1), paymentsvc.StatusSuccess)
	assert.NoError(t, err)
}

// settleAll settles the remaining orders and delivers the notifications.
func (s *soak) settleAll(t *testing.T) {
	for _, o := range s.srv.Orders() {
		if _, done := s.settled.Load(o.OrderID); !done {
			s.conclude(t, rand.New(rand.NewPCG(s.seed, uint64(1_000_000_000+o.Number))), o.OrderID, o.Amount)
		}
	}
	s.srv.DeliverAll(t.Context())
	require.Empty(t, s.srv.Outbox())
}

// reconcile polls each unknown order by user_data until the response is definite. A status call cannot find an unknown
// payout, so a payout without a notification needs an operator.
func (s *soak) reconcile(t *testing.T) {
	for userData, e := range s.ledger.entries {
		for try := 0; !e.known && e.kind != paymentsvctest.KindPayout; try++ {
			require.Less(t, try, 1000, "%s cannot be settled", userData)
			orderID, err := s.ask(t, userData)
			var reported *paymentsvc.ServiceError
			switch {
			case err == nil:
				s.ledger.settle(userData, true, orderID)
			case errors.As(err, &reported) && reported.Code == string(paymentsvctest.ProblemNotFound):
				s.ledger.settle(userData, false, "")
			}
		}
	}
}

// compare compares the books of the partner with the orders and balances of the fake.
func (s *soak) compare(t *testing.T) {
	s.srv.ClearFaults()
	assert.Empty(t, s.ledger.faults)
	s.srv.AssertAllSigned(t)
	s.srv.AssertForgeriesRefused(t)
	for _, r := range s.srv.Rejected() {
		assert.Equal(t, paymentsvctest.ProblemNotFound, r.Problem, r.String())
	}

	orders := s.srv.Orders()
	for _, o := range orders {
		require.Equal(t, 1, s.srv.Started(o.UserData), "orders of %s", o.UserData)
		e := s.ledger.entries[o.UserData]
		require.NotNil(t, e)
		minor, err := o.Amount.Minor(2)
		require.NoError(t, err)
		refunded := int64(0)
		if o.Refunded.IsSet() {
			refunded, err = o.Refunded.Minor(2)
			require.NoError(t, err)
		}
		want := entry{kind: o.Kind, minor: minor, known: true, started: true, orderID: o.OrderID, status: o.Status,
			refunded: refunded}
		require.Equal(t, want, *e, "%s", o.UserData)
	}

	balance, err := amount(opening).Minor(2)
	require.NoError(t, err)
	expected, started, parked := balance, 0, 0
	for userData, e := range s.ledger.entries {
		switch {
		case !e.known:
			parked++
			require.Equal(t, paymentsvctest.KindPayout, e.kind)
			require.Zero(t, s.srv.Started(userData), "a payout that no notification told of")
		case !e.started:
			require.Zero(t, s.srv.Started(userData), userData)
		default:
			started++
			gain, hope := e.worth()
			balance += gain
			expected += gain + hope
		}
	}
	assert.Len(t, orders, started, "orders, and entries that are known as started")
	got, err := s.client.GetBalance(t.Context())
	require.NoError(t, err)
	assert.Equal(t, amountOf(balance).String(), got.PayoutBalance.String(), "payout_balance")
	assert.Equal(t, amountOf(expected).String(), got.ExpectedBalance.String(), "expected_balance")

	c := &s.counts
	deliveries := s.srv.Deliveries()
	t.Logf("%d starts answered, %d unknown, %d rejected; %d attempts were not sent; %d reads, %d of them failed",
		c.started.Load(), c.unknown.Load(), c.rejected.Load(), c.notSent.Load(), c.reads.Load(), c.readsFailed.Load())
	t.Logf("%d orders, %d unknown payouts that were not started, %d deliveries of notifications; balance %s",
		len(orders), parked, len(deliveries), got.PayoutBalance)
	if *soakOps < 1000 {
		return
	}
	for name, n := range map[string]int64{
		"unknown": c.unknown.Load(), "rejected": c.rejected.Load(), "attempt not sent": c.notSent.Load(),
		"failed read": c.readsFailed.Load(),
	} {
		assert.Positive(t, n, "a soak without any %s shows little", name)
	}
}

// worth returns the amount of an entry in the balance and in the pending balance.
func (e *entry) worth() (gain, hope int64) {
	switch {
	case e.kind == paymentsvctest.KindPayout && e.status == paymentsvc.StatusFailure:
	case e.kind == paymentsvctest.KindPayout:
		gain = -e.minor
	case e.status == paymentsvc.StatusSuccess:
		gain = e.minor - e.refunded
	case e.status != paymentsvc.StatusFailure:
		hope = e.minor
	}
	return gain, hope
}
