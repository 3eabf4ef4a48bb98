package discover

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// kind is what a piece is taken from. A composition has at most one piece of each group. Each kind is one group, but
// for headers, fields and words.
type kind int

const (
	ofTimestamp kind = iota
	ofMethod
	ofAddress
	ofBody
	ofQuery
	ofHost
	ofSecret
	ofMark // a usual fixed word, such as a version
	ofNothing
	ofHeader
	ofField
	ofWord // a word of Options.Words
)

// core reports whether nearly every service signs something of this kind.
func (k kind) core() bool { return k <= ofBody }

// ofBody reports whether the body or a field of it is signed.
func (k kind) ofBody() bool { return k == ofBody || k == ofField }

// The rarity of a piece: common ones are tried in longer compositions. Pieces that only explain make no text of their
// own; they are named when a match is explained.
const (
	common = iota
	uncommon
	rare
	onlyExplains
)

// shelf says which search takes a piece.
type shelf int

const (
	plain      shelf = iota
	lists            // all fields of the body
	equalsSign       // labelled, as in timestamp=1700000000
	colon            // labelled, as in timestamp:1700000000
)

// piece is a part, written as in the text form of a scheme, and the text that it makes of every sample.
type piece struct {
	group      int
	kind       kind
	rarity     int
	shelf      shelf
	identity   bool     // names the caller or the call, as long compositions do
	names      []string // of a header or field
	cost       int      // how far from simple
	text, desc string
	stamped    bool     // the timestamp is in it, though it is not of its kind
	needs      []string // what a sample must have to tell the piece from a simpler one
	part       paymentsvc.CanonicalFunc
	shape      shape
	texts      []string // by sample
	key        string   // see id
}

// catalogue is the pieces that exist in every sample.
type catalogue struct {
	ctx     context.Context // of Find; nothing is added after its end
	samples []*sample
	secret  paymentsvc.Secret
	pieces  []*piece
	groups  map[string]int // header, field and word groups by name
	next    int
	err     error // of a piece that the text form cannot say, which is a mistake in the catalogue
}

func newCatalogue(ctx context.Context, samples []*sample, secret paymentsvc.Secret, words []string) *catalogue {
	c := &catalogue{ctx: ctx, samples: samples, secret: secret, groups: map[string]int{}, next: int(ofHeader)}
	c.addMessage()
	c.addAddress()
	c.addBody()
	c.addJSON()
	c.addLists()
	c.addHeaders()
	c.addFields()
	c.addSecret()
	c.addWords(words)
	c.addLabelled(equalsSign, "=")
	c.addLabelled(colon, ":")
	return c
}

// add adds a piece if every sample has it, and reports whether it did.
func (c *catalogue) add(p piece) bool {
	if c.ctx.Err() != nil {
		return false
	}
	if c.showsSecret(p.text) {
		return false // the results must not hold it
	}
	scheme, _, err := canonical.ParseSchemeWith(schemeText("hex", p.text, canonical.SecretText, p.kind.ofBody()), c.secret)
	if err != nil {
		c.err = err
		return false
	}
	p.part = scheme.Canonical
	for _, s := range c.samples {
		text, err := p.part(nil, &s.message)
		if err != nil {
			return false
		}
		p.texts = append(p.texts, string(text))
	}
	if p.kind < ofHeader {
		p.group = int(p.kind)
	}
	c.pieces = append(c.pieces, &p)
	return true
}

// showsSecret reports whether the secret is in a text. A secret of a few letters may be there by chance.
func (c *catalogue) showsSecret(text string) bool {
	return len(c.secret) >= 8 && strings.Contains(text, string(c.secret))
}

// group returns the group of a header, field or word.
func (c *catalogue) group(name string) int {
	if _, known := c.groups[name]; !known {
		c.groups[name] = c.next
		c.next++
	}
	return c.groups[name]
}

const (
	needsMethod     = "another method (every operation of the interface document is a POST)"
	needsQuery      = "a query in the address"
	needsEndpoint   = "another endpoint"
	needsBase       = "another base address"
	needsEscape     = "an escaped character in the path"
	needsUpperPath  = "upper-case letters in the address"
	needsLowerPath  = "lower-case letters in the address"
	needsSpace      = "white space between the JSON tokens of the body"
	needsOrder      = "body fields that are not in alphabetical order"
	needsSlash      = "a slash in a text of the body"
	needsUnicode    = "letters that are not ASCII in the body"
	needsHTML       = "a <, > or & in the body"
	needsZero       = "an amount that ends in a zero, such as 10.50"
	needsNested     = "an object inside the body"
	needsEmpty      = "an empty or null field in the body"
	needsFormEscape = "a body value with a space, a slash or another character that HTML forms escape"
	needsUpperBody  = "upper-case letters in the body"
	needsLowerBody  = "lower-case letters in the body"
)

func (c *catalogue) addMessage() {
	stamped := !slices.ContainsFunc(c.samples, func(s *sample) bool { return s.message.Timestamp == "" })
	if stamped {
		c.add(piece{kind: ofTimestamp, shape: timestampShape(), cost: 1, text: "timestamp", desc: "timestamp"})
	}
	method := shape{form: fixedText} // a notification comes by POST
	c.add(piece{kind: ofMethod, shape: method, cost: 1, text: "method", desc: "method"})
	c.add(piece{kind: ofMethod, shape: method, cost: 2, text: "lower(method)", desc: "method in lower case"})
	c.addFixed(ofMethod, c.samples[0].message.Method, needsMethod)
}

// addFixed adds a fixed text, which cannot be told from a part that makes the same text of every sample.
func (c *catalogue) addFixed(k kind, text, need string) {
	if text == "" {
		return
	}
	c.add(piece{
		kind: k, shape: shape{form: fixedText}, rarity: onlyExplains, cost: 8, needs: []string{need},
		text: strconv.Quote(text), desc: fmt.Sprintf("fixed text %q", text),
	})
}

// addHeaders adds the headers that a Signer can know, and not those that net/http or a proxy adds.
func (c *catalogue) addHeaders() {
	onTheWay := []string{
		"Accept-Encoding", "Connection", "Content-Length", "Expect", "Forwarded", "Host", "Keep-Alive", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Via", "X-Real-Ip", "Signature", "Timestamp",
	}
	usual := []string{"Accept", "Accept-Language", "Cache-Control", "Pragma", "User-Agent", "Content-Encoding"}
	names := make([]string, 0, len(c.samples[0].message.Header))
	for name := range c.samples[0].message.Header {
		switch {
		case name != http.CanonicalHeaderKey(name), slices.Contains(onTheWay, name),
			strings.HasPrefix(name, "X-Forwarded-"), strings.HasPrefix(name, "Cf-"), strings.HasPrefix(name, "Sec-"):
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		rarity, identity := common, name != "Content-Type"
		if slices.Contains(usual, name) {
			rarity, identity = rare, false
		}
		c.add(piece{
			kind: ofHeader, group: c.group("header " + name), rarity: rarity, identity: identity, cost: 2,
			names: []string{name}, shape: shape{has: isHeaderByte},
			text: fmt.Sprintf("header(%q)", name), desc: "header " + name,
		})
	}
}

func (c *catalogue) addSecret() {
	fixed := shape{form: fixedText}
	c.add(piece{kind: ofSecret, shape: fixed, cost: 3, identity: true, text: "secret", desc: "secret"})
	for _, label := range []string{"key=", "secret=", "secret_key="} {
		c.add(piece{kind: ofSecret, shape: fixed, rarity: uncommon, cost: 4, text: fmt.Sprintf("%q secret", label), desc: label + " and secret"})
	}
}

func (c *catalogue) addWords(words []string) {
	word := func(p piece, text string) {
		p.shape, p.needs = shape{form: fixedText}, []string{"other values"}
		p.text, p.desc = strconv.Quote(text), fmt.Sprintf("text %q", text)
		c.add(p)
	}
	for _, text := range words {
		word(piece{kind: ofWord, group: c.group("word " + text), identity: true, cost: 4}, text)
	}
	for _, mark := range []string{"v0", "v1", "v2", "1", "HMAC-SHA256", "hmac-sha256", "sha256"} {
		word(piece{kind: ofMark, rarity: uncommon, cost: 5}, mark)
	}
}

// addLabelled adds the plain pieces with a label before them.
func (c *catalogue) addLabelled(on shelf, equals string) {
	for _, p := range slices.Clone(c.pieces) {
		if p.shelf != plain || p.rarity > uncommon || p.kind == ofBody && p.cost > 2 || p.kind == ofAddress && p.cost > 3 {
			continue
		}
		for i, name := range labelsOf(p) {
			labelled := *p
			labelled.shelf, labelled.texts = on, nil
			labelled.rarity = max(p.rarity, min(i, uncommon))
			labelled.shape.label = name + equals + p.shape.label
			labelled.cost = p.cost + 1 + i
			labelled.text = fmt.Sprintf("%q %s", name+equals, p.text)
			labelled.desc = name + equals + " and " + p.desc
			c.add(labelled)
		}
	}
}

// labelsOf returns the labels that services put before a piece, the likeliest first.
func labelsOf(p *piece) []string {
	switch p.kind {
	case ofTimestamp:
		return []string{"timestamp", "ts", "t", "time"}
	case ofMethod:
		return []string{"method"}
	case ofAddress:
		return []string{"path", "uri", "url"}
	case ofBody:
		return []string{"body", "data", "payload"}
	case ofQuery:
		return []string{"query"}
	case ofHost:
		return []string{"host"}
	case ofSecret:
		if p.rarity == common { // the others have a label already
			return []string{"secret", "key", "secret_key"}
		}
	case ofHeader:
		name := strings.ToLower(p.names[0])
		if short := strings.TrimPrefix(name, "x-"); short != name {
			return []string{name, short}
		}
		return []string{name}
	case ofField:
		last := p.names[len(p.names)-1]
		if len(p.names) > 1 {
			return []string{strings.Join(p.names, "."), last}
		}
		return []string{last}
	}
	return nil
}
