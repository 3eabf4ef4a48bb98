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
	"sync/atomic"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

// store pays with package durable.
type store struct {
	*durable.Store

	db       *sql.DB
	recorded atomic.Int64 // results recorded in rounds
}

func newStore(ctx context.Context, address, service string, slots, connections int) (*store, error) {
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
	s := &store{db: db}
	s.Store, err = durable.Open(ctx, db, durable.Config{
		Service: client, Project: "bench", Slots: slots, Log: slog.New(slog.DiscardHandler),
		Hooks: durable.Hooks{Round: func(_ context.Context, r durable.Round) { s.recorded.Add(int64(r.Recorded)) }},
	})
	return s, err
}

// add queues payouts. The rows of earlier turns stay in the tables.
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

func (s *store) pay(ctx context.Context) error {
	_, err := s.RunBatch(ctx, durable.BatchLimit{})
	return err
}

// processes measures 8 processes with 8 slots each, and a service with a response time of 10 ms.
func processes(ctx context.Context, s *server) error {
	slow := newService(10 * time.Millisecond)
	defer slow.Close()
	address := s.database(ctx, "durable")
	p, err := newStore(ctx, address, slow.URL, 8, 0)
	if err != nil {
		return err
	}
	fmt.Print("### 8 processes with 8 slots, response time 10 ms, at most 6400 a second\n\n" +
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

// payInProcesses starts n processes, waits until all are ready, and starts their payouts. It returns the duration and
// the number of results recorded in rounds.
func payInProcesses(ctx context.Context, n int, address, service string) (took time.Duration, recorded int, err error) {
	binary, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	var commands []*exec.Cmd
	var inputs []io.Writer
	var outputs []*bufio.Reader
	for range n {
		//nolint:gosec // binary is this program
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
		var results int
		if _, err := fmt.Fscan(output, &results); err != nil {
			return 0, 0, err
		}
		recorded += results
		took = time.Since(begun)
		err = errors.Join(err, commands[i].Wait())
	}
	return took, recorded, err
}

// workInProcess runs in a process of [payInProcesses]. It prints a line when it is ready, pays after a line of input,
// and prints the number of results recorded in rounds.
func workInProcess(ctx context.Context, database, service string) error {
	s, err := newStore(ctx, database, service, 8, 0)
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
