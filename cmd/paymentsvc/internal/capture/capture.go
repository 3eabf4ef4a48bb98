// Package capture reads signed messages in the forms in which partners have them: HTTP text, a curl command, the output
// of curl -v, a HAR file, a gateway's JSON, or headers and a body in files of their own.
package capture

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Message is a captured request.
type Message struct {
	// Method is the HTTP method: POST if the capture does not show it, as everything in the interface document.
	Method string
	// URL is the address, without a host if the capture has none; nil if the capture shows no address at all.
	URL *url.URL
	// Header has all headers but Host, which is in URL, and no white space around values. Duplicates are kept.
	Header http.Header
	// Body is the body, byte for byte as far as the capture kept it.
	Body []byte
	// Announced is the Content-Length of a request whose body broke off; [Write] ignores it unless it exceeds the body.
	Announced int64
	// Source is the name of the file and, of a file with several messages, the entry.
	Source string
	// Notes says, in one sentence each, what was assumed, and which step may have lost bytes that were signed.
	Notes []string

	lines map[string]int // header to line
}

// Line returns the line of a header in its file, 1 if it is unknown.
func (m *Message) Line(header string) int { return max(1, m.lines[http.CanonicalHeaderKey(header)]) }

// Options configures [Read]. The zero value reads a file that holds one signed message.
type Options struct {
	// Entry chooses a message of a HAR file or of a list in JSON, counted from 1. 0 means the only signed one.
	Entry int
	// URL chooses the messages whose address contains it; "" means any.
	URL string
	// Signature is the name of the header by which signed messages are recognized; "" means any whose name has "sign"
	// or "hmac" in it.
	Signature string
	// Body, if not nil, is the body of a capture that shows none, and BodyName the name of its file.
	Body     []byte
	BodyName string
	// Open reads a file that a curl command names with @. If it is nil, such a command is an error.
	Open func(name string) ([]byte, error)
}

// Error is a capture that cannot be read. It holds nothing of a body or a header's value.
type Error struct {
	Name         string
	Line, Column int // from 1; columns count characters
	Problem      string
}

// Error returns the name, the position and the problem.
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, e.Problem)
}

// Read reads the one signed message of a file. It returns an [*Error] if there is none, or if there are several and o
// does not choose one.
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

// text is a file in UTF-8. Errors name its positions.
type text struct {
	name    string
	data    string
	notes   []string
	listing bool // entries are looked through, so that nobody will read an error's place
	line    int  // of lineAt, less 1
	lineAt  int
}

// lineOf returns the line of a place. It counts from the place before, so that all lines of a file take one pass.
func (t *text) lineOf(at int) int {
	if at = min(max(at, 0), len(t.data)); at < t.lineAt {
		t.line, t.lineAt = 0, 0
	}
	t.line, t.lineAt = t.line+strings.Count(t.data[t.lineAt:at], "\n"), at
	return t.line + 1
}

var errListing = errors.New("capture: not chosen")

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

// entry is one message of a file. It is read only if it is chosen.
type entry struct {
	number int
	method string
	url    *url.URL
	signed bool
	read   func() (Message, error)
}

// candidates finds out the form of a file and returns the messages that o leaves to choose from, at least one.
func candidates(data []byte, name string, o Options) (*text, []entry, error) {
	t, err := decode(data, name)
	if err != nil {
		return nil, nil, err
	}
	first := strings.TrimLeft(t.data, " \t\r\n")
	line, _, _ := strings.Cut(first, "\n")
	var list []entry
	one := func(read func(*text, Options) (Message, error)) []entry {
		return []entry{{number: 1, signed: true, read: func() (Message, error) { return t.finish(read(t, o)) }}}
	}
	switch {
	case strings.HasPrefix(first, "{"), strings.HasPrefix(first, "["):
		if list, err = t.json(o); err != nil {
			return nil, nil, err
		}
	case isHead(line):
		list = one((*text).http)
	case verboseHead(t.data) >= 0:
		list = one((*text).verbose)
	case commandStart(t.data) >= 0:
		list = one((*text).curl)
	default:
		list = one((*text).http)
	}
	list, err = t.choose(list, o)
	return t, list, err
}

// decode returns the text of a file, whatever Windows has made of it.
func decode(data []byte, name string) (*text, error) {
	t := &text{name: name}
	little := bytes.HasPrefix(data, []byte{0xff, 0xfe}) || len(data) > 3 && data[0] != 0 && data[1] == 0 && data[3] == 0
	big := bytes.HasPrefix(data, []byte{0xfe, 0xff}) || len(data) > 3 && data[0] == 0 && data[1] != 0 && data[2] == 0
	if !little && !big {
		rest, marked := bytes.CutPrefix(data, []byte("\ufeff"))
		if marked {
			t.notes = append(t.notes, "a byte order mark at the start of the file is left out")
		}
		t.data = string(rest)
		return t, nil
	}
	if len(data)%2 != 0 {
		return nil, t.fail(0, "this is UTF-16 with half a character at the end")
	}
	units := make([]uint16, 0, len(data)/2)
	for pair := range slices.Chunk(data, 2) {
		low, high := pair[0], pair[1]
		if big {
			low, high = high, low
		}
		units = append(units, uint16(high)<<8|uint16(low))
	}
	t.data = strings.TrimPrefix(string(utf16.Decode(units)), "\ufeff")
	t.notes = append(t.notes, "the file is UTF-16, as Windows PowerShell writes it, and was decoded: "+
		"bytes of the body that are not ASCII may be lost; save it as it came, with curl.exe -o or cmd.exe")
	return t, nil
}

// choose applies the choice of o.
func (t *text) choose(list []entry, o Options) ([]entry, error) {
	if o.Entry < 0 || o.Entry > len(list) {
		return nil, t.fail(0, "there is no entry %d; the file has %d", o.Entry, len(list))
	}
	if o.Entry > 0 {
		return list[o.Entry-1 : o.Entry], nil
	}
	if o.URL != "" && len(list) > 1 {
		list = slices.DeleteFunc(list, func(e entry) bool { return e.url == nil || !strings.Contains(e.url.String(), o.URL) })
	}
	if len(list) == 0 {
		return nil, t.fail(0, "there is no message with that address")
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

// ambiguous lists messages without their queries, which may hold secrets.
func (t *text) ambiguous(list []entry) error {
	const most = 10
	var names []string
	for _, e := range list[:min(most, len(list))] {
		name := fmt.Sprintf("%d %s", e.number, e.method)
		if e.url != nil {
			shown := url.URL{Scheme: e.url.Scheme, Host: e.url.Host, Path: e.url.Path}
			name += " " + shown.String()
		}
		names = append(names, name)
	}
	if len(list) > most {
		names = append(names, "...")
	}
	what := "signed messages"
	if !list[0].signed {
		what = "messages, none with a header that looks like a signature"
	}
	return t.fail(0, "%d %s: choose one with -entry: %s", len(list), what, strings.Join(names, "; "))
}

// finish completes a message, and notes what shows that bytes were lost.
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
		return Message{}, t.fail(0, "the method has a character that no method can have")
	}
	m.Notes = append(slices.Clone(t.notes), m.Notes...)
	host := m.Header.Get("Host")
	m.Header.Del("Host") // net/http keeps it apart from the other headers too
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
			m.note("the query has a space, which no request can have: it is taken for %%20")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		if n := len(m.Header[name]); n > 1 {
			m.note("there are %d headers %s", n, name)
		}
	}
	if length := m.Header.Get("Content-Length"); length != "" && length != fmt.Sprint(len(m.Body)) {
		m.note("the body has %d bytes, and its Content-Length is another: a step before lost or added bytes", len(m.Body))
	}
	if bytes.Contains(m.Body, []byte("\ufffd")) {
		m.note("the body has replacement characters (U+FFFD): a step before lost bytes")
	}
	if coding := m.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		m.note("the body has a Content-Encoding: the signature may cover it compressed or not")
	}
	return m, nil
}

func (m *Message) note(format string, args ...any) {
	m.Notes = append(m.Notes, fmt.Sprintf(format, args...))
}
