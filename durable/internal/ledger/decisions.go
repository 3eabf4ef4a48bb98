package ledger

import (
	"context"
	"crypto/rand"
	"database/sql"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Decision is an operator's decision about a row.
type Decision struct {
	Kind, UserData, OrderID, By string
	State                       row.State // before the decision
	ReviewReason                string
	At                          int64
}

// Unnotified reports whether no unmatched notification has r's user_data.
func (tx *Tx) Unnotified(ctx context.Context, r *row.Row) (yes bool, err error) {
	err = tx.l.row(ctx, tx.Tx, []any{&yes}, `SELECT {unnotified} FROM durable_rows AS q WHERE q.user_data = $1`, r.UserData)
	return yes, err
}

// KeepDecision stores a decision.
func (tx *Tx) KeepDecision(ctx context.Context, d Decision) error {
	_, err := tx.l.exec(ctx, tx, `INSERT INTO durable_decisions
		(id, user_data, decision, order_id, state, review_reason, decided_by, decided_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, {now})`,
		rand.Text(), d.UserData, d.Kind, d.OrderID, string(d.State), d.ReviewReason, d.By)
	return err
}

// Decisions returns the decisions about a row, the newest first.
func (l *Ledger) Decisions(ctx context.Context, userData string) (decisions []Decision, err error) {
	err = l.query(ctx, l.Read, func(rows *sql.Rows) error {
		d := Decision{UserData: userData}
		err := rows.Scan(&d.Kind, &d.OrderID, &d.State, &d.ReviewReason, &d.By, &d.At)
		decisions = append(decisions, d)
		return err
	}, `SELECT decision, order_id, state, review_reason, decided_by, decided_at FROM durable_decisions
		WHERE user_data = $1 ORDER BY decided_at DESC, id`, userData)
	return decisions, err
}

// Batch is a file of payouts.
type Batch struct {
	ID, Name               string
	Line                   int64
	Complete               bool
	ExpectedRows, Rejected int64
	ExpectedTotal          paymentsvc.Amount
	CreatedAt              int64
}

func (l *Ledger) batches(ctx context.Context, on rowser, where string, args ...any) (batches []Batch, err error) {
	err = l.query(ctx, on, func(rows *sql.Rows) error {
		var b Batch
		var complete int64
		err := rows.Scan(&b.ID, &b.Name, &b.Line, &complete, &b.ExpectedRows, &b.ExpectedTotal, &b.Rejected, &b.CreatedAt)
		b.Complete = complete == 1
		batches = append(batches, b)
		return err
	}, `SELECT id, name, line, complete, expected_rows, expected_total, rejected, created_at FROM durable_batches `+where, args...)
	return batches, err
}

// AddBatch stores a batch in the caller's transaction and returns it as stored. Of a known batch it updates only Rejected.
func (l *Ledger) AddBatch(ctx context.Context, tx *sql.Tx, b Batch) (Batch, error) {
	if _, err := l.exec(ctx, tx, `INSERT INTO durable_batches (id, name, expected_rows, expected_total, rejected, created_at)
		VALUES ($1, $2, $3, $4, $5, {now}) ON CONFLICT (id)
		DO UPDATE SET rejected = excluded.rejected WHERE durable_batches.rejected <> excluded.rejected`,
		b.ID, b.Name, b.ExpectedRows, b.ExpectedTotal, b.Rejected); err != nil {
		return Batch{}, err
	}
	stored, err := l.batches(ctx, tx, `WHERE id = $1`, b.ID)
	if err == nil && len(stored) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Batch{}, err
	}
	return stored[0], nil
}

// AdvanceBatch moves a batch's line in the caller's transaction. It reports false if the batch is no longer at from.
func (l *Ledger) AdvanceBatch(ctx context.Context, tx *sql.Tx, id string, from, to int64, complete bool) (bool, error) {
	n, err := l.exec(ctx, tx, `UPDATE durable_batches SET line = $1, complete = $2 WHERE id = $3 AND line = $4 AND complete = 0`,
		to, flag(complete), id, from)
	return n == 1, err
}

// Batches returns the batches, the newest first.
func (l *Ledger) Batches(ctx context.Context) ([]Batch, error) {
	return l.batches(ctx, l.Read, `ORDER BY created_at DESC, id`)
}
