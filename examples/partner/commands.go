package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/paymentsvc/paymentsvc/durable"
	"github.com/paymentsvc/paymentsvc/durable/payoutcsv"
)

const (
	lookInterval = 200 * time.Millisecond // the least time between two summaries
	lineInterval = 5 * time.Second        // between two lines of progress
)

// checkFile reports the rows and payouts of a file, and whether the balance covers them.
func checkFile(
	ctx context.Context, set *settings, file io.ReadSeeker, stdout, stderr io.Writer,
) (int, error) {
	report, err := payoutcsv.Check(file, set.File)
	if listed := listRejections(stderr, file, set.File); listed != nil && err == nil {
		err = listed
	}
	_, _ = fmt.Fprintf(stdout, "rows       %d\npayouts    %d\nrejected   %d\nduplicates %d\ntotal      %s\n",
		report.Rows, report.Payouts, report.Rejected, report.Duplicates, report.Total)
	printWarnings(stderr, report)
	if err != nil {
		return exitError, err
	}
	p := &program{set: set, log: set.logger(stderr)}
	defer p.Close()
	if err := p.openService(ctx); err != nil { // no database
		return exitError, err
	}
	balance, err := p.client.GetBalance(ctx)
	if err != nil {
		return exitError, err
	}
	enough := balance.PayoutBalance.Cmp(report.Total) >= 0
	_, _ = fmt.Fprintf(stdout, "balance    %s %s\n", balance.PayoutBalance, balance.Currency)
	if !enough {
		_, _ = fmt.Fprintln(stdout, "The balance does not cover the total.")
	}
	_, _ = fmt.Fprintln(stdout, "The database was not read: some payouts may be known, and are not paid again.")
	if report.Rejected > 0 || !enough {
		return exitReview, nil
	}
	return exitDone, nil
}

// listRejections reads the file again and prints all of its rejected rows.
func listRejections(out io.Writer, file io.ReadSeeker, o payoutcsv.Options) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for row, err := range payoutcsv.Rows(file, o) {
		if err != nil {
			return nil // checkFile reports the error of Check
		}
		if row.Rejected != "" {
			_, _ = fmt.Fprintln(out, row)
		}
	}
	return nil
}

// many returns n with the singular or the plural.
func many(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func printWarnings(out io.Writer, report payoutcsv.Report) {
	for _, warning := range report.Warnings {
		_, _ = fmt.Fprintln(out, "warning:", warning)
	}
}

func printRejections(out io.Writer, file string, rows []payoutcsv.Row, all int64) {
	const most = 20
	for _, row := range rows[:min(len(rows), most)] {
		_, _ = fmt.Fprintf(out, "%s: %s\n", filepath.Base(file), row)
	}
	if more := all - most; more > 0 {
		_, _ = fmt.Fprintf(out, "and %s: check lists all\n", many(more, "more row", "more rows"))
	}
}

// payFile imports a file and sends its payouts until each one is sent or blocked. It waits while the database is
// unavailable. It also sends other due payouts, and other processes may share the work.
func (p *program) payFile(ctx context.Context, file *os.File, stdout, stderr io.Writer) (int, error) {
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- p.store.Run(running)
		stop() // stops the wait, because this process no longer sends
	}()
	code, err := p.importAndWait(running, file, stdout, stderr)
	stop()
	return code, errors.Join(err, <-ended)
}

func (p *program) importAndWait(ctx context.Context, file *os.File, stdout, stderr io.Writer) (int, error) {
	name := filepath.Base(file.Name())
	config := payoutcsv.ImportConfig{
		DB: p.db, Store: p.store, Name: name, Options: p.set.File, Wait: math.MaxInt64, // Run logs the database's failure
	}
	if p.db != p.read { // SQLite
		config.Pause = 120 * time.Millisecond
	}
	last := time.Now()
	config.Progress = func(r payoutcsv.Result) {
		if time.Since(last) >= lineInterval {
			last = time.Now()
			_, _ = fmt.Fprintf(stderr, "%s: %d of %s imported\n", name, r.Done(), many(r.Report.Payouts, "payout", "payouts"))
		}
	}
	result, err := payoutcsv.Import(ctx, config, file)
	printWarnings(stderr, result.Report)
	printRejections(stderr, name, result.Report.Rejections, result.Report.Rejected)
	printRejections(stderr, name, result.ConflictRows, result.Conflicts)
	if err != nil {
		return exitError, err
	}
	if result.Before && result.New == 0 {
		_, _ = fmt.Fprintf(stdout, "%s: this file was read before: nothing new is sent\n", name)
	}
	_, _ = fmt.Fprintf(stdout, "%s: %s: %s with a total of %s, %d known, %d rejected, %s\n", name,
		many(result.Report.Rows, "row", "rows"), many(result.New, "new payout", "new payouts"), result.NewTotal, result.Known,
		result.Report.Rejected, many(result.Conflicts, "conflict", "conflicts"))
	sent, err := p.wait(ctx, file, stderr)
	if err != nil {
		return exitError, err
	}
	for _, state := range durable.States() {
		if n := sent.states[state]; n > 0 {
			_, _ = fmt.Fprintf(stdout, "%8d %s\n", n, state)
		}
	}
	if sent.held > 0 {
		status, err := p.store.Status(ctx)
		if err != nil {
			return exitError, err
		}
		_, _ = fmt.Fprintf(stdout, "%s held until a person releases them on the operators' page: %s\n",
			many(sent.held, "payout is", "payouts are"), cmp.Or(status.HoldReason, "an earlier hold"))
	}
	return review(stdout, sent, result), nil
}

// review prints the tasks of the operator, and returns the exit status.
func review(out io.Writer, sent summary, result payoutcsv.Result) int {
	code := exitDone
	if n := result.Report.Rejected + result.Conflicts; n > 0 {
		_, _ = fmt.Fprintf(
			out, "%s rejected: correct and send again what was to be paid.\n",
			many(n, "row of the file is", "rows of the file are"),
		)
		code = exitReview
	}
	if sent.held > 0 {
		code = exitReview
	}
	if sent.pruned > 0 {
		_, _ = fmt.Fprintf(out, "%s pruned: the final states are not known any more.\n",
			many(sent.pruned, "payout was", "payouts were"))
		code = exitReview
	}
	if sent.missing > 0 {
		_, _ = fmt.Fprintf(out, "%s missing in the database: was it restored, or the file changed? Run the command again.\n",
			many(sent.missing, "payout is", "payouts are"))
		code = exitReview
	}
	if sent.review > 0 {
		_, _ = fmt.Fprintln(out, "Some payouts need review: see the operators' page.")
		code = exitReview
	}
	return code
}

// summary counts the payouts of a file. Some may have been imported with another file.
type summary struct {
	states  map[durable.State]int64
	held    int64
	pruned  int64
	missing int64
	// review counts the other payouts with a reason for a review, or in a state without a success at the service.
	review int64
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

// summarize reads the file again, and looks up each payout, because some may belong to the batch of an earlier file.
func (p *program) summarize(ctx context.Context, file io.ReadSeeker) (s summary, err error) {
	s.states = map[durable.State]int64{}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return s, err
	}
	var part []durable.NewPayout
	compare := func() error {
		stored, err := p.store.Compare(ctx, part...)
		for _, one := range stored {
			s.add(one)
		}
		part = part[:0]
		return err
	}
	for row, err := range payoutcsv.Rows(file, p.set.File) {
		if err != nil {
			return s, err
		}
		if row.Rejected != "" {
			continue
		}
		part = append(part, durable.NewPayout{Reference: row.Reference, Amount: row.Amount, Destination: row.Destination})
		if len(part) == 1000 {
			if err := compare(); err != nil {
				return s, err
			}
		}
	}
	err = compare() // before return, because Go does not specify whether return reads s before or after a call
	return s, err
}

// wait returns when every payout of the file was sent or is blocked until an operator acts.
func (p *program) wait(ctx context.Context, file *os.File, out io.Writer) (summary, error) {
	name := filepath.Base(file.Name())
	for last := time.Now(); ; {
		if ctx.Err() != nil {
			return summary{}, ctx.Err()
		}
		begun := time.Now()
		status, err := p.store.Status(ctx) // first, because no claim follows a pause
		var sent summary
		if err == nil {
			sent, err = p.summarize(ctx, file)
		}
		created, starting := sent.states[durable.StateCreated]-sent.held, sent.states[durable.StateStarting]
		stopped := status.Paused && status.Until.IsZero()
		report := time.Since(last) >= lineInterval
		if report {
			last = time.Now()
		}
		switch {
		case err == nil && starting == 0 && (created == 0 || stopped):
			if stopped {
				_, _ = fmt.Fprintf(out, "%s: paused: %s\n", name, status.Reason)
			}
			return sent, nil
		case err != nil && report:
			p.log.Warn("the database does not respond", "err", err)
		case report:
			why := ""
			if status.Paused {
				why = fmt.Sprintf("; paused until %s UTC: %s", status.Until.UTC().Format(time.TimeOnly), status.Reason)
			}
			_, _ = fmt.Fprintf(out, "%s: %s%s\n", name, many(created+starting, "payout waits", "payouts wait"), why)
		}
		pause(ctx, max(lookInterval, 10*time.Since(begun))) // a large file takes time to read
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// writeResults writes the results of the payouts of a file, or of all payouts.
func (p *program) writeResults(ctx context.Context, file *os.File, stdout io.Writer) error {
	if file == nil {
		return payoutcsv.WriteResults(ctx, stdout, p.store, durable.Filter{})
	}
	return payoutcsv.WriteFileResults(ctx, stdout, p.store, file, p.set.File)
}

// hold holds all payouts before anything else runs on a restored database.
func (p *program) hold(ctx context.Context, stdout io.Writer) error {
	generation, err := p.store.HoldPayouts(ctx, "the command line", p.set.Args[0])
	if err == nil {
		_, _ = fmt.Fprintf(stdout,
			"held; generation %d: compare and release the payouts on the operators' page\n", generation)
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
