package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// evaluate returns the Scheme of a Go expression: of a whole paymentsvc.Scheme, or of a canonical string alone, which
// leaves Encoding nil. It knows the exported names of package canonical, and secret.
func evaluate(text string, secret paymentsvc.Secret) (paymentsvc.Scheme, error) {
	expr, err := parser.ParseExpr(text)
	if err != nil {
		return paymentsvc.Scheme{}, fmt.Errorf("not a Go expression: %w", err)
	}
	value, err := evaluator{secret}.eval(expr)
	if err != nil {
		return paymentsvc.Scheme{}, err
	}
	if scheme, ok := value.Interface().(paymentsvc.Scheme); ok {
		if scheme.Canonical == nil {
			return scheme, errors.New("the Scheme has no Canonical")
		}
		return scheme, nil
	}
	part, err := convert(value, reflect.TypeFor[paymentsvc.CanonicalFunc](), expr)
	if err != nil {
		return paymentsvc.Scheme{}, err
	}
	return paymentsvc.Scheme{Canonical: part.Interface().(paymentsvc.CanonicalFunc)}, nil
}

type evaluator struct{ secret paymentsvc.Secret }

// names returns the names that an expression may use.
func names() map[string]any {
	return map[string]any{
		"canonical.Timestamp":     canonical.Timestamp,
		"canonical.Method":        canonical.Method,
		"canonical.Path":          canonical.Path,
		"canonical.PathBelow":     canonical.PathBelow,
		"canonical.DecodedPath":   canonical.DecodedPath,
		"canonical.RequestURI":    canonical.RequestURI,
		"canonical.URL":           canonical.URL,
		"canonical.Host":          canonical.Host,
		"canonical.Query":         canonical.Query,
		"canonical.SortedQuery":   canonical.SortedQuery,
		"canonical.Body":          canonical.Body,
		"canonical.BodySHA256":    canonical.BodySHA256,
		"canonical.BodyCompact":   canonical.BodyCompact,
		"canonical.BodySorted":    canonical.BodySorted,
		"canonical.BodyJSON":      canonical.BodyJSON,
		"canonical.Field":         canonical.Field,
		"canonical.FieldOr":       canonical.FieldOr,
		"canonical.Fields":        canonical.Fields,
		"canonical.Header":        canonical.Header,
		"canonical.Literal":       canonical.Literal,
		"canonical.Labelled":      canonical.Labelled,
		"canonical.Secret":        canonical.Secret,
		"canonical.Join":          canonical.Join,
		"canonical.ByKind":        canonical.ByKind,
		"canonical.Lower":         canonical.Lower,
		"canonical.Upper":         canonical.Upper,
		"canonical.Encode":        canonical.Encode,
		"canonical.SHA256":        canonical.SHA256,
		"canonical.SHA512":        canonical.SHA512,
		"canonical.SHA1":          canonical.SHA1,
		"canonical.MD5":           canonical.MD5,
		"canonical.Prefixed":      canonical.Prefixed,
		"canonical.Chain":         canonical.Chain,
		"canonical.Raw":           canonical.Raw,
		"canonical.NestedJSON":    canonical.NestedJSON,
		"canonical.NestedOmitted": canonical.NestedOmitted,
		"canonical.NestedFlat":    canonical.NestedFlat,
		"paymentsvc.Hex":          paymentsvc.Hex,
		"paymentsvc.HexUpper":     paymentsvc.HexUpper,
		"base64.StdEncoding":      base64.StdEncoding,
		"base64.RawStdEncoding":   base64.RawStdEncoding,
		"base64.URLEncoding":      base64.URLEncoding,
		"base64.RawURLEncoding":   base64.RawURLEncoding,
	}
}

// structs returns the types of composite literals.
func structs() map[string]reflect.Type {
	return map[string]reflect.Type{
		"paymentsvc.Scheme":   reflect.TypeFor[paymentsvc.Scheme](),
		"canonical.FieldList": reflect.TypeFor[canonical.FieldList](),
		"canonical.JSONForm":  reflect.TypeFor[canonical.JSONForm](),
	}
}

func (e evaluator) eval(expr ast.Expr) (reflect.Value, error) {
	switch x := expr.(type) {
	case *ast.ParenExpr:
		return e.eval(x.X)
	case *ast.BasicLit:
		if x.Kind != token.STRING {
			return fail(x, "only texts are understood")
		}
		text, err := strconv.Unquote(x.Value)
		return reflect.ValueOf(text), err
	case *ast.Ident:
		switch x.Name {
		case "secret":
			return reflect.ValueOf(e.secret), nil
		case "true", "false":
			return reflect.ValueOf(x.Name == "true"), nil
		}
		return fail(x, "%s is not known", x.Name)
	case *ast.SelectorExpr:
		if value, known := names()[selector(x)]; known {
			return reflect.ValueOf(value), nil
		}
		return fail(x, "%s is not known", selector(x))
	case *ast.CompositeLit:
		return e.composite(x)
	case *ast.CallExpr:
		return e.call(x)
	default:
		return fail(expr, "this is not understood")
	}
}

func (e evaluator) call(x *ast.CallExpr) (reflect.Value, error) {
	fn, err := e.eval(x.Fun)
	if err != nil {
		return reflect.Value{}, err
	}
	// Parts are functions too, but of two results: they are named, not called.
	if fn.Kind() != reflect.Func || fn.Type().NumOut() != 1 || x.Ellipsis.IsValid() {
		return fail(x, "this cannot be called")
	}
	t := fn.Type()
	least, most := t.NumIn(), t.NumIn()
	if t.IsVariadic() {
		least, most = least-1, len(x.Args)
	}
	if len(x.Args) < least || len(x.Args) > most {
		return fail(x, "called with %d values rather than %d", len(x.Args), t.NumIn())
	}
	args := make([]reflect.Value, 0, len(x.Args))
	for i, arg := range x.Args {
		want := t.In(min(i, t.NumIn()-1))
		if t.IsVariadic() && i >= t.NumIn()-1 {
			want = want.Elem()
		}
		value, err := e.eval(arg)
		if err == nil {
			value, err = convert(value, want, arg)
		}
		if err != nil {
			return reflect.Value{}, err
		}
		args = append(args, value)
	}
	return fn.Call(args)[0], nil
}

func (e evaluator) composite(x *ast.CompositeLit) (reflect.Value, error) {
	if list, ok := x.Type.(*ast.ArrayType); ok && list.Len == nil && isString(list.Elt) {
		var texts []string
		for _, element := range x.Elts {
			value, err := e.eval(element)
			if err == nil {
				value, err = convert(value, reflect.TypeFor[string](), element)
			}
			if err != nil {
				return reflect.Value{}, err
			}
			texts = append(texts, value.String())
		}
		return reflect.ValueOf(texts), nil
	}
	named, _ := x.Type.(*ast.SelectorExpr)
	t, known := structs()[selector(named)]
	if !known {
		return fail(x, "values of this type are not understood")
	}
	out := reflect.New(t).Elem()
	for _, element := range x.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return fail(element, "name the fields")
		}
		name, _ := pair.Key.(*ast.Ident)
		field := reflect.Value{}
		if name != nil {
			field = out.FieldByName(name.Name)
		}
		if !field.IsValid() {
			return fail(pair.Key, "%s has no such field", selector(named))
		}
		value, err := e.eval(pair.Value)
		if err == nil {
			value, err = convert(value, field.Type(), pair.Value)
		}
		if err != nil {
			return reflect.Value{}, err
		}
		field.Set(value)
	}
	return out, nil
}

// convert converts value to a type that it is assignable to, as Go does with constants.
func convert(value reflect.Value, to reflect.Type, at ast.Expr) (reflect.Value, error) {
	if value.Type().AssignableTo(to) {
		out := reflect.New(to).Elem()
		out.Set(value)
		return out, nil
	}
	return fail(at, "not a %s", to)
}

func isString(expr ast.Expr) bool {
	name, ok := expr.(*ast.Ident)
	return ok && name.Name == "string"
}

// selector returns package.Name, or "" for anything else.
func selector(x *ast.SelectorExpr) string {
	if x == nil {
		return ""
	}
	pkg, ok := x.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return pkg.Name + "." + x.Sel.Name
}

func fail(at ast.Expr, problem string, args ...any) (reflect.Value, error) {
	return reflect.Value{}, fmt.Errorf("column %d: %s", at.Pos(), fmt.Sprintf(problem, args...))
}
