package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver
)

// Postgres creates an empty database on the server in TEST_DATABASE_URL, drops it after the test, and returns its
// address. Without this variable, which .ci/postgres sets, it skips the test.
func Postgres(t testing.TB) string {
	t.Helper()
	server, err := url.Parse(os.Getenv("TEST_DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	if *server == (url.URL{}) {
		t.Skip("no PostgreSQL: TEST_DATABASE_URL is not set. Run the tests with .ci/postgres go -C durable test ./...")
	}
	admin, err := sql.Open("pgx", server.String())
	if err != nil {
		t.Fatal(err)
	}
	name := "test_" + strings.ToLower(rand.Text())
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if _, err := admin.ExecContext(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		_ = admin.Close()
	})
	server.Path = "/" + name
	return server.String()
}
