package recognize

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"testing"

	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
)

type database = dbtest.Database

// tables are the tables and columns that this package uses.
var tables = []string{
	`CREATE TABLE durable_control (hold BIGINT NOT NULL, generation BIGINT NOT NULL, fingerprint TEXT NOT NULL,
		timeline TEXT NOT NULL)`,
	`INSERT INTO durable_control VALUES (0, 1, '', '')`,
	`CREATE TABLE durable_mark (mark BIGINT NOT NULL)`,
	`INSERT INTO durable_mark VALUES (0)`,
	`CREATE TABLE durable_rows (user_data TEXT)`,
}

func prepared(t *testing.T, db database) database {
	t.Helper()
	db.Exec(t, tables...)
	return db
}

func held(t *testing.T, db database) bool {
	t.Helper()
	return db.Number(t, `SELECT hold FROM durable_control`) > 0
}

// mark returns the mark in the database.
func mark(t *testing.T, db database) int64 {
	t.Helper()
	return int64(db.Number(t, `SELECT mark FROM durable_mark`))
}

func sqlite(t *testing.T) database   { return prepared(t, dbtest.SQLite(t)) }
func postgres(t *testing.T) database { return prepared(t, dbtest.Open(t, dbtest.Postgres(t))) }

func each(t *testing.T, f func(t *testing.T, db database)) {
	dbtest.Each(t, func(t *testing.T, db database) { f(t, prepared(t, db)) })
}

// guard opens a Guard whose Hold increments the column hold.
func guard(t *testing.T, db database, w Witness, set ...func(*Options)) (*Guard, error) {
	t.Helper()
	o := Options{
		DB: db.DB, SQLite: db.SQLite, Witness: w, Log: slog.New(slog.DiscardHandler),
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
