package discover

import (
	"cmp"
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// explanation is one call of [Explainer.Explain].
type explanation struct {
	*Explainer
	message   *paymentsvc.Message
	scheme    string // the text form for this kind of message, without the form of the key
	keyForm   string // the form of the key in the text form, such as ", key hex", or ""
	expected  []byte // the canonical string
	written   []written
	catalogue *catalogue
	cost      int // cost of a canonical string, in hashed bytes
	left      int // bytes left of maxBytes
}

// maxBytes limits the hashed bytes of a search, because a client can send a large body.
const maxBytes = 24 << 20

// Costs of other work, in hashed bytes.
const (
	costOfJSON  = 10 // for each byte of the body
	costOfParse = 4 << 10
)

// formOfKey is the form of the key at the end of a text form.
var formOfKey = regexp.MustCompile(`, key [^,]+`)

func newExplanation(x *Explainer, m *paymentsvc.Message, expected []byte, written []written) *explanation {
	e := &explanation{
		Explainer: x, message: m, scheme: x.Text, expected: expected, written: written, left: maxBytes,
		cost: len(expected) + len(m.Body),
	}
	if _, err := x.Scheme.Canonical(nil, &paymentsvc.Message{
		Kind: m.Kind, Method: m.Method, URL: m.URL, Timestamp: m.Timestamp, Header: m.Header, Body: []byte("{"),
	}); err != nil { // the scheme parses the body as JSON
		e.cost += costOfJSON * len(m.Body)
	}
	e.keyForm = formOfKey.FindString(x.Text[strings.LastIndexByte(x.Text, ')')+1:])
	if both, ok := strings.CutPrefix(x.Text, "request "); ok {
		request, notification, _ := strings.Cut(both, ", notification ")
		if e.scheme = request; m.Kind == paymentsvc.KindNotification {
			e.scheme = notification
		}
	}
	e.scheme = strings.TrimSuffix(e.scheme, e.keyForm)
	return e
}

// cause is a text, a key, an algorithm and an encoding that produce the wrong signature.
type cause struct {
	candidate
	key     namedKey
	mac     mac
	written written
}

// search returns a cause, or nil. Likely causes come first.
func (e *explanation) search() *cause {
	own, keys := []namedKey{{"", e.Secret}}, e.otherKeys()
	hmacs, others := macs[:1], macs[1:]
	right := []candidate{{signed: e.expected, message: e.message}}
	// The correct key comes first, because HMAC has the same result for several keys.
	if found := cmp.Or(e.try(right, own, hmacs), e.try(right, keys, hmacs), e.try(right, own, others)); found != nil {
		return found
	}
	e.fill()
	edited, altered := e.edited(), e.altered(e.catalogue.plainPieces(rare)...)
	for _, family := range []struct {
		texts []candidate
		keys  []namedKey
		macs  []mac
	}{
		{altered, own, hmacs},
		{edited, own, hmacs},
		{edited, keys, hmacs},
		{slices.Concat(edited, altered), own, others},
		{e.altered(e.milliseconds()...), own, hmacs},
	} {
		if found := e.try(family.texts, family.keys, family.macs); found != nil {
			return found
		}
	}
	return cmp.Or(e.try(e.relisted(), own, hmacs), e.try(e.searched(), own, hmacs))
}

// try returns the cause among all combinations. It returns nil without a cause, and at the end of the budget.
func (e *explanation) try(texts []candidate, keys []namedKey, macs []mac) *cause {
	for _, m := range macs {
		if !slices.ContainsFunc(e.written, func(w written) bool { return len(w.sum) == m.hash.Size() }) {
			continue
		}
		for _, k := range keys {
			for _, c := range texts {
				if !e.spend(len(c.signed)) {
					return nil
				}
				sum := string(m.sum(m.hash, []byte(k.secret), c.signed))
				for _, w := range e.written {
					if w.sum == sum {
						return &cause{c, k, m, w}
					}
				}
			}
		}
	}
	return nil
}

// spend subtracts the cost of a text of n bytes from the budget, and reports whether the budget was sufficient.
func (e *explanation) spend(n int) bool {
	const overhead = 512
	e.left -= overhead + n
	return e.left >= 0
}

// sign returns the canonical string of a message, or false after an error or at the end of the budget.
func (e *explanation) sign(part paymentsvc.CanonicalFunc, m *paymentsvc.Message) ([]byte, bool) {
	if !e.spend(e.cost) {
		return nil, false
	}
	text, err := part(nil, m)
	return text, err == nil
}

// searched returns the composition that small stages of the search find, or an empty list.
func (e *explanation) searched() []candidate {
	core := upTo(common, coreKinds()...)
	keys := []key{newKey(canonical.SecretText, e.Secret)}
	var sums []string
	for _, w := range e.written {
		if len(w.sum) == sha256.Size {
			sums = append(sums, w.sum)
		}
	}
	pieces := e.catalogue.present(0)
	for _, p := range []plan{
		{take: core, max: 4, gaps: fewSeparators, ends: after | newline, limit: 60_000},
		{take: core, max: 2, gaps: allSeparators, ends: after, limit: 60_000},
		{take: either(core, upTo(uncommon, ofAddress)), max: 3, gaps: fewSeparators, limit: 60_000},
		{
			take: core, special: upTo(rare, coreKinds()...), maxSpecial: 1, max: 2, gaps: fewSeparators,
			limit: 80_000,
		},
		{
			take: either(core, upTo(common, ofHeader, ofSecret)), min: 2, max: 4, extras: 1,
			gaps: fewSeparators, limit: 60_000,
		},
	} {
		if len(sums) == 0 {
			break
		}
		st := newStage(stageGroups(pieces, p), keys, p)
		st.fit(p.limit)
		s := search{workers: 1, wanted: sums}
		if s.run(context.Background(), st); s.found != nil {
			signed, _ := s.found.composition.text(0) // the search already made this text
			return []candidate{{text: s.found.composition.id(), signed: []byte(signed)}}
		}
	}
	return nil
}

// namedKey is a key with its description, or "" for the key of correct signatures.
type namedKey struct {
	words  string
	secret paymentsvc.Secret
}

// otherKeys returns the keys that clients use by mistake.
func (e *explanation) otherKeys() []namedKey {
	text := string(e.Secret)
	keys := []namedKey{
		{"no key", ""},
		{"the secret in base64", paymentsvc.Secret(base64.StdEncoding.EncodeToString([]byte(text)))},
		{"the secret in hexadecimal", paymentsvc.Secret(hex.EncodeToString([]byte(text)))},
		{"the secret in UTF-16", paymentsvc.Secret(strings.Join(strings.Split(text, ""), "\x00") + "\x00")},
		{"the secret without quotes", paymentsvc.Secret(strings.Trim(text, "\"'`"))},
		{"the secret with URL escapes", paymentsvc.Secret(url.QueryEscape(text))},
		{"the first 32 bytes of the secret", e.Secret[:min(32, len(text))]},
	}
	_, odd := oddKeys(text, e.message.Timestamp, nil)
	for secret, words := range odd {
		keys = append(keys, namedKey{words, secret})
	}
	for words, secret := range e.Others {
		keys = append(keys, namedKey{words, secret})
	}
	for form := canonical.SecretText; form.Name() != ""; form++ {
		if secret, err := form.Read(e.Secret); err == nil {
			keys = append(keys, namedKey{"the secret read as " + form.String(), secret})
		}
	}
	slices.SortFunc(keys, func(a, b namedKey) int { return cmp.Compare(a.words, b.words) })
	seen := map[paymentsvc.Secret]bool{e.Secret: true}
	return slices.DeleteFunc(keys, func(k namedKey) bool {
		known := seen[k.secret]
		seen[k.secret] = true
		return known
	})
}

// mac is an algorithm with its description, or "" for the correct algorithm.
type mac struct {
	words string
	hash  crypto.Hash
	sum   func(h crypto.Hash, key, text []byte) []byte
}

// macs are HMAC-SHA256 and the algorithms that clients use by mistake.
var macs = newMACs()

func newMACs() (list []mac) {
	keyed := func(h crypto.Hash, key, text []byte) []byte {
		mac := hmac.New(h.New, key)
		_, _ = mac.Write(text)
		return mac.Sum(nil)
	}
	plain := func(h crypto.Hash, first, last []byte) []byte {
		hash := h.New()
		_, _ = hash.Write(first)
		_, _ = hash.Write(last)
		return hash.Sum(nil)
	}
	for _, h := range []crypto.Hash{
		crypto.SHA256, crypto.SHA1, crypto.SHA512, crypto.MD5, crypto.SHA384, crypto.SHA224, crypto.SHA512_256,
	} {
		list = append(list,
			mac{"HMAC-" + h.String(), h, keyed},
			mac{
				fmt.Sprintf("HMAC-%s with key and text exchanged", h), h,
				func(h crypto.Hash, key, text []byte) []byte { return keyed(h, text, key) },
			},
			mac{fmt.Sprintf("%s of the key and the text, without HMAC", h), h, plain},
			mac{
				fmt.Sprintf("%s of the text and the key, without HMAC", h), h,
				func(h crypto.Hash, key, text []byte) []byte { return plain(h, text, key) },
			},
			mac{
				fmt.Sprintf("%s of the text, without a key", h), h,
				func(h crypto.Hash, _, text []byte) []byte { return plain(h, nil, text) },
			},
		)
	}
	list[0].words = ""
	return list
}

// written is a reading of a signature. bare is the text of the reading. The field around describes the repaired
// mistake, or is "".
type written struct {
	reading
	bare, around string
}

// maxSignature limits the length of a signature, because the explanation decodes it many times. SHA-512 in
// base64 of hexadecimal after a label has 212 bytes.
const maxSignature = 512

// readings returns the readings of a signature that have the size of a digest. If the signature has no such reading,
// readings repairs one common mistake, such as quotes around the signature. The reading in the encoding of the scheme
// comes first, because other encodings can have the same text.
func (x *Explainer) readings(signature string) (list []written) {
	if len(signature) > maxSignature {
		return nil
	}
	trimmed := strings.TrimSpace(signature)
	unescaped, _ := url.QueryUnescape(trimmed) // "" after an error, which has no reading
	for _, form := range []struct{ text, around string }{
		{signature, ""}, {trimmed, " with white space around the signature"},
		{strings.Trim(trimmed, "\"'`"), " with quotes around the signature"},
		{strings.Trim(trimmed, "<>[]{}()"), " with brackets around the signature"},
		{strings.ReplaceAll(trimmed, " ", "+"), " with spaces in place of plus signs"},
		{unescaped, " with URL escapes in the signature"},
	} {
		for _, r := range encodingsOf(form.text, 16, 20, 28, 32, 48, 64) {
			list = append(list, written{r, form.text, form.around})
		}
		if len(list) > 0 {
			break
		}
	}
	const sample = "\xfa\xff" // distinguishes the case of hexadecimal, and padding and alphabet of base64
	own := string(x.Scheme.Encoding.AppendEncode(nil, []byte(sample)))
	slices.SortStableFunc(list, func(a, b written) int {
		isOwn := func(w written) int {
			if string(w.encoding.AppendEncode(nil, []byte(sample))) == own {
				return 0
			}
			return 1
		}
		return cmp.Compare(isOwn(a), isOwn(b))
	})
	return list
}
