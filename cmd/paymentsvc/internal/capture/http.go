package capture

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// http parses HTTP text with LF or CRLF. The request line may be missing.
func (t *text) http(o Options) (Message, error) {
	lines, body := headLines(t.data)
	if len(lines) == 0 {
		return Message{}, t.fail(len(t.data), "empty file: want HTTP text, a curl command, a HAR file or JSON; %s", capturing)
	}
	m, err := t.head(lines)
	switch {
	case err != nil:
		return Message{}, err
	case o.Body != nil && (body < 0 || strings.TrimSpace(t.data[body:]) == ""):
		err = t.bodyFile(&m, o)
	case o.Body != nil:
		err = t.fail(body, "a body here, and a second body in %s: keep only one body", o.BodyName)
	case body < 0:
		err = t.fail(len(t.data),
			"the file ends within the headers: add a blank line and the body, or name the body's file with -body")
	default:
		err = t.cut(&m, body, len(t.data))
		if err == nil {
			err = t.present(&m, body, false)
		}
	}
	return m, err
}

// line is a line without its line end.
type line struct {
	text string
	at   int // offset in the file
}

// headLines returns the header lines, and the offset of the body after a blank line, or -1 without this blank line.
func headLines(data string) (lines []line, body int) {
	at := 0
	for l := range strings.Lines(data) {
		content := strings.TrimRight(l, "\r\n")
		if strings.TrimSpace(content) == "" {
			content = ""
		}
		if content != "" {
			lines = append(lines, line{content, at})
		}
		at += len(l)
		if content == "" && len(lines) > 0 {
			return lines, at
		}
	}
	return lines, -1
}

// isHead reports whether first can be the first line of HTTP text.
func isHead(first string) bool {
	first = strings.TrimRight(first, "\r")
	if method, rest, ok := strings.Cut(first, " "); ok && isToken(method) && strings.Contains(rest, " HTTP/") {
		return true
	}
	name, value, ok := strings.Cut(strings.TrimPrefix(first, ":"), ":")
	drive := len(name) == 1 && strings.HasPrefix(value, `\`) // a Windows prompt, such as C:\>
	return ok && isToken(name) && !drive || strings.HasPrefix(first, "HTTP/")
}

// head parses the headers, and the request line if present.
func (t *text) head(lines []line) (Message, error) {
	m := newMessage()
	if name, _, found := strings.Cut(strings.TrimPrefix(lines[0].text, ":"), ":"); !found || !isToken(name) {
		if err := t.requestLine(&m, lines[0]); err != nil {
			return m, err
		}
		lines = lines[1:]
	}
	pseudo := map[string]string{} // HTTP/2 pseudo-headers, such as :path, copied from a browser
	for _, l := range lines {
		if t.commented && isComment(l.text) {
			continue
		}
		if l.text[0] == ' ' || l.text[0] == '\t' {
			return m, t.fail(l.at, "this line continues a header: put each header on one line")
		}
		name, value, found := strings.Cut(strings.TrimPrefix(l.text, ":"), ":")
		if !found || !isToken(name) {
			return m, t.fail(l.at, "not a header of the form Name: value")
		}
		if l.text[0] == ':' {
			pseudo[name] = strings.TrimSpace(value)
			continue
		}
		if err := t.add(&m, name, value, l.at); err != nil {
			return m, err
		}
	}
	if path := pseudo["path"]; path != "" && m.URL == nil {
		m.Method = pseudo["method"]
		if pseudo["authority"] != "" {
			m.Header.Set("Host", pseudo["authority"])
		}
		return m, t.address(&m, path, lines[0].at)
	}
	if m.URL == nil {
		m.note("there is no request line, so the address is unknown; the signature may cover a part of the address")
	}
	return m, nil
}

func (t *text) requestLine(m *Message, l line) error {
	if strings.HasPrefix(l.text, "HTTP/") {
		return t.fail(l.at, "this is a response: want a request")
	}
	method, rest, _ := strings.Cut(l.text, " ")
	target, version, versioned := strings.Cut(rest, " ")
	if !isToken(method) || target == "" || versioned && !strings.HasPrefix(version, "HTTP/") {
		return t.fail(l.at, "not a request line, such as POST /init_payment/card HTTP/1.1")
	}
	m.Method = method
	return t.address(m, target, l.at+len(method)+1)
}

// address parses a path or a URL, and sets it in m.
func (t *text) address(m *Message, target string, at int) error {
	if plain, _ := url.PathUnescape(target); placeholder.MatchString(plain) {
		return t.fail(at, variables)
	}
	u, err := url.ParseRequestURI(target)
	isWeb := err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
	if err != nil || !isWeb && (u.Host != "" || !strings.HasPrefix(target, "/")) {
		return t.fail(at, "the address is neither a path nor an http or https URL")
	}
	m.URL = u
	return nil
}

// add adds a valid header to m.
func (t *text) add(m *Message, name, value string, at int) error {
	name, value = http.CanonicalHeaderKey(name), strings.TrimSpace(value)
	_, twice := m.at[name]
	switch {
	case placeholder.MatchString(value):
		return t.fail(at, variables)
	case !isToken(name) || !isValue(value):
		return t.fail(at, "the header has an invalid character")
	case twice && (name == "Host" || name == "Content-Length"):
		return t.fail(at, "the header %s is duplicated", name)
	case name == "Content-Length" && !IsDigits(value):
		return t.fail(at, "the Content-Length is not a number")
	}
	m.text, m.at[name] = t, at
	m.Header.Add(name, value)
	return nil
}

// cut sets the body to the given part of the file, without a response at its end. Content-Length decides where the body
// ends, and whether its lines end with LF or CRLF. Without Content-Length, cut removes a final line end, because
// editors add one.
func (t *text) cut(m *Message, from, to int) error {
	if m.Header.Get("Transfer-Encoding") != "" {
		return t.fail(from, "the body is chunked: decode the chunks, and replace Transfer-Encoding with Content-Length")
	}
	if response := responseLine.FindStringIndex(t.data[from:to]); response != nil {
		to = from + response[0]
	}
	rest := t.data[from:to]
	length := m.Header.Get("Content-Length")
	if length == "" {
		body := strings.TrimSuffix(strings.TrimSuffix(rest, "\n"), "\r")
		if strings.TrimSpace(body) == "" {
			return nil // an editor added the blank lines
		}
		if len(body) < len(rest) {
			m.note("the line end after the body is removed; to keep the line end, add a Content-Length header")
		}
		m.Body = []byte(body)
		return nil
	}
	n, err := strconv.Atoi(length)
	if body, ok := fits(rest, n); ok && err == nil {
		m.Body = []byte(body)
		return nil
	}
	short := strings.ReplaceAll(rest, "\r\n", "\n")
	for name, other := range map[string]string{"LF": short, "CRLF": strings.ReplaceAll(short, "\n", "\r\n")} {
		if body, ok := fits(other, n); ok && err == nil {
			m.Body = []byte(body)
			m.note("the Content-Length requires %s line ends; an earlier step changed the line ends, so they are restored", name)
			return nil
		}
	}
	if err != nil || n > len(rest) {
		return t.fail(from, "Content-Length is %s, but the body in the file has %d bytes", length, len(rest))
	}
	return t.fail(from+n, "the body is longer than its Content-Length, %d bytes", n)
}

// responseLine matches the start of a response after the request, because some tools write both.
var responseLine = regexp.MustCompile(`(?m)(?:\A|^[ \t]*\r?\n)(?:HTTP/[0-9.]+ [0-9]{3}|<< [0-9]{3}) `)

// fits returns the first n bytes of rest. It returns false if rest is shorter, or if more than white space follows.
func fits(rest string, n int) (string, bool) {
	if n > len(rest) || strings.Trim(rest[n:], " \r\n") != "" {
		return "", false
	}
	return rest[:n], true
}

// bodyFile sets the body to the separate file. It omits a final line end that the Content-Length excludes.
func (t *text) bodyFile(m *Message, o Options) error {
	m.Body = o.Body
	trimmed := bytes.TrimSuffix(bytes.TrimSuffix(o.Body, []byte("\n")), []byte("\r"))
	length := m.Header.Get("Content-Length")
	switch {
	case bytes.HasPrefix(o.Body, []byte{0xff, 0xfe}), bytes.HasPrefix(o.Body, []byte{0xfe, 0xff}):
		return &Error{Name: o.BodyName, Line: 1, Column: 1, Problem: "this is UTF-16: save the original bytes of the body"}
	case len(trimmed) == len(o.Body), length == strconv.Itoa(len(o.Body)):
	case length == strconv.Itoa(len(trimmed)):
		m.Body = trimmed
		m.note("the line end at the end of %s is omitted, because the Content-Length excludes it", o.BodyName)
	default:
		m.note("%s ends with a line end, which counts as part of the body", o.BodyName)
	}
	if bytes.HasPrefix(o.Body, []byte("\ufeff")) {
		m.note("%s begins with a byte order mark, which counts as part of the body", o.BodyName)
	}
	return nil
}

// isVerbose reports whether data is the output of curl -v. HTTP text can have such output only in its body.
func isVerbose(data string) bool {
	start := verboseHead(data)
	if start < 0 {
		return false
	}
	lines, body := headLines(data[:start])
	return body < 0 || !slices.ContainsFunc(lines, func(l line) bool { return isHead(l.text) })
}

// verboseHead returns the position of the request line in the output of curl -v, or -1.
func verboseHead(data string) int {
	at := 0
	for l := range strings.Lines(data) {
		if rest, ok := strings.CutPrefix(l, "> "); ok && isHead(rest) {
			return at
		}
		at += len(l)
	}
	return -1
}

// verbose parses the output of curl -v. The output lacks the body, so verbose takes the body from Options.Body, from
// the command before the output, or from text between the request and the response.
func (t *text) verbose(o Options) (Message, error) {
	start := verboseHead(t.data)
	var lines []line
	at := start
	for l := range strings.Lines(t.data[start:]) {
		if !strings.HasPrefix(l, ">") {
			break
		}
		if content := strings.TrimRight(l[1:], "\r\n"); strings.TrimSpace(content) != "" {
			lines = append(lines, line{strings.TrimPrefix(content, " "), at + 2})
		}
		at += len(l)
	}
	m, err := t.head(lines)
	if err != nil {
		return m, err
	}
	if verboseHead(t.data[at:]) >= 0 {
		return m, t.fail(at+verboseHead(t.data[at:]), "a second request: keep only one request")
	}
	from, to := between(t.data, at)
	switch command := commandStart(t.data[:start]); {
	case o.Body != nil:
		err = t.bodyFile(&m, o)
	case command >= 0:
		var sent Message
		sent, err = t.curl(o)
		if err == nil {
			m.Body, m.Notes = sent.Body, append(m.Notes, sent.Notes...)
		}
	case from == to && m.Header.Get("Content-Length") != "0" && !isBodiless(m.Method):
		err = t.fail(at, "curl -v does not print the body: paste the command above its output, "+
			"or name the body's file with -body; %s", capturing)
	default:
		err = t.cut(&m, from, to)
	}
	return m, err
}

// traceTime matches the time and the ids that --trace-time and --trace-ids print before a line of curl -v.
var traceTime = regexp.MustCompile(`(?m)^[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6} (?:\[[0-9x-]+\] )?([*<>{}](?:\s|$))`)

// lineOfCurl matches curl's notes, amounts of data, errors and progress meters. Terminals show a progress meter without
// its carriage return.
var lineOfCurl = regexp.MustCompile(`^(\* |[{}] \[|curl: \(|Note: |Warning: |\r|[ 0-9.:kMGTP-]{40})`)

// between searches the text from the offset at, the end of the request, to the response. It returns the range of the
// first text that curl did not print. A progress meter can precede the response on the same line.
func between(data string, at int) (from, to int) {
	before, _, _ := strings.Cut(data[at:], "< HTTP/")
	from, to = at+len(before), at+len(before)
	for l := range strings.Lines(before) {
		byCurl := lineOfCurl.MatchString(l)
		switch {
		case byCurl && from < to:
			return from, at
		case !byCurl && from == to && strings.TrimSpace(l) != "":
			from = at
		}
		at += len(l)
	}
	return from, to
}

// IsDigits reports whether s has only digits, and at least one.
func IsDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// isToken reports whether s is a valid method or header name.
func isToken(s string) bool { return tokens.MatchString(s) }

var tokens = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// isValue reports whether s is a valid header value.
func isValue(s string) bool {
	isControl := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	return strings.TrimSpace(s) == s && !strings.ContainsFunc(s, isControl)
}

// Decompressed decodes the body by its Content-Encoding. It returns false if the header does not name exactly one known
// encoding, if the body is not in this encoding, or if the result has more than limit bytes. It also rejects bytes
// after the compressed data, because a signature over the result would not cover them.
func Decompressed(header http.Header, body []byte, limit int64) ([]byte, bool) {
	encodings := header.Values("Content-Encoding")
	if len(encodings) != 1 {
		return nil, false
	}
	source := bytes.NewReader(body)
	var reader io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(encodings[0])) {
	case "gzip", "x-gzip":
		reader, err = gzip.NewReader(source)
	case "deflate":
		reader, err = zlib.NewReader(source)
		if err != nil {
			source.Reset(body)
			reader, err = flate.NewReader(source), nil // some senders omit the zlib header
		}
	default:
		return nil, false
	}
	if err != nil {
		return nil, false
	}
	plain, err := io.ReadAll(io.LimitReader(reader, limit+1))
	return plain, err == nil && int64(len(plain)) <= limit && source.Len() == 0
}
