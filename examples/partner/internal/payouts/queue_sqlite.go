package payouts

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"time"
)

// sqliteQueue is goroutines that take due rows from the table itself. River has a driver for SQLite, which by its own
// words is in early testing, and a file on one machine needs no more than this.
type sqliteQueue struct {
	*worker
	wake    chan struct{}
	running atomic.Bool

	mu   sync.Mutex
	busy map[string]bool // user_data with a goroutine, or waiting for one
}

func newSQLiteQueue(c Config) *sqliteQueue {
	return &sqliteQueue{worker: newWorker(c), wake: make(chan struct{}, 1), busy: map[string]bool{}}
}

// Enqueue looks for work sooner. It may be before tx is committed: the next look comes after Config.Poll.
func (q *sqliteQueue) Enqueue(context.Context, *sql.Tx, ...string) error {
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return nil
}

func (q *sqliteQueue) Pause() Pause  { return q.gate.state() }
func (q *sqliteQueue) Running() bool { return q.running.Load() }

func (q *sqliteQueue) Run(ctx context.Context) error {
	q.running.Store(true)
	defer q.running.Store(false)

	var goroutines sync.WaitGroup
	due := make(chan string)
	for range q.Workers {
		goroutines.Go(func() { q.work(ctx, due) })
	}
	goroutines.Go(func() { q.every(ctx, q.Sweep, q.park) })
	goroutines.Go(func() { q.every(ctx, q.Sweep, q.ask) })
	q.feed(ctx, due)
	close(due)
	q.running.Store(false)
	close(q.ending)
	goroutines.Wait()
	return nil
}

// feed hands out due rows until ctx is done.
func (q *sqliteQueue) feed(ctx context.Context, due chan<- string) {
	for ctx.Err() == nil {
		rows, err := q.Store.DuePayouts(ctx, time.Now(), 100+q.Workers)
		if err != nil && ctx.Err() == nil {
			q.Log.ErrorContext(ctx, "payouts: look for work", "error", err.Error())
		}
		handed := 0
		for _, userData := range rows {
			if !q.take(userData) {
				continue
			}
			select {
			case due <- userData:
				handed++
			case <-ctx.Done():
				return
			}
		}
		if handed > 0 {
			continue
		}
		select {
		case <-q.wake:
		case <-time.After(q.Poll):
		case <-ctx.Done():
		}
	}
}

func (q *sqliteQueue) work(ctx context.Context, due <-chan string) {
	for userData := range due {
		again, err := q.pay(ctx, userData)
		if err != nil && ctx.Err() == nil {
			q.Log.ErrorContext(ctx, "payouts: work", "user_data", userData, "error", err.Error())
			again = q.Poll
		}
		_ = sleep(ctx, min(again, q.Poll)) // it stays due, and would come back at once
		q.done(userData)
	}
}

func (q *sqliteQueue) take(userData string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy[userData] {
		return false
	}
	q.busy[userData] = true
	return true
}

func (q *sqliteQueue) done(userData string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, userData)
}
