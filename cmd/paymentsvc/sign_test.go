package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
)

func TestSignPrintsTheTwoHeaders(t *testing.T) {
	d := newDesk(t)
	d.write("body.json", "{\"a\": 1}\r\n")
	d.write("empty", "")
	for _, test := range []struct {
		args, signed, timestamp, note string
	}{
		{"sign body.json", "{\"a\": 1}\r\n", "1700000000",
			"note   body.json ends with a line end, which is signed; -trim removes the line end\n"},
		{"sign -trim body.json", `{"a": 1}`, "1700000000", ""},
		{"sign -timestamp 5 -trim -", "x", "5", "note   the body is not JSON\n"},
		{"sign -kind notification -timestamp 5 empty", "", "5", "note   the body is empty\n"},
	} {
		d.stdin = "x"
		assert.Zero(t, d.run(strings.Fields(test.args)...), test.args)
		want := "timestamp: " + test.timestamp + "\nsignature: " +
			signatureOf(t, testScheme, testKey, test.signed, test.timestamp) + "\n"
		assert.Equal(t, want, d.stdout.String(), test.args)
		assert.Equal(t, test.note, d.stderr.String(), test.args)
	}
}

func TestSignAsCurlAndHTTPKeepsEveryByte(t *testing.T) {
	for _, body := range []string{`{"a": "it's $HOME \\ \"x\" é !"}`, "@file", "a\n\r\nb", "", "100% `id`"} {
		for _, as := range []string{"curl", "http"} {
			d := newDesk(t)
			d.stdin = body
			require.Zero(t, d.run("sign", "-as", as, "-url", "https://pay.example/a?b='c'"), "%s", &d.stderr)
			m, err := capture.Read(d.stdout.Bytes(), as, capture.Options{})
			require.NoError(t, err, d.stdout.String())
			assert.Equal(t, body, string(m.Body), as)
			assert.Equal(t, signatureOf(t, testScheme, testKey, body, "1700000000"), m.Header.Get("Signature"))
			assert.Equal(t, "https://pay.example/a?b='c'", m.URL.String())
		}
	}
	d := newDesk(t)
	d.write("it's.json", `{"destination":"79990000000"}`)
	assert.Zero(t, d.run("sign", "it's.json", "-as=curl", "-url=http://127.0.0.1:1/a", "-method", "put"))
	assert.Contains(t, d.stdout.String(),
		"curl --disable --silent --show-error --globoff --path-as-is --request PUT http://127.0.0.1:1/a "+
			"--header 'content-type: application/json'")
	assert.Contains(t, d.stdout.String(), ` --data-binary '@it'\''s.json'`)
	if _, err := os.Stat("/dev/null"); err == nil {
		assert.Zero(t, d.run("sign", "/dev/null", "-as=curl", "-url=http://127.0.0.1:1/a"))
		assert.Contains(t, d.stdout.String(), " --data-binary ''\n", "a later command reads other bytes from a device")
	}
	for file, option := range map[string]string{"-": "-binary {}", "./-": "-binary @./-", "@x": "-binary @@x"} {
		d.stdin = "{}"
		d.write(file, "[]")
		assert.Zero(t, d.run("sign", file, "-as=curl", "-url=http://127.0.0.1:1/a"))
		assert.Contains(t, strings.ReplaceAll(d.stdout.String(), "'", ""), " --data"+option+"\n")
	}
	for as, want := range map[string]string{"curl": "signature: ", "fetch": "  body: null,\n});", "python": `, b"", {`} {
		d.stdin = ""
		assert.Zero(t, d.run("sign", "-as", as, "-url=http://127.0.0.1:1/a", "-method=head"))
		assert.Contains(t, d.stdout.String(), want)
		m, err := capture.Read(d.stdout.Bytes(), as, capture.Options{})
		assert.True(t, as == "python" || err == nil && m.Method == http.MethodHead, "%s: %v", as, err)
		assert.NotRegexp(t, "--request|--data", d.stdout.String(), "curl waits for the body of a response, or fails")
	}
	var lines []string
	for _, address := range []string{"http://127.0.0.1:1", "http://127.0.0.1:1/"} {
		d.stdin = "{}"
		require.Zero(t, d.run("sign", "-scheme", "hex(path body)", "-url", address))
		lines = append(lines, d.stdout.String())
	}
	assert.Equal(t, lines[1], lines[0], "clients send a / for no path")
}

func TestSignShowsTheTextWithoutTheSecret(t *testing.T) {
	for scheme, want := range map[string]string{
		testScheme:                 `text   1700000000.{"destination":"<destination>","pan":"<card number>"}\n`,
		`hex(body '&key=' secret)`: `text   {"destination":"<destination>","pan":"<card number>"}\n&key=<secret>`,
		`hex(body hex(sha256(secret))), key sha256`: `text   {"destination":"<destination>","pan":"<card ` +
			`number>"}\nbcd2013787a29e98c30c9562a7bdd64c8df3cd88d5dc99fd2008ce4053b6af10`,
	} {
		d := newDesk(t)
		d.stdin = `{"destination":"79990000000","pan":"4111111111111111"}` + "\n"
		assert.Zero(t, d.run("sign", "-show", "-scheme", scheme), "%s: %s", scheme, &d.stderr)
		assert.Equal(t, want+"\n", d.stdout.String())
		assert.NotContains(t, d.stdout.String(), "4111")
	}
	d := newDesk(t)
	d.stdin = `{"card_data":{"cvv":"987","holder":"Ann"},"payer":{"mail":"a@b"},"destination":{"phone":"7999"},"amount":1}`
	for _, scheme := range []string{`hex(body)`, `hex(field("card_data") "destination=" field("destination"))`} {
		require.Zero(t, d.run("sign", "-show", "-scheme", scheme), "%s", &d.stderr)
		assert.NotRegexp(t, "987|Ann|a@b|7999", d.stdout.String(), scheme)
	}
}

func TestSignUsageErrors(t *testing.T) {
	d := newDesk(t)
	d.write("nul", "a\x00")
	for args, want := range map[string]string{
		"sign -scheme hex('a')":                      "paymentsvc sign: -scheme: column 5: signs neither body nor fields",
		"sign -scheme hex(path)":                     "signs neither body nor fields",
		"sign -scheme hex(path,body)":                "paymentsvc sign: -scheme: column 9",
		"sign gone.json":                             "paymentsvc sign: gone.json: no such file",
		"sign -as curl":                              "paymentsvc sign: -as curl: needs -url",
		"sign -secret-file -":                        "standard input is already read by -secret-file",
		"sign -trim -as curl -url http://a nul":      "paymentsvc sign: -as curl: the body has a NUL",
		"sign -as curl -method head -url http://a -": "curl sends HEAD only without a body",
		"sign -as fetch -method get -url http://a -": "fetch rejects this method or its body",
		"sign -as fetch -method trace -url http://a": "fetch rejects this method or its body",
		"sign -scheme-file nul -scheme hex(body) -q": "paymentsvc sign: -scheme and -scheme-file: want only one of these",
	} {
		d.stdin = "x"
		d.rejects(want, strings.Fields(args)...)
	}
	for want, args := range map[string][]string{
		"-url: want no port 443":               {"-url", "https://a:443/", "-as", "curl"},
		"a signature with a control character": {"-scheme", `prefixed("a\n", hex)(body)`},
	} {
		d.stdin = "{}"
		d.rejects(want, append([]string{"sign"}, args...)...)
	}
	d.stdin = "{}"
	d.rejects("the scheme cannot sign this message: canonical string: canonical: Path needs the address, but this "+
		"message has no address: give -url\n", "sign", "-scheme", "hex(path body)")
}

func TestSignAsCodeSendsEveryByte(t *testing.T) {
	needPrograms(t)
	bodies := []string{
		"{\"a\": \"it's $HOME {$b} ${c} \\\\ \\\"x\\\" é 😀 \u2028 </script> `d`\"}", "a\n\r\nb\t\x00\x7f", "@file", "",
		"{{x}} %s #{y} '''\"\"\"\\",
	}
	for as, command := range map[string][]string{
		"fetch": {"node", "a.mjs"}, "python": {"python3", "a.py"}, "php": {"php", "a.php"},
	} {
		t.Run(as, func(t *testing.T) {
			program, err := exec.LookPath(command[0])
			if err != nil {
				t.Skipf("%s is not installed: %v", command[0], err)
			}
			for _, body := range bodies {
				var got, target string
				var header http.Header
				server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					sent, _ := io.ReadAll(r.Body)
					got, header, target = string(sent), r.Header, r.Method+" "+r.RequestURI
				}))
				d := newDesk(t)
				d.stdin = body
				require.Zero(t, d.run("sign", "-as", as, "-method", "put", "-url", server.URL+"/a%20b?c=$d"), "%s", &d.stderr)
				d.write(command[1], d.stdout.String())
				out, err := exec.CommandContext(t.Context(), program, filepath.Join(d.dir, command[1])).CombinedOutput()
				server.Close()
				require.NoError(t, err, "%s\n%s", &d.stdout, out)
				require.Equal(t, body, got)
				require.Equal(t, "PUT /a%20b?c=$d", target)
				require.Equal(t, signatureOf(t, testScheme, testKey, body, "1700000000"), header.Get("Signature"))
				require.Equal(t, "application/json", header.Get("Content-Type"))
			}
		})
	}
}

func TestSignAsFetchRejectsWhatFetchRewrites(t *testing.T) {
	for _, address := range []string{"/a/../b", "/a/%2E%2e/b", "/a?b='c'", ".Example/a"} {
		d := newDesk(t)
		d.stdin = "{}"
		d.rejects("fetch rewrites this address", "sign", "-as", "fetch", "-url", "https://pay.example"+address)
	}
	d := newDesk(t)
	d.stdin = "\xff"
	d.rejects("not UTF-8", "sign", "-as", "fetch", "-url", "https://pay.example/")
}
