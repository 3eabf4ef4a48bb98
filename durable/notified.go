package durable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
)

// Notified stores a notification and applies it, once by its Key. It fits [paymentsvc.Webhook.Handler]. If it returns
// nil, a repetition has no effect, and the response to the service may be a success. After an error of OnChange, the
// notification is stored, and Run applies it later. After an error of the database the notification may be lost,
// because the document does not specify whether the service repeats a notification (section 6).
//
// Notified does not change a final state. A contradiction, another amount or another order_id sets [Row].ReviewReason.
// A notification waits if no row has its user_data or order_id. Unspecified events are only stored.
func (s *Store) Notified(ctx context.Context, n *paymentsvc.Notification) error {
	notice := ledger.Notice{
		Key: n.Key(), Event: paymentsvc.EventType(ledger.Storable(string(n.Event))), OrderID: ledger.Identifier(n.OrderID),
		UserData: ledger.Identifier(n.UserData), Status: n.Status, StatusCode: n.StatusCode, Amount: n.Amount,
		StatusDescription: paymentsvc.StatusName(ledger.Storable(string(n.StatusDescription))),
	}
	// The notification is committed before it is applied. The record of an outcome also looks for notifications, so
	// whichever comes later finds the other.
	err := s.ledger.StoreNotice(ctx, notice)
	switch {
	case err != nil:
	case ledger.KindOf(notice.Event) == "":
		_, err = s.ledger.KeepForPruned(ctx, notice)
	default:
		err = s.ledger.ApplyNotice(ctx, notice, true)
	}
	if err != nil {
		return fmt.Errorf("durable: notification: %w", err)
	}
	return nil
}

// applyEarlyNotifications applies the unmatched notifications with one of orderIDs.
func (s *Store) applyEarlyNotifications(ctx context.Context, orderIDs []string) {
	notices, err := s.ledger.WaitingFor(ctx, orderIDs...)
	for _, n := range notices {
		err = errors.Join(err, s.ledger.ApplyNotice(ctx, n, false))
	}
	if err != nil {
		s.c.Log.ErrorContext(ctx, "durable: a notification will be applied later", "error", err.Error())
	}
}

// Unreadable is a genuine notification with an unreadable body. Its row is therefore not known. fmt, slog and
// encoding/json do not show its Body.
type Unreadable struct {
	// Key is the SHA-256 of the body in hexadecimal digits.
	Key string
	// Reason is the fault of the body. It quotes no bytes of the body.
	Reason string
	// Body contains the first 64 KiB. The bytes may contain sensitive text.
	Body []byte
	// Size is the number of bytes of the whole body.
	Size int64
	// ReceivedAt is the time of the first arrival, by the database's clock.
	ReceivedAt time.Time
}

// Format prints String under every verb.
func (u Unreadable) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.String()) }

// String returns the Key and the Reason.
func (u Unreadable) String() string { return "unreadable notification " + u.Key + ": " + u.Reason }

// LogValue returns String.
func (u Unreadable) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalJSON encodes String.
func (u Unreadable) MarshalJSON() ([]byte, error) { return json.Marshal(u.String()) }

// KeepUnreadable stores a genuine notification with an unreadable body for a review, once by its bytes. It fits
// [paymentsvc.WebhookConfig].OnUnreadable. If it returns nil, the notification is committed. While 1,000 notifications
// wait for a review, it returns an error, see [Store.ReviewUnreadable]. Other errors are the database's.
func (s *Store) KeepUnreadable(ctx context.Context, e *paymentsvc.NotificationError) error {
	sum := sha256.Sum256(e.Raw)
	u := ledger.Unreadable{
		Key: hex.EncodeToString(sum[:]), Reason: e.Err.Error(), Body: e.Raw, Size: int64(len(e.Raw)),
	}
	if err := s.ledger.StoreUnreadable(ctx, u); err != nil {
		return fmt.Errorf("durable: unreadable notification: %w", err)
	}
	s.c.Log.WarnContext(ctx, "durable: a genuine notification is unreadable and needs review",
		"key", u.Key, "size", u.Size, "error", u.Reason)
	return nil
}

// Unreadable returns the unreadable notifications that wait for a review, the oldest first, at most 50.
func (s *Store) Unreadable(ctx context.Context) ([]Unreadable, error) {
	stored, err := s.ledger.Unreadable(ctx, lastNotices)
	list := make([]Unreadable, 0, len(stored))
	for _, u := range stored {
		list = append(list, Unreadable(u))
	}
	return list, err
}

// ReviewUnreadable marks an unreadable notification as reviewed. by is the operator and is required. The database keeps
// the bytes of the last 1,000 reviewed notifications. Errors wrap [ErrInvalid] or [ErrNotFound], or are the database's.
func (s *Store) ReviewUnreadable(ctx context.Context, key, by string) error {
	if by == "" {
		return errNoAuthor
	}
	if err := s.ledger.ReviewUnreadable(ctx, ledger.Storable(key), ledger.Storable(by)); err != nil {
		return fmt.Errorf("durable: review: %w", err)
	}
	return nil
}
