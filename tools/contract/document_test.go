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
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
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
