package durable

import (
	"context"
	"fmt"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// DecisionKind is the kind of a [Decision].
type DecisionKind string

// The decisions.
const (
	// DecidePaid sets the state to succeeded, because the row was paid.
	DecidePaid DecisionKind = "paid"
	// DecideUnpaid sets the state to failed, because the row was not paid and never will be. Config.Grace applies as
	// for DecideResend, because OnChange may refund or pay in another way.
	DecideUnpaid DecisionKind = "unpaid"
	// DecideFound sets the state to pending, because the service has the row under Decision.OrderID. See
	// [StatePending].
	DecideFound DecisionKind = "found"
	// DecideResend sends a payout again, with the same user_data, because the service does not have it. An unknown row
	// without an order_id must wait for Config.Grace after its last claim, because a late request may still arrive.
	DecideResend DecisionKind = "again"
	// DecidePoll makes a poll of the service due. The next [Store.Sweep] polls.
	DecidePoll DecisionKind = "ask"
	// DecideAcknowledge clears Row.ReviewReason and keeps the state. An overdue row needs another review after
	// Config.PendingReview.
	DecideAcknowledge DecisionKind = "seen"
)

// Decision is an operator's decision about a row.
type Decision struct {
	Kind     DecisionKind
	UserData string
	// OrderID is required for DecideFound, optional for DecidePaid and DecideUnpaid, and must be "" for other decisions.
	OrderID string
	// By is the operator. It is required.
	By string
	// Version is the [Row].Version that the operator saw. Decide rejects another version, because after a change or a
	// hold the operator must compare the row with the service again.
	Version int64
	// State and ReviewReason are the values before the decision, and At is its time. Decide ignores these fields.
	State        State
	ReviewReason string
	At           time.Time
}

// Allowed reports whether the decision fits a row of [Store.Rows] or [Store.Find]. [Store.Decide] may still reject it,
// for example because of a notification not yet applied. With [Config].PendingReview, Decide also accepts
// DecideAcknowledge for a pending row before it is overdue.
func (k DecisionKind) Allowed(r Row) bool {
	settled := r.State == StatePending || r.State.Final()
	review := r.ReviewReason != ""
	stuck := r.Kind == KindPayout && r.State == StateCreated && review // the service has rejected the caller often
	switch k {
	case DecidePaid, DecideFound:
		if k == DecideFound && settled {
			return false
		}
		return r.State == StateUnknown || r.State == StatePending || settled && review || r.Held
	case DecideUnpaid:
		return r.State == StateUnknown && r.ResendAt.IsZero() || r.State == StatePending || settled && review || stuck ||
			r.Held
	case DecideResend:
		// The document specifies no look-up of a payout by user_data, so only an operator can find out whether the service
		// has the payout. The service certainly has a payout with an order_id.
		return r.Kind == KindPayout && r.OrderID == "" && r.ResendAt.IsZero() &&
			(r.State == StateUnknown || r.State == StateRejected || stuck)
	case DecidePoll:
		return r.State == StateUnknown && (r.Kind == KindPayment || r.OrderID != "")
	case DecideAcknowledge:
		return settled && review || r.Overdue
	default:
		return false
	}
}

// Decide applies a decision, and stores it with the earlier state of the row. Errors wrap [ErrNotFound], [ErrChanged],
// [ErrUndecidable], [ErrOrderID] or [ErrInvalid], or are the database's.
func (s *Store) Decide(ctx context.Context, d Decision) error {
	if d.By == "" {
		return fmt.Errorf("%w: Decision.By is required", ErrInvalid)
	}
	d.OrderID, d.By = ledger.Identifier(d.OrderID), ledger.Storable(d.By) // a login may use another encoding
	return s.ledger.Change(ctx, d.UserData, d.OrderID, func(ctx context.Context, tx *ledger.Tx, r *row.Row) error {
		if r.Version+r.Current != d.Version {
			return ErrChanged
		}
		kept := ledger.Decision{
			Kind: string(d.Kind), UserData: d.UserData, OrderID: d.OrderID, By: d.By, State: r.State,
			ReviewReason: r.ReviewReason,
		}
		if err := s.decide(ctx, tx, r, d); err != nil {
			return err
		}
		return tx.KeepDecision(ctx, kept)
	})
}

// decide applies d to r if d fits r's state.
func (s *Store) decide(ctx context.Context, tx *ledger.Tx, r *row.Row, d Decision) error {
	if d.Kind == DecideResend || d.Kind == DecideUnpaid {
		if err := s.checkNothingArrives(ctx, tx, r, d.OrderID); err != nil {
			return err
		}
	}
	early := d.Kind == DecideAcknowledge && r.State == row.Pending && s.c.PendingReview > 0 // before it is overdue
	if !early && !d.Kind.Allowed(publicRow(r)) || d.Kind == DecideResend && r.OrderIDTaken {
		return fmt.Errorf("%w: decision %q, state %s", ErrUndecidable, d.Kind, r.State)
	}
	if d.OrderID != "" || d.Kind == DecideFound {
		taken, err := tx.Taken(ctx, r, d.OrderID)
		if err != nil {
			return err
		}
		fits := d.Kind == DecideFound || d.Kind == DecidePaid || d.Kind == DecideUnpaid
		if !fits || d.OrderID == "" || taken || r.OrderID != "" && r.OrderID != d.OrderID {
			return ErrOrderID
		}
		r.OrderID = d.OrderID
	}
	switch d.Kind {
	case DecidePoll:
		r.Due = 0
		return nil
	case DecidePaid:
		r.State = row.Succeeded
	case DecideUnpaid:
		r.State = row.Failed
	case DecideFound:
		r.State = row.Pending
	case DecideResend:
		r.State, r.ErrorCode, r.MayHaveStarted, r.Due = row.Created, "", true, 0
		r.Generation = r.Current // a hold after this decision also holds r
	case DecideAcknowledge:
	}
	r.ReviewReason = ""
	return nil
}

// checkNothingArrives returns an error if the last request may still arrive, or if a notification is not applied yet.
// Even an unapplied notification shows that the service has the row. orderID is that of the decision, or "".
func (s *Store) checkNothingArrives(ctx context.Context, tx *ledger.Tx, r *row.Row, orderID string) error {
	now, heldAt, err := tx.Hold(ctx)
	if err != nil {
		return err
	}
	if s.graceLeft(r, now) > 0 || s.graceAfterHold(now, heldAt) > 0 && r.OrderID == "" {
		return fmt.Errorf("%w: the last request may still arrive, want a wait of Config.Grace, %v",
			ErrUndecidable, s.c.Grace)
	}
	unnotified, err := tx.Unnotified(ctx, r, orderID)
	if err == nil && !unnotified {
		err = fmt.Errorf("%w: a notification about the row is not applied yet", ErrUndecidable)
	}
	return err
}

// graceLeft returns the rest of Grace of an unknown row without an order_id.
func (s *Store) graceLeft(r *row.Row, now int64) time.Duration {
	if r.State != row.Unknown || r.OrderID != "" || r.OrderIDTaken {
		return 0
	}
	return s.c.Grace - s.waited(row.Claim{UserData: r.UserData, Claims: r.Claims, ClaimedAt: r.ClaimedAt}, now)
}
