package paymentsvc_test

import (
	"bytes"
	"encoding/gob"
	"encoding/xml"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/internal/decimal"
)

func TestAmountRounds(t *testing.T) {
	for in, want := range map[string]string{
		"29.949999999999999": "29.95", "29.945": "29.95", "-29.945": "-29.95", "-0.001": "0.00", "7": "7.00",
	} {
		got, err := paymentsvc.MustParseAmount(in).Round(2)
		require.NoError(t, err)
		require.Equal(t, paymentsvc.MustParseAmount(want), got, in)
	}
	got, err := paymentsvc.AmountFromMinor(math.MaxInt64, 255).Round(2)
	require.NoError(t, err)
	require.Equal(t, "0.00", got.String(), "of more digits than ParseAmount reads")

	_, err = paymentsvc.Amount{}.Round(2)
	require.EqualError(t, err, "paymentsvc: amount is not set")
	got, err = paymentsvc.MustParseAmount("1").Round(64)
	require.ErrorIs(t, err, decimal.ErrTooLong)
	require.Equal(t, paymentsvc.Amount{}, got)
}

// Other encoders, of modules that this one does not require, are tested in tools/encoders.
func TestAmountSurvivesGobAndXML(t *testing.T) {
	type order struct {
		Amount, Unset paymentsvc.Amount
		Pointer       *paymentsvc.Amount
		List          []paymentsvc.Amount
		ByAmount      map[paymentsvc.Amount]paymentsvc.Amount `xml:"-"`
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := paymentsvc.MustParseAmount(amountText().Draw(t, "a")), paymentsvc.MustParseAmount(amountText().Draw(t, "b"))
		want := order{Amount: a, Pointer: &b, List: []paymentsvc.Amount{b, {}, a}}
		var got order
		data, err := xml.Marshal(want)
		require.NoError(t, err)
		require.NoError(t, xml.Unmarshal(data, &got))
		require.Equal(t, want, got)

		want.ByAmount = map[paymentsvc.Amount]paymentsvc.Amount{a: b, {}: a}
		got = order{}
		var buf bytes.Buffer
		require.NoError(t, gob.NewEncoder(&buf).Encode(want))
		require.NoError(t, gob.NewDecoder(&buf).Decode(&got))
		require.Equal(t, want, got)
	})
}

func TestAmountReadsYAMLSource(t *testing.T) {
	for in, want := range map[string]string{
		"10.50": "10.50", `"10.50"`: "10.50", "'10.50'\n": "10.50", "1e2": "100", "null": "", "~": "", "": "", `""`: "",
	} {
		got := paymentsvc.MustParseAmount("99")
		require.NoError(t, got.UnmarshalYAML([]byte(in)), "%q", in)
		require.Equal(t, want, got.String(), "%q", in)
	}
	for _, in := range []string{"0x10", "010", "1_000", ".inf", "'", `"1`, `'1"`, `"null"x`, "{}", "[1]", "1 # one", pan + "x"} {
		got := paymentsvc.MustParseAmount("99")
		err := got.UnmarshalYAML([]byte(in))
		require.ErrorIs(t, err, decimal.ErrSyntax, "%q", in)
		require.NotContains(t, err.Error(), "4111")
		require.Equal(t, "99", got.String(), "%q", in)
	}
}

func TestAmountInBSON(t *testing.T) {
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
