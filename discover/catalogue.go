package discover

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// kind is what a piece is taken from. A composition takes at most one piece of each group, and each kind but
// headers, fields and words is one group.
type kind int

const (
	ofTimestamp kind = iota
	ofMethod
	ofAddress
	ofBody
	ofQuery
	ofHost
	ofSecret
	ofMark // a fixed word that services are known to use, such as a version
	ofNothing
	ofHeader
	ofField
	ofWord // a word of Options.Words
)

// core says whether nearly every service signs something of this kind.
func (k kind) core() bool { return k <= ofBody }

// Rarities of a piece. The search tries the common ones in longer compositions than the rare ones. What only
// explains makes no text that another piece does not make: it is named when a match is explained.
const (
	common = iota
	uncommon
	rare
	onlyExplains
)

// shelf is which search takes a piece.
type shelf int

const (
	plain      shelf = iota
	lists            // all fields of the body
	equalsSign       // labelled, as in timestamp=1700000000
	colon            // labelled, as in timestamp:1700000000
)

// piece is a part as the search sees it: with its Go expression, and the text it makes of every sample.
type piece struct {
	group      int
	kind       kind
	rarity     int
	shelf      shelf
	identity   bool     // names the caller or the call, which longer compositions are more likely to hold
	names      []string // of a header or field
	cost       int      // how far from simple
	expr, desc string
	needs      []string // what a sample must have for the piece to differ from its plainer kin
	part       paymentsvc.CanonicalFunc
	texts      []string // by sample
	key        string   // see id
}

// catalogue is the pieces that exist in every sample.
type catalogue struct {
	ctx     context.Context // of the call to Find; once it has ended, nothing is added
	samples []*sample
	secret  string
	pieces  []*piece
	groups  map[string]int // header, field and word groups by name
	next    int
}

func newCatalogue(ctx context.Context, samples []*sample, secret paymentsvc.Secret, words []string) *catalogue {
	c := &catalogue{ctx: ctx, samples: samples, secret: string(secret), groups: map[string]int{}, next: int(ofHeader)}
	c.addMessage()
	c.addAddress()
	c.addBody()
	c.addJSON()
	c.addLists()
	c.addHeaders()
	c.addFields()
	c.addSecret(secret)
	c.addWords(words)
	c.addLabelled(equalsSign, "=")
	c.addLabelled(colon, ":")
	return c
}

// add takes a piece into the catalogue where every sample has it.
func (c *catalogue) add(p piece) bool {
	if c.ctx.Err() != nil {
		return false
	}
	if len(c.secret) >= secretToFind && strings.Contains(p.expr, c.secret) {
		return false // an address or a word that holds the secret must not carry it into the results
	}
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

// secretToFind is the length from which on a text is taken for the secret rather than for a coincidence.
const secretToFind = 8

// group gives the group of a header, field or word.
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
		c.add(piece{kind: ofTimestamp, cost: 1, part: canonical.Timestamp, expr: "canonical.Timestamp", desc: "timestamp"})
	}
	c.add(piece{kind: ofMethod, cost: 1, part: canonical.Method, expr: "canonical.Method", desc: "method"})
	c.add(piece{kind: ofMethod, cost: 2, part: canonical.Lower(canonical.Method), expr: "canonical.Lower(canonical.Method)", desc: "method in lower case"})
	c.addFixed(ofMethod, c.samples[0].message.Method, needsMethod)
}

// addFixed adds a fixed text, which cannot be told from a part that makes the same text of every sample.
func (c *catalogue) addFixed(k kind, text, need string) {
	c.add(piece{
		kind: k, rarity: onlyExplains, cost: 8, needs: []string{need}, part: canonical.Literal(text),
		expr: fmt.Sprintf("canonical.Literal(%q)", text), desc: fmt.Sprintf("fixed text %q", text),
	})
}

func (c *catalogue) addAddress() {
	address := func(rarity, cost int, part paymentsvc.CanonicalFunc, expr, desc string, needs ...string) {
		c.add(piece{kind: ofAddress, rarity: rarity, cost: cost, part: part, expr: expr, desc: desc, needs: needs})
	}
	address(common, 1, canonical.Path, "canonical.Path", "path")
	address(common, 2, canonical.RequestURI, "canonical.RequestURI", "path with the query", needsQuery)
	address(common, 3, canonical.PathBelow("/"), `canonical.PathBelow("/")`, "the path without its first slash")
	address(common, 3, canonical.URL, "canonical.URL", "address", needsQuery)
	address(uncommon, 5, canonical.Join("", canonical.Host, canonical.Path), `canonical.Join("", canonical.Host, canonical.Path)`, "the host and path")
	address(uncommon, 6, canonical.Join("", canonical.Host, canonical.RequestURI), `canonical.Join("", canonical.Host, canonical.RequestURI)`, "the host, path and query", needsQuery)
	for _, scheme := range []string{"https://", "http://"} {
		address(uncommon, 6, canonical.Join("", canonical.Literal(scheme), canonical.Host, canonical.RequestURI),
			fmt.Sprintf(`canonical.Join("", canonical.Literal(%q), canonical.Host, canonical.RequestURI)`, scheme),
			fmt.Sprintf("%s, host, path and query", scheme), needsQuery)
		address(uncommon, 6, canonical.Join("", canonical.Literal(scheme), canonical.Host, canonical.Path),
			fmt.Sprintf(`canonical.Join("", canonical.Literal(%q), canonical.Host, canonical.Path)`, scheme),
			fmt.Sprintf("%s, host and path", scheme))
	}
	for _, base := range c.basesOfPath() {
		address(uncommon, 3, canonical.PathBelow(base), fmt.Sprintf("canonical.PathBelow(%q)", base),
			"path below "+base, needsBase)
		address(uncommon, 4, canonical.PathBelow(base+"/"), fmt.Sprintf("canonical.PathBelow(%q)", base+"/"),
			"path below "+base+"/", needsBase)
	}
	address(rare, 3, canonical.DecodedPath, "canonical.DecodedPath", "path with its escapes decoded", needsEscape)
	address(rare, 4, canonical.Lower(canonical.Path), "canonical.Lower(canonical.Path)", "path in lower case", needsUpperPath)
	address(rare, 4, canonical.Upper(canonical.Path), "canonical.Upper(canonical.Path)", "path in upper case", needsLowerPath)
	address(rare, 5, canonical.Lower(canonical.URL), "canonical.Lower(canonical.URL)", "address in lower case", needsUpperPath, needsQuery)

	query := func(rarity, cost int, part paymentsvc.CanonicalFunc, expr, desc string, needs ...string) {
		c.add(piece{kind: ofQuery, rarity: rarity, cost: cost, part: part, expr: expr, desc: desc, needs: needs})
	}
	query(common, 2, canonical.Query, "canonical.Query", "query")
	query(uncommon, 3, canonical.SortedQuery, "canonical.SortedQuery", "sorted query", "a query that is not sorted")
	c.add(piece{kind: ofHost, rarity: common, cost: 2, part: canonical.Host, expr: "canonical.Host", desc: "host"})

	for _, fixed := range []struct {
		kind       kind
		part       paymentsvc.CanonicalFunc
		text, need string
	}{{ofAddress, canonical.Path, "", needsEndpoint}, {ofAddress, canonical.PathBelow("/"), "", needsEndpoint}, {ofHost, canonical.Host, "", "another host"}} {
		if text, err := fixed.part(nil, &c.samples[0].message); err == nil && len(text) > 0 {
			c.addFixed(fixed.kind, string(text), fixed.need)
		}
	}
	c.add(piece{kind: ofNothing, cost: 5, part: canonical.Literal(""), expr: `canonical.Literal("")`, desc: "nothing", needs: []string{needsQuery}})
}

// basesOfPath gives the paths above the first sample's, such as /api and /api/v1 for /api/v1/get_balance.
func (c *catalogue) basesOfPath() (bases []string) {
	path, _ := canonical.Path(nil, &c.samples[0].message) // empty if the message has no address
	for i := 1; i < len(path) && len(bases) < 8; i++ {
		if path[i] == '/' {
			bases = append(bases, string(path[:i]))
		}
	}
	return bases
}

func (c *catalogue) addBody() {
	body := func(rarity, cost int, part paymentsvc.CanonicalFunc, expr, desc string, needs ...string) {
		c.add(piece{kind: ofBody, rarity: rarity, cost: cost, part: part, expr: expr, desc: desc, needs: needs})
	}
	body(common, 1, canonical.Body, "canonical.Body", "body")
	body(common, 2, canonical.BodySHA256, "canonical.BodySHA256", "SHA-256 of the body in hexadecimal")
	body(uncommon, 4, canonical.Encode(base64.StdEncoding, canonical.Body), "canonical.Encode(base64.StdEncoding, canonical.Body)", "body in base64")
	body(rare, 5, canonical.Encode(base64.URLEncoding, canonical.Body), "canonical.Encode(base64.URLEncoding, canonical.Body)",
		"the body in base64 of the URL alphabet", "another body")
	body(rare, 5, canonical.Encode(paymentsvc.Hex, canonical.Body), "canonical.Encode(paymentsvc.Hex, canonical.Body)", "body in hexadecimal")
	body(rare, 5, canonical.Lower(canonical.Body), "canonical.Lower(canonical.Body)", "body in lower case", needsUpperBody)
	body(rare, 5, canonical.Upper(canonical.Body), "canonical.Upper(canonical.Body)", "body in upper case", needsLowerBody)

	type source struct {
		rarity, cost int
		part         paymentsvc.CanonicalFunc
		expr, desc   string
		needs        []string
	}
	for _, of := range []source{
		{uncommon, 0, canonical.Body, "canonical.Body", "body", nil},
		{rare, 2, canonical.BodyCompact, "canonical.BodyCompact", "body without white space", []string{needsSpace}},
		{rare, 2, canonical.BodySorted, "canonical.BodySorted", "body with sorted fields", []string{needsOrder, needsSpace}},
		{rare, 3, canonical.Join("", canonical.Timestamp, canonical.Body), `canonical.Join("", canonical.Timestamp, canonical.Body)`, "the timestamp and body", nil},
	} {
		for _, d := range []struct {
			name, desc string
			digest     func(paymentsvc.Encoding, paymentsvc.CanonicalFunc) paymentsvc.CanonicalFunc
			rarity     int
		}{{"SHA256", "SHA-256", canonical.SHA256, common}, {"MD5", "MD5", canonical.MD5, common}, {"SHA512", "SHA-512", canonical.SHA512, uncommon}, {"SHA1", "SHA-1", canonical.SHA1, rare}} {
			for i, e := range []spelling{
				{paymentsvc.Hex, "paymentsvc.Hex", "hexadecimal"},
				{base64.StdEncoding, "base64.StdEncoding", "base64"},
				{canonical.Raw, "canonical.Raw", "32 bytes as they are"},
				{paymentsvc.HexUpper, "paymentsvc.HexUpper", "upper-case hexadecimal"},
				{base64.RawURLEncoding, "base64.RawURLEncoding", "base64 of the URL alphabet without padding"},
			} {
				if i > 3 && d.name != "SHA256" {
					continue
				}
				rarity := max(of.rarity, d.rarity)
				if i > 3 {
					rarity = rare
				}
				desc := fmt.Sprintf("%s of the %s in %s", d.desc, of.desc, e.desc)
				if e.encoding == canonical.Raw {
					desc = fmt.Sprintf("bytes of the %s of the %s", d.desc, of.desc)
				}
				body(rarity, 3+of.cost+i, d.digest(e.encoding, of.part), fmt.Sprintf("canonical.%s(%s, %s)", d.name, e.expr, of.expr), desc, of.needs...)
			}
		}
	}
}

// addJSON adds the ways to write the body's JSON anew.
func (c *catalogue) addJSON() {
	c.add(piece{kind: ofBody, rarity: common, cost: 3, part: canonical.BodyCompact, expr: "canonical.BodyCompact", desc: "body without white space", needs: []string{needsSpace}})
	c.add(piece{kind: ofBody, rarity: common, cost: 3, part: canonical.BodySorted, expr: "canonical.BodySorted", desc: "body with sorted fields", needs: []string{needsSpace, needsOrder}})
	type option struct {
		field, desc, need string
		set               func(*canonical.JSONForm)
	}
	options := []option{
		{"Sort", "sorted", needsOrder, func(f *canonical.JSONForm) { f.Sort = true }},
		{"Spaces", "with spaces", needsSpace, func(f *canonical.JSONForm) { f.Spaces = true }},
		{"EscapeSlash", "with escaped slashes", needsSlash, func(f *canonical.JSONForm) { f.EscapeSlash = true }},
		{"EscapeUnicode", "with everything but ASCII escaped", needsUnicode, func(f *canonical.JSONForm) { f.EscapeUnicode = true }},
		{"EscapeHTML", "with <, > and & escaped", needsHTML, func(f *canonical.JSONForm) { f.EscapeHTML = true }},
		{"ShortNumbers", "with numbers read as float64", needsZero, func(f *canonical.JSONForm) { f.ShortNumbers = true }},
	}
	for chosen := range 1 << len(options) {
		var form canonical.JSONForm
		var fields, words []string
		needs := []string{needsSpace}
		for i, o := range options {
			if chosen>>i&1 == 0 {
				continue
			}
			o.set(&form)
			fields = append(fields, o.field+": true")
			words = append(words, o.desc)
			needs = append(needs, o.need)
		}
		rarity := uncommon
		if len(fields) > 3 {
			rarity = rare
		}
		c.add(piece{
			kind: ofBody, rarity: rarity, cost: 4 + len(fields), needs: needs, part: canonical.BodyJSON(form),
			expr: fmt.Sprintf("canonical.BodyJSON(canonical.JSONForm{%s})", strings.Join(fields, ", ")),
			desc: strings.TrimSuffix("body's JSON written anew, "+strings.Join(words, ", "), ", "),
		})
	}
}

// addLists adds the ways to write all fields of the body.
func (c *catalogue) addLists() {
	names, ok := c.topLevelNames()
	if !ok {
		return
	}
	for i, between := range []string{"&", "|", "", ":", ";", ",", "\n", ".", " ", "-", "_", "/", "+", "{np}", "~", "#", "*", "::", "||", ", "} {
		if i >= 6 && c.large() {
			break
		}
		for _, pair := range []struct {
			names  bool
			equals string
		}{{false, ""}, {true, "="}, {true, ":"}, {true, ""}} {
			base := canonical.FieldList{Names: pair.names, Equals: pair.equals, Between: between}
			c.addList(base)
			c.addOrders(base)
			if c.large() || len(names) > fieldsTried {
				continue
			}
			for _, name := range names {
				omit := base
				omit.Omit = []string{name}
				c.addList(omit)
			}
		}
	}
}

// addOrders adds l in both orders, with what is nested treated in every way.
func (c *catalogue) addOrders(base canonical.FieldList) {
	paths := []string{""}
	if base.Names {
		paths = []string{".", "[]", "_", ":", "/", ""}
	}
	for _, asSent := range []bool{false, true} {
		for _, omitEmpty := range []bool{false, true} {
			l := base
			l.AsSent, l.OmitEmpty = asSent, omitEmpty
			if asSent || omitEmpty {
				c.addList(l)
			}
			l.Nested = canonical.NestedOmitted
			c.addList(l)
			l.Nested = canonical.NestedFlat
			for _, path := range paths {
				l.Path = path
				c.addList(l)
				if base.Equals == "=" && base.Between == "&" {
					escaped := l
					escaped.Escape = true
					c.addList(escaped)
				}
			}
		}
	}
}

func (c *catalogue) addList(l canonical.FieldList) {
	var fields, needs []string
	cost, desc := 4, "values of all fields of the body"
	set := func(text string, extra int, need string) {
		fields = append(fields, text)
		cost += extra
		if need != "" {
			needs = append(needs, need)
		}
	}
	if l.Names {
		set("Names: true", 0, "")
		desc = fmt.Sprintf("all fields of the body as name%svalue", l.Equals)
	}
	if l.Equals != "" {
		set(fmt.Sprintf("Equals: %q", l.Equals), 0, "")
	}
	if l.Between != "" {
		set(fmt.Sprintf("Between: %q", l.Between), 0, "")
		desc += fmt.Sprintf(", %q between", l.Between)
	}
	if l.AsSent {
		set("AsSent: true", 1, needsOrder)
		desc += ", in the order of the body"
	} else {
		desc += ", sorted by name"
	}
	switch l.Nested {
	case canonical.NestedJSON:
	case canonical.NestedOmitted:
		set("Nested: canonical.NestedOmitted", 2, needsNested)
		desc += ", no nested ones"
	case canonical.NestedFlat:
		set("Nested: canonical.NestedFlat", 2, needsNested)
		desc += ", nested ones level by level"
		if l.Path != "" {
			set(fmt.Sprintf("Path: %q", l.Path), 1, "")
		}
	}
	if l.OmitEmpty {
		set("OmitEmpty: true", 2, needsEmpty)
		desc += ", no empty ones"
	}
	if l.Escape {
		set("Escape: true", 2, needsFormEscape)
		desc += ", escaped as in a form"
	}
	if len(l.Omit) > 0 {
		set(fmt.Sprintf("Omit: []string{%q}", l.Omit[0]), 4, "")
		desc += fmt.Sprintf(", without %q", l.Omit[0])
	}
	c.add(piece{
		kind: ofBody, shelf: lists, cost: cost, needs: needs, part: canonical.Fields(l), desc: desc,
		expr: fmt.Sprintf("canonical.Fields(canonical.FieldList{%s})", strings.Join(fields, ", ")),
	})
}

// large says whether the bodies are too large to write them in a thousand ways.
func (c *catalogue) large() bool {
	return slices.ContainsFunc(c.samples, func(s *sample) bool { return len(s.message.Body) > 4<<10 })
}

// addHeaders adds the headers that a Signer can know: not those that net/http or a proxy adds on the way.
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
			kind: ofHeader, group: c.group("header " + name), rarity: rarity, identity: identity, cost: 2, part: canonical.Header(name),
			names: []string{name},
			expr:  fmt.Sprintf("canonical.Header(%q)", name), desc: "header " + name,
		})
	}
}

func (c *catalogue) addSecret(secret paymentsvc.Secret) {
	c.add(piece{kind: ofSecret, cost: 3, identity: true, part: canonical.Secret(secret), expr: "canonical.Secret(secret)", desc: "secret"})
	for _, label := range []string{"key=", "secret=", "secret_key="} {
		c.add(piece{
			kind: ofSecret, rarity: uncommon, cost: 4, part: canonical.Labelled(label, canonical.Secret(secret)),
			expr: fmt.Sprintf("canonical.Labelled(%q, canonical.Secret(secret))", label), desc: label + " and secret",
		})
	}
}

func (c *catalogue) addWords(words []string) {
	for _, word := range words {
		c.add(piece{
			kind: ofWord, group: c.group("word " + word), identity: true, cost: 4, part: canonical.Literal(word), needs: []string{"other values"},
			expr: fmt.Sprintf("canonical.Literal(%q)", word), desc: fmt.Sprintf("text %q", word),
		})
	}
	for _, mark := range []string{"v0", "v1", "v2", "1", "HMAC-SHA256", "hmac-sha256", "sha256"} {
		c.add(piece{
			kind: ofMark, rarity: uncommon, cost: 5, part: canonical.Literal(mark), needs: []string{"other values"},
			expr: fmt.Sprintf("canonical.Literal(%q)", mark), desc: fmt.Sprintf("text %q", mark),
		})
	}
}

// addLabelled adds the plain pieces behind their names.
func (c *catalogue) addLabelled(on shelf, equals string) {
	for _, p := range slices.Clone(c.pieces) {
		if p.shelf != plain || p.rarity > uncommon || p.kind == ofBody && p.cost > 2 || p.kind == ofAddress && p.cost > 3 {
			continue
		}
		for i, name := range labelsOf(p) {
			labelled := *p
			labelled.shelf, labelled.texts = on, nil
			labelled.rarity = max(p.rarity, min(i, uncommon))
			labelled.cost = p.cost + 1 + i
			labelled.part = canonical.Labelled(name+equals, p.part)
			labelled.expr = fmt.Sprintf("canonical.Labelled(%q, %s)", name+equals, p.expr)
			labelled.desc = name + equals + " and " + p.desc
			c.add(labelled)
		}
	}
}

// labelsOf gives the names that services put before a piece, the likeliest first.
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
