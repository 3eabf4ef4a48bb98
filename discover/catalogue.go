package discover

import (
	"context"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// kind is the origin of a piece. A composition has at most one piece of each group. Each kind is one group, but each
// header, field and word, and each piece on the shelf "again", is a separate group.
type kind int

const (
	ofTimestamp kind = iota
	ofMethod
	ofAddress
	ofBody
	ofQuery
	ofHost
	ofSecret
	ofMark // a common fixed text, such as a version
	ofNothing
	ofHeader
	ofField
	ofWord // a word of Options.Words
	ofBlock
)

// core reports whether nearly every service signs a piece of this kind.
func (k kind) core() bool { return k <= ofBody }

// ofBody reports whether pieces of this kind sign the body or one of its fields.
func (k kind) ofBody() bool { return k == ofBody || k == ofField }

// The rarity of a piece limits the length of the compositions that contain it. The search skips pieces with
// onlyExplains, but a match can contain them.
const (
	common = iota
	uncommon
	rare
	onlyExplains
)

// shelf separates the pieces of different searches.
type shelf int

const (
	plain      shelf = iota
	lists            // all fields of the body, its JSON with an added field, the JSON of an inner object, and envelopes
	equalsSign       // labelled, as in timestamp=1700000000
	colon            // labelled, as in timestamp:1700000000
	colonSpace       // labelled, as in timestamp: 1700000000
	digests          // digests of all fields of the body, or of its JSON
	again            // a second appearance of a part
	targets          // method and address with a separator
	blocks           // headers as lines, or their values without names
	pairs            // parts as name=value
)

// piece is a part in the text form of a scheme, with its text in each sample.
type piece struct {
	group        int
	kind         kind
	rarity       int
	shelf        shelf
	identity     bool                     // identifies the caller or the call; long compositions contain such pieces
	names        []string                 // name of a header, or path of a field
	cost         int                      // higher for less simple pieces
	text, desc   string                   // text form of a scheme, and words for Match.Description
	hasTimestamp bool                     // contains the timestamp, but has another kind
	needs        []string                 // properties that a sample needs to distinguish the piece from a simpler one
	part, inner  paymentsvc.CanonicalFunc // inner is the part inside the frame, or nil
	shape        shape
	list         *canonical.FieldList // options of a list of all fields
	json         *canonical.JSONForm  // options of JSON
	around       frame                // frame of the list or the JSON
	members      []*piece             // members of a sequence
	gaps         []string             // separators between the members
	texts        []string             // by sample
	missing      []bool               // by sample; true if the sample lacks the part
	key          string               // see piece.id
}

// traits are the properties by which a plan chooses pieces. Thousands of pieces have the same traits.
type traits struct {
	kind             kind
	shelf            shelf
	rarity, cost     int
	identity         bool
	isList, isDigest bool
}

func (p *piece) traits() traits {
	return traits{p.kind, p.shelf, p.rarity, p.cost, p.identity, p.list != nil, p.shape.form == digest}
}

// has reports whether a sample has the piece.
func (p *piece) has(sample int) bool { return p.missing == nil || !p.missing[sample] }

// catalogue contains the pieces found in at least one sample.
type catalogue struct {
	ctx     context.Context // context of Find; its end stops the preparation
	samples []*sample
	secret  paymentsvc.Secret
	hidden  []string   // see func revealing
	names   []string   // top-level fields of the bodies
	objects []string   // top-level fields with an object
	paths   [][]string // fields with a scalar value, the shortest paths first
	pieces  []*piece
	frames  map[string]frame  // see addedField
	byText  map[string]*piece // labelled pieces by group and text form; nil if c.read rejected the piece
	groups  map[string]int    // groups other than those of a whole kind, by name
	next    int               // number of the next group
	buffer  []byte            // for the next text of a piece
	spent   int               // bytes of bodies read by this family of pieces
	limit   int               // maximum of spent, only for large bodies
	cut     bool              // whether limit ended a family
	err     error             // from ParseSchemeWith for a text form; reveals a bug in the catalogue
}

func newCatalogue(
	ctx context.Context, samples []*sample, secret paymentsvc.Secret, words []string,
) *catalogue {
	c := emptyCatalogue(ctx, samples, secret, revealing(secret))
	c.fill(
		c.addMessage, c.addAddress, c.addBody, c.addJSON, c.addEnvelopes, c.addHeaders, c.addFields, c.addSecret,
		func() { c.addWords(words) }, c.addLists, c.addDigests,
		func() { c.addLabelled(equalsSign, "=") },
		func() { c.addLabelled(colon, ":") },
		func() { c.addLabelled(colonSpace, ": ") },
		c.addAgain, c.addTargets, c.addHeaderBlocks, c.addPairs, c.addBrackets,
	)
	return c
}

func emptyCatalogue(
	ctx context.Context, samples []*sample, secret paymentsvc.Secret, hidden []string,
) *catalogue {
	c := &catalogue{
		ctx: ctx, samples: samples, secret: secret, groups: map[string]int{}, next: int(ofHeader),
		frames: map[string]frame{}, byText: map[string]*piece{}, limit: maxSpent, hidden: hidden,
	}
	c.readFields()
	return c
}

// fill adds families of pieces. Each family has its own limit of read bytes.
func (c *catalogue) fill(families ...func()) {
	for _, add := range families {
		c.spent = 0
		add()
	}
	c.spent = 0
}

// add adds a piece unless read returns nil, and reports whether all samples have the piece.
func (c *catalogue) add(p piece) bool {
	made := c.read(p)
	if made == nil {
		return false
	}
	c.pieces = append(c.pieces, made)
	return !slices.Contains(made.missing, true)
}

// addOther adds a piece if simpler is nil or has other texts. It returns the added piece, or simpler.
func (c *catalogue) addOther(p piece, simpler *piece) *piece {
	if !c.readTexts(&p) ||
		simpler != nil && slices.Equal(p.texts, simpler.texts) && slices.Equal(p.missing, simpler.missing) ||
		!c.describe(&p) {
		return simpler
	}
	made := p // allocated only here, because most pieces have the texts of simpler
	c.pieces = append(c.pieces, &made)
	return &made
}

// maxSpent limits the bytes of large bodies that each family of pieces reads. It is about a second of work.
const maxSpent = 24 << 20

// read returns a piece with its texts, or nil if every sample lacks it. It also returns nil for an invalid or revealing
// text form, above the limit of read bytes, and after the end of the context.
func (c *catalogue) read(p piece) *piece {
	if !c.readTexts(&p) || !c.describe(&p) {
		return nil
	}
	return &p
}

// describe sets the text form of a list or of JSON. It reports whether the text form is free of the secret, as results
// must be.
func (c *catalogue) describe(p *piece) bool {
	if p.text == "" {
		if p.list != nil {
			p.describeList()
		} else {
			p.describeJSON()
		}
		if p.around.part != nil {
			p.text, p.desc = p.around.of(p.text), p.around.words(p.desc)
		}
	}
	return !c.showsSecret(p.text)
}

// readTexts sets the texts of a piece. It returns false for a piece to drop. Lists and JSON get their text forms later,
// in describe, because addOther drops most of these pieces as duplicates.
func (c *catalogue) readTexts(p *piece) bool {
	if c.ctx.Err() != nil {
		return false
	}
	if p.part == nil {
		text := schemeText("hex", p.text, canonical.SecretText, p.kind.ofBody())
		scheme, _, err := canonical.ParseSchemeWith(text, c.secret)
		if err != nil {
			c.err = err
			return false
		}
		p.part = scheme.Canonical
	}
	if p.kind.ofBody() && c.spent > c.limit && c.large() {
		c.cut = true
		return false
	}
	p.texts, p.missing, p.key = make([]string, len(c.samples)), make([]bool, len(c.samples)), ""
	for i, s := range c.samples {
		part, m := p.part, &s.message
		if p.kind.ofBody() {
			c.spent += len(m.Body)
		}
		if p.inner != nil && p.around.messages != nil {
			part, m, p.missing[i] = p.inner, &p.around.messages[i], p.around.missing[i]
		}
		if p.missing[i] {
			continue
		}
		text, err := part(c.buffer[:0], m)
		if err != nil {
			p.missing[i] = true
			continue
		}
		c.buffer, p.texts[i] = text, string(text)
	}
	if !slices.Contains(p.missing, false) {
		return false
	}
	if p.kind < ofHeader && p.shelf != again {
		p.group = int(p.kind)
	}
	return true
}

// showsSecret reports whether a text reveals the secret, even with URL escapes.
func (c *catalogue) showsSecret(text string) bool {
	plain := unescaped(text)
	return slices.ContainsFunc(c.hidden, func(hidden string) bool {
		return strings.Contains(text, hidden) || strings.Contains(plain, hidden)
	})
}

// group returns the group of a name, such as "header X-Key". It makes a new group for a new name.
func (c *catalogue) group(name string) int {
	if _, known := c.groups[name]; !known {
		c.groups[name] = c.next
		c.next++
	}
	return c.groups[name]
}

const (
	needsMethod    = "another method (every operation of the interface document is a POST)"
	needsQuery     = "a query in the address"
	needsEndpoint  = "another endpoint"
	needsBase      = "another base address"
	needsEscape    = "an escaped character in the path"
	needsUpperPath = "upper-case letters in the address"
	needsLowerPath = "lower-case letters in the address"
	needsSpace     = "white space between the JSON tokens of the body"
	needsOrder     = "body fields that are not in alphabetical order"
	needsSlash     = "a slash in a text of the body"
	needsUnicode   = "letters that are not ASCII in the body"
	needsHTML      = "a <, > or & in the body"
	needsEscapes   = `an escape such as \/ or \u00e9 in the body`
	needsZero      = "an amount that ends in a zero, such as 10.50"
	needsWhole     = "a whole amount such as 100.00, and an amount such as 10.5"
	needsNested    = "an object inside the body"
	needsUpperBody = "upper-case letters in the body"
	needsLowerBody = "lower-case letters in the body"
)
