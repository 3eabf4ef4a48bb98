// Package store keeps orders, payouts and notifications in SQLite or PostgreSQL. Every step of a payment is a row
// that was committed before the step was taken, so that a process that dies at any line leaves behind what it may have
// done; and every change of a state says in its WHERE which states it may follow.
package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite" // registers the driver
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrNotFound says that there is no such row, or that it is not in a state that allows the step.
var ErrNotFound = errors.New("store: no such row in such a state")

// Store is the database. Make it with Open; it is safe for concurrent use, also by several processes.
type Store struct {
	db   *sql.DB
	pool *pgxpool.Pool // nil with SQLite
	now  func() time.Time
}

// Options are for Open.
type Options struct {
	// URL is postgres://... for PostgreSQL, and otherwise the path of a SQLite file, which is made where there is none. A
	// text with "://" or "=" is taken for the address of another database, and refused.
	URL string
	// Now gives the time that rows are stamped with; nil means time.Now.
	Now func() time.Time
}

// Open opens the database and brings its tables up to date. Several processes may do so at once.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{now: o.Now}
	if s.now == nil {
		s.now = time.Now
	}
	var err error
	switch {
	case isPostgres(o.URL):
		err = s.openPostgres(ctx, o.URL)
	case o.URL == "", strings.Contains(o.URL, "://"), strings.Contains(o.URL, "="): // its text may hold a password
		err = errors.New("the database is neither postgres://... nor the path of a file")
	default:
		err = s.openSQLite(o.URL)
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := s.migrate(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("store: migrate: %w", err)
	}
	return s, nil
}

func isPostgres(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

func (s *Store) openPostgres(ctx context.Context, address string) error {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return errors.New("the database's address cannot be read") // its text may hold the password
	}
	// A claim that a crash of the server could undo would be paid twice.
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	// A notification and the answer that it waits for see each other only if a statement sees what was committed before
	// it, also by another transaction that began later.
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "read committed"
	if !strings.Contains(address, "pool_max_conns=") {
		config.MaxConns = max(config.MaxConns, 10)
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	s.db = stdlib.OpenDBFromPool(s.pool)
	return nil
}

func (s *Store) openSQLite(file string) (err error) {
	// synchronous(FULL): with less, a crash of the machine could undo a claim that was committed, which would be paid
	// twice. Transactions take the write lock at their start, so that none has to be tried again in its middle.
	path := url.URL{Path: file} // in which SQLite would read ?, # and %
	s.db, err = sql.Open("sqlite", "file:"+path.EscapedPath()+
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"+
		"&_txlock=immediate")
	if err != nil {
		return err
	}
	s.db.SetMaxOpenConns(1) // SQLite has one writer at a time
	return nil
}

func (s *Store) migrate(ctx context.Context) error {
	dialect, options := goose.DialectSQLite3, []goose.ProviderOption{}
	if s.Postgres() {
		// For processes that start together: they look every second, for a minute.
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
		if err != nil {
			return err
		}
		dialect, options = goose.DialectPostgres, append(options, goose.WithSessionLocker(locker))
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(dialect, s.db, files, options...)
	if err != nil {
		return err
	}
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		_, err = provider.Up(ctx)
		if err == nil || s.Postgres() || wait > 2*time.Second {
			return err
		}
		// goose has no lock for SQLite. Of processes that start together one makes the tables; what another one has
		// begun of the same is undone, and the next try finds it done.
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// Close closes the database.
func (s *Store) Close() {
	_ = s.db.Close()
	if s.pool != nil {
		s.pool.Close()
	}
}

// Postgres says whether it is PostgreSQL.
func (s *Store) Postgres() bool { return s.pool != nil }

// DB gives the database itself, for the queue engine.
func (s *Store) DB() *sql.DB { return s.db }

// Pool gives the connections to PostgreSQL, nil with SQLite.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.db.PingContext(ctx) }

// inTx runs f in a transaction, which f's error undoes. Within it only tx may be asked: with SQLite there is no other
// connection.
func (s *Store) inTx(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// changed turns "no row was changed" into ErrNotFound.
func changed(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}

// millis is how the database keeps a time.
func millis(t time.Time) int64 { return t.UnixMilli() }

// newAttempt names a claim.
func newAttempt() string { return rand.Text() }
