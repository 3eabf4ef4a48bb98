package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/payouts"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

const (
	keySaid    = "the-secret-that-nobody-says"
	oldKeySaid = "the-secret-before-that-nobody-says"
)

// everything keeps all that is written to it.
type everything struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (e *everything) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.Write(b)
}

func (e *everything) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.String()
}

// inside is the program while it serves inside the test.
type inside struct {
	Public, Admin string
	Said          *everything // both outputs
	stop          context.CancelFunc
	ended         chan struct{} // closed when it has ended, with code
	code          int
}

// serveInside starts the program at free ports, and stops it with the test at the latest.
func serveInside(t *testing.T, args ...string) *inside {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &inside{Said: &everything{}, stop: cancel, ended: make(chan struct{})}
	read, write := io.Pipe()
	go func() {
		args := append([]string{"serve", "-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-log", "json", "-log-level", "debug"}, args...)
		p.code = run(ctx, args, from(), write, p.Said)
		_ = write.Close()
		close(p.ended)
	}()
	lines := bufio.NewScanner(read)
	for p.Admin == "" && lines.Scan() {
		_, _ = io.WriteString(p.Said, lines.Text()+"\n")
		switch name, address, _ := strings.Cut(lines.Text(), " "); name {
		case "public":
			p.Public = address
		case "admin":
			p.Admin = address
		}
	}
	go func() { _, _ = io.Copy(p.Said, read) }()
	t.Cleanup(func() { p.Stop(t) })
	require.NotEmpty(t, p.Admin, p.Said)
	return p
}

// Stop stops the program, which has to end well.
func (p *inside) Stop(t *testing.T) {
	t.Helper()
	p.stop()
	<-p.ended
	assert.Zero(t, p.code, p.Said)
}

// startService starts a fake that takes what -service and the other flags of serviceFlags say.
func startService(t *testing.T) *paymentsvctest.Server {
	t.Helper()
	return paymentsvctest.Start(t, serviceConfig())
}

func serviceConfig() paymentsvctest.Config {
	return paymentsvctest.Config{
		PartnerID: demoPartner, Scheme: scheme(), NotifyAttempts: 100,
		Repeated: paymentsvctest.NewOrder, // or a second start is refused, and stays unseen
		Projects: []paymentsvctest.Project{{
			ID: demoProject, Secret: keySaid, OldSecret: oldKeySaid, Balance: paymentsvc.MustParseAmount("5000.00"),
		}},
	}
}

func serviceFlags(t *testing.T, address string) []string {
	t.Helper()
	return []string{
		"-service", address, "-partner", "1001", "-project", "2002", "-error-fields", demoFields,
		"-not-found-codes", demoNotFound, "-duplicate-codes", demoDuplicate, "-secret-file", fileWith(t, keySaid), "-old-secret-file", fileWith(t, oldKeySaid),
	}
}

// buyInside makes an order.
func buyInside(t *testing.T, address string) order {
	t.Helper()
	o, ok := buy(t.Context(), address, "10.50")
	require.True(t, ok)
	return o
}

// read gives the text at an address.
func read(t *testing.T, address string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

// untilState waits until the order's page shows a state.
func (p *inside) untilState(t *testing.T, userData string, state store.State) {
	t.Helper()
	require.Eventually(t, func() bool {
		return strings.Contains(read(t, p.Public+"/orders/"+userData), "state-"+string(state))
	}, 30*time.Second, 20*time.Millisecond, "it never is %s", state)
}

func TestTheDemoLives(t *testing.T) {
	before := goleak.IgnoreCurrent()
	p := serveInside(t)
	assert.Equal(t, "ok\n", read(t, p.Public+"/healthz"))
	require.Eventually(t, func() bool { return read(t, p.Public+"/readyz") == "ready\n" }, 10*time.Minute, 10*time.Millisecond)
	assert.Contains(t, read(t, p.Public+"/"), "the payment service is a fake")
	order := buyInside(t, p.Public)
	p.untilState(t, order.UserData, store.StateSucceeded)
	require.Eventually(t, func() bool { // the payouts that it has brought along
		return strings.Contains(read(t, p.Admin+"/metrics"), `partner_payouts{state="succeeded"} 37`)
	}, 30*time.Second, 100*time.Millisecond, "3 of 40 fail")
	page := read(t, p.Admin+"/")
	for _, text := range []string{"demo: the service is a fake", "XTS", "demo.csv", "40 of 40", order.UserData} {
		assert.Contains(t, page, text)
	}
	p.Stop(t)
	assert.Contains(t, p.Said.String(), "all that it does is made up")
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, before) // it leaves nothing behind
}

func TestTheFakeNeverTouchesADatabaseThatIsInUse(t *testing.T) {
	database := testdb.SQLite(t)
	service := startService(t)
	p := serveInside(t, append(serviceFlags(t, service.URL), "-database", database)...)
	p.Stop(t)
	p = serveInside(t, append(serviceFlags(t, service.URL+"/"), "-database", database)...) // a restart is fine
	p.Stop(t)
	for _, args := range [][]string{
		{"-database", database},
		{"-database", database, "payouts", fileWith(t, "reference,amount,destination\n1,1,4111111111111111\n")},
		append(serviceFlags(t, service.URL), "-database", database, "-project", "2003"),
	} {
		var said everything
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // should it serve
		require.Equal(t, exitError, run(ctx, args, from(), &said, &said))
		cancel()
		require.Contains(t, said.String(), "this database belongs to "+service.URL)
	}
	require.Zero(t, service.Requests(paymentsvctest.InitPayout))
}

func TestADatabaseBelongsToNoServiceThatIsRefused(t *testing.T) {
	database, service := testdb.SQLite(t), startService(t)
	var said everything
	address := strings.Replace(service.URL, "://", "://user:hunter2@", 1)
	require.Equal(t, exitError, run(t.Context(), append(serviceFlags(t, address), "-database", database), from(), &said, &said))
	p := serveInside(t, append(serviceFlags(t, service.URL), "-database", database)...)
	p.Stop(t)
	assert.NotContains(t, said.String()+p.Said.String(), "hunter2")
}

func TestAnAddressOfAnotherDatabaseIsNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, database := range []string{"host=db password=hunter2", "mysql://me:hunter2@db/partner", "postgres://me:hunter2@db:x/"} {
		var said everything
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // should it serve
		require.Equal(t, exitError, run(ctx, []string{"-database", database, "-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0"}, from(), &said, &said))
		cancel()
		assert.NotContains(t, said.String(), "hunter2")
	}
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.Empty(t, files)
}

func TestAnOrderThatIsTooOldIsNotStarted(t *testing.T) {
	p := serveInside(t, append(serviceFlags(t, "http://"+freeAddress(t)), "-give-up", "1ms")...)
	order := buyInside(t, p.Public)
	p.untilState(t, order.UserData, store.StateRejected)
}

func TestAnOrderWaitsForAServiceThatIsDown(t *testing.T) {
	address := freeAddress(t)
	p := serveInside(t, serviceFlags(t, "http://"+address)...)
	order := buyInside(t, p.Public)
	require.Equal(t, store.StateCreated, order.State, "the connection was refused, through otelhttp: nothing was sent")

	service, err := paymentsvctest.New(serviceConfig())
	require.NoError(t, err)
	t.Cleanup(service.Close)
	require.NoError(t, service.Listen(address))
	p.untilState(t, order.UserData, store.StatePending)
	service.AssertStarted(t, order.UserData, 1)
	service.AssertAllSigned(t)
}

func TestAnOrderWhoseAnswerIsLostIsFoundAgain(t *testing.T) {
	service := startService(t)
	service.Fault(paymentsvctest.InitPayment, paymentsvctest.First(1), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	p := serveInside(t, serviceFlags(t, service.URL)...)
	order := buyInside(t, p.Public)
	require.Equal(t, store.StateUnknown, order.State)
	p.untilState(t, order.UserData, store.StatePending)
	service.AssertStarted(t, order.UserData, 1)
}

// The service has made the order, and answers the second start with HTTP 422 and a code that it was given in the flags.
func TestAStartThatWasADuplicateIsFoundAgain(t *testing.T) {
	service := startService(t)
	service.Fault(paymentsvctest.InitPayment, paymentsvctest.First(1), paymentsvctest.Answer(paymentsvctest.AfterCommit,
		http.StatusUnprocessableEntity, "application/json", `{"error_code":"`+demoDuplicate+`"}`))
	p := serveInside(t, serviceFlags(t, service.URL)...)
	order := buyInside(t, p.Public)
	require.Equal(t, store.StateUnknown, order.State)
	p.untilState(t, order.UserData, store.StatePending)
	service.AssertStarted(t, order.UserData, 1)
}

func TestNotificationsAreTakenWithEitherSecretAndForgedOnesAreNot(t *testing.T) {
	service := startService(t)
	p := serveInside(t, append(serviceFlags(t, service.URL), "-tolerance", "5m")...)
	service.SetReceiver(paymentsvctest.ToURL(p.Public + "/notifications"))
	service.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.SignedWithOldSecret())
	service.FaultNotifications("", paymentsvctest.Nth(2), paymentsvctest.Forged(), paymentsvctest.RepeatedBy(2))
	service.FaultNotifications("", paymentsvctest.Nth(3), paymentsvctest.Skewed(-time.Hour))
	for _, want := range []store.State{store.StateSucceeded, store.StateSucceeded, store.StatePending} {
		order := buyInside(t, p.Public)
		orders := service.Orders()
		_, err := service.Settle(orders[len(orders)-1].OrderID, paymentsvc.StatusSuccess)
		require.NoError(t, err)
		service.Deliver(t.Context())
		p.untilState(t, order.UserData, want)
	}
	service.AssertForgeriesRefused(t)
	deliveries := service.Deliveries()
	assert.Equal(t, http.StatusUnauthorized, deliveries[len(deliveries)-1].HTTPStatus, "it is too old")
}

func TestANotificationIsNeverTooOld(t *testing.T) {
	service := startService(t)
	p := serveInside(t, serviceFlags(t, service.URL)...)
	service.SetReceiver(paymentsvctest.ToURL(p.Public + "/notifications"))
	service.FaultNotifications("", paymentsvctest.Nth(1), paymentsvctest.Skewed(-24*time.Hour))
	order := buyInside(t, p.Public)
	_, err := service.Settle(service.Orders()[0].OrderID, paymentsvc.StatusSuccess)
	require.NoError(t, err)
	service.Deliver(t.Context())
	p.untilState(t, order.UserData, store.StateSucceeded)
}

// TestStoppingCutsOffNeitherRequestsNorCalls says that stopping waits for the workers; this one, that they wait for their
// calls, and record them.
func TestWhatIsUnderWayWhileItStopsIsRecorded(t *testing.T) {
	for _, test := range []struct {
		name, endpoint string
		begin          func(t *testing.T, p *inside, answered chan<- string) // it gives the user_data when there is an answer
	}{
		{"of a buyer", paymentsvctest.InitPayment, func(t *testing.T, p *inside, answered chan<- string) {
			go func() {
				o, _ := buy(t.Context(), p.Public, "10.50")
				answered <- o.UserData
			}()
		}},
		{"of a payout", paymentsvctest.InitPayout, func(_ *testing.T, _ *inside, answered chan<- string) { answered <- "" }},
	} {
		stopping := func(t *testing.T, database string) {
			service := startService(t)
			books := withOnePayout(t, database, service)
			release := make(chan struct{})
			rule := service.Fault(test.endpoint, paymentsvctest.First(1), paymentsvctest.Hold(paymentsvctest.AfterCommit, release))
			p := serveInside(t, append(serviceFlags(t, service.URL), "-database", database)...)
			answered := make(chan string, 1)
			test.begin(t, p, answered)
			require.Eventually(t, func() bool { return rule.Hits() == 1 }, 10*time.Minute, time.Millisecond)

			p.stop()
			require.Eventually(t, func() bool { return strings.Contains(p.Said.String(), `"stopping"`) }, 10*time.Minute, time.Millisecond)
			close(release)
			userData := <-answered
			p.Stop(t)
			for _, order := range service.Orders() {
				if userData == "" {
					userData = order.UserData
				}
				service.AssertStarted(t, order.UserData, 1)
			}
			table := store.Orders
			if test.endpoint == paymentsvctest.InitPayout {
				table = store.Payouts
			}
			row, err := books.Row(t.Context(), table, userData)
			require.NoError(t, err)
			require.Equal(t, store.StatePending, row.State, "what the call came to is recorded")
		}
		t.Run(test.name, func(t *testing.T) { testdb.Each(t, stopping) })
	}
}

// withOnePayout makes a database with a payout that is to be started.
func withOnePayout(t *testing.T, database string, service *paymentsvctest.Server) *store.Store {
	t.Helper()
	books, err := store.Open(t.Context(), store.Options{URL: database})
	require.NoError(t, err)
	t.Cleanup(books.Close)
	client, err := paymentsvc.NewClient(service.ClientConfig(demoProject))
	require.NoError(t, err)
	queue, err := payouts.NewQueue(t.Context(), payouts.Config{Store: books, Client: client})
	require.NoError(t, err)
	_, err = payouts.Import(t.Context(), payouts.ImportConfig{Store: books, Queue: queue, Name: "one.csv"},
		strings.NewReader("reference,amount,destination\none,1.00,4111111111111111\n"))
	require.NoError(t, err)
	return books
}

func TestAPayoutIsSentAgainWhenAPersonSaysSo(t *testing.T) {
	testdb.Each(t, func(t *testing.T, database string) {
		service := startService(t)
		books := withOnePayout(t, database, service)
		service.Fault(paymentsvctest.InitPayout, paymentsvctest.First(1), paymentsvctest.Drop(paymentsvctest.BeforeCommit))
		p := serveInside(t, append(serviceFlags(t, service.URL), "-database", database)...)
		var row store.Row
		until := func(state store.State) {
			t.Helper()
			require.Eventually(t, func() bool {
				rows, _, err := books.Rows(t.Context(), store.Filter{Table: store.Payouts, Limit: 1})
				require.NoError(t, err)
				row = rows[0]
				return row.State == state
			}, 30*time.Second, 10*time.Millisecond, "it never is %s", state)
		}
		until(store.StateUnknown)
		service.AssertStarted(t, row.UserData, 0)
		if books.Postgres() { // a payout whose job is still ending would get no other one, but from the sweep a minute later
			require.Eventually(t, func() bool {
				var living int
				err := books.DB().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM river.river_job WHERE state <> 'completed'`).Scan(&living)
				return err == nil && living == 0
			}, 30*time.Second, 10*time.Millisecond)
		}

		resp, err := http.PostForm(p.Admin+"/payouts/"+row.UserData, url.Values{
			"decision": {string(store.DecideAgain)}, "sure": {"yes"}, "seen": {row.Version()},
		})
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		until(store.StatePending)
		service.AssertStarted(t, row.UserData, 1)
		require.Equal(t, 2, row.Attempts)
	})
}

func TestAPortThatIsTakenIsSaid(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	for _, flag := range []string{"-addr", "-admin"} {
		var said everything
		args := []string{"-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0", flag, listener.Addr().String()}
		require.Equal(t, exitError, run(t.Context(), args, from(), &said, &said))
		require.Contains(t, said.String(), "address already in use")
	}
}

func TestAFileOfPayoutsIsPaid(t *testing.T) {
	for _, test := range []struct {
		name   string
		faults func(*paymentsvctest.Server)
		more   string // rows
		code   int
	}{
		{"all is well", func(*paymentsvctest.Server) {}, "", exitDone},
		{"an answer is lost", func(s *paymentsvctest.Server) {
			s.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(3), paymentsvctest.Drop(paymentsvctest.AfterCommit))
		}, "", exitPerson},
		{"a row is none", func(*paymentsvctest.Server) {}, "x,none,4111111111111111\n", exitPerson},
	} {
		t.Run(test.name, func(t *testing.T) {
			service := startService(t)
			test.faults(service)
			var file, said everything
			require.Zero(t, run(t.Context(), []string{"make-payouts", "20"}, from(), &file, &said))
			args := append(serviceFlags(t, service.URL), "-database", testdb.SQLite(t), "payouts", fileWith(t, file.String()+test.more))
			require.Equal(t, test.code, run(t.Context(), args, from(), &said, &said), said.String())
			require.Len(t, service.Orders(), 20)
			require.Equal(t, test.code, run(t.Context(), args, from(), &said, &said), "the same file again")
			require.Len(t, service.Orders(), 20, "nothing is paid twice")
			assert.NotContains(t, said.String(), "4111111111111111")
		})
	}
	var said everything
	require.Equal(t, exitError, run(t.Context(), []string{"payouts", filepath.Join(t.TempDir(), "none.csv")}, from(), &said, &said))
	require.Contains(t, said.String(), "none.csv")
}

// collector is where traces go.
func collector(t *testing.T, into io.Writer) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(into, r.Body)
		assert.NoError(t, err)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestNothingSecretIsSaidAnywhere(t *testing.T) { testdb.Each(t, testNothingSecretIsSaid) }

func testNothingSecretIsSaid(t *testing.T, database string) {
	var traces everything
	endpoint := collector(t, &traces)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint) // which OpenTelemetry's exporter reads by itself
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	withTraces := from("OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint)

	service := startService(t)
	cards := []string{"4111111111111111", "5555555555554444", "378282246310005", "6011111111111117", "4012888888881881"}
	var rows strings.Builder
	rows.WriteString("reference,amount,destination\n")
	for i, card := range cards {
		rows.WriteString("r" + string(rune('0'+i)) + ",10.50," + card + "\n")
	}
	rows.WriteString("bad,x," + cards[0] + "\n" + cards[1] + "\n\"" + cards[2] + "\n")
	for i, fault := range []paymentsvctest.Fault{
		paymentsvctest.Drop(paymentsvctest.AfterCommit),
		paymentsvctest.Reject(http.StatusUnprocessableEntity, "E17", "no such card: "+cards[1]),
		paymentsvctest.Answer(paymentsvctest.AfterCommit, http.StatusOK, "text/plain", "card "+cards[2]),
	} {
		service.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(i+1), fault)
	}
	flags := append(serviceFlags(t, service.URL), "-database", database)
	var said everything
	run(t.Context(), append(flags, "-log", "json", "-log-level", "debug", "payouts", fileWith(t, rows.String())), withTraces, &said, &said)
	require.Len(t, service.Orders(), 4, said.String())

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	address, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		args := append(slices.Clone(flags), "serve", "-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-log", "json", "-log-level", "debug")
		ended <- run(ctx, args, withTraces, io.MultiWriter(write, &said), &said)
		_ = write.Close()
	}()
	lines := bufio.NewScanner(address)
	require.True(t, lines.Scan())
	public := strings.TrimPrefix(lines.Text(), "public ")
	require.True(t, lines.Scan())
	admin := strings.TrimPrefix(lines.Text(), "admin ")
	service.SetReceiver(paymentsvctest.ToURL(public + "/notifications"))
	service.FaultNotifications("", paymentsvctest.Every(), paymentsvctest.Forged(), paymentsvctest.RepeatedBy(1))
	service.Fault(paymentsvctest.InitPayment, paymentsvctest.Nth(2), paymentsvctest.Answer(paymentsvctest.AfterCommit, 500, "text/plain", cards[0]))
	var orders []order
	for range 3 {
		orders = append(orders, buyInside(t, public))
	}
	for _, order := range service.Orders() {
		_, err := service.Settle(order.OrderID, paymentsvc.StatusSuccess)
		require.NoError(t, err)
	}
	service.DeliverAll(t.Context())
	resp, err := http.Post(public+"/notifications", "application/json", strings.NewReader(cards[0]+keySaid))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	for _, page := range []string{"/", "/orders", "/payouts", "/notifications", "/metrics", "/orders/" + orders[0].UserData} {
		_, _ = io.WriteString(&said, read(t, admin+page))
	}
	stop()
	require.Zero(t, <-ended)

	assert.NotContains(t, said.String(), "the telemetry", "it has nothing to complain of")
	// What is looked at is what was meant.
	for _, text := range []string{"E17", orders[0].UserData, `partner_service_attempts_total`, "•••• 1111", "signature mismatch"} {
		require.Contains(t, said.String(), text)
	}
	for _, text := range []string{"init_payout", "init_payment", "get_balance", orders[0].UserData, "attempt"} {
		require.Contains(t, traces.String(), text)
	}
	for _, secret := range append(cards, keySaid, oldKeySaid) {
		assert.NotContains(t, said.String(), secret, "outputs, pages, metrics")
		assert.NotContains(t, traces.String(), secret, "traces")
	}
}
