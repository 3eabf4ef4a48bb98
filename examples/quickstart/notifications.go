package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// notifications receives what the in-process server sends, and prints what became of each.
func notifications(ctx context.Context, set *settings, server *service, out report) error {
	out.section("Notifications")
	if server == nil {
		out.line("none", "the interface document does not show where a receiving address is set")
		return nil
	}
	inbox := &inbox{seen: map[string]bool{}, states: map[string]paymentsvc.StatusName{}}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme:    set.Scheme,
		Secrets:   []paymentsvc.Secret{set.Secret}, // during a rotation the new and the old one
		Tolerance: clockTolerance,                  // of the in-process server; the document does not show it
		OnError:   inbox.refused,
	})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer serve(listener, webhook.Handler(inbox.apply))()
	address := "http://" + listener.Addr().String() + "/notifications"

	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for _, d := range server.deliveries() {
		answered, err := server.deliver(ctx, client, address, d)
		if err != nil {
			return err
		}
		out.line(d.label, "%d  %s", answered, inbox.result())
		if answered != d.want {
			return fmt.Errorf("the notification above should have been answered with %d", d.want)
		}
	}
	out.line("the answers", "200 and 401 are this example's choice, the document shows none")
	return nil
}

// inbox keeps what notifications tell. Its maps stand for tables of a database: a unique index over
// Notification.Key, and the state of every payment, payout and refund.
type inbox struct {
	mu     sync.Mutex
	seen   map[string]bool
	states map[string]paymentsvc.StatusName
	last   string
}

// apply takes a notification as far as it is news. The same one may come again, and an older state after a newer
// one. In a database all of this is one transaction.
func (b *inbox) apply(_ context.Context, n *paymentsvc.Notification) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[n.Key()] {
		b.last = "nothing to do: its Key has been seen"
		return nil
	}
	b.seen[n.Key()] = true

	// A refund may carry the order_id of its payment, so the event belongs to the name.
	name := string(n.Event) + " " + n.OrderID
	if state := b.states[name]; state.Final() {
		b.last = fmt.Sprintf("nothing to do: it is %s already, which is final", state)
		return nil
	}
	b.states[name] = n.StatusDescription
	b.last = fmt.Sprintf("taken: %s, order %s", n.Amount, n.OrderID)
	return nil
}

// refused is told of every notification that apply is not.
func (b *inbox) refused(_ *http.Request, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = fmt.Sprintf("refused: %v", err)
}

func (b *inbox) result() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}
