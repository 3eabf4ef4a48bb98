package discover

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// undecided adds to result the alternatives of the best match, and the samples that decide between them.
func (f *finder) undecided(best *composition, whole []*composition, result *Result) {
	classes, probes := f.sameTexts(), f.probes()
	for i, p := range best.pieces {
		u := Undecided{Chosen: p.expr()}
		for _, other := range f.alternatives(best, i, classes, probes) {
			needs := "different values in the two parts"
			if len(other.needs) > 0 {
				needs = strings.Join(other.needs[:min(len(other.needs), 3)], ", or ") // each need decides
			}
			u.Others = append(u.Others, Alternative{other.expr(), "a sample with " + needs})
		}
		if len(u.Others) > 0 {
			result.Undecided = append(result.Undecided, u)
		}
	}
	f.undecidedWhole(best, whole, result)
	if encodings := f.samples[0].encodings; len(encodings) > 1 {
		u := Undecided{Chosen: encodings[0].expr()}
		for _, e := range encodings[1:] {
			u.Others = append(u.Others, Alternative{e.expr(), "another sample: most signatures show the difference"})
		}
		result.Undecided = append(result.Undecided, u)
	}
}

// neighbours returns the lists or forms of JSON that differ from p in one option and have the same texts.
func (c *catalogue) neighbours(p *piece) (same []*piece) {
	c.spent = 0 // alternatives are reported even if the search had no time for them
	keep := func(other piece) {
		other.shelf, other.shape = p.shelf, p.shape
		if made := c.read(other); made != nil && made.id() == p.id() && made.text != p.text {
			same = append(same, made)
		}
	}
	if p.list != nil {
		for _, l := range listsBeside(*p.list) {
			keep(c.listPiece(l, p.around, p.rarity))
		}
	}
	if p.json != nil {
		for _, form := range formsBeside(*p.json) {
			keep(c.jsonPiece(form, p.around))
		}
	}
	slices.SortStableFunc(same, func(a, b *piece) int { return cmp.Compare(a.cost, b.cost) })
	return same
}

// listsBeside returns the lists with one different option, except Names, separators, Omit and NumbersQuoted. A list
// with another Nested has no Path, and only lists with Names get another Escaping. The result includes the list itself.
func listsBeside(list canonical.FieldList) (others []canonical.FieldList) {
	change := func(set func(*canonical.FieldList)) {
		other := list
		set(&other)
		others = append(others, other)
	}
	change(func(l *canonical.FieldList) { l.AsSent = !l.AsSent })
	change(func(l *canonical.FieldList) { l.OmitEmpty = !l.OmitEmpty })
	change(func(l *canonical.FieldList) { l.OmitNull = !l.OmitNull })
	for n := range canonical.NestedFlat + 1 {
		change(func(l *canonical.FieldList) { l.Nested, l.Path = n, "" })
	}
	for n := range canonical.NumbersQuoted {
		change(func(l *canonical.FieldList) { l.Numbers = n })
	}
	for n := range canonical.ConstantsNoNull + 1 {
		change(func(l *canonical.FieldList) { l.Constants = n })
	}
	for n := range canonical.EscapingJava + 1 {
		if list.Names {
			change(func(l *canonical.FieldList) { l.Escaping = n })
		}
	}
	return others
}

// formsBeside returns the forms of JSON with one different option, except white space and NumbersQuoted. The result
// includes the form itself, unless its numbers are quoted.
func formsBeside(form canonical.JSONForm) (others []canonical.JSONForm) {
	change := func(set func(*canonical.JSONForm)) {
		other := form
		set(&other)
		others = append(others, other)
	}
	change(func(f *canonical.JSONForm) { f.Sort = !f.Sort })
	change(func(f *canonical.JSONForm) { f.EscapeSlash = !f.EscapeSlash })
	change(func(f *canonical.JSONForm) { f.EscapeUnicode = !f.EscapeUnicode })
	change(func(f *canonical.JSONForm) { f.EscapeHTML = !f.EscapeHTML })
	change(func(f *canonical.JSONForm) { f.EscapeGson = !f.EscapeGson })
	for n := range canonical.NumbersQuoted {
		change(func(f *canonical.JSONForm) { f.Numbers = n })
	}
	return others
}

// undecidedWhole adds up to three alternatives to the best composition that divide the same text differently.
func (f *finder) undecidedWhole(best *composition, whole []*composition, result *Result) {
	const most = 3
	u := Undecided{Chosen: best.expr()}
	for _, c := range whole {
		if len(u.Others) < most && !sameShape(best, c) {
			u.Others = append(
				u.Others, Alternative{c.expr(), "a sample with other values in its fields, or with more fields"},
			)
		}
	}
	if len(u.Others) > 0 {
		result.Undecided = append(result.Undecided, u)
	}
}

// sameShape reports whether two compositions have the same texts at the same places.
func sameShape(a, b *composition) bool {
	return slices.EqualFunc(a.pieces, b.pieces, func(p, q *piece) bool { return p.id() == q.id() }) &&
		slices.Equal(a.gaps, b.gaps) && a.lead == b.lead && a.trail == b.trail
}

// expr returns the Go expression of a piece alone.
func (p *piece) expr() string { return (&composition{pieces: []*piece{p}}).expr() }

// alternative is a possible replacement for the chosen piece, with the properties of a sample that decides.
type alternative struct {
	*piece
	needs []string
}

// alternatives returns the possible replacements of a piece, the simplest first. It skips a replacement if the needs of
// simpler replacements of its kind include all its needs. This comparison ignores needs for white space and escapes in
// the body, because few messages have them. alternatives also skips a replacement in the same group without needs.
func (f *finder) alternatives(
	c *composition, at int, classes map[string][]*piece, probes []probe,
) (list []alternative) {
	chosen := c.pieces[at]
	named := map[kind][]string{}
	for _, p := range append(slices.Clone(classes[chosen.id()]), f.catalogue.neighbours(chosen)...) {
		if p == chosen || p.text == chosen.text || c.has(p.group, at) {
			continue
		}
		needs := differences(chosen, p, probes)
		known, some := named[p.kind]
		fresh := slices.ContainsFunc(
			withoutRareNeeds(needs), func(need string) bool { return !slices.Contains(known, need) },
		)
		if fresh || !some && (len(needs) > 0 || p.group != chosen.group) {
			named[p.kind] = append(known, withoutRareNeeds(needs)...)
			list = append(list, alternative{p, needs})
		}
	}
	return list
}

func withoutRareNeeds(needs []string) []string {
	return slices.DeleteFunc(slices.Clone(needs), func(need string) bool {
		return need == needsSpace || need == needsEscapes
	})
}

// probe is the message of a sample with another body. need describes the difference.
type probe struct {
	need    string
	message *paymentsvc.Message
}

// probes returns messages that distinguish the forms of a body, the most useful first. A small example replaces a
// large body. The result is nil if a small body is not a JSON object.
func (f *finder) probes() (list []probe) {
	m := f.samples[f.primary].message
	body := m.Body
	if f.catalogue.large() {
		body = []byte(`{"amount":10.50}`)
	}
	if _, ok := members(body); !ok {
		return nil
	}
	for _, p := range []struct{ need, name, value string }{
		{needsOrder, "!", "1"}, {needsSlash, "zzz", `"a/b"`}, {needsUnicode, "zzz", `"é"`},
		{needsWhole, "amount", "100.00"}, {needsZero, "amount", "10.50"}, {needsHTML, "zzz", `"<&>"`},
		{"an amount with one decimal place such as 10.5", "amount", "10.5"},
		{"an amount without decimal places such as 100", "amount", "100"},
		{needsNested, "zzz", `{"b":"c","a":"d"}`}, {"null in the body", "zzz", "null"},
		{"an empty text in the body", "zzz", `""`}, {"true in the body", "zzz", "true"},
		{"false in the body", "zzz", "false"}, {"a space in a text of the body", "zzz", `"a b"`},
		{"a = or ' in a text of the body", "zzz", `"='"`}, {"a list inside the body", "zzz", `["a","b"]`},
		{"a ~ in a text of the body", "zzz", `"~"`}, {"a * in a text of the body", "zzz", `"*"`},
		{"one of !'() in a text of the body", "zzz", `"!()"`}, {needsUpperBody, "zzz", `"A"`},
		{needsLowerBody, "zzz", `"a"`}, {needsEscapes, "zzz", `"\/\u00e9"`}, {needsSpace, "zzz", "1"},
		{"a large amount such as 12000000.00", "amount", "12000000.00"},
		{"an amount with an exponent", "amount", "1e-5"}, {"an amount with an exponent", "amount", "1e+15"},
		{"an amount with an exponent", "amount", "1e20"},
	} {
		other := m
		other.Body = withField(body, p.name, p.value, p.need != needsOrder)
		if p.need == needsSpace {
			other.Body = append([]byte("{ "), other.Body[1:]...)
		}
		list = append(list, probe{p.need, &other})
	}
	return list
}

// withField sets a field in the object and in each object inside it, but not in arrays. If sorted is true, a new field
// comes before the first larger name, so the order of the fields does not distinguish two forms.
func withField(object []byte, name, value string, sorted bool) []byte {
	list, _ := members(object)
	at := slices.IndexFunc(list, func(f member) bool { return f.name == name })
	if at < 0 {
		at = len(list)
		if larger := slices.IndexFunc(list, func(f member) bool { return f.name > name }); sorted && larger >= 0 {
			at = larger
		}
		list = slices.Insert(list, at, member{name: name})
	}
	out := []byte{'{'}
	for i, f := range list {
		if i > 0 {
			out = append(out, ',')
		}
		quoted, _ := json.Marshal(f.name)
		out = append(append(out, quoted...), ':')
		switch {
		case i == at:
			out = append(out, value...)
		case f.value[0] == '{':
			out = append(out, withField(f.value, name, value, sorted)...)
		default:
			out = append(out, f.value...)
		}
	}
	return append(out, '}')
}

// differences returns the needs of the probes for which the two pieces have different texts. Without such probes it
// returns the needs that only one of the two pieces has.
func differences(a, b *piece, probes []probe) (needs []string) {
	for _, p := range probes {
		if slices.Contains(needs, p.need) || !a.kind.ofBody() || !b.kind.ofBody() {
			continue
		}
		text, err := a.part(nil, p.message)
		other, otherErr := b.part(nil, p.message)
		if string(text) != string(other) || (err == nil) != (otherErr == nil) {
			needs = append(needs, p.need)
		}
	}
	if len(needs) > 0 {
		return needs
	}
	for _, need := range slices.Concat(a.needs, b.needs) {
		if slices.Contains(a.needs, need) != slices.Contains(b.needs, need) {
			needs = append(needs, need)
		}
	}
	return needs
}
