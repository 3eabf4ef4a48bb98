package recognize

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// setting is a setting of the database with its accepted values.
type setting struct {
	name, query string
	accepted    []string
}

// minBusyTimeout is the required wait of a SQLite connection for the lock of another process, in milliseconds.
const minBusyTimeout = 1000

// Unsafe returns a problem if the database may lose a committed claim or reject statements of a second process, or if
// the connections are too few or too many. Otherwise it returns "". With allowFailover, synchronous_commit local is a
// problem, because such commits do not wait for a standby.
func Unsafe(ctx context.Context, db *sql.DB, sqlite, allowFailover bool) (problem string, err error) {
	if sqlite {
		return unsafeSQLite(ctx, db)
	}
	commit := []string{"on", "remote_write", "remote_apply"}
	if !allowFailover { // local does not wait for the standby
		commit = append(commit, "local")
	}
	if db.Stats().MaxOpenConnections == 1 { // see Pooler
		return "PostgreSQL with 1 connection, want SetMaxOpenConns(2) or more, so that Open finds a pooler", nil
	}
	return checkAll(ctx, db, []setting{
		{"synchronous_commit", "SHOW synchronous_commit", commit},
		{"default_transaction_isolation", "SHOW default_transaction_isolation", []string{"read committed"}},
		{"default_transaction_read_only", "SHOW default_transaction_read_only", []string{"off"}},
		{"pg_is_in_recovery", "SELECT pg_is_in_recovery()::TEXT", []string{"false"}},
		{"full_page_writes", "SHOW full_page_writes", []string{"on"}},
		{"fsync", "SHOW fsync", []string{"on"}},
	})
}

func checkAll(ctx context.Context, db *sql.DB, all []setting) (problem string, err error) {
	for _, s := range all {
		if problem, err := s.check(ctx, db); problem != "" || err != nil {
			return problem, err
		}
	}
	return "", nil
}

func unsafeSQLite(ctx context.Context, db *sql.DB) (problem string, err error) {
	if n := db.Stats().MaxOpenConnections; n != 1 {
		return fmt.Sprintf("SQLite with %d connections (0: no limit), want SetMaxOpenConns(1)", n), nil
	}
	problem, err = checkAll(ctx, db, []setting{
		{"journal_mode", "PRAGMA journal_mode", []string{"wal"}},
		{"synchronous", "PRAGMA synchronous", []string{"2", "3"}},
	})
	if problem != "" || err != nil {
		return problem, err
	}
	var timeout int64
	if err := db.QueryRowContext(ctx, `PRAGMA busy_timeout`).Scan(&timeout); err != nil {
		return "", fmt.Errorf("busy_timeout: %w", err)
	}
	if timeout < minBusyTimeout {
		return "busy_timeout is " + strconv.FormatInt(timeout, 10) + ", want at least " + strconv.Itoa(minBusyTimeout), nil
	}
	return "", nil
}

func (s setting) check(ctx context.Context, db *sql.DB) (problem string, err error) {
	var value string
	if err := db.QueryRowContext(ctx, s.query).Scan(&value); err != nil {
		return "", fmt.Errorf("%s: %w", s.name, err)
	}
	if slices.Contains(s.accepted, value) {
		return "", nil
	}
	return fmt.Sprintf("%s is %q, want %s", s.name, value, strings.Join(s.accepted, " or ")), nil
}

// mixed is the problem of a pooler with a driver that keeps prepared statements.
const mixed = "a prepared statement disappears between two transactions, because a pooler changes the server's " +
	"session; with pgx, set default_query_exec_mode=exec or cache_describe"

// Pooler returns a problem if a pooler runs the parts of one statement in different sessions, or "".
//
// The first connection runs a statement. If a pooler shares sessions, the second connection then occupies the same
// session with an open transaction, so the next statement of the first connection runs in another session. Some drivers
// prepare a statement, evaluate its argument, and then execute it. Pooler therefore also occupies the session during an
// evaluation.
func Pooler(ctx context.Context, db *sql.DB) (problem string, err error) {
	if db.Stats().MaxOpenConnections == 1 {
		return "", nil // a second connection would wait until timeLimit; Unsafe rejects this for PostgreSQL
	}
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	first, err := connect(ctx, db)
	if err != nil {
		return "", err
	}
	defer func() { _ = first.Close() }()
	second, err := connect(ctx, db)
	if err != nil {
		return "", err
	}
	defer func() { _ = second.Close() }()
	o := &occupant{ctx: ctx, conn: second}
	defer o.leave()
	name := rand.Text() // a session may still have the statement of an earlier probe
	err = errors.Join(runProbe(ctx, first, name, nil), o.occupy(), runProbe(ctx, first, name, nil))
	o.leave()
	if err == nil {
		err = runProbe(ctx, first, rand.Text(), o.occupy)
	}
	// These SQLSTATEs report a missing or duplicate prepared statement, or a statement with other parameters.
	var state interface{ SQLState() string }
	if errors.Is(err, errMixed) ||
		errors.As(err, &state) && slices.Contains([]string{"26000", "42P05", "08P01"}, state.SQLState()) {
		return mixed, nil
	}
	return "", err
}

// connect returns a working connection. The pool may have connections from before a restart of the server.
func connect(ctx context.Context, db *sql.DB) (conn *sql.Conn, err error) {
	for range 1 + db.Stats().OpenConnections { // each bad connection leaves the pool
		conn, err = db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		err = conn.PingContext(ctx)
		if err == nil {
			return conn, nil
		}
		_ = conn.Close()
	}
	return nil, err
}

var errMixed = errors.New("another statement's result")

// runProbe runs a statement that name makes unique. The evaluation of the argument calls the function during, if set.
func runProbe(ctx context.Context, conn *sql.Conn, name string, during func() error) error {
	var got string
	query := `SELECT CAST($1 AS TEXT) || ' to probe ` + name + `'`
	err := conn.QueryRowContext(ctx, query, argument{"answer", during}).Scan(&got)
	if err != nil {
		return fmt.Errorf("two connections at once: %w", err)
	}
	if got != "answer to probe "+name {
		return errMixed
	}
	return nil
}

// argument is an argument of a statement. Its evaluation by the driver calls the function during, if set.
type argument struct {
	text   string
	during func() error
}

// Value implements driver.Valuer.
func (a argument) Value() (driver.Value, error) {
	if a.during == nil {
		return a.text, nil
	}
	return a.text, a.during()
}

// occupant keeps a session in an open transaction.
type occupant struct {
	ctx  context.Context
	conn *sql.Conn
	tx   *sql.Tx
}

func (o *occupant) occupy() error {
	if o.tx != nil { // the driver evaluates the argument again
		return nil
	}
	tx, err := o.conn.BeginTx(o.ctx, nil)
	if err != nil {
		return err
	}
	o.tx = tx
	_, err = tx.ExecContext(o.ctx, `SELECT 1`)
	return err
}

func (o *occupant) leave() {
	if o.tx != nil {
		_ = o.tx.Rollback()
		o.tx = nil
	}
}
