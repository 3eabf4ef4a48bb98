package durable

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// shape is what a database has: its columns and its indexes.
func shape(t *testing.T, db database) (lines []string) {
	t.Helper()
	query := `SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable
			|| ' ' || COALESCE(column_default, '')
			FROM information_schema.columns WHERE table_name LIKE 'durable%'
		UNION SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'durable%' ORDER BY 1`
	if db.SQLite {
		query = `SELECT m.name || '.' || c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || COALESCE(c.dflt_value, '')
				FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table'
			UNION SELECT COALESCE(sql, name) FROM sqlite_master WHERE type = 'index' ORDER BY 1`
	}
	rows, err := db.QueryContext(t.Context(), query)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		lines = append(lines, line)
	}
	require.NoError(t, rows.Err())
	return lines
}

// tables of this version.
var newTables = []string{"version", "control", "rows", "notifications", "decisions", "events_due", "batches", "mark",
	"queue", "claims", "orders", "unreadable", "pruned"}

func TestMigrateUpgradesRowsInEveryState(t *testing.T) {
	for version := 1; version <= 2; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			each(t, func(t *testing.T, db database) { testUpgrade(t, db, version) })
		})
	}
}

func TestOpenAndMigrateRejectTablesOfANewerVersion(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		db.Exec(t, `UPDATE durable_version SET version = 4`)
		_, err := Open(t.Context(), db.DB, config(Config{}))
		require.ErrorIs(t, err, ErrSchema)
		require.ErrorContains(t, err, "4, want 3")
		require.ErrorIs(t, Migrate(t.Context(), db.DB), ErrSchema)
		db.Exec(t, `UPDATE durable_version SET version = 3`)
		queue(t, s, payouts("a", 1)...)
		rolledBack := openStore(t, db, Config{}) // a process of another program with the same version
		calls := runBatch(t, rolledBack, nil)
		assert.Equal(t, 1, calls)
	})
}

// SQLite would delete the partner's rows with the old table.
func TestMigrateRejectsAForeignKeyToRows(t *testing.T) {
	db := sqlite(t)
	db.Exec(t, `UPDATE durable_version SET version = 2`,
		`CREATE TABLE salaries (user_data TEXT REFERENCES durable_rows (user_data) ON DELETE CASCADE)`)
	err := Migrate(t.Context(), db.DB)
	require.ErrorIs(t, err, ErrSchema)
	assert.ErrorContains(t, err, `table "salaries" references durable_rows`)
}

func testUpgrade(t *testing.T, db database, version int) {
	want := shape(t, db)
	require.Greater(t, len(want), 60)
	for _, table := range newTables {
		db.Exec(t, `DROP TABLE durable_`+table)
	}
	old, err := os.ReadFile("testdata/schema1.sql")
	require.NoError(t, err)
	db.Exec(t, strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(old), "{storage}", ""), ";\n"), ";\n")...)
	if version == 2 {
		upgrade := Upgrade(dialect(db), 1)
		end := slices.Index(upgrade, `UPDATE durable_version SET version = 2`)
		require.Positive(t, end)
		db.Exec(t, upgrade[:end+1]...)
	}
	require.NotEqual(t, want, shape(t, db))
	_, err = Open(t.Context(), db.DB, config(Config{}))
	require.ErrorIs(t, err, ErrSchema)
	for i, state := range States() {
		for j, kind := range []Kind{KindPayment, KindPayout} {
			orderID := "NULL"
			if state == StatePending || state == StateSucceeded || state == StateFailed {
				orderID = fmt.Sprintf("'o%d'", i)
			}
			db.Exec(t, fmt.Sprintf(`INSERT INTO durable_rows
					(user_data, kind, reference, amount, state, token, order_id, generation,
					claims, claimed_at, attention, due_at, created_at, updated_at)
				VALUES ('u%[1]d', '%[2]s', 'r%[1]d', '1.50', '%[3]s', 'T', %[5]s, %[4]d, 1, 7,
					'Refused again and again.', 0, 1, 1)`,
				2*i+j, kind, state, j, orderID))
		}
	}
	db.Exec(t, `INSERT INTO durable_batches (id, name, created_at) VALUES ('b', 'file', 1)`,
		`INSERT INTO durable_notifications
			(key, event, order_id, user_data, status, status_name, status_code, amount, matched, received_at)
			VALUES ('k', 'refund.status_changed', 'o', 'u8', 1, 'SUCCESS', 1, '1.50', 1, 1)`,
		`INSERT INTO durable_events_due (id, user_data, from_state, to_state, refund_key, due_at)
			VALUES ('e', 'u8', 'succeeded', 'succeeded', 'k', 0)`,
		`INSERT INTO durable_decisions VALUES ('d', 'u8', 'paid', '', 'unknown', 'look', 'person', 1)`)
	assert.Empty(t, Upgrade(dialect(db), 3))
	require.NoError(t, Migrate(t.Context(), db.DB))
	assert.Equal(t, want, shape(t, db))
	require.NoError(t, Migrate(t.Context(), db.DB), "nothing is left to do")
	for _, statement := range []string{ // of a process of the old version: a claim, a payment, an outcome and a release
		`UPDATE durable_rows SET state = 'starting', token = 'U', claims = claims + 1 WHERE user_data = 'u1'`,
		`INSERT INTO durable_rows (kind, user_data, amount, state, token, claims, due_at, created_at, updated_at)
			VALUES ('payment', 'new', '1.50', 'starting', 'U', 1, 0, 0, 0)`,
		`UPDATE durable_rows SET state = 'pending', order_id = 'o', refusal = '', attention = '' WHERE token = 'T'`,
		`UPDATE durable_rows SET state = 'created' WHERE state = 'starting' AND token = 'T'`,
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.Error(t, err, statement)
	}
	var refunds []Event
	f := &service{}
	s := openStore(t, db, Config{Service: f, GiveUp: 1000000 * time.Hour, OnChange: func(_ context.Context, _ *sql.Tx,
		e Event) error {
		if e.Refund != nil {
			refunds = append(refunds, e)
		}
		return nil
	}})
	n := 0
	for _, r := range collect(t, s.Rows(t.Context(), Filter{})) {
		assert.Equal(t, paymentsvc.MustParseAmount("1.50"), r.Amount)
		assert.Equal(t, row.RejectedOften, r.ReviewReason)
		n++
	}
	assert.Equal(t, 14, n)
	for _, kind := range []Kind{KindPayment, KindPayout} {
		states := count(t, s, kind)
		for _, state := range States() {
			assert.EqualValues(t, 1, states[state], "%s %s", kind, state)
		}
	}
	for _, b := range collect(t, s.Batches(t.Context())) {
		assert.Zero(t, b.Rejected)
	}
	decisions, err := s.Decisions(t.Context(), "u8")
	require.NoError(t, err)
	assert.Equal(t, "look", decisions[0].ReviewReason)

	require.NoError(t, s.Sweep(t.Context()))
	require.Len(t, refunds, 1)
	assert.Empty(t, refunds[0].From+refunds[0].To, "code for a state does not run again")
	calls := runBatch(t, s, nil)
	assert.Equal(t, 2, calls, "the created rows")
	require.NoError(t, s.settle(t.Context(), job{Claim: ledger.Claim{UserData: "u3", Token: "T"}}, callResult{}))
	assert.Equal(t, StateUnknown, get(t, s, "u3").State, "it was starting")
	require.NoError(t, s.Notified(t.Context(), notice(paymentsvc.EventPayoutStatusChanged, "", "o3", success)))
	assert.Contains(t, get(t, s, "u7").ReviewReason, "1.50", "its order_id is known, with another amount")
}

func TestMigrateSucceedsInSeveralProcessesAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db database) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				other, err := dbtest.Connect(db.Address)
				if assert.NoError(t, err) {
					defer other.Close()
					other.SetMaxOpenConns(1)
					assert.NoError(t, Migrate(t.Context(), other))
				}
			})
		}
		wg.Wait()
	})
	db := dbtest.SQLite(t)
	_, err := Open(t.Context(), db.DB, config(Config{}))
	require.ErrorIs(t, err, ErrSchema)
	_, err = Open(t.Context(), db.DB, Config{Service: &service{}, Project: "p", Lease: time.Second})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = Open(t.Context(), db.DB, Config{Service: deaf{}, Project: "p"})
	require.ErrorContains(t, err, "Config.Service: the client has no DecodeError, so no response proves a rejection")
	grace := Config{Timeout: time.Minute, Lease: 5 * time.Minute, Grace: 3*time.Minute - 1}
	require.ErrorContains(t, config(grace).withDefaults().check(),
		"Config.Grace is 2m59.999999999s, want at least the sum of Config.Timeout and 2m0s")
	grace.Grace = 0
	assert.Equal(t, 3*time.Minute, config(grace).withDefaults().Grace)
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1)} {
		require.ErrorIs(t, config(Config{PerSecond: rate}).withDefaults().check(), ErrInvalid)
	}
}
