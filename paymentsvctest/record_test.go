package paymentsvctest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func TestRecordsAreBounded(t *testing.T) {
	srv := paymentsvctest.StartInMemory(t, config(func(c *paymentsvctest.Config) { c.MaxRecords = 4 }))
	client := newClient(t, srv)
	ask := func(userData string) {
		_, err := client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{UserData: userData})
		require.Error(t, err)
	}
	for _, userData := range []string{"a", "b", "c", "d"} {
		ask(userData)
	}
	require.Zero(t, srv.Dropped())
	test := &spy{TB: t}
	srv.AssertNoneRejected(test)
	require.Empty(t, test.errors)
	ask("e")
	require.Equal(t, 3, srv.Dropped())
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
	require.Equal(t, 6, srv.Dropped())
	deliveries, all := srv.DeliveriesAfter(3)
	require.Len(t, deliveries, 2)
	require.Equal(t, 5, all)
	_, err := paymentsvctest.New(config(func(c *paymentsvctest.Config) { c.MaxRecords = -1 }))
	require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
}
