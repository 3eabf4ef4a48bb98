package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/paymentsvc/paymentsvc"
)

// Calls is a paymentsvc.Client whose calls are spans, which hold the user_data and the outcome. Make it with
// Telemetry.Calls.
type Calls struct {
	client *paymentsvc.Client
	tracer trace.Tracer
}

// Calls gives client with a span around each call.
func (t *Telemetry) Calls(client *paymentsvc.Client) *Calls { return &Calls{client, t.tracer} }

// InitPayment is paymentsvc.Client.InitPayment.
func (c *Calls) InitPayment(ctx context.Context, t paymentsvc.PaymentType, r paymentsvc.PaymentRequest) (*paymentsvc.InitPaymentResponse, error) {
	return call(ctx, c.tracer, "init_payment", r.UserData, func(ctx context.Context) (*paymentsvc.InitPaymentResponse, error) {
		return c.client.InitPayment(ctx, t, r)
	})
}

// StatusPayment is paymentsvc.Client.StatusPayment.
func (c *Calls) StatusPayment(ctx context.Context, r paymentsvc.StatusPaymentRequest) (*paymentsvc.StatusResponse, error) {
	return call(ctx, c.tracer, "status_payment", r.UserData, func(ctx context.Context) (*paymentsvc.StatusResponse, error) {
		return c.client.StatusPayment(ctx, r)
	})
}

// InitPayout is paymentsvc.Client.InitPayout.
func (c *Calls) InitPayout(ctx context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
	return call(ctx, c.tracer, "init_payout", r.UserData, func(ctx context.Context) (*paymentsvc.InitPayoutResponse, error) {
		return c.client.InitPayout(ctx, r)
	})
}

// StatusPayout is paymentsvc.Client.StatusPayout.
func (c *Calls) StatusPayout(ctx context.Context, r paymentsvc.StatusPayoutRequest) (*paymentsvc.StatusResponse, error) {
	return call(ctx, c.tracer, "status_payout", "", func(ctx context.Context) (*paymentsvc.StatusResponse, error) {
		return c.client.StatusPayout(ctx, r)
	})
}

// GetBalance is paymentsvc.Client.GetBalance.
func (c *Calls) GetBalance(ctx context.Context) (*paymentsvc.Balance, error) {
	return call(ctx, c.tracer, "get_balance", "", c.client.GetBalance)
}

func call[R any](ctx context.Context, tracer trace.Tracer, name, userData string, do func(context.Context) (R, error)) (R, error) {
	ctx, span := tracer.Start(ctx, name, trace.WithAttributes(attribute.String("user_data", userData)))
	defer span.End()
	answer, err := do(ctx)
	if err != nil {
		span.SetAttributes(attribute.String("outcome", paymentsvc.OutcomeOf(err).String()))
		span.SetStatus(codes.Error, err.Error()) // which holds nothing of a body
	}
	return answer, err
}
