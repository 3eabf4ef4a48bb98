package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

// curlCommand returns a command for a POSIX shell. It names the file if the file has exactly the signed bytes.
func curlCommand(m *paymentsvc.Message, file string, trimmed bool) (string, error) {
	// Without these, curl reads ~/.curlrc, sends several requests for [1-3], and rewrites a path with dots.
	words := []string{"curl", "--disable", "--globoff", "--path-as-is"}
	if m.Method != http.MethodPost {
		words = append(words, "--request", m.Method)
	}
	words = append(words, m.URL.String())
	for _, name := range signedHeaders {
		words = append(words, "--header", name+": "+m.Header.Get(name))
	}
	switch body := string(m.Body); {
	case file != "-" && !trimmed:
		words = append(words, "--data-binary", "@"+file)
	case strings.Contains(body, "\x00"):
		return "", cli.Usagef("-as curl: the body has a NUL, which no command line can hold: give it as FILE, without -trim")
	case strings.HasPrefix(body, "@"):
		words = append(words, "--data-raw", body) // --data-binary would read a file
	default:
		words = append(words, "--data-binary", body)
	}
	for i, word := range words {
		words[i] = shellWord(word)
	}
	return strings.Join(words, " ") + "\n", nil
}

// shellWord quotes a word for a POSIX shell.
func shellWord(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-./:_") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

var signedHeaders = []string{"content-type", "timestamp", "signature"}

// rewritten matches addresses that fetch changes before it sends them, so the signature would not fit.
var rewritten = regexp.MustCompile(`(?i)/(?:\.|%2e)|\?.*["'<>]|[^!-~]|^https?://[^/]*(?-i:[A-Z])`)

// fetchCall returns an ECMAScript module.
func fetchCall(m *paymentsvc.Message) (string, error) {
	address := m.URL.String()
	if rewritten.MatchString(address) {
		return "", cli.Usagef("-as fetch: fetch rewrites this address, and the signature may cover it: use -as curl")
	}
	if !utf8.Valid(m.Body) {
		return "", cli.Usagef("-as fetch: the body is not UTF-8: use -as curl with FILE")
	}
	headers := map[string]string{}
	for _, name := range signedHeaders {
		headers[name] = m.Header.Get(name)
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for _, value := range []any{address, m.Method, headers, string(m.Body)} {
		if err := encoder.Encode(value); err != nil {
			return "", err
		}
	}
	lines := strings.Split(text.String(), "\n")
	return fmt.Sprintf(`const response = await fetch(%s, {
  method: %s,
  redirect: "error",
  headers: %s,
  body: %s,
});
console.log(response.status, await response.text());
`, lines[0], lines[1], lines[2], lines[3]), nil
}

// pythonCode returns a program for Python 3. Package http.client sends the address as it is and follows no redirect.
func pythonCode(m *paymentsvc.Message) string {
	connection := "HTTPSConnection"
	if m.URL.Scheme == "http" {
		connection = "HTTPConnection"
	}
	headers := make([]string, 0, len(signedHeaders))
	for _, name := range signedHeaders {
		headers = append(headers, fmt.Sprintf("    %s: %s,\n", byteText(name, ""), byteText(m.Header.Get(name), "")))
	}
	return fmt.Sprintf(`import http.client

connection = http.client.%s(%s)
connection.request(%s, %s, b%s, {
%s})
response = connection.getresponse()
print(response.status, response.read().decode())
`, connection, byteText(m.URL.Host, ""), byteText(m.Method, ""), byteText(m.URL.RequestURI(), ""),
		byteText(string(m.Body), ""), strings.Join(headers, ""))
}

// phpCode returns a program for PHP without extensions, except openssl for https.
func phpCode(m *paymentsvc.Message) string {
	headers := make([]string, 0, len(signedHeaders))
	for _, name := range signedHeaders {
		headers = append(headers, "        "+byteText(name+": "+m.Header.Get(name), "$")+",\n")
	}
	return fmt.Sprintf(`<?php
$response = fopen(%s, 'r', false, stream_context_create(['http' => [
    'method' => %s,
    'protocol_version' => 1.1,
    'follow_location' => 0,
    'ignore_errors' => true,
    'header' => [
%s    ],
    'content' => %s,
]]));
echo stream_get_meta_data($response)['wrapper_data'][0], "\n", stream_get_contents($response), "\n";
`, byteText(m.URL.String(), "$"), byteText(m.Method, "$"), strings.Join(headers, ""), byteText(string(m.Body), "$"))
}

// byteText returns a text in double quotes, for Python and PHP. It escapes the given characters, and writes other
// bytes than printable ASCII as \xNN.
func byteText(text, escaped string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; {
		case strings.IndexByte(`"\`+escaped, c) >= 0:
			b.WriteString(`\` + string(c))
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
