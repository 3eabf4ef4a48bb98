package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/payouts"
)

// payoutsConfig is how payouts are paid, by every command.
func (p *program) payoutsConfig() payouts.Config {
	return payouts.Config{
		Store: p.store, Client: p.calls, Log: p.log,
		Workers: p.set.PayoutWorkers, PerSecond: p.set.PayoutsPerSecond,
		Timeout: p.set.CallTimeout, Lease: p.set.Lease,
	}
}

// payFile pays a file of payouts, and gives the exit status. Its progress goes to stderr, what came of it to stdout.
func payFile(ctx context.Context, set *settings, file string, stdout, stderr io.Writer) (int, error) {
	p, err := open(ctx, set, stderr)
	if err != nil {
		return exitError, err
	}
	defer p.Close()
	summary, err := payouts.PayFile(ctx, p.payoutsConfig(), file, stderr)
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("stopped: the same command goes on where it ended")
		}
		return exitError, err
	}
	_, _ = fmt.Fprintln(stdout, summary)
	return summary.ExitCode(), nil
}

// makePayouts writes an example of a file of payouts.
func makePayouts(number string, stdout io.Writer) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(stdout)
	return errors.Join(payouts.Make(w, n), w.Flush())
}
