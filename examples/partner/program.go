package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

// program has the database, the client of the service and the telemetry, for all commands.
type program struct {
	set      *settings
	log      *slog.Logger
	db, read *sql.DB // read is for pages
	store    *durable.Store
	fake     *fakeService // nil with a service
	client   *paymentsvc.Client
	measure  *telemetry
	ends     []func() // run by Close in reverse order
}

// open returns a program. The caller must close it.
func open(ctx context.Context, set *settings, stderr io.Writer) (*program, error) {
	p := &program{set: set, log: set.logger(stderr)}
	err := p.openService(ctx)
	if err == nil {
		err = p.openDatabase()
	}
	if err == nil {
		err = p.openStore(ctx)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *program) openService(ctx context.Context) (err error) {
	p.measure, err = newTelemetry(ctx, p.set.Traces, p.log)
	if err != nil {
		return err
	}
	p.ends = append(p.ends, p.measure.Close)
	address := p.set.Service
	if address == "" {
		p.fake, err = startFake(p.set, p.log)
		if err != nil {
			return err
		}
		p.ends = append(p.ends, p.fake.Close)
		address = p.fake.URL
	}
	p.client, err = newClient(p.set, address, p.measure)
	if err != nil {
		return err
	}
	p.ends = append(p.ends, p.client.CloseIdleConnections)
	return nil
}

func (p *program) openDatabase() (err error) {
	address := p.set.Database
	if address == "" {
		dir, err := os.MkdirTemp("", "partner-")
		if err != nil {
			return err
		}
		p.ends = append(p.ends, func() { _ = os.RemoveAll(dir) })
		address = filepath.Join(dir, "partner.db")
		p.log.Warn("no -database: everything is forgotten at the end")
	}
	switch {
	case strings.HasPrefix(address, "postgres://"), strings.HasPrefix(address, "postgresql://"):
		p.db, err = openPostgres(address)
		p.read = p.db
	case strings.ContainsAny(address, "=") || strings.Contains(address, "://"):
		return errors.New("-database is neither postgres://... nor the path of a file")
	default:
		p.db, p.read, err = openSQLite(address)
		if err == nil {
			p.warnReadable(address)
		}
	}
	if err == nil {
		p.ends = append(p.ends, func() { _, _ = p.read.Close(), p.db.Close() })
	}
	return err
}

// warnReadable warns if other users can read the SQLite file, because it contains full destinations of payouts.
func (p *program) warnReadable(file string) {
	for _, name := range []string{file, file + "-wal", file + "-shm"} {
		if info, err := os.Stat(name); err == nil && info.Mode().Perm()&0o077 != 0 {
			p.log.Warn(
				"others can read the database: chmod 600", "file", filepath.Base(name), "mode", info.Mode().Perm().String(),
			)
		}
	}
}

func openPostgres(address string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, errors.New("the address of the database cannot be read") // its text may hold the password
	}
	config.RuntimeParams["synchronous_commit"] = "on"
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(20)
	db.SetMaxIdleConns(20)
	return db, nil
}

// openSQLite opens a file. It creates a missing file readable only by its owner, because the file contains full
// destinations of payouts. SQLite creates the -wal and -shm files with the same mode.
func openSQLite(file string) (db, read *sql.DB, err error) {
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

func (p *program) openStore(ctx context.Context) (err error) {
	if err := durable.Migrate(ctx, p.db); err != nil {
		return err
	}
	project := fmt.Sprintf("%s, partner %d, project %d", p.set.Name, p.set.Partner, p.set.Project) // never changes
	if p.fake != nil {
		project = "the fake " + rand.Text() // it forgets its orders with this process
	}
	p.store, err = durable.Open(ctx, p.db, durable.Config{
		Service: p.client, Project: project, ReadDB: p.read, NotFound: p.set.NotFound,
		InsufficientFundsCodes: p.set.AccountCodes, Slots: p.set.Slots,
		OnChange: ship, Hooks: p.measure.Hooks(), Log: p.log,
		AllowUnsafeDatabase: p.set.AllowUnsafe,
	})
	if errors.Is(err, durable.ErrUnsafeDatabase) && strings.Contains(err.Error(), "Config.Project") {
		return errors.New("-database belongs to another -service-name, -partner or -project, or to a fake: name another database")
	}
	if err != nil {
		return err
	}
	if err := watch(ctx, p.measure.meter, p.store); err != nil {
		return err
	}
	for _, table := range []string{
		`refunds (user_data text PRIMARY KEY)`, `shipments (user_data text PRIMARY KEY, basket text NOT NULL)`,
	} {
		if _, err := p.db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS `+table); err != nil {
			return err
		}
	}
	return nil
}

// ship orders the goods of a paid basket in the transaction that records the payment, so that a crash cannot separate
// the two. A refund may arrive before the payment's success. ship does not order the goods then. Check for refunds
// again before you pack the goods.
func ship(ctx context.Context, tx *sql.Tx, e durable.Event) (err error) {
	switch {
	case e.Refund != nil && e.Refund.StatusDescription == paymentsvc.StatusSuccess:
		_, err = tx.ExecContext(ctx, `INSERT INTO refunds (user_data) VALUES ($1) ON CONFLICT DO NOTHING`, e.Row.UserData)
	case e.Row.Kind == durable.KindPayment && e.To == durable.StateSucceeded:
		_, err = tx.ExecContext(ctx, `INSERT INTO shipments (user_data, basket)
			SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM refunds WHERE user_data = $1)`, e.Row.UserData, e.Row.Reference)
	}
	return err
}

// Close closes the resources of open in reverse order.
func (p *program) Close() {
	for len(p.ends) > 0 {
		last := len(p.ends) - 1
		p.ends[last]()
		p.ends = p.ends[:last]
	}
}
