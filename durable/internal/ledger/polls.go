package ledger

import (
	"context"
	"database/sql"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Poll is an unknown or pending row to poll the service for.
type Poll struct {
	*row.Row
	Now int64 // the database's time
}

// ClaimedBefore reports whether the last claim is older than age, in milliseconds. A claim from the future counts as
// older, because the database's clock was wrong. Then only the monotonic clock of the process decides.
func (p Poll) ClaimedBefore(age int64) bool {
	return p.Now-p.ClaimedAt >= age || p.ClaimedAt-p.Now > impossible
}

// DuePolls returns due unknown rows, except payouts without an order_id. It commits the next due times first, so that
// only one process polls for a row. If a row without a review reason has more polls than patience, it flags the row for
// review.
func (l *Ledger) DuePolls(ctx context.Context, limit, patience int) (polls []Poll, err error) {
	const due = `state = 'unknown' AND rare = 'unknown' AND (due_at <= {now} OR due_at > {now} + {impossible})`
	return l.postpone(ctx, `WITH due AS MATERIALIZED (SELECT user_data FROM durable_rows
			WHERE `+due+` AND (kind = 'payment' OR order_id <> '') ORDER BY due_at LIMIT $1{skip})
		UPDATE durable_rows SET polls = polls + 1, updated_at = {now},
			due_at = {now} + CASE WHEN polls >= 9 THEN 600000 ELSE 1000 * (1 << CAST(polls AS INTEGER)) END,
			version = CASE WHEN review_reason = '' AND polls >= $2 THEN version + 1 ELSE version END,
			review_reason = CASE WHEN review_reason = '' AND polls >= $2 THEN $3 ELSE review_reason END
		WHERE `+due+` AND user_data IN (SELECT user_data FROM due)
		RETURNING user_data`, limit, patience, row.NotConfirmed)
}

const (
	// pendingPage is the number of pending rows that one call of DuePending reads.
	pendingPage = 500
	// minPendingWait is the wait before the first poll of a pending row, in milliseconds. Each later wait is the time
	// since the row's last claim, at most maxPendingWait.
	minPendingWait = 60_000
	maxPendingWait = 3_600_000
)

// DuePending returns up to limit due pending rows of a kind. It reads the rows after a place, in the order of their
// creation. next is the place for the next call, and zero at the end of the list. The due times of pending rows have no
// index, because each call of the service would then write another index entry and a quarter more WAL. DuePending
// commits the next due times first, so that only one process polls for a row.
func (l *Ledger) DuePending(
	ctx context.Context, k row.Kind, after Place, limit int,
) (polls []Poll, next Place, err error) {
	f := Filter{Kind: k, State: row.Pending, OldestFirst: true, After: after}
	page, now, err := l.Page(ctx, l.DB, f, pendingPage)
	if err != nil {
		return nil, after, err
	}
	var due []string
	for i, r := range page {
		next = Place{r.CreatedAt, r.UserData}
		if (Poll{r, now}).ClaimedBefore(minPendingWait) && (r.DueAt <= now || r.DueAt > now+2*maxPendingWait) {
			due = append(due, r.UserData)
		}
		if i == len(page)-1 && len(page) < pendingPage {
			next = Place{}
		}
		if len(due) == limit {
			break
		}
	}
	if len(due) == 0 {
		return nil, next, nil
	}
	polls, err = l.postpone(ctx, `UPDATE durable_rows SET polls = polls + 1, updated_at = {now},
			due_at = {now} + {least}(CAST($2 AS BIGINT), {greatest}(CAST($3 AS BIGINT), {now} - claimed_at))
		WHERE state = 'pending' AND (due_at <= {now} OR due_at > {now} + 2 * CAST($2 AS BIGINT))
			AND user_data{in $1} RETURNING user_data`, list(due), maxPendingWait, minPendingWait)
	if err != nil {
		return nil, after, err
	}
	return polls, next, nil
}

// postpone runs an UPDATE that postpones polls, and returns the changed rows.
func (l *Ledger) postpone(ctx context.Context, update string, args ...any) (polls []Poll, err error) {
	err = l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		users, err := l.texts(ctx, tx, update, args...)
		if err != nil || len(users) == 0 {
			return err
		}
		rows, now, err := l.rows(ctx, tx, `r.user_data{in $1}`, list(users))
		polls = nil
		for _, r := range rows {
			polls = append(polls, Poll{r, now})
		}
		return err
	})
	return polls, err
}
