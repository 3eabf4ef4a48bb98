package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

func TestSignAsCodeSendsEveryByte(t *testing.T) {
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
		require.Equal(t, cli.ExitUsage, d.run("sign", "-as", "fetch", "-url", "https://pay.example"+address))
		require.Contains(t, d.stderr.String(), "fetch rewrites this address")
	}
	d := newDesk(t)
	d.stdin = "\xff"
	require.Equal(t, cli.ExitUsage, d.run("sign", "-as", "fetch", "-url", "https://pay.example/"))
	require.Contains(t, d.stderr.String(), "not UTF-8")
}
