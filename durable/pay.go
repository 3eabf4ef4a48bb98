package durable

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Pay stores a payment and starts it. It returns after the outcome is recorded. If ctx ends after the payment is
// stored, Pay returns the row, usually in StateStarting, and the call continues, because a payer who leaves must not
// interrupt it. The result is the row's State, not an error. Errors wrap [ErrInvalid], [ErrConflict], [ErrPruned] or
// [ErrClosed], or are the database's. After an error of the database the payment may be stored, and Run may start it.
// So call Pay again with the same Key.
//
// A pause does not stop Pay, only the retries of payments. Pay uses no slot, so its caller must limit the number of
// calls.
func (s *Store) Pay(ctx context.Context, p NewPayment) (Row, error) {
	if err := p.check(); err != nil {
		return Row{}, err
	}
	j := job{begun: s.now(), Claim: ledger.Claim{
		Kind: row.Payment, UserData: derived(s.c.Project, KindPayment, p.Key), Type: string(p.Type), Amount: p.Amount,
		Token: rand.Text(), Claims: 1,
	}}
	type stored struct {
		added bool
		err   error
	}
	inserted, recorded := make(chan stored, 1), make(chan struct{})
	open := s.scheduler.Go(func() {
		defer close(recorded)
		added, err := s.insert(ctx, j, p.Key)
		inserted <- stored{added, err}
		if added && err == nil {
			s.startPayment(context.WithoutCancel(ctx), j)
		}
	})
	if !open {
		return Row{}, ErrClosed
	}
	switch result := <-inserted; {
	case result.err != nil:
		return Row{}, fmt.Errorf("durable: pay: %w", result.err)
	case !result.added:
		return s.existingPayment(ctx, j.UserData, p)
	}
	select {
	case <-recorded:
	case <-ctx.Done():
	}
	// The row exists, so Pay returns it even after the end of ctx.
	r, err := s.ledger.Row(context.WithoutCancel(ctx), j.UserData)
	if err != nil {
		return Row{
			Kind: KindPayment, UserData: j.UserData, Reference: p.Key, Type: p.Type, Amount: p.Amount, State: StateStarting,
		}, fmt.Errorf("durable: pay: %w", err)
	}
	return publicRow(r), nil
}

// insert stores the payment together with its claim. After an error the commit is unknown, and the call of j never
// begins.
func (s *Store) insert(ctx context.Context, j job, key string) (added bool, err error) {
	s.step(StepClaim)
	r := s.newPayment(NewPayment{key, paymentsvc.PaymentType(j.Type), j.Amount})
	added, err = s.ledger.Pay(ctx, r, j.Token, s.c.Lease.Milliseconds())
	if err != nil {
		s.scheduler.AddUnresolved(j.Token)
		s.scheduler.Go(func() { _ = s.scheduler.ReleaseUnresolved(context.WithoutCancel(ctx)) })
		return false, err
	}
	if added {
		s.step(StepClaimed)
	}
	return added, nil
}

// startPayment calls the service, unless a notification shows that the service already has the payment. This happens
// after the restore of a backup without the row.
func (s *Store) startPayment(ctx context.Context, j job) {
	known, err := s.applyNotices(ctx, j.UserData)
	if known {
		return
	}
	if err != nil { // the notification prevents another claim until it is applied
		s.scheduler.Record(ctx, s.completion(callResult{job: j, Result: row.Result{Kind: row.NotCalled}, err: err}, 0))
		return
	}
	s.scheduler.Record(ctx, s.completion(s.call(ctx, j), 0))
}

// applyNotices applies notifications that arrived before the row existed, and reports whether the row's state has
// changed.
func (s *Store) applyNotices(ctx context.Context, userData string) (known bool, err error) {
	notices, err := s.ledger.WaitingForRow(ctx, userData)
	for _, n := range notices {
		err = errors.Join(err, s.ledger.ApplyNotice(ctx, n, false))
	}
	if err != nil || len(notices) == 0 {
		return false, err
	}
	r, err := s.ledger.Row(ctx, userData)
	return err == nil && r.State != row.Starting, err
}

// existingPayment returns the payment with p's Key, or an error wrapping ErrPruned or ErrConflict.
func (s *Store) existingPayment(ctx context.Context, userData string, p NewPayment) (Row, error) {
	r, err := s.ledger.Row(ctx, userData)
	if errors.Is(err, ErrNotFound) {
		pruned, err := s.ledger.Pruned(ctx, s.ledger.DB, userData)
		switch hash, found := pruned[userData]; {
		case err != nil:
			return Row{}, fmt.Errorf("durable: pay: %w", err)
		case found && hash == s.newPayment(p).Hash():
			return Row{}, fmt.Errorf("%w: key %q", ErrPruned, p.Key)
		case found:
			return Row{}, fmt.Errorf("%w: key %q", ErrConflict, p.Key)
		}
	}
	if err != nil {
		return Row{}, fmt.Errorf("durable: pay: %w", err)
	}
	if r.Kind != row.Payment || r.Type != string(p.Type) || !r.Amount.Equal(p.Amount) {
		return Row{}, fmt.Errorf("%w: key %q", ErrConflict, p.Key)
	}
	return publicRow(r), nil
}
