// Package snippet makes a Go package of a snippet that the documentation shows, so that a test can compile it.
package snippet

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// given are the declarations that a snippet takes for granted, by name.
func given() map[string]string {
	return map[string]string{
		"scheme":  "var scheme paymentsvc.Scheme",
		"secret":  "var secret paymentsvc.Secret",
		"client":  "var client *paymentsvc.Client",
		"mux":     "var mux *http.ServeMux",
		"handler": "var handler http.Handler",
		"srv":     "var srv *paymentsvctest.Server",
		"t":       "var t *testing.T",
		"orders": "var orders interface {\n" +
			"\tApply(ctx context.Context, key, orderID string, status paymentsvc.StatusName) error\n}",
		"checkout":    "func checkout(client *paymentsvc.Client, userData string) {}",
		"retryLater":  "func retryLater(userData string) error { return nil }",
		"showRefusal": "func showRefusal(userData string) error { return nil }",
		"settleOrder": "func settleOrder(userData string, status *paymentsvc.StatusResponse) error { return nil }",
	}
}

// packages are the import paths by the name that a snippet uses.
func packages() map[string]string {
	return map[string]string{
		"base64": "encoding/base64", "bytes": "bytes", "cmp": "cmp", "context": "context", "driver": "database/sql/driver",
		"errors": "errors", "fmt": "fmt", "hex": "encoding/hex", "hmac": "crypto/hmac", "http": "net/http",
		"httptest": "net/http/httptest", "io": "io", "json": "encoding/json", "log": "log", "net": "net", "os": "os",
		"sha256": "crypto/sha256", "slices": "slices", "slog": "log/slog", "sql": "database/sql", "strconv": "strconv",
		"strings": "strings", "sync": "sync", "synctest": "testing/synctest", "testing": "testing", "time": "time",
		"tls": "crypto/tls", "url": "net/url",
		"uuid":           "github.com/google/uuid",
		"paymentsvc":     "github.com/paymentsvc/paymentsvc",
		"canonical":      "github.com/paymentsvc/paymentsvc/canonical",
		"paymentsvctest": "github.com/paymentsvc/paymentsvc/paymentsvctest",
	}
}

const (
	header   = "package snippet\n\n"
	function = "func snippet(ctx context.Context, userData string, err error) error {\n\t{\n"
)

// Program gives the source of a package that holds a snippet: a whole file, declarations, or statements of a
//
//	func(ctx context.Context, userData string, err error) error
//
// The latter two may use without a declaration: scheme, secret, client, mux, handler, srv, t, orders, checkout,
// retryLater, showRefusal, settleOrder, and the usual packages. What statements declare need not be used. The
// compiler's messages name page and its lines, of which line is the snippet's first. Program fails for what is not Go.
func Program(page string, line int, code string) (string, error) {
	code = fmt.Sprintf("//line %s:%d\n%s\n", page, line, strings.TrimSuffix(code, "\n"))
	if _, err := parse(code); err == nil {
		return code, nil
	}
	file, err := parse(header + code)
	if err == nil {
		return complete(code, file)
	}
	if file, err = parse(header + function + code + "\t}\n\treturn err\n}\n"); err != nil {
		return "", err
	}
	for _, name := range declaredByStatements(file) {
		code += fmt.Sprintf("\t_ = %s\n", name)
	}
	return complete(function+code+"\t}\n\treturn err\n}\n", file)
}

// complete adds to declarations, which file holds as well, the given ones that they do not make themselves, and the
// imports of both.
func complete(declarations string, file *ast.File) (string, error) {
	own := declaredAtTop(file)
	others := given()
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if !own[name] {
			declarations += fmt.Sprintf("\n//line given.go:1\n%s\n", others[name])
		}
	}
	file, err := parse(header + declarations)
	if err != nil {
		return "", err
	}
	imports := ""
	used, paths := usedAsPackage(file), packages()
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		if used[name] {
			imports += fmt.Sprintf("import %q\n", paths[name])
		}
	}
	return header + imports + declarations, nil
}

func parse(source string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
}

func declaredAtTop(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				names[decl.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, name := range namesOf(decl) {
				names[name] = true
			}
		}
	}
	return names
}

func namesOf(decl *ast.GenDecl) []string {
	var names []string
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				names = append(names, name.Name)
			}
		case *ast.TypeSpec:
			names = append(names, spec.Name.Name)
		}
	}
	return names
}

// declaredByStatements are the variables that the statements of a snippet declare for the reader to use. One that is
// declared in an inner block is not among them: it is the snippet's to use.
func declaredByStatements(file *ast.File) []string {
	var names []string
	for _, statement := range file.Decls[0].(*ast.FuncDecl).Body.List[0].(*ast.BlockStmt).List {
		switch statement := statement.(type) {
		case *ast.AssignStmt:
			for _, left := range statement.Lhs {
				name, ok := left.(*ast.Ident)
				if ok && statement.Tok == token.DEFINE && name.Name != "_" {
					names = append(names, name.Name)
				}
			}
		case *ast.DeclStmt:
			if decl, ok := statement.Decl.(*ast.GenDecl); ok && decl.Tok == token.VAR {
				names = append(names, namesOf(decl)...)
			}
		}
	}
	return names
}

// usedAsPackage are the names before a dot that nothing in the file declares or imports.
func usedAsPackage(file *ast.File) map[string]bool {
	used, declared := map[string]bool{}, declaredAtTop(file)
	declare := func(expressions ...ast.Expr) {
		for _, e := range expressions {
			if name, ok := e.(*ast.Ident); ok {
				declared[name.Name] = true
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if name, ok := n.X.(*ast.Ident); ok {
				used[name.Name] = true
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				declare(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				declare(n.Key, n.Value)
			}
		case *ast.Field:
			for _, name := range n.Names {
				declare(name)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				declare(name)
			}
		case *ast.ImportSpec:
			path := strings.Trim(n.Path.Value, `"`)
			declared[path[strings.LastIndex(path, "/")+1:]] = true
			if n.Name != nil {
				declare(n.Name)
			}
		}
		return true
	})
	for name := range declared {
		delete(used, name)
	}
	return used
}
