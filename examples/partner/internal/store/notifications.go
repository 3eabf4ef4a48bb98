package store

import (
	"context"
	"errors"

	"github.com/paymentsvc/paymentsvc"
)

// notification is what a stored notification tells of a row.
type notification struct {
	key, orderID, userData, statusName string
	amount                             paymentsvc.Amount
}

// ApplyNotification stores a notification that was verified, and what follows from it, in one transaction: when it
// returns nil, a repetition changes nothing, so the service may be told that it was taken. One that speaks of an
// order_id that is not known yet waits for Started. Refunds, and events that the interface document does not show, are
// stored only.
//
// No notification changes a final state, or makes one of an amount or an order_id other than the row's: those call for
// a person.
func (s *Store) ApplyNotification(ctx context.Context, n *paymentsvc.Notification) error {
	return s.change(ctx, func(tx *transaction) error {
		told := notification{
			key: n.Key(), orderID: identifier(n.OrderID), userData: identifier(n.UserData),
			statusName: storable(string(n.StatusDescription)), amount: n.Amount,
		}
		if err := tx.lockOrderID(ctx, told.orderID); err != nil {
			return err
		}
		err := changed(tx.ExecContext(ctx, `INSERT INTO notifications
			(key, event, order_id, user_data, status, status_name, status_code, amount, matched, received_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9) ON CONFLICT (key) DO NOTHING`,
			told.key, storable(string(n.Event)), told.orderID, told.userData, n.Status, told.statusName, n.StatusCode, n.Amount,
			millis(s.now())))
		if errors.Is(err, ErrNotFound) {
			return nil // a repetition
		}
		if err != nil {
			return err
		}
		var table Table
		switch n.Event {
		case paymentsvc.EventPaymentStatusChanged:
			table = Orders
		case paymentsvc.EventPayoutStatusChanged:
			table = Payouts
		default:
			return tx.matched(ctx, told.key)
		}
		r, err := tx.find(ctx, table, told.userData, told.orderID)
		if errors.Is(err, ErrNotFound) {
			return nil // it waits
		}
		if err != nil {
			return err
		}
		if err := tx.apply(ctx, r, told); err != nil || r.orderID != told.orderID {
			return err
		}
		return tx.applyWaiting(ctx, r) // it may have been the first to tell whose order_id that is
	})
}

// find gives the row that a notification speaks of.
func (tx *transaction) find(ctx context.Context, t Table, userData, orderID string) (*row, error) {
	if userData != "" {
		r, err := tx.load(ctx, t, "user_data", userData)
		if !errors.Is(err, ErrNotFound) {
			return r, err
		}
	}
	return tx.load(ctx, t, "order_id", orderID)
}

// apply changes r by a notification, which has then been dealt with.
func (tx *transaction) apply(ctx context.Context, r *row, n notification) error {
	taken, err := tx.taken(ctx, r, n.orderID)
	if err != nil {
		return err
	}
	r.notified(n, taken)
	if err := tx.save(ctx, r); err != nil {
		return err
	}
	return tx.matched(ctx, n.key)
}

func (tx *transaction) matched(ctx context.Context, key string) error {
	return changed(tx.ExecContext(ctx, `UPDATE notifications SET matched = 1 WHERE key = $1`, key))
}

// applyWaiting applies the notifications that came before r's order_id was known, in the order in which they came.
func (tx *transaction) applyWaiting(ctx context.Context, r *row) error {
	event := paymentsvc.EventPaymentStatusChanged
	if r.table == Payouts {
		event = paymentsvc.EventPayoutStatusChanged
	}
	waiting, err := tx.waiting(ctx, string(event), r.orderID)
	if err != nil {
		return err
	}
	for _, n := range waiting {
		if err := tx.apply(ctx, r, n); err != nil {
			return err
		}
	}
	return nil
}

// waiting reads all before anything is written: SQLite has but one connection here.
func (tx *transaction) waiting(ctx context.Context, event, orderID string) (list []notification, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT key, order_id, status_name, amount FROM notifications
		WHERE order_id = $1 AND event = $2 AND matched = 0 ORDER BY received_at, key`, orderID, event)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n notification
		if err := rows.Scan(&n.key, &n.orderID, &n.statusName, &n.amount); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}
