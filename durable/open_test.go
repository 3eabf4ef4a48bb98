package durable

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func held(t *testing.T, s *Store) bool {
	t.Helper()
	status, err := s.Status(t.Context())
	require.NoError(t, err)
	return status.Hold
}

// older makes a database look like an older copy.
func older(t *testing.T, db database) {
	t.Helper()
	if db.dialect == PostgreSQL {
		exec(t, db, `UPDATE durable_control SET timeline = '000000AA'`)
		return
	}
	exec(t, db, `UPDATE durable_mark SET mark = 0`)
}

// A backup that is restored to another directory has no witness there, and a new database has none yet.
func TestOpenHoldsABackupRestoredElsewhere(t *testing.T) {
	db, backup := sqlite(t), filepath.Join(t.TempDir(), "backup.db")
	s := openStore(t, db, Config{})
	assert.False(t, held(t, s))
	assert.False(t, held(t, openStore(t, db, Config{})), "opened again, before any round")
	require.NoError(t, s.Ready(t.Context()))
	_, err := db.ExecContext(t.Context(), `VACUUM INTO '`+backup+`'`)
	require.NoError(t, err)
	restored := opened(t, SQLite, "file:"+backup+pragmas)
	s = openStore(t, restored, Config{})
	assert.True(t, held(t, s))
	require.NoError(t, s.EndHold(t.Context(), "person"))
	assert.False(t, held(t, openStore(t, restored, Config{})), "held once")
}

func TestOpenFailsIfItCannotHold(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		openStore(t, db, Config{})
		older(t, db)
		full := `ALTER TABLE durable_control ADD CHECK (hold = 0)`
		if db.dialect == SQLite {
			full = `CREATE TRIGGER full_disk BEFORE UPDATE OF hold ON durable_control
				BEGIN SELECT RAISE(FAIL, 'disk is full'); END`
		}
		exec(t, db, full)
		_, err := Open(t.Context(), db.DB, config(Config{}))
		require.ErrorContains(t, err, "cannot hold payouts")
	})
}

// OnChange may ignore an error after which PostgreSQL rejects all statements, and it may panic.
func TestOnChangeThatBreaksIsRepeated(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		broken, panics, called := true, false, 0
		s := openStore(t, db, Config{
			Service: &service{before: func(int, string) error { return refused(422, "no") }},
			OnChange: func(ctx context.Context, tx *sql.Tx, _ Event) error {
				called++
				if panics {
					panic("secret")
				}
				if broken && db.dialect == PostgreSQL {
					_, _ = tx.ExecContext(ctx, `SELECT 1 / 0`)
				}
				return nil
			},
		})
		for _, panics = range []bool{false, true} {
			q := queue(t, s, payouts(map[bool]string{true: "b", false: "a"}[panics], 1)...)
			_, err := s.RunBatch(t.Context(), BatchLimit{})
			require.NoError(t, err)
			assert.Equal(t, StateRejected, get(t, s, q[0].UserData).State)
		}
		_, err := db.ExecContext(t.Context(), `UPDATE durable_events_due SET due_at = 0`)
		require.NoError(t, err)
		err = s.Sweep(t.Context())
		require.ErrorContains(t, err, "panic of type string")
		assert.NotContains(t, err.Error(), "secret")
		broken, panics, called = false, false, 0
		_, err = db.ExecContext(t.Context(), `UPDATE durable_events_due SET due_at = 0`)
		require.NoError(t, err)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, map[Dialect]int{SQLite: 1, PostgreSQL: 2}[db.dialect], called)
	})
}
