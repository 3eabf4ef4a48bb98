package durable

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
	"github.com/paymentsvc/paymentsvc/durable/internal/schedule"
)

// process is a process with its own clock, which may be wrong by minutes or a day.
type process struct {
	*Store
	clock *clocks
}

// flight is a claim of a process, and the result of its call.
type flight struct {
	by     *process
	job    job
	made   bool
	result callResult
}

// machine is a row, a service that starts every request, and processes that may die or be late at each step.
type machine struct {
	rt        *rapid.T
	ctx       context.Context
	db        database
	f         *service
	witness   *markWitness
	now       time.Time // true time
	offset    time.Duration
	processes []*process
	kind      Kind
	userData  string
	reference string
	flights   []*flight
	late      []time.Time // arrivals of requests that their calls have abandoned
	calm      time.Time   // no request arrives later
	jumped    bool        // the database's clock may have jumped since the claim of a request
	status    paymentsvc.StatusName
	reported  map[paymentsvc.StatusName]bool // by a notification or a poll, with the right amount
	final     State
	backup    dbtest.Copy
	restored  bool // the backup was restored
}

// markWitness is a witness in memory. Load returns loadErr, and Save returns saveErr.
type markWitness struct {
	mu               sync.Mutex
	mark             int64
	loadErr, saveErr error
}

func (w *markWitness) Load(context.Context) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mark, w.loadErr
}

func (w *markWitness) Save(_ context.Context, mark int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.saveErr == nil {
		w.mark = max(w.mark, mark)
	}
	return w.saveErr
}

// ok fails the case after an error other than ErrChanged or ErrNotFound.
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

// pick returns a flight that fits, or skips the step if no flight fits.
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
	got, err := rounder{p.Store}.Round(m.ctx, schedule.Request[callResult]{
		Token: rand.Text(), Free: 1, MaxRows: 1, MaxPayments: 1,
	})
	m.ok(err)
	for _, j := range got.Jobs {
		if rapid.IntRange(0, 9).Draw(rt, "unknown commit") == 0 { // the round's error came after its commit
			p.scheduler.AddUnresolved(j.Token) // and every sweep releases it
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
	switch rapid.SampledFrom([]string{"", "", "refused", "later", "not sent", "lost", "late", "lost after", "malformed"}).
		Draw(rt, "response") {
	case "refused":
		m.f.before = fail(refused(400, "E17"))
	case "later":
		m.f.before = fail(refused(401, "E1"))
	case "not sent":
		m.f.before = fail(notSent())
	case "lost":
		m.f.before = fail(unanswered(""))
	case "late":
		m.f.before = func(int, string) error {
			// The call ends up to Timeout from now, and the network holds the request for up to a minute more.
			arrives := m.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(rt, "late by seconds")) * time.Second)
			m.late = append(m.late, arrives)
			return unanswered("")
		}
	case "lost after":
		m.f.after = fail(unanswered(""))
	case "malformed":
		m.f.after = fail(unanswered(m.userData + "/1"))
	}
	c.result = c.by.call(m.ctx, c.job)
	m.calm = m.now.Add(100 * time.Second)
	m.started()
}

// started sets the order's status once the service has an order.
func (m *machine) started() {
	if m.status == "" && len(m.orders()) > 0 {
		m.status = paymentsvc.StatusPending
	}
}

// record records the result of a call, at any later time, and possibly more than once.
func (m *machine) record(rt *rapid.T) {
	c := m.pick(func(c *flight) bool { return c.made })
	if c.result.Kind == row.Started && rapid.Bool().Draw(rt, "in a round") {
		_, err := rounder{c.by.Store}.Round(m.ctx, schedule.Request[callResult]{
			Token: rand.Text(), Completions: []schedule.Completion[callResult]{completionOf(c.job, c.result.OrderID, 0)},
		})
		m.ok(err)
		return
	}
	m.ok(c.by.settle(m.ctx, c.job, c.result))
}

func (m *machine) pass(d time.Duration) {
	m.now = m.now.Add(d)
	for _, p := range m.processes {
		p.clock.Add(d)
	}
	setClock(m.rt, m.db, m.now.Add(m.offset))
	still := m.late[:0]
	for _, arrives := range m.late {
		if arrives.After(m.now) {
			still = append(still, arrives)
			continue
		}
		m.f.before, m.f.after = nil, nil
		_, _ = m.f.start(m.userData)
	}
	m.late = still
	m.jumped = m.jumped && (m.now.Before(m.calm) || len(m.flights) > 0)
	m.started()
}

func (m *machine) time(rt *rapid.T) {
	m.pass(time.Duration(rapid.IntRange(1, 90).Draw(rt, "seconds")) * time.Second)
}

// jump sets the database's clock, as a failover does.
func (m *machine) jump(rt *rapid.T) {
	m.offset = time.Duration(rapid.IntRange(-600, 600).Draw(rt, "seconds")) * time.Second
	m.jumped = true
	m.pass(0)
}

func (m *machine) sweep(*rapid.T) {
	p := m.any()
	m.ok(p.endLeases(m.ctx))
	m.ok(p.scheduler.ReleaseUnresolved(m.ctx))
}

// reconcile polls the service, which reports a status. A notification may arrive before the response is applied.
func (m *machine) reconcile(rt *rapid.T) {
	p := m.any()
	meanwhile := rapid.SampledFrom([]paymentsvc.StatusName{"", paymentsvc.StatusSuccess, paymentsvc.StatusFailure}).
		Draw(rt, "meanwhile")
	wrong := rapid.IntRange(0, 9).Draw(rt, "amount") == 0
	m.f.status = func(r *paymentsvc.StatusResponse) error {
		r.Raw = fmt.Appendf(nil, `{"state":%q}`, map[paymentsvc.StatusName]State{
			paymentsvc.StatusPending: StatePending, paymentsvc.StatusSuccess: StateSucceeded,
			paymentsvc.StatusFailure: StateFailed,
		}[m.status])
		if wrong {
			r.Amount = paymentsvc.MustParseAmount("99")
		} else {
			m.reported[m.status] = true
		}
		if meanwhile == "" {
			return nil
		}
		if m.status == paymentsvc.StatusPending {
			m.status = meanwhile
		}
		m.reported[m.status] = true
		return p.Notified(m.ctx, notice(changed(m.kind), "", r.OrderID, m.status))
	}
	m.ok(p.reconcile(m.ctx))
}

// resume ends the pauses after rejections.
func (m *machine) resume(*rapid.T) { m.ok(m.any().Resume(m.ctx, "operator")) }

func (m *machine) settles(rt *rapid.T) {
	if m.status != paymentsvc.StatusPending {
		rt.Skip("nothing to settle")
	}
	final := []paymentsvc.StatusName{paymentsvc.StatusSuccess, paymentsvc.StatusFailure}
	m.status = rapid.SampledFrom(final).Draw(rt, "status")
}

// notify sends a notification, with or without user_data. It is true, was true once, or has another amount.
func (m *machine) notify(rt *rapid.T) {
	orders := m.orders()
	if len(orders) == 0 {
		rt.Skip("nothing to notify of")
	}
	userData, status := "", m.status
	if rapid.Bool().Draw(rt, "old") {
		status = paymentsvc.StatusPending
	}
	if rapid.Bool().Draw(rt, "with user_data") {
		userData = m.userData
	}
	n := notice(changed(m.kind), userData, orders[0], status)
	if rapid.IntRange(0, 9).Draw(rt, "amount") == 0 {
		n.Amount = paymentsvc.MustParseAmount("99")
	} else {
		m.reported[status] = true
	}
	m.ok(m.any().Notified(m.ctx, n))
}

// decide is an operator who compares the row with the service's list. After a jump of the clock, the operator waits
// until no request can arrive.
func (m *machine) decide(*rapid.T) {
	if m.jumped && m.now.Before(m.calm) {
		m.rt.Skip("too early")
	}
	r, found := m.row()
	if !found {
		m.rt.Skip("pruned")
	}
	d := Decision{Kind: DecideResend, UserData: m.userData, By: "operator", Version: r.Version}
	if len(m.orders()) > 0 {
		d.Kind, d.OrderID = DecideFound, m.orders()[0]
	}
	if err := m.any().Decide(m.ctx, d); !errors.Is(err, ErrUndecidable) {
		m.ok(err)
	}
	if len(m.orders()) == 0 || r.State != StateCreated {
		got, err := m.any().Status(m.ctx)
		m.ok(err)
		_, err = m.any().Release(m.ctx, "operator", got.Generation, Filter{})
		if err == nil {
			err = m.any().EndHold(m.ctx, "operator", got.Generation)
		}
		if !errors.Is(err, ErrUndecidable) { // after a wrong clock, each process watches the hold for Grace
			m.ok(err)
		}
	}
}

func (m *machine) copy(*rapid.T) {
	var err error
	m.backup, err = dbtest.CopyRows(m.ctx, m.db.DB)
	m.ok(err)
}

// restore restores the copy while all processes are stopped. They then open the database again. Requests stay in the
// network.
func (m *machine) restore(rt *rapid.T) {
	if m.backup == nil {
		rt.Skip("no backup")
	}
	m.ok(m.backup.Restore(m.ctx, m.db.DB))
	m.restored, m.flights, m.final = true, nil, ""
	m.pass(0)
	m.open()
}

func (m *machine) open() {
	for _, p := range m.processes {
		s, err := open(m.ctx, m.db.DB, p.c, shim, p.clock.Now)
		require.NoError(m.rt, err)
		p.Store = s
	}
}

// prune deletes the row if it has been final for a day. By then, late requests have arrived.
func (m *machine) prune(*rapid.T) {
	m.pass(25 * time.Hour)
	_, err := m.any().Prune(m.ctx, 24*time.Hour)
	m.ok(err)
}

// row returns the row. If Prune has deleted it, row requires that queueing it again adds no row.
func (m *machine) row() (Row, bool) {
	r, err := m.processes[0].ledger.Row(m.ctx, m.userData)
	if !errors.Is(err, ErrNotFound) {
		require.NoError(m.rt, err)
		return publicRow(r), true
	}
	if queued := queueOne(m.rt, m.processes[0].Store, m.kind, m.reference); queued.New || queued.Err != nil {
		m.rt.Fatalf("queued after Prune: %+v", queued)
	}
	return Row{}, false
}

// check is called after every step.
func (m *machine) check(rt *rapid.T) {
	r, found := m.row()
	orders := m.orders()
	if len(orders) > 1 {
		rt.Fatalf("started %d times", len(orders))
	}
	if status, err := m.processes[0].Status(m.ctx); err != nil || status.Hold && !m.restored {
		rt.Fatalf("held: %s %v", status.HoldReason, err)
	}
	if !found {
		return
	}
	if m.final != "" && r.State != m.final && m.final != StateRejected {
		rt.Fatalf("%s after %s", r.State, m.final)
	}
	if r.State.Final() {
		m.final = r.State
	}
	there := len(orders) > 0
	switch {
	case r.State == StateSucceeded && !m.reported[paymentsvc.StatusSuccess],
		r.State == StateFailed && !m.reported[paymentsvc.StatusFailure],
		r.State == StatePending && !there,
		r.State == StateCreated && there && !r.Held,
		r.State == StateRejected && there && !m.restored:
		rt.Fatalf("it is %s; at the service: %v %s", r.State, orders, m.status)
	}
	var changes int
	require.NoError(rt, m.db.QueryRowContext(m.ctx, `SELECT COUNT(*) FROM test_changes`).Scan(&changes))
	if ended := r.State == StateSucceeded || r.State == StateFailed; ended != (changes == 1) || changes > 1 {
		rt.Fatalf("it is %s, after %d calls of OnChange", r.State, changes)
	}
	if r.OrderID != "" && (!there || r.OrderID != orders[0]) {
		rt.Fatalf("order_id %s", r.OrderID)
	}
	if r.State == StateUnknown && r.Kind == KindPayout && r.OrderID == "" && r.ReviewReason == "" {
		rt.Fatal("no operator will look into it")
	}
}

func TestMachineStartsAtMostOnceWhateverHappens(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		setClock(t, db, time.Now())
		db.Exec(t, `CREATE TABLE test_changes (state TEXT NOT NULL)`)
		f, w := &service{}, &markWitness{}
		onChange := func(ctx context.Context, tx *sql.Tx, e Event) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO test_changes VALUES ($1)`, string(e.To))
			return err
		}
		var processes []*process
		for range 2 {
			c := &clocks{process: time.Now()}
			p, err := open(t.Context(), db.DB, config(Config{
				Service: f, Witness: w, GiveUp: 24 * time.Hour, FinalState: finalState, OnChange: onChange,
				ChangeStates: []State{StateSucceeded, StateFailed},
			}), shim, c.Now)
			require.NoError(t, err)
			processes = append(processes, &process{p, c})
		}
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			m := &machine{
				rt: rt, ctx: t.Context(), db: db, f: f, witness: w, now: time.Now().Add(240 * time.Hour), processes: processes,
				kind:     rapid.SampledFrom([]Kind{KindPayment, KindPayout}).Draw(rt, "kind"),
				reported: map[paymentsvc.StatusName]bool{},
			}
			for _, p := range processes {
				off := rapid.SampledFrom([]int{-1440, -3, 0, 3, 1440}).Draw(rt, "off") // before Lock, because Draw may panic
				p.clock.mu.Lock()
				p.clock.process = m.now.Add(time.Duration(off) * time.Minute)
				p.clock.mu.Unlock()
				p.guard.Remember(row.Claim{})
				p.pending = pendingPolls{}
			}
			m.pass(0)
			db.Exec(rt, `DELETE FROM durable_rows`, `DELETE FROM durable_queue`, `DELETE FROM durable_claims`,
				`DELETE FROM durable_orders`, `DELETE FROM durable_notifications`, `DELETE FROM test_changes`,
				`DELETE FROM durable_pruned`,
				`UPDATE durable_control SET paused = 0, pause_until = 0, run_length = 0, hold = 0`)
			m.reference = fmt.Sprint("row ", n)
			m.userData = queueOne(rt, processes[0].Store, m.kind, m.reference).UserData
			rt.Repeat(map[string]func(*rapid.T){
				"claim": m.claim, "call": m.call, "record": m.record, "time": m.time, "jump": m.jump, "sweep": m.sweep,
				"reconcile": m.reconcile, "resume": m.resume, "settles": m.settles, "notify": m.notify, "decide": m.decide,
				"copy": m.copy, "restore": m.restore, "prune": m.prune, "": m.check,
			})
		})
	})
}
