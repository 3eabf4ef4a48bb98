package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

// Run sends due rows and repeats [Store.Sweep], until the end of ctx. It then returns nil after the outcomes of all
// calls are recorded, within Timeout and some seconds, or [ErrDrain] at the end of [Config].Drain. It waits while the
// database is unavailable. It returns [ErrBusy] during [Store.RunBatch] and on a second call.
func (s *Store) Run(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	var limit <-chan time.Time // a nil channel blocks forever
	if s.c.Drain > 0 {
		limit = time.After(s.c.Drain)
	}
	select {
	case err := <-ended:
		return err
	case <-limit:
	}
	s.abandon()
	select {
	case err := <-ended:
		return errors.Join(ErrDrain, err)
	case <-time.After(lastRecords):
		return ErrDrain
	}
}

// lastRecords is the time for canceled calls to end and to be recorded.
const lastRecords = time.Second

func (s *Store) run(ctx context.Context) error {
	sweeping, stop := context.WithCancel(ctx)
	sweeps := make(chan struct{})
	go func() {
		defer close(sweeps)
		s.sweepUntil(sweeping)
	}()
	err := s.scheduler.Run(ctx)
	stop()
	<-sweeps
	if errors.Is(err, schedule.ErrBusy) {
		return ErrBusy
	}
	return err
}

func (s *Store) sweepUntil(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.c.Log.ErrorContext(ctx, "durable: sweep failed", "error", err.Error())
		}
		select {
		case <-time.After(s.c.Poll):
		case <-ctx.Done():
		}
	}
}

// lockedWait is the wait for due rows that another transaction has locked.
const lockedWait = 100 * time.Millisecond

// RunBatch sends due rows within the limits of l, and returns the number of calls after their outcomes are recorded.
// Use it in jobs and cron, together with one process that repeats [Store.Sweep] for longer than Lease and Grace, or
// calls [Store.Run]. RunBatch returns nil if no due row remains, or at a limit of l, or at the end of ctx. It waits for
// due rows that another transaction has locked. Errors wrap [ErrPaused], [ErrHeld] or [ErrBusy], or are the database's.
func (s *Store) RunBatch(ctx context.Context, l BatchLimit) (calls int, err error) {
	if l.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.Duration)
		defer cancel()
	}
	for {
		made, err := s.scheduler.RunBatch(ctx, max(0, l.Rows-calls)) // 0 for no maximum
		calls += made
		switch {
		case errors.Is(err, schedule.ErrPaused):
			return calls, ErrPaused
		case errors.Is(err, schedule.ErrBusy):
			return calls, ErrBusy
		case err != nil:
			return calls, fmt.Errorf("durable: batch: %w", err)
		case ctx.Err() != nil, l.Rows > 0 && calls >= l.Rows:
			return calls, nil
		}
		held, due, err := s.ledger.Remaining(ctx)
		switch {
		case ctx.Err() != nil:
			return calls, nil
		case err != nil:
			return calls, fmt.Errorf("durable: batch: %w", err)
		case !due && held:
			return calls, ErrHeld
		case !due:
			return calls, nil
		}
		select {
		case <-time.After(lockedWait):
		case <-ctx.Done():
			return calls, nil
		}
	}
}
