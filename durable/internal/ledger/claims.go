package ledger

import (
	"context"
	"database/sql"
)

// Release makes the rows claimed with tokens due again. Their calls never began, and the commits of the claims may
// arrive late. The rows keep the number and the time of the claim, so that no process takes the claim for lost.
func (l *Ledger) Release(ctx context.Context, tokens []string) error {
	return l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		claims, err := l.texts(ctx, tx, `SELECT user_data FROM durable_claims WHERE token`+l.in("$1")+`{lock}`, list(tokens))
		if err != nil || len(claims) == 0 {
			return err
		}
		for _, statement := range [...]string{
			`UPDATE durable_rows SET claims = c.claims, claimed_at = c.claimed_at, due_at = {now}, updated_at = {now},
				version = version + 1 FROM durable_claims AS c
				WHERE durable_rows.user_data = c.user_data AND state = 'created' AND c.user_data` + l.in("$1"),
			`DELETE FROM durable_claims WHERE user_data` + l.in("$1"),
		} {
			if _, err := l.exec(ctx, tx, statement, list(claims)); err != nil {
				return err
			}
		}
		return l.enqueue(ctx, tx, claims)
	})
}

// enqueue puts created rows into the queue.
func (l *Ledger) enqueue(ctx context.Context, tx *sql.Tx, userData []string) error {
	insert, err := l.sized(ctx, tx, `INSERT INTO durable_queue (kind, generation, due_at, user_data, created_at)
		SELECT kind, generation, due_at, user_data, created_at FROM durable_rows
		WHERE state = 'created' AND user_data`+l.in("$1")+` ON CONFLICT DO NOTHING`)
	if err == nil {
		_, err = l.exec(ctx, tx, insert, list(userData))
	}
	return err
}

// dequeue removes the selected created rows from the queue, and returns the user_data of the removed rows. It locks the
// rows first, as Change does. On PostgreSQL it looks up each row by the key, because without
// statistics a join would compare each row with each.
func (l *Ledger) dequeue(ctx context.Context, tx *sql.Tx, where string, args ...any) ([]string, error) {
	found := `(kind, generation, due_at, user_data, created_at) IN (SELECT * FROM selected)`
	if l.Dialect == PostgreSQL {
		found = `ctid = ANY (ARRAY(SELECT q.at FROM selected AS s CROSS JOIN LATERAL (SELECT ctid AS at FROM durable_queue
			WHERE kind = s.kind AND generation = s.generation AND due_at = s.due_at AND user_data = s.user_data
				AND created_at = s.created_at LIMIT 1) AS q))`
	}
	return l.texts(ctx, tx, `WITH selected AS MATERIALIZED (
			SELECT kind, generation, due_at, user_data, created_at FROM durable_rows WHERE state = 'created' AND `+where+`)
		DELETE FROM durable_queue WHERE `+found+` RETURNING user_data`, args...)
}

// Probe claims one payout after a timed pause, alone among all processes. The pause continues meanwhile, for a lease at
// most. Without a due payout the pause ends. On another server than identity, see Identify, Probe claims nothing.
func (l *Ledger) Probe(
	ctx context.Context, token string, lease int64, identity string,
) (claims []Claim, mark int64, err error) {
	err = l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		claims = nil
		n, err := l.exec(ctx, tx, `UPDATE durable_control
			SET pause_until = {now} + {least}(CAST($1 AS BIGINT), {impossible}), probe = $2
			WHERE paused = 0 AND pause_until > 0 AND NOT pause_until BETWEEN {now} + 1 AND {now} + {impossible}
				AND CAST($3 AS TEXT) = `+l.identity, lease, token, identity)
		if err != nil || n == 0 {
			return err
		}
		users, err := l.texts(ctx, tx, `WITH due AS MATERIALIZED (
				SELECT q.kind, q.generation, q.due_at, q.user_data, q.created_at FROM durable_queue AS q
				WHERE q.kind = 'payout' AND q.generation = (SELECT generation FROM durable_control) AND q.due_at <= {now}
					AND {unnotified} ORDER BY q.due_at, q.user_data LIMIT 1{skip})
			DELETE FROM durable_queue WHERE (kind, generation, due_at, user_data, created_at) IN (SELECT * FROM due)
			RETURNING user_data`)
		if err != nil {
			return err
		}
		if len(users) > 0 {
			if claims, err = l.claimOne(ctx, tx, users[0], token, lease); err != nil {
				return err
			}
			if mark, err = l.mark(ctx, tx); err != nil {
				return err
			}
		}
		if len(claims) == 0 {
			_, err = l.exec(ctx, tx, `UPDATE durable_control SET pause_until = 0, probe = ''`)
		}
		return err
	})
	return claims, mark, err
}

func (l *Ledger) claimOne(
	ctx context.Context, tx *sql.Tx, userData, token string, lease int64,
) (claims []Claim, err error) {
	c := Claim{UserData: userData, Token: token}
	err = l.query(ctx, tx, func(rows *sql.Rows) error {
		err := rows.Scan(&c.Kind, &c.Claims, &c.ClaimedAt)
		claims = []Claim{c}
		return err
	}, `INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
		SELECT user_data, kind, $2, claims + 1, {now}, {now} + $3, created_at FROM durable_rows
		WHERE user_data = $1 AND state = 'created' ON CONFLICT DO NOTHING RETURNING kind, claims, claimed_at`,
		userData, token, lease)
	if err != nil || len(claims) == 0 {
		return nil, err
	}
	one := &claims[0]
	return claims, l.row(ctx, tx, []any{&one.Type, &one.Amount, &one.Destination},
		`SELECT type, amount, destination FROM durable_rows WHERE user_data = $1`, userData)
}

// Pay stores a payment and claims it for its caller, in one commit. It reports false if the user_data exists or is
// pruned.
func (l *Ledger) Pay(ctx context.Context, r NewRow, token string, lease int64) (added bool, err error) {
	id := identity(r.UserData)
	insert := `INSERT INTO durable_rows (kind, user_data, reference, type, amount, state, due_at, created_at, updated_at)
		SELECT 'payment', $1, $2, $3, $4, 'created', {now}, {now}, {now} WHERE ` + absent(`$1`, `$5`, `$6`)
	claim := `INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
		SELECT user_data, kind, $2, 1, {now}, {now} + $3, created_at FROM `
	if l.Dialect == PostgreSQL {
		insert, err := l.sized(ctx, l.DB, `WITH added AS (INSERT INTO durable_rows
				(kind, user_data, reference, type, amount, state, due_at, created_at, updated_at)
				SELECT 'payment', $1, $4, $5, $6, 'created', now, now AS created_at, now AS updated_at
				FROM (SELECT {now} AS now OFFSET 0) AS clock
				WHERE `+absent(`$1`, `$7`, `$8`)+` ON CONFLICT DO NOTHING RETURNING user_data, kind, created_at) `+claim+`added`)
		if err != nil {
			return false, err
		}
		n, err := l.write(ctx, insert, r.UserData, token, lease, r.Reference, r.Type, r.Amount, id.High, id.Low)
		return n == 1, err
	}
	err = l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		n, err := l.exec(ctx, tx, insert, r.UserData, r.Reference, r.Type, r.Amount, id.High, id.Low)
		if added = n == 1; err != nil || !added {
			return err
		}
		_, err = l.exec(ctx, tx, claim+`durable_rows WHERE user_data = $1`, r.UserData, token, lease)
		return err
	})
	return added, err
}

// Lease is a claim of any process.
type Lease struct {
	UserData, Token   string
	Claims, ClaimedAt int64
	Ended             bool // by the database's clock
}

// Leases returns the claims of all processes. A claim from the future was made while the database's clock was wrong, so
// only the sweeper's monotonic clock decides about it.
func (l *Ledger) Leases(ctx context.Context) (leases []Lease, err error) {
	err = l.query(ctx, l.DB, func(rows *sql.Rows) error {
		var one Lease
		err := rows.Scan(&one.UserData, &one.Token, &one.Claims, &one.ClaimedAt, &one.Ended)
		leases = append(leases, one)
		return err
	}, `SELECT user_data, token, claims, claimed_at, ends_at <= {now} OR claimed_at > {now} + {impossible}
		FROM durable_claims ORDER BY token LIMIT 10000`)
	return leases, err
}

// ResetImpossible makes rows due that became due in an impossible time, because the database's clock was wrong.
func (l *Ledger) ResetImpossible(ctx context.Context, limit int) error {
	const future = `due_at > {now} + {impossible} AND (kind = 'payment' AND generation = 0
		OR kind = 'payout' AND generation = (SELECT generation FROM durable_control))`
	var found bool
	err := l.one(ctx, []any{&found}, `SELECT EXISTS (SELECT 1 FROM durable_queue WHERE `+future+`)`)
	if err != nil || !found {
		return err
	}
	return l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		users, err := l.dequeue(ctx, tx,
			`user_data IN (SELECT user_data FROM durable_queue WHERE `+future+` LIMIT $1){skip}`, limit)
		if err != nil {
			return err
		}
		if _, err := l.exec(ctx, tx, `UPDATE durable_rows SET due_at = {now}, updated_at = {now}, version = version + 1
			WHERE state = 'created' AND user_data`+l.in("$1"), list(users)); err != nil {
			return err
		}
		return l.enqueue(ctx, tx, users)
	})
}

// Abandoned returns created payments older than age, in milliseconds.
func (l *Ledger) Abandoned(ctx context.Context, age int64, limit int) ([]string, error) {
	return l.texts(ctx, l.DB, `SELECT user_data FROM durable_queue
		WHERE kind = 'payment' AND generation = 0 AND created_at < {now} - $1 ORDER BY created_at LIMIT $2`, age, limit)
}

// PaymentsDue reports whether created payments are due.
func (l *Ledger) PaymentsDue(ctx context.Context) (due bool, err error) {
	err = l.one(ctx, []any{&due}, `SELECT EXISTS (SELECT 1 FROM durable_queue
		WHERE kind = 'payment' AND generation = 0 AND due_at <= {now})`)
	return due, err
}
