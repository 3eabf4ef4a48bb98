//go:build unix

package kills

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// cluster is a test's own PostgreSQL server, which the test may stop.
type cluster struct {
	t    *testing.T
	bin  string // the directory of the server's programs
	data string // the directory of its data and of its socket
}

// newCluster returns a cluster without data. Its programs are those of the server of .ci/postgres.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	long(t)
	version := dbtest.Open(t, dbtest.Postgres(t)).Number(t, `SELECT current_setting('server_version_num')::INT / 10000`)
	c := &cluster{t: t, bin: "/usr/lib/postgresql/" + strconv.Itoa(version) + "/bin"}
	if _, err := os.Stat(c.bin + "/pg_ctl"); err != nil {
		t.Skip("no pg_ctl in " + c.bin)
	}
	var err error
	c.data, err = os.MkdirTemp("", "kills") //nolint:usetesting // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(c.data) })
	c.run("chown", "postgres", c.data)
	return c
}

// run runs a program. As root, it runs the server's programs as the user postgres, because the server rejects root.
func (c *cluster) run(name string, args ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), name, args...)
	cmd.Dir = "/"
	if os.Getuid() == 0 && strings.HasPrefix(name, c.bin) {
		cmd.Path = "/usr/bin/setpriv"
		cmd.Args = append([]string{"setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", name}, args...)
	} else if os.Getuid() != 0 && name == "chown" {
		return
	}
	log := filepath.Join(c.t.TempDir(), "log") // a pipe would stay open as long as the server
	file, err := os.Create(log)
	require.NoError(c.t, err)
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(log)
		require.NoError(c.t, err, "%s %s", name, text)
	}
}

// startCluster starts a server with an empty database.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	c.run(c.bin+"/initdb", "-D", c.data+"/db", "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync")
	c.start()
	return c
}

func (c *cluster) start() {
	c.t.Helper()
	c.run(c.bin+"/pg_ctl", "-D", c.data+"/db", "-l", c.data+"/log", "-w", "-t", "120",
		"-o", "-k "+c.data+" -c listen_addresses='' -c fsync=off -c wal_level=replica -c max_connections=200", "start")
	c.t.Cleanup(func() { // however the test ends
		_ = exec.Command("sh", "-c", "kill -QUIT $(head -n 1 "+c.data+"/db/postmaster.pid)").Run()
	})
}

// stop stops the server as a crash does.
func (c *cluster) stop() {
	c.t.Helper()
	c.run(c.bin+"/pg_ctl", "-D", c.data+"/db", "-m", "immediate", "-w", "stop")
}

func (c *cluster) socket() string  { return c.data + "/.s.PGSQL.5432" }
func (c *cluster) address() string { return "postgres://tests@/postgres?host=" + c.data }

func addMany(t *testing.T, db database, store *durable.Store, prefix string, n int) {
	t.Helper()
	var all []durable.NewPayout
	for i := range n {
		all = append(all, payout(prefix, i, false))
	}
	require.NoError(t, add(t.Context(), db.DB, store, all...))
}

// processes returns the process ids of the server, the postmaster first.
func (c *cluster) processes() (pids []int) {
	c.t.Helper()
	file, err := os.ReadFile(c.data + "/db/postmaster.pid")
	require.NoError(c.t, err)
	first, _, _ := strings.Cut(string(file), "\n")
	children, err := os.ReadFile("/proc/" + first + "/task/" + first + "/children")
	require.NoError(c.t, err)
	for _, text := range append([]string{first}, strings.Fields(string(children))...) {
		pid, err := strconv.Atoi(text)
		require.NoError(c.t, err)
		pids = append(pids, pid)
	}
	return pids
}

func (c *cluster) signal(s syscall.Signal) {
	for _, pid := range c.processes() {
		_ = syscall.Kill(pid, s) // a session may have ended
	}
}

// snapshot copies the directory at one moment, as a snapshot of the volume does. Meanwhile the server is suspended.
func (c *cluster) snapshot() (directory string) {
	c.t.Helper()
	directory = c.data + "/snapshot"
	if _, err := os.Stat(c.data + "/db/postmaster.pid"); err == nil {
		c.signal(syscall.SIGSTOP)
		c.signal(syscall.SIGSTOP) // those that the postmaster had just started
		defer c.signal(syscall.SIGCONT)
	}
	c.run("cp", "-a", c.data+"/db", directory)
	return directory
}

// putBack replaces the directory of the stopped server with a snapshot.
func (c *cluster) putBack(directory string) {
	c.t.Helper()
	require.NoError(c.t, os.RemoveAll(c.data+"/db"))
	require.NoError(c.t, os.Rename(directory, c.data+"/db"))
	_ = os.Remove(c.data + "/db/postmaster.pid")
}

// The directory of a stopped server is copied back, so the server, its timeline and its tables are the same.
func TestStoppedServerThatIsCopiedBackIsHeld(t *testing.T) {
	c := startCluster(t)
	db, service := prepared(t, c.address()), newService(t)
	addMany(t, db, open(t, db, service.URL, time.Minute), "a", 200)
	c.stop()
	copied := c.snapshot()
	c.start()
	store := open(t, db, service.URL, time.Minute)
	n, err := store.RunBatch(t.Context(), durable.BatchLimit{})
	require.NoError(t, err)
	require.Equal(t, 200, n)
	c.stop()
	c.putBack(copied)
	c.start()
	require.Equal(t, 200, db.Number(t, `SELECT COUNT(*) FROM durable_queue`), "payouts that were paid wait again")
	store = open(t, db, service.URL, time.Minute)
	_, err = store.RunBatch(t.Context(), durable.BatchLimit{})
	require.ErrorIs(t, err, durable.ErrHeld)
	assert.Len(t, service.Orders(), 200)
	addMany(t, db, store, "a", 200)
	releaseWhatTheServiceDoesNotHave(t, db, store, service, 200)
}

// A snapshot of the volume is taken and restored under load. The processes survive, or are killed and replaced.
func TestVolumeSnapshotUnderLoadIsHeld(t *testing.T) {
	for _, alive := range []bool{true, false} {
		t.Run(map[bool]string{true: "the processes live on", false: "the processes are killed"}[alive], func(t *testing.T) {
			c := startCluster(t)
			db, service := prepared(t, c.address()), newService(t)
			store := open(t, db, service.URL, 3*time.Second)
			service.Fault(paymentsvctest.InitPayout, paymentsvctest.Every(), paymentsvctest.Slow(100*time.Microsecond))
			addMany(t, db, store, "a", 1000)
			children := []*process{start(t, db, service.URL), start(t, db, service.URL)}
			eventually(t, func() bool { return len(service.Orders()) > 100 })
			copied, at := c.snapshot(), len(service.Orders())
			eventually(t, func() bool { return len(service.Orders()) > at+100 })
			if !alive {
				for _, p := range children {
					p.kill()
				}
			}
			c.stop()
			c.putBack(copied)
			c.start()
			if !alive {
				start(t, db, service.URL)
			}
			eventually(t, func() bool { return db.Number(t, `SELECT hold FROM durable_control`) == 1 })
			started := (&failover{service: service}).quiet()
			require.Less(t, started, 1000, "it was restored too late")
			eventually(t, func() bool { return db.Number(t, `SELECT COUNT(*) FROM durable_claims`) == 0 })
			assert.Len(t, service.Orders(), started)
			for _, p := range children {
				p.kill()
			}
			releaseWhatTheServiceDoesNotHave(t, db, open(t, db, service.URL, 3*time.Second), service, 1000)
		})
	}
}

// The server crashes under load and is started again, three times.
func TestAServerThatCrashesLosesAndRepeatsNothing(t *testing.T) {
	c := startCluster(t)
	db := prepared(t, c.address())
	service := newService(t)
	store, other := open(t, db, service.URL, time.Minute), open(t, opened(t, c.address()), service.URL, time.Minute)
	addMany(t, db, store, "a", 3000)
	stop := run(t, store, other)
	for range 3 {
		n := len(service.Orders())
		eventually(t, func() bool { return len(service.Orders()) > n+100 })
		c.stop()
		c.start()
	}
	stop()
	require.Less(t, len(service.Orders()), 3000, "it was stopped too late")
	// Both Stores have run all the time and know their outcomes, so no row is unknown.
	last := open(t, db, service.URL, time.Minute)
	assert.Zero(t, db.Number(t, `SELECT hold + (SELECT COUNT(*) FROM durable_claims) FROM durable_control`))
	_, payouts := finish(t, db, last, service)
	assert.Zero(t, payouts)
	assert.Len(t, service.Orders(), 3000)
}

// claimed counts the ended claims of all rows, and the current claims.
const claimed = `SELECT (SELECT SUM(claims) FROM durable_rows) + (SELECT COUNT(*) FROM durable_claims)`

// failover is a primary with a standby, and a Store that pays. The standby and the Store reach the primary through
// proxies.
type failover struct {
	primary, standby *cluster
	stream, front    *proxy // to the primary, for the standby and for the Store
	db               database
	service          *paymentsvctest.Server
	store            *durable.Store
	set              func(*durable.Config)
}

// newFailover returns a failover under load. If state is "sync", commits wait for the standby, and its promotion does
// not hold payouts.
func newFailover(t *testing.T, timeout time.Duration, state string) (f *failover, stop func()) {
	t.Helper()
	f = &failover{primary: startCluster(t), standby: newCluster(t), service: newService(t)}
	f.set = func(c *durable.Config) { c.HoldOnlyOnRestore = state == "sync" }
	f.db = prepared(t, f.primary.address())
	f.stream, f.front = newProxy(t, f.primary.socket()), newProxy(t, f.primary.socket())
	f.standby.run(f.standby.bin+"/pg_basebackup", "-d", "postgres://tests@"+f.stream.address(),
		"-D", f.standby.data+"/db", "-R", "--no-sync", "-c", "fast")
	f.standby.start()
	if state == "sync" {
		f.db.Exec(t, `ALTER SYSTEM SET synchronous_standby_names = 'walreceiver'`)
		f.db.Exec(t, `SELECT pg_reload_conf()`)
	}
	eventually(t, func() bool {
		return f.db.Number(t, `SELECT COUNT(*) FROM pg_stat_replication
			WHERE state = 'streaming' AND sync_state = '`+state+`'`) == 1
	})
	front := opened(t, "postgres://tests@"+f.front.address()+"/postgres?sslmode=disable")
	f.store = open(t, front, f.service.URL, timeout, f.set)
	addMany(t, f.db, f.store, "a", 300)
	written := f.db.Number(t, `SELECT pg_current_wal_lsn() - '0/0'`)
	eventually(t, func() bool { // on a busy machine, the standby lags behind
		return f.db.Number(t, `SELECT COALESCE(MIN(replay_lsn - '0/0'), 0) FROM pg_stat_replication`) >= written
	})
	f.service.Fault(paymentsvctest.InitPayout, paymentsvctest.Every(), paymentsvctest.Slow(100*time.Microsecond))
	stop = run(t, f.store)
	replayed := opened(t, f.standby.address())
	eventually(t, func() bool { return len(f.service.Orders()) >= 100 && replayed.Number(t, claimed) > 0 })
	return f, stop
}

// promote stops the primary as a crash does, promotes the standby, and returns how many payouts were started before.
func (f *failover) promote(t *testing.T) (started int) {
	t.Helper()
	f.primary.stop()
	f.standby.run(f.standby.bin+"/pg_ctl", "-D", f.standby.data+"/db", "-w", "promote")
	f.db = opened(t, f.standby.address())
	return f.quiet()
}

// quiet waits until no more payouts are sent, and returns how many payouts were started.
func (f *failover) quiet() (started int) {
	for before := -1; before != started; time.Sleep(500 * time.Millisecond) {
		before, started = started, len(f.service.Orders())
	}
	return started
}

// A standby is cut off under load and promoted later, so it has lost rows, claims and outcomes. The process that
// continues with the standby holds the payouts automatically, also those of a repeated import.
func TestFailoverThatLosesCommitsHoldsPayouts(t *testing.T) {
	for reason, state := range map[string]string{
		"this is another server": "async", "a commit of this process is gone": "sync",
	} {
		t.Run(reason, func(t *testing.T) {
			f, stop := newFailover(t, 3*time.Second, state)
			f.stream.moveTo("/nowhere")
			if state == "sync" { // PostgreSQL reports the success of a COMMIT whose wait is canceled
				require.Less(t, f.quiet(), 300, "called before the standby has the claim")
				go func(db database) {
					for ; t.Context().Err() == nil; time.Sleep(5 * time.Millisecond) {
						_, _ = db.ExecContext(t.Context(),
							`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
					}
				}(f.db)
			}
			addMany(t, f.db, f.store, "b", 300)
			eventually(t, func() bool { return len(f.service.Orders()) >= 400 })
			started := f.promote(t)
			require.Less(t, started, 600, "it was promoted too late")
			require.Equal(t, 300, f.db.Number(t, `SELECT COUNT(*) FROM durable_rows`), "no row was lost")
			claims := f.db.Number(t, claimed)
			require.Positive(t, claims, "it never streamed")
			require.Less(t, claims, 300, "no claim was lost")
			f.front.moveTo(f.standby.socket())
			eventually(t, func() bool {
				return f.db.Number(t, `SELECT COUNT(*) FROM durable_control WHERE hold = 1 AND hold_reason LIKE '`+reason+`%'
					AND NOT EXISTS (SELECT 1 FROM durable_claims)`) == 1
			})
			addMany(t, f.db, f.store, "a", 300) // the same files
			addMany(t, f.db, f.store, "b", 300)
			addMany(t, f.db, f.store, "c", 10)
			assert.Equal(t, started, f.quiet(), "sent while held")
			assert.Equal(t, claims, f.db.Number(t, claimed), "claimed while held")
			stop()
			releaseWhatTheServiceDoesNotHave(t, f.db, open(t, f.db, f.service.URL, time.Minute), f.service, 610)
		})
	}
}

// With a synchronous standby nothing is lost. While the standby is unavailable, the Store's commits are canceled, and
// no call begins.
func TestFailoverToASynchronousStandbyGoesOn(t *testing.T) {
	f, stop := newFailover(t, time.Minute, "sync")
	addMany(t, f.db, f.store, "b", 300)
	f.stream.moveTo("/nowhere")
	started := f.quiet()
	before := f.db.Number(t, claimed)
	// Claims become visible once the wait of their COMMIT is canceled.
	eventually(t, func() bool { return f.db.Number(t, claimed) > before })
	assert.Equal(t, started, f.quiet(), "called before the standby has the claim")
	f.stream.moveTo(f.primary.socket())
	eventually(t, func() bool { return len(f.service.Orders()) >= started+50 })
	require.Less(t, f.promote(t), 600, "it was promoted too late")
	f.front.moveTo(f.standby.socket())
	eventually(t, func() bool {
		return f.db.Number(t, `SELECT COUNT(*) FROM durable_rows WHERE state = 'pending'`) == 600
	})
	stop()
	_, payouts := finish(t, f.db, open(t, f.db, f.service.URL, time.Minute, f.set), f.service)
	assert.Zero(t, f.db.Number(t, `SELECT hold FROM durable_control`))
	assert.Zero(t, payouts, "in doubt")
	assert.Len(t, f.service.Orders(), 600)
}
