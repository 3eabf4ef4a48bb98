package durable

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

func TestNotificationsAndRowsMeetInEitherOrder(t *testing.T) {
	type list []*paymentsvc.Notification
	paid := notice(payoutChanged, "", "o", success)
	unpaid := notice(payoutChanged, "", "o", failure)
	old := notice(payoutChanged, "", "o", "PENDING")
	payment := notice(paymentChanged, "", "o", success)
	refund := notice(paymentsvc.EventRefundStatusChanged, "", "o", success)
	wrong := notice(payoutChanged, "", "o", success)
	wrong.Amount = paymentsvc.MustParseAmount("9")
	tests := []struct {
		name           string
		kind           Kind
		told           list
		state          State
		review, events string
	}{
		{"success", KindPayout, list{paid}, StateSucceeded, "", "succeeded"},
		{"failure", KindPayout, list{unpaid}, StateFailed, "", "failed"},
		{"twice", KindPayout, list{paid, paid}, StateSucceeded, "", "succeeded"},
		{"an old one", KindPayout, list{paid, old}, StateSucceeded, "", "succeeded"},
		{"final stays", KindPayout, list{unpaid, paid}, StateFailed, "SUCCESS after it was failed", "failed"},
		{"amount", KindPayout, list{wrong}, StatePending, "of 9 instead of 10.50", ""},
		{"another kind", KindPayout, list{payment}, StatePending, "", ""},
		{"undocumented", KindPayout, list{notice("invoice.paid", "", "o", success)}, StatePending, "", ""},
		{"payment", KindPayment, list{payment}, StateSucceeded, "", "succeeded"},
		{"refund", KindPayment, list{payment, refund}, StateSucceeded, "", "succeeded refund"},
	}
	each(t, func(t *testing.T, db database) {
		var events []string
		s := openStore(t, db, Config{OnChange: func(_ context.Context, _ *sql.Tx, e Event) error {
			if e.Refund != nil {
				events = append(events, "refund"+string(e.From+e.To))
				return nil
			}
			events = append(events, string(e.To))
			return nil
		}})
		for i, tt := range tests {
			for _, order := range []string{"row first", "notification first", "between", "by user_data"} {
				t.Run(tt.name+"/"+order, func(t *testing.T) {
					events = nil
					id := fmt.Sprintf("%d-%s", i, order)
					r, j := claimed1(t, s, tt.kind, id)
					tell := func() {
						for _, n := range tt.told {
							n := *n
							n.OrderID, n.Raw = id, []byte(`{"id":"`+id+`"}`)
							if order == "by user_data" {
								n.UserData = r.UserData
							}
							db.Exec(t, `UPDATE durable_notifications SET received_at = received_at - 10`)
							require.NoError(t, s.Notified(t.Context(), &n))
						}
					}
					record := func() {
						round(t, s, schedule.Request[callResult]{
							Completions: []schedule.Completion[callResult]{completionOf(j, id, 0)},
						})
					}
					switch order {
					case "row first":
						record()
						tell()
					case "between": // the notification is applied before the round's commit, so it finds no row
						record()
						set(t, db, r.UserData, `order_id = ''`)
						tell()
						set(t, db, r.UserData, `order_id = '`+id+`'`)
						db.Exec(t, `UPDATE durable_notifications SET received_at = received_at - 3000`)
						require.NoError(t, s.matchNotifications(t.Context(), false))
					default:
						tell()
						require.NoError(t, s.settle(t.Context(), j, started(id)))
					}
					r = get(t, s, r.UserData)
					assert.Equal(t, tt.state, r.State)
					assert.Contains(t, r.ReviewReason, tt.review)
					if tt.review == "" {
						assert.Empty(t, r.ReviewReason)
					}
					assert.Equal(t, tt.events, strings.Join(events, " "))
					notices, err := s.Notices(t.Context(), r)
					require.NoError(t, err)
					for _, n := range notices {
						assert.True(t, n.Matched)
					}
				})
			}
		}
	})
}

// claimed1 adds a row and claims it.
func claimed1(t *testing.T, s *Store, k Kind, id string) (Row, job) {
	t.Helper()
	database{DB: s.ledger.DB}.Exec(t, `UPDATE durable_rows SET state = 'failed' WHERE state = 'created'`,
		`DELETE FROM durable_queue`, `DELETE FROM durable_claims`)
	queueOne(t, s, k, id)
	jobs := claim(t, s, 1, 1, rand.Text())
	require.Len(t, jobs, 1)
	return get(t, s, jobs[0].UserData), jobs[0]
}

// A notification may arrive during a round, so the next round looks for it.
func TestNotificationDuringARoundIsNotForgotten(t *testing.T) {
	db := postgres(t)
	s := openStore(t, db, Config{})
	id := queue(t, s, payouts("a", 1)...)[0].UserData
	require.NoError(t, s.Notified(t.Context(), notice(payoutChanged, "", id+"/1", success)))
	set(t, db, "", `state = 'pending', order_id = '`+id+`/1'`)
	round(t, s, schedule.Request[callResult]{OrderIDs: []string{"none", id + "/1"}})
	assert.Equal(t, StateSucceeded, get(t, s, id).State)
}

func TestOnChangeCommitsWithTheRow(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		db.Exec(t, `CREATE TABLE shipped (user_data TEXT PRIMARY KEY)`)
		fails := true
		ship := func(ctx context.Context, tx *sql.Tx, e Event) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO shipped VALUES ($1)`, e.Row.UserData+string(e.To))
			if fails {
				return errors.New("out of stock")
			}
			return err
		}
		s := openStore(t, db, Config{ChangeStates: []State{StatePending, StateSucceeded}, OnChange: ship})
		shipped := func() int { return db.Number(t, `SELECT COUNT(*) FROM shipped`) }
		_, j := claimed1(t, s, KindPayout, "a")
		require.NoError(t, s.settle(t.Context(), j, started("o")))
		assert.Equal(t, StatePending, get(t, s, j.UserData).State, "an outcome is kept")
		assert.Zero(t, shipped())
		n := notice(payoutChanged, "", "o", success)
		require.ErrorContains(t, s.Notified(t.Context(), n), "out of stock")
		assert.Equal(t, StatePending, get(t, s, j.UserData).State, "a notification is not")
		fails = false
		require.NoError(t, s.Notified(t.Context(), n))
		require.NoError(t, s.Notified(t.Context(), n))
		assert.Equal(t, StateSucceeded, get(t, s, j.UserData).State)
		assert.Equal(t, 1, shipped())
		db.Exec(t, `UPDATE durable_events_due SET due_at = 0`)
		require.NoError(t, s.Sweep(t.Context()))
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, 2, shipped(), "what failed was repeated, once")
	})
}

func TestUnmatchedNotificationsAreReported(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		var out safeBuffer
		s := openStore(t, db, Config{Log: slog.New(slog.NewTextHandler(&out, nil))})
		later := func(d time.Duration) {
			db.Exec(t, fmt.Sprintf(`UPDATE durable_notifications SET received_at = received_at - %d`, d.Milliseconds()))
			s.scans.reset()
			require.NoError(t, s.Sweep(t.Context()))
		}
		lost := "5b1f2f8e-0f0b-4f0a-9d63-3f1a1f0a7f01"
		require.NoError(t, s.Notified(t.Context(), notice(paymentChanged, lost, "o-1", success)))
		require.NoError(t, s.Notified(t.Context(), notice(paymentChanged, lost, "o-2", "PENDING")))
		later(time.Minute)
		assert.NotContains(t, out.String(), "has no row")
		later(5 * time.Minute)
		s.scans.reset()
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, 1, strings.Count(out.String(), "has no row"))
		assert.Contains(t, out.String(), "order_id=o-1 user_data="+lost)
		for kind, n := range map[Kind]int64{KindPayment: 1, KindPayout: 0, "": 1} {
			assert.Equal(t, n, counts(t, s, Filter{Kind: kind}).Unmatched.Rows, kind)
		}
		for _, text := range []string{lost, "o-1"} {
			notices, err := s.Notices(t.Context(), Row{UserData: text, OrderID: text})
			require.NoError(t, err)
			assert.NotEmpty(t, notices)
		}
		require.NoError(t, s.Notified(t.Context(), notice(payoutChanged, "", "o-3", success)))
		none, err := s.Notices(t.Context(), Row{})
		require.NoError(t, err)
		assert.Empty(t, none, "an empty user_data matches no notification")
		later(30 * 24 * time.Hour)
		notices, err := s.Unmatched(t.Context())
		require.NoError(t, err)
		assert.Empty(t, notices)
	})
}

// More notifications than one scan reads have arrived in one millisecond.
func TestUnmatchedNotificationsOfOneMomentAreReported(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		var out safeBuffer
		s := openStore(t, db, Config{Log: slog.New(slog.NewTextHandler(&out, nil))})
		db.Exec(t, fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO durable_notifications
			SELECT 'key ' || i, 'payout.status_changed', 'order ' || i, '', 1, 'SUCCESS', 1, '1', 0, %d FROM n`,
			sweepRows+1, time.Now().Add(-time.Hour).UnixMilli()))
		for range 3 {
			require.NoError(t, s.warnUnmatched(t.Context()))
		}
		assert.Equal(t, sweepRows+1, strings.Count(out.String(), "has no row"))
	})
}

func TestOnChangeThatFailsIsReported(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		var out safeBuffer
		broken := errors.New("no stock")
		s := openStore(t, db, Config{
			Log:      slog.New(slog.NewTextHandler(&out, nil)),
			OnChange: func(context.Context, *sql.Tx, Event) error { return broken },
		})
		r, j := claimed1(t, s, KindPayment, "basket")
		require.NoError(t, s.settle(t.Context(), j, started("o")))
		told := notice(paymentChanged, r.UserData, "o", success)
		require.ErrorIs(t, s.Notified(t.Context(), told), broken)
		assert.Contains(t, out.String(), "no stock")
		assert.Contains(t, out.String(), "user_data="+r.UserData)
		assert.Empty(t, get(t, s, r.UserData).ReviewReason, "only after a minute")
		db.Exec(t, `UPDATE durable_notifications SET received_at = received_at - 61000`)
		for range 2 {
			require.ErrorIs(t, s.Notified(t.Context(), told), broken)
			assert.Equal(t, row.OnChangeFails, get(t, s, r.UserData).ReviewReason)
		}
		broken = nil
		require.NoError(t, s.Sweep(t.Context()), "it applies the stored notification")
		r = get(t, s, r.UserData)
		assert.Equal(t, StateSucceeded, r.State)
		assert.Empty(t, r.ReviewReason)

		broken = errors.New("no stock") // now for the outcome of a call, which it cannot undo
		r, j = claimed1(t, s, KindPayment, "other")
		require.NoError(t, s.settle(t.Context(), j, callResult{Result: row.Result{Kind: row.RowRejected, Code: "limit"}}))
		for n := range 7 {
			db.Exec(t, `UPDATE durable_events_due SET due_at = 0`)
			require.ErrorIs(t, s.Sweep(t.Context()), broken)
			want := map[bool]string{true: row.OnChangeFails}[n >= 5] // a failure may be short
			assert.Equal(t, want, get(t, s, r.UserData).ReviewReason, n)
		}
		broken = nil
		db.Exec(t, `UPDATE durable_events_due SET due_at = 0`)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Empty(t, get(t, s, r.UserData).ReviewReason)
	})
}

// OnChange may ignore an error after which PostgreSQL rejects all statements, and it may panic.
func TestOnChangeThatBreaksIsRepeated(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		broken, panics, called := true, false, 0
		s := openStore(t, db, Config{
			Service: &service{before: func(int, string) error { return refused(422, "no") }},
			OnChange: func(ctx context.Context, tx *sql.Tx, _ Event) error {
				called++
				if panics {
					panic("secret")
				}
				if broken && !db.SQLite {
					_, _ = tx.ExecContext(ctx, `SELECT 1 / 0`)
				}
				return nil
			},
		})
		for _, panics = range []bool{false, true} {
			q := send(t, s, payouts(map[bool]string{true: "b", false: "a"}[panics], 1)...)
			assert.Equal(t, StateRejected, get(t, s, q[0].UserData).State)
		}
		db.Exec(t, `UPDATE durable_events_due SET due_at = 0`)
		err := s.Sweep(t.Context())
		require.ErrorContains(t, err, "panic of type string")
		assert.NotContains(t, err.Error(), "secret")
		broken, panics, called = false, false, 0
		db.Exec(t, `UPDATE durable_events_due SET due_at = 0`)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, map[Dialect]int{SQLite: 1, PostgreSQL: 2}[dialect(db)], called)
	})
}

// A notification arrives while the database's clock is a day ahead, and the process dies before it applies the
// notification.
func TestNotificationsFromAWrongClockAreApplied(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s, clock := openClocked(t, db, Config{})
		q := queue(t, s, payouts("a", 1)...)
		n := notice(payoutChanged, q[0].UserData, "o", success)
		setClock(t, db, clock.Now().Add(24*time.Hour))
		require.NoError(t, s.ledger.StoreNotice(t.Context(), ledger.Notice{
			Key: n.Key(), Event: n.Event, OrderID: n.OrderID, UserData: n.UserData, StatusDescription: n.StatusDescription,
			Amount: n.Amount,
		}))
		setClock(t, db, clock.Now())
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, StateSucceeded, get(t, s, q[0].UserData).State)
	})
}

// A restored backup lacks rows whose notifications still arrive. The rows are queued again, but not paid again.
func TestNotificationBeforeItsRowIsApplied(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s, clock := openClocked(t, db, Config{Service: f})
		names := map[string]State{}
		tell := func(k Kind, e paymentsvc.EventType, reference string, state State) string {
			userData := derived("test", k, reference)
			require.NoError(t, s.Notified(t.Context(), notice(e, userData, "order of "+reference, success)))
			names[userData] = state
			return userData
		}
		payout := tell(KindPayout, payoutChanged, "a-0000", StateSucceeded)
		queued := tell(KindPayment, paymentChanged, "queued", StateSucceeded)
		tell(KindPayment, paymentChanged, "paid", StateSucceeded)
		tell(KindPayment, paymentsvc.EventRefundStatusChanged, "refunded", StatePending)
		for _, key := range []string{"paid", "refunded"} {
			r := pay(t, s, key)
			assert.Equal(t, names[r.UserData], r.State)
		}
		pass(t, db, clock, 48*time.Hour)
		require.NoError(t, s.Sweep(t.Context()))
		hold(t, s)
		queue(t, s, payouts("a", 1)...)
		queueOne(t, s, KindPayment, "queued")
		release(t, s, 1)
		runBatch(t, s, nil)
		db.Exec(t, `UPDATE durable_control SET pause_until = 1`) // a probe looks for them too
		runBatch(t, s, nil)
		assert.Zero(t, f.calls)
		assert.Equal(t, StateCreated, get(t, s, payout).State)
		db.Exec(t, `UPDATE durable_rows SET state = 'unknown' WHERE state = 'created'`)
		for _, d := range []Decision{
			{Kind: DecideResend, UserData: payout}, {Kind: DecideUnpaid, UserData: payout},
			{Kind: DecideUnpaid, UserData: queued},
		} {
			d.By, d.Version = "person", get(t, s, d.UserData).Version
			require.ErrorIs(t, s.Decide(t.Context(), d), ErrUndecidable)
		}
		require.NoError(t, s.Sweep(t.Context()))
		for userData, state := range names {
			assert.Equal(t, state, get(t, s, userData).State)
		}
		assert.Zero(t, f.calls)
	})
}

func TestNotificationWithAnotherUserDataNeedsReview(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		q := send(t, s, payouts("a", 1)...)
		r := get(t, s, q[0].UserData)
		require.NoError(t, s.Notified(t.Context(), notice(payoutChanged, "a stranger's", r.OrderID, failure)))
		r = get(t, s, q[0].UserData)
		assert.Equal(t, StatePending, r.State)
		assert.Contains(t, r.ReviewReason, "another user_data")
	})
}

func unreadable(body string) *paymentsvc.NotificationError {
	return &paymentsvc.NotificationError{Raw: []byte(body), Err: errors.New("amount: \x00 not a number")}
}

func TestUnreadableNotificationIsKeptOnceUntilItsReview(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		const body = "{\"amount\":\"4111111111111111 \xff\x00\"}"
		var log safeBuffer
		s, clock := openClocked(t, db, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, s.KeepUnreadable(t.Context(), unreadable(body)))
		setClock(t, db, clock.Now().Add(time.Hour))
		require.NoError(t, s.KeepUnreadable(t.Context(), unreadable(body)))
		require.NoError(t, s.KeepUnreadable(t.Context(), unreadable(strings.Repeat("x", 100_000))))

		list, err := s.Unreadable(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2)
		first, long := list[0], list[1]
		assert.Equal(t, body, string(first.Body))
		assert.Equal(t, `amount: \u0000 not a number`, first.Reason)
		assert.Equal(t, clock.Now().UnixMilli(), first.ReceivedAt.UnixMilli())
		assert.EqualValues(t, len(body), first.Size)
		assert.Len(t, long.Body, 64<<10)
		assert.EqualValues(t, 100_000, long.Size)
		for _, kind := range []Kind{"", KindPayment, KindPayout} {
			assert.Equal(t, Count{2, time.Hour}, counts(t, s, Filter{Kind: kind}).Unreadable)
		}
		gauges, err := s.Gauges(t.Context())
		require.NoError(t, err)
		assert.Contains(t, gauges, Gauge{
			Name: "durable.unreadable", Value: 2,
			Description: "Number of genuine notifications with an unreadable body, up to 10000.",
		})
		encoded, err := json.Marshal(list)
		require.NoError(t, err)
		shown := fmt.Sprintf("%v %+v %#v %s %x", list, list, first, first, first) + string(encoded) + log.String() +
			first.LogValue().String()
		assert.NotContains(t, shown, "4111")
		assert.Contains(t, shown, first.Key)

		require.ErrorIs(t, s.ReviewUnreadable(t.Context(), first.Key, ""), ErrInvalid)
		require.NoError(t, s.ReviewUnreadable(t.Context(), first.Key, "operator"))
		require.ErrorIs(t, s.ReviewUnreadable(t.Context(), first.Key, "operator"), ErrNotFound)
		require.NoError(t, s.KeepUnreadable(t.Context(), unreadable(body)), "a repetition after the review")
		list, err = s.Unreadable(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		assert.Equal(t, long.Key, list[0].Key)
	})
}

func TestUnreadableNotificationsHaveALimit(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		fill := func(reviewedAt string) {
			db.Exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
				INSERT INTO durable_unreadable (key, reason, body, size, received_at, reviewed_at)
				SELECT '`+reviewedAt+`-' || i, '', '', 0, i, `+reviewedAt+` FROM n`)
		}
		require.NoError(t, s.KeepUnreadable(t.Context(), unreadable("first")))
		fill("0")
		err := s.KeepUnreadable(t.Context(), unreadable("one more"))
		require.ErrorIs(t, err, ledger.ErrFull)
		require.NoError(t, s.KeepUnreadable(t.Context(), unreadable("first")), "a repetition is stored")
		db.Exec(t, `DELETE FROM durable_unreadable WHERE key NOT LIKE '%-%'`)
		fill("2 + i")
		require.NoError(t, s.ReviewUnreadable(t.Context(), "0-1", "operator"))
		require.NoError(t, s.KeepUnreadable(t.Context(), unreadable("one more")))
		var reviewed, oldest int
		require.NoError(t, db.QueryRowContext(t.Context(),
			`SELECT COUNT(*), MIN(reviewed_at) FROM durable_unreadable WHERE reviewed_at > 0`).Scan(&reviewed, &oldest))
		assert.Equal(t, []int{1000, 4}, []int{reviewed, oldest}, "the newest are kept")
		list, err := s.Unreadable(t.Context())
		require.NoError(t, err)
		assert.Len(t, list, 50)
		assert.Equal(t, "0-2", list[0].Key)
	})
}

func TestNotificationConnectsOrContradictsAnOrderID(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		told := 0
		s := openStore(t, db, Config{OnChange: func(context.Context, *sql.Tx, Event) error {
			told++
			return nil
		}})
		// The second notification shows which row has the order_id of the first.
		first, j := claimed1(t, s, KindPayout, "first")
		require.NoError(t, s.settle(t.Context(), j, callResult{}))
		require.NoError(t, s.Notified(t.Context(), notice(payoutChanged, "", "o", success)))
		require.NoError(t, s.Notified(t.Context(), notice(payoutChanged, first.UserData, "o", "PENDING")))
		assert.Equal(t, StateSucceeded, get(t, s, first.UserData).State)

		second, j := claimed1(t, s, KindPayout, "second")
		require.NoError(t, s.settle(t.Context(), j, started("p")))
		require.NoError(t, s.Notified(t.Context(), notice(payoutChanged, second.UserData, "q", success)))
		r := get(t, s, second.UserData)
		assert.Equal(t, StatePending, r.State)
		assert.Contains(t, r.ReviewReason, "second order_id")

		assert.Equal(t, 1, told)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, 1, told)
	})
}
