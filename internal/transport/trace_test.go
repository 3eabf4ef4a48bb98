package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// attempt returns a trace of a request through a foreign transport, with its hooks and context.
func attempt(
	t *testing.T, address string, change func(*http.Request),
) (*attemptTrace, *httptrace.ClientTrace, context.Context) {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	req := &http.Request{URL: u, Header: http.Header{"Signature": {"abc"}, "Timestamp": {"1"}}}
	if change != nil {
		change(req)
	}
	ctx, end := context.WithCancel(t.Context())
	trace := &attemptTrace{end: end, guard: newGuard(req)}
	trace.body.open([]byte("{}"), false)
	return trace, httptrace.ContextClientTrace(trace.watch(ctx)), ctx
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

// addressless is a connection without a remote address.
type addressless struct{ net.Conn }

func (addressless) RemoteAddr() net.Addr { return nil }

// panicking is a connection without methods, like HTTP/3's.
type panicking struct{ net.Conn }

func TestGuardStopsASecondConnectionAfterADelivery(t *testing.T) {
	for address, host := range map[string]string{
		"https://pay.example.com/v1":      "pay.example.com:443",
		"http://pay.example.com":          "pay.example.com:80",
		"https://pay.example.com:8443/v1": "pay.example.com:8443",
		"https://[::1]/v1":                "[::1]:443",
	} {
		trace, hooks, ctx := attempt(t, address, nil)
		first, firstClosed := pipe(t)
		second, secondClosed := pipe(t)
		other, otherClosed := pipe(t)
		hooks.GetConn(host)
		hooks.GotConn(httptrace.GotConnInfo{Conn: first})
		hooks.WroteHeaderField("Host", []string{"pay.example.com"})
		hooks.WroteHeaderField("Signature", []string{"abc"})
		hooks.WroteHeaders()
		hooks.GetConn("tokens.example.com:443")
		hooks.GotConn(httptrace.GotConnInfo{Conn: other})
		require.NoError(t, ctx.Err(), "requests to other hosts continue")
		hooks.GetConn(host)
		require.NoError(t, ctx.Err(), "the connection may belong to a recorder")
		hooks.GotConn(httptrace.GotConnInfo{Conn: second})
		require.Error(t, ctx.Err(), address)
		assert.True(t, trace.repeated.Load())
		assert.False(t, firstClosed())
		assert.False(t, otherClosed())
		assert.True(t, secondClosed(), "before a byte of the second delivery")
	}
}

func TestGuardClosesTheConnectionsOfASecondDelivery(t *testing.T) {
	unsigned := func(r *http.Request) { r.Header = nil }
	for name, test := range map[string]struct {
		change func(*http.Request)
		field  string
		value  string
	}{
		"signature":           {nil, "Signature", "abc"},
		"signature of HTTP/2": {nil, "signature", "abc"},
		"signature in capital": {
			func(r *http.Request) { r.Header = http.Header{"SIGNATURE": {"abc"}} }, "SIGNATURE", "abc",
		},
		"signature with space": {func(r *http.Request) { r.Header.Set("Signature", " abc ") }, "Signature", "abc"},
		"host":                 {unsigned, "Host", "pay.example.com"},
		"host of HTTP/2":       {unsigned, ":authority", "pay.example.com"},
		"host of the signer": {
			func(r *http.Request) { r.Header, r.Host = nil, "vhost.example.com" }, "Host", "vhost.example.com",
		},
	} {
		t.Run(name, func(t *testing.T) {
			trace, hooks, ctx := attempt(t, "https://pay.example.com/v1", test.change)
			conn, closed := pipe(t)
			isHost := test.field != "Signature" && test.field != "signature" && test.field != "SIGNATURE"
			write := func(value string) {
				hooks.GotConn(httptrace.GotConnInfo{Conn: conn})
				if !isHost {
					hooks.WroteHeaderField("Host", []string{"another.example.com"})
				}
				hooks.WroteHeaderField(test.field, []string{value})
				hooks.WroteHeaderField("X-Other", []string{test.value})
				hooks.WroteHeaders()
			}
			write(test.value)
			write("of another request")
			require.NoError(t, ctx.Err())
			require.False(t, closed())
			write(test.value)
			assert.Error(t, ctx.Err())
			assert.True(t, closed())
			assert.True(t, trace.repeated.Load())
		})
	}
}

// A connection that arrives after the proof of "not sent" carries nothing.
func TestTraceClosesConnectionAfterTheProof(t *testing.T) {
	trace, hooks, _ := attempt(t, "https://pay.example.com/v1", nil)
	conn, closed := pipe(t)
	hooks.GetConn("pay.example.com:443")
	require.True(t, trace.notSent())
	require.False(t, closed())
	hooks.GotConn(httptrace.GotConnInfo{Conn: conn})
	assert.True(t, closed())
}

func TestBodyIsEmptyAfterRevoke(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		for _, read := range []int64{0, 1} {
			var b body
			reader := b.open([]byte("{}"), foreign)
			_, err := io.CopyN(io.Discard, reader, read)
			require.NoError(t, err)
			assert.Equal(t, read == 0, b.revoke())
			rest, _ := io.ReadAll(reader) // an error or no bytes
			assert.Empty(t, rest)
		}
	}
}

// A connection that arrives after the attempt resets, although its earlier responses were complete.
func TestTraceResetsConnectionAfterTheAttempt(t *testing.T) {
	trace, hooks, _ := attempt(t, "https://pay.example.com/v1", nil)
	conn, far := own(t)
	conn.hold()
	conn.release(true)
	trace.finish(true)
	hooks.GotConn(httptrace.GotConnInfo{Conn: conn})
	require.NoError(t, conn.Close())
	_, err := far.Read(make([]byte, 1))
	assert.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestRepeatedErrorIsCanceledOnlyByTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	require.NotErrorIs(t, repeatedError(ctx, context.Canceled), context.Canceled)
	cancel()
	err := repeatedError(ctx, context.Canceled)
	require.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, ErrRepeated)
	stopped := repeatedError(t.Context(), &net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed})
	assert.ErrorIs(t, stopped, net.ErrClosed)
	assert.EqualError(t, ForLogs(stopped), ErrRepeated.Error(), "net/http may notice the stop in several ways")
}

// A wrapper signs a second delivery again, while it sends a request to another host in parallel.
func TestGuardStopsADeliveryWhoseHeaderAlternatesWithAnother(t *testing.T) {
	for _, hosts := range [][]string{
		{"pay.example.com", "tokens.example.com"},
		{"tokens.example.com", "pay.example.com"},
	} {
		_, hooks, ctx := attempt(t, "https://pay.example.com/v1", func(r *http.Request) { r.ContentLength = 7 })
		hooks.WroteHeaderField("Host", []string{"pay.example.com"})
		hooks.WroteHeaderField("Content-Length", []string{"7"})
		hooks.WroteHeaders()
		for _, host := range hosts {
			hooks.WroteHeaderField("Host", []string{host})
		}
		require.NoError(t, ctx.Err())
		hooks.WroteHeaderField("Content-Length", []string{"7"})
		assert.Error(t, ctx.Err(), hosts)
	}
}

// Each character is a step. A letter is a connection that arrives: a real connection (r), a connection without a remote
// address (u), the memory of a dump (d), a connection that panics (p), or nil (n). The other steps are headers: with
// the signature (!), without the signature (?), or with the signature and without an end before the next header (+).
func TestGuardAttributesHeadersToConnections(t *testing.T) {
	for steps, stopped := range map[string]bool{
		"r!":         false,
		"r!r!":       true,
		"d!r!":       false,
		"d!d!d!r!":   false,
		"r!d!":       false,
		"r!d!r!":     true,
		"d!r!d!r!":   true,
		"u!r!":       false,
		"r!u!":       false,
		"u!u!":       true, // perhaps a tunnel
		"u!r!r!":     true,
		"n!r!":       true,
		"n!n!":       true,
		"!r!":        false, // a dump with Request.Write has no connection
		"!r!r!":      true,
		"!!":         true, // perhaps a transport of its own
		"r?r!":       false,
		"r?d!r!":     false,
		"r?d!r!r!":   true,
		"rd!!r!":     true, // the first two headers are the dump's and the delivery's, in either order
		"dr!!r!":     true,
		"dr?!r!":     true, // a dump of another request hides nothing
		"rdd!!!r!":   true,
		"rr!!":       true,
		"r+d!":       true, // unclear, because the fields of two headers alternate
		"rdr!!!":     true,
		"ddrr!!!!":   true,
		"p!":         false,
		"p!p!":       true,
		"d!p!d!p!":   true,
		"rd?!!":      false, // one header has no connection
		"dd!!r!d!r!": true,
	} {
		_, hooks, ctx := attempt(t, "https://pay.example.com/v1", nil)
		for _, step := range steps {
			conn, _ := pipe(t)
			switch step {
			case 'r':
			case 'u':
				conn = addressless{conn}
			case 'p':
				conn = panicking{}
			case 'n':
				conn = nil
			case 'd':
				conn = dumpConn(t)
			default:
				hooks.WroteHeaderField("Host", []string{"pay.example.com"})
				if step != '?' {
					hooks.WroteHeaderField("Signature", []string{"abc"})
				}
				if step != '+' {
					hooks.WroteHeaders()
				}
				continue
			}
			hooks.GotConn(httptrace.GotConnInfo{Conn: conn})
		}
		assert.Equal(t, stopped, ctx.Err() != nil, steps)
	}
}

// The test tries every order of up to seven steps. Each header goes to a connection without a header.
func TestGuardMissesNoSecondDelivery(t *testing.T) {
	const steps = 7
	conns := [kinds]net.Conn{addressed: namedConn{}, unaddressed: addressless{}, recording: dumpConn(t)}
	var walk func(g guard, waiting, delivered [kinds]int, left int, stopped bool)
	walk = func(g guard, waiting, delivered [kinds]int, left int, stopped bool) {
		if !stopped && max(delivered[addressed], delivered[unaddressed]) > 1 {
			t.Error("two deliveries were not stopped")
		}
		if left == 0 || stopped || t.Failed() {
			return
		}
		for kind := range kinds {
			opened, next := g, waiting
			next[kind]++
			walk(opened, next, delivered, left-1, opened.gotConn(conns[kind]))
			if waiting[kind] == 0 {
				continue
			}
			next = waiting
			next[kind]--
			for _, signature := range []string{"abc", "of another request"} {
				wrote, sum := g, delivered
				stop := wrote.wroteHeaderField("Host", []string{"pay.example.com"})
				stop = wrote.wroteHeaderField("Signature", []string{signature}) || stop
				wrote.wroteHeaders()
				if signature == "abc" {
					sum[kind]++
				}
				walk(wrote, next, sum, left-1, stop)
			}
		}
	}
	walk(guard{signature: "abc", host: "pay.example.com"}, [kinds]int{}, [kinds]int{}, steps, false)
}

// namedConn is a connection with a remote address.
type namedConn struct{ net.Conn }

func (namedConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// dumpConn returns the connection of httputil.DumpRequestOut.
func dumpConn(t *testing.T) (conn net.Conn) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { conn = info.Conn },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pay.example.com", nil)
	require.NoError(t, err)
	_, err = httputil.DumpRequestOut(req, true)
	require.NoError(t, err)
	require.Nil(t, conn.RemoteAddr())
	return conn
}

// foreign is a RoundTripper of another package.
type foreign struct{ http.RoundTripper }

func TestGuardIsForForeignCodeOnly(t *testing.T) {
	http2 := &http.Transport{ForceAttemptHTTP2: true}
	http2.CloseIdleConnections()
	negotiates := &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{"x": nil}}
	files := new(http.Transport)
	files.RegisterProtocol("file", http.NewFileTransport(http.Dir(".")))
	registers := new(http.Transport)
	registers.RegisterProtocol("https", foreign{})
	nests := new(http.Transport)
	nests.RegisterProtocol("http", new(http.Transport))
	for name, test := range map[string]struct {
		transport http.RoundTripper
		once      bool
	}{
		"the default transport":     {nil, true},
		"an own transport":          {Default(), true},
		"its clone":                 {Default().Clone(), true},
		"an empty transport":        {new(http.Transport), true},
		"HTTP/2":                    {http2, true},
		"files":                     {files, true},
		"a wrapper":                 {foreign{Default()}, false},
		"a negotiated protocol":     {negotiates, false},
		"a registered protocol":     {registers, false},
		"another transport for one": {nests, false},
	} {
		c := New(Config{HTTP: &http.Client{Transport: test.transport}})
		for range 2 {
			assert.Equal(t, test.once, c.deliversOnce(), name)
		}
	}
	late := new(http.Transport)
	c := New(Config{HTTP: &http.Client{Transport: late}})
	require.True(t, c.deliversOnce())
	late.RegisterProtocol("http", foreign{})
	assert.False(t, c.deliversOnce(), "registered after the first call")
}
