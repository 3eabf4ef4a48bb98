package ledger

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// OnChange runs in the transaction of the change. Its error must not undo the outcome of a call. So after an error,
// except in a strict transaction, the event is stored in durable_events_due, and OnChange is called again later. The
// transaction of the later call deletes the event.

// Event is a change of a row's state, or a refund.
type Event struct {
	Row      row.Row
	From, To row.State // "" for a refund
	Refund   *Notice
}

// fire calls OnChange after a savepoint. After an error, fire stores the event for a later call, or returns the error
// if tx is strict.
func (tx *Tx) fire(ctx context.Context, e Event) error {
	if tx.l.OnChange == nil {
		return nil
	}
	err := tx.runOnChange(ctx, e)
	if err == nil {
		return nil
	}
	if tx.strict {
		tx.failed = err
		return err
	}
	tx.l.Log.ErrorContext(ctx, "durable: OnChange failed and will be repeated",
		"user_data", e.Row.UserData, "state", string(e.To), "error", err.Error())
	refund := ""
	if e.Refund != nil {
		refund = e.Refund.Key
	}
	_, err = tx.l.exec(ctx, tx, `INSERT INTO durable_events_due (id, user_data, from_state, to_state, refund_key, due_at)
		VALUES ($1, $2, $3, $4, $5, {now} + 1000)`, rand.Text(), e.Row.UserData, string(e.From), string(e.To), refund)
	return err
}

func (tx *Tx) runOnChange(ctx context.Context, e Event) error {
	if _, err := tx.ExecContext(ctx, `SAVEPOINT durable_change`); err != nil {
		return err
	}
	failed := tx.recoverOnChange(ctx, e)
	if failed == nil {
		// PostgreSQL rejects RELEASE after a failed statement, even if OnChange has ignored the error.
		_, failed = tx.ExecContext(ctx, `RELEASE SAVEPOINT durable_change`)
		if failed == nil {
			return nil
		}
	}
	if _, err := tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT durable_change`); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `RELEASE SAVEPOINT durable_change`); err != nil {
		return err
	}
	return fmt.Errorf("durable: OnChange: %w", failed)
}

// recoverOnChange calls OnChange and returns a panic as an error, without the text of the panic, which may be secret.
func (tx *Tx) recoverOnChange(ctx context.Context, e Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic of type %T", p)
			tx.l.Log.ErrorContext(ctx, "durable: OnChange panicked", "user_data", e.Row.UserData, "error", err.Error(),
				"stack", string(debug.Stack()))
		}
	}()
	return tx.l.OnChange(ctx, tx.Tx, e)
}

// RetryOnChange calls OnChange again for up to limit due events, each in a separate transaction.
func (l *Ledger) RetryOnChange(ctx context.Context, limit int) error {
	if l.OnChange == nil {
		return nil
	}
	events, err := collect(ctx, l, l.DB, func(e *dueEvent) []any {
		return []any{&e.id, &e.userData, &e.from, &e.to, &e.refund}
	}, `SELECT id, user_data, from_state, to_state, refund_key FROM durable_events_due
		WHERE due_at <= {now} OR due_at > {now} + {impossible} ORDER BY due_at LIMIT $1`, limit)
	for _, e := range events {
		err = errors.Join(err, l.retry(ctx, e))
	}
	return err
}

// dueEvent is an event with a failed call of OnChange.
type dueEvent struct {
	id, userData string
	from, to     row.State
	refund       string // key of the notification
}

func (l *Ledger) retry(ctx context.Context, due dueEvent) error {
	var failed error
	err := l.Tx(ctx, func(ctx context.Context, inner *sql.Tx) error {
		// The deletion prevents other processes from calling OnChange for the same event.
		n, err := l.exec(ctx, inner, `DELETE FROM durable_events_due WHERE id = $1`, due.id)
		if err != nil || n == 0 {
			return err
		}
		tx := &Tx{Tx: inner, l: l}
		r, err := tx.load(ctx, due.userData, "")
		if err != nil {
			return err
		}
		e := Event{Row: *r, From: due.from, To: due.to}
		if due.refund != "" {
			notices, err := l.notices(ctx, inner, `key = $1`, due.refund)
			if err != nil {
				return err
			}
			if len(notices) > 0 {
				e.Refund = &notices[0]
			}
		}
		failed = tx.runOnChange(ctx, e)
		if failed != nil || !strings.Contains(r.ReviewReason, row.OnChangeFails) {
			return failed
		}
		_, err = l.exec(ctx, inner, `UPDATE durable_rows SET review_reason = TRIM(REPLACE(review_reason, $1, '')),
			version = version + 1 WHERE user_data = $2`, row.OnChangeFails, due.userData)
		return err
	})
	if failed == nil {
		return err
	}
	l.Log.WarnContext(ctx, "durable: OnChange failed again",
		"user_data", due.userData, "state", string(due.to), "error", failed.Error())
	_, flagged := l.write(ctx, flagOnChange+` AND user_data = $1
		AND EXISTS (SELECT 1 FROM durable_events_due WHERE id = $2 AND tries >= 5)`, due.userData, due.id)
	_, postponed := l.write(ctx, `UPDATE durable_events_due SET tries = tries + 1,
		due_at = {now} + 1000 * (1 << CAST({least}(tries, 9) AS INTEGER)) WHERE id = $1`, due.id)
	return errors.Join(err, flagged, postponed)
}

// flagOnChange flags rows for review. The caller appends further conditions.
const flagOnChange = `UPDATE durable_rows
	SET review_reason = TRIM(review_reason || ' ' || '` + row.OnChangeFails + `'), version = version + 1
	WHERE review_reason NOT LIKE '%` + row.OnChangeFails + `%'`
