package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// tables are the tables of durable and of its tests.
const tables = `durable_control durable_mark durable_rows durable_queue durable_claims durable_orders
	durable_notifications durable_decisions durable_events_due durable_batches durable_unreadable durable_pruned
	test_changes test_files`

// Copy is a copy of the rows of all tables at one moment.
type Copy []copied

type copied struct {
	table, insert string
	rows          [][]any
}

// CopyRows copies all rows in one transaction.
func CopyRows(ctx context.Context, db *sql.DB) (Copy, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	var all Copy
	for table := range strings.FieldsSeq(tables) {
		names, err := columns(ctx, db, tx, table)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 { // a test without this table
			continue
		}
		one := copied{table: table}
		one.rows, err = query(ctx, tx, len(names), `SELECT `+strings.Join(names, ", ")+` FROM `+table)
		if err != nil {
			return nil, err
		}
		parameters := make([]string, len(names))
		for i := range names {
			parameters[i] = fmt.Sprint("$", i+1)
		}
		one.insert = `INSERT INTO ` + table + ` (` + strings.Join(names, ", ") + `)
			VALUES (` + strings.Join(parameters, ", ") + `)`
		all = append(all, one)
	}
	return all, nil
}

// columns returns the names of all columns except generated columns.
func columns(ctx context.Context, db *sql.DB, tx *sql.Tx, table string) (names []string, err error) {
	list := `SELECT name FROM pragma_table_info('` + table + `')`
	if !strings.Contains(fmt.Sprintf("%T", db.Driver()), "sqlite") {
		list = `SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('` + table + `')
			AND attnum > 0 AND attgenerated = ''`
	}
	rows, err := query(ctx, tx, 1, list)
	for _, r := range rows {
		names = append(names, fmt.Sprint(r[0]))
	}
	return names, err
}

func query(ctx context.Context, tx *sql.Tx, columns int, text string) (all [][]any, err error) {
	rows, err := tx.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		values, into := make([]any, columns), make([]any, columns)
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		all = append(all, values)
	}
	return all, rows.Err()
}

// Restore replaces all rows with the copied rows, in one transaction.
func (c Copy) Restore(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, one := range c {
		if _, err := tx.ExecContext(ctx, `DELETE FROM `+one.table); err != nil { //nolint:gosec // a table of the list
			return err
		}
		for _, values := range one.rows {
			if _, err := tx.ExecContext(ctx, one.insert, values...); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}
