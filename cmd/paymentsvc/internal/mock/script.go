package mock

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// scripted is a scripted outcome: conditions and the steps of a matching order.
type scripted struct {
	text    string
	where   []condition
	decline *string // the message of DECLINED, or nil
	steps   []step
}

type condition struct{ name, pattern string }

type step struct {
	status paymentsvc.StatusName
	after  time.Duration // the wait after the previous step
}

// CheckScript returns an error for a text that is not a scripted outcome. The first text that matches an order
// applies. Examples:
//
//	user_data=slow-*: SUCCESS after 2s
//	amount=13.13 kind=payment: DECLINED no money
//	project_id=7 user_data='two words': PENDING after 1s, FAILURE after 5s
//
// The conditions are user_data, amount, kind, type and project_id. An order must meet all conditions of a text.
// Patterns have the syntax of [path.Match], but a pattern for amount without * must be an amount. The amount 13.13 also
// matches 13.130. A status without "after" has no wait. "after" counts from the previous status. DECLINED rejects the
// start. Errors contain the text's number and the column.
func CheckScript(texts []string) error {
	_, err := parseScript(texts)
	return err
}

func parseScript(texts []string) ([]scripted, error) {
	return parseEach("script", texts, parseScripted)
}

// parseEach parses texts, and returns nil for nil. An error contains the number of the text.
func parseEach[T any](name string, texts []string, parse func(string) (T, error)) (list []T, err error) {
	if texts != nil {
		list = make([]T, len(texts))
	}
	for i, text := range texts {
		list[i], err = parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s %d: %w", name, i+1, err)
		}
	}
	return list, nil
}

// scriptParser parses a text word by word.
type scriptParser struct {
	text string
	at   int
}

func (p *scriptParser) fail(at int, problem string) error {
	return fmt.Errorf("column %d: %s", at+1, problem)
}

func (p *scriptParser) blanks() {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
}

// until returns the text before the next byte that is in ends, and advances to this byte.
func (p *scriptParser) until(ends string) string {
	rest := p.text[p.at:]
	if end := strings.IndexAny(rest, ends); end >= 0 {
		rest = rest[:end]
	}
	p.at += len(rest)
	return rest
}

func (p *scriptParser) take(c byte) bool {
	p.blanks()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func parseScripted(text string) (scripted, error) {
	p := &scriptParser{text: text}
	s := scripted{text: text}
	var err error
	s.where, err = p.conditions("user_data", "amount", "kind", "type", "project_id")
	if err != nil {
		return s, err
	}
	for more := true; more; more = p.take(',') {
		if err := p.outcome(&s); err != nil || s.decline != nil {
			return s, err
		}
	}
	if p.at < len(text) {
		return s, p.fail(p.at, `want one "after" with a duration, a comma or the end`)
	}
	return s, nil
}

// conditions parses at least one condition and the colon.
func (p *scriptParser) conditions(names ...string) (list []condition, err error) {
	for !p.take(':') {
		p.blanks()
		c, err := p.condition(names)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, p.fail(0, "a condition such as "+names[0]+"=... is missing")
	}
	return list, nil
}

func (p *scriptParser) condition(names []string) (condition, error) {
	start := p.at
	c := condition{name: p.until("=: ")}
	if !slices.Contains(names, c.name) {
		hint := ""
		rest := p.text[start:]
		if isAddress := cli.CheckAddress(rest) == nil; rest != "" && (isAddress || !strings.Contains(rest, ":")) {
			hint = ": is a colon missing?"
		}
		last := len(names) - 1
		return c, p.fail(start, "a condition is one of "+strings.Join(names[:last], ", ")+" and "+names[last]+hint)
	}
	if p.at >= len(p.text) || p.text[p.at] != '=' {
		return c, p.fail(p.at, `"=" is missing`)
	}
	p.at++
	start = p.at
	if quote := p.text[p.at:]; quote != "" && (quote[0] == '\'' || quote[0] == '"') {
		p.at++
		c.pattern = p.until(quote[:1])
		if p.at == len(p.text) {
			return c, p.fail(start, "the quote does not end")
		}
		p.at++
	} else {
		c.pattern = p.until(": ")
	}
	if _, err := path.Match(c.pattern, ""); err != nil || c.pattern == "" {
		return c, p.fail(start, `not a pattern: it is empty, or a "[" or "\" in it is incomplete`)
	}
	if c.name == "amount" {
		if _, err := paymentsvc.ParseAmount(c.pattern); err != nil && !strings.Contains(c.pattern, "*") {
			return c, p.fail(start, "not an amount")
		}
	}
	p.blanks()
	if p.at == len(p.text) {
		return c, p.fail(p.at, `want ":" after the conditions`)
	}
	return c, nil
}

func (p *scriptParser) outcome(s *scripted) error {
	p.blanks()
	start := p.at
	word := p.until(" ,")
	if word == "DECLINED" && len(s.steps) == 0 {
		message := strings.TrimSpace(p.text[p.at:])
		if message == "" {
			message = "declined by the script"
		}
		s.decline, p.at = &message, len(p.text)
		return nil
	}
	next := step{status: paymentsvc.StatusName(word)}
	if !next.status.Known() {
		return p.fail(start, "want SUCCESS, FAILURE or PENDING, or DECLINED as the only outcome")
	}
	p.blanks()
	if strings.HasPrefix(p.text[p.at:], "after ") {
		p.at += len("after ")
		p.blanks()
		start = p.at
		var err error
		next.after, err = time.ParseDuration(p.until(" ,"))
		if err != nil || next.after < 0 {
			return p.fail(start, "want a duration such as 2s")
		}
		p.blanks()
	}
	s.steps = append(s.steps, next)
	return nil
}

// fits reports whether a value matches the pattern.
func (c condition) fits(value string) bool {
	matched, _ := path.Match(c.pattern, value) // [scriptParser.condition] has validated the pattern
	return matched
}

// fits reports whether an order meets all conditions.
func (s scripted) fits(o paymentsvctest.Order) bool {
	for _, c := range s.where {
		value := map[string]string{
			"user_data": o.UserData, "amount": o.Amount.String(), "kind": string(o.Kind), "type": string(o.Type),
			"project_id": strconv.FormatInt(o.ProjectID, 10),
		}[c.name]
		matched := c.fits(value)
		if amount, err := paymentsvc.ParseAmount(c.pattern); c.name == "amount" && err == nil {
			matched = amount.Equal(o.Amount)
		}
		if !matched {
			return false
		}
	}
	return true
}

// scriptOf returns the first scripted outcome that fits an order, and reports whether it exists.
func (e *epoch) scriptOf(o paymentsvctest.Order) (scripted, bool) {
	_, script := e.settings()
	i := slices.IndexFunc(script, func(s scripted) bool { return s.fits(o) })
	if i < 0 {
		return scripted{}, false
	}
	return script[i], true
}

// declined returns an error for an order with a scripted DECLINED. It is Config.Check.
func (e *epoch) declined(o paymentsvctest.Order) error {
	if s, ok := e.scriptOf(o); ok && s.decline != nil {
		return errors.New(*s.decline)
	}
	return nil
}

// started schedules the steps of the script. It is Config.OnStart. A step without a wait may precede the response.
func (e *epoch) started(o paymentsvctest.Order) {
	s, _ := e.scriptOf(o)
	var after time.Duration
	for _, next := range s.steps {
		after += next.after
		e.clock.schedule(after, event{OrderID: o.OrderID, Status: next.status, Notify: true})
	}
	e.journal.ordered(o)
}

// receivers are the addresses of notifications.
type receivers struct {
	own  []receiver
	rest string // for the other projects and events, or ""
}

// receiver is the address for the notifications that meet all conditions.
type receiver struct {
	text    string
	where   []condition
	address string
}

// CheckReceivers returns an error for an invalid receiver of a project or an event. The first text that matches a
// notification applies. If no text matches, Options.Notify applies. The conditions are event and project_id, with
// patterns as in [CheckScript]. The pattern of an event must match an event of the interface document. Examples:
//
//	project_id=3003: http://127.0.0.1:9000/other
//	project_id=3003 event=refund.*: http://127.0.0.1:9000/refunds
func CheckReceivers(texts []string) error {
	_, err := parseReceivers(texts)
	return err
}

func parseReceivers(texts []string) ([]receiver, error) {
	return parseEach("receiver", texts, parseReceiver)
}

func parseReceiver(text string) (r receiver, err error) {
	p := &scriptParser{text: text}
	r.where, err = p.conditions("event", "project_id")
	if err != nil {
		return r, err
	}
	for _, c := range r.where {
		if c.name == "event" && !slices.ContainsFunc(Events(), c.fits) {
			return r, errors.New("event: not one of " + strings.Join(Events(), ", "))
		}
	}
	r.text, r.address = text, strings.TrimSpace(text[p.at:])
	if r.address == "" {
		return r, p.fail(p.at, "an address is missing")
	}
	return r, cli.CheckAddress(r.address)
}

// of returns the address for a notification, or "".
func (rs receivers) of(project int64, event string) string {
	values := map[string]string{"project_id": strconv.FormatInt(project, 10), "event": event}
	for _, r := range rs.own {
		if !slices.ContainsFunc(r.where, func(c condition) bool { return !c.fits(values[c.name]) }) {
			return r.address
		}
	}
	return rs.rest
}

func (rs receivers) none() bool { return rs.rest == "" && len(rs.own) == 0 }

// receive sets the receivers of the fake.
func (e *epoch) receive(rs receivers) {
	if rs.none() {
		e.fake.SetReceiver(paymentsvctest.Receiver{})
		return
	}
	e.fake.SetReceiver(paymentsvctest.ToEach(func(n paymentsvctest.Notification) paymentsvctest.Receiver {
		address := rs.of(n.ProjectID, string(n.Event))
		if address == "" {
			return paymentsvctest.Receiver{}
		}
		return paymentsvctest.ToURL(address).Via(&outgoing{e, fields{
			n.ProjectID, n.UserData, n.OrderID, string(n.Event), string(n.StatusDescription),
		}})
	}))
}
