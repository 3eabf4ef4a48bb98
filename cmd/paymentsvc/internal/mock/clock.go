package mock

import (
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// event is a scheduled settlement.
type event struct {
	At      time.Time             `json:"at"`
	OrderID string                `json:"order_id"`
	Status  paymentsvc.StatusName `json:"status"`
	Notify  bool                  `json:"notify"`
}

// clock schedules settlements. With timestamps, signatures and Date headers have its time too.
type clock struct {
	due func(event)

	mu         sync.Mutex
	offset     time.Duration
	frozen     *time.Time
	timestamps bool
	events     []event // the earliest first
	running    []event // being applied; may not be in the books yet
	timer      *time.Timer
	closed     bool
}

func newClock(due func(event)) *clock { return &clock{due: due} }

// now returns the time. The lock is held.
func (c *clock) now() time.Time {
	if c.frozen != nil {
		return *c.frozen
	}
	return time.Now().Add(c.offset)
}

// stamp returns the time for timestamps and Date headers.
func (c *clock) stamp() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timestamps {
		return c.now()
	}
	return time.Now()
}

// schedule adds a settlement after a time from now.
func (c *clock) schedule(after time.Duration, e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.At = c.now().Add(after)
	c.insert(e)
}

func (c *clock) insert(e event) {
	at := len(c.events)
	for at > 0 && c.events[at-1].At.After(e.At) {
		at--
	}
	c.events = slices.Insert(c.events, at, e)
	c.arm()
}

// arm sets the timer to the earliest event. The lock is held.
func (c *clock) arm() {
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.closed || c.frozen != nil || len(c.events) == 0 {
		return
	}
	c.timer = time.AfterFunc(c.events[0].At.Sub(c.now()), func() { c.run() })
}

// run applies the due settlements, and returns them.
func (c *clock) run() (done []event) {
	for {
		c.mu.Lock()
		if c.closed || len(c.events) == 0 || c.events[0].At.After(c.now()) {
			c.arm()
			c.mu.Unlock()
			return done
		}
		e := c.events[0]
		c.events, c.running = c.events[1:], append(c.running, e)
		c.mu.Unlock()
		c.due(e)
		done = append(done, e)
		c.mu.Lock()
		c.running = slices.Delete(c.running, slices.Index(c.running, e), slices.Index(c.running, e)+1)
		c.mu.Unlock()
	}
}

// set moves the clock, and reports false for a time in the past or beyond the range of a duration. Call run next. The
// timer is off until then, because a concurrent run would change the order of the settlements.
func (c *clock) set(now *time.Time, frozen, timestamps *bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.now()
	to := before
	if now != nil {
		to = *now
	}
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
	if c.timer != nil {
		c.timer.Stop()
	}
	return true
}

// state returns the settings of the clock and the scheduled settlements.
func (c *clock) state() (now time.Time, frozen, timestamps bool, events []event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now(), c.frozen != nil, c.timestamps, slices.Concat(c.running, c.events)
}

func (c *clock) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.arm()
}

func getClock(c *call) (int, any, error) {
	now, frozen, timestamps, events := c.clock.state()
	return http.StatusOK, clockAnswer{now.UTC(), frozen, timestamps, append([]event{}, events...), []event{}}, nil
}

type clockAnswer struct {
	Now        time.Time `json:"now"`
	Frozen     bool      `json:"frozen"`
	Timestamps bool      `json:"timestamps"`
	Scheduled  []event   `json:"scheduled"`
	Due        []event   `json:"due"`
}

func putClock(c *call) (int, any, error) {
	var in struct {
		Now        *time.Time `json:"now"`
		Frozen     *bool      `json:"frozen"`
		Timestamps *bool      `json:"timestamps"`
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if !c.clock.set(in.Now, in.Frozen, in.Timestamps) {
		return 0, nil, invalid("now", "now: the clock cannot go back, and not by more than 292 years forward")
	}
	return clockAfter(c)
}

func postAdvance(c *call) (int, any, error) {
	var in struct {
		By string `json:"by"`
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	by, err := duration("by", in.By)
	if err != nil {
		return 0, nil, err
	}
	now, _, _, _ := c.clock.state()
	to := now.Add(by)
	if !c.clock.set(&to, nil, nil) {
		return 0, nil, invalid("by", "by: the clock cannot go forward by more than 292 years")
	}
	return clockAfter(c)
}

// clockAfter applies the due settlements, and returns them.
func clockAfter(c *call) (int, any, error) {
	due := c.clock.run()
	now, frozen, timestamps, events := c.clock.state()
	answer := clockAnswer{now.UTC(), frozen, timestamps, append([]event{}, events...), append([]event{}, due...)}
	return http.StatusOK, answer, nil
}
