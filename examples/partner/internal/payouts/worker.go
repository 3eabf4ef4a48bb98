package payouts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

const (
	// maxPatience bounds how long a worker holds a job that may not be sent yet.
	maxPatience = 5 * time.Second
	// recordTimeout bounds how long the database may be away before an outcome is given up. The payout is then parked
	// when its lease ends.
	recordTimeout = 10 * time.Second
)

// errorCode is what a service's error code may look like to be stored: it is text of an answer.
var errorCode = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// worker pays one payout at a time, and is shared by all goroutines of a queue.
type worker struct {
	Config
	gate     *gate
	rate     *rate.Limiter
	patience time.Duration
}

func newWorker(c Config) *worker {
	limit := rate.Inf
	if c.PerSecond > 0 {
		limit = rate.Limit(c.PerSecond)
	}
	return &worker{
		Config:   c,
		gate:     newGate(c.MinPause, c.MaxPause),
		rate:     rate.NewLimiter(limit, 1),
		patience: min(maxPatience, c.Timeout),
	}
}

// longest is how long pay may take, but for a database that is away.
func (w *worker) longest() time.Duration { return 2*w.patience + w.Timeout + time.Second }

// pay sends a payout if it is still to be sent, and records what became of it. It may be called for the same payout
// any number of times, at once and by several processes: only who has claimed the row sends it.
//
// again is when to call it again for this payout, 0 for never; so does an error. ctx ends what comes before the claim
// and nothing behind it.
func (w *worker) pay(ctx context.Context, userData string) (again time.Duration, err error) {
	payout, err := w.Store.Payout(ctx, userData)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case payout.State != store.StateCreated:
		return 0, nil // dealt with: a job may be delivered more than once
	}
	if early := time.Until(payout.DueAt); early > 0 {
		return early, nil
	}
	leave, again, err := w.admit(ctx)
	if leave == nil {
		return again, err
	}
	defer leave.unused()

	deadline := time.Now().Add(w.Timeout) // from before the claim, so that it ends well within the lease
	claim, err := w.claim(ctx, userData)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil // somebody else has it
	}
	if err != nil {
		return 0, err
	}
	return w.settle(ctx, payout, claim, leave, w.call(ctx, payout, deadline)), nil
}

// admit waits for the rate limit and the gate. A nil pass comes with the time after which to ask again.
func (w *worker) admit(ctx context.Context) (*pass, time.Duration, error) {
	slot := w.rate.Reserve()
	if delay := slot.Delay(); delay > w.patience {
		slot.Cancel()
		return nil, delay, nil
	} else if err := sleep(ctx, delay); err != nil {
		slot.Cancel()
		return nil, 0, err
	}
	leave, again, err := w.gate.enter(ctx, w.patience)
	if leave == nil {
		slot.Cancel()
	}
	return leave, again, err
}

// claim claims a payout. Nothing is sent under a claim of which it is not known whether it was committed, so it can be
// given back.
func (w *worker) claim(ctx context.Context, userData string) (store.Claim, error) {
	timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(recordTimeout, w.Timeout))
	defer cancel()
	claim, err := w.Store.Claim(timed, store.Payouts, userData, w.Lease)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		_ = w.record(ctx, func(ctx context.Context) error { return w.Store.NotSent(ctx, claim, time.Now()) })
	}
	return claim, err
}

// answer is what a call gave.
type answer struct {
	orderID string
	err     error
}

// call calls the service once. The payout's job may end, and the process be told to stop: the call goes on until its
// own deadline, for what would be cut off would be unknown.
func (w *worker) call(ctx context.Context, p store.Payout, deadline time.Time) answer {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	response, err := w.Client.InitPayout(ctx, paymentsvc.PayoutRequest{
		Amount: p.Amount, Destination: p.Destination, UserData: p.UserData,
	})
	if err != nil {
		return answer{err: err}
	}
	return answer{orderID: response.OrderID}
}

// settle records what became of a call, and gives the time after which to try the payout again, 0 for never.
func (w *worker) settle(ctx context.Context, p store.Payout, c store.Claim, leave *pass, a answer) time.Duration {
	var (
		again   time.Duration
		outcome string
		record  func(ctx context.Context) error
		failure *paymentsvc.Error
	)
	errors.As(a.err, &failure)
	switch {
	case a.err == nil:
		leave.answered()
		outcome = "started"
		record = func(ctx context.Context) error { return w.Store.Started(ctx, c, a.orderID, "") }
	case paymentsvc.OutcomeOf(a.err) == paymentsvc.OutcomeNotSent && errors.Is(a.err, paymentsvc.ErrInvalidRequest):
		// It would not be sent the next time either.
		outcome = "refused"
		record = func(ctx context.Context) error { return w.Store.Refused(ctx, c, "invalid_request") }
	case paymentsvc.OutcomeOf(a.err) == paymentsvc.OutcomeNotSent:
		leave.unanswered("the service cannot be reached")
		outcome, again = "not sent", w.backOff(p.Attempts)
		record = func(ctx context.Context) error { return w.Store.NotSent(ctx, c, time.Now().Add(again)) }
	case w.concernsCaller(failure):
		again = leave.refused(refusalOf(failure, p), retryAfter(failure.Header, time.Now()))
		outcome = "postponed"
		record = func(ctx context.Context) error { return w.Store.Postponed(ctx, c, time.Now().Add(again)) }
	case rejected(failure):
		leave.answered()
		outcome = "refused"
		record = func(ctx context.Context) error { return w.Store.Refused(ctx, c, refusalOf(failure, p)) }
	default:
		leave.unanswered("the service does not answer")
		outcome = "unknown"
		record = func(ctx context.Context) error { return w.Store.Unknown(ctx, c, attention, time.Now()) }
	}
	if err := w.record(ctx, record); err != nil {
		w.Log.ErrorContext(ctx, "payout: outcome not recorded, so it will be parked", "user_data", p.UserData,
			"outcome", outcome, "error", err.Error())
		return 0
	}
	switch outcome {
	case "started":
		w.Log.DebugContext(ctx, "payout", "user_data", p.UserData, "outcome", outcome)
	default:
		w.Log.WarnContext(ctx, "payout", "user_data", p.UserData, "outcome", outcome, slog.Any("error", a.err))
	}
	return again
}

// attention is what a person reads of a payout of which nobody knows whether it was carried out.
const attention = "No answer: ask the service whether it was paid, by its user_data."

// rejected says whether the service refused the row. A conflict may mean that its user_data was used before, by an
// earlier call: then it is not known what became of that one.
func rejected(e *paymentsvc.Error) bool {
	return e != nil && e.Outcome == paymentsvc.OutcomeRejected && e.HTTPStatus != http.StatusConflict
}

// concernsCaller says whether a refusal would strike any other row too. The interface document does not show which
// HTTP statuses or codes do (section 7): these are what HTTP itself says of them.
func (w *worker) concernsCaller(e *paymentsvc.Error) bool {
	if !rejected(e) {
		return false
	}
	switch e.HTTPStatus {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusTooManyRequests:
		return true
	}
	return w.ConcernsCaller != nil && w.ConcernsCaller(e)
}

// refusalOf gives the service's code, if it looks like one and does not repeat the destination, or the HTTP status.
func refusalOf(e *paymentsvc.Error, p store.Payout) string {
	var reported *paymentsvc.ServiceError
	if errors.As(e.Err, &reported) && errorCode.MatchString(reported.Code) && !strings.Contains(reported.Code, p.Destination) {
		return reported.Code
	}
	return fmt.Sprintf("HTTP %d", e.HTTPStatus)
}

// retryAfter reads a Retry-After header, in seconds or as a date; 0 without one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// backOff is the time before the next try of a row that was not sent, after so many earlier ones.
func (w *worker) backOff(attempts int64) time.Duration {
	return min(w.MinPause<<min(attempts, 16), w.MaxPause)
}

// record records an outcome, though the job or the process may be about to end, and tries again while the database is
// away.
func (w *worker) record(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		err := do(ctx)
		if err == nil || errors.Is(err, store.ErrNotFound) {
			return err
		}
		if sleep(ctx, wait) != nil {
			return err
		}
	}
}

// sleep gives the context's error if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
