package durable

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
)

// withRoles is a database with the roles of docs/deployment.md, under names of this test.
type withRoles struct {
	database
	prefix string
	sql    []string // the blocks of the page
}

// rolesOfPage runs the first block of the page on an empty database.
func rolesOfPage(t *testing.T) withRoles {
	t.Helper()
	page, err := os.ReadFile("../docs/deployment.md")
	require.NoError(t, err)
	r := withRoles{prefix: "payments_" + strings.ToLower(rand.Text())}
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		r.sql = append(r.sql, strings.NewReplacer("payments_", r.prefix+"_").Replace(block[1]))
	}
	t.Cleanup(func() { // after the removal of the database
		if t.Skipped() {
			return
		}
		admin, err := sql.Open("pgx", os.Getenv("TEST_DATABASE_URL"))
		require.NoError(t, err)
		defer admin.Close()
		for _, role := range []string{"owner", "program", "monitor"} {
			_, err := admin.ExecContext(context.WithoutCancel(t.Context()), `DROP ROLE IF EXISTS `+r.prefix+`_`+role)
			require.NoError(t, err)
		}
	})
	r.database = postgres(t)
	r.Exec(t, `DROP SCHEMA public CASCADE`, r.sql[0])
	return r
}

// as opens the database as a role. The test's server trusts every user.
func (r withRoles) as(t *testing.T, role string) database {
	t.Helper()
	u, err := url.Parse(r.Address)
	require.NoError(t, err)
	u.User = url.User(r.prefix + "_" + role)
	return dbtest.Open(t, u.String())
}

// firstUnanswered leaves the first call without a response.
func firstUnanswered(n int, _ string) error {
	if n == 1 {
		return unanswered("")
	}
	return nil
}

func TestDeploymentRolesSufficeForEveryStatement(t *testing.T) {
	r := rolesOfPage(t)
	require.NoError(t, Migrate(t.Context(), r.as(t, "owner").DB))
	var log safeBuffer
	db := r.as(t, "program")
	require.NoError(t, Migrate(t.Context(), db.DB), "the tables are there")
	all := slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})
	s := openStore(t, db, Config{Service: &service{after: firstUnanswered}, Log: slog.New(all)})
	assert.NotContains(t, log.String(), "cannot be read", "of the server's identity")
	_, err := db.ExecContext(t.Context(), `DROP TABLE durable_rows`)
	require.ErrorContains(t, err, "must be owner")

	queued := send(t, s, payouts("p", 3)...)
	_ = pay(t, s, "k")
	paid := notice(payoutChanged, "", queued[1].UserData+"/1", success)
	require.NoError(t, s.Notified(t.Context(), paid))
	require.NoError(t, s.Sweep(t.Context()))
	require.NoError(t, s.Pause(t.Context(), "ada", "a reason"))
	require.NoError(t, s.Drained(t.Context()))
	require.NoError(t, s.Resume(t.Context(), "ada"))
	hold(t, s)
	queue(t, s, payouts("held", 1)...)
	release(t, s, 1)
	require.NoError(t, s.EndHold(t.Context(), "ada", status(t, s).Generation))
	assert.Equal(t, 1, decideAll(t, s, Filter{State: StateUnknown}, DecidePaid))
	require.NoError(t, s.Ready(t.Context()))
	_, err = s.Gauges(t.Context())
	require.NoError(t, err)
	_, err = s.Unmatched(t.Context())
	require.NoError(t, err)
}

func TestDeploymentAlertsFindTheirRowsWithoutDestinations(t *testing.T) {
	r := rolesOfPage(t)
	owner := r.as(t, "owner")
	require.NoError(t, Migrate(t.Context(), owner.DB))
	owner.Exec(t, r.sql[1])
	monitor := r.as(t, "monitor")
	s := openStore(t, r.as(t, "program"), Config{Service: &service{after: firstUnanswered}})
	figures := func() (all []string) {
		for query := range strings.SplitSeq(strings.TrimSuffix(r.sql[2], ";\n"), ";\n") {
			var value sql.NullString
			require.NoError(t, monitor.QueryRowContext(t.Context(), query).Scan(&value), query)
			whole, _, _ := strings.Cut(value.String, ".")
			all = append(all, whole)
		}
		return all
	}
	assert.Equal(t, []string{"0", "false", "", "", "0", "0"}, figures())

	send(t, s, payouts("p", 2)...)
	_ = pay(t, s, "a payer who left")
	require.NoError(t, s.Notified(t.Context(), notice(payoutChanged, "", "another", success)))
	cut := &paymentsvc.NotificationError{Raw: []byte("{"), Err: errors.New("cut")}
	require.NoError(t, s.KeepUnreadable(t.Context(), cut))
	hold(t, s)
	queue(t, s, payouts("held", 1)...)
	require.NoError(t, s.Pause(t.Context(), "ada", "a reason"))
	owner.Exec(t, `UPDATE durable_queue SET created_at = created_at - 1000000`,
		`UPDATE durable_orders SET created_at = created_at - CASE kind WHEN 'payout' THEN 2000000 ELSE 9000000 END`,
		`UPDATE durable_notifications SET received_at = received_at - 3000000`)
	found := figures()
	assert.Equal(t, []string{"2", "true"}, found[:2])
	assert.Regexp(t, "^10[0-9]{2}$", found[2])
	assert.Regexp(t, "^20[0-9]{2}$", found[3])
	assert.Equal(t, []string{"1", "1"}, found[4:])
	for age, stopped := range map[string]string{"-60000": "true", "1000": "true", "299000": "true", "301000": "false"} {
		owner.Exec(t, `UPDATE durable_control
			SET paused = 0, pause_until = EXTRACT(EPOCH FROM clock_timestamp()) * 1000 - `+age)
		assert.Equal(t, stopped, figures()[1], "a timed pause, %s ms after its end", age)
	}
	_, err := monitor.ExecContext(t.Context(), `SELECT body FROM durable_unreadable`)
	require.ErrorContains(t, err, "permission denied")
	_, err = monitor.ExecContext(t.Context(), `SELECT destination FROM durable_rows`)
	require.ErrorContains(t, err, "permission denied")
}

// Tools for migrations run a file as one text.
func TestSchemaRunsAsOneText(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db database) {
		db.Exec(t, strings.Join(Schema(dialect(db)), ";\n"))
		require.NoError(t, Migrate(t.Context(), db.DB), "it has this version")
		s := openStore(t, db, Config{})
		queue(t, s, payouts("a", 1)...)
		assert.Equal(t, 1, runBatch(t, s, nil))
	})
}

func TestProjectsOfOneProcessHaveTheirOwnSchemas(t *testing.T) {
	db := postgres(t)
	for _, project := range []string{"one", "two"} {
		db.Exec(t, `CREATE SCHEMA `+project)
		u, err := url.Parse(db.Address)
		require.NoError(t, err)
		query := u.Query()
		query.Set("search_path", project)
		u.RawQuery = query.Encode()
		f := &service{}
		c := config(Config{Service: f})
		c.Project = project
		s, err := Open(t.Context(), migrated(t, dbtest.Open(t, u.String())).DB, c)
		require.NoError(t, err)
		send(t, s, payouts("p", 2)...)
		f.requireStarts(t, 2)
		require.NoError(t, s.Drained(t.Context()))
	}
}
