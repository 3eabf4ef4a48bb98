package payouts

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
)

// serviceFunc is a service of one call.
type serviceFunc func(ctx context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error)

func (f serviceFunc) InitPayout(ctx context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
	return f(ctx, r)
}

func (serviceFunc) StatusPayout(context.Context, paymentsvc.StatusPayoutRequest) (*paymentsvc.StatusResponse, error) {
	return nil, errors.New("nobody asks")
}

// stored opens a database with n payouts.
func stored(t *testing.T, url string, n int) (s *store.Store, payouts []string) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{URL: url})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	_, err = s.AddPayoutFile(t.Context(), "file", "payouts.csv")
	require.NoError(t, err)
	batch := store.PayoutBatch{FileID: "file", To: int64(n)}
	for i := range n {
		batch.Rows = append(batch.Rows, store.PayoutRow{
			Line: int64(i), Reference: string(rune('a' + i)), Amount: paymentsvc.MustParseAmount("1"), Destination: card,
		})
	}
	require.NoError(t, s.ImportPayouts(t.Context(), batch, nil))
	payouts, err = s.DuePayouts(t.Context(), time.Now(), n)
	require.NoError(t, err)
	require.Len(t, payouts, n)
	return s, payouts
}

func started(r paymentsvc.PayoutRequest) *paymentsvc.InitPayoutResponse {
	return &paymentsvc.InitPayoutResponse{OrderID: "order of " + r.UserData}
}

func TestAPayoutThatIsDeliveredOftenIsSentOnce(t *testing.T) {
	testdb.Each(t, func(t *testing.T, url string) {
		s, payouts := stored(t, url, 20)
		other, err := store.Open(t.Context(), store.Options{URL: url}) // as another process has it
		require.NoError(t, err)
		defer other.Close()
		var mu sync.Mutex
		calls := map[string]int{}
		service := serviceFunc(func(_ context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
			mu.Lock()
			defer mu.Unlock()
			calls[r.UserData]++
			return started(r), nil
		})
		var group sync.WaitGroup
		for _, from := range []*store.Store{s, other, s, other} {
			w := newWorker(Config{Store: from, Client: service}.withDefaults())
			group.Go(func() {
				for _, userData := range payouts {
					again, err := w.pay(context.Background(), userData)
					assert.NoError(t, err)
					assert.Zero(t, again)
				}
			})
		}
		group.Wait()
		for _, userData := range payouts {
			assert.Equal(t, 1, calls[userData])
		}
	})
}

func TestACallIsNotCutOffWhenItsJobEnds(t *testing.T) {
	s, payouts := stored(t, testdb.SQLite(t), 1)
	ctx, cancel := context.WithCancel(t.Context())
	service := serviceFunc(func(call context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
		p, err := s.Payout(call, r.UserData)
		assert.NoError(t, err)
		assert.Equal(t, store.StateStarting, p.State, "the claim comes first")
		cancel()
		assert.NoError(t, call.Err())
		deadline, ok := call.Deadline()
		assert.True(t, ok)
		assert.LessOrEqual(t, time.Until(deadline), 40*time.Second)
		assert.NotContains(t, deadline.String(), "m=", "the monotonic clock stands still while a machine is suspended")
		return started(r), nil
	})
	_, err := newWorker(Config{Store: s, Client: service}.withDefaults()).pay(ctx, payouts[0])
	require.NoError(t, err)
	p, err := s.Payout(t.Context(), payouts[0])
	require.NoError(t, err)
	assert.Equal(t, store.StatePending, p.State)
	assert.Equal(t, "order of "+payouts[0], p.OrderID)
}

func TestNothingIsClaimedOnceTheQueueEnds(t *testing.T) {
	s, payouts := stored(t, testdb.SQLite(t), 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	service := serviceFunc(func(context.Context, paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
		return nil, errors.New("called")
	})
	_, err := newWorker(Config{Store: s, Client: service}.withDefaults()).pay(ctx, payouts[0])
	require.ErrorIs(t, err, context.Canceled)
	p, err := s.Payout(t.Context(), payouts[0])
	require.NoError(t, err)
	assert.Equal(t, store.StateCreated, p.State)
	assert.Zero(t, p.Attempts)
}

// The lease of a claim ran out during the call, for the process was suspended, and the payout was parked.
func TestAnOutcomeThatComesTooLateChangesNothingButASuccess(t *testing.T) {
	refused := &paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 422, Err: errors.New("no")}
	for name, c := range map[string]struct {
		err  error
		want store.State
	}{
		"started":  {nil, store.StatePending},
		"refused":  {refused, store.StateUnknown},
		"not sent": {&paymentsvc.Error{Outcome: paymentsvc.OutcomeNotSent, Err: errors.New("no")}, store.StateUnknown},
		"unknown":  {errors.New("no"), store.StateUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			s, payouts := stored(t, testdb.SQLite(t), 1)
			service := serviceFunc(func(ctx context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
				_, err := s.DB().ExecContext(ctx, `UPDATE payouts SET due_at = 0`)
				assert.NoError(t, err)
				n, err := s.Abandoned(ctx, store.Payouts, attention)
				assert.NoError(t, err)
				assert.Equal(t, 1, n)
				return started(r), c.err
			})
			_, err := newWorker(Config{Store: s, Client: service}.withDefaults()).pay(t.Context(), payouts[0])
			require.NoError(t, err)
			p, err := s.Payout(t.Context(), payouts[0])
			require.NoError(t, err)
			assert.Equal(t, c.want, p.State)
		})
	}
}

func TestAPayoutThatIsNotDueYetComesBackWhenItIs(t *testing.T) {
	s, payouts := stored(t, testdb.SQLite(t), 1)
	_, err := s.DB().ExecContext(t.Context(), `UPDATE payouts SET due_at = $1`, time.Now().Add(time.Hour).UnixMilli())
	require.NoError(t, err)
	again, err := newWorker(Config{Store: s}.withDefaults()).pay(t.Context(), payouts[0])
	require.NoError(t, err)
	assert.InDelta(t, time.Hour, again, float64(time.Minute))
}

func TestARowThatCanNeverBeSentIsRefused(t *testing.T) {
	s, payouts := stored(t, testdb.SQLite(t), 1)
	service := serviceFunc(func(context.Context, paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
		return nil, &paymentsvc.Error{Outcome: paymentsvc.OutcomeNotSent, Err: paymentsvc.ErrInvalidRequest}
	})
	_, err := newWorker(Config{Store: s, Client: service}.withDefaults()).pay(t.Context(), payouts[0])
	require.NoError(t, err)
	p, err := s.Payout(t.Context(), payouts[0])
	require.NoError(t, err)
	assert.Equal(t, store.StateRejected, p.State)
	assert.Equal(t, "invalid request", p.Refusal)
}

// without takes a table away, without which nothing can be recorded.
func without(t *testing.T, s *store.Store, table string) (back func()) {
	t.Helper()
	rename := func(from, to string) {
		_, err := s.DB().ExecContext(t.Context(), `ALTER TABLE `+from+` RENAME TO `+to)
		require.NoError(t, err)
	}
	rename(table, "away")
	return func() { rename("away", table) }
}

// loggedWorker gives a worker and what it logs, with a payout that the service starts once before has run.
func loggedWorker(t *testing.T, before func(s *store.Store)) (*worker, string, *bytes.Buffer) {
	t.Helper()
	s, payouts := stored(t, testdb.SQLite(t), 1)
	log := &bytes.Buffer{}
	service := serviceFunc(func(_ context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
		before(s)
		return started(r), nil
	})
	c := Config{Store: s, Client: service, Log: slog.New(slog.NewTextHandler(log, nil))}
	return newWorker(c.withDefaults()), payouts[0], log
}

func TestASuccessIsRecordedHoweverLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, payout, log := loggedWorker(t, func(s *store.Store) {
			time.AfterFunc(9*time.Minute, without(t, s, "notifications"))
		})
		_, err := w.pay(t.Context(), payout)
		require.NoError(t, err)
		p, err := w.Store.Payout(t.Context(), payout)
		require.NoError(t, err)
		assert.Equal(t, store.StatePending, p.State)
		assert.Equal(t, "order of "+payout, p.OrderID)
		assert.Contains(t, log.String(), "is recorded now")
	})
}

func TestTheOrderIDOfASuccessThatIsNotRecordedIsLogged(t *testing.T) {
	for name, c := range map[string]struct {
		ends   bool // the queue, meanwhile
		within time.Duration
	}{"while it works": {false, 11 * time.Minute}, "when it ends": {true, recordTimeout}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, payout, log := loggedWorker(t, func(s *store.Store) { without(t, s, "notifications") })
				if c.ends {
					close(w.ending)
				}
				began := time.Now()
				_, err := w.pay(t.Context(), payout)
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(began), c.within)
				assert.Contains(t, log.String(), `order_id="order of `+payout+`"`)
				assert.Contains(t, log.String(), "parked")
			})
		})
	}
}

func TestWhatANotificationHasSettledIsNotCalledParked(t *testing.T) {
	s, payouts := stored(t, testdb.SQLite(t), 1)
	var log bytes.Buffer
	service := serviceFunc(func(ctx context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
		assert.NoError(t, s.ApplyNotification(ctx, &paymentsvc.Notification{
			Event: paymentsvc.EventPayoutStatusChanged, OrderID: "o", UserData: r.UserData,
			StatusDescription: paymentsvc.StatusSuccess, Amount: r.Amount,
		}))
		return nil, errors.New("no answer")
	})
	c := Config{Store: s, Client: service, Log: slog.New(slog.NewTextHandler(&log, nil))}
	_, err := newWorker(c.withDefaults()).pay(t.Context(), payouts[0])
	require.NoError(t, err)
	p, err := s.Payout(t.Context(), payouts[0])
	require.NoError(t, err)
	assert.Equal(t, store.StateSucceeded, p.State)
	assert.NotContains(t, log.String(), "parked")
	assert.NotContains(t, log.String(), "ERROR")
}

// A person reads of it after some tries. A success then says that there is nothing to look at.
func TestAPayoutThatIsRefusedAgainAndAgainIsTriedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, payouts := stored(t, testdb.SQLite(t), 1)
		refused := true
		service := serviceFunc(func(_ context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
			if !refused {
				return started(r), nil
			}
			return nil, &paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 403, Err: errors.New("no")}
		})
		w := newWorker(Config{Store: s, Client: service, Log: slog.New(slog.DiscardHandler)}.withDefaults())
		for try := 1; try <= 12; try++ {
			again, err := w.pay(t.Context(), payouts[0])
			require.NoError(t, err)
			p, err := s.Payout(t.Context(), payouts[0])
			require.NoError(t, err)
			assert.Equal(t, store.StateCreated, p.State)
			assert.EqualValues(t, try, p.Attempts)
			assert.Equal(t, try >= 10, p.Attention != "", try)
			assert.Equal(t, try >= 10, again >= 15*time.Minute, try)
			time.Sleep(again)
		}
		refused = false
		_, err := w.pay(t.Context(), payouts[0])
		require.NoError(t, err)
		p, err := s.Payout(t.Context(), payouts[0])
		require.NoError(t, err)
		assert.Equal(t, store.StatePending, p.State)
		assert.Empty(t, p.Attention)
	})
}

// answeredService answers questions too.
type answeredService struct {
	serviceFunc
	status func(orderID string) (*paymentsvc.StatusResponse, error)
}

func (s answeredService) StatusPayout(_ context.Context, r paymentsvc.StatusPayoutRequest) (*paymentsvc.StatusResponse, error) {
	return s.status(r.OrderID)
}

func TestAPayoutThatIsAskedForInVainIsForAPersonAndAskedForRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, payouts := stored(t, testdb.SQLite(t), 1)
		asked, there := 0, false
		service := answeredService{
			func(context.Context, paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
				return nil, &paymentsvc.Error{OrderID: "o-1", HTTPStatus: 200, Err: paymentsvc.ErrUnexpectedResponse}
			},
			func(orderID string) (*paymentsvc.StatusResponse, error) {
				asked++
				assert.Equal(t, "o-1", orderID)
				if there {
					return &paymentsvc.StatusResponse{OrderID: orderID, UserData: payouts[0], Amount: paymentsvc.MustParseAmount("2")}, nil
				}
				return []*paymentsvc.StatusResponse{{}, {OrderID: "o-1"}, {UserData: payouts[0]}, nil}[asked%4],
					[]error{nil, nil, nil, errors.New("no answer")}[asked%4]
			},
		}
		w := newWorker(Config{Store: s, Client: service, Log: slog.New(slog.DiscardHandler)}.withDefaults())
		_, err := w.pay(t.Context(), payouts[0])
		require.NoError(t, err)
		payout := func() store.Payout {
			p, err := s.Payout(t.Context(), payouts[0])
			require.NoError(t, err)
			return p
		}
		for began := time.Now(); time.Since(began) < 2*time.Hour; time.Sleep(w.Sweep) {
			require.NoError(t, w.ask(t.Context()))
			p := payout()
			assert.Equal(t, store.StateUnknown, p.State)
			assert.Equal(t, p.Asked > askedInVain, p.Attention != "", p.Asked)
		}
		assert.Equal(t, notSaid, payout().Attention)
		assert.Less(t, asked, 25)
		there = true
		time.Sleep(slowest)
		require.NoError(t, w.ask(t.Context()))
		assert.Equal(t, store.StatePending, payout().State)
		assert.Equal(t, "The service has it with 2 instead of 1.", payout().Attention, "the other reason is gone")
	})
}

func TestWhatWasNeverSentSaysNothingOfTheService(t *testing.T) {
	s, payouts := stored(t, testdb.SQLite(t), 2)
	service := serviceFunc(func(_ context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
		if r.UserData == payouts[0] {
			return nil, &paymentsvc.Error{Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 401, Err: errors.New("no")}
		}
		return nil, &paymentsvc.Error{Outcome: paymentsvc.OutcomeNotSent, Err: paymentsvc.ErrInvalidRequest}
	})
	w := newWorker(Config{Store: s, Client: service, MinPause: time.Nanosecond}.withDefaults())
	for _, userData := range payouts {
		_, err := w.pay(t.Context(), userData)
		require.NoError(t, err)
	}
	assert.True(t, w.gate.state().Paused, "the caller is still refused")
}
