package schedule

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// claim makes a round that takes a time and claims jobs.
func (b *bench) claim(takes time.Duration, jobs ...string) {
	b.Helper()
	r := b.next()
	time.Sleep(takes)
	r.record(jobs...)
}

func TestShortCallsShareARound(t *testing.T) {
	bubble(t, nil, func(t *bench) {
		t.start(t.Context(), 2)
		t.claim(time.Millisecond, "a", "b")
		t.endCall()
		t.none()
		t.endCall()
		r := t.next()
		assert.Len(t, r.Completions, 2)
		r.record()
		require.NoError(t, t.result())
	})
}

func TestCompletionWaitsForAHangingCallAtMostForARound(t *testing.T) {
	for name, c := range map[string]struct{ round, wait time.Duration }{
		"short rounds": {8 * time.Millisecond, time.Millisecond}, // an eighth enters the average
		"long rounds":  {time.Hour, maxWait},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *bench) {
				t.start(t.Context(), 2)
				t.claim(c.round, "a", "hangs")
				t.endCall()
				time.Sleep(c.wait - time.Nanosecond)
				t.none()
				time.Sleep(time.Nanosecond)
				r := t.next()
				assert.Len(t, r.Completions, 1)
				r.record()
				require.NoError(t, t.result())
			})
		})
	}
}

func TestCompletionOfALongCallDoesNotWait(t *testing.T) {
	bubble(t, nil, func(t *bench) {
		t.start(t.Context(), 2)
		t.claim(time.Millisecond, "a", "b")
		time.Sleep(time.Second)
		t.endCall()
		r := t.next()
		assert.Len(t, r.Completions, 1)
		r.record()
		require.NoError(t, t.result())
	})
}

func TestLargeRoundDoesNotWait(t *testing.T) {
	bubble(t, func(c *Config[string, string]) { c.Slots = 2 * largeRound }, func(t *bench) {
		var jobs []string
		for i := range 2 * largeRound {
			jobs = append(jobs, strconv.Itoa(i))
		}
		t.start(t.Context(), len(jobs))
		t.claim(time.Millisecond, jobs...)
		for range largeRound - 1 {
			t.endCall()
		}
		t.none()
		t.endCall()
		r := t.next()
		assert.Len(t, r.Completions, largeRound)
		r.record()
		require.NoError(t, t.result())
	})
}
