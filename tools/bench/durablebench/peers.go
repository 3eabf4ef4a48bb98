package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/paymentsvc/paymentsvc"
)

const (
	amount      = "10.50"
	destination = "4111111111111111"
)

// The statements of the loops. On SQLite, the claim needs no SKIP LOCKED, because there is a single writer.
const (
	claim = `UPDATE payouts SET state = 'starting' WHERE state = 'created' AND user_data = (
		SELECT user_data FROM payouts WHERE state = 'created' ORDER BY due_at, user_data LIMIT 1`
	skip      = ` FOR UPDATE SKIP LOCKED`
	returning = `) RETURNING user_data, amount, destination`
	record    = `UPDATE payouts SET state = 'pending', order_id = $1 WHERE user_data = $2`
)

// payouts returns the statements that create and fill the table of the loops.
func payouts(rows int) []string {
	return []string{
		`DROP TABLE IF EXISTS payouts`,
		`CREATE TABLE payouts (user_data TEXT PRIMARY KEY, amount TEXT NOT NULL, destination TEXT NOT NULL,
			state TEXT NOT NULL, order_id TEXT UNIQUE, due_at BIGINT NOT NULL)`,
		`CREATE INDEX payouts_due ON payouts (due_at, user_data) WHERE state = 'created'`,
		fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO payouts SELECT 'payout-' || i, '%s', '%s', 'created', NULL, i FROM n`,
			rows, amount, destination),
	}
}

// inSlots runs a loop in each slot. start returns a function that the loop calls until it returns false or an error.
func inSlots(slots int, start func() func() (bool, error)) error {
	errs := make([]error, slots)
	var wg sync.WaitGroup
	for i := range slots {
		wg.Go(func() {
			step := start()
			for more := true; more && errs[i] == nil; {
				more, errs[i] = step()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// loop is the bare loop. It claims one row, calls the service and records the result.
type loop struct {
	db     *sql.DB
	client *paymentsvc.Client
	slots  int
	claim  string
}

func newLoop(database, service string, slots int) (*loop, error) {
	client, err := newClient(service)
	if err != nil {
		return nil, err
	}
	db, err := connect(database)
	if err != nil {
		return nil, err
	}
	l := &loop{db, client, slots, claim + skip + returning}
	if db.Stats().MaxOpenConnections == 1 {
		l.claim = claim + returning
	}
	return l, nil
}

func (l *loop) add(ctx context.Context, rows int) error {
	for _, statement := range payouts(rows) {
		if _, err := l.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) pay(ctx context.Context) error {
	return inSlots(l.slots, func() func() (bool, error) {
		return func() (bool, error) {
			var r paymentsvc.PayoutRequest
			err := l.db.QueryRowContext(ctx, l.claim).Scan(&r.UserData, &r.Amount, &r.Destination)
			if errors.Is(err, sql.ErrNoRows) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			response, err := l.client.InitPayout(ctx, r)
			if err != nil {
				return false, err
			}
			_, err = l.db.ExecContext(ctx, record, response.OrderID, r.UserData)
			return true, err
		}
	})
}

// merged is a faster loop. Each slot records its result and claims its next row in one pipelined transaction.
type merged struct {
	pool   *pgxpool.Pool
	client *paymentsvc.Client
	slots  int
}

func newMerged(ctx context.Context, database, service string, slots int) (*merged, error) {
	client, err := newClient(service)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = int32(slots), int32(slots) //nolint:gosec // a small number
	pool, err := pgxpool.NewWithConfig(ctx, config)
	return &merged{pool, client, slots}, err
}

func (m *merged) add(ctx context.Context, rows int) error {
	for _, statement := range payouts(rows) {
		if _, err := m.pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (m *merged) pay(ctx context.Context) error {
	return inSlots(m.slots, func() func() (bool, error) {
		var r paymentsvc.PayoutRequest
		order := ""
		return func() (more bool, err error) {
			batch := &pgx.Batch{} // PostgreSQL runs a batch without BEGIN in one transaction
			if order != "" {
				batch.Queue(record, order, r.UserData)
			}
			batch.Queue(claim + skip + returning).QueryRow(func(row pgx.Row) error {
				err := row.Scan(&r.UserData, &r.Amount, &r.Destination)
				more = err == nil
				if errors.Is(err, pgx.ErrNoRows) {
					return nil
				}
				return err
			})
			if err := m.pool.SendBatch(ctx, batch).Close(); err != nil || !more {
				return false, err
			}
			response, err := m.client.InitPayout(ctx, r)
			if err != nil {
				return false, err
			}
			order = response.OrderID
			return true, nil
		}
	})
}

// jobs pays with River, in one job per payout. The job records the result and completes in one transaction.
type jobs struct {
	river.WorkerDefaults[payoutJob]

	merged
	client *river.Client[pgx.Tx]
	left   atomic.Int64
	last   chan bool
}

type payoutJob struct {
	UserData string `json:"user_data"`
}

// Kind implements river.JobArgs.
func (payoutJob) Kind() string { return "payout" }

func newRiver(ctx context.Context, database, service string, slots int) (*jobs, error) {
	base, err := newMerged(ctx, database, service, 2*slots)
	if err != nil {
		return nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(riverpgxv5.New(base.pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	j := &jobs{merged: *base, last: make(chan bool, 1)}
	workers := river.NewWorkers()
	river.AddWorker(workers, j)
	j.client, err = river.NewClient(riverpgxv5.New(base.pool), &river.Config{
		Workers: workers, Logger: quiet, FetchCooldown: river.FetchCooldownMin,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}},
	})
	return j, err
}

func (j *jobs) add(ctx context.Context, rows int) error {
	if err := j.merged.add(ctx, rows); err != nil {
		return err
	}
	all := make([]river.InsertManyParams, rows)
	for i := range all {
		all[i].Args = payoutJob{fmt.Sprint("payout-", i+1)}
	}
	_, err := j.client.InsertManyFast(ctx, all)
	j.left.Store(int64(rows))
	return err
}

func (j *jobs) pay(ctx context.Context) error {
	if err := j.client.Start(ctx); err != nil {
		return err
	}
	<-j.last
	return j.client.Stop(ctx)
}

// Timeout implements river.Worker.
func (j *jobs) Timeout(*river.Job[payoutJob]) time.Duration { return time.Minute }

// Work implements river.Worker.
func (j *jobs) Work(ctx context.Context, job *river.Job[payoutJob]) error {
	r := paymentsvc.PayoutRequest{UserData: job.Args.UserData}
	if err := j.pool.QueryRow(ctx, `UPDATE payouts SET state = 'starting' WHERE user_data = $1 AND state = 'created'
		RETURNING amount, destination`, r.UserData).Scan(&r.Amount, &r.Destination); err != nil {
		return err
	}
	response, err := j.merged.client.InitPayout(ctx, r)
	if err != nil {
		return err
	}
	tx, err := j.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, record, response.OrderID, r.UserData); err != nil {
		return err
	}
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	if j.left.Add(-1) == 0 {
		j.last <- true
	}
	return nil
}
