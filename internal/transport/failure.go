package transport

import (
	"errors"
	"net/textproto"
	"strings"
	"unicode"
)

// failure is a transport's error with a text that is safe to log: net/http quotes what it did not understand
// of an answer, and an answer may echo the request; crypto/x509 repeats the names of a certificate, which may be
// anybody's and hold the ends of lines. Unwrap gives all of it.
type failure struct{ err error }

func (f *failure) Unwrap() error { return f.err }

func (f *failure) Error() string {
	if _, ok := errors.AsType[textproto.ProtocolError](f.err); ok {
		return "malformed header in the answer" // its text is the header itself, without quotes
	}
	return strings.Map(printable, unquoted(f.err.Error()))
}

// printable gives r, or a question mark where a terminal or a log would do something other than show it.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// unquoted replaces every quoted piece of text by an ellipsis.
func unquoted(text string) string {
	var out strings.Builder
	for {
		before, quoted, found := strings.Cut(text, `"`)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(`"…"`)
		text = afterQuote(quoted)
	}
}

// afterQuote gives what follows the closing quote, or nothing where there is none.
func afterQuote(s string) string {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[i+1:]
		}
	}
	return ""
}
