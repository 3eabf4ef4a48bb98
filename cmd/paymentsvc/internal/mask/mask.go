// Package mask hides secrets, card data, personal data and destinations in output.
package mask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	fieldNames = regexp.MustCompile(`(?i)\b(` + strings.Join(Fields(), "|") + `)` +
		`(\\?"\s*:\s*|(?:\[[^\]\s]*\]|\.\w+)*\s*[=:]\s*)`)
	uuids              = regexp.MustCompile(`^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	longNumbers        = regexp.MustCompile(strings.Trim(uuids.String(), "^$") + `|[0-9](?:[ -]?[0-9]){12,}`)
	usersOfAddresses   = regexp.MustCompile(`(https?://)[^/?#\s,]*@`)
	queriesOfAddresses = regexp.MustCompile(`(https?://[^?\s,]*\?)[^\s,]+`)
)

// Text replaces secrets, card numbers, destinations and the objects card_data, browser, payer and payee with
// placeholders, in JSON and in forms. A [Pattern] describes a secret.
func Text(text string, secrets ...*regexp.Regexp) string {
	for _, secret := range secrets {
		text = secret.ReplaceAllLiteralString(text, "<secret>")
	}
	return maskNumbers(maskFields(text))
}

// Pattern returns an expression that matches a secret, also with escapes of HTML, JSON, URLs and source code, because
// debug pages of receivers have such escapes. The expression matches each invalid byte as U+FFFD. After maxPatternBytes
// of the secret, it matches all text that follows. The expression for "" matches no text.
func Pattern(secret string) *regexp.Regexp {
	if secret == "" {
		return regexp.MustCompile(`[^\x00-\x{10ffff}]`)
	}
	var b strings.Builder
	for rest := secret; rest != ""; {
		if len(secret)-len(rest) > maxPatternBytes {
			b.WriteString(`(?s:.*)`) // a longer pattern is slow
			break
		}
		r, size := utf8.DecodeRuneInString(rest)
		escapes := fmt.Sprintf(`&(?:amp;)*#(?:0*%d|x0*%x);?|`, r, r)
		for _, c := range []byte(rest[:size]) {
			escapes += fmt.Sprintf(`(?:%%(?:25)*|\\+x)%02x`, c)
		}
		escapes += "|"
		for _, unit := range utf16.AppendRune(nil, r) {
			escapes += fmt.Sprintf(`\\+u\{?0*%x\}?`, unit)
		}
		plain := regexp.QuoteMeta(string(r))
		if r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			escapes += `|&(?:amp;)*[a-z0-9]+;`
			quoted := strconv.QuoteRune(r) // a line feed as \n
			plain = `\\*(?:` + plain + "|" + regexp.QuoteMeta(quoted[1:len(quoted)-1]) + ")"
		}
		if r == ' ' {
			plain += `|\+`
		}
		fmt.Fprintf(&b, `(?:(?i:%s)|%s)`, escapes, plain)
		rest = rest[size:]
	}
	return regexp.MustCompile(b.String())
}

const maxPatternBytes = 1024

// Fields returns the names of fields with card data, personal data or a destination.
func Fields() []string {
	return []string{"destination", "card_data", "browser", "payer", "payee"}
}

// maskFields replaces the values of [Fields].
func maskFields(text string) string {
	var out strings.Builder
	for {
		at := fieldNames.FindStringSubmatchIndex(text)
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
			quoted = !quoted
			if !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if depth <= 0 {
				return i + 1 + depth // the bracket around the field is not part of the value
			}
		case depth == 0 && strings.IndexByte("&,;|\r\n\t ", c) >= 0:
			return i
		}
	}
	return len(text)
}

// Body replaces each value in the [Fields] of a JSON body, and reports whether it replaced a value. Other bytes remain
// unchanged, because a signature may cover them. Body does not change invalid JSON.
func Body(body []byte) ([]byte, bool) {
	if !json.Valid(body) { // valid JSON has limited nesting
		return body, false
	}
	h := &hiding{dec: json.NewDecoder(bytes.NewReader(body)), body: body}
	h.value("")
	return append(h.out, body[h.kept:]...), h.kept > 0
}

// hiding is the state of [Body] while it copies JSON.
type hiding struct {
	dec  *json.Decoder
	body []byte
	out  []byte
	kept int // the copied length of body
}

// value copies one JSON value. If placeholder is not "", it replaces each string, number, boolean and null inside.
func (h *hiding) value(placeholder string) {
	start := int(h.dec.InputOffset())
	switch token, _ := h.dec.Token(); token {
	case json.Delim('{'), json.Delim('['):
		for h.dec.More() {
			inner := placeholder
			if token == json.Delim('{') {
				name, _ := h.dec.Token()
				text, _ := name.(string)
				text = strings.ToLower(text)
				if inner == "" && slices.Contains(Fields(), text) {
					inner = `"<` + strings.ReplaceAll(text, "_", " ") + `>"`
				}
			}
			h.value(inner)
		}
		_, _ = h.dec.Token()
	default:
		if placeholder == "" {
			return
		}
		start += len(h.body[start:]) - len(bytes.TrimLeft(h.body[start:], " \t\r\n:,"))
		h.out = append(append(h.out, h.body[h.kept:start]...), placeholder...)
		h.kept = int(h.dec.InputOffset())
	}
}

// maskNumbers replaces each possible card number of 13 to 19 digits, even within longer numbers, but not in a UUID.
func maskNumbers(text string) string {
	return longNumbers.ReplaceAllStringFunc(text, func(run string) string {
		if uuids.MatchString(run) {
			return run // the digits of a UUID may pass the check by chance
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

// cardEnd returns the end of the longest card number at start, or 0. A card number does not begin with 0. With
// separators, it must consist of whole groups, so that adjacent numbers remain readable.
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

// isCardNumber checks the last digit by Luhn's formula, because most other long numbers fail this check.
func isCardNumber(number string) bool {
	sum, digits := 0, 0
	for i := len(number) - 1; i >= 0; i-- {
		if c := number[i]; c != ' ' && c != '-' {
			digit := int(c-'0') << (digits % 2)
			sum += digit/10 + digit%10
			digits++
		}
	}
	return sum%10 == 0
}

// Query replaces the query of an address by "...", because a query may contain a token.
func Query(address string) string {
	before, _, query := strings.Cut(address, "?")
	if query {
		return before + "?..."
	}
	return before
}

// Addresses replaces users and queries in the addresses in text by "...", because they may contain a password or a
// token.
func Addresses(text string) string {
	text = usersOfAddresses.ReplaceAllString(text, "$1...@")
	return queriesOfAddresses.ReplaceAllString(text, "$1...")
}
