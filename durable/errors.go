package durable

import (
	"errors"

	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Sentinel errors, for errors.Is. The texts of errors contain no destination.
var (
	// ErrInvalid is an invalid configuration, payment, payout or decision. The text names the field.
	ErrInvalid = errors.New("durable: invalid")
	// ErrConflict is a reference or key of an existing payout or payment with another amount or destination.
	ErrConflict = errors.New("durable: reference in use with other values")
	// ErrNotFound is a missing row or batch.
	ErrNotFound = ledger.ErrNotFound
	// ErrPruned is a payment or payout that [Store.Prune] has deleted. It was in a final state.
	ErrPruned = errors.New("durable: pruned")
	// ErrChanged is a row with a change since it was read, or a [Store.Release] or [Store.EndHold] after another hold.
	ErrChanged = row.ErrChanged
	// ErrUndecidable is a [Decision] with a row in an unfit state.
	ErrUndecidable = errors.New("durable: decision does not fit the state")
	// ErrOrderID is a [Decision] with a missing, unexpected or different order_id, or with another row's.
	ErrOrderID = errors.New("durable: order_id does not fit")
	// ErrPaused is returned by [Store.RunBatch] during a pause, see [Store.Pause].
	ErrPaused = errors.New("durable: paused")
	// ErrHeld is returned by [Store.RunBatch] if a hold keeps payouts back, see [Store.HoldPayouts].
	ErrHeld = errors.New("durable: payouts are held")
	// ErrBusy is returned by [Store.RunBatch] and [Store.Run] during another call of either.
	ErrBusy = errors.New("durable: another Run or RunBatch is active, or Run has returned")
	// ErrDrain is returned by [Store.Run] if calls or records were in progress at the end of [Config].Drain. Run has
	// canceled the calls, so the SDK's transport has reset their connections. Run has then waited one more second for
	// records. A row without a record stays claimed and becomes StateUnknown at the end of its lease. Cancellation alone
	// is never taken for "not sent".
	ErrDrain = errors.New("durable: calls in flight at the end of Config.Drain")
	// ErrSchema is a database without tables, or with tables of another version. [Migrate] creates the tables.
	ErrSchema = errors.New("durable: schema version")
	// ErrUnsafeDatabase is a database, pooler or setting that could lose a committed claim.
	ErrUnsafeDatabase = errors.New("durable: unsafe database")
	// ErrClosed is returned by [Store.Pay] after the end of the context of [Store.Run].
	ErrClosed = errors.New("durable: closed")
)
