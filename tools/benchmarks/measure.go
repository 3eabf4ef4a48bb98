package main

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Two that the tables compare with.
const (
	ours   = "paymentsvc"
	byHand = "by hand"
)

// candidate is one way to do the work of a table.
type candidate struct {
	name string
	who  string // whose it is
	// bound does less than the work. It shows what no candidate can undercut.
	bound bool
	// run does the work once and returns the id that it read, "" where it reads none.
	run func() (id string, err error)
}

// row is a line of a table.
type row struct {
	candidate
	time                float64 // the median of the nanoseconds per operation
	toBest, toReference float64 // medians of the ratios within a round
	allocs, bytes       float64 // per operation
}

// batchTime is how long one turn of a candidate takes: long beside the clock, short beside what else a machine does.
const batchTime = 2 * time.Millisecond

// measure lets the candidates take turns, rounds times, in an order that is drawn anew each round, and returns medians.
// The ratios are made within a round and only then brought to a median, so that they stand on a noisy machine too.
// The garbage collector runs before each turn, so that none pays for another's garbage.
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
	times, allocs, bytes := make([][]float64, len(candidates)), make([][]float64, len(candidates)), make([][]float64, len(candidates))
	for range rounds {
		for _, i := range random.Perm(len(candidates)) {
			t, err := takeTurn(candidates[i], callers, batches[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", candidates[i].name, err)
			}
			times[i], allocs[i], bytes[i] = append(times[i], t.time), append(allocs[i], t.allocs), append(bytes[i], t.bytes)
		}
	}
	rows := summarise(candidates, times, reference)
	for i := range rows {
		rows[i].allocs, rows[i].bytes = median(allocs[i]), median(bytes[i])
	}
	return rows, nil
}

// turn is what an operation takes: nanoseconds, and what it allocates.
type turn struct{ time, allocs, bytes float64 }

func takeTurn(c candidate, callers, batch int) (turn, error) {
	runtime.GC()
	if err := spread(callers, callers, c.run); err != nil { // brings back what the collector took from pools
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

// spread runs f n times in all in callers goroutines; a caller that alone needs none of its own.
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

// summarise makes rows of the times of each candidate in each round. reference names a candidate, or whose it is.
func summarise(candidates []candidate, times [][]float64, reference string) []row {
	rows := make([]row, len(candidates))
	referred := slices.IndexFunc(candidates, func(c candidate) bool { return c.name == reference || c.who == reference })
	best := slices.IndexFunc(candidates, func(c candidate) bool { return !c.bound })
	for i, c := range candidates {
		rows[i] = row{candidate: c, time: median(times[i]), toReference: median(ratios(times[i], times[referred]))}
		if !c.bound && rows[i].toReference < rows[best].toReference {
			best = i
		}
	}
	for i := range rows {
		rows[i].toBest = median(ratios(times[i], times[best]))
	}
	return rows
}

func ratios(a, b []float64) []float64 {
	made := make([]float64, len(a))
	for i := range a {
		made[i] = a[i] / b[i]
	}
	return made
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// markdown returns a table, bounds first and then the best first.
func markdown(title, reference string, rows []row) string {
	slices.SortStableFunc(rows, func(x, y row) int {
		if x.bound != y.bound {
			return map[bool]int{true: -1, false: 1}[x.bound]
		}
		return cmp.Compare(x.toBest, y.toBest)
	})
	reference, _, _ = strings.Cut(reference, " and ")
	text := fmt.Sprintf("### %s\n\n| | time | × best | × %s | allocations | bytes |\n|---|--:|--:|--:|--:|--:|\n", title, reference)
	for _, r := range rows {
		text += fmt.Sprintf("| %s | %s | %.2f | %.2f | %.0f | %.0f |\n", r.title(), duration(r.time), r.toBest, r.toReference, r.allocs, r.bytes)
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

// duration returns nanoseconds with three digits that count.
func duration(nanoseconds float64) string {
	d, unit := time.Duration(nanoseconds), time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
