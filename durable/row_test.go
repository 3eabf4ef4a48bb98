package durable

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// The state machine: what each fact makes of a row in each state.
func TestRowFollowsTheStateMachine(t *testing.T) {
	with := func(k Kind, st State, change ...func(*row)) row {
		r := row{Row: Row{Kind: k, State: st, Amount: ten, UserData: "u"}, token: "T", due: noDue}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	doubted := func(r *row) { r.Doubted = true }
	known := func(r *row) { r.OrderID = "o" }
	taken := func(r *row) { r.orderIDTaken = true }
	refusedBefore := func(r *row) { r.Refusal = "E1" }
	tests := []struct {
		name      string
		row       row
		token     string
		verdict   verdict
		taken     bool
		want      State
		doubted   bool
		attention string
	}{
		{"started", with(KindPayout, StateStarting), "T", verdict{is: factStarted, orderID: "o"}, false, StatePending, false, ""},
		{"started late", with(KindPayout, StateUnknown, doubted), "old", verdict{is: factStarted, orderID: "o"}, false, StatePending, true, ""},
		{"started after a return", with(KindPayout, StateCreated), "old", verdict{is: factStarted, orderID: "o"}, false, StatePending, false, ""},
		{"started though rejected", with(KindPayout, StateRejected), "T", verdict{is: factStarted, orderID: "o"}, false, StateRejected, false, "though it was rejected"},
		{"started though failed", with(KindPayout, StateFailed), "T", verdict{is: factStarted, orderID: "o"}, false, StateFailed, false, "counted as not paid"},
		{"started, taken", with(KindPayout, StateStarting), "T", verdict{is: factStarted, orderID: "o"}, true, StateUnknown, true, "another row has"},
		{"settled, taken", with(KindPayout, StateSucceeded, known), "T", verdict{is: factStarted, orderID: "p"}, true, StateSucceeded, false, "another row has"},
		{"two order_ids", with(KindPayout, StateStarting, known), "T", verdict{is: factStarted, orderID: "p"}, false, StateUnknown, true, "two order_ids"},
		{"unbegun", with(KindPayout, StateStarting), "T", verdict{is: factUnbegun}, false, StateCreated, false, ""},
		{"not sent", with(KindPayout, StateStarting), "T", verdict{is: factNotSent}, false, StateCreated, false, ""},
		{"not sent, late", with(KindPayout, StateStarting), "old", verdict{is: factNotSent}, false, "", false, ""},
		{"not sent, unknown", with(KindPayout, StateUnknown, doubted), "T", verdict{is: factNotSent}, false, "", true, ""},
		{"postponed", with(KindPayout, StateStarting), "T", verdict{is: factPostponed}, false, StateCreated, true, ""},
		{"stuck", with(KindPayout, StateStarting), "T", verdict{is: factPostponed, stuck: true}, false, StateCreated, true, refusedOften},
		{"refused", with(KindPayout, StateStarting), "T", verdict{is: factRefused, code: "E1"}, false, StateRejected, false, ""},
		{"refused, doubted", with(KindPayout, StateStarting, doubted), "T", verdict{is: factRefused}, false, StateUnknown, true, refusedLater},
		{"refused, doubted payment", with(KindPayment, StateStarting, doubted), "T", verdict{is: factRefused}, false, StateUnknown, true, ""},
		{"unknown", with(KindPayout, StateStarting), "T", verdict{}, false, StateUnknown, true, noAnswer},
		{"unknown payment", with(KindPayment, StateStarting), "T", verdict{}, false, StateUnknown, true, ""},
		{"unknown with order_id", with(KindPayout, StateStarting), "T", verdict{orderID: "o"}, false, StateUnknown, true, ""},
		{"unknown, taken", with(KindPayout, StateStarting), "T", verdict{orderID: "o"}, true, StateUnknown, true, "another row has"},
	}
	for _, tt := range tests {
		r := tt.row
		err := r.outcome(tt.token, tt.verdict, tt.taken)
		if tt.want == "" {
			require.ErrorIs(t, err, ErrChanged, tt.name)
			assert.Equal(t, tt.row, r, tt.name)
			continue
		}
		require.NoError(t, err, tt.name)
		assert.Equal(t, []any{tt.want, tt.doubted, tt.taken}, []any{r.State, r.Doubted, r.orderIDTaken}, tt.name)
		if assert.Contains(t, r.Attention, tt.attention, tt.name); tt.attention == "" {
			assert.Empty(t, r.Attention, tt.name)
		}
	}

	change := func(r row, f func(*row) error, want State) {
		t.Helper()
		err := f(&r)
		if want == "" {
			require.ErrorIs(t, err, ErrChanged)
			return
		}
		require.NoError(t, err)
		assert.Equal(t, want, r.State)
	}
	absent := func(late bool) func(*row) error { return func(r *row) error { return r.absent("T", late) } }
	change(with(KindPayment, StateUnknown), absent(false), StateCreated)
	change(with(KindPayment, StateUnknown), absent(true), StateRejected)
	change(with(KindPayment, StateUnknown, refusedBefore), absent(false), StateRejected)
	change(with(KindPayment, StateUnknown, known), absent(false), "")
	change(with(KindPayment, StateUnknown, taken), absent(false), "")
	change(with(KindPayment, StatePending), absent(false), "")
	change(with(KindPayout, StateUnknown), absent(false), "")
	change(with(KindPayment, StateUnknown), func(r *row) error { return r.absent("old", false) }, "")
	giveUp := func(r *row) error { return r.giveUp("T") }
	change(with(KindPayment, StateCreated), giveUp, StateRejected)
	change(with(KindPayment, StateCreated, doubted), giveUp, StateUnknown)
	change(with(KindPayment, StateStarting), giveUp, "")
	change(with(KindPayout, StateCreated), giveUp, "")
	change(with(KindPayment, StateCreated), func(r *row) error { return r.giveUp("old") }, "")
	change(with(KindPayout, StateStarting), func(r *row) error { return r.abandoned("old") }, "")
	change(with(KindPayout, StatePending), func(r *row) error { return r.abandoned("T") }, "")
	other := func(r *row) error { r.foundWith("o", paymentsvc.MustParseAmount("9"), false); return nil }
	change(with(KindPayout, StateCreated), other, StateUnknown)
	change(with(KindPayout, StateUnknown), other, StateUnknown)
	change(with(KindPayout, StateUnknown), func(r *row) error { r.foundWith("o", ten, false); return nil }, StatePending)
}

// Every change asks for the state, the token and the version again, whoever locks the row.
func TestRowThatHasChangedIsNotSaved(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		s := openStore(t, db, Config{})
		queue(t, s, payouts("a", 1)...)
		for _, change := range []string{`state = 'unknown'`, `token = 'another'`, `version = version + 1`, `state = state`} {
			err := s.change(t.Context(), derived("test", KindPayout, "a-0000"), "", func(ctx context.Context, tx *transaction, r *row) error {
				r.State = StateFailed
				_, err := s.exec(ctx, tx, `UPDATE durable_rows SET `+change)
				return err
			})
			if change == `state = state` {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, ErrChanged, change)
		}
	})
}

// What waits for a database counts for the next round only when it is committed with it.
func TestNextRoundTakesTheFreeSlots(t *testing.T) {
	now := time.Now()
	s := &Store{c: Config{Slots: 4, PerSecond: 2}.withDefaults(), now: func() time.Time { return now }}
	w := &worker{ctx: t.Context(), left: 10, hungry: true}
	s.worker, s.used, s.tokens, s.filled = w, 3, 9, now
	for _, id := range []string{"a", "b"} {
		s.queue = append(s.queue, &outcome{UserData: id, OrderID: id, Slot: 1})
	}
	a, _ := s.next()
	assert.Equal(t, []int{1, 2, 4}, []int{a.free, a.most, s.used}, "PerSecond allows two, one slot is free")
	s.tokens = -1.6
	assert.Zero(t, s.allowed(5), "a probe has taken more than there was")
	s.used, s.c.PerSecond = 4, 0
	s.queue = []*outcome{{UserData: "c", OrderID: "c", Slot: 1}, {UserData: "p", OrderID: "p"}}
	a, _ = s.next()
	assert.Equal(t, []int{0, 1, 4}, []int{a.free, a.most, s.used}, "a payment has no slot")
	s.used, s.paymentsDue = 0, true
	a, _ = s.next()
	assert.Equal(t, []int{4, 4, 2}, []int{a.free, a.most, a.payments})
	s.used, w.left = 0, 1
	a, _ = s.next()
	assert.Equal(t, []int{1, 1, 1}, []int{a.free, a.most, s.used}, "no slot is kept for rows that may not be claimed")
	twice := []*outcome{{UserData: "x", OrderID: "o", recorded: make(chan bool, 1)}, {UserData: "y", OrderID: "o", recorded: make(chan bool, 1)}}
	s.queue = twice
	a, _ = s.next()
	assert.Len(t, a.outcomes, 1)
	assert.Empty(t, twice[1].recorded, "not before the round that records the first has ended")
	s.alone(a.outcomes[0])
	assert.False(t, <-twice[1].recorded, "two rows cannot have one order_id")
	s.closed = true
	a, _ = s.next()
	assert.Zero(t, a.most)
}

// What a round did not claim may be claimed later, and what it has left out gets one more round before it goes alone.
func TestNextRoundTakesWhatTheLastHasLeft(t *testing.T) {
	s := &Store{c: Config{Slots: 4}.withDefaults(), now: time.Now, dialect: PostgreSQL}
	w := &worker{ctx: t.Context(), left: 10, hungry: true, rounds: make(chan struct{}, 1)}
	s.worker, s.making, s.used = w, 2, 2 // no other round begins
	o := &outcome{UserData: "a", OrderID: "a", Slot: 1, recorded: make(chan bool, 1)}
	s.queue = []*outcome{o}
	a, _ := s.next()
	assert.Equal(t, []int{3, 7, 4}, []int{a.most, w.left, s.used})
	s.done(t.Context(), a, w, answer{})
	assert.Equal(t, []int{10, 2}, []int{w.left, s.used})
	assert.Equal(t, []*outcome{o}, s.queue)
	assert.Empty(t, o.recorded)
	a, _ = s.next()
	s.done(t.Context(), a, w, answer{})
	assert.Empty(t, s.queue)
	assert.False(t, <-o.recorded)
}
