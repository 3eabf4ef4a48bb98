package snippet_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/internal/snippet"
)

func TestASnippetBecomesAPackage(t *testing.T) {
	for name, test := range map[string]struct {
		code    string
		imports []string // of the snippet alone
		holds   []string
	}{
		"statements": {
			code:  "status, err := client.StatusPayment(ctx, request)\nif err != nil {\n\treturn err\n}\n",
			holds: []string{"var client *paymentsvc.Client", "\t_ = status\n\t_ = err\n"},
		},
		"packages by their names": {
			code:    "fmt.Println(time.Second, strings.ToUpper(userData))",
			imports: []string{"fmt", "strings", "time"},
			holds:   []string{"fmt.Println"},
		},
		"a variable with a package's name": {
			code:  "url := r.URL\nfmt.Println(url.Path)",
			holds: []string{"_ = url"}, imports: []string{"fmt"},
		},
		"variables": {
			code:  "var a, b int\nconst c = 1\n_, d := f()\ne = 2",
			holds: []string{"\t_ = a\n\t_ = b\n\t_ = d\n\t}"},
		},
		"a variable of an inner block": {
			code:  "if x := f(); x {\n\ty := 1\n\tg(y)\n}",
			holds: []string{"g(y)\n}\n\t}\n\treturn err"},
		},
		"declarations": {
			code:  "func use(ctx context.Context) {}\n\ntype order struct{}\n",
			holds: []string{"func use", "type order", "var secret paymentsvc.Secret"},
		},
		"declarations with an import": {
			code:  "import j \"encoding/json\"\n\nfunc use() { j.Valid(nil) }",
			holds: []string{"import j"}, imports: []string{"encoding/json"},
		},
		"a method with a given name": {
			code:  "func (s shop) checkout() {}",
			holds: []string{"func checkout(client"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			program, err := snippet.Program("PAGE.md", 17, test.code)
			require.NoError(t, err)
			for _, text := range append(test.holds, "//line PAGE.md:17\n") {
				assert.Contains(t, program, text)
			}
			always := []string{
				"context", "net/http", "testing",
				"github.com/paymentsvc/paymentsvc", "github.com/paymentsvc/paymentsvc/paymentsvctest",
			}
			assert.ElementsMatch(t, append(always, test.imports...), importsOf(t, program), program)
		})
	}
}

func TestASnippetMayDeclareWhatIsGiven(t *testing.T) {
	program, err := snippet.Program("PAGE.md", 1, "var client, secret string\n\ntype t int\n\nfunc checkout() {}")
	require.NoError(t, err)
	names := map[string]int{}
	for _, decl := range parse(t, program).Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			names[decl.Name.Name]++
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if value, ok := spec.(*ast.ValueSpec); ok {
					for _, name := range value.Names {
						names[name.Name]++
					}
				}
			}
		}
	}
	assert.Equal(t, 1, names["client"])
	assert.Equal(t, 1, names["secret"])
	assert.Equal(t, 0, names["t"], "as a variable")
	assert.Equal(t, 1, names["checkout"])
	assert.Equal(t, 1, names["scheme"])
}

func TestAWholeFileIsCompiledAsItIs(t *testing.T) {
	const file = "package main\n\nfunc main() {}\n"
	program, err := snippet.Program("PAGE.md", 3, file)
	require.NoError(t, err)
	assert.Equal(t, "//line PAGE.md:3\n"+file, program)
}

func TestWhatIsNotGoIsRefusedWithItsPlace(t *testing.T) {
	_, err := snippet.Program("PAGE.md", 30, "fine()\nif {\n")
	assert.ErrorContains(t, err, "PAGE.md:31")
}

func parse(t *testing.T, source string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	require.NoError(t, err, source)
	return file
}

func importsOf(t *testing.T, source string) []string {
	t.Helper()
	var paths []string
	for _, spec := range parse(t, source).Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		paths = append(paths, path)
	}
	return paths
}
