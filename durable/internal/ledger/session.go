package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"
)

// steering sets up a session for rounds, which look up few rows by their keys. PostgreSQL keeps the plan of a prepared
// statement while its costs do not change. But the tables of the queue and the claims grow and shrink all the time, so
// PostgreSQL would plan many rounds anew, or would keep a plan that reads a whole table, because the table was empty when
// the plan was made. For a long queue, the estimate would even make it compile each round.
const steering = `SELECT set_config(name, value, FALSE) FROM (VALUES ('plan_cache_mode', 'force_generic_plan'),
	('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'),
	('jit', 'off')) AS settings (name, value)`

// minSteered is the smallest limit of a pool in which rounds have connections of their own: two of them, and one more
// connection each for separate records and for reads.
const minSteered = 4

// sessions are the idle connections for rounds on PostgreSQL. The settings must not reach other users of the pool or of a
// pooler.
type sessions struct {
	once    sync.Once
	lasting bool // a connection keeps its session between two transactions
	mu      sync.Mutex
	idle    []*sql.Conn
}

// session returns a connection for a round, and the function that ends its use.
func (l *Ledger) session(ctx context.Context) (on rowser, release func(err error), err error) {
	limit := l.DB.Stats().MaxOpenConnections
	if limit > 0 && limit < minSteered {
		return l.DB, func(error) {}, nil
	}
	s := &l.sessions
	s.once.Do(func() { s.lasting = lasting(ctx, l.DB) })
	if !s.lasting {
		return l.DB, func(error) {}, nil
	}
	conn := s.take()
	if conn == nil {
		if conn, err = steered(ctx, l.DB); err != nil {
			return nil, nil, err
		}
	}
	return conn, func(err error) { s.release(conn, err) }, nil
}

func (s *sessions) take() *sql.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == 0 {
		return nil
	}
	conn := s.idle[len(s.idle)-1]
	s.idle = s.idle[:len(s.idle)-1]
	return conn
}

func (s *sessions) release(conn *sql.Conn, err error) {
	if err != nil {
		discard(conn)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, conn)
}

// EndSessions closes the idle connections of rounds. Later rounds open new ones.
func (l *Ledger) EndSessions() {
	for conn := l.take(); conn != nil; conn = l.take() {
		discard(conn)
	}
}

func steered(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, steering); err != nil {
		discard(conn)
		return nil, err
	}
	return conn, nil
}

// discard closes conn instead of returning it to its pool with changed settings.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// lasting reports whether a connection keeps its session while another connection is in a transaction. A pooler in
// transaction mode lends the session to the other one.
func lasting(ctx context.Context, db *sql.DB) bool {
	const backend = `SELECT pg_backend_pid()`
	first, err := db.Conn(ctx)
	if err != nil {
		return false
	}
	defer func() { _ = first.Close() }()
	var before, other, after int64
	if err := first.QueryRowContext(ctx, backend).Scan(&before); err != nil {
		return false
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false
	}
	defer func() { _ = tx.Rollback() }()
	if err := tx.QueryRowContext(ctx, backend).Scan(&other); err != nil {
		return false
	}
	err = first.QueryRowContext(ctx, backend).Scan(&after)
	return err == nil && before == after && before != other
}
