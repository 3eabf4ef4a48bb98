package paymentsvc_test

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
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
	assert.True(t, amount("1.0").Equal(amount("1.00")))
	assert.NotEqual(t, amount("1.0"), amount("1.00"), "== compares texts")
	assert.False(t, amount("1.0").Equal(amount("1.01")))
	assert.False(t, amount("1").Equal(amount("-1")))
	assert.Equal(t, -1, amount("9").Cmp(amount("10")))
	assert.Equal(t, 1, amount("-9").Cmp(amount("-10")))
	assert.Equal(t, []int{-1, 0, 1}, []int{amount("-0.01").Sign(), amount("-0.00").Sign(), amount("0.01").Sign()})
}

func TestAmountConvertsMinorUnitsExactly(t *testing.T) {
	for text, units := range map[string]int64{"10.50": 1050, "0.00": 0, "-92233720368547758.08": math.MinInt64} {
		made := paymentsvc.AmountFromMinor(units, 2)
		require.Equal(t, paymentsvc.MustParseAmount(text), made, "parsing and AmountFromMinor return the same value")
		require.True(t, made.IsSet())
		got, err := made.Minor(2)
		require.NoError(t, err)
		require.Equal(t, units, got)
	}
	_, err := paymentsvc.ParseAmount(paymentsvc.AmountFromMinor(1, 65).String())
	require.ErrorIs(t, err, decimal.ErrTooLong)
	_, err = paymentsvc.MustParseAmount("10.505").Minor(2)
	require.ErrorIs(t, err, decimal.ErrInexact)
	_, err = paymentsvc.MustParseAmount("92233720368547758.08").Minor(2)
	require.ErrorIs(t, err, decimal.ErrOverflow)
}

// internal/decimal tests the arithmetic.
func TestAmountRoundsHalfAwayFromZero(t *testing.T) {
	got, err := paymentsvc.AmountFromMinor(-29_9450, 4).Round(2)
	require.NoError(t, err)
	require.Equal(t, paymentsvc.MustParseAmount("-29.95"), got)
	_, err = paymentsvc.Amount{}.Round(2)
	require.EqualError(t, err, "paymentsvc: amount is not set")
	got, err = paymentsvc.MustParseAmount("1").Round(64)
	require.ErrorIs(t, err, decimal.ErrTooLong)
	require.Equal(t, paymentsvc.Amount{}, got)
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
