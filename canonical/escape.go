package canonical

import (
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// Escaping is a way to escape text for a form or an address.
type Escaping int

const (
	// EscapingNone does not escape. It is the zero value.
	EscapingNone Escaping = iota
	// EscapingForm escapes everything except letters, digits and -_.~ and writes a space as a plus, like Go and
	// Python's quote_plus.
	EscapingForm
	// EscapingPercent is EscapingForm with %20 for a space, like PHP's rawurlencode.
	EscapingPercent
	// EscapingPHP is EscapingForm with an escaped ~, like PHP's urlencode and http_build_query.
	EscapingPHP
	// EscapingJS is EscapingPercent without escapes for !*'() like JavaScript's encodeURIComponent.
	EscapingJS
	// EscapingJava is EscapingForm with an escaped ~ and an unescaped *, like Java's URLEncoder.
	EscapingJava
)

// keptMarks are the characters without escapes, in addition to letters and digits.
var keptMarks = map[Escaping]string{
	EscapingForm: "-_.~", EscapingPercent: "-_.~", EscapingPHP: "-_.", EscapingJS: "-_.~!*'()", EscapingJava: "-_.*",
}

// Escaped returns part with escapes.
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
