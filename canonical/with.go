package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/paymentsvc/paymentsvc"
)

// With is part of the message with one more field at the end of its body, a text: With("timestamp", Timestamp,
// BodySorted) for a service that puts the timestamp among the fields before it signs them. It returns an error if the
// body is not a JSON object, and those of value and part.
func With(name string, value, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return with("With", name, value, part, func(dst, text []byte) []byte { return jsonWriter{}.text(dst, text) })
}

// WithNumber is [With] for a field that holds a JSON number, or any other JSON value. It returns an error if it is none.
func WithNumber(name string, value, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return with("WithNumber", name, value, part, func(dst, text []byte) []byte { return append(dst, text...) })
}

func with(function, name string, value, part paymentsvc.CanonicalFunc, write func(dst, text []byte) []byte) paymentsvc.CanonicalFunc {
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

// Within is part of the message with the object in one of its body's fields for a body: Within("data", BodySorted). It
// returns an error if the body is not a JSON object, or the field is absent or holds something else, and that of part.
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
