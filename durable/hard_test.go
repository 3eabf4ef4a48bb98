package durable

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
	"unicode"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// A connection that is taken, by an import or a page, holds nobody up for longer than the caller's context.
func TestWaitForTheConnectionEndsWithTheContext(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		db.SetMaxOpenConns(1)
		s := openStore(t, db, Config{})
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }()
		n := notice(paymentsvc.EventPayoutStatusChanged, "u", "o", success)
		for name, f := range map[string]func(context.Context) error{
			"Ready":     s.Ready,
			"Drained":   s.Drained,
			"reconcile": s.reconcile,
			"ApplyNotice": func(ctx context.Context) error {
				return s.ledger.ApplyNotice(ctx, ledger.Notice{Key: n.Key(), OrderID: "o"}, true)
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			begun := time.Now()
			require.Error(t, f(ctx), name)
			assert.Less(t, time.Since(begun), ledger.Patience, name)
			cancel()
		}
	})
}

// A replica that lags shows neither what is in flight nor a pause.
func TestStatusIsNotReadFromAReplica(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		replica := sqlite(t)
		if !db.SQLite {
			replica = postgres(t)
		}
		s := openStore(t, db, Config{ReadDB: replica.DB})
		require.NoError(t, s.Pause(t.Context(), "person", "month's end"))
		queue(t, s, payouts("a", 1)...)
		set(t, db, "", `state = 'starting'`)
		got := status(t, s)
		assert.True(t, got.Paused)
		assert.EqualValues(t, 1, got.Starting)
	})
}

// Release commits in parts: what fails half-way is reported with the number, and goes on later.
func TestReleaseGoesOnWhereItFailed(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		for _, statement := range []string{
			`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
				INSERT INTO durable_rows (kind, user_data, reference, amount, state, generation, due_at, created_at, updated_at)
				SELECT 'payout', 'user-' || i, 'r-' || i, '10.50', 'created', CASE WHEN i = 1 THEN 0 ELSE 1 END, i,
					12000 - i, 0 FROM n`,
			`INSERT INTO durable_queue SELECT kind, generation, due_at, user_data, created_at FROM durable_rows`,
			`UPDATE durable_control SET generation = 2`,
			`CREATE UNIQUE INDEX fails ON durable_rows (generation) WHERE reference IN ('r-1', 'r-12000')`,
		} {
			db.Exec(t, statement)
		}
		n, err := s.Release(t.Context(), "person", Filter{})
		require.ErrorContains(t, err, "constraint")
		assert.Equal(t, 10000, n)
		db.Exec(t, `DROP INDEX fails`)
		n, err = s.Release(t.Context(), "person", Filter{})
		require.NoError(t, err)
		assert.Equal(t, 2000, n)
	})
}

func TestErrorCodeContainsNoSpellingOfADestination(t *testing.T) {
	for code, destination := range map[string]string{
		"bad_card:4111111111111111":     "4111 1111 1111 1111",
		"bad:4111-1111-1111-1111":       "4111111111111111",
		"to:12025550123":                "+1 202 555 0123",
		"iban:DE89370400440532013000":   "de89370400440532013000",
		"iban:de89-3704-0044.0532.0130": "DE893704004405320130",
	} {
		assert.Equal(t, "HTTP 422", errorCode(refused(422, code), destination), code)
		assert.Equal(t, code, errorCode(refused(422, code), "4222222222222"))
	}
}

func TestInvisibleSpellingsAreRejected(t *testing.T) {
	for _, r := range "\ufe0f\u034f\u3164\u115f\u2800\u0301\u20dd\u200b\u00ad\u2028\t\U000e0100" {
		name := fmt.Sprintf("%U", r)
		text := "a" + string(r) + "b"
		for _, p := range []NewPayout{
			{Reference: text, Amount: ten, Destination: "x"}, {Reference: "x", Amount: ten, Destination: text},
		} {
			require.ErrorIs(t, p.check(), ErrInvalid, name)
		}
		require.ErrorIs(t, NewPayment{Key: text, Type: paymentsvc.PaymentTypeCard, Amount: ten}.check(), ErrInvalid, name)
	}
	for _, text := range []string{"März 2026/7", "зарплата №5", "給与 1"} {
		require.NoError(t, NewPayout{Reference: text, Amount: ten, Destination: text}.check())
	}
	for r := range unicode.MaxRune + 1 {
		text, parts := string(r), norm.NFD.String(string(r))
		if text != parts && !ambiguous(text) && !ambiguous(parts) || text != norm.NFC.String(text) && !ambiguous(text) {
			t.Errorf("two spellings of %U are accepted", r)
		}
	}
}

// A process that was suspended does not begin its call: its stopwatch may have stood still meanwhile.
func TestCallLooksAtTheWallClockToo(t *testing.T) {
	f := &service{}
	s := &Store{c: config(Config{Service: f}).withDefaults(), draining: t.Context()}
	begun := time.Now()
	later := begun.Add(time.Hour)
	(*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&later)).ext -= int64(time.Hour) //nolint:gosec // package time has no other way to set the stopwatch
	require.Zero(t, later.Sub(begun))
	s.now = func() time.Time { return later }
	assert.Equal(t, row.NotCalled, s.call(t.Context(), job{Claim: ledger.Claim{Kind: row.Payout, UserData: "u"},
		begun: begun}).Kind)
	assert.Zero(t, f.calls)
}

func TestLeaseTimerMeasuresOneClaim(t *testing.T) {
	var timer leaseTimer
	now := time.Now()
	claim := row.Claim{UserData: "u", Claims: 1, ClaimedAt: 5}
	timer.since(claim, now)
	assert.Zero(t, timer.since(row.Claim{UserData: "u", Claims: 2, ClaimedAt: 6}, now.Add(time.Hour)))
	assert.Equal(t, time.Hour, timer.since(claim, now.Add(time.Hour)))
}

func TestPauseOfAPersonOutlastsWhatCallsReport(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{MaxConsecutiveRejections: 1})
		require.NoError(t, s.Pause(t.Context(), "person", "month's end"))
		for _, r := range []callResult{
			{Result: row.Result{Kind: row.CallerRejected}, effect: pauseEndless, reason: "dry"},
			{Result: row.Result{Kind: row.RowRejected, Code: "E1"}, effect: responded},
			{effect: pauseForTime, reason: "no response"},
		} {
			r.job = job{Claim: ledger.Claim{Kind: row.Payout, UserData: "u", Token: "T"}}
			require.NoError(t, s.applyEffects(t.Context(), r))
			got := status(t, s)
			assert.Equal(t, "person: month's end", got.By+": "+got.Reason)
			assert.True(t, got.Paused)
			assert.Zero(t, got.Until)
		}
	})
}

func TestPauseIsEndedByItsOwnProbeAlone(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		db.Exec(t, pauseForTenMinutes())
		until := func() time.Time {
			return status(t, s).Until
		}
		want := until()
		assert.False(t, want.IsZero())
		for _, e := range []effect{responded, noEffect, pauseForTime} {
			late := job{Claim: ledger.Claim{Kind: row.Payout, UserData: "u", Token: "old"}, probe: true}
			require.NoError(t, s.applyEffects(t.Context(), callResult{job: late, Result: row.Result{Kind: row.CallerRejected},
				effect: e}))
			assert.Equal(t, want, until(), e)
		}
	})
}

func TestReadyReadsWhatItWrote(t *testing.T) {
	db := sqlite(t)
	s := openStore(t, db, Config{})
	require.NoError(t, s.Ready(t.Context()))
	db.Exec(t, `CREATE TRIGGER lost AFTER UPDATE OF heartbeat ON durable_control
		BEGIN UPDATE durable_control SET heartbeat = 0; END`)
	require.ErrorContains(t, s.Ready(t.Context()), "what was written is not there")
}

// nameless starts payouts and returns no order_id.
type nameless struct{ *service }

func (nameless) InitPayout(context.Context, paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
	return &paymentsvc.InitPayoutResponse{}, nil
}

func TestAnswerWithoutAnOrderIDIsNoSuccess(t *testing.T) {
	s := openStore(t, sqlite(t), Config{})
	s.c.Service = nameless{}
	r := s.call(t.Context(), job{Claim: ledger.Claim{Kind: row.Payout, UserData: "u"}, begun: s.now()})
	assert.Equal(t, []any{row.OutcomeUnknown, noResponse}, []any{r.Kind, r.effect})
}

// Every change repeats the state and the version, and takes the row from the queue, whoever locks the row.
func TestRowThatHasChangedIsNotSaved(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		queue(t, s, payouts("a", 1)...)
		id := derived("test", KindPayout, "a-0000")
		for _, change := range []string{
			`UPDATE durable_rows SET state = 'unknown'`, `UPDATE durable_rows SET version = version + 1`,
			`DELETE FROM durable_queue`, ``,
		} {
			err := s.ledger.Change(t.Context(), id, "", func(ctx context.Context, tx *ledger.Tx, r *row.Row) error {
				r.State = row.Failed
				_, err := tx.ExecContext(ctx, change)
				return err
			})
			if change == `` {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, ErrChanged, change)
		}
	})
}

// A claim that another process has taken over or released is not ended.
func TestClaimOfAnotherTokenIsNotChanged(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		queue(t, s, payouts("a", 1)...)
		j := claim(t, s, 1, 0, "T")[0]
		err := s.ledger.Change(t.Context(), j.UserData, "", func(ctx context.Context, tx *ledger.Tx, r *row.Row) error {
			_, err := tx.ExecContext(ctx, `UPDATE durable_claims SET token = 'another'`)
			return errors.Join(err, r.EndLease("T"))
		})
		require.ErrorIs(t, err, ErrChanged)
		require.NoError(t, s.settle(t.Context(), j, started("o")), "a success needs no claim")
		assert.Equal(t, StatePending, get(t, s, j.UserData).State)
	})
}
