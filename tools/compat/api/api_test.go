// Package api_test holds the exported API to what partners were promised.
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

	_ "github.com/google/uuid" // which testdata imports
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"

	_ "github.com/paymentsvc/paymentsvc/paymentsvctest" // which brings the SDK into this module
)

const sdk = "github.com/paymentsvc/paymentsvc"

// TestAPIFitsTheDeclarations compares the declarations in testdata with those of the packages: every name must be
// there, with the same type, and a name that testdata does not have is one that nobody has agreed to. A struct with a
// field _ has fields of its own.
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

// TestSignaturesAreComparedInConstantTimeOnly reads the SDK's source, since no test can measure it: any other
// comparison takes longer the more of a forged signature is right. The patterns have the names that a signature has in
// the SDK.
func TestSignaturesAreComparedInConstantTimeOnly(t *testing.T) {
	sources, err := filepath.Glob("../../../*.go")
	require.NoError(t, err)
	const name = `\b(signatures?|given|sum)\b(\[[^]]*\]|\))?`
	constant := regexp.MustCompile(`\bsubtle\.ConstantTimeCompare\([^\n]*` + name)
	leaks := regexp.MustCompile(name + `\s*([=!]=|<=?|>=?)\s*[^"\s<>=]|([=!]=|[<>]=?)\s*(string\()?` + name +
		`|\b(bytes|strings|slices|cmp|reflect)\.\w+\([^\n]*` + name + `|(switch|range) ` + name)
	comparisons := 0
	for _, file := range sources {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		code := regexp.MustCompile(`(?m)//.*$`).ReplaceAllString(string(source), "")
		comparisons += len(constant.FindAllString(code, -1))
		assert.Empty(t, leaks.FindAllString(code, -1), "%s: a signature is compared in its own time", file)
	}
	assert.Equal(t, 1, comparisons, "comparisons in constant time")
}
