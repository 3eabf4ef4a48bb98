package mock

import (
	"context"
	"slices"
	"time"

	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// waiter waits for changes of the messages and orders with the identifiers of a filter.
type waiter struct {
	about *filter
	woken bool // wake is not empty
	wake  chan struct{}
}

// waiters are the waiters of a journal by their user_data, because each request wakes waiters several times.
type waiters map[waiterKey][]*waiter

// waiterKey is the user_data of a filter, or the zero value for any user_data.
type waiterKey struct {
	own      bool
	userData string
}

func (w *waiter) key() waiterKey {
	if w.about.UserData == nil {
		return waiterKey{}
	}
	return waiterKey{true, *w.about.UserData}
}

func (ws waiters) add(w *waiter) { ws[w.key()] = append(ws[w.key()], w) }

func (ws waiters) remove(w *waiter) {
	rest := slices.DeleteFunc(ws[w.key()], func(other *waiter) bool { return other == w })
	ws[w.key()] = rest
	if len(rest) == 0 {
		delete(ws, w.key())
	}
}

// notify wakes the waiters that a message or an order concerns.
func (ws waiters) notify(project int64, userData, orderID string) {
	for _, key := range []waiterKey{{}, {true, userData}} {
		for _, w := range ws[key] {
			if w.about.fits(project, userData, orderID) {
				w.notify()
			}
		}
	}
}

func (w *waiter) notify() {
	if !w.woken {
		w.woken = true
		w.wake <- struct{}{}
	}
}

// ordered wakes the waiters that an order concerns.
func (j *journal) ordered(o paymentsvctest.Order) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiters.notify(o.ProjectID, o.UserData, o.OrderID)
}

func (j *journal) wakeAll() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, list := range j.waiters {
		for _, w := range list {
			w.notify()
		}
	}
}

// waitFor waits until met returns true, limit has passed, the journal is closed or ctx ends. It returns the last result
// of met. It calls met again after changes that concern the filter.
func (j *journal) waitFor(ctx context.Context, limit time.Duration, about *filter, met func() bool) bool {
	w := &waiter{about: about, wake: make(chan struct{}, 1)}
	j.mu.Lock()
	j.waiters.add(w)
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.waiters.remove(w)
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
			j.mu.Lock()
			w.woken = false
			j.mu.Unlock()
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

// pause returns the time until the next check of a claim that took cost. Together the checks take a twentieth of the
// time. Between two checks there is also time for the scheduler.
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

// idle waits until no message is in flight.
func (j *journal) idle(ctx context.Context) error {
	const long = 24 * time.Hour
	if !j.waitFor(ctx, long, &filter{}, func() bool { return j.inFlight() == 0 }) && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}
