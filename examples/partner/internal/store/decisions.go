package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// DecisionKind is what a person found out.
type DecisionKind string

// The decisions.
const (
	// DecidePaid says that the service has paid it, or was paid: it has succeeded.
	DecidePaid DecisionKind = "paid"
	// DecideUnpaid says that it was not paid and will not be: it has failed.
	DecideUnpaid DecisionKind = "unpaid"
	// DecideFound says that the service has it, under an order_id: a notification ends it.
	DecideFound DecisionKind = "found"
	// DecideAgain says that the service does not have a payout: it is sent again, now, with the same user_data.
	DecideAgain DecisionKind = "again"
	// DecideAsk has the service asked for an order now.
	DecideAsk DecisionKind = "ask"
	// DecideSeen leaves the state, and says that nobody has to look any more.
	DecideSeen DecisionKind = "seen"
)

// Why a decision is refused.
var (
	// ErrChanged says that the row is not any more what the person saw.
	ErrChanged = errors.New("store: it has changed meanwhile")
	// ErrUndecidable says that the decision does not fit the row's state.
	ErrUndecidable = errors.New("store: that cannot be decided of it")
	// ErrOrderID says that the order_id is missing, another row's, other than the one that is known, or given with a
	// decision to which none belongs.
	ErrOrderID = errors.New("store: the order_id does not fit")
)

// Decision is a person's, about one row. It is kept, with what it was based on.
type Decision struct {
	Table    Table
	UserData string
	Kind     DecisionKind
	// OrderID is the service's: required for DecideFound, "" or what is known with DecidePaid and DecideUnpaid, and ""
	// with the others.
	OrderID string
	// By is who decided, "" where the program is not told.
	By string
	// Seen is Row.Version of what the person saw.
	Seen string
	// State and Attention are how the row stood before, and At is when it was decided. Decide sets them.
	State     State
	Attention string
	At        time.Time
}

// Decide does what a person has decided, in one transaction. Before a payout is sent again, enqueue is called in that
// transaction. Errors are ErrNotFound, ErrChanged, ErrUndecidable, ErrOrderID, or the database's.
func (s *Store) Decide(ctx context.Context, d Decision,
	enqueue func(ctx context.Context, tx *sql.Tx, userData ...string) error,
) error {
	d.OrderID, d.By = identifier(d.OrderID), storable(d.By) // a login may write names in another encoding
	return s.change(ctx, func(tx *transaction) error {
		if err := tx.lockOrderID(ctx, d.OrderID); err != nil {
			return err
		}
		r, err := tx.load(ctx, d.Table, "user_data", d.UserData)
		if err != nil {
			return err
		}
		if err := tx.unchangedSince(ctx, d); err != nil {
			return err
		}
		d.State, d.Attention, d.At = r.state, r.attention, s.now()
		hadOrderID := r.orderID != ""
		if err := tx.decide(ctx, r, d); err != nil {
			return err
		}
		if err := tx.save(ctx, r); err != nil {
			return err
		}
		if r.orderID != "" && !hadOrderID {
			if err := tx.applyWaiting(ctx, r); err != nil {
				return err
			}
		}
		if err := tx.keep(ctx, d); err != nil {
			return err
		}
		if d.Kind != DecideAgain && d.Kind != DecideAsk {
			return nil
		}
		if err := changed(tx.ExecContext(ctx, `UPDATE `+string(d.Table)+` SET due_at = $1 WHERE user_data = $2`,
			millis(d.At), d.UserData)); err != nil {
			return err
		}
		if d.Kind == DecideAgain && enqueue != nil {
			return enqueue(ctx, tx.Tx, d.UserData)
		}
		return nil
	})
}

// unchangedSince says whether a row, which is locked, is still what the person saw.
func (tx *transaction) unchangedSince(ctx context.Context, d Decision) error {
	now, err := scanRow(d.Table, tx.QueryRowContext(ctx, rowColumns(d.Table)+` WHERE user_data = $1`, d.UserData))
	if err == nil && now.Version() != d.Seen {
		return ErrChanged
	}
	return err
}

// decide changes r to what d says, if its state allows that.
func (tx *transaction) decide(ctx context.Context, r *row, d Decision) error {
	if !d.Kind.allowed(r.table, r.state, r.orderID, r.attention) {
		return ErrUndecidable
	}
	if d.OrderID != "" || d.Kind == DecideFound {
		if !d.Kind.takesOrderID() {
			return ErrOrderID
		}
		if err := tx.learn(ctx, r, d.OrderID); err != nil {
			return err
		}
	}
	switch d.Kind {
	case DecideAsk:
		return nil
	case DecidePaid:
		r.state = StateSucceeded
	case DecideUnpaid:
		r.state = StateFailed
	case DecideFound:
		r.state = StatePending
	case DecideAgain:
		r.state, r.refusal, r.doubted = StateCreated, "", true
	}
	r.attention = ""
	return nil
}

// learn gives r an order_id that a person has found out.
func (tx *transaction) learn(ctx context.Context, r *row, orderID string) error {
	taken, err := tx.taken(ctx, r, orderID)
	if err != nil {
		return err
	}
	if orderID == "" || taken || r.orderID != "" && r.orderID != orderID {
		return ErrOrderID
	}
	r.orderID = orderID
	return nil
}

// takesOrderID says whether an order_id may belong to the decision. What the service has under one is not sent again,
// and need not be asked for.
func (k DecisionKind) takesOrderID() bool {
	return k == DecideFound || k == DecidePaid || k == DecideUnpaid
}

// allowed says whether the decision fits a row.
func (k DecisionKind) allowed(t Table, s State, orderID, attention string) bool {
	settled := s == StatePending || s.Final()
	stuck := t == Payouts && s == StateCreated && attention != "" // the service has refused the caller for long
	switch k {
	case DecidePaid:
		return s == StateUnknown || s == StatePending || settled && attention != ""
	case DecideUnpaid:
		return s == StateUnknown || s == StatePending || settled && attention != "" || stuck
	case DecideFound:
		return s == StateUnknown
	case DecideAgain:
		// The document shows no look-up of a payout by user_data: that a person has asked is all there is. A payout that
		// has an order_id is certainly there.
		return t == Payouts && s == StateUnknown && orderID == "" || stuck
	case DecideAsk:
		return t == Orders && s == StateUnknown
	case DecideSeen:
		return settled && attention != ""
	}
	return false
}

// keep stores a decision.
func (tx *transaction) keep(ctx context.Context, d Decision) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO decisions
		(id, subject, user_data, decision, order_id, state, attention, decided_by, decided_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		newAttempt(), string(d.Table), d.UserData, string(d.Kind), d.OrderID, string(d.State), d.Attention, d.By, millis(d.At))
	return err
}

// Decisions gives what was decided of a row, the latest first.
func (s *Store) Decisions(ctx context.Context, t Table, userData string) (list []Decision, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT decision, order_id, state, attention, decided_by, decided_at FROM decisions
		WHERE subject = $1 AND user_data = $2 ORDER BY decided_at DESC, id`, string(t), userData)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		d := Decision{Table: t, UserData: userData}
		var at int64
		if err := rows.Scan(&d.Kind, &d.OrderID, &d.State, &d.Attention, &d.By, &at); err != nil {
			return nil, err
		}
		d.At = time.UnixMilli(at)
		list = append(list, d)
	}
	return list, rows.Err()
}
