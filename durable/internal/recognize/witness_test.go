package recognize

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func load(t *testing.T, w Witness) int64 {
	t.Helper()
	mark, err := w.Load(t.Context())
	require.NoError(t, err)
	return mark
}

func TestFileKeepsTheHighestMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "witness")
	first, second := File(path), File(path)
	assert.Zero(t, load(t, first))
	for _, s := range []struct {
		by         Witness
		mark, want int64
	}{{first, 1, 1}, {second, 7, 7}, {first, 5, 7}, {first, 9, 9}, {second, 8, 9}, {second, 2, 9}, {File(path), 3, 9}} {
		require.NoError(t, s.by.Save(t.Context(), s.mark))
		assert.Equal(t, s.want, load(t, first))
		assert.Equal(t, s.want, load(t, File(path)))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.EqualValues(t, 3*64, info.Size(), "a record per process, and each in one sector")
	assert.EqualValues(t, 0o600, info.Mode().Perm())
}

func TestFileIsSharedByProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "witness")
	var processes sync.WaitGroup
	for p := range 8 {
		processes.Go(func() {
			w := File(path)
			for n := range 20 {
				mark := int64(1 + 8*n + p)
				if !assert.NoError(t, w.Save(t.Context(), mark)) {
					return
				}
				got, err := w.Load(t.Context())
				assert.NoError(t, err)
				assert.GreaterOrEqual(t, got, mark)
			}
		})
	}
	processes.Wait()
	assert.EqualValues(t, 160, load(t, File(path)))
}

// A file that was removed or replaced gets a new record.
func TestFileThatWasReplacedGetsTheMarkAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "witness")
	w := File(path)
	require.NoError(t, w.Save(t.Context(), 3))
	require.NoError(t, os.Remove(path))
	assert.Zero(t, load(t, w))
	require.NoError(t, w.Save(t.Context(), 4))
	assert.EqualValues(t, 4, load(t, w))
	require.NoError(t, os.WriteFile(path, []byte("00000000000000000006\n"), 0o600))
	assert.EqualValues(t, 6, load(t, w))
	require.NoError(t, w.Save(t.Context(), 5))
	require.NoError(t, w.Save(t.Context(), 7))
	assert.EqualValues(t, 7, load(t, w))
}

func TestFileRejectsWhatIsNoMark(t *testing.T) {
	for _, text := range []string{"x\n", "\n", "1", "00000000000000000006\n-1 a\n", "\x00\x00\n", "6\n7"} {
		path := filepath.Join(t.TempDir(), "witness")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := File(path).Load(t.Context())
		assert.ErrorContains(t, err, "does not begin with a mark", text)
	}
	_, err := File(t.TempDir()).Load(t.Context())
	require.Error(t, err)
	missing := File(filepath.Join(t.TempDir(), "missing", "witness"))
	require.Error(t, missing.Save(t.Context(), 1))
	_, err = missing.Load(t.Context())
	require.ErrorContains(t, err, "create the directory of the file first", "a lost witness would hold all payouts")
}
