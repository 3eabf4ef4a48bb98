package ledger

import (
	"context"
	"database/sql"

	"github.com/paymentsvc/paymentsvc"
)

// Batch is a file of payouts.
type Batch struct {
	ID, Name      string
	Line          int64
	Complete      bool
	ExpectedRows  int64
	ExpectedTotal paymentsvc.Amount
	Rejected      int64
	Pruned        int64
	CreatedAt     int64
}

const batchColumns = `id, name, line, complete, expected_rows, expected_total, rejected, pruned,
	created_at`

func scanBatch(from interface{ Scan(into ...any) error }) (b Batch, err error) {
	var complete int64
	err = from.Scan(&b.ID, &b.Name, &b.Line, &complete, &b.ExpectedRows, &b.ExpectedTotal, &b.Rejected, &b.Pruned,
		&b.CreatedAt)
	b.Complete = complete == 1
	return b, err
}

// AddBatch stores a batch in the caller's transaction and returns the stored one. If its ID exists, it updates only
// Rejected.
func (l *Ledger) AddBatch(ctx context.Context, tx *sql.Tx, b Batch) (Batch, error) {
	if _, err := l.exec(ctx, tx, `INSERT INTO durable_batches
			(id, name, expected_rows, expected_total, rejected, created_at)
		VALUES ($1, $2, $3, $4, $5, {now}) ON CONFLICT (id)
		DO UPDATE SET rejected = excluded.rejected WHERE durable_batches.rejected <> excluded.rejected`,
		b.ID, b.Name, b.ExpectedRows, b.ExpectedTotal, b.Rejected); err != nil {
		return Batch{}, err
	}
	query := l.text.Replace(`SELECT ` + batchColumns + ` FROM durable_batches WHERE id = $1`)
	return scanBatch(tx.QueryRowContext(ctx, query, b.ID))
}

// AdvanceBatch moves a batch in the caller's transaction, and reports whether the batch was at line from.
func (l *Ledger) AdvanceBatch(ctx context.Context, tx *sql.Tx, id string, from, to int64, complete bool) (bool, error) {
	n, err := l.exec(ctx, tx, `UPDATE durable_batches SET line = $1, complete = $2
		WHERE id = $3 AND line = $4 AND complete = 0`, to, flag(complete), id, from)
	return n == 1, err
}

// Batches returns the batches, the newest first. It reads from l.Read.
func (l *Ledger) Batches(ctx context.Context) (batches []Batch, err error) {
	err = l.query(ctx, l.Read, func(rows *sql.Rows) error {
		b, err := scanBatch(rows)
		batches = append(batches, b)
		return err
	}, `SELECT `+batchColumns+` FROM durable_batches ORDER BY created_at DESC, id`)
	return batches, err
}
