package paymentsvctest

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/paymentsvc/paymentsvc"
)

// Notification is the body of a notification, with its fields in the document's order (section 6). [Server.Send]
// sends it unchanged, so you can modify any field before.
type Notification struct {
	// ProjectID is the project of the signing secret. It is not sent.
	ProjectID int64 `json:"-"`

	// Event, OrderID, Status, StatusDescription, StatusCode, Amount and UserData are the document's fields; "" for
	// UserData leaves it out.
	Event             paymentsvc.EventType  `json:"event"`
	OrderID           string                `json:"order_id"`
	Status            int64                 `json:"status"`
	StatusDescription paymentsvc.StatusName `json:"status_description"`
	StatusCode        int64                 `json:"status_code"`
	Amount            paymentsvc.Amount     `json:"amount"`
	UserData          string                `json:"user_data,omitempty"`
}

// String returns a line for the messages of tests.
func (n Notification) String() string {
	return fmt.Sprintf("%s %s %s for user_data %q, %s", n.Event, n.OrderID, n.Amount, n.UserData, n.StatusDescription)
}

// Receiver is the destination of notifications. The zero value receives none.
type Receiver struct {
	address   string
	handler   http.Handler
	transport http.RoundTripper // nil for the server's own
	choose    func(Notification) Receiver
}

// ToEach chooses a receiver for each notification, for example by its project and its event. choose must not call the
// server.
func ToEach(choose func(Notification) Receiver) Receiver { return Receiver{choose: choose} }

// ToURL sends notifications to an address by HTTP. It follows no redirects, and waits 10 seconds for an answer.
func ToURL(address string) Receiver { return Receiver{address: address} }

// Via returns the receiver with a transport, for example a recorder. Deliver and Send pass their context and signed
// requests to it. It has no effect on [ToHandler].
func (r Receiver) Via(transport http.RoundTripper) Receiver {
	r.transport = transport
	return r
}

// ToHandler passes notifications to h, as requests for a path such as "/notifications", on the goroutine of Deliver or
// Send: when these return, h has returned. It does not recover a panic of h.
func ToHandler(h http.Handler, path string) Receiver {
	return Receiver{handler: h, address: (&url.URL{Scheme: "http", Host: "partner.example", Path: path}).String()}
}

func (r Receiver) nowhere() bool { return r.address == "" && r.choose == nil }

// of returns the receiver of a notification.
func (r Receiver) of(n Notification) Receiver {
	if r.choose == nil {
		return r
	}
	return r.choose(n)
}

// SetReceiver sets where notifications go from now on.
func (s *Server) SetReceiver(r Receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receiver = r
}

// outboxEntry is a notification in the outbox.
type outboxEntry struct {
	Notification
	attempts int
	number   int
	wait     int              // calls of Deliver to pass by
	effects  *deliveryEffects // nil before the choice of the faults
	faults   []string
}

// Settle moves an order to another status, updates the balances, and puts the notification into the outbox for
// [Server.Deliver]. A payment, form or invoice stays in SUCCESS or FAILURE, since the document shows no way out;
// payouts can move to every status. It also returns an error if there is no such order, if status has no
// Config.Numbers, or if the books cannot hold the sum.
func (s *Server) Settle(orderID string, status paymentsvc.StatusName) (Notification, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.books.settle(orderID, status)
	if err != nil {
		return Notification{}, fmt.Errorf("paymentsvctest: Settle: %w", err)
	}
	return s.post(o.notification(o.Status, o.Numbers)), nil
}

// Step moves every order to the next status of Config.Script, as [Server.Settle] does, in the order of their numbers.
// It returns the number of moved orders, and stops at the first error.
func (s *Server) Step() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	moved := 0
	for _, o := range s.books.orders {
		if len(o.script) == 0 {
			continue
		}
		status := o.script[0]
		if _, err := s.books.settle(o.OrderID, status); err != nil {
			return moved, fmt.Errorf("paymentsvctest: Step: %w", err)
		}
		o.script = o.script[1:]
		s.post(o.notification(o.Status, o.Numbers))
		moved++
	}
	return moved, nil
}

// Refund puts a refund.status_changed with the order's order_id into the outbox, and, if status is SUCCESS, refunds
// amount of a payment, form or invoice. The document shows no call that starts a refund (section 4.8), so the service
// does. It returns an error if the order is not in SUCCESS, if amount is not positive or exceeds what is left of it,
// and if status has no Config.Numbers.
func (s *Server) Refund(orderID string, amount paymentsvc.Amount, status paymentsvc.StatusName) (Notification, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.books.refund(orderID, amount, status)
	if err != nil {
		return Notification{}, fmt.Errorf("paymentsvctest: Refund: %w", err)
	}
	n := o.notification(status, s.cfg.Numbers[status])
	n.Event, n.Amount = paymentsvc.EventRefundStatusChanged, amount
	return s.post(n), nil
}

// Compose returns the notification of an order's change to status, without the change. Send it with [Server.Send],
// for example as a late PENDING. It returns an error for an unknown order.
func (s *Server) Compose(orderID string, status paymentsvc.StatusName) (Notification, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.books.byID[orderID]
	if o == nil {
		return Notification{}, fmt.Errorf("paymentsvctest: Compose: %w", errNoOrder)
	}
	return o.notification(status, s.cfg.Numbers[status]), nil
}

func (o *order) notification(status paymentsvc.StatusName, numbers Numbers) Notification {
	n := Notification{
		ProjectID:         o.ProjectID,
		Event:             paymentsvc.EventPaymentStatusChanged,
		OrderID:           o.OrderID,
		Status:            numbers.Status,
		StatusDescription: status,
		StatusCode:        numbers.StatusCode,
		Amount:            o.Amount,
		UserData:          o.UserData,
	}
	if o.payout() {
		n.Event = paymentsvc.EventPayoutStatusChanged
	}
	return n
}

// post puts a notification into the outbox. The lock is held.
func (s *Server) post(n Notification) Notification {
	s.posted++
	l := &outboxEntry{Notification: n, number: s.posted}
	s.outbox, s.untaken[l] = append(s.outbox, l), true
	return n
}

// Outbox returns the notifications that wait for [Server.Deliver].
func (s *Server) Outbox() []Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Notification, 0, len(s.outbox))
	for _, l := range s.outbox {
		list = append(list, l.Notification)
	}
	return list
}
