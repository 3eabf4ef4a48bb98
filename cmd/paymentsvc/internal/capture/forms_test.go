package capture

import (
	"encoding/base64"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inJSON replaces BODY, BASE64, RAW and TEXT in a file with forms of the usual message in JSON.
func inJSON(file string) string {
	raw := "POST /hook?a=1 HTTP/1.1\r\nHost: shop.example\r\nSignature: abab\r\n\r\n" + body
	encoded := base64.StdEncoding.EncodeToString
	return strings.NewReplacer("BODY", string(quoted(body).raw), "BASE64", encoded([]byte(body)),
		"RAW", encoded([]byte(raw)), "TEXT", string(quoted(raw).raw)).Replace(file)
}

func TestReadJSONOfTools(t *testing.T) {
	const lines = `[{"name":"Host","value":"shop.example"},{"name":"Signature","value":"abab"}]`
	for name, file := range map[string]string{
		"a Postman collection": `{"info":{"name":"x"},"item":[{"name":"folder","item":[{"name":"pay",
			"request":{"method":"POST","header":[{"key":"Signature","value":"abab"},
			{"key":"Signature","value":"old","disabled":true}],
			"body":{"mode":"raw","raw":BODY,"options":{"raw":{"language":"json"}}},
			"url":{"raw":"https://shop.example/hook?a=1","host":["shop","example"]}},"response":[]}]}]}`,
		"a message of Postman's console": `{"POST https://shop.example/hook?a=1":{"Network":{},"Request Headers":
			{"signature":"abab"},"Request Body":BODY,"Response Headers":{"signature":"other"},"Response Body":"{}"}}`,
		"Postman's console": `POST https://shop.example/hook?a=1: {"Request Headers":{"signature":"abab"},
			"Request Body":BODY}`,
		"Charles": `[{"status":"COMPLETE","method":"POST","scheme":"https","host":"shop.example","path":"/hook",
			"query":"a=1","request":{"header":{"firstLine":"POST /hook HTTP/1.1","headers":` + lines + `},
			"body":{"text":BODY,"charset":"utf-8"}},"response":{"status":200,"body":{"text":"{}"}}}]`,
		"Charles in base64": `[{"method":"POST","scheme":"https","host":"shop.example","path":"/hook","query":"a=1",
			"request":{"header":{"headers":` + lines + `},"body":{"encoding":"base64","encoded":"BASE64"}}}]`,
		"mitmproxy": `[{"type":"http","request":{"method":"POST","scheme":"https","host":"shop.example","port":443,
			"path":"/hook?a=1","headers":[["signature","abab"]],"content":BODY},"response":{"headers":[["signature","x"]]}}]`,
		"webhook.site": `{"data":[{"uuid":"u","type":"web","hostname":"shop.example","method":"POST","query":{"a":"1"},
			"headers":{"signature":["abab"]},"url":"https://shop.example/hook?a=1","content":BODY}],"total":1}`,
		"ngrok": `{"requests":[{"uri":"/api/requests/1","request":{"method":"POST","uri":"/hook?a=1","raw":"RAW",
			"headers":{"Signature":["abab"]}},"response":{"raw":"RAW"}}]}`,
		"HTTP text": `{"items":[{"request":TEXT}]}`,
		"the mock server": `{"messages":[{"seq":1,"direction":"in","method":"POST","target":"/hook?a=1",
			"headers":[["Host","shop.example"],["Signature","abab"]],"body_base64":"BASE64","masked":false}]}`,
		"a log of nginx": `{"time":"x","request_method":"POST","request_uri":"/hook?a=1","http_host":"shop.example",
			"http_signature":"abab","http_cookie":"-","request_body":BODY,"status":200}`,
		"a log of nginx with the request line": `{"request":"POST /hook?a=1 HTTP/1.1","http_host":"shop.example",
			"http_signature":"abab","request_body":BODY}`,
		"a line after a time": `2026-11-29T10:00:00Z INFO got {"req":{"method":"POST","url":"/hook?a=1",` +
			`"headers":{"host":"shop.example","signature":"abab"},"body":BODY}}` + "\nmore",
		"JSON in a text": `{"log":` + string(quoted(inJSON(`{"method":"POST","url":"/hook?a=1",
			"headers":{"host":"shop.example","signature":"abab"},"body":BODY}`)).raw) + `}`,
		"headers as names and values": `{"url":"/hook?a=1","body":BODY,
			"rawHeaders":["Host","shop.example","Signature","abab"]}`,
		"an empty text beside the body": `{"url":"/hook?a=1","headers":{"host":"shop.example","signature":"abab"},
			"raw_body":"","body_base64":"","body":BODY}`,
		"headers as text": `{"url":"/hook?a=1","headers":"Host: shop.example\r\nSignature: abab\r\n","body":BODY}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := read(t, inJSON(file), Options{})
			require.Equal(t, body, string(m.Body))
			require.Equal(t, "POST https://shop.example/hook?a=1", m.Method+" "+m.URL.String())
			require.Equal(t, []string{"abab"}, m.Header["Signature"])
			roundTrip(t, m)
		})
	}
}

// The texts come from curl 7.88 and curl 8.14. A progress meter has carriage returns, and precedes other text on its
// line.
func TestReadOutputOfCurl(t *testing.T) {
	const (
		command = `$ curl -v -X POST -H 'Signature: abab' -d '{"amount":10.50}' http://127.0.0.1:8080/hook` + "\n"
		note    = "Note: Unnecessary use of -X or --request, POST is already inferred.\n"
		table   = "  % Total    % Received % Xferd  Average Speed   Time\n" +
			"                                 Dload  Upload   Total\n"
		meter = "\r100    16    0     0  100    16      0     36  0:00:02  0:00:02 --:--:--    36"
		bar   = "\r############################################################ 100.0%"
		older = "*   Trying 127.0.0.1:8080...\n* Connected to 127.0.0.1 (127.0.0.1) port 8080 (#0)\n"
		newer = "* Host localhost:8080 was resolved.\n* IPv4: 127.0.0.1\n*   Trying 127.0.0.1:8080...\n" +
			"* Connected to localhost (127.0.0.1) port 8080\n* using HTTP/1.x\n"
		request = "> POST /hook HTTP/1.1\r\n> Host: 127.0.0.1:8080\r\n> Accept: */*\r\n> Signature: abab\r\n" +
			"> Content-Length: 16\r\n> \r\n"
		response = "< HTTP/1.1 401 Unauthorized\r\n< Content-Length: 16\r\n< \r\n"
		echo     = `{"headers":{"signature":"other"},"url":"/","body":"x"}` + "\n"
	)
	for name, output := range map[string]string{
		"7.88 to a pipe":         note + table + meter + older + request + "} [16 bytes data]\n" + response,
		"7.88 to a terminal":     note + older + request + response,
		"7.88 of a slow service": older + request + "} [16 bytes data]\n" + meter + meter + response + meter + "\n",
		"a progress bar":         older + request + bar + response + bar,
		"a meter of a terminal":  older + request + meter[1:] + "\n" + response,
		"after 100 Continue":     older + request + "< HTTP/1.1 100 Continue\r\n} [16 bytes data]\n" + response,
		"8.14 to a terminal":     note + newer + request + "* upload completely sent off: 16 bytes\n" + response,
		"8.14 to a pipe":         table + newer + request + "} [16 bytes data]\n" + response + "{ [16 bytes data]\n",
		"a warning":              "Warning: The file name argument '-x' looks like a flag.\n" + older + request + response,
		"no response": older + request + "* Empty reply from server\n" + meter + "\n* Closing connection 0\n" +
			"curl: (52) Empty reply from server\n",
	} {
		for end, text := range map[string]string{
			"left intact": "* Connection #0 to host 127.0.0.1 left intact\n" + echo,
			"7.88 closes": "* Closing connection 0\n" + `{"code":"wrong"}`, // as long as the request's body
			"8.14 closes": "* shutting down connection #0\n" + `{"code":"wrong"}`,
			"with -i":     "* Closing connection 0\nHTTP/1.1 401 Unauthorized\r\n\r\n" + `{"code":"wrong"}`,
		} {
			if !strings.Contains(output, response) {
				text = ""
			}
			_, err := Read([]byte(output+text), "a.txt", Options{})
			require.ErrorContains(t, err, "curl -v does not print the body: paste the command above its output", name+end)
			for file, o := range map[string]Options{
				output + text:           {Body: []byte(`{"amount":10.50}`), BodyName: "b"},
				command + output + text: {},
				strings.Replace(output+text, "> \r\n", "> \r\n{\"amount\":10.50}\n", 1): {},
			} {
				for _, stamp := range []string{"", "16:31:40.702830 ", "16:31:40.702830 [0-x] "} {
					stamped := regexp.MustCompile(`(?m)^[*<>{}] `).ReplaceAllString(file, stamp+"$0")
					m := read(t, stamped, o)
					require.Equal(t, `POST http://127.0.0.1:8080/hook {"amount":10.50}`,
						strings.Replace(m.Method+" "+m.URL.String()+" "+string(m.Body), "https", "http", 1))
					require.Equal(t, []string{"abab"}, m.Header["Signature"])
				}
			}
		}
	}
}

func TestReadRejectsAMissingBody(t *testing.T) {
	for name, file := range map[string]string{
		"an access log":       `127.0.0.1 - - [29/Nov/2026:06:00:00 +0000] "POST /hook HTTP/1.1" 200 2 "-" "curl/8"`,
		"JSON without a body": `{"method":"POST","url":"/hook","headers":{"signature":"abab"}}`,
		"an empty body":       `{"method":"POST","url":"/hook","headers":{"content-length":"9"},"body":""}`,
		"a form in Postman":   `{"request":{"method":"POST","url":"/","header":[],"body":{"mode":"urlencoded"}}}`,
		"HTTP text":           "POST /hook HTTP/1.1\nSignature: abab\n\n",
		"curl -v":             "> POST /hook HTTP/1.1\n> Signature: abab\n>\n< HTTP/1.1 200 OK\n",
		"printed headers":     "{ host: 'shop.example', signature: 'abab' }\n",
		"a response":          "POST /hook HTTP/1.1\nSignature: abab\n\nHTTP/1.1 200 OK\n\n{}",
		"blank lines":         "POST /hook HTTP/1.1\nSignature: abab\n\n \n\n",
		"a word of a program": `{"method":"POST","url":"/hook","headers":{"signature":"abab"},"body":true}`,
		"an object as text":   `{"method":"POST","url":"/hook","headers":{"signature":"abab"},"body":"[object Object]"}`,
		"empty base64":        `{"url":"/hook","headers":{"signature":"abab","content-length":"9"},"body_base64":""}`,
		"curl with a length":  "curl -X POST -H 'Content-Length: 9' -H 'Signature: abab' https://a/",
		"curl -v of no body":  "curl -v -X POST https://a/\n> POST / HTTP/1.1\n> Signature: abab\n> Content-Length: 9\n>\n",
	} {
		_, err := Read([]byte(file), "a.txt", Options{})
		require.ErrorAs(t, err, new(*Error), name)
		require.Regexp(t, "body.*"+"paymentsvc discover -listen", err.Error(), name)
		require.NotContains(t, err.Error(), "abab", name)
	}
	const masked = `{"messages":[{"method":"POST","target":"/a","headers":[],"body_base64":"e30=","masked":true}]}`
	_, err := Read([]byte(masked), "a.txt", Options{})
	require.ErrorContains(t, err, "paymentsvc mock with -show-bodies")
	for _, file := range []string{"POST / HTTP/1.1\nContent-Length: 0\n\n", `{"method":"GET","url":"/","headers":{}}`} {
		m := read(t, file, Options{})
		require.Empty(t, m.Body)
	}
}

func TestReadNeedsLittleMemory(t *testing.T) {
	doubled := "@a=0123456789\n" + strings.Repeat("@a={{a}}{{a}}\n", 22) + "POST /{{a}}\nSignature: b\n\n{}\n"
	for name, file := range map[string]string{
		"requests of an editor": strings.Repeat("###\nGET /\n", 5000),
		"variables in values":   doubled,
		"values without an end": "x " + strings.Repeat("{\"a\":\n", 1000) + strings.Repeat(" ", 1<<20) + "!",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read([]byte(file), "a.txt", Options{})
		runtime.ReadMemStats(&after)
		require.Error(t, err, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(200<<20), name)
	}
	open := func(string) ([]byte, error) { return make([]byte, 40<<20), nil }
	_, err := Read([]byte("curl --data-binary @a --data-binary @a https://a/"), "a.txt", Options{Open: open})
	require.ErrorContains(t, err, "more than 64 MiB")
}

func TestReadPrintedHeaders(t *testing.T) {
	for name, file := range map[string]string{
		"JSON": `{"Host":["shop.example"],"Signature":["ab+/=="],"Timestamp":["1700000000"]}`,
		"Node": "{\n  host: 'shop.example',\n  'x-quote': \"it's\",\n  signature: 'ab+/==',\n  timestamp: '1700000000'\n}\n",
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
		"PHP's var_dump, lists": "array(2) {\n  [\"signature\"]=>\n  array(1) {\n    [0]=>\n    string(6) \"ab+/==\"\n  }\n" +
			"  [\"timestamp\"]=>\n  array(1) {\n    [0]=>\n    string(10) \"1700000000\"\n  }\n}\n",
		"PHP's var_export": "array (\n  'Signature' => 'ab+/==',\n  'Timestamp' => '1700000000',\n)",
		"Go's map":         "map[Accept:[*/*] Signature:[ab+/==] Timestamp:[1700000000] User-Agent:[a (b; c)]]",
		"Go's %#v":         `http.Header{"Signature":[]string{"ab+/=="}, "Timestamp":[]string{"1700000000"}}`,
		"variables":        "PATH=/bin\nHTTP_HOST=shop.example\nHTTP_SIGNATURE=ab+/==\nHTTP_TIMESTAMP=1700000000\n",
	} {
		t.Run(name, func(t *testing.T) {
			m := read(t, file, Options{Body: []byte(body), BodyName: "b"})
			require.Equal(t, body, string(m.Body))
			require.Equal(t, "ab+/== 1700000000", m.Header.Get("Signature")+" "+m.Header.Get("Timestamp"))
		})
	}
	m := read(t, "{ signature: 'abab' }\n"+body+"\n", Options{})
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
			m := read(t, file, Options{})
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
	m := read(t, python, Options{})
	require.Equal(t, "POST {}", m.Method+" "+string(m.Body))
	m = read(t, `axios.post("https://a/", "{}", {headers: {signature: "abab"}})`, Options{})
	require.Equal(t, "POST {} abab", m.Method+" "+string(m.Body)+" "+m.Header.Get("Signature"))
}

func TestReadSections(t *testing.T) {
	const file = `@host = https://shop.example
@hook = {{host}}/hook

### a balance
GET {{host}}/balance

### a payment
# @name pay
POST {{hook}}?a=1
# X-Off: b
//X-Off: b
#X-Off: b
Signature: abab

` + body + `

> {% client.log("x") %}

### from a file
POST {{host}}/file HTTP/1.1
X-Other: c

< ./body.json
`
	open := opener(map[string]string{"./body.json": body})
	m := read(t, file, Options{Open: open})
	require.Equal(t, body, string(m.Body))
	require.Equal(t, "POST https://shop.example/hook?a=1", m.Method+" "+m.URL.String())
	require.Equal(t, 13, m.Line("signature"))
	require.Len(t, m.Header, 1)
	m = read(t, file, Options{Open: open, Entry: 3})
	require.Equal(t, body, string(m.Body))
	require.Equal(t, "/file", m.URL.Path)
	_, err := Read([]byte(file), "a.http", Options{Open: open, Signature: "none"})
	require.ErrorContains(t, err, "choose an entry with -entry: 1 GET https://shop.example/balance; 2 POST")
	_, err = Read([]byte("###\nPOST {{host}}/hook\nSignature: {{signature}}\n\n{}"), "a.http", Options{})
	require.ErrorContains(t, err, "a variable in {{...}}")
	_, err = Read([]byte("###\nPOST /hook\nSignature: abab\n\n<@ ./body.json\n"), "a.http", Options{})
	require.ErrorContains(t, err, "a.http:5:1: a body from a file with variables")
}
