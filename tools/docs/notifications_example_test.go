package docs_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func notifications(mux *http.ServeMux) error {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme:    scheme,
		Secrets:   []paymentsvc.Secret{secret},
		Tolerance: 5 * time.Minute,
		OnError: func(r *http.Request, err error) {
			slog.WarnContext(r.Context(), "notification rejected or not handled", "error", err, "from", r.RemoteAddr)
		},
	})
	if err != nil {
		return err
	}
	mux.Handle("/notifications", webhook.Handler(orders.Apply)) // your Apply(ctx, n)
	return nil
}

func verified(webhook *paymentsvc.Webhook, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := webhook.ParseRequest(r)
		if err != nil {
			slog.WarnContext(r.Context(), "notification rejected", "error", err)
			http.Error(w, "not a notification of the service", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), notificationKey{}, n)))
	})
}

type notificationKey struct{}

type ordersTable struct{ db *sql.DB }

func (o ordersTable) Apply(ctx context.Context, n *paymentsvc.Notification) error {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()

	inserted, err := tx.ExecContext(ctx, `
		INSERT INTO notifications (key, event, order_id, body) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		n.Key(), string(n.Event), n.OrderID, []byte(n.Raw))
	if err != nil {
		return err
	}
	if rows, err := inserted.RowsAffected(); err != nil || rows == 0 {
		return err // nil for a duplicate
	}
	switch n.Event {
	case paymentsvc.EventPaymentStatusChanged, paymentsvc.EventPayoutStatusChanged:
		err = reconcileNotified(ctx, tx, n) // by order_id, or by user_data: a payout may have no order_id here yet
	default: // a refund, or an event that the document does not show
		slog.WarnContext(ctx, "notification needs review", "event", n.Event, "order_id", n.OrderID)
	}
	if err != nil {
		return err
	}
	if err := advance(ctx, tx, n); err != nil { // under its own event
		return err
	}
	if err := ship(ctx, tx, n.OrderID); err != nil {
		return err
	}
	return tx.Commit()
}

func advance(ctx context.Context, tx *sql.Tx, n *paymentsvc.Notification) error {
	refunded := n.Event == paymentsvc.EventRefundStatusChanged && n.StatusDescription == paymentsvc.StatusSuccess
	written, err := tx.ExecContext(ctx, `
		INSERT INTO states (event, order_id, status, amount, final) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (event, order_id) DO UPDATE
		SET status = excluded.status, amount = excluded.amount, final = excluded.final WHERE NOT states.final`,
		string(n.Event), n.OrderID, string(n.StatusDescription), n.Amount,
		n.Final() || refunded) // the order's next refund must not hide this one
	if err != nil {
		return err
	}
	rows, err := written.RowsAffected()
	if err == nil && rows == 0 && n.StatusDescription != paymentsvc.StatusPending {
		slog.WarnContext(ctx, "a new state after a final one: needs review", "order_id", n.OrderID)
	}
	return err
}

func ship(ctx context.Context, tx *sql.Tx, orderID string) error {
	if may, err := mayShip(ctx, tx, orderID); err != nil || !may {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO shipments (order_id) VALUES ($1) ON CONFLICT DO NOTHING", orderID)
	return err
}

func mayShip(ctx context.Context, tx *sql.Tx, orderID string) (bool, error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT states.event, states.amount, starts.amount FROM states JOIN starts ON starts.order_id = states.order_id
		WHERE states.order_id = $1 AND states.status = 'SUCCESS'`, orderID)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	paid, refunded := false, false
	for rows.Next() {
		var event paymentsvc.EventType
		var amount, price paymentsvc.Amount
		if err := rows.Scan(&event, &amount, &price); err != nil {
			return false, err
		}
		switch event {
		case paymentsvc.EventPaymentStatusChanged:
			paid = amount.Equal(price)
		case paymentsvc.EventRefundStatusChanged: // it may have arrived before the payment's SUCCESS
			refunded = true
		}
	}
	return paid && !refunded, rows.Err()
}

type notApplied struct{ error } // the notification is genuine, and should be sent again

func receive(mux *http.ServeMux) error {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: 5 * time.Minute,
		OnError: func(r *http.Request, err error) {
			slog.WarnContext(r.Context(), "notification rejected or not handled", "error", err)
		},
		Respond: func(w http.ResponseWriter, _ *http.Request, err error) { // examples: ask the service what it expects
			var own notApplied
			switch {
			case err == nil:
				_, _ = io.WriteString(w, "OK")
			case errors.As(err, &own):
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				w.WriteHeader(http.StatusForbidden)
			}
		},
	})
	if err != nil {
		return err
	}
	mux.Handle("/notifications", webhook.Handler(func(ctx context.Context, n *paymentsvc.Notification) error {
		if err := orders.Apply(ctx, n); err != nil {
			return notApplied{err}
		}
		return nil
	}))
	return nil
}

func decompressed(limit int64, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Content-Encoding"), "gzip") {
			next.ServeHTTP(w, r)
			return
		}
		plain, err := gzip.NewReader(http.MaxBytesReader(w, r.Body, limit))
		if err != nil {
			http.Error(w, "not gzip", http.StatusBadRequest)
			return
		}
		r = r.Clone(r.Context())
		r.Body = http.MaxBytesReader(w, plain, limit) // a small body can become gigabytes
		r.ContentLength = -1
		r.Header.Del("Content-Encoding")
		next.ServeHTTP(w, r)
	})
}

type queued struct {
	Header http.Header
	Body   []byte // base64 in JSON, so that every byte survives
}

func work(ctx context.Context, unhurried *paymentsvc.Webhook, message []byte) error {
	var q queued
	if err := json.Unmarshal(message, &q); err != nil {
		return err
	}
	n, err := unhurried.Parse(q.Header, q.Body) // its Tolerance is AnyAge: messages wait
	if err != nil {
		return err
	}
	return orders.Apply(ctx, n)
}

func TestDecompressedNotificationsPass(t *testing.T) {
	const body = `{"event":"payment.status_changed","order_id":"o-1","status":2,"status_description":"SUCCESS",` +
		`"status_code":20,"amount":10.50}`
	zipped := func(text string) string {
		var buf bytes.Buffer
		w := gzip.NewWriter(&buf)
		_, err := io.WriteString(w, text)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return buf.String()
	}
	now := time.Now()
	var rejected error
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme, Secrets: []paymentsvc.Secret{secret}, Tolerance: 5 * time.Minute,
		OnError: func(_ *http.Request, err error) { rejected = err },
	})
	require.NoError(t, err)
	handler := webhook.Handler(func(_ context.Context, n *paymentsvc.Notification) error {
		assert.Equal(t, body, string(n.Raw))
		return nil
	})
	bomb, large := zipped(strings.Repeat(" ", 1<<20)), zipped(body)+strings.Repeat(zipped(""), 5000)
	for name, test := range map[string]struct {
		encoding, sent string
		status         int
	}{
		"plain":                      {"", body, http.StatusOK},
		"gzip":                       {"gzip", zipped(body), http.StatusOK},
		"gzip in other case":         {"GZIP", zipped(body), http.StatusOK},
		"not gzip":                   {"gzip", body, http.StatusBadRequest},
		"gzip cut off":               {"gzip", zipped(body)[:40], http.StatusBadRequest},
		"a bomb":                     {"gzip", bomb, http.StatusRequestEntityTooLarge},
		"large before decompression": {"gzip", large, http.StatusRequestEntityTooLarge},
		"another encoding":           {"br", "not really", http.StatusUnauthorized},
	} {
		timestamp := strconv.FormatInt(now.Unix(), 10)
		signature, err := scheme.Signature(secret, &paymentsvc.Message{Timestamp: timestamp, Body: []byte(body)})
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, "/notifications", strings.NewReader(test.sent))
		r.Header = http.Header{"Timestamp": {timestamp}, "Signature": {signature}, "Content-Encoding": {test.encoding}}
		w := httptest.NewRecorder()
		decompressed(64<<10, handler).ServeHTTP(w, r)
		assert.Equal(t, test.status, w.Code, "%s: %v", name, rejected)
	}
}

// TestOrdersShipOnceInEveryOrderOfArrival applies the same notifications in different orders.
func TestOrdersShipOnceInEveryOrderOfArrival(t *testing.T) {
	payment := func(status paymentsvc.StatusName, amount string) *paymentsvc.Notification {
		return &paymentsvc.Notification{
			Event: paymentsvc.EventPaymentStatusChanged, OrderID: "o-1", StatusDescription: status,
			Amount: paymentsvc.MustParseAmount(amount), UserData: "order-1",
		}
	}
	refund := func(status paymentsvc.StatusName, body string) *paymentsvc.Notification {
		n := payment(status, "10.50")
		n.Event, n.Raw = paymentsvc.EventRefundStatusChanged, json.RawMessage(body)
		return n
	}
	pending, paid := payment("PENDING", "10.50"), payment("SUCCESS", "10.50")
	refunded, secondRefund := refund("SUCCESS", `{"id":1}`), refund("PENDING", `{"id":2}`)
	shipped := []string{"o-1"}
	for name, test := range map[string]struct {
		arriving []*paymentsvc.Notification
		want     []string
	}{
		"pending":                      {[]*paymentsvc.Notification{pending}, nil},
		"paid":                         {[]*paymentsvc.Notification{pending, paid}, shipped},
		"duplicates, a late PENDING":   {[]*paymentsvc.Notification{paid, paid, paid, pending}, shipped},
		"refund after SUCCESS":         {[]*paymentsvc.Notification{pending, paid, refunded, paid}, shipped},
		"refund before SUCCESS":        {[]*paymentsvc.Notification{refunded, pending, paid}, nil},
		"two refunds before SUCCESS":   {[]*paymentsvc.Notification{refunded, secondRefund, paid}, nil},
		"a refund that did not happen": {[]*paymentsvc.Notification{refund("FAILURE", "{}"), paid}, shipped},
		"another amount":               {[]*paymentsvc.Notification{payment("SUCCESS", "1.50")}, nil},
		"the same amount":              {[]*paymentsvc.Notification{payment("SUCCESS", "10.5")}, shipped},
		"a failed payment":             {[]*paymentsvc.Notification{payment("FAILURE", "10.50")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			table, _ := database(t)
			table.starts["order-1"] = startRow{state: "open"}
			for _, n := range test.arriving {
				require.NoError(t, orders.Apply(t.Context(), n))
			}
			assert.Equal(t, test.want, table.shipments)
		})
	}
}
