package jsonobject_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

func TestTexts(t *testing.T) {
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

func TestTextsRejectsWhatLinesWouldLose(t *testing.T) {
	for _, data := range []string{
		``, `{`, `{"a":1}{}`, `{"a":1} x`, strings.Repeat("[", 1_000_000),
		"{\"a\":\"\xe9\"}", "{\"\xe9\":1}", "{\"a\":{\"b\":[\"\xff\"]}}",
		`{"a":"\ud83d"}`, `{"a":["\ude00\ud83d"]}`, `{"\ud83d":1}`, `{"a":"\ufffd\ud83d"}`,
		`{"a":"\ud83d","b":"` + "\uFFFD" + `"}`,
		`{"a":1,"a":1}`, `{"a":1,"a":null}`, `{"a":1,"\u0061":2}`, `{"x":{"a":1,"a":2}}`, `[{"x":[{"a":"","b":1,"a":""}]}]`,
	} {
		_, ok := jsonobject.Texts([]byte(data))
		require.False(t, ok, "%.80s", data)
	}
	_, ok := jsonobject.Texts([]byte(`[{"a":1},{"a":1},{"b":{"a":1},"a":2}]`))
	require.True(t, ok, "one name in several objects")
}
