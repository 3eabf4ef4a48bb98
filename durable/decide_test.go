package durable

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

func TestDecisionsFitTheState(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		queue(t, s, payouts("a", 2)...)
		id, other := derived("test", KindPayout, "a-0000"), derived("test", KindPayout, "a-0001")
		placed := func(columns string) Row {
			set(t, db, id, `order_id = '', order_id_taken = 0, review_reason = ''`)
			set(t, db, id, columns)
			return get(t, s, id)
		}
		set(t, db, other, `order_id = 'theirs'`)
		tests := []struct {
			columns, orderID string
			kind             DecisionKind
			want             State
			err              error
		}{
			{`state = 'unknown'`, "", DecideResend, StateCreated, nil},
			{`state = 'unknown', order_id = 'o'`, "", DecideResend, "", ErrUndecidable},
			{`state = 'unknown', order_id_taken = 1`, "", DecideResend, "", ErrUndecidable},
			{`state = 'rejected'`, "", DecideResend, StateCreated, nil},
			{`state = 'starting'`, "", DecideResend, "", ErrUndecidable},
			{`state = 'pending', order_id = 'o'`, "", DecideResend, "", ErrUndecidable},
			{`state = 'failed'`, "", DecideResend, "", ErrUndecidable},
			{`state = 'unknown'`, "", DecidePaid, StateSucceeded, nil},
			{`state = 'unknown'`, "theirs", DecidePaid, "", ErrOrderID},
			{`state = 'unknown', order_id = 'o'`, "p", DecideUnpaid, "", ErrOrderID},
			{`state = 'unknown'`, "o", DecideFound, StatePending, nil},
			{`state = 'unknown'`, "", DecideFound, "", ErrOrderID},
			{`state = 'unknown'`, "o", DecideResend, "", ErrOrderID},
			{`state = 'created'`, "", DecidePaid, "", ErrUndecidable},
			{`state = 'created', review_reason = 'stuck'`, "", DecideUnpaid, StateFailed, nil},
			{`state = 'succeeded', review_reason = 'two amounts'`, "", DecideAcknowledge, StateSucceeded, nil},
			{`state = 'succeeded'`, "", DecideUnpaid, "", ErrUndecidable},
		}
		for _, tt := range tests {
			r := placed(tt.columns)
			d := Decision{Kind: tt.kind, UserData: id, OrderID: tt.orderID, By: "person", Version: r.Version}
			err := s.Decide(t.Context(), d)
			require.ErrorIs(t, err, tt.err, "%v", tt)
			if tt.err != nil {
				continue
			}
			assert.Equal(t, tt.want, get(t, s, id).State, "%v", tt)
			assert.Empty(t, get(t, s, id).ReviewReason)
			require.ErrorIs(t, s.Decide(t.Context(), d), ErrChanged)
		}
		r := placed(`state = 'unknown', may_have_started = 0`)
		require.ErrorIs(t, s.Decide(t.Context(), Decision{Kind: DecideResend, UserData: id, Version: r.Version}), ErrInvalid)
		require.ErrorIs(t, s.Decide(t.Context(), Decision{Kind: DecideResend, UserData: "none", By: "person"}), ErrNotFound)
		_, err := s.HoldPayouts(t.Context(), "person", "restored")
		require.NoError(t, err)
		n, sum, err := s.DecideMany(t.Context(), Filter{State: StateUnknown}, Decision{Kind: DecideResend, By: "person"},
			false)
		require.NoError(t, err)
		assert.Equal(t, []any{1, "10.50"}, []any{n, sum.String()})
		assert.True(t, get(t, s, id).MayHaveStarted)
		assert.False(t, get(t, s, id).Held, "a person has asked: it is not held")
		decisions, err := s.Decisions(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, "person", decisions[0].By)
	})
}

// The service does not have the payout yet, because its request is late.
func TestResendWaitsForGrace(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(int, string) error { return unanswered("") }}
		clock := &clocks{process: time.Now().Add(time.Hour)}
		s := openShimmed(t, db, Config{Service: f}, clock)
		q := queue(t, s, payouts("a", 1)...)
		runBatch(t, s, nil)
		r := get(t, s, q[0].UserData)
		d := Decision{Kind: DecideResend, UserData: r.UserData, By: "person", Version: r.Version}
		setClock(t, db, clock.Now().Add(s.c.Grace-time.Millisecond))
		require.ErrorIs(t, s.Decide(t.Context(), d), ErrUndecidable)
		setClock(t, db, clock.Now().Add(s.c.Grace))
		require.NoError(t, s.Decide(t.Context(), d))
		assert.Equal(t, StateCreated, get(t, s, r.UserData).State)
	})
}

func TestClassify(t *testing.T) {
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
		{"a proxy's 402", unknown(402), row.OutcomeUnknown, pauseEndless, row.Payout},
		{"payment required", refused(402, "E1"), row.CallerRejected, pauseEndless, row.Payout},
		{"account code", refused(400, "DRY"), row.CallerRejected, pauseEndless, row.Payout},
		{"a payment's 402", refused(402, "E1"), row.RowRejected, responded, row.Payment},
		{"not sent", notSent(), row.NotSent, noResponse, row.Payout},
		{"not sent with a status", &paymentsvc.Error{HTTPStatus: 402, Outcome: paymentsvc.OutcomeNotSent}, row.NotSent,
			noResponse, row.Payout},
		{"invalid", invalid, row.RowRejected, noEffect, row.Payout},
		{"lost", unanswered(""), row.OutcomeUnknown, noResponse, row.Payout},
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
}

// deaf is a client without a DecodeError.
type deaf struct{ *service }

func (deaf) DecodesErrors() bool { return false }

func TestMigrateTogether(t *testing.T) {
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
		"Config.Grace is 2m59.999999999s, want at least Config.Timeout and 2m0s")
	grace.Grace = 0
	assert.Equal(t, 3*time.Minute, config(grace).withDefaults().Grace)
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1)} {
		require.ErrorIs(t, config(Config{PerSecond: rate}).withDefaults().check(), ErrInvalid)
	}
}
