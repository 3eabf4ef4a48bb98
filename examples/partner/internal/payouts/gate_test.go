package payouts

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

// admitted enters with little patience, and says whether there was leave.
func admitted(t *testing.T, g *gate) *pass {
	t.Helper()
	p, _, err := g.enter(t.Context(), time.Nanosecond)
	require.NoError(t, err)
	return p
}

func TestARefusalOfTheCallerPausesEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Second, time.Minute)
		first, second := admitted(t, g), admitted(t, g)
		assert.Equal(t, time.Second, first.refused("HTTP 401", 0))
		assert.Equal(t, Pause{true, time.Now().Add(time.Second), "HTTP 401"}, g.state())
		assert.Equal(t, time.Second, second.refused("HTTP 401", 0), "it began before the pause, and does not lengthen it")
		assert.Nil(t, admitted(t, g))
	})
}

func TestAfterAPauseOneWorkerTriesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Second, time.Minute)
		admitted(t, g).refused("HTTP 401", 0)
		var through int
		var mu sync.Mutex
		for range 10 {
			go func() {
				p, _, err := g.enter(t.Context(), time.Hour)
				assert.NoError(t, err)
				mu.Lock()
				through++
				mu.Unlock()
				time.Sleep(5 * time.Second) // the call
				p.answered()
			}()
		}
		count := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return through
		}
		assert.Equal(t, 0, count())
		time.Sleep(2 * time.Second)
		assert.Equal(t, 1, count())
		time.Sleep(5 * time.Second) // its answer opens the gate
		assert.Equal(t, 10, count())
		time.Sleep(time.Minute)
	})
}

func TestPausesBecomeLongerUntilAnAnswerComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Second, 10*time.Second)
		for _, seconds := range []time.Duration{1, 2, 4, 8, 10, 10} {
			assert.Equal(t, seconds*time.Second, admitted(t, g).refused("HTTP 403", 0))
			time.Sleep(seconds * time.Second)
		}
		admitted(t, g).answered()
		assert.Equal(t, Pause{}, g.state())
		assert.Equal(t, time.Second, admitted(t, g).refused("HTTP 403", 0))
	})
}

func TestTheServiceMayAskForALongerPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for asked, length := range map[time.Duration]time.Duration{
			0: time.Second, time.Millisecond: time.Second, time.Minute: time.Minute,
			time.Hour: 15 * time.Minute,
		} {
			assert.Equal(t, length, admitted(t, newGate(time.Second, 10*time.Second)).refused("HTTP 429", asked))
		}
	})
}

func TestThreeFailuresInARowPauseEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Second, time.Minute)
		fail := func() { admitted(t, g).unanswered("no answer") }
		fail()
		fail()
		admitted(t, g).answered() // begins the row anew
		fail()
		fail()
		assert.False(t, g.state().Paused)
		fail()
		assert.True(t, g.state().Paused)
		time.Sleep(time.Second)
		fail() // alone, so that one is enough
		assert.Equal(t, time.Now().Add(2*time.Second), g.state().Until)
	})
}

func TestAnAnswerFromBeforeAPauseDoesNotEndIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Second, time.Minute)
		slow := admitted(t, g)
		admitted(t, g).refused("HTTP 401", 0)
		slow.answered()
		assert.True(t, g.state().Paused)
	})
}

func TestLeaveThatIsNotUsedGoesToAnotherWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Second, time.Minute)
		admitted(t, g).refused("HTTP 401", 0)
		time.Sleep(time.Second)
		probe := admitted(t, g)
		require.NotNil(t, probe)
		require.Nil(t, admitted(t, g))
		probe.unused()
		next := admitted(t, g)
		require.NotNil(t, next)
		next.answered()
		next.refused("HTTP 401", 0) // the first word counts
		assert.False(t, g.state().Paused)
	})
}

func TestWaitingAtTheGateEndsWithTheContextAndWithPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(time.Minute, time.Minute)
		admitted(t, g).refused("HTTP 401", 0)
		p, again, err := g.enter(t.Context(), 5*time.Second)
		require.NoError(t, err)
		assert.Nil(t, p)
		assert.Equal(t, 55*time.Second, again)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err = g.enter(ctx, time.Hour)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestCallsKeepToTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(Config{PerSecond: 2}.withDefaults())
		began := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		later := 0
		for range 13 {
			go func() {
				p, again, err := w.admit(t.Context())
				assert.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				if p == nil {
					assert.Greater(t, again, maxPatience)
					later++
					return
				}
				at = append(at, time.Since(began))
				p.answered()
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		const half = 500 * time.Millisecond
		assert.Equal(t, []time.Duration{0, half, 2 * half, 3 * half, 4 * half, 5 * half, 6 * half, 7 * half, 8 * half, 9 * half, 10 * half}, at)
		assert.Equal(t, 2, later, "those that would wait for more than some seconds come back later")
	})
}

func TestARefusalRepeatsNoDestination(t *testing.T) {
	for _, c := range []struct{ destination, code, want string }{
		{card, "E17", "E17"},
		{card, card, "a code that repeats the destination"},
		{card, "x" + card + "x", "a code that repeats the destination"},
		{"+12025550100", "no.12025550100", "a code that repeats the destination"},
	} {
		err := &paymentsvc.Error{HTTPStatus: 422, Err: &paymentsvc.ServiceError{Code: c.code}}
		assert.Equal(t, c.want, refusal(err, store.Payout{Destination: c.destination}))
	}
	assert.Equal(t, "HTTP 400", refusal(&paymentsvc.Error{HTTPStatus: 400, Err: errors.New("no")}, store.Payout{Destination: card}))
}
