package handlers

import (
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/paymentsvc/paymentsvc"
)

// Echo receives notifications at /api/notifications.
func Echo(webhook *paymentsvc.Webhook, apply Apply) http.Handler {
	router := echo.New()
	// BodyDump restores the body.
	router.Use(middleware.BodyLimit(64<<10), middleware.BodyDump(func(c *echo.Context, request, _ []byte, _ error) {
		slog.DebugContext(c.Request().Context(), "request", "bytes", len(request)) // never the bytes
	}))
	router.Group("/api").POST("/notifications", echo.WrapHandler(webhook.Handler(apply)))
	return router
}
