package browser

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
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
	"github.com/chromedp/chromedp/kb"
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

// scheme is what mockserver takes where no flag says otherwise.
func scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex}
}

// inbox receives notifications: those that are true come out of the channel.
type inbox struct {
	address string
	got     chan *paymentsvc.Notification
}

func receive(t *testing.T) *inbox {
	t.Helper()
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: scheme(), Secrets: []paymentsvc.Secret{secret}, Tolerance: 5 * time.Minute,
	})
	require.NoError(t, err)
	b := &inbox{got: make(chan *paymentsvc.Notification, 10)}
	server := httptest.NewServer(webhook.Handler(func(_ context.Context, n *paymentsvc.Notification) error {
		b.got <- n
		return nil
	}))
	t.Cleanup(server.Close)
	b.address = server.URL + "/notifications"
	return b
}

// mockServer is the command in a process of its own, and a client of it.
type mockServer struct {
	address string
	*paymentsvc.Client
}

// build compiles the command once for all tests. go test's cache does not see its sources, which lie outside this
// module: run these tests with -count=1.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "mockserver")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/paymentsvc/paymentsvc/examples/mockserver").CombinedOutput()
	require.NoError(t, err, string(output))
	return program
}

func startMock(t *testing.T, program, receiver string) *mockServer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(secret), 0o600))
	cmd := exec.CommandContext(t.Context(), program, "-addr", "127.0.0.1:0", "-secret-file", file, "-notify", receiver)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the context has ended it: its status is no matter of this test
	m := &mockServer{}
	for lines := bufio.NewScanner(stdout); m.address == "" && lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 2 && fields[0] == "interface" {
			m.address = fields[1]
		}
	}
	require.NotEmpty(t, m.address, "the program has not said where it listens")
	go func() { _, _ = io.Copy(io.Discard, stdout) }()

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

// findBrowser gives a Chromium, or skips the test and says why.
func findBrowser(t *testing.T) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("there is no browser here, neither of %s: on Debian, apt-get install chromium", strings.Join(names, ", "))
	return ""
}

// startBrowser starts one without a window, with a profile of its own, which can reach nothing but the loopback.
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

// tab is a tab of a browser session of its own.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu      sync.Mutex
	console []string // what the page complained of
	hosts   map[string]bool
}

func openTab(browser context.Context, t *testing.T, javaScript bool) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, hosts: map[string]bool{}}
	require.NoError(t, chromedp.Listen(ctx, b.notice))
	_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !javaScript})
	require.NoError(t, err)
	b.probe(javaScript)
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
		u, err := url.Parse(e.Request.URL)
		if err != nil {
			b.hosts[e.Request.URL] = true
			return
		}
		b.hosts[u.Host] = true
	}
}

// seen gives what has been noticed since the last time.
func (b *tab) seen() (console []string, hosts map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	console, hosts = b.console, b.hosts
	b.console, b.hosts = nil, map[string]bool{}
	return console, hosts
}

// probe shows, with a page that has a script and asks another host for a picture, that the tab runs scripts only
// when it should, and that nothing of the two goes unnoticed.
func (b *tab) probe(javaScript bool) {
	b.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<link rel="icon" href="data:,"><p>off</p><img src="http://elsewhere.invalid/x.png">`+
			`<script>document.querySelector("p").textContent = "on"</script>`)
	}))
	defer server.Close()
	b.do(chromedp.Navigate(server.URL))
	require.Equal(b.t, map[bool]string{true: "on", false: "off"}[javaScript], b.text("p"))
	console, hosts := b.seen()
	require.NotEmpty(b.t, console, "the picture that can't be had")
	require.True(b.t, hosts["elsewhere.invalid"])
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

// press clicks on what leads to another page, and gives that page's HTTP status.
func (b *tab) press(css string) int64 {
	b.t.Helper()
	resp, err := chromedp.RunResponse(b.ctx, chromedp.Click(chromedp.CSS(css)))
	require.NoError(b.t, err)
	return resp.Status
}

// choose sets a field of the first form, which breaks requests.
func (b *tab) choose(field, value string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS("form.fault [name="+field+"]"), value))
}

// requireQuiet checks that the page complained of nothing, and asked no host but the mock server.
func (b *tab) requireQuiet(m *mockServer) {
	b.t.Helper()
	console, hosts := b.seen()
	require.Empty(b.t, console)
	require.Equal(b.t, map[string]bool{strings.TrimPrefix(m.address, "http://"): true}, hosts)
}

func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err)
	return v
}

func TestThePageInABrowser(t *testing.T) {
	browser, program := startBrowser(t), build(t)
	for _, javaScript := range []bool{true, false} {
		name := map[bool]string{true: "with JavaScript", false: "without JavaScript"}[javaScript]
		t.Run("a person tests a partner "+name, func(t *testing.T) {
			receiver := receive(t)
			mock := startMock(t, program, receiver.address)
			testAPartner(t, openTab(browser, t, javaScript), mock, receiver)
		})
	}
	t.Run("it can be used at every width, in light and dark, and by keyboard", func(t *testing.T) {
		receiver := receive(t)
		mock := startMock(t, program, receiver.address)
		b := openTab(browser, t, true)
		fill(t, b, mock)
		testLayout(t, b)
		testKeyboard(t, b, receiver)
		b.requireQuiet(mock)
	})
	t.Run("it shows what was wrong with a form where the form is", func(t *testing.T) {
		mock := startMock(t, program, receive(t).address)
		b := openTab(browser, t, true)
		b.do(chromedp.Navigate(mock.address+"/ui/"), chromedp.SendKeys(chromedp.CSS("form.fault [name=text]"), "melt"))
		require.EqualValues(t, 422, b.press("form.fault button"))
		require.Equal(t, `Not a fault: "melt".`, b.text("[role=alert]"))
		require.True(t, evaluate[bool](b, `(() => {
			const r = document.querySelector("[role=alert]").getBoundingClientRect()
			return r.top >= 0 && r.bottom <= innerHeight
		})()`), "the message is out of sight")
	})
	t.Run("it refreshes itself when asked", func(t *testing.T) {
		mock := startMock(t, program, receive(t).address)
		b := openTab(browser, t, false)
		b.do(chromedp.Navigate(mock.address + "/ui/"))
		b.press(".refresh a:last-child")
		_, err := mock.pay(t, "order-1")
		require.NoError(t, err)
		b.do(chromedp.WaitVisible(chromedp.CSS("#order-1")))
		b.requireQuiet(mock)
	})
}

// testAPartner is what the page is for, with a partner that is this SDK.
func testAPartner(t *testing.T, b *tab, mock *mockServer, receiver *inbox) {
	t.Helper()
	payment, err := mock.pay(t, "order-1")
	require.NoError(t, err)
	b.do(chromedp.Navigate(mock.address + "/"))
	require.Contains(t, b.text("#order-1"), "1 payment card order-1 "+payment.OrderID+" 10.50 PENDING 1, 10")

	require.EqualValues(t, 200, b.press("#order-1 button[value=SUCCESS]"))
	require.Contains(t, b.text("#order-1"), "SUCCESS 2, 20")
	require.Contains(t, b.text("#order-1"), "Settled.")
	n := <-receiver.got
	require.Equal(t, payment.OrderID+" SUCCESS", n.OrderID+" "+string(n.StatusDescription))
	require.Contains(t, b.text("#notifications"), "1 payment.status_changed order 1 SUCCESS 10.50 - HTTP 200 taken")

	b.do(chromedp.Click(chromedp.CSS("#order-1 summary")))
	require.EqualValues(t, 200, b.press("#order-1 button[value=forged]"))
	n = <-receiver.got
	require.Equal(t, "SUCCESS", string(n.StatusDescription), "the forgery was taken")
	require.Contains(t, b.text("#notifications"), "2 payment.status_changed order 1 FAILURE 10.50 forged HTTP 401 not taken")

	b.choose("on", "init_payment")
	b.choose("usual", "drop after")
	require.EqualValues(t, 200, b.press("form.fault button"))
	require.Contains(t, b.text("#faults"), "The fault is set.")
	require.Contains(t, b.text("#faults"), "init_payment first 1 drop after 0 Remove")
	_, err = mock.pay(t, "order-2")
	require.Equal(t, paymentsvc.OutcomeUnknown.String(), paymentsvc.OutcomeOf(err).String(), err)
	require.EqualValues(t, 200, b.press(".refresh a"))
	require.Contains(t, b.text("#faults"), "init_payment first 1 drop after 1 Remove")
	require.Contains(t, b.text("#order-2"), "2 payment card order-2", "it was started, and its answer lost")

	require.EqualValues(t, 200, b.press("#faults td button"))
	require.Contains(t, b.text("#faults"), "Nothing goes wrong on purpose.")
	b.choose("which", "every")
	b.do(chromedp.SendKeys(chromedp.CSS("form.fault [name=text]"), "reject 402 E17 no money"))
	require.EqualValues(t, 200, b.press("form.fault button"))
	_, err = mock.pay(t, "order-3")
	require.Equal(t, paymentsvc.OutcomeRejected.String(), paymentsvc.OutcomeOf(err).String(), err)
	var no *paymentsvc.ServiceError
	require.ErrorAs(t, err, &no)
	require.Equal(t, paymentsvc.ServiceError{Code: "E17", Message: "no money"}, *no)

	require.NotContains(t, b.text("body"), card)
	b.requireQuiet(mock)
}

// fill has something stand in every table of the page, and opens what can be opened.
func fill(t *testing.T, b *tab, mock *mockServer) {
	t.Helper()
	_, err := mock.pay(t, strings.Repeat("a-long-user-data-", 10))
	require.NoError(t, err)
	_, err = mock.pay(t, "order-2")
	require.NoError(t, err)
	_, err = mock.InitPayout(t.Context(), paymentsvc.PayoutRequest{Amount: paymentsvc.MustParseAmount("1"), Destination: card, UserData: "payout-1"})
	require.NoError(t, err)
	resp, err := http.Post(mock.address+"/"+strings.Repeat("no-such-endpoint", 20), "application/json", nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	b.do(chromedp.Navigate(mock.address + "/ui/"))
	b.press("#order-1 button[value=SUCCESS]")
	b.do(chromedp.SetValue(chromedp.CSS("form.fault:last-child [name=usual]"), "delayed 1"))
	b.press("form.fault:last-child button")
	b.press("#order-2 button[value=FAILURE]")
	require.Contains(t, b.text("#notifications"), "Waiting")
	require.Equal(t, 7, evaluate[int](b, `document.querySelectorAll("table").length`))
	evaluate[bool](b, `document.querySelectorAll("details").forEach(d => d.open = true) || true`)
}

func testLayout(t *testing.T, b *tab) {
	t.Helper()
	require.Zero(t, evaluate[int](b, `[...document.querySelectorAll("input:not([type=hidden]), select")].filter(e => e.labels.length != 1).length`),
		"fields without a label")
	require.Zero(t, evaluate[int](b, `[...document.querySelectorAll("table")].filter(t => !t.caption).length`), "tables without a caption")
	require.Empty(t, evaluate[[]string](b, `[...document.querySelectorAll("[id]")].map(e => e.id).filter((id, i, all) => all.indexOf(id) != i)`),
		"ids that are not unique")
	for _, width := range []int64{360, 896, 897, 1280} {
		for _, look := range []string{"light", "dark"} {
			_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
				Width: width, Height: 800, DeviceScaleFactor: 1, Mobile: width < 500,
			})
			require.NoError(t, err)
			_, err = chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look}},
			})
			require.NoError(t, err)
			require.LessOrEqual(t, evaluate[int64](b, "document.documentElement.scrollWidth"), width, "it can be scrolled sideways")
			require.Empty(t, evaluate[[]string](b, `[...document.querySelectorAll("body *")].filter(e => {
				const r = e.getBoundingClientRect()
				return r.width > 0 && r.right > innerWidth + 1 && !e.closest("thead")
			}).map(e => e.outerHTML.slice(0, 80))`), "at %d pixels", width)
			stacked := evaluate[bool](b, `(() => {
				const [a, b] = [...document.querySelectorAll("#order-1 td")].map(e => e.getBoundingClientRect())
				return b.top >= a.bottom
			})()`)
			require.Equal(t, width <= 896, stacked, "cells below each other at %d pixels", width)
			background := map[string]string{"light": "rgb(247, 247, 245)", "dark": "rgb(21, 24, 27)"}[look]
			require.Equal(t, background, evaluate[string](b, "getComputedStyle(document.body).backgroundColor"))
			require.Empty(t, evaluate[[]string](b, faint), "%s: too little contrast", look)
		}
	}
}

// testKeyboard reaches everything with the Tab key, and presses a button with Enter.
func testKeyboard(t *testing.T, b *tab, receiver *inbox) {
	t.Helper()
	const reachable = `[...document.querySelectorAll("a[href], button, select, input:not([type=hidden]), summary")]`
	number := evaluate[int](b, `(`+reachable+`.forEach((e, i) => e.dataset.stop = i), document.activeElement.blur(), scrollTo(0, 0), `+reachable+`.length)`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.body.tabIndex = -1, document.body.focus(), undefined`))
	reached := map[string]bool{}
	for range number {
		b.do(chromedp.KeyEvent(kb.Tab))
		stop := evaluate[string](b, `document.activeElement.dataset.stop + (getComputedStyle(document.activeElement).outlineStyle == "solid" ? "" : " unseen")`)
		reached[stop] = true
	}
	require.Len(t, reached, number)
	for i := range number {
		require.True(t, reached[fmt.Sprint(i)], "stop %d is not reached, or not seen to be", i)
	}
	for len(receiver.got) > 0 {
		<-receiver.got
	}
	b.do(chromedp.Focus(chromedp.CSS("#order-1 button[value=again]")))
	_, err := chromedp.RunResponse(b.ctx, chromedp.KeyEvent(kb.Enter))
	require.NoError(t, err)
	require.Equal(t, "SUCCESS", string((<-receiver.got).StatusDescription))
}
