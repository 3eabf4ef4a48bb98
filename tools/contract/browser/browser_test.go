// Package browser tests the pages of paymentsvc mock and examples/partner in a real Chromium. It is a separate module,
// so that the SDK does not require the browser driver.
package browser

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

const (
	partnerID = 1001
	projectID = 2002
	secret    = "the-secret-of-the-browser-test"
	card      = "4111111111111111"
)

// scheme returns the default scheme of paymentsvc mock.
func scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{
		Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex,
	}
}

// build compiles the program in a directory of the repository. The cache of go test does not see its sources, because
// they are outside of this module. Run these tests with -count=1.
func build(t *testing.T, dir string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(dir))
	command := exec.CommandContext(t.Context(), "go", "-C", "../../../"+dir, "build", "-o", program, ".")
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
	return program
}

// start starts a program for the test, and returns the address that the program prints after each of the words.
func start(t *testing.T, program string, args []string, words ...string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Wait() // the context ended the program
		require.NotContains(t, log.String(), card)
		require.NotContains(t, log.String(), secret)
	})
	addresses := map[string]string{}
	for lines := bufio.NewScanner(stdout); len(addresses) < len(words) && lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && slices.Contains(words, fields[0]) {
			addresses[fields[0]] = fields[1]
		}
	}
	require.Len(t, addresses, len(words), "the program has not printed its addresses")
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return addresses
}

func secretFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(secret), 0o600))
	return file
}

// findBrowser returns the path of a Chromium, and skips the test without one.
func findBrowser(t *testing.T) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("no browser: install one of %s, on Debian with apt-get install chromium", strings.Join(names, ", "))
	return ""
}

// startBrowser starts a browser without a window and with a new profile. The browser reaches only the loopback address.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(findBrowser(t)),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	}
	for _, name := range []string{
		"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "disable-dev-shm-usage",
	} {
		options = append(options, chromedp.Flag(name, true))
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx))
	return ctx
}

// tab is a tab in a separate browser session.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu      sync.Mutex
	console []string // errors and messages of the page
	hosts   map[string]bool
}

func openTab(browser context.Context, t *testing.T, javaScript bool) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, hosts: map[string]bool{}}
	require.NoError(t, chromedp.Listen(ctx, b.notice))
	_, err := chromedp.Call(
		ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !javaScript},
	)
	require.NoError(t, err)
	return b
}

func (b *tab) notice(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		b.console = append(b.console, string(e.Type))
	case *runtime.EventExceptionThrown:
		b.console = append(b.console, e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		b.console = append(b.console, e.Entry.Text)
	case *network.EventRequestWillBeSent:
		_, rest, _ := strings.Cut(e.Request.URL, "://")
		host, _, _ := strings.Cut(rest, "/")
		b.hosts[host] = true
	}
}

// seen returns the events since its last call.
func (b *tab) seen() (console []string, hosts map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	console, hosts = b.console, b.hosts
	b.console, b.hosts = nil, map[string]bool{}
	return console, hosts
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

func (b *tab) text(css string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS(css)))
	require.NoError(b.t, err)
	return strings.Join(strings.Fields(text), " ")
}

// press clicks an element and returns the HTTP status of the next page.
func (b *tab) press(css string) int64 {
	b.t.Helper()
	resp, err := chromedp.RunResponse(b.ctx, chromedp.Click(chromedp.CSS(css)))
	require.NoError(b.t, err)
	return resp.Status
}

// choose sets a field of the form for faults.
func (b *tab) choose(field, value string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS("form.fault [name="+field+"]"), value))
}

// requireQuiet checks that the pages logged no message, and sent requests only to the given addresses.
func (b *tab) requireQuiet(addresses ...string) {
	b.t.Helper()
	console, hosts := b.seen()
	require.Empty(b.t, console)
	require.NotEmpty(b.t, hosts)
	for host := range hosts {
		require.Contains(b.t, addresses, "http://"+host)
	}
}

func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err)
	return v
}

// requireUsable checks that the page at an address can be used at every width, in light and dark.
func (b *tab) requireUsable(page string) {
	b.t.Helper()
	for what, expression := range map[string]string{
		"fields without a label": `[...document.querySelectorAll("input:not([type=hidden]), select, progress")]
			.filter(e => e.labels.length != 1 && !e.ariaLabel)`,
		"tables without a caption or a head": `[...document.querySelectorAll("table")]
			.filter(t => !t.caption && !t.querySelector("thead th[scope=col]"))`,
		"duplicate ids": `[...document.querySelectorAll("[id]")]
			.filter((e, i, all) => all.findIndex(o => o.id == e.id) != i)`,
		"controls and states without text": `[...document.querySelectorAll(".state, a, button")]
			.filter(e => !e.innerText.trim())`,
	} {
		found := evaluate[[]string](b, expression+`.map(e => e.outerHTML.slice(0, 80))`)
		require.Empty(b.t, found, "%s: %s", page, what)
	}
	require.Equal(b.t, 1, evaluate[int](b, `document.querySelectorAll("h1").length`), page)
	// The widths are those of a phone and a desktop, and those before and after each change of a layout.
	for _, width := range []int64{360, 768, 769, 896, 897, 1280} {
		for _, look := range []string{"light", "dark"} {
			b.resize(width, look)
			content := evaluate[int64](b, "document.documentElement.scrollWidth")
			require.LessOrEqual(b.t, content, width, "%s can be scrolled sideways", page)
			require.Empty(b.t, evaluate[[]string](b, faint), "%s, %s: too little contrast", page, look)
		}
	}
}

// faint lists texts with a contrast below 4.5 to 1.
const faint = `(() => {
	const rgba = text => { const n = text.match(/[\d.]+/g).map(Number); return n.length > 3 ? n : [...n, 1] }
	const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4
	const light = c => {
		const [r, g, b] = c.slice(0, 3).map(v => linear(v / 255))
		return 0.2126 * r + 0.7152 * g + 0.0722 * b
	}
	const behind = e => {
		for (; e; e = e.parentElement) {
			const c = rgba(getComputedStyle(e).backgroundColor)
			if (c[3] == 1) return c
		}
		return [255, 255, 255, 1]
	}
	const hasText = e => [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())
	return [...document.querySelectorAll("body *")].filter(hasText).filter(e => {
		const [a, b] = [light(rgba(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x)
		return (a + 0.05) / (b + 0.05) < 4.5
	}).map(e => e.outerHTML.slice(0, 80))
})()`

func (b *tab) resize(width int64, look string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 500,
	})
	require.NoError(b.t, err)
	_, err = chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look}},
	})
	require.NoError(b.t, err)
}

// mockServer is the command in a separate process, with a client and its notifications.
type mockServer struct {
	address string
	*paymentsvc.Client
	got chan *paymentsvc.Notification
}

func startMock(t *testing.T, program string) *mockServer {
	t.Helper()
	m := &mockServer{got: make(chan *paymentsvc.Notification, 10)}
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme(), Secrets: []paymentsvc.Secret{secret}, Tolerance: 5 * time.Minute,
	})
	require.NoError(t, err)
	receiver := httptest.NewServer(webhook.Handler(func(_ context.Context, n *paymentsvc.Notification) error {
		m.got <- n
		return nil
	}))
	t.Cleanup(receiver.Close)
	m.address = start(t, program, []string{
		"mock", "-addr", "127.0.0.1:0", "-secret-file", secretFile(t), "-notify", receiver.URL + "/notifications",
	}, "ready")["ready"]
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme(), Secret: secret})
	require.NoError(t, err)
	m.Client, err = paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: m.address, PartnerID: partnerID, ProjectID: projectID, Signer: signer,
		DecodeError: paymentsvc.ErrorFields("error_code", "error_message"),
	})
	require.NoError(t, err)
	t.Cleanup(m.CloseIdleConnections)
	return m
}

func (m *mockServer) pay(t *testing.T, userData string) (*paymentsvc.InitPaymentResponse, error) {
	t.Helper()
	return m.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("10.50"), UserData: userData, CardData: map[string]string{"number": card},
	})
}
