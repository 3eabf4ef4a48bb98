package store

import "context"

// States gives all states, in the order in which a row goes through them.
func States() []State {
	return []State{StateCreated, StateStarting, StateUnknown, StatePending, StateSucceeded, StateFailed, StateRejected}
}

// Counts says how many rows are in which state.
type Counts struct {
	States map[State]int64
	// Attention counts those that a person has to look at.
	Attention int64
	// Stuck counts those of them that are created or starting: they are tried, but rarely.
	Stuck int64
	// Parked counts those of them that are unknown.
	Parked int64
}

// Total is the number of rows.
func (c Counts) Total() (n int64) {
	for _, of := range c.States {
		n += of
	}
	return n
}

// Open is the number of rows of which the program will find out by itself what becomes of the start.
func (c Counts) Open() int64 {
	return c.States[StateCreated] + c.States[StateStarting] - c.Stuck + c.States[StateUnknown] - c.Parked
}

func (c *Counts) add(state State, attend bool, n int64) {
	c.States[state] += n
	if attend {
		c.attend(state, n)
	}
}

// attend says of rows that are counted already that a person has to look at them.
func (c *Counts) attend(state State, n int64) {
	c.Attention += n
	switch state {
	case StateCreated, StateStarting:
		c.Stuck += n
	case StateUnknown:
		c.Parked += n
	default:
	}
}

// Counts counts a table. It goes through an index of all rows: keep the answer for some seconds.
func (s *Store) Counts(ctx context.Context, t Table) (Counts, error) {
	c := Counts{States: map[State]int64{}}
	err := s.count(ctx, func(state State, attend bool, n int64) {
		if attend {
			c.attend(state, n)
		} else {
			c.add(state, false, n)
		}
	}, countsOf(t))
	return c, err
}

// count gives each row of a query of states, whether they need a person, and their number to take.
func (s *Store) count(ctx context.Context, take func(state State, attend bool, n int64), query string, args ...any) error {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var state State
		var attend bool
		var n int64
		if err := rows.Scan(&state, &attend, &n); err != nil {
			return err
		}
		take(state, attend, n)
	}
	return rows.Err()
}

// countsOf counts all rows by state, and those that need a person once more: an index answers each, where one count for
// both would read the rows themselves. The second groups by an expression, or SQLite would take the index of the first.
func countsOf(t Table) string {
	return `SELECT state, FALSE, COUNT(*) FROM ` + string(t) + ` GROUP BY state
		UNION ALL SELECT state || '', TRUE, COUNT(*) FROM ` + string(t) + ` WHERE attention <> '' GROUP BY state || ''`
}
