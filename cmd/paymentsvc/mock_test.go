package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

// mockDesk returns a desk with files, and without other settings.
func mockDesk(t *testing.T, files map[string]string) *desk {
	t.Helper()
	d := deskWith(t, files)
	d.now = time.Time{}
	if files[cli.SettingsFile] == "" {
		d.write(cli.SettingsFile, "{}")
	}
	return d
}

// startMock starts a mock server.
func startMock(ctx context.Context, d *desk, args ...string) (r ready, p *process) {
	d.t.Helper()
	p = d.start(ctx, append([]string{"mock", "-json", "-addr", "127.0.0.1:0"}, args...)...)
	require.NoError(d.t, json.Unmarshal([]byte(p.ready), &r), p.ready)
	return r, p
}

func TestMockCommandServesAndStops(t *testing.T) {
	d := mockDesk(t, map[string]string{
		"a.key": "secret-a\n", "b.key": "secret-b",
		"paymentsvc.json": `{"secret_file":"a.key","partner":5,"mock":{"script":["amount=13.13: DECLINED"],
			"projects":[{"id":7,"secret_file":"b.key","balance":"3.00","currency":"EUR"}]}}`,
	})
	ctx, interrupt := context.WithCancelCause(t.Context())
	args := []string{"-ready-file", "ready.json", "-v", "-grace", "20s"}
	r, p := startMock(ctx, d, args...)
	require.Contains(t, d.read("ready.json"), r.ControlURL)
	require.Regexp(t, `paymentsvc.json:1:\d+: secret_file`, r.SecretFrom)
	require.EqualValues(t, 2002, r.ProjectID, "the main project stays beside the others")
	d.isPrivate("ready.json", 0o600)
	chosen, err := http.Get(r.ControlURL + "/settings")
	require.NoError(t, err)
	list, err := io.ReadAll(chosen.Body)
	require.NoError(t, err)
	require.Regexp(t, `"partner","value":"5","by":"[^"]*paymentsvc.json:1:\d+"`, string(list))
	require.Contains(t, string(list), `"error_fields","value":"error_code,error_message","by":"mock"`)
	waiting := mockDesk(t, nil)
	require.Zero(t, waiting.run("mock", "-wait", r.BaseURL, "-timeout", "20s"))

	for project, secret := range map[int64]paymentsvc.Secret{2002: "secret-a", 7: "secret-b"} {
		signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
			Scheme: paymentsvc.Scheme{Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body),
				Encoding: paymentsvc.Hex}, Secret: secret,
		})
		require.NoError(t, err)
		client, err := paymentsvc.NewClient(paymentsvc.Config{BaseURL: r.BaseURL, PartnerID: 5, ProjectID: project,
			Signer: signer})
		require.NoError(t, err)
		_, err = client.InitInvoice(t.Context(), paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("2.00"),
			UserData: "order-1"})
		require.NoError(t, err)
		client.CloseIdleConnections()
	}
	interrupt(cli.Interrupted())
	require.Zero(t, p.end(), &d.stderr)
	require.NotRegexp(t, "secret-a|its own secret", d.stderr.String())

	r, p = startMock(t.Context(), d, args...)
	resp, err := http.Post(r.ControlURL+"/stop", "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, resp.StatusCode)
	require.Zero(t, p.end())
	http.DefaultClient.CloseIdleConnections()
}

func TestMockCommandEndsWhatHangs(t *testing.T) {
	r, p := startMock(t.Context(), mockDesk(t, nil), "-grace", "1ms", "-q")
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
	require.Equal(t, 3, p.end(), "some requests were cut off")
	require.Contains(t, p.stderr.String(), "cut off requests in flight")
	http.DefaultClient.CloseIdleConnections()
}

func TestMockCommandExitCodes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "{}")
	}))
	defer other.Close()
	for _, test := range []struct {
		code int
		says string
		args []string
	}{
		{2, `-script: script 1: column 11: want SUCCESS`, []string{"-script", "amount=1: DONE"}},
		{2, "-receiver: receiver 1: event: not one of payment.status_changed, ", []string{"-receiver", "event=x: http://a"}},
		{2, "the base path cannot be /ui", []string{"-addr", "127.0.0.1:0", "-base-path", "/ui"}},
		{2, "-secret-file", []string{"-secret-file", "none.key"}},
		{3, "-ready-file: none/ready.json cannot be written: no such file or directory",
			[]string{"-addr", "127.0.0.1:0", "-ready-file", "none/ready.json"}},
		{2, "one.json:1:21: mock.projects: project 3003: secret_file: not set", []string{"-config", "one.json"}},
		{2, "three.json:1:21: mock.projects: id: want a whole number, at least 1", []string{"-config", "three.json"}},
		{2, `two.json:1:21: mock.projects: balance: want a string, such as \"100.00\"`, []string{"-config", "two.json"}},
		{124, "passed", []string{"-wait", other.URL, "-timeout", "200ms"}},
		{3, "address already in use", []string{"-addr", taken.Addr().String()}},
		{124, "passed", []string{"-wait", "http://" + taken.Addr().String(), "-timeout", "20ms"}},
		{124, "passed", []string{"-addr", "127.0.0.1:0", "-timeout", "20ms"}},
	} {
		d := mockDesk(t, map[string]string{
			"one.json":   `{"mock":{"projects":[{"id":3003}]}}`,
			"two.json":   `{"mock":{"projects":[{"id":3003,"balance":100}]}}`,
			"three.json": `{"mock":{"projects":[{"id":-1}]}}`,
		})
		require.Equal(t, test.code, d.run(append([]string{"mock", "-json"}, test.args...)...), "%s: %s", test.args, &d.stderr)
		require.Contains(t, d.stderr.String(), test.says)
	}
}

func TestMockServesAndNotifiesByHTTPS(t *testing.T) {
	notified := make(chan string, 1)
	shop := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		notified <- r.Proto
	}))
	shop.EnableHTTP2 = true
	shop.StartTLS()
	defer shop.Close()
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: shop.Certificate().Raw})
	d := mockDesk(t, map[string]string{"shop.pem": string(trusted), "none.pem": "none"})
	ctx, interrupt := context.WithCancelCause(t.Context())
	r, p := startMock(ctx, d, "-tls-cert", "mock.pem", "-cacert", "shop.pem", "-notify", shop.URL)
	require.Regexp(t, `^https://127\.0\.0\.1:\d+$`, r.BaseURL)
	text := d.read("mock.pem")
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(text)))
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	resp, err := client.Post(r.ControlURL+"/notifications", "", strings.NewReader(`{"body":"{}"}`))
	require.NoError(t, err)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(answer), `"accepted":true`)
	require.Equal(t, "HTTP/2.0", <-notified)
	waiting := mockDesk(t, map[string]string{"mock.pem": text})
	code := waiting.run("mock", "-wait", r.BaseURL, "-timeout", "20s", "-cacert", "mock.pem")
	require.Zero(t, code, &waiting.stderr)
	require.Equal(t, 124, waiting.run("mock", "-wait", r.BaseURL, "-timeout", "1s"))
	require.Contains(t, waiting.stderr.String(), "the last attempt: tls: failed to verify certificate")
	client.CloseIdleConnections()
	interrupt(cli.Interrupted())
	require.Zero(t, p.end())
	require.Equal(t, 2, d.run("mock", "-cacert", "none.pem"))
	require.Contains(t, d.stderr.String(), "-cacert: no certificate in PEM")
}
