package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

// telemetry has the metrics and traces of this process. They do not contain secrets, destinations or bodies.
type telemetry struct {
	registry *prometheus.Registry
	meter    metric.Meter
	tracer   trace.Tracer
	log      *slog.Logger
	end      []func(context.Context) error

	attempts, changes metric.Int64Counter
	duration          metric.Float64Histogram
}

// newTelemetry creates the metrics. If traces is set, it also sends traces by OTLP over HTTP, configured by the
// variables OTEL_EXPORTER_OTLP_*.
func newTelemetry(ctx context.Context, traces bool, log *slog.Logger) (*telemetry, error) {
	t := &telemetry{registry: prometheus.NewRegistry(), log: log, tracer: noop.NewTracerProvider().Tracer("")}
	reader, err := exporter.New(exporter.WithRegisterer(t.registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	about := resource.NewSchemaless(attribute.String("service.name", "partner"))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(about))
	t.meter, t.end = meters.Meter("partner"), append(t.end, meters.Shutdown)
	if traces {
		spans, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, err
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans), sdktrace.WithResource(about))
		t.tracer, t.end = provider.Tracer("partner"), append(t.end, provider.Shutdown)
	}
	return t, t.instruments()
}

func (t *telemetry) instruments() error {
	errs := make([]error, 3)
	count := func(name, description string) (c metric.Int64Counter, err error) {
		return t.meter.Int64Counter(name, metric.WithDescription(description))
	}
	t.attempts, errs[0] = count("partner.attempts", "Attempts of calls to the service.")
	t.changes, errs[1] = count("partner.changes", "Rows that moved to another state.")
	t.duration, errs[2] = t.meter.Float64Histogram("partner.attempt.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of an attempt."),
		metric.WithExplicitBucketBoundaries(.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40))
	return errors.Join(errs...)
}

// OnAttempt counts an attempt, and records its duration. It is for paymentsvc.Config.
func (t *telemetry) OnAttempt(ctx context.Context, a paymentsvc.Attempt) {
	status := "none"
	if a.HTTPStatus >= 100 && a.HTTPStatus < 600 {
		status = strconv.Itoa(a.HTTPStatus/100) + "xx"
	}
	endpoint := metric.WithAttributes(attribute.String("endpoint", a.Endpoint), attribute.String("outcome", a.Result()))
	t.attempts.Add(ctx, 1, endpoint, metric.WithAttributes(attribute.String("http_status", status)))
	t.duration.Record(ctx, a.Duration.Seconds(), endpoint)
}

// Hooks returns the hooks for [durable.Config].
func (t *telemetry) Hooks() durable.Hooks {
	return durable.Hooks{
		Trace: func(ctx context.Context, endpoint, userData string) (context.Context, func(error)) {
			ctx, span := t.tracer.Start(ctx, endpoint, trace.WithSpanKind(trace.SpanKindClient),
				trace.WithAttributes(attribute.String("user_data", userData)))
			return ctx, func(err error) {
				if failure, ok := errors.AsType[*paymentsvc.Error](err); ok {
					span.SetAttributes(attribute.String("outcome", failure.Outcome.String()))
				}
				if err != nil {
					span.SetStatus(codes.Error, err.Error()) // the error does not contain a body
				}
				span.End()
			}
		},
		Change: func(ctx context.Context, kind durable.Kind, from, to durable.State) {
			t.changes.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", string(kind)),
				attribute.String("from", string(from)), attribute.String("to", string(to))))
		},
	}
}

// watch exports the gauges of a store.
func watch(ctx context.Context, meter metric.Meter, store *durable.Store) error {
	gauges, err := store.Gauges(ctx) // for the names
	if err != nil {
		return err
	}
	named := map[string]metric.Float64ObservableGauge{}
	var all []metric.Observable
	for _, g := range gauges {
		named[g.Name], err = meter.Float64ObservableGauge(
			g.Name, metric.WithUnit(g.Unit), metric.WithDescription(g.Description))
		if err != nil {
			return err
		}
		all = append(all, named[g.Name])
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		gauges, err := store.Gauges(ctx)
		for _, g := range gauges {
			o.ObserveFloat64(named[g.Name], g.Value, metric.WithAttributes(
				attribute.String("kind", string(g.Kind)), attribute.String("state", string(g.State))))
		}
		return err // the gauges have no values after an error
	}, all...)
	return err
}

// Handler serves the metrics to Prometheus.
func (t *telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{})
}

// Close sends the buffered telemetry.
func (t *telemetry) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, end := range t.end {
		if err := end(ctx); err != nil {
			t.log.Warn("not all telemetry was sent", "err", err)
		}
	}
}
