package mock

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// The ids of the page's sections with forms. The first two are also the parameters for the pages of a list.
const (
	inOrders   = "orders"
	inMessages = "messages"
	inFaults   = "faults"
)

const (
	maxRows   = 100      // rows on one page of a list
	maxListed = 20       // waiting notifications, or the last selected requests of a fault
	maxMasked = 64 << 10 // bytes of a body to mask, because the page masks 100 bodies every two seconds
)

// shortened returns the beginning of a long text, because such a text would fill the page.
func shortened(text string) string {
	const longest = 256
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "..."
}

// view is the data of the page, without secrets. Destinations and card data are hidden, unless bodies are shown.
type view struct {
	Prefix, Session  string
	Search           string
	Query            string // the parameters that remain after an action
	Update           string // the parameters of the page's updates
	query            url.Values
	said             note
	form             url.Values // a rejected form
	Receivers        []string
	Orders           []orderRow
	OrderPages       pager
	Waiting          []notification // the first maxListed
	WaitingCount     int
	Messages         []messageRow
	MessagePages     pager
	Evicted          int
	Faults           []faultOut
	Balances         []balanceRow
	Settings         []setting
	Endpoints        []string
	Events           []string
	Choices          []faultGroup
	CanShowRawBodies bool
}

type orderRow struct {
	order
	What      string
	Settle    []paymentsvc.StatusName // the statuses of the buttons; PENDING has none
	CanRefund bool
	CanNotify bool
	PayURL    string
	Find      string // the search term for the messages of the order
	Said      *note
}

type messageRow struct {
	messageOut
	Clock, Arrow, What string
	Body, Reply        string
	Verdict            string
	Wrong              bool
	Order              int // the number of its order, or 0
	OrderURL           string
}

// pager has the number of rows of a list, and the addresses of the neighbouring pages. "" means no such page.
type pager struct {
	Count        int
	Newer, Older string
}

type balanceRow struct {
	Project                    int64
	Payout, Expected, Currency string
}

// newView reads the data of the page. The data may change between two of its reads.
func newView(r *http.Request, said note) *view {
	e, query := epochOf(r), kept(r.URL.Query())
	to, _ := e.settings()
	v := &view{
		Prefix: e.prefix, Session: e.name, Search: query.Get("q"), Query: asQuery(query), query: query, said: said,
		Receivers: to.shown(),
		Settings:  e.all(), Endpoints: endpoints(), Events: Events(), Choices: faultChoices,
		CanShowRawBodies: e.opt.ShowBodies,
	}
	v.Update = v.Query
	if r.Method == http.MethodGet {
		v.Update = asQuery(r.URL.Query())
	}
	if said.Bad {
		v.form = r.PostForm
	}
	v.orders(e)
	v.messages(e)
	outbox := e.fake.Outbox()
	v.WaitingCount = len(outbox)
	for _, n := range outbox[:min(len(outbox), maxListed)] {
		n.UserData = e.hide(shortened(n.UserData))
		v.Waiting = append(v.Waiting, notificationOut(n))
	}
	for _, f := range e.listFaults() {
		row := e.faultOut(f)
		row.Struck = row.Struck[max(len(row.Struck)-maxListed, 0):]
		v.Faults = append(v.Faults, row)
	}
	for _, p := range e.opt.Projects {
		row := balanceRow{Project: p.ID}
		if b, err := e.fake.Balance(p.ID); err == nil {
			row.Payout, row.Expected, row.Currency = b.PayoutBalance.String(), b.ExpectedBalance.String(), b.Currency
		}
		v.Balances = append(v.Balances, row)
	}
	return v
}

func (v *view) orders(e *epoch) {
	list, matches := e.newestOrders(v.skip(inOrders), maxRows, func(o *paymentsvctest.Order) bool {
		return v.finds(o.UserData, o.OrderID, o.Amount.String())
	})
	v.OrderPages = v.pages(inOrders, matches)
	for _, o := range list {
		row := orderRow{order: orderOut(o), CanNotify: len(v.Receivers) > 0, Find: o.UserData}
		row.UserData = e.hide(shortened(o.UserData))
		if row.UserData != o.UserData {
			row.Find = o.OrderID
		}
		row.What = strings.TrimSpace(string(o.Kind) + " " + string(o.Type))
		isPayout := o.Kind == paymentsvctest.KindPayout
		for _, to := range []paymentsvc.StatusName{paymentsvc.StatusSuccess, paymentsvc.StatusFailure} {
			if to != o.Status && (isPayout || !o.Status.Final()) {
				row.Settle = append(row.Settle, to)
			}
		}
		row.CanRefund = !isPayout && o.Status == paymentsvc.StatusSuccess
		if !isPayout {
			row.PayURL = e.prefix + "/pay/" + string(o.Kind) + "/" + o.OrderID
		}
		if v.said.Order == o.Number {
			row.Said = &v.said
		}
		v.Orders = append(v.Orders, row)
	}
}

func (v *view) messages(e *epoch) {
	list, matches, evicted := e.journal.newest(v.skip(inMessages), maxRows, func(m *message) bool {
		return v.finds(m.Fields.UserData, m.Fields.OrderID, m.Endpoint, strconv.Itoa(m.Seq))
	})
	v.MessagePages, v.Evicted = v.pages(inMessages, matches), evicted
	for _, m := range list {
		row := messageRow{Clock: m.At.Format("15:04:05.000")}
		if o, found := e.orderOf(&m); found {
			row.Order = o.Number
			row.OrderURL = fmt.Sprintf("%s/ui/?q=%s#order-%d", e.prefix, url.QueryEscape(o.OrderID), o.Number)
		}
		size := len(m.Body)
		if size > maxMasked {
			m.Body = nil
		}
		m.Fields.UserData = shortened(m.Fields.UserData)
		row.messageOut = e.messageOut(m)
		row.Body, row.Reply = readable(row.BodyBase64), readable(row.AnswerBase64)
		if size > maxMasked {
			row.Body = fmt.Sprintf("%d bytes: see GET %s/_mock/messages/%d", size, e.prefix, m.Seq)
		}
		row.Arrow, row.What = "received", m.Endpoint
		if m.Direction == out {
			row.Arrow, row.What = "sent", e.hide(shortened(m.Fields.Event+" "+m.Fields.StatusDescription))
		}
		row.Verdict, row.Wrong = "signature not checked", false
		if s := m.Signature; s != nil && s.Valid {
			row.Verdict = "signed correctly"
		} else if s != nil {
			row.Verdict, row.Wrong = "wrong signature: "+s.Reason, true
		}
		v.Messages = append(v.Messages, row)
	}
}

// finds reports whether one of the texts contains the search term.
func (v *view) finds(texts ...string) bool {
	return v.Search == "" || slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, v.Search) })
}

// Answer describes the end of a message.
func (m messageRow) Answer() string {
	switch {
	case m.HTTPStatus > 0:
		return fmt.Sprintf("HTTP %d", m.HTTPStatus)
	case m.Error != "":
		return "no response: " + m.Error
	case m.State == inFlight:
		return "in flight"
	}
	return "broken off"
}

// readable returns a body as text for a page.
func readable(body []byte) string {
	if !utf8.Valid(body) {
		return fmt.Sprintf("%d bytes that are not text", len(body))
	}
	const most = 8 << 10
	if len(body) > most {
		return strings.ToValidUTF8(string(body[:most]), "") + "..."
	}
	return string(body)
}

// shown returns the receivers without queries.
func (rs receivers) shown() []string {
	list := cli.Mapped(rs.own, func(own receiver) string { return mask.Query(own.text) })
	if rs.rest != "" {
		list = append(list, mask.Query(rs.rest))
	}
	return list
}

// orderOf returns the order with the order_id of a message, or the newest order with the message's project and
// user_data. It does not search more than 1000 orders with one user_data.
func (e *epoch) orderOf(m *message) (paymentsvctest.Order, bool) {
	if o, found := e.fake.Order(m.Fields.OrderID); found {
		return o, true
	}
	const maxCopied = 1000 // limits the copies of orders for each row of the page
	if m.Fields.UserData == "" || e.fake.Started(m.Fields.UserData) > maxCopied {
		return paymentsvctest.Order{}, false
	}
	for _, o := range slices.Backward(e.fake.OrdersOf(m.Fields.UserData)) {
		if o.ProjectID == m.Fields.ProjectID {
			return o, true
		}
	}
	return paymentsvctest.Order{}, false
}

// page returns the number of the requested page of a list, from 1.
func (v *view) page(list string) int {
	page, err := strconv.Atoi(v.query.Get(list))
	if err != nil || page < 1 || page > 1<<20 {
		return 1
	}
	return page
}

func (v *view) skip(list string) int { return (v.page(list) - 1) * maxRows }

// pages returns the neighbouring pages of a list with this number of rows.
func (v *view) pages(list string, rows int) pager {
	address := func(page int) string {
		query := kept(v.query)
		query.Set(list, strconv.Itoa(page))
		return "?" + query.Encode() + "#" + list
	}
	p, page := pager{Count: rows}, v.page(list)
	if page > 1 {
		p.Newer = address(page - 1)
	}
	if page*maxRows < rows {
		p.Older = address(page + 1)
	}
	return p
}

func asQuery(query url.Values) string {
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// note is the message about the last action.
type note struct {
	Section string // the place of the message, unless the page shows the row of Order
	Order   int    // the number of the order with the message in its row, or 0
	Text    string
	Bad     bool
}

// doneNote returns the message for a key in the page's address. It ignores unknown keys.
func doneNote(query url.Values) note {
	sections := map[string]note{
		"settled":        {Section: inOrders, Text: "Settled."},
		"refunded":       {Section: inOrders, Text: "Refunded."},
		"sent":           {Section: inOrders, Text: "Sent. The response is under Messages."},
		"delivered":      {Section: inMessages, Text: "The waiting notifications were sent."},
		"waiting":        {Section: inMessages, Text: "Some notifications still wait."},
		"fault-set":      {Section: inFaults, Text: "The fault is set."},
		"fault-removed":  {Section: inFaults, Text: "The fault is removed."},
		"faults-cleared": {Section: inFaults, Text: "All faults are removed."},
	}
	n := sections[query.Get("done")]
	if n.Section == inOrders {
		n.Order, _ = strconv.Atoi(query.Get("order")) // 0 is no order
	}
	return n
}

// Said returns the message for the head of a section, or nil.
func (v *view) Said(section string) *note {
	inRow := func(o orderRow) bool { return o.Said != nil }
	if v.said.Text == "" || v.said.Section != section || slices.ContainsFunc(v.Orders, inRow) {
		return nil
	}
	return &v.said
}

// Value returns the input of a field of the rejected form, or the default in absent.
func (v *view) Value(field, absent string) string {
	if v.form.Has(field) {
		return v.form.Get(field)
	}
	return absent
}
