// Package recognize decides whether a database is still the database that this process has used, or a copy of an
// earlier moment. A copy may lack the claims of sent payouts, so the package then holds all payouts.
//
// A [Guard] compares three kinds of evidence:
//
//   - The identity of a PostgreSQL server consists of its system identifier, database, table and timeline. A round
//     compares [Guard.Here] with [Guard.Server]. If they differ, the round claims no rows, and the caller calls
//     [Guard.Recognize].
//   - The last claim of this process is [Guard.Last]. A round searches the database for this claim before it claims
//     more rows. If the claim is missing, the caller calls [Guard.Lost].
//   - The mark is a number in the table durable_mark. A [Witness] outside the database stores it too. The caller calls
//     [Guard.BeforeCalls] between the commit of claims and the calls. On SQLite, the transaction of the claims also
//     compares the mark with [Guard.Mark].
//
// # Why a restore is noticed
//
// Let C be the commit of a claim. On PostgreSQL, BeforeCalls raises the mark to m in a later commit. On SQLite, C
// itself raises the mark. BeforeCalls then saves m in the witness, and only then do the calls begin. m is not
// committed before C, so a restored database without C has a mark below m, and the witness has at least m. A database
// with C has the claim, and the claim prevents a second call, even after the death of the process.
//
// A hold raises the mark above the witness, so the mark does not stop claims made in the restored database just before
// the hold. On PostgreSQL, BeforeCalls therefore also requires that the server and the generation have not changed
// since the claim. Each hold changes the generation.
//
// Except for the first mark, the witness is never ahead of a complete database, because m is committed before it is
// saved. After a crash between the two steps, the witness is behind, and the calls have not begun.
package recognize

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Options configure a [Guard].
type Options struct {
	DB     *sql.DB
	SQLite bool // DB is SQLite, otherwise PostgreSQL

	// Witness stores the mark. nil means a file next to a SQLite database on disk, and otherwise no witness.
	Witness Witness

	// AllowFailover accepts another timeline of the same PostgreSQL cluster.
	AllowFailover bool

	// Hold holds all payouts in one transaction, and calls keep in that transaction.
	Hold func(ctx context.Context, reason string, keep func(context.Context, *sql.Tx) error) error

	Log *slog.Logger
}

// Guard recognizes one database. It is safe for concurrent use.
type Guard struct {
	Options
	identity, timeline, here string // SQL expressions
	next                     string // SQL expression of a number above mark and $1

	recognizing sync.Mutex // held by Recognize and Lost
	mu          sync.Mutex
	server      string // value of the expression here on the recognized server
	saved       int64  // the highest mark that this process has saved
	last        row.Claim
}

// Open returns a Guard after it has recognized the database or held its payouts. The tables must exist.
func Open(ctx context.Context, o Options) (*Guard, error) {
	g := &Guard{Options: o, identity: `''`, timeline: `''`, here: `''`, next: nextPostgres}
	find := g.findServer
	if o.SQLite {
		g.next, find = nextSQLite, g.findFile
	}
	if err := find(ctx); err != nil {
		return nil, err
	}
	return g, g.Recognize(ctx)
}

// The next mark is the time in microseconds, or higher. A counter could give the same mark to a commit before a
// restore and to a commit after the restore. A second restore, to a copy with only the first of these commits, would
// then look current.
const (
	nextPostgres = `GREATEST(mark + 1, CAST($1 AS BIGINT) + 1,
		(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT)`
	nextSQLite = `MAX(mark + 1, $1 + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER))`
)

// Here returns an SQL expression over durable_control. Its value changes with each hold, and if the server, the tables
// or the stored identity may have changed. It is cheap enough for each round. On SQLite it is constant.
func (g *Guard) Here() string { return g.here }

// Server returns the value of [Guard.Here] on the recognized server.
func (g *Guard) Server() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.server
}

// Mark returns the mark of the witness on SQLite. It returns 0 without a witness, and on PostgreSQL, where
// [Guard.BeforeCalls] compares the marks. Call it before a claim. A database with a lower mark is an older copy.
func (g *Guard) Mark(ctx context.Context) (int64, error) {
	if !g.SQLite {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	return g.load(ctx)
}

// Remember stores the last committed claim of this process. Call it before the calls begin.
func (g *Guard) Remember(c row.Claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = c
}

// Last returns the claim of the last Remember, or the zero value before the first claim and after a hold by g.
func (g *Guard) Last() row.Claim {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// Lost holds payouts because the last claim is missing from the database. It then does the same as [Guard.Recognize].
func (g *Guard) Lost(ctx context.Context) error {
	g.recognizing.Lock()
	defer g.recognizing.Unlock()
	err := g.hold(ctx, "a commit of this process is gone: the database was restored or failed over", g.highest())
	if err != nil {
		return err
	}
	return g.recognizeNow(ctx)
}

// Recognize compares the server and the mark with the stored server and the mark of the witness. It holds payouts if
// the server has changed, or if the database or the witness has lost a mark. After success, with or without a hold,
// [Guard.Server] returns the current server.
func (g *Guard) Recognize(ctx context.Context) error {
	g.recognizing.Lock()
	defer g.recognizing.Unlock()
	return g.recognizeNow(ctx)
}

func (g *Guard) recognizeNow(ctx context.Context) error {
	const attempts = 10 // other processes may store their identity at the same time
	for range attempts {
		if done, err := g.recognize(ctx); done || err != nil {
			return err
		}
	}
	return errors.New("the server changes too often to be recognized")
}

// recognize makes one attempt, and reports whether it was the last. It loads the witness between two snapshots of the
// same server, so the mark of the second snapshot is below the mark of the witness only if commits were lost.
func (g *Guard) recognize(ctx context.Context) (done bool, err error) {
	before, err := g.snapshot(ctx)
	if err != nil {
		return false, err
	}
	saved := g.highest()
	witnessed, err := g.load(ctx)
	if err != nil {
		return false, err
	}
	now, err := g.snapshot(ctx)
	if err != nil || now.here != before.here {
		return false, err
	}
	if reason := g.reason(before, now, saved, witnessed); reason != "" {
		return false, g.hold(ctx, reason, witnessed)
	}
	identity, timeline := now.learned()
	if identity != now.storedIdentity || timeline != now.storedTimeline {
		_, err := g.DB.ExecContext(ctx, `UPDATE durable_control SET fingerprint = $1, timeline = $2
			WHERE fingerprint = $3 AND timeline = $4`, identity, timeline, now.storedIdentity, now.storedTimeline)
		return false, err
	}
	if g.Witness != nil && (witnessed == 0 || now.mark == 0) {
		return false, g.first(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.server = now.here
	return true, nil
}

// reason returns the reason to hold payouts, or "". saved is this process's highest mark before witnessed was loaded.
func (g *Guard) reason(before, now snapshot, saved, witnessed int64) string {
	switch {
	case now.moved(g.AllowFailover):
		return "this is another server, or another copy of the tables"
	case witnessed > max(now.mark, firstMark):
		return "this is an older copy of the database than before: its mark is behind the witness"
	case g.Witness != nil && (witnessed == 0 && before.mark > 0 || witnessed < saved):
		return "the database was used before, and the witness has lost its mark"
	}
	return ""
}

// firstMark is the mark before any claim.
const firstMark = 1

// first stores the first mark, in the witness and then in the database. So a mark in the database proves that the
// witness had a mark too. A repetition after a crash is harmless.
func (g *Guard) first(ctx context.Context) error {
	if err := g.save(ctx, firstMark); err != nil {
		return err
	}
	_, err := g.DB.ExecContext(ctx, `UPDATE durable_mark SET mark = $1 WHERE mark = 0`, firstMark)
	return err
}

// snapshot contains the values that one statement has read.
type snapshot struct {
	identity, timeline, storedIdentity, storedTimeline, here string
	mark                                                     int64
}

func (g *Guard) snapshot(ctx context.Context) (now snapshot, err error) {
	err = g.DB.QueryRowContext(ctx, `SELECT `+g.identity+`, `+g.timeline+`, fingerprint, timeline, `+g.here+`,
		(SELECT mark FROM durable_mark) FROM durable_control`).
		Scan(&now.identity, &now.timeline, &now.storedIdentity, &now.storedTimeline, &now.here, &now.mark)
	return now, err
}

// hold holds payouts and stores the identity of this server. With a witness, it raises both marks above witnessed.
func (g *Guard) hold(ctx context.Context, reason string, witnessed int64) error {
	var mark int64
	err := g.Hold(ctx, reason, func(ctx context.Context, tx *sql.Tx) error {
		//nolint:gosec // the expressions are constants of this package
		_, err := tx.ExecContext(ctx, `UPDATE durable_control SET fingerprint = `+g.identity+`, timeline = `+g.timeline)
		if err != nil || g.Witness == nil {
			return err
		}
		return tx.QueryRowContext(ctx, `UPDATE durable_mark SET mark = `+g.next+` RETURNING mark`, witnessed).Scan(&mark)
	})
	if err != nil {
		return fmt.Errorf("cannot hold payouts: %s: %w", reason, err)
	}
	g.Remember(row.Claim{})
	if g.Witness == nil {
		return nil
	}
	return g.save(ctx, mark)
}

// timeLimit limits each call of Mark, BeforeCalls and Pooler.
const timeLimit = 10 * time.Second

// BeforeCalls saves a mark in the witness, if set. Call it after the commit of claims and before their calls. After an
// error the calls must not begin, and the caller releases the claims. server is the result of [Guard.Server] before the
// claim. On SQLite, the transaction of the claims raises the mark, and the caller passes its value. On PostgreSQL, the
// caller passes 0, and BeforeCalls raises the mark in a separate commit.
func (g *Guard) BeforeCalls(ctx context.Context, server string, mark int64) (err error) {
	if g.Witness == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeLimit)
	defer cancel()
	if mark == 0 {
		mark, err = g.raise(ctx, server)
		if err != nil {
			return err
		}
	}
	return g.save(ctx, mark)
}

var errChanged = errors.New("the database or its witness has changed since the claim")

// raise raises the mark if Here still has the value server and no mark is lost. Otherwise it calls Recognize and
// returns an error. It loads the witness first, so a mark below the witness is evidence of lost commits.
func (g *Guard) raise(ctx context.Context, server string) (mark int64, err error) {
	saved := g.highest()
	witnessed, err := g.load(ctx)
	if err != nil {
		return 0, err
	}
	err = sql.ErrNoRows
	if witnessed > 0 && witnessed >= saved {
		err = g.DB.QueryRowContext(ctx, `UPDATE durable_mark SET mark = `+g.next+` WHERE mark >= $1
			AND (SELECT `+g.here+` FROM durable_control) = $2 RETURNING mark`, witnessed, server).Scan(&mark)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return 0, errors.Join(errChanged, g.Recognize(ctx))
	}
	return mark, err
}

func (g *Guard) load(ctx context.Context) (int64, error) {
	if g.Witness == nil {
		return 0, nil
	}
	mark, err := g.Witness.Load(ctx)
	if err != nil {
		return 0, fmt.Errorf("witness: %w", err)
	}
	return mark, nil
}

func (g *Guard) save(ctx context.Context, mark int64) error {
	if err := g.Witness.Save(ctx, mark); err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.saved = max(g.saved, mark)
	return nil
}

// highest returns the highest mark that this process has saved.
func (g *Guard) highest() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.saved
}

// findFile sets the default of Witness for a SQLite database on disk, and warns if other users can read the file.
func (g *Guard) findFile(ctx context.Context) error {
	var path string
	err := g.DB.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&path)
	if err != nil || path == "" || strings.HasPrefix(path, ":") {
		return err
	}
	if g.Witness == nil {
		g.Witness = beside(path)
	}
	info, err := os.Stat(path)
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		g.Log.WarnContext(ctx, "durable: other users can read the database, which contains full destinations; run chmod 600",
			"file", filepath.Base(path), "mode", info.Mode().Perm().String())
	}
	return nil // the database is open, so an error of Stat does not matter
}
