package payouts_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/payouts"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

const project = 42

// bench is a fake service, a database and what works between them.
type bench struct {
	t      *testing.T
	url    string
	store  *store.Store
	fake   *paymentsvctest.Server
	scheme paymentsvc.Scheme
	config payouts.Config
	log    *bytes.Buffer
}

// each runs f on both databases. The pauses and intervals are short; a lease is long.
func each(t *testing.T, f func(t *testing.T, b *bench)) {
	testdb.Each(t, func(t *testing.T, url string) { f(t, newBench(t, url)) })
}

func newBench(t *testing.T, url string) *bench {
	t.Helper()
	b := &bench{t: t, url: url, store: open(t, url, time.Now), log: &bytes.Buffer{}}
	b.scheme = paymentsvc.Scheme{Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex}
	b.config = payouts.Config{
		Store: b.store, MinPause: 20 * time.Millisecond, MaxPause: 50 * time.Millisecond,
		Sweep: 200 * time.Millisecond, Poll: 20 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(&locked{w: b.log}, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	b.serve(paymentsvctest.RejectRepeated)
	t.Cleanup(func() {
		assert.NotContains(t, b.log.String(), "4111111111111111")
		assert.NotContains(t, b.log.String(), "+1202555")
		if t.Failed() {
			t.Log(b.log.String()[max(0, b.log.Len()-10_000):])
		}
	})
	return b
}

// serve starts a fake service with a client of it. repeated is what it does with a user_data that was used before.
func (b *bench) serve(repeated paymentsvctest.Repeated) {
	b.t.Helper()
	b.fake = paymentsvctest.Start(b.t, paymentsvctest.Config{
		PartnerID: 7, Projects: []paymentsvctest.Project{{ID: project, Secret: "a test key"}}, Scheme: b.scheme,
		Repeated: repeated,
	})
	client, err := paymentsvc.NewClient(b.clientConfig())
	require.NoError(b.t, err)
	b.config.Client = client
}

// clientConfig makes no retries: a fault strikes a payout, and not one of its tries.
func (b *bench) clientConfig() paymentsvc.Config {
	c := b.fake.ClientConfig(project)
	c.Retry.MaxAttempts = 1
	return c
}

func open(t *testing.T, url string, now func() time.Time) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{URL: url, Now: now})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// locked is a writer for several goroutines.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// start runs a queue until the test ends or stop is called, which returns when Run has.
func (b *bench) start(c payouts.Config) (queue payouts.Queue, stop func()) {
	b.t.Helper()
	queue, err := payouts.NewQueue(b.t.Context(), c)
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- queue.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(b.t, <-ended)
	})
	b.t.Cleanup(stop)
	return queue, stop
}

// file is n rows.
func file(t *testing.T, n int) *bytes.Reader {
	t.Helper()
	var content bytes.Buffer
	require.NoError(t, payouts.Make(&content, n))
	return bytes.NewReader(content.Bytes())
}

func (b *bench) load(queue payouts.Queue, n int) payouts.Report {
	b.t.Helper()
	report, err := payouts.Import(b.t.Context(), payouts.ImportConfig{Store: b.store, Queue: queue, Name: "payouts.csv"}, file(b.t, n))
	require.NoError(b.t, err)
	require.EqualValues(b.t, n, report.Imported)
	return report
}

// work waits until nothing is open, and gives how a file's payouts stand.
func (b *bench) work(fileID string) map[store.State]int64 {
	b.t.Helper()
	return b.workFor(time.Minute, fileID)
}

func (b *bench) workFor(most time.Duration, fileID string) map[store.State]int64 {
	b.t.Helper()
	var counts store.Counts
	require.Eventually(b.t, func() bool {
		var err error
		counts, err = b.store.FileCounts(b.t.Context(), fileID)
		return err == nil && counts.Open() == 0
	}, most, 10*time.Millisecond)
	return counts.States
}

// pay imports n rows, and works until nothing is open.
func (b *bench) pay(n int) map[store.State]int64 {
	b.t.Helper()
	queue, stop := b.start(b.config)
	states := b.work(b.load(queue, n).FileID)
	stop()
	return states
}

// rows gives the payouts in the order of their files and lines.
func (b *bench) rows() (list []store.Payout) {
	b.t.Helper()
	for _, name := range b.names() {
		p, err := b.store.Payout(b.t.Context(), name)
		require.NoError(b.t, err)
		list = append(list, p)
	}
	return list
}

func (b *bench) names() (list []string) {
	b.t.Helper()
	rows, err := b.store.DB().QueryContext(b.t.Context(), `SELECT user_data FROM payouts ORDER BY file_id, line`)
	require.NoError(b.t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		require.NoError(b.t, rows.Scan(&name))
		list = append(list, name)
	}
	require.NoError(b.t, rows.Err())
	return list
}

// payout gives the only payout of a file.
func (b *bench) payout(fileID string) (found store.Payout) {
	b.t.Helper()
	for _, p := range b.rows() {
		if p.FileID == fileID {
			require.Empty(b.t, found.UserData)
			found = p
		}
	}
	require.NotEmpty(b.t, found.UserData)
	return found
}

func TestAFileIsPaidRowByRow(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		states := b.pay(100)
		assert.Equal(t, map[store.State]int64{store.StatePending: 100}, states)
		orders := map[string]paymentsvctest.Order{}
		for _, o := range b.fake.Orders() {
			orders[o.UserData] = o
		}
		require.Len(t, orders, 100)
		for _, p := range b.rows() {
			o := orders[p.UserData]
			assert.Equal(t, p.OrderID, o.OrderID)
			assert.True(t, p.Amount.Equal(o.Amount))
			assert.Equal(t, p.Destination, o.Destination)
			assert.EqualValues(t, 1, p.Attempts)
		}
		b.fake.AssertNoneRejected(t)
	})
}

func TestThousandsOfRowsArePaidOnceEach(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		n := 2000 // each commit waits for the disk
		if b.store.Postgres() {
			n = 10_000
		}
		if testing.Short() || raceDetector {
			n = 500
		}
		b.config.Workers = 16
		began := time.Now()
		queue, stop := b.start(b.config)
		report := b.load(queue, n)
		imported := time.Since(began)
		states := b.workFor(5*time.Minute, report.FileID)
		stop()
		t.Logf("%d rows: imported in %s, paid in %s", n, imported.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		assert.Equal(t, map[store.State]int64{store.StatePending: int64(n)}, states)
		started := map[string]bool{}
		for _, o := range b.fake.Orders() {
			assert.False(t, started[o.UserData], o.UserData)
			started[o.UserData] = true
		}
		assert.Len(t, started, n)
		assert.Equal(t, n, b.fake.Requests(paymentsvctest.InitPayout))
	})
}
