package store_test

import (
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
)

func TestParametersAreBoundByTheirNumbers(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		s, err := store.Open(t.Context(), store.Options{URL: databaseURL})
		require.NoError(t, err)
		defer s.Close()
		var second, first string
		err = s.DB().QueryRowContext(t.Context(), `SELECT CAST($2 AS TEXT), CAST($1 AS TEXT)`, "one", "two").Scan(&second, &first)
		require.NoError(t, err)
		assert.Equal(t, "two", second)
		assert.Equal(t, "one", first)
	})
}

func TestProcessesThatStartTogetherShareANewDatabase(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				s, err := store.Open(t.Context(), store.Options{URL: databaseURL})
				if assert.NoError(t, err) {
					defer s.Close()
					_, err = s.DueOrders(t.Context(), store.StateCreated, 1)
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
	})
}

// Under any other isolation a notification and the answer that it waits for could miss each other, and with less
// durable commits a claim could be undone.
func TestPostgresKeepsItsGuaranteesWhateverTheDefaults(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, databaseURL string) string{
		"of the server": func(t *testing.T, databaseURL string) string {
			db, err := sql.Open("pgx", databaseURL)
			require.NoError(t, err)
			defer func() { _ = db.Close() }()
			_, err = db.ExecContext(t.Context(), `DO $$ BEGIN
				EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
				EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
			END $$`)
			require.NoError(t, err)
			return databaseURL
		},
		"of the address": func(t *testing.T, databaseURL string) string {
			return withQuery(t, databaseURL, "default_transaction_isolation", "repeatable read", "synchronous_commit", "off")
		},
		"of its options": func(t *testing.T, databaseURL string) string {
			return withQuery(t, databaseURL, "options", `-c default_transaction_isolation=repeatable\ read -c synchronous_commit=off`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(t.Context(), store.Options{URL: change(t, testdb.Postgres(t))})
			require.NoError(t, err)
			defer s.Close()
			for setting, want := range map[string]string{"transaction_isolation": "read committed", "synchronous_commit": "on"} {
				var got string
				require.NoError(t, s.DB().QueryRowContext(t.Context(), `SHOW `+setting).Scan(&got))
				assert.Equal(t, want, got, setting)
			}
		})
	}
}

func TestTheNumberOfConnectionsIsTheAddresss(t *testing.T) {
	databaseURL := testdb.Postgres(t)
	for query, want := range map[string]int32{"": 10, "3": 3, "40": 40} {
		address := databaseURL
		if query != "" {
			address = withQuery(t, databaseURL, "pool_max_conns", query)
		}
		s, err := store.Open(t.Context(), store.Options{URL: address})
		require.NoError(t, err)
		assert.Equal(t, want, s.Pool().Config().MaxConns)
		s.Close()
	}
}

// withQuery adds pairs of names and values to the query of an address.
func withQuery(t *testing.T, address string, pairs ...string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	query := u.Query()
	for i := 0; i < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // pgx reads a plus as one
	return u.String()
}

func TestAFileOfAnyNameIsTheDatabase(t *testing.T) {
	for _, name := range []string{"a?b.db", "a#b.db", "50%20.db", "a b&c.db", "Kasse-ä.db", "file:x.db", ":x.db"} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for _, file := range []string{name, filepath.Join(t.TempDir(), name)} {
				s, err := store.Open(t.Context(), store.Options{URL: file})
				require.NoError(t, err)
				var mode string
				require.NoError(t, s.DB().QueryRowContext(t.Context(), `PRAGMA journal_mode`).Scan(&mode))
				assert.Equal(t, "wal", mode, "the settings are read")
				s.Close()
				_, err = os.Stat(file)
				assert.NoError(t, err)
			}
		})
	}
}

func TestAnAddressThatIsNotUnderstoodIsNotTakenForAFile(t *testing.T) {
	for _, address := range []string{
		"host=db user=shop password=hunter2", "password=hunter2", "mysql://shop:hunter2@db/shop", "Postgres://shop:hunter2@db/shop",
		"jdbc:postgresql://db/shop?password=hunter2", "postgres://shop:hunter2@db:port/shop", "postgres://shop:hunter2@db/%zz", "",
	} {
		t.Run(address, func(t *testing.T) {
			t.Chdir(t.TempDir())
			_, err := store.Open(t.Context(), store.Options{URL: address})
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "hunter2")
			files, err := os.ReadDir(".")
			require.NoError(t, err)
			assert.Empty(t, files)
		})
	}
}
