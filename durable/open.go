package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/recognize"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

// Store keeps payments and payouts in a database and calls the service for them. Create it with [Open]. It is safe for
// concurrent use, also by several processes with one database.
type Store struct {
	c         Config
	ledger    *ledger.Ledger
	guard     *recognize.Guard
	scheduler *schedule.Scheduler[job, callResult]
	now       func() time.Time
	draining  context.Context // canceled by abandon at the end of Config.Drain
	abandon   context.CancelFunc

	leases  leaseTimer
	pending pendingPolls
	breaker atomic.Int64 // successive payouts not sent or with an unknown outcome
	scans   noticeScans
	warned  atomic.Pointer[ledger.Place] // the last notification that warnUnmatched has logged
}

// Open returns a Store on db, and detects the dialect. Errors wrap [ErrInvalid], [ErrSchema] or [ErrUnsafeDatabase], or
// come from the database or the Witness. A SQLite db must have one connection (SetMaxOpenConns(1)), WAL, synchronous
// FULL and a busy_timeout, best set in the database's address. Open does not close db, and a Store needs no Close.
//
// Open holds payouts, see [Store.HoldPayouts], if db has moved to another server, or is an older copy. The Config's
// [Witness] detects an older copy. Open returns an error if it cannot hold the payouts. It logs a warning if other
// users can read a SQLite file.
func Open(ctx context.Context, db *sql.DB, c Config) (*Store, error) {
	return open(ctx, db, c, "", time.Now)
}

// open implements Open. clock is an SQL expression for the database's clock, or "". now is the clock of the process.
func open(ctx context.Context, db *sql.DB, c Config, clock string, now func() time.Time) (*Store, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	problem, err := recognize.Pooler(ctx, db) // first, because a pooler can make any other statement fail
	if err != nil {
		return nil, fmt.Errorf("durable: open: %w", err)
	}
	if problem != "" {
		return nil, fmt.Errorf("%w: %s", ErrUnsafeDatabase, problem)
	}
	dialect, err := dialectOf(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("durable: open: %w", err)
	}
	if err := checkVersion(ctx, db); err != nil {
		return nil, err
	}
	problem, err = recognize.Unsafe(ctx, db, dialect == SQLite, c.HoldOnlyOnRestore)
	if err != nil {
		return nil, fmt.Errorf("durable: open: %w", err)
	}
	if problem != "" && !c.AllowUnsafeDatabase {
		return nil, fmt.Errorf("%w: %s", ErrUnsafeDatabase, problem)
	}
	s := &Store{c: c, now: now, ledger: ledger.New(db, db, ledger.Dialect(dialect), clock)}
	s.warned.Store(&ledger.Place{})
	s.draining, s.abandon = context.WithCancel(context.WithoutCancel(ctx))
	s.configureLedger()
	if err := s.ledger.Prepare(ctx); err != nil {
		return nil, fmt.Errorf("durable: open: %w", err)
	}
	if err := s.checkProject(ctx); err != nil {
		return nil, err
	}
	s.guard, err = recognize.Open(ctx, recognize.Options{
		DB: db, SQLite: dialect == SQLite, Witness: c.Witness, AllowFailover: c.HoldOnlyOnRestore,
		Hold: s.holdAutomatically, Log: c.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("durable: open: %w", err)
	}
	s.ledger.Identify(s.guard.Here())
	if c.Witness == nil {
		c.Log.WarnContext(ctx, "durable: without Config.Witness, a restored volume pays its last payouts again")
	}
	s.scheduler = s.newScheduler(dialect)
	return s, nil
}

func (s *Store) configureLedger() {
	l := s.ledger
	l.Log, l.Slots = s.c.Log, s.c.Slots
	if s.c.ReadDB != nil {
		l.Read = s.c.ReadDB
	}
	for _, state := range s.c.ChangeStates {
		l.ChangeStates = append(l.ChangeStates, row.State(state))
	}
	if onChange := s.c.OnChange; onChange != nil {
		l.OnChange = func(ctx context.Context, tx *sql.Tx, e ledger.Event) error {
			event := Event{Row: publicRow(&e.Row), From: State(e.From), To: State(e.To)}
			if e.Refund != nil {
				refund := Notice(*e.Refund)
				event.Refund = &refund
			}
			return onChange(ctx, tx, event)
		}
	}
	if change := s.c.Hooks.Change; change != nil {
		l.Moved = func(ctx context.Context, k row.Kind, from, to row.State) {
			change(ctx, Kind(k), State(from), State(to))
		}
	}
}

func (s *Store) newScheduler(dialect Dialect) *schedule.Scheduler[job, callResult] {
	rounds := 1
	if dialect == PostgreSQL {
		rounds = 2
	}
	return schedule.New(schedule.Config[job, callResult]{
		Ledger: rounder{s}, Slots: s.c.Slots, MaxRounds: rounds, MaxRecords: maxRecords,
		Call: func(ctx context.Context, j job) schedule.Completion[callResult] {
			return s.completion(s.call(ctx, j), 1)
		},
		PerSecond: s.c.PerSecond, Poll: s.c.Poll, Log: s.c.Log,
	})
}

// maxRecords is the maximum number of transactions for records beside the rounds.
const maxRecords = 4

// checkProject rejects the database of another project. Polls with this project's ids would not find the other
// project's payments, so the Store would start these payments again.
func (s *Store) checkProject(ctx context.Context) error {
	project, err := s.ledger.Join(ctx, s.c.Project)
	if err != nil {
		return fmt.Errorf("durable: open: %w", err)
	}
	if project != s.c.Project {
		return fmt.Errorf("%w: it belongs to project %q, want Config.Project %q", ErrUnsafeDatabase, project, s.c.Project)
	}
	return nil
}

// Dialect is a kind of database.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "PostgreSQL"
	SQLite     Dialect = "SQLite"
)

func dialectOf(ctx context.Context, db *sql.DB) (Dialect, error) {
	dialect, err := ledger.Detect(ctx, db)
	if errors.Is(err, ledger.ErrUnsupported) {
		err = fmt.Errorf("%w: %w", ErrUnsafeDatabase, err)
	}
	return Dialect(dialect), err
}

// step calls Hooks.Step, in which tests kill the process.
func (s *Store) step(step Step) {
	if s.c.Hooks.Step != nil {
		s.c.Hooks.Step(step)
	}
}
