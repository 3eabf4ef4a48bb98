package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/payouts"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

var (
	payoutKills = flag.Int("kills.payouts", 12, "how often TestNoKillLosesOrRepeatsAPayout kills a process on each database")
	payoutRows  = flag.Int("kills.rows", 1000, "how many payouts its file has")
)

const (
	killWorkers = 4
	// closedAccount is a destination that the service refuses.
	closedAccount = "+12025550113"
)

// paying is a file of payouts that processes work on which are killed, with a service in this process.
type paying struct {
	t       *testing.T
	service *paymentsvctest.Server
	args    []string
	file    string
	rows    int64
	books   *store.Store // the programs' database, seen from here
}

func newPaying(t *testing.T, databaseURL string) *paying {
	t.Helper()
	p := &paying{t: t, rows: int64(*payoutRows), service: paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: killPartner,
		Projects:  []paymentsvctest.Project{{ID: killProject, Secret: killSecret}},
		Scheme:    scheme(),
		// Whatever is started twice is there twice. A service that refuses a repeated user_data would hide it.
		Repeated: paymentsvctest.NewOrder,
		Check: func(o paymentsvctest.Order) error {
			if o.Destination == closedAccount {
				return errors.New("closed")
			}
			return nil
		},
	})}
	// Answers take some ten milliseconds, so that a kill strikes several calls.
	p.service.Fault(paymentsvctest.InitPayout, paymentsvctest.Every(), paymentsvctest.Slow(200*time.Microsecond))
	p.args = killArgs(t, databaseURL, p.service,
		"-payout-workers", fmt.Sprint(killWorkers), "-call-timeout", "1s", "-lease", "2500ms")
	p.file = filepath.Join(t.TempDir(), "payouts.csv")
	file, err := os.Create(p.file)
	require.NoError(t, err)
	require.NoError(t, payouts.Make(file, *payoutRows))
	require.NoError(t, file.Close())
	p.books, err = store.Open(t.Context(), store.Options{URL: databaseURL})
	require.NoError(t, err)
	t.Cleanup(p.books.Close)
	return p
}

// pay starts a process that pays the file. Its exit status comes through ended.
func (p *paying) pay(more ...string) (cmd *exec.Cmd, log *output, ended <-chan int) {
	p.t.Helper()
	cmd, log = command(p.t, slices.Concat([]string{"payouts", p.file}, p.args, more)...), &output{}
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(p.t, cmd.Start())
	status := make(chan int, 1)
	go func() {
		_ = cmd.Wait()
		status <- cmd.ProcessState.ExitCode()
	}()
	return cmd, log, status
}

// serve starts a process that serves, and pays what is queued, at a rate at which some is left at every kill.
func (p *paying) serve() *process {
	p.t.Helper()
	return startProcess(p.t, slices.Concat(p.args, atARate())...)
}

func atARate() []string { return []string{"-payouts-per-second", "40"} }

// drain waits until the service has dealt with everything that was sent. No process may live that has connections in
// store: one that was never used looks like one whose request is still to come.
func (p *paying) drain() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Minute)
	defer cancel()
	require.NoError(p.t, p.service.Drain(ctx))
}

func (p *paying) counts() store.Counts {
	p.t.Helper()
	counts, err := p.books.Counts(p.t.Context(), store.Payouts)
	require.NoError(p.t, err)
	return counts
}

// untilDone pays the file to its end, by one process that nobody kills.
func (p *paying) untilDone() {
	p.t.Helper()
	cmd, log, ended := p.pay()
	select {
	case status := <-ended:
		assert.Equal(p.t, exitPerson, status, "%s", log)
	case <-time.After(10 * time.Minute):
		_ = cmd.Process.Kill()
		p.t.Fatalf("it does not end: %v\n%s", p.counts().States, log)
	}
	p.drain()
}

// compare compares the books of both sides. The service has said of every payout that it has how it ended, so that only
// those are parked that it does not have.
func (p *paying) compare() {
	p.t.Helper()
	started := map[string][]paymentsvctest.Order{}
	for _, o := range p.service.Orders() {
		started[o.UserData] = append(started[o.UserData], o)
	}
	rows, err := p.books.DB().QueryContext(p.t.Context(), `SELECT user_data, reference, state, amount, destination, attention FROM payouts`)
	require.NoError(p.t, err)
	defer func() { _ = rows.Close() }()
	seen := map[string]bool{}
	for rows.Next() {
		var row store.Payout
		require.NoError(p.t, rows.Scan(&row.UserData, &row.Reference, &row.State, &row.Amount, &row.Destination, &row.Attention))
		seen[row.UserData] = true
		orders := started[row.UserData]
		switch {
		case len(orders) > 1:
			assert.Fail(p.t, "paid more than once", "%s: %v", row.Reference, orders)
		case len(orders) == 1:
			assert.Equal(p.t, store.StateSucceeded, row.State, row.Reference)
			assert.True(p.t, row.Amount.Equal(orders[0].Amount), row.Reference)
			assert.Equal(p.t, row.Destination, orders[0].Destination, row.Reference)
		case row.Destination == closedAccount && row.State == store.StateRejected:
		default:
			assert.Equal(p.t, store.StateUnknown, row.State, row.Reference)
			assert.NotEmpty(p.t, row.Attention, row.Reference)
		}
	}
	require.NoError(p.t, rows.Err())
	for userData := range started {
		assert.True(p.t, seen[userData], "the service has a payout that was never stored")
	}
	assert.Len(p.t, seen, int(p.rows))
	p.service.AssertAllSigned(p.t)
}

// end lets the service say how everything ended that it has, and compares.
func (p *paying) end() {
	p.t.Helper()
	server := startProcess(p.t, p.args...)
	p.service.SetReceiver(paymentsvctest.ToURL(server.Public + "/notifications"))
	for _, o := range p.service.Orders() {
		_, err := p.service.Settle(o.OrderID, paymentsvc.StatusSuccess)
		require.NoError(p.t, err)
	}
	p.service.DeliverAll(p.t.Context())
	require.Empty(p.t, p.service.Outbox())
	server.Stop(p.t)
	p.compare()
}

func TestNoKillLosesOrRepeatsAPayout(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute; run the tests without -short")
	}
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		seed := *killSeed
		if seed == 0 {
			seed = rand.Uint64()
		}
		t.Logf("-kills.seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 1))
		p := newPaying(t, databaseURL)

		// With PostgreSQL, a server works on the same payouts.
		var server *process
		if p.books.Postgres() {
			server = p.serve()
		}
		kills, done := 0, false
		for kills < *payoutKills && !done {
			payer, _, ended := p.pay(atARate()...)
			select {
			case <-time.After(time.Duration(50+random.IntN(700)) * time.Millisecond):
			case <-ended: // a slow machine: the server has done the rest between two kills
				done = true
				continue
			}
			kills++
			if server != nil && random.IntN(2) == 0 {
				kills++
				server.Kill()
				server = p.serve()
			}
			require.NoError(t, payer.Process.Kill())
			<-ended
		}
		before := p.counts()
		struck := before.States[store.StateStarting] + before.States[store.StateUnknown] // with those that are parked already
		if server != nil {
			server.Stop(t)
		}
		p.drain()
		p.service.ClearFaults()
		p.untilDone()
		counts := p.counts()
		t.Logf("%d kills; %v after them; %v in the end", kills, before.States, counts.States)
		require.Zero(t, counts.Open())
		parked := counts.States[store.StateUnknown]
		assert.Equal(t, p.rows, counts.Total())
		assert.Equal(t, p.rows, counts.States[store.StatePending]+parked+counts.States[store.StateRejected])
		assert.Equal(t, parked, counts.Attention)
		if server == nil { // nobody has recorded anything after the last kill
			assert.GreaterOrEqual(t, parked, struck, "what was under way at a kill was sent again")
		}
		assert.GreaterOrEqual(t, kills, 3)
		assert.Positive(t, parked, "the kills have struck nothing")
		assert.LessOrEqual(t, parked, int64(kills*killWorkers), "more than was under way at the kills")
		p.end()
	})
}

// The calls of a killed process are held at the service, before it has carried them out and after.
func TestWhatAKilledProcessHadSentIsParkedAndNeverSentAgain(t *testing.T) {
	for _, when := range []paymentsvctest.When{paymentsvctest.BeforeCommit, paymentsvctest.AfterCommit} {
		t.Run(when.String(), func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, databaseURL string) {
				p := newPaying(t, databaseURL)
				p.service.ClearFaults()
				p.rows = 8
				require.NoError(t, os.WriteFile(p.file, []byte("reference,amount,destination\n"+
					strings.Join([]string{"a", "b", "c", "d", "e", "f", "g", "h", ""}, ",1.00,4111111111111111\n")), 0o600))
				rule := p.service.Fault(paymentsvctest.InitPayout, paymentsvctest.Every(), paymentsvctest.Hold(when, make(chan struct{})))
				payer, log, ended := p.pay()
				carriedOut := 0
				if when == paymentsvctest.AfterCommit {
					carriedOut = killWorkers
				}
				require.Eventually(t, func() bool {
					return p.counts().States[store.StateStarting] == killWorkers && rule.Hits() == killWorkers &&
						len(p.service.Orders()) == carriedOut
				}, 20*time.Second, 5*time.Millisecond, "%s", log)
				require.NoError(t, payer.Process.Kill())
				<-ended
				p.drain()
				rule.Remove()

				p.untilDone()
				counts := p.counts()
				assert.Equal(t, map[store.State]int64{store.StateUnknown: killWorkers, store.StatePending: 4}, counts.States)
				assert.Len(t, p.service.Orders(), carriedOut+4)
				assert.Equal(t, 8, p.service.Requests(paymentsvctest.InitPayout))
				p.end()
			})
		})
	}
}
