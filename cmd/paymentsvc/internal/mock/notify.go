package mock

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// notification is a notification in JSON, with its amount as text.
type notification struct {
	Event    string `json:"event"`
	OrderID  string `json:"order_id"`
	Status   string `json:"status"`
	Amount   string `json:"amount"`
	UserData string `json:"user_data"`
}

func notificationOut(n paymentsvctest.Notification) notification {
	return notification{string(n.Event), n.OrderID, string(n.StatusDescription), n.Amount.String(), n.UserData}
}

// delivery is an attempt to send a notification.
type delivery struct {
	Event      string   `json:"event"`
	OrderID    string   `json:"order_id"`
	Status     string   `json:"status"`
	Accepted   bool     `json:"accepted"`
	Forged     bool     `json:"forged"`
	Faults     []string `json:"faults"`
	HTTPStatus int      `json:"http_status"`
	Error      string   `json:"error"`
}

func deliveryOut(d paymentsvctest.Delivery) delivery {
	n := d.Notification
	out := delivery{
		string(n.Event), n.OrderID, string(n.StatusDescription), d.Accepted(), d.Forged,
		append([]string{}, d.Faults...), d.HTTPStatus, "",
	}
	if d.Err != nil {
		out.Error = reasonOf(d.Err)
	}
	return out
}

// deliver sends the notifications of the outbox, and returns the deliveries and the numbers of their messages.
func (e *epoch) deliver(ctx context.Context) deliveriesAnswer {
	sent := []int{}
	list := e.fake.Deliver(context.WithValue(ctx, sentKey{}, &sent))
	e.journal.wakeAll()
	return deliveriesAnswer{cli.Mapped(list, deliveryOut), sent}
}

// sending returns a context that does not end with the request, because a notification must not stop half-way.
func sending(r *http.Request) context.Context { return context.WithoutCancel(r.Context()) }

// send sends one notification directly, without the outbox.
func (e *epoch) send(
	ctx context.Context, n paymentsvctest.Notification, faults ...paymentsvctest.NotificationFault,
) deliveriesAnswer {
	sent := []int{}
	list := e.fake.Send(context.WithValue(ctx, sentKey{}, &sent), n, faults...)
	return deliveriesAnswer{cli.Mapped(list, deliveryOut), sent}
}

type deliveriesAnswer struct {
	Deliveries []delivery `json:"deliveries"`
	Messages   []int      `json:"messages"`
}

func getNotifications(c *call) (int, any, error) {
	waiting, deliveries := cli.Mapped(c.fake.Outbox(), notificationOut), cli.Mapped(c.fake.Deliveries(), deliveryOut)
	return http.StatusOK, map[string]any{"waiting": waiting, "deliveries": deliveries}, nil
}

// signer returns the project that signs a raw body: the given project, the project of its order, or the only project.
// The first of several projects would be a guess, because a notification has no project_id.
func (c *call) signer(project int64, orderID string) (int64, error) {
	o, known := c.fake.Order(orderID)
	switch {
	case project != 0:
		return project, nil
	case known:
		return o.ProjectID, nil
	case len(c.opt.Projects) > 1:
		return 0, invalid("project_id", "project_id: missing, because the mock server has several projects, "+
			"and no order has the order_id of the body")
	}
	return c.opt.Projects[0].ID, nil
}

// receiver returns the argument "to", or if that is "", the configured address for the project and the event. A missing
// or invalid address is an error.
func (c *call) receiver(to string, project int64, event string) (string, error) {
	if to == "" {
		rs, _ := c.settings()
		to = rs.of(project, event)
	}
	if to == "" {
		return "", invalid("to", `this notification has no receiver: want the setting "notify", `+
			`a matching text in "receivers", or, for a raw body or a message sent again, the field "to"`)
	}
	if err := cli.CheckAddress(to); err != nil {
		return "", invalid("to", "to: %s", err)
	}
	return to, nil
}

func postDeliver(c *call, _ struct{}) (int, any, error) {
	if to, _ := c.settings(); to.none() {
		return 0, nil, invalid("", `the mock server has no receiver: want the setting "notify" or "receivers"`)
	}
	return http.StatusOK, c.deliver(sending(c.r)), nil
}

type notificationIn struct {
	OrderID   string     `json:"order_id"`
	Status    string     `json:"status"`
	Event     string     `json:"event"`
	Faults    []string   `json:"faults"`
	Body      *string    `json:"body"`
	ProjectID int64      `json:"project_id"`
	To        string     `json:"to"`
	Timestamp *time.Time `json:"timestamp"`
}

// postNotification sends the notification of an order, or a given body.
func postNotification(c *call, in notificationIn) (int, any, error) {
	if in.ProjectID != 0 && !c.knows(in.ProjectID) {
		return 0, nil, invalid("project_id", "project_id: no such project")
	}
	if in.Body != nil {
		if in.OrderID != "" || in.Status != "" || in.Event != "" || in.Faults != nil {
			return 0, nil, invalid("body", `body: want no field beside a raw body except "to", "timestamp" and "project_id"`)
		}
		about := fieldsOf([]byte(*in.Body))
		project, err := c.signer(in.ProjectID, about.OrderID)
		if err != nil {
			return 0, nil, err
		}
		to, err := c.receiver(in.To, project, about.Event)
		if err != nil {
			return 0, nil, err
		}
		at := *cmp.Or(in.Timestamp, new(c.clock.stamp()))
		return c.postRaw(to, project, at, []byte(*in.Body), nil)
	}
	if in.To != "" || in.Timestamp != nil || in.ProjectID != 0 {
		return 0, nil, invalid("to",
			"to, timestamp, project_id: only for a raw body; the faults late and early shift a timestamp")
	}
	n, faults, err := c.composed(in.OrderID, in.Status, in.Event, in.Faults)
	if err != nil {
		return 0, nil, err
	}
	if rule := c.ruleFor(n); rule != nil && in.Faults == nil {
		return 0, nil, failure(http.StatusConflict, "fault", "faults",
			"faults: fault %d matches, but affects only notifications from the outbox: "+
				"set faults, for example to [], or settle the order", rule.ID)
	}
	if _, err := c.receiver("", n.ProjectID, string(n.Event)); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.send(sending(c.r), n, faults...), nil
}

// composed returns a notification of an order, and the parsed faults. An empty status is the order's status. An empty
// event is the event for the order's kind.
func (e *epoch) composed(orderID, status, event string, texts []string) (
	n paymentsvctest.Notification, faults []paymentsvctest.NotificationFault, err error,
) {
	o, ok := e.fake.Order(orderID)
	if !ok {
		return n, nil, failure(http.StatusNotFound, "not_found", "order_id", "there is no such order")
	}
	as, err := statusName(cmp.Or(status, string(o.Status)))
	if err != nil {
		return n, nil, err
	}
	for _, text := range texts {
		fault, err := paymentsvctest.ParseNotificationFault(text)
		name, _, _ := strings.Cut(fault.String(), " ")
		switch {
		case err != nil:
			return n, nil, invalid("faults", "%s", notificationFaults.wantForm(text, err))
		case name == "delayed", name == "reordered":
			return n, nil, invalid("faults", "faults: %s needs POST /faults, because this notification is sent at once", text)
		case name == oldSecret && !e.hasOldSecret(o.ProjectID):
			return n, nil, errNoOldSecret("faults")
		}
		faults = append(faults, fault)
	}
	n, err = e.fake.Compose(orderID, as)
	if event != "" {
		if !slices.Contains(Events(), event) {
			return n, nil, invalid("event", "event: the interface document has no such event")
		}
		n.Event = paymentsvc.EventType(event)
	}
	return n, faults, err
}

// Events returns the events of section 6.
func Events() []string {
	return []string{
		string(paymentsvc.EventPaymentStatusChanged), string(paymentsvc.EventPayoutStatusChanged),
		string(paymentsvc.EventRefundStatusChanged),
	}
}

func (c *call) postRaw(to string, project int64, at time.Time, body []byte, header http.Header) (int, any, error) {
	sent := []int{}
	d := c.post(context.WithValue(sending(c.r), sentKey{}, &sent), to, project, at, body, header)
	d.Faults = []string{}
	return http.StatusOK, deliveriesAnswer{[]delivery{d}, sent}, nil
}

type resendIn struct {
	Sign string `json:"sign"`
	To   string `json:"to"`
}

// postResend sends a message of the journal again, with a new or the original timestamp and signature.
func postResend(c *call, in resendIn) (int, any, error) {
	m, err := c.message()
	if err != nil {
		return 0, nil, err
	}
	switch {
	case m.Direction != out:
		return 0, nil, invalid("id", "message %d is a request: want the number of a notification, "+
			"see GET /messages?direction=out", m.Seq)
	case !slices.Contains([]string{"", "again", "as_sent"}, in.Sign):
		return 0, nil, invalid("sign", `sign: want "again" or "as_sent"`)
	}
	to, err := c.receiver(in.To, m.Fields.ProjectID, m.Fields.Event)
	if err != nil {
		return 0, nil, err
	}
	var header http.Header
	if in.Sign == "as_sent" {
		header = m.Header
	}
	return c.postRaw(to, m.Fields.ProjectID, c.clock.stamp(), m.Body, header)
}
