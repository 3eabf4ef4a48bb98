package durable

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// Another transaction locks the due rows, and rolls back after the scan of RunBatch.
func TestRunBatchWaitsForLockedRows(t *testing.T) {
	db := postgres(t)
	scanned := make(chan struct{}, 10)
	s := openStore(t, db, Config{Hooks: Hooks{Round: func(_ context.Context, r Round) {
		if r.Claimed == 0 {
			select {
			case scanned <- struct{}{}:
			default: // the test has received enough
			}
		}
	}}})
	queue(t, s, payouts("held", 1)...) // it does not end the wait
	hold(t, s)
	require.NoError(t, s.EndHold(t.Context(), "ada", status(t, s).Generation))
	queue(t, s, payouts("a", 2)...)
	tx := begin(t, db.DB, `SELECT FROM durable_queue FOR UPDATE`)
	var calls int
	ended := make(chan error, 1)
	go func() {
		var err error
		calls, err = s.RunBatch(t.Context(), BatchLimit{})
		ended <- err
	}()
	for range 6 { // more than the scans before the first wait
		select {
		case <-scanned:
		case err := <-ended:
			t.Fatalf("it has not waited: %v", err)
		}
	}
	require.NoError(t, tx.Rollback())
	require.ErrorIs(t, <-ended, ErrHeld)
	assert.Equal(t, 2, calls)
}

// After the last scan, the pool has no connection to find out whether due rows remain.
func TestRunBatchEndsWithItsContextWithoutAConnection(t *testing.T) {
	db := postgres(t)
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var taken *sql.Conn
	s := openStore(t, db, Config{Hooks: Hooks{Round: func(context.Context, Round) {
		var err error
		taken, err = db.Conn(t.Context())
		assert.NoError(t, err)
	}}})
	ended := make(chan error, 1)
	go func() {
		_, err := s.RunBatch(ctx, BatchLimit{})
		ended <- err
	}()
	waitUntil(t, func() bool { return db.Stats().WaitCount > 0 })
	cancel()
	waitUntil(t, func() bool { return len(ended) == 1 })
	require.NoError(t, taken.Close())
	require.NoError(t, <-ended)
}

// Several processes work at once, with faults, and with notifications before, between and after the outcomes.
func TestSeveralRunsCallEachRowOnce(t *testing.T) {
	const rows = 300
	each(t, func(t *testing.T, db database) {
		var changes atomic.Int64
		told := make(chan string, 2*rows)
		f := &service{}
		f.before = func(n int, _ string) error {
			if n%10 == 5 {
				return notSent()
			}
			return nil
		}
		f.after = func(n int, userData string) error {
			told <- userData + "/1"
			if n%10 == 0 {
				return unanswered("")
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		var stores []*Store
		for range 3 {
			s := openStore(t, db, Config{Service: f, OnChange: func(context.Context, *sql.Tx, Event) error {
				changes.Add(1)
				return nil
			}})
			stores = append(stores, s)
		}
		queue(t, stores[0], payouts("a", rows)...)
		for i, s := range stores {
			wg.Go(func() { assert.NoError(t, s.Run(ctx)) })
			wg.Go(func() {
				for {
					select {
					case order := <-told:
						n := notice(payoutChanged, "", order, success)
						if strings.ContainsAny(order[:1], "01234567") { // half of them contain the user_data
							n.UserData = order[:len(order)-2]
						}
						assert.NoError(t, stores[(i+1)%3].Notified(context.WithoutCancel(ctx), n))
					case <-ctx.Done():
						return
					}
				}
			})
		}
		waitUntil(t, func() bool {
			c := count(t, stores[0], KindPayout)
			return c[StateSucceeded]+c[StateUnknown] == rows
		})
		cancel()
		wg.Wait()
		f.requireStarts(t, rows)
		assert.Equal(t, changes.Load(), count(t, stores[0], KindPayout)[StateSucceeded])
	})
}

// hanging returns a service whose starts last until their cancellation or the close of the channel ends. With deaf,
// they ignore cancellation. calls receives a value at the beginning of each start. StatusPayment has no result.
func hanging(deaf bool) (f *service, calls, ends chan struct{}) {
	calls, ends = make(chan struct{}), make(chan struct{})
	return &service{call: func(ctx context.Context, endpoint string) error {
		if endpoint == "status_payment" {
			return unanswered("")
		}
		calls <- struct{}{}
		if deaf {
			ctx = context.WithoutCancel(ctx)
		}
		select {
		case <-ctx.Done():
			return &paymentsvc.Error{Err: ctx.Err()}
		case <-ends:
			return nil
		}
	}}, calls, ends
}

func TestRunDrains(t *testing.T) {
	for _, tt := range []struct {
		name  string
		drain time.Duration
		ends  bool // the calls end in time
		deaf  bool
	}{
		{name: "without a limit", ends: true},
		{name: "in time", drain: time.Hour, ends: true},
		{name: "at the limit", drain: 1},
		{name: "at the limit, deaf", drain: 1, deaf: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, db database) {
				f, calls, ends := hanging(tt.deaf)
				s, clock := openClocked(t, db, Config{Service: f, Drain: tt.drain})
				payout := queue(t, s, payouts("a", 1)...)[0].UserData
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended, paid := make(chan error), make(chan Row)
				go func() { ended <- s.Run(ctx) }()
				<-calls
				runBatch(t, s, ErrBusy)
				go func() {
					r, err := s.Pay(t.Context(), NewPayment{Key: "basket", Type: paymentsvc.PaymentTypeCard, Amount: ten})
					assert.NoError(t, err)
					paid <- r
				}()
				<-calls
				cancel()
				if tt.ends {
					close(ends)
					require.NoError(t, <-ended)
					assert.Equal(t, StatePending, (<-paid).State)
					assert.Equal(t, StatePending, get(t, s, payout).State)
					_, err := s.Pay(t.Context(), NewPayment{Key: "b", Type: paymentsvc.PaymentTypeCard, Amount: ten})
					require.ErrorIs(t, err, ErrClosed)
					runBatch(t, s, ErrBusy)
					require.ErrorIs(t, s.Run(t.Context()), ErrBusy)
					return
				}
				require.ErrorIs(t, <-ended, ErrDrain)
				later := openShimmed(t, db, Config{Service: f}, clock)
				if tt.deaf {
					assert.Equal(t, StateStarting, get(t, s, payout).State)
					require.NoError(t, later.Sweep(t.Context()))
					pass(t, db, clock, later.c.Lease)
				}
				require.NoError(t, later.Sweep(t.Context()))
				waitUntil(t, func() bool { return get(t, s, payout).State == StateUnknown })
				assert.Zero(t, runBatch(t, later, nil))
				close(ends)
				assert.Contains(t, []State{StateUnknown, StatePending}, (<-paid).State)
			})
		})
	}
}
