package recognize

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"strings"
)

const (
	systemID    = `(SELECT system_identifier::TEXT FROM pg_control_system())`
	databaseOID = `(SELECT oid::TEXT FROM pg_database WHERE datname = current_database())`
	tableOID    = `'durable_rows'::REGCLASS::OID::TEXT`
	// tableFile contains the oid of the database, and changes if the table is created again. It is cheap, because it does
	// not read a table.
	tableFile = `pg_relation_filepath('durable_rows')`
	// walTimeline is the timeline that the server writes. After a promotion, the control file may still contain the old
	// timeline.
	walTimeline = `substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`
	// startTime does not depend on the time zone of the session.
	startTime = `(EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000)::BIGINT::TEXT`
)

// findServer builds the SQL expressions from the parts of the identity that this role may read. Processes with
// different rights compare the parts that both may read.
func (g *Guard) findServer(ctx context.Context) error {
	g.identity = ``
	for _, part := range []struct{ name, value string }{
		{"system", systemID}, {"database", databaseOID}, {"table", tableOID},
	} {
		may, err := g.mayRead(ctx, part.value)
		if err != nil {
			return err
		}
		if may {
			g.identity += `'/` + part.name + `=' || ` + part.value + ` || `
		}
	}
	g.identity += `'/'`
	may, err := g.mayRead(ctx, walTimeline)
	if err != nil {
		return err
	}
	if may {
		g.timeline = walTimeline
	}
	may, err = g.mayRead(ctx, startTime)
	if err != nil {
		return err
	}
	// The identity changes only with a restart or new tables, so these two cheap values replace it.
	g.here = g.identity + ` || ` + g.timeline
	if may {
		g.here = startTime + ` || '/' || ` + tableFile
	}
	g.here = `(` + g.here + ` || '/' || fingerprint || timeline || '/' || generation::TEXT)`
	return nil
}

// mayRead reports whether this role may evaluate an expression. The error is that of the connection.
func (g *Guard) mayRead(ctx context.Context, expression string) (bool, error) {
	conn, err := connect(ctx, g.DB)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	var text string
	err = conn.QueryRowContext(ctx, `SELECT `+expression).Scan(&text)
	if err == nil {
		return text != "", nil
	}
	if _, unavailable := conn.ExecContext(ctx, `SELECT 1`); unavailable != nil {
		return false, err
	}
	g.Log.DebugContext(ctx, "durable: a part of the server's identity cannot be read", slog.String("error", err.Error()))
	return false, nil
}

// moved reports whether the stored identity belongs to another server. A failover alone changes only the timeline.
func (l snapshot) moved(allowFailover bool) bool {
	if l.storedIdentity == "" && l.storedTimeline == "" {
		return false
	}
	stored, common := pairs(l.storedIdentity), false
	for name, value := range pairs(l.identity) {
		if before, ok := stored[name]; ok && before != value {
			return true
		} else if ok {
			common = true
		}
	}
	return !common || !allowFailover && l.timeline != "" && l.storedTimeline != "" && l.timeline != l.storedTimeline
}

// learned returns the identity and the timeline to store. An identity with additional parts replaces the stored
// identity.
func (l snapshot) learned() (identity, timeline string) {
	stored, now := pairs(l.storedIdentity), pairs(l.identity)
	all := maps.Clone(stored)
	maps.Copy(all, now)
	identity = l.storedIdentity
	if len(now) == len(all) && len(now) > len(stored) {
		identity = l.identity
	}
	return identity, cmp.Or(l.storedTimeline, l.timeline)
}

// pairs parses "/name=value/name=value/".
func pairs(identity string) map[string]string {
	all := map[string]string{}
	for part := range strings.SplitSeq(identity, "/") {
		if name, value, ok := strings.Cut(part, "="); ok {
			all[name] = value
		}
	}
	return all
}
