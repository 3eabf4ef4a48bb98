package recognize

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
)

func TestUnsafeNamesASettingOfSQLite(t *testing.T) {
	path := "file:" + filepath.Join(t.TempDir(), "test.db")
	for pragmas, want := range map[string]string{
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)":    "",
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)":                                "busy_timeout is 0, want at least 1000",
		"?_pragma=busy_timeout(999)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)":      "busy_timeout is 999, want at least 1000",
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)":  `synchronous is "1", want 2 or 3`,
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(DELETE)&_pragma=synchronous(FULL)": `journal_mode is "delete", want wal`,
	} {
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
	if server.number(t, `SELECT COUNT(*) FROM pg_settings WHERE name = 'fsync' AND setting = 'off'`) == 1 {
		safe = `fsync is "off", want on`
	}
	for name, want := range map[string]string{
		"synchronous_commit=off":                     `synchronous_commit is "off", want on or remote_write or remote_apply or local`,
		"default_transaction_isolation=serializable": `default_transaction_isolation is "serializable", want read committed`,
		"default_transaction_read_only=on":           `default_transaction_read_only is "on", want off`,
		"synchronous_commit=local":                   safe,
	} {
		db := connect(t, server.address+"&"+name)
		problem, err := Unsafe(t.Context(), db.DB, false, false)
		require.NoError(t, err)
		assert.Equal(t, want, problem)
		problem, err = Unsafe(t.Context(), db.DB, false, true)
		require.NoError(t, err)
		if name == "synchronous_commit=local" {
			want = `synchronous_commit is "local", want on or remote_write or remote_apply`
		}
		assert.Contains(t, problem+" or local", want)
	}
}

func TestUnsafeFindsAPoolerThatLosesPreparedStatements(t *testing.T) {
	server := postgres(t)
	address := dbtest.StartPooler(t, server.address)
	for mode, want := range map[string]string{
		"": mixed, "cache_statement": mixed, "describe_exec": mixed, "exec": "", "cache_describe": "", "simple_protocol": "",
	} {
		t.Run(mode, func(t *testing.T) {
			suffix := ""
			if mode != "" {
				suffix = "&default_query_exec_mode=" + mode
			}
			for range 3 { // sessions of the server have statements of other clients by now
				db := connect(t, address+suffix)
				problem, err := unsafePooler(t.Context(), db.DB)
				require.NoError(t, err)
				assert.Equal(t, want, problem)
				problem, err = unsafePooler(t.Context(), connect(t, server.address+suffix).DB)
				require.NoError(t, err)
				assert.Empty(t, problem, "without a pooler")
			}
		})
	}
}
