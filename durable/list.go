package durable

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// pageRows is how many rows one read returns.
const pageRows = 500

// Rows yields the rows that f selects, the newest first, read in pages of 500 by key: no read stays open.
func (s *Store) Rows(ctx context.Context, f Filter) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		left := f.Limit
		for {
			size := pageRows
			if f.Limit > 0 {
				size = min(size, left)
			}
			page, err := s.page(ctx, f, size)
			if err != nil {
				yield(Row{}, fmt.Errorf("durable: rows: %w", err))
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
			}
			left -= len(page)
			if len(page) < size || f.Limit > 0 && left == 0 {
				return
			}
			f.After = page[len(page)-1].Cursor()
		}
	}
}

// page reads one page. For what f leaves open, each kind and state is read by the index, and the newest are taken.
func (s *Store) page(ctx context.Context, f Filter, size int) ([]Row, error) {
	kinds, states := []Kind{KindPayment, KindPayout}, States()
	if f.Kind != "" {
		kinds = []Kind{f.Kind}
	}
	if f.Held {
		f.State = StateCreated
	}
	if f.Attention && f.Batch == "" {
		states = []State{""} // it has an index of its own
	}
	if f.State != "" {
		states = []State{f.State}
	}
	parts := make([]string, 0, len(kinds)*len(states))
	var args []any
	for _, k := range kinds {
		for _, state := range states {
			where, own := s.where(f, k, state)
			where = shift(where, len(args))
			parts = append(parts, `SELECT * FROM (SELECT `+columns+` FROM durable_rows WHERE `+where+
				` ORDER BY created_at DESC, user_data DESC LIMIT `+strconv.Itoa(size)+`) AS part`)
			args = append(args, own...)
		}
	}
	var page []Row
	err := s.query(ctx, s.read, func(rows *sql.Rows) error {
		r, err := scan(rows)
		page = append(page, r.Row)
		return err
	}, `SELECT * FROM (`+strings.Join(parts, ` UNION ALL `)+`) AS parts
		ORDER BY created_at DESC, user_data DESC LIMIT `+strconv.Itoa(size), args...)
	return page, err
}

// shift adds n to the numbers of the parameters of a condition.
func shift(where string, n int) string {
	for i := 9; i > 0 && n > 0; i-- { // from the last: $1 becomes one of those that were there
		where = strings.ReplaceAll(where, "$"+strconv.Itoa(i)+"#", "$"+strconv.Itoa(i+n)+"#")
	}
	return strings.ReplaceAll(where, "#", "")
}

// where returns the condition of a filter for one kind and state; its parameters end with #, see shift.
func (s *Store) where(f Filter, k Kind, state State) (string, []any) {
	var args []any
	p := func(value any) string {
		args = append(args, value)
		return "$" + strconv.Itoa(len(args)) + "#"
	}
	where := `kind = ` + p(string(k))
	if state != "" {
		where += ` AND state = ` + p(string(state))
	}
	if f.Batch != "" {
		where += ` AND batch <> '' AND batch = ` + p(f.Batch)
	}
	if f.Refusal != "" {
		where += ` AND refusal = ` + p(f.Refusal)
	}
	if f.Attention {
		where += ` AND attention <> ''`
	}
	if f.Held {
		where += ` AND generation < (SELECT generation FROM durable_control)`
	}
	if f.UserData != nil {
		where += ` AND user_data IN ` + s.each(p(list(f.UserData)))
	}
	if f.After != "" {
		created, userData, _ := strings.Cut(f.After, ".")
		at, err := strconv.ParseInt(created, 10, 64)
		if err != nil {
			return where + ` AND FALSE`, args
		}
		where += ` AND (created_at, user_data) < (` + p(at) + `, ` + p(userData) + `)`
	}
	return where, args
}

// Find yields the rows whose user_data, order_id or reference is text.
func (s *Store) Find(ctx context.Context, text string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		var found []Row
		err := s.query(ctx, s.read, func(rows *sql.Rows) error {
			r, err := scan(rows)
			found = append(found, r.Row)
			return err
		}, `SELECT `+columns+` FROM durable_rows WHERE user_data = $1
			UNION SELECT `+columns+` FROM durable_rows WHERE kind IN ('payment', 'payout') AND order_id = $1
			UNION SELECT `+columns+` FROM durable_rows WHERE kind IN ('payment', 'payout') AND reference = $1`, identifier(text))
		if err != nil {
			yield(Row{}, fmt.Errorf("durable: find: %w", err))
			return
		}
		for _, r := range found {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Counts counts the rows of f.Kind and f.Batch; the other fields are ignored.
func (s *Store) Counts(ctx context.Context, f Filter) (Counts, error) {
	c := Counts{States: map[State]int64{}}
	kinds := []Kind{KindPayment, KindPayout}
	if f.Kind != "" {
		kinds = []Kind{f.Kind}
	}
	limit := CountLimit
	if f.Batch != "" {
		limit = 1 << 60
	}
	var parts []string
	var args []any
	count := func(name string, f Filter, k Kind, state State) {
		where, own := s.where(f, k, state)
		parts = append(parts, fmt.Sprintf(`SELECT '%s', COUNT(*) FROM (SELECT 1 FROM durable_rows WHERE %s LIMIT %d) AS part`,
			name, shift(where, len(args)), limit))
		args = append(args, own...)
	}
	for _, k := range kinds {
		for _, state := range States() {
			count(string(state), Filter{Batch: f.Batch}, k, state)
		}
		count("attention", Filter{Batch: f.Batch, Attention: true}, k, "")
	}
	if f.Kind != KindPayment {
		count("held", Filter{Batch: f.Batch, Held: true}, KindPayout, StateCreated)
	}
	if f.Batch == "" {
		parts = append(parts, fmt.Sprintf(`SELECT 'unmatched', COUNT(*) FROM (SELECT 1 FROM durable_notifications
			WHERE %s AND %s LIMIT %d) AS part`, unmatched, eventsOf(f.Kind), limit))
	}
	err := s.query(ctx, s.read, func(rows *sql.Rows) error {
		var name string
		var n int64
		if err := rows.Scan(&name, &n); err != nil {
			return err
		}
		switch {
		case name == "attention":
			c.Attention += n
		case name == "held":
			c.Held += n
		case name == "unmatched":
			c.Unmatched += n
		case n > 0:
			c.States[State(name)] += n
		}
		return nil
	}, strings.Join(parts, ` UNION ALL `), args...)
	return c, err
}
