package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// notifications receives the notifications of the in-process server, and prints their results.
func notifications(ctx context.Context, set *settings, server *paymentsvctest.Server, out report) error {
	out.section("Notifications")
	if server == nil {
		out.line("none", "the interface document does not show where a receiving address is set")
		return nil
	}
	inbox := &inbox{seen: map[string]bool{}, states: map[string]paymentsvc.StatusName{}}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme:    set.Scheme,
		Secrets:   []paymentsvc.Secret{set.Secret}, // during a rotation the new and the old one
		Tolerance: tolerance,                       // the document does not specify it
		OnError:   inbox.refused,
	})
	if err != nil {
		return err
	}
	// Your program passes the handler to http.Handle, with the path configured at the service.
	server.SetReceiver(paymentsvctest.ToHandler(webhook.Handler(inbox.apply), "/notifications"))

	sent, err := send(ctx, server)
	if err != nil {
		return err
	}
	for i, want := range []struct {
		label      string
		httpStatus int
	}{
		{"payment FAILURE, forged", 401},
		{"payment SUCCESS", 200},
		{"payment SUCCESS, repeated", 200},
		{"payment PENDING, late", 200},
		{"payout PENDING, an hour old", 401},
		{"payout SUCCESS", 200},
		{"refund SUCCESS", 200},
	} {
		if err := sent[i].Err; err != nil {
			return err
		}
		out.line(want.label, "%d  %s", sent[i].HTTPStatus, inbox.results[i])
		if sent[i].HTTPStatus != want.httpStatus {
			return fmt.Errorf("the notification above should have been answered with %d", want.httpStatus)
		}
	}
	out.line("the answers", "200 and 401 are the choice of Webhook.Handler, the document shows none")
	return nil
}

// send lets the in-process server notify about the first payment and the first payout. Prepare for repeated and
// reordered notifications, because the interface document does not exclude them.
func send(ctx context.Context, server *paymentsvctest.Server) ([]paymentsvctest.Delivery, error) {
	payment, payout := first(server, paymentsvctest.KindPayment), first(server, paymentsvctest.KindPayout)
	paid, err1 := server.Settle(payment.OrderID, paymentsvc.StatusSuccess)
	late, err2 := server.Compose(payment.OrderID, paymentsvc.StatusPending)
	old, err3 := server.Compose(payout.OrderID, paymentsvc.StatusPending)
	paidOut, err4 := server.Settle(payout.OrderID, paymentsvc.StatusSuccess)
	refunded, err5 := server.Refund(payment.OrderID, payment.Amount, paymentsvc.StatusSuccess)
	return slices.Concat(
		server.Send(ctx, paid, paymentsvctest.Forged(), paymentsvctest.RepeatedBy(1)), // the forged one goes first
		server.Send(ctx, late),
		server.Send(ctx, old, paymentsvctest.Late(time.Hour)),
		server.Send(ctx, paidOut),
		server.Send(ctx, refunded),
	), errors.Join(err1, err2, err3, err4, err5)
}

func first(server *paymentsvctest.Server, kind paymentsvctest.Kind) paymentsvctest.Order {
	for _, order := range server.Orders() {
		if order.Kind == kind {
			return order
		}
	}
	return paymentsvctest.Order{}
}

// inbox applies notifications. In a database, seen would be a table with a unique index over Notification.Key, and
// states a table with the state of every payment, payout and refund.
type inbox struct {
	mu      sync.Mutex
	seen    map[string]bool
	states  map[string]paymentsvc.StatusName
	results []string // for this example to print
}

// apply records the state of a notification. It skips a repeated notification, and any notification after a final
// state, because an older state may arrive late. With a database, do all of this in one transaction.
func (b *inbox) apply(_ context.Context, n *paymentsvc.Notification) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	// A refund may carry the order_id of its payment, so the event belongs to the name.
	name := string(n.Event) + " " + n.OrderID
	result := fmt.Sprintf("taken: %s, order %s", n.Amount, n.OrderID)
	switch state := b.states[name]; {
	case b.seen[n.Key()]:
		result = "nothing to do: its Key has been seen"
	case state.Final():
		result = fmt.Sprintf("nothing to do: it is %s already, which is final", state)
	default:
		b.states[name] = n.StatusDescription
	}
	b.seen[n.Key()] = true
	b.results = append(b.results, result)
	return nil
}

// refused records the notifications rejected by the webhook.
func (b *inbox) refused(_ *http.Request, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.results = append(b.results, fmt.Sprintf("rejected: %v", err))
}
