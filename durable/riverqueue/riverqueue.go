// Package riverqueue shares the work of a [durable.Store] between processes with River, on PostgreSQL. It is for those
// who have River already: [durable.Store.Run] in each process does the same without it.
//
// A job carries a turn of work, "send what is due for ten seconds", and never a payout: River delivers a job
// at least once, so what keeps a payout from being sent twice is the claim of its row. A job that runs twice, or that
// finds nothing to do, is harmless. River adds a wake-up across processes, its UI, and one place for all your jobs.
//
//	queue, err := riverqueue.New(store, riverqueue.Config{})
//	config := &river.Config{Workers: river.NewWorkers()}
//	if err := queue.AddTo(config); err != nil { ... }
//	client, err := river.NewClient(riverdatabasesql.NewWithPgxListener(db, pool), config)
//	err = client.Start(ctx)
//
//	queued, err := store.QueuePayouts(ctx, tx, payouts...)
//	err = queue.Wake(ctx, client, tx) // before the commit of tx
//
// Do not use [durable.Store.Run] of the same Store beside it: while Run works, turns do nothing.
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
	// recording is how long after its last claim a turn may still wait for a database that is away, see AddTo.
	recording = 12 * time.Minute
	// clocks is how far the clocks of a process and of the database may be apart: River compares the two.
	clocks = 5 * time.Minute
)

// Config configures a [Queue]. Its zero value has the defaults.
type Config struct {
	// Name is River's name of the queue; "" means "payouts".
	Name string
	// Turn limits a turn. A zero Rows means 500, and a zero Duration 10 seconds. A job makes turns until its Duration has
	// passed, and sweeps between them.
	Turn durable.Limit
	// Poll is how often River's leader inserts a job, which finds the work that no Wake told of. 0 means 1 second.
	Poll time.Duration
}

// Queue gives the turns of a Store to River. Create it with [New]; it is safe for concurrent use.
type Queue struct {
	store *durable.Store
	c     Config
	now   func() time.Time

	mu           sync.Mutex
	woken, swept time.Time
}

// New returns a Queue for store. Errors are about Config.
func New(store *durable.Store, c Config) (*Queue, error) {
	if store == nil {
		return nil, errors.New("riverqueue: the store is required")
	}
	if c.Turn.Rows < 0 || c.Turn.Duration < 0 || c.Poll < 0 {
		return nil, errors.New("riverqueue: Config.Turn or Config.Poll is negative")
	}
	c.Name, c.Poll = cmp.Or(c.Name, "payouts"), cmp.Or(c.Poll, time.Second)
	c.Turn.Rows, c.Turn.Duration = cmp.Or(c.Turn.Rows, 500), cmp.Or(c.Turn.Duration, 10*time.Second)
	return &Queue{store: store, c: c, now: time.Now}, nil
}

// AddTo adds the worker, the queue and the periodic job to c, whose Workers must be set. It sets
// c.RescueStuckJobsAfter if that is 0, and otherwise returns an error if it is too short: a job may run for two turns, a sweep and
// twelve minutes, since an outcome waits for a database that is away, and River compares two clocks to end it.
//
// A service that stops has to wait for a turn: give River's Stop more than twice the turn's Duration and the Store's Timeout.
func (q *Queue) AddTo(c *river.Config) error {
	if c.Workers == nil {
		return errors.New("riverqueue: river.Config.Workers is required")
	}
	if _, there := c.Queues[q.c.Name]; there {
		return fmt.Errorf("riverqueue: the queue %q exists", q.c.Name)
	}
	w := &worker{queue: q}
	rescue := w.Timeout(nil) + clocks
	c.RescueStuckJobsAfter = cmp.Or(c.RescueStuckJobsAfter, rescue)
	if c.RescueStuckJobsAfter < rescue {
		return fmt.Errorf("riverqueue: river.Config.RescueStuckJobsAfter is %s, want at least %s", c.RescueStuckJobsAfter, rescue)
	}
	if err := river.AddWorkerSafely(c.Workers, w); err != nil {
		return fmt.Errorf("riverqueue: %w", err)
	}
	if c.Queues == nil {
		c.Queues = map[string]river.QueueConfig{}
	}
	// One turn at a time: a Store works on one, in as many slots as it has.
	c.Queues[q.c.Name] = river.QueueConfig{MaxWorkers: 1, FetchCooldown: time.Millisecond, FetchPollInterval: q.c.Poll}
	c.PeriodicJobs = append(c.PeriodicJobs, river.NewPeriodicJob(river.PeriodicInterval(q.c.Poll),
		func() (river.JobArgs, *river.InsertOpts) { return Turn{}, q.options() }, &river.PeriodicJobOpts{RunOnStart: true}))
	return nil
}

// Wake inserts a job in tx, so that the commit starts the work at once: call it after [durable.Store.QueuePayouts]. It
// inserts at most one job per second and process, and otherwise does nothing: a turn or the periodic job finds the rest.
// River notifies of inserts once in river.Config.FetchCooldown, 100 ms by default: what it leaves out waits for Poll.
func (q *Queue) Wake(ctx context.Context, client *river.Client[*sql.Tx], tx *sql.Tx) error {
	if !q.once(&q.woken, time.Second) {
		return nil
	}
	if _, err := client.InsertTx(ctx, tx, Turn{}, q.options()); err != nil {
		return fmt.Errorf("riverqueue: wake: %w", err)
	}
	return nil
}

// once reports whether at least d has passed since *last, and sets *last then.
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

// options are not unique: a job that looks as if it ran, of a process that has died, would keep others away.
func (q *Queue) options() *river.InsertOpts { return &river.InsertOpts{Queue: q.c.Name} }

// Turn is the arguments of a job. They hold nothing: a job works on what is due.
type Turn struct{}

// Kind is "paymentsvc_turn".
func (Turn) Kind() string { return "paymentsvc_turn" }

type worker struct {
	river.WorkerDefaults[Turn]
	queue *Queue
}

// Timeout is River's JobTimeout of a turn.
func (w *worker) Timeout(*river.Job[Turn]) time.Duration {
	return 3*w.queue.c.Turn.Duration + recording
}

// NextRetry is soon: only the database makes a turn fail, and another job may come first.
func (w *worker) NextRetry(*river.Job[Turn]) time.Time { return time.Now().Add(w.queue.c.Poll) }

// Work makes turns, and sweeps between them, until nothing is due or the Duration of one has passed; jobs that were
// inserted meanwhile go on. It returns an error for the database only: what became of a payout is in its row.
func (w *worker) Work(ctx context.Context, _ *river.Job[Turn]) error {
	q := w.queue
	for begun := q.now(); ; {
		done, err := q.store.Turn(ctx, q.c.Turn)
		if errors.Is(err, durable.ErrPaused) || errors.Is(err, durable.ErrHeld) {
			err = nil
		}
		if err = errors.Join(err, q.sweep(ctx)); err != nil {
			return err
		}
		if done < q.c.Turn.Rows || q.now().Sub(begun) >= q.c.Turn.Duration {
			return nil
		}
	}
}

// sweep does what a Store's Run does beside its turns, at most once in each Poll.
func (q *Queue) sweep(ctx context.Context) error {
	if !q.once(&q.swept, q.c.Poll) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, q.c.Turn.Duration)
	defer cancel()
	err := q.store.Sweep(ctx)
	if late := errors.Is(err, context.DeadlineExceeded); late {
		err = nil // what it did not get to, the next one does
	}
	return err
}
