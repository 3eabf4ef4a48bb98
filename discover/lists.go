package discover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc/canonical"
)

// addLists adds the ways to write all fields of the body.
func (c *catalogue) addLists() {
	names, ok := c.topLevelNames()
	if !ok {
		return
	}
	for i, between := range []string{"&", "|", "", ":", ";", ",", "\n", ".", " ", "-", "_", "/", "+", "{np}", "~", "#", "*", "::", "||", ", "} {
		if i >= 6 && c.large() {
			break
		}
		for _, pair := range []struct {
			names  bool
			equals string
		}{{false, ""}, {true, "="}, {true, ":"}, {true, ""}} {
			base := canonical.FieldList{Names: pair.names, Equals: pair.equals, Between: between}
			base.Unseparated = !pair.names && between == ""
			c.addList(base)
			c.addOrders(base)
			if c.large() || len(names) > fieldsTried {
				continue
			}
			for _, name := range names {
				omit := base
				omit.Omit = []string{name}
				c.addList(omit)
			}
		}
	}
}

// addOrders adds l in both orders, with every treatment of nested fields.
func (c *catalogue) addOrders(base canonical.FieldList) {
	paths := []string{""}
	if base.Names {
		paths = []string{".", "[]", "_", ":", "/", ""}
	}
	for _, asSent := range []bool{false, true} {
		for _, omitEmpty := range []bool{false, true} {
			l := base
			l.AsSent, l.OmitEmpty = asSent, omitEmpty
			if asSent || omitEmpty {
				c.addList(l)
			}
			l.Nested = canonical.NestedOmitted
			c.addList(l)
			l.Nested = canonical.NestedFlat
			for _, path := range paths {
				l.Path = path
				c.addList(l)
				if base.Equals == "=" && base.Between == "&" {
					escaped := l
					escaped.Escape = true
					c.addList(escaped)
				}
			}
		}
	}
}

func (c *catalogue) addList(l canonical.FieldList) {
	var fields, needs []string
	cost, desc := 4, "values of all fields of the body"
	set := func(text string, extra int, need string) {
		fields = append(fields, text)
		cost += extra
		if need != "" {
			needs = append(needs, need)
		}
	}
	if l.Names {
		set("Names: true", 0, "")
		desc = fmt.Sprintf("all fields of the body as name%svalue", l.Equals)
	}
	if l.Equals != "" {
		set(fmt.Sprintf("Equals: %q", l.Equals), 0, "")
	}
	if l.Between != "" {
		set(fmt.Sprintf("Between: %q", l.Between), 0, "")
		desc += fmt.Sprintf(", %q between", l.Between)
	} else if l.Unseparated {
		set("Unseparated: true", 0, "")
		desc += ", run together"
	}
	if l.AsSent {
		set("AsSent: true", 1, needsOrder)
		desc += ", in the order of the body"
	} else {
		desc += ", sorted by name"
	}
	switch l.Nested {
	case canonical.NestedJSON:
	case canonical.NestedOmitted:
		set("Nested: canonical.NestedOmitted", 2, needsNested)
		desc += ", no nested ones"
	case canonical.NestedFlat:
		set("Nested: canonical.NestedFlat", 2, needsNested)
		desc += ", nested ones level by level"
		if l.Path != "" {
			set(fmt.Sprintf("Path: %q", l.Path), 1, "")
		}
	}
	if l.OmitEmpty {
		set("OmitEmpty: true", 2, needsEmpty)
		desc += ", no empty ones"
	}
	if l.Escape {
		set("Escape: true", 2, needsFormEscape)
		desc += ", escaped as in a form"
	}
	if len(l.Omit) > 0 {
		set(fmt.Sprintf("Omit: []string{%q}", l.Omit[0]), 4, "")
		desc += fmt.Sprintf(", without %q", l.Omit[0])
	}
	c.add(piece{
		kind: ofBody, shelf: lists, shape: listShape(l), cost: cost, needs: needs, part: canonical.Fields(l), desc: desc,
		expr: fmt.Sprintf("canonical.Fields(canonical.FieldList{%s})", strings.Join(fields, ", ")),
	})
}

// large reports whether the bodies are too large to write them in a thousand ways.
func (c *catalogue) large() bool {
	return slices.ContainsFunc(c.samples, func(s *sample) bool { return len(s.message.Body) > 4<<10 })
}
