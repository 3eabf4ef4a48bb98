package mock

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// press sends a form and returns the next page.
func (r *running) press(path string, form url.Values) (int, string) {
	r.t.Helper()
	resp, text := r.do("POST", path, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	return resp.StatusCode, text
}

func TestPaymentPageSettlesTheOrder(t *testing.T) {
	r, box := startWithInbox(t)
	paid := strings.TrimPrefix(r.pay("order-1").RedirectURL, r.url)
	_, page := r.do("GET", paid, "")
	require.Contains(t, page, "Pay 10.50")
	status, page := r.press(paid, url.Values{"button": {"pay"}})
	require.Equal(t, 200, status)
	require.Contains(t, page, "The shop has been notified.")
	require.Equal(t, []string{"payment.status_changed SUCCESS of 10.50"}, box.taken())
	for _, button := range []string{"pay", "decline"} {
		status, page = r.press(paid, url.Values{"button": {button}})
		require.Equal(t, 409, status)
		require.Contains(t, page, "<h1>Paid</h1>")
	}
	require.Empty(t, box.taken(), "the second click sends no notification")

	declined := strings.TrimPrefix(r.pay("order-2").RedirectURL, r.url)
	_, page = r.press(declined, url.Values{"button": {"decline"}})
	require.Contains(t, page, "<h1>Declined</h1>")
	for i, want := range []string{"The notification waits in the outbox.", "No notification was sent, because"} {
		if i == 1 {
			r.ask(200, "PATCH", "/settings", `{"notify":"","receivers":["project_id=3: `+box.URL+`"]}`)
		}
		r.ask(201, "POST", "/faults", `{"on":"notifications","which":"first","fault":"delayed 1"}`)
		_, page = r.press(strings.TrimPrefix(r.pay("order-3").RedirectURL, r.url), url.Values{"button": {"pay"}})
		require.Contains(t, page, want)
		_, page = r.press("/ui/orders/"+first+"/notify", url.Values{"what": {"again"}})
		require.Equal(t, i == 1, strings.Contains(page, "The notification has no receiver: "))
		r.ask(204, "DELETE", "/faults", "")
	}
	resp, _ := r.do("GET", "/pay/form/"+first, "")
	require.Equal(t, 404, resp.StatusCode, "it is a payment")
	resp, _ = r.do("POST", paid, "", "Origin", "http://evil.example")
	require.Equal(t, 403, resp.StatusCode)
}

func TestPageShowsOrdersMessagesAndFaults(t *testing.T) {
	box := receive(t)
	r := start(t, func(o *Options) { o.Notify = box.URL + "?token=tok-7" })
	resp, page := r.do("GET", "/", "")
	require.Contains(t, page, "No order has been started")
	require.Contains(t, resp.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Equal(t, 1, strings.Count(page, "mock’s choice"), "only one sentence contains this")
	r.pay("order-1")
	r.pay("order-2")
	_, err := pay(r.client(r.url, 2, secret+"\n"), "order-3", "1")
	require.Error(t, err)

	status, page := r.press("/ui/orders/"+first+"/settle", url.Values{"status": {"SUCCESS"}})
	require.Equal(t, 200, status)
	for _, want := range []string{
		"Settled.", `<span class="status SUCCESS">SUCCESS</span>`, "payment.status_changed SUCCESS", "signed correctly",
		"wrong signature: signed with the secret and a line break", "Timestamp: ", "HTTP 401",
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "tok-7")
	require.NotContains(t, page, card)
	status, page = r.press("/ui/orders/"+first+"/settle", url.Values{"status": {"FAILURE"}})
	require.Equal(t, 422, status)
	require.Contains(t, page, `role="alert">The document specifies no status after`)
	_, page = r.do("GET", "/ui/?q=order-2", "")
	require.NotContains(t, page, "order-1")
	require.Contains(t, page, "order-2")
	_, page = r.do("GET", "/ui/?done=<b>x</b>", "")
	require.NotContains(t, page, "<b>")

	for _, test := range []struct {
		path string
		form url.Values
		says string
	}{
		{"/ui/orders/" + first + "/notify", url.Values{"what": {"forged"}}, "Sent."},
		{"/ui/orders/" + first + "/refund", url.Values{"amount": {"1"}, "status": {"SUCCESS"}}, "1 refunded"},
		{"/ui/orders/" + second + "/notify", url.Values{"what": {"nothing"}}, "There is no such notification."},
		{"/ui/deliver", nil, "The waiting notifications were sent."},
		{"/ui/faults", url.Values{"on": {"get_balance"}, "which": {"every"}, "fault": {"reset"}, "user_data": {"u"}},
			"The fault is set."},
		{
			"/ui/faults", url.Values{"which": {"every"}, "fault": {"drop"}, "arguments": {" after "}},
			"<code>drop after</code>",
		},
		{"/ui/faults/2/remove", nil, "The fault is removed."},
		{"/ui/faults", url.Values{"which": {"nth"}, "n": {"0"}, "fault": {"reset"}}, "N is not a number from 1 on."},
		{"/ui/faults/1/remove", nil, "The fault is removed."},
		{"/ui/faults/1/remove", nil, "There is no such fault."},
		{"/ui/faults/clear", nil, "All faults are removed."},
		{"/ui/faults", url.Values{"on": {"notifications"}, "which": {"every"}, "fault": {"delayed"}, "arguments": {"2"}},
			"The fault is set."},
		{"/ui/orders/" + second + "/settle", url.Values{"status": {"SUCCESS"}}, "Settled."},
		{"/ui/deliver", nil, "Some notifications still wait."},
	} {
		_, page := r.press(test.path, test.form)
		require.Contains(t, page, test.says, test.path)
	}
	require.Equal(t, []string{"payment.status_changed SUCCESS of 10.50", "rejected",
		"payment.status_changed SUCCESS of 10.50", "refund.status_changed SUCCESS of 1"}, box.taken())
	resp, _ = r.do("POST", "/ui/deliver", "", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
	for _, file := range []string{"/ui/style.css", "/ui/page.js", "/ui/icon.svg", "/favicon.ico"} {
		resp, _ = r.do("GET", file, "")
		require.Equal(t, 200, resp.StatusCode, file)
	}
	require.Len(t, r.ask(200, "GET", "/messages?direction=in", "")["messages"], 3, "a request for a page is no message")
}

func TestPageHasPagesOfRows(t *testing.T) {
	r := start(t, nil)
	for i := range 2*maxRows + 1 {
		r.pay(fmt.Sprint("order-", i+1))
	}
	rows := func(page, section string) int { return strings.Count(page, `<tr role="row" id="`+section+`-`) }
	_, newest := r.do("GET", "/ui/", "")
	require.Equal(t, []int{maxRows, maxRows}, []int{rows(newest, "order"), rows(newest, "message")})
	require.Contains(t, newest, fmt.Sprintf("<caption>%d in all, ", 2*maxRows+1))
	require.Regexp(t, fmt.Sprintf(`(?s)id="order-%d".*id="order-%d".*id="message-`, 2*maxRows+1, maxRows+2), newest)
	require.Contains(t, newest, `<a href="?orders=2#orders">Older</a>`)
	require.NotContains(t, newest, ">Newer<")
	require.Regexp(t, `<a href="/ui/\?q=[0-9-]+150#order-150">order 150</a>`, newest, "each message leads to its order")
	_, older := r.do("GET", "/ui/?orders=3", "")
	require.Equal(t, []int{1, maxRows}, []int{rows(older, "order"), rows(older, "message")})
	require.Contains(t, older, `id="order-1"`)
	require.Contains(t, older, `<a href="?orders=2#orders">Newer</a>`)
	require.Contains(t, older, `<a href="?messages=2&amp;orders=3#messages">Older</a>`)
	require.Contains(t, older, `data-update="/ui/?orders=3"`)
	_, beyond := r.do("GET", "/ui/?orders=4", "")
	require.Zero(t, rows(beyond, "order"))
	_, page := r.do("GET", "/ui/?orders=x&messages=-1", "")
	require.Equal(t, maxRows, rows(page, "order"))
}

func TestPageFindsTheOrderInTheProjectOfAMessage(t *testing.T) {
	r := start(t, nil)
	r.pay("order-1")
	_, err := pay(r.client(r.url, 3, "another"), "order-1", "1")
	require.NoError(t, err)
	for project, want := range map[int64]int{1: 0, 2: 1, 3: 2} {
		o, _ := r.mock.main.current().orderOf(&message{Fields: fields{ProjectID: project, UserData: "order-1"}})
		require.Equal(t, want, o.Number)
	}
}

func TestPageStaysSmall(t *testing.T) {
	r := start(t, nil)
	r.ask(201, "POST", "/faults", `{"on":"get_balance","fault":"slow 0s"}`)
	for range 2 * maxListed {
		_, err := r.GetBalance(t.Context())
		require.NoError(t, err)
	}
	_, page := r.do("GET", "/ui/", "")
	require.Equal(t, maxListed, strings.Count(page, `<a href="#message-`), "the latest requests of the fault")
	long := strings.Repeat("x", 2*maxMasked)
	r.pay(long)
	r.ask(200, "POST", "/orders/"+first+"/settle", `{"status":"SUCCESS"}`) // the notification waits in the outbox
	_, page = r.do("GET", "/ui/?q=xx", "")
	require.Less(t, len(page), maxMasked)
	require.Contains(t, page, fmt.Sprintf(" bytes: see GET /_mock/messages/%d", 2*maxListed+1))
	require.Contains(t, page, "/ui/?q="+first, "a shortened user_data finds no messages")
	r.ask(200, "PATCH", "/settings", `{"notify":"`+receive(t).URL+`"}`)
	r.ask(200, "POST", "/notifications", `{"project_id":2,"body":"{\"event\":\"`+long+`\"}"}`)
	_, page = r.do("GET", "/ui/?q=notification", "")
	require.Less(t, len(page), maxMasked)
}

func TestPageOffersEachFault(t *testing.T) {
	_, requests := paymentsvctest.ParseFault("none")
	_, notifications := paymentsvctest.ParseNotificationFault("none")
	for i, err := range []error{requests, notifications} {
		_, known, _ := strings.Cut(err.Error(), "want one of ")
		want := strings.Split(known, ", ")
		if i == 0 {
			want[slices.Index(want, "refuse")] = "hold" // a server cannot refuse the connection of one request
		}
		offered := cli.Mapped(faultChoices[i].Faults, func(f faultChoice) string { return f.Name })
		require.ElementsMatch(t, want, offered, faultChoices[i].Of)
	}
}
