package schedule

import (
	"cmp"
	"context"
	"math"
	"time"
)

// worker is an active Run or RunBatch. Scheduler.mu protects its fields.
type worker struct {
	ctx        context.Context
	left       int           // remaining claims
	made       int           // calls begun
	inFlight   int           // number of calls, and of rounds and probes with claims
	confirming bool          // a round with alone set is in flight, so other rounds do not claim
	changed    chan struct{} // receives when inFlight reaches 0, and at the end of RunBatch's ctx
	err        error         // the error of the first failed round or probe

	newest      int64 // number of the newest observation; a wake counts as newer than the rounds in flight
	observation observation
	servers     int // successive rounds on an unrecognized server
}

// observation describes the queue. Each probe and each round of a worker makes a new observation, even without a claim.
type observation struct {
	backlog     bool // due rows may remain
	paymentsDue bool // due payments may remain
	empty       bool // a scan of the whole queue by an idle worker found no due row
	paused      bool
	position    Position
}

// Run claims due rows until the end of ctx, and returns nil after each outcome is recorded or given up. During
// another Run or RunBatch, and after Run, it returns ErrBusy.
func (s *Scheduler[Job, Done]) Run(ctx context.Context) error {
	w := &worker{ctx: ctx, left: math.MaxInt, changed: make(chan struct{}, 1)}
	if !s.attachWorker(w) {
		return ErrBusy
	}
	for ctx.Err() == nil {
		s.mu.Lock()
		s.wake(w)
		s.mu.Unlock()
		select {
		case <-time.After(s.c.Poll):
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	s.closed, s.worker = true, nil
	s.mu.Unlock()
	s.tasks.Wait()
	return nil
}

// RunBatch claims at most maxRows due rows, or all due rows if maxRows is 0. When each outcome is recorded or given up,
// it returns the number of calls. The error is nil if no due row remained, or at maxRows or the end of ctx. The
// possible errors are ErrPaused, ErrBusy, errServers, and errors of the ledger.
func (s *Scheduler[Job, Done]) RunBatch(ctx context.Context, maxRows int) (int, error) {
	if maxRows <= 0 {
		maxRows = math.MaxInt
	}
	w := &worker{ctx: ctx, left: maxRows, changed: make(chan struct{}, 1)}
	if !s.attachWorker(w) {
		return 0, ErrBusy
	}
	stop := context.AfterFunc(ctx, w.signal)
	defer stop()
	for {
		if ended, err := s.endBatch(w); ended {
			return w.made, err
		}
		<-w.changed
	}
}

// attachWorker makes w the active worker. It returns false during another Run or RunBatch and after Run.
func (s *Scheduler[Job, Done]) attachWorker(w *worker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.worker != nil || s.closed {
		return false
	}
	s.worker = w
	return true
}

// endBatch detaches w if the work of w has ended, and reports whether it has. Otherwise it wakes w if w is idle.
func (s *Scheduler[Job, Done]) endBatch(w *worker) (ended bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.inFlight > 0 {
		return false, nil
	}
	switch {
	case w.err != nil:
		err = w.err
	case w.observation.paused:
		err = ErrPaused
	case !w.observation.empty && w.left > 0 && w.ctx.Err() == nil:
		s.wake(w)
		return false, nil
	}
	s.worker = nil
	return true, err
}

// wake makes w scan the queue from its start. The rounds in flight began earlier, so their observations are ignored.
// s.mu is held.
func (s *Scheduler[Job, Done]) wake(w *worker) {
	w.newest = s.newest
	w.observation = observation{backlog: true, paymentsDue: true}
	s.startRound()
}

// finish ends a call, round or probe of w. s.mu is held.
func (w *worker) finish() {
	w.inFlight--
	if w.inFlight == 0 {
		w.signal()
	}
}

// signal wakes RunBatch, which checks whether its work has ended.
func (w *worker) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// fail stops the claims of w until its next wake. s.mu is held.
func (w *worker) fail(number int64, err error) {
	w.err = cmp.Or(w.err, err)
	w.learn(number, observation{})
}

// learn stores an observation of w, unless w has a newer observation. s.mu is held.
func (w *worker) learn(number int64, o observation) {
	if number > w.newest {
		w.newest, w.observation = number, o
	}
}

// maxServers is the number of successive rounds on an unrecognized server after which a worker fails.
const maxServers = 5

// observe updates the observation of the worker after a round with at most limit claims. s.mu is held.
func observe[Job, Done any](r *round[Done], result Result[Job], limit int) {
	w, claimed := r.worker, len(result.Jobs)
	w.servers++
	if !result.Recognized {
		w.servers = 0
	}
	if w.servers >= maxServers {
		w.fail(r.number, errServers)
		return
	}
	o := observation{
		paused: result.Paused || result.Elapsed, paymentsDue: w.observation.paymentsDue, position: result.Next,
	}
	if claimed == 0 && limit > 0 {
		o.position = Position{}
	}
	complete := limit > 0 && !result.Recognized && r.After == Position{} && (r.MaxPayments > 0 || !o.paymentsDue)
	if result.Payments < min(limit, r.MaxPayments) {
		o.paymentsDue = false
	}
	o.backlog = !o.paused && (claimed > 0 || !complete)
	o.empty = !o.backlog && !o.paused && r.alone
	w.learn(r.number, o)
	if claimed > 0 { // calls may make rows due again, and a newer round may have skipped this round's rows
		w.observation.backlog, w.observation.empty = !w.observation.paused, false
	}
}
