package durable

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

// breakerThreshold is the number of successive payouts not sent or with an unknown outcome, in this process, that
// begins a pause. Without a pause, an unavailable service would make all rows unknown, and each would need review.
const breakerThreshold = 3

// Record records the result of a call in a separate transaction, with all consequences. It makes one attempt.
func (b rounder) Record(ctx context.Context, c schedule.Completion[callResult]) error {
	s, r := b.s, c.Done
	ctx = r.context(ctx)
	log := s.c.Log.With("kind", string(r.job.Kind), "user_data", r.job.UserData)
	if r.Kind == row.Started {
		log = log.With("order_id", r.OrderID)
	}
	if r.err != nil {
		log = log.With(slog.Any("error", printable(r.err)))
	}
	s.step(StepRecord)
	err := s.record(ctx, r)
	switch {
	case err == nil:
		s.step(StepRecorded)
		if r.err != nil {
			log.WarnContext(ctx, "durable: call failed")
		}
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrChanged) && r.OrderID == "": // an order_id needs another attempt
		log.WarnContext(ctx, "durable: the row has changed since its call")
		err = s.applyEffects(ctx, r)
	}
	r.finish(err)
	return err
}

// record applies a result to its row, to the pause and to other rows, in one transaction.
func (s *Store) record(ctx context.Context, r callResult) error {
	paused := ""
	change := func(ctx context.Context, tx *ledger.Tx, changed *row.Row) error {
		taken, err := tx.Taken(ctx, changed, r.OrderID)
		if err != nil {
			return err
		}
		if err := changed.Complete(r.job.Token, r.Result, taken); err != nil {
			return err
		}
		paused, err = s.updatePause(ctx, tx, r, changed)
		return err
	}
	err := s.ledger.Change(ctx, r.job.UserData, r.OrderID, change)
	if err == nil && paused != "" {
		s.reportPause(ctx, "durable: paused", paused)
	}
	return err
}

// applyEffects applies the effects of a call without its row, because the row has changed since the call.
func (s *Store) applyEffects(ctx context.Context, r callResult) error {
	paused := ""
	err := s.ledger.Transact(ctx, false, func(ctx context.Context, tx *ledger.Tx) (err error) {
		paused, err = s.updatePause(ctx, tx, r, &row.Row{UserData: r.job.UserData})
		return err
	})
	if err == nil && paused != "" {
		s.reportPause(ctx, "durable: paused", paused)
	}
	return err
}

// updatePause updates the pause and the run of equal rejections after the call of a payout. It returns the reason for a
// new pause, or "".
func (s *Store) updatePause(
	ctx context.Context, tx *ledger.Tx, r callResult, changed *row.Row,
) (paused string, err error) {
	if r.job.Kind != row.Payout {
		return "", nil
	}
	probe := "" // token of the call if it is a probe
	if r.job.probe {
		probe = r.job.Token
	}
	switch {
	case r.Kind == row.Started:
		err = tx.EndRun(ctx)
	case r.Kind == row.RowRejected && s.c.MaxConsecutiveRejections > 0:
		paused, err = tx.CountRejection(ctx, changed, r.Code, s.c.MaxConsecutiveRejections)
	}
	if paused != "" || err != nil {
		return paused, err
	}
	switch r.effect {
	case responded:
		s.resetBreaker()
		if probe != "" {
			err = tx.EndPause(ctx, probe)
		}
		return "", err
	case noEffect:
		if probe != "" { // the call is not evidence about the service
			err = tx.ProbeAgain(ctx, probe)
		}
		return "", err
	case pauseUntilResume:
		begun, err := tx.PauseUntilResume(ctx, r.reason)
		if !begun {
			return "", err
		}
		return r.reason, err
	case noResponse:
		if s.breaker.Add(1) < breakerThreshold && probe == "" {
			return "", nil
		}
	case pauseForTime:
	}
	s.resetBreaker()
	until, err := tx.PauseTimed(ctx, r.reason, r.atLeast.Milliseconds(), r.job.Token)
	if until == 0 {
		return "", err
	}
	return r.reason + "; the pause ends automatically at " + ledger.Time(until).UTC().Format(time.DateTime) + " UTC", err
}

func (s *Store) resetBreaker() { s.breaker.Store(0) }
