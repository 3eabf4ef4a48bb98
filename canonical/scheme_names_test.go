package canonical

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The doc of ParseScheme must list every name of the parser, and the tests must use every name.
func TestSchemeNamesAreDocumentedAndTested(t *testing.T) {
	page, err := os.ReadFile("../docs/signing.md")
	require.NoError(t, err)
	_, examples, found := strings.Cut(string(page), "```scheme\n")
	require.True(t, found)
	examples, _, _ = strings.Cut(examples, "```")
	for example := range strings.Lines(examples) {
		_, _, err := ParseSchemeWith(example, "a2V5")
		require.NoError(t, err, example)
	}
	source, err := os.ReadFile("scheme.go")
	require.NoError(t, err)
	_, doc, found := strings.Cut(string(source), "\n// The names are:\n")
	require.True(t, found)
	doc, _, _ = strings.Cut(doc, "\nfunc ParseScheme(")
	tests, err := os.ReadFile("scheme_test.go")
	require.NoError(t, err)
	notOfAName := func(r rune) bool { return r >= 0x80 || !isNameByte(byte(r)) }
	check := func(name string) {
		require.Contains(t, strings.FieldsFunc(doc, notOfAName), name, "the doc of ParseScheme")
		require.Contains(t, strings.FieldsFunc(string(tests), notOfAName), name, "scheme_test.go")
	}
	for _, w := range words {
		check(w.text)
	}
	for _, o := range fieldOptions {
		check(o.text)
	}
	for _, o := range jsonOptions {
		check(o.text)
	}
	for _, f := range keyForms {
		check(f.text)
	}
}

// Package discover searches each enumeration up to the first value without a name.
func TestEachValueOfAnEnumerationHasAName(t *testing.T) {
	for value := NumbersShort; value <= NumbersQuoted; value++ {
		require.NotEmpty(t, value.String())
	}
	for value := EscapingForm; value <= EscapingJava; value++ {
		require.NotEmpty(t, value.String())
	}
	for value := ConstantsPHP; value <= ConstantsNoNull; value++ {
		require.NotEmpty(t, value.String())
	}
	require.Empty(t, NumbersAsSent.String())
	require.Empty(t, (EscapingJava + 1).String())
}
