package payouts

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/paymentsvc/paymentsvc/examples/partner/internal/store"
)

const (
	lookInterval = 300 * time.Millisecond // how often the database is counted
	lineInterval = 5 * time.Second        // how often a line is printed where there is no terminal
)

// WorkConfig configures Work.
type WorkConfig struct {
	Store *store.Store
	// Queue tells why nothing is sent; nil tells nothing.
	Queue  Queue
	FileID string
	// Out gets a bar that moves if it is a terminal, and a line every few seconds otherwise; nil gets nothing.
	Out io.Writer
}

// Work shows the progress of a file's payouts, those among them that another file brought first, until each of them is
// pending, final, or needs a person. The work itself is done by the queues that run on the database: the numbers are the
// database's, and the same in every process.
func Work(ctx context.Context, c WorkConfig) (Summary, error) {
	file, err := c.Store.PayoutFile(ctx, c.FileID)
	if err != nil {
		return Summary{}, err
	}
	p := newProgress(c, file)
	for {
		counts, err := c.Store.FileCounts(ctx, c.FileID)
		if err != nil {
			return Summary{}, err
		}
		p.show(counts)
		if counts.Open() == 0 {
			p.finish()
			return Summary{File: file, Counts: counts}, nil
		}
		if err := sleep(ctx, lookInterval); err != nil {
			p.finish()
			return Summary{File: file, Counts: counts}, err
		}
	}
}

// Summary is how a file's payouts stand.
type Summary struct {
	File   store.PayoutFile
	Counts store.Counts
}

// Person says whether there is something for a person to do: a payout of which it is not known whether it was paid, or
// that was refused, again and again or for good, or failed, or a row that is no payout.
func (s Summary) Person() bool {
	states := s.Counts.States
	return s.File.Refused+s.Counts.Attention+states[store.StateRejected]+states[store.StateFailed] > 0
}

// ExitCode is what a command ends with: 3 when there is something for a person to do, and otherwise 0.
func (s Summary) ExitCode() int {
	if s.Person() {
		return 3
	}
	return 0
}

// String is some lines for a terminal.
func (s Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d rows: %d payouts, %d known from before, %d refused\n",
		s.File.Name, s.File.ReadRows, s.File.Imported, s.File.Known, s.File.Refused)
	states, parked := s.Counts.States, s.Counts.Parked
	for _, of := range []struct {
		state store.State
		n     int64
		means string
	}{
		{store.StatePending, states[store.StatePending], "started, the service has not said yet how it ends"},
		{store.StateSucceeded, states[store.StateSucceeded], "paid"},
		{store.StateFailed, states[store.StateFailed], "failed, by the service's notification"},
		{store.StateRejected, states[store.StateRejected], "refused by the service"},
		{store.StateUnknown, parked, "for a person: nobody knows whether it was paid"},
		{store.StateUnknown, states[store.StateUnknown] - parked, "the service is asked for it by its order_id"},
		{store.StateCreated, states[store.StateCreated], "to be sent"},
		{store.StateStarting, states[store.StateStarting], "being sent"},
	} {
		if of.n > 0 {
			fmt.Fprintf(&b, "%8d %-9s %s\n", of.n, of.state, of.means)
		}
	}
	if n := s.Counts.Stuck; n > 0 {
		fmt.Fprintf(&b, "%8d of these  for a person: refused again and again, and still tried now and then\n", n)
	}
	return b.String()
}

// progress shows counts as they change.
type progress struct {
	WorkConfig
	name    string
	bar     *progressbar.ProgressBar // nil where there is no terminal
	began   time.Time
	printed time.Time
	before  int64 // what was done when it began
	started bool
}

func newProgress(c WorkConfig, file store.PayoutFile) *progress {
	p := &progress{WorkConfig: c, name: file.Name, began: time.Now()}
	if p.Out == nil {
		p.Out = io.Discard
	}
	if isTerminal(p.Out) {
		p.bar = newBar(p.Out, file.Imported+file.Known)
	}
	return p
}

func newBar(out io.Writer, payouts int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(max(payouts, 1),
		progressbar.OptionSetWriter(out), progressbar.OptionSetWidth(30), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString("payouts"), progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond))
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (p *progress) show(c store.Counts) {
	done := c.Total() - c.Open()
	if !p.started {
		p.started, p.before = true, done
	}
	if p.bar != nil {
		p.bar.Describe(p.name + p.notes(c))
		_ = p.bar.Set64(done)
		return
	}
	if now := time.Now(); now.Sub(p.printed) >= lineInterval || c.Open() == 0 {
		p.printed = now
		_, _ = fmt.Fprintf(p.Out, "%s: %d of %d payouts%s%s\n", p.name, done, c.Total(), p.speed(done), p.notes(c))
	}
}

// speed is what was done since it began, by this process or another one.
func (p *progress) speed(done int64) string {
	if seconds := time.Since(p.began).Seconds(); seconds >= 1 {
		return fmt.Sprintf(", %.0f a second", float64(done-p.before)/seconds)
	}
	return ""
}

// notes is what is worth a look.
func (p *progress) notes(c store.Counts) string {
	var notes string
	for _, of := range []struct {
		n    int64
		what string
	}{
		{c.Parked, "for a person"},
		{c.States[store.StateRejected], "refused"},
		{c.States[store.StateFailed], "failed"},
		{c.Stuck, "refused again and again"},
	} {
		if of.n > 0 {
			notes += fmt.Sprintf(", %d %s", of.n, of.what)
		}
	}
	if p.Queue == nil || c.Open() == 0 {
		return notes
	}
	if pause := p.Queue.Pause(); pause.Paused {
		notes += fmt.Sprintf("; paused, %s, next try in %d s", pause.Reason, max(0, int(time.Until(pause.Until).Seconds())))
	}
	return notes
}

func (p *progress) finish() {
	if p.bar != nil {
		_, _ = fmt.Fprintln(p.Out)
	}
}
