package payouts_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/payouts"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// Each fault strikes the first call for the only payout.
func TestWhatBecomesOfAPayout(t *testing.T) {
	type want struct {
		state    store.State
		started  int // at the service
		attempts int64
		refusal  string
	}
	paid := func(attempts int64) want { return want{store.StatePending, 1, attempts, ""} }
	parked := func(started int) want { return want{store.StateUnknown, started, 1, ""} }
	after, before := paymentsvctest.AfterCommit, paymentsvctest.BeforeCommit
	cases := map[string]struct {
		fault paymentsvctest.Fault
		want  want
	}{
		"the connection is refused":    {paymentsvctest.Refuse(), paid(2)},
		"the answer is lost":           {paymentsvctest.Drop(after), parked(1)},
		"the request is lost":          {paymentsvctest.Drop(before), parked(0)},
		"the connection is reset":      {paymentsvctest.Reset(), parked(0)},
		"no answer comes in time":      {paymentsvctest.Hang(after), parked(1)},
		"the answer is cut":            {paymentsvctest.Cut(5), parked(1)},
		"the answer is another one":    {paymentsvctest.WrongShape(), parked(1)},
		"a proxy answers":              {paymentsvctest.BadGateway(after), parked(1)},
		"refused":                      {paymentsvctest.Reject(422, "no_such_account", ""), want{store.StateRejected, 0, 1, "no_such_account"}},
		"refused without a code":       {paymentsvctest.Answer(before, 422, "text/plain", "no"), parked(0)},
		"refused with the card number": {paymentsvctest.Reject(422, "no-4111111111111111", ""), want{store.StateRejected, 0, 1, "a code that repeats the destination"}},
		"refused because it is known":  {paymentsvctest.Reject(409, "repeated", ""), parked(0)},
		"a signature is refused":       {paymentsvctest.Reject(401, "signature", ""), paid(2)},
		"a signature refused but paid": {paymentsvctest.Answer(after, 401, "application/json", `{"error_code":"signature"}`), want{store.StateUnknown, 1, 2, ""}},
		"the partner is refused":       {paymentsvctest.Reject(403, "ids", ""), paid(2)},
		"the address is wrong":         {paymentsvctest.Reject(404, "endpoint", ""), want{store.StateRejected, 0, 1, "endpoint"}},
		"the method is refused":        {paymentsvctest.Reject(405, "method", ""), want{store.StateRejected, 0, 1, "method"}},
		"an error without a code":      {paymentsvctest.Reject(403, "", ""), parked(0)},
		"a proxy forbids it":           {forbidden(after), parked(1)},
		"a proxy answers with a code":  {paymentsvctest.Reject(504, "upstream_timeout", ""), parked(0)},
		"too many requests":            {paymentsvctest.TooManyRequests(before, 0), paid(2)},
		"a proxy's rate limit":         {paymentsvctest.Answer(before, 429, "text/plain", "too many requests"), parked(0)},
		"too many requests and paid":   {paymentsvctest.TooManyRequests(after, 0), parked(1)},
		"the balance is empty":         {paymentsvctest.Reject(422, "balance", ""), paid(2)},
	}
	each(t, func(t *testing.T, b *bench) {
		b.config.Timeout = time.Second
		b.config.ConcernsCaller = func(e *paymentsvc.Error) bool { return refusedWith(e, "balance") }
		queue, _ := b.start(b.config)
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				b.fake.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(1), c.fault)
				content := "reference,amount,destination\n" + name + ",1.00,4111111111111111\n"
				report, err := payouts.Import(t.Context(), payouts.ImportConfig{Store: b.store, Queue: queue},
					strings.NewReader(content))
				require.NoError(t, err)
				b.work(report.FileID)
				p := b.payout(report.FileID)
				assert.Equal(t, c.want, want{p.State, b.fake.Started(p.UserData), p.Attempts, p.Refusal})
				assert.Equal(t, p.State == store.StateUnknown, p.Attention != "", "a person is asked")
				assert.Equal(t, p.State == store.StatePending, p.OrderID != "")
				b.fake.ClearFaults()
			})
		}
	})
}

// forbidden is the answer of a proxy that has passed the payout on.
func forbidden(when paymentsvctest.When) paymentsvctest.Fault {
	return paymentsvctest.Answer(when, http.StatusForbidden, "text/html", "<html><body><h1>403 Forbidden</h1></body></html>")
}

// Three in a row came from a proxy, and one row was paid four times. With and without a decoder, one start is all there
// is, and the row waits for a person or a notification.
func TestAPayoutIsStartedOnceThoughAProxyForbidsIt(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.serve(paymentsvctest.NewOrder)
		for name, decode := range map[string]paymentsvc.ErrorDecoder{"with a decoder": b.clientConfig().DecodeError, "without": nil} {
			t.Run(name, func(t *testing.T) {
				config := b.clientConfig()
				config.DecodeError = decode
				var err error
				b.config.Client, err = paymentsvc.NewClient(config)
				require.NoError(t, err)
				b.fake.Fault(paymentsvctest.InitPayout, paymentsvctest.First(3), forbidden(paymentsvctest.AfterCommit))
				defer b.fake.ClearFaults()

				queue, stop := b.start(b.config)
				defer stop()
				report, err := payouts.Import(t.Context(), payouts.ImportConfig{Store: b.store, Queue: queue},
					strings.NewReader(header+name+",1.00,4111111111111111\n"))
				require.NoError(t, err)
				b.work(report.FileID)
				p := b.payout(report.FileID)
				assert.Equal(t, store.StateUnknown, p.State)
				assert.NotEmpty(t, p.Attention)
				assert.EqualValues(t, 1, p.Attempts)
				b.fake.AssertStarted(t, p.UserData, 1)

				for _, o := range b.fake.Orders() {
					if o.UserData == p.UserData {
						require.NoError(t, b.store.ApplyNotification(t.Context(), &paymentsvc.Notification{
							Event: paymentsvc.EventPayoutStatusChanged, OrderID: o.OrderID, UserData: o.UserData,
							StatusDescription: paymentsvc.StatusSuccess, Amount: o.Amount,
						}))
					}
				}
				p = b.payout(report.FileID)
				assert.Equal(t, store.StateSucceeded, p.State)
				assert.Empty(t, p.Attention)
			})
		}
	})
}

// The answer has an order_id, and is no success: its status is missing.
func TestAnUnknownPayoutWithAnOrderIDIsAskedForAndNeedsNobody(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		const orderID = "00000000-0000-4000-8000-000000000001" // the fake's first
		b.fake.Fault(paymentsvctest.InitPayout, paymentsvctest.First(1), paymentsvctest.Answer(
			paymentsvctest.AfterCommit, http.StatusOK, "application/json", `{"order_id":"`+orderID+`"}`))
		b.fake.Fault(paymentsvctest.StatusPayout, paymentsvctest.Nth(1), paymentsvctest.Answer(
			paymentsvctest.BeforeCommit, http.StatusOK, "application/json", `{"order_id":"`+orderID+`","user_data":"another"}`))
		release := make(chan struct{})
		b.fake.Fault(paymentsvctest.StatusPayout, paymentsvctest.Nth(2), paymentsvctest.Hold(paymentsvctest.BeforeCommit, release))
		path := written(t, header+"a,1.00,4111111111111111\n")
		go func() {
			defer close(release)
			assert.Eventually(t, func() bool { return b.fake.Requests(paymentsvctest.StatusPayout) == 2 }, 10*time.Minute, time.Millisecond)
			p := b.rows()[0]
			assert.Equal(t, store.StateUnknown, p.State)
			assert.Equal(t, orderID, p.OrderID)
			assert.Empty(t, p.Attention)
		}()
		summary, err := payouts.PayFile(t.Context(), b.config, path, nil)
		require.NoError(t, err)
		assert.Equal(t, 0, summary.ExitCode(), "%s", summary)
		p := b.rows()[0]
		assert.Equal(t, store.StatePending, p.State)
		assert.Equal(t, orderID, p.OrderID)
		assert.EqualValues(t, 1, p.Attempts)
		assert.Equal(t, 2, p.Asked)
		b.fake.AssertStarted(t, p.UserData, 1)
	})
}

func refusedWith(e *paymentsvc.Error, code string) bool {
	reported, ok := e.Err.(*paymentsvc.ServiceError) //nolint:errorlint // the client wraps it in nothing
	return ok && reported.Code == code
}

func TestAWrongSecretRefusesNoPayout(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		wrong := b.clientConfig()
		signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: b.scheme, Secret: "another key"})
		require.NoError(t, err)
		wrong.Signer = signer
		mistaken := b.config
		mistaken.Client, err = paymentsvc.NewClient(wrong)
		require.NoError(t, err)

		queue, stop := b.start(mistaken)
		report := b.load(queue, 100)
		require.Eventually(t, func() bool { return b.fake.Requests(paymentsvctest.InitPayout) >= 12 }, 10*time.Minute, time.Millisecond)
		assert.Contains(t, queue.Pause().Reason, "signature")
		stop()
		counts := allCounts(t, b.store)
		assert.Equal(t, map[store.State]int64{store.StateCreated: 100}, counts.States)

		_, stop = b.start(b.config)
		states := b.work(report.FileID)
		stop()
		assert.Equal(t, map[store.State]int64{store.StatePending: 100}, states)
	})
}

func TestAServiceThatIsDownGetsFewPayouts(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		const workers = 4
		long := b.config
		long.Workers, long.MinPause, long.MaxPause = workers, time.Hour, time.Hour
		b.fake.Fault(paymentsvctest.InitPayout, paymentsvctest.Every(), paymentsvctest.BadGateway(paymentsvctest.AfterCommit))
		queue, stop := b.start(long)
		b.load(queue, 200)
		require.Eventually(t, func() bool { return queue.Pause().Paused }, 10*time.Minute, time.Millisecond)
		assert.False(t, queue.Pause().Until.IsZero())
		stop()
		counts := allCounts(t, b.store)
		parked := counts.States[store.StateUnknown]
		assert.GreaterOrEqual(t, parked, int64(3))
		assert.LessOrEqual(t, parked, int64(3+workers-1), "those that were under way at the third failure")
		assert.Equal(t, 200-parked, counts.States[store.StateCreated])
		assert.Equal(t, parked, counts.Attention)
	})
}

func TestACallUnderWayIsRecordedBeforeTheQueueEnds(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		release := make(chan struct{})
		b.config.Workers = 3
		b.fake.Fault(paymentsvctest.InitPayout, paymentsvctest.Every(), paymentsvctest.Hold(paymentsvctest.AfterCommit, release))
		queue, stop := b.start(b.config)
		b.load(queue, 10)
		require.Eventually(t, func() bool { return len(b.fake.Orders()) == 3 }, 10*time.Minute, time.Millisecond)
		stopped := make(chan struct{})
		go func() {
			stop()
			close(stopped)
		}()
		require.Eventually(t, func() bool { return !queue.Running() }, 10*time.Minute, time.Millisecond)
		select {
		case <-stopped:
			assert.Fail(t, "it ended with calls under way")
		default:
		}
		close(release)
		<-stopped
		counts := allCounts(t, b.store)
		assert.Equal(t, map[store.State]int64{store.StatePending: 3, store.StateCreated: 7}, counts.States)
		assert.Len(t, b.fake.Orders(), 3)
	})
}

func TestPayoutsThatWereNeverEnqueuedAreFound(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		report := b.load(nil, 20)
		_, stop := b.start(b.config)
		states := b.work(report.FileID)
		stop()
		assert.Equal(t, map[store.State]int64{store.StatePending: 20}, states)
	})
}

func TestAClaimWhoseProcessDiedIsParked(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.load(nil, 1)
		p := b.rows()[0]
		past := open(t, b.url, func() time.Time { return time.Now().Add(time.Minute) })
		_, err := past.Claim(t.Context(), store.Payouts, p.UserData, -2*time.Minute)
		require.NoError(t, err)
		_, stop := b.start(b.config)
		require.Eventually(t, func() bool { return b.rows()[0].State == store.StateUnknown }, 10*time.Minute, 10*time.Millisecond)
		stop()
		assert.NotEmpty(t, b.rows()[0].Attention)
		assert.Zero(t, b.fake.Requests(paymentsvctest.InitPayout))
	})
}

func TestAPayoutThatIsPutBackIsSentAgain(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.fake.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(1), paymentsvctest.Drop(paymentsvctest.BeforeCommit))
		queue, stop := b.start(b.config)
		report := b.load(queue, 1)
		b.work(report.FileID)
		p := b.rows()[0]
		require.Equal(t, store.StateUnknown, p.State)

		tx, err := b.store.DB().BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), `UPDATE payouts SET state = 'created', attention = '', due_at = 0 WHERE user_data = $1`, p.UserData)
		require.NoError(t, err)
		require.NoError(t, queue.Enqueue(t.Context(), tx, p.UserData))
		require.NoError(t, tx.Commit())
		b.work(report.FileID)
		stop()
		assert.Equal(t, store.StatePending, b.rows()[0].State)
		b.fake.AssertStarted(t, p.UserData, 1)
	})
}

// Two queues on one database stand for two processes.
func TestTwoQueuesShareTheWork(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		other := b.config
		other.Store = open(t, b.url, time.Now)
		queue, stop := b.start(b.config)
		_, stopOther := b.start(other)
		report := b.load(queue, 300)
		states := b.work(report.FileID)
		stop()
		stopOther()
		assert.Equal(t, map[store.State]int64{store.StatePending: 300}, states)
		assert.Equal(t, 300, b.fake.Requests(paymentsvctest.InitPayout))
	})
}

func TestAQueueIsRefusedWhoseCallsMayOutliveTheirLease(t *testing.T) {
	b := newBench(t, t.TempDir()+"/partner.db")
	b.config.Timeout, b.config.Lease = time.Minute, 2*time.Minute
	_, err := payouts.NewQueue(context.Background(), b.config)
	assert.ErrorContains(t, err, "Lease must be more than twice Timeout")
	_, err = payouts.NewQueue(context.Background(), payouts.Config{})
	assert.ErrorContains(t, err, "required")
}

func TestTheQueueEngineTellsNothingButWarnings(t *testing.T) {
	b := newBench(t, testdb.Postgres(t))
	b.pay(10)
	assert.NotContains(t, b.log.String(), "River")
	assert.NotContains(t, b.log.String(), "rivermigrate")
}

func TestQueuesMayBeMadeAtOnce(t *testing.T) {
	url := testdb.Postgres(t)
	b := newBench(t, url)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			_, err := payouts.NewQueue(context.Background(), b.config)
			assert.NoError(t, err)
		})
	}
	group.Wait()
}

// jobs counts River's jobs in a state.
func jobs(t *testing.T, s *store.Store, state string) (n int) {
	t.Helper()
	require.NoError(t, s.DB().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM river.river_job WHERE state::text = $1`, state).Scan(&n))
	return n
}

func TestAPayoutHasOneLivingJob(t *testing.T) {
	b := newBench(t, testdb.Postgres(t))
	queue, err := payouts.NewQueue(t.Context(), b.config) // and nothing works
	require.NoError(t, err)
	b.load(queue, 10)
	for range 3 {
		tx, err := b.store.DB().BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, queue.Enqueue(t.Context(), tx, b.rows()[0].UserData, b.rows()[1].UserData))
		require.NoError(t, tx.Commit())
	}
	assert.Equal(t, 10, jobs(t, b.store, "available"))
}
