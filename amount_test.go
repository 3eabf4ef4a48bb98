package paymentsvc_test

import (
	"cmp"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/internal/decimal"
)

// Package internal/decimal tests the grammar of numbers. These tests cover the ways to read an Amount.
func TestAmountReadsNumbersFromEverySource(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"a scale, which is kept", "10.50", "10.50"},
		{"minus zero, which has no sign", "-0.00", "0.00"},
		{"an exponent, which is written out", "1.50e1", "15.0"},
		{"a number of 19 digits", "1234567890123456789", "1234567890123456789"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := paymentsvc.MustParseAmount(tt.want)
			require.Equal(t, tt.want, want.String())
			for name, read := range amountReaders(tt.in) {
				got := paymentsvc.MustParseAmount("99") // overwritten by read
				require.NoError(t, read(&got), name)
				require.Equal(t, want, got, name)
				require.True(t, got.IsSet())
			}
		})
	}
}

func TestAmountRejectsInvalidNumbersFromEverySource(t *testing.T) {
	const syntax, tooLong = "paymentsvc: amount: not a decimal number", "paymentsvc: amount: more than 64 digits"
	for _, tt := range []struct{ name, in, want string }{
		{"groups of digits", "4111 1111 1111 1111", syntax},
		{"quotes", `'` + pan + `'`, syntax},
		{"text", "card " + pan, syntax},
		{"65 digits", strings.Repeat(pan, 4) + "1", tooLong},
		{"a huge exponent", pan + "e1000000", tooLong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := paymentsvc.MustParseAmount("99")
			for name, read := range amountReaders(tt.in) {
				got := before
				require.EqualError(t, read(&got), tt.want, "%s: the whole text, so it cannot contain input", name)
				require.Equal(t, before, got, "%s: an error leaves the amount as it was", name)
			}
		})
	}
}

// amountReaders returns every way to read an Amount from text, except encoding/json, which checks the grammar itself.
func amountReaders(text string) map[string]func(*paymentsvc.Amount) error {
	quoted, escaped := []byte(`"`+text+`"`), []byte(`"`)
	for _, r := range text {
		escaped = fmt.Appendf(escaped, `\u%04x`, r)
	}
	escaped = append(escaped, '"')
	return map[string]func(*paymentsvc.Amount) error{
		"ParseAmount": func(a *paymentsvc.Amount) error {
			parsed, err := paymentsvc.ParseAmount(text)
			if err == nil {
				*a = parsed
			}
			return err
		},
		"UnmarshalJSON of a number":         func(a *paymentsvc.Amount) error { return a.UnmarshalJSON([]byte(text)) },
		"UnmarshalJSON of a quoted number":  func(a *paymentsvc.Amount) error { return a.UnmarshalJSON(quoted) },
		"UnmarshalJSON of an escaped text":  func(a *paymentsvc.Amount) error { return a.UnmarshalJSON(escaped) },
		"json.Unmarshal of a quoted number": func(a *paymentsvc.Amount) error { return json.Unmarshal(quoted, a) },
		"UnmarshalText":                     func(a *paymentsvc.Amount) error { return a.UnmarshalText([]byte(text)) },
		"Scan of a string":                  func(a *paymentsvc.Amount) error { return a.Scan(text) },
		"Scan of bytes":                     func(a *paymentsvc.Amount) error { return a.Scan([]byte(text)) },
		"Scan of a padded column":           func(a *paymentsvc.Amount) error { return a.Scan(" " + text + "  ") },
	}
}

func TestAmountRejectsOtherJSONValues(t *testing.T) {
	for _, in := range []string{
		``, ` `, `"`, `"1`, `1"`, `""`, `" 1"`, `"1 "`, `"null"`, `"\u0000"`, `"\x31"`, "\"\xff\"", "\"1\n\"", `"1""2"`,
		`true`, `{}`, `[]`, `[1]`, `{"` + pan + `":1}`, `nul`, `NULL`, `1 2`,
	} {
		got := paymentsvc.MustParseAmount("99")
		require.EqualError(t, got.UnmarshalJSON([]byte(in)), "paymentsvc: amount: not a decimal number", "%q", in)
		require.Error(t, json.Unmarshal([]byte(in), &got), "%q", in)
		require.Equal(t, "99", got.String(), "%q", in)
	}
}

// Empty text in place of a number is an error and does not mean "not set".
func TestAmountRejectsEmptyText(t *testing.T) {
	for name, read := range map[string]func(*paymentsvc.Amount) error{
		"ParseAmount":         func(*paymentsvc.Amount) error { _, err := paymentsvc.ParseAmount(""); return err },
		"JSON text":           func(a *paymentsvc.Amount) error { return json.Unmarshal([]byte(`""`), a) },
		"column of text":      func(a *paymentsvc.Amount) error { return a.Scan("") },
		"column of bytes":     func(a *paymentsvc.Amount) error { return a.Scan([]byte{}) },
		"column of nil bytes": func(a *paymentsvc.Amount) error { return a.Scan([]byte(nil)) },
		"column of spaces":    func(a *paymentsvc.Amount) error { return a.Scan("   ") },
	} {
		got := paymentsvc.MustParseAmount("99")
		require.ErrorIs(t, read(&got), decimal.ErrSyntax, name)
		require.Equal(t, "99", got.String(), name)
	}
}

func TestMustParseAmountPanicsWithoutInputInText(t *testing.T) {
	require.PanicsWithError(t, "paymentsvc: amount: not a decimal number", func() {
		paymentsvc.MustParseAmount(pan + "x")
	})
}

func TestAmountUnsetDiffersFromZero(t *testing.T) {
	var unset paymentsvc.Amount
	zero, less := paymentsvc.MustParseAmount("0"), paymentsvc.MustParseAmount("-1")

	assert.False(t, unset.IsSet())
	assert.Empty(t, unset.String())
	assert.Empty(t, fmt.Sprint(unset))
	assert.Zero(t, unset.Sign())
	assert.True(t, unset.Equal(paymentsvc.Amount{}))
	assert.Zero(t, unset.Cmp(paymentsvc.Amount{}))
	assert.False(t, unset.Equal(zero))
	assert.False(t, zero.Equal(unset))
	assert.Equal(t, -1, unset.Cmp(zero))
	assert.Equal(t, -1, unset.Cmp(less))
	assert.Equal(t, 1, zero.Cmp(unset))
	assert.Equal(t, 1, less.Cmp(unset))
	_, err := unset.Minor(0)
	assert.EqualError(t, err, "paymentsvc: amount is not set")

	text, err := unset.MarshalText()
	assert.NoError(t, err)
	assert.Empty(t, text)
	data, err := unset.MarshalJSON()
	assert.NoError(t, err)
	assert.Equal(t, "null", string(data))
	value, err := unset.Value()
	assert.NoError(t, err)
	assert.Nil(t, value)
}

func TestAmountReadsNullAsUnset(t *testing.T) {
	for name, read := range map[string]func(*paymentsvc.Amount) error{
		"JSON null":          func(a *paymentsvc.Amount) error { return json.Unmarshal([]byte(" null "), a) },
		"UnmarshalJSON null": func(a *paymentsvc.Amount) error { return a.UnmarshalJSON([]byte("null")) },
		"empty text":         func(a *paymentsvc.Amount) error { return a.UnmarshalText([]byte{}) },
		"nil text":           func(a *paymentsvc.Amount) error { return a.UnmarshalText(nil) },
		"NULL":               func(a *paymentsvc.Amount) error { return a.Scan(nil) },
	} {
		got := paymentsvc.MustParseAmount("99")
		require.NoError(t, read(&got), name)
		require.Equal(t, paymentsvc.Amount{}, got, name)
	}
}

func TestAmountComparesByValue(t *testing.T) {
	amount := paymentsvc.MustParseAmount
	assert.NotEqual(t, amount("1.0"), amount("1.00"), "== compares texts")
	// In ascending order; numbers between semicolons are equal.
	ascending := strings.Split("-100 -100.00; -99.99; -10; -9; -1.1; -1.05 -1.050; -1 -1.0; -0.1; -0.01; 0 0.0 0.00; "+
		"0.01; 0.09; 0.1 0.10; 0.11; 1 1.00; 1.05; 1.1; 9; 10 10.0; 99.99; 100; "+strings.Repeat("9", 64), "; ")
	zero := slices.Index(ascending, "0 0.0 0.00")
	for i, equalA := range ascending {
		for j, equalB := range ascending {
			for a := range strings.FieldsSeq(equalA) {
				for b := range strings.FieldsSeq(equalB) {
					require.Equal(t, cmp.Compare(i, j), amount(a).Cmp(amount(b)), "%s to %s", a, b)
					require.Equal(t, i == j, amount(a).Equal(amount(b)), "%s to %s", a, b)
					require.Equal(t, cmp.Compare(i, zero), amount(a).Sign(), a)
				}
			}
		}
	}
}

func TestAmountConvertsMinorUnitsExactly(t *testing.T) {
	for _, tt := range []struct {
		in    string
		scale uint8
		want  int64
		err   error
	}{
		{"10.50", 2, 1050, nil}, {"10.50", 3, 10500, nil}, {"10.50", 1, 105, nil},
		{"10.50", 0, 0, decimal.ErrInexact}, {"-0.001", 2, 0, decimal.ErrInexact}, {"7.000000", 0, 7, nil},
		{"7", 2, 700, nil}, {"-0.07", 2, -7, nil}, {"-0.70", 2, -70, nil}, {"0", 0, 0, nil}, {"0", 255, 0, nil},
		{"0.00", 0, 0, nil},

		{"9223372036854775807", 0, math.MaxInt64, nil}, {"92233720368547758.07", 2, math.MaxInt64, nil},
		{"0.9223372036854775807", 19, math.MaxInt64, nil}, {"9223372036854775808", 0, 0, decimal.ErrOverflow},
		{"92233720368547758.08", 2, 0, decimal.ErrOverflow}, {"-9223372036854775808", 0, math.MinInt64, nil},
		{"-92233720368547758.08", 2, math.MinInt64, nil}, {"-9223372036854775809", 0, 0, decimal.ErrOverflow},
		{"-92233720368547758.09", 2, 0, decimal.ErrOverflow}, {"1", 19, 0, decimal.ErrOverflow},
		{"9", 18, 9e18, nil}, {"1", 255, 0, decimal.ErrOverflow},
		{strings.Repeat("9", 64), 0, 0, decimal.ErrOverflow},
		{"18446744073709551616", 0, 0, decimal.ErrOverflow},
	} {
		got, err := paymentsvc.MustParseAmount(tt.in).Minor(tt.scale)
		require.ErrorIs(t, err, tt.err, "%s at %d", tt.in, tt.scale)
		require.Equal(t, tt.want, got, "%s at %d", tt.in, tt.scale)
	}
}

func TestAmountFromMinorIsTheInverseOfMinor(t *testing.T) {
	for _, tt := range []struct {
		units int64
		scale uint8
		want  string
	}{
		{1050, 2, "10.50"}, {1050, 0, "1050"}, {5, 2, "0.05"}, {50, 2, "0.50"}, {-1050, 2, "-10.50"},
		{-5, 2, "-0.05"}, {0, 0, "0"}, {0, 2, "0.00"}, {math.MaxInt64, 2, "92233720368547758.07"},
		{math.MinInt64, 2, "-92233720368547758.08"}, {math.MinInt64, 19, "-0.9223372036854775808"},
		{7, 255, "0." + strings.Repeat("0", 254) + "7"},
	} {
		made := paymentsvc.AmountFromMinor(tt.units, tt.scale)
		require.Equal(t, tt.want, made.String())
		units, err := made.Minor(tt.scale)
		require.NoError(t, err)
		require.Equal(t, tt.units, units, tt.want)
		if tt.scale <= decimal.MaxDigits {
			require.Equal(t, paymentsvc.MustParseAmount(tt.want), made, "parsing returns the same value")
		}
	}
	_, err := paymentsvc.ParseAmount(paymentsvc.AmountFromMinor(1, 65).String())
	require.ErrorIs(t, err, decimal.ErrTooLong)
}

func TestAmountRoundsHalfAwayFromZero(t *testing.T) {
	nines := strings.Repeat("9", decimal.MaxDigits)
	for _, tt := range []struct {
		in    string
		scale uint8
		want  string
	}{
		{"29.949999999999999", 2, "29.95"}, {"0.30000000000000004", 2, "0.30"}, {"0.005", 2, "0.01"},
		{"-0.005", 2, "-0.01"}, {"0.00499999", 2, "0.00"}, {"-0.004", 2, "0.00"}, {"1.4499", 1, "1.4"},
		{"1.995", 2, "2.00"}, {"99.95", 1, "100.0"}, {"9.5", 0, "10"}, {"-9.5", 0, "-10"}, {"0.5", 0, "1"},
		{"7", 2, "7.00"},
		{"10.50", 2, "10.50"}, {"0", 2, "0.00"},
		{"0." + nines, 63, "1." + strings.Repeat("0", 63)},
	} {
		got, err := paymentsvc.MustParseAmount(tt.in).Round(tt.scale)
		require.NoError(t, err, tt.in)
		require.Equal(t, paymentsvc.MustParseAmount(tt.want), got, "%s at %d", tt.in, tt.scale)
	}
	for _, tt := range []struct {
		in    string
		scale uint8
	}{{"1", 64}, {"1", 255}, {"0", 65}, {nines, 1}, {"0." + nines, 65}} {
		got, err := paymentsvc.MustParseAmount(tt.in).Round(tt.scale)
		require.ErrorIs(t, err, decimal.ErrTooLong, "%.10s at %d", tt.in, tt.scale)
		require.Equal(t, paymentsvc.Amount{}, got)
	}
	got, err := paymentsvc.AmountFromMinor(math.MaxInt64, 255).Round(2)
	require.NoError(t, err)
	require.Equal(t, "0.00", got.String())
	_, err = paymentsvc.Amount{}.Round(2)
	require.EqualError(t, err, "paymentsvc: amount is not set")
}

func TestAmountEncodesAsJSONNumber(t *testing.T) {
	type order struct {
		Amount   paymentsvc.Amount            `json:"amount"`
		Left     paymentsvc.Amount            `json:"left,omitzero"`
		ByAmount map[paymentsvc.Amount]string `json:"by_amount"`
	}
	amount := paymentsvc.MustParseAmount
	for want, in := range map[string]order{
		`{"amount":null,"by_amount":null}`: {},
		`{"amount":10.50,"left":0.00,"by_amount":{"1.0":"a","1.00":"b"}}`: {
			amount("10.50"), amount("0.00"), map[paymentsvc.Amount]string{amount("1.0"): "a", amount("1.00"): "b"},
		},
	} {
		data, err := json.Marshal(in)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
		var got order
		require.NoError(t, json.Unmarshal(data, &got))
		require.Equal(t, in, got)
	}
	for _, data := range []string{
		`{"amount":"` + pan + `x"}`, `{"amount":{"a":` + pan + `}}`, `{"by_amount":{"` + pan + `x":"a"}}`,
	} {
		err := json.Unmarshal([]byte(data), &order{})
		require.ErrorIs(t, err, decimal.ErrSyntax)
		require.NotContains(t, err.Error(), "4111")
	}
}

func survives(t require.TestingT, want paymentsvc.Amount) {
	var fromJSON, fromText, fromBinary, fromColumn paymentsvc.Amount
	data, err := json.Marshal(want)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &fromJSON))
	require.Equal(t, want, fromJSON)

	text, err := want.MarshalText()
	require.NoError(t, err)
	require.NoError(t, fromText.UnmarshalText(text))
	require.Equal(t, want, fromText)

	binary, err := want.MarshalBinary() // used by gob
	require.NoError(t, err)
	require.NoError(t, fromBinary.UnmarshalBinary(binary))
	require.Equal(t, want, fromBinary)

	value, err := want.Value()
	require.NoError(t, err)
	require.True(t, driver.IsValue(value))
	require.NoError(t, fromColumn.Scan(value))
	require.Equal(t, want, fromColumn)
}

func TestAmountReadsYAMLSource(t *testing.T) {
	for in, want := range map[string]string{
		"10.50": "10.50", `"10.50"`: "10.50", "'10.50'\n": "10.50", "1e2": "100", "null": "", "~": "", "": "", `""`: "",
	} {
		got := paymentsvc.MustParseAmount("99")
		require.NoError(t, got.UnmarshalYAML([]byte(in)), "%q", in)
		require.Equal(t, want, got.String(), "%q", in)
	}
	for _, in := range []string{
		"0x10", "010", "1_000", ".inf", "'", `"1`, `'1"`, `"null"x`, "{}", "[1]", "1 # one", pan + "x",
	} {
		got := paymentsvc.MustParseAmount("99")
		err := got.UnmarshalYAML([]byte(in))
		require.ErrorIs(t, err, decimal.ErrSyntax, "%q", in)
		require.NotContains(t, err.Error(), "4111")
		require.Equal(t, "99", got.String(), "%q", in)
	}
}

func TestAmountEncodesAsBSONString(t *testing.T) {
	typ, data, err := paymentsvc.MustParseAmount("10.50").MarshalBSONValue()
	require.NoError(t, err)
	require.Equal(t, byte(0x02), typ)
	require.Equal(t, []byte("\x06\x00\x00\x0010.50\x00"), data)
	typ, data, err = paymentsvc.Amount{}.MarshalBSONValue()
	require.NoError(t, err)
	require.Equal(t, byte(0x0A), typ)
	require.Empty(t, data)

	for _, tt := range []struct {
		name string
		typ  byte
		data string
		want string
	}{
		{"a string", 0x02, "\x06\x00\x00\x0010.50\x00", "10.50"},
		{"null", 0x0A, "", ""},
		{"an int32", 0x10, "\xff\xff\xff\xff", "-1"},
		{"an int64", 0x12, "\x00\x00\x00\x00\x00\x00\x00\x80", "-9223372036854775808"},
		{"a decimal128", 0x13, "\x1A\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x3C\x30", "10.50"},
	} {
		got := paymentsvc.MustParseAmount("99")
		require.NoError(t, got.UnmarshalBSONValue(tt.typ, []byte(tt.data)), tt.name)
		require.Equal(t, tt.want, got.String(), tt.name)
		require.Equal(t, tt.want != "", got.IsSet(), tt.name)
	}
	for _, tt := range []struct {
		name string
		typ  byte
		data string
	}{
		{"a double", 0x01, "\x00\x00\x00\x00\x00\x00\x25\x40"},
		{"an empty string", 0x02, "\x01\x00\x00\x00\x00"},
		{"a string that is no number", 0x02, "\x12\x00\x00\x00" + pan + "x\x00"},
		{"a string without its length", 0x02, "10\x00"},
		{"a document", 0x03, "\x05\x00\x00\x00\x00"},
		{"a short int32", 0x10, "\x01"},
		{"a short int64", 0x12, "\x01\x00\x00\x00"},
		{"a short decimal128", 0x13, "\x01\x00\x00\x00"},
		{"an infinite decimal128", 0x13, strings.Repeat("\x00", 15) + "\x78"},
	} {
		got := paymentsvc.MustParseAmount("99")
		err := got.UnmarshalBSONValue(tt.typ, []byte(tt.data))
		require.ErrorContains(t, err, "paymentsvc: amount: ", tt.name)
		require.NotContains(t, err.Error(), "4111", tt.name)
		require.Equal(t, "99", got.String(), tt.name)
	}
	_, err = paymentsvc.MustParseAmount("1").MarshalBSON()
	require.ErrorContains(t, err, "MongoDB driver v2")
}

func TestAmountScanRejectsInexactColumns(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   any
		want string
	}{
		{"an int64", int64(1050), "1050"},
		{"a negative int64", int64(-1050), "-1050"},
		{"the smallest int64", int64(math.MinInt64), "-9223372036854775808"},
		{"zero", int64(0), "0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got paymentsvc.Amount
			require.NoError(t, got.Scan(tt.in))
			require.Equal(t, tt.want, got.String())
		})
	}
	for _, in := range []any{
		float64(4111111111111111), float32(10.5), math.NaN(), true, time.Unix(4111111111111111, 0), []string{pan},
		struct{ s string }{pan},
	} {
		got := paymentsvc.MustParseAmount("99")
		require.EqualError(
			t, got.Scan(in),
			fmt.Sprintf("paymentsvc: amount: cannot be read from a column of type %T, keep it as text", in),
		)
		require.Equal(t, "99", got.String())
	}
}

func FuzzAmountParse(f *testing.F) {
	for _, seed := range []string{
		"0", "-0", "10.50", "-0.07", "1e2", "1.50e1", "1E-2", "0e5", "0.000e2", "1e63", "1e64", "1e-64", "1e-65",
		"0e1000000", "1e1000000", "1e-1000000", "1e99999999999999999999", "0.00e-99999999999999999999",
		strings.Repeat("9", 64), strings.Repeat("9", 65), "0." + strings.Repeat("0", 200) + "1e201",
		"18446744073709551616",
		"", "-", "+5", ".5", "5.", "007", "1e", "1e+", " 1", "1 ", "0x1", "NaN", "١", "1_000", "--1", "1.2.3", "\xff",
		"null", `"1"`, `"\u0031"`, `""`, "{}", "[1]", "true",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := paymentsvc.ParseAmount(s)
		number := json.Valid([]byte(s)) && strings.ContainsRune("-0123456789", rune(s[0])) && s == strings.TrimSpace(s)
		switch {
		case !number:
			require.EqualError(t, err, "paymentsvc: amount: not a decimal number")
		case err != nil:
			require.EqualError(t, err, "paymentsvc: amount: more than 64 digits")
		default:
			require.NotContains(t, strings.ToLower(a.String()), "e")
			require.True(t, json.Valid([]byte(a.String())))
			again, err := paymentsvc.ParseAmount(a.String())
			require.NoError(t, err)
			require.Equal(t, a, again)
			survives(t, a)
		}

		// Reading any bytes must not panic, and an error must leave the amount unchanged.
		before := paymentsvc.MustParseAmount("99")
		for _, read := range []func(*paymentsvc.Amount) error{
			func(a *paymentsvc.Amount) error { return a.UnmarshalJSON([]byte(s)) },
			func(a *paymentsvc.Amount) error { return json.Unmarshal([]byte(s), a) },
			func(a *paymentsvc.Amount) error { return a.UnmarshalText([]byte(s)) },
			func(a *paymentsvc.Amount) error { return a.Scan(s) },
		} {
			got := before
			if err := read(&got); err != nil {
				require.Equal(t, before, got)
				continue
			}
			survives(t, got)
			if number {
				require.Equal(t, a, got)
			}
			for _, scale := range []uint8{0, 2, 255} {
				if units, err := got.Minor(scale); err == nil {
					require.True(t, paymentsvc.AmountFromMinor(units, scale).Equal(got))
				}
			}
		}
	})
}
