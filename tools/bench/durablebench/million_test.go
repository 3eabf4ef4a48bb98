package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

var million = flag.Bool("million", false, "fill databases with a million rows; takes minutes")

// These statements insert a million rows, alternately payments and payouts. Most rows have succeeded, and the newest
// are pending or created. The others have every state, with and without an order_id, an error code and a review reason.
// One batch has 100,000 payouts, and each other batch has 5,000.
const (
	fillRows = `WITH RECURSIVE
		n (i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < 1000000),
		v AS (SELECT i, CASE WHEN i % 2 = 0 THEN 'payout' ELSE 'payment' END AS kind,
			CASE WHEN i > 980000 AND i % 2 = 0 THEN 'created' WHEN i > 990000 AND i < 990400 THEN 'unknown'
				WHEN i > 880000 THEN 'pending'
				WHEN i % 100 = 0 THEN 'failed' WHEN i % 100 IN (1, 2) THEN 'rejected'
				WHEN i % 100 IN (3, 4) THEN 'pending'
				WHEN i % 5000 = 6 THEN 'unknown' ELSE 'succeeded' END AS state FROM n)
		INSERT INTO durable_rows (kind, user_data, reference, type, amount, destination, batch, generation, state,
			order_id, due_at, error_code, review_reason, created_at, updated_at)
		SELECT kind, 'user-' || i, 'ref-' || i, 'card', '10.50', '4111111111111111',
			CASE WHEN i % 2 = 1 THEN '' WHEN i BETWEEN 500001 AND 700000 THEN 'large' ELSE 'batch-' || (i / 10000) END,
			CASE WHEN i % 2 = 1 OR i BETWEEN 980001 AND 990000 THEN 0 ELSE 1 END, state,
			CASE WHEN state IN ('created', 'rejected') OR state = 'unknown' AND i % 3 > 0 OR i % 20000 = 38 THEN ''
				ELSE 'order-' || i END,
			i,
			CASE WHEN state = 'rejected' THEN 'limit' WHEN state = 'created' AND i % 10 = 0 THEN 'HTTP 429'
				ELSE '' END,
			CASE WHEN i % 5000 = 0 OR state = 'unknown' AND kind = 'payout' OR i % 20000 IN (1, 3, 38) THEN 'look'
				ELSE '' END,
			1700000000000 + i, 1700000000000 + i FROM v`
	fillClaims = `INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
		SELECT user_data, kind, 'token', 1, created_at, 4000000000000, created_at FROM durable_rows
		WHERE state = 'created' AND created_at > 1700000999992`
	fillQueue = `INSERT INTO durable_queue (kind, generation, due_at, user_data, created_at)
		SELECT kind, generation, due_at, user_data, created_at FROM durable_rows
		WHERE state = 'created' AND created_at <= 1700000999992`
	fillOrders = `INSERT INTO durable_orders (kind, order_id, user_data, created_at, state)
		SELECT kind, order_id, user_data, created_at, state FROM durable_rows WHERE order_id <> ''`
)

func openMillion(t *testing.T, address, service string) (*sql.DB, *durable.Store) {
	t.Helper()
	if !*million {
		t.Skip("the test takes minutes: run .ci/postgres go -C tools/bench test ./durablebench -million")
	}
	db, err := connect(address)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1) // PostgreSQL counts scans per connection, and SQLite has one writer
	require.NoError(t, durable.Migrate(t.Context(), db))
	client, err := newClient(service)
	require.NoError(t, err)
	c := durable.Config{Service: client, Project: "bench", AllowUnsafeDatabase: true, GiveUp: 1e6 * time.Hour,
		PendingReview: time.Since(time.UnixMilli(1700000900000)), Log: slog.New(slog.DiscardHandler)}
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

// measured is an operation with a time limit.
type measured struct {
	name, index string // the index that PostgreSQL must use, or "" without a requirement
	do          func(context.Context) error
}

// TestOperationsAreFastWithAMillionRows limits the time of each operation, and rejects scans of whole tables.
func TestOperationsAreFastWithAMillionRows(t *testing.T) {
	service := newService(0)
	defer service.Close()
	for name, address := range addresses(t) {
		t.Run(name, func(t *testing.T) {
			db, s := openMillion(t, address, service.URL)
			statements := []string{fillRows, fillClaims, fillQueue, fillOrders, `ANALYZE`}
			if name == "PostgreSQL" {
				statements = append(statements, `VACUUM durable_rows`, `VACUUM durable_orders`)
			}
			for _, statement := range statements {
				_, err := db.ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
			for _, c := range append(reads(s), writes(s)...) {
				before, used := scans(t, db, name, c.index)
				fastest, median := measure(t, c)
				after, uses := scans(t, db, name, c.index)
				t.Logf("%-16s fastest %s, median %s", c.name,
					fastest.Round(10*time.Microsecond), median.Round(10*time.Microsecond))
				if c.name != "sweep" { // a sweep polls up to 300 rows
					assert.Less(t, fastest, 100*time.Millisecond, c.name)
				}
				assert.Equal(t, before, after, "%s reads the whole table", c.name)
				assert.True(t, name == "SQLite" || c.index == "" || uses > used, "%s does not use %s", c.name, c.index)
			}
			allFilters(t, s)
		})
	}
}

// measure returns the fastest and the median time of five runs, because the machine may be busy.
func measure(t *testing.T, c measured) (fastest, median time.Duration) {
	t.Helper()
	times := make([]time.Duration, 5)
	for i := range times {
		begun := time.Now()
		require.NoError(t, c.do(t.Context()), c.name)
		times[i] = time.Since(begun)
	}
	slices.Sort(times)
	return times[0], times[2]
}

// reads returns the lists, counts and searches of pages.
func reads(s *durable.Store) []measured {
	counts := func(f durable.Filter) func(context.Context) error {
		return func(ctx context.Context) error { _, err := s.Counts(ctx, f); return err }
	}
	return []measured{
		{"overview", "durable_orders_state", counts(durable.Filter{})},
		{"batch", "durable_rows_batch", counts(durable.Filter{Batch: "batch-7"})},
		{"large batch", "durable_rows_batch", counts(durable.Filter{Batch: "large", Limit: durable.CountLimit})},
		{"status", "", func(ctx context.Context) error { _, err := s.Status(ctx); return err }},
		{"newest", "durable_rows_created", rowsOf(s, durable.Filter{})},
		{"oldest", "durable_rows_created", rowsOf(s, durable.Filter{OldestFirst: true})},
		{"far page", "durable_rows_created", rowsOf(s, durable.Filter{After: "1700000500000.x"})},
		{"created", "durable_queue_created", rowsOf(s, durable.Filter{State: durable.StateCreated})},
		{"held", "durable_queue_created", rowsOf(s, durable.Filter{Held: true})},
		{"pending", "durable_orders_state", rowsOf(s, durable.Filter{State: durable.StatePending, OldestFirst: true})},
		{"unknown", "durable_rows_rare", rowsOf(s, durable.Filter{State: durable.StateUnknown})},
		{"review", "durable_rows_rare", rowsOf(s, durable.Filter{Review: true})},
		{"error code", "durable_rows_code", rowsOf(s, durable.Filter{ErrorCode: "limit"})},
		{"unused code", "durable_rows_code", rowsOf(s, durable.Filter{ErrorCode: "unused"})},
		{"rows of a batch", "durable_rows_batch", rowsOf(s, durable.Filter{Batch: "batch-7"})},
		{"by user_data", "durable_rows_pkey", find(s, "user-77")},
		{"by order_id", "durable_orders_pkey", find(s, "order-77")},
	}
}

// writes returns the operations of payments and payouts.
func writes(s *durable.Store) []measured {
	n := 0
	return []measured{
		{"round", "durable_queue_pkey", func(ctx context.Context) error {
			_, err := s.RunBatch(ctx, durable.BatchLimit{Rows: 8})
			return err
		}},
		{"sweep", "durable_rows_unknown", s.Sweep},
		{"checkout", "durable_rows_pkey", func(ctx context.Context) error {
			p := durable.NewPayment{
				Key: rand.Text(), Type: paymentsvc.PaymentTypeCard, Amount: paymentsvc.MustParseAmount("1"),
			}
			_, err := s.Pay(ctx, p)
			return err
		}},
		{"notification", "durable_orders_pkey", func(ctx context.Context) error {
			n += 100
			return s.Notified(ctx, &paymentsvc.Notification{
				Event: paymentsvc.EventPayoutStatusChanged, OrderID: fmt.Sprint("order-", n+4),
				StatusDescription: paymentsvc.StatusSuccess, Amount: paymentsvc.MustParseAmount("10.50"),
			})
		}},
	}
}

// allFilters measures each combination of filters that the operators' page offers, and logs the five slowest.
func allFilters(t *testing.T, s *durable.Store) {
	t.Helper()
	type slow struct {
		took time.Duration
		f    durable.Filter
	}
	var all []slow
	for f := range filters {
		took := time.Hour
		for range 5 {
			begun := time.Now()
			require.NoError(t, rowsOf(s, f)(t.Context()))
			took = min(took, time.Since(begun))
			if took < 20*time.Millisecond {
				break // fast enough, also on a busy machine
			}
		}
		all = append(all, slow{took, f})
		assert.Less(t, took, 100*time.Millisecond, "%+v", f)
	}
	slices.SortFunc(all, func(a, b slow) int { return cmp.Compare(b.took, a.took) })
	t.Logf("%d combinations of filters, median %s", len(all), all[len(all)/2].took.Round(time.Microsecond))
	for _, s := range all[:5] {
		t.Logf("%s %+v", s.took.Round(100*time.Microsecond), s.f)
	}
}

// filters yields each combination of filters.
func filters(yield func(durable.Filter) bool) {
	half := time.Since(time.UnixMilli(1700000500000))
	states := append([]durable.State{""}, durable.States()...)
	for n := range 3 * len(states) * 5 * 4 * 2 * 2 * 2 * 2 {
		pick := func(choices int) int {
			defer func() { n /= choices }()
			return n % choices
		}
		f := durable.Filter{
			Kind:      []durable.Kind{"", durable.KindPayment, durable.KindPayout}[pick(3)],
			State:     states[pick(len(states))],
			Batch:     []string{"", "batch-7", "batch-99", "large", "unused"}[pick(5)],
			ErrorCode: []string{"", "limit", "HTTP 429", "unused"}[pick(4)],
			Review:    pick(2) == 1, Held: pick(2) == 1, OldestFirst: pick(2) == 1,
			MinAge: []time.Duration{0, half}[pick(2)],
		}
		if !yield(f) {
			return
		}
	}
}

// scans returns how often PostgreSQL has scanned a whole large table, and how often it has used the index.
func scans(t *testing.T, db *sql.DB, name, index string) (whole, indexed int) {
	t.Helper()
	if name == "SQLite" {
		return 0, 0
	}
	_, err := db.ExecContext(t.Context(), `SELECT pg_stat_force_next_flush()`)
	require.NoError(t, err)
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT
		(SELECT SUM(seq_scan) FROM pg_stat_user_tables WHERE relname IN ('durable_rows', 'durable_orders')),
		COALESCE((SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = $1), 0)`, index).
		Scan(&whole, &indexed))
	return whole, indexed
}
