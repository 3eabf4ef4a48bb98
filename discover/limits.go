package discover

import (
	"fmt"
	"math"
)

// maxWork limits the work for one sample with Options.Effort 1, in compositions of short texts. It is about a minute of
// processor time with SHA-256 in hardware.
const maxWork = 240 * million

// stages returns the stages of a sample. effort scales their limits. An effort above 1 adds the stages that the
// function wider returns.
func (c *catalogue) stages(sample int, keys []key, effort float64) []*stage {
	pieces := c.present(sample)
	bases := make([]*stage, len(plans))
	for i, p := range plans {
		bases[i] = newStage(stageGroups(pieces, p), keys, p)
	}
	scale := min(effort, 1)
	list := bounded(bases, scale, scale*maxWork)
	if effort <= 1 {
		return list
	}
	limit := effort * work(list)
	list = bounded(bases, effort, limit)
	return append(list, wider(pieces, keys, limit-work(list))...)
}

// bounded returns the stages of the plans. effort scales the limit of each plan. While the total work exceeds the
// argument most, bounded lowers all limits, at most three times.
func bounded(bases []*stage, effort, most float64) (list []*stage) {
	scale := effort
	for range 4 {
		list = nil
		for _, base := range bases {
			s := *base
			limit := base.limit * scale * float64(len(s.keys))
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

// work returns the number of compositions of short texts that take as long as the stage.
func (s *stage) work() float64 { return float64(s.total) * max(1, s.weight) }

// rounds is the number of times that the function wider extends each plan.
const rounds = 3

// wider returns the stages for an effort above 1. They have more separators, more ends, all readings of the secret and,
// after the first round, longer compositions. Their total work is at most left.
func wider(pieces present, keys []key, left float64) (list []*stage) {
	for round := 1; round <= rounds; round++ {
		for i, p := range plans {
			p.what = fmt.Sprintf("%s, wider (%d)", p.what, round)
			p.max, p.gaps, p.keyRarity = p.max+round-1, allSeparators, rare
			p.ends |= after | newline
			if p.extras > 0 {
				p.extras += round - 1
			}
			if p.mixed {
				p.gaps = someSeparators
			}
			s := newStage(stageGroups(pieces, p), keys, p)
			s.fit(left / float64(len(plans)-i))
			left -= s.work()
			list = append(list, s)
		}
	}
	return list
}

// rest returns a stage of the compositions that are too long for s, with the first separators of the plan. The stage
// is empty if s is complete or mixed, and if the compositions still exceed limit.
func (s *stage) rest(limit float64) *stage {
	rest := *s
	rest.what += ", longer compositions with common separators"
	rest.min, rest.max, rest.ends, rest.total, rest.short = max(s.max+1, s.min), s.wanted, 0, 0, true
	for few := len(fewSeparators); few > 1 && !s.mixed && rest.total == 0 && s.max < s.wanted; few /= 2 {
		rest.max, rest.gaps = s.wanted, s.gaps[:min(few, len(s.gaps))]
		rest.count()
		rest.fit(limit)
	}
	return &rest
}

// fit removes the longest compositions until the work is at most limit. If even the shortest compositions exceed the
// limit, max is below min and total is 0.
func (s *stage) fit(limit float64) {
	s.max = min(s.max, len(s.groups))
	for ; s.max >= s.min; s.max-- {
		total := 0.0
		for _, count := range s.counts[s.min : s.max+1] {
			total += count
		}
		if total*max(1, s.weight) <= limit {
			s.total = int64(total)
			return
		}
	}
}

// count sets counts.
func (s *stage) count() {
	longest := min(s.wanted, len(s.groups))
	s.counts = make([]float64, longest+1)
	if s.mixed {
		edges := float64(len(s.ends.edges("")[0].trails) * len(s.keys))
		for n, orders := range s.orders("", longest)[1:] {
			s.counts[n+1] = orders * math.Pow(float64(len(s.gaps)), float64(n)) * edges
		}
		return
	}
	var untied []float64 // orders for every separator that is not tied
	for _, gap := range s.gaps {
		orders := untied
		if gap == "" || s.tied[gap] {
			orders = s.orders(gap, longest)
		} else if untied == nil {
			untied = s.orders(gap, longest)
			orders = untied
		}
		edges := 0
		for _, e := range s.ends.edges(gap) {
			edges += len(e.trails)
		}
		for n := range orders {
			s.counts[n] += orders[n] * float64(edges*len(s.keys))
		}
	}
}

// tally counts the plain and the special texts of a group.
type tally [2]float64

// tallies counts the texts of each group that fit every separator, or only some separators; see fits. It returns the
// separators of the tied texts.
func (s *stage) tallies() map[string]bool {
	all := map[string]bool{}
	for i := range s.groups {
		g := &s.groups[i]
		g.free, g.tied = tally{}, map[string]tally{}
		for t, p := range g.pieces {
			kind := 0
			if g.isSpecial(t) {
				kind = 1
			}
			tie := func(gap string) {
				count := g.tied[gap]
				count[kind]++
				g.tied[gap], all[gap] = count, true
			}
			switch {
			case p.shelf == targets:
				tie(p.gaps[0])
				if p.gaps[0] == " " {
					tie("\n")
				}
			case s.own && p.list != nil:
				tie(p.list.Between)
			default:
				g.free[kind]++
			}
		}
	}
	return all
}

// orders counts the choices and orders of pieces for a separator, by the number of pieces from 0 to longest.
func (s *stage) orders(gap string, longest int) []float64 {
	var bodies tally // texts of a body at an end
	// sets[n][x][o] counts the choices of n pieces with x extras and o special texts.
	sets := make([][][]float64, longest+1)
	for n := range sets {
		sets[n] = make([][]float64, s.extras+1)
		for x := range sets[n] {
			sets[n][x] = make([]float64, s.maxSpecial+1)
		}
	}
	sets[0][0][0] = 1
	for i := range s.groups {
		g := &s.groups[i]
		texts, tied := g.free, g.tied[gap]
		if g.kind == ofNothing && gap == "" {
			texts = tally{}
		}
		texts[0] += tied[0]
		texts[1] += tied[1]
		if s.bodyAtEnd && g.kind == ofBody {
			bodies = texts
			continue
		}
		s.choose(sets, texts, g.isExtra)
	}
	orders := make([]float64, longest+1)
	for n := range orders {
		for x := range sets[n] {
			for o, count := range sets[n][x] {
				if o > 0 || s.maxSpecial == 0 {
					orders[n] += count * s.arrangements(n, x)
				}
			}
		}
	}
	for n := longest; n > 0 && bodies[0]+bodies[1] > 0; n-- { // with the body first, or last
		places := 2.0
		if n == 1 {
			places = 1
		}
		orders[n] += orders[n-1] * (bodies[0] + bodies[1]) * places
	}
	return orders
}

// choose adds the choices that include a text of a group.
func (s *stage) choose(sets [][][]float64, texts tally, isExtra bool) {
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
