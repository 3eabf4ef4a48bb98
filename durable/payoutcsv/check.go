package payoutcsv

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/big"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// ErrUnexpected is wrapped by the error of a file with an unexpected number or sum of payouts.
var ErrUnexpected = errors.New("payoutcsv: not the expected payouts")

// ErrContradiction is wrapped by the error of a file with different amounts or destinations for one reference. [Import]
// does not store any payout of such a file, because the intended payout cannot be determined.
var ErrContradiction = errors.New("payoutcsv: one reference with different amounts or destinations")

// ErrTotalRow is wrapped by the error of a file whose last payout equals the sum of the amounts above it, or of the
// payouts above it, with or without subtotals. A sum has at least two amounts. Such a row is usually a total. If it is
// a payout, set ExpectRows or ExpectTotal.
var ErrTotalRow = errors.New("payoutcsv: the last payout is the sum of the rows above")

// keptRejections bounds Report.Rejections and Result.ConflictRows.
const keptRejections = 100

// Report counts the rows and payouts of a file.
type Report struct {
	// Rows is the sum of Payouts and Rejected. Empty rows do not count.
	Rows int64
	// Payouts is the number of valid rows. Total is the sum of their amounts, "0" if the file has no valid row, and
	// unset if the sum has more than 64 digits.
	Payouts int64
	Total   paymentsvc.Amount
	// Rejected is the number of other rows. It includes Duplicates, the rows with [Row].Duplicate.
	Rejected   int64
	Duplicates int64
	// Contradictions is the number of Duplicates that differ from the earlier row in amount or destination.
	Contradictions int64
	// Rejections has the first 100 rejected rows.
	Rejections []Row
	// Warnings has suspicious properties of the whole file, without a value of the file. They do not prevent an import.
	Warnings []string
}

// Check reads a file to its end and reports its rows and payouts. It does not store or send payouts.
//
// The error wraps [ErrContradiction], [ErrTotalRow], or [ErrUnexpected] if the number or sum of payouts differs from
// ExpectRows or ExpectTotal. The report is complete then. Check returns any other error from [Rows], with a report
// about the rows before the error.
func Check(file io.Reader, o Options) (Report, error) {
	return check(file, o, nil, func(Row) {})
}

// check does the same as [Check]. It also passes references to the function rows, and calls accepted with each payout.
func check(file io.Reader, o Options, references io.Writer, accepted func(Row)) (Report, error) {
	c := counter{scale: o.scale()}
	for row, err := range rows(file, o, references) {
		if err != nil {
			return c.report(), err
		}
		c.add(row)
		if row.Rejected == "" {
			accepted(row)
		}
	}
	report := c.report()
	return report, o.compare(report, c.totalRow)
}

// digester hashes payouts.
type digester struct {
	hash.Hash
	n int
}

// add adds a payout. It returns the hash of the batch if the batch now has batchRows payouts.
func (d *digester) add(row Row) (sum [sha256.Size]byte, full bool) {
	// No accepted text contains NUL.
	_, _ = fmt.Fprintf(d, "%d\x00%s\x00%s\x00%s\x00", row.Line, row.Reference, row.Amount.String(), row.Destination)
	d.n++
	if d.n < batchRows {
		return sum, false
	}
	sum = [sha256.Size]byte(d.Sum(nil))
	*d = digester{Hash: sha256.New()}
	return sum, true
}

// compare compares a report with the expected payouts. totalRow is the line of a last payout that may be a total, or 0.
func (o Options) compare(r Report, totalRow int64) error {
	rejected := many(r.Rejected, "row is", "rows are") + " rejected"
	if totalRow != 0 {
		rejected += fmt.Sprintf("; line %d is the sum of the rows above", totalRow)
	}
	switch {
	case r.Contradictions > 0:
		contradictions := many(r.Contradictions, "row contradicts", "rows contradict")
		return fmt.Errorf("%w: %s an earlier one", ErrContradiction, contradictions)
	case o.ExpectRows != 0 && r.Payouts != o.ExpectRows:
		return fmt.Errorf("%w: %s, want %d; %s", ErrUnexpected, many(r.Payouts, "payout", "payouts"), o.ExpectRows, rejected)
	case o.ExpectTotal.IsSet() && !r.Total.Equal(o.ExpectTotal):
		return fmt.Errorf("%w: a total of %s, want %s; %s", ErrUnexpected, r.Total, o.ExpectTotal, rejected)
	case totalRow != 0 && o.ExpectRows == 0 && !o.ExpectTotal.IsSet():
		return fmt.Errorf("%w: remove line %d, or set ExpectRows or ExpectTotal (-expect-rows, -expect-total)",
			ErrTotalRow, totalRow)
	}
	return nil
}

func many(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// counter counts rows, and makes the Report.
type counter struct {
	r        Report
	scale    int   // the number of decimals of a total
	all      sum   // the sum of all readable amounts
	accepted sum   // the sum of the payouts
	subtotal bool  // whether a row was the sum of the rows above
	totalRow int64 // the line of the last payout if it has the sum of the rows above, or 0
	// long counts the destinations with more digits than a spreadsheet keeps. rounded counts the long destinations with
	// only zeros after these digits.
	long, rounded int64
}

func (c *counter) add(row Row) {
	isTotal := row.value != nil && c.isTotal(row.value)
	c.subtotal = c.subtotal || isTotal
	c.all.add(row.value)
	c.r.Rows++
	if row.Rejected != "" {
		c.r.Rejected++
		if row.Duplicate {
			c.r.Duplicates++
		}
		if row.Contradicts {
			c.r.Contradictions++
		}
		if len(c.r.Rejections) < keptRejections {
			c.r.Rejections = append(c.r.Rejections, row)
		}
		return
	}
	c.r.Payouts++
	c.accepted.add(row.value)
	c.totalRow = 0
	if isTotal {
		c.totalRow = row.Line
	}
	if len(row.Destination) > spreadsheetDigits && strings.Trim(row.Destination, "0123456789") == "" {
		c.long++
		if strings.Trim(row.Destination[spreadsheetDigits:], "0") == "" {
			c.rounded++
		}
	}
}

// isTotal reports whether a value is the total of the rows above. If these include subtotals of all amounts, their sum
// is twice the total.
func (c *counter) isTotal(value *big.Rat) bool {
	return c.all.isTotal(value) || c.accepted.isTotal(value) ||
		c.subtotal && c.all.isTotal(new(big.Rat).Add(value, value))
}

// spreadsheetDigits is the number of digits that a spreadsheet keeps. A spreadsheet replaces further digits by zeros.
const spreadsheetDigits = 15

func (c *counter) report() Report {
	c.r.Total = c.accepted.amount(c.scale)
	c.r.Warnings = nil
	if c.long > 0 && c.rounded == c.long {
		c.r.Warnings = []string{"all destinations with more than 15 digits have zeros after the fifteenth digit, " +
			"as if a spreadsheet had rounded them: compare them with their source"}
	}
	return c.r
}

// sum is an exact sum of amounts.
type sum struct {
	rows  int
	total big.Rat
}

// add adds the value of an amount. It ignores nil, the value of an unset amount.
func (s *sum) add(value *big.Rat) {
	if value != nil {
		s.rows++
		s.total.Add(&s.total, value)
	}
}

// isTotal reports whether a value is the sum of at least two amounts. The sum of one amount is just an equal payout.
func (s *sum) isTotal(value *big.Rat) bool { return s.rows >= 2 && value.Cmp(&s.total) == 0 }

// amount returns the sum with scale decimals, or "0" if no amount was added. A sum of more than 64 digits is unset, so
// it does not equal any other amount.
func (s *sum) amount(scale int) paymentsvc.Amount {
	if s.rows == 0 {
		scale = 0
	}
	amount, _ := paymentsvc.ParseAmount(s.total.FloatString(scale))
	return amount
}

// exact returns the value of an amount, or nil for an unset amount. Callers reuse the value, because parsing costs more
// than adding.
func exact(amount paymentsvc.Amount) *big.Rat {
	r, _ := new(big.Rat).SetString(amount.String())
	return r
}

// duplicates has the first row of every reference, by 96 bits of the SHA-256 of the reference in lower case. A false
// match is practically impossible. A second spelling of a reference has an entry by its own hash.
type duplicates map[[12]byte]first

// first is the first row of a reference. values is the hash of its amount and destination, or 0 if one of them is
// invalid. spelling is the hash of its reference.
type first struct{ line, values, spelling uint32 }

// add adds a reference. earlier is the first row with the same reference, and spelled is the first row with another
// spelling of the reference. Each may be the zero value. key is the key of the reference in d.
func (d duplicates) add(reference string, line int64) (earlier, spelled first, key [12]byte) {
	folded := strings.ToLower(strings.ToUpper(reference)) // ς and σ have one upper case
	exact, lower := sha256.Sum256([]byte(reference)), sha256.Sum256([]byte(folded))
	spelling := binary.BigEndian.Uint32(exact[:4])
	key = [12]byte(lower[:12])
	if other, known := d[key]; known && other.spelling != spelling {
		spelled, key = other, [12]byte(exact[12:24]) // other bytes, because exact may equal lower
	}
	earlier, known := d[key]
	if !known {
		d[key] = first{line: uint32(min(line, 1<<32-1)), spelling: spelling} //nolint:gosec // bounded
	}
	return earlier, spelled, key
}

// valuesOf hashes the value of an amount and the destination. Equal amounts such as 1.5 and 1.50 have the same hash.
func valuesOf(amount *big.Rat, destination string) uint32 {
	sum := sha256.Sum256([]byte(amount.RatString() + "\x00" + destination))
	return max(1, binary.BigEndian.Uint32(sum[:4]))
}
