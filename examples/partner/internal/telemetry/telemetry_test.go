package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func newTelemetry(t *testing.T) *Telemetry {
	t.Helper()
	measure, err := New(t.Context(), Config{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, measure.Shutdown(context.Background())) })
	return measure
}

// metrics gives what Prometheus would read.
func metrics(t *testing.T, measure *Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	measure.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}

func startService(t *testing.T) *paymentsvctest.Server {
	t.Helper()
	return paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: 7, Projects: []paymentsvctest.Project{{ID: 42, Secret: "a secret of a test"}},
		Scheme: paymentsvc.Scheme{Canonical: canonical.Body, Encoding: paymentsvc.Hex},
	})
}

// measured is a client of the service through Transport.
func measured(t *testing.T, measure *Telemetry, service *paymentsvctest.Server, trust bool, attempts int) *Calls {
	t.Helper()
	base, ok := service.HTTPClient().Transport.(*http.Transport)
	require.True(t, ok)
	config := service.ClientConfig(42)
	config.HTTPClient = &http.Client{Transport: measure.Transport(base)}
	config.TrustTransport, config.OnAttempt = trust, measure.OnAttempt
	config.Retry = paymentsvc.Retry{MaxAttempts: attempts, BaseDelay: time.Nanosecond}
	client, err := paymentsvc.NewClient(config)
	require.NoError(t, err)
	return measure.Calls(client)
}

func TestAMeasuredTransportProvesWhatWasNotSent(t *testing.T) {
	for _, test := range []struct {
		name     string
		fault    paymentsvctest.Fault
		trust    bool
		attempts int
		want     string // the outcome, "" for a success
		started  int
		measured string // a line of the metrics
	}{
		{
			"a refused connection, tried once", paymentsvctest.Refuse(), true, 1, "not sent", 0,
			`partner_service_attempts_total{attempt="1",endpoint="init_payout",http_status="none",outcome="not sent"} 1`,
		},
		{
			"a refused connection, tried again", paymentsvctest.Refuse(), true, 3, "", 1,
			`partner_service_attempts_total{attempt="2",endpoint="init_payout",http_status="2xx",outcome="success"} 1`,
		},
		{
			"a refused connection without the promise", paymentsvctest.Refuse(), false, 3, "unknown", 0,
			`partner_service_attempts_total{attempt="1",endpoint="init_payout",http_status="none",outcome="unknown"} 1`,
		},
		{
			"an answer that is lost", paymentsvctest.Drop(paymentsvctest.AfterCommit), true, 3, "unknown", 1,
			`partner_service_attempts_total{attempt="1",endpoint="init_payout",http_status="none",outcome="unknown"} 1`,
		},
		{
			"a proxy's error", paymentsvctest.BadGateway(paymentsvctest.AfterCommit), true, 3, "unknown", 1,
			`partner_service_attempts_total{attempt="1",endpoint="init_payout",http_status="5xx",outcome="unknown"} 1`,
		},
		{
			"a refusal", paymentsvctest.Reject(http.StatusUnprocessableEntity, "E1", "no"), true, 3, "rejected", 0,
			`partner_service_attempts_total{attempt="1",endpoint="init_payout",http_status="4xx",outcome="rejected"} 1`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			measure, service := newTelemetry(t), startService(t)
			rule := service.Fault(paymentsvctest.InitPayout, paymentsvctest.First(1), test.fault)
			calls := measured(t, measure, service, test.trust, test.attempts)
			_, err := calls.InitPayout(t.Context(), paymentsvc.PayoutRequest{
				Amount: paymentsvc.MustParseAmount("10.50"), Destination: "4111111111111111", UserData: "payout-1",
			})
			require.Equal(t, 1, rule.Hits())
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.Equal(t, test.want, paymentsvc.OutcomeOf(err).String(), err)
			}
			require.NoError(t, service.Drain(t.Context()))
			service.AssertStarted(t, "payout-1", test.started)
			assert.Contains(t, metrics(t, measure), test.measured+"\n")
		})
	}
}

// headers gives the names of the headers that arrive through client.
func headers(t *testing.T, through func(http.RoundTripper) http.RoundTripper) http.Header {
	t.Helper()
	got := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer server.Close()
	base, ok := server.Client().Transport.(*http.Transport)
	require.True(t, ok)
	resp, err := (&http.Client{Transport: through(base)}).Get(server.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return <-got
}

func TestTheServiceIsToldNothingOfTraces(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	before := otel.GetTextMapPropagator() // what a library would take that is not told
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	measure, err := New(t.Context(), Config{Traces: true, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	// Nobody takes the spans: how the telemetry ends is no matter of this test.
	t.Cleanup(func() { _ = measure.Shutdown(canceled()) })
	plain := headers(t, func(base http.RoundTripper) http.RoundTripper { return base })
	through := headers(t, func(base http.RoundTripper) http.RoundTripper { return measure.Transport(base.(*http.Transport)) })
	require.Equal(t, plain, through)
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestLabelsAreFew(t *testing.T) {
	for endpoint, want := range map[string]string{
		"init_payment/card": "init_payment/card", "init_payment/mc": "init_payment/mc", "get_balance": "get_balance",
		"init_payment/none": "other", "": "other", "get_balance/1": "other",
	} {
		assert.Equal(t, want, endpointLabel(endpoint), endpoint)
	}
	for status, want := range map[int]string{0: "none", 99: "none", 200: "2xx", 307: "3xx", 429: "4xx", 599: "5xx", 600: "none"} {
		assert.Equal(t, want, statusLabel(status), status)
	}
	for number, want := range map[int]string{1: "1", 3: "3", 4: "more", 1000: "more"} {
		assert.Equal(t, want, attemptLabel(number), number)
	}

	measure := newTelemetry(t)
	server := httptest.NewServer(measure.Handle(http.NotFoundHandler()))
	defer server.Close()
	for _, host := range []string{"one.example", "two.example"} {
		r, err := http.NewRequest("ANYTHING", server.URL+"/"+host, nil)
		require.NoError(t, err)
		r.Host = host
		r.Header.Set("User-Agent", host)
		resp, err := server.Client().Do(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	server.Close() // it waits for what is under way
	text := metrics(t, measure)
	assert.Contains(t, text, `http_server_request_duration_seconds_count{http_request_method="_OTHER",http_response_status_code="404"} 2`)
	assert.NotContains(t, text, ".example")
}

func TestStatesAreCountedNowAndThen(t *testing.T) {
	measure := newTelemetry(t)
	counted := 0
	require.NoError(t, measure.WatchStates(time.Hour, func(context.Context) (States, error) {
		counted++
		return States{
			Orders: map[string]int64{"pending": 3}, Payouts: map[string]int64{"unknown": 2}, PayoutsAttention: 2,
		}, nil
	}))
	for range 3 {
		text := metrics(t, measure)
		for _, line := range []string{
			`partner_orders{state="pending"} 3`, `partner_payouts{state="unknown"} 2`,
			`partner_attention{of="orders"} 0`, `partner_attention{of="payouts"} 2`,
		} {
			assert.Contains(t, text, line+"\n")
		}
	}
	require.Equal(t, 1, counted)
}

func TestWhatCannotBeCountedIsNotZero(t *testing.T) {
	measure := newTelemetry(t)
	require.NoError(t, measure.WatchStates(time.Hour, func(context.Context) (States, error) {
		return States{}, errors.New("the database is away")
	}))
	for line := range strings.Lines(metrics(t, measure)) {
		assert.NotContains(t, line, "partner_attention")
	}
}
