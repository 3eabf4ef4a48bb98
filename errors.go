package paymentsvc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/internal/transport"
)

// Sentinel errors, to be found with errors.Is.
var (
	// ErrInvalidRequest says that what the caller gave, a request or a configuration, cannot be used. The
	// text names the field. Nothing was sent.
	ErrInvalidRequest = errors.New("invalid request")
	// ErrUnexpectedResponse says that the answer is not what the interface document shows for the endpoint:
	// one JSON object with the endpoint's fields. The bytes are in Error.Body.
	ErrUnexpectedResponse = errors.New("unexpected response")
	// ErrResponseTooLarge says that the answer has more than Config.MaxResponseBytes bytes, decompressed.
	ErrResponseTooLarge = transport.ErrTooLarge

	// ErrMissingHeader says that a notification came without a timestamp or signature header.
	ErrMissingHeader = errors.New("missing header")
	// ErrMalformedHeader says that a notification's timestamp or signature header stands more than once, is
	// empty, or is a timestamp that is not Unix seconds in digits.
	ErrMalformedHeader = errors.New("malformed header")
	// ErrSignatureMismatch says that no secret makes a notification's signature: it is forged, it was
	// changed on its way, or the Scheme or the secret is not the service's.
	ErrSignatureMismatch = errors.New("signature mismatch")
	// ErrTimestampTooOld says that a notification with a right signature is older than
	// WebhookConfig.Tolerance.
	ErrTimestampTooOld = errors.New("timestamp too old")
	// ErrTimestampTooNew says that a notification with a right signature comes from further in the future
	// than WebhookConfig.Tolerance.
	ErrTimestampTooNew = errors.New("timestamp too new")
	// ErrBodyTooLarge says that a notification has more than WebhookConfig.MaxBodyBytes bytes.
	ErrBodyTooLarge = errors.New("body too large")
	// ErrEmptyBody says that a notification came without a body, or that its body had been read before it came
	// here: read it once and use Webhook.Parse, or put it back.
	ErrEmptyBody = errors.New("empty or already read body")
	// ErrMethodNotAllowed says that Webhook.Handler was asked with a method other than POST.
	ErrMethodNotAllowed = errors.New("method not allowed")
	// ErrMalformedNotification says that a notification with a right signature is not what section 6 of the
	// interface document shows. The error is a *NotificationError with the bytes.
	ErrMalformedNotification = errors.New("malformed notification")
)

// Outcome says whether a call that returned an error may have been carried out.
type Outcome int

const (
	// OutcomeUnknown is the zero value: money may have moved. Settle a payment with StatusPayment by
	// user_data before it is started again. The interface document shows no look-up of a payout by
	// user_data: wait for its notification, or ask the service.
	OutcomeUnknown Outcome = iota
	// OutcomeNotSent says that no byte of the request left, as is proved. It is safe to start again.
	OutcomeNotSent
	// OutcomeRejected says that the service answered, and that its answer is an error. It speaks of this call only:
	// a start that is refused because its user_data was used before says that there may be an earlier one.
	OutcomeRejected
)

// String gives "unknown", "not sent" or "rejected".
func (o Outcome) String() string {
	switch o {
	case OutcomeNotSent:
		return "not sent"
	case OutcomeRejected:
		return "rejected"
	default:
		return "unknown"
	}
}

// OutcomeOf gives the Outcome of the *Error in err's tree. It is OutcomeUnknown for nil, for an err that did
// not come from a Client, and for joined errors that do not agree.
func OutcomeOf(err error) Outcome {
	outcome, _ := findOutcome(err)
	return outcome
}

func findOutcome(err error) (outcome Outcome, found bool) {
	if e, ok := err.(*Error); ok { //nolint:errorlint // this function is what walks the tree
		if e == nil {
			return OutcomeUnknown, true
		}
		return e.Outcome, true
	}
	switch wrapper := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		return findOutcome(wrapper.Unwrap())
	case interface{ Unwrap() []error }:
		for _, branch := range wrapper.Unwrap() {
			of, ok := findOutcome(branch)
			if !ok {
				continue
			}
			if found && of != outcome {
				return OutcomeUnknown, true
			}
			outcome, found = of, true
		}
	}
	return outcome, found
}

// Error is what every failed call of a Client returns. Its text, under every verb of fmt, in slog and in
// encoding/json, holds nothing of the request's or the answer's body. The exception is %w in anything but fmt.Errorf,
// such as log.Printf, under which fmt asks no value for its text: go vet reports it.
type Error struct {
	// Endpoint is the path below Config.BaseURL, such as "init_payment/card".
	Endpoint string
	// Outcome says whether the request may have been carried out.
	Outcome Outcome
	// Attempts counts the tries at sending; 0 for a request that was refused before the first.
	Attempts int
	// HTTPStatus is the status of the answer to the last attempt, 0 without one.
	HTTPStatus int
	// Header is that answer's header, nil without one.
	Header http.Header
	// Body is what arrived of that answer, at most Config.MaxResponseBytes bytes. It may repeat what the
	// request held: think before logging it.
	Body []byte
	// Err is the reason and never nil. errors.Is and errors.As reach through it the sentinels of this
	// package, *ServiceError, the errors of the context, of the Signer and of the http.RoundTripper.
	Err error

	answeredAt time.Time // local time of the last answer
}

// Error says which call failed, whether it may have been carried out, and why.
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
	if e.HTTPStatus == http.StatusUnauthorized || e.HTTPStatus == http.StatusForbidden {
		b.WriteString("; if it is about the signature, look at " + strings.Join(e.signatureSuspects(), ", then at "))
	}
	return b.String()
}

// signatureSuspects names what commonly makes a service refuse a signature, the likeliest first.
func (e *Error) signatureSuspects() []string {
	suspects := []string{
		"Scheme.Canonical and Scheme.Encoding (to find them: " + discoverCommand + ")",
		"the secret key",
	}
	skew, known := e.ClockSkew()
	if !known {
		return append(suspects, "the local clock")
	}
	// The Date has whole seconds and is as old as the answer's way here.
	switch skew = skew.Round(time.Second); {
	case skew > 2*time.Second:
		return append([]string{"the local clock, which is " + skew.String() + " behind the service's"}, suspects...)
	case skew < -2*time.Second:
		return append([]string{"the local clock, which is " + (-skew).String() + " ahead of the service's"}, suspects...)
	}
	return suspects
}

const discoverCommand = "go run github.com/paymentsvc/paymentsvc/examples/discover@latest"

// Unwrap gives Err.
func (e *Error) Unwrap() error { return e.Err }

// Format writes the text of Error under every verb: %#v and %x would otherwise spell out Body. It has a value
// receiver so that an Error that was copied is as safe.
func (e Error) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

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

// ClockSkew is the service's Date less the local time of its answer: positive when the local clock is behind.
// It is false without an answer or without a Date in it. A Date has whole seconds, so a second or two is no
// skew. A clock that is off is a common cause of refused signatures.
func (e *Error) ClockSkew() (time.Duration, bool) {
	date, err := http.ParseTime(e.Header.Get("Date"))
	if err != nil || e.answeredAt.IsZero() {
		return 0, false
	}
	return date.Sub(e.answeredAt), true
}

// ServiceError is the error that the service reported, as an ErrorDecoder read it.
type ServiceError struct {
	// Code and Message are what the ErrorDecoder found, "" for what it did not. The values are not shown (section 7).
	Code, Message string
}

// Error does not repeat Code and Message: they are text of the answer, which may hold what the request held.
func (e *ServiceError) Error() string {
	return "the service reported an error, see ServiceError.Code and Message"
}

// Format writes the text of Error under every verb, so that %+v and %#v do not repeat Code and Message either.
func (e ServiceError) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

// ErrorDecoder finds the service's error in an answer, or gives nil when the answer holds none. It sees every
// whole answer before anything else does, with any HTTP status: section 7 of the interface document gives
// success and error one shape, and shows neither the names of the error fields nor the HTTP statuses.
// A body without a declared length may be cut off without anybody noticing, so do not look for parts of text in it. It
// must not keep or change body.
type ErrorDecoder func(httpStatus int, body []byte) *ServiceError

// ErrorFields makes an ErrorDecoder for an error whose code and message are fields of the answer. Dotted names
// lead into objects ("error.code"); numbers are given as their text, anything but text and numbers as JSON.
// An answer that is not one JSON object, or in which both fields are absent or null, holds no error. A field
// that is there makes an error, whatever it holds: a service that sends one with its successes, a zero or an
// empty text for instance, needs an ErrorDecoder of its own, or its successes are taken for OutcomeRejected.
func ErrorFields(codeKey, messageKey string) ErrorDecoder {
	code, message := strings.Split(codeKey, "."), strings.Split(messageKey, ".")
	return func(_ int, body []byte) *ServiceError {
		var object map[string]json.RawMessage
		if json.Unmarshal(body, &object) != nil {
			return nil //nolint:nilerr // what is no object holds no error
		}
		c, hasCode := textAt(object, code)
		m, hasMessage := textAt(object, message)
		if !hasCode && !hasMessage {
			return nil
		}
		return &ServiceError{Code: c, Message: m}
	}
}

// textAt follows path, of one name at least, into nested objects and gives what is there as text; false for nothing
// and for null.
func textAt(object map[string]json.RawMessage, path []string) (string, bool) {
	value := object[path[0]]
	for _, name := range path[1:] {
		var nested map[string]json.RawMessage
		if json.Unmarshal(value, &nested) != nil {
			return "", false
		}
		value = nested[name]
	}
	if len(value) == 0 || string(value) == "null" {
		return "", false
	}
	var text string
	if value[0] == '"' && json.Unmarshal(value, &text) == nil {
		return text, true
	}
	return string(value), true
}

// refused is the error of a call that was refused before anything was sent.
func refused(endpoint string, err error) *Error {
	return &Error{Endpoint: endpoint, Outcome: OutcomeNotSent, Err: err}
}

// invalid is an ErrInvalidRequest that names the field.
func invalid(field, problem string) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalidRequest, field, problem)
}
