// Package row contains the state machine of payments and payouts. The methods of [Row] apply new facts, such as the
// result of a call. A method returns [ErrChanged] if its fact no longer applies. The package has no I/O.
package row

import (
	"errors"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// ErrChanged reports a row that another process has changed since it was read.
var ErrChanged = errors.New("durable: changed since it was read")

// Kind is the kind of a row.
type Kind string

// The kinds.
const (
	Payment Kind = "payment"
	Payout  Kind = "payout"
)

// State is the state of a row. A Starting row is stored as Created, with an entry in the table of claims.
type State string

// The states.
const (
	Created   State = "created"
	Starting  State = "starting"
	Unknown   State = "unknown"
	Pending   State = "pending"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Rejected  State = "rejected"
)

// Settled reports whether s is Pending or final. Calls and leases do not change a settled state.
func (s State) Settled() bool { return s == Pending || s.Final() }

// Final reports whether s is final. Notifications do not change a final state.
func (s State) Final() bool { return s == Succeeded || s == Failed || s == Rejected }

// Row is a payment or a payout.
type Row struct {
	Kind        Kind
	UserData    string
	Reference   string
	Type        string // payments only
	Amount      paymentsvc.Amount
	Destination string // payouts only
	Batch       string
	Line        int64
	State       State
	OrderID     string
	// OrderIDTaken reports that the service returned another row's order_id, so the service has this row under an
	// unknown order_id.
	OrderIDTaken bool
	RedirectURL  string
	// Claims counts the claims, and Polls the status calls.
	Claims, Polls int64
	// MayHaveStarted reports that an earlier call may have started the row. It never becomes false.
	MayHaveStarted bool
	ErrorCode      string
	// ReviewReason is the reason for a review by an operator, or "".
	ReviewReason string
	// Reviewed reports that an operator has recently reviewed a pending row, so it is not overdue. Only lists set it.
	Reviewed bool
	Version  int64
	// All times are Unix milliseconds of the database's clock.
	DueAt, ClaimedAt, CreatedAt, UpdatedAt int64
	// Each hold begins a new generation of payouts. Current is the newest generation. Held reports a created payout of
	// an older generation.
	Generation, Current int64
	Held                bool
	// Token identifies the claim of a starting row. It is "" in other states.
	Token string

	// Due is the wait until the next call or poll. KeepDue keeps DueAt.
	Due time.Duration
	// Loaded is the state when the row was last read or saved.
	Loaded State
}

// KeepDue is the Row.Due of a row that keeps its due time.
const KeepDue time.Duration = -1

// Texts of Row.ReviewReason, and the error code notReached.
const (
	NoAnswer      = "No clear response: search for its user_data in the service's list to find out whether it was paid."
	RejectedLater = "Rejected, but an earlier call may have succeeded: find out from the service whether this was paid."
	InARun        = "Rejected in a run of equal rejections: it can be sent again."
	NotConfirmed  = "The service does not confirm whether it has this."
	RejectedOften = "Rejected again and again."
	// OnChangeFails contains no special character of LIKE.
	OnChangeFails = "OnChange fails again and again: see the log."
	notReached    = "not reached"
)

// FlagForReview adds a reason for a review, unless r has this reason or reasons of 1000 bytes or more.
func (r *Row) FlagForReview(reason string) {
	if !strings.Contains(r.ReviewReason, reason) && len(r.ReviewReason) < 1000 {
		r.ReviewReason = strings.TrimSpace(r.ReviewReason + " " + reason)
	}
}

// ClearReason removes a review reason.
func (r *Row) ClearReason(reason string) {
	r.ReviewReason = strings.TrimSpace(strings.ReplaceAll(r.ReviewReason, reason, ""))
}

// clearUncertainty removes the review reasons that applied only while the outcome was unknown.
func (r *Row) clearUncertainty() {
	for _, reason := range []string{NoAnswer, RejectedLater, RejectedOften, NotConfirmed, InARun} {
		r.ClearReason(reason)
	}
}

// Stored returns the state that the table durable_rows contains for s.
func (s State) Stored() State {
	if s == Starting {
		return Created
	}
	return s
}

// Claim identifies a claim of a row.
type Claim struct {
	UserData, Token string
	Claims          int64 // claims of the row, including this claim
	ClaimedAt       int64 // the database's time of the claim
}
