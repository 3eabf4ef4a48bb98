package paymentsvctest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// The endpoints, for [Server.Fault] and [Server.Requests]. InitPayment matches all four types, and a path such as
// "init_payment/sbp" matches one type.
const (
	InitPayment   = "init_payment"
	StatusPayment = "status_payment"
	InitPayout    = "init_payout"
	StatusPayout  = "status_payout"
	InitForm      = "init_form"
	InitInvoice   = "init_invoice"
	GetBalance    = "get_balance"
	// AnyEndpoint matches every endpoint.
	AnyEndpoint = ""
)

// covers reports whether pattern, a constant or a path as above, matches endpoint.
func covers(pattern, endpoint string) bool {
	return pattern == AnyEndpoint || endpoint == pattern || strings.HasPrefix(endpoint, pattern+"/")
}

// Which selects requests or notifications of a rule by their number. The first request or notification that matches the
// rule has number 1. The zero value is [Every].
type Which struct {
	text  string
	match func(n int) bool
}

// Every selects every request or notification.
func Every() Which { return Which{"every", func(int) bool { return true }} }

// Nth selects only the nth request or notification.
func Nth(n int) Which {
	return Which{fmt.Sprintf("number %d", n), func(i int) bool { return i == n }}
}

// First selects the first n requests or notifications.
func First(n int) Which {
	return Which{fmt.Sprintf("first %d", n), func(i int) bool { return i <= n }}
}

// Where selects the numbers accepted by match. text names the selection. match must be a pure function.
func Where(text string, match func(n int) bool) Which { return Which{text, match} }

// String returns the name of the selection.
func (w Which) String() string {
	if w.match == nil {
		return Every().text
	}
	return w.text
}

func (w Which) selects(n int) bool { return w.match == nil || w.match(n) }

// Rule is a rule of [Server.Fault] or [Server.FaultNotifications].
type Rule struct {
	// On is the endpoint or the event, or "" for all. Which is the text of the selection. Faults are the texts of the
	// faults, for ParseFault or ParseNotificationFault.
	On     string
	Which  string
	Faults []string

	server   *Server
	which    Which
	requests func(*http.Request) bool // a further condition, or nil
	selected func(*http.Request)      // called with each selected request, or nil
	entries  func(Notification) bool  // a further condition, or nil
	faults   []Fault                  // of requests
	notified []NotificationFault      // of notifications
	// The server's lock guards the counters below.
	arrivals int // requests or notifications that match the rule
	hits     int
}

// Hits returns the number of requests or notifications on which all of the rule's faults took effect. Check it, because
// a test passes too easily if its fault has no effect. Examples of faults without a hit are a cut after the end of the
// response, a fault [AfterCommit] of a rejected request, a forgery without a receiver, and a fault of a request that
// another fault ended earlier.
func (r *Rule) Hits() int {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	return r.hits
}

// Remove ends the rule. Faults already injected remain, for example in a delayed notification.
func (r *Rule) Remove() {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	is := func(other *Rule) bool { return other == r }
	r.server.rules = slices.DeleteFunc(r.server.rules, is)
	r.server.notifyRules = slices.DeleteFunc(r.server.notifyRules, is)
}

// String returns the rule on one line.
func (r *Rule) String() string {
	on := r.On
	if on == "" {
		on = "all"
	}
	return fmt.Sprintf("%s, %s: %s", on, r.Which, strings.Join(r.Faults, " + "))
}

// Fault creates a rule. Its faults affect the selected requests to endpoint. Faults of several rules combine, in the
// order of the rules.
func (s *Server) Fault(endpoint string, which Which, faults ...Fault) *Rule {
	return s.FaultWhere(endpoint, nil, nil, which, faults...)
}

// FaultWhere is [Server.Fault] for requests accepted by match. The server calls match with each request to the
// endpoint, and selected with each request that which selects. Both functions may be nil, and must be nil for Refuse.
// They must not call the server. To read the body, use [ReadBody] in a handler in front of the server.
func (s *Server) FaultWhere(
	endpoint string, match func(*http.Request) bool, selected func(*http.Request), which Which, faults ...Fault,
) *Rule {
	if refuses(faults) && (match != nil || selected != nil || len(faults) > 1) {
		panic("paymentsvctest: Refuse must be the only fault of its rule, without match and selected")
	}
	return s.fault(&s.rules, &Rule{
		On: endpoint, Faults: texts(faults), requests: match, selected: selected, which: which, faults: faults,
	})
}

// FaultNotifications creates a rule for the notifications of an event, or of all events if event is "". The rule counts
// each attempt of [Server.Deliver]. [Server.Send] takes its faults as arguments instead.
func (s *Server) FaultNotifications(event paymentsvc.EventType, which Which, faults ...NotificationFault) *Rule {
	return s.FaultNotificationsWhere(event, nil, which, faults...)
}

// FaultNotificationsWhere is [Server.FaultNotifications] for notifications accepted by match. match may be nil, and
// must not call the server.
func (s *Server) FaultNotificationsWhere(
	event paymentsvc.EventType, match func(Notification) bool, which Which, faults ...NotificationFault,
) *Rule {
	return s.fault(&s.notifyRules, &Rule{
		On: string(event), Faults: texts(faults), entries: match, which: which, notified: faults,
	})
}

// fault adds a rule to a list.
func (s *Server) fault(list *[]*Rule, r *Rule) *Rule {
	r.server, r.Which = s, r.which.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, r)
	return r
}

// ClearFaults ends all rules, and Chaos.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules, s.notifyRules, s.chaos = nil, nil, nil
}

func texts[F fmt.Stringer](faults []F) []string {
	list := make([]string, 0, len(faults))
	for _, f := range faults {
		list = append(list, f.String())
	}
	return list
}

// Chaos configures random faults, see [Server.Chaos].
type Chaos struct {
	// Seed makes a run repeatable, because the nth request to an endpoint has the same faults in every run. 0 means a
	// random seed, which Server.Chaos prints.
	Seed uint64
	// OneIn is the inverse of the probability that a request or notification has faults. 0 or less means 4.
	OneIn int
	// Faults are the faults of requests. nil means AllFaults, and an empty list disables them.
	Faults []Fault
	// NotificationFaults are the faults of notifications. nil means AllNotificationFaults, and an empty list disables
	// them.
	NotificationFaults []NotificationFault
}

// chaos is an active Chaos. The server's lock guards its counters.
type chaos struct {
	Chaos
	counts map[string]int
}

// Chaos adds random faults to the rules, until [Server.ClearFaults] or another Chaos. It returns the seed, and prints
// it with Config.Logf.
func (s *Server) Chaos(c Chaos) (seed uint64) {
	for c.Seed == 0 {
		c.Seed = rand.Uint64() //nolint:gosec // a schedule of faults is no secret
	}
	if c.OneIn <= 0 {
		c.OneIn = 4
	}
	if c.Faults == nil {
		c.Faults = AllFaults()
	}
	if c.NotificationFaults == nil {
		c.NotificationFaults = AllNotificationFaults()
	}
	s.mu.Lock()
	s.chaos = &chaos{Chaos: c, counts: map[string]int{}}
	s.mu.Unlock()
	s.cfg.Logf("paymentsvctest: Chaos: Seed %d, OneIn %d", c.Seed, c.OneIn)
	return c.Seed
}

// pick returns one or two faults for one call in OneIn on average, and no fault for the other calls. The result depends
// only on the seed, the stream and the number of earlier calls for the stream.
func pick[F any](c *chaos, stream string, faults []F) []F {
	if c == nil || len(faults) == 0 {
		return nil
	}
	c.counts[stream]++
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", stream, c.counts[stream])
	random := rand.New(rand.NewPCG(c.Seed, h.Sum64())) //nolint:gosec // as above
	if random.IntN(c.OneIn) != 0 {
		return nil
	}
	picked := []F{faults[random.IntN(len(faults))]}
	if random.IntN(4) == 0 {
		picked = append(picked, faults[random.IntN(len(faults))])
	}
	return picked
}

// connecting counts a request of HTTPClient's client for the rules with Refuse, and reports whether Refuse affects the
// request.
func (s *Server) connecting(endpoint string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := false
	for _, r := range s.rules {
		if !covers(r.On, endpoint) || !refuses(r.faults) {
			continue
		}
		r.arrivals++
		if r.which.selects(r.arrivals) {
			r.hits++
			refused = true
		}
	}
	if s.chaos != nil {
		refused = refused || refuses(pick(s.chaos, "connecting "+endpoint, s.chaos.Faults))
	}
	return refused
}

// arriving counts a request, and returns its number at the endpoint and its faults.
func (s *Server) arriving(endpoint string, req *http.Request) (n int, e *effects) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.dialed[req.RemoteAddr] // the method connecting has counted the request
	s.arrivals[endpoint]++
	e = &effects{}
	for _, r := range s.rules {
		if !covers(r.On, endpoint) || known && refuses(r.faults) || r.requests != nil && !r.requests(req) {
			continue
		}
		r.arrivals++
		if !r.which.selects(r.arrivals) {
			continue
		}
		e.add(r, r.faults)
		if r.selected != nil {
			r.selected(req)
		}
	}
	if s.chaos != nil {
		e.add(nil, pick(s.chaos, endpoint, s.chaos.Faults))
	}
	return s.arrivals[endpoint], e
}

// pendingFaults are the faults of one request or notification before they take effect.
type pendingFaults []pendingFault

// pendingFault is a fault of a rule. Of two different faults in one slot, the later fault applies.
type pendingFault struct {
	slot, text string
	rule       *Rule
	left       *int // the number of the rule's faults that have not taken effect
}

// addAll adds the faults of r, or of no rule if r is nil. apply adds one fault to the effects, and returns its slot and
// text. The slot is "" for the zero value.
func addAll[F any](s *pendingFaults, r *Rule, faults []F, apply func(F) (slot, text string)) {
	left := 0
	for _, f := range faults {
		slot, text := apply(f)
		if slot == "" {
			continue
		}
		left++
		*s = append(slices.DeleteFunc(*s, func(other pendingFault) bool {
			return other.slot == slot && other.text != text
		}), pendingFault{slot, text, r, &left})
	}
	if left == 0 && r != nil {
		r.hits++ // a rule without faults hits each selected request
	}
}

// markApplied records that the faults in a slot took effect. A rule hits when all of its faults took effect. Call
// markApplied before the client can see the effect, because the client may then call [Rule.Hits].
func (s *Server) markApplied(faults *pendingFaults, slot string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	faults.markApplied(slot)
}

func (s *pendingFaults) markApplied(slot string) {
	*s = slices.DeleteFunc(*s, func(f pendingFault) bool {
		if f.slot != slot {
			return false
		}
		*f.left--
		if *f.left == 0 && f.rule != nil {
			f.rule.hits++
		}
		return true
	})
}
