package durable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
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
		assert.Equal(t, 1, decideAll(t, s, Filter{State: StateUnknown}, DecideResend))
		assert.True(t, get(t, s, id).MayHaveStarted)
		assert.False(t, get(t, s, id).Held, "a person has asked: it is not held")
		decisions, err := s.Decisions(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, "ada", decisions[0].By)
	})
}

// The service does not have the rows yet, because their requests are late. An operator refunds what is unpaid.
func TestUnpaidWaitsForGrace(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(int, string) error { return unanswered("") }}
		clock := &clocks{process: time.Now().Add(time.Hour)}
		s := openShimmed(t, db, Config{Service: f}, clock)
		payment, payout := pay(t, s, "").UserData, queue(t, s, payouts("a", 1)...)[0].UserData
		runBatch(t, s, nil)
		decide := func(userData string, kind DecisionKind) error {
			d := Decision{Kind: kind, UserData: userData, By: "person", Version: get(t, s, userData).Version}
			return s.Decide(t.Context(), d)
		}
		pass(t, db, clock, s.c.Grace-time.Millisecond)
		for _, r := range collect(t, s.Rows(t.Context(), Filter{})) {
			assert.False(t, DecideUnpaid.Allowed(r))
			assert.True(t, DecidePaid.Allowed(r))
			require.ErrorIs(t, decide(r.UserData, DecideUnpaid), ErrUndecidable)
		}
		pass(t, db, clock, time.Millisecond)
		assert.Equal(t, 2, decideAll(t, s, Filter{}, DecideUnpaid))

		_, err := s.HoldPayouts(t.Context(), "person", "restored")
		require.NoError(t, err)
		never := queue(t, s, payouts("b", 2)...)
		require.NoError(t, decide(never[0].UserData, DecideUnpaid), "it was never claimed")
		lost := notice(paymentsvc.EventPayoutStatusChanged, never[1].UserData, "o", paymentsvc.StatusSuccess)
		require.NoError(t, s.ledger.StoreNotice(t.Context(), ledger.Notice{
			Key: "k", Event: lost.Event, OrderID: lost.OrderID, UserData: lost.UserData, Amount: ten,
			StatusDescription: lost.StatusDescription,
		}))
		require.ErrorIs(t, decide(never[1].UserData, DecideUnpaid), ErrUndecidable, "a notification is not applied yet")
		set(t, db, payment, `state = 'unknown', order_id = 'known', claimed_at = due_at + 1000000`)
		require.NoError(t, decide(payment, DecideUnpaid), "the service has it")
		assert.Equal(t, StateFailed, get(t, s, payout).State)
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
		listed := func() Row { return collect(t, s.Rows(t.Context(), Filter{}))[0] }
		setClock(t, db, clock.Now().Add(s.c.Grace-time.Millisecond))
		require.ErrorIs(t, s.Decide(t.Context(), d), ErrUndecidable)
		assert.Equal(t, r.ClaimedAt.Add(s.c.Grace), listed().ResendAt)
		assert.False(t, DecideResend.Allowed(listed()))
		for _, columns := range []string{`order_id = 'o'`, `order_id = '', order_id_taken = 1`} {
			set(t, db, r.UserData, columns)
			assert.Zero(t, listed().ResendAt, "it can never be sent again")
		}
		set(t, db, r.UserData, `order_id_taken = 0`)
		setClock(t, db, clock.Now().Add(s.c.Grace))
		assert.True(t, DecideResend.Allowed(listed()))
		require.NoError(t, s.Decide(t.Context(), d))
		assert.Equal(t, StateCreated, get(t, s, r.UserData).State)

		runBatch(t, s, nil)
		d.Version = get(t, s, r.UserData).Version
		setClock(t, db, clock.Now().Add(-time.Hour)) // the clock was wrong during the second call
		require.ErrorIs(t, s.Decide(t.Context(), d), ErrUndecidable)
		assert.Equal(t, clock.Now().Add(s.c.Grace-time.Hour).UnixMilli(), listed().ResendAt.UnixMilli())
		clock.Add(s.c.Grace)
		require.NoError(t, s.Decide(t.Context(), d))
	})
}

func (deaf) DecodesErrors() bool { return false }
