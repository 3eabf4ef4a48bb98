// Package traced creates clients and hooks that record spans.
package traced

import (
	"context"
	"errors"
	"io"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/paymentsvc/paymentsvc"
)

// NewClient returns a client for cfg with a span per request. base is paymentsvc.NewTransport() or your own transport.
func NewClient(cfg paymentsvc.Config, base *http.Transport, traces trace.TracerProvider) (*paymentsvc.Client, error) {
	cfg.HTTPClient = &http.Client{Transport: otelhttp.NewTransport(quiet{base},
		otelhttp.WithTracerProvider(traces),
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator()), // sends no traceparent
	)}
	cfg.TrustTransport = true // otelhttp passes the context on and sends each request at most once
	next := cfg.OnAttempt
	cfg.OnAttempt = func(ctx context.Context, a paymentsvc.Attempt) {
		trace.SpanFromContext(ctx).AddEvent("attempt", trace.WithAttributes(
			attribute.Int("attempt", a.Number), attribute.String("outcome", a.Result()),
			attribute.Int("http.response.status_code", a.HTTPStatus), attribute.String("retry_in", a.RetryIn.String()),
		))
		if next != nil {
			next(ctx, a)
		}
	}
	return paymentsvc.NewClient(cfg)
}

// quiet hides the texts of errors from otelhttp, which writes them to spans. An error of net/http may quote a response
// that repeats the request. Errors of the client quote no response.
type quiet struct{ next *http.Transport }

func (q quiet) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := q.next.RoundTrip(r)
	if err != nil {
		return resp, quietError{err}
	}
	resp.Body = quietBody{resp.Body}
	return resp, nil
}

type quietBody struct{ io.ReadCloser }

func (b quietBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF { // readers compare err with io.EOF
		err = quietError{err}
	}
	return n, err
}

type quietError struct{ err error }

func (quietError) Error() string   { return "no complete response: see the span of the call" }
func (e quietError) Unwrap() error { return e.err }

// Call makes a call in a span with its outcome, an event per attempt, and the spans of the requests.
func Call[R any](
	ctx context.Context, traces trace.TracerProvider, name string, call func(context.Context) (R, error),
) (R, error) {
	ctx, span := traces.Tracer("payments").Start(ctx, name)
	defer span.End()
	response, err := call(ctx)
	if err == nil {
		span.SetAttributes(attribute.String("outcome", "success"))
		return response, nil
	}
	if failure, ok := errors.AsType[*paymentsvc.Error](err); ok {
		span.SetAttributes(attribute.String("outcome", failure.Outcome.String()))
	}
	span.SetStatus(codes.Error, err.Error()) // contains no part of a request or response
	return response, err
}
