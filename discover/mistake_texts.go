package discover

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// candidate is a text that a client may have signed: a composition, or the scheme's text of a message with a piece in
// place of a part. Without both it is the expected text.
type candidate struct {
	composition *composition
	piece       *piece
	of          string // the part
	signed      []byte
	message     *paymentsvc.Message
}

// fill makes the catalogue.
func (e *explanation) fill() {
	c := emptyCatalogue(context.Background(), []*sample{{message: *e.message}}, e.Secret)
	e.catalogue = c
	c.fill(c.addMessage, c.addAddress, c.addBody, c.addHeaders, c.addSecret, e.addForms, e.addAltered)
}

// addForms adds the forms of parts that clients sign by mistake.
func (e *explanation) addForms() {
	forms := otherForms()
	for _, kind := range slices.Sorted(maps.Keys(forms)) {
		for _, text := range forms[kind] {
			const costOfJSON = 10
			if kind != ofBody || e.spend(costOfJSON*len(e.message.Body)) && e.left > maxBytes/2 {
				e.catalogue.add(piece{kind: kind, rarity: rare, text: text})
			}
		}
	}
}

// otherForms returns forms of parts in the text form of a scheme, the simplest first.
func otherForms() map[kind][]string {
	const most = 64
	bodies := append(make([]string, 0, most),
		`body "\n"`, `body "\r\n"`, `"\ufeff" body`, "body-compact", "body-sorted")
	for _, form := range []string{
		"", "spaces", "escape-slash", "escape-unicode", "escape-html", "escape-gson", "short-numbers", "java-numbers",
		"two-place-numbers", "quoted-numbers", "spaces, escape-unicode", "spaces, escape-unicode, python-numbers",
		"escape-slash, escape-unicode", "escape-slash, short-numbers", "escape-slash, escape-unicode, short-numbers",
		`indent("  ")`, `indent("    ")`, `indent("\t")`,
	} {
		bodies = append(bodies, "json("+form+")", "json("+strings.TrimSuffix("sorted, "+form, ", ")+")")
	}
	bodies = append(bodies,
		`json(indent("  ")) "\n"`, `json(indent("    ")) "\n"`, "fields('|')", "fields(unseparated)")
	for _, form := range []string{
		"", ", omit-nested", ", escape-form", ", flat('[]'), escape-form",
		", flat('[]'), escape-php, digit-constants, short-numbers",
	} {
		bodies = append(bodies, "fields(as-sent, '=', '&'"+form+")", "fields('=', '&'"+form+")")
	}
	return map[kind][]string{
		ofTimestamp: {
			`timestamp ".0"`, `timestamp "000000"`, `timestamp "000000000"`, `date("2006-01-02T15:04:05.000000Z")`,
			`date("2006-01-02T15:04:05.000+00:00")`, `date("2006-01-02T15:04:05+0000")`,
			`date("Mon Jan _2 15:04:05 2006")`, `date("02.01.2006 15:04:05")`, `""`,
		},
		ofMethod:  {`"GET"`, `""`},
		ofAddress: {`path "/"`, `"/" path`, `"/"`, `""`},
		ofBody:    bodies,
	}
}

// addAltered adds other timestamps and bodies, which have no text form.
func (e *explanation) addAltered() {
	add := func(kind kind, words, text string) {
		e.catalogue.add(piece{kind: kind, rarity: rare, text: "<" + words + ">", part: canonical.Literal(text)})
	}
	if sent, err := strconv.Atoi(e.message.Timestamp); err == nil {
		for n := -14; n <= 14; n++ { // time zones
			for _, seconds := range []int{n, n * 60 * 60} {
				add(ofTimestamp, fmt.Sprintf("timestamp %+d s", seconds), strconv.Itoa(sent+seconds))
			}
		}
	}
	add(ofBody, "empty body", "")
	add(ofBody, "body without its line end", strings.TrimRight(string(e.message.Body), "\r\n"))
	const most = 1 << 20
	if r, err := gzip.NewReader(bytes.NewReader(e.message.Body)); err == nil {
		plain, _ := io.ReadAll(io.LimitReader(r, most)) // a part of a body has another signature
		add(ofBody, "decompressed body", string(plain))
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(e.message.Body) // to memory
	_ = w.Close()
	add(ofBody, "body compressed with Go's gzip", packed.String())
}

// milliseconds returns the times in milliseconds within the second of the timestamp.
func (e *explanation) milliseconds() (list []*piece) {
	for n := range 1000 {
		part := canonical.Literal(fmt.Sprintf("%s%03d", e.message.Timestamp, n))
		list = append(list, &piece{kind: ofTimestamp, text: "<timestamp with milliseconds>", part: part})
	}
	return list
}

// otherKind returns a piece for the other kind of message.
func (e *explanation) otherKind() *piece {
	if e.message.Kind == paymentsvc.KindNotification {
		return &piece{kind: ofMark, text: "a request", part: canonical.Literal("")}
	}
	return &piece{kind: ofMark, text: "a notification", part: canonical.Literal("")}
}

// altered returns the scheme's texts of messages with one of the pieces.
func (e *explanation) altered(pieces ...*piece) (list []candidate) {
	for _, p := range pieces {
		text, err := p.part(nil, e.message)
		if err != nil || !e.spend(len(e.expected)) {
			continue
		}
		m := *e.message
		var of string
		switch p.kind {
		case ofTimestamp:
			of, m.Timestamp = "timestamp", string(text)
		case ofMethod:
			of, m.Method = "method", string(text)
		case ofBody:
			of, m.Body = "body", text
		case ofAddress:
			address := *m.URL // the part has read it
			address.RawPath = string(text)
			address.Path, err = url.PathUnescape(address.RawPath)
			of, m.URL = "path", &address
		case ofMark:
			of, m.Kind = "a request", paymentsvc.KindNotification
			if e.message.Kind == m.Kind {
				of, m.Kind = "a notification", paymentsvc.KindRequest
			}
		default:
			continue
		}
		signed, schemeErr := e.Scheme.Canonical(nil, &m)
		if err == nil && schemeErr == nil && !bytes.Equal(signed, e.expected) {
			list = append(list, candidate{piece: p, of: of, message: &m, signed: signed})
		}
	}
	return list
}

// in returns the text form of a scheme with the piece in place of the part.
func (c *candidate) in(scheme string) string {
	part := regexp.MustCompile(`([( ])` + c.of + `([) ])`)
	return part.ReplaceAllString(scheme, "${1}"+strings.ReplaceAll(c.piece.text, "$", "$$")+"${2}")
}

// edited returns the compositions that differ from the text form of the scheme in their separators, or in one part.
func (e *explanation) edited() (list []candidate) {
	right := e.parts()
	if right == nil {
		return nil
	}
	edit := func(change func(*composition)) {
		c := *right
		c.pieces, c.gaps = slices.Clone(c.pieces), slices.Clone(c.gaps)
		change(&c)
		list = append(list, e.composed(&c)...)
	}
	for _, gap := range separators(allSeparators) {
		edit(func(c *composition) { c.gaps = repeated(gap, len(c.pieces)) })
	}
	between := separators(fewSeparators)
	if len(right.gaps) > 0 {
		between = []string{right.gaps[0]}
	}
	for _, gap := range append(between, "\n") {
		edit(func(c *composition) { c.trail += gap })
		edit(func(c *composition) { c.lead = gap + c.lead })
	}
	for i, part := range right.pieces {
		if at := min(i, len(right.gaps)-1); at >= 0 {
			edit(func(c *composition) {
				c.pieces, c.gaps = slices.Delete(c.pieces, i, i+1), slices.Delete(c.gaps, at, at+1)
			})
		}
		for j := range i {
			edit(func(c *composition) { c.pieces[i], c.pieces[j] = c.pieces[j], c.pieces[i] })
		}
		for _, p := range e.catalogue.plainPieces(uncommon, ofBody) {
			if strings.Contains(part.text, "body") {
				edit(func(c *composition) { c.pieces[i] = p })
			}
		}
	}
	for _, p := range e.catalogue.plainPieces(common) {
		for i := range len(right.pieces) + 1 {
			for _, gap := range between {
				if at := min(i, len(right.gaps)); p.texts[0] != "" {
					edit(func(c *composition) {
						c.pieces, c.gaps = slices.Insert(c.pieces, i, p), slices.Insert(c.gaps, at, gap)
					})
				}
			}
		}
	}
	return list
}

// composed returns a composition as a candidate, or an empty list if there is no time left.
func (e *explanation) composed(c *composition) []candidate {
	text, err := c.text(0)
	if err != nil || !e.spend(len(text)) {
		return nil
	}
	return []candidate{{composition: c, signed: []byte(text)}}
}

// schemeTokens are quoted texts, brackets, white space and the rest.
var schemeTokens = regexp.MustCompile(`"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[()]|\s+|[^\s()"']+`)

// parts returns the text form of the scheme as a composition, or nil for a text form without such parts.
func (e *explanation) parts() *composition {
	text, notification, _ := strings.Cut(strings.TrimPrefix(e.Text, "request "), ", notification ")
	if notification != "" && e.message.Kind == paymentsvc.KindNotification {
		text = notification
	}
	encoding := simpleEncoding.FindString(text)
	if encoding == "" {
		return nil
	}
	parts, depth := []string{""}, 0
	for _, token := range schemeTokens.FindAllString(text[len(encoding):strings.LastIndexByte(text, ')')], -1) {
		switch {
		case token == "(":
			depth++
		case token == ")":
			depth--
		case depth == 0 && strings.TrimSpace(token) == "":
			parts = append(parts, "")
			continue
		}
		parts[len(parts)-1] += token
	}
	c, gap := &composition{}, ""
	for _, part := range parts {
		p := e.catalogue.read(piece{kind: ofWord, text: part}) // a part without the body
		if p == nil {
			p = e.catalogue.read(piece{kind: ofBody, text: part})
		}
		switch {
		case p == nil:
			return nil
		case strings.ContainsAny(part[:1], `"'`):
			gap += p.texts[0]
			continue
		case len(c.pieces) == 0:
			c.lead = gap
		default:
			c.gaps = append(c.gaps, gap)
		}
		c.pieces, gap = append(c.pieces, p), ""
	}
	c.trail = gap
	return c
}
