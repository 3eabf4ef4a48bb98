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
)

// AnyAge as [WebhookConfig].Tolerance accepts a notification whatever its timestamp. A recorded notification can then be
// replayed forever, so [Notification.Key] has to stop it.
const AnyAge time.Duration = -1

// WebhookConfig configures a [Webhook].
type WebhookConfig struct {
	// Scheme is required. Its Canonical receives messages of [KindNotification].
	Scheme Scheme
	// Secrets are the project secret keys that are accepted, at least one: during a key rotation the new and the old
	// one. Text must neither begin with a byte order mark nor end in a line break.
	Secrets []Secret
	// SecretEndsInLineBreak accepts text that ends in a line break, for a service whose key really does.
	SecretEndsInLineBreak bool
	// Tolerance is how far the timestamp may be from the local clock, into the past and the future, in whole seconds, at
	// least one. The interface document does not show it (section 5), so it has no default: choose one, or [AnyAge].
	Tolerance time.Duration
	// MaxBodyBytes limits the body that ParseRequest and Handler read; 0 means 64 KiB.
	MaxBodyBytes int64
	// Now returns the time to compare timestamps with; nil means time.Now.
	Now func() time.Time
	// OnError, when set, is called by Handler for every notification that was not handled, before the response is
	// written. If neither OnError nor Respond is set, rejected notifications are silent. err is what ParseRequest returned,
	// whose text contains nothing of the body, or what the function returned. OnError must be safe for concurrent use.
	OnError func(r *http.Request, err error)
	// Respond, when set, writes Handler's response; err is nil for a notification that was handled, and the function's
	// own error where that failed. The response that the service expects is not shown (section 6). See [Webhook.Handler]
	// for what nil does.
	Respond func(w http.ResponseWriter, r *http.Request, err error)
}

// Format shows that secrets are there, and nothing of them.
func (c WebhookConfig) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "WebhookConfig{"+redacted+"}")
}

// Webhook verifies and parses the notifications of section 6. Create it with [NewWebhook]; it is safe for concurrent use.
type Webhook struct {
	// The keys are reachable only through a function, which fmt and reflect cannot look into.
	authenticator func() *authenticator
	tolerance     time.Duration
	maxBody       int64
	now           func() time.Time
	onError       func(r *http.Request, err error)
	respond       func(w http.ResponseWriter, r *http.Request, err error)
}

// NewWebhook returns a [Webhook] for c. Errors wrap [ErrInvalidRequest] and name the field.
func NewWebhook(c WebhookConfig) (*Webhook, error) {
	a, err := newAuthenticator(c.Scheme, c.Secrets, c.SecretEndsInLineBreak)
	switch {
	case err != nil:
	case len(c.Secrets) == 0:
		err = invalid("Secrets", "empty")
	case c.Tolerance == 0:
		err = invalid("Tolerance", "not set; the interface document does not show it, so choose one, or AnyAge")
	case c.Tolerance < 0 && c.Tolerance != AnyAge:
		err = invalid("Tolerance", "negative")
	case c.Tolerance > 0 && c.Tolerance%time.Second != 0:
		err = invalid("Tolerance", "not whole seconds, which timestamps have; write a unit, such as 5 * time.Minute")
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
		authenticator: func() *authenticator { return a },
		tolerance:     c.Tolerance,
		maxBody:       c.MaxBodyBytes,
		now:           c.Now,
		onError:       c.OnError,
		respond:       c.Respond,
	}, nil
}

// Verify returns an error unless the service signed this header and body, and recently enough. body must be the bytes as
// they arrived: the same JSON encoded again has another signature. For the [Scheme], [Message].Method is POST and URL is
// nil.
//
// Errors wrap [ErrMissingHeader], [ErrMalformedHeader], [ErrEmptyBody], [ErrSignatureMismatch], [ErrTimestampTooOld],
// [ErrTimestampTooNew] or what Scheme.Canonical returned. The age is checked only after the signature.
func (w *Webhook) Verify(h http.Header, body []byte) error {
	_, _, err := w.authenticate(http.MethodPost, nil, h, body)
	return err
}

// Parse is [Webhook.Verify], with its errors, and returns the notification. It works with every framework: it needs only
// header and body, and keeps neither. If the signature is correct but the body is no notification, the error is a
// [*NotificationError].
func (w *Webhook) Parse(h http.Header, body []byte) (*Notification, error) {
	n, err := w.parse(http.MethodPost, nil, h, body)
	if err != nil {
		return nil, err
	}
	n.Raw = bytes.Clone(body) // frameworks reuse their buffers
	return n, nil
}

// ParseRequest is [Webhook.Parse] for a request of net/http. It reads the body, at most [WebhookConfig].MaxBodyBytes of it
// or [ErrBodyTooLarge], and puts it back, so that it can be read again. [Message].URL is the address that was requested,
// even if a router has shortened r.URL.
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

// Handler calls fn with the notifications that pass [Webhook.ParseRequest] and the request's context. It responds with 200
// if fn returns nil and with 500 if it returns an error. fn must expect duplicates, old states after new ones, and refunds
// with their payment's order_id: see [Notification.Key], [Notification.Final] and [Notification].Event.
//
// What does not pass is rejected with 401 for its headers, signature or age, 400 for its body, 413 for a body over
// [WebhookConfig].MaxBodyBytes, of which no more is read, and 405 for a method other than POST. These responses are this
// package's choice, since the document shows none; WebhookConfig.Respond replaces them. A panic is left to net/http, which
// closes the connection, or to a middleware that recovers it: the status is then 500 unless that sets another.
func (w *Webhook) Handler(fn func(ctx context.Context, n *Notification) error) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		answered := false
		defer func() {
			if !answered { // after a panic, net/http would write 200 if a middleware recovers it and writes nothing
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
		answered = true
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

// statusOf returns Handler's response to a notification that did not pass.
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

// authenticate checks the headers, the signature and then the age of a notification.
func (w *Webhook) authenticate(method string, u *url.URL, h http.Header, body []byte) (secretIndex int, at time.Time, err error) {
	fail := func(err error) (int, time.Time, error) { return 0, time.Time{}, notificationError(err) }
	if w == nil || w.authenticator == nil {
		return fail(errNoWebhook)
	}
	timestamp, signature, err := onlyValues(h)
	if err != nil {
		return fail(err)
	}
	at, err = parseTimestamp(timestamp)
	if err != nil {
		return fail(err)
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
		Timestamp: timestamp,
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
	now := w.now().Unix() // timestamps have whole seconds, so ages have too
	tolerated := int64(w.tolerance / time.Second)
	switch age := now - at.Unix(); {
	case age > tolerated:
		return fmt.Errorf("%w: %s, tolerance %s", ErrTimestampTooOld, time.Unix(now, 0).Sub(at), w.tolerance)
	case -age > tolerated:
		return fmt.Errorf("%w: %s ahead, tolerance %s", ErrTimestampTooNew, at.Sub(time.Unix(now, 0)), w.tolerance)
	}
	return nil
}

// parse authenticates a notification and reads its body, all but Raw.
func (w *Webhook) parse(method string, u *url.URL, h http.Header, body []byte) (*Notification, error) {
	secretIndex, at, err := w.authenticate(method, u, h, body)
	if err != nil {
		return nil, err
	}
	n := &Notification{Timestamp: at, SecretIndex: secretIndex}
	if n.Malformed, err = jsonobject.Decode(body, n.fields()); err != nil {
		return nil, &NotificationError{Raw: bytes.Clone(body), Err: inEncoding(err, h)}
	}
	return n, nil
}

func notificationError(err error) error { return fmt.Errorf("paymentsvc: notification: %w", err) }

// onlyValues returns the one value of either header. A name counts in any letter case, for headers that did not come
// through net/http, and so does a second value under another spelling of it.
func onlyValues(h http.Header) (timestamp, signature string, err error) {
	var timestamps, signatures found
	for key, values := range h {
		switch {
		case len(key) != len(headerTimestamp), len(values) == 0: // the other name is as long
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

// found is the values of a header under one name.
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

// maxTimestamp is the last second of the year 9999. Anything beyond is not in seconds.
const maxTimestamp = 253402300799

// parseTimestamp parses Unix seconds: ASCII digits and nothing else.
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
	_, cutOff := errors.AsType[*http.MaxBytesError](err) // by a middleware with a lower limit
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

// requestedURL returns the address as it was requested. Routers shorten r.URL, but the service signed the whole; the host
// is a separate field of a request.
func requestedURL(r *http.Request) *url.URL {
	asked, err := url.ParseRequestURI(r.RequestURI)
	if err != nil && r.URL == nil {
		return nil
	}
	if err != nil { // a request that no server has read has no RequestURI
		asked = new(*r.URL)
	}
	asked.Host = cmp.Or(r.Host, asked.Host) // a middleware may have set r.Host, and RequestURI may be a whole URL
	return asked
}
