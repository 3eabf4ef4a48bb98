package discover

import (
	"fmt"
	"github.com/paymentsvc/paymentsvc/canonical"
	"math"
	"slices"
)

// stage is a family of compositions: pieces of a choice of groups in every order, in a range of lengths.
type stage struct {
	what      string
	groups    []stageGroup
	min, max  int      // pieces in a composition
	extras    int      // most pieces that are not of a core kind
	bodyAtEnd bool     // the body stands first or last
	gaps      []string // what may stand between two pieces
	mixed     bool     // each gap is chosen by itself; otherwise all are alike
	frames    frames
	keys      []key
	wrap      *wrapping
	total     int64 // compositions, for all keys
	done      bool  // all were tried
}

// maxParts is how many pieces the longest compositions have, 0 where there are none.
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

// frames says what may stand before and behind a composition besides nothing.
type frames uint8

const (
	behind  frames = 1 << iota // the separator
	around                     // the separator before it, or before and behind it
	newline                    // a line's end behind it
)

// edge is a text before a composition and the texts that are tried behind it.
type edge struct {
	lead   string
	trails []string
}

func (f frames) edges(separator string) []edge {
	plain := edge{trails: []string{""}}
	if f&behind != 0 && separator != "" {
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

// Separators, the likeliest first.
func separators(many int) []string {
	all := []string{
		"", "\n", ".", "|", ":", "&",
		";", ",", " ", "-", "_", "/", "\r\n", "+", "#", "\t",
		"~", "*", "::", "||", "{np}", "\x00", "=", "@", "?", `\n`, "%", "$", "--", "---", ", ", "; ", ": ", " | ", "\n\n", "^", "!", "//", "&&", "__",
	}
	return all[:min(many, len(all))]
}

const (
	fewSeparators   = 6
	mixedSeparators = 9
	someSeparators  = 16
	allSeparators   = math.MaxInt
)

// plan is the wish for a stage. limit counts compositions, and cuts the longest ones.
type plan struct {
	what      string
	take      func(*piece) bool
	min, max  int
	extras    int
	bodyAtEnd bool
	gaps      []string
	mixed     bool
	frames    frames
	keyRarity int
	wrap      *wrapping
	limit     float64
}

// rarity says how far a reading of the secret is from usual, where all are the readings that there are.
func (k *key) rarity(all []key) int {
	readable := func(forms ...canonical.SecretForm) bool {
		return slices.ContainsFunc(all, func(o key) bool { return slices.Contains(forms, o.form) })
	}
	switch k.form {
	case canonical.SecretText, canonical.SecretHex, canonical.SecretBase64Tail:
		return common
	case canonical.SecretBase64:
		if readable(canonical.SecretHex, canonical.SecretBase64Tail) { // their texts mostly happen to be base64 as well
			return uncommon
		}
		return common
	default:
		return rare
	}
}

// plans lists what is searched, in the order in which it is.
func plans() []plan {
	upTo := func(rarity int, kinds ...kind) func(*piece) bool {
		return func(p *piece) bool {
			return p.shelf == plain && p.rarity <= rarity && (len(kinds) == 0 || slices.Contains(kinds, p.kind))
		}
	}
	either := func(choices ...func(*piece) bool) func(*piece) bool {
		return func(p *piece) bool {
			return slices.ContainsFunc(choices, func(take func(*piece) bool) bool { return take(p) })
		}
	}
	labelSeparators := []string{"&", ";", ",", "|", "\n", ""}
	core := []kind{ofTimestamp, ofMethod, ofAddress, ofBody}
	withNothing := append(slices.Clone(core), ofNothing)
	onShelf := func(s shelf, rarity int) func(*piece) bool {
		return func(p *piece) bool { return p.shelf == s && p.rarity <= rarity }
	}
	identity := func(p *piece) bool { return p.shelf == plain && p.rarity == common && p.identity }
	someBodies := func(p *piece) bool {
		return p.shelf == plain && p.kind == ofBody && p.rarity == common && p.cost <= 3
	}

	extras := func(rarity int) func(*piece) bool {
		return func(p *piece) bool { return p.shelf == plain && p.rarity <= rarity && !p.kind.core() }
	}

	singles := either(upTo(uncommon, ofField, ofHeader, ofTimestamp, ofSecret, ofWord), upTo(common, ofAddress))

	listsWith := either(onShelf(lists, rare), upTo(common, ofTimestamp, ofMethod, ofAddress), upTo(uncommon, ofSecret), identity)
	coreAndExtras := either(upTo(common, ofTimestamp, ofMethod, ofAddress), someBodies, extras(uncommon))

	// First what is simple and common, then what is rarer or longer, then what takes its time.
	const million = 1e6
	list := []plan{
		{
			what: "timestamp, method, address and body", take: upTo(common, withNothing...), max: 5, extras: 1,
			gaps: separators(someSeparators), frames: behind, limit: 1 * million,
		},
		{
			what: "all fields of the body", take: onShelf(lists, rare), max: 1,
			gaps: separators(someSeparators), frames: behind, limit: 1 * million,
		},
		{
			what: "timestamp, method, address, body and one more common part", take: upTo(common), max: 4, extras: 1,
			gaps: separators(fewSeparators), limit: 1 * million,
		},
		{
			what: "single fields of the body and the timestamp, up to five", take: upTo(common, ofField, ofTimestamp), max: 5, extras: 5,
			gaps: separators(someSeparators), frames: behind, limit: 1 * million,
		},
		{
			what: "timestamp, method, address and body, with different separators, up to three", take: upTo(common, core...), max: 3,
			gaps: separators(mixedSeparators), mixed: true, frames: newline, limit: 1 * million,
		},
		{
			what: "parts as name=value, with their likeliest names, up to three", take: onShelf(equalsSign, common), max: 3, extras: 3,
			gaps: labelSeparators, frames: behind, limit: 1 * million,
		},
		{
			what: "parts as name:value, with their likeliest names, up to three", take: onShelf(colon, common), max: 3, extras: 3,
			gaps: labelSeparators, frames: behind, limit: 1 * million,
		},
		{
			what: "timestamp, method, address and body, with a rarer reading of the secret", take: upTo(common, core...), max: 4,
			gaps: separators(someSeparators), keyRarity: rare, limit: 1 * million,
		},
	}
	for _, w := range wrappings() {
		list = append(list, plan{
			what: fmt.Sprintf(w.desc, "timestamp, method, address and body"), take: upTo(common, core...), max: 4,
			gaps: separators(someSeparators), frames: behind, wrap: w, limit: 1 * million,
		})
	}
	return append(list,
		plan{
			what: "timestamp, method, address and body, in uncommon forms, with common separators", take: upTo(uncommon, core...), max: 4,
			gaps: separators(fewSeparators), limit: 1 * million,
		},
		plan{
			what: "all fields of the body and one other part, with common separators", take: listsWith, min: 2, max: 2, extras: 1,
			gaps: separators(fewSeparators), limit: 1 * million,
		},
		plan{
			what: "timestamp, method, address, body and one more part, with common separators", take: upTo(uncommon), max: 3, extras: 1,
			gaps: separators(fewSeparators), limit: 1 * million,
		},
		plan{
			what: "timestamp, method, address and body, with different separators", take: upTo(common, core...), min: 4, max: 4,
			gaps: separators(mixedSeparators), mixed: true, frames: newline, limit: 5 * million,
		},
		plan{
			what: "all fields of the body and one other part", take: listsWith, min: 2, max: 2, extras: 1,
			gaps: separators(someSeparators), frames: behind, limit: 3 * million,
		},
		plan{
			what: "timestamp, method, address and body, in uncommon forms", take: upTo(uncommon, withNothing...), max: 5, extras: 1,
			gaps: separators(someSeparators), frames: behind, limit: 5 * million,
		},
		plan{
			what: "timestamp, method, address, body and one more part", take: upTo(uncommon), max: 3, extras: 1,
			gaps: separators(someSeparators), frames: behind, limit: 5 * million,
		},
		plan{
			what: "single fields of the body and the timestamp", take: upTo(uncommon, ofField, ofTimestamp), max: 6, extras: 6,
			gaps: separators(someSeparators), frames: behind, limit: 1 * million,
		},
		plan{
			what: "parts as name=value", take: onShelf(equalsSign, uncommon), max: 3, extras: 3,
			gaps: labelSeparators, frames: behind, limit: 2 * million,
		},
		plan{
			what: "parts as name:value", take: onShelf(colon, uncommon), max: 3, extras: 3,
			gaps: labelSeparators, frames: behind, limit: 2 * million,
		},
		plan{
			what: "timestamp, method, address, body and two more parts", take: coreAndExtras, min: 3, max: 4, extras: 2,
			gaps: separators(fewSeparators), frames: behind, limit: 5 * million,
		},
		plan{
			what: "timestamp, method, address, body and up to three of identifying headers, fields, words and the secret, the body first or last",
			take: either(upTo(common, ofTimestamp, ofMethod, ofAddress), someBodies, identity),
			min:  4, max: 7, extras: 3, bodyAtEnd: true, gaps: separators(fewSeparators), limit: 15 * million,
		},
		plan{
			what: "single fields of the body, the timestamp, the address, headers, words and the secret, up to four",
			take: singles, max: 4, extras: 4, gaps: separators(someSeparators), frames: behind, limit: 3 * million,
		},
		plan{
			what: "timestamp, method, address and body, in rare forms", take: upTo(rare, withNothing...), max: 3, extras: 1,
			gaps: separators(allSeparators), frames: behind | around | newline, keyRarity: uncommon, limit: 10 * million,
		},
		plan{
			what: "timestamp, method, address, body and one more part, four in all", take: upTo(uncommon), min: 4, max: 4, extras: 1,
			gaps: separators(someSeparators), frames: behind, limit: 20 * million,
		},
		plan{
			what: "all fields of the body and two other parts", take: listsWith, min: 3, max: 3, extras: 1,
			gaps: separators(fewSeparators), frames: behind, limit: 10 * million,
		},
		plan{
			what: "single fields of the body, the timestamp, the address, headers, words and the secret, five",
			take: singles, min: 5, max: 5, extras: 5, gaps: separators(someSeparators), frames: behind, limit: 15 * million,
		},
		plan{
			what: "parts as name=value, with their likeliest names, up to five", take: onShelf(equalsSign, common), min: 4, max: 5, extras: 5,
			gaps: labelSeparators, frames: behind, limit: 15 * million,
		},
		plan{
			what: "parts as name:value, with their likeliest names, up to five", take: onShelf(colon, common), min: 4, max: 5, extras: 5,
			gaps: labelSeparators, frames: behind, limit: 15 * million,
		},
		plan{
			what: "timestamp, method, address, body and two more parts, up to six", take: coreAndExtras, min: 5, max: 6, extras: 2,
			gaps: separators(fewSeparators), frames: behind, limit: 15 * million,
		},
		plan{
			what: "timestamp, method, address, body and one more part, five in all", take: upTo(uncommon), min: 5, max: 5, extras: 1,
			gaps: separators(fewSeparators), limit: 20 * million,
		},
		plan{
			what: "timestamp, method, address and body, in rare forms, four in all", take: upTo(rare, withNothing...), min: 4, max: 4, extras: 1,
			gaps: separators(allSeparators), frames: behind | around | newline, keyRarity: uncommon, limit: 25 * million,
		},
	)
}

// mostTelling gives the sample to search: one in which as few pieces as can be are empty, since what is empty
// leaves no trace, and of those one with a short body, which is hashed fast.
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

// stages makes stages of the plans for the sample that is searched. effort scales the limits; a large body, of
// which every composition is slower, lowers them.
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

// stageGroups gives the groups of the pieces that take takes.
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

// fit takes away the longest compositions until the stage has no more than limit, and counts what is left. A
// stage whose shortest compositions are too many has a max below its min, and a total of 0.
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

// count counts the compositions, for all keys.
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

// orders counts, by length, the ways to choose and order pieces. Nothing as a piece needs a separator to show.
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
