//go:build !race

// The race detector keeps memory of its own and makes sync.Pool forget, so that under it there is nothing to measure.

package paymentsvc_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// The benchmarks set this package beside what is written by hand for the same work with encoding/json
// and crypto/hmac: the same bytes. A whole call is compared in tools/benchmarks. The parts sdk and byhand run one of the
// two, for profiles and benchstat. The part ratio runs them in turns, so that it holds on a noisy machine too,
// and reports
//
//	x-time    the median over all turns of sdk's time divided by byhand's
//	x-allocs  sdk's allocations divided by byhand's, where that has any
//	x-bytes   the same of the bytes allocated
//
// so that 1.10 is ten per cent more than by hand:
//
//	go test -run '^$' -bench '//ratio' -count 10 .

// work does one operation n times.
type work func(b *testing.B, n int)

// sideBySide runs the three parts. batch is how often an operation runs in one turn.
func sideBySide(b *testing.B, batch int, sdk, byHand work) {
	for _, part := range []struct {
		name string
		run  work
	}{{"sdk", sdk}, {"byhand", byHand}} {
		b.Run(part.name, func(b *testing.B) {
			b.ReportAllocs()
			part.run(b, b.N)
		})
	}
	b.Run("ratio", func(b *testing.B) { inTurns(b, batch, sdk, byHand) })
}

// inTurns reports what sdk costs divided by what other costs.
func inTurns(b *testing.B, batch int, sdk, other work) {
	var ours, theirs costs
	for turn := 0; b.Loop(); turn++ {
		if turn%2 == 0 { // whatever the first leaves behind for the second, it does so both ways
			ours.add(b, batch, sdk)
			theirs.add(b, batch, other)
		} else {
			theirs.add(b, batch, other)
			ours.add(b, batch, sdk)
		}
	}
	ratios := make([]float64, len(ours.times))
	for i := range ratios {
		ratios[i] = float64(ours.times[i]) / float64(theirs.times[i])
	}
	slices.Sort(ratios)
	b.ReportMetric(0, "ns/op") // of a turn, which says nothing
	b.ReportMetric(ratios[len(ratios)/2], "x-time")
	if theirs.allocs >= uint64(batch*len(ratios)) { // fewer come from elsewhere
		b.ReportMetric(float64(ours.allocs)/float64(theirs.allocs), "x-allocs")
		b.ReportMetric(float64(ours.bytes)/float64(theirs.bytes), "x-bytes")
	}
}

type costs struct {
	times         []time.Duration
	allocs, bytes uint64
}

func (c *costs) add(b *testing.B, batch int, run work) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	run(b, batch)
	c.times = append(c.times, time.Since(start))
	runtime.ReadMemStats(&after)
	c.allocs += after.Mallocs - before.Mallocs
	c.bytes += after.TotalAlloc - before.TotalAlloc
}

func signByHand(req *http.Request, body []byte) {
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(testSecret))
	io.WriteString(mac, req.Method+"\n"+req.URL.Path+"\n"+timestamp+"\n")
	mac.Write(body)
	req.Header.Set("Timestamp", timestamp)
	req.Header.Set("Signature", hex.EncodeToString(mac.Sum(nil)))
}

// BenchmarkSign is the two headers of a request, beside an HMAC of its own for each.
func BenchmarkSign(b *testing.B) {
	signer := testSigner(b)
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://localhost"+testBase, nil)
	require.NoError(b, err)
	body := []byte(operations()[0].sent)
	b.Run(fmt.Sprintf("bytes=%d", len(body)), func(b *testing.B) {
		sideBySide(b, 500,
			repeatedly(func() error { return signer.Sign(req, body) }),
			repeatedly(func() error {
				signByHand(req, body)
				return nil
			}))
	})
}

// notificationSizes are a notification as it comes, and one that some field has blown up to what Handler reads.
var notificationSizes = []int{220, 4 << 10, 64 << 10}

// BenchmarkVerify is the check of a notification, beside the bare one: two headers, HMAC and comparison.
func BenchmarkVerify(b *testing.B) {
	for _, size := range notificationSizes {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			webhook, byHand := newHook(b), newHandWrittenWebhook()
			header, body := signedNotification(b, size)
			sideBySide(b, 1+200_000/size,
				repeatedly(func() error { return webhook.Verify(header, body) }),
				repeatedly(func() error { return byHand.verify(header, body) }))
		})
	}
}

// BenchmarkParse is Verify and the reading of the body, beside the bare check and encoding/json. The part
// ratio-to-verify sets it beside the bare check alone.
func BenchmarkParse(b *testing.B) {
	for _, size := range notificationSizes {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			webhook, byHand := newHook(b), newHandWrittenWebhook()
			header, body := signedNotification(b, size)
			parse := repeatedly(func() error {
				_, err := webhook.Parse(header, body)
				return err
			})
			sideBySide(b, 1+200_000/size,
				parse,
				repeatedly(func() error {
					_, err := byHand.parse(header, body)
					return err
				}))
			b.Run("ratio-to-verify", func(b *testing.B) {
				inTurns(b, 1+200_000/size, parse, repeatedly(func() error { return byHand.verify(header, body) }))
			})
		})
	}
}

// BenchmarkVerifySecrets is Verify during a rotation, where the last of the secrets is the right one, beside Verify
// with that one alone: each further secret costs one HMAC and its encoding.
func BenchmarkVerifySecrets(b *testing.B) {
	const size = 220
	header, body := signedNotification(b, size)
	alone := newHook(b)
	for _, count := range []int{2, 8} {
		b.Run(fmt.Sprintf("secrets=%d", count), func(b *testing.B) {
			secrets := slices.Repeat([]paymentsvc.Secret{"an older key"}, count-1)
			webhook := newHook(b, withSecrets(append(secrets, testSecret)...))
			b.Run("ratio", func(b *testing.B) {
				inTurns(b, 1+200_000/size,
					repeatedly(func() error { return webhook.Verify(header, body) }),
					repeatedly(func() error { return alone.Verify(header, body) }))
			})
		})
	}
}

func repeatedly(f func() error) work {
	return func(b *testing.B, n int) {
		for range n {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		}
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

// handWrittenWebhook is a program's own check of a signature: a pooled HMAC state, compared in constant time.
type handWrittenWebhook struct{ pool *sync.Pool }

func (w handWrittenWebhook) verify(h http.Header, body []byte) error {
	s := w.pool.Get().(*handWrittenState)
	defer w.pool.Put(s)
	s.mac.Reset()
	s.canonical = append(append(s.canonical[:0], h.Get("Timestamp")...), '\n')
	s.mac.Write(s.canonical)
	s.mac.Write(body)
	hex.Encode(s.hex[:], s.mac.Sum(s.sum[:0]))
	if !hmac.Equal(s.hex[:], []byte(h.Get("Signature"))) {
		return errMismatch
	}
	return nil
}

func (w handWrittenWebhook) parse(h http.Header, body []byte) (*handWrittenNotification, error) {
	if err := w.verify(h, body); err != nil {
		return nil, err
	}
	n := new(handWrittenNotification)
	if err := json.Unmarshal(body, n); err != nil {
		return nil, err
	}
	return n, nil
}

type handWrittenState struct {
	mac       hash.Hash
	canonical []byte
	sum       [sha256.Size]byte
	hex       [2 * sha256.Size]byte
}

func newHandWrittenWebhook() handWrittenWebhook {
	return handWrittenWebhook{&sync.Pool{New: func() any {
		return &handWrittenState{mac: hmac.New(sha256.New, []byte(testSecret))}
	}}}
}

var errMismatch = errors.New("mismatch")

type handWrittenNotification struct {
	Event             string      `json:"event"`
	OrderID           string      `json:"order_id"`
	Status            int64       `json:"status"`
	StatusDescription string      `json:"status_description"`
	StatusCode        int64       `json:"status_code"`
	Amount            json.Number `json:"amount"`
	UserData          string      `json:"user_data"`
}

// allocations counts the allocations of f once the pools are filled.
func allocations(f func()) int { return int(testing.AllocsPerRun(500, f)) }

func encodings() map[string]paymentsvc.Encoding {
	return map[string]paymentsvc.Encoding{
		"Hex": paymentsvc.Hex, "HexUpper": paymentsvc.HexUpper, "base64": base64.StdEncoding,
	}
}

func TestAllocationsOfSign(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+testBase, nil)
	require.NoError(t, err)
	body := []byte(operations()[0].sent)
	for name, encoding := range encodings() {
		scheme := testScheme()
		scheme.Encoding = encoding
		signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme, Secret: testSecret})
		require.NoError(t, err)
		assert.LessOrEqual(t, allocations(func() { err = signer.Sign(req, body) }), 4, "%s: a text and a slice each", name)
		require.NoError(t, err)
	}
}

func TestAllocationsOfVerify(t *testing.T) {
	for name, encoding := range encodings() {
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
