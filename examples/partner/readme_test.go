package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// commandsOf gives the blocks of commands of a page.
func commandsOf(t *testing.T, page string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "```sh\n")
	for found {
		block, behind, closed := strings.Cut(rest, "```\n")
		require.True(t, closed, "a block does not end")
		blocks = append(blocks, block)
		_, rest, found = strings.Cut(behind, "```sh\n")
	}
	return blocks
}

// freeAddress gives one that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestTheCommandsOfTheReadmeWork(t *testing.T) {
	program, err := build()
	require.NoError(t, err)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir() // later blocks use the files of earlier ones
	for _, block := range commandsOf(t, "README.md") {
		var replace []string
		var want string // of the output
		switch first, _, _ := strings.Cut(block, "\n"); {
		case first == "go run .":
			continue // it serves until it is stopped: TestTheDemoLives
		case strings.Contains(first, "postgres go test"), strings.Contains(first, "tools/browser"):
			continue // this is one of them, and the others take minutes
		case strings.Contains(first, "make-payouts"):
			replace, want = []string{"go run . ", program + " "}, "100 of 100 payouts"
		case strings.Contains(block, "paymentsvc mock"):
			replace = []string{
				"go build -o partner .", "cp " + program + " partner", "go -C ../..", "go -C " + root,
				"./partner ", "./partner -addr 127.0.0.1:0 -admin 127.0.0.1:0 ", "127.0.0.1:9000", freeAddress(t),
			}
			want = "100 of 100 payouts"
		default:
			t.Fatalf("nobody has tried whether this works:\n%s", block)
		}
		for i := 0; i < len(replace); i += 2 {
			require.Contains(t, block, replace[i])
		}
		output := runScript(t, dir, strings.NewReplacer(replace...).Replace(block))
		require.Contains(t, output, want)
	}
}

// runScript runs commands, each of which has to succeed, and ends what they leave behind.
func runScript(t *testing.T, dir, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-eu", "-c", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var output everything
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = time.Second // for those that are left behind and hold the outputs
	require.NoError(t, cmd.Start())
	err := cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if err != nil {
		require.ErrorIs(t, err, exec.ErrWaitDelay, output.String())
	}
	return output.String()
}
