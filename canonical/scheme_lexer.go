package canonical

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

type tokenKind int

const (
	atEnd tokenKind = iota
	aName
	aText // in quotes
	aMark // any other character
)

type token struct {
	kind   tokenKind
	text   string
	column int
}

// lexer splits the text form of a scheme into tokens. Columns count characters from 1.
type lexer struct {
	rest   string
	column int // of the start of rest
	token  token
	ended  int    // column of the previous token
	before string // text of the previous token
	err    error
	hidden string // the secret; errors must not contain it
}

func (l *lexer) fail(column int, format string, args ...any) {
	if l.err == nil {
		l.err = at(column, format, args...)
	}
	l.rest, l.token = "", token{column: l.column}
}

func (l *lexer) skip(n int) {
	l.column += utf8.RuneCountInString(l.rest[:n])
	l.rest = l.rest[n:]
}

// advance reads the next token.
func (l *lexer) advance() {
	l.ended, l.before = l.token.column, l.token.text
	l.skip(len(l.rest) - len(strings.TrimLeft(l.rest, " \t\r\n")))
	next := token{column: l.column}
	switch {
	case l.rest == "":
	case l.rest[0] == '"' || l.rest[0] == '\'':
		next.kind, next.text = aText, l.quoted()
	case isNameByte(l.rest[0]):
		next.kind = aName
		end := 1
		for end < len(l.rest) && isNameByte(l.rest[end]) {
			end++
		}
		next.text = l.rest[:end]
		l.skip(end)
	default:
		next.kind = aMark
		r, size := utf8.DecodeRuneInString(l.rest)
		next.text = string(r)
		l.skip(size)
	}
	if l.err == nil {
		l.token = next
	}
}

func isNameByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// quoted reads a text in single or double quotes.
func (l *lexer) quoted() string {
	quote, start := l.rest[0], l.column
	l.skip(1)
	var text []byte
	for {
		switch {
		case l.rest == "" || l.rest[0] == '\n' || l.rest[0] == '\r':
			l.fail(start, "the text does not end, want %c", quote)
			return ""
		case l.rest[0] == quote:
			l.skip(1)
			return string(text)
		case strings.HasPrefix(l.rest, `\'`) || strings.HasPrefix(l.rest, `\"`):
			text = append(text, l.rest[1])
			l.skip(2)
			continue
		}
		r, multibyte, tail, err := strconv.UnquoteChar(l.rest, 0)
		switch {
		case err != nil:
			l.fail(l.column, `want an escape such as \n, \t, \\, \", \', \x00 or \u00e9`)
			return ""
		case r == utf8.RuneError && len(tail) == len(l.rest)-1:
			l.fail(l.column, "not UTF-8")
			return ""
		case multibyte:
			text = utf8.AppendRune(text, r)
		default:
			text = append(text, byte(r)) //nolint:gosec // UnquoteChar returned a byte
		}
		l.skip(len(l.rest) - len(tail))
	}
}

// maxShown limits the length of a name in an error.
const maxShown = 40

// shown describes the token for an error. It omits quoted texts and the secret.
func (l *lexer) shown() string {
	switch {
	case l.token.kind == atEnd:
		return "the end"
	case l.token.kind == aText:
		return "a text"
	case l.hidden != "" && strings.Contains(l.token.text, l.hidden):
		return "this"
	case len(l.token.text) > maxShown:
		return fmt.Sprintf("%q", l.token.text[:maxShown]+"…")
	default:
		return fmt.Sprintf("%q", l.token.text)
	}
}

// take reports whether the next token is this name, and reads the token if so.
func (l *lexer) take(name string) bool { return l.takeToken(aName, name) }

func (l *lexer) takeMark(mark string) bool { return l.takeToken(aMark, mark) }

func (l *lexer) takeToken(kind tokenKind, text string) bool {
	if l.token.kind != kind || l.token.text != text {
		return false
	}
	l.advance()
	return true
}

// name reads a name, or fails.
func (l *lexer) name(name string) {
	if !l.take(name) {
		l.fail(l.token.column, "want %q, not %s", name, l.shown())
	}
}

// mark reads a mark, or fails. wanted describes the expected token.
func (l *lexer) mark(mark, wanted string) {
	if !l.takeMark(mark) {
		l.fail(l.token.column, "want %s, not %s", wanted, l.shown())
	}
}

// literal reads a quoted text, or fails. wanted describes the expected text.
func (l *lexer) literal(wanted string) string {
	t := l.token
	if t.kind != aText {
		l.fail(t.column, "want %s in quotes, not %s", wanted, l.shown())
		return ""
	}
	l.advance()
	return t.text
}
