package contract

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// reader is one kind of object that the SDK reads: an endpoint's answer, or a notification, which is signed and so read
// strictly.
type reader struct {
	id           string // the operationId
	notification bool
	schema       *schema
	allowed      func(body string) error // what the document, as JSON Schema, finds wrong
	read         func(body string) (any, error)
}

// readers are all of them. An answer is read as if it had come with HTTP 200.
func readers(t testing.TB) (list []reader) {
	t.Helper()
	const base = "http://127.0.0.1:4010"
	c := newContract(t, base)
	d := readDocument(t)
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme(), Secret: secret, Now: now})
	require.NoError(t, err)
	for _, o := range d.operations {
		route := o.routes()[0]
		answered := func(body string) *message { return post(base+route.path, "{}").answered(body) }
		list = append(list, reader{
			id:      o.id,
			schema:  o.answer,
			allowed: func(body string) error { return checkAnswer(c.open, answered(body)) },
			read: func(body string) (any, error) {
				client := newClient(t, paymentsvc.Config{
					BaseURL: base, PartnerID: partnerID, ProjectID: projectID, Signer: signer,
					HTTPClient: &http.Client{Transport: answering{answered(body)}},
					Retry:      paymentsvc.Retry{MaxAttempts: 1},
				})
				return calls[o.id](t.Context(), client, route.paymentType, false)
			},
		})
	}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme(), Secrets: []paymentsvc.Secret{secret}, Tolerance: paymentsvc.AnyAge,
	})
	require.NoError(t, err)
	return append(list, reader{
		id:           d.notification.id,
		notification: true,
		schema:       d.notification.request,
		allowed:      func(body string) error { return checkRequest(c.open, post(base+webhookPath, body)) },
		read:         func(body string) (any, error) { return webhook.Parse(post("", body).header, []byte(body)) },
	})
}

// answering answers every request with the same.
type answering struct{ *message }

func (a answering) RoundTrip(req *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, req.Body)
	resp := a.response()
	resp.Request = req
	return resp, err
}

// verdict is what becomes of a body: taken, rejected, or taken but for a field, which cannot be read.
type verdict string

const (
	taken    verdict = "taken"
	rejected verdict = "rejected"
)

func takenBut(field string) verdict { return "taken but for " + verdict(field) }

// judge has the SDK read a body, and checks that a rejection is what the SDK promises of it, and that a field that
// cannot be read costs no other field.
func (r *reader) judge(t require.TestingT, body string) verdict {
	result, err := r.read(body)
	switch {
	case err == nil:
		v := reflect.Indirect(reflect.ValueOf(result))
		require.Equal(t, body, string(v.FieldByName("Raw").Bytes()))
		lost := malformed(v)
		if lost == nil {
			return taken
		}
		for _, name := range lost {
			require.True(t, fieldNamed(v, name).IsZero(), "%s is malformed and has a value", name)
		}
		return takenBut(strings.Join(lost, ", "))
	case r.notification:
		require.ErrorIs(t, err, paymentsvc.ErrMalformedNotification)
	default:
		require.ErrorIs(t, err, paymentsvc.ErrUnexpectedResponse)
		require.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err), "an answer that is not understood")
	}
	return rejected
}

// stricter is a field that the SDK wants in an answer or a notification where the document does not. The SDK differs
// from the document on purpose in these and in widerValues, and in nothing else that a single value shows.
type stricter struct {
	id, field string
	empty     bool // it must not be empty; otherwise it must be there
	section   string
	reason    string
}

func stricterFields() []stricter {
	const (
		noForm    = "without the address there is no form: whether one was made is unknown"
		noInvoice = "without it there is no invoice to show or to find: whether one was made is unknown"
		noOrder   = "nothing can be found by an empty identifier"
	)
	return []stricter{
		{"InitForm", "redirect_url", false, "4.5", noForm},
		{"InitInvoice", "invoice_url", false, "4.6", noInvoice},
		{"InitInvoice", "order_id", false, "4.6", noInvoice},
		{"InitInvoice", "order_id", true, "4.6", noOrder},
		{"GetBalance", "currency", false, "4.7", "an amount without its currency is none"},
		{"InitPayout", "order_id", true, "4.3", noOrder},
		{"StatusChanged", "order_id", true, "6", noOrder},
		{"StatusChanged", "status_description", true, "6", "the only status whose values are shown is this name"},
	}
}

// needs reports whether the SDK wants a field to be there, or not to be empty, beyond what the document says.
func needs(id, field string, empty bool) bool {
	return slices.ContainsFunc(
		stricterFields(), func(s stricter) bool { return s.id == id && s.field == field && s.empty == empty },
	)
}

// wider is a value that the SDK takes where the document does not have it.
type wider struct {
	name    string
	section string
	reason  string
	lost    bool // it is not read: the field stays unset and is named in Malformed
	is      func(r *reader, p property, value string) bool
}

// widerValues are tried in their order.
func widerValues() []wider {
	optional := func(r *reader, p property) bool { return !r.schema.requires(p.name) && !needs(r.id, p.name, false) }
	isText := func(value string) bool { return len(value) > 2 && value[0] == '"' }
	const written = "programs write out so what they do not have"
	return []wider{
		{"null for a field that may be absent", "4", written, false,
			func(r *reader, p property, value string) bool { return value == "null" && optional(r, p) }},
		{"a number in quotes", "2.1", "it is as exact, and services write amounts so to keep them exact", false,
			func(_ *reader, p property, value string) bool { return p.typ == "number" && value == `"10.50"` }},
		{"an integer in quotes", "2.1", "a notification or the order_id of a start must not be lost because of quotes", false,
			func(_ *reader, p property, value string) bool { return p.typ == "integer" && value == `"17"` }},
		{"text of another form", "2.2", "what was started was started, whatever its order_id or address looks like", false,
			func(_ *reader, p property, value string) bool { return p.format != "" && isText(value) }},
		{"an empty address that may be absent", "4.1", written, false,
			func(r *reader, p property, value string) bool {
				return p.format == "uri" && value == `""` && optional(r, p)
			}},
		{"a name that the document does not have", "6", "the service may gain events", false,
			func(_ *reader, p property, value string) bool { return len(p.enum) > 0 && isText(value) }},
		{"any other value of a field that may be absent", "4",
			"neither a payment that was started nor a notification is lost because of a description", true,
			func(r *reader, p property, _ string) bool { return optional(r, p) }},
	}
}

// differenceAt returns which difference a value of a field is, and what becomes of a body with it; "" for none. The
// value "" is no value at all, and allowed says whether the document has it there.
func differenceAt(r *reader, p property, value string, allowed bool) (string, verdict) {
	if value == "" && needs(r.id, p.name, false) || value == `""` && needs(r.id, p.name, true) {
		return fmt.Sprintf("%s.%s is %q", r.id, p.name, value), rejected
	}
	for _, w := range widerValues() {
		if !allowed && w.is(r, p, value) {
			if w.lost {
				return w.name, takenBut(p.name)
			}
			return w.name, taken
		}
	}
	return "", ""
}

// TestSDKReadsFieldsAsTheDocumentAllows goes through every field of every answer and notification: absent,
// null, empty, of another form and of every other type. The SDK takes what the document allows and rejects the rest,
// but for the differences, each of which must show here. So whatever is wrong with a field that the document requires,
// the answer is rejected; and what is wrong with another field costs that field only.
func TestSDKReadsFieldsAsTheDocumentAllows(t *testing.T) {
	shown := map[string]bool{}
	for _, r := range readers(t) {
		full := fullBody(t, r.schema)
		require.Equal(t, taken, r.judge(t, objectOf(full)), r.id)
		for _, p := range r.schema.properties {
			for _, value := range append(ofOtherTypes(p), "", `""`) {
				body := objectOf(with(full, p.name, value))
				if value == "" {
					body = objectOf(without(full, p.name))
				}
				allowed := r.allowed(body) == nil
				difference, want := differenceAt(&r, p, value, allowed)
				shown[difference] = true
				if difference == "" {
					want = map[bool]verdict{true: taken, false: rejected}[allowed]
				}
				require.Equal(t, want, r.judge(t, body), "%s: %s as %s: the document allows it: %t; difference on purpose: %s",
					r.id, p.name, value, allowed, difference)
			}
		}
		if r.id == "GetBalance" { // section 4.7: one of the two is enough, and an answer without a balance is none
			require.Equal(t, rejected, r.judge(t, objectOf(without(full, "payout_balance", "expected_balance"))))
		}
	}
	require.Len(t, shown, 1+len(stricterFields())+len(widerValues()), "differences that showed, and none")
}
