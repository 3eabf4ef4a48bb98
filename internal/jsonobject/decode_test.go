package jsonobject_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// canary is text in data. Errors must not contain it.
const canary = "4111111111111111"

// answer has a field of each kind.
type answer struct {
	orderID string
	status  int64
	note    string
	count   int64
	extra   value
}

func (a *answer) fields() []jsonobject.Field {
	return []jsonobject.Field{
		{Name: "order_id", Into: &a.orderID, Need: jsonobject.Filled},
		{Name: "status", Into: &a.status, Need: jsonobject.Required},
		{Name: "note", Into: &a.note},
		{Name: "count", Into: &a.count},
		{Name: "extra", Into: &a.extra},
	}
}

// value is a json.Unmarshaler that stores its argument.
type value struct{ text string }

func (v *value) UnmarshalJSON(b []byte) error {
	v.text = string(b)
	return nil
}

// decode returns the error of jsonobject.Decode.
func decode(data []byte, fields []jsonobject.Field) error {
	_, err := jsonobject.Decode(data, fields)
	return err
}

func TestDecodeReads(t *testing.T) {
	least := answer{orderID: "o", status: 1}
	for _, tt := range []struct {
		data string
		want answer
	}{{`{"order_id":"o","status":1}`, least}, {`{"status":1,"order_id":"o"}`, least},
		{" \t\r\n{ \"order_id\" : \"o\" ,\n\"status\"\t:\r1 } \n", least},
		{
			`{"order_id":"o","status":-3,"note":"n","count":9223372036854775807,"extra":{"a":[1,{"b":"}]"}]}}`,
			answer{"o", -3, "n", 9223372036854775807, value{`{"a":[1,{"b":"}]"}]}`}},
		},
		{`{"order_id":"o","status":1.0,"count":-0.0}`, least},
		{`{"order_id":"o","status":1e0,"count":0.20E+2}`, answer{orderID: "o", status: 1, count: 20}},
		{`{"order_id":"o","status":100e-2,"count":-5.00e-0}`, answer{orderID: "o", status: 1, count: -5}},
		{`{"order_id":"o","status":1,"count":0e-99999999999}`, least},
		{
			`{"order_id":"o","status":1,"count":9.223372036854775807e18}`,
			answer{orderID: "o", status: 1, count: 9223372036854775807},
		},
		{`{"order_id":"o","status":-9223372036854775808}`, answer{orderID: "o", status: -9223372036854775808}},
		{`{"order_id":"o","status":"1","count":"007"}`, answer{orderID: "o", status: 1, count: 7}},
		{
			`{"order_id":"o","status":"\u0031","count":"-9223372036854775808"}`,
			answer{orderID: "o", status: 1, count: -9223372036854775808},
		},
		{`{"order_id":"o","status":1,"note":null,"count":null,"extra":null}`, least},
		{`{"order_id":"o","status":1,"note":""}`, least},
		{"{\"order_id\":\"o\",\"status\":1,\"extra\": \n[ 1 ]\t}", answer{"o", 1, "", 0, value{`[ 1 ]`}}},

		{`{"order_id":"\u006f\"\\\/\b\f\n\r\t\u00e9","status":1}`, answer{orderID: "o\"\\/\b\f\n\r\té", status: 1}},
		{`{"order_id":"\ud83d\ude00","status":1}`, answer{orderID: "😀", status: 1}},
		{"{\"order_id\":\"\uFFFD\",\"status\":1}", answer{orderID: "\uFFFD", status: 1}},
		{"{\"order_id\":\"\\n\uFFFD\",\"status\":1}", answer{orderID: "\n\uFFFD", status: 1}},
		{`{"order_id":"\ufffd\uFFFD\\ufffd","status":1}`, answer{orderID: "\uFFFD\uFFFD\\ufffd", status: 1}},
		{`{"order\u005fid":"o","\u0073tatu\u0073":1}`, least},

		{
			`{"a":"x","b":1.5e3,"c":true,"d":false,"e":null,"f":{},"g":[],"order_id":"o","h":{"order_id":"no"},` +
				`"i":[{"status":9}],"status":1,"j":-0}`,
			least,
		},
		{`{"a":1,"order_id":"o","a":2,"status":1,"a":3}`, least},
		{`{"order_id2":"no","order_id":"o","statu":9,"status":1,"":8}`, least},
		{`{"a":"{[\"","order_id":"o","b":"\\","c":["\\\"]}"],"status":1}`, least},
		{"{\"a\":\"\xff\",\"\xff\":1,\"order_id\":\"o\",\"status\":1}", least},
		{`{"a":"\ud800","\udc00":1,"order_id":"o","status":1}`, least},
	} {
		var got answer
		malformed, err := jsonobject.Decode([]byte(tt.data), got.fields())
		require.NoError(t, err, tt.data)
		require.Empty(t, malformed, tt.data)
		require.Equal(t, tt.want, got, tt.data)
	}
}

func TestDecodeRejects(t *testing.T) {
	for want, list := range map[string][]string{
		"status: missing": {
			`{"order_id":"` + canary + `"}`, `{"order_id":"` + canary + `","status ":1}`,
			`{"order_id":"` + canary + `","status\ud800":1}`,
		},
		"order_id: missing": {`{"status":1,"note":"` + canary + `"}`, `{}`},
		"status: wrong letter case": {
			`{"order_id":"` + canary + `","Status":1}`, `{"order_id":"` + canary + `","\u0053tatus":1}`,
			`{"order_id":"` + canary + `","\u017ftatus":1}`,
		},
		"order_id: wrong letter case": {`{"order_id":"a","status":1,"ORDER_ID":"` + canary + `"}`},
		"status: null":                {`{"order_id":"` + canary + `","status":null}`},
		"order_id: null":              {`{"order_id":null,"status":4111111111111111}`},
		"order_id: empty":             {`{"order_id":"","status":4111111111111111}`},
		"order_id: duplicate field": {
			`{"order_id":"a","status":1,"order_id":"` + canary + `"}`,
			`{"order_id":"a","status":1,"order\u005Fid":"` + canary + `"}`,
		},
		"status: duplicate field": {`{"order_id":"a","status":1,"status":1}`},
		"order_id: not a string": {
			`{"order_id":4111111111111111,"status":1}`, `{"order_id":{"a":"` + canary + `"},"status":1}`,
			`{"order_id":["` + canary + `"],"status":1}`, `{"order_id":true,"status":4111111111111111}`,
		},
		"status: not a 64-bit integer": {
			`{"order_id":"a","status":"` + canary + `0000"}`, `{"order_id":"a","status":4111111111111111.5}`,
			`{"order_id":"a","status":"` + canary + `.0"}`, `{"order_id":"a","status":"+` + canary + `"}`,
			`{"order_id":"a","status":"` + canary + ` "}`, `{"order_id":"a","status":"0x` + canary + `"}`,
			`{"order_id":"a","status":""}`, `{"order_id":"a","status":"-"}`, `{"order_id":"a","status":"1\ud800"}`,
			`{"order_id":"a","status":4111111111111111e9}`, `{"order_id":"a","status":1e99999999999}`,
			`{"order_id":"a","status":1e-99999999999}`, `{"order_id":"a","status":9.223372036854775808e18}`,
			`{"order_id":"a","status":41111111111111110000}`, `{"order_id":"a","status":{"a":"` + canary + `"}}`,
		},
		"order_id: not valid UTF-8": {
			"{\"order_id\":\"" + canary + "\xff\",\"status\":1}",
			"{\"order_id\":\"\\n" + canary + "\xc3\",\"status\":1}",
		},
		"order_id: half a surrogate pair": {
			`{"order_id":"` + canary + `\ud83d","status":1}`, `{"order_id":"\uDE00` + canary + `","status":1}`,
			`{"order_id":"\ufffd\ud83d\uFFFD` + "\uFFFD" + `\\ufffd` + canary + `","status":1}`,
			`{"order_id":"\ude00\ud83d` + canary + `","status":1}`,
		},
		"not a JSON object": {`null`, `["` + canary + `"]`, `"` + canary + `"`, canary, " true "},
		"more than one JSON value": {
			`{"order_id":"` + canary + `","status":1}{}`, `{"order_id":"` + canary + `","status":1}` + " \n1",
			`{"order_id":"` + canary + `","status":1}}`, `{"order_id":"` + canary + `","status":1}` + "\x00",
		},
		"not JSON": {
			`<html>` + canary + `</html>`, "\ufeff" + `{"order_id":"` + canary + `","status":1}`,
			`{"order_id":"` + canary + `","status":1,}`, `{order_id:"` + canary + `","status":1}`,
			`{'order_id':'` + canary + `','status':1}`, `{"order_id" "` + canary + `","status":1}`,
			`{/*` + canary + `*/"order_id":"a","status":1}`, "{\"order_id\":\"" + canary + "\n\",\"status\":1}",
			`{"order_id":"` + canary + `\x","status":1}`, `{"order_id":"` + canary + `","status":01}`,
			`{"order_id":"` + canary + `","status":nil}`,
		},
	} {
		for _, data := range list {
			_, err := jsonobject.Decode([]byte(data), new(answer).fields())
			require.EqualError(t, err, want, "the whole text, so that no data can be in it: %s", data)
		}
	}
}

func TestValueReturnsTheFirstNonEmptyMember(t *testing.T) {
	for data, want := range map[string]string{
		`{"id":"a"}`:                  `"a"`,
		"\ufeff" + ` { "id" : 17 }`:   `17`,
		`{"x":{"id":"no"},"id":"a"}`:  `"a"`,
		`{"ID":"no","id":"a"}`:        `"a"`,
		`{"\u0069d":"a"}`:             `"a"`,
		`{"id":"","id":"a","id":"b"}`: `"a"`,
		`{"id":"a","x":"cut here`:     `"a"`,
		`{"id":"a"`:                   `"a"`,
		`{"id":"cut`:                  ``,
		`{"id":true}`:                 `true`,
		`{"id":"00"}`:                 `"00"`,
		`{"id":[ 0 ]}`:                `[ 0 ]`,
		`{"id":0.001}`:                `0.001`,
		`{"id":null}`:                 ``,
		`{"id":false}`:                ``,
		`{"id":0}`:                    ``,
		`{"id":-0.00e+7}`:             ``,
		`{"id":"0"}`:                  ``,
		`{"id":{ }}`:                  ``,
		`{"id":[]}`:                   ``,
		`{}`:                          ``,
		`["id"]`:                      ``,
		`"id"`:                        ``,
		``:                            ``,
		`<html>`:                      ``,
	} {
		require.Equal(t, want, string(jsonobject.Value([]byte(data), "id")), data)
	}
}

func TestDecodeReportsCutData(t *testing.T) {
	data := `{"order_id":"a\u00e9\"` + canary + `é","status":-12,"x":[1.5e+3,{"y":null}, true, false],"note":"n"}`
	require.NoError(t, decode([]byte(data), new(answer).fields()))
	for end := range len(data) {
		_, err := jsonobject.Decode([]byte(data[:end]), new(answer).fields())
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "cut at %d", end)
		require.NotContains(t, err.Error(), "4111")
	}
	for _, blank := range []string{"", " ", "\r\n\t "} {
		require.ErrorIs(t, decode([]byte(blank), nil), io.ErrUnexpectedEOF, "%q", blank)
	}
	require.ErrorIs(t, decode(nil, nil), io.ErrUnexpectedEOF)
}

func TestDecodeRejectsUnsupportedTargets(t *testing.T) {
	var n int
	for _, into := range []any{&n, nil, "text"} {
		_, err := jsonobject.Decode([]byte(`{"a":`+canary+`}`), []jsonobject.Field{
			{Name: "a", Into: into, Need: jsonobject.Required},
		})
		require.EqualError(t, err, fmt.Sprintf("a: jsonobject: no way to read a %T", into))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(` { "order\u005fid" : "\ud83d\ude00" , "status" : 1e0 , "note" : null , "extra" : [ 1 ] } `))
	f.Add([]byte(`{"a":[{"b":"]}\""}],"order_id":"` + canary + `","Status":"` + canary + `","note":"\ud83d"}{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		member := `{"x":` + string(data) + `}`
		require.Equal(t, json.Valid([]byte(member)), accepts(member), "the grammar")
		before := bytes.Clone(data)
		var got answer
		malformed, err := jsonobject.Decode(data, got.fields())
		require.Equal(t, before, data, "the input was changed")

		if err != nil {
			// An error has at most the name of a field and a reason, so it contains no data.
			require.LessOrEqual(t, len(err.Error()), len("not a whole JSON object: unexpected EOF"))
			require.NotContains(t, err.Error(), canary)
			return
		}
		if len(malformed) > 0 {
			require.Subset(t, []string{"note", "count", "extra"}, malformed, "only optional fields")
			return
		}
		var want struct {
			OrderID string `json:"order_id"`
			Note    string `json:"note"`
			Status  *json.Number
			Count   json.Number
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		require.NoError(t, dec.Decode(&want))
		require.Equal(t, want.OrderID, got.orderID)
		require.NotEmpty(t, got.orderID)
		require.Equal(t, want.Note, got.note)
		require.NotNil(t, want.Status)
		for n, text := range map[*int64]json.Number{&got.status: *want.Status, &got.count: cmp.Or(want.Count, "0")} {
			if !strings.ContainsAny(string(text), "eE") { // for a long exponent, big.Rat would fill the memory
				same, ok := new(big.Rat).SetString(string(text))
				require.True(t, ok && same.Cmp(new(big.Rat).SetInt64(*n)) == 0, "%s as %d", text, *n)
			}
		}
	})
}

// pieces are parts of JSON texts, valid and almost valid.
var pieces = []string{
	`{`, `}`, `[`, `]`, `,`, `:`, ` `, "\t", "\n", "\r", "\v", "\x00", "\u00a0", "\ufeff",
	`"a"`, `""`, `"`, `"\"`, `"\\"`, `"\/\b\f\n\r\t\""`, `"\u00aF"`, `"\u00ag"`, `"\u00a"`, `"\x"`, "\"\x1f\"",
	"\"\x7f\xff\"",
	`true`, `false`, `null`, `tru`, `nulll`, `True`, `NaN`,
	`0`, `-0`, `01`, `-`, `+1`, `12`, `-12`, `1.5`, `1.`, `.5`, `1e5`, `1E+05`, `1e-0`, `1e`, `1e+`, `1.5e3.`, `0x1`,
}

// accepts reports whether Decode without fields accepts text.
func accepts(text string) bool { return decode([]byte(text), nil) == nil }

func TestDecodeAgreesWithEncodingJSON(t *testing.T) {
	check := func(text string) {
		object := strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{")
		if (object && json.Valid([]byte(text))) != accepts(text) {
			require.Failf(t, "", "json.Valid returns %t: %.100q", json.Valid([]byte(text)), text)
		}
	}
	for _, depth := range []int{9_999, 10_000, 10_001, 200_000} { // the limit of encoding/json is 10,000
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
