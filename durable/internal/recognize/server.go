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
	// walTimeline is the timeline of new WAL. It does not use pg_control_checkpoint, because after a promotion the control
	// file may still contain the old timeline.
	walTimeline = `substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`
	// startTime is the start of the server in microseconds since 1970. A number does not depend on a time zone.
	startTime = `(EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000)::BIGINT::TEXT`
)

// findServer sets the SQL expressions identity, timeline and here, without the values that this role may not read.
// Processes with different rights compare the parts that both may read.
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
	// startTime and tableFile are cheap. At least one of them changes with a restart, another server or new tables, so
	// they replace the identity and the timeline.
	g.here = g.identity + ` || ` + g.timeline
	if may {
		g.here = startTime + ` || '/' || ` + tableFile
	}
	g.here = `(` + g.here + ` || '/' || fingerprint || timeline || '/' || generation::TEXT)`
	return nil
}

// mayRead reports whether this role may evaluate an expression and its value is not empty. It returns only errors of
// the connection.
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
	g.Log.DebugContext(ctx, "durable: this role cannot read a value of the server", slog.String("error", err.Error()))
	return false, nil
}

// moved reports whether the stored server, database, table or timeline differs from the current one, or no part can be
// compared. It returns false if nothing is stored yet. With allowFailover, it ignores the timeline.
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

// learned returns the identity and timeline to store. A current identity with all parts of the stored identity, and
// more parts, replaces the stored identity. A stored timeline stays, also after an accepted failover.
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
