package docs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func start(ctx context.Context, client *paymentsvc.Client, userData string) error {
	payment, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
	})
	switch {
	case err == nil: // then send the payer to payment.RedirectURL
		return starts.Record(ctx, userData, "started", payment.OrderID)
	case paymentsvc.SafeToRetry(err): // after a back-off; 401, 403: alert, fix the key or the clock, then retry
		return starts.Record(ctx, userData, "retry", "")
	case paymentsvc.OutcomeOf(err) == paymentsvc.OutcomeUnknown: // the row stays open
		return reconcile(ctx, client, userData)
	default: // rejected for good, or never valid
		return starts.Record(ctx, userData, "rejected", "")
	}
}

func withEffects() paymentsvc.ErrorDecoder {
	fields := paymentsvc.ErrorFields("error_code", "error_message") // examples, like the codes below
	decode := func(status int, body []byte) *paymentsvc.ServiceError {
		reported := fields(status, body)
		if reported == nil {
			return nil
		}
		switch reported.Code {
		case "DUPLICATE": // user_data was used before, so an earlier call may have started it
			reported.Effect = paymentsvc.EffectPossible
		case "TOO_MANY": // a rate limit that the service applies before anything else
			reported.Effect = paymentsvc.EffectNone
		}
		return reported
	}
	return decode
}

func reconcile(ctx context.Context, client *paymentsvc.Client, userData string) error {
	status, err := client.StatusPayment(ctx, paymentsvc.StatusPaymentRequest{UserData: userData})
	var serviceError *paymentsvc.ServiceError
	switch {
	case errors.As(err, &serviceError) && serviceError.Code == "NO_SUCH_PAYMENT": // an example, not the service's code
		return nil // not final yet: the row stays open
	case err != nil:
		return err
	case status.UserData == "": // an answer such as {}: reconciled later
		return nil
	case status.UserData != userData:
		return errors.New("the answer is about another payment")
	}
	return starts.Record(ctx, userData, "started", status.OrderID)
}

func reconcilePayout(ctx context.Context, client *paymentsvc.Client, userData, orderID string) error {
	if orderID == "" {
		return starts.Record(ctx, userData, "review", "") // never started again by a program
	}
	if err := starts.Record(ctx, userData, "open", orderID); err != nil { // so that a crash does not lose it
		return err
	}
	status, err := client.StatusPayout(ctx, paymentsvc.StatusPayoutRequest{OrderID: orderID})
	if err != nil || status.OrderID != orderID {
		return err // the row stays open, to be reconciled later
	}
	return starts.Record(ctx, userData, "started", orderID)
}

func reconcileNotified(ctx context.Context, tx *sql.Tx, n *paymentsvc.Notification) error { // no refund
	state := "started"
	if n.Final() && n.StatusDescription == paymentsvc.StatusFailure {
		state = "failed" // the buyer may try again, with a new user_data
	}
	found, err := tx.ExecContext(ctx, `
		UPDATE starts SET order_id = $1, state = CASE state WHEN 'failed' THEN state ELSE $2 END
		WHERE (order_id = $1 OR order_id IS NULL AND user_data = $3) AND state <> 'rejected'`,
		n.OrderID, state, n.UserData)
	if err != nil {
		return err
	}
	rows, err := found.RowsAffected()
	if err == nil && rows == 0 {
		slog.WarnContext(ctx, "no start has this notification: needs review", "order_id", n.OrderID)
	}
	return err
}

type startsTable struct{ db *sql.DB }

func (s startsTable) Record(ctx context.Context, userData, state, orderID string) error {
	_, err := s.db.ExecContext(ctx, `
		UPDATE starts SET state = $2, order_id = COALESCE(NULLIF($3, ''), order_id)
		WHERE user_data = $1 AND state = 'open'`, // else its notification came first
		userData, state, orderID)
	return err
}

func retryDue(ctx context.Context, db *sql.DB, client *paymentsvc.Client, userData string) error {
	opened, err := db.ExecContext(ctx, `
		UPDATE starts SET state = 'open', opened = CURRENT_TIMESTAMP WHERE user_data = $1 AND state = 'retry'`,
		userData) // commits before the call
	if err != nil {
		return err
	}
	if rows, err := opened.RowsAffected(); err != nil || rows != 1 {
		return err // nil if another process was first
	}
	return start(ctx, client, userData)
}

func withoutTheBuyersCancel(ctx context.Context, client *paymentsvc.Client, userData string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return start(ctx, client, userData)
}

func reconcileOpen(ctx context.Context, client *paymentsvc.Client, open []string) error {
	var failed []error
	for _, userData := range open {
		if err := reconcile(ctx, client, userData); err != nil { // one bad row does not stop the others
			failed = append(failed, fmt.Errorf("user_data %s: %w", userData, err))
		}
	}
	return errors.Join(failed...)
}

func observed(config *paymentsvc.Config) {
	config.OnAttempt = func(ctx context.Context, a paymentsvc.Attempt) {
		slog.InfoContext(ctx, "payment service", "result", a.Result(), "endpoint", a.Endpoint, "attempt", a.Number,
			"http_status", a.HTTPStatus, "duration", a.Duration, "retry_in", a.RetryIn)
	}
}

type counting struct {
	next  *http.Transport
	count func()
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count()
	return c.next.RoundTrip(r) // once, and with r's own context
}

// inState returns the user_data of the rows in a state, as after a restart.
func (f *tables) inState(state string) (list []string) {
	for userData, row := range f.starts {
		if row.state == state {
			list = append(list, userData)
		}
	}
	return list
}

// TestACrashBetweenCallAndRecordStartsNothingTwice kills the process after the second call of a payment, whose first
// was not sent.
func TestACrashBetweenCallAndRecordStartsNothingTwice(t *testing.T) {
	ctx := t.Context()
	for _, test := range []struct {
		name  string
		again func(*sql.DB, *paymentsvc.Client) error // what picks up the row in state retry
		want  int
	}{
		{"as the page does", func(db *sql.DB, client *paymentsvc.Client) error {
			return retryDue(ctx, db, client, "order-1")
		}, 1},
		{"with the row still in retry", func(_ *sql.DB, client *paymentsvc.Client) error {
			return start(ctx, client, "order-1") // what the page warns of
		}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv, client := service(t)
			table, db := database(t)
			table.starts["order-1"] = startRow{state: "open"}
			refused := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.First(3), paymentsvctest.Refuse())
			require.NoError(t, start(ctx, client, "order-1"))
			require.Equal(t, 3, refused.Hits())
			require.Equal(t, []string{"order-1"}, table.inState("retry"))

			table.dies = true
			require.ErrorIs(t, test.again(db, client), errDied)
			table.dies = false

			for _, userData := range table.inState("retry") { // after the restart
				require.NoError(t, test.again(db, client), userData)
			}
			if test.want == 1 {
				require.NoError(t, retryDue(ctx, db, client, "order-1"), "a process that saw the row before the crash")
			}
			require.NoError(t, reconcileOpen(ctx, client, table.inState("open")))
			srv.AssertStarted(t, "order-1", test.want)
			srv.AssertOrders(t, test.want)
			if test.want == 1 {
				assert.Equal(t, startRow{"started", srv.Orders()[0].OrderID}, table.starts["order-1"])
			}
		})
	}
}

func TestOneBadRowStopsNoOther(t *testing.T) {
	srv, client := service(t)
	table, _ := database(t)
	for _, userData := range []string{"order-1", "order-2", "order-3", "order-4"} {
		require.NoError(t, startAs(client, userData))
		table.starts[userData] = startRow{state: "open"}
	}
	onStatus := func(n int, fault paymentsvctest.Fault) {
		srv.Fault(paymentsvctest.StatusPayment, paymentsvctest.Nth(n), fault)
	}
	onStatus(1, paymentsvctest.Reject(http.StatusBadRequest, "E17", "no"))
	onStatus(2, paymentsvctest.Answer(paymentsvctest.AfterCommit, http.StatusOK, "application/json", "{}"))
	onStatus(3, paymentsvctest.Reject(http.StatusNotFound, "NO_SUCH_PAYMENT", "no"))

	err := reconcileOpen(t.Context(), client, []string{"order-1", "order-2", "order-3", "order-4"})
	require.ErrorContains(t, err, "user_data order-1: ")
	assert.NotContains(t, err.Error(), "order-2")
	assert.NotContains(t, err.Error(), "order-3")
	assert.ElementsMatch(t, []string{"order-1", "order-2", "order-3"}, table.inState("open"))
	assert.Equal(t, []string{"order-4"}, table.inState("started"))
}

func startAs(client *paymentsvc.Client, userData string) error {
	_, err := client.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData,
	})
	return err
}

func TestAnUnknownPayoutIsReconciledByItsOrderIDOrReviewed(t *testing.T) {
	srv, client := service(t)
	table, db := database(t)
	payout := func(userData string, fault paymentsvctest.Fault) {
		table.starts[userData] = startRow{state: "open"}
		srv.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(1), fault)
		_, err := client.InitPayout(t.Context(), paymentsvc.PayoutRequest{
			Amount: paymentsvc.MustParseAmount("25.00"), Destination: "4111111111111111", UserData: userData,
		})
		require.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err))
		var failed *paymentsvc.Error
		require.ErrorAs(t, err, &failed)
		require.NoError(t, reconcilePayout(t.Context(), client, userData, failed.OrderID))
	}
	const first, second = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
	incomplete := `{"order_id":"` + first + `"}`
	payout("payout-1", paymentsvctest.Answer(paymentsvctest.AfterCommit, http.StatusOK, "application/json", incomplete))
	assert.Equal(t, startRow{"started", first}, table.starts["payout-1"])
	payout("payout-2", paymentsvctest.Drop(paymentsvctest.AfterCommit))
	assert.Equal(t, startRow{state: "review"}, table.starts["payout-2"])

	notified := func(n *paymentsvc.Notification) {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, reconcileNotified(t.Context(), tx, n))
		require.NoError(t, tx.Commit())
	}
	payoutChanged := paymentsvc.Notification{
		Event: paymentsvc.EventPayoutStatusChanged, OrderID: second, StatusDescription: paymentsvc.StatusFailure,
		UserData: "payout-2",
	}
	notified(&payoutChanged)
	assert.Equal(t, startRow{"started", second}, table.starts["payout-2"], "whether its FAILURE is final is not shown")
	payoutChanged.OrderID = "another order under the same user_data"
	notified(&payoutChanged)
	assert.Equal(t, startRow{"started", second}, table.starts["payout-2"])

	table.starts["order-1"] = startRow{"started", "o-1"}
	paymentChanged := paymentsvc.Notification{
		Event: paymentsvc.EventPaymentStatusChanged, OrderID: "o-1", StatusDescription: paymentsvc.StatusFailure,
	}
	notified(&paymentChanged)
	assert.Equal(t, "failed", table.starts["order-1"].state)
	paymentChanged.StatusDescription = paymentsvc.StatusPending
	notified(&paymentChanged)
	assert.Equal(t, "failed", table.starts["order-1"].state, "a late notification")
}
