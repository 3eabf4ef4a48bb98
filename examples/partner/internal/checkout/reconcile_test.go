package checkout_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/checkout"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// lose starts an order whose answer is lost, once it is made or before.
func (s *shop) lose(when paymentsvctest.When) store.Order {
	s.t.Helper()
	rule := s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(when))
	defer rule.Remove()
	o := s.start()
	require.Equal(s.t, store.StateUnknown, o.State)
	return o
}

func TestNoSuchPaymentIsNotBelievedAtOnce(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		s := newShop(t, databaseURL, nil)
		o := s.lose(paymentsvctest.BeforeCommit)
		for passed := time.Duration(0); passed < 2*time.Minute; passed += time.Second {
			s.pass()
			require.Equal(t, store.StateUnknown, s.order(o.UserData).State, passed)
			s.Add(time.Second)
		}
		s.service.AssertStarted(t, o.UserData, 0)
		s.pass()
		o = s.order(o.UserData)
		assert.Equal(t, store.StatePending, o.State, "started again with the same user_data, as soon as it may")
		assert.NotEmpty(t, o.RedirectURL)
		assert.Equal(t, 2, o.Attempts)
		assert.LessOrEqual(t, o.Asked, 9, "the service is not asked in every round")
		s.service.AssertStarted(t, o.UserData, 1)
	})
}

func TestAnOrderThatTurnsUpIsNotStartedAgain(t *testing.T) {
	s := newShop(t, testdb.SQLite(t), nil)
	o := s.lose(paymentsvctest.AfterCommit)
	s.pass()
	assert.Equal(t, store.StateUnknown, s.order(o.UserData).State, "it is asked for after a second only")
	s.Add(time.Second)
	s.pass()
	o = s.order(o.UserData)
	assert.Equal(t, store.StatePending, o.State)
	assert.Equal(t, s.service.Orders()[0].OrderID, o.OrderID)
	assert.Empty(t, o.RedirectURL, "the answer of status_payment has none")
	s.service.AssertStarted(t, o.UserData, 1)
}

func TestWithoutNotFoundNothingIsStartedAgain(t *testing.T) {
	s := newShop(t, testdb.SQLite(t), func(_ *paymentsvctest.Config, c *checkout.Config) { c.NotFound = nil })
	o := s.settle(s.lose(paymentsvctest.BeforeCommit).UserData, time.Hour)
	assert.Equal(t, store.StateUnknown, o.State)
	assert.Equal(t, "The service does not say whether it has this order.", o.Attention)
	assert.Less(t, o.Asked, 20, "it is asked rarely at last")
	s.service.AssertStarted(t, o.UserData, 0)
}

func TestAnAnswerThatDoesNotNameTheOrderSaysNothing(t *testing.T) {
	for _, body := range []string{
		`{}`,
		`{"order_id":"00000000-0000-4000-8000-000000000001"}`,
		`{"order_id":"00000000-0000-4000-8000-000000000001","user_data":"another"}`,
		`{"user_data":"USER_DATA"}`,
	} {
		t.Run(body, func(t *testing.T) {
			s := newShop(t, testdb.SQLite(t), nil)
			o := s.lose(paymentsvctest.BeforeCommit)
			s.service.Fault(paymentsvctest.StatusPayment, paymentsvctest.Every(),
				paymentsvctest.Answer(paymentsvctest.BeforeCommit, http.StatusOK, "application/json", body))
			o = s.settle(o.UserData, 10*time.Minute)
			assert.Equal(t, store.StateUnknown, o.State)
			s.service.AssertStarted(t, o.UserData, 0)
		})
	}
}

func TestAnOrderThatIsFoundWithAnotherAmountCallsForAPerson(t *testing.T) {
	for amount, attention := range map[string]string{
		`"amount":1.05,`:   "The service has it with 1.05 instead of 10.50.",
		`"amount":10.500,`: "",
		``:                 "", // section 4.2: it is optional
	} {
		t.Run(amount, func(t *testing.T) {
			s := newShop(t, testdb.SQLite(t), nil)
			o := s.lose(paymentsvctest.AfterCommit)
			orderID := s.service.Orders()[0].OrderID
			s.service.Fault(paymentsvctest.StatusPayment, paymentsvctest.Every(),
				paymentsvctest.Answer(paymentsvctest.BeforeCommit, http.StatusOK, "application/json",
					`{`+amount+`"order_id":"`+orderID+`","user_data":"`+o.UserData+`"}`))
			o = s.settle(o.UserData, time.Minute)
			assert.Equal(t, store.StatePending, o.State)
			assert.Equal(t, orderID, o.OrderID)
			assert.Equal(t, attention, o.Attention)
		})
	}
}

// What the database does not take of one order says nothing of the others.
func TestAnOrderThatCannotBeAskedForHoldsUpNoOther(t *testing.T) {
	s := newShop(t, testdb.SQLite(t), nil)
	rule := s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(), paymentsvctest.Refuse())
	waiting := s.start()
	rule.Remove()
	lost := s.lose(paymentsvctest.AfterCommit)
	_, err := s.Store.DB().ExecContext(t.Context(), `CREATE TRIGGER broken BEFORE UPDATE ON orders
		WHEN NEW.user_data = '`+lost.UserData+`' BEGIN SELECT RAISE(FAIL, 'broken'); END`)
	require.NoError(t, err)
	s.Add(time.Minute)
	assert.ErrorContains(t, s.Pass(t.Context()), "broken")
	assert.Equal(t, store.StateUnknown, s.order(lost.UserData).State)
	assert.Equal(t, store.StatePending, s.order(waiting.UserData).State)
}

func TestAQuestionThatFailsSaysNothing(t *testing.T) {
	for _, fault := range append(paymentsvctest.AllFaults(),
		paymentsvctest.Answer(paymentsvctest.BeforeCommit, http.StatusNotFound, "text/html", "no such page"),
		paymentsvctest.Answer(paymentsvctest.BeforeCommit, http.StatusUnauthorized, "application/json", `{"error_code":"E1"}`)) {
		switch fault.String() {
		case paymentsvctest.WrongDate(-time.Hour).String(), paymentsvctest.WrongDate(time.Hour).String():
			continue // the answer is a whole one
		}
		t.Run(fault.String(), func(t *testing.T) {
			s := newShop(t, testdb.SQLite(t), nil)
			o := s.lose(paymentsvctest.BeforeCommit)
			s.Add(2 * time.Minute)
			rule := s.service.Fault(paymentsvctest.StatusPayment, paymentsvctest.First(1), fault)
			s.pass()
			assert.Equal(t, 1, rule.Hits())
			o = s.settle(o.UserData, 20*time.Minute)
			assert.Equal(t, store.StatePending, o.State)
			s.service.AssertStarted(t, o.UserData, 1)
		})
	}
}

func TestAnOrderOfADeadProcessIsFoundOut(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		s := newShop(t, databaseURL, nil)
		for name, died := range map[string]func(userData string){
			"before the call": func(string) {},
			"after the call": func(userData string) {
				_, err := s.Client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard,
					paymentsvc.PaymentRequest{Amount: price, UserData: userData})
				require.NoError(t, err)
			},
		} {
			userData := paymentsvc.NewUserData()
			_, err := s.Store.CreateOrder(t.Context(), userData, paymentsvc.PaymentTypeCard, price, 2*time.Minute)
			require.NoError(t, err)
			died(userData)
			s.pass()
			assert.Equal(t, store.StateStarting, s.order(userData).State, name)
			s.Add(2*time.Minute - time.Millisecond)
			s.pass()
			assert.Equal(t, store.StateStarting, s.order(userData).State, name)
			s.Add(time.Millisecond)
			s.pass()
			assert.Equal(t, store.StatePending, s.order(userData).State, name)
			s.service.AssertStarted(t, userData, 1)
		}
	})
}

func TestARefusalAfterADoubtfulCallIsFoundOutFirst(t *testing.T) {
	refusal := paymentsvctest.Reject(http.StatusUnprocessableEntity, "E17", "no")
	t.Run("the service has it", func(t *testing.T) {
		s := newShop(t, testdb.SQLite(t), nil)
		s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Answer(
			paymentsvctest.AfterCommit, http.StatusUnauthorized, "application/json", `{"error_code":"signature"}`))
		o := s.start()
		s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(), refusal)
		s.Add(time.Second)
		s.pass()
		o = s.order(o.UserData)
		assert.Equal(t, store.StateUnknown, o.State)
		assert.Equal(t, "E17", o.Refusal)
		o = s.settle(o.UserData, 10*time.Minute)
		assert.Equal(t, store.StatePending, o.State)
		assert.Empty(t, o.Refusal)
	})
	t.Run("the service does not have it", func(t *testing.T) {
		s := newShop(t, testdb.SQLite(t), nil)
		o := s.lose(paymentsvctest.BeforeCommit)
		s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(), refusal)
		o = s.settle(o.UserData, 10*time.Minute)
		assert.Equal(t, store.StateRejected, o.State)
		assert.Equal(t, "E17", o.Refusal)
		assert.Equal(t, 2, o.Attempts)
		s.service.AssertStarted(t, o.UserData, 0)
	})
}

func TestTheServiceMayAskToWaitAQuarterOfAnHour(t *testing.T) {
	s := newShop(t, testdb.SQLite(t), nil)
	s.knowRateLimit()
	for asked, want := range map[time.Duration]time.Duration{0: time.Second, time.Minute: time.Minute, 24 * time.Hour: 15 * time.Minute} {
		s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.TooManyRequests(paymentsvctest.BeforeCommit, asked))
		assert.Equal(t, want, s.start().DueAt.Sub(s.Now()), asked)
	}
}

func TestAServiceThatRefusesTheCallerIsLeftAlone(t *testing.T) {
	s := newShop(t, testdb.SQLite(t), nil)
	s.knowRateLimit()
	rule := s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(),
		paymentsvctest.TooManyRequests(paymentsvctest.BeforeCommit, time.Minute))
	first, second := s.start(), s.start()
	for range 59 {
		s.Add(time.Second)
		s.pass()
	}
	assert.Equal(t, 2, rule.Hits(), "for as long as it asked for")
	rule.Remove()
	s.Add(time.Second)
	s.pass()
	for _, o := range []store.Order{first, second} {
		assert.Equal(t, store.StatePending, s.order(o.UserData).State)
		s.service.AssertStarted(t, o.UserData, 1)
	}
}

func TestARefusedCallerStopsTheRestartsOfOtherOrders(t *testing.T) {
	s := newShop(t, testdb.SQLite(t), nil)
	s.knowRateLimit()
	rule := s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(), paymentsvctest.Refuse())
	first := s.start()
	rule.Remove()
	rule = s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.TooManyRequests(paymentsvctest.BeforeCommit, time.Minute))
	second := s.start()
	assert.Equal(t, 1, rule.Hits())
	s.Add(30 * time.Second) // the first is due
	s.pass()
	assert.Equal(t, store.StateCreated, s.order(first.UserData).State)
	third := s.start()
	assert.Equal(t, store.StatePending, third.State, "a new order is tried")
	s.Add(30 * time.Second)
	s.pass()
	for _, o := range []store.Order{first, second} {
		assert.Equal(t, store.StatePending, s.order(o.UserData).State)
	}
}

func TestAnOrderWhoseBuyerHasGoneIsNotStarted(t *testing.T) {
	t.Run("it never left", func(t *testing.T) {
		s := newShop(t, testdb.SQLite(t), nil)
		rule := s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(), paymentsvctest.Refuse())
		o := s.settle(s.start().UserData, time.Hour)
		assert.Equal(t, store.StateRejected, o.State)
		assert.Equal(t, "not reached", o.Refusal)
		assert.Less(t, rule.Hits(), 30)
	})
	t.Run("it was postponed", func(t *testing.T) {
		s := newShop(t, testdb.SQLite(t), nil)
		s.knowRateLimit()
		s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(),
			paymentsvctest.TooManyRequests(paymentsvctest.BeforeCommit, time.Second))
		o := s.settle(s.start().UserData, time.Hour)
		assert.Equal(t, store.StateRejected, o.State)
		assert.Equal(t, "not reached", o.Refusal)
	})
	t.Run("it was postponed and is there", func(t *testing.T) {
		s := newShop(t, testdb.SQLite(t), nil)
		s.knowRateLimit()
		s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(),
			paymentsvctest.TooManyRequests(paymentsvctest.AfterCommit, time.Second))
		o := s.settle(s.start().UserData, time.Hour)
		assert.Equal(t, store.StatePending, o.State)
		assert.Empty(t, o.Refusal)
		assert.Equal(t, 1, s.service.Started(o.UserData)) // and not again, whatever was tried
	})
	t.Run("the service was away", func(t *testing.T) {
		s := newShop(t, testdb.SQLite(t), nil)
		rule := s.service.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(), paymentsvctest.BadGateway(paymentsvctest.BeforeCommit))
		o := s.start()
		s.Add(time.Hour)
		s.pass()
		rule.Remove()
		o = s.settle(o.UserData, time.Hour)
		assert.Equal(t, store.StateRejected, o.State)
		assert.Equal(t, "not reached", o.Refusal)
		s.service.AssertStarted(t, o.UserData, 0)
	})
}

func TestTwoProcessesAskAndStartOnce(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		s := newShop(t, databaseURL, nil)
		second, err := store.Open(t.Context(), store.Options{URL: databaseURL, Now: s.Now})
		require.NoError(t, err)
		defer second.Close()
		config := s.Config
		config.Store = second
		other := checkout.New(config)

		const orders = 20
		for i := range orders {
			s.lose(paymentsvctest.When(i % 2))
		}
		for range 200 {
			done := make(chan error)
			go func() { done <- other.Pass(t.Context()) }()
			s.pass()
			require.NoError(t, <-done)
			s.Add(time.Second)
		}
		for _, o := range s.service.Orders() {
			assert.Equal(t, store.StatePending, s.order(o.UserData).State)
			s.service.AssertStarted(t, o.UserData, 1)
		}
		assert.Len(t, s.service.Orders(), orders)
	})
}

func TestAServiceThatHangsDoesNotHoldUpTheRound(t *testing.T) {
	s := newShop(t, testdb.SQLite(t), nil)
	const orders = 20
	for range orders {
		s.lose(paymentsvctest.AfterCommit)
	}
	s.Add(time.Minute)
	s.Client = asked{Service: s.Client, asking: func() { s.Add(4 * time.Second) }}
	requests := func() int { return s.service.Requests(paymentsvctest.StatusPayment) }
	s.pass()
	assert.Less(t, requests(), orders/2)
	for range orders {
		s.pass()
	}
	for _, o := range s.service.Orders() {
		assert.Equal(t, store.StatePending, s.order(o.UserData).State)
	}
}

// asked calls asking before each question.
type asked struct {
	checkout.Service
	asking func()
}

func (a asked) StatusPayment(ctx context.Context, r paymentsvc.StatusPaymentRequest) (*paymentsvc.StatusResponse, error) {
	a.asking()
	return a.Service.StatusPayment(ctx, r)
}

func TestRunGoesRoundUntilItIsStopped(t *testing.T) {
	s := newShop(t, testdb.SQLite(t), nil)
	o := s.lose(paymentsvctest.AfterCommit)
	s.Add(time.Minute)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	require.Eventually(t, func() bool { return s.order(o.UserData).State == store.StatePending }, 10*time.Minute, time.Millisecond)
	stop()
	assert.NoError(t, <-ended)
}
