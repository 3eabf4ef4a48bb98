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
)

// Kind is what a row is: a payment or a payout.
type Kind string

// The kinds.
const (
	KindPayment Kind = "payment"
	KindPayout  Kind = "payout"
)

// State is where a row is in its life.
type State string

// The states.
const (
	// StateCreated is stored and not at the service: it will be started when it is due.
	StateCreated State = "created"
	// StateStarting is claimed: a process is about to call, is calling, or has died.
	StateStarting State = "starting"
	// StateUnknown may be at the service. It is never started again before the service or a person says that it is not.
	StateUnknown State = "unknown"
	// StatePending is at the service, under an order_id. A notification ends it.
	StatePending State = "pending"
	// StateSucceeded and StateFailed are final: a notification, or a person, said so.
	StateSucceeded State = "succeeded"
	StateFailed    State = "failed"
	// StateRejected is final: the service started nothing. A person may send a rejected payout again.
	StateRejected State = "rejected"
)

// States returns all states in the order in which a row goes through them.
func States() []State {
	return []State{StateCreated, StateStarting, StateUnknown, StatePending, StateSucceeded, StateFailed, StateRejected}
}

// Final reports whether no notification changes s.
func (s State) Final() bool { return s == StateSucceeded || s == StateFailed || s == StateRejected }

// NewPayment is a payment to start.
type NewPayment struct {
	// Key identifies the payment on your side, such as the id of a basket. A second Pay with the same Key returns the
	// first payment and calls nothing. Let a buyer try again with a new Key, such as the basket with a number, and only
	// once the first payment is StateFailed or StateRejected. With "", each call is a new payment: reject an empty basket.
	Key string
	// Type and Amount are required. Amount must be positive.
	Type   paymentsvc.PaymentType
	Amount paymentsvc.Amount
}

// NewPayout is a payout to queue. fmt, slog and encoding/json do not show its Destination, unless the NewPayout is in an
// unexported field: fmt calls no method there, so keep a func there that returns it.
type NewPayout struct {
	// Reference is your unique name for the payout. It is required: a payout with the same Reference is paid once. It and
	// Destination must be in Unicode's form NFC, and may not contain what people do not see, such as combining marks.
	Reference string
	// Amount is required and must be positive.
	Amount paymentsvc.Amount
	// Destination is required. It is stored in full, and never shown.
	Destination string
	// Batch names the file that the payout came from, and Line its line there. Both are optional.
	Batch string
	Line  int64
}

// Format shows Reference and Amount under every verb.
func (p NewPayout) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }

// String shows Reference and Amount.
func (p NewPayout) String() string {
	return "payout " + strconv.Quote(p.Reference) + " of " + p.Amount.String()
}

// LogValue shows what Format shows.
func (p NewPayout) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalJSON writes the text of String.
func (p NewPayout) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// Queued is what became of one row of [Store.QueuePayouts] or [Store.QueuePayments].
type Queued struct {
	// UserData identifies the row. It is that of the existing row if it is not new.
	UserData  string
	Reference string
	// New reports whether the row was added. If it is false and Err is nil, an equal row existed and is unchanged.
	New bool
	// Err wraps ErrConflict if the reference belongs to a row with other values.
	Err error
}

// Row is a payment or a payout as it is stored. It does not contain the destination.
type Row struct {
	Kind     Kind
	UserData string
	// Reference is NewPayout.Reference or NewPayment.Key.
	Reference string
	Type      paymentsvc.PaymentType // of a payment
	Amount    paymentsvc.Amount
	State     State
	// OrderID is the service's, "" until it is known.
	OrderID string
	// RedirectURL is where the buyer pays, "" if it is not known: the answer of StatusPayment does not show one
	// (section 4.2), so a payment whose first answer was lost has none.
	RedirectURL string
	// DestinationEnd is the last four characters of a payout's destination, "" of one shorter than eight. It is for
	// pages: fmt, slog and encoding/json do not show it.
	DestinationEnd string `json:"-"`
	Batch          string
	Line           int64
	// Claims counts the claims, and Asked how often the service was polled for the row.
	Claims, Asked int64
	// Doubted reports whether a call may have been carried out, or had been when it was made.
	Doubted bool
	// Held reports whether the payout waits for [Store.Release].
	Held bool
	// Refusal is the service's last error code, "" without one.
	Refusal string
	// Attention is why a person must look, "" where none must.
	Attention string
	// Version changes whenever the row does, see [Decision].
	Version int64
	// DueAt is when a created row is started, an unknown one polled, and a claim ends, by the database's clock.
	DueAt, ClaimedAt, CreatedAt, UpdatedAt time.Time
}

// Cursor returns the value of [Filter].After for the rows that follow r.
func (r Row) Cursor() string {
	return strconv.FormatInt(r.CreatedAt.UnixMilli(), 10) + "." + r.UserData
}

// Format shows what identifies the row under every verb.
func (r Row) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// String shows what identifies the row.
func (r Row) String() string {
	return string(r.Kind) + " " + r.UserData + " of " + r.Amount.String() + ", " + string(r.State)
}

// LogValue shows what Format shows.
func (r Row) LogValue() slog.Value {
	return slog.GroupValue(slog.String("kind", string(r.Kind)), slog.String("user_data", r.UserData),
		slog.String("amount", r.Amount.String()), slog.String("state", string(r.State)))
}

// Event is a change that [Config].OnChange is told of.
//
// OnChange runs in the transaction that changes the row, after a savepoint: what it writes with tx commits together
// with the change, once for each change. On SQLite it must use tx alone, since there is no other connection. Its error
// rejects a notification, which the service repeats. It never undoes the outcome of a call or a decision: then the
// savepoint is rolled back, and Run calls OnChange again later in a transaction of its own, with the row as it is then.
// A panic, and a statement that fails in PostgreSQL, count as its error.
type Event struct {
	// Row is the row after the change.
	Row Row
	// From and To are the states, both "" for a refund, so that code for a state does not run again.
	From, To State
	// Refund is the refund that the service reports of a payment, nil for a change of state. It may come before the
	// payment's success, and its StatusDescription may be any.
	Refund *Notice
}

// Notice is a notification as it was stored.
type Notice struct {
	Key, OrderID, UserData string
	Event                  paymentsvc.EventType
	StatusDescription      paymentsvc.StatusName
	Status, StatusCode     int64
	Amount                 paymentsvc.Amount
	// Matched is false while no row is known for it.
	Matched    bool
	ReceivedAt time.Time
}

// Filter selects rows. The zero value selects all.
type Filter struct {
	// Kind, State, Batch and Refusal are "" for all.
	Kind    Kind
	State   State
	Batch   string
	Refusal string
	// Attention selects rows that a person must look at.
	Attention bool
	// Held selects payouts that wait for [Store.Release].
	Held bool
	// UserData selects these rows; nil selects all.
	UserData []string
	// After starts after the row with this [Row.Cursor]; "" starts with the newest.
	After string
	// Limit is the number of rows; 0 means all.
	Limit int
}

// Counts is how many rows there are.
type Counts struct {
	// States counts the rows of each state that has any, up to [CountLimit] each unless the filter names a batch.
	States map[State]int64
	// Attention counts the rows that a person must look at, with the same limit.
	Attention int64
	// Held counts the payouts that wait for [Store.Release], with the same limit.
	Held int64
	// Unmatched counts the notifications of [Store.Unmatched], with the same limit; 0 if the filter names a batch.
	Unmatched int64
}

// CountLimit is the highest count of [Store.Counts] without a batch: it means "this many or more".
const CountLimit = 10_000

// Limit bounds a [Store.Turn]. The zero value has no bound: the turn ends when nothing is due.
type Limit struct {
	// Rows is the number of rows to call the service for; 0 means no limit.
	Rows int
	// Duration is the time after which no more rows are claimed; 0 means no limit.
	Duration time.Duration
}

// Status is what holds for all processes, see [Store.Status].
type Status struct {
	// Paused reports whether nothing is claimed, Until when that ends by itself, zero if [Store.Resume] has to end it.
	Paused bool
	Until  time.Time
	// Reason and By say why and who paused. A pause by durable itself has By "durable".
	Reason, By string
	// Hold reports whether new payouts are held too, HoldReason and HoldBy why and by whom.
	Hold               bool
	HoldReason, HoldBy string
	Generation         int64
	// RefusalCode and RefusalRun are the run of equal refusals of payouts.
	RefusalCode string
	RefusalRun  int64
	// Starting is the number of rows whose calls may be in flight.
	Starting int64
	// Now is the database's time.
	Now time.Time
}

// end returns the part of a destination that pages may show.
func end(destination string) string {
	const shown = 4
	if utf8.RuneCountInString(destination) < 2*shown {
		return ""
	}
	characters := []rune(destination)
	return string(characters[len(characters)-shown:])
}
