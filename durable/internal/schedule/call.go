package schedule

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"
)

// begin begins the calls of jobs with committed claims. s.mu is held.
func (s *Scheduler[Job, Done]) begin(w *worker, jobs []Job) {
	s.used += len(jobs)
	w.made += len(jobs)
	w.inFlight += len(jobs)
	s.calls += len(jobs)
	for _, job := range jobs {
		s.tasks.Go(func() {
			ctx := context.WithoutCancel(w.ctx)
			begun := time.Now()
			c := s.c.Call(ctx, job)
			s.measureCall(time.Since(begun))
			s.complete(&entry[Done]{Completion: c, ctx: ctx, worker: w})
		})
	}
}

// measureCall updates the number and the average duration of calls with a slot.
func (s *Scheduler[Job, Done]) measureCall(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	average(&s.pace.call, took)
}

// complete passes a completion to the next round, or records it separately.
func (s *Scheduler[Job, Done]) complete(e *entry[Done]) {
	if e.OrderKey == "" {
		s.recordSeparately(e)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, e)
	s.startRound()
}

// recordSeparately records e outside of rounds.
func (s *Scheduler[Job, Done]) recordSeparately(e *entry[Done]) {
	log := s.c.Log.With("user_data", e.UserData, "order_id", e.OrderID)
	s.retry(log, func() error { return s.c.Ledger.Record(e.ctx, e.Completion) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishCall(e)
	s.startRound()
}

// finishCall frees the slot of a completion that is recorded or given up. s.mu is held.
func (s *Scheduler[Job, Done]) finishCall(e *entry[Done]) {
	s.used -= e.Slot
	if e.recorded != nil {
		close(e.recorded)
	}
	if e.worker != nil {
		e.worker.finish()
	}
}

// startProbe begins a probe after a timed pause, if a slot and a claim of w are free. s.mu is held.
func (s *Scheduler[Job, Done]) startProbe(w *worker) {
	if s.used >= s.c.Slots || w.left < 1 {
		return
	}
	s.newest++
	number := s.newest
	s.used++
	s.reserve(w, 1)
	w.inFlight++
	s.tasks.Go(func() { s.probe(w, number) })
}

func (s *Scheduler[Job, Done]) probe(w *worker, number int64) {
	token := rand.Text()
	jobs, err := s.c.Ledger.Probe(context.Background(), token)
	if err == nil && len(jobs) > 1 {
		err = fmt.Errorf("probe claimed %d rows, want at most 1", len(jobs))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer w.endClaim()
	if err != nil {
		w.fail(number, err)
		s.reserve(w, -1)
		s.resolve(token, 1)
		return
	}
	w.learn(number, observation{})
	s.reserve(w, len(jobs)-1)
	s.used--
	s.begin(w, jobs)
}
