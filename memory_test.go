//go:build !race

// The race detector keeps memory of its own, so that under it there is nothing to measure.

package paymentsvc_test

import (
	"net/http"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kept gives the bytes that do leaves on the heap behind it.
func kept(do func()) int64 {
	before, after := new(runtime.MemStats), new(runtime.MemStats)
	collect := func(into *runtime.MemStats) {
		runtime.GC() // the second takes what pools have kept for one more round
		runtime.GC()
		runtime.ReadMemStats(into)
	}
	collect(before)
	do()
	collect(after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

func TestSequentialCallsLeaveNoMemoryBehind(t *testing.T) {
	const calls = 100_000
	c := newClient(t, "http://127.0.0.1", over(roundTripFunc(func(*http.Request) (*http.Response, error) {
		return balanced(), nil
	})))
	call := func(n int) func() {
		return func() {
			for range n {
				_, err := c.GetBalance(t.Context())
				require.NoError(t, err)
			}
		}
	}
	call(100)()
	assert.Less(t, kept(call(calls)), int64(calls), "less than a byte a call")
}

func TestConcurrentNotificationsLeaveNoMemoryBehind(t *testing.T) {
	const notifications = 10_000
	webhook := newWebhook(t, notificationScheme())
	_, body := signedNotification(t, 220)
	header := signedHeader(t, notificationScheme(), body)
	deliver := func() {
		start := make(chan struct{})
		var all sync.WaitGroup
		for range notifications {
			all.Go(func() {
				<-start // so that all of them run at once
				_, err := webhook.Parse(header, body)
				assert.NoError(t, err)
			})
		}
		close(start)
		all.Wait()
	}
	deliver()
	assert.Less(t, kept(deliver), int64(notifications)*64, "far less than the 220 bytes of each")
}
