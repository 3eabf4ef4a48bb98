package docs_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPagesQuoteTheErrorsOfTheSDK finds the parts of each error text of the pages in string literals of the SDK or of
// Go. The SDK's own tests check the order of the parts. The pages have each text on one line, so that a search finds
// it.
func TestPagesQuoteTheErrorsOfTheSDK(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	require.NoError(t, err)
	ofSDK, ofDurable, _ := strings.Cut(string(page), "\n## Package durable\n")
	for _, text := range textsOfTables(ofDurable) {
		assert.Contains(t, durableSource(t), text, "no text of durable")
	}
	quoted := textsOfTables(ofSDK)
	require.Greater(t, len(quoted), 40)
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang == "text" {
				quoted = append(quoted, strings.Split(b.text, "\n")...)
			}
		}
	}
	known := literals(t)
	for _, text := range quoted {
		rest := strings.ToLower(valuesOfErrors.ReplaceAllString(text, "|"))
		for _, part := range known {
			rest = strings.ReplaceAll(rest, part, "|")
		}
		assert.NotRegexp(t, "[a-z]", rest, "in no literal, a part of: %s", text)
	}
}

// valuesOfErrors matches the names and values in the error texts of the pages.
var valuesOfErrors = regexp.MustCompile(`"[^ ]+"|\d+[ms]|connect:|dial tcp(: lookup)?|\*errors\.errorString|float64|` +
	`merchant|paymentsvc\.PaymentRequest|pay\.example\.com|X-Request-Id`)

// literals returns the constant parts of the string literals of the SDK and of Go, without short words, which would
// also be parts of wrong texts. Longer parts come first.
func literals(t *testing.T) (parts []string) {
	t.Helper()
	parts = []string{"eof", "tls", "x509"}
	dirs := []string{root, root + "/canonical", root + "/discover", root + "/internal/*", root + "/paymentsvctest"}
	for _, name := range []string{
		"context", "crypto/tls", "crypto/x509", "encoding/json", "io", "net", "net/http", "syscall",
	} {
		dirs = append(dirs, filepath.Join(build.Default.GOROOT, "src", name))
	}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(parsed, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					text, err := strconv.Unquote(l.Value)
					require.NoError(t, err)
					for _, part := range regexp.MustCompile(`%[a-zA-Z]|\n`).Split(text, -1) {
						if len(part) > 7 || len(part) > 3 && strings.HasPrefix(dir, root) {
							parts = append(parts, strings.ToLower(part))
						}
					}
				}
				return true
			})
		}
	}
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) })
	return parts
}

// durableSource returns the code and the page of package durable, because this module does not import it.
func durableSource(t *testing.T) string {
	t.Helper()
	var source strings.Builder
	files := os.DirFS(filepath.Join(root, "durable"))
	require.NoError(t, fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") ||
			!strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".html") {
			return err
		}
		content, err := fs.ReadFile(files, path)
		source.Write(content)
		return err
	}))
	return source.String()
}

// textsOfTables returns the error texts in the tables of docs/troubleshooting.md. Each code span in the first column is
// a text. It follows the beginning in the table's head, unless it begins with the name of a package.
func textsOfTables(page string) (texts []string) {
	span, whole := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile("^(paymentsvc|json): ")
	inTable, beginning := false, ""
	for line := range strings.Lines(page) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		switch {
		case !strings.HasPrefix(line, "| "):
			inTable = false
		case !inTable:
			inTable, beginning = true, ""
			if head := span.FindStringSubmatch(cell); head != nil {
				beginning = head[1] + " "
			}
		default:
			for _, text := range span.FindAllStringSubmatch(cell, -1) {
				if whole.MatchString(text[1]) {
					texts = append(texts, text[1])
				} else {
					texts = append(texts, beginning+text[1])
				}
			}
		}
	}
	return texts
}
