//go:build unix

package kills

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// proxy passes connections on, until it resets them or drops their data.
type proxy struct {
	net.Listener
	mu    sync.Mutex
	to    string // a socket's path, or an address
	delay time.Duration
	lines []*line
}

// line is a connection through a proxy.
type line struct {
	from, to net.Conn
	silent   chan struct{} // once closed, data is dropped, and the connections stay open
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{Listener: listener, to: to}
	t.Cleanup(func() { listener.Close(); p.reset() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			p.connect(from)
		}
	}()
	return p
}

func (p *proxy) address() string { return p.Addr().String() }

// moveTo resets all connections, and passes new ones on to another address.
func (p *proxy) moveTo(to string) {
	p.mu.Lock()
	p.to = to
	p.mu.Unlock()
	p.reset()
}

func (p *proxy) connect(from net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.delay > 0 {
		go deliver(from, p.to, p.delay)
		return
	}
	network := "tcp"
	if strings.HasPrefix(p.to, "/") {
		network = "unix"
	}
	to, err := net.Dial(network, p.to)
	if err != nil {
		from.Close()
		return
	}
	l := &line{from, to, make(chan struct{})}
	p.lines = append(p.lines, l)
	go l.copy(to, from)
	go l.copy(from, to)
}

// deliver delivers a request to an address with a delay, although its client has closed the connection.
func deliver(from net.Conn, to string, delay time.Duration) {
	request, _ := io.ReadAll(from) // until the client gives up
	time.Sleep(delay)
	conn, err := net.Dial("tcp", to)
	if err != nil {
		return // the test has ended
	}
	defer conn.Close()
	_, _ = conn.Write(request)
	_, _ = conn.Read(make([]byte, 1)) // until the service responds
}

func (l *line) copy(to io.Writer, from io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-l.silent:
			if err != nil {
				return
			}
			continue
		default:
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			l.close()
			return
		}
	}
}

func (l *line) close() {
	if c, ok := l.from.(*net.TCPConn); ok {
		_ = c.SetLinger(0) // a reset instead of a normal end
	}
	l.from.Close()
	l.to.Close()
}

// reset resets all connections.
func (p *proxy) reset() {
	for _, l := range p.take() {
		l.close()
	}
}

func (p *proxy) take() []*line {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := p.lines
	p.lines = nil
	return lines
}

// disturb cuts connections at random moments, n times. It then drops the data of all connections but keeps them open,
// so neither side notices.
func (p *proxy) disturb(n int) {
	for range n {
		time.Sleep(time.Duration(20+rand.IntN(200)) * time.Millisecond)
		p.reset()
	}
	for _, l := range p.take() {
		close(l.silent)
	}
}

// The process survives and knows its outcomes, so an unavailable database leaves no row unknown.
func TestDatabaseConnectionsThatBreakLoseAndRepeatNothing(t *testing.T) {
	long(t)
	behind := postgres(t)
	u, err := url.Parse(behind.Address)
	require.NoError(t, err)
	p := newProxy(t, filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432"))
	u.Host, u.RawQuery = p.address(), "sslmode=disable"
	service := newService(t)
	through := opened(t, u.String())
	store := open(t, through, service.URL, time.Minute)
	addMany(t, behind, store, "a", 2000)
	stop := run(t, store)
	p.disturb(10)
	eventually(t, func() bool {
		return counts(t, open(t, behind, service.URL, time.Minute))[durable.StatePending] == 2000
	})
	stop()
	_, payouts := finish(t, behind, open(t, behind, service.URL, time.Minute), service)
	assert.Zero(t, payouts)
	assert.Len(t, service.Orders(), 2000)
}

// A call cut off before any byte was sent is repeated. Any other call cut off has an unknown outcome, and its payout is
// not repeated.
func TestServiceConnectionsThatBreakRepeatNothing(t *testing.T) {
	long(t)
	each(t, func(t *testing.T, db database) {
		service := newService(t)
		u, err := url.Parse(service.URL)
		require.NoError(t, err)
		service.Fault(paymentsvctest.InitPayout, paymentsvctest.Every(), paymentsvctest.Slow(100*time.Microsecond))
		p := newProxy(t, u.Host)
		u.Host = p.address()
		store := open(t, db, u.String(), 3*time.Second)
		addMany(t, db, store, "a", 1000)
		stop := run(t, store)
		const resets = 5
		p.disturb(resets)
		eventually(t, func() bool {
			return db.Number(t, `SELECT COUNT(*) FROM durable_rows WHERE state = 'created'`) == 0
		})
		stop()
		require.NoError(t, service.Drain(t.Context()))
		_, payouts := finish(t, db, open(t, db, service.URL, 3*time.Second), service)
		t.Logf("%d unresolved payouts", payouts)
		assert.Positive(t, payouts, "the cuts have struck nothing")
		assert.LessOrEqual(t, payouts, (resets+1)*slots)
		assert.GreaterOrEqual(t, len(service.Orders()), 1000-payouts)
	})
}

// setDelay makes new connections deliver their requests d after their clients have closed them.
func (p *proxy) setDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// A proxy delivers requests up to a minute after their calls were abandoned. Until then, the service truthfully reports
// that it does not have the payment.
func TestLateRequestsRepeatNothing(t *testing.T) {
	long(t)
	each(t, func(t *testing.T, db database) {
		t.Parallel() // the test waits most of the time
		service := newService(t)
		u, err := url.Parse(service.URL)
		require.NoError(t, err)
		p := newProxy(t, u.Host)
		u.Host = p.address()
		store := open(t, db, u.String(), time.Second)
		addMany(t, db, store, "a", 8)
		for n := range 6 {
			p.setDelay(time.Duration(10+10*n) * time.Second)
			p.reset()
			_, err := store.Pay(t.Context(), durable.NewPayment{
				Key: fmt.Sprint("late-", n), Type: paymentsvc.PaymentTypeCard, Amount: paymentsvc.AmountFromMinor(100, 2),
			})
			require.NoError(t, err)
			require.NoError(t, store.Resume(t.Context(), "operator")) // after some calls without a response
			_, err = store.RunBatch(t.Context(), durable.BatchLimit{Rows: 1})
			require.NoError(t, err)
		}
		require.NoError(t, store.Resume(t.Context(), "operator"))
		p.setDelay(0)
		payments, payouts := finish(t, db, store, service)
		assert.Equal(t, []int{6, 6}, []int{payments, payouts}, "unknown at first")
		assert.Len(t, service.Orders(), 14)
	})
}

// A limit of pages simulates a full disk. Rounds update rows, so they fail, and continue when there is space.
func TestAFullDiskLosesAndRepeatsNothing(t *testing.T) {
	db := sqlite(t)
	service := newService(t)
	store := open(t, db, service.URL, time.Minute)
	addMany(t, db, store, "a", 300)
	require.Equal(t, db.Number(t, `PRAGMA page_count`), db.Number(t, `PRAGMA max_page_count = 1`), "no more pages")
	var more []durable.NewPayout
	for n := range 300 {
		more = append(more, payout("b", n, false))
	}
	require.ErrorContains(t, add(t.Context(), db.DB, store, more...), "full")
	stop := run(t, store)
	time.Sleep(500 * time.Millisecond)
	stuck := counts(t, store)
	require.Less(t, stuck[durable.StatePending], int64(300), "the disk was not full")
	db.Exec(t, `PRAGMA max_page_count = 1000000`)
	eventually(t, func() bool { return counts(t, store)[durable.StatePending] == 300 })
	stop()
	_, payouts := finish(t, db, open(t, db, service.URL, time.Minute), service)
	assert.Zero(t, payouts)
	assert.Len(t, service.Orders(), 300)
}
