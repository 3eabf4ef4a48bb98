package discover

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc/canonical"
)

// member is one field of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the fields of a JSON object in order. It reports false for other JSON and for invalid JSON. It
// accepts duplicates, but the parts of package canonical reject them in each object whose fields they read.
func members(object []byte) (list []member, ok bool) {
	if !json.Valid(object) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		var m member
		name, _ := d.Token() // the object is valid
		m.name, _ = name.(string)
		_ = d.Decode(&m.value)
		list = append(list, m)
	}
	return list, true
}

// readFields reads at most maxFields names of each body, and at most maxFields paths of all bodies together. addFields
// adds at most fieldsTried paths. With more than fieldsTried names, addLists skips the lists of all fields but one.
const (
	maxFields   = 1000
	fieldsTried = 24
)

// readFields reads names, objects and paths from all bodies.
func (c *catalogue) readFields() {
	seen := map[string]bool{}
	isNew := func(name string) bool {
		known := seen[name]
		seen[name] = true
		return !known
	}
	for _, s := range c.samples {
		list, _ := members(s.message.Body)
		for _, f := range list[:min(len(list), maxFields)] {
			if isNew("name " + f.name) {
				c.names = append(c.names, f.name)
			}
			if f.value[0] == '{' && isNew("object "+f.name) {
				c.objects = append(c.objects, f.name)
			}
		}
		for _, path := range leaves(nil, nil, list) {
			if len(c.paths) < maxFields && isNew("path "+strings.Join(path, "\x00")) {
				c.paths = append(c.paths, path)
			}
		}
	}
	slices.SortStableFunc(c.paths, func(a, b []string) int { return cmp.Compare(len(a), len(b)) })
}

func (c *catalogue) addFields() {
	for _, path := range c.paths[:min(len(c.paths), fieldsTried)] {
		c.addField(path)
	}
}

// addField adds a field. If some samples lack the field, it also adds the field with "" for these samples.
func (c *catalogue) addField(path []string) {
	rarity := common
	if len(path) > 1 {
		rarity = uncommon
	}
	last := path[len(path)-1]
	p := piece{
		kind: ofField, group: c.group("field " + strings.Join(path, "\x00")), rarity: rarity, shape: fieldShape(path),
		identity: strings.HasSuffix(last, "id") || strings.HasSuffix(last, "user_data"),
		names:    path, cost: 1 + len(path), desc: "field " + strings.Join(path, "."),
	}
	names := quoted(path)
	p.text = fmt.Sprintf("field(%s)", names)
	all := c.add(p)
	c.addNumbers(p)
	if all {
		return
	}
	p.text, p.cost = fmt.Sprintf(`field-or("", %s)`, names), p.cost+2
	p.desc += ", or an empty text if it is absent"
	c.add(p)
}

// addNumbers adds the other number forms of a field named "amount", and of a field with a decimal number in a sample.
func (c *catalogue) addNumbers(p piece) {
	plain := c.read(p)
	isAmount := p.names[len(p.names)-1] == "amount"
	isDecimal := func(text string) bool { return strings.ContainsAny(text, ".eE") }
	if plain == nil || !isAmount && !slices.ContainsFunc(plain.texts, isDecimal) {
		return
	}
	for form := canonical.NumbersShort; form < canonical.NumbersQuoted; form++ {
		other := p
		other.rarity, other.cost, other.needs = max(p.rarity, uncommon), p.cost+2+int(form), []string{needsWhole}
		other.part = nil
		other.text = fmt.Sprintf("number(%s, %s)", form, p.text)
		other.desc = fmt.Sprintf("%s, numbers %s", p.desc, form)
		c.addOther(other, plain)
	}
}

func quoted(texts []string) string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = strconv.Quote(text)
	}
	return strings.Join(list, ", ")
}

// leaves appends the paths of fields with a scalar value, at most three names deep.
func leaves(dst [][]string, above []string, list []member) [][]string {
	for _, f := range list {
		path := append(slices.Clone(above), f.name)
		switch f.value[0] {
		case '{':
			if inner, ok := members(f.value); ok && len(path) < 3 {
				dst = leaves(dst, path, inner)
			}
		case '[':
		default:
			dst = append(dst, path)
		}
	}
	return dst
}

// addListOf adds a list of an object's fields, with each treatment of null, booleans and "" that changes a text.
func (c *catalogue) addListOf(object string, l canonical.FieldList) {
	around := c.within(object)
	simplest := c.addOther(c.listPiece(l, around, uncommon), nil)
	for _, v := range valuesTogether {
		l.Constants, l.OmitEmpty, l.OmitNull = v.constants, v.omit == "empty", v.omit == "null"
		c.addOther(c.listPiece(l, around, uncommon), simplest)
	}
}
