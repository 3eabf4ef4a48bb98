package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	validation "github.com/pb33f/libopenapi-validator/errors"
	"github.com/stretchr/testify/require"
)

// webhookPath is where a notification is received in these tests. The document shows no path for it (section 6).
const webhookPath = "/webhooks/status_changed"

// message is one HTTP exchange as it was on the wire; the answer's part is empty for a notification.
type message struct {
	method string
	url    string
	header http.Header
	body   []byte

	status       int
	answerHeader http.Header
	answer       []byte
}

func (m *message) request() *http.Request {
	req, err := http.NewRequest(m.method, m.url, bytes.NewReader(m.body))
	if err != nil {
		panic(err) // it came from net/http
	}
	req.Header = m.header.Clone()
	return req
}

func (m *message) response() *http.Response {
	return &http.Response{
		StatusCode:    m.status,
		Header:        m.answerHeader.Clone(),
		Body:          io.NopCloser(bytes.NewReader(m.answer)),
		ContentLength: int64(len(m.answer)),
	}
}

// contract is the document at one base address, in three readings.
type contract struct {
	// closed refuses what the document does not name: for what the SDK and the fake send.
	closed validator.Validator
	// open is JSON Schema as it is, where an object may have more members: for what a service may answer.
	open validator.Validator
	// refusal is closed, with an error in place of the answer.
	refusal validator.Validator
}

// errorFields are the fields that an error has in the fake's configuration: dotted names, the code and the message.
type errorFields struct{ code, message string }

// newContract reads the document for a service at base, such as "http://127.0.0.1:4010/partner/v1".
func newContract(t testing.TB, base string, fields errorFields) *contract {
	t.Helper()
	data, err := os.ReadFile(documentFile)
	require.NoError(t, err)
	c, err := contractOf(data, base, fields)
	require.NoError(t, err)
	return c
}

func contractOf(data []byte, base string, fields errorFields) (*contract, error) {
	c := &contract{}
	strict := []config.Option{
		config.WithStrictMode(),
		// What these hold is not shown (section 2.7).
		config.WithStrictIgnorePaths("$.body.card_data", "$.body.browser", "$.body.payer", "$.body.payee"),
		config.WithStrictIgnoredHeaders("content-type", "content-length", "user-agent", "accept-encoding", "date"),
	}
	for _, reading := range []struct {
		into    *validator.Validator
		derive  func(tree map[string]any)
		options []config.Option
	}{
		{&c.closed, func(map[string]any) {}, strict},
		{&c.open, func(map[string]any) {}, nil},
		{&c.refusal, func(tree map[string]any) { answerErrors(tree, fields) }, strict},
	} {
		_, tree, err := parseDocument(data)
		if err != nil {
			return nil, err
		}
		serveAt(tree, base)
		reading.derive(tree)
		derived, err := json.Marshal(tree)
		if err != nil {
			return nil, err
		}
		*reading.into, err = newValidator(derived, reading.options...)
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

func newValidator(document []byte, options ...config.Option) (validator.Validator, error) {
	parsed, err := libopenapi.NewDocument(document)
	if err != nil {
		return nil, err
	}
	v, errs := validator.NewValidator(parsed, append(options,
		config.WithFormatAssertions(), // uuid and uri are part of the types
		config.WithStrictServerMatching(),
		config.WithRejectUnsupportedBodyContent(),
	)...)
	return v, errors.Join(errs...)
}

// serveAt sets the address, and makes paths of the webhooks, which the validator knows no other way to look at.
func serveAt(tree map[string]any, base string) {
	tree["servers"] = []any{map[string]any{"url": base}}
	paths := tree["paths"].(map[string]any)
	for name, item := range tree["webhooks"].(map[string]any) {
		paths["/webhooks/"+name] = item
	}
	delete(tree, "webhooks")
}

// answerErrors puts the error in place of the answers. Section 7 gives both one shape, and shows neither the names of
// the error's two fields, which are those of the fake's configuration here, nor the HTTP status, nor which other
// fields an error has: those that stand in it must have the document's types, and none has to.
func answerErrors(tree map[string]any, fields errorFields) {
	for path, item := range tree["paths"].(map[string]any) {
		if path == webhookPath {
			continue
		}
		responses := item.(map[string]any)["post"].(map[string]any)["responses"].(map[string]any)
		response := responses["200"].(map[string]any)
		shape := response["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
		properties := map[string]any{}
		for name, s := range shape["properties"].(map[string]any) {
			properties[name] = s
		}
		failure := map[string]any{"type": "object", "properties": properties}
		addText(failure, fields.code)
		addText(failure, fields.message)
		response["content"] = map[string]any{"application/json": map[string]any{"schema": failure}}
		clear(responses)
		responses["default"] = response
	}
}

// addText gives an object a required text under a dotted name.
func addText(object map[string]any, name string) {
	parent, below, nested := strings.Cut(name, ".")
	properties := object["properties"].(map[string]any)
	if required, _ := object["required"].([]any); !slices.Contains(required, any(parent)) {
		object["required"] = append(required, parent)
	}
	if !nested {
		properties[parent] = map[string]any{"type": "string"}
		return
	}
	child, ok := properties[parent].(map[string]any)
	if !ok {
		child = map[string]any{"type": "object", "properties": map[string]any{}}
		properties[parent] = child
	}
	addText(child, below)
}

func checkRequest(v validator.Validator, m *message) error {
	if err := passedOver(m.body); err != nil {
		return err
	}
	_, errs := v.ValidateHttpRequestSync(m.request())
	return joined(errs)
}

func checkAnswer(v validator.Validator, m *message) error {
	if err := passedOver(m.answer); err != nil {
		return err
	}
	_, errs := v.ValidateHttpResponse(m.request(), m.response())
	return joined(errs)
}

// passedOver refuses the two bodies that the validator takes for none and does not look at.
func passedOver(body []byte) error {
	switch string(bytes.TrimSpace(body)) {
	case "":
		return errors.New("the body is empty")
	case "null":
		return errors.New("the body is null")
	}
	return nil
}

// joined gives what a validator found wrong as one error, nil for nothing.
func joined(found []*validation.ValidationError) error {
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

func TestTheDocumentIsOpenAPI31(t *testing.T) {
	data, err := os.ReadFile(documentFile)
	require.NoError(t, err)
	v, err := newValidator(data)
	require.NoError(t, err)
	_, errs := v.ValidateDocument()
	require.NoError(t, joined(errs))
	require.Equal(t, "3.1.0", readDocument(t).OpenAPI)
}
