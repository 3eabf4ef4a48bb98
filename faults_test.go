package paymentsvc_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// rawServer takes whole HTTP/1.1 requests off TCP connections, counts them, and leaves the rest to behave.
type rawServer struct {
	net.Listener
	taken atomic.Int32
	conns sync.WaitGroup
	over  context.Context // with the test
}

// newRawServer calls behave after each request of a connection; the connection is closed once it says false.
func newRawServer(t testing.TB, behave func(conn *net.TCPConn, nth int) (goOn bool)) *rawServer {
	t.Helper()
	s := newListener(t)
	s.serve(func(conn *net.TCPConn) {
		in := bufio.NewReader(conn)
		for goOn := true; goOn; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			goOn = behave(conn, int(s.taken.Add(1)))
		}
	})
	return s
}

func newListener(t testing.TB) *rawServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	over, end := context.WithCancel(context.Background())
	s := &rawServer{Listener: listener, over: over}
	t.Cleanup(func() {
		end()
		_ = listener.Close()
		s.conns.Wait()
	})
	return s
}

func (s *rawServer) base() string { return "http://" + s.Addr().String() + testBase }

// serve runs handle for every connection and closes it afterwards.
func (s *rawServer) serve(handle func(*net.TCPConn)) {
	s.conns.Go(func() {
		for {
			conn, err := s.Accept()
			if err != nil {
				return
			}
			s.conns.Go(func() {
				defer func() { _ = conn.Close() }()
				defer context.AfterFunc(s.over, func() { _ = conn.Close() })()
				handle(conn.(*net.TCPConn))
			})
		}
	})
}

// piped is a transport whose connections are pipes to serve, so that a bubble of testing/synctest knows when nothing but
// time can go on: no test waits, and none is short of patience on a busy machine.
func piped(t testing.TB, serve func(conn net.Conn)) *http.Transport {
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			serve(far)
		}()
		return near, nil
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// stalling is a transport to a service that takes whole requests, answers with text and then says nothing more.
func stalling(t testing.TB, text string) (transport *http.Transport, taken *atomic.Int32) {
	taken = new(atomic.Int32)
	return piped(t, func(conn net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			taken.Add(1)
		}
		write(conn, text)
		_, _ = io.Copy(io.Discard, conn) // until the client leaves
	}), taken
}

func write(conn net.Conn, text string) { _, _ = io.WriteString(conn, text) }

func TestAStartIsSentAtMostOnceWhateverHappensAfterItWasTaken(t *testing.T) {
	for name, behave := range map[string]func(*net.TCPConn){
		"the connection is closed":    func(*net.TCPConn) {},
		"the connection is reset":     func(c *net.TCPConn) { _ = c.SetLinger(0) },
		"half a status line":          func(c *net.TCPConn) { write(c, "HTTP/1.1 20") },
		"half a header":               func(c *net.TCPConn) { write(c, "HTTP/1.1 200 OK\r\nContent-Type: appl") },
		"something that is not HTTP":  func(c *net.TCPConn) { write(c, "SSH-2.0-OpenSSH_9.2\r\n") },
		"a header without a colon":    func(c *net.TCPConn) { write(c, "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n") },
		"a body shorter than it says": func(c *net.TCPConn) { write(c, "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"+paymentAnswer) },
		"a body cut, without a length": func(c *net.TCPConn) {
			write(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"+paymentAnswer[:30])
		},
		"a chunked body without its end": func(c *net.TCPConn) {
			write(c, fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(paymentAnswer), paymentAnswer))
		},
		"no body at all":             func(c *net.TCPConn) { write(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n") },
		"100 and then the end":       func(c *net.TCPConn) { write(c, "HTTP/1.1 100 Continue\r\n\r\n") },
		"103 and then the end":       func(c *net.TCPConn) { write(c, "HTTP/1.1 103 Early Hints\r\n\r\n") },
		"408, as proxies close with": func(c *net.TCPConn) { write(c, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			for _, op := range operations() {
				s := newRawServer(t, func(c *net.TCPConn, _ int) bool { behave(c); return false })
				response, err := op.call(t, newClient(t, s.base()))
				e := failed(t, response, err, paymentsvc.OutcomeUnknown)
				want := int32(3)
				if op.starts || name == "408, as proxies close with" {
					want = 1
				}
				assert.Equal(t, want, s.taken.Load(), op.name)
				assert.EqualValues(t, want, e.Attempts, op.name)
			}
		})
	}
}

func TestAnswer101DoesNotHang(t *testing.T) {
	left := make(chan struct{})
	s := newRawServer(t, func(c *net.TCPConn, _ int) bool {
		write(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, c) // until the client closes the connection
		close(left)
		return false
	})
	response, err := pay(t.Context(), newClient(t, s.base()))
	e := failed(t, response, err, paymentsvc.OutcomeUnknown)
	assert.ErrorIs(t, err, paymentsvc.ErrUnexpectedResponse)
	assert.Equal(t, http.StatusSwitchingProtocols, e.HTTPStatus)
	<-left
}

func TestAStartOnAKeptConnectionThatBreaksIsNotSentAgain(t *testing.T) {
	for _, op := range operations() {
		s := newRawServer(t, func(c *net.TCPConn, nth int) bool {
			if nth > 1 {
				return false
			}
			write(c, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(op.answer), op.answer))
			return true
		})
		meddles := paymentsvc.SignerFunc(func(r *http.Request, _ []byte) error {
			r.Header.Set("Idempotency-Key", "k") // with it, net/http takes a POST for one that it may send again
			return nil
		})
		c := newClient(t, s.base(), func(cfg *paymentsvc.Config) { cfg.Signer = meddles; cfg.Retry.MaxAttempts = 1 })
		_, err := op.call(t, c)
		require.NoError(t, err)
		response, err := op.call(t, c)
		failed(t, response, err, paymentsvc.OutcomeUnknown)
		assert.EqualValues(t, 2, s.taken.Load(), op.name)
	}
}

func TestAStartThatHTTP2RefusesIsNotSentAgain(t *testing.T) {
	// REFUSED_STREAM invites the client to send again, which net/http does when it has the body once more.
	s := newListener(t)
	s.serve(func(conn *net.TCPConn) { refuseStreams(conn, &s.taken) })
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	c := newClient(t, s.base(), func(cfg *paymentsvc.Config) { cfg.HTTPClient = &http.Client{Transport: transport} })
	response, err := pay(t.Context(), c)
	failed(t, response, err, paymentsvc.OutcomeUnknown)
	assert.EqualValues(t, 1, s.taken.Load())
}

// refuseStreams speaks as much HTTP/2 as it takes to receive whole requests, count them, and refuse each.
func refuseStreams(conn net.Conn, taken *atomic.Int32) {
	const (
		data, headers, resetStream, settings = 0x0, 0x1, 0x3, 0x4
		endStream, ack                       = 0x1, 0x1
		refusedStream                        = 0x7
	)
	frame := func(kind, flags byte, stream uint32, payload []byte) {
		head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
		_, _ = conn.Write(append(binary.BigEndian.AppendUint32(head, stream), payload...))
	}
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	frame(settings, 0, 0, nil)
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, conn, length); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch {
		case kind == settings && flags&ack == 0:
			frame(settings, ack, 0, nil)
		case (kind == data || kind == headers) && flags&endStream != 0:
			taken.Add(1)
			frame(resetStream, 0, stream, binary.BigEndian.AppendUint32(nil, refusedStream))
		}
	}
}

func TestAConnectionThatIsClosedUnreadProvesNothing(t *testing.T) {
	s := newListener(t)
	s.serve(func(*net.TCPConn) {})
	response, err := pay(t.Context(), newClient(t, s.base()))
	e := failed(t, response, err, paymentsvc.OutcomeUnknown)
	assert.Equal(t, 1, e.Attempts)
}

// seenConn notes the ids of the requests whose bytes come in over it.
type seenConn struct {
	net.Conn
	arrived *sync.Map
}

var idHeader = regexp.MustCompile(`X-Test-Id: (\d+)\r\n`)

func (c seenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for _, match := range idHeader.FindAllSubmatch(p[:n], -1) {
		c.arrived.Store(string(match[1]), true)
	}
	return n, err
}

type seenListener struct {
	net.Listener
	arrived *sync.Map
}

func (l seenListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return seenConn{conn, l.arrived}, nil
}

var cancels = flag.Int64("cancels", 10_000, "random cancellations over each protocol")

func TestNotSentIsNeverSaidOfARequestThatArrived(t *testing.T) {
	const callers = 16
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			var arrived sync.Map
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				arrived.Store(r.Header.Get("X-Test-Id"), true)
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, paymentAnswer)
			}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that were cancelled
			patience, http2 := 2*time.Millisecond, true
			switch protocol {
			case "HTTP/1.1":
				server.Listener = seenListener{server.Listener, &arrived}
				server.Start()
				patience, http2 = 600*time.Microsecond, false
			case "HTTP/2":
				server.EnableHTTP2 = true
				server.StartTLS()
			case "h2c":
				server.Config.Protocols = new(http.Protocols)
				server.Config.Protocols.SetUnencryptedHTTP2(true)
				server.Start()
			}
			defer server.Close()
			transport := server.Client().Transport.(*http.Transport)
			if protocol == "h2c" {
				transport.Protocols = server.Config.Protocols
			}
			if !http2 {
				transport.MaxConnsPerHost = callers / 4 // so that calls wait for a connection, too
			}

			var id, cancelled atomic.Int64
			c := newClient(t, server.URL, over(transport), func(cfg *paymentsvc.Config) {
				cfg.Retry.MaxAttempts = 1
				cfg.Signer = paymentsvc.SignerFunc(func(r *http.Request, _ []byte) error {
					r.Header.Set("X-Test-Id", r.Context().Value(idHeader).(string))
					return nil
				})
			})
			var notSent sync.Map
			var outcomes [3]atomic.Int64
			var group sync.WaitGroup
			for range callers {
				group.Go(func() {
					for {
						n := id.Add(1)
						if n > *cancels {
							return
						}
						name := strconv.FormatInt(n, 10)
						ctx, cancel := context.WithCancel(context.WithValue(t.Context(), idHeader, name))
						if rand.N(500) == 0 && http2 {
							transport.CloseIdleConnections() // so that calls dial, too
						}
						timer := time.AfterFunc(rand.N(patience<<rand.N(6)), cancel) // for machines of any speed
						_, err := pay(ctx, c)
						timer.Stop()
						cancel()
						if err == nil {
							continue
						}
						cancelled.Add(1)
						outcome := paymentsvc.OutcomeOf(err)
						outcomes[outcome].Add(1)
						if outcome == paymentsvc.OutcomeNotSent {
							notSent.Store(name, true)
						}
						if !errors.Is(err, context.Canceled) && !http2 { // there an idle connection may be closed as it is taken
							t.Errorf("another error: %v", err)
						}
					}
				})
			}
			group.Wait()
			transport.CloseIdleConnections()
			server.Close() // waits for the handlers

			notSent.Range(func(name, _ any) bool {
				_, wrong := arrived.Load(name)
				return assert.False(t, wrong, "request %s arrived and was called not sent", name)
			})
			t.Logf("%d cancelled: %d not sent, %d unknown", cancelled.Load(),
				outcomes[paymentsvc.OutcomeNotSent].Load(), outcomes[paymentsvc.OutcomeUnknown].Load())
			assert.Positive(t, outcomes[paymentsvc.OutcomeNotSent].Load(), "the test saw no such case")
			assert.Positive(t, outcomes[paymentsvc.OutcomeUnknown].Load(), "the test saw no such case")
		})
	}
}
