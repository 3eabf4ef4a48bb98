package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTagsThatAreVersionsComeInTheirOrder(t *testing.T) {
	r := newRepository(t)
	for _, tag := range []string{"v1.10.0", "v1.9.0", "v1.10.0-rc.2", "v1.2", "v2", "version", "v1.3.0+build", "1.4.0"} {
		r.git("tag", tag)
	}
	versions, err := git{r.directory}.versions(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"v1.0.0", "v1.9.0", "v1.10.0-rc.2", "v1.10.0"}, versions)
}

func TestATreeIsExportedAsItWasCommitted(t *testing.T) {
	r := newRepository(t)
	r.write(map[string]string{"deep/er/still.go": "package still\n"})
	require.NoError(t, os.Symlink("pay.go", filepath.Join(r.directory, "link.go")))
	r.commit()
	r.write(map[string]string{"deep/er/still.go": "changed", "new.go": "new"})

	directory := t.TempDir()
	require.NoError(t, git{r.directory}.export(t.Context(), "HEAD", directory))
	var files []string
	require.NoError(t, fs.WalkDir(os.DirFS(directory), ".", func(path string, entry fs.DirEntry, err error) error {
		if !entry.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	assert.Equal(t, []string{ci, changelogFile, "deep/er/still.go", "go.mod", "more.go", "pay.go"}, files, "and no link")
	text, err := os.ReadFile(filepath.Join(directory, "deep", "er", "still.go"))
	require.NoError(t, err)
	assert.Equal(t, "package still\n", string(text))

	assert.ErrorContains(t, git{r.directory}.export(t.Context(), "v7.0.0", directory), "git archive")
}
