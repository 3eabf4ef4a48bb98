// Package wrappers tests the SDK under the RoundTrippers of other libraries, for example for retries, traces and
// recorded responses.
package wrappers

import (
	"bytes"
	"context"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"gopkg.in/dnaeon/go-vcr.v4/pkg/cassette"
	"gopkg.in/dnaeon/go-vcr.v4/pkg/recorder"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

var calls = flag.Int64("calls", 20, "calls through each wrapper")

// retrying returns go-retryablehttp with the configuration of its documentation and short waits.
func retrying(base http.RoundTripper) http.RoundTripper {
	client := retryablehttp.NewClient()
	client.HTTPClient.Transport = base
	client.Logger = nil
	client.RetryWaitMin, client.RetryWaitMax = time.Millisecond, 2*time.Millisecond
	return client.StandardClient().Transport
}

// tracing returns OpenTelemetry's wrapper, which records each request and sends the id of the trace.
func tracing(t *testing.T, base http.RoundTripper) http.RoundTripper {
	t.Helper()
	provider := trace.NewTracerProvider()
	t.Cleanup(func() { assert.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) })
	return otelhttp.NewTransport(base,
		otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{}))
}

// server accepts complete requests and counts them by body.
type server struct {
	*httptest.Server
	base *http.Transport // a transport to the server

	mu     sync.Mutex
	taken  map[string]int
	traced int
}

// newServer starts a server that calls respond. Over HTTP/1.1 its transport is [paymentsvc.NewTransport].
func newServer(t *testing.T, http2 bool, respond http.HandlerFunc) *server {
	t.Helper()
	s := &server{base: paymentsvc.NewTransport(), taken: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && len(body) > 0 {
			s.mu.Lock()
			s.taken[string(body)]++
			if r.Header.Get("Traceparent") != "" {
				s.traced++
			}
			s.mu.Unlock()
		}
		assert.Equal(t, http2, r.ProtoMajor == 2, r.Proto)
		respond(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if http2 {
		s.EnableHTTP2 = true
		s.StartTLS()
		s.base = s.Client().Transport.(*http.Transport)
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	t.Cleanup(s.base.CloseIdleConnections)
	return s
}

// breaking returns a handler that alternately responds with 503 and breaks the connection.
func breaking() http.HandlerFunc {
	var requests atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%2 == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func newClient(t *testing.T, address string, transport http.RoundTripper, trust bool) *paymentsvc.Client {
	t.Helper()
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: paymentsvc.Scheme{
			Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), // an example, like the encoding
			Encoding:  paymentsvc.Hex,
		},
		Secret: "the-secret-of-the-wrapper-tests",
	})
	require.NoError(t, err)
	client, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: address, PartnerID: 1001, ProjectID: 2002, Signer: signer,
		HTTPClient:     &http.Client{Transport: transport},
		TrustTransport: trust,
		Retry:          paymentsvc.Retry{BaseDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond},
	})
	require.NoError(t, err)
	return client
}

// payOut makes a payout with a new user_data.
func payOut(ctx context.Context, c *paymentsvc.Client) error {
	_, err := c.InitPayout(ctx, paymentsvc.PayoutRequest{
		Amount:      paymentsvc.MustParseAmount("10.50"),
		Destination: "4111111111111111",
		UserData:    paymentsvc.NewUserData(),
	})
	return err
}

// payOutAll makes the number of payouts in -calls, eight at a time, and returns their errors.
func payOutAll(ctx context.Context, c *paymentsvc.Client) []error {
	errs := make([]error, *calls)
	var n atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := n.Add(1) - 1; i < *calls; i = n.Add(1) - 1 {
				errs[i] = payOut(ctx, c)
			}
		})
	}
	group.Wait()
	return errs
}

// forEachProtocol runs test over HTTP/1.1 and HTTP/2, with TrustTransport and without.
func forEachProtocol(t *testing.T, test func(t *testing.T, http2, trust bool)) {
	t.Helper()
	for _, http2 := range []bool{false, true} {
		for _, trust := range []bool{false, true} {
			name := map[bool]string{false: "HTTP1", true: "HTTP2"}[http2] + map[bool]string{true: "Trusted"}[trust]
			t.Run(name, func(t *testing.T) { test(t, http2, trust) })
		}
	}
}

// requireAtMostOneDelivery makes payouts on a failing server. No payout arrives twice, and each outcome is unknown.
func requireAtMostOneDelivery(t *testing.T, s *server, transport http.RoundTripper, trust bool) {
	t.Helper()
	for _, err := range payOutAll(t.Context(), newClient(t, s.URL, transport, trust)) {
		require.Error(t, err)
		require.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err), err)
		require.False(t, paymentsvc.SafeToRetry(err))
		require.NotErrorIs(t, err, context.Canceled, "the caller has not canceled")
	}
	s.base.CloseIdleConnections()
	s.Close() // waits for the requests in flight
	require.NotEmpty(t, s.taken)
	for body, times := range s.taken {
		require.Equal(t, 1, times, "deliveries of %s", body)
	}
}

// Without the SDK, go-retryablehttp buffers the body, rebuilds the request and sends it up to five times.
func TestRetryablehttpSendsAgainByItself(t *testing.T) {
	s := newServer(t, false, breaking())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("a payout"))
	require.NoError(t, err)
	_, err = retrying(s.base).RoundTrip(req)
	require.Error(t, err)
	s.Close()
	require.Equal(t, map[string]int{"a payout": 5}, s.taken)
}

// dumping is a RoundTripper that logs each request with httputil.DumpRequestOut.
type dumping struct {
	base http.RoundTripper
	logs atomic.Int64
	// during starts a dump in parallel with the delivery.
	during bool
}

func (d *dumping) RoundTrip(r *http.Request) (*http.Response, error) {
	var dumps sync.WaitGroup
	defer dumps.Wait()
	if !d.during {
		if err := d.dump(r); err != nil {
			return nil, err
		}
		return d.base.RoundTrip(r)
	}
	logged := r.Clone(r.Context())
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	logged.Body, r.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
	dumps.Go(func() { _ = d.dump(logged) })
	return d.base.RoundTrip(r)
}

// dump logs a request as sent, and counts complete logs.
func (d *dumping) dump(r *http.Request) error {
	text, err := httputil.DumpRequestOut(r, true)
	if err == nil && bytes.Contains(text, []byte("Signature: ")) && bytes.Contains(text, []byte("partner_id")) {
		d.logs.Add(1)
	}
	return err
}

// recording returns go-vcr's recorder, which writes each interaction to a cassette in dir, but omits the body and the
// signature.
func recording(t *testing.T, dir string, mode recorder.Mode, base http.RoundTripper) *recorder.Recorder {
	t.Helper()
	r, err := recorder.New(filepath.Join(dir, "cassette"), recorder.WithMode(mode), recorder.WithRealTransport(base),
		recorder.WithHook(func(i *cassette.Interaction) error {
			i.Request.Body = ""
			i.Request.ContentLength = 0
			i.Request.Headers.Del("Signature")
			return nil
		}, recorder.BeforeSaveHook))
	require.NoError(t, err)
	return r
}

// recorders returns RoundTrippers that also write each request to memory.
func recorders(t *testing.T) map[string]func(http.RoundTripper) http.RoundTripper {
	t.Helper()
	record := func(base http.RoundTripper) http.RoundTripper {
		return recording(t, t.TempDir(), recorder.ModeRecordOnly, base)
	}
	return map[string]func(http.RoundTripper) http.RoundTripper{
		"dump":                func(base http.RoundTripper) http.RoundTripper { return &dumping{base: base} },
		"dump and delivery":   func(base http.RoundTripper) http.RoundTripper { return &dumping{base: base, during: true} },
		"two dumps":           func(base http.RoundTripper) http.RoundTripper { return &dumping{base: &dumping{base: base}} },
		"go-vcr":              record,
		"go-vcr with a trace": func(base http.RoundTripper) http.RoundTripper { return tracing(t, record(base)) },
	}
}

// wrappers returns the recorders, OpenTelemetry and go-retryablehttp. A registered protocol of an http.Transport is a
// wrapper too.
func wrappers(t *testing.T) map[string]func(http.RoundTripper) http.RoundTripper {
	t.Helper()
	all := recorders(t)
	all["OpenTelemetry"] = func(base http.RoundTripper) http.RoundTripper { return tracing(t, base) }
	all["retryablehttp"] = retrying
	all["registered retryablehttp"] = func(base http.RoundTripper) http.RoundTripper {
		registers := new(http.Transport)
		registers.RegisterProtocol("http", retrying(base))
		registers.RegisterProtocol("https", retrying(base))
		return registers
	}
	return all
}

func TestWrappersSucceed(t *testing.T) {
	for name, wrap := range wrappers(t) {
		if name == "dump and delivery" { // the guard may stop a call, because the headers of both alternate in the trace
			continue
		}
		t.Run(name, func(t *testing.T) {
			forEachProtocol(t, func(t *testing.T, http2, trust bool) {
				s := newServer(t, http2, func(w http.ResponseWriter, _ *http.Request) {
					_, _ = io.WriteString(w, `{"order_id":"payout-1","status":1,"status_code":2}`)
				})
				for _, err := range payOutAll(t.Context(), newClient(t, s.URL, wrap(s.base), trust)) {
					require.NoError(t, err)
				}
				require.Len(t, s.taken, int(*calls))
			})
		})
	}
}

func TestWrappersDeliverOnce(t *testing.T) {
	for name, wrap := range wrappers(t) {
		t.Run(name, func(t *testing.T) {
			forEachProtocol(t, func(t *testing.T, http2, trust bool) {
				s := newServer(t, http2, breaking())
				requireAtMostOneDelivery(t, s, wrap(s.base), trust)
				if name != "dump and delivery" {
					require.Len(t, s.taken, int(*calls), "payouts that arrived")
				}
				if name == "OpenTelemetry" {
					require.Equal(t, len(s.taken), s.traced, "requests with the trace's id")
				}
			})
		})
	}
}

// A dump before, during or between two deliveries does not hide the second delivery.
func TestRecordersHideNoSecondDelivery(t *testing.T) {
	for name, wrap := range recorders(t) {
		for order, combine := range map[string]func(http.RoundTripper) http.RoundTripper{
			"retries around a recorder": func(base http.RoundTripper) http.RoundTripper { return retrying(wrap(base)) },
			"a recorder around retries": func(base http.RoundTripper) http.RoundTripper { return wrap(retrying(base)) },
		} {
			t.Run(name+", "+order, func(t *testing.T) {
				forEachProtocol(t, func(t *testing.T, http2, trust bool) {
					s := newServer(t, http2, breaking())
					requireAtMostOneDelivery(t, s, combine(s.base), trust)
				})
			})
		}
	}
}

func TestCassetteReplays(t *testing.T) {
	dir := t.TempDir()
	s := newServer(t, false, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"order_id":"payout-1","status":1,"status_code":2}`)
	})
	record := recording(t, dir, recorder.ModeRecordOnly, s.base)
	require.NoError(t, payOut(t.Context(), newClient(t, s.URL, record, false)))
	require.NoError(t, record.Stop())
	saved, err := os.ReadFile(filepath.Join(dir, "cassette.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(saved), "payout-1")
	require.NotContains(t, string(saved), "4111111111111111")
	require.NotContains(t, string(saved), "Signature")

	replay, err := recorder.New(filepath.Join(dir, "cassette"), recorder.WithMode(recorder.ModeReplayOnly),
		recorder.WithMatcher(func(r *http.Request, i cassette.Request) bool {
			return r.Method == i.Method && r.URL.String() == i.URL
		}))
	require.NoError(t, err)
	require.NoError(t, payOut(t.Context(), newClient(t, s.URL, replay, false)))
	require.NoError(t, replay.Stop())
	require.Len(t, s.taken, 1)
}

// TestOpenTelemetryProvesNotSent checks that a refused connection is "not sent" with TrustTransport.
func TestOpenTelemetryProvesNotSent(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, http2, trust bool) {
		s := newServer(t, http2, breaking())
		s.Close()
		want := paymentsvc.OutcomeUnknown
		if trust {
			want = paymentsvc.OutcomeNotSent
		}
		err := payOut(t.Context(), newClient(t, s.URL, tracing(t, s.base), trust))
		require.Equal(t, want, paymentsvc.OutcomeOf(err), err)
		require.Equal(t, trust, paymentsvc.SafeToRetry(err))
	})
}
