package durable

import (
	"context"
	"fmt"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// minPruneAge protects rows that a transaction or process may still use.
const minPruneAge = 24 * time.Hour

// Prune deletes final rows whose last change and last notification are older than age, together with their
// notifications, decisions and order_ids. It returns the number of rows. It keeps rows that need review or another call
// of OnChange. age must be at least 24 hours, and at least [Config].Grace. Choose an age beyond all late refunds and
// questions. Errors wrap [ErrInvalid] or are those of ctx or the database.
//
// A batch reads 500 rows, and deletes rows in one short transaction. Prune then waits as long as the batch took, so
// that other work continues. After an error or a crash, call Prune again. Calls of several processes share the work.
//
// For each deleted row, the database keeps hashes of the user_data, the values and the order_id forever. So a Reference
// or Key is never paid again. [Store.QueuePayouts] reports a known payout, [Store.Pay] returns [ErrPruned], and both
// report [ErrConflict] for other values. The hashes do not protect a destination against guesses, so protect the
// database as before. A late notification is recognized by its user_data, or without a user_data by its order_id. It is
// logged and kept until it is older than age, without a call of OnChange. [Batch].Pruned counts the deleted payouts of
// a file.
func (s *Store) Prune(ctx context.Context, age time.Duration) (rows int64, err error) {
	if least := max(minPruneAge, s.c.Grace); age < least {
		return 0, fmt.Errorf("%w: Prune with an age of %v, want at least %v", ErrInvalid, age, least)
	}
	for _, kind := range []row.Kind{row.Payment, row.Payout} {
		var at ledger.Place
		err := s.inBatches(ctx, func() (more bool, err error) {
			var n int
			n, at, err = s.ledger.Prune(ctx, kind, age.Milliseconds(), at)
			rows += int64(n)
			return at != ledger.Place{}, err
		})
		if err != nil {
			return rows, err
		}
	}
	return rows, s.inBatches(ctx, func() (bool, error) { return s.ledger.PruneNotices(ctx, age.Milliseconds()) })
}

// inBatches calls f until f reports that no work remains.
func (s *Store) inBatches(ctx context.Context, f func() (more bool, err error)) error {
	for {
		begun := s.now()
		more, err := f()
		if err != nil {
			return fmt.Errorf("durable: prune: %w", err)
		}
		if !more {
			return nil
		}
		select {
		case <-time.After(s.now().Sub(begun)):
		case <-ctx.Done():
			return fmt.Errorf("durable: prune: %w", ctx.Err())
		}
	}
}
