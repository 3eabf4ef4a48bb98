package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// NewRow is a row to be stored.
type NewRow struct {
	Kind        row.Kind `json:"-"`
	Reference   string   `json:"r"`
	UserData    string   `json:"u"`
	Type        string   `json:"t"`
	Amount      string   `json:"a"`
	Destination string   `json:"d"`
	Batch       string   `json:"b"`
	Line        int64    `json:"l"`
	Identity             // set by Queue
}

// Equal reports whether the existing row r has the kind, type, amount and destination of n.
func (n NewRow) Equal(r *row.Row) bool {
	return r != nil && r.Kind == n.Kind && r.Type == n.Type && r.Destination == n.Destination &&
		r.Amount.Equal(paymentsvc.MustParseAmount(n.Amount))
}

// Queue stores rows of one kind in the caller's transaction, and returns the user_data of the added rows. Queue skips
// existing and pruned rows.
func (l *Ledger) Queue(ctx context.Context, tx *sql.Tx, rows []NewRow) (added map[string]bool, err error) {
	for i := range rows {
		rows[i].Identity = identity(rows[i].UserData)
	}
	from := `SELECT value->>'r' AS r, value->>'u' AS u, value->>'t' AS t, value->>'a' AS a, value->>'d' AS d,
		value->>'b' AS b, value->>'l' AS l, value->>'h' AS h, value->>'k' AS k FROM json_each($1)`
	if l.Dialect == PostgreSQL {
		from = `SELECT * FROM json_to_recordset(CAST($1 AS TEXT)::JSON)
			AS v(r TEXT, u TEXT, t TEXT, a TEXT, d TEXT, b TEXT, l BIGINT, h BIGINT, k BIGINT)`
	}
	generation := `0`
	if rows[0].Kind == row.Payout { // during a hold, a new payout may be a sent payout that the restored backup lacks
		generation = `(SELECT generation - hold FROM durable_control)`
	}
	insert, err := l.sized(ctx, tx, `INSERT INTO durable_rows
			(kind, user_data, reference, type, amount, destination, batch, line, generation, state, due_at,
			created_at, updated_at)
		SELECT $2, u, r, t, a, d, b, l, `+generation+`, 'created', now, now AS created_at, now AS updated_at
		FROM (`+from+`) AS v, (SELECT {now} AS now) AS t WHERE `+absent(`v.u`, `v.h`, `v.k`)+`
		ON CONFLICT DO NOTHING RETURNING user_data`)
	if err != nil {
		return nil, err
	}
	users, err := l.texts(ctx, tx, insert, list(rows), string(rows[0].Kind))
	if err != nil {
		return nil, err
	}
	added = map[string]bool{}
	for _, userData := range users {
		added[userData] = true
	}
	return added, l.enqueue(ctx, tx, users)
}

// Batch is a file of payouts.
type Batch struct {
	ID, Name      string
	Line          int64
	Complete      bool
	ExpectedRows  int64
	ExpectedTotal paymentsvc.Amount
	Rejected      int64
	References    string
	Pruned        int64
	CreatedAt     time.Time
}

// batches returns the batches that a statement with the given end selects.
func (l *Ledger) batches(ctx context.Context, on rowser, end string, args ...any) ([]Batch, error) {
	return collect(ctx, l, on, func(b *Batch) []any {
		return []any{
			&b.ID, &b.Name, &b.Line, &b.Complete, &b.ExpectedRows, &b.ExpectedTotal, &b.Rejected, &b.References,
			&b.Pruned, millis{&b.CreatedAt},
		}
	}, `SELECT id, name, line, complete, expected_rows, expected_total, rejected, refs, pruned, created_at
		FROM durable_batches `+end, args...)
}

// AddBatch stores a batch in the caller's transaction and returns the stored batch. If the ID exists, AddBatch only
// changes Rejected, which it does not increase in a complete batch, and sets References if they are "".
func (l *Ledger) AddBatch(ctx context.Context, tx *sql.Tx, b Batch) (Batch, error) {
	if _, err := l.exec(ctx, tx, `INSERT INTO durable_batches
			(id, name, expected_rows, expected_total, rejected, refs, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, {now}) ON CONFLICT (id)
		DO UPDATE SET rejected = CASE WHEN durable_batches.complete = 1 AND durable_batches.rejected < excluded.rejected
			THEN durable_batches.rejected ELSE excluded.rejected END,
			refs = CASE durable_batches.refs WHEN '' THEN excluded.refs ELSE durable_batches.refs END`,
		b.ID, b.Name, b.ExpectedRows, b.ExpectedTotal, b.Rejected, b.References); err != nil {
		return Batch{}, err
	}
	return l.Batch(ctx, tx, b.ID)
}

// Batch returns the batch with an ID, or ErrNotFound.
func (l *Ledger) Batch(ctx context.Context, on rowser, id string) (Batch, error) {
	stored, err := l.batches(ctx, on, `WHERE id = $1`, id)
	if err != nil || len(stored) == 0 {
		return Batch{}, cmp.Or(err, ErrNotFound)
	}
	return stored[0], nil
}

// AdvanceBatch moves an incomplete batch from one line to another in the caller's transaction. It reports false if the
// batch is unknown or complete, or if its line does not equal from.
func (l *Ledger) AdvanceBatch(ctx context.Context, tx *sql.Tx, id string, from, to int64, complete bool) (bool, error) {
	n, err := l.exec(ctx, tx, `UPDATE durable_batches SET line = $1, complete = $2
		WHERE id = $3 AND line = $4 AND complete = 0`, to, flag(complete), id, from)
	return n == 1, err
}

// Batches returns the batches, the newest first. It reads from l.Read.
func (l *Ledger) Batches(ctx context.Context) ([]Batch, error) {
	return l.batches(ctx, l.Read, `ORDER BY created_at DESC, id`)
}
