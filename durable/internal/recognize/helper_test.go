package recognize

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
)

const pragmas = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

// database is a test database with the tables and columns that this package uses.
type database struct {
	address string
	sqlite  bool
	*sql.DB
}

var tables = []string{
	`CREATE TABLE durable_control (hold BIGINT NOT NULL, generation BIGINT NOT NULL, fingerprint TEXT NOT NULL,
		timeline TEXT NOT NULL)`,
	`INSERT INTO durable_control VALUES (0, 1, '', '')`,
	`CREATE TABLE durable_mark (mark BIGINT NOT NULL)`,
	`INSERT INTO durable_mark VALUES (0)`,
	`CREATE TABLE durable_rows (user_data TEXT)`,
}

func connectTo(t *testing.T, address string) database {
	t.Helper()
	db := database{address: address, sqlite: !strings.HasPrefix(address, "postgres:")}
	driver := "pgx"
	if db.sqlite && address != ":memory:" {
		driver, address = "sqlite", "file:"+address+pragmas
	} else if db.sqlite {
		driver = "sqlite"
	}
	var err error
	db.DB, err = sql.Open(driver, address)
	require.NoError(t, err)
	if db.sqlite {
		db.SetMaxOpenConns(1)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (db database) exec(t *testing.T, statements ...string) {
	t.Helper()
	for _, s := range statements {
		_, err := db.ExecContext(context.WithoutCancel(t.Context()), s)
		require.NoError(t, err, s)
	}
}

func (db database) number(t *testing.T, query string) (n int64) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

func (db database) held(t *testing.T) bool {
	t.Helper()
	return db.number(t, `SELECT hold FROM durable_control`) > 0
}

func sqlite(t *testing.T) database {
	t.Helper()
	db := connectTo(t, filepath.Join(t.TempDir(), "test.db"))
	db.exec(t, tables...)
	return db
}

func postgres(t *testing.T) database {
	t.Helper()
	db := connectTo(t, dbtest.Postgres(t))
	db.exec(t, tables...)
	return db
}

func each(t *testing.T, f func(t *testing.T, db database)) {
	t.Run("SQLite", func(t *testing.T) { f(t, sqlite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { f(t, postgres(t)) })
}

// guard opens a Guard, whose Hold counts in the column hold.
func guard(t *testing.T, db database, w Witness, set ...func(*Options)) (*Guard, error) {
	t.Helper()
	o := Options{
		DB: db.DB, SQLite: db.sqlite, Witness: w, Log: slog.New(slog.DiscardHandler),
		Hold: func(ctx context.Context, reason string, keep func(context.Context, *sql.Tx) error) error {
			t.Log("held: " + reason)
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			_, err = tx.ExecContext(ctx, `UPDATE durable_control SET hold = hold + 1, generation = generation + 1`)
			if err := errors.Join(err, keep(ctx, tx)); err != nil {
				return err
			}
			return tx.Commit()
		},
	}
	for _, f := range set {
		f(&o)
	}
	return Open(t.Context(), o)
}
