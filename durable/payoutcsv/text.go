package payoutcsv

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// maxRecord is the maximum size of a row in bytes. Without it, an unclosed quotation mark would read the rest of the
// file into memory.
const maxRecord = 1 << 20

var errUnfinished = fmt.Errorf("no row ends within %d bytes, probably because a quotation mark is not closed",
	maxRecord)

// lines reads a file in UTF-8 or UTF-16 line by line. It converts the line ends CR LF and CR to LF.
type lines struct {
	scanner *bufio.Scanner
	rest    []byte // unread bytes of the current line
	count   int64  // lines read
	ended   bool   // the current line has a line end
	taken   int    // bytes of the current row, without the empty lines before it
}

func newLines(file io.Reader) (*lines, error) {
	text, err := decoded(file)
	if err != nil {
		return nil, err
	}
	l := &lines{scanner: bufio.NewScanner(text)}
	l.scanner.Buffer(make([]byte, 0, 64<<10), maxRecord)
	l.scanner.Split(splitLine)
	return l, nil
}

// signatures are the first bytes of files that are not CSV.
var signatures = []struct{ begin, name string }{
	{"PK\x03\x04", "a workbook (xlsx or ods) or another zip file"},
	{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a workbook (xls)"},
	{"%PDF-", "PDF"},
}

// decoded returns the file as UTF-8 without a byte order mark. Half a UTF-16 character, such as at the end of a
// truncated file, becomes U+FFFD, and a payout with U+FFFD is rejected.
func decoded(file io.Reader) (io.Reader, error) {
	r := bufio.NewReader(file)
	begin, err := r.Peek(8)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for _, s := range signatures {
		if bytes.HasPrefix(begin, []byte(s.begin)) {
			return nil, fmt.Errorf("the file is %s, want CSV: save the sheet as CSV", s.name)
		}
	}
	var without transform.Transformer = transform.Nop // for a file without a byte order mark
	switch {
	case len(begin) < 2:
	case begin[0] != 0 && begin[1] == 0: // an ASCII header in UTF-16
		without = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewDecoder()
	case begin[0] == 0 && begin[1] != 0:
		without = unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewDecoder()
	}
	return transform.NewReader(r, unicode.BOMOverride(without)), nil
}

// splitLine is a [bufio.SplitFunc]. Each token ends in LF, except a last line without a line end.
func splitLine(data []byte, atEOF bool) (advance int, token []byte, err error) {
	i := bytes.IndexByte(data, '\n')
	if cr := bytes.IndexByte(data[:max(i, 0)], '\r'); cr >= 0 {
		i = cr
	} else if i < 0 {
		i = bytes.IndexByte(data, '\r')
	}
	switch {
	case i < 0 && (!atEOF || len(data) == 0):
		return 0, nil, nil
	case i < 0:
		return len(data), data, nil
	case data[i] == '\n':
		return i + 1, data[:i+1], nil
	case i+1 == len(data) && !atEOF: // LF may follow
		return 0, nil, nil
	}
	data[i], advance = '\n', i+1
	if advance < len(data) && data[advance] == '\n' {
		advance++
	}
	return advance, data[:i+1], nil
}

// advance reads the next line into rest.
func (l *lines) advance() error {
	if !l.scanner.Scan() {
		switch err := l.scanner.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			return errUnfinished
		case err != nil:
			return err
		}
		return io.EOF
	}
	l.rest = l.scanner.Bytes()
	l.ended = bytes.HasSuffix(l.rest, []byte("\n"))
	l.count++
	return nil
}

// Read returns at most the rest of one line, so that count is exact when package csv returns a row.
func (l *lines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if err := l.advance(); err != nil {
			return 0, err
		}
		if l.taken > 0 || len(l.rest) > 1 {
			l.taken += len(l.rest)
		}
		if l.taken > maxRecord {
			return 0, errUnfinished
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
