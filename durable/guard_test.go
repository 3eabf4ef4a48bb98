package durable

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
)

func TestReferenceOrKeyWithOtherValuesIsAConflict(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
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
		pay := NewPayment{Key: "basket", Type: paymentsvc.PaymentTypeCard, Amount: ten}
		first, err := s.Pay(t.Context(), pay)
		require.NoError(t, err)
		second, err := s.Pay(t.Context(), pay)
		require.NoError(t, err)
		assert.Equal(t, first.OrderID, second.OrderID)
		pay.Amount = paymentsvc.MustParseAmount("1")
		_, err = s.Pay(t.Context(), pay)
		require.ErrorIs(t, err, ErrConflict)
	})
}

// leaver ends the caller's context during a call, whose own must not end.
type leaver struct {
	*service
	leave context.CancelFunc
	ended error
}

func (l *leaver) InitPayment(ctx context.Context, k paymentsvc.PaymentType,
	r paymentsvc.PaymentRequest) (*paymentsvc.InitPaymentResponse, error) {
	l.leave()
	l.ended = ctx.Err()
	return l.service.InitPayment(ctx, k, r)
}

func (l *leaver) InitPayout(ctx context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
	l.leave()
	l.ended = ctx.Err()
	return l.service.InitPayout(ctx, r)
}

func TestCallGoesOnWhenItsCallerLeaves(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		l := &leaver{service: &service{}}
		s := openStore(t, db, Config{Service: l})
		q := queue(t, s, payouts("a", 1)...)
		ctx, cancel := context.WithCancel(t.Context())
		l.leave = cancel
		_, _ = s.RunBatch(ctx, BatchLimit{})
		require.NoError(t, l.ended)
		assert.Equal(t, StatePending, get(t, s, q[0].UserData).State)
		ctx, l.leave = context.WithCancel(t.Context())
		r, err := s.Pay(ctx, NewPayment{Type: paymentsvc.PaymentTypeCard, Amount: ten})
		require.NoError(t, err)
		waitUntil(t, func() bool { return get(t, s, r.UserData).State == StatePending })
		require.NoError(t, l.ended)
	})
}

// The commit of a claim whose error Pay has returned may come late.
func TestPayWhoseCommitIsInDoubtIsReturned(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s := openStore(t, db, Config{Service: f})
		db.Exec(t, `ALTER TABLE durable_rows RENAME TO away`)
		_, err := s.Pay(t.Context(), NewPayment{Type: paymentsvc.PaymentTypeCard, Amount: ten})
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

// broken answers no question, with an error that NotFound takes for the service's.
type broken struct{ *service }

func (broken) StatusPayment(context.Context, paymentsvc.StatusPaymentRequest) (*paymentsvc.StatusResponse, error) {
	return nil, unanswered("")
}

func TestNotFoundIsNotBelievedOfAnUnknownOutcome(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		clock := &clocks{process: time.Now()}
		f := broken{&service{before: func(int, string) error { return unanswered("") }}}
		s := openShimmed(t, db, Config{Service: f, NotFound: func(*paymentsvc.Error) bool { return true }}, clock)
		r := pay(t, s, "")
		for range 10 {
			pass(t, db, clock, time.Minute)
			require.NoError(t, s.Sweep(t.Context()))
		}
		r = get(t, s, r.UserData)
		assert.Equal(t, StateUnknown, r.State)
		assert.Positive(t, r.Polls)
	})
}

func TestHoldDoubtsPayments(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{Service: &service{before: func(int, string) error { return notSent() }}})
		r := pay(t, s, "")
		assert.False(t, r.MayHaveStarted)
		_, err := s.HoldPayouts(t.Context(), "person", "restored")
		require.NoError(t, err)
		r = get(t, s, r.UserData)
		assert.Equal(t, StateUnknown, r.State)
		assert.True(t, r.MayHaveStarted, "or a later refusal would be believed")
	})
}

func TestNotificationsOfOrderIDs(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		told := 0
		s := openStore(t, db, Config{OnChange: func(context.Context, *sql.Tx, Event) error {
			told++
			return nil
		}})
		// The second tells whose order_id the first has.
		first, j := claimed1(t, s, KindPayout, "first")
		require.NoError(t, s.settle(t.Context(), j, callResult{}))
		require.NoError(t, s.Notified(t.Context(), notice(paymentsvc.EventPayoutStatusChanged, "", "o", success)))
		require.NoError(t, s.Notified(t.Context(), notice(paymentsvc.EventPayoutStatusChanged, first.UserData, "o",
			"PENDING")))
		assert.Equal(t, StateSucceeded, get(t, s, first.UserData).State)

		second, j := claimed1(t, s, KindPayout, "second")
		require.NoError(t, s.settle(t.Context(), j, started("p")))
		require.NoError(t, s.Notified(t.Context(), notice(paymentsvc.EventPayoutStatusChanged, second.UserData, "q",
			success)))
		r := get(t, s, second.UserData)
		assert.Equal(t, StatePending, r.State)
		assert.Contains(t, r.ReviewReason, "two order_ids")

		assert.Equal(t, 1, told)
		require.NoError(t, s.Sweep(t.Context()))
		assert.Equal(t, 1, told)
	})
}
