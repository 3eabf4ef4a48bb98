package ledger

import (
	"context"
	"database/sql"
	"slices"
	"strconv"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// ofKind is a condition on notifications. It selects those about rows of a kind, and unspecified events.
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

// unmatchedParts returns a statement for each event of kinds. It reads the first final notifications without a row, up
// to limit, in the order of an index. Kind "" is both kinds.
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

// Notices returns the last notifications with a user_data or an order_id, the newest first. With a kind, they are about
// rows of that kind. It reads from l.DB.
func (l *Ledger) Notices(ctx context.Context, k row.Kind, userData, orderID string, limit int) ([]Notice, error) {
	return l.notices(ctx, l.DB, `(user_data = $1 AND user_data <> '' OR order_id = $2 AND order_id <> '')`+ofKind(k)+`
		ORDER BY received_at DESC, key DESC LIMIT $3`, userData, orderID, limit)
}

// Decisions returns the decisions about a row, the newest first. It reads from l.DB.
func (l *Ledger) Decisions(ctx context.Context, userData string) (decisions []Decision, err error) {
	err = l.query(ctx, l.DB, func(rows *sql.Rows) error {
		d := Decision{UserData: userData}
		err := rows.Scan(&d.Kind, &d.OrderID, &d.State, &d.ReviewReason, &d.By, &d.At)
		decisions = append(decisions, d)
		return err
	}, `SELECT decision, order_id, state, review_reason, decided_by, decided_at FROM durable_decisions
		WHERE user_data = $1 ORDER BY decided_at DESC, id`, userData)
	return decisions, err
}
