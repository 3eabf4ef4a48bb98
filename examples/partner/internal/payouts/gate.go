package payouts

import (
	"context"
	"sync"
	"time"
)

// troublesToPause is how many calls in a row may go unanswered before all calls wait: a service that is down would
// otherwise get every row, each of which a person would have to look into.
const troublesToPause = 3

// longestWait is the longest Retry-After that is believed.
const longestWait = 15 * time.Minute

// Pause says why nothing is sent at the moment.
type Pause struct {
	Paused bool
	Until  time.Time // when one worker tries again
	Reason string
}

// gate lets the workers of this process through to the service, or none of them while it refuses the caller, with a
// wrong secret for instance, or does not answer. When a pause is over, one worker tries alone. Each pause is twice as
// long as the one before, until an answer comes.
type gate struct {
	min, max time.Duration

	mu       sync.Mutex
	closings int // counts the pauses: what began before one does not end it
	pause    Pause
	length   time.Duration // of the last pause, 0 after an answer
	probing  bool          // one worker is through, alone
	troubles int           // in a row
	moved    chan struct{} // closed when the others should look again
}

func newGate(shortest, longest time.Duration) *gate {
	return &gate{min: shortest, max: longest, moved: make(chan struct{})}
}

// pass is a worker's leave to call the service. One of its methods must be called, and only the first call counts.
type pass struct {
	gate     *gate
	closings int
	probe    bool
	used     bool
}

// enter waits up to patience for leave. Without it, it gives the time after which to ask again.
func (g *gate) enter(ctx context.Context, patience time.Duration) (*pass, time.Duration, error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		p, wait, moved := g.try()
		if p != nil {
			return p, 0, nil
		}
		next := time.NewTimer(wait)
		select {
		case <-next.C:
		case <-moved:
		case <-deadline.C:
			next.Stop()
			p, wait, _ := g.try()
			return p, wait, nil
		case <-ctx.Done():
			next.Stop()
			return nil, 0, ctx.Err()
		}
		next.Stop()
	}
}

// try gives leave, or how long to wait for it at most before trying again, and what ends that wait earlier.
func (g *gate) try() (*pass, time.Duration, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.pause.Paused {
		return &pass{gate: g, closings: g.closings}, 0, nil
	}
	if g.probing {
		return nil, time.Second, g.moved
	}
	if wait := time.Until(g.pause.Until); wait > 0 {
		return nil, wait, g.moved
	}
	g.probing = true
	return &pass{gate: g, closings: g.closings, probe: true}, 0, nil
}

// state says why the gate is closed, if it is.
func (g *gate) state() Pause {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pause
}

// answered says that the service dealt with the row, whatever it said.
func (p *pass) answered() {
	p.end(func(g *gate) {
		g.troubles, g.length, g.pause = 0, 0, Pause{}
	})
}

// refused says that the service refuses the caller, and asks to wait for atLeast. It gives the length of the pause.
func (p *pass) refused(reason string, atLeast time.Duration) time.Duration {
	p.end(func(g *gate) { g.close(reason, min(atLeast, longestWait)) })
	return max(time.Until(p.gate.state().Until), p.gate.min)
}

// unanswered says that the service could not be reached, or that nobody knows what it did.
func (p *pass) unanswered(reason string) {
	p.end(func(g *gate) {
		g.troubles++
		if p.probe || g.troubles >= troublesToPause {
			g.close(reason, 0)
		}
	})
}

// unused says that the service was not called.
func (p *pass) unused() { p.end(func(*gate) {}) }

func (p *pass) end(tell func(g *gate)) {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.used {
		return
	}
	p.used = true
	if p.closings != g.closings {
		return // what began before a pause neither ends nor lengthens it
	}
	if p.probe {
		g.probing = false
	}
	tell(g)
	close(g.moved)
	g.moved = make(chan struct{})
}

func (g *gate) close(reason string, atLeast time.Duration) {
	g.closings++
	g.troubles = 0
	g.length = min(max(2*g.length, g.min), g.max)
	g.pause = Pause{Paused: true, Until: time.Now().Add(max(g.length, atLeast)), Reason: reason}
}
