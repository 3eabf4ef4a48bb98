package kills

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable"
)

// moment is a copy of all rows, at a step of a payout.
type moment struct {
	step durable.Step
	mark int
	rows map[string][][]any // by statement that inserts a row
}

var copied = []string{
	"durable_control", "durable_mark", "durable_rows", "durable_queue", "durable_claims", "durable_orders",
	"durable_notifications", "durable_decisions", "durable_events_due", "durable_batches", "test_changes", "test_files",
}

// copyRows copies the rows of all tables in one transaction.
func copyRows(t *testing.T, db database, step durable.Step) moment {
	t.Helper()
	m := moment{step: step, mark: db.number(t, `SELECT mark FROM durable_mark`), rows: map[string][][]any{}}
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	for _, table := range copied {
		names := columns(t, db, tx, table)
		insert := `INSERT INTO ` + table + ` (` + strings.Join(names, ", ") + `) VALUES (` +
			strings.Repeat(", ?", len(names))[2:] + `)`
		rows, err := tx.QueryContext(t.Context(), `SELECT `+strings.Join(names, ", ")+` FROM `+table)
		require.NoError(t, err)
		for rows.Next() {
			values, into := make([]any, len(names)), make([]any, len(names))
			for i := range values {
				into[i] = &values[i]
			}
			require.NoError(t, rows.Scan(into...))
			m.rows[insert] = append(m.rows[insert], values)
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
	}
	return m
}

// columns returns the columns of a table without generated ones.
func columns(t *testing.T, db database, tx *sql.Tx, table string) (names []string) {
	t.Helper()
	query := `SELECT name FROM pragma_table_info('` + table + `')`
	if strings.HasPrefix(db.address, "postgres:") {
		query = `SELECT attname FROM pg_attribute WHERE attrelid = '` + table + `'::REGCLASS AND attnum > 0 AND attgenerated = ''`
	}
	rows, err := tx.QueryContext(t.Context(), query)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		names = append(names, name)
	}
	require.NoError(t, rows.Err())
	return names
}

// restore puts the rows of a moment in the place of the present ones.
func (m moment) restore(t *testing.T, db database) {
	t.Helper()
	for _, table := range copied {
		db.exec(t, `DELETE FROM `+table)
	}
	for _, insert := range slices.Sorted(maps.Keys(m.rows)) {
		for _, values := range m.rows[insert] {
			statement := insert
			if strings.HasPrefix(db.address, "postgres:") {
				statement = numbered(insert)
			}
			_, err := db.ExecContext(t.Context(), statement, values...)
			require.NoError(t, err, insert)
		}
	}
}

// numbered writes the parameters of a statement for PostgreSQL.
func numbered(statement string) string {
	for n := 1; strings.Contains(statement, "?"); n++ {
		statement = strings.Replace(statement, "?", "$"+string(rune('0'+n/10))+string(rune('0'+n%10)), 1)
	}
	return statement
}

// A restore of the rows to any moment, while all processes are stopped, sends nothing again. The rows alone are restored,
// so the mark is the only evidence.
func TestRestoreToAnyMomentSendsNothingAgain(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		service, moments := newService(t), []moment(nil)
		db.witness = filepath.Join(t.TempDir(), "witness")
		slow := func(c *durable.Config) { c.Slots = 1 }
		store := open(t, db, service.URL, time.Minute, slow, func(c *durable.Config) {
			c.Hooks.Step = func(step durable.Step) { moments = append(moments, copyRows(t, db, step)) }
		})
		const payouts = 5
		addMany(t, db, store, "a", payouts)
		n, err := store.RunBatch(t.Context(), durable.BatchLimit{})
		require.NoError(t, err)
		require.Equal(t, payouts, n)
		require.GreaterOrEqual(t, len(moments), 4*payouts)
		holds := map[bool]int{}
		for _, m := range slices.Backward(moments) {
			before := load(t, durable.FileWitness(db.witness))
			m.restore(t, db)
			store = open(t, db, service.URL, time.Minute, slow)
			held := db.number(t, `SELECT hold FROM durable_control`) == 1
			assert.Equal(t, m.mark < before, held, m.step)
			holds[held]++
			waiting := db.number(t, `SELECT COUNT(*) FROM durable_queue`)
			_, err := store.RunBatch(t.Context(), durable.BatchLimit{})
			if waiting > 0 {
				require.ErrorIs(t, err, durable.ErrHeld, m.step)
			}
			require.Len(t, service.Orders(), payouts, m.step)
		}
		assert.Positive(t, holds[false], "the newest moments have lost nothing")
		assert.GreaterOrEqual(t, holds[true], 3*payouts)
	})
}

func load(t *testing.T, w durable.Witness) int {
	t.Helper()
	mark, err := w.Load(t.Context())
	require.NoError(t, err)
	return int(mark)
}

// failing is a witness that fails while down is set.
type failing struct {
	durable.Witness
	down *atomic.Bool
}

func (f failing) Save(ctx context.Context, mark int64) error {
	if f.down.Load() {
		return errors.New("the witness is unavailable")
	}
	return f.Witness.Save(ctx, mark)
}

func TestNoCallBeginsWithoutTheWitness(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		service, down := newService(t), &atomic.Bool{}
		store := open(t, db, service.URL, time.Minute, func(c *durable.Config) {
			c.Witness = failing{durable.FileWitness(filepath.Join(t.TempDir(), "witness")), down}
		})
		down.Store(true)
		addMany(t, db, store, "a", 20)
		_, err := store.RunBatch(t.Context(), durable.BatchLimit{})
		require.ErrorContains(t, err, "the witness is unavailable")
		assert.Empty(t, service.Orders())
		stop := run(t, store)
		eventually(t, func() bool { return db.number(t, `SELECT COUNT(*) FROM durable_queue`) == 20 }) // released
		assert.Empty(t, service.Orders())
		down.Store(false)
		eventually(t, func() bool { return len(service.Orders()) == 20 })
		stop()
		assert.Zero(t, db.number(t, `SELECT hold FROM durable_control`))
		_, payouts := finish(t, db, open(t, db, service.URL, time.Minute), service)
		assert.Zero(t, payouts, "unknown")
	})
}

func TestPoolerIsRejectedWithTheParameterToSet(t *testing.T) {
	db := postgres(t)
	through := pooled(t, db)
	fsync := db.number(t, `SELECT COUNT(*) FROM pg_settings WHERE name = 'fsync' AND setting = 'on'`) == 1
	if !fsync {
		t.Skip("the server has fsync off, which Open rejects first")
	}
	for suffix, safe := range map[string]bool{"": false, "&default_query_exec_mode=exec": true} {
		pool, err := sql.Open("pgx", strings.Split(through.address, "&default")[0]+suffix)
		require.NoError(t, err)
		client, err := newClient("http://127.0.0.1:1")
		require.NoError(t, err)
		c := config(client, time.Minute, db.witness)
		c.AllowUnsafeDatabase = false
		_, err = durable.Open(t.Context(), pool, c)
		if safe {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, durable.ErrUnsafeDatabase)
			require.ErrorContains(t, err, "default_query_exec_mode=exec")
		}
		require.NoError(t, pool.Close())
	}
}
