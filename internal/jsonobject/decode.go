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
	// Required wants a field that is there and not null.
	Required
	// Filled is Required, and text must not be empty.
	Filled
)

// Field is one known field: its exact name and where its value goes.
type Field struct {
	Name string
	Into any // *string, *int64 or a json.Unmarshaler
	Need Need
}

// Decode reads data, which must be one JSON object and nothing else, into fields, at most 64 of them.
// Names match exactly, a known field must stand neither twice nor in other case, unknown fields are passed
// over. Errors name the field and hold no bytes of data; data that ends inside the object is
// io.ErrUnexpectedEOF.
func Decode(data []byte, fields []Field) error {
	start := SkipSpace(data, 0)
	if start == len(data) || data[start] != '{' {
		if json.Valid(data) {
			return errors.New("not a JSON object")
		}
		return invalid(data)
	}
	var seen uint64
	var failure error
	end := endOfObject(data, start, 0, func(name, value []byte) {
		if failure == nil {
			failure = readMember(fields, &seen, name, value)
		}
	})
	if end < 0 || SkipSpace(data, end) != len(data) {
		return invalid(data) // whatever its fields were: a text that is cut off may go on differently
	}
	if failure != nil {
		return failure
	}
	for at := range fields {
		if seen&(1<<at) == 0 && fields[at].Need != Optional {
			return fmt.Errorf("%s: missing", fields[at].Name)
		}
	}
	return nil
}

// readMember reads one member of the object, seen being the set of the fields that have stood before.
func readMember(fields []Field, seen *uint64, name, value []byte) error {
	at, err := find(fields, name)
	if err != nil || at < 0 {
		return err
	}
	if *seen&(1<<at) != 0 {
		return fmt.Errorf("%s: stands twice", fields[at].Name)
	}
	*seen |= 1 << at
	if err := fields[at].read(value); err != nil {
		return fmt.Errorf("%s: %w", fields[at].Name, err)
	}
	return nil
}

var (
	errNull      = errors.New("null")
	errEmpty     = errors.New("empty")
	errText      = errors.New("not a text")
	errUTF8      = errors.New("not valid UTF-8")
	errInteger   = errors.New("not an integer of 64 bits")
	errSurrogate = errors.New("half a surrogate pair")
)

func (f *Field) read(value []byte) error {
	if string(value) == "null" {
		if f.Need == Optional {
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
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil {
			return errInteger
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

// find gives the index of the field with this quoted name, or -1. A known name in other case is an error: some
// readers would take it for the known one, so it is not clear what was meant.
func find(fields []Field, quoted []byte) (int, error) {
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
		if bytes.EqualFold([]byte(fields[i].Name), name) {
			return i, fmt.Errorf("%s: in other case", fields[i].Name)
		}
	}
	return -1, nil
}

// unquote reads a JSON string, and refuses what encoding/json would replace in silence.
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
