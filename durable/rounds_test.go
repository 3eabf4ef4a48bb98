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

	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

// A completion with further consequences is left out of its round, without harm to the others. Recorded completions
// free slots.
func TestRoundsLeaveOutWhatIsRecordedSeparately(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		queue(t, s, payouts("a", 9)...)
		jobs := claim(t, s, 4, 0, "T")
		require.Len(t, jobs, 4)
		completions := make([]schedule.Completion[callResult], 4)
		for i, j := range jobs {
			completions[i] = completionOf(j, fmt.Sprint("order", i), 1)
		}
		completions[1].Done.job.Token = "another"
		require.NoError(t, s.Notified(t.Context(), notice(payoutChanged, "", "order2", success)))
		round(t, s, schedule.Request[callResult]{Completions: completions[3:]})
		taken := completions[0]
		taken.OrderID = "order3"
		got := round(t, s, schedule.Request[callResult]{
			Completions: []schedule.Completion[callResult]{taken, completions[1], completions[2]}, MaxRows: 3, Token: "U",
		})
		assert.Empty(t, got.Recorded)
		assert.Empty(t, got.Jobs, "claimed for slots that are not free")
		got = round(t, s, schedule.Request[callResult]{Completions: completions[:3], MaxRows: 4, Free: 1, Token: "U"})
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

// Hold and Release lock rows, and then their queue entries. A round locks entries, so it must not wait for rows.
func TestRoundsNeverWaitForALockedRow(t *testing.T) {
	db := postgres(t)
	s := openStore(t, db, Config{})
	queue(t, s, payouts("a", 2)...)
	jobs := claim(t, s, 1, 0, "T")
	tx := begin(t, db.DB, `SELECT FROM durable_rows FOR UPDATE`)
	r := schedule.Request[callResult]{
		Completions: []schedule.Completion[callResult]{completionOf(jobs[0], "o", 1)}, MaxRows: 1, Free: 1, Token: "U",
	}
	ended := make(chan schedule.Result[job], 1)
	go func() {
		got, err := rounder{s}.Round(t.Context(), r)
		assert.NoError(t, err)
		ended <- got
	}()
	waitUntil(t, func() bool { return len(ended) > 0 || db.Number(t, waiters) > 0 })
	assert.Zero(t, db.Number(t, waiters))
	require.NoError(t, tx.Rollback())
	got := <-ended
	assert.Empty(t, got.Recorded)
	assert.Len(t, got.Jobs, 1)
}

// PostgreSQL keeps the plan that it made when the tables were empty. The plan must not read all rows queued later.
func TestRoundsReadOnlyTheirRows(t *testing.T) {
	db := postgres(t)
	s := openStore(t, db, Config{})
	db.SetMaxOpenConns(1) // because each connection has its own plans
	queue(t, s, payouts("first", 40)...)
	var completions []schedule.Completion[callResult]
	record := func() {
		got := round(t, s, schedule.Request[callResult]{
			Completions: completions, OrderIDs: []string{"none"}, Free: 4 - len(completions), MaxRows: 4, Token: rand.Text(),
		})
		require.Len(t, got.Jobs, 4)
		require.Len(t, got.Recorded, len(completions))
		completions = nil
		for _, j := range got.Jobs {
			completions = append(completions, completionOf(j, j.UserData, 1))
		}
	}
	read := func() int {
		db.Exec(t, `SELECT pg_stat_force_next_flush()`)
		return db.Number(t, `SELECT SUM(seq_tup_read) + (SELECT SUM(idx_tup_read) FROM pg_stat_user_indexes)
			FROM pg_stat_user_tables WHERE relname NOT IN ('durable_control', 'durable_mark')`)
	}
	for range 9 { // the sixth makes the plan that is kept
		record()
	}
	queue(t, s, payouts("later", 2000)...)
	db.Exec(t, `INSERT INTO durable_notifications SELECT i::TEXT, 'payout.status_changed', 'order' || i,
		'unknown' || i, 1, '', 1, '', 0, 1 FROM generate_series(1, 2000) AS i`)
	before := read()
	for range 10 {
		record()
	}
	assert.Less(t, read()-before, 10*100, "rows and dead rows in 10 rounds of 4")
}

// A round claims at most its limit, however many rows are due and slots are free.
func TestRoundsClaimAtMostTheirLimit(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		queue(t, s, payouts("a", 9)...)
		db.Exec(t, `UPDATE durable_rows SET kind = 'payment', generation = 0 WHERE reference < 'a-0005'`)
		set(t, db, "", "line = 0")
		got := round(t, s, schedule.Request[callResult]{Free: 8, MaxPayments: 2, MaxRows: 3, Token: "T"})
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
			db.Exec(t, `UPDATE durable_control SET timeline = ''`) // a round compares it; the server is the same
		}
	}}})
	queue(t, s, payouts("a", 100)...)
	assert.Equal(t, 100, runBatch(t, s, nil))
}

// An operator has sent the payout again, and a round claims it during the record of the first call.
func TestLateOrderIDIsRecordedAfterAConcurrentClaim(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		queue(t, s, payouts("a", 1)...)
		r := callResult{job: claim(t, s, 1, 0, "T")[0], Result: row.Result{OrderID: "o"}}
		set(t, db, r.job.UserData, `state = 'created'`)
		db.Exec(t, `DELETE FROM durable_queue`) // as a round does after Record has read the row
		require.ErrorIs(t, rounder{s}.Record(t.Context(), s.completion(r, 1)), ErrChanged, "another attempt follows")
		set(t, db, r.job.UserData, `state = 'starting'`)
		require.NoError(t, rounder{s}.Record(t.Context(), s.completion(r, 1)))
		assert.Equal(t, "o", get(t, s, r.job.UserData).OrderID)
	})
}

func TestOrderIDBelongsToOneRowOnly(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		same := &service{order: func(string) string { return "one" }}
		s := openStore(t, db, Config{Service: same, Slots: 8})
		send(t, s, payouts("a", 8)...)
		assert.Equal(t, map[State]int64{StatePending: 1, StateUnknown: 7}, count(t, s, KindPayout))
	})
}

func TestUserDataIsDerived(t *testing.T) {
	// The values must never change, because a file imported again after a restore must have the same user_data.
	assert.Equal(t, "c204e47c-f835-817f-8f0d-accc6314f4b5", derived("test", KindPayout, "salary-1"))
	all := []string{
		derived("test", KindPayout, "salary-1"), derived("test", KindPayment, "salary-1"),
		derived("other", KindPayout, "salary-1"), derived("test", KindPayout, "salary-2"),
	}
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), 4)
}

// Every change compares the state and the version again, and deletes the queue entry or the claim. It fails if any of
// them has changed, for example if another process has taken over the claim.
func TestRowThatHasChangedIsNotSaved(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		id := queue(t, s, payouts("a", 1)...)[0].UserData
		requireChanged := func(meanwhile string) {
			err := s.ledger.Change(t.Context(), id, "", func(ctx context.Context, tx *ledger.Tx, r *row.Row) error {
				r.State = row.Failed
				_, err := tx.ExecContext(ctx, meanwhile)
				return err
			})
			require.ErrorIs(t, err, ErrChanged, meanwhile)
		}
		requireChanged(`UPDATE durable_rows SET state = 'unknown'`)
		requireChanged(`UPDATE durable_rows SET version = version + 1`)
		requireChanged(`DELETE FROM durable_queue`)
		j := claim(t, s, 1, 0, "T")[0]
		requireChanged(`UPDATE durable_claims SET token = 'another'`)
		require.NoError(t, s.settle(t.Context(), j, started("o")))
		assert.Equal(t, StatePending, get(t, s, id).State)
	})
}

// A queue entry that does not fit its row starts no call.
func TestRowsOfAnotherStateAreNotClaimed(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
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
		assert.LessOrEqual(t, status(t, s).Starting, int64(2))
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
		request := schedule.Request[callResult]{Token: rand.Text(), MaxRows: len(jobs)}
		for _, j := range jobs {
			request.Completions = append(request.Completions, completionOf(j, j.UserData, 1))
		}
		got := round(t, s, request)
		require.Len(t, got.Recorded, len(jobs))
		jobs = got.Jobs
	}
	db.Exec(t, `SELECT pg_stat_force_next_flush()`)
	var all, hot int
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
		WHERE relname = 'durable_rows'`).Scan(&all, &hot))
	assert.Equal(t, []int{96, 96}, []int{all, hot})
}

// A payout waits for its back-off after a call that was not sent, and each claim is counted.
func TestPayoutIsClaimedWhenDue(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(int, string) error { return notSent() }}
		s, clock := openClocked(t, db, Config{Service: f})
		queued := queue(t, s, payouts("a", 1)...)
		for claims := range 2 {
			assert.Equal(t, 1, runBatch(t, s, nil))
			assert.EqualValues(t, claims+1, get(t, s, queued[0].UserData).Claims)
			pass(t, db, clock, time.Minute)
		}
	})
}
