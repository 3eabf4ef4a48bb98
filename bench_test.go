//go:build !race

// The race detector allocates memory and empties sync.Pool, so the measurements would be wrong.

package paymentsvc_test

import (
	"encoding/base64"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// notificationSizes are the bytes of a usual, a large and the largest notification of Handler.
var notificationSizes = []int{220, 4 << 10, 64 << 10}

// signedNotification returns a notification of size bytes with its headers.
func signedNotification(t testing.TB, scheme paymentsvc.Scheme, size int) (http.Header, []byte) {
	t.Helper()
	body := []byte(hookBody)
	body = append(body[:len(body)-2], strings.Repeat("-", size-len(body))+`"}`...)
	signature, err := scheme.Signature(testSecret, &paymentsvc.Message{Timestamp: hookClockShown, Body: body})
	require.NoError(t, err)
	return http.Header{
		"Accept-Encoding": {"gzip"},
		"Content-Type":    {"application/json"},
		"Timestamp":       {hookClockShown},
		"Signature":       {signature},
	}, body
}

// allocations returns the allocations of f after the pools are filled.
func allocations(f func()) int { return int(testing.AllocsPerRun(500, f)) }

var encodings = map[string]paymentsvc.Encoding{
	"Hex": paymentsvc.Hex, "HexUpper": paymentsvc.HexUpper, "base64": base64.StdEncoding,
}

func TestAllocationsOfSign(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+testBase, nil)
	require.NoError(t, err)
	body := []byte(operations[0].sent)
	for name, encoding := range encodings {
		scheme := testScheme()
		scheme.Encoding = encoding
		signer := newSigner(t, scheme, testSecret)
		sdk := allocations(func() { err = signer.Sign(req, body) })
		assert.LessOrEqual(t, sdk, 4, "%s: a text and a slice for each header", name)
		require.NoError(t, err)
	}
}

func TestAllocationsOfVerify(t *testing.T) {
	for name, encoding := range encodings {
		scheme := hookScheme()
		scheme.Encoding = encoding
		webhook := newHook(t, withScheme(scheme))
		for _, size := range notificationSizes {
			header, body := signedNotification(t, scheme, size)
			var err error
			assert.Zero(t, allocations(func() { err = webhook.Verify(header, body) }), "%s, %d bytes", name, size)
			require.NoError(t, err)
		}
	}
}

func TestAllocationsOfParse(t *testing.T) {
	webhook := newHook(t)
	for _, size := range notificationSizes {
		header, body := signedNotification(t, hookScheme(), size)
		var err error
		sdk := allocations(func() { _, err = webhook.Parse(header, body) })
		require.NoError(t, err)
		assert.LessOrEqual(t, sdk, 7, "%d bytes: the notification, its body, its four texts and the amount", size)
	}
}

// kept returns the growth of the heap caused by do, in bytes.
func kept(do func()) int64 {
	before, after := new(runtime.MemStats), new(runtime.MemStats)
	collect := func(into *runtime.MemStats) {
		runtime.GC() // a pool keeps its values for one more collection
		runtime.GC()
		runtime.ReadMemStats(into)
	}
	collect(before)
	do()
	collect(after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

func TestMemoryOfSequentialCalls(t *testing.T) {
	const calls = 20_000
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
	assert.Less(t, kept(call(calls)), int64(calls)*4, "no object per call remains; the smallest has 8 bytes")
}
