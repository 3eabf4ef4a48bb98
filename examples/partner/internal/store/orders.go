package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/paymentsvc/paymentsvc"
)

// Order is a payment that a buyer is to make.
type Order struct {
	// UserData is ours, and unique. It is stored before the first call.
	UserData string
	Type     paymentsvc.PaymentType
	Amount   paymentsvc.Amount
	State    State
	// OrderID is the service's, "" until it is known.
	OrderID string
	// RedirectURL is where the buyer pays, "" when none was given. The answer to a question by user_data holds none
	// (section 4.2), so an order whose first answer was lost has none either.
	RedirectURL string
	// Attempt names the last claim, and Attempts counts them all.
	Attempt  string
	Attempts int
	// Doubted says that an attempt may have been carried out, or had been when it was made.
	Doubted bool
	// Asked counts how often the service was asked whether it has the order.
	Asked     int
	ClaimedAt time.Time
	// DueAt is when a created order is to be started, an unknown one asked for, and a claim runs out.
	DueAt     time.Time
	CreatedAt time.Time
	UpdatedAt time.Time
	// Refusal is the service's error code for the last attempt, "" without one.
	Refusal string
	// Attention says why a person must look, "" where none must.
	Attention string
}

// CreateOrder stores a new order that is claimed already, for lease: one commit less than CreateOrder and Claim, and no
// other process can come between. See Claim for what must follow.
func (s *Store) CreateOrder(ctx context.Context, userData string, t paymentsvc.PaymentType, amount paymentsvc.Amount,
	lease time.Duration,
) (Claim, error) {
	now := s.now()
	c := Claim{Table: Orders, UserData: userData, Attempt: newAttempt()}
	_, err := s.db.ExecContext(ctx, `INSERT INTO orders
		(user_data, payment_type, amount, state, attempt, attempts, claimed_at, due_at, created_at, updated_at)
		VALUES ($1, $2, $3, 'starting', $4, 1, $5, $6, $5, $5)`,
		userData, string(t), amount, c.Attempt, millis(now), millis(now.Add(lease)))
	return c, err
}

const orderColumns = `user_data, payment_type, amount, state, COALESCE(order_id, ''), redirect_url, attempt, attempts,
	doubted, asked, claimed_at, due_at, created_at, updated_at, refusal, attention`

// Order gives an order, or ErrNotFound.
func (s *Store) Order(ctx context.Context, userData string) (Order, error) {
	o, err := scanOrder(s.db.QueryRowContext(ctx, `SELECT `+orderColumns+` FROM orders WHERE user_data = $1`, userData))
	if errors.Is(err, sql.ErrNoRows) {
		return o, ErrNotFound
	}
	return o, err
}

// DueOrders gives the orders in a state that are due, those that have been for longest first, and no more than most.
func (s *Store) DueOrders(ctx context.Context, state State, most int) (list []Order, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+orderColumns+` FROM orders
		WHERE state = $1 AND due_at <= $2 ORDER BY due_at, user_data LIMIT $3`, string(state), millis(s.now()), most)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		o, err := scanOrder(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, rows.Err()
}

// Absent records that the service does not have an unknown order, long enough after its last attempt, which attempt
// names. It may then be started again with the same user_data; but it is rejected where that attempt was refused, or,
// for reason, where one is given. It is ErrNotFound when something has changed meanwhile, and of an order of which the
// service has said that it has it.
func (s *Store) Absent(ctx context.Context, userData, attempt, reason string) error {
	return changed(s.db.ExecContext(ctx, `UPDATE orders
		SET state = CASE WHEN refusal = '' AND $1 = '' THEN 'created' ELSE 'rejected' END,
			refusal = CASE WHEN refusal = '' THEN $1 ELSE refusal END, attention = '', due_at = $2, updated_at = $2
		WHERE user_data = $3 AND attempt = $4 AND state = 'unknown' AND order_id IS NULL AND order_id_taken = 0`,
		reason, millis(s.now()), userData, attempt))
}

// GiveUp ends the starting of orders that are created and were made before a time: their buyers have gone. Those that
// certainly never reached the service are rejected, for reason; of the others it is to be found out first. It says how
// many they were.
func (s *Store) GiveUp(ctx context.Context, madeBefore time.Time, reason string) (n int, err error) {
	result, err := s.db.ExecContext(ctx, `UPDATE orders
		SET state = CASE WHEN doubted = 0 THEN 'rejected' ELSE 'unknown' END, refusal = $1, due_at = $2, updated_at = $2
		WHERE state = 'created' AND created_at < $3`, reason, millis(s.now()), millis(madeBefore))
	if err != nil {
		return 0, err
	}
	rows, err := result.RowsAffected()
	return int(rows), err
}

func scanOrder(from interface{ Scan(into ...any) error }) (o Order, err error) {
	var doubted, claimed, due, created, updated int64
	err = from.Scan(&o.UserData, &o.Type, &o.Amount, &o.State, &o.OrderID, &o.RedirectURL, &o.Attempt, &o.Attempts,
		&doubted, &o.Asked, &claimed, &due, &created, &updated, &o.Refusal, &o.Attention)
	o.Doubted = doubted == 1
	o.ClaimedAt, o.DueAt = time.UnixMilli(claimed), time.UnixMilli(due)
	o.CreatedAt, o.UpdatedAt = time.UnixMilli(created), time.UnixMilli(updated)
	return o, err
}
