//go:build unix

package kills

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// database is a database of a test. Children open the address, and use the witness.
type database struct {
	dbtest.Database
	witness string // a path, "" for none
}

func opened(t *testing.T, address string) database {
	t.Helper()
	return database{Database: dbtest.Open(t, address)}
}

// prepared makes the tables.
func prepared(t *testing.T, address string) database {
	t.Helper()
	db := opened(t, address)
	if !db.SQLite { // SQLite has a file beside it
		db.witness = filepath.Join(t.TempDir(), "witness")
	}
	require.NoError(t, durable.Migrate(t.Context(), db.DB))
	db.Exec(t, `CREATE TABLE test_changes (user_data TEXT, state TEXT)`, `CREATE TABLE test_files (name TEXT)`)
	return db
}

func sqlite(t *testing.T) database   { return prepared(t, filepath.Join(t.TempDir(), "test.db")) }
func postgres(t *testing.T) database { return prepared(t, dbtest.Postgres(t)) }

func each(t *testing.T, f func(t *testing.T, db database)) {
	t.Run("SQLite", func(t *testing.T) { f(t, sqlite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { f(t, postgres(t)) })
}

// pooled returns the database behind pgbouncer, in the mode that durable recommends.
func pooled(t *testing.T, db database) database {
	t.Helper()
	through := opened(t, dbtest.StartPooler(t, db.Address)+"&default_query_exec_mode=exec")
	through.witness = db.witness
	return through
}

// long skips a test that starts processes or servers, unless -kills asks for it.
func long(t *testing.T) {
	t.Helper()
	if *kills == 0 {
		t.Skip("it starts processes or servers. Run it with .ci/postgres go -C durable test ./internal/kills -kills 25")
	}
}

// The partner, project, key and scheme are made up.
const (
	partnerID = 1001
	projectID = 2002
	secret    = "the-secret-of-the-kill-tests"
)

func scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex,
	}
}

// newService starts a service that creates an order for every start, even for a repeated start.
func newService(t *testing.T) *paymentsvctest.Server {
	t.Helper()
	return paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: partnerID, Projects: []paymentsvctest.Project{{ID: projectID, Secret: secret}}, Scheme: scheme(),
		Repeated: paymentsvctest.NewOrder, NotifyAttempts: 1 << 30,
		Check: func(o paymentsvctest.Order) error {
			if o.Destination == closed {
				return errors.New("closed")
			}
			return nil
		},
	})
}

func newClient(address string) (*paymentsvc.Client, error) {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme(), Secret: secret})
	if err != nil {
		return nil, err
	}
	return paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: address, PartnerID: partnerID, ProjectID: projectID, Signer: signer,
		HTTPClient:  &http.Client{Transport: paymentsvc.NewTransport()},
		DecodeError: paymentsvc.ErrorFields("error_code", "error_message"),
	})
}

// open opens a Store in the test's own process.
func open(
	t *testing.T, db database, service string, timeout time.Duration, set ...func(*durable.Config),
) *durable.Store {
	t.Helper()
	client, err := newClient(service)
	require.NoError(t, err)
	c := config(client, timeout, db.witness)
	for _, f := range set {
		f(&c)
	}
	store, err := durable.Open(t.Context(), db.DB, c)
	require.NoError(t, err)
	return store
}

// run runs stores until a call of stop.
func run(t *testing.T, stores ...*durable.Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, len(stores))
	for _, s := range stores {
		go func() { ended <- s.Run(ctx) }()
	}
	return func() {
		cancel()
		for range stores {
			require.NoError(t, <-ended)
		}
	}
}

func counts(t *testing.T, store *durable.Store) map[durable.State]int64 {
	t.Helper()
	c, err := store.Counts(t.Context(), durable.Filter{})
	require.NoError(t, err)
	n := map[durable.State]int64{}
	for state, count := range c.States {
		n[state] = count.Rows
	}
	return n
}

// eventually waits until condition returns true.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 10*time.Minute, 10*time.Millisecond) // payments that are unknown wait for Grace
}

// compare compares the rows with the orders of the service, which are all final. It returns the numbers of payments and
// payouts with MayHaveStarted.
func compare(t *testing.T, db database, store *durable.Store, service *paymentsvctest.Server) (payments, payouts int) {
	t.Helper()
	orders, sum := map[string]paymentsvctest.Order{}, int64(0)
	for _, o := range service.Orders() {
		assert.NotContains(t, orders, o.UserData, "started twice")
		orders[o.UserData] = o
		units, err := o.Amount.Minor(2)
		require.NoError(t, err)
		sum += units
	}
	want := map[[2]string]int{}
	for r, err := range store.Rows(t.Context(), durable.Filter{}) {
		require.NoError(t, err)
		if r.MayHaveStarted && r.Kind == durable.KindPayment {
			payments++
		} else if r.MayHaveStarted {
			payouts++
		}
		if r.State.Final() {
			want[[2]string{r.UserData, string(r.State)}] = 1
		}
		o, started := orders[r.UserData]
		delete(orders, r.UserData)
		switch {
		case started:
			units, err := r.Amount.Minor(2)
			require.NoError(t, err)
			sum -= units
			assert.Equal(t, []any{durable.StateSucceeded, o.OrderID}, []any{r.State, r.OrderID}, r)
		case r.State == durable.StateUnknown && r.Kind == durable.KindPayout:
			assert.NotEmpty(t, r.ReviewReason)
		default:
			assert.Equal(t, durable.StateRejected, r.State, r)
		}
	}
	assert.Empty(t, orders, "started without a row")
	assert.Zero(t, sum)
	assert.Equal(t, want, changes(t, db), "OnChange once for each final state")
	service.AssertAllSigned(t)
	return payments, payouts
}

func changes(t *testing.T, db database) map[[2]string]int {
	t.Helper()
	got := map[[2]string]int{}
	rows, err := db.QueryContext(t.Context(), `SELECT user_data, state FROM test_changes`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var key [2]string
		require.NoError(t, rows.Scan(&key[0], &key[1]))
		got[key]++
	}
	require.NoError(t, rows.Err())
	return got
}

// finish runs store until no created row and no unknown payment remains, settles every order, and calls compare.
func finish(t *testing.T, db database, store *durable.Store, service *paymentsvctest.Server) (payments, payouts int) {
	t.Helper()
	service.ClearFaults()
	stop := run(t, store)
	eventually(t, func() bool {
		return db.Number(t, `SELECT COUNT(*) FROM durable_rows
			WHERE state = 'created' OR state = 'unknown' AND kind = 'payment'`) == 0
	})
	settle(t, service)
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme(), Secrets: []paymentsvc.Secret{secret}, Tolerance: paymentsvc.AnyAge,
	})
	require.NoError(t, err)
	service.SetReceiver(paymentsvctest.ToHandler(webhook.Handler(store.Notified), "/notifications"))
	service.DeliverAll(t.Context())
	require.Empty(t, service.Outbox())
	stop()
	return compare(t, db, store, service)
}

// settle lets all orders succeed.
func settle(t *testing.T, service *paymentsvctest.Server) {
	t.Helper()
	for _, o := range service.Orders() {
		if o.Status == paymentsvc.StatusPending {
			_, err := service.Settle(o.OrderID, paymentsvc.StatusSuccess)
			require.NoError(t, err)
		}
	}
}
