package row

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Result is the result of a call of the service.
type Result struct {
	Kind ResultKind
	// OrderID is the order_id of a success or of an error response, or "".
	OrderID string
	// RedirectURL is the page for the payer of a started payment.
	RedirectURL string
	// Code is the error code of a rejection.
	Code string
	// Wait is the back-off before the next call.
	Wait time.Duration
	// Stuck reports that the service has rejected the caller so often that the row needs review.
	Stuck bool
}

// ResultKind is the kind of a [Result]. The zero value is an unknown outcome.
type ResultKind int

// The kinds of results.
const (
	OutcomeUnknown ResultKind = iota
	Started                   // the service has the row
	NotCalled                 // the call never began, so the claim can be returned
	NotSent                   // no byte of the request was sent
	CallerRejected            // the service rejected the caller, not the row
	RowRejected               // the service rejected the row
)

// Complete applies the result of a call. token identifies the claim of the call, and taken reports that another row has
// result.OrderID. A success and an error with an order_id apply without the claim, because even a late report is true.
func (r *Row) Complete(token string, result Result, taken bool) error {
	if result.Kind == Started {
		r.Found(result.OrderID, taken)
		if r.OrderID == result.OrderID {
			r.RedirectURL = cmp.Or(result.RedirectURL, r.RedirectURL)
		}
		return nil
	}
	switch {
	case r.State == Starting && r.Token == token:
	case result.Kind != OutcomeUnknown || result.OrderID == "":
		return ErrChanged
	case r.State.Settled(): // the order_id in a late error shows that the service has the row
		r.Found(result.OrderID, taken)
		return nil
	}
	switch result.Kind {
	case NotCalled:
		r.State, r.Due = Created, 0
	case NotSent:
		r.State, r.Due = Created, result.Wait
	case CallerRejected:
		r.State, r.Due, r.MayHaveStarted, r.ErrorCode = Created, result.Wait, true, result.Code
		if result.Stuck {
			r.FlagForReview(RejectedOften)
		}
	case RowRejected:
		r.reject(result.Code)
	default:
		r.uncertain(result.OrderID, taken)
	}
	return nil
}

func (r *Row) reject(code string) {
	r.ErrorCode, r.Due = cmp.Or(code, "rejected"), 0
	if !r.MayHaveStarted {
		r.State = Rejected
		r.clearUncertainty()
		return
	}
	r.State = Unknown
	if r.Kind == Payout && r.OrderID == "" {
		r.FlagForReview(RejectedLater)
	}
}

func (r *Row) uncertain(orderID string, taken bool) {
	r.State, r.MayHaveStarted, r.Due = Unknown, true, time.Second
	if orderID != "" {
		if taken || r.OrderID != "" && r.OrderID != orderID {
			r.Found(orderID, taken) // flags the row for review
			return
		}
		r.OrderID = orderID
	}
	if r.Kind == Payout && r.OrderID == "" {
		r.FlagForReview(NoAnswer)
	}
}

// EndLease makes a row unknown at the end of a lease. token identifies the claim.
func (r *Row) EndLease(token string) error {
	if r.State != Starting || r.Token != token {
		return ErrChanged
	}
	r.uncertain("", false)
	r.Due = 0
	return nil
}

// Absent applies a response showing that the service does not have the payment. The caller waits for Config.Grace
// before the poll. claims is Row.Claims at the time of the poll, and late reports that the payer has left.
func (r *Row) Absent(claims int64, late bool) error {
	if r.Kind != Payment || r.State != Unknown || r.Claims != claims || r.OrderID != "" || r.OrderIDTaken {
		return ErrChanged
	}
	r.clearUncertainty()
	r.Due = 0
	if r.ErrorCode == "" && !late {
		r.State = Created
		return nil
	}
	r.State, r.ErrorCode = Rejected, cmp.Or(r.ErrorCode, notReached)
	return nil
}

// GiveUp ends the attempts to start a payment after its payer has left.
func (r *Row) GiveUp() error {
	if r.Kind != Payment || r.State != Created {
		return ErrChanged
	}
	r.State, r.ErrorCode, r.Due = Rejected, notReached, 0
	if r.MayHaveStarted {
		r.State = Unknown
	}
	return nil
}

// Found records that the service has r under orderID. taken reports that another row has orderID.
func (r *Row) Found(orderID string, taken bool) {
	if taken {
		r.OrderIDTaken = true
		r.Contradict("The service returned an order_id that another row has: " + Shorten(orderID) + ".")
		return
	}
	if r.OrderID != "" && r.OrderID != orderID {
		r.Contradict("The service has it under a second order_id: " + Shorten(orderID) + ".")
		return
	}
	decided := r.State == Failed && r.OrderID == "" // by an operator, because a notification also sets the order_id
	r.OrderID = orderID
	switch {
	case r.State == Rejected:
		r.FlagForReview("The service has it, though it was rejected: order_id " + Shorten(orderID) + ".")
	case decided:
		r.FlagForReview("The service has it, though it counted as not paid: order_id " + Shorten(orderID) + ".")
	case !r.State.Settled():
		r.State, r.ErrorCode = Pending, ""
		r.clearUncertainty()
	}
}

// FoundWith applies a response to a poll, as Found does, and compares the amount if it is set.
func (r *Row) FoundWith(orderID string, amount paymentsvc.Amount, taken bool) {
	if amount.IsSet() && !amount.Equal(r.Amount) {
		r.mismatch(orderID, fmt.Sprintf("The service has it with %s instead of %s.", amount, r.Amount), taken)
		return
	}
	r.Found(orderID, taken)
}

// Contradict flags r for review. If r is not settled, it becomes unknown, so it is not sent before the review.
func (r *Row) Contradict(reason string) {
	if !r.State.Settled() {
		r.State, r.MayHaveStarted = Unknown, true
	}
	r.FlagForReview(reason)
}

// mismatch records that the service has r under orderID with another amount.
func (r *Row) mismatch(orderID, reason string, taken bool) {
	if r.OrderID == "" && !taken {
		r.OrderID = orderID
	}
	r.Contradict(reason)
}

// Notify applies a notification about r. taken reports that another row has orderID.
func (r *Row) Notify(orderID string, status paymentsvc.StatusName, amount paymentsvc.Amount, taken bool) {
	unmoved := r.State == Rejected || r.State == Failed && r.OrderID == ""
	if unmoved && status == paymentsvc.StatusFailure && !taken {
		// No money has moved. The order_id is stored, because a later notification may have no user_data.
		r.OrderID = cmp.Or(r.OrderID, orderID)
		return
	}
	if !amount.Equal(r.Amount) {
		text := fmt.Sprintf("The service reports %s of %s instead of %s.", Shorten(string(status)), amount, r.Amount)
		r.mismatch(orderID, text, taken)
		return
	}
	r.Found(orderID, taken)
	if r.OrderID != orderID {
		return
	}
	var final State
	switch status {
	case paymentsvc.StatusSuccess:
		final = Succeeded
	case paymentsvc.StatusFailure:
		final = Failed
	default:
		return // other statuses are not final, and may be older than the state
	}
	switch {
	case r.State == Pending:
		r.State = final
	case r.State != final:
		r.FlagForReview(fmt.Sprintf("The service reports %s after it was %s.", status, r.State))
	}
}

// Shorten returns at most 64 bytes of a text. It quotes a text that needs escapes, see strconv.QuoteToASCII.
func Shorten(text string) string {
	const longest = 64
	if quoted := strconv.QuoteToASCII(text); quoted != `"`+text+`"` {
		text = quoted
	}
	return text[:min(len(text), longest)]
}
