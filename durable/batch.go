package durable

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Batch is a file of payouts, see [Store.AddBatch].
type Batch struct {
	// ID identifies the content, such as its SHA-256.
	ID   string
	Name string
	// Line is where reading goes on, and Complete whether the end was reached.
	Line     int64
	Complete bool
	// ExpectedRows and ExpectedTotal are what the sender announced, 0 and not set without.
	ExpectedRows  int64
	ExpectedTotal paymentsvc.Amount
	// Rejected is how many of its rows are no payouts.
	Rejected  int64
	CreatedAt time.Time
}

const batchColumns = `id, name, line, complete, expected_rows, expected_total, rejected, created_at`

func scanBatch(from interface{ Scan(into ...any) error }) (b Batch, err error) {
	var complete, created int64
	err = from.Scan(&b.ID, &b.Name, &b.Line, &complete, &b.ExpectedRows, &b.ExpectedTotal, &b.Rejected, &created)
	b.Complete, b.CreatedAt = complete == 1, at(created)
	return b, err
}

// AddBatch stores a batch in your transaction and returns it as stored. If its ID is known, it updates only Rejected.
func (s *Store) AddBatch(ctx context.Context, tx *sql.Tx, b Batch) (Batch, error) {
	if b.ID == "" || !plain(b.ID) || !plain(b.Name) {
		return Batch{}, fmt.Errorf("%w: Batch.ID is required, and it and Name must be UTF-8 without NUL", ErrInvalid)
	}
	if _, err := s.exec(ctx, tx, `INSERT INTO durable_batches (id, name, expected_rows, expected_total, rejected, created_at)
		VALUES ($1, $2, $3, $4, $5, {now}) ON CONFLICT (id)
		DO UPDATE SET rejected = excluded.rejected WHERE durable_batches.rejected <> excluded.rejected`,
		b.ID, b.Name, b.ExpectedRows, b.ExpectedTotal, b.Rejected); err != nil {
		return Batch{}, fmt.Errorf("durable: batch: %w", err)
	}
	stored, err := scanBatch(tx.QueryRowContext(ctx, s.sql.Replace(`SELECT `+batchColumns+` FROM durable_batches WHERE id = $1`), b.ID))
	if err != nil {
		return Batch{}, fmt.Errorf("durable: batch: %w", err)
	}
	return stored, nil
}

// AdvanceBatch moves a batch's Line in your transaction, together with the payouts up to there. The error wraps
// [ErrChanged] if the batch is no longer at line from: another process reads it too.
func (s *Store) AdvanceBatch(ctx context.Context, tx *sql.Tx, id string, from, to int64, complete bool) error {
	n, err := s.exec(ctx, tx, `UPDATE durable_batches SET line = $1, complete = $2 WHERE id = $3 AND line = $4 AND complete = 0`,
		to, flag(complete), id, from)
	if err != nil {
		return fmt.Errorf("durable: batch: %w", err)
	}
	if n == 0 {
		return fmt.Errorf("%w: batch %q is not at line %d", ErrChanged, id, from)
	}
	return nil
}

// Batches yields the batches, the newest first.
func (s *Store) Batches(ctx context.Context) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		var batches []Batch
		err := s.query(ctx, s.read, func(rows *sql.Rows) error {
			b, err := scanBatch(rows)
			batches = append(batches, b)
			return err
		}, `SELECT `+batchColumns+` FROM durable_batches ORDER BY created_at DESC, id`)
		if err != nil {
			yield(Batch{}, fmt.Errorf("durable: batches: %w", err))
			return
		}
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
	}
}
