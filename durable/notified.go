package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/paymentsvc/paymentsvc"
)

// noticeColumns are what scanNotice reads.
const noticeColumns = `key, event, order_id, user_data, status, status_name, status_code, amount, matched, received_at`

func scanNotice(rows *sql.Rows) (n Notice, err error) {
	var matched, received int64
	err = rows.Scan(&n.Key, &n.Event, &n.OrderID, &n.UserData, &n.Status, &n.StatusDescription, &n.StatusCode, &n.Amount,
		&matched, &received)
	n.Matched, n.ReceivedAt = matched == 1, at(received)
	return n, err
}

// kindOf returns the kind of rows that an event is about, "" for one that the document does not show.
func kindOf(e paymentsvc.EventType) Kind {
	switch e {
	case paymentsvc.EventPaymentStatusChanged, paymentsvc.EventRefundStatusChanged:
		return KindPayment
	case paymentsvc.EventPayoutStatusChanged:
		return KindPayout
	default:
		return ""
	}
}

// Notified stores a notification and applies it, once by its Key. It fits [paymentsvc.Webhook.Handler]: after nil a
// repetition changes nothing, so the service may be answered with success; an error asks the service to repeat it.
//
// It changes no final state: a contradiction, another amount or another order_id sets [Row].Attention. One whose
// order_id is not known yet waits for it. Events that the interface document does not show are only stored.
func (s *Store) Notified(ctx context.Context, n *paymentsvc.Notification) error {
	told := Notice{
		Key: n.Key(), Event: paymentsvc.EventType(storable(string(n.Event))), OrderID: identifier(n.OrderID),
		UserData: identifier(n.UserData), Status: n.Status, StatusCode: n.StatusCode, Amount: n.Amount,
		StatusDescription: paymentsvc.StatusName(storable(string(n.StatusDescription))),
	}
	// It is committed before it is applied. The record of an outcome looks for notifications after its own commit, so
	// whichever is later sees the other.
	_, err := s.write(ctx, `INSERT INTO durable_notifications
		(key, event, order_id, user_data, status, status_name, status_code, amount, matched, received_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, {now}) ON CONFLICT (key) DO NOTHING`,
		told.Key, string(told.Event), told.OrderID, told.UserData, told.Status, string(told.StatusDescription),
		told.StatusCode, told.Amount, flag(kindOf(told.Event) == ""))
	if err != nil {
		return fmt.Errorf("durable: notification: %w", err)
	}
	if kindOf(told.Event) == "" {
		return nil
	}
	if err := s.applyNotice(ctx, told, true); err != nil {
		return fmt.Errorf("durable: notification: %w", err)
	}
	return nil
}

// applyNotice applies a stored notification, unless that was done or no row is known for it.
func (s *Store) applyNotice(ctx context.Context, n Notice, strict bool) error {
	tx := &transaction{s: s, strict: strict}
	err := s.inTx(ctx, func(ctx context.Context, inner *sql.Tx) error {
		tx.Tx, tx.moves = inner, nil
		if err := tx.lockOrderID(ctx, n.OrderID); err != nil {
			return err
		}
		var waits int
		if err := tx.QueryRowContext(ctx, s.sql.Replace(`SELECT COUNT(*) FROM durable_notifications
			WHERE key = $1 AND matched = 0`), n.Key).Scan(&waits); err != nil || waits == 0 {
			return err
		}
		r, err := tx.find(ctx, n)
		if errors.Is(err, ErrNotFound) {
			return nil // it waits
		}
		if err != nil {
			return err
		}
		if err := tx.apply(ctx, r, n); err != nil || r.OrderID != n.OrderID {
			return err
		}
		return tx.applyWaiting(ctx, r) // it may have been the first to tell whose order_id that is
	})
	if err == nil {
		tx.tell(ctx)
	}
	return err
}

// find returns the row that a notification is about.
func (tx *transaction) find(ctx context.Context, n Notice) (*row, error) {
	if n.UserData != "" {
		r, err := tx.load(ctx, "user_data", n.UserData, kindOf(n.Event))
		if !errors.Is(err, ErrNotFound) {
			return r, err
		}
	}
	return tx.load(ctx, "order_id", n.OrderID, kindOf(n.Event))
}

// Notices returns the last 50 notifications of a row, the newest first.
func (s *Store) Notices(ctx context.Context, r Row) ([]Notice, error) {
	var notices []Notice
	err := s.query(ctx, s.read, func(rows *sql.Rows) error {
		n, err := scanNotice(rows)
		if k := kindOf(n.Event); k == "" || k == r.Kind {
			notices = append(notices, n)
		}
		return err
	}, `SELECT `+noticeColumns+` FROM durable_notifications
		WHERE user_data = $1 OR order_id = $2 AND order_id <> ''
		ORDER BY received_at DESC, key DESC LIMIT 50`, r.UserData, r.OrderID)
	return notices, err
}
