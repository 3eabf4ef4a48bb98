package recognize

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
)

func TestUnsafeNamesASettingOfSQLite(t *testing.T) {
	path := "file:" + filepath.Join(t.TempDir(), "test.db")
	for pragmas, want := range map[string]string{
		"busy_timeout(10000) journal_mode(WAL) synchronous(FULL)":    "",
		"journal_mode(WAL) synchronous(FULL)":                        "busy_timeout is 0, want at least 1000",
		"busy_timeout(999) journal_mode(WAL) synchronous(FULL)":      "busy_timeout is 999, want at least 1000",
		"busy_timeout(10000) journal_mode(WAL) synchronous(NORMAL)":  `synchronous is "1", want 2 or 3`,
		"busy_timeout(10000) journal_mode(DELETE) synchronous(FULL)": `journal_mode is "delete", want wal`,
	} {
		pragmas = "?_pragma=" + strings.ReplaceAll(pragmas, " ", "&_pragma=")
		db, err := sql.Open("sqlite", path+pragmas)
		require.NoError(t, err)
		problem, err := Unsafe(t.Context(), db, true, false)
		require.NoError(t, err)
		assert.Contains(t, problem, "SetMaxOpenConns(1)")
		db.SetMaxOpenConns(1)
		problem, err = Unsafe(t.Context(), db, true, false)
		require.NoError(t, err)
		assert.Equal(t, want, problem)
		require.NoError(t, db.Close())
	}
}

func TestUnsafeNamesASettingOfPostgreSQL(t *testing.T) {
	server := postgres(t)
	safe := ""
	if server.Number(t, `SELECT COUNT(*) FROM pg_settings WHERE name = 'fsync' AND setting = 'off'`) == 1 {
		safe = `fsync is "off", want on`
	}
	const local = `synchronous_commit is "local", want on or remote_write or remote_apply`
	for name, want := range map[string]string{
		"synchronous_commit=off":                     strings.Replace(local, "local", "off", 1) + " or local",
		"default_transaction_isolation=serializable": `default_transaction_isolation is "serializable", want read committed`,
		"default_transaction_read_only=on":           `default_transaction_read_only is "on", want off`,
		"synchronous_commit=local":                   safe,
	} {
		db := dbtest.Open(t, server.Address+"&"+name)
		problem, err := Unsafe(t.Context(), db.DB, false, false)
		require.NoError(t, err)
		assert.Equal(t, want, problem)
		problem, err = Unsafe(t.Context(), db.DB, false, true)
		require.NoError(t, err)
		if name == "synchronous_commit=local" {
			want = local
		}
		assert.Contains(t, problem+" or local", want)
	}
	server.SetMaxOpenConns(1)
	problem, err := Unsafe(t.Context(), server.DB, false, false)
	require.NoError(t, err)
	assert.Equal(t, "PostgreSQL with 1 connection, want SetMaxOpenConns(2) or more, so that Open finds a pooler", problem)
}

// The server has ended the sessions of the pool, as its restart does.
func TestOpenSkipsBrokenConnections(t *testing.T) {
	server := postgres(t)
	db := dbtest.Open(t, server.Address)
	db.SetMaxIdleConns(5)
	for _, f := range []func() error{
		func() error { _, err := Pooler(t.Context(), db.DB); return err },
		func() error { _, err := guard(t, db, nil); return err },
	} {
		for range 2 { // the driver tests a connection only at its first reuse, and after an idle second
			var conns [5]*sql.Conn
			for i := range conns {
				var err error
				conns[i], err = db.Conn(t.Context())
				require.NoError(t, err)
			}
			for _, conn := range conns {
				require.NoError(t, conn.Close())
			}
		}
		require.Equal(t, 5, server.Number(t, `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`))
		require.NoError(t, f())
	}
}

func TestPoolerThatLosesPreparedStatementsIsFound(t *testing.T) {
	server := postgres(t)
	address := dbtest.StartPooler(t, server.Address)
	for mode, want := range map[string]string{
		"": mixed, "cache_statement": mixed, "describe_exec": mixed, "exec": "", "cache_describe": "", "simple_protocol": "",
	} {
		t.Run(mode, func(t *testing.T) {
			suffix := ""
			if mode != "" {
				suffix = "&default_query_exec_mode=" + mode
			}
			for range 3 { // sessions of the server have statements of other clients by now
				db := dbtest.Open(t, address+suffix)
				problem, err := Pooler(t.Context(), db.DB)
				require.NoError(t, err)
				assert.Equal(t, want, problem)
				problem, err = Pooler(t.Context(), dbtest.Open(t, server.Address+suffix).DB)
				require.NoError(t, err)
				assert.Empty(t, problem, "without a pooler")
			}
		})
	}
}
