package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// candidate is a named payer in a table.
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
	postmaster  string // process id
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
	var fsync, backend string
	err = s.admin.QueryRow(ctx, `SELECT current_setting('fsync'), pg_backend_pid()::TEXT`).Scan(&fsync, &backend)
	if err != nil || fsync != "on" {
		return s, fmt.Errorf("fsync is %q, want on: %w", fsync, err)
	}
	s.postmaster = stat(backend)[1]
	return s, nil
}

func (s *server) close() {
	_ = os.RemoveAll(s.dir) //nolint:gosec // newServer created the directory
	for _, name := range s.databases {
		_, _ = s.admin.Exec(context.Background(), `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`)
	}
}

// database creates an empty database and returns its URL. If this fails, the first connection returns an error.
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

// cpu returns the processor time of all processes of the server. The stat of the postmaster includes ended processes,
// in ticks of 10 ms.
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
		return s.cpu() // a process ended during the count
	}
	return total
}

// ticks returns the sum of the fields [from, to) of [stat], which count ticks of 10 ms.
func ticks(pid string, from, to int) (total time.Duration) {
	for _, text := range stat(pid)[from:to] {
		n, _ := strconv.Atoi(text)
		total += time.Duration(n) * 10 * time.Millisecond
	}
	return total
}

// counters are running totals. The field program includes the processor time of the service.
type counters struct {
	program, cpu time.Duration
	wal          int64
}

func (s *server) counters(ctx context.Context) (c counters, err error) {
	c.program = ticks("self", 11, 13)
	if s.admin == nil {
		return c, nil
	}
	err = s.admin.QueryRow(ctx, `SELECT pg_current_wal_lsn() - '0/0'::pg_lsn`).Scan(&c.wal)
	c.cpu = s.cpu()
	return c, err
}

// turn has the payouts per second of a turn, the ratio to the first candidate, and the costs per payout.
type turn struct{ rate, ratio, program, server, wal float64 }

func (s *server) turn(ctx context.Context, c candidate) (t turn, err error) {
	if err := c.add(ctx, s.rows); err != nil {
		return t, err
	}
	before, err := s.counters(ctx)
	if err != nil {
		return t, err
	}
	begun := time.Now()
	if err := c.pay(ctx); err != nil {
		return t, err
	}
	took := time.Since(begun)
	after, err := s.counters(ctx)
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
