package discover

import (
	"cmp"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc/canonical"
)

// undecided lists what the samples leave open in the best match, and what would decide it.
func (f *finder) undecided(best *composition, whole []*composition, result *Result) {
	classes, probes := f.sameTexts(), f.probes()
	for i, p := range best.pieces {
		u := Undecided{Chosen: p.expr()}
		for _, other := range f.alternatives(best, i, classes, probes) {
			needs := "different values in the two"
			if len(other.needs) > 0 {
				needs = strings.Join(other.needs[:min(len(other.needs), 3)], ", or ") // any of them decides
			}
			u.Others = append(u.Others, Alternative{other.expr(), "a sample with " + needs})
		}
		if len(u.Others) > 0 {
			result.Undecided = append(result.Undecided, u)
		}
	}
	f.undecidedWhole(best, whole, result)
	if encodings := f.samples[0].encodings; len(encodings) > 1 {
		_, chosen := encodings[0].parts()
		u := Undecided{Chosen: chosen}
		for _, e := range encodings[1:] {
			_, other := e.parts()
			u.Others = append(u.Others, Alternative{other, "a sample whose signature shows the difference, as most do"})
		}
		result.Undecided = append(result.Undecided, u)
	}
}

// neighbours returns what differs from a list of fields, or from JSON written anew, in one respect, and makes the same
// texts.
func (c *catalogue) neighbours(p *piece) (same []*piece) {
	c.spent = 0 // what is open must be named, whatever the search left out
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

// listsBeside returns the lists that differ in one respect.
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
	for n := range canonical.NumbersMinor + 1 {
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

// formsBeside returns the forms of JSON that differ in one respect.
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
	for n := range canonical.NumbersMinor + 1 {
		change(func(f *canonical.JSONForm) { f.Numbers = n })
	}
	return others
}

// undecidedWhole lists other compositions of the same text that differ in more than single pieces.
func (f *finder) undecidedWhole(best *composition, whole []*composition, result *Result) {
	const most = 3
	u := Undecided{Chosen: best.expr()}
	for _, c := range whole {
		if len(u.Others) < most && !sameShape(best, c) {
			u.Others = append(u.Others, Alternative{c.expr(), "a sample with other values in its fields, or with more fields"})
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

// alternative is a piece that can replace the chosen one, and what tells it from that.
type alternative struct {
	*piece
	needs []string
}

// alternatives returns the pieces that can replace the one at a place, the simplest first, without those of which each
// need is one of a simpler piece. It ignores white space and escapes in the body, which most messages do not have.
func (f *finder) alternatives(c *composition, at int, classes map[string][]*piece, probes []probe) (list []alternative) {
	chosen := c.pieces[at]
	named := map[kind][]string{}
	for _, p := range append(slices.Clone(classes[chosen.id()]), f.catalogue.neighbours(chosen)...) {
		if p == chosen || p.text == chosen.text || c.has(p.group, at) {
			continue
		}
		needs := differences(chosen, p, probes)
		known, some := named[p.kind]
		fresh := slices.ContainsFunc(withoutSeldom(needs), func(need string) bool { return !slices.Contains(known, need) })
		if fresh || !some && (len(needs) > 0 || p.group != chosen.group) {
			named[p.kind] = append(known, withoutSeldom(needs)...)
			list = append(list, alternative{p, needs})
		}
	}
	return list
}

func withoutSeldom(needs []string) []string {
	return slices.DeleteFunc(slices.Clone(needs), func(need string) bool { return need == needsSpace || need == needsEscapes })
}
