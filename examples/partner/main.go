// Command partner is a partner's backend on package durable. It takes payments and notifications, pays files of
// payouts, and has a page for operators. It commits every step to SQLite or PostgreSQL before taking the step, so that
// a crash cannot pay twice or lose a payment.
//
//	go run .                                  # with a fake service inside this process
//	go run . make-payouts 100 > payouts.csv
//	go run . check payouts.csv
//	go run . payouts payouts.csv
//
// README.md lists the first changes for production. After SIGINT or SIGTERM, the command records the calls in flight
// and ends.
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
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

// Exit statuses.
const (
	exitDone   = 0
	exitError  = 1
	exitUsage  = 2
	exitReview = 3 // something needs review
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes a command until ctx ends, and returns the exit status.
func run(ctx context.Context, args []string, environment func(string) string, stdout, stderr io.Writer) int {
	set, code := readSettings(args, environment, stderr)
	if set == nil {
		return code
	}
	code, err := execute(ctx, set, stdout, stderr)
	if err != nil {
		code = exitError
		if ctx.Err() != nil {
			err = fmt.Errorf("stopped: the same command goes on where it ended (%w)", ctx.Err())
		}
		_, _ = fmt.Fprintln(stderr, "partner:", err)
	}
	return code
}

// execute opens the file and the parts of the program for a command.
func execute(ctx context.Context, set *settings, stdout, stderr io.Writer) (code int, err error) {
	var file *os.File
	if set.TakesFile && len(set.Args) > 0 {
		file, err = os.Open(set.Args[0])
		if err != nil {
			return exitError, err
		}
		defer func() { _ = file.Close() }()
	}
	switch set.Command {
	case "check":
		return checkFile(ctx, set, file, stdout, stderr)
	case "make-payouts":
		return exitDone, writePayouts(stdout, set.Rows)
	}
	p, err := open(ctx, set, stderr)
	if err != nil {
		return exitError, err
	}
	defer p.Close()
	switch set.Command {
	case "payouts":
		return p.payFile(ctx, file, stdout, stderr)
	case "results":
		return exitDone, p.writeResults(ctx, file, stdout)
	case "hold":
		return exitDone, p.hold(ctx, stdout)
	default:
		return exitDone, p.serve(ctx, stdout)
	}
}

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
		return errors.New(
			"-database belongs to another -service-name, -partner or -project, or to a fake: name another database")
	}
	if err != nil {
		return err
	}
	if err := watch(ctx, p.measure.meter, p.store); err != nil {
		return err
	}
	return createTables(ctx, p.db)
}

// createTables creates missing tables of ship. Like [durable.Migrate], it changes no table if they exist. So the first
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

// decoders returns the decoder of the service's errors, and a function to recognize the error "no such payment". The
// interface document does not specify the fields and codes of errors (section 7). Without names of fields, only the
// HTTP status identifies an error. Without codes, no response is taken as "no such payment".
func decoders(fields, notFound, duplicates string) (paymentsvc.ErrorDecoder, func(*paymentsvc.Error) bool, error) {
	names, missing, repeated := split(fields), split(notFound), split(duplicates)
	switch {
	case len(names) == 0 && len(missing)+len(repeated) == 0:
		return nil, nil, nil
	case len(names) != 2:
		return nil, nil, errors.New("-error-fields, which -not-found-codes and -duplicate-codes need, is code,message")
	}
	read := paymentsvc.ErrorFields(names[0], names[1])
	decode := func(status int, body []byte) *paymentsvc.ServiceError {
		reported := read(status, body)
		if reported != nil && slices.Contains(repeated, reported.Code) {
			reported.Effect = paymentsvc.EffectPossible // an earlier call may have reached the service
		}
		return reported
	}
	return decode, func(err *paymentsvc.Error) bool {
		reported, ok := errors.AsType[*paymentsvc.ServiceError](err)
		return ok && err.Outcome == paymentsvc.OutcomeRejected && slices.Contains(missing, reported.Code)
	}, nil
}

// newClient returns the client of the service at address.
func newClient(set *settings, address string, measure *telemetry) (*paymentsvc.Client, error) {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: set.Scheme, Secret: set.Keys[0]})
	if err != nil {
		return nil, err
	}
	return paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: address, PartnerID: set.Partner, ProjectID: set.Project, Signer: signer,
		Timeout:     20 * time.Second, // per attempt, so that a status call has time for a second attempt
		DecodeError: set.DecodeError,
		OnAttempt:   measure.OnAttempt,
	})
}
