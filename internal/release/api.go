package main

import (
	"bytes"
	"context"
	"fmt"
	"go/importer"
	"go/token"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/exp/apidiff"
)

// compareAPI says how far the exported API of a module in one directory is from that in another, and what it is.
func compareAPI(ctx context.Context, was, is string) (change, string, error) {
	before, err := loadAPI(ctx, was)
	if err != nil {
		return 0, "", fmt.Errorf("the API of the last release: %w", err)
	}
	after, err := loadAPI(ctx, is)
	if err != nil {
		return 0, "", fmt.Errorf("the API: %w", err)
	}
	report := apidiff.ModuleChanges(before, after)
	result := unchanged
	for _, c := range report.Changes {
		if !c.Compatible {
			result = incompatible
			break
		}
		result = added
	}
	return result, report.String(), nil
}

// loadAPI reads the packages of a module that others may import, from what the compiler exports of them.
func loadAPI(ctx context.Context, directory string) (*apidiff.Module, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-export", "-deps",
		"-f", "{{.ImportPath}}\t{{.Name}}\t{{.Export}}\t{{with .Module}}{{if .Main}}{{.Path}}{{end}}{{end}}", "./...")
	cmd.Dir = directory
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	exports := map[string]string{}
	module := &apidiff.Module{}
	var paths []string
	for line := range strings.Lines(string(output)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		path, name, export, main := fields[0], fields[1], fields[2], fields[3]
		exports[path] = export
		if main == "" {
			continue
		}
		module.Path = main
		importable := export != "" && name != "main" // a directory of tests only exports nothing
		if importable && !strings.Contains("/"+path+"/", "/internal/") {
			paths = append(paths, path)
		}
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, path := range paths {
		pkg, err := imports.Import(path)
		if err != nil {
			return nil, err
		}
		module.Packages = append(module.Packages, pkg)
	}
	return module, nil
}
