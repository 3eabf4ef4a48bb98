package transport

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// evidence is what one attempt shows of whether its request can have left. net/http may try several times within one
// attempt, and what is watched happens on any goroutine, so what was once seen stays seen.
type evidence struct {
	asked, got atomic.Bool // for and of a connection
	read       atomic.Bool // the body
}

// watch derives the attempt's context, beside any trace that the caller's context has.
func (e *evidence) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { e.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { e.got.Store(true) },
	})
}

// body gives the attempt's body.
func (e *evidence) body(b []byte) io.ReadCloser {
	return &watchedBody{evidence: e, from: bytes.NewReader(b)}
}

type watchedBody struct {
	evidence *evidence
	from     *bytes.Reader
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.evidence.read.Store(true)
	return b.from.Read(p)
}

func (b *watchedBody) Close() error { return nil }

// notSent ends the attempt and says that a connection was asked for, none was got and nobody has read the body:
// then no byte can have left. That nobody has read it matters where a foreign transport sends on a way of its own.
// That headers were never reported as written would prove nothing: over HTTP/2 whole requests arrive so.
func (e *evidence) notSent(end context.CancelFunc) bool {
	end() // what is still under way may get no connection once the evidence has been looked at
	return e.asked.Load() && !e.got.Load() && !e.read.Load()
}

// plain says whether rt is net/http's own transport with nothing foreign behind it, whose trace can be relied
// on. It is asked after rt has been used, when rt has set itself up.
func plain(rt http.RoundTripper) bool {
	if rt == nil {
		rt = http.DefaultTransport
	}
	t, ok := rt.(*http.Transport)
	// TLSNextProto hands connections to code that need not honour the trace. net/http puts its own HTTP/2
	// there as well, but Clone carries over only what somebody else put there.
	return ok && len(t.Clone().TLSNextProto) == 0
}
