// Package discover finds the composition of the canonical string from one correctly signed message, because the
// interface document does not specify the composition (section 5). [Find] tries compositions of the parts of package
// canonical. [Match.Text] is the scheme in one line, for [canonical.ParseSchemeWith]. The command paymentsvc discover
// calls Find.
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

// ErrNoMatch means that [Find] searched all samples within Options.Effort, but no composition explains all of them.
// [Result.Hints] lists the next steps.
var ErrNoMatch = errors.New("no composition explains the samples")

// Options configures [Find].
type Options struct {
	// Secret is the project secret key of the samples. It is required. Errors and the texts of a [Result] never contain
	// it.
	Secret paymentsvc.Secret
	// Words are texts of the canonical string that no sample contains, such as a partner id, an API key or a version.
	Words []string
	// Effort scales the work before Find returns ErrNoMatch. 0 means 1: up to 240 million compositions of short texts
	// for each sample. A request with seven fields takes up to 45 seconds of processor time with SHA-256 in hardware,
	// and up to 60 seconds with a body of 64 KiB. 10 takes up to ten times as long. [Result.Hints] reports whether
	// more effort helps.
	Effort float64
	// Workers is the number of goroutines that search; 0 means GOMAXPROCS.
	Workers int
	// MaxMatches limits [Result.Matches]; 0 means 20.
	MaxMatches int
	// Progress, if not nil, is called ten times a second and at the end, from one goroutine. During a call, the current
	// stage of the search continues, but the next stage and the return of Find wait.
	Progress func(Progress)
}

// Find searches for the compositions that produce the signatures of all samples. It combines the parts of package
// canonical with about a hundred separators, and reads the secret in every [canonical.SecretForm]. One sample is
// enough, because a false match would be a 256-bit collision. More samples distinguish more parts. All samples must
// share a scheme. If requests and notifications have different schemes, search them separately and use
// [canonical.ByKind].
//
// Find stops at the first text that produces the sample's signature, and then finds compositions of this text. Unless a
// composition explains all samples, Find searches the next sample. Find checks the Scheme of each [Match] against the
// signatures of its samples. Without a match the error wraps [ErrNoMatch]. If ctx ends, Find returns the wrapped error
// of ctx within milliseconds. A [*SampleError] describes a wrong sample. Errors contain neither the secret nor a body.
// A match can be unsafe: see [Match.Warnings].
//
// Find does not search signatures other than HMAC-SHA256, texts outside the samples and Options.Words, fields of a
// body other than a JSON object, more than eight single fields in an order other than the body's, or long
// compositions with different separators.
func Find(ctx context.Context, samples []Sample, o Options) (Result, error) {
	start := time.Now()
	if ctx == nil {
		return Result{}, errors.New("discover: Find needs a context")
	}
	f, err := newFinder(ctx, samples, o)
	switch {
	case err != nil:
		return Result{}, err
	case ctx.Err() != nil: // the catalogue may be incomplete
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
		return result, fmt.Errorf("discover: %w: tried %d compositions", ErrNoMatch, result.Tried)
	}
}

func ended(ctx context.Context, tried int64) error {
	return fmt.Errorf("discover: the search ended after %d compositions: %w", tried, ctx.Err())
}

// finder is one call of [Find].
type finder struct {
	options   Options
	samples   []*sample
	keys      []key
	catalogue *catalogue
	primary   int        // index of the current sample
	order     []int      // indexes of the samples in the order of the search
	stages    [][]*stage // stages by index of the sample
	search    search
	check     *checker
	progress  chan string // receives the description of each new family; nil without Options.Progress
}

func newFinder(ctx context.Context, in []Sample, o Options) (*finder, error) {
	samples, err := newSamples(in)
	if err != nil {
		return nil, err
	}
	// The root package rejects invalid secrets.
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

// newKeys returns the readings of the secret without duplicate keys.
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

// find searches the samples one by one until a composition explains all samples, because the search may miss the text
// of a sample that is wrong or has many fields.
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

// cheapFirst returns the stages of a sample in the order of the search: by their number of compositions in steps of a
// factor of four, then in the order of plans. The first step ends at half a million compositions.
func (f *finder) cheapFirst(sample int) []*stage {
	list := slices.Clone(f.stages[sample])
	tier := func(s *stage) int { return bits.Len64(uint64(max(s.total, 0))>>18) / 2 }
	slices.SortStableFunc(list, func(a, b *stage) int { return cmp.Compare(tier(a), tier(b)) })
	return list
}

// order returns the samples in the order of the search. The shortest body comes first, because it takes the least
// hashing.
func (c *catalogue) order() []int {
	order := make([]int, len(c.samples))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(len(c.samples[a].message.Body), len(c.samples[b].message.Body))
	})
	return order
}

// run searches one sample, and returns the first hit or nil.
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

// Progress is the state of a search.
type Progress struct {
	// Tried counts the compositions so far. Total is the maximum.
	Tried, Total int64
	// Elapsed is the time since Find began.
	Elapsed time.Duration
	// What describes the current family of compositions.
	What string
}

// Result is the result of [Find].
type Result struct {
	// Matches explain all samples, the simplest first.
	Matches []Match
	// More counts the matches beyond [Options.MaxMatches], without a check of their Schemes.
	More int
	// Undecided lists the alternatives to the first match that fit the samples equally well.
	Undecided []Undecided
	// Partial explains only some samples. It is empty if there are Matches.
	Partial []Match
	// Tried counts the tried compositions. A composition counts once for all encodings, and once for all parts with
	// equal texts.
	Tried int64
	// Elapsed is the duration of the call.
	Elapsed time.Duration
	// Covered lists the families of compositions; see [Coverage.Done].
	Covered []Coverage
	// Hints lists the next checks after a search without a match, the most useful first.
	Hints []string
}

// Match is a composition that produces the signatures of the samples.
type Match struct {
	// Text is the scheme and the form of the secret in one line, for [canonical.ParseSchemeWith].
	Text string
	// Scheme is ready to use with Secret. JSON omits it, because it contains functions.
	Scheme paymentsvc.Scheme `json:"-"`
	// Secret is the key of the scheme: [Options.Secret] in the form SecretForm.
	Secret     paymentsvc.Secret
	SecretForm canonical.SecretForm
	// Expr is the Go expression of Scheme, and SecretExpr is the expression of Secret. Both use a variable secret of
	// type paymentsvc.Secret. SecretExpr also returns an error, unless SecretForm is canonical.SecretText.
	Expr, SecretExpr string
	// Imports are the sorted packages of Expr and SecretExpr.
	Imports []string
	// Description describes the scheme in words.
	Description string
	// Warnings has a sentence per weakness, such as an unsigned body, field or timestamp, or an ambiguous canonical
	// string, which two messages can share. Unsigned method, address and headers do not count.
	Warnings []string
	// Samples names the explained samples. In [Result.Matches] these are all samples.
	Samples []string
}

// Undecided is a part, the canonical string or the encoding of the first match, with alternatives that have equal texts
// in every sample.
type Undecided struct {
	// Chosen is the Go expression in the first match. Others fit equally well.
	Chosen string
	Others []Alternative
}

// Alternative is a Go expression that has the same text as Undecided.Chosen in every sample.
type Alternative struct {
	// Expr is the Go expression.
	Expr string
	// Needs describes a sample that decides between Chosen and Expr.
	Needs string
}

// Coverage is a family of compositions.
type Coverage struct {
	// What describes the combined parts.
	What string
	// MaxParts is the length of the longest compositions, or 0 if the samples lack the parts or Options.Effort is too
	// small.
	MaxParts int
	// Compositions counts the compositions for all samples, tried or not. Done reports whether all compositions for at
	// least one sample were tried.
	Compositions int64
	Done         bool
}

// reportProgress calls Options.Progress until the caller calls stop, and once more at the end.
func (f *finder) reportProgress(start time.Time) (stop func()) {
	if f.options.Progress == nil {
		return func() {}
	}
	total := int64(0)
	for _, stages := range f.stages {
		for _, st := range stages {
			total += st.total
		}
	}
	f.progress = make(chan string)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		const often = 100 * time.Millisecond
		ticker := time.NewTicker(often)
		defer ticker.Stop()
		what := ""
		report := func() {
			tried := f.search.tried.Load()
			f.options.Progress(Progress{Tried: tried, Total: max(total, tried), Elapsed: time.Since(start), What: what})
		}
		for {
			select {
			case <-ticker.C:
				report()
			case next, open := <-f.progress:
				if !open {
					report()
					return
				}
				what = next
			}
		}
	}()
	return func() {
		close(f.progress)
		<-ended
	}
}
