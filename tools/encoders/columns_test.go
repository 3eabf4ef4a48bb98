package encoders

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/paymentsvc/paymentsvc"
)

// Only TEXT and BLOB keep every Amount. Other columns turn what looks like a number into an integer or a float when it is
// stored, before this package can see it. A float comes back as an error, but an amount that became another integer is
// read without one. The documentation of Amount and docs/notifications.md say so.
func TestAmountInColumnsOfSQLite(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "amounts.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	const kept, isError, notSet = "kept", "an error", ""
	long := strings.Repeat("9", 62) + ".10"
	values := []string{notSet, "7", "0", "10.50", "10.00", "-0.01", "12345678901234567.89", "1e20", "9007199254740993", long}
	numeric := map[string]string{ // what is not here is kept
		"10.50": isError, "10.00": "10", "-0.01": isError, "12345678901234567.89": "12345678901234568", "1e20": isError, long: isError,
	}
	float := map[string]string{}
	for _, text := range values[1:] {
		float[text] = isError
	}
	for i, tt := range []struct {
		column string
		want   map[string]string
	}{
		{"TEXT", nil},
		{"VARCHAR(70)", nil},
		{"CHAR(70)", nil},
		{"BLOB", nil},
		{"NUMERIC", numeric},
		{"DECIMAL(20, 2)", numeric},
		{"INTEGER", numeric},
		{"REAL", float},
	} {
		t.Run(tt.column, func(t *testing.T) {
			_, err := db.ExecContext(t.Context(), fmt.Sprintf("CREATE TABLE t%d (id INTEGER PRIMARY KEY, amount %s)", i, tt.column))
			require.NoError(t, err)
			for id, text := range values {
				want := kept
				if other, ok := tt.want[text]; ok {
					want = other
				}
				var stored, read paymentsvc.Amount
				require.NoError(t, stored.UnmarshalText([]byte(text)))
				_, err := db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO t%d VALUES ($1, $2)", i), id, stored)
				require.NoError(t, err)
				got := kept
				err = db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT amount FROM t%d WHERE id = $1", i), id).Scan(&read)
				if err != nil {
					got = isError
				} else if read != stored {
					got = read.String()
				}
				require.Equal(t, want, got, "%q", text)
			}
		})
	}
}
