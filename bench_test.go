package paymentsvc_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// The benchmarks set this package beside what is written by hand for the same work with net/http, encoding/json
// and crypto/hmac. Each has three parts: sdk and byhand alone, to profile and for benchstat, and ratio, which
// runs the two in turns and so stands on a noisy machine as well. It reports
//
//	x-time    the median over all turns of sdk's time divided by byhand's
//	x-allocs  sdk's allocations divided by byhand's
//	x-bytes   sdk's bytes allocated divided by byhand's
//
// so that 1.10 is ten per cent more than by hand:
//
//	go test -run '^$' -bench '/ratio' -benchtime 2s -count 10 .

// work is one operation, called n times.
type work func(b *testing.B, n int)

// sideBySide runs the three parts of a benchmark. batch is how often an operation runs in one turn.
func sideBySide(b *testing.B, batch int, sdk, byHand work) {
	for _, side := range []struct {
		name string
		run  work
	}{{"sdk", sdk}, {"byhand", byHand}} {
		b.Run(side.name, func(b *testing.B) {
			b.ReportAllocs()
			side.run(b, b.N)
		})
	}
	b.Run("ratio", func(b *testing.B) {
		var times []float64
		var ours, theirs runtime.MemStats
		for turn := 0; b.Loop(); turn++ {
			var first, second cost
			if turn%2 == 0 {
				first = measure(b, batch, sdk, &ours)
				second = measure(b, batch, byHand, &theirs)
			} else {
				second = measure(b, batch, byHand, &theirs)
				first = measure(b, batch, sdk, &ours)
			}
			times = append(times, float64(first.time)/float64(second.time))
		}
		slices.Sort(times)
		b.ReportMetric(0, "ns/op") // of a turn, which says nothing
		b.ReportMetric(times[len(times)/2], "x-time")
		b.ReportMetric(float64(ours.Mallocs)/float64(theirs.Mallocs), "x-allocs")
		b.ReportMetric(float64(ours.TotalAlloc)/float64(theirs.TotalAlloc), "x-bytes")
	})
}

type cost struct{ time time.Duration }

// measure runs one turn and adds what it allocated to sum.
func measure(b *testing.B, batch int, run work, sum *runtime.MemStats) cost {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	run(b, batch)
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	sum.Mallocs += after.Mallocs - before.Mallocs
	sum.TotalAlloc += after.TotalAlloc - before.TotalAlloc
	return cost{elapsed}
}

// BenchmarkInitPayment is one call, signed, sent over a kept connection and read.
func BenchmarkInitPayment(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			base := newBareService(b, paymentAnswer)
			client := newClient(b, base, func(cfg *paymentsvc.Config) {
				cfg.HTTPClient = &http.Client{Transport: benchTransport(b)}
			})
			byHand := handWritten{http: &http.Client{Transport: benchTransport(b), Timeout: 30 * time.Second}, base: base}
			ctx := b.Context()
			sideBySide(b, 32*callers,
				concurrently(callers, func() error {
					_, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentRequest())
					return err
				}),
				concurrently(callers, func() error {
					_, err := byHand.initPayment(ctx, "card", "10.50", "order-1")
					return err
				}))
		})
	}
}

// concurrently makes work of call, spread over callers goroutines.
func concurrently(callers int, call func() error) work {
	return func(b *testing.B, n int) {
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for range (n + i) / callers {
					if err := call(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

func benchTransport(b *testing.B) *http.Transport {
	t := &http.Transport{MaxIdleConns: 100, MaxIdleConnsPerHost: 100}
	b.Cleanup(t.CloseIdleConnections)
	return t
}

// handWritten is the client that a program has without this package: the same bytes, once, with a timeout and a
// bounded answer, but nothing of outcomes, retries or strict reading.
type handWritten struct {
	http *http.Client
	base string
}

type handWrittenRequest struct {
	PartnerID int64       `json:"partner_id"`
	ProjectID int64       `json:"project_id"`
	Amount    json.Number `json:"amount"`
	UserData  string      `json:"user_data"`
}

type handWrittenResponse struct {
	OrderID     string `json:"order_id"`
	Status      int64  `json:"status"`
	StatusCode  int64  `json:"status_code"`
	RedirectURL string `json:"redirect_url"`
}

func (c handWritten) initPayment(ctx context.Context, paymentType, amount, userData string) (*handWrittenResponse, error) {
	body, err := json.Marshal(handWrittenRequest{testPartner, testProject, json.Number(amount), userData})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/init_payment/"+paymentType, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(testSecret))
	io.WriteString(mac, req.Method+"\n"+req.URL.Path+"\n"+timestamp+"\n")
	mac.Write(body)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "byhand/1.0")
	req.Header.Set("Timestamp", timestamp)
	req.Header.Set("Signature", hex.EncodeToString(mac.Sum(nil)))

	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	out := new(handWrittenResponse)
	if err := json.Unmarshal(answer, out); err != nil {
		return nil, err
	}
	if out.OrderID == "" {
		return nil, errors.New("no order_id")
	}
	return out, nil
}

// TestHandWrittenSendsTheSame keeps the comparison fair: the service checks both and sees no difference.
func TestHandWrittenSendsTheSame(t *testing.T) {
	s := newService(t, answering(http.StatusOK, paymentAnswer))
	client := newClient(t, s.base(), func(cfg *paymentsvc.Config) { cfg.UserAgent = "byhand/1.0" })
	sdk, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, paymentRequest())
	require.NoError(t, err)
	byHand, err := handWritten{s.Client(), s.base()}.initPayment(t.Context(), "card", "10.50", "order-1")
	require.NoError(t, err)

	require.Equal(t, handWrittenResponse{sdk.OrderID, sdk.Status, sdk.StatusCode, sdk.RedirectURL}, *byHand)
	got := s.received()
	require.Len(t, got, 2)
	for i := range got {
		got[i].Header.Del("Timestamp") // the two may lie on both sides of a second
		got[i].Header.Del("Signature") // has been checked
	}
	require.Equal(t, got[0], got[1])
}

// newBareService answers every request with answer and allocates nothing for it, so that what a benchmark counts
// is the caller's.
func newBareService(b *testing.B, answer string) (base string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	response := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for skipRequest(r) == nil {
					if _, err := conn.Write(response); err != nil {
						return
					}
				}
			})
		}
	})
	b.Cleanup(func() {
		listener.Close()
		wg.Wait() // the callers have closed their connections by now
	})
	return "http://" + listener.Addr().String() + testBase
}

// skipRequest reads to the end of one request.
func skipRequest(r *bufio.Reader) error {
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if value, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		}
		if len(line) == len("\r\n") {
			_, err := r.Discard(length)
			return err
		}
	}
}

// notificationSizes are a notification as it comes, and one that some field has blown up to what Handler reads.
var notificationSizes = []int{220, 4 << 10, 64 << 10}

// BenchmarkVerify is the check of a notification's signature and age, beside the bare HMAC and comparison.
func BenchmarkVerify(b *testing.B) {
	for _, size := range notificationSizes {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			webhook, byHand := newWebhook(b), newHandWrittenWebhook()
			header, body := signedNotification(b, size)
			sideBySide(b, 1+200_000/size,
				repeatedly(func() error { return webhook.Verify(header, body) }),
				repeatedly(func() error { return byHand.verify(header, body) }))
		})
	}
}

// BenchmarkParse is Verify and the reading of the body, beside HMAC and encoding/json.
func BenchmarkParse(b *testing.B) {
	for _, size := range notificationSizes {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			webhook, byHand := newWebhook(b), newHandWrittenWebhook()
			header, body := signedNotification(b, size)
			sideBySide(b, 1+200_000/size,
				repeatedly(func() error {
					_, err := webhook.Parse(header, body)
					return err
				}),
				repeatedly(func() error {
					_, err := byHand.parse(header, body)
					return err
				}))
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

// notificationScheme is these benchmarks' choice; the document shows none.
func notificationScheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Body),
		Encoding:  paymentsvc.Hex,
	}
}

func newWebhook(t testing.TB) *paymentsvc.Webhook {
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme:    notificationScheme(),
		Secrets:   []paymentsvc.Secret{testSecret},
		Tolerance: time.Hour,
	})
	require.NoError(t, err)
	return webhook
}

// signedNotification gives a notification of size bytes with the headers that a server sees around it.
func signedNotification(t testing.TB, size int) (http.Header, []byte) {
	const fields = `{"event":"payment.status_changed","order_id":"6f1c2f2e-4f0b-4a53-9d43-1f0a6a2f8b11","status":1,` +
		`"status_description":"SUCCESS","status_code":2,"amount":10.50,"user_data":"%s"}`
	userData := "order-1"
	userData += strings.Repeat("-", size-len(fmt.Sprintf(fields, userData)))
	body := fmt.Appendf(nil, fields, userData)
	require.Len(t, body, size)

	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	signature, err := notificationScheme().Signature(testSecret, &paymentsvc.Message{Timestamp: timestamp, Body: body})
	require.NoError(t, err)
	header := http.Header{}
	for name, value := range map[string]string{
		"Accept-Encoding": "gzip",
		"Content-Length":  strconv.Itoa(size),
		"Content-Type":    "application/json",
		"User-Agent":      "service/1.0",
		"Timestamp":       timestamp,
		"Signature":       signature,
	} {
		header.Set(name, value)
	}
	return header, body
}

// handWrittenWebhook is a careful program's own check: pooled HMAC states and buffers, constant time, an age.
type handWrittenWebhook struct{ pool *sync.Pool }

type handWrittenState struct {
	mac hash.Hash
	sum [sha256.Size]byte
	hex [2 * sha256.Size]byte
}

func newHandWrittenWebhook() handWrittenWebhook {
	return handWrittenWebhook{&sync.Pool{New: func() any {
		return &handWrittenState{mac: hmac.New(sha256.New, []byte(testSecret))}
	}}}
}

var (
	newline     = []byte("\n")
	errMismatch = errors.New("mismatch")
)

func (w handWrittenWebhook) verify(h http.Header, body []byte) error {
	s := w.pool.Get().(*handWrittenState)
	defer w.pool.Put(s)
	s.mac.Reset()
	io.WriteString(s.mac, h.Get("Timestamp"))
	s.mac.Write(newline)
	s.mac.Write(body)
	hex.Encode(s.hex[:], s.mac.Sum(s.sum[:0]))
	if !hmac.Equal(s.hex[:], []byte(h.Get("Signature"))) {
		return errMismatch
	}
	return nil
}

type handWrittenNotification struct {
	Event             string      `json:"event"`
	OrderID           string      `json:"order_id"`
	Status            int64       `json:"status"`
	StatusDescription string      `json:"status_description"`
	StatusCode        int64       `json:"status_code"`
	Amount            json.Number `json:"amount"`
	UserData          string      `json:"user_data"`
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
