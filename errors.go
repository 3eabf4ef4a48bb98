package paymentsvc

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
	"github.com/paymentsvc/paymentsvc/internal/transport"
)

// Sentinel errors, for errors.Is.
var (
	// ErrInvalidRequest is a request or a configuration that cannot be used. The text names the field. Nothing was sent.
	ErrInvalidRequest = errors.New("invalid request")
	// ErrSensitive is returned when encoding/json encodes a [PaymentRequest] or a [PayoutRequest]: it may contain card
	// data, and loggers use encoding/json. To store a request or to queue it, use its JSON method.
	ErrSensitive = errors.New("a request may hold card data: use its JSON method to store it")
	// ErrUnexpectedResponse is an answer that is not what the interface document shows for the endpoint: one JSON object
	// with the endpoint's fields. The bytes are in [Error].Body.
	ErrUnexpectedResponse = errors.New("unexpected response")
	// ErrResponseTooLarge is an answer of more than [Config].MaxResponseBytes bytes, decompressed.
	ErrResponseTooLarge = transport.ErrTooLarge
	// ErrUnauthorized is an answer with HTTP status 401 or 403, whatever the [Outcome]: about the caller and not about the
	// order. It does not make a retry safe, [SafeToRetry] does: then fix the key, the [Scheme] or the clock, and retry.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrRateLimited is an answer with HTTP status 429, whatever the [Outcome]. It does not make a retry safe, [SafeToRetry]
	// does; see [Error.RetryAfter].
	ErrRateLimited = errors.New("rate limited")

	// ErrMissingHeader is a notification without a timestamp or signature header.
	ErrMissingHeader = errors.New("missing header")
	// ErrMalformedHeader is a notification whose timestamp or signature header appears more than once, is empty, or is a
	// timestamp that is not Unix seconds in digits.
	ErrMalformedHeader = errors.New("malformed header")
	// ErrSignatureMismatch is a notification whose signature matches under no secret: it is forged, it was changed on its
	// way, or the [Scheme] or the secret is not the service's.
	ErrSignatureMismatch = errors.New("signature mismatch")
	// ErrTimestampTooOld is a notification with a correct signature that is older than [WebhookConfig].Tolerance.
	ErrTimestampTooOld = errors.New("timestamp too old")
	// ErrTimestampTooNew is a notification with a correct signature from further in the future than
	// [WebhookConfig].Tolerance.
	ErrTimestampTooNew = errors.New("timestamp too new")
	// ErrBodyTooLarge is a notification of more than [WebhookConfig].MaxBodyBytes bytes.
	ErrBodyTooLarge = errors.New("body too large")
	// ErrEmptyBody is a notification without a body, or whose body had already been read: read it once and use
	// [Webhook.Parse], or put it back.
	ErrEmptyBody = errors.New("empty or already read body")
	// ErrMethodNotAllowed is a request to [Webhook.Handler] with a method other than POST.
	ErrMethodNotAllowed = errors.New("method not allowed")
	// ErrMalformedNotification is a notification with a correct signature that is not what section 6 of the interface
	// document shows. The error is a [*NotificationError] with the bytes.
	ErrMalformedNotification = errors.New("malformed notification")
)

// Error is what every failed call of a [Client] returns. Its text, under every verb of fmt, in slog and in
// encoding/json, contains nothing of the request's or the answer's body. The exception is %w in anything but fmt.Errorf,
// such as log.Printf, under which fmt asks no value for its text: go vet reports it.
type Error struct {
	// Endpoint is the path below [Config.BaseURL], such as "init_payment/card".
	Endpoint string
	// Outcome says whether money may have moved.
	Outcome Outcome
	// Attempts counts the attempts at sending; 0 for a request that was rejected before the first.
	Attempts int
	// HTTPStatus is the status of the answer to the last attempt, 0 without one.
	HTTPStatus int
	// OrderID is the order_id that the last answer held although it was no success, "" without one. An unknown payout
	// that has one is reconciled by [Client.StatusPayout].
	OrderID string
	// Header is that answer's header, nil without one.
	Header http.Header
	// Body is what arrived of that answer, at most [Config.MaxResponseBytes] bytes. It may repeat what the request held:
	// think before logging it.
	Body []byte
	// Err is the reason and never nil. errors.Is and errors.As reach through it the sentinels of this package,
	// [*ServiceError], the errors of the context, of the [Signer] and of the http.RoundTripper.
	Err error

	signedAt, answeredAt time.Time // local times of the last attempt
}

// Error says which call failed, whether money may have moved, and why.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("paymentsvc: " + e.Endpoint + ": ")
	switch e.Outcome {
	case OutcomeNotSent:
		b.WriteString("not sent: ")
	case OutcomeRejected:
		b.WriteString("rejected: ")
	default:
		if strings.HasPrefix(e.Endpoint, "init_") {
			b.WriteString("outcome unknown, the request may have been carried out: ")
		}
	}
	if e.HTTPStatus != 0 {
		fmt.Fprintf(&b, "HTTP %d: ", e.HTTPStatus)
	}
	if e.Err != nil {
		b.WriteString(e.Err.Error())
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (after %d attempts)", e.Attempts)
	}
	if e.Is(ErrUnauthorized) {
		b.WriteString(e.clocks())
	}
	return b.String()
}

// clocks names what time may have to do with a rejected signature.
func (e *Error) clocks() string {
	var text string
	if !e.signedAt.IsZero() && !e.answeredAt.IsZero() {
		age := e.answeredAt.Sub(e.signedAt).Round(time.Second)
		text = "; the timestamp was " + age.String() + " old when the answer came"
	}
	skew, _ := e.ClockSkew()
	// The Date has whole seconds and is as old as the answer's way here.
	switch skew = skew.Round(time.Second); {
	case skew > 2*time.Second:
		text += "; the local clock is " + skew.String() + " behind the service's"
	case skew < -2*time.Second:
		text += "; the local clock is " + (-skew).String() + " ahead of the service's"
	}
	return text
}

// Unwrap returns Err.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// Is reports whether target is the sentinel of the answer's HTTP status: [ErrUnauthorized] for 401 and 403,
// [ErrRateLimited] for 429. errors.Is calls it.
func (e *Error) Is(target error) bool {
	switch {
	case e == nil:
		return false
	case e.HTTPStatus == http.StatusUnauthorized, e.HTTPStatus == http.StatusForbidden:
		return target == ErrUnauthorized
	default:
		return e.HTTPStatus == http.StatusTooManyRequests && target == ErrRateLimited
	}
}

// Format writes the text of Error under every verb: %#v and %x would otherwise spell out Body. It has a value
// receiver so that an Error that was copied is as safe.
func (e Error) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

// String returns the text of Error, for printers that ask a copied Error for it.
func (e Error) String() string { return e.Error() }

// MarshalJSON writes the text of Error with the fields that a log wants, and neither Header nor Body.
func (e Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Endpoint   string `json:"endpoint"`
		Outcome    string `json:"outcome"`
		Attempts   int    `json:"attempts"`
		HTTPStatus int    `json:"http_status,omitempty"`
		Error      string `json:"error"`
	}{e.Endpoint, e.Outcome.String(), e.Attempts, e.HTTPStatus, e.Error()})
}

// RetryAfter returns the wait that the answer's Retry-After header asks for, given there as seconds or as a date. It is
// false without a header, for one that cannot be read and for a time that has passed. The wait is as the service says,
// without the limit of [Retry].MaxDelay.
func (e *Error) RetryAfter() (time.Duration, bool) {
	if e == nil {
		return 0, false
	}
	return transport.RetryAfter(e.Header, e.answeredAt)
}

// ClockSkew returns the service's Date minus the local time of its answer: positive when the local clock is behind. It
// is false without an answer or without a Date in it. A Date has whole seconds, so a second or two is no skew. A clock
// that is off is a common cause of rejected signatures.
func (e *Error) ClockSkew() (time.Duration, bool) {
	if e == nil {
		return 0, false
	}
	date, err := http.ParseTime(e.Header.Get("Date"))
	if err != nil || e.answeredAt.IsZero() {
		return 0, false
	}
	return date.Sub(e.answeredAt), true
}

// Effect is what an [ErrorDecoder] knows about an error: whether the service may have started something all the same.
type Effect int

const (
	// EffectByStatus is the zero value: the HTTP status decides, see [OutcomeRejected].
	EffectByStatus Effect = iota
	// EffectNone says that nothing was started, whatever the status: for instance an error of a rate limit that the
	// service is known to apply before anything else.
	EffectNone
	// EffectPossible says that something may have been started, whatever the status: for instance that user_data was
	// used before.
	EffectPossible
)

// ServiceError is the error that the service reported, as an [ErrorDecoder] read it.
type ServiceError struct {
	// Code and Message are what the ErrorDecoder found, "" for what it did not. The values are not shown (section 7).
	Code, Message string
	// Effect says whether something may have been started; the zero value leaves that to the HTTP status.
	Effect Effect
}

// Error does not repeat Code and Message: they are text of the answer, which may hold what the request held.
func (e *ServiceError) Error() string {
	return "the service reported an error, see ServiceError.Code and Message"
}

// Format writes the text of Error under every verb, so that %+v and %#v do not repeat Code and Message either.
func (e ServiceError) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

// String returns the text of Error, for printers that ask a copied ServiceError for it.
func (e ServiceError) String() string { return e.Error() }

// MarshalJSON writes the text of Error, and neither Code nor Message. It returns an error only if encoding/json does.
func (e ServiceError) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"error": e.Error()})
}

// ErrorDecoder finds the service's error in an answer, or returns nil when the answer holds none. It sees every whole
// answer first, with any HTTP status: section 7 of the interface document shows one shape for success and error, and
// neither the names of the error fields nor the HTTP statuses. What it reports is taken for the service's own word, so
// it must recognize the service's format and not whatever a proxy may answer.
//
// A body without a declared length may be cut off without notice, so do not search it for parts of text. An
// ErrorDecoder must be safe for concurrent use, and must not keep or change body.
type ErrorDecoder func(httpStatus int, body []byte) *ServiceError

// ErrorFields returns an [ErrorDecoder] for an error whose code and message are fields of the answer. Dotted names
// lead into objects ("error.code"); numbers are returned as their text, anything but strings and numbers as JSON. ""
// names no field.
//
// There is an error where the code field is present and not empty: null, "", 0, "0", false, {} and [] are empty. The
// message counts alone only where no code field is named. An answer that is not one JSON object holds no error.
func ErrorFields(codeKey, messageKey string) ErrorDecoder {
	return func(_ int, body []byte) *ServiceError {
		decides := valueAt(body, cmp.Or(codeKey, messageKey))
		if decides == nil || !json.Valid(jsonobject.TrimMark(body)) {
			return nil
		}
		return &ServiceError{Code: textOf(valueAt(body, codeKey)), Message: textOf(valueAt(body, messageKey))}
	}
}

// valueAt follows dotted names into nested objects and returns the value there, nil for nothing and for an empty one.
func valueAt(object []byte, names string) json.RawMessage {
	if names == "" {
		return nil
	}
	name, rest, nested := strings.Cut(names, ".")
	value := jsonobject.Value(object, name)
	if nested && value != nil {
		return valueAt(value, rest)
	}
	return value
}

func textOf(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// notSent is the error of a call that failed before anything was sent.
func notSent(endpoint string, err error) *Error {
	return &Error{Endpoint: endpoint, Outcome: OutcomeNotSent, Err: err}
}

// invalid is an ErrInvalidRequest that names the field.
func invalid(field, problem string) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalidRequest, field, problem)
}
