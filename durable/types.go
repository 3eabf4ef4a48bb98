package durable

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Kind is payment or payout.
type Kind string

// The kinds.
const (
	KindPayment Kind = "payment"
	KindPayout  Kind = "payout"
)

// State is the state of a row.
type State string

// The states.
const (
	// StateCreated means that the row is stored, and starts when it is due. A held payout first waits for [Store.Release].
	StateCreated State = "created"
	// StateStarting means that a process has claimed the row. The process will call the service, is calling it, or has
	// died.
	StateStarting State = "starting"
	// StateUnknown means that the row may have been started. It is started again only after the service or an operator has
	// confirmed that it was not started.
	StateUnknown State = "unknown"
	// StatePending means that the service has the row under an order_id. It ends as StateSucceeded or StateFailed.
	StatePending State = "pending"
	// StateSucceeded and StateFailed are final. A notification, a poll with [Config].FinalState, or an operator sets them.
	// Only an operator can change them, if the row needs review.
	StateSucceeded State = "succeeded"
	StateFailed    State = "failed"
	// StateRejected is final. The service rejected the row, the request was invalid, or the payer left before the service
	// had the payment. An operator may send a rejected payout again.
	StateRejected State = "rejected"
)

// States returns all states in their usual order.
func States() []State {
	return []State{StateCreated, StateStarting, StateUnknown, StatePending, StateSucceeded, StateFailed, StateRejected}
}

// Final reports whether s is final. Notifications do not change a final state.
func (s State) Final() bool { return s == StateSucceeded || s == StateFailed || s == StateRejected }

// NewPayment is a payment to start.
type NewPayment struct {
	// Key identifies the payment in your system, such as the id of a basket. It is required, with the limits of
	// [NewPayout].Reference. A second Pay with the same Key returns the first payment without a call. For another attempt,
	// use a new Key, such as the basket with a number, and only after the first payment is StateFailed or StateRejected.
	//
	// Never use a Key for another purchase, because the payment's user_data is derived from Config.Project and Key. A new
	// or restored database may number baskets again, and an old SUCCESS would then pay for the new basket. So use a random
	// id, such as a UUID.
	Key string
	// Type and Amount are required. Amount must be positive.
	Type   paymentsvc.PaymentType
	Amount paymentsvc.Amount
}

// NewPayout is a payout to queue. fmt, slog and encoding/json do not show its Destination. But fmt shows the
// Destination of a NewPayout in an unexported field, because fmt cannot call methods there. In such a field, store a
// func that returns the NewPayout.
type NewPayout struct {
	// Reference is your unique name for the payout. It is required. Payouts with the same Reference are paid once.
	// Reference and Destination must be in Unicode's form NFC, without invisible characters and combining marks, and have
	// at most 1000 bytes.
	Reference string
	// Amount is required and must be positive.
	Amount paymentsvc.Amount
	// Destination is required. It is stored in full, and never printed.
	Destination string
	// Batch identifies the payout's file, and Line is the line in the file. Both are optional.
	Batch string
	Line  int64
}

// Format prints String under every verb.
func (p NewPayout) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }

// String returns Reference and Amount.
func (p NewPayout) String() string {
	return "payout " + strconv.Quote(p.Reference) + " of " + p.Amount.String()
}

// LogValue returns String.
func (p NewPayout) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalJSON encodes String.
func (p NewPayout) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// Queued is the result for one row of [Store.QueuePayouts] or [Store.QueuePayments].
type Queued struct {
	// UserData identifies the new, existing or pruned row.
	UserData  string
	Reference string
	// New reports whether the row was added. If New is false and Err is nil, an equal row exists, or [Store.Prune] has
	// deleted it.
	New bool
	// Batch is the batch of an existing payout, or "" for a new or pruned payout.
	Batch string
	// Err wraps ErrConflict if the reference belongs to a row with other values, also after [Store.Prune].
	Err error
}

// Row is a stored payment or payout, without its destination.
type Row struct {
	Kind     Kind
	UserData string
	// Reference is NewPayout.Reference or NewPayment.Key.
	Reference string
	Type      paymentsvc.PaymentType // payments only
	Amount    paymentsvc.Amount
	State     State
	// OrderID is the service's id, or "" if it is not known.
	OrderID string
	// RedirectURL is the page for the payer, or "" if it is not known. The response of StatusPayment does not contain it
	// (section 4.2), so a payment with a lost response has no RedirectURL.
	RedirectURL string
	// DestinationEnd is the last four characters of a payout's destination, or "" if the destination has fewer than eight.
	// It is for pages. fmt, slog and encoding/json do not show it.
	DestinationEnd string `json:"-"`
	Batch          string
	Line           int64
	// Claims counts the claims, and Polls the status calls.
	Claims, Polls int64
	// MayHaveStarted reports that an earlier call may have started the row, so that a rejection is not final. It stays
	// true after the outcome is known. It is false if the first call succeeded.
	MayHaveStarted bool
	// Held reports that the payout waits for [Store.Release].
	Held bool
	// ErrorCode is the service's code of the last rejection, or else the HTTP status, "invalid request" or "not
	// reached". It is "" without a rejection, and after a response shows that the service has the row.
	ErrorCode string
	// ReviewReason is the reason for a review by an operator, or "".
	ReviewReason string
	// Overdue reports a pending row older than [Config].PendingReview, without a review by an operator within this time.
	// Only [Store.Rows] and [Store.Find] set it.
	Overdue bool
	// ResendAt is the end of [Config].Grace for an unknown row without an order_id, or zero after Grace and for other
	// rows. Until then [DecideResend] and [DecideUnpaid] are not allowed. Only [Store.Rows] and [Store.Find] set it.
	ResendAt time.Time
	// Version changes with each hold, and with each change of the row, except for claims and for polls without a result.
	// See [Decision].
	Version int64
	// DueAt is the time of the next call of a created row, the next poll of an unknown row (with [Config].FinalState
	// also of a pending row), or the end of a starting row's lease. ClaimedAt is the time of the last claim, or for an
	// unknown row the time of a later hold. All times are by the database's clock.
	DueAt, ClaimedAt, CreatedAt, UpdatedAt time.Time
}

// Cursor returns the value of [Filter].After for the rows that follow r.
func (r Row) Cursor() string {
	return strconv.FormatInt(r.CreatedAt.UnixMilli(), 10) + "." + r.UserData
}

// Format prints String under every verb.
func (r Row) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// String returns kind, user_data, amount and state.
func (r Row) String() string {
	return string(r.Kind) + " " + r.UserData + " of " + r.Amount.String() + ", " + string(r.State)
}

// LogValue returns the values of String.
func (r Row) LogValue() slog.Value {
	return slog.GroupValue(slog.String("kind", string(r.Kind)), slog.String("user_data", r.UserData),
		slog.String("amount", r.Amount.String()), slog.String("state", string(r.State)))
}

// Event is the argument of [Config].OnChange.
//
// OnChange runs in the transaction that changes the row, after a savepoint. If it returns nil, its writes with tx
// commit once, together with the change. On SQLite it must use only tx, because the database has one connection. The
// row may need review (Row.ReviewReason), for example after an earlier SUCCESS with another amount.
//
// After an error of OnChange in [Store.Notified], the row does not change, and Notified returns the error. The
// notification stays stored, and Run applies it later, because the document does not specify whether the service
// repeats a notification. After any other error of OnChange, also when Run applies a notification, durable keeps the
// change and rolls back to the savepoint. Run then calls OnChange later in a new transaction, with the current row.
// Row.State may then differ from To, because an operator may have sent a rejected payout again. So compare Row.State
// and To before a new payment or refund. A panic and a failed statement of PostgreSQL count as errors of OnChange.
type Event struct {
	// Row is the row after the change.
	Row Row
	// From and To are the old and the new state. Both are "" for a refund, so that code for a state does not run again.
	From, To State
	// Refund is a refund of a payment, or nil for a change of state. It may arrive before the payment's success, with any
	// StatusDescription.
	Refund *Notice
}

// Notice is a stored notification.
type Notice struct {
	Key, OrderID, UserData string
	Event                  paymentsvc.EventType
	StatusDescription      paymentsvc.StatusName
	Status, StatusCode     int64
	Amount                 paymentsvc.Amount
	// Matched is false until the row is found. It is always true for an event that the document does not specify.
	Matched    bool
	ReceivedAt time.Time
}

// BatchLimit limits [Store.RunBatch]. The zero value has no limit.
type BatchLimit struct {
	// Rows is the maximum number of calls, or 0 for no maximum.
	Rows int
	// Duration limits the time in which rows are claimed. 0 means no limit.
	Duration time.Duration
}

// Status is the common state of all processes, see [Store.Status].
type Status struct {
	// Paused reports a pause. Until is its automatic end, or zero if [Store.Resume] must end it.
	Paused bool
	Until  time.Time
	// PausedAt is the beginning of a pause without Until. It is zero for other pauses.
	PausedAt time.Time
	// Reason and By are the reason for the pause and its author. The author of an automatic pause is "durable".
	Reason, By string
	// Hold reports that new payouts are also held.
	Hold               bool
	HoldReason, HoldBy string
	// ReleaseAt is the end of [Config].Grace after the last hold, or zero after Grace. Until then, [Store.Release],
	// [Store.EndHold], [DecideResend] and [DecideUnpaid] are not allowed.
	ReleaseAt time.Time
	// Generation increases with each hold. It is based on the time, so that no generation appears again after a restore.
	Generation int64
	// RejectionCode and Rejections are the current run of equal rejections of payouts.
	RejectionCode string
	Rejections    int64
	// Starting is the number of claimed rows. Their calls may be in flight.
	Starting int64
	// Witnessed reports that [Config].Witness is set. Without it, a volume restored to an earlier moment pays again.
	Witnessed bool
	// Now is the database's time.
	Now time.Time
}

// publicRow returns the exported form of a row.
func publicRow(r *row.Row) Row {
	return Row{
		Kind: Kind(r.Kind), UserData: r.UserData, Reference: r.Reference, Type: paymentsvc.PaymentType(r.Type),
		Amount: r.Amount, State: State(r.State), OrderID: r.OrderID, RedirectURL: r.RedirectURL,
		DestinationEnd: end(r.Destination), Batch: r.Batch, Line: r.Line, Claims: r.Claims, Polls: r.Polls,
		MayHaveStarted: r.MayHaveStarted, Held: r.Held, ErrorCode: r.ErrorCode, ReviewReason: r.ReviewReason,
		Version: r.Version + r.Current, DueAt: ledger.Time(r.DueAt), ClaimedAt: ledger.Time(r.ClaimedAt),
		CreatedAt: ledger.Time(r.CreatedAt), UpdatedAt: ledger.Time(r.UpdatedAt),
	}
}

// end returns the last four characters of a destination, or "" for a short destination.
func end(destination string) string {
	const shown = 4
	if utf8.RuneCountInString(destination) < 2*shown {
		return ""
	}
	characters := []rune(destination)
	return string(characters[len(characters)-shown:])
}
