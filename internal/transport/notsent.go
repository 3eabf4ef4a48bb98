package transport

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// evidence is what one attempt shows of whether its request can have left. net/http may try several times within one
// attempt, and trace hooks run on any goroutine, so what was once seen stays seen.
type evidence struct {
	asked, got atomic.Bool // for and of a connection
	body       *bytes.Reader
}

// watch derives the attempt's context, beside any trace that the caller's context has.
func (e *evidence) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { e.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { e.got.Store(true) },
	})
}

// notSent ends the attempt and says that a connection was asked for, none was got and nobody has read the body:
// then no byte can have left. That the body is unread matters where a foreign transport sends on a way of its own.
// That headers were never reported as written would prove nothing: over HTTP/2 whole requests arrive so.
func (e *evidence) notSent(end context.CancelFunc) bool {
	end() // what is still under way may get no connection once the evidence has been looked at
	return e.asked.Load() && !e.got.Load() && int64(e.body.Len()) == e.body.Size()
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
