package frameworks_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
	"github.com/paymentsvc/paymentsvc/tools/compat/frameworks/measured"
	"github.com/paymentsvc/paymentsvc/tools/compat/frameworks/traced"
)

// telemetry has the registry, the spans and the log of the page's code.
type telemetry struct {
	registry *prometheus.Registry
	spans    *tracetest.InMemoryExporter
	traces   *sdktrace.TracerProvider
	log      bytes.Buffer
	client   *paymentsvc.Client
}

func newTelemetry(t *testing.T, srv *paymentsvctest.Server) *telemetry {
	o := &telemetry{registry: prometheus.NewRegistry(), spans: tracetest.NewInMemoryExporter()}
	o.traces = sdktrace.NewTracerProvider(sdktrace.WithSyncer(o.spans))
	attempts, err := measured.NewAttempts(o.registry, slog.New(slog.NewJSONHandler(&o.log, nil)))
	require.NoError(t, err)
	cfg := srv.ClientConfig(42)
	cfg.Retry = paymentsvc.Retry{MaxAttempts: 2, BaseDelay: time.Millisecond}
	cfg.OnAttempt = attempts.OnAttempt
	o.client, err = traced.NewClient(cfg, srv.HTTPClient().Transport.(*http.Transport), o.traces)
	require.NoError(t, err)
	return o
}

// text returns the metrics in the format of Prometheus, the spans with all attributes, and the log.
func (o *telemetry) text(t *testing.T) (metrics, spans, log string) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	promhttp.HandlerFor(o.registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	for _, s := range o.spans.GetSpans() {
		spans += fmt.Sprintf("%s %v %v %s\n", s.Name, s.Attributes, s.Events, s.Status.Description)
	}
	return w.Body.String(), spans, o.log.String()
}

func TestTelemetryShowsOutcomesAndNothingSecret(t *testing.T) {
	const number, destination, cvc = "4111111111111111", "+1-202-555-0143", "cvc-737"
	const echo = `{"error_code":"` + number + `","error_message":"` + destination + " " + cvc + `"}`
	for _, test := range []struct {
		fault                  paymentsvctest.Fault
		outcome, class, second string // second is the outcome of a second attempt
	}{
		{paymentsvctest.Refuse(), "not sent", "none", "success"},
		{paymentsvctest.Drop(paymentsvctest.AfterCommit), "unknown", "none", ""},
		{paymentsvctest.BadGateway(paymentsvctest.AfterCommit), "unknown", "5xx", ""},
		{paymentsvctest.Reject(http.StatusPaymentRequired, number, destination+" "+cvc), "rejected", "4xx", ""},
		{
			paymentsvctest.Answer(paymentsvctest.AfterCommit, http.StatusForbidden, "application/json", echo),
			"rejected", "4xx", "",
		},
		{
			paymentsvctest.Answer(paymentsvctest.AfterCommit, http.StatusOK, "text/html", "<p>"+number),
			"unknown", "2xx", "",
		},
	} {
		t.Run(test.fault.String(), func(t *testing.T) {
			srv, _ := newService(t)
			o := newTelemetry(t, srv)
			srv.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(1), test.fault)
			srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), test.fault)
			payOut := func(ctx context.Context) (*paymentsvc.InitPayoutResponse, error) {
				return o.client.InitPayout(ctx, paymentsvc.PayoutRequest{
					Amount: paymentsvc.MustParseAmount("10.50"), Destination: destination, UserData: "payout-1",
				})
			}
			_, err := traced.Call(t.Context(), o.traces, "pay out", payOut)
			assert.Equal(t, test.second == "", err != nil, err)
			_, err = o.client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
				Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-2",
				CardData: map[string]string{"number": number, "cvc": cvc},
			})
			assert.Equal(t, test.second == "", err != nil, err)

			metrics, spans, log := o.text(t)
			labels := fmt.Sprintf(`{endpoint="init_payout",outcome=%q`, test.outcome)
			assert.Contains(t, metrics, "payment_attempts_total"+labels+fmt.Sprintf(`,status=%q} 1`, test.class))
			assert.Contains(t, metrics, "payment_attempt_duration_seconds_count"+labels+"} 1")
			last := test.outcome
			if test.second != "" {
				last = test.second
			}
			assert.Contains(t, spans, fmt.Sprintf(`pay out [{"outcome":%q}]`, last))
			assert.Contains(t, spans, "init_payout")
			assert.Contains(t, log, fmt.Sprintf(`"outcome":%q`, test.outcome))
			for _, hidden := range []string{string(secret), number, number[:6], destination, cvc} {
				assert.NotContains(t, metrics+spans+log, hidden)
			}
		})
	}
}

// TestSpansDoNotQuoteResponses covers responses that repeat the request, because the errors of net/http quote them.
func TestSpansDoNotQuoteResponses(t *testing.T) {
	srv, _ := newService(t)
	o := newTelemetry(t, srv)
	answers := 0
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		conn, _, err := http.NewResponseController(w).Hijack()
		assert.NoError(t, err)
		answers++
		if answers == 2 { // in the trailer of a body
			_, err = conn.Write([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"))
			body = append(bytes.ReplaceAll(body, []byte(":"), nil), "\r\n\r"...)
		}
		assert.NoError(t, err)
		_, err = conn.Write(append(body, '\n'))
		assert.NoError(t, err)
		assert.NoError(t, conn.Close())
	}))
	t.Cleanup(echo.Close)
	cfg := srv.ClientConfig(42)
	cfg.BaseURL = echo.URL
	client, err := traced.NewClient(cfg, paymentsvc.NewTransport(), o.traces)
	require.NoError(t, err)
	for _, want := range []string{`malformed HTTP response "…"`, "malformed header in the response"} {
		_, err = client.InitPayout(t.Context(), paymentsvc.PayoutRequest{
			Amount: paymentsvc.MustParseAmount("10.50"), Destination: "4111111111111111", UserData: "payout-1",
		})
		require.ErrorContains(t, err, want)
	}
	_, spans, _ := o.text(t)
	assert.Equal(t, 2, strings.Count(spans, "no complete response: see the span of the call"))
	assert.NotContains(t, spans, "4111")
}

// TestTheServiceSeesNoTraceparent sets a global propagator, with which otelhttp alone sends a traceparent.
func TestTheServiceSeesNoTraceparent(t *testing.T) {
	before := otel.GetTextMapPropagator()
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	srv, _ := newService(t)
	traces := newTelemetry(t, srv).traces
	seen := make(chan http.Header, 1)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	defer silent.Close()
	cfg := srv.ClientConfig(42)
	cfg.BaseURL, cfg.Retry.MaxAttempts = silent.URL, 1
	page, err := traced.NewClient(cfg, paymentsvc.NewTransport(), traces)
	require.NoError(t, err)
	cfg.HTTPClient = &http.Client{
		Transport: otelhttp.NewTransport(paymentsvc.NewTransport(), otelhttp.WithTracerProvider(traces)),
	}
	plain, err := paymentsvc.NewClient(cfg)
	require.NoError(t, err)
	for client, want := range map[*paymentsvc.Client]bool{page: false, plain: true} {
		_, err := client.GetBalance(t.Context())
		require.ErrorIs(t, err, paymentsvc.ErrUnexpectedResponse)
		assert.Equal(t, want, (<-seen).Get("Traceparent") != "")
		client.CloseIdleConnections()
	}
}

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
	_, err = store.Pay(ctx, durable.NewPayment{Key: "basket", Type: paymentsvc.PaymentTypeCard, Amount: amount})
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
