package discover

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// addListsWith adds a list with one or two more fields among the others.
func (c *catalogue) addListsWith(base canonical.FieldList) {
	usual := base.Equals+base.Between == "=&" || base.Equals+base.Between == ""
	for _, of := range fieldsToAdd() {
		for i, name := range of.names {
			if i >= maxNamesInFull && (!usual || c.large()) {
				break
			}
			around := c.with("with", name, of.text)
			plain := c.addOther(c.listPiece(base, around, rare), nil)
			if i < maxNamesInFull {
				c.addNestedWith(base, around, plain)
				continue
			}
			omitted := base
			omitted.Nested = canonical.NestedOmitted
			c.addOther(c.listPiece(omitted, around, rare), plain)
		}
	}
	if !usual || c.large() {
		return
	}
	omitted := base
	omitted.Nested = canonical.NestedOmitted
	escaped := omitted
	escaped.Escaping = canonical.EscapingForm
	for _, caller := range c.callers() {
		for _, name := range callerNames {
			alone := c.with("with", name, caller)
			for _, f := range append([]frame{alone}, c.stampsAround(alone)...) {
				plain := c.addOther(c.listPiece(base, f, rare), nil)
				c.addOther(c.listPiece(omitted, f, rare), plain)
				if base.Names && base.Between == "&" {
					c.addOther(c.listPiece(escaped, f, rare), plain)
				}
			}
		}
	}
}

// stampsAround returns the frames that add the timestamp to a frame.
func (c *catalogue) stampsAround(inner frame) (list []frame) {
	for _, of := range []added{
		{"timestamp", []string{"timestamp", "ts", "nonce", "timeStamp", "time"}},
		{"timestamp-ms", []string{"timestamp", "nonce"}},
	} {
		for _, name := range of.names {
			list = append(list, c.with("with", name, of.text).around(inner))
		}
	}
	return list
}

// maxNamesInFull limits the names of an added field that are combined with the forms of the other fields.
const maxNamesInFull = 5

// callerNames are names of an API key or of a caller's id among the fields.
var callerNames = []string{
	"apiKey", "api_key", "accesskey", "accessKey", "key", "access_key", "app_id", "appid",
}

// callers returns the text forms of identifying headers and of Options.Words, at most four.
func (c *catalogue) callers() (texts []string) {
	for _, p := range c.pieces {
		if isIdentity(p) && (p.kind == ofHeader || p.kind == ofWord) && !strings.Contains(p.text, "%") {
			texts = append(texts, p.text)
		}
	}
	return texts[:min(len(texts), 4)]
}

// addNestedWith adds a list with one more field in the forms of nested fields, numbers and escapes.
func (c *catalogue) addNestedWith(base canonical.FieldList, around frame, plain *piece) {
	for nested := range canonical.NestedFlat + 1 {
		l := base
		l.Nested = nested
		if l.Names && nested == canonical.NestedFlat {
			l.Path = "[]"
		}
		simpler := c.addOther(c.listPiece(l, around, rare), plain)
		if simpler == plain && nested > 0 {
			continue
		}
		for numbers := canonical.NumbersShort; numbers <= canonical.NumbersPython; numbers++ {
			l.Numbers = numbers
			c.addOther(c.listPiece(l, around, rare), simpler)
		}
		if l.Numbers = 0; l.Equals != "=" || l.Between != "&" {
			continue
		}
		for l.Escaping = canonical.EscapingForm; l.Escaping <= canonical.EscapingPHP; l.Escaping++ {
			escaped := c.addOther(c.listPiece(l, around, rare), simpler)
			l.Numbers, l.Constants = canonical.NumbersShort, canonical.ConstantsDigits
			c.addOther(c.listPiece(l, around, rare), escaped)
			l.Numbers, l.Constants = 0, 0
		}
	}
}

// added is a part that programs add to the fields of a body before they sign it, with common names of the field.
type added struct {
	text  string
	names []string
}

func fieldsToAdd() []added {
	return []added{
		{"timestamp", []string{"timestamp", "ts", "time", "t", "Timestamp", "nonce", "timeStamp", "tonce", "expires"}},
		{"timestamp-ms", []string{"timestamp", "nonce", "timeStamp", "tonce", "ts"}},
		{"secret", []string{"secret", "key", "password", "Password", "secret_key"}},
		{`date("2006-01-02T15:04:05")`, []string{"Timestamp"}},
		{`date("2006-01-02T15:04:05Z")`, []string{"timestamp", "Timestamp"}},
		{`date("2006-01-02 15:04:05")`, []string{"timestamp"}},
	}
}

// frame surrounds a part, which replaces %s in its text.
type frame struct {
	text   string
	part   func(paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
	inside string // field with the only signed object
	desc   string // of a frame around a whole text, with %s for this text
	loses  string // see shape
}

func asIs() frame {
	return frame{text: "%s", part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return p }}
}

func within(name string) frame {
	return frame{
		text: fmt.Sprintf("within(%q, %%s)", name), inside: name,
		part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return canonical.Within(name, p) },
	}
}

// around returns the frame with another frame inside it.
func (f frame) around(inner frame) frame {
	return frame{
		text: fmt.Sprintf(f.text, inner.text),
		part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return f.part(inner.part(p)) },
	}
}

// digestOf returns the frame of a digest in an encoding. The encoding "" is the bytes of the digest.
func digestOf(name, encoding string) frame {
	digest := map[string]func(paymentsvc.Encoding, paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc{
		"md5": canonical.MD5, "sha1": canonical.SHA1, "sha256": canonical.SHA256, "sha512": canonical.SHA512,
	}[name]
	in := map[string]paymentsvc.Encoding{
		"": canonical.Raw, "hex": paymentsvc.Hex, "HEX": paymentsvc.HexUpper, "base64": base64.StdEncoding,
	}[encoding]
	text := name + "(%s)"
	if encoding != "" {
		text = encoding + "(" + text + ")"
	}
	return frame{text: text, part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return digest(in, p) }}
}

// with returns the frame that adds a field, by with or with-number.
func (c *catalogue) with(function, name, value string) frame {
	scheme, _, err := canonical.ParseSchemeWith(schemeText("hex", value, canonical.SecretText, false), c.secret)
	if err != nil {
		c.err = err
	}
	add := canonical.With
	if function == "with-number" {
		add = canonical.WithNumber
	}
	return frame{
		text: fmt.Sprintf("%s(%q, %s, %%s)", function, name, value),
		part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc { return add(name, scheme.Canonical, p) },
	}
}

// in returns the piece in a frame.
func (p piece) in(around frame) piece {
	p.around = around
	if around.text == "%s" {
		return p
	}
	p.text, p.part = fmt.Sprintf(around.text, p.text), around.part(p.part)
	p.cost += 6 // more than the secret or the timestamp beside it
	if around.inside != "" {
		p.cost -= 3
	}
	p.desc += " (" + strings.TrimSuffix(around.text, ", %s)") + ")"
	p.stamped = strings.Contains(around.text, "timestamp")
	return p
}
