package ledger

import (
	_ "embed"
	"strings"
)

// Version is the version of the tables that this package requires.
const Version = 5

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
