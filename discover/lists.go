package discover

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc/canonical"
)

// addLists adds lists of all fields of the body, of all fields but one, of all fields and added fields, and of the
// fields of the first three inner objects. Large bodies get only lists of all fields.
func (c *catalogue) addLists() {
	if len(c.names) == 0 {
		return
	}
	for i, between := range []string{
		"&", "|", "", ":", ";", ",", "\n", ".", " ", "-", "_", "/", "+", "{np}", "~", "#", "*", "::", "||", ", ",
		"{up}", "@", "\r\n", "%", "$", "^", "!",
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
				for _, name := range c.objects[:min(len(c.objects), 3)] {
					c.addListOf(name, base)
				}
			}
			if c.large() || len(c.names) > fieldsTried {
				continue
			}
			base.AsSent = false
			for _, name := range c.names {
				omit := base
				omit.Omit = []string{name}
				c.addOther(c.listPiece(omit, frame{}, rare), nil)
			}
		}
	}
}

// addList adds a list with each treatment of nested fields and of values that changes a text; see addValues. place
// is 0 for the most common separator.
func (c *catalogue) addList(l canonical.FieldList, place int) {
	rarity := common
	if place > 2 && l.Names || place > 5 || l.Names && l.Equals != "=" && l.Equals != ":" {
		rarity = uncommon
	}
	base := c.addOther(c.listPiece(l, frame{}, rarity), nil)
	c.addValues(l, rarity, base)
	l.Nested = canonical.NestedOmitted
	if omitted := c.addOther(c.listPiece(l, frame{}, rarity), base); omitted != base {
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
		if flat := c.addOther(c.listPiece(l, frame{}, max(rarity, uncommon)), base); flat != base {
			c.addValues(l, max(rarity, uncommon), flat)
		}
	}
}

// addValues adds a list with other forms of its values, except for large bodies. base is the piece of the list.
func (c *catalogue) addValues(l canonical.FieldList, rarity int, base *piece) {
	if c.large() {
		return
	}
	escapings := []canonical.Escaping{canonical.EscapingNone}
	if l.Equals == "=" && l.Between == "&" {
		for e := canonical.EscapingForm; e.String() != ""; e++ {
			escapings = append(escapings, e)
		}
	}
	for _, l.Escaping = range escapings {
		l.Constants, l.OmitEmpty, l.OmitNull, l.Numbers = 0, false, false, 0
		escaped := base
		if l.Escaping != 0 {
			escaped = c.addOther(c.listPiece(l, frame{}, max(rarity, uncommon)), base)
		}
		for _, v := range valuesTogether {
			l.Constants, l.OmitEmpty, l.OmitNull = v.constants, v.omit == "empty", v.omit == "null"
			l.Numbers = canonical.NumbersAsSent
			simpler := escaped
			if v.constants != 0 || v.omit != "" {
				if simpler = c.addOther(c.listPiece(l, frame{}, max(rarity, uncommon)), escaped); simpler == escaped {
					continue
				}
			}
			last := v.numbers
			if !slices.Contains([]string{"&", "|", "", ":", ";", ","}, l.Between) {
				last = min(last, canonical.NumbersPython)
			}
			for l.Numbers = canonical.NumbersShort; l.Numbers <= last; l.Numbers++ {
				c.addOther(c.listPiece(l, frame{}, rare), simpler)
			}
		}
	}
}

// values is a treatment of null, booleans, empty texts and numbers, as one program writes them.
type values struct {
	constants canonical.Constants
	omit      string               // "empty", "null" or ""
	numbers   canonical.NumberForm // the last form to try
}

var valuesTogether = []values{
	{0, "", canonical.NumbersPadded},
	{0, "empty", canonical.NumbersPython},
	{0, "null", canonical.NumbersShort},
	{canonical.ConstantsPHP, "", canonical.NumbersShort},
	{canonical.ConstantsPHP, "empty", canonical.NumbersShort},
	{canonical.ConstantsDigits, "null", canonical.NumbersShort},
	{canonical.ConstantsDigits, "", canonical.NumbersShort},
	{canonical.ConstantsPython, "", canonical.NumbersPython},
	{canonical.ConstantsNoNull, "", canonical.NumbersShort},
}

// listPiece returns the piece of a list without its text form; see describeList.
func (c *catalogue) listPiece(l canonical.FieldList, around frame, rarity int) piece {
	return piece{
		kind: ofBody, shelf: lists, rarity: rarity, shape: listShape(&l), list: &l, part: canonical.Fields(l), cost: 4,
	}.in(around)
}

// describeList sets the text form and the description of a list. Each uncommon option adds to its cost.
func (p *piece) describeList() {
	l := p.list
	words := []string{"values of all fields of the body"}
	if l.Names {
		words[0] = fmt.Sprintf("all fields of the body as name%svalue", l.Equals)
	}
	add := func(set bool, cost int, text, value string) {
		if set {
			p.cost += cost
			words = append(words, text+value)
		}
	}
	add(l.Between != "", 0, strconv.Quote(l.Between), " between")
	add(l.Unseparated, 0, "without separators", "")
	add(l.AsSent, 1, "in the order of the body", "")
	add(!l.AsSent, 0, "sorted by name", "")
	add(l.Nested == canonical.NestedOmitted, 2, "without nested fields", "")
	add(l.Nested == canonical.NestedFlat, 2, "nested fields level by level", "")
	add(l.Path != "", 1, "their names joined by ", l.Path)
	add(l.OmitEmpty, 2, "without empty fields", "")
	add(l.OmitNull, 3, "without null", "")
	add(l.Escaping != 0, 2+int(l.Escaping), "escaped: ", l.Escaping.String())
	add(l.Numbers != 0, 2+int(l.Numbers), "numbers: ", l.Numbers.String())
	add(l.Constants != 0, 2+int(l.Constants), "", l.Constants.String())
	if len(l.Omit) > 0 {
		add(true, 4, "without ", strconv.Quote(l.Omit[0]))
		p.needs = []string{fmt.Sprintf("another value of %q", l.Omit[0])}
	}
	p.text, p.desc = l.String(), strings.Join(words, ", ")
}

// addDigests adds digests of the likely lists and forms of JSON, except for large bodies.
func (c *catalogue) addDigests() {
	if c.large() {
		return
	}
	for _, p := range slices.Clone(c.pieces) {
		likely := p.rarity == common
		if p.list != nil && p.list.Names {
			likely = p.list.Equals+p.list.Between == "=&" && p.list.Constants == 0 &&
				(p.rarity == common || p.list.Path == "[]" && p.list.Numbers <= canonical.NumbersShort)
		}
		if p.json != nil {
			likely = p.rarity == uncommon && p.json.Numbers <= canonical.NumbersPython
		}
		if p.list == nil && p.json == nil || p.around.part != nil || !likely {
			continue
		}
		for i, name := range []string{"md5", "sha256", "sha1", "sha512"} {
			for j, encoding := range []string{"hex", "HEX", "base64"} {
				d := *p
				d.shelf, d.rarity, d.cost = digests, min(uncommon, i/2+j), p.cost+4+i+j
				d.shape = shape{form: digest, list: p.shape.list, loses: p.shape.loses}
				d.around = digestOf(name, encoding)
				d.text, d.part = d.around.of(p.text), d.around.part(p.part)
				d.desc = fmt.Sprintf("%s in %s of %s", strings.ToUpper(name), encoding, p.desc)
				c.add(d)
			}
		}
	}
}

// large reports whether a body is too large for thousands of forms.
func (c *catalogue) large() bool {
	return slices.ContainsFunc(c.samples, func(s *sample) bool { return len(s.message.Body) > 4<<10 })
}

// addListsWith adds lists with one or two added fields.
func (c *catalogue) addListsWith(base canonical.FieldList) {
	usual := base.Equals+base.Between == "=&" || base.Equals+base.Between == ""
	for _, of := range fieldsToAdd {
		for i, name := range of.names {
			if i >= maxNamesInFull && (!usual || c.large()) {
				break
			}
			around := c.addedField("with", name, of.text)
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
			alone := c.addedField("with", name, caller)
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
	for _, name := range []string{"timestamp", "ts", "nonce", "timeStamp", "time"} {
		list = append(list, c.around(c.addedField("with", name, "timestamp"), inner))
	}
	for _, name := range []string{"timestamp", "nonce"} {
		list = append(list, c.around(c.addedField("with", name, "timestamp-ms"), inner))
	}
	return list
}

// maxNamesInFull limits the names of an added field for which the catalogue tries all forms of the other fields.
const maxNamesInFull = 5

// callerNames are names of an API key or of a caller's id among the fields.
var callerNames = []string{
	"apiKey", "api_key", "accesskey", "accessKey", "key", "access_key", "app_id", "appid",
}

// callers returns the text forms of identifying headers and of Options.Words, at most four.
func (c *catalogue) callers() (texts []string) {
	for _, p := range c.pieces {
		if isIdentity(p.traits()) && (p.kind == ofHeader || p.kind == ofWord) {
			texts = append(texts, p.text)
		}
	}
	return texts[:min(len(texts), 4)]
}

// addNestedWith adds the forms of nested fields, numbers and escapes of a list with an added field.
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

var fieldsToAdd = []added{
	{"timestamp", []string{"timestamp", "ts", "time", "t", "Timestamp", "nonce", "timeStamp", "tonce", "expires"}},
	{"timestamp-ms", []string{"timestamp", "nonce", "timeStamp", "tonce", "ts"}},
	{"secret", []string{"secret", "key", "password", "Password", "secret_key"}},
	{`date("2006-01-02T15:04:05")`, []string{"Timestamp"}},
	{`date("2006-01-02T15:04:05Z")`, []string{"timestamp", "Timestamp"}},
	{`date("2006-01-02 15:04:05")`, []string{"timestamp"}},
}
