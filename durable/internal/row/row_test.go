package row

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

var ten = paymentsvc.MustParseAmount("10.50")

// Each case applies a fact to a row in a state.
func TestRowFollowsTheStateMachine(t *testing.T) {
	with := func(k Kind, st State, change ...func(*Row)) Row {
		r := Row{Kind: k, State: st, Amount: ten, UserData: "u", Token: "T", Claims: 3, Due: KeepDue}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	doubted := func(r *Row) { r.MayHaveStarted = true }
	known := func(r *Row) { r.OrderID = "o" }
	taken := func(r *Row) { r.OrderIDTaken = true }
	accepted, second := Result{Kind: Started, OrderID: "o"}, Result{Kind: Started, OrderID: "p"}
	refusedBefore := func(r *Row) { r.ErrorCode = "E1" }
	tests := []struct {
		name   string
		row    Row
		token  string
		result Result
		taken  bool
		want   State
		may    bool
		review string
	}{
		{"started", with(Payout, Starting), "T", accepted, false, Pending, false, ""},
		{"started late", with(Payout, Unknown, doubted), "old", accepted, false, Pending, true, ""},
		{"started after a return", with(Payout, Created), "old", accepted, false, Pending, false, ""},
		{"started though rejected", with(Payout, Rejected), "T", accepted, false, Rejected, false, "though it was rejected"},
		{"started though failed", with(Payout, Failed), "T", accepted, false, Failed, false, "counted as not paid"},
		{"started, taken", with(Payout, Starting), "T", accepted, true, Unknown, true, "another row has"},
		{"settled, taken", with(Payout, Succeeded, known), "T", second, true, Succeeded, false, "another row has"},
		{"two order_ids", with(Payout, Starting, known), "T", second, false, Unknown, true, "second order_id"},
		{"unbegun", with(Payout, Starting), "T", Result{Kind: NotCalled}, false, Created, false, ""},
		{"not sent", with(Payout, Starting), "T", Result{Kind: NotSent}, false, Created, false, ""},
		{"not sent, late", with(Payout, Starting), "old", Result{Kind: NotSent}, false, "", false, ""},
		{"not sent, unknown", with(Payout, Unknown, doubted), "T", Result{Kind: NotSent}, false, "", true, ""},
		{"postponed", with(Payout, Starting), "T", Result{Kind: CallerRejected}, false, Created, true, ""},
		{"stuck", with(Payout, Starting), "T", Result{Kind: CallerRejected, Stuck: true}, false, Created, true,
			RejectedOften},
		{"refused", with(Payout, Starting), "T", Result{Kind: RowRejected, Code: "E1"}, false, Rejected, false, ""},
		{"refused, doubted", with(Payout, Starting, doubted), "T", Result{Kind: RowRejected}, false, Unknown, true,
			RejectedLater},
		{"refused, doubted payment", with(Payment, Starting, doubted), "T", Result{Kind: RowRejected}, false, Unknown, true,
			""},
		{"unknown", with(Payout, Starting), "T", Result{}, false, Unknown, true, NoAnswer},
		{"unknown payment", with(Payment, Starting), "T", Result{}, false, Unknown, true, ""},
		{"unknown with order_id", with(Payout, Starting), "T", Result{OrderID: "o"}, false, Unknown, true, ""},
		{"late error", with(Payout, Unknown, doubted), "old", Result{}, false, "", true, ""},
		{"late error with order_id", with(Payout, Created), "old", Result{OrderID: "o"}, false, Unknown, true, ""},
		{"late error, called again", with(Payout, Starting), "old", Result{OrderID: "o"}, false, Unknown, true, ""},
		{"late error, decided", with(Payout, Failed), "old", Result{OrderID: "o"}, false, Failed, false,
			"counted as not paid"},
		{"late error, two order_ids", with(Payout, Pending, known), "old", Result{OrderID: "p"}, false, Pending, false,
			"second order_id"},
		{"unknown, taken", with(Payout, Starting), "T", Result{OrderID: "o"}, true, Unknown, true, "another row has"},
	}
	for _, tt := range tests {
		r := tt.row
		err := r.Complete(tt.token, tt.result, tt.taken)
		if tt.want == "" {
			require.ErrorIs(t, err, ErrChanged, tt.name)
			assert.Equal(t, tt.row, r, tt.name)
			continue
		}
		require.NoError(t, err, tt.name)
		assert.Equal(t, []any{tt.want, tt.may, tt.taken}, []any{r.State, r.MayHaveStarted, r.OrderIDTaken}, tt.name)
		assert.Contains(t, r.ReviewReason, tt.review, tt.name)
		if tt.review == "" {
			assert.Empty(t, r.ReviewReason, tt.name)
		}
	}

	change := func(r Row, f func(*Row) error, want State) {
		t.Helper()
		err := f(&r)
		if want == "" {
			require.ErrorIs(t, err, ErrChanged)
			return
		}
		require.NoError(t, err)
		assert.Equal(t, want, r.State)
	}
	absent := func(late bool) func(*Row) error { return func(r *Row) error { return r.Absent(3, late) } }
	change(with(Payment, Unknown), absent(false), Created)
	change(with(Payment, Unknown), absent(true), Rejected)
	change(with(Payment, Unknown, refusedBefore), absent(false), Rejected)
	change(with(Payment, Unknown, known), absent(false), "")
	change(with(Payment, Unknown, taken), absent(false), "")
	change(with(Payment, Pending), absent(false), "")
	change(with(Payout, Unknown), absent(false), "")
	change(with(Payment, Unknown), func(r *Row) error { return r.Absent(2, false) }, "")
	giveUp := func(r *Row) error { return r.GiveUp() }
	change(with(Payment, Created), giveUp, Rejected)
	change(with(Payment, Created, doubted), giveUp, Unknown)
	change(with(Payment, Starting), giveUp, "")
	change(with(Payout, Created), giveUp, "")
	change(with(Payout, Starting), func(r *Row) error { return r.EndLease("old") }, "")
	change(with(Payout, Pending), func(r *Row) error { return r.EndLease("T") }, "")
	other := func(r *Row) error { r.FoundWith("o", paymentsvc.MustParseAmount("9"), false); return nil }
	change(with(Payout, Created), other, Unknown)
	change(with(Payout, Unknown), other, Unknown)
	change(with(Payout, Unknown), func(r *Row) error { r.FoundWith("o", ten, false); return nil }, Pending)
}

// These notifications do not change the state. The row takes over the order_id only if no other row has it.
func TestNotificationsOfRowsWithoutAnOrderID(t *testing.T) {
	for _, tt := range []struct {
		name    string
		state   State
		status  paymentsvc.StatusName
		amount  string
		taken   bool
		orderID string
		review  string
	}{
		{"failure of a rejected row", Rejected, paymentsvc.StatusFailure, "9", false, "o", ""},
		{"failure of a failed row", Failed, paymentsvc.StatusFailure, "9", false, "o", ""},
		{"failure under another row's order_id", Failed, paymentsvc.StatusFailure, "10.50", true, "", "another row has"},
		{"other amount under another row's order_id", Unknown, paymentsvc.StatusSuccess, "9", true, "", "instead of 10.50"},
	} {
		r := Row{Kind: Payout, State: tt.state, Amount: ten, UserData: "u"}
		r.Notify("o", tt.status, paymentsvc.MustParseAmount(tt.amount), tt.taken)
		assert.Equal(t, []any{tt.state, tt.orderID}, []any{r.State, r.OrderID}, tt.name)
		assert.Contains(t, r.ReviewReason, tt.review, tt.name)
		if tt.review == "" {
			assert.Empty(t, r.ReviewReason, tt.name)
		}
	}
}
