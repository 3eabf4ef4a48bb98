package canonical_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// The sender of a notification chooses its body, and the canonical string is computed before the signature check.
// Encoding each level of a nested body again would take seconds for 60 KB.
func TestNestedBodyCostsNoMoreThanFlatBody(t *testing.T) {
	flat := canonical.Fields(canonical.FieldList{Nested: canonical.NestedFlat, Names: true, Path: "."})
	for name, part := range map[string]paymentsvc.CanonicalFunc{
		"BodySorted": canonical.BodySorted, "BodyJSON": canonical.BodyJSON(canonical.JSONForm{}), "Fields": flat,
	} {
		for shape, nested := range map[string]func(depth int) string{
			"objects": func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) },
			"arrays": func(n int) string {
				return `{"a":` + strings.Repeat("[", n-1) + "1" + strings.Repeat("]", n-1) + "}"
			},
		} {
			_, err := part(nil, &paymentsvc.Message{Body: []byte(nested(64))})
			require.NoError(t, err, "%s of 64 %s", name, shape)
			for _, depth := range []int{66, 1000, 9999} {
				_, err := part(nil, &paymentsvc.Message{Body: []byte(nested(depth))})
				require.Error(t, err, "%s of %d %s", name, depth, shape)
			}
		}
	}
}

// A field of a nested object is written with the names of all levels.
func TestFieldsLimitsNamesOfNestedFields(t *testing.T) {
	var leaves strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&leaves, `"%x":1,`, i)
	}
	long := strings.Repeat("n", 1000)
	body := strings.Repeat(`{"`+long+`":`, 30) + "{" + leaves.String() + `"z":1}` + strings.Repeat("}", 30)
	for _, escaping := range []canonical.Escaping{canonical.EscapingNone, canonical.EscapingForm} {
		part := canonical.Fields(canonical.FieldList{
			Nested: canonical.NestedFlat, Names: true, Path: ".", Escaping: escaping,
		})
		text, err := part(nil, &paymentsvc.Message{Body: []byte(body)})
		require.Error(t, err, "%d bytes of %d", len(text), len(body))
		assert.NotContains(t, err.Error(), "nnn")
	}
}
