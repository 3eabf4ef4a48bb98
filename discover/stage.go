package discover

import (
	"math"
	"slices"
)

// stage is a family of compositions: pieces of some groups in every order, in a range of lengths.
type stage struct {
	what      string
	groups    []stageGroup
	min, max  int      // pieces in a composition
	extras    int      // most pieces that are not of a core kind
	bodyAtEnd bool     // the body is first or last
	gaps      []string // what may stand between two pieces
	mixed     bool     // each gap is chosen by itself; otherwise all are alike
	frames    frames
	keys      []key
	wrap      *wrapping
	total     int64 // compositions, for all keys
	done      bool  // all were tried
}

// maxParts returns how many pieces the longest compositions have, 0 if there are none.
func (s *stage) maxParts() int {
	if s.total == 0 {
		return 0
	}
	return s.max
}

// stageGroup is the different texts that the pieces of one group make of the sample that is searched.
type stageGroup struct {
	kind   kind
	texts  []string
	pieces []*piece // one for each text, the simplest
}

// frames says what may surround a composition.
type frames uint8

const (
	after   frames = 1 << iota // the separator
	around                     // the separator before it, or before and after it
	newline                    // a line's end after it
)

// edge is a text before a composition and the texts to try after it.
type edge struct {
	lead   string
	trails []string
}

func (f frames) edges(separator string) []edge {
	plain := edge{trails: []string{""}}
	if f&after != 0 && separator != "" {
		plain.trails = append(plain.trails, separator)
	}
	if f&newline != 0 && separator != "\n" {
		plain.trails = append(plain.trails, "\n")
	}
	if f&around == 0 || separator == "" {
		return []edge{plain}
	}
	return []edge{plain, {lead: separator, trails: []string{"", separator}}}
}

// mostTelling returns the sample to search: the one with the fewest empty pieces, which leave no trace, and of those
// the one with the shortest body, which is hashed fastest.
func (c *catalogue) mostTelling() int {
	best, fewest := 0, math.MaxInt
	for i, s := range c.samples {
		empty := 0
		for _, p := range c.pieces {
			if p.texts[i] == "" {
				empty++
			}
		}
		if empty < fewest || empty == fewest && len(s.message.Body) < len(c.samples[best].message.Body) {
			best, fewest = i, empty
		}
	}
	return best
}

// stages makes the stages of a sample. effort scales their limits; a large body, which takes longer, lowers them.
func (c *catalogue) stages(sample int, keys []key, effort float64) []*stage {
	blocks := 2 + len(c.samples[sample].message.Body)/64
	scale := effort * min(1, 8/float64(blocks))
	all := plans()
	list := make([]*stage, 0, len(all))
	for _, p := range all {
		s := &stage{
			what: p.what, groups: c.stageGroups(sample, p.take), min: max(p.min, 1), max: p.max, extras: p.extras,
			bodyAtEnd: p.bodyAtEnd, gaps: p.gaps, mixed: p.mixed, frames: p.frames, wrap: p.wrap,
		}
		for _, k := range keys {
			if k.rarity(keys) <= p.keyRarity {
				s.keys = append(s.keys, k)
			}
		}
		s.fit(p.limit * scale * float64(len(s.keys)))
		list = append(list, s)
	}
	return list
}

// stageGroups returns the groups of the pieces that take selects.
func (c *catalogue) stageGroups(sample int, take func(*piece) bool) []stageGroup {
	const most = 64 // a worker marks the groups in use in 64 bits
	var groups []stageGroup
	at := map[int]int{}
	for _, p := range c.pieces {
		if p.rarity == onlyExplains || !take(p) {
			continue
		}
		text := p.texts[sample]
		if text == "" && p.kind != ofNothing {
			continue
		}
		i, known := at[p.group]
		if !known {
			if len(groups) == most {
				continue
			}
			i = len(groups)
			at[p.group] = i
			groups = append(groups, stageGroup{kind: p.kind})
		}
		g := &groups[i]
		if same := slices.Index(g.texts, text); same >= 0 {
			if p.cost < g.pieces[same].cost {
				g.pieces[same] = p
			}
			continue
		}
		g.texts = append(g.texts, text)
		g.pieces = append(g.pieces, p)
	}
	return groups
}

// fit removes the longest compositions until the stage has no more than limit, and counts the rest. If even the
// shortest are too many, max is below min and total is 0.
func (s *stage) fit(limit float64) {
	s.max = min(s.max, len(s.groups))
	for ; s.max >= s.min; s.max-- {
		total := s.count()
		if total <= limit {
			s.total = int64(total)
			return
		}
	}
}

// count returns the number of compositions for all keys.
func (s *stage) count() float64 {
	sum := 0.0
	if s.mixed {
		orders := s.orders(true)
		for n := s.min; n <= s.max; n++ {
			sum += orders[n] * math.Pow(float64(len(s.gaps)), float64(n-1))
		}
		return sum * float64(len(s.frames.edges("")[0].trails)*len(s.keys))
	}
	for _, gap := range s.gaps {
		edges := 0
		for _, e := range s.frames.edges(gap) {
			edges += len(e.trails)
		}
		orders := s.orders(gap == "")
		for n := s.min; n <= s.max; n++ {
			sum += orders[n] * float64(edges)
		}
	}
	return sum * float64(len(s.keys))
}

// orders counts, by length, the ways to choose and order pieces. An empty piece needs a separator to show.
func (s *stage) orders(withoutNothing bool) []float64 {
	bodies := 0
	// sets[n][x] counts the choices of n pieces of which x are no core ones.
	sets := make([][]float64, s.max+1)
	for n := range sets {
		sets[n] = make([]float64, s.extras+1)
	}
	sets[0][0] = 1
	for _, g := range s.groups {
		if s.bodyAtEnd && g.kind == ofBody {
			bodies = len(g.texts)
			continue
		}
		if withoutNothing && g.kind == ofNothing {
			continue
		}
		for n := s.max; n > 0; n-- {
			for x := s.extras; x >= 0; x-- {
				switch {
				case g.kind.core():
					sets[n][x] += sets[n-1][x] * float64(len(g.texts))
				case x > 0:
					sets[n][x] += sets[n-1][x-1] * float64(len(g.texts))
				}
			}
		}
	}
	orders := make([]float64, s.max+1)
	factorial := 1.0
	for n := range orders {
		if n > 0 {
			factorial *= float64(n)
		}
		for _, count := range sets[n] {
			orders[n] += count * factorial
		}
	}
	for n := s.max; n > 0 && bodies > 0; n-- { // with the body first, or last
		places := 2.0
		if n == 1 {
			places = 1
		}
		orders[n] += orders[n-1] * float64(bodies) * places
	}
	return orders
}
