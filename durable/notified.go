package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
)

// Notified stores a notification and applies it, once by its Key. It fits [paymentsvc.Webhook.Handler]. After nil, a
// repetition has no effect, and the response to the service may be a success. After an error of OnChange, the
// notification is stored, and Run applies it later. After an error of the database the notification may be lost, because
// the document does not specify whether the service repeats a notification (section 6).
//
// It changes no final state. A contradiction, another amount or another order_id sets [Row].ReviewReason. A
// notification with an unknown order_id waits for its row. Events without a specification in the interface document are
// only stored.
func (s *Store) Notified(ctx context.Context, n *paymentsvc.Notification) error {
	notice := ledger.Notice{
		Key: n.Key(), Event: paymentsvc.EventType(ledger.Storable(string(n.Event))), OrderID: ledger.Identifier(n.OrderID),
		UserData: ledger.Identifier(n.UserData), Status: n.Status, StatusCode: n.StatusCode, Amount: n.Amount,
		StatusDescription: paymentsvc.StatusName(ledger.Storable(string(n.StatusDescription))),
	}
	// It is committed before it is applied. The record of an outcome looks for notifications after its own commit, so the
	// later of both sees the other.
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

// applyEarlyNotifications applies the waiting notifications with order_ids.
func (s *Store) applyEarlyNotifications(ctx context.Context, orderIDs []string) {
	notices, err := s.ledger.WaitingFor(ctx, orderIDs...)
	for _, n := range notices {
		err = errors.Join(err, s.ledger.ApplyNotice(ctx, n, false))
	}
	if err != nil {
		s.c.Log.ErrorContext(ctx, "durable: a notification will be applied later", "error", err.Error())
	}
}
