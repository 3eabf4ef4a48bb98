// Package payoutcsv checks files of payouts, imports them into a [durable.Store] and writes their results.
//
// A file is CSV as written by spreadsheets and banks, in UTF-8 or UTF-16, with or without a byte order mark. Commas,
// semicolons or tabs separate the columns, and lines end in LF, CR LF or CR. The first line that is not empty is a
// header with the columns reference, amount and destination, in any order; Options.Columns maps other names. A column
// without a name must be empty. A row is paid with exactly the values in the file, or is rejected. The package does not
// guess the original of a value rounded, shortened, replaced by an error or turned into a formula by a spreadsheet.
package payoutcsv

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/big"
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
	// Comma separates the columns. 0 detects a comma, a semicolon or a tab in the header, unless a line such as sep=;
	// precedes the header.
	Comma rune
	// DecimalComma reads 10,50 as ten and a half, and rejects a point. If it is false, a comma is rejected.
	DecimalComma bool
	// Scale is the maximum number of decimals of an amount, 2 by default. A negative number allows no decimals. The
	// default rejects 10.500, because some countries write ten thousand five hundred in this way.
	Scale int
	// Columns maps the keys reference, amount and destination to the names of these columns in the file. For example,
	// {"reference": "Beleg"} reads the reference from the column Beleg.
	Columns map[string]string
	// Ignore lists additional columns of the file. Any other column is an error, because it may contain payment data.
	Ignore []string
	// ExpectRows is the required number of payouts in the file, and ExpectTotal their required sum, both from the sender
	// of the file. 0 and an unset amount are not compared. If both are set and the amount is the last column, the last row
	// may lack a line end. Otherwise a last row without a line end is rejected, because a value may have been cut off. The
	// number and the sum do not show a cut reference or destination.
	ExpectRows  int64
	ExpectTotal paymentsvc.Amount
}

func (o Options) scale() int { return max(0, cmp.Or(o.Scale, 2)) }

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
	// Duplicate reports whether the row is rejected because an earlier row has the same reference, or has the reference
	// in another letter case and the same amount and destination.
	Duplicate bool
	// Contradicts reports whether a valid earlier row has the same reference but other values, see [ErrContradiction].
	Contradicts bool

	value *big.Rat // the value of the amount, even in a rejected row; nil if the amount cannot be read
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
// Rows stops after an error. The error reports invalid Options, a failure of the reader, an invalid header, a row
// without an end, or a value in a column without a name. Of the file's content, the error contains only column names.
func Rows(file io.Reader, o Options) iter.Seq2[Row, error] { return rows(file, o, nil) }

// rows does the same as [Rows]. If references is set, rows also writes the line and the reference of each well-formed
// row to it, even of a rejected row.
func rows(file io.Reader, o Options, references io.Writer) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		r, err := newReader(file, o)
		if err != nil {
			yield(Row{}, fmt.Errorf("payoutcsv: %w", err))
			return
		}
		for {
			row, err := r.next(references)
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

var (
	decimalComma = regexp.MustCompile(`^[0-9]+,[0-9]{1,2}$`)
	// exponentForm requires a fraction or a sign of the exponent, so that it does not match a reference such as 4e12.
	exponentForm = regexp.MustCompile(`^[+-]?[0-9]([.,][0-9]+[eE][+-]?|[eE][+-])[0-9]+$`)
)

// reader reads a file row by row.
type reader struct {
	Options
	lines   *lines
	csv     *csv.Reader
	before  int64             // lines before the header
	names   map[string]string // columns by the normal form of their names in the file
	columns map[string]int    // index by column
	unnamed []int             // indexes of columns without a name
	width   int
	seen    duplicates
}

// next returns the next row, or io.EOF after the last row.
func (r *reader) next(references io.Writer) (Row, error) {
	for {
		r.lines.taken = 0
		before := r.lines.count
		record, err := r.csv.Read()
		var parse *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return Row{}, io.EOF
		case errors.As(err, &parse):
			line := r.before + int64(parse.StartLine)
			return r.reject(Row{Line: line}, formReason(parse, len(record), r.width)), nil
		case err != nil:
			return Row{}, fmt.Errorf("line %d: %w", before+1, err)
		case !slices.ContainsFunc(record, func(s string) bool { return s != "" }):
			continue
		}
		first, _ := r.csv.FieldPos(0)
		line := r.before + int64(first)
		for _, i := range r.unnamed {
			if strings.TrimSpace(record[i]) != "" {
				return Row{}, fmt.Errorf("line %d: column %d has a value, but no name", line, i+1)
			}
		}
		if references != nil {
			_, _ = fmt.Fprintf(references, "%d %q\n", line, record[r.columns[columnReference]])
		}
		return r.check(line, record), nil
	}
}

func formReason(e *csv.ParseError, fields, width int) string {
	switch {
	case errors.Is(e.Err, csv.ErrFieldCount):
		return fmt.Sprintf("%s, want %d", many(int64(fields), "column", "columns"), width)
	case errors.Is(e.Err, csv.ErrBareQuote):
		return `a quotation mark within a value, such as ="1" of a spreadsheet`
	}
	return "an unclosed quotation mark, or text after a closing quotation mark"
}

// reject returns a rejected row. The reason includes the range of lines if quotation marks join several lines.
func (r *reader) reject(row Row, reason string) Row {
	if r.lines.count > row.Line {
		reason += fmt.Sprintf("; its quotation marks make one row of lines %d to %d", row.Line, r.lines.count)
	}
	return Row{Line: row.Line, Rejected: reason, value: row.value}
}

func (r *reader) check(line int64, record []string) Row {
	amount, amountReason := r.amount(record[r.columns[columnAmount]])
	row := Row{
		Line:        line,
		Reference:   strings.Clone(record[r.columns[columnReference]]), // record is reused
		Amount:      amount,
		Destination: strings.Clone(record[r.columns[columnDestination]]),
		value:       exact(amount),
	}
	if reason := checkText(row.Reference); reason != "" {
		return r.reject(row, "reference: "+reason)
	}
	earlier, spelled, key := r.seen.add(row.Reference, line)
	if reason := checkText(row.Destination); reason != "" {
		return r.reject(row, "destination: "+reason)
	}
	if amountReason != "" {
		return r.reject(row, "amount: "+amountReason)
	}
	expected := r.ExpectRows != 0 && r.ExpectTotal.IsSet() && r.columns[columnAmount] == r.width-1
	if !r.lines.ended && !expected {
		return r.reject(row, "the file ends in this row without a line end and may be cut off: end the line")
	}
	values := valuesOf(row.value, row.Destination)
	if earlier.line != 0 {
		again := r.reject(row, fmt.Sprintf("duplicate reference, already in line %d", earlier.line))
		again.Duplicate = true
		if earlier.values != 0 && earlier.values != values {
			again.Contradicts = true
			again.Rejected = fmt.Sprintf(
				"lines %d and %d have one reference with different amounts or destinations", earlier.line, line)
		}
		return again
	}
	r.seen[key] = first{r.seen[key].line, values, r.seen[key].spelling}
	if spelled.line != 0 && spelled.values != values { // an earlier row may have a third spelling
		_, spelled, _ = r.seen.add(fmt.Sprintf("%s\x00%d", row.Reference, values), line)
	}
	if spelled.line != 0 {
		again := r.reject(row, fmt.Sprintf(
			"the reference of line %d in other upper or lower case, with the same amount and destination", spelled.line))
		again.Duplicate = true
		return again
	}
	return row
}

const exponent = "a number with an exponent, as spreadsheets shorten long numbers"

// amount reads an amount, and returns the reason for a rejection, or "". A rejected amount may be unset.
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
		amount, _ = paymentsvc.ParseAmount(strings.Replace(text, ",", ".", 1))
		return amount, "a decimal comma: set DecimalComma (-decimal-comma) if all amounts have one"
	case err != nil:
		return paymentsvc.Amount{}, "not a number such as " + example +
			", without spaces, thousands separators and leading zeros"
	case strings.ContainsAny(text, "eE"):
		return paymentsvc.Amount{}, exponent
	}
	if _, decimals, _ := strings.Cut(amount.String(), "."); len(decimals) > r.scale() {
		return amount, fmt.Sprintf("%s, want at most %d, see Scale (-scale)",
			many(int64(len(decimals)), "decimal", "decimals"), r.scale())
	}
	if amount.Sign() <= 0 {
		return amount, "not above 0"
	}
	return amount, ""
}

// maxText is the maximum length of a reference or destination, in bytes. The interface document does not specify a
// limit (section 8).
const maxText = 255

// checkText returns the reason to reject a reference or destination, or "". It rejects text with invisible differences,
// and text changed by a spreadsheet.
func checkText(text string) string {
	switch {
	case text == "":
		return "empty"
	case len(text) > maxText:
		return fmt.Sprintf("more than %d bytes", maxText)
	case !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError):
		return "neither UTF-8 nor UTF-16"
	case isSpreadsheetValue(text):
		return "an error or a missing value of a spreadsheet, such as #N/A, ### or null"
	case !norm.NFC.IsNormalString(text):
		return "not in Unicode NFC, such as an é that is two characters: convert the file to NFC"
	case strings.ContainsFunc(text, invisible):
		return "a line end, a combining mark or another invisible character"
	case text != strings.TrimSpace(text):
		return "white space at its beginning or end"
	case text[0] == '=' || text[0] == '\'':
		return "begins with = or an apostrophe, as a spreadsheet writes formulas and text"
	case exponentForm.MatchString(text):
		return exponent
	}
	return ""
}

// spreadsheetValues are the texts that spreadsheets and programs write for an error or a missing value, in lower case
// and without white space and the marks ¡ and ¿ of Spanish.
var spreadsheetValues = []string{
	"#n/a", "#ref!", "#value!", "#name?", "#div/0!", "#num!", "#null!", // English
	"#spill!", "#calc!", "#field!", "#getting_data", "#error!",
	"#nv", "#bezug!", "#wert!", "#zahl!", "#überlauf!", "#feld!", // German, with #NAME?, #DIV/0! and #NULL!
	"#valeur!", "#nom?", "#nombre!", "#nul!", "#propagation!", "#epars!", // French
	"#н/д", "#ссылка!", "#знач!", "#имя?", "#дел/0!", "#число!", "#пусто!", "#перенос!", // Russian
	"#n/d", "#valor!", "#nombre?", "#núm!", "#nulo!", "#desbordamiento!", // Spanish
	"nan", "null", "none", "undefined", "(null)", "<na>", // programs
}

// errorNumber matches an error of LibreOffice, such as Err:502.
var errorNumber = regexp.MustCompile(`^(err|fehler|erreur|ошибка):[0-9]{3}$`)

// isSpreadsheetValue reports whether the whole text is an error of a spreadsheet or a missing value.
func isSpreadsheetValue(text string) bool {
	key := strings.TrimSpace(norm.NFKC.String(text)) // NFKC converts full-width characters and special spaces
	if strings.Trim(key, "#") == "" {
		return key != "" // a column was too narrow for its number
	}
	if strings.HasPrefix(key, "#") || strings.Contains(key, ":") {
		key = strings.Map(func(c rune) rune {
			if unicode.IsSpace(c) || c == '¡' || c == '¿' {
				return -1
			}
			return c
		}, key)
	}
	key = strings.ToLower(key)
	return slices.Contains(spreadsheetValues, key) || errorNumber.MatchString(key)
}

// invisible reports whether r is invisible to readers. Two references that differ only in invisible characters would
// both be paid.
func invisible(r rune) bool {
	const brailleBlank = '\u2800'
	return !unicode.IsPrint(r) || r == brailleBlank ||
		unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Default_Ignorable_Code_Point)
}
