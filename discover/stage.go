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
	tied   map[string]bool // see tallies
	wanted int             // max of the plan
	counts []float64       // compositions by their number of pieces, for all keys
	total  int64           // compositions of min to max pieces
	weight float64         // work of a composition in relation to a short text; see weigh
	short  bool            // made from the previous stage by stage.rest
	done   bool            // all compositions were tried
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
	s.tied = s.tallies()
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

// present contains the pieces that the search can place in a sample.
type present struct {
	pieces  []placed
	classes []traits // the different traits of the pieces
	texts   int      // number of different texts, counted by group
	groups  int      // greater than each group number
}

// placed is a piece with its text in a sample. Equal texts of a group have equal numbers.
type placed struct {
	*piece
	text          string
	number, class int // class is an index in classes
}

// present returns the pieces that the search can place in a sample.
func (c *catalogue) present(sample int) present {
	type place struct {
		group int
		text  string
	}
	list := present{groups: c.next}
	numbers, classes := map[place]int{}, map[traits]int{}
	for _, p := range c.pieces {
		if p.rarity == onlyExplains || !p.has(sample) || p.texts[sample] == "" && p.kind != ofNothing {
			continue
		}
		class, known := classes[p.traits()]
		if !known {
			class = len(classes)
			classes[p.traits()] = class
			list.classes = append(list.classes, p.traits())
		}
		at := place{p.group, p.texts[sample]}
		number, known := numbers[at]
		if !known {
			number = len(numbers)
			numbers[at] = number
		}
		list.pieces = append(list.pieces, placed{p, at.text, number, class})
	}
	list.texts = len(numbers)
	return list
}

// stageGroups returns the groups of the pieces in a plan, at most 64. It skips pieces of further groups.
func stageGroups(list present, plan plan) (groups []stageGroup) {
	const most = 64 // a worker marks the groups in use in 64 bits
	taken, special := make([]bool, len(list.classes)), make([]bool, len(list.classes))
	for i, class := range list.classes {
		taken[i] = plan.take(class)
		special[i] = !taken[i] && plan.special != nil && plan.special(class)
	}
	// The index of a group in groups plus 1, and the index of a text in its group plus 1; 0 for none yet.
	groupAt, textAt := make([]int, list.groups), make([]int, list.texts)
	for _, p := range list.pieces {
		if !taken[p.class] && !special[p.class] {
			continue
		}
		if groupAt[p.group] == 0 {
			if len(groups) == most {
				continue
			}
			groups = append(groups, stageGroup{kind: p.kind})
			groupAt[p.group] = len(groups)
		}
		g := &groups[groupAt[p.group]-1]
		if same := textAt[p.number] - 1; same >= 0 {
			if p.cost < g.pieces[same].cost {
				g.pieces[same] = p.piece
			}
			g.special[same] = g.special[same] && special[p.class]
			continue
		}
		g.texts = append(g.texts, p.text)
		g.pieces = append(g.pieces, p.piece)
		g.special = append(g.special, special[p.class])
		textAt[p.number] = len(g.texts)
	}
	return groups
}

// fits reports whether a text fits a separator. An empty piece needs a separator. A target needs its own separator,
// and so does a list if own is set.
func (s *stage) fits(g *stageGroup, text int, gap string) bool {
	if g.kind == ofNothing {
		return gap != ""
	}
	if p := g.pieces[text]; p.shelf == targets && p.gaps[0] != gap {
		return p.gaps[0] == " " && gap == "\n" // a request line
	}
	return !s.own || g.pieces[text].list == nil || g.pieces[text].list.Between == gap
}
