package discover

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// If another body distinguishes an option from the chosen option, some alternative must have another text for that
// body.
func TestUndecidedNamesWhateverAnotherBodyTells(t *testing.T) {
	table, err := os.ReadFile("../canonical/testdata/vectors.tsv")
	require.NoError(t, err)
	vectors := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		vectors[strings.Split(line, "\t")[2]] = true
	}
	r := rand.New(rand.NewPCG(*alteredSeed, 17))
	for _, body := range []string{
		`{"partner_id":17,"project_id":42}`, `{"partner_id":17,"project_id":42,"amount":10.50,"user_data":"p-1"}`,
		`{"event":"payment","order_id":"o/1","status":2,"amount":250.75}`,
	} {
		f := finderOf(t, body)
		classes, probes := f.sameTexts(), f.probes()
		text := func(p *piece, body string) string {
			text, err := p.part(nil, &paymentsvc.Message{Timestamp: "1", Body: []byte(body)})
			return fmt.Sprint(string(text), err)
		}
		for range 6 {
			form := canonical.JSONForm{
				Sort: r.IntN(2) == 0, EscapeSlash: r.IntN(2) == 0, EscapeUnicode: r.IntN(2) == 0,
				Numbers: canonical.NumberForm(r.IntN(4)),
			}
			list := canonical.FieldList{
				AsSent: r.IntN(2) == 0, Names: true, Equals: "=", Between: "&",
				Nested: canonical.Nested(r.IntN(3)), OmitEmpty: r.IntN(3) == 0,
				Numbers: canonical.NumberForm(r.IntN(4)), Escaping: canonical.Escaping(r.IntN(4)),
				Constants: canonical.Constants(r.IntN(5)),
			}
			for _, chosen := range []*piece{
				f.catalogue.read(f.catalogue.jsonPiece(form, frame{})),
				f.catalogue.read(f.catalogue.listPiece(list, frame{}, common)),
			} {
				named := f.alternatives(&composition{pieces: []*piece{chosen}}, 0, classes, probes)
				others := f.catalogue.neighbours(chosen)
				for _, other := range others {
					others = append(others, f.catalogue.neighbours(other)...)
				}
				for _, other := range others {
					for body := range vectors {
						want := text(chosen, body)
						told := text(other, body) == want
						for _, a := range named {
							told = told || text(a.piece, body) != want
						}
						require.True(t, told, "%s or %s: %s: %v", chosen.text, other.text, body, len(named))
					}
				}
			}
		}
	}
}

func finderOf(t *testing.T, body string) *finder { return finderWith(t, 0.0001, body) }

func finderWith(t *testing.T, effort float64, body string) *finder {
	m := paymentsvc.Message{Method: "POST", Timestamp: "1700000000", Body: []byte(body)}
	samples := []Sample{{Message: m, Signature: strings.Repeat("0", 64)}}
	f, err := newFinder(t.Context(), samples, Options{Secret: "secret-of-the-test", Effort: effort})
	require.NoError(t, err)
	return f
}

// An amount of 10.50 distinguishes short numbers from numbers as sent. A whole amount distinguishes short numbers from
// Python's numbers.
func TestUndecidedAsksForWhatTheSamplesLack(t *testing.T) {
	f := finderOf(t, `{"amount":10.50,"a":"p-17"}`)
	chosen := f.catalogue.read(
		f.catalogue.jsonPiece(canonical.JSONForm{Sort: true, Numbers: canonical.NumbersShort}, frame{}),
	)
	needs := map[string]string{}
	for _, a := range f.alternatives(&composition{pieces: []*piece{chosen}}, 0, f.sameTexts(), f.probes()) {
		needs[a.text] = strings.Join(a.needs, "; ")
	}
	require.Equal(
		t, needsWhole+"; a large amount such as 12000000.00",
		strings.TrimSuffix(needs["json(sorted, python-numbers)"], "; an amount with an exponent"),
	)
	require.Equal(
		t, needsSlash, strings.TrimSuffix(needs["json(sorted, escape-slash, short-numbers)"], "; "+needsEscapes),
	)
	require.Contains(t, needs, "json(sorted, escape-unicode, short-numbers)")
	require.Contains(t, needs, "json(sorted, escape-html, short-numbers)")
}

// The work on a large body before the first composition is limited, and a hint reports the limit.
func TestLargeBodyIsPreparedInBounds(t *testing.T) {
	f := finderOf(t, `{"amount":10.50,"text":"`+strings.Repeat("x", 1<<19)+`"}`)
	require.Less(t, len(f.catalogue.pieces), 700)
	require.Contains(t, strings.Join(f.hints(&Result{}), "\n"), "a smaller body")
	require.NotContains(t, strings.Join(finderOf(t, `{"amount":10.50}`).hints(&Result{}), "\n"), "a smaller body")
}

func TestHintOfAShorterBodyNeedsFieldsInEverySample(t *testing.T) {
	hints := func(bodies ...string) string {
		f := &finder{catalogue: &catalogue{}, order: []int{0}, stages: [][]*stage{nil}}
		for _, body := range bodies {
			f.samples = append(f.samples, &sample{message: paymentsvc.Message{Body: []byte(body)}})
		}
		return strings.Join(f.hints(&Result{}), "\n")
	}
	const three = `{"a":1,"b":2,"c":3}`
	require.Contains(t, hints(three), "at least 3 fields")
	require.NotContains(t, hints("{}", three), "a shorter body")
}

func TestUndecidedAsksForFieldsOutOfOrder(t *testing.T) {
	f := finderOf(t, `{"amount":10.50,"user_data":"p-17"}`)
	chosen := f.catalogue.read(piece{kind: ofBody, group: int(ofBody), text: "body"})
	needs := map[string][]string{}
	for _, a := range f.alternatives(&composition{pieces: []*piece{chosen}}, 0, f.sameTexts(), f.probes()) {
		needs[a.text] = a.needs
	}
	require.Equal(t, needsOrder, needs["body-sorted"][0])
	require.NotContains(t, needs["body-sorted"], needsWhole)
}

// Services sign Content-Type more often than Accept.
func TestSampleWithEqualHeadersPrefersContentType(t *testing.T) {
	m := paymentsvc.Message{
		Method: "POST", Timestamp: "1700000000", Body: []byte(`{"a":1}`),
		Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}},
	}
	samples, err := newSamples([]Sample{{Message: m, Signature: strings.Repeat("0", 64)}})
	require.NoError(t, err)
	c := newCatalogue(t.Context(), samples, "secret-of-the-test", nil)
	same := (&finder{catalogue: c}).sameTexts()[(&piece{texts: []string{"application/json"}}).id()]
	require.Equal(t, `header("Content-Type")`, same[0].text)
	require.Equal(t, `header("Accept")`, same[1].text)
}

func TestSampleReadsALabelWithSlashes(t *testing.T) {
	found := encodingsOf("1/SHA256/"+strings.Repeat("ab", 32), 32)
	require.Len(t, found, 1)
	require.Equal(t, `prefixed("1/SHA256/", hex)`, found[0].text)
}

// A wrapping that changes no sample is an alternative, because the bare text is more common.
func TestUndecidedNamesAWrappingWithoutEffect(t *testing.T) {
	m := paymentsvc.Message{Body: []byte(`{"a":1}`)}
	sample := Sample{Message: m, Signature: fmt.Sprintf("%x", sum("secret", m.Body))}
	sample.Message.Timestamp = "1700000000"
	f, err := newFinder(t.Context(), []Sample{sample}, Options{Secret: "secret", Effort: 0.0001})
	require.NoError(t, err)
	p := f.catalogue.read(piece{kind: ofBody, group: int(ofBody), text: "body"})
	h := hit{composition: composition{pieces: []*piece{p}, wrap: wrappings[2]}, key: f.keys[0]}
	require.Nil(t, f.unwrap(&h))
	h.composition.wrap = wrappings[0]
	var result Result
	f.explain(&h, &result)
	require.Nil(t, h.composition.wrap)
	last := result.Undecided[len(result.Undecided)-1]
	require.Equal(t, []Alternative{{"canonical.Lower(canonical.Body)", "a sample with letters in both cases, and with " +
		"characters to escape"}}, last.Others)
}
