package discover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc/canonical"
)

// Warnings about parts that lose information.
const (
	losesCase   = "the case of letters is not signed: order \"a\" can be accepted as order \"A\""
	losesDigits = "numbers are signed as float64: the last digits of a number with more than 16 digits can be changed"
)

const spaceUnsigned = "white space in the body is not signed, so an attacker can add it; if the capture formatted " +
	"the body, the service may sign the original bytes: capture the original bytes"

// warnings returns a sentence for each change of a message that its signature allows, except changes of method,
// address, headers and white space. fields are the fields of the messages. The result depends only on fields and the
// structure of the composition.
func (c *composition) warnings(fields []string) (list []string) {
	if ambiguity := c.ambiguity(); ambiguity != "" {
		list = append(list, ambiguity)
	}
	for _, p := range c.pieces {
		if p.shape.loses != "" {
			list = append(list, p.shape.loses)
		}
	}
	if c.wrap != nil && c.wrap.loses != "" && slices.ContainsFunc(c.pieces, (*piece).caseMatters) {
		list = append(list, c.wrap.loses)
	}
	return append(list, c.unsigned(fields)...)
}

// spaceWarning warns about unsigned white space in a sample, because the capture may have added the white space.
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

// leavesSpace reports whether a piece signs the body without its white space.
func (p *piece) leavesSpace() bool {
	if p.kind != ofBody || p.list != nil || !slices.Contains(p.needs, needsSpace) {
		return false
	}
	return strings.Contains(p.text, "json") || strings.Contains(p.text, "body-")
}

// ambiguity describes the ambiguous parts of the text and the consequence, or returns "".
func (c *composition) ambiguity() string {
	var ways []string
	hasFields, touching := false, false // touching: two parts have no separator
	for _, open := range c.ambiguities() {
		names := make([]string, len(open))
		for i, r := range open {
			names[i] = r.name()
			hasFields = hasFields || r.kind == ofField || r.shape.list != nil
			touching = touching || i > 0 && r.before == ""
		}
		ways = append(ways, inWords(names)+" are not clearly separated")
	}
	for _, p := range c.pieces {
		if p.shape.list == nil {
			continue
		}
		if how := listAmbiguity(p.shape.list); how != "" {
			ways = append(ways, how)
			hasFields, touching = true, touching || p.shape.list.Between == ""
		}
	}
	if len(ways) == 0 {
		return ""
	}
	text := "the canonical string is ambiguous: " + strings.Join(ways, ", and ")
	if !hasFields {
		return text + ", so the end of one part can be read as the start of the next part"
	}
	text += ", so a recorded signature can fit another message"
	if touching {
		text += ", such as order \"12\" instead of order \"1\" with status 2"
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

// caseMatters reports whether a change of the letter case can change the meaning of a piece.
func (p *piece) caseMatters() bool {
	switch p.shape.form {
	case jsonObject, encoded:
		return true
	case anyText:
		return p.kind == ofField || p.kind == ofHeader || p.shape.list != nil
	default:
		return false
	}
}

// unsigned warns about an unsigned body, unsigned fields and an unsigned timestamp, but not about method and address.
func (c *composition) unsigned(fields []string) (list []string) {
	signed := map[string]bool{}
	whole, stamped := false, false
	for _, p := range c.pieces {
		stamped = stamped || p.kind == ofTimestamp || p.hasTimestamp
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
		list = append(list, "the body is not signed, so it can be changed")
	default:
		list = append(list, fmt.Sprintf("unsigned fields can be changed: %s", inWords(left)))
	}
	if !stamped {
		list = append(list, "the timestamp is not signed, so an old message can be replayed with a new timestamp")
	}
	return list
}

// inWords returns "a, b and c". names must not be empty.
func inWords(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// fieldNames returns the dotted paths of scalar fields in any sample, except paths that reveal the secret; see leaves.
func (c *catalogue) fieldNames() (names []string) {
	for _, path := range c.paths {
		if name := strings.Join(path, "."); !c.showsSecret(name) {
			names = append(names, name)
		}
	}
	return names
}

// shape describes the texts that a piece can have in the messages that a receiver accepts.
type shape struct {
	form  form
	label string               // fixed text at the start
	has   func(c byte) bool    // reports the possible bytes after label; nil for every byte
	loses string               // warning about information of the body that the text lacks
	list  *canonical.FieldList // options of a list of all fields
}

type form int

const (
	anyText    form = iota
	fixedText       // the same for every message
	number          // not empty; shape.has is true for its first and last byte
	jsonObject      // apart from white space, an object is never the start or the end of another object
	encoded         // an object in hexadecimal or base64
	digest          // an attacker cannot make a text with the same digest
)

func timestampShape() shape { return shape{form: number, has: isDigit} }

// fieldShape returns the shape of a field. Parse accepts only numbers as status, status_code and amount.
func fieldShape(path []string) shape {
	switch strings.Join(path, "\x00") {
	case "status", "status_code", "amount": // integers may be written as 1.0 and 1e0 too
		return shape{form: number, has: func(c byte) bool { return isDigit(c) || strings.IndexByte("+-.eE", c) >= 0 }}
	}
	return shape{}
}

func listShape(l *canonical.FieldList) shape {
	s := shape{list: l}
	if l.Escaping != canonical.EscapingNone {
		s.has = func(c byte) bool { return isEscaped(c) || strings.IndexByte(l.Equals+l.Between, c) >= 0 }
	}
	return s
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetterOrDigit(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' }

// isFormText reports whether url.QueryEscape writes c.
func isFormText(c byte) bool { return isLetterOrDigit(c) || strings.IndexByte("-_.~+%", c) >= 0 }

// isEscaped reports whether an escaped text can contain c.
func isEscaped(c byte) bool { return isFormText(c) || strings.IndexByte("!*'()", c) >= 0 }

// isPathByte reports whether an escaped path can contain c.
func isPathByte(c byte) bool {
	return isLetterOrDigit(c) || strings.IndexByte("-_.~$&+,/:;=@!'()*[]%", c) >= 0
}

// isTargetByte reports whether the target of an HTTP request, or its host, can contain c.
func isTargetByte(c byte) bool { return c > ' ' && c != 0x7f }

// isHeaderByte reports whether the value of a header can contain c.
func isHeaderByte(c byte) bool { return c >= ' ' && c != 0x7f || c == '\t' }

// isObjectEdge reports whether a body can begin or end with c.
func isObjectEdge(c byte) bool { return strings.IndexByte("{} \t\r\n", c) >= 0 }

// span is a piece with a variable text, and the fixed text before it.
type span struct {
	*piece
	before string
	known  bool // another part signs the whole body, which determines this text
}

// runs returns the pieces with variable texts.
func (c *composition) runs() (runs []span) {
	before := c.lead
	for i, p := range c.pieces {
		if i > 0 {
			before += c.gaps[i-1]
		}
		if p.shape.form == fixedText {
			before += p.texts[0]
			continue
		}
		runs = append(runs, span{piece: p, before: before + p.shape.label})
		before = ""
	}
	return runs
}

// ambiguities returns the lists of pieces with unclear borders, or nil if the text has a single reading.
func (c *composition) ambiguities() [][]span {
	runs := c.runs()
	open := openRuns(runs)
	isBody := func(r span) bool { return r.kind == ofBody && r.shape.ownEnds() && r.shape.loses == "" }
	if len(open) == 0 || !slices.ContainsFunc(runs, isBody) || slices.ContainsFunc(slices.Concat(open...), isBody) {
		return open
	}
	for i := range runs { // the body determines the values of its fields
		runs[i].known = runs[i].kind == ofField
	}
	return openRuns(runs)
}

// openRuns returns the lists of spans with unclear borders. It removes spans from the start while the text shows their
// ends, and from the end while the text shows their starts.
func openRuns(rest []span) (open [][]span) {
	for len(rest) > 0 {
		end := slices.IndexFunc(rest, func(r span) bool { return r.shape.form == digest })
		part := rest
		if end >= 0 {
			part, rest = rest[:end], rest[end+1:] // an attacker cannot move a digest, so its two sides are independent
		} else {
			rest = nil
		}
		for len(part) > 1 && part[0].isApart(part[1].before, part[1]) {
			part = part[1:]
		}
		for last := len(part) - 1; last > 0 && part[last].isApart(part[last].before, part[last-1]); last-- {
			part = part[:last]
		}
		if len(part) > 1 {
			open = append(open, part)
		}
	}
	return open
}

// isApart reports whether the text shows the border between r and a neighbour, if the other end of r is known. fixed
// is the text between the two.
func (r span) isApart(fixed string, neighbour span) bool {
	return r.known || r.shape.ownEnds() ||
		r.shape.has != nil && (hasOther(fixed, r.shape.has) || disjoint(r.shape.has, neighbour.shape.edge()))
}

// hasOther reports whether text has a byte outside a set.
func hasOther(text string, set func(c byte) bool) bool {
	for i := range len(text) {
		if !set(text[i]) {
			return true
		}
	}
	return false
}

func (s shape) ownEnds() bool { return s.form == jsonObject || s.form == encoded || s.form == digest }

// edge returns the possible first and last bytes of a text, or nil for an unknown set and for a text that can be empty.
func (s shape) edge() func(byte) bool {
	switch s.form {
	case jsonObject:
		return isObjectEdge
	case number:
		return s.has
	default:
		return nil
	}
}

func disjoint(a, b func(byte) bool) bool {
	if b == nil {
		return false
	}
	for c := range 256 {
		if a(byte(c)) && b(byte(c)) {
			return false
		}
	}
	return true
}

// listAmbiguity describes the ambiguity of a list of fields, or returns "". Only escaped names and values never
// contain the separators.
func listAmbiguity(l *canonical.FieldList) string {
	separates := func(text string) bool { return hasOther(text, isEscaped) }
	switch {
	case l.Between == "" && !l.Names:
		return "the values of the fields are not clearly separated"
	case l.Between == "":
		return "the names and values of the fields are not clearly separated"
	case !l.Names:
		return fmt.Sprintf("the names of the fields are not signed, and a value can contain %q", l.Between)
	case l.Escaping == canonical.EscapingNone, !separates(l.Between), !separates(l.Equals):
		return fmt.Sprintf("a value can contain %q", l.Between)
	case l.Nested == canonical.NestedFlat && slices.ContainsFunc(knownFields, func(name string) bool {
		return strings.Contains(name, l.Path)
	}):
		return fmt.Sprintf("a nested field is written like a field with %q in its name", l.Path)
	}
	return ""
}

// knownFields are the fields of a notification (section 6).
var knownFields = []string{
	"event", "order_id", "status", "status_description", "status_code", "amount", "user_data",
}
