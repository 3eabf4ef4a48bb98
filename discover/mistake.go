package discover

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// Mistake describes a wrong signature in one sentence, for a receiver that knows the scheme and the secret:
//
//	signed hex(body), want hex(timestamp "." body)
//
// wanted is the scheme in its text form. sample is the message with the wrong signature. Mistake tries common
// compositions and keys for about 50 ms of processor time. It reports false without an explanation, for a correct
// signature, and for an invalid scheme or secret. The sentence contains neither the secret nor a body.
func Mistake(
	ctx context.Context, wanted string, secret paymentsvc.Secret, sample Sample,
) (sentence string, explained bool) {
	scheme, key, err := canonical.ParseSchemeWith(wanted, secret)
	if err != nil {
		return "", false
	}
	samples, err := newSamples([]Sample{sample})
	if wrong, ok := errors.AsType[*SampleError](err); ok {
		return wrong.Err.Error() + ", want " + wanted, true
	}
	if err != nil {
		return "", false
	}
	s := samples[0]
	if right, err := scheme.Signature(key, &s.message); err == nil && right == s.signature {
		return "", false
	}
	f := &finder{samples: samples, keys: newKeys(secret), catalogue: emptyCatalogue(ctx, samples, secret)}
	odd, words := oddKeys(string(secret), s.message.Timestamp, f.keys)
	f.search.workers = 1
	c := f.catalogue
	c.fill(c.addMessage, c.addAddress, c.addBody, c.addJSON, c.addHeaders, c.addSecret)
	for _, p := range mistakePlans() {
		st := newStage(c.stageGroups(0, p), f.keys, p)
		if p.keyRarity == rare {
			st.keys = append(st.keys, odd...)
		}
		st.fit(p.limit)
		f.search.reset(s.sums())
		if f.search.run(ctx, st) || f.search.found == nil {
			continue
		}
		return f.mistake(f.search.found, words, wanted)
	}
	return "", false
}

// mistakePlans are the plans of the most common mistakes.
func mistakePlans() []plan {
	core := upTo(common, coreKinds()...)
	return []plan{
		{take: core, max: 4, gaps: separators(fewSeparators), frames: after | newline, limit: 60_000},
		{take: core, max: 2, gaps: separators(allSeparators), frames: after, limit: 60_000},
		{take: core, max: 2, gaps: separators(fewSeparators), keyRarity: rare, limit: 60_000},
		{take: core, odd: upTo(rare, ofBody), odds: 1, max: 2, gaps: separators(fewSeparators), limit: 80_000},
		{
			take: either(core, upTo(common, ofHeader, ofSecret)), min: 2, max: 4, extras: 1,
			gaps: separators(fewSeparators), limit: 60_000,
		},
	}
}

// mistake returns the sentence for a hit, after a check of its text form.
func (f *finder) mistake(h *hit, words map[paymentsvc.Secret]string, wanted string) (string, bool) {
	s := f.samples[0]
	for _, e := range s.encodings {
		text := h.composition.scheme(e.text, canonical.SecretText)
		scheme, _, err := canonical.ParseSchemeWith(text, f.catalogue.secret)
		if err != nil {
			continue
		}
		canonicalText, err := scheme.Canonical(nil, &s.message)
		if err != nil || sign(h.key.secret, canonicalText, scheme.Encoding) != s.signature {
			continue
		}
		if with, isOdd := words[h.key.secret]; isOdd {
			return fmt.Sprintf("signed %s with %s, want %s", text, with, wanted), true
		}
		return fmt.Sprintf("signed %s, want %s", h.composition.scheme(e.text, h.key.form), wanted), true
	}
	return "", false
}

// sign signs with keys that Scheme.Signature rejects, such as a secret after a byte order mark.
func sign(key paymentsvc.Secret, text []byte, encoding paymentsvc.Encoding) string {
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = mac.Write(text)
	return string(encoding.AppendEncode(nil, mac.Sum(nil)))
}
