package schedule

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"time"
)

// round is a round in flight.
type round[Done any] struct {
	Request[Done]
	number  int64 // increases with each round and probe
	entries []*entry[Done]
	worker  *worker // nil if the round may not claim rows
	alone   bool    // the worker was idle at the start of the round
}

// startRound starts a round if canStartRound allows it. The goroutine of the round collects the completions, as late as
// possible. s.mu is held.
func (s *Scheduler[Job, Done]) startRound() {
	s.refill()
	if s.canStartRound() {
		s.rounds++
		s.tasks.Go(s.round)
	}
}

// canStartRound reports whether a round may start now. A second round uses the database while the first waits for the
// disk. The second round needs the completions of half of the slots, because otherwise it would be too small. s.mu is
// held.
func (s *Scheduler[Job, Done]) canStartRound() bool {
	if s.rounds > 0 {
		return s.rounds < s.c.MaxRounds && 2*len(s.queue) >= s.c.Slots
	}
	if len(s.queue) > 0 {
		return !s.waitsForCalls()
	}
	return s.maxRows(s.c.Slots-s.used) > 0
}

// round runs one round. It first lets other goroutines run, so that completions of short calls join the round.
func (s *Scheduler[Job, Done]) round() {
	runtime.Gosched()
	r := s.nextRound()
	if r == nil {
		return
	}
	begun := time.Now()
	result, err := s.c.Ledger.Round(context.Background(), r.Request)
	took := time.Since(begun)
	if limit := r.limit(result.Recorded); err == nil && len(result.Jobs) > limit {
		err = fmt.Errorf("round claimed %d rows, want at most %d", len(result.Jobs), limit)
	}
	if err != nil {
		s.c.Log.Error("durable: round failed", "error", err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rounds--
	if err != nil {
		s.failRound(r, result.Recorded, err)
	} else {
		average(&s.pace.round, took)
		s.finishRound(r, result)
	}
	s.startRound()
}

// limit returns the maximum number of claims, the sum of free slots and slots of recorded completions, up to MaxRows.
func (r *round[Done]) limit(recorded map[string]bool) int {
	rows := r.Free
	for _, c := range r.Completions {
		if recorded[c.UserData] {
			rows += c.Slot
		}
	}
	return min(rows, r.MaxRows)
}

// nextRound takes the waiting completions and reserves the free slots. Without work, it returns nil.
func (s *Scheduler[Job, Done]) nextRound() *round[Done] {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &round[Done]{number: s.newest + 1, entries: s.dedupeByOrderID(s.queue)}
	s.queue = nil
	slots := 0
	for _, e := range r.entries {
		r.Completions = append(r.Completions, e.Completion)
		slots += e.Slot
	}
	s.claim(r, slots)
	if len(r.entries) == 0 && r.MaxRows == 0 {
		s.rounds--
		return nil
	}
	r.OrderIDs, s.orderIDs = s.orderIDs, nil
	s.newest++
	return r
}

// dedupeByOrderID removes completions with the order key or user_data of an earlier completion or of a round in flight,
// because one statement cannot record duplicates. s.mu is held.
func (s *Scheduler[Job, Done]) dedupeByOrderID(queue []*entry[Done]) []*entry[Done] {
	kept := queue[:0]
	for _, e := range queue {
		if others, found := s.recording[e.OrderKey]; found {
			s.recording[e.OrderKey] = append(others, e)
			continue
		}
		if others, found := s.recording[e.UserData]; found {
			s.recording[e.UserData] = append(others, e)
			continue
		}
		s.recording[e.OrderKey], s.recording[e.UserData] = nil, nil
		kept = append(kept, e)
	}
	return kept
}

// releaseDuplicates records the duplicates of e separately, after e's round. s.mu is held.
func (s *Scheduler[Job, Done]) releaseDuplicates(e *entry[Done]) {
	for _, key := range [...]string{e.OrderKey, e.UserData} {
		for _, duplicate := range s.recording[key] {
			s.tasks.Go(func() { s.recordSeparately(duplicate) })
		}
		delete(s.recording, key)
	}
}

// claim sets the limits of r to the free slots and the slots of its completions, and reserves the rows. s.mu is held.
func (s *Scheduler[Job, Done]) claim(r *round[Done], slots int) {
	free := max(s.c.Slots-s.used, 0)
	n := s.maxRows(free + slots)
	if n <= 0 {
		return
	}
	w := s.worker
	r.worker, r.alone = w, w.inFlight == 0
	r.Token, r.After = rand.Text(), w.observation.position
	r.MaxRows, r.Free, r.MaxPayments = n, min(n, free), s.maxPayments(n)
	s.used += r.Free
	s.reserve(w, n)
	w.inFlight++
	w.confirming = r.alone
}

// maxRows returns how many of n rows may be claimed now. s.mu is held.
func (s *Scheduler[Job, Done]) maxRows(n int) int {
	w := s.worker
	if w == nil || !w.observation.backlog || w.confirming || w.ctx.Err() != nil {
		return 0
	}
	n = min(n, w.left)
	if s.c.PerSecond > 0 {
		n = min(n, int(s.tokens))
	}
	return n
}

// maxPayments limits the payments in n rows: half of n, rounded up and down in turn, or 0 without due payments. s.mu is
// held.
func (s *Scheduler[Job, Done]) maxPayments(n int) int {
	if !s.worker.observation.paymentsDue {
		return 0
	}
	payments := n / 2
	if n%2 == 1 {
		s.oddPayment = !s.oddPayment
		if s.oddPayment {
			payments++
		}
	}
	return payments
}

// minRefill is the shortest wait for claims allowed by PerSecond, so that a high rate does not make small rounds.
const minRefill = 50 * time.Millisecond

// refill adds the claims that PerSecond allows by now. If a worker must wait, a timer starts a round. s.mu is held.
func (s *Scheduler[Job, Done]) refill() {
	rate := s.c.PerSecond
	if rate <= 0 {
		return
	}
	now := time.Now()
	s.tokens = min(s.tokens+now.Sub(s.filled).Seconds()*rate, max(1, rate))
	s.filled = now
	if s.tokens >= 1 || s.worker == nil {
		return
	}
	wait := max(minRefill, time.Duration((1-s.tokens)/rate*float64(time.Second)))
	if s.refillTimer != nil {
		s.refillTimer.Reset(wait)
		return
	}
	s.refillTimer = time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.startRound()
	})
}

// reserve counts n rows as claimed. A negative n cancels reservations. s.mu is held.
func (s *Scheduler[Job, Done]) reserve(w *worker, n int) {
	s.tokens -= float64(n)
	w.left -= n
}

// finishRound frees the slots of recorded completions, and begins the calls of claimed rows or a probe. s.mu is held.
func (s *Scheduler[Job, Done]) finishRound(r *round[Done], result Result[Job]) {
	s.used -= r.Free
	for _, e := range r.entries {
		s.releaseDuplicates(e)
		s.finishEntry(e, result.Recorded[e.UserData])
	}
	w := r.worker
	if w == nil {
		return
	}
	s.reserve(w, len(result.Jobs)-r.MaxRows)
	observe(r, result, r.limit(result.Recorded))
	s.begin(w, result.Jobs)
	if result.Elapsed {
		s.startProbe(w)
	}
	w.endClaim()
}

// finishEntry handles a completion after its round. On a database with many writers, the round may have skipped a
// locked row, so an unrecorded completion joins a second round. Any other unrecorded completion is recorded
// separately. s.mu is held.
func (s *Scheduler[Job, Done]) finishEntry(e *entry[Done], recorded bool) {
	manyWriters := s.c.MaxRounds > 1
	switch {
	case recorded:
		if manyWriters {
			s.orderIDs = append(s.orderIDs, e.OrderID)
		}
		s.finishCall(e)
	case manyWriters && !e.retried:
		e.retried = true
		s.queue = append(s.queue, e)
	default:
		s.tasks.Go(func() { s.recordSeparately(e) })
	}
}

// failRound records the completions with an unknown commit separately. The slots of the round stay in use until
// releaseClaims ends. s.mu is held.
func (s *Scheduler[Job, Done]) failRound(r *round[Done], recorded map[string]bool, err error) {
	slots := r.Free
	for _, e := range r.entries {
		if r.MaxRows > 0 { // the round may also have claimed a row for this slot
			slots += e.Slot
			s.used += e.Slot
		}
		s.releaseDuplicates(e)
		if recorded[e.UserData] {
			s.finishCall(e)
			continue
		}
		s.tasks.Go(func() { s.recordSeparately(e) })
	}
	if w := r.worker; w != nil {
		s.reserve(w, -r.MaxRows)
		s.resolve(r.Token, slots)
		w.fail(r.number, err)
		w.endClaim()
	}
}

// resolve remembers the token of claims with an unknown commit and begins their release. s.mu is held.
func (s *Scheduler[Job, Done]) resolve(token string, slots int) {
	s.addUnresolved(token)
	s.tasks.Go(func() { s.releaseClaims(token, slots) })
}

// endClaim ends a round or probe with claims. s.mu is held.
func (w *worker) endClaim() {
	w.confirming = false
	w.finish()
}

const (
	// largeRound is the number of completions at which the fixed cost of a round becomes small.
	largeRound = 16
	// maxWait is the longest wait of a completion for other calls.
	maxWait = 10 * time.Millisecond
)

// pace compares calls and rounds by the moving averages of their durations. Scheduler.mu protects it.
type pace struct {
	call, round time.Duration
	waiting     int64 // number of the last round that began to wait
	overdue     int64 // number of the last round whose wait is over
}

// average updates a moving average with a new duration.
func average(mean *time.Duration, took time.Duration) { *mean += (took - *mean) / 8 }

// waitsForCalls reports whether the next round waits for the calls in flight. Each round has a fixed cost, so short
// calls share one round. A completion waits at most for the average duration of a round, and at most for maxWait. s.mu
// is held.
func (s *Scheduler[Job, Done]) waitsForCalls() bool {
	next := s.newest + 1
	if s.calls == 0 || len(s.queue) >= largeRound || s.pace.call >= s.pace.round || s.pace.overdue == next {
		return false
	}
	if s.pace.waiting != next {
		s.pace.waiting = next
		time.AfterFunc(min(s.pace.round, maxWait), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pace.overdue = next
			s.startRound()
		})
	}
	return true
}
