package store_test

import (
	"fmt"
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

const lease = 2 * time.Minute

// clock is a time that the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// books is a store in a test.
type books struct {
	*store.Store
	*clock
	t     *testing.T
	table store.Table
}

// each runs f with either table on either database, with no rows in them.
func each(t *testing.T, f func(t *testing.T, b *books)) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		for _, table := range []store.Table{store.Orders, store.Payouts} {
			b := open(t, databaseURL, table)
			t.Run(string(table), func(t *testing.T) {
				b.t = t
				b.empty()
				f(t, b)
			})
		}
	})
}

// sub runs f as a test of its own, with no rows.
func (b *books) sub(name string, f func(t *testing.T)) {
	outer := b.t
	outer.Run(name, func(t *testing.T) {
		b.t = t
		b.empty()
		f(t)
	})
	b.t = outer
}

func (b *books) empty() {
	b.t.Helper()
	for _, table := range []string{"notifications", "orders", "payouts", "payout_files"} {
		_, err := b.DB().ExecContext(b.t.Context(), `DELETE FROM `+table)
		require.NoError(b.t, err)
	}
}

func open(t *testing.T, databaseURL string, table store.Table) *books {
	c := &clock{now: time.UnixMilli(1_800_000_000_000)}
	s, err := store.Open(t.Context(), store.Options{URL: databaseURL, Now: c.Now})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return &books{s, c, t, table}
}

// add stores a row that is created and due.
func (b *books) add(userData string) {
	b.t.Helper()
	now := b.Now().UnixMilli()
	var err error
	if b.table == store.Orders {
		_, err = b.DB().ExecContext(b.t.Context(), `INSERT INTO orders
			(user_data, payment_type, amount, state, due_at, created_at, updated_at)
			VALUES ($1, 'card', '10.50', 'created', $2, $2, $2)`, userData, now)
	} else {
		_, err = b.DB().ExecContext(b.t.Context(), `INSERT INTO payout_files (id, name, created_at)
			VALUES ('file', 'test', $1) ON CONFLICT (id) DO NOTHING`, now)
		require.NoError(b.t, err)
		_, err = b.DB().ExecContext(b.t.Context(), `INSERT INTO payouts
			(user_data, reference, file_id, line, amount, destination, state, due_at, created_at, updated_at)
			SELECT $1, $1, 'file', COUNT(*) + 1, '10.50', '4111111111111111', 'created', $2, $2, $2 FROM payouts`, userData, now)
	}
	require.NoError(b.t, err)
}

// row is what a test looks at.
type row struct {
	State     store.State
	OrderID   string
	Attempts  int
	Doubted   bool
	Refusal   string
	Attention string
}

func (b *books) row(userData string) (r row) {
	b.t.Helper()
	var doubted int
	err := b.DB().QueryRowContext(b.t.Context(), `SELECT state, COALESCE(order_id, ''), attempts, doubted, refusal, attention
		FROM `+string(b.table)+` WHERE user_data = $1`, userData).
		Scan(&r.State, &r.OrderID, &r.Attempts, &doubted, &r.Refusal, &r.Attention)
	require.NoError(b.t, err)
	r.Doubted = doubted == 1
	return r
}

// claim claims a row that must be there to be claimed.
func (b *books) claim(userData string) store.Claim {
	b.t.Helper()
	c, err := b.Claim(b.t.Context(), b.table, userData, lease)
	require.NoError(b.t, err)
	return c
}

func TestAnOutcomeLeadsToItsState(t *testing.T) {
	type outcome func(b *books, c store.Claim) error
	ctx := t.Context()
	notSent := func(b *books, c store.Claim) error { return b.NotSent(ctx, c, b.Now()) }
	postponed := func(b *books, c store.Claim) error { return b.Postponed(ctx, c, b.Now()) }
	refused := func(b *books, c store.Claim) error { return b.Refused(ctx, c, "E17") }
	started := func(b *books, c store.Claim) error { return b.Started(ctx, c, "o-1", "") }
	unknown := func(b *books, c store.Claim) error { return b.Unknown(ctx, c, "", "look", b.Now()) }
	named := func(b *books, c store.Claim) error { return b.Unknown(ctx, c, "o-1", "", b.Now()) }
	const doubtful = "Refused, but an earlier call may have been carried out. Ask the service whether it was paid."
	tests := []struct {
		name     string
		outcomes []outcome
		want     row
	}{
		{"not sent", []outcome{notSent}, row{State: store.StateCreated, Attempts: 1}},
		{"not sent, then started", []outcome{notSent, started}, row{State: store.StatePending, OrderID: "o-1", Attempts: 2}},
		{"not sent, then refused", []outcome{notSent, refused}, row{State: store.StateRejected, Attempts: 2, Refusal: "E17"}},
		{"postponed", []outcome{postponed}, row{State: store.StateCreated, Attempts: 1, Doubted: true}},
		{"postponed, then refused", []outcome{postponed, refused},
			row{State: store.StateUnknown, Attempts: 2, Doubted: true, Refusal: "E17", Attention: doubtful}},
		{"refused", []outcome{refused}, row{State: store.StateRejected, Attempts: 1, Refusal: "E17"}},
		{"started", []outcome{started}, row{State: store.StatePending, OrderID: "o-1", Attempts: 1}},
		{"unknown with an order_id", []outcome{named}, row{State: store.StateUnknown, OrderID: "o-1", Attempts: 1, Doubted: true}},
		{"unknown", []outcome{unknown}, row{State: store.StateUnknown, Attempts: 1, Doubted: true, Attention: "look"}},
	}
	each(t, func(t *testing.T, b *books) {
		for _, test := range tests {
			b.sub(test.name, func(t *testing.T) {
				b.add("u")
				for _, o := range test.outcomes {
					require.NoError(t, o(b, b.claim("u")))
				}
				want := test.want
				if b.table == store.Orders && want.Attention == doubtful {
					want.Attention = "" // nobody has to ask for an order: the reconciler does
				}
				assert.Equal(t, want, b.row("u"))
			})
		}
	})
}

func TestARowIsClaimedOnce(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		const rows, claimants = 10, 8
		for i := range rows {
			b.add(fmt.Sprint("u", i))
		}
		var mu sync.Mutex
		claims := map[string]int{}
		var wg sync.WaitGroup
		for range claimants {
			wg.Go(func() {
				for i := range rows {
					userData := fmt.Sprint("u", i)
					_, err := b.Claim(t.Context(), b.table, userData, lease)
					if err == nil {
						mu.Lock()
						claims[userData]++
						mu.Unlock()
						continue
					}
					assert.ErrorIs(t, err, store.ErrNotFound)
				}
			})
		}
		wg.Wait()
		assert.Len(t, claims, rows)
		for userData, n := range claims {
			assert.Equal(t, 1, n, userData)
			assert.Equal(t, row{State: store.StateStarting, Attempts: 1}, b.row(userData))
		}
	})
}

func TestNothingButACreatedRowThatIsDueIsClaimed(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		_, err := b.Claim(t.Context(), b.table, "nobody's", lease)
		assert.ErrorIs(t, err, store.ErrNotFound)
		b.add("u")
		require.NoError(t, b.NotSent(t.Context(), b.claim("u"), b.Now().Add(time.Minute)))
		_, err = b.Claim(t.Context(), b.table, "u", lease)
		assert.ErrorIs(t, err, store.ErrNotFound, "before it is due")
		b.Add(time.Minute)
		b.claim("u")
		for _, state := range []store.State{
			store.StateStarting, store.StateUnknown, store.StatePending, store.StateSucceeded, store.StateFailed, store.StateRejected,
		} {
			_, err := b.DB().ExecContext(t.Context(), `UPDATE `+string(b.table)+` SET state = $1, due_at = 0`, string(state))
			require.NoError(t, err)
			_, err = b.Claim(t.Context(), b.table, "u", lease)
			assert.ErrorIs(t, err, store.ErrNotFound, state)
		}
	})
}

func TestAnotherClaimRecordsNothing(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.add("u")
		old := b.claim("u")
		require.NoError(t, b.NotSent(t.Context(), old, b.Now()))
		b.claim("u")
		assert.ErrorIs(t, b.NotSent(t.Context(), old, b.Now()), store.ErrNotFound)
		assert.ErrorIs(t, b.Postponed(t.Context(), old, b.Now()), store.ErrNotFound)
		assert.ErrorIs(t, b.Refused(t.Context(), old, "E17"), store.ErrNotFound)
		assert.ErrorIs(t, b.Unknown(t.Context(), old, "", "", b.Now()), store.ErrNotFound)
		assert.Equal(t, row{State: store.StateStarting, Attempts: 2}, b.row("u"))
	})
}

func TestAClaimPastItsLeaseIsUnknown(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.add("u")
		c := b.claim("u")
		b.Add(lease - time.Millisecond)
		n, err := b.Abandoned(t.Context(), b.table, "look")
		require.NoError(t, err)
		assert.Zero(t, n)
		b.Add(time.Millisecond)
		n, err = b.Abandoned(t.Context(), b.table, "look")
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		want := row{State: store.StateUnknown, Attempts: 1, Doubted: true, Attention: "look"}
		assert.Equal(t, want, b.row("u"))
		// What the service said late is true; that it was not reached would be too, but says nothing of other attempts.
		assert.ErrorIs(t, b.NotSent(t.Context(), c, b.Now()), store.ErrNotFound)
		assert.ErrorIs(t, b.Refused(t.Context(), c, "E17"), store.ErrNotFound)
		assert.Equal(t, want, b.row("u"))
		require.NoError(t, b.Started(t.Context(), c, "o-1", ""))
		assert.Equal(t, row{State: store.StatePending, OrderID: "o-1", Attempts: 1, Doubted: true}, b.row("u"))
	})
}

func TestTwoOrderIDsCallForAPerson(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.add("u")
		c := b.claim("u")
		require.NoError(t, b.Started(t.Context(), c, "o-1", ""))
		require.NoError(t, b.Started(t.Context(), c, "o-1", ""), "the same again")
		assert.Empty(t, b.row("u").Attention)
		require.NoError(t, b.Started(t.Context(), c, "o-2", ""))
		require.NoError(t, b.Started(t.Context(), c, "o-2", ""))
		assert.Equal(t, row{State: store.StatePending, OrderID: "o-1", Attempts: 1,
			Attention: "The service has it under two order_ids: also o-2."}, b.row("u"))
	})
}

func TestAnOrderIDOfTwoRowsCallsForAPerson(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.add("u")
		b.add("v")
		require.NoError(t, b.Started(t.Context(), b.claim("u"), "o-1", ""))
		require.NoError(t, b.Started(t.Context(), b.claim("v"), "o-1", ""))
		assert.Equal(t, row{State: store.StatePending, OrderID: "o-1", Attempts: 1}, b.row("u"))
		assert.Equal(t, row{State: store.StateUnknown, Attempts: 1, Doubted: true,
			Attention: "The service gave an order_id that another row has: o-1."}, b.row("v"))
	})
}

func TestAnUnknownRowKeepsItsOrderID(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		ctx := t.Context()
		b.add("u")
		b.add("v")
		require.NoError(t, b.Unknown(ctx, b.claim("u"), "o-1", "", b.Now()))
		require.NoError(t, b.Unknown(ctx, b.claim("v"), "o-1", "", b.Now()))
		assert.Equal(t, row{State: store.StateUnknown, Attempts: 1, Doubted: true,
			Attention: "The service gave an order_id that another row has: o-1."}, b.row("v"))

		if b.table == store.Payouts {
			due, err := b.UnknownPayouts(ctx, 10)
			require.NoError(t, err)
			assert.Equal(t, []string{"u"}, due, "what has no order_id cannot be asked for")
		}
		require.NoError(t, b.Asking(ctx, b.table, "u", "", b.Now().Add(time.Second)))
		require.NoError(t, b.Found(ctx, b.table, "u", "o-1", paymentsvc.MustParseAmount("10.5")))
		assert.Equal(t, row{State: store.StatePending, OrderID: "o-1", Attempts: 1, Doubted: true}, b.row("u"))
	})
}

func TestANotificationMayComeBeforeTheOrderIDOfAnUnknownRow(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.add("u")
		c := b.claim("u")
		b.apply(b.notice("o-1", "", paymentsvc.StatusSuccess))
		require.NoError(t, b.Unknown(t.Context(), c, "o-1", "", b.Now()))
		assert.Equal(t, row{State: store.StateSucceeded, OrderID: "o-1", Attempts: 1, Doubted: true}, b.row("u"))
		assert.Zero(t, b.waiting())
	})
}

func TestAStartAfterARefusalCallsForAPerson(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.add("u")
		c := b.claim("u")
		require.NoError(t, b.Refused(t.Context(), c, "E17"))
		require.NoError(t, b.Started(t.Context(), c, "o-1", ""))
		assert.Equal(t, row{State: store.StateRejected, OrderID: "o-1", Attempts: 1, Refusal: "E17",
			Attention: "The service has it, though it was refused: order_id o-1."}, b.row("u"))
	})
}

func TestACodeIsShownIfItLooksLikeOne(t *testing.T) {
	answered := func(status int, code string) error {
		return &paymentsvc.Error{HTTPStatus: status, Err: &paymentsvc.ServiceError{Code: code}}
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{answered(402, "E17"), "E17"},
		{answered(402, "payments.no-money:7_a"), "payments.no-money:7_a"},
		{answered(402, ""), "HTTP 402"},
		{answered(200, "card 4111 1111 1111 1111"), "HTTP 200"},
		{answered(402, "E17\nE18"), "HTTP 402"},
		{answered(402, "größer"), "HTTP 402"},
		{answered(402, strings.Repeat("E", 64)), strings.Repeat("E", 64)},
		{answered(402, strings.Repeat("E", 65)), "HTTP 402"},
		{&paymentsvc.Error{Outcome: paymentsvc.OutcomeNotSent, Err: paymentsvc.ErrInvalidRequest}, "invalid request"},
	} {
		assert.Equal(t, test.want, store.Refusal(test.err))
	}
}

func TestAServicesCodeIsBoundedAndQuoted(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		for code, want := range map[string]string{
			"":                       "refused",
			"insufficient_balance":   "insufficient_balance",
			"line\nbreak":            `"line\nbreak"`,
			"\xff":                   `"\xff"`,
			fmt.Sprintf("%0100d", 1): fmt.Sprintf("%064d", 0),
			"größer":                 `"gr\u00f6\u00dfer"`,
		} {
			userData := paymentsvc.NewUserData()
			b.add(userData)
			require.NoError(t, b.Refused(t.Context(), b.claim(userData), code))
			assert.Equal(t, want, b.row(userData).Refusal)
		}
	})
}
