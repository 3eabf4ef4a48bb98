package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// The sections of the page, by their ids in it.
const (
	inOrders        = "orders"
	inNotifications = "notifications"
	inFaults        = "faults"
)

// fewRows is how many of the newest rows a table shows unless all are asked for.
const fewRows = 25

// view is everything that the page shows. Destinations, the four open objects and secrets are no part of it.
type view struct {
	Set      *settings
	Receiver string // where notifications go, "" for nowhere

	Auto, All   bool
	Query       string // what stays of the address when a button is pressed
	RefreshURL  string
	AutoURL     string
	AllURL      string
	FewRows     int
	said        note
	form        url.Values // as it was sent, when it was refused
	Balance     paymentsvc.Balance
	BalanceErr  string
	Orders      []orderRow
	OrderCount  int
	Outbox      []paymentsvctest.Notification
	Deliveries  []deliveryRow
	SentCount   int
	Rules       []*paymentsvctest.Rule
	Refused     []refusedRow
	RefusedSeen int
}

type orderRow struct {
	paymentsvctest.Order
	What        string
	Settle      []paymentsvc.StatusName // what it can be settled to
	CanRefund   bool
	Said        *note
	HasReceiver bool
	Query       string
}

type deliveryRow struct {
	Number int
	paymentsvctest.Delivery
	Order   int // its number
	Wrong   string
	Answer  string
	Verdict string
}

type refusedRow struct {
	paymentsvctest.Rejection
	Reason string
	Offset string // where the canonical strings part, "" where that is not known
}

// view reads the mock. Between two of its reads the mock may go on.
func (p *page) view(r *http.Request, said note) *view {
	query := kept(r.URL.Query())
	v := &view{
		Set:        p.set,
		Receiver:   p.set.receiver(),
		Auto:       query.Get("auto") == "1",
		All:        query.Get("all") == "1",
		Query:      asQuery(query),
		RefreshURL: "/ui/" + asQuery(query),
		AutoURL:    "/ui/" + toggled(query, "auto"),
		AllURL:     "/ui/" + toggled(query, "all"),
		FewRows:    fewRows,
		said:       said,
		Outbox:     p.mock.Outbox(),
		Rules:      p.mock.Rules(),
	}
	if said.Bad {
		v.form = r.PostForm
	}
	var err error
	if v.Balance, err = p.mock.Balance(p.set.ProjectID); err != nil {
		v.BalanceErr = err.Error()
	}
	orders := p.mock.Orders()
	v.OrderCount = len(orders)
	for _, o := range newest(orders, v.All) {
		v.Orders = append(v.Orders, p.orderRow(o, v))
	}
	deliveries := p.mock.Deliveries()
	v.SentCount = len(deliveries)
	for i, d := range newest(deliveries, v.All) {
		v.Deliveries = append(v.Deliveries, p.deliveryRow(len(deliveries)-i, d))
	}
	refused := p.mock.Rejected()
	v.RefusedSeen = len(refused)
	for _, r := range newest(refused, v.All) {
		v.Refused = append(v.Refused, refusedRow{r, reasonFor(p.mock, r), p.offset(r)})
	}
	return v
}

// newest returns the last entries, or all of them, the last one first.
func newest[E any](list []E, all bool) []E {
	if !all && len(list) > fewRows {
		list = list[len(list)-fewRows:]
	}
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

func asQuery(query url.Values) string {
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// toggled returns a query in which name is set, or not any more.
func toggled(query url.Values, name string) string {
	other := url.Values{}
	for key, values := range query {
		other[key] = values
	}
	if other.Has(name) {
		other.Del(name)
	} else {
		other.Set(name, "1")
	}
	return asQuery(other)
}

func (p *page) orderRow(o paymentsvctest.Order, v *view) orderRow {
	row := orderRow{Order: o, What: string(o.Kind), HasReceiver: v.Receiver != "", Query: v.Query}
	if o.Type != "" {
		row.What += " " + string(o.Type)
	}
	isPayout := o.Kind == paymentsvctest.KindPayout
	for _, to := range []paymentsvc.StatusName{paymentsvc.StatusSuccess, paymentsvc.StatusFailure} {
		if to != o.Status && (isPayout || !o.Status.Final()) {
			row.Settle = append(row.Settle, to)
		}
	}
	row.CanRefund = !isPayout && o.Status == paymentsvc.StatusSuccess
	if v.said.Order == o.Number {
		row.Said = &v.said
	}
	return row
}

func (p *page) deliveryRow(number int, d paymentsvctest.Delivery) deliveryRow {
	row := deliveryRow{Number: number, Delivery: d, Wrong: wrong(d)}
	if o, ok := p.mock.Order(d.Notification.OrderID); ok {
		row.Order = o.Number
	}
	if d.Err != nil {
		row.Answer = "none: " + withoutAddress(d.Err)
		return row
	}
	row.Answer, row.Verdict = fmt.Sprintf("HTTP %d", d.HTTPStatus), "not taken"
	if d.Accepted() {
		row.Verdict = "taken"
	}
	return row
}

// wrong says what went wrong with a delivery on purpose. A forgery goes before the true notification, in which
// nothing is forged.
func wrong(d paymentsvctest.Delivery) string {
	if d.Forged {
		return "forged"
	}
	faults := slices.DeleteFunc(slices.Clone(d.Faults), func(text string) bool {
		return text == paymentsvctest.Forged().String()
	})
	return cmp.Or(strings.Join(faults, ", "), "-")
}

func (p *page) offset(r paymentsvctest.Rejection) string {
	for _, f := range p.mock.SignatureFaults() {
		if f.Endpoint == r.Endpoint && f.Number == r.Number && f.Difference != nil {
			return strconv.Itoa(f.Difference.Offset)
		}
	}
	return ""
}

// note is what the page has to say about the last button that was pressed.
type note struct {
	Section string // where it is, unless Order says more
	Order   int    // the number of the order in whose row it is
	Text    string
	Bad     bool
}

// doneNote puts a word in the page's address into words. Any other text in the address is not shown.
func doneNote(query url.Values) note {
	n := note{Section: inOrders}
	n.Order, _ = strconv.Atoi(query.Get("order"))
	switch query.Get("done") {
	case "settled":
		n.Text = "Settled."
	case "refunded":
		n.Text = "The refund is made."
	case "sent":
		n.Text = "Sent. The answer is under Notifications."
	case "delivered":
		n = note{Section: inNotifications, Text: "What was waiting has been tried once more."}
	case "fault-set":
		n = note{Section: inFaults, Text: "The fault is set."}
	case "fault-removed":
		n = note{Section: inFaults, Text: "The fault is removed."}
	case "faults-cleared":
		n = note{Section: inFaults, Text: "All faults are removed."}
	default:
		return note{}
	}
	return n
}

// Said returns what there is to say at the head of a section, nil for nothing.
func (v *view) Said(section string) *note {
	if v.said.Text == "" || v.said.Section != section {
		return nil
	}
	inRow := func(o orderRow) bool { return o.Said != nil }
	if slices.ContainsFunc(v.Orders, inRow) {
		return nil
	}
	return &v.said
}

// option is an entry of a select.
type option struct{ Value, Text string }

func isOneOf(options []option, value string) bool {
	return slices.ContainsFunc(options, func(o option) bool { return o.Value == value })
}

func endpointOptions() []option {
	return allOr("all endpoints",
		paymentsvctest.InitPayment,
		paymentsvctest.InitPayment+"/card",
		paymentsvctest.InitPayment+"/sbp",
		paymentsvctest.InitPayment+"/crypto",
		paymentsvctest.InitPayment+"/mc",
		paymentsvctest.StatusPayment,
		paymentsvctest.InitPayout,
		paymentsvctest.StatusPayout,
		paymentsvctest.InitForm,
		paymentsvctest.InitInvoice,
		paymentsvctest.GetBalance,
	)
}

func eventOptions() []option {
	return allOr("all events",
		string(paymentsvc.EventPaymentStatusChanged),
		string(paymentsvc.EventPayoutStatusChanged),
		string(paymentsvc.EventRefundStatusChanged),
	)
}

// allOr returns the choice between all, which is "" to paymentsvctest, and each of the names.
func allOr(all string, names ...string) []option {
	options := make([]option, 0, 1+len(names))
	options = append(options, option{"", all})
	for _, name := range names {
		options = append(options, option{name, name})
	}
	return options
}

func whichOptions() []option {
	return []option{{"every", "every"}, {"first", "the first n"}, {"nth", "only the nth"}}
}

// faultOptions are the usual faults of requests, in the text of paymentsvctest.ParseFault.
func faultOptions() []option {
	return []option{
		{"drop after", "the order is started, and the answer lost"},
		{"drop before", "the request is lost"},
		{"hang after", "the order is started, and no answer comes"},
		{"hang before", "no answer comes, and nothing is started"},
		{"reset", "the connection is reset before the body is read"},
		{"refuse", "as reset; only paymentsvctest's own client can be refused a connection"},
		{"bad-gateway before", "an HTML page with HTTP 502, and nothing is started"},
		{"bad-gateway after", "an HTML page with HTTP 502, and the order is started"},
		{"too-many-requests before 1s", "HTTP 429 with Retry-After"},
		{"reject 402 E17 no money", "the service says no"},
		{"redirect before http://elsewhere.invalid/", "HTTP 307, and nothing is started"},
		{"redirect after http://elsewhere.invalid/", "HTTP 307, and the order is started"},
		{"cut 10", "the answer ends behind byte 10, with a length that shows it"},
		{"cut-chunked 10", "the answer ends behind byte 10, in chunks that show it"},
		{"cut-unframed 10", "the answer ends behind byte 10, and nothing shows it"},
		{"cut-header 10", "the header ends behind byte 10"},
		{"slow 50ms", "one byte of the answer each 50 ms"},
		{"wrong-shape", "the right fields with values of the wrong types"},
		{"wrong-date -1h0m0s", "a Date header an hour ago"},
		{"oversized 2097152", "an answer of 2 MiB"},
		{"gzip-bomb 33554432", "a small answer that unpacks to 32 MiB"},
	}
}

// notificationFaultOptions are the usual faults of notifications, in the text of
// paymentsvctest.ParseNotificationFault.
func (v *view) notificationFaultOptions() []option {
	options := []option{
		{"repeated 2", "it comes twice more"},
		{"delayed 1", "it comes with the delivery after the next"},
		{"reordered", "it comes behind the one that follows it"},
		{"lost", "it does not come; the next delivery retries"},
		{"forged", "somebody else's claim comes first"},
		{"skewed -1h0m0s", "its timestamp is an hour old"},
		{"skewed 1h0m0s", "its timestamp is an hour ahead"},
		{"cut 20", "the connection breaks behind byte 20 of the body"},
	}
	if v.Set.oldSecret != "" {
		options = append(options, option{"old-secret", "it is signed with the key before the rotation"})
	}
	return options
}

// faultForm is one of the two forms that set a fault.
type faultForm struct {
	ID, Action, Title, On, Example string
	Ons, Whichs, Usual             []option
	values                         url.Values
}

// Forms returns both, with what was entered into the one that was refused.
func (v *view) Forms() []faultForm {
	forms := []faultForm{
		{
			ID: "requests", Action: "/ui/faults/requests", Title: "Break requests", On: "Endpoint", Example: "cut 40",
			Ons: endpointOptions(), Usual: faultOptions(),
		},
		{
			ID: "events", Action: "/ui/faults/notifications", Title: "Break notifications", On: "Event", Example: "repeated 5",
			Ons: eventOptions(), Usual: v.notificationFaultOptions(),
		},
	}
	for i := range forms {
		forms[i].Whichs = whichOptions()
		if v.form.Get("form") == forms[i].ID {
			forms[i].values = v.form
		}
	}
	return forms
}

// Value returns what was entered into a field.
func (f faultForm) Value(field, absent string) string {
	if f.values.Has(field) {
		return f.values.Get(field)
	}
	return absent
}
