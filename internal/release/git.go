package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// git is a repository, by a directory in it.
type git struct{ directory string }

// run gives what a git command prints; its error holds what the command said.
func (g git) run(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // commands of this file
	cmd.Dir = g.directory
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return string(output), nil
}

func (g git) root(ctx context.Context) (string, error) {
	root, err := g.run(ctx, "", "rev-parse", "--show-toplevel")
	return strings.TrimSpace(root), err
}

// versions gives the tags that are versions, in their order.
func (g git) versions(ctx context.Context) ([]string, error) {
	output, err := g.run(ctx, "", "tag", "--list", "v*")
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, tag := range strings.Fields(output) {
		if semver.Canonical(tag) == tag {
			versions = append(versions, tag)
		}
	}
	semver.Sort(versions)
	return versions, nil
}

func (g git) clean(ctx context.Context) error {
	changes, err := g.run(ctx, "", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the work tree is not clean:\n%s", strings.TrimRight(changes, "\n"))
	}
	return nil
}

func (g git) onBranch(ctx context.Context, name string) error {
	head, err := g.run(ctx, "", "rev-parse", "--abbrev-ref", "HEAD")
	if err != nil {
		return err
	}
	if head = strings.TrimSpace(head); head != name {
		return fmt.Errorf("a release is made on the branch %s, and this is %s", name, head)
	}
	return nil
}

// export writes the tree of a commit into a directory.
func (g git) export(ctx context.Context, commit, directory string) error {
	archive, err := g.run(ctx, "", "archive", "--format=tar", commit)
	if err != nil {
		return err
	}
	target, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer func() { _ = target.Close() }()
	files := tar.NewReader(strings.NewReader(archive))
	for {
		file, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if file.Typeflag != tar.TypeReg {
			continue // directories come with their files, and no Go file is a link
		}
		if err := target.MkdirAll(filepath.Dir(filepath.FromSlash(file.Name)), 0o755); err != nil {
			return err
		}
		text, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		if err := target.WriteFile(filepath.FromSlash(file.Name), text, 0o644); err != nil {
			return err
		}
	}
}

// identified says whether git knows who commits and tags. It would otherwise say so when files have been changed.
func (g git) identified(ctx context.Context) error {
	_, author := g.run(ctx, "", "var", "GIT_AUTHOR_IDENT")
	_, committer := g.run(ctx, "", "var", "GIT_COMMITTER_IDENT")
	return errors.Join(author, committer)
}

// commit commits one file.
func (g git) commit(ctx context.Context, file, message string) error {
	_, err := g.run(ctx, "", "commit", "--quiet", "--message", message, "--", file)
	return err
}

// tag puts an annotated tag with the notes on the last commit.
func (g git) tag(ctx context.Context, version, notes string) error {
	// Without this clean-up git would take the headings, which begin with #, for comments.
	_, err := g.run(ctx, version+"\n\n"+notes, "tag", "--annotate", "--cleanup=whitespace", "--file=-", version)
	return err
}
