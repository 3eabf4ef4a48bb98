package durable

import "errors"

// Sentinel errors, for errors.Is. Their texts, and those of errors that wrap them, contain no destination.
var (
	// ErrInvalid is a configuration, a payment, a payout or a decision that cannot be used. The text names the field.
	ErrInvalid = errors.New("durable: invalid")
	// ErrConflict is a reference or key that belongs to another payout or payment, with another amount or destination.
	ErrConflict = errors.New("durable: reference in use with other values")
	// ErrNotFound is a row or batch that does not exist.
	ErrNotFound = errors.New("durable: not found")
	// ErrChanged is a row that has changed since it was read.
	ErrChanged = errors.New("durable: changed meanwhile")
	// ErrUndecidable is a [Decision] that does not fit the state of the row.
	ErrUndecidable = errors.New("durable: decision does not fit the state")
	// ErrOrderID is a [Decision] whose order_id is missing, not expected, another row's, or not the one that is known.
	ErrOrderID = errors.New("durable: order_id does not fit")
	// ErrPaused is returned by [Store.Turn] while nothing may be claimed, see [Store.Pause].
	ErrPaused = errors.New("durable: paused")
	// ErrHeld is returned by [Store.Turn] when payouts wait that a hold keeps back, see [Store.HoldPayouts].
	ErrHeld = errors.New("durable: payouts are held")
	// ErrSchema is a database without tables, or with those of another version: run [Migrate].
	ErrSchema = errors.New("durable: schema version")
	// ErrUnsafeDatabase is a database, or a setting of it, that could lose a committed claim.
	ErrUnsafeDatabase = errors.New("durable: unsafe database")
	// ErrClosed is returned by [Store.Pay] once [Store.Run] has been told to stop.
	ErrClosed = errors.New("durable: closed")
)
