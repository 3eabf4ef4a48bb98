package paymentsvc_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// apiRule is what the exported API keeps to.
type apiRule struct {
	name   string
	check  func(source) []string // the complaints, each with a name before its first colon
	keeps  []string              // declarations that keep the rule
	breaks map[string]string     // declarations that break it, and the complaint
}

func apiRules() []apiRule {
	return []apiRule{{
		name:  "no map[string]any",
		check: mapsOfAny,
		keeps: []string{
			"func A(m map[string]string) map[int]any", "func a(map[string]any)", "type A struct { b map[string]any }",
			"type a struct { B map[string]any }", "func (a) A() map[string]any",
		},
		breaks: map[string]string{
			"func A(map[string]any)":                                 "A: a map[string]any",
			"func A(...[]map[string]interface{})":                    "A: a map[string]any",
			"func (*A) B() (int, map[string]any)":                    "A.B: a map[string]any",
			"type A struct { B, c map[string]any }":                  "A.B: a map[string]any",
			"type A struct { B func(func(map[string]any)) }":         "A.B: a map[string]any",
			"type A map[string]any":                                  "A: a map[string]any",
			"type A interface { B(map[string]any) }":                 "A: a map[string]any",
			"type A func() map[string]any":                           "A: a map[string]any",
			"var A map[string]any":                                   "A: a map[string]any",
			"var A = map[string]any{}":                               "A: a map[string]any",
			"type A struct { B struct { C []*map[string]any } }":     "A.B: a map[string]any",
			"type A[T any] struct { B chan map[string]interface{} }": "A.B: a map[string]any",
		},
	}, {
		name:  "no interface of more than three methods",
		check: wideInterfaces,
		keeps: []string{
			"type A interface { B(); C(); D() }", "type A interface { B(); C(); E }; type E interface { F() }", "type A any",
			"type a interface { B(); C(); D(); E() }", "type A interface { ~int | ~string }",
		},
		breaks: map[string]string{
			"type A interface { B(); C(); D(); E() }":                         "A: an interface of 4 methods",
			"type A interface { B(); C(); D(); e() }":                         "A: an interface of 4 methods",
			"type A interface { B(); C(); E }; type E interface { F(); G() }": "A: an interface of 4 methods",
			"func A(interface { B(); C(); D(); E() })":                        "A: an interface of 4 methods",
			"type A interface { net.Conn }":                                   "A: an interface that embeds one of another package",
		},
	}, {
		name:  "a context is the first parameter",
		check: lateContexts,
		keeps: []string{
			"func A(ctx context.Context, b int)", "func A(context.Context) (context.Context, error)", "func A(b int)",
			"func a(b int, ctx context.Context)", "type A struct { ctx context.Context }",
		},
		breaks: map[string]string{
			"func A(b int, ctx context.Context)":                      "A: a context that is not the first parameter",
			"func A(ctx, other context.Context)":                      "A: a context that is not the first parameter",
			"func (A) B(c, d int, ctx context.Context)":               "A.B: a context that is not the first parameter",
			"type A struct { B func(int, context.Context) error }":    "A.B: a context that is not the first parameter",
			"type A func(int, context.Context)":                       "A: a context that is not the first parameter",
			"type A interface { B(int, context.Context) }":            "A: a context that is not the first parameter",
			"func A(context.Context, func(b int, c context.Context))": "A: a context that is not the first parameter",
			"type A struct { B context.Context }":                     "A.B: a context that is kept",
			"var A context.Context":                                   "A: a context that is kept",
		},
	}, {
		name:  "every name has a comment that begins with it",
		check: withoutComment,
		keeps: []string{
			"// A is.\nfunc A()", "func a()", "// B is.\nfunc (A) B()", "func (a) B()", "// A is.\ntype A int",
			"type (\n// A is.\nA int\n)", "// A is.\nconst A = 1", "// All of them.\nconst (\nA = 1\nB = 2\n)",
			"const (\n// A is.\nA = 1\n)", "// All.\nconst (\nA = 1 // behind\n)", "// Some.\nvar (\n// A is.\nA = 1\n)",
			"// A is.\ntype A struct {\n// B is.\nB int\nc int\n}",
			"// A is.\ntype A struct {\n// B and C are.\nB int\nC int\n}",
			"// A is.\ntype A struct {\nB int // B is.\n}", "// A is.\ntype A struct {\n// B, when set, is.\nB int\n}",
			"// A is.\ntype A struct {\nio.Reader // Reader is.\n}",
		},
		breaks: map[string]string{
			"func A()":                            "A: no comment",
			"// Makes it.\nfunc A()":              "A: a comment that begins with \"Makes\"",
			"// As are.\nfunc A()":                "A: a comment that begins with \"As\"",
			"func (*A) B()":                       "A.B: no comment",
			"type A int":                          "A: no comment",
			"const A = 1":                         "A: no comment",
			"// This is.\nconst A = 1":            "A: a comment that begins with \"This\"",
			"const (\nA = 1\n)":                   "A: no comment",
			"var A int":                           "A: no comment",
			"// Errors.\nvar (\nA = 1\n)":         "A: no comment of its own",
			"var (\nA = 1 // behind\n)":           "A: no comment of its own",
			"// A is.\ntype A struct {\nB int\n}": "A.B: no comment",
			"// A is.\ntype A struct {\n// The b.\nB int\n}":                                 "A.B: a comment that begins with \"The\"",
			"// A is.\ntype A struct {\n// B is.\nB int\nC int\n}":                           "A.C: a comment that does not speak of it",
			"// A is.\ntype A struct {\n// B and C are.\nB int\n\nC int\n}":                  "A.C: no comment",
			"// A is.\ntype A struct {\nB int\n// C is.\nC int\n}":                           "A.B: no comment",
			"// A is.\ntype A struct {\n*bytes.Buffer\n}":                                    "A.Buffer: no comment",
			"// A is.\ntype A struct {\n// X and C are.\nX int\nC int\nD, E int // E is.\n}": "A.D: a comment that does not speak of it",
		},
	}, {
		name:  "a function that returns an error says when",
		check: silentErrors,
		keeps: []string{
			"// A gives an error for b.\nfunc A(b int) error", "// A fails with the context.\nfunc A() (int, error)",
			"// A wraps ErrB.\nfunc A() error", "// Unwrap gives it.\nfunc (A) Unwrap() error", "func A() int", "func a() error",
			"// A refuses b.\nfunc A(b int) (c int, err error)",
		},
		breaks: map[string]string{
			"// A is.\nfunc A() error":                   "A: an error of which the comment says nothing",
			"// B is.\nfunc (*A) B() (c int, err error)": "A.B: an error of which the comment says nothing",
			"// A is a terror.\nfunc A() error":          "A: an error of which the comment says nothing",
		},
	}}
}

func TestTheExportedAPIKeepsItsRules(t *testing.T) {
	for _, rule := range apiRules() {
		t.Run(rule.name, func(t *testing.T) {
			for _, p := range apiPaths() {
				for _, complaint := range rule.check(sourceOf(t, p, false)) {
					t.Errorf("%s.%s", path.Base(p), complaint)
				}
			}
		})
	}
}

func TestTheRulesOfTheExportedAPICanBeBroken(t *testing.T) {
	for _, rule := range apiRules() {
		t.Run(rule.name, func(t *testing.T) {
			for _, text := range rule.keeps {
				assert.Empty(t, rule.check(sourceText(t, text)), text)
			}
			for text, complaint := range rule.breaks {
				assert.Equal(t, []string{complaint}, rule.check(sourceText(t, text)), text)
			}
		})
	}
}

func sourceText(t *testing.T, text string) source {
	t.Helper()
	s := source{files: token.NewFileSet()}
	s.add(t, "text.go", "package p\n"+text+"\n")
	return s
}

func mapsOfAny(s source) []string {
	return inspectAPI(s, func(n ast.Node) string {
		if m, ok := n.(*ast.MapType); ok && isNamed(m.Key, "string") {
			if i, ok := m.Value.(*ast.InterfaceType); isNamed(m.Value, "any") || ok && i.Methods.NumFields() == 0 {
				return "a map[string]any"
			}
		}
		return ""
	})
}

func wideInterfaces(s source) []string {
	types := map[string]ast.Expr{}
	for _, file := range s.asts {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				types[spec.Name.Name] = spec.Type
			}
			return true
		})
	}
	// methods counts those of an interface, those of embedded ones included; -1 where they are not to be seen here.
	var methods func(ast.Expr) int
	methods = func(e ast.Expr) int {
		switch e := e.(type) {
		case *ast.Ident:
			return methods(types[e.Name])
		case *ast.SelectorExpr:
			return -1
		case *ast.InterfaceType:
			sum := 0
			for _, field := range e.Methods.List {
				count := len(field.Names)
				if count == 0 {
					count = methods(field.Type)
				}
				if count < 0 {
					return -1
				}
				sum += count
			}
			return sum
		default:
			return 0 // a constraint
		}
	}
	return inspectAPI(s, func(n ast.Node) string {
		i, ok := n.(*ast.InterfaceType)
		if !ok {
			return ""
		}
		switch count := methods(i); {
		case count < 0:
			return "an interface that embeds one of another package"
		case count > 3:
			return fmt.Sprintf("an interface of %d methods", count)
		default:
			return ""
		}
	})
}

func lateContexts(s source) []string {
	isContext := func(e ast.Expr) bool {
		selector, ok := e.(*ast.SelectorExpr)
		return ok && isNamed(selector.X, "context") && selector.Sel.Name == "Context"
	}
	complaints := inspectAPI(s, func(n ast.Node) string {
		function, ok := n.(*ast.FuncType)
		if !ok {
			return ""
		}
		for i, field := range function.Params.List {
			if isContext(field.Type) && (i > 0 || len(field.Names) > 1) {
				return "a context that is not the first parameter"
			}
		}
		return ""
	})
	for _, d := range s.exported() {
		if (d.kind == "field" || d.kind == "var") && isContext(d.expr) {
			complaints = append(complaints, d.name+": a context that is kept")
		}
	}
	return complaints
}

// inspectAPI looks at every type in the exported API, and gives the first complaint about each name.
func inspectAPI(s source, complain func(ast.Node) string) []string {
	var complaints []string
	for _, d := range s.exported() {
		complaint := ""
		if d.expr != nil {
			ast.Inspect(d.expr, func(n ast.Node) bool {
				if complaint == "" && n != nil {
					complaint = complain(n)
				}
				return complaint == ""
			})
		}
		if complaint != "" {
			complaints = append(complaints, d.name+": "+complaint)
		}
	}
	return complaints
}

func withoutComment(s source) []string {
	var complaints []string
	for _, d := range s.exported() {
		first := regexp.MustCompile(`^\S*\w`).FindString(d.doc)
		spokenOf := regexp.MustCompile(`\b` + d.base() + `\b`).MatchString(d.doc)
		switch {
		case d.doc == "":
			complaints = append(complaints, d.name+": no comment")
		case d.kind == "var" && !d.own:
			complaints = append(complaints, d.name+": no comment of its own")
		case !d.own:
		case d.kind == "field" && !spokenOf && slices.Contains(d.with, first):
			complaints = append(complaints, d.name+": a comment that does not speak of it")
		case first != d.base() && !slices.Contains(d.with, first):
			complaints = append(complaints, fmt.Sprintf("%s: a comment that begins with %q", d.name, first))
		}
	}
	return complaints
}

func silentErrors(s source) []string {
	var complaints []string
	spoken := regexp.MustCompile(`\b([Ee]rrors?|fails?|refuse[sd]?|Err[A-Z]\w*)\b`)
	for _, d := range s.exported() {
		function, ok := d.expr.(*ast.FuncType)
		if !ok || d.kind != "func" && d.kind != "method" || d.base() == "Unwrap" || function.Results == nil {
			continue
		}
		for _, result := range function.Results.List {
			if isNamed(result.Type, "error") && !spoken.MatchString(d.doc) {
				complaints = append(complaints, d.name+": an error of which the comment says nothing")
			}
		}
	}
	return complaints
}

func isNamed(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.Ident)
	return ok && ident.Name == name
}
