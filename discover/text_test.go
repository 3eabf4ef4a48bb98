package discover

import (
	"flag"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

var textsPerPlan = flag.Int("discover.texts", 1, "compositions of each plan that TestTextReadsBack draws")

// part returns the function of the composition, made of its pieces instead of its text form.
func (c *composition) part() paymentsvc.CanonicalFunc {
	parts := []paymentsvc.CanonicalFunc{canonical.Literal(c.lead)}
	for i, p := range c.pieces {
		if i > 0 {
			parts = append(parts, canonical.Literal(c.gaps[i-1]))
		}
		parts = append(parts, p.part)
	}
	part := canonical.Join("", append(parts, canonical.Literal(c.trail))...)
	if c.wrap != nil {
		part = c.wrap.part(part)
	}
	return part
}

// TestTextReadsBack requires that each composition of the search, in each encoding and for each form of the secret,
// signs the same after it is written as text and parsed.
func TestTextReadsBack(t *testing.T) {
	request := paymentsvc.Message{
		Method: http.MethodPost, Timestamp: "1700000000", URL: &url.URL{
			Scheme: "https", Host: "pay.example:8443", Path: "/base/v1/Init Payment", RawQuery: "b=2&a=1",
		},
		Header: http.Header{
			"Content-Type": {"application/json"}, "X-Request-Id": {"r-1"}, "X-Quote\"": {"q"}, "X-Größe": {"g"},
		},
		Body: []byte(
			` {"partner_id":17, "amount":10.50, "user\"data":"o/1 <é>", "größe\n\u0000":"x", "note":null, ` +
				`"payer":{"e.mail":"a@b", "ids":[1,2]}}`,
		),
	}
	notification := notes("&", "=")[3].message()
	r := rand.New(rand.NewPCG(*alteredSeed, 7))
	encodings := append(slices.Clone(spellings), newSpelling(`prefixed("v1=\"", chain(hex, base64))`, ""))
	forms := map[canonical.SecretForm]bool{}
	messages := []paymentsvc.Message{request, notification}
	if *textsPerPlan == 1 { // the default: the request, with a short body for all secrets but one
		messages = messages[:1]
	}
	for _, m := range messages {
		for i, secret := range []paymentsvc.Secret{ // together they have all forms
			"whsec_a2V5LW9mLWEtdGVzdA", " sk_00ff7f10", "00ff7f10-00ff-7f10-00ff-7f1000ff7f10", "00ff7f10",
		} {
			if *textsPerPlan == 1 && i > 0 {
				m.Body = []byte(`{"a":1}`)
			}
			samples, err := newSamples([]Sample{{Message: m, Signature: strings.Repeat("ab", 32)}})
			require.NoError(t, err)
			c := newCatalogue(t.Context(), samples, secret, []string{"word", "a\"b'\\\n\xff\u2028"})
			require.NoError(t, c.err)
			keys, n := newKeys(secret), 0
			for _, st := range c.stages(0, keys, 1) {
				for range *textsPerPlan {
					drawn, key, encoding := drawComposition(r, st), keys[n%len(keys)], encodings[r.IntN(len(encodings))]
					n++
					forms[key.form] = true
					text := drawn.scheme(encoding.text, key.form)
					scheme, gotKey, err := canonical.ParseSchemeWith(text, secret)
					require.NoError(t, err, text)
					require.Equal(t, string(key.secret), string(gotKey), text)
					_, err = canonical.GoCode(text)
					require.NoError(t, err, text)
					for _, other := range []paymentsvc.Message{request, notification, notes("|", ":")[0].message()} {
						wanted, err := paymentsvc.Scheme{
							Canonical: drawn.part(), Encoding: encoding.encoding,
						}.Signature(key.secret, &other)
						got, gotErr := scheme.Signature(gotKey, &other)
						require.Equal(t, err == nil, gotErr == nil, "%s: %v, %v", text, err, gotErr)
						require.Equal(t, wanted, got, text)
					}
				}
			}
		}
	}
	require.Len(t, forms, int(canonical.SecretToBase64)+1)
}

// A piece that appears twice would be tried and reported twice. Fixed texts only explain.
func TestTextIsOneForEachPiece(t *testing.T) {
	c := alteredCatalogue()
	seen := map[string]bool{}
	for _, p := range c.pieces {
		if p.rarity == onlyExplains || p.shelf > lists { // a labelled piece can have the text of a plain piece
			continue
		}
		whole := (&composition{pieces: []*piece{p}}).expanded()
		text := whole.inner()
		require.False(t, seen[text], text)
		seen[text] = true
		require.NotEmpty(t, whole.expr(), text)
	}
}

// The texts of pieces are in results, so they contain neither the secret nor another form of it.
func TestCatalogueHasNoTextThatRevealsTheSecret(t *testing.T) {
	for secret, revealed := range map[paymentsvc.Secret][]string{
		"cHJvamVjdC1zZWNyZXQ=": {"project-secret", "cHJvamVjdC1zZWNyZXQ"}, `quo"ted-secret`: {`quo\"ted`, `quo"ted`},
	} {
		m := paymentsvc.Message{Method: "POST", Timestamp: "1700000000", URL: &url.URL{Path: "/project-secret/a"}}
		samples, err := newSamples([]Sample{{Message: m, Signature: strings.Repeat("ab", 32)}})
		require.NoError(t, err)
		c := newCatalogue(t.Context(), samples, secret, []string{string(secret), "a word"})
		found := 0
		for _, p := range c.pieces {
			for _, text := range revealed {
				require.NotContains(t, p.text, text)
				require.NotContains(t, p.desc, text)
			}
			found += strings.Count(p.text, "a word")
		}
		require.Positive(t, found)
	}
}
