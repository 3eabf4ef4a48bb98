package paymentsvc_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/token"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// An example is executed only if it says what it prints.
func TestEveryExampleIsExecutedAndOffline(t *testing.T) {
	for _, p := range apiPaths() {
		for _, complaint := range exampleFaults(sourceOf(t, p, true)) {
			t.Errorf("%s: %s", path.Base(p), complaint)
		}
	}
}

func TestEveryEndpointOutcomeAndWebhookEntryHasAnExample(t *testing.T) {
	for _, missing := range withoutExample(sourceOf(t, modulePath, false), sourceOf(t, modulePath, true)) {
		t.Error(missing)
	}
}

func exampleFaults(tests source) []string {
	var faults []string
	for _, example := range doc.Examples(tests.asts...) {
		if example.Output == "" && !example.EmptyOutput {
			faults = append(faults, "Example"+example.Name+": no output to compare, so it is not executed")
		}
	}
	for _, file := range tests.asts {
		if !slices.ContainsFunc(doc.Examples(file), func(*doc.Example) bool { return true }) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				for _, address := range regexp.MustCompile(`https?://[^\s"`+"`"+`\\]+`).FindAllString(literal.Value, -1) {
					if u, err := url.Parse(address); err != nil || !nobodys(u.Hostname()) {
						faults = append(faults, address+": an address that may be somebody's")
					}
				}
			}
			return true
		})
	}
	return faults
}

// nobodys says whether a host is this machine, or has one of the names that RFC 2606 keeps for examples.
func nobodys(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback() ||
		regexp.MustCompile(`(^|\.)(example|example\.(com|net|org)|test|invalid)$`).MatchString(host)
}

// withoutExample gives the calls of Client, the outcomes and the ways to read a notification that no executed example
// shows: a function or method by an example of its name, a constant by an example that names it.
func withoutExample(code, tests source) []string {
	shown := map[string]bool{}
	for _, example := range doc.Examples(tests.asts...) {
		if example.Output == "" {
			continue
		}
		name := regexp.MustCompile(`_[a-z].*`).ReplaceAllString(example.Name, "") // without its suffix
		shown[strings.ReplaceAll(name, "_", ".")] = true
		ast.Inspect(example.Code, func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok {
				shown["."+selector.Sel.Name] = true
			}
			return true
		})
	}
	var missing []string
	for _, d := range code.exported() {
		function, _ := d.expr.(*ast.FuncType)
		switch {
		case d.kind == "const" && strings.HasPrefix(d.name, "Outcome"):
			if !shown["."+d.name] {
				missing = append(missing, d.name+": no executed example names it")
			}
		case strings.HasPrefix(d.name, "Client.") && d.kind == "method" && takesContext(function),
			d.name == "NewWebhook",
			strings.HasPrefix(d.name, "Webhook.") && d.kind == "method" && d.base() != "Format":
			if !shown[d.name] {
				missing = append(missing, d.name+": no executed example of this name")
			}
		}
	}
	return missing
}

func takesContext(function *ast.FuncType) bool {
	if function.Params.NumFields() == 0 {
		return false
	}
	selector, ok := function.Params.List[0].Type.(*ast.SelectorExpr)
	return ok && isNamed(selector.X, "context")
}

func TestAMissingExampleIsNoticed(t *testing.T) {
	code := sourceText(t, `
const ( OutcomeUnknown Outcome = iota; OutcomeSent )
func NewWebhook()
func (*Webhook) Verify()
func (*Webhook) Format()
func (*Client) InitPayment(ctx context.Context)
func (*Client) Close()`)
	const (
		unknown = "\nfunc Example%s() {\n_ = p.OutcomeUnknown\n// Output: a\n}"
		sent    = "\nfunc Example%s() {\n_ = p.OutcomeSent\n// Output: a\n}"
		neither = "\nfunc Example%s() {\n// Output: a\n}"
		unrun   = "\nfunc Example%s() {\n_ = p.OutcomeSent\n}"
	)
	for name, test := range map[string]struct {
		examples []string
		missing  []string
	}{
		"all": {[]string{
			fmt.Sprintf(unknown, "NewWebhook"), fmt.Sprintf(sent, "Webhook_Verify_twice"), fmt.Sprintf(neither, "Client_InitPayment"),
		}, nil},
		"one is not executed": {[]string{
			fmt.Sprintf(unknown, "NewWebhook"), fmt.Sprintf(unrun, "Webhook_Verify"), fmt.Sprintf(neither, "Client_InitPayment"),
		}, []string{
			"OutcomeSent: no executed example names it", "Webhook.Verify: no executed example of this name",
		}},
		"none": {nil, []string{
			"OutcomeUnknown: no executed example names it", "OutcomeSent: no executed example names it",
			"NewWebhook: no executed example of this name", "Webhook.Verify: no executed example of this name",
			"Client.InitPayment: no executed example of this name",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tests := source{files: token.NewFileSet()}
			tests.add(t, "example_test.go", "package p_test\n"+strings.Join(test.examples, "\n"))
			assert.Equal(t, test.missing, withoutExample(code, tests))
		})
	}
}

func TestAnExampleThatIsNotExecutedOrNotOfflineIsNoticed(t *testing.T) {
	for text, faults := range map[string][]string{
		"func ExampleA() {\n// Output: a\n}": nil,
		"func ExampleA() {\n// Output:\n}":   nil,
		"func ExampleA() {}":                 {"ExampleA: no output to compare, so it is not executed"},
		"func ExampleA() {\nf(\"https://a.example.com/b http://127.0.0.1:1/ http://localhost\")\n// Output:\n}": nil,
		"func ExampleA() {\nf(\"see https://pay.com/b\")\n// Output:\n}": {
			"https://pay.com/b: an address that may be somebody's",
		},
		"func ExampleA() {\n// Output:\n}\nconst a = `http://notexample.com`": {
			"http://notexample.com: an address that may be somebody's",
		},
		"func TestA() { f(\"https://pay.com\") }": nil,
	} {
		tests := source{files: token.NewFileSet()}
		tests.add(t, "example_test.go", "package p_test\n"+text)
		assert.Equal(t, faults, exampleFaults(tests), text)
	}
}
