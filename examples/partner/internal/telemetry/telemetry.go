// Package telemetry tells what the program does: metrics for Prometheus, and traces by OTLP where the environment names
// a collector. Neither holds a secret, a destination, or anything of a request's or an answer's body.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// scope names this program's own metrics and spans.
const scope = "github.com/paymentsvc/paymentsvc/examples/partner"

// Config is for New.
type Config struct {
	// Traces sends spans by OTLP over HTTP, to where the standard variables OTEL_EXPORTER_OTLP_* say. Otherwise there
	// are none.
	Traces bool
	// Log is told of what cannot be measured. It is required.
	Log *slog.Logger
}

// Telemetry is the metrics and traces of one process. Make it with New, and end it with Shutdown.
type Telemetry struct {
	registry *prometheus.Registry
	meters   *sdkmetric.MeterProvider
	traces   trace.TracerProvider
	tracer   trace.Tracer
	attempts attempts
	log      *slog.Logger
	end      []func(context.Context) error
}

// New sets the telemetry up. Nothing of it is global.
func New(ctx context.Context, c Config) (*Telemetry, error) {
	about := resource.NewSchemaless(attribute.String("service.name", "partner"))
	t := &Telemetry{registry: prometheus.NewRegistry(), traces: noop.NewTracerProvider(), log: c.Log}
	reader, err := exporter.New(exporter.WithRegisterer(t.registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(about), sdkmetric.WithView(fewLabels),
		sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter)) // they would hold the labels that fewLabels takes off
	t.end = append(t.end, t.meters.Shutdown)
	if c.Traces {
		spans, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans), sdktrace.WithResource(about))
		t.traces = provider
		t.end = append(t.end, provider.Shutdown)
	}
	t.tracer = t.traces.Tracer(scope)
	if t.attempts, err = newAttempts(t.meters.Meter(scope)); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return t, nil
}

// fewLabels keeps of otelhttp's labels those whose values are few: the name of the host is the client's to choose, and
// each new one would be another time series.
func fewLabels(i sdkmetric.Instrument) (sdkmetric.Stream, bool) {
	if i.Scope.Name != otelhttp.ScopeName {
		return sdkmetric.Stream{}, false
	}
	return sdkmetric.Stream{
		Name: i.Name, Description: i.Description, Unit: i.Unit,
		AttributeFilter: attribute.NewAllowKeysFilter("http.request.method", "http.response.status_code", "http.route"),
	}, true
}

// Handler serves the metrics to Prometheus.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(t.log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
	})
}

// Transport measures what base sends. It does not change requests, keeps the caller's context, and calls base once for
// each: what paymentsvc.Config.TrustTransport wants to be promised. base is an *http.Transport.
//
// No trace context is sent along: the interface document shows no such header, and what it says is nobody else's business.
func (t *Telemetry) Transport(base *http.Transport) http.RoundTripper {
	return otelhttp.NewTransport(base,
		otelhttp.WithTracerProvider(t.traces), otelhttp.WithMeterProvider(t.meters),
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator()))
}

// Handle measures the requests that next answers. What they say of a trace that they belong to is not believed.
func (t *Telemetry) Handle(next http.Handler) http.Handler {
	return otelhttp.NewHandler(next, "request",
		otelhttp.WithTracerProvider(t.traces), otelhttp.WithMeterProvider(t.meters),
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator()))
}

// Shutdown sends what has not been sent yet, for as long as ctx allows.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	all := make([]error, 0, len(t.end))
	for _, end := range t.end {
		all = append(all, end(ctx))
	}
	return errors.Join(all...)
}

func (t *Telemetry) meter() metric.Meter { return t.meters.Meter(scope) }
