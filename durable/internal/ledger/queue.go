package ledger

import (
	"context"
	"database/sql"

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

// Equal reports whether n is the existing row r.
func (n NewRow) Equal(r *row.Row) bool {
	return r != nil && r.Kind == n.Kind && r.Type == n.Type && r.Destination == n.Destination &&
		r.Amount.Equal(paymentsvc.MustParseAmount(n.Amount))
}

// Queue stores rows of one kind in the caller's transaction, and returns the user_data of the added ones. It leaves out
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
	if rows[0].Kind == row.Payout { // during a hold, new payouts may be those that a restored backup forgot
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

// Known returns the existing ones of the rows userData.
func (l *Ledger) Known(ctx context.Context, on rowser, userData []string) (map[string]*row.Row, error) {
	known := map[string]*row.Row{}
	err := l.query(ctx, on, func(rows *sql.Rows) error {
		r, err := scan(rows)
		known[r.UserData] = r
		return err
	}, `SELECT `+columns+` FROM `+claimed+` WHERE r.user_data`+l.in("$1"), list(userData))
	return known, err
}
