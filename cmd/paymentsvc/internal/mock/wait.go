package mock

import (
	"context"
	"time"
)

// waiters are the waiters of a journal. Each channel buffers one wake-up.
type waiters map[chan struct{}]bool

func (ws waiters) wake() {
	for w := range ws {
		select {
		case w <- struct{}{}:
		default: // woken already
		}
	}
}

func (j *journal) wakeAll() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiters.wake()
}

// waitFor calls met at once and after changes, until met returns true, limit has passed, the journal is closed or ctx
// ends. It reports whether met returned true.
func (j *journal) waitFor(ctx context.Context, limit time.Duration, met func() bool) bool {
	w := make(chan struct{}, 1)
	j.mu.Lock()
	j.waiters[w] = true
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.waiters, w)
	}()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		began := time.Now()
		if met() {
			return true
		}
		pause := time.NewTimer(j.pause(time.Since(began)))
		select {
		case <-w:
		case <-ctx.Done():
			return met() // a change may have come while the machine was busy
		case <-j.done:
			return false
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return met()
		}
	}
}

// pause returns the time until the next check, after a check that took cost. All checks of the journal together take at
// most a twentieth of the time, unless a check takes longer than 50 ms. The minimum of 1 ms leaves time for other
// goroutines.
func (j *journal) pause(cost time.Duration) time.Duration {
	const shortest, longest = time.Millisecond, time.Second
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	if j.nextCheck.Before(now) {
		j.nextCheck = now
	}
	j.nextCheck = j.nextCheck.Add(min(max(20*cost, shortest), longest))
	return j.nextCheck.Sub(now)
}

// idle waits until no message is in flight or the journal is closed. It returns an error if ctx ends first.
func (j *journal) idle(ctx context.Context) error {
	const long = 24 * time.Hour
	if j.waitFor(ctx, long, func() bool { return j.inFlight() == 0 }) {
		return nil
	}
	return ctx.Err()
}
