package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc"
)

// Verbose reports whether -v was given, which the command must have.
func (c *Call) Verbose() bool { return c.Bool("v") }

// Print prints one answer on standard output: with -json the object, as one line with "type" and "v" in front of its
// fields, otherwise the lines. Control characters in the lines are escaped.
func (c *Call) Print(kind string, object any, lines ...string) {
	c.out.Lock()
	defer c.out.Unlock()
	if c.isJSON() {
		_, c.failed = c.Stdout.Write(record(kind, object))
		return
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(c.Stdout, Printable(line)); err != nil {
			c.failed = err
		}
	}
}

// Note prints a line on standard error, once for the same text, and nothing with -q.
func (c *Call) Note(format string, args ...any) {
	c.out.Lock()
	defer c.out.Unlock()
	text := fmt.Sprintf(format, args...)
	if c.noted == nil {
		c.noted = map[string]bool{}
	}
	if c.noted[text] || c.is("q") {
		return
	}
	c.noted[text] = true
	if c.isJSON() {
		_, _ = c.Stderr.Write(record("note", struct {
			Message string `json:"message"`
		}{text}))
		return
	}
	_, _ = fmt.Fprintln(c.Stderr, "note  ", Printable(text))
}

func (c *Call) isJSON() bool { return c.is("json") }

// is reports a flag of every command, which may not have been resolved yet.
func (c *Call) is(name string) bool {
	v := c.values[name]
	return len(v.Texts) > 0 && v.Texts[0] == "true"
}

// record returns a line of JSON: kind and version, then the fields of object, which may be nil.
func record(kind string, object any) []byte {
	head := fmt.Appendf(nil, `{"type":%q,"v":1`, kind)
	fields, err := json.Marshal(object)
	if err != nil || len(fields) <= 2 || fields[0] != '{' {
		return append(head, "}\n"...)
	}
	return append(append(append(head, ','), fields[1:]...), '\n')
}

// printError prints an error on standard error.
func (c *Call) printError(e *ExitError) {
	if e.Err == nil {
		return
	}
	c.out.Lock()
	defer c.out.Unlock()
	if c.isJSON() {
		_, _ = c.Stderr.Write(record("error", struct {
			Command string `json:"command"`
			Code    string `json:"code"`
			Exit    int    `json:"exit"`
			Message string `json:"message"`
		}{c.command.Name, e.name(), e.Code, e.Error()}))
		return
	}
	_, _ = fmt.Fprintf(c.Stderr, "%s: %s\n", strings.TrimSpace(c.Program.Name+" "+c.command.Name), Printable(e.Error()))
}

// Printable returns text with control characters, line ends and bytes that are not UTF-8 escaped.
func Printable(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case r == '\t' || strconv.IsPrint(r):
			out.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return out.String()
}

// Mask returns text with secrets, card numbers and the values of destination replaced by a placeholder.
func Mask(text string, secrets ...paymentsvc.Secret) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, string(secret), "<secret>")
		}
	}
	destination := regexp.MustCompile(`("destination"\s*:\s*)(?:"(?:[^"\\]|\\.)*"|[0-9]+)`)
	text = destination.ReplaceAllString(text, `$1"<destination>"`)
	numbers := regexp.MustCompile(`[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[1-9](?:[ -]?[0-9]){12,18}`)
	return numbers.ReplaceAllStringFunc(text, func(number string) string {
		if len(number) < 36 && isCardNumber(number) { // 36 is a UUID, whose digits may add up by chance
			return "<card number>"
		}
		return number
	})
}

// isCardNumber checks the last digit by Luhn's formula, so that most other long numbers stay readable.
func isCardNumber(number string) bool {
	number = strings.NewReplacer(" ", "", "-", "").Replace(number)
	sum := 0
	for i := range number {
		digit := int(number[len(number)-1-i] - '0')
		if i%2 == 1 {
			if digit *= 2; digit > 9 {
				digit -= 9
			}
		}
		sum += digit
	}
	return sum%10 == 0
}

// PrintRaw is [Call.Print] for a text that is written byte for byte, such as HTTP.
func (c *Call) PrintRaw(kind string, object any, text string) error {
	if c.isJSON() {
		c.Print(kind, object)
		return nil
	}
	if _, err := io.WriteString(c.Stdout, text); err != nil {
		return &ExitError{ExitMachine, err}
	}
	return nil
}
