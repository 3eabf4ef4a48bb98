package recognize

import "sync"

// group runs a function for all callers that wait for it. Callers that arrive while it runs share the next run.
type group struct {
	mu      sync.Mutex
	running bool
	next    *run
}

type run struct {
	done   chan struct{}
	result string
	err    error
}

// do returns the result of a run of f that began after do was called.
func (g *group) do(f func() (string, error)) (string, error) {
	g.mu.Lock()
	if g.next == nil {
		g.next = &run{done: make(chan struct{})}
	}
	mine, first := g.next, !g.running
	g.running = true
	g.mu.Unlock()
	if first {
		go g.work(f)
	}
	<-mine.done
	return mine.result, mine.err
}

// work runs f while callers wait.
func (g *group) work(f func() (string, error)) {
	for {
		g.mu.Lock()
		current := g.next
		g.next = nil
		g.running = current != nil
		g.mu.Unlock()
		if current == nil {
			return
		}
		current.result, current.err = f()
		close(current.done)
	}
}
