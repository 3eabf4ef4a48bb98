package durable

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// metrics returns the response of ServeMetrics.
func metrics(t *testing.T, store *Store) *httptest.ResponseRecorder {
	t.Helper()
	w, mux := httptest.NewRecorder(), http.NewServeMux()
	mux.HandleFunc("GET /metrics", store.ServeMetrics)
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w
}

func TestGaugesAreCountsAgesPauseAndHold(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s, clock := openClocked(t, db, Config{PendingReview: time.Hour})
		empty, err := s.Gauges(t.Context())
		require.NoError(t, err)
		for _, g := range empty {
			assert.Zero(t, g.Value, g.Name)
		}
		send(t, s, payouts("sent", 2)...)
		setClock(t, db, clock.Now().Add(2*time.Hour))
		hold(t, s)
		require.NoError(t, s.Pause(t.Context(), "ada", "a reason"))
		queue(t, s, payouts("held", 1)...)
		gauges, err := s.Gauges(t.Context())
		require.NoError(t, err)
		require.Len(t, gauges, len(empty))
		set := map[string]float64{}
		for i, g := range gauges {
			assert.Equal(t, empty[i].Name, g.Name)
			if g.Value != 0 {
				set[g.Name+" "+string(g.Kind)+" "+string(g.State)] = g.Value
			}
		}
		assert.Equal(t, map[string]float64{
			"durable.hold  ": 1, "durable.paused  ": 1, "durable.held payout ": 1, "durable.rows payout created": 1,
			"durable.rows payout pending": 2, "durable.rows.age payout pending": 7200,
			"durable.review payout ": 2, "durable.review.age payout ": 7200,
			"durable.overdue payout ": 2, "durable.overdue.age payout ": 7200,
		}, set)
	})
}

func TestServeMetricsWritesGroupsWithoutSecrets(t *testing.T) {
	db := sqlite(t)
	s := openStore(t, db, Config{})
	queued := queue(t, s, payouts("p", 1)...)
	w := metrics(t, s)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, "text/plain; version=0.0.4; charset=utf-8", w.Header().Get("Content-Type"))
	assert.Contains(t, w.Body.String(), `
# HELP durable_paused 1 during a pause.
# TYPE durable_paused gauge
durable_paused 0
`)
	for _, hidden := range []string{"4111", queued[0].Reference, queued[0].UserData} {
		assert.NotContains(t, w.Body.String(), hidden)
	}
	require.NoError(t, db.Close())
	assert.Equal(t, http.StatusServiceUnavailable, metrics(t, s).Code)
}
