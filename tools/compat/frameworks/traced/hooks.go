package traced

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

// Hooks returns hooks for durable.Config with a span per call of the service. The span has an event for each attempt
// and each change of state.
func Hooks(traces trace.TracerProvider) durable.Hooks {
	tracer := traces.Tracer("payments")
	return durable.Hooks{
		Trace: func(ctx context.Context, endpoint, userData string) (context.Context, func(error)) {
			ctx, span := tracer.Start(ctx, endpoint, trace.WithAttributes(attribute.String("user_data", userData)))
			return ctx, func(err error) {
				if failure, ok := errors.AsType[*paymentsvc.Error](err); ok {
					span.SetAttributes(attribute.String("outcome", failure.Outcome.String()))
				}
				if err != nil {
					span.SetStatus(codes.Error, err.Error()) // contains no part of a request or response
				}
				span.End()
			}
		},
		Change: func(ctx context.Context, kind durable.Kind, from, to durable.State) {
			trace.SpanFromContext(ctx).AddEvent("change", trace.WithAttributes(attribute.String("kind", string(kind)),
				attribute.String("from", string(from)), attribute.String("to", string(to))))
		},
	}
}
