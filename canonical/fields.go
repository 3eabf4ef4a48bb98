package canonical

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// Field is the value of a field of the body: text without quotes and escapes, numbers, true, false and null as they are
// written, objects and arrays as JSON without white space. So null and the text "null" look alike. Further names lead into nested objects: Field("payer",
// "email"). It returns an error if the field is absent, or if the body is not a JSON object without duplicate fields.
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

// FieldOr is [Field], and the text absent if the field is absent or null.
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

// Nested says what [Fields] does with a field that holds an object or an array.
type Nested int

const (
	// NestedJSON takes it as one value: its JSON without white space. It is the zero value.
	NestedJSON Nested = iota
	// NestedOmitted leaves it out.
	NestedOmitted
	// NestedFlat takes its fields instead, level by level; the elements of an array are named 0, 1 and so on.
	NestedFlat
)

// FieldList says how [Fields] writes the fields of a body. Its zero value is an error: values with nothing between them
// can be cut in two ways, so a recorded signature of order "1" with status 2 would fit order "12". Only a list with
// Names, Equals, Between and Escape can be cut in one way; package discover warns of the others.
type FieldList struct {
	// AsSent keeps the order of the body. By default the names are sorted by their bytes, on each level.
	AsSent bool
	// Names writes name, Equals and value instead of the value alone.
	Names  bool
	Equals string
	// Between is the text between two fields. It is required without Names, unless Unseparated is set.
	Between string
	// Unseparated accepts an empty Between without Names: the values run into one another, see SECURITY.md. It is for
	// a service that really signs them so.
	Unseparated bool
	// Nested says what to do with objects and arrays.
	Nested Nested
	// Path is the text between the names of a nested field: "." for payer.email; "[]" means payer[email]. It is used
	// with Names and NestedFlat.
	Path string
	// OmitEmpty leaves out fields that are null or the empty text.
	OmitEmpty bool
	// Omit leaves out the top-level fields with these names.
	Omit []string
	// Escape escapes names and values as HTML forms do: %2F for a slash, a plus for a space. It is the same as EscapingForm.
	Escape bool
	// Escaping says how names and values are escaped.
	Escaping Escaping
	// Numbers says how numbers are written.
	Numbers NumberForm
	// Constants says how true, false and null are written.
	Constants Constants
	// OmitNull leaves out fields that are null, as PHP's http_build_query does.
	OmitNull bool
}

// Constants says how [Fields] writes true, false and null.
type Constants int

const (
	// ConstantsAsSent writes true, false and null. It is the zero value.
	ConstantsAsSent Constants = iota
	// ConstantsPHP writes 1 for true and nothing for false and null, as PHP's text of them is.
	ConstantsPHP
	// ConstantsDigits writes 1 and 0, and nothing for null, as PHP's http_build_query does.
	ConstantsDigits
	// ConstantsPython writes True, False and None.
	ConstantsPython
	// ConstantsNoNull writes true and false, and nothing for null, as Java and JavaScript programs often do.
	ConstantsNoNull
)

// text returns the text of true, false or null, and of any other value itself.
func (c Constants) text(value []byte) []byte {
	texts := map[Constants][3]string{
		ConstantsPHP: {"1"}, ConstantsDigits: {"1", "0"}, ConstantsPython: {"True", "False", "None"}, ConstantsNoNull: {"true", "false"},
	}[c]
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

// Fields is all fields of the body, with values as [Field] writes them. It returns an error if the body is not a JSON
// object without duplicate fields, and for a list that has neither Names nor Between nor Unseparated. With [NestedFlat]
// it also does so for a body nested more than 64 deep, or whose names would make a text many times its length.
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
		w := listWriter{list: &l, path: path[:0], dst: dst, most: len(dst) + 64<<10 + 64*len(m.Body)}
		if err := w.members(list); err != nil {
			return nil, err
		}
		return w.dst, nil
	}
}

type listWriter struct {
	list    *FieldList
	path    [][]byte // names that lead to the value
	dst     []byte
	most    int  // limits len(dst): nested fields repeat the names above them
	started bool // whether Between is due
}

// maxNesting limits how deep a body that is written anew may be nested. Each level is read once more than the one
// around it, and the sender of a notification chooses its depth before its signature is checked.
const maxNesting = 64

var (
	errNoBetween = errors.New("canonical: FieldList: Between is empty: the values would run into one another, want Between, Names or Unseparated")

	errTooDeep = errors.New("canonical: objects and arrays of the body are nested too deep")
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
	case w.list.OmitEmpty && (string(value) == "null" || string(value) == `""`), w.list.OmitNull && string(value) == "null":
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
	if len(w.dst) > w.most {
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

// inside writes the fields of an object or array.
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

// escape escapes what was written from start on, if the list says so.
func (w *listWriter) escape(start int) {
	switch {
	case w.list.Escaping != EscapingNone:
		w.dst = w.list.Escaping.write(w.dst[:start], slices.Clone(w.dst[start:]))
	case w.list.Escape:
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
