package transport

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stalledProxy is a TCP proxy for one connection. It forwards the bytes after resume is closed.
type stalledProxy struct {
	net.Listener
	connects bool // opens a tunnel for CONNECT
	tls      bool // forwards a handshake before it stalls
	stalled  chan struct{}
	resume   chan struct{}
	done     chan struct{}
}

// newStalledProxy returns a proxy to the address of a server.
func newStalledProxy(t *testing.T, server string, connects, tls bool) *stalledProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &stalledProxy{
		listener, connects, tls, make(chan struct{}), make(chan struct{}), make(chan struct{}),
	}
	go p.forward(t, server)
	t.Cleanup(func() {
		_ = listener.Close()
		<-p.done
	})
	return p
}

func (p *stalledProxy) forward(t *testing.T, server string) {
	defer close(p.done)
	client, err := p.Accept()
	if err != nil {
		return
	}
	defer func() { _ = client.Close() }()
	service, err := net.Dial("tcp", server)
	if !assert.NoError(t, err) {
		return
	}
	defer func() { _ = service.Close() }()
	if p.connects {
		one := bufio.NewReaderSize(oneByte{client}, 16) // leaves the next bytes to the kernel
		_, err := http.ReadRequest(one)
		assert.NoError(t, err)
		_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	}
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(client, service) })
	if p.tls {
		forwardHandshake(t, client, service)
	}
	close(p.stalled)
	<-p.resume
	if _, err := io.Copy(service, client); err != nil {
		_ = service.Close()
	}
	_ = service.(*net.TCPConn).CloseWrite()
	back.Wait()
}

// oneByte reads one byte at a time.
type oneByte struct{ io.Reader }

func (r oneByte) Read(p []byte) (int, error) { return r.Reader.Read(p[:1]) }

// forwardHandshake forwards the records of a TLS 1.3 client up to its Finished message: ClientHello, the change of the
// cipher, Finished.
func forwardHandshake(t *testing.T, client io.Reader, service io.Writer) {
	t.Helper()
	for range 3 {
		var record [5]byte
		_, err := io.ReadFull(client, record[:])
		assert.NoError(t, err)
		_, err = service.Write(record[:])
		assert.NoError(t, err)
		_, err = io.CopyN(service, client, int64(record[3])<<8|int64(record[4]))
		assert.NoError(t, err)
	}
}

// arrivals counts the whole requests of a server.
type arrivals struct {
	*httptest.Server
	whole int
	mu    sync.Mutex
}

func newArrivals(t *testing.T, secure bool) *arrivals {
	t.Helper()
	s := new(arrivals)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && int64(len(body)) == r.ContentLength {
			s.mu.Lock()
			s.whole++
			s.mu.Unlock()
		}
	}))
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	return s
}

// On Linux, a request of this size fits into the buffer of the client's kernel, and not into that of the proxy.
const stalledBytes = 300 << 10

// wrapped returns Default with connections of another type.
func wrapped() *http.Transport {
	made := Default()
	inner := made.DialContext
	made.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := inner(ctx, network, address)
		return struct{ net.Conn }{conn}, err
	}
	return made
}

func TestAbandonedRequestDoesNotArriveLater(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the buffers of other systems have other sizes")
	}
	netHTTP := func() *http.Transport { return new(http.Transport) }
	for name, test := range map[string]struct {
		transport     func() *http.Transport
		proxy, secure bool
		arrive        int
	}{
		"net/http":                 {netHTTP, false, false, 1}, // the check can fail
		"net/http, TLS":            {netHTTP, false, true, 1},
		"net/http, proxy":          {netHTTP, true, true, 1},
		"default":                  {Default, false, false, 0},
		"default, TLS":             {Default, false, true, 0},
		"default, proxy":           {Default, true, true, 0},
		"clone":                    {func() *http.Transport { return Default().Clone() }, false, false, 0},
		"wrapped connections":      {wrapped, false, false, 0},
		"wrapped connections, TLS": {wrapped, false, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := newArrivals(t, test.secure)
			defer server.Close()
			proxy := newStalledProxy(t, server.Listener.Addr().String(), test.proxy, test.secure)
			made := test.transport()
			address := strings.Replace(server.URL, server.Listener.Addr().String(), proxy.Addr().String(), 1)
			if test.secure {
				made.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
			}
			if test.proxy {
				address = server.URL
				made.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: proxy.Addr().String()})
			}
			c := New(Config{HTTP: &http.Client{Transport: made}, Timeout: time.Hour, MaxResponseBytes: 1})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				WroteRequest: func(httptrace.WroteRequestInfo) { cancel() }, // the kernel has the complete request
			})
			body := bytes.Repeat([]byte("x"), stalledBytes)
			result := c.Send(traced, &Request{URL: address, Body: body, Sign: unsigned})
			require.ErrorIs(t, result.Err, context.Canceled)
			require.False(t, result.NotSent)
			<-proxy.stalled
			close(proxy.resume)
			<-proxy.done
			server.Close() // waits for the handler
			assert.Equal(t, test.arrive, server.whole)
		})
	}
}

func unsigned(*http.Request, []byte) error { return nil }

// closings starts a server that responds with text. ends has the error of each connection, io.EOF for a graceful close.
func closings(t *testing.T, text string) (address string, ends chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ends = make(chan error, 1)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(conn)
			err = readRequest(in) // a reset may arrive before the request
			if err == nil {
				if text != "" { // after a reset, a write would consume the error that ReadByte must return
					_, _ = io.WriteString(conn, text)
				}
				_, err = in.ReadByte()
			}
			_ = conn.Close()
			ends <- err
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		served.Wait()
	})
	return "http://" + listener.Addr().String(), ends
}

// readRequest reads a whole request. Its error is never io.EOF.
func readRequest(in *bufio.Reader) error {
	r, err := http.ReadRequest(in)
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func TestConnectionCloseDependsOnTheResponse(t *testing.T) {
	for text, graceful := range map[string]bool{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}":                                       true,
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}":                  true,
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}":                                       true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n":            true,
		"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n":             true,
		"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n":                                 true,
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}":                                       false,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n":                     false,
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345":                                    false,
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n12345":               false,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n":        false,
		"HTTP/1.1 100 Continue\r\n\r\n":                                                        false,
		"HTTP/1.1 2000 OK\r\n\r\n":                                                             false,
		"garbage\r\n\r\n":                                                                      false,
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 2\r": true, // and more
		"": false,
	} {
		address, ends := closings(t, text)
		c := New(Config{Timeout: time.Hour, MaxResponseBytes: 4})
		ctx, cancel := context.WithCancel(t.Context())
		trace := new(httptrace.ClientTrace)
		switch { // some incomplete responses never end
		case text == "":
			trace.WroteRequest = func(httptrace.WroteRequestInfo) { cancel() }
		case !graceful:
			trace.GotFirstResponseByte = cancel
		}
		_ = c.Send(httptrace.WithClientTrace(ctx, trace), &Request{URL: address, Body: []byte("{}"), Sign: unsigned})
		c.CloseIdleConnections()
		err := <-ends
		cancel()
		assert.Equal(t, graceful, errors.Is(err, io.EOF), "%q: %v", text, err)
	}
}

// own returns a connection of Default and its other end.
func own(t *testing.T) (c *conn, far *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	dialed, err := dial(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	accepted, err := listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = accepted.Close() })
	return dialed.(*conn), accepted.(*net.TCPConn)
}

// use holds and closes a connection in order: h hold, s release after a complete response, f after an incomplete one,
// a abandon, k abort, c close, w write.
func use(c *conn, steps string) {
	for _, step := range steps {
		switch step {
		case 'h':
			c.hold()
		case 's', 'f':
			c.release(step == 's')
		case 'a':
			c.abandon()
		case 'k':
			closeConn(tls.Client(tls.Client(c, new(tls.Config)), new(tls.Config)))
		case 'c':
			_ = c.Close()
		case 'w':
			_, _ = c.Write([]byte("x"))
		}
	}
}

func TestConnectionCloses(t *testing.T) {
	for steps, graceful := range map[string]bool{
		"c":      false, // unused
		"wc":     false, // by a wrapper that drops the context
		"hsc":    true,
		"hcs":    true, // net/http may close before the attempt ends
		"hfc":    false,
		"hcf":    false,
		"hccs":   true,
		"hhfsc":  false,
		"hhcss":  true,
		"hhcsf":  false,
		"hsac":   false,
		"hkcs":   false, // a second delivery
		"hswhsc": true,
	} {
		c, far := own(t)
		use(c, steps)
		_, err := io.Copy(io.Discard, far)
		assert.Equal(t, graceful, err == nil, "%s: %v", steps, err)
	}
}

func TestConnectionThatClosesCarriesNoByte(t *testing.T) {
	c, far := own(t)
	c.hold()
	read := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	require.NoError(t, c.Close())
	require.Error(t, <-read, "a blocked read ends")
	_, err := c.Write([]byte("x"))
	require.Error(t, err)
	c.release(true)
	sent, err := io.ReadAll(far)
	require.NoError(t, err)
	assert.Empty(t, sent)
}

// net/http uses methods of *net.TCPConn beyond net.Conn.
func TestConnectionKeepsTheMethodsOfTCP(t *testing.T) {
	c, _ := own(t)
	defer func() { _ = c.Close() }()
	var plain net.Conn = c
	assert.Implements(t, (*io.ReaderFrom)(nil), plain)
	assert.Implements(t, (*io.WriterTo)(nil), plain)
	assert.Same(t, c, ownConn(tls.Client(tls.Client(c, new(tls.Config)), new(tls.Config))))
	assert.Nil(t, ownConn(nil))
}
