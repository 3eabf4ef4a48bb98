package mock

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

const longestHolding = 5 * time.Minute

// claim is a kind of expectation.
type claim struct {
	one, many string // the counted events
	filters   []string
	isError   bool                // counts errors, so the count must be 0
	about     func(*message) bool // the checked messages; at least one must exist, unless about is nil
	counts    func(*message) bool // the counted messages; nil for orders and hits
}

var claims = map[string]claim{
	"started":    {one: "order started", many: "orders started", filters: orderFilters},
	"fault_hits": {one: "hit of the fault", many: "hits of the fault"}, // without filters
	"messages": {
		one: "message", many: "messages", filters: messageFilters,
		counts: func(*message) bool { return true },
	},
	"delivered": {
		one: "notification delivered", many: "notifications delivered", filters: messageFilters,
		about: func(m *message) bool { return m.Status > 0 },
		counts: func(m *message) bool {
			return !m.Forged && !m.Cut && paymentsvctest.Delivery{HTTPStatus: m.Status}.Accepted()
		},
	},
	"forgeries_refused": {
		one: "forgery not rejected", many: "forgeries not rejected", filters: messageFilters, isError: true,
		about: func(m *message) bool { return m.Forged && m.State != inFlight },
		counts: func(m *message) bool { // a missing response may be a crash
			return m.Forged && m.State != inFlight && !paymentsvctest.Delivery{HTTPStatus: m.Status}.Rejected()
		},
	},
	"all_signed": {
		one: "request with a wrong signature", many: "requests with a wrong signature", isError: true,
		filters: messageFilters,
		about:   func(m *message) bool { return m.Direction == in && m.Signature != nil },
		counts:  func(m *message) bool { return m.Direction == in && m.Signature != nil && !m.Signature.Valid },
	},
	"none_rejected": {
		one: "request rejected", many: "requests rejected", filters: messageFilters, isError: true,
		about: func(m *message) bool { return m.Signature != nil && m.Direction == in || m.Rejection != nil },
		counts: func(m *message) bool { // a client sends a status call by user_data to detect a missing start
			return m.Rejection != nil && !m.Declined &&
				(m.Rejection.Problem != paymentsvctest.ProblemNotFound || m.Rejection.UserData == "")
		},
	},
}

// expectation is a claim with a filter, limits for the count, and time limits.
type expectation struct {
	That string `json:"that"`
	filter
	FaultID  int    `json:"fault_id"`
	Count    *int   `json:"count"`
	AtLeast  *int   `json:"at_least"`
	AtMost   *int   `json:"at_most"`
	Within   string `json:"within"`
	HoldsFor string `json:"holds_for"`

	claim
}

// unbounded is the upper limit of a claim without "count" and "at_most".
const unbounded = 1 << 30

// bounds returns the limits of the count. They are 0 and 0 for a claim that counts errors. The defaults of other claims
// are 1 and unbounded.
func (x *expectation) bounds() (least, most int, err error) {
	given := 0
	least, most = 1, unbounded
	for _, bound := range []*int{x.Count, x.AtLeast, x.AtMost} {
		if bound != nil {
			given++
		}
	}
	switch {
	case x.isError && given > 0:
		return 0, 0, invalid("count", "count, at_least, at_most: %s counts errors, which must be 0", x.That)
	case x.isError:
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
	switch {
	case min(least, most) < 0:
		return 0, 0, invalid("count", "count, at_least, at_most: negative")
	case most < least:
		return 0, 0, invalid("count", "at_least: %d, want at most %d", least, most)
	}
	return least, most, nil
}

// finding is the result of a count.
type finding struct {
	n          int
	duplicates []paymentsvctest.Rejection // starts rejected as duplicates
	gap        bool                       // an evicted message or a dropped rejection could change the result
	untested   bool                       // claim.about is set, but accepts no message in the journal
}

// actual counts the orders, messages or hits of a claim.
func (e *epoch) actual(x *expectation) (found finding, err error) {
	switch x.That {
	case "started":
		return e.starts(x), nil
	case "fault_hits":
		rule, err := e.faultByID(x.FaultID)
		if err != nil {
			return found, invalid("fault_id", "fault_id: there is no such fault")
		}
		return finding{n: rule.rule.Hits()}, nil
	}
	found.untested = x.about != nil
	_, gap := e.journal.each(&x.filter, func(m *message) bool {
		if x.counts(m) {
			found.n++
		}
		found.untested = found.untested && !x.about(m)
		return true
	})
	found.gap = gap > x.After
	return found, nil
}

// starts counts the matching orders, and lists rejected duplicates. A duplicate is listed if an order with its project
// and user_data matches, or if its own kind, project and user_data match a filter without "order_id" and "after".
func (e *epoch) starts(x *expectation) (found finding) {
	type start struct {
		project  int64
		userData string
	}
	list, all := e.fake.RejectedAfter(0)
	found.gap = len(list) < all
	list = slices.DeleteFunc(list, func(r paymentsvctest.Rejection) bool {
		return r.Problem != paymentsvctest.ProblemRepeated
	})
	matching := map[start]bool{}
	e.eachOrder(&x.filter, func(o *paymentsvctest.Order) bool {
		found.n++
		if len(list) > 0 { // otherwise the map of all orders would be built in vain
			matching[start{o.ProjectID, o.UserData}] = true
		}
		return true
	})
	for _, r := range list {
		kind, _, _ := strings.Cut(strings.TrimPrefix(r.Endpoint, "init_"), "/")
		fits := x.After == 0 && (x.Kind == "" || x.Kind == kind) && x.fits(r.ProjectID, r.UserData, "")
		if fits || matching[start{r.ProjectID, r.UserData}] {
			found.duplicates = append(found.duplicates, r)
		}
	}
	return found
}

// met reports whether the claim holds. A claim with an upper limit does not hold after a duplicate or an eviction.
func (found finding) met(least, most int) bool {
	certain := most == unbounded || !found.gap && len(found.duplicates) == 0
	return found.n >= least && found.n <= most && !found.untested && certain
}

// line describes a message and its errors.
func (m *message) line() string {
	line := fmt.Sprintf("message %d: %s %s for user_data %q, HTTP %d, %s", m.Seq, m.Direction, m.Endpoint,
		m.Fields.UserData, m.Status, m.State)
	if m.Rejection != nil {
		line += fmt.Sprintf(": rejected, %s: %s", m.Rejection.Problem, m.Rejection.Message)
	}
	if m.Signature != nil && !m.Signature.Valid {
		line += ": wrong signature: " + m.Signature.Reason
	}
	return line
}

func postExpect(c *call, x expectation) (int, any, error) {
	var known bool
	x.claim, known = claims[x.That]
	if !known {
		return 0, nil, invalid("that", "that: not one of %s", strings.Join(slices.Sorted(maps.Keys(claims)), ", "))
	}
	within, err := duration("within", x.Within)
	holds, holdsErr := duration("holds_for", x.HoldsFor)
	if err := cmp.Or(err, holdsErr); err != nil {
		return 0, nil, err
	}
	if within > longestHolding || holds > longestHolding {
		return 0, nil, invalid("within", "within, holds_for: more than %s", longestHolding)
	}
	least, most, err := x.bounds()
	if err != nil {
		return 0, nil, err
	}
	if x.That == "delivered" {
		x.Direction = cmp.Or(x.Direction, out)
	}
	if x.That == "fault_hits" && x.filter != (filter{}) {
		return 0, nil, invalid("that", `that: fault_hits accepts no filter; the filter of a fault is its "where"`)
	}
	if err := c.only(&x.filter, x.filters...); err != nil {
		return 0, nil, err
	}
	if _, err := c.actual(&x); err != nil {
		return 0, nil, err
	}
	about := &x.filter
	if x.That == "fault_hits" {
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
		return 0, nil, failure(http.StatusConflict, "reset", "", "the mock server was reset meanwhile")
	case ok:
		return http.StatusOK, map[string]any{"actual": found.n}, nil
	case found.gap && found.n <= most:
		return 0, nil, failure(http.StatusConflict, "evicted", "after",
			`the journal or the fake dropped entries that could matter: set "after", or a larger -journal`)
	}
	return 0, nil, c.notMet(&x, found, least, most)
}

// notMet returns an error with the expected and the actual number, and the nearest messages.
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
	what := x.many
	if found.n == 1 {
		what = x.one
	}
	f := failure(http.StatusConflict, "not_met", "", "%d %s%s, want %s", found.n, what, about, want)
	switch {
	case found.untested && least == 0:
		f.apiError.Error.Message = "nothing was tested: there is no message for " + x.That
	case len(found.duplicates) > 0 && most != unbounded:
		f.apiError.Error.Message += fmt.Sprintf("; further starts rejected as duplicates: %d, want 0", len(found.duplicates))
	}
	f.apiError.Error.Message = mask.Text(f.apiError.Error.Message)
	f.Actual = &found.n
	for _, near := range e.nearest(x, found, found.n > most) {
		f.Nearest = append(f.Nearest, mask.Text(near))
	}
	return f
}

// nearest describes the newest messages, at most three. For "started", it describes orders and then all rejected
// duplicates, and returns the last three descriptions. If counted is true, it selects the messages or orders that
// count, and otherwise the others. For "fault_hits", it returns nil.
func (e *epoch) nearest(x *expectation, found finding, counted bool) (lines []string) {
	const few = 3
	if x.counts != nil {
		match := func(m *message) bool { return (x.fitsMessage(m) && x.counts(m)) == counted }
		messages, _, _ := e.journal.newest(0, few, match)
		slices.Reverse(messages)
		return cli.Mapped(messages, func(m message) string { return m.line() })
	}
	if x.That != "started" {
		return nil
	}
	orders, _ := e.newestOrders(0, few, func(o *paymentsvctest.Order) bool { return x.fitsOrder(o) == counted })
	for _, o := range slices.Backward(orders) {
		lines = append(lines, fmt.Sprintf("%s of %s for user_data %q, %s", o.Kind, o.Amount, o.UserData, o.Status))
	}
	lines = append(lines, cli.Mapped(found.duplicates, paymentsvctest.Rejection.String)...)
	return lines[max(len(lines)-few, 0):]
}
