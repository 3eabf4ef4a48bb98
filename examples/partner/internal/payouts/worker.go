package payouts

import (
	"context"
	"errors"
	"log/slog"
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
	// startedRounds is how many times recordTimeout it may be away before a success is given up, 10 minutes in all.
	startedRounds = 60
	// manyTries is how often a payout is tried that the service refuses as it refuses the caller, before a person is
	// told. It goes on being tried, each rarely.
	manyTries = 10
	rarely    = 15 * time.Minute
)

// worker pays one payout at a time, and is shared by all goroutines of a queue.
type worker struct {
	Config
	gate     *gate
	rate     *rate.Limiter
	patience time.Duration
	ending   chan struct{} // closed when no new call may begin
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
		ending:   make(chan struct{}),
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

	// From before the claim, so that it ends well within the lease; and by the wall clock, for the monotonic one stands
	// still while the machine is suspended.
	deadline := time.Now().Round(0).Add(w.Timeout)
	claim, err := w.claim(ctx, userData)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil // somebody else has it
	}
	if err != nil {
		return 0, err
	}
	orderID, err := w.call(ctx, payout, deadline)
	if err == nil {
		leave.answered()
		w.started(ctx, claim, orderID)
		return 0, nil
	}
	return w.settle(ctx, payout, claim, leave, err), nil
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

// claim claims a payout. If it is unclear whether the claim was committed, nothing is sent, so it can be returned.
func (w *worker) claim(ctx context.Context, userData string) (store.Claim, error) {
	timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(recordTimeout, w.Timeout))
	defer cancel()
	claim, err := w.Store.Claim(timed, store.Payouts, userData, w.Lease)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		_ = w.record(ctx, func(ctx context.Context) error { return w.Store.NotSent(ctx, claim, time.Now()) })
	}
	return claim, err
}

// call calls the service once. The payout's job may end, and the process be told to stop: the call goes on until its
// own deadline, for what would be cut off would be unknown.
func (w *worker) call(ctx context.Context, p store.Payout, deadline time.Time) (orderID string, err error) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	response, err := w.Client.InitPayout(ctx, paymentsvc.PayoutRequest{
		Amount: p.Amount, Destination: p.Destination, UserData: p.UserData,
	})
	if err != nil {
		return "", err
	}
	return response.OrderID, nil
}

// settle records what became of a call that failed, and gives the time after which to try the payout again, 0 for never.
func (w *worker) settle(ctx context.Context, p store.Payout, c store.Claim, leave *pass, err error) time.Duration {
	failure, ok := errors.AsType[*paymentsvc.Error](err)
	if !ok {
		failure = &paymentsvc.Error{Err: err} // not of a Client, so the outcome is unknown
	}
	var (
		again   time.Duration
		record  func(ctx context.Context) error
		outcome = paymentsvc.OutcomeOf(err)
	)
	switch {
	case paymentsvc.SafeToRetry(err),
		outcome == paymentsvc.OutcomeRejected && w.ConcernsCaller != nil && w.ConcernsCaller(failure):
		again, record = w.retry(p, c, leave, failure)
	case outcome == paymentsvc.OutcomeUnknown:
		record = w.doubt(p, c, leave, failure)
	default:
		if outcome == paymentsvc.OutcomeRejected { // an invalid request was not sent, and says nothing of the service
			leave.answered()
		}
		record = func(ctx context.Context) error { return w.Store.Refused(ctx, c, refusal(err, p)) }
	}
	log := w.Log.With("user_data", p.UserData, "outcome", outcome.String())
	switch failed := w.record(ctx, record); {
	case errors.Is(failed, store.ErrNotFound):
		log.WarnContext(ctx, "payout: settled in another way meanwhile", slog.Any("error", err))
		return 0
	case failed != nil:
		log.ErrorContext(ctx, "payout: outcome not recorded, so it will be parked", "error", failed.Error())
		return 0
	}
	log.WarnContext(ctx, "payout", slog.Any("error", err))
	return again
}

// retry returns the time after which to try again a payout that was certainly not started, and what records that.
func (w *worker) retry(p store.Payout, c store.Claim, leave *pass, failure *paymentsvc.Error) (
	again time.Duration, record func(ctx context.Context) error,
) {
	if failure.Outcome == paymentsvc.OutcomeNotSent {
		leave.unanswered("the service cannot be reached")
		again = min(time.Second<<min(p.Attempts, 20), w.MaxPause)
		return again, func(ctx context.Context) error { return w.Store.NotSent(ctx, c, time.Now().Add(again)) }
	}
	code := refusal(failure, p)
	wait, _ := failure.RetryAfter()
	again = leave.refused(code, wait)
	if p.Attempts+1 < manyTries {
		return again, func(ctx context.Context) error { return w.Store.Postponed(ctx, c, time.Now().Add(again)) }
	}
	again = max(again, rarely)
	return again, func(ctx context.Context) error {
		return w.Store.Stuck(ctx, c, "Refused again and again: "+code+".", time.Now().Add(again))
	}
}

// doubt returns what records a payout of which nobody knows whether it was started. With an order_id the service is
// asked for it, and it needs nobody.
func (w *worker) doubt(p store.Payout, c store.Claim, leave *pass, failure *paymentsvc.Error) (
	record func(ctx context.Context) error,
) {
	if errors.Is(failure, paymentsvc.ErrUnauthorized) || errors.Is(failure, paymentsvc.ErrRateLimited) {
		wait, _ := failure.RetryAfter()
		leave.refused(refusal(failure, p), wait) // perhaps by a proxy: the next payout would fare the same
	} else {
		leave.unanswered("the service does not answer")
	}
	reason := attention
	if failure.OrderID != "" {
		reason = ""
	}
	return func(ctx context.Context) error { return w.Store.Unknown(ctx, c, failure.OrderID, reason, time.Now()) }
}

// attention is what a person reads of a payout of which nobody knows whether it was carried out.
const attention = "No clear answer: ask the service whether it was paid, by its user_data."

// refusal gives the service's code, unless it repeats the destination.
func refusal(err error, p store.Payout) string {
	code := store.Refusal(err)
	if strings.Contains(code, strings.TrimPrefix(p.Destination, "+")) {
		return "a code that repeats the destination"
	}
	return code
}

// started records that the service has a payout. Nobody else knows its order_id, and it is true however late it is
// recorded: so it is tried for long, until the queue ends.
func (w *worker) started(ctx context.Context, c store.Claim, orderID string) {
	log := w.Log.With("user_data", c.UserData, "order_id", orderID)
	for round := 1; ; round++ {
		err := w.record(ctx, func(ctx context.Context) error { return w.Store.Started(ctx, c, orderID, "") })
		switch {
		case err == nil && round == 1:
			log.DebugContext(ctx, "payout: the service has it")
			return
		case err == nil:
			log.WarnContext(ctx, "payout: the service has it, which is recorded now")
			return
		case round == startedRounds || errors.Is(err, store.ErrNotFound) || w.hasEnded():
			log.ErrorContext(ctx, "payout: the service has it, which is not recorded, so it will be parked", "error", err.Error())
			return
		case round == 1:
			log.ErrorContext(ctx, "payout: the service has it, which is not recorded yet", "error", err.Error())
		}
	}
}

// hasEnded says whether no new call may begin.
func (w *worker) hasEnded() bool {
	select {
	case <-w.ending:
		return true
	default:
		return false
	}
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
