package transport

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Retry is a policy of exponential back-off with jitter.
type Retry struct {
	MaxAttempts int
	BaseDelay   time.Duration // longest wait before the second attempt; doubled before each further attempt
	MaxDelay    time.Duration // limits each wait, Retry-After included
}

// Next returns the wait before the next attempt. n counts the attempts so far, last is the latest result, and err is
// the error of the call. Next returns false if the call must not be retried. The wait is positive and ends before the
// deadline of ctx.
func (p Retry) Next(ctx context.Context, r *Request, n int, last Result, err error) (time.Duration, bool) {
	if err == nil || n >= p.MaxAttempts || ctx.Err() != nil {
		return 0, false
	}
	if safe := last.NotSent || r.Repeatable && transient(last, err); !safe {
		return 0, false
	}
	delay, asked := RetryAfter(last.Header, last.At)
	if !asked {
		delay = p.backOff(n)
	}
	delay = min(delay, p.MaxDelay)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= delay {
		return 0, false
	}
	return delay, true
}

// transient reports whether a retry may succeed: after a missing or cut response, 429 or 5xx, except ErrTooLarge.
func transient(last Result, err error) bool {
	if errors.Is(err, ErrTooLarge) {
		return false
	}
	return last.Err != nil ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		last.Status == http.StatusTooManyRequests ||
		last.Status/100 == 5
}

// backOff returns the wait after attempt n. Half of it is random, so that concurrent callers do not retry together.
func (p Retry) backOff(n int) time.Duration {
	delay := p.BaseDelay
	for ; n > 1 && delay < p.MaxDelay; n-- {
		delay += min(delay, p.MaxDelay-delay) // doubled, at most MaxDelay
	}
	delay = min(delay, p.MaxDelay)
	return max(delay/2+rand.N(delay/2+1), 1) //nolint:gosec // jitter is not secret
}

// RetryAfter returns the wait of a Retry-After header in seconds or as a date. It compares a date with the Date header,
// because the service's clock sets both. Without a Date header, it compares the date with the argument at, the local
// time of the response. It returns false unless the wait is positive.
func RetryAfter(h http.Header, at time.Time) (time.Duration, bool) {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second, seconds > 0
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		at = date
	}
	delay := until.Sub(at)
	return delay, delay > 0 && !at.IsZero()
}

// Wait waits for d. If ctx is done first, it returns the error of ctx.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return contextError(ctx, nil)
	case <-timer.C:
		return nil
	}
}
