package paymentsvc_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A signature that is compared byte by byte can be guessed byte by byte, from the time that the comparison takes.
func TestTheGivenSignatureMeetsNothingButAConstantTimeComparison(t *testing.T) {
	sources := map[string]string{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			sources[file] = string(text)
		}
	}
	comparisons, problems := followSignature(t, sources)
	assert.Empty(t, problems)
	assert.Positive(t, comparisons, "the signature was followed to a comparison")
}

func TestFollowingTheSignatureFindsComparisonsThatTakeTheirTime(t *testing.T) {
	const around = `package p
const headerSignature = "Signature"
type hook struct { verify func(int, string) bool; kept []byte; sum []byte }
func onlyValue(h http.Header, name string) (n int, value string) {
	for _, signature := range h[name] { return 1, signature }
	return 0, ""
}
func check(w *hook, h http.Header) bool {
	n, given := onlyValue(h, headerSignature)
	if n == 0 || given == "" { return false }
	return w.verify(1, given)
}
func (w *hook) verify(n int, text string) bool {
	w.kept = append(w.kept[:0], text...)
	%s
}
func equal(a, b []byte) bool { return %s }
`
	const right = "return subtle.ConstantTimeCompare(w.kept, w.sum) == 1"
	for name, test := range map[string]struct {
		verify, equal string
		wrong         bool
	}{
		"constant time":                     {right, "true", false},
		"hmac.Equal":                        {"return hmac.Equal([]byte(text), w.sum)", "true", false},
		"==":                                {"return string(w.sum) == text", "true", true},
		"!= beside a right comparison":      {"if text != string(w.sum) { return false }; " + right, "true", true},
		"bytes.Equal":                       {"return bytes.Equal(w.kept, w.sum)", "true", true},
		"strings.EqualFold":                 {"return strings.EqualFold(text, string(w.sum))", "true", true},
		"through a variable":                {"copied := []byte(text); return bytes.Equal(copied, w.sum)", "true", true},
		"through a declaration":             {"var copied = text; return copied == string(w.sum)", "true", true},
		"through a composite":               {"m := hook{kept: []byte(text)}; return bytes.Equal(m.kept, w.sum)", "true", true},
		"byte by byte":                      {"return w.kept[0] == w.sum[0]", "true", true},
		"a range":                           {"for i, c := range text { _ = c == rune(w.sum[i]) }; " + right, "true", true},
		"a switch":                          {"switch text { case string(w.sum): return true }; return false", "true", true},
		"a map":                             {"return map[string]bool{}[text]", "true", true},
		"a function of the package":         {"return equal(w.kept, w.sum)", "bytes.Equal(a, b)", true},
		"a right function of the package":   {"return equal(w.kept, w.sum)", "hmac.Equal(a, b)", false},
		"decoded first":                     {"decoded, _ := hex.DecodeString(text); return hmac.Equal(decoded, w.sum)", "true", true},
		"the header read in another way":    {`_ = http.Header{}.Get(headerSignature); ` + right, "true", true},
		"the header under a name of itself": {`_ = http.Header{}["Signature"]; ` + right, "true", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := followSignature(t, map[string]string{"p.go": fmt.Sprintf(around, test.verify, test.equal)})
			assert.Equal(t, test.wrong, len(problems) > 0, "%q", problems)
		})
	}
}

// followSignature follows the value of the signature header through sources, from every text that is called
// signature. It may be copied, handed on, returned, and compared in constant time or with ""; whatever else is
// done with it is a problem. So is the header's name where it could be read in another way.
func followSignature(t testing.TB, sources map[string]string) (comparisons int, problems []string) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for name, text := range sources {
		file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	// Other packages are empty to this type check, which only has to tell the variables of this one apart.
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: emptyPackages{}, Error: func(error) {}}
	_, _ = config.Check("p", fset, files, info)

	f := &follower{
		info:      info,
		functions: map[string][]*ast.FuncDecl{},
		followed:  map[types.Object]bool{},
		results:   map[string]map[int]bool{},
	}
	for _, file := range files {
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok {
				f.functions[function.Name.Name] = append(f.functions[function.Name.Name], function)
			}
		}
	}
	for ident, object := range info.Defs {
		if _, ok := object.(*types.Var); ok && ident.Name == "signature" && !isBytes(object.Type()) {
			f.followed[object] = true
		}
	}
	require.NotEmpty(t, f.followed, "nothing is called signature")

	for known := -1; known != f.known(); { // until nothing new is to be followed
		known = f.known()
		f.comparisons, f.problems = 0, nil
		for _, file := range files {
			var parents []ast.Node
			ast.Inspect(file, func(node ast.Node) bool {
				if node == nil {
					parents = parents[:len(parents)-1]
					return true
				}
				f.visit(node, parents)
				parents = append(parents, node)
				return true
			})
		}
	}
	for _, at := range f.problems {
		position := fset.Position(at)
		problems = append(problems, fmt.Sprintf("%s:%d", position.Filename, position.Line))
	}
	return f.comparisons, problems
}

// isBytes tells the signature that was made, which is bytes, from the one that was given, which is text.
func isBytes(t types.Type) bool {
	_, ok := t.Underlying().(*types.Slice)
	return ok
}

// emptyPackages imports every package as one without content.
type emptyPackages struct{}

func (emptyPackages) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path[strings.LastIndex(path, "/")+1:])
	p.MarkComplete()
	return p, nil
}

type follower struct {
	info        *types.Info
	functions   map[string][]*ast.FuncDecl
	followed    map[types.Object]bool
	results     map[string]map[int]bool // of the functions that return the signature
	comparisons int
	problems    []token.Pos
}

func (f *follower) known() int {
	n := len(f.followed)
	for _, results := range f.results {
		n += len(results)
	}
	return n
}

func (f *follower) problem(node ast.Node) { f.problems = append(f.problems, node.Pos()) }

func (f *follower) visit(node ast.Node, parents []ast.Node) {
	switch node := node.(type) {
	case *ast.BasicLit: // nobody reads the header but under its constant
		if strings.EqualFold(node.Value, `"signature"`) {
			if spec, ok := parents[len(parents)-1].(*ast.ValueSpec); !ok || spec.Names[0].Name != "headerSignature" {
				f.problem(node)
			}
		}
	case *ast.Ident:
		object := f.info.Uses[node]
		switch {
		case object == nil:
		case object.Name() == "headerSignature":
			call, _ := parents[len(parents)-1].(*ast.CallExpr)
			if name := called(call); name != "Set" && f.functions[name] == nil {
				f.problem(node)
			}
		case f.followed[object]:
			f.use(node, parents)
		}
	case *ast.AssignStmt: // from a function that returns the signature
		if call, ok := node.Rhs[0].(*ast.CallExpr); ok && len(node.Rhs) == 1 {
			for at := range f.results[called(call)] {
				if at < len(node.Lhs) {
					f.follow(node.Lhs[at])
				}
			}
		}
	}
}

// use judges what is done with a value that is followed, from the inside of the expression to its outside.
func (f *follower) use(start *ast.Ident, parents []ast.Node) {
	var node ast.Expr = start
	for i := len(parents) - 1; i >= 0; i-- {
		switch p := parents[i].(type) {
		case *ast.ParenExpr:
		case *ast.SelectorExpr:
			if p.Sel != node {
				f.problem(start) // a field or a method of the signature
				return
			}
		case *ast.SliceExpr:
			if p.X != node {
				f.problem(start)
				return
			}
		case *ast.BinaryExpr:
			other := p.X
			if other == node {
				other = p.Y
			}
			if literal, ok := other.(*ast.BasicLit); !ok || literal.Value != `""` {
				f.problem(start)
			}
			return
		case *ast.RangeStmt:
			if p.Key != node && p.Value != node {
				f.problem(start) // over the signature
			}
			return
		case *ast.AssignStmt:
			if at := slices.Index(p.Rhs, node); at >= 0 && len(p.Lhs) == len(p.Rhs) {
				f.follow(p.Lhs[at])
			} else if at >= 0 {
				f.problem(start)
			}
			return
		case *ast.ValueSpec:
			for _, name := range p.Names {
				f.follow(name)
			}
			return
		case *ast.ReturnStmt:
			f.returned(start, slices.Index(p.Results, node), parents[:i])
			return
		case *ast.CallExpr:
			if !f.passed(p, node) {
				f.problem(start)
				return
			}
			if name := called(p); name != "append" && name != "string" && name != "byte" {
				return
			}
		default:
			f.problem(start)
			return
		}
		node = parents[i].(ast.Expr)
	}
}

// returned follows the result at index at of the function that parents end in.
func (f *follower) returned(start *ast.Ident, at int, parents []ast.Node) {
	for _, parent := range slices.Backward(parents) {
		switch function := parent.(type) {
		case *ast.FuncLit:
			f.problem(start) // of whom nobody knows who calls it
			return
		case *ast.FuncDecl:
			name := function.Name.Name
			if f.results[name] == nil {
				f.results[name] = map[int]bool{}
			}
			f.results[name][at] = true
			return
		}
	}
}

// passed says whether node may be an argument of call, and follows it into a function of the package.
func (f *follower) passed(call *ast.CallExpr, node ast.Expr) bool {
	at := slices.Index(call.Args, node)
	if at < 0 {
		return false
	}
	switch name := called(call); name {
	case "ConstantTimeCompare", "Equal":
		function, _ := call.Fun.(*ast.SelectorExpr)
		if function == nil {
			return false
		}
		from, ok := function.X.(*ast.Ident)
		if !ok || from.Name != "subtle" && from.Name != "hmac" {
			return false
		}
		f.comparisons++
		return true
	case "append", "string", "byte":
		return true
	case "Set": // of the header of a request that was signed
		name, ok := call.Args[0].(*ast.Ident)
		return ok && name.Name == "headerSignature"
	default:
		for _, function := range f.functions[name] {
			var parameters []*ast.Ident
			for _, group := range function.Type.Params.List {
				parameters = append(parameters, group.Names...)
			}
			if at >= len(parameters) {
				return false
			}
			f.follow(parameters[at])
		}
		return len(f.functions[name]) > 0
	}
}

// follow adds the variable or the field that target names.
func (f *follower) follow(target ast.Expr) {
	switch target := target.(type) {
	case *ast.Ident:
		if object := f.info.ObjectOf(target); object != nil && target.Name != "_" {
			f.followed[object] = true
		}
	case *ast.SelectorExpr:
		f.follow(target.Sel)
	default:
		f.problem(target)
	}
}

// called gives the name of the function, method or type that call calls; "byte" stands for []byte.
func called(call *ast.CallExpr) string {
	if call == nil {
		return ""
	}
	switch function := call.Fun.(type) {
	case *ast.Ident:
		return function.Name
	case *ast.SelectorExpr:
		return function.Sel.Name
	case *ast.ArrayType:
		if element, ok := function.Elt.(*ast.Ident); ok {
			return element.Name
		}
	}
	return ""
}
