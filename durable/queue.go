package durable

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// maxQueued is the maximum number of rows per statement.
const maxQueued = 500

// newRow is a row to store, with its index in the caller's list.
type newRow struct {
	ledger.NewRow
	index int
}

// QueuePayments stores payments in your transaction, and [Store.Run] starts them. Results are in the order of p. Errors
// are those of QueuePayouts.
func (s *Store) QueuePayments(ctx context.Context, tx *sql.Tx, p ...NewPayment) ([]Queued, error) {
	return queueRows(ctx, s, tx, p, s.newPayment)
}

// QueuePayouts stores payouts in your transaction, and [Store.Run] sends them after the commit. Results are in the
// order of p. A known reference is not an error, see [Queued]. If a payout is invalid, the error wraps [ErrInvalid],
// and no payout is stored. Otherwise the error is the database's.
//
// Until tx ends, it blocks transactions that queue the same references, and on SQLite every other write, so commit
// every thousand payouts or so. On SQLite, begin tx with a write, or let your driver begin transactions immediately.
func (s *Store) QueuePayouts(ctx context.Context, tx *sql.Tx, p ...NewPayout) ([]Queued, error) {
	return queueRows(ctx, s, tx, p, s.newPayout)
}

func (s *Store) newPayment(p NewPayment) ledger.NewRow {
	return ledger.NewRow{
		Kind: row.Payment, UserData: derived(s.c.Project, KindPayment, p.Key), Reference: p.Key, Type: string(p.Type),
		Amount: p.Amount.String(),
	}
}

func (s *Store) newPayout(p NewPayout) ledger.NewRow {
	return ledger.NewRow{
		Kind: row.Payout, UserData: derived(s.c.Project, KindPayout, p.Reference), Reference: p.Reference,
		Amount: p.Amount.String(), Destination: p.Destination, Batch: p.Batch, Line: p.Line,
	}
}

// queueRows inserts rows in the order of user_data, because otherwise transactions with equal rows could deadlock.
func queueRows[P interface{ check() error }](
	ctx context.Context, s *Store, tx *sql.Tx, list []P, convert func(P) ledger.NewRow,
) ([]Queued, error) {
	rows, queued := make([]newRow, len(list)), make([]Queued, len(list))
	for i, one := range list {
		rows[i] = newRow{convert(one), i}
		if err := one.check(); err != nil {
			return nil, fmt.Errorf("%s %d: %w", rows[i].Kind, i, err)
		}
	}
	slices.SortStableFunc(rows, func(a, b newRow) int { return strings.Compare(a.UserData, b.UserData) })
	for part := range slices.Chunk(rows, maxQueued) {
		if err := s.queuePart(ctx, tx, part, queued); err != nil {
			return nil, fmt.Errorf("durable: queue: %w", err)
		}
	}
	return queued, nil
}

func (s *Store) queuePart(ctx context.Context, tx *sql.Tx, rows []newRow, queued []Queued) error {
	inserts, users := make([]ledger.NewRow, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		inserts[i], users[i] = r.NewRow, r.UserData
	}
	added, err := s.ledger.Queue(ctx, tx, inserts)
	if err != nil {
		return err
	}
	known := map[string]*row.Row{}
	if len(added) < len(rows) {
		known, err = s.ledger.Known(ctx, tx, users)
		if err != nil {
			return err
		}
	}
	pruned, err := s.ledger.Pruned(ctx, tx, missing(users, added, known)...)
	if err != nil {
		return err
	}
	for _, r := range rows { // only the first row with a reference is new
		q := Queued{UserData: r.UserData, Reference: r.Reference, New: added[r.UserData]}
		if existing := known[r.UserData]; existing != nil && !q.New {
			q.Batch = existing.Batch
		}
		delete(added, r.UserData)
		if hash, found := pruned[r.UserData]; !q.New && !r.Equal(known[r.UserData]) && (!found || hash != r.Hash()) {
			q.Err = fmt.Errorf("%w: %q", ErrConflict, r.Reference)
		}
		queued[r.index] = q
	}
	return nil
}

// missing returns the elements of users without an entry in added or known.
func missing(users []string, added map[string]bool, known map[string]*row.Row) (missing []string) {
	for _, userData := range users {
		if !added[userData] && known[userData] == nil {
			missing = append(missing, userData)
		}
	}
	return missing
}

// Batch is a file of payouts, see [Store.AddBatch].
type Batch struct {
	// ID identifies the content, such as its SHA-256.
	ID   string
	Name string
	// Line is the line of the last row read, or 0. Complete reports that the whole file was read.
	Line     int64
	Complete bool
	// ExpectedRows and ExpectedTotal are the sender's numbers, or 0 and an unset amount.
	ExpectedRows  int64
	ExpectedTotal paymentsvc.Amount
	// Rejected is the number of invalid rows in the complete import with the fewest.
	Rejected int64
	// References identifies the references of the rows, such as their SHA-256, or is "" before the first payout.
	References string
	// Pruned is the number of payouts that [Store.Prune] has deleted.
	Pruned    int64
	CreatedAt time.Time
}

// AddBatch stores a batch in your transaction and returns the stored batch. It ignores Line, Complete, Pruned and
// CreatedAt of b. If the ID exists, AddBatch only changes Rejected, which it does not increase in a complete batch, and
// sets References if they are "".
func (s *Store) AddBatch(ctx context.Context, tx *sql.Tx, b Batch) (Batch, error) {
	if b.ID == "" || !plain(b.ID) || !plain(b.Name) || !plain(b.References) {
		return Batch{}, fmt.Errorf("%w: Batch.ID is required; ID, Name and References must be UTF-8 without NUL, "+
			"and %d bytes or less", ErrInvalid, maxReference)
	}
	stored, err := s.ledger.AddBatch(ctx, tx, ledger.Batch(b))
	if err != nil {
		return Batch{}, fmt.Errorf("durable: batch: %w", err)
	}
	return Batch(stored), nil
}

// AdvanceBatch moves a batch's Line from one line to another in your transaction, which must also queue the payouts of
// the lines between. The error wraps [ErrChanged] if the batch is unknown or complete, or if its Line does not equal
// from, for example because another process reads the same file.
func (s *Store) AdvanceBatch(ctx context.Context, tx *sql.Tx, id string, from, to int64, complete bool) error {
	advanced, err := s.ledger.AdvanceBatch(ctx, tx, id, from, to, complete)
	if err != nil {
		return fmt.Errorf("durable: batch: %w", err)
	}
	if !advanced {
		return fmt.Errorf("%w: batch %q is complete, or not at line %d", ErrChanged, id, from)
	}
	return nil
}

// Batch returns the batch with an ID. The error wraps [ErrNotFound] if the ID is unknown. Batch reads from the database
// of [Open].
func (s *Store) Batch(ctx context.Context, id string) (Batch, error) {
	stored, err := s.ledger.Batch(ctx, s.ledger.DB, id)
	if err != nil {
		return Batch{}, fmt.Errorf("durable: batch: %w", err)
	}
	return Batch(stored), nil
}

// Batches yields all batches, the newest first.
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
