package mock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// order is an order in JSON. Its amounts are text. It omits the destination and the four open objects.
type order struct {
	Number    int    `json:"number"`
	Kind      string `json:"kind"`
	Type      string `json:"type"`
	ProjectID int64  `json:"project_id"`
	OrderID   string `json:"order_id"`
	UserData  string `json:"user_data"`
	Amount    string `json:"amount"`
	Refunded  string `json:"refunded"`
	Status    string `json:"status"`
}

// orderOut does not mask the identifiers, because programs compare them, and a long number may look like a card number.
func orderOut(o paymentsvctest.Order) order {
	return order{
		o.Number, string(o.Kind), string(o.Type), o.ProjectID, o.OrderID, o.UserData,
		o.Amount.String(), cmp.Or(o.Refunded.String(), "0"), string(o.Status),
	}
}

// inBooks is the inverse of orderOut. The defaults are PENDING, payment and the given project.
func (o order) inBooks(project int64) (paymentsvctest.Order, error) {
	a, err := amount("amount", o.Amount)
	status, statusErr := statusName(cmp.Or(o.Status, "PENDING"))
	if err := cmp.Or(err, statusErr); err != nil {
		return paymentsvctest.Order{}, err
	}
	out := paymentsvctest.Order{
		Number: o.Number, Kind: paymentsvctest.Kind(cmp.Or(o.Kind, "payment")), Type: paymentsvc.PaymentType(o.Type),
		ProjectID: cmp.Or(o.ProjectID, project), OrderID: o.OrderID, UserData: o.UserData, Amount: a, Status: status,
	}
	if o.Refunded != "" && o.Refunded != "0" {
		out.Refunded, err = amount("refunded", o.Refunded)
	}
	return out, err
}

// filter selects orders, messages and the targets of faults. An unset condition matches every value.
type filter struct {
	UserData       *string `json:"user_data"`
	UserDataPrefix string  `json:"user_data_prefix"`
	ProjectID      int64   `json:"project_id"`
	OrderID        string  `json:"order_id"`
	Kind           string  `json:"kind"`      // orders only
	Status         string  `json:"status"`    // orders and notifications only
	Direction      string  `json:"direction"` // this and the next three: messages only
	Endpoint       string  `json:"endpoint"`
	Event          string  `json:"event"`
	Valid          *bool   `json:"valid"`
	After          int     `json:"after"` // selects orders or messages with higher numbers
}

// filterOf parses a query like a filter in JSON. The names in more are parameters of the query, but not conditions.
func filterOf(r *http.Request, more ...string) (f filter, err error) {
	given := map[string]any{}
	for name, values := range r.URL.Query() {
		value := values[len(values)-1]
		n, notNumber := strconv.Atoi(value)
		switch isNumber := name == "project_id" || name == "after"; {
		case slices.Contains(more, name):
		case isNumber && notNumber == nil && n >= 0:
			given[name] = n
		case name == "valid" && (value == "true" || value == "false"):
			given[name] = value == "true"
		default:
			given[name] = value
		}
	}
	text, err := json.Marshal(given) // cannot fail for texts, numbers and booleans
	return f, cmp.Or(err, decodeObject(text, &f))
}

// epoch.only rejects conditions that are neither identifiers nor in names. It also rejects values that an order or
// message cannot have, because an expectation of 0 would always be met with such a value.
func (e *epoch) only(f *filter, names ...string) error {
	ifSet := func(isSet bool) string { return map[bool]string{true: "set"}[isSet] }
	for _, c := range []struct {
		name, value string
		known       []string // nil for all values
	}{
		{"kind", f.Kind, []string{"payment", "payout", "form", "invoice"}},
		{"status", f.Status, []string{"PENDING", "SUCCESS", "FAILURE"}},
		{"direction", f.Direction, []string{in, out}}, {"event", f.Event, Events()},
		{"endpoint", f.Endpoint, append(endpoints(), notificationEndpoint)},
		{"valid", ifSet(f.Valid != nil), nil}, {"after", ifSet(f.After != 0), nil},
	} {
		switch {
		case c.value == "":
		case !slices.Contains(names, c.name):
			return invalid(c.name, "%s: no filter here", c.name)
		case c.known != nil && !slices.Contains(c.known, c.value):
			return invalid(c.name, "%s: not one of %s", c.name, strings.Join(c.known, ", "))
		}
	}
	if f.ProjectID != 0 && !e.knows(f.ProjectID) {
		return invalid("project_id", "project_id: no such project")
	}
	isRequest := f.Direction == in || f.Endpoint != "" && f.Endpoint != notificationEndpoint
	isNotification := f.Direction == out || f.Endpoint == notificationEndpoint || f.Event != "" || f.Status != ""
	if isRequest && isNotification {
		return invalid("direction", "direction, endpoint, event, status: a request has no event and no status, "+
			"and the endpoint of a notification is %s", notificationEndpoint)
	}
	return nil
}

func (e *epoch) knows(project int64) bool {
	return slices.ContainsFunc(e.opt.Projects, func(p paymentsvctest.Project) bool { return p.ID == project })
}

// The conditions of [epoch.only] for orders and for messages, besides the identifiers.
var (
	orderFilters   = []string{"kind", "status", "after"}
	messageFilters = []string{"status", "direction", "endpoint", "event", "valid", "after"}
)

func (f *filter) fitsOrder(o *paymentsvctest.Order) bool {
	return f.fits(o.ProjectID, o.UserData, o.OrderID) && (f.Kind == "" || f.Kind == string(o.Kind)) &&
		(f.Status == "" || f.Status == string(o.Status)) && o.Number > f.After
}

func (f *filter) fitsMessage(m *message) bool {
	return f.fits(m.Fields.ProjectID, m.Fields.UserData, m.Fields.OrderID) &&
		(f.Direction == "" || f.Direction == m.Direction) && (f.Event == "" || f.Event == m.Fields.Event) &&
		(f.Endpoint == "" || f.Endpoint == m.Endpoint || strings.HasPrefix(m.Endpoint, f.Endpoint+"/")) &&
		(f.Status == "" || f.Status == m.Fields.StatusDescription) &&
		(f.Valid == nil || m.Signature != nil && m.Signature.Valid == *f.Valid) && m.Seq > f.After
}

func (f *filter) fits(project int64, userData, orderID string) bool {
	return (f.UserData == nil || *f.UserData == userData) && strings.HasPrefix(userData, f.UserDataPrefix) &&
		(f.ProjectID == 0 || f.ProjectID == project) && (f.OrderID == "" || f.OrderID == orderID)
}

// eachOrder calls visit with each matching order, until visit returns false. visit must not use the fake.
func (e *epoch) eachOrder(f *filter, visit func(*paymentsvctest.Order) bool) {
	e.fake.EachOrder(f.After, func(o *paymentsvctest.Order) bool { return !f.fitsOrder(o) || visit(o) })
}

// newestOrders lists the matching orders, the newest first, and returns at most limit of them from the offset skip.
// matches is the number of all matching orders. match must not use the fake.
func (e *epoch) newestOrders(
	skip, limit int, match func(*paymentsvctest.Order) bool,
) (list []paymentsvctest.Order, matches int) {
	wanted := skip + limit
	e.fake.EachOrder(0, func(o *paymentsvctest.Order) bool {
		if !match(o) {
			return true
		}
		matches++
		list = append(list, *o)
		if len(list) > 2*wanted {
			list = slices.Delete(list, 0, wanted) // bounds the memory for the copies
		}
		return true
	})
	list = list[max(len(list)-wanted, 0):max(len(list)-skip, 0)]
	slices.Reverse(list)
	return list, matches
}

func getOrders(c *call) (int, any, error) {
	f, err := filterOf(c.r, "limit")
	limit, limitErr := limitOf(c.r)
	if err := cmp.Or(err, c.only(&f, orderFilters...), limitErr); err != nil {
		return 0, nil, err
	}
	orders := []order{}
	c.eachOrder(&f, func(o *paymentsvctest.Order) bool {
		orders = append(orders, orderOut(*o))
		return len(orders) <= limit
	})
	orders, next := cut(orders, limit, func(o order) int { return o.Number })
	// next is the "after" of the next page, or 0 on the last page.
	return http.StatusOK, map[string]any{"orders": orders, "next": next}, nil
}

var errNoOrder = failure(http.StatusNotFound, "not_found", "id", "there is no such order")

func getOrder(c *call) (int, any, error) {
	o, ok := c.fake.Order(c.r.PathValue("id"))
	if !ok {
		return 0, nil, errNoOrder
	}
	return http.StatusOK, orderAnswer{Order: orderOut(o)}, nil
}

type orderAnswer struct {
	Order        order         `json:"order"`
	Notification *notification `json:"notification,omitempty"`
	Deliveries   []delivery    `json:"deliveries,omitempty"`
	Messages     []int         `json:"messages,omitempty"`
}

func postOrder(c *call, in order) (int, any, error) {
	if in.Number != 0 {
		return 0, nil, invalid("number", "number: the mock server chooses it")
	}
	draft, err := in.inBooks(c.opt.Projects[0].ID)
	if err != nil {
		return 0, nil, err
	}
	o, err := c.fake.Seed(draft)
	switch {
	case errors.Is(err, paymentsvctest.ErrOrderExists):
		return 0, nil, failure(http.StatusConflict, "exists", "order_id", "the order_id exists")
	case err != nil:
		return 0, nil, err
	}
	c.journal.ordered(o)
	return http.StatusCreated, orderAnswer{Order: orderOut(o)}, nil
}

// settling returns a function that moves an order to a status, and puts the notification into the outbox if notify is
// set.
func (e *epoch) settling(orderID string, to paymentsvc.StatusName, notify bool) move {
	return func() (*paymentsvctest.Notification, error) {
		if !notify {
			return nil, e.fake.Move(orderID, to)
		}
		n, err := e.fake.Settle(orderID, to)
		return &n, err
	}
}

func (e *epoch) refunding(orderID string, a paymentsvc.Amount, to paymentsvc.StatusName) move {
	return func() (*paymentsvctest.Notification, error) {
		n, err := e.fake.Refund(orderID, a, to)
		return &n, err
	}
}

// move changes an order, and returns the notification in the outbox or nil.
type move func() (*paymentsvctest.Notification, error)

// moved calls change for an order, and wakes the waiters for the order.
func (e *epoch) moved(orderID string, change move) (*paymentsvctest.Notification, orderAnswer, error) {
	n, err := change()
	o, ok := e.fake.Order(orderID)
	if !ok {
		return nil, orderAnswer{}, errNoOrder
	}
	if err != nil {
		_, why, _ := strings.Cut(trimmed(err), ": ")
		return nil, orderAnswer{}, failure(http.StatusConflict, "refused", "", "%s", why)
	}
	e.journal.ordered(o)
	return n, orderAnswer{Order: orderOut(o)}, nil
}

// notified calls change for an order. If change returns a notification, notified sends the outbox, and adds the order's
// new deliveries to the result.
func (e *epoch) notified(ctx context.Context, orderID string, change move) (orderAnswer, error) {
	_, before := e.fake.DeliveriesAfter(math.MaxInt)
	n, answer, err := e.moved(orderID, change)
	if err != nil || n == nil {
		return answer, err
	}
	answer.Notification = new(notificationOut(*n))
	answer.Messages = e.deliverAll(ctx, before, *n)
	list, _ := e.fake.DeliveriesAfter(before)
	others := func(d paymentsvctest.Delivery) bool { return d.Notification.OrderID != orderID }
	answer.Deliveries = cli.Mapped(slices.DeleteFunc(list, others), deliveryOut)
	return answer, nil
}

// deliverAll sends the outbox. If there are receivers, it then waits at most 15 seconds until concurrent calls have
// sent each notification in list, or left it in the outbox, for example because of a fault. The argument before is the
// number of deliveries before those of list.
func (e *epoch) deliverAll(ctx context.Context, before int, list ...paymentsvctest.Notification) (messages []int) {
	messages = e.deliver(ctx).Messages
	if to, _ := e.settings(); to.none() {
		return messages // the notifications stay in the outbox, and searching the outbox takes long
	}
	const longest = 15 * time.Second // a delivery takes at most 10
	e.journal.waitFor(ctx, longest, &filter{}, func() bool {
		missing := map[paymentsvctest.Notification]bool{}
		for _, n := range list {
			missing[n] = true
		}
		deliveries, _ := e.fake.DeliveriesAfter(before)
		for _, d := range deliveries {
			delete(missing, d.Notification)
		}
		if len(missing) > 0 { // otherwise a copy of the outbox would be made in vain
			for _, n := range e.fake.Outbox() {
				delete(missing, n)
			}
		}
		return len(missing) == 0
	})
	return messages
}

type settleIn struct {
	Status string `json:"status"`
	After  string `json:"after"`
	Notify *bool  `json:"notify"`
}

func postSettle(c *call, in settleIn) (int, any, error) {
	to, err := statusName(in.Status)
	after, afterErr := duration("after", in.After)
	if err := cmp.Or(err, afterErr); err != nil {
		return 0, nil, err
	}
	orderID, notify := c.r.PathValue("id"), in.Notify == nil || *in.Notify
	if after == 0 {
		answer, err := c.notified(sending(c.r), orderID, c.settling(orderID, to, notify))
		return http.StatusOK, answer, err
	}
	o, ok := c.fake.Order(orderID)
	if !ok {
		return 0, nil, errNoOrder
	}
	c.clock.schedule(after, event{OrderID: orderID, Status: to, Notify: notify})
	return http.StatusAccepted, orderAnswer{Order: orderOut(o)}, nil
}

type refundIn struct {
	Amount string `json:"amount"`
	Status string `json:"status"`
}

func postRefund(c *call, in refundIn) (int, any, error) {
	o, ok := c.fake.Order(c.r.PathValue("id"))
	if !ok {
		return 0, nil, errNoOrder
	}
	a, err := amount("amount", cmp.Or(in.Amount, o.Amount.String()))
	to, statusErr := statusName(cmp.Or(in.Status, "SUCCESS"))
	if err := cmp.Or(err, statusErr); err != nil {
		return 0, nil, err
	}
	answer, err := c.notified(sending(c.r), o.OrderID, c.refunding(o.OrderID, a, to))
	return http.StatusOK, answer, err
}
