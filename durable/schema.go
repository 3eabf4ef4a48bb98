package durable

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"
)

// schemaVersion is the version of the tables that this package works with.
const schemaVersion = 2

//go:embed schema.sql
var tables string

// Schema returns the statements that [Migrate] runs on an empty database, for migrations of your own.
func Schema(d Dialect) []string {
	storage := ""
	if d == PostgreSQL {
		storage = " WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)"
	}
	text := strings.TrimSuffix(strings.ReplaceAll(tables, "{storage}", storage), ";\n")
	return strings.Split(text, ";\n")
}

// Upgrade returns the statements that [Migrate] runs on the tables of an older version, which SELECT version FROM
// durable_version returns: none if from is this package's version. Run them in one transaction.
func Upgrade(d Dialect, from int64) []string {
	steps := [][]string{ // from version 1 on
		{
			`DROP INDEX durable_kinds`,
			`ALTER TABLE durable_batches ADD COLUMN rejected BIGINT NOT NULL DEFAULT 0`,
		},
	}
	var statements []string
	for version := max(from, 1); version < schemaVersion; version++ {
		statements = append(statements, steps[version-1]...)
		statements = append(statements, fmt.Sprintf(`UPDATE durable_version SET version = %d`, version+1))
	}
	return statements
}

// migrationLock is the key of the advisory lock that Migrate takes on PostgreSQL.
const migrationLock = 0x64757261626c65

// Migrate creates the tables, or brings them up to date, under a lock: processes that start together may all call it.
func Migrate(ctx context.Context, db *sql.DB) error {
	d, err := dialectOf(ctx, db)
	if err != nil {
		return fmt.Errorf("durable: migrate: %w", err)
	}
	if err := migrate(ctx, db, d); err != nil {
		return fmt.Errorf("durable: migrate: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	lock := fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d)`, migrationLock)
	if d == SQLite {
		// The first statement writes, so the transaction has SQLite's one lock from its start.
		lock = `CREATE TABLE IF NOT EXISTS durable_lock (one BIGINT)`
	}
	if _, err := tx.ExecContext(ctx, lock); err != nil {
		return err
	}
	var there int64
	find := `SELECT COUNT(*) FROM pg_catalog.pg_class WHERE oid = to_regclass('durable_version')`
	if d == SQLite {
		find = `SELECT COUNT(*) FROM sqlite_master WHERE name = 'durable_version'`
	}
	if err := tx.QueryRowContext(ctx, find).Scan(&there); err != nil {
		return err
	}
	statements := Schema(d)
	if there > 0 {
		version, err := readVersion(ctx, tx)
		if err != nil {
			return err
		}
		if statements = Upgrade(d, version); len(statements) == 0 {
			return checkVersion(ctx, tx)
		}
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if d == SQLite {
		if _, err := tx.ExecContext(ctx, `DROP TABLE durable_lock`); err != nil {
			return err
		}
	}
	return tx.Commit()
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// checkVersion returns an error that wraps ErrSchema unless the tables are those of schemaVersion.
func checkVersion(ctx context.Context, q querier) error {
	version, err := readVersion(ctx, q)
	if err == nil && version != schemaVersion {
		err = fmt.Errorf("%w: %d, want %d", ErrSchema, version, schemaVersion)
	}
	return err
}

func readVersion(ctx context.Context, q querier) (version int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT version FROM durable_version`).Scan(&version)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, fmt.Errorf("%w: durable_version is empty", ErrSchema)
	case err != nil:
		return 0, fmt.Errorf("%w: cannot read durable_version: %w", ErrSchema, err)
	}
	return version, nil
}
