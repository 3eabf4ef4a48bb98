package durable

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestDecisionsFitTheState(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		queue(t, s, payouts("a", 2)...)
		id, other := derived("test", KindPayout, "a-0000"), derived("test", KindPayout, "a-0001")
		set := func(columns string) Row {
			for _, columns := range []string{`order_id = NULL, order_id_taken = 0, attention = ''`, columns} {
				_, err := db.ExecContext(t.Context(), `UPDATE durable_rows SET `+columns+` WHERE user_data = '`+id+`'`)
				require.NoError(t, err)
			}
			return get(t, s, id)
		}
		_, err := db.ExecContext(t.Context(), `UPDATE durable_rows SET order_id = 'theirs' WHERE user_data = '`+other+`'`)
		require.NoError(t, err)
		tests := []struct {
			columns, orderID string
			kind             DecisionKind
			want             State
			err              error
		}{
			{`state = 'unknown'`, "", DecideAgain, StateCreated, nil},
			{`state = 'unknown', order_id = 'o'`, "", DecideAgain, "", ErrUndecidable},
			{`state = 'unknown', order_id_taken = 1`, "", DecideAgain, "", ErrUndecidable},
			{`state = 'rejected'`, "", DecideAgain, StateCreated, nil},
			{`state = 'starting'`, "", DecideAgain, "", ErrUndecidable},
			{`state = 'pending', order_id = 'o'`, "", DecideAgain, "", ErrUndecidable},
			{`state = 'failed'`, "", DecideAgain, "", ErrUndecidable},
			{`state = 'unknown'`, "", DecidePaid, StateSucceeded, nil},
			{`state = 'unknown'`, "theirs", DecidePaid, "", ErrOrderID},
			{`state = 'unknown', order_id = 'o'`, "p", DecideUnpaid, "", ErrOrderID},
			{`state = 'unknown'`, "o", DecideFound, StatePending, nil},
			{`state = 'unknown'`, "", DecideFound, "", ErrOrderID},
			{`state = 'unknown'`, "o", DecideAgain, "", ErrOrderID},
			{`state = 'created'`, "", DecidePaid, "", ErrUndecidable},
			{`state = 'created', attention = 'stuck'`, "", DecideUnpaid, StateFailed, nil},
			{`state = 'succeeded', attention = 'two amounts'`, "", DecideSeen, StateSucceeded, nil},
			{`state = 'succeeded'`, "", DecideUnpaid, "", ErrUndecidable},
		}
		for _, tt := range tests {
			r := set(tt.columns)
			d := Decision{Kind: tt.kind, UserData: id, OrderID: tt.orderID, By: "person", Version: r.Version}
			err := s.Decide(t.Context(), d)
			require.ErrorIs(t, err, tt.err, "%v", tt)
			if tt.err != nil {
				continue
			}
			assert.Equal(t, tt.want, get(t, s, id).State, "%v", tt)
			assert.Empty(t, get(t, s, id).Attention)
			require.ErrorIs(t, s.Decide(t.Context(), d), ErrChanged)
		}
		r := set(`state = 'unknown', doubted = 0`)
		require.ErrorIs(t, s.Decide(t.Context(), Decision{Kind: DecideAgain, UserData: id, Version: r.Version}), ErrInvalid)
		require.ErrorIs(t, s.Decide(t.Context(), Decision{Kind: DecideAgain, UserData: "none", By: "person"}), ErrNotFound)
		_, err = s.HoldPayouts(t.Context(), "person", "restored")
		require.NoError(t, err)
		n, sum, err := s.DecideMany(t.Context(), Filter{State: StateUnknown}, Decision{Kind: DecideAgain, By: "person"}, false)
		require.NoError(t, err)
		assert.Equal(t, []any{1, "10.50"}, []any{n, sum.String()})
		assert.True(t, get(t, s, id).Doubted)
		assert.False(t, get(t, s, id).Held, "a person has asked: it is not held")
		decisions, err := s.Decisions(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, "person", decisions[0].By)
	})
}

func TestRowsArePagedByKey(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		list := payouts("a", 1203)
		for i := range list {
			list[i].Batch = fmt.Sprint("file", i%2)
		}
		queue(t, s, list...)
		r, err := s.Pay(t.Context(), NewPayment{Key: "k", Type: paymentsvc.PaymentTypeCard, Amount: ten})
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), `UPDATE durable_rows SET state = 'rejected', attention = 'look' WHERE reference = 'a-0007'`)
		require.NoError(t, err)
		number := func(f Filter) (n int) {
			seen := map[string]bool{}
			last := ""
			for r, err := range s.Rows(t.Context(), f) {
				require.NoError(t, err)
				assert.False(t, seen[r.UserData])
				seen[r.UserData] = true
				if key := fmt.Sprintf("%020d %s", r.CreatedAt.UnixMilli(), r.UserData); last != "" {
					assert.Less(t, key, last)
					last = key
				} else {
					last = key
				}
				n++
			}
			return n
		}
		for want, f := range map[int]Filter{
			1204: {}, 1203: {Kind: KindPayout}, 602: {Batch: "file0"}, 1202: {State: StateCreated}, 1: {Attention: true},
			7: {Limit: 7}, 1195: {After: cursorAfter(t, s, 9)}, 0: {Held: true},
		} {
			assert.Equal(t, want, number(f), "%+v", f)
		}
		for _, text := range []string{r.UserData, r.OrderID, "k"} {
			found := 0
			for row, err := range s.Find(t.Context(), text) {
				require.NoError(t, err)
				assert.Equal(t, r.UserData, row.UserData)
				found++
			}
			assert.Equal(t, 1, found)
		}
		counts, err := s.Counts(t.Context(), Filter{})
		require.NoError(t, err)
		assert.Equal(t, Counts{States: map[State]int64{StateCreated: 1202, StatePending: 1, StateRejected: 1}, Attention: 1}, counts)

		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		b, err := s.AddBatch(t.Context(), tx, Batch{ID: "hash", Name: "salaries.csv", ExpectedRows: 3, ExpectedTotal: ten})
		require.NoError(t, err)
		assert.Equal(t, "10.50", b.ExpectedTotal.String())
		require.NoError(t, s.AdvanceBatch(t.Context(), tx, "hash", 0, 2, false))
		require.ErrorIs(t, s.AdvanceBatch(t.Context(), tx, "hash", 0, 2, false), ErrChanged)
		require.NoError(t, tx.Commit())
		for b, err := range s.Batches(t.Context()) {
			require.NoError(t, err)
			assert.EqualValues(t, 2, b.Line)
		}
	})
}

func cursorAfter(t *testing.T, s *Store, n int) string {
	last := ""
	for r, err := range s.Rows(t.Context(), Filter{Limit: n}) {
		require.NoError(t, err)
		last = r.Cursor()
	}
	return last
}

// What a page shows, and what a round claims, is found by an index.
func TestPlansUseIndexes(t *testing.T) {
	db := sqlite(t)
	s := openStore(t, db, Config{})
	where := func(f Filter) string {
		text, _ := s.where(f, KindPayout, f.State)
		return `SELECT * FROM durable_rows WHERE ` + shift(text, 0) + ` ORDER BY created_at DESC, user_data DESC LIMIT 10`
	}
	after := "1.a"
	for _, query := range []string{
		where(Filter{State: StatePending, After: after}), where(Filter{Attention: true, After: after}),
		where(Filter{State: StatePending, Batch: "b", After: after}), strings.ReplaceAll(claimSQLite, "{kind}", "payout"),
		strings.ReplaceAll(claimSQLite, "{kind}", "payment"), giveBack + s.each("$1"),
	} {
		var steps []string
		rows, err := db.QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+s.sql.Replace(query), "1", "2", "3", "4", "5", "6")
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var a, b, c int
			var step string
			require.NoError(t, rows.Scan(&a, &b, &c, &step))
			steps = append(steps, step)
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
		plan := strings.Join(steps, "; ")
		assert.NotContains(t, plan, "SCAN durable_rows", query)
		assert.NotContains(t, plan, "TEMP B-TREE", query)
	}
}

func TestJudgeSaysWhatFollows(t *testing.T) {
	s := &Store{c: Config{AccountCodes: []string{"DRY"}}.withDefaults()}
	invalid := &paymentsvc.Error{Outcome: paymentsvc.OutcomeNotSent, Err: paymentsvc.ErrInvalidRequest}
	unknown := func(status int) error { return &paymentsvc.Error{HTTPStatus: status, Err: errors.New("a page")} }
	tests := []struct {
		name  string
		err   error
		is    fact
		pause pause
		kind  Kind
	}{
		{"rejected", refused(400, "E1"), factRefused, pauseEnd, KindPayout},
		{"unauthorized", refused(401, "E1"), factPostponed, pauseTimed, KindPayout},
		{"forbidden", refused(403, "E1"), factPostponed, pauseTimed, KindPayout},
		{"rate limit", refused(429, "E1"), factPostponed, pauseTimed, KindPayout},
		{"a proxy's 403", unknown(403), factUnknown, pauseTimed, KindPayout},
		{"a proxy's 402", unknown(402), factUnknown, pauseEndless, KindPayout},
		{"payment required", refused(402, "E1"), factPostponed, pauseEndless, KindPayout},
		{"account code", refused(400, "DRY"), factPostponed, pauseEndless, KindPayout},
		{"a payment's 402", refused(402, "E1"), factRefused, pauseEnd, KindPayment},
		{"not sent", notSent(), factNotSent, pauseTrouble, KindPayout},
		{"not sent with a status", &paymentsvc.Error{HTTPStatus: 402, Outcome: paymentsvc.OutcomeNotSent}, factNotSent, pauseTrouble, KindPayout},
		{"invalid", invalid, factRefused, pauseNone, KindPayout},
		{"lost", unanswered(""), factUnknown, pauseTrouble, KindPayout},
		{"not a Client's", errors.New("any"), factUnknown, pauseTrouble, KindPayout},
		{"not a Client's 401", fmt.Errorf("%w", paymentsvc.ErrUnauthorized), factUnknown, pauseTimed, KindPayout},
	}
	for _, tt := range tests {
		v := s.judge(job{kind: tt.kind, claims: 1}, tt.err)
		assert.Equal(t, []any{tt.is, tt.pause, false}, []any{v.is, v.pause, v.stuck}, tt.name)
	}
	v := s.judge(job{kind: KindPayout, claims: manyClaims}, refused(401, "E1"))
	assert.True(t, v.stuck)
	assert.Equal(t, longestWait, v.wait)
}

func TestMigrateTogether(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		driver := map[Dialect]string{SQLite: "sqlite", PostgreSQL: "pgx"}[db.dialect]
		address := db.address
		if db.dialect == SQLite {
			address = "file:" + t.TempDir() + "/new.db" + pragmas
		} else {
			_, err := db.ExecContext(t.Context(), `DROP SCHEMA public CASCADE; CREATE SCHEMA public`)
			require.NoError(t, err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				other, err := sql.Open(driver, address)
				if assert.NoError(t, err) {
					defer other.Close()
					other.SetMaxOpenConns(1)
					assert.NoError(t, Migrate(t.Context(), other))
				}
			})
		}
		wg.Wait()
	})
	db, err := sql.Open("sqlite", "file:"+t.TempDir()+"/empty.db"+pragmas)
	require.NoError(t, err)
	defer db.Close()
	_, err = Open(t.Context(), db, config(Config{}))
	require.ErrorIs(t, err, ErrSchema)
	_, err = Open(t.Context(), db, Config{Service: &service{}, Project: "p", Lease: time.Second})
	require.ErrorIs(t, err, ErrInvalid)
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1)} {
		require.ErrorIs(t, config(Config{PerSecond: rate}).withDefaults().check(), ErrInvalid)
	}
}
