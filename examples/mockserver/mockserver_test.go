package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testSecret = "the-secret-of-these-tests"
	oldSecret  = "the-secret-before-it"
	cardNumber = "4111111111111111"
)

// running is the program, in a goroutine of the test.
type running struct {
	t       *testing.T
	address string // of the interface
	page    string // of the page
	set     *settings
	stderr  *output
	cancel  func() // ends it
	wait    func() // until it has ended, and checks what holds for every run
}

// start runs the program with its own address and secret until stop or the end of the test, and then checks what
// holds for every run: the status 0, nothing left behind, and no secret and card number in what it wrote.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	args = append([]string{"-addr", "127.0.0.1:0", "-secret-file", fileWith(t, testSecret+"\r\n")}, args...)
	set, code := readFlags(args, io.Discard)
	require.Zero(t, code)

	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	stdout, stderr, status := &output{}, &output{}, make(chan int, 1)
	reader, writer := io.Pipe()
	go func() {
		status <- runUntilSignal(ctx, args, io.MultiWriter(stdout, writer), stderr)
		_ = writer.Close()
	}()
	r := &running{t: t, set: set, stderr: stderr, cancel: cancel}
	r.address, r.page = addresses(t, reader)
	r.wait = sync.OnceFunc(func() {
		require.Zero(t, <-status, stderr)
		for _, text := range []string{stdout.String(), stderr.String()} {
			requireNothingSecret(t, text)
		}
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, before)
	})
	t.Cleanup(r.stop)
	return r
}

func (r *running) stop() {
	r.cancel()
	r.wait()
}

// addresses reads what the program says of itself.
func addresses(t *testing.T, stdout io.Reader) (address, page string) {
	t.Helper()
	lines := bufio.NewScanner(stdout)
	for page == "" && lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 2 && fields[0] == "interface":
			address = fields[1]
		case len(fields) == 2 && fields[0] == "page":
			page = fields[1]
		}
	}
	require.NotEmpty(t, page, "the program has not said where its page is")
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return address, page
}

func requireNothingSecret(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{testSecret, oldSecret, demoSecret, cardNumber, "+447700900000", "Ann Payer"} {
		require.NotContains(t, text, secret)
	}
}

// output is what several goroutines write.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func fileWith(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// client calls the running program as a partner would, signing with secret.
func (r *running) client(secret paymentsvc.Secret) *paymentsvc.Client {
	r.t.Helper()
	return newClient(r.t, r.address, r.set, secret)
}

func newClient(t *testing.T, address string, set *settings, secret paymentsvc.Secret, options ...func(*paymentsvc.Config)) *paymentsvc.Client {
	t.Helper()
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: set.scheme, Secret: secret})
	require.NoError(t, err)
	cfg := paymentsvc.Config{
		BaseURL:     address,
		PartnerID:   set.PartnerID,
		ProjectID:   set.ProjectID,
		Signer:      signer,
		DecodeError: paymentsvc.ErrorFields(set.errorCode, set.errorMessage),
		Retry:       paymentsvc.Retry{MaxAttempts: 1},
	}
	for _, option := range options {
		option(&cfg)
	}
	client, err := paymentsvc.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// pay starts a payment and returns its order_id.
func (r *running) pay(userData string) string {
	r.t.Helper()
	p, err := r.client(testSecret).InitPayment(r.t.Context(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount:   paymentsvc.MustParseAmount("10.50"),
		UserData: userData,
		CardData: map[string]string{"number": cardNumber},
		Payer:    map[string]string{"name": "Ann Payer"},
	})
	require.NoError(r.t, err)
	return p.OrderID
}

func (r *running) payOut(userData string) string {
	r.t.Helper()
	p, err := r.client(testSecret).InitPayout(r.t.Context(), paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("3"), Destination: "+447700900000", UserData: userData,
	})
	require.NoError(r.t, err)
	return p.OrderID
}

// get fetches a part of the page.
func (r *running) get(path string) (int, string) {
	r.t.Helper()
	return r.do(http.MethodGet, path, nil, nil)
}

// press sends a form as curl does, and follows the redirect to the page.
func (r *running) press(path string, form url.Values) (int, string) {
	r.t.Helper()
	return r.do(http.MethodPost, path, form, nil)
}

func (r *running) do(method, path string, form url.Values, change func(*http.Request)) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.page+path, strings.NewReader(form.Encode()))
	require.NoError(r.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if change != nil {
		change(req)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	require.Contains(r.t, resp.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Equal(r.t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
	requireNothingSecret(r.t, string(body))
	return resp.StatusCode, string(body)
}

func TestInterfaceIsServedBelowItsPath(t *testing.T) {
	for _, basePath := range []string{"/", "/partner/v1", "/uix/"} {
		t.Run(basePath, func(t *testing.T) {
			r := start(t, "-base-path", basePath, "-partner", "7", "-project", "8", "-scheme",
				`base64(method '\n' path '\n' timestamp '\n' hex(sha256(body)))`, "-error-fields", "error.code,error.text", "-balance", "100.00")
			client := r.client(testSecret)
			orderID := r.pay("order-1")
			_, err := client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{OrderID: orderID})
			require.NoError(t, err)
			payoutID := r.payOut("payout-1")
			_, err = client.StatusPayout(t.Context(), paymentsvc.StatusPayoutRequest{OrderID: payoutID})
			require.NoError(t, err)
			_, err = client.InitForm(t.Context(), paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("1"), UserData: "form-1"})
			require.NoError(t, err)
			_, err = client.InitInvoice(t.Context(), paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("1"), UserData: "invoice-1"})
			require.NoError(t, err)
			balance, err := client.GetBalance(t.Context())
			require.NoError(t, err)
			require.Equal(t, "97.00", balance.PayoutBalance.String())

			_, err = client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{UserData: "another"})
			var no *paymentsvc.ServiceError
			require.ErrorAs(t, err, &no)
			require.Equal(t, "order_not_found", no.Code)
		})
	}
}

func TestRoutesOfPageAndInterface(t *testing.T) {
	r := start(t)
	for _, test := range []struct {
		name, method, path string
		status             int
		body               string
	}{
		{"the root leads to the page", http.MethodGet, "/", 200, "<h1>Payment Service, mock</h1>"},
		{"the page's path needs no slash", http.MethodGet, "/ui", 200, "<h1>Payment Service, mock</h1>"},
		{"the page knows what it has not", http.MethodGet, "/ui/other", 404, "not found"},
		{"what changes something is not a link", http.MethodGet, "/ui/faults/clear", 405, "Method Not Allowed"},
		{"a browser's icon is no call", http.MethodGet, "/favicon.ico", 200, "<svg"},
		{"a call to the root is the interface's", http.MethodPost, "/", 404, `"error_code":"endpoint"`},
		{"an endpoint without a call is the interface's", http.MethodGet, "/get_balance", 405, `"error_code":"method"`},
		{"a name that begins like the page's is the interface's", http.MethodPost, "/uix", 404, `"error_code":"endpoint"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), test.method, r.address+test.path, nil)
			require.NoError(t, err)
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, test.status, resp.StatusCode)
			require.Contains(t, string(body), test.body)
		})
	}
	_, page := r.get("")
	require.Contains(t, page, "Refused requests: 3 in all")
}

func TestLogHasALineForEveryRequest(t *testing.T) {
	r := start(t, "-old-secret-file", fileWith(t, oldSecret))
	r.pay("order-1")
	r.press("faults/requests", url.Values{"on": {"get_balance"}, "which": {"every"}, "usual": {"drop before"}})
	_, err := r.client(testSecret).GetBalance(t.Context())
	require.Error(t, err)
	_, err = r.client(oldSecret).StatusPayout(t.Context(), paymentsvc.StatusPayoutRequest{OrderID: "x"})
	require.Error(t, err)

	_, err = r.client(testSecret).StatusPayout(t.Context(), paymentsvc.StatusPayoutRequest{OrderID: "x"})
	require.Error(t, err)

	r.stop() // a request that is broken off gets its line after its client has seen it
	log := r.stderr.String()
	for _, line := range []string{
		`msg=request endpoint=init_payment/card http_status=200 duration=`,
		`msg=page action="POST /ui/faults/requests" outcome=fault-set`,
		`msg=request endpoint=get_balance outcome="broken off" duration=`,
		`msg=request endpoint=status_payout http_status=401 duration=`,
		`msg=request endpoint=status_payout http_status=404 duration=`,
		`msg=refused endpoint=status_payout number=1 problem=signature ` +
			`reason="the signature is not that of this request: signed with Project.OldSecret"`,
		`msg=refused endpoint=status_payout number=2 problem=order_not_found reason="no such order"`,
	} {
		require.Equal(t, 1, strings.Count(log, line), "%s\nin\n%s", line, log)
	}
	require.NotContains(t, log, "order-1", "a body is in the log")
}

func TestRunIntroducesItself(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context()) // so that the program ends as soon as it has begun
	cancel()
	for _, test := range []struct {
		name           string
		args           []string
		stdout, stderr []string
		not            string
	}{
		{
			name:   "the defaults are the mock's choice, and so is the secret",
			args:   []string{"-addr", "127.0.0.1:0"},
			stdout: []string{`scheme            hex(timestamp "." body) (this mock's choice)`, "to nobody; -notify says to whom"},
			stderr: []string{"no -secret-file: requests are checked with the demo secret of this example"},
			not:    "not a loopback address",
		},
		{
			name: "flags are the caller's choice",
			args: []string{
				"-addr", "127.0.0.1:0", "-scheme", "base64(body), key sha256", "-secret-file", fileWith(t, testSecret),
				"-notify", "http://127.0.0.1:1/n?token=tok-7",
			},
			stdout: []string{"base64(body), key sha256 (your choice)", "to http://127.0.0.1:1/n?..."},
			not:    "level=WARN",
		},
		{
			name:   "an address that others reach",
			args:   []string{"-addr", "0.0.0.0:0", "-secret-file", fileWith(t, testSecret)},
			stdout: []string{"http://localhost:"},
			stderr: []string{"not a loopback address: whoever reaches it can use the page"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr output
			require.Zero(t, run(ended, test.args, &stdout, &stderr))
			for _, text := range test.stdout {
				require.Contains(t, stdout.String(), text)
			}
			for _, text := range test.stderr {
				require.Contains(t, stderr.String(), text)
			}
			if test.not != "" {
				require.NotContains(t, stderr.String(), test.not)
			}
			requireNothingSecret(t, stdout.String()+stderr.String())
			require.NotContains(t, stdout.String()+stderr.String(), "tok-7")
		})
	}
}

func TestFlagErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"an unknown part of the scheme", []string{"-scheme", "hex(nonce body)"}, `-scheme: column 5: unknown part "nonce"`},
		{"an unknown encoding", []string{"-scheme", "hexx(body)"}, `-scheme: column 1: unknown encoding "hexx", did you mean hex?`},
		{"an old secret of another form", []string{"-scheme", "hex(body), key hex", "-secret-file", fileWith(t, "00ff"), "-old-secret-file", fileWith(t, "text")}, "-old-secret-file: -scheme: column 16: key hex: the secret is not hexadecimal"},
		{"one error field", []string{"-error-fields", "code"}, "-error-fields wants two names"},
		{"error fields in each other's way", []string{"-error-fields", "a,a.b"}, "one is inside the other"},
		{"a secret file that is not there", []string{"-secret-file", "no-such-file"}, "-secret-file: open no-such-file"},
		{"an old secret file that is not there", []string{"-old-secret-file", "no-such-file"}, "-old-secret-file: open no-such-file"},
		{"an empty secret", []string{"-secret-file", fileWith(t, "\n")}, "-secret-file: the file is empty"},
		{"the page's path", []string{"-base-path", "/ui/"}, "-base-path: /ui is the page"},
		{"a path below the page's", []string{"-base-path", "/ui/v1"}, "-base-path: /ui is the page"},
		{"a path without a slash", []string{"-base-path", "v1"}, "BasePath"},
		{"no partner", []string{"-partner", "0"}, "PartnerID"},
		{"a receiver without a scheme", []string{"-notify", "localhost:9000"}, "-notify: not an http or https address"},
		{"a receiver with a password", []string{"-notify", "http://a:b@localhost/"}, "-notify: not an http or https address"},
		{"a receiver that is no address", []string{"-notify", "http://a b/"}, "-notify: not an address"},
		{"an amount that is none", []string{"-balance", "1,5"}, "-balance"},
		{"a negative time", []string{"-grace", "-1s"}, "-grace is negative"},
		{"an unknown flag", []string{"-secret", "x"}, "flag provided but not defined"},
		{"a word that is no flag", []string{"serve"}, "only flags are understood"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr output
			require.Equal(t, 2, run(t.Context(), test.args, &stdout, &stderr))
			require.Empty(t, stdout.String())
			require.Contains(t, stderr.String(), test.want)
		})
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr output
	require.Zero(t, run(t.Context(), []string{"-help"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "this mock's choice")
	requireNothingSecret(t, stderr.String())
}

func TestRunEndsIfItsAddressIsInUse(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	var stdout, stderr output
	require.Equal(t, 1, run(t.Context(), []string{"-addr", taken.Addr().String()}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "address already in use")
}

// single is a listener with one connection.
type single struct{ conn net.Conn }

func (l *single) Accept() (net.Conn, error) {
	conn := l.conn
	if l.conn = nil; conn == nil {
		return nil, io.EOF
	}
	return conn, nil
}

func (l *single) Close() error   { return nil }
func (l *single) Addr() net.Addr { return &net.TCPAddr{} }

// piped serves the interface as serve does, over pipes, for a bubble of testing/synctest.
func piped(t *testing.T) (*paymentsvctest.Server, *http.Transport) {
	t.Helper()
	mock, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: demoPartnerID,
		Projects:  []paymentsvctest.Project{{ID: demoProjectID, Secret: testSecret}},
		Scheme:    mustScheme(t),
	})
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	server := newServer(&observer{mock: mock, log: log}, log)
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		_ = server.Serve(&single{far}) // returns when it has accepted the connection
		return near, nil
	}}
	t.Cleanup(func() {
		mock.Close()
		_ = server.Close()
		transport.CloseIdleConnections()
	})
	return mock, transport
}

func TestReadTimeoutEndsABodyThatDoesNotArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, transport := piped(t)
		conn, err := transport.DialContext(t.Context(), "tcp", "")
		require.NoError(t, err)
		defer conn.Close()
		_, err = fmt.Fprint(conn, "POST /get_balance HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
		require.NoError(t, err)
		answer, err := io.ReadAll(conn) // until the server closes the connection
		require.NoError(t, err)
		require.Empty(t, answer)
	})
}

func TestReadTimeoutDoesNotEndASlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mock, transport := piped(t)
		set := &settings{PartnerID: demoPartnerID, ProjectID: demoProjectID, scheme: mustScheme(t), errorCode: "a", errorMessage: "b"}
		mock.Fault(paymentsvctest.GetBalance, paymentsvctest.Every(), paymentsvctest.Slow(time.Second))
		client := newClient(t, "http://127.0.0.1", set, testSecret, func(c *paymentsvc.Config) {
			c.HTTPClient, c.Timeout = &http.Client{Transport: transport}, time.Hour
		})
		start := time.Now()
		_, err := client.GetBalance(t.Context())
		require.NoError(t, err)
		require.Greater(t, time.Since(start), newServer(nil, slog.New(slog.DiscardHandler)).ReadTimeout)
	})
}

func TestShutdownDoesNotWaitForAnUnfinishedRequest(t *testing.T) {
	r := start(t, "-grace", "1ms")
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.address, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "POST /get_balance HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n")
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1)) // the server waits for the body
	require.NoError(t, err)
	r.stop()
}

func mustScheme(t *testing.T) paymentsvc.Scheme {
	t.Helper()
	scheme, err := canonical.ParseScheme(demoScheme)
	require.NoError(t, err)
	return scheme
}
