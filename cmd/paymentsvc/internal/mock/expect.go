package mock

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// The claims of an expectation.
const (
	thatStarted    = "started"
	thatMessages   = "messages"
	thatDelivered  = "delivered"
	thatFaultHits  = "fault_hits"
	thatAllSigned  = "all_signed"
	thatNone       = "none_rejected"
	thatNoForgery  = "forgeries_refused"
	longestHolding = 5 * time.Minute
)

// expectation is a claim and its time limits.
type expectation struct {
	That string `json:"that"`
	filter
	FaultID  int    `json:"fault_id"`
	Count    *int   `json:"count"`
	AtLeast  *int   `json:"at_least"`
	AtMost   *int   `json:"at_most"`
	Within   string `json:"within"`
	HoldsFor string `json:"holds_for"`

	seen seen
}

// seen is the part of the orders and rejections that an expectation has counted. It keeps repeated checks short.
type seen struct {
	order, orders         int // the number of the last order, and of the matching orders
	rejection, duplicates int // the number of the last rejection, and of the matching rejections
}

// unbounded is the upper limit of a claim without one.
const unbounded = 1 << 30

// bounds returns the lower and the upper limit.
func (x *expectation) bounds() (least, most int, err error) {
	given := 0
	least, most = 1, unbounded
	for _, bound := range []*int{x.Count, x.AtLeast, x.AtMost} {
		if bound != nil {
			given++
		}
	}
	switch {
	case slices.Contains([]string{thatAllSigned, thatNone, thatNoForgery}, x.That):
		if given > 0 {
			return 0, 0, invalid("count", "count, at_least, at_most: %s counts what is wrong, which must be 0", x.That)
		}
		return 0, 0, nil
	case x.Count != nil && given > 1:
		return 0, 0, invalid("count", "count: either count, or at_least and at_most")
	case x.Count != nil:
		least, most = *x.Count, *x.Count
	case x.AtMost != nil:
		least, most = 0, *x.AtMost
	}
	if x.AtLeast != nil {
		least = *x.AtLeast
	}
	if least < 0 || most < least {
		return 0, 0, invalid("count", "count, at_least, at_most: no number is in the range from %d to %d", least, most)
	}
	return least, most, nil
}

// finding is the result of a count.
type finding struct {
	n          int
	duplicates int  // rejected starts
	hole       bool // an evicted message could change the result
	untested   bool // the journal has no message for the claim
}

// messages returns two conditions: whether a claim concerns a message, and whether it counts the message. Both are
// nil for claims about orders and hits.
func (x *expectation) messages() (about, counts func(*message) bool, err error) {
	about = func(*message) bool { return true }
	switch x.That {
	case thatStarted, thatFaultHits:
		return nil, nil, nil
	case thatMessages:
		counts = about
	case thatDelivered:
		counts = func(m *message) bool { return m.Direction == out && !m.Forged && !m.Cut && m.Status/100 == 2 }
	case thatNoForgery:
		about = func(m *message) bool { return m.Forged && m.Status > 0 }
		counts = func(m *message) bool { return m.Forged && m.Status/100 == 2 }
	case thatAllSigned:
		about = func(m *message) bool { return m.Direction == in && m.Signature != nil }
		counts = func(m *message) bool { return about(m) && !m.Signature.Valid }
	case thatNone:
		about = func(m *message) bool { return m.Direction == in }
		counts = func(m *message) bool { // a status call by user_data lets a client learn that it started no order
			return m.Rejection != nil && !m.Declined &&
				(m.Rejection.Problem != paymentsvctest.ProblemNotFound || m.Rejection.UserData == "")
		}
	default:
		return nil, nil, invalid("that",
			"that: not one of started, messages, delivered, fault_hits, all_signed, none_rejected and forgeries_refused")
	}
	return about, counts, nil
}

// actual counts the orders, messages or hits of a claim.
func (e *epoch) actual(x *expectation) (found finding, err error) {
	switch x.That {
	case thatStarted:
		return e.starts(x), nil
	case thatFaultHits:
		rule, err := e.faultByID(x.FaultID)
		if err != nil {
			return found, invalid("fault_id", "fault_id: there is no such fault")
		}
		return finding{n: rule.rule.Hits()}, nil
	}
	about, counts, err := x.messages()
	if err != nil {
		return found, err
	}
	found.untested = slices.Contains([]string{thatNoForgery, thatAllSigned, thatNone}, x.That)
	_, hole := e.journal.each(&x.filter, func(m *message) bool {
		if counts(m) {
			found.n++
		}
		found.untested = found.untested && !about(m)
		return true
	})
	found.hole = hole > x.After
	return found, nil
}

// starts counts orders and rejected duplicates. An order never changes its identity, but it changes its status.
func (e *epoch) starts(x *expectation) (found finding) {
	if x.Status != "" {
		x.seen.order, x.seen.orders = 0, 0
	}
	later := x.filter
	later.After = max(x.After, x.seen.order)
	e.eachOrder(&later, func(o *paymentsvctest.Order) bool {
		x.seen.order = o.Number
		x.seen.orders++
		return true
	})
	if x.OrderID != "" || x.After != 0 { // a rejection has only user_data and kind
		return finding{n: x.seen.orders}
	}
	list, all := e.fake.RejectedAfter(x.seen.rejection)
	found.hole = len(list) < all-x.seen.rejection
	x.seen.rejection = all
	for _, r := range list {
		if x.duplicates(r) {
			x.seen.duplicates++
		}
	}
	found.n, found.duplicates = x.seen.orders, x.seen.duplicates
	return found
}

// duplicates reports whether a rejection is that of a matching start with a duplicate user_data.
func (x *expectation) duplicates(r paymentsvctest.Rejection) bool {
	kind, _, _ := strings.Cut(strings.TrimPrefix(r.Endpoint, "init_"), "/")
	return r.Problem == paymentsvctest.ProblemRepeated && (x.Kind == "" || x.Kind == kind) &&
		(x.UserData == nil || *x.UserData == r.UserData) && strings.HasPrefix(r.UserData, x.UserDataPrefix)
}

// met reports whether the claim holds. Evicted messages can only increase the count.
func (found finding) met(least, most int) bool {
	certain := most == unbounded || !found.hole && found.duplicates == 0
	return found.n >= least && found.n <= most && !found.untested && certain
}

// line describes a message and its errors.
func (m *message) line() string {
	line := fmt.Sprintf("message %d: %s %s for user_data %q, HTTP %d, %s", m.Seq, m.Direction, m.Endpoint, m.Fields.UserData, m.Status, m.State)
	if m.Rejection != nil {
		line += fmt.Sprintf(": rejected, %s: %s", m.Rejection.Problem, m.Rejection.Message)
	}
	if m.Signature != nil && !m.Signature.Valid {
		line += ": wrong signature: " + m.Signature.Reason
	}
	return line
}

// expectAnswer is the response to a met expectation.
type expectAnswer struct {
	Actual int `json:"actual"`
}

func postExpect(c *call, x expectation) (int, any, error) {
	within, err := duration("within", x.Within)
	if err != nil {
		return 0, nil, err
	}
	holds, err := duration("holds_for", x.HoldsFor)
	if err != nil {
		return 0, nil, err
	}
	if within > longestHolding || holds > longestHolding {
		return 0, nil, invalid("within", "within, holds_for: more than %s", longestHolding)
	}
	least, most, err := x.bounds()
	if err != nil {
		return 0, nil, err
	}
	filters := map[string][]string{thatStarted: orderFilters(), thatFaultHits: nil}
	allowed, special := filters[x.That]
	if !special {
		allowed = messageFilters()
	}
	if err := c.only(&x.filter, allowed...); err != nil {
		return 0, nil, err
	}
	if _, err := c.actual(&x); err != nil {
		return 0, nil, err
	}
	about := &x.filter
	if x.That == thatFaultHits {
		about = &filter{}
	}
	met := func() bool {
		found, err := c.actual(&x)
		return err == nil && found.met(least, most)
	}
	ok := c.journal.waitFor(c.r.Context(), within, about, met)
	if ok && holds > 0 {
		ok = !c.journal.waitFor(c.r.Context(), holds, about, func() bool { return !met() })
	}
	found, _ := c.actual(&x)
	switch {
	case c.ctx.Err() != nil:
		return 0, nil, failure(http.StatusConflict, "reset", "", "the mock was reset meanwhile")
	case ok:
		return http.StatusOK, expectAnswer{found.n}, nil
	case found.hole && found.n <= most:
		return 0, nil, failure(http.StatusConflict, "evicted", "after",
			"messages that could matter are not in the journal any more: give after, or a larger -journal")
	}
	return 0, nil, c.notMet(&x, found, least, most)
}

// notMet returns the error for an expectation: expected and actual number, and the nearest messages.
func (e *epoch) notMet(x *expectation, found finding, least, most int) error {
	want := fmt.Sprintf("%d to %d", least, most)
	switch {
	case least == most:
		want = fmt.Sprint(least)
	case most == unbounded:
		want = fmt.Sprintf("%d or more", least)
	case least == 0:
		want = fmt.Sprintf("%d at most", most)
	}
	about := ""
	if x.UserData != nil {
		about = fmt.Sprintf(" for user_data %q", *x.UserData)
	}
	what := map[string]string{
		thatStarted: "orders started", thatMessages: "messages", thatDelivered: "notifications delivered",
		thatFaultHits: "hits of the fault",
		thatAllSigned: "requests with a wrong signature", thatNone: "requests rejected", thatNoForgery: "forgeries accepted",
	}[x.That]
	if found.n == 1 {
		what = strings.NewReplacer("orders", "order", "messages", "message", "notifications", "notification", "hits", "hit",
			"requests", "request", "forgeries", "forgery").Replace(what)
	}
	f := failure(http.StatusConflict, "not_met", "", "%d %s%s, want %s", found.n, what, about, want)
	switch {
	case found.untested:
		f.apiError.Error.Message = "nothing was tested: there is no message that " + x.That + " is about"
	case found.duplicates > 0 && most != unbounded:
		f.apiError.Error.Message += fmt.Sprintf("; further starts rejected as duplicates: %d, want 0", found.duplicates)
	}
	f.apiError.Error.Message = mask.Text(f.apiError.Error.Message)
	f.Actual = &found.n
	for _, near := range e.nearest(x, found.n > most) {
		f.Nearest = append(f.Nearest, mask.Text(near))
	}
	return f
}

// nearest describes the last three orders or messages, either counted or not counted by the claim.
func (e *epoch) nearest(x *expectation, counted bool) (lines []string) {
	const few = 3
	if x.That == thatStarted {
		orders, _ := e.newestOrders(0, few, func(o *paymentsvctest.Order) bool { return x.fitsOrder(o) == counted })
		for _, o := range slices.Backward(orders) {
			lines = append(lines, fmt.Sprintf("%s of %s for user_data %q, %s", o.Kind, o.Amount, o.UserData, o.Status))
		}
		for _, r := range e.fake.Rejected() {
			if x.OrderID == "" && x.After == 0 && x.duplicates(r) {
				lines = append(lines, r.String())
			}
		}
		return lines[max(len(lines)-few, 0):]
	}
	_, counts, err := x.messages()
	if err != nil || counts == nil {
		return nil
	}
	messages, _, _ := e.journal.newest(0, few, func(m *message) bool { return (x.fitsMessage(m) && counts(m)) == counted })
	for _, m := range slices.Backward(messages) {
		lines = append(lines, m.line())
	}
	return lines
}
