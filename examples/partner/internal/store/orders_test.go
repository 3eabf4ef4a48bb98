package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
)

// eachOrders runs f on either database.
func eachOrders(t *testing.T, f func(t *testing.T, b *books)) {
	testdb.Each(t, func(t *testing.T, databaseURL string) { f(t, open(t, databaseURL, store.Orders)) })
}

func TestAnOrderComesBackAsItWas(t *testing.T) {
	eachOrders(t, func(t *testing.T, b *books) {
		ctx, made := t.Context(), b.Now()
		amount := paymentsvc.MustParseAmount("12345678901234567890.123400")
		c, err := b.CreateOrder(ctx, "u", paymentsvc.PaymentTypeSBP, amount, lease)
		require.NoError(t, err)
		want := store.Order{
			UserData: "u", Type: paymentsvc.PaymentTypeSBP, Amount: amount, State: store.StateStarting,
			Attempt: c.Attempt, Attempts: 1, ClaimedAt: made, DueAt: made.Add(lease), CreatedAt: made, UpdatedAt: made,
		}
		got, err := b.Order(ctx, "u")
		require.NoError(t, err)
		assert.Equal(t, want, got)

		b.Add(time.Second)
		require.NoError(t, b.Started(ctx, c, "o-1", "https://pay.example/1"))
		want.State, want.OrderID, want.RedirectURL, want.UpdatedAt = store.StatePending, "o-1", "https://pay.example/1", b.Now()
		got, err = b.Order(ctx, "u")
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
}

func TestAnOrderIsStoredOnce(t *testing.T) {
	eachOrders(t, func(t *testing.T, b *books) {
		_, err := b.CreateOrder(t.Context(), "u", paymentsvc.PaymentTypeCard, paymentsvc.MustParseAmount("1"), lease)
		require.NoError(t, err)
		_, err = b.CreateOrder(t.Context(), "u", paymentsvc.PaymentTypeCard, paymentsvc.MustParseAmount("2"), lease)
		require.Error(t, err)
		o, err := b.Order(t.Context(), "u")
		require.NoError(t, err)
		assert.Equal(t, "1", o.Amount.String())
		_, err = b.Order(t.Context(), "nobody's")
		assert.ErrorIs(t, err, store.ErrNotFound)
	})
}

func TestTheFirstRedirectURLIsKept(t *testing.T) {
	eachOrders(t, func(t *testing.T, b *books) {
		b.add("u")
		c := b.claim("u")
		require.NoError(t, b.Started(t.Context(), c, "o-1", "https://pay.example/1"))
		require.NoError(t, b.Started(t.Context(), c, "o-1", ""), "found by its user_data")
		require.NoError(t, b.Started(t.Context(), c, "o-2", "https://pay.example/2"), "another one's")
		o, err := b.Order(t.Context(), "u")
		require.NoError(t, err)
		assert.Equal(t, "https://pay.example/1", o.RedirectURL)
	})
}

func TestOrdersAreDueInTheirTurn(t *testing.T) {
	eachOrders(t, func(t *testing.T, b *books) {
		for _, userData := range []string{"c", "b", "a"} {
			b.add(userData)
			b.Add(time.Second)
		}
		due := func(state store.State, most int) (list []string) {
			orders, err := b.DueOrders(t.Context(), state, most)
			require.NoError(t, err)
			for _, o := range orders {
				list = append(list, o.UserData)
			}
			return list
		}
		assert.Equal(t, []string{"c", "b", "a"}, due(store.StateCreated, 10))
		assert.Equal(t, []string{"c", "b"}, due(store.StateCreated, 2))
		require.NoError(t, b.Unknown(t.Context(), b.claim("c"), "", "", b.Now().Add(time.Second)))
		assert.Equal(t, []string{"b", "a"}, due(store.StateCreated, 10))
		assert.Empty(t, due(store.StateUnknown, 10))
		b.Add(time.Second)
		assert.Equal(t, []string{"c"}, due(store.StateUnknown, 10))
	})
}

func TestAnUnknownOrderIsAskedForByOne(t *testing.T) {
	eachOrders(t, func(t *testing.T, b *books) {
		ctx := t.Context()
		b.bring("u", store.StateUnknown) // with a reason to look
		next := b.Now().Add(time.Minute)
		require.NoError(t, b.Asking(ctx, b.table, "u", "asked in vain", next))
		assert.ErrorIs(t, b.Asking(ctx, b.table, "u", "", next), store.ErrNotFound, "another process has")
		o, err := b.Order(ctx, "u")
		require.NoError(t, err)
		assert.Equal(t, 1, o.Asked)
		assert.Equal(t, next, o.DueAt)
		assert.Equal(t, "nobody knows", o.Attention)

		b.Add(time.Minute)
		require.NoError(t, b.Started(ctx, store.Claim{Table: store.Orders, UserData: "u"}, "o-1", ""))
		assert.ErrorIs(t, b.Asking(ctx, b.table, "u", "", next), store.ErrNotFound, "there is nothing to ask")
	})
}

func TestAnAbsentOrderMayBeStartedAgain(t *testing.T) {
	ctx := t.Context()
	for _, test := range []struct {
		name    string
		refused bool
		reason  string
		want    row
	}{
		{"it was not heard of", false, "", row{State: store.StateCreated, Attempts: 2, Doubted: true}},
		{"it was refused", true, "", row{State: store.StateRejected, Attempts: 2, Doubted: true, Refusal: "E17"}},
		{"it is late", false, "late", row{State: store.StateRejected, Attempts: 2, Doubted: true, Refusal: "late"}},
		{"it was refused and is late", true, "late", row{State: store.StateRejected, Attempts: 2, Doubted: true, Refusal: "E17"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachOrders(t, func(t *testing.T, b *books) {
				b.add("u")
				first := b.claim("u")
				require.NoError(t, b.Postponed(ctx, first, b.Now()))
				c := b.claim("u")
				assert.ErrorIs(t, b.Absent(ctx, "u", c.Attempt, test.reason), store.ErrNotFound, "it is being started")
				if test.refused {
					require.NoError(t, b.Refused(ctx, c, "E17"))
				} else {
					require.NoError(t, b.Unknown(ctx, c, "", "look", b.Now()))
				}
				assert.ErrorIs(t, b.Absent(ctx, "u", first.Attempt, test.reason), store.ErrNotFound, "that was asked before")
				require.NoError(t, b.Absent(ctx, "u", c.Attempt, test.reason))
				assert.Equal(t, test.want, b.row("u"))
				assert.ErrorIs(t, b.Absent(ctx, "u", c.Attempt, test.reason), store.ErrNotFound)
			})
		})
	}
}

func TestOrdersOfBuyersWhoHaveGoneAreGivenUp(t *testing.T) {
	eachOrders(t, func(t *testing.T, b *books) {
		ctx := t.Context()
		b.add("never left")
		b.add("doubtful")
		require.NoError(t, b.Postponed(ctx, b.claim("doubtful"), b.Now()))
		b.bring("pending", store.StatePending)
		b.Add(time.Minute)
		b.add("new")
		n, err := b.GiveUp(ctx, b.Now(), "late")
		require.NoError(t, err)
		assert.Equal(t, 2, n)
		assert.Equal(t, row{State: store.StateRejected, Refusal: "late"}, b.row("never left"))
		assert.Equal(t, row{State: store.StateUnknown, Attempts: 1, Doubted: true, Refusal: "late"}, b.row("doubtful"))
		assert.Equal(t, store.StatePending, b.row("pending").State)
		assert.Equal(t, store.StateCreated, b.row("new").State)
	})
}

// The service has said that it has the order, though under an order_id that cannot be its own.
func TestAnOrderThatWasAnsweredIsNotTakenForAbsent(t *testing.T) {
	const attention = "The service gave an order_id that another row has: o-1."
	eachOrders(t, func(t *testing.T, b *books) {
		ctx := t.Context()
		b.bring("other", store.StatePending) // as o-1
		b.add("u")
		c := b.claim("u")
		require.NoError(t, b.Started(ctx, c, "o-1", "https://pay.example/1"))
		b.Add(lease)
		for _, reason := range []string{"", "late"} {
			assert.ErrorIs(t, b.Absent(ctx, "u", c.Attempt, reason), store.ErrNotFound)
		}
		assert.Equal(t, row{State: store.StateUnknown, Attempts: 1, Doubted: true, Attention: attention}, b.row("u"))
		require.NoError(t, b.Started(ctx, c, "o-2", ""))
		assert.Equal(t, row{State: store.StatePending, OrderID: "o-2", Attempts: 1, Doubted: true, Attention: attention}, b.row("u"),
			"a person has still to see what o-1 was")
	})
}
