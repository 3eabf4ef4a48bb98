package jsonobject_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

type card struct {
	Number string `json:"number"`
	Holder string `json:"holder,omitempty"`
}

// textOfBytes encodes as its text.
type textOfBytes struct{ b []byte }

func (t textOfBytes) MarshalText() ([]byte, error) { return t.b, nil }

// textOfPointer encodes as its text if encoding/json can take its address.
type textOfPointer struct{ b []byte }

func (t *textOfPointer) MarshalText() ([]byte, error) { return t.b, nil }

// keyOfText encodes as its text, also as the key of a map.
type keyOfText struct{ text string }

func (t keyOfText) MarshalText() ([]byte, error) { return []byte(t.text), nil }

// objectOfBytes encodes as its JSON.
type objectOfBytes struct{ b []byte }

func (o objectOfBytes) MarshalJSON() ([]byte, error) { return o.b, nil }

// hiddenText has a method that encoding/json does not call for keys of the kind string.
type hiddenText string

func (hiddenText) MarshalText() ([]byte, error) { return []byte("hidden"), nil }

// ownText replaces its invalid bytes.
type ownText string

func (t ownText) MarshalJSON() ([]byte, error) {
	return json.Marshal(strings.ToValidUTF8(string(t), "?"))
}

// ownPointer replaces its invalid bytes if encoding/json can take its address.
type ownPointer struct{ Text string }

func (t *ownPointer) MarshalJSON() ([]byte, error) { return ownText(t.Text).MarshalJSON() }

type (
	embedded   struct{ Inner string }
	unexported string
	text       string
)

func TestEncodeOpenWritesObjects(t *testing.T) {
	type object = map[string]any
	for _, tt := range []struct {
		in   any
		want string
	}{
		{object{"number": "4111111111111111"}, `{"number":"4111111111111111"}`}, {object{}, `{}`},
		{map[int]string{1: "a"}, `{"1":"a"}`},
		{card{Number: "4111111111111111"}, `{"number":"4111111111111111"}`},
		{&card{Number: "4111111111111111"}, `{"number":"4111111111111111"}`}, {struct{}{}, `{}`},
		{json.RawMessage(`{"a":1}`), `{"a":1}`}, {json.RawMessage(" {\n \"a\" : 1 } "), `{"a":1}`},
		{json.RawMessage(`{"a":1,"a":2}`), `{"a":1,"a":2}`},
		{objectOfBytes{[]byte(`{"b":1,"a":2}`)}, `{"b":1,"a":2}`},

		{
			json.RawMessage(`{"n":1234567890123456789,"d":1.10,"e":1E+2,"z":-0}`),
			`{"n":1234567890123456789,"d":1.10,"e":1E+2,"z":-0}`,
		},
		{object{"d": json.Number("1.10")}, `{"d":1.10}`},
		{object{"n": int64(math.MaxInt64)}, `{"n":9223372036854775807}`},

		{object{"url": "https://shop.example/?a=1&b=<c>"}, `{"url":"https://shop.example/?a=1&b=<c>"}`},
		{object{"<&>": 1}, `{"<&>":1}`}, {json.RawMessage(`{"a":"<&>"}`), `{"a":"<&>"}`},
		{json.RawMessage(`{"a":"\u003c"}`), `{"a":"\u003c"}`},

		{object{"a": "\uFFFD"}, "{\"a\":\"\uFFFD\"}"}, {object{"\uFFFD": "a"}, "{\"\uFFFD\":\"a\"}"},
		{object{"a": []any{&card{Number: "\uFFFD"}}}, "{\"a\":[{\"number\":\"\uFFFD\"}]}"},
		{object{"a": textOfBytes{[]byte("\uFFFD")}}, "{\"a\":\"\uFFFD\"}"},
		{json.RawMessage("{\"a\":\"\uFFFD\"}"), "{\"a\":\"\uFFFD\"}"},
		{json.RawMessage(`{"a":"\ufffd\uFFFD"}`), `{"a":"\ufffd\uFFFD"}`},
		{object{"a": json.RawMessage(`"\ufffd"`)}, `{"a":"\ufffd"}`},
		{json.RawMessage(`{"a":"\ud800"}`), `{"a":"\ud800"}`},
		{
			object{
				"a": "\uFFFD",
				"b": []any{
					nil, true, 1.5, (*card)(nil), []byte("\xff"), [1]int{1}, map[int]bool{}, (*textOfPointer)(nil),
				},
			},
			"{\"a\":\"\uFFFD\",\"b\":[null,true,1.5,null,\"/w==\",[1],{},null]}",
		},
		{object{"a": ownText("\xff"), "b": "\uFFFD"}, "{\"a\":\"?\",\"b\":\"\uFFFD\"}"},
		{&struct {
			A ownPointer
			B string
		}{ownPointer{"\xff"}, "\uFFFD"}, "{\"A\":\"?\",\"B\":\"\uFFFD\"}"},
		{struct {
			A       string
			Left    string `json:"-"`
			private string
			inner   embedded
			unexported
		}{"\uFFFD", "\xff", "\xff", embedded{"\xff"}, "\xff"}, "{\"A\":\"\uFFFD\"}"},
		{map[keyOfText]string{{"k"}: "\uFFFD"}, "{\"k\":\"\uFFFD\"}"},
		{map[int]string{1: "\uFFFD"}, "{\"1\":\"\uFFFD\"}"},
	} {
		got, err := jsonobject.EncodeOpen(tt.in)
		require.NoError(t, err, tt.want)
		require.Equal(t, tt.want, string(got))
	}
}

func TestEncodeOpenRejectsInvalidText(t *testing.T) {
	type object = map[string]any
	invalid := canary + "\xff"
	for _, in := range []any{
		object{"a": invalid}, object{"a": "\uFFFD", "b": invalid}, object{"a": text(invalid)},
		object{"a": canary + "\xe2\x82"}, object{"a": canary + "\xed\xa0\x80"}, object{invalid: 1},
		map[text]int{text(invalid): 1}, map[hiddenText]int{hiddenText(invalid): 1},
		map[ownText]int{ownText(invalid): 1}, object{"a": []any{object{invalid: 1}}}, card{Number: invalid},
		&card{Number: invalid}, struct {
			A string `json:",string"`
		}{invalid},
		struct{ embedded }{embedded{invalid}}, struct{ *embedded }{&embedded{invalid}},
		object{"a": object{"b": []any{1, &card{Holder: invalid}}}}, object{"a": []string{"a", invalid}},
		object{"a": [2]any{nil, invalid}}, object{"a": textOfBytes{[]byte(invalid)}},
		object{"a": &textOfPointer{[]byte(invalid)}},
		&struct{ A textOfPointer }{textOfPointer{[]byte(invalid)}},
		object{"a": []textOfPointer{{[]byte(invalid)}}}, map[keyOfText]int{{invalid}: 1},
		json.RawMessage(`{"a":"` + invalid + `"}`), json.RawMessage(`{"` + invalid + `":1}`),
		object{"a": json.RawMessage(`"` + invalid + `"`)}, objectOfBytes{[]byte(`{"a":"` + invalid + `"}`)},
	} {
		got, err := jsonobject.EncodeOpen(in)
		require.Equal(t, jsonobject.ErrInvalidText, err, "the bare sentinel, which cannot repeat the value: %#v", in)
		require.Nil(t, got)
	}
}

// circle embeds itself. encoding/json accepts it, because it visits each embedded type once.
type circle struct{ *circle }

func TestEncodeOpenRejectsEndlessEmbedding(t *testing.T) {
	endless := new(circle)
	endless.circle = endless
	_, err := jsonobject.EncodeOpen(struct {
		*circle
		Text string
	}{endless, "\uFFFD"})
	require.Equal(t, jsonobject.ErrInvalidText, err)
}

func TestEncodeOpenReturnsACopy(t *testing.T) {
	in := json.RawMessage(`{"a":1}`)
	got, err := jsonobject.EncodeOpen(in)
	require.NoError(t, err)
	in[2] = 'b'
	require.Equal(t, `{"a":1}`, string(got))
}

func TestDecodeOpenMakesAMapOnlyIfItKeepsTheBytes(t *testing.T) {
	raw := func(s string) any { return json.RawMessage(s) }
	for _, tt := range []struct {
		data string
		want any
	}{
		{``, nil}, {`null`, nil}, {`{}`, map[string]any{}},
		{
			`{"a":"b","c":[1,true,null,{"d":{}}]}`,
			map[string]any{"a": "b", "c": []any{1.0, true, nil, map[string]any{"d": map[string]any{}}}},
		},
		{`{"a":1.5,"b":-0.25,"c":123456}`, map[string]any{"a": 1.5, "b": -0.25, "c": 123456.0}},
		{`{"a":"<&>"}`, map[string]any{"a": "<&>"}}, {`{"a":"\u003c\u0026\u003e"}`, map[string]any{"a": "<&>"}},
		{"{\"a\":\"\uFFFD\"}", map[string]any{"a": "\uFFFD"}},

		{`{"a":1234567890123456789}`, raw(`{"a":1234567890123456789}`)}, {`{"a":1.10}`, raw(`{"a":1.10}`)},
		{`{"a":1E2}`, raw(`{"a":1E2}`)}, {`{"a":1e999}`, raw(`{"a":1e999}`)},
		{`{"a":[{"b":1234567890123456789}]}`, raw(`{"a":[{"b":1234567890123456789}]}`)},
		{`{"b":1,"a":2}`, raw(`{"b":1,"a":2}`)}, {`{"a":1,"a":1}`, raw(`{"a":1,"a":1}`)},
		{`{ "a":1}`, raw(`{ "a":1}`)}, {`{"a":"\u0041"}`, raw(`{"a":"\u0041"}`)},
		{`{"a":"\ud800"}`, raw(`{"a":"\ud800"}`)}, {"{\"a\":\"\xff\"}", raw("{\"a\":\"\xff\"}")},
		{`[1]`, raw(`[1]`)}, {`"a"`, raw(`"a"`)}, {`{"a"`, raw(`{"a"`)},
	} {
		require.Equal(t, tt.want, jsonobject.DecodeOpen(json.RawMessage(tt.data)), tt.data)
	}
}

func TestIsNilFindsTypedNils(t *testing.T) {
	for _, v := range []any{
		nil, (*card)(nil), map[string]any(nil), []int(nil), json.RawMessage(nil), (func())(nil), (chan int)(nil),
		error(nil), io.Reader((*bytes.Buffer)(nil)),
	} {
		require.True(t, jsonobject.IsNil(v), "%T", v)
	}
	for _, v := range []any{
		0, "", false, card{}, &card{}, map[string]any{}, []int{}, [0]int{}, func() {}, make(chan int), new(any),
		errors.New("not nil"),
	} {
		require.False(t, jsonobject.IsNil(v), "%T", v)
	}
}
