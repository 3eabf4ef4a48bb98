package paymentsvc_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// threat is a line of the table in SECURITY.md.
type threat struct {
	who, can string
	shownBy  map[string][]string // names of tests by file
}

var (
	shownIn   = regexp.MustCompile("`([a-z0-9_/]+_test\\.go)`: ((?:`Test\\w+`(?:, )?)+)")
	shownTest = regexp.MustCompile("`(Test\\w+)`")
)

// threats reads the table.
func threats(t *testing.T, document string) []threat {
	t.Helper()
	_, section, found := strings.Cut(document, "\n## Threats\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var all []threat
	who := ""
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || cells[0] == " Who" || strings.HasPrefix(cells[0], " ---") {
			continue
		}
		require.Len(t, cells, 4, line)
		if name := strings.TrimSpace(cells[0]); name != "" {
			who = name
		}
		line := threat{who, cells[1], map[string][]string{}}
		for _, file := range shownIn.FindAllStringSubmatch(cells[3], -1) {
			for _, test := range shownTest.FindAllStringSubmatch(file[2], -1) {
				line.shownBy[file[1]] = append(line.shownBy[file[1]], test[1])
			}
		}
		named := strings.Count(cells[3], "`Test")
		for _, tests := range line.shownBy {
			named -= len(tests)
		}
		require.Zero(t, named, "every test stands behind its file: %s", line.can)
		all = append(all, line)
	}
	return all
}

// testsOf gives the names of the tests in a file: functions that go test runs.
func testsOf(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Errorf("SECURITY.md names a file that cannot be read: %v", err)
		return nil
	}
	var names []string
	for _, declaration := range parsed.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || len(f.Type.Params.List) != 1 {
			continue
		}
		if pointer, ok := f.Type.Params.List[0].Type.(*ast.StarExpr); ok {
			if of, ok := pointer.X.(*ast.SelectorExpr); ok && of.Sel.Name == "T" {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

func TestTheThreatModelNamesTestsThatExist(t *testing.T) {
	document, err := os.ReadFile("SECURITY.md")
	require.NoError(t, err)
	lines := threats(t, string(document))
	require.Greater(t, len(lines), 20, "the table was found")

	named := map[string]map[string]bool{}
	for _, line := range lines {
		assert.NotEmpty(t, line.shownBy, "%s, who can %s: no test shows what holds", line.who, line.can)
		for file, tests := range line.shownBy {
			if named[file] == nil {
				named[file] = map[string]bool{}
			}
			existing := testsOf(t, file)
			for _, test := range tests {
				assert.Contains(t, existing, test, "%s, who can %s: shown by a test that is not in %s", line.who, line.can, file)
				named[file][test] = true
			}
		}
	}

	// What these files test is a claim about security, so it has a line.
	files, err := filepath.Glob("security_*_test.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		for _, test := range testsOf(t, file) {
			assert.True(t, named[file][test], "no line of SECURITY.md is about %s in %s, only %q",
				test, file, slices.Sorted(maps.Keys(named[file])))
		}
	}
}
