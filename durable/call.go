package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

const (
	// longestWait is the longest Retry-After that is believed.
	longestWait = 15 * time.Minute
	// manyClaims is how many claims may end in a rejection of the caller before a person is told. Retries go on, rarely.
	manyClaims = 10
	// longestRecord is how long the database may be away before an outcome is left to the lease.
	longestRecord = 10 * time.Minute
	// lastRecord is the same once Run has been told to stop.
	lastRecord = 10 * time.Second
)

var errLate = errors.New("durable: the claim took too long, so the call was not begun")

// work calls the service for a job and records the outcome. It returns the number of slots to free: 0 if a round has
// recorded the outcome and freed the slot.
func (s *Store) work(ctx context.Context, j job) (freed int) {
	ctx = context.WithoutCancel(ctx)
	v := s.call(ctx, j)
	s.step(StepCalled)
	if s.recordFast(j, v, 1) {
		return 0
	}
	s.record(ctx, j, v)
	return 1
}

// recordFast records a success in a round, if nothing else follows from it.
func (s *Store) recordFast(j job, v verdict, slot int) bool {
	if v.is != factStarted || j.probe || s.c.OnChange != nil && slices.Contains(s.c.ChangeStates, StatePending) {
		return false
	}
	recorded := s.submit(&outcome{
		UserData: j.userData, Token: j.token, OrderID: v.orderID, URL: v.url, Slot: slot, kind: j.kind,
	})
	if !recorded {
		return false
	}
	if v.pause == pauseEnd {
		s.answering()
	}
	if s.c.Hooks.Change != nil {
		s.c.Hooks.Change(context.Background(), j.kind, StateStarting, StatePending)
	}
	return true
}

// call calls the service once, for a claim that is committed. The deadline counts from before the claim was sent, by the
// stopwatch and by the wall clock, for the stopwatch stands still while the machine is suspended.
func (s *Store) call(ctx context.Context, j job) verdict {
	ctx, cancel := context.WithDeadline(ctx, j.begun.Add(s.c.Timeout))
	defer cancel()
	s.step(StepCall)
	begun := s.now()
	if begun.Sub(j.begun) >= s.c.Timeout || begun.Round(0).Sub(j.begun.Round(0)) >= s.c.Timeout || ctx.Err() != nil {
		return verdict{is: factUnbegun, err: errLate}
	}
	v := verdict{is: factStarted, pause: pauseEnd}
	endpoint := "init_payout"
	if j.kind == KindPayment {
		endpoint = "init_payment"
		response, err := s.c.Service.InitPayment(ctx, j.paymentType, paymentsvc.PaymentRequest{Amount: j.amount, UserData: j.userData})
		if err == nil {
			v.orderID, v.url = identifier(response.OrderID), storable(response.RedirectURL)
		}
		v.err = err
	} else {
		response, err := s.c.Service.InitPayout(ctx, paymentsvc.PayoutRequest{
			Amount: j.amount, Destination: j.destination, UserData: j.userData,
		})
		if err == nil {
			v.orderID = identifier(response.OrderID)
		}
		v.err = err
	}
	s.called(ctx, endpoint, begun, v.err)
	if v.err != nil {
		return s.judge(j, v.err)
	}
	if v.orderID == "" { // not of a Client, which returns an error
		return verdict{is: factUnknown, pause: pauseTrouble, err: paymentsvc.ErrUnexpectedResponse}
	}
	return v
}

func (s *Store) called(ctx context.Context, endpoint string, begun time.Time, err error) {
	if s.c.Hooks.Call == nil {
		return
	}
	c := Call{Endpoint: endpoint, Duration: s.now().Sub(begun)}
	if err != nil {
		c.Err, c.Outcome = shown(err), paymentsvc.OutcomeOf(err)
	}
	s.c.Hooks.Call(ctx, c)
}

// shown returns an error as logs and hooks may show it: only the text of a Client's error is known to hold nothing secret.
func shown(err error) error {
	if _, ok := err.(*paymentsvc.Error); ok { //nolint:errorlint // what wraps one may say more
		return err
	}
	if errors.Is(err, errLate) {
		return errLate
	}
	return fmt.Errorf("durable: an error of type %T", err)
}

// judge returns what follows from the error of a start.
func (s *Store) judge(j job, err error) verdict {
	failure, ok := errors.AsType[*paymentsvc.Error](err)
	if !ok {
		failure = &paymentsvc.Error{Err: err} // not of a Client, so the outcome is unknown
	}
	outcome := paymentsvc.OutcomeOf(err)
	v := verdict{err: err, code: refusal(err, j.destination), wait: backoff(int(j.claims)+3, time.Minute)}
	asked, _ := failure.RetryAfter()
	asked = min(asked, longestWait)
	switch {
	case s.dry(j, failure):
		v.pause, v.reason = pauseEndless, "the account may have run dry: "+v.code
	case errors.Is(err, paymentsvc.ErrUnauthorized), errors.Is(err, paymentsvc.ErrRateLimited):
		v.wait, v.atLeast = max(v.wait, asked), asked
		v.pause, v.reason = pauseTimed, "the service rejects the caller: "+v.code
	case outcome == paymentsvc.OutcomeRejected:
		v.pause = pauseEnd
	case errors.Is(err, paymentsvc.ErrInvalidRequest):
	default:
		v.pause, v.reason = pauseTrouble, "the service does not answer"
	}
	switch {
	case outcome == paymentsvc.OutcomeUnknown:
		v.is, v.orderID = factUnknown, identifier(failure.OrderID)
	case v.pause == pauseEndless:
		v.is, v.wait = factPostponed, 0
	case paymentsvc.SafeToRetry(err) && outcome == paymentsvc.OutcomeNotSent:
		v.is = factNotSent
	case paymentsvc.SafeToRetry(err):
		v.is = factPostponed
		if j.claims >= manyClaims {
			v.stuck, v.wait = true, max(v.wait, longestWait)
		}
	default:
		v.is = factRefused
	}
	return v
}

// dry reports whether the answer to a payout is that the account has run dry. A payment is paid by its buyer.
func (s *Store) dry(j job, failure *paymentsvc.Error) bool {
	if j.kind != KindPayout || failure.Outcome == paymentsvc.OutcomeNotSent {
		return false
	}
	if failure.HTTPStatus == http.StatusPaymentRequired {
		return true
	}
	reported, ok := errors.AsType[*paymentsvc.ServiceError](failure)
	return ok && slices.Contains(s.c.AccountCodes, reported.Code)
}

// record records an outcome on its own, and retries while the database is away: nobody else knows it.
func (s *Store) record(ctx context.Context, j job, v verdict) {
	log := s.c.Log.With("kind", string(j.kind), "user_data", j.userData)
	if v.is == factStarted {
		log = log.With("order_id", v.orderID)
	}
	if v.err != nil {
		log = log.With(slog.Any("error", shown(v.err)))
	}
	begun := s.now()
	for n := 0; ; n++ {
		s.step(StepRecord)
		err := s.settle(ctx, j, v)
		if err == nil {
			s.step(StepRecorded)
			if v.err != nil {
				log.WarnContext(ctx, "durable: call failed")
			}
			return
		}
		if errors.Is(err, ErrChanged) || errors.Is(err, ErrNotFound) {
			log.WarnContext(ctx, "durable: known otherwise meanwhile")
			if err = s.onlyConsequences(ctx, j, v); err == nil {
				return
			}
		}
		longest := longestRecord
		if s.stopped() {
			longest = lastRecord
		}
		if s.now().Sub(begun) > longest {
			log.ErrorContext(ctx, "durable: outcome not recorded, so it will be unknown", "database", err.Error())
			return
		}
		if n == 0 {
			log.ErrorContext(ctx, "durable: outcome not recorded yet", "database", err.Error())
		}
		_ = s.sleep(ctx, backoff(n, 5*time.Second))
	}
}

// settle records an outcome with all that follows from it, in one transaction.
func (s *Store) settle(ctx context.Context, j job, v verdict) error {
	paused := ""
	err := s.change(ctx, j.userData, v.orderID, func(ctx context.Context, tx *transaction, r *row) error {
		taken, err := tx.taken(ctx, r, v.orderID)
		if err != nil {
			return err
		}
		if err := r.outcome(j.token, v, taken); err != nil {
			return err
		}
		if j.kind == KindPayout {
			paused, err = tx.consequences(ctx, j, v, r)
		}
		return err
	})
	if err == nil && paused != "" {
		s.paused(ctx, paused)
	}
	return err
}

// onlyConsequences applies what follows for all other rows from the call of a row that has changed meanwhile.
func (s *Store) onlyConsequences(ctx context.Context, j job, v verdict) error {
	if j.kind != KindPayout {
		return nil
	}
	paused := ""
	err := s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		paused, err = (&transaction{Tx: tx, s: s}).consequences(ctx, j, v, &row{Row: Row{UserData: j.userData}})
		return err
	})
	if err == nil && paused != "" {
		s.paused(ctx, paused)
	}
	return err
}
