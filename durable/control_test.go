package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

func TestDryAccountPausesEverything(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(n int, _ string) error {
			if n >= 10 && n < 100 {
				return refused(400, "DRY")
			}
			return nil
		}}
		s := openStore(t, db, Config{Service: f, InsufficientFundsCodes: []string{"DRY"}, Slots: 2})
		queue(t, s, payouts("a", 40)...)
		runBatch(t, s, ErrPaused)
		assert.LessOrEqual(t, f.calls, 11)
		assert.Zero(t, count(t, s, KindPayout)[StateRejected])
		got := status(t, s)
		assert.True(t, got.Paused)
		assert.Zero(t, got.Until)
		assert.Contains(t, got.Reason, "insufficient funds")

		other := openStore(t, db, Config{Service: f})
		runBatch(t, other, ErrPaused)
		f.calls = 100
		require.NoError(t, s.Resume(t.Context(), "person"))
		runBatch(t, other, nil)
		assert.EqualValues(t, 40, count(t, s, KindPayout)[StatePending])
	})
}

func TestEqualRefusalsInARowPause(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(n int, _ string) error {
			switch {
			case n == 5, n == 200:
				return refused(400, "E18")
			case n < 100 && n != 10:
				return refused(400, "E17")
			}
			return nil
		}}
		s := openStore(t, db, Config{Service: f, Slots: 1})
		queue(t, s, payouts("a", 40)...)
		runBatch(t, s, ErrPaused)
		assert.Equal(t, 15, f.calls, "another code among them ends the run, and so does a success")
		run := collect(t, s.Rows(t.Context(), Filter{State: StateRejected, Review: true}))
		assert.Len(t, run, 5, "the run needs review, but earlier rejections do not")
		assert.EqualValues(t, 14, count(t, s, KindPayout)[StateRejected])

		assert.Equal(t, 13, decideAll(t, s, Filter{ErrorCode: "E17"}, DecideResend))
		require.NoError(t, s.Resume(t.Context(), "person"))
		f.calls = 199
		runBatch(t, s, nil)
		assert.EqualValues(t, 38, count(t, s, KindPayout)[StatePending])
		f.requireStarts(t, 38)
	})
}

// The service rejects no more payouts of several processes than those of the run and of the calls then in flight.
func TestEqualRefusalsOfManyProcesses(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(int, string) error { return refused(400, "E17") }}
		var wg sync.WaitGroup
		var stores []*Store
		for range 3 {
			stores = append(stores, openStore(t, db, Config{Service: f, Slots: 4}))
		}
		queue(t, stores[0], payouts("a", 100)...)
		for _, s := range stores {
			wg.Go(func() { _, _ = s.RunBatch(t.Context(), BatchLimit{}) })
		}
		wg.Wait()
		n := count(t, stores[0], KindPayout)[StateRejected]
		assert.GreaterOrEqual(t, n, int64(5))
		assert.LessOrEqual(t, n, int64(5+3*4-1))
		assert.Equal(t, n, counts(t, stores[0], Filter{}).Review.Rows, "all of the run can be sent again")
	})
}

// The service rejects the caller, so all rows wait. After the pause, one row is tried alone.
func TestPauseIsProbedByOneRow(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		var works atomic.Bool
		f := &service{before: func(int, string) error {
			if works.Load() {
				return nil
			}
			return refused(401, "E1")
		}}
		s, clock := openClocked(t, db, Config{Service: f, Slots: 4})
		queue(t, s, payouts("a", 20)...)
		turn := func(calls int, pending int64) {
			t.Helper()
			f.calls = 0
			_, err := s.RunBatch(t.Context(), BatchLimit{})
			if pending < 20 {
				require.ErrorIs(t, err, ErrPaused)
			}
			assert.Equal(t, calls, f.calls)
			assert.Equal(t, pending, count(t, s, KindPayout)[StatePending])
		}
		turn(4, 0)
		turn(0, 0)
		pass(t, db, clock, 2*time.Second)
		turn(1, 0)
		pass(t, db, clock, 1*time.Second)
		turn(0, 0) // the second pause is longer
		pass(t, db, clock, 61*time.Second)
		works.Store(true)
		turn(20, 20)
		assert.False(t, status(t, s).Paused)
	})
}

// An operator may have resent a payout of the run, or a notification may have changed its review reason.
func TestRunOfRejectionsKeepsOtherReasons(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(int, string) error { return refused(400, "E1") }}
		s := openStore(t, db, Config{Service: f, Slots: 1, MaxConsecutiveRejections: 3})
		queue(t, s, payouts("a", 3)...)
		_, err := s.RunBatch(t.Context(), BatchLimit{Rows: 2})
		require.NoError(t, err)
		run := collect(t, s.Rows(t.Context(), Filter{State: StateRejected}))
		require.Len(t, run, 2)
		set(t, db, run[0].UserData, `state = 'unknown'`)
		set(t, db, run[1].UserData, `review_reason = 'another'`)
		runBatch(t, s, ErrPaused)
		assert.True(t, status(t, s).Paused)
		assert.Empty(t, get(t, s, run[0].UserData).ReviewReason)
		assert.Equal(t, "another", get(t, s, run[1].UserData).ReviewReason)
	})
}

// pauseUntil returns a statement that begins a timed pause with the probe T.
func pauseUntil(end time.Time) string {
	return fmt.Sprintf(`UPDATE durable_control SET pause_until = %d, probe = 'T'`, end.UnixMilli())
}

// Whatever the result of the probe, the pause does not last for the probe's whole lease.
func TestPauseEndsWithItsProbe(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		queue(t, s, payouts("a", 1)...)
		for _, v := range []callResult{
			{effect: noResponse}, {Result: row.Result{Kind: row.NotCalled}}, {Result: row.Result{Kind: row.RowRejected},
				effect: responded},
		} {
			db.Exec(t, pauseUntil(time.Now().Add(10*time.Minute)))
			v.job = job{Claim: ledger.Claim{Kind: row.Payout, UserData: derived("test", KindPayout, "a-0000"), Token: "T"},
				probe: true}
			require.NoError(t, rounder{s}.Record(t.Context(), schedule.Completion[callResult]{Done: v}))
			got := status(t, s)
			assert.True(t, got.Until.Before(got.Now.Add(2*time.Minute)), "%v %v", v, got.Until)
		}
	})
}

// The server may be replaced between a round and the probe that follows it.
func TestProbeClaimsNothingOnAnotherServer(t *testing.T) {
	db := postgres(t)
	s := openStore(t, db, Config{})
	queue(t, s, payouts("a", 1)...)
	db.Exec(t, `UPDATE durable_control SET pause_until = 1, fingerprint = 'another'`)
	jobs, err := rounder{s}.Probe(t.Context(), "T")
	require.NoError(t, err)
	assert.Empty(t, jobs)
	assert.EqualValues(t, 1, count(t, s, KindPayout)[StateCreated])
	runBatch(t, s, ErrHeld)
}

func TestServiceThatDoesNotAnswerPausesAfterThree(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{call: func(_ context.Context, endpoint string) error {
			if endpoint == "init_payout" {
				return unanswered("")
			}
			return nil
		}}
		s := openStore(t, db, Config{Service: f, Slots: 1})
		queue(t, s, payouts("a", 20)...)
		for range 3 {
			_, err := s.RunBatch(t.Context(), BatchLimit{Rows: 1})
			require.NoError(t, err)
			assert.Equal(t, StatePending, pay(t, s, "").State, "a payment is no evidence about payouts")
		}
		runBatch(t, s, ErrPaused)
		assert.EqualValues(t, 3, count(t, s, KindPayout)[StateUnknown])
		assert.Equal(t, StatePending, pay(t, s, "").State, "a pause does not stop Pay")
	})
}

// An operator may release a payout that was paid after the backup. The service may reject the duplicate.
func TestRejectionAfterReleaseIsNoProof(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		changes := 0
		s := openStore(t, db, Config{
			Service:  &service{before: func(int, string) error { return refused(400, "duplicate") }},
			OnChange: func(context.Context, *sql.Tx, Event) error { changes++; return nil },
		})
		q := queue(t, s, payouts("a", 1)...)
		hold(t, s)
		release(t, s, 1)
		runBatch(t, s, nil)
		r := get(t, s, q[0].UserData)
		assert.Equal(t, []any{StateUnknown, row.RejectedLater, 0}, []any{r.State, r.ReviewReason, changes})
	})
}

// A database restored during a call lacks the claim. The request arrives after the hold.
func TestReleaseWaitsForGraceAfterAHold(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(int, string) error { return unanswered("") }}
		s, clock := openClocked(t, db, Config{Service: f})
		unknown := queue(t, s, payouts("unknown", 1)...)[0].UserData
		runBatch(t, s, nil)
		pass(t, db, clock, s.c.Grace)
		held := queue(t, s, payouts("held", 1)...)[0].UserData
		generation, err := s.HoldPayouts(t.Context(), "ada", "a restore")
		require.NoError(t, err)
		try := func(want error) {
			_, err := s.Release(t.Context(), "ada", generation, Filter{UserData: []string{"another"}})
			require.ErrorIs(t, err, want)
			for userData, kind := range map[string]DecisionKind{held: DecideUnpaid, unknown: DecideResend} {
				d := Decision{Kind: kind, UserData: userData, By: "ada", Version: get(t, s, userData).Version}
				require.ErrorIs(t, s.Decide(t.Context(), d), want, kind)
			}
			require.ErrorIs(t, s.EndHold(t.Context(), "ada", generation), want)
		}
		releaseAt := clock.Now().Add(s.c.Grace)
		pass(t, db, clock, s.c.Grace-time.Millisecond)
		assert.Equal(t, releaseAt.UnixMilli(), status(t, s).ReleaseAt.UnixMilli())
		try(ErrUndecidable)
		pass(t, db, clock, time.Millisecond)
		assert.Zero(t, status(t, s).ReleaseAt)
		try(nil)
	})
}

// A failover loses the second claim of a payment, and the request of this claim is late. The process has watched the
// first claim.
func TestPaymentWaitsForGraceAfterAFailover(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(int, string) error { return unanswered("") }}
		s, clock := openClocked(t, db, Config{Service: f})
		p := pay(t, s, "k")
		standby, err := dbtest.CopyRows(t.Context(), db.DB)
		require.NoError(t, err)
		sweep := func(wait time.Duration) State {
			pass(t, db, clock, wait)
			require.NoError(t, s.Sweep(t.Context()))
			return get(t, s, p.UserData).State
		}
		for sweep(20*time.Second) == StateUnknown {
			continue
		}
		runBatch(t, s, nil)
		require.Equal(t, 2, f.calls)
		require.NoError(t, standby.Restore(t.Context(), db.DB))
		runBatch(t, s, nil)
		require.True(t, status(t, s).Hold, "noticed by a mark or a claim")
		for waited := time.Duration(0); waited < s.c.Grace-20*time.Second; waited += 20 * time.Second {
			require.Equal(t, StateUnknown, sweep(20*time.Second), waited)
		}
	})
}

// A backup is restored twice. An operator has compared the payouts with the service's list between the restores.
func TestReleaseOfAnEarlierRestoreIsRejected(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s, clock := openClocked(t, db, Config{Service: f})
		queue(t, s, payouts("a", 2)...)
		backup, err := dbtest.CopyRows(t.Context(), db.DB)
		require.NoError(t, err)
		restore := func() int64 {
			require.NoError(t, backup.Restore(t.Context(), db.DB))
			pass(t, db, clock, time.Minute)
			generation, err := s.HoldPayouts(t.Context(), "ada", "a restore")
			require.NoError(t, err)
			pass(t, db, clock, s.c.Grace)
			return generation
		}
		compared := restore()
		release(t, s, 2)
		require.Equal(t, 2, runBatch(t, s, nil))
		restore()
		_, err = s.Release(t.Context(), "ada", compared, Filter{})
		require.ErrorIs(t, err, ErrChanged)
		runBatch(t, s, ErrHeld)
		f.requireStarts(t, 2)
	})
}

// A restored database has the first claim of a payment, which this process has watched. The request of the second claim
// is late.
func TestStartingPaymentWaitsForGraceAfterAHold(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(int, string) error { return unanswered("") }}
		s, clock := openClocked(t, db, Config{Service: f})
		tx := begin(t, db.DB)
		_, err := s.QueuePayments(t.Context(), tx, NewPayment{Key: "k", Type: "card", Amount: ten})
		require.NoError(t, errors.Join(err, tx.Commit()))
		jobs := claim(t, s, 1, 1, "first")
		require.Len(t, jobs, 1)
		require.NoError(t, s.Sweep(t.Context())) // watches the claim
		backup, err := dbtest.CopyRows(t.Context(), db.DB)
		require.NoError(t, err)
		require.NoError(t, s.settle(t.Context(), jobs[0], callResult{Result: row.Result{Kind: row.NotSent}}))
		for range 8 {
			pass(t, db, clock, 30*time.Second)
			require.NoError(t, s.Sweep(t.Context()))
		}
		require.Equal(t, 1, runBatch(t, s, nil))
		require.NoError(t, backup.Restore(t.Context(), db.DB))
		_, err = s.HoldPayouts(t.Context(), "ada", "a restore")
		require.NoError(t, err)
		for range 3 {
			pass(t, db, clock, time.Second)
			require.NoError(t, s.Sweep(t.Context()))
		}
		assert.Equal(t, StateUnknown, get(t, s, jobs[0].UserData).State, "a request from before the hold may arrive")
	})
}

// The database's clock was a year ahead during a hold.
func TestHoldFromAWrongClockEnds(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s, clock := openClocked(t, db, Config{})
		queue(t, s, payouts("a", 2)...)
		setClock(t, db, clock.Now().Add(365*24*time.Hour))
		generation, err := s.HoldPayouts(t.Context(), "ada", "a restore")
		require.NoError(t, err)
		setClock(t, db, clock.Now())
		_, err = s.Release(t.Context(), "ada", generation, Filter{})
		require.ErrorIs(t, err, ErrUndecidable)
		pass(t, db, clock, s.c.Grace)
		_, err = s.Release(t.Context(), "ada", generation, Filter{})
		assert.NoError(t, err)
	})
}

// The hold begins Grace again for the last claim of this process.
func TestHoldOfAnUnknownRowIsNoRestore(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{before: func(int, string) error { return unanswered("") }}
		s, clock := openClocked(t, db, Config{Service: f})
		userData := send(t, s, payouts("a", 1)...)[0].UserData
		for _, reference := range []string{"b", "c"} { // between these holds, the row gets another state
			pass(t, db, clock, time.Second)
			generation, err := s.HoldPayouts(t.Context(), "ada", "by hand")
			require.NoError(t, err)
			queue(t, s, payouts(reference, 1)...)
			pass(t, db, clock, time.Second)
			runBatch(t, s, ErrHeld)
			got := status(t, s)
			assert.Equal(t, []any{generation, "ada", "by hand"}, []any{got.Generation, got.HoldBy, got.HoldReason})
			require.NoError(t, s.Notified(t.Context(), notice(payoutChanged, userData, "o", success)))
		}
	})
}

// Payouts that an operator has compared after one hold are not released after the next one.
func TestReleaseIsOfOneHold(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		f := &service{}
		s := openStore(t, db, Config{Service: f})
		first := hold(t, s)
		queue(t, s, payouts("a", 2)...)
		second := hold(t, s)
		for _, generation := range []int64{first, second + 1, 0} {
			n, err := s.Release(t.Context(), "person", generation, Filter{})
			require.ErrorIs(t, err, ErrChanged)
			assert.Zero(t, n)
			require.ErrorIs(t, s.EndHold(t.Context(), "person", generation), ErrChanged)
		}
		assert.True(t, status(t, s).Hold)
		assert.EqualValues(t, 2, counts(t, s, Filter{}).Held.Rows)
		runBatch(t, s, ErrHeld)
		assert.Zero(t, f.calls)
		release(t, s, 2)
		one := []string{derived("test", KindPayout, "a-0000")}
		n, err := s.ledger.ReleaseHeld(t.Context(), one, second)
		require.NoError(t, err)
		assert.Zero(t, n, "another operator has released it")
		runBatch(t, s, nil)
		assert.Equal(t, 2, f.calls)
		_, err = s.Release(t.Context(), "person", first, Filter{})
		require.ErrorIs(t, err, ErrChanged, "also without a payout")
	})
}

// A hold has begun, but is not committed, while a release compares the generation.
func TestReleaseWaitsForAHold(t *testing.T) {
	db := postgres(t)
	f := &service{}
	s := openStore(t, db, Config{Service: f})
	generation := hold(t, s)
	queue(t, s, payouts("a", 2)...)
	hold := begin(t, db.DB, `UPDATE durable_control SET generation = generation + 1`)
	var n int
	released := make(chan error, 1)
	go func() {
		var err error
		n, err = s.Release(t.Context(), "person", generation, Filter{})
		released <- err
	}()
	waitUntil(t, func() bool { return len(released) > 0 || db.Number(t, waiters) > 0 })
	require.NoError(t, hold.Commit())
	require.ErrorIs(t, <-released, ErrChanged)
	assert.Zero(t, n)
	runBatch(t, s, ErrHeld)
	assert.Zero(t, f.calls)
}

// A created payment may have been started since the backup, so the service is polled first.
func TestHoldPollsForPaymentsFirst(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		for _, first := range []error{refused(401, "E1"), notSent()} {
			f := &service{before: func(int, string) error { return first }}
			s := openStore(t, db, Config{Service: f})
			r := pay(t, s, "")
			assert.Equal(t, StateCreated, r.State)
			hold(t, s)
			r = get(t, s, r.UserData)
			assert.Empty(t, r.ErrorCode, "or it would be rejected if the service does not have it")
			assert.True(t, r.MayHaveStarted, "or a later rejection would be believed")
			f.started = map[string][]string{r.UserData: {"of " + r.UserData}}
			require.NoError(t, s.Sweep(t.Context()))
			r = get(t, s, r.UserData)
			assert.Equal(t, []string{"pending", "of " + r.UserData, ""}, []string{string(r.State), r.OrderID, r.ErrorCode})
			assert.Equal(t, 1, f.calls)
		}
	})
}

// The database forgets the claims of a process, or is another server, so the process holds payouts automatically. A
// later claim of the row by another process proves that the last claim of this process was not lost. Another claim with
// the same number does not.
func TestLostCommitsHoldPayouts(t *testing.T) {
	const reset = `UPDATE durable_rows SET state = 'created', order_id = '', claims = 0, claimed_at = 0`
	for name, tt := range map[string]struct {
		change []string
		want   error
	}{
		"claim":       {[]string{reset}, ErrHeld},
		"later claim": {[]string{`UPDATE durable_rows SET claims = 2, claimed_at = 1`}, nil},
		"other time":  {[]string{`UPDATE durable_rows SET claimed_at = claimed_at + 1`}, ErrHeld},
		"other token": {[]string{reset, `INSERT INTO durable_claims
			(user_data, kind, token, claims, claimed_at, ends_at, created_at)
			SELECT user_data, kind, 'other', 1, 1, 1, created_at FROM durable_rows`}, ErrHeld},
		"row":      {[]string{`DELETE FROM durable_rows`}, ErrHeld},
		"timeline": {[]string{`UPDATE durable_control SET timeline = '000000AA'`}, ErrHeld},
		"server":   {[]string{`UPDATE durable_control SET fingerprint = 'another'`}, ErrHeld},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, db database) {
				if db.SQLite && (name == "timeline" || name == "server") {
					t.Skip("SQLite has no servers")
				}
				f := &service{}
				s := openStore(t, db, Config{Service: f, HoldOnlyOnRestore: name == "server"})
				send(t, s, payouts("a", 1)...)
				db.Exec(t, tt.change...)
				queue(t, s, payouts("a", 3)...)
				runBatch(t, s, tt.want)
				got := status(t, s)
				if tt.want == nil {
					assert.False(t, got.Hold)
					return
				}
				assert.Equal(t, 1, f.calls)
				assert.Equal(t, "durable", got.HoldBy)
			})
		})
	}
}

// The rows are restored, for example by .restore of sqlite3, while a process without an earlier claim runs. The process
// then claims in a round, or in a probe after a timed pause.
func TestRestoreBelowAnIdleProcessIsHeld(t *testing.T) {
	for name, pauseUntil := range map[string]string{"round": "0", "probe": "1"} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, db database) {
				f, w := &service{}, &markWitness{}
				s, idle := openStore(t, db, Config{Service: f, Witness: w}), openStore(t, db, Config{Service: f, Witness: w})
				queue(t, s, payouts("a", 3)...)
				backup, err := dbtest.CopyRows(t.Context(), db.DB)
				require.NoError(t, err)
				runBatch(t, s, nil)
				require.NoError(t, backup.Restore(t.Context(), db.DB))
				db.Exec(t, `UPDATE durable_control SET pause_until = `+pauseUntil)
				require.NoError(t, idle.Ready(t.Context()), "another transaction does not hide the restore")
				_, _ = idle.RunBatch(t.Context(), BatchLimit{}) // an error of its claims on PostgreSQL
				assert.Equal(t, 3, f.calls)
				got := status(t, idle)
				assert.True(t, got.Hold)
				assert.Contains(t, got.HoldReason, "behind the witness")
			})
		})
	}
}

// A round without the mark of the witness records its completions, and claims no rows.
func TestWitnessThatFailsStopsOnlyClaims(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		w := &markWitness{}
		s := openStore(t, db, Config{Witness: w})
		queue(t, s, payouts("a", 3)...)
		jobs := claim(t, s, 1, 0, "T")
		w.loadErr = errors.New("unavailable")
		got, err := rounder{s}.Round(t.Context(), schedule.Request[callResult]{
			Token: "U", Completions: []schedule.Completion[callResult]{completionOf(jobs[0], "o", 1)}, MaxRows: 1,
		})
		require.ErrorContains(t, err, "unavailable")
		assert.Len(t, got.Recorded, 1)
		assert.Empty(t, got.Jobs)
		if db.SQLite { // a claim would raise the mark above the mark of the witness
			assert.Equal(t, 2, db.Number(t, `SELECT COUNT(*) FROM durable_queue`))
		}
		w.loadErr, w.saveErr = nil, errors.New("full")
		got, err = rounder{s}.Round(t.Context(), schedule.Request[callResult]{Token: "V", Free: 1, MaxRows: 1})
		require.ErrorContains(t, err, "full")
		assert.Empty(t, got.Jobs, "claimed without a mark in the witness")
	})
}

func TestOpenRejectsUnsafeDatabases(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		c := config(Config{})
		c.Project = "another"
		openStore(t, db, Config{})
		_, err := Open(t.Context(), db.DB, c)
		require.ErrorIs(t, err, ErrUnsafeDatabase)
		assert.ErrorContains(t, err, `it belongs to project "test"`)
		c = config(Config{HoldOnlyOnRestore: true})
		c.AllowUnsafeDatabase = false
		setting := "synchronous_commit is"
		if db.SQLite { // the test's server has fsync off
			_, err = Open(t.Context(), db.DB, c)
			require.NoError(t, err)
			db.Exec(t, `PRAGMA synchronous = NORMAL`)
			setting = "synchronous is"
		} else {
			db = dbtest.Open(t, db.Address+"&synchronous_commit=local")
		}
		_, err = Open(t.Context(), db.DB, c)
		require.ErrorIs(t, err, ErrUnsafeDatabase)
		assert.ErrorContains(t, err, setting)
	})
}

// An uncommitted claim may have read the control row before the pause.
func TestDrainedWaitsForClaimsThatAreNotCommitted(t *testing.T) {
	db := postgres(t)
	s := openStore(t, db, Config{Service: &service{}})
	q := queue(t, s, payouts("a", 1)...)
	tx := begin(t, db.DB, `INSERT INTO durable_claims
		(user_data, kind, token, claims, claimed_at, ends_at, created_at)
		SELECT user_data, kind, 'T', 1, due_at, due_at + 1, created_at FROM durable_rows`)
	require.NoError(t, s.Pause(t.Context(), "person", "audit"))
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Drained(short), context.DeadlineExceeded)
	require.NoError(t, tx.Commit())
	short, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Drained(short), context.DeadlineExceeded)
	require.NoError(t, s.settle(t.Context(), job{Claim: ledger.Claim{UserData: q[0].UserData, Token: "T"}}, started("o")))
	require.NoError(t, s.Drained(t.Context()))
}

func TestPauseIsForAllProcessesAndDrains(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		called, release := make(chan struct{}, 1), make(chan struct{})
		f := &service{before: func(int, string) error { called <- struct{}{}; <-release; return nil }}
		s, other := openStore(t, db, Config{Service: f, Slots: 1}), openStore(t, db, Config{Service: f})
		queue(t, s, payouts("a", 3)...)
		ended := make(chan error)
		go func() { _, err := s.RunBatch(context.WithoutCancel(t.Context()), BatchLimit{}); ended <- err }()
		<-called
		require.NoError(t, other.Pause(t.Context(), "person", "month's end"))
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, other.Drained(short), context.DeadlineExceeded)
		close(release)
		require.NoError(t, other.Drained(t.Context()))
		require.ErrorIs(t, <-ended, ErrPaused)
		assert.Equal(t, 1, f.calls)
		require.ErrorIs(t, s.Pause(t.Context(), "", ""), ErrInvalid)
	})
}

// While an import or a page uses the connection, other callers wait only until the end of their context.
func TestWaitForTheConnectionEndsWithTheContext(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		db.SetMaxOpenConns(1)
		s := openStore(t, db, Config{})
		begin(t, db.DB)
		n := notice(payoutChanged, "u", "o", success)
		for name, f := range map[string]func(context.Context) error{
			"Ready":     s.Ready,
			"Drained":   s.Drained,
			"reconcile": s.reconcile,
			"ApplyNotice": func(ctx context.Context) error {
				return s.ledger.ApplyNotice(ctx, ledger.Notice{Key: n.Key(), OrderID: "o"}, true)
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			begun := time.Now()
			require.Error(t, f(ctx), name)
			assert.Less(t, time.Since(begun), ledger.Patience, name)
			cancel()
		}
	})
}

// Release commits in parts. After an error, it returns the number released so far, and the next Release continues.
func TestReleaseGoesOnWhereItFailed(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		for _, statement := range []string{
			`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
				INSERT INTO durable_rows (kind, user_data, reference, amount, state, generation, due_at, created_at, updated_at)
				SELECT 'payout', 'user-' || i, 'r-' || i, '10.50', 'created', CASE WHEN i = 1 THEN 0 ELSE 1 END, i,
					12000 - i, 0 FROM n`,
			`INSERT INTO durable_queue SELECT kind, generation, due_at, user_data, created_at FROM durable_rows`,
			`UPDATE durable_control SET generation = 2`,
			`CREATE UNIQUE INDEX fails ON durable_rows (generation) WHERE reference IN ('r-1', 'r-12000')`,
		} {
			db.Exec(t, statement)
		}
		n, err := s.Release(t.Context(), "person", 2, Filter{})
		require.ErrorContains(t, err, "constraint")
		assert.Equal(t, 10000, n)
		db.Exec(t, `DROP INDEX fails`)
		release(t, s, 2000)
	})
}

func TestPauseOfAPersonOutlastsWhatCallsReport(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{MaxConsecutiveRejections: 1})
		require.NoError(t, s.Pause(t.Context(), "person", "month's end"))
		for _, r := range []callResult{
			{Result: row.Result{Kind: row.CallerRejected}, effect: pauseUntilResume, reason: "dry"},
			{Result: row.Result{Kind: row.RowRejected, Code: "E1"}, effect: responded},
			{effect: pauseForTime, reason: "no response"},
		} {
			r.job = job{Claim: ledger.Claim{Kind: row.Payout, UserData: "u", Token: "T"}}
			require.NoError(t, s.applyEffects(t.Context(), r))
			got := status(t, s)
			assert.Equal(t, "person: month's end", got.By+": "+got.Reason)
			assert.True(t, got.Paused)
			assert.Zero(t, got.Until)
		}
	})
}

func TestPauseIsEndedByItsOwnProbeAlone(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		db.Exec(t, pauseUntil(time.Now().Add(10*time.Minute)))
		want := status(t, s).Until
		assert.False(t, want.IsZero())
		for _, e := range []effect{responded, noEffect, pauseForTime} {
			late := job{Claim: ledger.Claim{Kind: row.Payout, UserData: "u", Token: "old"}, probe: true}
			require.NoError(t, s.applyEffects(t.Context(), callResult{job: late, Result: row.Result{Kind: row.CallerRejected},
				effect: e}))
			assert.Equal(t, want, status(t, s).Until, e)
		}
	})
}

func TestReadyReadsWhatItWrote(t *testing.T) {
	db := sqlite(t)
	s := openStore(t, db, Config{})
	require.NoError(t, s.Ready(t.Context()))
	db.Exec(t, `CREATE TRIGGER lost AFTER UPDATE OF heartbeat ON durable_control
		BEGIN UPDATE durable_control SET heartbeat = 0; END`)
	require.ErrorContains(t, s.Ready(t.Context()), "the database lost a committed write")
}

// The end of a probe's pause never counts as impossible, however long a lease is.
func TestProbeWithALongLeaseIsAlone(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{Lease: time.Hour})
		queue(t, s, payouts("a", 2)...)
		db.Exec(t, `UPDATE durable_control SET pause_until = 1`)
		for _, want := range []int{1, 0} {
			jobs, err := rounder{s}.Probe(t.Context(), "T")
			require.NoError(t, err)
			assert.Len(t, jobs, want)
		}
	})
}

func TestPauseSaysWhenItEndsByItself(t *testing.T) {
	var out safeBuffer
	s := openStore(t, sqlite(t), Config{Log: slog.New(slog.NewTextHandler(&out, nil))})
	_, j := claimed1(t, s, KindPayout, "a")
	require.NoError(t, s.settle(t.Context(), j, callResult{
		Result: row.Result{Kind: row.CallerRejected, Wait: time.Second}, effect: pauseForTime, reason: "HTTP 429",
	}))
	assert.Contains(t, out.String(), "HTTP 429; the pause ends automatically at 20")
}

func TestOpenWarnsWithoutAWitness(t *testing.T) {
	for _, w := range []Witness{nil, FileWitness(filepath.Join(t.TempDir(), "mark"))} {
		var out safeBuffer
		openStore(t, sqlite(t), Config{Witness: w, Log: slog.New(slog.NewTextHandler(&out, nil))})
		assert.Equal(t, w == nil, strings.Contains(out.String(), "Config.Witness"))
	}
}
