package paymentsvctest_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// A mock server is all of this at once: partners call, and persons look, settle, send and set faults.
func TestServerConcurrency(t *testing.T) {
	srv := paymentsvctest.Start(t, config(everyStartCounts, func(c *paymentsvctest.Config) {
		c.Script = func(paymentsvctest.Order) []paymentsvc.StatusName {
			return []paymentsvc.StatusName{paymentsvc.StatusPending, paymentsvc.StatusSuccess}
		}
	}))
	srv.SetReceiver(paymentsvctest.ToHandler(http.NotFoundHandler(), "/"))
	client := newClient(t, srv)
	first, err := client.InitPayout(t.Context(), payout("payout-0"))
	require.NoError(t, err)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 10 {
				userData := fmt.Sprintf("order-%d-%d", worker, i)
				rule := srv.Fault(paymentsvctest.InitForm, paymentsvctest.Nth(i), paymentsvctest.Drop(paymentsvctest.AfterCommit))
				notifications := srv.FaultNotifications("", paymentsvctest.Nth(i), paymentsvctest.RepeatedBy(1))
				_, _ = client.InitForm(t.Context(), payment(userData))
				id := pay(t, client, userData)
				_, err := srv.Step()
				assert.NoError(t, err)
				_, err = srv.Settle(first.OrderID, paymentsvc.StatusPending)
				assert.NoError(t, err)
				n, err := srv.Compose(id, paymentsvc.StatusSuccess)
				assert.NoError(t, err)
				srv.Send(t.Context(), n, paymentsvctest.Forged())
				srv.Deliver(t.Context())
				_, err = srv.Balance(project)
				assert.NoError(t, err)
				_ = fmt.Sprint(srv.Orders(), srv.Outbox(), srv.Deliveries(), srv.Rejected(), srv.SignatureFaults(), srv.Rules(), srv)
				_ = srv.Requests(paymentsvctest.AnyEndpoint) + rule.Hits() + notifications.Hits()
				rule.Remove()
				notifications.Remove()
				if i == 5 {
					srv.Chaos(paymentsvctest.Chaos{Faults: []paymentsvctest.Fault{paymentsvctest.Slow(time.Microsecond)}})
					srv.ClearFaults()
				}
				srv.SetReceiver(paymentsvctest.ToHandler(http.NotFoundHandler(), "/"))
			}
		})
	}
	all.Wait()
	client.CloseIdleConnections()
	require.NoError(t, srv.Drain(t.Context()))
	assert.Len(t, srv.Orders(), 1+2*80)
	srv.AssertAllSigned(t)
	srv.AssertNoneRejected(t)
}
