package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/payoutcsv"
)

const (
	lookInterval = 200 * time.Millisecond // the minimum time between two summaries
	logInterval  = 5 * time.Second        // the minimum time between two messages about progress
)

// check reports the rows and payouts of the file, and whether the balance covers them.
func (p *program) check(ctx context.Context, stdout, stderr io.Writer) (int, error) {
	report, err := payoutcsv.Check(bytes.NewReader(p.file), p.set.File)
	printReport(stderr, report)
	_, _ = fmt.Fprintf(stdout, "rows       %d\npayouts    %d\nrejected   %d\nduplicates %d\ntotal      %s\n",
		report.Rows, report.Payouts, report.Rejected, report.Duplicates, report.Total)
	if err != nil {
		return exitError, err
	}
	balance, err := p.client.GetBalance(ctx)
	if err != nil {
		return exitError, err
	}
	enough := report.Total.IsSet() && balance.PayoutBalance.Cmp(report.Total) >= 0
	_, _ = fmt.Fprintf(stdout, "balance    %s %s\n", balance.PayoutBalance, balance.Currency)
	if p.fake != nil {
		_, _ = fmt.Fprintln(stdout, "The balance is that of the fake, because -service is not set.")
	}
	if !enough {
		_, _ = fmt.Fprintln(stdout, "The balance does not cover the total.")
	}
	_, _ = fmt.Fprintln(stdout, "The database was not read. Import does not pay the payouts of the database again.")
	if report.Rejected > 0 || !enough {
		return exitReview, nil
	}
	return exitDone, nil
}

// printReport prints the warnings and the first rejected rows of a file.
func printReport(out io.Writer, report payoutcsv.Report) {
	for _, warning := range report.Warnings {
		_, _ = fmt.Fprintln(out, "warning:", warning)
	}
	printRejections(out, report.Rejections, report.Rejected)
}

func printRejections(out io.Writer, rows []payoutcsv.Row, all int64) {
	for _, row := range rows {
		_, _ = fmt.Fprintln(out, row)
	}
	if more := all - int64(len(rows)); more > 0 {
		_, _ = fmt.Fprintln(out, "more rejected rows:", more)
	}
}

// payFile imports the file and sends its payouts until each payout is sent, or blocked until an operator acts. If the
// database fails later, payFile waits. It also sends other due payouts, and other processes may share the work.
func (p *program) payFile(ctx context.Context, stdout, stderr io.Writer) (int, error) {
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- p.store.Run(running)
		stop() // stops the wait, because this process no longer sends
	}()
	code, err := p.importAndWait(running, stdout, stderr)
	stop()
	return code, errors.Join(err, <-ended)
}

func (p *program) importAndWait(ctx context.Context, stdout, stderr io.Writer) (int, error) {
	name := filepath.Base(p.set.FileName)
	config := payoutcsv.ImportConfig{ // Import retries without limit
		DB: p.db, Store: p.store, Name: name, Options: p.set.File, Wait: math.MaxInt64, // Store.Run logs the failure
	}
	if p.db != p.read { // SQLite
		config.Pause = 120 * time.Millisecond
	}
	last := time.Now()
	config.Progress = func(r payoutcsv.Result) {
		if time.Since(last) >= logInterval {
			last = time.Now()
			p.log.Info("importing", "payouts", r.Done(), "of", r.Report.Payouts)
		}
	}
	result, err := payoutcsv.Import(ctx, config, bytes.NewReader(p.file))
	printReport(stderr, result.Report)
	printRejections(stderr, result.ConflictRows, result.Conflicts)
	if err != nil {
		return exitError, err
	}
	if result.Before && result.New == 0 {
		_, _ = fmt.Fprintf(stdout, "%s: this file was imported before, and no payout is new\n", name)
	}
	_, _ = fmt.Fprintf(stdout, "%s: rows %d, new payouts %d with a total of %s, known %d, rejected %d, conflicts %d\n",
		name, result.Report.Rows, result.New, result.NewTotal, result.Known, result.Report.Rejected, result.Conflicts)
	sent, err := p.wait(ctx)
	if err != nil {
		return exitError, err
	}
	return sent.print(stdout, result.Report.Rejected+result.Conflicts, result.Elsewhere), nil
}

// wait waits until each payout of the file is sent, or blocked until an operator acts.
func (p *program) wait(ctx context.Context) (summary, error) {
	for last := time.Now(); ; {
		begun := time.Now()
		sent, err := p.summarize(ctx)
		if ctx.Err() != nil {
			return sent, ctx.Err()
		}
		starting, created := sent.states[durable.StateStarting], sent.states[durable.StateCreated]-sent.held
		if err == nil && starting == 0 && (created == 0 || sent.stopped()) {
			return sent, nil
		}
		if time.Since(last) >= logInterval {
			last = time.Now()
			if err != nil {
				p.log.Warn("the database does not respond", "err", err)
			} else {
				p.log.Info("payouts wait", "payouts", starting+created,
					"paused", sent.status.Paused, "reason", sent.status.Reason)
			}
		}
		pause(ctx, max(lookInterval, 10*time.Since(begun))) // a summary of a large file costs time
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// summary counts the payouts of the file. Some may have been imported with another file.
type summary struct {
	status  durable.Status
	states  map[durable.State]int64
	held    int64
	pruned  int64
	missing int64
	review  int64 // payouts not held, with a reason for a review or in a state other than pending and succeeded
}

// summarize looks up each payout of the file.
func (p *program) summarize(ctx context.Context) (s summary, err error) {
	s.states = map[durable.State]int64{}
	s.status, err = p.store.Status(ctx) // before the rows, because no created payout can start after a pause until Resume
	var part []durable.NewPayout
	compare := func() {
		if err == nil {
			var stored []durable.Compared
			stored, err = p.store.Compare(ctx, part...)
			for _, one := range stored {
				s.add(one)
			}
		}
		part = part[:0]
	}
	for row, broken := range payoutcsv.Rows(bytes.NewReader(p.file), p.set.File) {
		if broken != nil || row.Rejected != "" { // Import has accepted the file, so it is not broken
			continue
		}
		part = append(part, durable.NewPayout{Reference: row.Reference, Amount: row.Amount, Destination: row.Destination})
		if len(part) == 1000 {
			compare()
		}
	}
	compare()
	return s, err
}

func (s *summary) add(stored durable.Compared) {
	row := stored.Row
	switch {
	case errors.Is(stored.Err, durable.ErrPruned):
		s.pruned++
		return
	case errors.Is(stored.Err, durable.ErrNotFound):
		s.missing++
		return
	case stored.Err != nil: // a conflict, already counted by Import
		return
	}
	s.states[row.State]++
	switch {
	case row.Held:
		s.held++
	case row.ReviewReason != "", row.State != durable.StatePending && row.State != durable.StateSucceeded:
		s.review++
	}
}

// stopped reports whether the calls are paused until an operator resumes them.
func (s *summary) stopped() bool { return s.status.Paused && s.status.Until.IsZero() }

// print prints the states and the tasks of the operator, and returns the exit status. rejected is the number of rows
// rejected or in conflict, and elsewhere the number of payouts known from another file.
func (s *summary) print(out io.Writer, rejected, elsewhere int64) int {
	for _, state := range durable.States() {
		if n := s.states[state]; n > 0 {
			_, _ = fmt.Fprintf(out, "%8d %s\n", n, state)
		}
	}
	if s.stopped() {
		_, _ = fmt.Fprintf(out, "Paused until an operator resumes: %s\n", s.status.Reason)
	}
	code := exitDone
	for _, task := range []struct {
		n    int64
		text string
	}{
		{rejected, "rejected or in conflict, and not paid: correct these rows, except duplicates, and import them in " +
			"another file"},
		{elsewhere, "known from another file and not paid again: a new payment needs a new reference"},
		{s.held, "held until an operator releases them on the operators' page. " + s.status.HoldReason},
		{s.pruned, "pruned from the database: their final states are no longer known"},
		{s.missing, "missing from the database, perhaps after a restore: run the command again"},
		{s.review, "in need of review: see the operators' page"},
	} {
		if task.n > 0 {
			_, _ = fmt.Fprintf(out, "%8d %s\n", task.n, task.text)
			code = exitReview
		}
	}
	return code
}

// writeResults writes the results of the payouts of the file, or of all payouts.
func (p *program) writeResults(ctx context.Context, stdout io.Writer) error {
	if p.file == nil {
		return payoutcsv.WriteResults(ctx, stdout, p.store, durable.Filter{})
	}
	return payoutcsv.WriteFileResults(ctx, stdout, p.store, bytes.NewReader(p.file), p.set.File)
}

// hold holds all payouts. On a restored database, it must run before any other program.
func (p *program) hold(ctx context.Context, stdout io.Writer) error {
	generation, err := p.store.HoldPayouts(ctx, "the command line", p.set.Args[0])
	if err == nil {
		_, _ = fmt.Fprintf(stdout,
			"held; generation %d: now serve, import all files since the backup again, and compare the payouts on the "+
				"operators' page with the service's list; see docs/deployment.md#restore-a-backup\n", generation)
	}
	return err
}

// writePayouts writes a file of n payouts to public test card numbers and made-up phone numbers.
func writePayouts(w io.Writer, n int) error {
	cards := []string{"4111111111111111", "5555555555554444", "378282246310005", "6011111111111117"}
	rows := csv.NewWriter(w)
	_ = rows.Write([]string{"reference", "amount", "destination"}) // Error reports it
	for i := range n {
		destination := cards[i/2%len(cards)]
		if i%2 == 1 {
			destination = fmt.Sprintf("+1202555%04d", 100+i%100)
		}
		_ = rows.Write([]string{fmt.Sprintf("salary-%06d", i+1), fmt.Sprintf("%d.%02d", 1+i*37%500, i*13%100), destination})
	}
	rows.Flush()
	return rows.Error()
}
