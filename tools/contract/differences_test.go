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
	// or is another field that is enough in its place, "" for none.
	or string
	// filled says that the text must not be empty; otherwise that the field must be there, and not null.
	filled  bool
	section string
	reason  string
}

func stricterFields() []stricter {
	const (
		noForm    = "without the address there is no form: whether one was made is unknown"
		noInvoice = "without it there is no invoice to show or to find: whether one was made is unknown"
		noBalance = "an answer without a balance must not be taken for one"
		noOrder   = "nothing can be found by an empty identifier"
	)
	return []stricter{
		{"InitForm", "redirect_url", "", false, "4.5", noForm},
		{"InitInvoice", "invoice_url", "", false, "4.6", noInvoice},
		{"InitInvoice", "order_id", "", false, "4.6", noInvoice},
		{"InitInvoice", "order_id", "", true, "4.6", noOrder},
		{"GetBalance", "payout_balance", "expected_balance", false, "4.7", noBalance},
		{"GetBalance", "currency", "", false, "4.7", "an amount without its currency is none"},
		{"InitPayout", "order_id", "", true, "4.3", noOrder},
		{"StatusChanged", "order_id", "", true, "6", noOrder},
		{"StatusChanged", "status_description", "", true, "6", "the only status whose values are shown is this name"},
	}
}

// needs reports whether the SDK wants a field to be there, or to be filled, beyond what the document says.
func needs(id, field string, filled bool) bool {
	for _, s := range stricterFields() {
		if s.id == id && s.field == field && s.filled == filled && s.or == "" {
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
	// lost says that the value is not read: the field stays unset and is named in Malformed.
	lost bool
	is   func(r *reader, p property, value string) bool
}

// widerValues are tried in their order.
func widerValues() []wider {
	mayBeAbsent := func(r *reader, p property) bool { return !r.schema.requires(p.name) && !needs(r.id, p.name, false) }
	return []wider{
		{"null for a field that may be absent", "4", "programs write out so what they do not have", false,
			func(r *reader, p property, value string) bool { return value == "null" && mayBeAbsent(r, p) }},
		{"a number in quotes", "2.1", "it is as exact, and services write amounts so to keep them exact", false,
			func(_ *reader, p property, value string) bool { return p.Type == "number" && value == `"10.50"` }},
		{"text of another form", "2.2", "what was started was started, whatever its order_id or address looks like", false,
			func(_ *reader, p property, value string) bool { return p.Format != "" && isText(value) }},
		{"an empty address that may be absent", "4.1", "programs write out so what they do not have", false,
			func(r *reader, p property, value string) bool {
				return p.Format == "uri" && value == `""` && mayBeAbsent(r, p)
			}},
		{"a name that the document does not have", "6", "the service may gain events", false,
			func(_ *reader, p property, value string) bool { return len(p.Enum) > 0 && isText(value) }},
		{"any other value of an answer's field that may be absent", "4",
			"a payment that was started must not look lost because of a description", true,
			func(r *reader, p property, _ string) bool { return mayBeAbsent(r, p) && !r.notification() }},
	}
}

// isText says whether a JSON value is text that is not empty.
func isText(value string) bool { return len(value) > 2 && value[0] == '"' }

// differenceAt returns which difference a value of a field is, and what becomes of a body with it; "" for none. The
// value "" is no value at all, and allowed says whether the document has it there.
func differenceAt(r *reader, p property, value string, allowed bool) (string, verdict) {
	for _, s := range stricterFields() {
		if s.id == r.id && s.field == p.name && s.or == "" && (!s.filled && value == "" || s.filled && value == `""`) {
			return s.String(), rejected
		}
	}
	for _, w := range widerValues() {
		if allowed || !w.is(r, p, value) {
			continue
		}
		if w.lost {
			return w.String(), takenBut(p.name)
		}
		return w.String(), taken
	}
	return "", ""
}

func (s *stricter) String() string {
	what := "absent"
	if s.filled {
		what = "empty"
	}
	if s.or != "" {
		what += " and no " + s.or
	}
	return fmt.Sprintf("%s, %s %s: section %s, %s", s.id, s.field, what, s.section, s.reason)
}

func (w *wider) String() string {
	return fmt.Sprintf("%s: section %s, %s", w.name, w.section, w.reason)
}

// valueDifferences are those that a single value shows.
func valueDifferences() []string {
	var names []string
	for _, s := range stricterFields() {
		if s.or == "" {
			names = append(names, s.String())
		}
	}
	for _, w := range widerValues() {
		names = append(names, w.String())
	}
	return names
}

// TestOneOfTwoFieldsIsEnough goes through the stricter fields that another one can replace.
func TestOneOfTwoFieldsIsEnough(t *testing.T) {
	list := readers(t)
	tried := 0
	for _, s := range stricterFields() {
		if s.or == "" {
			continue
		}
		tried++
		r := readerOf(t, list, s.id)
		full := fullBody(t, r.schema)
		neither := objectOf(without(without(full, s.field), s.or))
		require.NoError(t, r.allowed(neither), s.String())
		require.Equal(t, rejected, r.judge(t, neither), s.String())
		for _, name := range []string{s.field, s.or} {
			one := without(full, name)
			require.Equal(t, taken, r.judge(t, objectOf(one)), "without %s: %s", name, s.String())
			other := s.field
			if name == s.field {
				other = s.or
			}
			for _, value := range ofOtherTypes(r.schema.property(other)) {
				if value == `"10.50"` {
					continue // an amount in quotes is one
				}
				require.Equal(t, rejected, r.judge(t, objectOf(with(one, other, value))),
					"%s as %s and no %s: %s", other, value, name, s.String())
			}
		}
	}
	require.NotZero(t, tried)
}

// odd is a body that only the document or only the SDK takes, or that the SDK does not take whole.
type odd struct {
	name    string
	section string
	reason  string
	id      string
	// change makes the body from one with every property.
	change  func(full []member) string
	allowed bool
	becomes verdict
}

func oddBodies() []odd {
	const (
		bits     = "it fits in no int64"
		bound    = "the work for one number must have a bound"
		twice    = "readers differ in which one they take"
		noText   = "it is no text, and would be another one when it is sent back"
		mark     = "encoders of some platforms write one, and what was started was started"
		big      = "9223372036854775808"
		halfPair = `"\ud83d"`
	)
	tooLong := strings.Repeat("9", 65)
	set := func(name, value string) func([]member) string {
		return func(full []member) string { return objectOf(with(full, name, value)) }
	}
	orderTwice := func(full []member) string { return objectOf(append(full, member{"order_id", `"another"`})) }
	marked := func(full []member) string { return "\ufeff" + objectOf(full) }
	return []odd{
		{"an integer of more than 64 bits", "2.1", bits, "InitPayout", set("status", big), true, rejected},
		{"an integer of more than 64 bits", "2.1", bits, "StatusPayment", set("project_id", big), true, takenBut("project_id")},
		{"an amount of more than 64 digits", "2.1", bound, "StatusChanged", set("amount", tooLong), true, rejected},
		{"an amount of more than 64 digits", "2.1", bound, "StatusPayout", set("amount", tooLong), true, takenBut("amount")},
		{"a field in other case", "6", "some readers take it for the field, so it is not clear what was signed",
			"StatusChanged", set("Order_ID", `"another"`), true, rejected},
		{"a field twice", "4.3", twice, "InitPayout", orderTwice, true, rejected},
		{"a field twice", "4.4", twice, "StatusPayout", orderTwice, true, takenBut("order_id")},
		{"a field twice", "6", twice, "StatusChanged", orderTwice, true, rejected},
		{"half a surrogate pair", "4.3", noText, "InitPayout", set("order_id", halfPair), true, rejected},
		{"half a surrogate pair", "4.2", noText, "StatusPayment", set("description", halfPair), true, takenBut("description")},
		{"a byte order mark", "4.3", mark, "InitPayout", marked, false, taken},
		{"a byte order mark", "6", "what is signed is the document's JSON to the byte", "StatusChanged", marked, false, rejected},
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

func TestOddBodiesBecomeWhatIsWrittenDown(t *testing.T) {
	list := readers(t)
	for _, o := range oddBodies() {
		r := readerOf(t, list, o.id)
		body := o.change(fullBody(t, r.schema))
		require.Equal(t, o.allowed, r.allowed(body) == nil,
			"%s, %s: section %s, %s: what the document says", o.id, o.name, o.section, o.reason)
		require.Equal(t, o.becomes, r.judge(t, body), "%s, %s: section %s, %s", o.id, o.name, o.section, o.reason)
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
