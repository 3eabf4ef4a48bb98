package jsonobject_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

func TestMentionsFindsANameAtAnyDepthAndInStrings(t *testing.T) {
	quoted := func(text string) string {
		data, err := json.Marshal(text)
		require.NoError(t, err)
		return string(data)
	}
	deep := strings.Repeat(`{"a":`, 9_000) + `{"id":"x"}` + strings.Repeat("}", 9_000)
	inStrings := `{"id":"a"}`
	for range 6 {
		inStrings = `{"data":[` + quoted(inStrings) + `]}`
	}
	const surrogates = `"\ud83d\ude00 \ud83d "`
	for data, want := range map[string]bool{
		`{"id":"a"}`:                              true,
		`{"id" :` + "\n\t" + ` "a"}`:              true,
		`{"id":17}`:                               true,
		`{"id":-0.5e3}`:                           true,
		`{"id":true}`:                             true,
		`{"id":[0]}`:                              true,
		`{"id":{"a":null}}`:                       true,
		`{"id":null,"id":"a"}`:                    true,
		`{"id":"\u0000"}`:                         true,
		`{"id":"\"\""}`:                           true,
		`{"ID":"a"}`:                              true,
		`{"\u0069\u0044":"a"}`:                    true,
		`{"\u0049D":"a"}`:                         true,
		`{"\u0069d":"\"a"}`:                       true,
		`{"i\u0064":"\"a"}`:                       true,
		`"id"`:                                    false,
		`{"data":[{"x":{"Id":17}}]}`:              true,
		`["\\",{"id":"a"}]`:                       true,
		`["\\\"",{"id":"a"}]`:                     true,
		`[` + surrogates + `,{"id":"a"}]`:         true,
		"\ufeff" + `{"data":{"id":"a"}}`:          true,
		`{"code":1}` + "\n" + `{"Id":"a"}`:        true, // two values are text
		`<id>a</id>`:                              true,
		`id is required`:                          true, // text
		`<a>\u0069d</a>`:                          true,
		deep:                                      true,
		`{"x":` + quoted(`{"id":"a"}`) + `}`:      true,
		quoted(`{"id":"a"}`):                      true,
		quoted("{\"id\"\n:\t\"a\"}"):              true,
		`{"x":"{\u0022\u0049d\u0022:\"a\"}"}`:     true,
		`{"x":` + quoted(`{"\u0069d":"a"}`) + `}`: true,
		`{"x":` + quoted("text before {\n\"id\":\"a") + `}`: true, // cut off
		`{"x":` + quoted(`5" wide: {"ID" : 7}`) + `}`:       true,
		`{"x":` + quoted(`["\\", {"id":"\"a\""}]`) + `}`:    true,
		inStrings:                                         true,
		`{"x":` + quoted(`"id": 007`) + `}`:               true,
		strings.ReplaceAll(inStrings, "a", ""):            false, // the innermost is empty
		`{"x":` + quoted(`{"id":""}`) + `}`:               false,
		`{"x":` + quoted(`{"id":null}`) + `}`:             false,
		`{"x":` + quoted(`{"id":`) + `}`:                  true, // cut off before a value
		`{"x":` + quoted(`{"id":"`) + `}`:                 false,
		`{"x":` + quoted(`{"id":-`) + `}`:                 false,
		`{"x":` + quoted(`the "id" is needed: "a"`) + `}`: false,
		`{"x":` + quoted(`"id": required`) + `}`:          false,
		`{"x":"id","y":"a"}`:                              false,
		`{"x":"id is required"}`:                          false,
		"\ufeff" + `{"x":"id is required"}`:               false,
		`{"x":"id: a"}`:                                   false,
		`{"x":"idx:7"}`:                                   false,
		`{"id":null,"data":{"id":""}}`:                    false,
		`{"id":{ },"data":{"id":0}}`:                      false,
		`{"id":[` + "\n" + `],"data":{"id":-0.0e7}}`:      false,
		`{"id":false,"data":{"id":"0"}}`:                  false,
		`{"identity":"a","x":["id"]}`:                     false,
		`{"i":"a","xid":"a","id ":"a"}`:                   false,
		`{"\\u0069d":"a"}`:                                true, // escaped twice
		`{}`:                                              false,
		``:                                                false,
	} {
		require.Equal(t, want, jsonobject.Mentions([]byte(data), "id"), "%.200s", data)
	}
}

// In quadratic time, these inputs of a few megabytes would take hours.
func TestMentionsTakesLinearTime(t *testing.T) {
	const size = 1 << 20
	spaces := strings.Repeat(" ", 1000)
	for _, test := range []struct {
		name, data string
		want       bool
	}{
		{"escapes of escapes", `{"a":"` + strings.Repeat(`\u005cu005c`, size/10) + `"}`, true},
		{"no JSON", strings.Repeat(`\u005cu005c"`, size/11), false},
		{"an order at the end", `{"a":"` + strings.Repeat(`\"`, size) + `","id":1}`, true},
		{"open brackets", `{"a":"` + strings.Repeat(`\"id\":[`, size/9) + `"}`, true},
		{"backslashes", `{"a":"` + strings.Repeat(`\\`, size) + `"}`, true},
		{"quotes", `{"a":"` + strings.Repeat(`\"`, size) + `"}`, false},
		{"names without a value", `{"a":"` + strings.Repeat(`\"id\":,`, size/8) + `"}`, false},
		{"names before spaces", `{"a":"` + strings.Repeat(`\"id\"`+spaces, size/1000) + `"}`, false},
		{"brackets before spaces", `{"a":"` + strings.Repeat(`\"id\":[`+spaces+"]", size/1000) + `"}`, false},
		{"minus signs", `{"a":"` + strings.Repeat(`\"id\":-----`, size/12) + `"}`, false},
	} {
		require.Equal(t, test.want, jsonobject.Mentions([]byte(test.data), "id"), test.name)
	}
}

func TestTextsListsEachValueWithItsPath(t *testing.T) {
	for data, want := range map[string][]string{
		`{"b":"x","a":1.50}`:                        {` "a"="1.50"`, ` "b"="x"`},
		`{ "a" : [ "x" , { "b" : true } , 7 ] }`:    {` "a" 0="x"`, ` "a" 1 "b"="true"`, ` "a" 2="7"`},
		`{"a":null,"b":"","c":[],"d":{},"e":false}`: {` "e"="false"`},
		`{"a":{"x":1},"b":{"x":2}}`:                 {` "a" "x"="1"`, ` "b" "x"="2"`},
		`{"a":"\u00e9\ud83d\ude00\n"}`:              {` "a"="\u00e9\U0001f600\n"`},
		`{"a":"\ufffd` + "\uFFFD" + `\\ufffd"}`:     {` "a"="\ufffd\ufffd\\ufffd"`},
		`{"a":12345678901234567890}`:                {` "a"="12345678901234567890"`},
		`"x"`:                                       {`="x"`},
		`{}`:                                        nil,
	} {
		lines, ok := jsonobject.Texts([]byte(data))
		require.True(t, ok, data)
		require.Equal(t, strings.Join(want, "\n"), strings.TrimSuffix(strings.Join(lines, ""), "\n"), data)
	}
}

func TestTextsRejectsAmbiguousData(t *testing.T) {
	for _, data := range []string{
		``, `{`, `{"a":1}{}`, `{"a":1} x`, strings.Repeat("[", 1_000_000),
		"{\"a\":\"\xe9\"}", "{\"\xe9\":1}", "{\"a\":{\"b\":[\"\xff\"]}}",
		`{"a":"\ud83d"}`, `{"a":["\ude00\ud83d"]}`, `{"\ud83d":1}`, `{"a":"\ufffd\ud83d"}`,
		`{"a":"\ud83d","b":"` + "\uFFFD" + `"}`,
		`{"a":1,"a":1}`, `{"a":1,"a":null}`, `{"a":1,"\u0061":2}`, `{"x":{"a":1,"a":2}}`,
		`[{"x":[{"a":"","b":1,"a":""}]}]`,
	} {
		_, ok := jsonobject.Texts([]byte(data))
		require.False(t, ok, "%.80s", data)
	}
	_, ok := jsonobject.Texts([]byte(`[{"a":1},{"a":1},{"b":{"a":1},"a":2}]`))
	require.True(t, ok, "one name in several objects")
}
