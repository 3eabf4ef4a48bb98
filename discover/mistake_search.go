package discover

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// explanation is one call of [Explainer.Explain].
type explanation struct {
	explainer *Explainer
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
	own, hmacs, others := []namedKey{{"", e.explainer.Secret}}, macs()[:1], macs()[1:]
	right := append([]candidate{{alteration: &alteration{}, signed: e.expected, message: e.message}}, e.ofOtherKind()...)
	keys := e.otherKeys()
	e.fill()
	simple, altered := slices.Concat(e.simple(), e.edited()), e.altered(e.catalogue.plainPieces(rare, coreKinds()...)...)
	for _, family := range []struct {
		texts []candidate
		keys  []namedKey
		macs  []mac
	}{
		{right, own, hmacs}, {right, keys, hmacs}, {right, own, others}, {simple, own, hmacs}, {altered, own, hmacs},
		{e.altered(e.milliseconds()...), own, hmacs}, {simple, keys, hmacs}, {slices.Concat(simple, altered), own, others},
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
			sumOf := m.with([]byte(k.secret))
			for _, c := range texts {
				const cost = 512 // of a short text
				if e.left -= cost + len(c.signed); e.left < 0 {
					return nil
				}
				sum := sumOf(c.signed)
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
	text := string(e.explainer.Secret)
	seen := map[paymentsvc.Secret]bool{e.explainer.Secret: true}
	add := func(words, key string) {
		if secret := paymentsvc.Secret(key); !seen[secret] {
			seen[secret] = true
			keys = append(keys, namedKey{words, secret})
		}
	}
	for _, words := range slices.Sorted(maps.Keys(e.explainer.Others)) {
		add(words, string(e.explainer.Others[words]))
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
		if key, err := form.Read(e.explainer.Secret); err == nil {
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
	with  func(key []byte) func(text []byte) []byte
}

// macs returns HMAC-SHA256 and the algorithms that clients use by mistake.
func macs() (list []mac) {
	for _, h := range []crypto.Hash{
		crypto.SHA256, crypto.SHA1, crypto.SHA512, crypto.MD5, crypto.SHA384, crypto.SHA224, crypto.SHA512_256,
	} {
		sum := func(hash hash.Hash, texts ...[]byte) []byte {
			hash.Reset()
			for _, text := range texts {
				_, _ = hash.Write(text)
			}
			return hash.Sum(nil)
		}
		keyed := func(key []byte) func([]byte) []byte {
			mac := hmac.New(h.New, key)
			return func(text []byte) []byte { return sum(mac, text) }
		}
		swapped := func(key []byte) func([]byte) []byte {
			return func(text []byte) []byte { return keyed(text)(key) }
		}
		first := func(key []byte) func([]byte) []byte {
			hash := h.New()
			return func(text []byte) []byte { return sum(hash, key, text) }
		}
		last := func(key []byte) func([]byte) []byte {
			hash := h.New()
			return func(text []byte) []byte { return sum(hash, text, key) }
		}
		name := h.String()
		list = append(list,
			mac{"HMAC-" + name, h.Size(), keyed}, mac{"HMAC-" + name + " with key and text exchanged", h.Size(), swapped},
			mac{name + " of the key and the text, without HMAC", h.Size(), first},
			mac{name + " of the text and the key, without HMAC", h.Size(), last},
			mac{name + " of the text, without a key", h.Size(), func([]byte) func([]byte) []byte { return last(nil) }},
		)
	}
	list[0].words = ""
	return list
}

// written is a reading of a signature: its encoding, words for text around it, itself, and the encoded bytes.
type written struct {
	spelling
	around, bare string
	sum          []byte
}

// readings returns the readings of a signature with the size of a digest.
func readings(signature string) (list []written) {
	bare := strings.TrimSpace(signature)
	add := func(text, around string) {
		for _, at := range append([]int{0}, slices.Collect(labelsBefore(text))...) {
			for _, w := range decoded(text[at:], true) {
				if at > 0 {
					w.text = fmt.Sprintf("prefixed(%q, %s)", text[:at], w.text)
					w.desc += fmt.Sprintf(" behind %q", text[:at])
				}
				w.around, w.bare = around, text
				list = append(list, w)
			}
		}
	}
	add(signature, "")
	if len(list) > 0 {
		return list
	}
	add(bare, " with white space around the signature")
	add(strings.Trim(bare, "\"'`"), " with quotes around the signature")
	add(strings.Trim(bare, "<>[](){}"), " with brackets around the signature")
	add(strings.ReplaceAll(bare, " ", "+"), " with spaces in place of plus signs")
	if text, err := url.QueryUnescape(bare); err == nil {
		add(text, " with URL escapes in the signature")
	}
	return list
}

// decoded returns the readings of a text without a label. chained adds encodings of encodings.
func decoded(text string, chained bool) (list []written) {
	for _, e := range []struct {
		spelling
		encoding paymentsvc.Encoding
		decode   func(string) ([]byte, error)
	}{
		{spelling{"hex", "lower-case hexadecimal"}, paymentsvc.Hex, hex.DecodeString},
		{spelling{"HEX", "upper-case hexadecimal"}, paymentsvc.HexUpper, hex.DecodeString},
		{spelling{"base64", "base64"}, base64.StdEncoding, base64.StdEncoding.DecodeString},
		{spelling{"base64-raw", "base64 without padding"}, base64.RawStdEncoding, base64.RawStdEncoding.DecodeString},
		{spelling{"base64url", "base64 in the URL alphabet"}, base64.URLEncoding, base64.URLEncoding.DecodeString},
		{
			spelling{"base64url-raw", "base64 in the URL alphabet without padding"}, base64.RawURLEncoding,
			base64.RawURLEncoding.DecodeString,
		},
	} {
		sum, err := e.decode(text)
		if err != nil || string(e.encoding.AppendEncode(nil, sum)) != text {
			continue
		}
		if slices.Contains([]int{16, 20, 28, 32, 48, 64}, len(sum)) {
			list = append(list, written{spelling: e.spelling, sum: sum})
		}
		if !chained {
			continue
		}
		for _, inner := range decoded(string(sum), false) {
			inner.text = fmt.Sprintf("chain(%s, %s)", inner.text, e.text)
			inner.desc = e.desc + " of the " + inner.desc
			list = append(list, inner)
		}
	}
	return list
}
