package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// schemaVersion is the version of the tables that this package works with.
const schemaVersion = 1

// tables is one schema for both databases. Amounts are exact decimal text; times are Unix milliseconds of the
// database's clock.
const tables = `CREATE TABLE durable_version (version BIGINT NOT NULL);
CREATE TABLE durable_control (
    one          BIGINT PRIMARY KEY CHECK (one = 1),
    project      TEXT NOT NULL DEFAULT '',
    paused       BIGINT NOT NULL DEFAULT 0,
    pause_until  BIGINT NOT NULL DEFAULT 0,
    pause_length BIGINT NOT NULL DEFAULT 0,
    pause_reason TEXT NOT NULL DEFAULT '',
    paused_by    TEXT NOT NULL DEFAULT '',
    probe        TEXT NOT NULL DEFAULT '',
    hold         BIGINT NOT NULL DEFAULT 0,
    hold_reason  TEXT NOT NULL DEFAULT '',
    held_by      TEXT NOT NULL DEFAULT '',
    generation   BIGINT NOT NULL DEFAULT 1,
    run_code     TEXT NOT NULL DEFAULT '',
    run_length   BIGINT NOT NULL DEFAULT 0,
    run_rows     TEXT NOT NULL DEFAULT '[]',
    fingerprint  TEXT NOT NULL DEFAULT '',
    timeline     TEXT NOT NULL DEFAULT '',
    rounds       BIGINT NOT NULL DEFAULT 0,
    heartbeat    BIGINT NOT NULL DEFAULT 0
);
INSERT INTO durable_control (one) VALUES (1);
CREATE TABLE durable_rows (
    user_data      TEXT PRIMARY KEY,
    kind           TEXT NOT NULL,
    reference      TEXT,
    type           TEXT NOT NULL DEFAULT '',
    amount         TEXT NOT NULL,
    destination    TEXT NOT NULL DEFAULT '',
    batch          TEXT NOT NULL DEFAULT '',
    line           BIGINT NOT NULL DEFAULT 0,
    generation     BIGINT NOT NULL DEFAULT 0,
    state          TEXT NOT NULL,
    order_id       TEXT,
    order_id_taken BIGINT NOT NULL DEFAULT 0,
    redirect_url   TEXT NOT NULL DEFAULT '',
    token          TEXT NOT NULL DEFAULT '',
    claims         BIGINT NOT NULL DEFAULT 0,
    doubted        BIGINT NOT NULL DEFAULT 0,
    claimed_at     BIGINT NOT NULL DEFAULT 0,
    asked          BIGINT NOT NULL DEFAULT 0,
    due_at         BIGINT NOT NULL,
    refusal        TEXT NOT NULL DEFAULT '',
    attention      TEXT NOT NULL DEFAULT '',
    version        BIGINT NOT NULL DEFAULT 1,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    UNIQUE (kind, reference),
    UNIQUE (kind, order_id)
){storage};
CREATE INDEX durable_payments_due ON durable_rows (due_at, user_data) WHERE kind = 'payment' AND state = 'created';
CREATE INDEX durable_payouts_due ON durable_rows (generation, due_at, user_data)
    WHERE kind = 'payout' AND state = 'created';
CREATE INDEX durable_starting ON durable_rows (token) WHERE state = 'starting';
CREATE INDEX durable_unknown ON durable_rows (due_at) WHERE state = 'unknown';
CREATE INDEX durable_kinds ON durable_rows (kind, created_at, user_data);
CREATE INDEX durable_states ON durable_rows (kind, state, created_at, user_data);
CREATE INDEX durable_of_batch ON durable_rows (batch, state, created_at, user_data) WHERE batch <> '';
CREATE INDEX durable_attention ON durable_rows (kind, created_at, user_data) WHERE attention <> '';
CREATE TABLE durable_notifications (
    key         TEXT PRIMARY KEY,
    event       TEXT NOT NULL,
    order_id    TEXT NOT NULL,
    user_data   TEXT NOT NULL,
    status      BIGINT NOT NULL,
    status_name TEXT NOT NULL,
    status_code BIGINT NOT NULL,
    amount      TEXT NOT NULL,
    matched     BIGINT NOT NULL DEFAULT 0,
    received_at BIGINT NOT NULL
);
CREATE INDEX durable_waiting ON durable_notifications (order_id) WHERE matched = 0;
CREATE INDEX durable_waiting_since ON durable_notifications (received_at) WHERE matched = 0;
CREATE INDEX durable_notices_order ON durable_notifications (order_id, received_at);
CREATE INDEX durable_notices_row ON durable_notifications (user_data, received_at);
CREATE TABLE durable_decisions (
    id         TEXT PRIMARY KEY,
    user_data  TEXT NOT NULL,
    decision   TEXT NOT NULL,
    order_id   TEXT NOT NULL,
    state      TEXT NOT NULL,
    attention  TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    decided_at BIGINT NOT NULL
);
CREATE INDEX durable_decisions_row ON durable_decisions (user_data, decided_at);
CREATE TABLE durable_events_due (
    id         TEXT PRIMARY KEY,
    user_data  TEXT NOT NULL,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    refund_key TEXT NOT NULL,
    due_at     BIGINT NOT NULL,
    tries      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX durable_events_due_at ON durable_events_due (due_at);
CREATE TABLE durable_batches (
    id             TEXT PRIMARY KEY,
    name           TEXT NOT NULL,
    line           BIGINT NOT NULL DEFAULT 0,
    complete       BIGINT NOT NULL DEFAULT 0,
    expected_rows  BIGINT NOT NULL DEFAULT 0,
    expected_total TEXT,
    created_at     BIGINT NOT NULL
);
INSERT INTO durable_version (version) VALUES (1)`

// Schema returns the statements that [Migrate] runs on an empty database, for migrations of your own.
func Schema(d Dialect) []string {
	storage := ""
	if d == PostgreSQL {
		storage = " WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)"
	}
	return strings.Split(strings.ReplaceAll(tables, "{storage}", storage), ";\n")
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
	if there > 0 {
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

// checkVersion returns an error that wraps ErrSchema unless the tables are those of schemaVersion.
func checkVersion(ctx context.Context, q querier) error {
	var version int64
	err := q.QueryRowContext(ctx, `SELECT version FROM durable_version`).Scan(&version)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: durable_version is empty", ErrSchema)
	case err != nil:
		return fmt.Errorf("%w: cannot read durable_version: %w", ErrSchema, err)
	case version != schemaVersion:
		return fmt.Errorf("%w: %d, want %d", ErrSchema, version, schemaVersion)
	}
	return nil
}
