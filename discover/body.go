package discover

import (
	"fmt"
	"strings"

	"github.com/paymentsvc/paymentsvc/canonical"
)

func (c *catalogue) addBody() {
	object, inText, hashed := shape{form: jsonObject}, shape{form: encoded}, shape{form: digest}
	caseless := shape{form: jsonObject, loses: losesCase}
	body := func(s shape, rarity, cost int, text, desc string, needs ...string) {
		c.add(piece{
			kind: ofBody, shape: s, rarity: rarity, cost: cost, text: text, desc: desc, needs: needs,
			hasTimestamp: strings.Contains(text, "timestamp"),
		})
	}
	body(object, common, 1, "body", "body")
	body(hashed, common, 2, "hex(sha256(body))", "SHA-256 of the body in hexadecimal")
	body(inText, uncommon, 4, "base64(body)", "body in base64")
	body(inText, rare, 5, "base64url(body)", "body in base64 with the URL alphabet", "another body")
	body(inText, rare, 5, "hex(body)", "body in hexadecimal")
	body(inText, rare, 5, "base64url-raw(body)", "body in base64 with the URL alphabet and without padding")
	php := canonical.JSONForm{EscapeSlash: true, EscapeUnicode: true, Numbers: canonical.NumbersShort}
	body(
		shape{form: encoded, loses: losesDigits}, rare, 5, "base64("+php.String()+")",
		"body as PHP writes it, in base64", needsSlash, needsUnicode, needsWhole,
	)
	body(inText, rare, 5, "base64(body-sorted)", "body with sorted fields, in base64", needsOrder, needsSpace)
	for _, form := range []canonical.Escaping{
		canonical.EscapingForm, canonical.EscapingPercent, canonical.EscapingJS,
	} {
		body(shape{}, rare, 6, fmt.Sprintf("escaped(%s, body)", form), "body escaped as "+form.String())
	}
	body(caseless, rare, 5, "lower(body)", "body in lower case", needsUpperBody)
	body(caseless, rare, 5, "upper(body)", "body in upper case", needsLowerBody)
	c.addBodyDigests()
}

// addBodyDigests adds digests of the body, of two forms of it, and of timestamp and body, except hex(sha256(body)).
func (c *catalogue) addBodyDigests() {
	bodies := []piece{
		{text: "body", desc: "body", rarity: uncommon},
		{text: "body-compact", desc: "body without white space", rarity: rare, cost: 2, needs: []string{needsSpace}},
		{
			text: "body-sorted", desc: "body with sorted fields", rarity: rare, cost: 2,
			needs: []string{needsOrder, needsSpace},
		},
		{text: "timestamp body", desc: "timestamp and body", rarity: rare, cost: 3, hasTimestamp: true},
	}
	hashes := []struct {
		name, desc string
		rarity     int
	}{{"sha256", "SHA-256", common}, {"md5", "MD5", common}, {"sha512", "SHA-512", uncommon}, {"sha1", "SHA-1", rare}}
	encodings := []struct{ text, desc string }{
		{"hex(%s)", "%s of the %s in hexadecimal"},
		{"base64(%s)", "%s of the %s in base64"},
		{"%s", "bytes of the %s of the %s"},
		{"HEX(%s)", "%s of the %s in upper-case hexadecimal"},
		{"base64url-raw(%s)", "%s of the %s in base64 with the URL alphabet and without padding"},
	}
	for _, p := range bodies {
		for _, h := range hashes {
			for i, e := range encodings {
				d := p
				d.kind, d.shape, d.cost = ofBody, shape{form: digest}, 3+p.cost+i
				d.rarity = max(p.rarity, h.rarity)
				isOfURL := e.text == "base64url-raw(%s)"
				if isOfURL {
					d.rarity = rare
				}
				d.text, d.desc = fmt.Sprintf(e.text, h.name+"("+p.text+")"), fmt.Sprintf(e.desc, h.desc, p.desc)
				if (!isOfURL || h.name == "sha256") && d.text != "hex(sha256(body))" {
					c.add(d)
				}
			}
		}
	}
}

// addJSON adds forms of the body's JSON. Large bodies get fewer forms.
func (c *catalogue) addJSON() {
	object := shape{form: jsonObject}
	compact := piece{
		kind: ofBody, shape: object, cost: 3, text: "body-compact", part: canonical.BodyCompact,
		desc: "body without white space", needs: []string{needsSpace},
	}
	sorted := piece{
		kind: ofBody, shape: object, cost: 3, text: "body-sorted", part: canonical.BodySorted,
		desc: "body with sorted fields", needs: []string{needsSpace, needsOrder},
	}
	c.add(compact)
	c.add(sorted)
	for chosen := range 1 << 4 {
		for _, indent := range []string{"", " ", "  ", "    "} {
			form := canonical.JSONForm{
				Sort: chosen&1 != 0, EscapeSlash: chosen&2 != 0, EscapeUnicode: chosen&4 != 0,
				EscapeHTML: chosen&8 != 0, Indent: indent,
			}
			if form.Spaces = indent == " "; form.Spaces {
				form.Indent = ""
			}
			if c.large() && (form.Indent != "" || form.EscapeHTML) {
				continue
			}
			c.addForm(form)
			form.EscapeHTML, form.EscapeGson = false, true
			if !form.EscapeSlash && !form.EscapeUnicode && chosen&8 != 0 {
				c.addForm(form)
			}
		}
	}
	if !c.large() {
		c.addJSONWith(compact, sorted)
	}
}

// addForm adds a form of JSON, and its variants with each form of numbers that changes a text.
func (c *catalogue) addForm(form canonical.JSONForm) {
	plain := c.addOther(c.jsonPiece(form, frame{}), nil)
	for numbers := canonical.NumbersShort; numbers <= canonical.NumbersQuoted; numbers++ {
		form.Numbers = numbers
		c.addOther(c.jsonPiece(form, frame{}), plain)
	}
}

// addJSONWith adds forms of JSON, and the given pieces, for the body with one more field and for the first three inner
// objects of the body.
func (c *catalogue) addJSONWith(texts ...piece) {
	var around []frame
	for _, name := range c.objects[:min(len(c.objects), 3)] {
		around = append(around, c.within(name))
	}
	for _, of := range fieldsToAdd {
		for i, name := range of.names {
			if i == maxNamesInFull {
				break
			}
			around = append(around, c.addedField("with", name, of.text))
			if of.text == "timestamp" || of.text == "timestamp-ms" {
				around = append(around, c.addedField("with-number", name, of.text))
			}
		}
	}
	for _, frame := range around {
		for chosen := range 1 << 4 {
			form := canonical.JSONForm{
				Sort: chosen&1 != 0, EscapeSlash: chosen&2 != 0, EscapeUnicode: chosen&4 != 0,
				Spaces: chosen&8 != 0,
			}
			plain := c.addOther(c.jsonPiece(form, frame), nil)
			for numbers := canonical.NumbersShort; numbers <= canonical.NumbersPython; numbers++ {
				form.Numbers = numbers
				c.addOther(c.jsonPiece(form, frame), plain)
			}
		}
		for _, p := range texts {
			p = p.in(frame)
			p.shelf, p.rarity = lists, rare
			c.add(p)
		}
	}
}

// jsonPiece returns the piece of the body's JSON in a form, without its text form; see describeJSON.
func (c *catalogue) jsonPiece(form canonical.JSONForm, around frame) piece {
	return piece{
		kind: ofBody, shape: shape{form: jsonObject}, json: &form, part: canonical.BodyJSON(form), cost: 4,
	}.in(around)
}

// describeJSON sets the text form, description, needs and rarity of JSON. Each option adds to the cost of the piece.
func (p *piece) describeJSON() {
	form := *p.json
	p.text, p.desc, p.needs, p.rarity = form.String(), "body's JSON encoded again", []string{needsSpace}, uncommon
	options := 0
	set := func(on bool, desc, need string) {
		if on {
			options++
			p.desc += ", " + desc
			p.needs = append(p.needs, need)
		}
	}
	set(form.Sort, "sorted", needsOrder)
	set(form.Spaces, "with spaces", needsSpace)
	set(form.Indent != "", "with a line for each field", needsSpace)
	set(form.EscapeSlash, "with escaped slashes", needsSlash)
	set(form.EscapeUnicode, "with everything but ASCII escaped", needsUnicode)
	set(form.EscapeHTML, "with <, > and & escaped", needsHTML)
	set(form.EscapeGson, "with <, >, &, = and ' escaped", needsHTML)
	set(form.Numbers != 0, "numbers "+form.Numbers.String(), needsWhole)
	if form.Numbers != 0 {
		p.shape.loses = losesDigits
	}
	if form.Numbers > canonical.NumbersJava {
		p.rarity, p.shape.loses = rare, ""
	}
	if options > 3 || form.Indent != "" || form.EscapeGson {
		p.rarity = rare
	}
	p.cost += options
	if p.around.part != nil {
		p.shelf, p.rarity = lists, rare
	}
}

// addEnvelopes adds JSON objects with the timestamp and the body.
func (c *catalogue) addEnvelopes() {
	add := func(cost int, text string) {
		c.add(piece{
			kind: ofBody, shelf: lists, rarity: rare, hasTimestamp: true, shape: shape{form: jsonObject},
			cost: 8 + cost, text: text, desc: "envelope " + text,
		})
	}
	for i, stamp := range []string{"timestamp", "ts", "time", "t"} {
		for j, body := range []string{"body", "data", "payload", "request"} {
			for k, form := range []string{
				`'{"%s":' timestamp ',"%s":' body '}'`, `'{"%s":"' timestamp '","%s":' body '}'`,
				`'{"%s": ' timestamp ', "%s": ' body '}'`, `'{"%s":' timestamp ',"%s":' body-sorted '}'`,
			} {
				add(i+j+k, fmt.Sprintf(form, stamp, body))
			}
			add(i+j, fmt.Sprintf(`'{"%s":' body ',"%s":' timestamp '}'`, body, stamp))
		}
	}
}
