package ops_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
	"github.com/paymentsvc/paymentsvc/durable/ops"
)

// references returns the references of the rows on a page, in their order.
func references(page string) (list []string) {
	for _, found := range regexp.MustCompile(`payout (salary-\d+)`).FindAllStringSubmatch(page, -1) {
		list = append(list, found[1])
	}
	return list
}

func lines(from, to int) (list []string) {
	for n := from; n <= to; n++ {
		list = append(list, fmt.Sprintf("salary-%d", n))
	}
	return list
}

// previewed shows the preview of an action, and returns its confirmation.
func (o *office) previewed(action url.Values) url.Values {
	o.t.Helper()
	return confirmation(o.respond(200, http.MethodPost, "/bulk", action), `id="confirm"`)
}

func TestRowsOfAFileAreSortedByLine(t *testing.T) {
	o := newOffice(t, ops.Config{})
	o.queue("march", slices.Repeat([]string{"1.00"}, 120)...)
	const path = "/rows?kind=payout&batch=march&order=line"
	assert.Contains(t, o.page(path), `<option value="line" selected>`)
	assert.Contains(t, o.page(path), `name="order" value="line"`)
	assert.Equal(t, lines(1, 120), o.pages(path))
	assert.NotContains(t, o.page("/rows?order=line"), `value="line"`, "lines belong to a file")
	assert.Contains(t, o.page("/rows?batch=march&order=line"), "line 2<")
}

func TestBulkPreviewListsItsRowsByLine(t *testing.T) {
	o := newOffice(t, ops.Config{})
	o.queue("march", append(slices.Repeat([]string{"3.00"}, 30), "1.00")...)
	o.age(t)
	form := url.Values{"decision": {"again"}, "scope": {"all"}, "batch": {"march"}, "order": {"line"}}
	page := o.request(http.MethodPost, "/bulk", form).Body.String()
	assert.Contains(t, page, `<dd id="n">30</dd>`)
	assert.Equal(t, lines(1, 30), references(page), "without the row that does not fit")
	assert.Contains(t, page, "order=line", "the way back")
}

func TestDecisionsAboutManyRowsArePreviewed(t *testing.T) {
	o := newOffice(t, ops.Config{})
	queued := o.queue("march", "2.00", "2.10", "2.25", "1.00")
	o.age(t)
	bulk := func(form url.Values) *httptest.ResponseRecorder { return o.request(http.MethodPost, "/bulk", form) }
	assert.Equal(t, 422, bulk(url.Values{"decision": {"unpaid"}}).Code, "nothing is selected")
	every := url.Values{"decision": {"unpaid"}, "scope": {"all"}, "kind": {"payout"}}
	assert.Equal(t, 422, bulk(every).Code, "it would be every row")
	found := url.Values{"decision": {"found"}, "scope": {"all"}, "state": {"unknown"}}
	assert.Equal(t, 422, bulk(found).Code, "an order_id belongs to one row")

	w := bulk(url.Values{"decision": {"unpaid"}, "user_data": {queued[0].UserData, queued[1].UserData}})
	require.Equal(t, 200, w.Code)
	assert.Contains(t, w.Body.String(), `<dd id="n">2</dd>`)
	assert.Contains(t, w.Body.String(), `<dd id="sum">4.10</dd>`)
	assert.Equal(t, durable.StateUnknown, o.row(queued[0].UserData).State, "a preview changes nothing")
	form := hidden(w.Body.String(), `id="confirm"`)
	assert.Equal(t, 422, bulk(form).Code, "not confirmed")
	form.Set("sure", "yes")
	assert.Equal(t, "/rows?done=unpaid&n=2", bulk(form).Header().Get("Location"))
	assert.Equal(t, durable.StateFailed, o.row(queued[0].UserData).State)
	assert.Equal(t, 409, bulk(form).Code, "the rows have changed")
	assert.Contains(t, o.page("/rows?done=unpaid&n=2"), "Rows: 2.")
	assert.Contains(t, o.page("/rows?done=unpaid&n=2&skipped=1"), "Skipped, because they have changed or must wait: 1.")

	w = bulk(url.Values{"decision": {"again"}, "scope": {"all"}, "kind": {"payout"}, "state": {"unknown"}})
	o.confirm("/bulk", nil, w.Body.String(), `id="confirm"`)
	require.NoError(t, o.store.Resume(t.Context(), "test"))
	o.send()
	assert.Equal(t, 2, o.service.starts(queued[2].UserData))
	assert.Equal(t, 1, o.service.starts(queued[3].UserData), "it does not fit")
}

func TestDecisionsThatFailHalfWayAreCounted(t *testing.T) {
	o := newOffice(t, ops.Config{})
	queued := o.queue("march", "2.00", "2.10")
	o.age(t)
	o.exec(`CREATE TRIGGER full BEFORE INSERT ON durable_decisions
		WHEN (SELECT COUNT(*) FROM durable_decisions) = 1 BEGIN SELECT RAISE(ABORT, 'disk full'); END`)
	form := url.Values{"decision": {"unpaid"}, "user_data": {queued[0].UserData, queued[1].UserData}}
	form = o.previewed(form)
	assert.Contains(t, o.respond(503, http.MethodPost, "/bulk", form), "Rows decided before the error: 1.")
}

func TestConfirmationAppliesOnlyToTheRowsSeen(t *testing.T) {
	o := newOffice(t, ops.Config{})
	queued := o.queue("march", "2.00")
	again := url.Values{"decision": {"again"}, "scope": {"all"}, "state": {"unknown"}}
	page := o.request(http.MethodPost, "/bulk", again).Body.String()
	require.Contains(t, page, "No row fits this decision.", "a late request may arrive")
	o.age(t)
	form := o.confirm("/bulk", nil, o.request(http.MethodPost, "/bulk", again).Body.String(), `id="confirm"`)
	send := func() {
		require.NoError(t, o.store.Resume(t.Context(), "test"))
		o.send()
		o.age(t)
	}
	send()
	require.Equal(t, durable.StateUnknown, o.row(queued[0].UserData).State)
	assert.Equal(t, 409, o.request(http.MethodPost, "/bulk", form).Code, "the same row was sent meanwhile")
	send()
	assert.Equal(t, 2, o.service.starts(queued[0].UserData))

	decideUnpaid := func() {
		t.Helper()
		form := url.Values{"decision": {"unpaid"}, "scope": {"all"}, "state": {"unknown"}}
		o.confirm("/bulk", nil, o.request(http.MethodPost, "/bulk", form).Body.String(), `id="confirm"`)
	}
	decideUnpaid()
	seen := o.queue("april", "3.00", "2.00")[1]
	send()
	version := o.row(seen.UserData).Version
	form = o.previewed(again)
	decideUnpaid()
	other := o.queue("may", "3.00", "3.00", "2.00")[2]
	send()
	require.Equal(t, version, o.row(other.UserData).Version)
	assert.Equal(t, 409, o.request(http.MethodPost, "/bulk", form).Code, "another row with the same amount and version")
	send()
	assert.Equal(t, 1, o.service.starts(other.UserData))
}

func TestConfirmationOfAReleaseDoesNotOutliveIt(t *testing.T) {
	o := newOffice(t, ops.Config{})
	o.hold()
	o.queue("march", "1.00")
	release := url.Values{"decision": {"release"}, "scope": {"all"}, "held": {"1"}}
	form := o.confirm("/bulk", nil, o.request(http.MethodPost, "/bulk", release).Body.String(), `id="confirm"`)
	o.hold()
	assert.Equal(t, 409, o.request(http.MethodPost, "/bulk", form).Code)
	form = o.previewed(release)
	o.hold() // another restore, while the payouts are held
	assert.Equal(t, 409, o.request(http.MethodPost, "/bulk", form).Code)
	replica := filepath.Join(t.TempDir(), "replica.db")
	o.exec(`VACUUM INTO $1`, replica)
	o.open(ops.Config{}, durable.Config{ReadDB: dbtest.Open(t, replica).DB})
	form = o.previewed(release)
	o.hold() // the replica lags
	assert.Equal(t, 409, o.request(http.MethodPost, "/bulk", form).Code)
	o.send()
	assert.Zero(t, o.service.total())
}

func TestListIsDecidedAfterAPreview(t *testing.T) {
	o := newOffice(t, ops.Config{})
	queued := o.queue("march", "2.00", "2.10", "2.25", "1.00")
	o.age(t)
	bulk := func(form url.Values, headers ...string) *httptest.ResponseRecorder {
		return o.request(http.MethodPost, "/bulk", form, headers...)
	}
	list := func(text string) url.Values {
		return url.Values{"scope": {"list"}, "decision": {"unpaid"}, "list": {text}}
	}
	first, second := queued[0].UserData, queued[1].UserData
	for text, want := range map[string]string{
		"":   "Enter the user_data of the rows first.",
		",;": "Enter the user_data of the rows first.",
		first + "\n" + first + "\n4111 " + card + " " + second: "Entries of the list without a row: 2. The first is entry 3.",
		strings.Repeat(first+" ", 1000) + card:                 "Entries of the list without a row: 1.",
	} {
		assert.Contains(t, o.respond(422, http.MethodPost, "/bulk", list(text)), want)
	}
	many := list("")
	for n := range 1001 {
		many.Set("list", many.Get("list")+fmt.Sprintf("%d,", n))
	}
	assert.Contains(t, bulk(many).Body.String(), "The list has 1001 user_data, want at most 1000.")
	text := second + ",\r\n\t" + first + ";" + second + " " + queued[3].UserData
	assert.Equal(t, 403, bulk(list(text), "Sec-Fetch-Site", "cross-site").Code)

	w := bulk(list(text))
	require.Equal(t, 200, w.Code)
	assert.Contains(t, w.Body.String(), `<dd id="n">3</dd>`)
	assert.Contains(t, w.Body.String(), `<dd id="sum">5.10</dd>`)
	assert.Equal(t, []string{"salary-1", "salary-2", "salary-4"}, references(w.Body.String()), "by line, each once")
	assert.Equal(t, durable.StateUnknown, o.row(first).State, "a preview changes no row")
	form := hidden(w.Body.String(), `id="confirm"`)
	assert.Equal(t, 422, bulk(form).Code, "not confirmed")
	form.Set("sure", "yes")
	assert.Equal(t, "/rows?done=unpaid&n=3", bulk(form).Header().Get("Location"))
	for n, q := range queued {
		assert.Equal(t, n != 2, o.row(q.UserData).State == durable.StateFailed)
	}
	page := o.page("/rows?held=1")
	assert.Equal(t, url.Values{"scope": {"list"}, "held": {"1"}}, hidden(page, `id="list-form"`))
	assert.Contains(t, page, `<textarea id="list" name="list"`)
}

func TestListOfTheGreatestLengthIsConfirmed(t *testing.T) {
	o := newOffice(t, ops.Config{})
	o.hold()
	queued := o.queue("march", slices.Repeat([]string{"1.00"}, 1000)...)
	text := make([]string, len(queued))
	for i, q := range queued {
		text[i] = q.UserData
	}
	form := url.Values{"scope": {"list"}, "decision": {"release"}, "held": {"1"}, "list": {strings.Join(text, "\r\n")}}
	w := o.request(http.MethodPost, "/bulk", form)
	assert.Contains(t, w.Body.String(), `<dd id="sum">1000.00</dd>`)
	assert.Len(t, references(w.Body.String()), 1000)
	o.confirm("/bulk", nil, w.Body.String(), `id="confirm"`)
	counts, err := o.store.Counts(t.Context(), durable.Filter{Kind: durable.KindPayout})
	require.NoError(t, err)
	assert.Zero(t, counts.Held.Rows)
}

// The second hold begins before a part of a long list is released.
func TestReleaseStopsAtAnotherHold(t *testing.T) {
	for released, want := range map[int]struct {
		code int
		text string
	}{0: {422, "Payouts are held again."}, 1000: {503, "Rows decided before the error: 1000. Payouts are held again."}} {
		o := newOffice(t, ops.Config{})
		o.hold()
		o.queue("march", slices.Repeat([]string{"1.00"}, 1001)...)
		form := url.Values{"scope": {"all"}, "decision": {"release"}, "held": {"1"}}
		form = o.previewed(form)
		status, err := o.store.Status(t.Context())
		require.NoError(t, err)
		o.exec(fmt.Sprintf(`CREATE TRIGGER again AFTER UPDATE ON durable_mark
			WHEN (SELECT COUNT(*) FROM durable_rows WHERE generation = %d) = %d
			BEGIN UPDATE durable_control SET generation = %d; END`, status.Generation, released, status.Generation+1))
		assert.Contains(t, o.respond(want.code, http.MethodPost, "/bulk", form), want.text)
		o.send()
		assert.Zero(t, o.service.total())
	}
}

func TestPageDoesNotSortALargeFile(t *testing.T) {
	o := newOffice(t, ops.Config{})
	o.queue("march", "3.00")
	o.copyRow("march", "march", 5000)
	assert.Contains(t, o.respond(422, http.MethodGet, "/rows?batch=march&order=line", nil), "at most 5000 rows")
	form := url.Values{"decision": {"again"}, "scope": {"all"}, "batch": {"march"}}
	page := o.request(http.MethodPost, "/bulk", form).Body.String()
	assert.Contains(t, page, `<dd id="n">5001</dd>`)
	assert.Contains(t, page, "There are too many rows to sort.")
}
