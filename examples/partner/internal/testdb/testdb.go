// Package testdb gives tests a database of their own.
package testdb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver
	"github.com/stretchr/testify/require"
)

// Variable names the environment variable with the address of a PostgreSQL server on which databases may be made.
const Variable = "TEST_DATABASE_URL"

// Each runs f with an empty SQLite database and with an empty PostgreSQL database. Without TEST_DATABASE_URL the latter
// is skipped; the script .ci/postgres of this repository sets it.
func Each(t *testing.T, f func(t *testing.T, databaseURL string)) {
	t.Run("SQLite", func(t *testing.T) { f(t, SQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { f(t, Postgres(t)) })
}

// SQLite gives the path of a file that does not exist yet.
func SQLite(t *testing.T) string {
	return filepath.Join(t.TempDir(), "partner.db")
}

// Postgres gives the address of a database of its own, dropped with the test.
func Postgres(t *testing.T) string {
	t.Helper()
	server := os.Getenv(Variable)
	if server == "" {
		t.Skip("no PostgreSQL: " + Variable + " is not set. Run the tests with .ci/postgres go test ./...")
	}
	admin, err := sql.Open("pgx", server)
	require.NoError(t, err)
	name := "test_" + strings.ToLower(rand.Text())
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
		_ = admin.Close()
	})
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}
