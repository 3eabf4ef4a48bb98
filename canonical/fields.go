package canonical

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// Field returns a part that appends the value of a field of the body: text without quotes and escapes, and objects and
// arrays as JSON without white space. Numbers, true, false and null keep their bytes, so null and the text "null"
// are equal. Further arguments select a field of a nested object, as in Field("payer", "email"). The part returns an
// error if the field is absent, if the body is not a JSON object, or if an object around it has duplicate fields.
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

// FieldOr returns a part like [Field], but the part appends the first argument if the field is absent or null.
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

// Nested is the treatment of objects and arrays in [Fields].
type Nested int

const (
	// NestedJSON is the zero value. It writes JSON without white space as one value, with unchanged numbers and constants.
	NestedJSON Nested = iota
	// NestedOmitted omits the field.
	NestedOmitted
	// NestedFlat writes the fields of the object at every level. The elements of an array have the names 0, 1 and so
	// on.
	NestedFlat
)

// FieldList configures [Fields]. The zero value is an error, because values without separators are ambiguous: a
// recorded signature of order "1" with status 2 would also fit order "12". Only a list with Names, Equals, Between and
// Escaping can be unambiguous. Package discover reports the other lists with a warning.
type FieldList struct {
	// AsSent keeps the order of the body. By default, the names of each level are sorted by their bytes.
	AsSent bool
	// Names writes name, Equals and value instead of only the value.
	Names  bool
	Equals string
	// Between is the separator of fields. It is required without Names, unless Unseparated is set.
	Between string
	// Unseparated accepts an empty Between without Names. Use it if the service signs values without separators. The
	// canonical string is then ambiguous; see SECURITY.md.
	Unseparated bool
	// Nested is the treatment of objects and arrays.
	Nested Nested
	// Path is the separator in the name of a nested field: "." writes payer.email, and "[]" writes payer[email]. Use it
	// with Names and NestedFlat.
	Path string
	// OmitEmpty omits fields with null or empty text.
	OmitEmpty bool
	// Omit lists the names of top-level fields to omit.
	Omit []string
	// Escaping is the escaping of names and values.
	Escaping Escaping
	// Numbers is the form of numbers.
	Numbers NumberForm
	// Constants is the form of true, false and null.
	Constants Constants
	// OmitNull omits fields with null, like PHP's http_build_query.
	OmitNull bool
}

// Constants is the form of true, false and null in [Fields].
type Constants int

const (
	// ConstantsAsSent writes true, false and null. It is the zero value.
	ConstantsAsSent Constants = iota
	// ConstantsPHP writes 1 for true, and an empty text for false and null, like PHP's conversion to text.
	ConstantsPHP
	// ConstantsDigits writes 1 and 0, and an empty text for null, like PHP's http_build_query.
	ConstantsDigits
	// ConstantsPython writes True, False and None.
	ConstantsPython
	// ConstantsNoNull writes true and false, and an empty text for null, like many Java and JavaScript programs.
	ConstantsNoNull
)

// constantTexts are the texts of true, false and null.
var constantTexts = map[Constants][3]string{
	ConstantsPHP:    {"1", "", ""},
	ConstantsDigits: {"1", "0", ""},
	ConstantsPython: {"True", "False", "None"},
	ConstantsNoNull: {"true", "false", ""},
}

// text returns the text of true, false or null, and other values unchanged. c must not be ConstantsAsSent.
func (c Constants) text(value []byte) []byte {
	texts := constantTexts[c]
	switch string(value) {
	case "true":
		return []byte(texts[0])
	case "false":
		return []byte(texts[1])
	case "null":
		return []byte(texts[2])
	}
	return value
}

// Fields returns a part that appends all fields of the body, with values in the form of [Field]. The part returns an
// error if the body is not a JSON object or has duplicate fields, and for a list without Names, Between and
// Unseparated. It also returns the errors of the [NumberForm]. With [NestedFlat], the part also rejects duplicate
// fields in nested objects, a body nested more than 64 deep, and a canonical string many times as long as the body.
func Fields(l FieldList) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		if !l.Names && l.Between == "" && !l.Unseparated {
			return nil, errNoBetween
		}
		var space [32]member
		list, err := membersOfBody(space[:0], m.Body)
		if err != nil {
			return nil, err
		}
		var path [8][]byte
		w := listWriter{list: &l, path: path[:0], dst: dst, maxLen: len(dst) + 64<<10 + 64*len(m.Body)}
		if err := w.members(list); err != nil {
			return nil, err
		}
		return w.dst, nil
	}
}

type listWriter struct {
	list    *FieldList
	path    [][]byte // names from the top-level field to the value
	dst     []byte
	maxLen  int  // limits len(dst), because nested fields repeat the names of all levels
	started bool // whether the next field needs Between before it
}

// maxNesting limits the nesting of a body in BodySorted, BodyJSON and Fields with NestedFlat, and of brackets in the
// text form. These parts read the bytes at depth n of a body n times, and an attacker chooses the depth, because
// verification makes the canonical string before it compares the signature.
const maxNesting = 64

var (
	errNoBetween = errors.New("canonical: FieldList: Between is empty, so values would have no separator: " +
		"want Between, Names or Unseparated")
	errTooDeep = errors.New("canonical: objects and arrays of the body are nested too deep")
	errTooLong = errors.New("canonical: the names of the body's nested fields make the text too long")
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
	case w.list.OmitEmpty && (string(value) == "null" || string(value) == `""`),
		w.list.OmitNull && string(value) == "null":
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
	if err := w.text(value); err != nil {
		return err
	}
	w.escape(start)
	if len(w.dst) > w.maxLen {
		return errTooLong
	}
	return nil
}

// text writes a value.
func (w *listWriter) text(value []byte) (err error) {
	c := value[0]
	switch {
	case w.list.Numbers != NumbersAsSent && (c == '-' || '0' <= c && c <= '9'):
		w.dst, err = w.list.Numbers.write(w.dst, value, string(w.path[len(w.path)-1]) == "amount")
	case w.list.Constants != ConstantsAsSent && c >= 'a' && c < '{':
		w.dst = append(w.dst, w.list.Constants.text(value)...)
	default:
		w.dst = appendText(w.dst, value)
	}
	return err
}

// inside writes the fields of an object or the elements of an array.
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

// name writes the path from the top-level field to the value.
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

// escape escapes the bytes written since start, if the list requires it.
func (w *listWriter) escape(start int) {
	if w.list.Escaping != EscapingNone {
		w.dst = w.list.Escaping.write(w.dst[:start], slices.Clone(w.dst[start:]))
	}
}

// appendText appends a JSON value in the form of Field.
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

// With returns a part that applies part to a copy of the message. The body of the copy ends with an added field, which
// has the given name and the text of value. For example, With("timestamp", Timestamp, BodySorted) signs the timestamp
// as one of the fields. The part returns an error if the body is not a JSON object, and the errors of value and part.
func With(name string, value, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return with("With", name, value, part, func(dst, text []byte) ([]byte, error) {
		return jsonWriter{}.text(dst, text), nil
	})
}

// WithNumber returns a part like [With] that adds value as JSON, such as a number. The part rejects invalid JSON.
func WithNumber(name string, value, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return with("WithNumber", name, value, part, func(dst, text []byte) ([]byte, error) {
		if !isJSON(text) {
			return nil, errors.New("canonical: the value of WithNumber is not JSON")
		}
		return append(dst, text...), nil
	})
}

func with(
	function, name string, value, part paymentsvc.CanonicalFunc, write func(dst, text []byte) ([]byte, error),
) paymentsvc.CanonicalFunc {
	label := append(jsonWriter{}.text(nil, []byte(name)), ':')
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		if value == nil || part == nil {
			return nil, fmt.Errorf("canonical: %s needs a value and a part", function)
		}
		object := bytes.TrimSpace(m.Body)
		if !isJSON(m.Body) || object[0] != '{' {
			return nil, errNotObject
		}
		text, err := value(nil, m)
		if err != nil {
			return nil, err
		}
		other := *m
		other.Body = bytes.TrimSpace(bytes.Clone(object[:len(object)-1]))
		if len(other.Body) > 1 {
			other.Body = append(other.Body, ',')
		}
		other.Body, err = write(append(other.Body, label...), text)
		if err != nil {
			return nil, err
		}
		other.Body = append(other.Body, '}')
		return part(dst, &other)
	}
}

// Within returns a part that applies part to a copy of the message. The body of the copy is the object in the named
// field, for example Within("data", BodySorted). The part returns an error if the body or the field is not a JSON
// object, or if the body has duplicate fields, and the errors of part.
func Within(name string, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		if part == nil {
			return nil, errors.New("canonical: the part of Within is nil")
		}
		value, err := find(m.Body, []string{name})
		if err != nil {
			return nil, err
		}
		if len(value) == 0 || value[0] != '{' {
			return nil, fmt.Errorf("canonical: the body has no object in the field %s", name)
		}
		other := *m
		other.Body = value
		return part(dst, &other)
	}
}
