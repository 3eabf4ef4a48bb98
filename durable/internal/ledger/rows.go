package ledger

import (
	"context"
	"database/sql"
	"errors"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// columns are the columns that scan reads, of the row r and its claim c.
const columns = `r.kind, r.user_data, r.reference, r.type, r.amount, r.destination, r.batch, r.line,
	CASE WHEN c.token IS NULL THEN r.state ELSE 'starting' END, r.order_id, r.order_id_taken, r.redirect_url,
	COALESCE(c.claims, r.claims), r.polls, r.may_have_started, r.error_code, r.review_reason, r.version,
	COALESCE(c.ends_at, r.due_at), COALESCE(c.claimed_at, r.claimed_at), r.created_at, r.updated_at, r.generation,
	CASE WHEN r.kind = 'payout' AND r.state = 'created' AND c.token IS NULL
		AND r.generation < (SELECT generation FROM durable_control) THEN 1 ELSE 0 END, COALESCE(c.token, '')`

// claimed is the FROM clause of columns.
const claimed = `durable_rows AS r LEFT JOIN durable_claims AS c ON c.user_data = r.user_data`

// scan reads columns, and further ones into into.
func scan(from interface{ Scan(into ...any) error }, into ...any) (*row.Row, error) {
	r := &row.Row{Due: row.KeepDue}
	var taken, started, held int64
	err := from.Scan(append([]any{
		&r.Kind, &r.UserData, &r.Reference, &r.Type, &r.Amount, &r.Destination, &r.Batch, &r.Line,
		&r.State, &r.OrderID, &taken, &r.RedirectURL,
		&r.Claims, &r.Polls, &started, &r.ErrorCode, &r.ReviewReason, &r.Version,
		&r.DueAt, &r.ClaimedAt, &r.CreatedAt, &r.UpdatedAt, &r.Generation, &held, &r.Token,
	}, into...)...)
	r.OrderIDTaken, r.MayHaveStarted, r.Held = taken == 1, started == 1, held == 1
	r.Loaded = r.State
	return r, err
}

// Row reads the row userData from the database that is written.
func (l *Ledger) Row(ctx context.Context, userData string) (*row.Row, error) {
	var found *row.Row
	err := l.query(ctx, l.DB, func(rows *sql.Rows) (err error) {
		found, err = scan(rows)
		return err
	}, `SELECT `+columns+` FROM `+claimed+` WHERE r.user_data = $1`, userData)
	if err == nil && found == nil {
		err = ErrNotFound
	}
	return found, err
}

// notFound replaces sql.ErrNoRows.
func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return err
}
