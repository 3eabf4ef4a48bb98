// Package canonical provides the parts of canonical strings. A canonical string is the text that a signature covers.
// The interface document does not specify the composition of this text (section 5), so ask the service for the parts,
// their order and their separators:
//
//	Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), // an example, not the service's
//
// A scheme also has a text form for settings files; see [ParseScheme]:
//
//	hex(timestamp '\n' body)
//
// If the service cannot tell you, package discover can find the composition from one correctly signed message.
//
// A part appends to dst, usually without an allocation. A part that digests or encodes another part borrows a buffer
// from a pool.
package canonical

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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

// Method appends the HTTP method of the message, such as POST. For lower case use [Lower]. The error is always nil.
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

// Header returns a part that appends the value of a header. The part returns an error unless the header has exactly one
// value under its canonical name. A request is signed before net/http adds its own headers, such as Content-Length.
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

// appendPart appends part to dst. If part returned memory other than that of dst, appendPart copies the result.
func appendPart(dst []byte, part paymentsvc.CanonicalFunc, m *paymentsvc.Message) ([]byte, error) {
	made, err := part(dst, m)
	if err != nil {
		return nil, err
	}
	return buffer.Own(dst, made), nil
}

// ByKind returns a part that applies request to requests and notification to notifications. Use it if the service signs
// the two kinds differently.
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

// inPlace returns part with the other case for the letters from first to last.
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

// Path appends the path of the address as sent: escaped, and with the path of the base address. Webhook.Verify and
// Webhook.Parse do not know the address, so for their notifications every part of the address, such as Path or [Host],
// returns an error.
func Path(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("Path")
	}
	return append(dst, sentPath(m.URL)...), nil
}

// PathBelow returns a part that appends the rest of [Path] after prefix. Use it if the service signs the path below its
// base address, such as "/init_payment/card". PathBelow("/") omits the first slash. The part returns an error if the
// path does not start with prefix.
func PathBelow(prefix string) paymentsvc.CanonicalFunc {
	return func(dst []byte, m *paymentsvc.Message) ([]byte, error) {
		if m.URL == nil {
			return nil, noAddress("PathBelow")
		}
		below, found := strings.CutPrefix(sentPath(m.URL), prefix)
		if !found {
			return nil, fmt.Errorf("canonical: the path does not start with PathBelow's %q", prefix)
		}
		return append(dst, below...), nil
	}
}

// PathLast appends the last segment of [Path], such as "get_balance".
func PathLast(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("PathLast")
	}
	path := sentPath(m.URL)
	return append(dst, path[strings.LastIndexByte(path, '/')+1:]...), nil
}

// DecodedPath appends [Path] with decoded escapes.
func DecodedPath(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("DecodedPath")
	}
	if m.URL.Path == "" {
		return append(dst, '/'), nil
	}
	return append(dst, m.URL.Path...), nil
}

// RequestURI appends the target of an HTTP/1.1 request: [Path], then a question mark and the query if there is a query.
func RequestURI(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("RequestURI")
	}
	dst = append(dst, sentPath(m.URL)...)
	if m.URL.RawQuery != "" {
		dst = append(append(dst, '?'), m.URL.RawQuery...)
	}
	return dst, nil
}

// URL appends the whole address: scheme, host, path and query. It returns an error for a message without scheme or
// host. A notification received by a server has no scheme, so join Literal("https://"), [Host] and [RequestURI]
// instead.
func URL(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("URL")
	}
	if m.URL.Scheme == "" || m.URL.Host == "" {
		return nil, errors.New("canonical: URL needs scheme and host, but this message lacks one of them")
	}
	dst = append(append(append(dst, m.URL.Scheme...), "://"...), m.URL.Host...)
	return RequestURI(dst, m)
}

// Host appends the host of the address, with the port if present. It returns an error for a message without a host.
func Host(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("Host")
	}
	if m.URL.Host == "" {
		return nil, errors.New("canonical: Host needs the host, but the address of this message has no host")
	}
	return append(dst, m.URL.Host...), nil
}

// Query appends the query of the address as sent, without the question mark. The text may be empty.
func Query(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("Query")
	}
	return append(dst, m.URL.RawQuery...), nil
}

// SortedQuery appends [Query] with its key=value pairs sorted by their bytes. It keeps the escapes.
func SortedQuery(dst []byte, m *paymentsvc.Message) ([]byte, error) {
	if m.URL == nil {
		return nil, noAddress("SortedQuery")
	}
	if m.URL.RawQuery == "" {
		return dst, nil
	}
	pairs := strings.Split(m.URL.RawQuery, "&")
	slices.Sort(pairs)
	return append(dst, strings.Join(pairs, "&")...), nil
}

// sentPath returns the path that net/http sends. It is never empty.
func sentPath(u *url.URL) string {
	if path := u.EscapedPath(); path != "" {
		return path
	}
	return "/"
}

func noAddress(part string) error {
	return fmt.Errorf("canonical: %s needs the address, but this message has no address", part)
}

// Escaping is a way to escape text for a form or an address.
type Escaping int

const (
	// EscapingNone does not escape. It is the zero value.
	EscapingNone Escaping = iota
	// EscapingForm escapes everything except letters, digits and -_.~, and writes a space as a plus, like Go and
	// Python's quote_plus.
	EscapingForm
	// EscapingPercent is EscapingForm with %20 for a space, like PHP's rawurlencode.
	EscapingPercent
	// EscapingPHP is EscapingForm with an escaped ~, like PHP's urlencode and http_build_query.
	EscapingPHP
	// EscapingJS is EscapingPercent without escapes for !*'(), like JavaScript's encodeURIComponent.
	EscapingJS
	// EscapingJava is EscapingForm with an escaped ~ and an unescaped *, like Java's URLEncoder.
	EscapingJava
)

// keptMarks are the characters without escapes, in addition to letters and digits.
var keptMarks = map[Escaping]string{
	EscapingForm: "-_.~", EscapingPercent: "-_.~", EscapingPHP: "-_.", EscapingJS: "-_.~!*'()", EscapingJava: "-_.*",
}

// Escaped returns part with its text escaped.
func Escaped(e Escaping, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return transformed("Escaped", part, func(dst, text []byte) ([]byte, error) { return e.write(dst, text), nil })
}

func (e Escaping) write(dst, text []byte) []byte {
	const digits = "0123456789ABCDEF"
	kept := keptMarks[e]
	for _, c := range text {
		switch {
		case '0' <= c && c <= '9', 'a' <= c|0x20 && c|0x20 <= 'z', e == EscapingNone, strings.IndexByte(kept, c) >= 0:
			dst = append(dst, c)
		case c == ' ' && e != EscapingPercent && e != EscapingJS:
			dst = append(dst, '+')
		default:
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}
