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
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/discover"
)

// Server is a fake of the payment service. Make it with [New] or [Start]. It is safe for concurrent use.
type Server struct {
	// URL is the address for paymentsvc.Config.BaseURL, with Config.BasePath. [Server.Listen] sets it. It is "" for a
	// mounted handler.
	URL string

	// The fields are pointers, because fmt prints only their addresses, even for a Server inside another struct.
	cfg       *Config
	watched   *recorder
	transport *http.Transport // of HTTPClient
	notifier  *http.Transport // of notifications
	life      context.Context // ends with Close
	end       context.CancelFunc

	explainers map[int64]*discover.Explainer // by project

	mu     sync.Mutex // guards everything below
	books  *books
	rules  []*Rule // for requests
	chaos  *chaos
	dialed map[string]bool // local addresses of the open connections of HTTPClient's client

	arrivals   map[string]int // requests by endpoint
	rejections record[Rejection]
	signatures record[SignatureFault]

	notifyRules []*Rule
	receiver    Receiver
	outbox      []*outboxEntry
	posted      int                   // the number of all entries, including delivered entries
	untaken     map[*outboxEntry]bool // entries still without a 2xx response
	deliveries  record[Delivery]

	http     *http.Server
	listener net.Listener
	conns    map[net.Conn]http.ConnState // accepted, not yet closed
	underWay int                         // the number of requests in progress
	changed  chan struct{}               // closed after a change of conns, and at the end of a request
}

// New checks c and returns a Server. Its errors wrap paymentsvc.ErrInvalidRequest and name the field. Close the server
// at the end.
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
		untaken:  map[*outboxEntry]bool{},
	}
	s.rejections.limit, s.signatures.limit, s.deliveries.limit = c.MaxRecords, c.MaxRecords, c.MaxRecords
	s.explainers = newExplainers(&c)
	s.life, s.end = context.WithCancel(context.Background())
	s.transport = paymentsvc.NewTransport()
	s.transport.Proxy, s.transport.DialContext = s.refusing, s.dial
	return s, nil
}

// Start returns a Server that listens on a loopback address until the test ends. If the test fails, Start prints
// orders, rejections and wrong signatures. Start fails the test if New or Listen fails. See [StartInMemory] for fake
// time.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	return start(t, c, func(s *Server) error { return s.Listen("127.0.0.1:0") })
}

func start(t testing.TB, c Config, listen func(*Server) error) *Server {
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
	if err := listen(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Listen serves at addr, such as "127.0.0.1:0", in the background until Close, and sets URL. It can be called once. It
// returns an error if addr is in use or the server is closed.
func (s *Server) Listen(addr string) error {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return fmt.Errorf("paymentsvctest: %w", err)
	}
	return s.serve(l, l.Addr().String())
}

// serve handles the connections of l. Clients reach the server at host.
func (s *Server) serve(l net.Listener, host string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed() || s.http != nil {
		_ = l.Close() // no client has connected
		return errors.New("paymentsvctest: Listen or Close was called before")
	}
	s.URL = "http://" + host + s.cfg.BasePath
	s.listener = l
	s.http = &http.Server{
		Handler:           s,
		ConnState:         s.connState,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // faults break connections deliberately
	}
	go func() { _ = s.http.Serve(l) }() // ends with ErrServerClosed
	return nil
}

// Close ends the server, its connections and all hanging requests, without waiting. You can call it more than once.
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
		_ = server.Close() // an error of the listener has no effect
	}
	for _, conn := range conns {
		_ = conn.Close() // http.Server does not close hijacked connections
	}
	s.transport.CloseIdleConnections()
	s.notifier.CloseIdleConnections()
}

func (s *Server) closed() bool { return s.life.Err() != nil }

// Format writes the address only.
func (s *Server) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "Server{URL: %q}", s.URL) }

// connState tracks the accepted connections. A hijacked connection stays in conns until its handler closes it.
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

// notice wakes the waiters of Drain. The caller holds the lock.
func (s *Server) notice() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Drain waits until all earlier requests are complete, even if their clients have left. Call it before you count orders
// after a timeout. Close the idle connections of your client first, because a connection without a request so far looks
// like a pending request. Drain returns an error if ctx ends or the server cannot be dialed, and nil after Close.
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

// acceptedAll waits until all earlier connections are accepted. It opens a connection and waits for its acceptance,
// because the listener accepts connections in the order of their arrival.
func (s *Server) acceptedAll(ctx context.Context) error {
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	if listener == nil || s.closed() {
		return nil
	}
	probe, err := s.connect(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return fmt.Errorf("paymentsvctest: Drain: %w", err)
	}
	defer func() { _ = probe.Close() }() // it sends no request
	return s.wait(ctx, func() bool {
		for conn := range s.conns {
			if conn.RemoteAddr().String() == probe.LocalAddr().String() {
				return true
			}
		}
		return false
	})
}

// wait waits until condition returns true or the server is closed. It holds the lock while it calls condition.
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

// enter counts a request in progress. It reports false, and counts no request, if the server is closed.
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

// Requests returns the number of requests that arrived at an endpoint, including rejected requests.
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

// Orders returns all orders, the oldest first.
func (s *Server) Orders() []Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return copies(s.books.orders)
}

// Order returns one order, and reports whether it exists.
func (s *Server) Order(orderID string) (Order, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.books.byID[orderID]; o != nil {
		return o.Order, true
	}
	return Order{}, false
}

// OrdersOf returns the orders with this user_data, of all kinds and projects, the oldest first.
func (s *Server) OrdersOf(userData string) []Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return copies(s.books.started[userData])
}

// LastOrder returns the highest number of an order, or Config.LastOrder if there is no order.
func (s *Server) LastOrder() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.books.last
}

// EachOrder calls visit with each order above a number, the lowest number first, until visit returns false. visit must
// neither call the server nor change or keep the order.
func (s *Server) EachOrder(number int, visit func(*Order) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.books.orders
	at, _ := slices.BinarySearchFunc(list, number+1, func(o *order, n int) int { return o.Number - n })
	for _, o := range list[at:] {
		if !visit(&o.Order) {
			return
		}
	}
}

// Started returns the number of orders with this user_data, of all kinds and projects.
func (s *Server) Started(userData string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.books.started[userData])
}

// Balance returns the response of get_balance, without Raw, or an error for an unknown project or a balance with too
// many digits.
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

func copies(list []*order) []Order {
	orders := make([]Order, 0, len(list))
	for _, o := range list {
		orders = append(orders, o.Order)
	}
	return orders
}
