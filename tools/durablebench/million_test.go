package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

var million = flag.Bool("million", false, "fill databases with a million rows, which takes minutes")

// fill inserts a million rows: payments and payouts in turn, most of them final, and some in each other state.
const fill = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
	INSERT INTO durable_rows (kind, user_data, reference, type, amount, destination, batch, generation, state, order_id,
		token, claimed_at, due_at, attention, created_at, updated_at)
	SELECT CASE WHEN i % 2 = 0 THEN 'payout' ELSE 'payment' END, 'user-' || i, 'ref-' || i, 'card', '10.50', '4111111111111111',
		CASE WHEN i % 2 = 0 THEN 'batch-' || i / 10000 ELSE '' END, i + 1 - (i + 1) / 2 * 2,
		CASE WHEN i > 999992 THEN 'starting' WHEN i > 990000 AND i % 2 = 0 THEN 'created' WHEN i > 990000 AND i < 990400 THEN 'unknown'
			WHEN i % 100 = 0 THEN 'failed' WHEN i % 100 = 1 THEN 'rejected' WHEN i % 100 = 2 THEN 'pending' ELSE 'succeeded' END,
		CASE WHEN i <= 990000 THEN 'order-' || i END, 'token-' || i, 1, CASE WHEN i > 999992 THEN 4000000000000 ELSE i END,
		CASE WHEN i % 5000 = 0 THEN 'look' ELSE '' END, 1700000000000 + i, 1700000000000 + i FROM n`

func openMillion(t *testing.T, address, service string) (*sql.DB, *durable.Store) {
	t.Helper()
	if !*million {
		t.Skip("it takes minutes. Run it with .ci/postgres go -C tools/durablebench test . -million")
	}
	db, err := connect(address)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1) // so that PostgreSQL counts the scans of one connection, and SQLite has one writer
	require.NoError(t, durable.Migrate(t.Context(), db))
	client, err := newClient(service)
	require.NoError(t, err)
	c := durable.Config{Service: client, Project: "bench", AllowUnsafeDatabase: true, GiveUp: 1e6 * time.Hour, Log: slog.New(slog.DiscardHandler)}
	if !strings.HasPrefix(address, "postgres:") {
		c.ReadDB, err = sql.Open("sqlite", "file:"+address+"?mode=ro&_pragma=busy_timeout(10000)")
		require.NoError(t, err)
		t.Cleanup(func() { c.ReadDB.Close() })
	}
	store, err := durable.Open(t.Context(), db, c)
	require.NoError(t, err)
	return db, store
}

func addresses(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"SQLite": filepath.Join(t.TempDir(), "million.db")}
	if server := os.Getenv("TEST_DATABASE_URL"); server != "" {
		admin, err := connect(server)
		require.NoError(t, err)
		name := "bench_" + strings.ToLower(strings.ReplaceAll(paymentsvc.NewUserData(), "-", ""))
		_, err = admin.ExecContext(t.Context(), `CREATE DATABASE `+name)
		require.NoError(t, err)
		t.Cleanup(func() {
			_, _ = admin.ExecContext(context.WithoutCancel(t.Context()), `DROP DATABASE `+name+` WITH (FORCE)`)
			admin.Close()
		})
		all["PostgreSQL"] = strings.Replace(server, "/postgres?", "/"+name+"?", 1)
	}
	return all
}

func rowsOf(store *durable.Store, f durable.Filter) func(context.Context) error {
	return func(ctx context.Context) error {
		f.Limit = 50
		for _, err := range store.Rows(ctx, f) {
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func find(store *durable.Store, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, err := range store.Find(ctx, text) {
			return err
		}
		return durable.ErrNotFound
	}
}

// Each statement takes less than 100 ms at a million rows, reads no table from end to end, and uses its index.
func TestAMillionRows(t *testing.T) {
	service := newService(0)
	defer service.Close()
	for name, address := range addresses(t) {
		t.Run(name, func(t *testing.T) {
			db, s := openMillion(t, address, service.URL)
			for _, statement := range []string{fill, `ANALYZE`} {
				_, err := db.ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
			if name == "PostgreSQL" {
				_, err := db.ExecContext(t.Context(), `VACUUM durable_rows`)
				require.NoError(t, err)
			}
			n := 0
			for _, c := range []struct {
				name, index string
				do          func(context.Context) error
			}{
				{"overview", "durable_states", func(ctx context.Context) error { _, err := s.Counts(ctx, durable.Filter{}); return err }},
				{"batch", "durable_of_batch", func(ctx context.Context) error { _, err := s.Counts(ctx, durable.Filter{Batch: "batch-7"}); return err }},
				{"status", "durable_starting", func(ctx context.Context) error { _, err := s.Status(ctx); return err }},
				{"newest", "durable_states", rowsOf(s, durable.Filter{})},
				{"far page", "durable_states", rowsOf(s, durable.Filter{After: "1700000500000.x"})},
				{"pending", "durable_states", rowsOf(s, durable.Filter{State: durable.StatePending})},
				{"unknown", "durable_states", rowsOf(s, durable.Filter{State: durable.StateUnknown})},
				{"attention", "durable_attention", rowsOf(s, durable.Filter{Attention: true})},
				{"rows of a batch", "durable_of_batch", rowsOf(s, durable.Filter{Batch: "batch-7"})},
				{"by user_data", "durable_rows_pkey", find(s, "user-77")},
				{"by order_id", "durable_rows_kind_order_id_key", find(s, "order-77")},
				{"by reference", "durable_rows_kind_reference_key", find(s, "ref-77")},
				{"round", "durable_payouts_due", func(ctx context.Context) error { _, err := s.Turn(ctx, durable.Limit{Rows: 8}); return err }},
				{"sweep", "durable_unknown", s.Sweep},
				{"checkout", "durable_rows_pkey", func(ctx context.Context) error {
					_, err := s.Pay(ctx, durable.NewPayment{Type: paymentsvc.PaymentTypeCard, Amount: paymentsvc.MustParseAmount("1")})
					return err
				}},
				{"notification", "durable_rows_kind_order_id_key", func(ctx context.Context) error {
					n += 100
					return s.Notified(ctx, &paymentsvc.Notification{
						Event: paymentsvc.EventPayoutStatusChanged, OrderID: fmt.Sprint("order-", n+2),
						StatusDescription: paymentsvc.StatusSuccess, Amount: paymentsvc.MustParseAmount("10.50"),
					})
				}},
			} {
				fastest := time.Hour
				before, used := scans(t, db, name, c.index)
				for range 5 { // of several, since the machine may be busy
					begun := time.Now()
					require.NoError(t, c.do(t.Context()), c.name)
					fastest = min(fastest, time.Since(begun))
				}
				after, uses := scans(t, db, name, c.index)
				t.Logf("%-16s %s", c.name, fastest.Round(10*time.Microsecond))
				if c.name != "sweep" { // which polls up to 200 rows
					assert.Less(t, fastest, 100*time.Millisecond, c.name)
				}
				assert.Equal(t, before, after, "%s reads the whole table", c.name)
				assert.True(t, name == "SQLite" || uses > used, "%s does not use %s", c.name, c.index)
			}
			db.SetMaxOpenConns(map[bool]int{true: 1, false: 20}[name == "SQLite"])
			readers(t, s)
		})
	}
}

// scans returns how often PostgreSQL has read the table of rows from end to end, and how often by an index.
func scans(t *testing.T, db *sql.DB, name, index string) (whole, indexed int) {
	t.Helper()
	if name == "SQLite" {
		return 0, 0
	}
	_, err := db.ExecContext(t.Context(), `SELECT pg_stat_force_next_flush()`)
	require.NoError(t, err)
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT (SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'durable_rows'),
		(SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = $1)`, index).Scan(&whole, &indexed))
	return whole, indexed
}

// readers measures checkouts alone, and beside somebody who refreshes the overview and a list all the time.
func readers(t *testing.T, s *durable.Store) {
	t.Helper()
	rate := func() (rate float64, slowest time.Duration) {
		const payments = 500
		begun := time.Now()
		for range payments {
			one := time.Now()
			_, err := s.Pay(t.Context(), durable.NewPayment{Type: paymentsvc.PaymentTypeCard, Amount: paymentsvc.MustParseAmount("1")})
			require.NoError(t, err)
			slowest = max(slowest, time.Since(one))
		}
		return payments / time.Since(begun).Seconds(), slowest
	}
	alone, slowest := rate()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = s.Counts(ctx, durable.Filter{})
			_ = rowsOf(s, durable.Filter{})(ctx)
		}
	}()
	beside, slowestBeside := rate()
	cancel()
	<-ended
	t.Logf("checkouts a second, one by one: %.0f alone (slowest %s), %.0f beside a reader (slowest %s)",
		alone, slowest.Round(time.Millisecond), beside, slowestBeside.Round(time.Millisecond))
}

// The answers of a thousand payments were lost; the service takes 200 ms to say that it has one.
func TestLostOrdersAreReconciled(t *testing.T) {
	service := newService(200 * time.Millisecond)
	defer service.Close()
	for name, address := range addresses(t) {
		t.Run(name, func(t *testing.T) {
			db, s := openMillion(t, address, service.URL)
			db.SetMaxOpenConns(map[bool]int{true: 1, false: 20}[name == "SQLite"])
			const lost = 1000
			_, err := db.ExecContext(t.Context(), strings.Replace(strings.Replace(strings.Replace(fill, "1000000", fmt.Sprint(lost), 1),
				"WHEN i > 999992", "WHEN TRUE THEN 'unknown' WHEN i > 999992", 1), "CASE WHEN i <= 990000", "CASE WHEN i < 0", 1))
			require.NoError(t, err)
			_, err = db.ExecContext(t.Context(), `UPDATE durable_rows SET kind = 'payment', user_data = 'a' || user_data`)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			begun := time.Now()
			go func() { ended <- s.Run(ctx) }()
			require.Eventually(t, func() bool {
				c, err := s.Counts(t.Context(), durable.Filter{})
				return err == nil && c.States[durable.StatePending] == lost
			}, 3*time.Minute, 20*time.Millisecond)
			t.Logf("%.0f a second", lost/time.Since(begun).Seconds())
			cancel()
			require.NoError(t, <-ended)
		})
	}
}
