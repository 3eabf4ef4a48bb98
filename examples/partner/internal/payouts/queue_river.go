package payouts

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

const (
	// riverSchema keeps River's tables apart from ours.
	riverSchema    = "river"
	riverQueueName = "payouts"
	// riverLock is the advisory lock under which River's tables are made, by one process at a time. Any number that
	// nothing else uses in the database.
	riverLock = 7_302_188_417_005_116
	// sweepRows bounds how many jobs one sweep looks after.
	sweepRows = 1000
)

// payoutJob is a job of River's. It names the payout and holds nothing of it.
type payoutJob struct {
	UserData string `json:"user_data" river:"unique"`
}

func (payoutJob) Kind() string { return "payout" }

// InsertOpts lets a payout have one living job. Finished ones do not count, for a person may have it sent again.
func (payoutJob) InsertOpts() river.InsertOpts {
	return river.InsertOpts{
		Queue: riverQueueName,
		// A job ends when there is nothing left to do for its payout, however often the database was away meanwhile.
		MaxAttempts: 30_000,
		UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
			rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
			rivertype.JobStateRunning, rivertype.JobStateScheduled,
		}},
	}
}

// riverQueue is River, which delivers each job at least once: that no payout is sent twice is up to the claim.
type riverQueue struct {
	*worker
	client  *river.Client[*sql.Tx]
	running atomic.Bool
}

func newRiverQueue(ctx context.Context, c Config) (*riverQueue, error) {
	q := &riverQueue{worker: newWorker(c)}
	if err := q.migrate(ctx); err != nil {
		return nil, fmt.Errorf("payouts: tables of the queue: %w", err)
	}
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, &riverWorker{queue: q}); err != nil {
		return nil, err
	}
	var err error
	q.client, err = river.NewClient(riverdatabasesql.NewWithPgxListener(c.Store.DB(), c.Store.Pool()), &river.Config{
		Schema:            riverSchema,
		Queues:            map[string]river.QueueConfig{riverQueueName: {MaxWorkers: c.Workers}},
		Workers:           workers,
		Logger:            q.logger(),
		FetchCooldown:     min(10*time.Millisecond, c.Poll), // a batch of calls may be over in that time
		FetchPollInterval: c.Poll,
		JobTimeout:        q.longest(),
		// A job whose process died is delivered again soon after it cannot be running any more.
		RescueStuckJobsAfter:        q.longest() + q.patience,
		CompletedJobRetentionPeriod: 5 * time.Minute, // what was paid stands in the table of payouts
	})
	return q, err
}

// migrate brings River's tables up to date, while other processes that start wait.
func (q *riverQueue) migrate(ctx context.Context) error {
	tx, err := q.Store.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it holds nothing but the lock
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(riverLock)); err != nil {
		return err
	}
	if _, err := q.Store.DB().ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+riverSchema); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverdatabasesql.New(q.Store.DB()), &rivermigrate.Config{Schema: riverSchema, Logger: q.logger()})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// logger lets River say what is wrong. What it tells besides, every few seconds, would tear the progress bar apart.
func (q *riverQueue) logger() *slog.Logger { return slog.New(warnings{q.Log.Handler()}) }

// warnings is a handler without what is less than a warning.
type warnings struct{ all slog.Handler }

func (h warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.all.Enabled(ctx, level)
}
func (h warnings) Handle(ctx context.Context, r slog.Record) error { return h.all.Handle(ctx, r) }
func (h warnings) WithAttrs(attrs []slog.Attr) slog.Handler        { return warnings{h.all.WithAttrs(attrs)} }
func (h warnings) WithGroup(name string) slog.Handler              { return warnings{h.all.WithGroup(name)} }

// Enqueue inserts jobs with tx. A payout that has a living job gets no second one.
func (q *riverQueue) Enqueue(ctx context.Context, tx *sql.Tx, userData ...string) error {
	_, err := q.client.InsertManyTx(ctx, tx, jobs(userData))
	return err
}

func jobs(userData []string) []river.InsertManyParams {
	list := make([]river.InsertManyParams, 0, len(userData))
	for _, of := range userData {
		list = append(list, river.InsertManyParams{Args: payoutJob{UserData: of}})
	}
	return list
}

func (q *riverQueue) Pause() Pause  { return q.gate.state() }
func (q *riverQueue) Running() bool { return q.running.Load() }

func (q *riverQueue) Run(ctx context.Context) error {
	// The end of ctx would end the contexts of jobs, too.
	if err := q.client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("payouts: %w", err)
	}
	q.running.Store(true)
	var sweeps sync.WaitGroup
	sweeps.Go(func() { q.every(ctx, q.Sweep, q.park) })
	sweeps.Go(func() { q.every(ctx, q.Sweep, q.ask) })
	sweeps.Go(func() { q.every(ctx, q.Sweep, q.revive) })
	<-ctx.Done()

	q.running.Store(false)
	close(q.ending)
	sweeps.Wait()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.longest()+2*recordTimeout)
	defer cancel()
	if err := q.client.Stop(stop); err != nil {
		return fmt.Errorf("payouts: a call did not end: %w", err)
	}
	return nil
}

// revive gives a job to payouts that have been due for long and have none: their job was lost, or they were put back
// without one. Those at the head of a long queue have one, which inserts nothing.
func (q *riverQueue) revive(ctx context.Context) error {
	rows, err := q.Store.DuePayouts(ctx, time.Now().Add(-2*q.Sweep), sweepRows)
	if err != nil || len(rows) == 0 {
		return err
	}
	_, err = q.client.InsertMany(ctx, jobs(rows))
	return err
}

// riverWorker works River's jobs.
type riverWorker struct {
	river.WorkerDefaults[payoutJob]
	queue *riverQueue
}

func (w *riverWorker) Work(ctx context.Context, job *river.Job[payoutJob]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.queue.ending:
			cancel()
		case <-ctx.Done():
		}
	}()
	again, err := w.queue.pay(ctx, job.Args.UserData)
	switch {
	case err != nil && ctx.Err() != nil:
		return river.JobSnooze(0) // for another process, or the next start of this one
	case err != nil:
		return err
	case again > 0:
		return river.JobSnooze(again)
	}
	return nil
}

// NextRetry is when a job comes back whose database was away, or whose process has died.
func (w *riverWorker) NextRetry(*river.Job[payoutJob]) time.Time { return time.Now().Add(w.queue.Poll) }
