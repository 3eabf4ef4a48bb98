package durable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// A restored backup has forgotten rows whose notifications still come: what they report is not paid again.
func TestNotificationBeforeItsRowIsApplied(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		clock := &clocks{process: time.Now()}
		s := openShimmed(t, db, Config{Service: f}, clock)
		names := map[string]State{}
		tell := func(k Kind, e paymentsvc.EventType, reference string, state State) string {
			userData := derived("test", k, reference)
			require.NoError(t, s.Notified(t.Context(), notice(e, userData, "order of "+reference, success)))
			names[userData] = state
			return userData
		}
		payout := tell(KindPayout, paymentsvc.EventPayoutStatusChanged, "a-0000", StateSucceeded)
		tell(KindPayment, paymentsvc.EventPaymentStatusChanged, "queued", StateSucceeded)
		tell(KindPayment, paymentsvc.EventPaymentStatusChanged, "paid", StateSucceeded)
		tell(KindPayment, paymentsvc.EventRefundStatusChanged, "refunded", StatePending)
		for _, key := range []string{"paid", "refunded"} {
			r := pay(t, s, key)
			assert.Equal(t, names[r.UserData], r.State)
		}
		pass(t, db, clock, 48*time.Hour)
		require.NoError(t, s.Sweep(t.Context()))
		_, err := s.HoldPayouts(t.Context(), "person", "restored")
		require.NoError(t, err)
		queue(t, s, payouts("a", 1)...)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = s.QueuePayments(t.Context(), tx, NewPayment{Key: "queued", Type: paymentsvc.PaymentTypeCard, Amount: ten})
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		n, err := s.Release(t.Context(), "person", Filter{})
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		runBatch(t, s, nil)
		_, err = db.ExecContext(t.Context(), `UPDATE durable_control SET pause_until = 1`) // a probe asks too
		require.NoError(t, err)
		runBatch(t, s, nil)
		assert.Zero(t, f.calls)
		r := get(t, s, payout)
		assert.Equal(t, StateCreated, r.State)
		set(t, db, payout, `state = 'unknown'`)
		require.ErrorIs(t, s.Decide(t.Context(), Decision{Kind: DecideResend, UserData: payout, By: "person",
			Version: r.Version}),
			ErrUndecidable)
		require.NoError(t, s.Sweep(t.Context()))
		for userData, state := range names {
			assert.Equal(t, state, get(t, s, userData).State)
		}
		assert.Zero(t, f.calls)
	})
}

func TestNotificationWithAnotherUserDataNeedsReview(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		q := queue(t, s, payouts("a", 1)...)
		runBatch(t, s, nil)
		r := get(t, s, q[0].UserData)
		require.NoError(t, s.Notified(t.Context(), notice(paymentsvc.EventPayoutStatusChanged, "a stranger's", r.OrderID,
			failure)))
		r = get(t, s, q[0].UserData)
		assert.Equal(t, StatePending, r.State)
		assert.Contains(t, r.ReviewReason, "another user_data")
	})
}
