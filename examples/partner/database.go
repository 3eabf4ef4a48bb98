package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // registers the driver
)

// openDatabase opens PostgreSQL or a SQLite file. Without an address, Close removes the file.
func (p *program) openDatabase() (err error) {
	address := p.set.Database
	if address == "" {
		dir, err := os.MkdirTemp("", "partner-")
		if err != nil {
			return err
		}
		p.ends = append(p.ends, func() { _ = os.RemoveAll(dir) })
		address = filepath.Join(dir, "partner.db")
		p.log.Warn("without -database, a temporary file stores the payouts until the program ends")
	}
	switch {
	case strings.HasPrefix(address, "postgres://"), strings.HasPrefix(address, "postgresql://"):
		p.db, err = openPostgres(address)
		p.read = p.db
	case strings.ContainsAny(address, "=") || strings.Contains(address, "://"):
		return errors.New("-database is neither postgres://... nor the path of a file")
	default:
		p.db, p.read, err = p.openSQLite(address)
	}
	if err == nil {
		p.ends = append(p.ends, func() { _, _ = p.read.Close(), p.db.Close() })
	}
	return err
}

func openPostgres(address string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, errors.New("-database is not a valid address of PostgreSQL") // the text of err may contain the password
	}
	config.RuntimeParams["synchronous_commit"] = "on"
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(20)
	db.SetMaxIdleConns(20)
	return db, nil
}

// openSQLite opens a file. It creates a missing file readable only by its owner, because the file contains full
// destinations of payouts. SQLite creates the -wal and -shm files with the same mode. The commands hold and results
// require an existing file, because an empty database at a wrong path would hide the stored payouts.
func (p *program) openSQLite(file string) (db, read *sql.DB, err error) {
	if _, err := os.Stat(file); err != nil {
		if p.set.Command == "hold" || p.set.Command == "results" {
			return nil, nil, err
		}
		p.log.Warn("the database file did not exist, so the database has no payouts", "file", file)
	}
	created, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, nil, err
	}
	if err := created.Close(); err != nil {
		return nil, nil, err
	}
	path := url.URL{Path: file} // escaped, because SQLite interprets ?, # and %
	address := "file:" + path.EscapedPath() + "?_pragma=busy_timeout(10000)"
	db, err = sql.Open("sqlite", address+"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer at a time
	read, err = sql.Open("sqlite", address+"&mode=ro")
	return db, read, err
}

// createTables creates the tables of ship. Like [durable.Migrate], it does nothing if the tables exist. So the first
// start may have the role of the owner, and later starts a role without the right to create tables.
func createTables(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, `SELECT 1 FROM refunds, shipments LIMIT 0`); err == nil {
		return nil
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after Commit
	for _, statement := range []string{
		`UPDATE durable_version SET version = version`, // a lock, because processes may start together
		`CREATE TABLE IF NOT EXISTS refunds (user_data text PRIMARY KEY)`,
		`CREATE TABLE IF NOT EXISTS shipments (user_data text PRIMARY KEY, basket text NOT NULL)`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}
