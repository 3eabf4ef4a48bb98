package store_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
)

// notice gives a notification for the rows of b. The numbers are made up: the document shows none.
func (b *books) notice(orderID, userData string, status paymentsvc.StatusName) *paymentsvc.Notification {
	event := paymentsvc.EventPaymentStatusChanged
	if b.table == store.Payouts {
		event = paymentsvc.EventPayoutStatusChanged
	}
	return &paymentsvc.Notification{
		Event: event, OrderID: orderID, Status: 1, StatusCode: 10, StatusDescription: status,
		Amount: paymentsvc.MustParseAmount("10.5"), UserData: userData,
	}
}

func (b *books) apply(n *paymentsvc.Notification) {
	b.t.Helper()
	require.NoError(b.t, b.ApplyNotification(b.t.Context(), n))
}

// waiting counts the notifications that have not been matched.
func (b *books) waiting() (n int) {
	b.t.Helper()
	require.NoError(b.t, b.DB().QueryRowContext(b.t.Context(), `SELECT COUNT(*) FROM notifications WHERE matched = 0`).Scan(&n))
	return n
}

// bring brings a new row into a state, with the order_id "o-1" where the state has one.
func (b *books) bring(userData string, state store.State) {
	b.t.Helper()
	b.add(userData)
	if state == store.StateCreated {
		return
	}
	c, ctx := b.claim(userData), b.t.Context()
	switch state {
	case store.StateUnknown:
		require.NoError(b.t, b.Unknown(ctx, c, "", "nobody knows", b.Now()))
	case store.StateRejected:
		require.NoError(b.t, b.Refused(ctx, c, "E17"))
	case store.StatePending, store.StateSucceeded, store.StateFailed:
		require.NoError(b.t, b.Started(ctx, c, "o-1", ""))
	}
	switch state {
	case store.StateSucceeded:
		b.apply(b.notice("o-1", userData, paymentsvc.StatusSuccess))
	case store.StateFailed:
		b.apply(b.notice("o-1", userData, paymentsvc.StatusFailure))
	}
	require.Equal(b.t, state, b.row(userData).State)
}

func TestANotificationLeadsToItsState(t *testing.T) {
	const (
		created, starting, unknown  = store.StateCreated, store.StateStarting, store.StateUnknown
		pending, succeeded, failed  = store.StatePending, store.StateSucceeded, store.StateFailed
		rejected                    = store.StateRejected
		success, failure, uncertain = paymentsvc.StatusSuccess, paymentsvc.StatusFailure, paymentsvc.StatusName("HELD")
		inDoubt                     = "The service has it, though it was refused: order_id o-1."
	)
	tests := []struct {
		from      store.State
		status    paymentsvc.StatusName
		to        store.State
		attention string
	}{
		{created, paymentsvc.StatusPending, pending, ""}, {created, success, succeeded, ""}, {created, failure, failed, ""},
		{starting, paymentsvc.StatusPending, pending, ""}, {starting, success, succeeded, ""}, {starting, failure, failed, ""},
		{unknown, paymentsvc.StatusPending, pending, ""}, {unknown, success, succeeded, ""}, {unknown, failure, failed, ""},
		{pending, paymentsvc.StatusPending, pending, ""}, {pending, success, succeeded, ""}, {pending, failure, failed, ""},

		{created, uncertain, pending, ""}, {unknown, uncertain, pending, ""}, {pending, uncertain, pending, ""},

		{succeeded, paymentsvc.StatusPending, succeeded, ""}, {succeeded, uncertain, succeeded, ""},
		{failed, paymentsvc.StatusPending, failed, ""}, {failed, uncertain, failed, ""},
		{succeeded, failure, succeeded, "The service says FAILURE after it was succeeded."},
		{failed, success, failed, "The service says SUCCESS after it was failed."},

		{rejected, paymentsvc.StatusPending, rejected, inDoubt}, {rejected, uncertain, rejected, inDoubt},
		{rejected, success, rejected, inDoubt + " The service says SUCCESS after it was rejected."},
		{rejected, failure, rejected, ""},
	}
	each(t, func(t *testing.T, b *books) {
		for _, test := range tests {
			b.sub(string(test.from)+" and "+string(test.status), func(t *testing.T) {
				b.bring("u", test.from)
				n := b.notice("o-1", "u", test.status)
				n.StatusCode = 99 // another than those before
				b.apply(n)
				got := b.row("u")
				assert.Equal(t, test.to, got.State)
				assert.Equal(t, test.attention, got.Attention)
				assert.Zero(t, b.waiting())
				before := got
				b.apply(n)
				assert.Equal(t, before, b.row("u"), "a repetition")
			})
		}
	})
}

func TestANotificationFindsItsRow(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.bring("u", store.StatePending) // as o-1
		b.bring("v", store.StateUnknown)
		b.apply(b.notice("o-2", "v", paymentsvc.StatusPending))
		assert.Equal(t, "o-2", b.row("v").OrderID, "by user_data, and the order_id is learnt")
		b.apply(b.notice("o-2", "", paymentsvc.StatusSuccess))
		assert.Equal(t, store.StateSucceeded, b.row("v").State, "by order_id")
		b.apply(b.notice("o-1", "somebody else's", paymentsvc.StatusSuccess))
		assert.Equal(t, store.StateSucceeded, b.row("u").State, "by order_id, with a user_data that we do not have")
		b.apply(b.notice("o-3", "nobody's", paymentsvc.StatusSuccess))
		assert.Equal(t, 1, b.waiting(), "not at all")
	})
}

func TestANotificationThatComesBeforeTheAnswerWaitsForIt(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.add("u")
		c := b.claim("u")
		b.apply(b.notice("o-1", "", paymentsvc.StatusPending))
		b.apply(b.notice("o-1", "", paymentsvc.StatusSuccess))
		b.apply(b.notice("o-2", "", paymentsvc.StatusFailure)) // another's
		assert.Equal(t, row{State: store.StateStarting, Attempts: 1}, b.row("u"))
		assert.Equal(t, 3, b.waiting())
		require.NoError(t, b.Started(t.Context(), c, "o-1", ""))
		assert.Equal(t, row{State: store.StateSucceeded, OrderID: "o-1", Attempts: 1}, b.row("u"))
		assert.Equal(t, 1, b.waiting())
	})
}

func TestANotificationAndTheAnswerAtOnceDoNotMissEachOther(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		for range 30 {
			userData, orderID := paymentsvc.NewUserData(), paymentsvc.NewUserData()
			b.add(userData)
			c := b.claim(userData)
			var wg sync.WaitGroup
			wg.Go(func() { assert.NoError(t, b.Started(t.Context(), c, orderID, "")) })
			wg.Go(func() {
				assert.NoError(t, b.ApplyNotification(t.Context(), b.notice(orderID, "", paymentsvc.StatusSuccess)))
			})
			wg.Wait()
			assert.Equal(t, store.StateSucceeded, b.row(userData).State)
		}
		assert.Zero(t, b.waiting())
	})
}

func TestANotificationSeesWhatIsBeingRecorded(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		b, other := open(t, databaseURL, store.Orders), open(t, databaseURL, store.Orders)
		b.add("u")
		b.claim("u")
		tx, err := b.DB().BeginTx(t.Context(), nil) // as NotSent does it, but for the time that it takes
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }()
		_, err = tx.ExecContext(t.Context(), `UPDATE orders SET state = 'created' WHERE user_data = 'u'`)
		require.NoError(t, err)
		applied := make(chan error)
		go func() {
			applied <- other.ApplyNotification(t.Context(), b.notice("o-1", "u", paymentsvc.StatusSuccess))
		}()
		require.Eventually(t, func() bool { // until it waits; that of SQLite cannot be seen
			waiting := 1
			if b.Postgres() {
				assert.NoError(t, b.DB().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting))
			}
			return waiting > 0
		}, 30*time.Second, 2*time.Millisecond)
		require.NoError(t, tx.Commit())
		require.NoError(t, <-applied)
		assert.Equal(t, store.StateSucceeded, b.row("u").State)
	})
}

func TestRepetitionsAtOnceAreOneNotification(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.bring("u", store.StatePending)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				assert.NoError(t, b.ApplyNotification(t.Context(), b.notice("o-1", "u", paymentsvc.StatusSuccess)))
			})
		}
		wg.Wait()
		assert.Equal(t, row{State: store.StateSucceeded, OrderID: "o-1", Attempts: 1}, b.row("u"))
		var n int
		require.NoError(t, b.DB().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM notifications WHERE order_id = 'o-1'`).Scan(&n))
		assert.Equal(t, 1, n)
	})
}

func TestAnotherAmountIsNotShippedFor(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		for _, from := range []store.State{store.StatePending, store.StateUnknown, store.StateCreated} {
			userData := string(from)
			b.add(userData)
			orderID := "o-" + userData
			switch from {
			case store.StatePending:
				require.NoError(t, b.Started(t.Context(), b.claim(userData), orderID, ""))
			case store.StateUnknown:
				require.NoError(t, b.Unknown(t.Context(), b.claim(userData), "", "", b.Now()))
			}
			n := b.notice(orderID, userData, paymentsvc.StatusSuccess)
			n.Amount = paymentsvc.MustParseAmount("1.05")
			b.apply(n)
			got := b.row(userData)
			assert.Equal(t, store.StatePending, got.State, from)
			assert.Equal(t, "The service says SUCCESS of 1.05 instead of 10.50.", got.Attention, from)
			b.apply(b.notice(orderID, userData, paymentsvc.StatusSuccess))
			assert.Equal(t, store.StateSucceeded, b.row(userData).State, from)
			assert.NotEmpty(t, b.row(userData).Attention, "a person has still to see it")
		}
	})
}

func TestAnotherOrderIDIsNotShippedFor(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.bring("u", store.StatePending)
		b.apply(b.notice("o-2", "u", paymentsvc.StatusSuccess))
		assert.Equal(t, row{State: store.StatePending, OrderID: "o-1", Attempts: 1,
			Attention: "The service has it under two order_ids: also o-2."}, b.row("u"))
		b.add("v")
		b.apply(b.notice("o-1", "v", paymentsvc.StatusSuccess))
		assert.Equal(t, row{State: store.StateUnknown, Doubted: true,
			Attention: "The service gave an order_id that another row has: o-1."}, b.row("v"))
	})
}

func TestOtherEventsAreStoredOnly(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.bring("u", store.StateSucceeded)
		before := b.row("u")
		for _, event := range []paymentsvc.EventType{paymentsvc.EventRefundStatusChanged, "payment.renamed"} {
			n := b.notice("o-1", "u", paymentsvc.StatusFailure)
			n.Event = event
			b.apply(n)
		}
		other := store.Payouts
		if b.table == store.Payouts {
			other = store.Orders
		}
		n := (&books{table: other}).notice("o-1", "u", paymentsvc.StatusFailure)
		b.apply(n)
		assert.Equal(t, before, b.row("u"))
		assert.Equal(t, 1, b.waiting(), "that of the other table, which has no such row")
	})
}

func TestANotificationThatTellsTheOrderIDAppliesThoseThatWaitedForIt(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.bring("u", store.StateUnknown)
		b.apply(b.notice("o-1", "", paymentsvc.StatusSuccess))
		b.apply(b.notice("o-1", "u", paymentsvc.StatusPending))
		assert.Equal(t, store.StateSucceeded, b.row("u").State)
		assert.Zero(t, b.waiting())
	})
}

// The failure is no news of a refused row, but its order_id is: the next notification may have no user_data.
func TestASuccessAfterTheFailureOfARefusedRowCallsForAPerson(t *testing.T) {
	success := func(b *books) { b.apply(b.notice("o-1", "", paymentsvc.StatusSuccess)) }
	failure := func(b *books) { b.apply(b.notice("o-1", "u", paymentsvc.StatusFailure)) }
	each(t, func(t *testing.T, b *books) {
		for name, inOrder := range map[string][]func(*books){"after": {failure, success}, "before": {success, failure}} {
			b.sub(name, func(t *testing.T) {
				b.bring("u", store.StateRejected)
				for _, notify := range inOrder {
					notify(b)
				}
				got := b.row("u")
				assert.Equal(t, store.StateRejected, got.State)
				assert.Contains(t, got.Attention, "SUCCESS")
				assert.Zero(t, b.waiting())
			})
		}
	})
}

func TestAFailureUnderTheOrderIDOfAnotherRowTellsNothingOfARefusedOne(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.bring("other", store.StatePending) // as o-1
		b.bring("u", store.StateRejected)
		b.apply(b.notice("o-1", "u", paymentsvc.StatusFailure))
		assert.Empty(t, b.row("u").OrderID)
		assert.Contains(t, b.row("u").Attention, "another row has: o-1")
		assert.Equal(t, store.StatePending, b.row("other").State)
	})
}

// A notification that cannot be stored would be sent for ever.
func TestANotificationOfAnyTextFindsItsRow(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // PostgreSQL compresses what it indexes
	long := make([]byte, 4000)
	for i := range long {
		long[i] = byte(' ' + 1 + random.IntN(94))
	}
	each(t, func(t *testing.T, b *books) {
		for name, orderID := range map[string]string{
			"NUL": "o-\x00-1", "no UTF-8": "o-\xff", "long": string(long), "long, with another end": string(long) + "!",
			"long, cut in a letter": strings.Repeat("я", 2000),
		} {
			b.sub(name, func(t *testing.T) {
				b.add("u")
				c := b.claim("u")
				n := b.notice(orderID, orderID, paymentsvc.StatusSuccess) // a user_data that is not ours
				n.StatusDescription = "SUCCESS"
				b.apply(n)
				odd := b.notice("o-2", "", "PEN\x00DING")
				odd.Event = "payment.\x00"
				b.apply(odd)
				require.NoError(t, b.Started(t.Context(), c, orderID, "https://pay.example/\x00"))
				assert.Equal(t, store.StateSucceeded, b.row("u").State)
				assert.LessOrEqual(t, len(b.row("u").OrderID), 1000)
				b.apply(b.notice(orderID+"?", "u", paymentsvc.StatusFailure))
				assert.Contains(t, b.row("u").Attention, "two order_ids")
			})
		}
	})
}
