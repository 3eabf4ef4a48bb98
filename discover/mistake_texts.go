package discover

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// fill makes the catalogue.
func (e *explanation) fill() {
	s := &sample{message: *e.message}
	c := emptyCatalogue(context.Background(), []*sample{s}, e.explainer.Secret)
	e.catalogue = c
	c.fill(c.addMessage, c.addAddress, c.addBody, c.addHeaders, c.addSecret, e.addForms)
}

// addForms adds the forms of parts that clients sign by mistake.
func (e *explanation) addForms() {
	words := func(kind kind, words, text string, err error) {
		if err == nil {
			e.catalogue.add(piece{kind: kind, rarity: rare, text: "<" + words + ">", part: canonical.Literal(text)})
		}
	}
	if seconds, err := strconv.ParseInt(e.message.Timestamp, 10, 64); err == nil {
		for _, unit := range []struct{ seconds, most int64 }{{1, 5}, {60 * 60, 14}} {
			for n := -unit.most; n <= unit.most; n++ {
				words(ofTimestamp, fmt.Sprintf("timestamp %+d s", n*unit.seconds), strconv.FormatInt(seconds+n*unit.seconds, 10), nil)
			}
		}
	}
	body := string(e.message.Body)
	words(ofBody, "empty body", "", nil)
	words(ofBody, "body without its line end", strings.TrimRight(body, "\r\n"), nil)
	plain, err := decompressed(e.message.Body)
	words(ofBody, "decompressed body", string(plain), err)
	for _, level := range []int{gzip.DefaultCompression, gzip.BestCompression, gzip.BestSpeed} {
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, level)
		_, _ = w.Write(e.message.Body) // to memory
		_ = w.Close()
		words(ofBody, "body compressed with gzip", packed.String(), err)
	}
	forms := otherForms()
	for _, kind := range slices.Sorted(maps.Keys(forms)) {
		for _, text := range forms[kind] {
			const costOfJSON = 10
			if e.left -= costOfJSON * len(body); kind != ofBody || e.left > maxHashed/2 {
				e.catalogue.add(piece{kind: kind, rarity: rare, text: text})
			}
		}
	}
}

// otherForms returns the forms of parts in the text form of a scheme, the most common first.
func otherForms() map[kind][]string {
	bodies := []string{`body "\n"`, `body "\r\n"`, `"\ufeff" body`, "body-compact", "body-sorted"}
	for _, form := range []string{
		"", "spaces", "escape-slash", "escape-unicode", "escape-html", "escape-gson", "short-numbers", "java-numbers",
		"two-place-numbers", "quoted-numbers", "spaces, escape-unicode", "spaces, escape-unicode, python-numbers",
		"escape-slash, escape-unicode", "escape-slash, short-numbers", "escape-slash, escape-unicode, short-numbers",
		`indent("  ")`, `indent("    ")`, `indent("\t")`,
	} {
		bodies = append(bodies, "json("+form+")", "json("+strings.TrimSuffix("sorted, "+form, ", ")+")")
	}
	bodies = append(bodies, `json(indent("  ")) "\n"`, `json(indent("    ")) "\n"`, "fields('|')", "fields(unseparated)")
	for _, form := range []string{
		"", ", omit-nested", ", escape-form", ", flat('[]'), escape-php, digit-constants, short-numbers", ", flat('[]'), escape-form",
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

// decompressed returns the text of a body compressed with gzip.
func decompressed(body []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	const most = 1 << 20
	return io.ReadAll(io.LimitReader(r, most))
}

// simple returns the compositions of one or two plain parts.
func (e *explanation) simple() (list []candidate) {
	add := func(c composition) {
		if signed, err := c.canonical(e.message); err == nil {
			list = append(list, candidate{composition: &c, signed: signed})
		}
	}
	pieces := slices.DeleteFunc(e.catalogue.plainPieces(common, coreKinds()...), func(p *piece) bool {
		return !slices.Contains([]string{"timestamp", "method", "path", "body"}, p.text)
	})
	for _, a := range pieces {
		add(composition{pieces: []*piece{a}})
		for _, b := range pieces {
			for _, gap := range separators(fewSeparators) {
				if a != b {
					add(composition{pieces: []*piece{a, b}, gaps: []string{gap}})
				}
			}
		}
	}
	return list
}

// edited returns the compositions that differ from the text form of the scheme in their separators, or in one part.
func (e *explanation) edited() (list []candidate) {
	right := e.parts()
	if right == nil {
		return nil
	}
	add := func(change func(*composition)) {
		c := *right
		c.pieces, c.gaps = slices.Clone(c.pieces), slices.Clone(c.gaps)
		change(&c)
		if signed, err := c.canonical(e.message); err == nil {
			list = append(list, candidate{composition: &c, signed: signed})
		}
	}
	for _, gap := range separators(allSeparators) {
		add(func(c *composition) { c.gaps = repeated(gap, len(c.pieces)) })
	}
	between := separators(fewSeparators)
	if len(right.gaps) > 0 {
		between = []string{right.gaps[0]}
	}
	for _, gap := range append(between, "\n") {
		add(func(c *composition) { c.trail += gap })
		add(func(c *composition) { c.lead = gap + c.lead })
	}
	for i, part := range right.pieces {
		if at := min(i, len(right.gaps)-1); at >= 0 {
			add(func(c *composition) {
				c.pieces, c.gaps = slices.Delete(c.pieces, i, i+1), slices.Delete(c.gaps, at, at+1)
			})
		}
		for j := range i {
			add(func(c *composition) { c.pieces[i], c.pieces[j] = c.pieces[j], c.pieces[i] })
		}
		for _, p := range e.catalogue.plainPieces(uncommon, ofBody) {
			if strings.Contains(part.text, "body") {
				add(func(c *composition) { c.pieces[i] = p })
			}
		}
	}
	for _, p := range e.catalogue.plainPieces(common) {
		for i := range len(right.pieces) + 1 {
			for _, gap := range between {
				if p.texts[0] != "" {
					at := min(i, len(right.gaps))
					add(func(c *composition) { c.pieces, c.gaps = slices.Insert(c.pieces, i, p), slices.Insert(c.gaps, at, gap) })
				}
			}
		}
	}
	return list
}

// parts returns the text form of the scheme as a composition, or nil for a text form without such parts.
func (e *explanation) parts() *composition {
	text := e.explainer.Text
	if request, notification, both := strings.Cut(text, ", notification "); both {
		if text = request; e.message.Kind == paymentsvc.KindNotification {
			text = notification
		}
	}
	text = text[:strings.LastIndexByte(text, ')')+1]
	for _, s := range spellings() {
		inner, found := strings.CutPrefix(strings.TrimPrefix(text, "request "), s.text+"(")
		if !found {
			continue
		}
		c := &composition{}
		gap := ""
		for _, part := range splitParts(strings.TrimSuffix(inner, ")")) {
			p := e.catalogue.read(piece{kind: ofWord, text: part})
			if p == nil {
				p = e.catalogue.read(piece{kind: ofBody, text: part})
			}
			switch {
			case p == nil:
				return nil
			case strings.ContainsAny(part[:1], "\"'"):
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
	return nil
}

// splitParts splits a text form at its white space outside brackets and quotes.
func splitParts(text string) (parts []string) {
	depth, quote, start := 0, byte(0), 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text) || depth == 0 && quote == 0 && text[i] == ' ':
			if start < i {
				parts = append(parts, text[start:i])
			}
			start = i + 1
		case quote != 0 && text[i] == '\\':
			i++
		case quote != 0:
			if text[i] == quote {
				quote = 0
			}
		case text[i] == '"' || text[i] == '\'':
			quote = text[i]
		case text[i] == '(':
			depth++
		case text[i] == ')':
			depth--
		}
	}
	return parts
}

// alteration is a change of the message. The zero value changes nothing.
type alteration struct {
	of    string // the part's name in the text form
	piece *piece // the text in place of the part
	kind  paymentsvc.MessageKind
	words string // without a piece
}

// altered returns the scheme's texts of messages with other parts.
func (e *explanation) altered(pieces ...*piece) []candidate {
	names := map[kind]string{ofTimestamp: "timestamp", ofMethod: "method", ofAddress: "path", ofBody: "body"}
	var changes []*alteration
	for _, p := range pieces {
		changes = append(changes, &alteration{of: names[p.kind], piece: p})
	}
	return e.after(changes...)
}

// milliseconds returns the times in milliseconds within the second of the timestamp.
func (e *explanation) milliseconds() (list []*piece) {
	for n := range 1000 {
		text := fmt.Sprintf("%s%03d", e.message.Timestamp, n)
		list = append(list, &piece{
			kind: ofTimestamp, text: "<timestamp with milliseconds>", part: canonical.Literal(text),
		})
	}
	return list
}

// ofOtherKind returns the scheme's text of the message as the other kind, if the text differs.
func (e *explanation) ofOtherKind() []candidate {
	if e.message.Kind == paymentsvc.KindNotification {
		return e.after(&alteration{kind: paymentsvc.KindRequest, words: " as a request"})
	}
	return e.after(&alteration{kind: paymentsvc.KindNotification, words: " as a notification"})
}

// after returns the different texts after alterations.
func (e *explanation) after(changes ...*alteration) (list []candidate) {
	for _, a := range changes {
		message, signed, err := e.alter(a)
		if err == nil && !bytes.Equal(signed, e.expected) {
			list = append(list, candidate{alteration: a, message: message, signed: signed})
		}
	}
	return list
}

// alter returns the altered message and its canonical string.
func (e *explanation) alter(a *alteration) (*paymentsvc.Message, []byte, error) {
	m := *e.message
	if a.words != "" {
		m.Kind = a.kind
	}
	if a.piece != nil {
		text, err := a.piece.part(nil, e.message)
		if err != nil {
			return nil, nil, err
		}
		switch a.piece.kind {
		case ofTimestamp:
			m.Timestamp = string(text)
		case ofMethod:
			m.Method = string(text)
		case ofBody:
			m.Body = text
		case ofAddress:
			address := *m.URL // the piece has read it
			address.RawPath = string(text)
			if address.Path, err = url.PathUnescape(string(text)); err != nil {
				return nil, nil, err
			}
			m.URL = &address
		}
	}
	signed, err := e.explainer.Scheme.Canonical(nil, &m)
	return &m, signed, err
}

// in returns the text form of a scheme after the alteration. It reports false if the text form lacks the part.
func (a *alteration) in(scheme string) (string, bool) {
	var pairs []string
	for _, before := range []string{"(", " "} {
		for _, after := range []string{")", " "} {
			pairs = append(pairs, before+a.of+after, before+a.piece.text+after)
		}
	}
	text := strings.NewReplacer(pairs...).Replace(scheme)
	return text, text != scheme
}
