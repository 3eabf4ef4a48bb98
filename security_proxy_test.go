package paymentsvc_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// connectProxy is a proxy that sees what it is sent and leaves the rest to behave.
type connectProxy struct {
	*rawServer
	seen tap
}

// newConnectProxy calls behave with every connection and the CONNECT request that came over it.
func newConnectProxy(t testing.TB, behave func(p *connectProxy, conn *net.TCPConn, in io.Reader, r *http.Request)) *connectProxy {
	t.Helper()
	p := &connectProxy{rawServer: newListener(t)}
	p.serve(func(conn *net.TCPConn) {
		in := bufio.NewReader(io.TeeReader(conn, &p.seen))
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		p.taken.Add(1)
		behave(p, conn, in, r)
	})
	return p
}

// tunnel answers 200 and carries bytes to address and back, where it sees them too.
func (p *connectProxy) tunnel(conn *net.TCPConn, in io.Reader, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	write(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.MultiWriter(conn, &p.seen), server)
		_ = conn.CloseWrite()
	}()
	_, _ = io.Copy(server, in)
	_ = server.(*net.TCPConn).CloseWrite()
	<-done
}

// serviceName is not a loopback's, to which net/http uses no proxy. Nothing but these tests' proxy knows where it is.
const serviceName = "pay.example.com"

// proxyPassword is in the address of the proxy, which is the environment's secret.
const proxyPassword = "password-of-the-proxy"

// The proxy that the environment names carries the client's requests and learns of them only where they go.
func TestAProxySeesNoRequest(t *testing.T) {
	if base := os.Getenv(childVariable); base != "" {
		payOnce(t, base)
		return
	}
	needsRootsOfItsOwn(t)
	a := newAuthority(t)
	service := newSecureServer(t, versions(a.issue(t, time.Now().Add(time.Hour), serviceName), 0, 0))
	stranger := newSecureServer(t, versions(newAuthority(t).issue(t, time.Now().Add(time.Hour), serviceName), 0, 0))
	answers := func(head string) func(*connectProxy, *net.TCPConn, io.Reader, *http.Request) {
		return func(_ *connectProxy, conn *net.TCPConn, in io.Reader, r *http.Request) {
			write(conn, strings.ReplaceAll(head, "ECHO", r.Header.Get("Proxy-Authorization")+" "+r.Host)+"\r\n\r\n")
			_, _ = io.Copy(io.Discard, in) // until the client leaves, so that it is not a reset that ends it
		}
	}
	leadsTo := func(s *secureServer) func(*connectProxy, *net.TCPConn, io.Reader, *http.Request) {
		return func(p *connectProxy, conn *net.TCPConn, in io.Reader, _ *http.Request) {
			p.tunnel(conn, in, s.Listener.Addr().String())
		}
	}
	for _, test := range []struct {
		name   string
		behave func(*connectProxy, *net.TCPConn, io.Reader, *http.Request)
		want   string
	}{
		{"it makes a tunnel", leadsTo(service), "paid"},
		{"its tunnel leads to a stranger", leadsTo(stranger), "unknown authority"},
		{"it wants to know who asks", answers("HTTP/1.1 407 ECHO\r\nContent-Length: 0"), "the proxy answered CONNECT with HTTP 407"},
		{"it reaches nothing", answers("HTTP/1.1 502 ECHO\r\nContent-Length: 4\r\n\r\nECHO"), "the proxy answered CONNECT with HTTP 502"},
		{"it sends elsewhere", answers("HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0"),
			"the proxy answered CONNECT with HTTP 302"},
		{"it is no proxy", answers("SSH-2.0-ECHO"), "malformed HTTP"},
		{"it closes the tunnel", func(_ *connectProxy, conn *net.TCPConn, in io.Reader, _ *http.Request) {
			write(conn, "HTTP/1.1 200 OK\r\n\r\n")
			_ = conn.CloseWrite()
			_, _ = io.Copy(io.Discard, in)
		}, "EOF"},
		{"it answers in the service's place", func(_ *connectProxy, conn *net.TCPConn, in io.Reader, _ *http.Request) {
			write(conn, "HTTP/1.1 200 OK\r\n\r\n")
			_, _ = in.Read(make([]byte, 1))
			write(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
			_, _ = io.Copy(io.Discard, in)
		}, "HTTP response to HTTPS client"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := service.requests.Load()
			p := newConnectProxy(t, test.behave)
			output, err := runChild(t, "https://"+serviceName, "SSL_CERT_FILE="+a.file(t), "SSL_CERT_DIR="+t.TempDir(),
				"HTTPS_PROXY=http://user:"+proxyPassword+"@"+p.Addr().String())
			result := resultOf(t, output, err)

			seen := p.seen.received()
			assert.True(t, strings.HasPrefix(seen, "CONNECT "+serviceName+":443 HTTP/1.1\r\n"), "%.100q", seen)
			holdsNothing(t, "what the proxy saw", seen)
			for _, word := range []string{"init_payment", "signature", "timestamp:", "partner_id", "order_id", "application/json", "paid"} {
				assert.NotContains(t, strings.ToLower(seen), word)
			}
			assert.Zero(t, stranger.requests.Load())

			if test.want == "paid" {
				assert.Equal(t, "paid", result)
				assert.EqualValues(t, 1, p.taken.Load())
				assert.Equal(t, before+1, service.requests.Load())
				assert.Contains(t, service.last.Load().Body, canary, "it did go through the proxy")
				assert.Contains(t, seen, "\x16\x03", "as a TLS handshake")
				return
			}
			assert.Equal(t, before, service.requests.Load())
			assert.Contains(t, result, "not sent after 3 attempts")
			assert.Contains(t, result, test.want)
			assert.EqualValues(t, 3, p.taken.Load())
			for _, secret := range []string{proxyPassword, "dXNlcjpwYXNzd29yZ", "ECHO", serviceName, "evil.example"} {
				assert.NotContains(t, result, secret, "the error repeats nothing of the proxy's address or answer")
			}
		})
	}
	t.Run("nobody is there", func(t *testing.T) {
		closed := strings.TrimPrefix(refusingPort(t), "http://")
		for _, scheme := range []string{"http", "https", "socks5", "ftp"} {
			output, err := runChild(t, "https://"+serviceName, "HTTPS_PROXY="+scheme+"://user:"+proxyPassword+"@"+closed)
			result := resultOf(t, output, err)
			assert.Contains(t, result, "not sent after 3 attempts")
			assert.NotContains(t, result, proxyPassword)
		}
	})
	t.Run("a loopback address is not asked for through it", func(t *testing.T) {
		p := newConnectProxy(t, leadsTo(service))
		local := newSecureServer(t, versions(a.issue(t, time.Now().Add(time.Hour), "127.0.0.1"), tls.VersionTLS12, 0))
		output, err := runChild(t, local.URL, "SSL_CERT_FILE="+a.file(t), "HTTPS_PROXY=http://"+p.Addr().String())
		require.Equal(t, "paid", resultOf(t, output, err))
		assert.Zero(t, p.taken.Load())
	})
}
