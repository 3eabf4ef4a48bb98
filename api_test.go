package paymentsvc_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/api.txt anew")

const modulePath = "github.com/paymentsvc/paymentsvc"

// apiPaths are the packages that a partner imports.
func apiPaths() []string {
	return []string{modulePath, modulePath + "/canonical", modulePath + "/discover", modulePath + "/paymentsvctest"}
}

func TestTheExportedAPI(t *testing.T) {
	const accepted = "testdata/api.txt"
	packages := compiledPackages(t)
	var is []string
	for _, path := range apiPaths() {
		pkg, err := packages.Import(path)
		require.NoError(t, err)
		is = append(is, exportedAPI(pkg)...)
	}
	text := strings.Join(is, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(accepted, []byte(text), 0o644))
	}
	was, err := os.ReadFile(accepted)
	require.NoError(t, err)
	if changes := apiChanges(nonBlankLines(string(was)), is); changes != "" {
		t.Errorf("the exported API differs from %s. It\n%sTo accept that: go test -run TestTheExportedAPI -update .",
			accepted, changes)
	} else {
		assert.Equal(t, text, string(was), "the order or the white space of %s: write it anew with -update", accepted)
	}
}

// What was agreed on before the code was written is a file beside the repository.
func TestEveryNameAndSignatureThatWasAgreedOnIsThere(t *testing.T) {
	agreed := filepath.Join("..", "shared", "contract", "api.txt")
	text, err := os.ReadFile(agreed)
	if os.IsNotExist(err) {
		t.Skipf("there is no %s beside this repository", agreed)
	}
	require.NoError(t, err)
	packages := compiledPackages(t)
	sections := regexp.MustCompile(`(?m)^package \w+`).FindAllStringIndex(string(text), -1)
	require.NotEmpty(t, sections)
	for i, section := range sections {
		end := len(text)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		name := strings.TrimPrefix(string(text[section[0]:section[1]]), "package ")
		t.Run(name, func(t *testing.T) {
			path := modulePath
			if name != "paymentsvc" {
				path += "/" + name
			}
			want := exportedAPI(typeChecked(t, packages, path, name, string(text[section[1]:end])))
			require.NotEmpty(t, want)
			pkg, err := packages.Import(path)
			require.NoError(t, err)
			is := exportedAPI(pkg)
			for i := range is {
				is[i], _, _ = strings.Cut(is[i], " `") // the agreement shows no tags
			}
			for _, line := range want {
				assert.True(t, slices.Contains(is, line), "gone or changed: %s", line)
			}
		})
	}
}

// typeChecked reads declarations as go doc prints them: under headings, functions without bodies, error variables
// without a type, and no imports.
func typeChecked(t *testing.T, imports types.Importer, path, name, text string) *types.Package {
	t.Helper()
	text = regexp.MustCompile(`(?m)^ *//.*$|^[A-Z]+$`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`(?m)^\tErr\w+$`).ReplaceAllString(text, "$0 error")
	if start := strings.IndexByte(text, '\n'); start >= 0 {
		text = text[start:] // the rest of the package line
	}
	source := "package " + name + "\n"
	for _, imported := range []string{
		"context", "database/sql/driver", "encoding/json", "fmt", "log/slog", "net/http", "net/url", "testing", "time",
		"github.com/google/uuid", modulePath,
	} {
		if strings.Contains(text, imported[strings.LastIndex(imported, "/")+1:]+".") {
			source += fmt.Sprintf("import %q\n", imported)
		}
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name+".go", source+text, parser.SkipObjectResolution)
	require.NoError(t, err)
	pkg, err := (&types.Config{Importer: imports}).Check(path, files, []*ast.File{file}, nil)
	require.NoError(t, err)
	return pkg
}

// compiledPackages reads the packages of this module, and what they import, from what the compiler has exported.
func compiledPackages(t *testing.T) types.Importer {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}")
	list.Args = append(list.Args, apiPaths()...)
	var stderr bytes.Buffer
	list.Stderr = &stderr
	output, err := list.Output()
	require.NoError(t, err, "%s", &stderr)
	exports := map[string]string{}
	for _, line := range nonBlankLines(string(output)) {
		path, file, _ := strings.Cut(line, "\t")
		exports[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
}

// exportedAPI lists what a package exports, a declaration a line, sorted. Names of parameters are not part of it; tags
// of fields are, since stored requests depend on them.
func exportedAPI(pkg *types.Package) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	show := func(t types.Type) string {
		return types.TypeString(withoutNames(t), func(p *types.Package) string { return p.Name() })
	}
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		name := pkg.Name() + "." + name
		if !object.Exported() {
			continue
		}
		switch object := object.(type) {
		case *types.Const:
			add("const %s %s = %s", name, show(object.Type()), object.Val().ExactString())
		case *types.Var:
			add("var %s %s", name, show(object.Type()))
		case *types.Func:
			add("func %s%s", name, strings.TrimPrefix(show(object.Type()), "func"))
		case *types.TypeName:
			if object.IsAlias() {
				add("type %s = %s", name, show(types.Unalias(object.Type())))
				continue
			}
			named, ok := object.Type().(*types.Named)
			if !ok {
				continue
			}
			structure, ok := named.Underlying().(*types.Struct)
			if !ok {
				add("type %s %s", name, show(named.Underlying()))
			} else {
				add("type %s struct", name)
				for i := range structure.NumFields() {
					field, tag := structure.Field(i), ""
					if structure.Tag(i) != "" {
						tag = " `" + structure.Tag(i) + "`"
					}
					if field.Exported() {
						add("field %s.%s %s%s", name, field.Name(), show(field.Type()), tag)
					}
				}
			}
			for method := range named.Methods() {
				if method.Exported() {
					receiver := method.Signature().Recv().Type()
					add("method (%s) %s%s", show(receiver), method.Name(), strings.TrimPrefix(show(method.Type()), "func"))
				}
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// withoutNames gives a type whose functions do not name their parameters and results.
func withoutNames(t types.Type) types.Type {
	tuple := func(named *types.Tuple) *types.Tuple {
		var vars []*types.Var
		for v := range named.Variables() {
			vars = append(vars, types.NewParam(token.NoPos, nil, "", withoutNames(v.Type())))
		}
		return types.NewTuple(vars...)
	}
	switch t := t.(type) {
	case *types.Signature:
		return types.NewSignatureType(nil, nil, nil, tuple(t.Params()), tuple(t.Results()), t.Variadic())
	case *types.Pointer:
		return types.NewPointer(withoutNames(t.Elem()))
	case *types.Slice:
		return types.NewSlice(withoutNames(t.Elem()))
	case *types.Array:
		return types.NewArray(withoutNames(t.Elem()), t.Len())
	case *types.Map:
		return types.NewMap(withoutNames(t.Key()), withoutNames(t.Elem()))
	case *types.Chan:
		return types.NewChan(t.Dir(), withoutNames(t.Elem()))
	case *types.Interface:
		var methods []*types.Func
		for m := range t.ExplicitMethods() {
			signature := withoutNames(m.Type()).(*types.Signature)
			methods = append(methods, types.NewFunc(token.NoPos, m.Pkg(), m.Name(), signature))
		}
		var embedded []types.Type
		for e := range t.EmbeddedTypes() {
			embedded = append(embedded, e)
		}
		return types.NewInterfaceType(methods, embedded).Complete()
	default:
		return t
	}
}

// apiChanges says what became of an API, "" when nothing did.
func apiChanges(was, is []string) string {
	var b strings.Builder
	for _, change := range []struct {
		title  string
		of, in []string
	}{{"removes or changes", was, is}, {"adds", is, was}} {
		title := "  " + change.title + ":\n"
		for _, line := range change.of {
			if !slices.Contains(change.in, line) {
				b.WriteString(title + "    " + line + "\n")
				title = ""
			}
		}
	}
	return b.String()
}

func nonBlankLines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
}

func TestTheListingOfAnAPIHoldsWhatAPartnerCanUse(t *testing.T) {
	const source = `package pay
import "io"
const Limit = 1 << 3
const ( First Kind = iota; second; Third )
var Default, other *Config
type Kind int
func (k Kind) String() (text string)
func (k Kind) hidden() {}
type Config struct {
	Name string ` + "`json:\"name\"`" + `
	Hook func(n int, more ...string) (err error)
	secret string
	io.Reader
}
func (c *Config) Check(deep bool) error
type Source interface { Next(into []byte) (n int, err error); private() }
type Text = string
type unexported struct { Field int }
func New(c Config, by map[string]func(key string)) (*Config, error)
func make() {}
`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "pay.go", source, parser.SkipObjectResolution)
	require.NoError(t, err)
	pkg, err := (&types.Config{Importer: compiledPackages(t)}).Check("example.com/pay", files, []*ast.File{file}, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"const pay.First pay.Kind = 0",
		"const pay.Limit untyped int = 8",
		"const pay.Third pay.Kind = 2",
		"field pay.Config.Hook func(int, ...string) error",
		"field pay.Config.Name string `json:\"name\"`",
		"field pay.Config.Reader io.Reader",
		"func pay.New(pay.Config, map[string]func(string)) (*pay.Config, error)",
		"method (*pay.Config) Check(bool) error",
		"method (pay.Kind) String() string",
		"type pay.Config struct",
		"type pay.Kind int",
		"type pay.Source interface{Next([]byte) (int, error); private()}",
		"type pay.Text = string",
		"var pay.Default *pay.Config",
	}, exportedAPI(pkg))
}

func TestAChangeOfTheAPIIsShown(t *testing.T) {
	for name, test := range map[string]struct {
		was, is []string
		want    string
	}{
		"none":    {[]string{"func a.B()", "func a.C()"}, []string{"func a.B()", "func a.C()"}, ""},
		"added":   {[]string{"func a.B()"}, []string{"func a.A()", "func a.B()"}, "  adds:\n    func a.A()\n"},
		"removed": {[]string{"func a.B()", "func a.C()"}, nil, "  removes or changes:\n    func a.B()\n    func a.C()\n"},
		"signature": {[]string{"func a.B()"}, []string{"func a.B(int)"},
			"  removes or changes:\n    func a.B()\n  adds:\n    func a.B(int)\n"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, apiChanges(test.was, test.is)) })
	}
}
