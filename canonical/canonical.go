// Package canonical has parts to compose a canonical string from: the text that a signature of the Payment
// Service runs over, whose composition the interface document does not show (section 5). Which parts, in which
// order and with what between them is for you to find out from the service, and to say:
//
//	Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), // an example, not the service's
//
// If nobody can tell, one message with a correct signature is enough: package discover searches the compositions of
// these parts for those that explain it, and returns the code.
//
// Parts append to dst. Those of the message itself, of the address and of a JSON field allocate nothing of their
// own; the ones that write a digest or an encoding of another part borrow a buffer.
package canonical

import (
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/internal/buffer"
)

// Timestamp is the timestamp header's text: Unix time in seconds. The error is always nil.
func Timestamp(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(dst, m.Timestamp...), nil
}

// Method is the HTTP method in upper case, such as POST. Lower(Method) is the same in lower case. The error is always
// nil.
func Method(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(dst, m.Method...), nil
}

// Body is the body, byte for byte. The error is always nil.
func Body(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(dst, m.Body...), nil
}

// Literal is the text s.
func Literal(s string) paymentsvc.CanonicalFunc {
	return func(dst []byte, _ *paymentsvc.Message) ([]byte, error) {
		return append(dst, s...), nil
	}
}

// Labelled is a label and a part behind it, such as Labelled("t=", Timestamp). The error of the part is the
// error of the whole.
func Labelled(label string, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return Join("", Literal(label), part)
}

// Header is the value of the header called name. It is an error for the header to be missing or to stand more
// than once. A request is signed before net/http adds headers of its own, such as Content-Length.
func Header(name string) paymentsvc.CanonicalFunc {
	key := http.CanonicalHeaderKey(name)
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		values := m.Header[key]
		if len(values) != 1 {
			return nil, fmt.Errorf("canonical: the header %s stands %d times, not once", key, len(values))
		}
		return append(dst, values[0]...), nil
	}
}

// Secret is the secret's text, for services that put the key into the text as well as signing with it. It is an
// error for s to be empty.
func Secret(s paymentsvc.Secret) paymentsvc.CanonicalFunc {
	return func(dst []byte, _ *paymentsvc.Message) ([]byte, error) {
		if s == "" {
			return nil, errors.New("canonical: Secret is empty")
		}
		return append(dst, s...), nil
	}
}

// Join puts parts one behind another with sep between them. The error of a part is the error of the whole.
// Literal("") as the last part puts sep behind the last one too.
func Join(sep string, parts ...paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		for i, part := range parts {
			if i > 0 {
				dst = append(dst, sep...)
			}
			if part == nil {
				return nil, fmt.Errorf("canonical: part %d of Join is nil", i+1)
			}
			var err error
			if dst, err = appendPart(dst, part, m); err != nil {
				return nil, err
			}
		}
		return dst, nil
	}
}

// appendPart calls a part and gives what it made in memory that may be written to.
func appendPart(dst []byte, part paymentsvc.CanonicalFunc, m *paymentsvc.Message) ([]byte, error) {
	made, err := part(dst, m)
	if err != nil {
		return nil, err
	}
	return buffer.Own(dst, made), nil
}

// ByKind is request for requests to the service and notification for notifications from it, for a service that
// composes the two in different ways.
func ByKind(request, notification paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		part := request
		if m.Kind == paymentsvc.KindNotification {
			part = notification
		}
		if part == nil {
			return nil, errors.New("canonical: ByKind has no part for this kind of message")
		}
		return part(dst, m)
	}
}

// Lower is part with the letters A to Z in lower case.
func Lower(part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return inPlace("Lower", part, 'A', 'Z')
}

// Upper is part with the letters a to z in upper case.
func Upper(part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return inPlace("Upper", part, 'a', 'z')
}

// inPlace swaps the case of the letters from first to last. Text that is not ASCII keeps its bytes.
func inPlace(name string, part paymentsvc.CanonicalFunc, first, last byte) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		if part == nil {
			return nil, fmt.Errorf("canonical: the part of %s is nil", name)
		}
		start := len(dst)
		dst, err := appendPart(dst, part, m)
		if err != nil {
			return nil, err
		}
		for i := start; i < len(dst); i++ {
			if c := dst[i]; c < utf8.RuneSelf && first <= c && c <= last {
				dst[i] ^= 'a' - 'A'
			}
		}
		return dst, nil
	}
}
