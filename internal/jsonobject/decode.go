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
	// json.Valid knows the grammar, so what follows only has to find its way in a valid text.
	if !json.Valid(data) {
		return invalid(data)
	}
	i := skipSpace(data, 0)
	if data[i] != '{' {
		return errors.New("not a JSON object")
	}
	var seen uint64
	for i = skipSpace(data, i+1); data[i] == '"'; {
		nameEnd := endOfString(data, i)
		name := data[i:nameEnd]
		start := skipSpace(data, skipSpace(data, nameEnd)+1) // over the colon
		end := endOfValue(data, start)

		at, err := find(fields, name)
		if err != nil {
			return err
		}
		if at >= 0 {
			if seen&(1<<at) != 0 {
				return fmt.Errorf("%s: stands twice", fields[at].Name)
			}
			seen |= 1 << at
			if err := fields[at].read(data[start:end]); err != nil {
				return fmt.Errorf("%s: %w", fields[at].Name, err)
			}
		}

		if i = skipSpace(data, end); data[i] == ',' {
			i = skipSpace(data, i+1)
		}
	}
	for at := range fields {
		if seen&(1<<at) == 0 && fields[at].Need != Optional {
			return fmt.Errorf("%s: missing", fields[at].Name)
		}
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
		return into.UnmarshalJSON(value)
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

// The three functions below walk a text that json.Valid has accepted, so they look at no more than they need
// to find an end, and never run past one.

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}

// endOfString gives the index behind the string that starts at i.
func endOfString(data []byte, i int) int {
	for i++; data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// endOfValue gives the index behind the value that starts at i.
func endOfValue(data []byte, i int) int {
	for depth := 0; ; {
		switch data[i] {
		case '"':
			i = endOfString(data, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\r', '\t':
			i++
			continue
		default:
			i = endOfScalar(data, i)
		}
		if depth == 0 {
			return i
		}
	}
}

// endOfScalar gives the index behind the number, true, false or null that starts at i.
func endOfScalar(data []byte, i int) int {
	for i < len(data) && bytes.IndexByte([]byte(",:]} \n\r\t"), data[i]) < 0 {
		i++
	}
	return i
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
