// Package canonical has the parts of canonical strings. A canonical string is the text that a signature covers. The
// interface document does not specify its composition (section 5), so ask the service for the parts, their order and
// their separators:
//
//	Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), // an example, not the service's
//
// A scheme also has a text form for settings files; see [ParseScheme]:
//
//	hex(timestamp '\n' body)
//
// If the service cannot tell you, package discover finds the composition of one correctly signed message.
//
// A part appends to dst. Parts of the message, its address and its JSON fields do not allocate. A part that digests or
// encodes another part borrows a buffer from a pool.
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

// Timestamp appends the timestamp header: Unix time in seconds. The error is always nil.
func Timestamp(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(dst, m.Timestamp...), nil
}

// TimestampMillis appends [Timestamp] in milliseconds. The last three digits are 0, because the header has seconds. The
// error is always nil.
func TimestampMillis(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(append(dst, m.Timestamp...), "000"...), nil
}

// Date returns a part that appends the timestamp as a date in UTC. layout is a layout of package time, such as
// [time.RFC3339]. The part returns an error if the timestamp is not Unix time in seconds.
func Date(layout string) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		seconds, err := strconv.ParseInt(m.Timestamp, 10, 64)
		if err != nil {
			return nil, errors.New("canonical: the timestamp is not Unix time in seconds")
		}
		return time.Unix(seconds, 0).UTC().AppendFormat(dst, layout), nil
	}
}

// Method appends the HTTP method in upper case, such as POST. For lower case use [Lower]. The error is always nil.
func Method(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(dst, m.Method...), nil
}

// Body appends the exact bytes of the body. The error is always nil.
func Body(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	return append(dst, m.Body...), nil
}

// Literal returns a part that appends s.
func Literal(s string) paymentsvc.CanonicalFunc {
	return func(dst []byte, _ *paymentsvc.Message) ([]byte, error) {
		return append(dst, s...), nil
	}
}

// Labelled returns a part that appends label and then part, for example Labelled("t=", Timestamp).
func Labelled(label string, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return Join("", Literal(label), part)
}

// Header returns a part that appends the value of a header. The part returns an error unless the message has exactly
// one value. A request is signed before net/http adds its own headers, such as Content-Length.
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

// Secret returns a part that appends the secret, for services that sign a text containing the key. The part returns an
// error if s is empty.
func Secret(s paymentsvc.Secret) paymentsvc.CanonicalFunc {
	return func(dst []byte, _ *paymentsvc.Message) ([]byte, error) {
		if s == "" {
			return nil, errors.New("canonical: Secret is empty")
		}
		return append(dst, s...), nil
	}
}

// Join returns a part that appends parts in order, separated by sep. The part returns the first error of parts. Add
// Literal("") as the last part if the text ends with sep. Use the service's separator. If sep is empty or can appear in
// a value, two messages can have the same text; see SECURITY.md. A timestamp next to a JSON body needs no separator.
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
			dst, err = appendPart(dst, part, m)
			if err != nil {
				return nil, err
			}
		}
		return dst, nil
	}
}

// appendPart appends part to dst. It copies the result if part returned other memory.
func appendPart(dst []byte, part paymentsvc.CanonicalFunc, m *paymentsvc.Message) ([]byte, error) {
	made, err := part(dst, m)
	if err != nil {
		return nil, err
	}
	return buffer.Own(dst, made), nil
}

// ByKind returns a part that appends request to a request and notification to a notification, for a service with two
// compositions.
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

// Lower returns part with the letters A to Z in lower case.
func Lower(part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return inPlace("Lower", part, 'A', 'Z')
}

// Upper returns part with the letters a to z in upper case.
func Upper(part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return inPlace("Upper", part, 'a', 'z')
}

// inPlace changes the case of the letters from first to last. Other bytes stay unchanged.
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
