package main

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// Held answers and a held database keep the program between two steps until it is killed there.
func TestAKillBetweenTwoStepsLosesAndRepeatsNothing(t *testing.T) {
	const doubtful = `state IN ('starting', 'unknown')` // unknown, if the test was slow and the call timed out
	for _, point := range []struct {
		name     string
		reach    func(s *shop) // starts an order and comes to the point
		state    string        // the order's, in the database, when the program is dead
		payments int           // at the service then
	}{
		{"called, and not carried out", (*shop).reachCalled, doubtful, 0},
		{"carried out, and not answered", (*shop).reachCarriedOut, doubtful, 1},
		{"answered, and not recorded", (*shop).reachAnswered, doubtful, 1},
		{"lost, and being asked for", (*shop).reachAsked, `state = 'unknown'`, 1},
		{"notified, and not recorded", (*shop).reachNotified, `state = 'pending'`, 1},
	} {
		t.Run(point.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			testdb.Each(t, func(t *testing.T, databaseURL string) {
				t.Parallel()
				s := newShop(t, databaseURL)
				point.reach(s)
				s.Kill()
				s.release()
				s.drain()
				require.Equal(t, 1, s.count(point.state), "%v", s.orders())
				require.Len(t, s.service.Orders(), point.payments)

				s.service.ClearFaults()
				s.start()
				s.eventually(func() bool { return s.count(`state = 'pending'`) == 1 }, "it is found out without a notification")
				s.settleAll()
				s.Stop(t)
				s.compare()
				assert.Len(t, s.service.Orders(), 1)
			})
		})
	}
}

func (s *shop) reachCalled() {
	s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(),
		paymentsvctest.Hold(paymentsvctest.BeforeCommit, s.t.Context().Done()))
	s.buyInBackground()
	s.eventually(func() bool { return s.service.Requests(paymentsvctest.InitPayment) > 0 }, "the call")
}

func (s *shop) reachCarriedOut() {
	s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(),
		paymentsvctest.Hold(paymentsvctest.AfterCommit, s.t.Context().Done()))
	s.buyInBackground()
	s.eventually(func() bool { return len(s.service.Orders()) == 1 }, "the payment")
}

func (s *shop) reachAnswered() {
	release := make(chan struct{})
	s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(), paymentsvctest.Hold(paymentsvctest.AfterCommit, release))
	s.buyInBackground()
	s.eventually(func() bool { return len(s.service.Orders()) == 1 }, "the payment")
	s.hold()
	close(release)
	s.drain()
}

func (s *shop) reachAsked() {
	s.service.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	s.service.Fault(paymentsvctest.StatusPayment, paymentsvctest.Every(),
		paymentsvctest.Hold(paymentsvctest.BeforeCommit, s.t.Context().Done()))
	s.buyInBackground()
	s.eventually(func() bool { return s.service.Requests(paymentsvctest.StatusPayment) > 0 }, "the question")
}

func (s *shop) reachNotified() {
	_, ok := buy(s.t.Context(), s.Public, "10.50")
	require.True(s.t, ok)
	_, err := s.service.Settle(s.service.Orders()[0].OrderID, paymentsvc.StatusSuccess)
	require.NoError(s.t, err)
	s.hold()
	sent := make(chan struct{})
	s.service.SetReceiver(paymentsvctest.ToHandler(forward(s.t, s.Public, sent), "/notifications"))
	s.inBackground(func(ctx context.Context) { s.service.Deliver(ctx) })
	select {
	case <-sent:
	case <-time.After(10 * time.Minute):
		s.t.Fatal("no notification is sent")
	}
}

// forward passes requests on to an address, and closes sent once the first has been written.
func forward(t *testing.T, address string, sent chan<- struct{}) http.Handler {
	to, err := url.Parse(address)
	require.NoError(t, err)
	once := sync.OnceFunc(func() { close(sent) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { once() },
		}))
		out.RequestURI, out.URL.Scheme, out.URL.Host = "", to.Scheme, to.Host
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
	})
}

// eventually waits for what another process is about to bring about.
func (s *shop) eventually(condition func() bool, what string) {
	s.t.Helper()
	require.Eventually(s.t, condition, 10*time.Minute, 2*time.Millisecond, what)
}

func (s *shop) buyInBackground() {
	address := s.Public
	s.inBackground(func(ctx context.Context) { buy(ctx, address, "10.50") })
}

// inBackground runs f, at the latest until the test is over.
func (s *shop) inBackground(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	s.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// hold keeps the program from writing to its database until release.
func (s *shop) hold() {
	s.t.Helper()
	ctx := context.Background()               // a test's own ends before its cleanup
	tx, err := s.books.DB().BeginTx(ctx, nil) // with SQLite that takes the write lock
	require.NoError(s.t, err)
	s.release = sync.OnceFunc(func() { _ = tx.Rollback() })
	s.t.Cleanup(s.release)
	if s.books.Postgres() {
		_, err = tx.ExecContext(ctx, `LOCK TABLE orders, notifications IN EXCLUSIVE MODE`)
		require.NoError(s.t, err)
	}
}
