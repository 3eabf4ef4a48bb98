package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/discover"
)

// sample is a captured request, and the lines of its headers.
type sample struct {
	file    string
	message paymentsvc.Message
	lines   map[string]int // header to line
	note    string         // what was assumed about the capture
}

func (s *sample) lineOf(header string) int { return max(1, s.lines[header]) }

func canonicalSamples(samples []sample) []discover.Sample {
	out := make([]discover.Sample, 0, len(samples))
	for _, s := range samples {
		out = append(out, discover.Sample{Name: s.file, Message: s.message})
	}
	return out
}

// parseSample parses a raw HTTP request, with line ends of either kind. Errors name the file and the line, and repeat
// nothing of it.
func parseSample(file string, data []byte) (sample, error) {
	r := &reader{file: file, rest: data}
	s := sample{file: file, lines: map[string]int{}}
	s.message.Header = http.Header{}
	if err := r.requestLine(&s); err != nil {
		return sample{}, err
	}
	if err := r.headers(&s); err != nil {
		return sample{}, err
	}
	if err := r.body(&s); err != nil {
		return sample{}, err
	}
	if host := s.message.Header.Get("Host"); s.message.URL.Host == "" && host != "" {
		s.message.URL.Scheme, s.message.URL.Host = "https", host
	}
	s.message.Header.Del("Host") // net/http keeps it apart from the other headers too
	s.message.Kind = kindOf(s.message.Body)
	return s, nil
}

type reader struct {
	file string
	line int // of what was read last
	rest []byte
}

func (r *reader) fail(problem string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", r.file, r.line, fmt.Sprintf(problem, args...))
}

// next reads a line; ok is false at the end of the file.
func (r *reader) next() (line string, ok bool) {
	if len(r.rest) == 0 {
		r.line++
		return "", false
	}
	text, rest, _ := bytes.Cut(r.rest, []byte("\n"))
	r.line++
	r.rest = rest
	return string(bytes.TrimSuffix(text, []byte("\r"))), true
}

func (r *reader) requestLine(s *sample) error {
	line, ok := r.next()
	for ok && line == "" {
		line, ok = r.next()
	}
	if !ok {
		return r.fail("empty: a sample is a raw HTTP request")
	}
	if strings.HasPrefix(line, "HTTP/") {
		return r.fail("this is a response; a sample is a request")
	}
	method, rest, _ := strings.Cut(line, " ")
	target, version, versioned := strings.Cut(rest, " ")
	if !isToken(method) || target == "" || versioned && !strings.HasPrefix(version, "HTTP/") {
		return r.fail("not the first line of a request, such as POST /init_payment/card HTTP/1.1")
	}
	u, err := url.ParseRequestURI(target)
	if err != nil || u.Host == "" && !strings.HasPrefix(target, "/") {
		return r.fail("the address is neither a path nor a URL")
	}
	s.message.Method, s.message.URL = method, u
	return nil
}

func (r *reader) headers(s *sample) error {
	for {
		line, ok := r.next()
		switch {
		case !ok:
			return r.fail("the file ends within the headers: want a blank line between them and the body")
		case line == "":
			return r.required(s)
		case line[0] == ' ' || line[0] == '\t':
			return r.fail("a header that goes on over a second line")
		}
		name, value, found := strings.Cut(line, ":")
		if !found || !isToken(name) {
			return r.fail("not a header of the form Name: value")
		}
		name = http.CanonicalHeaderKey(name)
		value = strings.TrimSpace(value)
		if _, twice := s.lines[name]; twice && (name == "Timestamp" || name == "Signature" || name == "Host" || name == "Content-Length") {
			return r.fail("a second %s header", name)
		}
		if name == "Transfer-Encoding" {
			return r.fail("the body is sent in chunks: take them apart, and give a Content-Length")
		}
		if name == "Timestamp" && !isDigits(value) {
			return r.fail("the timestamp is not Unix seconds in digits")
		}
		if name == "Content-Length" && !isDigits(value) {
			return r.fail("the Content-Length is not a number")
		}
		s.lines[name] = r.line
		s.message.Header.Add(name, value)
	}
}

func (r *reader) required(s *sample) error {
	for _, name := range []string{"Timestamp", "Signature"} {
		if s.lines[name] == 0 {
			return r.fail("no %s header before the blank line", strings.ToLower(name))
		}
	}
	s.message.Timestamp = s.message.Header.Get("Timestamp")
	return nil
}

// body takes as much as Content-Length says, or the rest of the file without the line end that editors add.
func (r *reader) body(s *sample) error {
	s.message.Body = r.rest
	length := s.message.Header.Get("Content-Length")
	if length == "" {
		if trimmed := trimLineEnd(r.rest); len(trimmed) < len(r.rest) {
			s.message.Body = trimmed
			s.note = "the line end at the end of the file is taken for the file's own; a Content-Length header would tell"
		}
		return nil
	}
	n, err := strconv.Atoi(length)
	switch {
	case err != nil || n > len(r.rest):
		r.line = s.lines["Content-Length"]
		return r.fail("Content-Length is %s, and the file has %d bytes of body", length, len(r.rest))
	case len(bytes.TrimRight(r.rest[n:], "\r\n")) > 0:
		r.line += 1 + bytes.Count(r.rest[:n], []byte("\n"))
		return r.fail("there is more than the %d bytes of body that Content-Length says", n)
	}
	s.message.Body = r.rest[:n]
	return nil
}

func trimLineEnd(body []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(body, []byte("\n")), []byte("\r"))
}

// kindOf recognizes a notification by its event (section 6), which no request has (section 4).
func kindOf(body []byte) paymentsvc.MessageKind {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) == nil && fields["event"] != nil {
		return paymentsvc.KindNotification
	}
	return paymentsvc.KindRequest
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// isToken reports whether s can be a method or the name of a header.
func isToken(s string) bool {
	const signs = "!#$%&'*+-.^_`|~"
	notAllowed := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune(signs, r)
	}
	return s != "" && strings.IndexFunc(s, notAllowed) < 0
}
