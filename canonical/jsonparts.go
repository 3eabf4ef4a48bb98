package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// Field is the value of one field of the body: text without its quotes and escapes, a number, true, false and
// null as they are written, an object or array as JSON without white space. More than one name leads into nested
// objects: Field("payer", "email"). It is an error for the field to be absent, and for the body to be anything
// but a JSON object in which no name stands twice.
func Field(names ...string) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		value, err := find(m.Body, names)
		if err != nil {
			return nil, err
		}
		if value == nil {
			return nil, fmt.Errorf("canonical: the body has no field %s", strings.Join(names, "."))
		}
		return appendText(dst, value), nil
	}
}

// FieldOr is Field with a text for a field that is absent or null.
func FieldOr(absent string, names ...string) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		value, err := find(m.Body, names)
		if err != nil {
			return nil, err
		}
		if value == nil || string(value) == "null" {
			return append(dst, absent...), nil
		}
		return appendText(dst, value), nil
	}
}

// Nested says what Fields does with a field that holds an object or an array.
type Nested int

const (
	// NestedJSON takes it as one value: its JSON without white space. It is the zero value.
	NestedJSON Nested = iota
	// NestedOmitted leaves it out.
	NestedOmitted
	// NestedFlat takes what is inside in its place, level by level; an array's elements are named 0, 1 and so on.
	NestedFlat
)

// FieldList says how Fields writes the fields of a body. Its zero value is the values, sorted by the fields'
// names, with nothing between them.
type FieldList struct {
	// AsSent keeps the order of the body. Otherwise the names are sorted by their bytes, on each level.
	AsSent bool
	// Names writes name, Equals and value rather than the value alone.
	Names  bool
	Equals string
	// Between stands between two fields.
	Between string
	// Nested says what becomes of objects and arrays.
	Nested Nested
	// Path stands between the names of a nested field, "." for payer.email; "[]" means payer[email]. It counts
	// with Names and NestedFlat.
	Path string
	// OmitEmpty leaves out fields that are null or an empty text.
	OmitEmpty bool
	// Omit leaves out the top-level fields of these names.
	Omit []string
	// Escape writes names and values as an HTML form does: %2F for a slash, a plus for a space.
	Escape bool
}

// Fields is all fields of the body. Values are written as Field writes them. It is an error for the body to be
// anything but a JSON object in which no name stands twice, and with NestedFlat to be nested more than 64 deep or so
// that its names make a text of many times its length.
func Fields(l FieldList) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		var space [32]member
		list, err := membersOfBody(space[:0], m.Body)
		if err != nil {
			return nil, err
		}
		var path [8][]byte
		w := listWriter{list: &l, path: path[:0], dst: dst, most: len(dst) + 64<<10 + 64*len(m.Body)}
		if err := w.members(list); err != nil {
			return nil, err
		}
		return w.dst, nil
	}
}

type listWriter struct {
	list    *FieldList
	path    [][]byte // the names that lead to the value being written
	dst     []byte
	most    int  // bytes that dst may have: a body of long names, deep down, would be written with all of them each time
	started bool // something is written, so that Between is due
}

// maxNesting is how deep objects and arrays may stand in each other where a body is written anew. Each level is read
// once more than the one around it, and whoever sends a notification chooses how many there are before anybody has
// looked at its signature.
const maxNesting = 64

var (
	errTooDeep = errors.New("canonical: objects and arrays of the body stand too deep in each other")
	errTooLong = errors.New("canonical: the names of the body's nested fields make too long a text")
)

func (w *listWriter) members(list []member) error {
	if !w.list.AsSent {
		sortByName(list)
	}
	for _, f := range list {
		if len(w.path) == 0 && slices.Contains(w.list.Omit, string(f.name)) {
			continue
		}
		if err := w.member(f.name, f.value); err != nil {
			return err
		}
	}
	return nil
}

func (w *listWriter) member(name, value []byte) error {
	w.path = append(w.path, name)
	err := w.value(value)
	w.path = w.path[:len(w.path)-1]
	return err
}

func (w *listWriter) value(value []byte) error {
	nested := value[0] == '{' || value[0] == '['
	switch {
	case nested && w.list.Nested == NestedOmitted:
		return nil
	case nested && w.list.Nested == NestedFlat:
		return w.inside(value)
	case w.list.OmitEmpty && (string(value) == "null" || string(value) == `""`):
		return nil
	}
	if w.started {
		w.dst = append(w.dst, w.list.Between...)
	}
	w.started = true
	if w.list.Names {
		start := len(w.dst)
		w.name()
		w.escape(start)
		w.dst = append(w.dst, w.list.Equals...)
	}
	start := len(w.dst)
	w.dst = appendText(w.dst, value)
	w.escape(start)
	if len(w.dst) > w.most {
		return errTooLong
	}
	return nil
}

// inside writes what an object or array holds.
func (w *listWriter) inside(value []byte) error {
	if len(w.path) == maxNesting {
		return errTooDeep
	}
	if value[0] == '{' {
		list, err := members(nil, value)
		if err != nil {
			return err
		}
		return w.members(list)
	}
	for i, element := range elements(nil, value) {
		if err := w.member(strconv.AppendInt(nil, int64(i), 10), element); err != nil {
			return err
		}
	}
	return nil
}

// name writes the names that lead to a value.
func (w *listWriter) name() {
	w.dst = append(w.dst, w.path[0]...)
	for _, name := range w.path[1:] {
		if w.list.Path == "[]" {
			w.dst = append(append(append(w.dst, '['), name...), ']')
			continue
		}
		w.dst = append(append(w.dst, w.list.Path...), name...)
	}
}

// escape escapes what was written from start on, where that is asked for.
func (w *listWriter) escape(start int) {
	if w.list.Escape {
		w.dst = append(w.dst[:start], url.QueryEscape(string(w.dst[start:]))...)
	}
}

// appendText appends a JSON value as Field writes it.
func appendText(dst, value []byte) []byte {
	switch value[0] {
	case '"':
		return appendUnescaped(dst, value[1:len(value)-1])
	case '{', '[':
		return appendCompact(dst, value)
	default:
		return append(dst, value...)
	}
}

// BodyCompact is the body's JSON without the white space between its tokens; texts and numbers stay as they are
// written. It is an error for the body not to be JSON.
func BodyCompact(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if !json.Valid(m.Body) {
		return nil, errors.New("canonical: the body is not JSON")
	}
	return appendCompact(dst, m.Body), nil
}

func appendCompact(dst, value []byte) []byte {
	for i := 0; i < len(value); {
		switch {
		case isSpace(value[i]):
			i++
		case value[i] == '"':
			end := jsonobject.EndOfString(value, i)
			dst = append(dst, value[i:end]...)
			i = end
		default:
			dst = append(dst, value[i])
			i++
		}
	}
	return dst
}

// BodySorted is BodyCompact with the fields of every object sorted by the bytes of their names. It is an error
// for a name to stand twice in an object, and for more than 64 objects and arrays to stand in each other.
func BodySorted(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return jsonWriter{sort: true, keepText: true}.body(dst, m)
}

// JSONForm says how BodyJSON writes a body anew. Its zero value is what most programs write: no white space, the
// order of the body, and in texts nothing escaped but quotes, backslashes and control characters.
type JSONForm struct {
	// Sort sorts the fields of every object by the bytes of their names.
	Sort bool
	// Spaces puts a space behind every comma and colon, as Python does unless told otherwise.
	Spaces bool
	// EscapeSlash writes "\/" for a slash, as PHP does unless told otherwise.
	EscapeSlash bool
	// EscapeUnicode writes "\u00e9" for what is not ASCII, as PHP and Python do unless told otherwise.
	EscapeUnicode bool
	// EscapeHTML writes "\u003c" for "<", and so for ">" and "&", as Go does unless told otherwise.
	EscapeHTML bool
	// ShortNumbers writes numbers as a program does that has read them as float64: 100.50 becomes 100.5.
	ShortNumbers bool
}

// BodyJSON is the body's JSON as a program writes it that has read it and writes it anew. It is an error for the
// body not to be JSON, for a name to stand twice in an object, and for more than 64 objects and arrays to stand in
// each other.
func BodyJSON(form JSONForm) paymentsvc.CanonicalFunc {
	return jsonWriter{
		sort:          form.Sort,
		spaces:        form.Spaces,
		escapeSlash:   form.EscapeSlash,
		escapeUnicode: form.EscapeUnicode,
		escapeHTML:    form.EscapeHTML,
		shortNumbers:  form.ShortNumbers,
	}.body
}

type jsonWriter struct {
	sort, spaces, keepText                 bool
	escapeSlash, escapeUnicode, escapeHTML bool
	shortNumbers                           bool
}

func (w jsonWriter) body(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if !json.Valid(m.Body) {
		return nil, errors.New("canonical: the body is not JSON")
	}
	return w.value(dst, bytes.TrimSpace(m.Body), 0)
}

// value writes a value that stands in depth objects and arrays.
func (w jsonWriter) value(dst, value []byte, depth int) ([]byte, error) {
	if depth > maxNesting {
		return nil, errTooDeep
	}
	switch value[0] {
	case '{':
		return w.object(dst, value, depth)
	case '[':
		dst = append(dst, '[')
		for i, element := range elements(nil, value) {
			if i > 0 {
				dst = w.mark(dst, ',')
			}
			var err error
			if dst, err = w.value(dst, element, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case '"':
		if w.keepText {
			return append(dst, value...), nil
		}
		return w.text(dst, appendUnescaped(nil, value[1:len(value)-1])), nil
	case 't', 'f', 'n':
		return append(dst, value...), nil
	default:
		return w.number(dst, value), nil
	}
}

func (w jsonWriter) object(dst, value []byte, depth int) ([]byte, error) {
	var space [16]member
	list, err := members(space[:0], value)
	if err != nil {
		return nil, err
	}
	if w.sort {
		sortByName(list)
	}
	dst = append(dst, '{')
	for i, f := range list {
		if i > 0 {
			dst = w.mark(dst, ',')
		}
		if w.keepText {
			dst = append(append(append(dst, '"'), f.written...), '"')
		} else {
			dst = w.text(dst, f.name)
		}
		dst = w.mark(dst, ':')
		if dst, err = w.value(dst, f.value, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func (w jsonWriter) mark(dst []byte, c byte) []byte {
	dst = append(dst, c)
	if w.spaces {
		dst = append(dst, ' ')
	}
	return dst
}

// text writes s, which has no escapes any more, as a JSON string.
func (w jsonWriter) text(dst, s []byte) []byte {
	dst = append(dst, '"')
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		switch {
		case r == '"' || r == '\\' || r == '/' && w.escapeSlash:
			dst = append(dst, '\\', s[0])
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\b':
			dst = append(dst, `\b`...)
		case r == '\f':
			dst = append(dst, `\f`...)
		case r < ' ', w.escapeHTML && (r == '<' || r == '>' || r == '&'):
			dst = appendHex4(dst, r)
		case r == utf8.RuneError && size == 1:
			dst = append(dst, s[0])
		case w.escapeUnicode && r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = appendHex4(appendHex4(dst, high), low)
		case w.escapeUnicode && r >= utf8.RuneSelf, w.escapeHTML && (r == '\u2028' || r == '\u2029'):
			dst = appendHex4(dst, r)
		default:
			dst = append(dst, s[:size]...)
		}
		s = s[size:]
	}
	return append(dst, '"')
}

func appendHex4(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// number writes a number, as it stands or as encoding/json and JavaScript write a float64.
func (w jsonWriter) number(dst, value []byte) []byte {
	if !w.shortNumbers {
		return append(dst, value...)
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil { // too large for a float64
		return append(dst, value...)
	}
	short, err := json.Marshal(f)
	if err != nil {
		return append(dst, value...)
	}
	return append(dst, short...)
}
