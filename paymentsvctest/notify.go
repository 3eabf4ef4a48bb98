package paymentsvctest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Notification is the body of a notification, its fields in the document's order (section 6). Change what you
// like before Send: it is sent as it is.
type Notification struct {
	// ProjectID says whose secret signs it. It is not sent.
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

// String shows what a test's message wants.
func (n Notification) String() string {
	return fmt.Sprintf("%s %s %s for user_data %q, %s", n.Event, n.OrderID, n.Amount, n.UserData, n.StatusDescription)
}

// Receiver is where notifications go. The zero value is nowhere.
type Receiver struct {
	address string
	handler http.Handler
}

// ToURL sends notifications to an address by HTTP. Redirects are not followed, and an answer may take 10
// seconds.
func ToURL(address string) Receiver { return Receiver{address: address} }

// ToHandler hands notifications to h, as requests for a path such as "/notifications", on the goroutine of
// Deliver or Send: when these return, h has returned. A panic of h is not caught.
func ToHandler(h http.Handler, path string) Receiver {
	return Receiver{handler: h, address: (&url.URL{Scheme: "http", Host: "partner.example", Path: path}).String()}
}

func (r Receiver) nowhere() bool { return r.address == "" }

// SetReceiver says where notifications go from now on.
func (s *Server) SetReceiver(r Receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receiver = r
}

// letter is a notification in the outbox.
type letter struct {
	Notification
	attempts int
	wait     int              // calls of Deliver to pass by
	effects  *deliveryEffects // nil until it has been decided what goes wrong
	faults   []string
}

// Settle puts an order into another status, moves the balances, and puts the notification of it into the outbox.
// Deliver sends it. A payment, form or invoice in SUCCESS or FAILURE stays there, for the document shows no way
// out; what payouts can do is not shown, so they go everywhere. Other errors: there is no such order, status has no
// Config.Numbers, or the books cannot hold the sum.
func (s *Server) Settle(orderID string, status paymentsvc.StatusName) (Notification, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.books.settle(orderID, status)
	if err != nil {
		return Notification{}, fmt.Errorf("paymentsvctest: Settle: %w", err)
	}
	return s.post(o.notification(o.Status, o.Numbers)), nil
}

// Step moves every order one status further in what Config.Script said, as Settle does, in the order in which
// they were started. It gives the number of orders moved, and stops at the first error.
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

// Refund gives an amount of a payment, form or invoice back, if status is SUCCESS, and puts a
// refund.status_changed with the order's order_id into the outbox for any status. The document shows no call that
// starts a refund (section 4.8), so it is the service's doing. It is an error for the order not to be in SUCCESS, for
// amount to be more than what is left of it or not more than 0, and for status to have no Config.Numbers.
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

// Compose gives the notification that an order's change to status has or would have, and changes nothing: for
// Send, such as a PENDING that comes late. It is an error for the order not to be there.
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
	s.outbox = append(s.outbox, &letter{Notification: n})
	return n
}

// Outbox gives the notifications that wait for Deliver.
func (s *Server) Outbox() []Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Notification, 0, len(s.outbox))
	for _, l := range s.outbox {
		list = append(list, l.Notification)
	}
	return list
}

// NotificationFault is one thing that goes wrong with a notification. Its zero value is none.
type NotificationFault struct {
	text  string
	apply func(*deliveryEffects)
}

// String gives the fault as ParseNotificationFault reads it.
func (f NotificationFault) String() string { return f.text }

// deliveryEffects is what the faults of one notification come to.
type deliveryEffects struct {
	lost      bool
	delay     int
	reorder   bool
	forge     bool
	oldSecret bool
	skew      time.Duration
	cut       *int
	repeat    int
}

func combineNotified(faults []NotificationFault) *deliveryEffects {
	e := &deliveryEffects{}
	for _, f := range faults {
		if f.apply != nil {
			f.apply(e)
		}
	}
	return e
}

// Lost does not send the notification; it counts as an attempt that failed.
func Lost() NotificationFault {
	return NotificationFault{"lost", func(e *deliveryEffects) { e.lost = true }}
}

// RepeatedBy sends it n times more, with the same body.
func RepeatedBy(n int) NotificationFault {
	return NotificationFault{"repeated " + strconv.Itoa(n), func(e *deliveryEffects) { e.repeat = n }}
}

// Reordered sends it behind the one that follows it; where none follows, with the next Deliver.
func Reordered() NotificationFault {
	return NotificationFault{"reordered", func(e *deliveryEffects) { e.reorder = true }}
}

// Delayed leaves it in the outbox for n calls of Deliver.
func Delayed(n int) NotificationFault {
	return NotificationFault{"delayed " + strconv.Itoa(n), func(e *deliveryEffects) { e.delay = n }}
}

// Forged sends another one first, which claims SUCCESS, or FAILURE instead of SUCCESS, and is signed with a key
// that is nobody's.
func Forged() NotificationFault {
	return NotificationFault{"forged", func(e *deliveryEffects) { e.forge = true }}
}

// SignedWithOldSecret signs it with Project.OldSecret. Without one nothing is sent, and the Delivery says so.
func SignedWithOldSecret() NotificationFault {
	return NotificationFault{"old-secret", func(e *deliveryEffects) { e.oldSecret = true }}
}

// Skewed puts its timestamp off by skew, and signs that.
func Skewed(skew time.Duration) NotificationFault {
	return NotificationFault{"skewed " + skew.String(), func(e *deliveryEffects) { e.skew = skew }}
}

// CutAt breaks the connection behind n bytes of the body.
func CutAt(n int) NotificationFault {
	return NotificationFault{"cut " + strconv.Itoa(n), func(e *deliveryEffects) { at := max(n, 0); e.cut = &at }}
}

// AllNotificationFaults gives one of each with moderate values, but for SignedWithOldSecret, which needs an
// OldSecret.
func AllNotificationFaults() []NotificationFault {
	return []NotificationFault{
		Lost(), RepeatedBy(2), Reordered(), Delayed(1), Forged(), Skewed(-time.Hour), Skewed(time.Hour), CutAt(20),
	}
}

// ParseNotificationFault reads a fault as NotificationFault.String writes it, such as "repeated 2" or
// "skewed -1h". Anything else is an error.
func ParseNotificationFault(text string) (NotificationFault, error) {
	p := parser{left: text}
	var f NotificationFault
	switch name := p.word(); name {
	case "lost":
		f = Lost()
	case "repeated":
		f = RepeatedBy(p.number())
	case "reordered":
		f = Reordered()
	case "delayed":
		f = Delayed(p.number())
	case "forged":
		f = Forged()
	case "old-secret":
		f = SignedWithOldSecret()
	case "skewed":
		f = Skewed(p.duration())
	case "cut":
		f = CutAt(p.number())
	default:
		return NotificationFault{}, fmt.Errorf("%w: %q", errSyntax, name)
	}
	return f, p.end(text)
}

// Delivery is a notification that was sent, or was to be.
type Delivery struct {
	// Notification is what was sent, or was to be.
	Notification Notification
	// Faults is what went wrong with it on purpose.
	Faults []string
	// Forged says that it was not the service's.
	Forged bool
	// HTTPStatus is the receiver's answer, 0 without one.
	HTTPStatus int
	// Err is why there was none.
	Err error
}

// Accepted says whether the receiver answered with a 2xx. That this means "taken" is this package's choice: the
// document does not show the response that the partner must return (section 6).
func (d Delivery) Accepted() bool { return d.HTTPStatus/100 == 2 }

// String shows all of it on one line.
func (d Delivery) String() string {
	text := d.Notification.String()
	if d.Forged {
		text = "forged " + text
	}
	if len(d.Faults) > 0 {
		text += " (" + strings.Join(d.Faults, " + ") + ")"
	}
	if d.Err != nil {
		return text + ": " + d.Err.Error()
	}
	return fmt.Sprintf("%s: HTTP %d", text, d.HTTPStatus)
}

// Deliveries gives everything that Deliver and Send did, in its order.
func (s *Server) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deliveries)
}

// Deliver sends what is in the outbox, one after the other, with the faults that the rules and Chaos say, and
// gives what it did. What is not answered with a 2xx stays in the outbox until it has been tried
// Config.NotifyAttempts times; when a service tries again is not shown, so here it is the next Deliver. Without a
// receiver nothing happens.
func (s *Server) Deliver(ctx context.Context) []Delivery {
	due, receiver := s.due()
	var done []Delivery
	for i, l := range due {
		if ctx.Err() != nil || s.closed() {
			s.putBack(due[i:])
			break
		}
		l.attempts++
		deliveries := s.send(ctx, receiver, l.Notification, l.effects, l.faults)
		done = append(done, deliveries...)
		taken := func(d Delivery) bool { return d.Accepted() && !d.Forged }
		if !slices.ContainsFunc(deliveries, taken) && l.attempts < s.cfg.NotifyAttempts {
			l.effects, l.faults = nil, nil
			s.putBack([]*letter{l})
		}
	}
	return done
}

// DeliverAll calls Deliver until the outbox is empty or ctx is done.
func (s *Server) DeliverAll(ctx context.Context) []Delivery {
	var done []Delivery
	for ctx.Err() == nil && !s.closed() {
		done = append(done, s.Deliver(ctx)...)
		s.mu.Lock()
		finished := len(s.outbox) == 0 || s.receiver.nowhere()
		s.mu.Unlock()
		if finished {
			break
		}
	}
	return done
}

// Send sends a notification at once, past the outbox and the rules. Delayed and Reordered mean nothing here.
func (s *Server) Send(ctx context.Context, n Notification, faults ...NotificationFault) []Delivery {
	s.mu.Lock()
	receiver := s.receiver
	s.mu.Unlock()
	return s.send(ctx, receiver, n, combineNotified(faults), texts(faults))
}

func (s *Server) putBack(letters []*letter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outbox = append(s.outbox, letters...)
}

// due takes out of the outbox what is to be sent now.
func (s *Server) due() ([]*letter, Receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.receiver.nowhere() {
		return nil, Receiver{}
	}
	var due, later []*letter
	for i, l := range s.outbox {
		if l.effects == nil {
			s.decide(l)
			l.wait = l.effects.delay
			if l.effects.reorder && i == len(s.outbox)-1 {
				l.wait, l.effects.reorder = max(l.wait, 1), false
			}
		}
		if l.wait > 0 {
			l.wait--
			later = append(later, l)
			continue
		}
		due = append(due, l)
	}
	for i := 0; i+1 < len(due); i++ {
		if due[i].effects.reorder {
			due[i], due[i+1] = due[i+1], due[i]
			i++
		}
	}
	s.outbox = later
	return due, s.receiver
}

// decide finds out what goes wrong with a notification.
func (s *Server) decide(l *letter) {
	var faults []NotificationFault
	for _, r := range s.notifyRules {
		if r.On != "" && r.On != string(l.Event) {
			continue
		}
		r.arrivals++
		if r.which.strikes(r.arrivals) {
			r.hits++
			faults = append(faults, r.notified...)
		}
	}
	if s.chaos != nil {
		faults = append(faults, pick(s.chaos, string(l.Event), s.chaos.NotificationFaults)...)
	}
	l.effects, l.faults = combineNotified(faults), texts(faults)
}

var (
	errLost        = errors.New("lost on purpose")
	errNoOldSecret = errors.New("the project has no OldSecret to sign with")
	errNoReceiver  = errors.New("there is no receiver, see SetReceiver")
	errNoProject   = errors.New("no such project")
	errCut         = errors.New("cut on purpose")
)

// send does what the faults say of one notification, and keeps what became of it.
func (s *Server) send(ctx context.Context, to Receiver, n Notification, e *deliveryEffects, faults []string) []Delivery {
	p := s.project(n.ProjectID)
	one := func(n Notification, secret paymentsvc.Secret) Delivery {
		d := Delivery{Notification: n, Faults: faults}
		switch {
		case p == nil:
			d.Err = errNoProject
		case to.nowhere():
			d.Err = errNoReceiver
		case secret == "":
			d.Err = errNoOldSecret
		case e.lost:
			d.Err = errLost
		default:
			d.HTTPStatus, d.Err = s.transmit(ctx, to, n, secret, e)
		}
		return d
	}
	var done []Delivery
	if e.forge && p != nil {
		forged := one(s.forgery(n), "not "+p.Secret)
		forged.Forged = true
		done = append(done, forged)
	}
	var secret paymentsvc.Secret
	switch {
	case p == nil:
	case e.oldSecret:
		secret = p.OldSecret
	default:
		secret = p.Secret
	}
	for range 1 + max(e.repeat, 0) {
		done = append(done, one(n, secret))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliveries = append(s.deliveries, done...)
	return done
}

// forgery claims what is not so.
func (s *Server) forgery(n Notification) Notification {
	claim := paymentsvc.StatusSuccess
	if n.StatusDescription == claim {
		claim = paymentsvc.StatusFailure
	}
	numbers := s.cfg.Numbers[claim]
	n.StatusDescription, n.Status, n.StatusCode = claim, numbers.Status, numbers.StatusCode
	return n
}

// transmit signs a notification and brings it to its receiver.
func (s *Server) transmit(ctx context.Context, to Receiver, n Notification, secret paymentsvc.Secret, e *deliveryEffects) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	body := encode(n)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.address, io.NopCloser(cutReader(body, e.cut)))
	if err != nil {
		return 0, err
	}
	req.ContentLength = int64(len(body))
	timestamp := strconv.FormatInt(s.cfg.Now().Add(e.skew).Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Timestamp", timestamp)
	signature, err := s.cfg.Scheme.Signature(secret, &paymentsvc.Message{
		Kind:      paymentsvc.KindNotification,
		Method:    req.Method,
		URL:       req.URL,
		Header:    req.Header,
		Timestamp: timestamp,
		Body:      body,
	})
	if err != nil {
		return 0, err
	}
	req.Header.Set("Signature", signature)
	if to.handler != nil {
		return handle(to.handler, req)
	}
	client := http.Client{
		Transport:     s.notifier,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	_ = resp.Body.Close()
	return resp.StatusCode, nil
}

// cutReader reads body, or no more than its first bytes and then an error.
func cutReader(body []byte, at *int) io.Reader {
	if at == nil || *at >= len(body) {
		return bytes.NewReader(body)
	}
	return io.MultiReader(bytes.NewReader(body[:*at]), brokenReader{})
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errCut }

// handle gives a request to a handler the way a server would.
func handle(h http.Handler, req *http.Request) (status int, err error) {
	host := req.URL.Host
	req.RequestURI, req.Host, req.RemoteAddr = req.URL.RequestURI(), host, "192.0.2.1:1234"
	req.URL = &url.URL{Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery}
	w := &statusWriter{header: http.Header{}}
	defer func() {
		if stopped := recover(); stopped != nil {
			if stopped != http.ErrAbortHandler { //nolint:errorlint // net/http compares so too
				panic(stopped)
			}
			status, err = 0, http.ErrAbortHandler
		}
	}()
	h.ServeHTTP(w, req)
	if w.status == 0 {
		return http.StatusOK, nil
	}
	return w.status, nil
}

// statusWriter keeps the status of an answer and nothing else.
type statusWriter struct {
	header http.Header
	status int
}

func (w *statusWriter) Header() http.Header { return w.header }

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(b), nil
}
