package paymentsvc_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/internal/markdown"
	"github.com/paymentsvc/paymentsvc/internal/snippet"
)

// pages are the Markdown pages that a reader of the repository meets.
func pages(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	return append([]string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md"}, docs...)
}

func TestTheGoCodeInTheDocumentationCompiles(t *testing.T) {
	root, err := filepath.Abs(".")
	require.NoError(t, err)
	replace := map[string]string{}
	packages := map[string][]string{}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range markdown.Blocks(string(text)) {
			if block.Lang != "go" {
				continue
			}
			source, err := snippet.Program(filepath.Join(root, page), block.Line, block.Text)
			if !assert.NoError(t, err) {
				continue
			}
			file := filepath.Join(t.TempDir(), "snippet.go")
			require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
			// The files exist only in this overlay, as packages of this module.
			name := fmt.Sprintf("snippet%d", len(replace)+1)
			replace[filepath.Join(root, "internal", "pages", name, "snippet.go")] = file
			packages[page] = append(packages[page], "./internal/pages/"+name)
		}
	}
	require.NotEmpty(t, packages["README.md"])
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	overlayFile := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))

	for page, paths := range packages {
		t.Run(page, func(t *testing.T) {
			build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-overlay", overlayFile}, paths...)...)
			output, err := build.CombinedOutput()
			assert.NoError(t, err, "%s", output)
		})
	}
}

func TestTheDocumentationNamesNoMachine(t *testing.T) {
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		assert.NotRegexp(t, `/(home|root|work|tmp)/`, string(text), page)
	}
}
