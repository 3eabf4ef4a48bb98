package paymentsvc

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// AnyAge as WebhookConfig.Tolerance accepts a notification however old or new its timestamp is. A notification
// that was recorded once can then be played again for ever, so Notification.Key has to stop it.
const AnyAge time.Duration = -1

// WebhookConfig configures a Webhook.
type WebhookConfig struct {
	// Scheme is required. Its Canonical sees messages of KindNotification.
	Scheme Scheme
	// Secrets are the project secret keys that are accepted, one at least: during a rotation the new and the
	// old one.
	Secrets []Secret
	// Tolerance is how far the timestamp may be from the local clock, into the past and the future, in whole
	// seconds. The interface document does not show it (section 5), so it has no default: choose one, or
	// AnyAge.
	Tolerance time.Duration
	// MaxBodyBytes limits the body that ParseRequest and Handler read; 0 means 64 KiB.
	MaxBodyBytes int64
	// Now gives the time to compare timestamps with; nil means time.Now.
	Now func() time.Time
	// Respond, when set, writes Handler's response; err is nil for a notification that was handled. The
	// response that the service expects is not shown (section 6). See Handler for what nil does.
	Respond func(w http.ResponseWriter, r *http.Request, err error)
}

// Webhook verifies and reads the notifications of section 6. Make it with NewWebhook; it is safe for concurrent
// use.
type Webhook struct {
	// The keys are reachable only through a function, which fmt and reflect cannot look into.
	verify    func(m Message, signature string) (secretIndex int, err error)
	tolerance time.Duration
	maxBody   int64
	now       func() time.Time
	respond   func(w http.ResponseWriter, r *http.Request, err error)
}

// NewWebhook checks c and makes a Webhook. Errors wrap ErrInvalidRequest and name the field.
func NewWebhook(c WebhookConfig) (*Webhook, error) {
	a, err := newAuthenticator(c.Scheme, c.Secrets)
	switch {
	case err != nil:
	case len(c.Secrets) == 0:
		err = invalid("Secrets", "empty")
	case c.Tolerance == 0:
		err = invalid("Tolerance", "not set; the interface document does not show it, so choose one, or AnyAge")
	case c.Tolerance < 0 && c.Tolerance != AnyAge:
		err = invalid("Tolerance", "negative")
	case c.MaxBodyBytes < 0:
		err = invalid("MaxBodyBytes", "negative")
	}
	if err != nil {
		return nil, fmt.Errorf("paymentsvc: WebhookConfig: %w", err)
	}
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = 64 << 10
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Webhook{
		verify:    a.verify,
		tolerance: c.Tolerance,
		maxBody:   c.MaxBodyBytes,
		now:       c.Now,
		respond:   c.Respond,
	}, nil
}

// Verify says whether the service signed this header and body, and recently enough. body must be the bytes as
// they arrived: the same JSON written anew has another signature. Message.Method is POST and Message.URL nil
// for the Scheme.
//
// Errors wrap ErrMissingHeader, ErrMalformedHeader, ErrEmptyBody, ErrSignatureMismatch, ErrTimestampTooOld,
// ErrTimestampTooNew or what Scheme.Canonical returned. The age is judged only once the signature is right.
func (w *Webhook) Verify(h http.Header, body []byte) error {
	_, _, err := w.authenticate(Message{Method: http.MethodPost, Header: h, Body: body})
	return err
}

// Parse is Verify and then reads the body. It fits every framework: it wants no more than header and body, and
// keeps neither. A body with a right signature that is no notification is a *NotificationError.
func (w *Webhook) Parse(h http.Header, body []byte) (*Notification, error) {
	n, err := w.parse(Message{Method: http.MethodPost, Header: h, Body: body})
	if err != nil {
		return nil, err
	}
	n.Raw = bytes.Clone(body) // frameworks reuse their buffers
	return n, nil
}

// ParseRequest is Parse for a request of net/http. It reads the body, at most WebhookConfig.MaxBodyBytes of it
// or ErrBodyTooLarge, and puts it back, so that it can be read again. Message.URL is the address that was asked
// for, also where a router has shortened r.URL.
func (w *Webhook) ParseRequest(r *http.Request) (*Notification, error) {
	if w == nil || w.verify == nil {
		return nil, notificationError(errNotMade)
	}
	body, err := readBody(r, w.maxBody)
	if err != nil {
		return nil, notificationError(err)
	}
	n, err := w.parse(Message{Method: r.Method, URL: requestedURL(r), Header: r.Header, Body: body})
	if err != nil {
		return nil, err
	}
	n.Raw = body
	return n, nil
}

// Handler gives the notifications that pass ParseRequest to fn, with the request's context, and answers 200
// when fn returns nil and 500 when it returns an error. fn must expect the same notification again, and old
// states after new ones: see Notification.Key and StatusName.Final.
//
// What does not pass is answered 401 for its headers, signature or age, 400 for its body, 413 for a body over
// WebhookConfig.MaxBodyBytes, of which no more is read, and 405 for a method other than POST. These answers are
// this package's choice, since the document shows none; WebhookConfig.Respond replaces them. A panic of fn is
// left to net/http.
func (w *Webhook) Handler(fn func(ctx context.Context, n *Notification) error) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		status, err := w.handle(rw, r, fn)
		switch {
		case w != nil && w.respond != nil:
			w.respond(rw, r, err)
		case err != nil:
			http.Error(rw, http.StatusText(status), status)
		}
	})
}

func (w *Webhook) handle(rw http.ResponseWriter, r *http.Request, fn func(context.Context, *Notification) error) (status int, err error) {
	if fn == nil {
		return http.StatusInternalServerError, notificationError(invalid("fn", "nil"))
	}
	if r.Method != http.MethodPost {
		rw.Header().Set("Allow", http.MethodPost)
		return http.StatusMethodNotAllowed, notificationError(ErrMethodNotAllowed)
	}
	n, err := w.ParseRequest(r)
	if errors.Is(err, ErrBodyTooLarge) {
		rw.Header().Set("Connection", "close") // or the server would read on to the end of the body
	}
	if err != nil {
		return statusOf(err), err
	}
	if err := fn(r.Context(), n); err != nil {
		return http.StatusInternalServerError, err
	}
	return http.StatusOK, nil
}

// statusOf gives Handler's answer to a notification that did not pass.
func statusOf(err error) int {
	switch {
	case errors.Is(err, ErrBodyTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, ErrMalformedNotification), errors.Is(err, ErrEmptyBody), errors.Is(err, errUnreadable):
		return http.StatusBadRequest
	case errors.Is(err, errNotMade):
		return http.StatusInternalServerError
	default:
		return http.StatusUnauthorized
	}
}

// Format writes a placeholder under every verb.
func (w *Webhook) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "Webhook{"+redacted+"}") }

// EventType says what a notification is about (section 6).
type EventType string

// The events of section 6.
const (
	EventPaymentStatusChanged EventType = "payment.status_changed"
	EventPayoutStatusChanged  EventType = "payout.status_changed"
	EventRefundStatusChanged  EventType = "refund.status_changed"
)

// Known says whether e is an event that the document shows. Others are read all the same.
func (e EventType) Known() bool {
	return e == EventPaymentStatusChanged || e == EventPayoutStatusChanged || e == EventRefundStatusChanged
}

// Notification is what the service tells of a payment, payout or refund (section 6). The document says nothing
// of order and repetition, so expect a notification more than once, and an older state after a newer one.
type Notification struct {
	// Event says what changed. It may be one that the document does not show.
	Event EventType
	// OrderID is never empty.
	OrderID string
	// Status and StatusCode are numbers whose values are not shown (section 3).
	Status int64
	// StatusDescription is the status by name. It may be one that the document does not show.
	StatusDescription StatusName
	StatusCode        int64
	// Amount is always set.
	Amount Amount
	// UserData is the partner's own identifier, "" when the service gives none.
	UserData string
	// Timestamp is the timestamp header, of which the signature vouches as far as the Scheme includes it.
	Timestamp time.Time
	// SecretIndex is the index in WebhookConfig.Secrets of the secret that matched.
	SecretIndex int
	// Raw is the whole body.
	Raw json.RawMessage
}

func (n *Notification) fields() []jsonobject.Field {
	return []jsonobject.Field{
		{Name: "event", Into: (*string)(&n.Event), Need: jsonobject.Filled},
		{Name: "order_id", Into: &n.OrderID, Need: jsonobject.Filled},
		{Name: "status", Into: &n.Status, Need: jsonobject.Required},
		{Name: "status_description", Into: (*string)(&n.StatusDescription), Need: jsonobject.Filled},
		{Name: "status_code", Into: &n.StatusCode, Need: jsonobject.Required},
		{Name: "amount", Into: &n.Amount, Need: jsonobject.Required},
		{Name: "user_data", Into: &n.UserData},
	}
}

// Key identifies the state that a notification tells of: the same for a repetition, however late and whatever
// its timestamp, and another for another event, order, status, amount or user_data. It is 64 characters of
// hexadecimal, made for a unique index, and stays the same in all releases of this major version.
func (n *Notification) Key() string {
	amount := n.Amount.String()
	if strings.Contains(amount, ".") {
		amount = strings.TrimRight(strings.TrimRight(amount, "0"), ".")
	}
	state := fmt.Appendf(nil, "%q %q %d %q %d %s %q",
		n.Event, n.OrderID, n.Status, n.StatusDescription, n.StatusCode, amount, n.UserData)
	sum := sha256.Sum256(state)
	return hex.EncodeToString(sum[:])
}

// NotificationError is a body with a right signature that is not what section 6 shows: the service sent it, so
// it is no forgery. errors.Is finds ErrMalformedNotification.
type NotificationError struct {
	// Raw is the body.
	Raw []byte
	// Err names the field and what is wrong with it.
	Err error
}

// Error holds nothing of the body.
func (e *NotificationError) Error() string {
	return fmt.Sprintf("paymentsvc: %v: %v", ErrMalformedNotification, e.Err)
}

// Unwrap gives ErrMalformedNotification and Err.
func (e *NotificationError) Unwrap() []error { return []error{ErrMalformedNotification, e.Err} }

// Format writes the text of Error under every verb: %#v and %x would otherwise spell out Raw.
func (e NotificationError) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

// MarshalJSON writes the text of Error and not Raw.
func (e NotificationError) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"error": e.Error()})
}

var errUnreadable = errors.New("the body cannot be read")

// authenticate checks the headers, the signature and then the age of m.
func (w *Webhook) authenticate(m Message) (secretIndex int, at time.Time, err error) {
	fail := func(err error) (int, time.Time, error) { return 0, time.Time{}, notificationError(err) }
	if w == nil || w.verify == nil {
		return fail(errNotMade)
	}
	timestamp, signature, err := onlyValues(m.Header)
	if err != nil {
		return fail(err)
	}
	at, err = parseTimestamp(timestamp)
	if err != nil {
		return fail(err)
	}
	if len(m.Body) == 0 {
		return fail(ErrEmptyBody)
	}
	m.Kind, m.Timestamp = KindNotification, timestamp
	secretIndex, err = w.verify(m, signature)
	if err != nil {
		return fail(err)
	}
	if err := w.checkAge(at); err != nil {
		return fail(err)
	}
	return secretIndex, at, nil
}

func (w *Webhook) checkAge(at time.Time) error {
	if w.tolerance == AnyAge {
		return nil
	}
	now := time.Unix(w.now().Unix(), 0) // timestamps have whole seconds, so ages have too
	switch age := now.Sub(at); {
	case age > w.tolerance:
		return fmt.Errorf("%w: %s, where %s is tolerated", ErrTimestampTooOld, age, w.tolerance)
	case -age > w.tolerance:
		return fmt.Errorf("%w: %s ahead, where %s is tolerated", ErrTimestampTooNew, -age, w.tolerance)
	}
	return nil
}

// parse authenticates m and reads its body, all but Raw.
func (w *Webhook) parse(m Message) (*Notification, error) {
	secretIndex, at, err := w.authenticate(m)
	if err != nil {
		return nil, err
	}
	n := &Notification{Timestamp: at, SecretIndex: secretIndex}
	if err := jsonobject.Decode(m.Body, n.fields()); err != nil {
		return nil, &NotificationError{Raw: bytes.Clone(m.Body), Err: err}
	}
	return n, nil
}

func notificationError(err error) error { return fmt.Errorf("paymentsvc: notification: %w", err) }

// onlyValues gives the one value of either header. A name counts in any case, for headers that did not come
// through net/http, and so does a second value under another spelling of it. The names are looked for together,
// since the way through all of a header takes longer than the rest of its checks.
func onlyValues(h http.Header) (timestamp, signature string, err error) {
	var timestamps, signatures int
	for key, values := range h {
		switch {
		case isName(key, headerTimestamp):
			for _, timestamp = range values {
				timestamps++
			}
		case isName(key, headerSignature):
			for _, signature = range values {
				signatures++
			}
		}
	}
	if err := checkOnly(headerTimestamp, timestamp, timestamps); err != nil {
		return "", "", err
	}
	return timestamp, signature, checkOnly(headerSignature, signature, signatures)
}

func isName(key, name string) bool {
	return key == name || len(key) == len(name) && strings.EqualFold(key, name)
}

func checkOnly(name, value string, found int) error {
	if found == 1 && value != "" {
		return nil
	}
	name = strings.ToLower(name)
	switch found {
	case 0:
		return fmt.Errorf("%w: %s", ErrMissingHeader, name)
	case 1:
		return fmt.Errorf("%w: %s: empty", ErrMalformedHeader, name)
	default:
		return fmt.Errorf("%w: %s: %d values, exactly one may be", ErrMalformedHeader, name, found)
	}
}

// maxTimestamp is the last second of the year 9999. What lies beyond is not in seconds.
const maxTimestamp = 253402300799

// parseTimestamp reads Unix seconds: ASCII digits and nothing else.
func parseTimestamp(text string) (time.Time, error) {
	var seconds int64
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return time.Time{}, fmt.Errorf("%w: timestamp: not digits", ErrMalformedHeader)
		}
		if seconds <= maxTimestamp { // beyond, more digits change nothing
			seconds = seconds*10 + int64(text[i]-'0')
		}
	}
	if seconds > maxTimestamp {
		return time.Time{}, fmt.Errorf("%w: timestamp: too large for Unix seconds", ErrMalformedHeader)
	}
	return time.Unix(seconds, 0), nil
}

// readBody reads a body of at most limit bytes and puts back what it has read, in front of what it has not.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil // ErrEmptyBody, once the headers have been looked at
	}
	if r.ContentLength > limit {
		return nil, ErrBodyTooLarge
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, 64<<10)) + bytes.MinRead) // a declared length is only a hint
	}
	original := r.Body
	_, err := buf.ReadFrom(io.LimitReader(original, min(limit, math.MaxInt64-1)+1))
	body := buf.Bytes()
	tooLarge := int64(len(body)) > limit

	read := io.Reader(bytes.NewReader(body))
	if err != nil || tooLarge {
		read = io.MultiReader(read, original)
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{read, original}

	switch {
	case tooLarge:
		return nil, ErrBodyTooLarge
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return body, nil
}

// requestedURL is the address as it was asked for. Routers shorten r.URL, but the service signed the whole; the
// host stands apart from it in a request.
func requestedURL(r *http.Request) *url.URL {
	asked, err := url.ParseRequestURI(r.RequestURI)
	if err != nil { // a request that no server has read has no RequestURI
		if r.URL == nil {
			return nil
		}
		copied := *r.URL
		asked = &copied
	}
	asked.Host = cmp.Or(asked.Host, r.Host)
	return asked
}
