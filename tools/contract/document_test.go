package contract

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const documentFile = "../../testdata/openapi.yaml"

// document is openapi.yaml with its references followed. It is read strictly: a keyword that these types do not have
// is one that no test looks at, and so an error.
type document struct {
	OpenAPI    string              `yaml:"openapi"`
	Info       info                `yaml:"info"`
	Servers    []server            `yaml:"servers"`
	Paths      map[string]pathItem `yaml:"paths"`
	Webhooks   map[string]pathItem `yaml:"webhooks"`
	Components any                 `yaml:"components"` // stands where it is referred to
}

type info struct {
	Title       string `yaml:"title"`
	Version     string `yaml:"version"`
	Description string `yaml:"description"`
}

type server struct {
	URL       string `yaml:"url"`
	Variables any    `yaml:"variables"`
}

type pathItem struct {
	Post *operation `yaml:"post"`
}

type operation struct {
	OperationID string              `yaml:"operationId"`
	Parameters  []parameter         `yaml:"parameters"`
	RequestBody requestBody         `yaml:"requestBody"`
	Responses   map[string]response `yaml:"responses"`

	path string
}

type parameter struct {
	Name        string  `yaml:"name"`
	In          string  `yaml:"in"`
	Required    bool    `yaml:"required"`
	Description string  `yaml:"description"`
	Schema      *schema `yaml:"schema"`
}

type requestBody struct {
	Required bool    `yaml:"required"`
	Content  content `yaml:"content"`
}

type response struct {
	Description string  `yaml:"description"`
	Content     content `yaml:"content"`
}

type content struct {
	JSON struct {
		Schema *schema `yaml:"schema"`
	} `yaml:"application/json"`
}

type schema struct {
	Description string     `yaml:"description"`
	Type        string     `yaml:"type"`
	Format      string     `yaml:"format"`
	Enum        []string   `yaml:"enum"`
	MinLength   int        `yaml:"minLength"`
	Required    []string   `yaml:"required"`
	Properties  properties `yaml:"properties"`
	AnyOf       []*schema  `yaml:"anyOf"`
}

// properties keeps the document's order.
type properties []property

type property struct {
	name string
	*schema
}

func (p *properties) UnmarshalYAML(node *yaml.Node) error {
	for i := 0; i+1 < len(node.Content); i += 2 {
		var s schema
		if err := decodeStrictly(node.Content[i+1], &s); err != nil {
			return err
		}
		*p = append(*p, property{node.Content[i].Value, &s})
	}
	return nil
}

func (s *schema) names() []string {
	var names []string
	for _, p := range s.Properties {
		names = append(names, p.name)
	}
	return names
}

func (s *schema) property(name string) *schema {
	for _, p := range s.Properties {
		if p.name == name {
			return p.schema
		}
	}
	return nil
}

func (s *schema) requires(name string) bool { return slices.Contains(s.Required, name) }

// request is the schema of what is sent.
func (o *operation) request() *schema { return o.RequestBody.Content.JSON.Schema }

// answer is the schema of the only answer that the document promises.
func (o *operation) answer() *schema { return o.Responses["200"].Content.JSON.Schema }

// paymentTypes are the values of {type} in the operation's path, none where it has no such part.
func (o *operation) paymentTypes() []string {
	for _, p := range o.Parameters {
		if p.In == "path" && p.Name == "type" {
			return p.Schema.Enum
		}
	}
	return nil
}

// paymentType is the one in the ith path, "" where there is none.
func (o *operation) paymentType(i int) string {
	if types := o.paymentTypes(); types != nil {
		return types[i]
	}
	return ""
}

// paths are the operation's paths, one a payment type.
func (o *operation) paths() []string {
	types := o.paymentTypes()
	if types == nil {
		return []string{o.path}
	}
	var paths []string
	for _, name := range types {
		paths = append(paths, strings.ReplaceAll(o.path, "{type}", name))
	}
	return paths
}

// operations are the endpoints, in the order of their paths.
func (d *document) operations() []*operation { return operationsOf(d.Paths) }

// notification is the only webhook.
func (d *document) notification(t testing.TB) *operation {
	t.Helper()
	webhooks := operationsOf(d.Webhooks)
	require.Len(t, webhooks, 1, "webhooks of the document")
	return webhooks[0]
}

func (d *document) operation(t testing.TB, id string) *operation {
	t.Helper()
	for _, o := range d.operations() {
		if o.OperationID == id {
			return o
		}
	}
	t.Fatalf("the document has no operation %s", id)
	return nil
}

func operationsOf(items map[string]pathItem) []*operation {
	var list []*operation
	for _, path := range slices.Sorted(maps.Keys(items)) {
		o := *items[path].Post
		o.path = path
		list = append(list, &o)
	}
	return list
}

// readDocument gives openapi.yaml.
func readDocument(t testing.TB) *document {
	t.Helper()
	data, err := os.ReadFile(documentFile)
	require.NoError(t, err)
	d, _, err := parseDocument(data)
	require.NoError(t, err)
	return d
}

// parseDocument gives a document as these tests read it, and as a tree for what is derived from it.
func parseDocument(data []byte) (*document, map[string]any, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, nil, err
	}
	top := root.Content[0]
	if err := follow(top, top); err != nil {
		return nil, nil, err
	}
	d := &document{}
	if err := decodeStrictly(top, d); err != nil {
		return nil, nil, err
	}
	tree := map[string]any{}
	return d, tree, top.Decode(&tree)
}

// decodeStrictly refuses keywords that the type does not have, which Node.Decode would pass over.
func decodeStrictly(node *yaml.Node, into any) error {
	data, err := yaml.Marshal(node)
	if err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	return dec.Decode(into)
}

// follow puts what a $ref refers to in its place.
func follow(node, root *yaml.Node) error {
	if node.Kind == yaml.MappingNode && len(node.Content) > 0 && node.Content[0].Value == "$ref" {
		target, err := lookUp(root, node.Content[1].Value)
		if err != nil {
			return err
		}
		if len(node.Content) > 2 {
			return fmt.Errorf("%s: something stands beside the reference", node.Content[1].Value)
		}
		*node = *target
	}
	for _, child := range node.Content {
		if err := follow(child, root); err != nil {
			return err
		}
	}
	return nil
}

func lookUp(root *yaml.Node, reference string) (*yaml.Node, error) {
	path, local := strings.CutPrefix(reference, "#/")
	if !local {
		return nil, fmt.Errorf("%s: not in this document", reference)
	}
	node := root
	for name := range strings.SplitSeq(path, "/") {
		var next *yaml.Node
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				next = node.Content[i+1]
			}
		}
		if next == nil {
			return nil, fmt.Errorf("%s: not found", reference)
		}
		node = next
	}
	return node, nil
}
