package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/paymentsvc/paymentsvc"
)

// Row is an order or a payout as operators see it. Destination is masked: nothing behind the store needs all of it but
// the call.
type Row struct {
	Table     Table
	UserData  string
	Amount    paymentsvc.Amount
	State     State
	OrderID   string
	Attempts  int
	Doubted   bool
	Refusal   string
	Attention string
	DueAt     time.Time
	CreatedAt time.Time
	UpdatedAt time.Time

	Type        string // of an order
	Reference   string // of a payout, as are those that follow
	Destination string
	FileID      string
	Line        int64
}

// Allows says whether a person may decide so of the row.
func (r Row) Allows(k DecisionKind) bool { return k.allowed(r.Table, r.State, r.OrderID, r.Attention) }

// Version is another one when something has changed that a decision may rest on.
func (r Row) Version() string {
	text := fmt.Sprintf("%s %q %d %s", r.State, r.OrderID, r.Attempts, r.Attention)
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// Mask leaves of a destination the last four characters, and nothing of one that is shorter than eight.
func Mask(destination string) string {
	const shown = 4
	if utf8.RuneCountInString(destination) < 2*shown {
		return "••••"
	}
	characters := []rune(destination)
	return "•••• " + string(characters[len(characters)-shown:])
}

// Filter picks rows.
type Filter struct {
	Table Table
	// State and FileID are "" for all.
	State  State
	FileID string
	// Attention picks those that a person has to look at.
	Attention bool
	// After is the Next of the page before, "" for the first page.
	After string
	// Limit is the number of rows of a page.
	Limit int
}

// Rows gives a page of rows, the youngest first, and what Filter.After of the next page is, "" when there is none.
func (s *Store) Rows(ctx context.Context, f Filter) (list []Row, next string, err error) {
	query, args := rowColumns(f.Table)+` WHERE 1 = 1`, []any{}
	add := func(condition string, values ...any) {
		for _, value := range values {
			args = append(args, value)
			condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(args)), 1)
		}
		query += ` AND ` + condition
	}
	if f.State != "" {
		add(`state = ?`, string(f.State))
	}
	if f.FileID != "" && f.Table == Payouts {
		add(`file_id = ?`, f.FileID)
	}
	if f.Attention {
		add(`attention <> ''`)
	}
	if at, key, ok := readCursor(f.After); ok {
		add(`(created_at, user_data) < (?, ?)`, at, key)
	}
	args = append(args, f.Limit+1) // one more tells whether a page follows
	rows, err := s.db.QueryContext(ctx, query+` ORDER BY created_at DESC, user_data DESC LIMIT $`+strconv.Itoa(len(args)), args...)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		r, err := scanRow(f.Table, rows)
		if err != nil {
			return nil, "", err
		}
		list = append(list, r)
	}
	if len(list) > f.Limit {
		list = list[:f.Limit]
		last := list[f.Limit-1]
		next = cursor(last.CreatedAt, last.UserData)
	}
	return list, next, rows.Err()
}

// Row gives one row, or ErrNotFound.
func (s *Store) Row(ctx context.Context, t Table, userData string) (Row, error) {
	r, err := scanRow(t, s.db.QueryRowContext(ctx, rowColumns(t)+` WHERE user_data = $1`, userData))
	if errors.Is(err, sql.ErrNoRows) {
		return r, ErrNotFound
	}
	return r, err
}

func rowColumns(t Table) string {
	own := `payment_type, '', '', '', 0`
	if t == Payouts {
		own = `'', reference, destination, file_id, line`
	}
	return `SELECT user_data, amount, state, COALESCE(order_id, ''), attempts, doubted, refusal, attention,
		due_at, created_at, updated_at, ` + own + ` FROM ` + string(t)
}

func scanRow(t Table, from interface{ Scan(into ...any) error }) (Row, error) {
	r := Row{Table: t}
	var doubted, due, created, updated int64
	err := from.Scan(&r.UserData, &r.Amount, &r.State, &r.OrderID, &r.Attempts, &doubted, &r.Refusal, &r.Attention,
		&due, &created, &updated, &r.Type, &r.Reference, &r.Destination, &r.FileID, &r.Line)
	r.Doubted, r.Destination = doubted == 1, Mask(r.Destination)
	r.DueAt, r.CreatedAt, r.UpdatedAt = time.UnixMilli(due), time.UnixMilli(created), time.UnixMilli(updated)
	return r, err
}

// cursor names a place in a list that is ordered by a time and a key.
func cursor(at time.Time, key string) string { return strconv.FormatInt(millis(at), 10) + "." + key }

func readCursor(text string) (at int64, key string, ok bool) {
	millis, key, ok := strings.Cut(text, ".")
	if !ok {
		return 0, "", false
	}
	at, err := strconv.ParseInt(millis, 10, 64)
	return at, key, err == nil
}

// Files gives the files that were imported last, the latest first.
func (s *Store) Files(ctx context.Context, most int) ([]PayoutFile, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT id FROM payout_files ORDER BY created_at DESC, id LIMIT $1`, most)
	if err != nil {
		return nil, err
	}
	ids, err := texts(rows, nil) // it closes rows: SQLite has but one connection here
	if err != nil {
		return nil, err
	}
	list := make([]PayoutFile, 0, len(ids))
	for _, id := range ids {
		file, err := s.PayoutFile(ctx, id)
		if err != nil {
			return nil, err
		}
		list = append(list, file)
	}
	return list, nil
}

// Told is a notification as it was stored.
type Told struct {
	Event, OrderID, UserData, StatusName string
	Status, StatusCode                   int64
	Amount                               paymentsvc.Amount
	Matched                              bool // false while nobody knows whose order_id it is
	At                                   time.Time
	key                                  string
}

const toldColumns = `SELECT event, order_id, user_data, status_name, status, status_code, amount, matched, received_at, key FROM notifications`

// Notifications gives a page of notifications, the latest first, and what after is for the next page, "" when there is
// none. event is "" for all.
func (s *Store) Notifications(ctx context.Context, event, after string, limit int) (list []Told, next string, err error) {
	at, key, ok := readCursor(after)
	if !ok {
		at, key = 1<<62, ""
	}
	list, err = s.told(ctx, toldColumns+` WHERE ($1 = '' OR event = $1) AND (received_at, key) < ($2, $3)
		ORDER BY received_at DESC, key DESC LIMIT $4`, event, at, key, limit+1)
	if len(list) > limit {
		list = list[:limit]
		last := list[limit-1]
		next = cursor(last.At, last.key)
	}
	return list, next, err
}

// NotificationsOf gives what was told of a row, the latest first.
func (s *Store) NotificationsOf(ctx context.Context, r Row) ([]Told, error) {
	return s.told(ctx, toldOf(r.Table), r.UserData, r.OrderID)
}

func toldOf(t Table) string {
	events := `event = 'payout.status_changed'`
	if t == Orders {
		events = `event <> 'payout.status_changed'` // refunds carry the payment's order_id
	}
	return toldColumns + ` WHERE (user_data = $1 OR order_id = $2 AND order_id <> '') AND ` + events + `
		ORDER BY received_at DESC, key DESC LIMIT 50`
}

func (s *Store) told(ctx context.Context, query string, args ...any) (list []Told, err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n Told
		var matched, at int64
		if err := rows.Scan(&n.Event, &n.OrderID, &n.UserData, &n.StatusName, &n.Status, &n.StatusCode, &n.Amount,
			&matched, &at, &n.key); err != nil {
			return nil, err
		}
		n.Matched, n.At = matched == 1, time.UnixMilli(at)
		list = append(list, n)
	}
	return list, rows.Err()
}
