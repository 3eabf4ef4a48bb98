package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc/internal/jsonobject"
)

// Received converts a server's request to a Message. Proxies that terminate TLS usually set X-Forwarded-Proto.
func Received(req *http.Request, body []byte) Message {
	address := *req.URL
	if original, err := url.ParseRequestURI(req.RequestURI); err == nil {
		address = *original
	}
	address.Scheme, address.Host = "http", req.Host
	if req.TLS != nil || strings.EqualFold(req.Header.Get("X-Forwarded-Proto"), "https") {
		address.Scheme = "https"
	}
	return Message{Method: req.Method, URL: &address, Header: req.Header, Body: body, Announced: req.ContentLength}
}

// maxFiles limits the files in the directory of Save, because every received message can add a file of 1 MiB.
const maxFiles = 1000

// Save writes message number n to a new file in a directory, and returns the file's name. It returns an error if the
// directory has 1000 files.
func Save(dir string, n int64, m Message) (string, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case len(entries) >= maxFiles:
		return "", fmt.Errorf("%s has %d files, want fewer than %d: move some away", dir, len(entries), maxFiles)
	}
	var text bytes.Buffer
	if err := Write(&text, m); err != nil {
		return "", err
	}
	name := fmt.Sprintf("%04d.http", n)
	for copies := 2; ; copies++ {
		err := NewFile(dir, name, text.Bytes())
		if err == nil {
			return name, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		name = fmt.Sprintf("%04d-%d.http", n, copies) // an earlier run used the name
	}
}

// NewFile creates a file, and its directory if necessary, with access only for the owner. An existing file is an error.
func NewFile(dir, name string, content []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name = filepath.Join(dir, name)
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user names the directory
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// Write writes a message as HTTP text, with CRLF and a Content-Length. [Read] returns the same address, header and
// body, unless the body is truncated. For a character that is invalid in HTTP text, Write writes nothing and fails.
func Write(w io.Writer, m Message) error {
	var b bytes.Buffer
	if m.URL != nil {
		target := m.URL.RequestURI()
		if !isToken(m.Method) || strings.Contains(target, " ") {
			return errors.New("capture: the method or the address has an invalid character")
		}
		if m.URL.Host != "" && m.URL.Scheme != "https" { // Read assumes https for a path with a Host
			target = m.URL.String()
		}
		fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", m.Method, target)
		if m.URL.Host != "" {
			fmt.Fprintf(&b, "Host: %s\r\n", m.URL.Host)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		if name == "Content-Length" || name == "Transfer-Encoding" || name == "Host" {
			continue
		}
		for _, value := range m.Header[name] {
			if !isToken(name) || !isValue(value) {
				return errors.New("capture: a header has an invalid character")
			}
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", max(int64(len(m.Body)), m.Announced))
	b.Write(m.Body)
	_, err := w.Write(b.Bytes())
	return err
}

var signedHeaders = []string{"content-type", "timestamp", "signature"}

// Code returns a program that sends the exact body of m with signedHeaders, in the form "curl", "fetch", "python" or
// "php", or for "http" the output of [Write]. If file is not "", the curl command sends the body from this file.
func Code(form string, m Message, file string) (string, error) {
	switch form {
	case "curl":
		return curlCommand(m, file)
	case "fetch":
		return fetchCall(m)
	case "python":
		return pythonCode(m), nil
	case "php":
		return phpCode(m), nil
	}
	var text strings.Builder
	err := Write(&text, m)
	return text.String(), err
}

// curlCommand returns a command for a POSIX shell.
func curlCommand(m Message, file string) (string, error) {
	// Without these options, curl reads ~/.curlrc, sends several requests for [1-3], and rewrites a path with dots.
	words := []string{"curl", "--disable", "--silent", "--show-error", "--globoff", "--path-as-is"}
	switch {
	case m.Method == http.MethodHead && len(m.Body) > 0:
		return "", errors.New("curl sends HEAD only without a body: use -as python")
	case m.Method == http.MethodHead:
		words = append(words, "--head")
	case m.Method != http.MethodPost:
		words = append(words, "--request", m.Method)
	}
	words = append(words, m.URL.String())
	for _, name := range signedHeaders {
		words = append(words, "--header", name+": "+m.Header.Get(name))
	}
	switch body := string(m.Body); {
	case m.Method == http.MethodHead: // --head excludes data, even empty data
	case file != "":
		words = append(words, "--data-binary", "@"+file)
	case strings.Contains(body, "\x00"):
		return "", errors.New("the body has a NUL, which is invalid in a command line: give the body as FILE, without -trim")
	case strings.HasPrefix(body, "@"):
		words = append(words, "--data-raw", body) // --data-binary would read a file
	default:
		words = append(words, "--data-binary", body)
	}
	for i, word := range words {
		words[i] = ShellWord(word)
	}
	return strings.Join(words, " ") + "\n", nil
}

var plainWord = regexp.MustCompile(`^[\w./:-]+$`)

// ShellWord quotes a word for a POSIX shell.
func ShellWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// rewritten matches addresses that fetch changes. A signature over the address would not match the changed address.
var rewritten = regexp.MustCompile(`(?i)/(?:\.|%2e)|\?.*["'<>]|[^!-~]|^https?://[^/]*(?-i:[A-Z])`)

// fetchCall returns an ECMAScript module.
func fetchCall(m Message) (string, error) {
	address, headers := m.URL.String(), map[string]string{}
	bodiless := m.Method == http.MethodGet || m.Method == http.MethodHead
	switch {
	case bodiless && len(m.Body) > 0, slices.Contains([]string{http.MethodConnect, http.MethodTrace, "TRACK"}, m.Method):
		return "", errors.New("fetch rejects this method or its body: use -as python")
	case rewritten.MatchString(address):
		return "", errors.New("fetch rewrites this address, and the signature may cover it: use -as curl")
	case !utf8.Valid(m.Body):
		return "", errors.New("the body is not UTF-8: use -as curl with FILE")
	}
	for _, name := range signedHeaders {
		headers[name] = m.Header.Get(name)
	}
	body := new(string(m.Body))
	if bodiless {
		body = nil
	}
	var values []any
	for _, value := range []any{address, m.Method, headers, body} {
		text, _ := jsonobject.Encode(value) // encoding these values never fails
		values = append(values, text)
	}
	return fmt.Sprintf(`const response = await fetch(%s, {
  method: %s,
  redirect: "error",
  headers: %s,
  body: %s,
});
console.log(response.status, await response.text());
`, values...), nil
}

// pythonCode returns a program for Python 3. Its http.client sends the address unchanged and does not follow redirects.
func pythonCode(m Message) string {
	var headers strings.Builder
	for _, name := range signedHeaders {
		fmt.Fprintf(&headers, "    %q: %s,\n", name, byteText(m.Header.Get(name), ""))
	}
	connection := map[string]string{"http": "HTTPConnection", "https": "HTTPSConnection"}[m.URL.Scheme]
	return fmt.Sprintf(`import http.client

connection = http.client.%s(%s)
connection.request(%q, %s, b%s, {
%s})
response = connection.getresponse()
print(response.status, response.read().decode())
`, connection, byteText(m.URL.Host, ""), m.Method, byteText(m.URL.RequestURI(), ""), byteText(string(m.Body), ""),
		&headers)
}

// phpCode returns a program for PHP without extensions, except openssl for https.
func phpCode(m Message) string {
	var headers strings.Builder
	for _, name := range signedHeaders {
		fmt.Fprintf(&headers, "        %s,\n", byteText(name+": "+m.Header.Get(name), "$"))
	}
	return fmt.Sprintf(`<?php
$response = fopen(%s, 'r', false, stream_context_create(['http' => [
    'method' => %q,
    'protocol_version' => 1.1,
    'follow_location' => 0,
    'ignore_errors' => true,
    'header' => [
%s    ],
    'content' => %s,
]]));
echo stream_get_meta_data($response)['wrapper_data'][0], "\n", stream_get_contents($response), "\n";
`, byteText(m.URL.String(), "$"), m.Method, &headers, byteText(string(m.Body), "$"))
}

// byteText returns text as a string in double quotes, for Python and PHP. It writes a backslash before quotes,
// backslashes and the characters in escaped, and \xNN for bytes outside printable ASCII.
func byteText(text, escaped string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case strings.IndexByte(`"\`+escaped, c) >= 0:
			b.WriteString(`\` + string(c))
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return `"` + b.String() + `"`
}
