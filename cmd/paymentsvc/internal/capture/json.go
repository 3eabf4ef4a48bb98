package capture

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// json returns the messages of a HAR file, or of a gateway's JSON: one value, a list, or one value a line.
func (t *text) json(o Options) ([]entry, error) {
	if !utf8.ValidString(t.data) {
		t.notes = append(t.notes, "the file is not UTF-8, so its other bytes are lost")
	}
	var list []json.RawMessage
	decoder := json.NewDecoder(strings.NewReader(t.data))
	for {
		var value json.RawMessage
		switch err := decoder.Decode(&value); {
		case errors.Is(err, io.EOF) && len(list) > 0:
			return t.entries(list, o)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, t.fail(len(t.data), "the JSON is cut off")
		case err != nil:
			return nil, t.wrong(t.data, err)
		}
		list = append(list, value)
	}
}

// find returns the position of a value in the file.
func (t *text) find(value string) int {
	if t.listing {
		return 0
	}
	return strings.Index(t.data, value)
}

// wrong returns the error of a JSON value with its place in the file.
func (t *text) wrong(value string, err error) error {
	at := max(0, t.find(value))
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return t.fail(at+int(max(0, syntax.Offset-1)), "this is not JSON here")
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return t.fail(at+int(kind.Offset), "the field %q is of a kind that no log of a request has", kind.Field)
	}
	return t.fail(at, "this JSON is not a request")
}

// entries returns the messages of values.
func (t *text) entries(values []json.RawMessage, o Options) ([]entry, error) {
	var list []entry
	for _, value := range values {
		var many []json.RawMessage
		var har struct {
			Log *struct{ Entries []json.RawMessage }
		}
		switch {
		case json.Unmarshal(value, &many) == nil:
		case json.Unmarshal(value, &har) == nil && har.Log != nil:
			for _, e := range har.Log.Entries {
				t.entry(&list, e, o, t.har)
			}
			continue
		default:
			many = []json.RawMessage{value}
		}
		for _, one := range many {
			t.entry(&list, one, o, t.gateway)
		}
	}
	if len(list) == 0 {
		return nil, t.fail(0, "there is no request in this JSON")
	}
	if len(list) == 1 {
		list[0].signed = true
	}
	return list, nil
}

// entry adds a message. An unreadable message is an error only when selected.
func (t *text) entry(list *[]entry, value json.RawMessage, o Options, read func(json.RawMessage, Options) (Message, error)) {
	t.listing = true
	m, _ := read(value, o) // the entry's own read returns the error
	t.listing = false
	number := len(*list) + 1
	e := entry{number: number, method: m.Method, url: m.URL, read: func() (Message, error) {
		m, err := read(value, o)
		m.Source = fmt.Sprintf("%s entry %d", t.name, number)
		return t.finish(m, err)
	}}
	for name := range m.Header {
		lower := strings.ToLower(name)
		e.signed = e.signed || strings.EqualFold(name, o.Signature) ||
			o.Signature == "" && (strings.Contains(lower, "sign") || strings.Contains(lower, "hmac"))
	}
	*list = append(*list, e)
}

// har parses an entry of a HAR file.
func (t *text) har(value json.RawMessage, o Options) (Message, error) {
	var e struct {
		Request struct {
			Method, URL string
			Headers     json.RawMessage
			BodySize    int
			PostData    *struct {
				Text     *string
				Params   []json.RawMessage
				Encoding string
			}
		}
	}
	m := Message{Header: http.Header{}, lines: map[string]int{}}
	if err := json.Unmarshal(value, &e); err != nil {
		return m, t.wrong(string(value), err)
	}
	at := t.find(string(value))
	r := e.Request
	m.Method = r.Method
	if err := t.address(&m, r.URL, at); err != nil {
		return m, err
	}
	if err := t.pairs(&m, r.Headers, at); err != nil {
		return m, err
	}
	data := r.PostData
	switch {
	case o.Body != nil:
		return m, t.bodyFile(&m, o)
	case data == nil && r.BodySize <= 0:
		return m, nil
	case data == nil || data.Text == nil && len(data.Params) == 0:
		return m, t.fail(at, "this HAR was saved without the body: save it with content")
	case data.Text == nil || *data.Text == "" && len(data.Params) > 0:
		return m, t.fail(at, "this HAR has the body as params only, whose bytes are lost: capture the message by other means")
	}
	if err := t.setBody(&m, *data.Text, data.Encoding == "base64", at); err != nil {
		return m, err
	}
	if r.BodySize > 0 && r.BodySize != len(m.Body) {
		m.note("the HAR's bodySize is %d, and the body here has %d bytes", r.BodySize, len(m.Body))
	}
	return m, nil
}

func (t *text) setBody(m *Message, body string, encoded bool, at int) error {
	m.Body = []byte(body)
	if !encoded {
		return nil
	}
	decoded, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return t.fail(at, "the body is not the base64 that this entry calls it")
	}
	m.Body = decoded
	return nil
}

// logged is a request in the log of a gateway or program.
type logged struct {
	HTTPMethod, Method, Path, RawPath, RawQueryString, URL, URI string
	Headers, MultiValueHeaders                                  json.RawMessage
	QueryStringParameters                                       map[string]string
	MultiValueQueryStringParameters                             map[string][]string
	Body                                                        json.RawMessage
	BodyBase64                                                  *string `json:"body_base64"`
	IsBase64Encoded                                             bool
	Request                                                     json.RawMessage
	RequestContext                                              struct {
		Path, DomainName string
		HTTP             struct{ Method, Path string }
	}
}

// gateway parses the JSON of API Gateway, of ALB, or of a program that logs headers and body.
func (t *text) gateway(value json.RawMessage, o Options) (Message, error) {
	return t.wrapped(value, o, 0)
}

const mostWrapped = 8 // objects "request" around a request

func (t *text) wrapped(value json.RawMessage, o Options, wrapped int) (Message, error) {
	m := Message{Header: http.Header{}, lines: map[string]int{}}
	var l logged
	if err := json.Unmarshal(value, &l); err != nil {
		return m, t.wrong(string(value), err)
	}
	at := t.find(string(value))
	if l.Headers == nil && l.MultiValueHeaders == nil {
		if l.Request != nil && wrapped < mostWrapped {
			return t.wrapped(l.Request, o, wrapped+1)
		}
		return m, t.fail(at, "this JSON has no headers")
	}
	m.Method = cmp.Or(l.HTTPMethod, l.Method, l.RequestContext.HTTP.Method)
	headers := l.MultiValueHeaders
	if len(headers) == 0 || string(headers) == "null" {
		headers = l.Headers
	}
	if err := t.pairs(&m, headers, at); err != nil {
		return m, err
	}
	if err := t.loggedAddress(&m, &l, at); err != nil {
		return m, err
	}
	if o.Body != nil {
		return m, t.bodyFile(&m, o)
	}
	var body *string
	switch {
	case l.BodyBase64 != nil:
		return m, t.setBody(&m, *l.BodyBase64, true, at)
	case len(l.Body) == 0:
	case json.Unmarshal(l.Body, &body) != nil:
		m.Body = l.Body
		m.note("the body is JSON here and not text: it was parsed and encoded again, so the bytes that were signed may be lost")
	case body != nil:
		return m, t.setBody(&m, *body, l.IsBase64Encoded, at)
	}
	return m, nil
}

// loggedAddress builds the address of a logged request.
func (t *text) loggedAddress(m *Message, l *logged, at int) error {
	target := cmp.Or(l.URL, l.URI, l.RawPath, l.RequestContext.Path, l.Path, l.RequestContext.HTTP.Path)
	if target == "" {
		m.note("there is no path: what the signature covers of the address is unknown")
		return nil
	}
	if _, err := url.ParseRequestURI(target); err != nil {
		target = (&url.URL{Path: target}).EscapedPath()
	}
	if l.RequestContext.Path != "" && l.Path != "" && l.RequestContext.Path != l.Path {
		m.note("the path is the one of requestContext, with the stage")
	}
	query := url.Values(l.MultiValueQueryStringParameters)
	if len(query) == 0 {
		query = url.Values{}
		for name, value := range l.QueryStringParameters {
			query.Set(name, value)
		}
	}
	switch {
	case l.RawQueryString != "":
		target += "?" + l.RawQueryString
	case len(query) > 0 && !strings.Contains(target, "?"):
		target += "?" + query.Encode()
		m.note("the query is put together from its parameters: their order and escapes may be others than were signed")
	}
	if err := t.address(m, target, at); err != nil {
		return err
	}
	if m.URL.Host == "" && m.Header.Get("Host") == "" && l.RequestContext.DomainName != "" {
		m.URL.Scheme, m.URL.Host = "https", l.RequestContext.DomainName
	}
	return nil
}

// pairs adds headers from an object of texts or lists, or from a list of pairs, lines or objects with name and value.
func (t *text) pairs(m *Message, headers json.RawMessage, at int) error {
	if len(headers) == 0 || string(headers) == "null" {
		return nil
	}
	unknown := func() error {
		return t.fail(at, "the headers are neither an object nor a list of names and values")
	}
	add := func(name string, value json.RawMessage) error {
		var one any
		var many []string
		if json.Unmarshal(value, &many) != nil {
			if json.Unmarshal(value, &one) != nil {
				return unknown()
			}
			many = []string{strings.Trim(string(value), `"`)}
			if text, ok := one.(string); ok {
				many[0] = text
			}
		}
		for _, v := range many {
			if strings.HasPrefix(name, ":") {
				continue // a pseudo-header of HTTP/2, already in the address
			}
			if err := t.add(m, name, v, at); err != nil {
				return err
			}
		}
		return nil
	}
	if headers[0] == '{' {
		return eachMember(headers, add)
	}
	var list []json.RawMessage
	if json.Unmarshal(headers, &list) != nil {
		return unknown()
	}
	for _, item := range list {
		var pair []json.RawMessage
		var object struct {
			Name  string
			Value json.RawMessage
		}
		var line, name string
		var err error
		switch {
		case json.Unmarshal(item, &pair) == nil && len(pair) == 2 && json.Unmarshal(pair[0], &name) == nil:
			err = add(name, pair[1])
		case json.Unmarshal(item, &object) == nil && object.Name != "":
			err = add(object.Name, object.Value)
		case json.Unmarshal(item, &line) == nil && strings.Contains(line[min(1, len(line)):], ":"):
			name, value, _ := strings.Cut(line, ":")
			err = t.add(m, name, value, at)
		default:
			err = unknown()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachMember calls f with each member of an object, including duplicates.
func eachMember(object json.RawMessage, f func(name string, value json.RawMessage) error) error {
	decoder := json.NewDecoder(strings.NewReader(string(object)))
	_, _ = decoder.Token() // the bracket of a valid object
	for decoder.More() {
		name, _ := decoder.Token()
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		if err := f(fmt.Sprint(name), value); err != nil {
			return err
		}
	}
	return nil
}
