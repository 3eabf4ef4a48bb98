// Command partner is a partner's backend on package durable: it takes payments and notifications, pays files of payouts,
// and shows operators what is in which state. Every step is committed before it is taken, in SQLite or PostgreSQL, so
// that no crash pays twice or loses anything.
//
//	go run .                                  # with a fake service inside this process
//	go run . make-payouts 100 > payouts.csv
//	go run . check payouts.csv
//	go run . payouts payouts.csv
//
// README.md lists what to change first. It ends with SIGINT or SIGTERM, when the calls in flight are recorded.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/paymentsvc/paymentsvc/durable"
)

// Exit statuses.
const (
	exitDone   = 0
	exitError  = 1
	exitUsage  = 2
	exitReview = 3 // something needs review
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes a command until ctx ends, and returns the exit status.
func run(ctx context.Context, args []string, environment func(string) string, stdout, stderr io.Writer) int {
	set, code := readSettings(args, environment, stderr)
	if set == nil {
		return code
	}
	commands := map[string]func(context.Context, *settings, io.Writer, io.Writer) (int, error){
		"serve": serve, "check": checkFile, "payouts": payFile, "results": writeResults, "hold": hold,
		"make-payouts": makePayouts,
	}
	code, err := commands[set.Command](ctx, set, stdout, stderr)
	if err != nil {
		code = max(code, exitError)
		if ctx.Err() != nil {
			err = fmt.Errorf("stopped: the same command goes on where it ended (%w)", ctx.Err())
		}
		if errors.Is(err, durable.ErrInvalid) { // flags that only durable understands
			code = exitUsage
		}
		_, _ = fmt.Fprintln(stderr, "partner:", err)
	}
	return code
}
