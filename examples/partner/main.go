// Command partner is a partner's backend on package durable. It takes payments and notifications, pays files of
// payouts, and has a page for operators. It commits every step to SQLite or PostgreSQL before taking the step, so that
// a crash cannot pay twice or lose a payment.
//
//	go run .                                  # with a fake service inside this process
//	go run . make-payouts 100 > payouts.csv
//	go run . check payouts.csv
//	go run . payouts payouts.csv
//
// Read this file first, then checkout.go for payments, commands.go for files of payouts, and serve.go for the
// servers. service.go opens the service, and database.go the database. README.md lists the first changes for
// production. After SIGINT or SIGTERM, the command records the calls in flight and ends.
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

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
			err = fmt.Errorf("stopped: run the same command again to continue (%w)", err)
		}
		_, _ = fmt.Fprintln(stderr, "partner:", err)
	}
	return code
}

// execute opens the parts of the program that a command needs, and executes the command.
func execute(ctx context.Context, set *settings, stdout, stderr io.Writer) (code int, err error) {
	if set.Command == "make-payouts" {
		return exitDone, writePayouts(stdout, set.Rows)
	}
	p := &program{set: set, log: set.logger(stderr)}
	defer p.Close()
	if set.FileName != "" {
		p.file, err = os.ReadFile(set.FileName)
		if err != nil {
			return exitError, err
		}
	}
	if err := p.openService(ctx); err != nil {
		return exitError, err
	}
	if set.Command == "check" {
		return p.check(ctx, stdout, stderr)
	}
	if err := p.openStore(ctx); err != nil {
		return exitError, err
	}
	switch set.Command {
	case "payouts":
		return p.payFile(ctx, stdout, stderr)
	case "results":
		return exitDone, p.writeResults(ctx, stdout)
	case "hold":
		return exitDone, p.hold(ctx, stdout)
	default:
		return exitDone, p.serve(ctx, stdout)
	}
}

// program has the settings, and the parts that the command has opened. The other parts are nil.
type program struct {
	set      *settings
	log      *slog.Logger
	file     []byte // the payouts, in memory, so that the file cannot change between the import and the summary
	measure  *telemetry
	fake     *fakeService // nil with a real service
	client   *paymentsvc.Client
	db, read *sql.DB // read serves lists and counts
	store    *durable.Store
	ends     []func() // run by Close in reverse order
}

// Close closes the parts of the program in reverse order.
func (p *program) Close() {
	for len(p.ends) > 0 {
		last := len(p.ends) - 1
		p.ends[last]()
		p.ends = p.ends[:last]
	}
}

// openStore opens the database and the store.
func (p *program) openStore(ctx context.Context) error {
	err := p.openDatabase()
	if err != nil {
		return err
	}
	if err := durable.Migrate(ctx, p.db); err != nil {
		return err
	}
	project := fmt.Sprintf("%s, partner %d, project %d", p.set.Name, p.set.Partner, p.set.Project) // fixed per database
	if p.fake != nil {
		project = "the fake " + rand.Text() // a new name, because the fake forgets its orders at the end
	}
	var witness durable.Witness // nil for the default of durable
	if p.set.Witness != "" {
		witness = durable.FileWitness(p.set.Witness)
	}
	p.store, err = durable.Open(ctx, p.db, durable.Config{
		Service: p.client, Project: project, ReadDB: p.read, Witness: witness, NotFound: p.set.NotFound,
		InsufficientFundsCodes: p.set.AccountCodes, Slots: p.set.Slots,
		PendingReview: p.set.PendingReview, OnChange: ship, Hooks: p.measure.Hooks(), Log: p.log,
		AllowUnsafeDatabase: p.set.AllowUnsafe,
	})
	if errors.Is(err, durable.ErrUnsafeDatabase) && strings.Contains(err.Error(), "Config.Project") {
		return errors.New("-database belongs to another -service-name, -partner or -project, or to a fake")
	}
	if err != nil {
		return err
	}
	if err := watch(ctx, p.measure.meter, p.store); err != nil {
		return err
	}
	return createTables(ctx, p.db)
}

// ship orders the goods of a paid basket in the transaction that records the payment, so that a crash cannot separate
// the two. If a refund arrives before the payment's success, ship does not order the goods. An operator can change a
// payment from succeeded to failed and back, so check the state and the refunds again before you pack the goods.
func ship(ctx context.Context, tx *sql.Tx, e durable.Event) (err error) {
	switch {
	case e.Refund != nil && e.Refund.StatusDescription == paymentsvc.StatusSuccess:
		_, err = tx.ExecContext(ctx, `INSERT INTO refunds (user_data) VALUES ($1) ON CONFLICT DO NOTHING`, e.Row.UserData)
	case e.Row.Kind == durable.KindPayment && e.To == durable.StateSucceeded:
		_, err = tx.ExecContext(ctx, `INSERT INTO shipments (user_data, basket)
			SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM refunds WHERE user_data = $1)
			ON CONFLICT DO NOTHING`, e.Row.UserData, e.Row.Reference)
	}
	return err
}
