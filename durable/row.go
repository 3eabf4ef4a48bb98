package durable

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// row is a Row as it is being changed in a transaction. Its methods are the state machine: each changes r by what has
// become known, and returns ErrChanged if that no longer applies to r.
type row struct {
	Row
	token       string
	generation  int64
	destination string
	// orderIDTaken reports whether the service returned another row's order_id for r: so it has r, under some order_id.
	orderIDTaken bool

	before State         // the state as loaded
	due    time.Duration // from now to DueAt; noDue keeps DueAt
}

const noDue time.Duration = -1

// Texts for people.
const (
	noAnswer     = "No clear answer: ask the service whether it was paid, by its user_data."
	refusedLater = "Refused, but an earlier call may have been carried out: ask the service whether it was paid."
	inARun       = "Refused in a run of equal refusals: it can be sent again."
	notSaid      = "The service does not say whether it has this."
	refusedOften = "Refused again and again."
	// onChangeFails has no character that LIKE treats as special.
	onChangeFails = "OnChange fails again and again: see the log."
	notReached    = "not reached"
)

// verdict is what a call of the service came to.
type verdict struct {
	is      fact
	orderID string // of a success, or of an answer that was none
	url     string // where the buyer pays
	code    string // why it was refused
	wait    time.Duration
	stuck   bool // refused so often that a person must look
	// pause is what follows for all rows, reason why, and atLeast for how long the service asks to wait.
	pause   pause
	reason  string
	atLeast time.Duration
	err     error
}

type fact int

const (
	factUnknown   fact = iota
	factStarted        // the service has it
	factUnbegun        // the call was not begun: the claim can be returned
	factNotSent        // nothing left this process
	factPostponed      // the service refused the caller and not the row
	factRefused        // the service refused the row
)

type pause int

const (
	pauseNone    pause = iota
	pauseEnd           // the service answers: a pause may end
	pauseTrouble       // the service does not answer
	pauseTimed
	pauseEndless
)

// outcome applies what the call of the claim token came to. A success is true whoever learnt it and however late, so it
// needs no claim.
func (r *row) outcome(token string, v verdict, taken bool) error {
	if v.is == factStarted {
		r.found(v.orderID, taken)
		if r.OrderID == v.orderID {
			r.RedirectURL = cmp.Or(v.url, r.RedirectURL)
		}
		return nil
	}
	if r.State != StateStarting || r.token != token {
		return ErrChanged
	}
	switch v.is {
	case factUnbegun:
		r.State, r.due = StateCreated, 0
	case factNotSent:
		r.State, r.due = StateCreated, v.wait
	case factPostponed:
		r.State, r.due, r.Doubted, r.Refusal = StateCreated, v.wait, true, v.code
		if v.stuck {
			r.attend(refusedOften)
		}
	case factRefused:
		r.refused(v.code)
	default:
		r.unknown(v.orderID, taken)
	}
	return nil
}

func (r *row) refused(code string) {
	r.Refusal, r.due = cmp.Or(code, "refused"), 0
	if !r.Doubted {
		r.State = StateRejected
		r.answered()
		return
	}
	r.State = StateUnknown
	if r.Kind == KindPayout && r.OrderID == "" {
		r.attend(refusedLater)
	}
}

func (r *row) unknown(orderID string, taken bool) {
	r.State, r.Doubted, r.due = StateUnknown, true, time.Second
	if orderID != "" {
		if taken || r.OrderID != "" && r.OrderID != orderID {
			r.found(orderID, taken) // which calls for a person
			return
		}
		r.OrderID = orderID
	}
	if r.Kind == KindPayout && r.OrderID == "" {
		r.attend(noAnswer)
	}
}

// abandoned ends the claim token, whose lease is over.
func (r *row) abandoned(token string) error {
	if r.State != StateStarting || r.token != token {
		return ErrChanged
	}
	r.unknown("", false)
	r.due = 0
	return nil
}

// absent applies the service's word that it does not have a payment, long enough after the claim token.
func (r *row) absent(token string, late bool) error {
	if r.Kind != KindPayment || r.State != StateUnknown || r.token != token || r.OrderID != "" || r.orderIDTaken {
		return ErrChanged
	}
	r.answered()
	r.due = 0
	if r.Refusal == "" && !late {
		r.State = StateCreated
		return nil
	}
	r.State, r.Refusal = StateRejected, cmp.Or(r.Refusal, notReached)
	return nil
}

// giveUp ends the starting of a payment whose buyer has left.
func (r *row) giveUp(token string) error {
	if r.Kind != KindPayment || r.State != StateCreated || r.token != token {
		return ErrChanged
	}
	r.State, r.Refusal, r.due = StateRejected, notReached, 0
	if r.Doubted {
		r.State = StateUnknown
	}
	return nil
}

// found applies that the service has r under orderID. taken says that another row has that order_id.
func (r *row) found(orderID string, taken bool) {
	if taken {
		r.orderIDTaken = true
		r.contradicted("The service gave an order_id that another row has: " + shorten(orderID) + ".")
		return
	}
	if r.OrderID != "" && r.OrderID != orderID {
		r.contradicted("The service has it under two order_ids: also " + shorten(orderID) + ".")
		return
	}
	unheard := r.OrderID == "" // so that a failure is a person's word, and not the service's
	r.OrderID = orderID
	switch {
	case r.State == StateRejected:
		r.attend("The service has it, though it was rejected: order_id " + shorten(orderID) + ".")
	case r.State == StateFailed && unheard:
		r.attend("The service has it, though it counted as not paid: order_id " + shorten(orderID) + ".")
	case !r.settled():
		r.State, r.Refusal = StatePending, ""
		r.answered()
	}
}

// contradicted applies that the service has something that does not fit r: until a person has looked, nothing is sent.
func (r *row) contradicted(reason string) {
	if !r.settled() {
		r.State, r.Doubted = StateUnknown, true
	}
	r.attend(reason)
}

// other applies that the service has r under orderID with another amount.
func (r *row) other(orderID, reason string, taken bool) {
	if r.OrderID == "" && !taken {
		r.OrderID = orderID
	}
	r.contradicted(reason)
}

// foundWith is found, by the answer to a question. An amount that is not set says nothing.
func (r *row) foundWith(orderID string, amount paymentsvc.Amount, taken bool) {
	if amount.IsSet() && !amount.Equal(r.Amount) {
		r.other(orderID, fmt.Sprintf("The service has it with %s instead of %s.", amount, r.Amount), taken)
		return
	}
	r.found(orderID, taken)
}

// notified applies a notification of r's kind.
func (r *row) notified(n Notice, taken bool) {
	status := n.StatusDescription
	if unmoved := r.State == StateRejected || r.State == StateFailed && r.OrderID == ""; unmoved &&
		status == paymentsvc.StatusFailure && !taken {
		// Refused or failed, whoever says so: no money has moved. A later notification may have no user_data.
		r.OrderID = cmp.Or(r.OrderID, n.OrderID)
		return
	}
	if !n.Amount.Equal(r.Amount) {
		said := fmt.Sprintf("The service says %s of %s instead of %s.", shorten(string(status)), n.Amount, r.Amount)
		r.other(n.OrderID, said, taken)
		return
	}
	r.found(n.OrderID, taken)
	if r.OrderID != n.OrderID {
		return
	}
	var final State
	switch status {
	case paymentsvc.StatusSuccess:
		final = StateSucceeded
	case paymentsvc.StatusFailure:
		final = StateFailed
	default:
		return // no other status is final, and an old one may come late
	}
	switch {
	case r.State == StatePending:
		r.State = final
	case r.State != final:
		r.attend(fmt.Sprintf("The service says %s after it was %s.", status, r.State))
	}
}

// settled reports whether only a notification or a person changes r's state.
func (r *row) settled() bool { return r.State == StatePending || r.State.Final() }

// attend adds a reason for a person to look.
func (r *row) attend(reason string) {
	if !strings.Contains(r.Attention, reason) && len(r.Attention) < 1000 {
		r.Attention = strings.TrimSpace(r.Attention + " " + reason)
	}
}

// answered removes the reasons for a person to look that were that nobody knew.
func (r *row) answered() {
	for _, reason := range []string{noAnswer, refusedLater, refusedOften, notSaid, inARun} {
		r.Attention = strings.ReplaceAll(r.Attention, reason, "")
	}
	r.Attention = strings.TrimSpace(r.Attention)
}
