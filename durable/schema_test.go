package durable

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/durable/internal/dbtest"
	"github.com/paymentsvc/paymentsvc/durable/internal/ledger"
)

func TestOpenAndMigrateRejectTablesOfAnotherVersion(t *testing.T) {
	eachStore(t, func(t *testing.T, db database, s *Store) {
		for _, version := range []int{ledger.Version - 1, ledger.Version + 1} {
			db.Exec(t, fmt.Sprintf(`UPDATE durable_version SET version = %d`, version))
			_, err := Open(t.Context(), db.DB, config(Config{}))
			require.ErrorIs(t, err, ErrSchema)
			require.ErrorContains(t, err, fmt.Sprintf("%d, want %d", version, ledger.Version))
			require.ErrorIs(t, Migrate(t.Context(), db.DB), ErrSchema)
		}
		db.Exec(t, fmt.Sprintf(`UPDATE durable_version SET version = %d`, ledger.Version))
		queue(t, s, payouts("a", 1)...)
		rolledBack := openStore(t, db, Config{}) // a process of another program with the same version
		assert.Equal(t, 1, runBatch(t, rolledBack, nil))
	})
}

// deaf is a client without a DecodeError.
type deaf struct{ *service }

func (deaf) DecodesErrors() bool { return false }

func TestMigrateSucceedsInSeveralProcessesAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db database) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				other, err := dbtest.Connect(db.Address)
				if assert.NoError(t, err) {
					defer other.Close()
					other.SetMaxOpenConns(1)
					assert.NoError(t, Migrate(t.Context(), other))
				}
			})
		}
		wg.Wait()
	})
	db := dbtest.SQLite(t)
	_, err := Open(t.Context(), db.DB, config(Config{}))
	require.ErrorIs(t, err, ErrSchema)
	require.ErrorContains(t, err, "want the tables of durable.Migrate")
	_, err = Open(t.Context(), db.DB, Config{Service: &service{}, Project: "p", Lease: time.Second})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = Open(t.Context(), db.DB, Config{Service: deaf{}, Project: "p"})
	require.ErrorContains(t, err, "Config.Service: the client has no DecodeError, so no response proves a rejection")
	grace := Config{Timeout: time.Minute, Lease: 5 * time.Minute, Grace: 3*time.Minute - 1}
	require.ErrorContains(t, config(grace).withDefaults().check(),
		"Config.Grace is 2m59.999999999s, want at least the sum of Config.Timeout and 2m0s")
	grace.Grace = 0
	assert.Equal(t, 3*time.Minute, config(grace).withDefaults().Grace)
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1)} {
		require.ErrorIs(t, config(Config{PerSecond: rate}).withDefaults().check(), ErrInvalid)
	}
}
