package decimal_test

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc/internal/decimal"
)

func TestParseWritesNumbersOut(t *testing.T) {
	nines := strings.Repeat("9", decimal.MaxDigits)
	zeros := strings.Repeat("0", decimal.MaxDigits)
	for _, tt := range []struct{ name, in, want string }{
		{"zero", "0", "0"},
		{"an integer", "1050", "1050"},
		{"a negative number", "-7", "-7"},
		{"the scale is kept", "10.50", "10.50"},
		{"a scale of zeros is kept", "10.00", "10.00"},
		{"a number below one", "0.01", "0.01"},
		{"a negative number below one", "-0.01", "-0.01"},
		{"ending in zeros", "1200", "1200"},

		{"zero has no sign", "-0", "0"},
		{"zero with decimals has no sign", "-0.00", "0.00"},
		{"zero with decimals keeps its scale", "0.00", "0.00"},
		{"zero with an exponent", "0e5", "0"},
		{"negative zero with an exponent", "-0E+5", "0"},
		{"an exponent takes scale off zero", "0.000e2", "0.0"},
		{"an exponent takes all scale off zero", "0.000e3", "0"},
		{"a negative exponent gives zero scale", "0e-2", "0.00"},

		{"an exponent", "1e2", "100"},
		{"a capital exponent", "1E2", "100"},
		{"a signed exponent", "1e+2", "100"},
		{"an exponent of zero", "1e0", "1"},
		{"an exponent of minus zero", "1.5e-0", "1.5"},
		{"an exponent with leading zeros", "1e0000000000000000000000002", "100"},
		{"an exponent keeps the zeros that are written", "1.50e1", "15.0"},
		{"an exponent uses the scale up", "1.50e2", "150"},
		{"an exponent goes beyond the scale", "1.50e4", "15000"},
		{"a negative exponent", "1e-2", "0.01"},
		{"a negative exponent of a negative number", "-12.5e-3", "-0.0125"},
		{"zeros before the first digit fall away", "0.0012e3", "1.2"},
		{"zeros before the first digit fall away in an integer", "0.0012e6", "1200"},

		{"64 digits", nines, nines},
		{"64 digits and a sign", "-" + nines, "-" + nines},
		{"64 digits and a point", "1." + nines[1:], "1." + nines[1:]},
		{"64 decimals below one", "0." + nines, "0." + nines},
		{"64 decimals below one and a sign", "-0." + nines, "-0." + nines},
		{"64 decimals, the last one not zero", "0." + zeros[1:] + "1", "0." + zeros[1:] + "1"},
		{"64 decimals of zero", "0." + zeros, "0." + zeros},
		{"64 digits by an exponent", "1e63", "1" + zeros[1:]},
		{"64 digits by an exponent behind zeros", "0.001e66", "1" + zeros[1:]},
		{"64 decimals by an exponent", "1e-64", "0." + zeros[1:] + "1"},
		{"64 decimals of zero by an exponent", "0e-64", "0." + zeros},

		{"a huge exponent of zero", "0e1000000", "0"},
		{"a huge exponent of zero with decimals", "-0.00e99999999999999999999", "0"},
		{"many zeros before the first digit, taken off by the exponent", "0." + strings.Repeat("0", 5000) + "12e5001", "1.2"},
		{"many decimals of zero, taken off by the exponent", "0." + strings.Repeat("0", 5000) + "e4998", "0.00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decimal.Parse(tt.in)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)

			got, err = decimal.Parse([]byte(tt.in))
			require.NoError(t, err)
			require.Equal(t, tt.want, got, "from bytes")

			got, err = decimal.Parse(tt.want)
			require.NoError(t, err, "what Parse gives is read again")
			require.Equal(t, tt.want, got)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	nines := strings.Repeat("9", decimal.MaxDigits)
	zeros := strings.Repeat("0", decimal.MaxDigits)
	for _, tt := range []struct {
		name, in string
		want     error
	}{
		{"no text", "", decimal.ErrSyntax},
		{"only a sign", "-", decimal.ErrSyntax},
		{"only a point", ".", decimal.ErrSyntax},
		{"only an exponent", "e5", decimal.ErrSyntax},
		{"a plus sign", "+5", decimal.ErrSyntax},
		{"two signs", "--1", decimal.ErrSyntax},
		{"a sign behind the number", "1-", decimal.ErrSyntax},
		{"no integer digit", ".5", decimal.ErrSyntax},
		{"no integer digit behind a sign", "-.5", decimal.ErrSyntax},
		{"no decimal behind the point", "5.", decimal.ErrSyntax},
		{"no decimal before the exponent", "5.e1", decimal.ErrSyntax},
		{"two points", "1.2.3", decimal.ErrSyntax},
		{"a leading zero", "007", decimal.ErrSyntax},
		{"a leading zero before a point", "00.5", decimal.ErrSyntax},
		{"a leading zero behind a sign", "-01", decimal.ErrSyntax},
		{"an exponent without digits", "1e", decimal.ErrSyntax},
		{"an exponent with only a sign", "1e+", decimal.ErrSyntax},
		{"an exponent with two signs", "1e--1", decimal.ErrSyntax},
		{"an exponent with a point", "1e1.5", decimal.ErrSyntax},
		{"two exponents", "1e1e1", decimal.ErrSyntax},
		{"a space before", " 1", decimal.ErrSyntax},
		{"a space behind", "1 ", decimal.ErrSyntax},
		{"a line break behind", "1\n", decimal.ErrSyntax},
		{"a zero byte behind", "1\x00", decimal.ErrSyntax},
		{"a comma", "1,5", decimal.ErrSyntax},
		{"an underscore", "1_000", decimal.ErrSyntax},
		{"hexadecimal", "0x1", decimal.ErrSyntax},
		{"a hexadecimal exponent", "1p4", decimal.ErrSyntax},
		{"a fraction", "1/2", decimal.ErrSyntax},
		{"not a number by name", "NaN", decimal.ErrSyntax},
		{"infinity by name", "Infinity", decimal.ErrSyntax},
		{"infinity by its short name", "-Inf", decimal.ErrSyntax},
		{"null", "null", decimal.ErrSyntax},
		{"quotes", `"1"`, decimal.ErrSyntax},
		{"a digit of another script", "١", decimal.ErrSyntax},
		{"a full-width digit", "１", decimal.ErrSyntax},
		{"a minus that is not ASCII", "−1", decimal.ErrSyntax},
		{"invalid UTF-8", "1\xff", decimal.ErrSyntax},
		{"bad syntax behind too many digits", nines + "9x", decimal.ErrSyntax},
		{"bad syntax behind a huge exponent", "1e1000000x", decimal.ErrSyntax},

		{"65 digits", nines + "9", decimal.ErrTooLong},
		{"65 digits and a sign", "-" + nines + "9", decimal.ErrTooLong},
		{"65 digits and a point", "1." + nines, decimal.ErrTooLong},
		{"65 decimals below one", "0." + nines + "9", decimal.ErrTooLong},
		{"65 decimals, the last one not zero", "0." + zeros + "1", decimal.ErrTooLong},
		{"65 decimals of zero", "0." + zeros + "0", decimal.ErrTooLong},
		{"65 digits by an exponent", "1e64", decimal.ErrTooLong},
		{"65 digits by an exponent of 64", nines + "e1", decimal.ErrTooLong},
		{"65 decimals by an exponent", "1e-65", decimal.ErrTooLong},
		{"65 decimals of zero by an exponent", "0e-65", decimal.ErrTooLong},
		{"65 digits that an exponent moves the point in", nines + "9e-10", decimal.ErrTooLong},
		{"a huge exponent", "1e1000000", decimal.ErrTooLong},
		{"a huge negative exponent", "1e-1000000", decimal.ErrTooLong},
		{"a huge negative exponent of zero", "0e-1000000", decimal.ErrTooLong},
		{"an exponent beyond 64 bits", "1e99999999999999999999", decimal.ErrTooLong},
		{"a negative exponent beyond 64 bits", "-1e-99999999999999999999", decimal.ErrTooLong},
		{"an exponent of 2 to the 64th plus 1, not taken for 1", "1e18446744073709551617", decimal.ErrTooLong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decimal.Parse(tt.in)
			require.Equal(t, tt.want, err, "the bare sentinel, which cannot repeat the input")
			require.Empty(t, got)

			got, err = decimal.Parse([]byte(tt.in))
			require.Equal(t, tt.want, err, "from bytes")
			require.Empty(t, got)
		})
	}
}

// Not one allocation: a single one could already be as large as the exponent says.
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

func TestParseKeepsACopyOfBytes(t *testing.T) {
	for _, in := range []string{"10.50", "1.5e1", "-0.0"} {
		source := []byte(in)
		got, err := decimal.Parse(source)
		require.NoError(t, err)
		want := strings.Clone(got)
		for i := range source {
			source[i] = 'x'
		}
		require.Equal(t, want, got)
	}
}

func TestParseAgreesWithBigInt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyNumber().Draw(t, "in")
		want, digits := writtenOut(in)
		got, err := decimal.Parse(in)
		if digits > decimal.MaxDigits {
			require.Equal(t, decimal.ErrTooLong, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Zero(t, ratOf(t, in).Cmp(ratOf(t, got)), "%s has another value than %s", got, in)
	})
}

func TestMinor(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		scale    uint8
		want     int64
		err      error
	}{
		{"the scale of the text", "10.50", 2, 1050, nil},
		{"a larger scale", "10.50", 3, 10500, nil},
		{"a smaller scale that loses only a zero", "10.50", 1, 105, nil},
		{"a smaller scale that loses a digit", "10.50", 0, 0, decimal.ErrInexact},
		{"a lost digit of a negative number", "-0.001", 2, 0, decimal.ErrInexact},
		{"only zeros are lost", "7.000000", 0, 7, nil},
		{"an integer", "7", 2, 700, nil},
		{"a negative number", "-0.07", 2, -7, nil},
		{"a negative number below ten units", "-0.70", 2, -70, nil},
		{"zero", "0", 0, 0, nil},
		{"zero at the largest scale", "0", 255, 0, nil},
		{"zero with decimals at no scale", "0.00", 0, 0, nil},

		{"the largest int64", "9223372036854775807", 0, math.MaxInt64, nil},
		{"the largest int64 with a scale", "92233720368547758.07", 2, math.MaxInt64, nil},
		{"the largest int64 all decimals", "0.9223372036854775807", 19, math.MaxInt64, nil},
		{"one above the largest int64", "9223372036854775808", 0, 0, decimal.ErrOverflow},
		{"one above the largest int64 with a scale", "92233720368547758.08", 2, 0, decimal.ErrOverflow},
		{"the smallest int64", "-9223372036854775808", 0, math.MinInt64, nil},
		{"the smallest int64 with a scale", "-92233720368547758.08", 2, math.MinInt64, nil},
		{"one below the smallest int64", "-9223372036854775809", 0, 0, decimal.ErrOverflow},
		{"one below the smallest int64 with a scale", "-92233720368547758.09", 2, 0, decimal.ErrOverflow},
		{"the scale makes it too large", "1", 19, 0, decimal.ErrOverflow},
		{"the scale makes it just small enough", "9", 18, 9e18, nil},
		{"the largest scale", "1", 255, 0, decimal.ErrOverflow},
		{"64 digits", strings.Repeat("9", 64), 0, 0, decimal.ErrOverflow},
		{"2 to the 64th is not 0", "18446744073709551616", 0, 0, decimal.ErrOverflow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decimal.Minor(tt.in, tt.scale)
			require.Equal(t, tt.err, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestMinorAgreesWithBigRat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := number().Draw(t, "text")
		scale := rapid.OneOf(rapid.Uint8Range(0, 20), rapid.Uint8()).Draw(t, "scale")
		units := ratOf(t, text)
		units.Mul(units, new(big.Rat).SetInt(tenTo(int(scale))))

		got, err := decimal.Minor(text, scale)
		switch {
		case !units.IsInt():
			require.Equal(t, decimal.ErrInexact, err)
		case !units.Num().IsInt64():
			require.Equal(t, decimal.ErrOverflow, err)
		default:
			require.NoError(t, err)
			require.Equal(t, units.Num().Int64(), got)
		}
	})
}

func TestFromMinor(t *testing.T) {
	for _, tt := range []struct {
		name  string
		units int64
		scale uint8
		want  string
	}{
		{"a scale", 1050, 2, "10.50"},
		{"no scale", 1050, 0, "1050"},
		{"fewer digits than the scale", 5, 2, "0.05"},
		{"as many digits as the scale", 50, 2, "0.50"},
		{"a negative number", -1050, 2, "-10.50"},
		{"a negative number below one", -5, 2, "-0.05"},
		{"zero", 0, 0, "0"},
		{"zero with a scale", 0, 2, "0.00"},
		{"the largest int64", math.MaxInt64, 2, "92233720368547758.07"},
		{"the smallest int64", math.MinInt64, 2, "-92233720368547758.08"},
		{"the smallest int64 at its own length", math.MinInt64, 19, "-0.9223372036854775808"},
		{"the largest scale", 7, 255, "0." + strings.Repeat("0", 254) + "7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, decimal.FromMinor(tt.units, tt.scale))
		})
	}
}

func TestMinorUndoesFromMinor(t *testing.T) {
	inverse := func(t require.TestingT, units int64, scale uint8) {
		text := decimal.FromMinor(units, scale)
		got, err := decimal.Minor(text, scale)
		require.NoError(t, err, text)
		require.Equal(t, units, got, text)

		want := new(big.Rat).SetFrac(big.NewInt(units), tenTo(int(scale)))
		require.Zero(t, want.Cmp(ratOf(t, text)), "%s is not %d at scale %d", text, units, scale)

		// The texts that FromMinor writes are those that Parse keeps, as far as Parse reads them.
		parsed, err := decimal.Parse(text)
		if scale > decimal.MaxDigits {
			require.Equal(t, decimal.ErrTooLong, err, text)
			return
		}
		require.NoError(t, err, text)
		require.Equal(t, text, parsed)
	}
	for scale := range 256 {
		for _, units := range []int64{0, 1, -1, 10, -10, 1050, math.MaxInt64, math.MinInt64} {
			inverse(t, units, uint8(scale))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		inverse(t, rapid.Int64().Draw(t, "units"), rapid.Uint8().Draw(t, "scale"))
	})
}

func TestSignAndCmp(t *testing.T) {
	// In ascending order; the numbers of one line are equal.
	ascending := [][]string{
		{"-100", "-100.00"},
		{"-99.99"},
		{"-10"},
		{"-9"},
		{"-1.1"},
		{"-1.05", "-1.050"},
		{"-1", "-1.0"},
		{"-0.1"},
		{"-0.01"},
		{"0", "0.0", "0.00"},
		{"0.01"},
		{"0.09"},
		{"0.1", "0.10"},
		{"0.11"},
		{"1", "1.00"},
		{"1.05"},
		{"1.1"},
		{"9"},
		{"10", "10.0"},
		{"99.99"},
		{"100"},
		{strings.Repeat("9", 64)},
	}
	for i, equalA := range ascending {
		for j, equalB := range ascending {
			for _, a := range equalA {
				for _, b := range equalB {
					want := 0
					switch {
					case i < j:
						want = -1
					case i > j:
						want = 1
					}
					require.Equal(t, want, decimal.Cmp(a, b), "%s to %s", a, b)
				}
			}
		}
	}
}

func TestSignAndCmpAgreeWithBigRat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := number().Draw(t, "a")
		b := rapid.OneOf(number(), closeTo(a)).Draw(t, "b")
		ra, rb := ratOf(t, a), ratOf(t, b)
		require.Equal(t, ra.Sign(), decimal.Sign(a))
		require.Equal(t, ra.Cmp(rb), decimal.Cmp(a, b))
		require.Equal(t, rb.Cmp(ra), decimal.Cmp(b, a))
	})
}

// anyNumber gives numbers in JSON's grammar, up to and somewhat beyond what Parse reads.
func anyNumber() *rapid.Generator[string] {
	return rapid.StringMatching(`-?(0|[1-9][0-9]{0,30}|[1-9][0-9]{60,66})(\.(0{0,40}[0-9]{1,30}|0{1,66}))?([eE][+-]?[0-9]{1,2})?`)
}

// number gives numbers as Parse writes them.
func number() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		text, err := decimal.Parse(rapid.StringMatching(`-?(0|[1-9][0-9]{0,21})(\.0{0,10}[0-9]{1,20})?`).Draw(t, "number"))
		require.NoError(t, err)
		return text
	})
}

// closeTo gives numbers that differ from one in no more than a digit, the sign or the scale.
func closeTo(text string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		changed := []byte(text)
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "change") {
		case 0:
			if strings.Contains(text, ".") {
				changed = append(changed, "000"[:at%4]...)
			}
		case 1:
			if '1' <= changed[at] && changed[at] < '9' {
				changed[at]++
			}
		default:
			changed = append([]byte("-"), changed...)
		}
		parsed, err := decimal.Parse(strings.TrimPrefix(string(changed), "--"))
		require.NoError(t, err)
		return parsed
	})
}

// writtenOut is what Parse should give, worked out with big integers, and the digits that count.
func writtenOut(number string) (text string, digits int) {
	mantissa, exponent, found := strings.Cut(strings.ToLower(number), "e")
	power := 0
	if found {
		power, _ = strconv.Atoi(exponent)
	}
	integer, decimals, _ := strings.Cut(mantissa, ".")
	unscaled, _ := new(big.Int).SetString(integer+decimals, 10)
	scale := len(decimals) - power
	if scale < 0 {
		unscaled.Mul(unscaled, tenTo(-scale))
		scale = 0
	}
	magnitude := new(big.Int).Abs(unscaled)
	digits = max(len(magnitude.String()), scale)
	text = fmt.Sprintf("%0*d", scale+1, magnitude)
	if scale > 0 {
		text = text[:len(text)-scale] + "." + text[len(text)-scale:]
	}
	if unscaled.Sign() < 0 {
		text = "-" + text
	}
	return text, digits
}

func tenTo(power int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(power)), nil)
}

func ratOf(t require.TestingT, number string) *big.Rat {
	value, ok := new(big.Rat).SetString(number)
	require.True(t, ok, "%s is no number to math/big", number)
	return value
}

func TestRound(t *testing.T) {
	nines := strings.Repeat("9", decimal.MaxDigits)
	for _, tt := range []struct {
		name, in string
		scale    uint8
		want     string
	}{
		{"what a float made of 29.95", "29.949999999999999", 2, "29.95"},
		{"what a float made of 0.3", "0.30000000000000004", 2, "0.30"},
		{"a half goes up", "0.005", 2, "0.01"},
		{"a half of a negative number goes away from zero", "-0.005", 2, "-0.01"},
		{"less than a half", "0.00499999", 2, "0.00"},
		{"a negative number that becomes zero has no sign", "-0.004", 2, "0.00"},
		{"only the next digit counts", "1.4499", 1, "1.4"},
		{"a carry", "1.995", 2, "2.00"},
		{"a carry into a new digit", "99.95", 1, "100.0"},
		{"to an integer", "9.5", 0, "10"},
		{"a half below one, to an integer", "0.5", 0, "1"},
		{"zeros are added", "7", 2, "7.00"},
		{"the scale it has", "10.50", 2, "10.50"},
		{"zero", "0", 2, "0.00"},
		{"64 digits", "0." + nines, 63, "1." + strings.Repeat("0", 63)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decimal.Round(tt.in, tt.scale)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	for _, tt := range []struct {
		in    string
		scale uint8
	}{{"1", 64}, {"1", 255}, {"0", 65}, {nines, 1}, {"0." + nines, 65}} {
		got, err := decimal.Round(tt.in, tt.scale)
		require.Equal(t, decimal.ErrTooLong, err, "%.10s at %d", tt.in, tt.scale)
		require.Empty(t, got)
	}
}

// math/big rounds halves away from zero as well.
func TestRoundAgreesWithMathBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,20})?`).Draw(t, "number")
		text, err := decimal.Parse(text)
		require.NoError(t, err)
		scale := rapid.Uint8Range(0, 22).Draw(t, "scale")
		exact, ok := new(big.Rat).SetString(text)
		require.True(t, ok)
		want := exact.FloatString(int(scale))
		if decimal.Sign(strings.TrimPrefix(want, "-")) == 0 {
			want = strings.TrimPrefix(want, "-")
		}
		got, err := decimal.Round(text, scale)
		require.NoError(t, err)
		require.Equal(t, want, got)
		again, err := decimal.Round(got, scale)
		require.NoError(t, err)
		require.Equal(t, got, again, "what is rounded stays")
	})
}
