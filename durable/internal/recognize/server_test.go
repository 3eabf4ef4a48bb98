package recognize

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
)

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

// Processes that may read different parts of the server's identity do not hold in turn.
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
		assert.Equal(t, mustOpen(t, db, nil).Server(), mustOpen(t, dbtest.Open(t, db.Address+"&TimeZone="+zone), nil).Server())
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
		assert.EqualValues(t, 1, db.Number(t, `SELECT hold FROM durable_control`), "held once: "+change)
	}
	db.Exec(t, `UPDATE durable_control SET hold = 0, timeline = '000000AA'`)
	mustOpen(t, db, nil, func(o *Options) { o.AllowFailover = true })
	assert.False(t, held(t, db))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, guards[1].findServer(ended), "no response is not a lack of rights")
}
