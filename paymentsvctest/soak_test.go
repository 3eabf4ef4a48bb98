package paymentsvctest_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// A long run is go test ./paymentsvctest -run Soak -soak.ops 100000 -v
var (
	soakOps  = flag.Int("soak.ops", 1000, "operations of the soak")
	soakSeed = flag.Uint64("soak.seed", 0, "seed of the soak; 0 chooses and prints a random seed")
)

// TestSoak makes calls and sends notifications under all faults, and compares the outcomes with the books of the fake.
func TestSoak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // hanging requests and slow responses take no time
		srv := paymentsvctest.StartInMemory(t, config(everyStartCounts, func(c *paymentsvctest.Config) {
			c.NotifyAttempts = 1000 // enough for each notification
		}))
		client := newClient(t, srv)
		paymentID, payoutID := pay(t, client, "payment before"), payOut(t, client, "payout before")
		srv.Chaos(paymentsvctest.Chaos{
			Seed:               *soakSeed,
			Faults:             append(paymentsvctest.AllFaults(), paymentsvctest.Reject(402, "E17", "no money")),
			NotificationFaults: append(paymentsvctest.AllNotificationFaults(), paymentsvctest.SignedWithOldSecret()),
		})
		outcomes := callAll(t, client, paymentID, payoutID)
		client.CloseIdleConnections()
		require.NoError(t, srv.Drain(t.Context()))
		counts := map[string]int{}
		for userData, err := range outcomes {
			name := "ok"
			if err != nil {
				name = paymentsvc.OutcomeOf(err).String()
			}
			counts[name]++
			require.NotErrorIs(t, err, errWrongAnswer)
			started := map[string][]int{"ok": {1}, "unknown": {0, 1}, "rejected": {0}}[name]
			require.Contains(t, started, srv.Started(userData), "%s: %v", userData, err)
		}
		t.Log(counts)
		require.Positive(t, min(counts["ok"], counts["unknown"]))

		paid := notifyAll(t, srv)
		srv.ClearFaults()
		payouts := 0
		for _, o := range srv.Orders() {
			require.Equal(t, 1, paid[o.UserData], "notifications of %s", o.UserData)
			if o.Kind == paymentsvctest.KindPayout {
				payouts++
			}
		}
		got, err := client.GetBalance(t.Context())
		require.NoError(t, err)
		minor, err := got.PayoutBalance.Minor(2)
		require.NoError(t, err)
		require.EqualValues(t, 100_000+1050*(len(srv.Orders())-2*payouts), minor)
		srv.AssertAllSigned(t)
		srv.AssertDelivered(t)
		srv.AssertForgeriesRefused(t)
		srv.AssertNoneRejected(t)
	})
}

// callAll makes calls to all endpoints, 64 at a time, and returns the error of each start by user_data. It repeats a
// start that was not sent.
func callAll(t *testing.T, client *paymentsvc.Client, paymentID, payoutID string) map[string]error {
	outcomes, next := map[string]error{}, make(chan int)
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			for n := range next {
				o, userData := operations()[n%7], fmt.Sprintf("op-%d", n)
				err := o.call(t.Context(), client, userData, paymentID, payoutID)
				for err != nil && paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeNotSent {
					err = o.call(t.Context(), client, userData, paymentID, payoutID)
				}
				mu.Lock()
				if o.kind != "" {
					outcomes[userData] = err
				}
				mu.Unlock()
			}
		})
	}
	for n := range *soakOps {
		next <- n
	}
	close(next)
	workers.Wait()
	return outcomes
}

// notifyAll settles each order, and returns the number of accepted notifications of SUCCESS by user_data, without
// duplicates. The partner's database is sometimes busy.
func notifyAll(t *testing.T, srv *paymentsvctest.Server) map[string]int {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme(), Secrets: []paymentsvc.Secret{secret, oldSecret}, Tolerance: 10 * time.Minute,
	})
	require.NoError(t, err)
	seen, paid, calls := map[string]bool{}, map[string]int{}, 0
	srv.SetReceiver(paymentsvctest.ToHandler(webhook.Handler(func(_ context.Context, n *paymentsvc.Notification) error {
		calls++
		if calls%10 == 0 {
			return http.ErrHandlerTimeout
		}
		if n.StatusDescription == paymentsvc.StatusSuccess && !seen[n.Key()] {
			paid[n.UserData]++
		}
		seen[n.Key()] = true
		return nil
	}), "/"))
	for _, o := range srv.Orders() {
		for _, status := range []paymentsvc.StatusName{paymentsvc.StatusPending, paymentsvc.StatusSuccess} {
			settled(t, srv, o.OrderID, status)
		}
	}
	srv.DeliverAll(t.Context())
	return paid
}
