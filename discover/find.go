// Package discover finds out how a signature is composed from one message that carries a correct one, since the
// interface document does not show it (section 5). [Find] searches the compositions of the parts of package canonical.
// [Match.Text] is what was found, in one line that [canonical.ParseSchemeWith] reads. The command
// paymentsvc discover is Find on the command line.
package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// ErrNoMatch means that [Find] tried everything and nothing explains the samples. [Result.Hints] says what to vary
// next.
var ErrNoMatch = errors.New("no composition explains the samples")

// Options configures [Find].
type Options struct {
	// Secret is the project secret key that signed the samples. It is required. No error and no text in a [Result]
	// holds it.
	Secret paymentsvc.Secret
	// Words are texts that the canonical string may hold and no sample does, such as a partner id, the name of an API
	// key or a version.
	Words []string
	// Effort scales how much is tried before Find returns ErrNoMatch. 0 means 1: one to four hundred million
	// compositions for each sample, which take 15 to 35 seconds on two cores with SHA-256 in hardware. 10 tries ten times as many
	// where there are more; [Result.Hints] says so when all were tried. Fewer are tried for large bodies, which take
	// longer.
	Effort float64
	// Workers is the number of goroutines that search; 0 means GOMAXPROCS.
	Workers int
	// MaxMatches limits [Result.Matches]; 0 means 20.
	MaxMatches int
	// Progress, if not nil, is called ten times a second and at the end, from one goroutine. Find waits for it.
	Progress func(Progress)
}

// Find searches for the compositions that explain all samples: that sign each with its signature. It combines the
// parts of package canonical in every order, with some forty separators, in the spellings that programs are known to
// use, and reads the secret as text, hexadecimal, base64 or hashed. One sample is enough: a false match is
// practically impossible, since it would be a 256-bit collision. Further samples tell more parts apart. All samples
// must share a scheme: if requests and notifications are signed differently, search them separately and use
// [canonical.ByKind].
//
// Find stops at the first text that fits the signature, and then finds every composition of this text. Every [Match]
// has signed all samples again with its Scheme. Otherwise the error wraps [ErrNoMatch], and Result says what was
// tried and what to vary next. If ctx ends, Find returns its error, wrapped, within milliseconds. A [*SampleError]
// says what is wrong with a sample. No error holds the secret or a body.
//
// A composition that fits is not always a safe one: see [Match.Warnings].
//
// Not searched are signatures other than HMAC-SHA256, texts that are neither in a sample nor in Options.Words, parts of a
// body that is not JSON, more than eight single fields in an order of their own, and different separators in long
// compositions.
func Find(ctx context.Context, samples []Sample, o Options) (Result, error) {
	start := time.Now()
	if ctx == nil {
		return Result{}, errors.New("discover: Find needs a context")
	}
	f, err := newFinder(ctx, samples, o)
	switch {
	case err != nil:
		return Result{}, err
	case ctx.Err() != nil: // the catalogue may be cut short
		return Result{Elapsed: time.Since(start)}, ended(ctx, 0)
	}
	stopProgress := f.reportProgress(start)
	result := f.find(ctx)
	stopProgress()
	result.Elapsed = time.Since(start)
	switch {
	case len(result.Matches) > 0:
		return result, nil
	case ctx.Err() != nil:
		result.Hints = f.hints(&result)
		return result, ended(ctx, result.Tried)
	default:
		if len(result.Partial) == 0 {
			result.Hints = f.keyHints(ctx)
		}
		result.Hints = append(result.Hints, f.hints(&result)...)
		return result, fmt.Errorf("discover: %w: %d were tried", ErrNoMatch, result.Tried)
	}
}

func ended(ctx context.Context, tried int64) error {
	return fmt.Errorf("discover: the search was ended after %d compositions: %w", tried, ctx.Err())
}

// finder is one call of [Find].
type finder struct {
	options   Options
	samples   []*sample
	keys      []key
	catalogue *catalogue
	primary   int        // index of the sample that is searched
	order     []int      // of the samples
	stages    [][]*stage // by sample
	search    search
	check     *checker
	progress  chan string // what is being searched; nil without Options.Progress
}

func newFinder(ctx context.Context, in []Sample, o Options) (*finder, error) {
	samples, err := newSamples(in)
	if err != nil {
		return nil, err
	}
	// The root package knows which secrets are invalid.
	probe := paymentsvc.Scheme{Canonical: canonical.Literal(""), Encoding: paymentsvc.Hex}
	if _, err := probe.Signature(o.Secret, &paymentsvc.Message{}); err != nil {
		return nil, fmt.Errorf("discover: Options: %w", err)
	}
	if o.Effort < 0 || o.Workers < 0 || o.MaxMatches < 0 {
		return nil, errors.New("discover: Options: Effort, Workers and MaxMatches must not be negative")
	}
	if o.Effort == 0 {
		o.Effort = 1
	}
	if o.MaxMatches == 0 {
		o.MaxMatches = 20
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	f := &finder{options: o, samples: samples, keys: newKeys(o.Secret), check: newChecker(nil)}
	f.search.workers = o.Workers
	f.catalogue = newCatalogue(ctx, samples, o.Secret, o.Words)
	if f.catalogue.err != nil {
		return nil, f.catalogue.err
	}
	f.order = f.catalogue.order()
	for i := range samples {
		f.stages = append(f.stages, f.catalogue.stages(i, f.keys, o.Effort))
	}
	return f, nil
}

// newKeys returns the readings of the secret, each key once.
func newKeys(secret paymentsvc.Secret) (keys []key) {
	seen := map[paymentsvc.Secret]bool{}
	for form := canonical.SecretText; form.Name() != ""; form++ {
		k, err := form.Read(secret)
		if err != nil || seen[k] {
			continue
		}
		seen[k] = true
		keys = append(keys, newKey(form, k))
	}
	return keys
}

// find searches one sample after the other, until what explains one explains all. So a sample that does not fit, or has
// many fields, loses nothing that another one has.
func (f *finder) find(ctx context.Context) (result Result) {
	for _, i := range f.order {
		f.primary = i
		if h := f.run(ctx, i); h != nil {
			f.explain(h, &result)
		}
		if len(result.Matches) > 0 || ctx.Err() != nil {
			break
		}
	}
	for i, st := range f.stages[0] {
		covered := Coverage{What: st.what}
		for _, stages := range f.stages {
			covered.MaxParts = max(covered.MaxParts, stages[i].maxParts())
			covered.Compositions += stages[i].total
			covered.Done = covered.Done || stages[i].done
		}
		if covered.Compositions > 0 || !st.short {
			result.Covered = append(result.Covered, covered)
		}
	}
	result.Tried = f.search.tried.Load()
	return result
}

// cheapFirst returns the stages of a sample in the order of the search: those that take four times as long come later.
func (f *finder) cheapFirst(sample int) []*stage {
	list := slices.Clone(f.stages[sample])
	tier := func(s *stage) int { return bits.Len64(uint64(max(s.total, 0))>>18) / 2 }
	slices.SortStableFunc(list, func(a, b *stage) int { return cmp.Compare(tier(a), tier(b)) })
	return list
}

// run searches one sample.
func (f *finder) run(ctx context.Context, sample int) *hit {
	f.search.reset(f.samples[sample].sums())
	for _, st := range f.cheapFirst(sample) {
		if f.progress != nil {
			f.progress <- st.what
		}
		if !f.search.run(ctx, st) {
			break
		}
		st.done = st.total > 0
	}
	return f.search.found
}
