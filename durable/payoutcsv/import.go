package payoutcsv

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

// conflict is the reason for a row in conflict, see [Result.Conflicts].
const conflict = "the reference belongs to a payout with another amount or destination"

// batchRows is the maximum number of payouts stored per transaction.
const batchRows = 1000

var (
	// ErrDatabase is wrapped by the errors of the database. Call [Import] again with the same file when the database
	// is available.
	ErrDatabase = errors.New("payoutcsv: database")
	// ErrFileChanged reports that a later reading of a file differed from the first reading. Changed payouts were not
	// stored. Unchanged payouts before the change may be stored.
	ErrFileChanged = errors.New("payoutcsv: the file changed while it was read: check it and import it again")
)

// ImportConfig configures [Import].
type ImportConfig struct {
	// DB is the database of Store. Both are required.
	DB    *sql.DB
	Store *durable.Store
	// Name is the display name of the file.
	Name string
	// Pause is the time between two transactions, 0 by default. On SQLite, 120 ms gives writers in other processes a
	// turn, because a blocked writer polls for the lock only at intervals.
	Pause time.Duration
	// Wake, if set, is called in each transaction with new payouts, after they are stored. Call riverqueue's Queue.Wake
	// there to wake River's workers. Store.Run needs no Wake. After an error of Wake, as of DB, Import rolls back the
	// transaction and may retry it.
	Wake func(ctx context.Context, tx *sql.Tx) error
	// Wait is the maximum time for retries of a transaction after a temporary error of the database, such as a restart. 0
	// means one minute, and a negative value disables retries.
	Wait time.Duration
	// Progress, if set, is called after each commit of a thousand payouts, and at the end of the file.
	Progress func(Result)
	Options
}

// Result is the state of an import.
type Result struct {
	// Batch is the SHA-256 of the content of the file. It identifies the file in [durable.Filter].
	Batch string
	// Report is the report of [Check] about the whole file.
	Report Report
	// New is the number of payouts stored. Known is the number of payouts already in the database, with the same amount
	// and destination.
	New, Known int64
	// Elsewhere is the number of Known payouts stored with another file or by your program, or pruned. They are not paid
	// again. Unless this file corrects another file, its sender has perhaps used old references for new payments.
	Elsewhere int64
	// NewTotal is the sum of the New payouts.
	NewTotal paymentsvc.Amount
	// Before reports whether an earlier import of the same file was complete.
	Before bool
	// Conflicts is the number of rows with the reference of a stored payout, but another amount or destination. The
	// stored payout does not change. ConflictRows has the first 100 of these rows.
	Conflicts    int64
	ConflictRows []Row
}

// Done returns the number of payouts stored, already known or in conflict.
func (r Result) Done() int64 { return r.New + r.Known + r.Conflicts }

// Import checks a file and stores its payouts, a thousand per transaction, for a [durable.Store] to send. It first
// reads the whole file, and stores payouts only if [Check] would accept the file with c.Options. Rejected rows do not
// prevent the import of the other rows. Import then reads the file again to store it. Before it stores a thousand
// payouts, or the last payouts, it compares the second reading with the first.
//
// Import is idempotent, because a reference identifies a payout. Importing a file again, or after an interruption, adds
// the missing payouts and does not change stored payouts. With another column of references, the same file would be
// paid again. So Import returns an error wrapping [durable.ErrInvalid] if an earlier import has stored payouts of the
// file under other references. After a lost connection, Import repeats the transaction for up to c.Wait. If the
// transaction had committed, its payouts count as Known.
//
// Import returns an error of [Check], ctx or file.Seek, or an error wrapping [ErrDatabase], [ErrFileChanged] or
// [durable.ErrInvalid]. The Result covers the payouts stored before the error.
func Import(ctx context.Context, c ImportConfig, file io.ReadSeeker) (Result, error) {
	i, hash, references := importer{ImportConfig: c}, sha256.New(), sha256.New()
	i.result.NewTotal = i.added.amount(c.scale())
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return i.result, fmt.Errorf("payoutcsv: %w", err)
	}
	var err error
	d := digester{Hash: sha256.New()}
	i.result.Report, err = check(io.TeeReader(file, hash), c.Options, references, func(row Row) {
		if sum, full := d.add(row); full {
			i.checked = append(i.checked, sum)
		}
	})
	if err != nil {
		return i.result, err
	}
	i.result.Batch, i.references = hex.EncodeToString(hash.Sum(nil)), hex.EncodeToString(references.Sum(nil))
	if err := i.open(ctx); err != nil {
		return i.result, err
	}
	i.result.Before = i.batch.Complete
	return i.result, i.reread(ctx, file)
}

// importer has the state of a call of [Import].
type importer struct {
	ImportConfig
	checked    [][sha256.Size]byte // hashes of the full batches
	references string              // hash of the references of all well-formed rows, see rows
	batch      durable.Batch
	line       int64 // line number of the last row read
	payouts    []durable.NewPayout
	added      sum
	result     Result
}

// open stores a new batch, or loads the progress of another Import of the same file.
func (i *importer) open(ctx context.Context) error {
	return i.retry(ctx, func() (err error) {
		i.batch, err = i.Store.Batch(ctx, i.result.Batch)
		if !errors.Is(err, durable.ErrNotFound) {
			return err
		}
		return i.try(ctx, func(tx *sql.Tx) (err error) {
			i.batch, err = i.addBatch(ctx, tx, i.result.Report.Rejected, "")
			return err
		})
	})
}

// addBatch stores the batch, see [durable.Store.AddBatch].
func (i *importer) addBatch(ctx context.Context, tx *sql.Tx, rejected int64, refs string) (durable.Batch, error) {
	return i.Store.AddBatch(ctx, tx, durable.Batch{
		ID: i.result.Batch, Name: i.Name, ExpectedRows: i.ExpectRows, ExpectedTotal: i.ExpectTotal,
		Rejected: rejected, References: refs,
	})
}

// claim stores the references of the file before its first payout. It returns an error if another Import has stored
// payouts with other references. It stores another number of rejected rows only at the end, because payouts of formerly
// rejected rows may be missing before.
func (i *importer) claim(ctx context.Context, tx *sql.Tx, complete bool) error {
	rejected, refs := i.batch.Rejected, ""
	if complete {
		rejected = i.result.Report.Rejected
	}
	if len(i.payouts) > 0 {
		refs = i.references
	}
	batch, err := i.addBatch(ctx, tx, rejected, refs)
	if err == nil && batch.References != "" && batch.References != i.references {
		err = fmt.Errorf("%w: an earlier import of this file read other references: import it with the options of that "+
			"import (-columns)", durable.ErrInvalid)
	}
	return err
}

// transaction calls do in a transaction, and commits it. It repeats both, see retry, so do must be idempotent.
func (i *importer) transaction(ctx context.Context, do func(*sql.Tx) error) error {
	return i.retry(ctx, func() error { return i.try(ctx, do) })
}

// retry calls do for up to i.Wait, until do succeeds or returns ErrInvalid, ErrChanged or a permanent error.
func (i *importer) retry(ctx context.Context, do func() error) error {
	wait := cmp.Or(i.Wait, defaultWait)
	begun := time.Now()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := do()
		if err == nil || errors.Is(err, durable.ErrInvalid) || errors.Is(err, durable.ErrChanged) {
			return err
		}
		if permanent(err) || time.Since(begun) >= wait {
			return fmt.Errorf("%w: %w", ErrDatabase, err)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

const (
	defaultWait        = time.Minute
	minPause, maxPause = 100 * time.Millisecond, 2 * time.Second // between two attempts
)

func (i *importer) try(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := i.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// permanent reports whether PostgreSQL rejected a statement, so that a retry cannot help. A server that restarts, is
// overloaded or rolls back a transaction returns an SQLSTATE of a temporary class.
func permanent(err error) bool {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) || len(state.SQLState()) < 2 {
		return false
	}
	return !slices.Contains(temporaryClasses, state.SQLState()[:2])
}

// temporaryClasses are a lost connection, a standby, a rollback, missing resources, a lock, the operator's intervention
// and an error of the system.
var temporaryClasses = []string{"08", "25", "40", "53", "55", "57", "58"}

// reread reads the file again, and stores each batch that is equal to the batch of the first reading. At the end, it
// compares the whole file, and stores the last payouts.
func (i *importer) reread(ctx context.Context, file io.ReadSeeker) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("payoutcsv: %w", err)
	}
	hash, d, full := sha256.New(), digester{Hash: sha256.New()}, 0
	for row, err := range Rows(io.TeeReader(file, hash), i.Options) {
		if err != nil {
			return err
		}
		i.line = row.Line
		if row.Rejected != "" {
			continue
		}
		i.payouts = append(i.payouts, durable.NewPayout{
			Reference: row.Reference, Amount: row.Amount, Destination: row.Destination,
			Batch: i.result.Batch, Line: row.Line,
		})
		sum, isFull := d.add(row)
		if !isFull {
			continue
		}
		if full == len(i.checked) || i.checked[full] != sum {
			return ErrFileChanged
		}
		if err := i.store(ctx, false); err != nil {
			return err
		}
		i.payouts, full = i.payouts[:0], full+1
	}
	if hex.EncodeToString(hash.Sum(nil)) != i.result.Batch {
		return ErrFileChanged
	}
	return i.store(ctx, true)
}

// store stores i.payouts. complete reports that the whole file was read.
func (i *importer) store(ctx context.Context, complete bool) error {
	for {
		var queued []durable.Queued
		err := i.transaction(ctx, func(tx *sql.Tx) (err error) {
			if err := i.claim(ctx, tx, complete); err != nil {
				return err
			}
			if !i.batch.Complete && (complete || i.line > i.batch.Line) {
				to := max(i.line, i.batch.Line)
				if err := i.Store.AdvanceBatch(ctx, tx, i.batch.ID, i.batch.Line, to, complete); err != nil {
					return err
				}
			}
			queued, err = i.Store.QueuePayouts(ctx, tx, i.payouts...)
			added := slices.ContainsFunc(queued, func(q durable.Queued) bool { return q.New })
			if err != nil || !added || i.Wake == nil {
				return err
			}
			return i.Wake(ctx, tx)
		})
		switch {
		case errors.Is(err, durable.ErrChanged): // another process imports the same file
			if err := i.open(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		i.batch.Line, i.batch.Complete = max(i.line, i.batch.Line), complete || i.batch.Complete
		i.count(queued)
		if complete {
			return nil
		}
		return sleep(ctx, i.Pause)
	}
}

func (i *importer) count(queued []durable.Queued) {
	for n, q := range queued {
		switch {
		case q.Err != nil:
			i.result.Conflicts++
			if len(i.result.ConflictRows) < keptRejections {
				i.result.ConflictRows = append(i.result.ConflictRows, Row{Line: i.payouts[n].Line, Rejected: conflict})
			}
		case q.New:
			i.result.New++
			i.added.add(exact(i.payouts[n].Amount))
		default:
			i.result.Known++
			if q.Batch != i.result.Batch {
				i.result.Elsewhere++
			}
		}
	}
	i.result.NewTotal = i.added.amount(i.scale())
	if i.Progress != nil {
		i.Progress(i.result)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
