package recognize

import (
	"context"
	"database/sql"
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

// minBusyTimeout is how long a SQLite connection must wait for the lock of another process, in milliseconds.
const minBusyTimeout = 1000

// Unsafe returns why the database may lose a committed claim or reject the statements of a second process, or "".
// allowFailover requires that commits wait for a standby.
func Unsafe(ctx context.Context, db *sql.DB, sqlite, allowFailover bool) (problem string, err error) {
	if sqlite {
		return unsafeSQLite(ctx, db)
	}
	commit := []string{"on", "remote_write", "remote_apply"}
	if !allowFailover { // local does not wait for the standby
		commit = append(commit, "local")
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
