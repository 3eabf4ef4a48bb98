package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheAPIOfTwoVersionsIsCompared(t *testing.T) {
	const pay = "package pay\n\nfunc Start(amount int) error { return nil }\n"
	was := map[string]string{
		"go.mod": goMod, "pay.go": pay, "wire/wire.go": "package wire\n\ntype Body struct{ Text string }\n",
		"internal/books/books.go": "package books\n\nfunc Add() {}\n", "cmd/pay/main.go": "package main\n\nfunc main() {}\n",
		"nested/go.mod": "module example.com/pay/nested\n", "nested/nested.go": "package nested\n\nfunc Do() {}\n",
	}
	for name, test := range map[string]struct {
		file, text string // "" for one that is gone
		want       change
		report     string
	}{
		"nothing":                  {"doc.go", "package pay\n\nfunc hidden() {}\n", unchanged, ""},
		"a new function":           {"more.go", "package pay\n\nfunc More() {}\n", added, "More: added"},
		"a new package":            {"more/more.go", "package more\n", added, "package example.com/pay/more: added"},
		"a new field":              {"wire/wire.go", "package wire\n\ntype Body struct{ Text, More string }\n", added, "Body.More: added"},
		"another parameter":        {"pay.go", "package pay\n\nfunc Start(amount int64) error { return nil }\n", incompatible, "Start: changed"},
		"a function that is gone":  {"pay.go", "package pay\n", incompatible, "Start: removed"},
		"a package that is gone":   {"wire/wire.go", "", incompatible, "package example.com/pay/wire: removed"},
		"an internal package":      {"internal/books/books.go", "package books\n", unchanged, ""},
		"a command":                {"cmd/pay/main.go", "package main\n\nfunc main() {}\n\nfunc Exported() {}\n", unchanged, ""},
		"a directory of tests":     {"docs/docs_test.go", "package docs_test\n\nfunc Exported() {}\n", unchanged, ""},
		"a module within":          {"nested/nested.go", "package nested\n", unchanged, ""},
		"names of parameters only": {"pay.go", "package pay\n\nfunc Start(sum int) (err error) { return nil }\n", unchanged, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := t.TempDir(), t.TempDir()
			write(t, before, was)
			write(t, after, was)
			if test.text == "" {
				require.NoError(t, os.Remove(filepath.Join(after, test.file)))
			} else {
				write(t, after, map[string]string{test.file: test.text})
			}
			change, report, err := compareAPI(t.Context(), before, after)
			require.NoError(t, err)
			assert.Equal(t, test.want, change, report)
			assert.Contains(t, report, test.report)
		})
	}
}

func TestAnAPIThatDoesNotCompileIsAnError(t *testing.T) {
	good, bad := t.TempDir(), t.TempDir()
	write(t, good, map[string]string{"go.mod": goMod, "pay.go": "package pay\n"})
	write(t, bad, map[string]string{"go.mod": goMod, "pay.go": "package pay\n\nfunc Start() missing\n"})
	_, _, err := compareAPI(t.Context(), bad, good)
	assert.ErrorContains(t, err, "the API of the last release")
	_, _, err = compareAPI(t.Context(), good, bad)
	assert.ErrorContains(t, err, "undefined: missing")
}

const goMod = "module example.com/pay\n\ngo 1.26\n"

func write(t *testing.T, directory string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(directory, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		mode := os.FileMode(0o644)
		if name == ci {
			mode = 0o755
		}
		require.NoError(t, os.WriteFile(file, []byte(text), mode))
	}
}
