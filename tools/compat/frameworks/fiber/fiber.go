// Package fiber mounts the webhook in Fiber.
package fiber

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/gofiber/fiber/v3"

	"github.com/paymentsvc/paymentsvc"
)

// Routes receives notifications at /api/notifications.
func Routes(webhook *paymentsvc.Webhook, apply func(context.Context, *paymentsvc.Notification) error) *fiber.App {
	app := fiber.New(fiber.Config{BodyLimit: 64 << 10})
	app.Group("/api").Post("/notifications", func(c fiber.Ctx) (failure error) {
		defer func() {
			if p := recover(); p != nil { // otherwise the panic ends the process
				slog.ErrorContext(c, "notification not handled",
					"panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
				failure = c.SendStatus(http.StatusInternalServerError)
			}
		}()
		n, err := webhook.ParseRequest(Received(c))
		switch {
		case errors.Is(err, paymentsvc.ErrMalformedNotification), errors.Is(err, paymentsvc.ErrEmptyBody):
			slog.WarnContext(c, "notification rejected", "error", err)
			return c.SendStatus(http.StatusBadRequest)
		case err != nil:
			slog.WarnContext(c, "notification rejected", "error", err)
			return c.SendStatus(http.StatusUnauthorized)
		}
		if err := apply(c.Context(), n); err != nil {
			slog.ErrorContext(c, "notification not handled", "error", err)
			return c.SendStatus(http.StatusInternalServerError)
		}
		return c.SendStatus(http.StatusOK)
	})
	return app
}

// Received returns c's request for net/http. It copies all values, because fasthttp reuses its buffers.
func Received(c fiber.Ctx) *http.Request {
	header := http.Header{}
	for name, value := range c.Request().Header.All() {
		header.Add(string(name), string(value)) // Add keeps a second signature
	}
	return &http.Request{
		Method:     strings.Clone(c.Method()),
		Host:       string(c.Request().Host()),
		RequestURI: strings.Clone(c.OriginalURL()),
		Header:     header,
		Body:       io.NopCloser(bytes.NewReader(bytes.Clone(c.BodyRaw()))), // Body would decompress it
	}
}
