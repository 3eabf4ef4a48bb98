// Package discover finds out how a signature is composed, from one message that carries a correct one: the
// interface document does not show it (section 5). [Find] tries compositions of the parts of package canonical.
// examples/discover is Find on the command line.
package discover

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// ErrNoMatch says that Find tried all that it knows and nothing explains the samples. Result.Hints says what to
// vary next.
var ErrNoMatch = errors.New("no composition explains the samples")

// Options configures Find.
type Options struct {
	// Secret is the project secret key that the samples are signed with. It is required. No error and no text
	// in a Result holds it.
	Secret paymentsvc.Secret
	// Words are texts that the canonical string may hold and that stand in no sample, such as a partner id, the
	// name of an API key, or a version.
	Words []string
	// Effort scales how much is tried before Find gives up; 0 means 1, which is some hundred million
	// compositions: ten or twenty seconds on two cores that do SHA-256 in hardware. Where the bodies are large
	// it is fewer, so that the time stays the same.
	Effort float64
	// Workers is how many goroutines search; 0 means GOMAXPROCS.
	Workers int
	// MaxMatches limits Result.Matches; 0 means 20.
	MaxMatches int
	// Progress, when set, is called ten times a second and at the end, from one goroutine. Find waits for it.
	Progress func(Progress)
}

// Find searches for the compositions that explain all samples: that make the signature which each of them
// carries. It combines the parts of this package in every order, with some forty separators, in the spellings
// that programs are known to use, and with the secret read as text, hexadecimal, base64 or hashed. One sample is
// enough: that a wrong composition makes its 256 bits is out of the question. More samples tell more parts apart.
// Samples must share a scheme: where requests and notifications do not, search them apart and join what is
// found with ByKind.
//
// It ends with the first text that the signature fits, and then finds all compositions that make this text; every
// Match has signed all samples again with its Scheme. Without one the error wraps ErrNoMatch, and Result says
// what was tried and what to vary next. When ctx ends, its error is wrapped, and Find returns within
// milliseconds. A *SampleError says what is wrong with a sample. No error holds the secret or a body.
//
// Not covered: signatures that are not HMAC-SHA256, a part that appears twice, texts that stand in no sample and
// not in Options.Words, bodies that are not JSON other than as a whole, more than a few fields one by one in an
// order of their own, and different separators in long compositions.
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
		return result, ended(ctx, result.Tried)
	default:
		result.Hints = f.hints(&result)
		return result, fmt.Errorf("discover: %w: %d were tried", ErrNoMatch, result.Tried)
	}
}

func ended(ctx context.Context, tried int64) error {
	return fmt.Errorf("discover: the search was ended after %d compositions: %w", tried, ctx.Err())
}

// finder is one call of Find.
type finder struct {
	options   Options
	samples   []*sample
	keys      []key
	catalogue *catalogue
	primary   int // the sample that is searched
	stages    []*stage
	search    search
	check     *checker
	progress  chan string // what is being searched, for reportProgress; nil when nobody asks
}

func newFinder(ctx context.Context, in []Sample, o Options) (*finder, error) {
	samples, err := newSamples(in)
	if err != nil {
		return nil, err
	}
	// The root package knows which secrets are none.
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
	f.primary = f.catalogue.mostTelling()
	f.stages = f.catalogue.stages(f.primary, f.keys, o.Effort)
	return f, nil
}

// newKeys returns the ways to read the secret, each key once.
func newKeys(secret paymentsvc.Secret) (keys []key) {
	seen := map[paymentsvc.Secret]bool{}
	for form := canonical.SecretText; form <= canonical.SecretSHA256Hex; form++ {
		k, err := form.Read(secret)
		if err != nil || seen[k] {
			continue
		}
		seen[k] = true
		keys = append(keys, newKey(form, k))
	}
	return keys
}

// find searches the primary sample, and when nothing explains it, whether something simple explains another.
func (f *finder) find(ctx context.Context) (result Result) {
	h := f.run(ctx, f.primary, f.stages)
	for _, st := range f.stages {
		result.Covered = append(result.Covered, Coverage{st.what, st.maxParts(), st.total, st.done})
	}
	if h == nil && len(f.samples) > 1 {
		quick := min(f.options.Effort, 0.05)
		for i := range f.samples {
			if i == f.primary || h != nil || ctx.Err() != nil {
				continue
			}
			if h = f.run(ctx, i, f.catalogue.stages(i, f.keys, quick)); h != nil {
				f.primary = i
			}
		}
	}
	result.Tried = f.search.tried.Load()
	if h != nil {
		f.explain(h, &result)
	}
	return result
}

// run searches one sample.
func (f *finder) run(ctx context.Context, sample int, stages []*stage) *hit {
	f.search.wanted = nil
	for _, r := range f.samples[sample].encodings {
		f.search.wanted = append(f.search.wanted, r.sum)
	}
	for _, st := range stages {
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
