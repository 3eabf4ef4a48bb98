package discover

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// explanation is one call of [Receiver.Explain].
type explanation struct {
	receiver  *Receiver
	message   *paymentsvc.Message
	signature string
	expected  []byte // the canonical string
	written   []written
	catalogue *catalogue
	left      int // bytes that may still be hashed, see maxHashed
}

// maxHashed limits the bytes of all hashes, because a body may be large.
const maxHashed = 48 << 20

// search returns a cause, or nil. Likely causes come first.
func (e *explanation) search() *cause {
	own, hmacs, others := []namedKey{{"", e.receiver.Secret}}, macs()[:1], macs()[1:]
	right := append([]candidate{{alteration: &alteration{}, signed: e.expected, message: e.message}}, e.ofOtherKind()...)
	keys := e.otherKeys()
	e.fill()
	simple, altered := e.simple(), e.altered()
	for _, family := range []struct {
		texts []candidate
		keys  []namedKey
		macs  []mac
	}{
		{right, own, hmacs}, {right, keys, hmacs}, {right, own, others}, {simple, own, hmacs}, {altered, own, hmacs},
		{simple, keys, hmacs}, {slices.Concat(simple, altered), own, others},
	} {
		if found := e.try(family.texts, family.keys, family.macs); found != nil {
			return found
		}
	}
	return e.searchCompositions(own, hmacs)
}

// try returns the cause among all combinations, or nil.
func (e *explanation) try(texts []candidate, keys []namedKey, macs []mac) *cause {
	for _, m := range macs {
		if !slices.ContainsFunc(e.written, func(w written) bool { return len(w.sum) == m.size }) {
			continue
		}
		for _, k := range keys {
			for _, c := range texts {
				const cost = 512 // of a short text
				if e.left -= cost + len(c.signed); e.left < 0 {
					return nil
				}
				sum := m.sum([]byte(k.secret), c.signed)
				for _, w := range e.written {
					if bytes.Equal(w.sum, sum) {
						return &cause{c, k, m, w}
					}
				}
			}
		}
	}
	return nil
}

// again returns the latest cause if it makes this signature too, or nil.
func (e *explanation) again(latest *cause) *cause {
	if latest == nil {
		return nil
	}
	c := latest.candidate
	var err error
	if c.message = nil; c.composition != nil {
		c.signed, err = c.composition.canonical(e.message)
	} else {
		c.message, c.signed, err = e.alter(c.alteration)
	}
	if err != nil {
		return nil
	}
	return e.try([]candidate{c}, []namedKey{latest.key}, []mac{latest.mac})
}

// canonical returns the text of the composition in any message.
func (c *composition) canonical(m *paymentsvc.Message) (text []byte, err error) {
	text = append(text, c.lead...)
	for i, p := range c.pieces {
		if i > 0 {
			text = append(text, c.gaps[i-1]...)
		}
		if text, err = p.part(text, m); err != nil {
			return nil, err
		}
	}
	return append(text, c.trail...), nil
}

// fill makes the catalogue.
func (e *explanation) fill() {
	s := &sample{message: *e.message}
	c := emptyCatalogue(context.Background(), []*sample{s}, e.receiver.Secret)
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
		"", "spaces", "spaces, escape-unicode", "escape-slash, escape-unicode", "escape-slash", "escape-unicode", "escape-html",
		"escape-slash, short-numbers", "escape-slash, escape-unicode, short-numbers", "short-numbers", "escape-gson",
		"spaces, escape-unicode, python-numbers", "java-numbers", "two-place-numbers", "quoted-numbers",
		`indent("  ")`, `indent("    ")`, `indent("\t")`,
	} {
		bodies = append(bodies, "json("+form+")", "json("+strings.TrimSuffix("sorted, "+form, ", ")+")")
	}
	bodies = append(bodies, `json(indent("  ")) "\n"`, `json(indent("    ")) "\n"`, "fields(as-sent, '=', '&')", "fields('=', '&')")
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

// alteration is a change of the message. The zero value changes nothing.
type alteration struct {
	of    string // the part's name in the text form
	piece *piece // the text in place of the part
	kind  paymentsvc.MessageKind
	words string // without a piece
}

// altered returns the scheme's texts of altered messages.
func (e *explanation) altered() []candidate {
	var changes []*alteration
	names := map[kind]string{ofTimestamp: "timestamp", ofMethod: "method", ofAddress: "path", ofBody: "body"}
	for _, p := range e.catalogue.plainPieces(rare) {
		if of := names[p.kind]; of != "" {
			changes = append(changes, &alteration{of: of, piece: p})
		}
	}
	return e.after(changes...)
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
	signed, err := e.receiver.Scheme.Canonical(nil, &m)
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

// searchCompositions searches longer compositions of common parts, and compositions with one part in a rare form.
func (e *explanation) searchCompositions(own []namedKey, hmacs []mac) *cause {
	core := upTo(common, coreKinds()...)
	keys := []key{newKey(canonical.SecretText, own[0].secret)}
	search := search{workers: 1}
	var sums []string
	for _, w := range e.written {
		if len(w.sum) == sha256.Size {
			sums = append(sums, string(w.sum))
		}
	}
	for _, p := range []plan{
		{take: core, max: 4, gaps: separators(fewSeparators), frames: after | newline, limit: 60_000},
		{take: core, max: 2, gaps: separators(allSeparators), frames: after, limit: 60_000},
		{take: either(core, upTo(uncommon, ofAddress)), max: 3, gaps: separators(fewSeparators), limit: 60_000},
		{take: core, odd: upTo(rare, coreKinds()...), odds: 1, max: 2, gaps: separators(fewSeparators), limit: 80_000},
		{
			take: either(core, upTo(common, ofHeader, ofSecret)), min: 2, max: 4, extras: 1,
			gaps: separators(fewSeparators), limit: 60_000,
		},
	} {
		if len(sums) == 0 {
			return nil
		}
		st := newStage(e.catalogue.stageGroups(0, p), keys, p)
		st.fit(p.limit)
		search.reset(sums)
		if search.run(context.Background(), st) || search.found == nil {
			continue
		}
		c := candidate{composition: &search.found.composition}
		c.signed, _ = c.composition.canonical(e.message) // the search has read all parts
		return e.try([]candidate{c}, own, hmacs)
	}
	return nil
}

// namedKey is a key with its description, or "" for the key of correct signatures.
type namedKey struct {
	words  string
	secret paymentsvc.Secret
}

// otherKeys returns the keys that clients use by mistake.
func (e *explanation) otherKeys() (keys []namedKey) {
	text := string(e.receiver.Secret)
	seen := map[paymentsvc.Secret]bool{e.receiver.Secret: true}
	add := func(words, key string) {
		if secret := paymentsvc.Secret(key); !seen[secret] {
			seen[secret] = true
			keys = append(keys, namedKey{words, secret})
		}
	}
	for _, words := range slices.Sorted(maps.Keys(e.receiver.Others)) {
		add(words, string(e.receiver.Others[words]))
	}
	_, odd := oddKeys(text, e.message.Timestamp, nil)
	for _, key := range slices.SortedFunc(maps.Keys(odd), func(a, b paymentsvc.Secret) int {
		return cmp.Compare(odd[a], odd[b])
	}) {
		add(odd[key], string(key))
	}
	add("the secret in base64", base64.StdEncoding.EncodeToString([]byte(text)))
	add("the secret in hexadecimal", hex.EncodeToString([]byte(text)))
	for form := canonical.SecretText; form.Name() != ""; form++ {
		if key, err := form.Read(e.receiver.Secret); err == nil {
			add("the secret read as "+form.String(), string(key))
		}
	}
	add("the secret without quotes", strings.Trim(text, "\"'`"))
	add("the secret in backquotes", "`"+text+"`")
	add("a space and the secret", " "+text)
	add("the secret with URL escapes", url.QueryEscape(text))
	add("no key", "")
	var wide []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		wide = append(wide, byte(unit), byte(unit>>8)) //nolint:gosec // the two halves
	}
	add("the secret in UTF-16", string(wide))
	add("the first 32 bytes of the secret", text[:min(32, len(text))])
	add("the first 16 bytes of the secret", text[:min(16, len(text))])
	return keys
}

// mac is an algorithm, described by words. The words of the correct algorithm are "".
type mac struct {
	words string
	size  int
	sum   func(key, text []byte) []byte
}

// macs returns HMAC-SHA256 and the algorithms that clients use by mistake.
func macs() (list []mac) {
	for _, h := range []crypto.Hash{
		crypto.SHA256, crypto.SHA1, crypto.SHA512, crypto.MD5, crypto.SHA384, crypto.SHA224, crypto.SHA512_256,
	} {
		keyed := func(key, text []byte) []byte {
			mac := hmac.New(h.New, key)
			_, _ = mac.Write(text)
			return mac.Sum(nil)
		}
		plain := func(texts ...[]byte) []byte {
			hash := h.New()
			for _, text := range texts {
				_, _ = hash.Write(text)
			}
			return hash.Sum(nil)
		}
		name := h.String()
		list = append(list,
			mac{"HMAC-" + name, h.Size(), keyed},
			mac{"HMAC-" + name + " with key and text exchanged", h.Size(), func(key, text []byte) []byte {
				return keyed(text, key)
			}},
			mac{name + " of the key and the text, without HMAC", h.Size(), func(key, text []byte) []byte {
				return plain(key, text)
			}},
			mac{name + " of the text and the key, without HMAC", h.Size(), func(key, text []byte) []byte {
				return plain(text, key)
			}},
			mac{name + " of the text, without a key", h.Size(), func(_, text []byte) []byte { return plain(text) }},
		)
	}
	list[0].words = ""
	return list
}
