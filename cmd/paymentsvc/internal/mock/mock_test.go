package mock

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
	"github.com/paymentsvc/paymentsvc/testdata"
)

const (
	secret = "the-secret-of-the-mock-tests"
	card   = "4111111111111111"
	first  = "00000000-0000-4000-8000-000000000001"
	second = "00000000-0000-4000-8000-000000000002"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func scheme() paymentsvc.Scheme {
	return paymentsvc.Scheme{Canonical: canonical.Join(".", canonical.Timestamp, canonical.Body), Encoding: paymentsvc.Hex}
}

// running is a mock server at an address, and a client of its main session.
type running struct {
	t    *testing.T
	mock *Mock
	url  string
	*paymentsvc.Client
	http http.Client
}

// start starts a mock server until the test ends.
func start(t *testing.T, change func(*Options)) *running {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	opt := Options{
		PartnerID: 1, Projects: []paymentsvctest.Project{{ID: 2, Secret: secret, OldSecret: "old"},
			{ID: 3, Secret: "another"}},
		Scheme: scheme(), SchemeText: `hex(timestamp "." body)`, ErrorCode: "error_code", ErrorMessage: "error_message",
		Origin: "http://" + server.Listener.Addr().String(), Repeated: paymentsvctest.NewOrder,
	}
	if change != nil {
		change(&opt)
	}
	m, err := New(opt)
	require.NoError(t, err)
	server.Config.Handler = m
	server.Start()
	t.Cleanup(func() {
		m.Close()
		server.Close()
	})
	r := &running{t: t, mock: m, url: server.URL, http: http.Client{Transport: &http.Transport{}}}
	t.Cleanup(r.http.CloseIdleConnections)
	r.Client = r.client(server.URL, 2, secret)
	return r
}

func (r *running) client(base string, project int64, key paymentsvc.Secret) *paymentsvc.Client {
	r.t.Helper()
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme(), Secret: key,
		SecretEndsInLineBreak: strings.HasSuffix(string(key), "\n")})
	require.NoError(r.t, err)
	client, err := paymentsvc.NewClient(paymentsvc.Config{
		BaseURL: base, PartnerID: 1, ProjectID: project, Signer: signer, DecodeError: paymentsvc.ErrorFields("error_code",
			"error_message"),
	})
	require.NoError(r.t, err)
	r.t.Cleanup(client.CloseIdleConnections)
	return client
}

func pay(c *paymentsvc.Client, userData, amount string) (*paymentsvc.InitPaymentResponse, error) {
	return c.InitPayment(context.Background(), paymentsvc.PaymentTypeCard, paymentsvc.PaymentRequest{
		Amount: paymentsvc.MustParseAmount(amount), UserData: userData, CardData: map[string]string{"number": card},
	})
}

func (r *running) pay(userData string) *paymentsvc.InitPaymentResponse {
	r.t.Helper()
	resp, err := pay(r.Client, userData, "10.50")
	require.NoError(r.t, err)
	return resp
}

// said returns the message of a service error.
func said(err error) string {
	if e, ok := errors.AsType[*paymentsvc.ServiceError](err); ok {
		return e.Message
	}
	return "no service error"
}

// do makes a request and returns the response and its body.
func (r *running) do(method, path, body string, headers ...string) (*http.Response, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	require.NoError(r.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if req.Header.Get("Host") != "" {
		req.Host = req.Header.Get("Host")
	}
	resp, err := r.http.Do(req)
	require.NoError(r.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	require.NoError(r.t, resp.Body.Close())
	return resp, string(text)
}

// ask calls the control API of the main session, checks the status, and returns the response.
func (r *running) ask(status int, method, path, body string) map[string]any {
	r.t.Helper()
	return r.askAt("", status, method, path, body)
}

func (r *running) askAt(prefix string, status int, method, path, body string) map[string]any {
	r.t.Helper()
	resp, text := r.do(method, prefix+"/_mock"+path, body)
	require.Equal(r.t, status, resp.StatusCode, "%s %s: %s", method, path, text)
	if status == http.StatusNoContent {
		return nil
	}
	var answer map[string]any
	require.NoError(r.t, json.Unmarshal([]byte(text), &answer), text)
	require.EqualValues(r.t, 1, answer["v"])
	return answer
}

// expect returns the text of the error, or "" for a met expectation.
func (r *running) expect(body string) string {
	r.t.Helper()
	resp, text := r.do("POST", "/_mock/expect", body)
	if resp.StatusCode == http.StatusOK {
		return ""
	}
	var e apiError
	require.NoError(r.t, json.Unmarshal([]byte(text), &e))
	return e.Error.Code + ": " + e.Error.Message
}

// inbox receives notifications and records each.
type inbox struct {
	*httptest.Server
	mu  sync.Mutex
	got []string
}

func receive(t *testing.T) *inbox {
	t.Helper()
	webhook, err := paymentsvc.NewWebhook(paymentsvc.WebhookConfig{Scheme: scheme(), Secrets: []paymentsvc.Secret{secret},
		Tolerance: time.Minute})
	require.NoError(t, err)
	b := &inbox{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := webhook.ParseRequest(r)
		b.mu.Lock()
		defer b.mu.Unlock()
		if err != nil {
			b.got = append(b.got, "rejected")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		b.got = append(b.got, fmt.Sprintf("%s %s of %s", n.Event, n.StatusDescription, n.Amount))
	}))
	t.Cleanup(b.Close)
	return b
}

// startWithInbox starts a mock server that sends its notifications to an inbox.
func startWithInbox(t *testing.T) (*running, *inbox) {
	t.Helper()
	box := receive(t)
	return start(t, func(o *Options) { o.Notify = box.URL }), box
}

func (b *inbox) taken() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.got
	b.got = nil
	return got
}

func TestControlSettlesRefundsAndNotifies(t *testing.T) {
	box := receive(t)
	r := start(t, func(o *Options) { o.Notify = box.URL + "/n?token=tok-7" })
	require.Equal(t, r.url+"/pay/payment/"+first, r.pay("order-1").RedirectURL)

	answer := r.ask(200, "POST", "/orders/"+first+"/settle", `{"status":"SUCCESS"}`)
	require.Equal(t, "SUCCESS", answer["order"].(map[string]any)["status"])
	require.Equal(t, true, answer["deliveries"].([]any)[0].(map[string]any)["accepted"])
	r.ask(200, "POST", "/orders/"+first+"/refund", `{"amount":"2"}`)
	require.Equal(t, []string{"payment.status_changed SUCCESS of 10.50", "refund.status_changed SUCCESS of 2"},
		box.taken())
	r.ask(409, "POST", "/orders/"+first+"/settle", `{"status":"FAILURE"}`)
	r.ask(409, "POST", "/orders/"+first+"/refund", `{"amount":"9"}`)
	require.Equal(t, "10.50", r.ask(200, "GET", "/orders?user_data=order-1&kind=payment&project_id=2",
		"")["orders"].([]any)[0].(map[string]any)["amount"])
	require.Empty(t, r.ask(200, "GET", "/orders?status=PENDING", "")["orders"])
	require.NotContains(t, fmt.Sprint(r.ask(200, "GET", "/settings", ""), r.ask(200, "GET", "/messages", "")), "tok-7")

	r.pay("order-2")
	r.ask(200, "POST", "/orders/"+second+"/settle", `{"status":"FAILURE","notify":false}`)
	r.ask(200, "POST", "/notifications/deliver", "")
	require.Empty(t, box.taken(), "no notification was due")
	r.ask(200, "POST", "/notifications", `{"order_id":"`+second+`","faults":["forged","repeated 1"]}`)
	require.Equal(t, []string{"rejected", "payment.status_changed FAILURE of 10.50",
		"payment.status_changed FAILURE of 10.50"}, box.taken())
	r.ask(200, "POST", "/notifications", `{"project_id":2,"body":"{\"event\":\"x\"}"}`)
	require.Equal(t, []string{"rejected"}, box.taken(), "signed, but no notification")
	require.Equal(t, "o-9", r.ask(201, "POST", "/orders",
		`{"order_id":"o-9","amount":"5.00","user_data":"seeded","status":"SUCCESS"}`)["order"].(map[string]any)["order_id"])
	r.ask(409, "POST", "/orders", `{"order_id":"o-9","amount":"5.00"}`)
	balance, err := r.GetBalance(t.Context())
	require.NoError(t, err)
	require.Equal(t, "13.50", balance.PayoutBalance.String(), "a seeded order counts")
}

func TestReceiversReceiveTheirProjectsAndEvents(t *testing.T) {
	main, other, refunds := receive(t), receive(t), receive(t)
	r := start(t, func(o *Options) {
		o.Notify, o.Projects[1].Secret = main.URL, secret
		o.Receivers = []string{
			"project_id=3 event=payment.status_changed: " + other.URL + "?token=tok-7",
			"event=refund.status_changed: " + refunds.URL,
		}
	})
	r.pay("order-1")
	_, err := pay(r.client(r.url, 3, secret), "order-2", "1")
	require.NoError(t, err)
	taken := func() []int { return []int{len(main.taken()), len(other.taken()), len(refunds.taken())} }
	r.ask(200, "POST", "/orders/"+first+"/settle", `{"status":"SUCCESS"}`)
	require.Equal(t, []int{1, 0, 0}, taken())
	r.ask(200, "POST", "/orders/"+second+"/settle", `{"status":"SUCCESS"}`)
	require.Equal(t, []int{0, 1, 0}, taken())
	r.ask(200, "POST", "/orders/"+second+"/refund", `{"amount":"0.50"}`)
	require.Equal(t, []int{0, 0, 1}, taken())
	r.ask(200, "POST", "/notifications", `{"project_id":3,"body":"{\"event\":\"payment.status_changed\"}"}`)
	r.ask(200, "POST", "/notifications/3/resend", "")
	require.Equal(t, []int{1, 1, 0}, taken())
	r.ask(200, "POST", "/notifications",
		`{"body":"{\"event\":\"payment.status_changed\",\"order_id\":\"`+second+`\"}"}`)
	require.Equal(t, []int{0, 1, 0}, taken(), "of the project of the order")
	_, page := r.do("GET", "/ui/", "")
	require.Contains(t, page, "<code>event=refund.status_changed: "+refunds.URL+"</code>, <code>"+main.URL+"</code>")
	require.NotContains(t, page+fmt.Sprint(r.ask(200, "GET", "/settings", "")), "tok-7")

	r.ask(201, "POST", "/sessions", `{"name":"own","notify":"`+main.URL+`"}`)
	r.ask(201, "POST", "/sessions", `{"name":"inherits"}`)
	for name, want := range map[string][]int{"own": {1, 0, 0}, "inherits": {0, 0, 1}} {
		path := "/s/" + name
		id := r.askAt(path, 201, "POST", "/orders", `{"amount":"1","status":"SUCCESS"}`)["order"].(map[string]any)["order_id"]
		r.askAt(path, 200, "POST", fmt.Sprintf("/orders/%v/refund", id), "")
		require.Equal(t, want, taken(), name)
	}
	r.ask(200, "PATCH", "/settings", `{"receivers":["project_id=3: `+other.URL+`"]}`)
	r.ask(200, "PATCH", "/settings", `{"notify":""}`)
	r.ask(200, "POST", "/orders/"+second+"/refund", `{"amount":"0.01","status":"PENDING"}`)
	require.Contains(t, fmt.Sprint(r.ask(200, "POST", "/orders/"+first+"/refund", "")), "error:the notification has no ")
	r.ask(422, "POST", "/notifications", `{"order_id":"`+first+`"}`)
	require.Equal(t, []int{0, 1, 0}, taken())
	require.ErrorContains(t, CheckReceivers([]string{"project_id=7 http://a"}), ": is a colon missing?")
	for _, text := range []string{
		"", "http://a", ": http://a", "project_id: http://a", "event=x: http://a", "kind=payment: http://a",
		"project_id=3: ftp://a", "project_id=3:",
	} {
		require.Error(t, CheckReceivers([]string{text}), text)
		r.ask(422, "PATCH", "/settings", `{"receivers":["`+text+`"]}`)
	}
}

func TestControlAnswersAfterTheNotification(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	}))
	defer slow.Close()
	r := start(t, func(o *Options) { o.Notify = slow.URL })
	r.pay("order-1")
	e := r.mock.main.current()
	answer, err := e.notified(t.Context(), first, func() (*paymentsvctest.Notification, error) {
		n, err := e.settling(first, paymentsvc.StatusSuccess, true)()
		go e.deliver(context.Background()) // another call takes n out of the outbox
		<-arrived
		time.AfterFunc(20*time.Millisecond, func() { close(release) })
		return n, err
	})
	require.NoError(t, err)
	require.Len(t, answer.Deliveries, 1)
	require.True(t, answer.Deliveries[0].Accepted)
}

func TestResendSendsANewOrTheOriginalSignature(t *testing.T) {
	r, box := startWithInbox(t)
	r.pay("order-1")
	hour := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	body := strings.ReplaceAll(`{"event":"payment.status_changed","order_id":"o","status":1,`+
		`"status_description":"PENDING","status_code":1,"amount":1.0}`, `"`, `\"`)
	raw := `{"project_id":2,"body":"` + body + `","timestamp":"` + hour + `"}`
	seq := r.ask(200, "POST", "/notifications", raw)["messages"].([]any)[0]
	require.Equal(t, []string{"rejected"}, box.taken(), "too old")
	r.ask(200, "POST", fmt.Sprintf("/notifications/%v/resend", seq), `{"sign":"as_sent"}`)
	require.Equal(t, []string{"rejected"}, box.taken(), "as old as before")
	r.ask(200, "POST", fmt.Sprintf("/notifications/%v/resend", seq), "")
	require.Equal(t, []string{"payment.status_changed PENDING of 1.0"}, box.taken())
	require.Contains(t, fmt.Sprint(r.ask(422, "POST", "/notifications/1/resend", "")), "message 1 is a request")
	seq = r.ask(200, "POST", "/notifications", `{"project_id":2,"body":"{\"project_id\":9}"}`)["messages"].([]any)[0]
	answer := r.ask(200, "POST", fmt.Sprintf("/notifications/%v/resend", seq), "")
	require.Contains(t, fmt.Sprint(answer["deliveries"]), "http_status:401", "signed by the project of the first sending")
}

// A slow message can finish after newer messages were evicted.
func TestJournalEvictsMessagesThatFinishLate(t *testing.T) {
	j := newJournal(newBudget(1<<20), 0, nil)
	var messages []*message
	arrive := func(n int) {
		for range n {
			messages = append(messages, j.arrive(message{}))
		}
	}
	finish := func(numbers ...int) {
		for _, number := range numbers {
			j.finish(messages[number], func(m *message) { m.State = answered })
		}
	}
	arrive(6)
	finish(1, 2, 4, 5)
	assert.True(t, j.evict(1<<20))
	arrive(1)
	for _, slow := range []int{0, 3} {
		finish(slow)
		assert.True(t, j.evict(1))
	}
	finish(6)
	assert.True(t, j.evict(1))
	list, evicted := j.list(&filter{}, 10)
	assert.Empty(t, list)
	assert.Equal(t, 7, evicted)
}

func TestBudgetEvictsFromTheLargestJournal(t *testing.T) {
	b := newBudget(10_000)
	small, large := newJournal(b, 0, nil), newJournal(b, 0, nil)
	add := func(j *journal, bytes int) {
		j.finish(j.arrive(message{}), func(m *message) { m.State, m.Body = answered, make([]byte, bytes) })
	}
	add(small, 0)
	for range 20 {
		add(large, 1000)
	}
	add(small, 0)
	long := message{Fields: fields{UserData: strings.Repeat("x", 1000)}}
	require.Equal(t, int64(1000), long.size()-(&message{}).size(), "a user_data fills memory too")
	kept, evicted := small.list(&filter{}, 10)
	require.Equal(t, []int{2, 0}, []int{len(kept), evicted})
	require.LessOrEqual(t, b.total.Load(), b.bound)
	small.close()
	large.close()
	require.Zero(t, b.total.Load())
}

func TestDrainWaitsLongerThanADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(newBudget(1), 0, nil)
		j.arrive(message{})
		ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
		defer cancel()
		require.ErrorIs(t, j.idle(ctx), context.DeadlineExceeded)
	})
}

func TestSettlementIsScheduledOrInTheBooks(t *testing.T) {
	r := start(t, func(o *Options) { o.Script = []string{"amount=*: SUCCESS after 1ms"} })
	for range 50 {
		id := r.pay("order-1").OrderID
		for scheduled := true; scheduled; {
			scheduled = len(r.ask(200, "GET", "/clock", "")["scheduled"].([]any)) > 0
			status := r.ask(200, "GET", "/orders/"+id, "")["order"].(map[string]any)["status"]
			require.True(t, scheduled || status == "SUCCESS")
		}
	}
}

func TestSlowReceiverDelaysNoSettlement(t *testing.T) {
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer slow.Close()
	r := start(t, func(o *Options) { o.Notify, o.Script = slow.URL, []string{"amount=*: SUCCESS after 1h"} })
	for i := range 3 {
		r.pay(fmt.Sprint("order-", i))
	}
	due := make(chan any)
	go func() { due <- r.ask(200, "POST", "/clock/advance", `{"by":"1h"}`)["due"] }()
	require.Empty(t, r.expect(`{"that":"started","status":"SUCCESS","count":3,"within":"20s"}`))
	close(release)
	require.Len(t, <-due, 3)
	require.Empty(t, r.expect(`{"that":"delivered","count":3}`), "advance waits for the notifications")
}

func TestMessagesKeepAPartOfLongTexts(t *testing.T) {
	k := &recorder{ResponseWriter: httptest.NewRecorder()}
	for range 3 {
		_, err := k.Write(make([]byte, maxAnswer/2+1))
		require.NoError(t, err)
	}
	require.Equal(t, maxAnswer, k.body.Len())
	r := start(t, nil)
	r.do("POST", "/"+strings.Repeat("x", 200), "")
	message, _ := r.mock.main.current().journal.get(1)
	require.Len(t, message.Endpoint, 100)
}

// deadlineWriter records the deadline of a response.
type deadlineWriter struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (w *deadlineWriter) SetWriteDeadline(deadline time.Time) error {
	w.deadline = deadline
	return nil
}

func TestResponsesToSlowReadersHaveADeadline(t *testing.T) {
	r := start(t, nil)
	for _, path := range []string{"/_mock/orders", "/_mock/service.yaml", "/ui/"} {
		w := &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}
		r.mock.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
		require.False(t, w.deadline.IsZero(), path)
	}
}

func TestSettleWithoutReceiverCopiesNoOutbox(t *testing.T) {
	r := start(t, nil)
	e := r.mock.main.current()
	const waiting = 5_000
	for range waiting {
		o, err := e.fake.Seed(paymentsvctest.Order{
			Kind: paymentsvctest.KindPayout, ProjectID: 2, Amount: paymentsvc.MustParseAmount("1"),
		})
		require.NoError(t, err)
		_, err = e.fake.Settle(o.OrderID, paymentsvc.StatusSuccess)
		require.NoError(t, err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := e.notified(t.Context(), first, e.settling(first, paymentsvc.StatusSuccess, true))
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(waiting*50),
		"bytes; a copy has more than 100 for each notification")
}

func TestDeliveryErrorsOmitAddresses(t *testing.T) {
	box := receive(t)
	for _, test := range []struct {
		isHTTP2, fails bool
		faults, want   string
	}{
		{false, false, `"cut 20"`, "cut on purpose"},
		{true, false, `"cut 20"`, "(sent by HTTP/2 only)"},
		{true, true, "", "broken pipe (sent by HTTP/2 only)"}, // the hint survives the removal of the address
	} {
		r := start(t, func(o *Options) { o.Notify, o.HTTP2 = box.URL, test.isHTTP2 })
		if test.fails {
			r.mock.client.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				return writeFails{conn}, err
			}
		}
		r.pay("order-1")
		answer := r.ask(200, "POST", "/notifications", `{"order_id":"`+first+`","faults":[`+test.faults+`]}`)
		failed := answer["deliveries"].([]any)[0].(map[string]any)["error"]
		require.Contains(t, failed, test.want)
		require.NotContains(t, failed, "127.0.0.1")
	}
}

func TestDeliveryErrorsShowNoPartOfAResponse(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the response is otherwise lost to a failed write
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "HTTP/"+card+"\r\n\r\n")
			_ = conn.Close()
		}
	}))
	t.Cleanup(receiver.Close)
	r := start(t, func(o *Options) { o.Notify = receiver.URL })
	r.pay("order-1")
	for _, body := range []string{`{"order_id":"` + first + `","faults":[]}`, `{"project_id":2,"body":"{}"}`} {
		failed := fmt.Sprint(r.ask(200, "POST", "/notifications", body)["deliveries"])
		require.Contains(t, failed, "malformed HTTP")
		require.NotContains(t, failed, card)
	}
	messages := fmt.Sprint(r.ask(200, "GET", "/messages?direction=out", ""))
	require.Contains(t, messages, "malformed HTTP")
	require.NotContains(t, messages, card)
}

type writeFails struct{ net.Conn }

func (c writeFails) Write([]byte) (int, error) {
	e := &net.OpError{Op: "write", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: syscall.EPIPE}
	return 0, &net.OpError{Op: "readfrom", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: e}
}

func TestControlRejectsInvalidRequests(t *testing.T) {
	r := start(t, func(o *Options) { o.Hosts = []string{"mock"} })
	check := func(method, path, body string, status int, code, field string, headers ...string) {
		resp, text := r.do(method, "/_mock"+path, body, headers...)
		var e apiError
		require.NoError(t, json.Unmarshal([]byte(text), &e), text)
		require.Equal(t, []any{status, code, field}, []any{resp.StatusCode, e.Error.Code, e.Error.Field},
			"%s %s: %s", method, path, text)
		require.Equal(t, status == 405, resp.Header.Get("Allow") != "")
		require.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
	}
	check("POST", "/orders", `{"amount":"1"}`, 403, "foreign_origin", "", "Origin", "http://evil.example")
	check("POST", "/orders", `amount=1`, 400, "body", "", "Content-Type", "application/x-www-form-urlencoded")
	check("GET", "/health", "", 421, "unknown_host", "", "Host", "rebound.example")
	for _, test := range []struct {
		method, path, body string
		status             int
		code, field        string
	}{
		{"POST", "/orders", `{"amuont":"1"}`, 400, "unknown_name", "amuont"},
		{"POST", "/orders", `{"amount":1}`, 400, "type", "amount"},
		{"POST", "/orders", `{"amount"`, 400, "body", ""},
		{"POST", "/orders", `{"amount":"1"} {}`, 400, "body", ""},
		{"POST", "/orders", `{"amount":"one"}`, 422, "invalid", "amount"},
		{"GET", "/orders?user_date=1", "", 400, "unknown_name", "user_date"},
		{"GET", "/orders?limit=0", "", 400, "type", "limit"},
		{"GET", "/nothing", "", 404, "not_found", ""},
		{"GET", "/orders/none", "", 404, "not_found", "id"},
		{"DELETE", "/orders", "", 405, "method", ""},
		{"GET", "/reset", "", 405, "method", ""},
		{"POST", "/orders", strings.Repeat(" ", maxControl+1), 413, "too_large", ""},
		{"POST", "/faults", `{"fault":"melt"}`, 422, "invalid", "fault"},
		{"POST", "/faults", `{"fault":"refuse"}`, 422, "invalid", "fault"},
		{"POST", "/faults", `{"fault":" refuse "}`, 422, "invalid", "fault"},
		{"POST", "/faults", `{"on":"init","fault":"reset"}`, 422, "invalid", "on"},
		{"POST", "/faults", `{"n":2,"fault":"reset"}`, 422, "invalid", "n"},
		{"POST", "/faults", `{"which":"nth","n":-1,"fault":"reset"}`, 422, "invalid", "n"},
		{"POST", "/orders/none/settle", `{"status":"DONE"}`, 422, "invalid", "status"},
		{"POST", "/notifications/deliver", "", 422, "invalid", ""},
		{"POST", "/notifications/deliver", `{"order_id":"x"}`, 400, "unknown_name", "order_id"},
		{"GET", "/notifications?user_data=x", "", 400, "unknown_name", "user_data"},
		{"PATCH", "/settings", `{"notify":"ftp://x"}`, 422, "invalid", "notify"},
		{"PATCH", "/settings", `{"script":["amount=1: DONE"]}`, 422, "invalid", "script"},
		{"POST", "/sessions", `{"name":"a/b"}`, 422, "invalid", "name"},
		{"POST", "/expect", `{"that":"refunded"}`, 422, "invalid", "that"},
		{"POST", "/expect", `{"that":"all_signed","count":1}`, 422, "invalid", "count"},
		{"POST", "/expect", `{"that":"started","count":-1}`, 422, "invalid", "count"},
		{"POST", "/expect", `{"that":"started","count":1,"at_least":1}`, 422, "invalid", "count"},
		{"POST", "/expect", `{"that":"started","at_least":2,"at_most":1}`, 422, "invalid", "count"},
		{"POST", "/expect", `{"that":"started","status":"success","count":0}`, 422, "invalid", "status"},
		{"POST", "/expect", `{"that":"started","kind":"paymnt","count":0}`, 422, "invalid", "kind"},
		{"POST", "/expect", `{"that":"started","project_id":999,"count":0}`, 422, "invalid", "project_id"},
		{"POST", "/expect", `{"that":"messages","endpoint":"init","count":0}`, 422, "invalid", "endpoint"},
		{"POST", "/expect", `{"that":"messages","event":"payment","count":0}`, 422, "invalid", "event"},
		{"POST", "/expect", `{"that":"messages","direction":"up","count":0}`, 422, "invalid", "direction"},
		{"POST", "/faults", `{"fault":"reset","where":{"project_id":999}}`, 422, "invalid", "project_id"},
		{"POST", "/notifications", `{"body":"{}","project_id":999}`, 422, "invalid", "project_id"},
		{"POST", "/notifications", `{"body":"{}","to":"http://x"}`, 422, "invalid", "project_id"},
		{"PUT", "/clock", `{"now":"9999-01-01T00:00:00Z"}`, 422, "invalid", "now"},
		{"POST", "/notifications", `{"project_id":2,"body":"{}","to":"ftp://x"}`, 422, "invalid", "to"},
		{"POST", "/notifications", `{"body":"{}","to":"http://x","status":"SUCCESS"}`, 422, "invalid", "body"},
		{"POST", "/notifications", `{"body":"{}","to":"http://x","event":"x"}`, 422, "invalid", "body"},
		{"POST", "/notifications", `{"body":"{}","to":"http://x","faults":[]}`, 422, "invalid", "body"},
		{"POST", "/notifications", `{"timestamp":"2026-01-01T00:00:00Z"}`, 422, "invalid", "to"},
		{"POST", "/expect", `{"that":"started","within":"6m"}`, 422, "invalid", "within"},
		{"POST", "/expect", `{"that":"started","holds_for":"6m"}`, 422, "invalid", "within"},
		{"POST", "/expect", `{"that":"started","valid":true}`, 422, "invalid", "valid"},
		{"POST", "/expect", `{"that":"messages","valid":1}`, 400, "type", "valid"},
		{"POST", "/expect", `{"that":"delivered","direction":"in","status":"SUCCESS","count":0}`, 422, "invalid",
			"direction"},
		{"POST", "/expect", `{"that":"delivered","endpoint":"init_form","count":0}`, 422, "invalid", "direction"},
		{"POST", "/expect", `{"that":"messages","direction":"in","event":"refund.status_changed","count":0}`, 422, "invalid",
			"direction"},
		{"GET", "/messages?direction=out&endpoint=init_form", "", 422, "invalid", "direction"},
		{"GET", "/messages?direction=in&endpoint=notification", "", 422, "invalid", "direction"},
		{"POST", "/expect", `{"that":"fault_hits","fault_id":1,"user_data":"a"}`, 422, "invalid", "that"},
		{"POST", "/notifications/1/resend?as_sent=true", "", 400, "unknown_name", "as_sent"},
		{"POST", "/orders", `[]`, 400, "body", ""},
		{"PUT", "/clock", `{"now":"soon"}`, 400, "type", ""},
		{"PUT", "/clock", `{"now":5}`, 400, "type", ""},
		{"PUT", "/clock", " ", 400, "body", ""},
		{"PUT", "/clock", "soon", 400, "body", ""},
		{"POST", "/clock/advance", `{}`, 422, "invalid", "by"},
		{"POST", "/faults", `{"on":"notifications","fault":"old-secret","where":{"project_id":3}}`, 422, "invalid", "fault"},
		{"POST", "/expect", `{"that":"messages","kind":"payment"}`, 422, "invalid", "kind"},
		{"GET", "/orders?direction=in", "", 422, "invalid", "direction"},
		{"GET", "/messages?kind=payout", "", 422, "invalid", "kind"},
		{"POST", "/faults", `{"fault":"reset","where":{"status":"SUCCESS"}}`, 422, "invalid", "status"},
		{"POST", "/faults", `{"fault":"reset","where":{"user":"a"}}`, 400, "unknown_name", "user"},
		{"GET", "/messages?wait=2m", "", 422, "invalid", "wait"},
		{"GET", "/messages/1/raw", "", 404, "not_found", "id"},
		{"PUT", "/clock", `{"now":"2001-01-01T00:00:00Z"}`, 422, "invalid", "now"},
	} {
		check(test.method, test.path, test.body, test.status, test.code, test.field)
	}
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
		resp, text := r.do("POST", "/_mock/orders", `{"amount":"1"}`, "Content-Type", contentType)
		require.Equal(t, 201, resp.StatusCode, text)
	}
	resp, _ := r.do("GET", "/_mock/health", "", "Host", "mock:8080")
	require.Equal(t, 200, resp.StatusCode)
	resp, _ = r.do("GET", "/s/none/_mock/health", "")
	require.Equal(t, 404, resp.StatusCode)
	resp, _ = r.do("GET", "/ui/", "", "Host", "rebound.example")
	require.Equal(t, 421, resp.StatusCode)
}

func TestControlErrorsNameTheExpectedForm(t *testing.T) {
	r := start(t, nil)
	r.pay("order-1")
	refund := "/orders/" + first + "/refund"
	_, err := pay(r.client(r.url, 3, "another"), "order-2", "1")
	require.NoError(t, err)
	r.ask(200, "POST", "/orders/"+second+"/settle", `{"status":"SUCCESS"}`)
	r.ask(200, "POST", "/orders/"+second+"/refund", `{"amount":"0.40"}`)
	for _, test := range []struct{ path, body, want string }{
		{"/notifications", `{"faults":"forged"}`, "faults: not a list"},
		{"/faults", `{"where":"o"}`, "where: not an object"},
		{"/faults", `{"n":"1"}`, "n: not a whole number"},
		{"/faults", `{"fault":"cut after"}`, "want a number from 0 to 1073741824; the form is cut BYTES"},
		{"/faults", `{"fault":"drop"}`, "want before or after; the form is drop before|after"},
		{"/faults", `{"fault":"reset now"}`, `want no text after "reset"; the form is reset`},
		{"/faults", `{"on":"notifications","fault":"late x"}`, "whole seconds, such as 2s; the form is late [DURATION]"},
		{"/faults", `{"where":{"userdata":"a"}}`, `unknown name "userdata"; did you mean "user_data"?; want one of `},
		{"/expect", `{"that":"messages","valid":1}`, "valid: not true or false"},
		{"/clock/advance", `{}`, `by: missing or 0; want a duration such as "2s"`},
		{"/notifications", `{"order_id":"` + first + `","faults":["cut x"]}`, "; the form is cut [BYTES]"},
		{"/notifications", `{"order_id":"` + second + `","faults":["old-secret"]}`, "faults: old-secret needs "},
		{"/notifications", `{"order_id":"` + first + `","faults":[" reordered"]}`, "needs POST /faults"},
		{"/sessions", `{"projects":[]}`, "projects: empty"},
		{"/sessions", `{"projects":[{"id":1,"secret":"a\n"}]}`, "project 1: secret: ends in a line break, as a key read "},
		{"/sessions", `{"projects":[{"id":1,"secret":"a","old_secret":"a"}]}`, "project 1: old_secret: the same as secret"},
		{"/orders", `{"amount":"0"}`, "the amount is not more than 0"},
		{refund, `{}`, "the order is PENDING, and a refund needs SUCCESS"},
		{"/orders/" + second + "/refund", `{}`, "1 is more than the unrefunded 0.60"},
	} {
		resp, text := r.do("POST", "/_mock"+test.path, test.body)
		var e apiError
		require.NoError(t, json.Unmarshal([]byte(text), &e), text)
		require.Contains(t, e.Error.Message, test.want, "%s %s", test.path, test.body)
		require.NotRegexp(t, `[a-z][A-Z]|Config|paymentsvc`, e.Error.Message, "a name of Go")
		require.Less(t, resp.StatusCode, 500)
	}
}

func TestEveryFilterFindsFaultyNotifications(t *testing.T) {
	r, _ := startWithInbox(t)
	r.pay("order-1")
	filters := []string{
		"user_data=order-1", "user_data_prefix=order", "project_id=2", "order_id=" + first, "direction=out",
		"endpoint=notification", "event=payment.status_changed", "status=PENDING",
	}
	for _, fault := range []string{"cut", "late", "old-secret", "unsigned", "altered"} {
		r.ask(200, "POST", "/notifications", `{"order_id":"`+first+`","faults":["`+fault+`"]}`)
		last := r.mock.main.current().journal.last()
		message, _ := r.mock.main.current().journal.get(last)
		require.Equal(t, fault == "cut", message.Cut, "an early response to a part is no delivery")
		require.Equal(t, fault == "unsigned" || fault == "altered", message.Forged, fault)
		for _, query := range filters {
			found := r.ask(200, "GET", fmt.Sprintf("/messages?after=%d&%s", last-1, query), "")["messages"]
			require.Len(t, found, 1, "%s: %s", fault, query)
		}
	}
	r.ask(200, "POST", "/notifications", `{"order_id":"`+first+`","faults":["forged"]}`)
	require.Len(t, r.ask(200, "GET", "/messages?status=SUCCESS", "")["messages"], 1, "a forgery claims another status")
	r.ask(200, "POST", "/notifications", `{"project_id":3,"body":"{}"}`)
	require.Len(t, r.ask(200, "GET", "/messages?direction=out&project_id=3", "")["messages"], 1)
	require.Empty(t, r.expect(`{"that":"all_signed"}`), "notifications have no part in it")
	require.Contains(t, r.expect(`{"that":"all_signed","direction":"out"}`), "nothing was tested")
}

func TestFiltersSelectOrdersAndMessages(t *testing.T) {
	r, _ := startWithInbox(t)
	r.pay("a-1")
	r.pay("a-2")
	_, err := pay(r.client(r.url, 3, "another"), "b-1", "1")
	require.NoError(t, err)
	payout := paymentsvc.PayoutRequest{Amount: paymentsvc.MustParseAmount("1"), Destination: card, UserData: "p-1"}
	response, err := r.InitPayout(t.Context(), payout)
	require.NoError(t, err)
	r.ask(200, "POST", "/orders/"+first+"/settle", `{"status":"SUCCESS"}`)
	r.ask(200, "POST", "/orders/"+response.OrderID+"/settle", `{"status":"FAILURE"}`)
	_, err = pay(r.client(r.url, 2, "wrong"), "a-3", "1")
	require.Error(t, err)
	for _, test := range []struct{ list, query, want string }{
		{"orders", "", "1 2 3 4"},
		{"orders", "user_data=a-1", "1"},
		{"orders", "user_data=a-1&project_id=3", ""},
		{"orders", "user_data_prefix=a-", "1 2"},
		{"orders", "project_id=3", "3"},
		{"orders", "order_id=" + second, "2"},
		{"orders", "order_id=" + second + "&user_data_prefix=b", ""},
		{"orders", "order_id=" + second + "&user_data=a-1", ""},
		{"orders", "kind=payout", "4"},
		{"orders", "status=SUCCESS", "1"},
		{"orders", "status=PENDING", "2 3"},
		{"orders", "after=2", "3 4"},
		{"orders", "limit=3", "1 2 3, more after 3"},
		{"orders", "limit=4", "1 2 3 4"},
		{"messages", "", "1 2 3 4 5 6 7"},
		{"messages", "user_data=a-1", "1 5"},
		{"messages", "user_data=a-1&order_id=" + second, ""},
		{"messages", "user_data_prefix=p", "4 6"},
		{"messages", "project_id=3", "3"},
		{"messages", "project_id=2", "1 2 4 5 6 7"},
		{"messages", "project_id=2&direction=out", "5 6"},
		{"messages", "order_id=" + first, "1 5"},
		{"messages", "direction=out", "5 6"},
		{"messages", "endpoint=init_payment", "1 2 3 7"},
		{"messages", "endpoint=init_payment/card", "1 2 3 7"},
		{"messages", "endpoint=notification", "5 6"},
		{"messages", "event=payout.status_changed", "6"},
		{"messages", "status=SUCCESS", "5"},
		{"messages", "valid=false", "7"},
		{"messages", "valid=true", "1 2 3 4 5 6"},
		{"messages", "after=5", "6 7"},
		{"messages", "after=7", ""},
		{"messages", "limit=2", "1 2, more after 2"},
	} {
		answer := r.ask(200, "GET", "/"+test.list+"?"+test.query, "")
		var got []string
		for _, item := range answer[test.list].([]any) {
			number := map[string]string{"orders": "number", "messages": "seq"}[test.list]
			got = append(got, fmt.Sprint(item.(map[string]any)[number]))
		}
		text := strings.Join(got, " ")
		if answer["next"] != 0.0 {
			text += fmt.Sprint(", more after ", answer["next"])
		}
		require.Equal(t, test.want, text, "%s: %s", test.list, test.query)
	}
	for _, query := range []string{"after=-1", "project_id=x", "valid=yes", "limit=1001", "limit=x"} {
		resp, _ := r.do("GET", "/_mock/messages?"+query, "")
		require.Equal(t, 400, resp.StatusCode, query)
	}
}

func TestFaultsAffectMatchingRequests(t *testing.T) {
	r, box := startWithInbox(t)
	id := r.ask(201, "POST", "/faults",
		`{"on":"init_payment","which":"nth","n":2,"fault":"drop after","where":{"user_data_prefix":"mine-"}}`)["id"]
	r.pay("other-1")
	r.pay("mine-1")
	r.pay("other-2")
	_, err := pay(r.Client, "mine-2", "1")
	require.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err))
	r.pay("mine-3")
	fault := r.ask(200, "GET", fmt.Sprintf("/faults/%v", id), "")
	require.EqualValues(t, 1, fault["hits"])
	require.Equal(t, []any{4.0}, fault["struck"])
	require.Empty(t, r.expect(fmt.Sprintf(`{"that":"fault_hits","fault_id":%v,"count":1}`, id)))
	require.Empty(t, r.expect(`{"that":"started","user_data":"mine-2","count":1}`), "it was carried out")
	r.ask(200, "POST", "/drain", "") // the client may see the end of the connection first
	message := r.ask(200, "GET", "/messages/4", "")["message"].(map[string]any)
	require.Equal(t, []any{"broken", []any{id}, true},
		[]any{message["state"], message["faults"], message["signature"].(map[string]any)["valid"]})

	r.ask(201, "POST", "/faults", `{"on":"notifications","fault":"lost","where":{"user_data":"mine-1"}}`)
	r.ask(200, "POST", "/orders/"+first+"/settle", `{"status":"SUCCESS"}`)
	r.ask(200, "POST", "/orders/"+second+"/settle", `{"status":"SUCCESS"}`)
	require.Len(t, box.taken(), 1, "only the notification for other-1")
	r.ask(201, "POST", "/faults", `{"on":"refund.status_changed","fault":"lost"}`)
	r.ask(409, "POST", "/notifications", `{"order_id":"`+second+`"}`)
	r.ask(200, "POST", "/notifications", `{"order_id":"`+first+`"}`)
	r.ask(409, "POST", "/notifications", `{"order_id":"`+first+`","event":"refund.status_changed"}`)
	r.ask(200, "POST", "/notifications", `{"order_id":"`+second+`","faults":[]}`)
	require.Len(t, box.taken(), 2, "only the accepted requests send a notification")

	for when, orders := range map[string]int{"before": 0, "after": 1} {
		hold := r.ask(201, "POST", "/faults", `{"on":"init_payment","fault":"hold `+when+`"}`)
		require.Empty(t, hold["struck"].([]any))
		done := make(chan error)
		go func() {
			_, err := pay(r.Client, "held "+when, "1")
			done <- err
		}()
		faultPath := fmt.Sprintf("/faults/%v", hold["id"])
		require.Empty(t, r.expect(fmt.Sprintf(`{"that":"fault_hits","fault_id":%v,"within":"20s"}`, hold["id"])))
		require.Empty(t, r.expect(fmt.Sprintf(`{"that":"started","user_data":"held %s","count":%d}`, when, orders)))
		r.ask(409, "POST", "/drain", `{"timeout":"1ms"}`)
		if orders == 0 {
			r.ask(200, "POST", faultPath+"/release", "")
		}
		r.ask(204, "DELETE", faultPath, "")
		require.NoError(t, <-done)
	}
	r.ask(200, "POST", "/drain", "")
	r.ask(201, "POST", "/faults", `{"fault":"cut 5"}`)
	_, err = pay(r.Client, "cut", "1")
	require.Error(t, err)
	r.ask(200, "POST", "/drain", "")
	cut := r.ask(200, "GET", "/messages?user_data=cut", "")["messages"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"broken", 200.0}, []any{cut["state"], cut["http_status"]})
	r.ask(204, "DELETE", "/faults", "")
	r.pay("order-without-faults")
}

func TestExpectReportsActualNumberAndNearestMessages(t *testing.T) {
	r, box := startWithInbox(t)
	r.pay("order-1")
	require.Equal(t, `not_met: 1 order started for user_data "order-1", want 2 or more`,
		r.expect(`{"that":"started","user_data":"order-1","at_least":2}`))
	require.Equal(t, `not_met: 0 orders started for user_data "order-2", want 1`,
		r.expect(`{"that":"started","user_data":"order-2","count":1}`))
	require.Contains(t, fmt.Sprint(r.ask(409, "POST", "/expect", `{"that":"started","user_data":"order-2"}`)["nearest"]),
		`user_data "order-1"`)
	require.Len(t, r.ask(409, "POST", "/expect", `{"that":"messages","user_data":"order-2"}`)["nearest"], 1)
	require.Empty(t, r.expect(`{"that":"started","user_data":"order-1","count":1,"holds_for":"20ms"}`))
	require.Empty(t, r.expect(`{"that":"started","user_data":"order-9","at_most":0}`))
	require.Equal(t, "not_met: 0 notifications delivered, want 1 or more", r.expect(`{"that":"delivered"}`))
	require.Empty(t, r.expect(`{"that":"all_signed"}`)+r.expect(`{"that":"none_rejected"}`))
	for _, claim := range []string{`"forgeries_refused"`, `"all_signed","user_data":"x"`,
		`"none_rejected","user_data":"x"`, `"delivered","count":0`} {
		require.Contains(t, r.expect(`{"that":`+claim+`}`), "not_met: nothing was tested: there is no message for ")
	}

	met := make(chan string)
	go func() { met <- r.expect(`{"that":"delivered","user_data":"order-1","within":"20s"}`) }()
	r.ask(200, "POST", "/orders/"+first+"/settle", `{"status":"SUCCESS"}`)
	require.Empty(t, <-met)

	_, err := pay(r.client(r.url, 2, secret+"\n"), "order-3", "1")
	require.Contains(t, said(err), "signed with the secret and a line break, want hex(")
	require.Equal(t, "not_met: 1 request with a wrong signature, want 0", r.expect(`{"that":"all_signed"}`))
	require.Equal(t, "not_met: 1 request rejected, want 0", r.expect(`{"that":"none_rejected"}`))
	offenders := func(claim string) string { return fmt.Sprint(r.ask(409, "POST", "/expect", claim)["nearest"]) }
	require.Regexp(t,
		`^\[message \d+: in .* "order-3", HTTP 401, .*: wrong signature: signed with the secret and a line break[^]]*\]$`,
		offenders(`{"that":"all_signed"}`))
	require.Regexp(t, `^\[message \d+: .* "order-3", .*: rejected, signature: [^]]*\]$`,
		offenders(`{"that":"none_rejected"}`))
	require.Regexp(t, `^\[payment of 10.50 for user_data "order-1", SUCCESS\]$`,
		offenders(`{"that":"started","at_most":0}`))
	r.ask(200, "PATCH", "/settings", `{"script":["user_data=no: DECLINED no money"]}`)
	_, err = pay(r.Client, "no", "1")
	require.Equal(t, "no money", said(err))
	r.ask(201, "POST", "/faults", `{"which":"first","n":1,"fault":"reject 402 E17 no money","where":{"user_data":"no"}}`)
	_, err = pay(r.Client, "no", "1")
	require.Equal(t, "no money", said(err))
	require.Empty(t, r.expect(`{"that":"none_rejected","user_data":"no"}`), "the tester ordered both")
	require.Empty(t, r.expect(`{"that":"none_rejected","user_data":"order-1"}`), "a filter serves parallel tests")
	last := r.ask(200, "GET", "/messages?valid=false", "")["messages"].([]any)[0].(map[string]any)
	require.Contains(t, last["signature"].(map[string]any)["reason"], "line break")
	_, err = r.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{UserData: "nobody"})
	require.Error(t, err)
	require.Empty(t, r.expect(`{"that":"none_rejected","user_data":"nobody"}`), "no such order is an answer")

	careless := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer careless.Close()
	r.ask(200, "PATCH", "/settings", `{"notify":"`+careless.URL+`"}`)
	r.ask(200, "POST", "/notifications", `{"order_id":"`+first+`","faults":["forged"]}`)
	require.Equal(t, "not_met: 1 forgery not rejected, want 0", r.expect(`{"that":"forgeries_refused"}`))
	require.Regexp(t, `^\[message \d+: out .*, HTTP 200, answered: wrong signature: forged[^]]*\]$`,
		offenders(`{"that":"forgeries_refused"}`))
	require.Empty(t, r.expect(`{"that":"delivered","user_data":"order-1","count":2}`), "a forgery is no delivery")
	r.ask(200, "PATCH", "/settings", `{"notify":"`+box.URL+`"}`)
	r.ask(200, "POST", "/notifications", `{"order_id":"`+first+`","faults":["forged"]}`)
	require.Empty(t,
		r.expect(`{"that":"forgeries_refused","after":`+fmt.Sprint(r.mock.main.current().journal.last()-2)+`}`))
	counts := claims["delivered"].counts
	require.True(t, counts(&message{Direction: out, Status: 200}))
	require.False(t, counts(&message{Direction: out, Status: 200, Cut: true}), "an early response to a part")
}

// The tests of [paymentsvctest.Delivery.Rejected] have the other statuses.
func TestExpectAcceptsOnlyRejectionsOfForgeries(t *testing.T) {
	status := 0
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if status == 0 {
			panic(http.ErrAbortHandler) // no response
		}
		w.WriteHeader(status)
	}))
	defer shop.Close()
	r := start(t, func(o *Options) { o.Notify = shop.URL })
	r.pay("order-1")
	for _, status = range []int{400, 422, 200, 404, 0} {
		want := map[bool]string{false: "not_met: 1 forgery not rejected, want 0"}[status == 400 || status == 422]
		after := r.mock.main.current().journal.last()
		r.ask(200, "POST", "/notifications", `{"order_id":"`+first+`","faults":["unsigned"]}`)
		require.Equal(t, want, r.expect(fmt.Sprintf(`{"that":"forgeries_refused","after":%d}`, after)), status)
		delivered := r.expect(fmt.Sprintf(`{"that":"delivered","count":0,"after":%d}`, after))
		require.Equal(t, status == 0, strings.Contains(delivered, "nothing was tested"), status)
	}
}

func TestNotificationIsSentWithoutItsTester(t *testing.T) {
	r, box := startWithInbox(t)
	r.pay("order-1")
	ctx, leave := context.WithCancel(t.Context())
	leave()
	settle := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/_mock/orders/"+first+"/settle",
		strings.NewReader(`{"status":"SUCCESS"}`))
	r.mock.ServeHTTP(httptest.NewRecorder(), settle)
	require.Equal(t, []string{"payment.status_changed SUCCESS of 10.50"}, box.taken())
}

func TestExpectCountsDuplicatesAndUnknownOrders(t *testing.T) {
	r := start(t, func(o *Options) {
		o.Repeated, o.Script = paymentsvctest.RejectRepeated, []string{"amount=9: DECLINED user_data was used before"}
	})
	r.pay("order-1")
	r.pay("order-2")
	_, err := pay(r.Client, "order-1", "10.50")
	require.Error(t, err)
	require.Contains(t, r.expect(`{"that":"none_rejected"}`), "1 request rejected", "no script declined it")
	require.Contains(t, r.expect(`{"that":"started","user_data":"order-1","count":1}`),
		"; further starts rejected as duplicates: 1, want 0")
	require.Contains(t, r.expect(`{"that":"started","at_most":9}`), "rejected as duplicates")
	for _, met := range []string{`"at_least":2`, `"user_data":"order-2","count":1`, `"kind":"payout","at_most":0`,
		`"project_id":3,"at_most":0`,
		`"after":1,"count":1`, `"order_id":"` + second + `","count":1`, `"user_data_prefix":"order-2","count":1`} {
		require.Empty(t, r.expect(`{"that":"started",`+met+`}`))
	}
	for _, unmet := range []string{`"order_id":"` + first + `","count":1`, `"status":"PENDING","count":2`} {
		require.Contains(t, r.expect(`{"that":"started",`+unmet+`}`), "rejected as duplicates")
	}
	_, err = r.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{OrderID: "gone"})
	require.Error(t, err)
	require.Equal(t, "not_met: 1 request rejected, want 0", r.expect(`{"that":"none_rejected","after":3}`))
	_, err = pay(r.Client, "order-2", "10.50")
	require.Error(t, err)
	require.Contains(t, r.expect(`{"that":"started","after":1,"count":1}`), "rejected as duplicates: 1")
	require.Len(t, r.ask(409, "POST", "/expect", `{"that":"started","at_most":1}`)["nearest"], 3)
	r.ask(200, "POST", "/reset", `{"what":"messages"}`)
	require.Contains(t, r.expect(`{"that":"none_rejected"}`), "evicted: ")
}

func TestExpectNeedsEachRejection(t *testing.T) {
	fake, err := paymentsvctest.New(paymentsvctest.Config{
		PartnerID: 1, Projects: []paymentsvctest.Project{{ID: 2, Secret: secret}}, Scheme: scheme(), MaxRecords: 1,
	})
	require.NoError(t, err)
	defer fake.Close()
	for range 2 {
		fake.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil))
	}
	e, x := &epoch{fake: fake}, &expectation{claim: claims["started"]}
	require.False(t, e.starts(x).met(0, 0), "a dropped rejection may be a duplicate")
}

func TestNoneRejectedNeedsACheckedRequest(t *testing.T) {
	r := start(t, nil)
	r.ask(201, "POST", "/faults", `{"which":"first","fault":"drop before"}`)
	_, err := pay(r.Client, "order-1", "1")
	require.Error(t, err)
	require.Contains(t, r.expect(`{"that":"none_rejected"}`), "nothing was tested")
	r.do("POST", "/init_payment", "{}")
	require.Contains(t, r.expect(`{"that":"none_rejected"}`), "1 request rejected")
}

func TestExpectWaitsAndEndsWithAReset(t *testing.T) {
	r := start(t, nil)
	said := make(chan string, 1)
	expect := func(body string) { // returns when the expectation waits or has ended
		go func() { said <- r.expect(body) }()
		j := r.mock.main.current().journal
		require.Eventually(t, func() bool {
			j.mu.Lock()
			defer j.mu.Unlock()
			return len(j.waiters) > 0 || len(said) > 0
		}, time.Minute, time.Millisecond)
	}
	expect(`{"that":"messages","count":99,"within":"1m"}`)
	r.ask(200, "POST", "/reset", "")
	require.Equal(t, "reset: the mock server was reset meanwhile", <-said)
	expect(`{"that":"started","at_most":0,"holds_for":"1m"}`)
	r.pay("order-1")
	require.Equal(t, "not_met: 1 order started, want 0", <-said)
	require.Empty(t, r.mock.main.current().journal.waiters)
}

func TestChecksOfWaitersTakeLittleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(newBudget(1), 0, nil)
		for _, want := range []time.Duration{200, 400, 401, 1401} { // all waiters together
			cost := map[time.Duration]time.Duration{200: 10, 400: 10, 401: 0, 1401: 5000}[want]
			require.Equal(t, want*time.Millisecond, j.pause(cost*time.Millisecond))
		}
		time.Sleep(time.Minute)
		require.Equal(t, time.Millisecond, j.pause(0))
	})
}

func TestExpectFailsWithEvictedMessages(t *testing.T) {
	r := start(t, func(o *Options) { o.JournalBytes = 12000 })
	r.ask(201, "POST", "/faults", `{"on":"get_balance","fault":"hang before"}`)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := r.GetBalance(ctx)
		left <- err
	}()
	r.ask(200, "GET", "/messages?endpoint=get_balance&wait=20s", "")
	defer func() {
		cancel()
		require.Error(t, <-left)
	}()
	_, err := pay(r.client(r.url, 2, "wrong"), "wrong", "1")
	require.Error(t, err)
	for range 10 {
		r.pay("order-1")
	}
	answer := r.ask(200, "GET", "/messages", "")
	require.Positive(t, answer["evicted"])
	require.Less(t, len(answer["messages"].([]any)), 10)
	last := answer["messages"].([]any)[1:] // the first is in flight
	indexed := r.ask(200, "GET", "/messages?user_data=order-1", "")["messages"]
	require.Equal(t, last, indexed)
	for _, claim := range []string{`"all_signed"`, `"none_rejected"`, `"forgeries_refused"`, `"messages","at_most":20`} {
		require.Contains(t, r.expect(`{"that":`+claim+`}`), "evicted: ", claim)
	}
	require.Contains(t, r.expect(`{"that":"messages","at_most":1}`), ", want 1 at most", "eviction lowers the count")
	require.Empty(t, r.expect(`{"that":"messages","at_least":1}`), "eviction lowers the count")
	require.Empty(t, r.expect(`{"that":"all_signed","after":11}`))
	require.Empty(t, r.expect(`{"that":"started","user_data":"order-1","count":10}`), "orders are never evicted")
	r.ask(410, "GET", "/messages/2", "")
	require.Equal(t, "in_flight", r.ask(200, "GET", "/messages/1", "")["message"].(map[string]any)["state"],
		"nor is what is in flight")
}

func TestMessagesHideCardDataAndDestinations(t *testing.T) {
	for _, shown := range []bool{false, true} {
		r := start(t, func(o *Options) { o.ShowBodies = shown })
		r.pay("order-1")
		_, err := r.InitPayout(t.Context(),
			paymentsvc.PayoutRequest{Amount: paymentsvc.MustParseAmount("1"), Destination: card, UserData: "payout-1"})
		require.NoError(t, err)
		for _, body := range []string{`{"extra":"` + card + `"}`, `{"amount":{"pan":"` + card + `"}}`, card,
			`{"user_data":"u"} holder-7 ` + card, `{"error_x":"` + card + `"}`, `{"user_data":"5 ` + card + `","order_id":"` +
				card + `","status":["` + card + `"]}`} {
			r.do("POST", "/init_payment/card", body, "Authorization", "Bearer tok-7", "Cookie", "tok-7", "X-Card", card)
		}
		r.do("POST", "/init_payment/"+card, card)
		r.do("POST", "/init_payment/card", `{"user_data":"`+card+`"}`)
		none := `{"that":"messages","user_data":"` + card + `","count":0}`
		require.NotContains(t, fmt.Sprint(r.ask(409, "POST", "/expect", none)), card)
		r.ask(201, "POST", "/orders", `{"amount":"1","user_data":"u-`+card+`"}`)
		_, paid := r.do("GET", "/pay/payment/00000000-0000-4000-8000-000000000003", "")
		require.Equal(t, shown, strings.Contains(paid, card), "user_data on the payment page")
		r.ask(200, "POST", "/orders/00000000-0000-4000-8000-000000000003/settle", `{"status":"PENDING"}`)
		_, all := r.do("GET", "/_mock/messages", "")
		require.Equal(t, shown, strings.Contains(all, card), "user_data and order_id")
		require.NotContains(t, all, "tok-7")
		if !shown {
			require.NotContains(t, fmt.Sprint(r.ask(409, "POST", "/expect", `{"that":"messages","count":99}`)), card)
		}
		bodies := ""
		for _, m := range r.ask(200, "GET", "/messages", "")["messages"].([]any) {
			require.Equal(t, !shown, m.(map[string]any)["masked"])
			body, err := base64.StdEncoding.DecodeString(m.(map[string]any)["body_base64"].(string))
			require.NoError(t, err)
			bodies += string(body)
		}
		require.Equal(t, shown, strings.Contains(bodies, card))
		require.Equal(t, shown, strings.Contains(bodies, "holder-7"), "after the object")
		require.Contains(t, bodies, `"amount":10.50,"user_data":"order-1"`)
		_, page := r.do("GET", "/ui/", "")
		require.Equal(t, shown, strings.Contains(page, card))
		r.ask(201, "POST", "/orders", `{"amount":"1","kind":"payout","order_id":"o-`+card+`"}`)
		r.ask(200, "PATCH", "/settings", `{"notify":"`+r.url+`","script":["user_data=`+card+`: SUCCESS"]}`)
		r.ask(202, "POST", "/orders/o-"+card+"/settle", `{"status":"SUCCESS","after":"1h"}`)
		r.ask(200, "POST", "/orders/o-"+card+"/settle", `{"status":"SUCCESS"}`)
		r.ask(201, "POST", "/faults", `{"on":"get_balance","fault":"reject 402 E17 `+card+`"}`)
		sent := fmt.Sprint(r.ask(200, "POST", "/notifications", `{"project_id":2,"body":"{\"order_id\":\"`+card+`\"}"}`))
		require.Equal(t, shown, strings.Contains(sent, card))
		for _, path := range []string{"faults", "settings"} {
			_, text := r.do("GET", "/_mock/"+path, "")
			require.Equal(t, shown, strings.Contains(text, card), path)
		}
		for _, path := range []string{"orders", "orders/o-" + card, "notifications", "clock"} {
			_, text := r.do("GET", "/_mock/"+path, "")
			require.Contains(t, text, `"o-`+card+`"`, "identifiers are exact in "+path)
		}
		if !shown {
			r.ask(403, "GET", "/messages/1/raw", "")
			continue
		}
		_, raw := r.do("GET", "/_mock/messages/1/raw", "")
		require.True(t, strings.HasPrefix(raw, "POST /init_payment/card HTTP/1.1\r\n"), raw)
		require.Contains(t, raw, `"card_data":{"number":"`+card+`"}`)
	}
}

func TestResetStartsAnEpoch(t *testing.T) {
	r, box := startWithInbox(t)
	r.pay("order-1")
	r.ask(202, "POST", "/orders/"+first+"/settle", `{"status":"SUCCESS","after":"1h"}`)
	r.ask(201, "POST", "/faults", `{"on":"init_payment","fault":"hang after"}`)
	r.ask(200, "PATCH", "/settings", `{"script":["amount=9: DECLINED"]}`)
	r.ask(201, "POST", "/sessions", `{"name":"t1"}`)
	failed := make(chan error)
	go func() {
		_, err := pay(r.Client, "order-2", "1")
		failed <- err
	}()
	require.Empty(t, r.expect(`{"that":"started","user_data":"order-2","within":"20s"}`))
	answer := r.ask(200, "POST", "/reset", "")
	require.Equal(t, []any{2.0, 1.0}, []any{answer["epoch"], answer["cut_off"]})
	err := <-failed
	require.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err))
	require.NotErrorIs(t, err, context.DeadlineExceeded, "it was cut off")

	_, settings := r.do("GET", "/_mock/settings", "")
	require.Contains(t, settings, "amount=9: DECLINED", "settings remain")
	require.Len(t, r.ask(200, "GET", "/sessions", "")["sessions"], 1)
	require.Empty(t, r.ask(200, "GET", "/orders", "")["orders"])
	require.Empty(t, r.ask(200, "GET", "/messages", "")["messages"])
	require.Empty(t, r.ask(200, "GET", "/faults", "")["faults"])
	require.Empty(t, r.ask(200, "POST", "/clock/advance", `{"by":"2h"}`)["due"])
	require.Empty(t, box.taken())
	require.Equal(t, "00000000-0000-4000-8000-000000000003", r.pay("order-3").OrderID, "the ids continue")
	require.EqualValues(t, 3, r.ask(200, "GET", "/messages", "")["messages"].([]any)[0].(map[string]any)["seq"])
	r.ask(200, "POST", "/reset", `{"what":"messages"}`)
	require.Empty(t, r.ask(200, "GET", "/messages", "")["messages"])
	require.Len(t, r.ask(200, "GET", "/orders", "")["orders"], 1)
}

func TestResetUnderLoadRepeatsNoOrderID(t *testing.T) {
	r := start(t, nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen, done := map[string]string{}, make(chan struct{})
	for i := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				userData := fmt.Sprint(i, "-", n)
				resp, err := pay(r.Client, userData, "1")
				if err != nil {
					continue // the reset cut it off
				}
				mu.Lock()
				other, twice := seen[resp.OrderID]
				seen[resp.OrderID] = userData
				mu.Unlock()
				if !assert.False(t, twice, "%s and %s have one order_id", other, userData) {
					return
				}
			}
		})
	}
	for range 100 {
		r.ask(200, "POST", "/reset", "")
	}
	close(done)
	wg.Wait()
}

func TestSettingsNameTheirOrigin(t *testing.T) {
	r := start(t, func(o *Options) {
		o.Chosen, o.Tolerance = map[string]string{"notify": "-notify", "script": "-script"}, time.Minute
	})
	r.ask(201, "POST", "/sessions", `{"name":"t1","notify":"http://a","script":["amount=1: SUCCESS"],"tolerance":"any"}`)
	_, text := r.do("GET", "/s/t1/_mock/settings", "")
	require.Contains(t, text, `"tolerance","value":"any"`)
	r.ask(201, "POST", "/sessions", `{"tolerance":"1s"}`)
	for _, wrong := range []string{"0s", "999ms", "-1m", "soon"} {
		r.ask(422, "POST", "/sessions", `{"tolerance":"`+wrong+`"}`)
	}
	origins := func(prefix string) map[string]any {
		list := map[string]any{}
		for _, s := range r.askAt(prefix, 200, "GET", "/settings", "")["settings"].([]any) {
			list[s.(map[string]any)["name"].(string)] = s.(map[string]any)["by"]
		}
		return list
	}
	session := origins("/s/t1")
	for name, by := range map[string]string{
		"notify": byControl, "script": byControl, "tolerance": byControl, "repeated": byMock,
	} {
		require.Equal(t, by, session[name], name)
	}
	require.Equal(t, "-notify", origins("")["notify"])
	r.ask(200, "PATCH", "/settings",
		`{"notify":"http://b","receivers":["project_id=3: http://c"],"script":["amount=2: SUCCESS"]}`)
	require.Equal(t, byControl, origins("")["notify"])
	r.ask(201, "POST", "/sessions", `{"name":"t2"}`)
	main, inherited := r.mock.main.all(), r.mock.sessions["t2"].all()
	require.Equal(t, main, inherited, "a new session has the changed settings of the main session")
}

func TestScriptErrorsContainTheColumn(t *testing.T) {
	const (
		names    = "script 1: column 1: a condition is one of user_data, amount, kind, type and project_id"
		outcomes = "want SUCCESS, FAILURE or PENDING, or DECLINED as the only outcome"
	)
	for text, want := range map[string]string{
		"":                                     names,
		": SUCCESS":                            "script 1: column 1: a condition such as user_data=... is missing",
		"amount=1 DECLINED":                    strings.Replace(names, "n 1:", "n 10:", 1) + ": is a colon missing?",
		"userdata=1: SUCCESS":                  names,
		"amount 1: SUCCESS":                    `script 1: column 7: "=" is missing`,
		"amount=1,5: SUCCESS":                  "script 1: column 8: not an amount",
		"user_data='a: SUCCESS":                "script 1: column 11: the quote does not end",
		"amount=1":                             `script 1: column 9: want ":" after the conditions`,
		"amount=1: DONE":                       "script 1: column 11: " + outcomes,
		"amount=1: SUCCESS after soon":         "script 1: column 25: want a duration such as 2s",
		"amount=1: SUCCESS then":               `script 1: column 19: want one "after" with a duration, a comma or the end`,
		"amount=1: SUCCESS after 1s, DECLINED": "script 1: column 29: " + outcomes,
		"user_data=[a: SUCCESS": `script 1: column 11: not a pattern: ` +
			`it is empty, or a "[" or "\" in it is incomplete`,
	} {
		_, err := parseScript([]string{text})
		require.EqualError(t, err, want, text)
	}
}

func TestScriptDecidesOutcomes(t *testing.T) {
	box := receive(t)
	r := start(t, func(o *Options) {
		o.Notify = box.URL
		o.Script = []string{
			"amount=13.13: DECLINED no money", `user_data="two *" type=card: PENDING after 2m, FAILURE after 1m`,
			"user_data=slow-* kind=payment: SUCCESS after 2s",
		}
	})
	r.ask(200, "PUT", "/clock", `{"frozen":true}`)
	_, err := pay(r.Client, "order-1", "13.130")
	require.Equal(t, paymentsvc.OutcomeRejected, paymentsvc.OutcomeOf(err))
	require.Equal(t, "no money", said(err))
	r.pay("slow-1")
	r.pay("two words")
	r.pay("fast")
	require.Empty(t, r.ask(200, "POST", "/clock/advance", `{"by":"1999ms"}`)["due"])
	require.Len(t, r.ask(200, "POST", "/clock/advance", `{"by":"1ms"}`)["due"], 1)
	require.Equal(t, []string{"payment.status_changed SUCCESS of 10.50"}, box.taken(), "signed with the real time")
	require.Len(t, r.ask(200, "POST", "/clock/advance", `{"by":"1h"}`)["due"], 2)
	require.Equal(t, []string{"payment.status_changed PENDING of 10.50", "payment.status_changed FAILURE of 10.50"},
		box.taken())
	require.Empty(t, r.ask(200, "GET", "/clock", "")["scheduled"])
	r.ask(200, "PUT", "/clock", `{"timestamps":true}`)
	r.ask(200, "POST", "/orders/"+first+"/settle", `{"status":"SUCCESS"}`)
	require.Equal(t, []string{"rejected"}, box.taken(), "an hour ahead, as asked")
	r.ask(200, "PATCH", "/settings", `{"script":["user_data=*: SUCCESS"]}`)
	r.ask(200, "PATCH", "/settings", `{"notify":"`+box.URL+`/kept"}`)
	r.ask(200, "PUT", "/clock", `{"frozen":false}`)
	r.pay("now")
	require.Empty(t, r.expect(`{"that":"messages","direction":"out","user_data":"now","within":"20s"}`))
}

func TestClockAppliesDueSettlementsInOrder(t *testing.T) {
	r, box := startWithInbox(t)
	r.ask(201, "POST", "/orders", `{"amount":"1","kind":"payout"}`)
	for i := range 100 {
		status := []string{"SUCCESS", "FAILURE"}[i%2]
		r.ask(202, "POST", "/orders/"+first+"/settle", fmt.Sprintf(`{"status":%q,"after":"%dm"}`, status, i+60))
	}
	require.Len(t, r.ask(200, "POST", "/clock/advance", `{"by":"3h"}`)["due"], 100)
	r.ask(200, "POST", "/clock/advance", `{"by":"2562000h"}`)
	r.ask(422, "POST", "/clock/advance", `{"by":"2562000h"}`)
	require.Len(t, box.got, 100)
	for i, got := range box.taken() {
		status := []string{"SUCCESS", "FAILURE"}[i%2]
		require.Equal(t, "payout.status_changed "+status+" of 1", got)
	}
	e := r.mock.main.current()
	c := clock{epoch: e, frozen: &time.Time{}}
	for _, status := range []paymentsvc.StatusName{"SUCCESS", "FAILURE"} {
		c.schedule(0, event{Status: status})
	}
	require.Equal(t, paymentsvc.StatusSuccess, c.events[0].Status, "equal times keep their order")
}

func TestParallelAdvancesAddUp(t *testing.T) {
	e := start(t, nil).mock.main.current()
	begin, frozen := time.Now().Add(time.Hour), true
	_, _, err := putClock(&call{epoch: e}, clockIn{Now: &begin, Frozen: &frozen})
	require.NoError(t, err)
	const goroutines, advances = 8, 100
	for i := range goroutines * advances {
		e.clock.schedule(time.Duration(i+1)*time.Second, event{OrderID: "none"}) // the books reject it
	}
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range advances {
				if _, answer, err := postAdvance(&call{epoch: e}, advanceIn{By: "1s"}); assert.NoError(t, err) {
					assert.Len(t, answer.(clockAnswer).Due, 1, "the second of this call")
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, goroutines*advances*time.Second, e.clock.now().Sub(begin))
}

func TestSessionLimitsItsProjects(t *testing.T) {
	r := start(t, nil)
	for count, status := range map[int]int{maxProjects: 201, maxProjects + 1: 422} {
		projects := ""
		for i := range count {
			projects += fmt.Sprintf(`,{"id":%d,"secret":"a"}`, i+1)
		}
		r.ask(status, "POST", "/sessions", `{"projects":[`+projects[1:]+`]}`)
	}
}

func TestSessionsAreSeparate(t *testing.T) {
	box := receive(t)
	r := start(t, func(o *Options) { o.MaxSessions = 2 })
	session := r.ask(201, "POST", "/sessions", `{"name":"t1","notify":"`+box.URL+`","script":["amount=1: DECLINED"],
		"repeated":"reject","tolerance":"1m",
		"projects":[{"id":7,"secret":"own","balance":"5.00","currency":"EUR"}],"scheme":"hex(timestamp '.' body)"}`)
	require.Equal(t, r.url+"/s/t1", session["base_url"])
	client := r.client(r.url+"/s/t1", 7, "own")
	payment, err := pay(client, "order-1", "10.50")
	require.NoError(t, err)
	require.Equal(t, r.url+"/s/t1/pay/payment/"+payment.OrderID, payment.RedirectURL)
	require.Regexp(t, `^\d{8}-\d{4}-4000-8000-000000000001$`, payment.OrderID)
	require.NotEqual(t, first, payment.OrderID, "one program may be in several sessions")
	_, err = pay(client, "order-2", "1")
	require.Equal(t, paymentsvc.OutcomeRejected, paymentsvc.OutcomeOf(err))
	balance, err := client.GetBalance(t.Context())
	require.NoError(t, err)
	require.Equal(t, "5.00 EUR", balance.PayoutBalance.String()+" "+balance.Currency)
	require.Empty(t, r.ask(200, "GET", "/orders", "")["orders"])
	require.Len(t, r.askAt("/s/t1", 200, "GET", "/orders", "")["orders"], 1)
	require.Len(t, r.ask(200, "GET", "/sessions", "")["sessions"], 1)
	_, page := r.do("GET", "/s/t1/ui/", "")
	require.Contains(t, page, `action="/s/t1/ui/orders/`+payment.OrderID+`/settle`)
	r.ask(409, "POST", "/sessions", `{"name":"t1"}`)
	require.Equal(t, "s1", r.ask(201, "POST", "/sessions", "")["name"])
	r.ask(204, "DELETE", "/sessions/s1", "")
	r.ask(201, "POST", "/sessions", `{"name":"s2"}`)
	r.ask(503, "POST", "/sessions", `{"name":"t3"}`)
	require.Len(t, r.mock.budget.journals, 3, "a rejected session keeps no journal")
	require.Equal(t, []string{"s3", "s4"}, []string{r.mock.freeName(), r.mock.freeName()}, "each generated name is new")
	r.askAt("/s/t1", 404, "POST", "/stop", "")
	s := r.mock.sessions["t1"]
	r.ask(204, "DELETE", "/sessions/t1", "")
	_, _, err = s.reset() // as in a request that found the session before
	require.ErrorContains(t, err, "the session was deleted")
	require.Len(t, r.mock.budget.journals, 2)
	r.ask(404, "DELETE", "/sessions/t1", "")
	resp, _ := r.do("GET", "/s/t1/ui/", "")
	require.Equal(t, 404, resp.StatusCode)
}

func TestStopAcceptsLoopbackOnly(t *testing.T) {
	stopped := make(chan struct{})
	r := start(t, func(o *Options) { o.Stop = func() { close(stopped) } })
	r.ask(202, "POST", "/stop", "")
	<-stopped
	r.mock.Stopping()
	r.ask(503, "GET", "/health", "")
	w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "http://127.0.0.1/_mock/stop", nil)
	r.mock.ServeHTTP(w, req) // httptest sends from 192.0.2.1
	require.Equal(t, 403, w.Code)
	require.Contains(t, w.Body.String(), "SIGTERM")
}

// TestEveryRouteIsDocumented compares the table of routes with openapi.json and docs/mock.md. The tests in
// tools/contract check the responses.
func TestEveryRouteIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/mock.md")
	require.NoError(t, err)
	_, served := start(t, nil).do("GET", "/_mock/service.yaml", "")
	require.Equal(t, string(testdata.OpenAPI), served)
	var document struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(openAPI, &document))
	described := []string{}
	for path, operations := range document.Paths {
		for method := range operations {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	routed := []string{}
	for _, route := range routes() {
		routed = append(routed, route.method+" "+route.pattern)
		path := regexp.MustCompile(`{\w+}`).ReplaceAllString(route.pattern, "[^/ ]+")
		asCurl := map[string]string{
			"GET":  "|`/_mock" + path + "`|curl -sS (--cacert [^ ]+ |)'?http[^ ]*/_mock" + path + "[\\n?]",
			"POST": "|--json '.*' http[^ ]*/_mock" + path + "\\n",
		}[route.method]
		assert.Regexp(t, "`"+route.method+" (/_mock|)"+path+"`"+asCurl, string(page))
	}
	require.ElementsMatch(t, routed, described)
}

// startRequest returns a signed start of a payment.
func startRequest(tb testing.TB, address, userData string) *http.Request {
	body := `{"partner_id":1,"project_id":2,"amount":10.50,"user_data":"` + userData + `"}`
	r, err := http.NewRequest(http.MethodPost, address+"/init_payment/card", strings.NewReader(body))
	require.NoError(tb, err)
	r.Header.Set("Content-Type", "application/json")
	signer, err := paymentsvc.NewHMACSigner(paymentsvc.HMACConfig{Scheme: scheme(), Secret: secret})
	require.NoError(tb, err)
	require.NoError(tb, signer.Sign(r, []byte(body)))
	return r
}

// TestRequestMakesFewAllocations detects a slower request on a noisy machine, where BenchmarkLoad varies.
func TestRequestMakesFewAllocations(t *testing.T) {
	r := start(t, nil)
	const runs = 100
	var requests []*http.Request
	for i := range runs + 1 { // AllocsPerRun adds a warm-up run
		requests = append(requests, startRequest(t, "http://127.0.0.1", fmt.Sprint("order-", i)))
	}
	n := 0
	allocations := testing.AllocsPerRun(runs, func() {
		r.mock.ServeHTTP(httptest.NewRecorder(), requests[n])
		n++
	})
	require.Less(t, allocations, 140.0, "102, and up to 119 with the race detector")
	require.Len(t, r.ask(200, "GET", "/orders?limit=1000", "")["orders"], runs+1, "each was started")
}
