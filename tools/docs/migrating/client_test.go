package migrating

import (
	"context"
	"flag"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

var starts = flag.Int("starts", 2, "payments that are started if the first answer is lost")

// The same test runs before the migration and after each of its steps.
func TestTheClientWorks(t *testing.T) {
	const key = "the-key-of-the-migration"
	srv := paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: 7, Projects: []paymentsvctest.Project{{ID: 42, Secret: key}}, Repeated: paymentsvctest.NewOrder,
		Scheme: paymentsvc.Scheme{
			Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex,
		},
	})
	client, err := New(srv.URL, key)
	require.NoError(t, err)
	balance, err := client.Balance(t.Context())
	require.NoError(t, err)
	assert.NotEmpty(t, balance)

	address, err := client.Pay(t.Context(), "order-1", 1050)
	require.NoError(t, err)
	assert.NotEmpty(t, address)
	assert.True(t, srv.Orders()[0].Amount.Equal(paymentsvc.MustParseAmount("10.50")))
	lost := srv.Fault(
		paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Drop(paymentsvctest.AfterCommit),
	)
	_, err = client.Pay(t.Context(), "order-2", 1050)
	assert.Equal(t, *starts == 1, err != nil)
	srv.AssertStarted(t, "order-2", *starts)
	assert.Equal(t, 1, lost.Hits())

	var paid []string
	srv.SetReceiver(paymentsvctest.ToHandler(client.Notifications(func(_ context.Context, userData string) error {
		paid = append(paid, userData)
		return nil
	}), "/notifications"))
	success, err := srv.Compose(srv.Orders()[0].OrderID, paymentsvc.StatusSuccess)
	require.NoError(t, err)
	deliveries := srv.Send(t.Context(), success, paymentsvctest.Forged())
	require.Len(t, deliveries, 2)
	assert.True(t, deliveries[1].Accepted())
	srv.AssertForgeriesRefused(t)
	assert.Equal(t, []string{"order-1"}, paid)
}
