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
)

// cluster is a PostgreSQL server of a test's own, which it may stop.
type cluster struct {
	t    *testing.T
	bin  string // the directory of the server's programs
	data string // its directory, and that of its socket
}

// newCluster returns a directory for a server whose programs are those of the server of .ci/postgres.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	long(t)
	admin := server(t)
	var version int
	require.NoError(t, admin.QueryRowContext(t.Context(), `SELECT current_setting('server_version_num')::INT / 10000`).Scan(&version))
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

// run runs a program, as the server's user if it is a server's: that rejects root.
func (c *cluster) run(name string, args ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), name, args...)
	cmd.Dir = "/"
	if os.Getuid() == 0 && strings.HasPrefix(name, c.bin) {
		cmd.Path, cmd.Args = "/usr/bin/setpriv", append([]string{"setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", name}, args...)
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

func (c *cluster) init() {
	c.t.Helper()
	c.run(c.bin+"/initdb", "-D", c.data+"/db", "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync")
}

func (c *cluster) start() {
	c.t.Helper()
	c.run(c.bin+"/pg_ctl", "-D", c.data+"/db", "-l", c.data+"/log", "-w", "-t", "120",
		"-o", "-k "+c.data+" -c listen_addresses='' -c fsync=off -c wal_level=replica -c max_connections=200", "start")
	c.t.Cleanup(func() { // however the test ends
		if pid, err := os.ReadFile(c.data + "/db/postmaster.pid"); err == nil {
			if n, err := strconv.Atoi(strings.SplitN(string(pid), "\n", 2)[0]); err == nil {
				_ = syscall.Kill(n, syscall.SIGQUIT)
			}
		}
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

// The server crashes under load and is started again, three times.
func TestAServerThatCrashesLosesAndRepeatsNothing(t *testing.T) {
	c := newCluster(t)
	c.init()
	c.start()
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
	// Both processes have lived all the time, so they know what they called, and nothing is in doubt.
	last := open(t, db, service.URL, time.Minute)
	status, err := last.Status(t.Context())
	require.NoError(t, err)
	assert.False(t, status.Hold, status.HoldReason)
	assert.Zero(t, status.Starting)
	_, payouts := finish(t, db, last, service)
	assert.Zero(t, payouts)
	assert.Len(t, service.Orders(), 3000)
}

// An asynchronous standby is promoted under load: it has lost claims and outcomes. The process that goes on with it
// holds the payouts by itself, and so does the import of the same file.
func TestFailoverThatLosesCommitsHoldsPayouts(t *testing.T) {
	primary := newCluster(t)
	primary.init()
	primary.start()
	proxy := newProxy(t, primary.socket())
	db := prepared(t, primary.address())
	service := newService(t)
	moving := opened(t, "postgres://tests@"+proxy.address()+"/postgres?sslmode=disable")
	store := open(t, moving, service.URL, time.Minute)
	addMany(t, moving, store, "a", 400)

	standby := newCluster(t) // it is started after the load, as if it had lagged
	standby.run(standby.bin+"/pg_basebackup", "-h", primary.data, "-U", "tests", "-D", standby.data+"/db", "-R", "-X", "stream", "--no-sync", "-c", "fast")
	stop := run(t, store)
	eventually(t, func() bool { return len(service.Orders()) >= 132 })
	primary.stop()
	standby.start()
	standby.run(standby.bin+"/pg_ctl", "-D", standby.data+"/db", "-w", "promote")
	db.Close()
	proxy.moveTo(standby.socket())
	db = opened(t, standby.address())
	var status durable.Status
	eventually(t, func() bool {
		var err error
		status, err = store.Status(t.Context())
		return err == nil && status.Hold && status.Starting == 0
	})
	started := len(service.Orders())
	addMany(t, db, store, "a", 400) // the same file
	addMany(t, db, store, "b", 10)
	time.Sleep(300 * time.Millisecond) // some rounds
	stop()
	require.NoError(t, service.Drain(t.Context()))
	assert.Len(t, service.Orders(), started, "sent while held")
	assert.Less(t, started, 400, "it was promoted too late")
	releaseWhatTheServiceDoesNotHave(t, db, open(t, db, service.URL, time.Minute), service, 410)
}
