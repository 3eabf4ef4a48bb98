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
		c.add(piece{kind: ofBody, shape: s, rarity: rarity, cost: cost, text: text, desc: desc, needs: needs, stamped: strings.Contains(text, "timestamp")})
	}
	body(object, common, 1, "body", "body")
	body(hashed, common, 2, "hex(sha256(body))", "SHA-256 of the body in hexadecimal")
	body(inText, uncommon, 4, "base64(body)", "body in base64")
	body(inText, rare, 5, "base64url(body)", "the body in base64 of the URL alphabet", "another body")
	body(inText, rare, 5, "hex(body)", "body in hexadecimal")
	body(inText, rare, 5, "base64url-raw(body)", "body in base64 of the URL alphabet without padding")
	body(inText, rare, 5, "base64(json(escape-slash, escape-unicode, short-numbers))", "body as PHP writes it, in base64", needsSlash, needsUnicode, needsWhole)
	body(inText, rare, 5, "base64(body-sorted)", "body with sorted fields, in base64", needsOrder, needsSpace)
	for _, form := range []string{"form", "percent", "js"} {
		body(shape{}, rare, 6, "escaped("+form+", body)", "body escaped as "+form)
	}
	body(caseless, rare, 5, "lower(body)", "body in lower case", needsUpperBody)
	body(caseless, rare, 5, "upper(body)", "body in upper case", needsLowerBody)

	for _, of := range []struct {
		rarity, cost int
		text, desc   string
		needs        []string
	}{
		{uncommon, 0, "body", "body", nil},
		{rare, 2, "body-compact", "body without white space", []string{needsSpace}},
		{rare, 2, "body-sorted", "body with sorted fields", []string{needsOrder, needsSpace}},
		{rare, 3, "timestamp body", "the timestamp and body", nil},
	} {
		for _, d := range []struct {
			name, desc string
			rarity     int
		}{{"sha256", "SHA-256", common}, {"md5", "MD5", common}, {"sha512", "SHA-512", uncommon}, {"sha1", "SHA-1", rare}} {
			sum := fmt.Sprintf("%s(%s)", d.name, of.text)
			for i, e := range []struct{ text, desc string }{
				{"hex(%s)", "%s of the %s in hexadecimal"},
				{"base64(%s)", "%s of the %s in base64"},
				{"%s", "bytes of the %s of the %s"},
				{"HEX(%s)", "%s of the %s in upper-case hexadecimal"},
				{"base64url-raw(%s)", "%s of the %s in base64 of the URL alphabet without padding"},
			} {
				rarity := max(of.rarity, d.rarity)
				if i > 3 {
					rarity = rare
				}
				if text := fmt.Sprintf(e.text, sum); (i <= 3 || d.name == "sha256") && text != "hex(sha256(body))" {
					body(hashed, rarity, 3+of.cost+i, text, fmt.Sprintf(e.desc, d.desc, of.desc), of.needs...)
				}
			}
		}
	}
}

// addJSON adds the ways to write the JSON of the body anew.
func (c *catalogue) addJSON() {
	object := shape{form: jsonObject}
	compact := piece{kind: ofBody, shape: object, cost: 3, text: "body-compact", part: canonical.BodyCompact, desc: "body without white space", needs: []string{needsSpace}}
	sorted := piece{kind: ofBody, shape: object, cost: 3, text: "body-sorted", part: canonical.BodySorted, desc: "body with sorted fields", needs: []string{needsSpace, needsOrder}}
	c.add(compact)
	c.add(sorted)
	for chosen := range 1 << 4 {
		for _, indent := range []string{"", " ", "  ", "    "} {
			form := canonical.JSONForm{Sort: chosen&1 != 0, EscapeSlash: chosen&2 != 0, EscapeUnicode: chosen&4 != 0, EscapeHTML: chosen&8 != 0, Indent: indent}
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

// addForm adds a form of JSON with all forms of numbers.
func (c *catalogue) addForm(form canonical.JSONForm) {
	plain := c.addOther(c.jsonPiece(form, asIs()), nil)
	for numbers := canonical.NumbersShort; numbers <= canonical.NumbersQuoted; numbers++ {
		form.Numbers = numbers
		c.addOther(c.jsonPiece(form, asIs()), plain)
	}
}

// addJSONWith adds JSON with one more field, and the JSON of an object inside the body.
func (c *catalogue) addJSONWith(texts ...piece) {
	_, objects := c.topLevel()
	var around []frame
	for _, name := range objects[:min(len(objects), 3)] {
		around = append(around, within(name))
	}
	for _, of := range fieldsToAdd() {
		for _, name := range of.names {
			around = append(around, c.with("with", name, of.text))
			if of.text == "timestamp" || of.text == "timestamp-ms" {
				around = append(around, c.with("with-number", name, of.text))
			}
		}
	}
	for _, frame := range around {
		for chosen := range 1 << 4 {
			form := canonical.JSONForm{Sort: chosen&1 != 0, EscapeSlash: chosen&2 != 0, EscapeUnicode: chosen&4 != 0, Spaces: chosen&8 != 0}
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

// jsonPiece describes the JSON of the body in a form.
func (c *catalogue) jsonPiece(form canonical.JSONForm, around frame) piece {
	var names []string
	p := piece{kind: ofBody, shape: shape{form: jsonObject}, rarity: uncommon, json: &form, part: canonical.BodyJSON(form), text: "json", needs: []string{needsSpace}, desc: "body's JSON written anew"}
	set := func(on bool, text, desc, need string) {
		if on {
			names = append(names, text)
			p.desc += ", " + desc
			p.needs = append(p.needs, need)
		}
	}
	set(form.Sort, "sorted", "sorted", needsOrder)
	set(form.Spaces, "spaces", "with spaces", needsSpace)
	set(form.Indent != "", fmt.Sprintf("indent(%q)", form.Indent), "with a line for each field", needsSpace)
	set(form.EscapeSlash, "escape-slash", "with escaped slashes", needsSlash)
	set(form.EscapeUnicode, "escape-unicode", "with everything but ASCII escaped", needsUnicode)
	set(form.EscapeHTML, "escape-html", "with <, > and & escaped", needsHTML)
	set(form.EscapeGson, "escape-gson", "with <, >, &, = and ' escaped", needsHTML)
	if form.Numbers != 0 {
		name := []string{"", "short", "python", "java", "two-place", "minor", "quoted"}[form.Numbers]
		set(true, name+"-numbers", "numbers "+name, needsWhole)
		p.shape.loses = losesDigits
		if form.Numbers > canonical.NumbersJava {
			p.rarity, p.shape.loses = rare, ""
		}
	}
	if len(names) > 0 {
		p.text = fmt.Sprintf("json(%s)", strings.Join(names, ", "))
	}
	if len(names) > 3 || form.Indent != "" || form.EscapeGson {
		p.rarity = max(p.rarity, rare)
	}
	p.cost = 4 + len(names)
	if around.text != "%s" {
		p.shelf, p.rarity = lists, rare
	}
	return p.in(around)
}

// addEnvelopes adds JSON objects that programs put the timestamp and the body into.
func (c *catalogue) addEnvelopes() {
	for i, stamp := range []string{"timestamp", "ts", "time", "t"} {
		for j, body := range []string{"body", "data", "payload", "request"} {
			for k, form := range []string{
				`'{"%s":' timestamp ',"%s":' body '}'`, `'{"%s":"' timestamp '","%s":' body '}'`,
				`'{"%s": ' timestamp ', "%s": ' body '}'`, `'{"%s":' timestamp ',"%s":' body-sorted '}'`,
			} {
				text := fmt.Sprintf(form, stamp, body)
				c.add(piece{kind: ofBody, shelf: lists, rarity: rare, stamped: true, shape: shape{form: jsonObject}, cost: 8 + i + j + k, text: text, desc: "envelope " + text})
				text = fmt.Sprintf(`'{"%s":' body ',"%s":' timestamp '}'`, body, stamp)
				if k == 0 {
					c.add(piece{kind: ofBody, shelf: lists, rarity: rare, stamped: true, shape: shape{form: jsonObject}, cost: 8 + i + j, text: text, desc: "envelope " + text})
				}
			}
		}
	}
}
