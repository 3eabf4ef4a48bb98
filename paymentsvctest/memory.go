package paymentsvctest

import (
	"context"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// StartInMemory is [Start] without a socket. Only HTTPClient and the client of ClientConfig reach the server, through
// memory and with any host. The SDK's transport, the detection of unsent requests and all faults work as with a
// socket. It works in a bubble of testing/synctest, and a wait of 30 seconds takes no time there. Send notifications
// by [ToHandler] in a bubble. Start hangs in a bubble.
func StartInMemory(t testing.TB, c Config) *Server {
	t.Helper()
	return start(t, c, (*Server).ListenInMemory)
}

// ListenInMemory is [Server.Listen] without a socket, see [StartInMemory]. The port in URL is closed.
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

// dial returns a connection that was accepted.
func (m *memory) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	addr := memoryAddr("memory:" + strconv.FormatInt(m.dialed.Add(1), 10))
	reset := new(atomic.Bool)
	select {
	case m.conns <- &memoryConn{far, m.Addr(), addr, reset}:
		return &memoryConn{near, addr, m.Addr(), reset}, nil
	case <-m.closed:
		return nil, refusedBy(m.Addr().Network())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// memoryAddr returns an address with a name.
func memoryAddr(name string) net.Addr { return &net.UnixAddr{Net: "memory", Name: name} }

// memoryConn is an end of a pipe, with an address that tells it from others.
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
	if err == io.EOF && c.reset.Load() { //nolint:errorlint // a pipe returns it as it is
		err = &net.OpError{Op: "read", Net: c.local.Network(), Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	return n, err
}

// SetLinger makes the close that follows a reset, as it does on a TCP connection.
func (c *memoryConn) SetLinger(int) error {
	c.reset.Store(true)
	return nil
}
