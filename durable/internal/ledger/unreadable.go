package ledger

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"strconv"
	"time"
)

// ErrFull reports that too many unreadable notifications wait for a review.
var ErrFull = errors.New("durable: " + strconv.Itoa(maxUnreadable) + " unreadable notifications wait for a review")

const (
	// maxUnreadable limits the unreviewed unreadable notifications, and separately the reviewed notifications. Several
	// processes together may store a few more.
	maxUnreadable = 1000
	// MaxUnreadableBytes is the maximum number of stored bytes of a notification.
	MaxUnreadableBytes = 64 << 10
)

// Unreadable is a genuine notification with an unreadable body.
type Unreadable struct {
	Key, Reason string
	Body        []byte // first MaxUnreadableBytes of the body
	Size        int64  // bytes of the whole body
	ReceivedAt  time.Time
}

// StoreUnreadable commits an unreadable notification, once by its Key. The error may wrap ErrFull.
func (l *Ledger) StoreUnreadable(ctx context.Context, u Unreadable) error {
	return l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var known, waiting int64
		if err := l.one(ctx, tx, []any{&known, &waiting}, `SELECT
			(SELECT COUNT(*) FROM durable_unreadable WHERE key = $1),
			(SELECT COUNT(*) FROM durable_unreadable WHERE reviewed_at = 0)`, u.Key); err != nil || known > 0 {
			return err
		}
		if waiting >= maxUnreadable {
			return ErrFull
		}
		body := base64.StdEncoding.EncodeToString(u.Body[:min(len(u.Body), MaxUnreadableBytes)])
		_, err := l.exec(ctx, tx, `INSERT INTO durable_unreadable (key, reason, body, size, received_at)
			VALUES ($1, $2, $3, $4, {now}) ON CONFLICT (key) DO NOTHING`, u.Key, Storable(u.Reason), body, u.Size)
		return err
	})
}

// Unreadable returns the unreadable notifications without a review, the oldest first. It reads from l.Read.
func (l *Ledger) Unreadable(ctx context.Context, limit int) ([]Unreadable, error) {
	list, err := collect(ctx, l, l.Read, func(u *Unreadable) []any {
		return []any{&u.Key, &u.Reason, &u.Body, &u.Size, millis{&u.ReceivedAt}}
	}, `SELECT key, reason, body, size, received_at FROM durable_unreadable
		WHERE reviewed_at = 0 ORDER BY received_at, key LIMIT $1`, limit)
	for i, u := range list {
		body, failed := base64.StdEncoding.AppendDecode(nil, u.Body)
		list[i].Body, err = body, errors.Join(err, failed)
	}
	return list, err
}

// ReviewUnreadable marks an unreadable notification as reviewed, and keeps the last maxUnreadable reviewed ones. The
// error is ErrNotFound if the key is unknown or already reviewed.
func (l *Ledger) ReviewUnreadable(ctx context.Context, key, by string) error {
	return l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		n, err := l.exec(ctx, tx, `UPDATE durable_unreadable SET reviewed_by = $2, reviewed_at = {now}
			WHERE key = $1 AND reviewed_at = 0`, key, by)
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrNotFound
		}
		_, err = l.exec(ctx, tx, `DELETE FROM durable_unreadable WHERE reviewed_at > 0 AND key NOT IN (
			SELECT key FROM durable_unreadable WHERE reviewed_at > 0 ORDER BY reviewed_at DESC, key LIMIT $1)`, maxUnreadable)
		return err
	})
}
