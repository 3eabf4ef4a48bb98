package paymentsvc_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// Transports that send a request again, each in a way that partners' programs have. base is net/http's own.
func repeatingTransports() map[string]func(base http.RoundTripper) http.RoundTripper {
	buffered := func(r *http.Request) func(ctx context.Context) *http.Request {
		body, _ := io.ReadAll(r.Body)
		return func(ctx context.Context) *http.Request {
			again, _ := http.NewRequestWithContext(ctx, r.Method, r.URL.String(), bytes.NewReader(body))
			again.Header = r.Header.Clone()
			return again
		}
	}
	// until sends again until an answer is no 5xx.
	until := func(base http.RoundTripper, times int, next func() *http.Request) (resp *http.Response, err error) {
		for range times {
			if resp, err = base.RoundTrip(next()); err == nil && resp.StatusCode < 500 {
				return resp, nil
			}
			if resp != nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}
		return nil, errors.Join(errors.New("giving up"), err)
	}
	return map[string]func(http.RoundTripper) http.RoundTripper{
		"one that buffers the body and sends it again": func(base http.RoundTripper) http.RoundTripper {
			return roundTripFunc(func(r *http.Request) (*http.Response, error) {
				next := buffered(r)
				return until(base, 5, func() *http.Request { return next(r.Context()) })
			})
		},
		"one that rebuilds the request, GetBody included": func(base http.RoundTripper) http.RoundTripper {
			return roundTripFunc(func(r *http.Request) (*http.Response, error) {
				return until(base, 1, func() *http.Request { return buffered(r)(r.Context()) })
			})
		},
		"one that adds Idempotency-Key": func(base http.RoundTripper) http.RoundTripper {
			return roundTripFunc(func(r *http.Request) (*http.Response, error) {
				next := buffered(r)
				return until(base, 3, func() *http.Request {
					again := next(r.Context())
					again.Header.Set("Idempotency-Key", "k")
					return again
				})
			})
		},
		"one that sends it under a context without cancellation": func(base http.RoundTripper) http.RoundTripper {
			return roundTripFunc(func(r *http.Request) (*http.Response, error) {
				next := buffered(r)
				return until(base, 3, func() *http.Request { return next(context.WithoutCancel(r.Context())) })
			})
		},
		"one that sends it to another name of the host": func(base http.RoundTripper) http.RoundTripper {
			return roundTripFunc(func(r *http.Request) (*http.Response, error) {
				next := buffered(r)
				return until(base, 3, func() *http.Request {
					again := next(r.Context())
					again.URL.Host = strings.Replace(again.URL.Host, "127.0.0.1", "localhost", 1)
					return again
				})
			})
		},
		"one that hedges": func(base http.RoundTripper) http.RoundTripper {
			return roundTripFunc(func(r *http.Request) (*http.Response, error) {
				next := buffered(r)
				var group sync.WaitGroup
				for range 3 {
					again := next(r.Context())
					group.Go(func() {
						if resp, err := base.RoundTrip(again); err == nil {
							_ = resp.Body.Close()
						}
					})
				}
				group.Wait()
				return nil, errors.New("giving up")
			})
		},
	}
}

// breakingServer takes whole requests, counts them by user_data, and answers none: half of its connections break, and
// half get a 503.
type breakingServer struct {
	*httptest.Server
	mu    sync.Mutex
	taken map[string]int
}

func newBreakingServer(t testing.TB, http2 bool) *breakingServer {
	t.Helper()
	s := &breakingServer{taken: map[string]int{}}
	var requests atomic.Int64
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && len(body) > 0 {
			s.mu.Lock()
			s.taken[string(body)]++
			s.mu.Unlock()
		}
		if requests.Add(1)%2 == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if http2 {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

var repeats = flag.Int64("repeats", 50, "calls through each transport that repeats")

func TestTransportThatRepeatsIsStopped(t *testing.T) {
	const callers = 8
	calls := *repeats
	for name, wrap := range repeatingTransports() {
		for _, http2 := range []bool{false, true} {
			for _, trust := range []bool{false, true} {
				protocol := map[bool]string{false: "HTTP/1.1", true: "HTTP/2"}[http2]
				t.Run(name+", "+protocol+map[bool]string{true: ", trusted"}[trust], func(t *testing.T) {
					t.Parallel()
					s := newBreakingServer(t, http2)
					base := s.Client().Transport.(*http.Transport)
					if http2 {
						base.TLSClientConfig.ServerName = "example.com" // whatever the host is called
					}
					c := newClient(t, s.URL, over(wrap(base)), func(cfg *paymentsvc.Config) { cfg.TrustTransport = trust })
					var n, stopped atomic.Int64
					var group sync.WaitGroup
					for range callers {
						group.Go(func() {
							for n.Add(1) <= calls {
								r := payoutRequest()
								r.UserData = paymentsvc.NewUserData()
								_, err := c.InitPayout(t.Context(), r)
								if assert.Error(t, err) {
									assert.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err), err)
									assert.NotErrorIs(t, err, context.Canceled, "the caller has not left")
									if strings.Contains(err.Error(), "the transport tried to send the request again") {
										stopped.Add(1)
									}
								}
							}
						})
					}
					group.Wait()
					base.CloseIdleConnections()
					s.Close()
					for body, times := range s.taken {
						assert.Equal(t, 1, times, body)
					}
					assert.LessOrEqual(t, len(s.taken), int(calls))
					if name != "one that hedges" { // whose first delivery may be stopped with its second
						assert.NotEmpty(t, s.taken, "requests arrived")
					}
					if !strings.Contains(name, "rebuilds") { // which leaves the repeating to net/http
						assert.Positive(t, stopped.Load())
					}
				})
			}
		}
	}
}

// A wrapper may use the request's context for requests of its own: for a token before it, and for a report after it.
func TestTransportMayAskAnotherHost(t *testing.T) {
	var tokens, reports atomic.Int64
	other := newServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/token":
			tokens.Add(1)
		case "/report":
			reports.Add(1)
		}
	}))
	s := newService(t, answering(http.StatusOK, payoutAnswer))
	base := s.Client().Transport
	ask := func(r *http.Request, path string) {
		own, err := http.NewRequestWithContext(r.Context(), http.MethodPost, other+path, strings.NewReader("{}"))
		require.NoError(t, err)
		resp, err := base.RoundTrip(own)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		require.NoError(t, resp.Body.Close())
	}
	c := newClient(t, s.base(), over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		ask(r, "/token")
		ask(r, "/token")
		resp, err := base.RoundTrip(r)
		ask(r, "/report")
		ask(r, "/report")
		return resp, err
	})))
	for range 3 {
		_, err := c.InitPayout(t.Context(), payoutRequest())
		require.NoError(t, err)
	}
	assert.EqualValues(t, 6, tokens.Load())
	assert.EqualValues(t, 6, reports.Load())
	assert.Len(t, s.received(), 3)
}

// What a transport answers after it was stopped proves nothing about the delivery before.
func TestTransportThatRepeatsProvesNoRejection(t *testing.T) {
	s := newBreakingServer(t, false)
	base := s.Client().Transport.(*http.Transport)
	wrap := repeatingTransports()["one that buffers the body and sends it again"](base)
	c := newClient(t, s.URL, over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if _, err := wrap.RoundTrip(r); err == nil {
			t.Error("the server answers nothing")
		}
		return canned(http.StatusBadRequest, nil, ""), nil
	})))
	response, err := nilOr(c.InitPayout(t.Context(), payoutRequest()))
	failed(t, response, err, paymentsvc.OutcomeUnknown)
}

// Once a request was called not sent, nobody can send it any more.
func TestTransportThatSendsLaterHasNothingToSend(t *testing.T) {
	for _, trust := range []bool{false, true} {
		var kept *http.Request
		transport := &http.Transport{}
		later := roundTripFunc(func(r *http.Request) (*http.Response, error) {
			kept = r
			asked, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.URL.String(), nil)
			require.NoError(t, err)
			return new(http.Transport).RoundTrip(asked)
		})
		transport.RegisterProtocol("http", later)
		options := []func(*paymentsvc.Config){over(transport), func(cfg *paymentsvc.Config) { cfg.Retry.MaxAttempts = 1 }}
		if trust {
			options = append(options, over(later), trusted)
		}
		_, err := newClient(t, refusingPort(t), options...).InitPayout(t.Context(), payoutRequest())
		require.Equal(t, paymentsvc.OutcomeNotSent, paymentsvc.OutcomeOf(err))
		body, err := io.ReadAll(kept.Body)
		require.NoError(t, err)
		assert.Empty(t, body)
	}
}

func TestNewTransport(t *testing.T) {
	transport := paymentsvc.NewTransport()
	assert.NotSame(t, transport, paymentsvc.NewTransport(), "so that it can be changed")
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Protocol", r.Proto)
		_, _ = io.WriteString(w, payoutAnswer)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	transport.TLSClientConfig.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	var protocol string
	c := newClient(t, s.URL, over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		resp, err := transport.RoundTrip(r)
		if err == nil {
			protocol = resp.Header.Get("X-Protocol")
		}
		return resp, err
	})))
	_, err := c.InitPayout(t.Context(), payoutRequest())
	require.NoError(t, err)
	assert.Equal(t, "HTTP/1.1", protocol)
	transport.CloseIdleConnections()
	_, err = newClient(t, refusingPort(t), over(paymentsvc.NewTransport())).InitPayout(t.Context(), payoutRequest())
	assert.Equal(t, paymentsvc.OutcomeNotSent, paymentsvc.OutcomeOf(err), "it proves what it has not sent")
}

// With the body once more, net/http sends a request again by itself: over HTTP/2 when its stream is refused, which a
// server may do having read it whole.
func TestTransportThatGivesNetHTTPTheBodyAgainIsStopped(t *testing.T) {
	for name, wrap := range repeatingTransports() {
		t.Run(name, func(t *testing.T) {
			s := newListener(t)
			s.serve(func(conn *net.TCPConn) { refuseStreams(conn, &s.taken) })
			protocols := new(http.Protocols)
			protocols.SetUnencryptedHTTP2(true)
			base := &http.Transport{Protocols: protocols}
			t.Cleanup(base.CloseIdleConnections)
			c := newClient(t, s.base(), over(wrap(base)))
			for calls := int32(1); calls <= 20; calls++ {
				response, err := pay(t.Context(), c)
				failed(t, response, err, paymentsvc.OutcomeUnknown)
				require.LessOrEqual(t, s.taken.Load(), calls)
			}
			if name != "one that hedges" { // whose first delivery may be stopped with its second
				assert.Positive(t, s.taken.Load())
			}
		})
	}
}
