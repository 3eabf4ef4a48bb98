package docs_test

import (
	"bytes"
	"compress/gzip"
	"context"
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

type notApplied struct{ error } // the notification is genuine, but not applied

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

func work(ctx context.Context, anyAge *paymentsvc.Webhook, message []byte) error {
	var q queued
	if err := json.Unmarshal(message, &q); err != nil {
		return err
	}
	n, err := anyAge.Parse(q.Header, q.Body) // its Tolerance is AnyAge: messages wait
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
