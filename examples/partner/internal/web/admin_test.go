package web

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
)

const testCard = "4111111111111111"

// office is the operators' pages over a database.
type office struct {
	*Admin
	t        *testing.T
	handler  http.Handler
	balance  func() (*paymentsvc.Balance, error)
	enqueued []string
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t: t}
	o.balance = func() (*paymentsvc.Balance, error) {
		return &paymentsvc.Balance{
			PayoutBalance: paymentsvc.MustParseAmount("1234.50"), ExpectedBalance: paymentsvc.MustParseAmount("2000"), Currency: "XTS",
		}, nil
	}
	o.Admin = &Admin{
		Store:   openStore(t),
		Balance: NewBalance(func(context.Context) (*paymentsvc.Balance, error) { return o.balance() }, logOf(t)),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { plain(w, 200, "metrics") }),
		Enqueue: func(_ context.Context, _ *sql.Tx, userData ...string) error {
			o.enqueued = append(o.enqueued, userData...)
			return nil
		},
		Hosts: []string{"office.example"}, UserHeader: "X-User", Log: logOf(t),
	}
	o.handler = o.Handler()
	return o
}

// order makes an order in a state, and payout a payout.
func (o *office) order(userData string, state store.State, attention string) {
	o.t.Helper()
	_, err := o.Store.DB().ExecContext(o.t.Context(), `INSERT INTO orders
		(user_data, payment_type, amount, state, attention, attempts, doubted, due_at, created_at, updated_at)
		VALUES ($1, 'card', '10.50', $2, $3, 1, 1, 0, 1800000000000, 1800000000000)`, userData, string(state), attention)
	require.NoError(o.t, err)
}

func (o *office) payout(userData string, state store.State, attention string) {
	o.t.Helper()
	_, err := o.Store.AddPayoutFile(o.t.Context(), "f1", "march.csv")
	require.NoError(o.t, err)
	_, err = o.Store.DB().ExecContext(o.t.Context(), `INSERT INTO payouts
		(user_data, reference, file_id, line, amount, destination, state, attention, attempts, doubted, due_at, created_at, updated_at)
		SELECT $1, 'r-' || $1, 'f1', COUNT(*) + 2, '99.90', $2, $3, $4, 1, 1, 0, 1800000000000, 1800000000000 FROM payouts`,
		userData, testCard, string(state), attention)
	require.NoError(o.t, err)
}

func (o *office) page(path string) string {
	o.t.Helper()
	w := ask(o.handler, http.MethodGet, path, nil)
	require.Equal(o.t, 200, w.Code, path)
	require.NotContains(o.t, w.Body.String(), testCard, path)
	require.NotContains(o.t, w.Body.String(), "<script", path)
	return w.Body.String()
}

// decide presses a button on a row's page, with what stands in its form.
func (o *office) decide(path string, kind store.DecisionKind, fields url.Values, headers ...string) *httptest.ResponseRecorder {
	o.t.Helper()
	table, userData, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	row, err := o.Store.Row(o.t.Context(), store.Table(table), userData)
	require.NoError(o.t, err)
	form := url.Values{"decision": {string(kind)}, "seen": {row.Version()}}
	for name, values := range fields {
		form[name] = values
	}
	return ask(o.handler, http.MethodPost, path, form, headers...)
}

func (o *office) state(table store.Table, userData string) store.State {
	o.t.Helper()
	row, err := o.Store.Row(o.t.Context(), table, userData)
	require.NoError(o.t, err)
	return row.State
}

func TestTheOverviewShowsWhatStandsWhere(t *testing.T) {
	o := newOffice(t)
	page := o.page("/")
	assert.Contains(t, page, "1234.50 XTS")
	assert.Contains(t, page, "Nothing.")

	o.order("order-1", store.StatePending, "")
	o.order("order-2", store.StateFailed, "SUCCESS after FAILURE")
	o.payout("payout-1", store.StateUnknown, "no answer: ask")
	o.payout("payout-2", store.StateSucceeded, "")
	o.Paused = func() string { return "the service refuses the caller" }
	page = o.page("/")
	for _, text := range []string{
		"Orders: 2", "Payouts: 2", `href="/payouts?state=unknown">1<`, "1 needs a person", `href="/payouts/payout-1"`,
		"no answer: ask", "SUCCESS after FAILURE", "march.csv", "2 of 2", "the service refuses the caller", "2027-01-15 08:00:00",
	} {
		assert.Contains(t, page, text)
	}
	assert.Empty(t, ask(o.handler, http.MethodGet, "/", nil).Header().Get("Refresh"))
	assert.Equal(t, "5", ask(o.handler, http.MethodGet, "/?refresh=1", nil).Header().Get("Refresh"))
}

func TestABalanceThatIsNotKnownIsNotZero(t *testing.T) {
	o := newOffice(t)
	asked := 0
	o.balance = func() (*paymentsvc.Balance, error) {
		asked++
		return nil, errors.New("the service is away")
	}
	now := time.Unix(1_800_000_000, 0)
	o.Balance.now = func() time.Time { return now }
	for range 3 {
		page := o.page("/")
		assert.Contains(t, page, "Unknown: the service did not say.")
		assert.Contains(t, page, "Needs a person", "the rest of the page is there")
	}
	assert.Equal(t, 1, asked, "it is asked now and then only")
	now = now.Add(balanceAge)
	o.page("/")
	assert.Equal(t, 2, asked)
}

func TestListsCanBePickedAndPaged(t *testing.T) {
	o := newOffice(t)
	for i := range rowsPerPage + 5 {
		o.payout(fmt.Sprintf("payout-%03d", i), store.StatePending, "")
	}
	o.payout("parked", store.StateUnknown, "no answer")
	page := o.page("/payouts")
	assert.Equal(t, rowsPerPage, strings.Count(page, `data-label="user_data"`))
	_, rest, found := strings.Cut(page, `class="button" href="`)
	require.True(t, found)
	next, _, _ := strings.Cut(rest, `"`)
	page = o.page(strings.ReplaceAll(next, "&amp;", "&"))
	assert.Equal(t, 6, strings.Count(page, `data-label="user_data"`))
	assert.Contains(t, page, "First page")
	assert.Contains(t, page, "•••• 1111")

	for query, want := range map[string]int{"state=unknown": 1, "attention=1": 1, "state=failed": 0, "file=f1&state=unknown": 1, "file=other": 0} {
		assert.Equal(t, want, strings.Count(o.page("/payouts?"+query), `data-label="user_data"`), query)
	}
	assert.Contains(t, o.page("/orders"), "None.")
}

func TestAPersonDecides(t *testing.T) {
	sure := url.Values{"sure": {"yes"}}
	for _, test := range []struct {
		name   string
		path   string
		from   store.State
		kind   store.DecisionKind
		fields url.Values
		status int
		to     store.State
		says   string
	}{
		{"a payout was paid", "/payouts/x", store.StateUnknown, store.DecidePaid, sure, 303, store.StateSucceeded, "counts as paid"},
		{"a payout was paid, with its order_id", "/payouts/x", store.StateUnknown, store.DecidePaid,
			url.Values{"sure": {"yes"}, "order_id": {" o-77 "}}, 303, store.StateSucceeded, "o-77"},
		{"a payout is under way", "/payouts/x", store.StateUnknown, store.DecideFound, url.Values{"order_id": {"o-77"}}, 303, store.StatePending, "counts as under way"},
		{"a payout is under way, nobody knows where", "/payouts/x", store.StateUnknown, store.DecideFound, nil, 422, store.StateUnknown, "Give the order_id"},
		{"a payout is sent again", "/payouts/x", store.StateUnknown, store.DecideAgain, sure, 303, store.StateCreated, "sent again"},
		{"a payout is sent again without being sure", "/payouts/x", store.StateUnknown, store.DecideAgain, nil, 422, store.StateUnknown, "Confirm first"},
		{"a payout will not be paid", "/payouts/x", store.StateUnknown, store.DecideUnpaid, sure, 303, store.StateFailed, "counts as failed"},
		{"a payout with an order_id is not sent again", "/payouts/x", store.StateUnknown, store.DecideAgain,
			url.Values{"sure": {"yes"}, "order_id": {"o-77"}}, 422, store.StateUnknown, "order_id"},
		{"a payout that is paid is not sent again", "/payouts/x", store.StateSucceeded, store.DecideAgain, sure, 409, store.StateSucceeded, "nothing was decided"},
		{"an order is asked for", "/orders/x", store.StateUnknown, store.DecideAsk, nil, 303, store.StateUnknown, "being asked"},
		{"an order is not sent again by hand", "/orders/x", store.StateUnknown, store.DecideAgain, sure, 409, store.StateUnknown, "nothing was decided"},
		{"an order was paid", "/orders/x", store.StatePending, store.DecidePaid, sure, 303, store.StateSucceeded, "counts as paid"},
		{"nonsense", "/orders/x", store.StateUnknown, "melt", nil, 409, store.StateUnknown, "nothing was decided"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOffice(t)
			table := store.Payouts
			if strings.HasPrefix(test.path, "/orders/") {
				table = store.Orders
				o.order("x", test.from, "")
			} else {
				o.payout("x", test.from, "")
			}
			w := o.decide(test.path, test.kind, test.fields, "X-User", "ann@office.example")
			require.Equal(t, test.status, w.Code, w.Body)
			assert.Equal(t, test.to, o.state(table, "x"))
			text := w.Body.String()
			if test.status == 303 {
				text = o.page(w.Header().Get("Location"))
				assert.Contains(t, text, "ann@office.example")
			}
			assert.Contains(t, text, test.says)
			if test.to == store.StateCreated {
				assert.Equal(t, []string{"x"}, o.enqueued)
			} else {
				assert.Empty(t, o.enqueued)
			}
		})
	}
}

func TestADecisionOfAPageThatIsOldIsRefused(t *testing.T) {
	o := newOffice(t)
	o.payout("x", store.StateUnknown, "no answer")
	w := o.decide("/payouts/x", store.DecideAgain, url.Values{"sure": {"yes"}, "seen": {"another"}})
	assert.Equal(t, 409, w.Code)
	assert.Equal(t, store.StateUnknown, o.state(store.Payouts, "x"))
	w = o.decide("/payouts/x", store.DecideAgain, url.Values{"sure": {"yes"}, "seen": nil})
	assert.Equal(t, 422, w.Code)
}

func TestAForeignSiteDecidesNothing(t *testing.T) {
	for _, test := range []struct {
		name    string
		headers []string
		host    string
		status  int
	}{
		{"its form", []string{"Sec-Fetch-Site", "cross-site"}, "localhost:8081", 403},
		{"its form on another port of this machine", []string{"Sec-Fetch-Site", "same-site"}, "localhost:8081", 403},
		{"its form in an old browser", []string{"Origin", "https://elsewhere.example"}, "localhost:8081", 403},
		{"a name of its own that leads here", []string{"Sec-Fetch-Site", "same-origin"}, "elsewhere.example:8081", 421},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOffice(t)
			o.payout("x", store.StateUnknown, "no answer")
			row, err := o.Store.Row(t.Context(), store.Payouts, "x")
			require.NoError(t, err)
			form := url.Values{"decision": {"again"}, "sure": {"yes"}, "seen": {row.Version()}}
			r := httptest.NewRequest(http.MethodPost, "/payouts/x", strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set(test.headers[0], test.headers[1])
			r.Host = test.host
			w := httptest.NewRecorder()
			o.handler.ServeHTTP(w, r)
			assert.Equal(t, test.status, w.Code)
			assert.Equal(t, store.StateUnknown, o.state(store.Payouts, "x"))
			assert.Empty(t, o.enqueued)
		})
	}
}

func TestThePagesAnswerToTheirNamesOnly(t *testing.T) {
	o := newOffice(t)
	for host, want := range map[string]int{
		"localhost": 200, "127.0.0.1:8081": 200, "[::1]:8081": 200, "Office.example": 200, "office.example:443": 200,
		"elsewhere.example": 421, "": 421, "127.0.0.1.elsewhere.example": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		o.handler.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, host)
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	o := newOffice(t)
	for _, path := range []string{"/orders/nobody", "/payouts/nobody", "/files/nobody", "/nothing"} {
		assert.Equal(t, 404, ask(o.handler, http.MethodGet, path, nil).Code, path)
	}
	w := ask(o.handler, http.MethodPost, "/payouts/nobody", url.Values{"decision": {"again"}, "sure": {"yes"}, "seen": {"x"}})
	assert.Equal(t, 404, w.Code)
	o.Store.Close()
	for _, path := range []string{"/", "/orders", "/payouts/x", "/notifications", "/files/x"} {
		assert.Equal(t, 503, ask(o.handler, http.MethodGet, path, nil).Code, path)
	}
}

func TestAFileShowsTheRowsThatAreNoPayouts(t *testing.T) {
	o := newOffice(t)
	o.payout("x", store.StatePending, "")
	_, err := o.Store.DB().ExecContext(t.Context(), `INSERT INTO payout_rows_refused VALUES ('f1', 17, 'the amount is no number')`)
	require.NoError(t, err)
	page := o.page("/files/f1")
	for _, text := range []string{"march.csv", "17", "the amount is no number", "1 of 1", "not read to its end"} {
		assert.Contains(t, page, text)
	}
	_, err = o.Store.AddPayoutFile(t.Context(), "f2", "april.csv")
	require.NoError(t, err)
	_, err = o.Store.DB().ExecContext(t.Context(), `INSERT INTO payout_rows_known (file_id, line, user_data) VALUES ('f2', 2, 'x')`)
	require.NoError(t, err)
	assert.Contains(t, o.page("/files/f2"), "1 of 1", "what another file brought first is waited for too")
}

func TestNotificationsAndRefundsAreShown(t *testing.T) {
	o := newOffice(t)
	o.order("x", store.StatePending, "")
	for _, event := range []paymentsvc.EventType{paymentsvc.EventPaymentStatusChanged, paymentsvc.EventRefundStatusChanged} {
		require.NoError(t, o.Store.ApplyNotification(t.Context(), &paymentsvc.Notification{
			Event: event, OrderID: "o-1", UserData: "x", StatusDescription: "SUCCESS", Amount: paymentsvc.MustParseAmount("10.50"),
		}))
	}
	for path, rows := range map[string]int{
		"/notifications": 2, "/notifications?event=refund.status_changed": 1, "/notifications?event=none": 0, "/orders/x": 2,
	} {
		assert.Equal(t, rows, strings.Count(o.page(path), `data-label="Received"`), path)
	}
}
