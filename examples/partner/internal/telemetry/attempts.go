package telemetry

import (
	"context"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/paymentsvc/paymentsvc"
)

// attempts are the metrics of the calls to the service.
type attempts struct {
	number   metric.Int64Counter
	duration metric.Float64Histogram
}

func newAttempts(m metric.Meter) (a attempts, err error) {
	a.number, err = m.Int64Counter("partner.service.attempts", metric.WithDescription("Attempts at calls to the service."))
	if err != nil {
		return a, err
	}
	a.duration, err = m.Float64Histogram("partner.service.attempt.duration", metric.WithUnit("s"),
		metric.WithDescription("What one attempt took, signing and reading the answer included."),
		metric.WithExplicitBucketBoundaries(.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40))
	return a, err
}

// OnAttempt is for paymentsvc.Config.OnAttempt: it counts the attempt, and adds it to the span of the call.
func (t *Telemetry) OnAttempt(ctx context.Context, a paymentsvc.Attempt) {
	endpoint, outcome := attribute.String("endpoint", endpointLabel(a.Endpoint)), attribute.String("outcome", a.Result())
	t.attempts.number.Add(ctx, 1, metric.WithAttributes(endpoint, outcome,
		attribute.String("http_status", statusLabel(a.HTTPStatus)), attribute.String("attempt", attemptLabel(a.Number))))
	t.attempts.duration.Record(ctx, a.Duration.Seconds(), metric.WithAttributes(endpoint, outcome))
	trace.SpanFromContext(ctx).AddEvent("attempt", trace.WithAttributes(endpoint, outcome,
		attribute.Int("http.response.status_code", a.HTTPStatus), attribute.Int("attempt", a.Number),
		attribute.String("duration", a.Duration.String()), attribute.String("retry_in", a.RetryIn.String())))
}

// endpointLabel is one of the ten paths of the interface document, so that the time series stay few.
func endpointLabel(endpoint string) string {
	known := []string{
		"init_payment/card", "init_payment/sbp", "init_payment/crypto", "init_payment/mc", "status_payment",
		"init_payout", "status_payout", "init_form", "init_invoice", "get_balance",
	}
	if slices.Contains(known, endpoint) {
		return endpoint
	}
	return "other"
}

func statusLabel(status int) string {
	if status < 100 || status > 599 {
		return "none"
	}
	return strconv.Itoa(status/100) + "xx"
}

func attemptLabel(number int) string {
	if number > 3 {
		return "more"
	}
	return strconv.Itoa(number)
}
