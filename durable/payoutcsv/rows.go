// Package payoutcsv checks files of payouts, imports them into a [durable.Store] and writes their results.
//
// A file is CSV as written by spreadsheets and banks, in UTF-8 or UTF-16, with or without a byte order mark. Commas,
// semicolons or tabs separate the columns, and lines end in LF, CR LF or CR. The first line is a header with the
// columns reference, amount and destination, in any order. A row is paid with exactly the values in the file, or is
// rejected. The package does not guess the original of a value rounded, shortened or turned into a formula by a
// spreadsheet.
package payoutcsv

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/paymentsvc/paymentsvc"
)

// Options configures the format and the expected payouts of a file. The zero value accepts amounts such as 10.50, with
// at most two decimals.
type Options struct {
	// Comma separates the columns. 0 detects a comma, a semicolon or a tab in the header.
	Comma rune
	// DecimalComma reads 10,50 as ten and a half, and rejects a point. Without it a comma is rejected.
	DecimalComma bool
	// Scale is the maximum number of decimals of an amount, 2 by default. A negative number allows no decimals. The
	// default rejects 10.500, because some countries write ten thousand five hundred in this way.
	Scale int
	// Ignore lists additional columns of the file. Any other column is an error, because it may contain payment data.
	Ignore []string
	// ExpectRows is the required number of payouts in the file, and ExpectTotal their required sum, both from the sender
	// of the file. 0 and an unset amount are not compared. If both are set, the last row may lack a line end. Such a row
	// is rejected otherwise, because it may have been cut off.
	ExpectRows  int64
	ExpectTotal paymentsvc.Amount
}

func (o Options) scale() int {
	switch {
	case o.Scale == 0:
		return 2
	case o.Scale < 0:
		return 0
	}
	return o.Scale
}

// Row is one row of a file, with a payout or the reason for its rejection. Packages fmt, log/slog and encoding/json do
// not print its reference, amount and destination.
type Row struct {
	// Line is the line of the file where the row begins, from 1.
	Line        int64
	Reference   string
	Amount      paymentsvc.Amount
	Destination string
	// Rejected is the reason for a rejection, in one line without any value of the row, or "" for a payout. In a rejected
	// row, Reference, Amount and Destination are empty.
	Rejected string
	// Duplicate reports whether the row is rejected because it repeats the reference of an earlier row.
	Duplicate bool
	// Contradicts reports whether the earlier row has another amount or destination, see [ErrContradiction].
	Contradicts bool
}

// Format writes the result of [Row.String] for every verb.
func (r Row) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// String returns the line number, and the reason for a rejection.
func (r Row) String() string {
	if r.Rejected == "" {
		return fmt.Sprintf("line %d", r.Line)
	}
	return fmt.Sprintf("line %d: %s", r.Line, r.Rejected)
}

// LogValue returns [Row.String] for log/slog.
func (r Row) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalJSON always returns [paymentsvc.ErrSensitive], because loggers use encoding/json.
func (r Row) MarshalJSON() ([]byte, error) { return nil, paymentsvc.ErrSensitive }

// Rows reads a file row by row, and skips empty rows. To find duplicates it keeps about 50 bytes per reference, with
// hashes and a line number.
//
// Rows stops after an error. The error reports a failure of the reader, an invalid header, or a row without an end. Of
// the file's content, the error contains only column names.
func Rows(file io.Reader, o Options) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		r, err := newReader(file, o)
		if err != nil {
			yield(Row{}, fmt.Errorf("payoutcsv: %w", err))
			return
		}
		for {
			row, err := r.next()
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(Row{}, fmt.Errorf("payoutcsv: %w", err))
				return
			case !yield(row, nil):
				return
			}
		}
	}
}

const (
	columnReference   = "reference"
	columnAmount      = "amount"
	columnDestination = "destination"
)

var (
	// columnName matches the column names allowed in an error.
	columnName   = regexp.MustCompile(`^[a-z][a-z _-]{0,39}$`)
	decimalComma = regexp.MustCompile(`^[0-9]+,[0-9]{1,2}$`)
	// exponentForm requires a sign or a fraction, so that it does not match a reference such as 4e12.
	exponentForm = regexp.MustCompile(`^[+-]?[0-9]([.,][0-9]+[eE][+-]?|[eE][+-])[0-9]+$`)
)

// maxText is the maximum length of a reference or destination, in bytes. The interface document does not specify a
// limit (section 8).
const maxText = 255

// reader reads a file row by row.
type reader struct {
	Options
	lines   *lines
	csv     *csv.Reader
	before  int64          // lines before the header
	columns map[string]int // index by name
	width   int
	seen    duplicates
}

func newReader(file io.Reader, o Options) (*reader, error) {
	in, err := newLines(file)
	if err != nil {
		return nil, err
	}
	r := &reader{Options: o, lines: in, seen: duplicates{}}
	if err := r.findHeader(); err != nil {
		return nil, err
	}
	r.csv = csv.NewReader(in)
	r.csv.Comma, r.csv.ReuseRecord = r.Comma, true
	header, err := r.csv.Read() // sets the number of fields of every row
	switch {
	case errors.As(err, new(*csv.ParseError)):
		return nil, r.atHeader("the names of the columns cannot be read")
	case err != nil:
		return nil, err
	}
	r.width = len(header)
	return r, r.findColumns(header)
}

// findHeader skips empty lines and a sep= line before the header, and chooses the separator that finds the most
// columns.
func (r *reader) findHeader() error {
	for {
		switch err := r.lines.advance(); {
		case errors.Is(err, io.EOF):
			return errors.New("the file is empty: its first line names the columns reference, amount and destination")
		case err != nil:
			return err
		}
		line := strings.TrimSpace(string(r.lines.rest))
		if declared, ok := strings.CutPrefix(line, "sep="); ok && utf8.RuneCountInString(declared) == 1 && r.Comma == 0 {
			r.Comma, _ = utf8.DecodeRuneInString(declared)
			line = ""
		}
		if line != "" {
			break
		}
	}
	r.before = r.lines.count - 1
	if r.Comma == 0 {
		r.Comma = separator(string(r.lines.rest))
	}
	if r.Comma == '"' || r.Comma == '\r' || r.Comma == '\n' || !utf8.ValidRune(r.Comma) || r.Comma == utf8.RuneError {
		return errors.New("the separator of the columns is not usable")
	}
	return nil
}

func separator(header string) rune {
	best, most := ',', 0
	for _, comma := range []rune{',', ';', '\t'} {
		found := 0
		for name := range strings.SplitSeq(header, string(comma)) {
			if isColumn(normal(strings.Trim(strings.TrimSpace(name), `"`))) {
				found++
			}
		}
		if found > most {
			best, most = comma, found
		}
	}
	return best
}

func normal(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

func isColumn(name string) bool {
	return name == columnReference || name == columnAmount || name == columnDestination
}

func (r *reader) atHeader(format string, values ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{r.before + 1}, values...)...)
}

// findColumns finds each column once. Its errors contain only text in the form of a column name, because the line may
// be a row of payment data.
func (r *reader) findColumns(header []string) error {
	r.columns = map[string]int{}
	var foreign error
	for i, text := range header {
		key := normal(text)
		switch {
		case isColumn(key):
			if _, twice := r.columns[key]; twice {
				return r.atHeader("duplicate column %q", key)
			}
			r.columns[key] = i
		case key != "" && slices.ContainsFunc(r.Ignore, func(s string) bool { return normal(s) == key }):
		case columnName.MatchString(key):
			foreign = r.atHeader("unknown column %q, want reference, amount and destination", key)
		default:
			foreign = r.atHeader("column %d has no name, want reference, amount and destination", i+1)
		}
	}
	if len(r.columns) == 0 {
		return r.atHeader("no names of columns, want reference, amount and destination")
	}
	if foreign != nil {
		return foreign
	}
	for _, key := range []string{columnReference, columnAmount, columnDestination} {
		if _, ok := r.columns[key]; !ok {
			return r.atHeader("column %q is missing", key)
		}
	}
	return nil
}

// next returns the next row, or io.EOF after the last one.
func (r *reader) next() (Row, error) {
	for {
		r.lines.taken = 0
		before := r.lines.count
		record, err := r.csv.Read()
		var parse *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return Row{}, io.EOF
		case errors.As(err, &parse):
			return r.rejected(r.before+int64(parse.StartLine), formReason(parse, len(record), r.width)), nil
		case err != nil:
			return Row{}, fmt.Errorf("line %d: %w", before+1, err)
		case !slices.ContainsFunc(record, func(s string) bool { return s != "" }):
			continue
		}
		line, _ := r.csv.FieldPos(0)
		return r.check(r.before+int64(line), record), nil
	}
}

func formReason(e *csv.ParseError, fields, width int) string {
	switch {
	case errors.Is(e.Err, csv.ErrFieldCount):
		return fmt.Sprintf("%d columns, want %d", fields, width)
	case errors.Is(e.Err, csv.ErrBareQuote):
		return `a quotation mark within a value, such as ="1" of a spreadsheet`
	}
	return "a quotation mark that is not closed, or text after one that is"
}

// rejected returns a rejected row. The reason includes the range of lines if quotation marks join several lines.
func (r *reader) rejected(line int64, reason string) Row {
	if r.lines.count > line {
		reason += fmt.Sprintf("; its quotation marks make one row of lines %d to %d", line, r.lines.count)
	}
	return Row{Line: line, Rejected: reason}
}

func (r *reader) check(line int64, record []string) Row {
	row := Row{
		Line:        line,
		Reference:   strings.Clone(record[r.columns[columnReference]]), // record is reused
		Destination: strings.Clone(record[r.columns[columnDestination]]),
	}
	if reason := checkText(row.Reference); reason != "" {
		return r.rejected(line, "reference: "+reason)
	}
	earlier, duplicate, key := r.seen.add(row.Reference, line)
	if reason := checkText(row.Destination); reason != "" {
		return r.rejected(line, "destination: "+reason)
	}
	var reason string
	if row.Amount, reason = r.amount(record[r.columns[columnAmount]]); reason != "" {
		return r.rejected(line, "amount: "+reason)
	}
	if !r.lines.ended && (r.ExpectRows == 0 || !r.ExpectTotal.IsSet()) {
		return r.rejected(line, "the file ends in this row without a line end and may be cut off: "+
			"end the line, or set ExpectRows and ExpectTotal (-expect-rows, -expect-total)")
	}
	if duplicate {
		again := r.rejected(line, fmt.Sprintf("duplicate reference, already in line %d", earlier.line))
		if again.Duplicate = true; earlier.values != 0 && earlier.values != valuesOf(row) {
			again.Contradicts = true
			again.Rejected = fmt.Sprintf("lines %d and %d have one reference with different values", earlier.line, line)
		}
		return again
	}
	r.seen[key] = first{r.seen[key].line, valuesOf(row)}
	return row
}

const exponent = "a number with an exponent, as spreadsheets shorten long numbers"

// amount reads an amount, or returns the reason for its rejection.
func (r *reader) amount(text string) (paymentsvc.Amount, string) {
	example := "10.50"
	if r.DecimalComma {
		example = "10,50"
	}
	if exponentForm.MatchString(text) {
		return paymentsvc.Amount{}, exponent
	}
	if r.DecimalComma {
		if strings.Contains(text, ".") {
			text = "" // 1.000 is a thousand here
		}
		text = strings.Replace(text, ",", ".", 1)
	}
	amount, err := paymentsvc.ParseAmount(text)
	switch {
	case err != nil && !r.DecimalComma && decimalComma.MatchString(text):
		return paymentsvc.Amount{}, "a decimal comma: set DecimalComma (-decimal-comma) if all amounts have one"
	case err != nil:
		return paymentsvc.Amount{}, "not a number such as " + example + ", without spaces, thousands separators and leading zeros"
	case strings.ContainsAny(text, "eE"):
		return paymentsvc.Amount{}, exponent
	}
	if _, decimals, _ := strings.Cut(amount.String(), "."); len(decimals) > r.scale() {
		return paymentsvc.Amount{}, fmt.Sprintf("%d decimals, want at most %d, see Scale (-scale)", len(decimals), r.scale())
	}
	if amount.Sign() <= 0 {
		return paymentsvc.Amount{}, "not above 0"
	}
	return amount, ""
}

// checkText rejects text with invisible differences, and text changed by a spreadsheet.
func checkText(text string) string {
	switch {
	case text == "":
		return "empty"
	case len(text) > maxText:
		return fmt.Sprintf("more than %d bytes", maxText)
	case !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError):
		return "neither UTF-8 nor UTF-16"
	case !norm.NFC.IsNormalString(text):
		return "not in Unicode NFC, such as an é that is two characters: convert the file to NFC"
	case strings.ContainsFunc(text, invisible):
		return "a line end, a combining mark or another invisible character"
	case text != strings.TrimSpace(text):
		return "white space around it"
	case text[0] == '=' || text[0] == '\'':
		return "begins with = or an apostrophe, as a spreadsheet writes formulas and text"
	case exponentForm.MatchString(text):
		return exponent
	}
	return ""
}

// invisible reports whether r is invisible to readers. Two references with only an invisible difference would be paid
// twice.
func invisible(r rune) bool {
	const brailleBlank = '\u2800'
	return !unicode.IsPrint(r) || r == brailleBlank ||
		unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Default_Ignorable_Code_Point)
}
