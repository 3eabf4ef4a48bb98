// Command durablebench compares package durable with the loops that an engineer would write instead, and with River.
// All candidates of a table run in alternating turns, so the ratios are comparable on a busy machine. Programs and
// server share the machine, and fsync must be on:
//
//	TEST_DATABASE_FSYNC=on .ci/postgres go -C tools/bench run ./durablebench -scenario slots
//	.ci/postgres go -C tools/bench test ./durablebench -million
//
// The µs of a server are the processor time of all its processes. The µs of a program include the service. The WAL
// bytes include the bytes of vacuums.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver
	_ "modernc.org/sqlite"             // registers the driver
)

func main() {
	scenario := flag.String("scenario", "", "run only sqlite, slots, many-slots, processes or pool")
	rows := flag.Int("rows", 8000, "payouts in a turn")
	turns := flag.Int("turns", 5, "turns of each candidate")
	work := flag.String("work", "", "pay the payouts of this database; set by the scenario \"processes\"")
	service := flag.String("service", "", "URL of the service for -work")
	flag.Parse()
	ctx := context.Background()
	run := func() error { return measureAll(ctx, *scenario, *rows, *turns) }
	if *work != "" {
		run = func() error { return workInProcess(ctx, *work, *service) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measureAll(ctx context.Context, scenario string, rows, turns int) error {
	s, err := newServer(ctx, os.Getenv("TEST_DATABASE_URL"))
	if err != nil {
		return err
	}
	defer s.close()
	s.rows, s.turns = rows, turns
	for _, each := range []struct {
		name string
		run  func(context.Context, *server) error
	}{
		{"sqlite", sqlite},
		{"slots", func(ctx context.Context, s *server) error { return s.peers(ctx, 8, true) }},
		{"many-slots", func(ctx context.Context, s *server) error { return s.peers(ctx, 64, false) }},
		{"processes", processes},
		{"pool", poolSizes},
	} {
		switch {
		case scenario != "" && scenario != each.name:
		case s.admin == nil && each.name != "sqlite":
			fmt.Printf("no PostgreSQL for %s: set TEST_DATABASE_URL, or use .ci/postgres\n", each.name)
		default:
			if err := each.run(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", each.name, err)
			}
		}
	}
	return nil
}

func connect(address string) (*sql.DB, error) {
	if strings.HasPrefix(address, "postgres:") {
		db, err := sql.Open("pgx", address)
		if err == nil {
			db.SetMaxIdleConns(100)
		}
		return db, err
	}
	db, err := sql.Open("sqlite", "file:"+address+
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

func sqlite(ctx context.Context, s *server) error {
	instant := newService(0)
	defer instant.Close()
	bare, err := newLoop(filepath.Join(s.dir, "bare.db"), instant.URL, 8)
	if err != nil {
		return err
	}
	store, err := newStore(ctx, filepath.Join(s.dir, "durable.db"), instant.URL, 8, 1)
	if err != nil {
		return err
	}
	return (&server{rows: s.rows, turns: s.turns}).compare(
		ctx, "SQLite, 8 slots", candidate{"bare loop", bare}, candidate{"durable", store},
	)
}

// peers compares durable with the merged loop on PostgreSQL and, if slow is set, with the bare loop and River.
func (s *server) peers(ctx context.Context, slots int, slow bool) error {
	instant := newService(0)
	defer instant.Close()
	merged, err1 := newMerged(ctx, s.database(ctx, "merged"), instant.URL, slots)
	store, err2 := newStore(ctx, s.database(ctx, "durable"), instant.URL, slots, 0)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	all := []candidate{{"merged loop", merged}, {"durable", store}}
	if slow {
		bare, err1 := newLoop(s.database(ctx, "bare"), instant.URL, slots)
		jobs, err2 := newRiver(ctx, s.database(ctx, "river"), instant.URL, slots)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		defer func() { _ = jobs.client.Stop(ctx) }()
		all = append(all, candidate{"bare loop", bare}, candidate{"River, a job per payout", jobs})
	}
	return s.compare(ctx, fmt.Sprint(slots, " slots"), all...)
}

// poolSizes measures 256 slots with few connections.
func poolSizes(ctx context.Context, s *server) error {
	slow := newService(100 * time.Millisecond)
	defer slow.Close()
	var all []candidate
	for _, n := range []int{32, 16, 8, 4, 3, 2} {
		p, err := newStore(ctx, s.database(ctx, fmt.Sprint("pool_", n)), slow.URL, 256, n)
		if err != nil {
			return err
		}
		all = append(all, candidate{fmt.Sprint(n, " connections"), p})
	}
	return s.compare(ctx, "256 slots, response time 100 ms, at most 2560 a second", all...)
}
