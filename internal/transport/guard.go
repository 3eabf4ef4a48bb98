package transport

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// guard counts how often an attempt delivers its request, from the hooks of its trace. Only a foreign transport can
// deliver twice, see [Client.deliversOnce]. The lock of [attemptTrace] protects it.
type guard struct {
	// The request. The signature is "" unless the request has exactly one Signature value.
	url                     url.URL
	host, length, signature string

	abandoned bool // the attempt ended without a complete response, so even a first delivery is too late

	again    int               // pending requests for a connection to the service, made after a delivery
	pending  [kinds]int        // connections without a header so far
	writing  int               // headers begun and not ended
	possible [kinds]bool       // kinds of connection that the current header may be on
	toHost   bool              // the current header may have the host of the service
	written  [recording]counts // by kind of connection
}

// counts is how often a header contained the signature, the host of the service, and that host with the length of the
// request. A wrapper may sign again or change the host, but rarely both.
type counts struct{ signed, hosted, sized int }

// connKind is a kind of connection.
type connKind int

const (
	addressed   connKind = iota
	unaddressed          // perhaps a recorder, perhaps a tunnel without a remote address
	recording            // the connection in memory of httputil.DumpRequestOut, which cassette recorders use
	kinds
)

func newGuard(req *http.Request) *guard {
	g := &guard{url: *req.URL, host: cmp.Or(req.Host, req.URL.Host), length: strconv.FormatInt(req.ContentLength, 10)}
	for name, values := range req.Header {
		if strings.EqualFold(name, "signature") && len(values) == 1 {
			g.signature = strings.TrimSpace(values[0]) // as net/http writes it
		}
	}
	return g
}

// getConn counts a request for another connection to the service after a delivery. A wrapper's own requests to other
// hosts do not count.
func (g *guard) getConn(hostPort string) {
	if hostPort == g.hostPort() && (g.deliveries(addressed) > 0 || g.deliveries(unaddressed) > 0) {
		g.again++
	}
}

// hostPort returns the argument of getConn for the request, if the transport uses no proxy.
func (g *guard) hostPort() string {
	return net.JoinHostPort(g.url.Hostname(), cmp.Or(g.url.Port(), defaultPorts[g.url.Scheme]))
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// gotConn reports whether conn is for a second delivery.
func (g *guard) gotConn(conn net.Conn) bool {
	kind := kindOf(conn)
	g.pending[kind]++
	if g.again == 0 {
		return false
	}
	g.again--
	return kind != recording && g.deliveries(kind) > 0
}

// wroteHeaderField reports whether the field begins a second delivery, or a delivery of an abandoned request.
func (g *guard) wroteHeaderField(name string, values []string) (second bool) {
	isHost := strings.EqualFold(name, "host") || name == ":authority" // in HTTP/2
	isOurs := isHost && slices.Contains(values, g.host)
	if isHost {
		g.beginHeader()
		g.toHost = isOurs || g.toHost && g.writing > 1 // the fields of two headers may alternate
	}
	for kind := range recording {
		if !g.possible[kind] {
			continue
		}
		before, count := g.deliveries(kind), &g.written[kind]
		switch {
		case isOurs:
			count.hosted++
		case strings.EqualFold(name, "content-length") && g.toHost && slices.Contains(values, g.length):
			count.sized++
		case strings.EqualFold(name, "signature") && g.signature != "" && slices.Contains(values, g.signature):
			count.signed++
		}
		now := g.deliveries(kind)
		second = second || now > before && (now > 1 || g.abandoned)
	}
	return second
}

// beginHeader attributes a header to its connection. A hook does not identify the connection. If connections of
// several kinds wait for their headers, the header counts for each kind, and only the recording stops waiting. So a
// parallel dump never hides a delivery.
func (g *guard) beginHeader() {
	if g.writing == 0 { // otherwise the fields of two headers may alternate
		g.possible = [kinds]bool{}
	}
	g.writing++
	waiting, last := 0, unaddressed // unaddressed by default, because a wrapper may make a connection
	for kind := range kinds {
		if g.pending[kind] > 0 {
			waiting++
			last = kind
			g.possible[kind] = true
		}
	}
	g.possible[last] = true
	if waiting == 1 || last == recording {
		g.pending[last]--
	}
}

func (g *guard) wroteHeaders() { g.writing = max(g.writing-1, 0) }

// deliveries returns how many headers of the request were written to connections of this kind.
func (g *guard) deliveries(kind connKind) int {
	count := g.written[kind]
	if g.signature == "" {
		return count.hosted
	}
	return max(count.signed, count.sized)
}

// kindOf returns the kind of a connection. It returns addressed for an unknown connection (nil or a panic).
func kindOf(conn net.Conn) (kind connKind) {
	defer func() { _ = recover() }() // foreign connections may panic, for example HTTP/3's
	switch {
	case conn == nil:
	case packageOf(conn) == "net/http/httputil":
		return recording
	case conn.RemoteAddr() == nil:
		return unaddressed
	}
	return addressed
}

// multiplexed reports whether conn may carry other calls as well, over HTTP/2 with TLS.
func multiplexed(conn net.Conn) bool {
	secure, ok := conn.(*tls.Conn)
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}

// closeConn closes a connection so that it carries no further byte.
func closeConn(conn net.Conn) {
	defer func() { _ = recover() }() // foreign connections may panic, for example HTTP/3's
	if own := ownConn(conn); own != nil {
		own.abandon()
		_ = own.TCPConn.Close() // at once, also during an attempt
		return
	}
	if conn != nil {
		_ = conn.Close()
	}
}

// deliversOnce reports whether the transport cannot deliver a request twice. This is true for an [http.Transport]
// without foreign code. net/http repeats a request with a body only if it wrote no byte of the request, or if
// [http.Request.GetBody] is set.
func (c *Client) deliversOnce() bool {
	rt := c.http.Transport
	if rt == nil {
		rt = http.DefaultTransport
	}
	t, ok := rt.(*http.Transport)
	if !ok || hasForeignProtocol(t) {
		return false
	}
	if c.plain.Load() == t {
		return true
	}
	if !isPlain(t) {
		return false
	}
	c.plain.Store(t)
	return true
}

// altProto is the private field for [http.Transport.RegisterProtocol]. No exported method returns the registered
// protocols. Without this field, every transport counts as foreign.
var altProto, hasAltProto = reflect.TypeFor[http.Transport]().FieldByName("altProto")

// hasForeignProtocol reports whether code of another package may handle the requests of t.
func hasForeignProtocol(t *http.Transport) bool {
	if !hasAltProto || altProto.Type != reflect.TypeFor[atomic.Value]() {
		return true
	}
	field := reflect.ValueOf(t).Elem().FieldByIndex(altProto.Index)
	stored := (*atomic.Value)(field.Addr().UnsafePointer()).Load()
	registered, ok := stored.(map[string]http.RoundTripper)
	if !ok && stored != nil {
		return true
	}
	for _, rt := range registered {
		_, another := rt.(*http.Transport)
		if pkg := packageOf(rt); another || pkg != "net/http" && !strings.HasPrefix(pkg, "net/http/internal") {
			return true
		}
	}
	return false
}
