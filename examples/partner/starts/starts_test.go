package starts

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// newTable returns empty tables and a fake service that accepts a user_data twice. The scheme and the secret are
// examples, because the interface document does not specify them.
func newTable(t *testing.T) (*Table, *paymentsvctest.Server) {
	t.Helper()
	service := paymentsvctest.StartInMemory(t, paymentsvctest.Config{
		PartnerID: 7, Projects: []paymentsvctest.Project{{ID: 42, Secret: "project-secret-key-of-this-example"}},
		Scheme: paymentsvc.Scheme{
			Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex,
		},
		Repeated: paymentsvctest.NewOrder,
	})
	client, err := paymentsvc.NewClient(service.ClientConfig(42))
	require.NoError(t, err)
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "starts.db"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(t.Context(), Schema)
	require.NoError(t, err)
	return &Table{DB: db, Client: client}, service
}

// add inserts a start in a state.
func (t *Table) add(test *testing.T, userData string, state State, orderID any) {
	test.Helper()
	require.NoError(test, t.Insert(test.Context(), userData, userData, paymentsvc.MustParseAmount("10.50")))
	_, err := t.DB.ExecContext(test.Context(), `UPDATE starts SET state = $1, order_id = $2 WHERE user_data = $3`,
		string(state), orderID, userData)
	require.NoError(test, err)
}

// requireRow compares a start.
func (t *Table) requireRow(test *testing.T, userData string, state State, orderID string) {
	test.Helper()
	var gotState, gotOrderID string
	err := t.DB.QueryRowContext(test.Context(), `SELECT state, COALESCE(order_id, '') FROM starts WHERE user_data = $1`,
		userData).Scan(&gotState, &gotOrderID)
	require.NoError(test, err)
	require.Equal(test, string(state)+" "+orderID, gotState+" "+gotOrderID)
}

func TestStartStoresTheRedirect(t *testing.T) {
	table, service := newTable(t)
	amount := paymentsvc.MustParseAmount("10.50")
	require.NoError(t, table.Insert(t.Context(), "order-1", "basket", amount))
	require.Error(t, table.Insert(t.Context(), "order-2", "basket", amount), "a second start of the basket")
	require.Error(t, table.Insert(t.Context(), "", "other", amount), "the row of each notification without user_data")
	require.NoError(t, table.Start(t.Context(), "order-1"))
	table.requireRow(t, "order-1", Started, service.Orders()[0].OrderID)
	var redirect string
	require.NoError(t, table.DB.QueryRowContext(t.Context(), `SELECT redirect_url FROM starts`).Scan(&redirect))
	assert.NotEmpty(t, redirect)
}

// A notification may arrive during the call, and its user_data is optional.
func TestStartAppliesEarlierNotifications(t *testing.T) {
	for name, test := range map[string]struct {
		status           paymentsvc.StatusName
		amount, userData string
		want             State
		shipments        int
	}{
		"pending":                       {"PENDING", "10.50", "order-1", Started, 0},
		"paid":                          {"SUCCESS", "10.50", "order-1", Started, 1},
		"paid, without its user_data":   {"SUCCESS", "10.50", "", Started, 1},
		"failed":                        {"FAILURE", "10.50", "order-1", Failed, 0},
		"failed, without its user_data": {"FAILURE", "10.50", "", Failed, 0},
		"paid with another amount":      {"SUCCESS", "1.50", "", Review, 0},
	} {
		t.Run(name, func(t *testing.T) {
			table, _ := newTable(t)
			table.add(t, "order-1", Open, nil)
			n := payment(test.status, test.amount)
			n.UserData = test.userData
			require.NoError(t, table.Apply(t.Context(), n))
			require.NoError(t, table.started(t.Context(), "order-1", "o-1", "https://pay.example/1"))
			table.requireRow(t, "order-1", test.want, "o-1")
			var redirect string
			var shipments int
			require.NoError(t, table.DB.QueryRowContext(t.Context(), `
				SELECT redirect_url, (SELECT COUNT(*) FROM shipments) FROM starts`).Scan(&redirect, &shipments))
			assert.Equal(t, "https://pay.example/1", redirect)
			assert.Equal(t, test.shipments, shipments)
		})
	}
}

func TestCrashBetweenCallAndRecordStartsNothingTwice(t *testing.T) {
	table, service := newTable(t)
	table.add(t, "order-1", Retry, nil)
	refused := service.Fault(paymentsvctest.InitPayment, paymentsvctest.First(3), paymentsvctest.Refuse())
	require.NoError(t, table.Start(t.Context(), "order-1"))
	require.Equal(t, 3, refused.Hits())
	table.requireRow(t, "order-1", Retry, "")

	_, err := table.DB.ExecContext(t.Context(), `CREATE TRIGGER crash BEFORE UPDATE ON starts
		WHEN new.state = 'started' BEGIN SELECT RAISE(ABORT, 'the process died'); END`)
	require.NoError(t, err)
	require.ErrorContains(t, table.Start(t.Context(), "order-1"), "the process died")
	_, err = table.DB.ExecContext(t.Context(), `DROP TRIGGER crash`)
	require.NoError(t, err)

	require.NoError(t, table.Start(t.Context(), "order-1"), "an open row is never started again")
	require.NoError(t, table.Reconcile(t.Context(), "order-1"))
	service.AssertStarted(t, "order-1", 1)
	table.requireRow(t, "order-1", Started, service.Orders()[0].OrderID)
}

func TestLostResponseStaysOpenUntilItIsReconciled(t *testing.T) {
	table, service := newTable(t)
	table.add(t, "order-1", Retry, nil)
	lost := service.Fault(
		paymentsvctest.InitPayment, paymentsvctest.Every(), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	refused := service.Fault(paymentsvctest.StatusPayment, paymentsvctest.First(3), paymentsvctest.Refuse())
	require.Error(t, table.Start(t.Context(), "order-1"))
	require.Equal(t, 4, lost.Hits()+refused.Hits())
	table.requireRow(t, "order-1", Open, "")
	require.NoError(t, table.Reconcile(t.Context(), "order-1"))
	table.requireRow(t, "order-1", Started, service.Orders()[0].OrderID)
	require.NoError(t, table.record(t.Context(), "order-1", Rejected, ""), "a notification was first")
	table.requireRow(t, "order-1", Started, service.Orders()[0].OrderID)
	service.AssertOrders(t, 1)
}

func TestReconcileNeedsTheUserDataOfTheRow(t *testing.T) {
	table, service := newTable(t)
	table.add(t, "order-1", Open, nil)
	for n, body := range []string{"{}", `{"user_data":"order-1"}`} {
		service.Fault(paymentsvctest.StatusPayment, paymentsvctest.Nth(1+2*n),
			paymentsvctest.Answer(paymentsvctest.AfterCommit, 200, "application/json", body))
	}
	require.ErrorContains(t, table.Reconcile(t.Context(), "order-1"), "user_data order-1")
	require.Error(t, table.Reconcile(t.Context(), "order-1"), "not found")
	table.requireRow(t, "order-1", Open, "")

	require.NoError(t, table.Reconcile(t.Context(), "order-1"), "an order_id is optional")
	table.requireRow(t, "order-1", Started, "")
	require.NoError(t, table.Apply(t.Context(), payment("SUCCESS", "10.50")), "finds the row by user_data")
	table.requireRow(t, "order-1", Started, "o-1")
}

func TestUnknownPayoutIsReconciledByOrderIDOrReviewed(t *testing.T) {
	table, service := newTable(t)
	payout, err := table.Client.InitPayout(t.Context(), paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("25.00"), Destination: "4111111111111111", UserData: "payout-1",
	})
	require.NoError(t, err)
	table.add(t, "payout-1", Open, nil)
	table.add(t, "payout-2", Open, nil)
	refused := service.Fault(paymentsvctest.StatusPayout, paymentsvctest.First(3), paymentsvctest.Refuse())
	require.Error(t, table.ReconcilePayout(t.Context(), "payout-1", payout.OrderID))
	require.Equal(t, 3, refused.Hits())
	table.requireRow(t, "payout-1", Open, payout.OrderID)
	require.NoError(t, table.ReconcilePayout(t.Context(), "payout-1", payout.OrderID))
	table.requireRow(t, "payout-1", Started, payout.OrderID)
	require.NoError(t, table.ReconcilePayout(t.Context(), "payout-2", ""))
	table.requireRow(t, "payout-2", Review, "")
	service.AssertOrders(t, 1)

	n := &paymentsvc.Notification{
		Event: paymentsvc.EventPayoutStatusChanged, OrderID: "o-2", StatusDescription: paymentsvc.StatusFailure,
		UserData: "payout-2", Amount: paymentsvc.MustParseAmount("10.50"),
	}
	require.NoError(t, table.Apply(t.Context(), n))
	table.requireRow(t, "payout-2", Started, "o-2")
}

// A gateway or a wrong Config.DecodeError can report a rejection for a payment that the service has.
func TestApplyCorrectsARejection(t *testing.T) {
	for status, want := range map[paymentsvc.StatusName]State{"PENDING": Started, "SUCCESS": Started, "FAILURE": Failed} {
		table, _ := newTable(t)
		table.add(t, "order-1", Rejected, nil)
		require.NoError(t, table.Apply(t.Context(), payment(status, "10.50")))
		table.requireRow(t, "order-1", want, "o-1")
	}
	for _, state := range []State{Rejected, Retry} {
		table, _ := newTable(t)
		table.add(t, "order-1", state, nil)
		require.NoError(t, table.started(t.Context(), "order-1", "o-1", ""), "another process has reconciled it")
		table.requireRow(t, "order-1", Started, "o-1")
	}
	table, _ := newTable(t)
	table.add(t, "order-1", Rejected, nil)
	require.NoError(t, table.Insert(t.Context(), "order-2", "order-1", paymentsvc.MustParseAmount("10.50")))
	require.NoError(t, table.started(t.Context(), "order-1", "o-1", ""))
	require.NoError(t, table.Apply(t.Context(), payment("SUCCESS", "10.50")))
	table.requireRow(t, "order-1", Rejected, "")
	table.requireRow(t, "order-2", Retry, "")
}

// The payer starts a rejected order again while a notification shows that the service has the first start.
func TestApplyRepeatsAfterAConcurrentInsert(t *testing.T) {
	server := os.Getenv("TEST_DATABASE_URL")
	if server == "" {
		t.Skip("no PostgreSQL: run the tests with .ci/postgres")
	}
	table, _ := newTable(t)
	c, err := pgx.ParseConfig(server)
	require.NoError(t, err)
	c.RuntimeParams["search_path"] = "starts"
	db := stdlib.OpenDB(*c)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.ExecContext(t.Context(), `DROP SCHEMA IF EXISTS starts CASCADE; CREATE SCHEMA starts; `+Schema)
	require.NoError(t, err)
	table.DB = db
	table.add(t, "order-1", Rejected, nil)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), `INSERT INTO starts VALUES ('order-2', 'order-1', '10.50', 'retry')`)
	require.NoError(t, err)
	applied := make(chan error, 1)
	go func() { applied <- table.Apply(t.Context(), payment("SUCCESS", "10.50")) }()
	for waiting := 0; waiting == 0; {
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM pg_locks
			WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE query LIKE '%UPDATE starts%')
		`).Scan(&waiting))
	}
	require.NoError(t, tx.Commit())
	require.NoError(t, <-applied)
	table.requireRow(t, "order-1", Rejected, "")
	table.requireRow(t, "order-2", Retry, "")
}

// An operator has decided about a payment of another amount. Its refund may arrive after the payer has started a new
// payment.
func TestApplyKeepsTheDecisionOfAnOperator(t *testing.T) {
	for _, decided := range []State{Failed, Rejected} {
		table, _ := newTable(t)
		table.add(t, "order-1", Started, "o-1")
		require.NoError(t, table.Apply(t.Context(), payment("SUCCESS", "1.50")))
		table.requireRow(t, "order-1", Review, "o-1")
		_, err := table.DB.ExecContext(t.Context(), `UPDATE starts SET state = $1`, string(decided))
		require.NoError(t, err)
		require.NoError(t, table.Insert(t.Context(), "order-2", "order-1", paymentsvc.MustParseAmount("10.50")))
		require.NoError(t, table.Apply(t.Context(), refund("SUCCESS", "{}")))
		require.NoError(t, table.Apply(t.Context(), payment("PENDING", "10.50")))
		table.requireRow(t, "order-1", decided, "o-1")
	}
}

// After SUCCESS, a failed row would let the payer pay the same order again.
func TestApplyKeepsTheFirstFinalState(t *testing.T) {
	for statuses, want := range map[[2]paymentsvc.StatusName]State{
		{"SUCCESS", "FAILURE"}: Started, {"FAILURE", "PENDING"}: Failed,
	} {
		table, _ := newTable(t)
		table.add(t, "order-1", Open, nil)
		for _, status := range statuses {
			require.NoError(t, table.Apply(t.Context(), payment(status, "10.50")))
			table.requireRow(t, "order-1", want, "o-1")
		}
	}
}

// The service reports the order of order-2 with the user_data of order-1.
func TestApplyMatchesOneRow(t *testing.T) {
	table, _ := newTable(t)
	table.add(t, "order-1", Open, nil)
	table.add(t, "order-2", Started, "o-1")
	require.NoError(t, table.Apply(t.Context(), payment("SUCCESS", "10.50")))
	table.requireRow(t, "order-1", Open, "")
	table.requireRow(t, "order-2", Started, "o-1")

	second := payment("SUCCESS", "10.50")
	second.OrderID, second.UserData = "o-2", "order-2"
	require.NoError(t, table.Apply(t.Context(), second), "a second order for one user_data")
	table.requireRow(t, "order-2", Started, "o-1")
}

// payment returns a notification of the payment order-1.
func payment(status paymentsvc.StatusName, amount string) *paymentsvc.Notification {
	return &paymentsvc.Notification{
		Event: paymentsvc.EventPaymentStatusChanged, OrderID: "o-1", StatusDescription: status,
		Amount: paymentsvc.MustParseAmount(amount), UserData: "order-1",
	}
}

// refund returns a notification of a refund of the payment order-1.
func refund(status paymentsvc.StatusName, body string) *paymentsvc.Notification {
	n := payment(status, "10.50")
	n.Event, n.Raw = paymentsvc.EventRefundStatusChanged, json.RawMessage(body)
	return n
}

func TestOrderShipsOnceInEveryOrderOfArrival(t *testing.T) {
	pending, paid := payment("PENDING", "10.50"), payment("SUCCESS", "10.50")
	refunded, secondRefund := refund("SUCCESS", `{"id":1}`), refund("PENDING", `{"id":2}`)
	for name, test := range map[string]struct {
		arriving []*paymentsvc.Notification
		want     int
	}{
		"pending":                      {[]*paymentsvc.Notification{pending}, 0},
		"paid":                         {[]*paymentsvc.Notification{pending, paid}, 1},
		"duplicates, a late PENDING":   {[]*paymentsvc.Notification{paid, paid, paid, pending}, 1},
		"refund after SUCCESS":         {[]*paymentsvc.Notification{pending, paid, refunded, paid}, 1},
		"refund before SUCCESS":        {[]*paymentsvc.Notification{refunded, pending, paid}, 0},
		"two refunds before SUCCESS":   {[]*paymentsvc.Notification{refunded, secondRefund, paid}, 0},
		"a refund that did not happen": {[]*paymentsvc.Notification{refund("FAILURE", "{}"), paid}, 1},
		"another amount":               {[]*paymentsvc.Notification{payment("SUCCESS", "1.50")}, 0},
		"the same amount":              {[]*paymentsvc.Notification{payment("SUCCESS", "10.5")}, 1},
		"a failed payment":             {[]*paymentsvc.Notification{payment("FAILURE", "10.50")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			table, _ := newTable(t)
			table.add(t, "order-1", Open, nil)
			for _, n := range test.arriving {
				require.NoError(t, table.Apply(t.Context(), n))
			}
			var shipped int
			require.NoError(t, table.DB.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM shipments`).Scan(&shipped))
			assert.Equal(t, test.want, shipped)
		})
	}
}
