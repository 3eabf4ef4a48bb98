package durable

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// shape is what a database has: its columns and its indexes.
func shape(t *testing.T, db database) (lines []string) {
	t.Helper()
	query := `SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || COALESCE(column_default, '')
			FROM information_schema.columns WHERE table_name LIKE 'durable%'
		UNION SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'durable%' ORDER BY 1`
	if db.dialect == SQLite {
		query = `SELECT m.name || '.' || c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || COALESCE(c.dflt_value, '')
				FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table'
			UNION SELECT COALESCE(sql, name) FROM sqlite_master WHERE type = 'index' ORDER BY 1`
	}
	rows, err := db.QueryContext(t.Context(), query)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		lines = append(lines, line)
	}
	require.NoError(t, rows.Err())
	return lines
}

func TestMigrateUpgradesRowsInEveryState(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		set := func(statement string) {
			_, err := db.ExecContext(t.Context(), statement)
			require.NoError(t, err, statement)
		}
		want := shape(t, db)
		require.Greater(t, len(want), 60)
		for _, table := range []string{"version", "control", "rows", "notifications", "decisions", "events_due", "batches"} {
			set(`DROP TABLE durable_` + table)
		}
		old, err := os.ReadFile("testdata/schema1.sql")
		require.NoError(t, err)
		for statement := range strings.SplitSeq(strings.ReplaceAll(string(old), "{storage}", ""), ";\n") {
			set(statement)
		}
		require.NotEqual(t, want, shape(t, db))
		_, err = Open(t.Context(), db.DB, config(Config{}))
		require.ErrorIs(t, err, ErrSchema)
		for i, state := range States() {
			for j, kind := range []Kind{KindPayment, KindPayout} {
				set(fmt.Sprintf(`INSERT INTO durable_rows (user_data, kind, reference, amount, state, token, generation, due_at, created_at, updated_at)
					VALUES ('u%[1]d', '%[2]s', 'r%[1]d', '1.50', '%[3]s', 'T', %[4]d, 0, 1, 1)`, 2*i+j, kind, state, j))
			}
		}
		set(`INSERT INTO durable_batches (id, name, created_at) VALUES ('b', 'file', 1)`)
		set(`INSERT INTO durable_notifications (key, event, order_id, user_data, status, status_name, status_code, amount, matched, received_at)
			VALUES ('k', 'refund.status_changed', 'o', 'u8', 1, 'SUCCESS', 1, '1.50', 1, 1)`)
		set(`INSERT INTO durable_events_due (id, user_data, from_state, to_state, refund_key, due_at)
			VALUES ('e', 'u8', 'succeeded', 'succeeded', 'k', 0)`)
		assert.Len(t, Upgrade(db.dialect, 1), 3)
		require.NoError(t, Migrate(t.Context(), db.DB))
		assert.Equal(t, want, shape(t, db))
		require.NoError(t, Migrate(t.Context(), db.DB), "nothing is left to do")
		var refunds []Event
		s := openStore(t, db, Config{OnChange: func(_ context.Context, _ *sql.Tx, e Event) error {
			if e.Refund != nil {
				refunds = append(refunds, e)
			}
			return nil
		}})
		require.NoError(t, s.Sweep(t.Context()))
		require.Len(t, refunds, 1)
		assert.Empty(t, refunds[0].From+refunds[0].To, "code for a state does not run again")
		n := 0
		for r, err := range s.Rows(t.Context(), Filter{}) {
			require.NoError(t, err)
			assert.Equal(t, paymentsvc.MustParseAmount("1.50"), r.Amount)
			n++
		}
		assert.Equal(t, 14, n)
		for b, err := range s.Batches(t.Context()) {
			require.NoError(t, err)
			assert.Zero(t, b.Rejected)
		}
	})
}
