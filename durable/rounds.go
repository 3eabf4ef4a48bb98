package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

// rounder implements schedule.Ledger.
type rounder struct{ s *Store }

// Round records completions and claims rows in one commit. It claims rows only in the recognized database.
func (b rounder) Round(ctx context.Context, r schedule.Request[callResult]) (schedule.Result[job], error) {
	s := b.s
	s.step(StepClaim)
	begun := s.now()
	request := s.request(r)
	var unwitnessed error
	request.Witnessed, unwitnessed = s.guard.Mark(ctx)
	if unwitnessed != nil {
		request.Free, request.MaxRows = 0, 0
	}
	got, err := s.ledger.Round(ctx, request)
	if len(got.Claims) > 0 {
		s.step(StepClaimed)
	}
	if hook := s.c.Hooks.Round; hook != nil {
		hook(ctx, Round{len(got.Recorded), r.MaxRows, len(got.Claims), s.now().Sub(begun), err})
	}
	if err != nil {
		return schedule.Result[job]{}, err
	}
	s.finishRecorded(ctx, r, got)
	if len(got.Early) > 0 {
		s.applyEarlyNotifications(ctx, got.Early)
	}
	jobs, err := s.jobs(ctx, got, request.Identity, begun, false)
	err = cmp.Or(unwitnessed, err)
	unrecognized := got.Status == ledger.Lost || got.Status == ledger.Moved
	if err == nil && unrecognized {
		err = s.checkFailover(ctx, got.Status)
	}
	if err != nil {
		return schedule.Result[job]{Recorded: got.Recorded}, err
	}
	result := schedule.Result[job]{
		Jobs: jobs, Recorded: got.Recorded,
		Next:   schedule.Position{Payments: schedule.Cursor(got.AfterPayments), Payouts: schedule.Cursor(got.AfterPayouts)},
		Paused: got.Status == ledger.Paused, Elapsed: got.Status == ledger.Elapsed, Recognized: unrecognized,
	}
	for _, j := range jobs {
		if j.Kind == row.Payment {
			result.Payments++
		}
	}
	return result, nil
}

func (s *Store) request(r schedule.Request[callResult]) ledger.Request {
	request := ledger.Request{
		OrderIDs: r.OrderIDs, Token: r.Token, Lease: s.c.Lease.Milliseconds(),
		Free: r.Free, MaxRows: r.MaxRows, MaxPayments: r.MaxPayments,
		AfterPayments: ledger.Place(r.After.Payments), AfterPayouts: ledger.Place(r.After.Payouts),
		Last: s.guard.Last(), Identity: s.guard.Server(),
	}
	for _, c := range r.Completions {
		request.Completions = append(request.Completions, ledger.Completion{
			Kind: c.Done.job.Kind, UserData: c.UserData, Token: c.Done.job.Token, OrderID: c.OrderID,
			RedirectURL: c.Done.RedirectURL, Slot: c.Slot,
		})
	}
	return request
}

// finishRecorded runs the hooks of the completions that a round has recorded.
func (s *Store) finishRecorded(ctx context.Context, r schedule.Request[callResult], got ledger.Round) {
	for _, c := range r.Completions {
		if !got.Recorded[c.UserData] {
			continue
		}
		s.step(StepRecorded)
		if c.Done.job.Kind == row.Payout {
			s.resetBreaker()
		}
		if s.c.Hooks.Change != nil {
			s.c.Hooks.Change(c.Done.context(ctx), Kind(c.Done.job.Kind), StateStarting, StatePending)
		}
		c.Done.finish(nil)
	}
}

// jobs returns the jobs of committed claims after the witness has stored the mark. After an error no call may begin.
func (s *Store) jobs(ctx context.Context, got ledger.Round, server string, begun time.Time, probe bool) ([]job, error) {
	claims := got.Claims
	if len(claims) == 0 {
		return nil, nil
	}
	last := claims[len(claims)-1]
	s.guard.Remember(row.Claim{
		UserData: last.UserData, Token: last.Token, Claims: last.Claims, ClaimedAt: last.ClaimedAt,
	})
	if err := s.guard.BeforeCalls(ctx, server, got.Mark); err != nil {
		return nil, err
	}
	jobs := make([]job, len(claims))
	for i, c := range claims {
		jobs[i] = job{Claim: c, begun: begun, probe: probe}
	}
	return jobs, nil
}

// checkFailover recognizes the database after a restart of its server, or holds the payouts.
func (s *Store) checkFailover(ctx context.Context, status ledger.Status) error {
	check := s.guard.Recognize
	if status == ledger.Lost {
		check = s.guard.Lost
	}
	if err := check(ctx); err != nil {
		return fmt.Errorf("failover check: %w", err)
	}
	return nil
}

// Probe claims one payout after a timed pause, if a payout is due.
func (b rounder) Probe(ctx context.Context, token string) ([]job, error) {
	begun, server := b.s.now(), b.s.guard.Server()
	witnessed, err := b.s.guard.Mark(ctx)
	if err != nil {
		return nil, err
	}
	claims, mark, err := b.s.ledger.Probe(ctx, token, b.s.c.Lease.Milliseconds(), server, witnessed)
	if errors.Is(err, ledger.ErrOlder) {
		err = errors.Join(err, b.s.guard.Recognize(ctx))
	}
	if err != nil {
		return nil, err
	}
	return b.s.jobs(ctx, ledger.Round{Claims: claims, Mark: mark}, server, begun, true)
}

// Release makes the rows of claims due again, because their calls never began.
func (b rounder) Release(ctx context.Context, tokens []string) error {
	return b.s.ledger.Release(ctx, tokens)
}
