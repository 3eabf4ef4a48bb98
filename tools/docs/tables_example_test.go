package docs_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

// tables are the tables of the pages in memory: a database/sql driver that knows the pages' statements and no other.
// Each method below carries out the statement in its comment. A test of theirs holds one connection at a time.
type tables struct {
	starts        map[string]startRow    // by user_data
	notifications map[string]bool        // by key
	states        map[[2]string]stateRow // by event and order_id
	shipments     []string               // order_ids

	dies bool // the process dies before it records an outcome
}

type startRow struct{ state, orderID string } // every amount is 10.50

type stateRow struct {
	status, amount string
	final          bool
}

var errDied = errors.New("the process died")

// database returns empty tables, which starts and orders use until the test ends.
func database(t *testing.T) (*tables, *sql.DB) {
	fake := &tables{
		starts: map[string]startRow{}, notifications: map[string]bool{}, states: map[[2]string]stateRow{},
	}
	db := sql.OpenDB(connector{fake})
	db.SetMaxOpenConns(1)
	starts, orders = startsTable{db}, ordersTable{db}
	t.Cleanup(func() {
		starts, orders = startsTable{}, ordersTable{}
		_ = db.Close()
	})
	return fake, db
}

func (f *tables) exec(query string, args []driver.Value) (rows int64, err error) {
	text := func(i int) string { return args[i-1].(string) }
	switch strings.Join(strings.Fields(query), " ") {
	case "UPDATE starts SET state = 'open', opened = CURRENT_TIMESTAMP WHERE user_data = $1 AND state = 'retry'":
		row := f.starts[text(1)]
		if row.state != "retry" {
			return 0, nil
		}
		row.state = "open"
		f.starts[text(1)] = row
		return 1, nil
	case "UPDATE starts SET state = $2, order_id = COALESCE(NULLIF($3, ''), order_id) " +
		"WHERE user_data = $1 AND state = 'open'":
		if f.dies {
			return 0, errDied
		}
		row := f.starts[text(1)]
		if row.state != "open" {
			return 0, nil
		}
		row.state = text(2)
		if text(3) != "" {
			row.orderID = text(3)
		}
		f.starts[text(1)] = row
		return 1, nil
	case "UPDATE starts SET order_id = $1, state = CASE state WHEN 'failed' THEN state ELSE $2 END " +
		"WHERE (order_id = $1 OR order_id IS NULL AND user_data = $3) AND state <> 'rejected'":
		for userData, row := range f.starts {
			if row.state == "rejected" || row.orderID != text(1) && (row.orderID != "" || userData != text(3)) {
				continue
			}
			row.orderID = text(1)
			if row.state != "failed" {
				row.state = text(2)
			}
			f.starts[userData] = row
			rows++
		}
		return rows, nil
	case "INSERT INTO notifications (key, event, order_id, body) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING":
		if f.notifications[text(1)] {
			return 0, nil
		}
		f.notifications[text(1)] = true
		return 1, nil
	case "INSERT INTO states (event, order_id, status, amount, final) VALUES ($1, $2, $3, $4, $5) " +
		"ON CONFLICT (event, order_id) DO UPDATE " +
		"SET status = excluded.status, amount = excluded.amount, final = excluded.final WHERE NOT states.final":
		key := [2]string{text(1), text(2)}
		if f.states[key].final {
			return 0, nil
		}
		f.states[key] = stateRow{text(3), text(4), args[4].(bool)}
		return 1, nil
	case "INSERT INTO shipments (order_id) VALUES ($1) ON CONFLICT DO NOTHING":
		if slices.Contains(f.shipments, text(1)) {
			return 0, nil
		}
		f.shipments = append(f.shipments, text(1))
		return 1, nil
	}
	return 0, fmt.Errorf("not a statement of the pages: %s", query)
}

func (f *tables) query(query string, args []driver.Value) (*result, error) {
	if strings.Join(strings.Fields(query), " ") != "SELECT states.event, states.amount, starts.amount "+
		"FROM states JOIN starts ON starts.order_id = states.order_id "+
		"WHERE states.order_id = $1 AND states.status = 'SUCCESS'" {
		return nil, fmt.Errorf("not a query of the pages: %s", query)
	}
	found := &result{}
	for key, row := range f.states {
		for _, start := range f.starts {
			if key[1] == args[0] && row.status == "SUCCESS" && start.orderID == key[1] {
				found.rows = append(found.rows, []driver.Value{key[0], row.amount, "10.50"})
			}
		}
	}
	return found, nil
}

// What database/sql needs of a driver.

type connector struct{ *tables }

func (c connector) Connect(context.Context) (driver.Conn, error) { return &conn{tables: c.tables}, nil }

func (c connector) Driver() driver.Driver { return nil }

type conn struct {
	*tables
	before tables // at the begin of the transaction
}

func (c *conn) Prepare(query string) (driver.Stmt, error) { return statement{c, query}, nil }

func (c *conn) Close() error { return nil }

func (c *conn) Begin() (driver.Tx, error) {
	c.before = tables{maps.Clone(c.starts), maps.Clone(c.notifications), maps.Clone(c.states), slices.Clone(c.shipments), c.dies}
	return c, nil
}

func (c *conn) Commit() error { return nil }

func (c *conn) Rollback() error {
	*c.tables = c.before
	return nil
}

type statement struct {
	conn  *conn
	query string
}

func (s statement) Close() error { return nil }

func (s statement) NumInput() int { return -1 }

func (s statement) Exec(args []driver.Value) (driver.Result, error) {
	rows, err := s.conn.exec(s.query, args)
	return driver.RowsAffected(rows), err
}

func (s statement) Query(args []driver.Value) (driver.Rows, error) {
	return s.conn.query(s.query, args)
}

type result struct{ rows [][]driver.Value }

func (r *result) Columns() []string { return []string{"event", "amount", "price"} }

func (r *result) Close() error { return nil }

func (r *result) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(dest, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}
