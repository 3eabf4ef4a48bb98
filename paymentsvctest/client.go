package paymentsvctest

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/paymentsvc/paymentsvc"
)

// HTTPClient returns a client for this server, for which [Refuse] works. It uses a plain *http.Transport, so a
// paymentsvc.Client can prove what was not sent. Its connections end with the server.
func (s *Server) HTTPClient() *http.Client { return &http.Client{Transport: s.transport} }

// ClientConfig returns the configuration of a client for one project: the address, the ids, a signer, a decoder of
// errors, and HTTPClient. The signer is nil for an unknown project.
func (s *Server) ClientConfig(projectID int64) paymentsvc.Config {
	c := paymentsvc.Config{
		BaseURL:     s.URL,
		PartnerID:   s.cfg.PartnerID,
		ProjectID:   projectID,
		HTTPClient:  s.HTTPClient(),
		DecodeError: paymentsvc.ErrorFields(s.cfg.ErrorCode, s.cfg.ErrorMessage),
	}
	for _, p := range s.cfg.Projects {
		if p.ID != projectID {
			continue
		}
		signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: s.cfg.Scheme, Secret: p.Secret, Now: s.cfg.Now})
		if err == nil { // as New has seen
			c.Signer = signer
		}
	}
	return c
}

// refusedHost is an address that only dial knows.
const refusedHost = "refused.invalid"

// refusing is the Proxy function of the transport, the only place where net/http shows a request before it connects. A
// proxy that refuses looks like a refused connection.
func (s *Server) refusing(r *http.Request) (*url.URL, error) {
	if s.connecting(endpointAtEndOf(r.URL.Path)) {
		return &url.URL{Scheme: "http", Host: refusedHost}, nil
	}
	return nil, nil //nolint:nilnil // no proxy, by the contract of http.Transport
}

// endpointAtEndOf returns the endpoint at the end of a path, because a client sees the path before a router shortens
// it.
func endpointAtEndOf(path string) string {
	for below := true; below; {
		if _, path, below = strings.Cut(path, "/"); requestFields[path] != nil {
			return path
		}
	}
	return ""
}

// dial connects, and remembers the connections of clients that called connecting.
func (s *Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(address); err == nil && host == refusedHost {
		return nil, refusedBy(network)
	}
	conn, err := s.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialed[conn.LocalAddr().String()] = true // before a request can come from it
	return &dialedConn{Conn: conn, server: s}, nil
}

// connect connects to an address, or, if the server is in memory, to the server.
func (s *Server) connect(ctx context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	if m, ok := listener.(*memory); ok {
		return m.dial(ctx)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, address)
}

// refusedBy is the error of a connection that is refused.
func refusedBy(network string) error {
	return &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

type dialedConn struct {
	net.Conn
	server *Server
	once   sync.Once
}

// Close forgets the address before another client can get it.
func (c *dialedConn) Close() error {
	c.once.Do(func() {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		delete(c.server.dialed, c.LocalAddr().String())
	})
	return c.Conn.Close()
}
