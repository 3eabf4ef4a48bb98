package docs_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBlocksOfTestingCompileAlone checks the promise of docs/testing.md: the first block and any other make a program.
func TestBlocksOfTestingCompileAlone(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "testing_example_test.go", nil, parser.ImportsOnly)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name string, parts ...string) {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(strings.Join(parts, "\n")), 0o600))
	}
	setup, blocks := "", 0
	for _, b := range pages(t)["docs/testing.md"].blocks {
		if b.lang != "go" {
			continue
		}
		if blocks++; blocks == 1 {
			setup = b.text
			continue
		}
		imports := "import (\n"
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if regexp.MustCompile(`\b` + path.Base(name) + `\.[A-Z]`).MatchString(setup + b.text) {
				imports += "\t" + spec.Path.Value + "\n"
			}
		}
		write(fmt.Sprintf("block%d/shop_test.go", blocks), "package shop", imports+")", setup, b.text)
	}
	assert.Greater(t, blocks, 10)
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	module, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	write("go.mod", strings.Replace(string(module), "=> "+root, "=> "+strconv.Quote(here), 1))
	sums, err := os.ReadFile("go.sum")
	require.NoError(t, err)
	write("go.sum", string(sums))
	vet := exec.CommandContext(t.Context(), "go", "vet", "./...")
	vet.Dir = dir
	output, err := vet.CombinedOutput()
	assert.NoError(t, err, "%s", output)
}
