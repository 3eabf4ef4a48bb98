package frameworks_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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

	"github.com/paymentsvc/paymentsvc"
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

// text returns the metrics as Prometheus reads them, the spans with all attributes, and the log.
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
		outcome, class, second string // second is the outcome of the second attempt
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

// If a response repeats the request, net/http quotes it in an error, and otelhttp writes the error to the span.
func TestSpansDoNotQuoteAnswers(t *testing.T) {
	srv, _ := newService(t)
	o := newTelemetry(t, srv)
	answers := 0
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		conn, _, err := http.NewResponseController(w).Hijack()
		assert.NoError(t, err)
		if answers++; answers == 2 { // in the trailer of a body
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
	for _, want := range []string{`malformed HTTP response "…"`, "malformed header in the answer"} {
		_, err = client.InitPayout(t.Context(), paymentsvc.PayoutRequest{
			Amount: paymentsvc.MustParseAmount("10.50"), Destination: "4111111111111111", UserData: "payout-1",
		})
		require.ErrorContains(t, err, want)
	}
	_, spans, _ := o.text(t)
	assert.Equal(t, 2, strings.Count(spans, "no complete response: see the span of the call"))
	assert.NotContains(t, spans, "4111")
}

// The page's client sends no traceparent, also with a global propagator. otelhttp would send it.
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
