package paymentsvc_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/internal/decimal"
)

// pan stands for what may be given in place of an amount by mistake, and may stand in no error.
const pan = "4111111111111111"

func TestAmountReads(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"a scale, which is kept", "10.50", "10.50"},
		{"an integer", "7", "7"},
		{"a negative number", "-0.07", "-0.07"},
		{"zero", "0", "0"},
		{"minus zero, which has no sign", "-0.00", "0.00"},
		{"an exponent, which is written out", "1.50e1", "15.0"},
		{"a negative exponent", "1E-2", "0.01"},
		{"a number of 19 digits", "1234567890123456789", "1234567890123456789"},
		{"64 digits", strings.Repeat("9", 62) + ".10", strings.Repeat("9", 62) + ".10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := paymentsvc.MustParseAmount(tt.want)
			require.Equal(t, tt.want, want.String())
			for name, read := range amountReaders(tt.in) {
				got := paymentsvc.MustParseAmount("99") // which must be overwritten
				require.NoError(t, read(&got), name)
				require.Equal(t, want, got, name)
				require.True(t, got.IsSet())
			}
		})
	}
}

func TestAmountRefuses(t *testing.T) {
	const syntax, tooLong = "paymentsvc: amount: not a decimal number", "paymentsvc: amount: more than 64 digits"
	for _, tt := range []struct{ name, in, want string }{
		{"a plus sign", "+" + pan, syntax},
		{"a leading zero", "0" + pan, syntax},
		{"no integer digit", "." + pan, syntax},
		{"no decimal", pan + ".", syntax},
		{"a comma", pan + ",5", syntax},
		{"a currency", pan + "EUR", syntax},
		{"groups of digits", "4111 1111 1111 1111", syntax},
		{"hexadecimal", "0x" + pan, syntax},
		{"not a number by name", "NaN", syntax},
		{"digits of another script", "٤١١١", syntax},
		{"quotes", `'` + pan + `'`, syntax},
		{"text", "card " + pan, syntax},
		{"65 digits", strings.Repeat(pan, 4) + "1", tooLong},
		{"a huge exponent", pan + "e1000000", tooLong},
		{"a huge negative exponent", pan + "e-1000000", tooLong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := paymentsvc.MustParseAmount("99")
			for name, read := range amountReaders(tt.in) {
				got := before
				require.EqualError(t, read(&got), tt.want, "%s: the whole text, so that no input can stand in it", name)
				require.Equal(t, before, got, "%s: an error leaves the amount as it was", name)
			}
		})
	}
}

// amountReaders are all ways to read an Amount from text, but for encoding/json, which checks the grammar itself.
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

func TestAmountRefusesJSONThatIsNoNumber(t *testing.T) {
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

func TestAmountScansOnlyWhatIsExact(t *testing.T) {
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
		float64(4111111111111111), float32(10.5), math.NaN(), true, time.Unix(4111111111111111, 0), []string{pan}, struct{ s string }{pan},
	} {
		got := paymentsvc.MustParseAmount("99")
		require.EqualError(t, got.Scan(in), fmt.Sprintf("paymentsvc: amount: cannot be read from a column of type %T, keep it as text", in))
		require.Equal(t, "99", got.String())
	}
}

func TestAmountKeepsACopyOfWhatItReads(t *testing.T) {
	for name, read := range map[string]func(*paymentsvc.Amount, []byte) error{
		"Scan":          func(a *paymentsvc.Amount, b []byte) error { return a.Scan(b) },
		"UnmarshalText": (*paymentsvc.Amount).UnmarshalText,
		"UnmarshalJSON": (*paymentsvc.Amount).UnmarshalJSON,
	} {
		for _, text := range []string{"10.50", "1e1", "-0.0"} {
			source := []byte(text)
			var got paymentsvc.Amount
			require.NoError(t, read(&got, source), name)
			copy(source, "77777")
			require.Equal(t, paymentsvc.MustParseAmount(text), got, name)
		}
	}
	a := paymentsvc.MustParseAmount("10.50")
	for _, write := range []func() ([]byte, error){a.MarshalJSON, a.MarshalText} {
		written, err := write()
		require.NoError(t, err)
		copy(written, "77777")
		require.Equal(t, "10.50", a.String())
	}
}

func TestAmountThatIsNotSetIsNeverZero(t *testing.T) {
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

func TestAmountIsUnsetByNothing(t *testing.T) {
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

// An empty text where a number belongs is a fault, not an amount that is not set.
func TestAmountRefusesEmptyText(t *testing.T) {
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

func TestAmountComparesByValue(t *testing.T) {
	amount := paymentsvc.MustParseAmount
	assert.True(t, amount("1.0").Equal(amount("1.00")))
	assert.NotEqual(t, amount("1.0"), amount("1.00"), "== is of texts")
	assert.False(t, amount("1.0").Equal(amount("1.01")))
	assert.False(t, amount("1").Equal(amount("-1")))
	assert.Equal(t, -1, amount("9").Cmp(amount("10")))
	assert.Equal(t, 1, amount("-9").Cmp(amount("-10")))
	assert.Equal(t, []int{-1, 0, 1}, []int{amount("-0.01").Sign(), amount("-0.00").Sign(), amount("0.01").Sign()})

	rapid.Check(t, func(t *rapid.T) {
		a, b := amountText().Draw(t, "a"), amountText().Draw(t, "b")
		ra, _ := new(big.Rat).SetString(a)
		rb, _ := new(big.Rat).SetString(b)
		require.Equal(t, ra.Cmp(rb), amount(a).Cmp(amount(b)))
		require.Equal(t, ra.Cmp(rb) == 0, amount(a).Equal(amount(b)))
		require.Equal(t, ra.Sign(), amount(a).Sign())
	})
}

func TestAmountInMinorUnits(t *testing.T) {
	for _, units := range []int64{0, 1, -1, 1050, math.MaxInt64, math.MinInt64} {
		for _, scale := range []uint8{0, 1, 2, 18, 19, 64, 65, 255} {
			a := paymentsvc.AmountFromMinor(units, scale)
			got, err := a.Minor(scale)
			require.NoError(t, err)
			require.Equal(t, units, got)
			require.True(t, a.IsSet())

			again, err := paymentsvc.ParseAmount(a.String())
			if scale > 64 {
				require.ErrorIs(t, err, decimal.ErrTooLong)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, a, again, "a parsed amount is the same as a made one")
		}
	}
	_, err := paymentsvc.MustParseAmount("10.505").Minor(2)
	require.ErrorIs(t, err, decimal.ErrInexact)
	_, err = paymentsvc.MustParseAmount("92233720368547758.08").Minor(2)
	require.ErrorIs(t, err, decimal.ErrOverflow)
}

func TestMustParseAmountPanicsWithoutRepeatingItsInput(t *testing.T) {
	require.PanicsWithError(t, "paymentsvc: amount: not a decimal number", func() { paymentsvc.MustParseAmount(pan + "x") })
}

func TestAmountInJSON(t *testing.T) {
	type order struct {
		Amount   paymentsvc.Amount            `json:"amount"`
		Left     paymentsvc.Amount            `json:"left,omitzero"`
		Pointer  *paymentsvc.Amount           `json:"pointer"`
		List     []paymentsvc.Amount          `json:"list"`
		ByName   map[string]paymentsvc.Amount `json:"by_name"`
		ByAmount map[paymentsvc.Amount]string `json:"by_amount"`
	}
	amount := paymentsvc.MustParseAmount
	given := amount("1.10")
	for _, tt := range []struct {
		name string
		in   order
		want string
	}{
		{"nothing set", order{}, `{"amount":null,"pointer":null,"list":null,"by_name":null,"by_amount":null}`},
		{
			"everything set",
			order{
				amount("10.50"), amount("0.00"), &given,
				[]paymentsvc.Amount{amount("1"), {}, amount("-1.0")},
				map[string]paymentsvc.Amount{"a": amount("1.10"), "b": {}},
				map[paymentsvc.Amount]string{amount("1.0"): "a", amount("1.00"): "b"},
			},
			`{"amount":10.50,"left":0.00,"pointer":1.10,"list":[1,null,-1.0],"by_name":{"a":1.10,"b":null},"by_amount":{"1.0":"a","1.00":"b"}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data, err := json.Marshal(tt.in)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(data))
			var got order
			require.NoError(t, json.Unmarshal(data, &got))
			require.Equal(t, tt.in, got)
		})
	}

	var got order
	require.NoError(t, json.Unmarshal([]byte(`{"amount": "10.50" , "list":[ 1e2, "\u0031" ],"by_amount":{"1e1":"a"}}`), &got))
	require.Equal(t, order{
		Amount:   amount("10.50"),
		List:     []paymentsvc.Amount{amount("100"), amount("1")},
		ByAmount: map[paymentsvc.Amount]string{amount("10"): "a"},
	}, got)
	for _, data := range []string{
		`{"amount":"` + pan + `x"}`, `{"amount":{"a":` + pan + `}}`, `{"list":["` + pan + `x"]}`, `{"by_amount":{"` + pan + `x":"a"}}`,
	} {
		err := json.Unmarshal([]byte(data), &order{})
		require.ErrorIs(t, err, decimal.ErrSyntax)
		require.NotContains(t, err.Error(), "4111")
	}
}

func TestAmountSurvivesEveryFormat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := paymentsvc.MustParseAmount(amountText().Draw(t, "text"))
		survives(t, want)
	})
	survives(t, paymentsvc.Amount{})
}

func survives(t require.TestingT, want paymentsvc.Amount) {
	var fromJSON, fromText, fromColumn paymentsvc.Amount
	data, err := json.Marshal(want)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &fromJSON))
	require.Equal(t, want, fromJSON)

	text, err := want.MarshalText()
	require.NoError(t, err)
	require.NoError(t, fromText.UnmarshalText(text))
	require.Equal(t, want, fromText)

	value, err := want.Value()
	require.NoError(t, err)
	require.True(t, driver.IsValue(value))
	require.NoError(t, fromColumn.Scan(value))
	require.Equal(t, want, fromColumn)
}

func TestAmountInADatabase(t *testing.T) {
	amount := paymentsvc.MustParseAmount
	given := amount("7.00")

	t.Run("it is stored as text and NULL", func(t *testing.T) {
		var stored []driver.Value
		db := echoDB(t, func(v driver.Value) driver.Value { stored = append(stored, v); return v })
		args := []any{amount("10.50"), paymentsvc.Amount{}, &given, (*paymentsvc.Amount)(nil), sql.Null[paymentsvc.Amount]{}, sql.Null[paymentsvc.Amount]{V: given, Valid: true}}
		require.Len(t, rowsOf(t, db, args...), len(args))
		require.Equal(t, []driver.Value{"10.50", nil, "7.00", nil, nil, "7.00"}, stored)
	})
	for name, give := range map[string]func() func(driver.Value) driver.Value{
		"text":  func() func(driver.Value) driver.Value { return func(v driver.Value) driver.Value { return v } },
		"bytes": reusedBytes,
	} {
		t.Run("it is read from a column of "+name, func(t *testing.T) {
			db := echoDB(t, give())
			want := []paymentsvc.Amount{amount("10.50"), {}, amount("-0.07"), amount("1234567890123456789.10"), amount("0.00")}
			args := make([]any, len(want))
			for i := range want {
				args[i] = want[i]
			}
			require.Equal(t, want, rowsOf(t, db, args...))
		})
	}
	t.Run("it is read from a column of integers", func(t *testing.T) {
		db := echoDB(t, func(v driver.Value) driver.Value { return v })
		require.Equal(t, []paymentsvc.Amount{amount("1050"), amount("-1")}, rowsOf(t, db, 1050, int64(-1)))
	})
	t.Run("it is refused from a column of another type", func(t *testing.T) {
		db := echoDB(t, func(v driver.Value) driver.Value { return v })
		for _, stored := range []any{10.5, true, time.Unix(0, 0), "card " + pan, []byte(pan + "x"), ""} {
			got := given
			err := db.QueryRowContext(t.Context(), "echo", stored).Scan(&got)
			require.ErrorContains(t, err, "paymentsvc: amount: ", "%T", stored)
			require.NotContains(t, err.Error(), "4111")
			require.Equal(t, given, got)
		}
	})
	t.Run("it is read through a pointer and sql.Null", func(t *testing.T) {
		db := echoDB(t, reusedBytes())
		var pointer *paymentsvc.Amount
		var null sql.Null[paymentsvc.Amount]
		require.NoError(t, db.QueryRowContext(t.Context(), "echo", given).Scan(&pointer))
		require.Equal(t, &given, pointer)
		require.NoError(t, db.QueryRowContext(t.Context(), "echo", nil).Scan(&pointer))
		require.Nil(t, pointer)
		require.NoError(t, db.QueryRowContext(t.Context(), "echo", given).Scan(&null))
		require.Equal(t, sql.Null[paymentsvc.Amount]{V: given, Valid: true}, null)
		require.NoError(t, db.QueryRowContext(t.Context(), "echo", nil).Scan(&null))
		require.Equal(t, sql.Null[paymentsvc.Amount]{}, null)
	})
}

// echoDB is a database whose every query gives its arguments back, one a row, as give hands them over.
func echoDB(t *testing.T, give func(driver.Value) driver.Value) *sql.DB {
	t.Helper()
	db := sql.OpenDB(echo{give})
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// reusedBytes hands text over as bytes of one buffer, as drivers do that read from a connection.
func reusedBytes() func(driver.Value) driver.Value {
	buffer := make([]byte, 0, 64)
	return func(v driver.Value) driver.Value {
		text, ok := v.(string)
		if !ok {
			return v
		}
		buffer = append(buffer[:0], text...)
		return buffer
	}
}

func rowsOf(t *testing.T, db *sql.DB, args ...any) (amounts []paymentsvc.Amount) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "echo", args...)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var a paymentsvc.Amount
		require.NoError(t, rows.Scan(&a))
		amounts = append(amounts, a)
	}
	require.NoError(t, rows.Err())
	return amounts
}

// echo is as much of a driver as echoDB needs.
type echo struct {
	give func(driver.Value) driver.Value
}

var errNotThisDriver = errors.New("this driver only echoes queries")

func (e echo) Connect(context.Context) (driver.Conn, error) { return e, nil }
func (e echo) Driver() driver.Driver                        { return nil }
func (e echo) Prepare(string) (driver.Stmt, error)          { return nil, errNotThisDriver }
func (e echo) Begin() (driver.Tx, error)                    { return nil, errNotThisDriver }
func (e echo) Close() error                                 { return nil }

func (e echo) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if query != "echo" {
		return nil, errNotThisDriver
	}
	return &echoedRows{e.give, args}, nil
}

type echoedRows struct {
	give func(driver.Value) driver.Value
	left []driver.NamedValue
}

func (r *echoedRows) Columns() []string { return []string{"amount"} }
func (r *echoedRows) Close() error      { return nil }

func (r *echoedRows) Next(into []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	into[0] = r.give(r.left[0].Value)
	r.left = r.left[1:]
	return nil
}

func FuzzParseAmount(f *testing.F) {
	for _, seed := range []string{
		"0", "-0", "10.50", "-0.07", "1e2", "1.50e1", "1E-2", "0e5", "0.000e2", "1e63", "1e64", "1e-64", "1e-65",
		"0e1000000", "1e1000000", "1e-1000000", "1e99999999999999999999", "0.00e-99999999999999999999",
		strings.Repeat("9", 64), strings.Repeat("9", 65), "0." + strings.Repeat("0", 200) + "1e201", "18446744073709551616",
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
		case digitsOf(s) > 64:
			require.EqualError(t, err, "paymentsvc: amount: more than 64 digits")
		default:
			require.NoError(t, err)
			require.NotContains(t, strings.ToLower(a.String()), "e")
			require.True(t, json.Valid([]byte(a.String())))
			again, err := paymentsvc.ParseAmount(a.String())
			require.NoError(t, err)
			require.Equal(t, a, again)
			survives(t, a)
			requireValue(t, s, a)
		}

		// Whatever stands in an answer, reading it does not panic, and an error changes nothing.
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

// splitNumber cuts a JSON number into the digits of its mantissa, how many of them are decimals, and its
// exponent, which beyond 9 digits is the largest of 9.
func splitNumber(s string) (digits string, decimals, exponent int) {
	mantissa, power, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(s, "-")), "e")
	integer, fraction, _ := strings.Cut(mantissa, ".")
	power, negative := strings.CutPrefix(strings.TrimPrefix(power, "+"), "-")
	power = strings.TrimLeft(power, "0")
	if len(power) > 9 {
		power = strings.Repeat("9", 9)
	}
	exponent, _ = strconv.Atoi(power)
	if negative {
		exponent = -exponent
	}
	return integer + fraction, len(fraction), exponent
}

// digitsOf counts the digits of a JSON number without its exponent, but for a zero that only stands before the
// point.
func digitsOf(s string) int {
	digits, decimals, exponent := splitNumber(s)
	scale := decimals - exponent
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return max(scale, 1)
	}
	return max(scale, len(digits)+max(-scale, 0))
}

// requireValue asserts that a has the value of the JSON number s.
func requireValue(t *testing.T, s string, a paymentsvc.Amount) {
	t.Helper()
	digits, _, exponent := splitNumber(s)
	if strings.Trim(digits, "0") == "" {
		require.Zero(t, a.Sign())
		return
	}
	if max(exponent, -exponent) > 10_000 {
		return // more than math/big can be asked for; only a very long mantissa leads here
	}
	want, ok := new(big.Rat).SetString(s)
	require.True(t, ok)
	got, ok := new(big.Rat).SetString(a.String())
	require.True(t, ok)
	require.Zero(t, want.Cmp(got), "%s became %s", s, a)
}

// amountText gives numbers that ParseAmount reads, with all scales and some exponents.
func amountText() *rapid.Generator[string] {
	return rapid.StringMatching(`-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,10})?(e-?[0-9])?`)
}

func TestNewUserDataIsARandomUUID(t *testing.T) {
	const callers, each = 4, 250
	made := make(chan string, callers*each)
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for range each {
				made <- paymentsvc.NewUserData()
			}
		})
	}
	wait.Wait()
	close(made)

	seen := map[string]bool{}
	for userData := range made {
		id, err := uuid.Parse(userData)
		require.NoError(t, err)
		require.Equal(t, uuid.Version(4), id.Version())
		require.Equal(t, uuid.RFC4122, id.Variant())
		require.Equal(t, id.String(), userData, "in its usual form")
		require.False(t, seen[userData], "made twice")
		seen[userData] = true
	}
	require.Len(t, seen, callers*each)
}

func TestPaymentTypesAreTheDocuments(t *testing.T) {
	require.Equal(t, []paymentsvc.PaymentType{"card", "sbp", "crypto", "mc"}, []paymentsvc.PaymentType{
		paymentsvc.PaymentTypeCard, paymentsvc.PaymentTypeSBP, paymentsvc.PaymentTypeCrypto, paymentsvc.PaymentTypeMC,
	})
	c := newClient(t, "https://pay.example", over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		t.Errorf("sent to %s", r.URL)
		return nil, errors.ErrUnsupported
	})))
	for _, other := range []paymentsvc.PaymentType{"", "CARD", "Card", "card ", " card", "card/", "../init_payout", "card?x=1", "car", "cards", "wallet"} {
		response, err := c.InitPayment(t.Context(), other, paymentRequest())
		require.Nil(t, response)
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest, "%q", other)
		require.Equal(t, paymentsvc.OutcomeNotSent, paymentsvc.OutcomeOf(err), "%q", other)
	}
}

func TestOnlyStatusNamesOfTheDocumentAreKnown(t *testing.T) {
	for _, tt := range []struct {
		name         paymentsvc.StatusName
		known, final bool
	}{
		{paymentsvc.StatusPending, true, false},
		{paymentsvc.StatusSuccess, true, true},
		{paymentsvc.StatusFailure, true, true},
		{"PENDING", true, false},
		{"SUCCESS", true, true},
		{"FAILURE", true, true},
		{"", false, false},
		{"success", false, false},
		{"Success", false, false},
		{"SUCCESS ", false, false},
		{"SUCCESSFUL", false, false},
		{"REFUNDED", false, false},
		{"CANCELLED", false, false},
	} {
		assert.Equal(t, tt.known, tt.name.Known(), "%q known", tt.name)
		assert.Equal(t, tt.final, tt.name.Final(), "%q final", tt.name)
	}
}

// wire is a client and the body that it sent last.
type wire struct {
	client *paymentsvc.Client
	body   []byte
}

func newWire(t testing.TB) *wire {
	t.Helper()
	w := &wire{}
	w.client = newClient(t, "https://pay.example", over(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		w.body = body
		return canned(http.StatusOK, nil, paymentAnswer), err
	})))
	return w
}

func (w *wire) payment(t require.TestingT, r paymentsvc.PaymentRequest) string {
	w.body = nil
	_, err := w.client.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, r)
	require.NoError(t, err)
	return string(w.body)
}

func (w *wire) payout(t require.TestingT, r paymentsvc.PayoutRequest) string {
	w.body = nil
	_, err := w.client.InitPayout(context.Background(), r)
	require.NoError(t, err)
	return string(w.body)
}

// storable is either type of request.
type storable interface {
	paymentsvc.PaymentRequest | paymentsvc.PayoutRequest
	JSON() (json.RawMessage, error)
}

// queues are ways in which partners store a request and read it back.
func queues[T storable]() map[string]func(T) (T, error) {
	return map[string]func(T) (T, error){
		"JSON": queued[T],
		"JSON, indented": func(in T) (T, error) {
			data, err := in.JSON()
			if err != nil {
				return in, err
			}
			var buf bytes.Buffer
			err = json.Indent(&buf, data, "", "\t")
			return unqueued[T](buf.Bytes(), err)
		},
		"a job around it": func(in T) (out T, err error) {
			type job struct {
				ID      int
				Request json.RawMessage
			}
			var made, got job
			if made.Request, err = in.JSON(); err != nil {
				return out, err
			}
			data, err := json.Marshal(made) // which escapes what HTML needs escaped
			if err != nil {
				return out, err
			}
			if err = json.Unmarshal(data, &got); err != nil {
				return out, err
			}
			return unqueued[T](got.Request, nil)
		},
		"a job that is read whole": func(in T) (out T, err error) {
			data, err := in.JSON()
			if err != nil {
				return out, err
			}
			var got struct{ Request *T }
			err = json.Unmarshal(slices.Concat([]byte(`{"Request":`), data, []byte("}")), &got)
			if err != nil {
				return out, err
			}
			return *got.Request, nil
		},
	}
}

func queued[T storable](in T) (T, error) {
	data, err := in.JSON()
	return unqueued[T](data, err)
}

func unqueued[T any](data []byte, err error) (out T, _ error) {
	if err != nil {
		return out, err
	}
	err = json.Unmarshal(data, &out)
	clear(data) // a queue may use its buffer again
	return out, err
}

type cardData struct {
	Number string      `json:"number"`
	Limit  int64       `json:"limit"`
	Fee    json.Number `json:"fee,omitempty"`
	Note   string      `json:"note"`
	More   any         `json:"more,omitempty"`
}

func TestAPaymentRequestIsStoredWithTheDocumentsNames(t *testing.T) {
	r := paymentRequest()
	want := `{"amount":10.50,"user_data":"order-1"}`
	data, err := r.JSON()
	require.NoError(t, err)
	require.Equal(t, want, string(data), "to the byte: 10.5 would be another number")

	r.CardData = cardData{Number: pan, Limit: 1234567890123456789, Fee: "1.10"}
	r.Browser = map[string]any{"width": 1280}
	r.Payer = json.RawMessage(`{"b":1.10,"a":2}`)
	r.Payee = &cardData{}
	want = `{"amount":10.50,"user_data":"order-1",` +
		`"card_data":{"number":"4111111111111111","limit":1234567890123456789,"fee":1.10,"note":""},` +
		`"browser":{"width":1280},"payer":{"b":1.10,"a":2},"payee":{"number":"","limit":0,"note":""}}`
	data, err = r.JSON()
	require.NoError(t, err)
	require.Equal(t, want, string(data))
}

// A logger that writes JSON must not show a card number, and a redacted copy in a queue would lose it without an error.
func TestEncodingJSONOfARequestFails(t *testing.T) {
	payment, payout := canaryPayment(), canaryPayout()
	type embedded struct {
		paymentsvc.PayoutRequest
		ID int
	}
	for name, v := range map[string]any{
		"PaymentRequest": payment, "*PaymentRequest": &payment, "PayoutRequest": payout, "*PayoutRequest": &payout,
		"the zero PaymentRequest": paymentsvc.PaymentRequest{}, "the zero PayoutRequest": paymentsvc.PayoutRequest{},
		"slice": []paymentsvc.PaymentRequest{payment}, "array": [1]*paymentsvc.PayoutRequest{&payout},
		"map": map[string]any{"request": payout}, "struct": struct{ Request *paymentsvc.PaymentRequest }{&payment},
		"embedded": embedded{payout, 1},
	} {
		data, err := json.Marshal(v)
		require.ErrorIs(t, err, paymentsvc.ErrSensitive, name)
		require.NotErrorIs(t, err, paymentsvc.ErrInvalidRequest, name)
		require.Empty(t, data, name)
		errorShowsNothing(t, name, err)
	}
	data, err := json.Marshal([]any{(*paymentsvc.PaymentRequest)(nil), (*paymentsvc.PayoutRequest)(nil)})
	require.NoError(t, err)
	require.Equal(t, "[null,null]", string(data), "which is nothing")
}

func TestAPaymentRequestComesBackAsItWas(t *testing.T) {
	for name, queue := range queues[paymentsvc.PaymentRequest]() {
		t.Run(name, func(t *testing.T) {
			r := paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("10.50"), UserData: "<a&b>\u2028"}
			got, err := queue(r)
			require.NoError(t, err)
			require.Equal(t, r, got, "without objects")

			if name == "JSON, indented" {
				return // its objects come back as json.RawMessage, with the space that it writes
			}
			r.CardData = map[string]any{"number": pan, "note": "<a&b>\uFFFD", "list": []any{1.5, true, nil, "x", map[string]any{}}}
			r.Browser = map[string]any{}
			r.Payer = json.RawMessage(`{"n":1234567890123456789,"d":1.10}`)
			got, err = queue(r)
			require.NoError(t, err)
			require.Equal(t, r, got, "with objects")
		})
	}
}

func TestAPaymentRequestIsSentAfterAQueueAsBeforeIt(t *testing.T) {
	w := newWire(t)
	for name, queue := range queues[paymentsvc.PaymentRequest]() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := paymentsvc.PaymentRequest{
					Amount:   paymentsvc.MustParseAmount(amountText().Draw(t, "amount")),
					UserData: validText(1).Draw(t, "user data"),
					CardData: openObject().Draw(t, "card data"),
					Browser:  openObject().Draw(t, "browser"),
					Payer:    openObject().Draw(t, "payer"),
					Payee:    openObject().Draw(t, "payee"),
				}
				before := w.payment(t, r)
				got, err := queue(r)
				require.NoError(t, err)
				require.Equal(t, r.Amount, got.Amount)
				require.Equal(t, r.UserData, got.UserData)
				require.Equal(t, tokens(t, before), tokens(t, w.payment(t, got)))

				again, err := queue(got)
				require.NoError(t, err)
				require.Equal(t, tokens(t, before), tokens(t, w.payment(t, again)), "after a second queue")
			})
		})
	}
}

func TestLongNumbersOfAnObjectSurviveAQueueToTheDigit(t *testing.T) {
	w := newWire(t)
	for _, object := range []any{
		json.RawMessage(`{"n":1234567890123456789,"d":1.10,"e":1E+2,"z":-0.0,"t":0.1e-7}`),
		map[string]any{"n": int64(1234567890123456789), "d": json.Number("1.10"), "f": 1e21},
		cardData{Number: pan, Limit: math.MaxInt64, Fee: "1.10"},
		&cardData{Limit: math.MinInt64, Fee: "100000000000000000000.000000000000000000001"},
	} {
		r := paymentRequest()
		r.CardData = object
		before := w.payment(t, r)
		got, err := queued(r)
		require.NoError(t, err)
		require.Equal(t, before, w.payment(t, got), "to the byte, for nothing here is escaped")
	}
}

func TestAnObjectThatIsNotGivenStaysSo(t *testing.T) {
	w := newWire(t)
	var nothing *cardData
	for _, object := range []any{nil, nothing, &nothing, map[string]any(nil), json.RawMessage(nil), json.RawMessage("null")} {
		r := paymentRequest()
		r.CardData = object
		require.Equal(t, `{"partner_id":11,"project_id":22,"amount":10.50,"user_data":"order-1"}`, w.payment(t, r))
		got, err := queued(r)
		require.NoError(t, err)
		require.Equal(t, paymentRequest(), got)
	}
}

// What a client refuses must not become acceptable in a queue.
func TestAValueThatIsNoObjectIsRefusedByTheQueueAndAfterItAsWell(t *testing.T) {
	c := newWire(t).client
	for _, object := range []any{pan, 5, false, []string{pan}, []any{}, json.RawMessage(`"` + pan + `"`)} {
		r := paymentRequest()
		r.CardData = object
		_, err := r.JSON()
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
		require.NotContains(t, err.Error(), pan)

		stored, err := json.Marshal(map[string]any{"amount": 1, "user_data": "u", "card_data": object})
		require.NoError(t, err)
		var got paymentsvc.PaymentRequest
		require.NoError(t, json.Unmarshal(stored, &got))
		_, err = c.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, got)
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
		require.NotContains(t, err.Error(), pan)
	}
}

func TestTextThatJSONWouldChangeIsRefusedByTheQueue(t *testing.T) {
	const invalid = "a\xff"
	card := paymentRequest()
	card.CardData = map[string]string{"holder": invalid}
	user := paymentRequest()
	user.UserData = invalid
	destination, payoutUser := payoutRequest(), payoutRequest()
	destination.Destination = invalid
	payoutUser.UserData = invalid
	for _, request := range []interface {
		JSON() (json.RawMessage, error)
	}{card, user, destination, payoutUser, &destination} {
		_, err := request.JSON()
		require.ErrorIs(t, err, paymentsvc.ErrInvalidRequest)
	}
}

func TestARequestThatIsNotCompleteYetCanBeQueued(t *testing.T) {
	for want, request := range map[string]interface {
		JSON() (json.RawMessage, error)
	}{
		`{"amount":null,"user_data":""}`:                  paymentsvc.PaymentRequest{},
		`{"amount":null,"destination":"","user_data":""}`: paymentsvc.PayoutRequest{},
	} {
		got, err := request.JSON()
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	for want, request := range map[string]any{
		`{"user_data":"u"}`: paymentsvc.StatusPaymentRequest{UserData: "u"},
		`{"order_id":"o"}`:  paymentsvc.StatusPayoutRequest{OrderID: "o"},
	} {
		got, err := json.Marshal(request)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestAStoredRequestMayHaveFieldsBesides(t *testing.T) {
	var r paymentsvc.PaymentRequest
	require.NoError(t, json.Unmarshal([]byte(`{"partner_id":"shop-7","amount":1.50,"user_data":"u"}`), &r))
	require.Equal(t, paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("1.50"), UserData: "u"}, r)

	var payout paymentsvc.PayoutRequest
	require.NoError(t, json.Unmarshal([]byte(`{"partner_id":"shop-7","amount":1.50,"user_data":"u"}`), &payout))
	require.Equal(t, paymentsvc.PayoutRequest{Amount: paymentsvc.MustParseAmount("1.50"), UserData: "u"}, payout)
}

func TestAPaymentRequestIsNotReadFromWhatIsNone(t *testing.T) {
	for _, data := range []string{
		``, `[]`, `"` + pan + `"`, `5`, `true`, `{`, `{"amount":"` + pan + `x"}`, `{"amount":{}}`, `{"user_data":4111111111111111}`,
		`{"user_data":["` + pan + `"]}`, `{"card_data":}`, `{"card_data":{"number":"` + pan + `"`,
	} {
		want := paymentRequest()
		want.CardData = map[string]any{"number": "n"}
		got := want
		require.Error(t, got.UnmarshalJSON([]byte(data)), data)
		err := json.Unmarshal([]byte(data), &got)
		require.Error(t, err, data)
		require.NotContains(t, err.Error(), "4111")
		require.Equal(t, want, got, "an error leaves the request as it was")
	}
}

func TestAPayoutRequestIsNotReadFromWhatIsNone(t *testing.T) {
	for _, data := range []string{
		``, `[]`, `"` + pan + `"`, `5`, `true`, `{`, `{"amount":"` + pan + `x"}`, `{"user_data":4111111111111111}`,
		`{"amount":1,"destination":["` + pan + `"]}`, `{"amount":1,"destination":4111111111111111}`,
	} {
		want := payoutRequest()
		got := want
		require.Error(t, got.UnmarshalJSON([]byte(data)), data)
		err := json.Unmarshal([]byte(data), &got)
		require.Error(t, err, data)
		require.NotContains(t, err.Error(), "4111")
		require.Equal(t, want, got, "an error leaves the request as it was")
	}
}

func TestAStoredRequestReplacesTheOneItIsReadInto(t *testing.T) {
	got := paymentRequest()
	got.CardData = map[string]any{"number": pan}
	require.NoError(t, json.Unmarshal([]byte(`{"amount":"1e1","user_data":"order-2","added":{"later":1}}`), &got))
	require.Equal(t, paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("10"), UserData: "order-2"}, got)

	payout := payoutRequest()
	require.NoError(t, json.Unmarshal([]byte(`{"amount":"1e1","user_data":"payout-2"}`), &payout))
	require.Equal(t, paymentsvc.PayoutRequest{Amount: paymentsvc.MustParseAmount("10"), UserData: "payout-2"}, payout)
}

func TestAPayoutRequestIsSentAfterAQueueAsBeforeIt(t *testing.T) {
	want := `{"amount":10.50,"destination":"4111111111111111","user_data":"payout-1"}`
	data, err := payoutRequest().JSON()
	require.NoError(t, err)
	require.Equal(t, want, string(data))

	w := newWire(t)
	for name, queue := range queues[paymentsvc.PayoutRequest]() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := paymentsvc.PayoutRequest{
					Amount:      paymentsvc.MustParseAmount(amountText().Draw(t, "amount")),
					Destination: validText(1).Draw(t, "destination"),
					UserData:    validText(1).Draw(t, "user data"),
				}
				before := w.payout(t, r)
				got, err := queue(r)
				require.NoError(t, err)
				require.Equal(t, r, got)
				require.Equal(t, before, w.payout(t, got))
			})
		})
	}
}

// validText gives text with all that JSON escapes or might change.
func validText(least int) *rapid.Generator[string] {
	special := rapid.SampledFrom([]rune("<>&\"\\/\u2028\u2029\uFFFD\x00\x1f\x7f\n\té😀"))
	return rapid.StringOfN(rapid.OneOf(rapid.Rune(), special, rapid.RuneFrom([]rune("abc019"))), least, 12, -1)
}

// openObject gives everything that may stand for an object whose members are not shown.
func openObject() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.SampledFrom([]any{nil, map[string]any(nil), (*cardData)(nil), json.RawMessage(nil), map[string]any{}, json.RawMessage(" {\n} ")}),
		rapid.Map(jsonObject(3), func(s string) any { return json.RawMessage(s) }),
		rapid.Map(rapid.MapOf(validText(0), openValue()), func(m map[string]any) any { return m }),
		rapid.Map(rapid.Custom(func(t *rapid.T) cardData {
			return cardData{
				Number: validText(0).Draw(t, "number"),
				Limit:  rapid.Int64().Draw(t, "limit"),
				Fee:    json.Number(jsonNumber().Draw(t, "fee")),
				Note:   validText(0).Draw(t, "note"),
				More:   openValue().Draw(t, "more"),
			}
		}), func(c cardData) any {
			if c.Limit%2 == 0 {
				return &c
			}
			return c
		}),
	)
}

func openValue() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Map(validText(0), func(s string) any { return s }),
		rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		rapid.Map(jsonNumber(), func(s string) any { return json.Number(s) }),
		rapid.Map(jsonObject(2), func(s string) any { return json.RawMessage(s) }),
		rapid.Map(amountText(), func(s string) any { return paymentsvc.MustParseAmount(s) }),
		rapid.SampledFrom([]any{nil, true, 0.1, 1e21, float32(0.1), []int{}, []byte("bytes"), map[int]string{2: "b", 1: "a"}}),
	)
}

func jsonNumber() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"1234567890123456789", "1.10", "-0", "0.00", "1E+2", "1e400", "9007199254740993"}),
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?`),
	)
}

// jsonObject gives the text of an object nested as deep as depth, whose members may stand in any order and twice.
func jsonObject(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range rapid.IntRange(0, 3).Draw(t, "members") {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(jsonText(t) + ":" + jsonValue(t, depth))
		}
		b.WriteByte('}')
		return b.String()
	})
}

func jsonValue(t *rapid.T, depth int) string {
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0:
		return rapid.SampledFrom([]string{"null", "true", " false ", "[]", `"\ud83d\ude00\u003c\/\ufffd"`}).Draw(t, "literal")
	case kind == 1:
		return jsonText(t)
	case kind == 2 && depth > 0:
		return jsonObject(depth-1).Draw(t, "object")
	case kind == 3 && depth > 0:
		return "[" + jsonValue(t, depth-1) + ", " + jsonValue(t, depth-1) + "]"
	default:
		return jsonNumber().Draw(t, "number")
	}
}

// jsonText is a quoted text, with HTML escapes or without.
func jsonText(t *rapid.T) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(rapid.Bool().Draw(t, "HTML escapes"))
	require.NoError(t, enc.Encode(validText(0).Draw(t, "text")))
	return strings.TrimSuffix(buf.String(), "\n")
}

// tokens are everything that stands in a JSON text, in its order, numbers as their text.
func tokens(t require.TestingT, data string) (all []json.Token) {
	dec := json.NewDecoder(strings.NewReader(data))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, token)
	}
}
