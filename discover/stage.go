package discover

import (
	"cmp"
	"slices"
)

// stage is a plan for one sample: its pieces, and its compositions within the limits.
type stage struct {
	plan   // max is less than wanted if there are too many compositions or too few groups
	groups []stageGroup
	keys   []key
	wanted int       // max of the plan
	counts []float64 // compositions by their number of pieces, for all keys
	total  int64     // compositions of min to max pieces
	weight float64   // work of a composition in relation to a short text; see weigh
	short  bool      // made by rest from the previous stage
	done   bool      // all compositions were tried
}

// maxParts returns the number of pieces of the longest compositions, or 0 for an empty stage.
func (s *stage) maxParts() int {
	if s.total == 0 {
		return 0
	}
	return s.max
}

// stageGroup contains the different texts of one group in the current sample.
type stageGroup struct {
	kind    kind
	isExtra bool // counts for extras of the plan
	texts   []string
	pieces  []*piece // one for each text, the simplest
	special []bool   // for each text; nil for none
	free    tally    // texts that fit every separator
	tied    map[string]tally
}

// isSpecial reports whether a text counts for maxSpecial of the plan.
func (g *stageGroup) isSpecial(text int) bool { return g.special != nil && g.special[text] }

// ends are the possible texts around a composition.
type ends uint8

const (
	after   ends = 1 << iota // the separator after the composition
	around                   // the separator before the composition, or before and after it
	newline                  // a line break
)

// edge is a text before a composition and the texts to try after it.
type edge struct {
	lead   string
	trails []string
}

func (f ends) edges(separator string) []edge {
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

// newStage returns the stage of a plan.
func newStage(groups []stageGroup, keys []key, p plan) *stage {
	s := &stage{plan: p, groups: slices.Clone(groups), wanted: p.max}
	s.arrange()
	s.min = max(p.min, 1)
	s.weigh()
	for _, k := range keys {
		if k.rarity(keys) <= p.keyRarity {
			s.keys = append(s.keys, k)
		}
	}
	s.count()
	return s
}

// arrange puts the groups into the order of the plan, and marks the extras.
func (s *stage) arrange() {
	slices.SortStableFunc(s.groups, func(a, b stageGroup) int {
		return cmp.Compare(slices.Index(s.order, a.kind), slices.Index(s.order, b.kind))
	})
	for i := range s.groups {
		kind := s.groups[i].kind
		s.groups[i].isExtra = s.order == nil && !kind.core() || s.order != nil && !slices.Contains(s.order, kind)
	}
}

// weigh sets the weight of a composition: its SHA-256 blocks, in relation to a short text. The search hashes a common
// start of many compositions once, so mostly the last piece counts, and each group is last equally often.
func (s *stage) weigh() {
	const blocksOfShort = 4
	mean := 0.0
	for _, g := range s.groups {
		sum := 0
		for _, text := range g.texts {
			blocks := len(text) / 64
			if blocks > 64 {
				blocks *= 2 // a text that leaves the processor's first cache takes longer
			}
			sum += blocks
		}
		mean += float64(sum) / float64(len(g.texts)*len(s.groups))
	}
	blocks := blocksOfShort + mean
	if s.wrap != nil {
		blocks += 2 * mean * float64(min(s.max, len(s.groups)))
	}
	s.weight = blocks / blocksOfShort
}

// present contains the pieces that the search can place in a sample, and the indexes of the pieces by their traits.
type present struct {
	pieces  []placed
	classes map[traits][]int
}

// placed is a piece with its text in a sample. Equal texts have equal numbers.
type placed struct {
	*piece
	text   string
	number int
}

// present returns the pieces that the search can place in a sample.
func (c *catalogue) present(sample int) present {
	list, numbers := present{classes: map[traits][]int{}}, map[string]int{}
	for _, p := range c.pieces {
		if p.rarity == onlyExplains || !p.has(sample) || p.texts[sample] == "" && p.kind != ofNothing {
			continue
		}
		text := p.texts[sample]
		number, known := numbers[text]
		if !known {
			number = len(numbers)
			numbers[text] = number
		}
		list.classes[p.traits()] = append(list.classes[p.traits()], len(list.pieces))
		list.pieces = append(list.pieces, placed{p, text, number})
	}
	return list
}

// stageGroups returns the groups of the pieces in a plan, at most 64. It skips pieces of further groups.
func stageGroups(list present, plan plan) (groups []stageGroup) {
	const most = 64 // a worker marks the groups in use in 64 bits
	type place struct{ group, number int }
	groupAt, textAt := map[int]int{}, map[place]int{}
	var chosen []int
	for class, indexes := range list.classes {
		if plan.take(class) || plan.special != nil && plan.special(class) {
			chosen = append(chosen, indexes...)
		}
	}
	slices.Sort(chosen)
	for _, index := range chosen {
		p := list.pieces[index]
		taken := plan.take(p.traits())
		i, known := groupAt[p.group]
		if !known {
			if len(groups) == most {
				continue
			}
			i = len(groups)
			groupAt[p.group] = i
			groups = append(groups, stageGroup{kind: p.kind})
		}
		g := &groups[i]
		if same, known := textAt[place{i, p.number}]; known {
			if p.cost < g.pieces[same].cost {
				g.pieces[same] = p.piece
			}
			g.special[same] = g.special[same] && !taken
			continue
		}
		textAt[place{i, p.number}] = len(g.texts)
		g.texts = append(g.texts, p.text)
		g.pieces = append(g.pieces, p.piece)
		g.special = append(g.special, !taken)
	}
	return groups
}

// fits reports whether a text fits a separator. An empty piece needs a separator.
func (s *stage) fits(g *stageGroup, text int, gap string) bool {
	if g.kind == ofNothing {
		return gap != ""
	}
	if p := g.pieces[text]; p.shelf == targets && p.gaps[0] != gap {
		return p.gaps[0] == " " && gap == "\n" // a request line
	}
	return !s.own || g.pieces[text].list == nil || g.pieces[text].list.Between == gap
}
