// Package nethttp mounts the webhook in net/http.
package nethttp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/paymentsvc/paymentsvc"
)

// Routes receives notifications at /api/notifications.
func Routes(webhook *paymentsvc.Webhook, apply func(context.Context, *paymentsvc.Notification) error) http.Handler {
	api := http.NewServeMux()
	api.Handle("/notifications", webhook.Handler(apply))
	mux := http.NewServeMux()
	mux.Handle("/api/", http.StripPrefix("/api", api))
	return readFirst(mux)
}

// readFirst is a middleware that reads and restores the body.
func readFirst(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		if err != nil {
			slog.WarnContext(r.Context(), "request rejected", "error", err)
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		slog.DebugContext(r.Context(), "request", "path", r.URL.Path, "bytes", len(body)) // never the bytes
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
