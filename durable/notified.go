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
		tx.Tx, tx.moves, tx.untold = inner, nil, nil
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
	if tx.untold != nil {
		return errors.Join(err, s.unheeded(ctx, n, tx.untold))
	}
	return err
}

// unheeded logs that OnChange has rejected a notification, and calls for a person once it has for a minute.
func (s *Store) unheeded(ctx context.Context, n Notice, told error) error {
	s.c.Log.WarnContext(ctx, "durable: OnChange rejects a notification",
		"user_data", n.UserData, "order_id", n.OrderID, "error", told.Error())
	_, err := s.write(ctx, `UPDATE durable_rows SET attention = `+attending+`, version = version + 1
		WHERE kind = $3 AND (user_data = $4 OR order_id = $5) AND attention NOT LIKE $2
			AND EXISTS (SELECT 1 FROM durable_notifications WHERE key = $6 AND matched = 0 AND received_at < {now} - 60000)`,
		onChangeFails, "%"+onChangeFails+"%", string(kindOf(n.Event)), n.UserData, n.OrderID, n.Key)
	return err
}

// attending appends $1 to the reasons for a person to look.
const attending = `TRIM(attention || ' ' || $1)`

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

// unmatched selects the final notifications that should have met their rows long ago. One that is a month old has been
// seen or never will be.
const unmatched = `matched = 0 AND status_name IN ('SUCCESS', 'FAILURE')
	AND received_at BETWEEN {now} - 2592000000 AND {now} - 300000`

// eventsOf is a condition: notifications about rows of kind k, "" for all.
func eventsOf(k Kind) string {
	switch k {
	case KindPayment:
		return `event <> 'payout.status_changed'`
	case KindPayout:
		return `event = 'payout.status_changed'`
	default:
		return `TRUE`
	}
}

// Unmatched returns the last 50 final notifications that no row is known for, five minutes to 30 days after they came,
// the newest first: of what another program has started, or of rows that were lost with a restored backup. [Store.Sweep]
// logs each once.
func (s *Store) Unmatched(ctx context.Context) ([]Notice, error) {
	return s.notices(ctx, s.read, unmatched+` ORDER BY received_at DESC, key DESC LIMIT 50`)
}

func (s *Store) notices(ctx context.Context, on rowser, where string, args ...any) (notices []Notice, err error) {
	err = s.query(ctx, on, func(rows *sql.Rows) error {
		n, err := scanNotice(rows)
		notices = append(notices, n)
		return err
	}, `SELECT `+noticeColumns+` FROM durable_notifications WHERE `+where, args...)
	return notices, err
}

// warnUnmatched logs the unmatched notifications that have become so since it was last called.
func (s *Store) warnUnmatched(ctx context.Context) error {
	notices, err := s.notices(ctx, s.db, unmatched+` AND received_at > $1 ORDER BY received_at, key LIMIT $2`,
		s.warned.Load(), sweepRows)
	for _, n := range notices {
		s.warned.Store(n.ReceivedAt.UnixMilli())
		s.c.Log.WarnContext(ctx, "durable: no row is known for a notification: was it lost with a backup?", "event", string(n.Event),
			"order_id", n.OrderID, "user_data", n.UserData, "status", string(n.StatusDescription), "amount", n.Amount.String())
	}
	return err
}

// Notices returns the last 50 notifications of a row, the newest first. Without r.Kind they may be of any kind.
func (s *Store) Notices(ctx context.Context, r Row) ([]Notice, error) {
	var notices []Notice
	err := s.query(ctx, s.read, func(rows *sql.Rows) error {
		n, err := scanNotice(rows)
		if k := kindOf(n.Event); k == "" || r.Kind == "" || k == r.Kind {
			notices = append(notices, n)
		}
		return err
	}, `SELECT `+noticeColumns+` FROM durable_notifications
		WHERE user_data = $1 OR order_id = $2 AND order_id <> ''
		ORDER BY received_at DESC, key DESC LIMIT 50`, r.UserData, r.OrderID)
	return notices, err
}
