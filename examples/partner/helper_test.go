package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

const (
	card     = "4111111111111111"
	key      = "the-secret-that-nobody-prints"
	oldKey   = "the-secret-before-that-nobody-prints"
	patience = 2 * time.Minute // enough for a slow machine
)

// output keeps the written text.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// from returns an environment of name=value pairs.
func from(variables ...string) func(string) string {
	return func(name string) string {
		for _, v := range variables {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func fileWith(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// command runs a command, compares its exit status, and returns its output.
func command(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out output
	ctx, cancel := context.WithTimeout(t.Context(), patience) // ends a command that serves by mistake
	defer cancel()
	args = append([]string{"-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0"}, args...)
	assert.Equal(t, code, run(ctx, args, from(), &out, &out), "%s", &out)
	for _, secret := range []string{card, key, oldKey, "hunter2"} {
		assert.NotContains(t, out.String(), secret)
	}
	return out.String()
}

// open returns the program with its store, for the time of the test.
func open(t *testing.T, args ...string) *program {
	t.Helper()
	set, code := readSettings(args, from(), io.Discard)
	require.Equal(t, exitDone, code)
	p := &program{set: set, log: set.logger(io.Discard)}
	t.Cleanup(p.Close)
	require.NoError(t, p.openService(t.Context()))
	require.NoError(t, p.openStore(t.Context()))
	return p
}

// serving is the program while it serves inside the test.
type serving struct {
	Public, Admin string
	Out           *output
	stop          context.CancelFunc
	ended         chan struct{}
	code          int
}

func startServing(t *testing.T, environment func(string) string, args ...string) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &serving{Out: &output{}, stop: cancel, ended: make(chan struct{})}
	read, write := io.Pipe()
	go func() {
		args := append(
			[]string{"serve", "-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-log-json", "-log-level", "debug"}, args...,
		)
		s.code = run(ctx, args, environment, write, s.Out)
		_ = write.Close()
		close(s.ended)
	}()
	lines := bufio.NewScanner(read)
	for s.Admin == "" && lines.Scan() {
		switch name, address, _ := strings.Cut(lines.Text(), " "); name {
		case "public":
			s.Public = address
		case "admin":
			s.Admin = address
		}
	}
	go func() { _, _ = io.Copy(s.Out, read) }()
	t.Cleanup(func() { s.Stop(t) })
	require.NotEmpty(t, s.Admin, s.Out)
	return s
}

func (s *serving) Stop(t *testing.T) {
	t.Helper()
	s.stop()
	<-s.ended
	assert.Equal(t, exitDone, s.code, s.Out)
}

// buy orders something, and returns the address of the order's page and its user_data.
func (s *serving) buy(t *testing.T) (page, userData string) {
	t.Helper()
	code, location, text := s.checkout(t, uuid.NewString(), "10.50")
	require.Equal(t, http.StatusSeeOther, code, text)
	return s.Public + location, strings.TrimPrefix(location, "/orders/")
}

func (s *serving) checkout(t *testing.T, basket, amount string) (code int, location, text string) {
	t.Helper()
	form := url.Values{"basket": {basket}, "amount": {amount}, "type": {"card"}}
	resp, text := exchange(t, http.MethodPost, s.Public+"/checkout", form, func(*http.Request) {})
	return resp.StatusCode, resp.Header.Get("Location"), text
}

// exchange sends a request after a call of change, and follows no redirect. It returns the response and its body.
func exchange(
	t *testing.T, method, address string, form url.Values, change func(*http.Request),
) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	change(r)
	resp, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

func read(t *testing.T, address string) string {
	t.Helper()
	_, body := exchange(t, http.MethodGet, address, nil, func(*http.Request) {})
	return body
}

// until waits until the page at an address contains text.
func until(t *testing.T, address, text string) {
	t.Helper()
	require.Eventually(
		t, func() bool { return strings.Contains(read(t, address), text) }, patience, 20*time.Millisecond, text,
	)
}

func state(s durable.State) string { return "state-" + string(s) }

// startService starts a fake that fits serviceFlags.
func startService(t *testing.T) *paymentsvctest.Server {
	t.Helper()
	set := &settings{}
	require.NoError(t, set.demo())
	return paymentsvctest.Start(t, paymentsvctest.Config{
		PartnerID: demoPartner, Scheme: set.Scheme, NotifyAttempts: 100,
		Repeated: paymentsvctest.NewOrder, // otherwise a rejection would hide a second start
		Projects: []paymentsvctest.Project{{
			ID: demoProject, Secret: key, OldSecret: oldKey, Balance: paymentsvc.MustParseAmount("500000.00"),
		}},
	})
}

func serviceFlags(t *testing.T, address, database string) []string {
	t.Helper()
	return []string{
		"-service", address, "-service-name", "pay", "-partner", "1001", "-project", "2002", "-scheme", demoScheme,
		"-error-fields", demoFields,
		"-not-found-codes", string(paymentsvctest.ProblemNotFound), "-duplicate-codes",
		string(paymentsvctest.ProblemRepeated),
		"-secret-file", fileWith(t, key), "-old-secret-file", fileWith(t, oldKey), "-database", database,
		"-allow-unsafe-database",
	}
}

// eachDatabase runs f with the address of an empty SQLite database, and of an empty PostgreSQL database if
// TEST_DATABASE_URL names a server, as with .ci/postgres.
func eachDatabase(t *testing.T, f func(t *testing.T, database string)) {
	t.Run("SQLite", func(t *testing.T) { f(t, filepath.Join(t.TempDir(), "partner.db")) })
	t.Run("PostgreSQL", func(t *testing.T) { f(t, postgres(t)) })
}

func postgres(t *testing.T) string {
	t.Helper()
	server := os.Getenv("TEST_DATABASE_URL")
	if server == "" {
		t.Skip(
			"no PostgreSQL: TEST_DATABASE_URL is not set. Run the tests with .ci/postgres go -C examples/partner test ./...",
		)
	}
	admin, err := sql.Open("pgx", server)
	require.NoError(t, err)
	name := "test_" + strings.ToLower(rand.Text())
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
		_ = admin.Close()
	})
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}
