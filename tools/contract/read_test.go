package contract

import (
	"bytes"
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

// reader reads one kind of object: the response of an endpoint, or a notification. The SDK reads notifications
// strictly, because they are signed.
type reader struct {
	*operation
	notification bool
	schema       *schema
	allowed      func(body string) error // the error of the document
	read         func(body string) (any, error)
}

// readers returns all readers. Responses have HTTP status 200.
func readers(t testing.TB) (list []reader) {
	t.Helper()
	const base = "http://127.0.0.1:4010"
	_, endpoints, notification := readService(t, false)
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme(), Secret: secret, Now: now})
	require.NoError(t, err)
	for _, o := range endpoints {
		responding := func(body string) *message { return post("", "{}").withResponse(body) }
		list = append(list, reader{
			operation: o,
			schema:    o.response(),
			allowed:   func(body string) error { return o.checkResponse(responding(body)) },
			read: func(body string) (any, error) {
				client := newClient(t, paymentsvc.Config{
					BaseURL: base, PartnerID: partnerID, ProjectID: projectID, Signer: signer,
					HTTPClient: &http.Client{Transport: fixedResponse{responding(body)}},
					Retry:      paymentsvc.Retry{MaxAttempts: 1},
				})
				return calls[o.ID](t.Context(), client, o.routes()[0].paymentType, false)
			},
		})
	}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme(), Secrets: []paymentsvc.Secret{secret}, Tolerance: paymentsvc.AnyAge,
	})
	require.NoError(t, err)
	return append(list, reader{
		operation:    notification,
		notification: true,
		schema:       notification.request(),
		allowed:      func(body string) error { return notification.checkRequest(post("", body)) },
		read:         func(body string) (any, error) { return webhook.Parse(post("", body).header, []byte(body)) },
	})
}

// fixedResponse is a transport with the same response for each request.
type fixedResponse struct{ *message }

func (a fixedResponse) RoundTrip(req *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, req.Body)
	return &http.Response{
		StatusCode: a.status, Header: a.responseHeader.Clone(), Request: req,
		Body: io.NopCloser(bytes.NewReader(a.responseBody)), ContentLength: int64(len(a.responseBody)),
	}, err
}

// verdict is the result for a body: accepted, rejected, or accepted without an unreadable field.
type verdict string

const (
	accepted verdict = "accepted"
	rejected verdict = "rejected"
)

func acceptedWithout(field string) verdict { return "accepted without " + verdict(field) }

// judge reads a body with the SDK. It checks the error of a rejection, and that an unreadable field has its zero value.
func (r *reader) judge(t require.TestingT, body string) verdict {
	result, err := r.read(body)
	switch {
	case err == nil:
		v := reflect.Indirect(reflect.ValueOf(result))
		require.Equal(t, body, string(v.FieldByName("Raw").Bytes()))
		names := v.FieldByName("Malformed")
		if !names.IsValid() || names.IsNil() {
			return accepted
		}
		lost := names.Interface().([]string)
		for _, name := range lost {
			require.True(t, fieldNamed(v, name).IsZero(), "%s is malformed and has a value", name)
		}
		return acceptedWithout(strings.Join(lost, ", "))
	case r.notification:
		require.ErrorIs(t, err, paymentsvc.ErrMalformedNotification)
	default:
		require.ErrorIs(t, err, paymentsvc.ErrUnexpectedResponse)
		require.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err), "the response is malformed")
	}
	return rejected
}

// stricter is a field that the SDK requires beyond the document. The SDK differs from the document only in these fields
// and in widerValues.
type stricter struct {
	id, field string
	empty     bool // the value must not be empty; otherwise the field must exist
	section   string
	reason    string
}

func stricterFields() []stricter {
	const (
		noForm    = "a form without an address is useless, and its outcome is unknown"
		noInvoice = "without it, the payer cannot open the invoice and the program cannot find it; the outcome is unknown"
		noOrder   = "an empty identifier finds no order"
	)
	return []stricter{
		{"InitForm", "redirect_url", false, "4.5", noForm},
		{"InitInvoice", "invoice_url", false, "4.6", noInvoice},
		{"InitInvoice", "order_id", false, "4.6", noInvoice},
		{"InitInvoice", "order_id", true, "4.6", noOrder},
		{"GetBalance", "currency", false, "4.7", "an amount without a currency has no meaning"},
		{"InitPayout", "order_id", true, "4.3", noOrder},
		{"StatusChanged", "order_id", true, "6", noOrder},
		{"StatusChanged", "status_description", true, "6", "the document specifies only the values of this status"},
	}
}

// needs reports whether the SDK requires a field, or a non-empty field, beyond the document.
func needs(id, field string, empty bool) bool {
	return slices.ContainsFunc(
		stricterFields(), func(s stricter) bool { return s.id == id && s.field == field && s.empty == empty },
	)
}

// wider is a value that the SDK accepts, although the document does not allow it.
type wider struct {
	name    string
	section string
	reason  string
	lost    bool // unreadable, so the field stays unset and is listed in Malformed
	is      func(p *schema, value string, optional bool) bool
}

// widerValues returns these values. The first match decides.
func widerValues() []wider {
	isText := func(value string) bool { return len(value) > 2 && value[0] == '"' }
	const written = "programs encode missing values in this way"
	return []wider{
		{"null for a field that may be absent", "4", written, false,
			func(_ *schema, value string, optional bool) bool { return value == "null" && optional }},
		{"a number in quotes", "2.1", "services put amounts in quotes to keep them exact", false,
			func(p *schema, value string, _ bool) bool { return p.Type == "number" && value == `"10.50"` }},
		{"an integer in quotes", "2.1", "a notification or an order_id must not be lost because of quotes", false,
			func(p *schema, value string, _ bool) bool { return p.Type == "integer" && value == `"17"` }},
		{"text of another form", "2.2", "the order was started, with any form of its order_id or address", false,
			func(p *schema, value string, _ bool) bool { return p.Format != "" && isText(value) }},
		{"an empty address that may be absent", "4.1", written, false,
			func(p *schema, value string, optional bool) bool {
				return p.Format == "uri" && value == `""` && optional
			}},
		{"a name that the document does not have", "6", "the service may gain events", false,
			func(p *schema, value string, _ bool) bool { return len(p.Enum) > 0 && isText(value) }},
		{"any other value of a field that may be absent", "4",
			"neither a payment that was started nor a notification is lost because of a description", true,
			func(_ *schema, _ string, optional bool) bool { return optional }},
	}
}

// differenceAt returns the intended difference for a value of a field, and the expected verdict. It returns "" if no
// difference is listed. The value "" means an absent field. allowed reports whether the document accepts the value.
func differenceAt(r *reader, field, value string, allowed bool) (string, verdict) {
	if value == "" && needs(r.ID, field, false) || value == `""` && needs(r.ID, field, true) {
		return fmt.Sprintf("%s.%s is %q", r.ID, field, value), rejected
	}
	optional := !slices.Contains(r.schema.Required, field) && !needs(r.ID, field, false)
	for _, w := range widerValues() {
		if !allowed && w.is(r.schema.Properties[field], value, optional) {
			if w.lost {
				return w.name, acceptedWithout(field)
			}
			return w.name, accepted
		}
	}
	return "", ""
}

// TestSDKReadsFieldsAsTheDocumentAllows tests each field of every response and notification: absent, null, empty, in
// another form and of every other type. The SDK accepts and rejects the same values as the document, except for the
// listed differences. Each difference must occur.
func TestSDKReadsFieldsAsTheDocumentAllows(t *testing.T) {
	shown := map[string]bool{}
	for _, r := range readers(t) {
		full := r.schema.full(t)
		require.Equal(t, accepted, r.judge(t, full.String()), r.ID)
		for field, p := range r.schema.Properties {
			for _, value := range append(p.wrong(), "", `""`) {
				body := full.without(field)
				if value != "" {
					body = full.with(field, value)
				}
				allowed := r.allowed(body.String()) == nil
				difference, want := differenceAt(&r, field, value, allowed)
				shown[difference] = true
				if difference == "" {
					want = map[bool]verdict{true: accepted, false: rejected}[allowed]
				}
				require.Equal(t, want, r.judge(t, body.String()),
					"%s: %s as %s: allowed by the document: %t; difference: %s", r.ID, field, value, allowed, difference)
			}
		}
		if r.ID == "GetBalance" { // section 4.7 requires at least one balance
			require.Equal(t, rejected, r.judge(t, full.without("payout_balance", "expected_balance").String()))
		}
	}
	require.Len(t, shown, 1+len(stricterFields())+len(widerValues()), "each listed difference, and no difference")
}
