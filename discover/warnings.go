package discover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc/canonical"
)

// Warnings of parts that lose information.
const (
	losesCase   = "the case of letters is not signed: order \"a\" can be accepted as order \"A\""
	losesDigits = "numbers are signed as float64: of a number with more than 16 digits the last ones can be changed"
)

const spaceUnsigned = "white space in the body is not signed, so it can be added; if the body was formatted anew " +
	"when it was captured, the service may sign its bytes: capture them"

// warnings has a sentence for each possible change of a recorded message under the same signature. fields are the
// fields of the messages. The structure of the composition is sufficient.
func (c *composition) warnings(fields []string) (list []string) {
	if cut := c.cutInTwoWays(); cut != "" {
		list = append(list, cut)
	}
	for _, p := range c.pieces {
		if p.shape.loses != "" {
			list = append(list, p.shape.loses)
		}
	}
	if c.wrap != nil && c.wrap.loses != "" && slices.ContainsFunc(c.pieces, (*piece).hasText) {
		list = append(list, c.wrap.loses)
	}
	return append(list, c.unsigned(fields)...)
}

// spaceWarning warns of unsigned white space in a sample. The capture may have added the white space.
func (f *finder) spaceWarning(c *composition) []string {
	spaced := func(s *sample) bool {
		compact, err := canonical.BodyCompact(nil, &s.message)
		return err == nil && len(compact) < len(s.message.Body)
	}
	if slices.ContainsFunc(c.pieces, (*piece).leavesSpace) && slices.ContainsFunc(f.samples, spaced) {
		return []string{spaceUnsigned}
	}
	return nil
}

// leavesSpace reports whether a piece is the body without its white space.
func (p *piece) leavesSpace() bool {
	if p.kind != ofBody || p.list != nil || !slices.Contains(p.needs, needsSpace) {
		return false
	}
	return strings.Contains(p.text, "json") || strings.Contains(p.text, "body-")
}

// cutInTwoWays describes an ambiguous text and the consequence, or returns "".
func (c *composition) cutInTwoWays() string {
	var ways []string
	values, touching := false, false // values: fields are among them; touching: two parts have no separator
	for _, open := range c.ambiguities() {
		names := make([]string, len(open))
		for i, r := range open {
			names[i] = r.name()
			values = values || r.kind == ofField || r.shape.list != nil
			touching = touching || i > 0 && r.before == ""
		}
		ways = append(ways, inWords(names)+" run into each other")
	}
	for _, p := range c.pieces {
		if p.shape.list == nil {
			continue
		}
		if how := listAmbiguity(p.shape.list); how != "" {
			ways = append(ways, how)
			values, touching = true, touching || p.shape.list.Between == ""
		}
	}
	if len(ways) == 0 {
		return ""
	}
	text := "the text can be cut in two ways: " + strings.Join(ways, ", and ")
	if !values {
		return text + ", so what is signed as the one can be read as the other"
	}
	text += ", so a recorded message can be accepted as another one"
	if touching {
		text += ", such as order \"1\" with status 2 as order \"12\""
	}
	return text
}

// name returns the name of a part in a warning, without its label.
func (r span) name() string {
	switch r.shelf {
	case lists:
		return "the fields of the body"
	case plain:
		return r.desc
	default:
		_, name, _ := strings.Cut(r.desc, " and ")
		return name
	}
}

// hasText reports whether the letter case of a piece matters.
func (p *piece) hasText() bool {
	switch p.shape.form {
	case jsonObject, encoded:
		return true
	case anyText:
		return p.kind == ofField || p.kind == ofHeader || p.shape.list != nil
	default:
		return false
	}
}

// unsigned lists the unsigned parts of a message.
func (c *composition) unsigned(fields []string) (list []string) {
	signed := map[string]bool{}
	whole, stamped := false, false
	for _, p := range c.pieces {
		stamped = stamped || p.kind == ofTimestamp || p.stamped
		switch {
		case p.around.inside != "":
			for _, name := range fields {
				signed[name] = signed[name] || strings.HasPrefix(name, p.around.inside+".")
			}
		case p.kind == ofField:
			signed[strings.Join(p.names, ".")] = true
		case p.shape.list != nil:
			for _, name := range fields {
				signed[name] = signed[name] || !slices.Contains(p.shape.list.Omit, name)
			}
			if p.shape.list.Nested == canonical.NestedOmitted {
				list = append(list, "objects and arrays of the body are not signed, so they can be changed")
			}
		case p.kind == ofBody:
			whole = true
		}
	}
	left := slices.DeleteFunc(slices.Clone(fields), func(name string) bool { return signed[name] })
	switch {
	case whole || len(left) == 0:
	case len(signed) == 0:
		list = append(list, "nothing of the body is signed, so it can be changed")
	default:
		list = append(list, fmt.Sprintf("fields that are not signed can be changed: %s", inWords(left)))
	}
	if !stamped {
		list = append(list, "the timestamp is not signed, so an old message can be sent as a new one")
	}
	return list
}

// inWords returns "a, b and c".
func inWords(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// fieldNames returns the names of the scalar fields in all samples, except names with the secret by mistake.
func (c *catalogue) fieldNames() (names []string) {
	for _, path := range c.paths {
		if name := strings.Join(path, "."); !c.showsSecret(name) {
			names = append(names, name)
		}
	}
	return names
}
