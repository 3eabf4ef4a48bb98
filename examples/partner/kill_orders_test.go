package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

var (
	kills    = flag.Int("kills", 50, "how often TestNoKillLosesOrRepeatsAnOrder kills the program on each database")
	killSeed = flag.Uint64("kills.seed", 0, "the seed of its moments; 0 takes one at random")
)

const (
	killPartner = 7
	killProject = 42
	killSecret  = "a test key"
)

// shop is the program in a process of its own, with a service in this process.
type shop struct {
	t       *testing.T
	service *paymentsvctest.Server
	args    []string
	books   *store.Store // the program's database, seen from here
	release func()       // ends hold
	*process
}

// killArgs puts a program that is to be killed on a database and a service.
func killArgs(t *testing.T, databaseURL string, service *paymentsvctest.Server, more ...string) []string {
	t.Helper()
	return append([]string{
		"-database", databaseURL, "-service", service.URL, "-secret-file", fileWith(t, killSecret),
		"-partner", fmt.Sprint(killPartner), "-project", fmt.Sprint(killProject), "-error-fields", "error_code,error_message",
		"-log-level", "warn",
	}, more...)
}

func newShop(t *testing.T, databaseURL string) *shop {
	t.Helper()
	s := &shop{t: t, release: func() {}, service: paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: killPartner,
		Projects:  []paymentsvctest.Project{{ID: killProject, Secret: killSecret}},
		Scheme:    scheme(),
		// Whatever is started twice is there twice. A service that refuses a repeated user_data would hide it.
		Repeated:       paymentsvctest.NewOrder,
		NotifyAttempts: 1 << 30, // the program is often away
	})}
	s.args = killArgs(t, databaseURL, s.service,
		"-not-found-codes", string(paymentsvctest.ProblemNotFound),
		// Short, so that the test is. Requests of a process that was killed have ended within the grace: see drain.
		"-call-timeout", "400ms", "-lease", "1s", "-grace", "2s")
	s.start()
	books, err := store.Open(t.Context(), store.Options{URL: databaseURL})
	require.NoError(t, err)
	t.Cleanup(books.Close)
	s.books = books
	return s
}

func (s *shop) start() {
	s.t.Helper()
	s.process = startProcess(s.t, s.args...)
	s.service.SetReceiver(paymentsvctest.ToURL(s.Public + "/notifications"))
}

// drain waits until the service has dealt with everything that a killed process has sent.
func (s *shop) drain() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
	defer cancel()
	require.NoError(s.t, s.service.Drain(ctx))
}

// order is what a buyer sees.
type order struct {
	UserData string      `json:"user_data"`
	State    store.State `json:"state"`
}

// buy makes an order; false when no answer comes.
func buy(ctx context.Context, address, amount string) (o order, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	form := url.Values{"type": {"card"}, "amount": {amount}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/checkout", strings.NewReader(form.Encode()))
	if err != nil {
		return o, false
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return o, false
	}
	defer func() { _ = resp.Body.Close() }()
	err = json.NewDecoder(resp.Body).Decode(&o)
	return o, err == nil && resp.StatusCode == http.StatusCreated
}

// orders gives what the program's database says.
func (s *shop) orders() map[string]store.Order {
	s.t.Helper()
	rows, err := s.books.DB().QueryContext(s.t.Context(), `SELECT user_data FROM orders`)
	require.NoError(s.t, err)
	var names []string
	for rows.Next() {
		var name string
		require.NoError(s.t, rows.Scan(&name))
		names = append(names, name)
	}
	require.NoError(s.t, rows.Err())
	require.NoError(s.t, rows.Close())
	list := map[string]store.Order{}
	for _, name := range names {
		if list[name], err = s.books.Order(s.t.Context(), name); err != nil {
			require.NoError(s.t, err)
		}
	}
	return list
}

// count counts the orders of which a condition in SQL holds.
func (s *shop) count(condition string) (n int) {
	s.t.Helper()
	require.NoError(s.t, s.books.DB().QueryRowContext(s.t.Context(), `SELECT COUNT(*) FROM orders WHERE `+condition).Scan(&n))
	return n
}

// open counts the orders whose end is not known.
func (s *shop) open() (n int) { return s.count(`state NOT IN ('succeeded', 'failed', 'rejected')`) }

// settle ends payments at the service, one in five of them in vain, and sends the notifications.
func (s *shop) settle(ctx context.Context) {
	for _, o := range s.service.Orders() {
		if o.Status.Final() {
			continue
		}
		status := paymentsvc.StatusSuccess
		if o.Number%5 == 0 {
			status = paymentsvc.StatusFailure
		}
		_, err := s.service.Settle(o.OrderID, status)
		assert.NoError(s.t, err)
	}
	s.service.Deliver(ctx)
}

// settleAll goes on until every order has ended on both sides.
func (s *shop) settleAll() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s.settle(ctx)
		if s.open() == 0 && len(s.service.Outbox()) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("%d orders have not ended: %v\n%s", s.open(), s.orders(), s.Log)
		}
	}
}

// compare compares the books of both sides, once everything has ended.
func (s *shop) compare() {
	s.t.Helper()
	there := map[string][]paymentsvctest.Order{}
	for _, o := range s.service.Orders() {
		there[o.UserData] = append(there[o.UserData], o)
	}
	ours, sum := s.orders(), int64(0)
	for userData := range there {
		assert.Contains(s.t, ours, userData, "the service has an order that was never stored")
	}
	for userData, o := range ours {
		at := there[userData]
		assert.LessOrEqual(s.t, len(at), 1, "started more than once: %v", at)
		assert.Empty(s.t, o.Attention, userData)
		if len(at) == 0 {
			assert.Equal(s.t, store.StateRejected, o.State, "%+v", o)
			continue
		}
		want := map[paymentsvc.StatusName]store.State{
			paymentsvc.StatusSuccess: store.StateSucceeded, paymentsvc.StatusFailure: store.StateFailed,
		}[at[0].Status]
		assert.Equal(s.t, want, o.State, "%+v", o)
		assert.Equal(s.t, at[0].OrderID, o.OrderID)
		assert.True(s.t, at[0].Amount.Equal(o.Amount), "%s and %s", at[0].Amount, o.Amount)
		if o.State == store.StateSucceeded {
			units, err := o.Amount.Minor(2)
			assert.NoError(s.t, err)
			sum += units
		}
	}
	balance, err := s.service.Balance(killProject)
	require.NoError(s.t, err)
	assert.True(s.t, paymentsvc.AmountFromMinor(sum, 2).Equal(balance.PayoutBalance), "%d and %s", sum, balance.PayoutBalance)
	s.service.AssertAllSigned(s.t)
	s.service.AssertForgeriesRefused(s.t)
}

func TestNoKillLosesOrRepeatsAnOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute; run the tests without -short")
	}
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		seed := *killSeed
		if seed == 0 {
			seed = rand.Uint64()
		}
		t.Logf("-kills.seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		s := newShop(t, databaseURL)
		s.service.Chaos(paymentsvctest.Chaos{
			Seed:  seed,
			OneIn: 20,
			Faults: []paymentsvctest.Fault{
				paymentsvctest.Drop(paymentsvctest.BeforeCommit), paymentsvctest.Drop(paymentsvctest.AfterCommit),
				paymentsvctest.BadGateway(paymentsvctest.AfterCommit), paymentsvctest.CutHeader(20),
				paymentsvctest.Reject(http.StatusPaymentRequired, "E17", "no money"),
				paymentsvctest.TooManyRequests(paymentsvctest.BeforeCommit, time.Second),
			},
			NotificationFaults: []paymentsvctest.NotificationFault{
				paymentsvctest.Lost(), paymentsvctest.RepeatedBy(1), paymentsvctest.Reordered(), paymentsvctest.Delayed(2), paymentsvctest.Forged(),
			},
		})

		var address atomic.Value // of the program that lives
		address.Store(s.Public)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var wg sync.WaitGroup
		var answered sync.Map // user_data of the orders that a buyer knows of
		for buyer := range 4 {
			wg.Go(func() {
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for n := 0; ctx.Err() == nil; n++ {
					if o, ok := buy(ctx, address.Load().(string), fmt.Sprintf("%d.%02d", 1+n, buyer)); ok {
						answered.Store(o.UserData, true)
					}
					<-tick.C
				}
			})
		}
		wg.Go(func() {
			tick := time.NewTicker(25 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				s.settle(ctx)
				<-tick.C
			}
		})
		struck := map[string]bool{} // the claims of which a killed process had not recorded what became of them
		for range *kills {
			<-time.After(time.Duration(5+random.IntN(115)) * time.Millisecond)
			s.Kill()
			s.service.SetReceiver(paymentsvctest.Receiver{}) // its notifications wait
			s.drain()
			for _, o := range s.orders() {
				if o.State == store.StateStarting {
					struck[o.Attempt] = true
				}
			}
			s.start()
			address.Store(s.Public)
		}
		stop()
		wg.Wait()
		s.service.ClearFaults()
		s.settleAll()
		s.Stop(t)

		s.compare()
		known, ours := 0, s.orders()
		answered.Range(func(userData, _ any) bool {
			known++
			assert.Contains(t, ours, userData, "an order that a buyer was told of is lost")
			return true
		})
		t.Logf("%d kills, %d claims struck; %d orders, %d of them known to their buyers; %d payments at the service, %d notifications",
			*kills, len(struck), len(ours), known, len(s.service.Orders()), len(s.service.Deliveries()))
		assert.GreaterOrEqual(t, len(struck), *kills/10, "the kills have struck nothing")
	})
}
