package paymentsvc_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

func TestNotificationFinal(t *testing.T) {
	for _, event := range []paymentsvc.EventType{
		paymentsvc.EventPaymentStatusChanged, paymentsvc.EventPayoutStatusChanged, paymentsvc.EventRefundStatusChanged, "other",
	} {
		for _, status := range []paymentsvc.StatusName{paymentsvc.StatusPending, paymentsvc.StatusSuccess, paymentsvc.StatusFailure, "HELD"} {
			n := paymentsvc.Notification{Event: event, StatusDescription: status}
			want := event == paymentsvc.EventPaymentStatusChanged && (status == paymentsvc.StatusSuccess || status == paymentsvc.StatusFailure)
			assert.Equal(t, want, n.Final(), "%s %s", event, status)
		}
	}
}

// parsed is a notification as the webhook reads it.
func parsed(t testing.TB, body string) *paymentsvc.Notification {
	t.Helper()
	n, err := newHook(t).Parse(hookHeader(hookClockShown, body), []byte(body))
	require.NoError(t, err)
	return n
}

func TestNotificationKeyOfARefundTellsRefundsApart(t *testing.T) {
	const refund = `{"event":"refund.status_changed","order_id":"o-1","status":2,"status_description":"SUCCESS","status_code":20,` +
		`"amount":5.00,"user_data":"order-1","refund":{"id":"r-%d","note":"a<b"}}`
	first, second := fmt.Sprintf(refund, 1), fmt.Sprintf(refund, 2)
	key := parsed(t, first).Key()
	assert.NotEqual(t, key, parsed(t, second).Key(), "two refunds of one order and amount")
	for name, same := range map[string]string{
		"white space":           strings.ReplaceAll(first, ",", " ,\n "),
		"another order":         strings.Replace(strings.Replace(first, `"order_id":"o-1",`, "", 1), "}}", `},"order_id":"o-1"}`, 1),
		"another order, nested": strings.Replace(first, `"id":"r-1","note":"a<b"`, `"note":"a<b","id":"r-1"`, 1),
		"escapes":               strings.Replace(first, "a<b", `a\u003cb`, 1),
	} {
		assert.Equal(t, key, parsed(t, same).Key(), name)
	}

	payment := strings.Replace(first, "refund.status", "payment.status", 1)
	assert.Equal(t, parsed(t, payment).Key(), parsed(t, strings.Replace(payment, `"r-1"`, `"r-2"`, 1)).Key(),
		"added members do not make another state of a payment")
	assert.NotPanics(t, func() { _ = (&paymentsvc.Notification{Event: paymentsvc.EventRefundStatusChanged}).Key() })
}

func TestNotificationSurvivesAQueue(t *testing.T) {
	for _, body := range []string{hookBody, strings.Replace(hookBody, "payment.", "refund.", 1), strings.Replace(hookBody, "{", ` { "a" : "<&>" ,`, 1)} {
		n := parsed(t, body)
		queued, err := json.Marshal(n)
		require.NoError(t, err)
		var back paymentsvc.Notification
		require.NoError(t, json.Unmarshal(queued, &back))
		assert.Equal(t, n.Key(), back.Key())
		assert.JSONEq(t, body, string(back.Raw))
		assert.True(t, n.Timestamp.Equal(back.Timestamp))
		back.Raw, back.Timestamp = n.Raw, n.Timestamp
		assert.Equal(t, n, &back)
	}
}

// shop applies notifications as the documentation says: each once, refunds apart from payments, and no state over a
// final one.
type shop struct {
	seen    map[string]bool
	payment paymentsvc.StatusName
	shipped bool
	refunds map[string]paymentsvc.StatusName // by key
}

func (s *shop) apply(n *paymentsvc.Notification) {
	if s.seen[n.Key()] {
		return
	}
	s.seen[n.Key()] = true
	switch n.Event {
	case paymentsvc.EventPaymentStatusChanged:
		if s.payment.Final() {
			return
		}
		s.payment = n.StatusDescription
		s.shipped = n.Final() && n.StatusDescription == paymentsvc.StatusSuccess
	case paymentsvc.EventRefundStatusChanged:
		s.refunds[n.Key()] = n.StatusDescription
	}
}

// A refund carries its payment's order_id: in whatever order they arrive, a refund's FAILURE must not fail a paid order,
// and its SUCCESS must not ship goods whose money is back.
func TestNotificationsInEveryOrderOfArrival(t *testing.T) {
	body := func(event, status, amount string) string {
		return fmt.Sprintf(`{"event":"%s.status_changed","order_id":"o-1","status":1,"status_description":%q,"status_code":1,"amount":%s}`,
			event, status, amount)
	}
	for _, test := range []struct {
		payment string
		shipped bool
	}{{"SUCCESS", true}, {"FAILURE", false}, {"PENDING", false}} {
		for _, refund := range []string{"SUCCESS", "FAILURE", "PENDING"} {
			notifications := []string{
				body("payment", "PENDING", "10"), body("payment", test.payment, "10"), body("refund", refund, "3"), body("refund", refund, "4"),
			}
			permute(notifications, func(order []string) {
				s := &shop{seen: map[string]bool{}, refunds: map[string]paymentsvc.StatusName{}}
				for _, n := range append(order, order...) { // and all of them again
					s.apply(parsed(t, n))
				}
				assert.Equal(t, paymentsvc.StatusName(test.payment), s.payment, order)
				assert.Equal(t, test.shipped, s.shipped, order)
				assert.Len(t, s.refunds, 2, order)
			})
		}
	}
}

// permute calls f with every order of list.
func permute(list []string, f func([]string)) {
	if len(list) < 2 {
		f(list)
		return
	}
	for i := range list {
		rest := append(append([]string{}, list[:i]...), list[i+1:]...)
		permute(rest, func(order []string) { f(append([]string{list[i]}, order...)) })
	}
}
