package transport

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// connTrace watches one attempt for a connection. net/http may try several times within one attempt, and
// trace hooks run on any goroutine, so what was once seen stays seen.
type connTrace struct {
	asked, got atomic.Bool
}

// watch derives the attempt's context, beside any trace that the caller's context has.
func (t *connTrace) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { t.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { t.got.Store(true) },
	})
}

// neverGotOne ends the attempt and says that a connection was asked for and none was got: without one, no byte can
// have left. That headers were never reported as written would prove nothing: over HTTP/2 whole requests arrive so.
func (t *connTrace) neverGotOne(end context.CancelFunc) bool {
	end() // what is still under way may get no connection once the trace has been read
	return t.asked.Load() && !t.got.Load()
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
