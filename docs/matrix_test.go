package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tableRow is a row of a table whose first cell is code.
var tableRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| ([^|]+) \\| ([^|]+) \\|$")

// TestTheOutcomesAreThoseOfTheMatrix compares the table of outcomes.md with the matrix that package paymentsvctest tests
// the client against.
func TestTheOutcomesAreThoseOfTheMatrix(t *testing.T) {
	matrix := matrixRows(t)
	text, err := os.ReadFile("outcomes.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## What goes wrong, and what it comes to\n")
	require.True(t, found)
	section, _, found = strings.Cut(section, "\n## ")
	require.True(t, found)
	rows := tableRow.FindAllStringSubmatch(section, -1)
	require.Greater(t, len(rows), 10)
	assert.Len(t, rows, strings.Count(section, "\n| `"), "rows that this test does not understand")
	for _, row := range rows {
		want, known := matrix[row[1]]
		assert.True(t, known, "not in the matrix: %s", row[1])
		assert.Equal(t, want, [2]string{row[2], row[3]}, row[1])
	}
}

// matrixRows gives the cells of init_payment and status_payment by the fault that strikes every request.
func matrixRows(t *testing.T) map[string][2]string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, "paymentsvctest", "matrix_test.go"))
	require.NoError(t, err)
	_, text, found := strings.Cut(string(source), "const matrix = `\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "`")
	rows := map[string][2]string{}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case i == 0:
			require.Equal(t, []string{"init_payment", "status_payment"}, cells[2:4])
		case cells[0] == "every":
			rows[cells[1]] = [2]string{cells[2], cells[3]}
		}
	}
	return rows
}
