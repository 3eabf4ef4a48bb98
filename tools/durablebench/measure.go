package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// candidate pays payouts in turns.
type candidate struct {
	name string
	payer
}

type payer interface {
	add(ctx context.Context, rows int) error // adds payouts before a turn
	pay(ctx context.Context) error           // pays all of them
}

// server is PostgreSQL, if admin is set, and a directory for SQLite.
type server struct {
	dir        string
	admin      *pgx.Conn
	url        string
	socket     string
	postmaster string // process id
	plans      bool   // pg_stat_statements counts plans
}

func newServer(ctx context.Context, address string) (*server, error) {
	dir, err := os.MkdirTemp("", "durablebench")
	s := &server{dir: dir, url: address}
	if err != nil || address == "" {
		return s, err
	}
	if s.admin, err = pgx.Connect(ctx, address); err != nil {
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
	if s.plans = strings.Contains(libraries, "pg_stat_statements"); s.plans {
		_, err = s.admin.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS pg_stat_statements`)
	}
	return s, err
}

func (s *server) close() {
	_ = os.RemoveAll(s.dir)
	if s.admin != nil {
		_ = s.admin.Close(context.Background())
	}
}

// database makes an empty database and returns its URL. If it fails, so does the first connection.
func (s *server) database(ctx context.Context, name string) string {
	_, _ = s.admin.Exec(ctx, `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`)
	_, _ = s.admin.Exec(ctx, `CREATE DATABASE `+name)
	return strings.Replace(s.url, "/postgres?", "/"+name+"?", 1)
}

// stat returns the fields of a process from the third on: its state, its parent, and so on.
func stat(pid string) []string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return make([]string, 50)
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// cpu returns the processor time of all processes of the server. Those that have ended are counted by the postmaster, in
// ticks of 10 ms.
func (s *server) cpu() (total time.Duration) {
	if s.admin == nil {
		return 0
	}
	ended := stat(s.postmaster)[13:15] // cutime and cstime
	for _, ticks := range ended {
		n, _ := strconv.Atoi(ticks)
		total += time.Duration(n) * 10 * time.Millisecond
	}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		if stat(filepath.Base(dir))[1] != s.postmaster {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(dir, "schedstat"))
		running, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.Atoi(running)
		total += time.Duration(n)
	}
	return total
}

// counters are what the server has done so far.
type counters struct {
	cpu                time.Duration
	wal, blocks, plans int64
	calls              int64 // of rounds, if plans are counted
}

func (s *server) counters(ctx context.Context, database string) (c counters, err error) {
	if s.admin == nil {
		return c, nil
	}
	if err = s.admin.QueryRow(ctx, `SELECT pg_current_wal_lsn() - '0/0'::pg_lsn,
		COALESCE((SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = $1), 0)`, database).
		Scan(&c.wal, &c.blocks); err == nil && s.plans {
		err = s.admin.QueryRow(ctx, `SELECT COALESCE(SUM(plans), 0)::BIGINT, COALESCE(SUM(calls), 0)::BIGINT
			FROM pg_stat_statements JOIN pg_database AS d ON d.oid = dbid
			WHERE datname = $1 AND query LIKE '%WITH%SKIP LOCKED%'`, database).Scan(&c.plans, &c.calls)
	}
	c.cpu = s.cpu()
	return c, err
}

// turn measures one turn: payouts a second, and the server's microseconds and bytes of WAL per payout.
func (s *server) turn(ctx context.Context, c candidate) (rate, micros, wal float64, err error) {
	if err := c.add(ctx, *rows); err != nil {
		return 0, 0, 0, err
	}
	before, err := s.counters(ctx, "")
	if err != nil {
		return 0, 0, 0, err
	}
	begun := time.Now()
	if err := c.pay(ctx); err != nil {
		return 0, 0, 0, err
	}
	took := time.Since(begun)
	after, err := s.counters(ctx, "")
	n := float64(*rows)
	return n / took.Seconds(), float64((after.cpu - before.cpu).Microseconds()) / n, float64(after.wal-before.wal) / n, err
}

// compare prints the medians of the candidates, and the ratios of their rates to the first candidate's of the same turn.
func (s *server) compare(ctx context.Context, title string, all ...candidate) error {
	rates, ratios := make([][]float64, len(all)), make([][]float64, len(all))
	micros, wal := make([][]float64, len(all)), make([][]float64, len(all))
	for range *turns {
		for i, c := range all {
			rate, m, w, err := s.turn(ctx, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			rates[i], micros[i], wal[i] = append(rates[i], rate), append(micros[i], m), append(wal[i], w)
			ratios[i] = append(ratios[i], rate/rates[0][len(rates[i])-1])
		}
	}
	fmt.Printf("### %s\n\n| | payouts a second | × %s (range) | server µs a row | WAL bytes a row |\n|---|--:|--:|--:|--:|\n",
		title, all[0].name)
	for i, c := range all {
		fmt.Printf("| %s | %.0f | %.2f (%.2f to %.2f) | %.0f | %.0f |\n", c.name, median(rates[i]),
			median(ratios[i]), slices.Min(ratios[i]), slices.Max(ratios[i]), median(micros[i]), median(wal[i]))
	}
	fmt.Println()
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
