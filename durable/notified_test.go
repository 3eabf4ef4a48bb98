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
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

const (
	success = paymentsvc.StatusSuccess
	failure = paymentsvc.StatusFailure
)

func TestNotificationsAndRowsMeetInEitherOrder(t *testing.T) {
	payment, payout, refund := paymentsvc.EventPaymentStatusChanged, paymentsvc.EventPayoutStatusChanged, paymentsvc.EventRefundStatusChanged
	wrong := notice(payout, "", "o", success)
	wrong.Amount = paymentsvc.MustParseAmount("9")
	tests := []struct {
		name      string
		kind      Kind
		told      []*paymentsvc.Notification
		state     State
		attention string
		events    string
	}{
		{"success", KindPayout, []*paymentsvc.Notification{notice(payout, "", "o", success)}, StateSucceeded, "", "succeeded"},
		{"failure", KindPayout, []*paymentsvc.Notification{notice(payout, "", "o", failure)}, StateFailed, "", "failed"},
		{"twice", KindPayout, []*paymentsvc.Notification{notice(payout, "", "o", success), notice(payout, "", "o", success)}, StateSucceeded, "", "succeeded"},
		{"an old one", KindPayout, []*paymentsvc.Notification{notice(payout, "", "o", success), notice(payout, "", "o", "PENDING")}, StateSucceeded, "", "succeeded"},
		{"final stays", KindPayout, []*paymentsvc.Notification{notice(payout, "", "o", failure), notice(payout, "", "o", success)}, StateFailed, "SUCCESS after it was failed", "failed"},
		{"amount", KindPayout, []*paymentsvc.Notification{wrong}, StatePending, "of 9 instead of 10.50", ""},
		{"another kind", KindPayout, []*paymentsvc.Notification{notice(payment, "", "o", success)}, StatePending, "", ""},
		{"undocumented", KindPayout, []*paymentsvc.Notification{notice("invoice.paid", "", "o", success)}, StatePending, "", ""},
		{"payment", KindPayment, []*paymentsvc.Notification{notice(payment, "", "o", success)}, StateSucceeded, "", "succeeded"},
		{"refund", KindPayment, []*paymentsvc.Notification{notice(payment, "", "o", success), notice(refund, "", "o", success)}, StateSucceeded, "", "succeeded refund"},
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
						_, err := rounder{s}.Round(t.Context(), schedule.Request[callResult]{
							Completions: []schedule.Completion[callResult]{completionOf(j, id, 0)},
						})
						require.NoError(t, err)
					}
					switch order {
					case "row first":
						record()
						tell()
					case "between": // a notification that was stored before the round's commit and applied before it too
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
					assert.Contains(t, r.ReviewReason, tt.attention)
					if tt.attention == "" {
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
	tx, err := s.ledger.DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	if k == KindPayout {
		_, err = s.QueuePayouts(t.Context(), tx, NewPayout{Reference: id, Amount: ten, Destination: "4111111111111111"})
	} else {
		_, err = s.QueuePayments(t.Context(), tx, NewPayment{Key: id, Type: paymentsvc.PaymentTypeCard, Amount: ten})
	}
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	jobs := claim(t, s, 1, 1, rand.Text())
	require.Len(t, jobs, 1)
	return get(t, s, jobs[0].UserData), jobs[0]
}

// What Run records finds a notification that came while the round was at the database: the next round looks for it.
func TestNotificationDuringARoundIsNotForgotten(t *testing.T) {
	db := postgres(t)
	f := &service{}
	s := openStore(t, db, Config{Service: f})
	queue(t, s, payouts("a", 1)...)
	id := derived("test", KindPayout, "a-0000")
	require.NoError(t, s.Notified(t.Context(), notice(paymentsvc.EventPayoutStatusChanged, "", id+"/1", success)))
	set(t, db, "", `state = 'pending', order_id = '`+id+`/1'`)
	_, err := rounder{s}.Round(t.Context(), schedule.Request[callResult]{OrderIDs: []string{"none", id + "/1"}})
	require.NoError(t, err)
	assert.Equal(t, StateSucceeded, get(t, s, id).State)
}

func TestOnChangeCommitsWithTheRow(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		db.Exec(t, `CREATE TABLE shipped (user_data TEXT PRIMARY KEY)`)
		fails := true
		s := openStore(t, db, Config{ChangeStates: []State{StatePending, StateSucceeded}, OnChange: func(ctx context.Context, tx *sql.Tx, e Event) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO shipped VALUES ($1)`, e.Row.UserData+string(e.To))
			if fails {
				return errors.New("out of stock")
			}
			return err
		}})
		shipped := func() (n int) {
			require.NoError(t, db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM shipped`).Scan(&n))
			return n
		}
		_, j := claimed1(t, s, KindPayout, "a")
		require.NoError(t, s.settle(t.Context(), j, started("o")))
		assert.Equal(t, StatePending, get(t, s, j.UserData).State, "an outcome is kept")
		assert.Zero(t, shipped())
		n := notice(paymentsvc.EventPayoutStatusChanged, "", "o", success)
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

func TestUnknownIsAskedAndFound(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		clock := &clocks{process: time.Now().Add(time.Hour)}
		s := openShimmed(t, db, Config{Service: f, MaxConsecutiveRejections: -1}, clock)
		f.after = func(n int, userData string) error {
			if n == 1 {
				return unanswered(userData + "/1")
			}
			return unanswered("")
		}
		queue(t, s, payouts("a", 2)...)
		_, err := s.RunBatch(t.Context(), BatchLimit{Rows: 2})
		require.NoError(t, err)
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
		assert.Zero(t, get(t, s, without.UserData).Polls, "there is no order_id to ask by")

		// A payment is found by user_data; one that the service does not have is started again only after the grace.
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
		require.Equal(t, StateUnknown, get(t, s, r.UserData).State, "an answer about another row")
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

// Nothing secret appears in logs, hooks, errors or texts.
func TestNothingSecretIsShown(t *testing.T) {
	const secret = "4111111111111111"
	var out safeBuffer
	note := func(v any) {
		encoded, _ := json.Marshal(v)
		fmt.Fprintf(&out, "%v %+v %#v %s\n", v, v, v, encoded)
	}
	answers := []error{
		refused(400, "E"+secret), refused(400, secret), errors.New("to " + secret), unanswered(""), notSent(), refused(401, secret), nil,
		fmt.Errorf("to %s: %w", secret, unanswered("")),
	}
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(n int, _ string) error { return answers[n%len(answers)] }}
		log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		s := openStore(t, db, Config{Service: f, Slots: 1, Log: log, Hooks: Hooks{
			Call:   func(_ context.Context, c Call) { note(c); note(fmt.Sprint(c.Err)) },
			Change: func(_ context.Context, k Kind, from, to State) { note([]any{k, from, to}) },
			Round:  func(_ context.Context, r Round) { note(r) },
			Pause:  func(_ context.Context, reason string) { note(reason) },
			Trace: func(ctx context.Context, endpoint, userData string) (context.Context, func(error)) {
				note(endpoint + userData)
				return ctx, func(err error) { note(fmt.Sprint(err)) }
			},
		}})
		p := NewPayout{Reference: "r", Amount: ten, Destination: secret}
		note(p)
		queued := queue(t, s, p)
		note(queued)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		other := p
		other.Amount = paymentsvc.MustParseAmount("1")
		queued, err = s.QueuePayouts(t.Context(), tx, other)
		require.NoError(t, err)
		require.ErrorIs(t, queued[0].Err, ErrConflict)
		note(queued[0].Err.Error())
		_, err = s.QueuePayouts(t.Context(), tx, NewPayout{Reference: "x", Destination: secret})
		require.ErrorIs(t, err, ErrInvalid)
		note(err.Error())
		require.NoError(t, tx.Rollback())
		for range answers {
			set(t, db, "", `state = 'created', order_id = '', may_have_started = 0, due_at = 0`)
			require.NoError(t, s.Resume(t.Context(), "person"))
			_, _ = s.RunBatch(t.Context(), BatchLimit{Rows: 1})
			for r, err := range s.Rows(t.Context(), Filter{}) {
				require.NoError(t, err)
				assert.Equal(t, "1111", r.DestinationEnd)
				log.InfoContext(t.Context(), "row", "row", r)
				note(r)
			}
		}
		assert.NotContains(t, out.String(), secret)
	})
}

func TestUnmatchedNotificationsAreReported(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		var out safeBuffer
		s := openStore(t, db, Config{Log: slog.New(slog.NewTextHandler(&out, nil))})
		later := func(d time.Duration) {
			_, err := db.ExecContext(t.Context(), fmt.Sprintf(`UPDATE durable_notifications SET received_at = received_at - %d`, d.Milliseconds()))
			require.NoError(t, err)
			s.scans.reset()
			require.NoError(t, s.Sweep(t.Context()))
		}
		lost := "5b1f2f8e-0f0b-4f0a-9d63-3f1a1f0a7f01"
		require.NoError(t, s.Notified(t.Context(), notice(paymentsvc.EventPaymentStatusChanged, lost, "o-1", success)))
		require.NoError(t, s.Notified(t.Context(), notice(paymentsvc.EventPaymentStatusChanged, lost, "o-2", "PENDING")))
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
		require.NoError(t, s.Notified(t.Context(), notice(paymentsvc.EventPayoutStatusChanged, "", "o-3", success)))
		none, err := s.Notices(t.Context(), Row{})
		require.NoError(t, err)
		assert.Empty(t, none, "a notification without user_data is not of each row without it")
		later(30 * 24 * time.Hour)
		notices, err := s.Unmatched(t.Context())
		require.NoError(t, err)
		assert.Empty(t, notices)
	})
}

func TestOnChangeThatFailsIsReported(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		var out safeBuffer
		broken := errors.New("no stock")
		s := openStore(t, db, Config{
			Log: slog.New(slog.NewTextHandler(&out, nil)), OnChange: func(context.Context, *sql.Tx, Event) error { return broken },
		})
		r, j := claimed1(t, s, KindPayment, "basket")
		require.NoError(t, s.settle(t.Context(), j, started("o")))
		told := notice(paymentsvc.EventPaymentStatusChanged, r.UserData, "o", success)
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

		broken = errors.New("no stock") // now of a decision, which it cannot undo
		r, j = claimed1(t, s, KindPayment, "other")
		require.NoError(t, s.settle(t.Context(), j, callResult{Result: row.Result{Kind: row.RowRejected, Code: "limit"}}))
		for range 7 {
			db.Exec(t, `UPDATE durable_events_due SET due_at = 0`)
			require.ErrorIs(t, s.Sweep(t.Context()), broken)
		}
		assert.Equal(t, row.OnChangeFails, get(t, s, r.UserData).ReviewReason)
		broken = nil
		db.Exec(t, `UPDATE durable_events_due SET due_at = 0`)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Empty(t, get(t, s, r.UserData).ReviewReason)
	})
}

func TestPauseSaysWhenItEndsByItself(t *testing.T) {
	var out safeBuffer
	s := openStore(t, sqlite(t), Config{Log: slog.New(slog.NewTextHandler(&out, nil))})
	_, j := claimed1(t, s, KindPayout, "a")
	require.NoError(t, s.settle(t.Context(), j, callResult{
		Result: row.Result{Kind: row.CallerRejected, Wait: time.Second}, effect: pauseForTime, reason: "HTTP 429",
	}))
	assert.Contains(t, out.String(), "HTTP 429; the pause ends automatically at 20")
}
