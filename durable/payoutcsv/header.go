package payoutcsv

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	columnReference   = "reference"
	columnAmount      = "amount"
	columnDestination = "destination"
)

var (
	columns = []string{columnReference, columnAmount, columnDestination}
	// columnName matches the column names allowed in an error. It has no digit, because a digit may belong to a card
	// number.
	columnName = regexp.MustCompile(`^\p{L}[\p{L} _-]{0,39}$`)
)

// maxAbove is the maximum number of lines that notHeader reads to find a header below other lines.
const maxAbove = 50

func newReader(file io.Reader, o Options) (*reader, error) {
	names, err := o.columnNames()
	if err != nil {
		return nil, err
	}
	in, err := newLines(file)
	if err != nil {
		return nil, err
	}
	r := &reader{Options: o, lines: in, names: names, seen: duplicates{}}
	if err := r.findHeader(); err != nil {
		return nil, err
	}
	line := string(r.lines.rest)
	if err := r.readHeader(); err != nil {
		return nil, r.notHeader(line, err)
	}
	return r, nil
}

// columnNames returns the columns by their names in the file.
func (o Options) columnNames() (map[string]string, error) {
	names := map[string]string{}
	for key := range o.Columns {
		if !slices.Contains(columns, key) {
			return nil, errors.New("Options.Columns (-columns) renames an unknown column, want reference, amount or destination")
		}
	}
	for _, column := range columns {
		name, mapped := o.Columns[column]
		if !mapped {
			name = column
		}
		name = normal(name)
		if name == "" || names[name] != "" {
			return nil, fmt.Errorf("Options.Columns (-columns) has an empty or duplicate name for the column %s", column)
		}
		names[name] = column
	}
	return names, nil
}

// normal returns a column name in NFC and lower case, without the white space around it.
func normal(name string) string { return strings.ToLower(strings.TrimSpace(norm.NFC.String(name))) }

// findHeader skips empty lines and a sep= line before the header. Without Options.Comma, the sep= line sets the
// separator. Without both, findHeader chooses the separator that finds the most columns.
func (r *reader) findHeader() error {
	for {
		switch err := r.lines.advance(); {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the file is empty, want a first line with the column names %s", r.wanted())
		case err != nil:
			return err
		}
		line := strings.TrimSpace(string(r.lines.rest))
		if declared, ok := strings.CutPrefix(line, "sep="); ok && utf8.RuneCountInString(declared) == 1 {
			named, _ := utf8.DecodeRuneInString(declared)
			r.Comma, line = cmp.Or(r.Comma, named), ""
		}
		if line != "" {
			break
		}
	}
	r.before = r.lines.count - 1
	if r.Comma == 0 {
		r.Comma, _ = r.separator(string(r.lines.rest), ',', ';', '\t')
	}
	if r.Comma == '"' || r.Comma == '\r' || r.Comma == '\n' || !utf8.ValidRune(r.Comma) || r.Comma == utf8.RuneError {
		return errors.New("the column separator is a quotation mark, a line end or invalid")
	}
	return nil
}

// separator returns the separator that finds the most columns in a line, and the number of these columns.
func (r *reader) separator(line string, separators ...rune) (best rune, most int) {
	best = separators[0]
	for _, comma := range separators {
		found := map[string]bool{}
		for name := range strings.SplitSeq(line, string(comma)) {
			if column := r.names[normal(strings.Trim(strings.TrimSpace(name), `"`))]; column != "" {
				found[column] = true
			}
		}
		if len(found) > most {
			best, most = comma, len(found)
		}
	}
	return best, most
}

// wanted lists the names of the columns.
func (r *reader) wanted() string {
	return fmt.Sprintf("%s, %s and %s", r.name(columnReference), r.name(columnAmount), r.name(columnDestination))
}

// name returns the name of a column in the file.
func (r *reader) name(column string) string { return cmp.Or(r.Columns[column], column) }

func (r *reader) atHeader(format string, values ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{r.before + 1}, values...)...)
}

func (r *reader) readHeader() error {
	r.csv = csv.NewReader(r.lines)
	r.csv.Comma, r.csv.ReuseRecord = r.Comma, true
	header, err := r.csv.Read() // sets the number of fields of every row
	switch {
	case errors.As(err, new(*csv.ParseError)):
		return r.atHeader("the column names cannot be read: check the quotation marks")
	case err != nil:
		return err
	}
	r.width = len(header)
	return r.findColumns(header)
}

// findColumns finds each column once. Its errors contain only text in the form of a column name, because the line may
// be a row of payment data.
func (r *reader) findColumns(header []string) error {
	r.columns = map[string]int{}
	var foreign error
	for i, text := range header {
		key := normal(text)
		column := r.names[key]
		switch _, twice := r.columns[column]; {
		case twice:
			return r.atHeader("duplicate column %q", r.name(column))
		case column != "":
			r.columns[column] = i
		case key == "":
			r.unnamed = append(r.unnamed, i)
		case slices.ContainsFunc(r.Ignore, func(s string) bool { return normal(s) == key }):
		case columnName.MatchString(key):
			foreign = r.atHeader("unknown column %q, want %s", key, r.wanted())
		default:
			foreign = r.atHeader("column %d has no usable name, want %s", i+1, r.wanted())
		}
	}
	if len(r.columns) == 0 {
		return r.atHeader("no column names, want %s", r.wanted())
	}
	if foreign != nil {
		return foreign
	}
	for _, column := range columns {
		if _, ok := r.columns[column]; !ok {
			return r.atHeader("column %q is missing", r.name(column))
		}
	}
	return nil
}

// notHeader returns a clearer error than err if the file is HTML or XML, or if a later line is the header.
func (r *reader) notHeader(line string, err error) error {
	separators := []rune{r.Comma, ',', ';', '\t'}
	if _, found := r.separator(line, separators...); found == len(columns) {
		return err
	}
	if strings.HasPrefix(strings.TrimSpace(line), "<") {
		return r.atHeader("the file is HTML or XML, want CSV: save the sheet as CSV")
	}
	for above := r.lines.count - r.before; above <= maxAbove && r.lines.advance() == nil; above++ {
		if _, found := r.separator(string(r.lines.rest), separators...); found == len(columns) {
			return r.atHeader("the column names are in line %d, want the first line: remove the lines above", r.lines.count)
		}
	}
	return err
}
