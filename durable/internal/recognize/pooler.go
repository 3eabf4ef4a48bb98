package recognize

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// mixed is the problem of a pooler with a driver that keeps prepared statements.
const mixed = "a prepared statement disappears between two transactions, because a pooler changes the server's session; " +
	"with pgx, set default_query_exec_mode=exec or cache_describe"

// missing are the SQLSTATEs of a prepared statement in another session: missing, duplicate, with other parameters.
var missing = []string{"26000", "42P05", "08P01"}

// probe is a statement with one parameter.
const probe = `SELECT CAST($1 AS TEXT)`

// unsafePooler returns a problem if a pooler gives the parts of a statement to different sessions.
//
// A first connection uses a statement. A second connection then keeps the session of the first in an open transaction,
// if a pooler lends it, so the pooler must give another session to the next statement of the first connection.
func unsafePooler(ctx context.Context, db *sql.DB) (problem string, err error) {
	if db.Stats().MaxOpenConnections == 1 {
		return "", nil // a second connection would wait forever
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	first, err := db.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = first.Close() }()
	second, err := db.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = second.Close() }()
	o := &occupant{ctx: ctx, conn: second}
	defer o.leave()
	for n := range 3 {
		err = errors.Join(ask(ctx, first, strconv.Itoa(n), nil), o.occupy(), ask(ctx, first, strconv.Itoa(n), nil))
		o.leave()
		// Some drivers prepare the statement, then evaluate the argument, then execute it.
		err = errors.Join(err, ask(ctx, first, strconv.Itoa(n), o.occupy))
		o.leave()
		if err != nil {
			break
		}
	}
	var state interface{ SQLState() string }
	if errors.Is(err, errMixed) || errors.As(err, &state) && slices.Contains(missing, state.SQLState()) {
		return mixed, nil
	}
	return "", err
}

var errMixed = errors.New("another statement's result")

// ask runs the probe. during is called when the driver evaluates the argument.
func ask(ctx context.Context, conn *sql.Conn, value string, during func() error) error {
	var got string
	if err := conn.QueryRowContext(ctx, probe, argument{value, during}).Scan(&got); err != nil {
		return fmt.Errorf("two connections at once: %w", err)
	}
	if got != value {
		return errMixed
	}
	return nil
}

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
