// Package jsonobject reads and writes the JSON objects of an interface whose fields are known: stricter than
// encoding/json where a wrong guess would cost money, and without its silent changes to text.
package jsonobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Need says what a field must be for the object to be understood.
type Need uint8

const (
	// Optional allows a field to be absent or null.
	Optional Need = iota
	// Either is Optional, but one of the fields that are marked so must be there and readable.
	Either
	// Required wants a field that is there and not null.
	Required
	// Filled is Required, and text must not be empty.
	Filled
)

func (n Need) optional() bool { return n == Optional || n == Either }

// Field is one known field: its exact name and where its value goes.
type Field struct {
	Name string
	Into any // *string, *int64 or a json.Unmarshaler
	Need Need
}

// Decode reads data into fields, at most 64 of them. data must be exactly one JSON object. Names match exactly, unknown
// fields are ignored, and a known name in another letter case counts as a second spelling of the field. An optional
// field that is duplicated or unreadable keeps its zero value and is listed in malformed. For a required field Decode
// returns an error, which names the field and contains no bytes of data. Data that ends inside the object returns
// io.ErrUnexpectedEOF.
func Decode(data []byte, fields []Field) (malformed []string, err error) {
	r := reader{foldNames: true}
	err = r.read(data, fields)
	return r.names(fields), err
}

// DecodeLenient is [Decode] for senders with small faults: it ignores a name in another letter case and skips a byte
// order mark before the object.
func DecodeLenient(data []byte, fields []Field) (malformed []string, err error) {
	var r reader
	err = r.read(TrimMark(data), fields)
	return r.names(fields), err
}

// Value returns the first non-empty value of the member called name, as JSON, or nil. It looks at the object that data
// begins with, as far as it goes: data may be cut off, and its later part may be no JSON. Null, false, zero, "", "0",
// {} and [] are empty.
func Value(data []byte, name string) json.RawMessage {
	data = TrimMark(data)
	start := SkipSpace(data, 0)
	if start == len(data) || data[start] != '{' {
		return nil
	}
	var found json.RawMessage
	endOfObject(data, start, 0, func(quoted, value []byte) {
		if found != nil || empty(value) {
			return
		}
		if text, err := unquote(quoted); err == nil && text == name {
			found = value
		}
	})
	return found
}

// Text reads a JSON string, with an error for what encoding/json would silently replace and for any other value.
func Text(value json.RawMessage) (string, error) {
	if len(value) == 0 {
		return "", errText
	}
	return unquote(value)
}

// TrimMark returns data without the byte order mark that some encoders write before it.
func TrimMark(data []byte) []byte { return bytes.TrimPrefix(data, []byte(byteOrderMark)) }

const byteOrderMark = "\ufeff"

// empty reports whether a value is one that services send where there is nothing to say.
func empty(value []byte) bool {
	switch value[0] {
	case 'n', 'f':
		return true
	case '"':
		return string(value) == `""` || string(value) == `"0"`
	case '{', '[':
		return SkipSpace(value, 1) == len(value)-1
	case 't':
		return false
	}
	mantissa, _, _ := bytes.Cut(bytes.ToLower(value), []byte("e"))
	return len(bytes.Trim(mantissa, "-0.")) == 0
}

// reader reads one object. Its sets have a bit for each field. The fields stay out of it, and so on the caller's stack.
type reader struct {
	foldNames bool   // a known name in another letter case is an error
	seen      uint64 // fields that were there
	filled    uint64 // of these, those with a value that was read
	malformed uint64
	failure   error
}

func (r *reader) read(data []byte, fields []Field) error {
	start := SkipSpace(data, 0)
	if start == len(data) || data[start] != '{' {
		if json.Valid(data) {
			return errors.New("not a JSON object")
		}
		return invalid(data)
	}
	end := endOfObject(data, start, 0, func(name, value []byte) { r.member(fields, name, value) })
	if end < 0 || SkipSpace(data, end) != len(data) {
		return invalid(data) // whatever its fields were: a text that is cut off may go on differently
	}
	if r.failure != nil {
		return r.failure
	}
	return r.missing(fields)
}

// member reads one member of the object.
func (r *reader) member(fields []Field, name, value []byte) {
	if r.failure != nil {
		return
	}
	at, err := find(fields, name, r.foldNames)
	if at < 0 {
		return
	}
	field, bit := &fields[at], uint64(1)<<at
	switch {
	case err != nil:
	case r.seen&bit != 0:
		err = errDuplicate
	default:
		err = field.read(value)
	}
	r.seen |= bit
	switch {
	case err == nil && string(value) != "null":
		r.filled |= bit
	case err == nil:
	case !field.Need.optional():
		r.failure = fmt.Errorf("%s: %w", field.Name, err)
	default:
		r.malformed |= bit
		r.filled &^= bit
		field.reset()
	}
}

// names returns the names of the malformed fields.
func (r *reader) names(fields []Field) (names []string) {
	for at := range fields {
		if r.malformed&(1<<at) != 0 {
			names = append(names, fields[at].Name)
		}
	}
	return names
}

// missing returns an error if a field that is needed was not there.
func (r *reader) missing(fields []Field) error {
	var either []string
	var alternatives uint64
	for at, f := range fields {
		bit := uint64(1) << at
		switch {
		case f.Need == Either:
			either = append(either, f.Name)
			alternatives |= bit
		case f.Need != Optional && r.seen&bit == 0:
			return fmt.Errorf("%s: missing", f.Name)
		}
	}
	if alternatives != 0 && r.filled&alternatives == 0 {
		return fmt.Errorf("%s: missing", strings.Join(either, " and "))
	}
	return nil
}

var (
	errNull      = errors.New("null")
	errEmpty     = errors.New("empty")
	errText      = errors.New("not a string")
	errUTF8      = errors.New("not valid UTF-8")
	errInteger   = errors.New("not a 64-bit integer")
	errSurrogate = errors.New("half a surrogate pair")
	errDuplicate = errors.New("duplicate field")
	errCase      = errors.New("wrong letter case")
)

func (f *Field) read(value []byte) error {
	if string(value) == "null" {
		if f.Need.optional() {
			return nil
		}
		return errNull
	}
	switch into := f.Into.(type) {
	case *string:
		text, err := unquote(value)
		if err != nil {
			return err
		}
		if text == "" && f.Need == Filled {
			return errEmpty
		}
		*into = text
	case *int64:
		n, err := integer(value)
		if err != nil {
			return err
		}
		*into = n
	case json.Unmarshaler:
		err := into.UnmarshalJSON(value)
		if reason := errors.Unwrap(err); reason != nil {
			return reason // without the name of the type, since the field is named
		}
		return err
	default:
		return fmt.Errorf("jsonobject: no way to read a %T", f.Into)
	}
	return nil
}

// reset takes back a value that turned out to be ambiguous.
func (f *Field) reset() {
	switch into := f.Into.(type) {
	case *string:
		*into = ""
	case *int64:
		*into = 0
	case json.Unmarshaler:
		_ = into.UnmarshalJSON([]byte("null")) // which is the zero value of what the SDK reads
	}
}

// integer reads an integer of 64 bits. It accepts 1.0 and 1e0, which encoders of floats write, and text of digits, which
// encoders of untyped values write.
func integer(value []byte) (int64, error) {
	number := string(value)
	if value[0] == '"' {
		return digits(value)
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return n, nil
	}
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(number), "e")
	whole, decimals, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+decimals, "0")
	if strings.Trim(mantissa, "-.0123456789") != "" || mantissa == "" {
		return 0, errInteger
	}
	if strings.Trim(digits, "-0") == "" {
		return 0, nil
	}
	// The value is digits times ten to the power of zeros.
	zeros := len(whole) - len(digits)
	if scientific {
		shift, err := strconv.ParseInt(exponent, 10, 32)
		if err != nil {
			return 0, errInteger
		}
		zeros += int(shift)
	}
	if zeros < 0 || zeros > len("9223372036854775807") {
		return 0, errInteger
	}
	n, err := strconv.ParseInt(digits+strings.Repeat("0", zeros), 10, 64)
	if err != nil {
		return 0, errInteger
	}
	return n, nil
}

// digits reads a JSON string of decimal digits, with an optional minus sign.
func digits(value []byte) (int64, error) {
	text, err := unquote(value)
	if err != nil || strings.HasPrefix(text, "+") {
		return 0, errInteger
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errInteger // without the text that strconv quotes
	}
	return n, nil
}

// find returns the index of the field with this quoted name, or -1. Where strictness matters, a known name in another
// letter case is an error: some readers would take it for the known one, so it is not clear what was meant.
func find(fields []Field, quoted []byte, strict bool) (int, error) {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		text, err := unquote(quoted)
		if err != nil {
			return -1, nil //nolint:nilerr // a name that is no text is no known name
		}
		name = []byte(text)
	}
	for i := range fields {
		if fields[i].Name == string(name) {
			return i, nil
		}
	}
	for i := range fields {
		if strict && bytes.EqualFold([]byte(fields[i].Name), name) {
			return i, errCase
		}
	}
	return -1, nil
}

// unquote reads a JSON string, and rejects what encoding/json would silently replace.
func unquote(value []byte) (string, error) {
	if value[0] != '"' {
		return "", errText
	}
	if !utf8.Valid(value) {
		return "", errUTF8
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1]), nil
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return "", err
	}
	if strings.Count(text, "\uFFFD") > writtenFFFD(value) {
		return "", errSurrogate
	}
	return text, nil
}

// writtenFFFD counts the U+FFFD that a JSON string itself writes, as characters and as escapes. The others in its
// text stand where encoding/json found half a surrogate pair.
func writtenFFFD(value []byte) int {
	escapes := bytes.ToLower(bytes.ReplaceAll(value, []byte(`\\`), nil)) // an escaped backslash begins no escape
	return bytes.Count(value, []byte("\uFFFD")) + bytes.Count(escapes, []byte(`\ufffd`))
}

// invalid says what is wrong with data that is not valid JSON, without quoting it.
func invalid(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	var first json.RawMessage
	switch err := dec.Decode(&first); {
	case err == nil:
		return errors.New("more than one JSON value")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("not a whole JSON object: %w", io.ErrUnexpectedEOF)
	default:
		return errors.New("not JSON")
	}
}
