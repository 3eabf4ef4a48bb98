package paymentsvctest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func TestAssertStartedDetectsARejectedDuplicate(t *testing.T) {
	srv, client := startFake(t)
	pay(t, client, "order-1")
	test := &spy{TB: t}
	srv.AssertStarted(test, "order-1", 1)
	_, err := client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{UserData: "order-2"})
	require.Error(t, err)
	srv.AssertNoneRejected(test)
	require.Empty(t, test.errors)

	_, err = client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, payment("order-1"))
	require.Error(t, err)
	_, err = client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{OrderID: "order-1"})
	require.Error(t, err)
	srv.AssertStarted(test, "order-1", 1)
	srv.AssertStarted(test, "order-2", 0)
	srv.AssertNoneRejected(test)
	srv.AssertDelivered(test)
	require.Len(t, test.errors, 3)
	assert.Contains(t, test.errors[0], `1 starts for user_data "order-1" were duplicates, want 0`)
	assert.Contains(t, test.errors[1], "2 requests were rejected")
	assert.Contains(t, test.errors[2], "there was no notification to deliver")
}

func TestAssertsFailWithoutNotifications(t *testing.T) {
	srv := paymentsvctest.Start(t, config())
	test := &spy{TB: t}
	srv.AssertForgeriesRefused(test)
	require.Equal(t, []string{"paymentsvctest: there was no forged notification to reject"}, test.errors)

	forgery := paymentsvctest.Notification{ProjectID: project, OrderID: "o-1"}
	srv.SetReceiver(paymentsvctest.ToHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler) // such as a crash after a missing signature
	}), "/"))
	srv.Send(t.Context(), forgery, paymentsvctest.Unsigned(), paymentsvctest.Lost())
	srv.AssertForgeriesRefused(test)
	require.Contains(t, test.errors[1], "there was no forged notification to reject")
	srv.Send(t.Context(), forgery, paymentsvctest.Unsigned())
	srv.AssertForgeriesRefused(test)
	require.Contains(t, test.errors[2], "a forged notification was not rejected")
	test.errors = test.errors[:1]

	pay(t, newClient(t, srv), "order-1")
	srv.SetReceiver(paymentsvctest.ToHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "/"))
	cut := srv.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.CutAt(20))
	settled(t, srv, srv.Orders()[0].OrderID, paymentsvc.StatusSuccess)
	srv.Deliver(t.Context())
	require.Equal(t, 1, cut.Hits())
	srv.AssertDelivered(test)
	require.Len(t, test.errors, 2, "an answer to 20 bytes of it")
	srv.DeliverAll(t.Context())
	srv.AssertDelivered(test)
	require.Len(t, test.errors, 2)
}

func TestAssertsFailWithoutRequests(t *testing.T) {
	srv, test := paymentsvctest.StartInMemory(t, config()), &spy{TB: t}
	srv.AssertAllSigned(test)
	srv.AssertNoneRejected(test)
	const want = "paymentsvctest: there was no request to check"
	require.Equal(t, []string{want, want}, test.errors)
}

func TestClosedFakeStartsNoOrder(t *testing.T) {
	var srv *paymentsvctest.Server
	srv = paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) {
		c.Check = func(paymentsvctest.Order) error {
			srv.Close()
			return nil
		}
	}))
	_, err := newClient(t, srv).InitPayment(t.Context(), paymentsvc.PaymentTypeCard, payment("order-1"))
	require.Error(t, err)
	require.NoError(t, srv.Drain(t.Context()))
	require.Empty(t, srv.Orders())
}

func TestRejectionsKeepLittleMemory(t *testing.T) {
	srv := paymentsvctest.Start(t, config())
	long := strings.Repeat("long", 1000)
	pay(t, newClient(t, srv), long)
	body := func(userData string) string { return strings.Replace(paymentBody, "order-1", userData, 1) }
	for _, test := range []struct {
		path, body         string
		endpoint, userData int // lengths
	}{
		{"/init_payment/card", body(long), len("init_payment/card"), len(long)}, // AssertStarted compares a duplicate
		{"/init_payment/card", body(long+"1") + "{}", len("init_payment/card"), 256},
		{"/" + long, body("order-1"), 256, len("order-1")},
	} {
		send(t, srv, test.path, test.body, nil)
		rejected := srv.Rejected()
		require.Len(t, rejected[len(rejected)-1].UserData, test.userData)
		require.Len(t, rejected[len(rejected)-1].Endpoint, test.endpoint)
	}
	large := body(strings.Repeat("x", 64<<10))
	send(t, srv, "/init_payment/card", large, set("Signature", "00"))
	require.Contains(t, srv.SignatureFaults()[0].Reason, "the body is too large to search for the mistake")
}

func TestFloodOfWrongSignaturesIsNotSearched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := paymentsvctest.StartInMemory(t, config())
		reason := func() string {
			send(t, srv, "/init_payment/card", paymentBody, set("Signature", strings.Repeat("00", 32)))
			faults := srv.SignatureFaults()
			return faults[len(faults)-1].Reason
		}
		for range 20 {
			require.NotContains(t, reason(), "too many wrong signatures")
		}
		require.Contains(t, reason(), "too many wrong signatures")
		time.Sleep(time.Second)
		require.NotContains(t, reason(), "too many wrong signatures")
		require.Contains(t, reason(), "too many wrong signatures")
	})
}

// failing is a test with a controlled end.
type failing struct {
	spy
	cleanups []func()
	logs     []string
}

func (f *failing) Cleanup(cleanup func()) { f.cleanups = append(f.cleanups, cleanup) }

func (f *failing) Failed() bool { return len(f.errors) > 0 }

func (f *failing) Log(args ...any) { f.logs = append(f.logs, fmt.Sprint(args...)) }

func (f *failing) end() {
	for _, cleanup := range f.cleanups {
		cleanup()
	}
}

func TestStartPrintsTheOrdersOfAFailedTestOnce(t *testing.T) {
	passing := &failing{spy: spy{TB: t}}
	paymentsvctest.Start(passing, config()).AssertOrders(passing, 0)
	passing.end()
	assert.Empty(t, passing.logs)

	test := &failing{spy: spy{TB: t}}
	srv := paymentsvctest.Start(test, config(everyStartCounts))
	client := newClient(t, srv)
	for range 22 {
		pay(t, client, "order-1")
	}
	srv.AssertStarted(test, "order-1", 1)
	srv.AssertOrders(test, 1)
	require.Len(t, test.errors, 2)
	assert.Equal(t, "paymentsvctest: 22 orders exist, want 1", test.errors[1])
	assert.Empty(t, test.logs)

	test.end()
	require.Len(t, test.logs, 1)
	assert.Regexp(t, `^paymentsvctest: 22 orders
  payment 00000000-0000-4000-8000-000000000001 of 10\.50 for user_data "order-1", PENDING
(  payment .*\n){19}  and 2 more
0 requests rejected
0 wrong signatures$`, test.logs[0])
}
