package schedule

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// ledger is a Ledger of functions. A job is a user_data.
type ledger struct {
	round   func(Request[string]) (Result[string], error)
	record  func(Completion[string]) error
	release func(tokens []string) error
	probe   func() ([]string, error)
}

func (l *ledger) Round(_ context.Context, r Request[string]) (Result[string], error) {
	return l.round(r)
}
func (l *ledger) Record(_ context.Context, c Completion[string]) error { return l.record(c) }
func (l *ledger) Release(_ context.Context, tokens []string) error     { return l.release(tokens) }
func (l *ledger) Probe(context.Context, string) ([]string, error)      { return l.probe() }

var errCommit = errors.New("the commit is unknown")

// success is a completion for a round.
func success(job string) Completion[string] {
	return Completion[string]{UserData: job, OrderID: "order-" + job, OrderKey: "payout/" + job, Slot: 1, Done: job}
}

// recorded is the result of a round that recorded all completions and claimed jobs.
func recorded(r Request[string], jobs ...string) Result[string] {
	result := Result[string]{Jobs: jobs, Recorded: map[string]bool{}, Next: r.After}
	for _, c := range r.Completions {
		result.Recorded[c.UserData] = true
	}
	return result
}

// numbered returns n jobs, whose names count from first.
func numbered(first, n int) []string {
	jobs := make([]string, n)
	for i := range jobs {
		jobs[i] = strconv.Itoa(first + i)
	}
	return jobs
}

// bench is a scheduler whose rounds and calls are ended by the test, one by one.
type bench struct {
	*testing.T
	*Scheduler[string, string]
	ledger *ledger
	rounds chan *flight
	calls  chan string // one element per call in flight
	ends   chan struct{}
	over   chan struct{} // closed at the end of the test: rounds and calls end
	batch  chan error    // the error of RunBatch
	made   int           // by RunBatch
}

// flight is a round in flight. It ends with a result or without one.
type flight struct {
	Request[string]
	end    chan Result[string]
	failed chan map[string]bool
}

// bubble runs f with a bench of two slots in a bubble of synctest.
func bubble(t *testing.T, change func(*Config[string, string]), f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{
			T: t, rounds: make(chan *flight, 100), calls: make(chan string, 1000), ends: make(chan struct{}),
			over: make(chan struct{}), batch: make(chan error, 1),
		}
		defer close(b.over)
		b.ledger = &ledger{
			round: func(r Request[string]) (Result[string], error) {
				one := &flight{r, make(chan Result[string]), make(chan map[string]bool)}
				b.rounds <- one
				select {
				case result := <-one.end:
					return result, nil
				case recorded := <-one.failed:
					return Result[string]{Recorded: recorded}, errCommit
				case <-b.over:
					return Result[string]{}, errCommit
				}
			},
			record:  func(Completion[string]) error { return nil },
			release: func([]string) error { return nil },
			probe:   func() ([]string, error) { return nil, nil },
		}
		c := Config[string, string]{
			Ledger: b.ledger, Slots: 2, MaxRounds: 2, MaxRecords: 2, Poll: time.Hour,
			Log:  slog.New(slog.NewTextHandler(io.Discard, nil)),
			Call: func(_ context.Context, job string) Completion[string] { b.call(job); return success(job) },
		}
		if change != nil {
			change(&c)
		}
		b.Scheduler = New(c)
		f(b)
		b.none()
		require.Zero(t, b.slots(), "slots in use at the end")
	})
}

// call is one call, until the test ends it.
func (b *bench) call(job string) {
	b.calls <- job
	select {
	case <-b.ends:
	case <-b.over:
	}
	<-b.calls
}

// slots returns the number of slots in use.
func (b *bench) slots() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// endCall ends one call.
func (b *bench) endCall() { b.ends <- struct{}{} }

// start starts a RunBatch.
func (b *bench) start(ctx context.Context, maxRows int) {
	go func() {
		var err error
		b.made, err = b.RunBatch(ctx, maxRows)
		b.batch <- err
	}()
}

// run starts a Run until stop.
func (b *bench) run() (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	go func() { b.batch <- b.Scheduler.Run(ctx) }()
	return cancel
}

// next returns the round that has begun.
func (b *bench) next() *flight {
	b.Helper()
	synctest.Wait()
	select {
	case r := <-b.rounds:
		return r
	default:
		require.FailNow(b, "no round has begun")
		return nil
	}
}

// claiming ends rounds without claims, and returns the next round with claims.
func (b *bench) claiming() *flight {
	b.Helper()
	r := b.next()
	for r.MaxRows == 0 {
		r.record()
		r = b.next()
	}
	return r
}

// none requires that no round has begun.
func (b *bench) none() {
	b.Helper()
	synctest.Wait()
	require.Empty(b, b.rounds, "rounds in flight")
}

// record ends a round that records its completions and claims jobs.
func (f *flight) record(jobs ...string) {
	f.end <- recorded(f.Request, jobs...)
	synctest.Wait()
}

// pause ends a round that records its completions and reports a pause.
func (f *flight) pause() {
	result := recorded(f.Request)
	result.Paused = true
	f.end <- result
	synctest.Wait()
}

// elapse ends a round that records its completions and reports the end of a timed pause.
func (f *flight) elapse() {
	result := recorded(f.Request)
	result.Elapsed = true
	f.end <- result
}

// fail ends a round with an error. Only the completions of userData are known to be recorded.
func (f *flight) fail(userData ...string) {
	recorded := map[string]bool{}
	for _, u := range userData {
		recorded[u] = true
	}
	f.failed <- recorded
	synctest.Wait()
}

// finish records a round, and requires the end of the RunBatch without an error.
func (b *bench) finish(r *flight) {
	b.Helper()
	r.record()
	require.NoError(b, b.result())
}

// result ends all calls and rounds without further claims, and returns the error of the RunBatch.
func (b *bench) result() error {
	b.Helper()
	for {
		synctest.Wait()
		select {
		case r := <-b.rounds:
			r.record()
		case b.ends <- struct{}{}:
		case err := <-b.batch:
			return err
		default:
			require.FailNow(b, "RunBatch waits")
		}
	}
}
