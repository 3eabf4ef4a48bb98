package durable

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestRoundsClaimNoMoreThanFreeSlots(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		var s *Store
		var most atomic.Int64
		f.before = func(int, string) error {
			var n int64
			err := s.db.QueryRowContext(context.Background(), `SELECT COUNT(*) FROM durable_rows WHERE state = 'starting'`).Scan(&n)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			return err
		}
		s = openStore(t, db, Config{Service: f, Slots: 3})
		queue(t, s, payouts("a", 60)...)
		done, err := s.Turn(t.Context(), Limit{Rows: 50})
		require.NoError(t, err)
		assert.Equal(t, 50, done)
		assert.LessOrEqual(t, most.Load(), int64(3))
		assert.Positive(t, most.Load())
	})
}

// A round's claims and outcomes: the freed slots count, and rows that cannot go the fast way are left out alone.
func TestRoundsLeaveOutWhatGoesAlone(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		queue(t, s, payouts("a", 9)...)
		got, err := s.round(t.Context(), asking{free: 4, most: 4, token: "T"})
		require.NoError(t, err)
		require.Len(t, got.jobs, 4)
		outcomes := make([]*outcome, 4)
		for i, j := range got.jobs {
			outcomes[i] = &outcome{UserData: j.userData, Token: "T", OrderID: fmt.Sprint("order", i), Slot: 1, kind: KindPayout}
		}
		outcomes[1].Token = "another"
		require.NoError(t, s.Notified(t.Context(), notice(paymentsvc.EventPayoutStatusChanged, "", "order2", paymentsvc.StatusSuccess)))
		_, err = s.round(t.Context(), asking{outcomes: outcomes[3:]})
		require.NoError(t, err)
		taken := *outcomes[0]
		taken.OrderID = "order3"
		got, err = s.round(t.Context(), asking{outcomes: []*outcome{&taken, outcomes[1], outcomes[2]}, most: 3, token: "U"})
		require.NoError(t, err)
		assert.Empty(t, got.recorded)
		assert.Empty(t, got.jobs, "claimed for slots that are not free")
		got, err = s.round(t.Context(), asking{outcomes: outcomes[:3], most: 4, free: 1, token: "U"})
		require.NoError(t, err)
		assert.Equal(t, map[string]bool{outcomes[0].UserData: true}, got.recorded)
		assert.Len(t, got.jobs, 2, "one slot was free, and the outcome freed one")

		_, err = db.ExecContext(t.Context(), `UPDATE durable_control SET run_length = 3`)
		require.NoError(t, err)
		late := job{userData: outcomes[2].UserData, kind: KindPayout, token: "T"}
		require.NoError(t, s.settle(t.Context(), late, verdict{is: factStarted, orderID: "order2"}))
		status, err := s.Status(t.Context())
		require.NoError(t, err)
		assert.Zero(t, status.RefusalRun, "a success ends a run of refusals")
		assert.Equal(t, StateSucceeded, get(t, s, outcomes[2].UserData).State, "its notification had waited")
		require.NoError(t, s.settle(t.Context(), job{userData: outcomes[1].UserData, token: "T"}, verdict{is: factStarted, orderID: "order0"}))
		r := get(t, s, outcomes[1].UserData)
		assert.Equal(t, StateUnknown, r.State)
		assert.Contains(t, r.Attention, "order_id that another row has")
	})
}

// PostgreSQL keeps the plan that it made when the table was empty: it must not read all that is queued later.
func TestRoundsReadOnlyTheirRows(t *testing.T) {
	db := postgres(t)
	s := openStore(t, db, Config{})
	db.SetMaxOpenConns(1) // since each connection has its own plans
	queue(t, s, payouts("first", 40)...)
	var outcomes []*outcome
	round := func() {
		got, err := s.round(t.Context(), asking{outcomes: outcomes, orders: []string{"none"}, free: 4 - len(outcomes), most: 4, token: "T"})
		require.NoError(t, err)
		require.Len(t, got.jobs, 4)
		require.Len(t, got.recorded, len(outcomes))
		outcomes = nil
		for _, j := range got.jobs {
			outcomes = append(outcomes, &outcome{UserData: j.userData, Token: "T", OrderID: j.userData, Slot: 1, kind: KindPayout})
		}
	}
	read := func() (n int) {
		_, err := db.ExecContext(t.Context(), `SELECT pg_stat_force_next_flush()`)
		require.NoError(t, err)
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT SUM(seq_tup_read) + (SELECT SUM(idx_tup_read)
			FROM pg_stat_user_indexes) FROM pg_stat_user_tables WHERE relname <> 'durable_control'`).Scan(&n))
		return n
	}
	for range 9 { // the sixth makes the plan that is kept
		round()
	}
	queue(t, s, payouts("later", 2000)...)
	_, err := db.ExecContext(t.Context(), `INSERT INTO durable_notifications SELECT i::TEXT, 'payout.status_changed', 'order' || i,
		'unknown' || i, 1, '', 1, '', 0, 1 FROM generate_series(1, 2000) AS i`)
	require.NoError(t, err)
	before := read()
	for range 10 {
		round()
	}
	assert.Less(t, read()-before, 10*100, "rows and dead rows in 10 rounds of 4")
}

// Outcomes that free slots together do not let a round claim more than Limit.Rows.
func TestRoundsKeepLimitRows(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		together := make(chan struct{}, 100)
		f := &service{}
		f.after = func(int, string) error { // eight calls end together
			if together <- struct{}{}; len(together)%8 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		}
		s := openStore(t, db, Config{Service: f, Slots: 8})
		for _, rows := range []int{9, 10, 12, 15} {
			queue(t, s, payouts(fmt.Sprint(rows), 30)...)
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			var payments []NewPayment
			for i := range 30 {
				payments = append(payments, NewPayment{Key: fmt.Sprint(rows, "-", i), Type: paymentsvc.PaymentTypeCard, Amount: ten})
			}
			_, err = s.QueuePayments(t.Context(), tx, payments...)
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
			n, err := s.Turn(t.Context(), Limit{Rows: rows})
			require.NoError(t, err)
			assert.Equal(t, rows, n)
		}
	})
}

// A round claims at most its limit, however many payments and payouts are due and slots are freed.
func TestRoundsClaimAtMostTheirLimit(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		queue(t, s, payouts("a", 9)...)
		_, err := db.ExecContext(t.Context(), `UPDATE durable_rows SET kind = 'payment' WHERE reference < 'a-0005'`)
		require.NoError(t, err)
		got, err := s.round(t.Context(), asking{free: 8, payments: 2, most: 3, token: "T"})
		require.NoError(t, err)
		assert.Len(t, got.jobs, 3)
		w := &worker{ctx: t.Context(), left: -1, hungry: true, rounds: make(chan struct{}, 1)}
		a := asking{}
		assert.Nil(t, s.claim(&a, w), "a probe took more than was left")
	})
}

// A Turn goes on after the server was recognized again, and ends if each round meets another one.
func TestTurnRecognizesTheServer(t *testing.T) {
	db := postgres(t)
	var s *Store
	rounds := 0
	s = openStore(t, db, Config{Service: &service{}, Slots: 2, Hooks: Hooks{Round: func(context.Context, Round) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if rounds++; rounds == 7 {
			s.server = "another"
		}
	}}})
	assert.Contains(t, s.here, "pg_postmaster_start_time()")
	assert.Contains(t, s.here, "'durable_rows'::REGCLASS")
	queue(t, s, payouts("a", 100)...)
	n, err := s.Turn(t.Context(), Limit{})
	require.NoError(t, err)
	assert.Equal(t, 100, n)
	queue(t, s, payouts("b", 10)...)
	s.mu.Lock()
	rounds = 100
	s.mu.Unlock()
	s.roundText = strings.ReplaceAll(s.roundText, s.here, "clock_timestamp()::TEXT")
	n, err = s.Turn(t.Context(), Limit{})
	require.NoError(t, err)
	assert.Zero(t, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Less(t, rounds, 110)
}

func TestRoundsWithOneOrderIDTwice(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s := openStore(t, db, Config{Service: f, Slots: 8})
		f.after = func(int, string) error { return nil }
		queue(t, s, payouts("a", 8)...)
		same := sameOrder{f}
		s.c.Service = same
		_, err := s.Turn(t.Context(), Limit{})
		require.NoError(t, err)
		assert.Equal(t, map[State]int64{StatePending: 1, StateUnknown: 7}, count(t, s, KindPayout))
	})
}

// sameOrder answers every payout with one order_id.
type sameOrder struct{ *service }

func (f sameOrder) InitPayout(ctx context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
	_, err := f.service.InitPayout(ctx, r)
	return &paymentsvc.InitPayoutResponse{OrderID: "one"}, err
}

// A database that is away stops the claims by itself, and Run goes on when it is back.
func TestRunWaitsOutADatabaseThatIsAway(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s := openStore(t, db, Config{Service: f, Slots: 2})
		queue(t, s, payouts("a", 20)...)
		away := make(chan struct{})
		f.after = func(n int, _ string) error {
			if n == 3 {
				_, err := db.ExecContext(context.Background(), `ALTER TABLE durable_rows RENAME TO away`)
				assert.NoError(t, err)
				close(away)
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		<-away
		before, _ := f.starts()
		time.Sleep(300 * time.Millisecond)
		n, _ := f.starts()
		assert.LessOrEqual(t, n, before+2, "calls went on without a database")
		_, err := db.ExecContext(t.Context(), `ALTER TABLE away RENAME TO durable_rows`)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return count(t, s, KindPayout)[StatePending] == 20 }, time.Minute, 10*time.Millisecond)
		cancel()
		require.NoError(t, <-ended)
		n, different := f.starts()
		assert.Equal(t, []int{20, 20}, []int{n, different})
	})
}

// Nothing is called under a claim of which it is not known whether it was committed; its rows and slots come back.
func TestClaimInDoubtIsReturned(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s := openStore(t, db, Config{Service: f, Slots: 3})
		queue(t, s, payouts("a", 5)...)
		w := &worker{ctx: t.Context(), left: math.MaxInt, hungry: true, rounds: make(chan struct{}, 1)}
		s.worker = w
		s.mu.Lock()
		a, _ := s.next()
		s.mu.Unlock()
		got, err := s.round(t.Context(), a)
		require.NoError(t, err)
		require.Len(t, got.jobs, 3)
		s.failed(t.Context(), a, w, fmt.Errorf("connection lost"))
		s.calls.Wait()
		assert.Equal(t, map[State]int64{StateCreated: 5}, count(t, s, KindPayout))
		assert.Zero(t, s.used)
		for r, err := range s.Rows(t.Context(), Filter{}) {
			require.NoError(t, err)
			assert.False(t, r.Doubted)
		}
		// The commit may come even later.
		_, err = db.ExecContext(t.Context(), `UPDATE durable_rows SET state = 'starting' WHERE token <> ''`)
		require.NoError(t, err)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, map[State]int64{StateCreated: 5}, count(t, s, KindPayout))
		s.worker = nil
		n, err := s.Turn(t.Context(), Limit{})
		require.NoError(t, err)
		assert.Equal(t, 5, n)
		// What was called under another token is not returned, nor what is no longer starting.
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, map[State]int64{StatePending: 5}, count(t, s, KindPayout))
		_, err = db.ExecContext(t.Context(), `UPDATE durable_rows SET state = 'unknown', token = '`+a.token+`'`)
		require.NoError(t, err)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, map[State]int64{StateUnknown: 5}, count(t, s, KindPayout))
	})
}

// A process whose call was late does not begin it, and a sweep believes no clock alone.
func TestLeaseEndsByTwoClocks(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		base := time.Now().Add(time.Hour)
		owner, sweeper := &clocks{process: base}, &clocks{process: base.Add(-3 * time.Minute)}
		s := openShimmed(t, db, Config{Service: f}, owner)
		other := openShimmed(t, db, Config{Service: f}, sweeper)
		queue(t, s, payouts("a", 2)...)
		setClock(t, db, base)
		got, err := s.round(t.Context(), asking{free: 2, most: 2, token: "T"})
		require.NoError(t, err)
		state := func(want State) {
			t.Helper()
			require.NoError(t, other.endLeases(t.Context()))
			assert.Equal(t, want, get(t, s, got.jobs[0].userData).State)
		}
		setClock(t, db, base.Add(10*time.Minute)) // it jumps
		state(StateStarting)
		sweeper.Add(s.c.Lease - time.Second)
		state(StateStarting)
		setClock(t, db, base) // and back
		sweeper.Add(2 * time.Second)
		state(StateStarting)
		setClock(t, db, base.Add(3*time.Minute))
		state(StateUnknown)
		assert.Contains(t, get(t, s, got.jobs[0].userData).Attention, "No clear answer")

		owner.Add(s.c.Timeout)
		v := s.call(t.Context(), got.jobs[0])
		assert.Equal(t, factUnbegun, v.is)
		require.ErrorIs(t, s.settle(t.Context(), got.jobs[0], v), ErrChanged)
		assert.Equal(t, StateUnknown, get(t, s, got.jobs[0].userData).State)
		n, _ := f.starts()
		assert.Zero(t, n)
	})
}

// "No such payment" is believed only when both clocks say that the grace is over.
func TestGraceEndsByTwoClocks(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(int, string) error { return unanswered("") }}
		base := time.Now().Add(time.Hour)
		owner, asker := &clocks{process: base}, &clocks{process: base.Add(3 * time.Minute)}
		s := openShimmed(t, db, Config{Service: f}, owner)
		other := openShimmed(t, db, Config{Service: f}, asker)
		setClock(t, db, base)
		r, err := s.Pay(t.Context(), NewPayment{Type: paymentsvc.PaymentTypeCard, Amount: ten})
		require.NoError(t, err)
		ask := func(database time.Duration, want State) {
			t.Helper()
			setClock(t, db, base.Add(database))
			require.NoError(t, other.ask(t.Context()))
			assert.Equal(t, want, get(t, s, r.UserData).State)
		}
		ask(10*time.Minute, StateUnknown)
		asker.Add(s.c.Grace - time.Second)
		ask(11*time.Minute, StateUnknown)
		asker.Add(2 * time.Second)
		_, err = db.ExecContext(t.Context(), `UPDATE durable_rows SET due_at = 0`)
		require.NoError(t, err)
		ask(time.Second, StateUnknown)
		ask(12*time.Minute, StateCreated)
	})
}

func TestUserDataIsDerived(t *testing.T) {
	// The values must never change: a file that is imported again after a restore brings the same.
	assert.Equal(t, "c204e47c-f835-817f-8f0d-accc6314f4b5", derived("test", KindPayout, "salary-1"))
	all := []string{
		derived("test", KindPayout, "salary-1"), derived("test", KindPayment, "salary-1"),
		derived("other", KindPayout, "salary-1"), derived("test", KindPayout, "salary-2"),
	}
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), 4)
}

// With two rounds in flight the older one may end last, after the newer one met a pause.
func TestTurnKeepsTheResultOfItsNewestRound(t *testing.T) {
	s := openStore(t, sqlite(t), Config{})
	w := &worker{ctx: t.Context(), left: math.MaxInt, rounds: make(chan struct{}, 1), flying: 2}
	s.done(t.Context(), asking{number: 2}, w, answer{paused: true})
	s.done(t.Context(), asking{number: 1}, w, answer{})
	require.ErrorIs(t, s.why(t.Context(), w.result), ErrPaused)
}
