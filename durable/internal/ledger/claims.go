package ledger

import (
	"context"
	"database/sql"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// A row stored as created is in the queue or has a claim, but never both. The commit of a claim also deletes the entry
// of the queue, so at most one process may call the service for the row. The token of a claim identifies its round,
// probe or call of Pay.

// Release makes the rows claimed with tokens due again. Their calls never began, and the commits of the claims may
// arrive late. The rows keep the number and the time of the claim, so that the claim does not look lost.
func (l *Ledger) Release(ctx context.Context, tokens []string) error {
	return l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		claims, err := l.texts(ctx, tx,
			`SELECT user_data FROM durable_claims WHERE token{in $1} ORDER BY user_data{lock}`, list(tokens))
		if err != nil || len(claims) == 0 {
			return err
		}
		for _, statement := range [...]string{
			`UPDATE durable_rows SET claims = c.claims, claimed_at = c.claimed_at, due_at = {now}, updated_at = {now},
				version = version + 1 FROM durable_claims AS c
				WHERE durable_rows.user_data = c.user_data AND state = 'created' AND c.user_data{in $1}`,
			`DELETE FROM durable_claims WHERE user_data{in $1}`,
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
		WHERE state = 'created' AND user_data{in $1} ON CONFLICT DO NOTHING`)
	if err == nil {
		_, err = l.exec(ctx, tx, insert, list(userData))
	}
	return err
}

// requeue makes created rows due after a dequeue. set contains more assignments, each with a final comma.
func (l *Ledger) requeue(ctx context.Context, tx *sql.Tx, userData []string, set string, args ...any) error {
	if _, err := l.exec(ctx, tx, `UPDATE durable_rows SET `+set+` due_at = {now}, updated_at = {now}, version = version + 1
		WHERE state = 'created' AND user_data{in $1}`, append([]any{list(userData)}, args...)...); err != nil {
		return err
	}
	return l.enqueue(ctx, tx, userData)
}

// dequeue removes the selected created rows from the queue, and returns the user_data of the removed rows. The
// condition where must end with {lock} or {skip}, so that the rows are locked first, as in Change. On PostgreSQL
// dequeue looks up each row by the key, because without statistics a join would compare all pairs of rows.
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

// claim claims at most limit due rows of a kind.
func (l *Ledger) claim(
	ctx context.Context, tx interface {
		execer
		rowser
	}, r Request, k row.Kind, generation int64, limit int,
) ([]Claim, error) {
	if limit <= 0 {
		return nil, nil
	}
	after := r.AfterPayouts
	if k == row.Payment {
		after = r.AfterPayments
	}
	due, err := l.texts(ctx, tx, claimSQL[0], string(k), generation, after.At, after.Key, limit)
	if err != nil || len(due) == 0 {
		return nil, err
	}
	users := list(due)
	if _, err := l.exec(ctx, tx, claimSQL[1], users, r.Token, r.Lease); err != nil {
		return nil, err
	}
	return collect(ctx, l, tx, func(c *Claim) []any {
		return []any{
			&c.UserData, &c.Kind, &c.Type, &c.Amount, &c.Destination, &c.Token, &c.Claims, &c.ClaimedAt, &c.dueAt,
		}
	}, claimSQL[2], users, r.Token)
}

// Probe claims one payout after a timed pause. Only one process receives it. The pause continues until the result of
// the call, at most for a lease. Without a due payout the pause ends. Probe claims no payout if the value of Identify's
// expression differs from identity. The error is ErrOlder if the mark of SQLite is below witnessed.
func (l *Ledger) Probe(
	ctx context.Context, token string, lease int64, identity string, witnessed int64,
) (claims []Claim, mark int64, err error) {
	err = l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		claims = nil
		generations, err := collect(ctx, l, tx, func(n *int64) []any { return []any{n} }, `UPDATE durable_control
			SET pause_until = {now} + {least}(CAST($1 AS BIGINT), {impossible}), probe = $2
			WHERE paused = 0 AND pause_until > 0 AND NOT pause_until BETWEEN {now} + 1 AND {now} + {impossible}
				AND CAST($3 AS TEXT) = `+l.identity+` RETURNING generation`, lease, token, identity)
		if err != nil || len(generations) == 0 {
			return err
		}
		claims, err = l.claim(ctx, tx, Request{Token: token, Lease: lease}, row.Payout, generations[0], 1)
		if err != nil {
			return err
		}
		if len(claims) == 0 {
			_, err = l.exec(ctx, tx, `UPDATE durable_control SET pause_until = 0, probe = ''`)
			return err
		}
		mark, err = l.raiseMark(ctx, tx, witnessed)
		return err
	})
	return claims, mark, err
}

// Pay stores a payment and claims it for its caller, in one commit. It reports false if the user_data exists or is
// pruned.
func (l *Ledger) Pay(ctx context.Context, r NewRow, token string, lease int64) (added bool, err error) {
	id := identity(r.UserData)
	args := []any{r.UserData, token, lease, r.Reference, r.Type, r.Amount, id.High, id.Low}
	insert := `INSERT INTO durable_rows (kind, user_data, reference, type, amount, state, due_at, created_at, updated_at)
		SELECT 'payment', $1, $4, $5, $6, 'created', now, now AS created_at, now AS updated_at
		FROM (SELECT {now} AS now LIMIT 1 OFFSET 0) AS clock WHERE ` + absent(`$1`, `$7`, `$8`) + ` ON CONFLICT DO NOTHING`
	claim := `INSERT INTO durable_claims (user_data, kind, token, claims, claimed_at, ends_at, created_at)
		SELECT user_data, kind, $2, 1, {now}, {now} + $3, created_at FROM `
	if l.Dialect == PostgreSQL {
		both, err := l.sized(ctx, l.DB, `WITH added AS (`+insert+` RETURNING user_data, kind, created_at) `+claim+`added`)
		if err != nil {
			return false, err
		}
		n, err := l.write(ctx, both, args...)
		return n == 1, err
	}
	err = l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		n, err := l.exec(ctx, tx, insert, args...)
		added = n == 1
		if err != nil || !added {
			return err
		}
		_, err = l.exec(ctx, tx, claim+`durable_rows WHERE user_data = $1`, args[:3]...)
		return err
	})
	return added, err
}

// Lease is the claim of a row by any process.
type Lease struct {
	row.Claim
	Ended bool // by the database's clock
}

// Leases returns up to 10,000 claims of all processes, the ended claims first, so that they do not wait behind others.
// A claim from the future counts as ended, because the database's clock was wrong. Then only the caller's monotonic
// clock decides about it.
func (l *Ledger) Leases(ctx context.Context) ([]Lease, error) {
	return collect(ctx, l, l.DB, func(one *Lease) []any {
		return []any{&one.UserData, &one.Token, &one.Claims, &one.ClaimedAt, &one.Ended}
	}, `SELECT user_data, token, claims, claimed_at, ends_at <= {now} OR claimed_at > {now} + {impossible} AS ended
		FROM durable_claims ORDER BY ended DESC, ends_at, user_data LIMIT 10000`)
}

// ResetImpossible makes rows with an impossible due time due, because the database's clock was wrong, see impossible.
func (l *Ledger) ResetImpossible(ctx context.Context, limit int) error {
	const future = `due_at > {now} + {impossible} AND (kind = 'payment' AND generation = 0
		OR kind = 'payout' AND generation = (SELECT generation FROM durable_control))`
	var found bool
	err := l.one(ctx, l.DB, []any{&found}, `SELECT EXISTS (SELECT 1 FROM durable_queue WHERE `+future+`)`)
	if err != nil || !found {
		return err
	}
	return l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		users, err := l.dequeue(ctx, tx,
			`user_data IN (SELECT user_data FROM durable_queue WHERE `+future+` LIMIT $1){skip}`, limit)
		if err != nil {
			return err
		}
		return l.requeue(ctx, tx, users, ``)
	})
}

// Abandoned returns the user_data of created payments older than age, in milliseconds, and without an unapplied
// notification.
func (l *Ledger) Abandoned(ctx context.Context, age int64, limit int) ([]string, error) {
	return l.texts(ctx, l.DB, `SELECT user_data FROM durable_queue AS q WHERE kind = 'payment' AND generation = 0
		AND created_at < {now} - $1 AND {unnotified} ORDER BY created_at LIMIT $2`, age, limit)
}
