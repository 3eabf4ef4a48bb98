package durable

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecisionsFitTheState(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		queue(t, s, payouts("a", 2)...)
		id, other := derived("test", KindPayout, "a-0000"), derived("test", KindPayout, "a-0001")
		placed := func(columns string) Row {
			set(t, db, id, `order_id = '', order_id_taken = 0, review_reason = '', claimed_at = 0`)
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
			{`state = 'unknown', order_id = 'o', claimed_at = due_at`, "", DecideUnpaid, StateFailed, nil},
			{`state = 'unknown', claimed_at = due_at`, "", DecideUnpaid, "", ErrUndecidable},
			{`state = 'unknown'`, "", DecideUnpaid, StateFailed, nil}, // never claimed
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
		hold(t, s)
		db.Exec(t, `UPDATE durable_rows SET claimed_at = 0`) // Grace has ended
		assert.Equal(t, 1, decideAll(t, s, Filter{State: StateUnknown}, DecideResend))
		assert.True(t, get(t, s, id).MayHaveStarted)
		assert.False(t, get(t, s, id).Held, "it is not held, because an operator has decided")
		decisions, err := s.Decisions(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, "ada", decisions[0].By)
	})
}

// The service does not have the rows yet, because their requests are late.
func TestResendAndUnpaidWaitForGrace(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(int, string) error { return unanswered("") }}
		s, clock := openClocked(t, db, Config{Service: f})
		payment, q := pay(t, s, ""), send(t, s, payouts("a", 1)...)
		r := get(t, s, q[0].UserData)
		d := Decision{Kind: DecideResend, UserData: r.UserData, By: "person", Version: r.Version}
		unpaid, refund := d, Decision{Kind: DecideUnpaid, UserData: payment.UserData, By: "person", Version: payment.Version}
		unpaid.Kind = DecideUnpaid
		listed := func() Row { return collect(t, s.Rows(t.Context(), Filter{Kind: KindPayout}))[0] }
		setClock(t, db, clock.Now().Add(s.c.Grace-time.Millisecond))
		for _, early := range []Decision{d, unpaid, refund} {
			require.ErrorIs(t, s.Decide(t.Context(), early), ErrUndecidable)
		}
		assert.Equal(t, r.ClaimedAt.Add(s.c.Grace), listed().ResendAt)
		assert.False(t, DecideResend.Allowed(listed()) || DecideUnpaid.Allowed(listed()))
		assert.True(t, DecidePaid.Allowed(listed()))
		for _, columns := range []string{`order_id = 'o'`, `order_id = '', order_id_taken = 1`} {
			set(t, db, r.UserData, columns)
			assert.Zero(t, listed().ResendAt, "it can never be sent again")
		}
		set(t, db, r.UserData, `order_id_taken = 0`)
		setClock(t, db, clock.Now().Add(s.c.Grace))
		assert.True(t, DecideResend.Allowed(listed()) && DecideUnpaid.Allowed(listed()))
		require.NoError(t, errors.Join(s.Decide(t.Context(), d), s.Decide(t.Context(), refund)))
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

// A restored backup has the same version of a payout, but lacks a later decision of another operator.
func TestDecisionFromBeforeAHoldIsRejected(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(int, string) error { return refused(400, "limit") }}
		s, clock := openClocked(t, db, Config{Service: f})
		r := get(t, s, send(t, s, payouts("a", 1)...)[0].UserData)
		d := Decision{Kind: DecideResend, UserData: r.UserData, By: "ada", Version: r.Version}
		hold(t, s)
		pass(t, db, clock, s.c.Grace)
		require.ErrorIs(t, s.Decide(t.Context(), d), ErrChanged)
		d.Version = get(t, s, r.UserData).Version
		require.NoError(t, s.Decide(t.Context(), d))
	})
}

// A hold is committed after the decision has compared the time of the last hold. The payout then belongs to the older
// generation, so it is held.
func TestResendDuringAHoldIsHeld(t *testing.T) {
	db := postgres(t)
	f := &service{before: func(int, string) error { return refused(400, "limit") }}
	s := openStore(t, db, Config{Service: f})
	q := send(t, s, payouts("a", 1)...)
	r := get(t, s, q[0].UserData)
	require.Equal(t, StateRejected, r.State)
	// The lock stops Decide after it has compared the hold.
	lock := begin(t, db.DB, `LOCK TABLE durable_notifications IN ACCESS EXCLUSIVE MODE`)
	decided := make(chan error, 1)
	go func() {
		decided <- s.Decide(t.Context(), Decision{Kind: DecideResend, UserData: r.UserData, By: "ada", Version: r.Version})
	}()
	waitUntil(t, func() bool { return db.Number(t, waiters) > 0 })
	_, err := s.HoldPayouts(t.Context(), "ada", "a restore")
	require.NoError(t, err)
	require.NoError(t, lock.Commit())
	require.NoError(t, <-decided)
	assert.True(t, get(t, s, r.UserData).Held)
	runBatch(t, s, ErrHeld)
	assert.Equal(t, 1, f.calls)
}

// The service has reported a success without a user_data, which is optional (section 6). OnChange has failed, so the
// notification waits. An operator must not make the row failed.
func TestUnpaidWaitsForANotificationOfTheOrder(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		var fails error
		var states []State
		s := openStore(t, db, Config{OnChange: func(_ context.Context, _ *sql.Tx, e Event) error {
			if fails == nil {
				states = append(states, e.To)
			}
			return fails
		}})
		paid := pay(t, s, "k")
		require.Equal(t, StatePending, paid.State)
		fails = errors.New("the shop is closed")
		require.Error(t, s.Notified(t.Context(), notice(paymentChanged, "", paid.OrderID, success)))
		fails = nil
		paid = get(t, s, paid.UserData)
		d := Decision{Kind: DecideUnpaid, UserData: paid.UserData, By: "ada", Version: paid.Version}
		require.ErrorIs(t, s.Decide(t.Context(), d), ErrUndecidable)
		assert.Empty(t, states)

		// The operator names the order_id of an unknown row.
		require.NoError(t, s.Notified(t.Context(), notice(paymentChanged, "", "another", success)), "it waits for its row")
		set(t, db, paid.UserData, `state = 'unknown', order_id = '', claimed_at = 0`)
		d.Version, d.OrderID = get(t, s, paid.UserData).Version, "another"
		require.ErrorIs(t, s.Decide(t.Context(), d), ErrUndecidable)
		assert.Empty(t, states)
	})
}
