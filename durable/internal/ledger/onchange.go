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

// Event is a change of a row's state, or a refund.
type Event struct {
	Row      row.Row
	From, To row.State // "" for a refund
	Refund   *Notice
}

// fire calls OnChange after a savepoint. An error is stored for later, unless tx is strict.
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
		// PostgreSQL rejects this after a failed statement, even if OnChange has ignored the error.
		if _, failed = tx.ExecContext(ctx, `RELEASE SAVEPOINT durable_change`); failed == nil {
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

// recoverOnChange returns a panic of OnChange as an error without its text, because the text may be secret.
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

// RetryOnChange calls OnChange again where it failed, each time in a transaction of its own.
func (l *Ledger) RetryOnChange(ctx context.Context, limit int) error {
	if l.OnChange == nil {
		return nil
	}
	type due struct{ id, userData, from, to, refund string }
	var events []due
	err := l.query(ctx, l.DB, func(rows *sql.Rows) error {
		var e due
		err := rows.Scan(&e.id, &e.userData, &e.from, &e.to, &e.refund)
		events = append(events, e)
		return err
	}, `SELECT id, user_data, from_state, to_state, refund_key FROM durable_events_due
		WHERE due_at <= {now} OR due_at > {now} + {impossible} ORDER BY due_at LIMIT $1`, limit)
	for _, e := range events {
		err = errors.Join(err, l.retry(ctx, e.id, e.userData, row.State(e.from), row.State(e.to), e.refund))
	}
	return err
}

func (l *Ledger) retry(ctx context.Context, id, userData string, from, to row.State, refund string) error {
	var failed error
	err := l.Tx(ctx, func(ctx context.Context, inner *sql.Tx) error {
		// The deletion prevents other processes from calling OnChange for the same event.
		n, err := l.exec(ctx, inner, `DELETE FROM durable_events_due WHERE id = $1`, id)
		if err != nil || n == 0 {
			return err
		}
		tx := &Tx{Tx: inner, l: l}
		r, err := tx.load(ctx, userData, "")
		if err != nil {
			return err
		}
		e := Event{Row: *r, From: from, To: to}
		if refund != "" {
			e.From, e.To = "", "" // tables of version 1 have states here
			notices, err := l.notices(ctx, inner, `key = $1`, refund)
			if err != nil {
				return err
			}
			if len(notices) > 0 {
				e.Refund = &notices[0]
			}
		}
		if failed = tx.runOnChange(ctx, e); failed != nil || !strings.Contains(r.ReviewReason, row.OnChangeFails) {
			return failed
		}
		_, err = l.exec(ctx, inner, `UPDATE durable_rows SET review_reason = TRIM(REPLACE(review_reason, $1, '')),
			version = version + 1 WHERE user_data = $2`, row.OnChangeFails, userData)
		return err
	})
	if failed == nil {
		return err
	}
	l.Log.WarnContext(ctx, "durable: OnChange failed again",
		"user_data", userData, "state", string(to), "error", failed.Error())
	_, flagged := l.write(ctx, `UPDATE durable_rows
		SET review_reason = TRIM(review_reason || ' ' || $1), version = version + 1
		WHERE user_data = $3 AND review_reason NOT LIKE $2
			AND EXISTS (SELECT 1 FROM durable_events_due WHERE id = $4 AND tries >= 5)`,
		row.OnChangeFails, "%"+row.OnChangeFails+"%", userData, id)
	_, postponed := l.write(ctx, `UPDATE durable_events_due SET tries = tries + 1,
		due_at = {now} + 1000 * (1 << CAST({least}(tries, 9) AS INTEGER)) WHERE id = $1`, id)
	return errors.Join(err, flagged, postponed)
}
