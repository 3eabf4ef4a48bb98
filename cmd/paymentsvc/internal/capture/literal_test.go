package capture

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadPrintedHeaders(t *testing.T) {
	for name, file := range map[string]string{
		"JSON": `{"Host":["shop.example"],"Signature":["ab+/=="],"Timestamp":["1700000000"]}`,
		"Node": "{\n  host: 'shop.example',\n  'x-quote': \"it's\",\n  signature: 'ab+/==',\n" +
			"  timestamp: '1700000000'\n}\n",
		"Node without type": "[Object: null prototype] {\n  host: 'shop.example',\n  signature: 'ab+/==',\n" +
			"  timestamp: '1700000000' }",
		"Node's rawHeaders":  "[\n  'Host',\n  'shop.example',\n  'Signature',\n  'ab+/==',\n  'Timestamp', '1700000000'\n]",
		"Node's Headers":     "Headers {\n  host: 'shop.example',\n  signature: 'ab+/==',\n  timestamp: '1700000000'\n}",
		"Python's dict":      `{'Signature': 'ab+/==', 'Timestamp': '1700000000', 'Content-Length': 50}`,
		"Python's pairs":     `EnvironHeaders([('Signature', 'ab+/=='), ('Timestamp', '1700000000')])`,
		"Python's bytes":     `[(b'host', b'shop.example'), (b'signature', b'ab+/=='), (b'timestamp', b'1700000000')]`,
		"Python's multidict": `<CIMultiDictProxy('Host': 'shop.example', 'Signature': 'ab+/==', 'Timestamp': '1700000000')>`,
		"Python's META":      `{'HTTP_HOST': 'shop.example', 'HTTP_SIGNATURE': 'ab+/==', 'HTTP_TIMESTAMP': '1700000000'}`,
		"PHP's print_r":      "Array\n(\n    [Signature] => ab+/==\n    [Timestamp] => 1700000000\n)\n",
		"PHP's print_r, lists": "Array\n(\n    [signature] => Array\n        (\n            [0] => ab+/==\n        )\n\n" +
			"    [timestamp] => Array\n        (\n            [0] => 1700000000\n        )\n\n)\n",
		"PHP's var_dump": "array(2) {\n  [\"Signature\"]=>\n  string(6) \"ab+/==\"\n  [\"Timestamp\"]=>\n" +
			"  string(10) \"1700000000\"\n}\n",
		"PHP's var_dump, lists": "array(2) {\n  [\"signature\"]=>\n  array(1) {\n    [0]=>\n" +
			"    string(6) \"ab+/==\"\n  }\n" +
			"  [\"timestamp\"]=>\n  array(1) {\n    [0]=>\n    string(10) \"1700000000\"\n  }\n}\n",
		"PHP's var_export": "array (\n  'Signature' => 'ab+/==',\n  'Timestamp' => '1700000000',\n)",
		"Go's map":         "map[Accept:[*/*] Signature:[ab+/==] Timestamp:[1700000000] User-Agent:[a (b; c)]]",
		"Go's %#v":         `http.Header{"Signature":[]string{"ab+/=="}, "Timestamp":[]string{"1700000000"}}`,
		"variables":        "PATH=/bin\nHTTP_HOST=shop.example\nHTTP_SIGNATURE=ab+/==\nHTTP_TIMESTAMP=1700000000\n",
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Read([]byte(file), "a.txt", Options{Body: []byte(body), BodyName: "b"})
			require.NoError(t, err)
			require.Equal(t, body, string(m.Body))
			require.Equal(t, "ab+/== 1700000000", m.Header.Get("Signature")+" "+m.Header.Get("Timestamp"))
		})
	}
	m, err := Read([]byte("{ signature: 'abab' }\n"+body+"\n"), "a.txt", Options{})
	require.NoError(t, err)
	require.Equal(t, body, string(m.Body), "the text after the headers")
}

func TestReadCalls(t *testing.T) {
	const odd = `{"a":"it's \"é😀\n$x"}`
	const escaped = `"{\"a\":\"it's \\\"é\ud83d\ude00\\n$x\"}"`
	for name, file := range map[string]string{
		"Chrome": `fetch("https://shop.example/hook?a=1", {
  "headers": {
    "signature": "abab"
  },
  "referrer": "https://shop.example/",
  "body": ` + escaped + `,
  "method": "POST",
  "mode": "cors"
});`,
		"Firefox": `await fetch("https://shop.example/hook?a=1", {
    "credentials": "include", "headers": {"Signature": "abab"},
    "body": ` + escaped + `, "method": "POST"
});`,
		"a program": "const r = await fetch('https://shop.example/hook?a=1', {\n  method: 'POST',\n" +
			"  headers: {signature: 'abab',}, body: `" + strings.ReplaceAll(odd, `\`, `\\`) + "`,\n})",
		"Python": `requests.post("https://shop.example/hook?a=1", headers={"Signature": "abab"}, data=` +
			`'{"a":"it\'s \\"é😀\\n$x"}')`,
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Read([]byte(file), "a.txt", Options{})
			require.NoError(t, err)
			require.Equal(t, odd, string(m.Body))
			require.Equal(t, "POST https://shop.example/hook?a=1", m.Method+" "+m.URL.String())
			require.Equal(t, "abab", m.Header.Get("Signature"))
		})
	}
	const options = ", {headers: {signature: 'abab'}, body: "
	for name, file := range map[string]string{
		"a template":    "fetch(`https://a/${b}`" + options + "'{}'})",
		"a variable":    "fetch('https://a/'" + options + "text})",
		"an operator":   "fetch('https://a/'" + options + "'{}' + text})",
		"a method":      "fetch('https://a/'" + options + "'{}'.trim()})",
		"an f-string":   `requests.post("https://a/", headers={"signature": "abab"}, data=f"{x}")`,
		"no end":        "fetch('https://a/'" + options + "'{}",
		"a lone option": "requests.post(url)",
		"two texts":     `requests.post("https://a/", headers={"signature": "abab"}, data="{" "}")`,
		"three quotes":  `requests.post("https://a/", headers={"signature": "abab"}, data='''{}''')`,
		"octal digits":  "fetch('https://a/'" + options + `'\101'})`,
		"an escaped /":  `requests.post("https://a/", headers={"signature": "abab"}, data="\/")`,
		"high bytes":    `requests.post("https://a/", headers={"signature": "abab"}, data=b"\xe9")`,
	} {
		_, err := Read([]byte(file), "a.txt", Options{})
		require.ErrorContains(t, err, "a.txt:1:1: this call has a variable", name)
		require.NotContains(t, err.Error(), "abab")
	}
	const python = `requests.request("POST", "https://a/", headers={"signature": "abab"}, data="{}", verify=False)`
	m, err := Read([]byte(python), "a", Options{})
	require.NoError(t, err)
	require.Equal(t, "POST {}", m.Method+" "+string(m.Body))
	m, err = Read([]byte(`axios.post("https://a/", "{}", {headers: {signature: "abab"}})`), "a", Options{})
	require.NoError(t, err)
	require.Equal(t, "POST {} abab", m.Method+" "+string(m.Body)+" "+m.Header.Get("Signature"))
}
