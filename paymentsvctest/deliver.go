package paymentsvctest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/internal/transport"
)

// Delivery is an attempt to send a notification.
type Delivery struct {
	// Notification is the notification of the attempt.
	Notification Notification
	// Faults are the texts of the chosen faults. A forgery has only the text of [Forged]. Other deliveries lack this
	// text, unless the project is unknown.
	Faults []string
	// Forged reports whether the receiver must reject the notification, because it is a forgery, unsigned or altered.
	Forged bool
	// HTTPStatus is the status of the response, or 0 if there was no response.
	HTTPStatus int
	// Err is the reason for a missing response. Its text does not contain any part of a response.
	Err error
}

// Accepted reports whether the receiver responded with a 2xx. This rule is the choice of this package, because the
// document does not specify the response of the partner (section 6).
func (d Delivery) Accepted() bool { return d.HTTPStatus/100 == 2 }

// String returns the delivery on one line.
func (d Delivery) String() string {
	text := d.Notification.String()
	if d.Forged && slices.Contains(d.Faults, Forged().text) {
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

// Deliveries returns the attempts of Deliver and Send, the oldest first.
func (s *Server) Deliveries() []Delivery {
	list, _ := s.DeliveriesAfter(0)
	return list
}

// DeliveriesAfter returns the deliveries after the first n, and the number of all deliveries.
func (s *Server) DeliveriesAfter(n int) (list []Delivery, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deliveries.after(n)
}

// Deliver sends the notifications of the outbox in sequence, with the faults of the rules and Chaos, and returns the
// attempts. Without a 2xx to the whole, genuine body, a notification returns to the outbox, for at most NotifyAttempts
// attempts. The document specifies no retries, so only another call retries. Without a receiver Deliver has no effect.
func (s *Server) Deliver(ctx context.Context) []Delivery {
	due, receiver := s.due(ctx)
	var done []Delivery
	for i, l := range due {
		if ctx.Err() != nil || s.closed() {
			s.mu.Lock()
			s.outbox = append(due[i:], s.outbox...)
			s.mu.Unlock()
			break
		}
		l.attempts++
		whole := !l.effects.cuts(l.Notification)
		deliveries := s.send(ctx, receiver, l.Notification, l.effects, l.faults)
		done = append(done, deliveries...)
		s.tried(l, whole && slices.ContainsFunc(deliveries, func(d Delivery) bool { return d.Accepted() && !d.Forged }))
	}
	return done
}

// DeliverAll calls [Server.Deliver] until the outbox is empty, ctx ends, no receiver is set, or the server is closed.
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

// Send sends a notification at once, without the outbox and the rules. Delayed and Reordered have no effect.
func (s *Server) Send(ctx context.Context, n Notification, faults ...NotificationFault) []Delivery {
	s.mu.Lock()
	receiver := s.receiver
	s.mu.Unlock()
	e := &deliveryEffects{}
	e.add(nil, faults)
	return s.send(ctx, receiver, n, e, texts(faults))
}

// SendBody sends a body unchanged, without the outbox and the rules, and does not record a delivery. The function of
// [ToEach] gets a Notification with the fields found in the body. If header is nil, SendBody signs the body with the
// given time and the key of the project, and returns an error for an unknown project. It returns the HTTP status, or
// the reason for a missing response.
func (s *Server) SendBody(
	ctx context.Context, to Receiver, projectID int64, at time.Time, body []byte, header http.Header,
) (int, error) {
	n := Notification{ProjectID: projectID}
	_ = json.Unmarshal(body, &n) // the body may be no notification
	to = to.of(n)
	if to.nowhere() {
		return 0, errNoReceiver
	}
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

// tried keeps a notification for the next Deliver, unless the receiver accepted it or this was the last attempt.
func (s *Server) tried(l *outboxEntry, taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if taken {
		delete(s.untaken, l)
	}
	if !taken && l.attempts < s.cfg.NotifyAttempts {
		l.effects, l.faults = nil, nil
		s.outbox = append(s.outbox, l)
	}
}

// due removes the notifications to send now from the outbox, and returns them in their order with the receiver.
func (s *Server) due(ctx context.Context) ([]*outboxEntry, Receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.receiver.nowhere() || ctx.Err() != nil {
		return nil, Receiver{}
	}
	var due, later []*outboxEntry
	before := 0 // len(later) when the last entry became due
	for _, l := range s.outbox {
		if l.effects == nil {
			s.decide(l)
		}
		e := l.effects
		if e.delay > 0 {
			e.markApplied("delayed")
			e.delay--
			later = append(later, l)
			continue
		}
		due, before = append(due, l), len(later)
	}
	last := len(due) - 1
	for i := range last {
		if due[i].effects.reorder {
			due[i].effects.markApplied("reordered")
			due[i].effects.reorder = false
			due[i], due[i+1] = due[i+1], due[i]
		}
	}
	if last >= 0 && due[last].effects.reorder && !due[last].effects.waited {
		due[last].effects.waited = true
		due, later = due[:last], slices.Insert(later, before, due[last])
	}
	s.outbox = later
	return due, s.receiver
}

// decide chooses the faults of a notification.
func (s *Server) decide(l *outboxEntry) {
	l.effects, l.faults = &deliveryEffects{}, nil
	add := func(r *Rule, faults []NotificationFault) {
		l.effects.add(r, faults)
		l.faults = append(l.faults, texts(faults)...)
	}
	for _, r := range s.notifyRules {
		if r.On != "" && r.On != string(l.Event) || r.entries != nil && !r.entries(l.Notification) {
			continue
		}
		r.arrivals++
		if r.which.selects(r.arrivals) {
			add(r, r.notified)
		}
	}
	if s.chaos != nil {
		add(nil, pick(s.chaos, string(l.Event), s.chaos.NotificationFaults))
	}
}

var (
	errLost        = errors.New("lost on purpose")
	errNoOldSecret = errors.New("the project has no old secret to sign with")
	errNoReceiver  = errors.New("the notification has no receiver")
	errNoProject   = errors.New("no such project")
	errCut         = errors.New("cut on purpose")
	errNotSigned   = errors.New("the scheme does not sign the last digit of the body, the digit that Altered changes")
)

// send sends one notification with its faults, and records the attempts.
func (s *Server) send(
	ctx context.Context, to Receiver, n Notification, e *deliveryEffects, faults []string,
) []Delivery {
	to = to.of(n)
	p := s.project(n.ProjectID)
	if p == nil {
		return s.record(Delivery{Notification: n, Faults: faults, Err: errNoProject})
	}
	one := func(n Notification, secret paymentsvc.Secret, e *deliveryEffects) Delivery {
		d := Delivery{Notification: n, Faults: faults, Forged: e.unsigned || e.altered}
		switch {
		case to.nowhere():
			d.Err = errNoReceiver
		case secret == "":
			d.Err = errNoOldSecret
		case e.lost:
			d.Err = errLost
		default:
			d.HTTPStatus, d.Err = s.transmit(ctx, to, func(req *http.Request) (io.Reader, int, error) {
				body, err := s.sign(req, n.body(), secret, e)
				return cutReader(body, e.cut), len(body), err
			})
		}
		return d
	}
	var done []Delivery
	if e.forge {
		forged := one(s.forgery(n), "not "+p.Secret, &deliveryEffects{}) // without other faults
		forged.Forged, forged.Faults = true, []string{Forged().text}
		if forged.arrived() {
			s.markApplied(&e.pendingFaults, "forged")
		}
		done = append(done, forged)
		faults = slices.DeleteFunc(faults, func(text string) bool { return text == Forged().text })
	}
	secret, forgeries := p.Secret, len(done)
	if e.oldSecret {
		secret = p.OldSecret
	}
	for range 1 + max(e.repeat, 0) {
		done = append(done, one(n, secret, e))
		if ctx.Err() != nil || s.closed() {
			break
		}
	}
	s.count(done[forgeries:], e)
	return s.record(done...)
}

// arrived reports whether the receiver got at least a part of the notification.
func (d Delivery) arrived() bool { return d.Err == nil || errors.Is(d.Err, errCut) }

// cuts reports whether a fault omits the end of n.
func (e *deliveryEffects) cuts(n Notification) bool {
	if e.cut == nil {
		return false
	}
	size := len(n.body())
	return e.cut(size) < size
}

// count marks the faults that took effect, except Delayed, Reordered and Forged. done has the genuine deliveries.
func (s *Server) count(done []Delivery, e *deliveryEffects) {
	if errors.Is(done[0].Err, errLost) {
		s.markApplied(&e.pendingFaults, "lost")
	}
	arrived := 0
	for _, d := range done {
		if d.arrived() {
			arrived++
		}
	}
	if arrived == 0 {
		return
	}
	for kind, effective := range map[string]bool{
		"repeated":   e.repeat > 0 && arrived > e.repeat,
		"old-secret": e.oldSecret,
		"unsigned":   e.unsigned,
		"altered":    e.altered,
		"skewed":     e.skew.Abs() >= time.Second,
		"cut":        e.cuts(done[0].Notification),
	} {
		if effective {
			s.markApplied(&e.pendingFaults, kind)
		}
	}
}

// record keeps deliveries, and returns them.
func (s *Server) record(done ...Delivery) []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliveries.add(done...)
	return done
}

// forgery returns n with another status.
func (s *Server) forgery(n Notification) Notification {
	claim := paymentsvc.StatusSuccess
	if n.StatusDescription == claim {
		claim = paymentsvc.StatusFailure
	}
	numbers := s.cfg.Numbers[claim]
	n.StatusDescription, n.Status, n.StatusCode = claim, numbers.Status, numbers.StatusCode
	return n
}

// transmit sends a request to a receiver. prepare sets the request's header, and returns the body to send and the
// length to announce.
func (s *Server) transmit(
	ctx context.Context, to Receiver, prepare func(*http.Request) (io.Reader, int, error),
) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.address, nil)
	if err != nil {
		return 0, transport.ForLogs(err) // an address can contain a token
	}
	body, length, err := prepare(req)
	if err != nil {
		return 0, err
	}
	req.ContentLength, req.Body = int64(length), io.NopCloser(body) // no GetBody, so that net/http sends it once
	if to.handler != nil {
		return handle(to.handler, req)
	}
	client := http.Client{
		Transport:     cmp.Or[http.RoundTripper](to.transport, s.notifier),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, errCut):
		return 0, errors.Unwrap(err) // without the receiver's address
	case err != nil:
		return 0, transport.ForLogs(err) // the receiver can repeat the notification in an invalid response
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	_ = resp.Body.Close()
	return resp.StatusCode, nil
}

// sign sets the headers, without a signature for Unsigned, and returns the body to send.
func (s *Server) sign(req *http.Request, body []byte, secret paymentsvc.Secret, e *deliveryEffects) ([]byte, error) {
	m, signature, err := s.signed(req, s.cfg.Now().Add(e.skew), secret, body)
	if err != nil {
		return nil, err
	}
	if e.altered {
		m.Body = altered(body)
		if unchanged, err := s.cfg.Scheme.Signature(secret, m); err == nil && unchanged == signature {
			return nil, errNotSigned
		}
	}
	if !e.unsigned {
		req.Header.Set("Signature", signature)
	}
	return m.Body, nil
}

// signed sets the headers of a notification except the signature, and returns the signed message and the signature.
func (s *Server) signed(
	req *http.Request, at time.Time, secret paymentsvc.Secret, body []byte,
) (*paymentsvc.Message, string, error) {
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Timestamp", strconv.FormatInt(at.Unix(), 10))
	m := messageOf(paymentsvc.KindNotification, req, req.URL, body)
	signature, err := s.cfg.Scheme.Signature(secret, m)
	return m, signature, err
}
