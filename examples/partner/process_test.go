package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if builtIn != "" {
		_ = os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

// builtIn is the directory of the program that the tests have built, "" before.
var builtIn string

// build builds the program, once, and gives its path.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "partner")
	if err != nil {
		return "", err
	}
	builtIn = dir
	path := filepath.Join(dir, "partner")
	if output, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	return path, nil
})

// command gives the program with arguments, to be run in a process of its own, in an empty environment. It is killed
// if the test ends before it.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := build()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	return cmd
}

// process is the program while it serves.
type process struct {
	*exec.Cmd
	Public, Admin string // the addresses that it serves at, such as http://127.0.0.1:1234
	Log           *output
	ended         chan struct{} // closed when it has ended, with err
	err           error
}

// startProcess starts the program to serve at free ports, and waits until it does.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	args = append([]string{"serve", "-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0"}, args...)
	p := &process{Cmd: command(t, args...), Log: &output{}, ended: make(chan struct{})}
	p.Stderr = p.Log
	stdout, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	t.Cleanup(p.Kill)
	lines := bufio.NewScanner(stdout)
	for (p.Public == "" || p.Admin == "") && lines.Scan() {
		switch name, address, _ := strings.Cut(lines.Text(), " "); name {
		case "public":
			p.Public = address
		case "admin":
			p.Admin = address
		}
	}
	go func() {
		defer close(p.ended)
		_, _ = io.Copy(io.Discard, stdout)
		p.err = p.Wait()
	}()
	if p.Public == "" || p.Admin == "" {
		<-p.ended
		t.Fatalf("the program has ended: %v\n%s", p.err, p.Log)
	}
	return p
}

// Kill kills the process, so that it can do nothing more, and waits for its end.
func (p *process) Kill() {
	_ = p.Process.Kill()
	<-p.ended
}

// Stop asks the process to end, and fails the test unless it does so in a minute, with exit status 0.
func (p *process) Stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.Kill()
	}
	require.NoError(t, p.err, "%s", p.Log)
}

// output keeps the end of what a process writes.
type output struct {
	mu   sync.Mutex
	text []byte
}

func (o *output) Write(b []byte) (int, error) {
	const most = 64 << 10
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, b...)
	if len(o.text) > 2*most {
		o.text = bytes.Clone(o.text[len(o.text)-most:])
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}
