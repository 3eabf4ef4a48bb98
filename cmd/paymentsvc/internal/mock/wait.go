package mock

import (
	"context"
	"math"
	"time"

	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// waiter waits for a change of a message or order that matches the identifiers of a filter.
type waiter struct {
	about *filter
	wake  chan struct{} // buffers one wake-up
}

type waiters map[*waiter]bool

// notify wakes the waiters for a message or an order with these identifiers.
func (ws waiters) notify(project int64, userData, orderID string) {
	for w := range ws {
		if w.about.fits(project, userData, orderID) {
			w.notify()
		}
	}
}

func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default: // woken already
	}
}

// ordered wakes the waiters for an order.
func (j *journal) ordered(o paymentsvctest.Order) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiters.notify(o.ProjectID, o.UserData, o.OrderID)
}

func (j *journal) wakeAll() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for w := range j.waiters {
		w.notify()
	}
}

// waitFor calls the function met immediately and after changes that match the filter about, until met returns true,
// limit has passed, the journal is closed or ctx ends. It reports whether met returned true.
func (j *journal) waitFor(ctx context.Context, limit time.Duration, about *filter, met func() bool) bool {
	w := &waiter{about: about, wake: make(chan struct{}, 1)}
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
		case <-w.wake:
		case <-ctx.Done():
			return met() // a change may have come while the machine was busy
		case <-j.done:
			return false
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return met()
		case <-j.done:
			return false
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
	const unlimited = math.MaxInt64 // 292 years
	if !j.waitFor(ctx, unlimited, &filter{}, func() bool { return j.inFlight() == 0 }) && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}
