package payoutcsv

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc/durable"
)

// WriteResults writes what became of the payouts that f selects, as CSV with one row per payout, the newest first: its
// reference, by which to match it, its line, amount, state, order_id, the service's error code, and why it needs review.
// Destinations are not written. For the payouts of a file, set f.Batch to [Result].Batch.
//
// A text that a spreadsheet would take for a formula gets an apostrophe before it, but for the reference.
func WriteResults(ctx context.Context, w io.Writer, store *durable.Store, f durable.Filter) error {
	f.Kind = durable.KindPayout
	out := csv.NewWriter(w)
	err := out.Write([]string{columnReference, "line", columnAmount, "state", "order_id", "error_code", "review"})
	if err != nil {
		return fmt.Errorf("payoutcsv: %w", err)
	}
	for row, err := range store.Rows(ctx, f) {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDatabase, err)
		}
		record := []string{
			row.Reference, strconv.FormatInt(row.Line, 10), row.Amount.String(), string(row.State),
			plain(row.OrderID), plain(row.Refusal), plain(row.Attention),
		}
		if err := out.Write(record); err != nil {
			return fmt.Errorf("payoutcsv: %w", err)
		}
	}
	if out.Flush(); out.Error() != nil {
		return fmt.Errorf("payoutcsv: %w", out.Error())
	}
	return nil
}

func plain(text string) string {
	if strings.IndexAny(text, "=+-@\t\r") == 0 {
		return "'" + text
	}
	return text
}
