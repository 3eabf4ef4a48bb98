package mock

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
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

// verdict is what was found out about a signature.
type verdict struct {
	Valid  bool   `json:"valid"`
	Reason string `json:"reason,omitempty"`
}

// message is a request and its answer.
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
	Signature      *verdict // nil where nobody checked
	Forged         bool
	Cut            bool // a part of it was not sent, on purpose
	Rejection      *paymentsvctest.Rejection
	Declined       bool // by the script
	Faults         []int

	Fields fields
}

// fields are what bodies have in common.
type fields struct {
	ProjectID         int64                `json:"project_id"`
	UserData          string               `json:"user_data"`
	OrderID           string               `json:"order_id"`
	Event             paymentsvc.EventType `json:"event"`
	StatusDescription string               `json:"status_description"`
}

func (m *message) size() int {
	const overhead = 512
	return overhead + len(m.Body) + len(m.Answered) + headerSize(m.Header) + headerSize(m.Answer) + len(m.Target)
}

func headerSize(h http.Header) (size int) {
	for name, values := range h {
		size += len(name) + len(strings.Join(values, ""))
	}
	return size
}

// journal keeps messages in the order of their arrival. What is in flight is never evicted.
type journal struct {
	bound int
	log   func(format string, args ...any)

	mu       sync.Mutex
	messages []*message
	seq      int
	bytes    int
	evicted  int // how many
	hole     int // the last that was evicted
	flight   int
	wake     chan struct{}
	closed   bool
}

// startAt lets the numbers go on.
func (j *journal) startAt(seq int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq = seq
}

func (j *journal) last() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seq
}

func (j *journal) inFlight() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.flight
}

// arrive enters a message as soon as its header is there.
func (j *journal) arrive(m message) *message {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq++
	m.Seq, m.At, m.State = j.seq, time.Now(), inFlight
	j.flight++
	j.messages = append(j.messages, &m)
	j.notice()
	return &m
}

// update changes a message.
func (j *journal) update(m *message, change func(*message)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(m)
	j.notice()
}

// finish ends a message, and evicts the oldest ones when there are too many bytes.
func (j *journal) finish(m *message, change func(*message)) {
	j.mu.Lock()
	change(m)
	m.Took = time.Since(m.At)
	j.flight--
	j.bytes += m.size()
	for i := 0; j.bytes > j.bound && i < len(j.messages); {
		oldest := j.messages[i]
		if oldest.State == inFlight {
			i++
			continue
		}
		j.bytes -= oldest.size()
		j.evicted, j.hole = j.evicted+1, max(j.hole, oldest.Seq)
		j.messages = slices.Delete(j.messages, i, i+1)
	}
	j.notice()
	line := *m
	j.mu.Unlock()
	if j.log != nil {
		j.log("#%d %s %s %s %d %s %s", line.Seq, line.Direction, line.Endpoint, line.State,
			line.Status, line.Took.Round(time.Millisecond), line.Err)
	}
}

// forget evicts all that are not in flight, on request.
func (j *journal) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.messages = slices.DeleteFunc(j.messages, func(m *message) bool {
		if m.State == inFlight {
			return false
		}
		j.evicted, j.hole = j.evicted+1, max(j.hole, m.Seq)
		return true
	})
	j.bytes = 0
	j.notice()
}

// notice wakes those who wait. The lock is held.
func (j *journal) notice() {
	if j.wake != nil {
		close(j.wake)
		j.wake = nil
	}
}

// changed wakes those who wait for something else than a message.
func (j *journal) changed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.notice()
}

// next returns a channel that is closed with the next change.
func (j *journal) next() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wake == nil {
		j.wake = make(chan struct{})
	}
	return j.wake
}

func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.notice()
}

// waitFor waits until met is true, limit has passed, the journal is closed or ctx ends, and reports whether met is.
func (j *journal) waitFor(ctx context.Context, limit time.Duration, met func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		next := j.next()
		if met() {
			return true
		}
		select {
		case <-next:
		case <-ctx.Done():
			return met() // once more: a busy machine oversleeps
		}
		j.mu.Lock()
		closed := j.closed
		j.mu.Unlock()
		if closed {
			return false
		}
	}
}

// idle waits until nothing is in flight.
func (j *journal) idle(ctx context.Context) error {
	const long = 24 * time.Hour
	if !j.waitFor(ctx, long, func() bool { return j.inFlight() == 0 }) && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// list returns copies of the messages that fit, and of what was evicted how many and up to which.
func (j *journal) list(fits func(*message) bool) (list []message, evicted, hole int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.messages {
		if fits(m) {
			list = append(list, *m)
		}
	}
	return list, j.evicted, j.hole
}

func (j *journal) get(seq int) (m message, evicted bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.messages {
		if m.Seq == seq {
			return *m, false
		}
	}
	return message{}, seq >= 1 && seq <= j.seq
}
