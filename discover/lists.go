package discover

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// addLists adds the ways to write all fields of the body.
func (c *catalogue) addLists() {
	names, objects := c.topLevel()
	if len(names) == 0 {
		return
	}
	for i, between := range []string{
		"&", "|", "", ":", ";", ",", "\n", ".", " ", "-", "_", "/", "+", "{np}", "~", "#", "*", "::", "||", ", ", "{up}", "@", "\r\n", "%", "$", "^", "!",
	} {
		if i >= 6 && c.large() {
			break
		}
		for j, pair := range []struct {
			names  bool
			equals string
		}{{false, ""}, {true, "="}, {true, ":"}, {true, ""}, {true, ";"}, {true, ","}} {
			if j > 3 && pair.equals != between {
				continue
			}
			base := canonical.FieldList{Names: pair.names, Equals: pair.equals, Between: between}
			base.Unseparated = !pair.names && between == ""
			for _, asSent := range []bool{false, true} {
				base.AsSent = asSent
				c.addList(base, i)
				if i > 8 || c.large() {
					continue
				}
				if i < 6 && !asSent {
					c.addListsWith(base)
				}
				for _, name := range objects[:min(len(objects), 3)] {
					c.addOther(c.listPiece(base, within(name), uncommon), nil)
				}
			}
			if c.large() || len(names) > fieldsTried {
				continue
			}
			base.AsSent = false
			for _, name := range names {
				omit := base
				omit.Omit = []string{name}
				c.addOther(c.listPiece(omit, asIs(), rare), nil)
			}
		}
	}
}

// addListsWith adds a list with one more field among the others.
func (c *catalogue) addListsWith(base canonical.FieldList) {
	for _, of := range fieldsToAdd() {
		for _, name := range of.names {
			around := c.with("with", name, of.text)
			plain := c.addOther(c.listPiece(base, around, rare), nil)
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
				for _, l.Escaping = range []canonical.Escaping{canonical.EscapingForm, canonical.EscapingPercent, canonical.EscapingPHP} {
					escaped := c.addOther(c.listPiece(l, around, rare), simpler)
					l.Numbers, l.Constants = canonical.NumbersShort, canonical.ConstantsDigits
					c.addOther(c.listPiece(l, around, rare), escaped)
					l.Numbers, l.Constants = 0, 0
				}
			}
		}
	}
}

// added is a part that programs put among the fields of a body before they sign it, and the names that they give it.
type added struct {
	text  string
	names []string
}

func fieldsToAdd() []added {
	return []added{
		{"timestamp", []string{"timestamp", "ts", "time", "t", "Timestamp"}},
		{"timestamp-ms", []string{"timestamp"}},
		{"secret", []string{"secret", "key", "password", "Password", "secret_key"}},
		{`date("2006-01-02T15:04:05")`, []string{"Timestamp"}},
	}
}

// addList adds a list with every treatment of nested, empty and escaped fields that makes a difference. place says how
// usual its separator is, 0 for the most usual.
func (c *catalogue) addList(l canonical.FieldList, place int) {
	rarity := common
	if place > 2 && l.Names || place > 5 || l.Names && l.Equals != "=" && l.Equals != ":" {
		rarity = uncommon
	}
	base := c.addOther(c.listPiece(l, asIs(), rarity), nil)
	c.addValues(l, rarity, base)
	l.Nested = canonical.NestedOmitted
	if omitted := c.addOther(c.listPiece(l, asIs(), rarity), base); omitted != base {
		c.addValues(l, rarity, omitted)
	}
	paths := []string{""}
	switch {
	case l.Names && place < 6:
		paths = []string{".", "[]", "_", ":", "/", ""}
	case l.Names:
		paths = []string{"[]", "."}
	}
	l.Nested = canonical.NestedFlat
	for _, l.Path = range paths {
		if flat := c.addOther(c.listPiece(l, asIs(), max(rarity, uncommon)), base); flat != base {
			c.addValues(l, max(rarity, uncommon), flat)
		}
	}
}

// addValues adds the ways to write the values of a list.
func (c *catalogue) addValues(l canonical.FieldList, rarity int, base *piece) {
	if c.large() {
		return
	}
	escapings := []canonical.Escaping{canonical.EscapingNone}
	if l.Equals == "=" && l.Between == "&" {
		escapings = []canonical.Escaping{canonical.EscapingNone, canonical.EscapingForm, canonical.EscapingPercent, canonical.EscapingPHP, canonical.EscapingJS, canonical.EscapingJava}
	}
	for _, l.Escaping = range escapings {
		l.Constants, l.OmitEmpty, l.OmitNull, l.Numbers = 0, false, false, 0
		escaped := base
		if l.Escaping != 0 {
			escaped = c.addOther(c.listPiece(l, asIs(), max(rarity, uncommon)), base)
		}
		for _, v := range valuesTogether() {
			l.Constants, l.OmitEmpty, l.OmitNull, l.Numbers = v.constants, v.omit == "empty", v.omit == "null", 0
			simpler := escaped
			if v.constants != 0 || v.omit != "" {
				if simpler = c.addOther(c.listPiece(l, asIs(), max(rarity, uncommon)), escaped); simpler == escaped {
					continue
				}
			}
			if !slices.Contains([]string{"&", "|", "", ":", ";", ","}, l.Between) {
				continue
			}
			for l.Numbers = canonical.NumbersShort; l.Numbers <= v.numbers; l.Numbers++ {
				c.addOther(c.listPiece(l, asIs(), rare), simpler)
			}
		}
	}
}

// values are ways to write the values of a list that programs use together.
type values struct {
	constants canonical.Constants
	omit      string
	numbers   canonical.NumberForm // the last one
}

func valuesTogether() []values {
	return []values{
		{0, "", canonical.NumbersMinor}, {0, "empty", canonical.NumbersPython}, {0, "null", canonical.NumbersShort},
		{canonical.ConstantsPHP, "", canonical.NumbersShort}, {canonical.ConstantsPHP, "empty", canonical.NumbersShort},
		{canonical.ConstantsDigits, "null", canonical.NumbersShort}, {canonical.ConstantsDigits, "", canonical.NumbersShort},
		{canonical.ConstantsPython, "", canonical.NumbersPython}, {canonical.ConstantsNoNull, "", canonical.NumbersShort},
	}
}

// listPiece describes a list.
func (c *catalogue) listPiece(l canonical.FieldList, around frame, rarity int) piece {
	var options []string
	cost, desc := 4, "values of all fields of the body"
	set := func(option string, extra int, words string) {
		options = append(options, option)
		cost += extra
		desc += words
	}
	if l.AsSent {
		set("as-sent", 1, "")
	} else {
		set("sorted", 0, "")
	}
	if l.Names {
		desc = fmt.Sprintf("all fields of the body as name%svalue", l.Equals)
		set(strconv.Quote(l.Equals), 0, "")
	}
	between := ""
	if l.Between != "" {
		between = fmt.Sprintf(", %q between", l.Between)
	}
	if l.Unseparated {
		set("unseparated", 0, ", run together")
	} else {
		set(strconv.Quote(l.Between), 0, between)
	}
	if l.AsSent {
		desc += ", in the order of the body"
	} else {
		desc += ", sorted by name"
	}
	switch {
	case l.Nested == canonical.NestedOmitted:
		set("omit-nested", 2, ", no nested ones")
	case l.Nested == canonical.NestedFlat && l.Path != "":
		set(fmt.Sprintf("flat(%q)", l.Path), 3, ", nested ones level by level")
	case l.Nested == canonical.NestedFlat:
		set("flat", 2, ", nested ones level by level")
	}
	listValues(l, set)
	p := piece{
		kind: ofBody, shelf: lists, rarity: rarity, shape: listShape(l), list: &l, around: around, cost: cost, desc: desc,
		text: fmt.Sprintf("fields(%s)", strings.Join(options, ", ")), part: canonical.Fields(l),
	}
	if len(l.Omit) > 0 {
		p.needs = []string{fmt.Sprintf("another value of %q", l.Omit[0])}
	}
	return p.in(around)
}

// listValues sets how the values of a list are written.
func listValues(l canonical.FieldList, set func(option string, extra int, words string)) {
	if l.OmitEmpty {
		set("omit-empty", 2, ", no empty ones")
	}
	if l.OmitNull {
		set("omit-null", 3, ", none that are null")
	}
	if l.Escaping != 0 {
		name := []string{"", "escape", "escape-percent", "escape-php", "escape-js", "escape-java"}[l.Escaping]
		set(name, 2+int(l.Escaping), ", "+strings.Replace(name, "escape", "escaped", 1))
	}
	if l.Numbers != 0 {
		name := []string{"", "short", "python", "java", "two-place", "minor"}[l.Numbers]
		set(name+"-numbers", 2+int(l.Numbers), ", numbers "+name)
	}
	if l.Constants != 0 {
		name := []string{"", "php-constants", "digit-constants", "python-constants", "no-null"}[l.Constants]
		set(name, 2+int(l.Constants), ", "+name)
	}
	if len(l.Omit) > 0 {
		set(fmt.Sprintf("omit(%q)", l.Omit[0]), 4, fmt.Sprintf(", without %q", l.Omit[0]))
	}
}

// frame is what is around a list or JSON, with %s for it.
type frame struct {
	text   string
	part   func(paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
	inside string // the field that holds the only object that is signed
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

// with returns the frame that adds a field, by with or with-number.
func (c *catalogue) with(function, name, value string) frame {
	scheme, _, err := canonical.ParseSchemeWith(schemeText("hex", value, canonical.SecretText, false), c.secret)
	if err != nil {
		c.err = err
	}
	return frame{text: fmt.Sprintf("%s(%q, %s, %%s)", function, name, value), part: func(p paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc {
		if function == "with" {
			return canonical.With(name, scheme.Canonical, p)
		}
		return canonical.WithNumber(name, scheme.Canonical, p)
	}}
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

// addDigests adds digests of the lists and of the JSON that programs write.
func (c *catalogue) addDigests() {
	if c.large() {
		return
	}
	around := map[string]frame{}
	for _, w := range wrappings() {
		around[w.text] = frame{text: w.text, part: w.part}
	}
	for _, p := range slices.Clone(c.pieces) {
		likely := p.rarity == common
		if p.list != nil && p.list.Names {
			likely = p.list.Equals+p.list.Between == "=&" && p.list.Constants == 0 && (p.rarity == common || p.list.Path == "[]" && p.list.Numbers <= canonical.NumbersShort)
		}
		if p.json != nil {
			likely = p.rarity == uncommon && p.json.Numbers <= canonical.NumbersPython
		}
		if p.list == nil && p.json == nil || p.around.text != "%s" || !likely {
			continue
		}
		for i, name := range []string{"md5", "sha256", "sha1", "sha512"} {
			for j, encoding := range []string{"hex", "HEX", "base64"} {
				d := *p
				d.shelf, d.rarity, d.shape, d.around = digests, min(uncommon, i/2+j), shape{form: digest, list: p.shape.list, loses: p.shape.loses}, around[fmt.Sprintf("%s(%s(%%s))", encoding, name)]
				d.cost, d.text, d.part = p.cost+4+i+j, fmt.Sprintf(d.around.text, p.text), d.around.part(p.part)
				d.desc = fmt.Sprintf("%s in %s of %s", strings.ToUpper(name), encoding, p.desc)
				c.add(d)
			}
		}
	}
}

// large reports whether the bodies are too large to write them in a thousand ways.
func (c *catalogue) large() bool {
	return slices.ContainsFunc(c.samples, func(s *sample) bool { return len(s.message.Body) > 4<<10 })
}
