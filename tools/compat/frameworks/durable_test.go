package frameworks_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
	"github.com/paymentsvc/paymentsvc/tools/compat/frameworks/traced"
)

// One trace connects a payment, or a claimed payout, with its attempts and its changes of state.
func TestTracesOfDurableConnectCallsAttemptsAndChanges(t *testing.T) {
	srv, _ := newService(t)
	o := newTelemetry(t, srv)
	srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.Refuse())
	srv.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(2), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	const options = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "test.db")+options)
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	require.NoError(t, durable.Migrate(t.Context(), db))
	var shipped trace.SpanContext // the span in OnChange
	store, err := durable.Open(t.Context(), db, durable.Config{
		Service: o.client, Project: "test", AllowUnsafeDatabase: true, Hooks: traced.Hooks(o.traces),
		ChangeStates: []durable.State{durable.StatePending},
		OnChange: func(ctx context.Context, _ *sql.Tx, e durable.Event) error {
			if e.Row.Kind == durable.KindPayment {
				shipped = trace.SpanContextFromContext(ctx)
			}
			return nil
		},
	})
	require.NoError(t, err)

	ctx, checkout := o.traces.Tracer("shop").Start(t.Context(), "checkout")
	amount := paymentsvc.MustParseAmount("10.50")
	_, err = store.Pay(ctx, durable.NewPayment{Type: paymentsvc.PaymentTypeCard, Amount: amount})
	require.NoError(t, err)
	checkout.End()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = store.QueuePayouts(t.Context(), tx,
		durable.NewPayout{Reference: "salary-1", Amount: amount, Destination: "4111111111111111"},
		durable.NewPayout{Reference: "salary-2", Amount: amount, Destination: "4111111111111111"})
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	_, err = store.RunBatch(t.Context(), durable.BatchLimit{})
	require.NoError(t, err)

	spans := map[trace.SpanID]tracetest.SpanStub{}
	for _, s := range o.spans.GetSpans() {
		spans[s.SpanContext.SpanID()] = s
	}
	var calls []string
	payouts := map[trace.TraceID]bool{}
	for _, s := range o.spans.GetSpans() {
		if s.Name == "checkout" {
			continue
		}
		parent, ok := spans[s.Parent.SpanID()]
		switch s.Name {
		case "init_payment":
			assert.Equal(t, "checkout", parent.Name)
			assert.Equal(t, s.SpanContext.SpanID(), shipped.SpanID())
		case "init_payout":
			assert.False(t, s.Parent.IsValid(), "a root")
			payouts[s.SpanContext.TraceID()] = true
		default:
			require.True(t, ok, "the request has a parent")
			assert.Contains(t, []string{"init_payment", "init_payout"}, parent.Name)
			continue
		}
		call := s.Name
		for _, event := range s.Events {
			call += " " + event.Name
			for _, attribute := range event.Attributes {
				if key := string(attribute.Key); key == "outcome" || key == "to" {
					call += "=" + attribute.Value.AsString()
				}
			}
		}
		calls = append(calls, fmt.Sprint(call, " ", s.Status.Code))
	}
	assert.ElementsMatch(t, []string{
		"init_payment attempt=not sent attempt=success change=pending Unset",
		"init_payout attempt=success change=pending Unset",
		"init_payout attempt=unknown change=unknown Error",
	}, calls)
	assert.Len(t, payouts, 2, "a trace per payout")
	_, text, _ := o.text(t)
	assert.NotContains(t, text, "4111")
}
