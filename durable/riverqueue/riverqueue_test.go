package riverqueue

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
	"github.com/paymentsvc/paymentsvc/durable/payoutcsv"
)

// service counts starts. Its other methods are not called.
type service struct {
	durable.Service
	mu      sync.Mutex
	started map[string]int
}

func (*service) DecodesErrors() bool { return true }

func (f *service) InitPayout(_ context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started[r.UserData]++
	return &paymentsvc.InitPayoutResponse{OrderID: "order of " + r.UserData}, nil
}

// process is a Store with a client of River, as a process has them.
type process struct {
	db     dbtest.Database
	store  *durable.Store
	queue  *Queue
	client *river.Client[*sql.Tx]
}

func newProcess(t *testing.T, address string, f durable.Service, c Config) *process {
	t.Helper()
	ctx := t.Context()
	p := &process{db: dbtest.Open(t, address)}
	pool, err := pgxpool.New(ctx, address)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, durable.Migrate(ctx, p.db.DB))
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(riverdatabasesql.New(p.db.DB), &rivermigrate.Config{Logger: quiet})
	require.NoError(t, err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	require.NoError(t, err)
	p.store, err = durable.Open(ctx, p.db.DB, durable.Config{
		Service: f, Project: "test", Log: quiet, AllowUnsafeDatabase: true,
	})
	require.NoError(t, err)
	p.queue, err = New(p.store, c)
	require.NoError(t, err)
	config := &river.Config{
		Workers: river.NewWorkers(), Logger: quiet, TestOnly: true,
		FetchCooldown: river.FetchCooldownMin, // River notifies of a queue's inserts once in this time
	}
	require.NoError(t, p.queue.AddTo(config))
	p.client, err = river.NewClient(riverdatabasesql.NewWithPgxListener(p.db.DB, pool), config)
	require.NoError(t, err)
	return p
}

func (p *process) start(t *testing.T) {
	t.Helper()
	require.NoError(t, p.queue.Start(context.WithoutCancel(t.Context()), p.client))
	t.Cleanup(func() { assert.NoError(t, p.client.Stop(context.WithoutCancel(t.Context()))) })
}

func (p *process) add(t *testing.T, from, to int) {
	t.Helper()
	tx, err := p.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	for i := from; i < to; i++ {
		_, err := p.store.QueuePayouts(t.Context(), tx, durable.NewPayout{
			Reference: fmt.Sprint("a", i), Amount: paymentsvc.MustParseAmount("10.50"), Destination: "4111111111111111",
		})
		require.NoError(t, err)
		require.NoError(t, p.queue.Wake(t.Context(), p.client, tx))
	}
	require.NoError(t, tx.Commit())
}

func (p *process) pending(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := p.store.Counts(t.Context(), durable.Filter{})
		return err == nil && c.States[durable.StatePending].Rows == int64(n)
	}, time.Minute, 5*time.Millisecond)
}

func TestJobsPayEachPayoutOnce(t *testing.T) {
	address := dbtest.Postgres(t)
	f := &service{started: map[string]int{}}
	// With a long poll, payouts are sent by a wake-up and by further batches of its job.
	c := Config{Batch: durable.BatchLimit{Rows: 20}, Poll: time.Hour}
	a, b := newProcess(t, address, f, c), newProcess(t, address, f, c)
	now := time.Now()
	a.queue.now = func() time.Time { return now } // so a slow transaction has only one wake-up
	a.start(t)
	b.start(t)
	require.Eventually(t, func() bool { // the jobs that each Start and the leader insert
		return a.db.Number(t, `SELECT COUNT(*) FROM river_job WHERE state = 'completed'`) == 3
	}, time.Minute, 5*time.Millisecond)
	a.add(t, 0, 300)
	a.pending(t, 300)
	assert.Equal(t, 4, a.db.Number(t, `SELECT COUNT(*) FROM river_job`), "one for 300 payouts")
	assert.Zero(t, a.db.Number(t, `SELECT COUNT(*) FROM river_job WHERE errors IS NOT NULL`))
	assert.Len(t, f.started, 300)
	for userData, n := range f.started {
		assert.Equal(t, 1, n, userData)
	}
}

func TestPeriodicJobFindsTheRestAndNoRowFailsAJob(t *testing.T) {
	f := &service{started: map[string]int{}}
	p := newProcess(t, dbtest.Postgres(t), f, Config{Poll: time.Second})
	p.queue.woken = p.queue.now().Add(time.Hour) // no wake-up
	p.add(t, 0, 5)
	generation, err := p.store.HoldPayouts(t.Context(), "person", "restored")
	require.NoError(t, err)
	assert.Zero(t, p.db.Number(t, `SELECT COUNT(*) FROM river_job`))
	p.start(t)
	require.Eventually(t, func() bool {
		return p.db.Number(t, `SELECT COUNT(*) FROM river_job WHERE state = 'completed'`) > 2
	}, time.Minute, 5*time.Millisecond)
	assert.Empty(t, f.started)
	p.db.Exec(t, `UPDATE durable_control SET held_at = 0`) // the end of Grace
	_, err = p.store.Release(t.Context(), "person", generation, durable.Filter{})
	require.NoError(t, err)
	p.pending(t, 5)
	assert.Zero(t, p.db.Number(t, `SELECT COUNT(*) FROM river_job WHERE errors IS NOT NULL`), "a hold is no error")

	require.NoError(t, p.client.Stop(t.Context()))
	require.NoError(t, p.db.Close())
	require.Error(t, (&worker{queue: p.queue}).Work(t.Context(), nil), "a closed database is an error")
}

// After SIGKILL, the dead process's job still counts as running, and the process still counts as River's leader. Each
// process lives briefly.
func TestStartContinuesAfterAKill(t *testing.T) {
	address := dbtest.Postgres(t)
	f := &service{started: map[string]int{}}
	for n := range 3 {
		p := newProcess(t, address, f, Config{Poll: time.Hour})
		if n == 0 {
			_, err := p.client.Insert(t.Context(), Batch{}, p.queue.options())
			require.NoError(t, err)
			p.db.Exec(t,
				`UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now(), attempted_by = '{dead}'`,
				`INSERT INTO river_leader (leader_id, elected_at, expires_at)
				VALUES ('dead', now(), now() + INTERVAL '1 hour')`)
		}
		p.queue.woken = p.queue.now().Add(time.Hour) // the wake-up of the dead process is lost
		p.add(t, 2*n, 2*n+1)
		require.NoError(t, p.queue.Start(context.WithoutCancel(t.Context()), p.client))
		p.pending(t, 2*n+1)

		p.queue.woken = time.Time{}
		result, err := payoutcsv.Import(t.Context(), payoutcsv.ImportConfig{DB: p.db.DB, Store: p.store,
			Wake: func(ctx context.Context, tx *sql.Tx) error { return p.queue.Wake(ctx, p.client, tx) },
		}, strings.NewReader(fmt.Sprintf("reference,amount,destination\na%d,1.00,4111111111111111\n", 2*n+1)))
		require.NoError(t, err)
		assert.EqualValues(t, 1, result.New)
		p.pending(t, 2*n+2)
		require.NoError(t, p.client.Stop(t.Context()))
		assert.Equal(t, 1, p.db.Number(t, `SELECT COUNT(*) FROM river_leader WHERE leader_id = 'dead'`))
	}
	assert.Len(t, f.started, 6)
}

func TestJobBesideRunSucceeds(t *testing.T) {
	f := &service{started: map[string]int{}}
	p := newProcess(t, dbtest.Postgres(t), f, Config{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.store.Run(ctx) }()
	p.add(t, 0, 1)
	p.pending(t, 1) // Run works
	require.NoError(t, (&worker{queue: p.queue}).Work(t.Context(), nil))
	stop()
	require.NoError(t, <-ended)
}

func TestAddToChecksRiversConfig(t *testing.T) {
	for name, c := range map[string]struct {
		config river.Config
		want   string
	}{
		"no workers": {river.Config{}, "Workers"},
		"queue exists": {
			river.Config{Workers: river.NewWorkers(), Queues: map[string]river.QueueConfig{"payouts": {}}}, "exists",
		},
		"rescue too early": {
			river.Config{Workers: river.NewWorkers(), RescueStuckJobsAfter: 17 * time.Minute}, "at least 17m30s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := New(new(durable.Store), Config{})
			require.NoError(t, err)
			require.ErrorContains(t, q.AddTo(&c.config), c.want)
		})
	}
	_, err := New(nil, Config{})
	require.Error(t, err)
	_, err = New(new(durable.Store), Config{Poll: -1})
	require.Error(t, err)
}
