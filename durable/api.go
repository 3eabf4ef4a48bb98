package durable

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Store keeps payments and payouts in a database and calls the service for them. Create it with [Open]; it is safe for
// concurrent use, also by several processes on one database.
type Store struct{}

// Dialect is a kind of database.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "PostgreSQL"
	SQLite     Dialect = "SQLite"
)

// Migrate creates the tables, or brings them up to date, under a lock: processes that start together may all call it.
func Migrate(ctx context.Context, db *sql.DB) error { return errors.ErrUnsupported }

// Schema returns the statements that Migrate runs on an empty database, for migrations of your own.
func Schema(d Dialect) []string { return nil }

// Open returns a Store on db, whose dialect it detects. Errors wrap [ErrInvalid], [ErrSchema] or [ErrUnsafeDatabase], or
// are the database's. For SQLite, db must have one connection (SetMaxOpenConns(1)), WAL and synchronous FULL, best set
// in its address. Open does not close db, and there is nothing to close in a Store.
func Open(ctx context.Context, db *sql.DB, c Config) (*Store, error) { return nil, errors.ErrUnsupported }

// Pay stores a payment and starts it. It returns when the outcome is recorded, or when ctx ends: the row is then still
// StateStarting, and the call goes on, since a buyer who leaves must not cut it off. What became of the payment is the
// row's State and not an error. Errors wrap [ErrInvalid], [ErrConflict] or [ErrClosed], or are the database's.
//
// A pause does not stop Pay, only the retries of payments.
func (s *Store) Pay(ctx context.Context, p NewPayment) (Row, error) { return Row{}, errors.ErrUnsupported }

// QueuePayments stores payments in your transaction; [Store.Run] starts them. Results are in the order of p. Errors are
// those of QueuePayouts.
func (s *Store) QueuePayments(ctx context.Context, tx *sql.Tx, p ...NewPayment) ([]Queued, error) {
	return nil, errors.ErrUnsupported
}

// QueuePayouts stores payouts in your transaction; [Store.Run] sends them after its commit. Results are in the order of
// p. A reference that is known is no error: see [Queued]. The error wraps [ErrInvalid] if one of p cannot be used, and
// nothing is stored then; otherwise it is the database's.
//
// Until tx ends, it blocks others that queue the same references, and on SQLite every other write: commit every thousand
// payouts or so.
func (s *Store) QueuePayouts(ctx context.Context, tx *sql.Tx, p ...NewPayout) ([]Queued, error) {
	return nil, errors.ErrUnsupported
}

// Notified stores a notification and applies it, once by its Key. It fits [paymentsvc.Webhook.Handler]: after nil a
// repetition changes nothing, so the service may be answered with success; an error asks the service to repeat it.
func (s *Store) Notified(ctx context.Context, n *paymentsvc.Notification) error { return errors.ErrUnsupported }

// Run sends what is due, reconciles what is unknown and sweeps, until ctx is done. It then starts nothing new and
// returns nil when the outcomes of all calls are recorded, within Timeout and some seconds. It waits out a database that
// is away. It may be called once.
func (s *Store) Run(ctx context.Context) error { return errors.ErrUnsupported }

// Turn sends what is due within l, and returns the number of calls made when their outcomes are recorded. It returns 0
// at once while Run or another Turn of this Store works. Use it in jobs and cron; they have to call Sweep too. Errors
// wrap [ErrPaused] or [ErrHeld], or are the database's.
func (s *Store) Turn(ctx context.Context, l Limit) (done int, err error) { return 0, errors.ErrUnsupported }

// Sweep does once what Run does between its rounds: it ends leases, gives up old payments, polls the service for what is
// unknown and due, applies notifications that wait, and repeats OnChange where it failed. A lease ends only after this
// Store has watched the row for a whole lease, so a process has to live that long.
func (s *Store) Sweep(ctx context.Context) error { return errors.ErrUnsupported }

// Pause stops all claims of all processes until [Store.Resume]: payouts and the retries of payments. What was claimed
// before still goes out, see [Store.Drained]. It is kept in the database.
func (s *Store) Pause(ctx context.Context, by, reason string) error { return errors.ErrUnsupported }

// Resume ends a pause, whoever made it, and the run of equal refusals.
func (s *Store) Resume(ctx context.Context, by string) error { return errors.ErrUnsupported }

// Drained waits until no row is StateStarting, so that after Pause nothing is in flight. It returns the error of ctx if
// that ends first.
func (s *Store) Drained(ctx context.Context) error { return errors.ErrUnsupported }

// HoldPayouts keeps back every payout that is stored now or until [Store.EndHold], after a backup was restored for
// instance: compare them with the service's list, then [Store.Release] those that it does not have. Payments that were
// to be started become unknown, so that the service is polled first. It returns the new generation.
func (s *Store) HoldPayouts(ctx context.Context, by, reason string) (generation int64, err error) {
	return 0, errors.ErrUnsupported
}

// EndHold lets new payouts be sent again. Those that are held stay so until they are released.
func (s *Store) EndHold(ctx context.Context, by string) error { return errors.ErrUnsupported }

// Release lets the held payouts that f selects be sent, and returns their number.
func (s *Store) Release(ctx context.Context, by string, f Filter) (int, error) { return 0, errors.ErrUnsupported }

// Status returns what holds for all processes.
func (s *Store) Status(ctx context.Context) (Status, error) { return Status{}, errors.ErrUnsupported }

// Ready proves that the database can be written and read back, for a readiness probe.
func (s *Store) Ready(ctx context.Context) error { return errors.ErrUnsupported }

// Balance returns the service's answer to GetBalance.
func (s *Store) Balance(ctx context.Context) (*paymentsvc.Balance, error) { return nil, errors.ErrUnsupported }

// Find yields the rows whose user_data, order_id or reference is text, at most two of each kind.
func (s *Store) Find(ctx context.Context, text string) iter.Seq2[Row, error] { return nil }

// Rows yields the rows that f selects, the newest first, read in pages of 500 by key: no read stays open.
func (s *Store) Rows(ctx context.Context, f Filter) iter.Seq2[Row, error] { return nil }

// Counts counts the rows of f.Kind and f.Batch; the other fields are ignored.
func (s *Store) Counts(ctx context.Context, f Filter) (Counts, error) { return Counts{}, errors.ErrUnsupported }

// Notices returns the last 50 notifications of a row, the newest first.
func (s *Store) Notices(ctx context.Context, r Row) ([]Notice, error) { return nil, errors.ErrUnsupported }

// Decisions returns what was decided of a row, the newest first.
func (s *Store) Decisions(ctx context.Context, userData string) ([]Decision, error) {
	return nil, errors.ErrUnsupported
}

// DecisionKind is what a person has found out about a row.
type DecisionKind string

// The decisions.
const (
	// DecidePaid says that it was paid: it has succeeded.
	DecidePaid DecisionKind = "paid"
	// DecideUnpaid says that it was not paid and will not be: it has failed.
	DecideUnpaid DecisionKind = "unpaid"
	// DecideFound says that the service has it, under Decision.OrderID: a notification will end it.
	DecideFound DecisionKind = "found"
	// DecideAgain says that the service does not have a payout: it is sent again, with the same user_data.
	DecideAgain DecisionKind = "again"
	// DecideAsk polls the service now.
	DecideAsk DecisionKind = "ask"
	// DecideSeen clears Row.Attention and keeps the state.
	DecideSeen DecisionKind = "seen"
)

// Decision is a person's decision about a row.
type Decision struct {
	Kind     DecisionKind
	UserData string
	// OrderID is required for DecideFound, optional for DecidePaid and DecideUnpaid, and "" for the others.
	OrderID string
	// By is who decided. It is required.
	By string
	// Version is the [Row].Version of what the person saw: a row that has changed since is not decided. DecideMany
	// ignores it.
	Version int64
	// State and Attention are those of the row before. At is when it was decided. Decide ignores all three.
	State     State
	Attention string
	At        time.Time
}

// Allowed reports whether the decision fits the row.
func (k DecisionKind) Allowed(r Row) bool { return false }

// Decide applies a decision, and keeps it with what it was based on. Errors wrap [ErrNotFound], [ErrChanged],
// [ErrUndecidable], [ErrOrderID] or [ErrInvalid], or are the database's.
func (s *Store) Decide(ctx context.Context, d Decision) error { return errors.ErrUnsupported }

// DecideMany applies d to each row that f selects and that it fits, each in a transaction of its own, and returns their
// number and the sum of their amounts. preview only counts. Rows that change meanwhile are left out.
func (s *Store) DecideMany(ctx context.Context, f Filter, d Decision, preview bool) (n int, sum paymentsvc.Amount, err error) {
	return 0, paymentsvc.Amount{}, errors.ErrUnsupported
}

// Batch is a file of payouts, see [Store.AddBatch].
type Batch struct {
	// ID identifies the content, such as its SHA-256.
	ID   string
	Name string
	// Line is where reading goes on, and Complete whether the end was reached.
	Line     int64
	Complete bool
	// ExpectedRows and ExpectedTotal are what the sender announced, 0 and not set without.
	ExpectedRows  int64
	ExpectedTotal paymentsvc.Amount
	CreatedAt     time.Time
}

// AddBatch stores a batch in your transaction and returns it, or the one with the same ID as it is stored.
func (s *Store) AddBatch(ctx context.Context, tx *sql.Tx, b Batch) (Batch, error) {
	return Batch{}, errors.ErrUnsupported
}

// AdvanceBatch moves a batch's Line in your transaction, together with the payouts up to there. The error wraps
// [ErrChanged] if the batch is no longer at line from: another process reads it too.
func (s *Store) AdvanceBatch(ctx context.Context, tx *sql.Tx, id string, from, to int64, complete bool) error {
	return errors.ErrUnsupported
}

// Batches yields the batches, the newest first.
func (s *Store) Batches(ctx context.Context) iter.Seq2[Batch, error] { return nil }
