package payouts_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/payouts"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
)

const header = "reference,amount,destination\n"

// enqueued is a queue that works nothing, and counts what it is told.
type enqueued struct {
	payouts.Queue
	on func(call int) // runs in each call, before the transaction is committed

	mu    sync.Mutex
	calls int
	jobs  map[string]int // by user_data
}

func (q *enqueued) Enqueue(_ context.Context, _ *sql.Tx, userData ...string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls++
	if q.on != nil {
		q.on(q.calls)
	}
	if q.jobs == nil {
		q.jobs = map[string]int{}
	}
	for _, of := range userData {
		q.jobs[of]++
	}
	return nil
}

func imports(t *testing.T, s *store.Store, content string) payouts.Report {
	t.Helper()
	report, err := payouts.Import(t.Context(), payouts.ImportConfig{Store: s, Name: "payouts.csv"}, strings.NewReader(content))
	require.NoError(t, err)
	return report
}

// allCounts counts the payouts of all files.
func allCounts(t *testing.T, s *store.Store) store.Counts {
	t.Helper()
	counts, err := s.Counts(t.Context(), store.Payouts)
	require.NoError(t, err)
	return counts
}

func onEach(t *testing.T, f func(t *testing.T, url string, s *store.Store)) {
	testdb.Each(t, func(t *testing.T, url string) { f(t, url, open(t, url, time.Now)) })
}

func TestEachRowIsImportedKnownOrRefused(t *testing.T) {
	onEach(t, func(t *testing.T, _ string, s *store.Store) {
		first := header + "a,1.00,x\nb,2.00,y\n"
		report := imports(t, s, first)
		assert.Equal(t, payouts.Report{FileID: report.FileID, Rows: 2, Imported: 2}, report)

		again := imports(t, s, first)
		assert.Equal(t, payouts.Report{FileID: report.FileID, Rows: 2, Imported: 2, Earlier: 2}, again)

		other := imports(t, s, header+"a,1.0,x\n"+"b,2.01,y\n"+"c,3,z\n"+"c,3.00,z\n"+"c,4,z\n"+"d,0,z\n"+"a,1,other\n"+"broken\n")
		assert.Equal(t, payouts.Report{FileID: other.FileID, Rows: 8, Imported: 1, Known: 1, Refused: 6}, other)
		refused, err := s.RefusedRows(t.Context(), other.FileID, 100)
		require.NoError(t, err)
		const another = "its reference is that of another payout, of another amount or destination"
		assert.Equal(t, []store.RefusedRow{
			{Line: 3, Reason: another}, {Line: 5, Reason: "its reference stands in line 4 already"},
			{Line: 6, Reason: "its reference stands in line 4 already"}, {Line: 7, Reason: "amount: not above 0"},
			{Line: 8, Reason: "its reference stands in line 2 already"}, {Line: 9, Reason: "1 columns instead of 3"},
		}, refused)
		assert.EqualValues(t, 3, allCounts(t, s).Total())
	})
}

func TestAnImportThatWasInterruptedGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, _ string, s *store.Store) {
		rows := file(t, 1545)
		for _, c := range []struct {
			interrupted int   // the batch, which is not committed
			stored      int64 // payouts afterwards
		}{{1, 0}, {2, 500}, {3, 1500}} {
			ctx, cancel := context.WithCancel(t.Context())
			queue := &enqueued{on: func(call int) {
				if call == c.interrupted {
					cancel()
				}
			}}
			_, err := payouts.Import(ctx, payouts.ImportConfig{Store: s, Queue: queue}, rows)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, c.stored, allCounts(t, s).Total())
		}
		queue := &enqueued{}
		report, err := payouts.Import(t.Context(), payouts.ImportConfig{Store: s, Queue: queue}, rows)
		require.NoError(t, err)
		assert.Equal(t, payouts.Report{FileID: report.FileID, Rows: 1545, Imported: 1545, Earlier: 1500}, report)
		assert.Len(t, queue.jobs, 45)
	})
}

func TestSeveralProcessesImportOneFileOnce(t *testing.T) {
	onEach(t, func(t *testing.T, url string, s *store.Store) {
		var content bytes.Buffer
		require.NoError(t, payouts.Make(&content, 1100))
		queue := &enqueued{}
		var group sync.WaitGroup
		reports := make([]payouts.Report, 3)
		for i := range reports {
			own := s
			if i > 0 {
				own = open(t, url, time.Now)
			}
			group.Go(func() {
				report, err := payouts.Import(context.Background(), payouts.ImportConfig{Store: own, Queue: queue}, bytes.NewReader(content.Bytes()))
				assert.NoError(t, err)
				reports[i] = report
			})
		}
		group.Wait()
		for _, r := range reports {
			assert.EqualValues(t, 1100, r.Imported)
			assert.Zero(t, r.Refused+r.Known)
		}
		assert.Len(t, queue.jobs, 1100)
		for userData, times := range queue.jobs {
			assert.Equal(t, 1, times, userData)
		}
	})
}

// The files hold the same references in opposite order, so that transactions that did not sort them could deadlock.
func TestOneReferenceInTwoFilesIsOnePayout(t *testing.T) {
	onEach(t, func(t *testing.T, url string, s *store.Store) {
		var there, back strings.Builder
		there.WriteString(header)
		back.WriteString(header)
		for i := range 700 {
			fmt.Fprintf(&there, "r%d,1,x\n", i)
			fmt.Fprintf(&back, "r%d,1,x\n", 699-i)
		}
		other := open(t, url, time.Now)
		var group sync.WaitGroup
		var first, second payouts.Report
		group.Go(func() { first = imports(t, s, there.String()) })
		group.Go(func() { second = imports(t, other, back.String()) })
		group.Wait()
		assert.EqualValues(t, 700, first.Imported+second.Imported)
		assert.EqualValues(t, 700, first.Known+second.Known)
	})
}

func TestAnImportStopsWhereARowDoesNotEnd(t *testing.T) {
	onEach(t, func(t *testing.T, _ string, s *store.Store) {
		content := header + "a,1,x\nb,2,\"" + strings.Repeat("y\n", 1<<19) + "c,3,z\n"
		for range 2 { // the second time changes nothing
			_, err := payouts.Import(t.Context(), payouts.ImportConfig{Store: s}, strings.NewReader(content))
			require.ErrorContains(t, err, "line 3: ")
			require.ErrorContains(t, err, "the rows before it are imported")
			assert.EqualValues(t, 1, allCounts(t, s).Total())
		}
		report := imports(t, s, header+"a,1,x\nb,2,y\nc,3,z\n")
		assert.Equal(t, payouts.Report{FileID: report.FileID, Rows: 3, Imported: 2, Known: 1}, report)
	})
}

// changing is a file that is another one when it is read again.
type changing struct {
	*strings.Reader
	next []string
}

func (c *changing) Seek(int64, int) (int64, error) {
	c.Reader, c.next = strings.NewReader(c.next[0]), c.next[1:]
	return 0, nil
}

func TestAFileThatChangesWhileItIsReadIsReported(t *testing.T) {
	s := open(t, testdb.SQLite(t), time.Now)
	file := &changing{next: []string{header + "a,1,x\n", header + "a,2,x\n"}}
	_, err := payouts.Import(t.Context(), payouts.ImportConfig{Store: s}, file)
	assert.ErrorContains(t, err, "changed while it was read")
}

// The model is a map: a reference is new, the same payout again, that of another payout, or in the file already.
func TestNoRowIsLostWhateverTheFilesHold(t *testing.T) {
	s := open(t, testdb.SQLite(t), time.Now)
	forms := []struct{ text, payout string }{ // no payout where the form is bad
		{"1,x", "1 x"}, {"1.00,x", "1 x"}, {`"1","x"`, "1 x"}, {"2,x", "2 x"}, {"1,y", "1 y"},
		{"0,x", ""}, {",x", ""}, {"1", ""}, {"1,x,", ""}, {`1,x"y`, ""}, {`1,"x"y`, ""}, {"1,\"x\ny\"", ""},
	}
	known := map[string]string{}
	file := 0
	rapid.Check(t, func(t *rapid.T) {
		file++
		content := fmt.Sprintf("%sfile-%d,1,x\n", header, file) // another content each time
		want := payouts.Report{Rows: 1, Imported: 1}
		inFile := map[string]bool{}
		for range rapid.IntRange(0, 30).Draw(t, "rows") {
			reference := fmt.Sprintf("%d-%d", rapid.IntRange(0, 9).Draw(t, "reference"), file/4)
			form := rapid.SampledFrom(forms).Draw(t, "form")
			content += reference + "," + form.text + "\n"
			want.Rows++
			was, ok := known[reference]
			switch {
			case form.payout == "" || inFile[reference] || (ok && was != form.payout):
				want.Refused++
				continue
			case ok:
				want.Known++
			default:
				known[reference] = form.payout
				want.Imported++
			}
			inFile[reference] = true
		}
		report, err := payouts.Import(context.Background(), payouts.ImportConfig{Store: s}, strings.NewReader(content))
		require.NoError(t, err)
		want.FileID = report.FileID
		require.Equal(t, want, report)
	})
}
