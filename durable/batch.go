package durable

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
)

// Batch is a file of payouts, see [Store.AddBatch].
type Batch struct {
	// ID identifies the content, such as its SHA-256.
	ID   string
	Name string
	// Line is the next line to read. Complete reports that the end was reached.
	Line     int64
	Complete bool
	// ExpectedRows and ExpectedTotal are the sender's numbers. Without them, they are 0 and not set.
	ExpectedRows  int64
	ExpectedTotal paymentsvc.Amount
	// Rejected is the number of invalid rows.
	Rejected int64
	// Pruned is the number of payouts that [Store.Prune] has deleted.
	Pruned    int64
	CreatedAt time.Time
}

// AddBatch stores a batch in your transaction and returns the stored batch. If its ID exists, AddBatch updates only
// Rejected.
func (s *Store) AddBatch(ctx context.Context, tx *sql.Tx, b Batch) (Batch, error) {
	if b.ID == "" || !plain(b.ID) || !plain(b.Name) {
		return Batch{}, fmt.Errorf("%w: Batch.ID is required, and it and Name must be UTF-8 without NUL", ErrInvalid)
	}
	stored, err := s.ledger.AddBatch(ctx, tx, ledger.Batch{
		ID: b.ID, Name: b.Name, ExpectedRows: b.ExpectedRows, ExpectedTotal: b.ExpectedTotal, Rejected: b.Rejected,
	})
	if err != nil {
		return Batch{}, fmt.Errorf("durable: batch: %w", err)
	}
	return Batch(stored), nil
}

// AdvanceBatch moves a batch's Line in your transaction, together with the payouts before that line. The error wraps
// [ErrChanged] if the batch is no longer at line from, because another process reads the same file.
func (s *Store) AdvanceBatch(ctx context.Context, tx *sql.Tx, id string, from, to int64, complete bool) error {
	advanced, err := s.ledger.AdvanceBatch(ctx, tx, id, from, to, complete)
	if err != nil {
		return fmt.Errorf("durable: batch: %w", err)
	}
	if !advanced {
		return fmt.Errorf("%w: batch %q is not at line %d", ErrChanged, id, from)
	}
	return nil
}

// Batches yields the batches, the newest first.
func (s *Store) Batches(ctx context.Context) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		batches, err := s.ledger.Batches(ctx)
		if err != nil {
			yield(Batch{}, fmt.Errorf("durable: batches: %w", err))
			return
		}
		for _, b := range batches {
			if !yield(Batch(b), nil) {
				return
			}
		}
	}
}
