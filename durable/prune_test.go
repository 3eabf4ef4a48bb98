package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
)

const (
	day = 24 * time.Hour
	// tombstones counts the pruned rows.
	tombstones = `SELECT COUNT(*) FROM durable_pruned`
	// waiters counts the transactions that wait for a lock on PostgreSQL.
	waiters = `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
)

// pruned requires that Prune deletes n rows.
func pruned(t *testing.T, s *Store, n int) {
	t.Helper()
	got, err := s.Prune(t.Context(), day)
	require.NoError(t, err)
	require.EqualValues(t, n, got)
}

// succeed sends all due payouts and ends them with notifications.
func succeed(t *testing.T, s *Store) {
	t.Helper()
	runBatch(t, s, nil)
	for _, r := range collect(t, s.Rows(t.Context(), Filter{State: StatePending})) {
		require.NoError(t, s.Notified(t.Context(), notice(changed(r.Kind), r.UserData, r.OrderID, success)))
	}
}

// settled returns a store with the payout a-0000, which succeeded a day ago.
func settled(t *testing.T, db database, c Config) (s *Store, userData string) {
	t.Helper()
	s, clock := openClocked(t, db, c)
	userData = queue(t, s, payouts("a", 1)...)[0].UserData
	succeed(t, s)
	pass(t, db, clock, day)
	return s, userData
}

func TestPruneRejectsAReferenceForever(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s, clock := openClocked(t, db, Config{Service: f})
		db.Exec(t, `INSERT INTO durable_batches (id, name, created_at) VALUES ('file', '', 0)`)
		list := payouts("a", 3)
		list[0].Batch, list[1].Batch = "file", "file"
		queue(t, s, list...)
		payment := NewPayment{Key: "basket", Type: paymentsvc.PaymentTypeCard, Amount: ten}
		paid, err := s.Pay(t.Context(), payment)
		require.NoError(t, err)
		succeed(t, s)
		pass(t, db, clock, day)
		pruned(t, s, 4)
		for _, table := range []string{"rows", "orders", "notifications", "decisions", "queue", "claims"} {
			assert.Zero(t, db.Number(t, `SELECT COUNT(*) FROM durable_`+table), table)
		}
		assert.Equal(t, 4, db.Number(t, tombstones))
		assert.EqualValues(t, 2, counts(t, s, Filter{Batch: "file"}).Pruned)
		for _, b := range collect(t, s.Batches(t.Context())) {
			assert.EqualValues(t, 2, b.Pruned)
		}

		list = append(list, payouts("b", 1)...)
		list[0].Amount = paymentsvc.MustParseAmount("10.5") // equal
		list[1].Amount = paymentsvc.MustParseAmount("10.51")
		list[2].Destination = "5500000000000004"
		compared, err := s.Compare(t.Context(), list...)
		require.NoError(t, err)
		queued := queue(t, s, list...)
		for i, want := range []error{ErrPruned, ErrConflict, ErrConflict, ErrNotFound} {
			require.ErrorIs(t, compared[i].Err, want)
			if want == ErrConflict { //nolint:errorlint // of the table
				require.ErrorIs(t, queued[i].Err, want)
			} else {
				require.NoError(t, queued[i].Err)
			}
			assert.Equal(t, i == 3, queued[i].New)
		}
		_, err = s.Pay(t.Context(), payment)
		require.ErrorIs(t, err, ErrPruned)
		for _, other := range []NewPayment{
			{Key: "basket", Type: paymentsvc.PaymentTypeSBP, Amount: ten},
			{Key: "basket", Type: paymentsvc.PaymentTypeCard, Amount: paymentsvc.MustParseAmount("10")},
		} {
			_, err = s.Pay(t.Context(), other)
			require.ErrorIs(t, err, ErrConflict)
		}
		assert.Equal(t, Queued{UserData: paid.UserData, Reference: "basket"}, queueOne(t, s, KindPayment, "basket"))
		succeed(t, s)
		f.requireStarts(t, 5) // only the new payout was sent
		assert.False(t, status(t, s).Hold, "the last claim's row was deleted on purpose")
	})
}

// queueAgain queues a payout, and returns an error unless the payout is known and equal.
func queueAgain(t *testing.T, s *Store, p NewPayout) error {
	return s.ledger.Tx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		queued, err := s.QueuePayouts(ctx, tx, p)
		if err == nil && (queued[0].New || queued[0].Err != nil) {
			err = fmt.Errorf("queued again: %+v", queued[0])
		}
		return err
	})
}

func TestPruneKeepsRowsThatMayBeNeeded(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s, clock := openClocked(t, db, Config{})
		names := []string{
			"young", "changed", "review", "event", "unmatched", "unmatched order", "recent", "recent order",
			"old succeeded", "old failed", "old rejected", "payment's notification",
		}
		for _, state := range States()[:4] {
			names = append(names, string(state))
		}
		users := map[string]string{}
		for _, name := range names {
			if name == "young" {
				pass(t, db, clock, day)
			}
			users[name] = queue(t, s, NewPayout{Reference: name, Amount: ten, Destination: "4111111111111111"})[0].UserData
			state := name
			if !slices.Contains(States(), State(name)) {
				state = map[string]string{"old failed": "failed", "old rejected": "rejected"}[name]
				if state == "" {
					state = "succeeded"
				}
			}
			set(t, db, users[name], fmt.Sprintf(`state = '%s', order_id = 'order of %s'`, state,
				map[bool]string{true: "payments", false: name}[name == "payment's notification"]))
		}
		db.Exec(t,
			`UPDATE durable_rows SET created_at = created_at - 86400000 WHERE reference <> 'young'`,
			`UPDATE durable_rows SET updated_at = updated_at - 86400000 WHERE reference NOT IN ('young', 'changed')`,
			`UPDATE durable_rows SET review_reason = 'look' WHERE reference = 'review'`,
			`INSERT INTO durable_events_due (id, user_data, from_state, to_state, refund_key, due_at)
				VALUES ('e', '`+users["event"]+`', 'pending', 'succeeded', '', 0)`)
		store := func(key string, event paymentsvc.EventType, userData, orderID string, matched int, age time.Duration) {
			db.Exec(t, fmt.Sprintf(`INSERT INTO durable_notifications (key, event, order_id, user_data, status, status_name,
				status_code, amount, matched, received_at) VALUES ('%s', '%s', '%s', '%s', 1, 'SUCCESS', 1, '1', %d, %d)`,
				key, event, orderID, userData, matched, clock.Now().Add(-age).UnixMilli()))
		}
		store("1", payoutChanged, users["unmatched"], "x", 0, 2*day)
		store("2", payoutChanged, "", "order of unmatched order", 0, 2*day)
		store("3", payoutChanged, users["recent"], "x", 1, day-time.Second)
		store("4", payoutChanged, "", "order of recent order", 1, day-time.Second)
		store("5", paymentChanged, "", "order of payments", 1, 0)
		store("6", payoutChanged, "", "order of old failed", 1, 2*day)
		store("7", paymentChanged, "", "order of payments", 1, 2*day)
		pruned(t, s, 4)
		assert.Equal(t, 4, db.Number(t, tombstones))
		left := map[string]bool{}
		for _, r := range collect(t, s.Rows(t.Context(), Filter{})) {
			left[r.Reference] = true
		}
		for _, name := range names {
			gone := slices.Contains([]string{"old succeeded", "old failed", "old rejected", "payment's notification"}, name)
			assert.Equal(t, !gone, left[name], name)
		}
		assert.Equal(t, 6, db.Number(t, `SELECT COUNT(*) FROM durable_notifications`))
	})
}

func TestPruneWantsASafeAge(t *testing.T) {
	s := openStore(t, sqlite(t), Config{Grace: 3 * day})
	for _, age := range []time.Duration{-time.Second, 0, day, 3*day - 1} {
		_, err := s.Prune(t.Context(), age)
		require.ErrorIs(t, err, ErrInvalid)
	}
	_, err := s.Prune(t.Context(), 3*day)
	require.NoError(t, err)
	s = openStore(t, sqlite(t), Config{})
	_, err = s.Prune(t.Context(), day-1)
	require.ErrorIs(t, err, ErrInvalid)
}

func TestPrunedRowsLateNotificationIsRecognized(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		var changes int
		var log safeBuffer
		s, clock := openClocked(t, db, Config{
			Log:      slog.New(slog.NewTextHandler(&log, nil)),
			OnChange: func(context.Context, *sql.Tx, Event) error { changes++; return nil },
		})
		userData := queue(t, s, payouts("a", 1)...)[0].UserData
		succeed(t, s)
		r := get(t, s, userData)
		pass(t, db, clock, day)
		pruned(t, s, 1)
		changes = 0
		for _, n := range []*paymentsvc.Notification{
			notice(payoutChanged, userData, "other", failure), notice(payoutChanged, "", r.OrderID, failure),
			notice(payoutChanged, userData, r.OrderID, success), // a repetition
			notice(payoutChanged, "", "foreign", success), notice(paymentChanged, "", r.OrderID, success),
			notice("payout.returned", userData, "x", success), notice("payout.returned", "", r.OrderID, success),
			notice("payout.returned", "", "foreign", success),
		} {
			require.NoError(t, s.Notified(t.Context(), n))
		}
		assert.Equal(t, 2, db.Number(t, `SELECT COUNT(*) FROM durable_notifications WHERE matched = 0`))
		// The process died between the two steps of Notified.
		require.NoError(t, s.ledger.StoreNotice(t.Context(), ledger.Notice{
			Key: "died", Event: payoutChanged, OrderID: r.OrderID, StatusDescription: success, Amount: ten,
		}))
		pass(t, db, clock, time.Hour)
		require.NoError(t, s.Sweep(t.Context()))
		unmatched, err := s.Unmatched(t.Context())
		require.NoError(t, err)
		require.Len(t, unmatched, 2, "foreign, and of another kind")
		assert.Zero(t, changes)
		notices, err := s.Notices(t.Context(), Row{Kind: KindPayout, UserData: userData, OrderID: r.OrderID})
		require.NoError(t, err)
		require.Len(t, notices, 6)
		assert.True(t, notices[0].Matched)
		assert.Equal(t, 6, strings.Count(log.String(), "a notification of a pruned row"))
		assert.Equal(t, 2, strings.Count(log.String(), "a notification has no row"))
		pass(t, db, clock, day-2*time.Hour)
		pruned(t, s, 0)
		assert.Equal(t, 9, db.Number(t, `SELECT COUNT(*) FROM durable_notifications`), "younger than the age")
		pass(t, db, clock, 2*time.Hour)
		pruned(t, s, 0)
		assert.Equal(t, 3, db.Number(t, `SELECT COUNT(*) FROM durable_notifications`))
	})
}

// A batch in which the rows cannot be deleted changes nothing. The following Prune continues.
func TestPruneContinuesAfterAnErrorInABatch(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s, clock := openClocked(t, db, Config{})
		queue(t, s, payouts("a", 1200)...)
		set(t, db, "", `state = 'succeeded', order_id = 'order of ' || user_data`)
		pass(t, db, clock, day)
		if db.SQLite {
			db.Exec(t, `PRAGMA foreign_keys = ON`)
		}
		db.Exec(t, `CREATE TABLE partner (user_data TEXT REFERENCES durable_rows (user_data))`,
			`INSERT INTO partner SELECT user_data FROM durable_rows WHERE user_data =
				(SELECT user_data FROM durable_rows ORDER BY created_at DESC, user_data DESC LIMIT 1)`)
		n, err := s.Prune(t.Context(), day)
		require.Error(t, err)
		assert.EqualValues(t, 1000, n)
		for _, table := range []string{"rows", "orders"} {
			assert.Equal(t, 200, db.Number(t, `SELECT COUNT(*) FROM durable_`+table), table)
		}
		assert.Equal(t, 1000, db.Number(t, tombstones))
		db.Exec(t, `DROP TABLE partner`)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = s.Prune(ended, day)
		require.ErrorIs(t, err, context.Canceled)
		pruned(t, s, 200)
		queued := queue(t, s, payouts("a", 1200)...)
		assert.False(t, slices.ContainsFunc(queued, func(q Queued) bool { return q.New || q.Err != nil }))
	})
}

// Two processes prune, queue the same references, repeat notifications and decide at the same time.
func TestPruneBesideOtherWorkNeverPaysAgain(t *testing.T) {
	const n = 100
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s, clock := openClocked(t, db, Config{Service: f})
		other := openShimmed(t, db, Config{Service: f}, clock)
		list := payouts("a", n)
		queue(t, s, list...)
		succeed(t, s)
		rows := collect(t, s.Rows(t.Context(), Filter{}))
		pass(t, db, clock, day)
		work := []func(int) error{}
		for _, store := range []*Store{s, other} {
			work = append(work, func(int) error { _, err := store.Prune(t.Context(), day); return err },
				func(i int) error { return queueAgain(t, store, list[i]) },
				func(i int) error {
					return store.Notified(t.Context(),
						notice(payoutChanged, rows[i].UserData, rows[i].OrderID, failure))
				},
				func(i int) error {
					err := store.Decide(t.Context(), Decision{
						Kind: DecideAcknowledge, UserData: rows[i].UserData, By: "operator", Version: rows[i].Version + 1,
					})
					if errors.Is(err, ErrNotFound) || errors.Is(err, ErrChanged) || errors.Is(err, ErrUndecidable) {
						return nil
					}
					return err
				})
		}
		failed := make(chan error, len(work))
		for _, one := range work {
			go func() {
				var err error
				for i := 0; i < n && err == nil; i++ {
					err = one(i)
				}
				failed <- err
			}()
		}
		for range work {
			require.NoError(t, <-failed)
		}
		succeed(t, s)
		f.requireStarts(t, n)
		assert.Equal(t, n, db.Number(t, tombstones)+db.Number(t, `SELECT COUNT(*) FROM durable_rows`))
		assert.Zero(t, db.Number(t, `SELECT COUNT(*) FROM durable_orders
			WHERE user_data NOT IN (SELECT user_data FROM durable_rows)`))
		assert.False(t, status(t, s).Hold)
	})
}

// A process whose last claim is of a pruned row notices the restore of a backup from before that claim.
func TestRestoreAfterPruneHoldsPayouts(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s, _ := settled(t, db, Config{Service: f})
		pruned(t, s, 1)
		runBatch(t, s, nil)
		assert.False(t, status(t, s).Hold, "the row was deleted on purpose")
		db.Exec(t, `UPDATE durable_pruned SET id_low = id_low + 1`) // another row was pruned before the backup
		queue(t, s, payouts("a", 1)...)
		runBatch(t, s, ErrHeld)
		f.requireStarts(t, 1)
	})
}

// An insert takes its snapshot before the commit of Prune, and writes after it. A locked row of a partner's table makes
// Prune wait after it has deleted the rows.
func TestPruneCommitsDuringAnInsert(t *testing.T) {
	db := postgres(t)
	f := &service{}
	s, _ := settled(t, db, Config{Service: f})
	db.Exec(t, `CREATE TABLE partner (user_data TEXT REFERENCES durable_rows (user_data) ON DELETE CASCADE)`,
		`INSERT INTO partner SELECT user_data FROM durable_rows`)
	held := begin(t, db.DB, `SELECT 1 FROM partner FOR UPDATE`)
	ended := make(chan error, 1)
	go func() { _, err := s.Prune(t.Context(), day); ended <- err }()
	waitUntil(t, func() bool { return db.Number(t, waiters) == 1 })
	again := make(chan error, 1)
	go func() { again <- queueAgain(t, s, payouts("a", 1)[0]) }()
	waitUntil(t, func() bool { return len(again) == 1 || db.Number(t, waiters) == 2 })
	require.NoError(t, held.Commit())
	require.NoError(t, <-ended)
	require.NoError(t, <-again)
	succeed(t, s)
	f.requireStarts(t, 1)
}

// A locked batch makes Prune wait between its check for unmatched notifications and its deletions.
func TestPruneKeepsANotificationThatArrivesMeanwhile(t *testing.T) {
	db := postgres(t)
	s, clock := openClocked(t, db, Config{})
	db.Exec(t, `INSERT INTO durable_batches (id, name, created_at) VALUES ('file', '', 0)`)
	payout := payouts("a", 1)[0]
	payout.Batch = "file"
	userData := queue(t, s, payout)[0].UserData
	succeed(t, s)
	pass(t, db, clock, day)
	held := begin(t, db.DB, `UPDATE durable_batches SET line = 1`)
	ended := make(chan error, 1)
	go func() { _, err := s.Prune(t.Context(), day); ended <- err }()
	waitUntil(t, func() bool { return db.Number(t, waiters) == 1 })
	for _, n := range []ledger.Notice{
		{Key: "by user_data", UserData: userData}, {Key: "by order_id", OrderID: userData + "/1"},
	} {
		n.Event, n.StatusDescription, n.Amount = payoutChanged, failure, ten
		require.NoError(t, s.ledger.StoreNotice(t.Context(), n))
	}
	require.NoError(t, s.ledger.StoreNotice(t.Context(), ledger.Notice{
		Key: "unspecified", Event: "payout.returned", UserData: userData, Amount: ten,
	}))
	require.NoError(t, held.Commit())
	require.NoError(t, <-ended)
	assert.Equal(t, 1, db.Number(t, tombstones))
	assert.Equal(t, 2, db.Number(t, `SELECT COUNT(*) FROM durable_notifications WHERE matched = 0`))
	assert.Equal(t, 1, db.Number(t, `SELECT COUNT(*) FROM durable_notifications WHERE key = 'unspecified'`))
}

// The service has reported the order_id of the pruned row with the user_data of a row that waits for a review.
func TestPruneKeepsTheNotificationsOfOtherRows(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s, clock := openClocked(t, db, Config{})
		userData := queue(t, s, payouts("a", 1)...)[0].UserData
		succeed(t, s)
		other := queue(t, s, payouts("b", 1)...)[0].UserData
		contradiction := notice(payoutChanged, other, get(t, s, userData).OrderID, success)
		require.NoError(t, s.Notified(t.Context(), contradiction))
		require.Contains(t, get(t, s, other).ReviewReason, "another row has")
		pass(t, db, clock, day)
		pruned(t, s, 1)
		notices, err := s.Notices(t.Context(), get(t, s, other))
		require.NoError(t, err)
		assert.Len(t, notices, 1)
	})
}

// A notification whose user_data no row has may be about a row that a restored backup lacks, so it prevents a claim.
func TestNotificationWithAnotherUserDataIsNotOfThePrunedRow(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s, userData := settled(t, db, Config{Service: f})
		orderID := get(t, s, userData).OrderID
		pruned(t, s, 1)
		lost := derived(s.c.Project, KindPayout, payouts("b", 1)[0].Reference)
		require.NoError(t, s.Notified(t.Context(), notice(payoutChanged, lost, orderID, success)))
		send(t, s, payouts("b", 1)...)
		f.requireStarts(t, 1)
	})
}

func TestPruneDoesNotWaitForADeletionOfAnotherProcess(t *testing.T) {
	db := postgres(t)
	s, clock := openClocked(t, db, Config{})
	for n := range 502 {
		require.NoError(t, s.ledger.StoreNotice(t.Context(), ledger.Notice{Key: fmt.Sprint(n), Amount: ten}))
	}
	db.Exec(t, `UPDATE durable_notifications SET matched = 2`)
	pass(t, db, clock, day)
	other := begin(t, db.DB, `DELETE FROM durable_notifications WHERE key = '0'`)
	pruned(t, s, 0)
	assert.Equal(t, 1, db.Number(t, `SELECT COUNT(*) FROM durable_notifications`))
	require.NoError(t, other.Commit())
	assert.Zero(t, db.Number(t, `SELECT COUNT(*) FROM durable_notifications`))
}
