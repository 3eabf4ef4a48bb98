package durable

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
)

// process is a process with a clock of its own, which is off by minutes or days.
type process struct {
	*Store
	clock *clocks
}

// flight is a claim in the hands of a process, and what the process has done with it.
type flight struct {
	by      *process
	job     job
	made    bool
	verdict verdict
}

// machine is a row, a service that starts whatever it is sent, and processes that may die or be late at every step.
type machine struct {
	rt        *rapid.T
	ctx       context.Context
	db        database
	f         *service
	now       time.Time // true time
	offset    time.Duration
	processes []*process
	kind      Kind
	userData  string
	flights   []*flight
	status    paymentsvc.StatusName
	notified  map[paymentsvc.StatusName]bool
	final     State
}

// ok accepts "nothing to do", which is for the store to find out.
func (m *machine) ok(err error) {
	if err != nil && !errors.Is(err, ErrChanged) && !errors.Is(err, ErrNotFound) {
		m.rt.Fatal(err)
	}
}

func (m *machine) any() *process { return rapid.SampledFrom(m.processes).Draw(m.rt, "process") }

func (m *machine) orders() []string {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	return m.f.started[m.userData]
}

// pick returns a flight that fits, and skips the step where there is none.
func (m *machine) pick(fits func(*flight) bool) *flight {
	var list []*flight
	for _, c := range m.flights {
		if fits(c) {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		m.rt.Skip("none")
	}
	return rapid.SampledFrom(list).Draw(m.rt, "flight")
}

func (m *machine) claim(rt *rapid.T) {
	p := m.any()
	got, err := p.round(m.ctx, asking{free: 1, most: 1, payments: 1, token: newToken()})
	m.ok(err)
	for _, j := range got.jobs {
		if rapid.IntRange(0, 9).Draw(rt, "doubt") == 0 { // the round's error came after its commit
			p.doubts = append(p.doubts, j.token) // and every sweep returns it
			continue
		}
		m.flights = append(m.flights, &flight{by: p, job: j})
	}
}

func (m *machine) call(rt *rapid.T) {
	c := m.pick(func(c *flight) bool { return !c.made })
	c.made = true
	m.f.before, m.f.after = nil, nil
	fail := func(err error) func(int, string) error { return func(int, string) error { return err } }
	switch rapid.SampledFrom([]string{"", "", "refused", "later", "not sent", "lost", "lost after", "malformed"}).Draw(rt, "answer") {
	case "refused":
		m.f.before = fail(refused(400, "E17"))
	case "later":
		m.f.before = fail(refused(401, "E1"))
	case "not sent":
		m.f.before = fail(notSent())
	case "lost":
		m.f.before = fail(unanswered(""))
	case "lost after":
		m.f.after = fail(unanswered(""))
	case "malformed":
		m.f.after = fail(unanswered(m.userData + "/1"))
	}
	c.verdict = c.by.call(m.ctx, c.job)
	if m.status == "" && len(m.orders()) > 0 {
		m.status = paymentsvc.StatusPending
	}
}

// record records what a call came to, at any time later, and possibly more than once.
func (m *machine) record(rt *rapid.T) {
	c := m.pick(func(c *flight) bool { return c.made })
	if c.verdict.is == factStarted && rapid.Bool().Draw(rt, "in a round") {
		_, err := c.by.round(m.ctx, asking{token: newToken(), outcomes: []*outcome{{
			UserData: c.job.userData, Token: c.job.token, OrderID: c.verdict.orderID, kind: m.kind,
		}}})
		m.ok(err)
		return
	}
	m.ok(c.by.settle(m.ctx, c.job, c.verdict))
}

func (m *machine) pass(d time.Duration) {
	m.now = m.now.Add(d)
	for _, p := range m.processes {
		p.clock.Add(d)
	}
	setClock(m.rt, m.db, m.now.Add(m.offset))
}

func (m *machine) time(rt *rapid.T) {
	m.pass(time.Duration(rapid.IntRange(1, 90).Draw(rt, "seconds")) * time.Second)
}

// jump is a failover to a database whose clock is another one.
func (m *machine) jump(rt *rapid.T) {
	m.offset = time.Duration(rapid.IntRange(-600, 600).Draw(rt, "seconds")) * time.Second
	m.pass(0)
}

func (m *machine) sweep(*rapid.T) {
	p := m.any()
	m.ok(p.endLeases(m.ctx))
	m.ok(p.returnDoubts(m.ctx))
}

func (m *machine) ask(*rapid.T) { m.ok(m.any().ask(m.ctx)) }

// resume ends the pauses that refusals have made.
func (m *machine) resume(*rapid.T) { m.ok(m.any().Resume(m.ctx, "person")) }

func (m *machine) settles(rt *rapid.T) {
	if m.status != paymentsvc.StatusPending {
		rt.Skip("nothing to settle")
	}
	m.status = rapid.SampledFrom([]paymentsvc.StatusName{paymentsvc.StatusSuccess, paymentsvc.StatusFailure}).Draw(rt, "status")
}

// notify sends a notification that is true, with or without user_data, or was true once, or has another amount.
func (m *machine) notify(rt *rapid.T) {
	orders := m.orders()
	if len(orders) == 0 {
		rt.Skip("nothing to notify of")
	}
	event, userData, status := paymentsvc.EventPaymentStatusChanged, "", m.status
	if m.kind == KindPayout {
		event = paymentsvc.EventPayoutStatusChanged
	}
	if rapid.Bool().Draw(rt, "old") {
		status = paymentsvc.StatusPending
	}
	if rapid.Bool().Draw(rt, "with user_data") {
		userData = m.userData
	}
	n := notice(event, userData, orders[0], status)
	if rapid.IntRange(0, 9).Draw(rt, "amount") == 0 {
		n.Amount = paymentsvc.MustParseAmount("99")
	} else {
		m.notified[status] = true
	}
	m.ok(m.any().Notified(m.ctx, n))
}

// decide is a person who has asked the service.
func (m *machine) decide(*rapid.T) {
	r := get(m.rt, m.processes[0].Store, m.userData)
	d := Decision{Kind: DecideAgain, UserData: m.userData, By: "person", Version: r.Version}
	if len(m.orders()) > 0 {
		d.Kind, d.OrderID = DecideFound, m.orders()[0]
	}
	if err := m.any().Decide(m.ctx, d); !errors.Is(err, ErrUndecidable) {
		m.ok(err)
	}
}

// check holds after every step.
func (m *machine) check(rt *rapid.T) {
	r := get(m.rt, m.processes[0].Store, m.userData)
	orders := m.orders()
	if len(orders) > 1 {
		rt.Fatalf("started %d times", len(orders))
	}
	if m.final != "" && r.State != m.final && m.final != StateRejected {
		rt.Fatalf("%s after %s", r.State, m.final)
	}
	if r.State.Final() {
		m.final = r.State
	}
	there := len(orders) > 0
	switch {
	case r.State == StateSucceeded && !m.notified[paymentsvc.StatusSuccess],
		r.State == StateFailed && !m.notified[paymentsvc.StatusFailure],
		r.State == StatePending && !there,
		r.State == StateCreated && there,
		r.State == StateRejected && there:
		rt.Fatalf("it is %s; at the service: %v %s", r.State, orders, m.status)
	}
	if r.OrderID != "" && (!there || r.OrderID != orders[0]) {
		rt.Fatalf("order_id %s", r.OrderID)
	}
	if r.State == StateUnknown && r.Kind == KindPayout && r.OrderID == "" && r.Attention == "" {
		rt.Fatal("nobody will look into it")
	}
}

func TestMachineStartsAtMostOnceWhateverHappens(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		setClock(t, db, time.Now())
		f := &service{}
		var processes []*process
		for range 3 {
			c := &clocks{process: time.Now()}
			p, err := open(t.Context(), db.DB, config(Config{Service: f, GiveUp: 24 * time.Hour}), shim, c.Now)
			require.NoError(t, err)
			processes = append(processes, &process{p, c})
		}
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			m := &machine{
				rt: rt, ctx: t.Context(), db: db, f: f, now: time.Now().Add(240 * time.Hour), processes: processes,
				kind:     rapid.SampledFrom([]Kind{KindPayment, KindPayout}).Draw(rt, "kind"),
				notified: map[paymentsvc.StatusName]bool{},
			}
			for _, p := range processes {
				off := rapid.SampledFrom([]int{-1440, -3, 0, 3, 1440}).Draw(rt, "off") // it may panic
				p.clock.mu.Lock()
				p.clock.process = m.now.Add(time.Duration(off) * time.Minute)
				p.clock.mu.Unlock()
				p.last, p.doubts = claimed{}, nil
			}
			m.pass(0)
			for _, statement := range []string{
				`DELETE FROM durable_rows`, `DELETE FROM durable_notifications`,
				`UPDATE durable_control SET paused = 0, pause_until = 0, run_length = 0`,
			} {
				_, err := db.ExecContext(m.ctx, statement)
				require.NoError(rt, err)
			}
			m.add(fmt.Sprint("row ", n))
			rt.Repeat(map[string]func(*rapid.T){
				"claim": m.claim, "call": m.call, "record": m.record, "time": m.time, "jump": m.jump, "sweep": m.sweep,
				"ask": m.ask, "resume": m.resume, "settles": m.settles, "notify": m.notify, "decide": m.decide, "": m.check,
			})
		})
	})
}

func (m *machine) add(reference string) {
	s := m.processes[0].Store
	tx, err := s.db.BeginTx(m.ctx, nil)
	require.NoError(m.rt, err)
	var queued []Queued
	if m.kind == KindPayout {
		queued, err = s.QueuePayouts(m.ctx, tx, NewPayout{Reference: reference, Amount: ten, Destination: "4111111111111111"})
	} else {
		queued, err = s.QueuePayments(m.ctx, tx, NewPayment{Key: reference, Type: paymentsvc.PaymentTypeCard, Amount: ten})
	}
	require.NoError(m.rt, err)
	require.NoError(m.rt, tx.Commit())
	m.userData = queued[0].UserData
}
