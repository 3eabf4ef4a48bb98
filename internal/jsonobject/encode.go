package jsonobject

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"unicode/utf8"
)

var (
	// ErrNotObject rejects a value that does not encode as a JSON object.
	ErrNotObject = errors.New("does not encode as a JSON object")
	// ErrInvalidText rejects a value with invalid UTF-8, because JSON would change it.
	ErrInvalidText = errors.New("holds text that is not valid UTF-8")
)

// Encode writes v as JSON with no HTML escaping and no trailing newline.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// EncodeOpen writes v as a JSON object with unknown members. It returns nil for a value that encodes as null. The error
// is ErrNotObject, ErrInvalidText or an error of the encoder. An error of the encoder may quote v.
func EncodeOpen(v any) (json.RawMessage, error) {
	if IsNil(v) {
		return nil, nil
	}
	data, err := Encode(v)
	if err != nil {
		return nil, err
	}
	if string(data) == "null" {
		return nil, nil
	}
	if data[0] != '{' {
		return nil, ErrNotObject
	}
	if !utf8.Valid(data) || changed(data) && invalidText(reflect.ValueOf(v), 0) {
		return nil, ErrInvalidText
	}
	return data, nil
}

// DecodeOpen reads an object with unknown members into a map if the map encodes to the same bytes. Otherwise it returns
// data itself, for example for long numbers or another order of members. It returns nil for no data and for null.
func DecodeOpen(data json.RawMessage) any {
	if len(data) == 0 || string(data) == "null" {
		return nil
	}
	var members map[string]any
	if json.Unmarshal(data, &members) == nil {
		if again, err := Encode(members); err == nil && bytes.Equal(again, data) {
			return members
		}
		if again, err := json.Marshal(members); err == nil && bytes.Equal(again, data) {
			return members
		}
	}
	return data
}

// IsNil reports whether v is nil or a nil pointer, map, slice, function, channel or interface.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	switch rv := reflect.ValueOf(v); rv.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan, reflect.Interface:
		return rv.IsNil()
	default:
		return false
	}
}

// changed reports whether the encoder may have replaced invalid text by U+FFFD. Valid text may also contain U+FFFD, so
// the caller then checks the value itself.
func changed(data []byte) bool {
	return bytes.Contains(data, []byte("\uFFFD")) || bytes.Contains(data, []byte(`\ufffd`))
}

// invalidText walks an encoded value and reports whether its text has invalid UTF-8. It skips a json.Marshaler, because
// the output of MarshalJSON appears unchanged in the encoded value. Types that embed each other may form a circle, so
// invalidText returns true beyond the maximum depth of JSON.
func invalidText(v reflect.Value, depth int) bool {
	if depth > maxDepth {
		return true
	}
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return false
	}
	switch m := withMethods(v).(type) {
	case json.Marshaler:
		return false
	case encoding.TextMarshaler:
		return marshalsInvalid(m)
	}
	switch v.Kind() {
	case reflect.String:
		return !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return invalidText(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if invalidText(v.Index(i), depth+1) {
				return true
			}
		}
	case reflect.Map:
		for members := v.MapRange(); members.Next(); {
			if invalidKey(members.Key()) || invalidText(members.Value(), depth+1) {
				return true
			}
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			if encoded(field) && invalidText(value, depth+1) {
				return true
			}
		}
	default: // numbers and booleans contain no text
	}
	return false
}

// invalidKey reports whether a map's key has invalid UTF-8. encoding/json writes a string key without calling its
// methods, and never calls MarshalJSON of a key.
func invalidKey(k reflect.Value) bool {
	if k.Kind() == reflect.String {
		return !utf8.ValidString(k.String())
	}
	m, ok := k.Interface().(encoding.TextMarshaler)
	return ok && marshalsInvalid(m)
}

func marshalsInvalid(m encoding.TextMarshaler) bool {
	text, err := m.MarshalText()
	return err == nil && !utf8.Valid(text)
}

// withMethods returns v with the methods that encoding/json calls, including the methods of its pointer if v has an
// address. It returns nil for an interface, because its element is checked later, and for an unexported field.
func withMethods(v reflect.Value) any {
	switch {
	case v.Kind() == reflect.Interface:
		return nil
	case v.CanAddr():
		v = v.Addr()
	}
	if !v.CanInterface() {
		return nil
	}
	return v.Interface()
}

// encoded reports whether encoding/json writes this field, or the fields of this embedded struct.
func encoded(f reflect.StructField) bool {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return f.Tag.Get("json") != "-" && (f.IsExported() || f.Anonymous && t.Kind() == reflect.Struct)
}
