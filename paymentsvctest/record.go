package paymentsvctest

import "slices"

// defaultMaxRecords is the default of Config.MaxRecords.
const defaultMaxRecords = 100_000

// record contains the latest entries of a list. When it has more than limit entries, it drops the older half.
type record[T any] struct {
	limit   int
	entries []T
	dropped int
}

func (r *record[T]) add(entries ...T) {
	r.entries = append(r.entries, entries...)
	if len(r.entries) <= r.limit {
		return
	}
	first := len(r.entries) - (r.limit+1)/2
	r.entries, r.dropped = slices.Clone(r.entries[first:]), r.dropped+first
}

// after returns the entries without the first n that were ever added, and the number of all.
func (r *record[T]) after(n int) (list []T, all int) {
	first := min(max(n-r.dropped, 0), len(r.entries))
	return slices.Clone(r.entries[first:]), r.dropped + len(r.entries)
}

// Dropped returns the number of rejections, signature faults and deliveries that the server has dropped because of
// Config.MaxRecords. Assertions about dropped entries fail.
func (s *Server) Dropped() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rejections.dropped + s.signatures.dropped + s.deliveries.dropped
}
