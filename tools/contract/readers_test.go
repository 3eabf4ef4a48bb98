package contract

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

// reader is one kind of object that the SDK reads: an endpoint's answer, or a notification.
type reader struct {
	// id is the operationId.
	id     string
	schema *schema
	// into is the struct that it is read into.
	into reflect.Type
	// allowed says what the document, as JSON Schema, finds wrong with a body.
	allowed func(body string) error
	// read is the SDK.
	read func(body string) (any, error)
}

// readers are all of them. An answer is read as if it had come with HTTP 200.
func readers(t testing.TB) []reader {
	t.Helper()
	const base = "http://127.0.0.1:4010"
	p := places()[0]
	c := newContract(t, base, p.errors)
	d := readDocument(t)
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: p.scheme(), Secret: secret, Now: now})
	require.NoError(t, err)

	var list []reader
	for _, o := range d.operations() {
		var request any
		if typ := requestType(t, o.OperationID); typ != nil {
			request = minimalRequest(t, o).Interface()
		}
		answered := func(body string) *message {
			return &message{
				method: http.MethodPost, url: base + o.paths()[0], header: http.Header{},
				status: http.StatusOK, answerHeader: http.Header{"Content-Type": {"application/json"}}, answer: []byte(body),
			}
		}
		list = append(list, reader{
			id:      o.OperationID,
			schema:  o.answer(),
			into:    answerType(t, o.OperationID),
			allowed: func(body string) error { return checkAnswer(c.open, answered(body)) },
			read: func(body string) (any, error) {
				client := newClient(t, paymentsvc.Config{
					BaseURL: base, PartnerID: partnerID, ProjectID: projectID, Signer: signer,
					HTTPClient: &http.Client{Transport: answering(answered(body))},
					Retry:      paymentsvc.Retry{MaxAttempts: 1},
				})
				return invoke(t, client, o.OperationID, o.paymentType(0), request)
			},
		})
	}

	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: p.scheme(), Secrets: []paymentsvc.Secret{secret}, Tolerance: paymentsvc.AnyAge,
	})
	require.NoError(t, err)
	notified := func(body string) *message {
		return &message{
			method: http.MethodPost, url: base + webhookPath, body: []byte(body),
			header: http.Header{
				"Content-Type": {"application/json"},
				"Timestamp":    {timestamp},
				"Signature":    {p.signature(timestamp, []byte(body))},
			},
		}
	}
	o := d.notification(t)
	return append(list, reader{
		id:      o.OperationID,
		schema:  o.request(),
		into:    reflect.TypeFor[paymentsvc.Notification](),
		allowed: func(body string) error { return checkRequest(c.open, notified(body)) },
		read: func(body string) (any, error) {
			n, err := webhook.Parse(notified(body).header, []byte(body))
			return n, err
		},
	})
}

// answering answers every request with the same.
func answering(m *message) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, req.Body)
		resp := m.response()
		resp.Request = req
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// verdict is what becomes of a body.
type verdict string

const (
	taken    verdict = "taken"
	rejected verdict = "rejected"
)

// takenBut is the verdict on a body that is taken although a field of it cannot be read.
func takenBut(field string) verdict { return "taken but for " + verdict(field) }

// notification reports whether r reads notifications, which are signed and so read strictly.
func (r *reader) notification() bool { return r.into == reflect.TypeFor[paymentsvc.Notification]() }

// judge has the SDK read a body, and checks that a rejection is what the SDK promises of it, and that a field that
// cannot be read costs no other field.
func (r *reader) judge(t require.TestingT, body string) verdict {
	result, err := r.read(body)
	if err == nil {
		v := reflect.Indirect(reflect.ValueOf(result))
		require.Equal(t, body, string(v.FieldByName("Raw").Bytes()))
		lost := malformed(v)
		for _, name := range lost {
			require.True(t, fieldNamed(v, name).IsZero(), "%s is malformed and has a value", name)
		}
		if len(lost) > 0 {
			return takenBut(strings.Join(lost, ", "))
		}
		return taken
	}
	if r.notification() {
		require.ErrorIs(t, err, paymentsvc.ErrMalformedNotification)
		return rejected
	}
	require.ErrorIs(t, err, paymentsvc.ErrUnexpectedResponse)
	require.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err), "an answer that is not understood")
	return rejected
}
