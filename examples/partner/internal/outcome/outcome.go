// Package outcome says what a start that failed means for the order or payout that was to be started. The interface
// document shows neither error codes nor HTTP statuses (section 7): what a status is taken for here is what HTTP itself
// says of it, and in doubt the row may have been carried out.
package outcome

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Meaning is what an error means for the row.
type Meaning int

// The meanings.
const (
	// Unknown, the zero value, says that the row may have been carried out.
	Unknown Meaning = iota
	// NotSent says that no byte of the request left: the row may be started again.
	NotSent
	// CallerRefused says that the service refused the caller, for its secret or its haste for instance, as it would any
	// other row: nothing was started, as far as a status can tell.
	CallerRefused
	// Refused says that the service refused this row, or that it can never be sent.
	Refused
)

// statusClientClosedRequest is what some proxies answer whose client has left before the service's answer came.
const statusClientClosedRequest = 499

// Of gives the meaning of the error of a start.
func Of(err error) Meaning {
	switch paymentsvc.OutcomeOf(err) {
	case paymentsvc.OutcomeNotSent:
		if errors.Is(err, paymentsvc.ErrInvalidRequest) {
			return Refused // it would not be sent the next time either
		}
		return NotSent
	case paymentsvc.OutcomeRejected:
		return ofStatus(httpStatus(err))
	}
	return Unknown
}

// ofStatus gives the meaning of an HTTP status beside an error of the service's. A code is no proof: a gateway that
// answers 504 in the service's own format does not know what became of the request.
func ofStatus(status int) Meaning {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusTooManyRequests:
		return CallerRefused
	case http.StatusRequestTimeout, statusClientClosedRequest,
		http.StatusConflict: // "user_data was used before" would say that the service may have it
		return Unknown
	}
	if status/100 == 2 || status/100 == 4 { // section 7: success and error have one shape, so possibly one status
		return Refused
	}
	return Unknown
}

// code is what an error code may look like to be stored and shown: it is text of an answer, which may repeat anything.
var code = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// Code gives the service's error code where there is one that looks like a code, or else "HTTP 402" for instance, or
// "invalid request" for what was never sent. It may repeat a part of the request that looks like a code as well, a card
// number for instance: who sends one has to look for it.
func Code(err error) string {
	if reported, ok := errors.AsType[*paymentsvc.ServiceError](err); ok && code.MatchString(reported.Code) {
		return reported.Code
	}
	if status := httpStatus(err); status != 0 {
		return "HTTP " + strconv.Itoa(status)
	}
	return "invalid request"
}

// RetryAfter is how long the service asks to wait, 0 where it does not, and no more than 15 minutes.
func RetryAfter(err error, now time.Time) time.Duration {
	const most = 15 * time.Minute
	failure, ok := errors.AsType[*paymentsvc.Error](err)
	if !ok {
		return 0
	}
	value := failure.Header.Get("Retry-After")
	// Of a number that is too large, ParseUint gives the largest.
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return min(time.Duration(seconds)*time.Second, most)
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(date.Sub(now), 0), most)
}

// Backoff is the wait after the nth time, from 1 on: a second, doubled each time, and no more than most.
func Backoff(n int, most time.Duration) time.Duration {
	return min(time.Second<<min(max(n-1, 0), 20), most)
}

// httpStatus gives the status of the answer, 0 without one.
func httpStatus(err error) int {
	failure, ok := errors.AsType[*paymentsvc.Error](err)
	if !ok {
		return 0
	}
	return failure.HTTPStatus
}
