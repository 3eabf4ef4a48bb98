package durable

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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

type spanKey struct{}

// tracer records the events of spans by the user_data of their rows.
type tracer struct {
	*service
	mu     sync.Mutex
	events map[string][]string
}

func (r *tracer) add(ctx context.Context, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	span, _ := ctx.Value(spanKey{}).(string)
	r.events[span] = append(r.events[span], fmt.Sprintf(format, args...))
}

func newTracer() *tracer {
	r := &tracer{service: &service{}, events: map[string][]string{}}
	r.call = func(ctx context.Context, _ string) error { r.add(ctx, "attempt"); return nil }
	return r
}

func outcome(err error) string {
	if err == nil {
		return "success"
	}
	if _, ok := errors.AsType[*paymentsvc.Error](err); ok {
		return paymentsvc.OutcomeOf(err).String()
	}
	return err.Error()
}

func (r *tracer) hooks() Hooks {
	return Hooks{
		Trace: func(ctx context.Context, endpoint, userData string) (context.Context, func(error)) {
			r.add(context.WithValue(ctx, spanKey{}, userData), "%s from %v", endpoint, ctx.Value(spanKey{}))
			ctx = context.WithValue(ctx, spanKey{}, userData)
			return ctx, func(err error) { r.add(ctx, "end: %s", outcome(err)) }
		},
		Call:   func(ctx context.Context, c Call) { r.add(ctx, "call: %s", outcome(c.Err)) },
		Change: func(ctx context.Context, _ Kind, from, to State) { r.add(ctx, "%s to %s", from, to) },
	}
}

func (r *tracer) onChange(ctx context.Context, _ *sql.Tx, e Event) error {
	r.add(ctx, "OnChange %s", e.To)
	return nil
}

func TestTraceConnectsACallWithItsConsequences(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		r := newTracer()
		s, clock := openClocked(t, db, Config{
			Service: r, Hooks: r.hooks(), OnChange: r.onChange, FinalState: finalState,
		})
		pay := context.WithValue(t.Context(), spanKey{}, "the request of the payer")
		var users []string
		for n, test := range []struct {
			err  error
			want []string
		}{
			{nil, []string{"call: success", "starting to pending", "end: success"}},
			{refused(400, "E17"), []string{
				"call: rejected", "OnChange rejected", "starting to rejected", "end: rejected",
			}},
			{unanswered(""), []string{"call: unknown", "starting to unknown", "end: unknown"}},
			{fmt.Errorf("a body with 4111111111111111: %w", errors.ErrUnsupported), []string{
				"call: durable: an error of type *fmt.wrapError", "starting to unknown",
				"end: durable: an error of type *fmt.wrapError",
			}},
		} {
			r.before = func(int, string) error { return test.err }
			row, err := s.Pay(pay, NewPayment{Key: fmt.Sprint("b", n), Type: paymentsvc.PaymentTypeCard, Amount: ten})
			require.NoError(t, err)
			payout := queue(t, s, payouts(fmt.Sprint("p", n), 1)...)[0].UserData
			_, err = s.RunBatch(context.WithValue(t.Context(), spanKey{}, "the job"), BatchLimit{})
			require.NoError(t, err)
			want := append([]string{"init_payment from the request of the payer", "attempt"}, test.want...)
			assert.Equal(t, want, r.events[row.UserData])
			want[0] = "init_payout from the job"
			assert.Equal(t, want, r.events[payout])
			users = append(users, row.UserData)
		}
		unknown := users[2]
		_, err := r.start(unknown)
		require.Error(t, err)
		r.before = nil
		_, err = r.start(unknown)
		require.NoError(t, err)
		r.status = says(StateSucceeded)
		before := len(r.events[unknown])
		pass(t, db, clock, 2*time.Second)
		require.NoError(t, s.Sweep(context.WithValue(t.Context(), spanKey{}, "the sweep")))
		assert.Equal(t, []string{
			"status_payment from the sweep", "attempt", "call: success", "OnChange succeeded", "unknown to succeeded",
			"end: success",
		}, r.events[unknown][before:])
	})
}

// The first record of the outcome fails, and the span ends once. The text of a driver's error may contain a response.
func TestTraceEndsOnceIfTheRecordFails(t *testing.T) {
	db := sqlite(t)
	r := newTracer()
	s := openStore(t, db, Config{Service: r, Hooks: r.hooks(), ChangeStates: States(), OnChange: r.onChange})
	db.Exec(t, `CREATE TRIGGER broken BEFORE UPDATE ON durable_rows WHEN NEW.state = 'pending'
		BEGIN SELECT RAISE(ABORT, 'no disk'); END`)
	_, j := claimed1(t, s, KindPayout, "a")
	result := s.call(t.Context(), j)
	require.ErrorContains(t, rounder{s}.Record(t.Context(), s.completion(result, 0)), "no disk")
	db.Exec(t, `DROP TRIGGER broken`)
	require.NoError(t, rounder{s}.Record(t.Context(), s.completion(result, 0)))
	events := r.events[j.UserData]
	require.Len(t, events, 6)
	assert.Equal(t, "end: durable: an error of type *sqlite.Error", events[3])
	assert.Equal(t, []string{"OnChange pending", "starting to pending"}, events[4:])
}

// A call that never began has no span.
func TestTraceBeginsWithTheCall(t *testing.T) {
	r := newTracer()
	s := openStore(t, sqlite(t), Config{Service: r, Hooks: r.hooks()})
	_, j := claimed1(t, s, KindPayout, "a")
	j.begun = j.begun.Add(-time.Hour)
	require.NoError(t, rounder{s}.Record(t.Context(), s.completion(s.call(t.Context(), j), 0)))
	assert.Equal(t, map[string][]string{"": {"starting to created"}}, r.events)
}

func TestClassifyDecidesResultAndPause(t *testing.T) {
	s := &Store{c: Config{InsufficientFundsCodes: []string{"DRY"}}.withDefaults()}
	invalid := &paymentsvc.Error{Outcome: paymentsvc.OutcomeNotSent, Err: paymentsvc.ErrInvalidRequest}
	unknown := func(status int) error { return &paymentsvc.Error{HTTPStatus: status, Err: errors.New("a page")} }
	tests := []struct {
		name   string
		err    error
		want   row.ResultKind
		effect effect
		kind   row.Kind
	}{
		{"rejected", refused(400, "E1"), row.RowRejected, responded, row.Payout},
		{"unauthorized", refused(401, "E1"), row.CallerRejected, pauseForTime, row.Payout},
		{"forbidden", refused(403, "E1"), row.CallerRejected, pauseForTime, row.Payout},
		{"rate limit", refused(429, "E1"), row.CallerRejected, pauseForTime, row.Payout},
		{"a proxy's 403", unknown(403), row.OutcomeUnknown, pauseForTime, row.Payout},
		{"a proxy's 402", unknown(402), row.OutcomeUnknown, pauseUntilResume, row.Payout},
		{"payment required", refused(402, "E1"), row.CallerRejected, pauseUntilResume, row.Payout},
		{"account code", refused(400, "DRY"), row.CallerRejected, pauseUntilResume, row.Payout},
		{"a payment's 402", refused(402, "E1"), row.RowRejected, responded, row.Payment},
		{"not sent", notSent(), row.NotSent, noResponse, row.Payout},
		{"not sent with a status", &paymentsvc.Error{HTTPStatus: 402, Outcome: paymentsvc.OutcomeNotSent}, row.NotSent,
			noResponse, row.Payout},
		{"invalid", invalid, row.RowRejected, noEffect, row.Payout},
		{"lost", unanswered(""), row.OutcomeUnknown, noResponse, row.Payout},
		{"a nil *Error", fmt.Errorf("x: %w", (*paymentsvc.Error)(nil)), row.OutcomeUnknown, noResponse, row.Payout},
		{"a nil *ServiceError", &paymentsvc.Error{Err: (*paymentsvc.ServiceError)(nil)}, row.OutcomeUnknown,
			noResponse, row.Payout},
		{"not a Client's", errors.New("any"), row.OutcomeUnknown, noResponse, row.Payout},
		{"not a Client's 401", fmt.Errorf("%w", paymentsvc.ErrUnauthorized), row.OutcomeUnknown, pauseForTime, row.Payout},
	}
	for _, tt := range tests {
		r := s.classify(job{Claim: ledger.Claim{Kind: tt.kind, Claims: 1}}, tt.err)
		assert.Equal(t, []any{tt.want, tt.effect, false}, []any{r.Kind, r.effect, r.Stuck}, tt.name)
	}
	r := s.classify(job{Claim: ledger.Claim{Kind: row.Payout, Claims: stuckClaims}}, refused(401, "E1"))
	assert.True(t, r.Stuck)
	assert.Equal(t, maxRetryAfter, r.Wait)
	require.EqualError(t, printable((*paymentsvc.Error)(nil)), "durable: an error of type *paymentsvc.Error")
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
	require.ErrorIs(t, NewPayment{Type: paymentsvc.PaymentTypeCard, Amount: ten}.check(), ErrInvalid, "without a key")
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

// A process that was suspended does not begin its call, because its monotonic clock may have stood still meanwhile.
func TestCallLooksAtTheWallClockToo(t *testing.T) {
	f := &service{}
	s := &Store{c: config(Config{Service: f}).withDefaults(), draining: t.Context()}
	begun := time.Now()
	later := begun.Add(time.Hour)
	(*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&later)).ext -= int64(time.Hour) //nolint:gosec // time cannot set the monotonic clock
	require.Zero(t, later.Sub(begun))
	s.now = func() time.Time { return later }
	assert.Equal(t, row.NotCalled, s.call(t.Context(), job{Claim: ledger.Claim{Kind: row.Payout, UserData: "u"},
		begun: begun}).Kind)
	assert.Zero(t, f.calls)
}

func TestAnswerWithoutAnOrderIDIsNoSuccess(t *testing.T) {
	s := openStore(t, sqlite(t), Config{Service: &service{order: func(string) string { return "" }}})
	r := s.call(t.Context(), job{Claim: ledger.Claim{Kind: row.Payout, UserData: "u"}, begun: s.now()})
	assert.Equal(t, []any{row.OutcomeUnknown, noResponse}, []any{r.Kind, r.effect})
	assert.NotEmpty(t, r.reason, "of a pause")
}

func TestReferenceOrKeyWithOtherValuesIsAConflict(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		p := payouts("a", 1)[0]
		card, amount := p, p
		card.Destination, amount.Amount = "5555555555554444", paymentsvc.MustParseAmount("1")
		queue(t, s, p)
		for _, one := range queue(t, s, card, amount) {
			require.ErrorIs(t, one.Err, ErrConflict)
		}
		again := queue(t, s, p)[0]
		require.NoError(t, again.Err)
		assert.False(t, again.New)
		first := pay(t, s, "basket")
		assert.Equal(t, first, pay(t, s, "basket"))
		assert.Equal(t, "https://pay.example/"+first.OrderID, first.RedirectURL)
		_, err := s.Pay(t.Context(), NewPayment{Key: "basket", Type: paymentsvc.PaymentTypeCard, Amount: amount.Amount})
		require.ErrorIs(t, err, ErrConflict)
	})
}

func TestCallGoesOnWhenItsCallerLeaves(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		var leave context.CancelFunc
		var ended error // of the call's context
		s := openStore(t, db, Config{Service: &service{call: func(ctx context.Context, _ string) error {
			leave()
			ended = ctx.Err()
			return nil
		}}})
		q := queue(t, s, payouts("a", 1)...)
		ctx, cancel := context.WithCancel(t.Context())
		leave = cancel
		_, _ = s.RunBatch(ctx, BatchLimit{})
		require.NoError(t, ended)
		assert.Equal(t, StatePending, get(t, s, q[0].UserData).State)
		ctx, cancel = context.WithCancel(t.Context())
		leave = cancel
		r, err := s.Pay(ctx, NewPayment{Key: "b", Type: paymentsvc.PaymentTypeCard, Amount: ten})
		require.NoError(t, err)
		waitUntil(t, func() bool { return get(t, s, r.UserData).State == StatePending })
		require.NoError(t, ended)
	})
}

// Pay may return an error, although its claim is committed later.
func TestPayWhoseCommitIsInDoubtIsReturned(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s := openStore(t, db, Config{Service: f})
		db.Exec(t, `ALTER TABLE durable_rows RENAME TO away`)
		_, err := s.Pay(t.Context(), NewPayment{Key: "b", Type: paymentsvc.PaymentTypeCard, Amount: ten})
		require.Error(t, err)
		_, err = s.insert(t.Context(), job{Claim: ledger.Claim{UserData: "u", Type: "card", Amount: ten, Token: "T"}}, "")
		require.Error(t, err)
		db.Exec(t, `ALTER TABLE away RENAME TO durable_rows`)
		r, _ := claimed1(t, s, KindPayment, "late")
		db.Exec(t, `UPDATE durable_claims SET token = 'T'`)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, StateCreated, get(t, s, r.UserData).State)
		assert.Zero(t, f.calls)
	})
}

// Logs, hooks, errors and texts do not contain the destination.
func TestNothingSecretIsShown(t *testing.T) {
	const secret = "4111111111111111"
	var out safeBuffer
	note := func(v any) {
		encoded, _ := json.Marshal(v)
		fmt.Fprintf(&out, "%v %+v %#v %s\n", v, v, v, encoded)
	}
	answers := []error{
		refused(400, "E"+secret), refused(400, secret), errors.New("to " + secret), unanswered(""),
		notSent(), refused(401, secret), nil,
		fmt.Errorf("to %s: %w", secret, unanswered("")), (*paymentsvc.Error)(nil),
	}
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(n int, _ string) error { return answers[n%len(answers)] }}
		log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		s := openStore(t, db, Config{Service: f, Slots: 1, Log: log, Hooks: Hooks{
			Call:   func(_ context.Context, c Call) { note(c); note(fmt.Sprint(c.Err)) },
			Change: func(_ context.Context, k Kind, from, to State) { note([]any{k, from, to}) },
			Round:  func(_ context.Context, r Round) { note(r) },
			Pause:  func(_ context.Context, reason string) { note(reason) },
			Trace: func(ctx context.Context, endpoint, userData string) (context.Context, func(error)) {
				note(endpoint + userData)
				return ctx, func(err error) { note(fmt.Sprint(err)) }
			},
		}})
		p := NewPayout{Reference: "r", Amount: ten, Destination: secret}
		note(p)
		queued := queue(t, s, p)
		note(queued)
		tx := begin(t, db.DB)
		other := p
		other.Amount = paymentsvc.MustParseAmount("1")
		queued, err := s.QueuePayouts(t.Context(), tx, other)
		require.NoError(t, err)
		require.ErrorIs(t, queued[0].Err, ErrConflict)
		note(queued[0].Err.Error())
		_, err = s.QueuePayouts(t.Context(), tx, NewPayout{Reference: "x", Destination: secret})
		require.ErrorIs(t, err, ErrInvalid)
		note(err.Error())
		require.NoError(t, tx.Rollback())
		for range answers {
			set(t, db, "", `state = 'created', order_id = '', may_have_started = 0, due_at = 0`)
			require.NoError(t, s.Resume(t.Context(), "person"))
			_, _ = s.RunBatch(t.Context(), BatchLimit{Rows: 1})
			for _, r := range collect(t, s.Rows(t.Context(), Filter{})) {
				assert.Equal(t, "1111", r.DestinationEnd)
				log.InfoContext(t.Context(), "row", "row", r)
				note(r)
			}
		}
		assert.NotContains(t, out.String(), secret)
	})
}
