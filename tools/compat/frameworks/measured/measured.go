// Package measured counts and logs attempts.
package measured

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/paymentsvc/paymentsvc"
)

// Attempts has the metrics of all attempts. Create it with NewAttempts.
type Attempts struct {
	count   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	log     *slog.Logger
}

// NewAttempts registers the metrics. It returns an error if a name is already registered.
func NewAttempts(registry prometheus.Registerer, log *slog.Logger) (*Attempts, error) {
	a := &Attempts{
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "payment_attempts_total", Help: "Attempts at calls to the payment service.",
		}, []string{"endpoint", "outcome", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "payment_attempt_duration_seconds", Help: "Duration of an attempt, including the response.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30}, // 30 s is the default of Config.Timeout
		}, []string{"endpoint", "outcome"}),
		log: log,
	}
	return a, errors.Join(registry.Register(a.count), registry.Register(a.seconds))
}

// OnAttempt counts and logs an attempt. Set paymentsvc.Config.OnAttempt to it.
func (a *Attempts) OnAttempt(ctx context.Context, made paymentsvc.Attempt) {
	class := "none"
	if made.HTTPStatus > 0 {
		class = fmt.Sprintf("%dxx", made.HTTPStatus/100)
	}
	a.count.WithLabelValues(made.Endpoint, made.Result(), class).Inc()
	a.seconds.WithLabelValues(made.Endpoint, made.Result()).Observe(made.Duration.Seconds())
	level := slog.LevelInfo
	if made.Err != nil {
		level = slog.LevelWarn
	}
	a.log.Log(ctx, level, "payment service", "endpoint", made.Endpoint, "outcome", made.Result(),
		"attempt", made.Number, "http_status", made.HTTPStatus, "duration", made.Duration,
		"retry_in", made.RetryIn, "error", made.Err)
}
