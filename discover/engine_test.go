package discover

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

func sum(secret paymentsvc.Secret, text []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(text)
	return string(mac.Sum(nil))
}

// An HMAC from saved states must be the HMAC of crypto/hmac, for keys of all lengths and for each start of the text.
func TestCheckerAgreesWithCryptoHMAC(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		k := newKey(canonical.SecretText, paymentsvc.Secret(strings.Repeat("k", 1+r.IntN(130))))
		text := make([]byte, r.IntN(300))
		for i := range text {
			text[i] = byte(r.IntN(256))
		}
		c := newChecker([]string{"another", sum(k.secret, text)})
		at := r.IntN(len(text) + 1)
		state := c.stateAfter(nil, k.inner, text[:at/2])
		state = c.stateAfter(nil, state, text[at/2:at])
		require.True(t, c.matches(&k, state, text[at:]))

		c.want([]string{"another"})
		require.False(t, c.matches(&k, state, text[at:]))
	}
}

// groupOf returns a group with a piece for each text.
func groupOf(k kind, texts ...string) stageGroup {
	g := stageGroup{kind: k, texts: texts}
	for _, text := range texts {
		p := piece{kind: k, texts: []string{text}, text: text, part: canonical.Literal(text)}
		g.pieces = append(g.pieces, &p)
	}
	return g
}

// stageOf returns the stage of a plan with one key.
func stageOf(p plan, groups ...stageGroup) *stage {
	return newStage(groups, []key{newKey(canonical.SecretText, "a")}, p)
}

// The workers of a stage must try as many compositions as the stage counts, each text once.
func TestStageTriesWhatItCounts(t *testing.T) {
	groups := []stageGroup{
		groupOf(ofTimestamp, "T"), groupOf(ofMethod, "M", "m"), groupOf(ofBody, "B", "C", strings.Repeat("D", 70)),
		groupOf(ofHost, "H"), groupOf(ofField, "F", "G"), groupOf(ofNothing, ""),
	}
	for name, p := range map[string]plan{
		"one separator":        {max: 3, extras: 1, gaps: []string{""}},
		"separators and edges": {max: 4, extras: 2, gaps: []string{"", "|", "\n"}, ends: after | around | newline},
		"long ones only":       {min: 4, max: 5, extras: 2, gaps: []string{"", "."}, ends: after},
		"no extras":            {max: 3, gaps: []string{"", "."}},
		"in an order": {
			max: 5, extras: 2, gaps: []string{"", "|"}, order: []kind{ofBody, ofField, ofTimestamp}, ends: after,
		},
		"the body at an end":   {max: 5, extras: 3, gaps: []string{"", "."}, bodyAtEnd: true},
		"separate separators":  {max: 3, extras: 1, gaps: []string{"", ".", "::"}, mixed: true, ends: newline},
		"all keys":             {max: 2, extras: 1, gaps: []string{"."}, keyRarity: rare},
		"wrapped":              {max: 2, extras: 1, gaps: []string{"."}, wrap: wrappings[0]},
		"more than its groups": {max: 9, extras: 9, gaps: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(groups, newKeys("00ff"), p)
			st.fit(1e9)
			for _, workers := range []int{1, 3} {
				s := &search{wanted: []string{"none"}, workers: workers}
				require.True(t, s.run(context.Background(), st))
				require.Equal(t, st.total, s.tried.Load())
			}
			require.Positive(t, st.total)
			require.Equal(t, p.keyRarity == rare, len(st.keys) > 2)
		})
	}
}

// The limits count blocks of SHA-256, because a composition with a long body takes as long as hundreds of short ones.
func TestStageLimitsTheBlocksOfLongTexts(t *testing.T) {
	st := func(body string) *stage {
		return stageOf(plan{max: 2, gaps: allSeparators}, groupOf(ofTimestamp, "T"), groupOf(ofBody, body))
	}
	short, long := st("B"), st(strings.Repeat("B", 64<<10))
	short.fit(1000)
	long.fit(1000)
	require.Equal(t, 2, short.max)
	require.Less(t, long.max, 2)
	require.Greater(t, long.weight, 100*short.weight)
}

// More effort must add work in proportion, for short and for long bodies.
func TestEffortScalesTheWork(t *testing.T) {
	for _, size := range []int{10, 60 << 10} {
		body := `{"partner_id":17,"project_id":42,"amount":10.50,"currency":"EUR","user_data":"o-1","url":"a/b","text":"`
		c := finderOf(t, body+strings.Repeat("x", size)+`"}`).catalogue
		keys := newKeys("secret-of-the-test")
		one, ten := work(c.stages(0, keys, 1)), work(c.stages(0, keys, 10))
		require.LessOrEqual(t, one, float64(maxWork))
		require.LessOrEqual(t, ten, 10*one, "%d bytes", size)
		require.Greater(t, ten, 4*one, "%d bytes", size)
	}
}

// A hit on a sequence is reported with the members of the sequence, which always have a text form.
func TestSequenceIsReportedWithItsMembers(t *testing.T) {
	c := alteredCatalogue()
	sequences := 0
	for _, p := range c.pieces {
		if p.members == nil {
			continue
		}
		sequences++
		whole := (&composition{pieces: []*piece{p}}).expanded()
		require.NotEmpty(t, whole.expr())
		text, err := whole.text(0)
		require.NoError(t, err)
		require.Equal(t, p.texts[0], text)
		for _, member := range whole.pieces {
			require.Nil(t, member.members)
		}
	}
	require.Positive(t, sequences)
}

// looks is a context that counts the calls of Err, and ends at the third call.
type looks struct {
	context.Context
	asked atomic.Int64
}

func (l *looks) Err() error {
	if l.asked.Add(1) > 2 { // the first call is before the first job, and the second during the job
		return context.Canceled
	}
	return nil
}

// Between two checks of its context, a worker must not hash for longer than a few milliseconds.
func TestSearchLooksAtItsContextOften(t *testing.T) {
	for name, length := range map[string]int{"short texts": 1, "long texts": 60 << 10} {
		t.Run(name, func(t *testing.T) {
			var groups []stageGroup
			for i := range 8 {
				groups = append(groups, groupOf(ofField, strings.Repeat(string(rune('a'+i)), length)))
			}
			st := stageOf(plan{max: 8, extras: 8, gaps: []string{"."}}, groups...)
			st.fit(1e9)
			s := &search{wanted: []string{"none"}, workers: 1}
			require.False(t, s.run(&looks{Context: context.Background()}, st))
			least := int64(length/sha256.BlockSize + 2) // blocks of a composition
			require.Less(t, s.tried.Load(), 2*blocksBetweenChecks/least+2)
			require.Less(t, s.tried.Load(), st.total/2)
		})
	}
}

// The catalogue of a large body takes long to make, too.
func TestCatalogueEndsWithItsContext(t *testing.T) {
	var fields strings.Builder
	for i := range 500 {
		fmt.Fprintf(&fields, `"field_%d":%d,`, i, i)
	}
	m := paymentsvc.Message{Method: "POST", Timestamp: "1700000000", Body: []byte("{" + fields.String() + `"a":1}`)}
	samples, err := newSamples([]Sample{{Message: m, Signature: strings.Repeat("0", 64)}})
	require.NoError(t, err)
	ctx := &looks{Context: context.Background()}
	c := newCatalogue(ctx, samples, "secret-of-the-test", nil)
	require.LessOrEqual(t, len(c.pieces), 2, "pieces that were made after the context ended")
	require.Greater(t, ctx.asked.Load(), int64(len(c.pieces)))
}

// The search must find each composition of a stage if its text is the signed text.
func TestStageHitsEachOfItsCompositions(t *testing.T) {
	st := stageOf(
		plan{max: 3, extras: 1, gaps: []string{"", "|"}, ends: after | around | newline},
		groupOf(ofTimestamp, "1700000000"), groupOf(ofBody, strings.Repeat("x", 2*longText)),
		groupOf(ofHost, "h.example"),
	)
	st.fit(1e9)
	for _, gap := range st.gaps {
		for _, e := range st.ends.edges(gap) {
			for _, trail := range e.trails {
				for _, order := range [][]int{{0}, {1}, {2}, {0, 1}, {1, 0}, {2, 1}, {0, 1, 2}, {1, 2, 0}, {2, 0, 1}} {
					var texts []string
					for _, g := range order {
						texts = append(texts, st.groups[g].texts[0])
					}
					text := e.lead + strings.Join(texts, gap) + trail
					s := &search{wanted: []string{sum("a", []byte(text))}, workers: 2}
					require.False(t, s.run(context.Background(), st))
					got, err := s.found.composition.text(0)
					require.NoError(t, err)
					require.Equal(t, text, got)
				}
			}
		}
	}
}

func TestStageFitCutsOrEmptiesWhatIsTooLarge(t *testing.T) {
	st := func() *stage {
		groups := slices.Repeat([]stageGroup{groupOf(ofField, "a", "b")}, 10)
		return stageOf(plan{min: 2, max: 4, extras: 4, gaps: allSeparators}, groups...)
	}
	cut := st()
	cut.fit(1e6)
	require.Equal(t, 3, cut.max)
	require.LessOrEqual(t, cut.total, int64(1e6))
	require.Positive(t, cut.total)

	out := st()
	out.fit(1)
	require.Zero(t, out.total)
	require.Zero(t, out.maxParts())
	require.Empty(t, out.jobs())
}

func TestSeparatorsAreDifferent(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range allSeparators {
		require.False(t, seen[s], "%q", s)
		seen[s] = true
	}
}

// A stage must not hash equal texts twice, and all pieces with the text must be found.
func TestStageHasEachTextOnce(t *testing.T) {
	c := finderOf(t, `{"a":1}`).catalogue
	for _, st := range c.stages(0, newKeys("secret-of-the-test"), 1) {
		for _, g := range st.groups {
			seen := map[string]bool{}
			for _, text := range g.texts {
				require.False(t, seen[text], "%s: %q", st.what, text)
				seen[text] = true
			}
		}
	}
	same := (&finder{catalogue: c}).sameTexts()
	var exprs []string
	for _, p := range same[(&piece{texts: []string{`{"a":1}`}}).id()] {
		exprs = append(exprs, p.expr())
	}
	require.Contains(t, exprs, "canonical.BodyCompact")
	require.Equal(t, "canonical.Body", exprs[0], "the simplest comes first")
}

// The Scheme of a match must reproduce the signature. The texts of the pieces are not enough.
func TestMatchThatDoesNotSignIsDropped(t *testing.T) {
	m := paymentsvc.Message{Method: "POST", Timestamp: "1700000000", Body: []byte(`{"a":1}`)}
	samples := []Sample{{Message: m, Signature: fmt.Sprintf("%x", sum("secret-of-the-test", []byte("text")))}}
	for text, want := range map[string]int{"text": 1, "another text": 0} {
		f, err := newFinder(t.Context(), samples, Options{Secret: "secret-of-the-test"})
		require.NoError(t, err)
		p := &piece{texts: []string{"text"}, text: strconv.Quote(text)}
		f.catalogue.pieces = []*piece{p}
		var result Result
		f.explain(&hit{composition: composition{pieces: []*piece{p}}, key: f.keys[0]}, &result)
		require.Len(t, result.Matches, want)
	}
}

// More effort must try more compositions, and the hint must report when all were tried.
func TestEffortHintSaysWhenAllIsTried(t *testing.T) {
	hint := func(effort float64) (total int64, text string) {
		f := finderWith(t, effort, "")
		for _, st := range f.stages[0] {
			total += st.total
		}
		return total, f.effortHint()
	}
	few, text := hint(0.0001)
	require.Contains(t, text, "not tried in full")
	many, text := hint(1e9)
	require.Greater(t, many, 10*few)
	require.Contains(t, text, "the search tried all its compositions")
}

var falseTrials = flag.Int("discover.false", 1000,
	"random signatures that TestSearchFindsNothingForForeignSignatures searches for at once")

// No composition may match a random signature. The search compares the sum of each composition with many signatures.
func TestSearchFindsNothingForForeignSignatures(t *testing.T) {
	effort := 0.0005
	if *falseTrials > 1000 {
		effort = 1
	}
	f := finderWith(t, effort, `{"partner_id":17,"project_id":42,"amount":10.50,"user_data":"order-1"}`)
	encodings := make([]reading, *falseTrials)
	for i := range encodings {
		encodings[i].sum = sum("secret-of-the-test", []byte(fmt.Sprint("nothing that is searched ", i)))
	}
	f.samples[0].encodings = encodings
	require.Nil(t, f.run(context.Background(), 0))
	t.Logf("%d compositions, each compared with %d signatures", f.search.tried.Load(), len(encodings))
}

// FindKnowing is Find with a shortcut: it tries only the texts that occur in one of the signed texts. It finds what
// Find finds, in the same stages and under the same limits, without the compositions that cannot fit.
func FindKnowing(ctx context.Context, samples []Sample, o Options, signed ...string) (Result, error) {
	id := fmt.Sprintf("%q %v", string(o.Secret), o)
	for _, s := range samples {
		m := s.Message
		id += fmt.Sprintf(" %d %q %v %q %v %q", m.Kind, m.Method, m.URL, m.Timestamp, m.Header, m.Body)
	}
	if id != latest.id {
		f, err := newFinder(ctx, samples, o)
		if err != nil {
			return Result{}, err
		}
		f.catalogue.ctx, latest.id, latest.finder = context.WithoutCancel(ctx), id, f
	} else if err := latest.finder.sign(samples...); err != nil {
		return Result{}, err
	}
	return latest.finder.findKnowing(ctx, signed...)
}

// latest is the finder of the last call of FindKnowing, for calls whose samples differ only in their signatures.
var latest struct {
	id     string
	finder *finder
}

// sign replaces the samples by samples that differ only in their signatures.
func (f *finder) sign(samples ...Sample) (err error) {
	f.samples, err = newSamples(samples)
	f.stages = nil
	for i := range samples {
		f.stages = append(f.stages, f.catalogue.stages(i, f.keys, f.options.Effort))
	}
	return err
}

func (f *finder) findKnowing(ctx context.Context, signed ...string) (Result, error) {
	for _, stages := range f.stages {
		for _, st := range stages {
			for i := range st.groups {
				st.groups[i].keep(func(text string) bool {
					return slices.ContainsFunc(signed, func(s string) bool { return strings.Contains(s, text) })
				})
			}
		}
	}
	result := f.find(ctx)
	if len(result.Matches) == 0 {
		return result, ErrNoMatch
	}
	return result, nil
}

// keep removes unwanted texts and their pieces.
func (g *stageGroup) keep(wanted func(text string) bool) {
	var texts []string
	var pieces []*piece
	var special []bool
	for i, text := range g.texts {
		if wanted(text) {
			texts, pieces, special = append(texts, text), append(pieces, g.pieces[i]), append(special, g.isSpecial(i))
		}
	}
	g.texts, g.pieces, g.special = texts, pieces, special
}
