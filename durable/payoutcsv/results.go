package payoutcsv

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc/durable"
)

// WriteResults writes the results of the payouts selected by f as CSV, with one row per payout, in the order of f. It
// ignores f.Kind. The columns are reference, line, amount, state, order_id, error_code (from the service), review (the
// reason for a review), user_data and held. Match the rows by reference. Destinations are not written.
// [WriteFileResults] writes the results of a file.
//
// If [durable.Store.Prune] has deleted payouts of f.Batch, the last line has the state "pruned", and the number of
// deleted payouts in the review column.
//
// A spreadsheet would calculate a value such as +1+1, @SUM(1) or =1. Some spreadsheets also split a;=1 at the
// semicolon, even within quotation marks. So, at the beginning of a reference, order_id, error code or review reason,
// and after a semicolon in it, the package inserts an apostrophe before = + - @, their full-width forms and an
// apostrophe. White space and control characters before = + - @ stay between the inserted apostrophe and the sign.
// [Unescape] restores the value.
func WriteResults(ctx context.Context, w io.Writer, store *durable.Store, f durable.Filter) error {
	f.Kind = durable.KindPayout
	out := newResults(w)
	for row, err := range store.Rows(ctx, f) {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDatabase, err)
		}
		if err := out.Write(record(row)); err != nil {
			return fmt.Errorf("payoutcsv: %w", err)
		}
	}
	if f.Batch != "" {
		counts, err := store.Counts(ctx, durable.Filter{Batch: f.Batch, Limit: 1}) // for the number of pruned payouts
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDatabase, err)
		}
		if counts.Pruned > 0 {
			deleted := many(counts.Pruned, "payout", "payouts")
			_ = out.Write([]string{"", "", "", "pruned", "", "", deleted, "", ""}) // Error reports it
		}
	}
	return flush(out)
}

// WriteFileResults writes the columns of [WriteResults] for each row of a file, in the order of its lines. It finds a
// payout by its reference, even if the payout was imported with another file. The state of any other row is "rejected
// row", "not imported", "pruned" or "conflict". [durable.Store.Prune] has deleted a pruned payout. A conflict has the
// reference of a payout with another amount or destination. The review column has the reason for a rejected row or a
// conflict.
//
// WriteFileResults returns an error of [Rows] or w, or an error wrapping [ErrDatabase].
func WriteFileResults(ctx context.Context, w io.Writer, store *durable.Store, file io.Reader, o Options) error {
	out := newResults(w)
	var part []Row
	for row, err := range Rows(file, o) {
		if err != nil {
			return err
		}
		part = append(part, row)
		if len(part) < batchRows {
			continue
		}
		if err := writePart(ctx, out, store, part); err != nil {
			return err
		}
		part = part[:0]
	}
	if err := writePart(ctx, out, store, part); err != nil {
		return err
	}
	return flush(out)
}

func writePart(ctx context.Context, out *csv.Writer, store *durable.Store, part []Row) error {
	payouts := make([]durable.NewPayout, 0, len(part))
	for _, row := range part {
		payouts = append(payouts, durable.NewPayout{
			Reference: row.Reference, Amount: row.Amount, Destination: row.Destination,
		})
	}
	stored, err := store.Compare(ctx, payouts...)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDatabase, err)
	}
	for n, row := range part {
		was := stored[n].Row
		was.Line = row.Line
		if row.Rejected != "" || stored[n].Err != nil {
			was = durable.Row{Line: row.Line, Reference: row.Reference, Amount: row.Amount}
		}
		switch {
		case row.Rejected != "":
			was.State, was.ReviewReason = "rejected row", row.Rejected
		case errors.Is(stored[n].Err, durable.ErrNotFound):
			was.State = "not imported"
		case errors.Is(stored[n].Err, durable.ErrPruned):
			was.State = "pruned"
		case stored[n].Err != nil:
			was.State, was.ReviewReason, was.UserData = "conflict", conflict, stored[n].Row.UserData
		}
		_ = out.Write(record(was)) // Error reports it
	}
	return nil
}

func newResults(w io.Writer) *csv.Writer {
	out := csv.NewWriter(w)
	_ = out.Write([]string{ // Error reports it
		columnReference, "line", columnAmount, "state", "order_id", "error_code", "review", "user_data", "held",
	})
	return out
}

func record(row durable.Row) []string {
	held := ""
	if row.Held {
		held = "held"
	}
	return []string{
		escaped(row.Reference), strconv.FormatInt(row.Line, 10), row.Amount.String(), string(row.State),
		escaped(row.OrderID), escaped(row.ErrorCode), escaped(row.ReviewReason), row.UserData, held,
	}
}

func flush(out *csv.Writer) error {
	out.Flush()
	if out.Error() != nil {
		return fmt.Errorf("payoutcsv: %w", out.Error())
	}
	return nil
}

// Unescape returns the original of a reference, order_id, error code or review reason of [WriteResults] or
// [WriteFileResults]. It removes one apostrophe at the beginning and one after each semicolon.
func Unescape(text string) string {
	parts := strings.SplitAfter(text, ";")
	for i, part := range parts {
		parts[i] = strings.TrimPrefix(part, "'")
	}
	return strings.Join(parts, "")
}

// escaped returns text with an apostrophe before each part that a spreadsheet may calculate. Quotation marks would not
// prevent the calculation, because some spreadsheets split a line at each semicolon, even within quotation marks.
func escaped(text string) string {
	parts := strings.SplitAfter(text, ";")
	for i, part := range parts {
		value := strings.TrimLeftFunc(part, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) })
		first, size := utf8.DecodeRuneInString(value)
		if strings.HasPrefix(part, "'") || size > 0 && strings.ContainsRune("=+-@＝＋－＠", first) {
			parts[i] = "'" + part
		}
	}
	return strings.Join(parts, "")
}
