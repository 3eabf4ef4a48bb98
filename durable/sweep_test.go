package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

func TestLeaseTimerMeasuresOneClaim(t *testing.T) {
	var timer leaseTimer
	now := time.Now()
	claim := row.Claim{UserData: "u", Claims: 1, ClaimedAt: 5}
	timer.since(claim, now)
	assert.Zero(t, timer.since(row.Claim{UserData: "u", Claims: 2, ClaimedAt: 6}, now.Add(time.Hour)))
	assert.Equal(t, time.Hour, timer.since(claim, now.Add(time.Hour)))
}

func TestEndedLeaseDoesNotWaitBehindManyClaims(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		db.Exec(t, `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
			INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
			SELECT 'u' || i, 'payout', CASE i WHEN 0 THEN 'Z' ELSE 'A' || i END, 1, 0,
				CASE i WHEN 0 THEN 1 ELSE 9000000000000 END, 0 FROM n`)
		leases, err := s.ledger.Leases(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "u0", leases[0].UserData)
	})
}

// The database's clock jumps ahead and back. Times set meanwhile count as due, and claims made meanwhile end by the
// monotonic clock alone.
func TestTimesFromAWrongClockCountAsDue(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(n int, _ string) error { return unanswered("") }}
		s, clock := openClocked(t, db, Config{Service: f})
		base := clock.Now()
		for _, ahead := range []time.Duration{54 * time.Minute, 24 * time.Hour} {
			f.calls = 0
			setClock(t, db, base.Add(ahead))
			queue(t, s, payouts(ahead.String(), 3)...)
			r := pay(t, s, "")
			claimed := claim(t, s, 1, 0, "T")
			require.Len(t, claimed, 1)
			db.Exec(t, pauseUntil(base.Add(ahead).Add(time.Minute)))
			setClock(t, db, base)
			assert.False(t, status(t, s).Paused)
			require.NoError(t, s.Sweep(t.Context()))
			assert.EqualValues(t, 1, get(t, s, r.UserData).Polls)
			assert.Equal(t, StateStarting, get(t, s, claimed[0].UserData).State)
			_, err := s.RunBatch(t.Context(), BatchLimit{Rows: 2})
			assert.True(t, err == nil || f.calls > 1, "%v", err)
			clock.Add(s.c.Lease + time.Second)
			require.NoError(t, s.Sweep(t.Context()))
			assert.Equal(t, StateUnknown, get(t, s, claimed[0].UserData).State)
			require.NoError(t, s.Resume(t.Context(), "person"))
			runBatch(t, s, nil)
			assert.Equal(t, 3, f.calls, "the payment, and the payouts without a claim")
		}
	})
}

func TestGraceIgnoresAWrongClock(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(int, string) error { return unanswered("") }}
		s, clock := openClocked(t, db, Config{Service: f})
		base := clock.Now()
		setClock(t, db, base.Add(24*time.Hour))
		r := pay(t, s, "")
		setClock(t, db, base)
		for _, want := range []State{StateUnknown, StateUnknown, StateCreated} {
			db.Exec(t, `UPDATE durable_rows SET due_at = 0`)
			require.NoError(t, s.reconcile(t.Context()))
			assert.Equal(t, want, get(t, s, r.UserData).State)
			clock.Add(s.c.Grace/2 + time.Second)
		}
	})
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
		for _, r := range collect(t, s.Rows(t.Context(), Filter{})) {
			assert.False(t, r.MayHaveStarted)
		}
		set(t, db, jobs[0].UserData, `state = 'starting'`) // the commit arrives even later
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, map[State]int64{StateCreated: 5}, count(t, s, KindPayout))
		assert.Equal(t, 5, runBatch(t, s, nil), "a released claim is not a lost one")
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, map[State]int64{StatePending: 5}, count(t, s, KindPayout), "with claims of other tokens")
		set(t, db, "", `state = 'unknown'`)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Zero(t, count(t, s, KindPayout)[StateCreated])
	})
}

// A process does not begin a late call, and a sweep does not end a lease by one clock alone.
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
		f.requireStarts(t, 0)
	})
}

// NotFound counts only after both clocks have measured Grace.
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

// Grace begins with the claim, also for a sweeper that has watched the lease of a dead process.
func TestGraceIncludesTheLease(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s, clock := openClocked(t, db, Config{Service: &service{}})
		db.Exec(t, `INSERT INTO durable_rows (kind, user_data, type, amount, state, due_at, created_at, updated_at)
			SELECT 'payment', 'u', 'card', '10.50', 'created', ms, ms AS created_at, ms FROM (SELECT `+shim+` AS ms) AS clock`,
			`INSERT INTO durable_queue SELECT kind, generation, due_at, user_data, created_at FROM durable_rows`)
		require.Len(t, claim(t, s, 1, 1, "T"), 1)
		var passed time.Duration
		for _, at := range []struct {
			time time.Duration
			want State
		}{
			{0, StateStarting}, {s.c.Lease, StateUnknown}, {s.c.Grace - time.Second, StateUnknown}, {s.c.Grace, StateCreated},
		} {
			pass(t, db, clock, at.time-passed)
			passed = at.time
			db.Exec(t, `UPDATE durable_rows SET due_at = 0 WHERE state = 'unknown'`)
			require.NoError(t, s.Sweep(t.Context()))
			assert.Equal(t, at.want, get(t, s, "u").State, at.time)
		}
	})
}

func TestSweepAsksForManyRowsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		var asked atomic.Int64
		many, f := make(chan struct{}), &service{started: map[string][]string{}}
		for i := range 61 {
			f.started[fmt.Sprint("user-", i)] = []string{fmt.Sprint("order-", i)}
		}
		f.call = func(ctx context.Context, _ string) error { // waits for many others
			if asked.Add(1) == maxPolls {
				close(many)
			}
			select {
			case <-many:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		s := openStore(t, db, Config{Service: f})
		db.Exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
			INSERT INTO durable_rows (kind, user_data, type, amount, state, due_at, created_at, updated_at)
			SELECT 'payment', 'user-' || i, 'card', '10.50', 'unknown', 0, 0, 0 FROM n`)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, map[State]int64{StatePending: 60}, count(t, s, KindPayment))
	})
}

// A restored backup has lost the calls of two payments. OnChange rejects the notifications of their success for now.
func TestPaymentWithAnUnappliedNotificationDoesNotEnd(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		broken := errors.New("no shop")
		s, clock := openClocked(t, db, Config{
			Service:  &service{before: func(int, string) error { return notSent() }},
			OnChange: func(context.Context, *sql.Tx, Event) error { return broken },
		})
		created, unknown := pay(t, s, "a"), pay(t, s, "b")
		set(t, db, unknown.UserData, `state = 'unknown', error_code = 'E1'`)
		for _, r := range []Row{created, unknown} {
			n := notice(paymentChanged, r.UserData, "o-"+r.UserData, success)
			require.ErrorIs(t, s.Notified(t.Context(), n), broken)
		}
		require.NoError(t, s.reconcile(t.Context())) // begins to watch the unknown payment
		pass(t, db, clock, s.c.GiveUp+time.Second)
		require.NoError(t, errors.Join(s.giveUp(t.Context()), s.reconcile(t.Context())))
		assert.Equal(t, StateCreated, get(t, s, created.UserData).State)
		assert.Equal(t, StateUnknown, get(t, s, unknown.UserData).State)
		broken = nil
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, map[State]int64{StateSucceeded: 2}, count(t, s, KindPayment))
	})
}
