package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/paymentsvc/paymentsvc"
)

// row is what an order and a payout have in common, as it is being changed in a transaction.
type row struct {
	table     Table
	userData  string
	amount    paymentsvc.Amount
	state     State
	orderID   string // "" until it is known
	doubted   bool
	refusal   string
	attention string

	before State // as it was loaded
}

// found changes r to what is so if the service has it under orderID. taken says that another row has that order_id.
func (r *row) found(orderID string, taken bool) {
	switch {
	case taken:
		if !r.settled() {
			r.state, r.doubted = StateUnknown, true
		}
		r.attend("The service gave an order_id that another row has: " + shorten(orderID) + ".")
		return
	case r.orderID != "" && r.orderID != orderID:
		r.attend("The service has it under two order_ids: also " + shorten(orderID) + ".")
		return
	}
	unheard := r.orderID == "" // so a failure is a person's word, and not the service's
	r.orderID = orderID
	switch {
	case r.state == StateRejected:
		r.attend("The service has it, though it was refused: order_id " + shorten(orderID) + ".")
	case r.state == StateFailed && unheard:
		r.attend("The service has it, though it counted as not paid: order_id " + shorten(orderID) + ".")
	case !r.settled():
		r.state, r.refusal, r.attention = StatePending, "", "" // what there was to attend to was that nobody knew
	}
}

// notified changes r to what is so by a notification.
func (r *row) notified(n notification, taken bool) {
	status := paymentsvc.StatusName(n.statusName)
	if unmoved := r.state == StateRejected || r.state == StateFailed && r.orderID == ""; unmoved &&
		status == paymentsvc.StatusFailure && !taken {
		return // refused or failed, whoever says so: no money has moved
	}
	r.found(n.orderID, taken)
	if r.orderID != n.orderID {
		return
	}
	if !n.amount.Equal(r.amount) {
		r.attend(fmt.Sprintf("The service says %s of %s instead of %s.", shorten(n.statusName), n.amount, r.amount))
		return
	}
	var final State
	switch status {
	case paymentsvc.StatusSuccess:
		final = StateSucceeded
	case paymentsvc.StatusFailure:
		final = StateFailed
	default:
		return // no other status is final, and an old one may come late
	}
	switch {
	case r.state == StatePending:
		r.state = final
	case r.state != final:
		r.attend(fmt.Sprintf("The service says %s after it was %s.", n.statusName, r.state))
	}
}

// settled says whether r's state is known, so that only a notification may change it.
func (r *row) settled() bool { return r.state == StatePending || r.state.Final() }

// attend adds a reason for a person to look.
func (r *row) attend(reason string) {
	if !strings.Contains(r.attention, reason) && len(r.attention) < 1000 {
		r.attention = strings.TrimSpace(r.attention + " " + reason)
	}
}

// transaction reads and writes rows.
type transaction struct {
	*sql.Tx
	store *Store
}

// change runs f in a transaction, which f's error undoes.
func (s *Store) change(ctx context.Context, f func(tx *transaction) error) error {
	return s.inTx(ctx, func(tx *sql.Tx) error { return f(&transaction{tx, s}) })
}

// lockOrderID lets one transaction after the other deal with an order_id. Otherwise a notification and the answer that
// tells whose order_id it is could each miss the other, not being committed yet. SQLite has one writer anyway.
func (tx *transaction) lockOrderID(ctx context.Context, orderID string) error {
	if !tx.store.Postgres() {
		return nil
	}
	_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, orderID)
	return err
}

// load reads a row by user_data or order_id, and keeps others from changing it. Without one it is ErrNotFound.
func (tx *transaction) load(ctx context.Context, t Table, by, value string) (*row, error) {
	query := `SELECT user_data, amount, state, COALESCE(order_id, ''), doubted, refusal, attention
		FROM ` + string(t) + ` WHERE ` + by + ` = $1`
	if tx.store.Postgres() {
		query += ` FOR UPDATE`
	}
	r := &row{table: t}
	var doubted int64
	err := tx.QueryRowContext(ctx, query, value).
		Scan(&r.userData, &r.amount, &r.state, &r.orderID, &doubted, &r.refusal, &r.attention)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	r.before, r.doubted = r.state, doubted == 1
	return r, err
}

// taken says whether another row of r's table has orderID.
func (tx *transaction) taken(ctx context.Context, r *row, orderID string) (bool, error) {
	var n int
	err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM `+string(r.table)+` WHERE order_id = $1 AND user_data <> $2`,
		orderID, r.userData).Scan(&n)
	return n > 0, err
}

// save writes a row that load has read.
func (tx *transaction) save(ctx context.Context, r *row) error {
	doubted := 0
	if r.doubted {
		doubted = 1
	}
	return changed(tx.ExecContext(ctx, `UPDATE `+string(r.table)+`
		SET state = $1, order_id = NULLIF($2, ''), doubted = $3, refusal = $4, attention = $5, updated_at = $6
		WHERE user_data = $7 AND state = $8`,
		r.state, r.orderID, doubted, r.refusal, r.attention, millis(tx.store.now()), r.userData, r.before))
}
