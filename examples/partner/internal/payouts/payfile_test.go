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

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/payouts"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
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
				"payouts.csv: 2 of 2 payouts\n",
				"payouts.csv: 3 rows: 1 payouts, 1 known from before, 1 refused\n" +
					"       2 pending   started, the service has not said yet how it ends\n",
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

// notSure is a service of which nobody knows what it did.
type notSure struct{ payouts.Service }

func (notSure) InitPayout(context.Context, paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
	return nil, &paymentsvc.Error{Outcome: paymentsvc.OutcomeUnknown}
}

// What another file brought first is waited for, and needs a person, like the payouts that are the file's own.
func TestAFileIsDoneWhenItsKnownRowsAreToo(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		const rows = header + "a,1,4111111111111111\nb,2,4111111111111111\n"
		imports(t, b.store, rows) // and nothing works
		summary, err := payouts.PayFile(t.Context(), b.config, written(t, rows+"\n"), nil)
		require.NoError(t, err)
		assert.Equal(t, 0, summary.ExitCode(), summary)
		assert.EqualValues(t, 2, summary.Counts.States[store.StatePending])

		const more = header + "c,1,4111111111111111\n"
		b.config.Client = notSure{b.config.Client}
		for _, content := range []string{more, more + "\n", more + "\n\n"} {
			summary, err := payouts.PayFile(t.Context(), b.config, written(t, content), nil)
			require.NoError(t, err)
			assert.Equal(t, 3, summary.ExitCode(), summary)
		}
	})
}

// particular is a service that refuses a row as if it refused the caller.
type particular struct {
	payouts.Service
	destination string
}

func (p particular) InitPayout(ctx context.Context, r paymentsvc.PayoutRequest) (*paymentsvc.InitPayoutResponse, error) {
	if r.Destination == p.destination {
		return nil, &paymentsvc.Error{
			Outcome: paymentsvc.OutcomeRejected, HTTPStatus: 403, Err: &paymentsvc.ServiceError{Code: "recipient_not_allowed"},
		}
	}
	return p.Service.InitPayout(ctx, r)
}

func TestAPayoutThatIsRefusedAgainAndAgainIsForAPersonAndHoldsUpNothing(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		const gone = "+12025550199"
		b.config.Client = particular{b.config.Client, gone}
		path := written(t, header+"a,1,"+gone+"\nb,1,4111111111111111\nc,1,4111111111111111\n")
		summary, err := payouts.PayFile(t.Context(), b.config, path, nil)
		require.NoError(t, err)
		assert.Equal(t, 3, summary.ExitCode())
		assert.Equal(t, "payouts.csv: 3 rows: 3 payouts, 0 known from before, 0 refused\n"+
			"       2 pending   started, the service has not said yet how it ends\n"+
			"       1 created   to be sent\n"+
			"       1 of these  for a person: refused again and again, and still tried now and then\n", summary.String())
		p := b.rows()[0]
		assert.EqualValues(t, 10, p.Attempts)
		assert.Equal(t, "Refused again and again: recipient_not_allowed.", p.Attention)
		assert.Greater(t, time.Until(p.DueAt), 10*time.Minute)
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
		counts := allCounts(t, b.store)
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
