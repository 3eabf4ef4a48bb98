package durable

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

func TestNotFoundIsNotBelievedOfAnUnknownOutcome(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		for _, err := range []error{unanswered(""), errors.Join(errNotFound, unanswered(""))} { // the second of two calls
			s, clock := openClocked(t, db, Config{
				Service:  &service{call: func(context.Context, string) error { return err }},
				NotFound: func(*paymentsvc.Error) bool { return true },
				Hooks:    Hooks{Call: func(_ context.Context, c Call) { assert.Equal(t, paymentsvc.OutcomeUnknown, c.Outcome) }},
			})
			r := pay(t, s, "")
			for range 10 {
				pass(t, db, clock, time.Minute)
				require.NoError(t, s.Sweep(t.Context()))
			}
			r = get(t, s, r.UserData)
			assert.Equal(t, StateUnknown, r.State)
			assert.Positive(t, r.Polls)
		}
	})
}

func TestUnknownIsAskedAndFound(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s, clock := openClocked(t, db, Config{Service: f, MaxConsecutiveRejections: -1})
		f.after = func(n int, userData string) error {
			if n == 1 {
				return unanswered(userData + "/1")
			}
			return unanswered("")
		}
		send(t, s, payouts("a", 2)...)
		with, without := get(t, s, derived("test", KindPayout, "a-0000")), get(t, s, derived("test", KindPayout, "a-0001"))
		if with.OrderID == "" {
			with, without = without, with
		}
		assert.Equal(t, []State{StateUnknown, StateUnknown}, []State{with.State, without.State})
		assert.Empty(t, with.ReviewReason)
		assert.Contains(t, without.ReviewReason, row.NoAnswer)
		pass(t, db, clock, 2*time.Second)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, StatePending, get(t, s, with.UserData).State)
		assert.Equal(t, StateUnknown, get(t, s, without.UserData).State)
		assert.Zero(t, get(t, s, without.UserData).Polls, "there is no order_id to poll by")

		// A payment is polled for by user_data. If the service does not have it, it is started again only after Grace.
		f.before, f.after = func(int, string) error { return unanswered("") }, nil
		r := pay(t, s, "")
		assert.Equal(t, StateUnknown, r.State)
		for passed := time.Duration(0); passed < s.c.Grace; passed += 10 * time.Second {
			require.NoError(t, s.Sweep(t.Context()))
			require.Equal(t, StateUnknown, get(t, s, r.UserData).State)
			pass(t, db, clock, 10*time.Second)
		}
		f.foreign = true
		pass(t, db, clock, 5*time.Minute)
		require.NoError(t, s.Sweep(t.Context()))
		require.Equal(t, StateUnknown, get(t, s, r.UserData).State, "a response about another row")
		f.foreign = false
		pass(t, db, clock, 5*time.Minute)
		f.before = nil
		require.NoError(t, s.Sweep(t.Context()))
		require.Equal(t, StateCreated, get(t, s, r.UserData).State)
		runBatch(t, s, nil)
		assert.Equal(t, StatePending, get(t, s, r.UserData).State)

		f.before = func(int, string) error { return notSent() }
		r = pay(t, s, "")
		assert.Equal(t, StateCreated, r.State)
		pass(t, db, clock, s.c.GiveUp+time.Second)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, StateRejected, get(t, s, r.UserData).State)
	})
}

// finalState reads the status of the tests' responses. Its field and its values are the tests' choice.
func finalState(_ Kind, raw json.RawMessage) (State, error) {
	var r struct{ State State }
	if err := json.Unmarshal(raw, &r); err != nil {
		return StateSucceeded, err // the state beside an error does not count
	}
	return r.State, nil
}

// says returns the status function of a service that reports a state.
func says(state State) func(*paymentsvc.StatusResponse) error {
	return func(r *paymentsvc.StatusResponse) error {
		r.Raw = fmt.Appendf(nil, `{"state":%q}`, state)
		return nil
	}
}

// polled is a store with a pending payment and a pending payout, whose notifications are lost.
type polled struct {
	*Store
	t               *testing.T
	db              database
	f               *service
	clock           *clocks
	payment, payout string
	events          []string
	log             safeBuffer
}

func newPolled(t *testing.T, db database, c Config) *polled {
	p := &polled{t: t, db: db, f: &service{}}
	c.Service, c.Log = p.f, slog.New(slog.NewTextHandler(&p.log, nil))
	c.OnChange = func(_ context.Context, _ *sql.Tx, e Event) error {
		p.events = append(p.events, fmt.Sprint(e.Row.Kind, " ", e.From, " ", e.To))
		return nil
	}
	db.Exec(t, `DELETE FROM durable_rows`, `DELETE FROM durable_orders`, `DELETE FROM durable_notifications`)
	p.Store, p.clock = openClocked(t, db, c)
	r := pay(t, p.Store, "")
	p.payment, p.payout = r.UserData, queue(t, p.Store, payouts("a", 1)...)[0].UserData
	runBatch(t, p.Store, nil)
	return p
}

// sweep sweeps twice, after a time, because each pass polls for one kind.
func (p *polled) sweep(after time.Duration) {
	p.clock.Add(after)
	for range 2 {
		pass(p.t, p.db, p.clock, 2*time.Second)
		require.NoError(p.t, p.Sweep(p.t.Context()))
	}
}

func (p *polled) states() []State {
	return []State{get(p.t, p.Store, p.payment).State, get(p.t, p.Store, p.payout).State}
}

func TestPendingRowEndsByAPoll(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		p := newPolled(t, db, Config{FinalState: finalState})
		p.f.status = says(StateSucceeded)
		p.sweep(30 * time.Second)
		assert.Equal(t, []State{StatePending, StatePending}, p.states(), "its notification may still arrive")
		assert.Zero(t, p.f.polls)
		p.sweep(30 * time.Second)
		assert.Equal(t, []State{StateSucceeded, StateSucceeded}, p.states())
		assert.Equal(t, []string{"payment pending succeeded", "payout pending succeeded"}, p.events)
		assert.Equal(t, paymentsvc.StatusPaymentRequest{OrderID: p.payment + "/1"}, p.f.asked, "in the document's schema")

		order := p.payment + "/1"
		require.NoError(t, p.Notified(t.Context(), notice(paymentChanged, p.payment, order, success)))
		assert.Len(t, p.events, 2, "the late notification")
		assert.Empty(t, get(t, p.Store, p.payment).ReviewReason)
		require.NoError(t, p.Notified(t.Context(), notice(paymentChanged, p.payment, order, failure)))
		r := get(t, p.Store, p.payment)
		assert.Equal(t, StateSucceeded, r.State)
		assert.Contains(t, r.ReviewReason, "The service reports FAILURE after it was succeeded.")
		p.sweep(2 * time.Hour)
		assert.Equal(t, 2, p.f.polls, "a final row is not polled")
	})
}

func TestPendingRowIsNotPolledWithoutFinalState(t *testing.T) {
	p := newPolled(t, sqlite(t), Config{})
	p.f.status = says(StateSucceeded)
	p.sweep(2 * time.Hour)
	assert.Zero(t, p.f.polls)
	assert.Equal(t, []State{StatePending, StatePending}, p.states())

	p.f.after = func(int, string) error { return unanswered("") }
	r := pay(t, p.Store, "")
	p.sweep(2 * time.Second)
	assert.Equal(t, StatePending, get(t, p.Store, r.UserData).State)
	assert.NotContains(t, p.log.String(), "FinalState")
}

func TestPollsOfAPendingRowBackOff(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		p := newPolled(t, db, Config{FinalState: finalState})
		p.f.status = says(StatePending)
		p.clock.Add(2 * time.Second)
		var polls []int64
		for minute := range 130 {
			before := get(t, p.Store, p.payment).Polls
			p.sweep(56 * time.Second) // and 4 s for the two passes
			if get(t, p.Store, p.payment).Polls > before {
				polls = append(polls, int64(minute+1))
			}
		}
		assert.Equal(t, []int64{1, 2, 4, 8, 16, 32, 64, 124}, polls)
		r := get(t, p.Store, p.payment)
		assert.Equal(t, StatePending, r.State)
		assert.Empty(t, r.ReviewReason)
		assert.Empty(t, p.events)
	})
}

// Rows were pending before the first FinalState, and their due times are old or from a wrong clock.
func TestOldPendingRowsArePolledAtALimitedRate(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		for _, test := range []struct {
			perSecond float64
			passes    int
			want      int
		}{{0, 4, 40}, {3, 4, 6}, {0.5, 4, 1}} {
			p := newPolled(t, db, Config{FinalState: finalState, PerSecond: test.perSecond})
			p.f.status = says(StatePending)
			db.Exec(t, `DELETE FROM durable_rows`, `DELETE FROM durable_orders`,
				`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
				INSERT INTO durable_rows (kind, user_data, type, amount, state, order_id, due_at, created_at, updated_at)
				SELECT 'payment', 'u' || i, 'card', '10.50', 'pending', 'u' || i || '/1',
					CASE WHEN i % 2 = 0 THEN 0 ELSE 9000000000000 END, i, i FROM n`,
				`INSERT INTO durable_orders (kind, order_id, user_data, created_at, state)
				SELECT kind, order_id, user_data, created_at, state FROM durable_rows`)
			p.f.started = map[string][]string{}
			for i := range 601 {
				p.f.started[fmt.Sprint("u", i)] = []string{fmt.Sprintf("u%d/1", i)}
			}
			for range test.passes {
				pass(t, db, p.clock, time.Second)
				require.NoError(t, p.Sweep(t.Context()))
				require.NoError(t, p.Sweep(t.Context()), "a second sweep in the same second has no pass")
			}
			assert.Equal(t, test.want, p.f.polls, "%v per second", test.perSecond)
			if test.perSecond > 0 {
				continue
			}
			for range 80 { // passes for two pages of the list
				pass(t, db, p.clock, time.Second)
				require.NoError(t, p.Sweep(t.Context()))
			}
			assert.Equal(t, 600, p.f.polls, "each row once")
		}
	})
}

// A service that does not respond, or rejects the caller, gets fewer polls.
func TestPollsOfPendingRowsWaitForTheService(t *testing.T) {
	busy := &paymentsvc.Error{
		HTTPStatus: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"300"}}, Err: errors.New("busy"),
	}
	for _, test := range []struct {
		err  error
		want int // passes of two minutes
	}{
		{errNotFound, 30},
		{unanswered(""), 7},
		{refused(http.StatusTooManyRequests, "E1"), 7},
		{busy, 1},
	} {
		s, now := &Store{c: Config{FinalState: finalState}}, time.Now()
		passes := map[row.Kind]int{}
		for range 60 {
			if kind, _, due := s.pending.begin(now, 2*time.Second); due {
				passes[kind]++
				for range 5 { // polls of one pass
					s.pending.observe(now, kind, map[row.Kind]error{row.Payout: test.err}[kind])
				}
			}
			now = now.Add(2 * time.Second)
		}
		assert.Equal(t, map[row.Kind]int{row.Payment: 30, row.Payout: test.want}, passes, test.err)
		s.pending.observe(now, row.Payout, nil)
		assert.Zero(t, s.pending.of(row.Payout).failures)
	}
	p := newPolled(t, sqlite(t), Config{FinalState: finalState})
	p.f.status = func(*paymentsvc.StatusResponse) error { return busy }
	p.sweep(time.Minute)
	assert.Equal(t, 2, p.f.polls, "one of each kind")
}

func TestPollThatIsNotAboutThePendingRowChangesNothing(t *testing.T) {
	db := sqlite(t)
	for name, change := range map[string]func(*paymentsvc.StatusResponse){
		"another order_id":        func(r *paymentsvc.StatusResponse) { r.OrderID = "another's" },
		"another user_data":       func(r *paymentsvc.StatusResponse) { r.UserData = "another" },
		"only another order_id":   func(r *paymentsvc.StatusResponse) { r.UserData, r.OrderID = "", "another's" },
		"no ids":                  func(r *paymentsvc.StatusResponse) { r.UserData, r.OrderID = "", "" },
		"an unreadable amount":    func(r *paymentsvc.StatusResponse) { r.Malformed = []string{"amount"} },
		"an unreadable order_id":  func(r *paymentsvc.StatusResponse) { r.OrderID, r.Malformed = "", []string{"order_id"} },
		"an unreadable user_data": func(r *paymentsvc.StatusResponse) { r.UserData, r.Malformed = "", []string{"user_data"} },
		"a pending state":         func(r *paymentsvc.StatusResponse) { r.Raw = []byte(`{"state":"pending"}`) },
		"no state":                func(r *paymentsvc.StatusResponse) { r.Raw = []byte(`{}`) },
		"an unknown state":        func(r *paymentsvc.StatusResponse) { r.Raw = []byte(`{"state":"4111111111111111"}`) },
		"a rejection":             func(r *paymentsvc.StatusResponse) { r.Raw = []byte(`{"state":"rejected"}`) },
		"an error":                func(r *paymentsvc.StatusResponse) { r.Raw = []byte(`{"state":4111111111111111}`) },
	} {
		p := newPolled(t, db, Config{FinalState: func(kind Kind, raw json.RawMessage) (State, error) {
			state, err := finalState(kind, raw)
			if err != nil {
				err = fmt.Errorf("%w in %s", err, raw)
			}
			return state, err
		}})
		p.f.status = func(r *paymentsvc.StatusResponse) error {
			_ = says(StateSucceeded)(r)
			change(r)
			return nil
		}
		before := get(t, p.Store, p.payment)
		p.sweep(time.Minute)
		assert.Equal(t, []State{StatePending, StatePending}, p.states(), name)
		assert.Equal(t, before.Version, get(t, p.Store, p.payment).Version, name)
		assert.Equal(t, 2, p.f.polls, name)
		assert.NotContains(t, p.log.String(), "4111", name)
		assert.Empty(t, p.events, name)
	}
}

func TestPollWithOneOfTheIDsIsApplied(t *testing.T) {
	for _, change := range []func(*paymentsvc.StatusResponse){
		func(r *paymentsvc.StatusResponse) { r.UserData = "" },
		func(r *paymentsvc.StatusResponse) { r.OrderID = "" },
	} {
		p := newPolled(t, sqlite(t), Config{FinalState: finalState})
		p.f.status = func(r *paymentsvc.StatusResponse) error {
			change(r)
			r.Amount = ten
			return says(StateFailed)(r)
		}
		p.sweep(time.Minute)
		assert.Equal(t, []State{StateFailed, StateFailed}, p.states())
	}
}

func TestPollWithAnotherAmountNeedsReview(t *testing.T) {
	p := newPolled(t, sqlite(t), Config{FinalState: finalState})
	p.f.status = func(r *paymentsvc.StatusResponse) error {
		r.Amount = paymentsvc.MustParseAmount("99")
		return says(StateSucceeded)(r)
	}
	p.sweep(time.Minute)
	r := get(t, p.Store, p.payment)
	assert.Equal(t, StatePending, r.State)
	assert.Equal(t, "The service reports SUCCESS of 99 instead of 10.50.", r.ReviewReason)
	p.sweep(time.Hour)
	assert.Equal(t, r.ReviewReason, get(t, p.Store, p.payment).ReviewReason, "the same once more")
	assert.Empty(t, p.events)
}

func TestFinalStateThatPanicsEndsNothing(t *testing.T) {
	p := newPolled(t, sqlite(t), Config{
		FinalState: func(Kind, json.RawMessage) (State, error) { panic("4111111111111111") },
	})
	p.sweep(time.Minute)
	assert.Equal(t, []State{StatePending, StatePending}, p.states())
	assert.Equal(t, 2, strings.Count(p.log.String(), "panic of type string"))
	assert.Contains(t, p.log.String(), "reconcile_test.go", "the stack")
	assert.NotContains(t, p.log.String(), "4111")
}

func TestFinalStateGetsTheKindAndTheResponse(t *testing.T) {
	got := make(chan string, 2)
	p := newPolled(t, sqlite(t), Config{FinalState: func(k Kind, raw json.RawMessage) (State, error) {
		got <- string(k) + " " + string(bytes.TrimSpace(raw))
		return StatePending, nil
	}})
	p.f.status = says("x")
	p.sweep(time.Minute)
	assert.ElementsMatch(t, []string{`payment {"state":"x"}`, `payout {"state":"x"}`}, []string{<-got, <-got})
}

// A notification arrives between the response of a poll and its transaction.
func TestNotificationDuringAPollComesFirst(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		for _, polledState := range []State{StateSucceeded, StateFailed} {
			p := newPolled(t, db, Config{FinalState: finalState})
			p.f.status = func(r *paymentsvc.StatusResponse) error {
				kind := get(t, p.Store, r.UserData).Kind
				require.NoError(t, p.Notified(t.Context(), notice(changed(kind), r.UserData, r.OrderID, success)))
				return says(polledState)(r)
			}
			p.sweep(time.Minute)
			assert.Equal(t, []State{StateSucceeded, StateSucceeded}, p.states())
			assert.Equal(t, []string{"payment pending succeeded", "payout pending succeeded"}, p.events)
			reason := get(t, p.Store, p.payment).ReviewReason
			if polledState == StateFailed {
				assert.Equal(t, "The service reports FAILURE after it was succeeded.", reason)
			} else {
				assert.Empty(t, reason)
			}
		}
	})
}

func TestProcessesShareThePollsOfPendingRows(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		db.Exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
			INSERT INTO durable_rows (kind, user_data, amount, state, order_id, due_at, created_at, updated_at)
			SELECT 'payment', 'u' || i, '10.50', 'pending', 'u' || i, 0, i, i FROM n`,
			`INSERT INTO durable_orders (kind, order_id, user_data, created_at, state)
			SELECT kind, order_id, user_data, created_at, state FROM durable_rows`)
		counts := make(chan int)
		for range 8 {
			go func() {
				polls, _, err := s.ledger.DuePending(t.Context(), row.Payment, ledger.Place{}, 100)
				assert.NoError(t, err)
				counts <- len(polls)
			}()
		}
		sum := 0
		for range 8 {
			sum += <-counts
		}
		assert.Equal(t, 50, sum)

		broken := `ALTER TABLE durable_rows ADD CHECK (polls < 2) NOT VALID`
		if db.SQLite {
			broken = `CREATE TRIGGER broken BEFORE UPDATE OF polls ON durable_rows BEGIN SELECT RAISE(ABORT, 'broken'); END`
		}
		db.Exec(t, `UPDATE durable_rows SET due_at = 0`, broken)
		_, next, err := s.ledger.DuePending(t.Context(), row.Payment, ledger.Place{}, 1)
		require.Error(t, err)
		assert.Zero(t, next, "the next pass reads the page again")
	})
}
