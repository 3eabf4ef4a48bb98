package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/paymentsvc/paymentsvc"
)

// With returns part for a copy of the message. The body of the copy has one more field at its end, a text with value.
// For example, With("timestamp", Timestamp, BodySorted) is for a service that signs the timestamp as one of the fields.
// It returns an error if the body is not a JSON object, and the errors of value and part.
func With(name string, value, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return with("With", name, value, part, func(dst, text []byte) []byte { return jsonWriter{}.text(dst, text) })
}

// WithNumber is [With] for a field with a JSON number or another JSON value. It returns an error for invalid JSON.
func WithNumber(name string, value, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return with("WithNumber", name, value, part, func(dst, text []byte) []byte { return append(dst, text...) })
}

func with(
	function, name string, value, part paymentsvc.CanonicalFunc, write func(dst, text []byte) []byte,
) paymentsvc.CanonicalFunc {
	label := append(jsonWriter{}.text(nil, []byte(name)), ':')
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		if value == nil || part == nil {
			return nil, fmt.Errorf("canonical: %s needs a value and a part", function)
		}
		object := bytes.TrimSpace(m.Body)
		if !json.Valid(object) || object[0] != '{' {
			return nil, errors.New("canonical: the body is not a JSON object")
		}
		text, err := value(nil, m)
		if err != nil {
			return nil, err
		}
		body := bytes.TrimSpace(bytes.Clone(object[:len(object)-1]))
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(write(append(body, label...), text), '}')
		if !json.Valid(body) {
			return nil, fmt.Errorf("canonical: the value of %s is not JSON", function)
		}
		other := *m
		other.Body = body
		return part(dst, &other)
	}
}

// Within returns part for a copy of the message. The body of the copy is the object in the field name, for example
// Within("data", BodySorted). It returns an error if the body or the field is not a JSON object, and the errors of
// part.
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
