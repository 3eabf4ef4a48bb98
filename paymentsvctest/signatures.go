package paymentsvctest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// SignatureFault is a request with a wrong timestamp or signature, and why.
type SignatureFault struct {
	// Endpoint and Number say which request it was, counted from 1 at the endpoint.
	Endpoint string
	Number   int
	// Reason says which of the usual mistakes makes this signature, or that none does.
	Reason string
	// Difference is where the signed text differs from the right one, nil if that is not known.
	Difference *Difference
}

// String returns all of it on one line.
func (f SignatureFault) String() string {
	text := fmt.Sprintf("%s, request %d: %s", f.Endpoint, f.Number, f.Reason)
	if f.Difference != nil {
		text += "; " + f.Difference.String()
	}
	return text
}

// Difference is the first difference of two canonical strings, with a few bytes around it. Every secret and every
// digit is masked, except those of the timestamp; letters are shown.
type Difference struct {
	// Offset is the number of bytes that are equal.
	Offset int
	// Signed and Expected are the bytes around it.
	Signed, Expected string
}

// String shows both sides.
func (d Difference) String() string {
	return fmt.Sprintf("the canonical strings differ at byte %d: signed %q, expected %q", d.Offset, d.Signed, d.Expected)
}

// SignatureFaults returns the requests that were rejected for their timestamp or signature, in their order.
func (s *Server) SignatureFaults() []SignatureFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, _ := s.signatures.after(0)
	return list
}

// Watch returns the scheme, and records the canonical strings that it signs. Use it in the code under test, so that
// [Server.SignatureFaults] can show where that code's canonical string differs from that of Config.Scheme:
//
//	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: srv.Watch(mine), Secret: secret})
//
// Only the latest 256 are kept. Without Watch the server tries the usual mistakes.
func (s *Server) Watch(scheme paymentsvc.Scheme) paymentsvc.Scheme {
	inner := scheme.Canonical
	if inner == nil {
		return scheme
	}
	scheme.Canonical = func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		before := len(dst)
		dst, err := inner(dst, m)
		if err == nil && m.Kind == paymentsvc.KindRequest {
			s.watched.add(dst[before:])
		}
		return dst, err
	}
	return scheme
}

// recorder keeps the latest canonical strings.
type recorder struct {
	mu    sync.Mutex
	texts [256][]byte
	next  int
}

func (r *recorder) add(text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts[r.next%len(r.texts)] = bytes.Clone(text)
	r.next++
}

// latest returns the recorded strings, the newest first.
func (r *recorder) latest() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	texts := make([][]byte, 0, len(r.texts))
	for i := range min(r.next, len(r.texts)) {
		texts = append(texts, r.texts[(r.next-1-i)%len(r.texts)])
	}
	return texts
}

// diagnose finds out how a wrong signature of m was made.
func (s *Server) diagnose(p Project, m *paymentsvc.Message, signature string) *SignatureFault {
	expected, err := s.cfg.Scheme.Canonical(nil, m)
	if err != nil {
		return &SignatureFault{Reason: "Config.Scheme makes no canonical string of the request: " + err.Error()}
	}
	signs := func(secret paymentsvc.Secret, encoding paymentsvc.Encoding, canonical []byte) bool {
		scheme := paymentsvc.Scheme{Canonical: fixed(canonical), Encoding: encoding}
		made, err := scheme.Signature(secret, m)
		return err == nil && made == signature
	}
	differs := func(reason string, signed []byte) *SignatureFault {
		return &SignatureFault{Reason: reason, Difference: s.difference(signed, expected, m.Timestamp)}
	}
	for _, other := range encodings() {
		if signs(p.Secret, other.encoding, expected) {
			return &SignatureFault{Reason: "the HMAC is right, but written in " + other.name + ", which is not Scheme.Encoding"}
		}
	}
	for _, other := range s.otherSecrets(p) {
		if signs(other.secret, s.cfg.Scheme.Encoding, expected) {
			return &SignatureFault{Reason: "signed with " + other.name}
		}
	}
	watched := s.watched.latest()
	for _, signed := range watched {
		if signs(p.Secret, s.cfg.Scheme.Encoding, signed) {
			return differs("the code under test makes another canonical string", signed)
		}
	}
	for _, other := range otherMessages(m, s.cfg.BasePath) {
		signed, err := s.cfg.Scheme.Canonical(nil, other.message)
		if err == nil && signs(p.Secret, s.cfg.Scheme.Encoding, signed) {
			return differs("signed over "+other.name, signed)
		}
	}
	if slices.ContainsFunc(watched, func(signed []byte) bool { return bytes.Equal(signed, expected) }) {
		return &SignatureFault{Reason: "the canonical string is right, so the secret is another one, or the encoding"}
	}
	return &SignatureFault{Reason: fmt.Sprintf(
		"none of the usual mistakes makes this signature (the canonical string has %d bytes): the key is another one, the message was altered, or the scheme is another; Server.Watch shows what was signed", len(expected))}
}

func fixed(canonical []byte) paymentsvc.CanonicalFunc {
	return func(dst []byte, _ *paymentsvc.Message) ([]byte, error) { return append(dst, canonical...), nil }
}

type namedEncoding struct {
	name     string
	encoding paymentsvc.Encoding
}

func encodings() []namedEncoding {
	return []namedEncoding{
		{"lower-case hexadecimal", paymentsvc.Hex},
		{"upper-case hexadecimal", paymentsvc.HexUpper},
		{"base64", base64.StdEncoding},
		{"base64 without padding", base64.RawStdEncoding},
		{"base64 for URLs", base64.URLEncoding},
		{"base64 for URLs without padding", base64.RawURLEncoding},
	}
}

type namedSecret struct {
	name   string
	secret paymentsvc.Secret
}

// otherSecrets returns the keys that are often used instead of a project's.
func (s *Server) otherSecrets(p Project) []namedSecret {
	text := string(p.Secret)
	others := []namedSecret{
		{"Project.OldSecret", p.OldSecret},
		{"the secret and a line break: trim what comes from a file", paymentsvc.Secret(text + "\n")},
		{"the secret and a line break: trim what comes from a file", paymentsvc.Secret(text + "\r\n")},
		{"the secret and a space: trim what comes from a file", paymentsvc.Secret(text + " ")},
		{"the secret without the white space around it", paymentsvc.Secret(strings.TrimSpace(text))},
	}
	for form := canonical.SecretHex; form.Name() != ""; form++ {
		if key, err := form.Read(p.Secret); err == nil {
			others = append(others, namedSecret{"the secret read as " + form.String(), key})
		}
	}
	for _, other := range s.cfg.Projects {
		if other.ID != p.ID {
			others = append(others, namedSecret{fmt.Sprintf("the secret of project %d", other.ID), other.Secret})
		}
	}
	return others
}

type namedMessage struct {
	name    string
	message *paymentsvc.Message
}

// otherMessages returns the requests that are often signed instead of the one that is sent.
func otherMessages(m *paymentsvc.Message, basePath string) []namedMessage {
	var others []namedMessage
	add := func(name string, change func(*paymentsvc.Message)) {
		copied := *m
		if m.URL != nil {
			address := *m.URL
			copied.URL = &address
		}
		change(&copied)
		others = append(others, namedMessage{name, &copied})
	}
	body := func(name string, body []byte) {
		add(name, func(m *paymentsvc.Message) { m.Body = body })
	}
	var buf bytes.Buffer
	body("an empty body", nil)
	body("the body and a line break", append(bytes.Clone(m.Body), '\n'))
	body("the body without its line break", bytes.TrimSuffix(m.Body, []byte("\n")))
	json.HTMLEscape(&buf, m.Body)
	body("the body with <, > and & escaped", bytes.Clone(buf.Bytes()))
	if buf.Reset(); json.Compact(&buf, m.Body) == nil {
		body("the body without white space", bytes.Clone(buf.Bytes()))
	}
	if buf.Reset(); json.Indent(&buf, m.Body, "", "  ") == nil {
		body("the body indented", bytes.Clone(buf.Bytes()))
	}
	for _, form := range writings() {
		if written, err := canonical.BodyJSON(form.json)(nil, m); err == nil {
			body(form.name, written)
		}
	}
	if seconds, err := strconv.ParseInt(m.Timestamp, 10, 64); err == nil {
		for _, off := range []int64{-1, 1, -2, 2, -3, 3} {
			add("another timestamp than the header's", func(m *paymentsvc.Message) { m.Timestamp = strconv.FormatInt(seconds+off, 10) })
		}
		add("the timestamp in milliseconds", func(m *paymentsvc.Message) { m.Timestamp += "000" })
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05.000Z", http.TimeFormat, time.DateTime} {
			add("the timestamp as a date", func(m *paymentsvc.Message) { m.Timestamp = time.Unix(seconds, 0).UTC().Format(layout) })
		}
	}
	add("no timestamp", func(m *paymentsvc.Message) { m.Timestamp = "" })
	add("the method in lower case", func(m *paymentsvc.Message) { m.Method = strings.ToLower(m.Method) })
	add("no method", func(m *paymentsvc.Message) { m.Method = "" })
	if m.URL != nil {
		path := m.URL.Path
		add("the path without that of the base address", func(m *paymentsvc.Message) { m.URL.Path = strings.TrimPrefix(path, basePath) })
		add("the path without its first slash", func(m *paymentsvc.Message) { m.URL.Path = strings.TrimPrefix(path, "/") })
		add("the path without that of the base address and its slash", func(m *paymentsvc.Message) {
			m.URL.Path = strings.TrimPrefix(path, basePath+"/")
		})
		add("the path and a slash", func(m *paymentsvc.Message) { m.URL.Path = path + "/" })
		add("the path of another address", func(m *paymentsvc.Message) { m.URL.Path = "/" })
	}
	add("a notification, by its Kind", func(m *paymentsvc.Message) { m.Kind = paymentsvc.KindNotification })
	return others
}

type namedForm struct {
	name string
	json canonical.JSONForm
}

// writings returns the ways in which programs write JSON anew.
func writings() []namedForm {
	form := func(name string, set func(*canonical.JSONForm)) namedForm {
		f := namedForm{name: name}
		set(&f.json)
		return f
	}
	const most = 12
	list := append(make([]namedForm, 0, most), []namedForm{
		form("the body with a space behind each colon and comma", func(f *canonical.JSONForm) { f.Spaces = true }),
		form("the body with its fields sorted", func(f *canonical.JSONForm) { f.Sort = true }),
		form("the body with numbers as JavaScript writes them", func(f *canonical.JSONForm) { f.Numbers = canonical.NumbersShort }),
		form("the body with slashes escaped, as PHP writes it", func(f *canonical.JSONForm) { f.EscapeSlash, f.Numbers = true, canonical.NumbersShort }),
		form("the body with slashes and letters escaped, as PHP writes it", func(f *canonical.JSONForm) {
			f.EscapeSlash, f.EscapeUnicode, f.Numbers = true, true, canonical.NumbersShort
		}),
		form("the body as Python writes it", func(f *canonical.JSONForm) {
			f.Spaces, f.EscapeUnicode, f.Numbers = true, true, canonical.NumbersPython
		}),
		form("the body with numbers as Java writes them", func(f *canonical.JSONForm) { f.Numbers = canonical.NumbersJava }),
		form("the body with numbers of two decimal places", func(f *canonical.JSONForm) { f.Numbers = canonical.NumbersTwoPlaces }),
		form("the body with numbers in quotes", func(f *canonical.JSONForm) { f.Numbers = canonical.NumbersQuoted }),
	}...)
	for _, f := range list[3:6] {
		f.name += ", with its fields sorted"
		f.json.Sort = true
		list = append(list, f)
	}
	return list
}

// excerpt is how many bytes on each side of a difference are shown.
const excerpt = 12

func (s *Server) difference(signed, expected []byte, timestamp string) *Difference {
	at := 0
	for at < min(len(signed), len(expected)) && signed[at] == expected[at] {
		at++
	}
	around := func(text []byte) string {
		text = s.masked(text, timestamp)
		return string(text[max(at-excerpt, 0):min(at+excerpt, len(text))])
	}
	return &Difference{Offset: at, Signed: around(signed), Expected: around(expected)}
}

// masked hides secrets and digits, for canonical strings may hold card data, and some hold the key itself.
func (s *Server) masked(text []byte, timestamp string) []byte {
	out := bytes.Clone(text)
	for i, c := range out {
		if '0' <= c && c <= '9' {
			out[i] = '#'
		}
	}
	if len(timestamp) >= 10 { // a time of this century; shorter digits may stand for anything
		restore(out, text, timestamp)
	}
	for _, p := range s.cfg.Projects {
		for _, secret := range []paymentsvc.Secret{p.Secret, p.OldSecret} {
			cover(out, text, string(secret))
		}
	}
	return out
}

// restore copies word to out where it occurs in text; cover writes asterisks instead.
func restore(out, text []byte, word string) {
	each(text, word, func(at int) { copy(out[at:], word) })
}

func cover(out, text []byte, word string) {
	each(text, word, func(at int) { copy(out[at:], strings.Repeat("*", len(word))) })
}

func each(text []byte, word string, do func(at int)) {
	if word == "" {
		return
	}
	for at := 0; ; at++ {
		next := bytes.Index(text[at:], []byte(word))
		if next < 0 {
			return
		}
		at += next
		do(at)
	}
}
