package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// idleConnections limits the idle connections, also per host. Up to this many concurrent callers reuse connections.
	idleConnections = 100
	// idleTimeout is below the default of Apache and Node, 5 seconds. If the server closed an idle connection first, a
	// start sent on it would have an unknown outcome.
	idleTimeout = 4 * time.Second
)

// Default returns a transport over HTTP/1.1 only, so that the end of a connection affects one request.
func Default() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols:              protocols,
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: rejectedByProxy,
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConns:           idleConnections,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        idleTimeout,
		ExpectContinueTimeout:  time.Second,
	}
}

// dial returns a [*conn] for TCP, and the original connection for another network.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	dialed, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tcp, ok := dialed.(*net.TCPConn)
	if !ok {
		return dialed, nil
	}
	_ = tcp.SetLinger(0) // on a system that does not support it, a close is graceful
	return &conn{TCPConn: tcp}, nil
}

// conn is a TCP connection that discards unsent bytes when it closes, so that an abandoned request does not arrive
// later. The kernel does the same when the process dies. The close is graceful only if the connection had a response
// and all its responses were complete.
type conn struct {
	*net.TCPConn

	mu       sync.Mutex
	attempts int  // in progress
	complete bool // an attempt got a complete response
	broken   bool // an attempt ended without a complete response
	closing  bool // Close was called during an attempt
}

// Close ends reads and writes. net/http calls it after complete and incomplete responses, and only the end of an
// attempt shows the difference. So the socket closes after the attempts in progress.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempts == 0 {
		return c.closeNow()
	}
	c.closing = true
	return c.SetDeadline(time.Unix(1, 0))
}

// closeNow closes the connection, gracefully if it had an attempt and every attempt got a complete response.
func (c *conn) closeNow() error {
	if c.complete && !c.broken {
		_ = c.SetLinger(-1)
	}
	return c.TCPConn.Close()
}

// hold begins an attempt.
func (c *conn) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts++
}

// release ends an attempt.
func (c *conn) release(complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts--
	c.complete = c.complete || complete
	c.broken = c.broken || !complete
	if c.closing && c.attempts == 0 {
		_ = c.closeNow()
	}
}

// abandon makes a later close reset the connection.
func (c *conn) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = true
}

// ownConn returns the connection of [Default] below TLS, or nil.
func ownConn(c net.Conn) *conn {
	for {
		switch layer := c.(type) {
		case *conn:
			return layer
		case *tls.Conn:
			c = layer.NetConn()
		default:
			return nil
		}
	}
}

// rejectedByProxy returns a [proxyError] if the proxy opens no tunnel. The error of net/http would contain the text of
// the proxy, and this text may repeat the request.
func rejectedByProxy(_ context.Context, _ *url.URL, _ *http.Request, response *http.Response) error {
	if response.StatusCode == http.StatusOK {
		return nil
	}
	return proxyError(response.StatusCode)
}

// proxyError is the HTTP status of a proxy that opened no tunnel.
type proxyError int

func (e proxyError) Error() string {
	return fmt.Sprintf("the proxy replied to CONNECT with HTTP %d", int(e))
}
