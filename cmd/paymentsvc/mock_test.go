package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

// mockIn runs the command in a directory until it ends, and returns the exit code and both outputs.
func mockIn(ctx context.Context, dir string, stdout io.Writer, args ...string) (code int, stderr string) {
	var notes bytes.Buffer
	env := &cli.Env{
		Stdin: strings.NewReader(""), Stdout: stdout, Stderr: &notes, Getenv: func(string) string { return "" }, Dir: dir, Now: time.Now,
	}
	code = cli.Main(ctx, env, program(), append([]string{"mock"}, args...))
	return code, notes.String()
}

// ended is how a mock ended.
type ended struct {
	code   int
	stderr string
}

// startMock runs the command until ctx ends, and returns what it says when it listens.
func startMock(ctx context.Context, t *testing.T, dir string, args ...string) (ready, <-chan ended) {
	t.Helper()
	out, in := io.Pipe()
	done := make(chan ended, 1)
	go func() {
		code, stderr := mockIn(ctx, dir, in, append([]string{"-json", "-addr", "127.0.0.1:0"}, args...)...)
		_ = in.Close()
		done <- ended{code, stderr}
	}()
	lines := bufio.NewReader(out)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the mock has not started: %+v", <-done)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	var r ready
	require.NoError(t, json.Unmarshal(line, &r), "%s", line)
	return r, done
}

func TestMockCommandServesAndStops(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.key": "secret-a\n", "b.key": "secret-b",
		"paymentsvc.json": `{"secret_file":"a.key","partner":5,"project":6,"mock":{"script":["amount=13.13: DECLINED"],
			"projects":[{"id":7,"secret_file":"b.key","balance":"3.00","currency":"EUR"}]}}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	ctx, interrupt := context.WithCancelCause(t.Context())
	args := []string{"-ready-file", "ready.json", "-v", "-grace", "20s"}
	r, done := startMock(ctx, t, dir, args...)
	written, err := os.ReadFile(filepath.Join(dir, "ready.json"))
	require.NoError(t, err)
	require.Contains(t, string(written), r.ControlURL)
	require.Regexp(t, `paymentsvc.json:1:\d+: secret_file`, r.SecretFrom)
	private := func(name string) {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, os.PathSeparator != '/' || info.Mode().Perm() == 0o600, "%s: %v", name, info.Mode())
	}
	private("ready.json")
	chosen, err := http.Get(r.ControlURL + "/settings")
	require.NoError(t, err)
	list, err := io.ReadAll(chosen.Body)
	require.NoError(t, err)
	require.Regexp(t, `"partner","value":"5","by":"[^"]*paymentsvc.json:1:\d+"`, string(list))
	require.Contains(t, string(list), `"error_fields","value":"error_code,error_message","by":"mock"`)
	code, _ := mockIn(t.Context(), dir, io.Discard, "-wait", r.BaseURL, "-timeout", "20s")
	require.Zero(t, code)

	for project, secret := range map[int64]paymentsvc.Secret{6: "secret-a", 7: "secret-b"} {
		signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
			Scheme: paymentsvc.Scheme{Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex}, Secret: secret,
		})
		require.NoError(t, err)
		client, err := paymentsvc.NewClient(paymentsvc.Config{BaseURL: r.BaseURL, PartnerID: 5, ProjectID: project, Signer: signer})
		require.NoError(t, err)
		_, err = client.InitInvoice(t.Context(), paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("2.00"), UserData: "order-1"})
		require.NoError(t, err)
		client.CloseIdleConnections()
	}
	interrupt(cli.Interrupted())
	end := <-done
	require.Zero(t, end.code, end.stderr)
	require.NotContains(t, end.stderr, "secret-a")

	r, done = startMock(t.Context(), t, dir, args...)
	resp, err := http.Post(r.ControlURL+"/stop", "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, resp.StatusCode)
	require.Zero(t, (<-done).code)
	http.DefaultClient.CloseIdleConnections()
}

func TestMockCommandEndsWhatHangs(t *testing.T) {
	dir := t.TempDir()
	r, done := startMock(t.Context(), t, dir, "-grace", "1ms", "-q")
	require.Equal(t, byMock, r.SecretFrom)
	resp, err := http.Post(r.ControlURL+"/faults", "application/json", strings.NewReader(`{"fault":"hang before"}`))
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	failed := make(chan error)
	go func() {
		_, err := http.Post(r.BaseURL+"/get_balance", "application/json", strings.NewReader("{}"))
		failed <- err
	}()
	resp, err = http.Get(r.ControlURL + "/messages?wait=20s")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	_, err = http.Post(r.ControlURL+"/stop", "", nil)
	require.NoError(t, err)
	require.Error(t, <-failed)
	end := <-done
	require.Equal(t, 3, end.code, "something was cut off")
	require.Contains(t, end.stderr, "cut off what was in flight")
	http.DefaultClient.CloseIdleConnections()
}

func TestMockCommandExitCodes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	defer other.Close()
	for _, test := range []struct {
		code int
		says string
		args []string
	}{
		{2, `-script: script 1: column 11: an outcome is`, []string{"-script", "amount=1: DONE"}},
		{2, "-receiver: receiver 1: event: not one of payment.status_changed, ", []string{"-receiver", "event=x: http://a"}},
		{2, "the base path cannot be /ui", []string{"-addr", "127.0.0.1:0", "-base-path", "/ui"}},
		{2, "-secret-file", []string{"-secret-file", "none.key"}},
		{3, "-ready-file: none/ready.json cannot be written: no such file or directory", []string{"-addr", "127.0.0.1:0", "-ready-file", "none/ready.json"}},
		{2, "one.json:1:21: mock.projects: project 3003: secret_file: not set", []string{"-config", "one.json"}},
		{2, `two.json:1:21: mock.projects: balance: want text, such as \"100.00\"`, []string{"-config", "two.json"}},
		{124, "have passed", []string{"-wait", other.URL, "-timeout", "200ms"}},
		{3, "address already in use", []string{"-addr", taken.Addr().String()}},
		{124, "have passed", []string{"-wait", "http://" + taken.Addr().String(), "-timeout", "20ms"}},
		{124, "have passed", []string{"-addr", "127.0.0.1:0", "-timeout", "20ms"}},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"one.json": `{"mock":{"projects":[{"id":3003}]}}`, "two.json": `{"mock":{"projects":[{"id":3003,"balance":100}]}}`,
		} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		code, stderr := mockIn(t.Context(), dir, io.Discard, append(test.args, "-json")...)
		require.Equal(t, test.code, code, "%s: %s", test.args, stderr)
		require.Contains(t, stderr, test.says)
		for line := range strings.Lines(stderr) {
			require.True(t, json.Valid([]byte(line)), line)
		}
	}
}

func TestMockKeepsItsMainProjectBesideOthers(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.key": "secret-a\n", "b.key": "secret-b",
		"paymentsvc.json": `{"secret_file":"a.key","mock":{"projects":[{"id":7,"secret_file":"b.key"}]}}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	ctx, interrupt := context.WithCancelCause(t.Context())
	r, done := startMock(ctx, t, dir)
	require.EqualValues(t, 2002, r.ProjectID)
	require.Regexp(t, `paymentsvc.json:1:\d+: secret_file`, r.SecretFrom)
	interrupt(cli.Interrupted())
	require.NotContains(t, (<-done).stderr, "the mock's own")
}

func TestMockServesAndNotifiesByHTTPS(t *testing.T) {
	dir := t.TempDir()
	notified := make(chan string, 1)
	shop := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { notified <- r.Proto }))
	shop.EnableHTTP2 = true
	shop.StartTLS()
	defer shop.Close()
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: shop.Certificate().Raw})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shop.pem"), trusted, 0o600))
	ctx, interrupt := context.WithCancelCause(t.Context())
	r, done := startMock(ctx, t, dir, "-tls-cert", "mock.pem", "-cacert", "shop.pem", "-notify", shop.URL)
	require.Regexp(t, `^https://127\.0\.0\.1:\d+$`, r.BaseURL)
	text, err := os.ReadFile(filepath.Join(dir, "mock.pem"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	resp, err := client.Post(r.ControlURL+"/notifications", "", strings.NewReader(`{"body":"{}"}`))
	require.NoError(t, err)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(answer), `"accepted":true`)
	require.Equal(t, "HTTP/2.0", <-notified)
	code, stderr := mockIn(t.Context(), dir, io.Discard, "-wait", r.BaseURL, "-timeout", "20s", "-cacert", "mock.pem")
	require.Zero(t, code, stderr)
	client.CloseIdleConnections()
	interrupt(cli.Interrupted())
	require.Zero(t, (<-done).code)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "none.pem"), []byte("none"), 0o600))
	code, stderr = mockIn(t.Context(), dir, io.Discard, "-cacert", "none.pem")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "-cacert: no certificate in PEM")
}
