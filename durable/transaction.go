package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// transaction reads and changes rows.
type transaction struct {
	*sql.Tx
	s *Store
	// untold is an error of OnChange that has become the transaction's, because it is strict.
	untold error
	// strict makes an error of OnChange the transaction's; otherwise OnChange is called again later.
	strict bool
	moves  []move
}

// move is a change of state, for Hooks.Change.
type move struct {
	kind     Kind
	from, to State
}

// columns are what scan reads.
const columns = `kind, user_data, COALESCE(reference, ''), type, amount, state, COALESCE(order_id, ''), redirect_url,
	destination, batch, line, claims, asked, doubted, refusal, attention, version, due_at, claimed_at, created_at,
	updated_at, generation, token, order_id_taken, CASE WHEN kind = 'payout' AND state = 'created' AND
		generation <> (SELECT generation FROM durable_control) THEN 1 ELSE 0 END`

// scan reads columns, and further ones into into.
func scan(from interface{ Scan(into ...any) error }, into ...any) (*row, error) {
	r := &row{due: noDue}
	var doubted, taken, held, due, claimed, created, updated int64
	err := from.Scan(append([]any{
		&r.Kind, &r.UserData, &r.Reference, &r.Type, &r.Amount, &r.State, &r.OrderID,
		&r.RedirectURL, &r.destination, &r.Batch, &r.Line, &r.Claims, &r.Asked, &doubted, &r.Refusal, &r.Attention,
		&r.Version, &due, &claimed, &created, &updated, &r.generation, &r.token, &taken, &held,
	}, into...)...)
	r.Doubted, r.orderIDTaken, r.Held = doubted == 1, taken == 1, held == 1
	r.DueAt, r.ClaimedAt, r.CreatedAt, r.UpdatedAt = at(due), at(claimed), at(created), at(updated)
	r.DestinationEnd = end(r.destination)
	r.before = r.State
	return r, err
}

// change loads the row userData, lets f change it, and saves it with all that follows. orderID is an order_id that f
// may give to it.
func (s *Store) change(ctx context.Context, userData, orderID string, f func(context.Context, *transaction, *row) error) error {
	tx := &transaction{s: s}
	err := s.inTx(ctx, func(ctx context.Context, inner *sql.Tx) error {
		tx.Tx, tx.moves = inner, nil
		if err := tx.lockOrderID(ctx, orderID); err != nil {
			return err
		}
		r, err := tx.load(ctx, "user_data", userData, "")
		if err != nil {
			return err
		}
		knew := r.OrderID
		if err := f(ctx, tx, r); err != nil {
			return err
		}
		if err := tx.save(ctx, r); err != nil {
			return err
		}
		if r.OrderID == knew {
			return nil
		}
		return tx.applyWaiting(ctx, r)
	})
	if err == nil {
		tx.tell(ctx)
	}
	return err
}

// tell calls Hooks.Change after the commit.
func (tx *transaction) tell(ctx context.Context) {
	if tx.s.c.Hooks.Change == nil {
		return
	}
	for _, m := range tx.moves {
		tx.s.c.Hooks.Change(ctx, m.kind, m.from, m.to)
	}
}

// lockOrderID lets one transaction after the other deal with an order_id. Otherwise a notification and the answer that
// tells whose order_id it is could each miss the other, not being committed yet. SQLite has one writer anyway.
func (tx *transaction) lockOrderID(ctx context.Context, orderID string) error {
	if tx.s.dialect == SQLite || orderID == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, orderID)
	return err
}

// load reads and locks a row by user_data or order_id, of kind if that is not "". Without one it is ErrNotFound.
func (tx *transaction) load(ctx context.Context, by, value string, kind Kind) (*row, error) {
	query := `SELECT ` + columns + ` FROM durable_rows WHERE ` + by + ` = $1`
	args := []any{value}
	if kind != "" {
		query, args = query+` AND kind = $2`, append(args, string(kind))
	}
	r, err := scan(tx.QueryRowContext(ctx, tx.s.sql.Replace(query+`{lock}`), args...))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	return r, err
}

// taken reports whether another row of r's kind has orderID.
func (tx *transaction) taken(ctx context.Context, r *row, orderID string) (bool, error) {
	if orderID == "" {
		return false, nil
	}
	var n int
	err := tx.QueryRowContext(ctx, tx.s.sql.Replace(`SELECT COUNT(*) FROM durable_rows
		WHERE kind = $1 AND order_id = $2 AND user_data <> $3`), string(r.Kind), orderID, r.UserData).Scan(&n)
	return n > 0, err
}

// save writes a row that load has read, unless another has changed it, and calls OnChange if its state is another one.
func (tx *transaction) save(ctx context.Context, r *row) error {
	due := int64(noDue)
	if r.due != noDue {
		due = r.due.Milliseconds()
	}
	n, err := tx.s.exec(ctx, tx, `UPDATE durable_rows
		SET state = $1, order_id = NULLIF($2, ''), order_id_taken = $3, redirect_url = $4, doubted = $5, refusal = $6,
			attention = $7, generation = $8, due_at = CASE WHEN CAST($9 AS BIGINT) < 0 THEN due_at ELSE {now} + $9 END,
			updated_at = {now}, version = version + 1
		WHERE user_data = $10 AND state = $11 AND token = $12 AND version = $13`,
		string(r.State), r.OrderID, flag(r.orderIDTaken), storable(r.RedirectURL), flag(r.Doubted), storable(r.Refusal),
		storable(r.Attention), r.generation, due, r.UserData, string(r.before), r.token, r.Version)
	if err != nil {
		return err
	}
	if n != 1 {
		return ErrChanged
	}
	r.Version++
	r.due = noDue
	from := r.before
	r.before = r.State
	if from == r.State {
		return nil
	}
	tx.moves = append(tx.moves, move{r.Kind, from, r.State})
	if !slices.Contains(tx.s.c.ChangeStates, r.State) {
		return nil
	}
	return tx.fire(ctx, Event{Row: r.Row, From: from, To: r.State})
}

// fire calls OnChange after a savepoint. An error is kept for later, unless tx is strict.
func (tx *transaction) fire(ctx context.Context, e Event) error {
	if tx.s.c.OnChange == nil {
		return nil
	}
	err := tx.onChange(ctx, e)
	if err == nil {
		return nil
	}
	if tx.strict {
		tx.untold = err
		return err
	}
	tx.s.c.Log.ErrorContext(ctx, "durable: OnChange failed and will be repeated",
		"user_data", e.Row.UserData, "state", string(e.To), "error", err.Error())
	refund := ""
	if e.Refund != nil {
		refund = e.Refund.Key
	}
	_, err = tx.s.exec(ctx, tx, `INSERT INTO durable_events_due (id, user_data, from_state, to_state, refund_key, due_at)
		VALUES ($1, $2, $3, $4, $5, {now} + 1000)`, newToken(), e.Row.UserData, string(e.From), string(e.To), refund)
	return err
}

func (tx *transaction) onChange(ctx context.Context, e Event) error {
	if _, err := tx.ExecContext(ctx, `SAVEPOINT durable_change`); err != nil {
		return err
	}
	told := tx.callOnChange(ctx, e)
	if told == nil {
		// PostgreSQL rejects this after a failed statement, even if OnChange has ignored its error.
		if _, told = tx.ExecContext(ctx, `RELEASE SAVEPOINT durable_change`); told == nil {
			return nil
		}
	}
	if _, err := tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT durable_change`); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `RELEASE SAVEPOINT durable_change`); err != nil {
		return err
	}
	return fmt.Errorf("durable: OnChange: %w", told)
}

// callOnChange returns a panic of OnChange as an error without its text, which may be secret.
func (tx *transaction) callOnChange(ctx context.Context, e Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic of type %T", p)
			tx.s.c.Log.ErrorContext(ctx, "durable: OnChange panicked", "user_data", e.Row.UserData, "error", err.Error(),
				"stack", string(debug.Stack()))
		}
	}()
	return tx.s.c.OnChange(ctx, tx.Tx, e)
}

// applyWaiting applies the notifications that came before r's order_id was known, in the order in which they came.
func (tx *transaction) applyWaiting(ctx context.Context, r *row) error {
	var waiting []Notice
	err := tx.s.query(ctx, tx, func(rows *sql.Rows) error {
		n, err := scanNotice(rows)
		if r.Kind == kindOf(n.Event) {
			waiting = append(waiting, n)
		}
		return err
	}, `SELECT `+noticeColumns+` FROM durable_notifications WHERE order_id = $1 AND matched = 0 ORDER BY received_at, key`,
		r.OrderID)
	if err != nil {
		return err
	}
	for _, n := range waiting {
		if err := tx.apply(ctx, r, n); err != nil {
			return err
		}
	}
	return nil
}

// apply changes r by a notification, which is matched then.
func (tx *transaction) apply(ctx context.Context, r *row, n Notice) error {
	failed := strings.Contains(r.Attention, onChangeFails)
	r.Attention = strings.TrimSpace(strings.ReplaceAll(r.Attention, onChangeFails, "")) // unless it fails again
	if n.UserData != "" && n.UserData != r.UserData {
		r.contradicted("The service reports its order_id with another user_data: " + shorten(n.OrderID) + ".")
		if err := tx.save(ctx, r); err != nil {
			return err
		}
		return tx.matched(ctx, n.Key)
	}
	if n.Event == paymentsvc.EventRefundStatusChanged {
		if r.OrderID != "" && r.OrderID != n.OrderID {
			r.attend("The service reports a refund under another order_id: " + shorten(n.OrderID) + ".")
			if err := tx.save(ctx, r); err != nil {
				return err
			}
			return tx.matched(ctx, n.Key)
		}
		save := failed
		if r.OrderID == "" { // so the service has it
			taken, err := tx.taken(ctx, r, n.OrderID)
			if err != nil {
				return err
			}
			r.found(n.OrderID, taken)
			save = true
		}
		if save {
			if err := tx.save(ctx, r); err != nil {
				return err
			}
		}
		if err := tx.fire(ctx, Event{Row: r.Row, Refund: &n}); err != nil {
			return err
		}
		return tx.matched(ctx, n.Key)
	}
	taken, err := tx.taken(ctx, r, n.OrderID)
	if err != nil {
		return err
	}
	r.notified(n, taken)
	if err := tx.save(ctx, r); err != nil {
		return err
	}
	return tx.matched(ctx, n.Key)
}

func (tx *transaction) matched(ctx context.Context, key string) error {
	_, err := tx.s.exec(ctx, tx, `UPDATE durable_notifications SET matched = 1 WHERE key = $1`, key)
	return err
}
