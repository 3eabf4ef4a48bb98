package discover

import (
	"fmt"
	"slices"
	"strconv"
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
	var options, needs []string
	cost, desc := 4, "values of all fields of the body"
	set := func(option string, extra int, need, words string) {
		options = append(options, option)
		cost += extra
		desc += words
		if need != "" {
			needs = append(needs, need)
		}
	}
	if l.AsSent {
		set("as-sent", 1, needsOrder, "")
	} else {
		set("sorted", 0, "", "")
	}
	if l.Names {
		desc = fmt.Sprintf("all fields of the body as name%svalue", l.Equals)
		set(strconv.Quote(l.Equals), 0, "", "")
	}
	between := ""
	if l.Between != "" {
		between = fmt.Sprintf(", %q between", l.Between)
	}
	if l.Unseparated {
		set("unseparated", 0, "", ", run together")
	} else {
		set(strconv.Quote(l.Between), 0, "", between)
	}
	if l.AsSent {
		desc += ", in the order of the body"
	} else {
		desc += ", sorted by name"
	}
	switch {
	case l.Nested == canonical.NestedOmitted:
		set("omit-nested", 2, needsNested, ", no nested ones")
	case l.Nested == canonical.NestedFlat && l.Path != "":
		set(fmt.Sprintf("flat(%q)", l.Path), 3, needsNested, ", nested ones level by level")
	case l.Nested == canonical.NestedFlat:
		set("flat", 2, needsNested, ", nested ones level by level")
	}
	if l.OmitEmpty {
		set("omit-empty", 2, needsEmpty, ", no empty ones")
	}
	if l.Escape {
		set("escape", 2, needsFormEscape, ", escaped as in a form")
	}
	if len(l.Omit) > 0 {
		set(fmt.Sprintf("omit(%q)", l.Omit[0]), 4, "", fmt.Sprintf(", without %q", l.Omit[0]))
	}
	c.add(piece{
		kind: ofBody, shelf: lists, shape: listShape(l), cost: cost, needs: needs, desc: desc,
		text: fmt.Sprintf("fields(%s)", strings.Join(options, ", ")),
	})
}

// large reports whether the bodies are too large to write them in a thousand ways.
func (c *catalogue) large() bool {
	return slices.ContainsFunc(c.samples, func(s *sample) bool { return len(s.message.Body) > 4<<10 })
}
