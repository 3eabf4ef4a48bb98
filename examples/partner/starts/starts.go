// Package starts has a partner's own tables for programs without package durable. It stores a row before each call,
// records the outcome, reconciles unknown outcomes, and applies each notification once. The statements work with
// PostgreSQL and SQLite. The section numbers refer to the interface document.
package starts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"github.com/paymentsvc/paymentsvc"
)

// Schema creates the tables. The unique index rejects a second start of the same order, unless each earlier start was
// rejected or has failed.
const Schema = `
CREATE TABLE starts (
    user_data    text PRIMARY KEY CHECK (user_data <> ''), -- a notification may have no user_data
    pays_for     text NOT NULL, -- the order or the salary
    amount       text NOT NULL, -- exact text, because a float column loses digits
    state        text NOT NULL DEFAULT 'open',
    order_id     text,
    redirect_url text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX one_start_at_a_time ON starts (pays_for) WHERE state NOT IN ('rejected', 'failed');
CREATE TABLE notifications (
    key  text PRIMARY KEY,
    body text NOT NULL
);
CREATE TABLE states (
    event    text NOT NULL,
    order_id text NOT NULL,
    status   text NOT NULL,
    amount   text NOT NULL,
    final    boolean NOT NULL,
    PRIMARY KEY (event, order_id)
);
CREATE TABLE shipments (
    order_id text PRIMARY KEY,
    done     boolean NOT NULL DEFAULT false
);`

// State is the state of a start.
type State string

// The states. Before each call, the committed state is Open, because a process may die after the call.
const (
	Open     State = "open"     // a call is in flight, or its outcome is unknown
	Retry    State = "retry"    // no call has started an operation; back off before another Start
	Started  State = "started"  // the service has the payment or payout
	Failed   State = "failed"   // the final FAILURE of a payment
	Rejected State = "rejected" // the call was rejected permanently
	Review   State = "review"   // for an operator: an unknown payout without an order_id, or a payment of another amount
)

// Table has the tables of [Schema].
type Table struct {
	DB     *sql.DB
	Client *paymentsvc.Client
}

// Insert stores a payment before its call. It returns an error for an empty or used userData, and for a second start
// that the index of [Schema] rejects.
func (t *Table) Insert(ctx context.Context, userData, paysFor string, amount paymentsvc.Amount) error {
	_, err := t.DB.ExecContext(ctx, `INSERT INTO starts (user_data, pays_for, amount, state) VALUES ($1, $2, $3, 'retry')`,
		userData, paysFor, amount)
	return err
}

// Start calls the service for a payment in state [Retry]. It has no effect in another state, for example if another
// process has called the service first. ctx must outlive the payer's HTTP request.
func (t *Table) Start(ctx context.Context, userData string) error {
	var amount paymentsvc.Amount
	err := t.DB.QueryRowContext(ctx, `
		UPDATE starts SET state = 'open' WHERE user_data = $1 AND state = 'retry' RETURNING amount`,
		userData).Scan(&amount) // commits before the call
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	payment, err := t.Client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: amount, UserData: userData,
	})
	switch {
	case err == nil:
		return t.started(ctx, userData, payment.OrderID, payment.RedirectURL)
	case paymentsvc.SafeToRetry(err):
		return t.record(ctx, userData, Retry, "")
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown:
		return t.Reconcile(ctx, userData)
	default: // rejected permanently, or invalid
		return t.record(ctx, userData, Rejected, "")
	}
}

// started records that the service has a payment, and applies earlier notifications.
func (t *Table) started(ctx context.Context, userData, orderID, redirectURL string) error {
	tx, err := t.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after Commit
	// Apply inserts the same row first, so the later transaction waits for the earlier, and then sees its changes.
	_, err = tx.ExecContext(ctx, `
		INSERT INTO states (event, order_id, status, amount, final)
		SELECT $1, $2, 'PENDING', amount, FALSE FROM starts WHERE user_data = $3
		ON CONFLICT DO NOTHING`, string(paymentsvc.EventPaymentStatusChanged), orderID, userData)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE starts SET redirect_url = COALESCE(NULLIF(redirect_url, ''), $2) WHERE user_data = $1`,
		userData, redirectURL)
	if err != nil {
		return err
	}
	if err := match(ctx, tx, orderID, userData); err != nil {
		return err
	}
	if err := conclude(ctx, tx, orderID); err != nil {
		return err
	}
	return tx.Commit()
}

// record stores another state of an open row. It does not change a row already changed by a notification.
func (t *Table) record(ctx context.Context, userData string, state State, orderID string) error {
	_, err := t.DB.ExecContext(ctx, `
		UPDATE starts SET state = $2, order_id = COALESCE(NULLIF($3, ''), order_id)
		WHERE user_data = $1 AND state = 'open'`, userData, string(state), orderID)
	return err
}

// Reconcile resolves an open row with StatusPayment. The row stays open after an error, and if the response lacks the
// row's user_data.
func (t *Table) Reconcile(ctx context.Context, userData string) error {
	status, err := t.Client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: userData})
	if err != nil {
		return fmt.Errorf("user_data %s: %w", userData, err)
	}
	if status.UserData != userData {
		return fmt.Errorf("user_data %s: the response lacks this user_data", userData)
	}
	if status.OrderID == "" { // optional; the notification has it
		return t.record(ctx, userData, Started, "")
	}
	return t.started(ctx, userData, status.OrderID, "")
}

// ReconcilePayout resolves an open payout with the order_id of its failed call. Without an order_id, it records
// [Review], because status_payout needs an order_id (section 4.4). Then a notification or an operator resolves the
// payout. The row stays open after an error.
func (t *Table) ReconcilePayout(ctx context.Context, userData, orderID string) error {
	if orderID == "" {
		return t.record(ctx, userData, Review, "")
	}
	if err := t.record(ctx, userData, Open, orderID); err != nil { // survives a crash
		return err
	}
	status, err := t.Client.StatusPayout(ctx, paymentsvc.StatusPayoutRequest{OrderID: orderID})
	if err != nil {
		return fmt.Errorf("user_data %s: %w", userData, err)
	}
	if status.OrderID != orderID {
		return fmt.Errorf("user_data %s: the response lacks the order_id", userData)
	}
	return t.record(ctx, userData, Started, orderID)
}

// Apply applies a notification once. Pass it to [paymentsvc.Webhook.Handler].
func (t *Table) Apply(ctx context.Context, n *paymentsvc.Notification) error {
	if t.apply(ctx, n) == nil {
		return nil
	}
	return t.apply(ctx, n) // the first attempt may conflict with a concurrent Insert for the same order
}

// apply applies a notification in one transaction.
func (t *Table) apply(ctx context.Context, n *paymentsvc.Notification) error {
	tx, err := t.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after Commit
	inserted, err := tx.ExecContext(ctx, `
		INSERT INTO notifications (key, body) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
		n.Key(), fmt.Sprintf("%q", n.Raw)) // quoted, because a body may contain invalid UTF-8
	if err != nil {
		return err
	}
	if rows, err := inserted.RowsAffected(); err != nil || rows == 0 {
		return err // nil for a duplicate
	}
	if err := advance(ctx, tx, n); err != nil {
		return err
	}
	switch n.Event {
	case paymentsvc.EventPaymentStatusChanged, paymentsvc.EventPayoutStatusChanged:
		err = match(ctx, tx, n.OrderID, n.UserData)
	default: // a refund, or an event that the document does not specify
		slog.WarnContext(ctx, "notification needs review", "event", n.Event, "order_id", n.OrderID)
	}
	if err != nil {
		return err
	}
	if err := conclude(ctx, tx, n.OrderID); err != nil {
		return err
	}
	return tx.Commit()
}

// match records that the service has a payment or payout. It finds the row by order_id. If no row has the order_id, it
// finds the row by user_data, unless this row has another order_id. A failed row stays failed. A rejected row becomes
// started only if every other start for the same order was rejected or has failed.
func match(ctx context.Context, tx *sql.Tx, orderID, userData string) error {
	found, err := tx.ExecContext(ctx, `
		UPDATE starts SET order_id = $1, state = CASE state WHEN 'failed' THEN state ELSE 'started' END
		WHERE (order_id = $1 OR order_id IS NULL AND user_data = $2 AND NOT EXISTS (
			SELECT 1 FROM starts AS known WHERE known.order_id = $1)) AND (state <> 'rejected' OR NOT EXISTS (
			SELECT 1 FROM starts AS other
			WHERE other.pays_for = starts.pays_for AND other.state NOT IN ('rejected', 'failed')))`, orderID, userData)
	if err != nil {
		return err
	}
	if rows, err := found.RowsAffected(); err != nil || rows > 0 {
		return err
	}
	slog.WarnContext(ctx, "no start accepts this order: needs review unless the response of its call follows",
		"order_id", orderID, "user_data", userData)
	return nil
}

// advance stores the state of an event. A later state does not replace a final state. A refund has the order_id of
// its payment, so the event is part of the key.
func advance(ctx context.Context, tx *sql.Tx, n *paymentsvc.Notification) error {
	refunded := n.Event == paymentsvc.EventRefundStatusChanged && n.StatusDescription == paymentsvc.StatusSuccess
	written, err := tx.ExecContext(ctx, `
		INSERT INTO states (event, order_id, status, amount, final) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (event, order_id) DO UPDATE
		SET status = excluded.status, amount = excluded.amount, final = excluded.final WHERE NOT states.final`,
		string(n.Event), n.OrderID, string(n.StatusDescription), n.Amount,
		n.Final() || refunded) // the next refund of the order must not hide this refund
	if err != nil {
		return err
	}
	rows, err := written.RowsAffected()
	if err == nil && rows == 0 && n.StatusDescription != paymentsvc.StatusPending {
		slog.WarnContext(ctx, "a new state after a final one: needs review", "order_id", n.OrderID)
	}
	return err
}

// conclude applies the state of an order to its row. It inserts the shipment of a paid order once. Your job ships the
// order later, and calls MayShip first. After a final FAILURE the payer may pay again, with a new user_data.
func conclude(ctx context.Context, tx *sql.Tx, orderID string) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE starts SET state = 'failed' WHERE order_id = $1 AND state = 'started' AND EXISTS (
			SELECT 1 FROM states WHERE event = $2 AND order_id = $1 AND status = 'FAILURE')`,
		orderID, string(paymentsvc.EventPaymentStatusChanged))
	if err != nil {
		return err
	}
	p, err := received(ctx, tx, orderID)
	switch {
	case err != nil:
	case p.anotherAmount:
		slog.WarnContext(ctx, "paid with another amount: needs review", "order_id", orderID)
		_, err = tx.ExecContext(ctx, `
			UPDATE starts SET state = 'review' WHERE order_id = $1 AND state = 'started'`, orderID) // keeps a decision
	case p.paid && !p.refunded:
		_, err = tx.ExecContext(ctx, `INSERT INTO shipments (order_id) VALUES ($1) ON CONFLICT DO NOTHING`, orderID)
	}
	return err
}

// MayShip reports whether an order is paid with its amount, and not refunded.
func MayShip(ctx context.Context, tx *sql.Tx, orderID string) (bool, error) {
	p, err := received(ctx, tx, orderID)
	return err == nil && p.paid && !p.refunded, err
}

// payments has the facts that the notifications of an order report.
type payments struct{ paid, anotherAmount, refunded bool }

func received(ctx context.Context, tx *sql.Tx, orderID string) (p payments, err error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT states.event, states.amount, starts.amount FROM states JOIN starts ON starts.order_id = states.order_id
		WHERE states.order_id = $1 AND states.status = 'SUCCESS'`, orderID)
	if err != nil {
		return p, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var event paymentsvc.EventType
		var amount, price paymentsvc.Amount
		if err := rows.Scan(&event, &amount, &price); err != nil {
			return p, err
		}
		switch event {
		case paymentsvc.EventPaymentStatusChanged:
			p.paid = amount.Equal(price)
			p.anotherAmount = !p.paid
		case paymentsvc.EventRefundStatusChanged: // may arrive before the payment's SUCCESS
			p.refunded = true
		}
	}
	return p, rows.Err()
}
