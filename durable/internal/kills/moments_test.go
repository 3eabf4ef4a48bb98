package kills

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
)

// moment is a copy of all rows, at a step of a payout.
type moment struct {
	step durable.Step
	mark int
	rows dbtest.Copy
}

// A restore of the rows to any moment, while all processes are stopped, sends nothing again. The rows alone are
// restored, so the mark is the only evidence.
func TestRestoreToAnyMomentSendsNothingAgain(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		service, moments := newService(t), []moment(nil)
		db.witness = filepath.Join(t.TempDir(), "witness")
		slow := func(c *durable.Config) { c.Slots = 1 }
		store := open(t, db, service.URL, time.Minute, slow, func(c *durable.Config) {
			c.Hooks.Step = func(step durable.Step) {
				rows, err := dbtest.CopyRows(t.Context(), db.DB)
				assert.NoError(t, err)
				moments = append(moments, moment{step, db.Number(t, `SELECT mark FROM durable_mark`), rows})
			}
		})
		const payouts = 5
		addMany(t, db, store, "a", payouts)
		n, err := store.RunBatch(t.Context(), durable.BatchLimit{})
		require.NoError(t, err)
		require.Equal(t, payouts, n)
		require.GreaterOrEqual(t, len(moments), 4*payouts)
		holds := map[bool]int{}
		for _, m := range slices.Backward(moments) {
			before := load(t, durable.FileWitness(db.witness))
			require.NoError(t, m.rows.Restore(t.Context(), db.DB))
			store = open(t, db, service.URL, time.Minute, slow)
			held := db.Number(t, `SELECT hold FROM durable_control`) == 1
			assert.Equal(t, m.mark < before, held, m.step)
			holds[held]++
			waiting := db.Number(t, `SELECT COUNT(*) FROM durable_queue`)
			_, err := store.RunBatch(t.Context(), durable.BatchLimit{})
			if waiting > 0 {
				require.ErrorIs(t, err, durable.ErrHeld, m.step)
			}
			require.Len(t, service.Orders(), payouts, m.step)
		}
		assert.Positive(t, holds[false], "the newest moments have lost nothing")
		assert.GreaterOrEqual(t, holds[true], 3*payouts)
	})
}

func load(t *testing.T, w durable.Witness) int {
	t.Helper()
	mark, err := w.Load(t.Context())
	require.NoError(t, err)
	return int(mark)
}

// failing is a witness that fails while down is set.
type failing struct {
	durable.Witness
	down *atomic.Bool
}

func (f failing) Save(ctx context.Context, mark int64) error {
	if f.down.Load() {
		return errors.New("the witness is unavailable")
	}
	return f.Witness.Save(ctx, mark)
}

func TestNoCallBeginsWithoutTheWitness(t *testing.T) {
	each(t, func(t *testing.T, db database) {
		service, down := newService(t), &atomic.Bool{}
		store := open(t, db, service.URL, time.Minute, func(c *durable.Config) {
			c.Witness = failing{durable.FileWitness(filepath.Join(t.TempDir(), "witness")), down}
		})
		down.Store(true)
		addMany(t, db, store, "a", 20)
		_, err := store.RunBatch(t.Context(), durable.BatchLimit{})
		require.ErrorContains(t, err, "the witness is unavailable")
		assert.Empty(t, service.Orders())
		stop := run(t, store)
		eventually(t, func() bool { return db.Number(t, `SELECT COUNT(*) FROM durable_queue`) == 20 }) // released
		assert.Empty(t, service.Orders())
		down.Store(false)
		eventually(t, func() bool { return len(service.Orders()) == 20 })
		stop()
		assert.Zero(t, db.Number(t, `SELECT hold FROM durable_control`))
		_, payouts := finish(t, db, open(t, db, service.URL, time.Minute), service)
		assert.Zero(t, payouts, "unknown")
	})
}

// Sessions of the server have statements of earlier clients, so any statement of Open may fail.
func TestPoolerIsRejectedWithTheParameterToSet(t *testing.T) {
	db := postgres(t)
	through := pooled(t, db)
	client, err := newClient("http://127.0.0.1:1")
	require.NoError(t, err)
	c := config(client, time.Minute, db.witness)
	for range 3 {
		pool := opened(t, strings.TrimSuffix(through.Address, "&default_query_exec_mode=exec"))
		c.AllowUnsafeDatabase = false
		_, err = durable.Open(t.Context(), pool.DB, c)
		require.ErrorIs(t, err, durable.ErrUnsafeDatabase)
		require.ErrorContains(t, err, "default_query_exec_mode=exec or cache_describe")
		c.AllowUnsafeDatabase = true // of the server, without fsync
		_, err = durable.Open(t.Context(), through.DB, c)
		require.NoError(t, err)
	}
}
