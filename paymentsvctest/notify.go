package paymentsvctest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing/iotest"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Notification is the body of a notification, with its fields in the document's order (section 6). You can change any
// field before a call of [Server.Send].
type Notification struct {
	// ProjectID is the project whose secret signs the notification. It is not a field of the body.
	ProjectID int64 `json:"-"`

	// Event, OrderID, Status, StatusDescription, StatusCode, Amount and UserData are the document's fields. An empty
	// UserData is omitted.
	Event             paymentsvc.EventType  `json:"event"`
	OrderID           string                `json:"order_id"`
	Status            int64                 `json:"status"`
	StatusDescription paymentsvc.StatusName `json:"status_description"`
	StatusCode        int64                 `json:"status_code"`
	Amount            paymentsvc.Amount     `json:"amount"`
	UserData          string                `json:"user_data,omitempty"`
}

// String returns the notification on one line.
func (n Notification) String() string {
	return fmt.Sprintf("%s %s %s for user_data %q, %s", n.Event, n.OrderID, n.Amount, n.UserData, n.StatusDescription)
}

// body returns compact JSON with one space before "order_id". No encoder writes this form, so a test detects a
// receiver that encodes the parsed body again and verifies the result.
func (n Notification) body() []byte {
	return bytes.Replace(encode(n), []byte(`,"order_id"`), []byte(`, "order_id"`), 1)
}

// Receiver is the destination of notifications. The zero value receives none.
type Receiver struct {
	address   string
	handler   http.Handler
	transport http.RoundTripper // nil for the server's transport
	choose    func(Notification) Receiver
}

// ToEach chooses a receiver for each notification, for example by its project and its event. choose must not call the
// server.
func ToEach(choose func(Notification) Receiver) Receiver { return Receiver{choose: choose} }

// ToURL sends notifications to an address by HTTP. It does not follow redirects, and waits at most 10 seconds.
func ToURL(address string) Receiver { return Receiver{address: address} }

// Via returns the receiver with a transport, for example a recorder. Deliver and Send pass their context and signed
// requests to the transport. Via has no effect on [ToHandler] and [ToEach].
func (r Receiver) Via(transport http.RoundTripper) Receiver {
	r.transport = transport
	return r
}

// ToHandler passes notifications to h, as requests for a path such as "/notifications". h runs on the goroutine of
// Deliver or Send, so h has returned before Deliver or Send returns. ToHandler recovers only the panic
// [http.ErrAbortHandler].
func ToHandler(h http.Handler, path string) Receiver {
	return Receiver{handler: h, address: (&url.URL{Scheme: "http", Host: "partner.example", Path: path}).String()}
}

func (r Receiver) nowhere() bool { return r.address == "" && r.choose == nil }

// of returns the receiver of a notification.
func (r Receiver) of(n Notification) Receiver {
	for r.choose != nil {
		r = r.choose(n)
	}
	return r
}

// SetReceiver sets the receiver of later deliveries.
func (s *Server) SetReceiver(r Receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receiver = r
}

// outboxEntry is a notification in the outbox.
type outboxEntry struct {
	Notification
	attempts int
	number   int              // of the notification, in the order of the calls of post
	effects  *deliveryEffects // nil until the faults are chosen
	faults   []string
}

// Settle moves an order to a status, updates the balances, and puts the notification into the outbox for
// [Server.Deliver]. It returns an error for another status if a payment, form or invoice is in SUCCESS or FAILURE,
// because the document specifies no such change. Payouts can move to every status. Other errors are an unknown order, a
// status without Config.Numbers, and a balance with too many digits.
func (s *Server) Settle(orderID string, status paymentsvc.StatusName) (Notification, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.books.settle(orderID, status)
	if err != nil {
		return Notification{}, fmt.Errorf("paymentsvctest: Settle: %w", err)
	}
	return s.post(o.notification(o.Status, o.Numbers)), nil
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

// Seed enters an order. It assigns Number and Numbers. An empty OrderID gets a new id, and an empty Status is PENDING.
// Seed does not notify, and does not call Config.Check and Config.OnStart. It returns an error for an amount of 0 or
// less, an unknown kind or project, a duplicate OrderID, a status without Config.Numbers, or a balance with too many
// digits.
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

// Refund puts a refund.status_changed with the order_id of a payment, form or invoice into the outbox. If status is
// SUCCESS, it also refunds amount. The document specifies no call for a refund (section 4.8), so only the service can
// start a refund. Refund returns an error for an unknown order, a payout, an order not in SUCCESS, an amount of 0 or
// less or above the unrefunded part, a status without Config.Numbers, and a balance with too many digits.
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

// Compose returns the notification for the change of an order to status, but does not change the order. Send the
// notification with [Server.Send], for example as a late PENDING. Only an unknown order is an error of Compose.
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

// post puts a notification into the outbox. The caller holds the lock.
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

// NotificationFault is a fault of a notification. The zero value has no effect.
type NotificationFault struct {
	text  string
	apply func(*deliveryEffects)
}

// String returns the text that [ParseNotificationFault] reads.
func (f NotificationFault) String() string { return f.text }

// deliveryEffects is the combination of the faults of one notification.
type deliveryEffects struct {
	pendingFaults
	lost      bool
	delay     int // further calls of Deliver to skip
	reorder   bool
	waited    bool // at the end of the outbox, for Reordered
	forge     bool
	oldSecret bool
	unsigned  bool
	altered   bool
	skew      time.Duration
	cut       func(size int) int // nil for whole notifications
	repeat    int                // the number of duplicates
}

// add adds the faults of a rule. r is nil for Chaos and Send. Of different faults of one kind, the last fault applies.
func (e *deliveryEffects) add(r *Rule, faults []NotificationFault) {
	addAll(&e.pendingFaults, r, faults, func(f NotificationFault) (kind, text string) {
		if f.apply != nil {
			f.apply(e)
		}
		kind, _, _ = strings.Cut(f.text, " ")
		if kind == "late" || kind == "early" {
			kind = "skewed" // late and early exclude each other
		}
		return kind, f.text
	})
}

// Lost does not send the notification, and counts as a failed attempt. It does not prevent the forgery of [Forged].
func Lost() NotificationFault {
	return NotificationFault{"lost", func(e *deliveryEffects) { e.lost = true }}
}

// RepeatedBy sends the notification and n duplicates with the same body.
func RepeatedBy(n int) NotificationFault {
	return NotificationFault{"repeated " + strconv.Itoa(n), func(e *deliveryEffects) { e.repeat = n }}
}

// Reordered swaps the notification with the next notification in the same call of Deliver. The last notification of a
// call waits for one more call.
func Reordered() NotificationFault {
	return NotificationFault{"reordered", func(e *deliveryEffects) { e.reorder = true }}
}

// Delayed keeps the notification in the outbox for n calls of Deliver.
func Delayed(n int) NotificationFault {
	return NotificationFault{"delayed " + strconv.Itoa(n), func(e *deliveryEffects) { e.delay = n }}
}

// Forged first sends a forgery, and then the genuine notification. The forgery claims SUCCESS, or FAILURE instead of
// SUCCESS. It is signed with an unknown key. Other faults do not affect the forgery.
func Forged() NotificationFault {
	return NotificationFault{"forged", func(e *deliveryEffects) { e.forge = true }}
}

// SignedWithOldSecret signs the notification with Project.OldSecret. Without an OldSecret, the [Delivery] has an error.
func SignedWithOldSecret() NotificationFault {
	return NotificationFault{"old-secret", func(e *deliveryEffects) { e.oldSecret = true }}
}

// Unsigned sends the notification without a signature header.
func Unsigned() NotificationFault {
	return NotificationFault{"unsigned", func(e *deliveryEffects) { e.unsigned = true }}
}

// Altered changes the last digit of the body after signing. If the scheme does not sign that digit, the [Delivery]
// has an error instead.
func Altered() NotificationFault {
	return NotificationFault{"altered", func(e *deliveryEffects) { e.altered = true }}
}

// Late signs the notification with a timestamp in the past.
func Late(by time.Duration) NotificationFault {
	return NotificationFault{"late " + by.String(), func(e *deliveryEffects) { e.skew = -by }}
}

// Early signs the notification with a timestamp in the future.
func Early(by time.Duration) NotificationFault {
	return NotificationFault{"early " + by.String(), func(e *deliveryEffects) { e.skew = by }}
}

// CutAt closes the connection after n bytes of a longer body.
func CutAt(n int) NotificationFault {
	return NotificationFault{"cut " + strconv.Itoa(n), func(e *deliveryEffects) { e.cut = func(int) int { return n } }}
}

// AllNotificationFaults returns every fault with moderate values, except SignedWithOldSecret, because it needs an
// OldSecret.
func AllNotificationFaults() []NotificationFault {
	return []NotificationFault{
		Lost(), RepeatedBy(2), Reordered(), Delayed(1), Forged(), Unsigned(), Altered(), Late(time.Hour), Early(time.Hour),
		CutAt(20),
	}
}

// ParseNotificationFault parses the text of [NotificationFault.String], such as "repeated 2" or "late 5m". Four values
// are optional: "late" and "early" shift by an hour, "repeated" sends one duplicate, and "cut" sends half of the body.
func ParseNotificationFault(text string) (NotificationFault, error) {
	p := parser{left: text}
	return parse(&p, map[string]func() NotificationFault{
		"lost":       Lost,
		"repeated":   func() NotificationFault { return RepeatedBy(optional(&p, 1, p.number)) },
		"reordered":  Reordered,
		"delayed":    func() NotificationFault { return Delayed(p.number()) },
		"forged":     Forged,
		"unsigned":   Unsigned,
		"altered":    Altered,
		"old-secret": SignedWithOldSecret,
		"late":       func() NotificationFault { return Late(optional(&p, time.Hour, p.seconds)) },
		"early":      func() NotificationFault { return Early(optional(&p, time.Hour, p.seconds)) },
		"cut": func() NotificationFault {
			half := func(e *deliveryEffects) { e.cut = func(size int) int { return size / 2 } }
			return optional(&p, NotificationFault{"cut", half}, func() NotificationFault { return CutAt(p.number()) })
		},
	})
}

// optional returns the result of the function read. At the end of the text, it returns the default instead.
func optional[V any](p *parser, absent V, read func() V) V {
	if p.ended() {
		return absent
	}
	return read()
}

// altered changes the last digit of a body. Every notification has a digit, and some schemes do not sign white space.
func altered(body []byte) []byte {
	changed := bytes.Clone(body)
	at := bytes.LastIndexAny(changed, "0123456789")
	changed[at] = '0' + (changed[at]-'0'+1)%10
	return changed
}

// cutReader returns a reader of body, or of its first bytes followed by an error.
func cutReader(body []byte, cut func(size int) int) io.Reader {
	if cut == nil || cut(len(body)) >= len(body) {
		return bytes.NewReader(body)
	}
	return io.MultiReader(bytes.NewReader(body[:cut(len(body))]), iotest.ErrReader(errCut))
}
