package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Pause stops all claims except those of [Store.Pay], in all processes, until [Store.Resume]. The database stores the
// pause. Calls with an earlier claim still begin, see [Store.Drained]. by is required.
func (s *Store) Pause(ctx context.Context, by, reason string) error {
	if by == "" {
		return errNoAuthor
	}
	return s.ledger.Pause(ctx, by, reason)
}

var errNoAuthor = fmt.Errorf("%w: by is required", ErrInvalid)

// Resume ends any pause, and the run of equal rejections. by is required.
func (s *Store) Resume(ctx context.Context, by string) error {
	if by == "" {
		return errNoAuthor
	}
	err := s.ledger.Resume(ctx)
	if err == nil {
		s.c.Log.InfoContext(ctx, "durable: resumed", "by", by)
	}
	return err
}

// Drained waits until no row is StateStarting, so that after Pause no call is in flight. Stop the calls of [Store.Pay]
// too, because a pause does not stop them. On PostgreSQL, Drained also waits for open transactions with claims, because
// a transaction may have begun before the pause. It returns the error of ctx if ctx ends first.
func (s *Store) Drained(ctx context.Context) error {
	writers, err := s.ledger.Writers(ctx)
	if err != nil {
		return err
	}
	for {
		writing, err := s.ledger.Writing(ctx, writers)
		if err != nil {
			return err
		}
		status, err := s.Status(ctx) // after the writers, so it includes their claims
		if err != nil || status.Starting == 0 && !writing {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Status returns the common state of all processes. It reads the database of [Open], because Config.ReadDB may lag.
func (s *Store) Status(ctx context.Context) (Status, error) {
	c, err := s.ledger.Status(ctx)
	var releaseAt time.Time
	if left := s.graceAfterHold(c.Now, c.HeldAt); left > 0 {
		releaseAt = ledger.Time(c.Now).Add(left)
	}
	return Status{
		Paused: c.Paused, Until: ledger.Time(c.Until), PausedAt: ledger.Time(c.PausedAt), Reason: c.Reason, By: c.By,
		Hold: c.Hold, HoldReason: c.HoldReason, HoldBy: c.HoldBy, ReleaseAt: releaseAt, Generation: c.Generation,
		RejectionCode: c.Code, Rejections: c.Run, Starting: c.Starting, Witnessed: s.c.Witness != nil,
		Now: ledger.Time(c.Now),
	}, err
}

// HoldPayouts holds all created payouts, and new payouts until [Store.EndHold], for example after the restore of a
// backup. After [Config].Grace, compare the held payouts with the service's list. Call [Store.Release] for payouts
// missing from the list, and [Store.Decide] for the other payouts. Created payments become unknown, so the service is
// polled first. HoldPayouts returns the new generation. by is required.
func (s *Store) HoldPayouts(ctx context.Context, by, reason string) (generation int64, err error) {
	if by == "" {
		return 0, errNoAuthor
	}
	return s.ledger.Hold(ctx, by, reason, nil)
}

// holdAutomatically holds payouts because package recognize does not recognize the database.
func (s *Store) holdAutomatically(ctx context.Context, reason string, keep func(context.Context, *sql.Tx) error) error {
	if _, err := s.ledger.Hold(ctx, ledger.Itself, reason, keep); err != nil {
		return err
	}
	s.reportPause(ctx, "durable: payouts held", "payouts are held: "+reason)
	return nil
}

// EndHold ends the hold of new payouts, which are then sent without a comparison with the service's list. Before
// EndHold, import again all files imported since the backup, and queue again all payouts that your program has queued
// since then. Held payouts stay held until [Store.Release]. generation, [ErrUndecidable] and [ErrChanged] are as for
// Release. by is required.
func (s *Store) EndHold(ctx context.Context, by string, generation int64) error {
	if by == "" {
		return errNoAuthor
	}
	err := s.checkHold(ctx)
	if err == nil {
		err = anotherHold(s.ledger.EndHold(ctx, generation), generation)
	}
	if err == nil {
		s.c.Log.InfoContext(ctx, "durable: hold ended", "by", by)
	}
	return err
}

// checkHold returns an error until Grace has passed since the last hold.
func (s *Store) checkHold(ctx context.Context) error {
	status, err := s.Status(ctx)
	if err == nil && !status.ReleaseAt.IsZero() {
		err = fmt.Errorf("%w: requests before the hold may still arrive, want a wait of Config.Grace until %s",
			ErrUndecidable, status.ReleaseAt.Format(time.RFC3339))
	}
	return err
}

// graceAfterHold returns the rest of Grace after the last hold. A restored database may lack the claims of requests in
// flight.
func (s *Store) graceAfterHold(now, heldAt int64) time.Duration {
	return s.c.Grace - s.waited(row.Claim{ClaimedAt: heldAt}, now)
}

// waited returns the time since a claim. If the time of the claim is in the future, the database's clock was wrong, so
// waited returns the time since this process first saw the claim.
func (s *Store) waited(claim row.Claim, now int64) time.Duration {
	if now < claim.ClaimedAt {
		return s.leases.since(claim, s.now())
	}
	return time.Duration(now-claim.ClaimedAt) * time.Millisecond
}

// anotherHold adds the generation to an ErrChanged, and returns other errors unchanged.
func anotherHold(err error, generation int64) error {
	if errors.Is(err, ErrChanged) {
		return fmt.Errorf("%w: the hold of generation %d is not the last one", ErrChanged, generation)
	}
	return err
}

// Release releases the held payouts selected by f, so that they become due, and returns their number. After an error it
// returns the number released so far, and the next Release continues. generation is [Status].Generation from before the
// comparison with the service's list. After another hold the payouts must be compared again, so the error wraps
// [ErrChanged], and the remaining payouts stay held. by is required; f.After and f.Limit must not be set.
//
// Until [Status].ReleaseAt, a late request from before the hold may still pay, so the error wraps [ErrUndecidable].
//
// If the service rejects a released payout, the payout becomes StateUnknown and needs review. A call before the hold
// may have paid it, and the service may have rejected a duplicate.
func (s *Store) Release(ctx context.Context, by string, generation int64, f Filter) (int, error) {
	if by == "" || f.After != "" || f.Limit != 0 {
		return 0, fmt.Errorf("%w: by is required, and Filter.After and Limit must not be set", ErrInvalid)
	}
	if err := s.checkHold(ctx); err != nil {
		return 0, err
	}
	f.Kind, f.State, f.Held, f.Current = KindPayout, StateCreated, true, true
	released, page := 0, []string{}
	release := func() error {
		n, err := s.ledger.ReleaseHeld(ctx, page, generation)
		released += n
		page = page[:0]
		return anotherHold(err, generation)
	}
	var err error
	for r, failed := range s.Rows(ctx, f) {
		err = failed
		if err != nil {
			break
		}
		page = append(page, r.UserData)
		if len(page) < releaseRows {
			continue
		}
		err = release()
		if err != nil {
			break
		}
	}
	if err == nil {
		err = release() // even an empty page, to compare the generation
	}
	s.scans.reset()
	if err == nil || released > 0 {
		s.c.Log.InfoContext(ctx, "durable: payouts released", "by", by, "payouts", released)
	}
	return released, err
}

// releaseRows limits the payouts per transaction of Release, because a transaction has a time limit.
const releaseRows = 5000

// reportPause logs an automatic pause or hold by this process and calls Hooks.Pause.
func (s *Store) reportPause(ctx context.Context, text, reason string) {
	s.c.Log.WarnContext(ctx, text, "reason", reason)
	if s.c.Hooks.Pause != nil {
		s.c.Hooks.Pause(ctx, reason)
	}
}

// Ready writes a value to the database and reads it back. Use it in a readiness probe.
func (s *Store) Ready(ctx context.Context) error { return s.ledger.Ready(ctx) }

// Balance returns the service's response to GetBalance.
func (s *Store) Balance(ctx context.Context) (*paymentsvc.Balance, error) {
	return s.c.Service.GetBalance(ctx)
}
