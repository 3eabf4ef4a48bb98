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
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	validation "github.com/pb33f/libopenapi-validator/errors"
	"github.com/pb33f/libopenapi/datamodel/high/base"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/pb33f/libopenapi/orderedmap"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/paymentsvc/paymentsvc"
)

const documentFile = "../../testdata/openapi.yaml"

// webhookPath is the path of notifications in these tests. The document does not specify a path (section 6).
const webhookPath = "/webhooks/status_changed"

// document has the parts of openapi.yaml for these tests.
type document struct {
	version      string
	operations   []*operation // the endpoints
	notification *operation   // the only webhook
}

// operation is an endpoint, or the webhook, which has no response.
type operation struct {
	id, path          string
	request, response *schema
	parameters        []*v3.Parameter
	types             []string // payment types, the values of {type} in the path
}

// schema is the schema of an object.
type schema struct {
	properties []property // in the document's order
	required   []string
	choices    []string // at least one is required
}

type property struct {
	name, typ, format string
	enum              []string
}

func (s *schema) requires(name string) bool { return slices.Contains(s.required, name) }

func (s *schema) names() []string {
	var names []string
	for _, p := range s.properties {
		names = append(names, p.name)
	}
	return names
}

// route is a path of an operation, with the payment type in it.
type route struct{ path, paymentType string }

// routes returns the operation's paths, with each payment type.
func (o *operation) routes() (all []route) {
	for _, name := range o.types {
		all = append(all, route{strings.ReplaceAll(o.path, "{type}", name), name})
	}
	if all == nil {
		return []route{{o.path, ""}}
	}
	return all
}

func readDocument(t testing.TB) *document {
	t.Helper()
	data, err := os.ReadFile(documentFile)
	require.NoError(t, err)
	parsed, err := libopenapi.NewDocument(data)
	require.NoError(t, err)
	built, err := parsed.BuildV3Model()
	require.NoError(t, err)
	webhooks := operationsOf(t, built.Model.Webhooks)
	require.Len(t, webhooks, 1, "webhooks of the document")
	return &document{built.Model.Info.Version, operationsOf(t, built.Model.Paths.PathItems), webhooks[0]}
}

func operationsOf(t testing.TB, items *orderedmap.Map[string, *v3.PathItem]) (list []*operation) {
	t.Helper()
	for path, item := range items.FromOldest() {
		require.NotNil(t, item.Post, path)
		o := &operation{id: item.Post.OperationId, path: path, parameters: item.Post.Parameters}
		o.request = schemaOf(item.Post.RequestBody.Content)
		require.True(t, *item.Post.RequestBody.Required, path)
		if ok := item.Post.Responses.Codes.GetOrZero("200"); ok != nil {
			require.Equal(t, 1, item.Post.Responses.Codes.Len(), path)
			o.response = schemaOf(ok.Content)
		}
		for _, p := range o.parameters {
			if p.In == "path" {
				o.types = texts(p.Schema.Schema())
			}
		}
		list = append(list, o)
	}
	return list
}

func schemaOf(content *orderedmap.Map[string, *v3.MediaType]) *schema {
	object := content.GetOrZero("application/json").Schema.Schema()
	s := &schema{required: object.Required}
	for name, proxy := range object.Properties.FromOldest() {
		p := proxy.Schema()
		s.properties = append(s.properties, property{name, p.Type[0], p.Format, texts(p)})
	}
	for _, choice := range object.AnyOf {
		s.choices = append(s.choices, choice.Schema().Required...)
	}
	return s
}

// texts returns the values of an enumeration.
func texts(s *base.Schema) (values []string) {
	for _, node := range s.Enum {
		values = append(values, node.Value)
	}
	return values
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

func (m *message) response() *http.Response {
	return &http.Response{
		StatusCode:    m.status,
		Header:        m.responseHeader.Clone(),
		Body:          io.NopCloser(bytes.NewReader(m.responseBody)),
		ContentLength: int64(len(m.responseBody)),
	}
}

// contract has two validators of the document for one base address.
type contract struct {
	// closed rejects names outside the document, for messages of the SDK and the fake.
	closed validator.Validator
	// open accepts further members, for responses of a service.
	open validator.Validator
}

// newContract reads the document for a service at base, such as "http://127.0.0.1:4010/partner/v1".
func newContract(t testing.TB, base string) *contract {
	t.Helper()
	strict := []config.Option{
		config.WithStrictMode(),
		// Their members are not specified (section 2.7).
		config.WithStrictIgnorePaths("$.body.card_data", "$.body.browser", "$.body.payer", "$.body.payee"),
		config.WithStrictIgnoredHeaders("content-type", "content-length", "user-agent", "accept-encoding", "date"),
	}
	return &contract{
		closed: newValidator(t, base, strict...),
		open:   newValidator(t, base),
	}
}

// newValidator changes the address in the document, and changes the webhook into a path, because the validator reads
// only paths.
func newValidator(t testing.TB, base string, options ...config.Option) validator.Validator {
	t.Helper()
	data, err := os.ReadFile(documentFile)
	require.NoError(t, err)
	tree := map[string]any{}
	require.NoError(t, yaml.Unmarshal(data, &tree))
	tree["servers"] = []any{map[string]any{"url": base}}
	paths := tree["paths"].(map[string]any)
	paths[webhookPath] = tree["webhooks"].(map[string]any)["status_changed"]
	delete(tree, "webhooks")
	derived, err := json.Marshal(tree)
	require.NoError(t, err)
	parsed, err := libopenapi.NewDocument(derived)
	require.NoError(t, err)
	v, errs := validator.NewValidator(parsed, append(options,
		config.WithFormatAssertions(), // uuid and uri are part of the types
		config.WithStrictServerMatching(),
		config.WithRejectUnsupportedBodyContent(),
	)...)
	require.Empty(t, errs)
	return v
}

func checkRequest(v validator.Validator, m *message) error {
	_, errs := v.ValidateHttpRequestSync(m.request())
	return joined(m.body, errs)
}

func checkResponse(v validator.Validator, m *message) error {
	_, errs := v.ValidateHttpResponse(m.request(), m.response())
	return joined(m.responseBody, errs)
}

// joined returns the findings of a validator as one error. The validator ignores empty bodies and null.
func joined(body []byte, found []*validation.ValidationError) error {
	if text := string(bytes.TrimSpace(body)); text == "" || text == "null" {
		return fmt.Errorf("the body is %q", text)
	}
	var all []error
	for _, e := range found {
		text := e.Message + ": " + e.Reason
		for _, s := range e.SchemaValidationErrors {
			text += fmt.Sprintf("; %s: %s", s.FieldPath, s.Reason)
		}
		all = append(all, errors.New(text))
	}
	return errors.Join(all...)
}

func TestDocumentIsOpenAPI31(t *testing.T) {
	data, err := os.ReadFile(documentFile)
	require.NoError(t, err)
	parsed, err := libopenapi.NewDocument(data)
	require.NoError(t, err)
	v, errs := validator.NewValidator(parsed)
	require.Empty(t, errs)
	_, found := v.ValidateDocument()
	require.NoError(t, joined(data, found))
	require.Equal(t, "3.1.0", parsed.GetVersion())
}

// TestSDKHasTheNamesOfTheDocument compares the version, the operations, their headers, and the events. Other tests
// compare the fields.
func TestSDKHasTheNamesOfTheDocument(t *testing.T) {
	d := readDocument(t)
	require.Equal(t, paymentsvc.InterfaceVersion, d.version)
	var operations []string
	for _, o := range append(d.operations, d.notification) {
		operations = append(operations, o.id)
		var headers []string
		for _, p := range o.parameters {
			if p.In == "header" {
				require.True(t, *p.Required, o.id)
				headers = append(headers, p.Name+" "+p.Schema.Schema().Type[0])
			}
		}
		require.ElementsMatch(t, []string{"timestamp integer", "signature string"}, headers, o.id)
	}
	require.ElementsMatch(t, operations, append(endpointMethods(), d.notification.id))
	require.ElementsMatch(t, endpointMethods(), slices.Collect(maps.Keys(calls)))
	for _, p := range d.notification.request.properties {
		for _, name := range p.enum {
			require.True(t, paymentsvc.EventType(name).Known(), name)
		}
	}
	require.False(t, paymentsvc.EventType("dispute.status_changed").Known())
}
