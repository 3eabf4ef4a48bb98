package paymentsvctest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// Partners call the fake, while operators read it, settle orders, send notifications and set faults.
func TestFakeIsSafeForConcurrentUse(t *testing.T) {
	srv := paymentsvctest.Start(t, config(everyStartCounts))
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
				_, err := srv.Settle(first.OrderID, paymentsvc.StatusPending)
				assert.NoError(t, err)
				n, err := srv.Compose(id, paymentsvc.StatusSuccess)
				assert.NoError(t, err)
				srv.Send(t.Context(), n, paymentsvctest.Forged())
				srv.Deliver(t.Context())
				_, err = srv.Balance(project)
				assert.NoError(t, err)
				_ = fmt.Sprint(srv.Orders(), srv.Outbox(), srv.Deliveries(), srv.Rejected(), srv.SignatureFaults(), srv)
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
				most := max(512, test.read+test.read/4)
				require.LessOrEqual(t, cap(body), most, "unused memory stays allocated with a recorded body")
			}
			if test.err != nil {
				srv, err := paymentsvctest.New(config())
				require.NoError(t, err)
				defer srv.Close()
				require.Panics(t, func() { srv.ServeHTTP(httptest.NewRecorder(), r) }, "net/http closes the connection")
				require.Empty(t, srv.Rejected(), "the client has left")
			}
			if test.sent != nil {
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				require.Len(t, body, test.read)
			}
		})
	}
}

func TestOrderCanBeSettledBeforeTheResponse(t *testing.T) {
	var srv *paymentsvctest.Server
	srv, client := startFake(t, func(c *paymentsvctest.Config) {
		c.ExplainSignatures = true
		c.OnStart = func(o paymentsvctest.Order) { settled(t, srv, o.OrderID, paymentsvc.StatusSuccess) }
	})
	resp, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, payment("order-1"))
	require.NoError(t, err)
	require.Equal(t, int64(1), resp.Status, "the response still has the status of the start")
	require.Equal(t, paymentsvc.StatusSuccess, srv.Orders()[0].Status)
	_, answer := send(t, srv, "/get_balance", balanceBody, func(r *http.Request) { r.Header.Del("Timestamp") })
	require.Contains(t, answer, `:"the timestamp header is missing"`, "the reason is not repeated")
}

// nth is the order_id of the nth order.
func nth(n int) string { return "00000000-0000-4000-8000-00000000000" + string(rune('0'+n)) }

func TestSeededOrdersCountAndContinueTheNumbers(t *testing.T) {
	srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) {
		c.Repeated, c.LastOrder = paymentsvctest.SameOrder, 7
	}))
	other := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) { c.IDSpace = 123_456_789_012 }))
	mine, err := other.Seed(paymentsvctest.Order{
		Kind: paymentsvctest.KindPayment, ProjectID: project, Amount: amount("5.00"),
	})
	require.NoError(t, err)
	require.Equal(t, "12345678-9012-4000-8000-000000000001", mine.OrderID)
	client := newClient(t, srv)
	require.Equal(t, 7, srv.LastOrder())
	seeded := paymentsvctest.Order{
		Kind: paymentsvctest.KindPayment, ProjectID: project, UserData: "a", Amount: amount("5.00"),
		Status: paymentsvc.StatusSuccess,
	}
	before, err := srv.Balance(project)
	require.NoError(t, err)
	o, err := srv.Seed(seeded)
	require.NoError(t, err)
	require.Equal(t, []any{8, nth(8)}, []any{o.Number, o.OrderID})
	after, err := srv.Balance(project)
	require.NoError(t, err)
	require.Equal(t, []string{"1000.00", "1005.00"}, []string{before.PayoutBalance.String(), after.PayoutBalance.String()})
	for problem, change := range map[string]func(*paymentsvctest.Order){
		"exists":          func(o *paymentsvctest.Order) { o.OrderID = nth(8) },
		"no such project": func(o *paymentsvctest.Order) { o.ProjectID = 1 },
		"no such kind":    func(o *paymentsvctest.Order) { o.Kind = "loan" },
		"no amount":       func(o *paymentsvctest.Order) { o.Amount = paymentsvc.Amount{} },
		"not more than 0": func(o *paymentsvctest.Order) { o.Amount = amount("-5.00") },
		"Numbers":         func(o *paymentsvctest.Order) { o.Status = "DONE" },
	} {
		broken := seeded
		change(&broken)
		_, err := srv.Seed(broken)
		require.ErrorContains(t, err, problem)
	}
	seeded.Kind, seeded.UserData, seeded.Amount = paymentsvctest.KindPayout, "payout-1", payout("payout-1").Amount
	o, err = srv.Seed(seeded)
	require.NoError(t, err)
	again, err := client.InitPayout(t.Context(), payout("payout-1"))
	require.NoError(t, err)
	require.Equal(t, o.OrderID, again.OrderID, "a seeded order has no destination to compare")
}

func TestOrdersAreFoundByNumberAndUserData(t *testing.T) {
	srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) { c.LastOrder = 3 }))
	numbers := func(orders []paymentsvctest.Order) (list []int) {
		for _, o := range orders {
			list = append(list, o.Number)
		}
		return list
	}
	for _, userData := range []string{"a", "b", "a"} {
		_, err := srv.Seed(paymentsvctest.Order{
			Kind: paymentsvctest.KindForm, ProjectID: project, UserData: userData, Amount: amount("1"),
		})
		require.NoError(t, err)
	}
	require.Equal(t, []int{4, 6}, numbers(srv.OrdersOf("a")))
	require.Empty(t, srv.OrdersOf("c"))
	after := func(number, limit int) (list []paymentsvctest.Order) {
		srv.EachOrder(number, func(o *paymentsvctest.Order) bool {
			list = append(list, *o)
			return len(list) < limit
		})
		return list
	}
	require.Equal(t, []int{4, 5}, numbers(after(0, 2)))
	require.Equal(t, []int{6}, numbers(after(5, 2)))
	require.Empty(t, after(6, 2))
}

func TestMaxRecordsBoundsTheRecords(t *testing.T) {
	srv := paymentsvctest.StartInMemory(t, config(func(c *paymentsvctest.Config) { c.MaxRecords = 4 }))
	client := newClient(t, srv)
	ask := func(userData string) {
		_, err := client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{UserData: userData})
		require.Error(t, err)
	}
	for _, userData := range []string{"a", "b", "c", "d"} {
		ask(userData)
	}
	test := &spy{TB: t}
	srv.AssertNoneRejected(test)
	require.Empty(t, test.errors)
	ask("e")
	rejected, all := srv.RejectedAfter(4)
	require.Equal(t, 5, all)
	require.Equal(t, "e", rejected[0].UserData)
	require.Len(t, srv.Rejected(), 2, "the latest")
	const dropped = "paymentsvctest: 3 older entries were dropped, see Config.MaxRecords"
	srv.AssertNoneRejected(test)
	srv.AssertStarted(test, "x", 0)
	require.Equal(t, []string{dropped, dropped}, test.errors)

	srv.SetReceiver(paymentsvctest.Receiver{})
	for range 5 {
		srv.Send(t.Context(), paymentsvctest.Notification{ProjectID: 42})
	}
	deliveries, all := srv.DeliveriesAfter(3)
	require.Len(t, deliveries, 2)
	require.Equal(t, 5, all)
}
