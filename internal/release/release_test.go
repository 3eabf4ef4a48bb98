package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	testNotes     = "### Added\n\n- More.\n"
	testChangelog = "# Changelog\n\n## [Unreleased]\n\n" + testNotes + "\n## [1.0.0] - 2026-01-02\n\n- First.\n"
)

// repository is one that has been released as v1.0.0 and has had something added since.
type repository struct {
	t         *testing.T
	directory string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here")
	}
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_DIR": "", "GIT_WORK_TREE": "", "GIT_INDEX_FILE": "",
		"GIT_AUTHOR_NAME": "A Tester", "GIT_AUTHOR_EMAIL": "tester@example.com",
		"GIT_COMMITTER_NAME": "A Tester", "GIT_COMMITTER_EMAIL": "tester@example.com",
	} {
		t.Setenv(name, value)
		if value == "" {
			require.NoError(t, os.Unsetenv(name)) // Setenv brings it back
		}
	}
	r := repository{t, t.TempDir()}
	r.git("init", "--quiet", "--initial-branch", branch)
	r.write(map[string]string{
		"go.mod": goMod, "pay.go": "package pay\n\nfunc Start() {}\n", changelogFile: "# Changelog\n\n## [Unreleased]\n",
		ci: "#!/bin/sh\necho the checks of this repository\n",
	})
	r.commit()
	r.git("tag", "--annotate", "--message", "v1.0.0", "v1.0.0")
	r.write(map[string]string{"more.go": "package pay\n\nfunc More() {}\n", changelogFile: testChangelog})
	r.commit()
	return r
}

func (r repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = r.directory
	output, err := cmd.CombinedOutput()
	require.NoError(r.t, err, "git %s: %s", args, output)
	return strings.TrimSpace(string(output))
}

func (r repository) write(files map[string]string) { r.t.Helper(); write(r.t, r.directory, files) }

func (r repository) commit() {
	r.t.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message", "A change")
}

// state is all that a release changes.
func (r repository) state() string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.directory, changelogFile))
	require.NoError(r.t, err)
	return r.git("for-each-ref") + "\n" + r.git("rev-parse", "HEAD") + "\n" + r.git("status", "--porcelain") + "\n" + string(text)
}

// release runs the command, in the evening of a last of December.
func (r repository) release(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	var out, errors bytes.Buffer
	now := func() time.Time { return time.Date(2026, 12, 31, 23, 59, 0, 0, time.UTC) }
	code = run(r.t.Context(), append([]string{"-C", r.directory}, args...), &out, &errors, now)
	return code, out.String(), errors.String()
}

func TestAReleaseIsCommittedAndTaggedAndNotPushed(t *testing.T) {
	r := newRepository(t)
	origin := t.TempDir()
	r.git("init", "--quiet", "--bare", origin)
	r.git("remote", "add", "origin", origin)
	r.git("push", "--quiet", "origin", branch)
	before, published := r.git("rev-parse", "HEAD"), r.git("ls-remote", "origin")

	code, stdout, stderr := r.release("v1.1.0")
	require.Zero(t, code, stderr)

	assert.Equal(t, before, r.git("rev-parse", "HEAD~1"), "one commit")
	assert.Equal(t, "Release v1.1.0", r.git("log", "-1", "--format=%B"))
	assert.Equal(t, changelogFile, r.git("diff", "--name-only", "HEAD~1"))
	assert.Equal(t, "# Changelog\n\n## [Unreleased]\n\n## [1.1.0] - 2026-12-31\n\n"+testNotes+
		"\n## [1.0.0] - 2026-01-02\n\n- First.", r.git("show", "HEAD:"+changelogFile))
	assert.Empty(t, r.git("status", "--porcelain"))

	assert.Equal(t, "tag", r.git("cat-file", "-t", "v1.1.0"), "annotated")
	assert.Equal(t, r.git("rev-parse", "HEAD"), r.git("rev-parse", "v1.1.0^{commit}"))
	assert.Equal(t, "v1.1.0\n\n"+strings.TrimSpace(testNotes), r.git("tag", "--list", "v1.1.0", "--format=%(contents)"))

	for _, text := range []string{
		"The exported API since v1.0.0: something was added", "More: added", "the checks of this repository", testNotes,
		"git push --atomic origin main v1.1.0", "go list -m example.com/pay@v1.1.0", "git tag -d v1.1.0 && git reset --keep HEAD~1",
	} {
		assert.Contains(t, stdout, text)
	}
	assert.Equal(t, published, r.git("ls-remote", "origin"), "nothing was pushed")

	code, _, stderr = r.release("v1.1.1")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "holds nothing below", "nothing is unreleased right after a release")
}

func TestAPreReleaseIsTaggedAndLeavesItsNotesToTheRelease(t *testing.T) {
	r := newRepository(t)
	before := r.git("rev-parse", "HEAD")
	for _, version := range []string{"v1.1.0-rc.1", "v1.1.0-rc.2"} {
		code, stdout, stderr := r.release(version)
		require.Zero(t, code, stderr)
		assert.Equal(t, before, r.git("rev-parse", "HEAD"), "nothing is committed")
		assert.Empty(t, r.git("status", "--porcelain"))
		assert.Equal(t, before, r.git("rev-parse", version+"^{commit}"))
		assert.Equal(t, version+"\n\n"+strings.TrimSpace(testNotes), r.git("tag", "--list", version, "--format=%(contents)"))
		assert.Contains(t, stdout, version+" is tagged here, and nowhere else")
		assert.Contains(t, stdout, "git push --atomic origin main "+version)
		assert.Contains(t, stdout, "git tag -d "+version+"\n")
		assert.NotContains(t, stdout, "git reset", "there is no commit to take back")
	}

	code, _, stderr := r.release("v1.1.0")
	require.Zero(t, code, stderr)
	assert.Equal(t, "Release v1.1.0", r.git("log", "-1", "--format=%B"))
	assert.Contains(t, r.git("show", "HEAD:"+changelogFile), "## [Unreleased]\n\n## [1.1.0] - 2026-12-31\n\n"+testNotes)
}

func TestADryRunChangesNothing(t *testing.T) {
	for version, done := range map[string]string{"v1.1.0": "committed and tagged", "v1.1.0-rc.1": "tagged"} {
		t.Run(version, func(t *testing.T) {
			r := newRepository(t)
			before := r.state()
			code, stdout, stderr := r.release("-n", version)
			assert.Zero(t, code, stderr)
			assert.Contains(t, stdout, "the checks of this repository")
			assert.Contains(t, stdout, testNotes)
			assert.Contains(t, stdout, "Nothing was changed. Without -n this is "+done+" as "+version)
			assert.NotContains(t, stdout, "git push")
			assert.Equal(t, before, r.state())
		})
	}
}

func TestAReleaseThatBreaksOffSaysHowToTakeItBack(t *testing.T) {
	for name, test := range map[string]struct {
		hook string // in the name of git's own
		text string
		says string
		undo []string
	}{
		"at the commit": {"pre-commit", "exit 3", "git checkout HEAD -- CHANGELOG.md takes the page back",
			[]string{"checkout", "--quiet", "HEAD", "--", changelogFile}},
		"at the tag": {"reference-transaction", "! grep -q refs/tags/", "git reset --keep HEAD~1 takes the commit back",
			[]string{"reset", "--quiet", "--keep", "HEAD~1"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			before := r.state()
			hook := filepath.Join(r.git("rev-parse", "--absolute-git-dir"), "hooks", test.hook)
			require.NoError(t, os.MkdirAll(filepath.Dir(hook), 0o750))
			require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\n"+test.text+"\n"), 0o700))
			code, stdout, stderr := r.release("v1.1.0")
			assert.Equal(t, 1, code)
			assert.Contains(t, stderr, test.says)
			assert.NotContains(t, stdout, "git push")
			assert.NotEqual(t, before, r.state(), "or there is nothing to take back")
			r.git(test.undo...)
			assert.Equal(t, before, r.state())
		})
	}
}

func TestAReleaseIsRefusedAndNothingIsChanged(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(repository)
		args    []string
		code    int
		says    []string
	}{
		"a changed file": {
			prepare: func(r repository) { r.write(map[string]string{"pay.go": "package pay\n\nfunc Start() { }\n"}) },
			says:    []string{"the work tree is not clean:\n M pay.go"},
		},
		"a file that git does not know": {
			prepare: func(r repository) { r.write(map[string]string{"new.txt": "new"}) },
			says:    []string{"the work tree is not clean:\n?? new.txt"},
		},
		"another branch": {
			prepare: func(r repository) { r.git("checkout", "--quiet", "-b", "work") },
			says:    []string{"on the branch main, and this is work"},
		},
		"no branch": {
			prepare: func(r repository) { r.git("checkout", "--quiet", "--detach") },
			says:    []string{"on the branch main, and this is HEAD"},
		},
		"nothing to tell": {
			prepare: func(r repository) {
				r.write(map[string]string{changelogFile: "# Changelog\n\n## [Unreleased]\n\n### Added\n"})
				r.commit()
			},
			says: []string{"CHANGELOG.md holds nothing below"},
		},
		"no changelog": {
			prepare: func(r repository) { r.git("mv", changelogFile, "NEWS.md"); r.commit() },
			says:    []string{changelogFile + ": no such file"},
		},
		"an old version": {args: []string{"v0.9.0"}, says: []string{"v0.9.0 does not come after v1.0.0"}},
		"the same again": {args: []string{"v1.0.0"}, says: []string{"v1.0.0 does not come after v1.0.0"}},
		"too small a version": {
			args: []string{"v1.0.1"}, says: []string{"the API has changed since v1.0.0: that needs v1.1.0 at least"},
		},
		"an incompatible API": {
			prepare: func(r repository) {
				r.write(map[string]string{"pay.go": "package pay\n\nfunc Start(now bool) {}\n"})
				r.commit()
			},
			says: []string{"the API is incompatible with that of v1.0.0: that needs v2.0.0"},
		},
		"an API that is only compatible with the last pre-release": {
			prepare: func(r repository) {
				r.write(map[string]string{"pay.go": "package pay\n"})
				r.commit()
				r.git("tag", "v1.1.0-rc.1")
			},
			says: []string{"the API is incompatible with that of v1.0.0: that needs v2.0.0"},
		},
		"a second major version under the old path": {
			args: []string{"v2.0.0"}, says: []string{"go.mod and every import has to say example.com/pay/v2 first"},
		},
		"an API that does not compile": {
			prepare: func(r repository) { r.write(map[string]string{"pay.go": "package pay\n\nvar A missing\n"}); r.commit() },
			says:    []string{"the API: ", "undefined: missing"},
		},
		"an author without a name, before the checks are run": {
			prepare: func(r repository) {
				r.write(map[string]string{ci: "#!/bin/sh\nexit 3\n"})
				r.commit()
				r.t.Setenv("GIT_AUTHOR_NAME", "")
			},
			says: []string{"git var: "},
		},
		"a committer without a name, for a tag only": {
			prepare: func(r repository) { r.t.Setenv("GIT_COMMITTER_NAME", "") },
			args:    []string{"v1.1.0-rc.1"}, says: []string{"git var: "},
		},
		"checks that fail": {
			prepare: func(r repository) { r.write(map[string]string{ci: "#!/bin/sh\nexit 3\n"}); r.commit() },
			says:    []string{".ci/run: exit status 3"},
		},
		"all reasons at once": {
			prepare: func(r repository) {
				r.git("checkout", "--quiet", "-b", "work")
				r.write(map[string]string{"new.txt": "new", changelogFile: "# Changelog\n"})
			},
			args: []string{"v1.0"},
			says: []string{`"v1.0" is not a version`, "not clean", "this is work", "0 headings"},
		},
		"no version":      {args: []string{}, code: 2, says: []string{"usage: release"}},
		"two versions":    {args: []string{"v1.1.0", "v1.2.0"}, code: 2, says: []string{"usage: release"}},
		"an unknown flag": {args: []string{"-force", "v1.1.0"}, code: 2, says: []string{"-force"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			if test.prepare != nil {
				test.prepare(r)
			}
			args, code := test.args, test.code
			if args == nil {
				args = []string{"v1.1.0"}
			}
			if code == 0 {
				code = 1
			}
			before := ""
			if _, err := os.Stat(filepath.Join(r.directory, changelogFile)); err == nil {
				before = r.state()
			}
			got, stdout, stderr := r.release(args...)
			assert.Equal(t, code, got, stdout)
			for _, text := range test.says {
				assert.Contains(t, stderr, text)
			}
			assert.NotContains(t, stdout, "git push")
			if before != "" {
				assert.Equal(t, before, r.state())
			}
		})
	}
}

func TestChecksThatLeaveSomethingBehindStopTheRelease(t *testing.T) {
	r := newRepository(t)
	r.write(map[string]string{ci: "#!/bin/sh\necho more > left.txt\n"})
	r.commit()
	code, _, stderr := r.release("v1.1.0")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "after .ci/run: the work tree is not clean:\n?? left.txt")
	assert.Equal(t, "v1.0.0", r.git("tag"))
}

func TestTheFirstReleaseHasNoAPIToCompareWith(t *testing.T) {
	r := newRepository(t)
	r.git("tag", "-d", "v1.0.0")
	r.write(map[string]string{ci: "#!/bin/sh\nexit 3\n"})
	r.commit()
	code, stdout, stderr := r.release("-skip-ci", "v0.1.0")
	assert.Zero(t, code, stderr)
	assert.Contains(t, stdout, "This is the first release")
	assert.Contains(t, stdout, ".ci/run is not run")
	assert.Equal(t, "v0.1.0", r.git("tag"))
}

func TestOutsideOfARepositoryThereIsNoRelease(t *testing.T) {
	r := newRepository(t)
	r.directory = t.TempDir()
	code, _, stderr := r.release("v1.1.0")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "git rev-parse")
}
