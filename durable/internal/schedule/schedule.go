// Package schedule decides when to claim rows, to call the service and to record the completions. It contains no SQL.
//
// A call occupies a slot from its claim to the commit of its completion. A claim with an unknown commit keeps its slot.
// A round is one commit of the [Ledger] with completions and new claims. Completions and free slots wait for the round
// in flight and form the next round, so a busy database gets larger rounds. Completions of short calls also wait for
// each other, at most for the average duration of a round. A call begins only after the commit of its claim.
package schedule

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Errors of [Scheduler.Run] and [Scheduler.RunBatch].
var (
	ErrBusy   = errors.New("another Run or RunBatch is active, or Run has returned")
	ErrPaused = errors.New("claims are paused")

	errServers = errors.New("each round meets another database server, want one server")
)

// Config configures a [Scheduler]. All fields except PerSecond are required.
type Config[Job, Done any] struct {
	Ledger Ledger[Job, Done]

	// Call calls the service once. ctx is never canceled.
	Call func(ctx context.Context, job Job) Completion[Done]

	// Slots is the maximum number of calls at once.
	Slots int

	// MaxRounds is the maximum number of rounds in flight. Set 1 for a database with a single writer. With more than 1,
	// notifications may arrive during a round, and a round skips completions that another transaction has locked.
	MaxRounds int

	// MaxRecords is the maximum number of transactions for records and releases at once, beside the rounds.
	MaxRecords int

	// PerSecond is the maximum number of claims per second; 0 means no maximum.
	PerSecond float64

	// Poll is the interval between two scans from the start of the queue.
	Poll time.Duration

	Log *slog.Logger
}

// Scheduler starts rounds and calls. Its methods may be called concurrently.
type Scheduler[Job, Done any] struct {
	c       Config[Job, Done]
	records chan struct{}  // one element per transaction of a separate record or release
	tasks   sync.WaitGroup // rounds, probes, calls, records, releases and functions of Go

	mu          sync.Mutex
	rounds      int                       // in flight
	newest      int64                     // number of the newest round or probe
	queue       []*entry[Done]            // completions for the next round
	recording   map[string][]*entry[Done] // order keys and user_data of the rounds in flight, with waiting duplicates
	orderIDs    []string                  // order_ids of the last rounds, for Request.OrderIDs
	used        int                       // slots in use
	calls       int                       // in flight, with a slot
	pace        pace
	worker      *worker // the active Run or RunBatch
	closed      bool
	unresolved  []string // tokens of claims with an unknown commit, which may still arrive
	oddPayment  bool     // maxPayments rounded the last odd number up
	tokens      float64  // claims allowed by PerSecond
	filled      time.Time
	refillTimer *time.Timer // starts the round for the next claim that PerSecond allows
}

// entry is a completion that waits for its record.
type entry[Done any] struct {
	Completion[Done]
	ctx      context.Context
	worker   *worker       // nil for a call without a slot
	retried  bool          // a round has skipped the completion
	recorded chan struct{} // closed by finishCall; nil if the caller does not wait
}

// New returns a scheduler. Its caller starts it with [Scheduler.Run] or [Scheduler.RunBatch].
func New[Job, Done any](c Config[Job, Done]) *Scheduler[Job, Done] {
	return &Scheduler[Job, Done]{
		c: c, records: make(chan struct{}, c.MaxRecords), recording: map[string][]*entry[Done]{},
	}
}

// Go runs f in a goroutine that [Scheduler.Run] waits for. After the end of Run's context, it returns false instead.
func (s *Scheduler[Job, Done]) Go(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.tasks.Go(f)
	return true
}

// Record records the completion of a call without a slot, in a round if possible. It returns when the completion is
// recorded or given up, and must be called inside [Scheduler.Go].
func (s *Scheduler[Job, Done]) Record(ctx context.Context, c Completion[Done]) {
	e := &entry[Done]{Completion: c, ctx: context.WithoutCancel(ctx), recorded: make(chan struct{})}
	s.complete(e)
	<-e.recorded
}

// maxUnresolved is the number of unresolved claims to remember. Older claims have ended with their leases.
const maxUnresolved = 1000

// AddUnresolved remembers the token of a claim with an unknown commit. The call must never begin.
func (s *Scheduler[Job, Done]) AddUnresolved(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addUnresolved(token)
}

// addUnresolved implements AddUnresolved. s.mu is held.
func (s *Scheduler[Job, Done]) addUnresolved(token string) {
	s.unresolved = append(s.unresolved, token)
	if extra := len(s.unresolved) - maxUnresolved; extra > 0 {
		s.unresolved = slices.Delete(s.unresolved, 0, extra)
	}
}

// ReleaseUnresolved releases all unresolved claims of this process again, because their commits may arrive late.
func (s *Scheduler[Job, Done]) ReleaseUnresolved(ctx context.Context) error {
	s.mu.Lock()
	tokens := slices.Clone(s.unresolved)
	s.mu.Unlock()
	if len(tokens) == 0 {
		return nil
	}
	return s.c.Ledger.Release(ctx, tokens)
}

// releaseClaims releases the claims with the given token, whose commit is unknown, or gives up. It then frees their
// slots.
func (s *Scheduler[Job, Done]) releaseClaims(token string, slots int) {
	s.retry(s.c.Log, func() error { return s.c.Ledger.Release(context.Background(), []string{token}) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= slots
	s.startRound()
}

const (
	// maxRetryTime limits the retries of a record or release. After it, the row becomes unknown at the end of its lease.
	maxRetryTime = 10 * time.Minute
	// maxRetryTimeAtStop replaces maxRetryTime after the end of Run's context.
	maxRetryTimeAtStop = 10 * time.Second
	// maxRetryWait is the longest wait between two attempts.
	maxRetryWait = 5 * time.Second
)

// retry calls f until it succeeds, or for maxRetryTime or maxRetryTimeAtStop. At most MaxRecords functions run at once.
func (s *Scheduler[Job, Done]) retry(log *slog.Logger, f func() error) {
	begun := time.Now()
	for n := 0; ; n++ {
		s.records <- struct{}{}
		err := f()
		<-s.records
		if err == nil {
			return
		}
		longest := maxRetryTime
		if s.stopped() {
			longest = maxRetryTimeAtStop
		}
		if time.Since(begun) > longest {
			log.Error("durable: not recorded, so the row becomes unknown", "error", err.Error())
			return
		}
		if n == 0 {
			log.Error("durable: not recorded yet", "error", err.Error())
		}
		time.Sleep(Backoff(n, maxRetryWait))
	}
}

func (s *Scheduler[Job, Done]) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Backoff returns a wait of 100 ms, doubled n times, and at most longest.
func Backoff(n int, longest time.Duration) time.Duration {
	return min(100*time.Millisecond<<min(n, 20), longest)
}
