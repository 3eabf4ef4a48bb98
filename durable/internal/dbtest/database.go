// Package dbtest provides empty databases for tests, copies of their rows, and Debian's pgbouncer. Tests with SQLite
// import the driver modernc.org/sqlite.
package dbtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver
	"github.com/stretchr/testify/assert"
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
	require.NoError(t, err)
	if *server == (url.URL{}) {
		t.Skip("no PostgreSQL: TEST_DATABASE_URL is not set. Run the tests with .ci/postgres go -C durable test ./...")
	}
	admin, err := sql.Open("pgx", server.String())
	require.NoError(t, err)
	name := "test_" + strings.ToLower(rand.Text())
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
		assert.NoError(t, err)
		_ = admin.Close()
	})
	server.Path = "/" + name
	return server.String()
}

// tables are the tables of durable and of its tests.
const tables = `durable_control durable_mark durable_rows durable_queue durable_claims durable_orders
	durable_notifications durable_decisions durable_events_due durable_batches durable_unreadable durable_pruned
	test_changes test_files`

// Copy is a copy of the rows of all tables at one moment.
type Copy []copied

type copied struct {
	table, insert string
	rows          [][]any
}

// CopyRows copies all rows in one transaction.
func CopyRows(ctx context.Context, db *sql.DB) (Copy, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	var all Copy
	for table := range strings.FieldsSeq(tables) {
		names, err := columns(ctx, db, tx, table)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 { // a test without this table
			continue
		}
		one := copied{table: table}
		one.rows, err = query(ctx, tx, len(names), `SELECT `+strings.Join(names, ", ")+` FROM `+table)
		if err != nil {
			return nil, err
		}
		parameters := make([]string, len(names))
		for i := range names {
			parameters[i] = fmt.Sprint("$", i+1)
		}
		one.insert = `INSERT INTO ` + table + ` (` + strings.Join(names, ", ") + `)
			VALUES (` + strings.Join(parameters, ", ") + `)`
		all = append(all, one)
	}
	return all, nil
}

// columns returns the names of all columns except generated columns.
func columns(ctx context.Context, db *sql.DB, tx *sql.Tx, table string) (names []string, err error) {
	list := `SELECT name FROM pragma_table_info('` + table + `')`
	if !strings.Contains(fmt.Sprintf("%T", db.Driver()), "sqlite") {
		list = `SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('` + table + `')
			AND attnum > 0 AND attgenerated = ''`
	}
	rows, err := query(ctx, tx, 1, list)
	for _, r := range rows {
		names = append(names, fmt.Sprint(r[0]))
	}
	return names, err
}

func query(ctx context.Context, tx *sql.Tx, columns int, text string) (all [][]any, err error) {
	rows, err := tx.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		values, into := make([]any, columns), make([]any, columns)
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		all = append(all, values)
	}
	return all, rows.Err()
}

// Restore replaces all rows with the copied rows, in one transaction.
func (c Copy) Restore(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, one := range c {
		if _, err := tx.ExecContext(ctx, `DELETE FROM `+one.table); err != nil { //nolint:gosec // a table of the list
			return err
		}
		for _, values := range one.rows {
			if _, err := tx.ExecContext(ctx, one.insert, values...); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}

// configuration makes pgbouncer lend a session of the server for one transaction. Clients share at most 20 sessions.
const configuration = `[databases]
* = host=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
ignore_startup_parameters = extra_float_digits
log_connections = 0
log_disconnections = 0
`

// StartPooler starts pgbouncer in transaction mode, without support for prepared statements, in front of the database
// at a postgres address of .ci/postgres. It returns the address of the database through the pooler, and skips the test
// on a machine without pgbouncer.
func StartPooler(t *testing.T, address string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("no pgbouncer: install Debian's package pgbouncer")
	}
	u, err := url.Parse(address)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "pgbouncer.ini")
	port := freePort(t)
	text := fmt.Sprintf(configuration, u.Query().Get("host"), u.User.Username(), port)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	args := []string{file}
	if os.Getuid() == 0 { // pgbouncer rejects root
		args = append(args, "-u", "postgres")
	}
	command := exec.Command(program, args...) //nolint:gosec,noctx // the cleanup kills it
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	pooled := url.URL{
		Scheme: "postgres", User: u.User, Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Path: u.Path,
		RawQuery: "sslmode=disable",
	}
	waitUntilReady(t, pooled.String())
	return pooled.String()
}

// freePort returns an unused port.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// waitUntilReady waits until a statement succeeds through the pooler.
func waitUntilReady(t *testing.T, address string) {
	t.Helper()
	db, err := sql.Open("pgx", address+"&default_query_exec_mode=exec")
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	for {
		_, err = db.ExecContext(t.Context(), `SELECT 1`)
		if err == nil {
			return
		}
		require.NoError(t, t.Context().Err())
	}
}
