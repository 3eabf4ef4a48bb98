package payouts

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

// Service is what a queue needs of a paymentsvc.Client.
type Service interface {
	InitPayout(ctx context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error)
	StatusPayout(ctx context.Context, r paymentsvc.StatusPayoutRequest) (*paymentsvc.StatusResponse, error)
}

// Config configures a Queue.
type Config struct {
	// Store and Client are required.
	Store  *store.Store
	Client Service
	// Workers is how many payouts this process sends at once; 0 means 8.
	Workers int
	// PerSecond bounds how many payouts this process sends in a second; 0 means no bound. Several processes have the
	// sum of theirs.
	PerSecond float64
	// Timeout limits one call, the client's own tries included; 0 means 40 seconds.
	Timeout time.Duration
	// Lease is how long a claim lasts before the payout is parked for a person; 0 means 2 minutes. It must be more than
	// twice Timeout, so that no call outlives it.
	Lease time.Duration
	// MinPause and MaxPause bound the pauses while the service refuses the caller or does not answer; 0 means 1 second
	// and 1 minute. MaxPause also bounds the time before a payout that was not sent is tried again.
	MinPause, MaxPause time.Duration
	// Sweep is how often rows are looked for that nobody works on: claims past their lease, unknown payouts to be asked
	// for, and with PostgreSQL payouts without a job. 0 means a quarter of Lease, at most 15 seconds.
	Sweep time.Duration
	// Poll is how often work is looked for that nobody has told of; 0 means 1 second.
	Poll time.Duration
	// ConcernsCaller, when set, adds to the refusals that are about the caller and not about the payout, such as an
	// empty balance: the payout waits then, with all the others. HTTP 401, 403 and 429 are among them anyway.
	// The interface document shows no code (section 7), so there is no default.
	ConcernsCaller func(*paymentsvc.Error) bool
	// Log is told what becomes of payouts, without destinations; nil means slog.Default.
	Log *slog.Logger
}

// Queue pays the payouts of the database.
type Queue interface {
	// Enqueue makes payouts known that tx has stored, or put back to be sent again. What is never enqueued is found
	// by the sweep.
	Enqueue(ctx context.Context, tx *sql.Tx, userData ...string) error
	// Run works until ctx is done, and returns when the outcomes of all calls are recorded, which may take Timeout and
	// some seconds. It can be called once.
	Run(ctx context.Context) error
	// Running says whether Run has begun to work and has not been told to end.
	Running() bool
	// Pause says whether this process sends nothing at the moment, and why.
	Pause() Pause
}

// enqueuer is Queue.Enqueue.
type enqueuer func(ctx context.Context, tx *sql.Tx, userData ...string) error

// NewQueue makes the queue that fits the database: River with PostgreSQL, where it brings River's tables up to date,
// and goroutines of this process with SQLite. Several processes may work on one database.
func NewQueue(ctx context.Context, c Config) (Queue, error) {
	c = c.withDefaults()
	if c.Store == nil || c.Client == nil {
		return nil, errors.New("payouts: Store and Client are required")
	}
	if c.Lease <= 2*c.Timeout {
		return nil, errors.New("payouts: Lease must be more than twice Timeout")
	}
	if c.Store.Postgres() {
		return newRiverQueue(ctx, c)
	}
	return newSQLiteQueue(c), nil
}

func (c Config) withDefaults() Config {
	if c.Workers <= 0 {
		c.Workers = 8
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Lease <= 0 {
		c.Lease = 2 * time.Minute
	}
	for field, value := range map[*time.Duration]time.Duration{
		&c.Timeout:  40 * time.Second,
		&c.MinPause: time.Second,
		&c.MaxPause: time.Minute,
		&c.Sweep:    min(c.Lease/4, 15*time.Second),
		&c.Poll:     time.Second,
	} {
		if *field <= 0 {
			*field = value
		}
	}
	return c
}

// every runs f at once and then again and again until ctx is done, and logs its errors.
func (c Config) every(ctx context.Context, interval time.Duration, f func(ctx context.Context) error) {
	for {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			c.Log.ErrorContext(ctx, "payouts: sweep", "error", err.Error())
		}
		if sleep(ctx, interval) != nil {
			return
		}
	}
}

// park parks the payouts whose claims have run out: the process that had claimed them died, or could not record what
// became of its calls.
func (c Config) park(ctx context.Context) error {
	n, err := c.Store.Abandoned(ctx, store.Payouts, attention)
	if n > 0 {
		c.Log.WarnContext(ctx, "payouts: parked for a person", "payouts", n)
	}
	return err
}
