package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/discover"
)

const secret paymentsvc.Secret = "sk-test-9a7d3f10"

// raw writes a request with its signature, and with line ends of the kind given.
func raw(t *testing.T, part paymentsvc.CanonicalFunc, path, body, lineEnd string) string {
	t.Helper()
	lines := func(signature string) []string {
		return []string{
			"POST " + path + " HTTP/1.1", "Host: pay.example.com", "content-type: application/json",
			"timestamp: 1700000000", "signature: " + signature, "", body,
		}
	}
	s, err := parseSample("", []byte(strings.Join(lines("x"), lineEnd)))
	require.NoError(t, err)
	signature, err := paymentsvc.Scheme{Canonical: part, Encoding: paymentsvc.Hex}.Signature(secret, &s.message)
	require.NoError(t, err)
	return strings.Join(lines(signature), lineEnd)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// call runs the command, and wants the secret nowhere in what it writes.
func call(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(stdin), &out, &errs)
	require.NotContains(t, out.String(), string(secret))
	require.NotContains(t, errs.String(), string(secret))
	return code, out.String(), errs.String()
}

const (
	request      = `{"partner_id":17,"project_id":42,"amount":10.50,"user_data":"order-1"}`
	notification = `{"event":"payment.status_changed","order_id":"o-1","status":2,"status_description":"SUCCESS","status_code":0,"amount":10.5}`
)

func TestRunPrintsTheCode(t *testing.T) {
	part := canonical.Join("\n", canonical.Timestamp, canonical.Path, canonical.Body)
	key := write(t, "key", string(secret)+"\r\n")
	for name, lineEnd := range map[string]string{"line feeds": "\n", "carriage returns and line feeds": "\r\n"} {
		t.Run(name, func(t *testing.T) {
			file := write(t, "accepted.http", raw(t, part, "/v1/init_payment/card", request, lineEnd))
			code, out, errs := call(t, "", "-secret-file", key, file)
			require.Zero(t, code, errs)
			require.Contains(t, out, "Found for requests, in ")
			require.Contains(t, out, "compositions.\n\n    hex(timestamp \"\\n\" path \"\\n\" body)\n\nHMAC-SHA256, keyed with")
			require.Contains(t, out, `    import (
    	"github.com/paymentsvc/paymentsvc"
    	"github.com/paymentsvc/paymentsvc/canonical"
    )

    scheme := paymentsvc.Scheme{
    	Canonical: canonical.Join("\n", canonical.Timestamp, canonical.Path, canonical.Body),
    	Encoding:  paymentsvc.Hex,
    }
`)
			require.Contains(t, out, "or canonical.RequestURI\n         a sample with a query in the address\n")
			require.Empty(t, errs)
		})
	}
	t.Run("from standard input, with the secret from the environment", func(t *testing.T) {
		t.Setenv("DISCOVER_TEST_KEY", string(secret))
		sample := raw(t, part, "https://pay.example.com/v1/init_payment/card", request, "\n")
		for _, args := range [][]string{{"-secret-env", "DISCOVER_TEST_KEY"}, {"-secret-env", "DISCOVER_TEST_KEY", "-"}} {
			code, out, errs := call(t, sample, args...)
			require.Zero(t, code, errs)
			require.Contains(t, out, "scheme := ")
		}
	})
	t.Run("with a line end that an editor put at the end", func(t *testing.T) {
		file := write(t, "accepted.http", raw(t, part, "/v1/init_payment/card", request, "\n")+"\n")
		code, out, errs := call(t, "", "-secret-file", key, file)
		require.Zero(t, code, errs)
		require.Contains(t, out, "the line end at the end of the file is taken for the file's own")
		require.Contains(t, out, "canonical.Timestamp, canonical.Path, canonical.Body)")
	})
	t.Run("with a key that is not the secret's text", func(t *testing.T) {
		hexKey := "00112233445566778899aabbccddeeff"
		key, err := canonical.SecretHex.Read(paymentsvc.Secret(hexKey))
		require.NoError(t, err)
		s, err := parseSample("", []byte("POST /a HTTP/1.1\nTimestamp: 1700000000\nSignature: x\n\n{}"))
		require.NoError(t, err)
		signature, err := paymentsvc.Scheme{Canonical: canonical.Path, Encoding: paymentsvc.Hex}.Signature(key, &s.message)
		require.NoError(t, err)
		code, out, errs := call(t, "POST /a HTTP/1.1\nTimestamp: 1700000000\nSignature: "+signature+"\n\n{}", "-secret-file", write(t, "key", hexKey))
		require.Zero(t, code, errs)
		require.Contains(t, out, "    key, err := canonical.SecretHex.Read(secret) // sign with key, not with secret\n    scheme := ")
		require.NotContains(t, out, hexKey)
	})
	t.Run("with a word of the caller's", func(t *testing.T) {
		part := canonical.Join(":", canonical.Literal("key-7"), canonical.Timestamp)
		code, out, errs := call(t, raw(t, part, "/a", request, "\n"), "-secret-file", key, "-word", "key-8", "-word", "key-7")
		require.Zero(t, code, errs)
		require.Contains(t, out, `canonical.Literal("key-7")`)
	})
}

func TestRunRequestsAndNotifications(t *testing.T) {
	key := write(t, "key", string(secret))
	of := func(request, notification string) []string {
		return []string{"-secret-file", key, write(t, "request.http", request), write(t, "notification.http", notification)}
	}
	t.Run("that share a scheme get one", func(t *testing.T) {
		part := canonical.Join(".", canonical.Timestamp, canonical.Body)
		code, out, errs := call(t, "", of(raw(t, part, "/v1/a", request, "\n"), raw(t, part, "/hook", notification, "\n"))...)
		require.Zero(t, code, errs)
		require.Equal(t, 1, strings.Count(out, "scheme := "))
		require.Contains(t, out, "Found for requests and notifications")
	})
	t.Run("that do not get one each", func(t *testing.T) {
		code, out, errs := call(t, "", of(
			raw(t, canonical.Join("\n", canonical.Path, canonical.Body), "/v1/a", request, "\n"),
			raw(t, canonical.Join(".", canonical.Timestamp, canonical.Body), "/hook", notification, "\n"))...)
		require.Zero(t, code, errs)
		require.Contains(t, out, "Found for requests, ")
		require.Contains(t, out, "Found for notifications, ")
		require.Contains(t, out, "canonical.ByKind")
		require.Contains(t, out, `    request hex(path "\n" body), notification hex(timestamp "." body)`)
	})
	t.Run("are told apart by the flag where that is given", func(t *testing.T) {
		code, out, errs := call(t, "", append([]string{"-kind", "notification"}, of(
			raw(t, canonical.Body, "/v1/a", request, "\n"), raw(t, canonical.Body, "/hook", notification, "\n"))...)...)
		require.Zero(t, code, errs)
		require.Contains(t, out, "Found for notifications, ")
	})
}

func TestRunPrintsHintsIfNothingIsFound(t *testing.T) {
	sample := raw(t, canonical.Body, "/v1/a", request, "\n")
	code, out, _ := call(t, sample, "-secret-file", write(t, "key", "another secret"), "-effort", "0.001")
	require.Equal(t, 1, code)
	require.Contains(t, out, "Nothing found for requests: discover: no composition explains the samples")
	require.Contains(t, out, "is it the secret key of the very project")
	require.Contains(t, out, "such as the partner id, the project id or the name of an API key: -word")
	require.Regexp(t, `Tried: \d+ compositions of \d+ families in `, out)
	require.Contains(t, out, "Not tried, since it is more than -effort allows: ")
	require.NotContains(t, out, "scheme := ")
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	code := run(ctx, []string{"-secret-file", write(t, "key", "another secret")},
		strings.NewReader(raw(t, canonical.Body, "/v1/a", request, "\n")), &out, &errs)
	require.Equal(t, 1, code)
	require.Contains(t, out.String(), "the search was ended after 0 compositions: context canceled")
	require.NotContains(t, out.String(), "scheme := ")
}

func TestJSON(t *testing.T) {
	part := canonical.Join("\n", canonical.Timestamp, canonical.Path, canonical.Body)
	key := write(t, "key", string(secret))
	decode := func(text string) (list []foundJSON) {
		require.NoError(t, json.Unmarshal([]byte(text), &list))
		return list
	}
	code, out, errs := call(t, raw(t, part, "/v1/a", request, "\n"), "-json", "-secret-file", key)
	require.Zero(t, code)
	require.Empty(t, errs)
	list := decode(out)
	require.Len(t, list, 1)
	require.True(t, list[0].Found)
	require.Equal(t, "requests", list[0].About)
	require.Equal(t, `hex(timestamp "\n" path "\n" body)`, list[0].Matches[0].Text)
	require.Contains(t, list[0].Matches[0].Scheme, `canonical.Join("\n", canonical.Timestamp, canonical.Path, canonical.Body)`)
	require.Equal(t, "secret", list[0].Matches[0].Secret)
	require.Equal(t, []string{"standard input"}, list[0].Matches[0].Samples)
	require.Equal(t, "a sample with a query in the address", list[0].Undecided[0].Others["canonical.RequestURI"])
	require.Positive(t, list[0].Tried)
	require.Positive(t, list[0].MillionPerSecond)

	code, out, errs = call(t, raw(t, part, "/v1/a", request, "\n"), "-json", "-effort", "0.001", "-secret-file", write(t, "key", "another"))
	require.Equal(t, 1, code)
	require.Empty(t, errs)
	list = decode(out)
	require.False(t, list[0].Found)
	require.Empty(t, list[0].Matches)
	require.Contains(t, strings.Join(list[0].Hints, "\n"), "-effort 10")
	require.NotEmpty(t, list[0].Covered)
	require.Contains(t, list[0].Error, "no composition")
}

func TestRunNamesTheSamplesThatFit(t *testing.T) {
	good := write(t, "good.http", raw(t, canonical.Body, "/v1/a", request, "\n"))
	bad := write(t, "bad.http", strings.Replace(raw(t, canonical.Body, "/v1/a", `{"a":1}`, "\n"), `{"a":1}`, `{"a":2}`, 1))
	code, out, _ := call(t, "", "-secret-file", write(t, "key", string(secret)), "-effort", "0.01", good, bad)
	require.Equal(t, 1, code)
	require.Contains(t, out, "This explains "+good+" only:")
}

func TestRunPrintsWarnings(t *testing.T) {
	part := canonical.Join("", canonical.Field("partner_id"), canonical.Field("amount"), canonical.Timestamp)
	key := write(t, "key", string(secret))
	code, out, errs := call(t, raw(t, part, "/v1/a", request, "\n"), "-secret-file", key)
	require.Zero(t, code, errs)
	require.Contains(t, out, "Warning: the text can be cut in two ways: field partner_id, field amount and timestamp run into each other, so a recorded message can be accepted as another one")
	require.Contains(t, out, "Warning: fields that are not signed can be changed: ")

	code, out, errs = call(t, raw(t, part, "/v1/a", request, "\n"), "-json", "-secret-file", key)
	require.Zero(t, code, errs)
	var list []foundJSON
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Len(t, list[0].Matches[0].Warnings, 2)

	code, out, errs = call(t, raw(t, canonical.Join("", canonical.Timestamp, canonical.Body), "/v1/a", request, "\n"), "-secret-file", key)
	require.Zero(t, code, errs)
	require.NotContains(t, out, "Warning")
}

func TestDemoFindsWhatItHides(t *testing.T) {
	code, out, errs := call(t, "", "-demo")
	require.Zero(t, code, errs)
	require.Contains(t, out, "are made up; the service's own way is not shown")
	require.Contains(t, out, "POST /v1/init_payment/card HTTP/1.1")
	require.Contains(t, out, "scheme := ")
	require.Contains(t, out, "Hidden was: ")

	code, out, errs = call(t, "", "-demo", "-json")
	require.Zero(t, code, errs)
	var decoded struct {
		Demo, Hidden string
		Found        []foundJSON
	}
	require.NoError(t, json.Unmarshal([]byte(out), &decoded))
	require.Contains(t, decoded.Demo, "made up")
	require.NotEmpty(t, decoded.Hidden)
	require.True(t, decoded.Found[0].Found)
}

func TestDemoCompositionsAreAllFound(t *testing.T) {
	for _, text := range compositions() {
		t.Run(text, func(t *testing.T) {
			d := &demo{secret: secret, raw: map[string]string{}}
			require.NoError(t, d.capture(context.Background(), text))
			require.Len(t, d.samples, 3)
			result, err := discover.Find(context.Background(), canonicalSamples(d.samples), discover.Options{Secret: secret})
			require.NoError(t, err)
			var files []string
			for name, sample := range d.raw {
				files = append(files, write(t, name, sample))
			}
			for _, m := range result.Matches { // what is printed must be what -check reads, and fit
				code, out, errs := call(t, "", append([]string{"-secret-file", write(t, "key", string(secret)), "-check", m.Text}, files...)...)
				require.Zero(t, code, errs)
				require.Equal(t, 3, strings.Count(out, "fits the signature."), m.Text)
			}
		})
	}
}

func TestCheckShowsTheCanonicalString(t *testing.T) {
	key := write(t, "key", string(secret))
	part := canonical.Join("\n", canonical.Timestamp, canonical.Path, canonical.Body)
	body := "{\"a\":\"x\\ty\",\t\"card\":\"4111 1111 1111 1111\",\"id\":\"4111111111111112\",\"s\":\"" + string(secret) + "\",\"n\":\"\u00a0\"}"
	sample := raw(t, part, "/v1/a", body, "\n")

	t.Run("that fits", func(t *testing.T) {
		code, out, errs := call(t, sample, "-secret-file", key, "-check", `hex(timestamp '\n' path '\n' body)`)
		require.Zero(t, code, errs)
		require.Contains(t, out, "standard input: fits the signature. The canonical string, of ")
		require.Contains(t, out, `     1  "1700000000\n"`+"\n"+`     2  "/v1/a\n"`+"\n"+
			`     3  "{\"a\":\"x\\ty\",\t\"card\":\"«card number»\",\"id\":\"4111111111111112\",\"s\":\"«secret»\",\"n\":\"\u00a0\"}"`+"\n")
	})
	t.Run("that does not fit", func(t *testing.T) {
		code, out, errs := call(t, sample, "-secret-file", key, "-check",
			`base64(secret "\r\n"), key sha256, body unsigned`)
		require.Equal(t, 1, code, errs)
		require.Contains(t, out, "does not fit the signature. The canonical string, of ")
		require.Contains(t, out, `     1  "«secret»\r\n"`)
	})
	t.Run("with a stand-in where the secret is changed before it is shown", func(t *testing.T) {
		_, out, _ := call(t, sample, "-secret-file", key, "-check", `hex(upper(secret)), body unsigned`)
		require.Contains(t, out, `"«SECRET»"`)
		require.NotContains(t, out, strings.ToUpper(string(secret)))
	})
	t.Run("that is empty", func(t *testing.T) {
		code, out, _ := call(t, sample, "-secret-file", key, "-check", `hex(""), body unsigned`)
		require.Equal(t, 1, code)
		require.Contains(t, out, "of 0 bytes:\n\n     1  \"\"\n")
	})
	t.Run("that the sample lacks a part for", func(t *testing.T) {
		code, out, _ := call(t, sample, "-secret-file", key, "-check", `hex(header("X-None") body)`)
		require.Equal(t, 1, code)
		require.Contains(t, out, "standard input: canonical: header X-None: 0 values, want exactly 1.\n")
	})
	t.Run("as JSON", func(t *testing.T) {
		code, out, _ := call(t, sample, "-json", "-secret-file", key, "-check", `hex(path), body unsigned`)
		require.Equal(t, 1, code)
		var list []checked
		require.NoError(t, json.Unmarshal([]byte(out), &list))
		require.Equal(t, []checked{{Sample: "standard input", Lines: []string{`"/v1/a"`}, Bytes: 5}}, list)
	})
}

func TestCheckErrors(t *testing.T) {
	key := write(t, "key", string(secret))
	for text, want := range map[string]string{
		`canonical.Join(".", canonical.Body)`: `discover: -check: column 1: unknown encoding "canonical", want an encoding such as hex`,
		`hex(bdy)`:                            `discover: -check: column 5: unknown part "bdy", did you mean body?`,
		`hex(timestamp)`:                      `discover: -check: column 5: signs neither body nor fields`,
		`hex(body), key hex`:                  `discover: -check: column 16: key hex: the secret is not hexadecimal`,
	} {
		code, out, errs := call(t, raw(t, canonical.Body, "/a", "{}", "\n"), "-secret-file", key, "-check", text)
		require.Equal(t, 2, code)
		require.Empty(t, out)
		require.Equal(t, want+"\n", errs)
	}
}

func TestSampleErrors(t *testing.T) {
	const headers = "Host: pay.example.com\nTimestamp: 1700000000\nSignature: " + "abababababababababababababababababababababababababababababababab\n"
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":                        {"", ":1: empty"},
		"blank lines":                    {"\n\r\n", ":3: empty"},
		"a response":                     {"HTTP/1.1 200 OK\n\n", ":1: this is a response"},
		"JSON":                           {`{"a": 1}`, ":1: not the first line of a request"},
		"a line of one word":             {"POST\n\n", ":1: not the first line of a request"},
		"a version of something else":    {"POST / HTTPS\n\n", ":1: not the first line of a request"},
		"an address without a slash":     {"POST init_payment HTTP/1.1\n\n", ":1: the address is neither a path nor a URL"},
		"no address":                     {"POST mailto:a HTTP/1.1\n\n", ":1: the address is neither a path nor a URL"},
		"headers without an end":         {"POST / HTTP/1.1\n" + headers, ":5: the file ends within the headers"},
		"a header without a colon":       {"POST / HTTP/1.1\nHost pay.example.com\n\n", ":2: not a header"},
		"a header with a space":          {"POST / HTTP/1.1\nHost : pay.example.com\n\n", ":2: not a header"},
		"a header over two lines":        {"\nPOST / HTTP/1.1\nX-A: 1\n 2\n\n", ":4: a header that goes on"},
		"two timestamps":                 {"POST / HTTP/1.1\n" + headers + "timestamp: 1\n\n", ":5: a second Timestamp header"},
		"two signatures":                 {"POST / HTTP/1.1\n" + headers + "SIGNATURE: 1\n\n", ":5: a second Signature header"},
		"no timestamp":                   {"POST / HTTP/1.1\nSignature: a\n\n{}", ":3: no timestamp header"},
		"no signature":                   {"POST / HTTP/1.1\nTimestamp: 1\n\n{}", ":3: no signature header"},
		"a timestamp that is a date":     {"POST / HTTP/1.1\nTimestamp: 2026-01-01\n\n", ":2: the timestamp is not Unix seconds"},
		"a length that is no number":     {"POST / HTTP/1.1\nContent-Length: x\n\n", ":2: the Content-Length is not a number"},
		"a body in chunks":               {"POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n", ":2: the body is sent in chunks"},
		"a body that is too short":       {"POST / HTTP/1.1\n" + headers + "Content-Length: 3\n\n{}", ":5: Content-Length is 3, and the file has 2 bytes of body"},
		"a length beyond every file":     {"POST / HTTP/1.1\n" + headers + "Content-Length: 99999999999999999999\n\n{}", ":5: Content-Length is "},
		"a body that is too long":        {"POST / HTTP/1.1\n" + headers + "Content-Length: 3\n\n{\n}\nmore", ":8: there is more than the 3 bytes"},
		"a signature that is none":       {strings.Replace("POST / HTTP/1.1\n"+headers+"\n{}", "abab", "<SIGNATURE>", 1), ":4: the signature is not the 32 bytes"},
		"a signature of another kind":    {"POST / HTTP/1.1\nSignature: 900150983cd24fb0d6963f7d28e17f72\nTimestamp: 1\n\n{}", ":2: the signature is not the 32 bytes of an HMAC-SHA256 in hexadecimal or base64; it is 16 bytes in hexadecimal, the size of MD5"},
		"a request line of another form": {"PO ST / HTTP/1.1\n\n", ":1: not the first line"},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, "broken.http", tt.text)
			code, out, errs := call(t, "", "-secret-file", write(t, "key", string(secret)), file)
			require.Equal(t, 2, code)
			require.Empty(t, out)
			require.Contains(t, errs, "discover: "+file+tt.want)
		})
	}
}

func TestSampleBodyEndsWhereContentLengthSays(t *testing.T) {
	for name, tt := range map[string]struct{ rest, want string }{
		"with line ends behind it": {"Content-Length: 2\n\n{}\r\n\n", "{}"},
		"with a line end in it":    {"Content-Length: 3\n\n{}\n", "{}\n"},
		"without a length":         {"\n{}", "{}"},
		"with one line end of two": {"\n{}\n\n", "{}\n"},
		"empty":                    {"\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := parseSample("a.http", []byte("POST /a?b=1 HTTP/1.1\nX-A:  1 \nX-A: 2\nTimestamp: 1\nSignature: a\n"+tt.rest))
			require.NoError(t, err)
			require.Equal(t, tt.want, string(s.message.Body))
			require.Equal(t, "/a", s.message.URL.Path)
			require.Equal(t, "b=1", s.message.URL.RawQuery)
			require.Empty(t, s.message.URL.Scheme, "there is no host")
			require.Equal(t, []string{"1", "2"}, s.message.Header["X-A"])
			require.Equal(t, "1", s.message.Timestamp)
		})
	}
}

func FuzzSamplesNeverPanic(f *testing.F) {
	f.Add([]byte("POST /a HTTP/1.1\nTimestamp: 1\nSignature: a\nContent-Length: 2\n\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseSample("a.http", data)
		if err != nil {
			require.Contains(t, err.Error(), "a.http:")
			return
		}
		require.NotNil(t, s.message.URL)
		require.Contains(t, string(data), string(s.message.Body))
	})
}

func TestFlagErrors(t *testing.T) {
	key := write(t, "key", string(secret))
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no secret":               {nil, "give the secret by one of"},
		"two secrets":             {[]string{"-secret-file", key, "-secret-env", "X"}, "give the secret by one of"},
		"an empty secret file":    {[]string{"-secret-file", write(t, "empty", "\n")}, "the file is empty"},
		"no secret file":          {[]string{"-secret-file", key + "-no"}, "-secret-file: "},
		"an unset variable":       {[]string{"-secret-env", "DISCOVER_TEST_NOT_SET"}, "the environment variable is not set, or empty"},
		"the secret for its name": {[]string{"-secret-env", string(secret)}, "the environment variable is not set, or empty"},
		"no such sample":          {[]string{"-secret-file", key, key + "-no.http"}, "no such file"},
		"an unknown kind":         {[]string{"-secret-file", key, "-kind", "refund"}, "neither request nor notification"},
		"an unknown flag":         {[]string{"-secret", "x"}, "not defined: -secret"},
		"a demo of another's":     {[]string{"-demo", "-secret-file", key}, "-demo makes its own"},
		"a demo with samples":     {[]string{"-demo", "a.http"}, "-demo makes its own"},
		"an effort below zero":    {[]string{"-secret-file", key, "-effort", "-1"}, "must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t, raw(t, canonical.Body, "/a", "{}", "\n"), tt.args...)
			require.Equal(t, 2, code)
			require.Empty(t, out)
			require.Contains(t, errs, "discover: ")
			require.Contains(t, errs, tt.want)
		})
	}
	code, _, errs := call(t, "", "-help")
	require.Zero(t, code)
	require.Contains(t, errs, "Usage: discover")
	require.Contains(t, errs, "-secret-env name")
}

func TestProgressOnATerminalIsOneLine(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b, terminal: true}
	p.show(discover.Progress{Tried: 2_500_000, Total: 10_000_000, Elapsed: time.Second, What: strings.Repeat("x", 100)})
	p.show(discover.Progress{Tried: 5_000_000, Total: 10_000_000, Elapsed: 2 * time.Second, What: "body"})
	p.done()
	p.done()
	lines := strings.Split(b.String(), "\r")
	require.Len(t, lines, 5)
	require.Len(t, lines[1], 79)
	require.True(t, strings.HasPrefix(lines[1], "2.5 of 10.0 million, 2.5 million a second: xxx"))
	require.Equal(t, "5.0 of 10.0 million, 2.5 million a second: body", strings.TrimRight(lines[2], " "))
	require.Len(t, lines[2], 79, "what stood there is written over")
	require.Empty(t, strings.TrimSpace(lines[3]))
	require.NotContains(t, b.String(), "\n")
}

func TestProgressElsewhereIsAFewLines(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, false)
	for i := range 12 {
		p.show(discover.Progress{Tried: int64(i) * 1e6, Total: 2e7, Elapsed: time.Duration(i) * time.Second, What: "body"})
	}
	p.done()
	require.Equal(t, "5.0 of 20.0 million, 1.0 million a second: body\n10.0 of 20.0 million, 1.0 million a second: body\n", b.String())

	b.Reset()
	p = newProgress(&b, true)
	p.show(discover.Progress{Elapsed: time.Minute})
	p.done()
	require.Empty(t, b.String())

	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer file.Close()
	require.False(t, newProgress(file, false).terminal)
	require.Zero(t, perSecond(1, 0))
}
