package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// candidate pays payouts in turns.
type candidate struct {
	name string
	payer
}

type payer interface {
	add(ctx context.Context, rows int) error // adds payouts before a turn
	pay(ctx context.Context) error           // pays until no payout remains
}

// server is a PostgreSQL server, or only a directory for SQLite if admin is nil.
type server struct {
	rows, turns int
	dir         string
	admin       *pgx.Conn
	url         string
	socket      string
	postmaster  string // process id
	plans       bool   // pg_stat_statements counts plans
	databases   []string
}

func newServer(ctx context.Context, address string) (*server, error) {
	dir, err := os.MkdirTemp("", "durablebench")
	s := &server{dir: dir, url: address}
	if err != nil || address == "" {
		return s, err
	}
	s.admin, err = pgx.Connect(ctx, address)
	if err != nil {
		return s, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return s, err
	}
	s.socket = filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432")
	var fsync, libraries, backend string
	if err := s.admin.QueryRow(ctx, `SELECT current_setting('fsync'), current_setting('shared_preload_libraries'),
		pg_backend_pid()::TEXT`).Scan(&fsync, &libraries, &backend); err != nil || fsync != "on" {
		return s, fmt.Errorf("fsync is %q, want on: %w", fsync, err)
	}
	s.postmaster = stat(backend)[1]
	s.plans = strings.Contains(libraries, "pg_stat_statements")
	if s.plans {
		_, err = s.admin.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS pg_stat_statements`)
	}
	return s, err
}

func (s *server) close() {
	_ = os.RemoveAll(s.dir) //nolint:gosec // newServer made it
	for _, name := range s.databases {
		_, _ = s.admin.Exec(context.Background(), `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`)
	}
}

// database creates an empty database and returns its URL. After a failure, the first connection to it fails.
func (s *server) database(ctx context.Context, name string) string {
	name = fmt.Sprintf("bench_%d_%s", os.Getpid(), name)
	s.databases = append(s.databases, name)
	_, _ = s.admin.Exec(ctx, `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`)
	_, _ = s.admin.Exec(ctx, `CREATE DATABASE `+name)
	return strings.Replace(s.url, "/postgres?", "/"+name+"?", 1)
}

// stat returns the fields of /proc/PID/stat, from the third field: the state, the parent, and so on.
func stat(pid string) []string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat")) //nolint:gosec // a process of this machine
	if err != nil {
		return make([]string, 50)
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// cpu returns the processor time of all processes of the server. The postmaster counts the ended processes, in ticks of
// 10 ms.
func (s *server) cpu() time.Duration {
	ended := ticks(s.postmaster, 13, 15)
	total := ended
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		if stat(filepath.Base(dir))[1] != s.postmaster {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(dir, "schedstat")) //nolint:gosec // a process of the server
		running, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.Atoi(running)
		total += time.Duration(n)
	}
	if ticks(s.postmaster, 13, 15) != ended {
		return s.cpu() // a process has ended meanwhile
	}
	return total
}

// ticks returns the sum of fields of a process in ticks of 10 ms.
func ticks(pid string, from, to int) (total time.Duration) {
	for _, text := range stat(pid)[from:to] {
		n, _ := strconv.Atoi(text)
		total += time.Duration(n) * 10 * time.Millisecond
	}
	return total
}

// counters are running totals. The program is also the service.
type counters struct {
	program, cpu               time.Duration
	wal, blocks, plans, rounds int64
}

func (s *server) counters(ctx context.Context, database string) (c counters, err error) {
	c.program = ticks("self", 11, 13)
	if s.admin == nil {
		return c, nil
	}
	err = s.admin.QueryRow(ctx, `SELECT pg_current_wal_lsn() - '0/0'::pg_lsn,
		COALESCE((SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = $1), 0)`, database).
		Scan(&c.wal, &c.blocks)
	if err == nil && s.plans {
		err = s.admin.QueryRow(ctx, `SELECT COALESCE(SUM(plans), 0)::BIGINT, COALESCE(SUM(calls), 0)::BIGINT
			FROM pg_stat_statements JOIN pg_database AS d ON d.oid = dbid
			WHERE datname = $1 AND query LIKE '%WITH%SKIP LOCKED%'`, database).Scan(&c.plans, &c.rounds)
	}
	c.cpu = s.cpu()
	return c, err
}

// turn is the measurement of one turn, per payout.
type turn struct{ rate, ratio, program, server, wal float64 }

func (s *server) turn(ctx context.Context, c candidate) (t turn, err error) {
	if err := c.add(ctx, s.rows); err != nil {
		return t, err
	}
	before, err := s.counters(ctx, "")
	if err != nil {
		return t, err
	}
	begun := time.Now()
	if err := c.pay(ctx); err != nil {
		return t, err
	}
	took := time.Since(begun)
	after, err := s.counters(ctx, "")
	n := float64(s.rows)
	return turn{
		n / took.Seconds(), 0, float64((after.program - before.program).Microseconds()) / n,
		float64((after.cpu - before.cpu).Microseconds()) / n, float64(after.wal-before.wal) / n,
	}, err
}

// compare prints the medians of the candidates, and the ratios of their rates to the first candidate in the same
// turn.
func (s *server) compare(ctx context.Context, title string, all ...candidate) error {
	measured := make([][]turn, len(all))
	for n := range s.turns {
		for i, c := range all {
			t, err := s.turn(ctx, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			measured[i] = append(measured[i], t)
			measured[i][n].ratio = t.rate / measured[0][n].rate
		}
	}
	fmt.Printf("### %s\n\n"+
		"| | payouts a second | × %s (range) | program µs a row | server µs a row | WAL bytes a row |\n"+
		"|---|--:|--:|--:|--:|--:|\n", title, all[0].name)
	for i, c := range all {
		column := func(of func(turn) float64) []float64 {
			var values []float64
			for _, t := range measured[i] {
				values = append(values, of(t))
			}
			slices.Sort(values)
			return values
		}
		ratios := column(func(t turn) float64 { return t.ratio })
		fmt.Printf("| %s | %.0f | %.2f (%.2f to %.2f) | %.0f | %.0f | %.0f |\n", c.name,
			column(func(t turn) float64 { return t.rate })[s.turns/2], ratios[s.turns/2], ratios[0], ratios[s.turns-1],
			column(func(t turn) float64 { return t.program })[s.turns/2],
			column(func(t turn) float64 { return t.server })[s.turns/2],
			column(func(t turn) float64 { return t.wal })[s.turns/2])
	}
	fmt.Println()
	return nil
}

// proxy delays the packets between programs and the server. It does not limit the data in transit.
type proxy struct {
	listener net.Listener
}

func newProxy(ctx context.Context, socket string, delay time.Duration) (*proxy, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			program, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			if err != nil {
				_ = program.Close()
				continue
			}
			go deliver(program, server, delay)
			go deliver(server, program, delay)
		}
	}()
	return &proxy{listener}, nil
}

func (p *proxy) close() { _ = p.listener.Close() }

// address returns the URL of a database behind the proxy.
func (p *proxy) address(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		return database
	}
	u.Host, u.RawQuery = p.listener.Addr().String(), "sslmode=disable"
	return u.String()
}

type packet struct {
	due  time.Time
	data []byte
}

// deliver forwards data after the delay, until one side closes.
func deliver(from, to net.Conn, delay time.Duration) {
	packets := make(chan packet, 10_000)
	go func() {
		for p := range packets {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.data)
		}
		_ = to.Close()
	}()
	for {
		data := make([]byte, 16<<10)
		n, err := from.Read(data)
		if err != nil {
			close(packets)
			return
		}
		packets <- packet{time.Now().Add(delay), data[:n]}
	}
}

// newService starts a service with the given response time. It does not check requests, because the checks would be
// measured too.
func newService(takes time.Duration) *httptest.Server {
	var orders atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		time.Sleep(takes)
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "status") {
			var request paymentsvc.StatusPaymentRequest
			_ = json.Unmarshal(body, &request)
			_, _ = fmt.Fprintf(w, `{"order_id":"of %[1]s","user_data":%[1]q}`, request.UserData)
			return
		}
		_, _ = fmt.Fprintf(w, `{"order_id":"order-%d-%d","status":1,"status_code":10,`+
			`"redirect_url":"https://pay.example/"}`, takes, orders.Add(1))
	}))
}

func newClient(address string) (*paymentsvc.Client, error) {
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: paymentsvc.Scheme{Canonical: canonical.Body, Encoding: paymentsvc.Hex},
		Secret: "the-secret-of-the-benchmark",
	})
	if err != nil {
		return nil, err
	}
	return paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: address, PartnerID: 1001, ProjectID: 2002, Signer: signer,
		DecodeError: paymentsvc.ErrorFields("error_code", "error_message"),
	})
}
