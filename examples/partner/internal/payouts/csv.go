// Package payouts pays the payouts of a CSV file. A row of the file becomes a row of the database, is claimed there
// before it is sent to the service, and what became of it is recorded, so that several processes may work on one
// database, and any of them may die at any moment, without a payout sent twice or lost.
package payouts

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

// The columns of a file, in any order. The first line names them.
const (
	columnReference   = "reference"   // the partner's own name of the payout: one is paid once
	columnAmount      = "amount"      // exact decimal text, above 0
	columnDestination = "destination" // the recipient's account
)

const (
	// maxRecord bounds how much of a file is in memory for one row: a quotation mark that is never closed would
	// otherwise take in the rest of it.
	maxRecord = 1 << 20
	// maxText bounds the length of a reference and of a destination, in bytes. It is this example's own choice: the
	// interface document shows no limits (section 8).
	maxText = 255
)

var (
	errUnfinished = fmt.Errorf("no row ends within %d bytes, probably for a quotation mark that is not closed", maxRecord)
	// columnName is what may be repeated in an error of the header.
	columnName = regexp.MustCompile(`^[A-Za-z][A-Za-z _-]{0,39}$`)
	// exponentForm is how programs write long numbers, and the digits that are missing in it are lost. It has a sign or a
	// fraction, so that a reference such as 4e12 is none.
	exponentForm = regexp.MustCompile(`^[+-]?[0-9]([.,][0-9]+[eE][+-]?|[eE][+-])[0-9]+$`)
)

// row is one row of a file: a payout, or the reason why it is none.
type row struct {
	store.PayoutRow
	refused string // holds nothing of the row; "" for a payout
}

// reader reads a file row by row, and holds no more of it than the row.
type reader struct {
	lines   lines
	csv     *csv.Reader
	columns map[string]int // name to index
	end     int64          // the last line of the rows so far
}

// newReader reads the header. Its errors hold nothing of the file but names of columns.
func newReader(file io.Reader) (*reader, error) {
	r := &reader{lines: lines{r: bufio.NewReaderSize(file, maxRecord)}}
	if err := r.lines.skipByteOrderMark(); err != nil {
		return nil, err
	}
	r.csv = csv.NewReader(&r.lines)
	r.csv.ReuseRecord = true
	header, err := r.csv.Read() // sets how many fields the rows have
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file is empty: its first line names the columns reference, amount and destination")
	case errors.As(err, new(*csv.ParseError)):
		return nil, errors.New("line 1: the names of the columns cannot be read")
	case err != nil:
		return nil, err
	}
	r.end = r.lines.count
	r.columns, err = columns(header)
	return r, err
}

// columns finds each column once. A foreign one is refused: it may hold what was meant to be paid.
func columns(header []string) (map[string]int, error) {
	names := []string{columnReference, columnAmount, columnDestination}
	found := map[string]int{}
	foreign, twice := -1, ""
	for i, name := range header {
		key := strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains(names, key) {
			foreign = i
			continue
		}
		if _, ok := found[key]; ok {
			twice = key
		}
		found[key] = i
	}
	switch {
	case len(found) == 0:
		// The line may be a row: nothing of it is repeated.
		return nil, errors.New("line 1 names no column: it must hold reference, amount and destination, with commas between")
	case foreign >= 0 && columnName.MatchString(header[foreign]):
		return nil, fmt.Errorf("line 1: unknown column %q; the columns are reference, amount and destination", header[foreign])
	case foreign >= 0:
		return nil, fmt.Errorf("line 1: column %d has no name; the columns are reference, amount and destination", foreign+1)
	case twice != "":
		return nil, fmt.Errorf("line 1: column %q stands there twice", twice)
	}
	for _, name := range names {
		if _, ok := found[name]; !ok {
			return nil, fmt.Errorf("line 1: column %q is missing", name)
		}
	}
	return found, nil
}

// next gives the next row, io.EOF behind the last one, and any other error where reading cannot go on; that one names
// the line.
func (r *reader) next() (row, error) {
	r.lines.taken = 0
	record, err := r.csv.Read()
	var parse *csv.ParseError
	switch {
	case err == nil:
		r.end = r.lines.count
		line, _ := r.csv.FieldPos(0)
		if !r.lines.ended {
			return refusedRow(line, cutOff), nil
		}
		return r.check(line, record), nil
	case errors.Is(err, io.EOF):
		return row{}, io.EOF
	case errors.As(err, &parse):
		r.end = r.lines.count
		return refusedRow(parse.StartLine, r.reason(parse, len(record))), nil
	default:
		return row{}, fmt.Errorf("line %d: %w", r.end+1, err)
	}
}

const (
	// cutOff is said of a last row without a line end: 10 may have been 1000.00.
	cutOff = "the file ends in this row, without a line end, so that it may have been cut off"
	// rounded is said of a number in exponent form.
	rounded = "a number in exponent form, as spreadsheets write long numbers"
)

func refusedRow(line int, reason string) row {
	return row{PayoutRow: store.PayoutRow{Line: int64(line)}, refused: reason}
}

// reason says what is wrong with the form of a row, and which lines went with it: a quotation mark that is not closed
// takes in the lines up to the next one.
func (r *reader) reason(e *csv.ParseError, fields int) string {
	var reason string
	switch {
	case errors.Is(e.Err, csv.ErrFieldCount):
		reason = fmt.Sprintf("%d columns instead of %d", fields, len(r.columns))
	case errors.Is(e.Err, csv.ErrBareQuote):
		reason = "a quotation mark inside a value that does not begin with one"
	default:
		reason = "a quotation mark that is not closed, or text behind one that is"
	}
	return reason + r.span(e.StartLine)
}

// span names the lines of a row that has more than one.
func (r *reader) span(start int) string {
	if r.lines.count <= int64(start) {
		return ""
	}
	return fmt.Sprintf("; lines %d to %d are one row by their quotation marks", start, r.lines.count)
}

func (r *reader) check(line int, record []string) row {
	p := store.PayoutRow{
		Line:        int64(line),
		Reference:   record[r.columns[columnReference]],
		Destination: record[r.columns[columnDestination]],
	}
	if reason := checkText(p.Reference); reason != "" {
		return refusedRow(line, "reference: "+reason+r.span(line))
	}
	if reason := checkText(p.Destination); reason != "" {
		return refusedRow(line, "destination: "+reason+r.span(line))
	}
	text := record[r.columns[columnAmount]]
	amount, err := paymentsvc.ParseAmount(text)
	if err != nil {
		return refusedRow(line, "amount: not a number such as 10.50"+r.span(line))
	}
	if strings.ContainsAny(text, "eE") {
		return refusedRow(line, "amount: "+rounded)
	}
	if amount.Sign() <= 0 {
		return refusedRow(line, "amount: not above 0")
	}
	p.Amount = amount
	return row{PayoutRow: p}
}

// checkText refuses what a reader of the file would not see: it is paid as it stands there, or not at all.
func checkText(text string) string {
	switch {
	case text == "":
		return "empty"
	case len(text) > maxText:
		return fmt.Sprintf("more than %d bytes", maxText)
	case !utf8.ValidString(text):
		return "not UTF-8"
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "a line end or another character that cannot be seen"
	case text != strings.TrimSpace(text):
		return "white space around it"
	case exponentForm.MatchString(text):
		return rounded
	}
	return ""
}

// lines hands a file on by lines, so that the lines of a row are known, and a row has a bound.
type lines struct {
	r     *bufio.Reader // as large as the longest line
	rest  []byte        // of the line that was read last
	count int64         // lines read
	ended bool          // the line that was read last has a line end
	taken int           // bytes read for this row, without the empty lines before it
}

func (l *lines) skipByteOrderMark() error {
	mark := []byte("\ufeff")
	begin, err := l.r.Peek(len(mark))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if slices.Equal(begin, mark) {
		_, err = l.r.Discard(len(mark))
		return err
	}
	return nil
}

// Read gives at most the rest of one line.
func (l *lines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		line, err := l.r.ReadSlice('\n')
		if l.taken > 0 || !empty(line) {
			l.taken += len(line)
		}
		if errors.Is(err, bufio.ErrBufferFull) || l.taken > maxRecord {
			return 0, errUnfinished
		}
		if len(line) == 0 {
			return 0, err
		}
		l.rest = line
		l.count++
		l.ended = err == nil
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// empty says whether a line is one that encoding/csv passes over between rows.
func empty(line []byte) bool { return string(line) == "\n" || string(line) == "\r\n" }
