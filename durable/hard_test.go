package durable

import (
	"context"
	"fmt"
	"testing"
	"time"
	"unicode"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"github.com/paymentsvc/paymentsvc"
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
			"Ready":   s.Ready,
			"Drained": s.Drained,
			"ask": func(ctx context.Context) error {
				if db.dialect == PostgreSQL {
					return context.DeadlineExceeded // there it waits for patience
				}
				return s.ask(ctx)
			},
			"applyNotice": func(ctx context.Context) error { return s.applyNotice(ctx, Notice{Key: n.Key(), OrderID: "o"}, true) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			begun := time.Now()
			require.Error(t, f(ctx), name)
			assert.Less(t, time.Since(begun), patience, name)
			cancel()
		}
	})
}

// A replica that lags shows neither what is in flight nor a pause.
func TestStatusIsNotReadFromAReplica(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		replica := sqlite(t)
		if db.dialect == PostgreSQL {
			replica = postgres(t)
		}
		s := openStore(t, db, Config{ReadDB: replica.DB})
		require.NoError(t, s.Pause(t.Context(), "person", "month's end"))
		queue(t, s, payouts("a", 1)...)
		_, err := db.ExecContext(t.Context(), `UPDATE durable_rows SET state = 'starting'`)
		require.NoError(t, err)
		status, err := s.Status(t.Context())
		require.NoError(t, err)
		assert.True(t, status.Paused)
		assert.EqualValues(t, 1, status.Starting)
	})
}

// Release commits in parts: what fails half-way is reported with the number, and goes on later.
func TestReleaseGoesOnWhereItFailed(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		for _, statement := range []string{
			`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
				INSERT INTO durable_rows (kind, user_data, reference, amount, state, generation, due_at, created_at, updated_at)
				SELECT 'payout', 'user-' || i, 'r-' || i, '10.50', 'created', CASE WHEN i = 1 THEN 0 ELSE 1 END, i, 0, 0 FROM n`,
			`UPDATE durable_control SET generation = 2`,
			`CREATE UNIQUE INDEX fails ON durable_rows (generation) WHERE reference IN ('r-1', 'r-12000')`,
		} {
			_, err := db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		n, err := s.Release(t.Context(), "person", Filter{})
		require.Error(t, err)
		assert.Equal(t, 10000, n)
		_, err = db.ExecContext(t.Context(), `DROP INDEX fails`)
		require.NoError(t, err)
		n, err = s.Release(t.Context(), "person", Filter{})
		require.NoError(t, err)
		assert.Equal(t, 2000, n)
	})
}

// Processes that may read different parts of the server's fingerprint do not hold in turn.
func TestFingerprintsCompareWhatBothMayRead(t *testing.T) {
	db := postgres(t)
	for _, statement := range []string{
		`CREATE SCHEMA fewer`,
		`CREATE FUNCTION fewer.pg_control_system() RETURNS TABLE (system_identifier BIGINT) LANGUAGE sql AS 'SELECT (1 / 0)::BIGINT'`,
		`CREATE FUNCTION fewer.pg_current_wal_lsn() RETURNS pg_lsn LANGUAGE sql AS $$ SELECT (1 / 0)::TEXT::pg_lsn $$`,
		`CREATE FUNCTION fewer.pg_postmaster_start_time() RETURNS TEXT LANGUAGE sql AS $$ SELECT (1 / 0)::TEXT $$`,
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	fewer := opened(t, PostgreSQL, db.address+"&search_path=fewer,pg_catalog,public")
	var stores []*Store
	for _, with := range []database{fewer, db, fewer} {
		stores = append(stores, openStore(t, with, Config{}))
	}
	assert.NotContains(t, stores[0].moved, "system")
	assert.NotContains(t, stores[0].here, "postmaster")
	var zones [2]string
	for i, zone := range []string{"UTC", "Asia/Tokyo"} {
		require.NoError(t, opened(t, PostgreSQL, db.address+"&TimeZone="+zone).
			QueryRowContext(t.Context(), `SELECT `+stores[1].here+` FROM durable_control`).Scan(&zones[i]))
	}
	assert.Equal(t, zones[0], zones[1])
	for i, s := range stores[:2] {
		queue(t, s, payouts(fmt.Sprint("a", i), 20)...)
		s.server = "" // as after a restart of the server
		n, err := s.Turn(t.Context(), Limit{})
		require.NoError(t, err)
		assert.Equal(t, 20, n)
	}
	held := func() bool {
		for _, s := range stores {
			_, _ = s.Turn(t.Context(), Limit{})
		}
		status, err := stores[0].Status(t.Context())
		require.NoError(t, err)
		return status.Hold
	}
	assert.False(t, held())
	for _, change := range []string{
		`fingerprint = replace(fingerprint, '/system=', '/system=9')`, `fingerprint = replace(fingerprint, '/table=', '/table=9')`,
		`timeline = '000000AA'`,
	} {
		_, err := db.ExecContext(t.Context(), `UPDATE durable_control SET hold = 0, `+change)
		require.NoError(t, err)
		assert.True(t, held(), change)
		stores[1] = openStore(t, db, Config{})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, stores[1].readable(ended), "no answer is not a lack of rights")
}

func TestRefusalRepeatsNoSpellingOfADestination(t *testing.T) {
	for code, destination := range map[string]string{
		"bad_card:4111111111111111":     "4111 1111 1111 1111",
		"bad:4111-1111-1111-1111":       "4111111111111111",
		"to:12025550123":                "+1 202 555 0123",
		"iban:DE89370400440532013000":   "de89370400440532013000",
		"iban:de89-3704-0044.0532.0130": "DE893704004405320130",
	} {
		assert.Equal(t, "HTTP 422", refusal(refused(422, code), destination), code)
		assert.Equal(t, code, refusal(refused(422, code), "4222222222222"))
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
	s := &Store{c: config(Config{Service: f}).withDefaults()}
	begun := time.Now()
	later := begun.Add(time.Hour)
	(*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&later)).ext -= int64(time.Hour) //nolint:gosec // package time has no other way to set the stopwatch
	require.Zero(t, later.Sub(begun))
	s.now = func() time.Time { return later }
	assert.Equal(t, factUnbegun, s.call(t.Context(), job{kind: KindPayout, userData: "u", begun: begun}).is)
	assert.Zero(t, f.calls)
}

func TestWatchIsOfOneClaim(t *testing.T) {
	var w watch
	now := time.Now()
	w.since("u", "T", now)
	assert.Zero(t, w.since("u", "U", now.Add(time.Hour)))
	assert.Equal(t, time.Hour, w.since("u", "T", now.Add(time.Hour)))
}

func TestPauseOfAPersonOutlastsWhatCallsReport(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{EqualRefusals: 1})
		require.NoError(t, s.Pause(t.Context(), "person", "month's end"))
		for _, v := range []verdict{
			{is: factPostponed, pause: pauseEndless, reason: "dry"}, {is: factRefused, pause: pauseEnd, code: "E1"},
			{pause: pauseTimed, reason: "no answer"},
		} {
			require.NoError(t, s.onlyConsequences(t.Context(), job{kind: KindPayout, userData: "u", token: "T"}, v))
			status, err := s.Status(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "person: month's end", status.By+": "+status.Reason)
			assert.True(t, status.Paused)
			assert.Zero(t, status.Until)
		}
	})
}

func TestPauseIsEndedByItsOwnProbeAlone(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		_, err := db.ExecContext(t.Context(), `UPDATE durable_control SET pause_until = 9000000000000, probe = 'T'`)
		require.NoError(t, err)
		for _, p := range []pause{pauseEnd, pauseNone, pauseTimed} {
			late := job{kind: KindPayout, userData: "u", token: "old", probe: true}
			require.NoError(t, s.onlyConsequences(t.Context(), late, verdict{is: factPostponed, pause: p}))
			status, err := s.Status(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, 9000000000000, status.Until.UnixMilli(), p)
		}
	})
}

func TestReadyReadsWhatItWrote(t *testing.T) {
	db := sqlite(t)
	s := openStore(t, db, Config{})
	require.NoError(t, s.Ready(t.Context()))
	_, err := db.ExecContext(t.Context(), `CREATE TRIGGER lost AFTER UPDATE OF heartbeat ON durable_control
		BEGIN UPDATE durable_control SET heartbeat = 0; END`)
	require.NoError(t, err)
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
	v := s.call(t.Context(), job{kind: KindPayout, userData: "u", begun: s.now()})
	assert.Equal(t, []any{factUnknown, pauseTrouble}, []any{v.is, v.pause})
}
