package payouts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const (
	header = "reference,amount,destination\n"
	card   = "4111111111111111"
)

// read gives the rows of a file as text: the line, and the payout or the reason why it is none.
func read(t *testing.T, content string) ([]string, error) {
	t.Helper()
	r, err := newReader(iotest.OneByteReader(strings.NewReader(content)))
	if err != nil {
		return nil, err
	}
	var rows []string
	for {
		row, err := r.next()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		text := fmt.Sprintf("%d %s %s %s", row.Line, row.Reference, row.Amount, row.Destination)
		if row.refused != "" {
			text = fmt.Sprintf("%d: %s", row.Line, row.refused)
		}
		rows = append(rows, text)
	}
}

func TestRowsAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		rows    []string
	}{
		"as they stand": {
			header + "a,10.50," + card + "\nb,0.01,+12025550100\n",
			[]string{"2 a 10.50 " + card, "3 b 0.01 +12025550100"},
		},
		"a reference with an e":       {header + "4e12,1,x\n", []string{"2 4e12 1 x"}},
		"by the names of the columns": {"Destination, amount ,REFERENCE\nx,1,a\n", []string{"2 a 1 x"}},
		"with CR LF":                  {"reference,amount,destination\r\na,1,x\r\nb,2,y\r\n", []string{"2 a 1 x", "3 b 2 y"}},
		"behind a byte order mark":    {"\ufeff" + header + "a,1,x\n", []string{"2 a 1 x"}},
		"with quotation marks":        {header + `"a ""1""",1,"x, y"` + "\n", []string{`2 a "1" 1 x, y`}},
		"past empty lines":            {header + "\na,1,x\n\n\nb,2,y\n", []string{"3 a 1 x", "6 b 2 y"}},
		"in any script":               {header + "счёт-1,1,получатель\n", []string{"2 счёт-1 1 получатель"}},
		"none":                        {header, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := read(t, c.content)
			require.NoError(t, err)
			assert.Equal(t, c.rows, rows)
		})
	}
}

func TestABadRowIsReportedAndTheNextOneRead(t *testing.T) {
	const good = "z,9,y\n"
	for name, c := range map[string]struct {
		content string
		rows    []string
	}{
		"a column is missing":    {"a,1\n" + good, []string{"2: 2 columns instead of 3", "3 z 9 y"}},
		"a column too many":      {"a,1,000," + card + "\n" + good, []string{"2: 4 columns instead of 3", "3 z 9 y"}},
		"no reference":           {",1,x\n" + good, []string{"2: reference: empty", "3 z 9 y"}},
		"no amount":              {"a,,x\n" + good, []string{"2: amount: not a number such as 10.50", "3 z 9 y"}},
		"no destination":         {"a,1,\n" + good, []string{"2: destination: empty", "3 z 9 y"}},
		"amount of nothing":      {"a,0.00,x\n" + good, []string{"2: amount: not above 0", "3 z 9 y"}},
		"amount below":           {"a,-1,x\n" + good, []string{"2: amount: not above 0", "3 z 9 y"}},
		"amount with a comma":    {"a,\"1,5\",x\n" + good, []string{"2: amount: not a number such as 10.50", "3 z 9 y"}},
		"amount with a currency": {"a,1 EUR,x\n" + good, []string{"2: amount: not a number such as 10.50", "3 z 9 y"}},
		"space around":           {"a,1, x\n" + good, []string{"2: destination: white space around it", "3 z 9 y"}},
		"a destination rounded":  {"a,1,4.11111E+15\n" + good, []string{"2: destination: a number in exponent form, as spreadsheets write long numbers", "3 z 9 y"}},
		"a reference rounded":    {"1.23457E+11,1,x\n" + good, []string{"2: reference: a number in exponent form, as spreadsheets write long numbers", "3 z 9 y"}},
		"a reference to a digit": {"1E+11,1,x\n" + good, []string{"2: reference: a number in exponent form, as spreadsheets write long numbers", "3 z 9 y"}},
		"an amount rounded":      {"a,1.23E+05,x\n" + good, []string{"2: amount: a number in exponent form, as spreadsheets write long numbers", "3 z 9 y"}},
		"an amount with an e":    {"a,12e3,x\n" + good, []string{"2: amount: a number in exponent form, as spreadsheets write long numbers", "3 z 9 y"}},
		"cut off": {
			"a,1000.00,x\nb,10", []string{"2 a 1000.00 x", "3: 2 columns instead of 3"},
		},
		"cut off in the last column": {
			"a,1,x\nb,1,41", []string{"2 a 1 x", "3: the file ends in this row, without a line end, so that it may have been cut off"},
		},
		"not UTF-8":              {"a,1,\xff\n" + good, []string{"2: destination: not UTF-8", "3 z 9 y"}},
		"a zero byte":            {"a\x00,1,x\n" + good, []string{"2: reference: a line end or another character that cannot be seen", "3 z 9 y"}},
		"an invisible character": {"a,1,\u202a+12025550100\n" + good, []string{"2: destination: a line end or another character that cannot be seen", "3 z 9 y"}},
		"too long":               {strings.Repeat("a", 256) + ",1,x\n" + good, []string{"2: reference: more than 255 bytes", "3 z 9 y"}},
		"a bare quotation mark":  {"a\"b,1,x\n" + good, []string{"2: a quotation mark inside a value that does not begin with one", "3 z 9 y"}},
		"text behind a quotation": {
			"\"a\"b,1,x\n" + good, []string{"2: a quotation mark that is not closed, or text behind one that is", "3 z 9 y"},
		},
		"a quoted line end": {
			"\"a\nb\",1,x\n" + good,
			[]string{"2: reference: a line end or another character that cannot be seen; lines 2 to 3 are one row by their quotation marks", "4 z 9 y"},
		},
		"a quotation that takes in good rows": {
			"a,1,\"x\nb,2,y\nc,3,\"x\n" + good,
			[]string{"2: a quotation mark that is not closed, or text behind one that is; lines 2 to 4 are one row by their quotation marks", "5 z 9 y"},
		},
		"a quotation to the end": {
			"a,1,\"x\nb,2,y\n" + good,
			[]string{"2: a quotation mark that is not closed, or text behind one that is; lines 2 to 4 are one row by their quotation marks"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := read(t, header+c.content)
			require.NoError(t, err)
			assert.Equal(t, c.rows, rows)
		})
	}
}

func TestAFileThatIsNoneIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ content, reason string }{
		"empty":                {"", "the file is empty"},
		"no header":            {"a,1," + card + "\n", "line 1 names no column"},
		"a card in the header": {"reference,amount," + card + "\n", "line 1: column 3 has no name"},
		"another separator":    {"reference;amount;destination\n", "line 1 names no column"},
		"a foreign column":     {"reference,amount,destination,note\n", `line 1: unknown column "note"`},
		"a column twice":       {"reference,amount,amount\n", `line 1: column "amount" stands there twice`},
		"a column missing":     {"reference,amount\n", `line 1: column "destination" is missing`},
		"a broken header":      {"reference,\"amount\n", "line 1: the names of the columns cannot be read"},
		"another encoding":     {"\xff\xfer\x00e\x00f\x00", "line 1 names no column"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, c.content)
			require.ErrorContains(t, err, c.reason)
			assert.NotContains(t, err.Error(), card)
		})
	}
}

func TestReadingStopsWhereARowDoesNotEnd(t *testing.T) {
	content := header + "a,1,x\nb,2,\"" + strings.Repeat("y\n", maxRecord/2) + "c,3,z\n"
	rows, err := read(t, content)
	require.ErrorIs(t, err, errUnfinished)
	assert.ErrorContains(t, err, "line 3: ")
	assert.Equal(t, []string{"2 a 1 x"}, rows)

	_, err = read(t, header+strings.Repeat("y", maxRecord+1))
	assert.ErrorIs(t, err, errUnfinished)
}

func TestAnyNumberOfEmptyLinesIsPassedOver(t *testing.T) {
	for _, lineEnd := range []string{"\n", "\r\n"} {
		rows, err := read(t, header+"a,1,x\n"+strings.Repeat(lineEnd, maxRecord+1)+"b,1,x\n")
		require.NoError(t, err)
		assert.Equal(t, []string{"2 a 1 x", fmt.Sprintf("%d b 1 x", maxRecord+4)}, rows)
	}
}

func TestAnErrorOfTheFileEndsReading(t *testing.T) {
	r, err := newReader(io.MultiReader(strings.NewReader(header+"a,1,x\nb,2"), iotest.ErrReader(io.ErrClosedPipe)))
	require.NoError(t, err)
	_, err = r.next()
	require.NoError(t, err)
	_, err = r.next()
	assert.ErrorIs(t, err, io.ErrClosedPipe)
	assert.ErrorContains(t, err, "line 3: ")
}

// Whatever stands in a file, each of its lines that is not empty belongs to a row that is read or reported.
func TestNoLineIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.StringOf(rapid.RuneFrom([]rune("ab1.,\"\r é")))).Draw(t, "lines")
		content := strings.Join(lines, "\n")
		r, err := newReader(strings.NewReader(header + content))
		require.NoError(t, err)
		covered := int64(1)
		for {
			row, err := r.next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			for line := covered + 1; line < row.Line; line++ {
				require.Empty(t, strings.TrimSuffix(lines[line-2], "\r"), "line %d", line)
			}
			require.Greater(t, row.Line, covered)
			require.GreaterOrEqual(t, r.end, row.Line)
			if r.end > row.Line {
				require.NotEmpty(t, row.refused)
			}
			covered = r.end
		}
		for line := covered + 1; line < int64(len(lines))+2; line++ {
			require.Empty(t, strings.TrimSuffix(lines[line-2], "\r"), "line %d", line)
		}
	})
}

// repeated is a file of any length that takes no memory.
type repeated struct {
	line []byte
	left int
	rest []byte
}

func (r *repeated) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		r.left, r.rest = r.left-1, r.line
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func TestReadingTakesNoMoreMemoryForALongFile(t *testing.T) {
	const rows = 300_000
	line := []byte("reference,10.50," + card + "\n")
	before := heap()
	r, err := newReader(io.MultiReader(strings.NewReader(header), &repeated{line: line, left: rows}))
	require.NoError(t, err)
	highest, n := uint64(0), 0
	for ; ; n++ {
		if _, err := r.next(); errors.Is(err, io.EOF) {
			break
		}
		if n%50_000 == 0 {
			highest = max(highest, heap())
		}
	}
	assert.Equal(t, rows, n)
	assert.Less(t, highest, before+2*maxRecord, "bytes on the heap; the file has %d", rows*len(line))
}

// heap gives the bytes on the heap that are in use.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestTheExampleFileIsReadWhole(t *testing.T) {
	var file bytes.Buffer
	require.NoError(t, Make(&file, 1000))
	var again bytes.Buffer
	require.NoError(t, Make(&again, 1000))
	assert.Equal(t, file.String(), again.String())
	rows, err := read(t, file.String())
	require.NoError(t, err)
	require.Len(t, rows, 1000)
	references := map[string]bool{}
	for _, row := range rows {
		assert.NotContains(t, row, ": ")
		references[strings.Fields(row)[1]] = true
	}
	assert.Len(t, references, 1000)
}

func BenchmarkRead(b *testing.B) {
	b.ReportAllocs()
	r, err := newReader(io.MultiReader(strings.NewReader(header), &repeated{line: []byte("reference,10.50," + card + "\n"), left: math.MaxInt}))
	require.NoError(b, err)
	for b.Loop() {
		if _, err := r.next(); err != nil {
			break
		}
	}
}
