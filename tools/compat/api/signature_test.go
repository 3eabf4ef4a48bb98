package api_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSignaturesAreComparedInConstantTimeOnly reads the SDK's source, since no test can measure it: any other
// comparison takes longer the more of a forged signature is right. The patterns have the names that a signature has in
// the SDK.
func TestSignaturesAreComparedInConstantTimeOnly(t *testing.T) {
	sources, err := filepath.Glob("../../../*.go")
	require.NoError(t, err)
	const name = `\b(signatures?|given|sum)\b(\[[^]]*\]|\))?`
	constant := regexp.MustCompile(`\bsubtle\.ConstantTimeCompare\([^\n]*` + name)
	leaks := regexp.MustCompile(name + `\s*([=!]=|<=?|>=?)\s*[^"\s<>=]|([=!]=|[<>]=?)\s*(string\()?` + name +
		`|\b(bytes|strings|slices|cmp|reflect)\.\w+\([^\n]*` + name + `|(switch|range) ` + name)
	comparisons := 0
	for _, file := range sources {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		code := regexp.MustCompile(`(?m)//.*$`).ReplaceAllString(string(source), "")
		comparisons += len(constant.FindAllString(code, -1))
		assert.Empty(t, leaks.FindAllString(code, -1), "%s: a signature is compared in its own time", file)
	}
	assert.Equal(t, 1, comparisons, "comparisons in constant time")
}
