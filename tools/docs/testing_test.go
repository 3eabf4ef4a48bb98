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
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBlocksOfTestingCompileAlone checks the promise of docs/testing.md: its first block and any other are a program.
func TestBlocksOfTestingCompileAlone(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "testing_example_test.go", nil, parser.ImportsOnly)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	var code []string
	for _, b := range pages(t)["docs/testing.md"].blocks {
		if b.lang == "go" {
			code = append(code, b.text)
		}
	}
	require.Greater(t, len(code), 8)
	for i, block := range code[1:] {
		text := code[0] + "\n" + block
		for _, spec := range file.Imports {
			name := path.Base(strings.Trim(spec.Path.Value, `"`))
			if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(text) {
				text = "import " + spec.Path.Value + "\n" + text
			}
		}
		write(fmt.Sprintf("block%d/shop_test.go", i), "package shop\n"+text)
	}
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		write(name, strings.Replace(string(data), "=> "+root, fmt.Sprintf("=> %q", here), 1))
	}
	vet := exec.CommandContext(t.Context(), "go", "vet", "./...")
	vet.Dir = dir
	output, err := vet.CombinedOutput()
	assert.NoError(t, err, "%s", output)
}
