package schedule

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// twoRounds returns two rounds in flight with one completion each. The scheduler has two slots.
func twoRounds(t *bench) (older, newer *flight) {
	t.Helper()
	t.next().record("a", "b")
	t.endCall()
	older = t.next()
	t.endCall()
	newer = t.next()
	require.Len(t, older.Completions, 1)
	require.Len(t, newer.Completions, 1)
	return older, newer
}

// The newer of two rounds in flight meets a pause. The older round ends later, without rows and without a pause.
func TestRunBatchReportsThePauseOfTheNewerRound(t *testing.T) {
	bubble(t, nil, func(t *bench) {
		t.start(t.Context(), 0)
		older, newer := twoRounds(t)
		newer.pause()
		older.record()
		require.ErrorIs(t, t.result(), ErrPaused)
		assert.Equal(t, 2, t.made)
	})
}

// The newer of two rounds finds no row, because the older round has locked the last one. Calls may make rows due again,
// so a free slot claims at once.
func TestNewerRoundDoesNotEndClaims(t *testing.T) {
	bubble(t, nil, func(t *bench) {
		t.start(t.Context(), 0)
		older, newer := twoRounds(t)
		newer.record()
		older.record("c")
		r := t.next()
		assert.Equal(t, 1, r.MaxRows)
		t.finish(r)
		assert.Equal(t, 3, t.made)
	})
}

// A failed round may have claimed a row for each of its slots, including the slots of its completions. The slots stay
// in use until the claims are released, whatever happens to the completions.
func TestFailedRoundKeepsItsSlotsUntilRelease(t *testing.T) {
	bubble(t, nil, func(t *bench) {
		released := make(chan error)
		var tokens []string
		t.ledger.release = func(all []string) error { tokens = append(tokens, all...); return <-released }
		recorded := make(chan struct{})
		t.ledger.record = func(Completion[string]) error { <-recorded; return nil }
		t.start(t.Context(), 0)
		t.next().record("a", "b")
		t.endCall()
		failed := t.next()
		failed.fail()
		assert.Equal(t, 3, t.slots(), "two calls, one of them without a record, and a claim")
		recorded <- struct{}{}
		released <- errCommit
		t.none()
		assert.Equal(t, 2, t.slots(), "a call and a claim")
		time.Sleep(time.Second)
		released <- nil
		require.ErrorIs(t, t.result(), errCommit)
		assert.Equal(t, []string{failed.Token, failed.Token}, tokens)

		// The commit may arrive even later, so later sweeps release the claims again.
		t.AddUnresolved("T")
		go func() { released <- nil }()
		require.NoError(t, t.ReleaseUnresolved(t.Context()))
		assert.Equal(t, []string{failed.Token, "T"}, tokens[2:])
	})
}

// A failed round may report that its completions are committed. Then only its claims are released.
func TestFailedRoundKeepsItsRecords(t *testing.T) {
	bubble(t, nil, func(t *bench) {
		released := make(chan error)
		t.ledger.release = func([]string) error { return <-released }
		t.ledger.record = func(c Completion[string]) error { assert.Fail(t, "recorded again", c.UserData); return nil }
		t.start(t.Context(), 0)
		t.next().record("a", "b")
		t.endCall()
		failed := t.next()
		failed.fail(failed.Completions[0].UserData)
		assert.Equal(t, 2, t.slots(), "a call and a claim")
		released <- nil
		require.ErrorIs(t, t.result(), errCommit)
	})
}

func TestUnresolvedClaimsAreBounded(t *testing.T) {
	s := New(Config[string, string]{})
	for i := range 3 * maxUnresolved {
		s.AddUnresolved(strconv.Itoa(i))
	}
	assert.Len(t, s.unresolved, maxUnresolved)
	assert.Equal(t, strconv.Itoa(2*maxUnresolved), s.unresolved[0])
}

// One statement can record neither two rows under one order_id nor two completions of one row. The second completion is
// recorded separately after the round.
func TestDuplicatesAreRecordedSeparately(t *testing.T) {
	for name, change := range map[string]func(*Completion[string]){
		"order_id":  func(c *Completion[string]) { c.OrderKey = "same" },
		"user_data": func(c *Completion[string]) { c.UserData = "same" },
	} {
		t.Run(name, func(t *testing.T) {
			var separate []string
			bubble(t, func(c *Config[string, string]) { c.Slots = 1 }, func(t *bench) {
				t.ledger.record = func(c Completion[string]) error { separate = append(separate, c.Done); return nil }
				record := func(name string) {
					c := success(name)
					c.Slot = 0
					change(&c)
					require.True(t, t.Go(func() { t.Record(t.Context(), c) }))
					synctest.Wait()
				}
				record("a")
				first := t.next()
				record("b")
				t.none()
				first.record()
				assert.Equal(t, []string{"b"}, separate)
			})
		})
	}
}

// A lock may have excluded a completion, so it takes part in one more round. A single writer has no such locks.
func TestExcludedCompletionGetsOneMoreRound(t *testing.T) {
	for _, rounds := range []int{1, 2} {
		var separate []string
		bubble(t, func(c *Config[string, string]) { c.MaxRounds = rounds }, func(t *bench) {
			t.ledger.record = func(c Completion[string]) error { separate = append(separate, c.UserData); return nil }
			t.Go(func() { t.Record(t.Context(), Completion[string]{UserData: "a", OrderKey: "a"}) })
			for range rounds {
				require.Empty(t, separate)
				t.next().end <- Result[string]{}
			}
			t.none()
			assert.Equal(t, []string{"a"}, separate)
		})
	}
}

// A database may be unavailable for ten minutes. After that, the lease decides about the row, and the slot is free.
func TestRecordIsRetriedForTenMinutes(t *testing.T) {
	for _, back := range []bool{false, true} {
		attempts := 0
		bubble(t, nil, func(t *bench) {
			begun := time.Now()
			t.ledger.record = func(Completion[string]) error {
				attempts++
				if back && time.Since(begun) > 9*time.Minute {
					return nil
				}
				return errCommit
			}
			t.start(t.Context(), 1)
			t.next().record("a")
			t.endCall()
			t.next().fail()
			time.Sleep(9*time.Minute + 50*time.Second)
			synctest.Wait()
			if !back {
				assert.Equal(t, 1, t.slots())
			}
			time.Sleep(20 * time.Second)
			require.NoError(t, t.result())
			assert.Greater(t, attempts, 100)
		})
	}
}

// When a timed pause is over, one row is tried alone.
func TestElapsedPauseIsProbedByOneRow(t *testing.T) {
	var probe func() ([]string, error)
	bubble(t, nil, func(t *bench) {
		t.ledger.probe = func() ([]string, error) { return probe() }
		probe = func() ([]string, error) { return []string{"a"}, nil }
		t.start(t.Context(), 2)
		t.next().elapse()
		t.none()
		assert.Equal(t, 1, t.slots())
		t.endCall() // the success ends the pause
		t.claiming().record("b")
		require.NoError(t, t.result())
		assert.Equal(t, 2, t.made)

		probe = func() ([]string, error) { return nil, nil } // another process probes
		t.start(t.Context(), 0)
		t.next().elapse()
		t.next().pause()
		require.ErrorIs(t, t.result(), ErrPaused)

		for _, jobs := range [][]string{nil, {"a", "b"}} {
			probe = func() ([]string, error) {
				if jobs == nil {
					return nil, errCommit
				}
				return jobs, nil
			}
			tokens := 0
			t.ledger.release = func([]string) error { tokens++; return nil }
			t.start(t.Context(), 0)
			t.next().elapse()
			require.Error(t, t.result())
			assert.Zero(t, t.made, "a call under an unknown claim")
			assert.Equal(t, 1, tokens)
		}
	})
}

// If the ledger claims more rows than allowed, no call begins.
func TestTooManyClaimsAreReleased(t *testing.T) {
	released := 0
	bubble(t, nil, func(t *bench) {
		t.ledger.release = func([]string) error { released++; return nil }
		t.start(t.Context(), 0)
		t.next().record("a", "b", "c")
		require.ErrorContains(t, t.result(), "round claimed 3 rows, want at most 2")
		assert.Zero(t, t.made)
		assert.Equal(t, 1, released)
	})
}

// A scan resumes after the last claimed row. After an empty scan, and at each poll, the next scan begins at the start.
func TestScanResumes(t *testing.T) {
	bubble(t, func(c *Config[string, string]) { c.Slots, c.MaxRounds, c.Poll = 1, 1, time.Minute }, func(t *bench) {
		stop := t.run()
		after := ""
		for _, name := range []string{"a", "b"} {
			r := t.next()
			assert.Equal(t, after, r.After.Payouts.Key)
			result := recorded(r.Request, name)
			result.Next.Payouts.Key = name
			r.end <- result
			t.endCall()
			after = name
		}
		r := t.next()
		assert.Equal(t, after, r.After.Payouts.Key)
		r.record()
		r = t.next()
		assert.Zero(t, r.After, "the scan did not begin anew")
		r.record()
		stop()
		require.NoError(t, t.result())
	})
}

// After the end of its context, Run begins no new work and returns after the records of its calls.
func TestRunDrains(t *testing.T) {
	bubble(t, nil, func(t *bench) {
		stop := t.run()
		t.next().record("a", "b")
		t.endCall()
		r := t.next()
		stop()
		r.record()
		t.endCall()
		r = t.next()
		assert.False(t, t.Go(func() {}), "a new payment")
		assert.Zero(t, r.MaxRows, "a claim after the stop")
		assert.Empty(t, t.batch, "Run returned before the record")
		t.finish(r)
	})
}

// An unavailable database does not keep Run from returning, because the leases end the claims.
func TestRunReturnsWithoutADatabase(t *testing.T) {
	bubble(t, nil, func(t *bench) {
		t.ledger.release = func([]string) error { return errCommit }
		t.ledger.record = func(Completion[string]) error { return errCommit }
		stop := t.run()
		t.next().record("a", "b")
		for range 2 {
			t.endCall()
			r := t.next()
			assert.Len(t, r.Completions, 1)
			r.fail()
		}
		stop()
		time.Sleep(time.Minute)
		require.NoError(t, t.result())
	})
}

// A poll begins during a round. The round has not seen the rows that the poll looks for.
func TestPollOutlivesRoundInFlight(t *testing.T) {
	bubble(t, func(c *Config[string, string]) { c.Poll = time.Minute }, func(t *bench) {
		stop := t.run()
		r := t.next()
		time.Sleep(61 * time.Second)
		r.record()
		t.next().record()
		t.none()
		stop()
		require.NoError(t, t.result())
	})
}

// Notifications may have arrived for an order before its commit, so the next round looks for them.
func TestNextRoundLooksForEarlyNotifications(t *testing.T) {
	bubble(t, nil, func(t *bench) {
		t.start(t.Context(), 0)
		t.next().record("a", "b")
		t.endCall()
		r := t.next()
		a := r.Completions[0].OrderID
		r.record()
		t.none()
		t.endCall()
		r = t.next()
		assert.Equal(t, []string{a}, r.OrderIDs)
		b := r.Completions[0].OrderID
		r.record()
		r = t.next()
		assert.Equal(t, []string{b}, r.OrderIDs, "the scan at the end looks too")
		t.finish(r)
	})
}

// A changed server is recognized once, and claims continue. If each round meets another server, the batch ends.
func TestRunEndsAfterTooManyUnrecognizedServers(t *testing.T) {
	for servers, want := range map[int]error{2: nil, 100: errServers} {
		bubble(t, nil, func(t *bench) {
			met := 0
			t.ledger.round = func(r Request[string]) (Result[string], error) {
				result := recorded(r)
				met++
				result.Recognized = met <= servers
				return result, nil
			}
			t.start(t.Context(), 0)
			require.ErrorIs(t, t.result(), want)
			assert.LessOrEqual(t, met, maxServers+1)
		})
	}
}

// A probe needs a free slot and a row within the limit, and counts as a claim only if it claims.
func TestProbeKeepsLimits(t *testing.T) {
	bubble(t, func(c *Config[string, string]) { c.Slots = 1 }, func(t *bench) {
		probes := 0
		t.ledger.probe = func() ([]string, error) { probes++; return nil, nil }
		t.start(t.Context(), 1)
		for range 3 {
			t.claiming().elapse()
		}
		t.claiming().record("a")
		require.NoError(t, t.result())
		assert.Equal(t, []int{3, 1}, []int{probes, t.made})

		w := &worker{left: 1}
		t.mu.Lock()
		t.used = 1
		t.startProbe(w)
		t.used = 0
		w.left = 0
		t.startProbe(w)
		t.mu.Unlock()
		synctest.Wait()
		assert.Equal(t, 3, probes)
	})
}

// At the end of its context, RunBatch makes no further claims and waits for the calls in flight.
func TestRunBatchEndsWithItsContext(t *testing.T) {
	bubble(t, nil, func(t *bench) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		t.start(ctx, 0)
		t.next().record("a", "b")
		time.Sleep(time.Hour)
		t.endCall()
		r := t.next()
		assert.Zero(t, r.MaxRows, "a claim after the end")
		assert.Empty(t, t.batch)
		t.finish(r)
		assert.Equal(t, 2, t.made)
	})
}

// A separate record frees its slot, and the next claim does not wait for a poll.
func TestSeparateRecordStartsTheNextClaim(t *testing.T) {
	bubble(t, func(c *Config[string, string]) {
		c.Slots = 1
		c.Call = func(_ context.Context, job string) Completion[string] {
			return Completion[string]{UserData: job, Slot: 1}
		}
	}, func(t *bench) {
		stop := t.run()
		t.next().record("a")
		r := t.next()
		assert.Equal(t, 1, r.MaxRows)
		stop()
		t.finish(r)
	})
}

// A round that may claim no payments proves nothing about payments. With one slot, every second round may claim no
// payments.
func TestRoundWithoutPaymentsDoesNotEndClaims(t *testing.T) {
	bubble(t, func(c *Config[string, string]) { c.Slots = 1 }, func(t *bench) {
		for _, want := range []int{1, 0} {
			t.start(t.Context(), 0)
			r := t.next()
			assert.Equal(t, want, r.MaxPayments)
			r.record()
			if want == 1 {
				require.NoError(t, <-t.batch)
			}
		}
		r := t.next()
		assert.Equal(t, 1, r.MaxPayments)
		result := recorded(r.Request, "a")
		result.Payments = 1
		r.end <- result
		require.NoError(t, t.result())
		assert.Equal(t, 1, t.made)
	})
}

// At a rate of less than one claim per minRefill, a timer starts the round of the next claim.
func TestPerSecondStartsTheNextRoundInTime(t *testing.T) {
	bubble(t, func(c *Config[string, string]) { c.PerSecond = 0.5 }, func(t *bench) {
		t.mu.Lock()
		t.tokens, t.filled = 0, time.Now()
		t.refill()
		assert.Nil(t, t.refillTimer, "without a worker, no claim waits")
		t.mu.Unlock()
		time.Sleep(time.Hour)
		t.start(t.Context(), 2)
		first := t.next()
		assert.Equal(t, 1, first.MaxRows, "claims are not saved for a burst")
		assert.Nil(t, t.refillTimer, "a claim is allowed now")
		first.record("a")
		time.Sleep(time.Second)
		t.endCall()
		r := t.next()
		assert.Zero(t, r.MaxRows)
		r.record()
		time.Sleep(time.Second - time.Millisecond)
		t.none()
		time.Sleep(2 * time.Millisecond)
		r = t.next()
		assert.Equal(t, 1, r.MaxRows)
		r.record("b")
		require.NoError(t, t.result())
	})
}

// At a high rate, the claims of 50 ms share a round.
func TestPerSecondMakesNoSmallRounds(t *testing.T) {
	bubble(t, func(c *Config[string, string]) { c.PerSecond, c.Slots = 100, 200 }, func(t *bench) {
		t.start(t.Context(), 0)
		first := t.next()
		first.record(numbered(0, first.MaxRows)...)
		time.Sleep(minRefill - time.Millisecond)
		t.none()
		time.Sleep(time.Millisecond)
		r := t.next()
		assert.Equal(t, 5, r.MaxRows)
		t.finish(r)
	})
}

// The scan of an idle worker decides whether due rows remain. A second round would lock rows, which the scan would
// skip.
func TestNoOtherRoundClaimsDuringTheScanOfAnIdleWorker(t *testing.T) {
	bubble(t, func(c *Config[string, string]) { c.Poll = time.Second }, func(t *bench) {
		release := make(chan struct{})
		t.ledger.release = func([]string) error { <-release; return nil }
		stop := t.run()
		t.next().record("a", "b")
		t.endCall()
		t.next().fail()
		t.endCall()
		t.next().record()
		assert.Equal(t, 1, t.slots(), "an unresolved claim")
		time.Sleep(time.Second)
		scan := t.next()
		assert.Equal(t, 1, scan.MaxRows)
		close(release)
		t.Go(func() { t.Record(t.Context(), Completion[string]{UserData: "paid", OrderKey: "paid"}) })
		r := t.next()
		assert.Len(t, r.Completions, 1)
		assert.Zero(t, r.MaxRows, "of the free slot")
		r.record()
		scan.record("c")
		r = t.next()
		assert.Equal(t, 1, r.MaxRows, "claims continue after the scan")
		stop()
		t.finish(r)
	})
}

// The claims of a failed round or probe are released, so they do not count for PerSecond.
func TestFailedRoundReturnsItsClaims(t *testing.T) {
	bubble(t, func(c *Config[string, string]) { c.PerSecond, c.Poll = 0.5, time.Second }, func(t *bench) {
		stop := t.run()
		t.ledger.probe = func() ([]string, error) { return nil, errCommit }
		t.next().fail()
		time.Sleep(time.Second)
		r := t.next()
		assert.Equal(t, 1, r.MaxRows)
		r.elapse()
		time.Sleep(time.Second)
		r = t.next()
		assert.Equal(t, 1, r.MaxRows, "after a probe that failed")
		stop()
		t.finish(r)
	})
}

// Completions of short calls share a round. A completion waits for a hanging call at most for a round.
func TestCompletionsWaitForShortCalls(t *testing.T) {
	for name, c := range map[string]struct {
		jobs        int
		round, call time.Duration
		wait        time.Duration // of the last completion
		want        int           // completions in the round
	}{
		"short calls":                  {2, time.Millisecond, 0, 0, 2},
		"a hanging call, short rounds": {2, 8 * time.Millisecond, 0, time.Millisecond, 1}, // an eighth enters the average
		"a hanging call, long rounds":  {2, time.Hour, 0, maxWait, 1},
		"a long call does not wait":    {2, time.Millisecond, time.Second, 0, 1},
		"a large round does not wait":  {2 * largeRound, time.Millisecond, 0, 0, largeRound},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(config *Config[string, string]) { config.Slots = c.jobs }, func(t *bench) {
				t.start(t.Context(), c.jobs)
				r := t.next()
				time.Sleep(c.round)
				r.record(numbered(0, c.jobs)...)
				time.Sleep(c.call)
				for range c.want - 1 {
					t.endCall()
				}
				t.none()
				t.endCall()
				if c.wait > 0 {
					time.Sleep(c.wait - time.Nanosecond)
					t.none()
					time.Sleep(time.Nanosecond)
				}
				r = t.next()
				assert.Len(t, r.Completions, c.want)
				t.finish(r)
			})
		})
	}
}
