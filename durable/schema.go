package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
)

// Schema returns the statements that [Migrate] runs on an empty database, for migrations of your own.
func Schema(d Dialect) []string { return ledger.Schema(ledger.Dialect(d)) }

// Upgrade returns the statements that [Migrate] runs on the tables of an older version. SELECT version FROM
// durable_version returns that version. Upgrade returns no statements if from is this package's version. Run them in
// one transaction during a pause. Before that, call [Store.Pause] and [Store.Drained], and stop all processes of the
// older version.
func Upgrade(d Dialect, from int64) []string { return ledger.Upgrade(ledger.Dialect(d), from) }

// migrationLock is the key of the advisory lock that Migrate takes on PostgreSQL.
const migrationLock int64 = 0x64757261626c65

// Migrate creates or upgrades the tables under a lock, so processes that start together may all call it. See [Upgrade]
// for the pause that an upgrade needs.
//
// Programs with the same version of the tables run side by side, so a rolling upgrade or a rollback between them needs
// no pause. [Open] and Migrate return [ErrSchema] for tables of a newer version, and Open for an older version too. If
// an old process still runs during an upgrade, its statements fail afterwards. It begins no call then, and its calls in
// flight become unknown at the end of their leases. No downgrade exists, so a rollback to an older version of the
// tables needs the backup from before the upgrade, see [Store.HoldPayouts].
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
		statements = Upgrade(d, version)
		if len(statements) == 0 {
			return checkVersion(ctx, tx)
		}
		if err := checkReferences(ctx, tx, d); err != nil {
			return err
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

// checkReferences rejects foreign keys to durable_rows on SQLite. There an upgrade replaces the table, so SQLite would
// delete the rows of an ON DELETE CASCADE, and direct the reference to the removed table.
func checkReferences(ctx context.Context, q querier, d Dialect) error {
	if d != SQLite {
		return nil
	}
	var table string
	err := q.QueryRowContext(ctx, `SELECT m.name FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS k
		WHERE m.type = 'table' AND k."table" = 'durable_rows' COLLATE NOCASE LIMIT 1`).Scan(&table)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%w: table %q references durable_rows, want no foreign key to it during an upgrade",
			ErrSchema, table)
	}
	return err
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// checkVersion returns an error that wraps ErrSchema if the tables have another version than this package.
func checkVersion(ctx context.Context, q querier) error {
	version, err := readVersion(ctx, q)
	if err == nil && version != ledger.Version {
		err = fmt.Errorf("%w: %d, want %d", ErrSchema, version, ledger.Version)
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
