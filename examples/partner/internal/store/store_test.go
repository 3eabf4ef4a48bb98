package store_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
	"github.com/paymentsvc/paymentsvc/examples/partner/internal/testdb"
)

func TestParametersAreBoundByTheirNumbers(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		s, err := store.Open(t.Context(), store.Options{URL: databaseURL})
		require.NoError(t, err)
		defer s.Close()
		var second, first string
		err = s.DB().QueryRowContext(t.Context(), `SELECT CAST($2 AS TEXT), CAST($1 AS TEXT)`, "one", "two").Scan(&second, &first)
		require.NoError(t, err)
		assert.Equal(t, "two", second)
		assert.Equal(t, "one", first)
	})
}

func TestProcessesThatStartTogetherShareANewDatabase(t *testing.T) {
	testdb.Each(t, func(t *testing.T, databaseURL string) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				s, err := store.Open(t.Context(), store.Options{URL: databaseURL})
				if assert.NoError(t, err) {
					defer s.Close()
					_, err = s.DueOrders(t.Context(), store.StateCreated, 1)
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
	})
}
