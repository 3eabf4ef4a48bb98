package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"strings"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// columns are the columns that scan reads, from the row r and its claim c.
const columns = `r.kind, r.user_data, r.reference, r.type, r.amount, r.destination, r.batch, r.line,
	CASE WHEN c.token IS NULL THEN r.state ELSE 'starting' END, r.order_id, r.order_id_taken, r.redirect_url,
	COALESCE(c.claims, r.claims), r.polls, r.may_have_started, r.error_code, r.review_reason, r.version,
	COALESCE(c.ends_at, r.due_at), COALESCE(c.claimed_at, r.claimed_at), r.created_at, r.updated_at, r.generation,
	(SELECT generation FROM durable_control), COALESCE(c.token, '')`

// claimed is the FROM clause for columns. Statements contain {columns} and {claimed}.
const claimed = `durable_rows AS r LEFT JOIN durable_claims AS c ON c.user_data = r.user_data`

// scan reads columns and the database's time.
func scan(from *sql.Rows, now *int64) (*row.Row, error) {
	r := &row.Row{Due: row.KeepDue}
	err := from.Scan(
		&r.Kind, &r.UserData, &r.Reference, &r.Type, &r.Amount, &r.Destination, &r.Batch, &r.Line,
		&r.State, &r.OrderID, &r.OrderIDTaken, &r.RedirectURL,
		&r.Claims, &r.Polls, &r.MayHaveStarted, &r.ErrorCode, &r.ReviewReason, &r.Version,
		&r.DueAt, &r.ClaimedAt, &r.CreatedAt, &r.UpdatedAt, &r.Generation, &r.Current, &r.Token, now,
	)
	r.Loaded = r.State
	r.Held = r.Kind == row.Payout && r.State == row.Created && r.Generation < r.Current
	return r, err
}

// rows returns the rows that a condition selects, and the database's time, or 0 without a row.
func (l *Ledger) rows(
	ctx context.Context, on rowser, where string, args ...any,
) (found []*row.Row, now int64, err error) {
	err = l.query(ctx, on, func(rows *sql.Rows) error {
		r, err := scan(rows, &now)
		found = append(found, r)
		return err
	}, `SELECT {columns}, {now} FROM {claimed} WHERE `+where, args...)
	return found, now, err
}

// Row reads the row userData from l.DB.
func (l *Ledger) Row(ctx context.Context, userData string) (*row.Row, error) {
	return only(l.rows(ctx, l.DB, `r.user_data = $1`, userData))
}

// only, applied to the result of rows, returns the single row, or ErrNotFound if found is empty.
func only(found []*row.Row, _ int64, err error) (*row.Row, error) {
	if err != nil || len(found) == 0 {
		return nil, cmp.Or(err, ErrNotFound)
	}
	return found[0], nil
}

// Known returns the existing rows with these user_data, by user_data.
func (l *Ledger) Known(ctx context.Context, on rowser, userData []string) (map[string]*row.Row, error) {
	known := map[string]*row.Row{}
	found, _, err := l.rows(ctx, on, `r.user_data{in $1}`, list(userData))
	for _, r := range found {
		known[r.UserData] = r
	}
	return known, err
}

// Storable returns a text of the service or an operator in a form that both databases accept. PostgreSQL rejects NUL
// and invalid UTF-8.
func Storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", `\u0000`)
}

// Identifier returns an order_id or user_data of the service in its stored form. The document specifies no maximum
// length (section 8), and PostgreSQL indexes at most some 2,700 bytes, so a hash replaces the end of a long identifier.
func Identifier(text string) string {
	const longest = 1000
	text = Storable(text)
	if len(text) <= longest {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	end := hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(text[:longest-len(end)], "") + end
}
