package ledger

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Filter selects the rows of a list. The zero value selects all rows.
type Filter struct {
	Kind      row.Kind  // "" selects both kinds
	State     row.State // "" selects all states
	Batch     string
	ErrorCode string
	Review    bool
	Held      bool
	// MinAge is the minimum time since the creation of a row, by the database's clock.
	MinAge time.Duration
	// Overdue is the minimum age of a pending row in need of review. With 0, age is not a reason for review.
	Overdue time.Duration

	// OldestFirst reverses the order of the list.
	OldestFirst bool
	// After is the place after which the list continues. The zero value is the beginning.
	After Place

	unflagged  bool          // selects rows without a review reason
	unreviewed time.Duration // selects rows without a review by an operator within this time
}

// Place is a place in a list. Lists are in the order of a time and then of a key, because several entries may have the
// same time. At is in Unix milliseconds. Key is the user_data of a row or the key of a notification.
type Place struct {
	At  int64
	Key string
}

// compare compares two places.
func (p Place) compare(other Place) int {
	return cmp.Or(cmp.Compare(p.At, other.At), cmp.Compare(p.Key, other.Key))
}

// selection builds statements about the rows of a [Filter]. Each part of a statement reads one range of one index in
// the order of the list, so a page of rare rows costs as much as any other page.
type selection struct {
	generation  int64   // current generation
	generations []int64 // the older generations of queued payouts
	first, last int64   // creation times of the batch's first and last row, or 0
	args        []any
}

// arg returns the placeholder of a value, such as $1.
func (s *selection) arg(value any) string {
	n := slices.Index(s.args, value)
	if n < 0 {
		n = len(s.args)
		s.args = append(s.args, value)
	}
	return "$" + strconv.Itoa(n+1)
}

// Constant lists. The states are in the usual order of a row.
var (
	states   = []row.State{row.Created, row.Starting, row.Unknown, row.Pending, row.Succeeded, row.Failed, row.Rejected}
	rare     = []row.State{row.Created, row.Unknown, row.Pending, row.Succeeded, row.Failed, row.Rejected}
	allKinds = []row.Kind{row.Payment, row.Payout}
)

// parts returns statements for the ranges that contain the rows of f. Each row is in one range. A statement reads the
// first rows of its range, up to limit.
func (s *selection) parts(f Filter, limit int) (parts []string) {
	for _, kind := range s.kinds(f) {
		for _, source := range s.sources(f, kind) {
			parts = append(parts, s.part(f, source, limit))
		}
	}
	if f.Review && f.Overdue > 0 && !f.Held && (f.State == "" || f.State == row.Pending) {
		f.State, f.Review, f.unflagged, f.MinAge = row.Pending, false, true, max(f.MinAge, f.Overdue)
		f.unreviewed = f.Overdue
		parts = append(parts, s.parts(f, limit)...)
	}
	return parts
}

// kinds returns the kinds of the rows of f. Only payouts have a batch or can be held.
func (s *selection) kinds(f Filter) []row.Kind {
	switch {
	case f.State != "" && !slices.Contains(states, f.State), f.Held && f.State != "" && f.State != row.Created,
		f.Batch != "" && s.last == 0:
		return nil
	case f.Kind == "" && !f.Held && f.Batch == "":
		return allKinds
	case f.Kind == "", f.Kind == row.Payout:
		return []row.Kind{row.Payout}
	case f.Kind == row.Payment && !f.Held && f.Batch == "":
		return []row.Kind{row.Payment}
	default:
		return nil
	}
}

// sources returns FROM and WHERE clauses. Each clause selects one range of an index.
func (s *selection) sources(f Filter, kind row.Kind) []string {
	ofKind := ` WHERE s.kind = '` + string(kind) + `'`
	switch {
	case f.ErrorCode != "":
		return flagged(f, `durable_rows AS s`+ofKind+` AND s.error_code <> '' AND s.error_code = `+s.arg(f.ErrorCode))
	case f.Review:
		return flagged(f, `durable_rows AS s`+ofKind+` AND s.rare <> ''`)
	case f.Held, f.State == row.Created:
		return s.queued(f, `durable_queue AS s`+ofKind)
	case f.State == row.Starting:
		return []string{`durable_claims AS s` + ofKind}
	case f.State == row.Pending, f.State == row.Succeeded:
		// The index is partial, and SQLite uses it only if the statement repeats the condition of the index.
		sources := []string{`durable_orders AS s` + ofKind + ` AND s.state IN ('pending', 'succeeded')
			AND s.state = '` + string(f.State) + `'`}
		if f.State == row.Succeeded { // an operator's decision needs no order_id
			for _, source := range flagged(f, `durable_rows AS s`+ofKind+` AND s.rare <> ''`) {
				sources = append(sources, source+` AND s.order_id = ''`)
			}
		}
		return sources
	case f.State != "":
		return flagged(f, `durable_rows AS s`+ofKind+` AND s.rare <> ''`)
	case f.Batch != "":
		return []string{`durable_rows AS s WHERE s.batch <> '' AND s.batch = ` + s.arg(f.Batch)}
	default:
		return []string{`durable_rows AS s` + ofKind}
	}
}

// flagged returns the ranges of an index with the columns rare and review.
func flagged(f Filter, from string) (sources []string) {
	state := f.State
	if state == row.Starting || f.Held { // both are stored as created
		state = row.Created
	}
	for _, one := range rare {
		if state != "" && one != state {
			continue
		}
		for review := range 2 {
			if review == 0 && f.Review || review == 1 && f.unflagged {
				continue
			}
			sources = append(sources, from+` AND s.rare = '`+string(one)+`' AND s.review = `+strconv.Itoa(review))
		}
	}
	return sources
}

// queued returns a range of the queue for each generation.
func (s *selection) queued(f Filter, from string) (sources []string) {
	generations := slices.Clone(s.generations)
	if !f.Held {
		generations = append(generations, 0, s.generation) // 0 is the generation of payments
	}
	slices.Sort(generations)
	for _, generation := range slices.Compact(generations) {
		sources = append(sources, from+` AND s.generation = `+s.arg(generation))
	}
	return sources
}

// reviewedWithin is the condition of the decisions after which a row is pending for another period, without the
// parameter of the period.
const reviewedWithin = `d.decision IN ('seen', 'found') AND d.decided_at > {now} - `

// part returns the statement for the rows of f in a source.
func (s *selection) part(f Filter, source string, limit int) string {
	where := source + s.bounds(f)
	if f.unreviewed > 0 { // one row at a time, because a join may read and sort the whole range
		where += ` AND NOT EXISTS (SELECT 1 FROM durable_decisions AS d
			WHERE d.user_data = s.user_data AND ` + reviewedWithin + s.arg(f.unreviewed.Milliseconds()) + ` LIMIT 1 OFFSET 0)`
	}
	if rest := s.rest(f, source); len(rest) > 0 {
		// A subquery per row keeps the order of the index. For a join, PostgreSQL may read and sort the whole range.
		where += ` AND (SELECT ` + strings.Join(rest, ` AND `) + ` FROM durable_rows AS r WHERE r.user_data = s.user_data)`
	}
	return `SELECT s.created_at, s.user_data FROM ` + where +
		` ORDER BY ` + order(f, `s`) + ` LIMIT ` + strconv.Itoa(limit)
}

// bounds returns the conditions on creation times. For a batch they exclude most rows of other batches.
func (s *selection) bounds(f Filter) (where string) {
	first, last := s.first, s.last
	if f.After != (Place{}) {
		compare := ` < (`
		if f.OldestFirst {
			compare, first = ` > (`, 0
		} else {
			last = 0
		}
		where = ` AND (s.created_at, s.user_data)` + compare + s.arg(f.After.At) + `, ` + s.arg(f.After.Key) + `)`
	}
	if first > 0 {
		where += ` AND s.created_at >= ` + s.arg(first)
	}
	if last > 0 {
		where += ` AND s.created_at <= ` + s.arg(last)
	}
	if f.MinAge > 0 {
		where += ` AND s.created_at <= {now} - ` + s.arg(f.MinAge.Milliseconds())
	}
	return where
}

// rest returns the conditions of f that a source does not contain.
func (s *selection) rest(f Filter, source string) (rest []string) {
	const starting = `EXISTS (SELECT 1 FROM durable_claims AS c WHERE c.user_data = s.user_data)`
	wide := f.ErrorCode != "" || f.Review // the source has both created and starting rows
	if f.Batch != "" && !strings.Contains(source, `s.batch = `) {
		rest = append(rest, `r.batch = `+s.arg(f.Batch))
	}
	if f.unflagged && !wide {
		rest = append(rest, `r.review = 0`)
	}
	if wide && f.Held {
		rest = append(rest, `r.generation < `+s.arg(s.generation))
	}
	if wide && (f.Held || f.State == row.Created) {
		rest = append(rest, `NOT `+starting)
	}
	if wide && f.State == row.Starting {
		rest = append(rest, starting)
	}
	return rest
}

// order returns the ORDER BY clause of a table.
func order(f Filter, table string) string {
	direction := ` DESC`
	if f.OldestFirst {
		direction = ``
	}
	return table + `.created_at` + direction + `, ` + table + `.user_data` + direction
}
