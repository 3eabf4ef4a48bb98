package migrating_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
	"github.com/paymentsvc/paymentsvc/tools/docs/migrating"
	"github.com/paymentsvc/paymentsvc/tools/docs/migrating/after"
)

type client interface {
	Balance(ctx context.Context) (string, error)
	Pay(ctx context.Context, userData string, cents int64) (string, error)
	Notifications(paid func(ctx context.Context, userData string) error) http.Handler
}

const key = "the-key-of-the-migration"

func TestOldClientPaysTwiceAfterALostResponse(t *testing.T) {
	testClient(t, func(url string) (client, error) { return migrating.New(url, key) }, 2)
}

func TestNewClientPaysOnceAfterALostResponse(t *testing.T) {
	testClient(t, func(url string) (client, error) { return after.New(url, key) }, 1)
}

// testClient runs all methods of a client, and requires this number of starts after a lost response.
func testClient(t *testing.T, create func(url string) (client, error), starts int) {
	t.Helper()
	srv := paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: 7, Projects: []paymentsvctest.Project{{ID: 42, Secret: key}}, Repeated: paymentsvctest.NewOrder,
		Scheme: paymentsvc.Scheme{
			Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex,
		},
	})
	client, err := create(srv.URL)
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
	assert.Equal(t, starts == 1, err != nil)
	srv.AssertStarted(t, "order-2", starts)
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
