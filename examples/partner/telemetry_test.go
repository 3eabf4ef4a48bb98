package main

import (
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/paymentsvc/paymentsvc"
)

// scraped returns the gauges of a response as Prometheus reads them, by name and labels.
func scraped(t *testing.T, h http.Handler) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, expfmt.TypeTextPlain, expfmt.ResponseFormat(w.Header()).FormatType())
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	require.NoError(t, err)
	gauges := map[string]float64{}
	for name, family := range families {
		if family.GetType() != dto.MetricType_GAUGE || family.GetHelp() == "" || name == "target_info" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetValue() != "" { // an empty label is no label
					name += " " + label.GetName() + "=" + label.GetValue()
				}
			}
			gauges[name], name = m.GetGauge().GetValue(), family.GetName()
		}
	}
	return gauges
}

func TestSpanCoversACallUntilItsOutcomeIsRecorded(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	measure, err := newTelemetry(t.Context(), false, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	measure.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("")
	for _, lost := range []error{nil, &paymentsvc.Error{Endpoint: "init_payout"}} {
		ctx, end := measure.Hooks().Trace(t.Context(), "init_payout", "a user_data")
		assert.True(t, trace.SpanContextFromContext(ctx).IsValid(), "the request is a part of the span")
		end(lost)
	}
	ended := spans.Ended()
	require.Len(t, ended, 2)
	for _, span := range ended {
		assert.Equal(t, "init_payout", span.Name())
		assert.Contains(t, span.Attributes(), attribute.String("user_data", "a user_data"))
	}
	assert.Equal(t, []codes.Code{codes.Unset, codes.Error}, []codes.Code{ended[0].Status().Code, ended[1].Status().Code})
	assert.Contains(t, ended[1].Attributes(), attribute.String("outcome", "unknown"))
}

// TestGaugesAreEqualInPrometheusAndOpenTelemetry reads both with Prometheus's own parser.
func TestGaugesAreEqualInPrometheusAndOpenTelemetry(t *testing.T) {
	service := startService(t)
	database := filepath.Join(t.TempDir(), "partner.db")
	flags := serviceFlags(t, service.URL, database)
	p := open(t, flags...)
	_, err := p.store.HoldPayouts(t.Context(), "ada", "a restore")
	require.NoError(t, err)
	require.NoError(t, p.importDemo(t.Context()))

	own, theirs := scraped(t, http.HandlerFunc(p.store.ServeMetrics)), scraped(t, p.measure.Handler())
	assert.Greater(t, len(own), 40)
	assert.InDelta(t, 1, own["durable_hold"], 0)
	assert.InDelta(t, 40, own["durable_held kind=payout"], 0)
	assert.InDelta(t, 40, own["durable_rows kind=payout state=created"], 0)
	assert.Contains(t, own, "durable_rows_age_seconds kind=payout state=created")
	for name := range own {
		require.Contains(t, theirs, name)
	}
	assert.Len(t, theirs, len(own))

	page, err := os.ReadFile("../../docs/deployment.md")
	require.NoError(t, err)
	alert := regexp.MustCompile("(?m)^\\|[^|]+\\| `(?:max_over_time\\()?(durable_\\w+).*$")
	alerts := alert.FindAllStringSubmatch(string(page), -1)
	assert.Len(t, alerts, 5)
	names := strings.Join(slices.Collect(maps.Keys(own)), "\n")
	for _, alert := range alerts {
		assert.Regexp(t, "(?m)^"+alert[1]+"( |$)", names)
	}
}
