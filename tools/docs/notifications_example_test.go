package docs_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

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
	mux.Handle("/notifications", webhook.Handler(func(ctx context.Context, n *paymentsvc.Notification) error {
		return orders.Apply(ctx, n.Key(), n.Event, n.OrderID, n.StatusDescription)
	}))
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

func function(
	ctx context.Context, webhook *paymentsvc.Webhook, headers map[string]string, body string, isBase64 bool,
) (int, error) {
	raw := []byte(body)
	if isBase64 { // a gateway encodes what it takes for binary
		var err error
		if raw, err = base64.StdEncoding.DecodeString(body); err != nil {
			return http.StatusBadRequest, err
		}
	}
	header := http.Header{}
	for name, value := range headers { // in any letter case: gateways change it
		header.Add(name, value)
	}
	n, err := webhook.Parse(header, raw)
	if errors.Is(err, paymentsvc.ErrMalformedNotification) {
		return http.StatusBadRequest, err
	}
	if err != nil {
		return http.StatusUnauthorized, err
	}
	if err := orders.Apply(ctx, n.Key(), n.Event, n.OrderID, n.StatusDescription); err != nil {
		return http.StatusInternalServerError, err // with 200 it would count as handled, and be lost
	}
	return http.StatusOK, nil
}

func parse(w *paymentsvc.Webhook, host, path string, h http.Header, body []byte) (*paymentsvc.Notification, error) {
	r, err := http.NewRequest(http.MethodPost, path, bytes.NewReader(body)) // the path with its query
	if err != nil {
		return nil, err
	}
	r.Host, r.Header = host, h
	return w.ParseRequest(r)
}

func apply(ctx context.Context, db *sql.DB, n *paymentsvc.Notification) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()

	inserted, err := tx.ExecContext(ctx, `
		INSERT INTO notifications (key, event, order_id, body) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		n.Key(), string(n.Event), n.OrderID, string(n.Raw))
	if err != nil {
		return err
	}
	if rows, err := inserted.RowsAffected(); err != nil || rows == 0 {
		return err // nil for a duplicate
	}
	switch n.Event {
	case paymentsvc.EventPaymentStatusChanged, paymentsvc.EventPayoutStatusChanged:
		err = advance(ctx, tx, n)
	default: // a refund, or an event that the document does not show: stored, and no payment's state
		slog.WarnContext(ctx, "notification needs review", "event", n.Event, "order_id", n.OrderID)
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

func advance(ctx context.Context, tx *sql.Tx, n *paymentsvc.Notification) error {
	written, err := tx.ExecContext(ctx, `
		INSERT INTO states (event, order_id, status, final) VALUES ($1, $2, $3, $4)
		ON CONFLICT (event, order_id) DO UPDATE SET status = excluded.status, final = excluded.final
		WHERE NOT states.final`,
		string(n.Event), n.OrderID, string(n.StatusDescription), n.Final())
	if err != nil {
		return err
	}
	rows, err := written.RowsAffected()
	if err == nil && rows == 0 && n.StatusDescription != paymentsvc.StatusPending {
		slog.WarnContext(ctx, "a new state after a final one: needs review", "order_id", n.OrderID)
	}
	return err
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
		if err := orders.Apply(ctx, n.Key(), n.Event, n.OrderID, n.StatusDescription); err != nil {
			return notApplied{err}
		}
		return nil
	}))
	return nil
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
	return orders.Apply(ctx, n.Key(), n.Event, n.OrderID, n.StatusDescription)
}
