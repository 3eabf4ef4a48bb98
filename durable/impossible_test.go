package durable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
)

// The database's clock jumps a day ahead and back: times from that day count as due, and claims from it end by the
// monotonic clock alone.
func TestTimesFromAWrongClockCountAsDue(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(n int, _ string) error { return unanswered("") }}
		base := time.Now().Add(time.Hour)
		clock := &clocks{process: base}
		s := openShimmed(t, db, Config{Service: f}, clock)
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
		base := time.Now().Add(time.Hour)
		clock := &clocks{process: base}
		s := openShimmed(t, db, Config{Service: f}, clock)
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

// The pause of a probe is never impossible, however long a lease is.
func TestProbeWithALongLeaseIsAlone(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{Lease: time.Hour})
		queue(t, s, payouts("a", 2)...)
		db.Exec(t, `UPDATE durable_control SET pause_until = 1`)
		for _, want := range []int{1, 0} {
			jobs, err := rounder{s}.Probe(t.Context(), "T")
			require.NoError(t, err)
			assert.Len(t, jobs, want)
		}
	})
}

// A queue entry that does not fit its row starts no call.
func TestRowsOfAnotherStateAreNotClaimed(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		queue(t, s, payouts("a", 3)...)
		claimed := claim(t, s, 1, 0, "T")
		require.Len(t, claimed, 1)
		for _, user := range []string{derived("test", KindPayout, "a-0000"), derived("test", KindPayout, "a-0001")} {
			if user != claimed[0].UserData {
				set(t, db, user, `state = 'unknown'`)
			}
		}
		db.Exec(t, `DELETE FROM durable_queue`, `INSERT INTO durable_queue (kind, generation, due_at, user_data, created_at)
			SELECT kind, generation, due_at, user_data, created_at FROM durable_rows`)
		for _, j := range claim(t, s, 3, 0, "U") {
			assert.NotEqual(t, claimed[0].UserData, j.UserData, "it is claimed")
			assert.Equal(t, StateStarting, get(t, s, j.UserData).State)
		}
		n, _ := s.Status(t.Context())
		assert.LessOrEqual(t, n.Starting, int64(2))
	})
}

// A call changes no indexed value of its row, so PostgreSQL writes no index entry.
func TestCallsChangeNoIndexOfRows(t *testing.T) {
	db := postgres(t)
	db.SetMaxOpenConns(1)
	s := openStore(t, db, Config{AllowUnsafeDatabase: true})
	// Each page has space for a second version of its rows, because other databases can delay the removal of the first.
	db.Exec(t, `ALTER TABLE durable_rows SET (fillfactor = 30)`)
	queue(t, s, payouts("a", 100)...)
	jobs := claim(t, s, 8, 0, "T")
	require.Len(t, jobs, 8)
	for range 12 {
		got := next(t, s, jobs)
		require.Len(t, got.Recorded, len(jobs))
		jobs = got.Jobs
	}
	db.Exec(t, `SELECT pg_stat_force_next_flush()`)
	var all, hot int
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
		WHERE relname = 'durable_rows'`).Scan(&all, &hot))
	assert.Equal(t, []int{96, 96}, []int{all, hot})
}

// A notification arrives while the database's clock is a day ahead, and its process dies before it is applied.
func TestNotificationsFromAWrongClockAreApplied(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		base := time.Now().Add(time.Hour)
		clock := &clocks{process: base}
		s := openShimmed(t, db, Config{}, clock)
		q := queue(t, s, payouts("a", 1)...)
		n := notice(paymentsvc.EventPayoutStatusChanged, q[0].UserData, "o", success)
		setClock(t, db, base.Add(24*time.Hour))
		require.NoError(t, s.ledger.StoreNotice(t.Context(), ledger.Notice{
			Key: n.Key(), Event: n.Event, OrderID: n.OrderID, UserData: n.UserData, StatusDescription: n.StatusDescription,
			Amount: n.Amount,
		}))
		setClock(t, db, base)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, StateSucceeded, get(t, s, q[0].UserData).State)
	})
}
