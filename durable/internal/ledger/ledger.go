// Package ledger contains the schema and the SQL of durable, except the SQL of Migrate and of package recognize. It
// starts no goroutine.
package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// ErrNotFound reports a row, batch or notification that does not exist.
var ErrNotFound = errors.New("durable: not found")

// ErrUnsupported reports a database with another dialect.
var ErrUnsupported = errors.New("neither PostgreSQL nor SQLite")

// Dialect is a kind of database.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "PostgreSQL"
	SQLite     Dialect = "SQLite"
)

// Detect returns the dialect of db.
func Detect(ctx context.Context, db *sql.DB) (Dialect, error) {
	var version string
	if err := db.QueryRowContext(ctx, `SELECT version()`).Scan(&version); err == nil {
		if strings.HasPrefix(version, "PostgreSQL") {
			return PostgreSQL, nil
		}
		return "", ErrUnsupported
	}
	if err := db.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version); err != nil {
		return "", err
	}
	return SQLite, nil
}

// Ledger runs the statements of this package. It is safe for concurrent use.
type Ledger struct {
	DB      *sql.DB // for writes, and for reads of current rows
	Read    *sql.DB // for lists and counts; may lag
	Dialect Dialect
	Slots   int // maximum number of claims in a round

	// OnChange, if set, is called in the transaction of a change to one of ChangeStates, and for refunds.
	OnChange     func(ctx context.Context, tx *sql.Tx, e Event) error
	ChangeStates []row.State
	// Moved, if set, is called after the commit of a change of state in Transact or Change.
	Moved func(ctx context.Context, k row.Kind, from, to row.State)
	Log   *slog.Logger

	text      *strings.Replacer
	identity  string                    // SQL expression, see Identify
	statement string                    // of a round on PostgreSQL, without the sizes
	sizes     atomic.Pointer[string]    // SQL comment with the sizes of the tables, see measure
	round     atomic.Pointer[string]    // statement of a round with the sizes
	measured  atomic.Pointer[time.Time] // time of the last measure by sized

	prepared map[string]*sql.Stmt // see Prepare
}

// New returns a Ledger. clock is the SQL expression of the time in Unix milliseconds, or "" for the database's clock.
func New(db, read *sql.DB, d Dialect, clock string) *Ledger {
	l := &Ledger{DB: db, Read: read, Dialect: d, text: replacer(d, clock)}
	l.sizes.Store(new(string))
	l.Identify(`''`)
	return l
}

// replacer returns a Replacer for the parts of statements that differ between the dialects, or that several statements
// share. A condition on the texts of a list parameter ends with {in $1} or {in $2}.
func replacer(d Dialect, now string) *strings.Replacer {
	pairs := []string{
		"{unnotified}", unnotified, "{impossible}", strconv.Itoa(impossible), "{columns}", columns, "{claimed}", claimed,
	}
	in, end := ` = ANY (ARRAY(SELECT json_array_elements_text(CAST($`, ` AS TEXT)::JSON)))` // parses the list once
	if d == SQLite {
		in, end = ` IN (SELECT value FROM json_each(?`, `))`
		now = cmp.Or(now, `CAST(unixepoch('subsec') * 1000 AS INTEGER)`)
		pairs = append(pairs, "$", "?", "{lock}", "", "{lock r}", "", "{skip}", "", "{least}", "MIN", "{greatest}", "MAX")
	} else {
		// clock_timestamp is the present time, not the time of the transaction's start. A subquery evaluates it once.
		now = cmp.Or(now, `(SELECT (date_part('epoch', clock_timestamp()) * 1000)::BIGINT)`)
		pairs = append(pairs, "{lock}", " FOR UPDATE", "{lock r}", " FOR UPDATE OF r", "{skip}", " FOR UPDATE SKIP LOCKED",
			"{least}", "LEAST", "{greatest}", "GREATEST")
	}
	return strings.NewReplacer(append(pairs, "{now}", now, "{in $1}", in+"1"+end, "{in $2}", in+"2"+end)...)
}

// unnotified is the condition that no unmatched notification about q's kind has q's user_data. q is a queue entry or a
// row. A restored backup may have lost the order_id of q, and the notification is evidence that the service has q.
// OFFSET 0 makes PostgreSQL look up one user_data at a time instead of joining with all unmatched notifications.
const unnotified = `NOT EXISTS (SELECT 1 FROM durable_notifications AS n
	WHERE n.user_data = q.user_data AND n.matched = 0 AND (n.event = 'payout.status_changed') = (q.kind = 'payout')
	LIMIT 1 OFFSET 0)`

// impossible is 20 minutes in milliseconds, longer than any wait of a created or unknown row. A due time further ahead
// was set while the clock was wrong, so it counts as due. For pending rows see maxPendingWait.
const impossible = 1_200_000

// Patience limits a writing statement or a transaction on PostgreSQL, and the wait for SQLite's connection.
const Patience = 10 * time.Second

// writing returns the context of a write. The end of ctx does not cancel it, because SQLite rolls back an interrupted
// transaction, and the next statements would run outside of the transaction.
func (l *Ledger) writing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if l.Dialect == SQLite {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, Patience)
}

// pool is a *sql.DB or a *sql.Conn.
type pool interface {
	execer
	rowser
	BeginTx(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error)
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

type rowser interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// connection waits up to Patience for SQLite's only connection. The end of ctx ends only this wait, because it must not
// interrupt a statement on SQLite. On PostgreSQL, connection returns db.
func (l *Ledger) connection(ctx context.Context, db *sql.DB) (on pool, release func(), err error) {
	if err := ctx.Err(); err != nil || l.Dialect != SQLite {
		return db, func() {}, err
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("the connection is in use: %w", err)
	}
	return conn, func() { _ = conn.Close() }, nil
}

// Tx runs f in a transaction, and rolls back after an error of f.
func (l *Ledger) Tx(ctx context.Context, f func(ctx context.Context, tx *sql.Tx) error) error {
	on, release, err := l.connection(ctx, l.DB)
	if err != nil {
		return err
	}
	defer release()
	waiting := ctx
	ctx, cancel := l.writing(ctx)
	defer cancel()
	stop := context.AfterFunc(waiting, cancel) // the end of ctx ends only the wait for a connection
	tx, err := on.BeginTx(ctx, nil)
	stop()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after Commit
	if l.Dialect == SQLite {
		// The first statement writes, so the transaction holds SQLite's only lock for writing from its start.
		if _, err := tx.ExecContext(ctx, `UPDATE durable_mark SET mark = mark + 1`); err != nil {
			return err
		}
	}
	if err := f(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// ErrOlder reports a database with a lower mark than its witness.
var ErrOlder = errors.New("durable: the database is an older copy than before")

// raiseMark raises the mark of SQLite to at least the time in microseconds, and returns it. The error is ErrOlder if
// the mark was below witnessed, the mark of the witness. Tx raises the mark only by one, so after a restore the mark
// stays below the witness. On PostgreSQL the result is 0, because a claim does not raise the mark in its transaction.
func (l *Ledger) raiseMark(ctx context.Context, tx rowser, witnessed int64) (mark int64, err error) {
	if l.Dialect != SQLite {
		return 0, nil
	}
	err = l.one(ctx, tx, []any{&mark}, markSQLite, witnessed)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrOlder
	}
	return mark, err
}

// markSQLite compares with >, because Tx has already incremented the mark.
const markSQLite = `UPDATE durable_mark SET mark = MAX(mark, CAST(unixepoch('subsec') * 1000000 AS INTEGER))
	WHERE mark > $1 RETURNING mark`

// exec runs a statement and returns the number of changed rows.
func (l *Ledger) exec(ctx context.Context, on execer, query string, args ...any) (int64, error) {
	result, err := on.ExecContext(ctx, l.text.Replace(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// write runs a statement outside of a transaction and returns the number of changed rows.
func (l *Ledger) write(ctx context.Context, query string, args ...any) (int64, error) {
	on, release, err := l.connection(ctx, l.DB)
	if err != nil {
		return 0, err
	}
	defer release()
	ctx, cancel := l.writing(ctx)
	defer cancel()
	return l.exec(ctx, on, query, args...)
}

// query calls scan for each row, and returns after it has read all rows, because SQLite has one connection.
func (l *Ledger) query(ctx context.Context, on rowser, scan func(*sql.Rows) error, query string, args ...any) error {
	if db, ok := on.(*sql.DB); ok {
		one, release, err := l.connection(ctx, db)
		if err != nil {
			return err
		}
		defer release()
		on = one
	}
	if l.Dialect == SQLite { // a cancellation would interrupt the connection
		ctx = context.WithoutCancel(ctx)
	}
	return each(ctx, on, scan, l.text.Replace(query), args...)
}

// each calls scan for each row of a query that needs no replacer.
func each(ctx context.Context, on rowser, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rows.Close()
}

// collect returns the rows of a query. into returns the fields for the columns of a row.
func collect[T any](
	ctx context.Context, l *Ledger, on rowser, into func(*T) []any, query string, args ...any,
) (all []T, err error) {
	err = l.query(ctx, on, func(rows *sql.Rows) error {
		var one T
		err := rows.Scan(into(&one)...)
		all = append(all, one)
		return err
	}, query, args...)
	return all, err
}

// texts returns the first column of a query's rows.
func (l *Ledger) texts(ctx context.Context, on rowser, query string, args ...any) ([]string, error) {
	return collect(ctx, l, on, func(text *string) []any { return []any{text} }, query, args...)
}

// one scans the only row of a query, or returns sql.ErrNoRows.
func (l *Ledger) one(ctx context.Context, on rowser, into []any, query string, args ...any) error {
	found := false
	err := l.query(ctx, on, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(into...)
	}, query, args...)
	if err == nil && !found {
		err = sql.ErrNoRows
	}
	return err
}

// list encodes a list as JSON, for the JSON functions of the databases.
func list[T any](all []T) string {
	encoded, _ := json.Marshal(append([]T{}, all...)) // cannot fail; a nil slice would become null
	return string(encoded)
}

// millis scans Unix milliseconds, see Time.
type millis struct{ *time.Time }

// Scan implements [sql.Scanner].
func (m millis) Scan(value any) error {
	n, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a time of type %T", value)
	}
	*m.Time = Time(n)
	return nil
}

// Time converts Unix milliseconds, and 0 to the zero time.
func Time(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}

func flag(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
