package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// The SDK differs from the document on purpose in what stands here, and in nothing else.

// stricter is a field that the SDK wants in an answer or a notification where the document does not.
type stricter struct {
	id, field string
	// filled says that the text must not be empty; otherwise that the field must be there, and not null.
	filled  bool
	section string
	reason  string
}

func stricterFields() []stricter {
	const (
		noForm    = "without the address there is no form: whether one was made is unknown"
		noInvoice = "without it there is no invoice to show or to find: whether one was made is unknown"
		noBalance = "a balance that was not given must not be taken for 0"
		noOrder   = "nothing can be found by an empty identifier"
	)
	return []stricter{
		{"InitForm", "redirect_url", false, "4.5", noForm},
		{"InitInvoice", "invoice_url", false, "4.6", noInvoice},
		{"InitInvoice", "order_id", false, "4.6", noInvoice},
		{"InitInvoice", "order_id", true, "4.6", noOrder},
		{"GetBalance", "payout_balance", false, "4.7", noBalance},
		{"GetBalance", "expected_balance", false, "4.7", noBalance},
		{"GetBalance", "currency", false, "4.7", "an amount without its currency is none"},
		{"InitPayout", "order_id", true, "4.3", noOrder},
		{"StatusChanged", "order_id", true, "6", noOrder},
		{"StatusChanged", "status_description", true, "6", "the only status whose values are shown is this name"},
	}
}

// needs says whether the SDK wants a field to be there, or to be filled, beyond what the document says.
func needs(id, field string, filled bool) bool {
	for _, s := range stricterFields() {
		if s.id == id && s.field == field && s.filled == filled {
			return true
		}
	}
	return false
}

// wider is a value that the SDK takes where the document does not have it.
type wider struct {
	name    string
	section string
	reason  string
	is      func(r *reader, p property, value string) bool
}

func widerValues() []wider {
	mayBeAbsent := func(r *reader, p property) bool { return !r.schema.requires(p.name) && !needs(r.id, p.name, false) }
	return []wider{
		{"null for a field that may be absent", "4", "programs write out so what they do not have",
			func(r *reader, p property, value string) bool { return value == "null" && mayBeAbsent(r, p) }},
		{"a number in quotes", "2.1", "it is as exact, and services write amounts so to keep them exact",
			func(_ *reader, p property, value string) bool { return p.Type == "number" && value == `"10.50"` }},
		{"text of another form", "2.2", "what was started was started, whatever its order_id or address looks like",
			func(_ *reader, p property, value string) bool { return p.Format != "" && isText(value) }},
		{"an empty address that may be absent", "4.1", "programs write out so what they do not have",
			func(r *reader, p property, value string) bool {
				return p.Format == "uri" && value == `""` && mayBeAbsent(r, p)
			}},
		{"a name that the document does not have", "6", "the service may gain events",
			func(_ *reader, p property, value string) bool { return len(p.Enum) > 0 && isText(value) }},
	}
}

// isText says whether a JSON value is text that is not empty.
func isText(value string) bool { return len(value) > 2 && value[0] == '"' }

// differenceAt says which difference a value of a field is, "" for none. The value "" is no value at all.
func differenceAt(r *reader, p property, value string) string {
	for _, s := range stricterFields() {
		if s.id == r.id && s.field == p.name && (!s.filled && value == "" || s.filled && value == `""`) {
			return s.String()
		}
	}
	for _, w := range widerValues() {
		if value != "" && w.is(r, p, value) {
			return w.String()
		}
	}
	return ""
}

func (s *stricter) String() string {
	what := "absent"
	if s.filled {
		what = "empty"
	}
	return fmt.Sprintf("%s, %s %s: section %s, %s", s.id, s.field, what, s.section, s.reason)
}

func (w *wider) String() string {
	return fmt.Sprintf("%s: section %s, %s", w.name, w.section, w.reason)
}

func allDifferences() []string {
	var names []string
	for _, s := range stricterFields() {
		names = append(names, s.String())
	}
	for _, w := range widerValues() {
		names = append(names, w.String())
	}
	return names
}

// unread is a body that the document allows and the SDK does not understand.
type unread struct {
	name    string
	section string
	reason  string
	id      string
	// change makes the body from one with every property.
	change func(full []member) string
}

func unreadBodies() []unread {
	const digits = "an integer is its digits, and nothing is rounded to become one"
	set := func(name, value string) func([]member) string {
		return func(full []member) string { return objectOf(with(full, name, value)) }
	}
	return []unread{
		{"an integer with a fraction of zero", "2.1", digits, "InitPayout", set("status", "1.0")},
		{"an integer with an exponent", "2.1", digits, "InitPayout", set("status", "1e2")},
		{"an integer of more than 64 bits", "2.1", "it fits in no int64", "InitPayout", set("status", "9223372036854775808")},
		{"an amount of more than 64 digits", "2.1", "the work for one number must have a bound", "GetBalance",
			set("payout_balance", strings.Repeat("9", 65))},
		{"a field in other case", "4.3", "some readers take it for the field, so it is not clear what was meant", "InitPayout",
			set("Order_ID", `"another"`)},
		{"a field twice", "4.3", "readers differ in which one they take", "InitPayout",
			func(full []member) string { return objectOf(append(full, member{"order_id", `"another"`})) }},
		{"half a surrogate pair", "4.3", "it is no text, and would be another one when it is sent back", "InitPayout",
			set("order_id", `"\ud83d"`)},
	}
}

func readerOf(t testing.TB, list []reader, id string) *reader {
	t.Helper()
	for i := range list {
		if list[i].id == id {
			return &list[i]
		}
	}
	t.Fatalf("nothing is read for %s", id)
	return nil
}

func TestBodiesThatAreNotReadOnPurposeAreStillNotRead(t *testing.T) {
	list := readers(t)
	for _, u := range unreadBodies() {
		r := readerOf(t, list, u.id)
		body := u.change(fullBody(t, r.schema))
		require.NoError(t, r.allowed(body),
			"%s: section %s, %s: the document does not allow it either", u.name, u.section, u.reason)
		require.False(t, r.understood(t, body), "%s: section %s, %s: the SDK understands it", u.name, u.section, u.reason)
	}
}

// unsent is a request that the document allows and the SDK does not send.
type unsent struct {
	name    string
	section string
	reason  string
	id      string
	request any
	body    string
}

func unsentRequests() []unsent {
	amount := paymentsvc.MustParseAmount("1")
	const noIdentifier = "what it belongs to could not be found again"
	return []unsent{
		{"an empty user_data", "4.1", noIdentifier, "InitPayment", paymentsvc.PaymentRequest{Amount: amount},
			`{"partner_id":1001,"project_id":2002,"amount":1,"user_data":""}`},
		{"an empty user_data", "4.3", noIdentifier, "InitPayout", paymentsvc.PayoutRequest{Amount: amount, Destination: card},
			`{"partner_id":1001,"project_id":2002,"amount":1,"destination":"` + card + `","user_data":""}`},
		{"an empty destination", "4.3", "nobody would be paid", "InitPayout",
			paymentsvc.PayoutRequest{Amount: amount, UserData: "a"},
			`{"partner_id":1001,"project_id":2002,"amount":1,"destination":"","user_data":"a"}`},
		{"an empty order_id", "4.4", "no order has it", "StatusPayout", paymentsvc.StatusPayoutRequest{},
			`{"order_id":"","partner_id":1001,"project_id":2002}`},
		{"both identifiers", "4.2", "the document shows either one, not which of two would count", "StatusPayment",
			paymentsvc.StatusPaymentRequest{OrderID: "a", UserData: "b"},
			`{"order_id":"a","user_data":"b","partner_id":1001,"project_id":2002}`},
	}
}

func TestRequestsThatAreNotSentOnPurposeAreStillNotSent(t *testing.T) {
	s := serve(t, places()[0], nil)
	d := readDocument(t)
	for _, u := range unsentRequests() {
		path := d.operation(t, u.id).paths()[0]
		require.NoError(t, checkRequest(s.closed, s.post(path, u.body)),
			"%s: section %s, %s: the document does not allow it either", u.name, u.section, u.reason)
		requireNotSent(t, s, s.config(false), u.id, u.request)
	}
	for _, id := range []string{"partner_id", "project_id"} { // 0 is "not set" to a Config
		m := s.post("/get_balance", objectOf(with(fullBody(t, d.operation(t, "GetBalance").request()), id, "0")))
		require.NoError(t, checkRequest(s.closed, m))
	}
	for _, cfg := range []func(*paymentsvc.Config){
		func(c *paymentsvc.Config) { c.PartnerID = 0 }, func(c *paymentsvc.Config) { c.ProjectID = 0 },
	} {
		c := s.config(false)
		cfg(&c)
		_, err := paymentsvc.NewClient(c)
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
	}
}

// requireNotSent makes a call that the SDK refuses.
func requireNotSent(t *testing.T, s *service, cfg paymentsvc.Config, id string, request any) {
	t.Helper()
	_, err := invoke(t, newClient(t, cfg), id, "card", request)
	require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
	require.Equal(t, paymentsvc.OutcomeNotSent, paymentsvc.OutcomeOf(err))
	require.Empty(t, s.taken(), "messages on the wire")
}
