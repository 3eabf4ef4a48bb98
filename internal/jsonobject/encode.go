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
	// ErrNotObject is returned when a value encodes as something other than a JSON object.
	ErrNotObject = errors.New("does not encode as a JSON object")
	// ErrInvalidText is returned when a value holds text which is not valid UTF-8, and which JSON would change.
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

// EncodeOpen writes v, whose members are not known, as a JSON object. What encodes as null returns nil.
// Otherwise the error is ErrNotObject, ErrInvalidText or what the encoder said, which may quote v.
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

// DecodeOpen reads an object whose members are not known into a map, where that map encodes to the very same
// bytes again; otherwise (long numbers, say, or another order of members) it keeps the bytes.
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
	return json.RawMessage(bytes.Clone(data))
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

// changed reports whether the encoder may have replaced invalid text: it writes U+FFFD for it, as a character
// or escaped. Text may also hold that character rightfully, so only then is the value itself looked at.
func changed(data []byte) bool {
	return bytes.Contains(data, []byte("\uFFFD")) || bytes.Contains(data, []byte(`\ufffd`))
}

// invalidText walks a value that encoding/json has just encoded, and reports whether any text that was encoded is not
// valid UTF-8. What a json.Marshaler writes arrives as it is and needs no walk. Types that embed each other can lead
// in a circle that encoding/json does not walk; beyond any depth that JSON has, the answer is the safe one.
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
	default: // numbers and booleans hold no text
	}
	return false
}

// invalidKey reports whether a map's key is encoded from text that is not valid UTF-8. Unlike a value, a key that
// is a string is taken as it is whatever methods it has, and no key is asked for MarshalJSON.
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

// withMethods returns v with the methods that encoding/json finds: those of its pointer too where v has an
// address. It is nil for an interface, whose value is what counts.
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
