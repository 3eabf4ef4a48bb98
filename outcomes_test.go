package paymentsvc_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// onEach makes a Config.OnAttempt of a function of the attempt alone.
func onEach(f func(paymentsvc.Attempt)) func(context.Context, paymentsvc.Attempt) {
	return func(_ context.Context, a paymentsvc.Attempt) { f(a) }
}

// roundTripFunc is a foreign http.RoundTripper.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// over makes the client send through rt.
func over(rt http.RoundTripper) func(*paymentsvc.Config) {
	return func(cfg *paymentsvc.Config) { cfg.HTTPClient = &http.Client{Transport: rt} }
}

func trusted(cfg *paymentsvc.Config) { cfg.TrustTransport = true }

// canned is an answer that a roundTripFunc gives.
func canned(status int, header http.Header, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}
}

// refusingPort is an address of this machine at which nothing listens.
func refusingPort(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.URL
}

func pay(ctx context.Context, c *paymentsvc.Client) (any, error) {
	return nilOr(c.InitPayment(ctx, paymentsvc.PaymentTypeCard, paymentRequest()))
}

func TestStatusDecidesTheOutcomeAndWhetherAReadIsTriedAgain(t *testing.T) {
	const once, thrice = 1, 3
	for _, test := range []struct {
		status  int
		outcome paymentsvc.Outcome
		reads   int
	}{
		{201, paymentsvc.OutcomeUnknown, once}, // the body is no answer
		{204, paymentsvc.OutcomeUnknown, thrice},
		{301, paymentsvc.OutcomeUnknown, once},
		{400, paymentsvc.OutcomeRejected, once},
		{401, paymentsvc.OutcomeRejected, once},
		{403, paymentsvc.OutcomeUnknown, once},
		{404, paymentsvc.OutcomeUnknown, once},
		{408, paymentsvc.OutcomeUnknown, once},
		{409, paymentsvc.OutcomeUnknown, once},
		{422, paymentsvc.OutcomeRejected, once},
		{429, paymentsvc.OutcomeUnknown, thrice},
		{499, paymentsvc.OutcomeUnknown, once},
		{500, paymentsvc.OutcomeUnknown, thrice},
		{502, paymentsvc.OutcomeUnknown, thrice},
		{503, paymentsvc.OutcomeUnknown, thrice},
		{599, paymentsvc.OutcomeUnknown, thrice},
		{600, paymentsvc.OutcomeUnknown, once},
	} {
		t.Run(strconv.Itoa(test.status), func(t *testing.T) {
			body := `{"no":"answer"}`
			if test.status == http.StatusNoContent {
				body = ""
			}
			for _, op := range operations() {
				s := newService(t, answering(test.status, body))
				if strings.HasPrefix(op.name, "status_") && test.status == 201 {
					continue // all fields of a status answer are optional, so that body is one
				}
				response, err := op.call(t, newClient(t, s.base()))
				e := failed(t, response, err, test.outcome)
				want := test.reads
				if op.starts {
					want = once
				}
				assert.Len(t, s.received(), want, op.name)
				assert.Equal(t, want, e.Attempts, op.name)
				assert.Equal(t, test.status, e.HTTPStatus)
				assert.Equal(t, op.path, e.Endpoint)
				assert.Equal(t, body, string(e.Body))
				assert.NotEmpty(t, e.Header.Get("Date"))
			}
		})
	}
}

func TestDecodeErrorSeesEveryAnswerFirst(t *testing.T) {
	decode := func(cfg *paymentsvc.Config) { cfg.DecodeError = paymentsvc.ErrorFields("error.code", "error.message") }
	reported := `{"error":{"code":17,"message":"limit"},` + paymentAnswer[1:]
	for _, status := range []int{200, 302, 400, 409, 500} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			s := newService(t, answering(status, reported))
			_, err := pay(t.Context(), newClient(t, s.base(), decode))
			var service *paymentsvc.ServiceError
			require.ErrorAs(t, err, &service)
			assert.Equal(t, paymentsvc.ServiceError{Code: "17", Message: "limit"}, *service)
			assert.NotContains(t, err.Error(), "limit", "the text of an answer stays out of the error's")
		})
	}
}

func TestNotSentIsSaidOnlyWithProof(t *testing.T) {
	refused := func(testing.TB) func(*paymentsvc.Config) { return func(*paymentsvc.Config) {} }
	foreignProtocol := func(testing.TB) func(*paymentsvc.Config) {
		return over(&http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{
			"other": func(string, *tls.Conn) http.RoundTripper { return nil },
		}})
	}
	for _, test := range []struct {
		name     string
		option   func(testing.TB) func(*paymentsvc.Config)
		trust    bool
		outcome  paymentsvc.Outcome
		attempts int
	}{
		{"its own transport", refused, false, paymentsvc.OutcomeNotSent, 3},
		{"a plain *http.Transport", func(testing.TB) func(*paymentsvc.Config) { return over(&http.Transport{}) }, false, paymentsvc.OutcomeNotSent, 3},
		{"a copy of http.DefaultTransport", func(testing.TB) func(*paymentsvc.Config) {
			return over(http.DefaultTransport.(*http.Transport).Clone())
		}, false, paymentsvc.OutcomeNotSent, 3},
		{"a transport without HTTP/2", func(testing.TB) func(*paymentsvc.Config) {
			return over(&http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}})
		}, false, paymentsvc.OutcomeNotSent, 3},
		{"an http.Client without a transport", func(testing.TB) func(*paymentsvc.Config) {
			return over(nil)
		}, false, paymentsvc.OutcomeNotSent, 3},
		{"a foreign entry in TLSNextProto", foreignProtocol, false, paymentsvc.OutcomeUnknown, 1},
		{"a foreign RoundTripper", func(testing.TB) func(*paymentsvc.Config) {
			return over(roundTripFunc(http.DefaultTransport.RoundTrip))
		}, false, paymentsvc.OutcomeUnknown, 1},
		{"a foreign RoundTripper that is trusted", func(testing.TB) func(*paymentsvc.Config) {
			return over(roundTripFunc(http.DefaultTransport.RoundTrip))
		}, true, paymentsvc.OutcomeNotSent, 3},
		{"a foreign protocol registered with it", func(testing.TB) func(*paymentsvc.Config) {
			transport := &http.Transport{}
			transport.RegisterProtocol("http", sendsThenAsks{})
			return over(transport)
		}, false, paymentsvc.OutcomeUnknown, 1},
		{"a trusted one that reads the body before it asks for a connection", func(testing.TB) func(*paymentsvc.Config) {
			return over(sendsThenAsks{})
		}, true, paymentsvc.OutcomeUnknown, 1},
		{"a trusted one that never asked for a connection", func(testing.TB) func(*paymentsvc.Config) {
			return over(roundTripFunc(func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }))
		}, true, paymentsvc.OutcomeUnknown, 1},
		{"a trusted one that had a connection before it asked for the next", func(testing.TB) func(*paymentsvc.Config) {
			return over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
				trace := httptrace.ContextClientTrace(r.Context())
				trace.GetConn("first")
				trace.GotConn(httptrace.GotConnInfo{})
				trace.GetConn("second")
				return nil, syscall.ECONNREFUSED
			}))
		}, true, paymentsvc.OutcomeUnknown, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t, refusingPort(t), test.option(t), func(cfg *paymentsvc.Config) { cfg.TrustTransport = test.trust })
			response, err := pay(t.Context(), c)
			e := failed(t, response, err, test.outcome)
			assert.Equal(t, test.attempts, e.Attempts)
			assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		})
	}
}

// sendsThenAsks sends a request on a way of its own, and then tries net/http's, which gets no connection.
type sendsThenAsks struct{}

func (sendsThenAsks) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	fallback, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.URL.String(), nil)
	if err != nil {
		return nil, err
	}
	return new(http.Transport).RoundTrip(fallback)
}

func TestATransportThatHasSpokenHTTP2StillProvesNotSent(t *testing.T) {
	s := httptest.NewUnstartedServer(answering(http.StatusOK, paymentAnswer))
	s.EnableHTTP2 = true
	s.StartTLS()
	transport := s.Client().Transport.(*http.Transport)
	defer transport.CloseIdleConnections()
	c := newClient(t, s.URL, over(transport))
	_, err := pay(t.Context(), c)
	require.NoError(t, err)
	s.Close()
	transport.CloseIdleConnections()

	response, err := pay(t.Context(), c)
	failed(t, response, err, paymentsvc.OutcomeNotSent)
}

func TestAServerWithAWrongCertificateIsSentNothing(t *testing.T) {
	var requests atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	response, err := pay(t.Context(), newClient(t, s.URL))
	failed(t, response, err, paymentsvc.OutcomeNotSent)
	var unverified *tls.CertificateVerificationError
	assert.ErrorAs(t, err, &unverified)
	assert.Zero(t, requests.Load())
}

func TestASignersOwnRequestsProveNothingAboutThePayment(t *testing.T) {
	asks := paymentsvc.SignerFunc(func(r *http.Request, _ []byte) error {
		// A signer that asks a key server, and gets no connection, may still sign with what it has.
		if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
			trace.GetConn("keys")
		}
		return nil
	})
	sent := 0
	c := newClient(t, "http://127.0.0.1", trusted, func(cfg *paymentsvc.Config) { cfg.Signer = asks },
		over(roundTripFunc(func(*http.Request) (*http.Response, error) {
			sent++
			return nil, io.ErrUnexpectedEOF
		})))
	response, err := pay(t.Context(), c)
	failed(t, response, err, paymentsvc.OutcomeUnknown)
	assert.Equal(t, 1, sent)
}

func TestAContextThatIsDoneSendsNothing(t *testing.T) {
	s := newService(t, answering(http.StatusOK, paymentAnswer))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	response, err := pay(ctx, newClient(t, s.base()))
	e := failed(t, response, err, paymentsvc.OutcomeNotSent)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, e.Attempts)
	assert.Empty(t, s.received())
}

func TestAContextThatEndsWhileSigningSendsNothing(t *testing.T) {
	s := newService(t, answering(http.StatusOK, paymentAnswer))
	ctx, cancel := context.WithCancel(t.Context())
	signer := testSigner(t)
	c := newClient(t, s.base(), func(cfg *paymentsvc.Config) {
		cfg.Signer = paymentsvc.SignerFunc(func(r *http.Request, body []byte) error {
			cancel()
			return signer.Sign(r, body)
		})
	})
	response, err := pay(ctx, c)
	failed(t, response, err, paymentsvc.OutcomeNotSent)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, s.received())
}

func TestASignersErrorSendsNothing(t *testing.T) {
	s := newService(t, answering(http.StatusOK, paymentAnswer))
	broken := errors.New("key server away")
	for _, op := range operations() {
		calls := 0
		c := newClient(t, s.base(), func(cfg *paymentsvc.Config) {
			cfg.Signer = paymentsvc.SignerFunc(func(*http.Request, []byte) error { calls++; return broken })
		})
		response, err := op.call(t, c)
		e := failed(t, response, err, paymentsvc.OutcomeNotSent)
		assert.ErrorIs(t, err, broken)
		assert.Zero(t, e.Attempts)
		assert.Equal(t, 1, calls)
	}
	assert.Empty(t, s.received())
}

func TestHeaderInjectionThroughTheSignerSendsNothing(t *testing.T) {
	s := newService(t, answering(http.StatusOK, paymentAnswer))
	for name, value := range map[string]string{
		"Signature": "a\r\nX-Other: 1", "Timestamp": "a\n", "X-Nul": "a\x00", "X-Delete": "\x7f",
		"two words": "a", "X-Other: 1\r\nX": "a", "": "a", "Straße": "a",
	} {
		c := newClient(t, s.base(), func(cfg *paymentsvc.Config) {
			cfg.Signer = paymentsvc.SignerFunc(func(r *http.Request, _ []byte) error {
				r.Header[name] = []string{value}
				return nil
			})
		})
		response, err := pay(t.Context(), c)
		failed(t, response, err, paymentsvc.OutcomeNotSent)
	}
	assert.Empty(t, s.received())
}

func TestTheCauseOfACancellationDoesNotHideIt(t *testing.T) {
	cause := errors.New("the buyer left")
	asked := make(chan struct{})
	release := make(chan struct{})
	s := newService(t, func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-release
	})
	defer close(release)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-asked
		cancel(cause)
	}()
	response, err := pay(ctx, newClient(t, s.base()))
	failed(t, response, err, paymentsvc.OutcomeUnknown)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, cause)
}

func TestTimeoutLimitsOneAttemptAndIsADeadline(t *testing.T) {
	for _, op := range operations() {
		synctest.Test(t, func(t *testing.T) {
			silent, taken := stalling(t, "")
			c := newClient(t, "http://127.0.0.1", over(silent))
			start := time.Now()
			response, err := op.call(t, c)
			e := failed(t, response, err, paymentsvc.OutcomeUnknown)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, map[bool]int{true: 1, false: 3}[op.starts], e.Attempts)
			assert.EqualValues(t, e.Attempts, taken.Load())
			assert.GreaterOrEqual(t, time.Since(start), time.Duration(e.Attempts)*30*time.Second)
		})
	}
}

func TestAttemptsTogetherAreNotSentOnlyIfEachIs(t *testing.T) {
	calls := 0
	c := newClient(t, "http://127.0.0.1", trusted, over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		calls++
		trace := httptrace.ContextClientTrace(r.Context())
		trace.GetConn("")
		if calls == 1 {
			trace.GotConn(httptrace.GotConnInfo{})
		}
		return nil, syscall.ECONNRESET
	})))
	response, err := nilOr(c.GetBalance(t.Context()))
	failed(t, response, err, paymentsvc.OutcomeUnknown)
	assert.Equal(t, 3, calls)
}

func TestTheCallersTraceStillRuns(t *testing.T) {
	s := newService(t, answering(http.StatusOK, paymentAnswer))
	got := false
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { got = true }})
	_, err := pay(ctx, newClient(t, s.base()))
	require.NoError(t, err)
	assert.True(t, got)
}

func TestTheContextOfAFailedAttemptIsOverBeforeItIsJudged(t *testing.T) {
	var attempt context.Context
	c := newClient(t, "http://127.0.0.1", trusted, over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		attempt = r.Context()
		return nil, io.ErrClosedPipe
	})), func(cfg *paymentsvc.Config) {
		cfg.OnAttempt = onEach(func(paymentsvc.Attempt) { assert.Error(t, attempt.Err()) })
	})
	response, err := pay(t.Context(), c)
	failed(t, response, err, paymentsvc.OutcomeUnknown)
	assert.NotEqual(t, t.Context(), attempt, "the attempt has a context of its own")
}

func TestNothingMakesNetHTTPSendAStartAgain(t *testing.T) {
	signer := testSigner(t)
	meddles := paymentsvc.SignerFunc(func(r *http.Request, body []byte) error {
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("X-Idempotency-Key", "k")
		r.Header["idempotency-key"] = []string{"k"}
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body = io.NopCloser(strings.NewReader("something else"))
		r.ContentLength = 5
		return signer.Sign(r, body)
	})
	c := newClient(t, "http://127.0.0.1", func(cfg *paymentsvc.Config) { cfg.Signer = meddles },
		over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
			assert.Nil(t, r.GetBody)
			for name := range r.Header {
				assert.NotContains(t, strings.ToLower(name), "idempotency")
			}
			body, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			assert.Equal(t, operations()[0].sent, string(body), "the bytes signed are the bytes sent")
			assert.Equal(t, int64(len(body)), r.ContentLength)
			return canned(http.StatusOK, nil, paymentAnswer), nil
		})))
	_, err := pay(t.Context(), c)
	require.NoError(t, err)
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the signature went to another host")
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{elsewhere.URL, "/status_payment", "", "::bad::"} {
			s := newService(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Location"] = []string{location}
				w.WriteHeader(status)
			})
			follows := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
			c := newClient(t, s.base(), func(cfg *paymentsvc.Config) { cfg.HTTPClient = follows })
			response, err := pay(t.Context(), c)
			failed(t, response, err, paymentsvc.OutcomeUnknown)
			assert.Len(t, s.received(), 1)
			assert.NoError(t, follows.CheckRedirect(nil, nil), "the caller's client is not changed")
			assert.Nil(t, follows.Transport)
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	const limit = 1 << 10
	long := `{"order_id":"` + strings.Repeat("x", limit) + `"`
	bomb := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		for range 1 << 10 {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				return // the client has left
			}
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"with a length":    answering(http.StatusOK, long),
		"without a length": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long); w.(http.Flusher).Flush() },
		"a gzip bomb":      bomb,
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, answer)
			for _, op := range operations() {
				response, err := op.call(t, newClient(t, s.base(), func(cfg *paymentsvc.Config) { cfg.MaxResponseBytes = limit }))
				e := failed(t, response, err, paymentsvc.OutcomeUnknown)
				assert.ErrorIs(t, err, paymentsvc.ErrResponseTooLarge)
				assert.ErrorIs(t, err, paymentsvc.ErrUnexpectedResponse)
				assert.Len(t, e.Body, limit)
				assert.Equal(t, 1, e.Attempts, "a longer answer will not be shorter next time")
			}
		})
	}
	t.Run("an answer of the limit passes", func(t *testing.T) {
		s := newService(t, answering(http.StatusOK, payoutAnswer))
		for _, limit := range []int64{int64(len(payoutAnswer)), 1<<63 - 1} {
			c := newClient(t, s.base(), func(cfg *paymentsvc.Config) { cfg.MaxResponseBytes = limit })
			_, err := c.InitPayout(t.Context(), payoutRequest())
			require.NoError(t, err)
		}
	})
	t.Run("an oversized rejection is not whole, and proves nothing", func(t *testing.T) {
		s := newService(t, answering(http.StatusBadRequest, long))
		response, err := pay(t.Context(), newClient(t, s.base(), func(cfg *paymentsvc.Config) { cfg.MaxResponseBytes = limit }))
		failed(t, response, err, paymentsvc.OutcomeUnknown)
		assert.ErrorIs(t, err, paymentsvc.ErrResponseTooLarge)
	})
}

func TestCompressedAnswersAreRead(t *testing.T) {
	s := newService(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, payoutAnswer)
		_ = z.Close()
	})
	payout, err := newClient(t, s.base()).InitPayout(t.Context(), payoutRequest())
	require.NoError(t, err)
	assert.Equal(t, payoutAnswer, string(payout.Raw))
}

// sequence answers one response after the other, and the last one for ever.
func sequence(responses ...func() *http.Response) roundTripFunc {
	calls := 0
	return func(*http.Request) (*http.Response, error) {
		respond := responses[min(calls, len(responses)-1)]
		calls++
		return respond(), nil
	}
}

func busy(header ...string) func() *http.Response {
	return func() *http.Response {
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return canned(http.StatusServiceUnavailable, h, "")
	}
}

func balanced() *http.Response { return canned(http.StatusOK, nil, balanceAnswer) }

func TestRetryAfterIsKeptUpToMaxDelay(t *testing.T) {
	for _, test := range []struct {
		name   string
		header func(now time.Time) []string
		want   time.Duration
	}{
		{"seconds", func(time.Time) []string { return []string{"Retry-After", "3"} }, 3 * time.Second},
		{"seconds beyond MaxDelay", func(time.Time) []string { return []string{"Retry-After", "3600"} }, 5 * time.Second},
		{"seconds beyond every duration", func(time.Time) []string { return []string{"Retry-After", "99999999999999999999"} }, 5 * time.Second},
		{"a date", func(now time.Time) []string {
			return []string{"Retry-After", now.Add(4 * time.Second).UTC().Format(http.TimeFormat)}
		}, 4 * time.Second},
		{"a date of a clock that is an hour ahead", func(now time.Time) []string {
			ahead := now.Add(time.Hour).UTC()
			return []string{"Retry-After", ahead.Add(2 * time.Second).Format(http.TimeFormat), "Date", ahead.Format(http.TimeFormat)}
		}, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var seen []paymentsvc.Attempt
				c := newClient(t, "http://127.0.0.1", over(sequence(busy(test.header(start)...), balanced)), func(cfg *paymentsvc.Config) {
					cfg.Retry = paymentsvc.Retry{}
					cfg.OnAttempt = onEach(func(a paymentsvc.Attempt) { seen = append(seen, a) })
				})
				_, err := c.GetBalance(t.Context())
				require.NoError(t, err)
				assert.Equal(t, test.want, time.Since(start))
				require.Len(t, seen, 2)
				assert.Equal(t, test.want, seen[0].RetryIn)
				assert.Zero(t, seen[1].RetryIn)
			})
		})
	}
}

func TestRetryAfterWithoutMeaningLeavesTheBackOff(t *testing.T) {
	for _, value := range []string{"0", "-1", "soon", "", "1.5", "Thu, 01 Jan 1970 00:00:00 GMT"} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			c := newClient(t, "http://127.0.0.1", over(sequence(busy("Retry-After", value), balanced)), func(cfg *paymentsvc.Config) {
				cfg.Retry = paymentsvc.Retry{BaseDelay: 100 * time.Millisecond}
			})
			_, err := c.GetBalance(t.Context())
			require.NoError(t, err)
			assert.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond, value)
			assert.LessOrEqual(t, time.Since(start), 100*time.Millisecond, value)
		})
	}
}

func TestBackOffDoublesWithJitterUpToMaxDelay(t *testing.T) {
	first := map[time.Duration]bool{}
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			var waits []time.Duration
			c := newClient(t, "http://127.0.0.1", over(sequence(busy())), func(cfg *paymentsvc.Config) {
				cfg.Retry = paymentsvc.Retry{MaxAttempts: 6, BaseDelay: time.Second, MaxDelay: 5 * time.Second}
				cfg.OnAttempt = onEach(func(a paymentsvc.Attempt) { waits = append(waits, a.RetryIn) })
			})
			start := time.Now()
			response, err := nilOr(c.GetBalance(t.Context()))
			e := failed(t, response, err, paymentsvc.OutcomeUnknown)
			assert.Equal(t, 6, e.Attempts)
			require.Len(t, waits, 6)
			total := time.Duration(0)
			for i, most := range []time.Duration{1, 2, 4, 5, 5} {
				assert.LessOrEqual(t, waits[i], most*time.Second)
				assert.GreaterOrEqual(t, waits[i], most*time.Second/2)
				total += waits[i]
			}
			assert.Zero(t, waits[5])
			assert.Equal(t, total, time.Since(start), "each wait is as long as it was said to be")
			first[waits[0]] = true
		})
	}
	assert.Greater(t, len(first), 10, "callers who failed together do not come back together")
}

func TestCancellationEndsTheBackOffAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newClient(t, "http://127.0.0.1", over(sequence(busy("Retry-After", "60"))), func(cfg *paymentsvc.Config) {
			cfg.Retry = paymentsvc.Retry{MaxDelay: time.Hour}
		})
		start := time.Now()
		time.AfterFunc(7*time.Second, cancel)
		response, err := nilOr(c.GetBalance(ctx))
		e := failed(t, response, err, paymentsvc.OutcomeUnknown)
		assert.Equal(t, 7*time.Second, time.Since(start))
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, http.StatusServiceUnavailable, e.HTTPStatus, "what was known before stays known")
		assert.Equal(t, 1, e.Attempts)
	})
}

func TestCancellationDuringTheBackOffLeavesNotSentAsItWas(t *testing.T) {
	refusing := refusingPort(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := newClient(t, refusing, func(cfg *paymentsvc.Config) {
		cfg.Retry = paymentsvc.Retry{BaseDelay: time.Hour, MaxDelay: time.Hour}
		cfg.OnAttempt = onEach(func(paymentsvc.Attempt) { cancel() })
	})
	response, err := pay(ctx, c)
	failed(t, response, err, paymentsvc.OutcomeNotSent)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestAnAttemptsErrorDoesNotChangeOnceItWasReported(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var reported *paymentsvc.Error
	var text string
	c := newClient(t, "http://127.0.0.1", over(sequence(busy("Retry-After", "60"))), func(cfg *paymentsvc.Config) {
		cfg.Retry = paymentsvc.Retry{MaxDelay: time.Hour}
		cfg.OnAttempt = onEach(func(a paymentsvc.Attempt) {
			require.ErrorAs(t, a.Err, &reported)
			text = a.Err.Error()
			cancel()
		})
	})
	_, err := c.GetBalance(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.NotSame(t, reported, err)
	assert.Equal(t, text, reported.Error())
}

func TestThereIsNoWaitingPastTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		c := newClient(t, "http://127.0.0.1", over(sequence(busy("Retry-After", "3"))), func(cfg *paymentsvc.Config) {
			cfg.Retry = paymentsvc.Retry{}
		})
		start := time.Now()
		response, err := nilOr(c.GetBalance(ctx))
		e := failed(t, response, err, paymentsvc.OutcomeUnknown)
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 1, e.Attempts)
		assert.Equal(t, http.StatusServiceUnavailable, e.HTTPStatus)
	})
}

func TestEveryAttemptIsSignedAfresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timestamps, signatures []string
		c := newClient(t, "http://127.0.0.1", func(cfg *paymentsvc.Config) { cfg.Retry = paymentsvc.Retry{BaseDelay: 4 * time.Second} },
			over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
				timestamps = append(timestamps, r.Header.Get("Timestamp"))
				signatures = append(signatures, r.Header.Get("Signature"))
				assert.Equal(t, strconv.FormatInt(time.Now().Unix(), 10), r.Header.Get("Timestamp"))
				return busy()(), nil
			})))
		_, err := c.GetBalance(t.Context())
		require.Error(t, err)
		require.Len(t, timestamps, 3)
		assert.NotEqual(t, timestamps[0], timestamps[1])
		assert.NotEqual(t, signatures[0], signatures[1])
		assert.NotEqual(t, signatures[1], signatures[2])
	})
}

func TestOnAttemptSeesEveryAttemptWithTheCallersContext(t *testing.T) {
	type key struct{}
	var seen []paymentsvc.Attempt
	c := newClient(t, "http://127.0.0.1", over(sequence(busy(), func() *http.Response {
		return canned(http.StatusOK, nil, balanceAnswer[:20])
	}, balanced)), func(cfg *paymentsvc.Config) {
		cfg.OnAttempt = func(ctx context.Context, a paymentsvc.Attempt) {
			assert.Equal(t, "caller", ctx.Value(key{}))
			assert.NoError(t, ctx.Err())
			seen = append(seen, a)
		}
	})
	_, err := c.GetBalance(context.WithValue(t.Context(), key{}, "caller"))
	require.NoError(t, err)
	require.Len(t, seen, 3)
	for i, a := range seen {
		assert.Equal(t, "get_balance", a.Endpoint)
		assert.Equal(t, i+1, a.Number)
		assert.Equal(t, i < 2, a.RetryIn > 0)
		assert.Equal(t, i < 2, a.Err != nil)
		assert.Positive(t, a.Duration)
	}
	assert.Equal(t, http.StatusServiceUnavailable, seen[0].HTTPStatus)
	assert.Equal(t, http.StatusOK, seen[1].HTTPStatus)
	assert.ErrorIs(t, seen[1].Err, paymentsvc.ErrUnexpectedResponse, "half an object is no answer")
}

func TestClockSkewIsTheServicesDateLessTheLocalTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		date := time.Now().Add(-90 * time.Second).UTC().Format(http.TimeFormat)
		for _, test := range []struct {
			header http.Header
			want   time.Duration
			known  bool
		}{
			{http.Header{"Date": {date}}, -90 * time.Second, true},
			{http.Header{"Date": {"yesterday"}}, 0, false},
			{nil, 0, false},
		} {
			c := newClient(t, "http://127.0.0.1", over(roundTripFunc(func(*http.Request) (*http.Response, error) {
				return canned(http.StatusUnauthorized, test.header, ""), nil
			})))
			response, err := pay(t.Context(), c)
			skew, known := failed(t, response, err, paymentsvc.OutcomeRejected).ClockSkew()
			assert.Equal(t, test.want, skew)
			assert.Equal(t, test.known, known)
		}
	})
	t.Run("and nothing without an answer", func(t *testing.T) {
		_, err := pay(t.Context(), newClient(t, refusingPort(t)))
		var e *paymentsvc.Error
		require.ErrorAs(t, err, &e)
		_, known := e.ClockSkew()
		assert.False(t, known)
	})
}
