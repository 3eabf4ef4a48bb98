package schedule

import "time"

const (
	// largeRound is a number of completions. The fixed cost of a round is small beside their cost.
	largeRound = 16
	// maxWait is the longest wait of a completion for other calls.
	maxWait = 10 * time.Millisecond
)

// pace compares calls and rounds by the moving averages of their durations. Scheduler.mu protects it.
type pace struct {
	call, round time.Duration
	waiting     int64 // number of the round whose wait has begun
	overdue     int64 // number of the round whose wait has ended
}

// average moves a moving average towards a new duration.
func average(mean *time.Duration, took time.Duration) { *mean += (took - *mean) / 8 }

// waitsForCalls reports whether the next round waits for the calls in flight. Each round has a fixed cost, so short
// calls share one round. A completion waits at most for the duration of a round, as long as behind a round in flight.
// s.mu is held.
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
