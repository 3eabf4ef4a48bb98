package discover

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// undecided lists what the samples leave open in the best match, and what would decide it.
func (f *finder) undecided(best *composition, whole []*composition, result *Result) {
	classes := f.sameTexts()
	for i, p := range best.pieces {
		u := Undecided{Chosen: p.expr()}
		same := append(slices.Clone(classes[p.id()]), f.catalogue.neighbours(p)...)
		for _, other := range alternatives(best, i, same) {
			u.Others = append(u.Others, Alternative{other.expr(), "a sample with " + needsToTell(p, other)})
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

// needsToTell describes a sample in which two pieces differ: what only one of them depends on.
func needsToTell(a, b *piece) string {
	var needs []string
	for _, need := range slices.Concat(a.needs, b.needs) {
		if slices.Contains(a.needs, need) != slices.Contains(b.needs, need) {
			needs = append(needs, need)
		}
	}
	if len(needs) == 0 {
		return "different values in the two"
	}
	return strings.Join(needs, ", or ")
}

// alternatives returns the pieces that can replace the one at a place: of each set of needs the simplest, without those
// that need all that another needs, and more.
func alternatives(c *composition, at int, same []*piece) (list []*piece) {
	chosen := c.pieces[at]
	for _, p := range same { // the simplest first
		if p == chosen || p.text == chosen.text || c.has(p.group, at) || p.kind == chosen.kind && equalNeeds(p, chosen) {
			continue
		}
		if !slices.ContainsFunc(list, func(simpler *piece) bool { return simpler.kind == p.kind && covers(simpler, p) }) {
			list = append(list, p)
		}
	}
	return list
}

// covers reports whether a sample that tells simpler from the chosen piece also tells p. It ignores white space in the
// body, which most messages do not have.
func covers(simpler, p *piece) bool {
	a, b := withoutSpace(simpler.needs), withoutSpace(p.needs)
	if len(a) == 0 {
		return len(b) == 0
	}
	return !slices.ContainsFunc(a, func(need string) bool { return !slices.Contains(b, need) })
}

func equalNeeds(a, b *piece) bool {
	return len(a.needs) == len(b.needs) && covers(a, b) && covers(b, a)
}

func withoutSpace(needs []string) []string {
	return slices.DeleteFunc(slices.Clone(needs), func(need string) bool { return need == needsSpace })
}

// hints says what to check if nothing was found, the likeliest first.
func (f *finder) hints(result *Result) (hints []string) {
	if len(result.Partial) > 0 {
		p := result.Partial[0]
		return []string{
			fmt.Sprintf("%s explains %s, and not the other samples: look at how those were captured, and with which project's secret they were signed",
				p.Expr, strings.Join(p.Samples, ", ")),
			"where requests and notifications are signed in different ways, search them apart and use canonical.ByKind",
		}
	}
	hints = append(hints, "the secret: is it the secret key of the very project that the sample is from, whole, and not rotated since?")
	for _, s := range f.samples {
		if len(bytes.TrimRight(s.message.Body, " \t\r\n")) < len(s.message.Body) {
			hints = append(hints, fmt.Sprintf("%s: its body ends in white space: did it, on the wire?", s.name))
		}
		if s.message.URL == nil || s.message.URL.Host == "" {
			hints = append(hints, fmt.Sprintf("%s: it has no host, so the host and the whole address were not tried", s.name))
		}
	}
	hints = append(hints,
		"the capture: body and headers byte for byte as they went over the wire, not formatted and not decoded, and the path as the service sees it, before any proxy",
		"another sample, with as short a body as there is: a get_balance request, for instance",
		"words that the text may hold and no sample does, such as the partner id, the project id or the name of an API key: Options.Words",
		"the service's own name for its way to sign: everything here is HMAC-SHA256, as section 5 of the interface document says",
		"more effort: Options.Effort 10 takes ten times as long and tries longer compositions",
	)
	if kinds(f.samples) > 1 {
		hints = append([]string{"requests and notifications may be signed in different ways: search them apart"}, hints...)
	}
	return hints
}

func kinds(samples []*sample) int {
	seen := map[paymentsvc.MessageKind]bool{}
	for _, s := range samples {
		seen[s.message.Kind] = true
	}
	return len(seen)
}
