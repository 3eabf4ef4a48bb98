package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Store keeps payments and payouts in a database and calls the service for them. Create it with [Open]; it is safe for
// concurrent use, also by several processes on one database.
type Store struct {
	engine

	db, read *sql.DB
	c        Config
	dialect  Dialect
	sql      *strings.Replacer
	now      func() time.Time
	watched  watch

	troubles atomic.Int64 // payouts in a row that were not answered
	warned   atomic.Int64 // when the last notification came that warnUnmatched has logged
	late     schedule     // of applyLate

	fingerprint, timeline string // SQL expressions, of PostgreSQL
	moved                 string // SQL condition: they are not those of the control row
	here                  string // SQL expression: what changes if moved may have changed, but cheap
	roundText             string // roundPostgres but for its limits
	file                  *os.File
}

// Open returns a Store on db, whose dialect it detects. Errors wrap [ErrInvalid], [ErrSchema] or [ErrUnsafeDatabase], or
// are the database's. For SQLite, db must have one connection (SetMaxOpenConns(1)), WAL and synchronous FULL, best set
// in its address. Open does not close db, and there is nothing to close in a Store.
//
// Open holds payouts, see [Store.HoldPayouts], if the database is another server, or an older copy, than the last time,
// and on SQLite if it was used before and the -durable file beside it is missing. It returns an error if it cannot.
func Open(ctx context.Context, db *sql.DB, c Config) (*Store, error) {
	return open(ctx, db, c, "", time.Now)
}

// open is Open with the database's clock as an SQL expression, "" for its own, and the process's.
func open(ctx context.Context, db *sql.DB, c Config, clock string, now func() time.Time) (_ *Store, err error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	dialect, err := dialectOf(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("durable: open: %w", err)
	}
	s := &Store{db: db, read: db, c: c, dialect: dialect, sql: replacer(dialect, clock), now: now}
	s.filled = now()
	if c.ReadDB != nil {
		s.read = c.ReadDB
	}
	if err := checkVersion(ctx, db); err != nil {
		return nil, err
	}
	if err := s.checkDatabase(ctx); err != nil && (!c.AllowUnsafeDatabase || !errors.Is(err, ErrUnsafeDatabase)) {
		return nil, err
	}
	defer func() {
		if err != nil && s.file != nil {
			_ = s.file.Close()
		}
	}()
	if err := s.openWitness(ctx); err != nil {
		return nil, fmt.Errorf("durable: open: %w", err)
	}
	if err := s.belong(ctx); err != nil {
		return nil, err
	}
	if dialect == PostgreSQL {
		if err := s.readable(ctx); err != nil {
			return nil, fmt.Errorf("durable: open: %w", err)
		}
		s.roundText = s.sql.Replace(strings.ReplaceAll(roundPostgres, "{here}", s.here))
	}
	if err := s.recognize(ctx); err != nil {
		return nil, fmt.Errorf("durable: open: %w", err)
	}
	return s, nil
}

// checkDatabase returns an error that wraps ErrUnsafeDatabase if a commit could be lost.
func (s *Store) checkDatabase(ctx context.Context) error {
	if s.dialect == SQLite {
		if n := s.db.Stats().MaxOpenConnections; n != 1 {
			return fmt.Errorf("%w: SQLite with %d connections (0: no limit), want SetMaxOpenConns(1)", ErrUnsafeDatabase, n)
		}
		return s.settings(ctx, []setting{
			{"PRAGMA journal_mode", "journal_mode", []string{"wal"}},
			{"PRAGMA synchronous", "synchronous", []string{"2", "3"}},
		})
	}
	commit := []string{"on", "remote_write", "remote_apply"}
	if !s.c.HoldOnlyOnRestore { // local does not wait for the standby
		commit = append(commit, "local")
	}
	return s.settings(ctx, []setting{
		{"SHOW synchronous_commit", "synchronous_commit", commit},
		{"SHOW fsync", "fsync", []string{"on"}},
		{"SHOW full_page_writes", "full_page_writes", []string{"on"}},
		{"SHOW default_transaction_isolation", "default_transaction_isolation", []string{"read committed"}},
		{"SHOW default_transaction_read_only", "default_transaction_read_only", []string{"off"}},
		{"SELECT pg_is_in_recovery()::TEXT", "pg_is_in_recovery", []string{"false"}},
	})
}

type setting struct {
	query, name string
	want        []string
}

func (s *Store) settings(ctx context.Context, list []setting) error {
	for _, one := range list {
		var value string
		if err := s.db.QueryRowContext(ctx, one.query).Scan(&value); err != nil {
			return fmt.Errorf("durable: open: %s: %w", one.name, err)
		}
		safe := false
		for _, want := range one.want {
			safe = safe || value == want
		}
		if !safe {
			return fmt.Errorf("%w: %s is %q, want %s", ErrUnsafeDatabase, one.name, value, strings.Join(one.want, " or "))
		}
	}
	return nil
}

// belong rejects a database whose rows another service or project knows: they would be polled here, not be found, and
// be started again.
func (s *Store) belong(ctx context.Context) error {
	if _, err := s.write(ctx, `UPDATE durable_control SET project = $1 WHERE project = ''`, s.c.Project); err != nil {
		return fmt.Errorf("durable: open: %w", err)
	}
	var project string
	if err := s.db.QueryRowContext(ctx, `SELECT project FROM durable_control`).Scan(&project); err != nil {
		return fmt.Errorf("durable: open: %w", err)
	}
	if project != s.c.Project {
		return fmt.Errorf("%w: it belongs to project %q, and Config.Project is %q", ErrUnsafeDatabase, project, s.c.Project)
	}
	return nil
}

// readable finds the parts of the server's fingerprint that this role may read. A part that it may not read is left out:
// processes with different rights compare those that both have.
func (s *Store) readable(ctx context.Context) error {
	var parts, unknown, differ []string
	for _, part := range []struct{ name, value string }{
		{`'/system='`, `(SELECT system_identifier::TEXT FROM pg_control_system())`},
		{`'/database='`, databaseOID + `::TEXT`},
		{`'/table='`, `'durable_rows'::REGCLASS::OID::TEXT`},
	} {
		may, err := s.mayRead(ctx, part.value)
		if err != nil {
			return err
		}
		if may {
			value := part.name + ` || ` + part.value
			parts = append(parts, value+` || `)
			missing := `strpos(fingerprint, ` + part.name + `) = 0`
			unknown = append(unknown, missing)
			differ = append(differ, `NOT `+missing+` AND strpos(fingerprint, `+value+` || '/') = 0`)
		}
	}
	s.fingerprint, s.timeline = strings.Join(parts, "")+`'/'`, `''`
	s.moved = `(` + strings.Join(append(differ, strings.Join(append(unknown, `TRUE`), ` AND `)), ` OR `)
	// The timeline that is being written: after a promotion the control file may still show the old one.
	timeline := `substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`
	may, err := s.mayRead(ctx, timeline)
	if may {
		s.timeline = timeline
		if !s.c.HoldOnlyOnRestore {
			s.moved += ` OR timeline <> '' AND timeline <> ` + timeline
		}
	}
	s.moved += `)`
	if err != nil {
		return err
	}
	// It is the same in each session, as long as the server is not restarted and the tables are not made anew.
	s.here = `(EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000)::BIGINT::TEXT`
	if may, err = s.mayRead(ctx, s.here); !may {
		s.here = s.moved + `::TEXT`
	}
	s.here += ` || ` + databaseOID + `::TEXT || '/'
		|| 'durable_rows'::REGCLASS::OID::TEXT || fingerprint || timeline`
	return err
}

const databaseOID = `(SELECT oid FROM pg_database WHERE datname = current_database())`

// mayRead reports whether the server answers an expression. An error of the connection is no answer.
func (s *Store) mayRead(ctx context.Context, expression string) (bool, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	var text string
	if err = conn.QueryRowContext(ctx, `SELECT `+expression).Scan(&text); err == nil {
		return text != "", nil
	}
	if _, away := conn.ExecContext(ctx, `SELECT 1`); away != nil {
		return false, err
	}
	s.c.Log.DebugContext(ctx, "durable: a part of the server's fingerprint cannot be read", slog.String("error", err.Error()))
	return false, nil
}

// keepFingerprint stores which server and copy this is.
func (s *Store) keepFingerprint(ctx context.Context, tx *sql.Tx) error {
	if s.dialect == SQLite {
		last, _ := s.witnessed()
		_, err := s.exec(ctx, tx, `UPDATE durable_control SET rounds = {greatest}(rounds, $1) + 1`, last)
		return err
	}
	_, err := s.exec(ctx, tx, `UPDATE durable_control SET fingerprint = `+s.fingerprint+`, timeline = `+s.timeline)
	return err
}

// recognize holds payouts if this is another server, or an older copy, than the last time.
func (s *Store) recognize(ctx context.Context) error {
	if s.dialect == SQLite {
		return s.recognizeFile(ctx)
	}
	// A new database has none yet, and a process with fewer rights has stored less.
	if _, err := s.write(ctx, `UPDATE durable_control SET fingerprint = `+s.fingerprint+`, timeline = `+s.timeline+`
		WHERE fingerprint = '' AND timeline = '' OR NOT `+s.moved+`
			AND length(fingerprint) + length(timeline) < length(`+s.fingerprint+`) + length(`+s.timeline+`)`); err != nil {
		return err
	}
	var moved bool
	var here string
	if err := s.db.QueryRowContext(ctx, `SELECT `+s.moved+`, `+s.here+` FROM durable_control`).Scan(&moved, &here); err != nil {
		return err
	}
	if moved {
		return s.holdItself(ctx, "this is another server or another copy of the tables than before")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server = here
	return nil
}

// openWitness opens the witness of a SQLite database, a small file beside it with the number of its last round. It is not
// synced: it is evidence, and no log. A new database gets its first before any process can see that it was used.
func (s *Store) openWitness(ctx context.Context) error {
	if s.dialect != SQLite {
		return nil
	}
	var path, project string
	if err := s.db.QueryRowContext(ctx, `SELECT file, project FROM pragma_database_list, durable_control
		WHERE name = 'main'`).Scan(&path, &project); err != nil || path == "" { // in memory
		return err
	}
	file, err := os.OpenFile(path+"-durable", os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // beside the database
	if err != nil {
		return err
	}
	s.file = file
	if _, there := s.witnessed(); project == "" && !there {
		return s.witness(0)
	}
	return nil
}

// recognizeFile compares the database with its witness. One that was used and has none was restored to another place.
func (s *Store) recognizeFile(ctx context.Context) error {
	if s.file == nil {
		return nil
	}
	var rounds int64
	if err := s.db.QueryRowContext(ctx, `SELECT rounds FROM durable_control`).Scan(&rounds); err != nil {
		return err
	}
	last, there := s.witnessed()
	if there && rounds >= last {
		return nil
	}
	reason := "this is an older copy of the database than before"
	if !there {
		reason = "the database was used before, and the -durable file beside it is missing"
	}
	if err := s.holdItself(ctx, reason); err != nil || there {
		return err
	}
	return s.witness(rounds)
}

// witness writes the number of a committed round.
func (s *Store) witness(rounds int64) error {
	if s.file == nil {
		return nil
	}
	_, err := s.file.WriteAt(fmt.Appendf(nil, "%020d\n", rounds), 0)
	return err
}

// witnessed returns the number that witness wrote last, and whether there is one.
func (s *Store) witnessed() (rounds int64, there bool) {
	if s.file == nil {
		return 0, false
	}
	text := make([]byte, 20)
	if _, err := s.file.ReadAt(text, 0); err != nil {
		return 0, false
	}
	rounds, err := strconv.ParseInt(string(text), 10, 64)
	return rounds, err == nil
}

// step tells a test that the process may be killed here.
func (s *Store) step(step Step) {
	if s.c.Hooks.Step != nil {
		s.c.Hooks.Step(step)
	}
}
