// Package api_test compares the exported API with the declarations in testdata.
package api_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "github.com/google/uuid" // testdata imports it
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"

	_ "github.com/paymentsvc/paymentsvc/paymentsvctest" // so that go.mod requires the SDK
)

const sdk = "github.com/paymentsvc/paymentsvc"

// TestAPIFitsTheDeclarations compares the declarations in testdata with the packages. Each name must exist in both,
// with the same type. A field _ in a struct stands for the unexported fields.
func TestAPIFitsTheDeclarations(t *testing.T) {
	importPaths := []string{sdk, sdk + "/canonical", sdk + "/discover", sdk + "/paymentsvctest"}
	loaded := packagesByPath{}
	roots, err := packages.Load(
		&packages.Config{Mode: packages.LoadTypes | packages.NeedDeps | packages.NeedImports}, importPaths...,
	)
	require.NoError(t, err)
	require.Zero(t, packages.PrintErrors(roots))
	packages.Visit(roots, nil, func(p *packages.Package) { loaded[p.PkgPath] = p.Types })

	for _, importPath := range importPaths {
		name := "testdata/" + path.Base(importPath) + ".txt"
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		config := types.Config{Importer: loaded, IgnoreFuncBodies: true}
		promised, err := config.Check(importPath, files, []*ast.File{file}, nil)
		require.NoError(t, err)
		for _, change := range apidiff.Changes(promised, loaded[importPath]).Changes {
			assert.Fail(t, name, "%s: %s", importPath, change.Message)
		}
	}
}

type packagesByPath map[string]*types.Package

func (p packagesByPath) Import(importPath string) (*types.Package, error) {
	if p[importPath] == nil {
		return nil, fmt.Errorf("%s was not loaded", importPath)
	}
	return p[importPath], nil
}

// TestSignaturesAreComparedInConstantTimeOnly reads the SDK's source, because a test cannot measure the time of a
// comparison. The patterns contain the variable names of signatures in the SDK.
func TestSignaturesAreComparedInConstantTimeOnly(t *testing.T) {
	sources, err := filepath.Glob("../../../*.go")
	require.NoError(t, err)
	const name = `\b(signatures?|given|sum)\b(\[[^]]*\]|\))?`
	constant := regexp.MustCompile(`\bsubtle\.ConstantTimeCompare\([^\n]*` + name)
	leaks := regexp.MustCompile(name + `\s*([=!]=|<=?|>=?)\s*[^"\s<>=]|([=!]=|[<>]=?)\s*(string\()?` + name +
		`|\b(bytes|strings|slices|cmp|reflect)\.\w+\([^\n]*` + name + `|(switch|range) ` + name)
	comment := regexp.MustCompile(`(?m)//.*$`)
	comparisons := 0
	for _, file := range sources {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		code := comment.ReplaceAllString(string(source), "")
		comparisons += len(constant.FindAllString(code, -1))
		assert.Empty(t, leaks.FindAllString(code, -1), "%s: a comparison of a signature takes variable time", file)
	}
	assert.Equal(t, 1, comparisons, "comparisons in constant time")
}
