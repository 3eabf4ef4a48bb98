// Package contract compares the SDK and its fake with testdata/openapi.yaml, the interface document as OpenAPI 3.1. It
// validates the requests of the SDK and the responses of paymentsvctest against the document, and reads responses and
// notifications with one changed field. The paths, fields, types and names of the SDK must be the same as in the
// document. Package contract also compares the control API of the mock server with its openapi.json.
//
// Tables in read_test.go list the intended differences, with the section of the interface document and the reason. A
// test fails if a listed difference no longer exists.
package contract

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// readService reads openapi.yaml, and returns its version, its endpoints, and its only webhook.
func readService(t testing.TB, closed bool) (version string, endpoints []*operation, notification *operation) {
	t.Helper()
	text, err := os.ReadFile("../../testdata/openapi.yaml")
	require.NoError(t, err)
	d := readDocument(t, text, closed)
	for path, operations := range d.Paths {
		o := operations["post"]
		require.Len(t, operations, 1, path)
		require.Len(t, o.Responses, 1, path)
		require.NotNil(t, o.response(), path)
		require.True(t, o.RequestBody.Required, path)
		endpoints = append(endpoints, o)
	}
	require.Len(t, d.Webhooks, 1)
	notification = d.Webhooks["status_changed"]["post"]
	require.True(t, notification.RequestBody.Required)
	return d.Info.Version, endpoints, notification
}

func (o *operation) request() *schema  { return o.RequestBody.Content["application/json"].Schema }
func (o *operation) response() *schema { return o.Responses["200"].Content["application/json"].Schema }

// route is a path of an operation, with the payment type in it.
type route struct{ path, paymentType string }

// routes returns the operation's paths, with each payment type.
func (o *operation) routes() (all []route) {
	for _, p := range o.Parameters {
		if p.In == "path" {
			for _, value := range p.Schema.Enum {
				all = append(all, route{strings.ReplaceAll(o.path, "{"+p.Name+"}", value), value})
			}
			return all
		}
	}
	return []route{{o.path, ""}}
}

// message is an HTTP exchange. For a notification, the fields of the response are empty.
type message struct {
	method string
	url    string
	header http.Header
	body   []byte

	status         int
	responseHeader http.Header
	responseBody   []byte
}

func (m *message) request() *http.Request {
	req, err := http.NewRequest(m.method, m.url, bytes.NewReader(m.body))
	if err != nil {
		panic(err) // method and URL are valid
	}
	req.Header = m.header.Clone()
	return req
}

// withResponse adds a successful response to m.
func (m *message) withResponse(body string) *message {
	m.status, m.responseBody = http.StatusOK, []byte(body)
	m.responseHeader = http.Header{"Content-Type": {"application/json"}}
	return m
}

// TestSDKHasTheNamesOfTheDocument compares the version, the operations, their headers, and the events. Other tests
// compare the fields.
func TestSDKHasTheNamesOfTheDocument(t *testing.T) {
	version, endpoints, notification := readService(t, true)
	require.Equal(t, paymentsvc.InterfaceVersion, version)
	var operations []string
	for _, o := range append(endpoints, notification) {
		operations = append(operations, o.ID)
		var headers []string
		for _, p := range o.Parameters {
			if p.In == "header" {
				require.True(t, p.Required, o.ID)
				headers = append(headers, p.Name+" "+p.Schema.Type.(string))
			}
		}
		require.ElementsMatch(t, []string{"timestamp integer", "signature string"}, headers, o.ID)
	}
	require.ElementsMatch(t, operations, append(endpointMethods(), notification.ID))
	require.ElementsMatch(t, endpointMethods(), slices.Collect(maps.Keys(calls)))
	for _, name := range notification.request().Properties["event"].Enum {
		require.True(t, paymentsvc.EventType(name).Known(), name)
	}
	require.False(t, paymentsvc.EventType("dispute.status_changed").Known())
}

// TestSentRequestsAndResponsesFitTheDocument makes every call, and validates the request and the fake's response.
func TestSentRequestsAndResponsesFitTheDocument(t *testing.T) {
	_, endpoints, _ := readService(t, true)
	for _, o := range endpoints {
		for _, route := range o.routes() {
			for _, full := range []bool{false, true} {
				s := serve(t)
				client := s.client(t)
				switch o.ID { // start the order for the status call
				case "StatusPayment":
					_, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeMC, paymentsvc.PaymentRequest{
						Amount: paymentsvc.MustParseAmount("10.50"), UserData: "order-1",
					})
					require.NoError(t, err)
					s.only(t)
				case "StatusPayout":
					_, err := calls["InitPayout"](t.Context(), client, "", full)
					require.NoError(t, err)
					s.only(t)
				}
				_, err := calls[o.ID](t.Context(), client, route.paymentType, full)
				require.NoError(t, err, route.path)
				m := s.only(t)
				require.Equal(t, s.base+route.path, m.url)
				require.NoError(t, o.checkRequest(m), "request %s", m.body)
				require.NoError(t, o.checkResponse(m), "response %s", m.responseBody)
				requireHeaders(t, m)
				if full { // a status request has user_data and no order_id
					want := o.request().full(t)
					if o.request().AnyOf != nil {
						delete(want, "order_id")
					}
					var sent members
					require.NoError(t, json.Unmarshal(m.body, &sent))
					require.ElementsMatch(
						t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(sent)), route.path)
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
	full := s.full(t)
	all := map[string]bool{
		full.String():                           true,
		full.with("foreign", `"text"`).String(): false,
		strings.TrimSuffix(full.String(), "}"):  false,
		full.String() + "1":                     false,
		"[" + full.String() + "]":               false,
		"null":                                  false,
		"":                                      false,
	}
	for name, p := range s.Properties {
		all[full.without(name).String()] = !slices.Contains(s.Required, name)
		all[full.with(strings.ToUpper(name), string(full[name])).String()] = false
		for _, value := range p.wrong() {
			all[full.with(name, value).String()] = false
		}
	}
	if s.AnyOf != nil {
		all[full.without("order_id", "user_data").String()] = false
	}
	return all
}

// TestFakeRejectsTheBodiesThatTheDocumentRejects sends the fake valid and invalid bodies with correct signatures. This
// also proves that the other tests can fail.
func TestFakeRejectsTheBodiesThatTheDocumentRejects(t *testing.T) {
	_, endpoints, notification := readService(t, true)
	for _, o := range endpoints {
		for _, route := range o.routes() {
			for body, valid := range variations(t, o.request()) {
				s := serve(t)
				sent := post(s.base+route.path, body)
				require.Equal(t, valid, o.checkRequest(sent) == nil, "%s: %s", route.path, body)
				resp, err := s.http.Do(sent.request())
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				m := s.only(t)
				rejected := s.fake.Rejected() // ProblemNotFound means a valid request, because the fake has no order
				accepted := len(rejected) == 0 || rejected[0].Problem == paymentsvctest.ProblemNotFound
				require.Equal(t, valid, accepted, "%s: %s: %s", route.path, body, m.responseBody)
			}
		}
		for body, valid := range variations(t, o.response()) {
			m := post("", "{}").withResponse(body)
			require.Equal(t, valid, o.checkResponse(m) == nil, "response of %s: %s", o.ID, body)
		}
	}
	for body, valid := range variations(t, notification.request()) {
		require.Equal(t, valid, notification.checkRequest(post("", body)) == nil, "notification: %s", body)
	}
}
