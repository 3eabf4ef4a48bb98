package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// pruneRows is the number of rows that one batch of Prune reads.
const pruneRows = 500

// prunable selects final rows without a review reason and without a change for $2 milliseconds.
const prunable = `state IN ('succeeded', 'failed', 'rejected') AND review_reason = '' AND updated_at <= {now} - $2`

// Identity is the key of a pruned row, a hash of its user_data.
type Identity struct {
	High int64 `json:"h"`
	Low  int64 `json:"k"`
}

func identity(userData string) Identity {
	sum := sha256.Sum256([]byte(userData))
	return Identity{hash64(sum[:]), hash64(sum[8:])}
}

func hash64(sum []byte) int64 { return int64(binary.BigEndian.Uint64(sum)) } //nolint:gosec // all bits are used

// orderHash returns the hash of a pruned row's order_id, or 0 for "".
func orderHash(k row.Kind, orderID string) int64 {
	if orderID == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(string(k) + "\x00" + orderID))
	return cmp.Or(hash64(sum[:]), 1)
}

// Hash returns a hash of the values that Equal compares. The hash also depends on the reference, which is not stored,
// so equal destinations have different hashes. NUL separates the values, because no value contains NUL.
func (n NewRow) Hash() int64 {
	amount := n.Amount
	if strings.Contains(amount, ".") { // 10.5 equals 10.50
		amount = strings.TrimSuffix(strings.TrimRight(amount, "0"), ".")
	}
	values := []string{string(n.Kind), n.Reference, n.Type, amount, n.Destination}
	sum := sha256.Sum256([]byte(strings.Join(values, "\x00")))
	return hash64(sum[:])
}

// absent returns the condition that no row and no pruned row has the user_data. Prune deletes the row in the
// transaction that stores its hashes, so each snapshot contains either the row or the hashes. Without the condition on
// rows, an insert that waited for Prune would succeed with its snapshot from before Prune. OFFSET 0 makes PostgreSQL
// look up one user_data at a time.
func absent(userData, high, low string) string {
	return `NOT EXISTS (SELECT 1 FROM durable_rows AS r WHERE r.user_data = ` + userData + ` LIMIT 1 OFFSET 0)
		AND NOT EXISTS (SELECT 1 FROM durable_pruned AS p WHERE p.id_high = ` + high + ` AND p.id_low = ` + low + `
			LIMIT 1 OFFSET 0)`
}

// Pruned returns the hashes of the values of pruned rows, by user_data.
func (l *Ledger) Pruned(ctx context.Context, on rowser, userData ...string) (map[string]int64, error) {
	if len(userData) == 0 {
		return map[string]int64{}, nil
	}
	names, high := map[Identity]string{}, make([]int64, len(userData))
	for i, u := range userData {
		id := identity(u)
		names[id], high[i] = u, id.High
	}
	in := ` IN (SELECT value FROM json_each($1))`
	if l.Dialect == PostgreSQL {
		in = ` = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST($1 AS TEXT)::JSON) AS BIGINT)))`
	}
	pruned := map[string]int64{}
	err := l.query(ctx, on, func(rows *sql.Rows) error {
		var id Identity
		var hash int64
		err := rows.Scan(&id.High, &id.Low, &hash)
		if name, found := names[id]; found {
			pruned[name] = hash
		}
		return err
	}, `SELECT id_high, id_low, values_hash FROM durable_pruned WHERE id_high`+in, list(high))
	return pruned, err
}

// FindPruned reports whether a pruned row had an order_id or one of the user_data. It reads from l.DB.
func (l *Ledger) FindPruned(ctx context.Context, orderID string, userData ...string) (found bool, err error) {
	pruned, err := l.Pruned(ctx, l.DB, userData...)
	if err != nil || len(pruned) > 0 {
		return len(pruned) > 0, err
	}
	err = l.one(ctx, l.DB, []any{&found}, `SELECT EXISTS (SELECT 1 FROM durable_pruned
		WHERE order_hash IN ($1, $2) AND order_hash <> 0)`,
		orderHash(row.Payment, orderID), orderHash(row.Payout, orderID))
	return found, err
}

// KeepForPruned marks an unmatched notification or an unspecified event of a pruned row, and reports whether it did. It
// uses the order_id only if user_data is "", because an unmatched notification must prevent the claim of a lost row.
func (l *Ledger) KeepForPruned(ctx context.Context, n Notice) (bool, error) {
	id, kind, other := identity(n.UserData), KindOf(n.Event), KindOf(n.Event)
	if kind == "" {
		kind, other = row.Payment, row.Payout
	}
	changed, err := l.write(ctx, `UPDATE durable_notifications SET matched = 2 WHERE key = $1 AND matched = $2
		AND (EXISTS (SELECT 1 FROM durable_pruned WHERE id_high = $3 AND id_low = $4)
			OR user_data = '' AND EXISTS (SELECT 1 FROM durable_pruned
				WHERE order_hash IN ($5, $6) AND order_hash <> 0))`,
		n.Key, flag(KindOf(n.Event) == ""), id.High, id.Low, orderHash(kind, n.OrderID), orderHash(other, n.OrderID))
	if changed > 0 {
		l.Log.WarnContext(ctx, "durable: a notification of a pruned row", "event", string(n.Event), "order_id", n.OrderID,
			"user_data", n.UserData, "status", string(n.StatusDescription), "amount", n.Amount.String())
	}
	return changed > 0, err
}

// Prune reads up to pruneRows rows of a kind created more than age milliseconds ago, after a place, the oldest first.
// In one transaction it deletes the prunable rows with their order_ids, notifications and decisions, and stores their
// hashes. It returns the place of the last row read, or the zero value at the end. It skips a row with a due event, or
// with a younger or unmatched notification.
func (l *Ledger) Prune(ctx context.Context, k row.Kind, age int64, after Place) (pruned int, next Place, err error) {
	var found []string
	read := 0
	err = l.query(ctx, l.DB, func(rows *sql.Rows) error {
		var final bool
		err := rows.Scan(&next.Key, &next.At, &final)
		read++
		if final {
			found = append(found, next.Key)
		}
		return err
	}, pruneScan, string(k), age, after.At, after.Key, pruneRows)
	if err != nil {
		return 0, after, err
	}
	if read < pruneRows {
		next = Place{}
	}
	if len(found) == 0 {
		return 0, next, nil
	}
	err = l.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		pruned, err = l.prune(ctx, tx, k, age, found)
		return err
	})
	return pruned, next, err
}

// pruneScan reads a limited number of rows, because most of the old rows may not be prunable.
const pruneScan = `SELECT user_data, created_at, CASE WHEN ` + prunable + ` THEN 1 ELSE 0 END FROM (
		SELECT user_data, created_at, state, review_reason, updated_at FROM durable_rows
		WHERE kind = $1 AND created_at <= {now} - $2 AND (created_at, user_data) > ($3, $4)
		ORDER BY created_at, user_data LIMIT $5) AS r
	ORDER BY created_at, user_data`

// hashes is a row of durable_pruned.
type hashes struct {
	Identity
	Values int64 `json:"v"`
	Order  int64 `json:"o"`
}

// prune deletes the rows last, after it has locked their batches. So an import, which locks its batch first, cannot
// deadlock with prune.
func (l *Ledger) prune(ctx context.Context, tx *sql.Tx, k row.Kind, age int64, found []string) (int, error) {
	rows, err := l.lockPrunable(ctx, tx, k, age, found)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	var users, orders []string
	var kept []hashes
	batches := map[string]int{}
	for _, r := range rows {
		users, orders = append(users, r.UserData), append(orders, r.orderID)
		kept = append(kept, hashes{identity(r.UserData), r.Hash(), orderHash(k, r.orderID)})
		batches[r.Batch]++
	}
	for _, batch := range slices.Sorted(maps.Keys(batches)) {
		if _, err := l.exec(ctx, tx, `UPDATE durable_batches SET pruned = pruned + $1 WHERE id = $2`,
			batches[batch], batch); err != nil {
			return 0, err
		}
	}
	from := `SELECT value->>'h', value->>'k', value->>'v', value->>'o' FROM json_each($1)`
	if l.Dialect == PostgreSQL {
		from = `SELECT h, k, v, o FROM json_to_recordset(CAST($1 AS TEXT)::JSON) AS v(h BIGINT, k BIGINT, v BIGINT, o BIGINT)`
	}
	// An unspecified event may have arrived after lockPrunable, so the statement compares the age again.
	notices := `DELETE FROM durable_notifications WHERE matched = 1 AND received_at <= {now} - $2` + ofKind(k)
	for _, one := range []struct {
		statement string
		args      []any
	}{
		{`INSERT INTO durable_pruned (id_high, id_low, values_hash, order_hash) ` + from, []any{list(kept)}},
		{notices + ` AND user_data{in $1}`, []any{list(users), age}},
		{notices + ` AND order_id <> '' AND order_id{in $1} AND NOT EXISTS (SELECT 1 FROM durable_rows AS r
			WHERE r.user_data = durable_notifications.user_data LIMIT 1 OFFSET 0)`, []any{list(orders), age}},
		{`DELETE FROM durable_decisions WHERE user_data{in $1}`, []any{list(users)}},
		{`DELETE FROM durable_orders WHERE kind = '` + string(k) + `' AND order_id <> '' AND order_id{in $1}`,
			[]any{list(orders)}},
	} {
		if _, err := l.exec(ctx, tx, one.statement, one.args...); err != nil {
			return 0, err
		}
	}
	n, err := l.exec(ctx, tx, `DELETE FROM durable_rows WHERE user_data{in $1}`, list(users))
	return int(n), err
}

// lockPrunable locks the prunable rows of a list and returns them with their order_ids.
func (l *Ledger) lockPrunable(
	ctx context.Context, tx *sql.Tx, k row.Kind, age int64, found []string,
) (rows []prunableRow, err error) {
	const recent = `(n.matched = 0 OR n.received_at > {now} - $2) LIMIT 1 OFFSET 0)`
	if err := l.measure(ctx, tx); err != nil {
		return nil, err
	}
	err = l.query(ctx, tx, func(from *sql.Rows) error {
		r := prunableRow{NewRow: NewRow{Kind: k}}
		err := from.Scan(&r.UserData, &r.Reference, &r.Type, &r.Amount, &r.Destination, &r.Batch, &r.orderID)
		rows = append(rows, r)
		return err
	}, `SELECT user_data, reference, type, amount, destination, batch, order_id FROM durable_rows AS r
		WHERE user_data{in $1} AND `+prunable+`
			AND NOT EXISTS (SELECT 1 FROM durable_notifications AS n WHERE n.user_data = r.user_data AND `+recent+`
			AND NOT EXISTS (SELECT 1 FROM durable_notifications AS n
				WHERE n.order_id = r.order_id AND r.order_id <> ''`+ofKind(k)+` AND `+recent+`
			AND user_data NOT IN (SELECT user_data FROM durable_events_due){skip}`+*l.sizes.Load(), list(found), age)
	return rows, err
}

type prunableRow struct {
	NewRow
	orderID string
}

// PruneNotices deletes notifications of pruned rows received more than age milliseconds ago. It reports whether more
// notifications may remain.
func (l *Ledger) PruneNotices(ctx context.Context, age int64) (more bool, err error) {
	n, err := l.write(ctx, `DELETE FROM durable_notifications WHERE key IN (SELECT key FROM durable_notifications
		WHERE matched = 2 AND received_at <= {now} - $1 ORDER BY received_at LIMIT $2{skip})`, age, pruneRows)
	return n == pruneRows, err
}
