// Package riverqueue shares the work of a [durable.Store] between processes with River, on PostgreSQL. It is for
// projects that already use River. Without River, [durable.Store.Run] in each process does the same work.
//
// A job carries a batch of work, "send due rows for ten seconds", and never a payout. River delivers a job at least
// once, and the claim of a payout prevents a second call. A repeated job and a job without due rows are harmless. River
// adds a wake-up across processes, its UI, and one place for all your jobs.
//
//	queue, err := riverqueue.New(store, riverqueue.Config{})
//	config := &river.Config{Workers: river.NewWorkers()}
//	if err := queue.AddTo(config); err != nil { ... }
//	client, err := river.NewClient(riverdatabasesql.NewWithPgxListener(db, pool), config)
//	err = queue.Start(ctx, client) // instead of client.Start
//
//	queued, err := store.QueuePayouts(ctx, tx, payouts...)
//	err = queue.Wake(ctx, client, tx) // before the commit of tx
//
// A file's payouts wake the workers too:
//
//	wake := func(ctx context.Context, tx *sql.Tx) error { return queue.Wake(ctx, client, tx) }
//	result, err := payoutcsv.Import(ctx, payoutcsv.ImportConfig{DB: db, Store: store, Wake: wake}, file)
//
// River's periodic jobs need a leader. After the death of a leader, an election takes up to about 20 seconds.
// Start inserts a job, so a restarted process continues immediately.
//
// Do not call [durable.Store.Run] of the same Store. During Run and after it, the jobs only sweep.
package riverqueue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/riverqueue/river"

	"github.com/paymentsvc/paymentsvc/durable"
)

const (
	// maxRecordTime is the time allowed for the calls and records after a batch's last claim. While the database is
	// unavailable, package schedule retries a record for 10 minutes.
	maxRecordTime = 12 * time.Minute
	// maxClockDifference is the accepted difference between the clocks of process and database, which River compares.
	maxClockDifference = 5 * time.Minute
)

// Config configures a [Queue]. Its zero value has the defaults.
type Config struct {
	// Name is the name of the queue in River. "" means "payouts".
	Name string
	// Batch limits a batch. Rows 0 means 500, and Duration 0 means 10 seconds. A job begins another batch only after a
	// batch of Rows calls, and only within Duration. It sweeps after each batch, at most once per Poll.
	Batch durable.BatchLimit
	// Poll is the interval of the jobs that River's leader inserts, for rows without a Wake. 0 means 1 second.
	Poll time.Duration
}

// Queue runs the batches of a Store as jobs of River. Create it with [New]. It is safe for concurrent use.
type Queue struct {
	store *durable.Store
	c     Config
	now   func() time.Time

	mu           sync.Mutex
	woken, swept time.Time
}

// New returns a Queue for store. It returns an error for an invalid Config.
func New(store *durable.Store, c Config) (*Queue, error) {
	if store == nil {
		return nil, errors.New("riverqueue: the store is required")
	}
	if c.Batch.Rows < 0 || c.Batch.Duration < 0 || c.Poll < 0 {
		return nil, errors.New("riverqueue: Config.Batch or Config.Poll is negative")
	}
	c.Name, c.Poll = cmp.Or(c.Name, "payouts"), cmp.Or(c.Poll, time.Second)
	c.Batch.Rows, c.Batch.Duration = cmp.Or(c.Batch.Rows, 500), cmp.Or(c.Batch.Duration, 10*time.Second)
	return &Queue{store: store, c: c, now: time.Now}, nil
}

// AddTo adds the worker, the queue and the periodic job to c. c.Workers is required. A job may run for three times the
// batch's Duration plus twelve minutes, because a record waits for an unavailable database. If c.RescueStuckJobsAfter
// is 0, AddTo sets it to this time plus 5 minutes for a difference of clocks. It rejects a shorter value.
//
// River's Stop waits for a running job. Config.Drain of the Store does not shorten this wait, because it limits only
// Run. The context of Stop needs more time than the Store's Timeout plus three times the batch's Duration. After the
// end of this context, the job continues while the process lives. If the process exits, rows with calls in flight stay
// claimed and become unknown at the end of their leases.
func (q *Queue) AddTo(c *river.Config) error {
	if c.Workers == nil {
		return errors.New("riverqueue: river.Config.Workers is required")
	}
	if _, found := c.Queues[q.c.Name]; found {
		return fmt.Errorf("riverqueue: the queue %q exists", q.c.Name)
	}
	w := &worker{queue: q}
	rescue := w.Timeout(nil) + maxClockDifference
	c.RescueStuckJobsAfter = cmp.Or(c.RescueStuckJobsAfter, rescue)
	if c.RescueStuckJobsAfter < rescue {
		return fmt.Errorf("riverqueue: river.Config.RescueStuckJobsAfter is %s, want at least %s",
			c.RescueStuckJobsAfter, rescue)
	}
	if err := river.AddWorkerSafely(c.Workers, w); err != nil {
		return fmt.Errorf("riverqueue: %w", err)
	}
	if c.Queues == nil {
		c.Queues = map[string]river.QueueConfig{}
	}
	// A Store runs one batch at a time, in all its slots.
	c.Queues[q.c.Name] = river.QueueConfig{MaxWorkers: 1, FetchCooldown: time.Millisecond, FetchPollInterval: q.c.Poll}
	c.PeriodicJobs = append(c.PeriodicJobs, river.NewPeriodicJob(river.PeriodicInterval(q.c.Poll),
		func() (river.JobArgs, *river.InsertOpts) { return Batch{}, q.options() }, &river.PeriodicJobOpts{RunOnStart: true}))
	return nil
}

// Start inserts a job and starts client. The job sends payouts from before a crash without a wait for a leader of
// River. Pass the Config of client to [Queue.AddTo] first. Start returns the error of the insert or of
// [river.Client.Start].
func (q *Queue) Start(ctx context.Context, client *river.Client[*sql.Tx]) error {
	if _, err := client.Insert(ctx, Batch{}, q.options()); err != nil {
		return fmt.Errorf("riverqueue: start: %w", err)
	}
	return client.Start(ctx)
}

// Wake inserts a job in tx, so the commit starts the work immediately. Call it after [durable.Store.QueuePayouts], and
// in payoutcsv.ImportConfig.Wake. It inserts at most one job per second and process. A running batch or the periodic
// job finds the other rows. River sends at most one notification of inserts per river.Config.FetchCooldown, by
// default 100 ms. A free worker finds a job without a notification at its next poll, at most Poll later.
func (q *Queue) Wake(ctx context.Context, client *river.Client[*sql.Tx], tx *sql.Tx) error {
	if !q.once(&q.woken, time.Second) {
		return nil
	}
	if _, err := client.InsertTx(ctx, tx, Batch{}, q.options()); err != nil {
		return fmt.Errorf("riverqueue: wake: %w", err)
	}
	return nil
}

// once reports whether at least d has passed since *last. If so, it sets *last.
func (q *Queue) once(last *time.Time, d time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	if !last.IsZero() && now.Sub(*last) < d {
		return false
	}
	*last = now
	return true
}

// options returns options without uniqueness, because otherwise the job of a dead process would block new jobs.
func (q *Queue) options() *river.InsertOpts { return &river.InsertOpts{Queue: q.c.Name} }

// Batch is the type of a job that sends due rows. It has no arguments.
type Batch struct{}

// Kind returns "paymentsvc_batch".
func (Batch) Kind() string { return "paymentsvc_batch" }

type worker struct {
	river.WorkerDefaults[Batch]
	queue *Queue
}

// Timeout returns the value that replaces river.Config.JobTimeout for these jobs.
func (w *worker) Timeout(*river.Job[Batch]) time.Duration {
	return 3*w.queue.c.Batch.Duration + maxRecordTime
}

// NextRetry returns the time after one Poll, because a job fails only after an error of the database or its witness.
func (w *worker) NextRetry(*river.Job[Batch]) time.Time { return time.Now().Add(w.queue.c.Poll) }

// Work runs batches, with a sweep after each batch. It ends after a batch with fewer calls than Rows, for example at a
// pause, or after Duration. Later jobs send the remaining rows. Work returns only errors of the database or its
// witness, because the outcome of a payout is in its row.
func (w *worker) Work(ctx context.Context, _ *river.Job[Batch]) error {
	q := w.queue
	for begun := q.now(); ; {
		calls, err := q.store.RunBatch(ctx, q.c.Batch)
		if errors.Is(err, durable.ErrPaused) || errors.Is(err, durable.ErrHeld) || errors.Is(err, durable.ErrBusy) {
			err = nil
		}
		err = errors.Join(err, q.sweep(ctx))
		if err != nil {
			return err
		}
		if calls < q.c.Batch.Rows || q.now().Sub(begun) >= q.c.Batch.Duration {
			return nil
		}
	}
}

// sweep calls Store.Sweep, at most once per Poll, for up to the Duration of a batch.
func (q *Queue) sweep(ctx context.Context) error {
	if !q.once(&q.swept, q.c.Poll) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, q.c.Batch.Duration)
	defer cancel()
	err := q.store.Sweep(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // the next sweep continues
	}
	return err
}
