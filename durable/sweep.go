package durable

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

const (
	// sweepRows limits most steps of a sweep. It does not limit the ends of leases and the release of unresolved claims.
	// Polls of pending rows have a lower limit.
	sweepRows = 300
	// lateEvery is the interval of scans for unapplied notifications of the last day, and allEvery the interval of scans
	// for all unapplied notifications. The monotonic clock measures both intervals.
	lateEvery = 30 * time.Second
	allEvery  = 10 * time.Minute
)

// leaseTimer measures how long this process has watched each claim, by the monotonic clock.
type leaseTimer struct {
	mu   sync.Mutex
	seen map[row.Claim]*observation
}

type observation struct{ first, last time.Time }

// since returns the time since the first call with the same claim.
func (t *leaseTimer) since(claim row.Claim, now time.Time) time.Duration {
	claim.Token = "" // a row has no token after the end of its claim
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seen = map[row.Claim]*observation{}
	}
	one, ok := t.seen[claim]
	if !ok {
		one = &observation{first: now}
		t.seen[claim] = one
	}
	one.last = now
	return now.Sub(one.first)
}

// forget removes the claims that were last passed to [leaseTimer.since] before a time.
func (t *leaseTimer) forget(before time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for claim, one := range t.seen {
		if one.last.Before(before) {
			delete(t.seen, claim)
		}
	}
}

// Sweep does the work of Run beside the rounds, once. It ends leases, gives up old payments, polls the service for
// unknown rows (with FinalState also for pending rows), applies unmatched notifications (at intervals), and calls
// OnChange again after a failure. A lease ends only after this Store has watched the claim for a whole lease. If the
// service does not have a payment, the row changes only after this Store has watched its claim for Grace. So the same
// Store must sweep for that long.
func (s *Store) Sweep(ctx context.Context) error {
	s.leases.forget(s.now().Add(-2 * max(s.c.Lease, s.c.Grace, maxPollWait)))
	err := errors.Join(s.scheduler.ReleaseUnresolved(ctx), s.endLeases(ctx), s.ledger.ResetImpossible(ctx, sweepRows))
	// Notifications about orders that are not in this database wait forever, so a complete scan is rare.
	if due, all := s.scans.due(s.now()); due {
		err = errors.Join(err, s.matchNotifications(ctx, all), s.warnUnmatched(ctx))
	}
	return errors.Join(err, s.giveUp(ctx), s.ledger.RetryOnChange(ctx, sweepRows), s.reconcile(ctx))
}

// endLeases makes rows with ended leases unknown, because a process died or the database was unavailable. The
// database's clock may have jumped, so this process must also have watched the claim for a lease.
func (s *Store) endLeases(ctx context.Context) error {
	leases, err := s.ledger.Leases(ctx)
	for _, l := range leases {
		if s.leases.since(l.Claim, s.now()) < s.c.Lease || !l.Ended {
			continue
		}
		err = errors.Join(err, s.changeSwept(ctx, l.UserData, "durable: claim has outlived its lease",
			func(r *row.Row) error { return r.EndLease(l.Token) }))
	}
	return err
}

// giveUp ends the attempts to start old payments, because their payers have left.
func (s *Store) giveUp(ctx context.Context) error {
	abandoned, err := s.ledger.Abandoned(ctx, s.c.GiveUp.Milliseconds(), sweepRows)
	for _, userData := range abandoned {
		err = errors.Join(err, s.changeSwept(ctx, userData, "durable: payment given up", (*row.Row).GiveUp))
	}
	return err
}

// changeSwept changes a row and logs text, unless another process has changed the row. A notification not yet applied
// shows that the service has the row, so only the end of a lease changes such a row.
func (s *Store) changeSwept(ctx context.Context, userData, text string, f func(*row.Row) error) error {
	err := s.ledger.Change(ctx, userData, "", func(ctx context.Context, tx *ledger.Tx, r *row.Row) error {
		unnotified, err := tx.Unnotified(ctx, r, "")
		if err != nil {
			return err
		}
		if !unnotified && r.State != row.Starting {
			return ErrChanged
		}
		if err := f(r); err != nil || r.State != row.Unknown {
			return err
		}
		_, heldAt, err := tx.Hold(ctx)
		r.ClaimedAt = max(r.ClaimedAt, heldAt) // a restored database may lack later claims
		return err
	})
	if errors.Is(err, ErrChanged) || errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		s.c.Log.WarnContext(ctx, text, "user_data", userData)
	}
	return err
}

// noticeScans are the times of the last scans for late notifications.
type noticeScans struct {
	mu       sync.Mutex
	last     time.Time
	complete time.Time // the last scan that included notifications older than a day
}

// due reports whether a scan is due, and whether it must include all notifications.
func (n *noticeScans) due(now time.Time) (due, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all = n.complete.IsZero() || now.Sub(n.complete) > allEvery
	due = all || now.Sub(n.last) > lateEvery
	if due {
		n.last = now
	}
	if all {
		n.complete = now
	}
	return due, all
}

// reset makes a scan of all notifications due.
func (n *noticeScans) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.complete = time.Time{}
}

// matchNotifications applies notifications with a known row, from the last day or from any time.
func (s *Store) matchNotifications(ctx context.Context, all bool) error {
	since := 24 * time.Hour
	if all {
		since = 100 * 365 * 24 * time.Hour
	}
	orderIDs, err := s.ledger.Late(ctx, since.Milliseconds(), sweepRows)
	if len(orderIDs) > 0 {
		s.applyEarlyNotifications(ctx, orderIDs)
	}
	return err
}

// warnUnmatched logs final notifications without a row, once per Store.
func (s *Store) warnUnmatched(ctx context.Context) error {
	notices, err := s.ledger.UnmatchedAfter(ctx, *s.warned.Load(), sweepRows)
	for _, n := range notices {
		s.warned.Store(&ledger.Place{At: n.ReceivedAt.UnixMilli(), Key: n.Key})
		pruned, failed := s.ledger.KeepForPruned(ctx, n)
		err = errors.Join(err, failed)
		if pruned {
			continue
		}
		s.c.Log.WarnContext(ctx, "durable: a notification has no row: was the row lost with a backup?",
			"event", string(n.Event), "order_id", n.OrderID, "user_data", n.UserData,
			"status", string(n.StatusDescription), "amount", n.Amount.String())
	}
	return err
}
