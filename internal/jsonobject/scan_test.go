package jsonobject_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pieces are what JSON texts are made of, right and nearly right.
var pieces = []string{
	`{`, `}`, `[`, `]`, `,`, `:`, ` `, "\t", "\n", "\r", "\v", "\x00", "\u00a0", "\ufeff",
	`"a"`, `""`, `"`, `"\"`, `"\\"`, `"\/\b\f\n\r\t\""`, `"\u00aF"`, `"\u00ag"`, `"\u00a"`, `"\x"`, "\"\x1f\"",
	"\"\x7f\xff\"",
	`true`, `false`, `null`, `tru`, `nulll`, `True`, `NaN`,
	`0`, `-0`, `01`, `-`, `+1`, `12`, `-12`, `1.5`, `1.`, `.5`, `1e5`, `1E+05`, `1e-0`, `1e`, `1e+`, `1.5e3.`, `0x1`,
}

// accepts says whether Decode, asked for nothing, takes text for an object.
func accepts(text string) bool { return decode([]byte(text), nil) == nil }

func TestDecodeAgreesWithEncodingJSON(t *testing.T) {
	check := func(text string) {
		object := strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{")
		if (object && json.Valid([]byte(text))) != accepts(text) {
			require.Failf(t, "", "json.Valid says %t: %.100q", json.Valid([]byte(text)), text)
		}
	}
	for _, depth := range []int{9_999, 10_000, 10_001, 200_000} { // encoding/json reads 10,000
		check(strings.Repeat(`{"x":`, depth) + "1" + strings.Repeat("}", depth))
		check(`{"x":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}")
	}
	for _, a := range pieces {
		for _, frame := range []string{
			`{"x":%}`, `{%:1}`, `{"x":[%]}`, `{"x":{"y":%}}`, `{%}`, `%`, `{}%`, `%{}`,
			`{"x":1%}`, `{"x"%1}`, `{"x":[1%2]}`, `{"x":1%"y":2}`, `{"x":[1%]}`, `{%"x":1}`,
		} {
			check(strings.Replace(frame, "%", a, 1))
		}
		for _, b := range pieces {
			check(`{"x":` + a + b + `}`)
			check(`{"x":[` + a + b + `]}`)
			check(`{` + a + `:` + b + `}`)
			check(a + b)
			for _, c := range pieces {
				check(`{"x":[` + a + b + c + `]}`)
				check(`{` + a + b + c + `}`)
			}
		}
	}
}

func FuzzGrammar(f *testing.F) {
	for _, piece := range pieces {
		f.Add(piece)
	}
	f.Fuzz(func(t *testing.T, value string) {
		text := `{"x":` + value + `}`
		require.Equal(t, json.Valid([]byte(text)), accepts(text))
	})
}
