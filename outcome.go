package paymentsvc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
	"github.com/paymentsvc/paymentsvc/internal/transport"
)

// Outcome reports whether a failed call may have been carried out. The client reports [OutcomeNotSent] and
// [OutcomeRejected] only with proof.
type Outcome int

const (
	// OutcomeUnknown is the zero value. After a start, money may have moved. Before you start a payment again,
	// reconcile it with [Client.StatusPayment] by user_data. Reconcile a payout with [Client.StatusPayout] if
	// [Error].OrderID is set. The document specifies no look-up of a payout by user_data. So without an order_id, wait
	// for the payout's notification or ask the service.
	OutcomeUnknown Outcome = iota
	// OutcomeNotSent means that no byte of the request left this process. See [SafeToRetry].
	OutcomeNotSent
	// OutcomeRejected means that the service itself replied that this call started no operation. An earlier call with the
	// same user_data may have started an operation; see [EffectPossible].
	//
	// An HTTP status does not prove a rejection, because proxies and gateways reply in the service's place, also after
	// a payment. A response proves a rejection only if all of these are true:
	//
	//   - [Config].DecodeError finds an error in the response.
	//   - The response is complete, and the request was delivered only once.
	//   - The response is not a 2xx with an order_id at any depth. For a form, redirect_url replaces order_id. For an
	//     invoice, an invoice_url has the same effect as an order_id.
	//   - The error has [EffectNone]. Or it has [EffectByStatus], the response is one JSON object, and its status is 4xx
	//     except 408, 409, 425 and 499, or 2xx except 202.
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

// OutcomeOf returns the [Outcome] of the failed start in err's tree. It returns OutcomeUnknown for nil, for an error
// without an *Error, and for joined errors with different outcomes. It also returns OutcomeUnknown for the error of a
// status call or of [Client.GetBalance], because such an error does not describe an earlier start. For every call,
// [Error].Outcome is the outcome of the call itself.
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

// SafeToRetry reports whether the program can repeat a failed start with the same user_data: without a second payment,
// and with a chance of success. It is true for [OutcomeNotSent] except [ErrInvalidRequest]. It is also true for
// [OutcomeRejected] with [ErrUnauthorized] or [ErrRateLimited], because these concern the caller and not the order. It
// is false for nil, for an error without an *Error, and for joined errors unless each *Error is safe. It is false for
// the error of a status call or of [Client.GetBalance]: these calls can be repeated after any error, but an earlier
// start perhaps cannot. Back off before you retry: see [Error.RetryAfter].
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
	if e, ok := err.(*Error); ok { //nolint:errorlint // errorsIn walks the tree itself
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

// outcome returns e.Outcome for a start, and for an e without an endpoint. Any other e is unknown, because a program
// may return the error of a status call after a start with an unknown outcome.
func (e *Error) outcome() Outcome {
	if e == nil || e.Endpoint != "" && !e.starts() {
		return OutcomeUnknown
	}
	return e.Outcome
}

// starts reports whether e is the error of a call that starts an operation.
func (e *Error) starts() bool { return strings.HasPrefix(e.Endpoint, "init_") }

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
		signed:     &signing{result.SignedAt, result.ClockShift},
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

// read decodes a success into out. Otherwise it returns an error, and the *ServiceError if DecodeError found one.
func (c *Client) read(result transport.Result, out response) (reported *ServiceError, err error) {
	success := result.Status/100 == 2
	if err := ownError(result.Err); err != nil {
		if success && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrResponseTooLarge)) {
			return nil, fmt.Errorf("%w: %w", ErrUnexpectedResponse, err)
		}
		return nil, err
	}
	if c.decodeError != nil {
		reported = c.decodeError(result.Status, result.Body)
		if reported != nil {
			return reported, reported
		}
	}
	if !success {
		return nil, c.statusError(result.Status)
	}
	fields, raw, malformed := out.fields()
	*malformed, err = jsonobject.DecodeLenient(result.Body, fields)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnexpectedResponse, err)
	}
	*raw = result.Body
	return reported, nil
}

// ownError hides the error of another call in err. The cause of a cancelled context may be such an error, for example
// with an errgroup, and its sentinels and its ServiceError do not describe this call.
func ownError(err error) error {
	_, reported := errors.AsType[*ServiceError](err)
	if !reported && len(errorsIn(err)) == 0 {
		return err
	}
	return otherError{err}
}

// otherError is an error in which errors.Is finds only the error of the context.
type otherError struct{ error }

func (e otherError) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(e.error, target)
}

// orderID returns the order_id of a failed response, which may be incomplete.
func orderID(body []byte) string {
	text, err := jsonobject.Text(jsonobject.Value(body, "order_id"))
	if err != nil {
		return ""
	}
	return text
}

// rejects reports whether the complete response of a failed call proves that the service started no operation.
func (c *Client) rejects(e endpoint, result transport.Result, reported *ServiceError) bool {
	if reported == nil || result.Repeated {
		return false // perhaps a proxy's response, or a response to one of several deliveries
	}
	success := result.Status/100 == 2
	if success && e.started(result.Body) {
		return false // even with EffectNone, because an order may exist
	}
	switch reported.Effect {
	case EffectNone:
		return true
	case EffectByStatus:
		// The service replies with JSON (section 1). A decoder may find an error in an HTML page, or in a success that
		// was cut off.
		return jsonobject.IsObject(result.Body) && rejecting(result.Status)
	default:
		return false
	}
}

// started reports whether body has a field that proves a start.
func (e endpoint) started(body []byte) bool {
	if e.proofs == nil {
		return jsonobject.Mentions(body, "order_id")
	}
	return slices.ContainsFunc(e.proofs, func(name string) bool { return jsonobject.Mentions(body, name) })
}

// rejecting reports whether a service may reject a request with this status.
func rejecting(status int) bool {
	return status/100 == 2 && status != http.StatusAccepted || status/100 == 4 && !aboutTime(status)
}

// aboutTime reports whether a 4xx status concerns another request, or the duration of this request. In both cases an
// operation may exist.
func aboutTime(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, statusClientClosedRequest:
		return true
	}
	return false
}

// statusClientClosedRequest is nginx's status 499: the client closed the connection before the response.
const statusClientClosedRequest = 499

// statusError returns the reason for a failure that only the HTTP status shows.
func (c *Client) statusError(status int) error {
	text := strings.ToLower(cmp.Or(http.StatusText(status), "no such status"))
	switch {
	case status/100 == 4 && c.decodeError != nil:
		return errors.New(text + ": Config.DecodeError finds no error, so this may be a proxy's response")
	case status/100 == 4:
		return errors.New(text + ": without Config.DecodeError this may be a proxy's response")
	case status/100 == 5:
		return errors.New(text)
	}
	return fmt.Errorf("%w: %s", ErrUnexpectedResponse, text) // the client does not follow redirects
}
