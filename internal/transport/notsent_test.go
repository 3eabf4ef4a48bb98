package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// attempt is evidence of a signed request to address, and the hooks of its trace.
func attempt(t *testing.T, address string, change func(*http.Request)) (*evidence, *httptrace.ClientTrace, context.Context) {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	req := &http.Request{URL: u, Header: http.Header{"Signature": {"abc"}, "Timestamp": {"1"}}}
	if change != nil {
		change(req)
	}
	ctx, end := context.WithCancel(t.Context())
	seen := &evidence{end: end}
	_, seen.seal = sealable([]byte("{}"), false)
	seen.remember(req)
	return seen, httptrace.ContextClientTrace(seen.watch(ctx)), ctx
}

// pipe is a connection that reports whether it was closed.
func pipe(t *testing.T) (conn net.Conn, closed func() bool) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _ = far.Close() })
	return near, func() bool {
		_ = far.SetReadDeadline(time.Now())
		_, err := far.Read(make([]byte, 1))
		return errors.Is(err, io.EOF)
	}
}

// A connection of HTTP/2 carries other calls, so the attempt ends before the second delivery gets to it.
func TestAskingForAConnectionAfterADeliveryEndsTheAttempt(t *testing.T) {
	for address, host := range map[string]string{
		"https://pay.example.com/v1":      "pay.example.com:443",
		"http://pay.example.com":          "pay.example.com:80",
		"https://pay.example.com:8443/v1": "pay.example.com:8443",
		"https://[::1]/v1":                "[::1]:443",
	} {
		seen, hooks, ctx := attempt(t, address, nil)
		conn, closed := pipe(t)
		hooks.GetConn(host)
		hooks.GotConn(httptrace.GotConnInfo{Conn: conn})
		hooks.WroteHeaderField("Signature", []string{"abc"})
		hooks.GetConn("tokens.example.com:443")
		require.NoError(t, ctx.Err(), "another host is the wrapper's own business")
		hooks.GetConn(host)
		assert.Error(t, ctx.Err(), address)
		assert.True(t, seen.repeated.Load())
		assert.False(t, closed(), "nothing of the second delivery was written")
	}
}

func TestTheSecondDeliveryClosesItsConnections(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*http.Request)
		field  string
		value  string
	}{
		"its signature":                   {nil, "Signature", "abc"},
		"its signature over HTTP/2":       {nil, "signature", "abc"},
		"a signature in another spelling": {func(r *http.Request) { r.Header = http.Header{"SIGNATURE": {"abc"}} }, "SIGNATURE", "abc"},
		"its host, without a signature":   {func(r *http.Request) { r.Header = nil }, "Host", "pay.example.com"},
		"its host over HTTP/2":            {func(r *http.Request) { r.Header = nil }, ":authority", "pay.example.com"},
		"the host that a signer set":      {func(r *http.Request) { r.Header, r.Host = nil, "vhost.example.com" }, "Host", "vhost.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			seen, hooks, ctx := attempt(t, "https://pay.example.com/v1", test.change)
			conn, closed := pipe(t)
			hooks.GotConn(httptrace.GotConnInfo{Conn: conn})
			hooks.WroteHeaderField(test.field, []string{test.value})
			hooks.WroteHeaderField(test.field, []string{"of another request"})
			hooks.WroteHeaderField("X-Other", []string{test.value})
			require.NoError(t, ctx.Err())
			require.False(t, closed())
			hooks.WroteHeaderField(test.field, []string{test.value})
			assert.Error(t, ctx.Err())
			assert.True(t, closed())
			assert.True(t, seen.repeated.Load())
		})
	}
}

type answers struct{ body io.Reader }

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).GetConn("pay.example.com:443")
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(a.body)}, nil
}

func TestAnAnswerIsNeverNotSent(t *testing.T) {
	c := New(Config{HTTP: &http.Client{Transport: answers{broken{}}}, Timeout: time.Minute, MaxResponseBytes: 10, Trust: true})
	result := c.Send(t.Context(), &Request{URL: "https://pay.example.com", Sign: func(*http.Request, []byte) error { return nil }})
	require.ErrorIs(t, result.Err, io.ErrUnexpectedEOF)
	assert.False(t, result.NotSent, "something has answered it")
}
