package ops_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
	"github.com/paymentsvc/paymentsvc/durable/ops"
)

const card = "4111111111111111"

// service chooses the outcome by the first digit of the amount: 1 is started, 2 is unknown, 3 is rejected.
type service struct {
	durable.Service
	mu      sync.Mutex
	started map[string]int // by user_data
}

func (s *service) InitPayout(_ context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
	s.mu.Lock()
	s.started[r.UserData]++
	s.mu.Unlock()
	switch r.Amount.String()[0] {
	case '2':
		return nil, &paymentsvc.Error{Endpoint: "init_payout"}
	case '3':
		return nil, &paymentsvc.Error{
			Endpoint: "init_payout", Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 400,
			Err: &paymentsvc.ServiceError{Code: "limit"},
		}
	}
	return &paymentsvc.InitPayoutResponse{OrderID: "order-" + r.UserData}, nil
}

// starts returns how often a payout was started.
func (s *service) starts(userData string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started[userData]
}

// total returns the number of started payouts.
func (s *service) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.started)
}

func (s *service) DecodesErrors() bool { return true }

func (s *service) GetBalance(context.Context) (*paymentsvc.Balance, error) {
	return &paymentsvc.Balance{
		PayoutBalance:   paymentsvc.MustParseAmount("1234.50"),
		ExpectedBalance: paymentsvc.MustParseAmount("2000"), Currency: "XTS",
	}, nil
}

// office is the page over a SQLite database.
type office struct {
	t       *testing.T
	service *service
	db      *sql.DB
	store   *durable.Store
	handler http.Handler
}

// age ends the Grace of all calls and of the last hold. It increments claims, because durable would otherwise treat the
// last claim as lost, and hold payouts.
func (o *office) age(t *testing.T) {
	t.Helper()
	o.exec(`UPDATE durable_rows SET claimed_at = 0, claims = claims + 1`)
	o.exec(`UPDATE durable_control SET held_at = 0`)
}

func (o *office) exec(statement string, args ...any) {
	o.t.Helper()
	_, err := o.db.ExecContext(o.t.Context(), statement, args...)
	require.NoError(o.t, err)
}

func (o *office) hold() {
	o.t.Helper()
	_, err := o.store.HoldPayouts(o.t.Context(), "ada", "a restore")
	require.NoError(o.t, err)
	o.exec(`UPDATE durable_control SET held_at = 0`) // the end of Grace
}

func newOffice(t *testing.T, c ops.Config) *office { return newOfficeWith(t, c, durable.Config{}) }

func newOfficeWith(t *testing.T, c ops.Config, d durable.Config) *office {
	t.Helper()
	o := &office{t: t, service: &service{started: map[string]int{}}, db: dbtest.SQLite(t).DB}
	require.NoError(t, durable.Migrate(t.Context(), o.db))
	o.open(c, d)
	return o
}

// open opens the store and the page.
func (o *office) open(c ops.Config, d durable.Config) {
	o.t.Helper()
	if c.Login == nil {
		c.Login = ada
	}
	quiet := slog.New(slog.DiscardHandler)
	d.Service, d.Project, d.MaxConsecutiveRejections, d.Log = o.service, "test", -1, quiet
	var err error
	o.store, err = durable.Open(o.t.Context(), o.db, d)
	require.NoError(o.t, err)
	c.Log = quiet
	o.handler = ops.New(o.store, c)
}

// queue stores payouts with these amounts and the references "salary-1" and so on, and sends them.
func (o *office) queue(batch string, amounts ...string) []durable.Queued {
	o.t.Helper()
	tx, err := o.db.BeginTx(o.t.Context(), nil)
	require.NoError(o.t, err)
	_, err = o.store.AddBatch(o.t.Context(), tx, durable.Batch{ID: batch, Name: batch + ".csv"})
	require.NoError(o.t, err)
	payouts := make([]durable.NewPayout, len(amounts))
	for i, amount := range amounts {
		payouts[i] = durable.NewPayout{
			Reference: fmt.Sprintf("salary-%d", i+1), Amount: paymentsvc.MustParseAmount(amount),
			Destination: card, Batch: batch, Line: int64(i + 2),
		}
	}
	queued, err := o.store.QueuePayouts(o.t.Context(), tx, payouts...)
	require.NoError(o.t, err)
	require.NoError(o.t, tx.Commit())
	o.send()
	return queued
}

// copyRow adds n copies of the only row of a batch to a batch, each created later than the one before.
func (o *office) copyRow(from, to string, n int) {
	o.t.Helper()
	var columns, values string
	require.NoError(o.t, o.db.QueryRowContext(o.t.Context(), `SELECT group_concat(name),
		group_concat(CASE name WHEN 'user_data' THEN 'user_data || $1 || n' WHEN 'created_at' THEN 'created_at + n'
			WHEN 'batch' THEN '$1' ELSE name END)
		FROM pragma_table_info('durable_rows')`).Scan(&columns, &values))
	//nolint:gosec // columns of the schema
	_, err := o.db.ExecContext(o.t.Context(), `WITH RECURSIVE numbers (n) AS (
		SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $3)
		INSERT INTO durable_rows (`+columns+`) SELECT `+values+` FROM durable_rows, numbers WHERE batch = $2`, to, from, n)
	require.NoError(o.t, err)
}

func (o *office) send() {
	o.t.Helper()
	_, err := o.store.RunBatch(o.t.Context(), durable.BatchLimit{})
	if !errors.Is(err, durable.ErrHeld) && !errors.Is(err, durable.ErrPaused) {
		require.NoError(o.t, err)
	}
}

func (o *office) request(method, path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	o.t.Helper()
	body := strings.NewReader(form.Encode())
	r := httptest.NewRequestWithContext(o.t.Context(), method, "http://localhost:8081"+path, body)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, r)
	require.NotContains(o.t, w.Body.String(), card, path)
	require.NotContains(o.t, w.Body.String(), "<script", path)
	return w
}

// respond returns the body of a response with a status.
func (o *office) respond(code int, method, path string, form url.Values) string {
	o.t.Helper()
	w := o.request(method, path, form)
	require.Equal(o.t, code, w.Code, "%s: %s", path, w.Body)
	return w.Body.String()
}

func (o *office) page(path string) string {
	o.t.Helper()
	return o.respond(200, http.MethodGet, path, nil)
}

// pages returns the references on a page and on the pages after it.
func (o *office) pages(path string) (list []string) {
	o.t.Helper()
	for path != "" {
		page := o.page(path)
		list = append(list, references(page)...)
		next := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(page)
		path = ""
		if next != nil {
			path = html.UnescapeString(next[1])
		}
	}
	return list
}

func (o *office) row(userData string) durable.Row {
	o.t.Helper()
	for row, err := range o.store.Rows(o.t.Context(), durable.Filter{UserData: []string{userData}}) {
		require.NoError(o.t, err)
		return row
	}
	o.t.Fatal("no such row")
	return durable.Row{}
}

// hidden returns the hidden fields of the form with an attribute, such as id="confirm".
func hidden(page, id string) url.Values {
	_, form, _ := strings.Cut(page, id)
	form, _, _ = strings.Cut(form, "</form>")
	fields := url.Values{}
	input := regexp.MustCompile(`type="hidden" name="([^"]+)" value="([^"]*)"`)
	for _, field := range input.FindAllStringSubmatch(form, -1) {
		fields.Add(field[1], html.UnescapeString(field[2]))
	}
	return fields
}

// assertTexts asserts that a page contains texts.
func assertTexts(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		assert.Contains(t, page, text)
	}
}

// confirmation returns the hidden fields of a form of a page, with the confirmation.
func confirmation(page, id string) url.Values {
	form := hidden(page, id)
	form.Set("sure", "yes")
	return form
}

// confirm sends the confirmation of a form of a page with more fields, and returns the form.
func (o *office) confirm(path string, fields url.Values, page, id string) url.Values {
	o.t.Helper()
	form := confirmation(page, id)
	maps.Copy(form, fields)
	require.Equal(o.t, 303, o.request(http.MethodPost, path, form).Code)
	return form
}

// ada is a login that names every operator ada.
func ada(*http.Request) (string, bool) { return "ada", true }

func TestOverviewShowsRowsInNeedOfReview(t *testing.T) {
	o := newOffice(t, ops.Config{Notice: "a demo"})
	assertTexts(t, o.page("/"), "1234.50 XTS", "No row needs review.", "None yet.", "a demo")
	queued := o.queue("march", "1.00", "2.00", "2.50")
	assertTexts(t, o.page("/?refresh=1"), "2 need review, oldest ", "march.csv", "3 of 3", "salary-2",
		"••••\u00a01111", "/row/"+queued[1].UserData, `state=pending">1<`, `state=unknown">2<`)
	assert.Equal(t, "5", o.request(http.MethodGet, "/?refresh=1", nil).Header().Get("Refresh"))
	assert.Contains(t, o.page("/files"), "batch=march")
}

func TestFilesShowRejectedRowsAndTheImport(t *testing.T) {
	o := newOffice(t, ops.Config{})
	for n, c := range []struct {
		rejected, expected, line, complete int64
		want                               string
	}{
		{0, 0, 3, 1, `Called"><progress max="0" value="0" aria-label="Payouts called"></progress> 0 of 0</td>`},
		{1, 0, 3, 1, `0 of 0<div class="why">1 rejected row: not paid</div></td>`},
		{3, 0, 1001, 0, `0 of 0<div class="why">import not complete: line 1001</div>` +
			`<div class="why">3 rejected rows: not paid</div></td>`},
		{0, 2500, 1001, 0, `0 of 0<div class="why">import not complete: line 1001 of about 2501</div></td>`},
		{2, 2500, 9, 0, `line 9 of about 2503</div><div class="why">2 rejected rows: not paid</div></td>`},
	} {
		o.exec(`INSERT INTO durable_batches
			(id, name, created_at, rejected, expected_rows, line, complete) VALUES ($1, '', 1, $2, $3, $4, $5)`,
			n, c.rejected, c.expected, c.line, c.complete)
		for _, path := range []string{"/", "/files"} {
			assert.Contains(t, o.page(path), c.want)
		}
	}
}

func TestPrunedPayoutsAreCountedAndFound(t *testing.T) {
	o := newOffice(t, ops.Config{})
	queued := o.queue("march", "1.00")
	orderID := "order-" + queued[0].UserData
	n := &paymentsvc.Notification{
		Event: paymentsvc.EventPayoutStatusChanged, OrderID: orderID, StatusDescription: paymentsvc.StatusSuccess,
		Amount: paymentsvc.MustParseAmount("1.00"),
	}
	require.NoError(t, o.store.Notified(t.Context(), n))
	const day = 24 * time.Hour
	o.exec(`UPDATE durable_rows SET created_at = created_at - 86400000, updated_at = updated_at - 86400000;
		UPDATE durable_notifications SET received_at = received_at - 86400000`)
	assert.NotContains(t, o.page("/files"), "pruned")
	pruned, err := o.store.Prune(t.Context(), day)
	require.NoError(t, err)
	require.EqualValues(t, 1, pruned)
	assert.Contains(t, o.page("/files"), "0 of 0, 1 pruned<")
	for _, text := range []string{"salary-1", orderID, queued[0].UserData} {
		assert.Contains(t, o.page("/find?q="+text), "was pruned, in a final state", text)
	}
	assert.NotContains(t, o.page("/find?q=salary-2"), "pruned")
	require.NoError(t, o.store.Notified(t.Context(), n))
	assert.Contains(t, o.page("/find?q="+orderID), "payout.status_changed", "its late notification")
}

func TestOverviewDoesNotCallAnUnknownBalanceZero(t *testing.T) {
	asked := 0
	ctx, cancel := context.WithCancel(t.Context())
	o := newOffice(t, ops.Config{Balance: func(ctx context.Context) (*paymentsvc.Balance, error) {
		cancel()
		assert.NoError(t, ctx.Err(), "other requests wait for it too")
		asked++
		return &paymentsvc.Balance{}, errors.New("the service is unavailable")
	}})
	for range 2 {
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", nil)
		o.handler.ServeHTTP(httptest.NewRecorder(), request)
		assert.Contains(t, o.page("/"), "Unknown: the service did not respond.")
	}
	assert.Equal(t, 1, asked, "it is asked once in 10 seconds")
}

func TestRowsAreFilteredAndPaged(t *testing.T) {
	o := newOffice(t, ops.Config{})
	amounts := []string{"3.00", "2.00"}
	for range 53 {
		amounts = append(amounts, "1.00")
	}
	o.queue("march", amounts...)
	for _, path := range []string{"/rows?kind=payout", "/rows?order=oldest"} {
		assert.ElementsMatch(t, lines(1, 55), o.pages(path), path)
	}
	for query, want := range map[string]int{
		"state=unknown": 1, "state=rejected": 1, "code=limit": 1, "code=other": 0, "review=1": 1, "batch=april": 0,
		"kind=payment": 0, "held=1": 0, "batch=march&state=unknown": 1,
	} {
		assert.Equal(t, want, strings.Count(o.page("/rows?"+query), `aria-label="Select `), query)
	}
}

// links returns the targets of the links whose text matches a pattern.
func links(page, text string) (targets []string) {
	for _, link := range regexp.MustCompile(`href="([^"]+)">`+text).FindAllStringSubmatch(page, -1) {
		targets = append(targets, strings.ReplaceAll(link[1], "&amp;", "&"))
	}
	return targets
}

func TestAgesAreShownAndFiltered(t *testing.T) {
	o := newOfficeWith(t, ops.Config{}, durable.Config{PendingReview: 48 * time.Hour})
	queued := o.queue("march", "1.00", "1.00", "2.00")
	for _, statement := range []string{
		`UPDATE durable_rows SET created_at = created_at - 3 * 86400000 WHERE user_data = $1`,
		`UPDATE durable_orders SET created_at = created_at - 3 * 86400000 WHERE user_data = $1`,
	} {
		o.exec(statement, queued[0].UserData)
	}
	overview := o.page("/")
	assertTexts(t, overview, `state=pending">2</a> <span class="quiet">oldest 3 d`, "2 need review, oldest 3 d",
		"1 of them pending for too long")
	const overdue = "Pending, 3 d after its creation: its notification may be lost."
	unclear := strings.Index(overview, "No clear response")
	assert.Less(t, strings.Index(overview, overdue), unclear, "the oldest is the first")
	for _, path := range append(links(overview, "2 need review"), links(overview, "2</a> <span")...) {
		page := o.page(path)
		assert.Less(t, strings.Index(page, queued[0].UserData), strings.LastIndex(page, "/row/"), path)
		assert.Contains(t, page, `<option value="oldest" selected>`, path)
		assert.Contains(t, page, overdue, path)
		assert.Contains(t, page, "3 d ago", path)
	}
	assert.Len(t, links(overview, "2</a> <span"), 1)
	assert.Contains(t, o.page("/row/"+queued[0].UserData), overdue)
	for query, want := range map[string]int{
		"age=1h0m0s": 1, "age=24h0m0s&review=1": 1, "age=168h0m0s": 0, "age=36h": 1, "age=1h0m0s&state=unknown": 0,
		"age=": 3, "age=nonsense": 3, "age=-1h": 3,
	} {
		assert.Equal(t, want, strings.Count(o.page("/rows?"+query), `aria-label="Select `), query)
	}
	for query, selected := range map[string]string{"age=24h": "24h0m0s", "age=36h": "36h0m0s"} {
		assert.Contains(t, o.page("/rows?"+query), `<option value="`+selected+`" selected>1 d or more</option>`)
	}
	form := url.Values{"decision": {"paid"}, "scope": {"all"}, "age": {"1h"}}
	w := o.request(http.MethodPost, "/bulk", form)
	assert.Contains(t, w.Body.String(), `<dd id="n">1</dd>`, "the age limits a decision about all rows")
	assert.Contains(t, w.Body.String(), `name="age" value="1h0m0s"`)
	for name, value := range map[string]string{"order": "oldest", "age": "-1h"} {
		form = url.Values{"decision": {"paid"}, "scope": {"all"}, name: {value}}
		assert.Equal(t, 422, o.request(http.MethodPost, "/bulk", form).Code, "every row has this %s", name)
	}
}

func TestOverdueRowIsMarkedAsStillPending(t *testing.T) {
	o := newOfficeWith(t, ops.Config{Login: ada}, durable.Config{PendingReview: 48 * time.Hour})
	queued := o.queue("march", "1.00", "1.00")
	assert.NotContains(t, o.page("/row/"+queued[0].UserData), `id="choice-seen"`, "it is too young")
	o.exec(`UPDATE durable_rows SET created_at = created_at - 3 * 86400000;
		UPDATE durable_orders SET created_at = created_at - 3 * 86400000`)
	row := "/row/" + queued[0].UserData
	o.confirm(row, url.Values{"decision": {"seen"}}, o.page(row), `id="choice-seen"`)
	assert.NotContains(t, o.page(row), "Needs review")
	assert.Equal(t, durable.StatePending, o.row(queued[0].UserData).State)
	form := url.Values{"decision": {"seen"}, "scope": {"all"}, "review": {"1"}}
	preview := o.request(http.MethodPost, "/bulk", form).Body.String()
	assert.Contains(t, preview, `<dd id="n">1</dd>`)
	o.confirm("/bulk", nil, preview, `id="confirm"`)
	assert.NotContains(t, o.page("/"), "pending for too long")
}

func TestPageReportsAMissingWitness(t *testing.T) {
	const note = "No witness is configured"
	assert.Contains(t, newOffice(t, ops.Config{}).page("/"), note, "SQLite's own file is beside the database")
	witness := durable.FileWitness(filepath.Join(t.TempDir(), "mark"))
	o := newOfficeWith(t, ops.Config{}, durable.Config{Witness: witness})
	assert.NotContains(t, o.page("/"), note)
}

func TestSearchFindsByEveryName(t *testing.T) {
	o := newOffice(t, ops.Config{})
	queued := o.queue("march", "1.00", "2.00", "2.10")
	found := durable.Decision{
		Kind: durable.DecideFound, UserData: queued[1].UserData, OrderID: "salary-3", By: "ada",
		Version: o.row(queued[1].UserData).Version,
	}
	require.NoError(t, o.store.Decide(t.Context(), found))
	assert.Equal(t, []string{"salary-2", "salary-3"}, slices.Sorted(slices.Values(references(o.page("/find?q=salary-3")))))
	for _, text := range []string{queued[0].UserData, "order-" + queued[0].UserData, " salary-1 "} {
		w := o.request(http.MethodGet, "/find?q="+url.QueryEscape(text), nil)
		assert.Equal(t, 303, w.Code, text)
		assert.Equal(t, "/row/"+queued[0].UserData, w.Header().Get("Location"))
	}
	assert.Contains(t, o.page("/find?q=nothing"), "No row has exactly")
	assert.Contains(t, o.page("/find"), "No row has exactly")
	assert.Equal(t, 404, o.request(http.MethodGet, "/row/nothing", nil).Code)
}

func TestDecisionAppliesToTheRowAsSeen(t *testing.T) {
	o := newOffice(t, ops.Config{Login: func(r *http.Request) (string, bool) { return r.Header.Get("X-User"), true }})
	queued := o.queue("march", "2.00", "2.10", "2.20", "2.30")
	last := "" // the last page
	decide := func(n int, fields url.Values, headers ...string) int {
		t.Helper()
		path := "/row/" + queued[n].UserData
		form := hidden(o.page(path), `id="choice-paid"`)
		for name, values := range fields {
			form[name] = values
		}
		w := o.request(http.MethodPost, path, form, append([]string{"X-User", "ada"}, headers...)...)
		last = w.Body.String()
		return w.Code
	}
	for _, invisible := range []string{"", " \t"} {
		assert.Equal(t, 403, decide(0, url.Values{"decision": {"paid"}, "sure": {"yes"}}, "X-User", invisible))
	}
	assert.Equal(t, 422, decide(0, url.Values{"decision": {"paid"}}), "not confirmed")
	assert.Equal(t, 422, decide(0, url.Values{"decision": {"found"}}), "no order_id")
	assert.Equal(t, 422, decide(0, url.Values{"decision": {"nonsense"}, "sure": {"yes"}}))
	assert.Equal(t, 422, decide(0, url.Values{"decision": {"paid"}, "sure": {"yes"}, "version": {""}}))
	changed := url.Values{"decision": {"paid"}, "sure": {"yes"}, "version": {"99"}}
	assert.Equal(t, 409, decide(0, changed), "the row changed after the operator saw it")
	assert.Contains(t, last, "The row has changed meanwhile")
	assert.Equal(t, durable.StateUnknown, o.row(queued[0].UserData).State)

	assert.Equal(t, 303, decide(0, url.Values{"decision": {"paid"}, "sure": {"yes"}, "order_id": {"o-1"}}))
	assert.Equal(t, 303, decide(2, url.Values{"decision": {"found"}, "order_id": {"o-3"}}))
	assert.Equal(t, 422, decide(3, url.Values{"decision": {"found"}, "order_id": {"o-3"}}), "another row's order_id")
	for _, kind := range []string{"unpaid", "again"} {
		assert.Equal(t, 409, decide(3, url.Values{"decision": {kind}, "sure": {"yes"}}), "a late request may arrive")
		assert.Contains(t, last, "The decision does not fit the row")
		assert.NotContains(t, last, `id="choice-`+kind)
	}
	graceEnd := o.row(queued[3].UserData).ClaimedAt.Add(160 * time.Second).UTC().Format(time.DateTime)
	for _, path := range []string{"/row/" + queued[3].UserData, "/rows"} {
		assert.Contains(t, o.page(path), "possible from "+graceEnd+" UTC")
	}
	o.age(t)
	assert.NotContains(t, o.page("/rows"), "possible from")
	assert.Equal(t, 303, decide(1, url.Values{"decision": {"unpaid"}, "sure": {"yes"}}))
	assert.Equal(t, 303, decide(3, url.Values{"decision": {"again"}, "sure": {"yes"}}))
	require.NoError(t, o.store.Resume(t.Context(), "test")) // durable pauses for a moment after unknown outcomes
	o.send()
	for i, state := range []durable.State{
		durable.StateSucceeded, durable.StateFailed, durable.StatePending, durable.StateUnknown,
	} {
		assert.Equal(t, state, o.row(queued[i].UserData).State, i)
	}
	assert.Equal(t, 2, o.service.starts(queued[3].UserData), "it was sent again")
	assert.NotContains(t, o.page("/row/"+queued[2].UserData), `id="order-paid"`, "its order_id is known")
	page := o.page("/row/" + queued[0].UserData + "?done=paid")
	assertTexts(t, page, "It is marked as succeeded.", "ada", "o-1", "line 2", "••••\u00a01111")
}

// Two operators have the page of a rejected payout. The first operator sends the payout again, but a restore loses this
// decision. The second operator then decides with a page from before the hold.
func TestDecisionFromBeforeAHoldIsRejected(t *testing.T) {
	o := newOffice(t, ops.Config{})
	queued := o.queue("march", "3.00")
	path := "/row/" + queued[0].UserData
	require.Equal(t, durable.StateRejected, o.row(queued[0].UserData).State)
	form := hidden(o.page(path), `id="choice-again"`)
	form["decision"], form["sure"] = []string{"again"}, []string{"yes"}
	backup, err := dbtest.CopyRows(t.Context(), o.db)
	require.NoError(t, err)
	o.exec(`UPDATE durable_rows SET amount = '1.00'`) // the service accepts it now
	require.Equal(t, 303, o.request(http.MethodPost, path, form).Code)
	o.send()
	require.Equal(t, durable.StatePending, o.row(queued[0].UserData).State, "paid")

	require.NoError(t, backup.Restore(t.Context(), o.db))
	o.exec(`UPDATE durable_rows SET amount = '1.00'`)
	o.send() // notices the restore
	o.exec(`UPDATE durable_control SET held_at = 0`)
	assert.Equal(t, 409, o.request(http.MethodPost, path, form).Code)
	o.send()
	assert.Equal(t, 2, o.service.starts(queued[0].UserData), "rejected once and paid once")
}

func TestPauseAndHoldKeepPayoutsBackUntilTheirEnd(t *testing.T) {
	o := newOffice(t, ops.Config{})
	control := func(do, reason string) int {
		form := hidden(o.page("/"), `id="`+do+`"`)
		form.Set("do", do)
		form.Set("reason", reason)
		return o.request(http.MethodPost, "/control", form).Code
	}
	assert.Equal(t, 422, control("pause", " "))
	assert.Equal(t, 422, control("hold", ""))
	assert.Equal(t, 422, control("nonsense", "x"))
	require.Equal(t, 303, control("pause", "the bank is closed"))
	assert.Contains(t, o.page("/rows"),
		"Paused by ada: payouts and retries stop, and new payments continue. Reason: the bank is closed")
	first := o.queue("march", "1.00")
	assert.Zero(t, o.service.total())
	require.Equal(t, 303, control("hold", "restored a backup"))
	require.Equal(t, 303, control("resume", ""))
	assert.Contains(t, o.page("/"), "Payouts are held by ada")
	o.send()
	assert.Zero(t, o.service.total())
	assert.Contains(t, o.page("/row/"+first[0].UserData), `name="decision" value="release"`)
	assert.Contains(t, o.page("/"), "1 held")
	assert.Contains(t, o.page("/files"), "0 of 1", "a created payout was not called")
	payments, _, _ := strings.Cut(o.page("/"), "counts-payout")
	assert.NotContains(t, payments, "1 held", "a payment is never held")
	require.Equal(t, 422, control("end-hold", ""))
	require.Contains(t, o.page("/"), "UTC, a request from before the hold may still pay")
	end := hidden(o.page("/"), `id="end-hold"`)
	end.Set("do", "end-hold")
	end.Set("sure", "yes")
	assert.Contains(t, o.respond(422, http.MethodPost, "/control", end), "A request from before the hold may still pay.")
	releaseAll := url.Values{"decision": {"release"}, "scope": {"all"}, "held": {"1"}}
	form := hidden(o.respond(200, http.MethodPost, "/bulk", releaseAll), `id="confirm"`)
	form.Set("confirm", "yes")
	form.Set("sure", "yes")
	assert.Contains(t, o.respond(422, http.MethodPost, "/bulk", form), "A request from before the hold may still pay.")
	o.exec(`UPDATE durable_control SET held_at = 0`) // the end of Grace
	require.NotContains(t, o.page("/"), "before the hold")
	o.confirm("/control", url.Values{"do": {"end-hold"}}, o.page("/"), `id="end-hold"`)
	o.send()
	assert.Zero(t, o.service.total(), "held payouts stay held")

	body := o.respond(200, http.MethodPost, "/bulk", releaseAll)
	assert.Contains(t, body, `<dd id="sum">1.00</dd>`)
	o.confirm("/bulk", nil, body, `id="confirm"`)
	o.send()
	assert.Equal(t, 1, o.service.starts(first[0].UserData))
}

func TestFormOfAnEarlierPauseOrHoldEndsNoLaterOne(t *testing.T) {
	o := newOffice(t, ops.Config{})
	for _, reason := range []string{"first", "second"} {
		require.NoError(t, o.store.Pause(t.Context(), "ada", reason))
		o.hold()
		page := o.page("/")
		resume := hidden(page, `id="resume"`)
		resume.Set("do", "resume")
		require.NoError(t, o.store.Pause(t.Context(), "ada", reason+" changed"))
		assert.Equal(t, 422, o.request(http.MethodPost, "/control", resume).Code)
		require.NoError(t, o.store.Pause(t.Context(), "grace", reason))
		assert.Equal(t, 422, o.request(http.MethodPost, "/control", resume).Code)
		o.exec(`UPDATE durable_control SET pause_until = 1`) // long ago
		resume = hidden(o.page("/"), `id="resume"`)
		resume.Set("do", "resume")
		require.NoError(t, o.store.Resume(t.Context(), "ada"))
		require.NoError(t, o.store.Pause(t.Context(), "grace", reason))
		assert.Equal(t, 422, o.request(http.MethodPost, "/control", resume).Code, "a later pause with the same reason")
		o.hold()
		end := confirmation(page, `id="end-hold"`)
		end.Set("do", "end-hold")
		assert.Equal(t, 422, o.request(http.MethodPost, "/control", end).Code)
	}
	status, err := o.store.Status(t.Context())
	require.NoError(t, err)
	assert.True(t, status.Paused && status.Hold)
	end := confirmation(o.page("/"), `id="end-hold"`)
	end.Set("do", "end-hold")
	o.exec(`CREATE TRIGGER again BEFORE UPDATE OF hold ON durable_control
		BEGIN SELECT RAISE(IGNORE); END`) // the form fits, but another hold begins before the statement
	assert.Contains(t, o.respond(422, http.MethodPost, "/control", end), "The pause or the hold has changed meanwhile")
}

func TestPageRejectsRequests(t *testing.T) {
	o := newOffice(t, ops.Config{
		Hosts: []string{"ops.example"},
		Login: func(r *http.Request) (string, bool) { return "ada", r.Header.Get("X-User") != "eve" },
	})
	pause := url.Values{"do": {"pause"}, "reason": {"x"}}
	nul, long := url.Values{"do": {"pause"}, "reason": {"\x00"}}, url.Values{"reason": {strings.Repeat("x", 270_000)}}
	for name, c := range map[string]struct {
		code int
		w    *httptest.ResponseRecorder
	}{
		"a foreign site":     {403, o.request(http.MethodPost, "/control", pause, "Sec-Fetch-Site", "cross-site")},
		"another site":       {403, o.request(http.MethodPost, "/control", pause, "Sec-Fetch-Site", "same-site")},
		"a foreign origin":   {403, o.request(http.MethodPost, "/control", pause, "Origin", "https://evil.example")},
		"another port":       {403, o.request(http.MethodPost, "/control", pause, "Origin", "http://localhost:8080")},
		"a sandboxed frame":  {403, o.request(http.MethodPost, "/control", pause, "Origin", "null")},
		"a rejected login":   {403, o.request(http.MethodGet, "/", nil, "X-User", "eve")},
		"NUL":                {400, o.request(http.MethodGet, "/find?q=%00", nil)},
		"invalid UTF-8":      {400, o.request(http.MethodGet, "/row/%ff", nil)},
		"NUL in a form":      {400, o.request(http.MethodPost, "/control", nul)},
		"a form without end": {400, o.request(http.MethodPost, "/control", long)},
		"a multipart form": {
			400, o.request(http.MethodPost, "/control", nul, "Content-Type", "multipart/form-data; boundary=x"),
		},
		"a change by GET":      {405, o.request(http.MethodGet, "/control?do=pause&reason=x", nil)},
		"a change by an image": {405, o.request(http.MethodGet, "/bulk", nil)},
	} {
		assert.Equal(t, c.code, c.w.Code, name)
	}
	status, err := o.store.Status(t.Context())
	require.NoError(t, err)
	assert.False(t, status.Paused)
	for host, code := range map[string]int{
		"evil.example": 421, "ops.example": 200, "OPS.example:80": 200, "127.0.0.1:8081": 200, "[::1]:8081": 200,
		"10.0.0.1": 421, "ops.example.evil.example": 421, "localhost.evil.example": 421,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		o.handler.ServeHTTP(w, r)
		assert.Equal(t, code, w.Code, host)
		for name, want := range map[string]string{
			"Content-Security-Policy": "frame-ancestors 'none'", "Cache-Control": "no-store",
			"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
		} {
			assert.Contains(t, w.Header().Get(name), want, name)
		}
		assert.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	}
}

func TestPageWithoutLoginRejectsDecisions(t *testing.T) {
	o := newOffice(t, ops.Config{})
	row := "/row/" + o.queue("march", "2.00")[0].UserData
	o.handler = ops.New(o.store, ops.Config{Log: slog.New(slog.DiscardHandler)})
	assert.Contains(t, o.page("/"), "Nobody can decide, because ops.Config.Login is not set.")
	for path, form := range map[string]url.Values{
		row: {"decision": {"paid"}, "sure": {"yes"}, "version": {"1"}}, "/control": {"do": {"pause"}, "reason": {"x"}},
		"/bulk": {"decision": {"paid"}, "scope": {"all"}, "state": {"unknown"}}, "/unreadable": {"key": {"x"}},
	} {
		assert.Contains(t, o.respond(http.StatusForbidden, http.MethodPost, path, form), "ops.Config.Login is not set", path)
	}
}

func TestSecondPauseOrHoldKeepsTheReasonOfTheFirst(t *testing.T) {
	o := newOffice(t, ops.Config{})
	require.NoError(t, o.store.Pause(t.Context(), "durable", "the account has no funds"))
	before, err := o.store.HoldPayouts(t.Context(), "durable", "another database")
	require.NoError(t, err)
	for _, do := range []string{"pause", "hold"} { // forms of a page from before
		body := o.respond(422, http.MethodPost, "/control", url.Values{"do": {do}, "reason": {"lunch"}})
		assert.Contains(t, body, "the account has no funds")
		assert.Contains(t, body, "another database")
	}
	status, err := o.store.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "the account has no funds another database", status.Reason+" "+status.HoldReason)
	assert.Equal(t, before, status.Generation)
}

func TestPauseReplacesAPauseThatWouldEnd(t *testing.T) {
	o := newOffice(t, ops.Config{})
	o.queue("march", "2.00", "2.00", "2.00") // durable pauses for a while after unknown outcomes
	status, err := o.store.Status(t.Context())
	require.NoError(t, err)
	require.True(t, status.Paused && !status.Until.IsZero())
	o.respond(303, http.MethodPost, "/control", url.Values{"do": {"pause"}, "reason": {"lunch"}})
	assert.Contains(t, o.page("/"), "Reason: lunch<")
}

func TestLinkOfAForeignSiteShowsNoEffect(t *testing.T) {
	o := newOffice(t, ops.Config{})
	row := "/row/" + o.queue("march", "2.00")[0].UserData + "?done=paid"
	for _, path := range []string{row, "/rows?done=paid&n=3"} {
		for site, shown := range map[string]bool{"cross-site": false, "same-site": false, "same-origin": true, "": true} {
			w := o.request(http.MethodGet, path, nil, "Sec-Fetch-Site", site)
			assert.Equal(t, shown, strings.Contains(w.Body.String(), `role="status">`), path+site)
		}
	}
}

// office.request checks that no page shows the card number.
func TestTextShowsNoCardNumber(t *testing.T) {
	o := newOffice(t, ops.Config{})
	tx, err := o.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = o.store.AddBatch(t.Context(), tx, durable.Batch{ID: "march", Name: card + "\u202e.csv"})
	require.NoError(t, err)
	queued, err := o.store.QueuePayouts(t.Context(), tx, durable.NewPayout{
		Reference: "to " + card, Amount: paymentsvc.MustParseAmount("2.00"), Destination: card, Batch: "march",
	})
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	o.send()
	needReview := func() {
		o.exec(`UPDATE durable_rows SET error_code = $1, review_reason = $1`, "no "+card)
	}
	needReview()
	require.NoError(t, o.store.Pause(t.Context(), card, card+" is empty"))
	_, err = o.store.HoldPayouts(t.Context(), card, card)
	require.NoError(t, err)
	o.age(t)
	unpaid := durable.Decision{Kind: durable.DecideUnpaid, UserData: queued[0].UserData, By: card}
	unpaid.Version = o.row(unpaid.UserData).Version
	require.NoError(t, o.store.Decide(t.Context(), unpaid))
	needReview() // also after the decision
	require.NoError(t, o.store.Notified(t.Context(), &paymentsvc.Notification{
		Event: card, OrderID: "o", StatusDescription: card, Amount: paymentsvc.MustParseAmount("1"),
	}))
	require.NoError(t, o.store.KeepUnreadable(t.Context(), &paymentsvc.NotificationError{
		Raw: []byte(card), Err: errors.New("status: missing"),
	}))
	for _, path := range []string{
		"/", "/rows", "/rows?batch=march", "/files", "/row/" + unpaid.UserData, "/find?q=o", "/find?q=" + card, "/unreadable",
	} {
		assert.Contains(t, o.page(path), "••••\u00a01111", path)
	}
	assert.Contains(t, o.page("/files"), `\u202e.csv`)
}

func TestTextShowsOtherNumbers(t *testing.T) {
	o := newOffice(t, ops.Config{})
	for text, hidden := range map[string]bool{
		"payouts_20261129_120000.csv": false, "1790000000123": false, "4111111111111112": false, "411111111111": false,
		"1111111111111117": false, "2111111111111115": false, "2811111111111118": false,
		"4111 1111 1111 1111 12": true, "20261129-5555555555554444": true, "378282246310005": true,
		"2223000048400011": true, "2200000000000004": true, "6011111111111117": true, "4222222222222": true,
		"4000000000000000006": true, "9792000000000003": true, "8172000000000005": true,
		"４１１１１１１１１１１１１１１２": true, "4111%201111%201111%201111": true, `4111\u00201111\u00201111 1111`: true,
	} {
		require.NoError(t, o.store.Pause(t.Context(), "ada", text))
		page := o.page("/rows")
		assert.NotEqual(t, hidden, strings.Contains(page, "Reason: "+text+"</p>"), text)
		assert.Equal(t, hidden, strings.Contains(page, "••••\u00a0"), text)
	}
}

func TestUnreadableNotificationShowsNoCardNumber(t *testing.T) {
	o := newOffice(t, ops.Config{})
	hidden := []string{
		"4111 1111  1111 1111", "4111.1111.1111.1111", "4111_1111/1111–1111", "4111\u00a01111\u20091111\u200b1111",
		"4111\n1111\r\n1111\t1111", `4111\u00201111\u00a01111\n1111`, `\u0034\u0031\u0031111 1111 1111 1111`,
		"411111111111111111111111111", "4111 - 1111 - 1111 - 1111", "4111+1111%201111+1111",
		"4111\v1111\x001111\x1f1111", `4111\/1111\f1111\b1111`,
	}
	for _, body := range append([]string{"４１１１１１１１１１１１１１１１", "order_id 123456789012"}, hidden...) {
		raw := &paymentsvc.NotificationError{Raw: []byte(body), Err: errors.New("status: missing")}
		require.NoError(t, o.store.KeepUnreadable(t.Context(), raw))
	}
	page := o.page("/unreadable")
	assert.Equal(t, len(hidden), strings.Count(page, "<pre>••••\u00a01111</pre>"), page)
	assert.Contains(t, page, "<pre>••••\u00a0１１１１</pre>")
	assert.Contains(t, page, "<pre>order_id 123456789012</pre>", "shorter than a card number")
}

func TestLargeFilesAreCountedUpToALimit(t *testing.T) {
	o := newOffice(t, ops.Config{})
	o.queue("march", "1.00")
	for _, batch := range []string{"large", "larger", "third"} {
		o.exec(`INSERT INTO durable_batches (id, name, created_at)
			VALUES ($1, $1, 4000000000000)`, batch)
		o.copyRow("march", batch, 10_001)
	}
	page := o.page("/files")
	assertTexts(t, page, "10000 of the last 10000<", "100 of the last 100<", "1 of 1<")
	assert.Equal(t, 2, strings.Count(page, "10000 of the last 10000<"), "the page counts 20000 payouts")
	assert.Contains(t, o.page("/"), "5000 of the last 5000<")
	o.exec(`UPDATE durable_rows SET review_reason = 'look'
		WHERE created_at = (SELECT MIN(created_at) FROM durable_rows WHERE batch = 'large') AND batch = 'large'`)
	assert.Contains(t, o.page("/files"), `batch=large&amp;kind=payout&amp;review=1">1 or more</a>`, "an older payout")
	for _, c := range []struct{ row, want string }{
		{"oldest", "> 100 of the last 100<"}, {"newest", "> 99 of the last 100<"},
	} {
		o.exec(`UPDATE durable_rows SET state = 'created'
			WHERE batch = 'third' AND created_at = (SELECT
				CASE $1 WHEN 'oldest' THEN MIN(created_at) ELSE MAX(created_at) END FROM durable_rows WHERE batch = 'third')`,
			c.row)
		assert.Contains(t, o.page("/files"), c.want, "the newest are counted")
	}
}

func TestLinksStayBelowThePath(t *testing.T) {
	o := newOffice(t, ops.Config{Path: "/ops/"})
	queued := o.queue("march", "2.00")
	for _, path := range []string{
		"/ops/", "/ops/rows?review=1", "/ops/files", "/ops/row/" + queued[0].UserData, "/ops/style.css",
	} {
		page := o.page(path)
		for _, link := range regexp.MustCompile(`(?:href|action)="([^"#]+)"`).FindAllStringSubmatch(page, -1) {
			assert.Regexp(t, "^/ops/", link[1], path)
		}
	}
	assert.Equal(t, "/ops/", o.request(http.MethodGet, "/ops", nil).Header().Get("Location"))
	w := o.request(http.MethodPost, "/ops/control", url.Values{"do": {"pause"}, "reason": {"x"}})
	assert.Equal(t, "/ops/", w.Header().Get("Location"))
}

func TestPageReportsAnUnavailableDatabase(t *testing.T) {
	o := newOffice(t, ops.Config{})
	require.NoError(t, o.db.Close())
	for _, path := range []string{"/", "/rows", "/files", "/find?q=x", "/row/x", "/unreadable"} {
		assert.Contains(t, o.respond(503, http.MethodGet, path, nil), "The database does not respond", path)
	}
	for _, path := range []string{"/control", "/unreadable"} {
		body := o.respond(503, http.MethodPost, path, url.Values{"do": {"resume"}, "key": {"x"}})
		assert.Contains(t, body, "The database does not respond", path)
	}
}

func TestNotificationsWithoutARowAreShown(t *testing.T) {
	o := newOffice(t, ops.Config{})
	require.NoError(t, o.store.Notified(t.Context(), &paymentsvc.Notification{
		Event: paymentsvc.EventPaymentStatusChanged, OrderID: "lost-1", UserData: "basket-7",
		StatusDescription: paymentsvc.StatusSuccess, Amount: paymentsvc.MustParseAmount("10.50"),
	}))
	assert.NotContains(t, o.page("/"), "lost-1", "its row may follow")
	for _, text := range []string{"lost-1", "basket-7"} {
		assert.Contains(t, o.page("/find?q="+text), "lost-1")
	}
	o.exec(`UPDATE durable_notifications SET received_at = received_at - 301000`)
	assert.Contains(t, o.page("/"), "1 notification without a row")
	assert.Contains(t, o.page("/"), "lost-1")
}

func TestUnreadableNotificationsAreReviewed(t *testing.T) {
	o := newOffice(t, ops.Config{})
	assert.NotContains(t, o.page("/"), "unreadable")
	require.NoError(t, o.store.KeepUnreadable(t.Context(), &paymentsvc.NotificationError{
		Raw: []byte("{\"order_id\":\"<b>\u202eé\xff\x00\"}\n"), Err: errors.New("status: missing"),
	}))
	require.NoError(t, o.store.KeepUnreadable(t.Context(), &paymentsvc.NotificationError{
		Raw: append([]byte("4111 1111-11111111"), bytes.Repeat([]byte("x"), 70_000)...), Err: errors.New("amount: missing"),
	}))
	assert.Contains(t, o.page("/"), "2 unreadable notifications, oldest")
	page := o.page("/unreadable")
	assertTexts(t, page, "status: missing", `{&#34;order_id&#34;:&#34;&lt;b&gt;\u202eé\xff\x00&#34;}`+"\n</pre>",
		"70018 bytes, the first 65536 are stored", "26 bytes ·", "••••\u00a01111xxx")
	assert.NotContains(t, page, "4111")
	list, err := o.store.Unreadable(t.Context())
	require.NoError(t, err)
	if list[0].Reason != "status: missing" { // both arrived in one millisecond
		slices.Reverse(list)
	}
	for range 2 { // the second time, another operator was faster
		o.respond(http.StatusSeeOther, http.MethodPost, "/unreadable", url.Values{"key": {list[0].Key}})
	}
	assert.NotContains(t, o.page("/unreadable"), "status: missing")
	assert.Contains(t, o.page("/"), "1 unreadable notification, oldest")
}

func ExampleNew() {
	var store *durable.Store // from durable.Open
	page := ops.New(store, ops.Config{
		Login: func(r *http.Request) (name string, ok bool) {
			name = r.Header.Get("X-User") // set by the login proxy, which removes it from incoming requests
			return name, name != ""
		},
		Hosts: []string{"ops.example.com"},
	})
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://ops.example.com/", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 403 the login does not let you in
}
