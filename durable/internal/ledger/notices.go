package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// A notification is committed before it is applied. A round on PostgreSQL commits an order_id before the next round
// looks up its notifications, so the lookup after the later commit finds the earlier commit. Change locks the order_id
// instead, see lockOrderID. An unmatched notification has matched 0.

// Notice is a stored notification.
type Notice struct {
	Key, OrderID, UserData string
	Event                  paymentsvc.EventType
	StatusDescription      paymentsvc.StatusName
	Status, StatusCode     int64
	Amount                 paymentsvc.Amount
	// Matched is false until the row is found, also among the pruned rows. It is true for an unspecified event.
	Matched    bool
	ReceivedAt time.Time
}

// KindOf returns the kind of row that an event is about, or "" for an event that the document does not specify.
func KindOf(e paymentsvc.EventType) row.Kind {
	switch e {
	case paymentsvc.EventPaymentStatusChanged, paymentsvc.EventRefundStatusChanged:
		return row.Payment
	case paymentsvc.EventPayoutStatusChanged:
		return row.Payout
	default:
		return ""
	}
}

// notices returns the notifications that the condition where selects.
func (l *Ledger) notices(ctx context.Context, on rowser, where string, args ...any) ([]Notice, error) {
	return collect(ctx, l, on, func(n *Notice) []any {
		return []any{
			&n.Key, &n.Event, &n.OrderID, &n.UserData, &n.Status, &n.StatusDescription, &n.StatusCode, &n.Amount, &n.Matched,
			millis{&n.ReceivedAt},
		}
	}, `SELECT key, event, order_id, user_data, status, status_name, status_code, amount, matched <> 0, received_at
		FROM durable_notifications WHERE `+where, args...)
}

// StoreNotice commits a notification, once by its Key.
func (l *Ledger) StoreNotice(ctx context.Context, n Notice) error {
	_, err := l.write(ctx, `INSERT INTO durable_notifications
		(key, event, order_id, user_data, status, status_name, status_code, amount, matched, received_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, {now}) ON CONFLICT (key) DO NOTHING`,
		n.Key, string(n.Event), n.OrderID, n.UserData, n.Status, string(n.StatusDescription), n.StatusCode, n.Amount,
		flag(KindOf(n.Event) == ""))
	return err
}

// ApplyNotice applies a stored notification, unless the notification is already matched or its row does not exist.
// For a pruned row, it only marks the notification. With strict, it rolls back after an error of OnChange and returns
// the error.
func (l *Ledger) ApplyNotice(ctx context.Context, n Notice, strict bool) error {
	failed, missing := "", false // failed is the user_data of a row with a failed OnChange
	err := l.Transact(ctx, strict, func(ctx context.Context, tx *Tx) error {
		failed, missing = "", false
		if err := tx.lockOrderID(ctx, n.OrderID); err != nil {
			return err
		}
		var waits int
		if err := l.one(ctx, tx, []any{&waits}, `SELECT COUNT(*) FROM durable_notifications
			WHERE key = $1 AND matched = 0`, n.Key); err != nil || waits == 0 {
			return err
		}
		r, err := tx.find(ctx, n)
		if errors.Is(err, ErrNotFound) {
			missing = true
			return nil // the notification waits for its row
		}
		if err != nil {
			return err
		}
		err = tx.apply(ctx, r, n)
		if err == nil && r.OrderID == n.OrderID { // n may be the first notification with both the order_id and the user_data
			err = tx.applyWaiting(ctx, r)
		}
		if tx.failed != nil {
			failed = r.UserData
		}
		return err
	})
	if err == nil && missing {
		_, err = l.KeepForPruned(ctx, n)
	}
	if failed != "" {
		err = errors.Join(err, l.flagFailure(ctx, n, failed, err))
	}
	return err
}

// flagFailure logs that OnChange has rejected a notification, and flags the row for review if the notification
// arrived more than a minute ago.
func (l *Ledger) flagFailure(ctx context.Context, n Notice, userData string, failure error) error {
	l.Log.WarnContext(ctx, "durable: OnChange rejects a notification",
		"user_data", userData, "order_id", n.OrderID, "error", failure.Error())
	_, err := l.write(ctx, flagOnChange+` AND user_data = $1
		AND EXISTS (SELECT 1 FROM durable_notifications WHERE key = $2 AND matched = 0 AND received_at < {now} - 60000)`,
		userData, n.Key)
	return err
}

// find returns the row of a notification, by its user_data or else by its order_id.
func (tx *Tx) find(ctx context.Context, n Notice) (*row.Row, error) {
	kind := KindOf(n.Event)
	if n.UserData != "" {
		r, err := tx.load(ctx, n.UserData, kind)
		if !errors.Is(err, ErrNotFound) {
			return r, err
		}
	}
	users, err := tx.l.texts(ctx, tx, `SELECT user_data FROM durable_orders WHERE kind = $1 AND order_id = $2`,
		string(kind), n.OrderID)
	if err != nil || len(users) == 0 {
		return nil, cmp.Or(err, ErrNotFound)
	}
	return tx.load(ctx, users[0], kind)
}

// applyWaiting applies the unmatched notifications about r's kind with r's order_id, in the order of their arrival.
func (tx *Tx) applyWaiting(ctx context.Context, r *row.Row) error {
	waiting, err := tx.l.notices(ctx, tx, `order_id = $1 AND matched = 0 ORDER BY received_at, key`, r.OrderID)
	if err != nil {
		return err
	}
	for _, n := range waiting {
		if KindOf(n.Event) != r.Kind {
			continue
		}
		if err := tx.apply(ctx, r, n); err != nil {
			return err
		}
	}
	return nil
}

// apply applies n to r and marks n as matched.
func (tx *Tx) apply(ctx context.Context, r *row.Row, n Notice) error {
	had := r.ReviewReason
	r.ClearReason(row.OnChangeFails) // set again if OnChange fails again
	save := had != r.ReviewReason
	refund := n.Event == paymentsvc.EventRefundStatusChanged
	foreign := n.UserData != "" && n.UserData != r.UserData || refund && r.OrderID != "" && r.OrderID != n.OrderID
	switch {
	case n.UserData != "" && n.UserData != r.UserData:
		r.Contradict("The service reports its order_id with another user_data: " + row.Shorten(n.OrderID) + ".")
		save = true
	case foreign:
		r.FlagForReview("The service reports a refund under another order_id: " + row.Shorten(n.OrderID) + ".")
		save = true
	case !refund || r.OrderID == "":
		taken, err := tx.Taken(ctx, r, n.OrderID)
		if err != nil {
			return err
		}
		save = true
		if refund { // a refund proves that the service has the payment
			r.Found(n.OrderID, taken)
		} else {
			r.Notify(n.OrderID, n.StatusDescription, n.Amount, taken)
		}
	}
	if save {
		if err := tx.save(ctx, r); err != nil {
			return err
		}
	}
	if refund && !foreign {
		if err := tx.fire(ctx, Event{Row: *r, Refund: &n}); err != nil {
			return err
		}
	}
	_, err := tx.l.exec(ctx, tx, `UPDATE durable_notifications SET matched = 1 WHERE key = $1`, n.Key)
	return err
}

// WaitingFor returns the unmatched notifications with one of the order_ids, in the order of their arrival.
func (l *Ledger) WaitingFor(ctx context.Context, orderIDs ...string) ([]Notice, error) {
	return l.notices(ctx, l.DB, `matched = 0 AND order_id{in $1} ORDER BY received_at, key`, list(orderIDs))
}

// WaitingForRow returns the unmatched notifications with the user_data, in the order of their arrival.
func (l *Ledger) WaitingForRow(ctx context.Context, userData string) ([]Notice, error) {
	return l.notices(ctx, l.DB, `matched = 0 AND user_data = $1 ORDER BY received_at, key`, userData)
}

// Late returns the order_ids of unmatched notifications with a known row. The process died or OnChange failed before
// the notification was applied, or the row was stored later. since is the maximum age of a notification in
// milliseconds, and 2 seconds is the minimum. Late includes notifications from the future, because the database's clock
// was wrong at their arrival.
func (l *Ledger) Late(ctx context.Context, since int64, limit int) ([]string, error) {
	const kind = `CASE WHEN n.event = 'payout.status_changed' THEN 'payout' ELSE 'payment' END`
	return l.texts(ctx, l.DB, `SELECT DISTINCT n.order_id FROM durable_notifications AS n
		WHERE n.matched = 0
			AND (n.received_at BETWEEN {now} - $2 AND {now} - 2000 OR n.received_at > {now} + {impossible})
			AND (EXISTS (SELECT 1 FROM durable_orders AS o WHERE o.order_id = n.order_id AND o.kind = `+kind+`)
				OR EXISTS (SELECT 1 FROM durable_rows AS r WHERE r.user_data = n.user_data AND r.kind = `+kind+`))
		LIMIT $1`, limit, since)
}

// unmatched selects the final notifications without a row, 5 minutes to 30 days after they arrived.
const unmatched = `matched = 0 AND status_name IN ('SUCCESS', 'FAILURE')
	AND received_at BETWEEN {now} - 2592000000 AND {now} - 300000`

// UnmatchedAfter returns the final notifications after a place that have no row, the oldest first.
func (l *Ledger) UnmatchedAfter(ctx context.Context, after Place, limit int) ([]Notice, error) {
	return l.notices(ctx, l.DB, unmatched+` AND (received_at, key) > ($1, $2) ORDER BY received_at, key LIMIT $3`,
		after.At, after.Key, limit)
}

// ofKind returns a condition that selects the notifications about rows of a kind, and unspecified events.
func ofKind(k row.Kind) string {
	switch k {
	case row.Payment:
		return ` AND event <> 'payout.status_changed'`
	case row.Payout:
		return ` AND event NOT IN ('payment.status_changed', 'refund.status_changed')`
	default:
		return ``
	}
}

// unmatchedParts returns a statement for each event of kinds. A statement reads the oldest final notifications without
// a row, up to limit, by an index. Kind "" is both kinds.
func unmatchedParts(limit int, kinds ...row.Kind) (parts []string) {
	for _, event := range [...]paymentsvc.EventType{
		paymentsvc.EventPaymentStatusChanged, paymentsvc.EventPayoutStatusChanged, paymentsvc.EventRefundStatusChanged,
	} { // a notification of another event is never unmatched
		if slices.Contains(kinds, "") || slices.Contains(kinds, KindOf(event)) {
			parts = append(parts, `SELECT received_at AS created_at FROM durable_notifications
				WHERE `+unmatched+` AND event = '`+string(event)+`' ORDER BY received_at LIMIT `+strconv.Itoa(limit))
		}
	}
	return parts
}

// Unmatched returns the last final notifications without a row, the newest first. It reads from l.Read.
func (l *Ledger) Unmatched(ctx context.Context, limit int) ([]Notice, error) {
	return l.notices(ctx, l.Read, unmatched+` ORDER BY received_at DESC, key DESC LIMIT $1`, limit)
}

// Notices returns the last notifications with a user_data or an order_id, the newest first. With a kind, it omits
// notifications about the other kind, but not unspecified events. It reads from l.DB.
func (l *Ledger) Notices(ctx context.Context, k row.Kind, userData, orderID string, limit int) ([]Notice, error) {
	return l.notices(ctx, l.DB, `(user_data = $1 AND user_data <> '' OR order_id = $2 AND order_id <> '')`+ofKind(k)+`
		ORDER BY received_at DESC, key DESC LIMIT $3`, userData, orderID, limit)
}
