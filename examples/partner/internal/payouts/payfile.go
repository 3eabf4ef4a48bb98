package payouts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// PayFile imports a file, works until each of its payouts is pending, final, or needs a person, and shows the progress
// on out, where nil shows nothing. Payouts of other files that are due are worked on meanwhile. The same file may be
// given to several processes: they share the work.
func PayFile(ctx context.Context, c Config, path string, out io.Writer) (Summary, error) {
	if out == nil {
		out = io.Discard
	}
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return Summary{}, err
	}
	defer func() { _ = file.Close() }()
	queue, err := NewQueue(ctx, c)
	if err != nil {
		return Summary{}, err
	}

	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- queue.Run(working)
		stop() // nobody works any more
	}()
	summary, err := importAndWork(working, c, queue, file, out)
	stop()
	if ran := <-ended; ran != nil {
		return summary, errors.Join(ran, ctx.Err())
	}
	return summary, err
}

func importAndWork(ctx context.Context, c Config, queue Queue, file *os.File, out io.Writer) (Summary, error) {
	report, err := Import(ctx, ImportConfig{Store: c.Store, Queue: queue, Name: filepath.Base(file.Name())}, file)
	if err != nil {
		return Summary{}, fmt.Errorf("import %s: %w", filepath.Base(file.Name()), err)
	}
	refused, err := c.Store.RefusedRows(ctx, report.FileID, 20)
	if err != nil {
		return Summary{}, err
	}
	for _, row := range refused {
		_, _ = fmt.Fprintf(out, "%s:%d: %s\n", filepath.Base(file.Name()), row.Line, row.Reason)
	}
	if more := report.Refused - int64(len(refused)); more > 0 {
		_, _ = fmt.Fprintf(out, "and %d more rows that are no payouts\n", more)
	}
	return Work(ctx, WorkConfig{Store: c.Store, Queue: queue, FileID: report.FileID, Out: out})
}
