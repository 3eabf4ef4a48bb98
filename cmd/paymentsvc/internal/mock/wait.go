package mock

import (
	"context"
	"time"

	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// waiter waits for changes of the messages and orders with the identifiers of a filter.
type waiter struct {
	about *filter
	wake  chan struct{}
}

func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default: // it has not yet seen the previous change
	}
}

// notice wakes the waiters that a message concerns. The lock is held.
func (j *journal) notice(m *message) {
	for w := range j.waiters {
		if w.about.fits(m.Fields.ProjectID, m.Fields.UserData, m.Fields.OrderID) {
			w.notify()
		}
	}
}

// ordered wakes the waiters that an order concerns.
func (j *journal) ordered(o paymentsvctest.Order) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for w := range j.waiters {
		if w.about.fits(o.ProjectID, o.UserData, o.OrderID) {
			w.notify()
		}
	}
}

func (j *journal) wakeAll() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for w := range j.waiters {
		w.notify()
	}
}

// waitFor waits until met returns true, limit has passed, the journal is closed or ctx ends. It returns the last result of
// met. It calls met again after changes that concern the filter.
func (j *journal) waitFor(ctx context.Context, limit time.Duration, about *filter, met func() bool) bool {
	w := &waiter{about, make(chan struct{}, 1)}
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
			return met() // a busy machine oversleeps
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

// pause returns the time until the next check of a claim that took cost. Together the checks take a twentieth of the time.
func (j *journal) pause(cost time.Duration) time.Duration {
	const longest = 100 * time.Millisecond
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	if j.nextCheck.Before(now) {
		j.nextCheck = now
	}
	j.nextCheck = j.nextCheck.Add(min(20*cost, longest))
	return j.nextCheck.Sub(now)
}

// idle waits until no message is in flight.
func (j *journal) idle(ctx context.Context) error {
	const long = 24 * time.Hour
	if !j.waitFor(ctx, long, &filter{}, func() bool { return j.inFlight() == 0 }) && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}
