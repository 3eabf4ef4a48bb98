package capture

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

const (
	body    = `{"event":"payment.status_changed", "amount":10.50}`
	headers = "Host: shop.example\nContent-Type: application/json\nTimestamp: 1700000000\nSignature: abab\n"
	message = "POST /hook?a=1 HTTP/1.1\n" + headers + "\n" + body
	crlf    = "POST /hook HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 9\r\n\r\n{\"a\":\r\n1}"
	har     = `{"log":{"entries":[
{"request":{"method":"GET","url":"https://shop.example/x?token=secret","headers":[]}},
{"request":{"method":"POST","url":"https://shop.example/hook?a=1","bodySize":50,"headers":[
 {"name":":method","value":"POST"},{"name":"timestamp","value":"1700000000"},{"name":"signature","value":"abab"}],
 "postData":{"text":"{\"event\":\"payment.status_changed\", \"amount\":10.50}"}}}]}}`
)

func utf16Of(text string, order binary.AppendByteOrder, mark string) (data string) {
	for _, unit := range utf16.Encode([]rune(mark + text)) {
		data += string(order.AppendUint16(nil, unit))
	}
	return data
}

// read reads a file named a.txt.
func read(t *testing.T, file string, o Options) Message {
	t.Helper()
	m, err := Read([]byte(file), "a.txt", o)
	require.NoError(t, err, "%q", file)
	return m
}

func TestReadEachForm(t *testing.T) {
	for name, tt := range map[string]struct {
		file       string
		url, body  string // the wanted values; "" means the value in message
		note       string
		withHeader string
	}{
		"HTTP text": {file: message},
		"CRLF":      {file: strings.ReplaceAll(message, "\n", "\r\n")},
		"a line end at the end": {file: message + "\n",
			note: "the line end after the body is removed"},
		"no request line": {file: headers + "\n" + body, url: "-", note: "no request line"},
		"HTTP/2 as browsers show it": {file: ":method: POST\n:authority: shop.example\n:path: /hook?a=1\nSignature:" +
			" abab\n\n" + body},
		"a whole address": {file: strings.Replace(message, "/hook",
			"http://user:password@shop.example/hook", 1), url: "http://shop.example/hook?a=1"},
		"a byte order mark":     {file: "\ufeff" + message, note: "byte order mark"},
		"UTF-16, big endian":    {file: utf16Of(message, binary.BigEndian, "\ufeff"), note: "UTF-16"},
		"UTF-16 without a mark": {file: utf16Of(message, binary.LittleEndian, ""), note: "UTF-16"},
		"line ends after the body": {file: "POST /hook?a=1\nHost: shop.example\nContent-Length: 50\n\n" + body +
			"\r\n\n"},
		"a line end in the body": {file: "POST /hook?a=1\nHost: shop.example\nContent-Length: 51\n\n" + body +
			"\n", body: body + "\n"},
		"CRLF that an editor changed": {file: strings.ReplaceAll(crlf, "\r", ""), url: "https://shop.example/hook",
			body: "{\"a\":\r\n1}", note: "CRLF line ends"},
		"LF that an editor changed": {file: strings.Replace(crlf, "9", "8", 1), url: "https://shop.example/hook",
			body: "{\"a\":\n1}", note: "LF line ends"},
		"duplicate headers": {file: strings.Replace(message, "Host", "signature: b\nHost", 1),
			note: "the header Signature appears 2 times", withHeader: "b"},
		"a compressed body": {file: strings.Replace(message, "Host", "content-encoding: gzip\nHost", 1),
			note: "Content-Encoding"},
		"curl -v with the body behind it": {file: "* Connected\n> POST /hook?a=1 HTTP/1.1\n> Host: shop.example\n>\n* " +
			"sent off\n" + body + "\n< HTTP/1.1 200 OK\n<\nok", note: "the line end"},
		"curl -v behind its command": {file: "$ curl -v -d '" + body +
			"' https://shop.example/x\n> POST /hook?a=1 HTTP/2\n> Host: shop.example\n> content-length: 50\n> \n< HTTP/2 200\n"},
		"a body with the output of curl -v": {file: "POST /hook?a=1\nHost: shop.example\n\n> POST / HTTP/1.1\n>",
			body: "> POST / HTTP/1.1\n>"},
		"a HAR file": {file: har},
		"a HAR file with base64": {file: strings.Replace(har,
			`"text":"{\"event\":\"payment.status_changed\", \"amount\":10.50}"`,
			`"encoding":"base64","text":"`+base64.StdEncoding.EncodeToString([]byte(body))+`"`, 1)},
		"a HAR file that lost a byte": {file: strings.Replace(har, "10.50", "10.5", 1),
			body: strings.Replace(body, "10.50", "10.5", 1), note: "bodySize is 50, but the body here has 49"},
		"API Gateway": {file: `{"httpMethod":"POST","path":"/hook","queryStringParameters":{"a":` +
			`"1"},"headers":{"Host":"shop.example","signature":"abab"},"body":"{\"event\":\"payment.status_changed\", ` +
			`\"amount\":10.50}","isBase64Encoded":false}`, note: "the query is rebuilt from its parameters"},
		"API Gateway with a stage": {file: `{"path":"/hook","requestContext":{"path":"/v1/hook"},"headers":` +
			`{"Host":"shop.example"},"body":null}`, url: "https://shop.example/v1/hook", body: "-", note: "includes the stage"},
		"API Gateway 2": {file: `{"rawPath":"/hook","rawQueryString":"a=1","requestContext":` +
			`{"domainName":"shop.example","http":{"method":"POST"}},"headers":{"signature":"abab"},"body":"` +
			base64.StdEncoding.EncodeToString([]byte(body)) + `","isBase64Encoded":true}`},
		"ALB": {file: `{"httpMethod":"POST","path":"/hook",` +
			`"multiValueQueryStringParameters":{"a":["1"]},"multiValueHeaders":{"host":["shop.example"],"signature":` +
			`["abab"]},"body":"{\"event\":\"payment.status_changed\", \"amount\":10.50}"}`, note: "the query is rebuilt"},
		"headers and body": {file: `{"url":"/hook?a=1","headers":[["host","shop.example"],["signature",` +
			`"abab"]],"body_base64":"` + base64.StdEncoding.EncodeToString([]byte(body)) + `"}`},
		"header lines and a parsed body": {file: `{"request":{"uri":"/hook?a=1","headers":["Host: shop.example",` +
			`"Signature: abab"],"body":` + body + `}}`, note: "parsed and encoded it"},
		"a space in the query": {file: strings.Replace(har, "?a=1", "?a= 1", 1),
			url: "https://shop.example/hook?a=%201", note: "replaced with %20"},
		"a duplicate header in JSON": {file: `{"url":"/hook?a=1","headers":{"host":"shop.example","signature":` +
			`"abab","Signature":"b"},"body":"` + strings.ReplaceAll(body, `"`, `\"`) + `"}`,
			note: "the header Signature appears 2 times", withHeader: "b"},
		"a number and a lost character": {file: `{"url":"/hook?a=1","headers":{"host":"shop.example","timestamp":` +
			`1700000000},"body":"\ud800"}`, body: "\ufffd", note: "U+FFFD"},
		"a body of another length": {file: `{"url":"/hook?a=1","headers":{"host":"shop.example","content-length":` +
			`"9"},"body":"x"}`, body: "x", note: "lost or added bytes"},
		"one signed line of many": {file: `{"path":"/a","headers":{}}` + "\n" +
			`{"url":"/hook?a=1","headers":{"host":"shop.example","x-hmac":"a"},"body":"` + strings.ReplaceAll(body, `"`, `\"`) +
			`"}`},
		"a list in JSON with one in Latin1": {file: `[{"url":"/hook?a=1","headers":{"host":"shop.example","a":"` + "\xe9" +
			`"},"body":"x"}]`, body: "x", note: "not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			m := read(t, tt.file, Options{})
			want := tt.body
			if want == "" {
				want = body
			}
			require.Equal(t, strings.TrimPrefix(want, "-"), string(m.Body))
			switch tt.url {
			case "-":
				require.Nil(t, m.URL)
			case "":
				require.Equal(t, "https://shop.example/hook?a=1", m.URL.String())
			default:
				require.Equal(t, tt.url, m.URL.String())
			}
			require.Equal(t, http.MethodPost, m.Method)
			require.Empty(t, m.Header["Host"])
			if tt.withHeader != "" {
				require.ElementsMatch(t, []string{"abab", tt.withHeader}, m.Header["Signature"])
			} else if strings.Contains(tt.file, "abab") {
				require.Equal(t, []string{"abab"}, m.Header["Signature"])
			}
			if tt.note == "" {
				require.Empty(t, m.Notes)
			}
			require.Contains(t, strings.Join(m.Notes, "\n"), tt.note)
			require.Contains(t, m.Source, "a.txt")
			roundTrip(t, m)
		})
	}
}

// roundTrip writes a message and reads it back.
func roundTrip(t *testing.T, m Message) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, m))
	back := read(t, b.String(), Options{})
	require.Equal(t, m.URL == nil, back.URL == nil)
	if m.URL != nil { // without an address there is no place for a method
		require.Equal(t, m.Method, back.Method)
		require.Equal(t, m.URL.String(), back.URL.String())
	}
	require.Equal(t, string(m.Body), string(back.Body))
	m.Header.Del("Content-Length")
	back.Header.Del("Content-Length")
	require.Equal(t, m.Header, back.Header)
}

// opener returns a function for [Options.Open].
func opener(files map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if data, ok := files[name]; ok {
			return []byte(data), nil
		}
		return nil, os.ErrNotExist
	}
}

func TestReadCurl(t *testing.T) {
	files := map[string]string{"body.json": "{\r\n\"a\":\x00 1}\n"}
	const at = " https://shop.example/hook"
	for name, tt := range map[string]struct{ command, body, note, contentType, method string }{
		"single quotes": {command: `curl -sSX POST -H 'Signature: abab' -d '{"a":"b"}'` + at, body: `{"a":"b"}`,
			contentType: "application/x-www-form-urlencoded"},
		"double quotes": {command: `curl --data-raw "{\"a\":\"\$x\\\"}" -H "Content-Type: a/b" "https:` +
			`//shop.example/hook"`, body: `{"a":"$x\"}`, contentType: "a/b"},
		"lines": {command: "curl \\\n  --request PUT \\\r\n --data-binary 'a\nb'" + at, body: "a\nb",
			method: "PUT"},
		"parts of a word": {command: `curl -d{\"a\":'"b"'"c"}` + at + " # done", body: `{"a":"b"c}`},
		"ANSI-C": {command: `curl --data-raw $'{"a":"\u00e9\n\'\x21\'\""}'` + at,
			body: "{\"a\":\"é\n'!'\"\"}"},
		"several parts":           {command: `curl -d a=1 -d b=2 --data-raw @c` + at, body: "a=1&b=2&@c"},
		"a file with -d":          {command: `curl -d @body.json` + at, body: `{"a": 1}`, note: "older versions of curl"},
		"a file with data-binary": {command: `curl --data-binary @body.json` + at, body: files["body.json"]},
		"a file with json": {command: `curl --json @body.json --json '{}'` + at, body: files["body.json"] + "{}",
			contentType: "application/json"},
		"an address without http": {command: `curl -d x -u a:b -H Content-Type: -o out 'http://shop.example/hook#f'`,
			body: "x", note: "Authorization", contentType: "-"},
		"an option with a value": {command: `curl --netrc-file n --socks5 h:1 -d x` + at, body: "x"},
		"a Host of its own":      {command: `curl -H 'Host: shop.example' -d x 127.0.0.1:1/hook`, body: "x"},
		"cmd.exe": {command: `C:\Users\x>curl -d "{\"a\": \"b\\c\"}" -H "X: ""y""" "https:` +
			`//shop.example/hook" & dir`, body: `{"a": "b\\c"}`},
		"cmd.exe as Chrome": {command: "curl ^\"https://shop.example/hook^\" ^\r\n  -H ^\"a: b^\" ^\r\n  --data-raw " +
			"^\"^{^\\^\"a^\\^\":^\\^\"b ^% c^\\^\"^}^\"", body: `{"a":"b % c"}`},
		"PowerShell": {command: "PS C:\\> curl.exe -d '{\\\"a\\\": 1}' `\r\n -H \"X: `\"''`\"\"" + at,
			body: `{"a": 1}`, note: "backslash before a quote"},
		"PowerShell from 7.3": {command: `curl.exe -d '{"a": ''b''}' ` + at, body: `{"a": 'b'}`,
			note: "strips the double quotes"},
	} {
		t.Run(name, func(t *testing.T) {
			m := read(t, tt.command, Options{Open: opener(files)})
			require.Equal(t, tt.body, string(m.Body))
			require.Equal(t, "shop.example/hook", m.URL.Host+m.URL.Path)
			require.Contains(t, "POST "+tt.method, m.Method)
			require.Contains(t, strings.Join(m.Notes, "\n"), tt.note)
			if tt.contentType != "" {
				require.Equal(t, strings.TrimPrefix(tt.contentType, "-"), m.Header.Get("Content-Type"))
			}
			roundTrip(t, m)
		})
	}
}

func TestReadHeadersAndABodyFile(t *testing.T) {
	for name, tt := range map[string]struct{ headers, file, body, note string }{
		"headers": {headers, body, body, "no request line"},
		"with a line end": {"POST / HTTP/1.1\n" + headers, body + "\n", body + "\n",
			"body.json ends with a line end, which counts"},
		"with a line end not sent": {"POST / HTTP/1.1\nContent-Length: 50\n\n", body + "\r\n", body,
			"is omitted, because the Content-Length excludes it"},
		"with a byte order mark":       {headers, "\ufeff{}", "\ufeff{}", "begins with a byte order mark"},
		"curl -v":                      {"> POST / HTTP/1.1\n> Content-Length: 50\n>\n", body, body, ""},
		"a curl command with no body":  {"curl https://shop.example/", body, body, ""},
		"a curl command with its file": {"curl -d @other https://shop.example/", "{\n}", "{}", "curl -d drops"},
		"a HAR file":                   {har, "{}", "{}", ""},
		"a gateway's JSON":             {`{"headers":{}}`, "{}", "{}", "no path"},
	} {
		t.Run(name, func(t *testing.T) {
			m := read(t, tt.headers, Options{Body: []byte(tt.file), BodyName: "body.json"})
			require.Equal(t, http.MethodPost, m.Method)
			require.Equal(t, tt.body, string(m.Body))
			require.Contains(t, strings.Join(m.Notes, "\n"), tt.note)
		})
	}
	for headers, want := range map[string]string{
		"A: b\n\n{}": "headers.txt:3:1: a body here, and a second body in body.json",
		"A: b\n":     "body.json:1:1: this is UTF-16",
	} {
		_, err := Read([]byte(headers), "headers.txt", Options{Body: []byte("\xff\xfe{\x00"), BodyName: "body.json"})
		require.ErrorContains(t, err, want)
	}
}

func TestReadChooses(t *testing.T) {
	two := strings.TrimSuffix(har, "]}}") +
		`,{"request":{"method":"PUT","url":"https://shop.example/other?token=secret","bodySize":0,"headers":[{"name":` +
		`"X-Sign","value":"c"}]}}]}}`
	_, err := Read([]byte(two), "a.har", Options{})
	require.EqualError(t, err,
		"a.har:1:1: the file has 2 signed messages; choose an entry with -entry: 2 POST https://shop.example/hook; "+
			"3 PUT https://shop.example/other")
	_, err = Read([]byte(strings.ReplaceAll(two, "shop.example/", "shop.example/4111111111111111/")), "a.har", Options{})
	require.ErrorContains(t, err, "2 POST https://shop.example/<card number>/hook")
	for name, tt := range map[string]struct {
		o    Options
		want string
	}{
		"an entry":        {Options{Entry: 1}, "a.txt entry 1"},
		"an address":      {Options{URL: "/hook"}, "a.txt entry 2"},
		"a header's name": {Options{Signature: "x-sign"}, "a.txt entry 3"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, read(t, two, tt.o).Source)
		})
	}
	for want, o := range map[string]Options{
		"there is no entry 4; the last entry is 3": {Entry: 4},
		"no address contains the text of -url":     {URL: "nowhere"},
		"3 messages without a signature header":    {Signature: "none"},
	} {
		_, err := Read([]byte(two), "a.har", o)
		require.ErrorContains(t, err, want)
	}
}

func TestReadErrorsNameThePlace(t *testing.T) {
	entry := func(postData string) string {
		return "{\"log\":{\"entries\":[\n {\"request\":{\"method\":\"POST\",\"url\":\"/\",\"bodySize\":9,\"headers\":[]" +
			postData + "}}]}}"
	}
	for name, tt := range map[string]struct{ file, want string }{
		"nothing":                     {"", "1:1: empty"},
		"blank lines":                 {"\n\r\n", "3:1: empty"},
		"a response":                  {"HTTP/1.1 200 OK\n\n", "1:1: this is a response"},
		"a line of one word":          {"POST\n\n", "1:1: not a request line"},
		"a version of something else": {"POST / HTTPS\n\n", "1:1: not a request line"},
		"no address":                  {"POST mailto:a HTTP/1.1\n\n", "1:6: the address is neither a path nor an http"},
		"another protocol":            {"POST ftp://a/b HTTP/1.1\n\n", "1:6: the address is neither a path nor an http"},
		"headers without an end":      {"POST / HTTP/1.1\nA: b\n", "3:1: the file ends within the headers"},
		"a header over two lines":     {"\nPOST / HTTP/1.1\nX-A: 1\n 2\n\n", "4:1: this line continues a header"},
		"two hosts":                   {"POST / HTTP/1.1\nHost: a\nhost: b\n\n", "3:1: the header Host is duplicated"},
		"a control character":         {"POST / HTTP/1.1\nHost: a\rb\n\n", "2:1: the header has an invalid character"},
		"a length that is no number": {"POST / HTTP/1.1\nContent-Length: x\n\n",
			"2:1: the Content-Length is not a number"},
		"a body in chunks": {"POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n2",
			"4:1: the body is chunked"},
		"a body that is too short": {"POST / HTTP/1.1\nContent-Length: 3\n\n{}",
			"4:1: Content-Length is 3, but the body in the file has 2 bytes"},
		"a body that is too long": {"POST / HTTP/1.1\nContent-Length: 3\n\n{\n}\nmore",
			"5:2: the body is longer than its Content-Length, 3 bytes"},
		"half a character of UTF-16": {"\xff\xfe{\x00}", "1:1: the file is UTF-16, but ends within"},
		"curl -v without the body": {"> POST / HTTP/1.1\n> A: b\n>\n< HTTP/1.1 200 OK\n",
			"4:1: curl -v does not print the body"},
		"curl -v of two requests":     {"> POST / HTTP/1.1\n>\nx\n> POST / HTTP/1.1\n>\n", "4:1: a second request"},
		"curl without an address":     {"curl -d x", "1:1: this curl command has no address"},
		"curl with two":               {"curl https://a https://b", "1:16: a second address"},
		"curl with one that is none":  {"curl 'https://[x'", "1:6: the address is not an http or https URL"},
		"curl with an open quote":     {"curl https://a \\\n  -d 'x", "2:6: this quote is not closed"},
		"curl with a variable":        {`curl -H "Signature: $SIG" https://a`, "1:21: the shell replaces this"},
		"curl that ends before -d":    {"curl -X POST https://a?b=1&c=2 -d x", "1:27: the command ends here, before"},
		"curl on lines without signs": {"curl -X POST https://a\n  -d x", "1:23: the command ends here, before"},
		"curl of cmd.exe that ends": {`C:\>curl -X POST https://a?b=1&c=2 --data-raw x`,
			"1:31: the command ends here, before"},
		"curl with a file": {"curl -d @x https://a",
			"1:9: the body is in a file or in standard input: name a file with -body"},
		"curl with -G":                  {"curl -G -d a=b https://a", "1:6: curl -G"},
		"curl without the value":        {"curl https://a -d", "1:16: this curl option lacks its value"},
		"curl with headers from a file": {"curl -H @h https://a", "1:9: headers in a file"},
		"JSON that is cut off":          {"{\"a\":\n", "2:1: the JSON is cut off"},
		"JSON with a mistake":           {"{\"a\":\n tru}", "2:5: the JSON is invalid here"},
		"JSON without headers":          {`{"a":1}`, "1:1: there is no request in this JSON"},
		"JSON with a number for a path": {`{"headers":{},"path":1}`, "1:1: the address is neither a path"},
		"JSON with headers of no kind":  {`{"headers":[1],"path":"/"}`, "1:12: the headers are neither"},
		"an empty list":                 {"[]", "1:1: there is no request in this JSON"},
		"too many brackets": {strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
			"1:1: there is no request in this JSON"},
		"base64 that is none": {`{"headers":{},"body":"*","isBase64Encoded":true}`,
			"1:22: the body is not base64"},
		"a HAR without the body": {entry(""), "2:2: the body is missing here"},
		"a HAR with the params only": {entry(`,"postData":{"params":[{"name":"a"}]}`),
			"2:2: the body is recorded as params"},
		"a HAR with an address of none":  {strings.Replace(entry(""), `"/"`, `"x"`, 1), "2:2: the address is neither"},
		"a request line of another form": {"PO(ST / HTTP/1.1\n\n", "1:1: not a request line"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read([]byte(tt.file), "a.txt", Options{})
			require.ErrorContains(t, err, "a.txt:"+tt.want)
			require.ErrorAs(t, err, new(*Error))
		})
	}
}

func TestWriteRejectsHeadersThatWouldBeTwo(t *testing.T) {
	for _, h := range []http.Header{{"A": {"b\r\nc"}}, {"A b": {"c"}}, {"A": {" b"}}} {
		var b bytes.Buffer
		require.ErrorContains(t, Write(&b, Message{Header: h}), "header has an invalid character")
		require.Zero(t, b.Len())
	}
	for method, query := range map[string]string{"POST / HTTP/1.1\r\nA:": "", "POST": "a b"} {
		err := Write(io.Discard, Message{Method: method, URL: &url.URL{Path: "/", RawQuery: query}})
		require.ErrorContains(t, err, "method or the address has an invalid character")
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		message, crlf, har, utf16Of(message, binary.LittleEndian, "\ufeff"), "curl -d @x -H 'A: b' https://a/b",
		"> POST / HTTP/1.1\n>\n{}",
		`curl.exe -d "{\"a\":1}" ^` + "\n https://a", "PS C:\\> curl.exe `\n 'a''b'", `curl $'\x41\n' https://a`,
		`{"headers":[["a","b"]],"body_base64":"e30=","path":"/ x"}`, ":method: POST\n:path: /\n\n",
		"Array\n(\n    [Signature] => ab\n)\n{}", "{ host: 'a', signature: 'b' }\n{}", "map[Signature:[ab]]\n{}",
		"fetch('https://a/', {headers: {signature: `b`}, body: \"\\u00e9\"})",
		"### a\n@b = c\nPOST https://a/{{b}}\n\n{}\n###\n",
		`x {"request":"POST / HTTP/1.1","http_signature":"a","request_body":"b"}`, "HTTP_HOST=a\nHTTP_SIGNATURE=b\n",
		`{"item":[{"request":{"method":"POST","url":{"raw":"/"},"header":[],"body":{"raw":"{}"}}}]}`,
		`{"log":{"entries":[` + "\n" +
			`{"request":{"method":"GET","url":"https://shop.example/x?token=secret","headers":[]}},` + "\n" +
			`{"request":{"method":"POST","url":"https://shop.example/hook? 00","00000\b0":10,"heAders":[` +
			`{"nAme":"0000000","vAlue":"0000"},  {"nAme":"000000000","vAlue":"0000000000"},` +
			`{"nAme":"sign00000","vAlue":"0000"}],  "00000000":` +
			`{"0000":"0\b00000\b0\b0000000000000000000000\b00\b000000\b0000000"}}}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		open := func(string) ([]byte, error) { return data, nil }
		m, err := Read(data, "a.txt", Options{Open: open})
		if err != nil {
			require.ErrorContains(t, err, "a.txt:")
			return
		}
		require.NotNil(t, m.Header)
		roundTrip(t, m)
	})
}

func TestDecompressedRejectsDamagedAndLargeBodies(t *testing.T) {
	compress := func(to func(io.Writer) io.WriteCloser, text []byte) []byte {
		var b bytes.Buffer
		w := to(&b)
		_, _ = w.Write(text)
		_ = w.Close()
		return b.Bytes()
	}
	zipped := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	deflated := func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }
	raw := func(w io.Writer) io.WriteCloser {
		f, _ := flate.NewWriter(w, flate.BestSpeed)
		return f
	}
	long := bytes.Repeat([]byte("0"), 1<<20)
	for name, tt := range map[string]struct {
		encoding string
		body     []byte
		want     bool
	}{
		"gzip":           {"GZIP", compress(zipped, []byte(body)), true},
		"deflate":        {"deflate", compress(deflated, []byte(body)), true},
		"without header": {"deflate", compress(raw, []byte(body)), true},
		"not compressed": {"gzip", []byte(body), false},
		"cut":            {"gzip", compress(zipped, []byte(body))[:30], false},
		"another":        {"br", []byte(body), false},
		"a bomb":         {"gzip", compress(zipped, long), false},
		"gzip and more":  {"gzip", append(compress(zipped, []byte(body)), body...), false},
		"zlib and more":  {"deflate", append(compress(deflated, []byte(body)), body...), false},
		"raw and more":   {"deflate", append(compress(raw, []byte(body)), body...), false},
		"two encodings":  {"gzip,identity", compress(zipped, []byte(body)), false},
	} {
		got, ok := Decompressed(http.Header{"Content-Encoding": strings.Split(tt.encoding, ",")}, tt.body, 1<<10)
		require.Equal(t, tt.want, ok, name)
		require.True(t, !ok || string(got) == body, name)
	}
}

func TestSaveKeepsAtMost1000Files(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	m := Message{Header: http.Header{"Timestamp": {"1764310000"}}, Body: []byte("{}")}
	for n := range int64(999) {
		require.NoError(t, NewFile(dir, fmt.Sprintf("old%d.http", n), nil))
	}
	name, err := Save(dir, 7, m)
	require.NoError(t, err)
	require.Equal(t, "0007.http", name)
	_, err = Save(dir, 8, m)
	require.EqualError(t, err, dir+" has 1000 files, want fewer than 1000: move some away")
	require.NoError(t, os.Remove(filepath.Join(dir, "old0.http")))
	_, err = Save(dir, 9, m)
	require.NoError(t, err)
}
