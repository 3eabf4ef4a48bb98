package payoutcsv

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
)

// eachDatabase runs f with an empty SQLite database, and with an empty PostgreSQL database where TEST_DATABASE_URL names
// a server, which .ci/postgres does.
func eachDatabase(t *testing.T, f func(t *testing.T, c ImportConfig)) {
	t.Run("SQLite", func(t *testing.T) {
		f(t, openStore(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "payouts.db")+
			"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate"))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		server := os.Getenv("TEST_DATABASE_URL")
		if server == "" {
			t.Skip("no PostgreSQL: TEST_DATABASE_URL is not set. Run the tests with .ci/postgres go -C durable test ./...")
		}
		admin, err := sql.Open("pgx", server)
		require.NoError(t, err)
		name := "test_" + strings.ToLower(rand.Text())
		_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
		require.NoError(t, err)
		t.Cleanup(func() {
			_, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
			require.NoError(t, err)
			_ = admin.Close()
		})
		u, err := url.Parse(server)
		require.NoError(t, err)
		u.Path = "/" + name
		f(t, openStore(t, "pgx", u.String()))
	})
}

// unused is a service without calls.
type unused struct{ durable.Service }

func (unused) DecodesErrors() bool { return true }

func openStore(t *testing.T, driver, address string) ImportConfig {
	t.Helper()
	db, err := sql.Open(driver, address)
	require.NoError(t, err)
	if driver == "sqlite" {
		db.SetMaxOpenConns(1)
	}
	t.Cleanup(func() { _ = db.Close() })
	require.NoError(t, durable.Migrate(t.Context(), db))
	store, err := durable.Open(t.Context(), db, durable.Config{
		Service: unused{}, Project: "test", AllowUnsafeDatabase: true, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return ImportConfig{DB: db, Store: store, Name: "march.csv"}
}

// fileOf writes n payouts whose references are not in order.
func fileOf(n int) string {
	var b strings.Builder
	b.WriteString(header)
	for i := range n {
		fmt.Fprintf(&b, "salary-%04d,1.25,%s\n", n-i, card)
	}
	return b.String()
}

func stored(t *testing.T, c ImportConfig) (rows []durable.Row) {
	t.Helper()
	for row, err := range c.Store.Rows(t.Context(), durable.Filter{Kind: durable.KindPayout}) {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

func TestImportStoresEachPayoutOnce(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		const n = 2500
		content := fileOf(n) + "salary-x,nothing," + card + "\n"
		var steps []int64
		c.Progress = func(r Result) { steps = append(steps, r.Done()) }
		c.Options = Options{ExpectRows: n, ExpectTotal: paymentsvc.MustParseAmount("3125")}
		first, err := Import(t.Context(), c, strings.NewReader(content))
		require.NoError(t, err)
		assert.EqualValues(t, n, first.New)
		assert.EqualValues(t, 1, first.Report.Rejected)
		assert.Equal(t, []int64{1000, 2000, 2500}, steps)

		_, err = c.DB.ExecContext(t.Context(), `UPDATE durable_batches SET rejected = 0, line = line - 1`) // an older version's
		require.NoError(t, err)
		again, err := Import(t.Context(), c, strings.NewReader(content))
		require.NoError(t, err)
		assert.Zero(t, again.New)
		assert.EqualValues(t, n, again.Known)
		assert.True(t, again.Before && !first.Before)
		assert.Equal(t, "3125.00 0", first.NewTotal.String()+" "+again.NewTotal.String())
		rows := stored(t, c)
		assert.Len(t, rows, n)
		for _, row := range rows[:10] {
			assert.Equal(t, first.Batch, row.Batch)
			assert.Equal(t, fmt.Sprintf("salary-%04d", n+2-row.Line), row.Reference)
		}
		for batch, err := range c.Store.Batches(t.Context()) {
			require.NoError(t, err)
			assert.True(t, batch.Complete)
			assert.EqualValues(t, n+2-1, batch.Line, "the rejected row is the last; a complete batch does not advance")
			assert.EqualValues(t, n, batch.ExpectedRows)
			assert.EqualValues(t, 1, batch.Rejected)
		}
	})
}

func TestImportStoresNothingUnexpected(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		c.ExpectRows = 11
		_, err := Import(t.Context(), c, strings.NewReader(fileOf(10)))
		require.ErrorIs(t, err, ErrUnexpected)
		assert.Empty(t, stored(t, c))
		for batch, err := range c.Store.Batches(t.Context()) {
			t.Error("a batch was stored", batch, err)
		}
	})
}

func TestImportReportsConflicts(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		_, err := Import(t.Context(), c, strings.NewReader(header+"a,1,x\nb,1,x\nc,1,x\n"))
		require.NoError(t, err)
		result, err := Import(t.Context(), c, strings.NewReader(header+"d,1,x\nc,1,x\nb,1,y\na,2,x\n"))
		require.NoError(t, err)
		assert.EqualValues(t, 1, result.New)
		assert.EqualValues(t, 1, result.Known)
		assert.EqualValues(t, 2, result.Conflicts)
		lines := []int64{result.ConflictRows[0].Line, result.ConflictRows[1].Line}
		slices.Sort(lines)
		assert.Equal(t, []int64{4, 5}, lines)
		assert.Len(t, stored(t, c), 4)
	})
}

// TestImportGoesOn interrupts an import after its first batch, and has two processes import the rest.
func TestImportGoesOn(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		content := fileOf(3000)
		ctx, cancel := context.WithCancel(t.Context())
		interrupted := c
		interrupted.Progress = func(Result) { cancel() }
		_, err := Import(ctx, interrupted, strings.NewReader(content))
		require.Error(t, err)
		require.Len(t, stored(t, c), 1000)

		other := make(chan error, 1)
		go func() {
			_, err := Import(t.Context(), c, strings.NewReader(content))
			other <- err
		}()
		result, err := Import(t.Context(), c, strings.NewReader(content))
		require.NoError(t, err)
		require.NoError(t, <-other)
		assert.EqualValues(t, 3000, result.Done())
		assert.Len(t, stored(t, c), 3000)
	})
}

func TestImportOfAFileThatChanges(t *testing.T) {
	rejected, full := "\nrejected,nothing,x", fileOf(2000)
	checked := strings.Replace(fileOf(2500), "\n", rejected+"\n", 1)
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		for name, f := range map[string]struct {
			checked, changed string
			stored           int
		}{
			"an amount in the middle":          {checked, strings.Replace(checked, "salary-1000,1.25", "salary-1000,9.25", 1), 1000},
			"a destination of the first batch": {checked, strings.Replace(checked, "salary-1501,1.25,4", "salary-1501,1.25,5", 1), 0},
			"the last, partial batch":          {checked, strings.Replace(checked, "salary-0001,1", "salary-0001,9", 1), 2000},
			"a row removed":                    {checked, strings.Replace(checked, "salary-1200,1.25,"+card+"\n", "", 1), 1000},
			"a line added":                     {checked, strings.Replace(checked, "salary-1200,", "\nsalary-1200,", 1), 1000},
			"rows appended":                    {checked, checked + "salary-x,1.25,x\n", 2000},
			"a batch appended to full ones":    {full, full + strings.TrimPrefix(strings.ReplaceAll(fileOf(1000), "salary", "x"), header), 2000},
			"truncated in a batch":             {checked, strings.Split(checked, "salary-0900")[0], 1000},
			"truncated after full ones":        {checked, strings.Split(checked, "salary-0500")[0], 2000},
			"only a rejected row changed":      {checked, strings.Replace(checked, rejected, "\nrejected,neither,x", 1), 2000},
			"a rejected row becomes a payout":  {checked, strings.Replace(checked, rejected, "\nrejected,1,x", 1), 0},
			"other content":                    {fileOf(3), header + "other,1,x\n", 0},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := c.DB.ExecContext(t.Context(), `DELETE FROM durable_rows`)
				require.NoError(t, err)
				result, err := Import(t.Context(), c, &changing{contents: []string{f.checked, f.changed}})
				require.ErrorIs(t, err, ErrFileChanged)
				assert.EqualValues(t, f.stored, result.Done())
				rows := stored(t, c)
				assert.Len(t, rows, f.stored)
				for _, row := range rows {
					require.Contains(t, f.checked, "\n"+row.Reference+","+row.Amount.String()+",")
				}
			})
		}
	})
}

func TestImportPaysOneSpellingOfAReference(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		for n, composed := range []string{"é", "한", "\u0bca", "Å"} {
			row, other := composed+",1,x\n", norm.NFD.String(composed)+",1,x\n"
			for _, content := range []string{row + other, other + row, other, row} {
				_, err := Import(t.Context(), c, strings.NewReader(header+content))
				require.NoError(t, err)
			}
			assert.Len(t, stored(t, c), n+1, composed)
		}
	})
}

// changing has another content after each Seek.
type changing struct {
	contents []string
	*strings.Reader
}

func (c *changing) Seek(int64, int) (int64, error) {
	c.Reader, c.contents = strings.NewReader(c.contents[0]), c.contents[1:]
	return 0, nil
}

func TestImportNamesTheDatabaseThatFailed(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		require.NoError(t, c.DB.Close())
		_, err := Import(t.Context(), c, strings.NewReader(fileOf(1)))
		require.ErrorIs(t, err, ErrDatabase)
		require.ErrorIs(t, WriteResults(t.Context(), io.Discard, c.Store, durable.Filter{}), ErrDatabase)
	})
}

func TestImportWakesInTheTransactionOfNewPayouts(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		wakes := 0
		c.Wake = func(ctx context.Context, tx *sql.Tx) error {
			wakes++
			var n int
			require.NoError(t, tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM durable_rows`).Scan(&n))
			assert.Equal(t, min(wakes*batchRows, batchRows+1), n)
			return nil
		}
		file := fileOf(batchRows + 1)
		_, err := Import(t.Context(), c, strings.NewReader(file))
		require.NoError(t, err)
		assert.Equal(t, 2, wakes)
		_, err = Import(t.Context(), c, strings.NewReader(file))
		require.NoError(t, err)
		assert.Equal(t, 2, wakes, "nothing is new")
		c.Wake = func(context.Context, *sql.Tx) error { return io.ErrUnexpectedEOF }
		_, err = Import(t.Context(), c, strings.NewReader(header+"new,1.50,"+card+"\n"))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Len(t, stored(t, c), batchRows+1, "it was rolled back")
	})
}

func TestResultsNamePrunedPayouts(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		file := header + "salary-1,1.50," + card + "\nsalary-2,2.50," + card + "\n"
		result, err := Import(t.Context(), c, strings.NewReader(file))
		require.NoError(t, err)
		for _, statement := range []string{
			`UPDATE durable_rows SET state = 'succeeded', created_at = 0, updated_at = 0 WHERE reference = 'salary-1'`,
			`DELETE FROM durable_queue`,
		} {
			_, err = c.DB.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		_, err = c.Store.Prune(t.Context(), 24*time.Hour)
		require.NoError(t, err)
		var out strings.Builder
		require.NoError(t, WriteFileResults(t.Context(), &out, c.Store, strings.NewReader(file), Options{}))
		assert.Contains(t, out.String(), "\nsalary-1,2,1.50,pruned,,,,,\nsalary-2,3,2.50,created,")
		out.Reset()
		other := header + "salary-1,1.51," + card + "\n"
		require.NoError(t, WriteFileResults(t.Context(), &out, c.Store, strings.NewReader(other), Options{}))
		assert.Contains(t, out.String(), "\nsalary-1,2,1.51,conflict,")
		out.Reset()
		require.NoError(t, WriteResults(t.Context(), &out, c.Store, durable.Filter{Batch: result.Batch}))
		assert.True(t, strings.HasSuffix(out.String(), ",\n,,,pruned,,,1 payout,,\n"), out.String())
		again, err := Import(t.Context(), c, strings.NewReader(file))
		require.NoError(t, err)
		assert.Equal(t, []int64{0, 2}, []int64{again.New, again.Known})
	})
}

func TestWriteResultsNamesPayoutsByReference(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		_, err := Import(t.Context(), c, strings.NewReader(header+"salary-1,1.50,"+card+"\n"))
		require.NoError(t, err)
		result, err := Import(t.Context(), c, strings.NewReader(header+"\"salary, 2\",2.50,"+card+"\n"))
		require.NoError(t, err)
		var out strings.Builder
		id := stored(t, c)[0].UserData
		require.NoError(t, WriteResults(t.Context(), &out, c.Store, durable.Filter{}))
		assert.Contains(t, out.String(), "salary-1,2,1.50,created,,,")
		out.Reset()
		require.NoError(t, WriteResults(t.Context(), &out, c.Store, durable.Filter{Batch: result.Batch}))
		assert.Equal(t, "reference,line,amount,state,order_id,error_code,review,user_data,held\n\"salary, 2\",2,2.50,created,,,,"+id+",\n", out.String())
		out.Reset()
		other := header + "unknown,1,x\n\"salary, 2\",2.50," + card + "\nsalary-1,9," + card + "\nx,none,y\n"
		require.NoError(t, WriteFileResults(t.Context(), &out, c.Store, strings.NewReader(other), Options{}))
		for _, want := range []string{"\nunknown,2,1,not imported,", "\n\"salary, 2\",3,2.50,created,", "\nsalary-1,4,9,conflict,", "\n,5,,rejected row,,,\"amount"} {
			assert.Contains(t, out.String(), want)
		}
		assert.NotContains(t, out.String(), card)
	})
	assert.Equal(t, "'=1+1", plain("=1+1"))
	assert.Equal(t, "limit", plain("limit"))
}
