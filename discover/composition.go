package discover

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// composition is pieces in an order, with the text between, before and after them.
type composition struct {
	pieces      []*piece
	gaps        []string // between the pieces, one less than them
	lead, trail string
	wrap        *wrapping // nil for the text as it is
}

// wrapping is what some services do with the whole text before they sign it.
type wrapping struct {
	expr, desc string // with %s for what is wrapped
	part       func(paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
	loses      string // see shape
}

func wrappings() []*wrapping {
	return []*wrapping{
		{
			"canonical.SHA256(paymentsvc.Hex, %s)", "SHA-256 in hexadecimal of %s",
			func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return canonical.SHA256(paymentsvc.Hex, p) }, "",
		},
		{
			"canonical.SHA256(canonical.Raw, %s)", "bytes of the SHA-256 of %s",
			func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return canonical.SHA256(canonical.Raw, p) }, "",
		},
		{
			"canonical.Encode(base64.StdEncoding, %s)", "base64 of %s",
			func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
				return canonical.Encode(base64.StdEncoding, p)
			}, "",
		},
		{"canonical.Lower(%s)", "%s, all in lower case", canonical.Lower, losesCase},
		{"canonical.Upper(%s)", "%s, all in upper case", canonical.Upper, losesCase},
	}
}

// text returns what the composition makes of a sample.
func (c *composition) text(sample int) (string, error) {
	var b strings.Builder
	b.WriteString(c.lead)
	for i, p := range c.pieces {
		if i > 0 {
			b.WriteString(c.gaps[i-1])
		}
		b.WriteString(p.texts[sample])
	}
	b.WriteString(c.trail)
	if c.wrap == nil {
		return b.String(), nil
	}
	text, err := c.wrap.part(canonical.Literal(b.String()))(nil, nil)
	return string(text), err
}

// separator returns the text between the pieces, and reports whether it is the same everywhere.
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

// walk calls piece and text for what the composition consists of, in its order. If all gaps are alike, text is called
// only for the empty piece at an end, with "".
func (c *composition) walk(piece func(*piece), text func(string)) (separator string, alike bool) {
	separator, alike = c.separator()
	between := func(s string) {
		switch {
		case s == "":
		case alike:
			text("")
		default:
			text(s)
		}
	}
	between(c.lead)
	for i, p := range c.pieces {
		if i > 0 && !alike {
			between(c.gaps[i-1])
		}
		piece(p)
	}
	between(c.trail)
	return separator, alike
}

// build returns the part and its Go expression.
func (c *composition) build() (part paymentsvc.CanonicalFunc, expr string) {
	var parts []paymentsvc.CanonicalFunc
	var exprs []string
	add := func(p paymentsvc.CanonicalFunc, e string) {
		parts, exprs = append(parts, p), append(exprs, e)
	}
	separator, _ := c.walk(
		func(p *piece) { add(p.part, p.expr) },
		func(text string) { add(canonical.Literal(text), fmt.Sprintf("canonical.Literal(%q)", text)) },
	)
	part, expr = parts[0], exprs[0]
	if len(parts) > 1 {
		part = canonical.Join(separator, parts...)
		expr = fmt.Sprintf("canonical.Join(%q, %s)", separator, strings.Join(exprs, ", "))
	}
	if c.wrap != nil {
		part, expr = c.wrap.part(part), fmt.Sprintf(c.wrap.expr, expr)
	}
	return part, expr
}

// describe returns the composition in words.
func (c *composition) describe() string {
	var names []string
	separator, alike := c.walk(
		func(p *piece) { names = append(names, p.desc) },
		func(text string) {
			if text != "" {
				names = append(names, strconv.Quote(text))
			}
		},
	)
	text := strings.Join(names, " + ")
	if alike && separator != "" {
		text += fmt.Sprintf(", with %q between", separator)
		if c.lead != "" {
			text += " and before"
		}
		if c.trail != "" {
			text += " and behind"
		}
	}
	if c.wrap != nil {
		text = fmt.Sprintf(c.wrap.desc, "("+text+")")
	}
	return text
}

// cost measures how far from simple the composition is.
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

// with returns the composition with another piece at one place.
func (c *composition) with(at int, p *piece) *composition {
	other := *c
	other.pieces = slices.Clone(c.pieces)
	other.pieces[at] = p
	return &other
}
