// Command benchmarks sets the SDK beside its peers and beside the same work by hand, in one run and on the same
// bytes. It is a module of its own, so that the peers stay out of the SDK's requirements.
//
//	go run .                       print the tables as Markdown: about two minutes
//	go run . -o ../../docs         and put them into performance.md there
//	go run . -o ../../docs -builds also build each hello program with an empty cache: some ten minutes more
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, progress io.Writer) error {
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	flags.SetOutput(progress)
	out := flags.String("o", "", "the directory of performance.md, which is changed")
	rounds := flags.Int("rounds", 201, "how often each candidate has its turn")
	builds := flags.Bool("builds", false, "also build each hello program with an empty cache")
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := compare(ctx, max(1, *rounds), progress)
	if err != nil {
		return err
	}
	sections := map[string]string{"measured": text}
	if *builds {
		if sections["built"], err = compareBuilds(ctx, progress); err != nil {
			return err
		}
	}
	for _, name := range []string{"measured", "built"} {
		if _, err := io.WriteString(stdout, sections[name]); err != nil {
			return err
		}
	}
	if *out == "" {
		return nil
	}
	return publish(*out, sections)
}

// sizes are a notification as it comes, and one that some field has blown up to what Handler reads.
func sizes() []int { return []int{220, 4 << 10, 64 << 10} }

// compare measures everything but builds.
func compare(ctx context.Context, rounds int, progress io.Writer) (text string, err error) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the order of turns guards nothing
	text = machine(time.Now()) + "\n" + versions() + fmt.Sprintf("\nEach candidate had %d turns.\n\n", rounds)
	add := func(t table) { text += t.markdown() }
	for _, work := range []struct {
		title string
		made  func(int, delivery) []candidate
	}{{"Verify", verifiers}, {"Verify and parse", parsers}} {
		for _, size := range sizes() {
			title := fmt.Sprintf("%s, %s", work.title, sizeName(size))
			_, _ = fmt.Fprintln(progress, title)
			rows, err := measure(work.made(size, untouched), pooledHMACName, rounds, 1, random)
			if err != nil {
				return "", err
			}
			add(table{title: title, reference: "pooled HMAC", rows: rows})
		}
	}
	for _, n := range []int{1, 64} {
		title := map[int]string{1: "A call, one caller", 64: "A call, 64 callers"}[n]
		_, _ = fmt.Fprintln(progress, title)
		candidates, end := callers(ctx)
		rows, err := measure(candidates, byHand, rounds, n, random)
		end()
		if err != nil {
			return "", err
		}
		add(table{title: title, reference: byHand, rows: rows})
	}
	title := "Connections that 64 callers open, 20 calls each, with the client as it comes"
	_, _ = fmt.Fprintln(progress, title)
	rows, err := measureConnections(ctx, min(rounds, 21), 64, 20, random)
	if err != nil {
		return "", err
	}
	add(table{title: title, reference: byHand, rows: rows})
	return text, nil
}

func sizeName(bytes int) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}

func compareBuilds(ctx context.Context, progress io.Writer) (text string, err error) {
	text = machine(time.Now()) + "\n"
	for _, kind := range []struct{ name, title string }{
		{"call", "A program that makes a call"},
		{"verify", "A program that verifies and reads a notification"},
	} {
		_, _ = fmt.Fprintln(progress, kind.title)
		all, err := build(ctx, kind.name)
		if err != nil {
			return "", err
		}
		text += builtMarkdown(kind.title, all)
	}
	return text, nil
}

// publish puts the sections into the document.
func publish(dir string, sections map[string]string) error {
	file := filepath.Join(dir, "performance.md")
	content, err := os.ReadFile(file) //nolint:gosec // the user's own choice
	if err != nil {
		return err
	}
	document := string(content)
	for name, text := range sections {
		if document, err = replaceBetween(document, name, text); err != nil {
			return err
		}
	}
	return os.WriteFile(file, []byte(document), 0o644) //nolint:gosec // a document, where the user wants it
}

// must is for what fails only where this program is wrong.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
