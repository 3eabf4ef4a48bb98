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

// Verbose reports whether -v is set. The command must have the flag.
func (c *Call) Verbose() bool { return c.Bool("v") }

// Print prints one result on standard output. With -json it prints the object in one line, with "type" and "v" before
// its fields. Otherwise it prints the lines, with control characters escaped.
func (c *Call) Print(kind string, object any, lines ...string) {
	c.out.Lock()
	defer c.out.Unlock()
	if c.isJSON() {
		if _, err := c.Stdout.Write(record(kind, object)); err != nil {
			c.failed = err
		}
		return
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(c.Stdout, Printable(line)); err != nil {
			c.failed = err
		}
	}
}

// Note prints a line on standard error, but not with -q, and each text only once.
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

// is reports a flag of every command, also before flags are resolved.
func (c *Call) is(name string) bool {
	v := c.values[name]
	return len(v.Texts) > 0 && v.Texts[0] == "true"
}

// record returns a line of JSON: kind, version and the fields of object. object may be nil.
func record(kind string, object any) []byte {
	head := fmt.Appendf(nil, `{"type":%q,"v":1`, kind)
	fields, err := json.Marshal(object)
	if err != nil || len(fields) <= 2 || fields[0] != '{' {
		return append(head, "}\n"...)
	}
	line := append(append(append(head, ','), fields[1:]...), '\n')
	controls := regexp.MustCompile("[\u007f-\u009f]") // control characters that encoding/json does not escape
	return controls.ReplaceAllFunc(line, func(c []byte) []byte {
		r, _ := utf8.DecodeRune(c)
		return fmt.Appendf(nil, `\u%04x`, r)
	})
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

// Printable returns text with escapes for control characters, line ends and invalid UTF-8.
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

// Mask replaces secrets, card numbers, destinations and the four open objects by placeholders, in JSON and in forms.
func Mask(text string, secrets ...paymentsvc.Secret) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, string(secret), "<secret>")
		}
	}
	return maskNumbers(maskFields(text))
}

// HiddenFields returns the fields with card data, personal data or a destination.
func HiddenFields() []string {
	return []string{"destination", "card_data", "browser", "payer", "payee"}
}

// maskFields replaces the values of [HiddenFields].
func maskFields(text string) string {
	name := regexp.MustCompile(`(?i)\b(` + strings.Join(HiddenFields(), "|") + `)(\\?"\s*:\s*|(?:\[[^\]\s]*\]|\.\w+)*\s*[=:]\s*)`)
	var out strings.Builder
	for {
		at := name.FindStringSubmatchIndex(text)
		if at == nil {
			return out.String() + text
		}
		field := "<" + strings.ReplaceAll(strings.ToLower(text[at[2]:at[3]]), "_", " ") + ">"
		before, value := text[:at[1]], text[at[1]:]
		out.WriteString(before)
		text = value[valueEnd(value):]
		if strings.HasSuffix(strings.TrimSpace(before), ":") && strings.Contains(before[at[4]:], `"`) {
			field = `"` + field + `"`
		}
		out.WriteString(field)
	}
}

// valueEnd returns the length of the value at the start of text: a JSON value, possibly truncated, or a form field.
func valueEnd(text string) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			if quoted = !quoted; !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth <= 0 {
				return i + 1 + depth // the bracket around the field is not part of the value
			}
		case depth == 0 && strings.IndexByte("&,;|\r\n\t ", c) >= 0:
			return i
		}
	}
	return len(text)
}

// maskNumbers replaces each possible card number of 13 to 19 digits, also within longer numbers.
func maskNumbers(text string) string {
	numbers := regexp.MustCompile(`[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9](?:[ -]?[0-9]){12,}`)
	return numbers.ReplaceAllStringFunc(text, func(run string) string {
		if len(run) == 36 && strings.Count(run, "-") == 4 && run[8] == '-' { // the digits of a UUID may pass the check by chance
			return run
		}
		hidden := make([]bool, len(run))
		for start := range run {
			for i := start; i < cardEnd(run, start); i++ {
				hidden[i] = true
			}
		}
		var out strings.Builder
		for i := range run {
			switch {
			case !hidden[i]:
				out.WriteByte(run[i])
			case i == 0 || !hidden[i-1]:
				out.WriteString("<card number>")
			}
		}
		return out.String()
	})
}

// cardEnd returns the end of the longest card number at start, or 0. A number with separators consists of whole
// groups, so that adjacent numbers stay readable.
func cardEnd(run string, start int) (end int) {
	const shortest, longest = 13, 19
	isDigit := func(i int) bool { return i >= 0 && i < len(run) && '0' <= run[i] && run[i] <= '9' }
	if !isDigit(start) || run[start] == '0' {
		return 0
	}
	digits, grouped := 0, false
	for i := start; i < len(run) && digits < longest; i++ {
		if !isDigit(i) {
			grouped = true
			continue
		}
		digits++
		whole := !isDigit(start-1) && !isDigit(i+1)
		if digits >= shortest && (whole || !grouped) && isCardNumber(run[start:i+1]) {
			end = i + 1
		}
	}
	return end
}

// isCardNumber checks the last digit by Luhn's formula, because most other long numbers fail it.
func isCardNumber(number string) bool {
	sum, double := 0, false
	for i := len(number) - 1; i >= 0; i-- {
		if number[i] == ' ' || number[i] == '-' {
			continue
		}
		digit := int(number[i] - '0')
		if double {
			if digit *= 2; digit > 9 {
				digit -= 9
			}
		}
		sum, double = sum+digit, !double
	}
	return sum%10 == 0
}

// PrintRaw is [Call.Print] for unchanged text, such as HTTP.
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
