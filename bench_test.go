//go:build !race

// The race detector keeps memory of its own and makes sync.Pool forget, so that under it there is nothing to measure.

package paymentsvc_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func BenchmarkSign(b *testing.B) {
	signer := testSigner(b)
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://localhost"+testBase, nil)
	require.NoError(b, err)
	body := []byte(operations[0].sent)
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, signer.Sign(req, body))
	}
}

// notificationSizes are the bytes of a usual, a large and the largest notification of Handler.
var notificationSizes = []int{220, 4 << 10, 64 << 10}

func BenchmarkParse(b *testing.B) {
	webhook := newHook(b)
	for _, size := range notificationSizes {
		header, body := signedNotification(b, size)
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := webhook.Parse(header, body)
				require.NoError(b, err)
			}
		})
	}
}

// signedNotification returns a notification of size bytes with its headers.
func signedNotification(t testing.TB, size int) (http.Header, []byte) {
	const fields = `{"event":"payment.status_changed","order_id":"6f1c2f2e-4f0b-4a53-9d43-1f0a6a2f8b11","status":1,` +
		`"status_description":"SUCCESS","status_code":2,"amount":10.50,"user_data":"%s"}`
	userData := "order-1"
	userData += strings.Repeat("-", size-len(fmt.Sprintf(fields, userData)))
	body := fmt.Appendf(nil, fields, userData)
	require.Len(t, body, size)

	return signedHeader(t, hookScheme(), body), body
}

// signedHeader returns the headers that a server sees around a notification.
func signedHeader(t testing.TB, scheme paymentsvc.Scheme, body []byte) http.Header {
	timestamp := hookClockShown
	signature, err := scheme.Signature(testSecret, &paymentsvc.Message{Timestamp: timestamp, Body: body})
	require.NoError(t, err)
	return http.Header{
		"Accept-Encoding": {"gzip"},
		"Content-Length":  {strconv.Itoa(len(body))},
		"Content-Type":    {"application/json"},
		"User-Agent":      {"service/1.0"},
		"Timestamp":       {timestamp},
		"Signature":       {signature},
	}
}

// allocations counts the allocations of f once the pools are filled.
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
		signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: testSecret})
		require.NoError(t, err)
		assert.LessOrEqual(t, allocations(func() { err = signer.Sign(req, body) }), 4, "%s: a text and a slice each", name)
		require.NoError(t, err)
	}
}

func TestAllocationsOfVerify(t *testing.T) {
	for name, encoding := range encodings {
		scheme := hookScheme()
		scheme.Encoding = encoding
		webhook := newHook(t, withScheme(scheme))
		for _, size := range notificationSizes {
			_, body := signedNotification(t, size)
			header := signedHeader(t, scheme, body)
			var err error
			assert.Zero(t, allocations(func() { err = webhook.Verify(header, body) }), "%s, %d bytes", name, size)
			require.NoError(t, err)
		}
	}
}

func TestAllocationsOfParse(t *testing.T) {
	webhook := newHook(t)
	for _, size := range notificationSizes {
		header, body := signedNotification(t, size)
		var err error
		sdk := allocations(func() { _, err = webhook.Parse(header, body) })
		require.NoError(t, err)
		assert.LessOrEqual(t, sdk, 7, "%d bytes: the notification, its body, its four texts and the amount", size)
	}
}

// kept returns the bytes that do leaves on the heap behind it.
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
	assert.Less(t, kept(call(calls)), int64(calls)*4, "no call leaves anything: the smallest object has 8 bytes")
}
