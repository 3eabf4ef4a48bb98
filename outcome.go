package paymentsvc

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
	"github.com/paymentsvc/paymentsvc/internal/transport"
)

// Outcome says whether a call that returned an error may have been carried out.
type Outcome int

const (
	// OutcomeUnknown is the zero value: money may have moved. Reconcile a payment with [Client.StatusPayment] by
	// user_data before it is started again, and a payout with [Client.StatusPayout] where [Error].OrderID is set. The
	// interface document shows no look-up of a payout by user_data: without an order_id, wait for its notification or
	// ask the service.
	OutcomeUnknown Outcome = iota
	// OutcomeNotSent says that provably no byte of the request left. See [SafeToRetry].
	OutcomeNotSent
	// OutcomeRejected says that the service itself answered that this call started nothing. It speaks of this call
	// only: user_data that was used before means that there may be an earlier one, see [EffectPossible].
	//
	// A status alone is rarely the service's word, since proxies and gateways answer in its place. So with
	// [Config.DecodeError], a call is rejected when the decoder reports an error with HTTP status 4xx other than 408,
	// 409, 425 and 499, or with 2xx other than 202 and no order_id (of a form, no redirect_url) anywhere in it, or with
	// [EffectNone].
	// Without one, it is rejected only with a status that is about the request as it came in: 400, 401, 405, 411, 413,
	// 414, 415, 417, 421, 422 and 431.
	OutcomeRejected
)

// String returns "unknown", "not sent" or "rejected".
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

// OutcomeOf returns the [Outcome] of the [*Error] in err's tree. It is OutcomeUnknown for nil, for an error that did
// not come from a [Client], and for joined errors that do not agree.
func OutcomeOf(err error) Outcome {
	found := errorsIn(err)
	for _, e := range found {
		if e.outcome() != found[0].outcome() {
			return OutcomeUnknown
		}
	}
	if len(found) == 0 {
		return OutcomeUnknown
	}
	return found[0].outcome()
}

// SafeToRetry reports whether a call that failed with err can be made again, with the same user_data, without a risk
// that money moves twice and with a chance that it succeeds. It is true for [OutcomeNotSent] other than
// [ErrInvalidRequest], and for [OutcomeRejected] that is about the caller and not about the order: [ErrUnauthorized] and
// [ErrRateLimited]. It is false for nil, for an error that did not come from a [Client], and for joined errors unless
// it is true for each. Back off before you retry, see [Error.RetryAfter].
func SafeToRetry(err error) bool {
	found := errorsIn(err)
	for _, e := range found {
		switch e.outcome() {
		case OutcomeNotSent:
		case OutcomeRejected:
			if !errors.Is(e, ErrUnauthorized) && !errors.Is(e, ErrRateLimited) {
				return false
			}
		default:
			return false
		}
	}
	return len(found) > 0 && !errors.Is(err, ErrInvalidRequest)
}

// errorsIn returns the first *Error of each branch of err's tree.
func errorsIn(err error) []*Error {
	if e, ok := err.(*Error); ok { //nolint:errorlint // this function is what walks the tree
		return []*Error{e}
	}
	switch wrapper := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		return errorsIn(wrapper.Unwrap())
	case interface{ Unwrap() []error }:
		var found []*Error
		for _, branch := range wrapper.Unwrap() {
			found = append(found, errorsIn(branch)...)
		}
		return found
	}
	return nil
}

// outcome is e.Outcome, of a nil e too.
func (e *Error) outcome() Outcome {
	if e == nil {
		return OutcomeUnknown
	}
	return e.Outcome
}

// judge reads the result of an attempt into out, or returns an *Error with the outcome.
func (c *Client) judge(e endpoint, attempts int, result transport.Result, out response) *Error {
	reported, err := c.read(result, out)
	if err == nil {
		return nil
	}
	failure := &Error{
		Endpoint:   e.path,
		Attempts:   attempts,
		HTTPStatus: result.Status,
		OrderID:    orderID(result.Body),
		Header:     result.Header,
		Body:       result.Body,
		Err:        err,
		signedAt:   result.SignedAt,
		answeredAt: result.At,
	}
	switch {
	case result.NotSent:
		failure.Outcome = OutcomeNotSent
	case result.Err == nil && c.rejects(e, result, reported):
		failure.Outcome = OutcomeRejected
	}
	return failure
}

// read reads a success into out, or returns what is wrong with the result, and the error in it that DecodeError reported.
func (c *Client) read(result transport.Result, out response) (reported *ServiceError, err error) {
	success := result.Status/100 == 2
	if err := result.Err; err != nil {
		if success && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrResponseTooLarge)) {
			return nil, fmt.Errorf("%w: %w", ErrUnexpectedResponse, err)
		}
		return nil, err
	}
	if c.decodeError != nil {
		if reported = c.decodeError(result.Status, result.Body); reported != nil {
			return reported, reported
		}
	}
	if !success {
		return nil, c.statusError(result.Status)
	}
	fields, raw, malformed := out.fields()
	if *malformed, err = jsonobject.DecodeLenient(result.Body, fields); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnexpectedResponse, err)
	}
	*raw = result.Body
	return reported, nil
}

// orderID returns the order_id of an answer that was no success, as far as it arrived.
func orderID(body []byte) string {
	text, err := jsonobject.Text(jsonobject.Value(body, "order_id"))
	if err != nil {
		return ""
	}
	return text
}

// rejects reports whether a whole answer that is no success proves that nothing was started: by what DecodeError
// reported of it, or without a DecodeError by its status.
func (c *Client) rejects(e endpoint, result transport.Result, reported *ServiceError) bool {
	switch {
	case result.Repeated: // the answer may be about one delivery, and another may have been made
		return false
	case c.decodeError == nil:
		return aboutTheRequest(result.Status)
	case reported == nil:
		return false // not the service's format, so perhaps not the service's answer
	}
	switch reported.Effect {
	case EffectNone:
		return true
	case EffectByStatus:
		if result.Status/100 == 2 {
			return result.Status != http.StatusAccepted && !jsonobject.Mentions(result.Body, cmp.Or(e.proof, "order_id"))
		}
		return result.Status/100 == 4 && !aboutTime(result.Status)
	default:
		return false
	}
}

// aboutTheRequest reports whether a status speaks of the request as it came in, so that whoever gave it, a proxy too,
// passed nothing on.
func aboutTheRequest(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusMethodNotAllowed, http.StatusLengthRequired,
		http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusExpectationFailed, http.StatusMisdirectedRequest, http.StatusUnprocessableEntity,
		http.StatusRequestHeaderFieldsTooLarge:
		return true
	}
	return false
}

// aboutTime reports whether a 4xx speaks of another request or of how long this one took, and so perhaps of one that
// was carried out.
func aboutTime(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, statusClientClosedRequest:
		return true
	}
	return false
}

// statusClientClosedRequest is what nginx calls 499: the client left before the answer.
const statusClientClosedRequest = 499

// statusError is the reason where only a status tells of the failure.
func (c *Client) statusError(status int) error {
	text := strings.ToLower(cmp.Or(http.StatusText(status), "no such status"))
	switch {
	case status/100 == 4 && c.decodeError != nil:
		return errors.New(text + ": no error that Config.DecodeError knows, so perhaps not the service's answer")
	case status/100 == 4 && !aboutTheRequest(status):
		return errors.New(text + ": without Config.DecodeError this may be a proxy's answer")
	case status/100 == 4, status/100 == 5:
		return errors.New(text)
	}
	return fmt.Errorf("%w: %s", ErrUnexpectedResponse, text) // a redirect, which is not followed
}
