package store

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
)

func TestWhatIsCountedAndToldIsFoundByIndexes(t *testing.T) {
	s, err := Open(t.Context(), Options{URL: testdb.SQLite(t)})
	require.NoError(t, err)
	defer s.Close()
	for _, query := range []string{countsOf(Orders), countsOf(Payouts), toldOf(Orders), toldOf(Payouts)} {
		steps := plan(t, s, query)
		require.NotEmpty(t, steps)
		for _, step := range steps {
			// A count goes through a covering index, or that of what needs a person, from end to end.
			assert.True(t, !strings.HasPrefix(step, "SCAN") || strings.Contains(step, "COVERING INDEX") ||
				strings.Contains(step, "_attention"), "%s: %s", query, step)
		}
	}
}

// plan gives the steps that SQLite takes for a query with two parameters.
func plan(t *testing.T, s *Store, query string) (steps []string) {
	t.Helper()
	rows, err := s.db.QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+query, "user_data", "order_id")
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, parent, unused int
		var step string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
		steps = append(steps, step)
	}
	require.NoError(t, rows.Err())
	return steps
}
