package capture

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// word is an argument of a command.
type word struct {
	text string
	at   int // where it begins in the file
}

// shell is a command line that is being taken apart.
type shell struct {
	*text
	pos   int
	words []word
	cur   strings.Builder
	in    bool // within a word, which may be empty
	start int
}

func (s *shell) rest() string { return s.data[s.pos:] }

// put adds text to the word and goes on.
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

const unclosed = "this quote is not closed"

// posix takes a command apart as sh does, up to its end.
func (s *shell) posix() error {
	for s.pos < len(s.data) {
		rest := s.rest()
		switch c := rest[0]; {
		case c == ' ' || c == '\t':
			s.end()
			s.pos++
		case strings.IndexByte("\r\n;|&<>", c) >= 0 || c == '#' && !s.in:
			s.end()
			return nil
		case c == '\\' && lineEnd(rest[1:]) > 0:
			s.pos += 1 + lineEnd(rest[1:])
		case c == '\\' && len(rest) > 1:
			s.put(rest[1:2], 2)
		case c == '\'':
			quoted, _, closed := strings.Cut(rest[1:], "'")
			if !closed {
				return s.fail(s.pos, unclosed)
			}
			s.put(quoted, len(quoted)+2)
		case strings.HasPrefix(rest, "$'"):
			if err := s.ansi(); err != nil {
				return err
			}
		case c == '"':
			if err := s.double(); err != nil {
				return err
			}
		case replaced(rest):
			return s.fail(s.pos, "the shell replaces this: paste the command with what it stands for")
		default:
			s.put(rest[:1], 1)
		}
	}
	s.end()
	return nil
}

// replaced reports whether a shell puts something else in the place of text.
func replaced(text string) bool {
	return text[0] == '`' || regexp.MustCompile(`^\$[A-Za-z_0-9{(@*#?!$-]`).MatchString(text)
}

// double takes a text in double quotes.
func (s *shell) double() error {
	open := s.pos
	s.put("", 1)
	for s.pos < len(s.data) {
		rest := s.rest()
		switch {
		case rest[0] == '"':
			s.pos++
			return nil
		case rest[0] == '\\' && lineEnd(rest[1:]) > 0:
			s.pos += 1 + lineEnd(rest[1:])
		case rest[0] == '\\' && len(rest) > 1 && strings.IndexByte("$`\"\\", rest[1]) >= 0:
			s.put(rest[1:2], 2)
		case replaced(rest):
			return s.fail(s.pos, "the shell replaces this: paste the command with what it stands for")
		default:
			s.put(rest[:1], 1)
		}
	}
	return s.fail(open, unclosed)
}

// ansi takes a text in $'...', as browsers write one with line ends or signs.
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
				return s.fail(s.pos, "an escape that is not known here")
			}
			width := len(rest) - len(tail)
			if multibyte || r < utf8.RuneSelf {
				s.put(string(r), width)
			} else {
				s.put(string([]byte{byte(r)}), width)
			}
		}
	}
	return s.fail(open, unclosed)
}

// powershell takes a command apart as PowerShell does. It hands a double quote on as it is, or without its backslash.
func (s *shell) powershell() error {
	for s.pos < len(s.data) {
		rest := s.rest()
		switch c := rest[0]; {
		case c == ' ' || c == '\t':
			s.end()
			s.pos++
		case strings.IndexByte("\r\n;|&<>", c) >= 0 || c == '#' && !s.in:
			s.end()
			return nil
		case c == '`' && lineEnd(rest[1:]) > 0:
			s.pos += 1 + lineEnd(rest[1:])
		case c == '`' && len(rest) > 1:
			s.put(rest[1:2], 2)
		case c == '\'' || c == '"':
			if err := s.powershellQuoted(c); err != nil {
				return err
			}
		default:
			s.put(rest[:1], 1)
		}
	}
	s.end()
	return nil
}

func (s *shell) powershellQuoted(quote byte) error {
	open := s.pos
	s.put("", 1)
	for s.pos < len(s.data) {
		rest := s.rest()
		switch {
		case rest[0] == quote && len(rest) > 1 && rest[1] == quote:
			s.put(rest[:1], 2)
		case rest[0] == quote:
			s.pos++
			return nil
		case quote == '"' && rest[0] == '`' && len(rest) > 1:
			s.put(strings.NewReplacer("n", "\n", "r", "\r", "t", "\t", "0", "\x00").Replace(rest[1:2]), 2)
		case quote == '"' && replaced(rest):
			return s.fail(s.pos, "PowerShell replaces this: paste the command with what it stands for")
		default:
			s.put(rest[:1], 1)
		}
	}
	return s.fail(open, unclosed)
}

// cmd takes a command apart as cmd.exe does, whose carets come first, and then curl.exe, whose backslashes and quotes
// follow the rules of Microsoft's C library.
func (s *shell) cmd() error {
	line := s.carets()
	start := s.pos
	in, open := false, false
	var cur strings.Builder
	end := func() {
		if in {
			s.words = append(s.words, word{cur.String(), start})
		}
		cur.Reset()
		in = false
	}
	for i := 0; i < len(line); i++ {
		slashes := len(line[i:]) - len(strings.TrimLeft(line[i:], `\`))
		if slashes > 0 && i+slashes < len(line) && line[i+slashes] == '"' {
			in = true
			cur.WriteString(strings.Repeat(`\`, slashes/2))
			i += slashes - 1
			if slashes%2 == 1 {
				cur.WriteByte('"')
				i++
			}
			continue
		}
		switch c := line[i]; {
		case c == '"' && open && strings.HasPrefix(line[i+1:], `"`):
			cur.WriteByte('"')
			i++
		case c == '"':
			in, open = true, !open
		case (c == ' ' || c == '\t') && !open:
			end()
		default:
			in = true
			cur.WriteByte(c)
		}
	}
	end()
	if open {
		return s.fail(s.pos, unclosed)
	}
	return nil
}

// carets returns the command without its carets.
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
			return b.String()
		default:
			open = open != (c == '"')
			b.WriteByte(c)
		}
	}
	return b.String()
}
