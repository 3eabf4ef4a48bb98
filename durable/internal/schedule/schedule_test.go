package schedule

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// twoRounds returns two rounds in flight with one completion each. The scheduler has two slots.
func twoRounds(b *bench) (older, newer *flight) {
	b.Helper()
	b.next().record("a", "b")
	b.endCall()
	older = b.next()
	b.endCall()
	newer = b.next()
	require.Len(b, older.Completions, 1)
	require.Len(b, newer.Completions, 1)
	return older, newer
}

// The newer of two rounds in flight meets a pause. The older round ends later, without rows and without a pause.
func TestRunBatchReportsThePauseOfTheNewerRound(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.start(Limit{})
		older, newer := twoRounds(b)
		newer.pause()
		older.record()
		require.ErrorIs(t, b.result(), ErrPaused)
		assert.Equal(t, 2, b.made)
	})
}

// The older of two rounds finds no row, because the newer round has locked the last one. Later rounds still claim.
func TestOlderRoundDoesNotEndClaims(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.start(Limit{})
		older, newer := twoRounds(b)
		newer.record("c")
		older.record()
		next := b.next()
		assert.Equal(t, 1, next.MaxRows)
		next.record("d")
		require.NoError(t, b.result())
		assert.Equal(t, 4, b.made)
	})
}
