package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/paymentsvc/paymentsvc/discover"
)

// progress prints how far a search is: on one line of a terminal, else as a line now and then, or not at all.
type progress struct {
	w        io.Writer
	terminal bool
	quiet    bool
	last     time.Duration
	width    int // of the text on the terminal's line
}

func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{w: w, quiet: quiet}
	if file, ok := w.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) show(now discover.Progress) {
	const seldom = 5 * time.Second
	line := describe(now)
	switch {
	case p.terminal:
		const columns = 79
		if len(line) > columns {
			line = line[:columns]
		}
		_, _ = fmt.Fprintf(p.w, "\r%-*s", p.width, line)
		p.width = len(line)
	case !p.quiet && now.Elapsed >= p.last+seldom:
		p.last = now.Elapsed
		_, _ = fmt.Fprintln(p.w, line)
	}
}

// done clears the terminal's line.
func (p *progress) done() {
	if p.width > 0 {
		_, _ = fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.width))
	}
	p.width, p.last = 0, 0
}

func describe(now discover.Progress) string {
	return fmt.Sprintf("%.1f of %.1f million, %.1f million a second: %s",
		million(now.Tried), million(now.Total), perSecond(now.Tried, now.Elapsed), now.What)
}

func million(n int64) float64 { return float64(n) / 1e6 }

func perSecond(tried int64, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return million(tried) / elapsed.Seconds()
}
