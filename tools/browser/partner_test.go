package browser

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

var screenshot = flag.String("screenshot", "", "`file` that TestPartnerPage writes a picture of the operators' page to")

// partner is examples/partner in a process of its own, over a service that the test breaks.
type partner struct {
	t             *testing.T
	program       string
	flags         []string
	service       *paymentsvctest.Server
	public, admin string
}

// startPartner has a file of payouts paid, of which two answers are lost, and serves then.
func startPartner(t *testing.T) *partner {
	t.Helper()
	dir := t.TempDir()
	p := &partner{t: t, program: filepath.Join(dir, "partner")}
	output, err := exec.CommandContext(t.Context(), "go", "-C", "../../examples/partner", "build", "-o", p.program, ".").CombinedOutput()
	require.NoError(t, err, string(output))
	p.service = paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: partnerID, Scheme: scheme(), Repeated: paymentsvctest.NewOrder, // or a second start stays unseen
		Projects: []paymentsvctest.Project{{ID: projectID, Secret: secret, Balance: paymentsvc.MustParseAmount("25000.00")}},
	})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(secret), 0o600))
	p.flags = []string{
		"-database", filepath.Join(dir, "partner.db"), "-service", p.service.URL, "-partner", "1001", "-project", "2002",
		"-secret-file", filepath.Join(dir, "secret"), "-error-fields", "error_code,error_message",
		"-not-found-codes", "order_not_found", "-payout-workers", "1",
	}
	p.payFile(filepath.Join(dir, "salaries.csv"))
	p.serve()
	return p
}

// payFile pays ten rows. The third payout is carried out and its answer lost, the fifth never arrives.
func (p *partner) payFile(file string) {
	p.t.Helper()
	var rows strings.Builder
	rows.WriteString("reference,amount,destination\n")
	for _, name := range []string{"ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal", "ida", "joe"} {
		rows.WriteString("salary-" + name + ",1200.50," + card + "\n")
	}
	rows.WriteString("salary-kim,a lot," + card + "\n")
	require.NoError(p.t, os.WriteFile(file, []byte(rows.String()), 0o600))
	p.service.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(3), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	p.service.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(5), paymentsvctest.Drop(paymentsvctest.BeforeCommit))
	cmd := exec.CommandContext(p.t.Context(), p.program, append([]string{"payouts", file}, p.flags...)...)
	output, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	require.True(p.t, ok, string(output))
	require.Equal(p.t, 3, exit.ExitCode(), "it needs a person: %s", output)
}

// serve starts the program, which sends the notifications to itself from then on.
func (p *partner) serve() {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.program, append([]string{"-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0"}, p.flags...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, cmd.Start())
	p.t.Cleanup(func() {
		_ = cmd.Wait() // the context has ended it: its status is no matter of this test
		require.NotContains(p.t, log.String(), card)
		require.NotContains(p.t, log.String(), secret)
	})
	for lines := bufio.NewScanner(stdout); p.admin == "" && lines.Scan(); {
		switch name, address, _ := strings.Cut(lines.Text(), " "); name {
		case "public":
			p.public = address
		case "admin":
			p.admin = address
		}
	}
	require.NotEmpty(p.t, p.admin, "the program has not said where it listens")
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	p.service.SetReceiver(paymentsvctest.ToURL(p.public + "/notifications"))
}

// settle has the service end everything that is under way, but for what keep says, and tell of it.
func (p *partner) settle(t *testing.T, status paymentsvc.StatusName, keep func(paymentsvctest.Order) bool) {
	t.Helper()
	for _, order := range p.service.Orders() {
		if order.Status.Final() || keep != nil && keep(order) {
			continue
		}
		_, err := p.service.Settle(order.OrderID, status)
		require.NoError(t, err)
	}
	p.service.DeliverAll(t.Context())
}

// order makes one in a browser, and gives its user_data.
func (p *partner) order(t *testing.T, b *tab, amount string) string {
	t.Helper()
	b.do(chromedp.Navigate(p.public+"/"), chromedp.SetValue(chromedp.CSS("#amount"), amount))
	require.EqualValues(t, 200, b.press("form button"))
	return b.text("dd code")
}

// parked gives the page of the payout that needs a person and that the service has started so often.
func (p *partner) parked(t *testing.T, b *tab, started int) (page, userData string) {
	t.Helper()
	b.do(chromedp.Navigate(p.admin + "/payouts?attention=1"))
	for _, page := range evaluate[[]string](b, `[...document.querySelectorAll("tbody td:first-child a")].map(a => a.href)`) {
		if userData = page[strings.LastIndex(page, "/")+1:]; p.service.Started(userData) == started {
			return page, userData
		}
	}
	t.Fatalf("no payout that was started %d times needs a person", started)
	return "", ""
}

// requireQuiet checks that the pages complained of nothing, and asked nobody but the program.
func (p *partner) requireQuiet(t *testing.T, b *tab) {
	t.Helper()
	console, hosts := b.seen()
	require.Empty(t, console)
	own := map[string]bool{strings.TrimPrefix(p.public, "http://"): true, strings.TrimPrefix(p.admin, "http://"): true}
	for host := range hosts {
		require.True(t, own[host], host)
	}
	require.NotEmpty(t, hosts)
}

func TestPartnerPage(t *testing.T) {
	findBrowser(t) // without one nothing is built
	p := startPartner(t)
	browser := startBrowser(t)
	for _, javaScript := range []bool{true, false} {
		name := map[bool]string{true: "with JavaScript", false: "without JavaScript"}[javaScript]
		t.Run("a buyer sees how the payment ends "+name, func(t *testing.T) { testABuyer(t, p, openTab(browser, t, javaScript)) })
	}
	b := openTab(browser, t, true)
	t.Run("it can be used at every width, in light and dark, and without its style", func(t *testing.T) { testPartnerLayout(t, p, b) })
	if *screenshot != "" {
		takePicture(t, p, b, *screenshot)
	}
	t.Run("a person decides about payouts whose answers were lost", func(t *testing.T) { testDecisions(t, p, b) })
}

func testABuyer(t *testing.T, p *partner, b *tab) {
	userData := p.order(t, b, "10.50")
	require.Contains(t, b.text(".say"), "under way")
	require.Equal(t, "https://pay.example", evaluate[string](b, `new URL(document.querySelector("a.primary").href).origin`))
	p.settle(t, paymentsvc.StatusSuccess, func(o paymentsvctest.Order) bool { return o.UserData != userData })
	b.do(chromedp.WaitVisible(chromedp.CSS(".state-succeeded"))) // the page looks again by itself
	require.Contains(t, b.text(".say"), "has arrived")

	b.do(chromedp.Navigate(p.public + "/"))
	b.do(chromedp.SetValue(chromedp.CSS("#amount"), "nothing"))
	require.EqualValues(t, 422, b.press("form button"))
	require.Contains(t, b.text("[role=alert]"), "a number above 0")
	console, _ := b.seen() // the browser notes the 422
	require.Len(t, console, 1)
	b.do(chromedp.Navigate(p.admin + "/"))
	require.Contains(t, b.text("main"), userData)
	p.requireQuiet(t, b)
}

func testPartnerLayout(t *testing.T, p *partner, b *tab) {
	parked, _ := p.parked(t, b, 1)
	order := p.order(t, b, "7")
	for _, page := range []string{
		p.admin + "/", p.admin + "/payouts", parked, p.admin + "/notifications", p.public + "/", p.public + "/orders/" + order,
	} {
		b.do(chromedp.Navigate(page))
		require.Zero(t, evaluate[int](b, `[...document.querySelectorAll("input:not([type=hidden]), select, progress")]
			.filter(e => e.labels.length != 1 && !e.ariaLabel).length`), "fields without a label on %s", page)
		require.Zero(t, evaluate[int](b, `[...document.querySelectorAll("table")].filter(t => !t.querySelector("thead th[scope=col]")).length`))
		require.Equal(t, 1, evaluate[int](b, `document.querySelectorAll("h1").length`), page)
		require.Empty(t, evaluate[[]string](b, `[...document.querySelectorAll("[id]")].map(e => e.id).filter((id, i, all) => all.indexOf(id) != i)`),
			"ids that stand more than once on %s", page)
		for _, width := range []int64{360, 400, 768, 769, 1280} {
			for _, look := range []string{"light", "dark"} {
				resize(t, b, width, look)
				require.LessOrEqual(t, evaluate[int64](b, "document.documentElement.scrollWidth"), width, "%s can be scrolled sideways at %d", page, width)
				if width <= 768 { // each row is a block there
					require.Zero(t, evaluate[int](b, `[...document.querySelectorAll(".table")].filter(e => e.scrollWidth > e.clientWidth).length`),
						"tables of %s that are cut off at %d", page, width)
				}
				if width == 1280 { // it is the same at all of them
					require.Empty(t, evaluate[[]string](b, faint), "%s, %s: too little contrast", page, look)
				}
			}
		}
		require.Zero(t, evaluate[int](b, `[...document.querySelectorAll(".state, a, button")].filter(e => !e.innerText.trim()).length`),
			"what says nothing but by its looks on %s", page)
		styled := b.text("main")
		require.True(t, evaluate[bool](b, `document.querySelector("link[rel=stylesheet]").disabled = true`))
		require.Equal(t, styled, b.text("main"), "without its style, %s", page)
	}
	resize(t, b, 1280, "light")
	p.requireQuiet(t, b)
}

// faint lists texts whose contrast with what lies behind them is below 4.5 to 1.
const faint = `(() => {
	const rgba = text => { const n = text.match(/[\d.]+/g).map(Number); return n.length > 3 ? n : [...n, 1] }
	const light = c => { const [r, g, b] = c.slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		return 0.2126 * r + 0.7152 * g + 0.0722 * b }
	const behind = e => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] == 1) return c } return [255, 255, 255, 1] }
	return [...document.querySelectorAll("body *")].filter(e => [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())).filter(e => {
		const [a, b] = [light(rgba(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x)
		return (a + 0.05) / (b + 0.05) < 4.5
	}).map(e => e.outerHTML.slice(0, 80))
})()`

func resize(t *testing.T, b *tab, width int64, look string) {
	t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 500,
	})
	require.NoError(t, err)
	_, err = chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look}},
	})
	require.NoError(t, err)
}

func testDecisions(t *testing.T, p *partner, b *tab) {
	b.do(chromedp.Navigate(p.admin + "/"))
	require.Contains(t, b.text("#balance + dl"), "XTS")
	require.Equal(t, "2 need a person", b.text(".needs"))
	require.NotContains(t, b.text("body"), card)

	// It was carried out: the service has said so, with its order_id.
	page, userData := p.parked(t, b, 1)
	b.do(chromedp.Navigate(page))
	require.Contains(t, b.text("main"), "•••• 1111")
	b.do(chromedp.SendKeys(chromedp.CSS("#order-paid"), p.orderID(t, userData)), chromedp.Click(chromedp.CSS("#sure-paid")))
	require.EqualValues(t, 200, b.press("#choice-paid button"))
	require.Equal(t, "It counts as paid.", b.text("[role=status]"))
	p.service.AssertStarted(t, userData, 1)

	// It never arrived: it is sent again, but not before somebody has said that they are sure.
	page, userData = p.parked(t, b, 0)
	b.do(chromedp.Navigate(page), chromedp.Click(chromedp.CSS("#choice-again button")))
	require.True(t, evaluate[bool](b, `document.querySelector("#sure-again:invalid") != null`), "the browser asks for it")
	p.service.AssertStarted(t, userData, 0)
	b.do(chromedp.Click(chromedp.CSS("#sure-again")))
	require.EqualValues(t, 200, b.press("#choice-again button"))
	require.Equal(t, "It is sent again.", b.text("[role=status]"))
	require.Eventually(t, func() bool { return p.service.Started(userData) == 1 }, 20*time.Second, 20*time.Millisecond)

	p.settle(t, paymentsvc.StatusSuccess, nil)
	b.do(chromedp.Navigate(page))
	require.Contains(t, b.text(".facts"), "State paid")
	p.service.AssertStarted(t, userData, 1)
	b.do(chromedp.Navigate(p.admin + "/"))
	require.Contains(t, b.text("section[aria-labelledby=attention]"), "Nothing.")
	p.requireQuiet(t, b)
}

// orderID is what the service would answer a person.
func (p *partner) orderID(t *testing.T, userData string) string {
	t.Helper()
	for _, order := range p.service.Orders() {
		if order.UserData == userData {
			return order.OrderID
		}
	}
	t.Fatal("the service has no such order")
	return ""
}

// takePicture fills the page a little more, and takes a picture of its upper part.
func takePicture(t *testing.T, p *partner, b *tab, file string) {
	t.Helper()
	for _, amount := range []string{"120.00", "3.99", "47.00"} {
		p.order(t, b, amount)
	}
	under := p.order(t, b, "18.20")
	_, lost := p.parked(t, b, 1)
	p.settle(t, paymentsvc.StatusSuccess, func(o paymentsvctest.Order) bool { return o.UserData == under || o.UserData == lost })
	_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: 1180, Height: 1090, DeviceScaleFactor: 1, Mobile: true, // which has no scroll bars
	})
	require.NoError(t, err)
	b.do(chromedp.Navigate(p.admin + "/"))
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	require.Less(t, len(png), 200<<10)
	require.NoError(t, os.WriteFile(file, png, 0o644))
	resize(t, b, 1280, "light")
}
