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

// explain turns a hit into matches. The hit gives away the text that was signed; all compositions of this text are
// then found by reading it, without another hash.
func (f *finder) explain(h *hit, result *Result) {
	all := f.readings(h)
	slices.SortStableFunc(all, func(a, b *composition) int { return cmp.Compare(a.cost(), b.cost()) })

	whole := slices.DeleteFunc(slices.Clone(all), func(c *composition) bool { return len(f.explained(c, h)) < len(f.samples) })
	if len(whole) == 0 {
		f.partial(all, h, result)
		return
	}
	if best := f.matches(whole, h, result); best != nil {
		f.undecided(best, whole, result)
	}
}

// readings gives the compositions that make the text of the hit, for each text the simplest pieces only. The hit
// itself is one of them.
func (f *finder) readings(h *hit) []*composition {
	plainHit := h.composition
	plainHit.wrap = nil
	text, _ := plainHit.text(f.primary) // without a wrapping it cannot fail
	r := &reader{text: text, classes: f.classes(text)}
	r.alike()
	if !slices.ContainsFunc(r.found, func(c *composition) bool { return len(f.explained(f.wrapped(c, h), h)) == len(f.samples) }) {
		r.mixed()
	}
	list := []*composition{&h.composition}
	_, expr := h.composition.build()
	seen := map[string]bool{expr: true}
	for _, c := range r.found {
		c = f.wrapped(c, h)
		if _, expr := c.build(); !seen[expr] {
			seen[expr] = true
			list = append(list, c)
		}
	}
	return list
}

func (f *finder) wrapped(c *composition, h *hit) *composition {
	other := *c
	other.wrap = h.composition.wrap
	return &other
}

// explained gives the indexes of the samples that a composition explains.
func (f *finder) explained(c *composition, h *hit) (indexes []int) {
	for i, s := range f.samples {
		text, err := c.text(i)
		if err != nil {
			continue
		}
		f.check.wanted = nil
		for _, e := range s.encodings {
			f.check.wanted = append(f.check.wanted, e.sum)
		}
		buf := append([]byte(text), make([]byte, paddingSpace)...)
		if f.check.matches(&h.key, h.key.inner, 0, buf, len(text)) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// class is pieces of one group that make the same text of every sample, the simplest first.
type class struct {
	group  int
	text   string // of the sample that is read
	pieces []*piece
}

// classes gives the classes whose text occurs in text.
func (f *finder) classes(text string) []*class {
	var list []*class
	known := map[string]*class{}
	for _, p := range f.catalogue.pieces {
		if !strings.Contains(text, p.texts[f.primary]) || p.texts[f.primary] == "" && p.kind != ofNothing {
			continue
		}
		id := fmt.Sprint(p.group, p.id())
		c := known[id]
		if c == nil {
			c = &class{group: p.group, text: p.texts[f.primary]}
			known[id] = c
			list = append(list, c)
		}
		c.pieces = append(c.pieces, p)
	}
	for _, c := range list {
		slices.SortStableFunc(c.pieces, func(a, b *piece) int { return cmp.Compare(a.cost, b.cost) })
	}
	return list
}

// reader finds the compositions of a text.
type reader struct {
	text    string
	classes []*class
	found   []*composition
	steps   int // of this reading
	total   int // of all readings

	edge   edge
	trail  string
	gaps   []string
	pieces []*piece
	used   map[int]bool
	chosen []string // the gaps so far
}

// Bounds on reading: a text of many short fields has more compositions than anybody wants to see.
const (
	mostSteps    = 300_000
	mostTotal    = 3_000_000
	mostReadings = 500
	mostPieces   = 9
)

// alike reads with the same separator between all pieces.
func (r *reader) alike() {
	for _, gap := range separators(allSeparators) {
		for _, e := range (behind | around | newline).edges(gap) {
			for _, trail := range e.trails {
				r.read([]string{gap}, e.lead, trail)
			}
		}
	}
}

// mixed reads with a separator of its own in every gap.
func (r *reader) mixed() {
	for _, trail := range []string{"", "\n"} {
		r.read(separators(mixedSeparators), "", trail)
	}
}

func (r *reader) read(gaps []string, lead, trail string) {
	if len(r.text) < len(lead)+len(trail) || !strings.HasPrefix(r.text, lead) || !strings.HasSuffix(r.text, trail) {
		return
	}
	r.gaps, r.edge.lead, r.trail = gaps, lead, trail
	r.used = map[int]bool{}
	r.steps = 0
	r.from(r.text[len(lead) : len(r.text)-len(trail)])
}

// from reads the rest of the text.
func (r *reader) from(rest string) {
	for _, c := range r.classes {
		r.steps++
		r.total++
		if r.steps > mostSteps || r.total > mostTotal || len(r.found) >= mostReadings {
			return
		}
		if r.used[c.group] || !strings.HasPrefix(rest, c.text) || c.text == "" && !r.showsNothing() {
			continue
		}
		r.pieces = append(r.pieces, c.pieces[0])
		r.used[c.group] = true
		r.behind(rest[len(c.text):])
		r.used[c.group] = false
		r.pieces = r.pieces[:len(r.pieces)-1]
	}
}

// showsNothing says whether nothing as a piece leaves a trace: a separator more.
func (r *reader) showsNothing() bool { return len(r.gaps) == 1 && r.gaps[0] != "" }

// behind reads what stands behind a piece: nothing, or a gap and further pieces.
func (r *reader) behind(rest string) {
	if rest == "" {
		r.take()
	}
	if len(r.pieces) == mostPieces {
		return
	}
	for _, gap := range r.gaps {
		after, ok := strings.CutPrefix(rest, gap)
		if !ok || gap == "" && rest == "" {
			continue
		}
		r.chosen = append(r.chosen, gap)
		r.from(after)
		r.chosen = r.chosen[:len(r.chosen)-1]
	}
}

func (r *reader) take() {
	if len(r.pieces) == 1 && len(r.gaps) == 1 && r.gaps[0] != "" && r.edge.lead == "" && r.trail == "" {
		return // the same as with nothing for a separator
	}
	r.found = append(r.found, &composition{
		pieces: slices.Clone(r.pieces),
		gaps:   slices.Clone(r.chosen),
		lead:   r.edge.lead,
		trail:  r.trail,
	})
}

// matches makes matches of compositions that explain all samples, and of those that differ from them in pieces
// which make the same texts. Each that is listed signs all samples again. It gives the simplest of them, nil for
// none.
func (f *finder) matches(whole []*composition, h *hit, result *Result) (best *composition) {
	list := slices.Clone(whole)
	classes := f.sameTexts()
	for _, c := range whole {
		list = f.variants(list, c, 0, classes)
	}
	slices.SortStableFunc(list, func(a, b *composition) int { return cmp.Compare(a.cost(), b.cost()) })
	seen := map[string]bool{}
	for _, c := range list {
		_, expr := c.build()
		if seen[expr] {
			continue
		}
		seen[expr] = true
		for _, e := range f.samples[0].encodings {
			if len(result.Matches) == f.options.MaxMatches {
				result.More++
				continue
			}
			m := f.match(c, h, e.spelling)
			if len(m.Samples) < len(f.samples) {
				continue
			}
			if best == nil {
				best = c
			}
			result.Matches = append(result.Matches, m)
		}
	}
	return best
}

// mostVariants bounds what matches looks at. Bodies that are plain text can be written anew in dozens of ways.
const mostVariants = 10_000

// variants appends the compositions that have other pieces with the same texts from a place on.
func (f *finder) variants(list []*composition, c *composition, from int, classes map[string][]*piece) []*composition {
	for at := from; at < len(c.pieces); at++ {
		for _, p := range classes[c.pieces[at].id()] {
			if p == c.pieces[at] || c.has(p.group, at) || len(list) >= mostVariants {
				continue
			}
			other := c.with(at, p)
			list = f.variants(append(list, other), other, at+1, classes)
		}
	}
	return list
}

// alternatives gives, of pieces that make the same texts, those that can stand for the one at a place: for each
// set of needs the simplest, and none that needs all that another one needs and more.
func alternatives(c *composition, at int, same []*piece) (list []*piece) {
	chosen := c.pieces[at]
	for _, p := range same { // the simplest first
		if p == chosen || p.expr == chosen.expr || c.has(p.group, at) || p.kind == chosen.kind && equalNeeds(p, chosen) {
			continue
		}
		if !slices.ContainsFunc(list, func(simpler *piece) bool { return simpler.kind == p.kind && covers(simpler, p) }) {
			list = append(list, p)
		}
	}
	return list
}

// covers says whether a sample that tells simpler from the chosen piece tells p too. White space in the body is
// left out of account: most messages have none, so it must not hide the rest.
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

// id is the texts that a piece makes of all samples.
func (p *piece) id() string {
	if p.key == "" {
		p.key = fmt.Sprintf("%q", p.texts)
	}
	return p.key
}

// has says whether a piece other than the one at a place is of this group.
func (c *composition) has(group, except int) bool {
	for i, p := range c.pieces {
		if i != except && p.group == group {
			return true
		}
	}
	return false
}

// sameTexts gives the pieces by the texts that they make of all samples, the simplest first.
func (f *finder) sameTexts() map[string][]*piece {
	same := map[string][]*piece{}
	for _, p := range f.catalogue.pieces {
		same[p.id()] = append(same[p.id()], p)
	}
	for _, list := range same {
		slices.SortStableFunc(list, func(a, b *piece) int { return cmp.Compare(a.cost, b.cost) })
	}
	return same
}

// match makes a match, and finds out with its Scheme which samples it explains.
func (f *finder) match(c *composition, h *hit, s spelling) Match {
	part, expr := c.build()
	m := Match{
		Scheme:      paymentsvc.Scheme{Canonical: part, Encoding: s.encoding},
		Secret:      h.key.secret,
		SecretForm:  h.key.form,
		SecretExpr:  "secret",
		Expr:        fmt.Sprintf("paymentsvc.Scheme{\n\tCanonical: %s,\n\tEncoding:  %s,\n}", expr, s.expr),
		Description: fmt.Sprintf("HMAC-SHA256, keyed with the secret as %s, of %s; written in %s", h.key.form, c.describe(), s.desc),
	}
	if h.key.form != canonical.SecretText {
		m.SecretExpr = fmt.Sprintf("canonical.%s.Read(secret)", formName(h.key.form))
	}
	for name, path := range map[string]string{
		"base64.":     "encoding/base64",
		"paymentsvc.": "github.com/paymentsvc/paymentsvc",
		"canonical.":  "github.com/paymentsvc/paymentsvc/canonical",
	} {
		if strings.Contains(m.Expr+m.SecretExpr, name) {
			m.Imports = append(m.Imports, path)
		}
	}
	slices.Sort(m.Imports)
	for _, sample := range f.samples {
		signature, err := m.Scheme.Signature(m.Secret, &sample.message)
		if err == nil && signature == sample.signature {
			m.Samples = append(m.Samples, sample.name)
		}
	}
	return m
}

// partial keeps the compositions that explain the most samples.
func (f *finder) partial(all []*composition, h *hit, result *Result) {
	most := 0
	for _, c := range all {
		most = max(most, len(f.explained(c, h)))
	}
	for _, c := range all {
		if len(f.explained(c, h)) < most || len(result.Partial) == 3 {
			continue
		}
		for _, e := range f.samples[f.primary].encodings {
			if m := f.match(c, h, e.spelling); len(m.Samples) == most {
				result.Partial = append(result.Partial, m)
				break
			}
		}
	}
}

// undecided says what the samples leave open in the best match, and what would decide it.
func (f *finder) undecided(best *composition, whole []*composition, result *Result) {
	classes := f.sameTexts()
	for i, p := range best.pieces {
		u := Undecided{Chosen: p.expr}
		for _, other := range alternatives(best, i, classes[p.id()]) {
			u.Others = append(u.Others, Alternative{other.expr, "a sample with " + needsToTell(p, other)})
		}
		if len(u.Others) > 0 {
			result.Undecided = append(result.Undecided, u)
		}
	}
	f.undecidedWhole(best, whole, result)
	if encodings := f.samples[0].encodings; len(encodings) > 1 {
		u := Undecided{Chosen: encodings[0].expr}
		for _, e := range encodings[1:] {
			u.Others = append(u.Others, Alternative{e.expr, "a sample whose signature shows the difference, as most do"})
		}
		result.Undecided = append(result.Undecided, u)
	}
}

// undecidedWhole names other compositions of the same text, where it is not single pieces that differ.
func (f *finder) undecidedWhole(best *composition, whole []*composition, result *Result) {
	const most = 3
	_, expr := best.build()
	u := Undecided{Chosen: expr}
	for _, c := range whole {
		if _, other := c.build(); len(u.Others) < most && !sameShape(best, c) {
			u.Others = append(u.Others, Alternative{other, "a sample with other values in its fields, or with more fields"})
		}
	}
	if len(u.Others) > 0 {
		result.Undecided = append(result.Undecided, u)
	}
}

// sameShape says whether two compositions have the same texts at the same places.
func sameShape(a, b *composition) bool {
	return slices.EqualFunc(a.pieces, b.pieces, func(p, q *piece) bool { return p.id() == q.id() }) &&
		slices.Equal(a.gaps, b.gaps) && a.lead == b.lead && a.trail == b.trail
}

// needsToTell says what a sample needs for two pieces to differ: what only one of them depends on.
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

// hints says what to look at when nothing was found, the likeliest first.
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

// formName returns the Go name of a form, below package canonical.
func formName(f canonical.SecretForm) string {
	return [...]string{
		canonical.SecretText:       "SecretText",
		canonical.SecretHex:        "SecretHex",
		canonical.SecretBase64:     "SecretBase64",
		canonical.SecretBase64Tail: "SecretBase64Tail",
		canonical.SecretSHA256:     "SecretSHA256",
		canonical.SecretSHA256Hex:  "SecretSHA256Hex",
	}[f]
}
