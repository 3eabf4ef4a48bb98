package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Table says which of the two kinds of rows a step is about: both go through the same states.
type Table string

// The tables.
const (
	Orders  Table = "orders"
	Payouts Table = "payouts"
)

// Claim is the right to start a row once, and to say what became of it.
type Claim struct {
	Table    Table
	UserData string
	// Attempt names the claim. Another one has another name.
	Attempt string
}

// Claim takes a row that is created and due, for lease. It is committed when Claim returns: only then may the service
// be called, and only once, with a context that ends well before lease does. ErrNotFound says that there is nothing to
// start: the row is not due yet, somebody else has claimed it, or it has been dealt with.
func (s *Store) Claim(ctx context.Context, t Table, userData string, lease time.Duration) (Claim, error) {
	now := s.now()
	c := Claim{Table: t, UserData: userData, Attempt: newAttempt()}
	err := changed(s.db.ExecContext(ctx, `UPDATE `+string(t)+`
		SET state = 'starting', attempt = $1, attempts = attempts + 1, claimed_at = $2, due_at = $3, refusal = '',
			updated_at = $2
		WHERE user_data = $4 AND state = 'created' AND due_at <= $2`,
		c.Attempt, millis(now), millis(now.Add(lease)), userData))
	return c, err
}

// Started records that the service has the row, under orderID, from its answer to a start. That is true whoever learnt
// it and however late, so it needs no claim: c.Attempt is not looked at. Notifications that came before are then
// applied. redirectURL is for orders, "" when none was given. An orderID that contradicts what is known already settles
// nothing: it calls for a person.
func (s *Store) Started(ctx context.Context, c Claim, orderID, redirectURL string) error {
	return s.change(ctx, func(tx *transaction) error {
		r, err := tx.found(ctx, c.Table, c.UserData, identifier(orderID))
		if err != nil {
			return err
		}
		if c.Table == Orders && redirectURL != "" {
			if _, err := tx.ExecContext(ctx, `UPDATE orders SET redirect_url = $1 WHERE user_data = $2 AND order_id = $3`,
				storable(redirectURL), c.UserData, identifier(orderID)); err != nil {
				return err
			}
		}
		return tx.applyWaiting(ctx, r)
	})
}

// Found records what Started does, from the service's answer to a question by user_data. An amount that is not set says
// nothing, and one other than the row's calls for a person.
func (s *Store) Found(ctx context.Context, t Table, userData, orderID string, amount paymentsvc.Amount) error {
	return s.change(ctx, func(tx *transaction) error {
		r, err := tx.found(ctx, t, userData, identifier(orderID))
		if err != nil {
			return err
		}
		if amount.IsSet() && !amount.Equal(r.amount) {
			r.attend(fmt.Sprintf("The service has it with %s instead of %s.", amount, r.amount))
			if err := tx.save(ctx, r); err != nil {
				return err
			}
		}
		return tx.applyWaiting(ctx, r)
	})
}

// NotSent records the proof that no byte of the claimed attempt left: the row may be claimed again from dueAt on. It
// is ErrNotFound once the claim has passed to somebody else, or the row has become known in another way.
func (s *Store) NotSent(ctx context.Context, c Claim, dueAt time.Time) error {
	return s.end(ctx, s.db, c, `state = 'created', due_at = $4`, millis(dueAt))
}

// Postponed records that the service refused the caller and not the row, with HTTP 401 or 429 for instance: the row may
// be claimed again from dueAt on. It is doubted from then on, so that a later refusal ("user_data was used before") is
// not taken for the end of it. Errors are those of NotSent.
func (s *Store) Postponed(ctx context.Context, c Claim, dueAt time.Time) error {
	return s.end(ctx, s.db, c, `state = 'created', doubted = 1, due_at = $4`, millis(dueAt))
}

// Refused records that the service refused the row, with its error code. The row is rejected then, unless an earlier
// attempt may have started it: then it stays unknown. Errors are those of NotSent.
func (s *Store) Refused(ctx context.Context, c Claim, code string) error {
	attention := ""
	if c.Table == Payouts {
		attention = "Refused, but an earlier call may have been carried out. Ask the service whether it was paid."
	}
	return s.end(ctx, s.db, c, `state = CASE WHEN doubted = 1 THEN 'unknown' ELSE 'rejected' END,
		attention = CASE WHEN doubted = 1 THEN $4 ELSE '' END, refusal = $5, due_at = $3`,
		attention, shorten(cmp.Or(code, "refused")))
}

// Unknown records that the claimed attempt may have been carried out. orderID is the order_id of an answer that was no
// success, "" without one: it is kept, and notifications that waited for it are applied. An orderID of another row calls
// for a person. attention says why a person must look, "" where none must; dueAt is when the service is to be asked.
// Errors are those of NotSent.
func (s *Store) Unknown(ctx context.Context, c Claim, orderID, attention string, dueAt time.Time) error {
	orderID = identifier(orderID)
	return s.change(ctx, func(tx *transaction) error {
		if err := tx.lockOrderID(ctx, orderID); err != nil {
			return err
		}
		err := s.end(ctx, tx, c, `state = 'unknown', doubted = 1, attention = $4, due_at = $5`, attention, millis(dueAt))
		if err != nil || orderID == "" {
			return err
		}
		r, err := tx.load(ctx, c.Table, "user_data", c.UserData)
		if err != nil {
			return err
		}
		taken, err := tx.taken(ctx, r, orderID)
		if err != nil {
			return err
		}
		if taken || r.orderID != "" && r.orderID != orderID {
			r.found(orderID, taken) // which calls for a person
			return tx.save(ctx, r)
		}
		r.orderID = orderID
		if err := tx.save(ctx, r); err != nil {
			return err
		}
		return tx.applyWaiting(ctx, r)
	})
}

// Asking records that the service is about to be asked whether it has an unknown row, before it is, so that of several
// processes one asks, and a process that dies leaves the next question to nextAt. attention says why a person must look
// meanwhile, "" leaves that as it is. It is ErrNotFound when there is nothing to ask.
func (s *Store) Asking(ctx context.Context, t Table, userData, attention string, nextAt time.Time) error {
	now := millis(s.now())
	return changed(s.db.ExecContext(ctx, `UPDATE `+string(t)+`
		SET asked = asked + 1, due_at = $1, attention = CASE WHEN attention = '' THEN $2 ELSE attention END, updated_at = $3
		WHERE user_data = $4 AND state = 'unknown' AND due_at <= $3`,
		millis(nextAt), attention, now, userData))
}

// execer is a *sql.DB or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// end ends a claim. Its set names $4 and so on for more, and $3 for the time.
func (s *Store) end(ctx context.Context, in execer, c Claim, set string, more ...any) error {
	return changed(in.ExecContext(ctx, `UPDATE `+string(c.Table)+` SET `+set+`, updated_at = $3
		WHERE user_data = $1 AND attempt = $2 AND state = 'starting'`,
		append([]any{c.UserData, c.Attempt, millis(s.now())}, more...)...))
}

// Abandoned makes unknown what was claimed and not recorded within its lease, because the process died or the database
// was away, and says how many rows that were.
func (s *Store) Abandoned(ctx context.Context, t Table, attention string) (n int, err error) {
	//nolint:gosec // a Table is one of two constants
	result, err := s.db.ExecContext(ctx, `UPDATE `+string(t)+`
		SET state = 'unknown', doubted = 1, attention = $1, due_at = $2, updated_at = $2
		WHERE state = 'starting' AND due_at <= $2`, attention, millis(s.now()))
	if err != nil {
		return 0, err
	}
	rows, err := result.RowsAffected()
	return int(rows), err
}
