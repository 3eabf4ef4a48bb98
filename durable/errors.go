package durable

import (
	"errors"

	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Sentinel errors, for errors.Is. The texts of errors contain no destination.
var (
	// ErrInvalid reports an invalid configuration, payment, payout or decision. The text names the field.
	ErrInvalid = errors.New("durable: invalid")
	// ErrConflict reports a reference or key that an existing or pruned row has with another type, amount or
	// destination.
	ErrConflict = errors.New("durable: reference in use with other values")
	// ErrNotFound reports a missing row or batch, or an unreadable notification that is missing or already reviewed.
	ErrNotFound = ledger.ErrNotFound
	// ErrPruned reports a payment or payout that [Store.Prune] has deleted. It was in a final state.
	ErrPruned = errors.New("durable: pruned")
	// ErrChanged reports a row, a [Batch] or a hold that has changed since it was read.
	ErrChanged = row.ErrChanged
	// ErrUndecidable reports a [Decision] that does not fit the row or is too early, or a [Store.Release] or
	// [Store.EndHold] before [Status].ReleaseAt.
	ErrUndecidable = errors.New("durable: not allowed in this state")
	// ErrOrderID reports a [Decision] with a missing or unexpected order_id, or with an order_id that differs from the
	// row's own or belongs to another row.
	ErrOrderID = errors.New("durable: order_id does not fit")
	// ErrPaused is returned by [Store.RunBatch] during a pause, see [Store.Pause].
	ErrPaused = errors.New("durable: paused")
	// ErrHeld is returned by [Store.RunBatch] if only held payouts remain, see [Store.HoldPayouts].
	ErrHeld = errors.New("durable: payouts are held")
	// ErrBusy is returned by [Store.RunBatch] and [Store.Run] during another call of either, and after Run.
	ErrBusy = errors.New("durable: another Run or RunBatch is active, or Run has returned")
	// ErrDrain is returned by [Store.Run] if calls or records were in progress at the end of [Config].Drain. Run has
	// canceled the calls, so the SDK's transport has reset their connections. Run has then waited up to one more second
	// for records. A row without a record stays claimed and becomes StateUnknown at the end of its lease. A canceled
	// call may have been sent.
	ErrDrain = errors.New("durable: calls in flight at the end of Config.Drain")
	// ErrSchema reports a database without tables, or with tables of another version. [Migrate] creates the tables.
	ErrSchema = errors.New("durable: schema version")
	// ErrUnsafeDatabase reports an unsafe pooler or setting, or a database of another Config.Project or dialect.
	ErrUnsafeDatabase = errors.New("durable: unsafe database")
	// ErrClosed is returned by [Store.Pay] after the end of the context of [Store.Run].
	ErrClosed = errors.New("durable: closed")
)
