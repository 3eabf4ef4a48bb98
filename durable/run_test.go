package durable

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestTurnSendsEachPayoutOnce(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s := openStore(t, db, Config{Service: f})
		queue(t, s, payouts("a", 100)...)
		again := queue(t, s, payouts("a", 101)...)
		assert.False(t, again[0].New)
		assert.True(t, again[100].New)
		done, err := s.Turn(t.Context(), Limit{})
		require.NoError(t, err)
		assert.Equal(t, 101, done)
		n, different := f.starts()
		assert.Equal(t, []int{101, 101}, []int{n, different})
		assert.Equal(t, map[State]int64{StatePending: 101}, count(t, s, KindPayout))
	})
}

func TestRunPaysAndReturnsWhenAllIsRecorded(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s := openStore(t, db, Config{Service: f})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		r, err := s.Pay(t.Context(), NewPayment{Key: "basket", Type: paymentsvc.PaymentTypeCard, Amount: ten})
		require.NoError(t, err)
		assert.Equal(t, StatePending, r.State)
		assert.Equal(t, "https://pay.example/"+r.OrderID, r.RedirectURL)
		again, err := s.Pay(t.Context(), NewPayment{Key: "basket", Type: paymentsvc.PaymentTypeCard, Amount: ten})
		require.NoError(t, err)
		assert.Equal(t, r.UserData, again.UserData)
		_, err = s.Pay(t.Context(), NewPayment{Key: "basket", Type: paymentsvc.PaymentTypeSBP, Amount: ten})
		require.ErrorIs(t, err, ErrConflict)
		queue(t, s, payouts("a", 50)...)
		require.Eventually(t, func() bool { return count(t, s, KindPayout)[StatePending] == 50 }, time.Minute, 10*time.Millisecond)
		cancel()
		require.NoError(t, <-ended)
		_, err = s.Pay(t.Context(), NewPayment{Type: paymentsvc.PaymentTypeCard, Amount: ten})
		require.ErrorIs(t, err, ErrClosed)
		n, different := f.starts()
		assert.Equal(t, []int{51, 51}, []int{n, different})
	})
}
