// Package capture reads signed messages from the files of partners: HTTP text, .http files, a curl command, the output
// of curl -v, copied calls, JSON of tools and logs, printed headers, or separate files for headers and body. It also
// writes messages as files and as code.
package capture

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
)

// Message is a captured request.
type Message struct {
	// Method is the HTTP method. The default is POST, but GET for fetch and axios, and for curl without a body.
	Method string
	// URL is the address, or nil if the capture has no address. Without a Host header, URL may be only a path.
	URL *url.URL
	// Header has all headers except Host and Transfer-Encoding, without white space around values. Duplicates remain.
	Header http.Header
	// Body has the bytes of the body in the capture, perhaps not all bytes of the sender.
	Body []byte
	// Announced is the Content-Length of a request from [Received], -1 if unknown, or 0 after [Read]. [Write] writes
	// Announced instead of the length of a shorter, truncated Body.
	Announced int64
	// Source is the name of the file. For JSON and logs, the number of the entry follows.
	Source string
	// Notes lists assumptions and possible changes of signed bytes, one sentence each.
	Notes []string

	text *text
	at   map[string]int // each header's offset in text
}

// Line returns the line of a header in its file, or 1 for a missing header.
func (m *Message) Line(header string) int {
	at, known := m.at[http.CanonicalHeaderKey(header)]
	if !known {
		return 1
	}
	return m.text.lineOf(at)
}

// Options configures [Read]. The zero value reads a file with one signed message.
type Options struct {
	// Entry is the number of the message, counted from 1. 0 selects the only message or the only signed message.
	Entry int
	// URL selects from several messages by a part of the address, if Entry is 0. "" accepts every address.
	URL string
	// Signature is the name of the signature header. "" accepts every header with "sign" or "hmac" in its name.
	Signature string
	// Body, if not nil, is the body from a separate file with the name BodyName.
	Body     []byte
	BodyName string
	// Open reads the body file named in a curl command or an .http file. If Open and Body are nil, such a name is an
	// error.
	Open func(name string) ([]byte, error)
}

// Error describes an unreadable capture. It contains no part of a body or of a header's value except Content-Length.
type Error struct {
	Name         string
	Line, Column int // counted from 1, columns in characters
	Problem      string
}

// Error returns the name, the position and the problem.
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, e.Problem)
}

// Read returns the message that o selects. It returns an [*Error] for an unreadable file, and if o selects several
// messages or no message.
func Read(data []byte, name string, o Options) (Message, error) {
	t, list, err := candidates(data, name, o)
	if err != nil {
		return Message{}, err
	}
	if len(list) != 1 {
		return Message{}, t.ambiguous(list)
	}
	return list[0].read()
}

// text is a file or a part of a file in UTF-8, with positions for errors.
type text struct {
	name      string
	data      string
	notes     []string
	above     int  // lines of the file before data
	listing   bool // true while [text.entry] discards errors, so [text.fail] need not find positions
	commented bool // a request of an .http file, which can have comments between headers
}

func (t *text) lineOf(at int) int {
	return 1 + t.above + strings.Count(t.data[:min(max(at, 0), len(t.data))], "\n")
}

var errListing = errors.New("capture: unreadable message, not selected")

func (t *text) fail(at int, problem string, args ...any) error {
	if t.listing {
		return errListing
	}
	before := t.data[:min(max(at, 0), len(t.data))]
	start := strings.LastIndexByte(before, '\n') + 1
	return &Error{
		Name: t.name, Line: t.lineOf(at), Column: 1 + utf8.RuneCountInString(before[start:]),
		Problem: fmt.Sprintf(problem, args...),
	}
}

// entry is one message of a file. Read completely parses only the selected entry, and returns only its error.
type entry struct {
	number int
	method string
	url    *url.URL
	signed bool // has a signature header; in most formats also true for the only message
	read   func() (Message, error)
}

// candidates detects the format of a file and returns the messages that o selects, at least one.
func candidates(data []byte, name string, o Options) (*text, []entry, error) {
	t, err := decode(data, name)
	if err != nil {
		return nil, nil, err
	}
	first := strings.TrimLeft(t.data, " \t\r\n")
	line, _, _ := strings.Cut(first, "\n")
	var list []entry
	single := func(read func(*text, Options) (Message, error)) []entry {
		return []entry{{number: 1, signed: true, read: func() (Message, error) { return t.finish(read(t, o)) }}}
	}
	untimed := traceTime.ReplaceAllString(t.data, "$1")
	switch {
	case isVerbose(untimed):
		t.data = untimed
		list = single((*text).verbose)
	case strings.HasPrefix(first, "{"), strings.HasPrefix(first, "["):
		list, err = t.json(o)
		if err != nil {
			list = t.program(o)
		}
		if len(list) == 0 {
			return nil, nil, err
		}
	case hasSections(t.data, line):
		list = t.sections(o)
	case accessLog.MatchString(line):
		return nil, nil, t.fail(0, "an access log has neither headers nor body: %s", capturing)
	case strings.Contains(line, "{"):
		list = t.logLines(o)
	}
	switch {
	case len(list) > 0:
	case isHead(line):
		list = single((*text).http)
	case commandStart(t.data) >= 0:
		list = single((*text).curl)
	default:
		list = t.program(o)
		if len(list) == 0 {
			list = single((*text).http)
		}
	}
	list, err = t.choose(list, o)
	return t, list, err
}

var accessLog = regexp.MustCompile(`^\S+ \S+ .*\[[^\]]+\] "[A-Z]+ \S+ HTTP/[0-9.]+" [0-9]{3} `)

// logLines returns the messages of a log with JSON after a prefix, such as a time or a level. It skips JSON followed by
// text on the same line. The list is empty for other files.
func (t *text) logLines(o Options) (list []entry) {
	for at := 0; at < len(t.data); {
		line, _, _ := strings.Cut(t.data[at:], "\n")
		start := strings.IndexByte(line, '{')
		end := at + len(line) + 1
		if start >= 0 {
			from := at + start
			var value json.RawMessage
			decoder := json.NewDecoder(strings.NewReader(t.data[from:]))
			err := decoder.Decode(&value)
			wrong, ok := errors.AsType[*json.SyntaxError](err)
			switch {
			case ok: // continue with the line of the error, because the value includes the lines before
				end = max(end, 1+strings.LastIndexByte(t.data[:from+int(wrong.Offset)], '\n'))
			case err != nil: // the file ends inside this value
				end = len(t.data)
			default:
				rest, _, _ := strings.Cut(t.data[from+len(value):], "\n")
				end = from + len(value) + len(rest) + 1
				if strings.TrimSpace(rest) == "" {
					t.walk(&list, node{value, from}, strings.TrimSpace(line[:start]), o, 0)
				}
			}
		}
		at = end
	}
	if len(list) == 1 {
		list[0].signed = true
	}
	return list
}

// decode returns the text of a file. It converts UTF-16, an encoding of Windows, to UTF-8.
func decode(data []byte, name string) (*text, error) {
	t := &text{name: name}
	little := bytes.HasPrefix(data, []byte{0xff, 0xfe}) || len(data) > 3 && data[0] != 0 && data[1] == 0 && data[3] == 0
	big := bytes.HasPrefix(data, []byte{0xfe, 0xff}) || len(data) > 3 && data[0] == 0 && data[1] != 0 && data[2] == 0
	if !little && !big {
		rest, marked := bytes.CutPrefix(data, []byte("\ufeff"))
		if marked {
			t.notes = append(t.notes, "the byte order mark at the start of the file is removed")
		}
		t.data = string(rest)
		return t, nil
	}
	if len(data)%2 != 0 {
		return nil, t.fail(0, "the file is UTF-16, but ends within a character")
	}
	units := make([]uint16, len(data)/2)
	var order binary.ByteOrder = binary.LittleEndian
	if big {
		order = binary.BigEndian
	}
	_, _ = binary.Decode(data, order, units) // both have the same size
	t.data = strings.TrimPrefix(string(utf16.Decode(units)), "\ufeff")
	t.notes = append(t.notes, "the file is UTF-16, the default of Windows PowerShell, so non-ASCII bytes of the "+
		"body may be lost; save the original bytes with curl.exe -o or in cmd.exe")
	return t, nil
}

// choose returns the entries that o selects. If o.Entry is 0 and several entries remain, it selects only signed
// entries.
func (t *text) choose(list []entry, o Options) ([]entry, error) {
	if o.Entry < 0 || o.Entry > len(list) {
		return nil, t.fail(0, "there is no entry %d; the last entry is %d", o.Entry, len(list))
	}
	if o.Entry > 0 {
		return list[o.Entry-1 : o.Entry], nil
	}
	if o.URL != "" && len(list) > 1 {
		list = slices.DeleteFunc(list, func(e entry) bool { return e.url == nil || !strings.Contains(e.url.String(), o.URL) })
	}
	if len(list) == 0 {
		return nil, t.fail(0, "no address contains the text of -url")
	}
	if len(list) > 1 {
		signed := slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return !e.signed })
		if len(signed) == 0 {
			return nil, t.ambiguous(list)
		}
		list = signed
	}
	return list, nil
}

// ambiguous returns an error that lists messages. It omits their queries, because queries may contain secrets, and
// masks the rest, because a path may contain a card number.
func (t *text) ambiguous(list []entry) error {
	const most = 10
	var names []string
	for _, e := range list[:min(most, len(list))] {
		name := fmt.Sprintf("%d %s", e.number, e.method)
		if e.url != nil {
			shown := url.URL{Scheme: e.url.Scheme, Host: e.url.Host, Path: e.url.Path}
			name += " " + shown.String()
		}
		names = append(names, mask.Text(name))
	}
	if len(list) > most {
		names = append(names, "...")
	}
	what := "signed messages"
	if !list[0].signed {
		what = "messages without a signature header"
	}
	return t.fail(0, "the file has %d %s; choose an entry with -entry: %s", len(list), what, strings.Join(names, "; "))
}

// finish sets defaults, completes the URL, adds notes about changed bytes, and rejects a missing body.
func (t *text) finish(m Message, err error) (Message, error) {
	if err != nil {
		return Message{}, err
	}
	if m.Source == "" {
		m.Source = t.name
	}
	if m.Method == "" {
		m.Method = http.MethodPost
	}
	if !isToken(m.Method) {
		return Message{}, t.fail(0, "the method has an invalid character")
	}
	m.Notes = append(slices.Clone(t.notes), m.Notes...)
	host := m.Header.Get("Host")
	m.Header.Del("Host") // net/http also removes Host and Transfer-Encoding
	m.Header.Del("Transfer-Encoding")
	if m.URL != nil {
		if m.URL.Host == "" && host != "" {
			m.URL.Scheme, m.URL.Host = "https", host
		}
		if m.URL.Host != "" && m.URL.Path == "" {
			m.URL.Path = "/"
		}
		m.URL.User = nil
		if strings.Contains(m.URL.RawQuery, " ") {
			m.URL.RawQuery = strings.ReplaceAll(m.URL.RawQuery, " ", "%20")
			m.note("the query has spaces, which are invalid in a request; they are replaced with %%20")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		if n := len(m.Header[name]); n > 1 {
			m.note("the header %s appears %d times", name, n)
		}
	}
	length := m.Header.Get("Content-Length")
	if len(m.Body) == 0 && strings.Trim(length, "0") != "" {
		return Message{}, t.fail(0, missingBody, capturing)
	}
	if length != "" && length != fmt.Sprint(len(m.Body)) {
		m.note("the body has %d bytes, but the Content-Length differs; an earlier step lost or added bytes", len(m.Body))
	}
	if bytes.Contains(m.Body, []byte("\ufffd")) {
		m.note("the body has replacement characters (U+FFFD); an earlier step lost bytes")
	}
	if coding := m.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		m.note("the body has a Content-Encoding; the signature may cover the compressed or the decompressed body")
	}
	return m, nil
}

func (m *Message) note(format string, args ...any) {
	m.Notes = append(m.Notes, fmt.Sprintf(format, args...))
}
