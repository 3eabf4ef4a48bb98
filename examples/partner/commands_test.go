package main

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// example is a file of n payouts, as make-payouts writes it.
func example(t *testing.T, n int) string {
	t.Helper()
	var file strings.Builder
	require.NoError(t, writePayouts(&file, n))
	return file.String()
}

func TestPayoutsSendsAFileOnce(t *testing.T) {
	lost := func(s *paymentsvctest.Server) {
		s.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(3), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	}
	none := func(*paymentsvctest.Server) {}
	eachDatabase(t, func(t *testing.T, _ string) {
		for _, c := range []struct {
			name    string
			faults  func(*paymentsvctest.Server)
			more    string // rows
			flags   []string
			code    int
			started int
			text    string
		}{
			{"all is well", none, "", nil, exitDone, 20, "20 pending"},
			{"as expected", none, "", []string{"-expect-rows", "20", "-expect-total", "4058.70"}, exitDone, 20, "20 pending"},
			{"another total", none, "", []string{"-expect-total", "4058.71"}, exitError, 0, "a total of 4058.70, want 4058.71"},
			{"another number", none, "", []string{"-expect-rows", "21"}, exitError, 0, "20 payouts, want 21"},
			{"an answer is lost", lost, "", nil, exitReview, 20, "1 unknown"},
			{"a rejected row", none, "x,none,4111111111111111\n", nil, exitReview, 20, "line 22: amount: not a number"},
			{"a last row cut off", none, "x,1,4111", nil, exitReview, 20, "may be cut off"},
			{"another spelling", none, "", []string{"-decimal-comma"}, exitReview, 0, "20 rows of the file"},
		} {
			t.Run(c.name, func(t *testing.T) {
				database := filepath.Join(t.TempDir(), "partner.db")
				if strings.Contains(t.Name(), "PostgreSQL") {
					database = postgres(t)
				}
				service := startService(t)
				c.faults(service)
				args := append(serviceFlags(t, service.URL, database), c.flags...)
				args = append(args, "payouts", fileWith(t, example(t, 20)+c.more))
				for again := range 2 { // the same file again changes nothing
					code, out := command(t, args...)
					require.Equal(t, c.code, code, out)
					require.Contains(t, out, c.text)
					require.Len(t, service.Orders(), c.started)
					assert.Equal(t, again == 1 && c.code != exitError, strings.Contains(out, "was read before"))
				}
			})
		}
	})
	code, out := command(t, "payouts", filepath.Join(t.TempDir(), "none.csv"))
	assert.Equal(t, exitError, code)
	assert.Contains(t, out, "none.csv")
}

func TestPayoutsPausesWithoutFunds(t *testing.T) {
	service := startService(t)
	service.Fault(paymentsvctest.InitPayout, paymentsvctest.Every(), paymentsvctest.Reject(402, "no_funds", "no funds"))
	args := append(
		serviceFlags(t, service.URL, filepath.Join(t.TempDir(), "partner.db")), "payouts", fileWith(t, example(t, 50)),
	)
	code, out := command(t, args...)
	assert.Equal(t, exitReview, code, out)
	assert.Contains(t, out, "50 created")
	assert.Empty(t, service.Orders())
}

func TestCheckSendsNothing(t *testing.T) {
	service := startService(t)
	for _, c := range []struct {
		content string
		flags   []string
		code    int
		text    string
	}{
		{
			example(t, 20), nil, exitDone,
			"rows       20\npayouts    20\nrejected   0\nduplicates 0\ntotal      4058.70\nbalance    500000.00 XTS\n",
		},
		{example(t, 20) + "salary-000001,1,x\n", nil, exitError, "one reference with different values"},
		{example(t, 1) + strings.Repeat("x,none,y\n", 30), nil, exitReview, "line 32: amount"},
		{example(t, 1), nil, exitDone, "The database was not read"},
		{example(t, 20), []string{"-expect-total", "1"}, exitError, "a total of 4058.70, want 1"},
		{"reference,amount,destination\na,500000.01,x\n", nil, exitReview, "does not cover"},
		{
			"reference;amount;destination;note\na;1,50;x;y\n", []string{"-decimal-comma", "-ignore-columns", "note"}, exitDone,
			"total      1.50",
		},
		{
			"Beleg;Betrag;destination\na;2;4111111111111110\n", []string{"-columns", "reference=Beleg, amount=betrag"}, exitDone,
			"warning: all destinations with more than 15 digits have zeros",
		},
		{"reference,amount,destination\na,1,x\n", []string{"-columns", "Beleg"}, exitError, "unknown key"},
		{"reference,amount,destination\na,1,x\nb,2,x\ntotal,3,x\n", nil, exitError, "remove line 4, or set ExpectRows"},
		{
			"reference,amount,destination\na,1.5,x\n", []string{"-scale", "0"}, exitReview,
			"1 decimals, want at most 0, see Scale (-scale)",
		},
		{"a,1," + card + "\n", nil, exitError, "no names of columns"},
	} {
		database := filepath.Join(t.TempDir(), "partner.db")
		code, out := command(
			t, append(append(serviceFlags(t, service.URL, database), c.flags...), "check", fileWith(t, c.content))...,
		)
		assert.Equal(t, c.code, code, out)
		assert.Contains(t, out, c.text)
		assert.NoFileExists(t, database)
	}
	assert.Empty(t, service.Orders())
}

func TestResultsAreOfAFileOrOfAll(t *testing.T) {
	service := startService(t)
	flags := serviceFlags(t, service.URL, filepath.Join(t.TempDir(), "partner.db"))
	first, second := fileWith(t, example(t, 2)), fileWith(t, "reference,amount,destination\nbonus-1,5,x\n")
	for _, file := range []string{first, second} {
		code, out := command(t, append(flags, "payouts", file)...)
		require.Equal(t, exitDone, code, out)
	}
	for file, want := range map[string][]string{
		first: {"salary-000001", "salary-000002"}, second: {"bonus-1"},
		fileWith(t, "reference,amount,destination\nbonus-1,5,x\nnew,1,x\n"): {"bonus-1", "new,3,1,not imported"},
		"": {"salary-000001", "salary-000002", "bonus-1"},
	} {
		args := append(slices.Clone(flags), "results")
		if file != "" {
			args = append(args, file)
		}
		code, out := command(t, args...)
		require.Equal(t, exitDone, code, out)
		assert.Equal(t, 1+len(want), strings.Count(out, "\n"), out)
		for _, reference := range want {
			assert.Contains(t, out, "\n"+reference+",")
		}
	}
}

func TestHoldKeepsPayoutsBack(t *testing.T) {
	service := startService(t)
	flags := serviceFlags(t, service.URL, filepath.Join(t.TempDir(), "partner.db"))
	code, out := command(t, append(flags, "hold", "restored a backup")...)
	require.Equal(t, exitDone, code, out)
	code, out = command(t, append(flags, "payouts", fileWith(t, example(t, 3)))...)
	assert.Equal(t, exitReview, code, out)
	assert.Contains(t, out, "3 created")
	assert.Contains(t, out, "3 payouts are held until a person releases them on the operators' page: restored a backup")
	assert.Empty(t, service.Orders())
}

// TestPayoutsWaitsForTheDatabase cuts the way to PostgreSQL while a file is imported, and again while it is sent.
func TestPayoutsWaitsForTheDatabase(t *testing.T) {
	way := newProxy(t, postgres(t))
	service := startService(t)
	const n = 3000
	way.left.Store(200_000) // bytes, of some 400,000
	release := make(chan struct{})
	rule := service.Fault(
		paymentsvctest.InitPayout, paymentsvctest.Nth(n-100), paymentsvctest.Hold(paymentsvctest.AfterCommit, release),
	)
	go func() {
		for rule.Hits() == 0 {
			time.Sleep(time.Millisecond)
		}
		close(release)
		way.cut()
	}()
	code, out := command(t, append(serviceFlags(t, service.URL, way.address), "payouts", fileWith(t, example(t, n)))...)
	assert.Contains(t, []int{exitDone, exitReview}, code, out)
	assert.Contains(t, out, fmt.Sprintf("%d rows", n))
	assert.Len(t, service.Orders(), n, "every payout is sent once")
	assert.EqualValues(t, 2, way.cuts.Load())
}

// proxy is a way to a PostgreSQL server that can be cut.
type proxy struct {
	address string // for -database
	dial    func() (net.Conn, error)
	left    atomic.Int64 // bytes before the first cut
	cuts    atomic.Int64

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

func newProxy(t *testing.T, database string) *proxy {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	p := &proxy{conns: map[net.Conn]bool{}}
	query := u.Query()
	if dir := query.Get("host"); dir != "" { // the socket of .ci/postgres
		p.dial = func() (net.Conn, error) { return net.Dial("unix", filepath.Join(dir, ".s.PGSQL.5432")) }
	} else {
		server := u.Host
		p.dial = func() (net.Conn, error) { return net.Dial("tcp", server) }
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	query.Del("host")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = listener.Addr().String(), query.Encode()
	p.address = u.String()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return p
}

func (p *proxy) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	server, err := p.dial()
	if err != nil || !p.keep(conn) {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, io.TeeReader(conn, p))
		_ = server.Close()
	}()
	_, _ = io.Copy(conn, server)
}

func (p *proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = true
	return !p.down
}

// Write counts what is sent.
func (p *proxy) Write(b []byte) (int, error) {
	if left := p.left.Add(-int64(len(b))); left < 0 && left+int64(len(b)) >= 0 {
		p.cut()
	}
	return len(b), nil
}

// cut closes the way for two seconds.
func (p *proxy) cut() {
	p.cuts.Add(1)
	p.set(true)
	time.AfterFunc(2*time.Second, func() { p.set(false) })
}

func (p *proxy) set(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
}
