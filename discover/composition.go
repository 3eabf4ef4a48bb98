package discover

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc/canonical"
)

// composition is a list of pieces, with the texts between, before and after them.
type composition struct {
	pieces      []*piece
	gaps        []string // gaps[i] is the separator after pieces[i]
	lead, trail string
	wrap        *frame // nil for the unchanged text
}

// allSeparators are the possible separators, the most common first.
var allSeparators = []string{
	"", "\n", ".", "|", ":", "&",
	";", ",", " ", "-", "_", "/", "\r\n", "+", "#", "\t",
	"~", "*", "::", "||", "{np}", "\x00", "=", "@", "?", `\n`, "%", "$", "--", "---", ", ", "; ", ": ", " | ",
	"\n\n", "^", "!", "//", "&&", "__", "{up}", "|||", ":::", "...", "##", "~~", "**", "++", "==", "@@", ";;",
	",,", "..",
	"$$", "%%", "^^", "!!", "??", "<", ">", "<>", "->", "=>", " - ", " . ", " : ", " & ", " + ", "\\", "\r", "\v",
	"\x01", "\x1f", "\x1e", "\u00a7", "\u00b6", "[", "]", "(", ")", "{", "}", "\"", "'", "`", ":|:", "|:|", "-|-",
	"<|>", "+|+", "#|#", "%20", "%0A", "&amp;", `\t`, `\r\n`, "0", "1", "x",
}

var (
	fewSeparators  = allSeparators[:6:6]
	moreSeparators = allSeparators[:9:9]
	someSeparators = allSeparators[:16:16]
)

var errMissing = errors.New("discover: the sample has no such part")

// text returns the text of the composition in a sample.
func (c *composition) text(sample int) (string, error) {
	parts := append(make([]string, 0, 16), c.lead)
	for i, p := range c.pieces {
		if !p.has(sample) {
			return "", errMissing
		}
		if i > 0 {
			parts = append(parts, c.gaps[i-1])
		}
		parts = append(parts, p.texts[sample])
	}
	whole := strings.Join(append(parts, c.trail), "")
	if c.wrap == nil {
		return whole, nil
	}
	text, err := c.wrap.part(canonical.Literal(whole))(nil, nil)
	return string(text), err
}

// separator returns the text of all gaps, or "" if the gaps differ. It also reports whether all gaps are equal, and
// lead and trail are this text or empty.
func (c *composition) separator() (string, bool) {
	if len(c.gaps) == 0 {
		return "", c.lead == "" && c.trail == ""
	}
	for _, gap := range c.gaps {
		if gap != c.gaps[0] {
			return "", false
		}
	}
	fits := func(edge string) bool { return edge == "" || edge == c.gaps[0] }
	return c.gaps[0], fits(c.lead) && fits(c.trail)
}

// scheme returns the text form of the composition, in an encoding and with a form of the secret.
func (c *composition) scheme(encoding string, form canonical.SecretForm) string {
	ofBody := slices.ContainsFunc(c.pieces, func(p *piece) bool { return p.kind.ofBody() })
	return schemeText(encoding, c.inner(), form, ofBody)
}

// inner returns the parts of the composition in the text form.
func (c *composition) inner() string {
	inner := strings.Join(c.words(func(p *piece) string { return p.text }, true), " ")
	if c.wrap != nil {
		inner = c.wrap.of(inner)
	}
	return inner
}

// words returns a word for each piece, with the quoted fixed texts if withFixed is set.
func (c *composition) words(word func(*piece) string, withFixed bool) (list []string) {
	fixed := func(text string) {
		if text != "" && withFixed {
			list = append(list, strconv.Quote(text))
		}
	}
	fixed(c.lead)
	for i, p := range c.pieces {
		if i > 0 {
			fixed(c.gaps[i-1])
		}
		list = append(list, word(p))
	}
	fixed(c.trail)
	return list
}

// schemeText returns the text form of a scheme. ofBody reports whether inner signs the body or a field.
func schemeText(encoding, inner string, form canonical.SecretForm, ofBody bool) string {
	text := encoding + "(" + inner + ")"
	if form != canonical.SecretText {
		text += ", key " + form.Name()
	}
	if !ofBody {
		text += ", body unsigned"
	}
	return text
}

// id returns the text form of the composition, in hexadecimal and without a form of the secret.
func (c *composition) id() string { return c.scheme("hex", canonical.SecretText) }

// expr returns the Go expression of the canonical string.
func (c *composition) expr() string {
	code, _ := canonical.GoCode(c.id()) // the text is valid
	return code.Canonical
}

// describe returns the composition in words.
func (c *composition) describe() string {
	separator, alike := c.separator()
	text := strings.Join(c.words(func(p *piece) string { return p.desc }, !alike), " + ")
	if alike && separator != "" {
		text += fmt.Sprintf(", with %q between", separator)
		if c.lead != "" {
			text += " and before"
		}
		if c.trail != "" {
			text += " and after"
		}
	}
	if c.wrap != nil {
		text = fmt.Sprintf(c.wrap.desc, "("+text+")")
	}
	return text
}

// cost returns the complexity of the composition. Matches with a lower cost come first.
func (c *composition) cost() int {
	cost := len(c.pieces)
	for _, p := range c.pieces {
		cost += p.cost
	}
	separator, alike := c.separator()
	if !alike {
		cost += 2 + len(c.gaps)
	}
	if separator != "" {
		cost++
	}
	if c.lead != "" {
		cost += 3
	}
	if c.trail != "" {
		cost += 2
	}
	if c.wrap != nil {
		cost += 6
	}
	return cost
}

// with returns the composition with another piece at an index.
func (c *composition) with(at int, p *piece) *composition {
	other := *c
	other.pieces = slices.Clone(c.pieces)
	other.pieces[at] = p
	return &other
}
