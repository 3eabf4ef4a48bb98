package durable

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Service is what a Store calls. *paymentsvc.Client implements it.
//
//nolint:interfacebloat // these are the calls that a Store makes
type Service interface {
	InitPayment(ctx context.Context, t paymentsvc.PaymentType, r paymentsvc.PaymentRequest) (*paymentsvc.InitPaymentResponse, error)
	StatusPayment(ctx context.Context, r paymentsvc.StatusPaymentRequest) (*paymentsvc.StatusResponse, error)
	InitPayout(ctx context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error)
	StatusPayout(ctx context.Context, r paymentsvc.StatusPayoutRequest) (*paymentsvc.StatusResponse, error)
	GetBalance(ctx context.Context) (*paymentsvc.Balance, error)
}

// Config configures a [Store].
type Config struct {
	// Service is required. It must not send a start twice by itself: *paymentsvc.Client never does.
	Service Service
	// Project names the service and the project that the rows belong to, such as the base URL with both ids. It is
	// required, and Open rejects a database that was first used with another one. The user_data of payouts are
	// derived from it, so it must never change.
	Project string
	// ReadDB serves [Store.Rows], [Store.Find] and [Store.Counts]; nil means the database of [Open]. For SQLite, pass a
	// read-only pool (mode=ro), so that pages do not wait for the one connection that writes.
	ReadDB *sql.DB

	// NotFound reports whether an error of StatusPayment means that the service has no such payment. The interface
	// document does not show one, so nil means that no error does: a payment whose answer was lost then waits for its
	// notification.
	NotFound func(*paymentsvc.Error) bool
	// AccountCodes are error codes that mean the account has run dry. Such an answer to a payout pauses everything until
	// [Store.Resume], and so does HTTP 402. The document shows no codes, so there is no default.
	AccountCodes []string
	// EqualRefusals is how many payouts in a row may be rejected with one code before everything is paused until
	// [Store.Resume]; the rejected ones of the run then need attention and can be sent again. 0 means 5; negative
	// disables it.
	EqualRefusals int

	// Slots is how many rows [Store.Run] and [Store.Turn] call the service for at once in this process. It also limits
	// the rows in doubt after a crash. 0 means 8.
	Slots int
	// PerSecond limits the rows that this process claims per second; 0 means no limit.
	PerSecond float64
	// Timeout limits one call, from before its claim is sent. 0 means 40 seconds.
	Timeout time.Duration
	// Lease is how long a claim lasts whose process has died. It must be more than twice Timeout. 0 means 2 minutes.
	Lease time.Duration
	// Grace is how long after its last claim a payment may still turn up at the service: until then, "no such payment"
	// is not believed. It must be at least Timeout. 0 means 2 minutes.
	Grace time.Duration
	// GiveUp is the age from which a payment is no longer started: its buyer has left. 0 means 15 minutes.
	GiveUp time.Duration
	// Poll is how often Run looks for work that it was not told of. 0 means 1 second.
	Poll time.Duration

	// OnChange, if set, is called in the transaction that moves a row to one of ChangeStates, and for refunds. See
	// [Event].
	OnChange func(ctx context.Context, tx *sql.Tx, e Event) error
	// ChangeStates are the states that OnChange is called for; nil means the final ones: succeeded, failed, rejected.
	// With StatePending among them, outcomes are recorded one by one, which is slower.
	ChangeStates []State
	// Hooks are for telemetry.
	Hooks Hooks
	// Log receives what an operator may want to know; nil means slog.Default().
	Log *slog.Logger

	// HoldOnlyOnRestore keeps payouts going after a failover to a standby of the same PostgreSQL cluster. Set it only if
	// the standby is synchronous: otherwise commits may be lost, and a claim with them. Open then rejects
	// synchronous_commit local. By default a failover holds payouts, see [Store.HoldPayouts].
	HoldOnlyOnRestore bool
	// AllowUnsafeDatabase makes Open accept a database that may lose commits, for tests on throw-away databases.
	AllowUnsafeDatabase bool
}

// Hooks are functions for telemetry. Each may be nil, must be safe for concurrent use, and must be fast: a row waits
// for it. A panic in one ends the process, and the outcome of its call is then unknown. None receives a destination.
type Hooks struct {
	// Call is called after each call of the service.
	Call func(ctx context.Context, c Call)
	// Change is called after the commit that moved a row to another state. One that a crash prevents is not repeated.
	Change func(ctx context.Context, kind Kind, from, to State)
	// Round is called after each round trip that records outcomes and claims rows.
	Round func(ctx context.Context, r Round)
	// Pause is called when this process has paused everything or held payouts, with the reason, which says when the pause
	// ends if it ends by itself. It contains the service's error code: log it, but do not make it a label of a metric.
	Pause func(ctx context.Context, reason string)
	// Step is called before and after what a crash may separate. It is for tests that kill the process there.
	Step func(step Step)
}

// Call is a call of the service.
type Call struct {
	// Endpoint is init_payment, init_payout, status_payment or status_payout.
	Endpoint string
	Duration time.Duration
	// Outcome is the outcome of a failed start.
	Outcome paymentsvc.Outcome
	// Err is the error, nil for a success. Its text contains nothing of a request or an answer.
	Err error
}

// Round is a round trip to the database that records outcomes and claims rows.
type Round struct {
	Recorded, Asked, Claimed int // outcomes recorded, rows asked for, rows claimed
	Duration                 time.Duration
	Err                      error
}

// Step is a point at which a process may die.
type Step string

// The steps, in the order of a row's life.
const (
	StepClaim    Step = "claim"    // before the claim, and the outcomes of the round, are sent
	StepClaimed  Step = "claimed"  // after the round's commit, before its calls begin
	StepCall     Step = "call"     // before the call
	StepCalled   Step = "called"   // after the call, before its outcome is recorded
	StepRecord   Step = "record"   // before an outcome is recorded on its own
	StepRecorded Step = "recorded" // after an outcome is recorded, alone or in a round
)

func (c Config) withDefaults() Config {
	c.EqualRefusals = cmp.Or(c.EqualRefusals, 5)
	c.Slots = cmp.Or(c.Slots, 8)
	c.Timeout = cmp.Or(c.Timeout, 40*time.Second)
	c.Lease = cmp.Or(c.Lease, 2*time.Minute)
	c.Grace = cmp.Or(c.Grace, 2*time.Minute)
	c.GiveUp = cmp.Or(c.GiveUp, 15*time.Minute)
	c.Poll = cmp.Or(c.Poll, time.Second)
	if c.NotFound == nil {
		c.NotFound = func(*paymentsvc.Error) bool { return false }
	}
	if c.ChangeStates == nil {
		c.ChangeStates = []State{StateSucceeded, StateFailed, StateRejected}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// check returns an error that wraps ErrInvalid and names the field.
func (c Config) check() error {
	switch {
	case c.Service == nil:
		return fmt.Errorf("%w: Config.Service is required", ErrInvalid)
	case c.Project == "":
		return fmt.Errorf("%w: Config.Project is required", ErrInvalid)
	case c.Slots < 0 || c.Slots > maxSlots:
		return fmt.Errorf("%w: Config.Slots is %d, want 1 to %d", ErrInvalid, c.Slots, maxSlots)
	case c.Timeout < 0 || c.Lease <= 2*c.Timeout:
		return fmt.Errorf("%w: Config.Lease must be more than twice Config.Timeout", ErrInvalid)
	case c.Grace < c.Timeout:
		return fmt.Errorf("%w: Config.Grace must be at least Config.Timeout", ErrInvalid)
	case c.PerSecond < 0 || math.IsNaN(c.PerSecond) || math.IsInf(c.PerSecond, 0):
		return fmt.Errorf("%w: Config.PerSecond is %v, want a number, 0 or more", ErrInvalid, c.PerSecond)
	case c.GiveUp < 0 || c.Poll < 0:
		return fmt.Errorf("%w: Config.GiveUp or Poll is negative", ErrInvalid)
	}
	return nil
}

// maxSlots bounds what a round puts into one statement.
const maxSlots = 1000
