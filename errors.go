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
	// ErrInvalidRequest rejects a request or a configuration before sending. The text names the field.
	ErrInvalidRequest = errors.New("invalid request")
	// ErrSensitive is the error of encoding/json for a [PaymentRequest] or a [PayoutRequest], because loggers use
	// encoding/json and a request may contain card data. To store or queue a request, use its JSON method.
	ErrSensitive = errors.New("a request may hold card data: use its JSON method to store it")
	// ErrUnexpectedResponse is a response without the form that the document specifies for the endpoint: one JSON
	// object with the endpoint's fields. Its bytes are in [Error].Body.
	ErrUnexpectedResponse = errors.New("unexpected response")
	// ErrResponseTooLarge is a response larger than [Config].MaxResponseBytes, decompressed.
	ErrResponseTooLarge = transport.ErrTooLarge
	// ErrUnauthorized is a response with HTTP status 401 or 403, with any [Outcome]. Raise an alert, and fix the key,
	// the [Scheme] or the clock. A proxy may have sent the response after a payment, so retry a start only if
	// [SafeToRetry] is true.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrRateLimited is a response with HTTP status 429, with any [Outcome]. Retry after [Error.RetryAfter], but a start
	// only if [SafeToRetry] is true.
	ErrRateLimited = errors.New("rate limited")

	// ErrMissingHeader is a notification without a timestamp or signature header.
	ErrMissingHeader = errors.New("missing header")
	// ErrMalformedHeader is a notification with an empty or duplicated timestamp or signature header, or with a
	// timestamp other than Unix seconds in digits.
	ErrMalformedHeader = errors.New("malformed header")
	// ErrSignatureMismatch is a notification with a signature that does not match any secret. The notification is
	// forged or altered, or the [Scheme] or the secret is wrong.
	ErrSignatureMismatch = errors.New("signature mismatch")
	// ErrTimestampTooOld is a notification with a correct signature, older than [WebhookConfig].Tolerance.
	ErrTimestampTooOld = errors.New("timestamp too old")
	// ErrTimestampTooNew is a notification with a correct signature, further in the future than
	// [WebhookConfig].Tolerance.
	ErrTimestampTooNew = errors.New("timestamp too new")
	// ErrBodyTooLarge is a notification larger than [WebhookConfig].MaxBodyBytes.
	ErrBodyTooLarge = errors.New("body too large")
	// ErrEmptyBody is a notification without a body, or with a body already read. Read the body once and call
	// [Webhook.Parse], or restore it.
	ErrEmptyBody = errors.New("empty or already read body")
	// ErrMethodNotAllowed is a request to [Webhook.Handler] with a method other than POST.
	ErrMethodNotAllowed = errors.New("method not allowed")
	// ErrMalformedNotification is a notification with a correct signature and a body that section 6 does not allow. The
	// error is a [*NotificationError] with the bytes.
	ErrMalformedNotification = errors.New("malformed notification")
)

// Error is the error of every failed call of a [Client]. Its text has no bytes of a request's or a response's body.
// fmt, log/slog and the encoders that call methods (JSON, XML, YAML, gob, CBOR, MessagePack) print this text. An
// encoder that reads fields by reflection also prints Header and Body, and so does %w outside fmt.Errorf, which go vet
// reports.
type Error struct {
	// Endpoint is the path below [Config].BaseURL, such as "init_payment/card".
	Endpoint string
	// Outcome reports whether this call may have been carried out. For a start, this means whether money may have
	// moved. For a status call, it does not describe the payment; see [OutcomeOf].
	Outcome Outcome
	// Attempts counts the attempts of the call. It is 0 if the call failed before the first attempt.
	Attempts int
	// HTTPStatus is the status of the response to the last attempt, or 0 without this response.
	HTTPStatus int
	// OrderID is the order_id of the response to the last attempt, or "" if it is absent or not a string. If the
	// outcome of a payout is unknown and OrderID is set, reconcile the payout with [Client.StatusPayout].
	OrderID string
	// Header is the header of the response to the last attempt, or nil without this response. Do not log it, because it
	// may repeat the request.
	Header http.Header
	// Body has the received bytes of the response to the last attempt, at most [Config].MaxResponseBytes. Do not log
	// them, because they may repeat the request.
	Body []byte
	// Err is the reason and never nil. errors.Is and errors.As find the sentinels of this package, [*ServiceError], and
	// the errors of the context, the [Signer] and the http.RoundTripper. They find no error of another call, which may be
	// the cause of a cancelled context.
	Err error

	signed     *signing  // of the last attempt, or nil
	answeredAt time.Time // local time of the response to the last attempt, or zero without a response
}

// signing is the local time of a signature, and Result.ClockShift of package transport (negative if behind).
type signing struct {
	at    time.Time
	shift time.Duration
}

// Error returns one line with the endpoint, the outcome of a start, and the reason.
func (e *Error) Error() string {
	if e == nil {
		return "paymentsvc: a nil *Error"
	}
	var b strings.Builder
	b.WriteString("paymentsvc: " + e.Endpoint + ": ")
	switch {
	case e.Outcome == OutcomeNotSent:
		b.WriteString("not sent: ")
	case !e.starts(): // "rejected" could look like the outcome of the start that the call reconciles
	case e.Outcome == OutcomeRejected:
		b.WriteString("rejected: ")
	default:
		b.WriteString("outcome unknown, the request may have been carried out: ")
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

// clocks describes the age of the timestamp and the clock difference, which are common causes of a rejected signature.
func (e *Error) clocks() string {
	var text string
	switch {
	case e.signed == nil:
	case e.signed.shift > 0: // not the local clock, see HMACConfig.Now
		text = "; the signer's clock is " + e.signed.shift.String() + " ahead of the local clock"
	case e.signed.shift < 0:
		text = "; the signer's clock is " + (-e.signed.shift).String() + " behind the local clock"
	case !e.answeredAt.IsZero():
		age := e.answeredAt.Sub(e.signed.at).Round(time.Second)
		text = "; the timestamp was " + age.String() + " old when the response arrived"
	}
	skew, _ := e.ClockSkew()
	// A Date has whole seconds, and the response took some time to arrive.
	skew = skew.Round(time.Second)
	switch {
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

// Is reports whether target is the sentinel of HTTPStatus: [ErrUnauthorized] for 401 and 403, [ErrRateLimited] for 429.
// errors.Is calls it.
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

// Format writes the text of Error under every verb, because %#v and %x would print Body. Its receiver is a value, so a
// copy is safe too.
func (e Error) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

// String returns the text of Error, for printers of a copy, because only a pointer has the method Error.
func (e Error) String() string { return e.Error() }

// MarshalJSON writes the text of Error and the fields for a log, without Header and Body.
func (e Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Endpoint   string `json:"endpoint"`
		Outcome    string `json:"outcome"`
		Attempts   int    `json:"attempts"`
		HTTPStatus int    `json:"http_status,omitempty"`
		Error      string `json:"error"`
	}{e.Endpoint, e.Outcome.String(), e.Attempts, e.HTTPStatus, e.Error()})
}

// MarshalText returns the text of Error, for YAML, XML and similar encoders. The error is always nil.
func (e Error) MarshalText() ([]byte, error) { return []byte(e.Error()), nil }

// MarshalBinary returns the text of Error, for encoding/gob, CBOR and MessagePack. The error is always nil.
func (e Error) MarshalBinary() ([]byte, error) { return []byte(e.Error()), nil }

// RetryAfter returns the wait in the response's Retry-After header, in seconds or until a date. It returns false
// without the header, and for an unreadable value, 0 or a past time. [Retry].MaxDelay does not limit this wait.
func (e *Error) RetryAfter() (time.Duration, bool) {
	if e == nil {
		return 0, false
	}
	return transport.RetryAfter(e.Header, e.answeredAt)
}

// ClockSkew returns the service's Date minus the local time of the response. The difference is positive if the local
// clock is behind. The bool is false without a response or its Date. A Date has whole seconds, so ignore one or two
// seconds. A wrong clock is a common cause of rejected signatures.
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

// Effect is the part of a [ServiceError] that reports whether the service may have started an operation.
type Effect int

const (
	// EffectByStatus is the zero value: the HTTP status decides, see [OutcomeRejected].
	EffectByStatus Effect = iota
	// EffectNone means that the service started no operation, with any HTTP status. An example is a rate limit that the
	// gateway applies before forwarding. A 2xx response with proof of a start stays unknown; see [OutcomeRejected].
	EffectNone
	// EffectPossible means that an operation may exist, with any HTTP status. An example is user_data used before.
	EffectPossible
)

// ServiceError is an error of the service, as an [ErrorDecoder] found it.
type ServiceError struct {
	// Code and Message are texts of the response, or "" for an absent text. Their values are not specified (section 7). Do
	// not log them, because they may repeat the request.
	Code, Message string
	// Effect reports whether an operation may exist. With the zero value, the HTTP status decides.
	Effect Effect
}

// Error returns a text without Code and Message, because a response may repeat the request.
func (e *ServiceError) Error() string {
	return "the service reported an error, see ServiceError.Code and Message"
}

// Format writes the text of Error under every verb, because %+v and %#v would print Code and Message.
func (e ServiceError) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

// String returns the text of Error, for printers of a copy, because only a pointer has the method Error.
func (e ServiceError) String() string { return e.Error() }

// MarshalJSON writes the text of Error without Code and Message. It returns only errors of encoding/json.
func (e ServiceError) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"error": e.Error()})
}

// MarshalText returns the text of Error, for YAML, XML and similar encoders. The error is always nil.
func (e ServiceError) MarshalText() ([]byte, error) { return []byte(e.Error()), nil }

// MarshalBinary returns the text of Error, for encoding/gob, CBOR and MessagePack. The error is always nil.
func (e ServiceError) MarshalBinary() ([]byte, error) { return []byte(e.Error()), nil }

// ErrorDecoder returns the service's error in a response, or nil if the response has none. The client calls it for
// every complete response, with any HTTP status, because section 7 has one shape for success and error and does not
// specify the names of the error fields and the HTTP statuses. A result other than nil can reject a call, so an
// ErrorDecoder must recognize the service's own format, and return nil for the JSON of proxies.
//
// A connection may end early without an error. Therefore an error in a body other than one JSON object rejects a call
// only with [EffectNone]. An ErrorDecoder must be safe for concurrent use, and must not keep or change body.
type ErrorDecoder func(httpStatus int, body []byte) *ServiceError

// ErrorFields returns an [ErrorDecoder] for services that send the code and the message of an error in two fields. A
// dotted name reads a field of a nested object ("error.code"), and a number reads an element of a list, from 0
// ("errors.0.code"). A string is returned without its quotes, and any other value as JSON. The name "" disables a
// field.
//
// A response has an error if the code field is present and not empty. Empty values are null, "", 0, "0", false, {} and
// []. The message field decides only if codeKey is "". A response other than one JSON object has no error.
func ErrorFields(codeKey, messageKey string) ErrorDecoder {
	return func(_ int, body []byte) *ServiceError {
		decides := valueAt(body, cmp.Or(codeKey, messageKey))
		if decides == nil || !jsonobject.IsObject(body) {
			return nil
		}
		return &ServiceError{Code: textOf(valueAt(body, codeKey)), Message: textOf(valueAt(body, messageKey))}
	}
}

// valueAt follows dotted names into nested objects and lists, and returns the value, or nil if it is absent or empty.
func valueAt(object []byte, names string) json.RawMessage {
	value := json.RawMessage(object)
	inside := false
	for name := range strings.SplitSeq(names, ".") {
		switch {
		case value == nil || name == "":
			return nil
		case inside && value[0] == '[':
			value = jsonobject.Element(value, name)
		default:
			value = jsonobject.Value(value, name)
		}
		inside = true
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

// notSent returns the error of a call that failed before sending.
func notSent(endpoint string, err error) *Error {
	return &Error{Endpoint: endpoint, Outcome: OutcomeNotSent, Err: err}
}

// invalid returns an ErrInvalidRequest with the name of the field.
func invalid(field, problem string) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalidRequest, field, problem)
}
