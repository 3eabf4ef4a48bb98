package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

// call is a claim in the hands of a process, and what it has done with it.
type call struct {
	claim    store.Claim
	deadline time.Time // past it the process calls no more
	made     bool
	answer   string // started, refused, postponed, not sent, lost, or malformed but for the order_id
	orderID  string // what the service started by it, "" for nothing
}

// machine is a row, the service behind it, which would start whatever it is sent as often as it is sent, and processes
// that may die or be late at every step.
type machine struct {
	*books
	rt       *rapid.T
	userData string
	calls    []*call
	started  []string // order_ids
	statuses map[string]paymentsvc.StatusName
	notified map[paymentsvc.StatusName]bool // of the order, with its amount
	final    store.State
}

// ok passes over "nothing to do", which is for the store to find out.
func (m *machine) ok(err error) bool {
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		m.rt.Fatal(err)
	}
	return err == nil
}

// pick gives a call that fits, and skips the step where there is none.
func (m *machine) pick(fits func(*call) bool) *call {
	var list []*call
	for _, c := range m.calls {
		if fits(c) {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		m.rt.Skip("none")
	}
	return rapid.SampledFrom(list).Draw(m.rt, "call")
}

func (m *machine) claimRow(*rapid.T) {
	claim, err := m.Claim(m.t.Context(), m.table, m.userData, lease)
	if !m.ok(err) {
		return
	}
	for _, c := range m.calls {
		if !c.made && m.Now().Before(c.deadline) {
			m.rt.Fatal("claimed while another process may still call")
		}
	}
	m.calls = append(m.calls, &call{claim: claim, deadline: m.Now().Add(lease / 2)})
}

func (m *machine) callService(rt *rapid.T) {
	c := m.pick(func(c *call) bool { return !c.made && m.Now().Before(c.deadline) })
	c.made = true
	c.answer = rapid.SampledFrom([]string{"started", "started", "refused", "postponed", "not sent", "lost", "lost after", "malformed"}).Draw(rt, "answer")
	if c.answer == "started" || c.answer == "lost after" || c.answer == "malformed" {
		c.orderID = fmt.Sprint(m.userData, "/", len(m.started))
		m.started = append(m.started, c.orderID)
		m.statuses[c.orderID] = paymentsvc.StatusPending
	}
}

// record records what a call came to, at any time later, and possibly more than once.
func (m *machine) record(rt *rapid.T) {
	c := m.pick(func(c *call) bool { return c.made })
	ctx, due := m.t.Context(), m.Now().Add(time.Duration(rapid.IntRange(0, 60).Draw(rt, "seconds"))*time.Second)
	switch c.answer {
	case "started":
		m.ok(m.Started(ctx, c.claim, c.orderID, ""))
	case "refused":
		m.ok(m.Refused(ctx, c.claim, "E17"))
	case "postponed":
		m.ok(m.Postponed(ctx, c.claim, due))
	case "not sent":
		m.ok(m.NotSent(ctx, c.claim, due))
	case "malformed":
		m.ok(m.Unknown(ctx, c.claim, c.orderID, "", due))
	default:
		m.ok(m.Unknown(ctx, c.claim, "", "", due))
	}
}

func (m *machine) timePasses(rt *rapid.T) {
	m.Add(time.Duration(rapid.IntRange(1, 150).Draw(rt, "seconds")) * time.Second)
}

func (m *machine) leasesEnd(*rapid.T) {
	_, err := m.Abandoned(m.t.Context(), m.table, "look")
	m.ok(err)
}

// askService asks for an unknown order, and believes that there is none once no process can still call. It asks for a
// payout by its order_id: the document shows no look-up by user_data.
func (m *machine) askService(rt *rapid.T) {
	ctx := m.t.Context()
	if m.table == store.Payouts && m.row(m.userData).OrderID == "" {
		rt.Skip("no order_id")
	}
	if !m.ok(m.Asking(ctx, m.table, m.userData, "", m.Now().Add(time.Second))) {
		return
	}
	if m.table == store.Payouts {
		m.ok(m.Found(ctx, m.table, m.userData, m.started[0], paymentsvc.MustParseAmount("10.50")))
		return
	}
	o, err := m.Order(ctx, m.userData)
	if !m.ok(err) {
		return
	}
	switch {
	case len(m.started) > 0:
		m.ok(m.Started(ctx, store.Claim{Table: m.table, UserData: m.userData}, m.started[0], ""))
	case !m.Now().Before(o.ClaimedAt.Add(lease)):
		m.ok(m.Absent(ctx, m.userData, o.Attempt, rapid.SampledFrom([]string{"", "", "late"}).Draw(rt, "reason")))
	}
}

func (m *machine) serviceSettles(rt *rapid.T) {
	if len(m.started) == 0 || m.statuses[m.started[0]].Final() {
		rt.Skip("nothing to settle")
	}
	m.statuses[m.started[0]] = rapid.SampledFrom([]paymentsvc.StatusName{paymentsvc.StatusSuccess, paymentsvc.StatusFailure}).Draw(rt, "status")
}

// notify sends a notification that is true, with or without user_data, or was true once.
func (m *machine) notify(rt *rapid.T) {
	if len(m.started) == 0 {
		rt.Skip("nothing to notify of")
	}
	status := m.statuses[m.started[0]]
	if rapid.Bool().Draw(rt, "old") {
		status = paymentsvc.StatusPending
	}
	userData := ""
	if rapid.Bool().Draw(rt, "with user_data") {
		userData = m.userData
	}
	n := m.notice(m.started[0], userData, status)
	if rapid.IntRange(0, 9).Draw(rt, "amount") == 0 {
		n.Amount = paymentsvc.MustParseAmount("99")
	} else {
		m.notified[status] = true
	}
	m.ok(m.ApplyNotification(m.t.Context(), n))
}

// Check holds after every step.
func (m *machine) check(rt *rapid.T) {
	r := m.row(m.userData)
	if len(m.started) > 1 {
		rt.Fatalf("started %d times", len(m.started))
	}
	if m.final != "" && r.State != m.final {
		rt.Fatalf("%s after %s", r.State, m.final)
	}
	if r.State.Final() {
		m.final = r.State
	}
	there := len(m.started) > 0
	switch {
	case r.State == store.StateSucceeded && !m.notified[paymentsvc.StatusSuccess],
		r.State == store.StateFailed && !m.notified[paymentsvc.StatusFailure],
		r.State == store.StatePending && !there,
		r.State == store.StateCreated && there,
		r.State == store.StateRejected && there:
		rt.Fatalf("it is %s; at the service: %v", r.State, m.statuses)
	}
	if r.OrderID != "" && r.OrderID != m.started[0] {
		rt.Fatalf("order_id %s", r.OrderID)
	}
}

func TestAtMostOneStartWhateverHappens(t *testing.T) {
	each(t, func(t *testing.T, b *books) {
		rapid.Check(t, func(rt *rapid.T) {
			b.empty()
			m := &machine{
				books: b, rt: rt, userData: paymentsvc.NewUserData(),
				statuses: map[string]paymentsvc.StatusName{}, notified: map[paymentsvc.StatusName]bool{},
			}
			b.add(m.userData)
			rt.Repeat(map[string]func(*rapid.T){
				"claim":  m.claimRow,
				"call":   m.callService,
				"record": m.record,
				"time":   m.timePasses,
				"leases": m.leasesEnd,
				"ask":    m.askService,
				"settle": m.serviceSettles,
				"notify": m.notify,
				"":       m.check,
			})
		})
	})
}
