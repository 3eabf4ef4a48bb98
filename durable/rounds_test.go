package durable

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

// A completion with further consequences is left out of its round, without harm to the others. Recorded ones free
// slots.
func TestRoundsLeaveOutWhatIsRecordedSeparately(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		queue(t, s, payouts("a", 9)...)
		jobs := claim(t, s, 4, 0, "T")
		require.Len(t, jobs, 4)
		round := func(r schedule.Request[callResult]) schedule.Result[job] {
			got, err := rounder{s}.Round(t.Context(), r)
			require.NoError(t, err)
			return got
		}
		completions := make([]schedule.Completion[callResult], 4)
		for i, j := range jobs {
			completions[i] = completionOf(j, fmt.Sprint("order", i), 1)
		}
		completions[1].Done.job.Token = "another"
		require.NoError(t, s.Notified(t.Context(), notice(paymentsvc.EventPayoutStatusChanged, "", "order2",
			paymentsvc.StatusSuccess)))
		round(schedule.Request[callResult]{Completions: completions[3:]})
		taken := completions[0]
		taken.OrderID = "order3"
		got := round(schedule.Request[callResult]{
			Completions: []schedule.Completion[callResult]{taken, completions[1], completions[2]}, MaxRows: 3, Token: "U",
		})
		assert.Empty(t, got.Recorded)
		assert.Empty(t, got.Jobs, "claimed for slots that are not free")
		got = round(schedule.Request[callResult]{Completions: completions[:3], MaxRows: 4, Free: 1, Token: "U"})
		assert.Equal(t, map[string]bool{completions[0].UserData: true}, got.Recorded)
		assert.Len(t, got.Jobs, 2, "one slot was free, and the completion freed one")

		db.Exec(t, `UPDATE durable_control SET run_length = 3`)
		require.NoError(t, s.settle(t.Context(), jobs[2], started("order2")))
		assert.Zero(t, status(t, s).Rejections, "a success ends a run of rejections")
		assert.Equal(t, StateSucceeded, get(t, s, jobs[2].UserData).State, "its notification had waited")
		require.NoError(t, s.settle(t.Context(), jobs[1], started("order0")))
		r := get(t, s, jobs[1].UserData)
		assert.Equal(t, StateUnknown, r.State)
		assert.Contains(t, r.ReviewReason, "order_id that another row has")
	})
}

// PostgreSQL keeps the plan that it made when the tables were empty: it must not read all rows that are queued later.
func TestRoundsReadOnlyTheirRows(t *testing.T) {
	db := postgres(t)
	s := openStore(t, db, Config{})
	db.SetMaxOpenConns(1) // because each connection has its own plans
	queue(t, s, payouts("first", 40)...)
	var completions []schedule.Completion[callResult]
	round := func() {
		got, err := rounder{s}.Round(t.Context(), schedule.Request[callResult]{
			Completions: completions, OrderIDs: []string{"none"}, Free: 4 - len(completions), MaxRows: 4, Token: rand.Text(),
		})
		require.NoError(t, err)
		require.Len(t, got.Jobs, 4)
		require.Len(t, got.Recorded, len(completions))
		completions = nil
		for _, j := range got.Jobs {
			completions = append(completions, completionOf(j, j.UserData, 1))
		}
	}
	read := func() (n int) {
		db.Exec(t, `SELECT pg_stat_force_next_flush()`)
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT SUM(seq_tup_read) + (SELECT SUM(idx_tup_read)
			FROM pg_stat_user_indexes) FROM pg_stat_user_tables
			WHERE relname NOT IN ('durable_control', 'durable_mark')`).Scan(&n))
		return n
	}
	for range 9 { // the sixth makes the plan that is kept
		round()
	}
	queue(t, s, payouts("later", 2000)...)
	db.Exec(t, `INSERT INTO durable_notifications SELECT i::TEXT, 'payout.status_changed', 'order' || i,
		'unknown' || i, 1, '', 1, '', 0, 1 FROM generate_series(1, 2000) AS i`)
	before := read()
	for range 10 {
		round()
	}
	assert.Less(t, read()-before, 10*100, "rows and dead rows in 10 rounds of 4")
}

// A round claims at most its limit, however many payments and payouts are due and slots are freed.
func TestRoundsClaimAtMostTheirLimit(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		queue(t, s, payouts("a", 9)...)
		db.Exec(t, `UPDATE durable_rows SET kind = 'payment', generation = 0 WHERE reference < 'a-0005'`)
		set(t, db, "", "line = 0")
		got, err := rounder{s}.Round(t.Context(), schedule.Request[callResult]{Free: 8, MaxPayments: 2, MaxRows: 3,
			Token: "T"})
		require.NoError(t, err)
		assert.Len(t, got.Jobs, 3)
		assert.Equal(t, 2, got.Payments)
	})
}

// A RunBatch continues after the server was recognized again.
func TestRunBatchRecognizesTheServer(t *testing.T) {
	db := postgres(t)
	var rounds atomic.Int64
	s := openStore(t, db, Config{Service: &service{}, Slots: 2, Hooks: Hooks{Round: func(context.Context, Round) {
		if rounds.Add(1) == 7 {
			db.Exec(t, `UPDATE durable_control SET timeline = ''`) // what a round compares changes, and the server does not
		}
	}}})
	queue(t, s, payouts("a", 100)...)
	n := runBatch(t, s, nil)
	assert.Equal(t, 100, n)
}

func TestRoundsWithOneOrderIDTwice(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s := openStore(t, db, Config{Service: f, Slots: 8})
		f.after = func(int, string) error { return nil }
		queue(t, s, payouts("a", 8)...)
		same := sameOrder{f}
		s.c.Service = same
		runBatch(t, s, nil)
		assert.Equal(t, map[State]int64{StatePending: 1, StateUnknown: 7}, count(t, s, KindPayout))
	})
}

// sameOrder answers every payout with one order_id.
type sameOrder struct{ *service }

func (f sameOrder) InitPayout(ctx context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
	_, err := f.service.InitPayout(ctx, r)
	return &paymentsvc.InitPayoutResponse{OrderID: "one"}, err
}

// No call begins under a claim with an unknown commit. Its rows become due again.
func TestUnresolvedClaimsAreReleased(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{Service: &service{}, Slots: 3})
		queue(t, s, payouts("a", 5)...)
		jobs := claim(t, s, 3, 0, "T")
		require.Len(t, jobs, 3)
		s.scheduler.AddUnresolved("T")
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, map[State]int64{StateCreated: 5}, count(t, s, KindPayout))
		for r, err := range s.Rows(t.Context(), Filter{}) {
			require.NoError(t, err)
			assert.False(t, r.MayHaveStarted)
		}
		set(t, db, jobs[0].UserData, `state = 'starting'`) // the commit arrives even later
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, map[State]int64{StateCreated: 5}, count(t, s, KindPayout))
		n, err := s.RunBatch(t.Context(), BatchLimit{})
		require.NoError(t, err, "a released claim is not a lost one")
		assert.Equal(t, 5, n)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, map[State]int64{StatePending: 5}, count(t, s, KindPayout), "with claims of other tokens")
		set(t, db, "", `state = 'unknown'`)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Zero(t, count(t, s, KindPayout)[StateCreated])
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
		jobs := claim(t, s, 2, 0, "T")
		state := func(want State) {
			t.Helper()
			require.NoError(t, other.endLeases(t.Context()))
			assert.Equal(t, want, get(t, s, jobs[0].UserData).State)
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
		assert.Contains(t, get(t, s, jobs[0].UserData).ReviewReason, row.NoAnswer)

		owner.Add(s.c.Timeout)
		v := s.call(t.Context(), jobs[0])
		assert.Equal(t, row.NotCalled, v.Kind)
		require.ErrorIs(t, s.settle(t.Context(), jobs[0], v), ErrChanged)
		assert.Equal(t, StateUnknown, get(t, s, jobs[0].UserData).State)
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
		r := pay(t, s, "")
		ask := func(database time.Duration, want State) {
			t.Helper()
			setClock(t, db, base.Add(database))
			require.NoError(t, other.reconcile(t.Context()))
			assert.Equal(t, want, get(t, s, r.UserData).State)
		}
		ask(10*time.Minute, StateUnknown)
		asker.Add(s.c.Grace - time.Second)
		ask(11*time.Minute, StateUnknown)
		asker.Add(2 * time.Second)
		db.Exec(t, `UPDATE durable_rows SET due_at = 0`)
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
