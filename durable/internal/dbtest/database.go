// Package dbtest provides empty databases for tests, copies of their rows, and Debian's pgbouncer. Tests with SQLite
// import the driver modernc.org/sqlite.
package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver
	"github.com/stretchr/testify/require"
)

// Database is a database of a test.
type Database struct {
	Address string // a postgres address, a path, or ":memory:"
	SQLite  bool
	*sql.DB
}

// Each runs f with an empty database of each kind. PostgreSQL is skipped without TEST_DATABASE_URL.
func Each(t *testing.T, f func(t *testing.T, db Database)) {
	t.Run("SQLite", func(t *testing.T) { f(t, SQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { f(t, Open(t, Postgres(t))) })
}

// SQLite creates an empty database.
func SQLite(t testing.TB) Database {
	t.Helper()
	return Open(t, filepath.Join(t.TempDir(), "test.db"))
}

// Open opens the database at an address until the end of the test.
func Open(t testing.TB, address string) Database {
	t.Helper()
	db, err := Connect(address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return Database{address, !strings.HasPrefix(address, "postgres:"), db}
}

// Connect opens the database at an address, with the settings that durable requires.
func Connect(address string) (*sql.DB, error) {
	if strings.HasPrefix(address, "postgres:") {
		return sql.Open("pgx", address)
	}
	if address != ":memory:" {
		address = "file:" + address + "?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	}
	db, err := sql.Open("sqlite", address)
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// Exec runs statements, also after the end of the test's context.
func (db Database) Exec(t require.TestingT, statements ...string) {
	for _, statement := range statements {
		_, err := db.ExecContext(context.Background(), statement)
		require.NoError(t, err, statement)
	}
}

// Number returns the number that a query reads.
func (db Database) Number(t require.TestingT, query string) (n int) {
	require.NoError(t, db.QueryRowContext(context.Background(), query).Scan(&n), query)
	return n
}

// Postgres creates an empty database on the server in TEST_DATABASE_URL, drops it after the test, and returns its
// address. Without this variable, which .ci/postgres sets, it skips the test.
func Postgres(t testing.TB) string {
	t.Helper()
	server, err := url.Parse(os.Getenv("TEST_DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	if *server == (url.URL{}) {
		t.Skip("no PostgreSQL: TEST_DATABASE_URL is not set. Run the tests with .ci/postgres go -C durable test ./...")
	}
	admin, err := sql.Open("pgx", server.String())
	if err != nil {
		t.Fatal(err)
	}
	name := "test_" + strings.ToLower(rand.Text())
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if _, err := admin.ExecContext(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		_ = admin.Close()
	})
	server.Path = "/" + name
	return server.String()
}
