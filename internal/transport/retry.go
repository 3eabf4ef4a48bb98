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
	BaseDelay   time.Duration // before the second attempt; doubled before each further one
	MaxDelay    time.Duration // of one wait, whoever asked for it
}

// Next returns how long to wait before the retry after attempt number n, whose result is last and whose judgement is err;
// false if there must be none. The wait is positive and ends before the deadline of ctx.
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

// transient reports whether a retry may succeed: no answer came, half of one, or the server's word that it is busy or
// broken.
func transient(last Result, err error) bool {
	if errors.Is(err, ErrTooLarge) {
		return false
	}
	return last.Err != nil ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		last.Status == http.StatusTooManyRequests ||
		last.Status/100 == 5
}

// backOff returns the wait after attempt n: half of it fixed, half of it jitter, so that callers who failed together do
// not come back together.
func (p Retry) backOff(n int) time.Duration {
	delay := p.BaseDelay
	for ; n > 1 && delay < p.MaxDelay; n-- {
		delay += min(delay, p.MaxDelay-delay) // doubled, but never beyond MaxDelay
	}
	delay = min(delay, p.MaxDelay)
	return max(delay/2+rand.N(delay/2+1), 1) //nolint:gosec // jitter is no secret
}

// RetryAfter reads the wait that the service asked for, as seconds or as a date. A date is the service's clock, so it is
// measured against the answer's own Date where there is one, else against at, when the answer came.
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

// Wait waits for d, or until ctx is done and returns why.
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
