package discover

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A sequence is a piece that joins other pieces with fixed separators. The search places a sequence as one piece,
// because separate pieces have too many orders. A hit contains the members instead of the sequence, so a sequence has
// no text form.

// addSequence adds a sequence, unless a member is nil, every sample lacks a member, or the context has ended.
func (c *catalogue) addSequence(p piece, gaps []string, members ...*piece) {
	if c.ctx.Err() != nil || slices.Contains(members, nil) {
		return
	}
	p.members, p.gaps = members, gaps
	whole := composition{pieces: members, gaps: gaps}
	for i := range c.samples {
		text, err := whole.text(i)
		p.texts, p.missing = append(p.texts, text), append(p.missing, err != nil)
	}
	if !slices.Contains(p.missing, false) {
		return
	}
	for _, m := range members {
		p.cost += m.cost
		p.hasTimestamp = p.hasTimestamp || m.hasTimestamp || m.kind == ofTimestamp
	}
	c.pieces = append(c.pieces, &p)
}

// expanded returns the composition with the members in place of its sequences.
func (c *composition) expanded() *composition {
	other := *c
	other.pieces, other.gaps = nil, nil
	for i, p := range c.pieces {
		if i > 0 {
			other.gaps = append(other.gaps, c.gaps[i-1])
		}
		if p.members == nil {
			other.pieces = append(other.pieces, p)
			continue
		}
		inner := (&composition{pieces: p.members, gaps: p.gaps}).expanded()
		other.pieces = append(other.pieces, inner.pieces...)
		other.gaps = append(other.gaps, inner.gaps...)
	}
	return &other
}

// plainPieces returns the plain pieces of these kinds up to a rarity. Without kinds, it returns pieces of all kinds.
func (c *catalogue) plainPieces(rarity int, kinds ...kind) (list []*piece) {
	take := upTo(rarity, kinds...)
	for _, p := range c.pieces {
		if p.members == nil && take(p.traits()) {
			list = append(list, p)
		}
	}
	return list
}

// repeated returns a separator for each gap of n pieces.
func repeated(gap string, n int) []string { return slices.Repeat([]string{gap}, max(0, n-1)) }

// addTargets adds method and address, and for some addresses also the host between the two or the query after them.
// Nearly all services sign these parts in this order.
func (c *catalogue) addTargets() {
	methods := c.plainPieces(common, ofMethod)
	hosts := c.plainPieces(common, ofHost)
	queries := c.plainPieces(common, ofQuery)
	for _, gap := range moreSeparators {
		target := func(members ...*piece) {
			c.addSequence(piece{kind: ofAddress, shelf: targets, group: int(ofAddress)},
				repeated(gap, len(members)), members...)
		}
		for i, method := range methods {
			for _, address := range c.plainPieces(common, ofAddress) {
				isPath := address.text == "path" || address.text == "uri"
				if i > 0 && !isPath { // methods[1] is in lower case
					continue
				}
				target(method, address)
				for _, host := range hosts {
					if i == 0 && isPath {
						target(method, host, address)
					}
				}
				for _, query := range queries {
					if address.text == "path" {
						target(method, address, query)
					}
				}
			}
		}
	}
	for _, method := range methods {
		for _, address := range c.plainPieces(common, ofAddress) {
			c.addSequence(piece{kind: ofAddress, shelf: targets, group: int(ofAddress)},
				[]string{" "}, method, address)
		}
	}
}

// lineForm is a way to write header lines.
type lineForm struct {
	on           shelf
	equals, gap  string
	lower, names bool // lower: names in lower case; names: with a list of the names before or after the lines
}

var lineForms = []lineForm{
	{colon, ":", "\n", true, false}, {colon, ":", "\n", true, true}, {colonSpace, ": ", "\n", true, false},
	{colon, ":", "\n", false, false}, {equalsSign, "=", "&", true, false}, {colon, ":", "", true, false},
	{colonSpace, ": ", "\n", false, false}, {equalsSign, "=", "\n", true, false}, {colon, ":", ";", true, false},
}

// addHeaderBlocks adds each set of headerSets as sorted lines, with and without content-type, host and timestamp. It
// skips blocks of more than eight lines, and adds the blocks of addHeaderValues.
func (c *catalogue) addHeaderBlocks() {
	sets := c.headerSets()
	others := slices.Concat(c.plainPieces(common, ofTimestamp, ofHost), c.header("Content-Type"))
	for _, set := range sets {
		for chosen := range 1 << len(others) {
			lines := slices.Clone(set)
			for i, p := range others {
				if chosen>>i&1 != 0 {
					lines = append(lines, p)
				}
			}
			if len(lines) == 0 || len(lines) > 8 {
				continue
			}
			forms := lineForms
			if len(lines) != len(set) && chosen != 1<<len(others)-1 { // some of the others
				forms = lineForms[:3]
			}
			for _, form := range forms {
				c.addLines(lines, form)
			}
		}
	}
	c.addHeaderValues()
}

// addHeaderValues adds date, host and digest of the body without names, because services of Azure sign them.
func (c *catalogue) addHeaderValues() {
	dates := slices.DeleteFunc(c.plainPieces(rare, ofTimestamp, ofHeader), func(p *piece) bool {
		return !strings.Contains(p.text, "GMT") && (p.kind != ofHeader || !strings.Contains(lineName(p), "date"))
	})
	for _, date := range dates {
		for _, host := range c.plainPieces(common, ofHost) {
			for _, body := range c.plainPieces(uncommon, ofBody) {
				if body.text == "base64(sha256(body))" {
					block := piece{kind: ofBlock, shelf: blocks, group: c.group("block")}
					c.addSequence(block, repeated(";", 3), date, host, body)
				}
			}
		}
	}
}

// header returns a list with the piece of the named header, or an empty list without this header.
func (c *catalogue) header(name string) []*piece {
	return slices.DeleteFunc(c.plainPieces(common, ofHeader), func(p *piece) bool { return p.names[0] != name })
}

// headerSets returns at most maxHeaderSets sets: the empty set, all identifying headers, a set for each prefix such as
// "X-", and the subsets of the first four headers.
func (c *catalogue) headerSets() [][]*piece {
	all := slices.DeleteFunc(c.plainPieces(common, ofHeader), func(p *piece) bool { return !p.identity })
	sets, seen := [][]*piece{nil}, map[string]bool{"": true}
	add := func(keep func(i int, name string) bool) {
		var set []*piece
		id := ""
		for i, p := range all {
			if keep(i, p.names[0]) {
				set, id = append(set, p), id+p.names[0]+"\n"
			}
		}
		if !seen[id] && len(sets) < maxHeaderSets {
			seen[id] = true
			sets = append(sets, set)
		}
	}
	add(func(int, string) bool { return true })
	for _, p := range all {
		for at, letter := range p.names[0] {
			if letter == '-' {
				add(func(_ int, name string) bool { return strings.HasPrefix(name, p.names[0][:at+1]) })
			}
		}
	}
	for chosen := range 1 << min(len(all), 4) {
		add(func(i int, _ string) bool { return chosen>>i&1 != 0 })
	}
	return sets
}

// maxHeaderSets limits the choices of headers.
const maxHeaderSets = 16

// lineName returns the name of a piece in a header line, in lower case.
func lineName(p *piece) string {
	switch p.kind {
	case ofTimestamp:
		return "timestamp"
	case ofHost:
		return "host"
	}
	return strings.ToLower(p.names[0])
}

// addLines adds a block of header lines sorted by name, or with form.names the blocks that also list the names.
func (c *catalogue) addLines(of []*piece, form lineForm) {
	slices.SortFunc(of, func(a, b *piece) int { return strings.Compare(lineName(a), lineName(b)) })
	names := make([]string, len(of))
	lines := make([]*piece, len(of))
	for i, p := range of {
		names[i] = lineName(p)
		label := names[i]
		if !form.lower {
			label = http.CanonicalHeaderKey(label)
		}
		lines[i] = c.label(p, label, form.equals, form.on, 1)
	}
	block := piece{kind: ofBlock, shelf: blocks, group: c.group("block")}
	gaps := repeated(form.gap, len(lines))
	if !form.names {
		c.addSequence(block, gaps, lines...)
		return
	}
	for _, between := range []string{";", ","} {
		list := c.fixed(strings.Join(names, between), "other headers")
		for _, gap := range []string{"\n", "\n\n"} {
			c.addSequence(block, append(slices.Clone(gaps), gap), append(slices.Clone(lines), list)...)
		}
		c.addSequence(block, append([]string{"\n"}, gaps...), append([]*piece{list}, lines...)...)
	}
}

// fixed returns a piece of fixed text outside the catalogue.
func (c *catalogue) fixed(text, need string) *piece {
	return c.read(piece{
		kind: ofWord, group: c.group("fixed " + text), cost: 4, shape: shape{form: fixedText}, needs: []string{need},
		text: strconv.Quote(text), desc: "text " + strconv.Quote(text),
	})
}

// addPairs adds pairs of name=value parts in both orders, and triples sorted by text form, with one separator. Each
// pair contains the timestamp or an identifying header, but a triple can lack both.
func (c *catalogue) addPairs() {
	values := slices.DeleteFunc(c.plainPieces(uncommon, ofTimestamp, ofHeader, ofBody, ofWord, ofSecret),
		func(p *piece) bool {
			switch p.kind {
			case ofHeader, ofWord:
				return !p.identity
			case ofBody:
				return c.large() || p.text != "body" && (p.shape.form != digest || p.cost > 3)
			case ofSecret:
				return p.rarity != common
			}
			return p.text != "timestamp"
		})
	for _, gap := range []string{"&", "\n"} {
		for _, a := range c.allLabels(values, maxPairLabels) {
			for _, b := range c.allLabels(values, maxPairLabels) {
				if a.group != b.group && (a.kind == ofTimestamp || a.kind == ofHeader ||
					b.kind == ofTimestamp || b.kind == ofHeader) {
					c.addBlockOf(gap, a, b)
				}
			}
		}
		few := c.allLabels(values, 3)
		slices.SortStableFunc(few, func(a, b *piece) int { return strings.Compare(a.text, b.text) })
		for i, a := range few {
			for j, b := range few[i+1:] {
				for _, third := range few[i+j+2:] {
					if a.group != b.group && a.group != third.group && b.group != third.group {
						c.addBlockOf(gap, a, b, third)
					}
				}
			}
		}
	}
}

const maxPairLabels = 10

func (c *catalogue) addBlockOf(gap string, members ...*piece) {
	if len(c.pieces) < maxPieces {
		rarity := common
		for _, m := range members {
			rarity = max(rarity, m.rarity)
		}
		c.addSequence(piece{kind: ofBlock, shelf: pairs, group: c.group("block"), rarity: rarity},
			repeated(gap, len(members)), members...)
	}
}

// maxPieces is the size of the catalogue at which addPairs stops, because a message can have many headers.
const maxPieces = 40_000

// allLabels returns each piece with each of its first labels. labels is the maximum per piece.
func (c *catalogue) allLabels(of []*piece, labels int) (list []*piece) {
	for _, p := range of {
		names := labelsOf(p)
		if p.kind == ofWord {
			names = callerLabels("key")
		}
		for i, name := range names[:min(len(names), labels)] {
			if made := c.label(p, name, "=", equalsSign, i); made != nil {
				list = append(list, made)
			}
		}
	}
	return list
}

// addBrackets adds the lists in brackets, except rare lists, lists in a frame, and lists with changed numbers,
// constants or escapes.
func (c *catalogue) addBrackets() {
	fixed := map[rune]*piece{}
	for _, bracket := range "{}[]()" {
		fixed[bracket] = c.fixed(string(bracket), "")
	}
	for _, p := range slices.Clone(c.pieces) {
		if p.shelf != lists || p.list == nil || p.around.part != nil || p.list.Numbers != 0 || p.list.Constants != 0 ||
			p.list.Escaping != 0 || p.rarity == rare || p.members != nil {
			continue
		}
		for _, pair := range [][2]rune{{'{', '}'}, {'[', ']'}, {'(', ')'}} {
			c.addSequence(piece{kind: ofBody, shelf: lists, rarity: rare, group: int(ofBody), list: p.list},
				[]string{"", ""}, fixed[pair[0]], p, fixed[pair[1]])
		}
	}
}
