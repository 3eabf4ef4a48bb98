// Command partner is a partner's backend: it takes payments and notifications, pays files of payouts, and shows
// operators what stands where. Every step is stored before it is taken, in SQLite or PostgreSQL, so that no crash pays
// twice or loses anything.
//
//	go run .                                  # with a fake service inside this process
//	go run . make-payouts 100 > payouts.csv
//	go run . payouts payouts.csv
//
// README.md tells what to change first. It ends with SIGINT or SIGTERM, when what is under way is recorded.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses.
const (
	exitDone   = 0
	exitError  = 1
	exitUsage  = 2
	exitPerson = 3 // a person has to look at something
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run does what the arguments say until ctx ends, and gives the exit status.
func run(ctx context.Context, args []string, environment func(string) string, stdout, stderr io.Writer) int {
	set, code := readSettings(args, environment, stderr)
	if set == nil {
		return code
	}
	code, err := exitError, error(nil)
	switch set.Command {
	case "serve":
		code, err = exitDone, serve(ctx, set, stdout, stderr)
	case "payouts":
		code, err = payFile(ctx, set, set.Args[0], stdout, stderr)
	case "make-payouts":
		code, err = exitDone, makePayouts(set.Args[0], stdout)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "partner:", err)
		return exitError
	}
	return code
}
