package payoutcsv

import (
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	_ "modernc.org/sqlite" // registers the driver
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
)

// eachDatabase runs f with an empty SQLite database, and with an empty PostgreSQL database if TEST_DATABASE_URL names a
// server, as with .ci/postgres.
func eachDatabase(t *testing.T, f func(t *testing.T, c ImportConfig)) {
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) { f(t, openStore(t, db.DB)) })
}

// unused is a service without calls.
type unused struct{ durable.Service }

func (unused) DecodesErrors() bool { return true }

func openStore(t *testing.T, db *sql.DB) ImportConfig {
	t.Helper()
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

func imported(t *testing.T, c ImportConfig, file string) Result {
	t.Helper()
	result, err := Import(t.Context(), c, strings.NewReader(file))
	require.NoError(t, err)
	return result
}

// requireImportError requires that Import returns an error that wraps want and contains text.
func requireImportError(t *testing.T, c ImportConfig, file string, want error, text string) {
	t.Helper()
	_, err := Import(t.Context(), c, strings.NewReader(file))
	require.ErrorIs(t, err, want)
	require.ErrorContains(t, err, text)
}

// Later files repeat references of the first file, as if the references named persons.
func TestImportCountsPayoutsOfOtherFiles(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		for _, tt := range []struct {
			file                  string
			fresh, old, elsewhere int64
			conflicts             []int64 // lines
		}{
			{header + "a,1,x\nb,1,x\n", 2, 0, 0, nil},
			{header + "a,1,x\nb,1,x\n", 0, 2, 0, nil},
			{header + "b,1,x\na,1,x\n", 0, 2, 2, nil},
			{header + "b,1,x\nc,1,x\n", 1, 1, 1, nil},
			{header + "b,1,x\nc,1,x\n", 0, 2, 1, nil},
			{header + "d,1,x\nc,1,x\nb,1,y\na,2,x\n", 1, 1, 1, []int64{4, 5}},
		} {
			r := imported(t, c, tt.file)
			assert.Equal(t, []int64{tt.fresh, tt.old, tt.elsewhere}, []int64{r.New, r.Known, r.Elsewhere}, tt.file)
			assert.EqualValues(t, len(tt.conflicts), r.Conflicts)
			for n, line := range tt.conflicts {
				assert.Equal(t, line, r.ConflictRows[n].Line)
			}
		}
		assert.Len(t, stored(t, c), 4)
	})
}

func TestImportRejectsAnotherColumnForTheReferences(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		const file = "id,invoice,amount,destination\n1,i-1,1,x\n2,i-2,1.5,x\n,i-3,1,x\n"
		c.Scale = -1 // rejects the second payout
		c.Ignore, c.Columns = []string{"id"}, map[string]string{"reference": "invoice"}
		imported(t, c, file)
		c.Scale = 2
		r := imported(t, c, file)
		assert.Equal(t, []int64{1, 2}, []int64{r.New, r.Known}, "other options add missing payouts")
		r = imported(t, c, file+"\n") // stores no payout, because the first file has its references
		assert.EqualValues(t, 3, r.Elsewhere)
		known := "id,invoice,amount,destination\n4,i-4,1,x\ni-1,,1,x\n" // id has one new reference
		imported(t, c, known)
		c.Ignore, c.Columns = []string{"invoice"}, map[string]string{"reference": "id"} // rejects the third payout
		for _, again := range []string{file, file + "\n", file + "\n", known} {
			requireImportError(t, c, again, durable.ErrInvalid, "read other references")
		}
		assert.Len(t, stored(t, c), 4)
		prune(t, c, "%")
		requireImportError(t, c, file, durable.ErrInvalid, "read other references")
		assert.Empty(t, stored(t, c))
	})
}

// An earlier file has paid the first thousand rows, and each import by invoice rejects the other thousand rows.
func TestImportRejectsAnotherColumnDespiteRejectedRows(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		try := func(ctx context.Context, column, file string, other bool) {
			c.Columns = map[string]string{"reference": column}
			c.Ignore = slices.DeleteFunc([]string{"id", "code", "invoice", "note"}, func(s string) bool { return s == column })
			_, err := Import(ctx, c, strings.NewReader(file))
			assert.Equal(t, other, errors.Is(err, durable.ErrInvalid), err)
			rows := len(stored(t, c))
			assert.Equal(t, batchRows, rows, column)
		}
		paid, open := "id,code,invoice,note,amount,destination\n", ""
		for n := range batchRows {
			paid += fmt.Sprintf("a-%d,b-%d,c-%d,,1,x\n", n, n, n)
			open += fmt.Sprintf("d-%d,,,,1,x\n", n)
		}
		try(t.Context(), "invoice", paid, false)
		for rejected, file := range map[bool]string{false: paid + open, true: paid + "\n" + open} {
			if rejected {
				try(t.Context(), "note", file, false)
			}
			ctx, cancel := context.WithCancel(t.Context())
			c.Progress = func(Result) { cancel() }
			try(ctx, "invoice", file, false)
			for _, column := range []string{"id", "invoice", "id", "code", "note", "id"} {
				try(t.Context(), column, file, column != "invoice")
			}
		}
	})
}

// An earlier file has the references of column a. The rejected row has no reference in column a, but a known one in b.
func TestImportRejectsAnotherColumnWithAKnownReference(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		columns := func(reference, other string) {
			c.Columns, c.Ignore = map[string]string{"reference": reference}, []string{other}
		}
		columns("a", "b")
		imported(t, c, "a,b,amount,destination\np-1,,1,x\np-2,,1,x\n")
		const file = "a,b,amount,destination\np-1,q-1,1,x\n,p-2,1,x\n"
		imported(t, c, file)
		columns("b", "a")
		requireImportError(t, c, file, durable.ErrInvalid, "read other references")
		assert.Len(t, stored(t, c), 2, "p-1 is not paid again as q-1")
	})
}

// prune prunes the payouts with references like a pattern.
func prune(t *testing.T, c ImportConfig, pattern string) {
	t.Helper()
	_, err := c.DB.ExecContext(t.Context(), `UPDATE durable_rows SET state = 'succeeded', created_at = 0, updated_at = 0
		WHERE reference LIKE $1`, pattern)
	require.NoError(t, err)
	_, err = c.DB.ExecContext(t.Context(), `DELETE FROM durable_queue`)
	require.NoError(t, err)
	_, err = c.Store.Prune(t.Context(), 24*time.Hour)
	require.NoError(t, err)
}

// Another import stores the file with another column for the references, after this import has read the file once. The
// replica does not have these payouts yet.
func TestImportRejectsAnotherColumnOfAnImportAtTheSameTime(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		replica := openStore(t, dbtest.SQLite(t).DB).DB
		var err error
		c.Store, err = durable.Open(t.Context(), c.DB, durable.Config{
			Service: unused{}, Project: "test", AllowUnsafeDatabase: true, ReadDB: replica, Log: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		content := "id,invoice,amount,destination\n1,i-1,1,x\n2,i-2,1.5,x\n"
		other := c
		c.Ignore, c.Columns = []string{"id"}, map[string]string{"reference": "invoice"}
		other.Ignore, other.Columns = []string{"invoice"}, map[string]string{"reference": "id"}
		file := &changing{contents: []string{content, content}, before: func() {
			_, err := Import(t.Context(), other, strings.NewReader(content))
			require.NoError(t, err)
		}}
		_, err = Import(t.Context(), c, file)
		require.ErrorIs(t, err, durable.ErrInvalid)
		assert.Len(t, stored(t, other), 2)
	})
}

func TestOneOfTwoColumnsIsImported(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		const file = "id,invoice,amount,destination\n1,i-1,1,x\n2,i-2,1.5,x\n"
		results := make(chan error)
		for _, columns := range [][2]string{{"id", "invoice"}, {"invoice", "id"}} {
			one := c
			one.Columns, one.Ignore = map[string]string{"reference": columns[0]}, columns[1:]
			go func() {
				_, err := Import(t.Context(), one, strings.NewReader(file))
				results <- err
			}()
		}
		first, second := <-results, <-results
		rejected := func(err error) bool { return errors.Is(err, durable.ErrInvalid) }
		assert.NotEqual(t, rejected(first), rejected(second), "%v, %v", first, second)
		assert.Len(t, stored(t, c), 2)
	})
}

func stored(t *testing.T, c ImportConfig) (rows []durable.Row) {
	t.Helper()
	for row, err := range c.Store.Rows(t.Context(), durable.Filter{Kind: durable.KindPayout, Current: true}) {
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
		first := imported(t, c, content)
		assert.EqualValues(t, n, first.New)
		assert.EqualValues(t, 1, first.Report.Rejected)
		assert.Equal(t, []int64{1000, 2000, 2500}, steps)

		again := imported(t, c, content)
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
			assert.EqualValues(t, n+2, batch.Line, "the rejected row is the last")
			assert.EqualValues(t, n, batch.ExpectedRows)
			assert.EqualValues(t, 1, batch.Rejected)
		}
	})
}

func TestImportStoresNothingUnexpected(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		c.ExpectRows = 11
		requireImportError(t, c, fileOf(10), ErrUnexpected, "10 payouts, want 11")
		c.ExpectRows = 0
		requireImportError(t, c, header+"a,1,x\nb,2,x\ntotal,3,x\n", ErrTotalRow, "line 4")
		assert.Empty(t, stored(t, c))
		for batch, err := range c.Store.Batches(t.Context()) {
			t.Error("a batch was stored", batch, err)
		}
	})
}

// An import is interrupted after its first batch, and two processes import the rest.
func TestImportContinuesAfterAnInterruption(t *testing.T) {
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
		result := imported(t, c, content)
		require.NoError(t, <-other)
		assert.EqualValues(t, 3000, result.Done())
		assert.Len(t, stored(t, c), 3000)
	})
}

func TestInterruptedImportHidesNoRejectedRow(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		content := strings.Replace(fileOf(2500), "salary-0002,1.25,", "salary-0002,1.255,", 1)
		interrupt := func(content string) {
			ctx, cancel := context.WithCancel(t.Context())
			interrupted := c
			interrupted.Scale, interrupted.Progress = 3, func(Result) { cancel() } // accepts all rows
			_, err := Import(ctx, interrupted, strings.NewReader(content))
			require.ErrorIs(t, err, context.Canceled)
		}
		imported(t, c, content)
		interrupt(content)
		interrupt(content + "\n") // another file
		imported(t, c, content+"\n")
		for batch, err := range c.Store.Batches(t.Context()) {
			require.NoError(t, err)
			assert.True(t, batch.Complete)
			assert.EqualValues(t, 1, batch.Rejected)
		}
	})
}

// Each row has an empty note, so the import by note has no payout.
func TestImportByAnotherColumnDoesNotCompleteTheFile(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		content := "note," + strings.ReplaceAll(strings.TrimSuffix(fileOf(2500), "\n"), "\n", "\n,") + "\n"
		ctx, cancel := context.WithCancel(t.Context())
		interrupted := c
		interrupted.Ignore, interrupted.Progress = []string{"note"}, func(Result) { cancel() }
		_, err := Import(ctx, interrupted, strings.NewReader(content))
		require.ErrorIs(t, err, context.Canceled)
		c.Columns, c.Ignore = map[string]string{"reference": "note"}, []string{"reference"}
		requireImportError(t, c, content, durable.ErrInvalid, "read other references")
		for batch, err := range c.Store.Batches(t.Context()) {
			require.NoError(t, err)
			assert.False(t, batch.Complete)
		}
	})
}

func TestImportRejectsAFileThatChanges(t *testing.T) {
	rejected, full := "\nrejected,nothing,x", fileOf(2000)
	checked := strings.Replace(fileOf(2500), "\n", rejected+"\n", 1)
	more := strings.TrimPrefix(strings.ReplaceAll(fileOf(1000), "salary", "x"), header)
	replaced := func(a, b string) string { return strings.Replace(checked, a, b, 1) }
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		for name, f := range map[string]struct {
			checked, changed string
			stored           int
		}{
			"an amount in the middle":          {checked, replaced("salary-1000,1.25", "salary-1000,9.25"), 1000},
			"a destination of the first batch": {checked, replaced("salary-1501,1.25,4", "salary-1501,1.25,5"), 0},
			"the last, partial batch":          {checked, replaced("salary-0001,1", "salary-0001,9"), 2000},
			"a row removed":                    {checked, replaced("salary-1200,1.25,"+card+"\n", ""), 1000},
			"a line added":                     {checked, replaced("salary-1200,", "\nsalary-1200,"), 1000},
			"rows appended":                    {checked, checked + "salary-x,1.25,x\n", 2000},
			"a batch appended to full ones":    {full, full + more, 2000},
			"truncated in a batch":             {checked, strings.Split(checked, "salary-0900")[0], 1000},
			"truncated after full ones":        {checked, strings.Split(checked, "salary-0500")[0], 2000},
			"only a rejected row changed":      {checked, replaced(rejected, "\nrejected,neither,x"), 2000},
			"a rejected row becomes a payout":  {checked, replaced(rejected, "\nrejected,1,x"), 0},
			"other content":                    {fileOf(3), header + "other,1,x\n", 0},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := c.DB.ExecContext(t.Context(), `DELETE FROM durable_rows; DELETE FROM durable_batches`)
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
				imported(t, c, header+content)
			}
			assert.Len(t, stored(t, c), n+1, composed)
		}
	})
}

// changing has other content after each Seek. The last Seek first calls c.before, if set.
type changing struct {
	contents []string
	before   func()
	*strings.Reader
}

func (c *changing) Seek(int64, int) (int64, error) {
	if len(c.contents) == 1 && c.before != nil {
		c.before()
	}
	c.Reader, c.contents = strings.NewReader(c.contents[0]), c.contents[1:]
	return 0, nil
}

func TestImportReportsTheFailedDatabase(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		require.NoError(t, c.DB.Close())
		c.Wait = -1
		requireImportError(t, c, fileOf(1), ErrDatabase, "closed")
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
		imported(t, c, file)
		assert.Equal(t, 2, wakes)
		imported(t, c, file)
		assert.Equal(t, 2, wakes, "nothing is new")
		c.Wait = -1 // no retries
		c.Wake = func(context.Context, *sql.Tx) error { return io.ErrUnexpectedEOF }
		requireImportError(t, c, header+"new,1.50,"+card+"\n", io.ErrUnexpectedEOF, "")
		assert.Len(t, stored(t, c), batchRows+1, "it was rolled back")
	})
}

// results returns the results of the payouts of a batch, or of all payouts for "".
func results(t *testing.T, c ImportConfig, batch string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, WriteResults(t.Context(), &out, c.Store, durable.Filter{Batch: batch}))
	return out.String()
}

// fileResults returns the results of a file.
func fileResults(t *testing.T, c ImportConfig, file string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, WriteFileResults(t.Context(), &out, c.Store, strings.NewReader(file), Options{}))
	return out.String()
}

func TestResultsNamePrunedPayouts(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		file := header + "salary-1,1.50," + card + "\nsalary-2,2.50," + card + "\n"
		result := imported(t, c, file)
		prune(t, c, "salary-1")
		assert.Contains(t, fileResults(t, c, file), "\nsalary-1,2,1.50,pruned,,,,,\nsalary-2,3,2.50,created,")
		assert.Contains(t, fileResults(t, c, header+"salary-1,1.51,"+card+"\n"), "\nsalary-1,2,1.51,conflict,")
		assert.Regexp(t, `,\n,,,pruned,,,1 payout,,\n$`, results(t, c, result.Batch))
		again := imported(t, c, file)
		assert.Equal(t, []int64{0, 2}, []int64{again.New, again.Known})
	})
}

// network is a connection to a server that restarts. It fails in the ways that a restart causes.
type network struct {
	mu         sync.Mutex
	refuse     int         // dials to refuse
	loseCommit atomic.Bool // close the next connection that commits, before the response
	refused    func()      // called after each refused dial
	open       []net.Conn
}

func (n *network) dial(ctx context.Context, protocol, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuse > 0 {
		n.refuse--
		n.refused()
		return nil, syscall.ECONNREFUSED
	}
	c, err := new(net.Dialer).DialContext(ctx, protocol, address)
	if err == nil {
		n.open = append(n.open, c)
		c = &line{Conn: c, network: n}
	}
	return c, err
}

// restart closes all connections, and refuses some new ones.
func (n *network) restart(refuse int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.open {
		_ = c.Close()
	}
	n.refuse = refuse
}

type line struct {
	net.Conn
	network *network
	lost    atomic.Bool
}

func (l *line) Write(b []byte) (int, error) {
	if strings.Contains(strings.ToLower(string(b)), "commit") && l.network.loseCommit.CompareAndSwap(true, false) {
		l.lost.Store(true)
	}
	return l.Conn.Write(b)
}

func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b) // after its response, the commit is durable
	if l.lost.Load() {
		return 0, errors.Join(l.Close(), syscall.ECONNRESET)
	}
	return n, err
}

func openRestarting(t *testing.T) (*network, ImportConfig) {
	t.Helper()
	config, err := pgx.ParseConfig(dbtest.Postgres(t))
	require.NoError(t, err)
	n := &network{refused: func() {}}
	config.DialFunc = n.dial
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	return n, openStore(t, db)
}

func TestImportSurvivesARestartOfTheDatabase(t *testing.T) {
	for name, fail := range map[string]func(*network){
		"a closed connection": func(n *network) { n.restart(0) },
		"a refused dial":      func(n *network) { n.restart(2) },
		"a lost commit":       func(n *network) { n.loseCommit.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			n, c := openRestarting(t)
			c.Progress = func(r Result) {
				if r.Done() == 1000 {
					fail(n)
				}
			}
			result := imported(t, c, fileOf(2500))
			assert.EqualValues(t, 2500, result.Done())
			assert.Zero(t, result.Conflicts)
			assert.Len(t, stored(t, c), 2500)
			assert.Zero(t, n.refuse)
			assert.False(t, n.loseCommit.Load())
		})
	}
}

func TestImportEndsItsRetries(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n, c := openRestarting(t)
	c.Wait = time.Hour
	n.refused = cancel
	n.restart(1 << 30)
	_, err := Import(ctx, c, strings.NewReader(fileOf(1)))
	require.ErrorIs(t, err, context.Canceled)

	c.Wait = time.Nanosecond
	_, err = Import(t.Context(), c, strings.NewReader(fileOf(1)))
	require.ErrorIs(t, err, ErrDatabase)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	n.refuse, c.Wait = 0, time.Hour
	_, err = c.DB.ExecContext(t.Context(), `DROP TABLE durable_batches`)
	require.NoError(t, err)
	requireImportError(t, c, fileOf(1), ErrDatabase, "durable_batches") // a rejected statement is not retried
}

func TestWriteResultsNamesPayoutsByReference(t *testing.T) {
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		imported(t, c, header+"salary-1,1.50,"+card+"\n")
		result := imported(t, c, header+"\"salary, 2\",2.50,"+card+"\n")
		id := stored(t, c)[0].UserData
		assert.Contains(t, results(t, c, ""), "salary-1,2,1.50,created,,,")
		assert.Equal(t, "reference,line,amount,state,order_id,error_code,review,user_data,held\n"+
			"\"salary, 2\",2,2.50,created,,,,"+id+",\n", results(t, c, result.Batch))
		other := header + "unknown,1,x\n\"salary, 2\",2.50," + card + "\nsalary-1,9," + card + "\nx,none,y\n"
		out := fileResults(t, c, other)
		for _, want := range []string{
			"\nunknown,2,1,not imported,", "\n\"salary, 2\",3,2.50,created,", "\nsalary-1,4,9,conflict,",
			"\n,5,,rejected row,,,\"amount",
		} {
			assert.Contains(t, out, want)
		}
		assert.NotContains(t, out, card)
	})
}

func TestUnescapeRestoresEveryText(t *testing.T) {
	for text, want := range map[string]string{
		"=1": "'=1", "+1+1": "'+1+1", "-2+3": "'-2+3", "@SUM(1)": "'@SUM(1)", "＋1": "'＋1", "＠SUM(1)": "'＠SUM(1)",
		"\t=1": "'\t=1", "\r=1": "'\r=1", "\n=1": "'\n=1", "\u0020=1": "' =1", "\u00a0=1": "'\u00a0=1",
		"\x00=1": "'\x00=1", "'=1": "''=1", "'": "''",
		"a;=1+1;b;;@c": "a;'=1+1;b;;'@c", "; =1": ";' =1", ";'": ";''", "no; its": "no; its", " 1": " 1",
		"": "", "limit": "limit", "a=1": "a=1", "salary-1": "salary-1", "é": "é", "\xff": "\xff",
	} {
		assert.Equal(t, want, escaped(text))
	}
	written := record(durable.Row{Reference: "-1", OrderID: "=1", ErrorCode: "+1", ReviewReason: "@1"})
	assert.Equal(t, "'-1,0,,,'=1,'+1,'@1,,", strings.Join(written, ","))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("'=+-@;\t\r a1"))).Draw(t, "text")
		assert.Equal(t, text, Unescape(escaped(text)))
	})
}

func TestResultsContainNoFormula(t *testing.T) {
	formulas := []string{"+1+1", "@SUM(1)", "-2+3", "+12025550100", "＝1+1", "－1"}
	eachDatabase(t, func(t *testing.T, c ImportConfig) {
		content := header
		for _, reference := range formulas {
			content += reference + ",1,x\n"
		}
		read := func(results string) (references []string) {
			records, err := csv.NewReader(strings.NewReader(results)).ReadAll()
			require.NoError(t, err)
			for _, record := range records[1:] {
				assert.Equal(t, "'", record[0][:1])
				references = append(references, Unescape(record[0]))
			}
			return references
		}
		assert.Equal(t, formulas, read(fileResults(t, c, content)), "not imported")
		imported(t, c, content)
		assert.Equal(t, formulas, read(fileResults(t, c, content)))
		assert.Equal(t, formulas, read(fileResults(t, c, strings.ReplaceAll(content, ",1,", ",2,"))), "conflicts")
		assert.ElementsMatch(t, formulas, read(results(t, c, "")))
	})
}
