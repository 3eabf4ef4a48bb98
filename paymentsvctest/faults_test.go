package paymentsvctest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// exchange sends a payment over a new connection, and returns the received bytes and the error at the end.
func exchange(t *testing.T, srv *paymentsvctest.Server) (string, error) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(srv.URL, "http://"), "/base/v1"))
	require.NoError(t, err)
	defer conn.Close()
	req := signed(t, srv.URL+"/init_payment/card", paymentBody)
	req.Header.Set("Connection", "close")
	require.NoError(t, req.Write(conn))
	got, err := io.ReadAll(conn)
	return string(got), err
}

func TestFaultsChangeTheBytesOfTheResponse(t *testing.T) {
	const order = `{"order_id":"00000000-0000-4000-8000-000000000001","status":1,"status_code":10,` +
		`"redirect_url":"https://pay.example/payment/00000000-0000-4000-8000-000000000001"}`
	durations := strings.NewReplacer("1500ms", "1.5s", "-24h", "-24h0m0s", "10us", "10µs") // as String writes them
	for _, test := range []struct {
		fault string
		head  string // the beginning of the response
		tail  string // the end of the response
		err   error
	}{
		{"reset", "", "", syscall.ECONNRESET},
		{"refuse", "", "", syscall.ECONNRESET}, // this client cannot be refused
		{"drop before", "", "", nil},
		{"drop after", "", "", nil},
		{"late-commit 2", "", "", nil},
		{"cut 10", "HTTP/1.1 200 OK\r\n", "\r\n\r\n" + order[:10], nil},
		{"cut-chunked 10", "HTTP/1.1 200 OK\r\n", "\r\na\r\n" + order[:10] + "\r\n", nil},
		{"cut-unframed 10", "HTTP/1.1 200 OK\r\n", "\r\nConnection: close\r\n\r\n" + order[:10], nil},
		{"cut-header 20", "HTTP/1.1 200 OK\r\n", "Con", nil},
		{"cut-header 9999", "HTTP/1.1 200 OK\r\n", "\r\n\r", nil}, // the header never ends
		{"bad-gateway before", "HTTP/1.1 502 Bad Gateway\r\n", "</html>\n", nil},
		{"wrong-shape", "HTTP/1.1 200 OK\r\n", `{"order_id":17,"redirect_url":17,"status":"wrong","status_code":"wrong"}`,
			nil},
		{"wrong-shape + bad-gateway after", "HTTP/1.1 502", "</html>\n", nil}, // not JSON, so it keeps its shape
		{"oversized 300", "HTTP/1.1 200 OK\r\n", order + strings.Repeat(" ", 300-len(order)), nil},
		{"redirect before https://elsewhere.example/x", "HTTP/1.1 307 Temporary Redirect\r\n",
			"\r\nLocation: https://elsewhere.example/x\r\nConnection: close\r\n\r\n", nil},
		{"too-many-requests before 1500ms", "HTTP/1.1 429 Too Many Requests\r\n",
			"\r\nRetry-After: 2\r\nConnection: close\r\n\r\n" +
				`{"error_code":"too_many_requests","error_message":"too many requests"}`, nil},
		{"too-many-requests after 1500ms", "HTTP/1.1 429 Too Many Requests\r\n",
			"\r\nRetry-After: 2\r\nConnection: close\r\n\r\ntoo many requests\n", nil},
		{"wrong-date -24h", "HTTP/1.1 200 OK\r\n", order, nil},
		{"slow 10us", "HTTP/1.1 200 OK\r\n", order, nil},
		{"reject 402 E17 no <money>", "HTTP/1.1 402 Payment Required\r\n",
			`{"error_code":"E17","error_message":"no <money>"}`, nil},
		{"answer after 503 text/plain;charset=utf-8 come  later", "HTTP/1.1 503 Service Unavailable\r\n",
			"\r\n\r\ncome  later", nil},
		{"answer before 200 application/json", "HTTP/1.1 200 OK\r\n", "\r\n\r\n", nil},
	} {
		t.Run(test.fault, func(t *testing.T) {
			srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) { c.Now = now }))
			rule := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(),
				parsed(t, test.fault, paymentsvctest.ParseFault)...)
			assert.Equal(t, durations.Replace(test.fault), strings.Join(rule.Faults, " + "), "String and ParseFault agree")
			got, err := exchange(t, srv)
			require.ErrorIs(t, err, test.err)
			assert.True(t, strings.HasPrefix(got, test.head), got)
			assert.True(t, strings.HasSuffix(got, test.tail), got)
			assert.Equal(t, test.fault != "wrong-shape + bad-gateway after", rule.Hits() == 1)
			if test.head == "" {
				assert.Empty(t, got)
			}
			date := "\r\nDate: Fri, 28 Nov 2025 06:06:40 GMT\r\n"
			if test.fault == "wrong-date -24h" {
				date = "\r\nDate: Thu, 27 Nov 2025 06:06:40 GMT\r\n"
			}
			if strings.Contains(got, "\r\n\r\n") {
				assert.Contains(t, got, date)
			}
		})
	}
}

func TestGzipBombIsSmallAndComplete(t *testing.T) {
	for _, size := range []int{0, 200, 64 << 10, 1<<20 + 17, 8 << 20} {
		srv := paymentsvctest.Start(t, config())
		srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(), paymentsvctest.GzipBomb(size))
		got, err := exchange(t, srv)
		require.NoError(t, err)
		head, body, _ := strings.Cut(got, "\r\n\r\n")
		if size == 0 {
			assert.NotContains(t, head, "gzip")
			continue
		}
		assert.Contains(t, head, "Content-Encoding: gzip")
		assert.Less(t, len(body), size/500+400)
		r, err := gzip.NewReader(strings.NewReader(body))
		require.NoError(t, err)
		r.Multistream(false) // one member, since not every client reads on
		plain, err := io.ReadAll(r)
		require.NoError(t, err, "length and checksum are right")
		assert.Len(t, plain, size)
		assert.True(t, bytes.HasPrefix(plain, []byte(`{"order_id"`)))
		assert.Len(t, bytes.Fields(plain), 1, "nothing but spaces behind it")
	}
}

// found makes a status call for an order, and reports whether the fake finds it.
func found(t *testing.T, client *paymentsvc.Client, o paymentsvctest.Order) bool {
	t.Helper()
	var err error
	if o.Kind == paymentsvctest.KindPayout {
		_, err = client.StatusPayout(t.Context(), paymentsvc.StatusPayoutRequest{OrderID: o.OrderID})
	} else {
		_, err = client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{UserData: o.UserData})
	}
	if err == nil {
		return true
	}
	var reported *paymentsvc.ServiceError
	require.ErrorAs(t, err, &reported)
	require.Equal(t, string(paymentsvctest.ProblemNotFound), reported.Code)
	return false
}

func TestLateCommitEndsWhenTheServiceShowsTheOrder(t *testing.T) {
	for name, show := range map[string]func(*testing.T, *paymentsvctest.Server, *paymentsvc.Client){
		"by a notification": func(t *testing.T, srv *paymentsvctest.Server, _ *paymentsvc.Client) {
			settled(t, srv, srv.Orders()[0].OrderID, paymentsvc.StatusSuccess)
		},
		"by the response to a duplicate": func(t *testing.T, _ *paymentsvctest.Server, client *paymentsvc.Client) {
			pay(t, client, "late")
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv, client := startFake(t, func(c *paymentsvctest.Config) { c.Repeated = paymentsvctest.SameOrder })
			srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(1), paymentsvctest.LateCommit(1000))
			_, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, payment("late"))
			require.Error(t, err)
			require.False(t, found(t, client, srv.Orders()[0]))
			show(t, srv, client)
			assert.True(t, found(t, client, srv.Orders()[0]))
			srv.AssertOrders(t, 1)
		})
	}
}

func TestParseFaultReadsEachFaultAndRejectsOthers(t *testing.T) {
	answer := paymentsvctest.Answer(paymentsvctest.AfterCommit, 200, "text/plain; charset=utf-8", "a b")
	for _, fault := range append(paymentsvctest.AllFaults(), answer) {
		parsed, err := paymentsvctest.ParseFault(fault.String())
		require.NoError(t, err)
		assert.Equal(t, fault.String(), parsed.String())
	}
	for _, fault := range append(paymentsvctest.AllNotificationFaults(), paymentsvctest.SignedWithOldSecret()) {
		parsed, err := paymentsvctest.ParseNotificationFault(fault.String())
		require.NoError(t, err)
		assert.Equal(t, fault.String(), parsed.String())
	}
	for _, text := range []string{
		"", " ", "explode", "drop", "drop sideways", "drop before after", "cut", "cut x", "cut -1", "cut 1e3", "reset 1",
		"slow", "slow fast", "redirect before", "redirect before /x", "redirect before ://", "answer before 100 text/plain x",
		"answer before 600 text/plain x", "answer before 200", "reject 402", "hold before", "gzip-bomb 9999999999",
		"wrong-date", "too-many-requests before", "late-commit", "late-commit 1s",
	} {
		_, err := paymentsvctest.ParseFault(text)
		require.Error(t, err, text)
	}
	for _, text := range []string{
		"", "explode", "lost 1", "repeated x", "delayed", "delayed x", "skewed 1h", "late -1h", "late 0s", "late 500ms",
		"early 1500ms", "early x", "cut x",
		"altered 1",
	} {
		_, err := paymentsvctest.ParseNotificationFault(text)
		require.Error(t, err, text)
	}
	for text, want := range map[string]string{"late": "late 1h0m0s", "early": "early 1h0m0s", "repeated": "repeated 1",
		"cut": "cut"} {
		fault, err := paymentsvctest.ParseNotificationFault(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, fault.String())
	}
	assert.Panics(t, func() { paymentsvctest.Answer(paymentsvctest.BeforeCommit, 100, "text/plain", "") })
	assert.Panics(t, func() { paymentsvctest.Reject(600, "", "") })
}

func TestEachRuleCountsItsOwnRequests(t *testing.T) {
	srv := paymentsvctest.Start(t, config())
	client := newClient(t, srv, func(c *paymentsvc.Config) { c.Retry.MaxAttempts = 1 })
	try := func(kind paymentsvc.PaymentType) bool {
		_, err := client.InitPayment(t.Context(), kind, payment(paymentsvc.NewUserData()))
		return err == nil
	}
	drop := paymentsvctest.Drop(paymentsvctest.BeforeCommit)
	tries := func(n int, kind paymentsvc.PaymentType) (taken []bool) {
		for range n {
			taken = append(taken, try(kind))
		}
		return taken
	}
	assert.Equal(t, []bool{true}, tries(1, paymentsvc.PaymentTypeCard), "requests before the rule do not count")

	second := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(2), drop)
	assert.Equal(t, []bool{true, false, true}, tries(3, paymentsvc.PaymentTypeCard))
	assert.Equal(t, 1, second.Hits())
	second.Remove()

	first := srv.Fault("init_payment/sbp", paymentsvctest.First(2), drop)
	assert.Equal(t, []bool{true}, tries(1, paymentsvc.PaymentTypeCard), "a rule for one type")
	assert.Equal(t, []bool{false, false, true}, tries(3, paymentsvc.PaymentTypeSBP))
	assert.Equal(t, 2, first.Hits())

	odd := paymentsvctest.Where("odd", func(n int) bool { return n%2 == 1 })
	all := srv.Fault(paymentsvctest.AnyEndpoint, odd, drop)
	assert.Equal(t, []bool{false, true, false}, tries(3, paymentsvc.PaymentTypeMC))
	_, err := client.GetBalance(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "all, odd: drop before", all.String())

	var which paymentsvctest.Which // the zero value
	notifications := srv.FaultNotifications("", which, paymentsvctest.Lost(), paymentsvctest.NotificationFault{})
	assert.Equal(t, "every", notifications.Which)
	srv.ClearFaults()
	srv.Fault(paymentsvctest.InitPayment, which, paymentsvctest.Fault{})
	assert.Equal(t, []bool{true, true}, tries(2, paymentsvc.PaymentTypeMC), "the zero Fault is none")
	assert.Equal(t, 13, srv.Requests(paymentsvctest.InitPayment))
	assert.Equal(t, 14, srv.Requests(paymentsvctest.AnyEndpoint))
	assert.Zero(t, srv.Requests(paymentsvctest.InitPayout))
}

// The error of a refused connection proves that the request was not sent. A reset connection has its own error.
func TestRefuseIsConnectionRefused(t *testing.T) {
	for _, start := range []func(testing.TB, paymentsvctest.Config) *paymentsvctest.Server{
		paymentsvctest.Start, paymentsvctest.StartInMemory,
	} {
		srv := start(t, config())
		client := newClient(t, srv)
		pay(t, client, "order-0") // a connection is open, and must not be used
		rule := srv.Fault(paymentsvctest.InitPayout, paymentsvctest.First(4), paymentsvctest.Refuse())
		_, err := client.InitPayout(t.Context(), payout("payout-1"))
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		refused := "dial tcp " + strings.TrimSuffix(strings.TrimPrefix(srv.URL, "http://"), "/base/v1") + ": connect: "
		require.ErrorContains(t, err, ": "+refused, "the error of a real client")
		require.Equal(t, paymentsvc.OutcomeNotSent, paymentsvc.OutcomeOf(err))
		pay(t, client, "order-1") // other endpoints can be reached
		payOut(t, client, "payout-1")
		assert.Equal(t, 4, rule.Hits(), "three attempts of the first call, one of the second")
		assert.Equal(t, 1, srv.Requests(paymentsvctest.InitPayout))

		srv.Fault(paymentsvctest.InitPayout, paymentsvctest.Every(), paymentsvctest.Reset())
		_, err = client.InitPayout(t.Context(), payout("payout-2"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		srv.Close()
		_, err = client.InitPayout(t.Context(), payout("payout-3"))
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.ErrorContains(t, err, ": "+refused)
		require.Equal(t, paymentsvc.OutcomeNotSent, paymentsvc.OutcomeOf(err))
	}
}

// paying starts a payment in another goroutine.
func paying(ctx context.Context, client *paymentsvc.Client) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := client.InitPayment(ctx, paymentsvc.PaymentTypeCard, payment("order-1"))
		done <- err
	}()
	return done
}

func TestHangEndsWithTheClientOrTheServer(t *testing.T) {
	for _, fault := range []paymentsvctest.Fault{
		paymentsvctest.Hang(paymentsvctest.BeforeCommit), paymentsvctest.Hang(paymentsvctest.AfterCommit),
		paymentsvctest.Hold(paymentsvctest.BeforeCommit, nil), paymentsvctest.Hold(paymentsvctest.AfterCommit, nil),
		paymentsvctest.Slow(time.Hour),
	} {
		t.Run(fault.String(), func(t *testing.T) {
			srv, client := startFake(t, everyStartCounts)
			rule := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(), fault)
			ctx, leave := context.WithCancel(t.Context())
			done := paying(ctx, client)
			waitFor(func() bool { return rule.Hits() == 1 })
			leave()
			require.ErrorIs(t, <-done, context.Canceled)
			require.NoError(t, srv.Drain(t.Context()), "the request is over") // goleak detects goroutines
			before := strings.HasSuffix(fault.String(), "before")
			srv.AssertStarted(t, "order-1", map[bool]int{false: 1}[before])

			done = paying(t.Context(), client)
			waitFor(func() bool { return rule.Hits() == 2 })
			srv.Close()
			require.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(<-done))
		})
	}
}

// A fake behind another server's router cannot take over an HTTP/2 connection, so it ends streams instead. The client
// still signs the whole path.
func TestFaultsEndStreamsOverHTTP2(t *testing.T) {
	srv, err := paymentsvctest.New(config(everyStartCounts, func(c *paymentsvctest.Config) {
		c.BasePath, c.Scheme.Canonical = "", canonical.Join("\n", canonical.URL, canonical.Timestamp, canonical.Body)
	}))
	require.NoError(t, err)
	defer srv.Close()
	outer := httptest.NewUnstartedServer(http.StripPrefix("/mock", srv))
	outer.EnableHTTP2 = true
	outer.StartTLS()
	defer outer.Close()
	cfg := srv.ClientConfig(project)
	cfg.BaseURL, cfg.HTTPClient = outer.URL+"/mock", outer.Client()
	cfg.Retry.MaxAttempts = 1
	client, err := paymentsvc.NewClient(cfg)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	for _, test := range []struct {
		fault  string
		orders int
	}{
		{"reset", 0},
		{"drop before", 0},
		{"drop after", 1},
		{"cut 10", 1},
		{"cut-chunked 10", 1},
		{"cut-unframed 10", 1},
		{"cut-header 10", 1},
		{"bad-gateway after", 1},
		{"gzip-bomb 2097152", 1},
	} {
		fault, err := paymentsvctest.ParseFault(test.fault)
		require.NoError(t, err)
		rule := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(), fault)
		_, err = client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, payment(test.fault))
		rule.Remove()
		assert.Equal(t, paymentsvc.OutcomeUnknown, paymentsvc.OutcomeOf(err), test.fault)
		require.Error(t, err, test.fault)
		assert.Equal(t, 1, rule.Hits(), test.fault)
		srv.AssertStarted(t, test.fault, test.orders)
	}
	pay(t, client, "order-1")
	srv.AssertAllSigned(t)
}

// mount mounts a fake in another server, and returns the fake with a client.
func mount(t *testing.T) (*paymentsvctest.Server, *paymentsvc.Client) {
	t.Helper()
	srv, err := paymentsvctest.New(config())
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	outer := httptest.NewServer(srv)
	t.Cleanup(outer.Close)
	return srv, newClient(t, srv, func(cfg *paymentsvc.Config) { cfg.BaseURL = outer.URL + "/base/v1" })
}

// A mounted fake cannot refuse a connection, but it ends the connection before the body.
func TestRefuseOfAMountedFakeEndsTheConnection(t *testing.T) {
	srv, client := mount(t)
	srv.Fault("init_payment/card", paymentsvctest.Every(), paymentsvctest.Refuse())
	_, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, payment("order-3"))
	require.Equal(t, paymentsvc.OutcomeNotSent, paymentsvc.OutcomeOf(err))
	_, err = client.GetBalance(t.Context())
	require.NoError(t, err)
}

// schedule returns the outcomes of 60 requests with Chaos, and the log.
func schedule(t *testing.T, seed uint64) (string, []string) {
	var log []string
	srv := paymentsvctest.Start(t, config(func(c *paymentsvctest.Config) {
		c.Logf = func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
	}))
	client := newClient(t, srv, func(c *paymentsvc.Config) { c.Retry.MaxAttempts = 1 })
	used := srv.Chaos(paymentsvctest.Chaos{Seed: seed, OneIn: 3, Faults: []paymentsvctest.Fault{
		paymentsvctest.Refuse(), paymentsvctest.Drop(paymentsvctest.AfterCommit), paymentsvctest.Reject(402, "E17", "no"),
		paymentsvctest.BadGateway(paymentsvctest.BeforeCommit),
	}})
	assert.Equal(t, []string{fmt.Sprintf("paymentsvctest: Chaos: Seed %d, OneIn 3", used)}, log)
	var outcomes strings.Builder
	for i := range 60 {
		var err error
		if i%3 == 0 {
			_, err = client.GetBalance(t.Context())
		} else {
			_, err = client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, payment(paymentsvc.NewUserData()))
		}
		if err == nil {
			outcomes.WriteString(".")
			continue
		}
		outcomes.WriteString(outcomeOf(t, err).String()[:1])
	}
	return outcomes.String(), log
}

func TestChaosRepeatsItsSeed(t *testing.T) {
	first, _ := schedule(t, 7)
	again, _ := schedule(t, 7)
	other, _ := schedule(t, 8)
	assert.Equal(t, first, again)
	assert.NotEqual(t, first, other)
	for _, outcome := range []string{".", "n", "u", "r"} {
		assert.Contains(t, first, outcome)
	}
	random, log := schedule(t, 0)
	assert.NotContains(t, log[0], "Seed 0,")
	assert.NotEqual(t, first, random)

	srv, client := startFake(t)
	srv.Chaos(paymentsvctest.Chaos{OneIn: 1, Faults: []paymentsvctest.Fault{},
		NotificationFaults: []paymentsvctest.NotificationFault{}})
	pay(t, client, "order-1") // an empty list is no chaos
	refuse := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(), paymentsvctest.Refuse())
	_, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, payment("order-2"))
	require.Equal(t, paymentsvc.OutcomeNotSent, paymentsvc.OutcomeOf(err), "rules apply in addition to Chaos")
	refuse.Remove()
	srv.Chaos(paymentsvctest.Chaos{OneIn: 1, Faults: []paymentsvctest.Fault{paymentsvctest.Refuse()}})
	_, err = client.GetBalance(t.Context())
	require.Equal(t, paymentsvc.OutcomeNotSent, outcomeOf(t, err))
	srv.ClearFaults()
	_, err = client.GetBalance(t.Context())
	require.NoError(t, err)
}

func TestDrainWaitsForRequestsWhoseClientHasLeft(t *testing.T) {
	srv, client := startFake(t)
	release := make(chan struct{})
	rule := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(),
		paymentsvctest.Hold(paymentsvctest.BeforeCommit, release))
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(srv.URL, "http://"), "/base/v1"))
	require.NoError(t, err)
	defer conn.Close()

	done := paying(t.Context(), client)
	waitFor(func() bool { return rule.Hits() == 1 })
	drainsWhen(t, srv, release)
	require.NoError(t, <-done)

	drained := make(chan error)
	go func() { drained <- srv.Drain(t.Context()) }()
	select {
	case err := <-drained:
		t.Fatal("Drain returned before the request of an open connection", err)
	case <-time.After(20 * time.Millisecond): // a short wait can miss a failure, but never causes one
	}
	require.NoError(t, conn.Close())
	require.NoError(t, <-drained)
	srv.AssertStarted(t, "order-1", 1)
	srv.Close()
	require.NoError(t, srv.Drain(t.Context()), "a closed server has nothing to do")
}

func TestDrainOfAMountedFakeWaitsForItsRequests(t *testing.T) {
	srv, client := mount(t)
	release := make(chan struct{})
	rule := srv.Fault(paymentsvctest.InitPayment, paymentsvctest.Every(),
		paymentsvctest.Hold(paymentsvctest.BeforeCommit, release))
	done := paying(t.Context(), client)
	waitFor(func() bool { return rule.Hits() == 1 })
	drainsWhen(t, srv, release)
	require.NoError(t, srv.Drain(t.Context()))
	srv.AssertStarted(t, "order-1", 1)
	require.NoError(t, <-done)
}

// drainsWhen checks that Drain waits until release is closed.
func drainsWhen(t *testing.T, srv *paymentsvctest.Server, release chan struct{}) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, srv.Drain(ctx), context.Canceled, "a request is held")
	close(release)
}

func TestCloseIsPermanent(t *testing.T) {
	srv, client := startFake(t)
	pay(t, client, "order-1")
	require.Error(t, srv.Listen("127.0.0.1:0"), "it listens already")
	srv.Close()
	srv.Close()
	_, err := client.GetBalance(t.Context())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Error(t, srv.Listen("127.0.0.1:0"))
	assert.Panics(t, func() {
		srv.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/base/v1/get_balance", nil))
	},
		"a handler of a closed server gives no answer")
	assert.Len(t, srv.Orders(), 1, "Orders still works")

	other, err := paymentsvctest.New(config())
	require.NoError(t, err)
	require.Error(t, other.Listen("256.0.0.1:0"))
	require.NoError(t, other.Drain(t.Context()), "a server that does not listen")
	other.Close()
}

func TestServeHTTPAcceptsRequestsWithoutAServer(t *testing.T) {
	srv, err := paymentsvctest.New(config(func(c *paymentsvctest.Config) { c.BasePath += "/" })) // means the same
	require.NoError(t, err)
	defer srv.Close()
	w := httptest.NewRecorder()
	srv.ServeHTTP(w, signed(t, "https://pay.example/base/v1/get_balance", balanceBody))
	assert.Equal(t, http.StatusOK, w.Code, w.Body)
}

func TestHitsCountOnlyFaultsWithAnEffect(t *testing.T) {
	const valid, duplicate = "order-1", "order-0"
	for _, test := range []struct {
		name, userData string
		key            paymentsvc.Secret // signs the request
		faults         string            // a slash separates rules
		hits           string
	}{
		{"a cut behind the end", valid, secret, "cut 100000", "0"},
		{"a cut behind the end, unframed", valid, secret, "cut-unframed 100000", "0"},
		{"a size that the answer has", valid, secret, "oversized 1", "0"},
		{"a bomb of no size", valid, secret, "gzip-bomb 0", "0"},
		{"no skew", valid, secret, "wrong-date 0s", "0"},
		{"no pause", valid, secret, "slow 0s", "0"},
		{"the shape of an answer that has none", valid, secret, "wrong-shape + bad-gateway after", "0"},
		{"two that take effect", valid, secret, "slow 1us + cut 20", "1"},
		{"a cut of what never leaves", valid, secret, "drop before + cut 1", "0"},
		{"an answer that never leaves", valid, secret, "answer before 200 text/plain x + drop after", "0"},
		{"an answer that another rule replaces", valid, secret, "bad-gateway after / answer after 200 text/plain x", "0 1"},
		{"the same of two rules", valid, secret, "drop after / drop after", "1 1"},
		{"another rule ends the request before", valid, secret, "drop before / hang after", "1 0"},
		{"after a commitment that a signature prevents", valid, oldSecret, "drop after / bad-gateway after / drop before",
			"0 0 1"},
		{"an answer after a commitment that a signature prevents", valid, oldSecret, "bad-gateway after", "0"},
		{"a lost answer that a signature prevents", valid, oldSecret, "drop after", "0"},
		{"after the rejection of a duplicate", duplicate, secret, "drop after", "0"},
		{"a hang after the rejection of a duplicate", duplicate, secret, "hang after", "0"},
		{"an answer after the rejection of a duplicate", duplicate, secret, "bad-gateway after", "0"},
		{"the late commitment of a duplicate", duplicate, secret, "late-commit 2", "0"},
		{"before the rejection of a duplicate", duplicate, secret, "drop before", "1"},
		{"after a rejection by a fault", valid, secret, "reject 402 E17 no / drop after / late-commit 2", "1 0 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := paymentsvctest.StartInMemory(t, config())
			pay(t, newClient(t, srv), duplicate)
			var rules []*paymentsvctest.Rule
			for list := range strings.SplitSeq(test.faults, " / ") {
				rules = append(rules,
					srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(), parsed(t, list, paymentsvctest.ParseFault)...))
			}
			client := newClient(t, srv, func(cfg *paymentsvc.Config) { cfg.Signer = signer(t, test.key) })
			_, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, payment(test.userData))
			if test.userData == duplicate && test.hits == "0" {
				assert.ErrorContains(t, err, "HTTP 409", "the client receives the rejection")
			}
			var hits []string
			for _, rule := range rules {
				hits = append(hits, fmt.Sprint(rule.Hits()))
			}
			assert.Equal(t, test.hits, strings.Join(hits, " "))
		})
	}
}

func TestHitsOfHoldsAndUnknownOrders(t *testing.T) {
	srv := paymentsvctest.StartInMemory(t, config())
	client := newClient(t, srv, func(cfg *paymentsvc.Config) { cfg.Retry.MaxAttempts = 1 })
	over := make(chan struct{})
	close(over)
	rule := srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(),
		paymentsvctest.Hold(paymentsvctest.BeforeCommit, over))
	pay(t, client, "order-1")
	assert.Zero(t, rule.Hits(), "a released hold has no effect")
	rule = srv.Fault(paymentsvctest.AnyEndpoint, paymentsvctest.Every(),
		paymentsvctest.Hold(paymentsvctest.AfterCommit, nil))
	_, err := client.InitPayment(t.Context(), paymentsvc.PaymentTypeCard, payment("order-1"))
	require.ErrorContains(t, err, "HTTP 409")
	assert.Zero(t, rule.Hits(), "a rejected start is not held")
	rule.Remove()
	rule = srv.Fault(paymentsvctest.StatusPayment, paymentsvctest.Every(), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	_, err = client.StatusPayment(t.Context(), paymentsvc.StatusPaymentRequest{UserData: "order-2"})
	require.Error(t, err)
	assert.Equal(t, 1, rule.Hits(), "the response to an unknown order counts")
}

func TestRefuseCountsEachRequestOnce(t *testing.T) {
	srv, client := startFake(t)
	rule := srv.Fault(paymentsvctest.GetBalance, paymentsvctest.Nth(2), paymentsvctest.Refuse())
	for range 2 { // three attempts
		_, err := client.GetBalance(t.Context())
		require.NoError(t, err)
	}
	foreign := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := foreign.Post(srv.URL+"/get_balance", "application/json", nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 1, rule.Hits())

	drop, match := paymentsvctest.Drop(paymentsvctest.BeforeCommit), func(*http.Request) bool { return true }
	for _, add := range []func(){
		func() { srv.Fault("", paymentsvctest.Every(), paymentsvctest.Refuse(), drop) },
		func() { srv.FaultWhere("", match, nil, paymentsvctest.Every(), paymentsvctest.Refuse()) },
		func() {
			srv.FaultWhere("", nil, func(*http.Request) {}, paymentsvctest.Every(), paymentsvctest.Refuse())
		},
	} {
		require.PanicsWithValue(t, "paymentsvctest: Refuse must be the only fault of its rule, without match and selected",
			add)
	}
}

// parsed parses faults separated by plus signs.
func parsed[F any](t *testing.T, list string, parse func(string) (F, error)) (faults []F) {
	t.Helper()
	for text := range strings.SplitSeq(list, " + ") {
		fault, err := parse(text)
		require.NoError(t, err)
		faults = append(faults, fault)
	}
	return faults
}
