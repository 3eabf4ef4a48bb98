package paymentsvctest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
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
				_ = fmt.Sprint(srv.Orders(), srv.Outbox(), srv.Deliveries(), srv.Rejected(), srv.SignatureFaults(), srv.Rules(),
					srv)
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

func TestReadBodyStopsAtTheLimitAndRestoresTheBody(t *testing.T) {
	const limit = 1<<20 + 1 // one byte more than the server accepts
	for name, test := range map[string]struct {
		sent io.Reader
		read int
		err  error
	}{
		"none":      {nil, 0, nil},
		"short":     {strings.NewReader("{}"), 2, nil},
		"large":     {strings.NewReader(strings.Repeat(" ", 100_000)), 100_000, nil},
		"too large": {strings.NewReader(strings.Repeat(" ", 2*limit)), limit, nil},
		"broken":    {io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)), 1, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", test.sent)
			require.NoError(t, err)
			for range 2 {
				body, err := paymentsvctest.ReadBody(r)
				require.ErrorIs(t, err, test.err)
				require.Len(t, body, test.read)
				require.LessOrEqual(t, cap(body), test.read+test.read/4, "unused memory stays allocated with a recorded body")
			}
			if test.sent != nil {
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				require.Len(t, body, test.read)
			}
		})
	}
}
