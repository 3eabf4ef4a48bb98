package durable

import (
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func collect[T any](t *testing.T, seq iter.Seq2[T, error]) (list []T) {
	t.Helper()
	for one, err := range seq {
		require.NoError(t, err)
		list = append(list, one)
	}
	return list
}

// In the old copy the first payout is created, and in the database it is pending. Only the database has the second
// payout.
func TestReadsAboutNamedRowsDoNotLag(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		old := sqlite(t)
		if !db.SQLite {
			old = postgres(t)
		}
		two := payouts("p", 2)
		queue(t, openStore(t, old, Config{}), two[0])
		s := openStore(t, db, Config{ReadDB: old.DB})
		queued := send(t, s, two...)

		compared, err := s.Compare(t.Context(), two...)
		require.NoError(t, err)
		for i, c := range compared {
			require.NoError(t, c.Err)
			assert.Equal(t, StatePending, c.Row.State)
			for _, text := range []string{two[i].Reference, queued[i].UserData, c.Row.OrderID} {
				found := collect(t, s.Find(t.Context(), text))
				require.Len(t, found, 1, text)
				assert.Equal(t, StatePending, found[0].State)
			}
			named := collect(t, s.Rows(t.Context(), Filter{UserData: []string{queued[i].UserData}}))
			require.Len(t, named, 1)
			assert.Equal(t, StatePending, named[0].State)
		}
		require.NoError(t, s.Notified(t.Context(),
			notice(payoutChanged, queued[1].UserData, compared[1].Row.OrderID, success)))
		notices, err := s.Notices(t.Context(), compared[1].Row)
		require.NoError(t, err)
		assert.Len(t, notices, 1)
		decision := Decision{Kind: DecidePaid, UserData: queued[0].UserData, By: "ada", Version: compared[0].Row.Version}
		require.NoError(t, s.Decide(t.Context(), decision))
		decisions, err := s.Decisions(t.Context(), queued[0].UserData)
		require.NoError(t, err)
		assert.Len(t, decisions, 1)
		listed := collect(t, s.Rows(t.Context(), Filter{}))
		require.Len(t, listed, 1, "a list may lag")
		assert.Equal(t, StateCreated, listed[0].State)
		assert.Len(t, collect(t, s.Rows(t.Context(), Filter{Current: true})), 2)

		require.NoError(t, s.Pause(t.Context(), "ada", "month's end"))
		assert.True(t, status(t, s).Paused)
		hold(t, s)
		queue(t, s, payouts("held", 3)...)
		release(t, s, 3)
	})
}

// The payouts are still pending at the service.
func TestAcknowledgedPendingRowIsDueForReviewAfterAnotherPeriod(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		const period = 2 * time.Hour
		s, clock := openClocked(t, db, Config{PendingReview: period})
		two := payouts("p", 2)
		for i := range two {
			two[i].Batch = "file"
		}
		queued := send(t, s, two...)
		overdue := func(want int64) {
			t.Helper()
			users := []string{queued[0].UserData, queued[1].UserData}
			for _, f := range []Filter{{Review: true}, {Review: true, UserData: users}} {
				assert.Len(t, collect(t, s.Rows(t.Context(), f)), int(want))
			}
			var n int64
			for _, user := range users {
				for _, r := range collect(t, s.Find(t.Context(), user)) {
					if r.Overdue {
						n++
					}
				}
			}
			assert.Equal(t, want, n)
			for _, f := range []Filter{{}, {Batch: "file"}} {
				c := counts(t, s, f)
				assert.Equal(t, []int64{want, want, 2}, []int64{c.Overdue.Rows, c.Review.Rows, c.States[StatePending].Rows})
			}
		}
		seen := Decision{Kind: DecideAcknowledge, By: "ada"}
		assert.Zero(t, decideAll(t, s, Filter{State: StatePending}, seen.Kind), "too young for a review")
		pass(t, db, clock, period)
		overdue(2)
		seen.UserData, seen.Version = queued[0].UserData, get(t, s, queued[0].UserData).Version
		require.NoError(t, s.Decide(t.Context(), seen))
		require.ErrorIs(t, s.Decide(t.Context(), seen), ErrChanged)
		overdue(1)
		assert.Equal(t, 1, decideAll(t, s, Filter{Review: true}, seen.Kind))
		overdue(0)
		pass(t, db, clock, period-time.Millisecond)
		overdue(0)
		pass(t, db, clock, time.Millisecond)
		overdue(2)
	})
}

func TestWithoutPendingReviewAgeIsNoReason(t *testing.T) {
	db := sqlite(t)
	s, clock := openClocked(t, db, Config{})
	send(t, s, payouts("p", 1)...)
	setClock(t, db, clock.Now().Add(1000*time.Hour))
	assert.Empty(t, collect(t, s.Rows(t.Context(), Filter{Review: true})))
	for _, r := range collect(t, s.Rows(t.Context(), Filter{})) {
		assert.False(t, r.Overdue)
	}
	_, err := Open(t.Context(), db.DB, config(Config{PendingReview: -1}))
	require.ErrorIs(t, err, ErrInvalid)
}

func TestBatchesHaveOnlyTextThatBothDatabasesStore(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		tx := begin(t, db.DB)
		for _, text := range []string{"\x00", "\xff", strings.Repeat("x", maxReference+1)} {
			for _, b := range []Batch{{ID: text}, {ID: "file", Name: text}, {ID: "file", References: text}} {
				_, err := s.AddBatch(t.Context(), tx, b)
				require.ErrorIs(t, err, ErrInvalid)
			}
		}
		require.NoError(t, tx.Rollback())
	})
}

func TestRowsReadPagesByKey(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		queue(t, s, payouts("p", 1203)...)
		for _, oldest := range []bool{false, true} {
			seen := map[string]bool{}
			for r, err := range s.Rows(t.Context(), Filter{OldestFirst: oldest}) {
				require.NoError(t, err)
				seen[r.UserData] = true
				if len(seen) == 10 { // no read is open: SQLite has one connection
					db.Exec(t, `UPDATE durable_control SET heartbeat = heartbeat + 1`)
				}
			}
			assert.Len(t, seen, 1203)
			after := ""
			for r, err := range s.Rows(t.Context(), Filter{OldestFirst: oldest, Limit: 700}) {
				require.NoError(t, err)
				delete(seen, r.UserData)
				after = r.Cursor()
			}
			for r, err := range s.Rows(t.Context(), Filter{OldestFirst: oldest, After: after}) {
				require.NoError(t, err)
				delete(seen, r.UserData)
			}
			assert.Empty(t, seen)
		}
		assert.Empty(t, collect(t, s.Rows(t.Context(), Filter{After: "no cursor"})))
	})
}
