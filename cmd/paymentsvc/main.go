// Command paymentsvc finds a service's signature scheme, signs and verifies messages, receives and sends
// notifications, and runs a mock server. Partners use it to test backends in any language.
//
//	go install github.com/paymentsvc/paymentsvc/cmd/paymentsvc@latest
//	paymentsvc help
//
// docs/cli.md describes each command, the settings and the exit codes. Package cli has the common parts of commands.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

func main() {
	dir, err := os.Getwd()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "paymentsvc:", err)
		os.Exit(cli.ExitMachine)
	}
	env := &cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, Dir: dir, Now: time.Now,
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go stopOnSignal(cancel)
	os.Exit(cli.Main(ctx, env, program(), os.Args[1:]))
}

// stopOnSignal ends the context on the first signal. The second signal ends the process.
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

func settingsCommand() cli.Command {
	return cli.Command{
		Name:    "settings",
		Summary: "Print each setting, its value and its origin",
		Flags: cli.Shared("scheme", "scheme-file", "secret-file", "old-secret-file", "base-url", "cacert", "partner",
			"project", "tolerance", "timestamp-header", "signature-header", "timeout"),
		Notes: "A flag wins over its variable, a variable over the settings file, and the settings file over the default.\n" +
			"For a secret, the command prints only the name of the secret's file, and only if the file exists.",
		Examples: []string{"paymentsvc settings", "paymentsvc settings -config staging.json -json"},
		Run: func(_ context.Context, c *cli.Call) error {
			return c.PrintSettings()
		},
	}
}

// commitOf returns the commit of a build, with "-modified" for uncommitted changes, or "unknown". A build of a
// downloaded module has no commit, but the module's version identifies the source.
func commitOf(build *debug.BuildInfo) string {
	commit, modified := "unknown", ""
	for _, s := range build.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "-modified"
		}
	}
	return commit + modified
}

func versionCommand() cli.Command {
	return cli.Command{
		Name:     "version",
		Summary:  "Print the version",
		Examples: []string{"paymentsvc version"},
		Run: func(_ context.Context, c *cli.Call) error {
			const document = paymentsvc.InterfaceVersion
			version, commit, goVersion := "unknown", "unknown", ""
			if build, ok := debug.ReadBuildInfo(); ok {
				version, commit, goVersion = build.Main.Version, commitOf(build), build.GoVersion
			}
			c.Print("version", cli.Fields{"version": version, "commit": commit, "go": goVersion, "interface": document},
				"paymentsvc "+version+", commit "+commit+", "+goVersion+", interface version "+document)
			return nil
		},
	}
}
