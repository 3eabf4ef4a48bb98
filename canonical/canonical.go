// Package canonical has parts to compose a canonical string from: the text that is signed, whose composition the
// interface document does not show (section 5). The service has to tell you which parts it is made of, their order
// and the text between them:
//
//	Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), // an example, not the service's
//
// A scheme is also one line of text, for a settings file: see [ParseScheme].
//
//	hex(timestamp '\n' body)
//
// If nobody can tell you, package discover finds the composition of one message that carries a correct signature.
//
// Parts append to dst. Parts of the message, its address and its JSON fields allocate nothing; those that write a
// digest or an encoding of another part borrow a buffer.
package canonical

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/internal/buffer"
)

// Timestamp is the text of the timestamp header: Unix time in seconds. Its error is always nil.
func Timestamp(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(dst, m.Timestamp...), nil
}

// TimestampMillis is [Timestamp] in milliseconds: three more digits, all 0, since the header has seconds. Its error is
// always nil.
func TimestampMillis(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(append(dst, m.Timestamp...), "000"...), nil
}

// Date is the timestamp as a date in UTC, in a layout of package time such as [time.RFC3339]. It returns an error if the
// timestamp is not Unix time in seconds.
func Date(layout string) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		seconds, err := strconv.ParseInt(m.Timestamp, 10, 64)
		if err != nil {
			return nil, errors.New("canonical: the timestamp is not Unix time in seconds")
		}
		return time.Unix(seconds, 0).UTC().AppendFormat(dst, layout), nil
	}
}

// Method is the HTTP method in upper case, such as POST; for lower case use Lower(Method), see [Lower]. Its error is
// always nil.
func Method(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(dst, m.Method...), nil
}

// Body is the body, byte for byte. Its error is always nil.
func Body(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(dst, m.Body...), nil
}

// Literal is the text s.
func Literal(s string) paymentsvc.CanonicalFunc {
	return func(dst []byte, _ *paymentsvc.Message) ([]byte, error) {
		return append(dst, s...), nil
	}
}

// Labelled is a label followed by a part, such as Labelled("t=", Timestamp). It returns the error of the part.
func Labelled(label string, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return Join("", Literal(label), part)
}

// Header is the value of a header. It returns an error unless the message has the header exactly once. Requests are
// signed before net/http adds its own headers, such as Content-Length.
func Header(name string) paymentsvc.CanonicalFunc {
	key := http.CanonicalHeaderKey(name)
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		values := m.Header[key]
		if len(values) != 1 {
			return nil, fmt.Errorf("canonical: header %s: %d values, want exactly 1", key, len(values))
		}
		return append(dst, values[0]...), nil
	}
}

// Secret is the text of the secret, for services that sign a text with the key in it. It returns an error if s is
// empty.
func Secret(s paymentsvc.Secret) paymentsvc.CanonicalFunc {
	return func(dst []byte, _ *paymentsvc.Message) ([]byte, error) {
		if s == "" {
			return nil, errors.New("canonical: Secret is empty")
		}
		return append(dst, s...), nil
	}
}

// Join is the parts in their order, with sep between them. It returns the first error of a part. Literal("") as the
// last part puts sep at the end too. Choose sep as the service does: with "", or a sep that values can contain, two
// messages can have the same text, see SECURITY.md. A timestamp and the body need none.
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

// appendPart appends a part in memory that it may write to, whatever memory the part returns.
func appendPart(dst []byte, part paymentsvc.CanonicalFunc, m *paymentsvc.Message) ([]byte, error) {
	made, err := part(dst, m)
	if err != nil {
		return nil, err
	}
	return buffer.Own(dst, made), nil
}

// ByKind is request for requests to the service and notification for notifications from it, for a service that
// composes the two differently.
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

// inPlace changes the case of the letters from first to last. Text that is not ASCII keeps its bytes.
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
