//go:build unix

package kills

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// paid is the number of payouts that are paid after the backup, and so are lost with its restore.
const paid = 132

// payAfterBackup pays some payouts, makes a backup, and pays more payouts.
func payAfterBackup(t *testing.T, db database, service *paymentsvctest.Server, backup func()) {
	t.Helper()
	store := open(t, db, service.URL, time.Minute)
	addMany(t, db, store, "a", 60)
	done, err := store.RunBatch(t.Context(), durable.BatchLimit{Rows: 20})
	require.NoError(t, err)
	require.Equal(t, 20, done)
	backup()
	addMany(t, db, store, "a", 200) // 60 of them are known
	done, err = store.RunBatch(t.Context(), durable.BatchLimit{Rows: paid})
	require.NoError(t, err)
	require.Equal(t, paid, done)
	require.Len(t, service.Orders(), 20+paid)
}

// importAgain imports the same file into the restored database. Nothing is sent before Release.
func importAgain(t *testing.T, db database, service *paymentsvctest.Server, byPerson bool) {
	t.Helper()
	store := open(t, db, service.URL, time.Minute)
	if byPerson {
		status, err := store.Status(t.Context())
		require.NoError(t, err)
		require.False(t, status.Hold, "Open has noticed the restore")
		_, err = store.HoldPayouts(t.Context(), "person", "restored")
		require.NoError(t, err)
	}
	addMany(t, db, store, "a", 200)
	_, err := store.RunBatch(t.Context(), durable.BatchLimit{})
	require.ErrorIs(t, err, durable.ErrHeld)
	require.Len(t, service.Orders(), 20+paid)
	releaseWhatTheServiceDoesNotHave(t, db, store, service, 200)
}

// releaseWhatTheServiceDoesNotHave compares the rows with the service's list and releases the rest, as an operator
// does. The user_data are the same, so the list shows the paid payouts.
func releaseWhatTheServiceDoesNotHave(
	t *testing.T, db database, store *durable.Store, service *paymentsvctest.Server, want int,
) {
	t.Helper()
	has := map[string]string{}
	for _, o := range service.Orders() {
		has[o.UserData] = o.OrderID
	}
	rows := map[string]bool{}
	var absent []string
	for r, err := range store.Rows(t.Context(), durable.Filter{}) {
		require.NoError(t, err)
		rows[r.UserData] = true
		switch order := has[r.UserData]; {
		case order == "":
			absent = append(absent, r.UserData)
		case r.State == durable.StateCreated || r.State == durable.StateUnknown:
			require.NoError(t, store.Decide(t.Context(), durable.Decision{
				Kind: durable.DecideFound, UserData: r.UserData, By: "person", Version: r.Version, OrderID: order,
			}))
		}
	}
	for userData := range has {
		require.True(t, rows[userData], "paid under a user_data that the file does not contain")
	}
	held, err := store.Status(t.Context())
	require.NoError(t, err)
	db.Exec(t, `UPDATE durable_control SET held_at = 0`) // the end of Grace
	n, err := store.Release(t.Context(), "person", held.Generation, durable.Filter{UserData: absent})
	require.NoError(t, err)
	assert.Equal(t, want-len(has), n)
	require.NoError(t, store.EndHold(t.Context(), "person", held.Generation))
	finish(t, db, store, service)
	assert.Len(t, service.Orders(), want)
}

func TestRestoredFileIsHeld(t *testing.T) {
	files := func(t *testing.T, db database, parts ...string) (dir string) {
		dir = t.TempDir()
		for _, part := range parts {
			content, err := os.ReadFile(db.Address + part)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "test.db"+part), content, 0o600))
		}
		return dir
	}
	for name, backup := range map[string]func(t *testing.T, db database) (dir string){
		"VACUUM INTO": func(t *testing.T, db database) string {
			dir := t.TempDir()
			db.Exec(t, `VACUUM INTO '`+filepath.Join(dir, "test.db")+`'`)
			return dir
		},
		"with its -wal file":    func(t *testing.T, db database) string { return files(t, db, "", "-wal") },
		"without its -wal file": func(t *testing.T, db database) string { return files(t, db, "") }, // an older state
		"by a person":           func(t *testing.T, db database) string { return files(t, db, "", "-wal", "-durable") },
	} {
		t.Run(name, func(t *testing.T) {
			db, service := sqlite(t), newService(t)
			db.Exec(t, `PRAGMA wal_checkpoint(TRUNCATE)`) // the file has the tables, and the -wal file the rows
			dir := ""
			payAfterBackup(t, db, service, func() { dir = backup(t, db) })
			require.NoError(t, db.Close())
			require.NoFileExists(t, db.Address+"-wal", "SQLite removes the file when the database is closed")
			require.NoError(t, os.CopyFS(filepath.Dir(db.Address)+"/restored", os.DirFS(dir)))
			restored := filepath.Join(filepath.Dir(db.Address), "restored", "test.db")
			if name != "by a person" { // the restored directory has no other witness
				require.NoError(t, os.Rename(db.Address+"-durable", restored+"-durable"))
			}
			importAgain(t, opened(t, restored), service, name == "by a person")
		})
	}
}

// A dump is restored into the same server: as a new database, or over the tables of the old one.
func TestRestoredDumpIsHeld(t *testing.T) {
	dump, err := exec.LookPath("pg_dump")
	if err != nil {
		t.Skip("no pg_dump")
	}
	for name, flags := range map[string][]string{
		"new database": nil, "new tables": {"--clean"}, "rows alone": {"--data-only"},
	} {
		t.Run(name, func(t *testing.T) {
			db, service := postgres(t), newService(t)
			admin := opened(t, os.Getenv("TEST_DATABASE_URL"))
			file := filepath.Join(t.TempDir(), "dump.sql")
			shell := func(program string, args ...string) {
				output, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
				require.NoError(t, err, "%s", output)
			}
			payAfterBackup(t, db, service, func() { shell(dump, append(flags, "-d", db.Address, "-f", file)...) })
			base := db.Address[strings.LastIndex(db.Address, "/test_")+1 : strings.LastIndex(db.Address, "?")]
			byPerson := false
			switch name {
			case "new database":
				admin.Exec(t, "DROP DATABASE "+base+" WITH (FORCE)")
				admin.Exec(t, "CREATE DATABASE "+base)
			case "rows alone":
				db.Exec(t, `TRUNCATE durable_version, durable_control, durable_mark, durable_rows, durable_queue, durable_claims,
					durable_orders, durable_notifications, durable_decisions, durable_events_due, durable_batches,
					durable_unreadable, test_changes, test_files`)
				byPerson = true // the tables are the same, so only a running process would notice
			}
			db.Close()
			shell("psql", "-v", "ON_ERROR_STOP=1", "-q", "-d", db.Address, "-f", file)
			importAgain(t, opened(t, db.Address), service, byPerson)
		})
	}
}

// moment is a copy of all rows, at a step of a payout.
type moment struct {
	step durable.Step
	mark int
	rows dbtest.Copy
}

// A restore of the rows to any moment, while all processes are stopped, does not send a payout again. The rows alone
// are restored, so the mark is the only evidence.
func TestRestoreToAnyMomentSendsNothingAgain(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		service, moments := newService(t), []moment(nil)
		db.witness = filepath.Join(t.TempDir(), "witness")
		slow := func(c *durable.Config) { c.Slots = 1 }
		store := open(t, db, service.URL, time.Minute, slow, func(c *durable.Config) {
			c.Hooks.Step = func(step durable.Step) {
				rows, err := dbtest.CopyRows(t.Context(), db.DB)
				assert.NoError(t, err)
				moments = append(moments, moment{step, db.Number(t, `SELECT mark FROM durable_mark`), rows})
			}
		})
		const payouts = 5
		addMany(t, db, store, "a", payouts)
		n, err := store.RunBatch(t.Context(), durable.BatchLimit{})
		require.NoError(t, err)
		require.Equal(t, payouts, n)
		require.GreaterOrEqual(t, len(moments), 4*payouts)
		holds := map[bool]int{}
		for _, m := range slices.Backward(moments) {
			before, err := durable.FileWitness(db.witness).Load(t.Context())
			require.NoError(t, err)
			require.NoError(t, m.rows.Restore(t.Context(), db.DB))
			store = open(t, db, service.URL, time.Minute, slow)
			held := db.Number(t, `SELECT hold FROM durable_control`) == 1
			assert.Equal(t, int64(m.mark) < before, held, m.step)
			holds[held]++
			waiting := db.Number(t, `SELECT COUNT(*) FROM durable_queue`)
			_, err = store.RunBatch(t.Context(), durable.BatchLimit{})
			if waiting > 0 {
				require.ErrorIs(t, err, durable.ErrHeld, m.step)
			}
			require.Len(t, service.Orders(), payouts, m.step)
		}
		assert.Positive(t, holds[false], "the newest moments have lost nothing")
		assert.GreaterOrEqual(t, holds[true], 3*payouts)
	})
}

// Sessions of the server have statements of earlier clients, so any statement of Open may fail.
func TestPoolerIsRejectedWithTheParameterToSet(t *testing.T) {
	db := postgres(t)
	through := pooled(t, db)
	client, err := newClient("http://127.0.0.1:1")
	require.NoError(t, err)
	c := config(client, time.Minute, db.witness)
	for range 3 {
		pool := opened(t, strings.TrimSuffix(through.Address, "&default_query_exec_mode=exec"))
		c.AllowUnsafeDatabase = false
		_, err = durable.Open(t.Context(), pool.DB, c)
		require.ErrorIs(t, err, durable.ErrUnsafeDatabase)
		require.ErrorContains(t, err, "default_query_exec_mode=exec or cache_describe")
		c.AllowUnsafeDatabase = true // of the server, without fsync
		_, err = durable.Open(t.Context(), through.DB, c)
		require.NoError(t, err)
	}
}
