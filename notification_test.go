package paymentsvc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/internal/decimal"
)

// withMember returns hookBody with another JSON value for a member, or without the member if value is "".
func withMember(name, value string) string {
	var members []string
	for _, member := range hookMembers {
		if member[0] == name {
			member[1] = value
		}
		if member[1] != "" {
			members = append(members, strconv.Quote(member[0])+":"+member[1])
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// hookMembers has the members of hookBody.
var hookMembers = [][2]string{
	{"event", `"payment.status_changed"`}, {"order_id", `"o-1"`}, {"status", "2"},
	{"status_description", `"SUCCESS"`}, {"status_code", "20"}, {"amount", "10.50"}, {"user_data", `"order-1"`},
}

// parsed returns the notification in a signed body.
func parsed(t testing.TB, body string) *paymentsvc.Notification {
	t.Helper()
	n, err := newHook(t).Parse(hookHeader(hookClockShown, body), []byte(body))
	require.NoError(t, err)
	return n
}

func TestNotificationAcceptsUnknownValuesAndFields(t *testing.T) {
	require.Equal(t, hookBody, withMember("", ""), "the members are hookBody's")
	for _, test := range []struct {
		member, value string
		known         bool // of the event
	}{
		{"event", "payout.status_changed", true},
		{"event", "refund.status_changed", true},
		{"event", "chargeback.opened", false},
		{"event", "Payment.Status_Changed", false},
		{"status_description", "HELD", true},
		{"user_data", "", true},
	} {
		n := parsed(t, withMember(test.member, strconv.Quote(test.value)))
		read := map[string]string{
			"event": string(n.Event), "status_description": string(n.StatusDescription), "user_data": n.UserData,
		}
		assert.Equal(t, test.value, read[test.member])
		assert.Equal(t, test.known, n.Event.Known(), test.value)
	}
	for _, body := range []string{
		withMember("user_data", ""), withMember("user_data", "null"),
		strings.Replace(hookBody, "{", `{"a":1,"b":{"event":"x"},"c":[{"order_id":"x"}],"d":null,`, 1),
	} {
		n := parsed(t, body)
		assert.Equal(t, "o-1", n.OrderID)
		assert.Equal(t, body, string(n.Raw))
	}
}

// notificationFault is a signed body that section 6 does not allow. The error contains the name in field, if it is set.
type notificationFault struct{ name, body, field string }

func notificationFaults() []notificationFault {
	faults := []notificationFault{
		{"not JSON", "event=payment", ""},
		{"half an object", hookBody[:len(hookBody)/2], ""},
		{"null", "null", ""},
		{"a second object", hookBody + "\n" + hookBody, ""},
		{"a byte order mark", "\ufeff" + hookBody, ""},
		{"an object with nothing in it", "{}", "event"},
		{"decimals in status", withMember("status", "2.5"), "status"},
		{"a status_code of more than 64 bits", withMember("status_code", "-9223372036854775809"), "status_code"},
		{"an amount with a huge exponent", withMember("amount", "1e1000000000"), "amount"},
		{"an event that is not UTF-8", withMember("event", "\"a\xff\""), "event"},
		{"an order_id that is not UTF-8", withMember("order_id", "\"a\xff\""), "order_id"},
		{
			"an order_id twice, once escaped", strings.Replace(hookBody, "{", `{"order\u005fid":"o-2",`, 1), "order_id",
		},
		{"an event in letters that fold to it", strings.Replace(hookBody, "{", `{"\u017ftatus":1,`, 1), "status"},
	}
	for _, field := range hookMembers[:6] { // user_data is optional
		name, value := field[0], field[1]
		inOtherCase := strings.ToUpper(name[:1]) + name[1:]
		faults = append(faults,
			notificationFault{name + " of another type", withMember(name, "[]"), name},
			notificationFault{name + " missing", withMember(name, ""), name},
			notificationFault{name + " null", withMember(name, "null"), name},
			notificationFault{name + " empty", withMember(name, `""`), name},
			notificationFault{name + " twice", strings.Replace(hookBody, "{", `{"`+name+`":`+value+`,`, 1), name},
			notificationFault{
				name + " twice, null behind", strings.TrimSuffix(hookBody, "}") + `,"` + name + `":null}`, name,
			},
			notificationFault{
				name + " in other case beside it",
				strings.Replace(hookBody, "{", `{"`+inOtherCase+`":`+value+`,`, 1), name,
			},
			notificationFault{
				name + " in other case in its place",
				strings.Replace(hookBody, `"`+name+`"`, `"`+strings.ToUpper(name)+`"`, 1), name,
			},
		)
	}
	return faults
}

// The document does not specify redelivery, so an unreadable optional field must not lose a notification.
func TestNotificationListsMalformedOptionalFields(t *testing.T) {
	for name, body := range map[string]string{
		"a number":                withMember("user_data", "1"),
		"an object":               withMember("user_data", "{}"),
		"windows-1251":            withMember("user_data", "\"\xe7\xe0\""),
		"half a surrogate pair":   withMember("user_data", `"a\ud83d"`),
		"twice":                   strings.Replace(hookBody, "{", `{"user_data":"order-2",`, 1),
		"twice, null behind":      strings.Replace(hookBody, "}", `,"user_data":null}`, 1),
		"twice, null before":      strings.Replace(hookBody, "{", `{"user_data":null,`, 1),
		"three times":             strings.Replace(hookBody, "{", `{"user_data":"order-2","user_data":"order-3",`, 1),
		"in other case behind it": strings.Replace(hookBody, "}", `,"USER_DATA":"order-2"}`, 1),
		"in other case":           strings.Replace(hookBody, "user_data", "User_Data", 1),
		"in other case beside it": strings.Replace(hookBody, "{", `{"USER_DATA":"order-2",`, 1),
	} {
		n := parsed(t, body)
		assert.Equal(t, []string{"user_data"}, n.Malformed, name)
		assert.Empty(t, n.UserData, name)
		assert.Equal(t, "o-1", n.OrderID, name)
		assert.Equal(t, body, string(n.Raw), name)
	}
	for _, value := range []string{"", "null", `""`, `"x"`} {
		assert.Nil(t, parsed(t, withMember("user_data", value)).Malformed, value)
	}
}

func TestNotificationErrorNamesTheContentEncoding(t *testing.T) {
	const rest = ", want a decompressed body)"
	for _, test := range []struct {
		name, value, want string
	}{
		{"Content-Encoding", "gzip", " (Content-Encoding: gzip" + rest},
		{"content-encoding", " GZip ", " (Content-Encoding: gzip" + rest},
		{"Content-Encoding", "deflate, br", " (Content-Encoding: deflate, br" + rest},
		{"Content-Encoding", canary, " (Content-Encoding: unregistered" + rest},
		{"Content-Encoding", "gzip" + strings.Repeat(",gzip", 100), " (Content-Encoding: unregistered" + rest},
		{"Content-Encoding", "identity", ""},
		{"Content-Encoding", "", ""},
		{"X-Content-Encoding", "gzip", ""},
	} {
		const compressed = "\x1f\x8b\x08 not really"
		h := hookHeader(hookClockShown, compressed) // a service may sign the compressed bytes
		h[test.name] = []string{test.value}
		_, err := newHook(t).Parse(h, []byte(compressed))
		require.EqualError(t, err, "paymentsvc: malformed notification: not JSON"+test.want)
		require.ErrorIs(t, err, paymentsvc.ErrMalformedNotification)

		h = hookHeader(hookClockShown, hookBody) // or the decompressed bytes
		h[test.name] = []string{test.value}
		err = newHook(t).Verify(h, []byte(compressed))
		require.EqualError(t, err, "paymentsvc: notification: signature mismatch"+test.want)
		require.ErrorIs(t, err, paymentsvc.ErrSignatureMismatch)
		_, err = newHook(t).Parse(h, []byte(hookBody))
		require.NoError(t, err, "after a framework decompressed the body")
	}
}

func TestNotificationErrorKeepsTheVerifiedBytes(t *testing.T) {
	for _, fault := range notificationFaults() {
		t.Run(fault.name, func(t *testing.T) {
			header, body := hookHeader(hookClockShown, fault.body), []byte(fault.body)
			require.NoError(t, newHook(t).Verify(header, body), "the signature is valid")
			parsed, parseErr := newHook(t).Parse(header, body)
			requested, requestErr := newHook(t).ParseRequest(hookRequest(fault.body))
			assert.Nil(t, parsed)
			assert.Nil(t, requested)
			for _, err := range []error{parseErr, requestErr} {
				isOnly(t, err, paymentsvc.ErrMalformedNotification)
				var malformed *paymentsvc.NotificationError
				require.ErrorAs(t, err, &malformed)
				assert.Equal(t, fault.body, string(malformed.Raw))
				require.Error(t, malformed.Err)
				isHuge := strings.Contains(fault.body, "1e1000000000")
				require.Equal(t, isHuge, errors.Is(err, decimal.ErrTooLong), "the error of the amount")
				if fault.field != "" {
					assert.Contains(t, err.Error(), ": "+fault.field+": ", "the field is named")
				}
			}
		})
	}
}

func TestNotificationFinalIsForPaymentsOnly(t *testing.T) {
	for _, event := range []paymentsvc.EventType{
		paymentsvc.EventPaymentStatusChanged, paymentsvc.EventPayoutStatusChanged, paymentsvc.EventRefundStatusChanged,
		"other",
	} {
		for _, status := range []paymentsvc.StatusName{
			paymentsvc.StatusPending, paymentsvc.StatusSuccess, paymentsvc.StatusFailure, "HELD",
		} {
			n := paymentsvc.Notification{Event: event, StatusDescription: status}
			want := event == paymentsvc.EventPaymentStatusChanged &&
				(status == paymentsvc.StatusSuccess || status == paymentsvc.StatusFailure)
			assert.Equal(t, want, n.Final(), "%s %s", event, status)
		}
	}
}

func TestNotificationSurvivesAQueue(t *testing.T) {
	for _, body := range []string{
		hookBody,
		strings.Replace(hookBody, "payment.", "refund.", 1),
		strings.Replace(hookBody, "{", ` { "a" : "<&>" ,`, 1),
	} {
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

func keyOf(t testing.TB, timestamp, body string) string {
	t.Helper()
	n, err := newHook(t).Parse(hookHeader(timestamp, body), []byte(body))
	require.NoError(t, err)
	return n.Key()
}

func TestNotificationKeyIsTheSameForADuplicate(t *testing.T) {
	key := keyOf(t, hookClockShown, hookBody)
	for name, body := range map[string]string{
		"the same":          hookBody,
		"other white space": strings.ReplaceAll(hookBody, ":", " : ") + "\n",
		"another order of fields": `{"user_data":"order-1","amount":10.50,"status_code":20,` +
			`"status_description":"SUCCESS","status":2,"order_id":"o-1","event":"payment.status_changed"}`,
		"added fields":            strings.Replace(hookBody, "{", `{"sent_at":"2023-11-14","attempt":2,`, 1),
		"escapes":                 withMember("order_id", `"\u006f-1"`),
		"an amount of less scale": withMember("amount", "10.5"),
		"an amount of more scale": withMember("amount", "10.5000"),
		"an amount in quotes":     withMember("amount", `"10.50"`),
		"an amount by exponent":   withMember("amount", "105e-1"),
	} {
		assert.Equal(t, key, keyOf(t, hookClockShown, body), name)
		assert.Equal(t, key, keyOf(t, "1700000100", body), "%s, later", name)
	}
	whole := keyOf(t, hookClockShown, withMember("amount", "10"))
	for _, amount := range []string{"10.0", "10.00", "1e1", "1000e-2", `"10"`} {
		assert.Equal(t, whole, keyOf(t, hookClockShown, withMember("amount", amount)), amount)
	}
	nothing := keyOf(t, hookClockShown, withMember("amount", "0"))
	for _, amount := range []string{"-0", "0.00", "-0.0", "0e5"} {
		assert.Equal(t, nothing, keyOf(t, hookClockShown, withMember("amount", amount)), amount)
	}
	absent, null := withMember("user_data", ""), withMember("user_data", "null")
	assert.Equal(t, keyOf(t, hookClockShown, absent), keyOf(t, hookClockShown, null))
	payout := withMember("event", `"payout.status_changed"`)
	again := strings.Replace(payout, "{", `{"attempt":2,`, 1)
	assert.Equal(t, keyOf(t, hookClockShown, payout), keyOf(t, hookClockShown, again), "a payout has no digest")

	rotated := newHook(t, withSecrets(hookOther, testSecret))
	n, err := rotated.Parse(hookHeader(hookClockShown, hookBody), []byte(hookBody))
	require.NoError(t, err)
	assert.Equal(t, key, n.Key(), "for any secret")
}

func TestNotificationKeyDiffersForANewState(t *testing.T) {
	seen := map[string]string{}
	for _, body := range []string{
		hookBody,
		withMember("event", `"refund.status_changed"`),
		withMember("event", `"payment.status_changed "`),
		withMember("order_id", `"o-2"`),
		withMember("order_id", `"O-1"`),
		withMember("status", "3"),
		withMember("status", "-2"),
		withMember("status_description", `"PENDING"`),
		withMember("status_description", `"SUCCESS 20"`),
		withMember("status_code", "21"),
		withMember("status_code", "2"),
		withMember("amount", "10.51"),
		withMember("amount", "10.05"),
		withMember("amount", "-10.50"),
		withMember("amount", "1050"),
		withMember("amount", "105"),
		withMember("amount", "10"),
		withMember("amount", "100"),
		withMember("amount", "1"),
		withMember("amount", "0"),
		withMember("user_data", `"order-2"`),
		withMember("user_data", `"заказ"`),
		withMember("user_data", ""),
		// The text of a field looks like the next fields.
		strings.Replace(withMember("order_id", `"o-1\" 2 \"SUCCESS"`), `"status":2`, `"status":20`, 1),
		withMember("order_id", `"o-1\" 2"`),
		withMember("order_id", `"o-1 2"`),
		withMember("order_id", `"o-1\\"`),
		withMember("order_id", `"o-1\u0000"`),
		withMember("order_id", `"o-1\n"`),
	} {
		key := keyOf(t, hookClockShown, body)
		assert.Regexp(t, `^[0-9a-f]{64}$`, key)
		assert.Empty(t, seen[key], "two states have one key: %s", body)
		seen[key] = body
	}
	assert.Regexp(t, `^[0-9a-f]{64}$`, new(paymentsvc.Notification).Key(), "of the zero value")
}

func TestNotificationKeyOfARefundTellsRefundsApart(t *testing.T) {
	const refund = `{"event":"refund.status_changed","order_id":"o-1","status":2,"status_description":"SUCCESS",` +
		`"status_code":20,"amount":5.00,"user_data":"order-1","refund":{"id":"r-%d","note":"a<b"}}`
	first, second := fmt.Sprintf(refund, 1), fmt.Sprintf(refund, 2)
	key := parsed(t, first).Key()
	assert.NotEqual(t, key, parsed(t, second).Key(), "two refunds of one order and amount")
	long := strings.Replace(first, `"r-1"`, "12345678901234567890", 1)
	assert.NotEqual(
		t, parsed(t, long).Key(), parsed(t, strings.Replace(long, "890,", "891,", 1)).Key(), "every digit counts",
	)
	for name, same := range map[string]string{
		"white space": strings.ReplaceAll(first, ",", " ,\n "),
		"another order": strings.Replace(
			strings.Replace(first, `"order_id":"o-1",`, "", 1), "}}", `},"order_id":"o-1"}`, 1,
		),
		"another order, nested": strings.Replace(first, `"id":"r-1","note":"a<b"`, `"note":"a<b","id":"r-1"`, 1),
		"escapes":               strings.Replace(first, "a<b", `a\u003cb`, 1),
		// A scheme that signs the text of fields has the same signature for these.
		"empty members":         strings.Replace(first, "{", `{"a":{},"b":[],"c":null,"d":"","e":{"f":null},`, 1),
		"an amount as a string": strings.Replace(first, `"amount":5.00`, `"amount":"5.00"`, 1),
	} {
		assert.Equal(t, key, parsed(t, same).Key(), name)
	}

	other := strings.Replace(first, "refund.status_changed", "chargeback.opened", 1)
	assert.NotEqual(
		t, parsed(t, other).Key(), parsed(t, strings.Replace(other, `"r-1"`, `"r-2"`, 1)).Key(),
		"an event beyond the document",
	)

	payment := strings.Replace(first, "refund.status", "payment.status", 1)
	assert.Equal(t, parsed(t, payment).Key(), parsed(t, strings.Replace(payment, `"r-1"`, `"r-2"`, 1)).Key(),
		"added members do not make another state of a payment")
	assert.NotPanics(t, func() { _ = (&paymentsvc.Notification{Event: paymentsvc.EventRefundStatusChanged}).Key() })
}

// A parser would silently replace or drop these differences.
func TestNotificationKeyOfARefundCoversAllBytes(t *testing.T) {
	refund := func(comment string) string {
		return strings.NewReplacer("payment.", "refund.", "{", `{"refund":{"comment":`+comment+`},`).Replace(hookBody)
	}
	seen := map[string]string{}
	for _, comment := range []string{
		"\"\xf1\xee\xf0\xee\xea\"", "\"\xf1\xee\xf0\xee\xeb\"", "\"\xff\"", "\"\xfe\"",
		"\"\uFFFD\"", "\"\xed\xa0\xbd\"",
		`"\ud83d"`, `"\ud83e"`, `"\ude00\ud83d"`, `"\\ud83d"`, `"\ud83d\ude00"`, `"` + "\uFFFD" + `\ud83d"`,
		`1,"comment":2`, `2,"comment":1`, `2`, `1`, `1,"comment":1`, `1,"\u0063omment":1`, `"","comment":2`,
		`{"a":1,"a":2}`, `{"a":2,"a":1}`, `{"a":2}`, `[{"a":1,"a":2}]`, "{\"\xf1\":1}", "{\"\xf2\":1}",
	} {
		body := refund(comment)
		n := parsed(t, body)
		key := n.Key()
		assert.Equal(t, key, parsed(t, body).Key(), "equal bytes")
		assert.Empty(t, seen[key], "%q", body)
		seen[key] = body

		spaced := strings.ReplaceAll(strings.ReplaceAll(body, "{", "{ "), ",", " ,\n")
		assert.Equal(t, key, parsed(t, spaced).Key(), "white space")
		queued, err := json.Marshal(n)
		require.NoError(t, err)
		var back paymentsvc.Notification
		require.NoError(t, json.Unmarshal(queued, &back))
		assert.Equal(t, key, back.Key(), "after a queue: %q", body)
	}
}

// Partners store keys, so a changed key would make every duplicate look new. sha256sum made each sum from the text
// above it.
func TestNotificationKeyNeverChanges(t *testing.T) {
	full := paymentsvc.Notification{
		Event: paymentsvc.EventPaymentStatusChanged, OrderID: "o-1", Status: 2,
		StatusDescription: paymentsvc.StatusSuccess, StatusCode: 20,
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1",
	}
	escaped := full
	escaped.OrderID, escaped.UserData = "a\"b\\c\n", "заказ 😀"
	// This symbol is printable in Go 1.27, but not in the older tables of Go 1.26.
	newer := full
	newer.UserData = "\U0001FADF"
	for _, test := range []struct {
		name string
		n    paymentsvc.Notification
		want string
	}{
		// "payment.status_changed" "o-1" 2 "SUCCESS" 20 10.5 "order-1"
		{"plain text", full, "aae94ee190338c3b999daba437cc0b5b1fa423bec29ef84493c50cc6cc91b998"},
		// "payment.status_changed" "a\"b\\c\n" 2 "SUCCESS" 20 10.5 "\u0437\u0430\u043a\u0430\u0437 \U0001f600"
		{"text to be escaped", escaped, "5e6731599b8561629e94dfff06508cea54e684745a2a2dc77fcc931851b04f58"},
		// "payment.status_changed" "o-1" 2 "SUCCESS" 20 10.5 "\U0001fadf"
		{
			"text that one release of Go prints and another does not", newer,
			"45ba51b57fa9167648493248aaa2ef7deae9ee89c4d3f68e8f8dcef5014181e9",
		},
		// "" "" 0 "" 0  ""
		{"nothing", paymentsvc.Notification{}, "899a7ed6bbc8174599450caf3255c7a36248d28ed8f8eb3f07b0ec34053522d4"},
	} {
		assert.Equal(t, test.want, test.n.Key(), test.name)
	}
}
