package decimal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/internal/decimal"
)

func TestParseWritesNumbersOut(t *testing.T) {
	nines := strings.Repeat("9", decimal.MaxDigits)
	zeros := strings.Repeat("0", decimal.MaxDigits)
	for _, tt := range []struct{ in, want string }{
		{"0", "0"}, {"1050", "1050"}, {"-7", "-7"}, {"10.50", "10.50"}, {"10.00", "10.00"}, {"0.01", "0.01"},
		{"-0.01", "-0.01"}, {"1200", "1200"},

		{"-0", "0"}, {"-0.00", "0.00"}, {"0.00", "0.00"}, {"0e5", "0"}, {"-0E+5", "0"}, {"0.000e2", "0.0"},
		{"0.000e3", "0"}, {"0e-2", "0.00"},

		{"1e2", "100"}, {"1E2", "100"}, {"1e+2", "100"}, {"1e0", "1"}, {"1.5e-0", "1.5"},
		{"1e0000000000000000000000002", "100"}, {"1.50e1", "15.0"}, {"1.50e2", "150"}, {"1.50e4", "15000"},
		{"1e-2", "0.01"}, {"-12.5e-3", "-0.0125"}, {"0.0012e3", "1.2"}, {"0.0012e6", "1200"},

		{nines, nines}, {"-" + nines, "-" + nines}, {"1." + nines[1:], "1." + nines[1:]},
		{"0." + nines, "0." + nines}, {"-0." + nines, "-0." + nines},
		{"0." + zeros[1:] + "1", "0." + zeros[1:] + "1"}, {"0." + zeros, "0." + zeros},
		{"1e63", "1" + zeros[1:]}, {"0.001e66", "1" + zeros[1:]}, {"1e-64", "0." + zeros[1:] + "1"},
		{"0e-64", "0." + zeros},

		{"0e1000000", "0"}, {"-0.00e99999999999999999999", "0"},
		{"0." + strings.Repeat("0", 5000) + "12e5001", "1.2"},
		{"0." + strings.Repeat("0", 5000) + "e4998", "0.00"},
	} {
		for _, in := range []string{tt.in, tt.want} { // Parse accepts its own result
			got, err := decimal.Parse(in)
			require.NoError(t, err, in)
			require.Equal(t, tt.want, got, in)
			got, err = decimal.Parse([]byte(in))
			require.NoError(t, err, in)
			require.Equal(t, tt.want, got, "%s from bytes", in)
		}
	}
}

func TestParseRejects(t *testing.T) {
	nines := strings.Repeat("9", decimal.MaxDigits)
	zeros := strings.Repeat("0", decimal.MaxDigits)
	for want, list := range map[error][]string{
		decimal.ErrSyntax: {
			"", "-", ".", "e5", "+5", "--1", "1-", ".5", "-.5", "5.", "5.e1", "1.2.3", "007", "00.5", "-01",
			"1e", "1e+", "1e--1", "1e1.5", "1e1e1", " 1", "1 ", "1\n", "1\x00", "1,5", "1_000", "0x1", "1p4",
			"1/2", "NaN", "Infinity", "-Inf", "null", `"1"`, "١", "１", "−1", "1\xff", nines + "9x",
			"1e1000000x",
		},
		decimal.ErrTooLong: {
			nines + "9", "-" + nines + "9", "1." + nines, "0." + nines + "9", "0." + zeros + "1",
			"0." + zeros + "0", "1e64", nines + "e1", "1e-65", "0e-65", nines + "9e-10", "1e1000000",
			"1e-1000000", "0e-1000000", "1e99999999999999999999", "-1e-99999999999999999999",
			"1e18446744073709551617",
		},
	} {
		for _, in := range list {
			got, err := decimal.Parse(in)
			require.Equal(t, want, err, "%q: the bare sentinel, which cannot repeat the input", in)
			require.Empty(t, got)
			got, err = decimal.Parse([]byte(in))
			require.Equal(t, want, err, "%q from bytes", in)
			require.Empty(t, got)
		}
	}
}

// An allocation could be as large as the exponent.
func TestParseSpendsNothingOnHugeNumbers(t *testing.T) {
	for _, in := range []string{
		"1e1000000", "1e-1000000", "0e1000000", "0e-1000000",
		"-1.5e99999999999999999999", "1.5e-99999999999999999999", "0.00e99999999999999999999",
		"1e" + strings.Repeat("9", 10_000),
		strings.Repeat("9", 10_000) + ".5",
	} {
		allocations := testing.AllocsPerRun(20, func() { _, _ = decimal.Parse(in) })
		require.Zero(t, allocations, "%.40s", in)
	}
}

// The bits are those of the BSON corpus of MongoDB's specification.
func TestFrom128ReadsEachFormOfADecimal128(t *testing.T) {
	for _, tt := range []struct {
		name      string
		high, low uint64
		want      string
		err       error
	}{
		{"an integer", 0x3040000000000000, 0x0000000000000001, "1", nil},
		{"a negative integer", 0xB040000000000000, 0x0000000000000001, "-1", nil},
		{"zero", 0x3040000000000000, 0, "0", nil},
		{"minus zero", 0xB040000000000000, 0, "0", nil},
		{"decimals", 0x303E000000000000, 0x0000000000000001, "0.1", nil},
		{"a scale, which is kept", 0x303C000000000000, 0x000000000000041A, "10.50", nil},
		{"a positive exponent", 0x3042000000000000, 0x000000000000000F, "150", nil},
		{"34 digits", 0x3041ED09BEAD87C0, 0x378D8E63FFFFFFFF, strings.Repeat("9", 34), nil},
		{"a coefficient that is out of range", 0x6C10000000000000, 1, "0", nil},
		{"not a number", 0x7C00000000000000, 0, "", decimal.ErrSyntax},
		{"infinity", 0x7800000000000000, 0, "", decimal.ErrSyntax},
		{"minus infinity", 0xF800000000000000, 0, "", decimal.ErrSyntax},
		{"the largest", 0x5FFFED09BEAD87C0, 0x378D8E63FFFFFFFF, "", decimal.ErrTooLong},
		{"the smallest", 0x0000000000000000, 1, "", decimal.ErrTooLong},
	} {
		got, err := decimal.From128(tt.high, tt.low)
		require.Equal(t, tt.err, err, tt.name)
		require.Equal(t, tt.want, got, tt.name)
	}
}
