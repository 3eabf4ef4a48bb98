package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

const (
	branch        = "main"
	changelogFile = "CHANGELOG.md"
	ci            = ".ci/run"
)

type release struct {
	version string
	dry     bool
	skipCI  bool
	out     io.Writer
	now     func() time.Time
}

// make looks at everything that can be looked at before it says no, so that nobody learns of one reason at a time.
func (r release) make(ctx context.Context, directory string) error {
	root, err := git{directory}.root(ctx)
	if err != nil {
		return err
	}
	repository := git{root}
	tags, err := repository.versions(ctx)
	if err != nil {
		return err
	}
	module, err := modulePath(root)
	if err != nil {
		return err
	}
	log, logErr := readChangelog(filepath.Join(root, changelogFile))
	if err := errors.Join(
		checkVersion(r.version, tags),
		checkModulePath(r.version, module),
		repository.clean(ctx),
		repository.onBranch(ctx, branch),
		repository.identified(ctx),
		logErr,
		r.checkAPI(ctx, repository, lastRelease(tags)),
	); err != nil {
		return err
	}
	if err := r.runCI(ctx, repository); err != nil {
		return err
	}

	done, undo := "committed and tagged", fmt.Sprintf("git tag -d %s && git reset --keep HEAD~1", r.version)
	if r.isPrerelease() {
		done, undo = "tagged", "git tag -d "+r.version
	}
	r.printf("\nThe notes of %s:\n\n%s\n", r.version, log.notes)
	if r.dry {
		r.printf("Nothing was changed. Without -n this is %s as %s.\n", done, r.version)
		return nil
	}
	if err := r.commitAndTag(ctx, repository, log); err != nil {
		return err
	}
	r.printf("%s is %s here, and nowhere else. To publish it, for good:\n\n", r.version, done)
	r.printf("    git push --atomic origin %s %s\n    go list -m %s@%s\n\n", branch, r.version, module, r.version)
	r.printf("To take it back before that:\n\n    %s\n", undo)
	return nil
}

// isPrerelease says whether the notes stay where they are, for the release that is to come.
func (r release) isPrerelease() bool { return semver.Prerelease(r.version) != "" }

// commitAndTag moves the notes under the version, unless that is a pre-release, and tags it. Its error says how to take
// back what is there already.
func (r release) commitAndTag(ctx context.Context, repository git, log changelog) error {
	if r.isPrerelease() {
		return repository.tag(ctx, r.version, log.notes)
	}
	page, text := filepath.Join(repository.directory, changelogFile), []byte(log.release(r.version, r.now()))
	err := os.WriteFile(page, text, 0o644) //nolint:gosec // a page for everybody
	if err == nil {
		err = repository.commit(ctx, changelogFile, "Release "+r.version)
	}
	if err != nil {
		return fmt.Errorf("%w\ngit checkout HEAD -- %s takes the page back", err, changelogFile)
	}
	if err := repository.tag(ctx, r.version, log.notes); err != nil {
		return fmt.Errorf("%w\nit is committed and not tagged: git reset --keep HEAD~1 takes the commit back", err)
	}
	return nil
}

// checkAPI compares the exported API with that of the last release, "" for none.
func (r release) checkAPI(ctx context.Context, repository git, last string) error {
	if last == "" {
		r.printf("This is the first release: there is no API to compare with.\n")
		return nil
	}
	directory, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	if err := repository.export(ctx, last, directory); err != nil {
		return err
	}
	change, report, err := compareAPI(ctx, directory, repository.directory)
	if err != nil {
		return err
	}
	r.printf("The exported API since %s: %s\n%s", last, change, report)
	return checkPromise(r.version, last, change)
}

func (r release) runCI(ctx context.Context, repository git) error {
	if r.skipCI {
		r.printf("%s is not run.\n", ci)
		return nil
	}
	cmd := exec.CommandContext(ctx, filepath.Join(repository.directory, ci)) //nolint:gosec // this repository's own
	cmd.Dir, cmd.Stdout, cmd.Stderr = repository.directory, r.out, r.out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", ci, err)
	}
	if err := repository.clean(ctx); err != nil {
		return fmt.Errorf("after %s: %w", ci, err)
	}
	return nil
}

func (r release) printf(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format, args...) }

func modulePath(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod")) //nolint:gosec // this repository's own
	if err != nil {
		return "", err
	}
	path := modfile.ModulePath(text)
	if path == "" {
		return "", errors.New("go.mod names no module")
	}
	return path, nil
}
