package paymentsvc_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// hookFault is a delivery that is refused: which sentinel it is, and how Handler answers.
type hookFault struct {
	name   string
	want   error
	status int
	make   func() *http.Request
	body   string // what the body reads as afterwards
}

// hookFaults are all the ways in which a delivery is refused, for a Webhook that newHook made.
func hookFaults() []hookFault {
	changed := func(body string, change func(*http.Request)) func() *http.Request {
		return func() *http.Request {
			r := hookRequest(body)
			change(r)
			return r
		}
	}
	large := strings.Replace(hookBody, "o-1", strings.Repeat("o", hookBodyLimit), 1)
	return []hookFault{
		{"no timestamp", paymentsvc.ErrMissingHeader, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) { r.Header.Del("Timestamp") }), hookBody},
		{"no signature", paymentsvc.ErrMissingHeader, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) { r.Header.Del("Signature") }), hookBody},
		{"two signatures", paymentsvc.ErrMalformedHeader, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) { r.Header.Add("Signature", "a") }), hookBody},
		{"a timestamp that is none", paymentsvc.ErrMalformedHeader, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) { r.Header = hookHeader("1e9", hookBody) }), hookBody},
		{"a forged signature", paymentsvc.ErrSignatureMismatch, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) {
				r.Header.Set("Signature", plainSignature(hookOther, hookClockShown, hookBody))
			}), hookBody},
		{"a forged signature over no notification", paymentsvc.ErrSignatureMismatch, http.StatusUnauthorized,
			changed("no JSON", func(r *http.Request) { r.Header.Set("Signature", "a") }), "no JSON"},
		{"too old", paymentsvc.ErrTimestampTooOld, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) { r.Header = hookHeader("1699999699", hookBody) }), hookBody},
		{"too new", paymentsvc.ErrTimestampTooNew, http.StatusUnauthorized,
			changed(hookBody, func(r *http.Request) { r.Header = hookHeader("1700000301", hookBody) }), hookBody},
		{"an empty body", paymentsvc.ErrEmptyBody, http.StatusBadRequest,
			changed("", func(*http.Request) {}), ""},
		{"a body that had been read", paymentsvc.ErrEmptyBody, http.StatusBadRequest,
			changed(hookBody, func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }), ""},
		{"a right signature over no JSON", paymentsvc.ErrMalformedNotification, http.StatusBadRequest,
			changed("no JSON", func(*http.Request) {}), "no JSON"},
		{"a right signature over an object that lacks fields", paymentsvc.ErrMalformedNotification, http.StatusBadRequest,
			changed("{}", func(*http.Request) {}), "{}"},
		{"a body that is declared too large", paymentsvc.ErrBodyTooLarge, http.StatusRequestEntityTooLarge,
			changed(large, func(*http.Request) {}), large},
		{"a body that is too large without being declared", paymentsvc.ErrBodyTooLarge, http.StatusRequestEntityTooLarge,
			changed(large, func(r *http.Request) { r.ContentLength = -1 }), large},
		{"a small body that is declared too large", paymentsvc.ErrBodyTooLarge, http.StatusRequestEntityTooLarge,
			changed(hookBody, func(r *http.Request) { r.ContentLength = hookBodyLimit + 1 }), hookBody},
	}
}

func TestNoFaultIsTakenForAnother(t *testing.T) {
	for _, fault := range hookFaults() {
		t.Run(fault.name, func(t *testing.T) {
			n, err := newHook(t).ParseRequest(fault.make())
			isOnly(t, err, fault.want)
			assert.Nil(t, n)
			answer := answerOf(newHook(t).Handler(neverCalled(t)), fault.make())
			assert.Equal(t, fault.status, answer.Code)
			assert.Equal(t, http.StatusText(fault.status)+"\n", answer.Body.String(), "an answer tells a forger nothing")
		})
	}
}

func TestTheBodyCanBeReadAgain(t *testing.T) {
	faults := append(hookFaults(), hookFault{"success", nil, http.StatusOK, func() *http.Request { return hookRequest(hookBody) }, hookBody})
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			r := fault.make()
			closer := &closeCounter{ReadCloser: r.Body}
			r.Body = closer
			_, err := newHook(t).ParseRequest(r)
			require.Equal(t, fault.want == nil, err == nil)
			unread(t, r, fault.body)
			require.NoError(t, r.Body.Close())
			assert.Equal(t, 1, closer.closed, "closing closes the request's own body")
		})
	}
	t.Run("twice through ParseRequest", func(t *testing.T) {
		r := hookRequest(hookBody)
		for range 2 {
			n, err := newHook(t).ParseRequest(r)
			require.NoError(t, err)
			assert.Equal(t, hookBody, string(n.Raw))
			r.Body = io.NopCloser(bytes.NewReader(n.Raw))
		}
	})
	t.Run("a body that broke off breaks off again", func(t *testing.T) {
		r := hookRequest(hookBody)
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader(hookBody[:40]), iotest.ErrReader(io.ErrUnexpectedEOF)))
		_, err := newHook(t).ParseRequest(r)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		isOnly(t, err, nil)
		body, err := io.ReadAll(r.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Equal(t, hookBody[:40], string(body))
	})
	t.Run("no body at all", func(t *testing.T) {
		r := hookRequest(hookBody)
		r.Body = nil
		_, err := newHook(t).ParseRequest(r)
		isOnly(t, err, paymentsvc.ErrEmptyBody)
		r.Body = http.NoBody
		_, err = newHook(t).ParseRequest(r)
		isOnly(t, err, paymentsvc.ErrEmptyBody)
	})
}

type closeCounter struct {
	io.ReadCloser
	closed int
}

func (c *closeCounter) Close() error {
	c.closed++
	return c.ReadCloser.Close()
}

func TestAnEmptyBodyHasItsOwnError(t *testing.T) {
	for _, body := range [][]byte{nil, {}} {
		isOnly(t, newHook(t).Verify(hookHeader(hookClockShown, ""), body), paymentsvc.ErrEmptyBody)
		_, err := newHook(t).Parse(hookHeader(hookClockShown, ""), body)
		isOnly(t, err, paymentsvc.ErrEmptyBody)
	}
	logged := func(h http.Handler) http.Handler { // as middleware does that forgets to put the body back
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			h.ServeHTTP(w, r)
		})
	}
	var reason error
	webhook := newHook(t, func(c *paymentsvc.WebhookConfig) {
		c.Respond = func(_ http.ResponseWriter, _ *http.Request, err error) { reason = err }
	})
	server := httptest.NewServer(logged(webhook.Handler(neverCalled(t))))
	defer server.Close()
	post(t, server, "/", hookHeader(hookClockShown, hookBody), strings.NewReader(hookBody))
	isOnly(t, reason, paymentsvc.ErrEmptyBody)
	assert.Contains(t, reason.Error(), "already read", "it says what may have happened")
}

// endless is a body that counts what is read of it. It ends after 16 MiB all the same, for the sake of a machine on
// which nobody stops reading.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	if e.read > 16<<20 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = 'a'
	}
	e.read += len(p)
	return len(p), nil
}

func TestTheBodyIsBounded(t *testing.T) {
	padded := func(size int) string { return hookBody + strings.Repeat(" ", size-len(hookBody)) }
	for _, test := range []struct {
		name  string
		limit int64
		size  int
		want  error
	}{
		{"64 KiB pass", 0, 64 << 10, nil},
		{"a byte more does not", 0, 64<<10 + 1, paymentsvc.ErrBodyTooLarge},
		{"a limit of its own is kept", 1000, 1000, nil},
		{"a byte more than that", 1000, 1001, paymentsvc.ErrBodyTooLarge},
		{"a higher limit", 1 << 20, 1 << 20, nil},
		{"a byte more than the higher limit", 1 << 20, 1<<20 + 1, paymentsvc.ErrBodyTooLarge},
		{"the highest limit", math.MaxInt64, 1 << 20, nil},
		{"a limit of one byte", 1, 200, paymentsvc.ErrBodyTooLarge},
	} {
		for _, declared := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, declared: %t", test.name, declared), func(t *testing.T) {
				webhook := newHook(t, func(c *paymentsvc.WebhookConfig) { c.MaxBodyBytes = test.limit })
				r := hookRequest(padded(test.size))
				if !declared {
					r.ContentLength = -1
				}
				n, err := webhook.ParseRequest(r)
				if test.want == nil {
					require.NoError(t, err)
					assert.Len(t, n.Raw, test.size)
					return
				}
				isOnly(t, err, test.want)
			})
		}
	}
	t.Run("of an endless body one byte over the limit is read", func(t *testing.T) {
		body := &endless{}
		r := hookRequest(hookBody)
		r.Body, r.ContentLength = io.NopCloser(body), -1
		_, err := newHook(t).ParseRequest(r)
		isOnly(t, err, paymentsvc.ErrBodyTooLarge)
		assert.Equal(t, hookBodyLimit+1, body.read)
	})
	t.Run("of a body that is declared too large nothing is read", func(t *testing.T) {
		body := &endless{}
		r := hookRequest(hookBody)
		r.Body, r.ContentLength = io.NopCloser(body), hookBodyLimit+1
		_, err := newHook(t).ParseRequest(r)
		isOnly(t, err, paymentsvc.ErrBodyTooLarge)
		assert.Zero(t, body.read)
	})
	t.Run("Verify and Parse take what they are given", func(t *testing.T) {
		body := padded(1 << 20)
		require.NoError(t, newHook(t).Verify(hookHeader(hookClockShown, body), []byte(body)))
	})
}

func TestADeclaredLengthIsOnlyAHint(t *testing.T) {
	webhook := newHook(t, func(c *paymentsvc.WebhookConfig) { c.MaxBodyBytes = math.MaxInt64 })
	for _, declared := range []int64{-1, 0, 1, int64(len(hookBody)) - 1, int64(len(hookBody)) + 1, 1 << 20, math.MaxInt64} {
		r := hookRequest(hookBody)
		r.ContentLength = declared
		n, err := webhook.ParseRequest(r)
		require.NoError(t, err, declared)
		assert.Equal(t, hookBody, string(n.Raw))
		unread(t, r, hookBody)
	}
}

func TestABodyThatArrivesInPiecesIsRead(t *testing.T) {
	server := httptest.NewServer(newHook(t).Handler(accept))
	defer server.Close()
	for _, size := range []int{0, hookBodyLimit - len(hookBody)} {
		body := hookBody + strings.Repeat(" ", size)
		chunked := struct{ io.Reader }{strings.NewReader(body)} // of unknown length
		assert.Equal(t, http.StatusOK, post(t, server, "/", hookHeader(hookClockShown, body), chunked))
	}
	tooLarge := struct{ io.Reader }{strings.NewReader(strings.Repeat("a", 2*hookBodyLimit))}
	assert.Equal(t, http.StatusRequestEntityTooLarge, post(t, server, "/", hookHeader(hookClockShown, hookBody), tooLarge))

	r := hookRequest(hookBody)
	r.Body, r.ContentLength = io.NopCloser(iotest.OneByteReader(strings.NewReader(hookBody))), -1
	n, err := newHook(t).ParseRequest(r)
	require.NoError(t, err)
	assert.Equal(t, hookBody, string(n.Raw))
}

// hookServer is a server of net/http that counts the bytes which it takes off its connections.
type hookServer struct {
	*httptest.Server
	taken atomic.Int64
}

func newHookServer(t testing.TB, h http.Handler) *hookServer {
	t.Helper()
	w := &hookServer{}
	w.Server = httptest.NewUnstartedServer(h)
	w.Listener = countedListener{w.Listener, &w.taken}
	w.Start()
	t.Cleanup(w.Close)
	return w
}

type countedListener struct {
	net.Listener
	taken *atomic.Int64
}

func (l countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countedConn{conn, l.taken}, err
}

type countedConn struct {
	net.Conn
	taken *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.taken.Add(int64(n))
	return n, err
}

// dial opens a connection and sends the head of a notification whose signature is right for hookBody.
func (w *hookServer) dial(t testing.TB, header ...string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", w.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)), "a server that gives no answer fails the test")
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: partner.example\r\nTimestamp: %s\r\nSignature: %s\r\n%s\r\n\r\n",
		hookClockShown, plainSignature(testSecret, hookClockShown, hookBody), strings.Join(header, "\r\n"))
	require.NoError(t, err)
	return conn.(*net.TCPConn)
}

// statusOn reads the status of the answer on conn.
func statusOn(t testing.TB, conn net.Conn) int {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusRequestEntityTooLarge {
		assert.True(t, answer.Close, "what is left of the body is not to be taken for a next request")
	}
	return answer.StatusCode
}

func TestAnOversizeBodyIsAnsweredWithoutBeingRead(t *testing.T) {
	server := newHookServer(t, newHook(t).Handler(neverCalled(t)))

	t.Run("1 GB that is announced and never sent", func(t *testing.T) {
		conn := server.dial(t, "Content-Length: 1000000000")
		assert.Equal(t, http.StatusRequestEntityTooLarge, statusOn(t, conn))
	})
	t.Run("1 GB that waits to be asked for", func(t *testing.T) {
		conn := server.dial(t, "Content-Length: 1000000000", "Expect: 100-continue")
		assert.Equal(t, http.StatusRequestEntityTooLarge, statusOn(t, conn), "and not 100 Continue")
	})
	t.Run("chunks without end", func(t *testing.T) {
		server.taken.Store(0)
		conn := server.dial(t, "Transfer-Encoding: chunked")
		done := make(chan struct{})
		go func() { // sends for as long as anybody reads
			defer close(done)
			chunk := "8000\r\n" + strings.Repeat("a", 0x8000) + "\r\n"
			for {
				if _, err := io.WriteString(conn, chunk); err != nil {
					return
				}
			}
		}()
		assert.Equal(t, http.StatusRequestEntityTooLarge, statusOn(t, conn))
		require.NoError(t, conn.Close())
		<-done
		// net/http itself may take up to 256 KiB more, behind the answer, before it gives the connection up.
		assert.LessOrEqual(t, server.taken.Load(), int64(hookBodyLimit+256<<10+32<<10))
	})
}

func TestALengthThatLies(t *testing.T) {
	var reason error
	arrived := make(chan struct{}, 1)
	server := newHookServer(t, newHook(t, func(c *paymentsvc.WebhookConfig) {
		c.Respond = func(w http.ResponseWriter, _ *http.Request, err error) {
			reason = err
			w.WriteHeader(http.StatusTeapot)
			arrived <- struct{}{}
		}
	}).Handler(neverCalled(t)))
	plain := newHookServer(t, newHook(t).Handler(neverCalled(t)))
	length := func(off int) string { return "Content-Length: " + strconv.Itoa(len(hookBody)+off) }
	send := func(t *testing.T, to *hookServer, off int) *net.TCPConn {
		conn := to.dial(t, length(off), "Connection: close")
		_, err := io.WriteString(conn, hookBody)
		require.NoError(t, err)
		require.NoError(t, conn.CloseWrite())
		return conn
	}
	t.Run("more is announced than sent", func(t *testing.T) {
		assert.Equal(t, http.StatusBadRequest, statusOn(t, send(t, plain, 10)))
		send(t, server, 10)
		<-arrived
		isOnly(t, reason, nil)
		require.ErrorIs(t, reason, io.ErrUnexpectedEOF)
	})
	t.Run("less is announced than sent", func(t *testing.T) {
		assert.Equal(t, http.StatusUnauthorized, statusOn(t, send(t, plain, -10)))
		send(t, server, -10)
		<-arrived
		isOnly(t, reason, paymentsvc.ErrSignatureMismatch)
	})
	t.Run("the length is right", func(t *testing.T) {
		right := newHookServer(t, newHook(t).Handler(accept))
		assert.Equal(t, http.StatusOK, statusOn(t, send(t, right, 0)))
	})
}

func TestASecondHeaderOnTheWireIsRefused(t *testing.T) {
	server := newHookServer(t, newHook(t).Handler(neverCalled(t)))
	for _, second := range []string{"signature: a", "TIMESTAMP: 1700000000", "Timestamp:"} {
		conn := server.dial(t, second, "Content-Length: "+strconv.Itoa(len(hookBody)), "Connection: close")
		_, err := io.WriteString(conn, hookBody)
		require.NoError(t, err)
		assert.Equal(t, http.StatusUnauthorized, statusOn(t, conn), second)
	}
}

func TestOverHTTP2TheHandlerAnswersTheSame(t *testing.T) {
	server := httptest.NewUnstartedServer(newHook(t).Handler(accept))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	assert.Equal(t, http.StatusOK, post(t, server, "/", hookHeader(hookClockShown, hookBody), strings.NewReader(hookBody)))
	forged := hookHeader(hookClockShown, hookBody)
	forged.Set("Signature", "a")
	assert.Equal(t, http.StatusUnauthorized, post(t, server, "/", forged, strings.NewReader(hookBody)))
	assert.Equal(t, http.StatusRequestEntityTooLarge,
		post(t, server, "/", hookHeader(hookClockShown, hookBody), strings.NewReader(strings.Repeat("a", 2*hookBodyLimit))))
}

func TestOtherMethodsAre405WithAllow(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "post", ""} {
		t.Run(method, func(t *testing.T) {
			r := hookRequest(hookBody)
			r.Method = method
			body := &endless{}
			r.Body = io.NopCloser(body)
			answer := answerOf(newHook(t).Handler(neverCalled(t)), r)
			assert.Equal(t, http.StatusMethodNotAllowed, answer.Code)
			assert.Equal(t, []string{"POST"}, answer.Header().Values("Allow"))
			assert.Zero(t, body.read)
		})
	}
	var reason error
	webhook := newHook(t, func(c *paymentsvc.WebhookConfig) {
		c.Respond = func(_ http.ResponseWriter, _ *http.Request, err error) { reason = err }
	})
	answerOf(webhook.Handler(neverCalled(t)), httptest.NewRequest(http.MethodGet, "/", nil))
	isOnly(t, reason, paymentsvc.ErrMethodNotAllowed)
}

func TestHandlerGivesTheNotificationAndTheRequestsContext(t *testing.T) {
	type key struct{}
	var given *paymentsvc.Notification
	handler := newHook(t).Handler(func(ctx context.Context, n *paymentsvc.Notification) error {
		given = n
		assert.Equal(t, "of the request", ctx.Value(key{}))
		return nil
	})
	r := hookRequest(hookBody)
	answer := answerOf(handler, r.WithContext(context.WithValue(t.Context(), key{}, "of the request")))
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Empty(t, answer.Body.String())
	require.NotNil(t, given)
	assert.Equal(t, "o-1", given.OrderID)
	assert.Equal(t, hookBody, string(given.Raw))
}

// functionErrors are errors of a function that look like a refusal and are none.
func functionErrors() map[string]error {
	return map[string]error{
		"an error of its own":                  errors.New("the database is away"),
		"one that wraps ErrSignatureMismatch":  fmt.Errorf("other service: %w", paymentsvc.ErrSignatureMismatch),
		"one that wraps ErrBodyTooLarge":       fmt.Errorf("other service: %w", paymentsvc.ErrBodyTooLarge),
		"one that wraps ErrMethodNotAllowed":   paymentsvc.ErrMethodNotAllowed,
		"one that wraps ErrEmptyBody":          paymentsvc.ErrEmptyBody,
		"a *NotificationError":                 &paymentsvc.NotificationError{Err: errors.New("of another notification")},
		"the error of a context":               context.Canceled,
		"one that wraps ErrTimestampTooOld":    paymentsvc.ErrTimestampTooOld,
		"one that wraps ErrUnexpectedResponse": paymentsvc.ErrUnexpectedResponse,
	}
}

func TestAnErrorOfTheFunctionIs500WhateverItIs(t *testing.T) {
	for name, err := range functionErrors() {
		t.Run(name, func(t *testing.T) {
			failing := func(context.Context, *paymentsvc.Notification) error { return err }
			answer := answerOf(newHook(t).Handler(failing), hookRequest(hookBody))
			assert.Equal(t, http.StatusInternalServerError, answer.Code)
			assert.NotContains(t, answer.Body.String(), err.Error(), "the reason is not the service's to know")
			assert.Empty(t, answer.Header().Get("Connection"))

			var reason error
			webhook := newHook(t, func(c *paymentsvc.WebhookConfig) {
				c.Respond = func(_ http.ResponseWriter, _ *http.Request, err error) { reason = err }
			})
			answerOf(webhook.Handler(failing), hookRequest(hookBody))
			assert.Same(t, err, reason, "Respond gets the very error")
		})
	}
}

func TestRespondReplacesEveryAnswer(t *testing.T) {
	type call struct {
		request *http.Request
		err     error
	}
	var calls []call
	webhook := newHook(t, func(c *paymentsvc.WebhookConfig) {
		c.Respond = func(w http.ResponseWriter, r *http.Request, err error) {
			calls = append(calls, call{r, err})
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"taken":true}`)
		}
	})
	faults := append(hookFaults(),
		hookFault{"success", nil, http.StatusOK, func() *http.Request { return hookRequest(hookBody) }, ""},
		hookFault{"another method", paymentsvc.ErrMethodNotAllowed, 405, func() *http.Request {
			return httptest.NewRequest(http.MethodGet, "/", nil)
		}, ""},
	)
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			calls = nil
			r := fault.make()
			answer := answerOf(webhook.Handler(accept), r)
			assert.Equal(t, http.StatusAccepted, answer.Code)
			assert.Equal(t, `{"taken":true}`, answer.Body.String(), "and nothing else")
			assert.Equal(t, "application/json", answer.Header().Get("Content-Type"))
			require.Len(t, calls, 1)
			assert.Same(t, r, calls[0].request)
			if fault.want == nil {
				require.NoError(t, calls[0].err)
				return
			}
			isOnly(t, calls[0].err, fault.want)
		})
	}
}

func TestOnErrorSeesWhatWasNotHandledAndChangesNoAnswer(t *testing.T) {
	type call struct {
		request *http.Request
		err     error
	}
	var calls []call
	webhook := newHook(t, func(c *paymentsvc.WebhookConfig) {
		c.OnError = func(r *http.Request, err error) { calls = append(calls, call{r, err}) }
	})
	for _, fault := range hookFaults() {
		t.Run(fault.name, func(t *testing.T) {
			calls = nil
			r := fault.make()
			assert.Equal(t, fault.status, answerOf(webhook.Handler(accept), r).Code)
			require.Len(t, calls, 1)
			assert.Same(t, r, calls[0].request)
			isOnly(t, calls[0].err, fault.want)
		})
	}
	t.Run("an error of the function", func(t *testing.T) {
		calls = nil
		failing := func(context.Context, *paymentsvc.Notification) error { return io.ErrClosedPipe }
		assert.Equal(t, http.StatusInternalServerError, answerOf(webhook.Handler(failing), hookRequest(hookBody)).Code)
		require.Len(t, calls, 1)
		assert.Same(t, io.ErrClosedPipe, calls[0].err)
	})
	t.Run("a success is no error", func(t *testing.T) {
		calls = nil
		assert.Equal(t, http.StatusOK, answerOf(webhook.Handler(accept), hookRequest(hookBody)).Code)
		assert.Empty(t, calls)
	})
}

func TestABodyThatAMiddlewareCutsOffIsTooLarge(t *testing.T) {
	limited := http.MaxBytesHandler(newHook(t).Handler(accept), int64(len(hookBody)-1))
	assert.Equal(t, http.StatusRequestEntityTooLarge, answerOf(limited, hookRequest(hookBody)).Code)
}

func TestAPanicOfTheFunctionIsLeftToNetHTTP(t *testing.T) {
	responded := false
	webhook := newHook(t, func(c *paymentsvc.WebhookConfig) {
		c.Respond = func(http.ResponseWriter, *http.Request, error) { responded = true }
	})
	panicking := webhook.Handler(func(context.Context, *paymentsvc.Notification) error { panic(http.ErrAbortHandler) })
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { answerOf(panicking, hookRequest(hookBody)) })
	assert.False(t, responded, "nobody can know what to answer")

	server := httptest.NewServer(panicking)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(hookBody))
	require.NoError(t, err)
	r.Header = hookHeader(hookClockShown, hookBody)
	_, err = server.Client().Do(r)
	require.ErrorIs(t, err, io.EOF, "net/http ends the connection without an answer")
}
