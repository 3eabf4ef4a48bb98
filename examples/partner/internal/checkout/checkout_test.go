package checkout_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/checkout"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	project = 42
	secret  = paymentsvc.Secret("a test key")
)

var price = paymentsvc.MustParseAmount("10.50")

// clock is a time that the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// shop is a checkout in a test, with a service of its own.
type shop struct {
	*checkout.Checkout
	*clock
	t       *testing.T
	service *paymentsvctest.Server
	log     *bytes.Buffer
}

// scheme is this test's choice, as the document shows none.
func scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex}
}

// newShop makes a shop; change may change how, and nil changes nothing.
func newShop(t *testing.T, databaseURL string, change func(*paymentsvctest.Config, *checkout.Config)) *shop {
	t.Helper()
	s := &shop{clock: &clock{now: time.UnixMilli(1_800_000_000_000)}, t: t, log: &bytes.Buffer{}}
	books, err := store.Open(t.Context(), store.Options{URL: databaseURL, Now: s.Now})
	require.NoError(t, err)
	t.Cleanup(books.Close)
	fake := paymentsvctest.Config{
		PartnerID: 7,
		Projects:  []paymentsvctest.Project{{ID: project, Secret: secret}},
		Scheme:    scheme(),
		Now:       s.Now,
	}
	c := checkout.Config{
		Store: books,
		// The code is the fake's own: the document shows none.
		NotFound: func(err *paymentsvc.Error) bool {
			var reported *paymentsvc.ServiceError
			return errors.As(err, &reported) && reported.Code == string(paymentsvctest.ProblemNotFound)
		},
		Timeout:  time.Second, // for the faults that hang
		Interval: time.Millisecond,
		Now:      s.Now,
		Log:      slog.New(slog.NewJSONHandler(s.log, nil)),
	}
	if change != nil {
		change(&fake, &c)
	}
	s.service = paymentsvctest.Start(t, fake)
	if c.Client == nil {
		c.Client = s.client()
	}
	s.Checkout = checkout.New(c)
	return s
}

func (s *shop) client() *paymentsvc.Client {
	s.t.Helper()
	return s.clientWith(s.service.ClientConfig(project).DecodeError)
}

func (s *shop) clientWith(decode paymentsvc.ErrorDecoder) *paymentsvc.Client {
	s.t.Helper()
	config := s.service.ClientConfig(project)
	config.DecodeError = decode
	config.Timeout = 200 * time.Millisecond
	config.Retry = paymentsvc.Retry{MaxAttempts: 1} // what is tried again is tried again by the shop
	client, err := paymentsvc.NewClient(config)
	require.NoError(s.t, err)
	return client
}

// knowRateLimit tells the client that every HTTP 429 comes from a gateway that has not passed the request on.
func (s *shop) knowRateLimit() {
	s.t.Helper()
	decode := s.service.ClientConfig(project).DecodeError
	s.Client = s.clientWith(func(status int, body []byte) *paymentsvc.ServiceError {
		if status == http.StatusTooManyRequests {
			return &paymentsvc.ServiceError{Effect: paymentsvc.EffectNone}
		}
		return decode(status, body)
	})
}

// start starts an order and waits for its outcome.
func (s *shop) start() store.Order {
	s.t.Helper()
	o, err := s.Start(s.t.Context(), paymentsvc.PaymentTypeCard, price)
	require.NoError(s.t, err)
	return o
}

func (s *shop) order(userData string) store.Order {
	s.t.Helper()
	o, err := s.Store.Order(s.t.Context(), userData)
	require.NoError(s.t, err)
	return o
}

func (s *shop) pass() {
	s.t.Helper()
	require.NoError(s.t, s.Pass(s.t.Context()))
}

// settle makes rounds until the order is not in doubt, moving the clock in steps for a time.
func (s *shop) settle(userData string, atMost time.Duration) store.Order {
	s.t.Helper()
	const step = 5 * time.Second
	for passed := time.Duration(0); passed < atMost; passed += step {
		s.pass()
		if o := s.order(userData); o.State == store.StatePending || o.State.Final() {
			return o
		}
		s.Add(step)
	}
	return s.order(userData)
}

func TestAFaultLeadsToItsState(t *testing.T) {
	const before, after = paymentsvctest.BeforeCommit, paymentsvctest.AfterCommit
	const created, unknown, pending, rejected = store.StateCreated, store.StateUnknown, store.StatePending, store.StateRejected
	json := func(when paymentsvctest.When, status int, body string) paymentsvctest.Fault {
		return paymentsvctest.Answer(when, status, "application/json", body)
	}
	tests := []struct {
		fault       paymentsvctest.Fault
		first, last store.State
		redirect    bool // whether the buyer is told where to pay
	}{
		{paymentsvctest.Fault{}, pending, pending, true},

		{paymentsvctest.Refuse(), created, pending, true},

		{paymentsvctest.Reset(), unknown, pending, true},
		{paymentsvctest.Drop(before), unknown, pending, true},
		{paymentsvctest.Drop(after), unknown, pending, false},
		{paymentsvctest.Hang(before), unknown, pending, true},
		{paymentsvctest.Hang(after), unknown, pending, false},
		{paymentsvctest.BadGateway(before), unknown, pending, true},
		{paymentsvctest.BadGateway(after), unknown, pending, false},
		{paymentsvctest.Redirect(before, "https://pay.example/"), unknown, pending, true},
		{paymentsvctest.Redirect(after, "https://pay.example/"), unknown, pending, false},
		{paymentsvctest.WrongShape(), unknown, pending, false},
		{paymentsvctest.CutHeader(10), unknown, pending, false},
		{paymentsvctest.Cut(10), unknown, pending, false},
		{paymentsvctest.CutChunked(10), unknown, pending, false},
		{paymentsvctest.CutUnframed(10), unknown, pending, false},
		{paymentsvctest.Oversized(2 << 20), unknown, pending, false},
		{paymentsvctest.GzipBomb(2 << 20), unknown, pending, false},
		{json(after, http.StatusRequestTimeout, `{}`), unknown, pending, false},
		{json(after, http.StatusConflict, `{"error_code":"E9"}`), unknown, pending, false},
		// A gateway that speaks the service's language does not know more than any other.
		{json(after, http.StatusGatewayTimeout, `{"error_code":"upstream_timeout"}`), unknown, pending, false},
		{json(before, http.StatusInternalServerError, `{"error_code":"E1"}`), unknown, pending, true},
		{json(after, http.StatusRequestTimeout, `{"error_code":"E8"}`), unknown, pending, false},
		{json(after, 499, `{"error_code":"client_closed"}`), unknown, pending, false},
		{json(after, http.StatusOK, `{}`), unknown, pending, false},
		{json(after, http.StatusOK, `[]`), unknown, pending, false},

		{paymentsvctest.Slow(time.Microsecond), pending, pending, true},
		{paymentsvctest.WrongDate(time.Hour), pending, pending, true},

		// It refuses the caller.
		{json(before, http.StatusUnauthorized, `{"error_code":"signature"}`), created, pending, true},
		{json(before, http.StatusForbidden, `{"error_code":"ids"}`), created, pending, true},
		{paymentsvctest.TooManyRequests(before, time.Minute), created, pending, true},
		// It says so and has started it all the same: the second start is refused, and that is not believed.
		{json(after, http.StatusUnauthorized, `{"error_code":"signature"}`), created, pending, false},

		// A 4xx that is not in the service's format is perhaps not its answer.
		{paymentsvctest.Answer(before, http.StatusTooManyRequests, "text/plain", "too many requests"), unknown, pending, true},
		{paymentsvctest.TooManyRequests(after, time.Minute), unknown, pending, false},
		{json(before, http.StatusForbidden, `{}`), unknown, pending, true},
		{json(before, http.StatusNotFound, `not json`), unknown, pending, true},
		{json(before, http.StatusMethodNotAllowed, `{}`), unknown, pending, true},
		{json(before, http.StatusBadRequest, `{}`), unknown, pending, true},
		{json(after, http.StatusUnauthorized, `{}`), unknown, pending, false},
		{forbidden(after), unknown, pending, false},

		{paymentsvctest.Reject(http.StatusPaymentRequired, "E17", "no money"), rejected, rejected, false},
		{paymentsvctest.Reject(http.StatusOK, "E17", "no money"), rejected, rejected, false},
		{json(before, http.StatusBadRequest, `{"error_code":"field"}`), rejected, rejected, false},
		{json(before, http.StatusNotFound, `{"error_code":"endpoint"}`), rejected, rejected, false},
	}
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		s := newShop(t, databaseURL, nil)
		for _, test := range tests {
			t.Run(cmpOr(test.fault.String(), "none"), func(t *testing.T) {
				s.t = t
				rule := s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), test.fault)
				o := s.start()
				assert.Equal(t, test.first, o.State)
				assert.Equal(t, 1, o.Attempts)
				assert.Equal(t, 1, rule.Hits())

				o = s.settle(o.UserData, 20*time.Minute)
				assert.Equal(t, test.last, o.State)
				assert.Equal(t, test.redirect, o.RedirectURL != "")
				assert.Empty(t, o.Attention)
				want := 1
				if test.last == rejected {
					want = 0
				}
				assert.Equal(t, want, s.service.Started(o.UserData))
				rule.Remove()
			})
		}
		s.service.AssertAllSigned(t)
	})
}

// forbidden is the answer of a proxy.
func forbidden(when paymentsvctest.When) paymentsvctest.Fault {
	return paymentsvctest.Answer(when, http.StatusForbidden, "text/html", "<html><body><h1>403 Forbidden</h1></body></html>")
}

// Three in a row came from a proxy that had passed the order on. With and without a decoder, one start is all there is.
func TestAnOrderIsStartedOnceThoughAProxyForbidsIt(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		s := newShop(t, databaseURL, func(fake *paymentsvctest.Config, _ *checkout.Config) {
			fake.Repeated = paymentsvctest.NewOrder
		})
		for name, client := range map[string]*paymentsvc.Client{"with a decoder": s.client(), "without": s.clientWith(nil)} {
			t.Run(name, func(t *testing.T) {
				s.t, s.Client = t, client
				rule := s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.First(3), forbidden(paymentsvctest.AfterCommit))
				defer rule.Remove()
				o := s.start()
				assert.Equal(t, store.StateUnknown, o.State)
				o = s.settle(o.UserData, time.Hour)
				assert.Equal(t, store.StatePending, o.State)
				assert.Equal(t, 1, o.Attempts)
				s.service.AssertStarted(t, o.UserData, 1)
			})
		}
	})
}

// The answer has an order_id, and is no success: its status is missing.
func TestAnUnknownOrderKeepsItsOrderID(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		s := newShop(t, databaseURL, nil)
		const orderID = "00000000-0000-4000-8000-000000000001" // the fake's first
		s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.First(1),
			paymentsvctest.Answer(paymentsvctest.AfterCommit, http.StatusOK, "application/json", `{"order_id":"`+orderID+`"}`))
		o := s.start()
		assert.Equal(t, store.StateUnknown, o.State)
		assert.Equal(t, orderID, o.OrderID)
		o = s.settle(o.UserData, time.Minute)
		assert.Equal(t, store.StatePending, o.State)
		assert.Equal(t, orderID, o.OrderID)
		assert.Empty(t, o.Attention)
		s.service.AssertStarted(t, o.UserData, 1)
	})
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// With a service that takes a repeated user_data for another order, whatever is started twice is paid twice.
func TestNothingIsStartedTwiceByAServiceThatWouldDoSo(t *testing.T) {
	const before, after = paymentsvctest.BeforeCommit, paymentsvctest.AfterCommit
	s := newShop(t, testdb.SQLite(t), func(fake *paymentsvctest.Config, _ *checkout.Config) {
		fake.Repeated = paymentsvctest.NewOrder
	})
	for _, fault := range append(paymentsvctest.AllFaults(),
		paymentsvctest.Drop(before), paymentsvctest.Hang(before), paymentsvctest.BadGateway(before),
		paymentsvctest.Drop(after), paymentsvctest.Hang(after), paymentsvctest.BadGateway(after),
		paymentsvctest.TooManyRequests(after, time.Second), forbidden(after)) {
		t.Run(fault.String(), func(t *testing.T) {
			s.t = t
			rule := s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), fault)
			defer rule.Remove()
			o := s.settle(s.start().UserData, 20*time.Minute)
			assert.Equal(t, store.StatePending, o.State)
			s.service.AssertStarted(t, o.UserData, 1)
		})
	}
}

func TestABuyerWhoLeavesCutsNothingOff(t *testing.T) {
	s := newShop(t, testdb.SQLite(t), func(_ *paymentsvctest.Config, c *checkout.Config) { c.Timeout = time.Minute })
	release := make(chan struct{})
	s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(), paymentsvctest.Hold(paymentsvctest.BeforeCommit, release))
	config := s.service.ClientConfig(project)
	client, err := paymentsvc.NewClient(config)
	require.NoError(t, err)
	arrived := make(chan struct{})
	s.Client = service{Service: client, starting: func(context.Context) { close(arrived) }}

	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-arrived
		leave()
	}()
	o, err := s.Start(ctx, paymentsvc.PaymentTypeCard, price)
	require.NoError(t, err)
	assert.Equal(t, store.StateStarting, o.State)
	close(release)

	stop, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Run(stop), "it waits for the outcome")
	assert.Equal(t, store.StatePending, s.order(o.UserData).State)
	s.service.AssertStarted(t, o.UserData, 1)
	_, err = s.Start(t.Context(), paymentsvc.PaymentTypeCard, price)
	assert.ErrorIs(t, err, checkout.ErrClosed)
}

// service calls starting before each start.
type service struct {
	checkout.Service
	starting func(ctx context.Context)
}

func (s service) InitPayment(ctx context.Context, t paymentsvc.PaymentType, r paymentsvc.PaymentRequest) (*paymentsvc.InitPaymentResponse, error) {
	s.starting(ctx)
	return s.Service.InitPayment(ctx, t, r)
}

func TestTheOrderIsCommittedBeforeTheCall(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		s := newShop(t, databaseURL, nil)
		other, err := store.Open(t.Context(), store.Options{URL: databaseURL})
		require.NoError(t, err)
		defer other.Close()
		calls := 0
		s.Client = service{Service: s.Client, starting: func(context.Context) {
			calls++
			orders, err := other.DueOrders(t.Context(), store.StateStarting, 10) // by its real clock, all are due
			assert.NoError(t, err)
			assert.Len(t, orders, calls)
		}}
		s.Add(-24 * 365 * time.Hour)
		s.start()
		assert.Equal(t, 1, calls)
	})
}

func TestOrdersThatCannotBeOnesAreNotStored(t *testing.T) {
	s := newShop(t, testdb.SQLite(t), nil)
	for _, test := range []struct {
		name   string
		kind   paymentsvc.PaymentType
		amount paymentsvc.Amount
	}{
		{"no type", "", price},
		{"unknown type", "cash", price},
		{"no amount", paymentsvc.PaymentTypeCard, paymentsvc.Amount{}},
		{"nothing", paymentsvc.PaymentTypeCard, paymentsvc.MustParseAmount("0.00")},
		{"less than nothing", paymentsvc.PaymentTypeCard, paymentsvc.MustParseAmount("-1")},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := s.Start(t.Context(), test.kind, test.amount)
			assert.ErrorIs(t, err, checkout.ErrInvalid)
		})
	}
	assert.Zero(t, s.service.Requests(paymentsvctest.AnyEndpoint))
	var n int
	require.NoError(t, s.Store.DB().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM orders`).Scan(&n))
	assert.Zero(t, n)
}

func TestACallEndsWellBeforeItsLease(t *testing.T) {
	for _, test := range []struct{ timeout, lease, want time.Duration }{
		{0, 0, 40 * time.Second},
		{time.Second, time.Minute, time.Second},
		{time.Hour, time.Minute, 24 * time.Second},
	} {
		assert.Equal(t, test.want, checkout.New(checkout.Config{Timeout: test.timeout, Lease: test.lease}).Timeout)
	}
}

func TestWhileThereMayBeACallItsOrderMayTurnUp(t *testing.T) {
	for _, test := range []struct{ timeout, grace, want time.Duration }{
		{0, 0, 2 * time.Minute},
		{10 * time.Second, time.Minute, time.Minute},
		{10 * time.Second, time.Second, 10 * time.Second},
	} {
		assert.Equal(t, test.want, checkout.New(checkout.Config{Timeout: test.timeout, Grace: test.grace}).Grace)
	}
}

// Another process counts the lease from before the claim, and by the wall clock. A database or a machine that stands
// still must not give the call more time than that.
func TestACallsTimeCountsFromBeforeItsClaim(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		s := newShop(t, databaseURL, nil)
		var claimed time.Time // when the store was last about to stamp a row
		books, err := store.Open(t.Context(), store.Options{URL: databaseURL, Now: func() time.Time {
			claimed = time.Now()
			return s.Now()
		}})
		require.NoError(t, err)
		defer books.Close()
		s.Store = books
		calls := 0
		s.Client = service{Service: s.Client, starting: func(ctx context.Context) {
			calls++
			deadline, ok := ctx.Deadline()
			assert.True(t, ok)
			assert.False(t, deadline.After(claimed.Round(0).Add(s.Timeout)), "from before the claim")
			assert.Equal(t, deadline.Round(0), deadline, "by the wall clock")
		}}
		rule := s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Refuse())
		o := s.start()
		require.Equal(t, store.StateCreated, o.State)
		rule.Remove()
		s.Add(time.Minute)
		s.pass()
		assert.Equal(t, store.StatePending, s.order(o.UserData).State)
		assert.Equal(t, 2, calls, "the first and the second one")
	})
}

func TestAClaimThatTakesTooLongIsNotCalledFor(t *testing.T) {
	s := newShop(t, testdb.SQLite(t), func(_ *paymentsvctest.Config, c *checkout.Config) { c.Timeout = 10 * time.Millisecond })
	connection, err := s.Store.DB().Conn(t.Context()) // the only one
	require.NoError(t, err)
	o, err := s.Start(t.Context(), paymentsvc.PaymentTypeCard, price)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Empty(t, o.UserData)
	require.NoError(t, connection.Close())
	stop, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Run(stop), "it waits")
	assert.Zero(t, s.service.Requests(paymentsvctest.AnyEndpoint))
}

func TestAnOutcomeThatCannotBeRecordedIsFoundOut(t *testing.T) {
	s := newShop(t, testdb.SQLite(t), nil)
	away := func(from, to string) {
		_, err := s.Store.DB().ExecContext(t.Context(), `ALTER TABLE `+from+` RENAME TO `+to)
		assert.NoError(t, err)
	}
	var userData string
	s.Client = service{Service: s.Client, starting: func(context.Context) { away("orders", "orders_away") }}
	o, err := s.Start(t.Context(), paymentsvc.PaymentTypeCard, price)
	require.Error(t, err)
	userData = o.UserData
	require.NotEmpty(t, userData, "a buyer is told of it nevertheless")
	assert.Contains(t, s.log.String(), `"order_id":"00000000-0000-4000-8000-000000000001"`)
	away("orders_away", "orders")
	assert.Equal(t, store.StateStarting, s.order(userData).State)

	s.Client = s.client()
	s.Add(2 * time.Minute)
	assert.Equal(t, store.StatePending, s.settle(userData, time.Minute).State)
	s.service.AssertStarted(t, userData, 1)
}

func TestAnOrderThatIsNotStoredIsNotStarted(t *testing.T) {
	stop, cancel := context.WithCancel(t.Context())
	cancel()
	t.Run("the buyer has left", func(t *testing.T) {
		s := newShop(t, testdb.SQLite(t), nil)
		o, err := s.Start(stop, paymentsvc.PaymentTypeCard, price)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, o.UserData)
		require.NoError(t, s.Run(stop), "it waits")
		assert.Zero(t, s.service.Requests(paymentsvctest.AnyEndpoint))
	})
	t.Run("it is, and an error says that it is not", func(t *testing.T) {
		s := newShop(t, testdb.SQLite(t), nil)
		// FAIL keeps what the statement has changed.
		_, err := s.Store.DB().ExecContext(t.Context(), `CREATE TRIGGER lost AFTER INSERT ON orders BEGIN SELECT RAISE(FAIL, 'lost'); END`)
		require.NoError(t, err)
		o, err := s.Start(t.Context(), paymentsvc.PaymentTypeCard, price)
		require.Error(t, err)
		assert.Empty(t, o.UserData)
		require.NoError(t, s.Run(stop), "it waits")
		var state, refusal string
		require.NoError(t, s.Store.DB().QueryRowContext(t.Context(), `SELECT state, refusal FROM orders`).Scan(&state, &refusal))
		assert.Equal(t, string(store.StateRejected), state)
		assert.Equal(t, "not stored", refusal)
		assert.Zero(t, s.service.Requests(paymentsvctest.AnyEndpoint))
	})
	t.Run("a claim, likewise", func(t *testing.T) {
		s := newShop(t, testdb.SQLite(t), nil)
		rule := s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(), paymentsvctest.Refuse())
		o := s.start()
		rule.Remove()
		s.Add(time.Second)
		_, err := s.Store.DB().ExecContext(t.Context(), `CREATE TRIGGER lost AFTER UPDATE ON orders WHEN NEW.state = 'starting'
			BEGIN SELECT RAISE(FAIL, 'lost'); END`)
		require.NoError(t, err)
		require.Error(t, s.Pass(t.Context()))
		o = s.order(o.UserData)
		assert.Equal(t, store.StateCreated, o.State)
		assert.False(t, o.Doubted)
		assert.Equal(t, 2, o.Attempts)
		_, err = s.Store.DB().ExecContext(t.Context(), `DROP TRIGGER lost`)
		require.NoError(t, err)
		s.pass()
		assert.Equal(t, store.StatePending, s.order(o.UserData).State)
		s.service.AssertStarted(t, o.UserData, 1)
	})
}
