package transport

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

// evidence is what one attempt's trace shows: whether its request can have left, and whether the transport is about to
// send it a second time. net/http may try several times within one attempt, and trace hooks run on any goroutine, so
// what was once seen stays seen.
type evidence struct {
	end        context.CancelFunc // of the attempt
	body       *bytes.Reader
	asked, got atomic.Bool // for and of a connection, for any request

	url          url.URL // of the request
	field, value string  // the header field by which a delivery of the request is known
	repeated     atomic.Bool

	mu         sync.Mutex
	deliveries int
	conns      []net.Conn
	first      [1]net.Conn // where conns begins
}

// remember stores what identifies the signed request later, whichever host a wrapper sends it to: its signature.
func (e *evidence) remember(req *http.Request) {
	e.url = *req.URL
	e.conns = e.first[:0]
	e.field, e.value = "host", cmp.Or(req.Host, req.URL.Host)
	for name, values := range req.Header {
		if strings.EqualFold(name, "signature") && len(values) == 1 && values[0] != "" {
			e.field, e.value = "signature", values[0]
		}
	}
}

// watch derives the attempt's context, beside any trace that the caller's context has.
func (e *evidence) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:          e.getConn,
		GotConn:          e.gotConn,
		WroteHeaderField: e.wroteHeaderField,
	})
}

// getConn ends the attempt if the request was written before: a transport that asks for another connection is about to
// send it again. A wrapper's own request to another host is none of this package's business.
func (e *evidence) getConn(hostPort string) {
	e.asked.Store(true)
	e.mu.Lock()
	again := e.deliveries > 0
	e.mu.Unlock()
	if again && hostPort == e.hostPort() {
		e.stop()
	}
}

// hostPort is what getConn is told for the request, unless a proxy is on the way.
func (e *evidence) hostPort() string {
	port := cmp.Or(e.url.Port(), map[string]string{"http": "80", "https": "443"}[e.url.Scheme])
	return net.JoinHostPort(e.url.Hostname(), port)
}

func (e *evidence) gotConn(info httptrace.GotConnInfo) {
	e.got.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conns = append(e.conns, info.Conn)
}

// wroteHeaderField sees every field before the body is written. As the request's own field is written a second time, it
// closes the connections: whatever context the wrapper uses, the second request cannot be delivered whole.
func (e *evidence) wroteHeaderField(name string, values []string) {
	if name == ":authority" { // as HTTP/2 calls the host
		name = "host"
	}
	if len(values) == 0 || values[0] != e.value || !strings.EqualFold(name, e.field) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.deliveries++; e.deliveries == 1 {
		return
	}
	e.stop()
	for _, conn := range e.conns {
		_ = conn.Close()
	}
}

func (e *evidence) stop() {
	e.repeated.Store(true)
	e.end()
}

// notSent ends the attempt and reports whether a connection was asked for, none was got and nobody has read the body:
// then no byte can have left, and since the body is then taken away, none will. That matters where a foreign transport,
// or a protocol registered with net/http's own, sends by a way of its own. Missing header events prove nothing: over
// HTTP/2 a whole request can arrive without them.
func (e *evidence) notSent() bool {
	e.end() // what is still in flight may get no connection once the evidence has been looked at
	if !e.asked.Load() || e.got.Load() || int64(e.body.Len()) != e.body.Size() {
		return false
	}
	_, _ = e.body.Seek(0, io.SeekEnd)
	return true
}

// plain reports whether rt is net/http's own transport with nothing foreign behind it, whose trace can be relied on. It
// is asked after rt has been used, when rt has set itself up.
func plain(rt http.RoundTripper) bool {
	if rt == nil {
		rt = http.DefaultTransport
	}
	t, ok := rt.(*http.Transport)
	// TLSNextProto hands connections to code that need not honour the trace. net/http puts its own HTTP/2
	// there as well, but Clone carries over only what somebody else put there.
	return ok && len(t.Clone().TLSNextProto) == 0
}
