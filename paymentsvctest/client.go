package paymentsvctest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/paymentsvc/paymentsvc"
)

// HTTPClient returns a client for this server. [Refuse] needs this client. The client uses a plain *http.Transport, so
// that a paymentsvc.Client can prove that a request was not sent. [Server.Close] closes its idle connections.
func (s *Server) HTTPClient() *http.Client { return &http.Client{Transport: s.transport} }

// ClientConfig returns the configuration of a client for one project: the address, the ids, a signer, a decoder of
// errors, and HTTPClient. The signer is nil for an unknown project. The signer uses Config.Now. To test a wrong clock,
// replace the signer.
func (s *Server) ClientConfig(projectID int64) paymentsvc.Config {
	c := paymentsvc.Config{
		BaseURL:     s.URL,
		PartnerID:   s.cfg.PartnerID,
		ProjectID:   projectID,
		HTTPClient:  s.HTTPClient(),
		DecodeError: paymentsvc.ErrorFields(s.cfg.ErrorCode, s.cfg.ErrorMessage),
	}
	if p := s.project(projectID); p != nil {
		signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: s.cfg.Scheme, Secret: p.Secret, Now: s.cfg.Now})
		if err == nil { // New has checked the secret
			c.Signer = signer
		}
	}
	return c
}

// refusing is the Proxy function of the transport, because only this function gets a request before its connection.
// If [Refuse] affects the request, refusing calls GetConn of the trace, as net/http does before each dial, and
// returns the error of a refused connection.
func (s *Server) refusing(r *http.Request) (*url.URL, error) {
	if !s.connecting(endpointAtEndOf(r.URL.Path)) {
		return nil, nil //nolint:nilnil // no proxy, by the contract of http.Transport
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GetConn != nil {
		trace.GetConn(r.URL.Host)
	}
	return nil, refused(r.URL.Host)
}

// endpointAtEndOf returns the endpoint at the end of a path, or "". A router may shorten the path later.
func endpointAtEndOf(path string) string {
	for below := true; below; {
		_, path, below = strings.Cut(path, "/")
		if requestFields[path] != nil {
			return path
		}
	}
	return ""
}

// dial connects to an address, and adds the connection's local address to Server.dialed, for [Server.arriving].
func (s *Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := s.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialed[conn.LocalAddr().String()] = true // before the first request of the connection
	return &dialedConn{Conn: conn, server: s}, nil
}

// connect connects to an address, or, if the server is in memory, to the server.
func (s *Server) connect(ctx context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	if m, ok := listener.(*memory); ok {
		return m.dial(ctx, address)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, address)
}

// refused returns the error of a refused connection to an address.
func refused(address string) error {
	err := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if to, notIP := netip.ParseAddrPort(address); notIP == nil {
		err.Addr = net.TCPAddrFromAddrPort(to)
	}
	return err
}

type dialedConn struct {
	net.Conn
	server *Server
	once   sync.Once
}

// Close removes the local address from Server.dialed before the system can assign the address to another client.
func (c *dialedConn) Close() error {
	c.once.Do(func() {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		delete(c.server.dialed, c.LocalAddr().String())
	})
	return c.Conn.Close()
}

// StartInMemory is [Start] without a socket. Only HTTPClient and the client of ClientConfig reach the server, through
// memory and with any host. The SDK's transport, the detection of unsent requests and all faults work as with a socket.
// In a bubble of testing/synctest, a wait of 30 seconds takes no time. Use [ToHandler] for notifications in a bubble,
// and do not use Start in a bubble, because Start hangs there.
func StartInMemory(t testing.TB, c Config) *Server {
	t.Helper()
	return start(t, c, (*Server).ListenInMemory)
}

// ListenInMemory is [Server.Listen] without a socket, see [StartInMemory]. Other clients cannot connect to URL.
func (s *Server) ListenInMemory() error {
	return s.serve(&memory{conns: make(chan net.Conn), closed: make(chan struct{})}, "127.0.0.1:0")
}

// memory is a listener for pipes.
type memory struct {
	conns  chan net.Conn
	dialed atomic.Int64
	once   sync.Once
	closed chan struct{}
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case conn := <-m.conns:
		return conn, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

func (*memory) Addr() net.Addr { return memoryAddr("memory") }

// dial returns an accepted connection.
func (m *memory) dial(ctx context.Context, address string) (net.Conn, error) {
	near, far := net.Pipe()
	addr := memoryAddr("memory:" + strconv.FormatInt(m.dialed.Add(1), 10))
	reset := new(atomic.Bool)
	select {
	case m.conns <- &memoryConn{far, m.Addr(), addr, reset}:
		return &memoryConn{near, addr, m.Addr(), reset}, nil
	case <-m.closed:
		return nil, refused(address)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// memoryAddr returns an address with a name.
func memoryAddr(name string) net.Addr { return &net.UnixAddr{Net: "memory", Name: name} }

// memoryConn is an end of a pipe with its own address.
type memoryConn struct {
	net.Conn
	local, remote net.Addr
	reset         *atomic.Bool // by either end
}

func (c *memoryConn) LocalAddr() net.Addr  { return c.local }
func (c *memoryConn) RemoteAddr() net.Addr { return c.remote }

// Read behaves like a socket after a reset.
func (c *memoryConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF && c.reset.Load() { //nolint:errorlint // a pipe does not wrap io.EOF
		err = &net.OpError{Op: "read", Net: c.local.Network(), Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	return n, err
}

// SetLinger makes the next Close a reset, as on a TCP connection.
func (c *memoryConn) SetLinger(int) error {
	c.reset.Store(true)
	return nil
}

// handle calls a handler as a server does.
func handle(h http.Handler, req *http.Request) (status int, err error) {
	req.RequestURI, req.Host, req.RemoteAddr = req.URL.RequestURI(), req.URL.Host, "192.0.2.1:1234"
	req.URL = &url.URL{Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery}
	w := httptest.NewRecorder()
	defer func() {
		if stopped := recover(); stopped == http.ErrAbortHandler { //nolint:errorlint // net/http makes the same comparison
			status, err = 0, http.ErrAbortHandler
		} else if stopped != nil {
			panic(stopped)
		}
	}()
	h.ServeHTTP(finalStatus{w}, req)
	return w.Code, nil
}

// finalStatus ignores informational statuses, such as 100.
type finalStatus struct{ *httptest.ResponseRecorder }

func (w finalStatus) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.ResponseRecorder.WriteHeader(status)
	}
}
