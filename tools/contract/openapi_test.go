package contract

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// document is the part of OpenAPI 3.1 that the documents use. Other names in a document are errors.
type document struct {
	OpenAPI string
	Info    struct{ Title, Version, Description string }
	Servers []struct {
		URL       string
		Variables map[string]struct{ Default string }
	}
	Paths, Webhooks map[string]map[string]*operation // by path and method
	Components      struct {
		Parameters    map[string]parameter
		RequestBodies map[string]requestBody `yaml:"requestBodies"`
		Schemas       map[string]*schema
	}
}

type operation struct {
	path        string
	ID          string `yaml:"operationId"`
	Summary     string
	Parameters  []parameter
	RequestBody requestBody `yaml:"requestBody"`
	Responses   map[string]response
}

type parameter struct {
	Name, In, Description string
	Required              bool
	Schema                *schema
}

type requestBody struct {
	Required bool
	Content  content
}

type response struct {
	Description string
	Content     content
}

// content maps media types to schemas.
type content map[string]struct{ Schema *schema }

type schema struct {
	Description          string             `yaml:",omitempty"`
	Type                 any                `yaml:",omitempty"`
	Format               string             `yaml:",omitempty"`
	Const                any                `yaml:",omitempty"`
	Enum                 []string           `yaml:",omitempty"`
	MinLength            int                `yaml:"minLength,omitempty"`
	Items                *schema            `yaml:",omitempty"`
	Required             []string           `yaml:",omitempty"`
	Properties           map[string]*schema `yaml:",omitempty"`
	AdditionalProperties *bool              `yaml:"additionalProperties,omitempty"`
	AnyOf                []*schema          `yaml:"anyOf,omitempty"`

	compiled *jsonschema.Schema
}

// readDocument reads a document in YAML or JSON. In a closed document, objects with listed properties have no other
// properties.
func readDocument(t testing.TB, text []byte, closed bool) *document {
	t.Helper()
	var tree any
	require.NoError(t, yaml.Unmarshal(text, &tree))
	resolved, err := yaml.Marshal(resolve(t, tree, tree, closed))
	require.NoError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(resolved))
	decoder.KnownFields(true)
	d := new(document)
	require.NoError(t, decoder.Decode(d))
	require.Equal(t, "3.1.0", d.OpenAPI)
	require.NotEmpty(t, d.Info.Title)
	require.NotEmpty(t, d.Info.Version)
	for _, paths := range []map[string]map[string]*operation{d.Paths, d.Webhooks} {
		for path, operations := range paths {
			for method, o := range operations {
				require.Contains(t, []string{"delete", "get", "patch", "post", "put"}, method, path)
				o.path = path
				o.prepare(t)
			}
		}
	}
	return d
}

// resolve returns a copy of a node without references.
func resolve(t testing.TB, root, node any, closed bool) any {
	switch node := node.(type) {
	case []any:
		list := slices.Clone(node)
		for i := range list {
			list[i] = resolve(t, root, list[i], closed)
		}
		return list
	case map[string]any:
		if reference, ok := node["$ref"].(string); ok {
			require.Len(t, node, 1, reference)
			target := root
			for _, name := range strings.Split(strings.TrimPrefix(reference, "#/"), "/") {
				parent, _ := target.(map[string]any)
				require.Contains(t, parent, name, reference)
				target = parent[name]
			}
			return resolve(t, root, target, closed)
		}
		object := maps.Clone(node)
		for name := range object {
			object[name] = resolve(t, root, object[name], closed)
		}
		if closed && object["properties"] != nil {
			object["additionalProperties"] = false
		}
		return object
	}
	return node
}

// prepare compiles the schemas of an operation, and checks rules of OpenAPI 3.1 that the types do not check.
func (o *operation) prepare(t testing.TB) {
	t.Helper()
	path := o.path
	require.NotEmpty(t, o.Responses, path)
	for status, r := range o.Responses {
		require.NotEmpty(t, r.Description, "%s: response %s", path, status)
		r.Content.compile(t)
	}
	o.RequestBody.Content.compile(t)
	for _, p := range o.Parameters {
		p.Schema.compile(t)
		require.Contains(t, []string{"header", "path", "query"}, p.In, path)
		if p.In == "path" {
			require.True(t, p.Required, path)
			require.Contains(t, path, "{"+p.Name+"}")
			path = strings.Replace(path, "{"+p.Name+"}", "", 1)
		}
	}
	require.NotContains(t, path, "{", "a path parameter is missing")
}

func (c content) compile(t testing.TB) {
	for _, media := range c {
		media.Schema.compile(t)
	}
}

// compile also compares the schema with the metaschema.
func (s *schema) compile(t testing.TB) {
	t.Helper()
	text, err := yaml.Marshal(s)
	require.NoError(t, err)
	var tree any
	require.NoError(t, yaml.Unmarshal(text, &tree))
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat() // uuid and uri are part of the types
	require.NoError(t, compiler.AddResource("schema", tree))
	s.compiled, err = compiler.Compile("schema")
	require.NoError(t, err, "%s", text)
}

// checkRequest does not check the path.
func (o *operation) checkRequest(m *message) error {
	address, err := url.Parse(m.url)
	if err != nil {
		return err
	}
	if o.RequestBody.Required || len(m.body) > 0 {
		err = o.RequestBody.Content.check(m.header, m.body)
	}
	return errors.Join(err, o.checkParameters("header", m.header), o.checkParameters("query", address.Query()))
}

func (o *operation) checkResponse(m *message) error {
	r, ok := o.Responses[strconv.Itoa(m.status)]
	if !ok {
		r, ok = o.Responses["default"]
	}
	if !ok {
		return fmt.Errorf("HTTP status %d is not in the document", m.status)
	}
	return errors.Join(r.Content.check(m.responseHeader, m.responseBody),
		new(operation).checkParameters("header", m.responseHeader))
}

// unlistedHeaders are headers of HTTP, which the documents do not list.
var unlistedHeaders = []string{
	"Accept-Encoding", "Allow", "Cache-Control", "Content-Length", "Content-Type", "Cross-Origin-Resource-Policy",
	"Date", "User-Agent", "X-Content-Type-Options",
}

// checkParameters compares the headers or the query of a request with the operation's parameters.
func (o *operation) checkParameters(in string, values map[string][]string) error {
	unknown := maps.Clone(values)
	for _, p := range o.Parameters {
		name := p.Name
		if in == "header" {
			name = http.CanonicalHeaderKey(name)
		}
		if p.In != in || !p.Required && values[name] == nil {
			continue
		}
		delete(unknown, name)
		if len(values[name]) != 1 {
			return fmt.Errorf("%d values of %s %s", len(values[name]), in, p.Name)
		}
		if err := p.Schema.check(values[name][0], p.Schema.Type != "integer"); err != nil {
			return fmt.Errorf("%s %s: %w", in, p.Name, err)
		}
	}
	for name := range unknown {
		if in != "header" || !slices.Contains(unlistedHeaders, name) {
			return fmt.Errorf("%s %s is not in the document", in, name)
		}
	}
	return nil
}

func (c content) check(header http.Header, body []byte) error {
	if c == nil && len(body) == 0 {
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return err
	}
	media, ok := c[mediaType]
	if !ok {
		return fmt.Errorf("media type %s is not in the document", mediaType)
	}
	return media.Schema.check(string(body), mediaType != "application/json")
}

// check checks JSON, or text that is the value itself.
func (s *schema) check(text string, isValue bool) error {
	if isValue {
		return s.compiled.Validate(text)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.compiled.Validate(value)
}
