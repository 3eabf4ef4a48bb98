package discover

import (
	"fmt"
	"strings"
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
	c.add(piece{kind: ofBody, shape: object, cost: 3, text: "body-compact", desc: "body without white space", needs: []string{needsSpace}})
	c.add(piece{kind: ofBody, shape: object, cost: 3, text: "body-sorted", desc: "body with sorted fields", needs: []string{needsSpace, needsOrder}})
	options := []struct{ text, desc, need string }{
		{"sorted", "sorted", needsOrder},
		{"spaces", "with spaces", needsSpace},
		{"escape-slash", "with escaped slashes", needsSlash},
		{"escape-unicode", "with everything but ASCII escaped", needsUnicode},
		{"escape-html", "with <, > and & escaped", needsHTML},
		{"short-numbers", "with numbers read as float64", needsZero},
	}
	for chosen := range 1 << len(options) {
		var names []string
		desc := "body's JSON written anew"
		p := piece{kind: ofBody, shape: object, rarity: uncommon, text: "json", needs: []string{needsSpace}}
		for i, o := range options {
			if chosen>>i&1 == 0 {
				continue
			}
			names = append(names, o.text)
			desc += ", " + o.desc
			p.needs = append(p.needs, o.need)
			if o.need == needsZero {
				p.shape.loses = losesDigits
			}
		}
		if len(names) > 0 {
			p.text = fmt.Sprintf("json(%s)", strings.Join(names, ", "))
		}
		if len(names) > 3 {
			p.rarity = rare
		}
		p.cost, p.desc = 4+len(names), desc
		c.add(p)
	}
}
