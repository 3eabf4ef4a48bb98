package payoutcsv

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
)

const (
	notNumber = "amount: not a number such as 10.50, without spaces, thousands separators and leading zeros"

	header = "reference,amount,destination\n"
	card   = "4111111111111111"
)

// accepted returns the rows of a file without an error, as read does.
func accepted(t *testing.T, content string, o Options) []string {
	t.Helper()
	rows, err := read(t, content, o)
	require.NoError(t, err)
	return rows
}

// read returns the rows of a file as text: the line, and the payout or the reason for its rejection.
func read(t *testing.T, content string, o Options) ([]string, error) {
	t.Helper()
	var file io.Reader = strings.NewReader(content)
	if len(content) < 1000 {
		file = iotest.OneByteReader(file)
	}
	var rows []string
	for row, err := range Rows(file, o) {
		if err != nil {
			return rows, err
		}
		text := fmt.Sprintf("%d %s %s %s", row.Line, row.Reference, row.Amount, row.Destination)
		if row.Rejected != "" {
			text = fmt.Sprintf("%d: %s", row.Line, row.Rejected)
		}
		rows = append(rows, text)
	}
	return rows, nil
}

// inUTF16 writes text as Windows programs do.
func inUTF16(order binary.AppendByteOrder, text string) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

func TestRowsReadsFilesOfSpreadsheetsAndBanks(t *testing.T) {
	expected := Options{ExpectRows: 1, ExpectTotal: paymentsvc.MustParseAmount("1")}
	for name, c := range map[string]struct {
		content string
		options Options
		rows    []string
	}{
		"plain": {
			header + "a,10.50," + card + "\nb,0.01,+12025550100\n", Options{},
			[]string{"2 a 10.50 " + card, "3 b 0.01 +12025550100"},
		},
		"any order of columns":  {"Destination, amount ,REFERENCE\nx,1,a\n", Options{}, []string{"2 a 1 x"}},
		"a reference with an e": {header + "4e12,1,x\n", Options{}, []string{"2 4e12 1 x"}},
		"semicolons":            {"reference;amount;destination\na;1.5;x\n", Options{}, []string{"2 a 1.5 x"}},
		"tabs":                  {"reference\tamount\tdestination\na\t1.5\tx\n", Options{}, []string{"2 a 1.5 x"}},
		"a separator named":     {"sep=|\nreference|amount|destination\na|1.5|x\n", Options{}, []string{"3 a 1.5 x"}},
		"a separator named and given": {
			"sep=;\nreference;amount;destination\na;1.5;x\n", Options{Comma: ';'}, []string{"3 a 1.5 x"},
		},
		"a separator given": {"reference|amount|destination\na|1|x\n", Options{Comma: '|'}, []string{"2 a 1 x"}},
		"CR LF": {
			"reference,amount,destination\r\na,1,x\r\nb,2,y\r\n", Options{}, []string{"2 a 1 x", "3 b 2 y"},
		},
		"CR":                    {"reference,amount,destination\ra,1,x\rb,2,y\r", Options{}, []string{"2 a 1 x", "3 b 2 y"}},
		"a byte order mark":     {"\ufeff" + header + "a,1,x\n", Options{}, []string{"2 a 1 x"}},
		"UTF-16":                {inUTF16(binary.LittleEndian, "\ufeff"+header+"😀,1,ü\n"), Options{}, []string{"2 😀 1 ü"}},
		"UTF-16, big endian":    {inUTF16(binary.BigEndian, "\ufeff"+header+"a,1,ü\n"), Options{}, []string{"2 a 1 ü"}},
		"UTF-16 without a mark": {inUTF16(binary.LittleEndian, header+"a,1,ü\n"), Options{}, []string{"2 a 1 ü"}},
		"quotation marks":       {header + `"a ""1""",1,"x, y"` + "\n", Options{}, []string{`2 a "1" 1 x, y`}},
		"empty lines":           {"\n" + header + "\na,1,x\n\n\nb,2,y\n", Options{}, []string{"4 a 1 x", "7 b 2 y"}},
		"empty rows":            {header + "a,1,x\n,,\n,,\n", Options{}, []string{"2 a 1 x"}},
		"a decimal comma": {
			"reference;amount;destination\na;10,50;x\nb;3;x\n", Options{DecimalComma: true}, []string{"2 a 10.50 x", "3 b 3 x"},
		},
		"three decimals, allowed": {header + "a,10.500,x\n", Options{Scale: 3}, []string{"2 a 10.500 x"}},
		"a column ignored": {
			"reference,note,amount,destination\na,b,1,x\n", Options{Ignore: []string{"Note"}}, []string{"2 a 1 x"},
		},
		"no last line end, but an expected total": {
			"reference,destination,amount\na,x,1", expected, []string{"2 a 1 x"},
		},
		"other names": {
			"Empfa\u0308nger;BELEG ;betrag\nx;a;1\n",
			Options{Columns: map[string]string{"reference": "Beleg", "amount": "Betrag", "destination": "Empfänger"}},
			[]string{"2 a 1 x"},
		},
		"names exchanged": {
			"amount,reference,destination\na,1,x\n",
			Options{Columns: map[string]string{"reference": "amount", "amount": "reference"}},
			[]string{"2 a 1 x"},
		},
		"a replaced name is another column": {
			"Beleg,reference,amount,destination\na,b,1,x\n",
			Options{Columns: map[string]string{"reference": "Beleg"}, Ignore: []string{"reference"}}, []string{"2 a 1 x"},
		},
		"empty columns without a name": {
			", reference,amount,,destination,\u00a0\n,a,1, ,x,\n,b,2,,y,\u00a0\n", Options{}, []string{"2 a 1 x", "3 b 2 y"},
		},
		"none": {header, Options{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.rows, accepted(t, c.content, c.options))
		})
	}
}

func TestRowsRejectsARowAndReadsTheNext(t *testing.T) {
	const (
		invisible     = "a line end, a combining mark or another invisible character"
		another       = "not in Unicode NFC, such as an é that is two characters: convert the file to NFC"
		formula       = "begins with = or an apostrophe, as a spreadsheet writes formulas and text"
		decimalCommas = "a decimal comma: set DecimalComma (-decimal-comma) if all amounts have one"
		unclosed      = "an unclosed quotation mark, or text after a closing quotation mark"
	)
	for row, reason := range map[string]string{
		"a,1":                             "2 columns, want 3",
		"a,1,000," + card:                 "4 columns, want 3",
		",1,x":                            "reference: empty",
		"a,,x":                            notNumber,
		"a,1,":                            "destination: empty",
		"a,0.00,x":                        "amount: not above 0",
		"a,-1,x":                          "amount: not above 0",
		`a,"1,5",x`:                       "amount: " + decimalCommas,
		"a,1 EUR,x":                       notNumber,
		"a,10.500,x":                      "amount: 3 decimals, want at most 2, see Scale (-scale)",
		"a,1, x":                          "destination: white space at its beginning or end",
		"a,1,4.11111E+15":                 "destination: " + exponent,
		"1.23457E+11,1,x":                 "reference: " + exponent,
		"1E+11,1,x":                       "reference: " + exponent,
		"a,1.23E+05,x":                    "amount: " + exponent,
		"a,12e3,x":                        "amount: " + exponent,
		"a,1,\"=\"\"4111\"\"\"":           "destination: " + formula,
		"a,1,'" + card:                    "destination: " + formula,
		"'a,1,x":                          "reference: " + formula,
		`a,1,="4111"`:                     `a quotation mark within a value, such as ="1" of a spreadsheet`,
		"a,1,\xff":                        "destination: neither UTF-8 nor UTF-16",
		"a\ufe0f,1,x":                     "reference: " + invisible,
		"a\u2800b,1,x":                    "reference: " + invisible,
		"a\u3164,1,x":                     "reference: " + invisible,
		"x\u0301,1,x":                     "reference: " + invisible,
		"e\u0301,1,x":                     "reference: " + another,
		"a\x00,1,x":                       "reference: " + invisible,
		"a,1,\u202a+12025550":             "destination: " + invisible,
		strings.Repeat("a", 256) + ",1,x": "reference: more than 255 bytes",
		"\"a\"b,1,x":                      unclosed,
		"\"a\nb\",1,x":                    "reference: " + invisible + "; its quotation marks make one row of lines 2 to 3",
		"a,1,\"x\nb,2,y\nc,3,\"x":         unclosed + "; its quotation marks make one row of lines 2 to 4",
	} {
		t.Run(row, func(t *testing.T) {
			want := []string{"2: " + reason, fmt.Sprintf("%d z 9 y", 3+strings.Count(row, "\n"))}
			assert.Equal(t, want, accepted(t, header+row+"\nz,9,y\n", Options{}))
		})
	}
	rows := accepted(t, "reference;amount;destination\na;1.000;x\nb;1.000,50;x\nc;1,0,0;x\n", Options{DecimalComma: true})
	for i, row := range rows {
		assert.Equal(t, fmt.Sprintf("%d: %s", i+2, strings.Replace(notNumber, "10.50", "10,50", 1)), row)
	}
	halfPair := inUTF16(binary.LittleEndian, "\ufeff"+header) + "a\x00,\x001\x00,\x00\x00\xd8\n\x00"
	assert.Equal(t, []string{"2: destination: neither UTF-8 nor UTF-16"}, accepted(t, halfPair, Options{}))
}

func TestRowsRejectsValuesOfASpreadsheet(t *testing.T) {
	const reason = "an error or a missing value of a spreadsheet, such as #N/A, ### or null"
	for _, value := range []string{
		"#N/A", "#REF!", "#VALUE!", "#NAME?", "#DIV/0!", "#NUM!", "#NULL!", "#NV", "#BEZUG!", "#WERT!", "#ZAHL!", "#VALEUR!",
		"#NOM?", "#NOMBRE!", "#NUL!", "#Н/Д", "#ССЫЛКА!", "#ЗНАЧ!", "#ИМЯ?", "#ДЕЛ/0!", "#ЧИСЛО!", "#ПУСТО!", "#N/D",
		"#¡REF!", "#¡VALOR!", "#¿NOMBRE?", "#¡DIV/0!", "#¡NUM!", "#¡NÚM!", "#¡NULO!", "#SPILL!", "#ERROR!",
		"Err:502", "Err :502",
		"Ошибка:502", "########", "#", "nan", "NaN", "null", "NULL", "None", "undefined", "<NA>", "#n/a", "#ссылка!",
		"#NOM\u00a0?", "＃Ｎ／Ａ", "ｎｕｌｌ", "＃＃＃＃", "# REF!", "\u00a0#N/A", "null ",
	} {
		for _, row := range []string{value + ",1,x", "a,1," + value} {
			rows := accepted(t, header+row+"\n", Options{})
			require.Len(t, rows, 1)
			assert.Contains(t, rows[0], ": "+reason, "%q", value)
		}
	}
	for _, value := range []string{
		"null-1234", "NA", "N/A", "Nan Goldin", "none of them", "#1234", "#N/A-1", "ref!", "##1", "undefined1", "err:5021",
		"error:502", "valor", "n ull",
	} {
		assert.Equal(t, []string{"2 " + value + " 1 " + value}, accepted(t, header+value+",1,"+value+"\n", Options{}))
	}
}

func TestRowsRejectsDuplicates(t *testing.T) {
	const spelled = "the reference of line %d in other upper or lower case, with the same amount and destination"
	got := accepted(t, header+"r1,5,x\nR1,5.00,x\nR1,6,x\nr2,5,x\nR2,5,y\nr2,5,x\nb,nothing,x\nb,2,x\nc,3,x\n"+
		"ab1,5,x\naB1,6,x\nAb1,6,x\nAB1,5,x\nde,5,\ndE,6,x\nDE,6.0,x\nDe,7,x\nφόρος,5,x\nΦΌΡΟΣ,5,x\n", Options{})
	assert.Equal(t, []string{
		"2 r1 5 x", "3: " + fmt.Sprintf(spelled, 2),
		"4: lines 3 and 4 have one reference with different amounts or destinations", "5 r2 5 x", "6 R2 5 y",
		"7: duplicate reference, already in line 5", "8: " + notNumber, "9: duplicate reference, already in line 8",
		"10 c 3 x", "11 ab1 5 x", "12 aB1 6 x", "13: " + fmt.Sprintf(spelled, 12), "14: " + fmt.Sprintf(spelled, 11),
		"15: destination: empty", "16 dE 6 x", "17: " + fmt.Sprintf(spelled, 16), "18 De 7 x",
		"19 φόρος 5 x", "20: " + fmt.Sprintf(spelled, 19),
	}, got)
}

func TestRowsRejectsALastRowThatMayBeCutOff(t *testing.T) {
	total := paymentsvc.MustParseAmount("2")
	for _, o := range []Options{
		{}, {ExpectRows: 2}, {ExpectTotal: total}, {ExpectRows: 2, ExpectTotal: total},
	} {
		rows := accepted(t, header+"a,1,x\nb,1,41", o)
		require.Len(t, rows, 2)
		assert.Contains(t, rows[1], "3: the file ends in this row without a line end")
	}
	for _, content := range []string{"a,1,x\n", "a,1,x\nb,1,4"} {
		rows := accepted(t, inUTF16(binary.LittleEndian, header+content)+"1", Options{})
		require.Len(t, rows, 2)
		assert.Contains(t, rows[1], "3: ", "within a UTF-16 character")
	}
}

func TestRowsRequiresTheColumns(t *testing.T) {
	for content, reason := range map[string]string{
		"":                                     "the file is empty",
		"\n\n":                                 "the file is empty",
		"a,1," + card + "\n":                   "line 1: no column names",
		"reference,amount," + card + "\n":      "line 1: column 3 has no usable name",
		"reference,amount,destination,note\n":  `line 1: unknown column "note"`,
		"\nreference,amount,amount\n":          `line 2: duplicate column "amount"`,
		"reference,amount\n":                   `line 1: column "destination" is missing`,
		"reference,\"amount\n":                 "line 1: the column names cannot be read: check the quotation marks",
		"sep=\"\nreference,amount,destination": "the column separator is a quotation mark, a line end or invalid",
	} {
		_, err := read(t, content, Options{})
		require.ErrorContains(t, err, reason)
		assert.NotContains(t, err.Error(), card)
	}
	for _, c := range []struct {
		columns         map[string]string
		content, reason string
	}{
		{map[string]string{"Reference": "Beleg"}, header, "renames an unknown column"},
		{map[string]string{"reference": " "}, header, "empty or duplicate name for the column reference"},
		{map[string]string{"reference": "AMOUNT"}, header, "empty or duplicate name for the column amount"},
		{map[string]string{"reference": "Beleg"}, header, `unknown column "reference", want Beleg, amount and destination`},
		{map[string]string{"reference": "Beleg"}, "amount,destination\n", `column "Beleg" is missing`},
		{map[string]string{"reference": "Beleg"}, "Beleg,beleg\n", `duplicate column "Beleg"`},
		{nil, "reference,amount,destination,Straße\n", `unknown column "straße"`},
	} {
		_, err := read(t, c.content, Options{Columns: c.columns})
		assert.ErrorContains(t, err, c.reason)
	}
}

func TestRowsRejectsAValueWithoutAColumnName(t *testing.T) {
	rows, err := read(t, "reference,,amount,destination,\na,,1,x,\nb,,1,x,"+card+"\n", Options{})
	assert.EqualError(t, err, "payoutcsv: line 3: column 5 has a value, but no name")
	assert.Equal(t, []string{"2 a 1 x"}, rows)
}

func TestRowsIdentifiesOtherFormats(t *testing.T) {
	row, above := "a,1,"+card+"\n", "the column names are in line "
	inUTF32 := strings.Join(strings.Split(header+row, ""), "\x00\x00\x00") + "\x00\x00\x00"
	for content, reason := range map[string]string{
		"PK\x03\x04\x14\x00" + card:               "a workbook (xlsx or ods)",
		"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + card: "a workbook (xls)",
		"%PDF-1.7\n":                          "PDF",
		"\n <!DOCTYPE html><p>" + card + "\n": "line 2: the file is HTML or XML",
		"<table border=\"1\"><tr><td>" + card + "</td></tr>\n": "line 1: the file is HTML or XML",
		inUTF16(binary.LittleEndian, "\ufeff<html>\n"):         "line 1: the file is HTML or XML",
		inUTF32:                      "line 1: no column names",
		"\xff\xfe\x00\x00" + inUTF32: "line 1: no column names",
		"Payouts of March\n" + card + "\n\n" + header + row:                         "line 1: " + above + "4",
		"\nAmount,a\nb\nREFERENCE;\"amount\";destination;\n" + row:                  "line 2: " + above + "4",
		"\"Payouts\nof March\"\n" + header + row:                                    "line 1: " + above + "3",
		card + strings.Repeat("\n"+card, maxAbove+1) + "\n" + header:                "line 1: no column names",
		"reference,amount,destination," + card + "\nreference,amount,destination\n": "line 1: column 4 has no usable name",
	} {
		rows, err := read(t, content, Options{})
		require.ErrorContains(t, err, reason)
		assert.NotContains(t, err.Error(), card)
		assert.Empty(t, rows)
	}
}

func TestRowsEndsWhereReadingFails(t *testing.T) {
	rows, err := read(t, header+"a,1,x\nb,2,\""+strings.Repeat("y\n", maxRecord/2)+"c,3,z\n", Options{})
	require.ErrorIs(t, err, errUnfinished)
	assert.ErrorContains(t, err, "line 3: ")
	assert.Equal(t, []string{"2 a 1 x"}, rows)
	_, err = read(t, header+strings.Repeat("y", maxRecord+1), Options{})
	require.ErrorIs(t, err, errUnfinished)

	broken := io.MultiReader(strings.NewReader(header+"a,1,x\nb,2"), iotest.ErrReader(io.ErrClosedPipe))
	for row, err := range Rows(broken, Options{}) {
		if row.Line != 2 {
			require.ErrorIs(t, err, io.ErrClosedPipe)
		}
	}
}

// A row, accepted or rejected, covers each line with text.
func TestRowsLosesNoLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.StringOf(rapid.RuneFrom([]rune("ab1.,\" é")))).Draw(t, "lines")
		end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "end")
		r, err := newReader(strings.NewReader(strings.ReplaceAll(header, "\n", end)+strings.Join(lines, end)), Options{})
		require.NoError(t, err)
		covered := int64(1)
		for {
			row, err := r.next(nil)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			for line := covered + 1; line < row.Line; line++ {
				require.Empty(t, strings.Trim(lines[line-2], `,"`), "line %d", line)
			}
			require.Greater(t, row.Line, covered)
			covered = r.lines.count
		}
		for line := covered + 1; line < int64(len(lines))+2; line++ {
			require.Empty(t, strings.Trim(lines[line-2], `,"`), "line %d", line)
		}
	})
}

func TestRowShowsNothingOfTheFile(t *testing.T) {
	row := Row{Line: 2, Reference: card, Destination: card, Amount: paymentsvc.MustParseAmount("1")}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		assert.NotContains(t, fmt.Sprintf(verb, row)+fmt.Sprintf(verb, []*Row{&row}), card)
	}
	_, err := json.Marshal(row)
	require.ErrorIs(t, err, paymentsvc.ErrSensitive)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("row", "row", row)
	assert.Contains(t, log.String(), "line 2")
	assert.NotContains(t, log.String(), card)
}

func TestRowsKeepsOnlyHashes(t *testing.T) {
	const rows = 100_000
	file := strings.NewReader(fileOf(rows))
	before := heap()
	n, most := 0, uint64(0)
	for _, err := range Rows(file, Options{}) {
		require.NoError(t, err)
		n++
		if n%25_000 == 0 {
			most = max(most, heap())
		}
	}
	assert.Equal(t, rows, n)
	assert.Less(t, most, before+rows*60, "bytes on the heap")
}

// heap returns the bytes on the heap that are in use.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
