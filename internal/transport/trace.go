package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// attemptTrace records the connections of one attempt. It proves that no byte left, stops a second delivery, and
// closes the connections of [Default] correctly. net/http may try several times within one attempt, and hooks run on
// any goroutine.
type attemptTrace struct {
	end      context.CancelFunc // ends the attempt
	hooks    httptrace.ClientTrace
	body     body
	asked    atomic.Bool // the transport requested a connection, for any request
	repeated atomic.Bool // the guard stopped a second delivery

	mu      sync.Mutex
	got     bool   // the transport got a connection, for any request
	revoked bool   // notSent returned true, so a later connection is closed
	ended   bool   // finish was called
	guard   *guard // nil for a transport that cannot deliver twice
	conns   []net.Conn
	first   [1]net.Conn // initial memory of conns
}

// watch returns a context with the hooks of the attempt. Hooks already in ctx still run.
func (a *attemptTrace) watch(ctx context.Context) context.Context {
	a.conns = a.first[:0]
	a.hooks.GetConn = a.getConn
	a.hooks.GotConn = a.gotConn
	if a.guard != nil { // these two make net/http allocate for each header field
		a.hooks.WroteHeaderField = a.wroteHeaderField
		a.hooks.WroteHeaders = a.wroteHeaders
	}
	return httptrace.WithClientTrace(ctx, &a.hooks)
}

func (a *attemptTrace) getConn(hostPort string) {
	a.asked.Store(true)
	if a.guard == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.guard.getConn(hostPort)
}

// gotConn keeps the connection until the attempt ends, or for as long as a foreign transport may deliver. gotConn
// closes the connection if the attempt was reported as not sent. It also closes a connection for a second delivery,
// unless other calls may use the connection.
func (a *attemptTrace) gotConn(info httptrace.GotConnInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got = true
	own := ownConn(info.Conn)
	switch {
	case a.revoked:
		closeConn(info.Conn)
		return
	case own != nil && a.ended:
		own.abandon()
	case own != nil:
		own.hold()
	}
	if a.ended && a.guard == nil {
		return
	}
	a.conns = append(a.conns, info.Conn)
	if a.guard != nil && a.guard.gotConn(info.Conn) {
		a.stop()
		if !multiplexed(info.Conn) {
			closeConn(info.Conn)
		}
	}
}

// wroteHeaderField runs before the body is written. At the second delivery it closes the connections, because a
// transport may ignore the end of the context.
func (a *attemptTrace) wroteHeaderField(name string, values []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.guard.wroteHeaderField(name, values) {
		return
	}
	a.stop()
	for _, conn := range a.conns {
		closeConn(conn)
	}
}

func (a *attemptTrace) wroteHeaders() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.guard.wroteHeaders()
}

func (a *attemptTrace) stop() {
	a.repeated.Store(true)
	a.end()
}

// notSent ends the attempt, and reports whether provably no byte left or will leave. The proof is that the transport
// requested a connection and did not get one, and that the body is unread. Missing header events are not proof,
// because over HTTP/2 a whole request can arrive without them. The body matters for foreign transports and registered
// protocols, because they can send without a traced connection.
func (a *attemptTrace) notSent() bool {
	a.end() // before the check, so that a later connection is not used
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revoked = a.asked.Load() && !a.got && a.body.revoke()
	return a.revoked
}

// finish ends the attempt for its connections. The connections of [Default] reset unless the response was complete.
func (a *attemptTrace) finish(complete bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if !complete && a.guard != nil { // a foreign transport may still hold the body, or a copy of it
		a.guard.abandoned = true
		if a.body.foreign != nil {
			a.body.revoke()
		}
	}
	for _, conn := range a.conns {
		if own := ownConn(conn); own != nil {
			own.release(complete)
		}
	}
}

// isPlain reports whether rt is an [http.Transport] without foreign code for a negotiated protocol, so that its trace
// shows every connection. Like the first request through rt, Clone completes the settings of rt.
func isPlain(rt http.RoundTripper) bool {
	if rt == nil {
		rt = http.DefaultTransport
	}
	t, ok := rt.(*http.Transport)
	// net/http adds its own HTTP/2 to TLSNextProto, but Clone copies only the entries of other packages.
	return ok && len(t.Clone().TLSNextProto) == 0
}

// body is a revocable request body. After revoke, reads return no byte.
type body struct {
	own     bytes.Reader   // for an [http.Transport]
	foreign *revocableBody // for another transport, otherwise nil
}

// open returns a reader of data. An [http.Transport] recognizes the type of the reader and writes header and body in
// one system call. Other transports get a reader with a lock, because they may read after RoundTrip returned.
func (b *body) open(data []byte, foreign bool) io.ReadCloser {
	if foreign {
		b.foreign = &revocableBody{reader: bytes.NewReader(data)}
		return b.foreign
	}
	b.own.Reset(data)
	return io.NopCloser(&b.own)
}

// revoke ends all reads of the body, and reports whether the body was unread.
func (b *body) revoke() (unread bool) {
	if b.foreign != nil {
		return b.foreign.revoke()
	}
	unread = int64(b.own.Len()) == b.own.Size()
	_, _ = b.own.Seek(0, io.SeekEnd)
	return unread
}

type revocableBody struct {
	mu      sync.Mutex
	reader  *bytes.Reader
	touched bool
	revoked bool
}

var errRevoked = errors.New("the attempt has ended")

func (b *revocableBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.revoked {
		return 0, errRevoked
	}
	b.touched = true
	return b.reader.Read(p)
}

func (*revocableBody) Close() error { return nil }

func (b *revocableBody) revoke() (unread bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revoked = true
	return !b.touched
}
