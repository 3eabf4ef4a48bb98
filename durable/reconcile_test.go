package durable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A request may arrive a minute after its call was abandoned. Until then the service says truly that it has no such
// payment.
func TestPaymentWhoseRequestIsLateIsStartedOnce(t *testing.T) {
	for _, late := range []time.Duration{5 * time.Second, 45 * time.Second, 100 * time.Second} {
		f, clock := &service{before: func(int, string) error { return unanswered("") }}, &clocks{process: time.Now()}
		db := sqlite(t)
		s := openShimmed(t, db, Config{Service: f}, clock)
		r := pay(t, s, "")
		require.Equal(t, StateUnknown, r.State)
		f.before = nil
		for passed := time.Duration(0); passed < 5*time.Minute; passed += 5 * time.Second {
			if passed == late {
				_, _ = f.start(r.UserData)
			}
			require.NoError(t, s.Sweep(t.Context()))
			runBatch(t, s, nil)
			pass(t, db, clock, 5*time.Second)
		}
		starts, _ := f.starts()
		assert.Equal(t, 1, starts, "late by %v", late)
		assert.Equal(t, StatePending, get(t, s, r.UserData).State)
	}
}
