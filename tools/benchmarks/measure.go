package main

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
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
	connections         int64
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
	times := make([][]float64, len(candidates))
	for range rounds {
		for _, i := range random.Perm(len(candidates)) {
			each, err := turn(candidates[i], callers, batches[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", candidates[i].name, err)
			}
			times[i] = append(times[i], each)
		}
	}
	rows := summarise(candidates, times, reference)
	for i, c := range candidates {
		var err error
		rows[i].allocs, rows[i].bytes, err = allocations(c, callers, batches[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return rows, nil
}

// turn returns the nanoseconds that an operation takes.
func turn(c candidate, callers, batch int) (float64, error) {
	runtime.GC()
	if err := spread(callers, callers, c.run); err != nil { // brings back what the collector took from pools
		return 0, err
	}
	start := time.Now()
	err := spread(callers, batch, c.run)
	return float64(time.Since(start)) / float64(batch), err
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

// allocations returns the median of five batches, since a pool is emptied now and then.
func allocations(c candidate, callers, batch int) (allocs, bytes float64, err error) {
	var counts, sizes []float64
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := spread(callers, batch, c.run); err != nil {
			return 0, 0, err
		}
		runtime.ReadMemStats(&after)
		counts = append(counts, float64(after.Mallocs-before.Mallocs)/float64(batch))
		sizes = append(sizes, float64(after.TotalAlloc-before.TotalAlloc)/float64(batch))
	}
	return median(counts), median(sizes), nil
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
