package mock

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// The states and directions of a message, and the endpoint of a notification.
const (
	inFlight = "in_flight"
	answered = "answered"
	broken   = "broken" // without a recorded response, or with a response cut by a fault

	in  = "in"  // a request to the interface
	out = "out" // a notification

	notificationEndpoint = "notification"
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
	Method, Target string // of the request line; the Target of a notification is its whole URL
	Endpoint       string
	Header, Answer http.Header
	Body, Answered []byte
	Status         int
	State, Err     string
	Took           time.Duration
	Signature      *verdict // nil if the signature was not checked
	Forged         bool
	Cut            bool // deliberately incomplete
	Rejection      *paymentsvctest.Rejection
	Declined       bool // by the script
	Faults         []int

	Fields fields
}

// fields are the values of a message for the conditions of a filter.
type fields struct {
	ProjectID                int64
	UserData, OrderID        string
	Event, StatusDescription string
}

// size estimates the memory of a message, including its entries in the journal.
func (m *message) size() int64 {
	const overhead = 1024
	texts := len(m.Target) + len(m.Fields.UserData) + len(m.Fields.OrderID) + len(m.Fields.Event) +
		len(m.Fields.StatusDescription)
	return int64(overhead + len(m.Body) + len(m.Answered) + headerSize(m.Header) + headerSize(m.Answer) + texts)
}

func headerSize(h http.Header) (size int) {
	const entry = 64 // a map entry, a slice and two strings
	for name, values := range h {
		size += entry + len(name)
		for _, value := range values {
			size += len(value)
		}
	}
	return size
}

// budget limits the size of the finished messages of all journals together. The largest journal loses its oldest
// messages first.
type budget struct {
	bound int64 // bytes
	total atomic.Int64

	mu       sync.Mutex
	journals map[*journal]bool
}

func newBudget(bound int) *budget { return &budget{bound: int64(bound), journals: map[*journal]bool{}} }

// trim evicts finished messages until the budget is met or no finished message remains.
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
	bytes  atomic.Int64 // size of the finished messages, changed under the lock
	done   chan struct{}

	mu        sync.Mutex
	base      int        // messages[i] has the number base+1+i
	messages  []*message // an evicted message is nil
	oldest    int        // evict starts here, because every earlier message is evicted or in flight
	evicted   int
	gap       int // the highest number of an evicted message
	flight    int
	waiters   waiters
	nextCheck time.Time // the earliest time of the next check by a waiter
	closed    bool
}

// newJournal returns a journal whose first message gets the number last+1.
func newJournal(b *budget, last int, log func(format string, args ...any)) *journal {
	j := &journal{budget: b, log: log, done: make(chan struct{}), base: last, waiters: waiters{}}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.journals[j] = true
	return j
}

// last returns the number of the last message, or the argument last of newJournal.
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

// arrive adds a request after its header was read, or a notification before it is sent.
func (j *journal) arrive(m message) *message {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.messages = append(j.messages, &m)
	m.Seq, m.At, m.State = j.base+len(j.messages), time.Now(), inFlight
	j.flight++
	j.waiters.notify(m.Fields.ProjectID, m.Fields.UserData, m.Fields.OrderID)
	return &m
}

// update changes a message, and wakes the waiters for this message.
func (j *journal) update(m *message, change func(*message)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(m)
	j.waiters.notify(m.Fields.ProjectID, m.Fields.UserData, m.Fields.OrderID)
}

// finish completes a message, and enforces the budget.
func (j *journal) finish(m *message, change func(*message)) {
	j.mu.Lock()
	change(m)
	m.Took = time.Since(m.At)
	j.flight--
	if !j.closed {
		size := m.size()
		j.bytes.Add(size)
		j.budget.total.Add(size)
		j.oldest = min(j.oldest, m.Seq-1-j.base)
	}
	j.waiters.notify(m.Fields.ProjectID, m.Fields.UserData, m.Fields.OrderID)
	line := *m
	j.mu.Unlock()
	j.budget.trim()
	if j.log != nil {
		j.log("#%d %s %s %s %d %s %s", line.Seq, line.Direction, line.Endpoint, line.State,
			line.Status, line.Took.Round(time.Millisecond), line.Err)
	}
}

// evict removes finished messages, the oldest first. It stops after the given number of bytes, or when only messages in
// flight remain. It reports whether it removed a message.
func (j *journal) evict(bytes int64) (removed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed { // close has subtracted the messages from the budget
		return false
	}
	before := j.bytes.Load()
	for ; j.oldest < len(j.messages) && before-j.bytes.Load() < bytes; j.oldest++ {
		m := j.messages[j.oldest]
		if m == nil || m.State == inFlight {
			continue
		}
		size := m.size()
		j.bytes.Add(-size)
		j.budget.total.Add(-size)
		j.messages[j.oldest] = nil
		j.evicted, j.gap, removed = j.evicted+1, max(j.gap, m.Seq), true
	}
	if j.oldest > len(j.messages)/2 {
		if first := slices.IndexFunc(j.messages, func(m *message) bool { return m != nil }); first > 0 {
			j.messages, j.base, j.oldest = slices.Clone(j.messages[first:]), j.base+first, max(j.oldest-first, 0)
		}
	}
	return removed
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
	j.budget.mu.Lock()
	defer j.budget.mu.Unlock()
	delete(j.budget.journals, j)
	j.budget.total.Add(-j.bytes.Swap(0))
}

// each calls visit with each matching message whose number is above f.After, until visit returns false. It returns the
// count of evicted messages and the highest number of an evicted message. visit must not use the journal.
func (j *journal) each(f *filter, visit func(*message) bool) (evicted, gap int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.messages[min(max(f.After-j.base, 0), len(j.messages)):] {
		if m != nil && f.fitsMessage(m) && !visit(m) {
			break
		}
	}
	return j.evicted, j.gap
}

// list returns the oldest matching messages, at most limit, and the number of evicted messages.
func (j *journal) list(f *filter, limit int) (list []message, evicted int) {
	evicted, _ = j.each(f, func(m *message) bool {
		list = append(list, *m)
		return len(list) < limit
	})
	return list, evicted
}

// newest lists the matching messages, the newest first, and returns at most limit of them from the offset skip. matches
// is the number of all matching messages. match must not use the journal.
func (j *journal) newest(skip, limit int, match func(*message) bool) (list []message, matches, evicted int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range slices.Backward(j.messages) {
		if m == nil || !match(m) {
			continue
		}
		matches++
		if matches > skip && len(list) < limit {
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
