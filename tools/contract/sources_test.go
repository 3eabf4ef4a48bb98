package contract

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources are what only the SDK's source tells: a name that is read beside those of the document would show in no call.
type sources struct {
	// constants are the values of the string constants of a type.
	constants map[string][]string
	// names are those that the method fields of a type reads from a JSON object.
	names map[string][]string
}

func readSources(t testing.TB) *sources {
	t.Helper()
	files, err := filepath.Glob("../../*.go")
	require.NoError(t, err)
	s := &sources{constants: map[string][]string{}, names: map[string][]string{}}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.GenDecl:
				s.addConstants(decl)
			case *ast.FuncDecl:
				s.addNames(decl)
			}
		}
	}
	return s
}

func (s *sources) addConstants(decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		values, ok := spec.(*ast.ValueSpec)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		if typ, ok := values.Type.(*ast.Ident); ok {
			s.constants[typ.Name] = append(s.constants[typ.Name], texts(values)...)
		}
	}
}

func (s *sources) addNames(decl *ast.FuncDecl) {
	if decl.Name.Name != "fields" || decl.Recv == nil {
		return
	}
	receiver, ok := decl.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return
	}
	typ := receiver.X.(*ast.Ident).Name
	ast.Inspect(decl.Body, func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == "Name" {
				s.names[typ] = append(s.names[typ], texts(pair)...)
			}
		}
		return true
	})
}

// texts gives the string literals below a node.
func texts(node ast.Node) []string {
	var list []string
	ast.Inspect(node, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, err := strconv.Unquote(literal.Value)
			if err == nil {
				list = append(list, text)
			}
		}
		return true
	})
	return list
}

func TestEveryNameThatIsReadIsTheDocuments(t *testing.T) {
	s := readSources(t)
	var types []string
	for _, r := range readers(t) {
		require.ElementsMatch(t, r.schema.names(), s.names[r.into.Name()], r.into.Name())
		types = append(types, r.into.Name())
	}
	slices.Sort(types)
	require.Equal(t, slices.Compact(types), sortedNames(s.names), "types that are read from JSON")
}
