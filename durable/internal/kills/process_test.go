//go:build unix

// Package kills tests package durable with failing machines. Processes are killed at any line or sleep through their
// leases. Database servers crash, fail over, and are restored to any earlier moment. Networks cut connections, stay
// silent and deliver requests late. Disks are full. In each test, the service receives at most one start for each
// payment and payout, and each start has a row.
//
// Most of the tests start processes and servers, and run only with -kills, as in .ci/run:
//
//	.ci/postgres go -C durable test ./internal/kills -kills 25
package kills

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
)

var (
	kills = flag.Int("kills", 0, "kills of processes on each database; 0 skips the tests that start processes or servers")
	seed  = flag.Uint64("seed", 0, "seed of the random moments; 0 chooses a random seed")

	// A test starts its own binary with these flags.
	childDatabase = flag.String("child", "", "work on the database at this address, instead of testing")
	childWitness  = flag.String("child.witness", "", "the path of the witness")
	childService  = flag.String("child.service", "", "the address of the service")
	childName     = flag.String("child.name", "", "prefix of the references of new payments and payouts, \"\" for none")
	childDie      = flag.String("child.die", "", "signal to send to itself, and where: \"kill call 3\" is the third call")
	childTimeout  = flag.Duration("child.timeout", 5*time.Second, "Config.Timeout")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *childDatabase != "" {
		if err := child(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// slots limits the calls of a process, and so the payouts that a kill leaves unknown. payers is the number of callers
// of Pay.
const (
	slots  = 4
	payers = 2
)

// config returns the configuration of all processes.
func config(service durable.Service, timeout time.Duration, witness string) durable.Config {
	c := durable.Config{
		Service: service, Project: "kills", AllowUnsafeDatabase: true, Log: slog.New(slog.DiscardHandler),
		NotFound: func(err *paymentsvc.Error) bool {
			failure, ok := errors.AsType[*paymentsvc.ServiceError](err)
			return ok && failure.Code == "order_not_found"
		},
		Slots: slots, Timeout: timeout, Lease: 2*timeout + time.Second, Grace: timeout + 2*time.Minute,
		Poll:                     50 * time.Millisecond,
		MaxConsecutiveRejections: -1, OnChange: onChange,
	}
	if witness != "" {
		c.Witness = durable.FileWitness(witness)
	}
	return c
}

// onChange records each change of a row to a state, in the row's transaction.
func onChange(ctx context.Context, tx *sql.Tx, e durable.Event) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO test_changes (user_data, state) VALUES ($1, $2)`,
		e.Row.UserData, string(e.To))
	return err
}

// child works until it is killed: it makes payments and payouts, and serves notifications at an address that it prints.
func child(ctx context.Context) error {
	client, err := newClient(*childService)
	if err != nil {
		return err
	}
	var open atomic.Int64 // payouts queued and not yet sent
	c := config(client, *childTimeout, *childWitness)
	c.Hooks.Step = dieAt(*childDie)
	if strings.HasPrefix(*childDie, "stop") {
		c.Poll = 2 * time.Second // a sweep that is stopped would keep SQLite's lock
	}
	c.Hooks.Change = func(_ context.Context, k durable.Kind, from, _ durable.State) {
		if k == durable.KindPayout && from == durable.StateStarting {
			open.Add(-1)
		}
	}
	db, err := dbtest.Connect(*childDatabase)
	if err != nil {
		return err
	}
	store, err := durable.Open(ctx, db, c)
	if err != nil {
		return err
	}
	if *childName != "" {
		go queue(ctx, db, store, &open)
		for n := range payers {
			go pay(ctx, store, fmt.Sprint(*childName, "-", n))
		}
	}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme(), Secrets: []paymentsvc.Secret{secret}, Tolerance: paymentsvc.AnyAge,
	})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	server := &http.Server{Handler: webhook.Handler(store.Notified), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return store.Run(ctx)
}

// dieAt returns a hook that sends a signal to this process at the nth occurrence of a step. For "" it returns nil.
func dieAt(text string) func(durable.Step) {
	var how, at string
	var n int64
	if _, err := fmt.Sscan(text, &how, &at, &n); err != nil {
		return nil
	}
	signal := map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP}[how]
	var steps atomic.Int64
	return func(step durable.Step) {
		if string(step) == at && steps.Add(1) == n {
			if signal == syscall.SIGSTOP {
				time.Sleep(300 * time.Millisecond) // the first sweep ends meanwhile
			}
			_ = syscall.Kill(os.Getpid(), signal)
			time.Sleep(10 * time.Millisecond) // a signal needs a moment
		}
	}
}

// queue keeps some payouts waiting. The service rejects every tenth payout.
func queue(ctx context.Context, db *sql.DB, store *durable.Store, open *atomic.Int64) {
	for n := 0; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if open.Load() > 50 {
			continue
		}
		var batch []durable.NewPayout
		for range 10 {
			n++
			batch = append(batch, payout(*childName, n, n%10 == 0))
		}
		if add(ctx, db, store, batch...) == nil {
			open.Add(int64(len(batch)))
		}
	}
}

// closed is a destination that the service rejects.
const closed = "4000000000000002"

func payout(prefix string, n int, refused bool) durable.NewPayout {
	p := durable.NewPayout{
		Reference: fmt.Sprintf("%s-%d", prefix, n), Amount: paymentsvc.AmountFromMinor(int64(1000+n), 2),
		Destination: "4111111111111111",
	}
	if refused {
		p.Destination = closed
	}
	return p
}

// add queues payouts in a transaction that begins with a write, as SQLite requires.
func add(ctx context.Context, db *sql.DB, store *durable.Store, p ...durable.NewPayout) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, `INSERT INTO test_files (name) VALUES ($1)`, p[0].Reference); err != nil {
		return err
	}
	if _, err := store.QueuePayouts(ctx, tx, p...); err != nil {
		return err
	}
	return tx.Commit()
}

func pay(ctx context.Context, store *durable.Store, prefix string) {
	for n := 0; ctx.Err() == nil; n++ {
		_, _ = store.Pay(ctx, durable.NewPayment{
			Key: fmt.Sprint(prefix, "-", n), Type: paymentsvc.PaymentTypeCard,
			Amount: paymentsvc.AmountFromMinor(int64(100+n), 2),
		})
		time.Sleep(20 * time.Millisecond)
	}
}

// process is a child that runs.
type process struct {
	*exec.Cmd
	address string
	ended   chan struct{}
}

// start starts a child and waits until it serves, or has died at once.
func start(t *testing.T, db database, service string, args ...string) *process {
	t.Helper()
	args = append([]string{
		"-test.run", "^$", "-child", db.Address, "-child.witness", db.witness, "-child.service", service,
	}, args...)
	p := &process{Cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	stderr := &strings.Builder{}
	p.Stderr = stderr
	stdout, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	lines := bufio.NewScanner(stdout)
	if lines.Scan() {
		p.address = lines.Text()
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		require.Empty(t, stderr.String())
	})
	return p
}

func (p *process) kill() {
	_ = p.Process.Kill()
	<-p.ended
}
