package schedule

import "context"

// Ledger is the database. Its methods are called concurrently.
//
//nolint:interfacebloat // a scheduler needs these four operations of one database
type Ledger[Job, Done any] interface {
	// Round records completions and claims rows in one commit. After an error, no call may begin, and only the commit of
	// Result.Recorded is certain.
	Round(ctx context.Context, r Request[Done]) (Result[Job], error)

	// Record records one completion in a separate transaction, with all consequences. It makes one attempt and returns
	// nil if the completion needs no further attempt. The scheduler retries after an error.
	Record(ctx context.Context, c Completion[Done]) error

	// Probe claims one payout after a timed pause. It returns no job if no payout is due, if another process has claimed
	// the probe, or if the pause or the server has changed. After an error, the commit is unknown.
	Probe(ctx context.Context, token string) ([]Job, error)

	// Release makes the rows claimed with tokens due again. Their calls never began.
	Release(ctx context.Context, tokens []string) error
}

// Completion is the result of one call.
type Completion[Done any] struct {
	// UserData identifies the row.
	UserData string

	// OrderID is the order_id of a success, or "".
	OrderID string

	// OrderKey identifies the order among payments and payouts. With "", the scheduler passes the completion to
	// [Ledger.Record] instead of a round.
	OrderKey string

	// Slot is 1 if the call occupies a slot, and 0 for a payment started by its caller.
	Slot int

	// Done contains further fields for the ledger.
	Done Done
}

// Request is the input of a round.
type Request[Done any] struct {
	// Token identifies the claims of the round.
	Token string

	// Completions have unique order keys and user_data among all rounds in flight.
	Completions []Completion[Done]

	// The round may claim at most Free rows plus one row for each slot of a recorded completion, and at most MaxRows
	// rows: payments up to MaxPayments first, then payouts. With MaxRows 0, the round claims no rows.
	Free, MaxRows, MaxPayments int

	// After is the position of the last claimed rows. The zero value is the start of the queue.
	After Position

	// OrderIDs were recorded by earlier rounds. The round applies notifications that arrived before the commit of their
	// order_id.
	OrderIDs []string
}

// Position is a place in the queue of each kind.
type Position struct {
	Payments, Payouts Cursor
}

// Cursor is a place in one queue, in the order of the due time and then of the user_data.
type Cursor struct {
	At  int64  // due time in the ledger's unit
	Key string // user_data
}

// Result is the output of a committed round.
type Result[Job any] struct {
	// Jobs are the claimed rows. Payments is the number of claimed payments.
	Jobs     []Job
	Payments int

	// Recorded contains the user_data of the recorded completions.
	Recorded map[string]bool

	// Next is the position of the last claimed rows, or Request.After without claims.
	Next Position

	// Paused reports a pause. Elapsed reports the end of a timed pause, so [Ledger.Probe] may claim a payout. With either,
	// Jobs is empty.
	Paused, Elapsed bool

	// Recognized reports that the round claimed no rows because the server or its data had changed. The ledger has then
	// recognized the server or held payouts, so another round is useful.
	Recognized bool
}
