// Package chi mounts the webhook in chi.
package chi

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/paymentsvc/paymentsvc"
)

// Routes receives notifications at /api/notifications.
func Routes(webhook *paymentsvc.Webhook, apply func(context.Context, *paymentsvc.Notification) error) http.Handler {
	api := chi.NewRouter()
	api.Post("/notifications", webhook.Handler(apply).ServeHTTP)
	router := chi.NewRouter()
	router.Use(middleware.Recoverer, middleware.RequestSize(64<<10))
	router.Mount("/api", api)
	return router
}
