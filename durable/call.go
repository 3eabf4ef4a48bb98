package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

const (
	// maxRetryAfter is the longest accepted Retry-After.
	maxRetryAfter = 15 * time.Minute
	// stuckClaims is the number of claims after which a row needs review if the service still rejects the caller.
	// Retries then become rare.
	stuckClaims = 10
)

var errLate = errors.New("durable: the claim took too long, so the call did not begin")

// job is a row that this process has claimed.
type job struct {
	ledger.Claim
	probe bool
	begun time.Time // time before the request of the claim
}

// callResult is the result of a call, with its effect on other rows.
type callResult struct {
	row.Result
	job     job
	effect  effect
	reason  string        // reason for a pause
	atLeast time.Duration // shortest pause, from Retry-After
	err     error
	span    *span // nil if the call did not begin
}

// span is the context of a call and of its consequences.
type span struct {
	ctx context.Context
	end func(error)
}

// trace begins the span of a call. Only the first call of end has an effect, because a record may be repeated.
func (s *Store) trace(ctx context.Context, endpoint, userData string) *span {
	if s.c.Hooks.Trace == nil {
		return &span{ctx, func(error) {}}
	}
	traced, end := s.c.Hooks.Trace(ctx, endpoint, userData)
	var once sync.Once
	return &span{traced, func(err error) { once.Do(func() { end(err) }) }}
}

// context returns the context of the call of r, or other if the call did not begin.
func (r callResult) context(other context.Context) context.Context {
	if r.span == nil {
		return other
	}
	return context.WithoutCancel(r.span.ctx)
}

// finish ends the span of the call of r, with the error of its record, or else with the error of the call.
func (r callResult) finish(record error) {
	if r.span == nil {
		return
	}
	r.span.end(printable(cmp.Or(record, r.err)))
}

// effect is the effect of a call on the pause, which all processes share.
type effect int

const (
	noEffect         effect = iota
	responded               // a timed pause may end
	noResponse              // breakerThreshold such calls in a row, or one probe, begin a timed pause
	pauseForTime            // begins a timed pause
	pauseUntilResume        // begins a pause until Resume
)

// completion returns the scheduler's form of a result. A round records only a success without further consequences.
func (s *Store) completion(r callResult, slots int) schedule.Completion[callResult] {
	s.step(StepCalled)
	c := schedule.Completion[callResult]{UserData: r.job.UserData, Slot: slots, Done: r}
	if r.Kind == row.Started {
		c.OrderID = r.OrderID
		if !r.job.probe && (s.c.OnChange == nil || !slices.Contains(s.c.ChangeStates, StatePending)) {
			c.OrderKey = string(r.job.Kind) + "/" + r.OrderID
		}
	}
	return c
}

// call calls the service once, after the commit of the claim. The deadline counts from before the claim, by the
// monotonic clock and by the wall clock, because the monotonic clock stands still while the machine is suspended.
func (s *Store) call(ctx context.Context, j job) callResult {
	ctx, cancel := context.WithDeadline(ctx, j.begun.Add(s.c.Timeout))
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()
	s.step(StepCall)
	begun := s.now()
	if begun.Sub(j.begun) >= s.c.Timeout || begun.Round(0).Sub(j.begun.Round(0)) >= s.c.Timeout || ctx.Err() != nil {
		return callResult{job: j, Result: row.Result{Kind: row.NotCalled}, err: errLate}
	}
	endpoint := "init_payout"
	if j.Kind == row.Payment {
		endpoint = "init_payment"
	}
	span := s.trace(ctx, endpoint, j.UserData)
	orderID, redirectURL, err := s.start(span.ctx, j)
	if err == nil && orderID == "" { // a Client returns an error instead
		err = &paymentsvc.Error{Endpoint: endpoint, Err: paymentsvc.ErrUnexpectedResponse}
	}
	s.reportCall(span.ctx, endpoint, begun, err)
	r := callResult{
		job: j, Result: row.Result{Kind: row.Started, OrderID: orderID, RedirectURL: redirectURL}, effect: responded,
	}
	if err != nil {
		r = s.classify(j, err)
	}
	r.span = span
	return r
}

// start makes the call, and returns the fields of its response.
func (s *Store) start(ctx context.Context, j job) (orderID, redirectURL string, err error) {
	if j.Kind == row.Payment {
		response, err := s.c.Service.InitPayment(ctx, paymentsvc.PaymentType(j.Type),
			paymentsvc.PaymentRequest{Amount: j.Amount, UserData: j.UserData})
		if err != nil {
			return "", "", err
		}
		return ledger.Identifier(response.OrderID), ledger.Storable(response.RedirectURL), nil
	}
	response, err := s.c.Service.InitPayout(ctx,
		paymentsvc.PayoutRequest{Amount: j.Amount, Destination: j.Destination, UserData: j.UserData})
	if err != nil {
		return "", "", err
	}
	return ledger.Identifier(response.OrderID), "", nil
}

func (s *Store) reportCall(ctx context.Context, endpoint string, begun time.Time, err error) {
	if s.c.Hooks.Call == nil {
		return
	}
	c := Call{Endpoint: endpoint, Duration: s.now().Sub(begun), Err: printable(err)}
	if failure := onlyFailure(err); failure != nil {
		c.Outcome = failure.Outcome
	}
	s.c.Hooks.Call(ctx, c)
}

// onlyFailure returns the *Error of a call, or nil if err joins errors, because a Service may join the errors of two
// calls.
func onlyFailure(err error) *paymentsvc.Error {
	for ; err != nil; err = errors.Unwrap(err) { // nil for joined errors
		if failure, ok := err.(*paymentsvc.Error); ok { //nolint:errorlint // the loop unwraps
			return failure
		}
	}
	return nil
}

// printable returns an error for logs and hooks. Only the text of a Client's own error is known to contain no secret.
func printable(err error) error {
	failure, _ := err.(*paymentsvc.Error) //nolint:errorlint // the text of a wrapper may contain more
	if failure != nil || err == nil {
		return err
	}
	if errors.Is(err, errLate) {
		return errLate
	}
	return fmt.Errorf("durable: an error of type %T", err)
}

// classify returns the result of a start with an error.
func (s *Store) classify(j job, err error) callResult {
	failure, _ := errors.AsType[*paymentsvc.Error](err)
	if failure == nil {
		failure = &paymentsvc.Error{Err: err} // not from a Client, so the outcome is unknown
	}
	r := callResult{job: j, err: err}
	r.Code, r.Wait = errorCode(err, j.Destination), schedule.Backoff(int(j.Claims)+3, time.Minute)
	retryAfter, _ := failure.RetryAfter()
	retryAfter = min(retryAfter, maxRetryAfter)
	outcome := paymentsvc.OutcomeOf(err)
	switch {
	case s.insufficientFunds(j, failure):
		r.effect, r.reason = pauseUntilResume, "the account may have insufficient funds: "+r.Code
	case errors.Is(err, paymentsvc.ErrUnauthorized), errors.Is(err, paymentsvc.ErrRateLimited):
		r.Wait, r.atLeast = max(r.Wait, retryAfter), retryAfter
		r.effect, r.reason = pauseForTime, "the service rejects the caller: "+r.Code
	case outcome == paymentsvc.OutcomeRejected:
		r.effect = responded
	case errors.Is(err, paymentsvc.ErrInvalidRequest):
	default:
		r.effect, r.reason = noResponse, "calls in a row were not sent or have an unknown outcome"
	}
	switch {
	case outcome == paymentsvc.OutcomeUnknown:
		r.Kind, r.OrderID = row.OutcomeUnknown, ledger.Identifier(failure.OrderID)
	case r.effect == pauseUntilResume:
		r.Kind, r.Wait = row.CallerRejected, 0
	case paymentsvc.SafeToRetry(err) && outcome == paymentsvc.OutcomeNotSent:
		r.Kind = row.NotSent
	case paymentsvc.SafeToRetry(err):
		r.Kind = row.CallerRejected
		if j.Claims >= stuckClaims {
			r.Stuck, r.Wait = true, max(r.Wait, maxRetryAfter)
		}
	default:
		r.Kind = row.RowRejected
	}
	return r
}

// insufficientFunds reports whether a payout was rejected because the account has no funds. A payment needs no funds.
func (s *Store) insufficientFunds(j job, failure *paymentsvc.Error) bool {
	if j.Kind != row.Payout || failure.Outcome == paymentsvc.OutcomeNotSent {
		return false
	}
	if failure.HTTPStatus == http.StatusPaymentRequired {
		return true
	}
	reported, _ := errors.AsType[*paymentsvc.ServiceError](failure)
	return reported != nil && slices.Contains(s.c.InsufficientFundsCodes, reported.Code)
}
