package payouts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

const (
	// batchRows is how many rows of a file one transaction takes.
	batchRows = 500
	// gap is the time between two transactions with SQLite, where writers do not queue but look again, at least every
	// 100 ms: a long import would otherwise keep a notification from being stored until its sender gives up.
	gap = 120 * time.Millisecond
)

// errChanged cannot be made good by importing the same content again, some lines of which count as read.
var errChanged = errors.New("the file was changed while it was read, so some of its rows may be missing: " +
	"put an empty line at its end and import that; payouts are known by their references")

// ImportConfig configures Import.
type ImportConfig struct {
	Store *store.Store
	// Queue gets a job for each new payout, in the transaction that stores it. nil leaves that to the sweep of a Queue.
	Queue Queue
	// Name is shown for the file.
	Name string
}

// Report says what became of the rows of a file: Rows is Imported + Known + Refused, which Import checks.
type Report struct {
	FileID   string // SHA-256 of the content
	Rows     int64
	Imported int64
	// Known rows are payouts that another file brought first.
	Known int64
	// Refused rows are no payouts; Store.RefusedRows says why.
	Refused int64
	// Earlier is how many of the rows an earlier import of this file, or that of another process, had dealt with.
	Earlier int64
}

// Import stores the payouts of a CSV file in transactions of some hundred rows. An import that was interrupted goes on
// where it ended when the same content is imported again; what was imported to its end changes nothing. A payout is
// known by its reference, in whichever file it stands.
//
// Rows that cannot be read are reported, and the others imported. So are the second row with a reference, and a last row
// without a line end, which may have been cut off. Where reading cannot go on, the error names the line:
// what stands before it is imported.
func Import(ctx context.Context, c ImportConfig, file io.ReadSeeker) (Report, error) {
	content, err := contentID(file)
	if err != nil {
		return Report{}, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return Report{}, err
	}
	hash := sha256.New()
	i := importer{ImportConfig: c}
	if i.reader, err = newReader(io.TeeReader(file, hash)); err != nil {
		return Report{}, err
	}
	if i.file, err = c.Store.AddPayoutFile(ctx, content, c.Name); err != nil {
		return Report{}, err
	}
	if err := i.rows(ctx); err != nil {
		if ctx.Err() != nil {
			return Report{}, ctx.Err() // the database says no more than that a transaction is over
		}
		return Report{}, err
	}
	if hex.EncodeToString(hash.Sum(nil)) != content {
		return Report{}, errChanged
	}
	return i.report(ctx)
}

func contentID(file io.ReadSeeker) (string, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// importer is one run of Import.
type importer struct {
	ImportConfig
	reader *reader
	file   store.PayoutFile

	seen, skipped int64 // rows of the file, and those of them that somebody else had stored
}

// rows imports row by row, in batches.
func (i *importer) rows(ctx context.Context) error {
	var batch []row
	for {
		next, err := i.reader.next()
		if errors.Is(err, io.EOF) {
			return i.store(ctx, batch, true)
		}
		if err != nil {
			return errors.Join(i.store(ctx, batch, false), fmt.Errorf("%w; the rows before it are imported", err))
		}
		i.seen++
		batch = append(batch, next)
		if len(batch) < batchRows {
			continue
		}
		if err := i.store(ctx, batch, false); err != nil {
			return err
		}
		batch = batch[:0]
	}
}

// store stores a batch, but for what an earlier import, or another process that imports the same file, has stored.
func (i *importer) store(ctx context.Context, rows []row, complete bool) error {
	for {
		b := store.PayoutBatch{FileID: i.file.ID, From: i.file.ReadLines, To: i.reader.end, Complete: complete}
		skipped := int64(0)
		for _, r := range rows {
			switch {
			case r.Line <= i.file.ReadLines:
				skipped++
			case r.refused != "":
				b.Refused = append(b.Refused, store.RefusedRow{Line: r.Line, Reason: r.refused})
			default:
				b.Rows = append(b.Rows, r.PayoutRow)
			}
		}
		if i.file.Complete || (skipped == int64(len(rows)) && !complete) {
			i.skipped += int64(len(rows))
			return nil
		}
		var enqueue enqueuer
		if i.Queue != nil {
			enqueue = i.Queue.Enqueue
		}
		err := i.Store.ImportPayouts(ctx, b, enqueue)
		if err == nil {
			i.file.ReadLines, i.file.Complete = b.To, complete
			i.skipped += skipped
			if i.Store.Postgres() || complete {
				return nil
			}
			return sleep(ctx, gap)
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if i.file, err = i.Store.PayoutFile(ctx, i.file.ID); err != nil {
			return err
		}
	}
}

// report counts in the database, and compares that with the rows of the file.
func (i *importer) report(ctx context.Context) (Report, error) {
	f, err := i.Store.PayoutFile(ctx, i.file.ID)
	if err != nil {
		return Report{}, err
	}
	r := Report{FileID: f.ID, Rows: i.seen, Imported: f.Imported, Known: f.Known, Refused: f.Refused, Earlier: i.skipped}
	if sum := r.Imported + r.Known + r.Refused; r.Rows != sum || r.Rows != f.ReadRows {
		return r, fmt.Errorf("the file has %d rows, but %d were dealt with: %d imported, %d known, %d refused",
			r.Rows, sum, r.Imported, r.Known, r.Refused)
	}
	return r, nil
}
