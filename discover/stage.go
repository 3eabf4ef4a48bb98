package discover

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// stage is a plan for one sample: its pieces, and its compositions within the limits.
type stage struct {
	plan    // max is less than wanted if there are too many compositions
	groups  []stageGroup
	keys    []key
	wanted  int     // max of the plan
	total   int64   // compositions, for all keys
	weight  float64 // work of a composition; see weigh
	hasTied bool    // whether some texts fit only one separator
	short   bool    // the rest of the previous stage
	done    bool    // all were tried
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
	isExtra bool // counts for the stage's extras
	texts   []string
	pieces  []*piece // one for each text, the simplest
	special []bool   // for each text; nil for none
}

// isSpecial reports whether a text counts for the stage's limit.
func (g *stageGroup) isSpecial(text int) bool { return g.special != nil && g.special[text] }

// ends are the possible texts around a composition.
type ends uint8

const (
	after   ends = 1 << iota // the separator
	around                   // the separator before it, or before and after it
	newline                  // a line's end after it
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

// order returns the samples in the order of the search. The shortest body comes first, because it takes the fewest
// hashes.
func (c *catalogue) order() []int {
	order := make([]int, len(c.samples))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(len(c.samples[a].message.Body), len(c.samples[b].message.Body))
	})
	return order
}

// maxWork limits the work for one sample with Options.Effort 1, in compositions of short texts. It is about a minute of
// processor time with SHA-256 in hardware.
const maxWork = 240 * million

// stages makes the stages of a sample. effort scales their limits.
func (c *catalogue) stages(sample int, keys []key, effort float64) []*stage {
	all := plans()
	bases := make([]*stage, len(all))
	for i, p := range all {
		bases[i] = newStage(c.stageGroups(sample, p), keys, p)
	}
	scale := min(effort, 1)
	list := bounded(all, bases, scale, scale*maxWork)
	if effort <= 1 {
		return list
	}
	limit := effort * work(list)
	list = bounded(all, bases, effort, limit)
	return append(list, c.wider(sample, keys, all, limit-work(list))...)
}

// bounded returns the stages of the plans within the limits of the plans and within a limit of all work.
func bounded(all []plan, bases []*stage, effort, most float64) (list []*stage) {
	scale := effort
	for range 4 {
		list = nil
		for i, base := range bases {
			s := *base
			limit := all[i].limit * scale * float64(len(s.keys))
			s.fit(limit)
			list = append(list, &s, s.rest(limit-s.work()))
		}
		total := work(list)
		if total <= most {
			break
		}
		scale *= 0.9 * most / total
	}
	return list
}

// work returns the work of stages.
func work(list []*stage) (sum float64) {
	for _, s := range list {
		sum += s.work()
	}
	return sum
}

// rounds limits how often more effort widens the plans.
const rounds = 3

// wider makes the stages for an effort above 1. They have longer compositions, all separators and all readings of the
// secret, up to the remaining work.
func (c *catalogue) wider(sample int, keys []key, all []plan, left float64) (list []*stage) {
	for round := 1; round <= rounds; round++ {
		for i, p := range all {
			p.what = fmt.Sprintf("%s, wider (%d)", p.what, round)
			p.max, p.gaps, p.keyRarity = p.max+round-1, separators(allSeparators), rare
			p.ends |= after | newline
			if p.extras > 0 {
				p.extras += round - 1
			}
			if p.mixed {
				p.gaps = separators(someSeparators)
			}
			s := newStage(c.stageGroups(sample, p), keys, p)
			s.fit(left / float64(len(all)-i))
			left -= s.work()
			list = append(list, s)
		}
	}
	return list
}

// rest makes a stage of the longest compositions with common separators. It is empty unless the limit excluded these
// compositions.
func (s *stage) rest(limit float64) *stage {
	rest := *s
	rest.what += ", longer ones with common separators"
	rest.min, rest.max, rest.ends, rest.total, rest.short = max(s.max+1, s.min), s.wanted, 0, 0, true
	for few := fewSeparators; few > 1 && !s.mixed && rest.total == 0 && s.max < s.wanted; few /= 2 {
		rest.max, rest.gaps = s.wanted, s.gaps[:min(few, len(s.gaps))]
		rest.fit(limit)
	}
	return &rest
}

// newStage makes the stage of a plan.
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
		for t, text := range g.texts {
			blocks := len(text) / 64
			if blocks > 64 {
				blocks *= 2 // a text that leaves the processor's first cache takes longer
			}
			sum += blocks
			s.hasTied = s.hasTied || g.pieces[t].shelf == targets
		}
		mean += float64(sum) / float64(len(g.texts)*len(s.groups))
	}
	blocks := blocksOfShort + mean
	if s.wrap != nil {
		blocks += 2 * mean * float64(min(s.max, len(s.groups)))
	}
	s.weight = blocks / blocksOfShort
}

// work returns the number of compositions of short texts that take as long as the stage.
func (s *stage) work() float64 { return float64(s.total) * max(1, s.weight) }

// stageGroups returns the groups of the pieces in a plan.
func (c *catalogue) stageGroups(sample int, plan plan) []stageGroup {
	const most = 64 // a worker marks the groups in use in 64 bits
	var groups []stageGroup
	at := map[int]int{}
	places := map[int]map[string]int{} // of the texts, by group
	for _, p := range c.pieces {
		special := plan.special != nil && p.rarity != onlyExplains && plan.special(p)
		if p.rarity == onlyExplains || !p.has(sample) || !special && !plan.take(p) {
			continue
		}
		text := p.texts[sample]
		if text == "" && p.kind != ofNothing {
			continue
		}
		if special && plan.take(p) {
			special = false
		}
		i, known := at[p.group]
		if !known {
			if len(groups) == most {
				continue
			}
			i = len(groups)
			at[p.group] = i
			groups = append(groups, stageGroup{kind: p.kind})
			places[i] = map[string]int{}
		}
		g := &groups[i]
		if same, known := places[i][text]; known {
			if p.cost < g.pieces[same].cost {
				g.pieces[same] = p
			}
			g.special[same] = g.special[same] && special
			continue
		}
		places[i][text] = len(g.texts)
		g.texts = append(g.texts, text)
		g.pieces = append(g.pieces, p)
		g.special = append(g.special, special)
	}
	return groups
}

// fit removes the longest compositions until the work is at most limit, and counts the rest. If even the shortest
// compositions exceed the limit, max is below min and total is 0.
func (s *stage) fit(limit float64) {
	s.max = min(s.max, len(s.groups))
	for ; s.max >= s.min; s.max-- {
		total := s.count()
		if total*max(1, s.weight) <= limit {
			s.total = int64(total)
			return
		}
	}
}

// count returns the number of compositions for all keys.
func (s *stage) count() float64 {
	sum := 0.0
	if s.mixed {
		orders := s.orders("")
		for n := s.min; n <= s.max; n++ {
			sum += orders[n] * math.Pow(float64(len(s.gaps)), float64(n-1))
		}
		return sum * float64(len(s.ends.edges("")[0].trails)*len(s.keys))
	}
	alike := map[bool][]float64{} // orders of an empty separator and of any other
	for _, gap := range s.gaps {
		edges := 0
		for _, e := range s.ends.edges(gap) {
			edges += len(e.trails)
		}
		orders := alike[gap == ""]
		if orders == nil || s.own || s.hasTied {
			orders = s.orders(gap)
			alike[gap == ""] = orders
		}
		for n := s.min; n <= s.max; n++ {
			sum += orders[n] * float64(edges)
		}
	}
	return sum * float64(len(s.keys))
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

// orders counts the choices and orders of pieces for a separator, by length.
func (s *stage) orders(gap string) []float64 {
	var bodies [2]float64 // plain and special texts of a body at an end
	maxSpecial := s.maxSpecial
	if maxSpecial == 0 {
		maxSpecial = s.max
	}
	// sets[n][x][o] counts the choices of n pieces of which x are no core ones, and o are special.
	sets := make([][][]float64, s.max+1)
	for n := range sets {
		sets[n] = make([][]float64, s.extras+1)
		for x := range sets[n] {
			sets[n][x] = make([]float64, maxSpecial+1)
		}
	}
	sets[0][0][0] = 1
	for i := range s.groups {
		g := &s.groups[i]
		var texts [2]float64
		for t := range g.texts {
			switch {
			case !s.fits(g, t, gap):
			case g.isSpecial(t):
				texts[1]++
			default:
				texts[0]++
			}
		}
		if s.bodyAtEnd && g.kind == ofBody {
			bodies = texts
			continue
		}
		s.choose(sets, texts, g.isExtra)
	}
	orders := make([]float64, s.max+1)
	for n := range orders {
		for x := range sets[n] {
			for o, count := range sets[n][x] {
				if o > 0 || s.maxSpecial == 0 {
					orders[n] += count * s.arrangements(n, x)
				}
			}
		}
	}
	for n := s.max; n > 0 && bodies != [2]float64{}; n-- { // with the body first, or last
		places := 2.0
		if n == 1 {
			places = 1
		}
		orders[n] += orders[n-1] * (bodies[0] + bodies[1]) * places
	}
	return orders
}

// choose adds the choices with a text of a group.
func (s *stage) choose(sets [][][]float64, texts [2]float64, isExtra bool) {
	extra := 0
	if isExtra {
		extra = 1
	}
	for n := len(sets) - 1; n > 0; n-- {
		for x := len(sets[n]) - 1; x >= extra; x-- {
			for o := len(sets[n][x]) - 1; o >= 0; o-- {
				sets[n][x][o] += sets[n-1][x-extra][o] * texts[0]
				if o > 0 {
					sets[n][x][o] += sets[n-1][x-extra][o-1] * texts[1]
				}
			}
		}
	}
}

// arrangements counts the orders of n pieces with some extras.
func (s *stage) arrangements(n, extras int) float64 {
	count := 1.0
	for i := 2; i <= n && !s.sorted; i++ {
		count *= float64(i)
	}
	for i := 2; i <= n-extras && s.order != nil; i++ {
		count /= float64(i)
	}
	return count
}
