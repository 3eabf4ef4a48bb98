package ledger

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// The statements of rounds.
var (
	//go:embed record_sqlite.sql
	recordFile string
	//go:embed claim.sql
	claimFile string

	recordSQLite = split(recordFile)
	claimSQL     = split(claimFile)
)

// split returns the statements of a file.
func split(file string) []string { return strings.Split(strings.TrimSuffix(file, ";\n"), ";\n") }

// controlSQLite reads whether a round may claim rows. The hashes of a pruned row are also evidence of its claim, and so
// is the time of a later hold, which [Ledger.Hold] stores as claimed_at.
const controlSQLite = `SELECT CASE
	WHEN $1 <> '' AND NOT EXISTS (SELECT 1 FROM durable_claims WHERE user_data = $1 AND token = $2)
		AND NOT EXISTS (SELECT 1 FROM durable_rows
			WHERE user_data = $1 AND (claims > $3
				OR claims = $3 AND (claimed_at IN ($4, held_at) OR claimed_at BETWEEN $4 AND held_at)))
		AND NOT EXISTS (SELECT 1 FROM durable_pruned WHERE id_high = $5 AND id_low = $6) THEN 'lost'
	WHEN paused = 1 OR pause_until BETWEEN {now} + 1 AND {now} + {impossible} THEN 'paused'
	WHEN pause_until > 0 THEN 'elapsed' ELSE 'open' END, generation, run_length FROM durable_control`

// Prepare compiles the statements of a round on SQLite. Otherwise each round would take twice as long.
func (l *Ledger) Prepare(ctx context.Context) error {
	if l.Dialect != SQLite {
		return nil
	}
	l.prepared = map[string]*sql.Stmt{}
	for _, query := range slices.Concat([]string{controlSQLite, markSQLite}, recordSQLite, claimSQL) {
		query = l.text.Replace(query)
		statement, err := l.DB.PrepareContext(ctx, query) //nolint:sqlclosecheck // it lives as long as the database
		if err != nil {
			return err
		}
		l.prepared[query] = statement
	}
	return nil
}

// compiled is a transaction that uses the prepared statements.
type compiled struct {
	*sql.Tx
	statements map[string]*sql.Stmt
}

// ExecContext implements execer.
func (c compiled) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := c.statements[query]; s != nil {
		return c.StmtContext(ctx, s).ExecContext(ctx, args...) //nolint:sqlclosecheck // the transaction closes it
	}
	return c.Tx.ExecContext(ctx, query, args...)
}

// QueryContext implements rowser.
func (c compiled) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := c.statements[query]; s != nil {
		return c.StmtContext(ctx, s).QueryContext(ctx, args...) //nolint:sqlclosecheck // the transaction closes it
	}
	return c.Tx.QueryContext(ctx, query, args...)
}

// roundSQLite runs a round in one transaction.
func (l *Ledger) roundSQLite(ctx context.Context, r Request, got *Round) error {
	return l.Tx(ctx, func(ctx context.Context, inner *sql.Tx) error {
		tx := compiled{inner, l.prepared}
		var generation int64
		last := identity(r.Last.UserData)
		err := l.query(ctx, tx, func(rows *sql.Rows) error {
			return rows.Scan(&got.Status, &generation, &got.runLength)
		}, controlSQLite, r.Last.UserData, r.Last.Token, r.Last.Claims, r.Last.ClaimedAt,
			last.High, last.Low)
		if err != nil {
			return err
		}
		if err := l.recordSQLite(ctx, tx, r, got); err != nil || got.Status != Open {
			return err
		}
		limit := r.limit(got.Recorded)
		if limit == 0 {
			return nil
		}
		got.Mark, err = l.raiseMark(ctx, tx, r.Witnessed)
		if errors.Is(err, ErrOlder) {
			got.Status = Moved
			return nil
		}
		if err != nil {
			return err
		}
		payments, err := l.claim(ctx, tx, r, row.Payment, 0, min(limit, r.MaxPayments))
		if err != nil {
			return err
		}
		payouts, err := l.claim(ctx, tx, r, row.Payout, generation, limit-len(payments))
		if err != nil {
			return err
		}
		got.Claims = slices.Concat(payments, payouts)
		return err
	})
}

func (l *Ledger) recordSQLite(ctx context.Context, tx compiled, r Request, got *Round) error {
	if len(r.Completions) == 0 {
		return nil
	}
	completions := list(r.Completions)
	named, err := l.texts(ctx, tx, recordSQLite[0], completions)
	if err != nil {
		return err
	}
	for _, userData := range named {
		got.Recorded[userData] = true
	}
	users := list(named)
	for _, statement := range recordSQLite[1:] {
		if _, err := l.exec(ctx, tx, statement, completions, users); err != nil {
			return err
		}
	}
	if got.runLength > 0 && r.payouts(got.Recorded) {
		_, err = l.exec(ctx, tx, endRun)
	}
	return err
}
