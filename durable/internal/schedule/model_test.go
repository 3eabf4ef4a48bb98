package schedule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// row is a row of the model.
type row struct {
	payment bool
	dueAt   time.Time
	locked  bool   // by another process, when a round last met it
	token   string // of the claim; "" without one
	called  string // the token of the last call
	order   string // "" until it is recorded
	calls   int
	records int
}

// model is a ledger in memory. It fails, is slow, and leaves completions out by chance.
type model struct {
	*world
	mu     sync.Mutex
	random *rand.Rand
	rows   map[string]*row
	faults []string // broken promises of the scheduler

	released  map[string]bool // tokens
	orders    map[string]bool // recorded
	recording map[string]bool // order keys and user_data in rounds
	records   int             // separate records in progress
	rounds    int             // in progress
}

// world contains the parameters of a case.
type world struct {
	seed                         uint64
	rows, slots, rounds, records int
	perSecond                    float64
	lose, leaveOut, again        int // per cent: unknown commits, completions left out of rounds, calls not begun
	other, same                  int // per cent: results outside of rounds, successes with one and the same order_id
	maxRows                      int
	timeout                      time.Duration
	run                          bool
}

func (m *model) chance(percent int) bool { return m.random.IntN(100) < percent }

func (m *model) fault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

// sleep waits for a random time, without m.mu.
func (m *model) sleep(longest time.Duration) {
	d := time.Duration(m.random.Int64N(int64(longest)))
	m.mu.Unlock()
	defer m.mu.Lock()
	time.Sleep(d)
}

func (m *model) Round(_ context.Context, r Request[string]) (Result[string], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.check(r)
	m.sleep(10 * time.Millisecond)
	result := Result[string]{Recorded: map[string]bool{}, Next: r.After}
	commit := func() {
		for _, c := range r.Completions {
			if row := m.rows[c.UserData]; row.token == c.Done && !m.orders[c.OrderID] && !m.chance(m.leaveOut) {
				m.recordRow(row, c)
				result.Recorded[c.UserData] = true
			}
		}
		limit := r.Free
		for _, c := range r.Completions {
			if result.Recorded[c.UserData] {
				limit += c.Slot
			}
		}
		m.claim(r, min(limit, r.MaxRows), &result)
	}
	lost := m.chance(m.lose)
	if late := lost && m.chance(50); late {
		go func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.sleep(10 * time.Second)
			commit()
		}()
	} else if !lost || m.chance(50) {
		commit()
	}
	m.sleep(10 * time.Millisecond)
	m.rounds--
	for _, c := range r.Completions {
		delete(m.recording, c.OrderKey)
		delete(m.recording, c.UserData)
	}
	if lost {
		return Result[string]{}, errCommit
	}
	return result, nil
}

// check compares a request with the promises of Request.
func (m *model) check(r Request[string]) {
	m.rounds++
	if m.rounds > m.world.rounds {
		m.fault("%d rounds in flight", m.rounds)
	}
	for _, c := range r.Completions {
		if m.recording[c.OrderKey] || m.recording[c.UserData] {
			m.fault("%s is in two rounds", c.UserData)
		}
		m.recording[c.OrderKey], m.recording[c.UserData] = true, true
	}
	if r.MaxRows > 0 && r.Token == "" || r.MaxPayments > r.MaxRows || r.Free > r.MaxRows {
		m.fault("request %+v", r)
	}
}

// claim claims due rows, in the order of their names.
func (m *model) claim(r Request[string], limit int, result *Result[string]) {
	for _, payments := range []bool{true, false} {
		most := limit - len(result.Jobs)
		if payments {
			most = min(most, r.MaxPayments)
		}
		for _, name := range m.names() {
			row := m.rows[name]
			if most <= 0 || row.payment != payments || row.token != "" || row.order != "" || row.dueAt.After(time.Now()) ||
				!payments && name <= r.After.Payouts.Key {
				continue
			}
			row.locked = m.chance(5)
			if row.locked {
				continue
			}
			most--
			row.token = r.Token
			result.Jobs = append(result.Jobs, name)
			if payments {
				result.Payments++
			} else {
				result.Next.Payouts.Key = name
			}
		}
	}
	if claims := m.claims(); claims > m.slots {
		m.fault("%d claims, %d slots", claims, m.slots)
	}
}

// claims returns the number of claims, except claims committed after their release.
func (m *model) claims() int {
	n := 0
	for _, row := range m.rows {
		if row.token != "" && !m.released[row.token] {
			n++
		}
	}
	return n
}

func (m *model) names() []string {
	names := make([]string, 0, len(m.rows))
	for name := range m.rows {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// recordRow records a success.
func (m *model) recordRow(row *row, c Completion[string]) {
	m.orders[c.OrderID] = true
	row.token, row.order = "", c.OrderID
	row.records++
}

func (m *model) Record(_ context.Context, c Completion[string]) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records++
	if m.records > m.world.records {
		m.fault("%d separate records", m.records)
	}
	m.sleep(20 * time.Millisecond)
	defer func() { m.records-- }()
	lost := m.chance(m.lose)
	if row := m.rows[c.UserData]; row.token == c.Done && (!lost || m.chance(50)) {
		if c.OrderID == "" { // not called: due again
			row.token, row.dueAt = "", time.Now()
		} else {
			m.recordRow(row, c)
		}
	}
	if lost {
		return errCommit
	}
	return nil
}

func (m *model) Probe(context.Context, string) ([]string, error) { return nil, nil }

func (m *model) Release(_ context.Context, tokens []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sleep(20 * time.Millisecond)
	if m.chance(m.lose) {
		return errCommit
	}
	for _, token := range tokens {
		m.release(token)
	}
	return nil
}

func (m *model) release(token string) {
	m.released[token] = true
	for name, row := range m.rows {
		if row.token == token && token != "" {
			if row.called == token {
				m.fault("%s was released and called", name)
			}
			row.token = ""
		}
	}
}

// call is the service.
func (m *model) call(_ context.Context, name string) Completion[string] {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.rows[name]
	token := row.token
	if token == "" || row.called == token {
		m.fault("%s was called without a claim of its own", name)
	}
	row.called = token
	again := m.chance(m.again)
	if !again {
		row.calls++
	}
	m.sleep(50 * time.Millisecond)
	if again {
		return Completion[string]{UserData: name, Slot: 1, Done: token}
	}
	c := Completion[string]{UserData: name, OrderID: "o" + name, OrderKey: "o" + name, Slot: 1, Done: token}
	if m.chance(m.same) {
		c.OrderID, c.OrderKey = "same", "same"
	}
	if m.chance(m.other) {
		c.OrderKey = ""
	}
	return c
}

func (m *model) verify(s *Scheduler[string, string], made int, err error) {
	due, calls := 0, 0
	for _, name := range m.names() {
		row := m.rows[name]
		calls += row.calls
		switch {
		case row.calls > 1 || row.records != row.calls:
			m.fault("%s: %d calls, %d records", name, row.calls, row.records)
		case row.token != "":
			m.fault("%s is claimed at the end", name)
		case row.order == "" && !row.locked:
			due++
		}
	}
	bounded := m.run || m.maxRows > 0 && made == m.maxRows || m.timeout > 0
	if err == nil && due > 0 && !bounded {
		m.fault("nil with %d due rows", due)
	}
	if err != nil && (m.run || m.lose == 0 || !errors.Is(err, errCommit)) {
		m.fault("unexpected error: %v", err)
	}
	if !m.run && (made < calls || m.again == 0 && made != calls || m.maxRows > 0 && made > m.maxRows) {
		m.fault("%d calls reported, %d made, limit %d", made, calls, m.maxRows)
	}
	if s.used != 0 {
		m.fault("%d slots in use at the end", s.used)
	}
}

// play runs one case and returns the broken promises.
func (w *world) play(t *testing.T) []string {
	m := &model{
		world: w, random: rand.New(rand.NewPCG(w.seed, 1)), rows: map[string]*row{}, released: map[string]bool{},
		recording: map[string]bool{}, orders: map[string]bool{},
	}
	for i := range w.rows {
		m.rows[fmt.Sprintf("%04d", i)] = &row{payment: m.chance(30)}
	}
	synctest.Test(t, func(t *testing.T) {
		s := New(Config[string, string]{
			Ledger: m, Call: m.call, Slots: w.slots, MaxRounds: w.rounds,
			MaxRecords: w.records, PerSecond: w.perSecond, Poll: time.Second,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		made := 0
		var err error
		ctx := t.Context()
		if w.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, w.timeout)
			defer cancel()
		}
		if w.run {
			err = s.Run(ctx)
		} else {
			made, err = s.RunBatch(ctx, w.maxRows)
		}
		time.Sleep(time.Hour) // for late commits and releases
		for s.ReleaseUnresolved(t.Context()) != nil {
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.verify(s, made, err)
	})
	return m.faults
}

func TestSchedulerKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		percent := rapid.SampledFrom([]int{0, 0, 5, 30})
		w := &world{
			seed: rapid.Uint64().Draw(rt, "seed"), rows: rapid.IntRange(0, 60).Draw(rt, "rows"),
			slots: rapid.IntRange(1, 12).Draw(rt, "slots"), rounds: rapid.IntRange(1, 4).Draw(rt, "rounds"),
			records:   rapid.IntRange(1, 4).Draw(rt, "records"),
			perSecond: rapid.SampledFrom([]float64{0, 0, 0.5, 100}).Draw(rt, "per second"),
			lose:      percent.Draw(rt, "lose"), leaveOut: percent.Draw(rt, "leave out"), again: percent.Draw(rt, "again"),
			other: percent.Draw(rt, "other"), same: percent.Draw(rt, "same"), run: rapid.Bool().Draw(rt, "run"),
			maxRows: rapid.SampledFrom([]int{0, 0, 1, 7, 20}).Draw(rt, "max rows"),
			timeout: time.Duration(rapid.SampledFrom([]int{0, 0, 20, 500, 3000}).Draw(rt, "timeout")) * time.Millisecond,
		}
		if w.run && w.timeout == 0 {
			w.timeout = time.Minute
		}
		if faults := w.play(t); len(faults) > 0 {
			rt.Fatalf("%+v: %q", w, faults[:min(len(faults), 5)])
		}
	})
}
