// Command durablebench compares package durable with a bare loop, "claim, call, record" with two SQL statements, which
// survives no crash better than by leaving rows in doubt. All are in one run, at the same durability, and take turns, so
// that the ratios can be compared on a busy machine. A server that .ci/postgres has started gets fsync for the time.
//
//	.ci/postgres go -C tools/durablebench run .
//	.ci/postgres go -C tools/durablebench test . -million
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver
	_ "modernc.org/sqlite"             // registers the driver
)

// workers are the calls at a time of each process.
const workers = 8

func main() {
	rows := flag.Int("rows", 2000, "payouts in a turn")
	rounds := flag.Int("rounds", 3, "turns of each candidate")
	flag.Parse()
	if err := run(context.Background(), *rows, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rows, rounds int) error {
	fast, slow := newService(0), newService(10*time.Millisecond)
	defer fast.Close()
	defer slow.Close()
	dir, err := os.MkdirTemp("", "durablebench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := table(ctx, "SQLite", rows, rounds, []candidate{
		{"bare loop", 1, bare(filepath.Join(dir, "bare.db"), fast.URL)},
		{"durable", 1, ours(filepath.Join(dir, "durable.db"), fast.URL)},
	}); err != nil {
		return err
	}
	server := os.Getenv("TEST_DATABASE_URL")
	if server == "" {
		fmt.Println("no PostgreSQL: run it with TEST_DATABASE_FSYNC=on .ci/postgres")
		return nil
	}
	admin, err := connect(server)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close() }()
	var fsync string
	if err := admin.QueryRowContext(ctx, `SHOW fsync`).Scan(&fsync); err != nil || fsync != "on" {
		return fmt.Errorf("fsync is %q, want on: %w", fsync, err)
	}
	address := func(name string) string {
		_, _ = admin.ExecContext(ctx, `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`)
		if _, failed := admin.ExecContext(ctx, `CREATE DATABASE `+name); failed != nil {
			err = failed
		}
		return strings.Replace(server, "/postgres?", "/"+name+"?", 1)
	}
	b, d, r := address("bench_bare"), address("bench_durable"), address("bench_river")
	if err != nil {
		return err
	}
	if err := table(ctx, "PostgreSQL", rows, rounds, []candidate{
		{"bare loop", 1, bare(b, fast.URL)}, {"durable", 1, ours(d, fast.URL)}, {"durable/riverqueue", 1, turns(r, fast.URL)},
	}); err != nil {
		return err
	}
	const slower = "&commit_delay=600&commit_siblings=0" // the server waits before each flush
	if err := table(ctx, "PostgreSQL, a disk that takes 0.6 ms more", rows, rounds, []candidate{
		{"bare loop", 1, bare(b+slower, fast.URL)}, {"durable", 1, ours(d+slower, fast.URL)},
	}); err != nil {
		return err
	}
	return table(ctx, "PostgreSQL, a service that takes 10 ms", rows, rounds, []candidate{
		{"bare loop", 1, bare(b, slow.URL)}, {"durable", 1, ours(d, slow.URL)}, {"durable, two processes", 2, ours(d, slow.URL)},
	})
}

func connect(address string) (*sql.DB, error) {
	if strings.HasPrefix(address, "postgres:") {
		db, err := sql.Open("pgx", address)
		if err == nil {
			db.SetMaxIdleConns(2 * workers)
		}
		return db, err
	}
	db, err := sql.Open("sqlite", "file:"+address+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// candidate pays payouts. do adds them first, and returns how long the payment took.
type candidate struct {
	name      string
	processes int
	do        func(ctx context.Context, processes, rows int) (time.Duration, error)
}

// table measures in turns, and prints the medians of the rates and of the ratios to the first candidate of each round.
func table(ctx context.Context, title string, rows, rounds int, candidates []candidate) error {
	rates, ratios := make([][]float64, len(candidates)), make([][]float64, len(candidates))
	for range rounds {
		for i, c := range candidates {
			took, err := c.do(ctx, c.processes, rows)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", title, c.name, err)
			}
			rates[i] = append(rates[i], float64(rows)/took.Seconds())
			ratios[i] = append(ratios[i], rates[i][len(rates[i])-1]/rates[0][len(rates[0])-1])
		}
	}
	fmt.Printf("### %s\n\n| | payouts a second | × bare loop (range) |\n|---|--:|--:|\n", title)
	for i, c := range candidates {
		slices.Sort(rates[i])
		slices.Sort(ratios[i])
		fmt.Printf("| %s | %.0f | %.2f (%.2f to %.2f) |\n", c.name, rates[i][rounds/2], ratios[i][rounds/2], ratios[i][0], ratios[i][rounds-1])
	}
	fmt.Println()
	return nil
}
