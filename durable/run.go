package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"
)

// Run sends what is due, reconciles what is unknown and sweeps, until ctx is done. It then starts nothing new and
// returns nil when the outcomes of all calls are recorded, within Timeout and some seconds. It waits out a database that
// is away. It may be called once.
func (s *Store) Run(ctx context.Context) error {
	w := &worker{ctx: ctx, left: math.MaxInt, rounds: make(chan struct{}, 1)}
	if !s.employ(w) {
		return errBusy
	}
	sweeps := make(chan struct{})
	go func() {
		defer close(sweeps)
		for ctx.Err() == nil {
			if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.c.Log.ErrorContext(ctx, "durable: sweep failed", "error", err.Error())
			}
			_ = s.sleep(ctx, s.c.Poll)
		}
	}()
	poll := s.c.Poll
	if s.c.PerSecond > 0 {
		poll = min(poll, 50*time.Millisecond)
	}
	for ctx.Err() == nil {
		s.look(w)
		_ = s.sleep(ctx, poll)
	}
	<-sweeps
	s.mu.Lock()
	s.closed, s.worker = true, nil
	s.mu.Unlock()
	s.calls.Wait()
	return nil
}

var errBusy = errors.New("durable: Run was called twice, or after a Turn that still works")

// employ makes w the worker, unless there is one.
func (s *Store) employ(w *worker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.worker != nil || s.closed {
		return false
	}
	s.worker = w
	return true
}

// Turn sends what is due within l, and returns the number of calls made when their outcomes are recorded. It returns 0
// at once while Run or another Turn of this Store works. Use it in jobs and cron; they have to call Sweep too. Errors
// wrap [ErrPaused] or [ErrHeld], or are the database's.
func (s *Store) Turn(ctx context.Context, l Limit) (done int, err error) {
	if l.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.Duration)
		defer cancel()
	}
	w := &worker{ctx: ctx, left: math.MaxInt, rounds: make(chan struct{}, 1)}
	if l.Rows > 0 {
		w.left = l.Rows
	}
	if !s.employ(w) {
		return 0, nil
	}
	defer func() {
		s.mu.Lock()
		s.worker = nil
		s.mu.Unlock()
	}()
	s.seePayments(ctx)
	s.look(w)
	for {
		var wait <-chan time.Time
		if s.c.PerSecond > 0 {
			wait = time.After(50 * time.Millisecond)
		}
		ended := ctx.Done()
		if ctx.Err() != nil {
			ended = nil // what is in flight is recorded first
			if s.flying(w) == 0 {
				break
			}
		}
		select {
		case <-w.rounds:
		case <-wait:
		case <-ended:
			continue
		}
		s.mu.Lock()
		result, flying, left, hungry := w.result, w.flying, w.left, w.hungry
		s.mu.Unlock()
		if flying > 0 {
			continue
		}
		if result.err != nil || result.paused || result.empty && !hungry || left <= 0 {
			break
		}
		s.look(w)
	}
	s.mu.Lock()
	result, done := w.result, w.made
	s.mu.Unlock()
	return done, s.why(ctx, result)
}

func (s *Store) flying(w *worker) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.flying
}

// why returns the reason that nothing more was claimed, if it is one to act on.
func (s *Store) why(ctx context.Context, result workerResult) error {
	switch {
	case result.err != nil:
		return fmt.Errorf("durable: turn: %w", result.err)
	case result.paused:
		return ErrPaused
	case !result.empty:
		return nil
	}
	var held bool
	if err := s.one(context.WithoutCancel(ctx), `SELECT EXISTS (SELECT 1 FROM durable_rows WHERE kind = 'payout'
		AND state = 'created' AND generation < (SELECT generation FROM durable_control))`).Scan(&held); err != nil {
		return fmt.Errorf("durable: turn: %w", err)
	}
	if held {
		return ErrHeld
	}
	return nil
}

// seePayments looks whether payments are due.
func (s *Store) seePayments(ctx context.Context) {
	var due bool
	err := s.one(ctx, `SELECT EXISTS (SELECT 1 FROM durable_rows
		WHERE kind = 'payment' AND state = 'created' AND due_at <= {now})`).Scan(&due)
	if err != nil || !due {
		return
	}
	s.mu.Lock()
	s.paymentsDue = true
	s.mu.Unlock()
}

// applyTo applies the notifications that wait for order_ids.
func (s *Store) applyTo(ctx context.Context, orders []string) {
	notices, err := s.waiting(ctx, "order_id", orders...)
	for _, n := range notices {
		err = errors.Join(err, s.applyNotice(ctx, n, false))
	}
	if err != nil {
		s.c.Log.ErrorContext(ctx, "durable: a notification will be applied later", "error", err.Error())
	}
}

// waiting returns the notifications that wait for one of values in the column by, in the order in which they came.
func (s *Store) waiting(ctx context.Context, by string, values ...string) (notices []Notice, err error) {
	err = s.query(ctx, s.db, func(rows *sql.Rows) error {
		n, err := scanNotice(rows)
		notices = append(notices, n)
		return err
	}, `SELECT `+noticeColumns+` FROM durable_notifications WHERE matched = 0 AND `+by+` IN `+s.each("$1")+`
		ORDER BY received_at, key`, list(values))
	return notices, err
}
