package durable

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

// maxPendingPolls is the maximum number of polls of pending rows per second in this process. They are less urgent than
// starts, and many rows may be pending for days.
const maxPendingPolls = 20

// pendingPolls decides when this process polls for pending rows, and for which ones.
type pendingPolls struct {
	mu       sync.Mutex
	next     time.Time // of the next pass, by the process's clock
	failures int       // polls in a row without a response of the service
	kind     row.Kind  // of the last pass
	after    map[row.Kind]ledger.Place
}

// duePending returns the pending rows of a pass, which is limited by maxPendingPolls and PerSecond.
func (s *Store) duePending(ctx context.Context) ([]ledger.Poll, error) {
	if s.c.FinalState == nil {
		return nil, nil
	}
	rate := float64(maxPendingPolls)
	if s.c.PerSecond > 0 {
		rate = min(rate, s.c.PerSecond)
	}
	limit := max(1, int(rate))
	kind, after, due := s.pending.begin(s.now(), time.Duration(float64(limit)/rate*float64(time.Second)))
	if !due {
		return nil, nil
	}
	polls, next, err := s.ledger.DuePending(ctx, kind, after, limit)
	s.pending.mu.Lock()
	defer s.pending.mu.Unlock()
	s.pending.after[kind] = next
	return polls, err
}

// begin reports whether a pass is due, and for which rows. The next pass is for the other kind, after at least wait.
func (p *pendingPolls) begin(now time.Time, wait time.Duration) (kind row.Kind, after ledger.Place, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.next) {
		return "", ledger.Place{}, false
	}
	if p.next = now.Add(wait); p.after == nil {
		p.after = map[row.Kind]ledger.Place{}
	}
	if p.kind == row.Payment {
		p.kind = row.Payout
	} else {
		p.kind = row.Payment
	}
	return p.kind, p.after[p.kind], true
}

// observe postpones the next pass after a poll without a response of the service about the row.
func (p *pendingPolls) observe(now time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	caller := errors.Is(err, paymentsvc.ErrUnauthorized) || errors.Is(err, paymentsvc.ErrRateLimited)
	if err == nil || paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeRejected && !caller {
		p.failures = 0
		return
	}
	p.failures++
	wait := schedule.Backoff(p.failures+3, time.Minute)
	if failure, ok := errors.AsType[*paymentsvc.Error](err); ok {
		retryAfter, _ := failure.RetryAfter()
		wait = max(wait, min(retryAfter, maxRetryAfter))
	}
	if next := now.Add(wait); next.After(p.next) {
		p.next = next
	}
}

// finalStatus returns the final status that FinalState finds in a response, "" without one.
func (s *Store) finalStatus(
	ctx context.Context, p ledger.Poll, status *paymentsvc.StatusResponse,
) (final paymentsvc.StatusName) {
	if s.c.FinalState == nil {
		return ""
	}
	final, err := s.readStatus(p, status)
	if err != nil {
		s.c.Log.ErrorContext(ctx, "durable: FinalState failed", "user_data", p.UserData, "error", err.Error())
	}
	return final
}

// readStatus calls FinalState. Its errors have no text of the function, because that may quote the response.
func (s *Store) readStatus(p ledger.Poll, status *paymentsvc.StatusResponse) (final paymentsvc.StatusName, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			final, err = "", fmt.Errorf("panic of type %T\n%s", cause, debug.Stack())
		}
	}()
	for _, field := range []string{"order_id", "user_data", "amount"} {
		if slices.Contains(status.Malformed, field) {
			return "", fmt.Errorf("not called, because %s is unreadable", field)
		}
	}
	state, err := s.c.FinalState(Kind(p.Kind), status.Raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("an error of type %T", err)
	case state == StateSucceeded:
		return paymentsvc.StatusSuccess, nil
	case state == StateFailed:
		return paymentsvc.StatusFailure, nil
	case state == StatePending, state == "":
		return "", nil
	default:
		return "", errors.New("it returned another state than succeeded, failed and pending")
	}
}
