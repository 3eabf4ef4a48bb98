package discover

import (
	"encoding/base64"
	"errors"
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
	text, desc string // with %s for what is wrapped
	part       func(paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
	loses      string // see shape
}

func wrappings() []*wrapping {
	encoded := func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
		return canonical.Encode(base64.StdEncoding, p)
	}
	const most = 21
	list := append(make([]*wrapping, 0, most), []*wrapping{
		{"base64(%s)", "base64 of %s", encoded, ""},
		{"lower(%s)", "%s, all in lower case", canonical.Lower, losesCase},
		{"upper(%s)", "%s, all in upper case", canonical.Upper, losesCase},
		{"escaped(form, %s)", "%s, escaped as in a form", func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
			return canonical.Escaped(canonical.EscapingForm, p)
		}, ""},
		{"escaped(percent, %s)", "%s, escaped", func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
			return canonical.Escaped(canonical.EscapingPercent, p)
		}, ""},
	}...)
	for _, d := range []struct {
		text, desc string
		digest     func(paymentsvc.Encoding, paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
	}{{"sha256", "SHA-256", canonical.SHA256}, {"md5", "MD5", canonical.MD5}, {"sha512", "SHA-512", canonical.SHA512}, {"sha1", "SHA-1", canonical.SHA1}} {
		for _, e := range []struct {
			text, desc string
			encoding   paymentsvc.Encoding
		}{
			{"hex(%s)", "%s in hexadecimal", paymentsvc.Hex}, {"%s", "bytes of the %s", canonical.Raw},
			{"HEX(%s)", "%s in upper-case hexadecimal", paymentsvc.HexUpper}, {"base64(%s)", "%s in base64", base64.StdEncoding},
		} {
			list = append(list, &wrapping{
				fmt.Sprintf(e.text, d.text+"(%s)"), fmt.Sprintf(e.desc, d.desc) + " of %s",
				func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return d.digest(e.encoding, p) }, "",
			})
		}
	}
	return list
}

var errLacking = errors.New("discover: the sample has no such part")

// text returns what the composition makes of a sample.
func (c *composition) text(sample int) (string, error) {
	var b strings.Builder
	b.WriteString(c.lead)
	for i, p := range c.pieces {
		if !p.has(sample) {
			return "", errLacking
		}
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

// scheme returns the text form of the composition, in an encoding and for a reading of the secret.
func (c *composition) scheme(encoding string, form canonical.SecretForm) string {
	var texts []string
	fixed := func(text string) {
		if text != "" {
			texts = append(texts, strconv.Quote(text))
		}
	}
	fixed(c.lead)
	for i, p := range c.pieces {
		if i > 0 {
			fixed(c.gaps[i-1])
		}
		texts = append(texts, p.text)
	}
	fixed(c.trail)
	inner := strings.Join(texts, " ")
	if c.wrap != nil {
		inner = fmt.Sprintf(c.wrap.text, inner)
	}
	return schemeText(encoding, inner, form, slices.ContainsFunc(c.pieces, func(p *piece) bool { return p.kind.ofBody() }))
}

// schemeText writes a scheme.
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

// id tells compositions apart.
func (c *composition) id() string { return c.scheme("hex", canonical.SecretText) }

// expr returns the Go expression of the canonical string.
func (c *composition) expr() string {
	code, _ := canonical.GoCode(c.id()) // the text is right
	return code.Canonical
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
