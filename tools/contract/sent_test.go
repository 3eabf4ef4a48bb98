package contract

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// TestSentRequestsAndResponsesFitTheDocument makes every call, and validates the request and the fake's response.
func TestSentRequestsAndResponsesFitTheDocument(t *testing.T) {
	s := serve(t)
	for _, o := range readDocument(t).operations {
		for _, route := range o.routes() {
			for _, full := range []bool{false, true} {
				s.renew(t)
				client := newClient(t, s.config())
				switch o.id { // start the order for the status call
				case "StatusPayment":
					_, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeMC, paymentsvc.PaymentRequest{
						Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1",
					})
					require.NoError(t, err)
				case "StatusPayout":
					_, err := calls["InitPayout"](t.Context(), client, "", full)
					require.NoError(t, err)
				}
				s.taken()
				_, err := calls[o.id](t.Context(), client, route.paymentType, full)
				require.NoError(t, err, route.path)
				m := s.only(t)
				require.Equal(t, s.base+route.path, m.url)
				require.NoError(t, checkRequest(s.closed, m), "request %s", m.body)
				require.NoError(t, checkResponse(s.closed, m), "response %s", m.responseBody)
				requireHeaders(t, m)
				if full { // a status request has user_data and no order_id
					names := o.request.names()[min(1, len(o.request.choices)):]
					require.ElementsMatch(t, names, slices.Collect(maps.Keys(membersOf(t, m.body))), route.path)
				}
			}
		}
	}
}

// requireHeaders checks the headers of section 5 without the SDK, and rejects further headers except those of HTTP.
func requireHeaders(t require.TestingT, m *message) {
	require.ElementsMatch(t,
		[]string{"Accept-Encoding", "Content-Length", "Content-Type", "Signature", "Timestamp", "User-Agent"},
		slices.Collect(maps.Keys(m.header)))
	for name, values := range m.header {
		require.Len(t, values, 1, name)
	}
	require.Equal(t, "application/json", m.header.Get("Content-Type"))
	require.Equal(t, strconv.Itoa(len(m.body)), m.header.Get("Content-Length"))
	require.Equal(t, timestamp, m.header.Get("Timestamp"))
	require.Equal(t, signature(timestamp, m.body), m.header.Get("Signature"))
}

// variations returns bodies with one change each, and whether a closed schema accepts them.
func variations(t require.TestingT, s *schema) map[string]bool {
	full := fullBody(t, s)
	backward := slices.Clone(full)
	slices.Reverse(backward)
	all := map[string]bool{
		objectOf(full):     true,
		objectOf(backward): true,
		objectOf(with(full, "foreign", `"text"`)): false,
		strings.TrimSuffix(objectOf(full), "}"):   false,
		objectOf(full) + "1":                      false,
		"[" + objectOf(full) + "]":                false,
		"null":                                    false,
		"":                                        false,
	}
	for _, p := range s.properties {
		all[objectOf(without(full, p.name))] = !s.requires(p.name)
		all[objectOf(with(full, strings.ToUpper(p.name), example(t, p)))] = false
		for _, value := range ofOtherTypes(p) {
			all[objectOf(with(full, p.name, value))] = false
		}
	}
	if s.choices != nil {
		all[objectOf(without(full, s.choices...))] = false
	}
	return all
}

// TestFakeRejectsTheBodiesThatTheDocumentRejects sends the fake valid and invalid bodies with correct signatures. This
// also proves that the other tests can fail.
func TestFakeRejectsTheBodiesThatTheDocumentRejects(t *testing.T) {
	d := readDocument(t)
	s := serve(t)
	for _, o := range d.operations {
		for _, route := range o.routes() {
			for body, valid := range variations(t, o.request) {
				s.renew(t)
				sent := post(s.base+route.path, body)
				require.Equal(t, valid, checkRequest(s.closed, sent) == nil, "%s: %s", route.path, body)
				m := s.send(t, sent)
				rejected := s.fake.Rejected() // ProblemNotFound means a valid request, because the fake has no order
				accepted := len(rejected) == 0 || rejected[0].Problem == paymentsvctest.ProblemNotFound
				require.Equal(t, valid, accepted, "%s: %s: %s", route.path, body, m.responseBody)
			}
		}
		for body, valid := range variations(t, o.response) {
			m := post(s.base+o.routes()[0].path, "{}").withResponse(body)
			require.Equal(t, valid, checkResponse(s.closed, m) == nil, "response of %s: %s", o.id, body)
		}
	}
	for body, valid := range variations(t, d.notification.request) {
		require.Equal(t, valid, checkRequest(s.closed, post(s.base+webhookPath, body)) == nil, "notification: %s", body)
	}
}
