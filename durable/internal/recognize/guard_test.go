package recognize

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
)

// memory is a witness in memory. The functions before and after run around each method, which returns their errors.
type memory struct {
	mu            sync.Mutex
	mark          int64
	saves         int
	before, after func(method string) error
}

func (m *memory) around(method string, f func()) error {
	if m.before != nil {
		if err := m.before(method); err != nil {
			return err
		}
	}
	m.mu.Lock()
	f()
	m.mu.Unlock()
	if m.after != nil {
		return m.after(method)
	}
	return nil
}

func (m *memory) Load(context.Context) (mark int64, err error) {
	err = m.around("Load", func() { mark = m.mark })
	return mark, err
}

func (m *memory) Save(_ context.Context, mark int64) error {
	return m.around("Save", func() { m.mark, m.saves = max(m.mark, mark), m.saves+1 })
}

// beforeCalls commits a claim and saves the mark, as the ledger does.
func beforeCalls(t *testing.T, g *Guard, db database) error {
	t.Helper()
	if !db.SQLite {
		return g.BeforeCalls(t.Context(), g.Server(), 0)
	}
	db.Exec(t, `UPDATE durable_mark SET mark = mark + 1`)
	return g.BeforeCalls(t.Context(), g.Server(), mark(t, db))
}

func mustOpen(t *testing.T, db database, w Witness, set ...func(*Options)) *Guard {
	t.Helper()
	g, err := guard(t, db, w, set...)
	require.NoError(t, err)
	return g
}

func TestMarksOfDatabaseAndWitnessAreCompared(t *testing.T) {
	for _, c := range []struct {
		name              string
		database, witness int64
		held              bool
	}{
		{"new", 0, 0, false},
		{"the first Open was interrupted after Save", 0, 1, false},
		{"equal", 5, 5, false},
		{"an increment was interrupted before Save", 6, 5, false},
		{"the database is older", 4, 9, true},
		{"the database is older by one", 4, 5, true},
		{"the database is new", 0, 5, true},
		{"the witness is lost", 5, 0, true},
		{"the witness is lost, and the copy is from before the first claim", 1, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, db database) {
				w := &memory{mark: c.witness}
				_, err := db.ExecContext(t.Context(), `UPDATE durable_mark SET mark = $1`, c.database)
				require.NoError(t, err)
				g := mustOpen(t, db, w)
				assert.Equal(t, c.held, held(t, db))
				require.NoError(t, beforeCalls(t, g, db))
				assert.Equal(t, mark(t, db), w.mark)
				assert.Greater(t, w.mark, max(c.database, c.witness))
				db.Exec(t, `UPDATE durable_control SET hold = 0`)
				mustOpen(t, db, w)
				assert.False(t, held(t, db), "held once")
			})
		})
	}
}

func TestProcessesThatOpenANewDatabaseAtTheSameTimeHoldNothing(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		other := &memory{}
		w := &memory{}
		w.after = func(method string) error { // the other process does all this after this one has read the witness
			w.after = nil
			g := mustOpen(t, db, other)
			require.NoError(t, beforeCalls(t, g, db))
			require.NoError(t, beforeCalls(t, g, db))
			w.mark = other.mark
			return nil
		}
		mustOpen(t, db, w)
		assert.False(t, held(t, db))
	})
}

// A restore between the reads of the witness and of the database starts another server.
func TestRestoreWhileADatabaseIsRecognizedIsHeld(t *testing.T) {
	db, w := postgres(t), &memory{mark: 5}
	db.Exec(t, `UPDATE durable_mark SET mark = 5`)
	mustOpen(t, db, w) // because the first identity takes a second attempt
	w.after = func(string) error {
		w.after = nil
		w.mark = 9 // another process had saved it before the restore
		db.Exec(t, `UPDATE durable_control SET generation = generation + 1`)
		return nil
	}
	mustOpen(t, db, w)
	assert.True(t, held(t, db))
}

// Processes that were open during the restore notice it before a call. On SQLite, their claims compare the marks.
func TestRestoreBelowAnOpenProcessIsHeldBeforeItsCalls(t *testing.T) {
	db, w := postgres(t), &memory{}
	first, second := mustOpen(t, db, w), mustOpen(t, db, w)
	require.NoError(t, beforeCalls(t, first, db))
	older := mark(t, db)
	require.NoError(t, beforeCalls(t, second, db))
	_, err := db.ExecContext(t.Context(), `UPDATE durable_mark SET mark = $1`, older)
	require.NoError(t, err)
	claimed := second.Server() // of a claim by the second process before the hold
	require.ErrorContains(t, beforeCalls(t, first, db), "has changed since the claim")
	assert.True(t, held(t, db))
	require.NoError(t, beforeCalls(t, first, db))
	for range 2 { // also when the second process has recognized the database
		require.ErrorContains(t, second.BeforeCalls(t.Context(), claimed, 0), "has changed since the claim")
	}
	require.NoError(t, beforeCalls(t, second, db))
	assert.Equal(t, 1, db.Number(t, `SELECT hold FROM durable_control`), "held once")

	w.mark = 2
	require.ErrorContains(t, beforeCalls(t, second, db), "has changed since the claim", "the witness itself is older")
	assert.Equal(t, 2, db.Number(t, `SELECT hold FROM durable_control`))
}

func TestServerThatWasRestartedIsRecognizedBeforeCalls(t *testing.T) {
	db, w := postgres(t), &memory{}
	g := mustOpen(t, db, w)
	recognized := g.Server()
	g.server = "another start"
	require.Error(t, beforeCalls(t, g, db))
	assert.Equal(t, recognized, g.Server())
	assert.False(t, held(t, db))
	require.NoError(t, beforeCalls(t, g, db))
}

func TestCallsWaitForTheWitness(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		w := &memory{}
		g := mustOpen(t, db, w)
		failed := errors.New("unavailable")
		for _, method := range []string{"Load", "Save"} {
			w.before = func(m string) error {
				if m == method {
					return failed
				}
				return nil
			}
			if method == "Save" || !db.SQLite { // SQLite does not read the witness here
				require.ErrorIs(t, beforeCalls(t, g, db), failed)
			}
			if method == "Load" {
				_, err := guard(t, db, w)
				require.ErrorIs(t, err, failed)
			}
		}
		w.before = nil
		require.NoError(t, beforeCalls(t, g, db))
		mustOpen(t, db, w)
		assert.False(t, held(t, db), "a failure of the witness is no restore")
	})
}

// Two rounds of one process save their marks at the same time, also while the database is recognized.
func TestRoundsOfOneProcessDoNotDisturbEachOther(t *testing.T) {
	db, w := postgres(t), &memory{}
	g := mustOpen(t, db, w)
	for _, f := range []func() error{
		func() error { return beforeCalls(t, g, db) },
		func() error { return g.Recognize(t.Context()) },
	} {
		w.after = func(string) error {
			w.after = nil
			return beforeCalls(t, g, db)
		}
		require.NoError(t, f())
		assert.False(t, held(t, db))
	}
	assert.Equal(t, mark(t, db), w.mark)
}

func TestOpenFailsIfItCannotHold(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		_, err := guard(t, db, &memory{mark: 5}, func(o *Options) {
			o.Hold = func(context.Context, string, func(context.Context, *sql.Tx) error) error { return errors.New("full") }
		})
		require.EqualError(t, err,
			"cannot hold payouts: this is an older copy of the database than before: its mark is behind the witness: full")
	})
}

func TestWithoutAWitnessTheMarkStays(t *testing.T) {
	db := postgres(t)
	g := mustOpen(t, db, nil)
	require.NoError(t, beforeCalls(t, g, db))
	require.NoError(t, g.Lost(t.Context()))
	assert.Zero(t, mark(t, db))
	mustOpen(t, db, &memory{})
	assert.Equal(t, 1, db.Number(t, `SELECT hold FROM durable_control`), "a first witness is no lost witness")
}

func TestSQLiteHasAFileBesideIt(t *testing.T) {
	db := sqlite(t)
	g := mustOpen(t, db, nil)
	require.NoError(t, beforeCalls(t, g, db))
	assert.Equal(t, mark(t, db), load(t, File(db.Address+"-durable")))

	assert.Nil(t, mustOpen(t, prepared(t, dbtest.Open(t, ":memory:")), nil).Witness)
}

func TestReadableSQLiteFileIsLogged(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	db := sqlite(t)
	for mode, logged := range map[os.FileMode]bool{0o600: false, 0o640: true, 0o644: true} {
		require.NoError(t, os.Chmod(db.Address, mode))
		var log strings.Builder
		g := mustOpen(t, db, &memory{})
		g.Log = slog.New(slog.NewTextHandler(&log, nil))
		require.NoError(t, g.findFile(t.Context()))
		assert.Equal(t, logged, strings.Contains(log.String(), "other users can read the database"), "%v", mode)
		assert.NotContains(t, log.String(), filepath.Dir(db.Address))
	}
}

// Copy A has a mark that was not saved. An older copy is restored and claims more rows. Then A is restored, without
// these claims.
func TestSecondRestoreToANewerCopyIsHeld(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		w := &memory{mark: 5}
		db.Exec(t, `UPDATE durable_mark SET mark = 4`) // copy A has 9
		g := mustOpen(t, db, w)
		require.True(t, held(t, db))
		require.NoError(t, beforeCalls(t, g, db))
		db.Exec(t, `UPDATE durable_control SET hold = 0`, `UPDATE durable_mark SET mark = 9`)
		mustOpen(t, db, w)
		assert.True(t, held(t, db))
	})
}

// The witness loses its mark while a process without a saved mark is open.
func TestWitnessThatIsLostAfterOpenIsHeldBeforeCalls(t *testing.T) {
	db, w := postgres(t), &memory{}
	require.NoError(t, beforeCalls(t, mustOpen(t, db, w), db))
	other := mustOpen(t, db, w)
	w.mark = 0
	require.ErrorIs(t, beforeCalls(t, other, db), errChanged)
	assert.True(t, held(t, db))
}

// Two rounds of one process save their marks in reverse order. Then the witness loses the higher mark.
func TestLowerMarkThatIsSavedLateHidesNoLostMark(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		w := &memory{}
		g := mustOpen(t, db, w)
		require.NoError(t, beforeCalls(t, g, db))
		higher := w.mark
		require.NoError(t, g.save(t.Context(), higher-1))
		w.mark = higher - 1
		require.NoError(t, g.Recognize(t.Context()))
		assert.True(t, held(t, db))
	})
}

func TestIdentitiesAreCompared(t *testing.T) {
	const all, other = "/system=1/database=2/table=3/", "/system=9/database=2/table=3/"
	for _, c := range []struct {
		name     string
		l        snapshot
		failover bool
		moved    bool
		identity string // to be stored
		timeline string
	}{
		{"new", snapshot{all, "01", "", "", "", 0}, false, false, all, "01"},
		{"equal", snapshot{all, "01", all, "01", "", 0}, false, false, all, "01"},
		{"another system", snapshot{other, "01", all, "01", "", 0}, false, true, "", ""},
		{"another table", snapshot{"/table=4/", "", all, "01", "", 0}, false, true, "", ""},
		{"a prefix", snapshot{"/table=33/", "", all, "", "", 0}, false, true, "", ""},
		{"fewer rights", snapshot{"/table=3/", "", all, "01", "", 0}, false, false, all, "01"},
		{"more rights", snapshot{all, "01", "/table=3/", "", "", 0}, false, false, all, "01"},
		{"other rights", snapshot{"/system=1/table=3/", "01", "/database=2/table=3/", "", "", 0}, false, false,
			"/database=2/table=3/", "01"},
		{"no right in common", snapshot{"/system=1/", "01", "/table=3/", "01", "", 0}, false, true, "", ""},
		{"failover", snapshot{all, "02", all, "01", "", 0}, false, true, "", ""},
		{"accepted failover", snapshot{all, "02", all, "01", "", 0}, true, false, all, "01"},
		{"accepted failover to another system", snapshot{other, "02", all, "01", "", 0}, true, true, "", ""},
	} {
		assert.Equal(t, c.moved, c.l.moved(c.failover), c.name)
		if !c.moved {
			identity, timeline := c.l.learned()
			assert.Equal(t, []string{c.identity, c.timeline}, []string{identity, timeline}, c.name)
		}
	}
}

// Processes that may read different parts of the server's identity do not hold the payouts alternately.
func TestIdentityHasWhatTheRoleMayRead(t *testing.T) {
	db := postgres(t)
	db.Exec(t, `CREATE SCHEMA fewer`,
		`CREATE FUNCTION fewer.pg_control_system() RETURNS TABLE (system_identifier BIGINT) LANGUAGE sql
			AS 'SELECT (1 / 0)::BIGINT'`,
		`CREATE FUNCTION fewer.pg_current_wal_lsn() RETURNS pg_lsn LANGUAGE sql AS $$ SELECT (1 / 0)::TEXT::pg_lsn $$`,
		`CREATE FUNCTION fewer.pg_postmaster_start_time() RETURNS TEXT LANGUAGE sql AS $$ SELECT (1 / 0)::TEXT $$`)
	fewer := dbtest.Open(t, db.Address+"&search_path=fewer,pg_catalog,public")
	var guards []*Guard
	for _, with := range []database{fewer, db, fewer} {
		guards = append(guards, mustOpen(t, with, nil))
	}
	assert.False(t, held(t, db))
	assert.NotContains(t, guards[0].identity, "system")
	assert.NotContains(t, guards[0].here, "postmaster")
	for _, zone := range []string{"UTC", "Asia/Tokyo"} {
		other := mustOpen(t, dbtest.Open(t, db.Address+"&TimeZone="+zone), nil)
		assert.Equal(t, mustOpen(t, db, nil).Server(), other.Server())
	}
	for _, change := range []string{
		`fingerprint = replace(fingerprint, '/system=', '/system=9')`,
		`fingerprint = replace(fingerprint, '/table=', '/table=9')`,
		`timeline = '000000AA'`,
	} {
		db.Exec(t, `UPDATE durable_control SET hold = 0, `+change)
		for _, g := range guards[:2] {
			now, err := g.snapshot(t.Context())
			require.NoError(t, err)
			assert.NotEqual(t, g.Server(), now.here, "a round compares them: "+change)
		}
		require.NoError(t, guards[1].Recognize(t.Context()))
		require.NoError(t, guards[0].Recognize(t.Context()))
		assert.Equal(t, 1, db.Number(t, `SELECT hold FROM durable_control`), "held once: "+change)
	}
	db.Exec(t, `UPDATE durable_control SET hold = 0, timeline = '000000AA'`)
	mustOpen(t, db, nil, func(o *Options) { o.AllowFailover = true })
	assert.False(t, held(t, db))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, guards[1].findServer(ended), "no response is not a lack of rights")
}
