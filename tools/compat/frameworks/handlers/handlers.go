// Package handlers mounts the webhook in net/http, chi, gin and echo, and behind a proxy.
package handlers

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/paymentsvc/paymentsvc"
)

// Apply applies a notification. It is your code.
type Apply = func(context.Context, *paymentsvc.Notification) error

// NetHTTP receives notifications at /api/notifications.
func NetHTTP(webhook *paymentsvc.Webhook, apply Apply) http.Handler {
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

// Chi receives notifications at /api/notifications.
func Chi(webhook *paymentsvc.Webhook, apply Apply) http.Handler {
	api := chi.NewRouter()
	api.Post("/notifications", webhook.Handler(apply).ServeHTTP)
	router := chi.NewRouter()
	router.Use(middleware.Recoverer, middleware.RequestSize(64<<10))
	router.Mount("/api", api)
	return router
}

// Gin receives notifications at /api/notifications.
func Gin(webhook *paymentsvc.Webhook, apply Apply) http.Handler {
	router := gin.New()
	router.Use(gin.Recovery(), bindFirst)
	router.Group("/api").POST("/notifications", gin.WrapH(webhook.Handler(apply)))
	return router
}

// bindFirst is a middleware that binds the body and restores it from the copy under BodyBytesKey.
func bindFirst(c *gin.Context) {
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, 64<<10) // gin sets no limit
	var seen struct{ Event string }
	if err := c.ShouldBindBodyWithJSON(&seen); err != nil {
		// Do not log err, which may contain the body.
		slog.WarnContext(c, "request rejected: not JSON, or too large", "from", c.Request.RemoteAddr)
		c.AbortWithStatus(http.StatusBadRequest)
		return
	}
	// Do not log the text of an unverified event.
	slog.DebugContext(c, "request", "known_event", paymentsvc.EventType(seen.Event).Known())
	if body, ok := c.Get(gin.BodyBytesKey); ok {
		c.Request.Body = io.NopCloser(bytes.NewReader(body.([]byte)))
	}
}

// AsCalled restores the requested address after a proxy removed prefix and set another Host. Take both values from your
// settings, because any sender can set X-Forwarded-Prefix.
func AsCalled(prefix, host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called := r.WithContext(r.Context()) // a copy
		called.RequestURI, called.Host = prefix+r.RequestURI, host
		next.ServeHTTP(w, called)
	})
}
