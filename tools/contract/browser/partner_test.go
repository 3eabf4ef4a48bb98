package browser

import (
	"database/sql"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

var screenshot = flag.String("screenshot", "", "`file` for a picture of the operators' page")

// partner is examples/partner in a separate process, with a fake service that loses responses.
type partner struct {
	t             *testing.T
	program       string
	flags         []string
	service       *paymentsvctest.Server
	public, admin string
}

// startPartner pays a file of payouts and then starts the server. Two responses are lost.
func startPartner(t *testing.T) *partner {
	t.Helper()
	p := &partner{t: t, program: build(t, "examples/partner")}
	p.service = paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: partnerID, Scheme: scheme(), Repeated: paymentsvctest.NewOrder, // a second start counts
		Projects: []paymentsvctest.Project{{
			ID: projectID, Secret: secret, Balance: paymentsvc.MustParseAmount("25000.00"),
		}},
	})
	database := filepath.Join(t.TempDir(), "partner.db")
	p.flags = []string{
		"-database", database, "-service", p.service.URL, "-service-name", "pay", "-partner", "1001", "-project", "2002",
		"-secret-file", secretFile(t), "-scheme", `hex(timestamp "." body)`,
		"-error-fields", "error_code,error_message",
		"-not-found-codes", "order_not_found", "-slots", "1", "-admin-user", "ada",
	}
	p.payFile(filepath.Join(t.TempDir(), "salaries.csv"))
	age(t, database)
	flags := append([]string{"-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0"}, p.flags...)
	addresses := start(t, p.program, flags, "public", "admin")
	p.public, p.admin = addresses["public"], addresses["admin"]
	p.service.SetReceiver(paymentsvctest.ToURL(p.public + "/notifications"))
	return p
}

// payFile pays ten payouts. The response to the third is lost, and the service does not carry out the fifth.
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
	require.Equal(p.t, 3, exit.ExitCode(), "two payouts need review: %s", output)
}

// age makes all calls so old that their requests can no longer arrive. It increases the number of each claim, because
// durable would otherwise treat the claim as lost.
func age(t *testing.T, database string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+database+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), `UPDATE durable_rows SET claimed_at = 0, claims = claims + 1`)
	require.NoError(t, err)
}

// settle settles all orders in flight, except the orders to keep, and sends the notifications.
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

// order places an order in a browser and returns its user_data.
func (p *partner) order(t *testing.T, b *tab, amount string) string {
	t.Helper()
	b.do(chromedp.Navigate(p.public+"/"), chromedp.SetValue(chromedp.CSS("#amount"), amount))
	require.EqualValues(t, 200, b.press("form button"))
	return b.text("dd code")
}

// parked returns the page of a payout in review with this number of starts.
func (p *partner) parked(t *testing.T, b *tab, started int) (page, userData string) {
	t.Helper()
	b.do(chromedp.Navigate(p.admin + "/rows?kind=payout&review=1"))
	for _, page := range evaluate[[]string](b, `[...document.querySelectorAll("tbody a")].map(a => a.href)`) {
		userData = page[strings.LastIndex(page, "/")+1:]
		if p.service.Started(userData) == started {
			return page, userData
		}
	}
	t.Fatalf("no payout that was started %d times needs review", started)
	return "", ""
}

func TestPartnerPage(t *testing.T) {
	findBrowser(t) // skip the test before the slow build
	p := startPartner(t)
	browser := startBrowser(t)
	for _, javaScript := range []bool{true, false} {
		name := map[bool]string{true: "with JavaScript", false: "without JavaScript"}[javaScript]
		t.Run("a payer sees how the payment ends "+name, func(t *testing.T) {
			testAPayment(t, p, openTab(browser, t, javaScript))
		})
	}
	b := openTab(browser, t, true)
	t.Run("it can be used at every width, in light and dark", func(t *testing.T) { testPartnerLayout(t, p, b) })
	t.Run("an operator decides about many payouts", func(t *testing.T) { testBulk(t, p, b) })
	if *screenshot != "" {
		takePicture(t, p, b, *screenshot)
	}
	t.Run("an operator decides about payouts with lost responses", func(t *testing.T) { testDecisions(t, p, b) })
}

func testAPayment(t *testing.T, p *partner, b *tab) {
	userData := p.order(t, b, "10.50")
	require.Contains(t, b.text(".say"), "in progress")
	origin := evaluate[string](b, `new URL(document.querySelector("a.button").href).origin`)
	require.Equal(t, "https://pay.example", origin)
	p.settle(t, paymentsvc.StatusSuccess, func(o paymentsvctest.Order) bool { return o.UserData != userData })
	b.do(chromedp.WaitVisible(chromedp.CSS(".state-succeeded"))) // the page refreshes automatically
	require.Contains(t, b.text(".say"), "has arrived")

	b.do(chromedp.Navigate(p.public + "/"))
	b.do(chromedp.SetValue(chromedp.CSS("#amount"), "nothing"))
	require.EqualValues(t, 422, b.press("form button"))
	require.Contains(t, b.text("[role=alert]"), "an amount above 0")
	console, _ := b.seen() // the browser logs the 422
	require.Len(t, console, 1)
	b.do(chromedp.Navigate(p.admin+"/"), chromedp.SendKeys(chromedp.CSS("[name=q]"), userData))
	require.EqualValues(t, 200, b.press("form.search button"))
	require.Contains(t, b.text("main"), "payment.status_changed")
	b.requireQuiet(p.public, p.admin)
}

func testPartnerLayout(t *testing.T, p *partner, b *tab) {
	parked, _ := p.parked(t, b, 1)
	order := p.order(t, b, "7")
	for _, page := range []string{
		p.admin + "/", p.admin + "/rows?kind=payout", parked, p.admin + "/files",
		p.public + "/", p.public + "/orders/" + order,
	} {
		b.do(chromedp.Navigate(page))
		b.requireUsable(page)
		b.resize(360, "light")
		require.Zero(t, evaluate[int](b, `document.querySelectorAll("table:not([role=table])," +
			"thead:not([role=rowgroup]), tbody:not([role=rowgroup]), tr:not([role=row])," +
			"th:not([role=columnheader]), td:not([role=cell])").length`),
			"%s: with display block, the elements of a table need roles", page)
	}
	b.requireQuiet(p.public, p.admin)
}

func testDecisions(t *testing.T, p *partner, b *tab) {
	b.do(chromedp.Navigate(p.admin + "/"))
	require.Contains(t, b.text("#balance + dl"), "XTS")
	require.Regexp(t, `^2 need review, oldest \d+ (s|min)$`, b.text(".needs"))
	require.Contains(t, b.text("section[aria-labelledby=files]"), "1 rejected row: not paid")
	require.NotContains(t, b.text("body"), card)

	// The service confirmed the payout with its order_id.
	page, userData := p.parked(t, b, 1)
	b.do(chromedp.Navigate(page))
	require.Contains(t, b.text("main"), "•••• 1111")
	b.do(
		chromedp.SendKeys(chromedp.CSS("#order-paid"), p.service.OrdersOf(userData)[0].OrderID),
		chromedp.Click(chromedp.CSS("#sure-paid")),
	)
	require.EqualValues(t, 200, b.press("#choice-paid button"))
	require.Equal(t, "It is marked as succeeded.", b.text("[role=status]"))
	p.service.AssertStarted(t, userData, 1)

	// The service did not carry out the payout. The page sends it again after a confirmation.
	page, userData = p.parked(t, b, 0)
	b.do(chromedp.Navigate(page), chromedp.Click(chromedp.CSS("#choice-again button")))
	invalid := evaluate[bool](b, `document.querySelector("#sure-again:invalid") != null`)
	require.True(t, invalid, "the browser requires the confirmation")
	p.service.AssertStarted(t, userData, 0)
	b.do(chromedp.Click(chromedp.CSS("#sure-again")))
	require.EqualValues(t, 200, b.press("#choice-again button"))
	require.Equal(t, "It is sent again, with the same user_data.", b.text("[role=status]"))
	require.Eventually(t, func() bool { return p.service.Started(userData) == 1 }, 20*time.Second, 20*time.Millisecond)

	p.settle(t, paymentsvc.StatusSuccess, nil)
	b.do(chromedp.Navigate(page))
	require.Contains(t, b.text(".facts"), "State succeeded")
	p.service.AssertStarted(t, userData, 1)
	b.do(chromedp.Navigate(p.admin + "/"))
	require.Contains(t, b.text("section[aria-labelledby=review]"), "No rows.")
	b.requireQuiet(p.public, p.admin)
}

// testBulk marks two payouts as paid, after a preview.
func testBulk(t *testing.T, p *partner, b *tab) {
	b.do(
		chromedp.Navigate(p.admin+"/rows?kind=payout&state=pending"),
		chromedp.SetValue(chromedp.CSS("#decision"), "paid"),
	)
	for _, n := range []string{"1", "2"} {
		b.do(chromedp.Click(chromedp.CSS("tbody tr:nth-child(" + n + ") input")))
	}
	require.EqualValues(t, 200, b.press("section[aria-labelledby=bulk] button"))
	require.Equal(t, "2 2401.00", b.text("#n")+" "+b.text("#sum"))
	b.requireUsable("the preview")
	b.do(chromedp.Click(chromedp.CSS("#sure")))
	require.EqualValues(t, 200, b.press("#confirm button"))
	require.Equal(t, "It is marked as succeeded. Rows: 2.", b.text("[role=status]"))
}

// takePicture makes a picture of the upper part of the operators' page, after some orders.
func takePicture(t *testing.T, p *partner, b *tab, file string) {
	for _, amount := range []string{"120.00", "3.99", "47.00"} {
		p.order(t, b, amount)
	}
	_, lost := p.parked(t, b, 1)
	p.settle(t, paymentsvc.StatusSuccess, func(o paymentsvctest.Order) bool { return o.UserData == lost })
	b.resize(1180, "light")
	b.do(chromedp.Navigate(p.admin + "/"))
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, png, 0o644))
}
