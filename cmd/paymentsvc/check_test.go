package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

// serveMockFor starts a mock server and returns its address and the flags of check for it.
func serveMockFor(t *testing.T, args ...string) (address string, flags []string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	server := newDesk(t)
	address, wait := server.serve(ctx, append([]string{"mock", "-addr", "127.0.0.1:0", "-q"}, args...)...)
	t.Cleanup(func() { stop(); wait() })
	return address, []string{"-base-url", address, "-partner", "1001", "-project", "2002"}
}

func TestCheckProbesTheMock(t *testing.T) {
	for _, test := range []struct{ format, fields, want string }{
		{"fields", "e.code,e.text", `paymentsvc.ErrorFields("e.code", "e.text")`},
		{"fields", "errors.0.code,errors.0.text", `paymentsvc.ErrorFields("errors.0.code", "errors.0.text")`},
		{"shared", "e.code,e.text", `paymentsvc.ErrorFields("e.code", "e.text")`},
		{"html", "e.code,e.text", `paymentsvc.ErrorFields("e.code", "e.text")`},
		{"status", "e.code,e.text", ""},
	} {
		format, fields, want := test.format, test.fields, test.want
		t.Run(format+" "+fields, func(t *testing.T) {
			d := newDesk(t)
			address, flags := serveMockFor(t, "-tolerance", "any", "-error-format", format, "-error-fields", fields)
			flags = append(flags, "-probe", "-interval", "0s", "-json", "-save", "exchanges")
			code := d.run(append([]string{"check"}, flags...)...)
			found := d.object("findings")
			assert.Contains(t, found["go"], want)
			if want == "" {
				assert.Equal(t, cli.ExitNo, code, "the error format is open")
				assert.Empty(t, found["go"])
			} else {
				assert.Zero(t, code, d.stdout.String())
				assert.Contains(t, found["go"], `reported.Code == "order_not_found"`)
			}
			assert.Contains(t, d.stderr.String(), "request 19: get_balance, correct request")
			expect(t, address, `{"that":"started","count":0}`)
			expect(t, address, `{"that":"messages","direction":"in","at_most":20}`)
			files, err := filepath.Glob(filepath.Join(d.dir, "exchanges", "*"))
			require.NoError(t, err)
			assert.Len(t, files, 2*19)
			d.isPrivate("exchanges", 0o700)
			assert.Zero(t, d.run("verify", filepath.Join("exchanges", "0001.http"), "-tolerance", "any", "-kind", "request"))
		})
	}
}

// expect checks an expectation of the mock server.
func expect(t *testing.T, address, that string) {
	t.Helper()
	resp, err := http.Post(address+"/_mock/expect", "application/json", strings.NewReader(that))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, resp.StatusCode, "%s", text)
}

func TestCheckReportsTheConnection(t *testing.T) {
	d := newDesk(t)
	address, flags := serveMockFor(t, "-tolerance", "any", "-balance", "100.00")
	assert.Zero(t, d.run(append([]string{"check"}, flags...)...))
	for _, line := range []string{
		"signature            accepted", "proxy                none", "100.00 XTS, expected 100.00",
	} {
		assert.Contains(t, d.stdout.String(), line)
	}
	expect(t, address, `{"that":"messages","direction":"in","count":1}`)

	assert.Equal(t, cli.ExitNo, d.run("check", "-base-url", address, "-partner", "17", "-project", "2002"))
	assert.Contains(t, d.stdout.String(), "response             error_code: ids\n")
	expect(t, address, `{"that":"messages","direction":"in","count":2}`)

	d.write("key.txt", "another key")
	d.now = time.Time{}
	assert.Equal(t, cli.ExitNo, d.run(append([]string{"check", "-probe"}, flags...)...))
	assert.Contains(t, d.stdout.String(), "next                 paymentsvc discover", "a probe needs one accepted request")
	expect(t, address, `{"that":"messages","direction":"in","count":3}`)

	assert.Equal(t, cli.ExitNo,
		d.run(append([]string{"check", "-scheme", testScheme + ", seen in notifications"}, flags...)...))
	assert.Contains(t, d.stdout.String(), "this scheme was seen in notifications only")

	_, flags = serveMockFor(t, "-scheme", testScheme+", seen in requests")
	assert.Equal(t, cli.ExitNo, d.run(append([]string{"check", "-save", "exchange"}, flags...)...))
	response := d.read("exchange/0001.http.response")
	assert.Contains(t, response, "want hex(timestamp")
	assert.NotContains(t, response, "seen in")

	d.now = time.Unix(testNow, 0)
	_, flags = serveMockFor(t, "-tolerance", "5m")
	assert.Equal(t, cli.ExitNo, d.run(append([]string{"check"}, flags...)...))
	assert.Contains(t, d.stdout.String(), "this clock differs from the service's clock by")
	assert.NotContains(t, d.stdout.String(), "discover")

	flags[1] = "http://127.0.0.1:1"
	assert.Equal(t, cli.ExitMachine, d.run(append([]string{"check", "-json"}, flags...)...))
	assert.Equal(t, false, d.object("checked")["accepted"])
}

func TestCheckRejectsSettings(t *testing.T) {
	d := newDesk(t)
	require.NoError(t, os.Mkdir(filepath.Join(d.dir, "open"), 0o755)) //nolint:gosec // the mode that is rejected
	for want, args := range map[string][]string{
		"-base-url: not set": {},
		"-partner: not set":  {"-base-url", "https://pay.example.com"},
		"other users can open the directory": {
			"-base-url", "http://127.0.0.1:1", "-partner", "1", "-project", "2", "-save", "open",
		},
		"the request cannot be sent: ": {
			"-base-url", "http://127.0.0.1:1", "-partner", "1", "-project", "2",
			"-scheme", "hex(timestamp '.' field('nothing'))",
		},
	} {
		d.rejects(want, append([]string{"check"}, args...)...)
	}
	assert.Zero(t, d.run("check", "-probe", "-dry-run"), "-dry-run needs no settings, because it sends no request")
	assert.Equal(t, 19, strings.Count(d.stdout.String(), "\n"))
	assert.NotContains(t, d.stdout.String(), "init_")
}
