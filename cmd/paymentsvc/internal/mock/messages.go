package mock

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// messageOut is a message in JSON.
type messageOut struct {
	Seq           int         `json:"seq"`
	Time          time.Time   `json:"time"`
	Direction     string      `json:"direction"`
	State         string      `json:"state"`
	Method        string      `json:"method"`
	Target        string      `json:"target"`
	Endpoint      string      `json:"endpoint"`
	ProjectID     int64       `json:"project_id"`
	UserData      string      `json:"user_data"`
	OrderID       string      `json:"order_id"`
	Headers       [][2]string `json:"headers"`
	BodyBase64    []byte      `json:"body_base64"`
	Masked        bool        `json:"masked"`
	HTTPStatus    int         `json:"http_status"`
	AnswerHeaders [][2]string `json:"answer_headers"`
	AnswerBase64  []byte      `json:"answer_base64"`
	MS            int64       `json:"ms"`
	Error         string      `json:"error"`
	Signature     *verdict    `json:"signature"`
	Rejected      *rejected   `json:"rejected"`
	Faults        []int       `json:"faults"`
}

// rejected is why the mock itself rejected a request.
type rejected struct {
	Problem string `json:"problem"`
	Message string `json:"message"`
}

func (e *epoch) messageOut(m message) messageOut {
	body, answer, userData, orderID := m.Body, m.Answered, m.Fields.UserData, m.Fields.OrderID
	if !e.opt.ShowBodies {
		body, answer, userData, orderID = masked(body), masked(answer), cli.Mask(userData), cli.Mask(orderID)
	}
	o := messageOut{
		Seq: m.Seq, Time: m.At.UTC(), Direction: m.Direction, State: m.State,
		Method: m.Method, Target: withoutQuery(m.Target), Endpoint: m.Endpoint,
		ProjectID: m.Fields.ProjectID, UserData: userData, OrderID: orderID,
		Headers: pairs(m.Header), BodyBase64: append([]byte{}, body...),
		Masked:     !bytes.Equal(body, m.Body) || !bytes.Equal(answer, m.Answered),
		HTTPStatus: m.Status, AnswerHeaders: pairs(m.Answer), AnswerBase64: append([]byte{}, answer...),
		MS: m.Took.Milliseconds(), Error: m.Err, Signature: m.Signature, Faults: append([]int{}, m.Faults...),
	}
	if m.Rejection != nil {
		o.Rejected = &rejected{string(m.Rejection.Problem), m.Rejection.Message}
	}
	return o
}

// pairs returns a header sorted by name. Credentials of a gateway in front are hidden.
func pairs(h http.Header) [][2]string {
	list := [][2]string{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			if slices.Contains([]string{"Authorization", "Cookie", "Set-Cookie", "Proxy-Authorization"}, name) {
				value = "***"
			}
			list = append(list, [2]string{name, value})
		}
	}
	return list
}

const hidden = `"***"`

// shown are the fields of the document that hold neither card data nor a destination.
func shown() []string {
	return []string{
		"partner_id", "project_id", "amount", "description", "user_data", "order_id", "status", "status_code",
		"status_description", "event", "redirect_url", "invoice_url", "payout_balance", "expected_balance", "currency",
	}
}

// masked hides every value but simple ones of the fields that are shown and of errors, and what looks like a card number in
// those. What is not one JSON object is hidden whole.
func masked(body []byte) []byte {
	if len(body) == 0 {
		return body
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return []byte(hidden)
	}
	var out []byte
	kept := 0
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return []byte(hidden)
		}
		text, _ := name.(string)
		if value[0] != '{' && value[0] != '[' && (slices.Contains(shown(), text) || strings.HasPrefix(text, "error")) {
			continue
		}
		end := int(dec.InputOffset())
		out = append(append(out, body[kept:end-len(value)]...), hidden...)
		kept = end
	}
	if _, err := dec.Token(); err != nil {
		return []byte(hidden)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return []byte(hidden)
	}
	return []byte(cli.Mask(string(append(out, body[kept:]...))))
}

func getMessages(c *call) (int, any, error) {
	f, err := filterOf(c.r, "limit", "wait")
	if err := cmp.Or(err, f.only(messageFilters()...)); err != nil {
		return 0, nil, err
	}
	wait, err := duration("wait", c.r.URL.Query().Get("wait"))
	if err != nil {
		return 0, nil, err
	}
	if wait > time.Minute {
		return 0, nil, invalid("wait", "wait: more than 60s")
	}
	var list []message
	var evicted int
	c.journal.waitFor(c.r.Context(), wait, func() bool {
		list, evicted, _ = c.journal.list(f.fitsMessage)
		return len(list) > 0
	})
	list, next, err := page(c.r, list, func(m message) int { return m.Seq })
	if err != nil {
		return 0, nil, err
	}
	messages := []messageOut{}
	for _, m := range list {
		messages = append(messages, c.messageOut(m))
	}
	return http.StatusOK, struct {
		Messages []messageOut `json:"messages"`
		Next     int          `json:"next"`
		Evicted  int          `json:"evicted"`
	}{messages, next, evicted}, nil
}

func (c *call) message() (message, error) {
	seq, err := c.number("id")
	if err != nil {
		return message{}, err
	}
	m, evicted := c.journal.get(seq)
	switch {
	case evicted:
		return m, failure(http.StatusGone, "evicted", "id", "message %d is not in the journal any more", seq)
	case m.Seq == 0:
		return m, failure(http.StatusNotFound, "not_found", "id", "there is no such message")
	}
	return m, nil
}

func getMessage(c *call) (int, any, error) {
	m, err := c.message()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, struct {
		Message messageOut `json:"message"`
	}{c.messageOut(m)}, nil
}

// getRaw returns a message as HTTP text, from which paymentsvc discover and verify can read.
func getRaw(c *call) (int, any, error) {
	m, err := c.message()
	switch {
	case err != nil:
		return 0, nil, err
	case !c.opt.ShowBodies:
		return 0, nil, failure(http.StatusForbidden, "masked", "",
			"raw messages may hold card data: start the mock with -show-bodies")
	}
	var text bytes.Buffer
	_, _ = fmt.Fprintf(&text, "%s %s HTTP/1.1\r\n", m.Method, m.Target)
	_ = m.Header.Write(&text) // a buffer takes everything
	_, _ = fmt.Fprintf(&text, "\r\n%s", m.Body)
	return http.StatusOK, rawText(text.Bytes()), nil
}

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

// expectation is a claim and how long it may take.
type expectation struct {
	That string `json:"that"`
	filter
	FaultID  int    `json:"fault_id"`
	Count    *int   `json:"count"`
	AtLeast  *int   `json:"at_least"`
	AtMost   *int   `json:"at_most"`
	Within   string `json:"within"`
	HoldsFor string `json:"holds_for"`
}

// unbounded is the most that there may be where nothing says otherwise.
const unbounded = 1 << 30

// bounds returns how many there may be.
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
	case x.Count != nil && given == 1:
		return *x.Count, *x.Count, nil
	case x.Count != nil:
		return 0, 0, invalid("count", "count: either count, or at_least and at_most")
	}
	if x.AtLeast != nil {
		least = *x.AtLeast
	}
	if x.AtMost != nil {
		most = *x.AtMost
		if x.AtLeast == nil {
			least = 0
		}
	}
	return least, most, nil
}

// finding is what there is of a claim.
type finding struct {
	n          int
	duplicates int      // starts that were rejected
	hole       bool     // a message that was evicted could matter
	untested   bool     // there is nothing that the claim is about
	near       []string // of what was not counted
	counted    []string
}

// add keeps the line of what was counted, or was not.
func (found *finding) add(counts bool, line string) {
	if counts {
		found.counted = append(found.counted, line)
	} else {
		found.near = append(found.near, line)
	}
}

// actual counts what the claim is about.
func (e *epoch) actual(x *expectation) (found finding, err error) {
	f := &x.filter
	about := func(*message) bool { return true }
	var counts func(m *message) bool
	switch x.That {
	case thatStarted:
		return e.starts(f), nil
	case thatFaultHits:
		rule, err := e.faultByID(x.FaultID)
		if err != nil {
			return found, invalid("fault_id", "fault_id: there is no such fault")
		}
		return finding{n: rule.rule.Hits()}, nil
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
		counts = func(m *message) bool { // a status call by user_data is how a client learns that nothing was started
			return m.Rejection != nil && !m.Declined &&
				(m.Rejection.Problem != paymentsvctest.ProblemNotFound || m.Rejection.UserData == "")
		}
	default:
		return found, invalid("that",
			"that: not one of started, messages, delivered, fault_hits, all_signed, none_rejected and forgeries_refused")
	}
	found.untested = slices.Contains([]string{thatNoForgery, thatAllSigned, thatNone}, x.That)
	list, _, evicted := e.journal.list(func(m *message) bool {
		fits := f.fitsMessage(m) && counts(m)
		found.untested = found.untested && !(f.fitsMessage(m) && about(m))
		found.add(fits, m.line())
		return fits
	})
	found.n, found.hole = len(list), evicted > f.After
	return found, nil
}

// starts counts orders, and the starts that were rejected as duplicates, of which only user_data and kind are known.
func (e *epoch) starts(f *filter) (found finding) {
	for _, o := range e.fake.Orders() {
		if f.fitsOrder(o) {
			found.n++
		}
		found.add(f.fitsOrder(o), fmt.Sprintf("%s of %s for user_data %q, %s", o.Kind, o.Amount, o.UserData, o.Status))
	}
	for _, r := range e.fake.Rejected() {
		kind, _, _ := strings.Cut(strings.TrimPrefix(r.Endpoint, "init_"), "/")
		if r.Problem == paymentsvctest.ProblemRepeated && f.OrderID == "" && f.After == 0 && (f.Kind == "" || f.Kind == kind) &&
			(f.UserData == nil || *f.UserData == r.UserData) && strings.HasPrefix(r.UserData, f.UserDataPrefix) {
			found.duplicates++
			found.near = append(found.near, r.String())
		}
	}
	return found
}

// met reports whether the claim holds. What was evicted can only add.
func (found finding) met(least, most int) bool {
	bounded := most != unbounded
	return found.n >= least && found.n <= most && !found.untested && !(bounded && (found.hole || found.duplicates > 0))
}

// line describes a message, with what was wrong with it.
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

// expectAnswer is the answer of an expectation that is met.
type expectAnswer struct {
	Actual int `json:"actual"`
}

func postExpect(c *call) (int, any, error) {
	var x expectation
	if err := c.decode(&x); err != nil {
		return 0, nil, err
	}
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
	if err := x.only(allowed...); err != nil {
		return 0, nil, err
	}
	if _, err := c.actual(&x); err != nil {
		return 0, nil, err
	}
	met := func() bool {
		found, err := c.actual(&x)
		return err == nil && found.met(least, most)
	}
	ok := c.journal.waitFor(c.r.Context(), within, met)
	if ok && holds > 0 {
		ok = !c.journal.waitFor(c.r.Context(), holds, func() bool { return !met() })
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
	return 0, nil, notMet(&x, found, least, most)
}

// notMet says what a person needs to know of an expectation that is not met.
func notMet(x *expectation, found finding, least, most int) error {
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
	f.apiError.Error.Message = cli.Mask(f.apiError.Error.Message)
	f.Actual = &found.n
	list := found.near
	if found.n > most {
		list = found.counted
	}
	for _, near := range list[max(len(list)-3, 0):] {
		f.Nearest = append(f.Nearest, cli.Mask(near))
	}
	return f
}
