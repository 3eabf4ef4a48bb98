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
	`"empty": "", "payer": {"name": "A b", "email": "a@b"}, "items": [{"id": 2}, 3]}` + "\n"

func TestJSONPartsEncodeBody(t *testing.T) {
	for name, tt := range map[string]struct{ part, body, want string }{
		"a text without quotes and escapes": {`field("user_data")`, nestedBody, `o"rder/1 é😀`},
		"a number as it is written":         {`field("amount")`, nestedBody, "10.50"},
		"true":                              {`field("ok")`, nestedBody, "true"},
		"null":                              {`field("none")`, nestedBody, "null"},
		"an empty text":                     {`field("empty")`, nestedBody, ""},
		"an object without white space":     {`field("payer")`, nestedBody, `{"name":"A b","email":"a@b"}`},
		"an array without white space":      {`field("items")`, nestedBody, `[{"id":2},3]`},
		"a nested field":                    {`field("payer", "email")`, nestedBody, "a@b"},
		"a name with an escape":             {`field("aé")`, `{"a\u00e9":1}`, "1"},
		"all kinds of escapes":              {`field("a")`, `{"a":"\"\\\/\b\f\n\r\t\u0041"}`, "\"\\/\b\f\n\r\tA"},
		"half a surrogate pair":             {`field("a")`, `{"a":"\ud83dx\ude00"}`, "\ufffdx\ufffd"},
		"a surrogate pair cut short":        {`field("a")`, `{"a":"\ud83d\u0041"}`, "\ufffdA"},
		"bytes that are no UTF-8":           {`field("a")`, "{\"a\":\"\\n\xff\"}", "\n\xff"},
		"a field that is there":             {`field-or("-", "amount")`, nestedBody, "10.50"},
		"the stand-in for an absent field":  {`field-or("-", "no")`, nestedBody, "-"},
		"the stand-in for null":             {`field-or("-", "none")`, nestedBody, "-"},
		"the stand-in below a text":         {`field-or("-", "user_data", "no")`, nestedBody, "-"},

		"values sorted by name":           {`fields("|")`, `{"b":2,"a":"x","c":[1, 2]}`, "x|2|[1,2]"},
		"values in the order of the body": {`fields(as-sent, "|")`, `{"b":2,"a":"x"}`, "2|x"},
		"pairs":                           {`fields("=", "&")`, `{"b":2,"a":"x"}`, "a=x&b=2"},
		"names and values run together":   {`fields("", "")`, `{"b":2,"a":"x"}`, "axb2"},
		"no fields":                       {`fields("", "&")`, `{ }`, ""},
		"upper case sorts before lower":   {`fields(unseparated)`, `{"a":1,"B":2}`, "21"},
		"empty and null left out":         {`fields(",", omit-empty)`, `{"a":"","b":null,"c":0,"d":false}`, "0,false"},
		"a name left out, above only":     {`fields(",", omit("a"), flat)`, `{"a":1,"b":{"a":2}}`, "2"},
		"nested left out":                 {`fields(",", omit-nested)`, `{"a":{"x":1},"b":2,"c":[3]}`, "2"},
		"nested with dots": {
			`fields("=", "&", flat("."))`, `{"b":{"y":1,"x":{"z":2}},"a":[7,{"k":8}],"c":{}}`,
			"a.0=7&a.1.k=8&b.x.z=2&b.y=1",
		},
		"nested with brackets": {`fields("=", "&", flat("[]"))`, `{"b":{"y":1,"x":{"z":2}}}`, "b[x][z]=2&b[y]=1"},
		"escaped as in a form": {
			`fields("=", "&", flat("[]"), escape-form)`, `{"a b":"x/y z","c":{"d":"é"}}`, "a+b=x%2Fy+z&c%5Bd%5D=%C3%A9",
		},

		"white space taken out":            {`body-compact`, " {\"a\": [1 ,\t\"x y\" ]}\r\n", `{"a":[1,"x y"]}`},
		"a compact text keeps its escapes": {`body-compact`, `{"a" : "\u00e9\/ \" "}`, `{"a":"\u00e9\/ \" "}`},
		"sorted on every level": {
			`body-sorted`, `{"b": {"d": 1, "c": 2.50}, "a": [{"z": 1, "y": "\/"}]}`,
			`{"a":[{"y":"\/","z":1}],"b":{"c":2.50,"d":1}}`,
		},
		"written anew":            {`json`, `{"b": "\/\u00e9\u001f\n", "a": 1.0}`, "{\"b\":\"/é\\u001f\\n\",\"a\":1.0}"},
		"written anew and sorted": {`json(sorted)`, `{"b": 1, "a": [ ]}`, `{"a":[],"b":1}`},
		"as Python writes it": {
			`json(spaces, escape-unicode)`, `{"a":[1,"é😀/"],"b":{}}`, `{"a": [1, "\u00e9\ud83d\ude00/"], "b": {}}`,
		},
		"as PHP writes it": {`json(escape-slash, escape-unicode)`, `{"a":"é/"}`, `{"a":"\u00e9\/"}`},
		"as Go writes it": {
			`json(escape-html)`, `{"a":"<&>\u2028\u2029"}`, `{"a":"\u003c\u0026\u003e\u2028\u2029"}`,
		},
		"all escapes written anew": {
			`json`, `{"a\"\/":"\\\r\t\f\b\"\u2028\ufffd"}`, "{\"a\\\"/\":\"\\\\\\r\\t\\f\\b\\\"\u2028\ufffd\"}",
		},
		"a sorted text keeps its escapes": {`body-sorted`, `{"\u0061":"\/"}`, `{"\u0061":"\/"}`},
		"numbers read as float64": {
			`json(short-numbers)`, `[10.50,1e3,100.00,1E400,-0.0,-0]`, `[10.5,1000,100,1E400,-0,-0]`,
		},
		"numbers read by Python":   {`json(python-numbers)`, `[-0,-0.0,-1,7.0]`, `[0,-0.0,-1,7.0]`},
		"a body that is no object": {`json`, ` "x" `, `"x"`},
		"no UTF-8 is kept":         {`json(escape-unicode)`, "[\"\xff\"]", "[\"\xff\"]"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme, err := canonical.ParseScheme("hex(" + tt.part + ")")
			require.NoError(t, err)
			got, err := scheme.Canonical([]byte("before "), message(t, "", tt.body))
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
