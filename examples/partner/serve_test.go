package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/payoutcsv"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

func TestServeRunsWithoutSettings(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := startServing(t, from())
	assert.Equal(t, "ok\n", read(t, s.Public+"/healthz"))
	assert.Equal(t, "ready\n", read(t, s.Public+"/readyz"))
	assert.Contains(t, read(t, s.Public+"/"), "the payment service is a fake")
	page, userData := s.buy(t)
	until(t, page, state(durable.StateSucceeded))
	until(t, s.Admin+"/metrics", `durable_rows{kind="payout",state="pending"} 0`)
	for _, path := range []string{"/", "/metrics"} {
		foreign := func(r *http.Request) { r.Host = "foreign.example" }
		resp, _ := exchange(t, http.MethodGet, s.Admin+path, nil, foreign)
		assert.Equal(t, http.StatusMisdirectedRequest, resp.StatusCode, path)
	}
	overview := read(t, s.Admin+"/")
	for _, text := range []string{"demo: the service is a fake", "XTS", "demo.csv", "40 of 40"} {
		assert.Contains(t, overview, text)
	}
	assert.Contains(t, read(t, s.Admin+"/row/"+userData), "payment.status_changed")
	s.Stop(t)
	assert.Contains(t, s.Out.String(), "its responses are made up")
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, before)
}

func TestServeShipsAPaidBasketOnce(t *testing.T) {
	eachDatabase(t, func(t *testing.T, database string) {
		service := startService(t)
		s := startServing(t, from(), serviceFlags(t, service.URL, database)...)
		service.SetReceiver(paymentsvctest.ToURL(s.Public + "/notifications"))
		service.FaultNotifications(
			"", paymentsvctest.Every(), paymentsvctest.SignedWithOldSecret(), paymentsvctest.RepeatedBy(2),
		)
		basket := uuid.NewString()
		code, first, _ := s.checkout(t, basket, "10.50")
		require.Equal(t, 303, code)
		code, second, _ := s.checkout(t, basket, "10.50")
		require.Equal(t, 303, code)
		assert.Equal(t, first, second, "the same form leads to the order, and not to the service's page")
		assert.Contains(t, read(t, s.Public+first), "If you have paid already, do not pay again")
		code, _, text := s.checkout(t, basket, "11")
		assert.Equal(t, 409, code)
		assert.Contains(t, text, "being paid already")
		assert.Contains(t, text, "To this order")
		require.Len(t, service.Orders(), 1)
		paid := service.Orders()[0]
		failed, _ := s.buy(t)
		refunded, _ := s.buy(t)
		early, err := service.Compose(service.Orders()[2].OrderID, paymentsvc.StatusSuccess)
		require.NoError(t, err)
		early.Event = paymentsvc.EventRefundStatusChanged
		service.Send(t.Context(), early) // before the payment's success
		for order, status := range map[string]paymentsvc.StatusName{
			paid.OrderID: paymentsvc.StatusSuccess, service.Orders()[1].OrderID: paymentsvc.StatusFailure,
			early.OrderID: paymentsvc.StatusSuccess,
		} {
			_, err := service.Settle(order, status)
			require.NoError(t, err)
		}
		_, err = service.Refund(paid.OrderID, paid.Amount, paymentsvc.StatusSuccess)
		require.NoError(t, err)
		service.DeliverAll(t.Context())
		until(t, s.Public+first, state(durable.StateSucceeded))
		until(t, failed, state(durable.StateFailed))
		until(t, refunded, state(durable.StateSucceeded))
		for _, delivery := range service.Deliveries() {
			assert.Equal(t, http.StatusOK, delivery.HTTPStatus, "the refund ships nothing")
		}
		s.Stop(t)
		p := &program{set: &settings{Database: database}}
		require.NoError(t, p.openDatabase())
		defer p.Close()
		var shipped string
		require.NoError(t, p.db.QueryRowContext(t.Context(), `SELECT MIN(basket) || COUNT(*) FROM shipments`).Scan(&shipped))
		assert.Equal(t, basket+"1", shipped, "only the paid basket, once")
	})
}

// An operator marked the payment as failed, and then as paid again.
func TestShipOrdersGoodsOnceForTwoSuccesses(t *testing.T) {
	p := open(t, serviceFlags(t, startService(t).URL, filepath.Join(t.TempDir(), "partner.db"))...)
	tx, err := p.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	paid := durable.Event{Row: durable.Row{Kind: durable.KindPayment, UserData: "1"}, To: durable.StateSucceeded}
	for range 2 {
		require.NoError(t, ship(t.Context(), tx, paid))
	}
}

func TestServeKeepsAnUnreadableNotification(t *testing.T) {
	service := startService(t)
	s := startServing(t, from(), serviceFlags(t, service.URL, filepath.Join(t.TempDir(), "partner.db"))...)
	to := paymentsvctest.ToURL(s.Public + "/notifications")
	status, err := service.SendBody(t.Context(), to, demoProject, time.Now(), []byte(`{"order_id":"lost-1"}`), nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, read(t, s.Admin+"/"), "1 unreadable notification")
	assert.Contains(t, read(t, s.Admin+"/unreadable"), "lost-1")
}

// The role of the later starts may not create tables.
func TestProgramNeedsNoRightToCreateTables(t *testing.T) {
	address, err := url.Parse(postgres(t))
	require.NoError(t, err)
	service := startService(t)
	var processes sync.WaitGroup
	for range 2 { // they start together
		processes.Go(func() {
			command(t, exitDone, append(serviceFlags(t, service.URL, address.String()), "results")...)
		})
	}
	processes.Wait()
	db, err := sql.Open("pgx", address.String())
	require.NoError(t, err)
	role := "program_" + strings.ToLower(rand.Text())
	t.Cleanup(func() {
		_, err := db.ExecContext(context.WithoutCancel(t.Context()), `DROP OWNED BY `+role+`; DROP ROLE `+role)
		require.NoError(t, err)
		require.NoError(t, db.Close())
	})
	_, err = db.ExecContext(t.Context(), `CREATE ROLE `+role+` LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO `+role)
	require.NoError(t, err)
	address.User = url.User(role)
	command(t, exitDone, append(serviceFlags(t, service.URL, address.String()), "results")...)
}

func TestServeReconcilesALostResponse(t *testing.T) {
	service := startService(t)
	service.Fault(paymentsvctest.InitPayment, paymentsvctest.First(1), paymentsvctest.Drop(paymentsvctest.AfterCommit))
	s := startServing(t, from(), serviceFlags(t, service.URL, filepath.Join(t.TempDir(), "partner.db"))...)
	page, userData := s.buy(t)
	until(t, page, state(durable.StatePending))
	assert.Contains(t, read(t, page), "we do not know where you can pay")
	service.AssertStarted(t, userData, 1)
}

// TestServeRecordsCallsInFlight stops the program while the service delays its responses to a payment and a payout.
func TestServeRecordsCallsInFlight(t *testing.T) {
	eachDatabase(t, func(t *testing.T, database string) {
		service := startService(t)
		release, releaseLast := make(chan struct{}), make(chan struct{})
		payment := service.Fault(
			paymentsvctest.InitPayment, paymentsvctest.First(1), paymentsvctest.Hold(paymentsvctest.AfterCommit, release),
		)
		payout := service.Fault(
			paymentsvctest.InitPayout, paymentsvctest.First(1), paymentsvctest.Hold(paymentsvctest.AfterCommit, releaseLast),
		)
		flags := serviceFlags(t, service.URL, database)
		books := func(do func(p *program)) {
			p := open(t, flags...)
			defer p.Close()
			do(p)
		}
		books(func(p *program) {
			_, err := payoutcsv.Import(
				t.Context(), payoutcsv.ImportConfig{DB: p.db, Store: p.store}, strings.NewReader(example(t, 1)),
			)
			require.NoError(t, err)
		})
		s := startServing(t, from(), flags...)
		bought := make(chan int, 1)
		go func() {
			form := url.Values{"basket": {uuid.NewString()}, "amount": {"1"}, "type": {"card"}}
			resp, err := http.PostForm(s.Public+"/checkout", form)
			if err == nil {
				bought <- resp.StatusCode // of the order's page, or of the server that takes no more requests
			}
			close(bought)
		}()
		require.Eventually(t, func() bool { return payment.Hits()+payout.Hits() == 2 }, patience, time.Millisecond)
		s.stop()
		require.Eventually(
			t, func() bool { return strings.Contains(s.Out.String(), `"stopping"`) }, patience, time.Millisecond,
		)
		close(release)
		<-bought
		select {
		case <-s.ended:
			t.Error("it ended before the payout was recorded")
		case <-time.After(200 * time.Millisecond):
		}
		close(releaseLast)
		s.Stop(t)
		books(func(p *program) {
			rows := 0
			for row, err := range p.store.Rows(t.Context(), durable.Filter{}) {
				require.NoError(t, err)
				assert.Equal(t, durable.StatePending, row.State, row.Kind)
				rows++
			}
			assert.Equal(t, 2, rows)
		})
		assert.Len(t, service.Orders(), 2)
	})
}

func TestCheckoutRejectsInvalidForms(t *testing.T) {
	s := startServing(t, from())
	for amount, want := range map[string]string{
		"0": "above 0", "1,5": "above 0", "": "above 0", "10.505": "at most two decimals",
	} {
		code, _, text := s.checkout(t, uuid.NewString(), amount)
		assert.Equal(t, 422, code, amount)
		assert.Contains(t, text, want, amount)
	}
	code, _, text := s.checkout(t, "no basket", "1")
	assert.Equal(t, 422, code)
	assert.Contains(t, text, "no valid basket")
	assert.Contains(t, read(t, s.Public+"/orders/"+uuid.NewString()), "nothing at this address")
}

func TestShopRejectsRequests(t *testing.T) {
	s := startServing(t, from())
	payout := regexp.MustCompile(`href="/row/([^"]+)"`).FindStringSubmatch(read(t, s.Admin+"/rows?kind=payout"))
	require.NotNil(t, payout)
	assert.Contains(t, read(t, s.Public+"/orders/"+payout[1]), "nothing at this address", "a payout is not public")
	for _, c := range []struct{ status, kind, site, more string }{
		{"403", "card", "cross-site", ""}, {"422", "none", "same-origin", ""},
		{"422", "card", "same-origin", strings.Repeat("x", 17<<10)},
	} {
		form := url.Values{"amount": {"1"}, "type": {c.kind}, "basket": {uuid.NewString()}, "more": {c.more}}
		from := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", c.site) }
		resp, _ := exchange(t, http.MethodPost, s.Public+"/checkout", form, from)
		assert.Contains(t, resp.Status, c.status)
		assert.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		assert.Equal(t, "no-referrer", resp.Header.Get("Referrer-Policy"))
	}
}

func TestPostgresCommitsAreDurable(t *testing.T) {
	address, err := url.Parse(postgres(t))
	require.NoError(t, err)
	query := address.Query()
	query.Set("synchronous_commit", "off")
	address.RawQuery = query.Encode()
	db, err := openPostgres(address.String())
	require.NoError(t, err)
	defer db.Close()
	var commit string
	require.NoError(t, db.QueryRowContext(t.Context(), `SHOW synchronous_commit`).Scan(&commit))
	assert.Equal(t, "on", commit)
}

// A page also reports no failure for a payment that may have succeeded.
func TestOrderPageBacksOff(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for age, refresh := range map[time.Duration]int{0: 2, 30 * time.Second: 6, time.Hour: 60, -time.Hour: 2} {
		assert.Equal(
			t, refresh, orderView(durable.Row{State: durable.StateUnknown, CreatedAt: now.Add(-age)}, now).Refresh, age,
		)
	}
	for _, s := range durable.States() {
		v := orderView(durable.Row{State: s, RedirectURL: "https://pay.example/1", CreatedAt: now}, now)
		assert.NotEmpty(t, v.Say)
		assert.Equal(t, s == durable.StatePending, v.Pay != "", s)
		assert.Equal(t, s.Final(), v.Refresh == 0, s)
		v = orderView(durable.Row{State: s, ReviewReason: "SUCCESS after FAILURE", CreatedAt: now}, now)
		if s == durable.StatePending || s.Final() {
			assert.Contains(t, v.Say, "Do not pay again")
			assert.Equal(t, durable.StateUnknown, v.Row.State)
		}
	}
}

func TestDatabaseIsForOneProjectAndItsOwner(t *testing.T) {
	database := filepath.Join(t.TempDir(), "partner ?#%.db")
	service := startService(t)
	flags := serviceFlags(t, service.URL, database)
	s := startServing(t, from(), flags...)
	s.buy(t)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(database + suffix)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode(), suffix)
	}
	s.Stop(t)
	s = startServing(t, from(), append(flags, "-service", service.URL+"/")...) // a restart is fine
	s.Stop(t)
	started := len(service.Orders())
	file := fileWith(t, "reference,amount,destination\n1,1,"+card+"\n")
	for _, args := range [][]string{
		append(flags, "-project", "2003"), append(flags, "-project", "2003", "payouts", file),
	} {
		assert.Contains(t, command(t, exitError, args...), "-database belongs to another -service")
	}
	assert.Len(t, service.Orders(), started)
	for _, c := range []struct {
		args []string
		code int
	}{
		{nil, exitDone},
		{[]string{"-service", "https://new.example"}, exitDone},
		{[]string{"-service-name", "other"}, exitError},
	} {
		command(t, c.code, append(append(flags, "results"), c.args...)...)
	}
	require.NoError(t, os.Chmod(database, 0o644)) //nolint:gosec // the program warns of this mode
	assert.Contains(t, command(t, exitDone, append(flags, "results")...), "other users can read the database")

	t.Chdir(t.TempDir())
	for _, database := range []string{
		"host=db password=hunter2", "mysql://me:hunter2@db/partner", "postgres://me:hunter2@db:x/",
	} {
		command(t, exitError, append(flags, "-database", database)...)
	}
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.Empty(t, files)
}

// TestProgramPrintsNoSecret reads the outputs, the pages, the metrics and the traces of calls that went wrong.
func TestProgramPrintsNoSecret(t *testing.T) {
	eachDatabase(t, func(t *testing.T, database string) {
		var out, traces output
		collector := httptest.NewServer(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(&traces, r.Body) }),
		)
		t.Cleanup(collector.Close)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL) // the exporter reads it
		t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
		environment := from("OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL)
		service := startService(t)
		cards := []string{"4111111111111111", "5555555555554444", "378282246310005", "6011111111111117"}
		rows := "reference,amount,destination\n"
		for i, card := range cards {
			rows += "salary-" + string(rune('0'+i)) + ",10.50," + card + "\n"
		}
		rows += "bad,x," + cards[0] + "\n" + cards[1] + "\n\"" + cards[2] + "\n"
		for i, fault := range []paymentsvctest.Fault{
			paymentsvctest.Drop(paymentsvctest.AfterCommit),
			paymentsvctest.Reject(http.StatusUnprocessableEntity, "E17", "no such card: "+cards[1]),
			paymentsvctest.Answer(paymentsvctest.AfterCommit, http.StatusOK, "text/plain", "card "+cards[2]),
		} {
			service.Fault(paymentsvctest.InitPayout, paymentsvctest.Nth(i+1), fault)
		}
		flags := serviceFlags(t, service.URL, database)
		for _, words := range [][]string{{"check"}, {"payouts"}, {"results"}} {
			args := append(append([]string{"-log-json", "-log-level", "debug"}, flags...), append(words, fileWith(t, rows))...)
			run(t.Context(), args, environment, &out, &out)
		}
		s := startServing(t, environment, flags...)
		service.SetReceiver(paymentsvctest.ToURL(s.Public + "/notifications"))
		service.FaultNotifications("", paymentsvctest.Every(), paymentsvctest.Forged(), paymentsvctest.RepeatedBy(1))
		page, userData := s.buy(t)
		_, err := service.Settle(service.Orders()[0].OrderID, paymentsvc.StatusSuccess)
		require.NoError(t, err)
		service.DeliverAll(t.Context())
		resp, err := http.Post(s.Public+"/notifications", "application/json", strings.NewReader(cards[0]+key))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		for _, path := range []string{"/", "/rows", "/rows?state=unknown", "/files", "/metrics", "/row/" + userData} {
			_, _ = io.WriteString(&out, read(t, s.Admin+path))
		}
		_, _ = io.WriteString(&out, read(t, page))
		s.Stop(t)
		_, _ = io.WriteString(&out, s.Out.String())
		for _, text := range []string{
			"E17", userData, "partner_attempts_total", "••••\u00a01111", "signature mismatch", "salary-0",
		} {
			require.Contains(t, out.String(), text, "the outputs contain the calls")
		}
		for _, text := range []string{"init_payout", "init_payment"} {
			require.Contains(t, traces.String(), text)
		}
		for _, secret := range append(cards, key, oldKey) {
			assert.NotContains(t, out.String(), secret)
			assert.NotContains(t, traces.String(), secret)
		}
	})
}

func TestOldPendingPaymentsNeedReview(t *testing.T) {
	flags := serviceFlags(t, startService(t).URL, filepath.Join(t.TempDir(), "partner.db"))
	s := startServing(t, from(), append(flags, "-pending-review", "1ms")...)
	page, _ := s.buy(t)
	until(t, page, state(durable.StatePending))
	until(t, s.Admin+"/", "1 of them pending for too long")
}

// pauseByForm sends the form of a pause to the operators' page, with names in X-User, and returns the HTTP status.
func pauseByForm(t *testing.T, s *serving, names ...string) int {
	t.Helper()
	form := url.Values{"do": {"pause"}, "reason": {"lunch"}}
	named := func(r *http.Request) { r.Header["X-User"] = names }
	resp, _ := exchange(t, http.MethodPost, s.Admin+"/control", form, named)
	return resp.StatusCode
}

func TestDecisionsNeedTheNameOfAnOperator(t *testing.T) {
	demo := startServing(t, from())
	assert.Equal(t, 303, pauseByForm(t, demo))
	assert.Contains(t, read(t, demo.Admin+"/"), "Paused by demo")
	flags := serviceFlags(t, startService(t).URL, filepath.Join(t.TempDir(), "partner.db"))
	nobody := startServing(t, from(), flags...)
	assert.Equal(t, 403, pauseByForm(t, nobody, "ada"))
	assert.Contains(t, nobody.Out.String(), "nobody can decide")
	nobody.Stop(t)
	one := startServing(t, from(), append(flags, "-admin-user", "ada")...)
	assert.Equal(t, 303, pauseByForm(t, one))
	assert.Contains(t, read(t, one.Admin+"/"), "Paused by ada")
	flags = serviceFlags(t, startService(t).URL, filepath.Join(t.TempDir(), "login.db"))
	login := startServing(t, from(), append(flags, "-admin-user-header", "X-User")...)
	assert.Equal(t, 403, pauseByForm(t, login))
	assert.Equal(t, 403, pauseByForm(t, login, "eve", "ada"), "the proxy kept a name sent by the client")
	assert.NotContains(t, read(t, login.Admin+"/"), "Paused")
	assert.Equal(t, 303, pauseByForm(t, login, "grace"))
	assert.Contains(t, read(t, login.Admin+"/"), "Paused by grace")
}
