package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/discover"
)

func discoverCommand() cli.Command {
	flags := cli.Shared("secret-file", "timestamp-header", "signature-header", "scheme", "scheme-file", "timeout", "count")
	flags = append(flags,
		cli.NewFlag("effort", cli.Text, "N", "try N times as many compositions").With("1").Checked(isEffort),
		cli.NewFlag("word", cli.List, "TEXT", "possibly signed text that no sample contains").Checked(isWord),
		kindFlag("kind of all samples, request or notification (default: by the event)").OnLine(),
		cli.NewFlag("entry", cli.List, "N", "entry of a HAR file or a JSON list").Checked(cli.AtLeast(1)).OnLine(),
		cli.NewFlag("url", cli.Text, "TEXT", "choose the entries with TEXT in their address").OnLine(),
		cli.NewFlag("body", cli.File, "FILE", "file with the body, if FILE does not contain it").OnLine(),
		cli.NewFlag("out", cli.File, "DIR", "write scheme.txt and scheme.go.txt to DIR").Checked(cli.Written).OnLine(),
		cli.NewFlag("replace", cli.Bool, "", "overwrite files of -out that have another scheme").OnLine(),
		cli.NewFlag("listen", cli.Text, "ADDR", "receive notifications, and search them").Checked(cli.HostPort).OnLine(),
		answerFlag("status of the responses of -listen"),
		cli.NewFlag("proxy", cli.Bool, "", "forward requests from -addr to -to, and search accepted requests").OnLine(),
		cli.NewFlag("addr", cli.Text, "ADDR", "address of -proxy").With("localhost:9000").Checked(cli.HostPort).OnLine(),
		cli.NewFlag("to", cli.Address, "URL", "the service behind -proxy, without a path").Checked(cli.Origin).OnLine(),
		cli.NewFlag("save", cli.File, "DIR", "save the messages of -listen and -proxy in DIR").Checked(cli.Written).OnLine(),
		cli.NewFlag("demo", cli.Bool, "", "sign samples with a hidden composition, and find it").OnLine(),
	)
	return cli.Command{
		Name:    "discover",
		Summary: "Find out how messages are signed, from one correctly signed message",
		Usage:   "FILE... | -",
		MaxArgs: -1,
		Flags:   flags,
		Notes: `A sample is an accepted request or a notification: HTTP text, a curl command, JSON of common tools and logs, a
copied fetch call, an .http file, or printed headers with -body. -scheme checks a scheme instead of searching. A search
of the other kind of messages with the same -out confirms or completes the scheme.

-listen responds with 503 by its own choice, so that a service with redelivery sends the notification again. -proxy
forwards the bytes of a request, but the Host becomes the host of -to, so a signature over the Host fails. A request
with a 2xx response becomes a sample. Both modes end on finding a scheme, or with -count N after N signed messages.`,
		Examples: []string{
			"paymentsvc discover -secret-file project.key notification.http",
			"paymentsvc discover -secret-file project.key -listen localhost:9000 -save captured -timeout 10m",
			`paymentsvc discover -secret-file project.key -scheme 'hex(timestamp "." body)' notification.http`,
			"paymentsvc discover -demo",
		},
		Run: runDiscover,
	}
}

func isEffort(text string) error {
	effort, err := strconv.ParseFloat(text, 64)
	return cli.Want(err == nil && effort > 0 && effort < 1e6, "want a number above 0, such as 10")
}

func isWord(text string) error { return cli.Want(text != "", "want a nonempty text") }

// discovery is the state of one discover command.
type discovery struct {
	*cli.Call
	options discover.Options
	samples []sample
	earlier string // the scheme of an earlier search in the directory of -out; "" without one or with -replace
}

func runDiscover(ctx context.Context, c *cli.Call) error {
	d := &discovery{Call: c}
	if err := d.checkFlags(); err != nil {
		return err
	}
	if c.Bool("demo") {
		hidden := compositions()
		return d.demo(ctx, hidden[rand.IntN(len(hidden))]) //nolint:gosec // no secret
	}
	var err error
	d.options.Secret, err = c.Secret()
	if err != nil {
		return err
	}
	if err := d.readOut(); err != nil {
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

// checks reports whether the command line has a scheme to check. A scheme in the settings is only an earlier result.
func (d *discovery) checks() bool {
	return d.Value("scheme").Origin == "-scheme" || d.Value("scheme-file").Origin == "-scheme-file"
}

func (d *discovery) checkFlags() error {
	modes := 0
	for _, on := range []bool{len(d.Args) > 0, d.Set("listen"), d.Bool("proxy"), d.Bool("demo")} {
		if on {
			modes++
		}
	}
	switch {
	case modes != 1:
		return cli.Usagef("want one of FILE, - for standard input, -listen, -proxy and -demo")
	case d.checks() && len(d.Args) == 0:
		return cli.Usagef("-scheme checks files, so it needs FILE")
	case d.Bool("proxy") && d.Text("to") == "":
		return cli.Usagef("-to: not set; want the service behind -proxy, such as https://test.example")
	}
	d.options.Effort, _ = strconv.ParseFloat(d.Text("effort"), 64) // isEffort has checked it
	d.options.Words = d.List("word")
	return nil
}

// readFiles reads the samples.
func (d *discovery) readFiles() error {
	o := capture.Options{URL: d.Text("url")}
	if d.Set("signature-header") {
		o.Signature = d.Text("signature-header")
	}
	if d.Set("body") {
		body, err := d.ReadInput("-body", d.Text("body"))
		if err != nil {
			return err
		}
		o.Body = append([]byte{}, body...) // not nil, because nil means no -body
		o.BodyName = d.Value("body").Texts[0]
	}
	entries := d.List("entry")
	if len(entries) == 0 {
		entries = []string{""}
	}
	for _, file := range d.Args {
		for _, entry := range entries {
			o.Entry, _ = strconv.Atoi(entry) // the flag has checked it
			m, err := readCapture(d.Call, file, o)
			if err != nil {
				return err
			}
			s, err := d.sample(m)
			if err != nil {
				return cli.Usagef("%w", err)
			}
			switch {
			case o.Body != nil: // verify has no -body
			case entry != "":
				s.file = capture.ShellWord(file) + " -entry " + entry
			default:
				s.file = capture.ShellWord(file)
			}
			d.samples = append(d.samples, s)
		}
	}
	return nil
}

// sample is a message with its signature and the names of its timestamp and signature headers.
type sample struct {
	discover.Sample
	captured             capture.Message
	file                 string // for the printed command verify, or ""
	timestamp, signature string // header names
}

func (s sample) sameSignature(other sample) bool { return other.Signature == s.Signature }

// decompressed decompresses the body. It returns false for an uncompressed, corrupt or very long body. Samples do not
// store the result, because a decompressed body can be long.
func (s sample) decompressed() ([]byte, bool) {
	const most = 16 << 20 // bytes; a few kilobytes can decompress to gigabytes
	return capture.Decompressed(s.Message.Header, s.Message.Body, most)
}

// sample finds the timestamp and the signature of a message. Errors contain the file and the line, but no value.
func (d *discovery) sample(m capture.Message) (sample, error) {
	s := sample{captured: m}
	var err error
	looksSigned := func(name, _ string) bool { return capture.LooksSigned(name) }
	s.signature, err = d.header(m, "signature", looksSigned)
	if err != nil {
		return s, err
	}
	looksStamped := func(name, value string) bool {
		name = strings.ToLower(name)
		return (strings.Contains(name, "time") || strings.Contains(name, "date")) && capture.IsDigits(value)
	}
	s.timestamp, err = d.header(m, "timestamp", looksStamped)
	if err != nil {
		return s, err
	}
	s.Sample = discover.Sample{
		Name: m.Source, Signature: m.Header.Get(s.signature),
		Message: paymentsvc.Message{
			Method: m.Method, URL: m.URL, Header: m.Header, Timestamp: m.Header.Get(s.timestamp), Body: m.Body,
		},
	}
	if !capture.IsDigits(s.Message.Timestamp) {
		return s, fmt.Errorf("%s:%d: the header %s is not Unix seconds in digits", m.Source, m.Line(s.timestamp), s.timestamp)
	}
	body, ok := s.decompressed()
	if !ok {
		body = m.Body
	}
	s.Message.Kind = kindOf(d.Call, body)
	if m.URL != nil && m.URL.Host+m.URL.Path == "" {
		s.Message.URL = nil // nil means an unknown address
	}
	return s, nil
}

// header returns the name of the timestamp or signature header. If the flag is not set and its default header is
// missing, it chooses the only similar header and prints a note. Other missing or duplicate headers are errors.
func (d *discovery) header(m capture.Message, what string, similar func(name, value string) bool) (string, error) {
	flag := what + "-header"
	name := d.Text(flag)
	fail := func(format string, args ...any) (string, error) {
		return "", fmt.Errorf("%s:%d: %w", m.Source, m.Line(name), fmt.Errorf(format, args...))
	}
	switch n := len(m.Header.Values(name)); {
	case n == 1:
		return name, nil
	case n > 1:
		return fail("%d %s headers, want exactly 1", n, name)
	case d.Set(flag):
		return fail("no header %s", name)
	}
	var guesses []string
	for _, other := range slices.Sorted(maps.Keys(m.Header)) {
		if len(m.Header[other]) == 1 && similar(other, m.Header.Get(other)) {
			guesses = append(guesses, other)
		}
	}
	switch len(guesses) {
	case 0:
		return fail("no %s header; name it with -%s", what, flag)
	case 1:
		d.Note("using the header %s as the %s; -%s chooses another header", guesses[0], what, flag)
		return guesses[0], nil
	}
	return fail("no %s header; choose with -%s: %s", what, flag, strings.Join(guesses, ", "))
}
