package durable

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/recognize"
)

// Service contains the methods of *paymentsvc.Client that a Store calls.
//
//nolint:interfacebloat // a Store calls each of them
type Service interface {
	InitPayment(
		ctx context.Context, t paymentsvc.PaymentType, r paymentsvc.PaymentRequest,
	) (*paymentsvc.InitPaymentResponse, error)
	StatusPayment(ctx context.Context, r paymentsvc.StatusPaymentRequest) (*paymentsvc.StatusResponse, error)
	InitPayout(ctx context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error)
	StatusPayout(ctx context.Context, r paymentsvc.StatusPayoutRequest) (*paymentsvc.StatusResponse, error)
	GetBalance(ctx context.Context) (*paymentsvc.Balance, error)
	DecodesErrors() bool
}

// Config configures a [Store].
type Config struct {
	// Service is required. Its DecodesErrors must return true, so a *paymentsvc.Client needs a DecodeError. Service must
	// never repeat a start that may have been sent. A *paymentsvc.Client never repeats such a start.
	Service Service
	// Project identifies the service and the project, such as "pay 1001 2002". It is required and must never change,
	// because user_data is derived from it. Choose your own name instead of the base URL, because an address may change.
	// Open rejects a database of another Project.
	Project string
	// Witness notices a database restored to an earlier moment, which would pay again. Without it, Open logs a warning. On
	// SQLite the default is a file next to the database file, which does not notice a restore of the whole directory. On
	// PostgreSQL there is no default.
	Witness Witness
	// ReadDB serves lists and counts, such as [Store.Rows] and [Store.Counts]. The default is the database of [Open]. For
	// SQLite, pass a read-only pool (mode=ro), so that pages do not wait for the connection of writes.
	ReadDB *sql.DB

	// NotFound reports whether an error of StatusPayment is the response for a missing payment. The error's Outcome is
	// OutcomeRejected, but OutcomeOf returns OutcomeUnknown for it. The interface document does not specify the error.
	// Without NotFound, an unknown payment stays unknown if the service does not have it, and later needs review.
	NotFound func(*paymentsvc.Error) bool
	// FinalState reads the state of a row from the Raw response of StatusPayment or StatusPayout. The document
	// specifies no status in these responses, so set FinalState only after your service has confirmed a field for the
	// status, and for payouts also the final states. FinalState returns StateSucceeded, StateFailed, or StatePending
	// for any other state. After an error, a panic or another result, a pending row does not change, and an unknown row
	// becomes pending, as without FinalState. With FinalState, [Store.Sweep] also polls the service for each pending
	// row, a minute after the start and then after doubling waits of up to an hour. The limit is 20 polls per second in
	// this process, or PerSecond if that is less. A scan of 200,000 pending rows takes at least 13 minutes. It has no
	// index, because an index would make each call slower. Sweep checks the user_data, the order_id and the amount in
	// the response, and applies the state once, as for a notification. Without FinalState, only a notification or an
	// operator ends a pending row.
	FinalState func(kind Kind, raw json.RawMessage) (State, error)
	// InsufficientFundsCodes are error codes of an account without funds. A response to a payout with such a code, or
	// with HTTP 402, pauses all claims until [Store.Resume]. The document specifies no codes, so there is no default.
	InsufficientFundsCodes []string
	// MaxConsecutiveRejections is the number of consecutive payouts rejected with one code that pauses all claims until
	// [Store.Resume]. These payouts then need review and can be sent again. The default is 5. A negative number
	// disables the limit.
	MaxConsecutiveRejections int

	// Slots is the maximum number of calls that [Store.Run] and [Store.RunBatch] make at once in this process. It also
	// limits the unknown rows of Run and RunBatch after a crash. The default is 8, and the maximum is 1000.
	Slots int
	// PerSecond is the maximum number of claims per second by Run and RunBatch in this process, or 0 for no maximum.
	PerSecond float64
	// Timeout limits a poll, and the time from the request of a claim to the end of the call. The default is 40 seconds.
	Timeout time.Duration
	// Lease is the minimum time before a claim without a recorded result ends. It must be more than twice Timeout. The
	// default is 2 minutes.
	Lease time.Duration
	// Grace is the time after the last claim of a row in which a request may still reach the service. During Grace, a
	// Store ignores NotFound, and rejects [DecideResend] and [DecideUnpaid] for an unknown row. Grace must be at least the
	// sum of Timeout and 2 minutes, because after a network failure of 55 seconds, the operating system delivered a
	// request 54 seconds late. The default is this sum. All processes, including the operators' page, need the same Grace,
	// based on the longest Timeout.
	Grace time.Duration
	// GiveUp is the age at which an unstarted payment is given up, because the payer has left. The default is 15 minutes.
	GiveUp time.Duration
	// PendingReview is the age at which a pending row needs review, because its notification may be lost: see
	// [Row].Overdue. DecideFound and DecideAcknowledge begin another period of this length. The document specifies no
	// time for notifications, so the default, 0, means that age alone is no reason for review.
	PendingReview time.Duration
	// Drain limits how long [Store.Run] waits for calls and their records after the end of its context, see [ErrDrain].
	// The default, 0, means no limit. Without a limit, each call ends within Timeout, and its record takes up to 10
	// seconds. Where SIGKILL follows SIGTERM after 30 seconds, a sum of 25 seconds for the HTTP server and Drain is safe.
	Drain time.Duration
	// Poll is the interval of Run's scans for due rows, and the wait between two sweeps of Run. The default is 1 second.
	Poll time.Duration

	// OnChange, if set, is called for each refund and for each change of a state to one of ChangeStates, in the
	// transaction of the change. It is not called for a new row, a claim or a hold. See [Event]. If the process that makes
	// the change has no OnChange, no process calls it, so set OnChange in all processes with this database, including the
	// operators' page.
	OnChange func(ctx context.Context, tx *sql.Tx, e Event) error
	// ChangeStates are the new states for which OnChange is called. The default is succeeded, failed and rejected. With
	// OnChange and StatePending, durable records each success separately, which is slower.
	ChangeStates []State
	// Hooks are for telemetry.
	Hooks Hooks
	// Log receives messages for operators. The default is slog.Default().
	Log *slog.Logger

	// HoldOnlyOnRestore continues payouts after a failover to a standby of the same PostgreSQL cluster. Set it only with a
	// synchronous standby, because another standby may lack the commit of a claim. Open then also rejects
	// synchronous_commit local. By default a failover holds payouts, see [Store.HoldPayouts].
	HoldOnlyOnRestore bool
	// AllowUnsafeDatabase makes Open accept unsafe settings, but not an unsafe pooler, or another Project or dialect. It
	// is for tests on throw-away databases.
	AllowUnsafeDatabase bool
}

// Hooks are functions for telemetry. Each may be nil, must be safe for concurrent use, and must be fast, because a row
// waits for the hook. A panic in a hook ends the process, unless the caller of a method such as [Store.Notified]
// recovers it. The outcome of a call in progress is then unknown. Hooks receive no destination.
type Hooks struct {
	// Trace is called before each call of the service for a row, and begins a span. ctx is derived from the context of
	// Pay, Run, RunBatch or Sweep. The returned context must be derived from ctx. The call, OnChange, and the hooks
	// Call and Change receive it. end is called once, after the outcome is recorded or the first attempt to record it
	// has failed. err is nil after a success, and its text contains no part of a request or response.
	Trace func(ctx context.Context, endpoint, userData string) (traced context.Context, end func(err error))
	// Call is called after each call of the service for a row.
	Call func(ctx context.Context, c Call)
	// Change is called after the commit of a changed state, except for a claim or a hold. A crash may prevent the call.
	Change func(ctx context.Context, kind Kind, from, to State)
	// Round is called after each round trip that records outcomes and claims rows.
	Round func(ctx context.Context, r Round)
	// Pause is called after this process has automatically paused claims or held payouts. The reason includes the end
	// of a timed pause. Log the reason, but do not use it as a metric's label, because it contains the service's error
	// code.
	Pause func(ctx context.Context, reason string)
	// Step is called between two steps that a crash may separate. It is for tests that kill the process.
	Step func(step Step)
}

// Call is a call of the service.
type Call struct {
	// Endpoint is init_payment, init_payout, status_payment or status_payout.
	Endpoint string
	Duration time.Duration
	// Outcome is the [paymentsvc.Error].Outcome of a call with an Err, or the zero value.
	Outcome paymentsvc.Outcome
	// Err is the error, or nil for a success. Its text contains no part of a request or response.
	Err error
}

// Round is a round trip to the database that records outcomes and claims rows.
type Round struct {
	Recorded, Requested, Claimed int // outcomes recorded, rows requested, rows claimed
	Duration                     time.Duration
	Err                          error // of the database; its text may contain values of rows
}

// Step is a point between two steps.
type Step string

// The steps, in the order of a row's life.
const (
	StepClaim    Step = "claim"    // before claims and outcomes are sent to the database
	StepClaimed  Step = "claimed"  // after the commit of claims, before their calls begin
	StepCall     Step = "call"     // before the call
	StepCalled   Step = "called"   // after the call, before its outcome is recorded
	StepRecord   Step = "record"   // before an outcome is recorded separately
	StepRecorded Step = "recorded" // after an outcome is recorded, separately or in a round
)

// Witness stores a mark outside the database. The mark shows whether the database is an older copy, because each claim
// by Run or RunBatch raises the mark in the database and in the Witness before its call begins. Use one witness per
// database, and never restore it together with the database. Its methods are called concurrently, also by several
// processes, and must return when ctx ends.
//
// A round of claims waits for one Load and one Save. While either fails, no payout is sent.
type Witness interface {
	// Load returns the highest saved mark, or 0 before the first Save.
	Load(ctx context.Context) (mark int64, err error)

	// Save stores mark durably before it returns. If a higher mark is stored, Save keeps that mark and returns nil.
	Save(ctx context.Context, mark int64) error
}

// FileWitness returns a [Witness] in a file, which all processes on one machine may share. The file must be on a local
// disk, and not on the volume of the database, because a restore would also restore the file.
func FileWitness(path string) Witness { return recognize.File(path) }

func (c Config) withDefaults() Config {
	c.MaxConsecutiveRejections = cmp.Or(c.MaxConsecutiveRejections, 5)
	c.Slots = cmp.Or(c.Slots, 8)
	c.Timeout = cmp.Or(c.Timeout, 40*time.Second)
	c.Lease = cmp.Or(c.Lease, 2*time.Minute)
	c.Grace = cmp.Or(c.Grace, c.Timeout+lateRequest)
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

// check returns an error wrapping ErrInvalid, with the name of the field.
func (c Config) check() error {
	switch {
	case c.Service == nil:
		return fmt.Errorf("%w: Config.Service is required", ErrInvalid)
	case !c.Service.DecodesErrors():
		return fmt.Errorf("%w: Config.Service: the client has no DecodeError, so no response proves a rejection", ErrInvalid)
	case c.Project == "":
		return fmt.Errorf("%w: Config.Project is required", ErrInvalid)
	case c.Slots < 0 || c.Slots > maxSlots:
		return fmt.Errorf("%w: Config.Slots is %d, want 1 to %d", ErrInvalid, c.Slots, maxSlots)
	case c.Timeout < 0:
		return fmt.Errorf("%w: Config.Timeout is negative", ErrInvalid)
	case c.Lease <= 2*c.Timeout:
		return fmt.Errorf("%w: Config.Lease must be more than twice Config.Timeout", ErrInvalid)
	case c.Grace < c.Timeout+lateRequest:
		return fmt.Errorf(
			"%w: Config.Grace is %v, want at least the sum of Config.Timeout and %v", ErrInvalid, c.Grace, lateRequest,
		)
	case c.PerSecond < 0 || math.IsNaN(c.PerSecond) || math.IsInf(c.PerSecond, 0):
		return fmt.Errorf("%w: Config.PerSecond is %v, want a number, 0 or more", ErrInvalid, c.PerSecond)
	case c.GiveUp < 0 || c.Poll < 0 || c.PendingReview < 0 || c.Drain < 0:
		return fmt.Errorf("%w: Config.GiveUp, Poll, PendingReview or Drain is negative", ErrInvalid)
	}
	return nil
}

const (
	// lateRequest is the longest time in which a kernel or proxy may still deliver an abandoned request.
	lateRequest = 2 * time.Minute
	// maxSlots limits the size of a round's statement.
	maxSlots = 1000
)
