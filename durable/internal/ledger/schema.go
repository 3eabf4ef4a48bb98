package ledger

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/paymentsvc/paymentsvc/durable/internal/row"
)

// Version is the version of the tables that this package works with.
const Version = 3

//go:embed schema.sql
var tables string

// Schema returns the statements that create the tables.
func Schema(d Dialect) []string {
	fill := strings.NewReplacer("{generated}", "VIRTUAL", "{rows}", "", "{narrow}", " WITHOUT ROWID")
	if d == PostgreSQL {
		fill = strings.NewReplacer("{generated}", "STORED",
			"{rows}", " WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)",
			"{narrow}", " WITH (autovacuum_vacuum_scale_factor = 0.02)")
	}
	return split(fill.Replace(tables))
}

//go:embed upgrade2_postgres.sql
var upgrade2Postgres string

//go:embed upgrade2_sqlite.sql
var upgrade2SQLite string

// Upgrade returns the statements that bring the tables from an older version to Version.
func Upgrade(d Dialect, from int64) []string {
	steps := [][]string{
		{`DROP INDEX durable_kinds`, `ALTER TABLE durable_batches ADD COLUMN rejected BIGINT NOT NULL DEFAULT 0`},
		upgrade2(d),
	}
	var statements []string
	for version := max(from, 1); version < Version; version++ {
		statements = append(statements, steps[version-1]...)
		statements = append(statements, fmt.Sprintf(`UPDATE durable_version SET version = %d`, version+1))
	}
	return statements
}

// texts2 returns the review reasons of version 2 and their new texts.
func texts2() [][2]string {
	return [][2]string{
		{"No clear answer: ask the service whether it was paid, by its user_data.", row.NoAnswer},
		{"Refused, but an earlier call may have been carried out: ask the service whether it was paid.", row.RejectedLater},
		{"Refused in a run of equal refusals: it can be sent again.", row.InARun},
		{"The service does not say whether it has this.", row.NotConfirmed},
		{"Refused again and again.", row.RejectedOften},
	}
}

// upgrade2 separates queue, claims and order_ids from the rows of version 2.
func upgrade2(d Dialect) []string {
	var statements, indexes []string
	table := ""
	for _, statement := range Schema(d) {
		name := tableName.FindStringSubmatch(statement)
		switch {
		case name == nil:
		case name[1] == "rows" && strings.Contains(statement, "CREATE TABLE"):
			table = statement
		case name[1] == "rows", newIndex.MatchString(statement):
			indexes = append(indexes, statement)
		case slices.Contains([]string{"queue", "claims", "orders", "mark", "unreadable", "pruned"}, name[1]):
			statements = append(statements, statement)
		}
	}
	file := upgrade2Postgres
	if d == SQLite {
		file = upgrade2SQLite
	}
	fill := strings.NewReplacer("{table durable_rows}", table, "{generated columns}", generatedColumns(table))
	for _, statement := range split(file) {
		statements = append(statements, fill.Replace(statement))
	}
	statements = append(statements,
		`INSERT INTO durable_queue (kind, generation, due_at, user_data, created_at)
			SELECT kind, generation, due_at, user_data, created_at FROM durable_rows
			WHERE state = 'created' AND user_data NOT IN (SELECT user_data FROM durable_claims)`,
		`INSERT INTO durable_orders (kind, order_id, user_data, created_at, state)
			SELECT kind, order_id, user_data, created_at, state FROM durable_rows WHERE order_id <> ''`)
	for _, text := range texts2() {
		statements = append(statements, fmt.Sprintf(`UPDATE durable_rows
			SET review_reason = REPLACE(review_reason, '%s', '%s') WHERE review_reason LIKE '%%%[1]s%%'`, text[0], text[1]))
	}
	return append(statements, indexes...)
}

// newIndex matches indexes that the notifications of version 2 do not have.
var newIndex = regexp.MustCompile(`INDEX durable_(waiting_row|waiting_final|notices_pruned) `)

var tableName = regexp.MustCompile(`(?:CREATE TABLE|INSERT INTO|CREATE INDEX \w+ ON) durable_(\w+)`)

// generatedColumns returns the changes of a table that add the generated columns of its definition.
func generatedColumns(table string) string {
	return "ADD COLUMN " + strings.Join(generatedColumn.FindAllString(table, -1), ", ADD COLUMN ")
}

var generatedColumn = regexp.MustCompile(`(?s)\w+ +\w+ GENERATED ALWAYS AS .*? (?:STORED|VIRTUAL)`)
