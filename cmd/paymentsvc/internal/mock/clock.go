package mock

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// event is a scheduled settlement.
type event struct {
	At      time.Time             `json:"at"`
	OrderID string                `json:"order_id"`
	Status  paymentsvc.StatusName `json:"status"`
	Notify  bool                  `json:"notify"`
}

// clock schedules settlements. If timestamps is set, the fake also uses the time of the clock. The clock may hold its
// lock while it calls the fake or the journal. The fake and the journal must not hold a lock while they call the clock.
type clock struct {
	epoch *epoch

	mu         sync.Mutex
	offset     time.Duration
	frozen     *time.Time // the time of a stopped clock, or nil
	timestamps bool
	events     []event // the earliest first
	timer      *time.Timer
	closed     bool
}

// now returns the time of the clock. The caller holds the lock.
func (c *clock) now() time.Time {
	if c.frozen != nil {
		return *c.frozen
	}
	return time.Now().Add(c.offset)
}

// stamp returns the time for timestamps, Date headers and the tolerance of the fake. It is Config.Now.
func (c *clock) stamp() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timestamps {
		return c.now()
	}
	return time.Now()
}

// schedule adds a settlement at the clock's time plus the duration after.
func (c *clock) schedule(after time.Duration, e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.At = c.now().Add(after)
	at := len(c.events)
	for at > 0 && c.events[at-1].At.After(e.At) {
		at--
	}
	c.events = slices.Insert(c.events, at, e)
	c.arm()
}

// arm stops the timer. It then sets the timer to the earliest event, unless the clock is closed or frozen. The caller
// holds the lock.
func (c *clock) arm() {
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.closed || c.frozen != nil || len(c.events) == 0 {
		return
	}
	c.timer = time.AfterFunc(c.events[0].At.Sub(c.now()), func() { c.run(func() bool { return true }) })
}

// run calls change. If change returns true, run applies the due settlements, the earliest first, and returns them,
// including rejected settlements. It holds the lock, so no concurrent call can apply the same settlements. It sends the
// notifications last, without the lock, so a slow receiver delays no settlement. A settlement stays scheduled until
// applied or rejected.
func (c *clock) run(change func() bool) (done []event, ok bool) {
	_, before := c.epoch.fake.DeliveriesAfter(math.MaxInt)
	c.mu.Lock()
	if !change() {
		c.mu.Unlock()
		return nil, false
	}
	done, unsent := []event{}, []paymentsvctest.Notification{}
	for !c.closed && len(c.events) > 0 && !c.events[0].At.After(c.now()) {
		e := c.events[0]
		c.events, done = c.events[1:], append(done, e)
		n, _, err := c.epoch.moved(e.OrderID, c.epoch.settling(e.OrderID, e.Status, e.Notify))
		if err == nil && n != nil { // the books may reject a settlement
			unsent = append(unsent, *n)
		}
	}
	c.arm()
	c.mu.Unlock()
	if len(unsent) > 0 {
		c.epoch.deliverAll(c.epoch.ctx, before, unsent...)
	}
	return done, true
}

// set moves the clock to the result of move, and returns the settlements that became due. It reports false, and sets no
// value, if the result is before the clock's time or more than 292 years after the real time. A nil frozen or
// timestamps keeps the setting.
func (c *clock) set(move func(now time.Time) time.Time, frozen, timestamps *bool) (due []event, ok bool) {
	return c.run(func() bool {
		before := c.now()
		to := move(before)
		if to.Before(before) || time.Until(to) == math.MaxInt64 {
			return false
		}
		c.offset = time.Until(to)
		if frozen == nil && c.frozen != nil || frozen != nil && *frozen {
			c.frozen = &to
		} else {
			c.frozen = nil
		}
		if timestamps != nil {
			c.timestamps = *timestamps
		}
		return true
	})
}

func (c *clock) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.arm()
}

type clockAnswer struct {
	Now        time.Time `json:"now"`
	Frozen     bool      `json:"frozen"`
	Timestamps bool      `json:"timestamps"`
	Scheduled  []event   `json:"scheduled"`
	Due        []event   `json:"due"` // the settlements that this request applied or the books rejected
}

func (c *clock) answer(due []event) (int, any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	scheduled := append([]event{}, c.events...)
	return http.StatusOK, clockAnswer{c.now().UTC(), c.frozen != nil, c.timestamps, scheduled, due}, nil
}

func getClock(c *call) (int, any, error) { return c.clock.answer([]event{}) }

type clockIn struct {
	Now        *time.Time `json:"now"`
	Frozen     *bool      `json:"frozen"`
	Timestamps *bool      `json:"timestamps"`
}

func putClock(c *call, in clockIn) (int, any, error) {
	to := func(now time.Time) time.Time { return *cmp.Or(in.Now, &now) }
	due, ok := c.clock.set(to, in.Frozen, in.Timestamps)
	if !ok {
		return 0, nil, invalid("now", "now: the clock cannot go back, or forward by more than 292 years")
	}
	return c.clock.answer(due)
}

type advanceIn struct {
	By string `json:"by"`
}

func postAdvance(c *call, in advanceIn) (int, any, error) {
	by, err := duration("by", in.By)
	switch {
	case err != nil:
		return 0, nil, err
	case by == 0:
		return 0, nil, invalid("by", `by: missing or 0; want a duration such as "2s"`)
	}
	due, ok := c.clock.set(func(now time.Time) time.Time { return now.Add(by) }, nil, nil)
	if !ok {
		return 0, nil, invalid("by", "by: the clock cannot go forward by more than 292 years")
	}
	return c.clock.answer(due)
}

type resetIn struct {
	What string `json:"what"`
}

func postReset(c *call, in resetIn) (int, any, error) {
	number, cutOff := c.epoch.number, 0
	var err error
	switch in.What {
	case "messages":
		c.journal.evict(math.MaxInt64)
		c.journal.wakeAll()
	case "faults":
		c.clearFaults()
	case "all", "":
		number, cutOff, err = c.reset()
	default:
		err = invalid("what", "what: not all, messages or faults")
	}
	return http.StatusOK, map[string]any{"epoch": number, "cut_off": cutOff}, err
}

type drainIn struct {
	Timeout string `json:"timeout"`
}

func postDrain(c *call, in drainIn) (int, any, error) {
	timeout, err := duration("timeout", cmp.Or(in.Timeout, "10s"))
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), timeout)
	defer cancel()
	if c.journal.idle(ctx) != nil {
		return 0, nil, failure(http.StatusConflict, "in_flight", "", "%d messages are still in flight", c.journal.inFlight())
	}
	return http.StatusOK, struct{}{}, nil
}

func postStop(c *call, _ struct{}) (int, any, error) {
	host, _, _ := net.SplitHostPort(c.r.RemoteAddr)
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Unmap().IsLoopback() {
		return 0, nil, failure(http.StatusForbidden, "not_loopback", "", "the request comes from another machine: "+
			"send it from the machine or container of the mock server, or end the process with SIGTERM")
	}
	c.opt.Stop()
	return http.StatusAccepted, struct{}{}, nil
}
