package ledger

import (
	"context"
	"crypto/rand"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Decision is an operator's decision about a row.
type Decision struct {
	Kind, UserData, OrderID, By string
	State                       row.State // before the decision
	ReviewReason                string
	At                          int64
}

// Unnotified reports whether no unmatched notification has r's user_data.
func (tx *Tx) Unnotified(ctx context.Context, r *row.Row) (yes bool, err error) {
	err = tx.l.row(ctx, tx.Tx, []any{&yes},
		`SELECT {unnotified} FROM durable_rows AS q WHERE q.user_data = $1`, r.UserData)
	return yes, err
}

// ClaimedBefore reports whether r's last claim is older than age, in milliseconds.
func (tx *Tx) ClaimedBefore(ctx context.Context, r *row.Row, age int64) (bool, error) {
	p := Poll{Row: r}
	err := tx.l.row(ctx, tx.Tx, []any{&p.Now}, `SELECT {now}`)
	return p.ClaimedBefore(age), err
}

// KeepDecision stores a decision.
func (tx *Tx) KeepDecision(ctx context.Context, d Decision) error {
	_, err := tx.l.exec(ctx, tx, `INSERT INTO durable_decisions
		(id, user_data, decision, order_id, state, review_reason, decided_by, decided_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, {now})`,
		rand.Text(), d.UserData, d.Kind, d.OrderID, string(d.State), d.ReviewReason, d.By)
	return err
}
