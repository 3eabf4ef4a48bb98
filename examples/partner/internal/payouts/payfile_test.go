package payouts_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/payouts"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// written gives the path of a file.
func written(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "payouts.csv")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestAFileIsPaidToItsEnd(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		for _, c := range []struct {
			content string
			fault   paymentsvctest.Fault
			exit    int
			refused string // what is shown at first
			last    string // and in the end
			summary string
		}{
			{
				header + "a,1,4111111111111111\nb,2,+12025550100\n", paymentsvctest.Fault{}, 0, "",
				"payouts.csv: 2 of 2 payouts\n",
				"payouts.csv: 2 rows: 2 payouts, 0 known from before, 0 refused\n" +
					"       2 pending   started, the service has not said yet how it ends\n",
			},
			{
				header + "c,1,4111111111111111\nd,0,4111111111111111\na,1,4111111111111111\n", paymentsvctest.Fault{}, 3, "payouts.csv:3: amount: not above 0\n",
				"payouts.csv: 1 of 1 payouts\n",
				"payouts.csv: 3 rows: 1 payouts, 1 known from before, 1 refused\n" +
					"       1 pending   started, the service has not said yet how it ends\n",
			},
			{
				header + "e,1,4111111111111111\n", paymentsvctest.Reject(422, "closed", ""), 3, "",
				"payouts.csv: 1 of 1 payouts, 1 refused\n",
				"payouts.csv: 1 rows: 1 payouts, 0 known from before, 0 refused\n" +
					"       1 rejected  refused by the service\n",
			},
			{
				header + "f,1,4111111111111111\n", paymentsvctest.Drop(paymentsvctest.AfterCommit), 3, "",
				"payouts.csv: 1 of 1 payouts, 1 for a person\n",
				"payouts.csv: 1 rows: 1 payouts, 0 known from before, 0 refused\n" +
					"       1 unknown   for a person: nobody knows whether it was paid\n",
			},
			{header, paymentsvctest.Fault{}, 0, "", "payouts.csv: 0 of 0 payouts\n", "payouts.csv: 0 rows: 0 payouts, 0 known from before, 0 refused\n"},
		} {
			rule := b.fake.Fault(paymentsvctest.InitPayout, paymentsvctest.Every(), c.fault)
			var out bytes.Buffer
			summary, err := payouts.PayFile(t.Context(), b.config, written(t, c.content), &out)
			rule.Remove()
			require.NoError(t, err)
			assert.Equal(t, c.exit, summary.ExitCode(), c.content)
			assert.Equal(t, c.summary, summary.String())
			assert.True(t, strings.HasPrefix(out.String(), c.refused), out.String())
			assert.True(t, strings.HasSuffix(out.String(), c.last), out.String())
		}
	})
}

func TestAFileThatWasInterruptedGoesOn(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		var content bytes.Buffer
		require.NoError(t, payouts.Make(&content, 300))
		path := written(t, content.String())
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for b.fake.Requests(paymentsvctest.InitPayout) < 30 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		_, err := payouts.PayFile(ctx, b.config, path, nil)
		require.ErrorIs(t, err, context.Canceled)
		counts, err := b.store.PayoutCounts(t.Context(), "")
		require.NoError(t, err)
		require.Less(t, counts.Total()-counts.Open(), int64(300))

		summary, err := payouts.PayFile(t.Context(), b.config, path, nil)
		require.NoError(t, err)
		assert.Equal(t, 0, summary.ExitCode(), summary)
		assert.Equal(t, 300, b.fake.Requests(paymentsvctest.InitPayout))
		assert.Len(t, b.fake.Orders(), 300)
	})
}

func TestAFileThatCannotBeImportedIsAnError(t *testing.T) {
	b := newBench(t, filepath.Join(t.TempDir(), "partner.db"))
	for content, reason := range map[string]string{
		"":                       "import payouts.csv: the file is empty",
		"a,1,4111111111111111\n": "import payouts.csv: line 1 names no column",
		header + "a,1,x\nb,2,\"" + string(make([]byte, 1<<21)): "import payouts.csv: line 3: no row ends within",
	} {
		_, err := payouts.PayFile(t.Context(), b.config, written(t, content), nil)
		assert.ErrorContains(t, err, reason)
	}
	_, err := payouts.PayFile(t.Context(), b.config, filepath.Join(t.TempDir(), "none.csv"), nil)
	assert.ErrorIs(t, err, os.ErrNotExist)
}
