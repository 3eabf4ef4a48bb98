package durable

import (
	"context"
	"sync"
	"time"
)

// engine groups what waits for the database: while a round is there, outcomes and free slots collect for the next.
type engine struct {
	mu     sync.Mutex
	making int        // rounds in flight, each of a goroutine
	number int64      // of the newest round
	queue  []*outcome // for the next round
	orders []string   // order_ids that the last rounds recorded

	recording map[string][]*outcome // order_ids of the rounds in flight, by kind
	used      int                   // slots: calls whose outcomes are not committed, and rows whose claims are in doubt
	last      claimed
	server    string  // the server and tables that were recognized, see Store.here
	strange   string  // what the last round compared with, if it met others
	worker    *worker // who claims: Run or a Turn
	closed    bool
	calls     sync.WaitGroup // calls and returns of claims in doubt
	doubts    []string       // tokens of claims in doubt, returned with every sweep: their commits may come late

	paymentsDue bool // a sweep saw payments that are due
	tokens      float64
	filled      time.Time // when tokens were counted
}

// worker is a Run or a Turn.
type worker struct {
	ctx    context.Context
	left   int   // rows that it may still claim
	hungry bool  // the last round found as much as it could take, or nobody has looked yet
	made   int   // calls
	latest int64 // number of the newest round in result
	flying int   // calls in flight
	result workerResult
	rounds chan struct{} // receives after each round, and when the last call ends
}

type workerResult struct {
	empty, paused bool
	err           error
}

func (w *worker) tell() {
	select {
	case w.rounds <- struct{}{}:
	default:
	}
}

// learn keeps the result of a round, unless a newer round has ended before: with two in flight the older one may end last.
func (w *worker) learn(number int64, result workerResult) {
	if number >= w.latest {
		w.latest, w.result = number, result
	}
}

// submit hands a success to the next round and reports whether that recorded it.
func (s *Store) submit(o *outcome) bool {
	o.recorded = make(chan bool, 1)
	s.mu.Lock()
	s.queue = append(s.queue, o)
	s.kick()
	s.mu.Unlock()
	return <-o.recorded
}

// look makes a worker claim again.
func (s *Store) look(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.hungry = true
	s.kick()
}

// free returns slots.
func (s *Store) free(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	if s.worker != nil && s.worker.hungry {
		s.kick()
	}
}

// kick starts a goroutine that makes rounds, if one is worth it. s.mu is held.
func (s *Store) kick() {
	if s.worthwhile() {
		s.making++
		s.calls.Go(s.rounds)
	}
}

// worthwhile reports whether a round may begin now. A second one in flight uses the time in which the first waits for
// the disk. It begins with half of the slots: with less, the rounds would become many and small. SQLite has one writer.
// s.mu is held.
func (s *Store) worthwhile() bool {
	switch s.making {
	case 0:
		return true
	case 1:
		return s.dialect == PostgreSQL && 2*len(s.queue) >= s.c.Slots
	}
	return false
}

// rounds makes rounds while anything waits for one.
func (s *Store) rounds() {
	ctx := context.Background()
	for first := true; ; first = false {
		s.mu.Lock()
		s.making--
		if !first && !s.worthwhile() {
			s.mu.Unlock()
			return
		}
		a, w := s.next()
		if len(a.outcomes) == 0 && a.most == 0 && len(a.orders) == 0 {
			s.mu.Unlock()
			return
		}
		s.making++
		s.mu.Unlock()
		got, err := s.round(ctx, a)
		if err != nil {
			s.failed(ctx, a, w, err)
			continue
		}
		s.done(ctx, a, w, got)
	}
}

// next takes what waits, and reserves the free slots. A round for nothing but orders is left to the sweep while calls are
// in flight: their outcomes come soon, and would wait for it. s.mu is held.
func (s *Store) next() (asking, *worker) {
	s.number++
	a := asking{outcomes: s.distinct(s.queue), token: newToken(), number: s.number}
	s.queue = nil
	w := s.worker
	alone := w == nil || w.flying == 0
	if w = s.claim(&a, w); len(a.outcomes) > 0 || a.most > 0 || alone {
		a.orders, s.orders = s.orders, nil
	}
	return a, w
}

// claim lets a claim rows for w, and returns nil if it may not. s.mu is held.
func (s *Store) claim(a *asking, w *worker) *worker {
	if w == nil || !w.hungry || w.ctx.Err() != nil || s.closed {
		return nil
	}
	freed := 0
	for _, o := range a.outcomes {
		freed += o.Slot
	}
	most := max(s.c.Slots-s.used, 0) + freed
	most = s.allowed(min(most, w.left))
	if most <= 0 {
		return nil
	}
	s.reserve(w, most)
	a.most, a.free = most, min(most, max(s.c.Slots-s.used, 0))
	if s.paymentsDue {
		a.payments = max(1, most/2)
	}
	s.used += a.free
	w.flying++ // the round itself
	return w
}

// distinct leaves out all but the first outcome of an order_id: two rows cannot have it, so the others go on their own.
// s.mu is held.
func (s *Store) distinct(outcomes []*outcome) []*outcome {
	if s.recording == nil {
		s.recording = map[string][]*outcome{}
	}
	kept := outcomes[:0]
	for _, o := range outcomes {
		others, there := s.recording[o.key()]
		if there {
			s.recording[o.key()] = append(others, o)
			continue
		}
		s.recording[o.key()] = nil
		kept = append(kept, o)
	}
	return kept
}

// alone lets those with the order_id of o, whose round has ended, be recorded on their own. s.mu is held.
func (s *Store) alone(o *outcome) {
	for _, other := range s.recording[o.key()] {
		other.recorded <- false
	}
	delete(s.recording, o.key())
}

// allowed returns how many of n rows PerSecond allows now. s.mu is held.
func (s *Store) allowed(n int) int {
	if s.c.PerSecond <= 0 {
		return n
	}
	now := s.now()
	s.tokens = min(s.tokens+now.Sub(s.filled).Seconds()*s.c.PerSecond, max(1, s.c.PerSecond))
	s.filled = now
	return max(0, min(n, int(s.tokens))) // a probe takes one that is not there
}

// reserve counts n rows as claimed, a negative n those that were not. s.mu is held.
func (s *Store) reserve(w *worker, n int) {
	s.tokens -= float64(n)
	w.left -= n
}

// done hands out what a round has committed.
func (s *Store) done(ctx context.Context, a asking, w *worker, got answer) {
	freed := 0
	for _, o := range a.outcomes {
		if got.recorded[o.UserData] {
			freed += o.Slot
			s.step(StepRecorded)
		}
	}
	if len(got.waiting) > 0 {
		s.calls.Go(func() { s.applyTo(ctx, got.waiting) })
	}
	err := s.suspect(ctx, got) // if it fails, the next round finds the same and claims nothing
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= a.free + freed
	for _, o := range a.outcomes {
		s.alone(o)
		recorded := got.recorded[o.UserData]
		if !recorded && s.dialect == PostgreSQL && !o.again { // the claims of another round may have locked the row
			o.again = true
			s.queue = append(s.queue, o)
			continue
		}
		if recorded && s.dialect == PostgreSQL { // SQLite's writers see each other
			s.orders = append(s.orders, o.OrderID)
		}
		o.recorded <- recorded
	}
	if w == nil {
		return
	}
	w.flying--
	s.reserve(w, len(got.jobs)-a.most)
	w.hungry = len(got.jobs) > 0 || w.hungry && a.free+freed == 0 || err == nil && s.recognizedNow(got)
	payments := 0
	for _, j := range got.jobs {
		if j.kind == KindPayment {
			payments++
		}
	}
	if payments < a.payments {
		s.paymentsDue = false
	}
	w.learn(a.number, workerResult{empty: len(got.jobs) == 0, paused: got.paused || got.elapsed})
	if got.elapsed && s.used < s.c.Slots {
		s.used++
		w.flying++
		s.calls.Go(func() { s.probe(ctx, w) })
	}
	s.begin(w, got.jobs)
	w.tell()
}

// suspect holds payouts if the database is not the one that it was.
func (s *Store) suspect(ctx context.Context, got answer) (err error) {
	switch {
	case got.lost:
		err = s.holdItself(ctx, "a commit of this process is gone: the database was restored or failed over")
	case got.moved:
		err = s.recognize(ctx)
	}
	if err != nil {
		s.c.Log.ErrorContext(ctx, "durable: hold failed", "error", err.Error())
	}
	return err
}

// recognizedNow reports whether a round met a server that has been recognized since. It is false if rounds meet a new one
// each time: they would never end. s.mu is held.
func (s *Store) recognizedNow(got answer) bool {
	before := s.strange
	if s.strange = ""; !got.moved {
		return false
	}
	s.strange = got.server
	return before == "" || before == got.server && s.server != got.server // the other round has met it too
}

// begin starts the calls of jobs, whose claims are committed. s.mu is held.
func (s *Store) begin(w *worker, jobs []job) {
	s.used += len(jobs)
	w.made += len(jobs)
	w.flying += len(jobs)
	for _, j := range jobs {
		s.last = claimed{j.userData, j.token, j.claims}
		s.calls.Go(func() {
			freed := s.work(w.ctx, j)
			s.mu.Lock()
			w.flying--
			if w.flying == 0 {
				w.tell()
				if len(s.orders) > 0 {
					s.kick()
				}
			}
			s.mu.Unlock()
			s.free(freed)
		})
	}
}

// failed returns what a round may have claimed, and has its outcomes recorded one by one.
func (s *Store) failed(ctx context.Context, a asking, w *worker, err error) {
	slots := a.free
	s.mu.Lock()
	if a.most > 0 {
		for _, o := range a.outcomes {
			slots += o.Slot // if the round was committed, it claimed for these slots too
			s.used += o.Slot
		}
		s.doubts = append(s.doubts, a.token)
		s.calls.Go(func() { s.giveBack(ctx, a.token, slots) })
	}
	for _, o := range a.outcomes {
		s.alone(o)
		o.recorded <- false
	}
	if w != nil {
		w.flying--
		s.reserve(w, -a.most)
		w.hungry = false
		w.learn(a.number, workerResult{err: err})
		w.tell()
	}
	s.mu.Unlock()
	s.c.Log.ErrorContext(ctx, "durable: round failed", "error", err.Error())
}

// doubt remembers a claim of which it is not known whether it was committed.
func (s *Store) doubt(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubts = append(s.doubts, token)
}

// maxDoubts is how many claims in doubt are remembered, the newest: older ones have run out.
const maxDoubts = 1000

const giveBack = `UPDATE durable_rows SET state = 'created', due_at = {now}, updated_at = {now}, version = version + 1
	WHERE state = 'starting' AND token IN `

// giveBack returns the rows of a claim that may have been committed and of which no call has begun, and then its slots.
func (s *Store) giveBack(ctx context.Context, token string, slots int) {
	ctx = context.WithoutCancel(ctx)
	for n := 0; ; n++ {
		_, err := s.write(ctx, giveBack+s.each("$1"), list([]string{token}))
		if err == nil || s.stopped() && n > 3 {
			s.free(slots)
			return
		}
		_ = s.sleep(ctx, backoff(n, 5*time.Second))
	}
}

func (s *Store) lastClaim() claimed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func (s *Store) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// sleep returns the error of ctx if that ends first.
func (s *Store) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// backoff is the wait after n failures: 100 ms, doubled each time, and at most longest.
func backoff(n int, longest time.Duration) time.Duration {
	return min(100*time.Millisecond<<min(n, 20), longest)
}
