package nearest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOfFindsMistypedNames(t *testing.T) {
	names := []string{"body", "path", "timestamp", "HEX"}
	for word, want := range map[string]string{
		"bdy": "body", "boyd": "body", "bodyy": "body", "Timestamp": "timestamp", "pahtt": "path", "hex": "HEX",
		"pat": "path", "p": "", "": "", "query": "", strings.Repeat("body", 20): "",
	} {
		require.Equal(t, want, Of(word, names), word)
	}
}
