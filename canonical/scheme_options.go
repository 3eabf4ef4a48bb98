package canonical

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/paymentsvc/paymentsvc"
)

// choose reads the name of an option. It fails for a duplicate option and for a second option of the same group.
func choose[T any](p *parser, what string, options []option[T], seen map[string]string) option[T] {
	column := p.token.column
	for _, o := range options {
		if !p.take(o.text) {
			continue
		}
		switch seen[o.group] {
		case "":
		case o.text:
			p.fail(column, "%q appears twice", o.text)
		default:
			p.fail(column, "%q excludes %q", o.text, seen[o.group])
		}
		seen[o.group] = o.text
		return o
	}
	names := make([]string, len(options))
	for i, o := range options {
		names[i] = o.text
	}
	p.unknown("option of "+what, "want one of "+strings.Join(names, ", "), names)
	return option[T]{set: func(*T) {}}
}

// json reads the options of BodyJSON, if any.
func (p *parser) json() parsedPart {
	var form JSONForm
	seen := map[string]string{}
	for more := p.takeMark("("); more; {
		o := choose(p, "json", jsonOptions, seen)
		o.set(&form)
		if o.text == "indent" {
			text, _ := p.texts(1, false)
			form.Indent = strings.Join(text, "")
		}
		more = p.takeMark(",")
		if !more {
			p.mark(")", `"," or ")"`)
		}
	}
	_, code := form.forms()
	return parsedPart{
		part: BodyJSON(form),
		code: fmt.Sprintf("canonical.BodyJSON(canonical.JSONForm{%s})", strings.Join(code, ", ")), signs: true,
	}
}

// with reads the name, the value and the parts of With or WithNumber.
func (p *parser) with() parsedPart {
	function, code := With, "With"
	if p.before == "with-number" {
		function, code = WithNumber, "WithNumber"
	}
	p.mark("(", `"(" with a name`)
	name := p.literal("the name of the field")
	p.mark(",", `","`)
	p.enter()
	value := p.part()
	p.depth--
	p.mark(",", `","`)
	of := p.joined()
	return parsedPart{
		part: function(name, value.part, of.part),
		code: fmt.Sprintf("canonical.%s(%q, %s, %s)", code, name, value.code, of.code), signs: of.signs,
	}
}

func (p *parser) within() parsedPart {
	p.mark("(", `"(" with a name`)
	name := p.literal("the name of the field")
	p.mark(",", `","`)
	of := p.joined()
	return parsedPart{
		part: Within(name, of.part), code: fmt.Sprintf("canonical.Within(%q, %s)", name, of.code), signs: of.signs,
	}
}

func (p *parser) number() parsedPart { return formed(p, "Number", numberNames, Number) }

func (p *parser) escaped() parsedPart { return formed(p, "Escaped", escapingNames, Escaped) }

// formed parses the arguments of "number" or "escaped": the name of a form, and the parts to write in this form.
func formed[T comparable](
	p *parser, function string, names []named[T],
	part func(T, paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc,
) parsedPart {
	p.mark("(", `"(" with a form`)
	list := make([]string, len(names))
	var form named[T]
	for i, n := range names {
		list[i] = n.text
		if form.text == "" && p.take(n.text) {
			form = n
		}
	}
	if form.text == "" {
		p.unknown("form", "want one of "+strings.Join(list, ", "), list)
	}
	p.mark(",", `","`)
	of := p.joined()
	return parsedPart{
		part: part(form.value, of.part),
		code: fmt.Sprintf("canonical.%s(canonical.%s, %s)", function, form.code, of.code), signs: of.signs,
	}
}

// fields reads the options of Fields. One text separates values. Two texts separate name from value and pair from pair.
func (p *parser) fields() parsedPart {
	column := p.ended
	var l FieldList
	var texts []string
	seen := map[string]string{}
	p.mark("(", `"(" after fields`)
	for more := true; more; more = p.takeMark(",") {
		if p.token.kind == aText {
			if len(texts) == 2 {
				p.fail(p.token.column, "a third text: want at most two, after names and between fields")
			}
			texts = append(texts, p.literal("a text"))
			continue
		}
		o := choose(p, "fields", fieldOptions, seen)
		o.set(&l)
		switch {
		case o.text == "omit":
			l.Omit, _ = p.texts(1, true)
		case o.text == "flat" && p.token.kind == aMark && p.token.text == "(":
			path, _ := p.texts(1, false)
			l.Path = strings.Join(path, "")
		}
	}
	p.mark(")", `"," or ")"`)
	l.Names = len(texts) == 2
	if l.Names {
		l.Equals = texts[0]
	}
	if len(texts) > 0 {
		l.Between = texts[len(texts)-1]
	}
	switch {
	case !l.Names && l.Between == "" && !l.Unseparated:
		p.fail(column, `want a text between the fields, or "unseparated"`)
	case l.Unseparated && (l.Names || l.Between != ""):
		p.fail(column, `"unseparated" is for values without a text between them`)
	case l.Path != "" && !l.Names:
		p.fail(column, "flat(%q) is for fields with names", l.Path)
	}
	_, code := l.forms()
	return parsedPart{
		part: Fields(l), signs: true,
		code: fmt.Sprintf("canonical.Fields(canonical.FieldList{%s})", strings.Join(code, ", ")),
	}
}

// join returns a part that appends parts in order. The Go code has a Join with a separator if a text without letters
// and digits divides the parts into groups that the function separated accepts.
func join(list []parsedPart) parsedPart {
	if len(list) == 1 {
		return list[0]
	}
	parts := make([]paymentsvc.CanonicalFunc, len(list))
	whole := parsedPart{}
	for i, m := range list {
		parts[i] = m.part
		whole.signs = whole.signs || m.signs
	}
	whole.part = Join("", parts...)
	whole.code = joinCode(list)
	return whole
}

func joinCode(list []parsedPart) string {
	wordless := func(m parsedPart) bool {
		return m.isText && m.literal != "" && !strings.ContainsFunc(m.literal, func(r rune) bool {
			return unicode.IsLetter(r) || unicode.IsDigit(r)
		})
	}
	for _, m := range list {
		if !wordless(m) {
			continue
		}
		if codes := separated(list, m.literal); codes != nil {
			return fmt.Sprintf("canonical.Join(%q, %s)", m.literal, strings.Join(codes, ", "))
		}
	}
	if code, ok := labelled(list); ok {
		return code
	}
	codes := make([]string, len(list))
	for i, m := range list {
		codes[i] = m.code
	}
	return fmt.Sprintf("canonical.Join(\"\", %s)", strings.Join(codes, ", "))
}

// separated returns the code of each group of parts between separators. It returns nil if fewer than two groups have
// parts, or if a group has a text after its first part.
func separated(list []parsedPart, separator string) (codes []string) {
	filled := 0
	for rest := list; ; {
		end := slices.IndexFunc(rest, func(m parsedPart) bool { return m.isText && m.literal == separator })
		group := rest
		if end >= 0 {
			group = rest[:end]
		}
		switch code, isLabelled := labelled(group); {
		case len(group) == 0:
			code = `canonical.Literal("")`
			codes = append(codes, code)
		case len(group) == 1:
			filled++
			codes = append(codes, group[0].code)
		case isLabelled:
			filled++
			codes = append(codes, code)
		case slices.ContainsFunc(group[1:], func(m parsedPart) bool { return m.isText }):
			return nil
		default:
			filled++
			codes = append(codes, joinCode(group))
		}
		if end < 0 {
			break
		}
		rest = rest[end+1:]
	}
	if filled < 2 {
		return nil
	}
	return codes
}

// labelled returns the code of a part after a label, such as "key=" and the secret, or false for other lists.
func labelled(list []parsedPart) (string, bool) {
	if len(list) != 2 || !list[0].isText || list[1].isText {
		return "", false
	}
	return fmt.Sprintf("canonical.Labelled(%q, %s)", list[0].literal, list[1].code), true
}
