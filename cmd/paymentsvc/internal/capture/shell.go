package capture

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// word is an argument of a command.
type word struct {
	text string
	at   int // offset in the file
}

// shell is the state of a command line during parsing.
type shell struct {
	*text
	pos   int
	words []word
	cur   strings.Builder
	in    bool // true within a word, even if cur is empty
	start int
}

func (s *shell) rest() string { return s.data[s.pos:] }

// put appends text to the current word and advances by width.
func (s *shell) put(text string, width int) {
	if !s.in {
		s.in, s.start = true, s.pos
	}
	s.cur.WriteString(text)
	s.pos += width
}

func (s *shell) end() {
	if s.in {
		s.words = append(s.words, word{s.cur.String(), s.start})
	}
	s.cur.Reset()
	s.in = false
}

// lineEnd returns the length of a line end at the start of text, or 0.
func lineEnd(text string) int {
	switch {
	case strings.HasPrefix(text, "\r\n"):
		return 2
	case strings.HasPrefix(text, "\n"):
		return 1
	}
	return 0
}

// split splits a command by the rules of PowerShell if escape is a backtick, otherwise by the rules of sh.
func (s *shell) split(escape byte) error {
	for s.pos < len(s.data) {
		rest := s.rest()
		switch c := rest[0]; {
		case c == ' ' || c == '\t':
			s.end()
			s.pos++
		case strings.IndexByte("\r\n;|&<>", c) >= 0 || c == '#' && !s.in:
			s.end()
			return nil
		case c == escape && lineEnd(rest[1:]) > 0:
			s.pos += 1 + lineEnd(rest[1:])
		case c == escape && len(rest) > 1:
			s.put(rest[1:2], 2)
		case c == '\'' || c == '"':
			if err := s.quoted(c, escape); err != nil {
				return err
			}
		case escape == '\\' && strings.HasPrefix(rest, "$'"):
			if err := s.ansi(); err != nil {
				return err
			}
		case replaced(rest):
			return s.fail(s.pos, expands)
		default:
			s.put(rest[:1], 1)
		}
	}
	s.end()
	return nil
}

const (
	expands  = "the shell replaces this expression: paste the command with the expression's value"
	unclosed = "this quote is not closed"
)

// replaced reports whether a shell would replace an expression at the start of text.
func replaced(text string) bool {
	const names = "_{(@*#?!$-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return text[0] == '`' || text[0] == '$' && len(text) > 1 && strings.IndexByte(names, text[1]) >= 0
}

// quoted parses text in quotes.
func (s *shell) quoted(quote, escape byte) error {
	open, powershell := s.pos, escape == '`'
	s.put("", 1)
	for s.pos < len(s.data) {
		rest := s.rest()
		escapes := quote == '"' && rest[0] == escape && len(rest) > 1
		switch {
		case powershell && strings.HasPrefix(rest[1:], string(quote)) && rest[0] == quote:
			s.put(rest[:1], 2)
		case rest[0] == quote:
			s.pos++
			return nil
		case escapes && powershell:
			s.put(strings.NewReplacer("n", "\n", "r", "\r", "t", "\t", "0", "\x00").Replace(rest[1:2]), 2)
		case escapes && lineEnd(rest[1:]) > 0:
			s.pos += 1 + lineEnd(rest[1:])
		case escapes && strings.IndexByte("$`\"\\", rest[1]) >= 0:
			s.put(rest[1:2], 2)
		case quote == '"' && replaced(rest):
			return s.fail(s.pos, expands)
		default:
			s.put(rest[:1], 1)
		}
	}
	return s.fail(open, unclosed)
}

// ansi parses text in $'...'. Browsers use this form for line ends and special characters.
func (s *shell) ansi() error {
	open := s.pos
	s.put("", 2)
	for s.pos < len(s.data) {
		rest := s.rest()
		switch {
		case rest[0] == '\'':
			s.pos++
			return nil
		case rest[0] != '\\':
			s.put(rest[:1], 1)
		case strings.HasPrefix(rest, `\"`):
			s.put(`"`, 2)
		default:
			r, multibyte, tail, err := strconv.UnquoteChar(rest, '\'')
			if err != nil {
				return s.fail(s.pos, "unknown escape sequence")
			}
			width := len(rest) - len(tail)
			if multibyte || r < utf8.RuneSelf {
				s.put(string(r), width)
			} else {
				s.put(string([]byte{byte(r & 0xff)}), width) // \xe9 is a byte
			}
		}
	}
	return s.fail(open, unclosed)
}

// cmd splits a command as cmd.exe does. It removes the carets first. Then the rules of Microsoft's C library apply to
// backslashes and quotes.
func (s *shell) cmd() error {
	begin, open := s.pos, false
	line := &shell{text: &text{data: s.carets()}}
	for line.pos < len(line.data) {
		rest := line.rest()
		slashes := len(rest) - len(strings.TrimLeft(rest, `\`))
		switch quoted := strings.HasPrefix(rest[slashes:], `"`); {
		case slashes > 1 && quoted:
			line.put(`\`, 2)
		case slashes == 1 && quoted, slashes == 0 && open && strings.HasPrefix(rest, `""`):
			line.put(`"`, 2)
		case slashes > 0:
			line.put(rest[:slashes], slashes)
		case quoted:
			open = !open
			line.put("", 1)
		case !open && (rest[0] == ' ' || rest[0] == '\t'):
			line.end()
			line.pos++
		default:
			line.put(rest[:1], 1)
		}
	}
	line.end()
	for _, w := range line.words {
		s.words = append(s.words, word{w.text, begin})
	}
	if open {
		return s.fail(begin, unclosed)
	}
	return nil
}

// carets returns the command without the carets that escape a character, and advances to the end of the command.
func (s *shell) carets() string {
	var b strings.Builder
	open := false
	rest := s.rest()
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		switch {
		case c == '^' && !open:
			i++
			i += lineEnd(rest[i:])
			if i < len(rest) {
				b.WriteByte(rest[i])
			}
		case strings.IndexByte("\r\n", c) >= 0, strings.IndexByte("&|<>", c) >= 0 && !open:
			s.pos += i
			return b.String()
		default:
			open = open != (c == '"')
			b.WriteByte(c)
		}
	}
	s.pos = len(s.data)
	return b.String()
}
