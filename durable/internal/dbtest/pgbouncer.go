package dbtest

import (
	"bytes"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// configuration makes pgbouncer lend a session of the server for one transaction. Clients share at most 20 sessions.
const configuration = `[databases]
* = host=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
ignore_startup_parameters = extra_float_digits
log_connections = 0
log_disconnections = 0
`

// StartPooler starts pgbouncer in transaction mode, without support for prepared statements, before the database at a
// postgres address of .ci/postgres. It returns the address of the database through the pooler, and skips the test on a
// machine without pgbouncer.
func StartPooler(t *testing.T, address string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("no pgbouncer: install Debian's package pgbouncer")
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pgbouncer.ini")
	port := freePort(t)
	text := fmt.Sprintf(configuration, u.Query().Get("host"), u.User.Username(), port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{file}
	if os.Getuid() == 0 { // pgbouncer rejects root
		args = append(args, "-u", "postgres")
	}
	command := exec.Command(program, args...) //nolint:gosec,noctx // the cleanup kills it
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	pooled := url.URL{
		Scheme: "postgres", User: u.User, Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Path: u.Path,
		RawQuery: "sslmode=disable",
	}
	waitUntilReady(t, pooled.String())
	return pooled.String()
}

// freePort returns an unused port.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// waitUntilReady waits until a statement succeeds through the pooler.
func waitUntilReady(t *testing.T, address string) {
	t.Helper()
	db, err := sql.Open("pgx", address+"&default_query_exec_mode=exec")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for {
		_, err = db.ExecContext(t.Context(), `SELECT 1`)
		if err == nil {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}
