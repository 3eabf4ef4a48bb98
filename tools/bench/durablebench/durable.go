package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

// store pays with package durable. Other files do not use its API.
type store struct {
	*durable.Store

	db               *sql.DB
	database         string // name
	rounds, recorded atomic.Int64
}

func newPayer(ctx context.Context, address, service string, slots, connections int) (*store, error) {
	client, err := newClient(service)
	if err != nil {
		return nil, err
	}
	db, err := connect(address)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	if err := durable.Migrate(ctx, db); err != nil {
		return nil, err
	}
	before, _, _ := strings.Cut(address, "?")
	s := &store{db: db, database: before[strings.LastIndex(before, "/")+1:]}
	s.Store, err = durable.Open(ctx, db, durable.Config{
		Service: client, Project: "bench", Slots: slots, Log: slog.New(slog.DiscardHandler),
		Hooks: durable.Hooks{Round: func(_ context.Context, r durable.Round) {
			s.rounds.Add(1)
			s.recorded.Add(int64(r.Recorded))
		}},
	})
	return s, err
}

// add queues payouts beside the rows of earlier turns.
func (s *store) add(ctx context.Context, rows int) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	prefix := paymentsvc.NewUserData()
	var p []durable.NewPayout
	for i := range rows {
		p = append(p, durable.NewPayout{
			Reference: fmt.Sprint(prefix, i), Amount: paymentsvc.MustParseAmount(amount), Destination: destination,
		})
	}
	if _, err := s.QueuePayouts(ctx, tx, p...); err != nil {
		return err
	}
	return tx.Commit()
}

func (s *store) pay(ctx context.Context) error { return s.payRows(ctx, 0) }

// payRows pays up to rows payouts; 0 means no limit.
func (s *store) payRows(ctx context.Context, rows int) error {
	_, err := s.RunBatch(ctx, durable.BatchLimit{Rows: rows})
	return err
}

// report prints the share of rounds with a new plan, if pg_stat_statements counts plans.
func (s *store) report(ctx context.Context, on *server) error {
	c, err := on.counters(ctx, s.database)
	if err == nil && c.rounds > 0 {
		fmt.Printf("%d rounds of %.1f results; %.1f %% of them planned anew\n\n", s.rounds.Load(),
			float64(s.recorded.Load())/float64(s.rounds.Load()), 100*float64(c.plans)/float64(c.rounds))
	}
	return err
}

// snapshot compares the first and the last tenth of the payouts while a transaction holds a snapshot, so that
// the server cannot remove dead rows.
func snapshot(ctx context.Context, s *server) error {
	instant := newService(0)
	defer instant.Close()
	fmt.Printf("### A held snapshot, %d payouts with 8 slots\n\n"+
		"| holder | server µs a row, first and last tenth | blocks a round, first and last tenth |\n"+
		"|---|--:|--:|\n", s.rows)
	for _, holder := range []struct{ name, database, begin, statement string }{
		{"none", "durable", `BEGIN`, `SELECT 1`},
		{"REPEATABLE READ", "durable", `BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT 1 FROM durable_rows`},
		{"a long INSERT in another database", "other", `BEGIN`, `CREATE TABLE long AS SELECT 1 AS one`},
	} {
		database := s.database(ctx, "durable")
		p, err := newPayer(ctx, database, instant.URL, 8, 0)
		if err != nil {
			return err
		}
		if holder.database != "durable" {
			database = s.database(ctx, holder.database)
		}
		if err := p.tenths(ctx, s, holder.name, database, holder.begin, holder.statement); err != nil {
			return err
		}
	}
	fmt.Println()
	return nil
}

func (s *store) tenths(ctx context.Context, on *server, name, database, begin, statement string) error {
	tenth := on.rows / 10
	if err := s.add(ctx, on.rows+tenth); err != nil {
		return err
	}
	if err := s.payRows(ctx, tenth); err != nil { // warms up
		return err
	}
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, text := range []string{begin, statement} {
		if _, err := conn.Exec(ctx, text); err != nil {
			return err
		}
	}
	var micros, blocks [2]float64
	for i, n := range []int{tenth, on.rows - 2*tenth, tenth} {
		before, rounds, err := s.counted(ctx, on)
		if err != nil {
			return err
		}
		if err := s.payRows(ctx, n); err != nil {
			return err
		}
		after, until, err := s.counted(ctx, on)
		if err != nil {
			return err
		}
		micros[i/2] = float64((after.cpu - before.cpu).Microseconds()) / float64(n)
		blocks[i/2] = float64(after.blocks-before.blocks) / float64(until-rounds)
	}
	fmt.Printf("| %s | %.0f to %.0f | %.0f to %.0f |\n", name, micros[0], micros[1], blocks[0], blocks[1])
	return nil
}

// counted returns the counters and the number of rounds, after all idle connections have sent their statistics.
func (s *store) counted(ctx context.Context, on *server) (counters, int64, error) {
	var idle []*sql.Conn
	for range s.db.Stats().Idle {
		c, err := s.db.Conn(ctx)
		if err != nil {
			return counters{}, 0, err
		}
		idle = append(idle, c)
	}
	for _, c := range idle {
		if _, err := c.ExecContext(ctx, `SELECT pg_stat_force_next_flush()`); err != nil {
			return counters{}, 0, err
		}
		_ = c.Close()
	}
	c, err := on.counters(ctx, s.database)
	return c, s.rounds.Load(), err
}

// processes measures processes of 8 slots with a service that takes 10 ms.
func processes(ctx context.Context, s *server) error {
	slow := newService(10 * time.Millisecond)
	defer slow.Close()
	address := s.database(ctx, "durable")
	p, err := newPayer(ctx, address, slow.URL, 8, 0)
	if err != nil {
		return err
	}
	fmt.Print("### 8 processes with 8 slots, the service takes 10 ms: at most 6400 a second\n\n" +
		"| payouts a second | share | recorded separately | server µs a row |\n|--:|--:|--:|--:|\n")
	for range s.turns {
		if err := p.add(ctx, s.rows); err != nil {
			return err
		}
		before := s.cpu()
		took, recorded, err := payInProcesses(ctx, 8, address, slow.URL)
		if err != nil {
			return err
		}
		rate := float64(s.rows) / took.Seconds()
		fmt.Printf("| %.0f | %.0f %% | %.1f %% | %.0f |\n", rate, rate/64, 100*(1-float64(recorded)/float64(s.rows)),
			float64((s.cpu()-before).Microseconds())/float64(s.rows))
	}
	fmt.Println()
	return nil
}

// payInProcesses starts n processes, waits until all are ready, and lets them pay. It returns the duration and the
// number of results recorded in rounds.
func payInProcesses(ctx context.Context, n int, address, service string) (took time.Duration, recorded int, err error) {
	binary, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	var commands []*exec.Cmd
	var inputs []io.Writer
	var outputs []*bufio.Reader
	for range n {
		//nolint:gosec // this program
		command := exec.CommandContext(ctx, binary, "-work", address, "-service", service)
		command.Stderr = os.Stderr
		input, err1 := command.StdinPipe()
		output, err2 := command.StdoutPipe()
		if err := errors.Join(err1, err2, command.Start()); err != nil {
			return 0, 0, err
		}
		commands = append(commands, command)
		inputs = append(inputs, input)
		outputs = append(outputs, bufio.NewReader(output))
	}
	for _, output := range outputs {
		if _, err := output.ReadString('\n'); err != nil {
			return 0, 0, err
		}
	}
	begun := time.Now()
	for _, input := range inputs {
		if _, err := fmt.Fprintln(input); err != nil {
			return 0, 0, err
		}
	}
	for i, output := range outputs {
		var one int
		if _, err := fmt.Fscan(output, &one); err != nil {
			return 0, 0, err
		}
		recorded += one
		took = time.Since(begun)
		err = errors.Join(err, commands[i].Wait())
	}
	return took, recorded, err
}

// workInProcess runs in a process of [payInProcesses]. It prints a line when it is ready, pays after a line of input,
// and prints the number of results recorded in rounds.
func workInProcess(ctx context.Context, database, service string) error {
	s, err := newPayer(ctx, database, service, 8, 0)
	if err != nil {
		return err
	}
	fmt.Println()
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	err = s.pay(ctx)
	fmt.Println(s.recorded.Load())
	return err
}
