package paymentsvctest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Verdict is the server's own decision on a request, see Config.OnChecked.
type Verdict struct {
	// Rejection is the reason of a rejection, or nil.
	Rejection *Rejection
	// Signature is the error of the timestamp or signature. It is nil for a correct signature and for an earlier
	// rejection.
	Signature *SignatureFault
}

func (s *Server) checked(r *http.Request, v Verdict) {
	if s.cfg.OnChecked != nil {
		s.cfg.OnChecked(r, v)
	}
}

// explanation is the message of an answer that rejects.
func (s *Server) explanation(why *rejection) string {
	if !s.cfg.ExplainSignatures || why.fault == nil || why.fault.Reason == why.message {
		return why.message
	}
	return why.message + ": " + why.fault.Reason
}

// FaultWhere is [Server.Fault] for requests accepted by match. The body has not been read, so a handler in front must
// put it into the context. The server calls match once for each request to the endpoint, and then selected, if not nil,
// for each request that which selects. Neither may call the server.
func (s *Server) FaultWhere(
	endpoint string, match func(*http.Request) bool, selected func(*http.Request), which Which, faults ...Fault,
) *Rule {
	return s.fault(&s.rules, &Rule{
		On: endpoint, Faults: texts(faults), requests: match, selected: selected, which: which, faults: faults,
	})
}

// FaultNotificationsWhere is [Server.FaultNotifications] for notifications accepted by match. match must not call the
// server.
func (s *Server) FaultNotificationsWhere(
	event paymentsvc.EventType, match func(Notification) bool, which Which, faults ...NotificationFault,
) *Rule {
	return s.fault(&s.notifyRules, &Rule{On: string(event), Faults: texts(faults), entries: match, which: which, notified: faults})
}

// SendBody sends a body unchanged, without the outbox, the rules and the deliveries. A nil header is replaced by one with a
// signature at this time, by the key of the project. It returns the HTTP status of the response, and an error for an unknown
// project.
func (s *Server) SendBody(
	ctx context.Context, to Receiver, projectID int64, at time.Time, body []byte, header http.Header,
) (int, error) {
	return s.transmit(ctx, to, func(req *http.Request) (io.Reader, int, error) {
		if header != nil {
			req.Header = header.Clone()
			return bytes.NewReader(body), len(body), nil
		}
		p := s.project(projectID)
		if p == nil {
			return nil, 0, errNoProject
		}
		_, signature, err := s.signed(req, at, p.Secret, body)
		req.Header.Set("Signature", signature)
		return bytes.NewReader(body), len(body), err
	})
}

// Move is [Server.Settle] without a notification.
func (s *Server) Move(orderID string, status paymentsvc.StatusName) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.books.settle(orderID, status); err != nil {
		return fmt.Errorf("paymentsvctest: Move: %w", err)
	}
	return nil
}

// Seed enters an order in any status. It assigns Number and Numbers, and OrderID if that is "". It does not send a
// notification or call Config.Check and Config.OnStart. It returns an error for an order without amount, an unknown
// kind or project, a duplicate OrderID, or a too long balance.
func (s *Server) Seed(o Order) (Order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, err := s.books.seed(o)
	if err != nil {
		return Order{}, fmt.Errorf("paymentsvctest: Seed: %w", err)
	}
	return entry.Order, nil
}

// ErrOrderExists is the error of [Server.Seed] for an OrderID that is in the books.
var ErrOrderExists = errors.New("the order_id exists")

func (b *books) seed(o Order) (*order, error) {
	o.Number = b.last + 1
	if o.OrderID == "" {
		o.OrderID = orderID(o.Number)
	}
	if o.Status == "" {
		o.Status = paymentsvc.StatusPending
	}
	var known bool
	o.Numbers, known = b.numbers[o.Status]
	account := b.accounts[o.ProjectID]
	switch {
	case !known:
		return nil, errNoNumbers
	case b.byID[o.OrderID] != nil:
		return nil, ErrOrderExists
	case account == nil:
		return nil, errNoProject
	case !slices.Contains([]Kind{KindPayment, KindPayout, KindForm, KindInvoice}, o.Kind):
		return nil, errors.New("no such kind of order")
	case !o.Amount.IsSet():
		return nil, errors.New("the order has no amount")
	}
	entry := order{Order: o, restored: o.Destination == ""}
	if o.Refunded.IsSet() {
		entry.refunded = moneyOf(o.Refunded)
	}
	moved, err := account.move(nil, &entry)
	if err != nil {
		return nil, err
	}
	*b.accounts[o.ProjectID] = moved
	return b.enter(entry), nil
}

func orderID(number int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", number) }

// LastOrder returns the highest number of an order, or Config.LastOrder without orders.
func (s *Server) LastOrder() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.books.last
}

// EachOrder calls visit with each order with a number above number, in their order, until visit returns false. visit must
// neither call the server nor change or keep the order.
func (s *Server) EachOrder(number int, visit func(*Order) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.books.orders
	at, _ := slices.BinarySearchFunc(list, number+1, func(o *order, n int) int { return o.Number - n })
	for _, o := range list[at:] {
		if !visit(&o.Order) {
			return
		}
	}
}

// DeliveriesAfter returns the deliveries without the first n, and the number of all.
func (s *Server) DeliveriesAfter(n int) (list []Delivery, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deliveries.after(n)
}

// RejectedAfter returns the rejections without the first n, and the number of all.
func (s *Server) RejectedAfter(n int) (list []Rejection, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rejections.after(n)
}

// OrdersOf returns the orders with this user_data, of all kinds and projects, in their order.
func (s *Server) OrdersOf(userData string) []Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return copies(s.books.started[userData])
}
