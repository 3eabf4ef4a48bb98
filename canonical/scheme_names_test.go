package canonical

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page must name everything that the parser knows, and the cases of TestSchemeParts must use it.
func TestSchemeNamesAreDocumentedAndTested(t *testing.T) {
	page, err := os.ReadFile("../docs/signing.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "## The text form")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	_, examples, _ := strings.Cut(section, "```scheme\n")
	examples, _, _ = strings.Cut(examples, "```")
	for example := range strings.Lines(examples) {
		_, _, err := ParseSchemeWith(example, "a2V5")
		require.NoError(t, err, example)
	}
	tests, err := os.ReadFile("scheme_test.go")
	require.NoError(t, err)
	var names []string
	for _, w := range words() {
		names = append(names, w.text)
	}
	for _, o := range fieldOptions() {
		names = append(names, o.text)
	}
	for _, o := range jsonOptions() {
		names = append(names, o.text)
	}
	for _, f := range keyForms() {
		names = append(names, f.text)
	}
	notOfAName := func(r rune) bool { return r >= 0x80 || !isNameByte(byte(r)) }
	for _, name := range names {
		require.Contains(t, strings.FieldsFunc(section, notOfAName), name, "docs/signing.md")
		require.Contains(t, strings.FieldsFunc(string(tests), notOfAName), name, "scheme_test.go")
	}
}
