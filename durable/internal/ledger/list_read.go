package ledger

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// The statements of lists.
var (
	//go:embed list_page.sql
	listPage string
	//go:embed list_generations.sql
	listGenerations string
	//go:embed list_batch.sql
	listBatch string
	//go:embed list_batch_counts.sql
	listBatchCounts string
)

// Page returns the first rows of f, up to limit, and the database's time, or 0 without a row. The argument on is the
// database to read: l.DB or l.Read. The rows of l.Read may be old.
func (l *Ledger) Page(ctx context.Context, on *sql.DB, f Filter, limit int) (page []*row.Row, now int64, err error) {
	s, err := l.selection(ctx, on, f)
	if err != nil {
		return nil, 0, err
	}
	parts := s.parts(f, limit)
	if len(parts) == 0 {
		return nil, 0, nil
	}
	for i, part := range parts {
		parts[i] = `SELECT * FROM (` + part + `) AS part`
	}
	text := strings.NewReplacer(
		`{parts}`, strings.Join(parts, ` UNION ALL `), `{limit}`, strconv.Itoa(limit),
		`{order}`, order(f, `parts`), `{order of page}`, order(f, `page`)).Replace(listPage)
	err = l.query(ctx, on, func(rows *sql.Rows) error {
		r, err := scan(rows, &now)
		page = append(page, r)
		return err
	}, text, s.args...)
	if err != nil {
		return nil, 0, err
	}
	return page, now, l.markReviewed(ctx, on, page, now, f.Overdue)
}

// markReviewed sets Reviewed of the pending rows that an operator has reviewed within the time that overdue specifies.
func (l *Ledger) markReviewed(
	ctx context.Context, on rowser, rows []*row.Row, now int64, overdue time.Duration,
) error {
	var old []string
	for _, r := range rows {
		if overdue > 0 && r.State == row.Pending && now-r.CreatedAt >= overdue.Milliseconds() {
			old = append(old, r.UserData)
		}
	}
	if len(old) == 0 {
		return nil
	}
	reviewed, err := l.texts(ctx, on, `SELECT DISTINCT d.user_data FROM durable_decisions AS d
		WHERE d.user_data{in $1} AND `+reviewedWithin+`$2`, list(old), overdue.Milliseconds())
	for _, r := range rows {
		r.Reviewed = slices.Contains(reviewed, r.UserData)
	}
	return err
}

// selection reads the generations and the times of the batch, which the statements about f need.
func (l *Ledger) selection(ctx context.Context, on *sql.DB, f Filter) (*selection, error) {
	s := &selection{}
	err := l.query(ctx, on, func(rows *sql.Rows) error {
		var generation, current int64
		err := rows.Scan(&generation, &current)
		if current == 1 {
			s.generation = generation
		} else {
			s.generations = append(s.generations, generation)
		}
		return err
	}, listGenerations)
	if err != nil || f.Batch == "" {
		return s, err
	}
	return s, l.one(ctx, on, []any{&s.first, &s.last}, listBatch, f.Batch)
}

// Named returns the rows of f with one of the user_data, in the order of f, and the database's time. It reads from
// l.DB.
func (l *Ledger) Named(ctx context.Context, f Filter, userData []string) (named []*row.Row, now int64, err error) {
	found, now, err := l.rows(ctx, l.DB, `r.user_data{in $1}`, list(userData))
	if err == nil {
		err = l.markReviewed(ctx, l.DB, found, now, f.Overdue)
	}
	for _, r := range found {
		if f.selects(r, now) {
			named = append(named, r)
		}
	}
	slices.SortFunc(named, func(a, b *row.Row) int {
		return f.compare(Place{a.CreatedAt, a.UserData}, Place{b.CreatedAt, b.UserData})
	})
	return named, now, err
}

// compare compares two places in the order of f.
func (f Filter) compare(a, b Place) int {
	if f.OldestFirst {
		return a.compare(b)
	}
	return b.compare(a)
}

// selects reports whether f selects a row.
func (f Filter) selects(r *row.Row, now int64) bool {
	age := now - r.CreatedAt
	overdue := f.Overdue > 0 && r.State == row.Pending && age >= f.Overdue.Milliseconds() && !r.Reviewed
	switch {
	case f.Kind != "" && f.Kind != r.Kind, f.State != "" && f.State != r.State, f.Batch != "" && f.Batch != r.Batch,
		f.ErrorCode != "" && f.ErrorCode != r.ErrorCode, f.Held && !r.Held, f.Review && r.ReviewReason == "" && !overdue,
		f.MinAge > 0 && age < f.MinAge.Milliseconds(),
		f.After != (Place{}) && f.compare(Place{r.CreatedAt, r.UserData}, f.After) <= 0:
		return false
	default:
		return true
	}
}

// Find returns the rows with an order_id or one of the user_data, and the database's time. It reads from l.DB. overdue
// is [Filter].Overdue.
func (l *Ledger) Find(
	ctx context.Context, overdue time.Duration, orderID string, userData ...string,
) ([]*row.Row, int64, error) {
	users, err := l.texts(ctx, l.DB, `SELECT user_data FROM durable_orders
		WHERE kind IN ('payment', 'payout') AND order_id = $1`, orderID)
	if err != nil {
		return nil, 0, err
	}
	return l.Named(ctx, Filter{Overdue: overdue}, append(users, userData...))
}

// Count is a number of rows, or of notifications, with the creation or arrival time of the oldest.
type Count struct{ Rows, Oldest int64 }

// add adds a number of rows, up to a sum of limit. oldest is the creation time of the oldest of these rows.
func (c *Count) add(rows, oldest, limit int64) {
	if rows == 0 {
		return
	}
	if c.Rows == 0 || oldest < c.Oldest {
		c.Oldest = oldest
	}
	c.Rows = min(c.Rows+rows, limit)
}

// Counts are the numbers of rows and notifications.
type Counts struct {
	States                           map[row.State]*Count
	Review, Overdue, Held, Unmatched Count
	Unreadable                       Count
	Pruned                           int64
	Now                              int64 // the database's time, 0 for a batch without a row
}

// Counts returns the numbers of the rows of each kind, each up to limit. Kind "" is both kinds. All results have the
// same Unreadable, and the same Unmatched for notifications of all these kinds.
func (l *Ledger) Counts(ctx context.Context, overdue time.Duration, limit int, kinds ...row.Kind) ([]Counts, error) {
	s, err := l.selection(ctx, l.Read, Filter{})
	if err != nil {
		return nil, err
	}
	var into []*Count
	var parts []string
	count := func(count *Count, ranges ...string) {
		for _, part := range ranges {
			parts = append(parts, `SELECT `+strconv.Itoa(len(into))+` AS place, COUNT(*), COALESCE(MIN(created_at), 0), {now}
				FROM (`+part+`) AS part`)
		}
		into = append(into, count)
	}
	var notices, unreadable Count
	count(&unreadable, `SELECT received_at AS created_at FROM durable_unreadable WHERE reviewed_at = 0`)
	count(&notices, unmatchedParts(limit, kinds...)...)
	all, both := make([]Counts, len(kinds)), make([]Count, len(kinds)) // both[i] counts the rows with both reasons
	for i, kind := range kinds {
		c := &all[i]
		c.States = map[row.State]*Count{}
		for _, state := range states {
			c.States[state] = &Count{}
			count(c.States[state], s.parts(Filter{Kind: kind, State: state, OldestFirst: true}, limit)...)
		}
		count(&c.Review, s.parts(Filter{Kind: kind, Review: true, OldestFirst: true}, limit)...)
		count(&c.Held, s.parts(Filter{Kind: kind, Held: true, OldestFirst: true}, limit)...)
		if overdue > 0 {
			late := Filter{
				Kind: kind, State: row.Pending, MinAge: overdue, unreviewed: overdue, OldestFirst: true,
			}
			count(&c.Overdue, s.parts(late, limit)...)
			late.Review = true
			count(&both[i], s.parts(late, limit)...)
		}
	}
	var now int64
	err = l.query(ctx, l.Read, func(rows *sql.Rows) error {
		var place, n, oldest int64
		err := rows.Scan(&place, &n, &oldest, &now)
		into[place].add(n, oldest, int64(limit))
		return err
	}, strings.Join(parts, ` UNION ALL `), s.args...)
	for i := range all {
		c := &all[i]
		c.Unmatched, c.Unreadable, c.Now = notices, unreadable, now
		c.Review.add(c.Overdue.Rows-both[i].Rows, c.Overdue.Oldest, int64(limit))
	}
	return all, err
}

// BatchCounts returns the exact numbers of the newest rows of a batch, up to limit rows. With limit 0, it counts all
// rows.
func (l *Ledger) BatchCounts(ctx context.Context, batch string, overdue int64, limit int) (Counts, error) {
	const noLimit = 1 << 60
	c := Counts{States: map[row.State]*Count{}}
	for _, state := range states {
		c.States[state] = &Count{}
	}
	err := l.query(ctx, l.Read, func(rows *sql.Rows) error {
		var state row.State
		var review, held, late, n, oldest int64
		if err := rows.Scan(&state, &review, &held, &late, &n, &oldest, &c.Now); err != nil {
			return err
		}
		c.States[state].add(n, oldest, noLimit)
		c.Review.add(max(review, late)*n, oldest, noLimit)
		c.Overdue.add(late*n, oldest, noLimit)
		c.Held.add(held*n, oldest, noLimit)
		return nil
	}, strings.Replace(listBatchCounts, `{reviewed within}`, reviewedWithin, 1),
		batch, overdue, cmp.Or(int64(limit), noLimit))
	if err != nil {
		return c, err
	}
	return c, l.query(ctx, l.Read, func(rows *sql.Rows) error { return rows.Scan(&c.Pruned) },
		`SELECT pruned FROM durable_batches WHERE id = $1`, batch)
}
