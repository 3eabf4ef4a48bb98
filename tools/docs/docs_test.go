// Package docs_test checks the pages. Their Go code must be compiled, their links and anchors must resolve, their error
// texts must be the SDK's, and .ci/run must run their commands.
package docs_test

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

const root = "../.."

// page is a Markdown file.
type page struct {
	blocks  []block
	links   []string
	anchors map[string]bool
}

// block is a code block. Without a fence, lang is "indented".
type block struct{ lang, text string }

// pages reads the Markdown files of the root, docs, durable and the examples. The keys are paths with slashes.
func pages(t *testing.T) map[string]page {
	t.Helper()
	all := map[string]page{}
	for name, source := range matching(t, "*.md", "docs/*.md", "durable/*.md", "durable/*/*.md", "examples/*/*.md") {
		all[name] = read(t, source)
	}
	return all
}

// matching returns the files of the repository that match the patterns. Each pattern matches a file.
func matching(t *testing.T, patterns ...string) map[string][]byte {
	t.Helper()
	tree, all := os.DirFS(root), map[string][]byte{}
	for _, pattern := range patterns {
		files, err := fs.Glob(tree, pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			all[file], err = fs.ReadFile(tree, file)
			require.NoError(t, err)
		}
	}
	return all
}

func read(t *testing.T, source []byte) page {
	t.Helper()
	p := page{anchors: map[string]bool{}}
	document := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	err := ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.FencedCodeBlock:
			p.blocks = append(p.blocks, block{string(n.Language(source)), string(n.Lines().Value(source))})
		case *ast.CodeBlock:
			p.blocks = append(p.blocks, block{"indented", string(n.Lines().Value(source))})
		case *ast.Link:
			p.links = append(p.links, string(n.Destination))
		case *ast.Image:
			p.links = append(p.links, string(n.Destination))
		case *ast.Heading:
			name := anchor(string(n.Lines().Value(source)))
			for i, first := 1, name; p.anchors[name]; i++ {
				name = fmt.Sprintf("%s-%d", first, i)
			}
			p.anchors[name] = true
		}
		return ast.WalkContinue, nil
	})
	require.NoError(t, err)
	return p
}

// anchor returns GitHub's name for a heading without links.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func TestLinksAndAnchorsResolve(t *testing.T) {
	all := pages(t)
	checked := 0
	for name, p := range all {
		for _, link := range p.links {
			u, err := url.Parse(link)
			require.NoError(t, err, "%s: %s", name, link)
			if u.Scheme != "" {
				continue
			}
			checked++
			target := name
			if u.Path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), u.Path))
				assert.False(t, strings.HasPrefix(target, ".."), "%s: %s leaves the repository", name, link)
				_, err := os.Stat(filepath.Join(root, target))
				assert.NoError(t, err, "%s: %s", name, link)
			}
			if u.Fragment != "" {
				assert.True(t, all[target].anchors[u.Fragment], "%s: %s: no such heading", name, link)
			}
		}
	}
	assert.Greater(t, checked, 50)
}

// TestMapNamesExistInTheirFiles checks that the file linked after a name in the table of CONTRIBUTING.md declares the
// name.
func TestMapNamesExistInTheirFiles(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	entry := regexp.MustCompile("`([\\w.]+)` in \\[[^]]+\\]\\(([^)]+)\\)")
	entries := entry.FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(entries), 10)
	for _, e := range entries {
		source, err := os.ReadFile(filepath.Join(root, e[2]))
		require.NoError(t, err)
		name := e[1][strings.LastIndex(e[1], ".")+1:]
		assert.Regexp(t, `(?m)^(func (\([^)]+\) )?|CREATE TABLE |\t?)`+name+`\b`, string(source), e[2])
	}
}

// TestGoCodeIsCompiled finds each Go block of the pages in a Go file of this repository. It ignores indentation and
// imports. go test and go vet compile these files. A block with imports must be a complete file without its package
// clause.
func TestGoCodeIsCompiled(t *testing.T) {
	var compiled strings.Builder
	for _, source := range matching(t, "*_test.go", "*/*.go", "paymentsvctest/*/*.go", "durable/*/*.go",
		"examples/*/*.go", "examples/*/*/*.go", "tools/docs/*_test.go", "tools/docs/*/*/*.go",
		"tools/docs/migrating/*.go", "tools/compat/*/*/*.go") {
		compiled.WriteString("\n" + unindented(string(source)) + "\n\x00")
	}
	checked := 0
	for name, p := range pages(t) {
		for _, b := range p.blocks {
			whole := strings.HasPrefix(b.text, "package main") // tools/compat/stranger runs it
			if b.lang == "go" && !whole {
				checked++
				code := unindented(singleImport.ReplaceAllString(b.text, "")) + "\n"
				if strings.HasPrefix(code, "import (") {
					code += "\x00"
				}
				if !strings.Contains(compiled.String(), "\n"+code) {
					t.Errorf("%s: not in a Go file:\n%s", name, b.text)
				}
			}
		}
	}
	assert.Greater(t, checked, 20)
}

var (
	singleImport = regexp.MustCompile(`(?m)^import [^(]*$`)
	lineBreak    = regexp.MustCompile(`\s*\n\s*`)
	shellComment = regexp.MustCompile(`(^|\s\s)\s*#.*`)
)

// unindented returns the lines of code without the white space around them and without empty lines.
func unindented(code string) string {
	return lineBreak.ReplaceAllString(strings.TrimSpace(code), "\n")
}

// TestPageOfOutcomesFitsTheMatrix finds each row of the table of faults in the matrix that package paymentsvctest
// tests.
func TestPageOfOutcomesFitsTheMatrix(t *testing.T) {
	matrix, err := os.ReadFile(filepath.Join(root, "paymentsvctest", "matrix_test.go"))
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "outcomes.md"))
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| ([^|]+ \\d/\\d) \\| ([^|]+ \\d/\\d) \\|$")
	rows := row.FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(rows), 10)
	columns := strings.Join(strings.Fields(string(matrix)), " ")
	require.Contains(t, columns, "which | faults | start | status |")
	for _, row := range rows {
		assert.Contains(t, columns, fmt.Sprintf("every | %s | %s | %s |", row[1], row[2], row[3]))
	}
}

// notRun lists the commands of the pages that .ci/commands does not run. The keys are the reasons.
var notRun = map[string][]string{
	"tools/compat/stranger runs the command": {
		"go get github.com/paymentsvc/paymentsvc",
		"go get github.com/paymentsvc/paymentsvc/durable/riverqueue",
	},
	"TestPageOfTestingCopiesTheRecipes does": {
		"dir=$(go list -m -f '{{.Dir}}' github.com/paymentsvc/paymentsvc)",
		`sed s/recipes_test/shop/ "$dir/paymentsvctest/recipes/recipes_test.go" >recipes_test.go`,
	},
	"the repository is already cloned": {"git clone https://github.com/paymentsvc/paymentsvc && cd paymentsvc"},
	"the command installs a release": {
		"go install github.com/paymentsvc/paymentsvc/cmd/paymentsvc@latest",
		"tar -xzf paymentsvc_1.0.0_linux_amd64.tar.gz paymentsvc",
		"./paymentsvc version",
	},
	"a step of .ci/run": {
		"docker build -f cmd/paymentsvc/Containerfile -t paymentsvc .",
		"go test ./...",
		".ci/postgres go -C durable test ./...",
		"go -C tools/contract test -count=1 -v ./browser",
	},
	"no image may have been built": {
		"docker run --rm -p 8080:8080 paymentsvc mock -addr :8080 -hosts mock -public http://mock:8080",
	},
	"the command runs .ci/commands":                        {".ci/run"},
	"tools/compat/stranger runs the command with the root": {"go get github.com/paymentsvc/paymentsvc/durable"},
	"the command makes a picture": {
		`go -C tools/contract test -count=1 -run TestPartnerPage ./browser ` +
			`-screenshot "$PWD/examples/partner/page.png"`,
		`go -C tools/contract test -count=1 -run TestMockPage ./browser -mock.screenshot "$PWD/docs/mock.png"`,
	},
	"the command makes a release":        {".ci/release v1.0.0"},
	"the command builds for six systems": {".ci/binaries release --snapshot --clean"},
	"the command checks a download": {
		"sha256sum --check --ignore-missing checksums.txt",
		"gh attestation verify paymentsvc_1.0.0_linux_amd64.tar.gz --repo paymentsvc/paymentsvc",
	},
}

// TestCommandsAreRun finds each command of the pages in a comment of .ci/commands, above its substitute.
func TestCommandsAreRun(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, ".ci", "commands"))
	require.NoError(t, err)
	known, skipped := map[string]bool{}, map[string]bool{}
	for _, command := range regexp.MustCompile(`(?m)^\s*# \$ (.*)$`).FindAllStringSubmatch(string(script), -1) {
		known[command[1]] = true
	}
	for _, commands := range notRun {
		for _, command := range commands {
			skipped[command] = true
		}
	}
	shown := map[string]bool{}
	for name, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "sh" && b.lang != "indented" {
				continue
			}
			for _, command := range commands(b.text) {
				shown[command] = true
				if !skipped[command] {
					assert.True(t, known[command], "%s: .ci/commands does not run %s", name, command)
				}
			}
		}
	}
	for command := range skipped {
		assert.True(t, shown[command], "no page shows the command: %s", command)
	}
	for command := range known {
		assert.True(t, shown[command], "no page shows the command: %s", command)
	}
}

// commands returns the lines of a script, without comments. Backslashes join lines.
func commands(script string) []string {
	var list []string
	for line := range strings.Lines(strings.ReplaceAll(script, "\\\n", " ")) {
		line = shellComment.ReplaceAllString(line, "")
		if command := strings.Join(strings.Fields(line), " "); command != "" {
			list = append(list, command)
		}
	}
	return list
}
