package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// inbox receives notifications and keeps what each was.
type inbox struct {
	*httptest.Server
	mu  sync.Mutex
	got []string
}

// receive rejects what is not signed with testSecret by the program's default scheme, and what is older than 5
// minutes.
func receive(t *testing.T) *inbox {
	t.Helper()
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{
		Scheme: mustScheme(t), Secrets: []paymentsvc.Secret{testSecret}, Tolerance: 5 * time.Minute,
	})
	require.NoError(t, err)
	b := &inbox{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := webhook.ParseRequest(r)
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case errors.Is(err, paymentsvc.ErrSignatureMismatch):
			b.got = append(b.got, "forged")
		case errors.Is(err, paymentsvc.ErrTimestampTooOld):
			b.got = append(b.got, "too old")
		case err != nil:
			b.got = append(b.got, err.Error())
		default:
			b.got = append(b.got, fmt.Sprintf("%s %s of %s", n.Event, n.StatusDescription, n.Amount))
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(b.Close)
	return b
}

// taken returns what has been received since the last time.
func (b *inbox) taken() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.got
	b.got = nil
	return got
}

// row returns the text of a row of the page that holds all of what, tags taken out.
func row(t *testing.T, page string, what ...string) string {
	t.Helper()
	var found []string
	for _, row := range regexp.MustCompile(`(?s)<tr .*?</tr>`).FindAllString(page, -1) {
		text := strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(row, " ")), " ")
		all := true
		for _, w := range what {
			all = all && strings.Contains(text, w)
		}
		if all {
			found = append(found, text)
		}
	}
	require.NotEmpty(t, found, "no row with %q in\n%s", what, page)
	return found[0]
}

func settle(status string) url.Values { return url.Values{"status": {status}} }

func TestPageListsAndSettlesOrders(t *testing.T) {
	receiver := receive(t)
	r := start(t, "-notify", receiver.URL+"/n?token=tok-7")
	_, page := r.get("")
	require.Contains(t, page, "Nothing has been started")
	require.Contains(t, page, "Nothing has been sent")

	first, second := r.pay("order-1"), r.pay("order-2")
	_, page = r.get("")
	require.Equal(t, "2 payment card order-2 "+second+" 10.50 PENDING 1, 10 this mock's choice SUCCESS FAILURE "+
		"Notify Send PENDING again Send a late PENDING Send a forgery, then the true one Send with a timestamp an hour old",
		row(t, page, "order-2"))
	require.Less(t, strings.Index(page, "order-2"), strings.Index(page, "order-1"), "the newest is not first")

	status, page := r.press("orders/"+first+"/settle", settle("SUCCESS"))
	require.Equal(t, 200, status)
	require.Equal(t, []string{"payment.status_changed SUCCESS of 10.50"}, receiver.taken())
	require.Contains(t, row(t, page, "order-1"), "10.50 SUCCESS 2, 20 this mock's choice Settled. Notify")
	require.Equal(t, 1, strings.Count(page, "Settled."))
	require.Contains(t, row(t, page, "payment.status_changed"), "order 1 SUCCESS 10.50 - HTTP 200 taken")
	require.Contains(t, row(t, page, "payout_balance"), "10.50 XTS")
	require.Contains(t, row(t, page, "expected_balance"), "21.00 XTS")
	require.NotContains(t, page, "tok-7")

	status, page = r.press("orders/"+first+"/settle", settle("FAILURE"))
	require.Equal(t, 422, status)
	require.Contains(t, page, `role="alert">Settle: the document shows no way out`)
	require.Contains(t, row(t, page, "order-1"), "SUCCESS 2, 20")

	_, page = r.press("orders/"+second+"/settle", settle("FAILURE"))
	require.Contains(t, row(t, page, "order-2"), "10.50 FAILURE 3, 30")
	require.Equal(t, []string{"payment.status_changed FAILURE of 10.50"}, receiver.taken())
}

func TestPageMovesPayoutsToEveryStatus(t *testing.T) {
	r := start(t)
	id := r.payOut("payout-1")
	for _, test := range []struct{ to, next string }{{"SUCCESS", "FAILURE"}, {"FAILURE", "SUCCESS"}} {
		_, page := r.press("orders/"+id+"/settle", settle(test.to))
		require.True(t, strings.HasSuffix(row(t, page, "payout-1"), "Settled. "+test.next), row(t, page, "payout-1"))
	}
}

func TestPageSendsNotifications(t *testing.T) {
	receiver := receive(t)
	r := start(t, "-notify", receiver.URL)
	id := r.pay("order-1")
	r.press("orders/"+id+"/settle", settle("SUCCESS"))
	receiver.taken()
	const truth = "payment.status_changed SUCCESS of 10.50"
	for _, test := range []struct {
		what string
		got  []string
		rows []string // of the deliveries, the newest first
	}{
		{"again", []string{truth}, []string{"2 payment.status_changed order 1 SUCCESS 10.50 - HTTP 200 taken"}},
		{"late", []string{"payment.status_changed PENDING of 10.50"}, []string{"3 payment.status_changed order 1 PENDING 10.50 - HTTP 200 taken"}},
		{"forged", []string{"forged", truth}, []string{
			"5 payment.status_changed order 1 SUCCESS 10.50 - HTTP 200 taken",
			"4 payment.status_changed order 1 FAILURE 10.50 forged HTTP 401 not taken",
		}},
		{"old", []string{"too old"}, []string{"6 payment.status_changed order 1 SUCCESS 10.50 skewed -1h0m0s HTTP 401 not taken"}},
	} {
		t.Run(test.what, func(t *testing.T) {
			_, page := r.press("orders/"+id+"/notify", url.Values{"what": {test.what}})
			require.Equal(t, test.got, receiver.taken())
			require.Contains(t, row(t, page, "order-1"), "Sent. The answer is under Notifications.")
			for _, text := range test.rows {
				require.Equal(t, text, row(t, page, text))
			}
		})
	}
	require.Contains(t, r.stderr.String(), "msg=notification event=payment.status_changed status=FAILURE order_id="+id+" forged=true http_status=401")
}

func TestPageRefunds(t *testing.T) {
	receiver := receive(t)
	r := start(t, "-notify", receiver.URL)
	id := r.pay("order-1")
	refund := func(amount, status string) (int, string) {
		return r.press("orders/"+id+"/refund", url.Values{"amount": {amount}, "status": {status}})
	}
	status, page := refund("1", "SUCCESS")
	require.Equal(t, 422, status, "of a payment that is not settled")
	require.Contains(t, page, `role="alert">Refund: a refund is for a payment, form or invoice in SUCCESS`)

	r.press("orders/"+id+"/settle", settle("SUCCESS"))
	receiver.taken()
	status, page = refund("1,5", "SUCCESS")
	require.Equal(t, 422, status)
	require.Contains(t, page, "The amount is not a decimal number.")
	_, page = refund(" 2.50 ", "SUCCESS")
	require.Equal(t, []string{"refund.status_changed SUCCESS of 2.50"}, receiver.taken())
	require.Contains(t, row(t, page, "order-1"), "10.50 2.50 refunded SUCCESS")
	require.Contains(t, row(t, page, "payout_balance"), "8.00 XTS")
}

func TestPageKeepsUndeliveredNotifications(t *testing.T) {
	receiver := receive(t)
	r := start(t, "-notify", receiver.URL+"?token=tok-7")
	receiver.Close() // it comes back to life never
	id := r.pay("order-1")
	_, page := r.press("orders/"+id+"/settle", settle("SUCCESS"))
	require.Contains(t, page, "Waiting, the oldest first")
	require.Contains(t, row(t, page, "payment.status_changed", "none: "), "connection refused")
	require.NotContains(t, page, "tok-7")
	for range 2 {
		_, page = r.press("deliver", url.Values{})
	}
	require.Contains(t, page, "What was waiting has been tried once more.")
	require.NotContains(t, page, "Waiting, the oldest first", "a fourth try")
	require.Contains(t, page, "Deliveries: 3 in all")
	require.NotContains(t, r.stderr.String(), "tok-7")
}

func TestPageSendsNothingWithoutAReceiver(t *testing.T) {
	r := start(t)
	id := r.pay("order-1")
	_, page := r.press("orders/"+id+"/settle", settle("SUCCESS"))
	require.Contains(t, page, "start the mock with <code>-notify</code>")
	require.Contains(t, page, "Waiting, the oldest first")
	require.NotContains(t, page, "/notify", "a button that can do nothing")
	for _, path := range []string{"deliver", "orders/" + id + "/notify"} {
		status, page := r.press(path, url.Values{"what": {"again"}})
		require.Equal(t, 422, status)
		require.Contains(t, page, "Nobody receives notifications: start the mock with -notify.")
	}
}

func TestPageSetsAndRemovesFaults(t *testing.T) {
	for _, test := range []struct {
		name    string
		form    url.Values
		row     string
		outcome paymentsvc.Outcome
		started int
	}{
		{
			"a usual one", url.Values{"on": {"init_payment"}, "which": {"first"}, "n": {"1"}, "usual": {"drop after"}},
			"init_payment first 1 drop after 0", paymentsvc.OutcomeUnknown, 1,
		},
		{
			"as text, which goes before the usual one",
			url.Values{"on": {"init_payment/card"}, "which": {"every"}, "n": {"1"}, "usual": {"drop after"}, "text": {" reject 402 E17 no money "}},
			"init_payment/card every reject 402 E17 no money 0", paymentsvc.OutcomeRejected, 0,
		},
		{
			"for all endpoints", url.Values{"on": {""}, "which": {"nth"}, "n": {" 1 "}, "usual": {"reset"}},
			"all number 1 reset 0", paymentsvc.OutcomeUnknown, 0,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := start(t)
			_, page := r.press("faults/requests", test.form)
			require.Contains(t, page, "The fault is set.")
			require.Equal(t, test.row+" Remove", row(t, page, "Remove"))

			_, err := r.client(testSecret).InitPayment(t.Context(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
				Amount: paymentsvc.MustParseAmount("1"), UserData: "order-1",
			})
			require.Error(t, err)
			require.Equal(t, test.outcome.String(), paymentsvc.OutcomeOf(err).String())
			_, page = r.get("")
			require.Equal(t, test.started, strings.Count(page, "order-1</code>"))
			require.Equal(t, strings.TrimSuffix(test.row, "0")+"1 Remove", row(t, page, "Remove"))

			_, page = r.press("faults/1/remove", url.Values{})
			require.Contains(t, page, "The fault is removed.")
			require.Contains(t, page, "Nothing goes wrong on purpose.")
			r.pay("order-2")

			status, page := r.press("faults/1/remove", url.Values{})
			require.Equal(t, 422, status)
			require.Contains(t, page, "There is no such rule any more.")
		})
	}
}

func TestPageRulesKeepTheirNames(t *testing.T) {
	r := start(t)
	for _, fault := range []string{"cut 1", "cut 2", "cut 3"} {
		r.press("faults/requests", url.Values{"which": {"every"}, "text": {fault}})
	}
	r.press("faults/1/remove", url.Values{})
	_, page := r.press("faults/2/remove", url.Values{})
	require.Contains(t, row(t, page, "Remove"), "cut 3")
	_, page = r.press("faults/requests", url.Values{"which": {"every"}, "text": {"cut 4"}})
	require.Contains(t, page, "/ui/faults/4/remove")
	_, page = r.press("faults/clear", url.Values{})
	require.Contains(t, page, "All faults are removed.")
	require.Contains(t, page, "Nothing goes wrong on purpose.")
}

func TestPageSetsNotificationFaults(t *testing.T) {
	receiver := receive(t)
	r := start(t, "-notify", receiver.URL, "-old-secret-file", fileWith(t, oldSecret))
	id := r.pay("order-1")
	_, page := r.press("faults/notifications", url.Values{
		"on": {"payment.status_changed"}, "which": {"first"}, "n": {"1"}, "usual": {"old-secret"},
	})
	require.Equal(t, "payment.status_changed first 1 old-secret 0 Remove", row(t, page, "Remove"))
	_, page = r.press("orders/"+id+"/settle", settle("SUCCESS"))
	require.Equal(t, []string{"forged"}, receiver.taken())
	require.NotEmpty(t, row(t, page, "order 1 SUCCESS 10.50 old-secret HTTP 401 not taken"))
	r.press("deliver", url.Values{})
	require.Equal(t, []string{"payment.status_changed SUCCESS of 10.50"}, receiver.taken())
}

func TestPageShowsAnInvalidFormAgain(t *testing.T) {
	r := start(t)
	id := r.pay("order-1")
	requests := func(on, which, n, text string) url.Values {
		return url.Values{"form": {"requests"}, "on": {on}, "which": {which}, "n": {n}, "usual": {"cut 10"}, "text": {text}}
	}
	for _, test := range []struct {
		name, path string
		form       url.Values
		want       string
	}{
		{"an unknown endpoint", "faults/requests", requests("init_refund", "every", "", ""), "There is no such endpoint."},
		{"an unknown event", "faults/notifications", requests("init_form", "every", "", ""), "There is no such event."},
		{"no number", "faults/requests", requests("", "first", "", ""), "N is not a number from 1 on."},
		{"the number 0", "faults/requests", requests("", "nth", "0", ""), "N is not a number from 1 on."},
		{"an unknown choice", "faults/requests", requests("", "some", "1", ""), "Which requests go wrong is not said."},
		{"an unknown fault", "faults/requests", requests("", "every", "", "melt"), `Not a fault: &#34;melt&#34;.`},
		{"a fault of the other kind", "faults/notifications", requests("", "every", "", "drop after"), `Not a fault: &#34;drop&#34;.`},
		{"a fault that lacks something", "faults/requests", requests("", "every", "", "drop sometime"), "before or after is missing"},
		{"an unknown order", "orders/x/settle", settle("SUCCESS"), "There is no such order."},
		{"an unknown order to notify of", "orders/x/notify", nil, "There is no such order."},
		{"an unknown order to refund", "orders/x/refund", nil, "There is no such order."},
		{"an unknown status", "orders/" + id + "/settle", settle("DONE"), "The status is none of PENDING, SUCCESS and FAILURE."},
		{"an unknown rule", "faults/7/remove", nil, "There is no such rule any more."},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, page := r.press(test.path, test.form)
			require.Equal(t, 422, status)
			require.Contains(t, page, test.want)
			require.Equal(t, 1, strings.Count(page, `role="alert"`))
			require.Contains(t, page, "Nothing goes wrong on purpose.")
			require.Contains(t, row(t, page, "order-1"), "PENDING")
			if text := test.form.Get("text"); text != "" && test.form.Get("form") == "requests" {
				require.Contains(t, page, `name="text" autocomplete="off" spellcheck="false" value="`+text+`"`, "the entry is lost")
			}
		})
	}
	status, page := r.press("faults/requests", requests("", "every", "", strings.Repeat("x", maxForm)))
	require.Equal(t, 422, status)
	require.Contains(t, page, "The form can&#39;t be read.", "a form that is too large")
}

func TestPageOffersEveryFault(t *testing.T) {
	usual := map[string]bool{}
	for _, o := range faultOptions() {
		f, err := paymentsvctest.ParseFault(o.Value)
		require.NoError(t, err, o.Value)
		require.Equal(t, o.Value, f.String())
		usual[firstTwo(o.Value)] = true
	}
	for _, f := range paymentsvctest.AllFaults() {
		require.True(t, usual[firstTwo(f.String())], f.String())
	}
	v := &view{Set: &settings{oldSecret: oldSecret}}
	notified := map[string]bool{}
	for _, o := range v.notificationFaultOptions() {
		f, err := paymentsvctest.ParseNotificationFault(o.Value)
		require.NoError(t, err, o.Value)
		require.Equal(t, o.Value, f.String())
		notified[o.Value] = true
	}
	for _, f := range append(paymentsvctest.AllNotificationFaults(), paymentsvctest.SignedWithOldSecret()) {
		require.True(t, notified[f.String()], f.String())
	}
}

// firstTwo returns a fault's name and what follows it, unless that is only how much of it.
func firstTwo(text string) string {
	words := append(strings.Fields(text), "")
	if words[1] == "before" || words[1] == "after" {
		return words[0] + " " + words[1]
	}
	return words[0]
}

func TestPageListsRejectedRequests(t *testing.T) {
	r := start(t, "-old-secret-file", fileWith(t, oldSecret), "-tolerance", "5m")
	_, err := r.client(oldSecret).InitPayment(t.Context(), paymentsvc.PaymentTypeSBP, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("1"), UserData: "order-1", Payer: map[string]string{"name": "Ann Payer"},
	})
	require.Error(t, err)
	_, err = r.client("another").InitPayout(t.Context(), paymentsvc.PayoutRequest{
		Amount: paymentsvc.MustParseAmount("1"), Destination: cardNumber, UserData: "payout-1",
	})
	require.Error(t, err)
	_, err = clientAt(t, r, time.Now().Add(-time.Hour)).InitForm(t.Context(), paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount("1"), UserData: "form-1",
	})
	require.Error(t, err)
	r.signed(t, `{ "partner_id": 1001, "project_id": 2002 }`, `{"partner_id":1001,"project_id":2002}`)

	_, page := r.get("")
	require.Equal(t, "init_payment/sbp request 1 signature this mock's choice the signature is not that of this request: "+
		"signed with Project.OldSecret order-1", row(t, page, "order-1"))
	require.Regexp(t, `^init_payout request 1 signature this mock's choice the signature is not that of this request: `+
		`none of the usual mistakes makes this signature \(the canonical string has \d+ bytes\) payout-1$`, row(t, page, "payout-1"))
	require.Equal(t, "get_balance request 1 signature this mock's choice the signature is not that of this request: "+
		"signed over the body without white space; the canonical strings differ at byte 12 -", row(t, page, "get_balance request"))
	require.Contains(t, row(t, page, "Age of a timestamp"), "up to 5m0s your choice")
	require.Contains(t, row(t, page, "init_form request"), "timestamp this mock's choice the timestamp is 1h0m")
}

// clientAt has a clock that stands still.
func clientAt(t *testing.T, r *running, now time.Time) *paymentsvc.Client {
	t.Helper()
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{
		Scheme: r.set.scheme, Secret: testSecret, Now: func() time.Time { return now },
	})
	require.NoError(t, err)
	client, err := r.client(testSecret).ForProject(demoProjectID, signer)
	require.NoError(t, err)
	return client
}

// signed sends body to get_balance with the signature of another one.
func (r *running) signed(t *testing.T, body, over string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.address+"/get_balance", strings.NewReader(body))
	require.NoError(t, err)
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: r.set.scheme, Secret: testSecret})
	require.NoError(t, err)
	require.NoError(t, signer.Sign(req, []byte(over)))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 401, resp.StatusCode)
}

func TestPageRejectsForeignSites(t *testing.T) {
	r := start(t)
	id := r.pay("order-1")
	for _, test := range []struct {
		name   string
		change func(*http.Request)
		status int
	}{
		{"a form of another site", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"a form of another port", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		{"a form of another site in an old browser", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403},
		{"a name that was pointed at the loopback", func(r *http.Request) {
			r.Host = "evil.example"
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}, 421},
		{"a name that looks like the loopback's", func(r *http.Request) { r.Host = "127.0.0.1.evil.example:80" }, 421},
		{"the page's own form", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, _ := r.do(http.MethodPost, "orders/"+id+"/settle", settle("SUCCESS"), test.change)
			require.Equal(t, test.status, status)
			_, page := r.get("")
			require.Equal(t, test.status == 200, strings.Contains(row(t, page, "order-1"), "2, 20"), "settled or not")
		})
	}
}

// newMock makes a mock server and its page without an address.
func newMock(t *testing.T) (*paymentsvctest.Server, *page) {
	t.Helper()
	set, code := readFlags([]string{"-secret-file", fileWith(t, testSecret)}, io.Discard)
	require.Zero(t, code)
	mock, err := paymentsvctest.New(set.config())
	require.NoError(t, err)
	t.Cleanup(mock.Close)
	return mock, newPage(set, mock, slog.New(slog.DiscardHandler))
}

// started returns the order_id of a new payment.
func started(t *testing.T, mock *paymentsvctest.Server) string {
	t.Helper()
	server := httptest.NewServer(mock)
	defer server.Close()
	config := mock.ClientConfig(demoProjectID)
	config.BaseURL = server.URL
	client, err := paymentsvc.NewClient(config)
	require.NoError(t, err)
	_, err = client.InitForm(t.Context(), paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("1"), UserData: "form-1"})
	require.NoError(t, err)
	return mock.Orders()[0].OrderID
}

func TestPageAnswersToLoopbackNames(t *testing.T) {
	_, page := newMock(t)
	for _, test := range []struct {
		host   string
		open   bool // the mock listens at an address that others reach
		status int
	}{
		{"localhost", false, 200}, {"LOCALHOST:8080", false, 200}, {"127.0.0.1:8080", false, 200}, {"127.9.9.9", false, 200},
		{"[::1]:8080", false, 200}, {"[::1]", false, 200},
		{"192.0.2.1:8080", false, 421}, {"mock.test:8080", false, 421}, {"localhost.evil.example", false, 421}, {"", false, 421},
		{"mock.test:8080", true, 200},
	} {
		t.Run(test.host, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/ui/", nil)
			r.Host = test.host
			w := httptest.NewRecorder()
			page.handler(!test.open).ServeHTTP(w, r)
			require.Equal(t, test.status, w.Code)
		})
	}
}

func TestPageEscapesMarkup(t *testing.T) {
	r := start(t, "-scheme", `hex(timestamp "<i>\"'" body)`)
	const user = `"'><script>alert(1)</script>&amp;`
	r.pay(user)
	_, err := r.client("another").InitForm(t.Context(), paymentsvc.PaymentRequest{Amount: paymentsvc.MustParseAmount("1"), UserData: user})
	require.Error(t, err)
	resp, err := http.Post(r.address+"/<img%20src=x>", "text/html", nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	r.press("faults/requests", url.Values{"which": {"every"}, "text": {"reject 402 <b> <script>alert(2)</script>"}})
	_, page := r.press("faults/requests", url.Values{"form": {"requests"}, "which": {"every"}, "text": {user}})

	for _, markup := range []string{"<script", "<img", "<i>", "<b>"} {
		require.NotContains(t, page, markup)
	}
	for _, text := range []string{"&lt;script&gt;alert(1)", "&lt;script&gt;alert(2)", "/&lt;img src=x&gt;", "&lt;i&gt;"} {
		require.Contains(t, page, text)
	}
	_, page = r.get("?done=%3Cb%3Efree+text&order=1")
	require.NotContains(t, page, "free text", "an address puts words on the page")
}

func TestPageHasEveryTable(t *testing.T) {
	receiver := receive(t)
	r := start(t, "-notify", receiver.URL)
	id := r.pay("order-1")
	r.payOut("payout-1")
	r.press("orders/"+id+"/settle", settle("SUCCESS"))
	r.press("faults/notifications", url.Values{"which": {"every"}, "usual": {"delayed 1"}})
	r.press("orders/"+id+"/refund", url.Values{"amount": {"1"}, "status": {"SUCCESS"}})
	_, err := r.client("another").GetBalance(t.Context())
	require.Error(t, err)
	_, page := r.get("?all=1&auto=1")
	for _, table := range []string{"Orders: 2 in all", "Waiting, the oldest first", "Deliveries: 1 in all", "Refused requests: 1 in all", "What goes wrong", "Balances", "Settings"} {
		require.Contains(t, page, table)
	}
}

func TestPageRefreshesOnlyWhenAsked(t *testing.T) {
	r := start(t)
	id := r.pay("order-1")
	_, page := r.get("?auto=2")
	require.NotContains(t, page, "http-equiv")
	require.Contains(t, page, `href="/ui/?auto=1">Refresh every 3 seconds`)
	_, page = r.get("?auto=1&done=settled")
	require.Contains(t, page, `<meta http-equiv="refresh" content="3; url=/ui/?auto=1">`)
	require.Contains(t, page, `<a href="/ui/">Stop refreshing</a>`)
	_, page = r.press("orders/"+id+"/settle?auto=1", settle("SUCCESS"))
	require.Contains(t, page, "http-equiv", "a button ends it")
}

func TestPageCutsLongLists(t *testing.T) {
	r := start(t)
	for i := range fewRows + 1 {
		r.pay(fmt.Sprintf("order-%d.", i+1))
		r.press("x", url.Values{}) // nothing of the page's
		resp, err := http.Post(r.address+"/elsewhere", "application/json", nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	_, page := r.get("")
	require.Contains(t, page, "Orders: the newest 25 of 26")
	require.Contains(t, page, "Refused requests: the newest 25 of 26")
	require.Contains(t, page, "order-26.")
	require.NotContains(t, page, "order-1.")
	_, page = r.get("?all=1")
	require.Contains(t, page, "Orders: 26 in all")
	require.Contains(t, page, "order-1.")
}

func TestPageFinishesWorkWhoseBrowserHasLeft(t *testing.T) {
	mock, page := newMock(t)
	var got int
	mock.SetReceiver(paymentsvctest.ToHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got++ }), "/n"))
	id := started(t, mock)
	left, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(left, http.MethodPost, "/ui/orders/"+id+"/settle", strings.NewReader("status=SUCCESS"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	page.handler(false).ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, 1, got)
}
