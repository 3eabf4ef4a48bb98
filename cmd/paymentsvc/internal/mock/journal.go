package mock

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// The states and directions of a message.
const (
	inFlight = "in_flight"
	answered = "answered"
	broken   = "broken"

	in  = "in"  // a request to the interface
	out = "out" // a notification
)

// verdict is the result of a signature check.
type verdict struct {
	Valid  bool   `json:"valid"`
	Reason string `json:"reason,omitempty"`
}

// message is a request and its response.
type message struct {
	Seq            int
	At             time.Time
	Direction      string
	Method, Target string // of the request line
	Endpoint       string
	Header, Answer http.Header
	Body, Answered []byte
	Status         int
	State, Err     string
	Took           time.Duration
	Signature      *verdict // nil without a check
	Forged         bool
	Cut            bool // deliberately incomplete
	Rejection      *paymentsvctest.Rejection
	Declined       bool // by the script
	Faults         []int

	Fields fields
}

// fields are the members that bodies have in common.
type fields struct {
	ProjectID         int64                `json:"project_id"`
	UserData          string               `json:"user_data"`
	OrderID           string               `json:"order_id"`
	Event             paymentsvc.EventType `json:"event"`
	StatusDescription string               `json:"status_description"`
}

// size estimates the memory of a message, including its entries in the journal.
func (m *message) size() int64 {
	const overhead = 1024
	return int64(overhead + len(m.Body) + len(m.Answered) + headerSize(m.Header) + headerSize(m.Answer) + len(m.Target))
}

func headerSize(h http.Header) (size int) {
	const entry = 64 // of a map, its slice and two strings
	for name, values := range h {
		size += entry + len(name)
		for _, value := range values {
			size += len(value)
		}
	}
	return size
}

// budget limits the bytes of all journals together. The largest journal loses its oldest messages first.
type budget struct {
	bound int64
	total atomic.Int64

	mu       sync.Mutex
	journals map[*journal]bool
}

func newBudget(bound int) *budget { return &budget{bound: int64(bound), journals: map[*journal]bool{}} }

func (b *budget) add(j *journal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.journals[j] = true
}

func (b *budget) remove(j *journal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.journals, j)
}

// trim evicts messages until the budget is met.
func (b *budget) trim() {
	for over := b.total.Load() - b.bound; over > 0; over = b.total.Load() - b.bound {
		b.mu.Lock()
		var largest *journal
		for j := range b.journals {
			if largest == nil || j.bytes.Load() > largest.bytes.Load() {
				largest = j
			}
		}
		b.mu.Unlock()
		if largest == nil || !largest.evict(over) {
			return
		}
	}
}

// journal contains messages in the order of their arrival. It never evicts messages in flight.
type journal struct {
	budget *budget
	log    func(format string, args ...any)
	bytes  atomic.Int64 // of finished messages; changed under the lock
	done   chan struct{}

	mu         sync.Mutex
	base       int        // the number before that of messages[0]
	messages   []*message // nil if evicted
	oldest     int        // the index of the first message to evict
	byUserData map[string][]*message
	byOrderID  map[string][]*message
	kept       int // messages that are not evicted
	evicted    int
	hole       int // the number of the last evicted message
	flight     int
	waiters    map[*waiter]bool
	nextCheck  time.Time // of a claim by a waiter
	closed     bool
}

// newJournal returns a journal with numbers after last.
func newJournal(b *budget, last int, log func(format string, args ...any)) *journal {
	j := &journal{
		budget: b, log: log, done: make(chan struct{}), base: last,
		byUserData: map[string][]*message{}, byOrderID: map[string][]*message{}, waiters: map[*waiter]bool{},
	}
	b.add(j)
	return j
}

// last returns the number of the last message.
func (j *journal) last() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.base + len(j.messages)
}

func (j *journal) inFlight() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.flight
}

// arrive adds a message as soon as its header is read.
func (j *journal) arrive(m message) *message {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.messages = append(j.messages, &m)
	m.Seq, m.At, m.State = j.base+len(j.messages), time.Now(), inFlight
	j.kept++
	j.flight++
	j.index(&m, fields{})
	j.notice(&m)
	return &m
}

// update changes a message.
func (j *journal) update(m *message, change func(*message)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := m.Fields
	change(m)
	j.index(m, before)
	j.notice(m)
}

// index enters the message by its identifiers. The lock is held.
func (j *journal) index(m *message, before fields) {
	if m.Fields.UserData != before.UserData {
		j.byUserData[m.Fields.UserData] = append(j.byUserData[m.Fields.UserData], m)
	}
	if m.Fields.OrderID != before.OrderID {
		j.byOrderID[m.Fields.OrderID] = append(j.byOrderID[m.Fields.OrderID], m)
	}
}

func unindex(index map[string][]*message, key string, m *message) {
	list := index[key]
	switch at := slices.Index(list, m); {
	case at < 0:
	case len(list) == 1:
		delete(index, key)
	case at == 0:
		index[key] = list[1:]
	default:
		index[key] = slices.Delete(list, at, at+1)
	}
}

// finish ends a message, and enforces the budget.
func (j *journal) finish(m *message, change func(*message)) {
	j.mu.Lock()
	before := m.Fields
	change(m)
	j.index(m, before)
	m.Took = time.Since(m.At)
	j.flight--
	if !j.closed {
		size := m.size()
		j.bytes.Add(size)
		j.budget.total.Add(size)
		j.oldest = min(j.oldest, m.Seq-1-j.base)
	}
	j.notice(m)
	line := *m
	j.mu.Unlock()
	j.budget.trim()
	if j.log != nil {
		j.log("#%d %s %s %s %d %s %s", line.Seq, line.Direction, line.Endpoint, line.State,
			line.Status, line.Took.Round(time.Millisecond), line.Err)
	}
}

// evict removes the oldest finished messages with at least this many bytes, and reports whether it removed any.
func (j *journal) evict(bytes int64) (removed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := j.bytes.Load()
	for ; j.oldest < len(j.messages) && before-j.bytes.Load() < bytes; j.oldest++ {
		m := j.messages[j.oldest]
		if m == nil || m.State == inFlight {
			continue
		}
		size := m.size()
		j.bytes.Add(-size)
		j.budget.total.Add(-size)
		unindex(j.byUserData, m.Fields.UserData, m)
		unindex(j.byOrderID, m.Fields.OrderID, m)
		j.messages[j.oldest] = nil
		j.kept--
		j.evicted, j.hole, removed = j.evicted+1, max(j.hole, m.Seq), true
	}
	if j.oldest > len(j.messages)/2 {
		if first := slices.IndexFunc(j.messages, func(m *message) bool { return m != nil }); first > 0 {
			j.messages, j.base, j.oldest = slices.Clone(j.messages[first:]), j.base+first, j.oldest-first
		}
	}
	return removed
}

// forget evicts all finished messages.
func (j *journal) forget() {
	j.evict(1 << 62)
	j.wakeAll()
}

// close ends all waits, and releases the journal's part of the budget.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	j.closed = true
	close(j.done)
	j.budget.remove(j)
	j.budget.total.Add(-j.bytes.Swap(0))
}

// waiter waits for changes of the messages and orders with the identifiers of a filter.
type waiter struct {
	about *filter
	wake  chan struct{}
}

func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default: // it has not yet seen the previous change
	}
}

// notice wakes the waiters that a message concerns. The lock is held.
func (j *journal) notice(m *message) {
	for w := range j.waiters {
		if w.about.fits(m.Fields.ProjectID, m.Fields.UserData, m.Fields.OrderID) {
			w.notify()
		}
	}
}

// ordered wakes the waiters that an order concerns.
func (j *journal) ordered(o paymentsvctest.Order) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for w := range j.waiters {
		if w.about.fits(o.ProjectID, o.UserData, o.OrderID) {
			w.notify()
		}
	}
}

func (j *journal) wakeAll() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for w := range j.waiters {
		w.notify()
	}
}

// waitFor waits until met returns true, limit has passed, the journal is closed or ctx ends. It returns the last result of
// met. It calls met again after changes that concern the filter.
func (j *journal) waitFor(ctx context.Context, limit time.Duration, about *filter, met func() bool) bool {
	w := &waiter{about, make(chan struct{}, 1)}
	j.mu.Lock()
	j.waiters[w] = true
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.waiters, w)
	}()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		began := time.Now()
		if met() {
			return true
		}
		pause := time.NewTimer(j.pause(time.Since(began)))
		select {
		case <-w.wake:
		case <-ctx.Done():
			return met() // a busy machine oversleeps
		case <-j.done:
			return false
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return met()
		case <-j.done:
			return false
		}
	}
}

// pause returns the time until the next check of a claim that took cost. Together the checks take a twentieth of the time.
func (j *journal) pause(cost time.Duration) time.Duration {
	const longest = 100 * time.Millisecond
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	if j.nextCheck.Before(now) {
		j.nextCheck = now
	}
	j.nextCheck = j.nextCheck.Add(min(20*cost, longest))
	return j.nextCheck.Sub(now)
}

// idle waits until no message is in flight.
func (j *journal) idle(ctx context.Context) error {
	const long = 24 * time.Hour
	if !j.waitFor(ctx, long, &filter{}, func() bool { return j.inFlight() == 0 }) && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// each calls visit with each message that fits, until it returns false. It returns the number of evicted messages and the
// number of the last of them. visit must not use the journal.
func (j *journal) each(f *filter, visit func(*message) bool) (evicted, hole int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := j.messages[min(max(f.After-j.base, 0), len(j.messages)):]
	switch {
	case f.UserData != nil && *f.UserData != "":
		list = j.byUserData[*f.UserData]
	case f.OrderID != "":
		list = j.byOrderID[f.OrderID]
	}
	for _, m := range list {
		if m != nil && f.fitsMessage(m) && !visit(m) {
			break
		}
	}
	return j.evicted, j.hole
}

// list returns the first messages that fit, and the number of evicted messages.
func (j *journal) list(f *filter, limit int) (list []message, evicted int) {
	indexed := f.UserData != nil || f.OrderID != "" // in the order in which the identifiers became known
	evicted, _ = j.each(f, func(m *message) bool {
		list = append(list, *m)
		return indexed || len(list) < limit
	})
	slices.SortFunc(list, func(a, b message) int { return cmp.Compare(a.Seq, b.Seq) })
	return list[:min(limit, len(list))], evicted
}

// newest returns the last messages that match, the newest first, and the number of all that match.
func (j *journal) newest(skip, limit int, match func(*message) bool) (list []message, matches, evicted int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range slices.Backward(j.messages) {
		if m == nil || !match(m) {
			continue
		}
		if matches++; matches > skip && len(list) < limit {
			list = append(list, *m)
		}
	}
	return list, matches, j.evicted
}

func (j *journal) get(seq int) (m message, evicted bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq > j.base && seq <= j.base+len(j.messages) {
		if kept := j.messages[seq-1-j.base]; kept != nil {
			return *kept, false
		}
	}
	return message{}, seq >= 1 && seq <= j.base+len(j.messages)
}
