package durable

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
)

// Schema returns the statements that [Migrate] runs on an empty database, for your own migrations.
func Schema(d Dialect) []string { return ledger.Schema(ledger.Dialect(d)) }

// migrationLock is the key of the advisory lock of Migrate on PostgreSQL.
const migrationLock int64 = 0x64757261626c65

// Migrate creates the tables under a lock, so processes that start together may all call it.
//
// Releases with the same version of the tables can run side by side, so an upgrade or a rollback between such releases
// needs no downtime. [Open] and Migrate return [ErrSchema] for tables of another version.
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
		// The first statement writes, so the transaction holds SQLite's only lock for writing from its start.
		lock = `CREATE TABLE IF NOT EXISTS durable_lock (one BIGINT)`
	}
	if _, err := tx.ExecContext(ctx, lock); err != nil {
		return err
	}
	var tables int64
	find := `SELECT COUNT(*) FROM pg_catalog.pg_class WHERE oid = to_regclass('durable_version')`
	if d == SQLite {
		find = `SELECT COUNT(*) FROM sqlite_master WHERE name = 'durable_version'`
	}
	if err := tx.QueryRowContext(ctx, find).Scan(&tables); err != nil {
		return err
	}
	if tables > 0 {
		return checkVersion(ctx, tx)
	}
	for _, statement := range Schema(d) {
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

// checkVersion returns an error that wraps ErrSchema if the version of the tables is not the version of this package.
func checkVersion(ctx context.Context, q querier) error {
	var version int64
	err := q.QueryRowContext(ctx, `SELECT version FROM durable_version`).Scan(&version)
	switch {
	case err != nil:
		return fmt.Errorf("%w: cannot read durable_version, want the tables of durable.Migrate: %w", ErrSchema, err)
	case version != ledger.Version:
		return fmt.Errorf("%w: %d, want %d", ErrSchema, version, ledger.Version)
	}
	return nil
}
