package decimal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/internal/decimal"
)

// The bits are those of the BSON corpus of MongoDB's specification.
func TestFrom128(t *testing.T) {
	for _, tt := range []struct {
		name      string
		high, low uint64
		want      string
	}{
		{"an integer", 0x3040000000000000, 0x0000000000000001, "1"},
		{"a negative integer", 0xB040000000000000, 0x0000000000000001, "-1"},
		{"zero", 0x3040000000000000, 0, "0"},
		{"minus zero", 0xB040000000000000, 0, "0"},
		{"decimals", 0x303E000000000000, 0x0000000000000001, "0.1"},
		{"a scale, which is kept", 0x303C000000000000, 0x000000000000041A, "10.50"},
		{"a positive exponent", 0x3042000000000000, 0x000000000000000F, "150"},
		{"34 digits", 0x3041ED09BEAD87C0, 0x378D8E63FFFFFFFF, strings.Repeat("9", 34)},
		{"a coefficient that is out of range", 0x6C10000000000000, 1, "0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decimal.From128(tt.high, tt.low)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	for _, tt := range []struct {
		name      string
		high, low uint64
		want      error
	}{
		{"not a number", 0x7C00000000000000, 0, decimal.ErrSyntax},
		{"infinity", 0x7800000000000000, 0, decimal.ErrSyntax},
		{"minus infinity", 0xF800000000000000, 0, decimal.ErrSyntax},
		{"the largest", 0x5FFFED09BEAD87C0, 0x378D8E63FFFFFFFF, decimal.ErrTooLong},
		{"the smallest", 0x0000000000000000, 1, decimal.ErrTooLong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decimal.From128(tt.high, tt.low)
			require.Equal(t, tt.want, err)
			require.Empty(t, got)
		})
	}
}
