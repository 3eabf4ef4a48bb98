// Package gin mounts the webhook in gin.
package gin

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/paymentsvc/paymentsvc"
)

// Routes receives notifications at /api/notifications.
func Routes(webhook *paymentsvc.Webhook, apply func(context.Context, *paymentsvc.Notification) error) http.Handler {
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
