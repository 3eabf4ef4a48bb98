package discover

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"

	"github.com/paymentsvc/paymentsvc/canonical"
)

// explain adds the matches, or partial matches, of a hit to result. The hit reveals the signed text; see readings.
func (f *finder) explain(h *hit, result *Result) {
	wrap := f.unwrap(h)
	whole, some := f.readings(h)
	if len(whole) == 0 {
		f.partial(some, h, result)
		return
	}
	if best := f.matches(whole, h, result); best != nil {
		result.Partial = nil
		f.undecided(best, whole, result)
		if wrap != nil {
			other := *best
			other.wrap = wrap
			needs := "a sample with letters in both cases, and with characters to escape"
			result.Undecided = append(result.Undecided, Undecided{best.expr(), []Alternative{{other.expr(), needs}}})
		}
	}
}

// unwrap removes and returns the wrapping of a hit if the wrapping changes no text of the samples, or returns nil.
func (f *finder) unwrap(h *hit) *frame {
	c := h.composition
	if c.wrap == nil {
		return nil
	}
	c.wrap = nil
	for i := range f.samples {
		wrapped, err := h.composition.text(i)
		bare, bareErr := c.text(i)
		if (err == nil) != (bareErr == nil) || wrapped != bare {
			return nil
		}
	}
	wrap := h.composition.wrap
	h.composition = c
	return wrap
}

// readings returns compositions of the hit's unwrapped text, including the hit. For equal texts it uses the simplest
// piece. The first list has the compositions that explain all samples. The second list has compositions that explain
// fewer.
func (f *finder) readings(h *hit) (whole, some []*composition) {
	plainHit := h.composition
	plainHit.wrap = nil
	text, _ := plainHit.text(f.primary) // cannot fail without a wrapping
	seen := map[string]bool{}
	keep := func(c *composition) (enough bool) {
		wrapped := *c
		wrapped.wrap = h.composition.wrap
		c = &wrapped
		id := c.id()
		if seen[id] {
			return false
		}
		seen[id] = true
		if len(f.explained(c, h)) == len(f.samples) {
			whole = append(whole, c)
		} else if len(some) < maxReadings {
			some = append(some, c)
		}
		return len(whole) >= maxReadings
	}
	r := &reader{text: text, classes: f.classes(text), keep: keep}
	r.siblings(h.composition, 0, f.primary)
	r.alike()
	if len(whole) == 0 {
		r.mixed()
	}
	byCost := func(a, b *composition) int { return cmp.Compare(a.cost(), b.cost()) }
	slices.SortStableFunc(whole, byCost)
	slices.SortStableFunc(some, byCost)
	return whole, some
}

// explained returns the indexes of the samples that a composition explains.
func (f *finder) explained(c *composition, h *hit) (indexes []int) {
	for i, s := range f.samples {
		text, err := c.text(i)
		if err != nil {
			continue
		}
		f.check.want(s.sums())
		if f.check.matches(&h.key, h.key.inner, []byte(text)) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// matches adds matches of the given compositions, and of their variants with other pieces of the same texts, if they
// reproduce every signature. Beyond MaxMatches it counts without this check. It returns the composition of the first
// match, which is the simplest, or nil.
func (f *finder) matches(whole []*composition, h *hit, result *Result) (best *composition) {
	list := slices.Clone(whole)
	classes := f.sameTexts()
	for _, c := range whole {
		list = f.variants(list, c, 0, classes)
	}
	slices.SortStableFunc(list, func(a, b *composition) int { return cmp.Compare(a.cost(), b.cost()) })
	seen := map[string]bool{}
	for _, c := range list {
		id := c.id()
		if seen[id] {
			continue
		}
		seen[id] = true
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

// maxVariants limits the compositions of matches, because a body of plain text has dozens of forms.
const maxVariants = 10_000

// variants appends the compositions in which other pieces with the same texts replace some of c.pieces[from:].
func (f *finder) variants(list []*composition, c *composition, from int, classes map[string][]*piece) []*composition {
	for at := from; at < len(c.pieces); at++ {
		for _, p := range classes[c.pieces[at].id()] {
			if p == c.pieces[at] || c.has(p.group, at) || len(list) >= maxVariants {
				continue
			}
			other := c.with(at, p)
			list = f.variants(append(list, other), other, at+1, classes)
		}
	}
	return list
}

// id returns a key of the texts of a piece in all samples.
func (p *piece) id() string {
	if p.key == "" {
		all := sha256.New()
		for i, text := range p.texts {
			_, _ = fmt.Fprintf(all, "%t %d ", p.missing != nil && p.missing[i], len(text))
			_, _ = io.WriteString(all, text)
		}
		p.key = string(all.Sum(nil))
	}
	return p.key
}

// has reports whether a piece other than c.pieces[except] is in this group.
func (c *composition) has(group, except int) bool {
	for i, p := range c.pieces {
		if i != except && p.group == group {
			return true
		}
	}
	return false
}

// sameTexts groups the pieces, except sequences, by their texts in all samples, the simplest first.
func (f *finder) sameTexts() map[string][]*piece {
	same := map[string][]*piece{}
	for _, p := range f.catalogue.pieces {
		if p.members != nil {
			continue
		}
		same[p.id()] = append(same[p.id()], p)
	}
	for _, list := range same {
		slices.SortStableFunc(list, func(a, b *piece) int { return cmp.Compare(a.cost, b.cost) })
	}
	return same
}

// match returns a match, or the zero value for an invalid text form. The Scheme reproduces the signatures of Samples.
func (f *finder) match(c *composition, h *hit, s spelling) Match {
	m := Match{
		Text:       c.scheme(s.text, h.key.form),
		SecretForm: h.key.form,
		Description: fmt.Sprintf(
			"HMAC-SHA256, keyed with the secret as %s, of %s; written in %s", h.key.form, c.describe(), s.desc,
		),
		Warnings: append(c.warnings(f.catalogue.fieldNames()), f.spaceWarning(c)...),
	}
	code, err := canonical.GoCode(m.Text)
	if err == nil {
		m.Scheme, m.Secret, err = canonical.ParseSchemeWith(m.Text, f.options.Secret)
	}
	if err != nil {
		return Match{}
	}
	m.Expr = fmt.Sprintf("paymentsvc.Scheme{\n\tCanonical: %s,\n\tEncoding:  %s,\n}", code.Canonical, code.Encoding)
	m.SecretExpr, m.Imports = code.Key, code.Imports
	for _, sample := range f.samples {
		signature, err := m.Scheme.Signature(m.Secret, &sample.message)
		if err == nil && signature == sample.signature {
			m.Samples = append(m.Samples, sample.name)
		}
	}
	return m
}

// partial keeps the compositions with the largest number of explained samples, at most three per searched sample.
func (f *finder) partial(all []*composition, h *hit, result *Result) {
	most := 0
	for _, c := range all {
		most = max(most, len(f.explained(c, h)))
	}
	if len(result.Partial) > 0 && most < len(result.Partial[0].Samples) {
		return
	}
	if len(result.Partial) > 0 && most > len(result.Partial[0].Samples) {
		result.Partial = nil
	}
	const maxOfSample = 3
	enough := len(result.Partial) + maxOfSample
	for _, c := range all {
		if len(result.Partial) == enough {
			break
		}
		for _, e := range f.samples[f.primary].encodings {
			if m := f.match(c, h, e.spelling); len(m.Samples) == most {
				result.Partial = append(result.Partial, m)
				break
			}
		}
	}
}
