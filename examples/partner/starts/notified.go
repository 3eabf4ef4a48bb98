package starts

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"

	"github.com/paymentsvc/paymentsvc"
)

// Apply applies a notification once, in one transaction. It is for [paymentsvc.Webhook.Handler].
func (t *Table) Apply(ctx context.Context, n *paymentsvc.Notification) error {
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
	switch n.Event {
	case paymentsvc.EventPaymentStatusChanged, paymentsvc.EventPayoutStatusChanged:
		err = match(ctx, tx, n)
	default: // a refund, or an event that the document does not specify
		slog.WarnContext(ctx, "notification needs review", "event", n.Event, "order_id", n.OrderID)
	}
	if err != nil {
		return err
	}
	if err := advance(ctx, tx, n); err != nil {
		return err
	}
	if err := ship(ctx, tx, n.OrderID); err != nil {
		return err
	}
	return tx.Commit()
}

// match finds the row of a payment or payout by its order_id or its user_data.
func match(ctx context.Context, tx *sql.Tx, n *paymentsvc.Notification) error {
	state := Started
	if n.Final() && n.StatusDescription == paymentsvc.StatusFailure {
		state = Failed // the payer may pay again, with a new user_data
	}
	found, err := tx.ExecContext(ctx, `
		UPDATE starts SET order_id = $1, state = CASE state WHEN 'failed' THEN state ELSE $2 END
		WHERE (order_id = $1 OR order_id IS NULL AND user_data = $3) AND state <> 'rejected'`,
		n.OrderID, string(state), n.UserData)
	if err != nil {
		return err
	}
	if rows, err := found.RowsAffected(); err != nil || rows > 0 {
		return err
	}
	slog.WarnContext(ctx, "no start has this notification: needs review", "order_id", n.OrderID)
	return nil
}

// advance stores the state of an event. A late state does not replace a final one. A refund has its own event, because
// it carries the order_id of its payment.
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

// ship inserts the shipment of a paid order once. A job ships the rows later, and calls MayShip first.
func ship(ctx context.Context, tx *sql.Tx, orderID string) error {
	if may, err := MayShip(ctx, tx, orderID); err != nil || !may {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO shipments (order_id) VALUES ($1) ON CONFLICT DO NOTHING`, orderID)
	return err
}

// MayShip reports whether an order is paid with its amount, and not refunded.
func MayShip(ctx context.Context, tx *sql.Tx, orderID string) (bool, error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT states.event, states.amount, starts.amount FROM states JOIN starts ON starts.order_id = states.order_id
		WHERE states.order_id = $1 AND states.status = 'SUCCESS'`, orderID)
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }()
	paid, refunded := false, false
	for rows.Next() {
		var event paymentsvc.EventType
		var amount, price paymentsvc.Amount
		if err := rows.Scan(&event, &amount, &price); err != nil {
			return false, err
		}
		switch event {
		case paymentsvc.EventPaymentStatusChanged:
			paid = amount.Equal(price)
		case paymentsvc.EventRefundStatusChanged: // may arrive before the payment's SUCCESS
			refunded = true
		}
	}
	return paid && !refunded, rows.Err()
}
