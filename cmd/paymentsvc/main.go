// Command paymentsvc finds a service's signature scheme, signs and verifies messages, receives and sends
// notifications, and runs a mock server. Partners use it to test backends in any language.
//
//	go install github.com/paymentsvc/paymentsvc/cmd/paymentsvc@latest
//	paymentsvc help
//
// docs/cli.md describes each command, the settings and the exit codes. Each command is a file of this package.
// Package cli has their common parts.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

func main() {
	dir, err := os.Getwd()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "paymentsvc:", err)
		os.Exit(cli.ExitMachine)
	}
	env := &cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ, Dir: dir, Now: time.Now,
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go stopOnSignal(cancel)
	os.Exit(cli.Main(ctx, env, program(), os.Args[1:]))
}

// stopOnSignal ends the context on the first signal. The second one ends the process.
func stopOnSignal(cancel context.CancelCauseFunc) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	cause := cli.Interrupted()
	if <-signals == syscall.SIGTERM {
		cause = cli.Terminated()
	}
	signal.Stop(signals)
	cancel(cause)
}

// program returns all commands, in the order of the help.
func program() cli.Program {
	return cli.Program{Name: "paymentsvc", Commands: []cli.Command{
		discoverCommand(),
		checkCommand(),
		signCommand(),
		verifyCommand(),
		listenCommand(),
		triggerCommand(),
		mockCommand(),
		settingsCommand(),
		completionCommand(),
		versionCommand(),
	}}
}
