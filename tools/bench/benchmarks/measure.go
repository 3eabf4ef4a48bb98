package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// These are owners of candidates.
const (
	ours   = "paymentsvc"
	byHand = "by hand"
)

// candidate does the work of a table.
type candidate struct {
	name string
	who  string // owner
	// bound marks a lower bound for a part of the work.
	bound bool
	// run does the work once and returns the id from the input, or "" if the work reads no id.
	run func() (id string, err error)
}

// row is a line of a table.
type row struct {
	candidate
	time          float64 // the median of the nanoseconds per operation
	toReference   float64 // the median of the ratios within a round
	low, high     float64 // 95 % confidence interval of toReference
	allocs, bytes float64 // per operation
}

// batchTime is the length of one turn. It is long enough for the clock, and so short that few turns are disturbed.
const batchTime = 2 * time.Millisecond

// measure runs the candidates in turns, in a random order each round, and returns medians. It computes each ratio
// within a round before the median, because the load of the machine changes between rounds. The garbage collector
// runs before each turn, so that no candidate pays for another's garbage.
func measure(candidates []candidate, reference string, rounds, callers int, random *rand.Rand) ([]row, error) {
	batches := make([]int, len(candidates))
	for i, c := range candidates {
		start := time.Now()
		const warm = 64
		if err := spread(callers, warm*callers, c.run); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		perOperation := time.Since(start) / time.Duration(warm*callers)
		batches[i] = max(int(batchTime/max(perOperation, 1)), 4*callers)
	}
	times := make([][]float64, len(candidates))
	allocs := make([][]float64, len(candidates))
	bytes := make([][]float64, len(candidates))
	for round := 0; round < rounds || round < maxRounds && wide(candidates, times, reference); round++ {
		for _, i := range random.Perm(len(candidates)) {
			t, err := takeTurn(candidates[i], callers, batches[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", candidates[i].name, err)
			}
			times[i] = append(times[i], t.time)
			allocs[i] = append(allocs[i], t.allocs)
			bytes[i] = append(bytes[i], t.bytes)
		}
	}
	rows := summarise(candidates, times, reference)
	for i := range rows {
		rows[i].allocs, rows[i].bytes = median(allocs[i]), median(bytes[i])
	}
	return rows, nil
}

// A measurement ends after the requested rounds if the range of the SDK's ratio is at most narrow*ratio, or otherwise
// later, but at most after maxRounds.
const (
	narrow    = 0.02
	maxRounds = 2001
)

// wide reports whether the SDK needs more rounds.
func wide(candidates []candidate, times [][]float64, reference string) bool {
	return slices.ContainsFunc(summarise(candidates, times, reference), func(r row) bool {
		return r.who == ours && r.high-r.low > narrow*r.toReference
	})
}

// turn has the nanoseconds, allocations and bytes per operation.
type turn struct{ time, allocs, bytes float64 }

func takeTurn(c candidate, callers, batch int) (turn, error) {
	runtime.GC()
	if err := spread(callers, callers, c.run); err != nil { // fills the pools again
		return turn{}, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := spread(callers, batch, c.run)
	t := turn{time: float64(time.Since(start)) / float64(batch)}
	runtime.ReadMemStats(&after)
	t.allocs = float64(after.Mallocs-before.Mallocs) / float64(batch)
	t.bytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(batch)
	return t, err
}

// spread runs f n times in total, divided among callers goroutines. A single caller uses the current goroutine.
func spread(callers, n int, f func() (string, error)) error {
	if callers == 1 {
		return repeat(n, f)
	}
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { errs[i] = repeat((n+i)/callers, f) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func repeat(n int, f func() (string, error)) error {
	for range n {
		if _, err := f(); err != nil {
			return err
		}
	}
	return nil
}

// summarise computes rows from the times of each candidate in each round. reference is the name or the owner of a
// candidate.
func summarise(candidates []candidate, times [][]float64, reference string) []row {
	rows := make([]row, len(candidates))
	referred := slices.IndexFunc(candidates, func(c candidate) bool {
		return c.name == reference || c.who == reference
	})
	for i, c := range candidates {
		compared := make([]float64, len(times[i]))
		for round, time := range times[i] {
			compared[round] = time / times[referred][round]
		}
		rows[i] = row{candidate: c, time: median(times[i]), toReference: median(compared)}
		rows[i].low, rows[i].high = interval(compared)
	}
	return rows
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// interval returns the 95 % confidence interval of the median, which it computes from the order of the values only.
func interval(values []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	half := int(math.Ceil(0.98 * math.Sqrt(float64(n))))
	return sorted[max(n/2-half, 0)], sorted[min(n/2+half, n-1)]
}

// markdown returns a table, with the bounds first and the other candidates by time.
func markdown(title, reference string, rows []row) string {
	slices.SortStableFunc(rows, func(x, y row) int {
		if x.bound != y.bound {
			return map[bool]int{true: -1, false: 1}[x.bound]
		}
		return cmp.Compare(x.toReference, y.toReference)
	})
	reference, _, _ = strings.Cut(reference, " and ")
	text := fmt.Sprintf("## %s\n\n| | time | × %s | range | allocations | bytes |\n"+
		"|---|--:|--:|--:|--:|--:|\n", title, reference)
	for _, r := range rows {
		text += fmt.Sprintf("| %s | %s | %.2f | %.2f–%.2f | %.0f | %.0f |\n",
			r.title(), duration(r.time), r.toReference, r.low, r.high, r.allocs, r.bytes)
	}
	return text + "\n"
}

func (c *candidate) title() string {
	switch {
	case c.bound:
		return "*bound:* " + c.name
	case c.who == ours:
		return "**" + c.name + "**"
	}
	return c.name
}

// duration returns nanoseconds with three significant digits.
func duration(nanoseconds float64) string {
	d, unit := time.Duration(nanoseconds), time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
