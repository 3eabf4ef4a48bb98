package paymentsvc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
	"github.com/paymentsvc/paymentsvc/internal/timestamp"
)

// AnyAge is a [WebhookConfig].Tolerance that accepts notifications of any age. Recorded notifications can then be
// replayed forever, so reject duplicates by [Notification.Key].
const AnyAge time.Duration = -1

// WebhookConfig configures a [Webhook].
type WebhookConfig struct {
	// Scheme is required. Its Canonical receives messages of [KindNotification].
	Scheme Scheme
	// Secrets are the accepted project secret keys. At least one is required. During a key rotation, list both keys.
	// A key that is text must not begin with a byte order mark or end in a line break.
	Secrets []Secret
	// SecretEndsInLineBreak accepts text with a line break at the end, for a service with such a key.
	SecretEndsInLineBreak bool
	// Tolerance limits the difference between the timestamp and the local clock, in both directions. It is in whole
	// seconds, at least one, or [AnyAge]. It is required, because the interface document specifies no value (section
	// 5).
	Tolerance time.Duration
	// MaxBodyBytes limits the body in ParseRequest and Handler. The default is 64 KiB.
	MaxBodyBytes int64
	// Now returns the current time. The default is time.Now.
	Now func() time.Time
	// OnError, if set, is called by Handler for every unhandled request before the response, but not after a panic. err
	// is the error of ParseRequest, [ErrMethodNotAllowed], or the error of your function or of OnUnreadable. The text
	// of ParseRequest's error has no bytes of the body. OnError must be safe for concurrent use. Without OnError and
	// Respond, Handler hides these errors.
	OnError func(r *http.Request, err error)
	// OnUnreadable, if set, is called by Handler for a genuine notification with an invalid body. Let it store the
	// bytes for a review, because the document does not specify redelivery. If it returns nil, the notification counts
	// as handled. If it returns an error, the response is 500. Without OnUnreadable, the response is 400.
	OnUnreadable func(ctx context.Context, e *NotificationError) error
	// Respond, if set, writes Handler's response. The response that the service expects is not specified (section 6).
	// err is nil for a handled notification, and otherwise the error that OnError gets. [Webhook.Handler] has the
	// defaults.
	Respond func(w http.ResponseWriter, r *http.Request, err error)
}

// Format writes a placeholder under every verb.
func (c WebhookConfig) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "WebhookConfig{"+redacted+"}")
}

// Webhook verifies and parses the notifications of section 6. Create it with [NewWebhook]. It is safe for concurrent
// use.
type Webhook struct {
	// The keys are behind a function, because fmt and reflect cannot read the variables of a function.
	authenticator func() *authenticator
	tolerance     time.Duration
	maxBody       int64
	now           func() time.Time
	onError       func(r *http.Request, err error)
	onUnreadable  func(ctx context.Context, e *NotificationError) error
	respond       func(w http.ResponseWriter, r *http.Request, err error)
}

// NewWebhook returns a [Webhook] for c. Errors wrap [ErrInvalidRequest] and contain the field's name.
func NewWebhook(c WebhookConfig) (*Webhook, error) {
	a, err := newAuthenticator(c.Scheme, c.Secrets, c.SecretEndsInLineBreak)
	switch {
	case err != nil:
	case len(c.Secrets) == 0:
		err = invalid("Secrets", "empty")
	case c.Tolerance == 0:
		err = invalid("Tolerance", "not set; the interface document does not specify it, so choose one, or AnyAge")
	case c.Tolerance < 0 && c.Tolerance != AnyAge:
		err = invalid("Tolerance", "negative")
	case c.Tolerance > 0 && c.Tolerance%time.Second != 0:
		err = invalid("Tolerance", "not whole seconds, the unit of timestamps; write a unit, such as 5 * time.Minute")
	case c.MaxBodyBytes < 0:
		err = invalid("MaxBodyBytes", "negative")
	}
	if err != nil {
		return nil, fmt.Errorf("paymentsvc: WebhookConfig: %w", err)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Webhook{
		authenticator: func() *authenticator { return a },
		tolerance:     c.Tolerance,
		maxBody:       cmp.Or(c.MaxBodyBytes, 64<<10),
		now:           c.Now,
		onError:       c.OnError,
		onUnreadable:  c.OnUnreadable,
		respond:       c.Respond,
	}, nil
}

// Verify returns nil if the service signed this header and body recently. body must have the bytes as they arrived,
// because JSON encoded again has another signature. The [Scheme] gets a [Message] with method POST and no URL.
//
// Errors wrap [ErrMissingHeader], [ErrMalformedHeader], [ErrEmptyBody], [ErrSignatureMismatch], [ErrTimestampTooOld],
// [ErrTimestampTooNew] or the error of Scheme.Canonical. Verify checks the signature before the age.
func (w *Webhook) Verify(h http.Header, body []byte) error {
	_, _, err := w.authenticate(http.MethodPost, nil, h, body)
	return err
}

// Parse verifies like [Webhook.Verify], with its errors, and returns the notification. It suits every framework,
// because it needs only header and body; it keeps neither. If the body of a correctly signed notification is invalid,
// the error is a [*NotificationError].
func (w *Webhook) Parse(h http.Header, body []byte) (*Notification, error) {
	n, err := w.parse(http.MethodPost, nil, h, body)
	if err != nil {
		return nil, err
	}
	n.Raw = bytes.Clone(body) // frameworks reuse their buffers
	return n, nil
}

// ParseRequest is [Webhook.Parse] for a request of net/http. It reads at most [WebhookConfig].MaxBodyBytes, or returns
// [ErrBodyTooLarge], and restores the body. [Message].URL is the requested address, even after a router changed r.URL.
func (w *Webhook) ParseRequest(r *http.Request) (*Notification, error) {
	if w == nil || w.authenticator == nil {
		return nil, notificationError(errNoWebhook)
	}
	if r == nil {
		return nil, notificationError(invalid("request", "nil"))
	}
	body, err := readBody(r, w.maxBody)
	if err != nil {
		return nil, notificationError(err)
	}
	n, err := w.parse(r.Method, requestedURL(r), r.Header, body)
	if err != nil {
		return nil, err
	}
	n.Raw = body
	return n, nil
}

// Handler calls fn for every notification that passes [Webhook.ParseRequest], with the request's context. It responds
// with 200 if fn returns nil, and with 500 if fn fails. fn must expect duplicates, old states after new states, and
// refunds with the order_id of their payment: see [Notification.Key], [Notification.Final] and [Notification].Event.
//
// It rejects other requests: with 401 for headers, signature, age or an error of Scheme.Canonical, with 400 for the
// body (see [WebhookConfig].OnUnreadable), with 413 for a body over [WebhookConfig].MaxBodyBytes, and with 405 for a
// method other than POST. It leaves the rest of an oversized body unread. The document specifies no responses, so these
// are this package's choice; WebhookConfig.Respond replaces them. A panic of fn reaches net/http. If a middleware
// recovers it, the status is 500, unless the middleware changes it.
func (w *Webhook) Handler(fn func(ctx context.Context, n *Notification) error) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		responded := false
		defer func() {
			if !responded { // otherwise net/http writes 200 if a middleware recovers a panic
				rw.WriteHeader(http.StatusInternalServerError)
			}
		}()
		status, err := w.handle(rw, r, fn)
		if err != nil && w != nil && w.onError != nil {
			w.onError(r, err)
		}
		if w != nil && w.respond != nil {
			w.respond(rw, r, err)
		} else if err != nil {
			http.Error(rw, http.StatusText(status), status)
		}
		responded = true
	})
}

func (w *Webhook) handle(
	rw http.ResponseWriter, r *http.Request, fn func(context.Context, *Notification) error,
) (status int, err error) {
	if fn == nil {
		return http.StatusInternalServerError, notificationError(invalid("fn", "nil"))
	}
	if r.Method != http.MethodPost {
		rw.Header().Set("Allow", http.MethodPost)
		return http.StatusMethodNotAllowed, notificationError(ErrMethodNotAllowed)
	}
	n, err := w.ParseRequest(r)
	if errors.Is(err, ErrBodyTooLarge) {
		rw.Header().Set("Connection", "close") // otherwise the server reads the rest of the body
	}
	unreadable, ok := errors.AsType[*NotificationError](err)
	switch {
	case err == nil:
		err = fn(r.Context(), n)
	case ok && w.onUnreadable != nil:
		err = w.onUnreadable(r.Context(), unreadable)
	default:
		return statusOf(err), err
	}
	if err != nil {
		return http.StatusInternalServerError, err
	}
	return http.StatusOK, nil
}

// statusOf returns Handler's status for a rejected notification.
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

var (
	errUnreadable = errors.New("the body cannot be read")
	errNoWebhook  = fmt.Errorf("Webhook: %w: use NewWebhook", errNotMade)
)

// authenticate checks the headers, then that the body is not empty, then the signature, then the age.
func (w *Webhook) authenticate(
	method string, u *url.URL, h http.Header, body []byte,
) (secretIndex int, at time.Time, err error) {
	fail := func(err error) (int, time.Time, error) { return 0, time.Time{}, notificationError(err) }
	if w == nil || w.authenticator == nil {
		return fail(errNoWebhook)
	}
	text, signature, err := onlyValues(h)
	if err != nil {
		return fail(err)
	}
	at, err = timestamp.Parse(text)
	if err != nil {
		return fail(fmt.Errorf("%w: timestamp: %w", ErrMalformedHeader, err))
	}
	if len(body) == 0 {
		return fail(ErrEmptyBody)
	}
	a := w.authenticator()
	work := a.take()
	defer a.release(work)
	work.message = Message{
		Kind:      KindNotification,
		Method:    method,
		URL:       u,
		Header:    h,
		Timestamp: text,
		Body:      body,
	}
	secretIndex, err = a.verify(work, signature)
	if err != nil {
		return fail(inEncoding(err, h))
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
	now := w.now().Unix() // timestamps have whole seconds
	tolerated := int64(w.tolerance / time.Second)
	switch age := now - at.Unix(); {
	case age > tolerated:
		distance := timestamp.Distance(at, time.Unix(now, 0))
		return fmt.Errorf("%w: %s, tolerance %s", ErrTimestampTooOld, distance, w.tolerance)
	case -age > tolerated:
		distance := timestamp.Distance(time.Unix(now, 0), at)
		return fmt.Errorf("%w: %s ahead, tolerance %s", ErrTimestampTooNew, distance, w.tolerance)
	}
	return nil
}

// parse authenticates a notification and decodes its body. The caller sets Raw.
func (w *Webhook) parse(method string, u *url.URL, h http.Header, body []byte) (*Notification, error) {
	secretIndex, at, err := w.authenticate(method, u, h, body)
	if err != nil {
		return nil, err
	}
	n := &Notification{Timestamp: at, SecretIndex: secretIndex}
	n.Malformed, err = jsonobject.Decode(body, n.fields())
	if err != nil {
		return nil, &NotificationError{Raw: bytes.Clone(body), Err: inEncoding(err, h)}
	}
	return n, nil
}

func notificationError(err error) error { return fmt.Errorf("paymentsvc: notification: %w", err) }

// onlyValues returns the values of both headers. It ignores the letter case of names, because headers from other
// frameworks are not canonical. Two spellings of one name are two values.
func onlyValues(h http.Header) (timestamp, signature string, err error) {
	var timestamps, signatures found
	for key, values := range h {
		switch {
		case len(key) != len(headerTimestamp), len(values) == 0: // both names have the same length
		case isName(key, headerTimestamp):
			timestamps.add(values)
		case isName(key, headerSignature):
			signatures.add(values)
		}
	}
	if err := timestamps.check(headerTimestamp); err != nil {
		return "", "", err
	}
	return timestamps.value, signatures.value, signatures.check(headerSignature)
}

func isName(key, name string) bool {
	return key == name || strings.EqualFold(key, name)
}

// found collects the values of one header.
type found struct {
	value string
	count int
}

func (f *found) add(values []string) {
	f.value = values[0]
	f.count += len(values)
}

func (f *found) check(name string) error {
	if f.count == 1 && f.value != "" {
		return nil
	}
	name = strings.ToLower(name)
	switch f.count {
	case 0:
		return fmt.Errorf("%w: %s", ErrMissingHeader, name)
	case 1:
		return fmt.Errorf("%w: %s: empty", ErrMalformedHeader, name)
	default:
		return fmt.Errorf("%w: %s: %d values, want exactly 1", ErrMalformedHeader, name, f.count)
	}
}

// readBody reads a body of at most limit bytes. It restores r.Body: first the bytes that it read, then the rest.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil // ErrEmptyBody, after the check of the headers
	}
	if r.ContentLength > limit {
		return nil, ErrBodyTooLarge
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, 64<<10)) + bytes.MinRead) // the declared length is only a hint
	}
	original := r.Body
	_, err := buf.ReadFrom(io.LimitReader(original, min(limit, math.MaxInt64-1)+1))
	body := buf.Bytes()
	_, cutOff := errors.AsType[*http.MaxBytesError](err) // a middleware has a lower limit
	tooLarge := cutOff || int64(len(body)) > limit
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

// requestedURL returns the address as requested. Routers shorten r.URL, but the service signed the whole address.
func requestedURL(r *http.Request) *url.URL {
	requested, err := url.ParseRequestURI(r.RequestURI)
	switch { // only requests read by a server have a RequestURI
	case err != nil && r.URL == nil:
		return nil
	case err != nil:
		requested = new(*r.URL)
	}
	requested.Host = cmp.Or(r.Host, requested.Host) // a middleware may have set r.Host
	return requested
}
