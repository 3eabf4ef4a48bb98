package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSignaturesAreComparedInConstantTimeOnly reads the SDK's source, since no test can measure it: any other
// comparison takes longer the more of a forged signature is right.
func TestSignaturesAreComparedInConstantTimeOnly(t *testing.T) {
	sources, err := filepath.Glob("../../*.go")
	require.NoError(t, err)
	comparisons := 0
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, source, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && calls(call, "subtle") && mentionSignature(call.Args...) {
				comparisons++
			}
			if n != nil {
				assert.False(t, leaksTime(n), "%s: a signature is compared in its own time", files.Position(n.Pos()))
			}
			return true
		})
	}
	assert.Equal(t, 1, comparisons, "comparisons in constant time")
}

func leaksTime(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if empty, ok := n.Y.(*ast.BasicLit); ok && empty.Value == `""` {
			return false // whether there is one
		}
		compares := slices.Contains([]token.Token{token.EQL, token.NEQ, token.LSS, token.GTR, token.LEQ, token.GEQ}, n.Op)
		return compares && mentionSignature(n.X, n.Y)
	case *ast.IndexExpr:
		return mentionSignature(n.X, n.Index)
	case *ast.RangeStmt:
		return mentionSignature(n.X)
	case *ast.SwitchStmt:
		return n.Tag != nil && mentionSignature(n.Tag)
	case *ast.CallExpr:
		return calls(n, "bytes", "strings", "slices", "cmp", "reflect") && mentionSignature(n.Args...)
	}
	return false
}

// calls reports whether call is of a function of one of the packages.
func calls(call *ast.CallExpr, packages ...string) bool {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	name, ok := function.X.(*ast.Ident)
	return ok && slices.Contains(packages, name.Name)
}

// signatureNames are the names that a signature has in the SDK.
var signatureNames = regexp.MustCompile(`^(signature|signatures|given|sum)$`)

// mentionSignature reports whether a signature is in one of the expressions, be it sliced or converted, and not only in
// an argument of a function.
func mentionSignature(expressions ...ast.Expr) (found bool) {
	for _, e := range expressions {
		ast.Inspect(e, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				_, ok = call.Fun.(*ast.SelectorExpr)
				return !ok
			}
			name, ok := n.(*ast.Ident)
			found = found || ok && signatureNames.MatchString(name.Name)
			return true
		})
	}
	return found
}
