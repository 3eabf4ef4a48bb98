package canonical_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

const nestedBody = ` {"user_data": "o\"rder/1 \u00e9\ud83d\ude00", "amount": 10.50, "ok": true, "none": null, ` +
	`"empty": "",` +
	` "payer": {"name": "A b", "email": "a@b"}, "items": [{"id": 2}, 3]}` + "\n"

func TestJSONPartsEncodeBody(t *testing.T) {
	type list = canonical.FieldList
	type form = canonical.JSONForm
	for name, tt := range map[string]struct {
		part paymentsvc.CanonicalFunc
		body string
		want string
	}{
		"a text without quotes and escapes": {canonical.Field("user_data"), nestedBody, `o"rder/1 é😀`},
		"a number as it is written":         {canonical.Field("amount"), nestedBody, "10.50"},
		"true":                              {canonical.Field("ok"), nestedBody, "true"},
		"null":                              {canonical.Field("none"), nestedBody, "null"},
		"an empty text":                     {canonical.Field("empty"), nestedBody, ""},
		"an object without white space":     {canonical.Field("payer"), nestedBody, `{"name":"A b","email":"a@b"}`},
		"an array without white space":      {canonical.Field("items"), nestedBody, `[{"id":2},3]`},
		"a nested field":                    {canonical.Field("payer", "email"), nestedBody, "a@b"},
		"a name with an escape":             {canonical.Field("aé"), `{"a\u00e9":1}`, "1"},
		"all kinds of escapes": {
			canonical.Field("a"), `{"a":"\"\\\/\b\f\n\r\t\u0041"}`, "\"\\/\b\f\n\r\tA",
		},
		"half a surrogate pair":            {canonical.Field("a"), `{"a":"\ud83dx\ude00"}`, "\ufffdx\ufffd"},
		"a surrogate pair cut short":       {canonical.Field("a"), `{"a":"\ud83d\u0041"}`, "\ufffdA"},
		"bytes that are no UTF-8":          {canonical.Field("a"), "{\"a\":\"\\n\xff\"}", "\n\xff"},
		"a field that is there":            {canonical.FieldOr("-", "amount"), nestedBody, "10.50"},
		"the stand-in for an absent field": {canonical.FieldOr("-", "no"), nestedBody, "-"},
		"the stand-in for null":            {canonical.FieldOr("-", "none"), nestedBody, "-"},
		"the stand-in below a text":        {canonical.FieldOr("-", "user_data", "no"), nestedBody, "-"},

		"values sorted by name": {
			canonical.Fields(list{Between: "|"}), `{"b":2,"a":"x","c":[1, 2]}`, "x|2|[1,2]",
		},
		"values in the order of the body": {
			canonical.Fields(list{Between: "|", AsSent: true}), `{"b":2,"a":"x"}`, "2|x",
		},
		"pairs": {
			canonical.Fields(list{Names: true, Equals: "=", Between: "&"}), `{"b":2,"a":"x"}`, "a=x&b=2",
		},
		"names and values run together": {canonical.Fields(list{Names: true}), `{"b":2,"a":"x"}`, "axb2"},
		"no fields":                     {canonical.Fields(list{Names: true, Between: "&"}), `{ }`, ""},
		"upper case sorts before lower": {canonical.Fields(list{Unseparated: true}), `{"a":1,"B":2}`, "21"},
		"empty and null left out": {
			canonical.Fields(list{Between: ",", OmitEmpty: true}), `{"a":"","b":null,"c":0,"d":false}`, "0,false",
		},
		"a name left out, above only": {
			canonical.Fields(list{Between: ",", Omit: []string{"a"}, Nested: canonical.NestedFlat}),
			`{"a":1,"b":{"a":2}}`, "2",
		},
		"nested left out": {
			canonical.Fields(list{Between: ",", Nested: canonical.NestedOmitted}), `{"a":{"x":1},"b":2,"c":[3]}`, "2",
		},
		"nested with dots": {
			canonical.Fields(list{Names: true, Equals: "=", Between: "&", Nested: canonical.NestedFlat, Path: "."}),
			`{"b":{"y":1,"x":{"z":2}},"a":[7,{"k":8}],"c":{}}`, "a.0=7&a.1.k=8&b.x.z=2&b.y=1",
		},
		"nested with brackets": {
			canonical.Fields(list{Names: true, Equals: "=", Between: "&", Nested: canonical.NestedFlat, Path: "[]"}),
			`{"b":{"y":1,"x":{"z":2}}}`, "b[x][z]=2&b[y]=1",
		},
		"escaped as in a form": {
			canonical.Fields(list{
				Names: true, Equals: "=", Between: "&", Escaping: canonical.EscapingForm,
				Nested: canonical.NestedFlat, Path: "[]",
			}),
			`{"a b":"x/y z","c":{"d":"é"}}`, "a+b=x%2Fy+z&c%5Bd%5D=%C3%A9",
		},

		"white space taken out":            {canonical.BodyCompact, " {\"a\": [1 ,\t\"x y\" ]}\r\n", `{"a":[1,"x y"]}`},
		"a compact text keeps its escapes": {canonical.BodyCompact, `{"a" : "\u00e9\/ \" "}`, `{"a":"\u00e9\/ \" "}`},
		"sorted on every level": {
			canonical.BodySorted, `{"b": {"d": 1, "c": 2.50}, "a": [{"z": 1, "y": "\/"}]}`,
			`{"a":[{"y":"\/","z":1}],"b":{"c":2.50,"d":1}}`,
		},
		"written anew": {
			canonical.BodyJSON(form{}), `{"b": "\/\u00e9\u001f\n", "a": 1.0}`, "{\"b\":\"/é\\u001f\\n\",\"a\":1.0}",
		},
		"written anew and sorted": {
			canonical.BodyJSON(form{Sort: true}), `{"b": 1, "a": [ ]}`, `{"a":[],"b":1}`,
		},
		"as Python writes it": {
			canonical.BodyJSON(form{Spaces: true, EscapeUnicode: true}), `{"a":[1,"é😀/"],"b":{}}`,
			`{"a": [1, "\u00e9\ud83d\ude00/"], "b": {}}`,
		},
		"as PHP writes it": {
			canonical.BodyJSON(form{EscapeSlash: true, EscapeUnicode: true}), `{"a":"é/"}`, `{"a":"\u00e9\/"}`,
		},
		"as Go writes it": {
			canonical.BodyJSON(form{EscapeHTML: true}), `{"a":"<&>\u2028\u2029"}`,
			`{"a":"\u003c\u0026\u003e\u2028\u2029"}`,
		},
		"all escapes written anew": {
			canonical.BodyJSON(form{}), `{"a\"\/":"\\\r\t\f\b\"\u2028\ufffd"}`,
			"{\"a\\\"/\":\"\\\\\\r\\t\\f\\b\\\"\u2028\ufffd\"}",
		},
		"a sorted text keeps its escapes": {canonical.BodySorted, `{"\u0061":"\/"}`, `{"\u0061":"\/"}`},
		"numbers read as float64": {
			canonical.BodyJSON(form{Numbers: canonical.NumbersShort}),
			`[10.50,1e3,100.00,1E400,-0.0,-0]`, `[10.5,1000,100,1E400,-0,-0]`,
		},
		"numbers read by Python": {
			canonical.BodyJSON(form{Numbers: canonical.NumbersPython}), `[-0,-0.0,-1,7.0]`, `[0,-0.0,-1,7.0]`,
		},
		"a body that is no object": {canonical.BodyJSON(form{}), ` "x" `, `"x"`},
		"no UTF-8 is kept":         {canonical.BodyJSON(form{EscapeUnicode: true}), "[\"\xff\"]", "[\"\xff\"]"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.part([]byte("before "), message(t, "", tt.body))
			require.NoError(t, err)
			require.Equal(t, "before "+tt.want, string(got), "the part must append")
		})
	}
}

func TestJSONPartsRejectInvalidBodies(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf(`"f%d":1`, i))
	}
	repeatedInMany := "{" + strings.Join(append(many, `"f7":2`), ",") + "}"
	for name, tt := range map[string]struct {
		part paymentsvc.CanonicalFunc
		body string
		want string
	}{
		"a field that is absent": {
			canonical.Field("payer", "phone"), nestedBody, "has no field payer.phone",
		},
		"a field below a text": {
			canonical.Field("user_data", "x"), nestedBody, "has no field user_data.x",
		},
		"a field of no name":                {canonical.Field(), nestedBody, "needs a name"},
		"a field of a body that is no JSON": {canonical.Field("a"), `{"a":1`, "not JSON"},
		"a field of an array":               {canonical.Field("a"), `[1]`, "not a JSON object"},
		"a stand-in in a body that is none": {canonical.FieldOr("", "a"), ``, "not JSON"},
		"a duplicate name":                  {canonical.Field("a"), `{"a":1,"a":2}`, "duplicate field"},
		"a name twice, once with an escape": {canonical.Field("a"), `{"a":1,"\u0061":2}`, "duplicate field"},
		"a name twice among many": {
			canonical.Fields(canonical.FieldList{Between: "|"}), repeatedInMany, "duplicate field",
		},
		"a name twice, nested": {
			canonical.Fields(canonical.FieldList{Between: "|", Nested: canonical.NestedFlat}), `{"b":[{"a":1,"a":2}]}`,
			"duplicate field",
		},
		"a name twice in a sorted body": {canonical.BodySorted, `[{"a":1,"a":2}]`, "duplicate field"},
		"fields of a body that is no object": {
			canonical.Fields(canonical.FieldList{Between: "|"}), `7`, "not a JSON object",
		},
		"a field added to an object after another kind of space": {
			canonical.With("t", canonical.Timestamp, canonical.Body), "\u00a0{}", "not a JSON object",
		},
		"a number with another field": {
			canonical.WithNumber("t", canonical.Literal(`1,"a":2`), canonical.Body), `{}`, "WithNumber is not JSON",
		},
		"a compact body that is no JSON": {canonical.BodyCompact, `{`, "not JSON"},
		"a sorted body that is no JSON":  {canonical.BodySorted, ``, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.part([]byte("x"), message(t, "", tt.body))
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, got)
		})
	}
}

func TestFieldsSortsManyNames(t *testing.T) {
	object := map[string]int{}
	for i := range 200 {
		object[fmt.Sprintf("f%d", i)] = i
	}
	body, err := json.Marshal(object)
	require.NoError(t, err)
	got, err := canonical.Fields(canonical.FieldList{Names: true, Between: "\n"})(nil, message(t, "", string(body)))
	require.NoError(t, err)
	var want []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		want = append(want, fmt.Sprint(name, object[name]))
	}
	require.Equal(t, strings.Join(want, "\n"), string(got))
}

func FuzzJSONParts(f *testing.F) {
	f.Add([]byte(nestedBody))
	f.Add([]byte(`{"a":"\ud83d"}`))
	f.Add([]byte(`[[],{},"",0]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m := &paymentsvc.Message{Body: body}
		compact, err := canonical.BodyCompact(nil, m)
		require.Equal(t, json.Valid(body), err == nil)
		if err == nil {
			var want bytes.Buffer
			require.NoError(t, json.Compact(&want, body))
			require.Equal(t, want.String(), string(compact))
		}
		for _, part := range []paymentsvc.CanonicalFunc{
			canonical.BodySorted,
			canonical.BodyJSON(canonical.JSONForm{
				Sort: true, Spaces: true, EscapeHTML: true, EscapeUnicode: true, Numbers: canonical.NumbersShort,
			}),
		} {
			if again, err := part(nil, m); err == nil {
				require.True(t, json.Valid(again), "%q", again)
			}
		}
		for _, nested := range []canonical.Nested{canonical.NestedJSON, canonical.NestedOmitted, canonical.NestedFlat} {
			_, _ = canonical.Fields(
				canonical.FieldList{Names: true, Nested: nested, Path: "[]", Escaping: canonical.EscapingForm},
			)(nil, m)
		}
	})
}

// The table has the encodings of bodies by PHP, Python, Node and Java.
func TestVectorsOfOtherLanguagesMatch(t *testing.T) {
	file, err := os.Open("testdata/vectors.tsv")
	require.NoError(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		cells := strings.Split(lines.Text(), "\t")
		require.Len(t, cells, 4)
		var want string
		require.NoError(t, json.Unmarshal([]byte(cells[3]), &want))
		scheme, err := canonical.ParseScheme("hex(" + cells[1] + ")")
		require.NoError(t, err, cells[1])
		got, err := scheme.Canonical(nil, &paymentsvc.Message{Timestamp: "1700000000", Body: []byte(cells[2])})
		require.NoError(t, err, cells)
		require.Equal(t, want, string(got), cells)
	}
}
