package paymentsvc_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// prelude declares what the README's snippets take as given.
const prelude = `
var (
	scheme paymentsvc.Scheme
	secret paymentsvc.Secret
	client *paymentsvc.Client
	mux    *http.ServeMux
	handler http.Handler
	srv    *paymentsvctest.Server
	t      *testing.T
	orders interface {
		Apply(ctx context.Context, key, orderID string, status paymentsvc.StatusName) error
	}
)

func checkout(client *paymentsvc.Client, userData string)                  {}
func retryLater(userData string) error                                     { return nil }
func showRefusal(userData string) error                                    { return nil }
func settleOrder(userData string, status *paymentsvc.StatusResponse) error { return nil }
`

// imports by the name that a snippet uses.
var imports = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "time": "time", "testing": "testing",
	"paymentsvc":     "github.com/paymentsvc/paymentsvc",
	"canonical":      "github.com/paymentsvc/paymentsvc/canonical",
	"paymentsvctest": "github.com/paymentsvc/paymentsvc/paymentsvctest",
}

func TestTheGoCodeInTheREADMECompiles(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	blocks := goBlock.FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, blocks)

	root, err := filepath.Abs(".")
	require.NoError(t, err)
	replace := map[string]string{}
	for i, block := range blocks {
		source := program(block[1])
		file := filepath.Join(t.TempDir(), "snippet.go")
		require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
		// The files exist only in this overlay, as packages of this module.
		replace[filepath.Join(root, "internal", "readme", fmt.Sprintf("snippet%d", i+1), "snippet.go")] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	overlayFile := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))

	for i := range blocks {
		build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlayFile, fmt.Sprintf("./internal/readme/snippet%d", i+1))
		output, err := build.CombinedOutput()
		assert.NoError(t, err, "snippet %d:\n%s\n%s", i+1, blocks[i][1], output)
	}
}

// program makes a package of a snippet that stands in a function, or among declarations.
func program(snippet string) string {
	var b strings.Builder
	b.WriteString("package snippet\n\nimport (\n")
	for name, path := range imports {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(snippet + prelude) {
			fmt.Fprintf(&b, "\t%q\n", path)
		}
	}
	b.WriteString(")\n" + prelude)
	if strings.HasPrefix(snippet, "func ") {
		return b.String() + snippet
	}
	b.WriteString("\nfunc snippet(ctx context.Context, userData string, err error) error {\n\t{\n" + snippet)
	for _, name := range []string{"payment", "scheme", "err"} { // what a snippet declares for the reader to use
		if strings.Contains(snippet, name+" :=") || strings.Contains(snippet, name+", err :=") {
			fmt.Fprintf(&b, "\t_ = %s\n", name)
		}
	}
	b.WriteString("\t}\n\treturn err\n}\n")
	return b.String()
}

func TestTheREADMENamesNoMachine(t *testing.T) {
	for _, file := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.NotRegexp(t, `/(home|root|work|tmp)/`, string(text), file)
	}
}
