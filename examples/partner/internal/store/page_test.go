package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
)

func TestADestinationIsMasked(t *testing.T) {
	for destination, want := range map[string]string{
		"4111111111111111": "•••• 1111",
		"+12025550101":     "•••• 0101",
		"12345678":         "•••• 5678",
		"1234567":          "••••",
		"":                 "••••",
		"ÄÖÜäöüßé":         "•••• öüßé",
	} {
		assert.Equal(t, want, store.Mask(destination))
	}
}

// pages reads all pages of a list.
func pages[T any](t *testing.T, read func(after string) ([]T, string, error)) (list [][]T) {
	t.Helper()
	for after := ""; ; {
		rows, next, err := read(after)
		require.NoError(t, err)
		list = append(list, rows)
		if next == "" {
			return list
		}
		require.NotEqual(t, after, next)
		after = next
	}
}

func TestPagesHoldEachRowOnce(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		var want []string
		for i := range 10 {
			if i%3 == 0 { // rows of one import share their time
				b.Add(time.Second)
			}
			userData := fmt.Sprintf("u%02d", i)
			b.add(userData)
			want = append(want, userData)
		}
		slices.Reverse(want)
		for _, limit := range []int{1, 3, 5, 10, 11} {
			got := pages(t, func(after string) ([]store.Row, string, error) {
				return b.Rows(t.Context(), store.Filter{Table: b.table, After: after, Limit: limit})
			})
			var names []string
			for i, page := range got {
				if i < len(got)-1 {
					assert.Len(t, page, limit)
				}
				for _, row := range page {
					names = append(names, row.UserData)
				}
			}
			assert.Equal(t, want, names, limit)
		}
		rows, _, err := b.Rows(t.Context(), store.Filter{Table: b.table, After: "no.cursor", Limit: 1})
		require.NoError(t, err)
		assert.Equal(t, "u09", rows[0].UserData, "what is no cursor is the first page")
	})
}

func TestRowsArePicked(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.add("created")
		b.bring("unknown", store.StateUnknown)
		b.bring("pending", store.StatePending)
		for _, test := range []struct {
			name   string
			filter store.Filter
			want   []string
		}{
			{"all", store.Filter{}, []string{"created", "pending", "unknown"}},
			{"of a state", store.Filter{State: store.StatePending}, []string{"pending"}},
			{"of no state", store.Filter{State: "melted"}, nil},
			{"needing a person", store.Filter{Attention: true}, []string{"unknown"}},
			{"needing a person, of another state", store.Filter{Attention: true, State: store.StatePending}, nil},
		} {
			test.filter.Table, test.filter.Limit = b.table, 10
			rows, _, err := b.Rows(t.Context(), test.filter)
			require.NoError(t, err)
			var names []string
			for _, row := range rows {
				names = append(names, row.UserData)
			}
			slices.Sort(names)
			assert.Equal(t, test.want, names, test.name)
		}
		if b.table == store.Payouts {
			for file, want := range map[string]int{"file": 3, "another": 0} {
				rows, _, err := b.Rows(t.Context(), store.Filter{Table: b.table, FileID: file, Limit: 10})
				require.NoError(t, err)
				assert.Len(t, rows, want, file)
			}
		}
		counts, err := b.Counts(t.Context(), b.table)
		require.NoError(t, err)
		assert.Equal(t, store.Counts{
			States:    map[store.State]int64{store.StateCreated: 1, store.StateUnknown: 1, store.StatePending: 1},
			Attention: 1, Parked: 1,
		}, counts)
	})
}

func TestARowShowsAllButTheDestination(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		made := b.Now()
		b.bring("u", store.StateUnknown)
		got, err := b.Row(t.Context(), b.table, "u")
		require.NoError(t, err)
		want := store.Row{
			Table: b.table, UserData: "u", Amount: paymentsvc.MustParseAmount("10.50"), State: store.StateUnknown, Attempts: 1,
			Doubted: true, Attention: "nobody knows", DueAt: made, CreatedAt: made, UpdatedAt: made,
		}
		if b.table == store.Orders {
			want.Type, want.Destination = "card", "••••"
		} else {
			want.Reference, want.Destination, want.FileID, want.Line = "u", "•••• 1111", "file", 1
		}
		assert.Equal(t, want, got)
		_, err = b.Row(t.Context(), b.table, "nobody")
		require.ErrorIs(t, err, store.ErrNotFound)
	})
}

func TestNotificationsAreListed(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		b.bring("u", store.StatePending)
		tell := func(n *paymentsvc.Notification) {
			b.Add(time.Second)
			b.apply(n)
		}
		tell(b.notice("o-1", "", paymentsvc.StatusSuccess))
		tell(b.notice("o-2", "", paymentsvc.StatusSuccess)) // of nobody yet
		refund := b.notice("o-1", "", paymentsvc.StatusSuccess)
		refund.Event = paymentsvc.EventRefundStatusChanged
		tell(refund)

		list := func(event paymentsvc.EventType, limit int) (told []string) {
			for _, page := range pages(t, func(after string) ([]store.Told, string, error) {
				return b.Notifications(t.Context(), string(event), after, limit)
			}) {
				for _, n := range page {
					told = append(told, fmt.Sprint(n.Event, " ", n.OrderID, " ", n.Matched))
				}
			}
			return told
		}
		event := string(b.notice("", "", "").Event)
		all := []string{"refund.status_changed o-1 true", event + " o-2 false", event + " o-1 true"}
		assert.Equal(t, all, list("", 1))
		assert.Equal(t, all, list("", 10))
		assert.Equal(t, all[:1], list(paymentsvc.EventRefundStatusChanged, 10))

		row, err := b.Row(t.Context(), b.table, "u")
		require.NoError(t, err)
		told, err := b.NotificationsOf(t.Context(), row)
		require.NoError(t, err)
		want := []string{"refund.status_changed", event}
		if b.table == store.Payouts {
			want = want[1:] // refunds are of payments
		}
		var got []string
		for _, n := range told {
			got = append(got, n.Event)
		}
		assert.Equal(t, want, got)
	})
}

func TestFilesAreListed(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		b := open(t, databaseURL, store.Payouts)
		for _, name := range []string{"one", "two", "three"} {
			_, err := b.AddPayoutFile(t.Context(), name, name+".csv")
			require.NoError(t, err)
			b.Add(time.Second)
		}
		files, err := b.Files(t.Context(), 2)
		require.NoError(t, err)
		require.Len(t, files, 2)
		assert.Equal(t, "three.csv two.csv", files[0].Name+" "+files[1].Name)
	})
}

func TestADatabaseBelongsToOneProjectOfOneService(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		b := open(t, databaseURL, store.Orders)
		require.NoError(t, b.BelongTo(t.Context(), "https://pay.example, project 1"))
		require.NoError(t, b.BelongTo(t.Context(), "https://pay.example, project 1"), "a restart")
		require.ErrorContains(t, b.BelongTo(t.Context(), "the fake"), "belongs to https://pay.example, project 1 and not to the fake")
	})
}
