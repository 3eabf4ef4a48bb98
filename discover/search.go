package discover

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
)

// hit is a composition that produces the signature of the current sample.
type hit struct {
	composition composition
	key         key
}

// search runs stages on all workers until the first hit.
type search struct {
	wanted  []string // possible sums of the signature of the current sample
	workers int

	tried atomic.Int64 // compositions of all samples
	stop  atomic.Bool  // a worker found a hit
	mu    sync.Mutex
	found *hit
}

// reset prepares a search for other sums.
func (s *search) reset(wanted []string) {
	s.wanted, s.found = wanted, nil
	s.stop.Store(false)
}

// run searches one stage, and reports whether the search continues with the next stage.
func (s *search) run(ctx context.Context, st *stage) bool {
	jobs := st.jobs()
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(s.workers, len(jobs)) {
		workers.Go(func() {
			w := newWorker(s, st)
			for !s.stop.Load() && ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(jobs) {
					break
				}
				w.do(ctx, &jobs[i])
			}
			s.tried.Add(w.tried)
		})
	}
	workers.Wait()
	return !s.stop.Load() && ctx.Err() == nil
}

// job is the part of a stage with the same key, separator, edge and first piece.
type job struct {
	key         *key
	gap         string // separator between all pieces, if the stage is not mixed
	edge        edge
	group, text int // the first piece
}

func (s *stage) jobs() (jobs []job) {
	if s.total == 0 {
		return nil
	}
	gaps := s.gaps
	if s.mixed {
		gaps = []string{""}
	}
	for k := range s.keys {
		for _, gap := range gaps {
			for _, e := range s.ends.edges(gap) {
				for g := range s.groups {
					if s.groups[g].isExtra && s.extras == 0 {
						continue
					}
					for t := range s.groups[g].texts {
						if s.fits(&s.groups[g], t, gap) {
							jobs = append(jobs, job{&s.keys[k], gap, e, g, t})
						}
					}
				}
			}
		}
	}
	return jobs
}

// worker tries compositions piece by piece, and hashes their common start once.
type worker struct {
	search *search
	stage  *stage
	check  *checker
	ctx    context.Context // context of the run; the run outlives the worker

	job     *job
	buf     []byte   // the text so far
	states  [][]byte // state of the inner hash before the piece at each depth
	path    []place  // piece at each depth
	used    uint64   // bit set of groups
	extras  int      // number of extras so far
	special int      // number of special pieces so far
	last    int      // group of the last piece other than an extra, or -1
	tried   int64    // compositions not yet added to search.tried
	pending int      // blocks hashed since the last check of ctx

	around  paymentsvc.CanonicalFunc // wrapping of the stage, or nil
	message paymentsvc.Message
	wrapped []byte
}

// place is a piece of the composition and the gap before it.
type place struct {
	group, text int
	gap         string
}

func newWorker(s *search, st *stage) *worker {
	w := &worker{
		search: s,
		stage:  st,
		check:  newChecker(s.wanted),
		states: make([][]byte, st.max+2),
		path:   make([]place, st.max),
	}
	if st.wrap != nil {
		w.around = st.wrap.part(canonical.Body)
	}
	return w
}

// longText is the length above which a worker hashes a last piece once for all trails.
const longText = 1 << 10

func (w *worker) do(ctx context.Context, j *job) {
	w.ctx, w.job = ctx, j
	w.used, w.extras, w.special, w.last = 0, 0, 0, -1
	w.buf = append(w.buf[:0], j.edge.lead...)
	w.states[0] = append(w.states[0][:0], j.key.inner...)
	w.place(0, place{j.group, j.text, ""}, len(w.buf), 0)
}

// place appends a piece to w.buf[:n], tries the result, and places further pieces. It reports whether the search
// continues. w.states[depth] is the hash state after w.buf[:done].
func (w *worker) place(depth int, p place, n, done int) bool {
	st, g := w.stage, &w.stage.groups[p.group]
	w.buf = append(append(w.buf[:n], p.gap...), g.texts[p.text]...)
	n = len(w.buf)
	w.path[depth] = p
	isLast := depth+1 >= st.max || st.bodyAtEnd && g.kind == ofBody && depth > 0
	state := w.states[depth]
	if st.wrap == nil && (!isLast || n-done > longText) {
		state = w.check.stateAfter(w.states[depth+1][:0], state, w.buf[done:])
		w.states[depth+1] = state
		w.pending += (n - done) / sha256.BlockSize
		done = n
	}
	if depth+1 >= st.min && (st.maxSpecial == 0 || w.special > 0 || g.isSpecial(p.text)) {
		for _, trail := range w.job.edge.trails {
			w.buf = append(w.buf[:n], trail...)
			if !w.try(depth, state, done, trail) {
				return false
			}
		}
	}
	if isLast {
		return true
	}
	extras, special, last := w.extras, w.special, w.last
	w.used |= 1 << p.group
	if g.isExtra {
		w.extras++
	} else {
		w.last = p.group
	}
	if g.isSpecial(p.text) {
		w.special++
	}
	more := w.deeper(depth+1, n, done)
	w.used &^= 1 << p.group
	w.extras, w.special, w.last = extras, special, last
	return more
}

// deeper places every possible next piece.
func (w *worker) deeper(depth, n, done int) bool {
	st := w.stage
	for i := range st.groups {
		g := &st.groups[i]
		if w.used>>i&1 != 0 || g.isExtra && w.extras == st.extras || !g.isExtra && st.order != nil && i < w.last {
			continue
		}
		if st.mixed {
			for t := range g.texts {
				if w.tooSpecial(g, t) {
					continue
				}
				for _, gap := range st.gaps {
					if g.kind != ofNothing && !w.place(depth, place{i, t, gap}, n, done) {
						return false
					}
				}
			}
			continue
		}
		for t := range g.texts {
			if !st.fits(g, t, w.job.gap) || w.tooSpecial(g, t) || w.unsorted(depth, g.texts[t]) {
				continue
			}
			if !w.place(depth, place{i, t, w.job.gap}, n, done) {
				return false
			}
		}
	}
	return true
}

// tooSpecial reports whether a text exceeds the limit of special texts.
func (w *worker) tooSpecial(g *stageGroup, text int) bool {
	return w.stage.maxSpecial > 0 && w.special == w.stage.maxSpecial && g.isSpecial(text)
}

// unsorted reports whether a text belongs before the previous text or equals it. It is false for an unsorted plan.
func (w *worker) unsorted(depth int, text string) bool {
	if !w.stage.sorted {
		return false
	}
	last := w.path[depth-1]
	return text <= w.stage.groups[last.group].texts[last.text]
}

// blocksBetweenChecks is the number of hashed blocks between two checks of the context. It is about a millisecond of
// work with SHA-256 in hardware.
const blocksBetweenChecks = 1 << 13

// try checks the HMAC of the text, which ends in trail, and reports whether the search continues. state is the hash
// state after w.buf[:done]. A wrapped text is hashed completely, because it shares no start with other texts.
func (w *worker) try(depth int, state []byte, done int, trail string) bool {
	rest := w.buf[done:]
	w.tried++
	w.pending += len(rest)/sha256.BlockSize + 3
	if w.pending >= blocksBetweenChecks {
		w.pending = 0
		w.search.tried.Add(w.tried)
		w.tried = 0
		if w.search.stop.Load() || w.ctx.Err() != nil {
			return false
		}
	}
	if w.around != nil {
		w.message.Body = w.buf
		w.wrapped, _ = w.around(w.wrapped[:0], &w.message) // a wrapping of the body cannot fail
		state, rest = w.job.key.inner, w.wrapped
	}
	if !w.check.matches(w.job.key, state, rest) {
		return true
	}
	w.hit(depth, trail)
	return false
}

func (w *worker) hit(depth int, trail string) {
	h := &hit{key: *w.job.key}
	h.composition = composition{lead: w.job.edge.lead, trail: trail, wrap: w.stage.wrap}
	for i, p := range w.path[:depth+1] {
		if i > 0 {
			h.composition.gaps = append(h.composition.gaps, p.gap)
		}
		h.composition.pieces = append(h.composition.pieces, w.stage.groups[p.group].pieces[p.text])
	}
	h.composition = *h.composition.expanded()
	w.search.mu.Lock()
	defer w.search.mu.Unlock()
	if w.search.found == nil {
		w.search.found = h
	}
	w.search.stop.Store(true)
}
