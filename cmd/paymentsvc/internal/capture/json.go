package capture

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// node is a JSON value and its position in the file.
type node struct {
	raw json.RawMessage
	at  int
}

// kind returns the first character of the value, or 0 for a missing value and for null.
func (n node) kind() byte {
	if len(n.raw) == 0 || string(n.raw) == "null" {
		return 0
	}
	return n.raw[0]
}

// text returns the value of a JSON string, the characters of a number, or "" for any other value.
func (n node) text() string {
	var text string
	switch kind := n.kind(); {
	case kind == '"':
		_ = json.Unmarshal(n.raw, &text) // the file's JSON is valid
	case kind == '-' || kind >= '0' && kind <= '9':
		text = string(n.raw)
	}
	return text
}

// members returns the members of an object, including duplicates, or the elements of a list, with "" as the name. It
// does not copy values, because a long body can be inside many objects.
func (n node) members() iter.Seq2[string, node] {
	return func(yield func(string, node) bool) {
		if n.kind() != '{' && n.kind() != '[' {
			return
		}
		for at := valueStart(n.raw, 1); at < len(n.raw)-1; at = valueStart(n.raw, at) {
			name := ""
			if n.raw[0] == '{' {
				end := jsonobject.EndOfString(n.raw, at)
				name = node{raw: n.raw[at:end]}.text()
				at = valueStart(n.raw, end)
			}
			end := jsonobject.EndOfValue(n.raw, at)
			if !yield(name, node{n.raw[at:end], n.at + at}) {
				return
			}
			at = end
		}
	}
}

// elements returns the elements of a list, or the value itself.
func (n node) elements() (list []node) {
	if n.kind() != '[' {
		return []node{n}
	}
	for _, element := range n.members() {
		list = append(list, element)
	}
	return list
}

// valueStart returns the position of the next value or closing bracket in valid JSON.
func valueStart(raw []byte, at int) int {
	return at + len(raw[at:]) - len(bytes.TrimLeft(raw[at:], " \t\r\n,:"))
}

// json parses a file of one or more JSON values, such as one object per line, and returns its messages.
func (t *text) json(o Options) ([]entry, error) {
	if !utf8.ValidString(t.data) {
		t.notes = append(t.notes, "the file is not UTF-8, so its invalid bytes are lost")
	}
	var list []node
	decoder := json.NewDecoder(strings.NewReader(t.data))
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		syntax, wrong := errors.AsType[*json.SyntaxError](err)
		switch {
		case errors.Is(err, io.EOF) && len(list) > 0:
			return t.entries(list, o)
		case wrong:
			return nil, t.fail(int(max(0, syntax.Offset-1)), "the JSON is invalid here")
		case err != nil:
			return nil, t.fail(len(t.data), "the JSON is cut off")
		}
		list = append(list, node{value, int(decoder.InputOffset()) - len(value)})
	}
}

// entries returns the messages in values, at most maxNested deep, without responses. If there is no message, a single
// value may be an object or a list of headers.
func (t *text) entries(values []node, o Options) ([]entry, error) {
	var list []entry
	for _, value := range values {
		t.walk(&list, value, "", o, 0)
	}
	if len(list) == 0 && len(values) == 1 && isHeaders(values[0]) {
		t.entry(&list, fields{"headers": values[0]}, values[0].at, o)
	}
	if len(list) == 0 {
		return nil, t.fail(0, "there is no request in this JSON: %s", capturing)
	}
	list[0].signed = list[0].signed || len(list) == 1
	return list, nil
}

const maxNested = 32 // JSON values around a request; each folder of a Postman collection adds two

// walk appends the messages in a value to list. It also parses JSON inside a JSON string, because some programs log
// requests as strings.
func (t *text) walk(list *[]entry, n node, name string, o Options, depth int) {
	if depth > maxNested {
		return
	}
	switch n.kind() {
	case '"':
		if inner := strings.TrimSpace(n.text()); strings.HasPrefix(inner, "{") && json.Valid([]byte(inner)) {
			t.walk(list, node{json.RawMessage(inner), n.at}, "", o, depth+1)
		}
	case '{':
		f := fields{}
		f.gather(n, "", 0)
		f.requestLine(name)
		if f.isMessage() {
			t.entry(list, f, n.at, o)
			return
		}
		fallthrough
	case '[':
		for name, value := range n.members() {
			if !isResponse(name) {
				t.walk(list, value, name, o, depth+1)
			}
		}
	}
}

func isResponse(name string) bool {
	name = plainName(name)
	return strings.HasPrefix(name, "response") || strings.HasPrefix(name, "answer") || name == "res"
}

// isHeaders reports whether a value contains the name of a common header or of a signature header.
func isHeaders(n node) bool {
	if n.kind() != '{' && n.kind() != '[' {
		return false
	}
	for name, value := range n.members() {
		if name == "" {
			name = value.text()
			for _, first := range value.members() {
				name += first.text()
				break
			}
		}
		name = strings.ToLower(name)
		if LooksSigned(name) || name == "host" || name == "content-type" {
			return true
		}
	}
	return false
}

// LooksSigned reports whether a header may contain a signature, judged by its name.
func LooksSigned(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "sign") || strings.Contains(name, "hmac")
}

// entry appends a message to list. It ignores errors, because only a selected message must be readable.
func (t *text) entry(list *[]entry, f fields, at int, o Options) {
	t.listing = true
	m, _ := t.logged(f, at, o) // e.read returns the error
	t.listing = false
	number := len(*list) + 1
	e := entry{number: number, method: m.Method, url: m.URL, read: func() (Message, error) {
		m, err := t.logged(f, at, o)
		m.Source = fmt.Sprintf("%s entry %d", t.name, number)
		return t.finish(m, err)
	}}
	e.signed = isSigned(m, o)
	*list = append(*list, e)
}

// isSigned reports whether a message has a signature header.
func isSigned(m Message, o Options) bool {
	for name := range m.Header {
		if strings.EqualFold(name, o.Signature) || o.Signature == "" && LooksSigned(name) {
			return true
		}
	}
	return false
}

// pairs adds headers from an object, a list or a string of lines. The elements of a list are pairs, lines, objects with
// a name and a value, or alternating names and values.
func (t *text) pairs(m *Message, headers node) error {
	switch headers.kind() {
	case 0:
		return nil
	case '{':
		for name, value := range headers.members() {
			if err := t.values(m, name, value); err != nil {
				return err
			}
		}
		return nil
	case '"':
		for l := range strings.Lines(headers.text()) {
			name, value, found := strings.Cut(l, ":")
			if !found {
				continue
			}
			if err := t.add(m, name, value, headers.at); err != nil {
				return err
			}
		}
		return nil
	}
	pending := "" // the last name, in a list of alternating names and values
	for _, item := range headers.members() {
		member, pair := fields{}, item.elements()
		for name, value := range item.members() {
			member[plainName(name)] = value
		}
		var err error
		switch name, value, found := strings.Cut(item.text(), ":"); {
		case pending != "":
			err, pending = t.values(m, pending, item), ""
		case item.kind() == '[' && len(pair) == 2 && pair[0].text() != "":
			err = t.values(m, pair[0].text(), pair[1])
		case item.kind() == '{' && member.text("name", "key", "header") != "":
			if !member.isTrue("disabled") {
				err = t.values(m, member.text("name", "key", "header"), member.first("value", "values"))
			}
		case found && isToken(name):
			err = t.add(m, name, value, item.at)
		case item.kind() == '"' && isToken(item.text()):
			pending = item.text()
		default:
			err = t.fail(headers.at, noHeaders)
		}
		if err != nil {
			return err
		}
	}
	if pending != "" {
		return t.fail(headers.at, noHeaders)
	}
	return nil
}

const noHeaders = "the headers are neither an object nor a list of names and values"

// values adds a header with one value or a list of values.
func (t *text) values(m *Message, name string, value node) error {
	if strings.HasPrefix(name, ":") {
		return nil // a pseudo-header of HTTP/2, already in the address
	}
	for _, element := range value.elements() {
		text := element.text()
		switch element.kind() {
		case '{', '[':
			return t.fail(value.at, noHeaders)
		case 't', 'f':
			text = string(element.raw)
		}
		if err := t.add(m, name, text, element.at); err != nil {
			return err
		}
	}
	return nil
}

// setBody sets the body of a message. encoded means that body is base64.
func (t *text) setBody(m *Message, body node, encoded bool) error {
	m.Body = []byte(body.text())
	if !encoded {
		return nil
	}
	decoded, err := base64.StdEncoding.AppendDecode(nil, m.Body)
	if err != nil {
		return t.fail(body.at, "the body is not base64, but this entry declares base64")
	}
	m.Body = decoded
	return nil
}

// plainName returns a name in lower case, without separators.
func plainName(name string) string {
	return separators.Replace(strings.ToLower(name))
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "", "$", "", "@", "")

func newMessage() Message { return Message{Header: http.Header{}, at: map[string]int{}} }

func isBodiless(method string) bool {
	return slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions}, method)
}
