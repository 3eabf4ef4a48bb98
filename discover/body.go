package discover

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

func (c *catalogue) addBody() {
	object, inText, hashed := shape{form: jsonObject}, shape{form: encoded}, shape{form: digest}
	caseless := shape{form: jsonObject, loses: losesCase}
	body := func(s shape, rarity, cost int, part paymentsvc.CanonicalFunc, expr, desc string, needs ...string) {
		c.add(piece{kind: ofBody, shape: s, rarity: rarity, cost: cost, part: part, expr: expr, desc: desc, needs: needs})
	}
	body(object, common, 1, canonical.Body, "canonical.Body", "body")
	body(hashed, common, 2, canonical.BodySHA256, "canonical.BodySHA256", "SHA-256 of the body in hexadecimal")
	body(inText, uncommon, 4, canonical.Encode(base64.StdEncoding, canonical.Body), "canonical.Encode(base64.StdEncoding, canonical.Body)", "body in base64")
	body(inText, rare, 5, canonical.Encode(base64.URLEncoding, canonical.Body), "canonical.Encode(base64.URLEncoding, canonical.Body)",
		"the body in base64 of the URL alphabet", "another body")
	body(inText, rare, 5, canonical.Encode(paymentsvc.Hex, canonical.Body), "canonical.Encode(paymentsvc.Hex, canonical.Body)", "body in hexadecimal")
	body(caseless, rare, 5, canonical.Lower(canonical.Body), "canonical.Lower(canonical.Body)", "body in lower case", needsUpperBody)
	body(caseless, rare, 5, canonical.Upper(canonical.Body), "canonical.Upper(canonical.Body)", "body in upper case", needsLowerBody)

	type source struct {
		rarity, cost int
		part         paymentsvc.CanonicalFunc
		expr, desc   string
		needs        []string
	}
	for _, of := range []source{
		{uncommon, 0, canonical.Body, "canonical.Body", "body", nil},
		{rare, 2, canonical.BodyCompact, "canonical.BodyCompact", "body without white space", []string{needsSpace}},
		{rare, 2, canonical.BodySorted, "canonical.BodySorted", "body with sorted fields", []string{needsOrder, needsSpace}},
		{rare, 3, canonical.Join("", canonical.Timestamp, canonical.Body), `canonical.Join("", canonical.Timestamp, canonical.Body)`, "the timestamp and body", nil},
	} {
		for _, d := range []struct {
			name, desc string
			digest     func(paymentsvc.Encoding, paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
			rarity     int
		}{{"SHA256", "SHA-256", canonical.SHA256, common}, {"MD5", "MD5", canonical.MD5, common}, {"SHA512", "SHA-512", canonical.SHA512, uncommon}, {"SHA1", "SHA-1", canonical.SHA1, rare}} {
			for i, e := range []spelling{
				{paymentsvc.Hex, "paymentsvc.Hex", "hexadecimal"},
				{base64.StdEncoding, "base64.StdEncoding", "base64"},
				{canonical.Raw, "canonical.Raw", "32 bytes as they are"},
				{paymentsvc.HexUpper, "paymentsvc.HexUpper", "upper-case hexadecimal"},
				{base64.RawURLEncoding, "base64.RawURLEncoding", "base64 of the URL alphabet without padding"},
			} {
				if i > 3 && d.name != "SHA256" {
					continue
				}
				rarity := max(of.rarity, d.rarity)
				if i > 3 {
					rarity = rare
				}
				desc := fmt.Sprintf("%s of the %s in %s", d.desc, of.desc, e.desc)
				if e.encoding == canonical.Raw {
					desc = fmt.Sprintf("bytes of the %s of the %s", d.desc, of.desc)
				}
				body(hashed, rarity, 3+of.cost+i, d.digest(e.encoding, of.part), fmt.Sprintf("canonical.%s(%s, %s)", d.name, e.expr, of.expr), desc, of.needs...)
			}
		}
	}
}

// addJSON adds the ways to write the JSON of the body anew.
func (c *catalogue) addJSON() {
	c.add(piece{kind: ofBody, shape: shape{form: jsonObject}, rarity: common, cost: 3, part: canonical.BodyCompact, expr: "canonical.BodyCompact", desc: "body without white space", needs: []string{needsSpace}})
	c.add(piece{kind: ofBody, shape: shape{form: jsonObject}, rarity: common, cost: 3, part: canonical.BodySorted, expr: "canonical.BodySorted", desc: "body with sorted fields", needs: []string{needsSpace, needsOrder}})
	type option struct {
		field, desc, need string
		set               func(*canonical.JSONForm)
	}
	options := []option{
		{"Sort", "sorted", needsOrder, func(f *canonical.JSONForm) { f.Sort = true }},
		{"Spaces", "with spaces", needsSpace, func(f *canonical.JSONForm) { f.Spaces = true }},
		{"EscapeSlash", "with escaped slashes", needsSlash, func(f *canonical.JSONForm) { f.EscapeSlash = true }},
		{"EscapeUnicode", "with everything but ASCII escaped", needsUnicode, func(f *canonical.JSONForm) { f.EscapeUnicode = true }},
		{"EscapeHTML", "with <, > and & escaped", needsHTML, func(f *canonical.JSONForm) { f.EscapeHTML = true }},
		{"ShortNumbers", "with numbers read as float64", needsZero, func(f *canonical.JSONForm) { f.ShortNumbers = true }},
	}
	for chosen := range 1 << len(options) {
		var form canonical.JSONForm
		var fields, words []string
		needs := []string{needsSpace}
		for i, o := range options {
			if chosen>>i&1 == 0 {
				continue
			}
			o.set(&form)
			fields = append(fields, o.field+": true")
			words = append(words, o.desc)
			needs = append(needs, o.need)
		}
		rarity := uncommon
		if len(fields) > 3 {
			rarity = rare
		}
		s := shape{form: jsonObject}
		if form.ShortNumbers {
			s.loses = losesDigits
		}
		c.add(piece{
			kind: ofBody, shape: s, rarity: rarity, cost: 4 + len(fields), needs: needs, part: canonical.BodyJSON(form),
			expr: fmt.Sprintf("canonical.BodyJSON(canonical.JSONForm{%s})", strings.Join(fields, ", ")),
			desc: strings.TrimSuffix("body's JSON written anew, "+strings.Join(words, ", "), ", "),
		})
	}
}
