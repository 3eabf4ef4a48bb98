package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

func TestDiscoverOutCompletesAnEarlierSearch(t *testing.T) {
	const first, both = `hex(timestamp "." body)`, `request hex(path "\n" body), notification hex(timestamp "." body)`
	c := deskWith(t, map[string]string{
		"notification.http": signedText(t, first, "/hook", `{"event":"a"}`),
		"request.http":      signedText(t, `hex(path "\n" body)`, "/v1/a", "{}"),
		"same.http":         signedText(t, first, "/v1/a", "{}"),
		"other.http":        signedText(t, `hex(method body)`, "/v1/a", "{}"),
		"base64.http":       signedText(t, `base64(body)`, "/v1/a", "{}"),
	})
	read := func(name string) string { return c.read("out/" + name) }
	search := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := c.discover(append([]string{"-out", "out", "-effort", "0.0002"}, args...)...)
		require.Equal(t, want, code, out+errs)
		return errs
	}
	require.Contains(t, search(0, "notification.http"), "search an accepted request with the same -out")
	require.Equal(t, first+", seen in notifications\n", read(textFile))
	require.Contains(t, read(goFile), "// scheme was seen in notifications only.\nscheme := ")

	require.Contains(t, search(cli.ExitNo, "base64.http"), "no file written")
	require.Equal(t, first+", seen in notifications\n", read(textFile))

	search(0, "same.http")
	require.Equal(t, first+"\n", read(textFile))
	require.NotContains(t, read(goFile), "seen")

	require.Contains(t, search(cli.ExitUsage, "other.http"), "does not fit the messages; -replace overwrites the file")
	require.Equal(t, first+"\n", read(textFile))

	search(0, "notification.http", "-replace")
	search(0, "request.http")
	require.Equal(t, both+"\n", read(textFile))
	require.Contains(t, read(goFile), "canonical.ByKind(")
	search(0, "request.http")
	require.Equal(t, both+"\n", read(textFile))

	search(0, "notification.http", "-replace")
	search(0, "notification.http", "request.http")
	require.Equal(t, both+"\n", read(textFile), "both kinds at once complete the scheme of one kind")
	search(0, "request.http", "-replace")
	search(0, "notification.http", "request.http")
	require.Equal(t, both+"\n", read(textFile))
	search(cli.ExitUsage, "notification.http", "other.http")

	search(0, "other.http", "-replace")
	search(cli.ExitUsage, "notification.http", "request.http")
	search(0, "notification.http")
	require.Contains(t, read(textFile), ", notification hex(timestamp")
}

func TestDiscoverOutKeepsFilesOfOthers(t *testing.T) {
	c := deskWith(t, map[string]string{"a.http": signedText(t, `hex(body)`, "/v1/a", discoverRequest)})
	require.NoError(t, os.Mkdir(filepath.Join(c.dir, "out"), 0o700))
	for _, test := range []struct{ text, code, want string }{
		{"hex(bdy)", "", "-out: the scheme.txt in DIR has no scheme for this key; -replace overwrites the file"},
		{"", "my code", "-out: the scheme.go.txt in DIR is not the code of scheme.txt; -replace overwrites"},
		{"hex(body)", "my code", "-out: the scheme.go.txt in DIR is not the code of scheme.txt; -replace overwrites"},
	} {
		for name, content := range map[string]string{textFile: test.text, goFile: test.code} {
			require.NoError(t, os.RemoveAll(filepath.Join(c.dir, "out", name)))
			if content != "" {
				c.write("out/"+name, content)
			}
		}
		code, out, errs := c.discover("a.http", "-out", "out")
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, errs, test.want)
		require.Empty(t, out, "the error comes before the search")
	}
	code, _, errs := c.discover("a.http", "-out", "out", "-replace", "-effort", "0.02")
	require.Zero(t, code, errs)
}
