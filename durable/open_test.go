package durable

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
)

func held(t *testing.T, s *Store) bool {
	t.Helper()
	return status(t, s).Hold
}

// older makes a database look like an older copy.
func older(t *testing.T, db database) {
	t.Helper()
	if !db.SQLite {
		db.Exec(t, `UPDATE durable_control SET timeline = '000000AA'`)
		return
	}
	db.Exec(t, `UPDATE durable_mark SET mark = 0`)
}

// A backup that is restored to another directory has no witness there, and a new database has none yet.
func TestOpenHoldsABackupRestoredElsewhere(t *testing.T) {
	db, backup := sqlite(t), filepath.Join(t.TempDir(), "backup.db")
	s := openStore(t, db, Config{})
	assert.False(t, held(t, s))
	assert.False(t, held(t, openStore(t, db, Config{})), "opened again, before any round")
	require.NoError(t, s.Ready(t.Context()))
	db.Exec(t, `VACUUM INTO '`+backup+`'`)
	restored := migrated(t, dbtest.Open(t, backup))
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
		if db.SQLite {
			full = `CREATE TRIGGER full_disk BEFORE UPDATE OF hold ON durable_control
				BEGIN SELECT RAISE(FAIL, 'disk is full'); END`
		}
		db.Exec(t, full)
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
				if broken && !db.SQLite {
					_, _ = tx.ExecContext(ctx, `SELECT 1 / 0`)
				}
				return nil
			},
		})
		for _, panics = range []bool{false, true} {
			q := queue(t, s, payouts(map[bool]string{true: "b", false: "a"}[panics], 1)...)
			runBatch(t, s, nil)
			assert.Equal(t, StateRejected, get(t, s, q[0].UserData).State)
		}
		db.Exec(t, `UPDATE durable_events_due SET due_at = 0`)
		err := s.Sweep(t.Context())
		require.ErrorContains(t, err, "panic of type string")
		assert.NotContains(t, err.Error(), "secret")
		broken, panics, called = false, false, 0
		db.Exec(t, `UPDATE durable_events_due SET due_at = 0`)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, map[Dialect]int{SQLite: 1, PostgreSQL: 2}[dialect(db)], called)
	})
}
