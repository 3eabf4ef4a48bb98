package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/discover"
)

func discoverCommand() cli.Command {
	flags := cli.Shared("secret-file", "timestamp-header", "signature-header", "scheme", "scheme-file", "timeout", "count")
	return cli.Command{
		Name:    "discover",
		Summary: "Find out how messages are signed, from one correctly signed message",
		Usage:   "FILE... | -",
		MaxArgs: -1,
		Flags: append(flags,
			cli.Flag{Name: "effort", Value: "N", Default: "1", Usage: "try N times as many compositions"},
			cli.Flag{Name: "word", Kind: cli.List, Value: "TEXT", Usage: "text that may be signed and is in no sample"},
			cli.Flag{Name: "kind", Value: "KIND", LineOnly: true, Usage: "kind of all samples, request or notification (default: by the event)"},
			cli.Flag{Name: "entry", Kind: cli.List, Value: "N", LineOnly: true, Usage: "entry of a HAR file or of a list in JSON"},
			cli.Flag{Name: "url", Value: "TEXT", LineOnly: true, Usage: "choose the entries whose address has TEXT in it"},
			cli.Flag{Name: "body", Kind: cli.File, Value: "FILE", LineOnly: true, Usage: "file with the body, if FILE has none"},
			cli.Flag{Name: "out", Kind: cli.File, Value: "DIR", LineOnly: true, Usage: "write scheme.txt and scheme.go.txt there"},
			cli.Flag{Name: "listen", Value: "ADDR", LineOnly: true, Usage: "receive notifications, and search them"},
			cli.Flag{Name: "answer", Kind: cli.Int, Value: "STATUS", Default: "503", LineOnly: true, Usage: "what -listen answers"},
			cli.Flag{Name: "proxy", Kind: cli.Bool, LineOnly: true, Usage: "pass requests from -addr on to -to, and search the accepted ones"},
			cli.Flag{Name: "addr", Value: "ADDR", Default: "localhost:9000", LineOnly: true, Usage: "address of -proxy"},
			cli.Flag{Name: "to", Value: "URL", LineOnly: true, Usage: "the service behind -proxy, without a path"},
			cli.Flag{Name: "save", Kind: cli.File, Value: "DIR", LineOnly: true, Usage: "save what -listen and -proxy receive there"},
			cli.Flag{Name: "demo", Kind: cli.Bool, LineOnly: true, Usage: "make samples with a hidden composition, and find it"},
		),
		Notes: `A sample is an accepted request or a notification: HTTP text, a curl command, JSON of common tools and logs, a copied
fetch, an .http file, or printed headers with -body. With -scheme or -scheme-file it checks that scheme instead.

-listen answers 503, which is this command's own choice: the interface document shows no response. The service is likely
to deliver again what it was told is not handled, so your own receiver loses nothing. -proxy passes on the bytes of a
request, but the Host becomes that of -to: a signature that covers the Host does not survive. An answer of 2xx counts as
accepted. Both end when a scheme is found, or with -count after so many signed messages.`,
		Examples: []string{
			"paymentsvc discover -secret-file project.key notification.http",
			"paymentsvc discover -secret-file project.key -listen localhost:9000 -save captured -timeout 10m",
			`paymentsvc discover -secret-file project.key -scheme 'hex(timestamp "." body)' notification.http`,
			"paymentsvc discover -demo",
		},
		Run: runDiscover,
	}
}

// discovery is one call of discover.
type discovery struct {
	*cli.Call
	options discover.Options
	names   headerNames
	samples []sample
}

func runDiscover(ctx context.Context, c *cli.Call) error {
	d := &discovery{Call: c}
	if err := d.checkFlags(); err != nil {
		return err
	}
	if c.Bool("demo") {
		return d.demo(ctx, drawn())
	}
	var err error
	if d.options.Secret, err = c.Secret(); err != nil {
		return err
	}
	if c.Bool("proxy") || c.Set("listen") {
		return d.receive(ctx)
	}
	if err := d.readFiles(); err != nil {
		return err
	}
	if d.checks() {
		return d.check()
	}
	results, err := d.search(ctx, d.samples)
	if err != nil {
		return err
	}
	return d.report(ctx, results)
}

// checks reports whether the command line has a scheme to check. A scheme in the settings is an earlier result.
func (d *discovery) checks() bool {
	return d.Value("scheme").Origin == "-scheme" || d.Value("scheme-file").Origin == "-scheme-file"
}

func (d *discovery) checkFlags() error {
	files := len(d.Args) > 0
	modes := 0
	for _, on := range []bool{files, d.Set("listen"), d.Bool("proxy"), d.Bool("demo")} {
		if on {
			modes++
		}
	}
	if modes != 1 {
		return cli.Usagef("want one of FILE, - for standard input, -listen, -proxy and -demo")
	}
	if d.checks() && !files {
		return cli.Usagef("-scheme checks files, so it needs FILE")
	}
	if _, err := kindOf(d.Call, nil); err != nil {
		return err
	}
	if err := checkAnswer(d.Call); err != nil {
		return err
	}
	var err error
	if d.options.Effort, err = strconv.ParseFloat(d.Text("effort"), 64); err != nil || !(d.options.Effort > 0 && d.options.Effort < 1e6) {
		return d.Fail("effort", "want a number above 0, such as 10")
	}
	d.options.Words = d.List("word")
	d.names = headerNames{
		timestamp: d.Text("timestamp-header"), timestampSet: d.Set("timestamp-header"),
		signature: d.Text("signature-header"), signatureSet: d.Set("signature-header"),
	}
	return d.checkOut()
}

// checkOut rejects an existing file of -out before the search.
func (d *discovery) checkOut() error {
	if !d.Set("out") {
		return nil
	}
	for _, name := range outFiles() {
		if _, err := os.Stat(filepath.Join(d.Text("out"), name)); err == nil {
			return d.Fail("out", "there is a %s, which would be lost", name)
		}
	}
	return nil
}

// readFiles reads the samples.
func (d *discovery) readFiles() error {
	o := capture.Options{URL: d.Text("url")}
	if d.names.signatureSet {
		o.Signature = d.names.signature
	}
	if d.Set("body") {
		var err error
		if o.Body, err = d.ReadInput("-body", d.Text("body")); err != nil {
			return err
		}
		o.Body = append([]byte{}, o.Body...) // never nil
		o.BodyName = d.Value("body").Texts[0]
	}
	entries := d.List("entry")
	if len(entries) == 0 {
		entries = []string{"0"}
	}
	for _, file := range d.Args {
		for _, entry := range entries {
			var err error
			if o.Entry, err = strconv.Atoi(entry); err != nil {
				return d.Fail("entry", "want a number")
			}
			m, err := readCapture(d.Call, file, o)
			if err != nil {
				return err
			}
			s, err := d.sample(m)
			if err != nil {
				return cli.Usagef("%w", err)
			}
			switch {
			case o.Body != nil: // verify takes one file
			case o.Entry > 0:
				s.file = shellWord(file) + " -entry " + entry
			default:
				s.file = shellWord(file)
			}
			d.samples = append(d.samples, s)
		}
	}
	return nil
}

// found is the result of one search.
type found struct {
	about   string // "requests", "notifications" or "requests and notifications"
	body    string // the form of a compressed body that fits, or ""
	samples []sample
	result  discover.Result
	err     error // nil if there is a match
}

const decompressed = "decompressed" // [found.body] of a scheme that covers the decompressed body

func (f found) fits() bool { return f.err == nil }

// search searches each kind of message separately. If both have a match, it also searches for a common scheme.
func (d *discovery) search(ctx context.Context, samples []sample) (all []found, err error) {
	byKind := [][]sample{nil, nil}
	for _, s := range samples {
		at := 0
		if s.Message.Kind == paymentsvc.KindNotification {
			at = 1
		}
		byKind[at] = append(byKind[at], s)
	}
	for i, about := range []string{"requests", "notifications"} {
		if len(byKind[i]) == 0 {
			continue
		}
		f, err := d.find(ctx, about, byKind[i])
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	if len(all) < 2 || !all[0].fits() || !all[1].fits() {
		return all, nil
	}
	both, err := d.find(ctx, "requests and notifications", samples)
	if err != nil || !both.fits() {
		return all, nil //nolint:nilerr // that the samples share no encoding, or no composition, is what all says
	}
	return []found{both}, nil
}

// find searches the received bodies, and also the decompressed bodies. Before the whole effort for one form, both forms
// get a small part.
func (d *discovery) find(ctx context.Context, about string, samples []sample) (f found, err error) {
	received := make([]discover.Sample, 0, len(samples))
	for _, s := range samples {
		received = append(received, s.Sample)
	}
	compressed, plain := false, slices.Clone(received)
	for i, s := range samples {
		if body, ok := s.decompressed(); ok {
			compressed, plain[i].Message.Body = true, body
		}
	}
	if !compressed {
		return d.findIn(ctx, about, samples, received, 1)
	}
	for _, share := range []float64{0.05, 1} {
		for _, in := range [][]discover.Sample{plain, received} {
			f, err = d.findIn(ctx, about, samples, in, share)
			if err != nil || ctx.Err() != nil {
				return f, err
			}
			if !f.fits() {
				continue
			}
			if f.body = "received, compressed"; &in[0] == &plain[0] {
				f.body = decompressed
			}
			return f, nil
		}
	}
	return f, nil
}

func (d *discovery) findIn(ctx context.Context, about string, samples []sample, in []discover.Sample,
	share float64,
) (found, error) {
	o := d.options
	o.Effort *= share
	o.Progress = d.progress()
	result, err := discover.Find(ctx, in, o)
	if wrong, ok := errors.AsType[*discover.SampleError](err); ok {
		s := samples[wrong.Index]
		return found{}, cli.Usagef("%s:%d: %w", s.Name, s.line(wrong.Header), wrong.Err)
	}
	if err != nil && !errors.Is(err, discover.ErrNoMatch) && ctx.Err() == nil {
		return found{}, cli.Usagef("%w", err)
	}
	return found{about: about, samples: samples, result: result, err: err}, nil
}
