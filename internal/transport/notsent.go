package transport

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// evidence is what one attempt's trace shows: whether its request can have left, and whether the transport is about to
// send it a second time. net/http may try several times within one attempt, and trace hooks run on any goroutine, so
// what was once seen stays seen.
type evidence struct {
	end      context.CancelFunc // of the attempt
	seal     func() bool        // takes the body away, and reports whether nobody has read it
	asked    atomic.Bool        // for a connection, for any request
	repeated atomic.Bool

	// What identifies the request: its address, host, length and signature, "" for none.
	url                     url.URL
	host, length, signature string

	mu     sync.Mutex
	got    bool // a connection, for any request
	sealed bool
	// How often a header with the signature was written, and one to the host, of whatever length and of the request's.
	// A wrapper may sign again, or send the request to another host, but hardly both.
	signed, hosted, sized int
	toHost                bool // the header that is being written is to the host
	conns                 []net.Conn
	first                 [1]net.Conn // where conns begins
}

// remember stores what identifies the signed request later.
func (e *evidence) remember(req *http.Request) {
	e.url = *req.URL
	e.conns = e.first[:0]
	e.host = cmp.Or(req.Host, req.URL.Host)
	e.length = strconv.FormatInt(req.ContentLength, 10)
	for name, values := range req.Header {
		if strings.EqualFold(name, "signature") && len(values) == 1 {
			e.signature = strings.TrimSpace(values[0]) // as it is written
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
	again := e.deliveries() > 0
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

// gotConn closes a connection that comes after the request was called not sent.
func (e *evidence) gotConn(info httptrace.GotConnInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = true
	e.conns = append(e.conns, info.Conn)
	if e.sealed {
		_ = info.Conn.Close()
	}
}

// wroteHeaderField sees every field before the body is written. As the request's own fields are written a second time, it
// closes the connections: whether or not the wrapper can be cancelled, the second request cannot be delivered whole.
func (e *evidence) wroteHeaderField(name string, values []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.deliveries()
	switch {
	case strings.EqualFold(name, "host"), name == ":authority": // as HTTP/2 calls it
		e.toHost = slices.Contains(values, e.host)
		if e.toHost {
			e.hosted++
		}
	case strings.EqualFold(name, "content-length"):
		if e.toHost && slices.Contains(values, e.length) {
			e.sized++
		}
	case strings.EqualFold(name, "signature"):
		if e.signature != "" && slices.Contains(values, e.signature) {
			e.signed++
		}
	}
	if now := e.deliveries(); now == before || now < 2 {
		return
	}
	e.stop()
	for _, conn := range e.conns {
		_ = conn.Close()
	}
}

// deliveries counts how often the request was begun to be written, as far as can be told.
func (e *evidence) deliveries() int {
	if e.signature == "" {
		return e.hosted
	}
	return max(e.signed, e.sized)
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
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sealed = e.asked.Load() && !e.got && e.seal()
	return e.sealed
}

// sealable returns a body for a request, and a function that takes it away from whoever reads it later and reports
// whether nobody has read it before. net/http's own transport gets a type that it knows, since any other costs a write
// for the header; a foreign one may read on another goroutine, after it has returned.
func sealable(data []byte, foreign bool) (body io.ReadCloser, seal func() bool) {
	reader := bytes.NewReader(data)
	if foreign {
		b := &sealedBody{reader: reader}
		return b, b.seal
	}
	return io.NopCloser(reader), func() bool {
		unread := int64(reader.Len()) == reader.Size()
		_, _ = reader.Seek(0, io.SeekEnd)
		return unread
	}
}

type sealedBody struct {
	mu      sync.Mutex
	reader  *bytes.Reader
	touched bool
	sealed  bool
}

var errSealed = errors.New("the attempt has ended")

func (b *sealedBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed {
		return 0, errSealed
	}
	b.touched = true
	return b.reader.Read(p)
}

func (*sealedBody) Close() error { return nil }

func (b *sealedBody) seal() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed = true
	return !b.touched
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
