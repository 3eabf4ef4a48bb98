package paymentsvc_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// source is the source of a package, or of its tests.
type source struct {
	files *token.FileSet
	asts  []*ast.File
}

// sourceOf reads the package of a path, or its tests.
func sourceOf(t *testing.T, path string, tests bool) source {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("."+strings.TrimPrefix(path, modulePath), "*.go"))
	require.NoError(t, err)
	s := source{files: token.NewFileSet()}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") == tests {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			s.add(t, file, string(text))
		}
	}
	require.NotEmpty(t, s.asts, path)
	return s
}

func (s *source) add(t *testing.T, name, text string) {
	t.Helper()
	file, err := parser.ParseFile(s.files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	s.asts = append(s.asts, file)
}

// declared is an exported name.
type declared struct {
	name string   // "NewClient", "Client.InitPayment", "Config.BaseURL"
	kind string   // "func", "method", "type", "field", "const" or "var"
	doc  string   // the comment that speaks of it, "" without one
	own  bool     // doc is not that of a group of constants or variables
	with []string // the fields that share doc, this one included
	expr ast.Expr // the type of it, nil where the source shows none or where its fields are names of their own
}

// base is the name without what it belongs to.
func (d declared) base() string { return d.name[strings.LastIndex(d.name, ".")+1:] }

// exported gives the exported names of a package, in the order of the source. A method or field counts with its type.
func (s source) exported() []declared {
	var exported []declared
	for _, file := range s.asts {
		for _, decl := range file.Decls {
			for _, d := range s.declaredBy(decl) {
				owner, name, ok := strings.Cut(d.name, ".")
				if ast.IsExported(owner) && (!ok || ast.IsExported(name)) {
					exported = append(exported, d)
				}
			}
		}
	}
	return exported
}

func (s source) declaredBy(decl ast.Decl) []declared {
	if function, ok := decl.(*ast.FuncDecl); ok {
		d := declared{name: function.Name.Name, kind: "func", doc: function.Doc.Text(), own: true, expr: function.Type}
		if function.Recv != nil {
			receiver := function.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			d.kind, d.name = "method", receiver.(*ast.Ident).Name+"."+d.name
		}
		return []declared{d}
	}
	var names []declared
	group := decl.(*ast.GenDecl)
	for _, spec := range group.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for i, name := range spec.Names {
				d := declared{name: name.Name, kind: group.Tok.String(), expr: spec.Type}
				if i < len(spec.Values) && d.expr == nil {
					if literal, ok := spec.Values[i].(*ast.CompositeLit); ok {
						d.expr = literal.Type
					}
				}
				d.doc, d.own = commentOf(group, spec.Doc, spec.Comment)
				names = append(names, d)
			}
		case *ast.TypeSpec:
			d := declared{name: spec.Name.Name, kind: "type", expr: spec.Type}
			d.doc, d.own = commentOf(group, spec.Doc, spec.Comment)
			if structure, ok := spec.Type.(*ast.StructType); ok {
				d.expr = nil
				names = append(names, s.fieldsOf(d.name, structure)...)
			}
			names = append(names, d)
		}
	}
	return names
}

// commentOf gives the comment above a name, or the one behind it and that of its group. The comment above a declaration
// without parentheses is the name's own.
func commentOf(group *ast.GenDecl, above, behind *ast.CommentGroup) (doc string, own bool) {
	if above.Text() != "" {
		return above.Text(), true
	}
	return behind.Text() + group.Doc.Text(), !group.Lparen.IsValid()
}

// fieldsOf gives the fields of a struct. Those on lines right behind one another share the comment above the first.
func (s source) fieldsOf(owner string, structure *ast.StructType) []declared {
	var fields, run []declared
	end := func() {
		for _, field := range run {
			field.doc = run[0].doc
			for _, other := range run {
				field.with = append(field.with, other.base())
			}
			fields = append(fields, field)
		}
		run = nil
	}
	line := 0
	for _, field := range structure.Fields.List {
		doc := field.Doc.Text() + field.Comment.Text()
		if doc != "" || s.files.Position(field.Pos()).Line != line+1 {
			end()
		}
		line = s.files.Position(field.End()).Line
		for _, name := range namesOfField(field) {
			run = append(run, declared{name: owner + "." + name, kind: "field", doc: doc, own: true, expr: field.Type})
		}
	}
	end()
	return fields
}

// namesOfField gives the names of a field, that of its type where it is embedded.
func namesOfField(field *ast.Field) []string {
	var names []string
	for _, name := range field.Names {
		names = append(names, name.Name)
	}
	if names == nil {
		embedded := field.Type
		if pointer, ok := embedded.(*ast.StarExpr); ok {
			embedded = pointer.X
		}
		switch embedded := embedded.(type) {
		case *ast.Ident:
			names = append(names, embedded.Name)
		case *ast.SelectorExpr:
			names = append(names, embedded.Sel.Name)
		}
	}
	return names
}
