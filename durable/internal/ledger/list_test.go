package ledger

import (
	"database/sql"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// listClock is the database's time in tests of lists, in Unix milliseconds.
const listClock = 1_000_000

// eachListed runs f on ledgers with the same rows, created one millisecond after the other.
func eachListed(t *testing.T, f func(t *testing.T, l *Ledger)) {
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) { f(t, fillList(t, db)) })
}

// fillList stores rows in each state: with and without an order_id, an error code, a review reason, a batch and a hold.
func fillList(t *testing.T, db dbtest.Database) *Ledger {
	t.Helper()
	dialect := PostgreSQL
	if db.SQLite {
		dialect = SQLite
	}
	db.Exec(t, Schema(dialect)...)
	db.Exec(t, listRows, listQueue, listClaims, listOrders, listNotices, `UPDATE durable_control SET generation = 3`)
	return New(db.DB, db.DB, dialect, fmt.Sprint(listClock))
}

// The values of a row depend on remainders of i, so that all combinations appear.
const (
	listRows = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1260), v AS (
		SELECT i, CASE WHEN i % 2 = 0 THEN 'payout' ELSE 'payment' END AS kind,
			CASE i % 7 WHEN 0 THEN 'created' WHEN 1 THEN 'starting' WHEN 2 THEN 'unknown' WHEN 3 THEN 'pending'
				WHEN 4 THEN 'succeeded' WHEN 5 THEN 'failed' ELSE 'rejected' END AS state FROM n)
		INSERT INTO durable_rows (kind, user_data, amount, batch, generation, state, order_id, due_at, error_code,
			review_reason, created_at, updated_at)
		SELECT kind, 'user-' || i, '1',
			CASE WHEN kind = 'payment' THEN '' WHEN i % 3 = 0 THEN 'one' WHEN i % 3 = 1 AND i < 600 THEN 'two' ELSE '' END,
			CASE WHEN kind = 'payment' THEN 0 WHEN i % 9 < 3 THEN 3 ELSE 1 + i % 9 / 6 END,
			CASE WHEN state = 'starting' THEN 'created' ELSE state END,
			CASE WHEN state = 'pending' OR state IN ('unknown', 'failed', 'succeeded') AND i % 5 < 3 THEN 'order-' || i
				ELSE '' END,
			i, CASE i % 4 WHEN 0 THEN 'limit' WHEN 1 THEN 'HTTP 429' ELSE '' END,
			CASE WHEN i % 5 IN (0, 1) THEN 'look' ELSE '' END, i, i FROM v`
	listQueue = `INSERT INTO durable_queue (kind, generation, due_at, user_data, created_at)
		SELECT kind, generation, due_at, user_data, created_at FROM durable_rows
		WHERE state = 'created' AND created_at % 7 = 0`
	listClaims = `INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
		SELECT user_data, kind, 'token', 1, 1, 1, created_at FROM durable_rows WHERE state = 'created' AND created_at % 7 = 1`
	listOrders = `INSERT INTO durable_orders (kind, order_id, user_data, created_at, state)
		SELECT kind, order_id, user_data, created_at, state FROM durable_rows WHERE order_id <> ''`
	listNotices = `INSERT INTO durable_notifications
			(key, event, order_id, user_data, status, status_name, status_code, amount, received_at)
		SELECT 'key-' || created_at,
			CASE WHEN kind = 'payout' THEN 'payout.status_changed' ELSE 'payment.status_changed' END,
			'lost', 'lost', 1, 'SUCCESS', 1, '1', 500000 + created_at FROM durable_rows WHERE created_at <= 3`
)

// users returns the user_data of rows.
func users(rows []*row.Row) []string {
	list := make([]string, 0, len(rows))
	for _, r := range rows {
		list = append(list, r.UserData)
	}
	return list
}

func pick[T any](random *mathrand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// listFilter returns a filter with random fields.
func listFilter(random *mathrand.Rand) Filter {
	return Filter{
		Kind: pick(random, "", row.Payment, row.Payout), State: pick(random, append(states, "", "", "", "", "other")...),
		Batch: pick(random, "", "", "one", "two", "absent"), ErrorCode: pick(random, "", "", "limit", "HTTP 429", "absent"),
		Review: pick(random, false, true), Held: pick(random, false, false, true), OldestFirst: pick(random, false, true),
		MinAge:  pick(random, 0, 0, (listClock-700)*time.Millisecond),
		Overdue: pick(random, 0, (listClock-900)*time.Millisecond),
	}
}

// The test reads all rows and selects the expected rows in Go.
func TestPageSelectsWhatTheFilterSays(t *testing.T) {
	eachListed(t, func(t *testing.T, l *Ledger) {
		all, _, err := l.Page(t.Context(), l.DB, Filter{}, 10_000)
		require.NoError(t, err)
		require.Len(t, all, 1260)
		random := mathrand.New(mathrand.NewPCG(1, 1))
		found := 0
		for n := range 600 {
			f := listFilter(random)
			if n == 0 {
				f = Filter{Review: true, Overdue: (listClock - 900) * time.Millisecond}
				f.MinAge = (listClock - 700) * time.Millisecond
			} else if random.IntN(2) == 0 {
				r := pick(random, all...)
				f.After = Place{r.CreatedAt, r.UserData}
			}
			want := slices.DeleteFunc(slices.Clone(all), func(r *row.Row) bool { return !f.selects(r, listClock) })
			if f.OldestFirst {
				slices.Reverse(want)
			}
			page, _, err := l.Page(t.Context(), l.DB, f, 20)
			require.NoError(t, err)
			require.Equal(t, users(want[:min(20, len(want))]), users(page), "%+v", f)
			found += len(page)
			if n%20 > 0 {
				continue
			}
			named, now, err := l.Named(t.Context(), f, users(all))
			require.NoError(t, err)
			require.Equal(t, users(want), users(named), "%+v", f)
			require.EqualValues(t, listClock, now)
		}
		assert.Greater(t, found, 1000, "most filters select rows")
	})
}

func TestCountsAreTheRowsAndTheOldest(t *testing.T) {
	eachListed(t, func(t *testing.T, l *Ledger) {
		all, _, err := l.Page(t.Context(), l.DB, Filter{}, 10_000)
		require.NoError(t, err)
		const overdue = (listClock - 900) * time.Millisecond
		check := func(got Count, limit int64, f Filter, name string) {
			t.Helper()
			want := Count{}
			for _, r := range all { // the newest first
				if f.selects(r, listClock) {
					want.Rows, want.Oldest = min(want.Rows+1, limit), r.CreatedAt
				}
			}
			assert.Equal(t, want, got, "%s %+v", name, f)
		}
		checkAll := func(c Counts, limit int64, f Filter) {
			t.Helper()
			assert.EqualValues(t, listClock, c.Now)
			for _, state := range states {
				f.State = state
				check(*c.States[state], limit, f, string(state))
			}
			f.State = ""
			check(c.Review, limit, Filter{Kind: f.Kind, Batch: f.Batch, Review: true, Overdue: overdue}, "review")
			check(c.Held, limit, Filter{Kind: f.Kind, Batch: f.Batch, Held: true}, "held")
			check(c.Overdue, limit, Filter{Kind: f.Kind, Batch: f.Batch, State: row.Pending, MinAge: overdue}, "overdue")
		}
		for kind, unmatched := range map[row.Kind]Count{
			"": {3, 500_001}, row.Payment: {2, 500_001}, row.Payout: {1, 500_002},
		} {
			for _, limit := range []int64{10_000, 30} {
				counts, err := l.Counts(t.Context(), overdue, int(limit), kind)
				require.NoError(t, err)
				checkAll(counts[0], limit, Filter{Kind: kind})
				assert.Equal(t, unmatched, counts[0].Unmatched)
			}
		}
		for _, batch := range []string{"one", "two", "absent"} {
			c, err := l.BatchCounts(t.Context(), batch, overdue.Milliseconds(), 0)
			require.NoError(t, err)
			c.Now = listClock // not known without a row
			checkAll(c, 10_000, Filter{Batch: batch})
		}
	})
}

// Without the index, a count of one kind reads the notifications of both kinds, however many.
func TestCountsReadUnmatchedNotificationsInTheOrderOfAnIndex(t *testing.T) {
	l := fillList(t, dbtest.SQLite(t))
	for kind, n := range map[row.Kind]int{"": 3, row.Payment: 2, row.Payout: 1} {
		parts := unmatchedParts(10, kind)
		require.Len(t, parts, n)
		for _, part := range parts {
			var plan []string
			require.NoError(t, l.query(t.Context(), l.DB, func(rows *sql.Rows) error {
				var detail string
				err := rows.Scan(new(int), new(int), new(int), &detail)
				plan = append(plan, detail)
				return err
			}, `EXPLAIN QUERY PLAN `+part))
			require.Len(t, plan, 1, "a sort")
			assert.Contains(t, plan[0], "durable_waiting_final (event=? AND received_at>? AND received_at<?)")
		}
	}
}

func TestRareIsEmptyOnlyForStatesOfOtherTables(t *testing.T) {
	eachListed(t, func(t *testing.T, l *Ledger) {
		var n, usual int
		require.NoError(t, l.DB.QueryRowContext(t.Context(), `SELECT COUNT(*), SUM(CASE WHEN rare = '' THEN 1 ELSE 0 END)
			FROM durable_rows
			WHERE (rare = '') = (error_code = '' AND review_reason = ''
					AND (state = 'created' OR state IN ('pending', 'succeeded') AND order_id <> ''))
				AND rare IN ('', state) AND (review = 1) = (review_reason <> '')`).Scan(&n, &usual))
		assert.Equal(t, 1260, n)
		assert.Positive(t, usual)
	})
}
