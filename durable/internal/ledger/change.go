package ledger

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Change changes one row in one transaction, with all consequences, and is slower than a round. It locks the
// order_id, claim and row in this order, and f may then lock the control row. A round does not wait for these locks.

// errOrderTaken reports that another row received the order_id at the same time. The next attempt finds that row.
var errOrderTaken = errors.New("durable: another row got the order_id")

// Tx is a transaction that reads and changes rows.
type Tx struct {
	*sql.Tx
	l      *Ledger
	strict bool  // an error of OnChange rolls back; otherwise OnChange is called again later
	failed error // the error of OnChange if strict is set
	moves  []move
}

// move is a change of state.
type move struct {
	kind     row.Kind
	from, to row.State
}

// Change loads the row userData, lets f change it, and saves it with all consequences. orderID is the order_id that f
// may store in the row, or "". Change waits for other transactions that change the row. Errors wrap ErrNotFound,
// row.ErrChanged or errOrderTaken, or come from f or the database.
func (l *Ledger) Change(
	ctx context.Context, userData, orderID string, f func(context.Context, *Tx, *row.Row) error,
) error {
	return l.Transact(ctx, false, func(ctx context.Context, tx *Tx) error {
		if err := tx.lockOrderID(ctx, orderID); err != nil {
			return err
		}
		r, err := tx.load(ctx, userData, "")
		if err != nil {
			return err
		}
		known := r.OrderID
		if err := f(ctx, tx, r); err != nil {
			return err
		}
		if err := tx.save(ctx, r); err != nil {
			return err
		}
		if r.OrderID == known {
			return nil
		}
		return tx.applyWaiting(ctx, r)
	})
}

// Transact runs f in a transaction, and calls Moved for the changes of states after the commit. With strict, Transact
// rolls back after an error of OnChange and returns the error.
func (l *Ledger) Transact(ctx context.Context, strict bool, f func(context.Context, *Tx) error) error {
	tx := &Tx{l: l, strict: strict}
	err := l.Tx(ctx, func(ctx context.Context, inner *sql.Tx) error {
		tx.Tx, tx.moves, tx.failed = inner, nil, nil
		return f(ctx, tx)
	})
	if err == nil && l.Moved != nil {
		for _, m := range tx.moves {
			l.Moved(ctx, m.kind, m.from, m.to)
		}
	}
	return err
}

// lockOrderID makes transactions about one order_id wait for each other. Otherwise a notification and the response with
// the same order_id could miss each other before their commits. SQLite needs no lock, because it has one writer.
func (tx *Tx) lockOrderID(ctx context.Context, orderID string) error {
	if tx.l.Dialect == SQLite || orderID == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, orderID)
	return err
}

// load reads and locks a row. If k is set, the row must be of kind k. load locks the claim first, as a round does.
func (tx *Tx) load(ctx context.Context, userData string, k row.Kind) (*row.Row, error) {
	if _, err := tx.l.exec(ctx, tx, `SELECT 1 FROM durable_claims WHERE user_data = $1{lock}`, userData); err != nil {
		return nil, err
	}
	return only(tx.l.rows(ctx, tx, `r.user_data = $1 AND (r.kind = $2 OR $2 = ''){lock r}`, userData, string(k)))
}

// Taken reports whether another row of r's kind has orderID.
func (tx *Tx) Taken(ctx context.Context, r *row.Row, orderID string) (bool, error) {
	if orderID == "" {
		return false, nil
	}
	var n int
	err := tx.l.one(ctx, tx, []any{&n}, `SELECT COUNT(*) FROM durable_orders
		WHERE kind = $1 AND order_id = $2 AND user_data <> $3`, string(r.Kind), orderID, r.UserData)
	return n > 0, err
}

// save writes a loaded row, and calls OnChange for a new state in ChangeStates. A claim locks the queue entry and not
// the row, so another process may have changed the state. Each statement therefore compares the state again, and save
// returns row.ErrChanged after a change.
func (tx *Tx) save(ctx context.Context, r *row.Row) error {
	from := r.Loaded
	moved := from != r.State
	queued := r.State == row.Created && (moved || r.Due != row.KeepDue)
	if err := tx.leave(ctx, r, moved || queued); err != nil {
		return err
	}
	due := int64(-1)
	if r.Due != row.KeepDue {
		due = r.Due.Milliseconds()
	}
	err := tx.one(ctx, row.ErrChanged, `UPDATE durable_rows
		SET state = $1, order_id = $2, order_id_taken = $3, redirect_url = $4, may_have_started = $5, error_code = $6,
			review_reason = $7, generation = $8, claims = $9, claimed_at = $10,
			due_at = CASE WHEN CAST($11 AS BIGINT) < 0 THEN due_at ELSE {now} + $11 END, updated_at = {now},
			version = version + 1
		WHERE user_data = $12 AND state = $13 AND version = $14`,
		string(r.State.Stored()), r.OrderID, flag(r.OrderIDTaken), Storable(r.RedirectURL), flag(r.MayHaveStarted),
		Storable(r.ErrorCode), Storable(r.ReviewReason), r.Generation, r.Claims, r.ClaimedAt, due, r.UserData,
		string(from.Stored()), r.Version)
	if err != nil {
		return err
	}
	if r.OrderID != "" {
		if err := tx.one(ctx, errOrderTaken, `INSERT INTO durable_orders (kind, order_id, user_data, created_at, state)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT (kind, order_id) DO UPDATE SET state = excluded.state
			WHERE durable_orders.user_data = excluded.user_data`,
			string(r.Kind), r.OrderID, r.UserData, r.CreatedAt, string(r.State)); err != nil {
			return err
		}
	}
	if queued {
		if err := tx.l.enqueue(ctx, tx.Tx, []string{r.UserData}); err != nil {
			return err
		}
	}
	r.Version++
	r.Due, r.Loaded = row.KeepDue, r.State
	if !moved {
		return nil
	}
	tx.moves = append(tx.moves, move{r.Kind, from, r.State})
	if !slices.Contains(tx.l.ChangeStates, r.State) {
		return nil
	}
	return tx.fire(ctx, Event{Row: *r, From: from, To: r.State})
}

// leave deletes the claim or the queue entry of a row that gets a new state or a new due time.
func (tx *Tx) leave(ctx context.Context, r *row.Row, leaves bool) error {
	switch {
	case r.Loaded == row.Starting && leaves:
		return tx.one(ctx, row.ErrChanged, `DELETE FROM durable_claims WHERE user_data = $1 AND token = $2`,
			r.UserData, r.Token)
	case r.Loaded == row.Created && leaves:
		return tx.one(ctx, row.ErrChanged, `DELETE FROM durable_queue WHERE (kind, generation, due_at, user_data, created_at)
			IN (SELECT kind, generation, due_at, user_data, created_at FROM durable_rows WHERE user_data = $1)`, r.UserData)
	}
	return nil
}

// one runs a statement and returns failure unless the statement changes one row.
func (tx *Tx) one(ctx context.Context, failure error, query string, args ...any) error {
	n, err := tx.l.exec(ctx, tx, query, args...)
	if err == nil && n != 1 {
		err = failure
	}
	return err
}

// Decision is an operator's decision about a row.
type Decision struct {
	Kind, UserData, OrderID, By string
	State                       row.State // state before the decision
	ReviewReason                string
	At                          time.Time
}

// Unnotified reports whether no unmatched notification about r's kind has r's user_data, r's order_id or orderID.
func (tx *Tx) Unnotified(ctx context.Context, r *row.Row, orderID string) (yes bool, err error) {
	err = tx.l.one(ctx, tx, []any{&yes}, `SELECT {unnotified} AND NOT EXISTS (SELECT 1 FROM durable_notifications AS n
			WHERE n.order_id IN (q.order_id, $2) AND n.order_id <> '' AND n.matched = 0
				AND (n.event = 'payout.status_changed') = (q.kind = 'payout') LIMIT 1 OFFSET 0)
		FROM durable_rows AS q WHERE q.user_data = $1`, r.UserData, orderID)
	return yes, err
}

// Hold returns the database's time, and the beginning of the last hold (0 without a hold).
func (tx *Tx) Hold(ctx context.Context) (now, heldAt int64, err error) {
	err = tx.l.one(ctx, tx, []any{&now, &heldAt}, `SELECT {now}, held_at FROM durable_control`)
	return now, heldAt, err
}

// KeepDecision stores a decision with the database's time instead of d.At.
func (tx *Tx) KeepDecision(ctx context.Context, d Decision) error {
	_, err := tx.l.exec(ctx, tx, `INSERT INTO durable_decisions
		(id, user_data, decision, order_id, state, review_reason, decided_by, decided_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, {now})`,
		rand.Text(), d.UserData, d.Kind, d.OrderID, string(d.State), d.ReviewReason, d.By)
	return err
}

// Decisions returns the decisions about a row, the newest first. It reads from l.DB.
func (l *Ledger) Decisions(ctx context.Context, userData string) ([]Decision, error) {
	return collect(ctx, l, l.DB, func(d *Decision) []any {
		return []any{&d.UserData, &d.Kind, &d.OrderID, &d.State, &d.ReviewReason, &d.By, millis{&d.At}}
	}, `SELECT user_data, decision, order_id, state, review_reason, decided_by, decided_at FROM durable_decisions
		WHERE user_data = $1 ORDER BY decided_at DESC, id`, userData)
}
