package jsonobject_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// canary is text that stands in data and may stand in no error.
const canary = "4111111111111111"

// answer has one field of every kind.
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

// value is a json.Unmarshaler that keeps what it is given, and refuses the text "refuse".
type value struct{ text string }

var errRefused = errors.New("refused by the value")

func (v *value) UnmarshalJSON(b []byte) error {
	if string(b) == `"refuse"` {
		return errRefused
	}
	v.text = string(b)
	return nil
}

func TestDecodeReads(t *testing.T) {
	least := answer{orderID: "o", status: 1}
	for _, tt := range []struct {
		name, data string
		want       answer
	}{
		{"the required fields", `{"order_id":"o","status":1}`, least},
		{"any order", `{"status":1,"order_id":"o"}`, least},
		{"space everywhere", " \t\r\n{ \"order_id\" : \"o\" ,\n\"status\"\t:\r1 } \n", least},
		{
			"every field",
			`{"order_id":"o","status":-3,"note":"n","count":9223372036854775807,"extra":{"a":[1,{"b":"}]"}]}}`,
			answer{"o", -3, "n", 9223372036854775807, value{`{"a":[1,{"b":"}]"}]}`}},
		},
		{"the smallest int64", `{"order_id":"o","status":-9223372036854775808}`, answer{orderID: "o", status: -9223372036854775808}},
		{"an optional field that is null", `{"order_id":"o","status":1,"note":null,"count":null,"extra":null}`, least},
		{"an optional text that is empty", `{"order_id":"o","status":1,"note":""}`, least},
		{"an unmarshaler sees no space around its value", "{\"order_id\":\"o\",\"status\":1,\"extra\": \n[ 1 ]\t}", answer{"o", 1, "", 0, value{`[ 1 ]`}}},

		{"escapes in a text", `{"order_id":"\u006f\"\\\/\b\f\n\r\t\u00e9","status":1}`, answer{orderID: "o\"\\/\b\f\n\r\té", status: 1}},
		{"a surrogate pair in a text", `{"order_id":"\ud83d\ude00","status":1}`, answer{orderID: "😀", status: 1}},
		{"U+FFFD in a text", "{\"order_id\":\"\uFFFD\",\"status\":1}", answer{orderID: "\uFFFD", status: 1}},
		{"U+FFFD beside an escape in a text", "{\"order_id\":\"\\n\uFFFD\",\"status\":1}", answer{orderID: "\n\uFFFD", status: 1}},
		{"an escaped U+FFFD in a text", `{"order_id":"\ufffd\uFFFD\\ufffd","status":1}`, answer{orderID: "\uFFFD\uFFFD\\ufffd", status: 1}},
		{"escapes in a name", `{"order\u005fid":"o","\u0073tatu\u0073":1}`, least},

		{"unknown fields of every kind", `{"a":"x","b":1.5e3,"c":true,"d":false,"e":null,"f":{},"g":[],"order_id":"o","h":{"order_id":"no"},"i":[{"status":9}],"status":1,"j":-0}`, least},
		{"an unknown field that stands twice", `{"a":1,"order_id":"o","a":2,"status":1,"a":3}`, least},
		{"a longer name is another field", `{"order_id2":"no","order_id":"o","statu":9,"status":1,"":8}`, least},
		{"brackets and quotes inside texts", `{"a":"{[\"","order_id":"o","b":"\\","c":["\\\"]}"],"status":1}`, least},
		{"invalid UTF-8 in an unknown field", "{\"a\":\"\xff\",\"\xff\":1,\"order_id\":\"o\",\"status\":1}", least},
		{"half a surrogate pair in an unknown field", `{"a":"\ud800","\udc00":1,"order_id":"o","status":1}`, least},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got answer
			require.NoError(t, jsonobject.Decode([]byte(tt.data), got.fields()))
			require.Equal(t, tt.want, got)
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, tt := range []struct{ name, data, want string }{
		{"a required field that is missing", `{"order_id":"` + canary + `"}`, "status: missing"},
		{"a filled field that is missing", `{"status":1,"note":"` + canary + `"}`, "order_id: missing"},
		{"no field", `{}`, "order_id: missing"},
		{"a name in other case", `{"order_id":"` + canary + `","Status":1}`, "status: in other case"},
		{"a name in other case beside the right one", `{"order_id":"a","status":1,"ORDER_ID":"` + canary + `"}`, "order_id: in other case"},
		{"an optional name in other case", `{"order_id":"` + canary + `","status":1,"Note":"a"}`, "note: in other case"},
		{"an escaped name in other case", `{"order_id":"` + canary + `","\u0053tatus":1}`, "status: in other case"},
		{"a name that other readers fold to a known one", `{"order_id":"` + canary + `","\u017ftatus":1}`, "status: in other case"},
		{"a name with a space", `{"order_id":"` + canary + `","status ":1}`, "status: missing"},
		{"a name with half a surrogate pair", `{"order_id":"` + canary + `","status\ud800":1}`, "status: missing"},
		{"a required field that is null", `{"order_id":"` + canary + `","status":null}`, "status: null"},
		{"a filled field that is null", `{"order_id":null,"status":4111111111111111}`, "order_id: null"},
		{"a filled field that is empty", `{"order_id":"","status":4111111111111111}`, "order_id: empty"},

		{"a known field that stands twice", `{"order_id":"a","status":1,"order_id":"` + canary + `"}`, "order_id: stands twice"},
		{"a known field that stands twice with one value", `{"order_id":"a","status":1,"status":1}`, "status: stands twice"},
		{"an optional field that stands twice", `{"order_id":"a","status":1,"note":"` + canary + `","note":"b"}`, "note: stands twice"},
		{"a known field that stands twice, null first", `{"order_id":"a","status":1,"note":null,"note":"` + canary + `"}`, "note: stands twice"},
		{"a known field that stands twice, once escaped", `{"order_id":"a","status":1,"order\u005Fid":"` + canary + `"}`, "order_id: stands twice"},

		{"a number for a text", `{"order_id":4111111111111111,"status":1}`, "order_id: not a text"},
		{"an object for a text", `{"order_id":{"a":"` + canary + `"},"status":1}`, "order_id: not a text"},
		{"an array for a text", `{"order_id":["` + canary + `"],"status":1}`, "order_id: not a text"},
		{"a truth value for a text", `{"order_id":true,"status":4111111111111111}`, "order_id: not a text"},
		{"a text for an integer", `{"order_id":"a","status":"` + canary + `"}`, "status: not an integer of 64 bits"},
		{"decimals for an integer", `{"order_id":"a","status":4111111111111111.5}`, "status: not an integer of 64 bits"},
		{"an exponent for an integer", `{"order_id":"a","status":4111111111111111e1}`, "status: not an integer of 64 bits"},
		{"an integer of more than 64 bits", `{"order_id":"a","status":41111111111111110000}`, "status: not an integer of 64 bits"},
		{"an object for an integer", `{"order_id":"a","status":{"a":"` + canary + `"}}`, "status: not an integer of 64 bits"},
		{"an optional field of another type", `{"order_id":"` + canary + `","status":1,"note":5}`, "note: not a text"},

		{"invalid UTF-8 in a known text", "{\"order_id\":\"" + canary + "\xff\",\"status\":1}", "order_id: not valid UTF-8"},
		{"invalid UTF-8 in an optional text", "{\"order_id\":\"a\",\"status\":1,\"note\":\"" + canary + "\xed\xa0\x80\"}", "note: not valid UTF-8"},
		{"invalid UTF-8 behind an escape", "{\"order_id\":\"\\n" + canary + "\xc3\",\"status\":1}", "order_id: not valid UTF-8"},
		{"the first half of a surrogate pair", `{"order_id":"` + canary + `\ud83d","status":1}`, "order_id: half a surrogate pair"},
		{"the second half of a surrogate pair", `{"order_id":"\uDE00` + canary + `","status":1}`, "order_id: half a surrogate pair"},
		{"half a surrogate pair beside U+FFFD", `{"order_id":"\ufffd\ud83d\uFFFD` + "\uFFFD" + `\\ufffd` + canary + `","status":1}`, "order_id: half a surrogate pair"},
		{"the halves of a surrogate pair in the wrong order", `{"order_id":"\ude00\ud83d` + canary + `","status":1}`, "order_id: half a surrogate pair"},

		{"null", `null`, "not a JSON object"},
		{"an array", `["` + canary + `"]`, "not a JSON object"},
		{"a text", `"` + canary + `"`, "not a JSON object"},
		{"a number", canary, "not a JSON object"},
		{"a truth value", " true ", "not a JSON object"},

		{"a second object", `{"order_id":"` + canary + `","status":1}{}`, "more than one JSON value"},
		{"a second value behind space", `{"order_id":"` + canary + `","status":1}` + " \n1", "more than one JSON value"},
		{"a stray bracket behind the object", `{"order_id":"` + canary + `","status":1}}`, "more than one JSON value"},
		{"a zero byte behind the object", `{"order_id":"` + canary + `","status":1}` + "\x00", "more than one JSON value"},

		{"a page of HTML", `<html>` + canary + `</html>`, "not JSON"},
		{"a byte order mark", "\ufeff" + `{"order_id":"` + canary + `","status":1}`, "not JSON"},
		{"a comma at the end", `{"order_id":"` + canary + `","status":1,}`, "not JSON"},
		{"a name without quotes", `{order_id:"` + canary + `","status":1}`, "not JSON"},
		{"single quotes", `{'order_id':'` + canary + `','status':1}`, "not JSON"},
		{"a missing colon", `{"order_id" "` + canary + `","status":1}`, "not JSON"},
		{"a comment", `{/*` + canary + `*/"order_id":"a","status":1}`, "not JSON"},
		{"a line break inside a text", "{\"order_id\":\"" + canary + "\n\",\"status\":1}", "not JSON"},
		{"an escape that is none", `{"order_id":"` + canary + `\x","status":1}`, "not JSON"},
		{"a number that is none", `{"order_id":"` + canary + `","status":01}`, "not JSON"},
		{"a literal that is none", `{"order_id":"` + canary + `","status":nil}`, "not JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got answer
			err := jsonobject.Decode([]byte(tt.data), got.fields())
			require.EqualError(t, err, tt.want, "the whole text, so that no data can stand in it")
		})
	}
}

func TestDecodeReportsCutData(t *testing.T) {
	data := `{"order_id":"a\u00e9\"` + canary + `é","status":-12,"x":[1.5e+3,{"y":null}, true, false],"note":"n"}`
	require.NoError(t, jsonobject.Decode([]byte(data), new(answer).fields()))
	for end := range len(data) {
		err := jsonobject.Decode([]byte(data[:end]), new(answer).fields())
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "cut at %d", end)
		require.NotContains(t, err.Error(), "4111")
	}
	for _, blank := range []string{"", " ", "\r\n\t "} {
		require.ErrorIs(t, jsonobject.Decode([]byte(blank), nil), io.ErrUnexpectedEOF, "%q", blank)
	}
	require.ErrorIs(t, jsonobject.Decode(nil, nil), io.ErrUnexpectedEOF)
}

// Data that is whole but wrong must not look as if a connection had broken.
func TestDecodeReportsOnlyCutDataAsCut(t *testing.T) {
	for _, data := range []string{`{}`, `null`, `{} {`, `{"order_id":"a","status":1}x`, `{,`, `<`} {
		err := jsonobject.Decode([]byte(data), new(answer).fields())
		require.Error(t, err)
		require.NotErrorIs(t, err, io.ErrUnexpectedEOF, data)
	}
}

func TestDecodeSurvivesDeepNesting(t *testing.T) {
	nested := func(depth int, open, end string) []byte {
		return []byte(`{"order_id":"` + canary + `","status":1,"x":` + strings.Repeat(open, depth) + strings.Repeat(end, depth) + `}`)
	}
	require.NoError(t, jsonobject.Decode(nested(9_999, "[", "]"), new(answer).fields()))
	for _, data := range [][]byte{
		nested(10_001, "[", "]"),
		nested(10_001, `{"a":`, "}"), // also cut where the innermost value should be
		nested(200_000, "[", ""),
		[]byte(strings.Repeat("[", 10_001)),
		[]byte(strings.Repeat(`{"a":`, 10_001)),
	} {
		err := jsonobject.Decode(data, new(answer).fields())
		require.EqualError(t, err, "not JSON")
	}
}

func TestDecodeReachesTheErrorOfAnUnmarshaler(t *testing.T) {
	err := jsonobject.Decode([]byte(`{"order_id":"a","status":1,"extra":"refuse"}`), new(answer).fields())
	require.ErrorIs(t, err, errRefused)
	require.EqualError(t, err, "extra: refused by the value")
}

func TestDecodeAsksAnUnmarshalerForNoNull(t *testing.T) {
	for _, need := range []jsonobject.Need{jsonobject.Required, jsonobject.Filled} {
		var v value
		fields := []jsonobject.Field{{Name: "extra", Into: &v, Need: need}}
		require.EqualError(t, jsonobject.Decode([]byte(`{"extra": null }`), fields), "extra: null")
		require.NoError(t, jsonobject.Decode([]byte(`{"extra":""}`), fields), "Filled is for texts")
		require.Equal(t, `""`, v.text)
	}
}

func TestDecodeAllowsARequiredTextToBeEmpty(t *testing.T) {
	text := "before"
	fields := []jsonobject.Field{{Name: "text", Into: &text, Need: jsonobject.Required}}
	require.NoError(t, jsonobject.Decode([]byte(`{"text":""}`), fields))
	require.Empty(t, text)
}

func TestDecodeRefusesATargetItCannotFill(t *testing.T) {
	var n int
	for _, into := range []any{&n, nil, "text"} {
		err := jsonobject.Decode([]byte(`{"a":`+canary+`}`), []jsonobject.Field{{Name: "a", Into: into}})
		require.EqualError(t, err, fmt.Sprintf("a: jsonobject: no way to read a %T", into))
	}
}

func TestDecodeKnowsSixtyFourFields(t *testing.T) {
	into := make([]int64, 64)
	var fields []jsonobject.Field
	var members []string
	for i := range into {
		name := "f" + strconv.Itoa(i)
		fields = append(fields, jsonobject.Field{Name: name, Into: &into[i], Need: jsonobject.Required})
		members = append(members, fmt.Sprintf("%q:%d", name, i+1))
	}
	object := func(members []string) []byte { return []byte("{" + strings.Join(members, ",") + "}") }
	require.NoError(t, jsonobject.Decode(object(members), fields))
	for i := range into {
		require.EqualValues(t, i+1, into[i])
	}
	require.EqualError(t, jsonobject.Decode(object(members[:63]), fields), "f63: missing")
	require.EqualError(t, jsonobject.Decode(object(append(members, `"f63":1`)), fields), "f63: stands twice")
}

func TestDecodeKeepsNothingOfItsInput(t *testing.T) {
	data := []byte(`{"order_id":"plain","note":"esc\u0061ped","status":1}`)
	var got answer
	require.NoError(t, jsonobject.Decode(data, got.fields()))
	for i := range data {
		data[i] = 'x'
	}
	require.Equal(t, answer{orderID: "plain", note: "escaped", status: 1}, got)
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"order_id":"o","status":1}`,
		` { "order_id" : "o" , "status" : -1 , "note" : null , "count" : 2 , "extra" : [ 1 ] } `,
		`{"order_id":"","status":1}`,
		`{"order_id":"o","status":1,"status":1}`,
		`{"Order_id":"o","status":1}`,
		`{"order\u005fid":"\ud83d\ude00","status":1}`,
		`{"order_id":"\ud83d","status":1,"note":"\\ud83d"}`,
		"{\"order_id\":\"\xff\",\"status\":1}",
		`{"order_id":"o","status":1.0,"count":1e2}`,
		`{"order_id":"o","status":1,"extra":"refuse"}`,
		`{"a":[{"b":"]}\""}],"order_id":"o","status":-0}`,
		`{"order_id":"o","status":1}{}`,
		`{"order_id":"o","status":`,
		`[]`, `null`, `"`, ``, `{`, `{}`,
		`{"order_id":"` + canary + `","status":"` + canary + `"}`,
		strings.Repeat(`{"a":`, 50) + "1" + strings.Repeat("}", 50),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		var got answer
		err := jsonobject.Decode(data, got.fields())
		require.Equal(t, before, data, "the input was changed")

		want, ok := reference(data)
		require.Equal(t, ok, err == nil, "the error is %v", err)
		if ok {
			require.Equal(t, want, got)
			return
		}
		// No error is longer than a field's name and a reason: it can hold no data of any length.
		require.LessOrEqual(t, len(err.Error()), len("not a whole JSON object: unexpected EOF"))
		require.NotContains(t, err.Error(), canary)
	})
}

// reference does what Decode should with the tokens of encoding/json.
func reference(data []byte) (a answer, ok bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil || object == nil {
		return a, false
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return a, false
	}
	known := map[string]json.RawMessage{}
	for dec.More() {
		name, err := dec.Token()
		var member json.RawMessage
		if err != nil || dec.Decode(&member) != nil {
			return a, false
		}
		for _, field := range a.fields() {
			if !strings.EqualFold(field.Name, name.(string)) {
				continue
			}
			if _, again := known[field.Name]; again || field.Name != name {
				return a, false
			}
			known[field.Name] = member
		}
	}
	text := func(name string, into *string) bool {
		raw := known[name]
		if raw == nil || string(raw) == "null" {
			return true
		}
		return utf8.Valid(raw) && wholeSurrogates(string(raw)) && json.Unmarshal(raw, into) == nil
	}
	integer := func(name string, into *int64) bool {
		raw := known[name]
		return raw == nil || json.Unmarshal(raw, into) == nil
	}
	ok = text("order_id", &a.orderID) && a.orderID != "" &&
		integer("status", &a.status) && known["status"] != nil && string(known["status"]) != "null" &&
		text("note", &a.note) && integer("count", &a.count)
	if raw := known["extra"]; raw != nil && string(raw) != "null" {
		ok = ok && a.extra.UnmarshalJSON(raw) == nil
	}
	return a, ok
}

// wholeSurrogates says whether every escaped surrogate of a quoted text belongs to a pair.
func wholeSurrogates(quoted string) bool {
	escaped := func(s string) rune {
		if !strings.HasPrefix(s, `\u`) {
			return -1
		}
		r, err := strconv.ParseUint(s[2:6], 16, 16)
		if err != nil {
			return -1
		}
		return rune(r)
	}
	for s := quoted; s != ""; {
		r := escaped(s)
		switch {
		case r >= 0 && utf16.IsSurrogate(r):
			if utf16.DecodeRune(r, escaped(s[6:])) == utf8.RuneError {
				return false
			}
			s = s[12:]
		case r >= 0:
			s = s[6:]
		case s[0] == '\\':
			s = s[2:]
		default:
			s = s[1:]
		}
	}
	return true
}
