package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
)

// buying is a checkout that keeps what it was asked for, and makes an order unless fail is set.
type buying struct {
	store *store.Store
	fail  error
	asked []string
}

func (b *buying) Start(ctx context.Context, t paymentsvc.PaymentType, amount paymentsvc.Amount) (store.Order, error) {
	b.asked = append(b.asked, string(t)+" "+amount.String())
	if b.fail != nil {
		return store.Order{}, b.fail
	}
	userData := paymentsvc.NewUserData()
	if _, err := b.store.CreateOrder(ctx, userData, t, amount, time.Minute); err != nil {
		return store.Order{}, err
	}
	return b.store.Order(ctx, userData)
}

func openStore(t *testing.T) *store.Store {
	t.Helper()
	return openStoreAt(t, testdb.SQLite(t))
}

func openStoreAt(t *testing.T, database string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{URL: database})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func logOf(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

type shop struct {
	*Public
	buying  *buying
	handler http.Handler
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := openStore(t)
	b := &buying{store: s}
	p := &Public{
		Store: s, Checkout: b, Log: logOf(t), Ready: func(context.Context) error { return nil },
		Notifications: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			plain(w, http.StatusOK, "told "+string(body))
		}),
	}
	return &shop{p, b, p.Handler()}
}

// ask asks h, as a browser's own form does or, with headers, otherwise.
func ask(h http.Handler, method, target string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Host = "localhost"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAnOrderIsMadeOfAForm(t *testing.T) {
	for _, test := range []struct {
		name          string
		amount, payBy string
		headers       []string
		fail          error
		status        int
		asked         string // what the checkout was asked for, "" for nothing
		says          string
	}{
		{"a form", "10.50", "card", nil, nil, 303, "card 10.50", ""},
		{"spaces around the amount", " 7 ", "sbp", nil, nil, 303, "sbp 7", ""},
		{"a program", "10.50", "card", []string{"Accept", "application/json"}, nil, 201, "card 10.50", `"state":"starting"`},
		{"no amount", "", "card", nil, nil, 422, "", "above 0"},
		{"an amount of nothing", "0.00", "card", nil, nil, 422, "", "above 0"},
		{"an amount below nothing", "-1", "card", nil, nil, 422, "", "above 0"},
		{"an amount that is none", "<b>", "card", nil, nil, 422, "", "&lt;b&gt;"},
		{"another way to pay", "1", "gold", nil, nil, 422, "", "above 0"},
		{"a program's mistake", "x", "card", []string{"Accept", "application/json"}, nil, 422, "", `{"problem":"The amount`},
		{"the database is away", "1", "card", nil, errors.New("connect to 10.0.0.1"), 503, "card 1", "nothing is paid"},
		{"a foreign site's form", "1", "card", []string{"Sec-Fetch-Site", "cross-site"}, nil, 403, "", ""},
		{"a foreign site's form in an old browser", "1", "card", []string{"Origin", "https://elsewhere.example"}, nil, 403, "", ""},
		{"a form that is too long", strings.Repeat("1", maxForm), "card", nil, nil, 400, "", "cannot be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			shop := newShop(t)
			shop.buying.fail = test.fail
			w := ask(shop.handler, http.MethodPost, "/checkout", url.Values{"amount": {test.amount}, "type": {test.payBy}}, test.headers...)
			require.Equal(t, test.status, w.Code, w.Body)
			assert.Equal(t, test.asked, strings.Join(shop.buying.asked, ","))
			assert.Contains(t, w.Body.String(), test.says)
			assert.NotContains(t, w.Body.String(), "10.0.0.1", "what is wrong inside is nobody's business")
			if test.status < 400 {
				assert.Equal(t, 200, ask(shop.handler, http.MethodGet, w.Header().Get("Location"), nil).Code)
			}
		})
	}
}

func TestABuyerIsToldWhatTheStateMeans(t *testing.T) {
	for _, test := range []struct {
		state     store.State
		attention string
		says      string
		refresh   string
		pay       bool
	}{
		{store.StateCreated, "", "being prepared", "2", false},
		{store.StateStarting, "", "being prepared", "2", false},
		{store.StateUnknown, "", "Please do not pay again", "5", false},
		{store.StatePending, "", "under way", "2", true},
		{store.StateSucceeded, "", "has arrived", "", false},
		{store.StateFailed, "", "has not gone through", "", false},
		{store.StateRejected, "", "could not be started", "", false},
		{store.StatePending, "SUCCESS of 10.00 instead of 10.50", "We are looking into your payment", "30", false},
		{store.StateSucceeded, "FAILURE after SUCCESS", "We are looking into your payment", "30", false},
		{store.StateFailed, "SUCCESS after FAILURE", "We are looking into your payment", "30", false},
		{store.StateRejected, "the service has it", "We are looking into your payment", "30", false},
		{store.StateUnknown, "asked in vain", "Please do not pay again", "5", false},
	} {
		t.Run(string(test.state)+" "+test.attention, func(t *testing.T) {
			shop := newShop(t)
			order, err := shop.buying.Start(t.Context(), paymentsvc.PaymentTypeCard, paymentsvc.MustParseAmount("10.50"))
			require.NoError(t, err)
			_, err = shop.Store.DB().ExecContext(t.Context(), `UPDATE orders SET state = $1, attention = $2, redirect_url = $3`,
				string(test.state), test.attention, "https://pay.example/1")
			require.NoError(t, err)
			w := ask(shop.handler, http.MethodGet, "/orders/"+order.UserData, nil)
			require.Equal(t, 200, w.Code)
			page := w.Body.String()
			assert.Contains(t, page, test.says)
			assert.Contains(t, page, "10.50")
			assert.Equal(t, test.refresh, w.Header().Get("Refresh"))
			assert.Equal(t, test.pay, strings.Contains(page, `href="https://pay.example/1"`))
			state := test.state
			if test.attention != "" {
				state = store.StateUnknown // whatever is looked into
				assert.NotContains(t, page, test.attention, "a person's matter")
			}
			assert.Contains(t, page, "state-"+string(state))
			assert.Equal(t, state.Final(), strings.Contains(page, "Order again"))

			w = ask(shop.handler, http.MethodGet, "/orders/"+order.UserData, nil, "Accept", "application/json")
			var got map[string]any
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
			assert.Equal(t, string(state), got["state"])
			assert.Equal(t, state.Final(), got["final"])
			assert.Equal(t, test.pay, got["redirect_url"] != nil, "a program sends no buyer to pay either")
		})
	}
}

func TestABuyerWhosePaymentPageIsNotKnownIsToldSo(t *testing.T) {
	for _, doubted := range []int{0, 1} { // 0 where a notification was faster than the answer, and the answer was lost
		shop := newShop(t)
		order, err := shop.buying.Start(t.Context(), paymentsvc.PaymentTypeCard, paymentsvc.MustParseAmount("1"))
		require.NoError(t, err)
		_, err = shop.Store.DB().ExecContext(t.Context(), `UPDATE orders SET state = 'pending', doubted = $1`, doubted)
		require.NoError(t, err)
		page := ask(shop.handler, http.MethodGet, "/orders/"+order.UserData, nil).Body.String()
		assert.Contains(t, page, "we do not know where you can pay")
		assert.NotContains(t, page, "Pay now")
	}
}

func TestAnAddressThatIsNoneIsNoLink(t *testing.T) {
	shop := newShop(t)
	order, err := shop.buying.Start(t.Context(), paymentsvc.PaymentTypeCard, paymentsvc.MustParseAmount("1"))
	require.NoError(t, err)
	_, err = shop.Store.DB().ExecContext(t.Context(), `UPDATE orders SET state = 'pending', redirect_url = 'javascript:alert(1)'`)
	require.NoError(t, err)
	w := ask(shop.handler, http.MethodGet, "/orders/"+order.UserData, nil)
	assert.NotContains(t, w.Body.String(), "javascript:")
}

func TestAnOrderThatIsNotThereIsNotShown(t *testing.T) {
	shop := newShop(t)
	w := ask(shop.handler, http.MethodGet, "/orders/nobody", nil)
	require.Equal(t, 404, w.Code)
	shop.Store.Close()
	w = ask(shop.handler, http.MethodGet, "/orders/nobody", nil)
	require.Equal(t, 503, w.Code, "the database is away, which is no news of the order")
	assert.Equal(t, "5", w.Header().Get("Refresh"))
}

func TestWhatNoDatabaseHoldsIsNotThere(t *testing.T) {
	testdb.Each(t, func(t *testing.T, database string) {
		shop, office := newShop(t), newOffice(t)
		shop.Store = openStoreAt(t, database)
		office.Store = shop.Store
		office.payout("x", store.StateUnknown, "no answer")
		for _, bad := range []string{"%00", "%ff"} {
			assert.Equal(t, 404, ask(shop.handler, http.MethodGet, "/orders/"+bad, nil).Code)
			for _, path := range []string{
				"/orders/" + bad, "/payouts/" + bad, "/files/" + bad, "/orders?state=" + bad, "/payouts?file=" + bad,
				"/payouts?after=1." + bad, "/notifications?event=" + bad, "/notifications?after=1." + bad,
			} {
				assert.Equal(t, 404, ask(office.handler, http.MethodGet, path, nil).Code, path)
			}
			text, err := url.QueryUnescape(bad)
			require.NoError(t, err)
			for _, field := range []string{"decision", "seen"} {
				w := office.decide("/payouts/x", store.DecidePaid, url.Values{"sure": {"yes"}, field: {"a" + text}})
				assert.Equal(t, 409, w.Code, field)
			}
		}
		w := office.decide("/payouts/x", store.DecidePaid, url.Values{
			"sure": {"yes"}, "order_id": {"o\xff\x00" + strings.Repeat("1", 4000)},
		}, "X-User", "J\xf6rg")
		require.Equal(t, 303, w.Code, "what people and their login write is taken as it is")
		assert.Contains(t, ask(office.handler, http.MethodGet, "/payouts/x", nil).Body.String(), "J\ufffdrg")
	})
}

func TestNotificationsComeThroughFromAnywhere(t *testing.T) {
	shop := newShop(t)
	w := ask(shop.handler, http.MethodPost, "/notifications", url.Values{"a": {"b"}}, "Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site")
	assert.Equal(t, "told a=b\n", w.Body.String(), "its signature protects it")
}

func TestHealthAndReadiness(t *testing.T) {
	shop := newShop(t)
	assert.Equal(t, 200, ask(shop.handler, http.MethodGet, "/healthz", nil).Code)
	assert.Equal(t, 200, ask(shop.handler, http.MethodGet, "/readyz", nil).Code)
	shop.Ready = func(ctx context.Context) error {
		_, bounded := ctx.Deadline()
		assert.True(t, bounded)
		return errors.New("database at 10.0.0.1 is away")
	}
	w := ask(shop.handler, http.MethodGet, "/readyz", nil)
	assert.Equal(t, 503, w.Code)
	assert.Equal(t, "not ready\n", w.Body.String())
	assert.Equal(t, 200, ask(shop.handler, http.MethodGet, "/healthz", nil).Code, "the process itself is well")
}

func TestEveryPageForbidsScriptsAndFrames(t *testing.T) {
	shop, office := newShop(t), newOffice(t)
	for _, page := range []struct {
		handler http.Handler
		path    string
	}{
		{shop.handler, "/"}, {shop.handler, "/orders/nobody"}, {shop.handler, "/nothing"}, {shop.handler, "/style.css"},
		{office.handler, "/"}, {office.handler, "/orders"}, {office.handler, "/payouts/nobody"}, {office.handler, "/nothing"},
	} {
		header := ask(page.handler, http.MethodGet, page.path, nil).Header()
		policy := header.Get("Content-Security-Policy")
		assert.Contains(t, policy, "default-src 'none'", page.path)
		assert.Contains(t, policy, "frame-ancestors 'none'", page.path)
		assert.NotContains(t, policy, "script-src", page.path)
		assert.Equal(t, "nosniff", header.Get("X-Content-Type-Options"), page.path)
		assert.Equal(t, "no-referrer", header.Get("Referrer-Policy"), page.path)
	}
}

func TestAPanicIsLoggedWithoutWhatItHolds(t *testing.T) {
	var logged strings.Builder
	shop := newShop(t)
	shop.Log = slog.New(slog.NewTextHandler(&logged, nil))
	shop.Notifications = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { panic("what " + r.FormValue("card")) })
	w := ask(shop.Handler(), http.MethodPost, "/notifications", url.Values{"card": {testCard}})
	assert.Equal(t, 500, w.Code)
	assert.Contains(t, logged.String(), "public_test.go:", "where it was")
	assert.Contains(t, logged.String(), "route=/notifications")
	assert.NotContains(t, logged.String()+w.Body.String(), testCard)

	shop.Notifications = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { ask(shop.Handler(), http.MethodPost, "/notifications", nil) })
}

func TestEveryTimeOfAServerIsBounded(t *testing.T) {
	begun := time.Now()
	server := Server(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		deadline, bounded := r.Context().Deadline()
		assert.True(t, bounded, "a database that hangs must not hold a request for ever")
		assert.WithinRange(t, deadline, begun.Add(time.Minute), time.Now().Add(time.Minute))
	}), time.Minute, logOf(t))
	assert.Equal(t, http.StatusOK, ask(server.Handler, http.MethodGet, "/", nil).Code)
	for name, limit := range map[string]time.Duration{
		"header": server.ReadHeaderTimeout, "request": server.ReadTimeout, "answer": server.WriteTimeout, "idle": server.IdleTimeout,
	} {
		assert.Positive(t, limit, name)
	}
	assert.Greater(t, server.WriteTimeout, time.Minute, "the time that an answer may take is not all there is")
	assert.Positive(t, server.MaxHeaderBytes)
}
