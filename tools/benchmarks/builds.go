package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// built is what a hello program costs to build and to carry about.
type built struct {
	name      string
	size      int64
	wall, cpu time.Duration
}

// programs are the hello programs, below hello, by what they do.
func programs() map[string][]string {
	return map[string][]string{
		"call":   {"byhand", "paymentsvc", "stripe", "paddle", "resty"},
		"verify": {"byhand", "paymentsvc", "standardwebhooks", "svix"},
	}
}

// build builds each program once with a cache that is empty, so the standard library is built too. The modules
// themselves are downloaded by now, since this program requires them all.
func build(ctx context.Context, kind string) ([]built, error) {
	var all []built
	for _, name := range programs()[kind] {
		b, err := buildOne(ctx, kind, name)
		if err != nil {
			return nil, fmt.Errorf("hello/%s/%s: %w", kind, name, err)
		}
		all = append(all, b)
	}
	slices.SortStableFunc(all, func(a, b built) int { return int(a.size - b.size) })
	return all, nil
}

func buildOne(ctx context.Context, kind, name string) (built, error) {
	dir, err := os.MkdirTemp("", "benchmarks")
	if err != nil {
		return built{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	out := filepath.Join(dir, "hello")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-o", out, //nolint:gosec // names from the list above
		"github.com/paymentsvc/paymentsvc/tools/benchmarks/hello/"+kind+"/"+name)
	cmd.Env = append(os.Environ(), "GOCACHE="+filepath.Join(dir, "cache"), "GOFLAGS=")
	cmd.Stderr = os.Stderr
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return built{}, err
	}
	wall := time.Since(start)
	info, err := os.Stat(out)
	if err != nil {
		return built{}, err
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // its compilers' included
	return built{name: name, size: info.Size(), wall: wall, cpu: cpu}, nil
}
