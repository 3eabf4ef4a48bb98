//go:build unix

package docs_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryCommandIsKnown(t *testing.T) {
	known := map[string]bool{}
	for _, s := range steps() {
		assert.False(t, known[s.command], "stands twice: %s", s.command)
		known[s.command] = true
		_, problem := s.rewritten(nil)
		assert.Empty(t, problem, s.command)
	}
	shown := map[string]bool{}
	for _, p := range pages(t) {
		commands, where := commandsOf(p)
		for _, command := range commands {
			shown[command] = true
			if !known[command] {
				t.Errorf("%s: no step in docs/steps_test.go runs it: %s", where[command], command)
			}
		}
	}
	for command := range known {
		assert.True(t, shown[command], "no page shows it any more: %s", command)
	}
}

func TestAReplacementThatReplacesNothingIsFound(t *testing.T) {
	s := step{command: "go test -count 50 .", instead: []string{"-count 50", "-count 1", "-v", ""}}
	_, problem := s.rewritten(nil)
	assert.Equal(t, "nothing to replace: -v", problem)
}

var runCommands = flag.Bool("commands", false, "run the commands of the pages")

// TestEveryCommandRuns runs the commands of the pages in a shell, with this repository as the directory. Where one is
// long, needs a port or writes a file, its step says what stands there instead.
func TestEveryCommandRuns(t *testing.T) {
	if !*runCommands {
		t.Skip("the commands of the pages are run with -commands, as .ci/run does: they build, download and wait")
	}
	seeSources(t)
	s := newSession(t)
	for _, step := range steps() {
		t.Run(step.command, func(t *testing.T) {
			if step.exempt != "" {
				t.Skip("not run here: " + step.exempt)
			}
			s.T = t
			s.run(step)
		})
	}
}

// seeSources looks at every file of the repository, so that go test does not take this test's last result for a
// repository that has changed since: it notes only what a test opens or looks at.
func seeSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".") {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		_, err = os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a file that somebody has just taken away
		}
		return err
	})
	require.NoError(t, err)
}

// session runs steps one after the other.
type session struct {
	*testing.T                 // of the step that is running
	all        *testing.T      // of all steps
	ctx        context.Context // ends before go test would, so that no command outlives it
	places     map[string]string
	skipped    map[string]bool // names of what does not serve, since it was skipped
	notified   chan string
}

func newSession(t *testing.T) *session {
	t.Helper()
	root, err := filepath.Abs(root)
	require.NoError(t, err)
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-20*time.Second))
		t.Cleanup(cancel)
	}
	return &session{
		all:      t,
		ctx:      ctx,
		places:   map[string]string{"tmp": t.TempDir(), "root": root},
		skipped:  map[string]bool{},
		notified: make(chan string, 10),
	}
}

func (s *session) run(step step) {
	s.skipUnless(step)
	if step.before != nil {
		step.before(s)
	}
	command, problem := step.rewritten(s.places)
	require.Empty(s, problem)
	dir := filepath.Join(s.places["root"], step.in)
	if strings.HasPrefix(step.in, "{") {
		dir = placed(step.in, s.places)
	}
	s.Logf("in %s: %s", dir, command)
	if step.serves != "" {
		s.serve(step, dir, command)
	} else {
		cmd := shell(s.ctx, dir, command)
		output, err := cmd.CombinedOutput()
		require.NoError(s, err, "%s", output)
		require.Contains(s, string(output), step.says)
	}
	if step.after != nil {
		step.after(s)
	}
}

// skipUnless skips a step whose needs are not met, and says which.
func (s *session) skipUnless(step step) {
	for _, need := range step.needs {
		reason := ""
		switch need {
		case needsCurl, needsNPX:
			if _, err := exec.LookPath(need); err != nil {
				reason = "there is no " + need + " here"
			} else if need == needsNPX && testing.Short() {
				reason = "npm may have to download, which is not for -short"
			}
		case needsBenchmarks, needsBrowser, needsContract, needsPartner:
			cmd := shell(s.ctx, filepath.Join(s.places["root"], need), "go list -deps -test ./... tool")
			cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=")
			if output, err := cmd.CombinedOutput(); err != nil {
				reason = fmt.Sprintf("the modules that %s requires are not here, and go test downloads none: %s", need, lastLine(output))
			}
		default:
			if s.places[need] == "" {
				require.True(s, s.skipped[need], "%s does not serve", need)
				reason = need + " was skipped"
			}
		}
		if reason != "" {
			s.skipped[step.serves] = true
			s.Skip(reason)
		}
	}
}

func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1]
}

// shell is a command that ends with all that it has started.
func shell(ctx context.Context, dir, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PWD="+dir, "NO_COLOR=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// serve starts a command that goes on until the session is over, and waits for its address.
func (s *session) serve(step step, dir, command string) {
	out := &output{found: make(chan string, 1), listens: regexp.MustCompile(step.listens)}
	ctx, cancel := context.WithCancel(s.ctx)
	cmd := shell(ctx, dir, command)
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(s, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.all.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case address := <-out.found:
		s.places[step.serves] = address
	case err := <-ended:
		ended <- err
		if step.serves == "prism" && strings.Contains(out.String(), "npm error") {
			s.skipped[step.serves] = true
			s.Skip("npm has not got the package: " + lastLine([]byte(out.String())))
		}
		require.NoError(s, err, "%s", out.String())
		s.Fatalf("it has ended:\n%s", out.String())
	case <-s.ctx.Done():
		s.Fatalf("it does not say where it listens:\n%s", out.String())
	}
}

// output keeps what a command writes, and finds an address in it.
type output struct {
	mu      sync.Mutex
	text    strings.Builder
	listens *regexp.Regexp
	found   chan string
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if match := o.listens.FindStringSubmatch(o.text.String()); match != nil {
		select {
		case o.found <- match[1]:
		default: // it was found before
		}
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
