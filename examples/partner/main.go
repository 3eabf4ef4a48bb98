// Command partner is a partner's backend on package durable. It takes payments and notifications, pays files of
// payouts, and has a page for operators. It commits every step to SQLite or PostgreSQL before taking the step, so that
// a crash cannot pay twice or lose a payment.
//
//	go run .                                  # with a fake service inside this process
//	go run . make-payouts 100 > payouts.csv
//	go run . check payouts.csv
//	go run . payouts payouts.csv
//
// README.md lists the first changes for production. After SIGINT or SIGTERM, the command records the calls in flight
// and ends.
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
	exitReview = 3 // something needs review
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
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
		_, _ = fmt.Fprintln(stderr, "partner:", err)
	}
	return code
}
