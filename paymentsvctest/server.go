package paymentsvctest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Server is the payment service. Make it with New or Start; it is safe for concurrent use.
type Server struct {
	// URL is the address for paymentsvc.Config.BaseURL, with Config.BasePath. Listen sets it; a server that is
	// only mounted as a handler has none of its own.
	URL string

	// Pointers, so that fmt shows nothing of them in a struct of somebody else's.
	cfg       *Config
	watched   *recorder
	transport *http.Transport // of HTTPClient
	notifier  *http.Transport // of notifications
	life      context.Context // ends with Close
	end       context.CancelFunc

	mu        sync.Mutex // guards everything below
	books     *books
	rules     []*Rule // for requests
	ruleCount int
	chaos     *chaos
	dialed    map[string]bool // local addresses of the connections that HTTPClient's client has open

	arrivals   map[string]int // requests by endpoint
	rejections []Rejection
	signatures []SignatureFault

	notifyRules []*Rule
	receiver    Receiver
	outbox      []*letter
	deliveries  []Delivery

	http     *http.Server
	listener net.Listener
	conns    map[net.Conn]http.ConnState // accepted, not yet closed
	underWay int                         // requests
	changed  chan struct{}               // closed when one of the two above has changed
}

// New checks c and makes a Server, which is an http.Handler. Errors wrap paymentsvc.ErrInvalidRequest and name
// the field. Close it in the end.
func New(c Config) (*Server, error) {
	if err := c.complete(); err != nil {
		return nil, fmt.Errorf("paymentsvctest: Config: %w", err)
	}
	s := &Server{
		cfg:      &c,
		watched:  &recorder{},
		notifier: &http.Transport{},
		books:    newBooks(&c),
		dialed:   map[string]bool{},
		arrivals: map[string]int{},
		conns:    map[net.Conn]http.ConnState{},
		changed:  make(chan struct{}),
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.transport = &http.Transport{Proxy: s.refusing, DialContext: s.dial, MaxIdleConnsPerHost: 100}
	return s, nil
}

// Start makes a Server that listens on a loopback address of its own until the test is over. If the test fails,
// what was started and what was refused is printed. A Config that New rejects ends the test.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	if c.Logf == nil {
		c.Logf = t.Logf
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if t.Failed() {
			t.Log(s.summary())
		}
	})
	if err := s.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	return s
}

// Listen serves at addr, such as "127.0.0.1:0", in the background until Close, and sets URL. It can be called
// once. It is an error for addr not to be free, and for the server to be closed.
func (s *Server) Listen(addr string) error {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return fmt.Errorf("paymentsvctest: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed() || s.http != nil {
		_ = l.Close() // nobody has it yet
		return errors.New("paymentsvctest: Listen was called before, or Close")
	}
	s.URL = "http://" + l.Addr().String() + s.cfg.BasePath
	s.listener = l
	s.http = &http.Server{
		Handler:           s,
		ConnState:         s.connState,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are this server's trade
	}
	go func() { _ = s.http.Serve(l) }() // ends with ErrServerClosed
	return nil
}

// Close ends the server, all its connections and all that hangs. It does not wait for anything, and can be
// called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed() {
		s.mu.Unlock()
		return
	}
	s.end()
	server, conns := s.http, slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()

	if server != nil {
		_ = server.Close() // nobody needs its listener any more
	}
	for _, conn := range conns {
		_ = conn.Close() // also those that were hijacked, of which http.Server does not know
	}
	s.transport.CloseIdleConnections()
	s.notifier.CloseIdleConnections()
}

func (s *Server) closed() bool { return s.life.Err() != nil }

// Format shows the address and nothing else.
func (s *Server) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "Server{URL: %q}", s.URL) }

// connState keeps track of the connections that Listen accepts. A connection that is hijacked stays until the
// handler that has it is done.
func (s *Server) connState(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateClosed:
		delete(s.conns, conn)
	default:
		s.conns[conn] = state
	}
	s.notice()
}

// notice wakes those who wait in Drain. The lock is held.
func (s *Server) notice() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Drain waits until every request that was sent before has been dealt with, also those whose client has left:
// ask it before counting orders after a timeout. Close the idle connections of your client first, since one
// that was opened and never used looks like one whose request is still to come. It fails only with the context.
func (s *Server) Drain(ctx context.Context) error {
	s.transport.CloseIdleConnections()
	if err := s.acceptedAll(ctx); err != nil {
		return err
	}
	return s.wait(ctx, func() bool {
		for _, state := range s.conns {
			if state != http.StateIdle {
				return false
			}
		}
		return s.underWay == 0
	})
}

// acceptedAll waits until all connections made before are accepted: they are in the order in which they were
// made, so one of its own shows it.
func (s *Server) acceptedAll(ctx context.Context) error {
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	if listener == nil || s.closed() {
		return nil
	}
	var dialer net.Dialer
	probe, err := dialer.DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return fmt.Errorf("paymentsvctest: Drain: %w", err)
	}
	defer func() { _ = probe.Close() }() // nothing was sent
	return s.wait(ctx, func() bool {
		for conn := range s.conns {
			if conn.RemoteAddr().String() == probe.LocalAddr().String() {
				return true
			}
		}
		return false
	})
}

// wait waits until condition, which is called with the lock held, is true, or the server is closed.
func (s *Server) wait(ctx context.Context, condition func() bool) error {
	for {
		s.mu.Lock()
		met, changed := condition(), s.changed
		s.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-changed:
		case <-s.life.Done():
			return nil
		case <-ctx.Done():
			return fmt.Errorf("paymentsvctest: Drain: %w", ctx.Err())
		}
	}
}

// enter counts a request in, and rejects it when the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed() {
		return false
	}
	s.underWay++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
	s.notice()
}

// HTTPClient returns a client for this server, through which Refuse works. It uses a plain *http.Transport, so a
// paymentsvc.Client can prove what was not sent. Its connections end with the server.
func (s *Server) HTTPClient() *http.Client { return &http.Client{Transport: s.transport} }

// ClientConfig returns a configuration that fits this server and one of its projects: the address, the ids, a
// signer, a decoder of its errors, and HTTPClient. For a project that the server does not have there is no
// signer.
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

// refusedHost is an address that dial knows and nobody else can have.
const refusedHost = "refused.invalid"

// refusing is asked for a proxy before each attempt, the only place where net/http shows a request before it
// connects. A proxy that rejects is a connection that is rejected.
func (s *Server) refusing(r *http.Request) (*url.URL, error) {
	if s.connecting(endpointAtEndOf(r.URL.Path)) {
		return &url.URL{Scheme: "http", Host: refusedHost}, nil
	}
	return nil, nil //nolint:nilnil // no proxy, by the contract of http.Transport
}

// endpointAtEndOf finds the endpoint of a path that may begin with anything: a client sees the path before a router
// has shortened it.
func endpointAtEndOf(path string) string {
	for below := true; below; {
		if _, path, below = strings.Cut(path, "/"); fieldsOf(path) != nil {
			return path
		}
	}
	return ""
}

// dial connects, and keeps in mind which connections are those of clients that asked connecting.
func (s *Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(address); err == nil && host == refusedHost {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialed[conn.LocalAddr().String()] = true // before a request can come from it
	return &dialedConn{Conn: conn, server: s}, nil
}

type dialedConn struct {
	net.Conn
	server *Server
	once   sync.Once
}

// Close takes the address out before another client can get it.
func (c *dialedConn) Close() error {
	c.once.Do(func() {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		delete(c.server.dialed, c.LocalAddr().String())
	})
	return c.Conn.Close()
}

// Requests counts the requests that arrived at an endpoint, refused ones included.
func (s *Server) Requests(endpoint string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for name, count := range s.arrivals {
		if covers(endpoint, name) {
			n += count
		}
	}
	return n
}

// Orders returns all orders, in the order in which they were started.
func (s *Server) Orders() []Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.books.list()
}

// Order returns one order; false when there is none.
func (s *Server) Order(orderID string) (Order, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.books.byID[orderID]; o != nil {
		return o.Order, true
	}
	return Order{}, false
}

// Started counts the orders with this user_data, of all kinds and projects.
func (s *Server) Started(userData string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.books.started[userData]
}

// Balance returns what get_balance would answer for a project, without Raw. It is an error for the project not to be
// there.
func (s *Server) Balance(projectID int64) (paymentsvc.Balance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	account := s.books.accounts[projectID]
	if account == nil {
		return paymentsvc.Balance{}, errors.New("paymentsvctest: no such project")
	}
	payout, expected, err := account.balances()
	return paymentsvc.Balance{PayoutBalance: payout, ExpectedBalance: expected, Currency: account.Currency}, err
}
