package discover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// class is a list of pieces of one group with equal texts in every sample, the simplest first.
type class struct {
	group  int
	text   string // in the current sample
	pieces []*piece
}

// classes returns the classes whose pieces occur in text.
func (f *finder) classes(text string) []*class {
	var list []*class
	known := map[string]*class{}
	for _, p := range f.catalogue.pieces {
		if p.members != nil || !p.has(f.primary) || !strings.Contains(text, p.texts[f.primary]) ||
			p.texts[f.primary] == "" && p.kind != ofNothing {
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
	slices.SortStableFunc(list, func(a, b *class) int { return cmp.Compare(a.pieces[0].cost, b.pieces[0].cost) })
	return list
}

// reader finds the compositions of a text.
type reader struct {
	text    string
	classes []*class
	keep    func(*composition) (enough bool)
	enough  bool
	steps   int // attempts to read a piece since the last call of r.read
	total   int // attempts to read a piece

	edge   edge
	trail  string
	gaps   []string
	pieces []*piece
	used   map[int]bool
	chosen []string // the separators so far
}

// Limits of the reader, because a text of many short fields has too many compositions.
const (
	maxSteps      = 300_000
	maxTotal      = 3_000_000
	maxReadings   = 500
	maxReadPieces = 9
)

// siblings keeps the variants of the hit with pieces of the same groups and the same texts in the current sample.
func (r *reader) siblings(c composition, at, primary int) {
	if at == len(c.pieces) {
		r.enough = r.enough || r.keep(&c)
		return
	}
	p := c.pieces[at]
	if !slices.ContainsFunc(r.classes, func(c *class) bool { return slices.Contains(c.pieces, p) }) {
		r.siblings(c, at+1, primary) // a piece outside the catalogue, such as a bracket, has no variants
	}
	for _, class := range r.classes {
		r.total++
		if r.enough || r.total > maxTotal {
			return
		}
		if class.group == p.group && class.text == p.texts[primary] {
			r.siblings(*c.with(at, class.pieces[0]), at+1, primary)
		}
	}
}

// alike reads the text with the same separator between all pieces.
func (r *reader) alike() {
	for _, gap := range allSeparators {
		if !strings.Contains(r.text, gap) {
			continue
		}
		for _, e := range (after | around | newline).edges(gap) {
			for _, trail := range e.trails {
				r.read([]string{gap}, e.lead, trail)
			}
		}
	}
}

// mixed reads the text with different separators.
func (r *reader) mixed() {
	for _, trail := range []string{"", "\n"} {
		r.read(moreSeparators, "", trail)
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

// from reads a piece at the start of rest, and the text after it.
func (r *reader) from(rest string) {
	for _, c := range r.classes {
		r.steps++
		r.total++
		if r.steps > maxSteps || r.total > maxTotal || r.enough {
			return
		}
		if r.used[c.group] || !strings.HasPrefix(rest, c.text) || c.text == "" && !r.showsNothing() {
			continue
		}
		r.pieces = append(r.pieces, c.pieces[0])
		r.used[c.group] = true
		r.after(rest[len(c.text):])
		r.used[c.group] = false
		r.pieces = r.pieces[:len(r.pieces)-1]
	}
}

// showsNothing reports whether an empty piece adds a separator.
func (r *reader) showsNothing() bool { return len(r.gaps) == 1 && r.gaps[0] != "" }

// after reads a separator at the start of rest, and further pieces. An empty rest ends the composition.
func (r *reader) after(rest string) {
	if rest == "" {
		r.take()
	}
	if len(r.pieces) == maxReadPieces {
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
		return // a single piece was already read without a separator
	}
	r.enough = r.keep(&composition{
		pieces: slices.Clone(r.pieces),
		gaps:   slices.Clone(r.chosen),
		lead:   r.edge.lead,
		trail:  r.trail,
	})
}
