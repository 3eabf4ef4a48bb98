package store_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

// decision is what a person decides who has just looked.
func (b *books) decision(kind store.DecisionKind, orderID string) store.Decision {
	b.t.Helper()
	r, err := b.Row(b.t.Context(), b.table, "u")
	require.NoError(b.t, err)
	return store.Decision{Table: b.table, UserData: "u", Kind: kind, OrderID: orderID, By: "ann", Seen: r.Version()}
}

// decide decides it, and gives what was enqueued.
func (b *books) decide(d store.Decision) (enqueued []string, err error) {
	b.t.Helper()
	err = b.Decide(b.t.Context(), d, func(_ context.Context, _ *sql.Tx, userData ...string) error {
		enqueued = append(enqueued, userData...)
		return nil
	})
	return enqueued, err
}

func kinds() []store.DecisionKind {
	return []store.DecisionKind{
		store.DecidePaid, store.DecideUnpaid, store.DecideFound, store.DecideAgain, store.DecideAsk, store.DecideSeen, "melt", "",
	}
}

// decidable is what each decision makes of each state: "" where it is refused. Those of a state that calls for a person
// are in the second table.
func decidable(table store.Table, attention bool) map[store.State]map[store.DecisionKind]store.State {
	if attention {
		settled := func(s store.State) map[store.DecisionKind]store.State {
			return map[store.DecisionKind]store.State{
				store.DecidePaid: store.StateSucceeded, store.DecideUnpaid: store.StateFailed, store.DecideSeen: s,
			}
		}
		stuck := map[store.DecisionKind]store.State{}
		if table == store.Payouts { // it is refused again and again, for the caller
			stuck[store.DecideUnpaid], stuck[store.DecideAgain] = store.StateFailed, store.StateCreated
		}
		return map[store.State]map[store.DecisionKind]store.State{
			store.StateCreated: stuck, store.StateStarting: {},
			store.StatePending: settled(store.StatePending), store.StateSucceeded: settled(store.StateSucceeded),
			store.StateFailed: settled(store.StateFailed), store.StateRejected: settled(store.StateRejected),
		}
	}
	unknown := map[store.DecisionKind]store.State{
		store.DecidePaid: store.StateSucceeded, store.DecideUnpaid: store.StateFailed, store.DecideFound: store.StatePending,
	}
	if table == store.Orders {
		unknown[store.DecideAsk] = store.StateUnknown
	} else {
		unknown[store.DecideAgain] = store.StateCreated
	}
	return map[store.State]map[store.DecisionKind]store.State{
		store.StateCreated: {}, store.StateStarting: {}, store.StateUnknown: unknown,
		store.StatePending: {store.DecidePaid: store.StateSucceeded, store.DecideUnpaid: store.StateFailed},
		// What is final stays, unless something calls for a person.
		store.StateSucceeded: {}, store.StateFailed: {}, store.StateRejected: {},
	}
}

func TestADecisionFitsTheState(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		for _, attention := range []bool{false, true} {
			for state, allowed := range decidable(b.table, attention) {
				for _, kind := range kinds() {
					name := string(state) + ", " + string(kind)
					if attention {
						name += ", needing a person"
					}
					b.sub(name, func(t *testing.T) {
						b.bring("u", state)
						if attention {
							_, err := b.DB().ExecContext(t.Context(), `UPDATE `+string(b.table)+` SET attention = 'look'`)
							require.NoError(t, err)
						}
						orderID := ""
						if kind == store.DecideFound {
							orderID = "o-9"
						}
						before, shown := b.row("u"), b.decision(kind, orderID)
						seen, err := b.Row(t.Context(), b.table, "u")
						require.NoError(t, err)
						enqueued, err := b.decide(shown)
						to, ok := allowed[kind]
						assert.Equal(t, ok, seen.Allows(kind), "what the page offers")
						if !ok {
							require.ErrorIs(t, err, store.ErrUndecidable)
							assert.Equal(t, before, b.row("u"))
							return
						}
						require.NoError(t, err)
						after := b.row("u")
						assert.Equal(t, to, after.State)
						if kind != store.DecideAsk {
							assert.Empty(t, after.Attention)
						}
						if kind == store.DecideAgain {
							assert.Equal(t, []string{"u"}, enqueued)
							assert.True(t, after.Doubted, "a later refusal may mean that the service has it")
							assert.Equal(t, before.Attempts, after.Attempts)
							b.claim("u") // it is due
						} else {
							assert.Empty(t, enqueued)
						}
					})
				}
			}
		}
	})
}

func TestADecisionIsKeptWithWhatItRestsOn(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.bring("u", store.StateUnknown)
		_, err := b.decide(b.decision(store.DecideFound, "o-5"))
		require.NoError(t, err)
		b.Add(1e9)
		_, err = b.decide(b.decision(store.DecidePaid, ""))
		require.NoError(t, err)
		list, err := b.Decisions(t.Context(), b.table, "u")
		require.NoError(t, err)
		assert.Equal(t, []store.Decision{
			{Table: b.table, UserData: "u", Kind: store.DecidePaid, By: "ann", State: store.StatePending, At: b.Now()},
			{
				Table: b.table, UserData: "u", Kind: store.DecideFound, OrderID: "o-5", By: "ann",
				State: store.StateUnknown, Attention: "nobody knows", At: b.Now().Add(-1e9),
			},
		}, list)
		_, err = b.DB().ExecContext(t.Context(), `DELETE FROM decisions`)
		require.NoError(t, err)
	})
}

func TestADecisionAboutWhatHasChangedIsRefused(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		for _, test := range []struct {
			name   string
			change func()
		}{
			{"a notification came", func() { b.apply(b.notice("o-1", "u", paymentsvc.StatusSuccess)) }},
			{"another person decided", func() {
				_, err := b.decide(b.decision(store.DecideUnpaid, ""))
				require.NoError(b.t, err)
			}},
			{"another reason to look came", func() {
				_, err := b.DB().ExecContext(b.t.Context(), `UPDATE `+string(b.table)+` SET attention = 'another one'`)
				require.NoError(b.t, err)
			}},
		} {
			b.sub(test.name, func(t *testing.T) {
				b.bring("u", store.StateUnknown)
				d := b.decision(store.DecidePaid, "")
				test.change()
				before := b.row("u")
				_, err := b.decide(d)
				require.ErrorIs(t, err, store.ErrChanged)
				assert.Equal(t, before, b.row("u"))
			})
		}
		b.sub("it is gone", func(t *testing.T) {
			b.bring("u", store.StateUnknown)
			d := b.decision(store.DecidePaid, "")
			b.empty()
			_, err := b.decide(d)
			require.ErrorIs(t, err, store.ErrNotFound)
		})
	})
}

func TestAnOrderIDThatAPersonGivesHasToFit(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.sub("another row's", func(t *testing.T) {
			b.bring("other", store.StatePending) // which has o-1
			b.add("u")
			require.NoError(t, b.Unknown(t.Context(), b.claim("u"), "", "", b.Now()))
			for _, kind := range []store.DecisionKind{store.DecideFound, store.DecidePaid} {
				_, err := b.decide(b.decision(kind, "o-1"))
				require.ErrorIs(t, err, store.ErrOrderID)
			}
		})
		b.sub("other than what is known", func(t *testing.T) {
			b.bring("u", store.StatePending)
			_, err := b.decide(b.decision(store.DecidePaid, "o-2"))
			require.ErrorIs(t, err, store.ErrOrderID)
			assert.Equal(t, "o-1", b.row("u").OrderID)
		})
		b.sub("none, where one is needed", func(t *testing.T) {
			b.bring("u", store.StateUnknown)
			_, err := b.decide(b.decision(store.DecideFound, ""))
			require.ErrorIs(t, err, store.ErrOrderID)
		})
		b.sub("one where none belongs", func(t *testing.T) {
			for _, kind := range []store.DecisionKind{store.DecideAgain, store.DecideAsk} {
				b.bring("u", store.StateUnknown)
				before := b.row("u")
				_, err := b.decide(b.decision(kind, "o-7"))
				require.Error(t, err, "what the service has is not sent again, and need not be asked for")
				require.Equal(t, before, b.row("u"))
				b.empty()
			}
			b.bring("u", store.StatePending)
			_, err := b.DB().ExecContext(t.Context(), `UPDATE `+string(b.table)+` SET attention = 'look'`)
			require.NoError(t, err)
			_, err = b.decide(b.decision(store.DecideSeen, "o-1"))
			require.ErrorIs(t, err, store.ErrOrderID)
		})
		b.sub("one that notifications wait for", func(t *testing.T) {
			b.bring("u", store.StateUnknown)
			b.apply(b.notice("o-7", "", paymentsvc.StatusSuccess))
			require.Equal(t, 1, b.waiting())
			_, err := b.decide(b.decision(store.DecideFound, "o-7"))
			require.NoError(t, err)
			assert.Equal(t, store.StateSucceeded, b.row("u").State)
			assert.Zero(t, b.waiting())
		})
		b.sub("one whose notification says otherwise", func(t *testing.T) {
			b.bring("u", store.StateUnknown)
			b.apply(b.notice("o-7", "", paymentsvc.StatusFailure))
			_, err := b.decide(b.decision(store.DecidePaid, "o-7"))
			require.NoError(t, err)
			got := b.row("u")
			assert.Equal(t, store.StateSucceeded, got.State)
			assert.NotEmpty(t, got.Attention, "a person has to look again")
		})
	})
}

func TestADecisionThatCannotBeEnqueuedIsNone(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		if b.table == store.Orders {
			return // they are not queued
		}
		b.bring("u", store.StateUnknown)
		before, away := b.row("u"), errors.New("the queue is away")
		err := b.Decide(t.Context(), b.decision(store.DecideAgain, ""), func(context.Context, *sql.Tx, ...string) error { return away })
		require.ErrorIs(t, err, away)
		assert.Equal(t, before, b.row("u"))
		list, err := b.Decisions(t.Context(), b.table, "u")
		require.NoError(t, err)
		assert.Empty(t, list)
	})
}

func TestWhatAPersonDecidedAndANotificationContradictsCallsForAPerson(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.bring("u", store.StateUnknown)
		_, err := b.decide(b.decision(store.DecideUnpaid, ""))
		require.NoError(t, err)
		b.apply(b.notice("o-1", "u", paymentsvc.StatusSuccess))
		got := b.row("u")
		assert.Equal(t, store.StateFailed, got.State)
		assert.NotEmpty(t, got.Attention)
		_, err = b.decide(b.decision(store.DecidePaid, ""))
		require.NoError(t, err)
		got = b.row("u")
		assert.Equal(t, store.StateSucceeded, got.State)
		assert.Empty(t, got.Attention)
	})
}

// A person was told that it was not paid, and then the answer of a stalled process says that the service has it.
func TestALateAnswerAfterAPersonsNoCallsForAPerson(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.add("u")
		c := b.claim("u")
		require.NoError(t, b.Unknown(t.Context(), c, "", "nobody knows", b.Now()))
		_, err := b.decide(b.decision(store.DecideUnpaid, ""))
		require.NoError(t, err)
		require.NoError(t, b.Started(t.Context(), c, "o-1", ""))
		assert.Equal(t, store.StateFailed, b.row("u").State)
		assert.NotEmpty(t, b.row("u").Attention)
	})
}
