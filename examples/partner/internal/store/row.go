package store

import (
	"cmp"
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
	// orderIDTaken says that the service gave it an order_id that another row has: so the service has it, and a person
	// has to find out what it did.
	orderIDTaken bool

	before State // as it was loaded
}

// found changes r to what is so if the service has it under orderID. taken says that another row has that order_id.
func (r *row) found(orderID string, taken bool) {
	switch {
	case taken:
		if !r.settled() {
			r.state, r.doubted = StateUnknown, true
		}
		r.orderIDTaken = true
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
		r.state, r.refusal = StatePending, ""
		if !r.orderIDTaken {
			r.attention = "" // what there was to attend to was that nobody knew
		}
	}
}

// notified changes r to what is so by a notification.
func (r *row) notified(n notification, taken bool) {
	status := paymentsvc.StatusName(n.statusName)
	if unmoved := r.state == StateRejected || r.state == StateFailed && r.orderID == ""; unmoved &&
		status == paymentsvc.StatusFailure && !taken {
		// Refused or failed, whoever says so: no money has moved. A later notification may have no user_data.
		r.orderID = cmp.Or(r.orderID, n.orderID)
		return
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
	query := `SELECT user_data, amount, state, COALESCE(order_id, ''), order_id_taken, doubted, refusal, attention
		FROM ` + string(t) + ` WHERE ` + by + ` = $1`
	if tx.store.Postgres() {
		query += ` FOR UPDATE`
	}
	r := &row{table: t}
	var taken, doubted int64
	err := tx.QueryRowContext(ctx, query, value).
		Scan(&r.userData, &r.amount, &r.state, &r.orderID, &taken, &doubted, &r.refusal, &r.attention)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	r.before, r.orderIDTaken, r.doubted = r.state, taken == 1, doubted == 1
	return r, err
}

// taken says whether another row of r's table has orderID.
func (tx *transaction) taken(ctx context.Context, r *row, orderID string) (bool, error) {
	var n int
	err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM `+string(r.table)+` WHERE order_id = $1 AND user_data <> $2`,
		orderID, r.userData).Scan(&n)
	return n > 0, err
}

// found loads a row and changes it to what is so if the service has it under orderID.
func (tx *transaction) found(ctx context.Context, t Table, userData, orderID string) (*row, error) {
	if err := tx.lockOrderID(ctx, orderID); err != nil {
		return nil, err
	}
	r, err := tx.load(ctx, t, "user_data", userData)
	if err != nil {
		return nil, err
	}
	taken, err := tx.taken(ctx, r, orderID)
	if err != nil {
		return nil, err
	}
	r.found(orderID, taken)
	return r, tx.save(ctx, r)
}

// save writes a row that load has read.
func (tx *transaction) save(ctx context.Context, r *row) error {
	err := changed(tx.ExecContext(ctx, `UPDATE `+string(r.table)+`
		SET state = $1, order_id = NULLIF($2, ''), order_id_taken = $3, doubted = $4, refusal = $5, attention = $6,
			updated_at = $7
		WHERE user_data = $8 AND state = $9`,
		r.state, r.orderID, flag(r.orderIDTaken), flag(r.doubted), r.refusal, r.attention, millis(tx.store.now()), r.userData,
		r.before))
	r.before = r.state
	return err
}

// flag is how the database keeps yes and no.
func flag(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
