package durable

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/paymentsvc/paymentsvc"
)

// Dialect is a kind of database.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "PostgreSQL"
	SQLite     Dialect = "SQLite"
)

// dialectOf detects the dialect.
func dialectOf(ctx context.Context, db *sql.DB) (Dialect, error) {
	var version string
	if err := db.QueryRowContext(ctx, `SELECT version()`).Scan(&version); err == nil {
		if strings.HasPrefix(version, "PostgreSQL") {
			return PostgreSQL, nil
		}
		return "", fmt.Errorf("%w: neither PostgreSQL nor SQLite", ErrUnsafeDatabase)
	}
	if err := db.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version); err != nil {
		return "", err
	}
	return SQLite, nil
}

// replacer rewrites the statements of this package for a dialect. The time is in a subquery, so that PostgreSQL
// evaluates it once and can use an index on due_at; it is the clock's and not the start of the transaction.
func replacer(d Dialect, now string) *strings.Replacer {
	// An unmatched notification shows that the service has the row: it was paid before a backup was restored.
	// PostgreSQL would join a NOT EXISTS with all unmatched ones in each round, and read matched = 0 by an index of them.
	unheard := `(SELECT 1 FROM durable_notifications AS n WHERE n.user_data = durable_rows.user_data AND n.matched + 0 = 0
		AND (n.event = 'payout.status_changed') = (durable_rows.kind = 'payout') LIMIT 1) IS NULL`
	if d == SQLite {
		if now == "" {
			now = `CAST(unixepoch('subsec') * 1000 AS INTEGER)`
		}
		return strings.NewReplacer("$", "?", "{now}", now, "{unheard}", unheard, "{lock}", "", "{skip}", "",
			"{least}", "MIN", "{greatest}", "MAX")
	}
	if now == "" {
		now = `(SELECT (date_part('epoch', clock_timestamp()) * 1000)::BIGINT)`
	}
	return strings.NewReplacer("{now}", now, "{unheard}", unheard, "{lock}", " FOR UPDATE", "{skip}", " FOR UPDATE SKIP LOCKED",
		"{least}", "LEAST", "{greatest}", "GREATEST")
}

// patience is how long one statement or transaction on PostgreSQL may take, and the wait for SQLite's connection.
const patience = 10 * time.Second

// writing returns the context of a write, which the caller's context does not end: SQLite rolls back a transaction that
// is interrupted, and what follows would run outside of it.
func (s *Store) writing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if s.dialect == SQLite {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, patience)
}

// pool is a database or one connection of it.
//
//nolint:interfacebloat // these are what both have and a Store uses
type pool interface {
	execer
	rowser
	querier
	BeginTx(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error)
}

// connection waits for SQLite's one connection for patience, or until ctx ends: nothing that runs on it may be
// interrupted. PostgreSQL's statements wait for one by themselves.
func (s *Store) connection(ctx context.Context, db *sql.DB) (on pool, release func(), err error) {
	if err := ctx.Err(); err != nil || s.dialect != SQLite {
		return db, func() {}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("the connection is in use: %w", err)
	}
	return conn, func() { _ = conn.Close() }, nil
}

// inTx runs f in a transaction, which f's error rolls back.
func (s *Store) inTx(ctx context.Context, f func(ctx context.Context, tx *sql.Tx) error) error {
	on, release, err := s.connection(ctx, s.db)
	if err != nil {
		return err
	}
	defer release()
	waiting := ctx
	ctx, cancel := s.writing(ctx)
	defer cancel()
	stop := context.AfterFunc(waiting, cancel) // nothing was written yet, so the wait for PostgreSQL may end
	tx, err := on.BeginTx(ctx, nil)
	stop()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if err := s.begun(ctx, tx); err != nil {
		return err
	}
	if err := f(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// begun writes first on SQLite, so that the transaction has the one lock from its start and reads nothing old.
func (s *Store) begun(ctx context.Context, tx *sql.Tx) error {
	if s.dialect != SQLite {
		return nil
	}
	_, err := tx.ExecContext(ctx, `UPDATE durable_control SET rounds = rounds + 1`)
	return err
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// exec runs a statement of this package and returns the number of rows that it changed.
func (s *Store) exec(ctx context.Context, on execer, query string, args ...any) (int64, error) {
	result, err := on.ExecContext(ctx, s.sql.Replace(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// write is exec outside of a transaction.
func (s *Store) write(ctx context.Context, query string, args ...any) (int64, error) {
	on, release, err := s.connection(ctx, s.db)
	if err != nil {
		return 0, err
	}
	defer release()
	ctx, cancel := s.writing(ctx)
	defer cancel()
	return s.exec(ctx, on, query, args...)
}

type rowser interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// query calls scan for each row, and returns only after all of them were read: SQLite has one connection here.
func (s *Store) query(ctx context.Context, on rowser, scan func(*sql.Rows) error, query string, args ...any) error {
	if strings.Contains(query, "{") { // a round's text has been filled in, and is long
		query = s.sql.Replace(query)
	}
	if db, ok := on.(*sql.DB); ok {
		one, release, err := s.connection(ctx, db)
		if err != nil {
			return err
		}
		defer release()
		on = one
	}
	rows, err := on.QueryContext(s.unbroken(ctx), query, args...)
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

// scanner is the Scan of one row.
type scanner func(into ...any) error

// Scan calls f.
func (f scanner) Scan(into ...any) error { return f(into...) }

// one queries one row outside of a transaction, when it is scanned.
func (s *Store) one(ctx context.Context, query string, args ...any) scanner {
	return func(into ...any) error {
		on, release, err := s.connection(ctx, s.db)
		if err != nil {
			return err
		}
		defer release()
		return on.QueryRowContext(s.unbroken(ctx), s.sql.Replace(query), args...).Scan(into...)
	}
}

// unbroken returns ctx, but on SQLite without its end: it would interrupt the connection that writes.
func (s *Store) unbroken(ctx context.Context) context.Context {
	if s.dialect == SQLite {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// newToken names a claim. It is random and not a counter, which a restored backup would repeat.
func newToken() string { return rand.Text() }

// derived returns the user_data of a row with a reference: the same after a restored backup has forgotten the row.
func derived(project string, k Kind, reference string) string {
	sum := sha256.Sum256([]byte("paymentsvc/durable\x00" + project + "\x00" + string(k) + "\x00" + reference))
	id := sum[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // UUID version 8, RFC 9562
	text := hex.EncodeToString(id)
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// list encodes a list for the JSON functions of the databases.
func list[T any](all []T) string {
	encoded, _ := json.Marshal(append([]T{}, all...)) // texts and numbers always encode; nil would be null
	return string(encoded)
}

// each is a subquery of the texts in the parameter p.
func (s *Store) each(p string) string {
	if s.dialect == SQLite {
		return `(SELECT value FROM json_each(` + p + `))`
	}
	return `(SELECT json_array_elements_text(CAST(` + p + ` AS TEXT)::JSON))`
}

// storable returns a text that others wrote as both databases store it: PostgreSQL accepts neither NUL nor invalid UTF-8.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", `\u0000`)
}

// identifier returns an order_id or user_data that others wrote as it is stored and looked up. The document shows no
// limit of its length (section 8), and PostgreSQL indexes some 2,700 bytes: the end of a long one becomes a hash.
func identifier(text string) string {
	const most = 1000
	if text = storable(text); len(text) <= most {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	end := hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(text[:most-len(end)], "") + end
}

// shorten bounds a text of the service's, quoted if it holds anything but printable ASCII.
func shorten(text string) string {
	const most = 64
	if quoted := strconv.QuoteToASCII(text); quoted != `"`+text+`"` {
		text = quoted
	}
	return text[:min(len(text), most)]
}

// code is what an error code may look like to be stored and shown: the text of an answer may repeat anything.
const code = `^[A-Za-z0-9_.:-]{1,64}$`

// refusal returns what to store of an error: the service's code if it looks like one and does not repeat the
// destination, otherwise the HTTP status, or "invalid request".
func refusal(err error, destination string) string {
	text := "invalid request"
	if failure, ok := errors.AsType[*paymentsvc.Error](err); ok && failure.HTTPStatus != 0 {
		text = "HTTP " + strconv.Itoa(failure.HTTPStatus)
	}
	reported, ok := errors.AsType[*paymentsvc.ServiceError](err)
	if !ok || !regexp.MustCompile(code).MatchString(reported.Code) {
		return text
	}
	if d := bare(destination); d != "" && strings.Contains(bare(reported.Code), d) {
		return text
	}
	return reported.Code
}

// bare returns the letters and digits of a text in one case: a code may repeat a destination in another spelling.
func bare(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, text)
}

func flag(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func at(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}
