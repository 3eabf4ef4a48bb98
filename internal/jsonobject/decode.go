// Package jsonobject reads and writes JSON objects with known fields. It is stricter than encoding/json, because a
// wrong guess would cost money, and it never changes text silently.
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

// Need is the requirement for a field.
type Need uint8

const (
	// Optional allows a field to be absent or null.
	Optional Need = iota
	// Either is like Optional, but at least one field with Either must be present and readable.
	Either
	// Required rejects an absent or null field.
	Required
	// Filled is like Required, and also rejects empty text.
	Filled
)

func (n Need) optional() bool { return n == Optional || n == Either }

// Field is a known field and the destination of its value.
type Field struct {
	Name string
	Into any // *string, *int64 or a json.Unmarshaler
	Need Need
}

// Decode reads data into at most 64 fields. data must be exactly one JSON object. Names match exactly, and a known name
// in another letter case makes its field malformed. Unknown fields are ignored. A malformed or duplicate optional field
// gets its zero value and is listed in malformed. A malformed or duplicate required field is an error with its name
// and without bytes of data. The error for data that is empty or ends inside its first value wraps
// io.ErrUnexpectedEOF.
func Decode(data []byte, fields []Field) (malformed []string, err error) {
	r := reader{foldNames: true}
	err = r.read(data, fields)
	return r.names(fields), err
}

// DecodeLenient is [Decode] for senders with small faults. It ignores a name in another letter case and skips a byte
// order mark before the object.
func DecodeLenient(data []byte, fields []Field) (malformed []string, err error) {
	var r reader
	err = r.read(TrimMark(data), fields)
	return r.names(fields), err
}

// Value returns the first non-empty value of the member called name, as JSON, or nil. Null, false, zero, "", "0", {}
// and [] are empty. data begins with an object, which may be incomplete.
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

// Element returns the element of list at index, as JSON, or nil if the element is absent or empty as in [Value]. index
// has decimal digits, and list is complete.
func Element(list []byte, index string) json.RawMessage {
	at, err := strconv.ParseUint(index, 10, 31)
	var elements []json.RawMessage
	if err != nil || json.Unmarshal(list, &elements) != nil || at >= uint64(len(elements)) || empty(elements[at]) {
		return nil
	}
	return elements[at]
}

// IsObject reports whether data is exactly one JSON object, perhaps after a byte order mark.
func IsObject(data []byte) bool { return isObject(TrimMark(data), nil) }

// isObject calls the function member for each member of data, and reports whether data is exactly one JSON object.
func isObject(data []byte, member func(name, value []byte)) bool {
	start := SkipSpace(data, 0)
	if start == len(data) || data[start] != '{' {
		return false
	}
	end := endOfObject(data, start, 0, member)
	return end >= 0 && SkipSpace(data, end) == len(data)
}

// Members calls the function member with the quoted name and the value of each member of the object at data[start], in
// order. It returns the index after the object, or -1 for invalid JSON, perhaps after calls for earlier members.
func Members(data []byte, start int, member func(name, value []byte)) int {
	return endOfObject(data, start, 0, member)
}

// Text reads a JSON string. It rejects other values, invalid UTF-8 and half a surrogate pair.
func Text(value json.RawMessage) (string, error) {
	if len(value) == 0 {
		return "", errText
	}
	return unquote(value)
}

// TrimMark returns data without a byte order mark at its start.
func TrimMark(data []byte) []byte { return bytes.TrimPrefix(data, []byte(byteOrderMark)) }

const byteOrderMark = "\ufeff"

// empty reports whether value is empty as in [Value]. Services send such values for absent fields.
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

// reader reads one object. Its sets have a bit for each field. It does not contain the fields, so they stay on the
// caller's stack.
type reader struct {
	foldNames bool   // a known name in another letter case is an error
	seen      uint64 // present fields
	filled    uint64 // present fields with a readable value
	malformed uint64
	failure   error
}

func (r *reader) read(data []byte, fields []Field) error {
	if !isObject(data, func(name, value []byte) { r.member(fields, name, value) }) {
		return invalid(data) // not r.failure, because the whole text is invalid
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

// missing returns an error if a required field was absent, or if no field with Either had a readable value.
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
			return reason // without the name of the type, because the caller adds the name of the field
		}
		return err
	default:
		return fmt.Errorf("jsonobject: no way to read a %T", f.Into)
	}
	return nil
}

// reset restores the zero value of a malformed or duplicate field.
func (f *Field) reset() {
	switch into := f.Into.(type) {
	case *string:
		*into = ""
	case *int64:
		*into = 0
	case json.Unmarshaler:
		_ = into.UnmarshalJSON([]byte("null")) // the zero value of the SDK's types
	}
}

// integer reads an integer of 64 bits. It accepts 1.0 and 1e0, which encoders of floats write, and digits in quotes,
// which encoders of untyped values write.
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
	// The value is digits * 10^zeros.
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
		return 0, errInteger // because the error of strconv quotes the text
	}
	return n, nil
}

// find returns the index of the field with this quoted name, or -1. If strict is set, a known name in another letter
// case is an error, because other readers treat it as the known field.
func find(fields []Field, quoted []byte, strict bool) (int, error) {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		text, err := unquote(quoted)
		if err != nil {
			return -1, nil //nolint:nilerr // an invalid name is not a known name
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

// unquote reads a JSON string. It rejects invalid UTF-8 and half a surrogate pair, because encoding/json replaces them.
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

// writtenFFFD counts the U+FFFD in JSON, as characters and as escapes. Any further U+FFFD in the decoded text replaces
// half a surrogate pair.
func writtenFFFD(value []byte) int {
	escapes := bytes.ToLower(bytes.ReplaceAll(value, []byte(`\\`), nil)) // an escaped backslash begins no escape
	return bytes.Count(value, []byte("\uFFFD")) + bytes.Count(escapes, []byte(`\ufffd`))
}

// invalid returns the error for data other than one JSON object. The error contains no bytes of data.
func invalid(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	var first json.RawMessage
	switch err := dec.Decode(&first); {
	case json.Valid(data):
		return errors.New("not a JSON object")
	case err == nil:
		return errors.New("more than one JSON value")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("not a whole JSON object: %w", io.ErrUnexpectedEOF)
	default:
		return errors.New("not JSON")
	}
}
