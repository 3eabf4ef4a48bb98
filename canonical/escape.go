package canonical

import (
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// Escaping says how a text is escaped for a form or an address.
type Escaping int

const (
	// EscapingNone escapes nothing. It is the zero value.
	EscapingNone Escaping = iota
	// EscapingForm writes a plus for a space, and keeps letters, digits and -_.~ as Go and Python's quote_plus do.
	EscapingForm
	// EscapingPercent is EscapingForm with %20 for a space, as PHP's rawurlencode does.
	EscapingPercent
	// EscapingPHP is EscapingForm that escapes ~ too, as PHP's urlencode and http_build_query do.
	EscapingPHP
	// EscapingJS is EscapingPercent that keeps !*'() too, as JavaScript's encodeURIComponent does.
	EscapingJS
	// EscapingJava is EscapingForm that keeps * and escapes ~, as Java's URLEncoder does.
	EscapingJava
)

// Escaped is part, escaped. It returns the error of the part.
func Escaped(e Escaping, part paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
	return transformed("Escaped", part, func(dst, text []byte) ([]byte, error) { return e.write(dst, text), nil })
}

func (e Escaping) write(dst, text []byte) []byte {
	const digits = "0123456789ABCDEF"
	kept := map[Escaping]string{
		EscapingForm: "-_.~", EscapingPercent: "-_.~", EscapingPHP: "-_.", EscapingJS: "-_.~!*'()", EscapingJava: "-_.*",
	}[e]
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
