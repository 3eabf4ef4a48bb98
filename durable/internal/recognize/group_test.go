package recognize

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// Callers share the run that begins after they came, and not the run in progress: it may have begun before their commit.
func TestGroupSharesTheNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		runs, goOn := 0, make(chan error)
		results := make(chan error, 10)
		call := func() {
			_, err := g.do(func() (string, error) { runs++; return "", <-goOn })
			results <- err
		}
		go call()
		synctest.Wait()
		for range 5 {
			go call()
		}
		synctest.Wait()
		assert.Equal(t, 1, runs)
		goOn <- nil
		synctest.Wait()
		assert.NoError(t, <-results)
		assert.Empty(t, results, "the others wait for a run of their own")
		assert.Equal(t, 2, runs)
		failed := errors.New("failed")
		goOn <- failed
		for range 5 {
			assert.Equal(t, failed, <-results)
		}
		go call()
		goOn <- nil
		assert.NoError(t, <-results)
		assert.Equal(t, 3, runs)
	})
}
