package recognize

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
)

// mixed is the problem of a pooler with a driver that keeps prepared statements.
const mixed = "a prepared statement disappears between two transactions, because a pooler changes the server's " +
	"session; with pgx, set default_query_exec_mode=exec or cache_describe"

// Pooler returns a problem if a pooler gives the parts of a statement to different sessions, or "".
//
// A first connection uses a statement. A second connection then keeps the session of the first in an open transaction,
// if a pooler lends it, so the pooler must give another session to the next statement of the first connection. Some
// drivers prepare a statement, then evaluate its argument, then execute it, so the second connection does the same
// during an evaluation.
func Pooler(ctx context.Context, db *sql.DB) (problem string, err error) {
	if db.Stats().MaxOpenConnections == 1 {
		return "", nil // a second connection would wait forever
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	first, err := connect(ctx, db)
	if err != nil {
		return "", err
	}
	defer func() { _ = first.Close() }()
	second, err := connect(ctx, db)
	if err != nil {
		return "", err
	}
	defer func() { _ = second.Close() }()
	o := &occupant{ctx: ctx, conn: second}
	defer o.leave()
	name := rand.Text() // no session has the statement of an earlier probe
	err = errors.Join(runProbe(ctx, first, name, nil), o.occupy(), runProbe(ctx, first, name, nil))
	o.leave()
	if err == nil {
		err = runProbe(ctx, first, rand.Text(), o.occupy)
	}
	// The SQLSTATEs are of a prepared statement that is missing, a duplicate, or has other parameters.
	var state interface{ SQLState() string }
	if errors.Is(err, errMixed) ||
		errors.As(err, &state) && slices.Contains([]string{"26000", "42P05", "08P01"}, state.SQLState()) {
		return mixed, nil
	}
	return "", err
}

// connect returns a connection that works. The pool may have connections from before a restart of the server.
func connect(ctx context.Context, db *sql.DB) (conn *sql.Conn, err error) {
	for range 1 + db.Stats().OpenConnections { // each bad connection leaves the pool
		if conn, err = db.Conn(ctx); err != nil {
			return nil, err
		}
		if err = conn.PingContext(ctx); err == nil {
			return conn, nil
		}
		_ = conn.Close()
	}
	return nil, err
}

var errMixed = errors.New("another statement's result")

// runProbe runs a statement with one argument. Each name makes another statement.
func runProbe(ctx context.Context, conn *sql.Conn, name string, during func() error) error {
	var got string
	query := `SELECT CAST($1 AS TEXT) || ' to probe ` + name + `'`
	err := conn.QueryRowContext(ctx, query, argument{"answer", during}).Scan(&got)
	if err != nil {
		return fmt.Errorf("two connections at once: %w", err)
	}
	if got != "answer to probe "+name {
		return errMixed
	}
	return nil
}

// argument calls during when the driver evaluates it.
type argument struct {
	text   string
	during func() error
}

// Value implements driver.Valuer.
func (a argument) Value() (driver.Value, error) {
	if a.during == nil {
		return a.text, nil
	}
	return a.text, a.during()
}

// occupant keeps a session in an open transaction.
type occupant struct {
	ctx  context.Context
	conn *sql.Conn
	tx   *sql.Tx
}

func (o *occupant) occupy() error {
	if o.tx != nil { // the driver evaluates the argument again
		return nil
	}
	tx, err := o.conn.BeginTx(o.ctx, nil)
	if err != nil {
		return err
	}
	o.tx = tx
	_, err = tx.ExecContext(o.ctx, `SELECT 1`)
	return err
}

func (o *occupant) leave() {
	if o.tx != nil {
		_ = o.tx.Rollback()
		o.tx = nil
	}
}
