package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// DecisionKind is what a person has found out about a row.
type DecisionKind string

// The decisions.
const (
	// DecidePaid says that it was paid: it has succeeded.
	DecidePaid DecisionKind = "paid"
	// DecideUnpaid says that it was not paid and will not be: it has failed.
	DecideUnpaid DecisionKind = "unpaid"
	// DecideFound says that the service has it, under Decision.OrderID: a notification will end it.
	DecideFound DecisionKind = "found"
	// DecideAgain says that the service does not have a payout: it is sent again, with the same user_data.
	DecideAgain DecisionKind = "again"
	// DecideAsk polls the service now.
	DecideAsk DecisionKind = "ask"
	// DecideSeen clears Row.Attention and keeps the state.
	DecideSeen DecisionKind = "seen"
)

// Decision is a person's decision about a row.
type Decision struct {
	Kind     DecisionKind
	UserData string
	// OrderID is required for DecideFound, optional for DecidePaid and DecideUnpaid, and "" for the others.
	OrderID string
	// By is who decided. It is required.
	By string
	// Version is the [Row].Version of what the person saw: a row that has changed since is not decided. DecideMany
	// ignores it.
	Version int64
	// State and Attention are those of the row before. At is when it was decided. Decide ignores all three.
	State     State
	Attention string
	At        time.Time
}

// Allowed reports whether the decision fits the row.
func (k DecisionKind) Allowed(r Row) bool {
	settled := r.State == StatePending || r.State.Final()
	attended := r.Attention != ""
	stuck := r.Kind == KindPayout && r.State == StateCreated && attended // the service has rejected the caller for long
	switch k {
	case DecidePaid, DecideFound:
		if k == DecideFound && settled {
			return false
		}
		return r.State == StateUnknown || r.State == StatePending || settled && attended || r.Held
	case DecideUnpaid:
		return r.State == StateUnknown || r.State == StatePending || settled && attended || stuck || r.Held
	case DecideAgain:
		// The document shows no look-up of a payout by user_data: that a person has asked is all there is. A payout that
		// has an order_id is certainly there.
		return r.Kind == KindPayout && r.OrderID == "" && (r.State == StateUnknown || r.State == StateRejected || stuck)
	case DecideAsk:
		return r.State == StateUnknown && (r.Kind == KindPayment || r.OrderID != "")
	case DecideSeen:
		return settled && attended
	default:
		return false
	}
}

// takesOrderID reports whether an order_id may belong to the decision.
func (k DecisionKind) takesOrderID() bool {
	return k == DecideFound || k == DecidePaid || k == DecideUnpaid
}

// Decide applies a decision, and keeps it with what it was based on. Errors wrap [ErrNotFound], [ErrChanged],
// [ErrUndecidable], [ErrOrderID] or [ErrInvalid], or are the database's.
func (s *Store) Decide(ctx context.Context, d Decision) error {
	if d.By == "" {
		return fmt.Errorf("%w: Decision.By is required", ErrInvalid)
	}
	d.OrderID, d.By = identifier(d.OrderID), storable(d.By) // a login may write names in another encoding
	return s.change(ctx, d.UserData, d.OrderID, func(ctx context.Context, tx *transaction, r *row) error {
		if r.Version != d.Version {
			return ErrChanged
		}
		d.State, d.Attention = r.State, r.Attention
		if err := tx.decide(ctx, r, d); err != nil {
			return err
		}
		_, err := s.exec(ctx, tx, `INSERT INTO durable_decisions
			(id, user_data, decision, order_id, state, attention, decided_by, decided_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, {now})`,
			newToken(), d.UserData, string(d.Kind), d.OrderID, string(d.State), d.Attention, d.By)
		return err
	})
}

// decide applies d to r, if its state allows that.
func (tx *transaction) decide(ctx context.Context, r *row, d Decision) error {
	if !d.Kind.Allowed(r.Row) || d.Kind == DecideAgain && r.orderIDTaken {
		return fmt.Errorf("%w: %q of a row that is %s", ErrUndecidable, d.Kind, r.State)
	}
	if d.OrderID != "" || d.Kind == DecideFound {
		taken, err := tx.taken(ctx, r, d.OrderID)
		if err != nil {
			return err
		}
		if !d.Kind.takesOrderID() || d.OrderID == "" || taken || r.OrderID != "" && r.OrderID != d.OrderID {
			return ErrOrderID
		}
		r.OrderID = d.OrderID
	}
	switch d.Kind {
	case DecideAsk:
		r.due = 0
		return nil
	case DecidePaid:
		r.State = StateSucceeded
	case DecideUnpaid:
		r.State = StateFailed
	case DecideFound:
		r.State = StatePending
	case DecideAgain:
		// Its notification shows that the service has it, and is not applied yet.
		var unheard bool
		if err := tx.QueryRowContext(ctx, tx.s.sql.Replace(`SELECT {unheard} FROM durable_rows WHERE user_data = $1`),
			r.UserData).Scan(&unheard); err != nil {
			return err
		}
		if !unheard {
			return fmt.Errorf("%w: a notification of it waits to be applied", ErrUndecidable)
		}
		r.State, r.Refusal, r.Doubted, r.due = StateCreated, "", true, 0
		err := tx.QueryRowContext(ctx, `SELECT generation FROM durable_control`).Scan(&r.generation)
		if err != nil {
			return err
		}
	case DecideSeen:
	}
	r.Attention = ""
	return nil
}

// DecideMany applies d to each row that f selects and that it fits, each in a transaction of its own, and returns their
// number and the sum of their amounts. preview only counts. Rows that change meanwhile are left out. d.OrderID must not
// be set.
func (s *Store) DecideMany(ctx context.Context, f Filter, d Decision, preview bool) (n int, sum paymentsvc.Amount, err error) {
	if d.By == "" || d.OrderID != "" {
		return 0, sum, fmt.Errorf("%w: Decision.By is required, and OrderID must not be set", ErrInvalid)
	}
	total := new(total)
	for r, err := range s.Rows(ctx, f) {
		if err != nil {
			return n, total.amount(), err
		}
		if !d.Kind.Allowed(r) {
			continue
		}
		if !preview {
			d.UserData, d.Version = r.UserData, r.Version
			err := s.Decide(ctx, d)
			if errors.Is(err, ErrChanged) || errors.Is(err, ErrUndecidable) || errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return n, total.amount(), err
			}
		}
		n++
		total.add(r.Amount)
	}
	return n, total.amount(), nil
}

// total is a sum of amounts, exact at the largest of their scales.
type total struct {
	sum   big.Rat
	scale int
}

func (t *total) add(a paymentsvc.Amount) {
	text := a.String()
	one, ok := new(big.Rat).SetString(text)
	if !ok {
		return
	}
	t.sum.Add(&t.sum, one)
	if _, decimals, ok := strings.Cut(text, "."); ok {
		t.scale = max(t.scale, len(decimals))
	}
}

// amount returns the sum, not set if it has more digits than an amount can have.
func (t *total) amount() paymentsvc.Amount {
	a, _ := paymentsvc.ParseAmount(t.sum.FloatString(t.scale))
	return a
}

// Decisions returns what was decided of a row, the newest first.
func (s *Store) Decisions(ctx context.Context, userData string) ([]Decision, error) {
	var decisions []Decision
	err := s.query(ctx, s.read, func(rows *sql.Rows) error {
		d := Decision{UserData: userData}
		var when int64
		err := rows.Scan(&d.Kind, &d.OrderID, &d.State, &d.Attention, &d.By, &when)
		d.At = at(when)
		decisions = append(decisions, d)
		return err
	}, `SELECT decision, order_id, state, attention, decided_by, decided_at FROM durable_decisions
		WHERE user_data = $1 ORDER BY decided_at DESC, id`, userData)
	return decisions, err
}
