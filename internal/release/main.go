// Command release makes a release of this repository's module. It looks whether the version may be given, runs .ci/run,
// moves what CHANGELOG.md holds as unreleased under the version, commits that, and tags the commit. A pre-release, such
// as v1.2.3-rc.1, is only tagged: what is unreleased stays so until the release. It pushes nothing: it prints the command
// that does.
//
//	go run . -n v1.2.3    all of that but the changes
//	go run . v1.2.3
//
// Only tags that are here count. Run git fetch --tags first.
//
// A version is refused when it is not the next one after the last tag, when it promises less than the exported API has
// changed since the last release, when the work tree is not clean or not on the branch main, when CHANGELOG.md holds
// nothing unreleased, and when git does not know who commits.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, time.Now)
	stop()
	os.Exit(code)
}

// run gives the exit status: 0, 1 when there is no release, 2 for arguments that make no sense.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, now func() time.Time) int {
	r := release{out: stdout, now: now}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = fmt.Fprintln(stderr, "usage: release [flags] v1.2.3")
		flags.PrintDefaults()
	}
	directory := flags.String("C", ".", "a `directory` in the repository")
	flags.BoolVar(&r.dry, "n", false, "look at everything, and change nothing")
	flags.BoolVar(&r.skipCI, "skip-ci", false, "do not run .ci/run, for trials")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() != 1:
		flags.Usage()
		return 2
	}
	r.version = flags.Arg(0)
	if err := r.make(ctx, *directory); err != nil {
		_, _ = fmt.Fprintf(stderr, "no release: %v\n", err)
		return 1
	}
	return 0
}
