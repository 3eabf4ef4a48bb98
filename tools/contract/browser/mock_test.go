package browser

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
)

var mockScreenshot = flag.String("mock.screenshot", "", "`file` for a picture of the mock's page")

func TestMockPage(t *testing.T) {
	browser, program := startBrowser(t), build(t, "cmd/paymentsvc")
	for _, javaScript := range []bool{true, false} {
		name := map[bool]string{true: "with JavaScript", false: "without JavaScript"}[javaScript]
		t.Run("an operator tests a partner "+name, func(t *testing.T) {
			testAPartner(t, openTab(browser, t, javaScript), startMock(t, program))
		})
		t.Run("a payer pays and declines "+name, func(t *testing.T) {
			testAPayer(t, openTab(browser, t, javaScript), startMock(t, program))
		})
	}
	t.Run("it can be used at every width, in light and dark, and by keyboard", func(t *testing.T) {
		mock := startMock(t, program)
		b := openTab(browser, t, true)
		fill(t, b, mock)
		b.requireUsable("the page")
		b.resize(360, "light")
		narrowest := evaluate[float64](b, `Math.min(...[...document.querySelectorAll("td, tbody th")]
			.map(e => e.getBoundingClientRect().width))`)
		require.Greater(t, narrowest, 250.0, "a cell is too narrow to read")
		testKeyboard(t, b, mock)
		b.requireQuiet(mock.address)
		if *mockScreenshot != "" {
			takeMockPicture(t, openTab(browser, t, true), startMock(t, program), *mockScreenshot)
		}
	})
	t.Run("an invalid form shows its error without scrolling", func(t *testing.T) {
		mock := startMock(t, program)
		b := openTab(browser, t, true)
		b.do(
			chromedp.Navigate(mock.address+"/ui/"),
			chromedp.SendKeys(chromedp.CSS("form.fault [name=arguments]"), "soon"),
		)
		require.EqualValues(t, 422, b.press("form.fault button"))
		require.Contains(t, b.text("[role=alert]"),
			`Not a fault: "drop soon": want before or after; the form is drop before|after.`)
		require.True(t, evaluate[bool](b, `(() => {
			const r = document.querySelector("[role=alert]").getBoundingClientRect()
			return r.top >= 0 && r.bottom <= innerHeight
		})()`), "the message is not visible")
	})
	t.Run("it updates itself and keeps typed text", func(t *testing.T) {
		testUpdates(t, openTab(browser, t, true), startMock(t, program))
		testReset(t, openTab(browser, t, true), startMock(t, program))
	})
}

// testReset removes more than a page of orders, and changes a setting, while an operator reads one order.
func testReset(t *testing.T, b *tab, mock *mockServer) {
	t.Helper()
	for i := range 101 {
		_, err := mock.pay(t, fmt.Sprint("order-", i))
		require.NoError(t, err)
	}
	b.do(chromedp.Navigate(mock.address+"/ui/"), chromedp.Click(chromedp.CSS("#order-101 summary")))
	require.Contains(t, b.text("#orders-live"), "Older")
	for path, method := range map[string]string{"settings": http.MethodPatch, "reset": http.MethodPost} {
		body := map[string]string{"settings": `{"script":["amount=1: SUCCESS"]}`}[path]
		request, err := http.NewRequest(method, mock.address+"/_mock/"+path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	b.do(chromedp.WaitNotPresent(chromedp.CSS("#order-100")), chromedp.WaitVisible(chromedp.CSS("#orders-live .empty")))
	require.NotContains(t, b.text("#orders-live"), "101 in all")
	require.NotContains(t, b.text("#orders-live"), "Older")
	require.Contains(t, b.text("#settings-live"), "script amount=1: SUCCESS control API")
	require.Contains(t, b.text("#order-101"), "order-100", "the open row remains")
	_, err := mock.pay(t, "order-after")
	require.NoError(t, err)
	b.do(chromedp.WaitVisible(chromedp.CSS("#order-102")), chromedp.WaitNotPresent(chromedp.CSS("#orders-live .empty")))
	require.Contains(t, b.text("#orders-live"), "1 in all")
	b.requireQuiet(mock.address)
}

// testUpdates changes the mock server's data while an operator types.
func testUpdates(t *testing.T, b *tab, mock *mockServer) {
	t.Helper()
	payment, err := mock.pay(t, "order-1")
	require.NoError(t, err)
	b.do(chromedp.Navigate(mock.address + "/ui/"))
	b.press("#order-1 button[value=SUCCESS]")
	<-mock.got
	b.do(
		chromedp.Click(chromedp.CSS("#order-1 summary")),
		chromedp.SetValue(chromedp.CSS("#order-1 [name=amount]"), "1.25"),
		chromedp.SetValue(chromedp.CSS("form.fault [name=user_data]"), "typed"),
		chromedp.Focus(chromedp.CSS("#order-1 [name=amount]")),
	)
	_, err = mock.pay(t, "order-2")
	require.NoError(t, err)
	b.do(chromedp.WaitVisible(chromedp.CSS("#order-2")), chromedp.WaitVisible(chromedp.CSS("#message-3")))
	require.Equal(t, "1.25 typed", evaluate[string](b,
		`document.activeElement.value + " " + document.querySelector(".fault [name=user_data]").value`))
	require.Equal(t, "order-2 order-1", evaluate[string](b,
		`[...document.querySelectorAll("#orders tbody tr")].map(row => row.id).join(" ")`))
	require.Contains(t, b.text("#orders caption"), "2 in all")
	post := func(path, body string) {
		resp, err := http.Post(mock.address+"/_mock/orders/"+path, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		<-mock.got
	}
	post(strings.Replace(payment.OrderID, "001", "002", 1)+"/settle", `{"status":"FAILURE"}`)
	b.do(chromedp.WaitVisible(chromedp.CSS("#order-2 .FAILURE")))
	evaluate[bool](b, `(document.activeElement.blur(), document.querySelector("#order-1 details").open = false, true)`)
	post(payment.OrderID+"/refund", `{"amount":"0.50"}`) // changes the row of the typed amount
	_, err = mock.pay(t, "order-3")
	require.NoError(t, err)
	b.do(chromedp.WaitVisible(chromedp.CSS("#order-3")))
	require.Equal(t, "1.25", evaluate[string](b, `document.querySelector("#order-1 [name=amount]").value`))
	evaluate[bool](b, `(document.querySelector("#order-1 form:has([name=amount])").reset(), true)`)
	b.do(chromedp.WaitVisible(chromedp.CSS("#order-1 [data-label=Amount] .quiet")))
	b.do(chromedp.Click(chromedp.CSS("#pause")))
	require.Contains(t, b.text("#message-3"), "order 2")
	b.press("#message-3 td a")
	require.Contains(t, b.text("#orders"), "order-2")
	require.NotContains(t, b.text("#orders"), "order-1")
	b.requireQuiet(mock.address)
}

// testAPayer follows the redirect_url of a payment and of a form to the payment page of the mock server.
func testAPayer(t *testing.T, b *tab, mock *mockServer) {
	t.Helper()
	payment, err := mock.pay(t, "order-1")
	require.NoError(t, err)
	b.do(chromedp.Navigate(payment.RedirectURL))
	require.Contains(t, b.text("main"), "Pay 10.50")
	require.EqualValues(t, 200, b.press("button[value=pay]"))
	require.Equal(t, "Paid 10.50 for order order-1: SUCCESS The shop has been notified.", b.text("main"))
	require.Equal(t, "SUCCESS", string((<-mock.got).StatusDescription))

	form, err := mock.InitForm(t.Context(), paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("3"), UserData: "form-1",
	})
	require.NoError(t, err)
	b.do(chromedp.Navigate(form.RedirectURL))
	b.requireUsable("the payment page")
	require.EqualValues(t, 200, b.press("button[value=decline]"))
	require.Contains(t, b.text("main"), "Declined")
	require.Equal(t, "FAILURE", string((<-mock.got).StatusDescription))
	b.requireQuiet(mock.address)
}

// testAPartner uses the page to test a partner that uses this SDK.
func testAPartner(t *testing.T, b *tab, mock *mockServer) {
	t.Helper()
	payment, err := mock.pay(t, "order-1")
	require.NoError(t, err)
	b.do(chromedp.Navigate(mock.address + "/"))
	require.Contains(t, b.text("#order-1"), "1 payment card order-1 "+payment.OrderID+" 10.50 PENDING")

	require.EqualValues(t, 200, b.press("#order-1 button[value=SUCCESS]"))
	require.Contains(t, b.text("#order-1"), "SUCCESS Settled.")
	n := <-mock.got
	require.Equal(t, payment.OrderID+" SUCCESS", n.OrderID+" "+string(n.StatusDescription))
	require.Contains(t, b.text("#message-2"), "sent payment.status_changed SUCCESS order-1 order 1 HTTP 200")
	b.do(chromedp.Click(chromedp.CSS("#message-2 summary")))
	require.Contains(t, b.text("#message-2 pre"), `"status_description":"SUCCESS"`)

	b.do(chromedp.Click(chromedp.CSS("#order-1 summary")))
	require.EqualValues(t, 200, b.press("#order-1 button[value=forged]"))
	n = <-mock.got
	require.Equal(t, "SUCCESS", string(n.StatusDescription), "the forgery was accepted")
	require.Contains(t, b.text("#message-3"), "FAILURE order-1 order 1 HTTP 401")
	require.Contains(t, b.text("#message-3"), "wrong signature: forged on purpose")

	b.choose("on", "init_payment")
	b.chooseFault("drop", "after")
	require.EqualValues(t, 200, b.press("form.fault button"))
	require.Contains(t, b.text("#faults"), "The fault is set.")
	require.Contains(t, b.text("#faults"), "init_payment first 1 drop after 0 Remove")
	_, err = mock.pay(t, "order-2")
	require.Equal(t, paymentsvc.OutcomeUnknown.String(), paymentsvc.OutcomeOf(err).String(), err)
	require.EqualValues(t, 200, b.press(".refresh a"))
	require.Contains(t, b.text("#faults"), "init_payment first 1 drop after 1 #5 Remove")
	require.Contains(t, b.text("#order-2"), "2 payment card order-2", "it was started, and the response was lost")
	b.do(chromedp.SetValue(chromedp.CSS("[name=q]"), "order-2"))
	require.EqualValues(t, 200, b.press(".search button"))
	require.NotContains(t, b.text("main"), "order-1")
	require.Contains(t, b.text("#messages"), "1 message with “order-2”")

	require.EqualValues(t, 200, b.press("#faults td button"))
	require.Contains(t, b.text("#faults"), "Nothing goes wrong on purpose.")
	b.choose("which", "every")
	b.chooseFault("reject", "402 E17 no money")
	require.EqualValues(t, 200, b.press("form.fault button"))
	_, err = mock.pay(t, "order-3")
	require.Equal(t, paymentsvc.OutcomeRejected.String(), paymentsvc.OutcomeOf(err).String(), err)
	var no *paymentsvc.ServiceError
	require.ErrorAs(t, err, &no)
	require.Equal(t, paymentsvc.ServiceError{Code: "E17", Message: "no money"}, *no)

	require.NotContains(t, b.text("body"), card)
	b.requireQuiet(mock.address)
}

// fill fills each table of the page and opens all details.
func fill(t *testing.T, b *tab, mock *mockServer) {
	t.Helper()
	_, err := mock.pay(t, strings.Repeat("a-long-user-data-", 10))
	require.NoError(t, err)
	_, err = mock.pay(t, "order-2")
	require.NoError(t, err)
	_, err = mock.InitPayout(t.Context(), paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("1"), Destination: card, UserData: "payout-1",
	})
	require.NoError(t, err)
	resp, err := http.Post(mock.address+"/"+strings.Repeat("no-such-endpoint", 20), "application/json", nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	b.do(chromedp.Navigate(mock.address + "/ui/"))
	b.press("#order-1 button[value=SUCCESS]")
	b.choose("on", "notifications")
	b.chooseFault("delayed", "1")
	b.press("form.fault button")
	b.press("#order-2 button[value=FAILURE]")
	require.Contains(t, b.text("#messages"), "1 notification waits")
	require.Equal(t, 5, evaluate[int](b, `document.querySelectorAll("table").length`))
	evaluate[bool](b, `document.querySelectorAll("details").forEach(d => d.open = true) || true`)
}

// chooseFault fills the fault and its arguments into the form.
func (b *tab) chooseFault(fault, arguments string) {
	b.t.Helper()
	b.choose("fault", fault)
	b.do(chromedp.SetValue(chromedp.CSS("form.fault [name=arguments]"), arguments))
}

// testKeyboard reaches each control with the Tab key, and presses a button with Enter.
func testKeyboard(t *testing.T, b *tab, mock *mockServer) {
	t.Helper()
	// The controls stay unchanged, because an update replaces a changed row.
	number := evaluate[int](b, `(window.stops = [...document.querySelectorAll(
		"a[href], button, select, input:not([type=hidden]), summary, pre")],
		document.activeElement.blur(), scrollTo(0, 0), stops.length)`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.body.tabIndex = -1, document.body.focus(), undefined`))
	reached := map[string]bool{}
	for range number {
		b.do(chromedp.KeyEvent(kb.Tab))
		stop := evaluate[string](b, `stops.indexOf(document.activeElement) +
			(getComputedStyle(document.activeElement).outlineStyle == "solid" ? "" : " unseen")`)
		reached[stop] = true
	}
	for i := range number {
		require.True(t, reached[fmt.Sprint(i)], "stop %d is not reached, or its focus is not visible", i)
	}
	for len(mock.got) > 0 {
		<-mock.got
	}
	b.do(chromedp.Focus(chromedp.CSS("#order-1 button[value=again]")))
	_, err := chromedp.RunResponse(b.ctx, chromedp.KeyEvent(kb.Enter))
	require.NoError(t, err)
	require.Equal(t, "SUCCESS", string((<-mock.got).StatusDescription))
}

// takeMockPicture makes a picture of the upper part of the page, after some orders.
func takeMockPicture(t *testing.T, b *tab, mock *mockServer, file string) {
	t.Helper()
	for i := range 2 {
		_, err := mock.pay(t, fmt.Sprintf("order-%d", i+1))
		require.NoError(t, err)
	}
	b.do(chromedp.Navigate(mock.address + "/ui/"))
	b.press("#order-1 button[value=SUCCESS]")
	b.do(chromedp.Navigate(mock.address + "/ui/"))
	b.resize(1180, "light")
	evaluate[bool](b, `(document.querySelector("#message-3 details").open = true)`)
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	require.Less(t, len(png), 150_000)
	require.NoError(t, os.WriteFile(file, png, 0o644))
}
